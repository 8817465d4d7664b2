#include "formats/export_gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/export_internal.h"
#include "formats/gguf_internal.h"

const pare__gguf_span *pare__gguf_span_of(const pare_ggml_type *t)
{
    static const pare__gguf_span spans[] = {
        {"Q4_0", -8, 7, false},   {"Q8_0", -128, 127, false}, {"Q5_0", -16, 15, false},
        {"Q6_K", -32, 31, false}, {"TQ1_0", -1, 1, false},    {"TQ2_0", -1, 1, false},
        {"Q4_1", 0, 15, true},    {"Q4_K", 0, 15, true},      {"Q5_1", 0, 31, true},
        {"Q5_K", 0, 31, true},    {"Q2_K", 0, 3, true},       {"Q3_K", -4, 3, false},
    };
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        if (strcmp(spans[i].type, t->name) == 0)
            return &spans[i];
    return NULL;
}

/* Whether the codes of a linear are codes of the type. */
static bool holds(const pare_ggml_type *t, const pare_packed_linear *l)
{
    const char *const own = pare_encodings[l->encoding].ggml;
    if (own)
        return strcmp(t->name, own) == 0 && l->k % t->elements == 0 && !l->outliers && !l->sparse;
    const pare__gguf_span *const s = pare__gguf_span_of(t);
    const size_t columns = l->group && l->group < l->k ? l->group : l->k;
    if (!s || !pare_encodings[l->encoding].integer || l->outliers || l->sparse ||
        l->sparsity == PARE_SPARSITY_BITMASK || columns % t->elements != 0 ||
        l->k % t->elements != 0)
        return false;
    const int most = (int)pare_encoding_top(l->encoding, l->bits), zero = pare_packed_zero_code(l);
    if (s->offset)
        return most <= s->most;
    return l->symmetric ? -zero >= s->least && most - zero <= s->most
                        : -most >= s->least && most <= s->most;
}

/* Minima -zero scale are numbers of F16 where zero is a power of two. */
static pare_gguf_way way_of(const pare_ggml_type *type, const pare_export_linear *l)
{
    if (type->elements == 1)
        return PARE_GGUF_FLOATS;
    if (!l->is_packed || !holds(type, &l->packed))
        return PARE_GGUF_AGAIN;
    const bool rounds = strcmp(type->name, "Q4_1") == 0 || strcmp(type->name, "Q5_1") == 0;
    const bool exact = !rounds || l->packed.symmetric;
    return exact ? PARE_GGUF_CODES : PARE_GGUF_NEAR;
}

static const pare_ggml_type *type_for(const char *block, uint64_t width, bool *fallback)
{
    static const char *const next[][2] = {{"Q2_K", "Q4_0"}, {"Q3_K", "Q4_0"}, {"Q4_K", "Q5_0"},
                                          {"Q5_K", "Q5_1"}, {"Q6_K", "Q8_0"}, {"TQ1_0", "Q4_0"},
                                          {"TQ2_0", "Q4_0"}};
    const pare_ggml_type *t = pare_ggml_type_named(block);
    *fallback = width % t->elements != 0;
    for (size_t i = 0; i < sizeof next / sizeof *next && width % t->elements != 0; i++)
        if (strcmp(next[i][0], block) == 0)
            t = pare_ggml_type_named(next[i][1]);
    return width % t->elements == 0 ? t : pare_ggml_type_named("F16");
}

/* The linears that lie in one tensor with this one. */
static const pare_export_linear *piece_of(const pare_export_linear *l, size_t i)
{
    return l->mates ? &l->mates[i] : l->pieces ? &l->piece[i] : l;
}

static size_t pieces_of(const pare_export_linear *l)
{
    return l->mates ? l->mate_count : l->pieces ? l->pieces : 1;
}

/* The type of matrices that stay floats. */
static const pare_ggml_type *float_type(const char *block, pare_dtype as)
{
    return pare_ggml_type_named(strcmp(block, "F16") == 0 ? "F16" : pare_dtype_name(as));
}

/* F16 has none of the other types whole; the other way there is room. */
static bool rounds(const pare_ggml_type *to, pare_dtype from)
{
    return to->elements == 1 && to->dtype == PARE_F16 && from != PARE_F16;
}

