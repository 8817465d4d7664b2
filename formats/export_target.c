#include "formats/export_internal.h"

#include <stdio.h>
#include <string.h>

#include "formats/gguf_internal.h"
#include "kernels/half.h"
#include "kernels/layout.h"

const pare_export_target *const pare_export_targets[] = {&pare__export_compressed_tensors,
                                                         &pare__export_gptq,
                                                         &pare__export_gptq_v2,
                                                         &pare__export_awq,
                                                         &pare__export_exl3,
                                                         &pare__export_safetensors,
                                                         &pare__export_gguf[PARE__GGUF_Q4_0],
                                                         &pare__export_gguf[PARE__GGUF_Q4_1],
                                                         &pare__export_gguf[PARE__GGUF_Q5_0],
                                                         &pare__export_gguf[PARE__GGUF_Q5_1],
                                                         &pare__export_gguf[PARE__GGUF_Q8_0],
                                                         &pare__export_gguf[PARE__GGUF_Q2_K],
                                                         &pare__export_gguf[PARE__GGUF_Q3_K],
                                                         &pare__export_gguf[PARE__GGUF_Q4_K],
                                                         &pare__export_gguf[PARE__GGUF_Q5_K],
                                                         &pare__export_gguf[PARE__GGUF_Q6_K],
                                                         &pare__export_gguf[PARE__GGUF_Q2_K_S],
                                                         &pare__export_gguf[PARE__GGUF_Q2_K_M],
                                                         &pare__export_gguf[PARE__GGUF_Q3_K_S],
                                                         &pare__export_gguf[PARE__GGUF_Q3_K_M],
                                                         &pare__export_gguf[PARE__GGUF_Q3_K_L],
                                                         &pare__export_gguf[PARE__GGUF_Q4_K_S],
                                                         &pare__export_gguf[PARE__GGUF_Q4_K_M],
                                                         &pare__export_gguf[PARE__GGUF_Q5_K_S],
                                                         &pare__export_gguf[PARE__GGUF_Q5_K_M],
                                                         &pare__export_gguf[PARE__GGUF_TQ1_0],
                                                         &pare__export_gguf[PARE__GGUF_TQ2_0],
                                                         &pare__export_gguf[PARE__GGUF_MXFP4],
                                                         &pare__export_gguf[PARE__GGUF_F16],
                                                         NULL};

const pare_export_target *pare_export_find(const char *name)
{
    for (size_t i = 0; pare_export_targets[i]; i++)
        if (strcmp(pare_export_targets[i]->name, name) == 0)
            return pare_export_targets[i];
    return NULL;
}

const char *pare_export_fate_name(pare_export_fate f)
{
    static const char *const name[PARE_EXPORT_FATES] = {"lossless", "rounded", "requantized",
                                                        "float", "quantized"};
    return name[f];
}

const char *pare_export_fate_text(pare_export_fate f)
{
    static const char *const text[PARE_EXPORT_FATES] = {
        [PARE_EXPORT_LOSSLESS] = "with the same weights",
        [PARE_EXPORT_ROUNDED] = "rounded to floats",
        [PARE_EXPORT_REQUANTIZED] = "quantized again",
        [PARE_EXPORT_FLOAT] = "in floats as before",
        [PARE_EXPORT_QUANTIZED] = "of floats quantized here"};
    return text[f];
}

pare_export_store pare_export_store_of(const pare_export_target *t, const pare_export_linear *l)
{
    if (t->store)
        return t->store(t, l);
    if (l->looked_up)
        return (pare_export_store){.fate = PARE_EXPORT_ROUNDED};
    return (pare_export_store){.fate = l->is_packed ? t->fate : PARE_EXPORT_FLOAT};
}

const pare_export_linear *pare_export_packed_embedding(const pare_export_model *m)
{
    const size_t all = m->linears + m->tables;
    const pare_export_linear *const last = all ? &m->linear[all - 1] : NULL;
    return last && last->looked_up ? last : NULL;
}

pare_export_grain pare_export_grain_of(const pare_export_target *t, const pare_export_linear *l)
{
    pare_export_grain g = {1, 1, 0};
    if (!l->is_packed && !t->mix)
        return g;
    if (t->grain)
        g = t->grain(t, l);
    if (l->packed.sparsity == PARE_SPARSITY_2_4 && g.columns < 4)
        g.columns = 4;
    return g;
}

