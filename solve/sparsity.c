/* The weights that go are found without sorting: the bits of a score >= 0 are ordered like the
 * score, and a histogram of 11 bits at a time narrows down the score at which the cut falls. What
 * lies below it goes, of those on it as many as are still missing, in order or, with random ties,
 * by the same narrowing of their drawn numbers. Near ties: once the cut is known, all scores around
 * it are taken for one and it is looked for again. All counts are integers: no order of threads
 * matters. */
#include "solve/sparsity.h"

#include <float.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/half.h"
#include "runtime/random.h"
#include "runtime/threads.h"

enum { DIGIT = 11, BUCKETS = 1 << DIGIT, ROWS_PER_CHUNK = 16 };

/* Bits of scores that count as equal, from low to high. */
typedef struct band {
    uint32_t low, high;
} band;

static const band no_band = {.low = 1, .high = 0};

/* Where the entries of some rows are cut. */
typedef struct cut {
    band near;
    uint64_t missing; /* that still go of those on the cut */
    uint64_t level;   /* as level_of gives it */
    uint64_t draw;    /* random ties: of those on this level, the draw that is the cut */
    bool drawn;       /* `draw` is being narrowed down, or is known */
    uint64_t prefix;  /* the bits above `shift` + `width` that are known */
    unsigned shift, width;
} cut;

typedef struct choice {
    const pare_ctx *cx;
    const pare_sparsity *s;
    const pare_sparsity_part *part;
    const float *score;
    uint8_t *keep;
    uint64_t gone;         /* of each row, or of all */
    uint64_t *histogram;   /* [workers, BUCKETS] */
    uint64_t *ties;        /* [n] entries on the cut, then those of the rows before */
    const cut *cut;        /* of the matrix */
    atomic_size_t bad_row; /* n when there is none */
} choice;

static uint64_t gone(double ratio, uint64_t count)
{
    return (uint64_t)(ratio * (double)count + 1e-6);
}

static size_t group_kept(const pare_sparsity *s, size_t count)
{
    return (s->keep * count + s->of - 1) / s->of;
}

pare_status pare_sparsity_check(pare_ctx *cx, const pare_sparsity *s)
{
    if (s->of == 0 && !(s->ratio > 0 && s->ratio < 1))
        return pare_fail(cx, PARE_EINVAL, "sparsity %g is not between 0 and 1", s->ratio);
    if (s->of > 0 && (s->keep < 1 || s->keep >= s->of || s->of > PARE_SPARSITY_OF_MAX))
        return pare_fail(cx, PARE_EINVAL,
                         "pattern %u:%u is not N:M with 1 <= N < M <= 64, N that stay of M",
                         s->keep, s->of);
    if (!(s->tie_width >= 0 && s->tie_width <= 1))
        return pare_fail(cx, PARE_EINVAL, "tie_width %g is not between 0 and 1", s->tie_width);
    return PARE_OK;
}

uint64_t pare_sparsity_kept(const pare_sparsity *s, size_t n, size_t k)
{
    if (s->of)
        return (uint64_t)n * (k / s->of * s->keep + group_kept(s, k % s->of));
    if (s->by_row)
        return (uint64_t)n * (k - gone(s->ratio, k));
    return (uint64_t)n * k - gone(s->ratio, (uint64_t)n * k);
}

/* Ordered like the score; a zero has no sign here. */
static uint32_t bits_of(float score)
{
    return pare_f32_bits(score) & 0x7fffffff;
}

/* The bits of a score, those of the lowest for all that count as equal. */
static uint32_t level_of(const band *near, float score)
{
    const uint32_t v = bits_of(score);
    return v >= near->low && v <= near->high ? near->low : v;
}

/* What counts as equal to the score at which the cut falls; that score itself whatever it is. */
static band band_around(const pare_sparsity *s, uint32_t bits)
{
    const double c = (double)pare_f32_from_bits(bits);
    const uint32_t low = bits_of((float)(c * (1 - s->tie_width)));
    const uint32_t high = bits_of((float)(c * (1 + s->tie_width)));
    return (band){low < bits ? low : bits, high > bits ? high : bits};
}

static uint64_t draw_of(const pare_sparsity *s, uint64_t index)
{
    static const uint64_t purpose = 0x7469657300000000; /* apart from other uses of the seed */
    return pare_random_u64(s->seed, purpose + s->tensor, index);
}

/* A group of N:M. */
typedef struct group {
    const pare_sparsity *s;
    const float *score;
    size_t count;
    uint64_t index; /* of the first */
    band near;
} group;

/* Of two entries, a before b: true when b goes first. */
static bool later_goes(const group *g, size_t a, size_t b)
{
    const uint32_t x = level_of(&g->near, g->score[a]), y = level_of(&g->near, g->score[b]);
    if (x != y || !g->s->random_ties)
        return y < x;
    return draw_of(g->s, g->index + b) < draw_of(g->s, g->index + a);
}

