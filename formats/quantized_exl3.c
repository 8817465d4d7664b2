/* EXL3 as ExLlamaV3 writes it: trellis codes of tiles between Hadamard matrices (kernels/exl3.h).
 *
 *   trellis    I16 [k / 16, n / 16, 16 bits]  tiles, column block after column block
 *   suh, svh   F16 [k], [n]                   scales of columns and rows
 *   su, sv     I16 [k / 16], [n / 16]         in older files: a bit each, 1 for -1
 *   mul1, mcg  I32, one number                the multiplier of a codebook; with neither of them it
 *                                             is the oldest one
 *
 * A codebook gives a number of F16 to each state of 16 bits. That of mul1 is ours; the others are
 * read as floats. A head may have rows behind the vocabulary, up to a multiple of 128.
 *
 * Source: ExLlamaV3 1.4.1, modules/quant/exl3.py, exllamav3_ext/quant/codebook.cuh. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "formats/quantized_internal.h"
#include "kernels/exl3.h"
#include "kernels/half.h"
#include "runtime/threads.h"
#include "solve/exl3_values.h"

enum { SPAN = 128, MOST_BITS = 8, TILE_WORDS = 16, F16_ONE = 0x3c00, F16_SIGN = 0x8000 };
enum { STORAGE_MAX = 100 * 1000 * 1000 }; /* bytes of quantization_config.json */

/* What tensor_storage says of a tensor of a linear, where that is there. */
static pare_status check_stored(const pare__quantized *q, const char *name, const pare_json *said)
{
    const pare_tensor *const t = pare_checkpoint_find(q->ck, name);
    const pare_json *const shape = pare_json_get(said, "shape");
    bool same = t && pare_json_count(shape) == t->rank;
    for (size_t i = 0; same && i < t->rank; i++)
        same = pare_json_integer(pare_json_at(shape, i), -1) == (int64_t)t->shape[i];
    return !t || !shape || same
               ? PARE_OK
               : pare__quantized_wrong(q, name, "", "has another shape than tensor_storage says");
}

static pare_status check_linear(const pare__quantized *q, const char *linear, const pare_json *said)
{
    const pare_tensor *const t = pare__quantized_find(q, linear, ".trellis");
    const pare_json *const bits = pare_json_get(said, "bits_per_weight"), *value;
    const char *name;
    for (pare_json_iter it = {0};
         pare_json_next(pare_json_get(said, "stored_tensors"), &it, &name, &value);)
        PARE_TRY(check_stored(q, name, value));
    if (t && bits && t->rank == 3 && pare_json_number(bits, 0) * TILE_WORDS != (double)t->shape[2])
        return pare__quantized_wrong(q, linear, ".trellis",
                                     "has other bits than bits_per_weight of tensor_storage says");
    return PARE_OK;
}

static pare_status check_storage(const pare__quantized *q, const pare_json *config)
{
    const char *name;
    const pare_json *value;
    for (pare_json_iter it = {0};
         pare_json_next(pare_json_get(config, "tensor_storage"), &it, &name, &value);)
        PARE_TRY(check_linear(q, name, value));
    return PARE_OK;
}

/* ExLlamaV3 writes tensor_storage to a file of its own, pare to config.json as well. */
static pare_status begin(pare__quantized *q)
{
    const char *const path =
        pare_path_join(q->scratch, q->ck->directory, "quantization_config.json");
    pare_json *own = NULL;
    pare_path_kind is;
    char *text;
    size_t len;
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(check_storage(q, q->config));
    PARE_TRY(pare_path_look(q->cx, path, &is));
    if (is != PARE_PATH_FILE)
        return PARE_OK;
    const pare_mark mark = pare_arena_mark(q->scratch);
    pare_status s = pare_file_read(q->cx, q->scratch, path, STORAGE_MAX, &text, &len);
    if (s == PARE_OK)
        s = pare_json_parse(q->cx, path, text, len, STORAGE_MAX, &own);
    if (s == PARE_OK)
        s = check_storage(q, own);
    pare_json_free(own);
    pare_arena_rewind(q->scratch, mark);
    return s;
}

/* Bits and sizes, of the tiles. */
static pare_status read_sizes(const pare__quantized *q, pare__coded *c)
{
    const pare_tensor *const t = c->codes;
    const uint64_t most = PARE__SIDE_MAX / PARE_EXL3_TILE;
    if (t->dtype != PARE_I16 || t->rank != 3 || !t->shape[0] || t->shape[0] > most ||
        !t->shape[1] || t->shape[1] > most)
        return pare__quantized_fail_form(q, t, "I16", "[columns / 16, rows / 16, 16 bits]");
    if (!t->shape[2] || t->shape[2] % TILE_WORDS || t->shape[2] > TILE_WORDS * MOST_BITS)
        return pare__quantized_wrong(
            q, c->name, ".trellis",
            "only whole numbers of bits, 1 to 8, are read: 16 words of a tile for each");
    c->k = (size_t)t->shape[0] * PARE_EXL3_TILE;
    c->n = c->rows = (size_t)t->shape[1] * PARE_EXL3_TILE;
    c->bits = (unsigned)(t->shape[2] / TILE_WORDS);
    if (c->n % SPAN || c->k % SPAN)
        return pare_fail(q->cx, PARE_EFORMAT,
                         "%s: tensor %s has %zu rows and %zu columns; only multiples of 128 are "
                         "read",
                         q->ck->path, t->name, c->n, c->k);
    return PARE_OK;
}

