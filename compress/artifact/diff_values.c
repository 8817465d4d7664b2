#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/artifact/diff_internal.h"
#include "formats/packed.h"
#include "kernels/layout.h"
#include "runtime/linear.h"
#include "runtime/small.h"

enum { CHUNK = 1 << 18, NAME = 4096 };

/* One of the two, as it lies in its file. */
typedef struct stored {
    bool packed;
    const pare_tensor *tensor; /* not packed */
    pare_packed_linear l;
    const pare_tensor *plane[PARE_PLANES];
    float input_scale;  /* fixed for all inputs; 0: none */
    pare_linear linear; /* packed, as the runtime has it */
} stored;

typedef struct sums {
    double difference, first; /* squares */
    uint64_t weights, differing;
} sums;

static pare_status find_packed(pare_ctx *cx, const pare_checkpoint *ck, const char *name,
                               stored *out)
{
    char text[NAME];
    const pare_json *const v = pare_json_get(pare_json_get(ck->index, "linears"), name);
    PARE_TRY(pare_packed_linear_read(cx, name, v, &out->l));
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        pare_tensor t;
        if (!pare_packed_plane_shape(&out->l, p, &t))
            continue;
        (void)snprintf(text, sizeof text, "%s.%s", name, pare_packed_plane_name(p));
        out->plane[p] = pare_checkpoint_find(ck, text);
        if (!out->plane[p] || out->plane[p]->bytes == 0)
            return pare_fail(cx, PARE_EFORMAT, "%s: tensor %.1024s is missing", ck->path, text);
        for (uint32_t d = 0; d < t.rank; d++)
            if (out->plane[p]->rank != t.rank || out->plane[p]->shape[d] != t.shape[d] ||
                out->plane[p]->dtype != t.dtype)
                return pare_fail(cx, PARE_EFORMAT, "%s: tensor %.1024s has another shape", ck->path,
                                 text);
    }
    const pare_tensor *const scale = out->plane[PARE_PLANE_INPUT_SCALE];
    if (scale)
        memcpy(&out->input_scale, scale->data, sizeof out->input_scale);
    return PARE_OK;
}

static pare_status find(pare_ctx *cx, const pare_diff_side *side, const pare_inspect_row *row,
                        stored *out)
{
    *out = (stored){.packed = row->packed};
    if (row->packed)
        return find_packed(cx, &side->checkpoint, row->name, out);
    const pare_checkpoint *const ck = &side->checkpoint;
    out->tensor = pare_checkpoint_find(ck, row->name);
    if (out->tensor && ck->stored)
        out->input_scale = ck->stored[out->tensor - ck->tensor].input_scale;
    return PARE_OK;
}

/* Planes in memory of their own where their elements are not aligned. */
static pare_status view(pare_ctx *cx, pare_arena *scratch, stored *s)
{
    void *plane[PARE_PLANES] = {NULL};
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        if (!s->plane[p])
            continue;
        void *const copy = pare_arena_take_raw(scratch, s->plane[p]->bytes, 1);
        if (!copy)
            return PARE_ENOMEM;
        memcpy(copy, s->plane[p]->data, s->plane[p]->bytes);
        plane[p] = copy;
    }
    return pare_packed_view(cx, scratch, &s->l, plane, &s->linear);
}

static bool same_plane(const stored *a, const stored *b, pare_plane p)
{
    const pare_tensor *const x = a->plane[p], *const y = b->plane[p];
    return !x == !y && (!x || (x->bytes == y->bytes && memcmp(x->data, y->data, x->bytes) == 0));
}

static bool same_planes(const stored *a, const stored *b)
{
    for (pare_plane p = 0; p < PARE_PLANES; p++)
        if (!same_plane(a, b, p))
            return false;
    return true;
}

/* The same bytes mean the same: they were compared where encodings are named alike. */
static bool same_bytes(const stored *a, const stored *b)
{
    if (a->packed || b->packed)
        return a->packed && b->packed && same_planes(a, b);
    return a->tensor->dtype == b->tensor->dtype && a->tensor->bytes == b->tensor->bytes &&
           a->input_scale == b->input_scale &&
           memcmp(a->tensor->data, b->tensor->data, a->tensor->bytes) == 0;
}

/* Codes in rows: neither trellis codes nor those of pruned weights. */
static bool has_rows(const stored *s)
{
    return s->plane[PARE_PLANE_CODES] && s->l.sparsity == PARE_SPARSITY_NONE &&
           !pare_encoding_turns(s->l.encoding);
}