/* Marks those that go; the last of them. */
static size_t choose_lowest(const group *g, uint8_t *keep)
{
    size_t lowest = 0;
    memset(keep, 1, g->count);
    for (size_t left = g->count - group_kept(g->s, g->count); left > 0; left--) {
        lowest = g->count;
        for (size_t i = 0; i < g->count; i++)
            if (keep[i] && (lowest == g->count || later_goes(g, lowest, i)))
                lowest = i;
        keep[lowest] = 0;
    }
    return lowest;
}

void pare_sparsity_group(const pare_sparsity *s, const float *score, size_t count, uint64_t index,
                         uint8_t *keep)
{
    group g = {s, score, count, index, no_band};
    const size_t last = choose_lowest(&g, keep);
    if (s->random_ties && s->tie_width > 0) {
        g.near = band_around(s, bits_of(score[last]));
        (void)choose_lowest(&g, keep);
    }
}

static uint64_t index_of(const choice *c, size_t row, size_t column)
{
    return (uint64_t)row * c->part->k + c->part->c0 + column;
}

/* Adds the entries of rows [r0, r1) with the known prefix to the histogram of their next bits. */
static void count_rows(const choice *c, const cut *at, size_t r0, size_t r1, uint64_t *histogram)
{
    const size_t count = c->part->count;
    const uint64_t mask = (1u << at->width) - 1;
    for (size_t i = r0; i < r1; i++)
        for (size_t j = 0; j < count; j++) {
            uint64_t v = level_of(&at->near, c->score[i * count + j]);
            if (at->drawn) {
                if (v != at->level)
                    continue;
                v = draw_of(c->s, index_of(c, i, j));
            }
            v >>= at->shift;
            if (v >> at->width == at->prefix)
                histogram[v & mask]++;
        }
}

typedef struct count_call {
    const choice *c;
    const cut *at;
} count_call;

static void count_chunk(void *arg, size_t begin, size_t end, size_t worker)
{
    const count_call *const call = arg;
    count_rows(call->c, call->at, begin, end, call->c->histogram + worker * BUCKETS);
}

/* Histogram of one row, or of all rows when there are more; in *h. */
static void count_all(const choice *c, const cut *at, size_t r0, size_t r1, uint64_t *h)
{
    if (r1 - r0 == 1) {
        memset(h, 0, BUCKETS * sizeof *h);
        count_rows(c, at, r0, r1, h);
        return;
    }
    const size_t workers = pare_threads(c->cx);
    count_call call = {c, at};
    memset(c->histogram, 0, workers * BUCKETS * sizeof *h);
    pare_parallel(c->cx, c->part->n, ROWS_PER_CHUNK, count_chunk, &call);
    for (size_t w = 1; w < workers; w++)
        for (size_t b = 0; b < BUCKETS; b++)
            h[b] += c->histogram[w * BUCKETS + b];
}

/* The value, of `bits` bits, at which the cut falls. */
static uint64_t narrow(const choice *c, cut *at, unsigned bits, size_t r0, size_t r1, uint64_t *h)
{
    at->prefix = 0;
    at->shift = bits;
    while (at->shift > 0) {
        at->width = at->shift < DIGIT ? at->shift : DIGIT;
        at->shift -= at->width;
        count_all(c, at, r0, r1, h);
        uint64_t b = 0;
        while (b + 1 < BUCKETS && h[b] < at->missing)
            at->missing -= h[b++];
        at->prefix = at->prefix << at->width | b;
    }
    return at->prefix;
}

static cut find_cut(const choice *c, size_t r0, size_t r1, uint64_t *h)
{
    cut at = {.near = no_band, .missing = c->gone};
    at.level = narrow(c, &at, 32, r0, r1, h);
    if (c->s->random_ties && c->s->tie_width > 0) {
        at = (cut){.near = band_around(c->s, (uint32_t)at.level), .missing = c->gone};
        at.level = narrow(c, &at, 32, r0, r1, h);
    }
    at.drawn = c->s->random_ties;
    if (at.drawn)
        at.draw = narrow(c, &at, 64, r0, r1, h);
    return at;
}

/* -1: below the cut, 0: on it, 1: above. */
static int side(const choice *c, const cut *at, size_t row, size_t column)
{
    const uint64_t v = level_of(&at->near, c->score[row * c->part->count + column]);
    if (v != at->level || !at->drawn)
        return v < at->level ? -1 : v > at->level;
    const uint64_t draw = draw_of(c->s, index_of(c, row, column));
    return draw < at->draw ? -1 : draw > at->draw;
}

/* `before`: entries on the cut in rows before. */
static void mark_row(const choice *c, const cut *at, size_t row, uint64_t before)
{
    const size_t count = c->part->count;
    for (size_t j = 0; j < count; j++) {
        const int where = side(c, at, row, j);
        c->keep[row * count + j] = where > 0 || (where == 0 && before >= at->missing);
        before += where == 0;
    }
}

