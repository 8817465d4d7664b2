/* Synthetic models: shapes of known ones, weights that are random and cost what real ones do. */
#include <string.h>

#include "compress/bench/bench_internal.h"
#include "compress/bench/bench_model.h"
#include "kernels/layout.h"
#include "recipes/pattern.h"

const pare_bench_shape pare_bench_shapes[] = {
    {"tiny", "nothing: a test", 128, 384, 2, 4, 2, 32, 512, 1024, true, 1e4, 0, 0, 0},
    {"1b", "Llama 3.2 1B", 2048, 8192, 16, 32, 8, 64, 128256, 131072, true, 5e5, 0, 0, 0},
    {"3b", "Llama 3.2 3B", 3072, 8192, 28, 24, 8, 128, 128256, 131072, true, 5e5, 0, 0, 0},
    {"7b", "Llama 2 7B", 4096, 11008, 32, 32, 32, 128, 32000, 4096, false, 1e4, 0, 0, 0},
    {"8b", "Llama 3.1 8B", 4096, 14336, 32, 32, 8, 128, 128256, 131072, false, 5e5, 0, 0, 0},
    {"tiny-moe", "nothing: a test", 128, 0, 2, 4, 2, 32, 512, 1024, true, 1e4, 8, 2, 256},
    {"30b-a3b", "Qwen3 30B A3B", 2048, 0, 48, 32, 4, 128, 151936, 40960, false, 1e6, 128, 8, 768},
    {.name = NULL},
};

const char *const pare_bench_weights[PARE_BENCH_WEIGHTS + 1] = {
    "int4",   "int8",   "int3",   "int2",  "ternary", "2:4-int4", "2:4-int8", "2:4-f16",
    "w8a8",   "nf4",    "mxfp4",  "nvfp4", "fp8",     "exl3-2",   "exl3-3",   "exl3-4",
    "exl3-5", "exl3-6", "exl3-8", "f16",   "bf16",    "f32",      NULL,
};

#define FLOAT_INPUT .activation = {PARE_ACTIVATION_FLOAT, 0, 0}
#define TOKEN_INPUT .activation = {PARE_ACTIVATION_TOKEN, 8, 0}

/* In the order of the words; `group` is the usual one, 0 a row. */
static const pare__bench_subject kinds[] = {
    {.bits = 4, .group = 128},
    {.bits = 8, .group = 128},
    {.bits = 3, .group = 128},
    {.bits = 2, .group = 128},
    {.bits = 2, .encoding = PARE_ENCODING_TERNARY, TOKEN_INPUT},
    {.bits = 4, .group = 128, .sparsity = PARE_SPARSITY_2_4},
    {.bits = 8, .group = 128, .sparsity = PARE_SPARSITY_2_4},
    {.bits = 16, .encoding = PARE_ENCODING_F16, .sparsity = PARE_SPARSITY_2_4, FLOAT_INPUT},
    {.bits = 8, TOKEN_INPUT},
    {.bits = 4, .group = 64, .encoding = PARE_ENCODING_NF4, FLOAT_INPUT},
    {.bits = 4, .group = 32, .encoding = PARE_ENCODING_MXFP4, FLOAT_INPUT},
    {.bits = 4, .group = 16, .encoding = PARE_ENCODING_NVFP4, FLOAT_INPUT},
    {.bits = 8, .encoding = PARE_ENCODING_FP8, FLOAT_INPUT},
    {.bits = 2, .encoding = PARE_ENCODING_EXL3, FLOAT_INPUT},
    {.bits = 3, .encoding = PARE_ENCODING_EXL3, FLOAT_INPUT},
    {.bits = 4, .encoding = PARE_ENCODING_EXL3, FLOAT_INPUT},
    {.bits = 5, .encoding = PARE_ENCODING_EXL3, FLOAT_INPUT},
    {.bits = 6, .encoding = PARE_ENCODING_EXL3, FLOAT_INPUT},
    {.bits = 8, .encoding = PARE_ENCODING_EXL3, FLOAT_INPUT},
    {.dtype = PARE_F16},
    {.dtype = PARE_BF16},
    {.dtype = PARE_F32},
};

_Static_assert(sizeof kinds / sizeof *kinds == PARE_BENCH_WEIGHTS, "a word for each kind");

static const pare__bench_subject halves = {.dtype = PARE_F16};

static bool has_groups(const pare__bench_subject *s)
{
    return s->bits && pare_encoding_has_groups(s->encoding);
}

/* The kind that spec names, with its group. spec was planned. */
static pare__bench_subject kind_of(const pare_bench_spec *spec)
{
    for (size_t i = 0; i < PARE_BENCH_WEIGHTS; i++)
        if (strcmp(spec->weights, pare_bench_weights[i]) == 0) {
            pare__bench_subject s = kinds[i];
            s.name = pare_bench_weights[i];
            s.group = spec->group == PARE_BENCH_ROW ? 0 : spec->group;
            return s;
        }
    return (pare__bench_subject){.name = NULL};
}

