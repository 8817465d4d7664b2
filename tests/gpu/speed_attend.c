/* Attention of one token over caches of every kind, checked against the CPU; and what stands
 * between products. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/arch.h"
#include "runtime/kv_internal.h"
#include "runtime/random.h"
#include "tests/gpu/speed.h"

enum { CACHES = 64 };
static const size_t ROTATE = (size_t)200 << 20;

typedef struct attention {
    speed *s;
    pare_model model;
    pare_forward f;
    pare_cuda *c;
    pare_arena arena;
    float *q, *k, *v, *y, *want;
    pare_kv kv[CACHES], near; /* on the device; of the CPU */
    size_t caches, positions, bytes;
} attention;

/* Random bytes that are finite as F16 and as F32, and codes: the same at the same place of each
 * cache. */
typedef struct filler {
    attention *a;
    bool there;
    uint64_t place;
} filler;

static pare_status take(void *self, size_t bytes, void **at)
{
    filler *const f = self;
    pare_ctx *const cx = &f->a->s->cx;
    uint8_t *const near = pare_arena_take(&f->a->arena, 1, bytes + 8);
    if (!near)
        return PARE_ENOMEM;
    for (size_t i = 0; i < bytes; i += 8) {
        const uint64_t r = pare_random_u64(3, f->place, i);
        const uint64_t word = (r & 0x80ff80ff80ff80ffu) | 0x3c003c003c003c00u;
        memcpy(near + i, &word, sizeof word);
    }
    f->place++;
    *at = near;
    if (!f->there)
        return PARE_OK;
    PARE_TRY(pare__cuda_scratch_take(f->a->c, bytes, at));
    return f->a->s->real->op->put(cx, f->a->s->real, (pare_address)(uintptr_t)*at, near, bytes);
}

static pare_status fill(attention *a, bool there, pare_kv *kv)
{
    filler f = {.a = a, .there = there};
    pare_mark mark = pare_arena_mark(&a->arena);
    const pare_status s =
        pare__kv_take_by(&a->s->cx, take, &f, &a->model.config, &a->model.kv, 1, a->positions, kv);
    if (there)
        pare_arena_rewind(&a->arena, mark);
    return s;
}

/* One token behind all positions but one; `kv` on the side of `o`. */
static pare_status attend(attention *a, const pare_ops *o, pare_kv *kv, float *y)
{
    const pare_config *const c = &a->model.config;
    const pare_attend how = {.f = &a->f, .batch = {1, 1, a->positions - 1}, .kv = kv};
    pare_array q, k, v, out;
    PARE_TRY(o->op->take(o, 1, c->heads * c->head_dim, &q));
    PARE_TRY(o->op->take(o, 1, c->kv_heads * c->head_dim, &k));
    PARE_TRY(o->op->take(o, 1, c->kv_heads * c->head_dim, &v));
    PARE_TRY(o->op->take(o, 1, c->heads * c->head_dim, &out));
    PARE_TRY(o->op->put(o, a->q, q));
    PARE_TRY(o->op->put(o, a->k, k));
    PARE_TRY(o->op->put(o, a->v, v));
    PARE_TRY(o->op->attend(o, &how, q, k, v, out));
    return o->op->get(o, out, y);
}

static pare_status compare(attention *a)
{
    pare_forward f = a->f;
    const size_t n = a->model.config.heads * a->model.config.head_dim;
    double largest = 0, most = 0;
    f.backend = NULL;
    const pare_ops o = pare_ops_of(&a->s->cx, &a->arena, &f);
    PARE_TRY(fill(a, false, &a->near));
    PARE_TRY(attend(a, &o, &a->near, a->want));
    for (size_t i = 0; i < n; i++) {
        const double off = fabs((double)a->y[i] - (double)a->want[i]);
        largest = fmax(largest, fabs((double)a->want[i]));
        most = off > most || isnan(off) ? off : most;
    }
    return most <= 1e-3 * largest
               ? PARE_OK
               : pare_fail(
                     &a->s->cx, PARE_ENUMERIC,
                     "attention over %zu positions, cache %s: %g off the CPU's, whose largest "
                     "value is %g",
                     a->positions, pare_kv_method_name(a->model.kv.method), most, largest);
}

static pare_status measure(attention *a)
{
    const pare_config *const c = &a->model.config;
    const pare_ops o = pare_ops_of(&a->s->cx, &a->arena, &a->f);
    char text[2][32];
    double all, part;
    a->s->notes = 0;
    for (size_t i = 0; i < a->caches; i++)
        PARE_TRY(fill(a, true, &a->kv[i]));
    a->s->noting = true;
    for (size_t i = a->caches; i-- > 0;)
        PARE_TRY(attend(a, &o, &a->kv[i], a->y));
    a->s->noting = false;
    PARE_TRY(compare(a));
    PARE_TRY(speed_time(a->s, NULL, a->caches, &all));
    PARE_TRY(speed_time(a->s, "attend", a->caches, &part));
    (void)printf("{\"kind\": \"attention\", \"cache\": \"%s\", \"heads\": %zu, \"kv_heads\": %zu, "
                 "\"head_dim\": %zu, \"positions\": %zu, \"us\": %s, \"all_us\": %s, \"bytes\": "
                 "%zu, \"checked\": true}\n",
                 pare_kv_method_name(a->model.kv.method), c->heads, c->kv_heads, c->head_dim,
                 a->positions, speed_number(part, text[0]), speed_number(all, text[1]), a->bytes);
    return PARE_OK;
}