/* Signs and scales, or signs alone. */
static pare_status take_scales(const pare__quantized *q, pare__coded *c, const char *scales,
                               const char *signs, size_t count, const pare_tensor **out)
{
    const bool old =
        !pare__quantized_find(q, c->name, scales) && pare__quantized_find(q, c->name, signs);
    PARE_TRY(old ? pare__quantized_take(q, c->name, signs, PARE_I16, 0, count / PARE_EXL3_TILE, out)
                 : pare__quantized_take(q, c->name, scales, PARE_F16, 0, count, out));
    c->bytes += (*out)->bytes;
    return PARE_OK;
}

/* Whether the tensor is there, and holds the multiplier that we know. */
static pare_status find_codebook(const pare__quantized *q, pare__coded *c, const char *suffix,
                                 uint32_t multiplier, pare__codebook book)
{
    const pare_tensor *const t = pare__quantized_find(q, c->name, suffix);
    uint32_t is = multiplier;
    if (!t)
        return PARE_OK;
    if (t->dtype != PARE_I32 || t->bytes != sizeof is)
        return pare__quantized_wrong(q, c->name, suffix, "is no number in I32");
    if (c->codebook != PARE__3INST)
        return pare__quantized_wrong(q, c->name, suffix,
                                     "is there beside mul1: a linear has one codebook");
    if (t->data)
        memcpy(&is, t->data, sizeof is);
    if (is != multiplier)
        return pare_fail(q->cx, PARE_EFORMAT,
                         "%s: tensor %s holds the multiplier %" PRIu32
                         "; only the codebook of %" PRIu32 " is read",
                         q->ck->path, t->name, is, multiplier);
    c->codebook = book;
    c->bytes += t->bytes;
    return PARE_OK;
}

static pare_status describe(pare__quantized *q, pare__coded *c)
{
    PARE_TRY(read_sizes(q, c));
    PARE_TRY(take_scales(q, c, ".suh", ".su", c->k, &c->columns));
    PARE_TRY(take_scales(q, c, ".svh", ".sv", c->n, &c->scales));
    c->codebook = PARE__3INST;
    PARE_TRY(find_codebook(q, c, ".mul1", PARE_EXL3_MULTIPLIER, PARE__MUL1));
    PARE_TRY(find_codebook(q, c, ".mcg", 0xCBAC1FED, PARE__MCG));
    const int64_t vocab = pare_json_integer(pare_json_get(q->ck->config, "vocab_size"), 0);
    const bool head = q->arch && strcmp(c->name, q->arch->head) == 0;
    if (head && vocab > 0 && (size_t)vocab < c->n && c->n - (size_t)vocab < SPAN)
        c->n = (size_t)vocab;
    return PARE_OK;
}

/* As F16. */
static void take_halves(const pare_tensor *t, size_t count, uint16_t *to)
{
    uint16_t bits;
    if (t->dtype == PARE_F16) {
        memcpy(to, t->data, count * sizeof *to);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(&bits, (const char *)t->data + i / 16 * sizeof bits, sizeof bits);
        to[i] = (uint16_t)(F16_ONE | (bits >> i % 16 & 1 ? F16_SIGN : 0));
    }
}

static pare_status take_floats(const pare__quantized *q, const pare_tensor *t, size_t count,
                               float **out)
{
    uint16_t *const half = PARE_NEW(q->scratch, uint16_t, count);
    *out = PARE_NEW(q->scratch, float, count);
    if (!half || !*out)
        return PARE_ENOMEM;
    take_halves(t, count, half);
    q->cx->kernels.cvt_f16_f32(*out, half, count);
    return PARE_OK;
}

static pare_status check_scales(const pare__quantized *q, const pare_tensor *t, size_t count)
{
    float *scale;
    PARE_TRY(take_floats(q, t, count, &scale));
    for (size_t i = 0; i < count; i++)
        if (!isfinite(scale[i]))
            return pare_fail(q->cx, PARE_EFORMAT, "%s: tensor %s: value %zu is %s", q->ck->path,
                             t->name, i, isnan(scale[i]) ? "NaN" : "infinite");
    return PARE_OK;
}

pare_status pare__trellis_check(const pare__quantized *q, const pare__coded *c)
{
    if (!c->codes->data || !c->scales->data || !c->columns->data)
        return PARE_OK;
    PARE_TRY(check_scales(q, c->columns, c->k));
    return check_scales(q, c->scales, c->rows);
}