/* Pieces of one tensor that are stored in different ways. */
static pare_status check_pieces(pare_ctx *cx, const pare_export_target *t,
                                const pare_export_linear *l)
{
    if (t->kind == PARE_EXPORT_DIRECTORY && t->fate != PARE_EXPORT_ROUNDED)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: linears %s and %s lie in one tensor of this family and need the same "
                         "bits, group and symmetry: quantize them by one step of the recipe",
                         t->name, l->piece[0].name, l->unlike);
    for (size_t i = 0; i < l->pieces; i++)
        if (l->piece[i].is_packed)
            PARE_TRY(t->check_linear(cx, &l->piece[i]));
    return PARE_OK;
}

/* Whether each linear has codes of the target, in the type that is asked for. */
static bool holds_all(const pare_export_target *t, const pare_export_model *m)
{
    for (size_t i = 0; i < m->linears + m->tables; i++) {
        const pare_export_store s = pare_export_store_of(t, &m->linear[i]);
        if (m->linear[i].is_packed && (s.fallback || s.fate == PARE_EXPORT_REQUANTIZED))
            return false;
    }
    return true;
}

/* The first type of a GGUF file that holds all, which gguf:f16, the last one, does. */
static const char *file_that_holds(const pare_export_model *m)
{
    for (size_t i = 0; pare_export_targets[i]; i++) {
        const pare_export_target *const t = pare_export_targets[i];
        if (t->kind == PARE_EXPORT_FILE && !t->mix && holds_all(t, m))
            return t->name;
    }
    return pare__export_gguf[PARE__GGUF_F16].name;
}

static pare_status check_strict(pare_ctx *cx, const pare_export_target *t,
                                const pare_export_model *m, const pare_export_linear *l)
{
    const pare_export_store s = pare_export_store_of(t, l);
    char text[PARE_PACKED_TEXT];
    if (!l->is_packed || (!s.fallback && s.fate != PARE_EXPORT_REQUANTIZED))
        return PARE_OK;
    (void)pare_packed_linear_text(&l->packed, text);
    if (s.fallback && l->unlike)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: linears %s and %s lie in one tensor, which would become %s, and "
                         "--strict refuses; quantize them by one step, or leave out --strict",
                         t->name, l->piece[0].name, l->unlike, s.type);
    if (s.beside_floats)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: linear %s (%s): experts of its block that are not quantized lie in "
                         "the same tensor, which would become %s, and --strict refuses; quantize "
                         "this linear of all experts or of none",
                         t->name, l->name, text, s.type);
    if (s.fallback)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: linear %s (%s): rows of %zu are no whole blocks, it would become %s, "
                         "which --strict refuses; %s holds all linears, or leave out --strict",
                         t->name, l->name, text, l->packed.k, s.type, file_that_holds(m));
    return pare_fail(cx, PARE_ENOTSUP,
                     "%s: linear %s (%s) has no codes of this format and would be quantized again, "
                     "which --strict refuses; \"pare help export\" says what each type holds, and "
                     "%s holds all linears",
                     t->name, l->name, text, file_that_holds(m));
}

/* Experts must lie apart in the files of the family. Floats in safetensors are for pare, too, and
 * it reads a width for each block. */
pare_status pare_export_check_widths(pare_ctx *cx, const pare_export_target *t,
                                     const pare_config *c)
{
    const bool plain = t->kind == PARE_EXPORT_DIRECTORY && t->fate == PARE_EXPORT_ROUNDED;
    if (c->arch && c->arch->experts && c->arch->experts->stacking)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: models of type %s are not written: engines want all experts of a "
                         "block in one tensor, and pare takes those of an artifact apart; it "
                         "runs in pare, and llama.cpp's converter takes a plain checkpoint",
                         t->name, c->arch->model_type);
    if (c->arch && c->arch->recurrent && c->arch->recurrent->recurrence->fused[0])
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: models of type %s are not written: engines want the inputs of a "
                         "recurrent state in one tensor, which pare takes apart and does not put "
                         "together; the artifact itself runs in pare",
                         t->name, c->arch->model_type);
    if (plain)
        return PARE_OK;
    const bool corrected = c->arch && c->arch->experts && c->arch->experts->correction;
    if (corrected || (c->arch && c->arch->latent_eps > 0))
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: models of type %s have %s and are written in the format safetensors "
                         "only",
                         t->name, c->arch->model_type,
                         corrected ? "a router with a correction" : "latent attention");
    const bool file = c->uneven && pare__gguf_family_for(c);
    if (!c->uneven || (t->kind == PARE_EXPORT_FILE && file))
        return PARE_OK;
    return pare_fail(cx, PARE_ENOTSUP,
                     "%s: MLPs of its blocks differ in width, and %s one width for all blocks; "
                     "export %sthe format safetensors, which pare runs, or prune all blocks to one "
                     "width: ziplm with one ratio and without targets",
                     t->name,
                     t->kind == PARE_EXPORT_FILE ? "for a model of this type llama.cpp reads"
                                                 : "vLLM, SGLang and transformers read",
                     file ? "gguf:TYPE, which llama.cpp reads, " : "");
}