static void choose_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const choice *const c = arg;
    for (size_t i = begin; i < end; i++) {
        const cut at = find_cut(c, i, i + 1, c->histogram + worker * BUCKETS);
        mark_row(c, &at, i, 0);
    }
}

static void choose_groups(void *arg, size_t begin, size_t end, size_t worker)
{
    const choice *const c = arg;
    const size_t k = c->part->k, of = c->s->of;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        for (size_t j = 0; j < k; j += of)
            pare_sparsity_group(c->s, c->score + i * k + j, k - j < of ? k - j : of, i * k + j,
                                c->keep + i * k + j);
}

static void count_ties(void *arg, size_t begin, size_t end, size_t worker)
{
    const choice *const c = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        for (size_t j = 0; j < c->part->count; j++)
            c->ties[i] += side(c, c->cut, i, j) == 0;
}

static void mark_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const choice *const c = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        mark_row(c, c->cut, i, c->ties[i]);
}

static void choose_matrix(choice *c)
{
    const size_t n = c->part->n;
    cut at = find_cut(c, 0, n, c->histogram);
    c->cut = &at;
    pare_parallel(c->cx, n, ROWS_PER_CHUNK, count_ties, c);
    for (size_t i = 0, before = 0; i < n; i++) {
        const uint64_t here = c->ties[i];
        c->ties[i] = before;
        before += here;
    }
    pare_parallel(c->cx, n, ROWS_PER_CHUNK, mark_rows, c);
}

static bool usable(float score)
{
    return score >= 0 && score <= FLT_MAX;
}

static void check_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    choice *const c = arg;
    const size_t count = c->part->count;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        bool good = true;
        for (size_t j = 0; j < count; j++)
            good &= usable(c->score[i * count + j]);
        size_t first = atomic_load(&c->bad_row);
        while (!good && i < first && !atomic_compare_exchange_weak(&c->bad_row, &first, i))
            continue;
    }
}

static pare_status check_scores(pare_ctx *cx, choice *c)
{
    const pare_sparsity_part *const p = c->part;
    pare_parallel(cx, p->n, ROWS_PER_CHUNK, check_rows, c);
    const size_t row = atomic_load(&c->bad_row);
    for (size_t j = 0; row < p->n && j < p->count; j++) {
        const float x = c->score[row * p->count + j];
        if (!usable(x))
            return pare_fail(cx, PARE_ENUMERIC,
                             "row %zu, input %zu: score %g is not finite and at least 0", row,
                             p->c0 + j, (double)x);
    }
    return PARE_OK;
}

static pare_status run(pare_ctx *cx, pare_arena *scratch, choice *c)
{
    const pare_sparsity_part *const p = c->part;
    if (c->s->of) {
        pare_parallel(cx, p->n, ROWS_PER_CHUNK, choose_groups, c);
        return PARE_OK;
    }
    const uint64_t rows = c->s->by_row ? 1 : p->n;
    c->gone = gone(c->s->ratio, rows * (p->c0 + p->count)) - gone(c->s->ratio, rows * p->c0);
    memset(c->keep, 1, p->n * p->count);
    if (c->gone == 0)
        return PARE_OK;
    c->histogram = PARE_NEW(scratch, uint64_t, pare_threads(cx) * BUCKETS);
    c->ties = c->histogram ? PARE_NEW(scratch, uint64_t, p->n) : NULL;
    if (!c->ties)
        return PARE_ENOMEM;
    if (c->s->by_row)
        pare_parallel(cx, p->n, ROWS_PER_CHUNK, choose_rows, c);
    else
        choose_matrix(c);
    return PARE_OK;
}

static pare_status choose(pare_ctx *cx, pare_arena *scratch, const pare_sparsity *s,
                          const pare_sparsity_part *part, const float *score, uint8_t *keep)
{
    choice c = {.cx = cx, .s = s, .part = part, .score = score, .keep = keep};
    c.bad_row = part->n;
    PARE_TRY(pare_sparsity_check(cx, s));
    PARE_TRY(check_scores(cx, &c));
    const pare_mark mark = pare_arena_mark(scratch);
    const pare_status status = run(cx, scratch, &c);
    pare_arena_rewind(scratch, mark);
    return status;
}

pare_status pare_sparsity_choose(pare_ctx *cx, pare_arena *scratch, const pare_sparsity *s,
                                 const float *score, size_t n, size_t k, uint8_t *keep)
{
    const pare_sparsity_part all = {.n = n, .k = k, .count = k};
    return choose(cx, scratch, s, &all, score, keep);
}

pare_status pare_sparsity_choose_part(pare_ctx *cx, pare_arena *scratch, const pare_sparsity *s,
                                      const pare_sparsity_part *part, const float *score,
                                      uint8_t *keep)
{
    if (s->of)
        return pare_fail(cx, PARE_EINVAL, "pattern %u:%u is chosen group by group", s->keep, s->of);
    return choose(cx, scratch, s, part, score, keep);
}
