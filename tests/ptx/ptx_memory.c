/* tests/ptx/ptx_memory.c - machines, and the memory of the device as the host sees it. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/ptx/ptx_memory.h"

static const uint64_t most_segment = ((uint64_t)1 << 32) - 2 * PTX_GUARD;

ptx_machine *ptx_machine_new(void)
{
    ptx_machine *const m = calloc(1, sizeof *m);
    if (!m)
        abort();
    return m;
}

static void segment_free(ptx_segment *s)
{
    free(s->bytes);
    free(s->defined);
    free(s->cells);
    free(s->sectors);
    *s = (ptx_segment){0};
}

void ptx_machine_free(ptx_machine *m)
{
    ptx_modules_free(m);
    for (size_t k = 0; k < m->segment_count; k++)
        segment_free(&m->segments[k]);
    free(m->segments);
    free(m->rows);
    free(m);
}

const ptx_fault *ptx_report(const ptx_machine *m)
{
    return &m->fault;
}

const ptx_counts *ptx_counted(const ptx_machine *m)
{
    return &m->counts;
}

bool ptx_refuse(ptx_machine *m, const char *format, ...)
{
    memset(&m->fault, 0, sizeof m->fault);
    va_list list;
    va_start(list, format);
    (void)vsnprintf(m->fault.text, sizeof m->fault.text, format, list);
    va_end(list);
    return false;
}

ptx_segment *ptx_segment_of(const ptx_machine *m, uint64_t address)
{
    const uint64_t index = (address >> 32) - PTX_HIGH_GLOBAL;
    return index < m->segment_count && m->segments[index].bytes ? &m->segments[index] : NULL;
}

uint64_t ptx_take(ptx_machine *m, uint64_t bytes)
{
    if (bytes > most_segment) {
        (void)ptx_refuse(m, "an allocation has at most 4 GiB, not %llu bytes",
                         (unsigned long long)bytes);
        return 0;
    }
    const ptx_segment s = {
        .bytes = malloc(bytes ? bytes : 1), .defined = calloc(bytes ? bytes : 1, 1), .size = bytes};
    if (!s.bytes || !s.defined) {
        free(s.bytes);
        free(s.defined);
        (void)ptx_refuse(m, "no memory for %llu bytes", (unsigned long long)bytes);
        return 0;
    }
    memset(s.bytes, 0xff, bytes);
    m->segments = ptx_grow(m->segments, m->segment_count, sizeof *m->segments);
    m->segments[m->segment_count] = s;
    return ((PTX_HIGH_GLOBAL + (uint64_t)m->segment_count++) << 32) + PTX_GUARD;
}

bool ptx_give(ptx_machine *m, uint64_t address)
{
    ptx_segment *const s = ptx_segment_of(m, address);
    if (!s || (uint32_t)address != PTX_GUARD)
        return ptx_refuse(m, "%#llx is not an allocation", (unsigned long long)address);
    segment_free(s);
    return true;
}

/* Offset in the allocation of [address, address + bytes). */
static ptx_segment *range(ptx_machine *m, uint64_t address, uint64_t bytes, uint64_t *at)
{
    ptx_segment *const s = ptx_segment_of(m, address);
    *at = (uint32_t)address - (uint64_t)PTX_GUARD;
    if (s && (uint32_t)address >= PTX_GUARD && *at <= s->size && bytes <= s->size - *at)
        return s;
    (void)ptx_refuse(m, "%llu bytes at %#llx are not inside of one allocation",
                     (unsigned long long)bytes, (unsigned long long)address);
    return NULL;
}

bool ptx_put(ptx_machine *m, uint64_t address, const void *source, uint64_t bytes)
{
    uint64_t at;
    ptx_segment *const s = range(m, address, bytes, &at);
    if (!s)
        return false;
    if (bytes)
        memcpy(s->bytes + at, source, bytes);
    memset(s->defined + at, 1, bytes);
    return true;
}

bool ptx_get(ptx_machine *m, void *target, uint64_t address, uint64_t bytes)
{
    uint64_t at;
    const ptx_segment *const s = range(m, address, bytes, &at);
    if (s && bytes)
        memcpy(target, s->bytes + at, bytes);
    return s != NULL;
}

bool ptx_fill(ptx_machine *m, uint64_t address, uint8_t value, uint64_t bytes)
{
    uint64_t at;
    ptx_segment *const s = range(m, address, bytes, &at);
    if (!s)
        return false;
    memset(s->bytes + at, value, bytes);
    memset(s->defined + at, 1, bytes);
    return true;
}

bool ptx_copy(ptx_machine *m, uint64_t to, uint64_t from, uint64_t bytes)
{
    uint64_t at_to, at_from;
    const ptx_segment *const t = range(m, to, bytes, &at_to);
    const ptx_segment *const s = t ? range(m, from, bytes, &at_from) : NULL;
    if (!s)
        return false;
    memmove(t->bytes + at_to, s->bytes + at_from, bytes);
    memmove(t->defined + at_to, s->defined + at_from, bytes);
    return true;
}

void *ptx_view(ptx_machine *m, uint64_t address, uint64_t bytes)
{
    uint64_t at;
    const ptx_segment *const s = range(m, address, bytes, &at);
    return s ? s->bytes + at : NULL;
}

void ptx_define(ptx_machine *m, uint64_t address, uint64_t bytes)
{
    uint64_t at;
    ptx_segment *const s = range(m, address, bytes, &at);
    if (s)
        memset(s->defined + at, 1, bytes);
}