/* Whether all packed pieces of a linear are codes of the type. */
static bool holds_all(const pare_ggml_type *t, const pare_export_linear *l)
{
    for (size_t i = 0; i < pieces_of(l); i++)
        if (piece_of(l, i)->is_packed && !holds(t, &piece_of(l, i)->packed))
            return false;
    return true;
}

static bool is_nvfp4(const pare_export_linear *l)
{
    return l->is_packed && pare_encodings[l->packed.encoding].scales == PARE_SCALES_E4M3;
}

/* Whether readers multiply products of NVFP4 with factors: one for each matrix, where it has a
 * tensor of its own or is an expert, and not the embedding. Those that do in the MLP stop at biases
 * there. */
static bool takes_factors(const pare_export_linear *l)
{
    const pare__gguf_family *const f = pare__gguf_family_for(l->config);
    if (!f || l->pieces)
        return false;
    if (l->role == PARE_ROLES)
        return !l->looked_up; /* a head that is the embedding counts as that */
    const bool mlp =
        l->role == PARE_ROLE_GATE || l->role == PARE_ROLE_UP || l->role == PARE_ROLE_DOWN;
    return !mlp || (f->how & PARE__GGUF_MLP_SCALE && !l->weights->bias);
}

/* The type whose blocks the codes of a linear are; NULL when there is none, or readers lack what
 * belongs to it. */
static const pare_ggml_type *own_type(const pare_export_linear *l)
{
    const char *const own = pare_encodings[piece_of(l, 0)->packed.encoding].ggml;
    bool kept = own && holds_all(pare_ggml_type_named(own), l);
    for (size_t i = 0; kept && is_nvfp4(piece_of(l, 0)) && i < pieces_of(l); i++)
        kept = is_nvfp4(piece_of(l, i)) && takes_factors(l);
    return kept ? pare_ggml_type_named(own) : NULL;
}

/* Outside the blocks: one that holds the codes, or 8 bits. */
static const pare_ggml_type *outer_type(const pare_export_linear *l)
{
    static const char *const types[] = {"Q4_0", "Q4_1", "Q4_K", "Q6_K", "Q8_0"};
    const pare_ggml_type *type = pare_ggml_type_named("Q8_0");
    for (size_t i = sizeof types / sizeof *types; i-- > 0;)
        if (holds(pare_ggml_type_named(types[i]), &l->packed))
            type = pare_ggml_type_named(types[i]);
    return l->packed.k % type->elements == 0 ? type : pare_ggml_type_named("F16");
}

/* What has blocks of a type keeps them; where 256 does not divide a row, 8 bits do. */
static const pare_ggml_type *type_of(const pare_export_target *t, const pare_export_linear *l,
                                     bool *fallback)
{
    const char *const block = pare__gguf_mixed(t, l);
    const pare_ggml_type *const own = own_type(l);
    const bool floats = strcmp(block, "F16") == 0;
    *fallback = false;
    if (own && !floats)
        return own;
    if (l->role == PARE_ROLES && !floats && l->is_packed && !t->mix)
        return outer_type(l);
    const pare_ggml_type *const asked = type_for(block, l->packed.k, fallback);
    const pare_ggml_type *const eight = pare_ggml_type_named("Q8_0");
    return *fallback && asked->elements > 1 && !holds_all(asked, l) && holds_all(eight, l) ? eight
                                                                                           : asked;
}

/* Of a linear none of whose pieces are packed. */
static pare_export_store float_store(const pare_export_target *t, const pare_export_linear *l,
                                     pare_dtype as)
{
    pare_export_store s = {.fate = PARE_EXPORT_FLOAT};
    if (!t->mix) {
        const pare_ggml_type *const type = float_type(t->block, as);
        s.type = type->name;
        s.fate = rounds(type, as) ? PARE_EXPORT_ROUNDED : PARE_EXPORT_FLOAT;
        return s;
    }
    const pare_ggml_type *const type = type_for(pare__gguf_mixed(t, l), l->packed.k, &s.fallback);
    s.type = type->name;
    s.fate = type->elements > 1 ? PARE_EXPORT_QUANTIZED : PARE_EXPORT_ROUNDED;
    return s;
}