/* What takes a model that another format has no place for, as the end of a sentence. */
static const char *that_takes_it(pare_ctx *cx, const pare_export_model *m)
{
    static const struct {
        const pare_export_target *t;
        const char *text;
    } other[] = {{&pare__export_compressed_tensors, "; compressed-tensors takes this model"},
                 {&pare__export_safetensors, "; safetensors takes this model, as floats"}};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        if (pare_export_check(cx, other[i].t, m, false) == PARE_OK)
            return other[i].text;
        pare_ctx_clear(cx);
    }
    return "";
}

static pare_status check_sizes(pare_ctx *cx, const pare_export_target *t,
                               const pare_export_model *m)
{
    char text[PARE_PACKED_TEXT], what[64];
    for (size_t i = 0; t->rows && i < m->linears; i++) {
        const pare_packed_linear *const l = &m->linear[i].packed;
        if (!m->linear[i].is_packed || m->linear[i].unlike ||
            !pare_encodings[l->encoding].integer ||
            (l->n % t->rows == 0 && (!t->columns || l->k % t->columns == 0)))
            continue;
        (void)snprintf(what, sizeof what,
                       t->columns ? "rows and columns in multiples of %zu"
                                  : "a multiple of %zu rows",
                       t->rows);
        return pare_fail(cx, PARE_ENOTSUP, "%s: linear %s (%s, %zu x %zu): %s needs %s%s", t->name,
                         l->name, pare_packed_linear_text(l, text), l->n, l->k, t->engine, what,
                         that_takes_it(cx, m));
    }
    return PARE_OK;
}

pare_status pare_export_check(pare_ctx *cx, const pare_export_target *t, const pare_export_model *m,
                              bool strict)
{
    PARE_TRY(pare_export_check_widths(cx, t, m->config));
    if (m->shifts_norms)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: a pass made biases behind norms, and engines have no place for any "
                         "in this model; use outlier_suppression: {shift: false}, or smoothquant",
                         t->name);
    if (t->kind == PARE_EXPORT_DIRECTORY && m->config->arch && m->config->arch->rounds_inputs)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: linears of type %s round their inputs, which engines do not do with "
                         "weights in this format; gguf:tq2_0 and gguf:tq1_0 are for them",
                         t->name, m->config->arch->model_type);
    if (m->config->mixed && t != &pare__export_safetensors)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: models of type %s are not written: pare does not know how engines "
                         "read blocks with a recurrent state in this format; safetensors has their "
                         "floats, and the artifact itself runs in pare",
                         t->name, m->config->arch->model_type);
    if (m->biased)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: linear %s: a pass made a bias for it, and engines have no place for "
                         "one in this model; use outlier_suppression: {shift: false}, or "
                         "smoothquant",
                         t->name, m->biased);
    PARE_TRY(check_sizes(cx, t, m));
    for (size_t i = 0; i < m->linears; i++) {
        const pare_export_linear *const l = &m->linear[i];
        if (l->is_packed && !l->unlike)
            PARE_TRY(t->check_linear(cx, l));
        else if (l->is_packed)
            PARE_TRY(check_pieces(cx, t, l));
    }
    PARE_TRY(t->check(cx, m));
    for (size_t i = 0; strict && i < m->linears + m->tables; i++)
        PARE_TRY(check_strict(cx, t, m, &m->linear[i]));
    return PARE_OK;
}

/* Planes of kernels lie [n / 8][groups][8]. */
static size_t plane_at(size_t row, size_t groups, size_t g)
{
    return (row / PARE_ATOM_N * groups + g) * PARE_ATOM_N + row % PARE_ATOM_N;
}

static void unpack_pruned(const pare_packed_linear *l, const pare_linear *w, uint8_t *code)
{
    const pare_panel *const p = &w->panel;
    const size_t atoms = pare_24_kept(l->k) / PARE_ATOM_K;
    const uint8_t zero = pare_packed_zero_code(l);
    for (size_t row = 0; row < l->n; row += PARE_ATOM_N)
        for (size_t k = 0; k < l->k; k += PARE_ATOM_K) {
            uint8_t u[PARE_ATOM_N][PARE_ATOM_K];
            const size_t atom = row / PARE_ATOM_N * atoms + k / 64;
            pare_unpack_24(u, p->codes + atom * pare_atom_bytes(l->bits),
                           p->indices + atom * pare_atom_bytes(2), k / PARE_ATOM_K % 2, l->bits,
                           zero);
            const size_t columns = l->k - k < PARE_ATOM_K ? l->k - k : PARE_ATOM_K;
            for (size_t r = 0; r < PARE_ATOM_N && row + r < l->n; r++)
                memcpy(code + (row + r) * l->k + k, u[r], columns);
        }
}

