#define _DEFAULT_SOURCE /* madvise */
#include "runtime/arena.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define PARE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PARE_ASAN 1
#endif
#endif
#ifdef PARE_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
enum { RED_ZONE = PARE_ALIGN };
#else
#define POISON(p, n)   ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
enum { RED_ZONE = 0 };
#endif

/* Small: small objects between large ones leave the rest of such a block behind each time. */
enum { BLOCK_MIN = 8 * 1024 };

/* `base` is the first aligned byte behind the header; `size` counts from there. */
typedef struct pare_arena_block {
    struct pare_arena_block *older;
    unsigned char *base;
    size_t used, size, total;
} pare_arena_block;

/* Large scratch is taken and given back for each matrix: pages of 2 MiB where the system has them
 * cost a fraction of the faults. Only whole ones inside the block, so that none of it is new. */
static void use_large_pages(void *block, size_t bytes)
{
#if defined(MADV_HUGEPAGE)
    const uintptr_t page = (uintptr_t)2 << 20, end = ((uintptr_t)block + bytes) & ~(page - 1);
    const uintptr_t begin = ((uintptr_t)block + page - 1) & ~(page - 1);
    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#else
    (void)block;
    (void)bytes;
#endif
}

static pare_status add_block(pare_arena *a, size_t bytes)
{
    pare_ctx *const cx = a->cx;
    if (bytes > SIZE_MAX - sizeof(pare_arena_block) - PARE_ALIGN)
        return pare_fail(cx, PARE_ENOMEM, "arena block of %zu bytes", bytes);
    const size_t total = sizeof(pare_arena_block) + PARE_ALIGN + bytes;
    pare_arena_block *const b = cx->alloc.resize(cx->alloc.self, NULL, 0, total);
    if (!b)
        return pare_fail(cx, PARE_ENOMEM,
                         "out of memory: %zu more bytes on top of %zu (limit %zu, 0 is none)",
                         total, cx->live_bytes, cx->limit_bytes);
    const uintptr_t start = (uintptr_t)(b + 1);
    const size_t pad = (size_t)(-start & (PARE_ALIGN - 1));
    use_large_pages(b, total);
    *b = (pare_arena_block){a->newest, (unsigned char *)(b + 1) + pad, 0, bytes, total};
    POISON(b->base, b->size);
    a->newest = b;
    return PARE_OK;
}

static void drop_newest(pare_arena *a)
{
    pare_arena_block *const b = a->newest;
    a->newest = b->older;
    UNPOISON(b->base, b->size);
    (void)a->cx->alloc.resize(a->cx->alloc.self, b, b->total, 0);
}

pare_status pare_arena_reserve(pare_arena *a, size_t bytes)
{
    const pare_arena_block *const b = a->newest;
    return b && bytes <= b->size - b->used ? PARE_OK : add_block(a, bytes);
}

pare_status pare_arena_init(pare_ctx *cx, pare_arena *a, size_t bytes)
{
    *a = (pare_arena){.cx = cx};
    return bytes ? add_block(a, bytes) : PARE_OK;
}

void pare_arena_release(pare_arena *a)
{
    while (a->newest)
        drop_newest(a);
}

/* Offset of the next object in `b` and the bytes behind it, or SIZE_MAX when `bytes` do not fit. */
static size_t place(const pare_arena_block *b, size_t bytes)
{
    const size_t start = (b->used + RED_ZONE + (PARE_ALIGN - 1)) & ~(size_t)(PARE_ALIGN - 1);
    return start <= b->size && bytes <= b->size - start ? start : SIZE_MAX;
}

void *pare_arena_take_raw(pare_arena *a, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        (void)pare_fail(a->cx, PARE_ENOMEM, "%zu objects of %zu bytes", count, size);
        return NULL;
    }
    size_t start = a->newest ? place(a->newest, bytes) : SIZE_MAX;
    if (start == SIZE_MAX) {
        const size_t want = bytes + RED_ZONE + PARE_ALIGN;
        if (add_block(a, want < BLOCK_MIN ? BLOCK_MIN : want) != PARE_OK)
            return NULL;
        start = place(a->newest, bytes);
    }
    pare_arena_block *const b = a->newest;
    b->used = start + bytes;
    UNPOISON(b->base + start, bytes);
    return b->base + start;
}

void *pare_arena_take(pare_arena *a, size_t count, size_t size)
{
    void *const p = pare_arena_take_raw(a, count, size);
    return p ? memset(p, 0, count * size) : NULL;
}

char *pare_arena_text(pare_arena *a, const char *text, size_t len)
{
    char *const copy = len < SIZE_MAX ? pare_arena_take(a, len + 1, 1) : NULL;
    return copy ? memcpy(copy, text, len) : NULL;
}

pare_mark pare_arena_mark(const pare_arena *a)
{
    return (pare_mark){.block = a->newest, .used = a->newest ? a->newest->used : 0};
}

void pare_arena_rewind(pare_arena *a, pare_mark m)
{
    while (a->newest != m.block) {
        assert(a->newest);
        drop_newest(a);
    }
    if (m.block) {
        assert(m.used <= m.block->used);
        POISON(m.block->base + m.used, m.block->used - m.used);
        m.block->used = m.used;
    }
}