pare_export_store pare__gguf_store(const pare_export_target *t, const pare_export_linear *l)
{
    pare_export_store s = {.fate = PARE_EXPORT_LOSSLESS};
    pare_dtype as = piece_of(l, 0)->weights->dtype;
    size_t packed = 0;
    const size_t pieces = pieces_of(l);
    const pare_ggml_type *type = type_of(t, l, &s.fallback);
    for (size_t i = 0; i < pieces; i++) {
        const pare_export_linear *const p = piece_of(l, i);
        packed += p->is_packed;
        as = p->weights->dtype == as ? as : PARE_F32;
        if ((!l->mates || p == l) && way_of(type, p) != PARE_GGUF_CODES)
            s.fate = PARE_EXPORT_REQUANTIZED;
    }
    if (packed == 0)
        return float_store(t, l, as);
    if (packed < pieces && !t->mix) {
        type = pare_ggml_type_named("F16");
        s.fallback = strcmp(type->name, t->block) != 0;
        s.beside_floats = s.fallback;
    }
    s.type = type->name;
    s.no_factor = type->elements > 1 && is_nvfp4(l) && !own_type(l) &&
                  holds_all(pare_ggml_type_named("NVFP4"), l);
    if (l->mates && !l->is_packed) {
        s.fate = t->mix                            ? PARE_EXPORT_QUANTIZED
                 : rounds(type, l->weights->dtype) ? PARE_EXPORT_ROUNDED
                                                   : PARE_EXPORT_FLOAT;
        s.fallback &= t->mix != 0;
        s.beside_floats = false;
    } else if (type->elements == 1)
        s.fate = PARE_EXPORT_ROUNDED;
    return s;
}

static pare_gguf_piece *add_pieces(pare_arena *a, pare_gguf_item *t, size_t pieces)
{
    pare_gguf_piece *const p = PARE_NEW(a, pare_gguf_piece, pieces);
    t->piece = p;
    t->pieces = p ? pieces : 0;
    return p;
}

/* Weights of a linear: rows of its pieces, one piece after the other. */
static pare_status choose_linear(pare_arena *a, const pare_export_target *target,
                                 const pare_export_linear *l, pare_gguf_item *t)
{
    pare_gguf_piece *const p = add_pieces(a, t, pieces_of(l));
    if (!p)
        return PARE_ENOMEM;
    t->type = pare_ggml_type_named(pare__gguf_store(target, l).type);
    t->apart = l->mates;
    t->shape[0] = l->mate_count;
    t->rank = t->apart ? 3 : 2;
    t->shape[t->rank - 2] = l->packed.n;
    t->shape[t->rank - 1] = l->packed.k;
    for (size_t i = 0; i < t->pieces; i++) {
        const pare_export_linear *const from = piece_of(l, i);
        p[i] = (pare_gguf_piece){.linear = from,
                                 .elements = (uint64_t)from->packed.n * from->packed.k,
                                 .way = way_of(t->type, from)};
    }
    return PARE_OK;
}

/* `mixed`: NULL, or the type of a mix, where 256 divides the rows. */
static pare_status choose_tensor(pare_ctx *cx, pare_arena *a, const char *block, const char *mixed,
                                 const pare_tensor *from, pare__gguf_form form, pare_gguf_item *t)
{
    pare_gguf_piece *const p = add_pieces(a, t, 1);
    if (!p)
        return PARE_ENOMEM;
    if (from->rank < 1 || from->rank > 2 || from->bytes == 0 ||
        (from->dtype != PARE_F16 && from->dtype != PARE_BF16 && from->dtype != PARE_F32))
        return pare_fail(cx, PARE_ENOTSUP, "gguf: tensor %s is no vector or matrix of floats",
                         from->name);
    const bool wide = from->rank == 1 || form == PARE__GGUF_F32 || form == PARE__GGUF_ROW;
    t->rank = from->rank;
    memcpy(t->shape, from->shape, from->rank * sizeof *t->shape);
    if (form == PARE__GGUF_ROW) {
        t->rank = 1;
        t->shape[0] = from->shape[0] * (from->rank > 1 ? from->shape[1] : 1);
    }
    t->type = float_type(wide ? "F32" : block, wide ? PARE_F32 : from->dtype);
    *p = (pare_gguf_piece){.tensor = from, .way = PARE_GGUF_FLOATS};
    p->elements = from->shape[0] * (from->rank > 1 ? from->shape[1] : 1);
    bool fallback;
    if (mixed && !wide)
        t->type = type_for(mixed, from->shape[1], &fallback);
    if (t->type->elements > 1)
        p->way = PARE_GGUF_AGAIN;
    else if (t->type->dtype == from->dtype && t->heads == 0 && !t->plus_one)
        p->way = PARE_GGUF_BYTES;
    return PARE_OK;
}