pare_status pare__export_unpack(pare_arena *a, const pare_packed_linear *l, const pare_linear *w,
                                pare__export_codes *out)
{
    const size_t groups = pare_packed_linear_groups(l);
    *out = (pare__export_codes){
        .n = l->n, .k = l->k, .groups = groups, .group = l->group ? l->group : l->k};
    out->code = PARE_NEW(a, uint8_t, l->n * l->k);
    out->zero = PARE_NEW(a, uint8_t, l->n * groups);
    out->scale = PARE_NEW(a, uint16_t, l->n * groups);
    if (!out->code || !out->zero || !out->scale)
        return PARE_ENOMEM;
    if (l->sparsity == PARE_SPARSITY_2_4)
        unpack_pruned(l, w, out->code);
    else
        pare_unpack_codes(out->code, l->k, w->panel.codes, l->n, l->k, l->bits);
    for (size_t row = 0; row < l->n; row++)
        for (size_t g = 0; g < groups; g++) {
            const size_t at = plane_at(row, groups, g), to = row * groups + g;
            out->scale[to] = w->panel.scales[at];
            out->zero[to] = w->panel.zeros ? w->panel.zeros[at] : pare_packed_zero_code(l);
        }
    return PARE_OK;
}

uint8_t pare__export_exponent(uint16_t scale)
{
    return (uint8_t)(pare_f32_bits(pare_f16_to_f32(scale)) >> 23);
}

void pare__export_put_bits(uint32_t *words, size_t stride, size_t field, unsigned bits,
                           uint32_t value)
{
    const size_t bit = field * bits;
    const unsigned shift = bit % 32;
    words[bit / 32 * stride] |= value << shift;
    if (shift + bits > 32)
        words[(bit / 32 + 1) * stride] |= value >> (32 - shift);
}

static pare_status refuse(pare_ctx *cx, const pare_packed_linear *l, const char *target,
                          const char *why)
{
    char text[PARE_PACKED_TEXT];
    return pare_fail(cx, PARE_ENOTSUP, "%s: linear %s (%s): %s", target, l->name,
                     pare_packed_linear_text(l, text), why);
}

pare_status pare__export_check_grid(pare_ctx *cx, const pare_packed_linear *l, const char *target)
{
    if (pare_encoding_is_float(l->encoding))
        return refuse(cx, l, target,
                      "it is pruned and not quantized, and this format is for codes; the formats "
                      "safetensors and gguf:f16 hold its floats, zeros included, or put a "
                      "quantizer behind the pruner");
    if (pare_encoding_turns(l->encoding))
        return refuse(cx, l, target,
                      "it has trellis codes, which the format exl3 holds; safetensors and gguf:f16 "
                      "hold all values as floats");
    if (!pare_encodings[l->encoding].integer)
        return refuse(cx, l, target,
                      "its values do not lie on an integer grid; compressed-tensors holds FP8, "
                      "MXFP4 and NVFP4 as they are, safetensors and gguf:f16 all values as floats");
    if (l->outliers || l->sparse)
        return refuse(cx, l, target,
                      "this format has no place for columns or weights that are kept apart; "
                      "the formats safetensors and gguf:f16 write all as floats");
    if (l->rotated)
        return refuse(cx, l, target,
                      "its inputs are rotated while the model runs, which engines do not do; "
                      "rotate without online rotations");
    if (l->bias)
        return refuse(cx, l, target,
                      "a pass made a bias for it, and engines have no place for one in this model; "
                      "use outlier_suppression: {shift: false}, or smoothquant");
    return PARE_OK;
}

pare_status pare__export_check_group(pare_ctx *cx, const pare_packed_linear *l, const char *target,
                                     const char *engine)
{
    const size_t g = l->group;
    char why[256], groups[PARE_GROUPS_TEXT];
    if (g == 0)
        return PARE_OK;
    (void)pare_grid_groups_text(l->k, 128, groups);
    if (g != 32 && g != 64 && g != 128)
        (void)snprintf(why, sizeof why,
                       "vLLM has kernels for groups of 32, 64, 128 and whole rows; take group %s",
                       groups);
    else if (l->k % g != 0)
        (void)snprintf(why, sizeof why,
                       "%s needs groups that divide the columns, and %zu does not divide %zu; take "
                       "group %s",
                       engine, g, l->k, groups);
    else
        return PARE_OK;
    return refuse(cx, l, target, why);
}