static const pare__bench_subject *ends_of(const pare__bench_subject *linears)
{
    return linears->bits ? &halves : linears;
}

static pare_status unknown(pare_ctx *cx, const char *what, const char *word,
                           const char *const *known, size_t count)
{
    char all[200] = "";
    const char *const near = pare_nearest_word(word, known, count);
    if (near)
        return pare_fail(cx, PARE_EUSAGE, "unknown %s \"%.64s\"; did you mean %s?", what, word,
                         near);
    for (size_t i = 0, used = 0; i < count; i++) {
        const size_t len = strlen(known[i]);
        if (used + len + 3 > sizeof all)
            break;
        memcpy(all + used, i ? ", " : "", i ? 2 : 0);
        memcpy(all + used + (i ? 2 : 0), known[i], len + 1);
        used += len + (i ? 2 : 0);
    }
    return pare_fail(cx, PARE_EUSAGE, "unknown %s \"%.64s\"; there are %s", what, word, all);
}

/* NULL, with the failure recorded, for an unknown name. */
static const pare_bench_shape *find_shape(pare_ctx *cx, const char *name)
{
    const char *known[16];
    size_t count = 0;
    for (const pare_bench_shape *s = pare_bench_shapes; s->name; known[count++] = s->name, s++)
        if (strcmp(s->name, name) == 0)
            return s;
    (void)unknown(cx, "shape", name, known, count);
    return NULL;
}

/* Chooses the group of the weights and checks it against the widths. */
static pare_status plan_group(pare_ctx *cx, const pare_config *c, pare_bench_spec *spec)
{
    size_t at = 0;
    while (at < PARE_BENCH_WEIGHTS && strcmp(spec->weights, pare_bench_weights[at]) != 0)
        at++;
    if (at == PARE_BENCH_WEIGHTS)
        return unknown(cx, "weights", spec->weights, pare_bench_weights, at);
    const pare__bench_subject *const kind = &kinds[at];
    if (spec->group && (!has_groups(kind) || pare_encodings[kind->encoding].group))
        return pare_fail(cx, PARE_EUSAGE, "%s weights take no group", spec->weights);
    if (has_groups(kind) && spec->group == 0)
        spec->group = kind->group ? kind->group : PARE_BENCH_ROW;
    for (size_t i = 0; i < (c->experts ? 2 : 1) * PARE_ROLES; i++) {
        size_t n, k;
        pare_linear_shape(c, i / PARE_ROLES, (pare_role)(i % PARE_ROLES), &n, &k);
        if (spec->group && spec->group != PARE_BENCH_ROW &&
            ((spec->group % PARE_ATOM_K != 0 && spec->group != kind->group) ||
             k % spec->group != 0))
            return pare_fail(cx, PARE_EUSAGE,
                             "groups of %zu weights: expected a multiple of %d that divides %zu",
                             spec->group, PARE_ATOM_K, k);
    }
    return PARE_OK;
}

static float *ones(pare_arena *a, size_t count)
{
    float *const x = PARE_NEW(a, float, count);
    for (size_t i = 0; x && i < count; i++)
        x[i] = 1.0f;
    return x;
}

pare_status pare_bench_synthetic_plan(pare_ctx *cx, pare_arena *a, pare_bench_spec *spec,
                                      pare_model *out)
{
    const pare_bench_shape *const s = find_shape(cx, spec->shape);
    if (!s)
        return PARE_EUSAGE;
    *out = (pare_model){.config = {.arch = pare_arch_find(s->experts ? "qwen3_moe" : "llama"),
                                   .hidden = s->hidden,
                                   .intermediate = s->intermediate,
                                   .experts = s->experts,
                                   .experts_used = s->experts_used,
                                   .expert_width = s->expert_width,
                                   .expert_norm = true,
                                   .blocks = s->blocks,
                                   .heads = s->heads,
                                   .kv_heads = s->kv_heads,
                                   .head_dim = s->head_dim,
                                   .vocab = s->vocab,
                                   .context = s->context,
                                   .norm_eps = 1e-5,
                                   .rope = {.theta = s->theta},
                                   .tied = s->tied,
                                   .bos_id = -1}};
    PARE_TRY(plan_group(cx, &out->config, spec));
    out->block = PARE_NEW(a, pare_block, s->blocks);
    float *const norm = ones(a, s->hidden);
    float *const head_norm = s->experts ? ones(a, s->head_dim) : NULL;
    if (!out->block || !norm || (s->experts && !head_norm))
        return PARE_ENOMEM;
    out->norm = norm;
    for (size_t i = 0; i < s->blocks; i++)
        out->block[i] =
            (pare_block){.norm = {norm, norm},
                         .inner_norm = {[PARE_NORM_Q] = head_norm, [PARE_NORM_K] = head_norm}};
    return PARE_OK;
}

