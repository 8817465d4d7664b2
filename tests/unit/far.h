/* tests/unit/far.h - a backend whose arrays the host cannot read: those of the CPU in pages of
 * their own, which are open while an operation runs on them and closed otherwise. Whoever touches
 * an array without put or get dies of SIGSEGV; an operation on memory of the host is refused.
 * Arrays are unmapped when they are rewound. */
#ifndef PARE_TESTS_FAR_H
#define PARE_TESTS_FAR_H

#include <sys/mman.h>

#include "runtime/block_ops.h"
#include "tests/unit/unit.h"

enum { FAR_ARRAYS = 256, FAR_MARKS = 16 };

typedef struct far_place {
    pare_backend backend;
    struct {
        void *at;
        size_t bytes;
    } array[FAR_ARRAYS];
    struct {
        pare_mark inner;
        size_t arrays; /* taken in front of it */
    } mark[FAR_MARKS];
    size_t arrays, marks, operations, puts, gets;
} far_place;

/* Opens or closes the pages of arrays; one that is none is left out. */
static inline pare_status far_protect(const pare_ops *o, const pare_array *x, size_t count, int how)
{
    const far_place *const far = o->backend.self;
    for (size_t i = 0; i < count; i++) {
        const uintptr_t first = (uintptr_t)x[i].at;
        size_t at = 0;
        while (at < far->arrays && first - (uintptr_t)far->array[at].at >= far->array[at].bytes)
            at++;
        if (!x[i].at)
            continue;
        if (at == far->arrays)
            return pare_fail(o->cx, PARE_EINVAL, "argument %zu is no array of this backend", i);
        ck_assert_uint_le(first - (uintptr_t)far->array[at].at +
                              x[i].rows * x[i].width * sizeof(float),
                          far->array[at].bytes);
        ck_assert_int_eq(mprotect(far->array[at].at, far->array[at].bytes, how), 0);
    }
    return PARE_OK;
}

/* Runs an operation of the CPU on the arrays that follow. */
#define FAR_RUN(call, ...)                                                                         \
    do {                                                                                           \
        const pare_array far_x[] = {__VA_ARGS__};                                                  \
        const size_t far_count = sizeof far_x / sizeof *far_x;                                     \
        const pare_ops cpu = {pare_cpu.op, pare_cpu, o->cx, o->scratch};                           \
        ((far_place *)o->backend.self)->operations++;                                              \
        PARE_TRY(far_protect(o, far_x, far_count, PROT_READ | PROT_WRITE));                        \
        const pare_status far_s = pare_cpu.op->call;                                               \
        PARE_TRY(far_protect(o, far_x, far_count, PROT_NONE));                                     \
        return far_s;                                                                              \
    } while (0)

static inline pare_status far_mark(const pare_ops *o, pare_mark *m)
{
    far_place *const far = o->backend.self;
    *m = pare_arena_mark(o->scratch);
    ck_assert_uint_lt(far->marks, FAR_MARKS);
    far->mark[far->marks].inner = *m;
    far->mark[far->marks++].arrays = far->arrays;
    return PARE_OK;
}

/* Marks behind this one may have been passed over on the way out of an error. */
static inline pare_status far_rewind(const pare_ops *o, pare_mark m)
{
    far_place *const far = o->backend.self;
    do {
        ck_assert_uint_gt(far->marks, 0);
        far->marks--;
    } while (far->mark[far->marks].inner.block != m.block ||
             far->mark[far->marks].inner.used != m.used);
    for (; far->arrays > far->mark[far->marks].arrays; far->arrays--)
        ck_assert_int_eq(munmap(far->array[far->arrays - 1].at, far->array[far->arrays - 1].bytes),
                         0);
    pare_arena_rewind(o->scratch, m);
    return PARE_OK;
}

/* A byte of the scratch, too, so that no two marks around an array are equal. */
static inline pare_status far_take(const pare_ops *o, size_t rows, size_t width, pare_array *y)
{
    far_place *const far = o->backend.self;
    const size_t bytes = rows * width * sizeof(float);
    ck_assert_uint_lt(far->arrays, FAR_ARRAYS);
    if (!pare_arena_take_raw(o->scratch, 1, 1))
        return PARE_ENOMEM;
    *y = (pare_array){.rows = rows, .width = width};
    y->at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(y->at, MAP_FAILED);
    far->array[far->arrays].at = y->at;
    far->array[far->arrays++].bytes = bytes;
    return PARE_OK;
}

static inline pare_status far_put(const pare_ops *o, const float *x, pare_array y)
{
    ((far_place *)o->backend.self)->puts++;
    FAR_RUN(put(&cpu, x, y), y);
}

static inline pare_status far_get(const pare_ops *o, pare_array x, float *y)
{
    ((far_place *)o->backend.self)->gets++;
    FAR_RUN(get(&cpu, x, y), x);
}