static int by_order(const void *a, const void *b)
{
    const pare_gguf_item *const x = a, *const y = b;
    return x->order != y->order ? (x->order < y->order ? -1 : 1) : strcmp(x->name, y->name);
}

/* ".weight" or ".bias" behind `name`, whose length without it is *len. */
static const char *suffix_of(const char *name, size_t *len)
{
    const char *const dot = strrchr(name, '.');
    if (!dot || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0))
        return NULL;
    *len = (size_t)(dot - name);
    return dot;
}

static bool is_ignored(const pare_arch *arch, const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; i < 2; i++) {
        const size_t n = arch->ignored[i] ? strlen(arch->ignored[i]) : 0;
        if (n && len > n && strcmp(name + len - n, arch->ignored[i]) == 0)
            return true;
    }
    return false;
}

/* What is being listed. */
typedef struct listing {
    pare_ctx *cx;
    pare_arena *arena;
    const pare_export_target *target;
    const pare_export_model *m;
    const pare__gguf_family *family;
    const pare_tensor *tensor; /* sorted by name */
    size_t tensors;
    pare_gguf_item *item;
    size_t items;
} listing;

/* Where a tensor goes: its name, and how its values lie. */
static pare_status find_place(const listing *l, const char *name, const char *suffix,
                              pare_gguf_item *t, pare__gguf_form *form)
{
    const pare_config *const c = l->m->config;
    pare__gguf_place place;
    if (!pare__gguf_unname(l->family, name, suffix, &place))
        return pare_fail(l->cx, PARE_ENOTSUP, "gguf: tensor %s%s has no place in files of %s", name,
                         suffix, c->arch->model_type);
    t->name = pare_arena_text(l->arena, place.name, strlen(place.name));
    t->order = place.order;
    *form = place.form;
    t->plus_one = place.form == PARE__GGUF_PLUS_ONE;
    t->heads = place.form == PARE__GGUF_PAIRS_Q   ? c->heads
               : place.form == PARE__GGUF_PAIRS_K ? c->kv_heads
                                                  : 0;
    return t->name ? PARE_OK : PARE_ENOMEM;
}

static pare_gguf_item *next_item(listing *l)
{
    pare_gguf_item *const t = &l->item[l->items++];
    *t = (pare_gguf_item){.linear = PARE_GGUF_OTHER};
    return t;
}

/* The linear whose weights a tensor is, as it lies there; the embedding is the head, too, where
 * both are one. */
static ptrdiff_t linear_at(const listing *l, const char *base, const char *suffix)
{
    const pare_export_model *const m = l->m;
    if (strcmp(suffix, ".weight") != 0)
        return PARE_GGUF_OTHER;
    if (m->config->tied && strcmp(base, m->config->arch->embed) == 0)
        return l->family->how & PARE__GGUF_HEAD ? PARE_GGUF_OTHER : (ptrdiff_t)m->linears - 1;
    for (size_t i = 0; i < m->linears; i++)
        if (!m->linear[i].is_packed && strcmp(m->linear[i].name, base) == 0)
            return (ptrdiff_t)i;
    return PARE_GGUF_OTHER;
}

static pare_status add_tensor(listing *l, const pare_tensor *from)
{
    size_t len = 0;
    const char *const suffix = suffix_of(from->name, &len);
    const char *const base =
        pare_arena_text(l->arena, from->name, suffix ? len : strlen(from->name));
    pare_gguf_item *const t = next_item(l);
    pare__gguf_form form;
    if (!base)
        return PARE_ENOMEM;
    PARE_TRY(find_place(l, base, suffix ? suffix : "", t, &form));
    const pare_config *const c = l->m->config;
    const bool embedding = suffix && strcmp(base, c->arch->embed) == 0;
    const char *const mixed =
        embedding && l->target->mix ? pare__gguf_mixed_outer(l->target, c, true) : NULL;
    t->linear = linear_at(l, base, suffix ? suffix : "");
    return choose_tensor(l->cx, l->arena, l->target->block, mixed, from, form, t);
}

