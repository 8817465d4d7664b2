/* The half of pare-hdf5 that makes a file: datasets out of records (hdf5_protocol.h), chunk by
 * chunk as they come, each chunk with a checksum. No times are written: the same records give the
 * same bytes. */
#define H5_USE_110_API
#include <errno.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/hdf5_helper.h"
#include "formats/hdf5_protocol.h"
#include "formats/hdf5_sandbox.h"

enum { RANK_MAX = 2 };

/* A dataset while its elements come. */
typedef struct set {
    char name[PARE_HDF5_NAME_MAX + 1];
    hid_t id, type;
    int rank;
    hsize_t size[RANK_MAX];
    uint64_t row, step; /* bytes of an index of the first dimension, indices of a chunk */
} set;

static unsigned char step_bytes[PARE_HDF5_STEP_MAX];

static bool get(void *bytes, size_t len)
{
    unsigned char *p = bytes;
    while (len > 0) {
        const ssize_t n = read(STDIN_FILENO, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return pare__helper_fail(PARE_HDF5_REFUSED, "the records ended early");
        p += n;
        len -= (size_t)n;
    }
    return true;
}

static uint64_t number(const unsigned char *bytes, size_t count)
{
    uint64_t value = 0;
    for (size_t i = count; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

/* Types that pare keeps; below 0: none of them. */
static hid_t type_of(int type)
{
    switch (type) {
    case PARE_HDF5_F32: return H5T_IEEE_F32LE;
    case PARE_HDF5_F64: return H5T_IEEE_F64LE;
    case PARE_HDF5_I32: return H5T_STD_I32LE;
    case PARE_HDF5_U64: return H5T_STD_U64LE;
    case PARE_HDF5_U8: return H5T_STD_U8LE;
    default: return -1;
    }
}

static bool fail_write(const set *s)
{
    return pare__helper_fail(PARE_HDF5_BAD_FILE, "%s: cannot be written", s->name);
}

/* A dataset without elements has no chunks. */
static bool make_set(hid_t file, set *s, bool gzip)
{
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE), links = H5Pcreate(H5P_LINK_CREATE);
    const hid_t space = H5Screate_simple(s->rank, s->size, NULL);
    const bool empty = s->step == 0 || s->row == 0;
    const hsize_t chunk[RANK_MAX] = {s->step, s->size[1]};
    bool ok = how >= 0 && links >= 0 && space >= 0 &&
              H5Pset_create_intermediate_group(links, 1) >= 0 &&
              H5Pset_obj_track_times(how, 0) >= 0;
    if (ok && !empty)
        ok = H5Pset_chunk(how, s->rank, chunk) >= 0 &&
             (!gzip || (H5Pset_shuffle(how) >= 0 && H5Pset_deflate(how, 1) >= 0)) &&
             H5Pset_fletcher32(how) >= 0;
    s->id = ok ? H5Dcreate2(file, s->name, s->type, space, links, how, H5P_DEFAULT) : -1;
    if (space >= 0)
        (void)H5Sclose(space);
    if (links >= 0)
        (void)H5Pclose(links);
    if (how >= 0)
        (void)H5Pclose(how);
    return s->id >= 0 || fail_write(s);
}

/* Indices first .. first + count - 1 of the first dimension, which stand in step_bytes. */
static bool put_step(const set *s, hsize_t first, hsize_t count)
{
    const hsize_t start[RANK_MAX] = {first, 0}, box[RANK_MAX] = {count, s->size[1]};
    const hid_t space = H5Dget_space(s->id), memory = H5Screate_simple(s->rank, box, NULL);
    const bool ok = space >= 0 && memory >= 0 &&
                    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, box, NULL) >= 0 &&
                    H5Dwrite(s->id, s->type, memory, space, H5P_DEFAULT, step_bytes) >= 0;
    if (memory >= 0)
        (void)H5Sclose(memory);
    if (space >= 0)
        (void)H5Sclose(space);
    return ok || fail_write(s);
}

static bool get_elements(const set *s)
{
    for (hsize_t first = 0; s->row > 0 && first < s->size[0]; first += s->step) {
        const hsize_t left = s->size[0] - first, count = left < s->step ? left : s->step;
        unsigned char head[PARE_HDF5_HEAD];
        if (!get(head, sizeof head))
            return false;
        if (head[0] != 'D' || number(head + 4, 4) != count * s->row)
            return pare__helper_fail(PARE_HDF5_REFUSED, "%s: not the next step of its data",
                                     s->name);
        if (!get(step_bytes, (size_t)(count * s->row)) || !put_step(s, first, count))
            return false;
    }
    return true;
}

/* Sizes and name behind the head. */
static bool get_set(const unsigned char *head, set *s)
{
    unsigned char sizes[8 * RANK_MAX];
    const size_t len = (size_t)number(head + 4, 4);
    *s = (set){.type = type_of(head[1]), .rank = head[2], .size = {1, 1}};
    if (s->type < 0 || s->rank < 1 || s->rank > RANK_MAX || len == 0 || len > PARE_HDF5_NAME_MAX)
        return pare__helper_fail(PARE_HDF5_REFUSED, "a tensor of another kind than is written");
    if (!get(sizes, 8 * (size_t)s->rank) || !get(s->name, len))
        return false;
    for (int i = 0; i < s->rank; i++)
        s->size[i] = number(sizes + 8 * i, 8);
    for (size_t i = 0; i < len; i++)
        s->name[i] = s->name[i] == '.' ? '/' : s->name[i];
    s->row = H5Tget_size(s->type);
    if (s->size[1] > PARE_HDF5_STEP_MAX / s->row)
        return pare__helper_fail(PARE_HDF5_REFUSED, "%s: rows of more than %d bytes", s->name,
                                 PARE_HDF5_STEP_MAX);
    s->row *= s->size[1];
    s->step = s->row ? pare_hdf5_step(s->size[0], s->row) : 0;
    return true;
}

static bool get_tensor(hid_t file, const unsigned char *head)
{
    set s;
    if (!get_set(head, &s) || !make_set(file, &s, head[3] & PARE_HDF5_GZIP))
        return false;
    const bool ok = get_elements(&s);
    return (H5Dclose(s.id) >= 0 || fail_write(&s)) && ok;
}

/* Every record, up to the end, which counts the tensors. */
static bool get_records(hid_t file, uint32_t *tensors)
{
    unsigned char head[PARE_HDF5_HEAD];
    for (*tensors = 0;; ++*tensors) {
        if (!get(head, sizeof head))
            return false;
        if (head[0] == 'Z' && number(head + 4, 4) == *tensors)
            return true;
        if (head[0] != 'T')
            return pare__helper_fail(PARE_HDF5_REFUSED, "a record of kind %u after %u tensors",
                                     head[0], *tensors);
        if (!get_tensor(file, head))
            return false;
    }
}

/* What is there is cut off: whoever asks has looked at it. The name may mean another file by now:
 * the one that is open is opened once more, which libhdf5 does by name alone. */
static hid_t make_file(void)
{
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", PARE_HDF5_FILE);
    const hid_t how = H5Pcreate(H5P_FILE_ACCESS);
    const hid_t file = how >= 0 && H5Pset_fapl_sec2(how) >= 0
                           ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, how)
                           : -1;
    if (how >= 0)
        (void)H5Pclose(how);
    (void)close(PARE_HDF5_FILE);
    if (file >= 0 && H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0) /* says from now on what it is */
        return file;
    (void)pare__helper_fail(PARE_HDF5_BAD_FILE, "the file cannot be made");
    return -1;
}

bool pare__helper_write(const char *most)
{
    unsigned char head[PARE_HDF5_HEAD] = {'Z'};
    char greeting[PARE_HDF5_GREETING_BYTES];
    uint32_t tensors;
    const hid_t file = make_file();
    if (file < 0)
        return false;
    if (!pare_hdf5_sandbox_write(strtoull(most, NULL, 10)))
        return pare__helper_fail(PARE_HDF5_REFUSED, "limits cannot be set here");
    if (!get(greeting, sizeof greeting) ||
        memcmp(greeting, PARE_HDF5_GREETING, sizeof greeting) != 0)
        return pare__helper_fail(PARE_HDF5_REFUSED, "no greeting");
    if (!get_records(file, &tensors))
        return false;
    if (H5Fclose(file) < 0)
        return pare__helper_fail(PARE_HDF5_BAD_FILE, "the file cannot be closed");
    pare__helper_le(head + 4, tensors, 4);
    return pare__helper_put(head, sizeof head);
}
