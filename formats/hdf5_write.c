#include "formats/hdf5_write.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "formats/hdf5_internal.h"
#include "formats/hdf5_protocol.h"
#include "formats/little_endian.h"
#include "runtime/file.h"

/* How long the process may take no byte, and how often an interrupt is looked for meanwhile. */
enum { SILENCE_MS = 60 * 1000, SLICE_MS = 200 };

static void put_le(unsigned char *out, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> 8 * i);
}

static pare_status wait_for(const pare_hdf5_writer *w, int fd, short what)
{
    struct pollfd p = {.fd = fd, .events = what};
    for (int waited = 0; waited < SILENCE_MS; waited += SLICE_MS) {
        PARE_TRY(pare_ctx_interrupted(w->cx));
        const int n = poll(&p, 1, SLICE_MS);
        if (n > 0)
            return PARE_OK;
        if (n < 0 && errno != EINTR)
            return pare_file_fail(w->cx, w->path, "wait for the HDF5 writer of");
    }
    return pare_fail(w->cx, PARE_EIO, "%s: the HDF5 writer did nothing for %d seconds", w->path,
                     SILENCE_MS / 1000);
}

/* The end of what the process says is PARE_EIO without a message. */
static pare_status get(const pare_hdf5_writer *w, void *bytes, size_t len)
{
    unsigned char *p = bytes;
    while (len > 0) {
        PARE_TRY(wait_for(w, w->from, POLLIN));
        const ssize_t n = read(w->from, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return PARE_EIO;
        p += n;
        len -= (size_t)n;
    }
    return PARE_OK;
}

/* What the process says at its end: that the file is whole, or why it is not. */
static pare_status read_end(const pare_hdf5_writer *w)
{
    unsigned char head[PARE_HDF5_HEAD];
    char text[PARE_HDF5_TEXT_MAX + 1] = "";
    pare_status s = get(w, head, PARE_HDF5_GREETING_BYTES);
    if (s == PARE_OK)
        s = get(w, head, sizeof head);
    if (s == PARE_OK && head[0] == 'Z' && pare_le32(head + 4) == w->tensors)
        return PARE_OK;
    if (s == PARE_OK && head[0] == 'E' && pare_le32(head + 4) <= PARE_HDF5_TEXT_MAX)
        s = get(w, text, pare_le32(head + 4));
    if (s != PARE_OK && s != PARE_EIO)
        return s;
    return pare_fail(w->cx, PARE_EIO, "%s: the HDF5 writer ended early%s%s; is the disk full?",
                     w->path, text[0] ? ": " : "", text);
}

static pare_status send_bytes(const pare_hdf5_writer *w, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    while (len > 0) {
        PARE_TRY(wait_for(w, w->to, POLLOUT));
        const ssize_t n = send(w->to, p, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
            continue;
        if (n <= 0) {
            const pare_status s = read_end(w); /* it fails before it reads all */
            return s == PARE_OK ? pare_file_fail(w->cx, w->path, "write") : s;
        }
        p += n;
        len -= (size_t)n;
    }
    return PARE_OK;
}

static pare_status start(pare_hdf5_writer *w, const char *helper, uint64_t most)
{
    char digits[24];
    int to[2], from[2];
    pid_t pid = 0;
    (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)most);
    const char *const ask[PARE__HDF5_ASK] = {w->path, PARE_HDF5_WRITE, digits};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, to) != 0)
        return pare_file_fail(w->cx, w->path, "make a pipe to the HDF5 writer of");
    if (pipe(from) != 0) {
        (void)close(to[0]);
        (void)close(to[1]);
        return pare_file_fail(w->cx, w->path, "make a pipe to the HDF5 writer of");
    }
    for (int i = 0; i < 2; i++) {
        (void)fcntl(to[i], F_SETFD, FD_CLOEXEC);
        (void)fcntl(from[i], F_SETFD, FD_CLOEXEC);
    }
    const int e = pare__hdf5_spawn(helper, ask, to[1], from[1], w->file, &pid);
    (void)close(to[1]);
    (void)close(from[1]);
    w->to = to[0];
    w->from = from[0];
    w->pid = e == 0 ? pid : 0;
    if (e == 0)
        return PARE_OK;
    (void)close(w->to);
    (void)close(w->from);
    errno = e;
    return pare_file_fail(w->cx, helper, "start");
}

