/* Products of one linear with 1 to 256 tokens, checked against the CPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/bench/bench_internal.h"
#include "runtime/arch.h"
#include "runtime/linear.h"
#include "tests/gpu/speed.h"

static const pare__bench_subject kinds[] = {
    {.name = "int4", .bits = 4, .group = 128},
    {.name = "int8", .bits = 8, .group = 128},
    {.name = "int3", .bits = 3, .group = 128},
    {.name = "int2", .bits = 2, .group = 128},
    {.name = "ternary",
     .bits = 2,
     .group = 128,
     .encoding = PARE_ENCODING_TERNARY,
     .activation = {PARE_ACTIVATION_TOKEN, 8, 0}},
    {.name = "2:4 int4", .bits = 4, .group = 128, .sparsity = PARE_SPARSITY_2_4},
    {.name = "2:4 int8", .bits = 8, .group = 128, .sparsity = PARE_SPARSITY_2_4},
    {.name = "2:4 f16",
     .bits = 16,
     .encoding = PARE_ENCODING_F16,
     .activation = {PARE_ACTIVATION_FLOAT, 0, 0},
     .sparsity = PARE_SPARSITY_2_4},
    {.name = "exl3_3",
     .bits = 3,
     .encoding = PARE_ENCODING_EXL3,
     .activation = {PARE_ACTIVATION_FLOAT, 0, 0}},
    {.name = "f16", .dtype = PARE_F16},
};
enum { KINDS = sizeof kinds / sizeof *kinds };
static const size_t tokens[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};
enum { TOKENS = sizeof tokens / sizeof *tokens };
static const double CHECKED = 1e10; /* multiplications of a product that the CPU repeats */

/* How a product takes its inputs: in codes, in F16 on tensor cores, or as they are, to the bit of
 * the CPU, which is for few tokens. */
typedef enum inputs { INT8, F16, FLOAT, INPUTS } inputs;
static const struct {
    const char *name;
    size_t most; /* tokens */
} forms[INPUTS] = {{"int8", 256}, {"f16", 256}, {"float", 8}};

typedef struct product {
    speed *s;
    const pare__bench_weights *w;
    pare_model model; /* no blocks, no weights: those of a product come by themselves */
    pare_forward f;
    pare_cuda *c;
    pare_arena arena; /* what follows */
    float *x, *y, *want;
} product;

/* An exact product of trellis codes decodes them all, for any tokens. */
static bool is_exact(const pare_linear *w, inputs in)
{
    return in != INT8 && !pare_encoding_turns(w->encoding);
}

static pare_status compare(product *p, const pare_linear *w, inputs in, size_t m, bool *checked)
{
    const size_t n = w->n, k = w->k;
    *checked = (double)m * (double)n * (double)k <= CHECKED;
    if (!*checked)
        return PARE_OK;
    pare_arena scratch = {.cx = &p->s->cx};
    const pare_status s =
        pare_linear_apply(&p->s->cx, &scratch, w, is_exact(w, in), p->x, k, m, p->want, n);
    pare_arena_release(&scratch);
    PARE_TRY(s);
    /* Inputs of at most 1 may be rounded to 11 bits; rows of weights have about length 1. */
    const double most = in == F16 ? 0x1p-10 * sqrt((double)k) : 0;
    for (size_t i = 0; i < m * n; i++)
        if (!(fabs((double)p->y[i] - (double)p->want[i]) <= most))
            return pare_fail(
                &p->s->cx, PARE_ENUMERIC,
                "%s, %zu tokens, %zu x %zu: row %zu of token %zu is %g, the CPU has %g", w->name, m,
                n, k, i % n, i / n, (double)p->y[i], (double)p->want[i]);
    return PARE_OK;
}

static pare_status print_row(product *p, inputs in, size_t m, bool checked)
{
    const pare__bench_weights *const w = p->w;
    const size_t bytes = w->bytes + m * w->k * (in == INT8 ? 1 : in == F16 ? 2 : 4) + m * w->n * 4;
    char text[3][32];
    double all, alone, codes;
    PARE_TRY(speed_time(p->s, NULL, w->copies, &all));
    PARE_TRY(speed_time(p->s, "quant_x8", w->copies, &codes));
    alone = all;
    if (isfinite(codes))
        PARE_TRY(speed_time(p->s, "gemm", w->copies, &alone));
    (void)printf("{\"kind\": \"product\", \"weights\": \"%s\", \"inputs\": \"%s\", \"n\": %zu, "
                 "\"k\": %zu, \"m\": %zu, \"us\": %s, \"inputs_us\": %s, \"all_us\": %s, "
                 "\"bytes\": %zu, \"checked\": %s}\n",
                 w->sub->name, forms[in].name, w->n, w->k, m, speed_number(alone, text[0]),
                 speed_number(codes, text[1]), speed_number(all, text[2]), bytes,
                 checked ? "true" : "false");
    return PARE_OK;
}