static int is_named(const void *name, const void *tensor)
{
    return strcmp(name, ((const pare_tensor *)tensor)->name);
}

static const pare_tensor *find_tensor(const listing *l, const char *base, const char *suffix)
{
    char name[1024];
    (void)snprintf(name, sizeof name, "%s%s", base, suffix);
    return l->tensors ? bsearch(name, l->tensor, l->tensors, sizeof *l->tensor, is_named) : NULL;
}

/* The bias of linears that lie in one tensor. */
static pare_status add_joined_bias(listing *l, const pare_export_linear *x)
{
    if (!x->pieces || !x->piece[0].weights->bias)
        return PARE_OK;
    pare_gguf_item *const t = next_item(l);
    pare__gguf_form form;
    PARE_TRY(find_place(l, x->name, ".bias", t, &form));
    pare_gguf_piece *const p = add_pieces(l->arena, t, x->pieces);
    if (!p)
        return PARE_ENOMEM;
    t->rank = 1;
    t->shape[0] = x->packed.n;
    t->type = pare_ggml_type_named("F32");
    for (size_t i = 0; i < x->pieces; i++) {
        p[i] = (pare_gguf_piece){.tensor = find_tensor(l, x->piece[i].name, ".bias"),
                                 .elements = x->piece[i].packed.n,
                                 .way = PARE_GGUF_FLOATS};
        if (!p[i].tensor)
            return pare_fail(l->cx, PARE_ENOTSUP, "gguf: tensor %s.bias is missing",
                             x->piece[i].name);
    }
    return PARE_OK;
}

/* What the blocks of a tensor are multiplied with: X.scale beside X.weight. */
static pare_status add_factors(listing *l, const pare_gguf_item *of)
{
    static const char weight[] = "weight";
    const size_t stem = strlen(of->name) + 1 - sizeof weight;
    pare_gguf_item *const t = next_item(l);
    pare_gguf_piece *const p = add_pieces(l->arena, t, of->pieces);
    char *const name = pare_arena_text(l->arena, of->name, strlen(of->name));
    if (!p || !name)
        return PARE_ENOMEM;
    (void)snprintf(name + stem, sizeof weight, "scale");
    t->name = name;
    t->order = of->order;
    t->type = pare_ggml_type_named("F32");
    t->rank = 1;
    t->shape[0] = of->pieces;
    for (size_t i = 0; i < of->pieces; i++)
        p[i] = (pare_gguf_piece){
            .linear = of->piece[i].linear, .elements = 1, .way = PARE_GGUF_FACTOR};
    return PARE_OK;
}

static pare_status add_linears(listing *l)
{
    for (size_t i = 0; i < l->m->linears + l->m->tables; i++) {
        const pare_export_linear *const x = &l->m->linear[i];
        const bool own = x->role < PARE_ROLES || !l->m->config->tied;
        if (!x->is_packed && !x->pieces && !x->mates && !(l->target->mix && own))
            continue; /* a tensor of the artifact */
        if (x->mates && x != x->mates)
            continue; /* part of one of the file */
        pare_gguf_item *const t = next_item(l);
        pare__gguf_form form;
        t->linear = (ptrdiff_t)i;
        PARE_TRY(find_place(l, x->name, ".weight", t, &form));
        PARE_TRY(choose_linear(l->arena, l->target, x, t));
        if (strcmp(t->type->name, "NVFP4") == 0)
            PARE_TRY(add_factors(l, t));
        PARE_TRY(add_joined_bias(l, x));
    }
    return PARE_OK;
}

/* A vector of divisors of frequencies. */
static pare_status add_divisors(listing *l, const char *name, const float *values, size_t pairs)
{
    pare_gguf_item *const t = next_item(l);
    pare_gguf_piece *const p = add_pieces(l->arena, t, 1);
    if (!p)
        return PARE_ENOMEM;
    t->name = name;
    t->type = pare_ggml_type_named("F32");
    t->rank = 1;
    t->shape[0] = pairs;
    *p = (pare_gguf_piece){.values = values, .elements = pairs, .way = PARE_GGUF_FLOATS};
    return PARE_OK;
}