pare_status pare_hdf5_create(pare_ctx *cx, const char *path, int file, uint64_t most,
                             pare_hdf5_writer *w)
{
    char helper[PATH_MAX];
    *w = (pare_hdf5_writer){.cx = cx, .path = path, .file = file};
    PARE_TRY(pare__hdf5_find(cx, path, helper));
    return pare__hdf5_begin(w, helper, most);
}

pare_status pare__hdf5_begin(pare_hdf5_writer *w, const char *helper, uint64_t most)
{
    PARE_TRY(start(w, helper, most));
    const pare_status s = send_bytes(w, PARE_HDF5_GREETING, PARE_HDF5_GREETING_BYTES);
    if (s != PARE_OK)
        pare_hdf5_abandon(w);
    return s;
}

/* The number of a type in records, or below 0. */
static int type_of(pare_dtype dtype)
{
    switch (dtype) {
#define X(name, bytes)                                                                             \
    case PARE_##name: return PARE_HDF5_##name;
        PARE_HDF5_TYPES(X)
#undef X
    default: return -1;
    }
}

static pare_status put_head(pare_hdf5_writer *w, const pare_tensor *t, bool gzip)
{
    const size_t len = strlen(t->name);
    unsigned char head[PARE_HDF5_HEAD + 16] = {'T', (unsigned char)type_of(t->dtype),
                                               (unsigned char)t->rank, gzip ? PARE_HDF5_GZIP : 0};
    put_le(head + 4, len, 4);
    for (uint32_t i = 0; i < t->rank; i++)
        put_le(head + PARE_HDF5_HEAD + 8 * (size_t)i, t->shape[i], 8);
    PARE_TRY(send_bytes(w, head, PARE_HDF5_HEAD + 8 * (size_t)t->rank));
    w->tensors++;
    return send_bytes(w, t->name, len);
}

pare_status pare_hdf5_put(pare_hdf5_writer *w, const pare_tensor *t, bool gzip)
{
    const bool ranked = t->rank == 1 || t->rank == 2;
    const uint64_t row = ranked && t->shape[0] ? t->bytes / t->shape[0] : 0;
    const unsigned char *data = t->data;
    if (!ranked || type_of(t->dtype) < 0 || row > PARE_HDF5_STEP_MAX ||
        strlen(t->name) > PARE_HDF5_NAME_MAX)
        return pare_fail(w->cx, PARE_EINVAL,
                         "%s: %s has rows of more than %d bytes, or another "
                         "shape than is written",
                         w->path, t->name, PARE_HDF5_STEP_MAX);
    PARE_TRY(put_head(w, t, gzip));
    const uint64_t step = row ? pare_hdf5_step(t->shape[0], row) : 0;
    for (uint64_t first = 0; row && first < t->shape[0]; first += step) {
        const uint64_t left = t->shape[0] - first, bytes = (left < step ? left : step) * row;
        unsigned char head[PARE_HDF5_HEAD] = {'D'};
        put_le(head + 4, bytes, 4);
        PARE_TRY(send_bytes(w, head, sizeof head));
        PARE_TRY(send_bytes(w, data + first * row, (size_t)bytes));
    }
    return PARE_OK;
}

static void close_writer(pare_hdf5_writer *w, bool at_once)
{
    (void)close(w->to);
    (void)close(w->from);
    (void)pare__hdf5_end(w->pid, at_once);
    w->pid = 0;
}

pare_status pare_hdf5_finish(pare_hdf5_writer *w)
{
    unsigned char end[PARE_HDF5_HEAD] = {'Z'};
    put_le(end + 4, w->tensors, 4);
    pare_status s = send_bytes(w, end, sizeof end);
    if (s == PARE_OK)
        s = read_end(w);
    close_writer(w, s != PARE_OK);
    return s;
}

void pare_hdf5_abandon(pare_hdf5_writer *w)
{
    if (w->pid)
        close_writer(w, true);
}