/* Caches lie in memory of the host. */
static inline pare_status far_kv_take(const pare_ops *o, const pare_config *c,
                                      const pare_kv_format *f, size_t sequences, size_t capacity,
                                      pare_kv *kv)
{
    return pare_kv_take_format(o->scratch, c, f, sequences, capacity, kv);
}

static inline pare_status far_kv_copy(const pare_ops *o, const pare_config *c, const pare_kv *from,
                                      size_t f, pare_kv *to, size_t t)
{
    (void)o;
    pare_kv_copy(c, from, f, to, t);
    return PARE_OK;
}

static inline pare_status far_zero(const pare_ops *o, pare_array y)
{
    FAR_RUN(zero(&cpu, y), y);
}

static inline pare_status far_embed(const pare_ops *o, const pare_model *m, const int32_t *tokens,
                                    pare_batch batch, pare_array y)
{
    FAR_RUN(embed(&cpu, m, tokens, batch, y), y);
}

static inline pare_status far_norm(const pare_ops *o, const pare_norm_of *n, pare_array x,
                                   pare_array y)
{
    FAR_RUN(norm(&cpu, n, x, y), x, y);
}

static inline pare_status far_linears(const pare_ops *o, const pare_linear *const *w, size_t count,
                                      bool exact, pare_array x, const pare_array *y)
{
    FAR_RUN(linears(&cpu, w, count, exact, x, y), x, y[0], count > 1 ? y[1] : y[0],
            count > 2 ? y[2] : y[0]);
}

static inline pare_status far_attend(const pare_ops *o, const pare_attend *a, pare_array q,
                                     pare_array k, pare_array v, pare_array y)
{
    FAR_RUN(attend(&cpu, a, q, k, v, y), q, k, v, y);
}

static inline pare_status far_recur(const pare_ops *o, const pare_recur *r, const pare_array *x,
                                    pare_array y)
{
    FAR_RUN(recur(&cpu, r, x, y), x[0], x[1], x[2], x[3], y);
}

static inline pare_status far_activate(const pare_ops *o, pare_act act, pare_array gate,
                                       pare_array up, pare_array y)
{
    FAR_RUN(activate(&cpu, act, gate, up, y), gate, up, y);
}

static inline pare_status far_add(const pare_ops *o, pare_array a, pare_array b, pare_array y)
{
    FAR_RUN(add(&cpu, a, b, y), a, b, y);
}

static inline pare_status far_turn(const pare_ops *o, pare_array x)
{
    FAR_RUN(turn(&cpu, x), x);
}

static inline pare_status far_round(const pare_ops *o, pare_array x)
{
    FAR_RUN(round(&cpu, x), x);
}

static inline pare_status far_pieces(const pare_ops *o, const pare_pieces *p, pare_array x,
                                     pare_array y)
{
    FAR_RUN(pieces(&cpu, p, x, y), x, y);
}

static inline pare_status far_route(const pare_ops *o, pare_array logit, const pare_router *how,
                                    pare_routes *r)
{
    FAR_RUN(route(&cpu, logit, how, r), logit);
}

static inline pare_status far_gather(const pare_ops *o, const pare_routes *r, size_t expert,
                                     pare_array x, pare_array y)
{
    FAR_RUN(gather(&cpu, r, expert, x, y), x, y);
}

static inline pare_status far_scatter(const pare_ops *o, const pare_routes *r, size_t expert,
                                      pare_array x, pare_array y)
{
    FAR_RUN(scatter(&cpu, r, expert, x, y), x, y);
}

static inline pare_status far_share(const pare_ops *o, pare_array gate, pare_array x, pare_array y)
{
    FAR_RUN(share(&cpu, gate, x, y), gate, x, y);
}

static inline pare_status far_rows(const pare_ops *o, const size_t *row, pare_array x, pare_array y)
{
    FAR_RUN(rows(&cpu, row, x, y), x, y);
}

static inline pare_status far_cap(const pare_ops *o, double cap, pare_array x)
{
    FAR_RUN(cap(&cpu, cap, x), x);
}

static inline pare_status far_score(const pare_ops *o, pare_array logit, pare_array base,
                                    const int32_t *target, pare_score *out)
{
    FAR_RUN(score(&cpu, logit, base, target, out), logit, base);
}

#define FAR_ENTRY(name, parameters) .name = far_##name,
static const pare_block_table far_table = {PARE_BLOCK_OPS(FAR_ENTRY)};
#undef FAR_ENTRY

static inline void far_begin(far_place *far)
{
    *far = (far_place){.backend = {.op = &far_table, .place = far, .self = far}};
}

/* Everything was rewound, and something ran. */
static inline void far_end(const far_place *far)
{
    ck_assert_uint_eq(far->arrays, 0);
    ck_assert_uint_eq(far->marks, 0);
    ck_assert_uint_gt(far->operations, 0);
}

#endif