/* Rows of codes of two linears that have them by the same bits. */
static pare_status compare_codes(pare_arena *scratch, const stored *a, const stored *b,
                                 double *share)
{
    const size_t n = a->l.n, k = a->l.k, wide = pare_round_up(k, PARE_ATOM_K);
    const size_t block = wide / PARE_ATOM_K * pare_atom_bytes(a->l.bits);
    uint64_t differing = 0;
    if (!has_rows(a) || !has_rows(b) || a->l.bits != b->l.bits)
        return PARE_OK;
    uint8_t *const x = PARE_NEW(scratch, uint8_t, PARE_ATOM_N * wide);
    uint8_t *const y = PARE_NEW(scratch, uint8_t, PARE_ATOM_N * wide);
    if (!x || !y)
        return PARE_ENOMEM;
    for (size_t row = 0; row < n; row += PARE_ATOM_N) {
        const size_t at = row / PARE_ATOM_N * block;
        const unsigned char *const p = a->plane[PARE_PLANE_CODES]->data;
        const unsigned char *const q = b->plane[PARE_PLANE_CODES]->data;
        pare_unpack_codes(x, wide, p + at, PARE_ATOM_N, wide, a->l.bits);
        pare_unpack_codes(y, wide, q + at, PARE_ATOM_N, wide, b->l.bits);
        for (size_t r = 0; r < pare_smaller(PARE_ATOM_N, n - row); r++)
            for (size_t j = 0; j < k; j++)
                differing += x[r * wide + j] != y[r * wide + j];
    }
    *share = (double)differing / ((double)n * (double)k);
    return PARE_OK;
}

static void add(sums *s, const float *x, const float *y, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double d = (double)x[i] - (double)y[i];
        s->difference += d * d;
        s->first += (double)x[i] * (double)x[i];
        s->differing += memcmp(&x[i], &y[i], sizeof *x) != 0 && d != 0;
    }
    s->weights += count;
}

static bool is_float(const stored *s)
{
    return s->packed || s->tensor->dtype == PARE_F32 || s->tensor->dtype == PARE_F16 ||
           s->tensor->dtype == PARE_BF16;
}

/* A packed linear as a whole; NULL for a tensor, which is read piece by piece. */
static pare_status decode(pare_ctx *cx, pare_arena *scratch, stored *s, float **out)
{
    *out = NULL;
    if (!s->packed)
        return PARE_OK;
    *out = pare_arena_take_raw(scratch, s->l.n * s->l.k, sizeof **out);
    if (!*out)
        return PARE_ENOMEM;
    PARE_TRY(view(cx, scratch, s));
    pare_linear_to_f32(cx, &s->linear, *out);
    return PARE_OK;
}

static pare_status piece(pare_ctx *cx, const stored *s, float *whole, uint64_t at, size_t count,
                         float *room, const float **out)
{
    *out = whole ? whole + at : room;
    return whole ? PARE_OK : pare_tensor_to_f32(cx, s->tensor, at, count, room);
}

static pare_status compare_weights(pare_ctx *cx, pare_arena *scratch, stored *a, stored *b,
                                   uint64_t count, sums *out)
{
    float *whole[2], *const room = PARE_NEW(scratch, float, 2 * (size_t)CHUNK);
    const float *x, *y;
    if (!room)
        return PARE_ENOMEM;
    PARE_TRY(decode(cx, scratch, a, &whole[0]));
    PARE_TRY(decode(cx, scratch, b, &whole[1]));
    for (uint64_t at = 0; at < count; at += CHUNK) {
        const size_t n = count - at < CHUNK ? (size_t)(count - at) : CHUNK;
        PARE_TRY(pare_ctx_interrupted(cx));
        PARE_TRY(piece(cx, a, whole[0], at, n, room, &x));
        PARE_TRY(piece(cx, b, whole[1], at, n, room + CHUNK, &y));
        add(out, x, y, n);
    }
    return PARE_OK;
}

static pare_status compare(pare_ctx *cx, pare_arena *scratch, stored *a, stored *b,
                           pare_diff_row *row)
{
    sums s = {.weights = 0};
    if (row->kind != PARE_DIFF_ENCODING && same_bytes(a, b)) {
        row->kind = PARE_DIFF_SAME;
        return PARE_OK;
    }
    if (a->packed && b->packed)
        PARE_TRY(compare_codes(scratch, a, b, &row->codes));
    if (!is_float(a) || !is_float(b) || (a->packed && a->l.rotated) || (b->packed && b->l.rotated))
        return PARE_OK;
    PARE_TRY(compare_weights(cx, scratch, a, b, row->a->weights, &s));
    row->weights = s.weights ? (double)s.differing / (double)s.weights : 0;
    row->error = s.first > 0 ? s.difference / s.first : (double)NAN;
    /* the same values by other codes, or zeros of another sign */
    if (s.differing == 0 && a->input_scale == b->input_scale && same_plane(a, b, PARE_PLANE_BIAS))
        row->kind = PARE_DIFF_ENCODING;
    return PARE_OK;
}

pare_status pare__diff_values(pare_ctx *cx, pare_arena *scratch, const pare_diff_side side[2],
                              pare_diff_row *row)
{
    stored a, b;
    row->kind = strcmp(row->a->encoding, row->b->encoding) == 0 && row->a->packed == row->b->packed
                    ? PARE_DIFF_VALUES
                    : PARE_DIFF_ENCODING;
    PARE_TRY(find(cx, &side[0], row->a, &a));
    PARE_TRY(find(cx, &side[1], row->b, &b));
    if ((!a.packed && (!a.tensor || !a.tensor->data)) ||
        (!b.packed && (!b.tensor || !b.tensor->data)))
        return PARE_OK;
    const pare_mark mark = pare_arena_mark(scratch);
    const pare_status s = compare(cx, scratch, &a, &b, row);
    pare_arena_rewind(scratch, mark);
    return s;
}
