#include "runtime/regex.h"

#include <stddef.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum {
    STEPS_FIRST = 256,
    STEPS_MORE = 16, /* factor between tries */
    HEAP_KIB = 64 * 1024
};

struct pare_regex {
    pcre2_code *code;
};

struct pare_regex_matcher {
    pare_ctx *cx;
    pcre2_general_context *general;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    uint64_t budget;
};

/* PCRE2 does not say how large the object is that it gives back: the size stands in front of it. */
typedef union header {
    size_t bytes;
    max_align_t align;
} header;

static void *take_memory(size_t bytes, void *cx)
{
    const pare_alloc *const alloc = &((pare_ctx *)cx)->alloc;
    if (bytes > SIZE_MAX - sizeof(header))
        return NULL;
    header *const h = alloc->resize(alloc->self, NULL, 0, bytes + sizeof(header));
    if (!h)
        return NULL;
    h->bytes = bytes + sizeof(header);
    return h + 1;
}

static void give_memory(void *ptr, void *cx)
{
    const pare_alloc *const alloc = &((pare_ctx *)cx)->alloc;
    header *const h = ptr ? (header *)ptr - 1 : NULL;
    if (h)
        (void)alloc->resize(alloc->self, h, h->bytes, 0);
}

static void *take_of_arena(size_t bytes, void *arena)
{
    return pare_arena_take(arena, bytes, 1);
}

static void keep_in_arena(void *ptr, void *arena)
{
    (void)ptr;
    (void)arena;
}

static pare_status no_memory(pare_ctx *cx)
{
    return pare_fail(cx, PARE_ENOMEM, "out of memory in a regular expression");
}

pare_status pare_regex_new(pare_arena *a, const char *text, size_t len, pare_regex **out)
{
    pcre2_general_context *const general =
        pcre2_general_context_create(take_of_arena, keep_in_arena, a);
    pcre2_compile_context *const how = general ? pcre2_compile_context_create(general) : NULL;
    pare_regex *const e = PARE_NEW(a, pare_regex, 1);
    if (!how || !e)
        return no_memory(a->cx);
    (void)pcre2_set_newline(how, PCRE2_NEWLINE_LF);
    int error = 0;
    PCRE2_SIZE at = 0;
    e->code = pcre2_compile((PCRE2_SPTR)text, len, PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                            &error, &at, how);
    *out = e->code ? e : NULL;
    if (e->code)
        return PARE_OK;
    if (error == PCRE2_ERROR_HEAP_FAILED)
        return no_memory(a->cx);
    PCRE2_UCHAR why[160];
    if (pcre2_get_error_message(error, why, sizeof why) < 0)
        why[0] = '\0';
    return pare_fail(a->cx, PARE_EFORMAT, "%s at byte %zu", (const char *)why, (size_t)at);
}

bool pare_regex_matches_empty(const pare_regex *e)
{
    uint32_t empty = 1;
    return pcre2_pattern_info(e->code, PCRE2_INFO_MATCHEMPTY, &empty) != 0 || empty;
}

pare_status pare_regex_matcher_new(pare_ctx *cx, uint64_t budget, pare_regex_matcher **out)
{
    pcre2_general_context *const general =
        pcre2_general_context_create(take_memory, give_memory, cx);
    pare_regex_matcher *const m = take_memory(sizeof *m, cx);
    *out = m;
    if (m)
        *m = (pare_regex_matcher){cx, general, general ? pcre2_match_data_create(1, general) : NULL,
                                  general ? pcre2_match_context_create(general) : NULL, budget};
    else
        pcre2_general_context_free(general);
    if (!m || !m->match || !m->limits) {
        pare_regex_matcher_free(m);
        *out = NULL;
        return no_memory(cx);
    }
    (void)pcre2_set_heap_limit(m->limits, HEAP_KIB);
    return PARE_OK;
}

void pare_regex_matcher_free(pare_regex_matcher *m)
{
    if (!m)
        return;
    pcre2_match_context_free(m->limits);
    pcre2_match_data_free(m->match);
    pcre2_general_context_free(m->general);
    give_memory(m, m->cx);
}

static pare_status match_failed(pare_ctx *cx, int error)
{
    if (error == PCRE2_ERROR_NOMEMORY)
        return no_memory(cx);
    if (error == PCRE2_ERROR_MATCHLIMIT || error == PCRE2_ERROR_HEAPLIMIT ||
        error == PCRE2_ERROR_DEPTHLIMIT)
        return pare_fail(cx, PARE_ENOTSUP, "too many steps on this text");
    return pare_fail(cx, PARE_ENOTSUP, "fails on this text (PCRE2 %d)", error);
}

pare_status pare_regex_match(pare_regex_matcher *m, const pare_regex *e, const char *text,
                             size_t len, size_t at, size_t *end)
{
    uint32_t steps = STEPS_FIRST;
    int got;
    for (;;) {
        (void)pcre2_set_match_limit(m->limits, steps);
        got = pcre2_match(e->code, (PCRE2_SPTR)text, len, at, PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK,
                          m->match, m->limits);
        if (got != PCRE2_ERROR_MATCHLIMIT || steps > UINT32_MAX / STEPS_MORE ||
            m->budget < (uint64_t)steps * STEPS_MORE)
            break;
        steps *= STEPS_MORE;
        m->budget -= steps;
    }
    *end = SIZE_MAX;
    if (got == PCRE2_ERROR_NOMATCH)
        return PARE_OK;
    if (got < 0)
        return match_failed(m->cx, got);
    *end = pcre2_get_ovector_pointer(m->match)[1];
    return PARE_OK;
}