pare_status pare__export_check_inputs(pare_ctx *cx, const pare_packed_linear *l, const char *target)
{
    if (l->activation.mode == PARE_ACTIVATION_GROUP && l->activation.bits != 4)
        return PARE_OK; /* 8-bit groups are how our kernels run any weights */
    if (l->activation.mode == PARE_ACTIVATION_TOKEN && pare_encodings[l->encoding].by_token)
        return PARE_OK; /* and tokens how they run these */
    if (l->activation.mode == PARE_ACTIVATION_FLOAT)
        return PARE_OK;
    return refuse(cx, l, target,
                  "this format leaves its inputs in floats, the recipe does not; leave out "
                  "activations, or take compressed-tensors with bits: 8, group: row, activations: "
                  "int8_token");
}

static bool same_scheme(const pare_packed_linear *a, const pare_packed_linear *b)
{
    return a->bits == b->bits && a->group == b->group && a->symmetric == b->symmetric &&
           a->encoding == b->encoding;
}

static bool is_attention_input(pare_role r)
{
    return r <= PARE_ROLE_V;
}

static bool is_mlp_input(pare_role r)
{
    return r == PARE_ROLE_GATE || r == PARE_ROLE_UP;
}

bool pare__export_run_as_one(const pare_export_linear *a, const pare_export_linear *b)
{
    return a->part == b->part && a->block == b->block &&
           ((is_attention_input(a->role) && is_attention_input(b->role)) ||
            (is_mlp_input(a->role) && is_mlp_input(b->role)));
}

static bool fused(const pare_export_linear *a, const pare_export_linear *b)
{
    return a->part > 0 && b->part > 0 ? a->block == b->block : pare__export_run_as_one(a, b);
}

static pare_status refuse_unlike(pare_ctx *cx, const pare_export_linear *a,
                                 const pare_export_linear *b, const char *target)
{
    const char *const how = a->part ? "with all experts of the block" : "as one matrix";
    if (a->is_packed == b->is_packed)
        return pare_fail(
            cx, PARE_ENOTSUP,
            "%s: linears %s and %s: vLLM runs them %s and needs the same grid, "
            "bits, group, symmetry and rounding of inputs: quantize them by one step of the recipe",
            target, a->name, b->name, how);
    return pare_fail(cx, PARE_ENOTSUP,
                     "%s: linears %s and %s: vLLM runs them %s and refuses files in which only one "
                     "is quantized, here %s: let one step of the recipe quantize both, or let it "
                     "skip both; the formats safetensors and gguf take the model as it is",
                     target, a->name, b->name, how, a->is_packed ? a->name : b->name);
}

pare_status pare__export_check_fused(pare_ctx *cx, const pare_export_model *m, const char *target,
                                     bool (*same)(const pare_export_linear *a,
                                                  const pare_export_linear *b))
{
    for (size_t i = 0; i + 1 < m->linears; i++) {
        const pare_export_linear *const a = &m->linear[i], *const b = a + 1;
        if (a->block < m->config->blocks && fused(a, b) && !same(a, b))
            return refuse_unlike(cx, a, b, target);
    }
    return PARE_OK;
}

/* Where all that is packed has one scheme. */
static bool both_packed(const pare_export_linear *a, const pare_export_linear *b)
{
    return a->is_packed == b->is_packed;
}

pare_status pare__export_check_uniform(pare_ctx *cx, const pare_export_model *m, const char *target)
{
    const pare_packed_linear *first = NULL;
    char a[PARE_PACKED_TEXT], b[PARE_PACKED_TEXT];
    for (size_t i = 0; i < m->linears; i++) {
        const pare_export_linear *const l = &m->linear[i];
        if (!l->is_packed)
            continue;
        first = first ? first : &l->packed;
        if (!same_scheme(first, &l->packed))
            return pare_fail(cx, PARE_ENOTSUP,
                             "%s: linear %s is %s, but %s is %s; this format has one kind for all: "
                             "quantize all by one step%s",
                             target, l->name, pare_packed_linear_text(&l->packed, a), first->name,
                             pare_packed_linear_text(first, b), that_takes_it(cx, m));
    }
    if (!first)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: no linear of the model is quantized; the formats safetensors and "
                         "gguf:f16 hold floats",
                         target);
    return pare__export_check_fused(cx, m, target, both_packed);
}