/* What Llama 3 divides a frequency by: `turns` in original_context positions. */
static double llama3_divisor(const pare_rope *r, double turns)
{
    if (turns >= r->high_freq_factor)
        return 1;
    if (turns < r->low_freq_factor)
        return r->factor;
    const double smooth = (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return 1 / ((1 - smooth) / r->factor + smooth);
}

/* The scaling of frequencies that readers take from tensors. */
static pare_status add_scaling(listing *l)
{
    const pare_rope *const r = &l->m->config->rope;
    const size_t pairs = pare_rope_pairs(l->m->config);
    for (size_t i = 0; r->kind == PARE_ROPE_LONGROPE && i < 2; i++)
        PARE_TRY(add_divisors(l, pare__gguf_factors[i], r->divisor[i], pairs));
    if (r->kind != PARE_ROPE_LLAMA3)
        return PARE_OK;
    float *const values = PARE_NEW(l->arena, float, pairs);
    if (!values)
        return PARE_ENOMEM;
    for (size_t i = 0; i < pairs; i++) {
        const double wave = 2 * 3.14159265358979323846 * pow(r->theta, (double)i / (double)pairs);
        const double turns = (double)r->original_context / wave;
        values[i] = (float)llama3_divisor(r, turns);
    }
    return add_divisors(l, "rope_freqs.weight", values, pairs);
}

/* The embedding once more as the output, for readers that want one. */
static pare_status add_head(listing *l)
{
    const pare_arch *const arch = l->m->config->arch;
    bool has = false;
    for (size_t i = 0; i < l->items; i++)
        has |= strcmp(l->item[i].name, "output.weight") == 0;
    if (has && l->family->how & PARE__GGUF_TIED)
        return pare_fail(l->cx, PARE_ENOTSUP,
                         "gguf: tensor %s.weight has no place: readers of files of %s take the "
                         "embedding for the output",
                         arch->head, arch->model_type);
    if (has || !(l->family->how & PARE__GGUF_HEAD))
        return PARE_OK;
    const pare_tensor *const embed = find_tensor(l, arch->embed, ".weight");
    pare_gguf_item *const t = next_item(l);
    pare__gguf_form form;
    PARE_TRY(find_place(l, arch->head, ".weight", t, &form));
    const pare_export_linear *const packed = pare_export_packed_embedding(l->m);
    if (packed) {
        t->linear = packed - l->m->linear;
        return choose_linear(l->arena, l->target, packed, t);
    }
    const char *const mixed =
        l->target->mix ? pare__gguf_mixed_outer(l->target, l->m->config, false) : NULL;
    t->linear = (ptrdiff_t)l->m->linears - 1;
    return embed ? choose_tensor(l->cx, l->arena, l->target->block, mixed, embed, form, t)
                 : pare_fail(l->cx, PARE_ENOTSUP, "gguf: tensor %s.weight is missing", arch->embed);
}

static pare_status add_all(listing *l, const bool *plane)
{
    PARE_TRY(add_linears(l));
    for (size_t i = 0; i < l->tensors; i++)
        if (!plane[i] && !is_ignored(l->m->config->arch, l->tensor[i].name))
            PARE_TRY(add_tensor(l, &l->tensor[i]));
    PARE_TRY(add_head(l));
    return add_scaling(l);
}

pare_status pare_gguf_items(pare_ctx *cx, pare_arena *a, const pare_export_target *t,
                            const pare_export_model *m, const pare_tensor *tensor, size_t tensors,
                            const bool *plane, pare_gguf_item **out, size_t *count)
{
    listing l = {.cx = cx,
                 .arena = a,
                 .target = t,
                 .m = m,
                 .family = pare__gguf_family_for(m->config),
                 .tensor = tensor,
                 .tensors = tensors,
                 .item = PARE_NEW(a, pare_gguf_item, 3 * (m->linears + m->tables) + tensors + 4)};
    if (!l.item)
        return PARE_ENOMEM;
    PARE_TRY(add_all(&l, plane));
    for (size_t i = 0; i < l.items; i++)
        for (size_t j = 0; j < l.item[i].pieces; j++) {
            const pare_ggml_type *const type = l.item[i].type;
            pare_gguf_piece *const p = (pare_gguf_piece *)(uintptr_t)&l.item[i].piece[j];
            p->bytes = p->elements / type->elements * type->bytes;
        }
    if (l.items > 1)
        qsort(l.item, l.items, sizeof *l.item, by_order);
    *out = l.item;
    *count = l.items;
    return PARE_OK;
}