/* All copies once, noted; the output of the first one is compared. */
static pare_status run_all(product *p, const pare_ops *o, inputs in, size_t m, bool *checked)
{
    const size_t n = p->w->n, k = p->w->k;
    pare_array x, y;
    PARE_TRY(o->op->take(o, m, k, &x));
    PARE_TRY(o->op->take(o, m, n, &y));
    PARE_TRY(o->op->put(o, p->x, x));
    p->s->notes = 0;
    for (size_t i = p->w->copies; i-- > 0;) {
        const pare_linear w = pare__bench_weights_at(p->w, i), *const one = &w;
        p->s->noting = true;
        const pare_status s = o->op->linears(o, &one, 1, is_exact(one, in), x, &y);
        p->s->noting = false;
        PARE_TRY(s);
        if (i > 0)
            continue;
        PARE_TRY(o->op->get(o, y, p->y));
        PARE_TRY(compare(p, &w, in, m, checked));
    }
    return print_row(p, in, m, *checked);
}

static pare_status run(product *p, inputs in, size_t m)
{
    const pare_ops o = pare_ops_of(&p->s->cx, &p->arena, &p->f);
    pare_mark mark;
    bool checked;
    PARE_TRY(o.op->mark(&o, &mark));
    const pare_status s = run_all(p, &o, in, m, &checked);
    PARE_TRY(o.op->rewind(&o, mark));
    return s;
}

/* A backend for each: it keeps the copies of the weights. */
static pare_status run_form(product *p, inputs in)
{
    pare_status s = pare_cuda_open(&p->s->cx, &p->s->watched, 0, &p->f, &p->c);
    if (s == PARE_OK && in == F16)
        pare_cuda_use_f16(p->c);
    for (size_t i = 0; s == PARE_OK && speed_goes_on(p->s) && i < TOKENS; i++)
        if (tokens[i] <= forms[in].most)
            s = run(p, in, p->s->small ? tokens[i] / 4 + 1 : tokens[i]);
    pare_cuda_close(p->c);
    return s;
}

static pare_status run_tokens(product *p)
{
    const size_t most = tokens[TOKENS - 1], n = p->w->n, k = p->w->k;
    p->x = pare_arena_take(&p->arena, most, k * sizeof *p->x);
    p->y = pare_arena_take(&p->arena, most, n * sizeof *p->y);
    p->want = pare_arena_take(&p->arena, most, n * sizeof *p->want);
    if (!p->x || !p->y || !p->want)
        return PARE_ENOMEM;
    pare__bench_fill(&p->s->cx, 7, (uint32_t *)(void *)p->x, most * k, 0x807fffffu, 0x3f000000u);
    const pare__bench_subject *const sub = p->w->sub;
    const bool codes = sub->bits && pare_encodings[sub->encoding].integer;
    for (inputs in = codes ? INT8 : F16; in < INPUTS; in++)
        PARE_TRY(run_form(p, in));
    return PARE_OK;
}

static pare_status run_kind(speed *s, const pare__bench_subject *kind, size_t n, size_t k)
{
    pare_arena weights = {.cx = &s->cx};
    pare__bench_weights w;
    product p = {.s = s, .w = &w, .arena = {.cx = &s->cx}};
    p.model.config =
        (pare_config){.arch = pare_arch_find("llama"), .heads = 1, .kv_heads = 1, .head_dim = 64};
    p.f.model = &p.model;
    if (!speed_goes_on(s))
        return PARE_OK;
    pare_status status = pare__bench_weights_make(&s->cx, &weights, kind, 1, n, k,
                                                  s->small ? 1 : (size_t)200 << 20, &w);
    if (status == PARE_OK)
        status = run_tokens(&p);
    pare_arena_release(&p.arena);
    pare_arena_release(&weights);
    return status;
}

pare_status speed_products(speed *s)
{
    static const size_t wide[] = {8192, 81920};
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < KINDS; j++)
            if (s->small)
                PARE_TRY(run_kind(s, &kinds[j], i ? 48 : 128, i ? 640 : 256));
            else
                PARE_TRY(run_kind(s, &kinds[j], 8192, wide[i]));
    return PARE_OK;
}