static pare_status run(attention *a)
{
    const size_t width = a->model.config.heads * a->model.config.head_dim;
    float **const host[] = {&a->q, &a->k, &a->v, &a->y, &a->want};
    for (size_t i = 0; i < 5; i++) {
        *host[i] = PARE_NEW(&a->arena, float, width);
        if (!*host[i])
            return PARE_ENOMEM;
        for (size_t j = 0; j < width; j++)
            (*host[i])[j] = 2 * (float)((double)(pare_random_u64(5, i, j) >> 40) * 0x1p-24) - 1;
    }
    PARE_TRY(pare_forward_init(&a->s->cx, &a->arena, &a->model, a->positions, false, &a->f));
    PARE_TRY(pare_cuda_open(&a->s->cx, &a->s->watched, 0, &a->f, &a->c));
    const pare_ops o = pare_ops_of(&a->s->cx, &a->arena, &a->f);
    pare_mark mark;
    PARE_TRY(o.op->mark(&o, &mark));
    const pare_status s = measure(a);
    a->s->noting = false;
    PARE_TRY(o.op->rewind(&o, mark));
    return s;
}

static pare_status run_cache(speed *s, pare_kv_method method, size_t positions)
{
    attention a = {.s = s, .positions = positions, .arena = {.cx = &s->cx}};
    a.model.kv = pare_kv_default(method);
    a.model.config = (pare_config){.arch = pare_arch_find("llama"),
                                   .heads = s->small ? 4 : 32,
                                   .kv_heads = s->small ? 2 : 8,
                                   .head_dim = s->small ? 64 : 128,
                                   .rope = {.theta = 10000}};
    a.bytes = pare_kv_bytes(&a.model.config, &a.model.kv, 1, positions);
    const size_t want = s->small ? 2 : ROTATE / a.bytes + 1;
    a.caches = want < CACHES ? want : CACHES;
    if (!speed_goes_on(s))
        return PARE_OK;
    const pare_status status = run(&a);
    pare_cuda_close(a.c);
    pare_arena_release(&a.arena);
    return status;
}

pare_status speed_attention(speed *s)
{
    static const pare_kv_method methods[] = {PARE_KV_FLOAT, PARE_KV_INT8, PARE_KV_INT4,
                                             PARE_KV_KIVI};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        PARE_TRY(run_cache(s, methods[i], s->small ? 130 : 4096));
        PARE_TRY(run_cache(s, methods[i], s->small ? 200 : 32768));
    }
    return PARE_OK;
}

/* Norm and quantization of rows of 8192 values, from what is in the cache of the device. */
static pare_status time_others(speed *s, pare_cuda *c, size_t rows, size_t width)
{
    enum { GROUP = 128 };
    char text[32];
    double us;
    void *x, *y, *codes, *scales, *sums;
    PARE_TRY(pare__cuda_scratch_take(c, rows * width * 4, &x));
    PARE_TRY(pare__cuda_scratch_take(c, rows * width * 4, &y));
    PARE_TRY(pare__cuda_scratch_take(c, rows * width, &codes));
    PARE_TRY(pare__cuda_scratch_take(c, rows * width / GROUP * 4, &scales));
    PARE_TRY(pare__cuda_scratch_take(c, rows * width / GROUP * 4, &sums));
    PARE_TRY(
        s->real->op->fill(&s->cx, s->real, (pare_address)(uintptr_t)x, 0x3d, rows * width * 4));
    s->notes = 0;
    s->noting = true;
    PARE__CUDA_RUN(c, norm, .x = x, .w = x, .y = y, .rows = rows, .width = width, .eps = 1e-5);
    PARE__CUDA_RUN(c, quant_x8, .x = x, .codes = codes, .scales = scales, .sums = sums,
                   .ldx = width, .m = rows, .k = width, .group = GROUP, .span = GROUP, .top = 127);
    s->noting = false;
    for (int i = 0; i < 2; i++) {
        const char *const name = i ? "quant_x8" : "norm";
        PARE_TRY(speed_time(s, name, 1, &us));
        (void)printf("{\"kind\": \"other\", \"name\": \"%s\", \"rows\": %zu, \"width\": %zu, "
                     "\"us\": %s}\n",
                     name, rows, width, speed_number(us, text));
    }
    return PARE_OK;
}

pare_status speed_others(speed *s)
{
    pare_model model = {
        .config = {.arch = pare_arch_find("llama"), .heads = 1, .kv_heads = 1, .head_dim = 64}};
    pare_forward f = {.model = &model};
    pare_cuda *c;
    PARE_TRY(pare_cuda_open(&s->cx, &s->watched, 0, &f, &c));
    pare_status status = time_others(s, c, 1, s->small ? 256 : 8192);
    if (status == PARE_OK)
        status = time_others(s, c, s->small ? 3 : 256, s->small ? 256 : 8192);
    s->noting = false;
    pare_cuda_close(c);
    return status;
}
