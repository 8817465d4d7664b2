/* Linears that lie in one tensor of a file come apart when a model is loaded; here they go together
 * again. Codes and scales belong to rows, so that nothing is lost. */
#include <string.h>

#include "formats/export_internal.h"
#include "runtime/linear.h"
#include "solve/scales.h"

/* The row of a piece that is row `r` of the tensor. */
static size_t locate(const pare_export_model *m, const pare_export_linear *l, size_t r,
                     size_t *piece)
{
    const size_t turns = l->fusion == PARE_FUSION_HEADS ? m->config->heads : 1;
    const size_t step = l->packed.n / turns, turn = r / step;
    size_t at = r % step, rows = l->piece[0].weights->n / turns;
    for (*piece = 0; at >= rows; rows = l->piece[*piece].weights->n / turns) {
        at -= rows;
        ++*piece;
    }
    return turn * rows + at;
}

pare_status pare_export_floats(pare_ctx *cx, pare_arena *scratch, const pare_export_model *m,
                               const pare_export_linear *l, float *out)
{
    float *part[PARE_ROLES];
    const size_t k = l->packed.k;
    if (!l->pieces) {
        pare_linear_to_f32(cx, l->weights, out);
        return PARE_OK;
    }
    const pare_mark mark = pare_arena_mark(scratch);
    for (size_t i = 0; i < l->pieces; i++) {
        part[i] = pare_arena_take_raw(scratch, l->piece[i].weights->n * k, sizeof *out);
        if (!part[i])
            return PARE_ENOMEM;
        pare_linear_to_f32(cx, l->piece[i].weights, part[i]);
    }
    for (size_t r = 0; r < l->packed.n; r++) {
        size_t i;
        const size_t row = locate(m, l, r, &i);
        memcpy(out + r * k, part[i] + row * k, k * sizeof *out);
    }
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

static pare_status join_codes(pare_ctx *cx, pare_arena *a, const pare_export_model *m,
                              const pare_export_linear *l, pare_codes *c)
{
    pare__export_codes part[PARE_ROLES];
    const size_t k = l->packed.k, groups = pare_packed_linear_groups(&l->packed);
    const pare_grid g = {.encoding = l->packed.encoding,
                         .bits = l->packed.bits,
                         .group = l->packed.group,
                         .symmetric = l->packed.symmetric};
    PARE_TRY(pare_codes_take(a, &g, l->packed.n, k, c));
    for (size_t i = 0; i < l->pieces; i++)
        PARE_TRY(pare__export_unpack(a, &l->piece[i].packed, l->piece[i].weights, &part[i]));
    for (size_t r = 0; r < l->packed.n; r++) {
        size_t i;
        const size_t row = locate(m, l, r, &i);
        memcpy(c->codes + r * k, part[i].code + row * k, k);
        cx->kernels.cvt_f16_f32(c->scales + r * groups, part[i].scale + row * groups, groups);
        if (c->zeros)
            memcpy(c->zeros + r * groups, part[i].zero + row * groups, groups);
    }
    if (c->scale_codes) /* MXFP4, NVFP4: NF4 becomes floats */
        pare_scales_finish(&g, c);
    for (size_t r = 0; pare_encodings[g.encoding].scales == PARE_SCALES_E4M3 && r < c->n; r++) {
        size_t i;
        const size_t row = locate(m, l, r, &i);
        for (size_t j = 0; j < groups; j++)
            PARE_TRY(pare__export_scale_code(cx, "export", l->piece[i].name, &part[i], row, j,
                                             c->scale_factor, &c->scale_codes[r * groups + j]));
    }
    c->input_scale = l->packed.activation.scale;
    return PARE_OK;
}

pare_status pare_export_weights(pare_ctx *cx, pare_arena *scratch, const pare_export_model *m,
                                const pare_export_linear *l, bool floats, pare_linear *out)
{
    pare_codes c;
    pare_packed_planes p;
    if (!l->pieces) {
        *out = *l->weights;
        return PARE_OK;
    }
    if (floats || pare_encoding_is_float(l->packed.encoding)) {
        float *const value = pare_arena_take_raw(scratch, l->packed.n * l->packed.k, sizeof *value);
        if (!value)
            return PARE_ENOMEM;
        *out = (pare_linear){
            .name = l->name, .n = l->packed.n, .k = l->packed.k, .dtype = PARE_F32, .data = value};
        return pare_export_floats(cx, scratch, m, l, value);
    }
    PARE_TRY(join_codes(cx, scratch, m, l, &c));
    PARE_TRY(pare_packed_pack(cx, scratch, &l->packed, &c, &p));
    return pare_packed_view(cx, scratch, &l->packed, p.plane, out);
}

void pare_export_bias(const pare_export_model *m, const pare_export_linear *l, float *out)
{
    for (size_t r = 0; r < l->packed.n; r++) {
        size_t i = 0;
        const size_t row = l->pieces ? locate(m, l, r, &i) : r;
        out[r] = (l->pieces ? l->piece[i].weights : l->weights)->bias[row];
    }
}

/* Whether codes of both may lie in one tensor. */
static bool alike(const pare_export_linear *a, const pare_export_linear *b)
{
    const pare_packed_linear *const p = &a->packed, *const q = &b->packed;
    return a->is_packed == b->is_packed && p->bits == q->bits && p->group == q->group &&
           p->symmetric == q->symmetric && p->encoding == q->encoding &&
           p->sparsity == q->sparsity && p->activation.mode == q->activation.mode &&
           p->activation.bits == q->activation.bits && p->activation.scale == q->activation.scale &&
           !p->outliers == !q->outliers && !p->sparse == !q->sparse && p->rotated == q->rotated &&
           p->bias == q->bias;
}

void pare_export_join(pare_export_linear *l, const char *name, const pare_export_linear *piece,
                      size_t pieces, pare_fusion fusion)
{
    *l = piece[0];
    l->name = name;
    l->weights = NULL;
    l->piece = piece;
    l->pieces = pieces;
    l->fusion = fusion;
    for (size_t i = 1; i < pieces; i++) {
        if (!alike(&piece[0], &piece[i]) && !l->unlike)
            l->unlike = piece[i].name;
        if (piece[i].is_packed && !l->is_packed) {
            l->is_packed = true;
            l->packed = piece[i].packed;
        }
    }
    l->packed.name = name;
    l->packed.n = l->packed.kept = 0;
    l->packed.k = piece[0].weights->k;
    for (size_t i = 0; i < pieces; i++) {
        l->packed.n += piece[i].weights->n;
        l->packed.kept += piece[i].packed.kept;
    }
}
