/* The program pare-hdf5: reads one HDF5 file and writes its tensors to standard output, or writes
 * one (hdf5_helper_write.c), see hdf5_protocol.h. It runs apart from pare because libhdf5 crashes
 * on many malformed files: a crash here is a message there. Only objects inside the file itself are
 * followed, by hard links. */
#define H5_USE_110_API
#include <errno.h>
#include <hdf5.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/hdf5_helper.h"
#include "formats/hdf5_protocol.h"
#include "formats/hdf5_sandbox.h"

enum { DEPTH_MAX = 32, SLOTS = 1 << 20, SLAB = 4 << 20, FILTERS_MAX = 8 };
enum { INHERITED_MAX = 256 };
enum { CHUNK_SLOTS = 12421, CHUNK_BYTES = 64 << 20 };

/* One file per process: its walk and what it has seen. The standard library's heap stays with
 * libhdf5. */
static struct walk {
    char path[PARE_HDF5_NAME_MAX + 1]; /* of the object at hand; groups and names by dots */
    size_t path_len;
    unsigned depth;
    uint32_t tensors;
    uint32_t objects;
    bool bare;           /* no elements are wanted */
    const char *only;    /* the member of the root that is wanted; NULL: all */
    bool failed;         /* a failure was written */
    haddr_t seen[SLOTS]; /* addresses of objects; 0: free */
    unsigned char slab[SLAB];
} w;