uint64_t pare_bench_synthetic_bytes(const pare_model *m, const pare_bench_spec *spec)
{
    const pare_config *const c = &m->config;
    const pare__bench_subject s = kind_of(spec);
    uint64_t block = c->experts ? pare__bench_weights_bytes(ends_of(&s), c->experts, c->hidden) : 0;
    for (size_t i = 0; i < pare_block_parts(c) * PARE_ROLES; i++) {
        size_t n, k;
        pare_linear_shape(c, i / PARE_ROLES, (pare_role)(i % PARE_ROLES), &n, &k);
        if (n)
            block += pare__bench_weights_bytes(&s, n, k);
    }
    return block * c->blocks +
           pare__bench_weights_bytes(ends_of(&s), c->vocab, c->hidden) * (c->tied ? 1 : 2);
}

static pare_status make(pare_ctx *cx, pare_arena *a, const pare__bench_subject *s, uint64_t stream,
                        size_t n, size_t k, pare_linear *out)
{
    pare__bench_weights w;
    PARE_TRY(pare_ctx_interrupted(cx));
    PARE_TRY(pare__bench_weights_make(cx, a, s, stream, n, k, 0, &w));
    *out = pare__bench_weights_at(&w, 0);
    return PARE_OK;
}

/* The linears of block b, and its router, which is dense as embedding and head are. */
static pare_status fill_block(pare_ctx *cx, pare_arena *a, const pare__bench_subject *s,
                              const pare_config *c, size_t b, pare_block *block)
{
    const size_t each = pare_block_parts(c) * PARE_ROLES;
    if (c->experts) {
        block->expert = PARE_NEW(a, pare_linear, c->experts * PARE_ROLES);
        if (!block->expert)
            return PARE_ENOMEM;
        PARE_TRY(make(cx, a, ends_of(s), 2 + c->blocks * each + b, c->experts, c->hidden,
                      &block->router));
    }
    for (size_t i = 0; i < each; i++) {
        const size_t part = i / PARE_ROLES;
        const pare_role role = (pare_role)(i % PARE_ROLES);
        size_t n, k;
        pare_linear_shape(c, part, role, &n, &k);
        if (n)
            PARE_TRY(make(cx, a, s, 2 + b * each + i, n, k,
                          pare_block_linear_mutable(block, part, role)));
    }
    return PARE_OK;
}

pare_status pare_bench_synthetic_fill(pare_ctx *cx, pare_arena *a, const pare_bench_spec *spec,
                                      pare_model *m)
{
    const pare_config *const c = &m->config;
    const double steps = (double)c->blocks + 1;
    pare__bench_subject *const s = PARE_NEW(a, pare__bench_subject, 1);
    if (!s)
        return PARE_ENOMEM;
    *s = kind_of(spec);
    for (size_t b = 0; b < c->blocks; b++) {
        pare_ctx_progress(cx, "making weights", (double)b, steps);
        PARE_TRY(fill_block(cx, a, s, c, b, &m->block[b]));
    }
    pare_ctx_progress(cx, "making weights", steps - 1, steps);
    PARE_TRY(make(cx, a, ends_of(s), 0, c->vocab, c->hidden, &m->embed));
    m->head = m->embed;
    if (!c->tied)
        PARE_TRY(make(cx, a, ends_of(s), 1, c->vocab, c->hidden, &m->head));
    pare_ctx_progress(cx, "making weights", steps, steps);
    return PARE_OK;
}

/* Number of the kind that w is of; PARE_BENCH_WEIGHTS: of none. */
static size_t kind_at(const pare_linear *w)
{
    size_t i = 0;
    for (; i < PARE_BENCH_WEIGHTS; i++) {
        const pare__bench_subject *const s = &kinds[i];
        const bool token = w->activation.mode == PARE_ACTIVATION_TOKEN;
        if (w->bits != s->bits || (w->bits == 0 && w->dtype != s->dtype))
            continue;
        if (w->bits == 0 || (w->encoding == s->encoding && w->sparsity == s->sparsity &&
                             (!pare_encodings[w->encoding].uniform ||
                              token == (s->activation.mode == PARE_ACTIVATION_TOKEN))))
            break;
    }
    return i;
}

const char *pare_bench_weights_name(const pare_model *m, size_t *group)
{
    const pare_linear *const first = &m->block[0].linear[0];
    const size_t kind = kind_at(first);
    bool same = true, rows = true;
    *group = 0;
    if (kind == PARE_BENCH_WEIGHTS)
        return "mixed";
    const size_t each = pare_block_parts(&m->config) * PARE_ROLES;
    for (size_t i = 0; i < m->config.blocks * each; i++) {
        const pare_linear *const w = pare_block_linear(&m->block[i / each], i % each / PARE_ROLES,
                                                       (pare_role)(i % PARE_ROLES));
        if (w->n == 0) /* the part has none such */
            continue;
        same = same && w->panel.group == first->panel.group;
        rows = rows && w->panel.group >= w->panel.k;
        if (kind_at(w) != kind || w->outliers.count || w->sparse.start || !(same || rows))
            return "mixed";
    }
    if (has_groups(&kinds[kind]))
        *group = same ? first->panel.group : PARE_BENCH_ROW;
    return pare_bench_weights[kind];
}
