/* What is told to the system about the use of files. It may listen, and nothing depends on it. */
#define _GNU_SOURCE /* madvise, sync_file_range */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/file.h"

void pare_file_read_ahead(const pare_file *f)
{
    if (f->data)
        (void)madvise((void *)f->data, (size_t)f->bytes, MADV_WILLNEED);
}

void pare_file_forget(const pare_file *f, uint64_t first, uint64_t count)
{
    if (!f->data || first >= f->bytes)
        return;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t end = count < f->bytes - first ? first + count : f->bytes;
    const uint64_t from = (first + page - 1) / page * page;
    const uint64_t to = end == f->bytes ? end : end / page * page;
    if (from < to)
        (void)madvise((void *)(f->data + from), (size_t)(to - from), MADV_DONTNEED);
}

void pare_file_start_writing(int fd, uint64_t offset, uint64_t len)
{
#if defined(SYNC_FILE_RANGE_WRITE)
    (void)sync_file_range(fd, (off_t)offset, (off_t)len, SYNC_FILE_RANGE_WRITE);
#else
    (void)fd;
    (void)offset;
    (void)len;
#endif
}