bool pare__helper_put(const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    while (len > 0) {
        const ssize_t n = write(STDOUT_FILENO, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

void pare__helper_le(unsigned char *out, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> 8 * i);
}

bool pare__helper_fail(int kind, const char *fmt, ...)
{
    char text[PARE_HDF5_TEXT_MAX];
    unsigned char head[PARE_HDF5_HEAD] = {'E', (unsigned char)kind};
    va_list args;
    if (w.failed)
        return false;
    w.failed = true;
    va_start(args, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    pare__helper_le(head + 4, len, 4);
    (void)(pare__helper_put(head, sizeof head) && pare__helper_put(text, len));
    return false;
}

/* False when the address was there already, or there are too many. */
static bool see(haddr_t address)
{
    if (++w.objects > SLOTS / 2)
        return pare__helper_fail(PARE_HDF5_BAD_FILE, "more than %d objects", SLOTS / 2);
    size_t at = (size_t)(address * 0x9e3779b97f4a7c15u >> 32) % SLOTS;
    while (w.seen[at] != 0 && w.seen[at] != address + 1)
        at = (at + 1) % SLOTS;
    if (w.seen[at] != 0)
        return pare__helper_fail(
            PARE_HDF5_REFUSED,
            "%s: an object that was met before under another name; every object has one", w.path);
    w.seen[at] = address + 1;
    return true;
}

/* F16 and BF16 are told by their fields: libraries of this age have no names for them. */
static int float_type(hid_t type)
{
    size_t sign, exponent, exponent_bits, fraction, fraction_bits;
    if (H5Tequal(type, H5T_IEEE_F32LE) > 0)
        return PARE_HDF5_F32;
    if (H5Tequal(type, H5T_IEEE_F64LE) > 0)
        return PARE_HDF5_F64;
    if (H5Tget_size(type) != 2 || H5Tget_order(type) != H5T_ORDER_LE ||
        H5Tget_fields(type, &sign, &exponent, &exponent_bits, &fraction, &fraction_bits) < 0 ||
        sign != 15 || fraction != 0 || exponent != fraction_bits ||
        H5Tget_norm(type) != H5T_NORM_IMPLIED)
        return -1;
    if (exponent_bits == 5 && fraction_bits == 10 && H5Tget_ebias(type) == 15)
        return PARE_HDF5_F16;
    if (exponent_bits == 8 && fraction_bits == 7 && H5Tget_ebias(type) == 127)
        return PARE_HDF5_BF16;
    return -1;
}

static int integer_type(hid_t type)
{
    static const int of_signed[] = {-1, PARE_HDF5_I8, PARE_HDF5_I16, -1, PARE_HDF5_I32, -1,
                                    -1, -1,           PARE_HDF5_I64};
    static const int of_unsigned[] = {-1, PARE_HDF5_U8, PARE_HDF5_U16, -1, PARE_HDF5_U32, -1,
                                      -1, -1,           PARE_HDF5_U64};
    const size_t size = H5Tget_size(type);
    if (size > 8 || H5Tget_precision(type) != 8 * size ||
        (size > 1 && H5Tget_order(type) != H5T_ORDER_LE))
        return -1;
    return H5Tget_sign(type) == H5T_SGN_NONE ? of_unsigned[size] : of_signed[size];
}

/* The type of elements, or -1. An enumeration of bytes is how truth values are stored. */
static int element_type(hid_t type)
{
    switch (H5Tget_class(type)) {
    case H5T_FLOAT: return float_type(type);
    case H5T_INTEGER: return integer_type(type);
    case H5T_ENUM: return H5Tget_size(type) == 1 ? PARE_HDF5_BOOL : -1;
    default: return -1;
    }
}

static bool check_filters(hid_t plan)
{
    const int filters = H5Pget_nfilters(plan);
    if (filters < 0 || filters > FILTERS_MAX)
        return pare__helper_fail(PARE_HDF5_BAD_FILE, "%s: its filters cannot be read", w.path);
    for (unsigned i = 0; i < (unsigned)filters; i++) {
        char name[64] = "";
        unsigned flags, config, values[8];
        size_t count = 8;
        const H5Z_filter_t f =
            H5Pget_filter2(plan, i, &flags, &count, values, sizeof name, name, &config);
        if (f != H5Z_FILTER_DEFLATE && f != H5Z_FILTER_SHUFFLE && f != H5Z_FILTER_FLETCHER32)
            return pare__helper_fail(
                PARE_HDF5_REFUSED,
                "%s: filter %d (%.*s); only gzip, shuffle and fletcher32 are read", w.path, (int)f,
                (int)strnlen(name, sizeof name), name);
    }
    return true;
}

/* Every chunk was written, so that no element comes from nowhere. */
static bool check_allocated(hid_t set, hid_t plan, hid_t space, H5D_layout_t layout, int rank,
                            const hsize_t *size)
{
    hsize_t chunk[PARE_HDF5_RANK_MAX], expected = 1, count = 0;
    H5D_space_status_t status;
    bool whole = true;
    if (layout == H5D_CHUNKED) {
        whole = H5Pget_chunk(plan, PARE_HDF5_RANK_MAX, chunk) == rank &&
                H5Dget_num_chunks(set, space, &count) >= 0;
        for (int i = 0; whole && i < rank; i++) {
            const hsize_t along = chunk[i] ? size[i] / chunk[i] + (size[i] % chunk[i] != 0) : 0;
            whole = along > 0 && !__builtin_mul_overflow(expected, along, &expected);
        }
        whole = whole && count == expected;
    } else {
        whole = H5Dget_space_status(set, &status) >= 0 && status == H5D_SPACE_STATUS_ALLOCATED;
    }
    return whole ||
           pare__helper_fail(PARE_HDF5_BAD_FILE, "%s: parts of it were never written", w.path);
}

/* Where the elements lie: in this file, plain or compressed by what is known. */
static bool check_storage(hid_t set, hid_t space, int rank, const hsize_t *size, bool empty)
{
    const hid_t plan = H5Dget_create_plist(set);
    if (plan < 0)
        return pare__helper_fail(PARE_HDF5_BAD_FILE, "%s: its properties cannot be read", w.path);
    const H5D_layout_t layout = H5Pget_layout(plan);
    bool ok = false;
    if (layout == H5D_VIRTUAL)
        (void)pare__helper_fail(PARE_HDF5_REFUSED, "%s: a virtual dataset, made of other files",
                                w.path);
    else if (layout != H5D_COMPACT && layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED)
        (void)pare__helper_fail(PARE_HDF5_BAD_FILE, "%s: its layout is unknown", w.path);
    else if (H5Pget_external_count(plan) != 0)
        (void)pare__helper_fail(PARE_HDF5_REFUSED,
                                "%s: its data lie in another file (external storage)", w.path);
    else
        ok =
            check_filters(plan) && (empty || check_allocated(set, plan, space, layout, rank, size));
    (void)H5Pclose(plan);
    return ok;
}

static bool put_head(int type, int rank, const hsize_t *size)
{
    unsigned char head[PARE_HDF5_HEAD + 8 * PARE_HDF5_RANK_MAX] = {'T', (unsigned char)type,
                                                                   (unsigned char)rank};
    pare__helper_le(head + 4, w.path_len, 4);
    for (int i = 0; i < rank; i++)
        pare__helper_le(head + PARE_HDF5_HEAD + 8 * i, size[i], 8);
    w.tensors++;
    return pare__helper_put(head, PARE_HDF5_HEAD + 8 * (size_t)rank) &&
           pare__helper_put(w.path, w.path_len);
}

/* Reads the box of `count` elements from `start` on and writes it. */
static bool put_box(hid_t set, hid_t type, hid_t space, int rank, const hsize_t *start,
                    const hsize_t *count, size_t bytes)
{
    const hid_t memory = rank ? H5Screate_simple(rank, count, NULL) : H5Scopy(space);
    const bool chosen =
        memory >= 0 &&
        (rank == 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0);
    const bool ok = chosen && H5Dread(set, type, memory, space, H5P_DEFAULT, w.slab) >= 0;
    if (memory >= 0)
        (void)H5Sclose(memory);
    if (!ok)
        return pare__helper_fail(PARE_HDF5_BAD_FILE, "%s: its data cannot be read", w.path);
    unsigned char head[PARE_HDF5_HEAD] = {'D'};
    pare__helper_le(head + 4, bytes, 4);
    return pare__helper_put(head, sizeof head) && pare__helper_put(w.slab, bytes);
}

/* All elements in order, as boxes that fit into the slab: whole in the dimensions behind `split`,
 * some steps along it, one step in those in front. */
static bool put_elements(hid_t set, hid_t type, hid_t space, int rank, const hsize_t *size,
                         size_t element)
{
    hsize_t start[PARE_HDF5_RANK_MAX] = {0}, count[PARE_HDF5_RANK_MAX];
    size_t inner = element;
    int split = rank - 1;
    while (split > 0 && size[split] <= SLAB / inner)
        inner *= (size_t)size[split--];
    if (rank == 0)
        return put_box(set, type, space, 0, start, count, element);
    for (int i = 0; i < rank; i++)
        count[i] = i < split ? 1 : size[i];
    for (;;) {
        const hsize_t left = size[split] - start[split], most = SLAB / inner;
        count[split] = left < most ? left : most;
        if (!put_box(set, type, space, rank, start, count, (size_t)count[split] * inner))
            return false;
        start[split] += count[split];
        for (int i = split; i > 0 && start[i] == size[i]; i--) {
            start[i] = 0;
            start[i - 1]++;
        }
        if (start[0] == size[0])
            return true;
    }
}

static bool read_space(hid_t space, int *rank, hsize_t *size, bool *empty)
{
    const H5S_class_t kind = H5Sget_simple_extent_type(space);
    *rank = kind == H5S_SIMPLE ? H5Sget_simple_extent_ndims(space) : 0;
    if ((kind != H5S_SIMPLE && kind != H5S_SCALAR) || *rank < 0 || *rank > PARE_HDF5_RANK_MAX)
        return pare__helper_fail(PARE_HDF5_BAD_FILE, "%s: not an array of at most %d dimensions",
                                 w.path, PARE_HDF5_RANK_MAX);
    if (*rank > 0 && H5Sget_simple_extent_dims(space, size, NULL) != *rank)
        return pare__helper_fail(PARE_HDF5_BAD_FILE, "%s: its sizes cannot be read", w.path);
    *empty = false;
    for (int i = 0; i < *rank; i++)
        *empty = *empty || size[i] == 0;
    return true;
}

static bool put_dataset(hid_t set)
{
    static const size_t bytes[] = {
#define X(name, size) size,
        PARE_HDF5_TYPES(X)
#undef X
    };
    hsize_t size[PARE_HDF5_RANK_MAX] = {0};
    int rank = 0;
    bool empty = false, ok = false;
    const hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    const int kind = type >= 0 ? element_type(type) : -1;
    if (type < 0 || space < 0)
        (void)pare__helper_fail(PARE_HDF5_BAD_FILE, "%s: its type or space cannot be read", w.path);
    else if (kind < 0)
        (void)pare__helper_fail(PARE_HDF5_REFUSED,
                                "%s: elements that are no little-endian integers or IEEE numbers",
                                w.path);
    else if (w.tensors == PARE_HDF5_TENSORS_MAX)
        (void)pare__helper_fail(PARE_HDF5_BAD_FILE, "more than %d tensors", PARE_HDF5_TENSORS_MAX);
    else
        ok = read_space(space, &rank, size, &empty) &&
             check_storage(set, space, rank, size, empty) && put_head(kind, rank, size) &&
             (empty || w.bare || put_elements(set, type, space, rank, size, bytes[kind]));
    if (space >= 0)
        (void)H5Sclose(space);
    if (type >= 0)
        (void)H5Tclose(type);
    return ok;
}

static bool walk_group(hid_t group);

/* A group, a dataset, or a named type, which is none of ours. */
static bool put_object(hid_t object)
{
    H5O_info_t info;
    if (H5Oget_info(object, &info) < 0)
        return pare__helper_fail(PARE_HDF5_BAD_FILE, "%s: cannot be read", w.path);
    if (!see(info.addr))
        return false;
    switch (info.type) {
    case H5O_TYPE_GROUP: return walk_group(object);
    case H5O_TYPE_DATASET: return put_dataset(object);
    case H5O_TYPE_NAMED_DATATYPE: return true;
    default: return pare__helper_fail(PARE_HDF5_BAD_FILE, "%s: an object of unknown kind", w.path);
    }
}

static herr_t visit(hid_t group, const char *name, const H5L_info_t *info, void *data)
{
    const size_t before = w.path_len, len = strlen(name), dot = before > 0;
    (void)data;
    if (w.only && w.depth == 1 && strcmp(name, w.only) != 0)
        return 0;
    if (before + dot + len > PARE_HDF5_NAME_MAX) {
        (void)pare__helper_fail(PARE_HDF5_BAD_FILE, "%.64s...: a name of more than %d bytes",
                                w.path, PARE_HDF5_NAME_MAX);
        return -1;
    }
    if (dot)
        w.path[before] = '.';
    memcpy(w.path + before + dot, name, len + 1);
    w.path_len = before + dot + len;
    bool ok = false;
    if (info->type != H5L_TYPE_HARD) {
        (void)pare__helper_fail(PARE_HDF5_REFUSED,
                                "%s: a%s link; only what lies in the file itself is read", w.path,
                                info->type == H5L_TYPE_SOFT ? " symbolic" : "n external");
    } else {
        const hid_t object = H5Oopen(group, name, H5P_DEFAULT);
        if (object < 0)
            (void)pare__helper_fail(PARE_HDF5_BAD_FILE,
                                    "%s: cannot be opened: damaged, or written for a newer libhdf5",
                                    w.path);
        else
            ok = put_object(object);
        if (object >= 0)
            (void)H5Oclose(object);
    }
    w.path_len = before;
    w.path[before] = '\0';
    return ok ? 0 : -1;
}

static bool walk_group(hid_t group)
{
    if (w.depth == DEPTH_MAX)
        return pare__helper_fail(PARE_HDF5_BAD_FILE, "%s: groups deeper than %d", w.path,
                                 DEPTH_MAX);
    w.depth++;
    hsize_t at = 0;
    const bool ok = H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &at, visit, NULL) >= 0;
    w.depth--;
    return ok || pare__helper_fail(PARE_HDF5_BAD_FILE, "%s: a group that cannot be read",
                                   w.path_len ? w.path : "the root");
}

static bool run(const char *path)
{
    const hid_t how = H5Pcreate(H5P_FILE_ACCESS);
    if (how < 0 || H5Pset_fapl_sec2(how) < 0 ||
        H5Pset_cache(how, 0, CHUNK_SLOTS, CHUNK_BYTES, 0.75) < 0)
        return pare__helper_fail(PARE_HDF5_NO_MEMORY, "libhdf5 cannot be set up");
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, how);
    if (file < 0)
        return pare__helper_fail(PARE_HDF5_BAD_FILE,
                                 "not an HDF5 file, truncated, or damaged at its start");
    if (!pare_hdf5_sandbox_close())
        return pare__helper_fail(PARE_HDF5_REFUSED, "opening files cannot be forbidden here");
    const hid_t root = H5Gopen2(file, "/", H5P_DEFAULT);
    if (root < 0)
        return pare__helper_fail(PARE_HDF5_BAD_FILE, "the root group cannot be opened");
    if (!put_object(root))
        return false;
    return !w.only || w.tensors > 0 ||
           pare__helper_fail(PARE_HDF5_BAD_FILE, "nothing called %s is in it", w.only);
}

/* What is asked of a file. */
static bool understand(int argc, char **argv)
{
    const bool named = argc == 4 && strcmp(argv[2], PARE_HDF5_ONLY) == 0;
    w.bare = argc == 3 && strcmp(argv[2], PARE_HDF5_BARE) == 0;
    w.only = named ? argv[3] : NULL;
    return argc == 2 || w.bare || named || (argc == 4 && strcmp(argv[2], PARE_HDF5_WRITE) == 0);
}

/* pare-hdf5 FILE [bare | only NAME | write BYTES] */
int main(int argc, char **argv)
{
    struct stat st;
    const bool understood = understand(argc, argv), writes = understood && argc == 4 && !w.only;
    for (int fd = writes ? PARE_HDF5_FILE + 1 : STDERR_FILENO + 1; fd < INHERITED_MAX; fd++)
        (void)close(fd); /* whatever the parent left open */
    if (!understood || (!writes && stat(argv[1], &st) != 0) || isatty(STDOUT_FILENO)) {
        static const char usage[] = "pare-hdf5 is started by pare, for an HDF5 file\n";
        (void)!write(STDERR_FILENO, usage, sizeof usage - 1);
        return 2;
    }
    if (!pare__helper_put(PARE_HDF5_GREETING, PARE_HDF5_GREETING_BYTES))
        return 1;
    /* plugins could be any code; messages of the library are not wanted, ours say more */
    if (H5open() < 0 || H5PLset_loading_state(0) < 0 || H5Eset_auto2(H5E_DEFAULT, NULL, NULL) < 0)
        return !pare__helper_fail(PARE_HDF5_NO_MEMORY, "libhdf5 does not start");
    if (writes)
        return pare__helper_write(argv[3]) ? 0 : 1;
    if (!pare_hdf5_sandbox_enter(st.st_size > 0 ? (uint64_t)st.st_size : 0))
        return !pare__helper_fail(PARE_HDF5_REFUSED, "limits cannot be set here");
    unsigned char end[PARE_HDF5_HEAD] = {'Z'};
    if (!run(argv[1]))
        return 1;
    pare__helper_le(end + 4, w.tensors, 4);
    return pare__helper_put(end, sizeof end) ? 0 : 1;
}