/* The sum of two halves, of bits that a product leaves. */
static float add_halves(uint32_t r)
{
    r = (r & 0x8FFF8FFF) ^ 0x3B603B60;
    const float sum = pare_f16_to_f32((uint16_t)r) + pare_f16_to_f32((uint16_t)(r >> 16));
    return pare_f16_to_f32(pare_f32_to_f16(sum));
}

static float value_of(pare__codebook book, uint32_t state)
{
    switch (book) {
    case PARE__MUL1: return pare_exl3_value(state);
    case PARE__MCG: return add_halves(state * 0xCBAC1FED);
    default: return add_halves(state * 89226354 + 64248484);
    }
}

typedef struct decoding {
    const pare__coded *c;
    const float *value; /* of the states */
    float *w;           /* [rows, k] */
} decoding;

/* Items are rows of tiles. */
static void decode_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const decoding *const d = arg;
    const pare__coded *const c = d->c;
    const size_t bytes = pare_exl3_tile_bytes(c->bits), tiles = c->rows / PARE_EXL3_TILE;
    const uint8_t *const data = c->codes->data;
    uint8_t symbol[PARE_EXL3_WEIGHTS];
    (void)worker;
    for (size_t i = begin; i < end; i++)
        for (size_t j = 0; j < c->k / PARE_EXL3_TILE; j++) {
            float *const w = d->w + i * PARE_EXL3_TILE * c->k + j * PARE_EXL3_TILE;
            uint32_t state = 0;
            pare_exl3_unpack(symbol, data + (j * tiles + i) * bytes, c->bits);
            for (unsigned p = PARE_EXL3_WEIGHTS - 16; p < PARE_EXL3_WEIGHTS; p++)
                state = state << c->bits | symbol[p];
            for (unsigned p = 0; p < PARE_EXL3_WEIGHTS; p++) {
                state = (state << c->bits | symbol[p]) & (PARE_EXL3_STATES - 1);
                w[pare_exl3_row(p) * c->k + pare_exl3_column(p)] = d->value[state];
            }
        }
}

pare_status pare__trellis_floats(const pare__quantized *q, const pare__coded *c, bool turned,
                                 float *w)
{
    float *const value = PARE_NEW(q->scratch, float, PARE_EXL3_STATES);
    float *const v = PARE_NEW(q->scratch, float, c->rows * c->k);
    float *row, *column;
    if (!value || !v)
        return PARE_ENOMEM;
    for (uint32_t s = 0; s < PARE_EXL3_STATES; s++)
        value[s] = value_of(c->codebook, s);
    PARE_TRY(take_floats(q, c->scales, c->rows, &row));
    PARE_TRY(take_floats(q, c->columns, c->k, &column));
    decoding d = {.c = c, .value = value, .w = v};
    pare_parallel(q->cx, c->rows / PARE_EXL3_TILE, 1, decode_tiles, &d);
    pare_exl3_mix_rows(v, c->k, c->rows, c->k);
    pare_exl3_mix_columns(v, c->k, c->rows, c->k);
    for (size_t r = 0; r < c->n; r++)
        for (size_t j = 0; j < c->k; j++)
            w[turned ? j * c->n + r : r * c->k + j] = v[r * c->k + j] * (row[r] * column[j]);
    return PARE_OK;
}

bool pare__trellis_packs(const pare__quantized *q, const pare__coded *c, pare_packed_linear *out)
{
    *out = (pare_packed_linear){.name = c->name,
                                .n = c->n,
                                .k = c->k,
                                .bits = c->bits,
                                .symmetric = true,
                                .encoding = PARE_ENCODING_EXL3,
                                .activation = {.mode = PARE_ACTIVATION_FLOAT}};
    return q->packs && c->codebook == PARE__MUL1 && c->n == c->rows;
}

void pare__trellis_fill(const pare__coded *c, const pare_packed_planes *to)
{
    const size_t bytes = pare_exl3_tile_bytes(c->bits);
    const size_t rows = c->n / PARE_EXL3_TILE, columns = c->k / PARE_EXL3_TILE;
    const uint8_t *const from = c->codes->data;
    uint8_t *tile = to->plane[PARE_PLANE_CODES];
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++, tile += bytes)
            memcpy(tile, from + (j * rows + i) * bytes, bytes);
    take_halves(c->scales, c->n, to->plane[PARE_PLANE_ROW_SCALES]);
    take_halves(c->columns, c->k, to->plane[PARE_PLANE_COLUMN_SCALES]);
}

static const char *const codes[] = {".trellis", NULL};
static const char *const beside[] = {".suh", ".svh", ".su", ".sv", ".mul1", ".mcg", NULL};

const pare__method pare__exl3 = {.name = "exl3",
                                 .codes = codes,
                                 .beside = beside,
                                 .asks = "the tiles of EXL3 ask for",
                                 .begin = begin,
                                 .describe = describe};
