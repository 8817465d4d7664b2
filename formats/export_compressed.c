/* compressed-tensors: vLLM, SGLang, transformers.
 *
 *   pack-quantized   integers of 4 or 8 bits in 32-bit words, floats as inputs; codes of 2 and 3
 *                    bits and ternary ones go into 4
 *   int-quantized    8-bit weights with a scale per row, 8-bit inputs with a scale per token or one
 *                    for all
 *   float-quantized  E4M3 with a scale per row, inputs in floats or in E4M3 with a scale per token
 *   mxfp4-pack-quantized  E2M1, two in a byte, and exponents of 2 for 32 of them; inputs in floats
 *                         or in MXFP4
 *   nvfp4-pack-quantized  likewise, with scales in E4M3 for 16 of them, which are divided by one
 *                         global scale; so are inputs, if they are in NVFP4 */
#include <stdio.h>
#include <string.h>

#include "formats/export_internal.h"

static const char name[] = "compressed-tensors";

typedef enum form { PACKED, INTEGERS, FLOATS8, MXFP4, NVFP4, FORMS } form;

static const char *const form_name[FORMS] = {"pack-quantized", "int-quantized", "float-quantized",
                                             "mxfp4-pack-quantized", "nvfp4-pack-quantized"};

static form form_of(const pare_packed_linear *l)
{
    const pare_activation_mode m = l->activation.mode;
    if (pare_encodings[l->encoding].dtype == PARE_F8_E4M3)
        return FLOATS8;
    if (pare_encodings[l->encoding].scales == PARE_SCALES_POWERS)
        return MXFP4;
    if (pare_encodings[l->encoding].scales == PARE_SCALES_E4M3)
        return NVFP4;
    if (pare_encodings[l->encoding].by_token)
        return PACKED;
    return m == PARE_ACTIVATION_TOKEN || m == PARE_ACTIVATION_TENSOR ? INTEGERS : PACKED;
}

static bool is_fp4(const pare_packed_linear *l)
{
    return pare_encoding_is_fp4(l->encoding);
}

/* Bits of a stored code. */
static unsigned width(const pare_packed_linear *l)
{
    return l->bits <= 4 ? 4 : 8;
}

/* Columns that share a scale; 0: all. A row of 32 in MXFP4 is a group of them to engines. */
static size_t group_of(const pare_packed_linear *l)
{
    return is_fp4(l) ? pare_encodings[l->encoding].group : l->group;
}

/* Scales of a row: kernels may have an empty group of NVFP4 at its end, files have none. */
static size_t groups_of(const pare_packed_linear *l)
{
    return is_fp4(l) ? l->k / group_of(l) : pare_packed_linear_groups(l);
}

static pare_status refuse(pare_ctx *cx, const pare_packed_linear *l, const char *why)
{
    char text[PARE_PACKED_TEXT];
    return pare_fail(cx, PARE_ENOTSUP, "%s: linear %s (%s): %s", name, l->name,
                     pare_packed_linear_text(l, text), why);
}

static pare_status check_floats(pare_ctx *cx, const pare_packed_linear *l)
{
    if (form_of(l) == FLOATS8 && l->group != 0)
        return refuse(cx, l, "engines take E4M3 weights with one scale per row; use group: row");
    if (is_fp4(l) && l->k % group_of(l) != 0)
        return refuse(cx, l,
                      "engines need groups that divide the columns; the format safetensors writes "
                      "all as floats");
    if (l->outliers || l->sparse || l->rotated || l->bias)
        return refuse(cx, l,
                      "this format has no place for more than codes and scales; the format "
                      "safetensors writes all as floats");
    if (l->activation.mode != PARE_ACTIVATION_FLOAT)
        return refuse(cx, l,
                      "float weights with integer inputs have no engine; leave out activations");
    return PARE_OK;
}

static pare_status check_integers(pare_ctx *cx, const pare_packed_linear *l)
{
    if (l->bits != 8 || l->group != 0 || !l->symmetric ||
        (l->activation.bits != 8 && l->activation.bits != 0))
        return refuse(cx, l,
                      "vLLM runs integer inputs only with symmetric 8-bit weights, one scale per "
                      "row, and 8-bit inputs; take bits: 8, group: row, symmetric: true, or leave "
                      "out activations");
    return PARE_OK;
}

/* The experts of a block run as one matrix each of gate and up, and of down. */
static pare_status check_expert(pare_ctx *cx, const pare_packed_linear *l)
{
    if (form_of(l) == FLOATS8 && !l->activation.bits)
        return refuse(cx, l,
                      "vLLM has no experts of E4M3 weights with floats as inputs; take fp8: "
                      "{activations: fp8_token}, or rtn: {bits: 8, group: row}");
    if (!l->symmetric)
        return refuse(cx, l,
                      "vLLM runs experts in this format with symmetric codes only; awq takes zero "
                      "points");
    if (form_of(l) == INTEGERS && l->activation.mode == PARE_ACTIVATION_TENSOR)
        return refuse(cx, l,
                      "vLLM runs experts with 8-bit inputs with a scale per token only; take "
                      "activations: int8_token");
    return PARE_OK;
}

static pare_status check_linear(pare_ctx *cx, const pare_export_linear *x)
{
    const pare_packed_linear *const l = &x->packed;
    if (x->transposed)
        return refuse(cx, l,
                      "engines know this format for linears, not for the Conv1D of GPT-2; the "
                      "formats gptq, safetensors and gguf:TYPE are for it");
    if (x->part > 0)
        PARE_TRY(check_expert(cx, l));
    if (form_of(l) == FLOATS8 || is_fp4(l))
        return check_floats(cx, l);
    if (pare_encoding_is_float(l->encoding))
        return PARE_OK; /* stays a float matrix */
    PARE_TRY(pare__export_check_grid(cx, l, name));
    if (form_of(l) == INTEGERS)
        return check_integers(cx, l);
    PARE_TRY(pare__export_check_inputs(cx, l, name));
    return pare__export_check_group(cx, l, name, "vLLM");
}

static bool is_float(const pare_export_linear *l)
{
    return !l->is_packed || pare_encoding_is_float(l->packed.encoding);
}

static bool same_scheme(const pare_export_linear *a, const pare_export_linear *b)
{
    if (is_float(a) || is_float(b))
        return is_float(a) && is_float(b);
    const pare_packed_linear *const p = &a->packed, *const q = &b->packed;
    return form_of(p) == form_of(q) && width(p) == width(q) && group_of(p) == group_of(q) &&
           p->symmetric == q->symmetric &&
           (form_of(p) != INTEGERS || p->activation.mode == q->activation.mode) &&
           (form_of(p) == INTEGERS || form_of(p) == PACKED ||
            p->activation.bits == q->activation.bits);
}

static pare_status check(pare_ctx *cx, const pare_export_model *m)
{
    const pare_packed_linear *pruned = NULL;
    bool any = false;
    for (size_t i = 0; i < m->linears; i++) {
        any |= !is_float(&m->linear[i]);
        pruned = m->linear[i].is_packed ? &m->linear[i].packed : pruned;
    }
    if (!any && pruned)
        return pare__export_check_grid(cx, pruned, name); /* refuses floats, and says why */
    if (!any)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: no linear of the model is quantized; the formats safetensors and "
                         "gguf:f16 hold floats",
                         name);
    return pare__export_check_fused(cx, m, name, same_scheme);
}

/* Zero points are packed down the rows. */
static pare_export_grain grain(const pare_export_target *t, const pare_export_linear *x)
{
    const pare_packed_linear *const l = &x->packed;
    (void)t;
    if (!pare_encoding_is_float(l->encoding) && is_fp4(l))
        return (pare_export_grain){1, 2, group_of(l)};
    if (pare_encoding_is_float(l->encoding) || form_of(l) != PACKED)
        return (pare_export_grain){1, 1, 0};
    const size_t fields = 32 / width(l);
    return (pare_export_grain){l->symmetric ? 1 : fields, fields, l->group};
}

static size_t parts(const pare_export_model *m, const pare_export_linear *x,
                    pare_export_part part[PARE_EXPORT_PARTS])
{
    const pare_packed_linear *const l = &x->packed;
    const uint64_t n = l->n, k = l->k, groups = groups_of(l);
    size_t count = 0;
    (void)m;
    if (pare_encoding_is_float(l->encoding)) {
        part[count++] = (pare_export_part){".weight", PARE_F16, 2, {n, k}};
        return count;
    }
    if (is_fp4(l)) {
        part[count++] = (pare_export_part){".weight_packed", PARE_U8, 2, {n, k / 2}};
        const bool nv = form_of(l) == NVFP4;
        part[count++] =
            (pare_export_part){".weight_scale", nv ? PARE_F8_E4M3 : PARE_U8, 2, {n, groups}};
        if (nv)
            part[count++] = (pare_export_part){".weight_global_scale", PARE_F32, 1, {1}};
        if (pare_activation_is_fixed(l->encoding, &l->activation))
            part[count++] = (pare_export_part){".input_global_scale", PARE_F32, 1, {1}};
        return count;
    }
    if (form_of(l) != PACKED) {
        const pare_dtype codes = form_of(l) == FLOATS8 ? PARE_F8_E4M3 : PARE_I8;
        part[count++] = (pare_export_part){".weight", codes, 2, {n, k}};
        part[count++] = (pare_export_part){".weight_scale", PARE_F16, 2, {n, 1}};
        if (l->activation.mode == PARE_ACTIVATION_TENSOR)
            part[count++] = (pare_export_part){".input_scale", PARE_F32, 1, {1}};
        return count;
    }
    const uint64_t bits = width(l);
    part[count++] = (pare_export_part){".weight_packed", PARE_I32, 2, {n, (k * bits + 31) / 32}};
    part[count++] = (pare_export_part){".weight_scale", PARE_F16, 2, {n, groups}};
    part[count++] = (pare_export_part){".weight_shape", PARE_I64, 1, {2}};
    if (!l->symmetric)
        part[count++] =
            (pare_export_part){".weight_zero_point", PARE_I32, 2, {(n * bits + 31) / 32, groups}};
    return count;
}

/* Symmetric codes move to the middle of the wider field, others keep their zero point. */
static void pack(const pare_packed_linear *l, const pare__export_codes *c,
                 void *const data[PARE_EXPORT_PARTS])
{
    const unsigned bits = width(l);
    const size_t words = (c->k * bits + 31) / 32;
    const bool zeros = !l->symmetric;
    const uint32_t shift = zeros ? 0 : (1u << (bits - 1)) - pare_packed_zero_code(l);
    uint32_t *const packed = data[0], *const zero = zeros ? data[3] : NULL;
    int64_t *const shape = data[2];
    for (size_t r = 0; r < c->n; r++)
        for (size_t k = 0; k < c->k; k++)
            pare__export_put_bits(packed + r * words, 1, k, bits, c->code[r * c->k + k] + shift);
    memcpy(data[1], c->scale, c->n * c->groups * sizeof *c->scale);
    shape[0] = (int64_t)c->n;
    shape[1] = (int64_t)c->k;
    for (size_t r = 0; zero && r < c->n; r++)
        for (size_t g = 0; g < c->groups; g++)
            pare__export_put_bits(zero + g, c->groups, r, bits, c->zero[r * c->groups + g]);
}

/* The first of two codes lies in the low half of a byte. */
static pare_status pack_fp4(pare_ctx *cx, const pare_export_model *m, const pare_export_linear *x,
                            const pare__export_codes *c, void *const data[PARE_EXPORT_PARTS])
{
    const size_t groups = groups_of(&x->packed);
    uint8_t *const packed = data[0], *const scale = data[1];
    for (size_t i = 0; i < c->n * c->k; i += 2)
        packed[i / 2] = (uint8_t)(c->code[i] | c->code[i + 1] << 4);
    if (form_of(&x->packed) == MXFP4) {
        for (size_t i = 0; i < c->n * groups; i++)
            scale[i] = pare__export_exponent(c->scale[i]);
        return PARE_OK;
    }
    const float factor = pare__export_factor(m, x), divisor = 1 / factor; /* powers of two */
    memcpy(data[2], &divisor, sizeof divisor);
    if (x->packed.activation.bits)
        memcpy(data[3], &x->packed.activation.scale, sizeof x->packed.activation.scale);
    for (size_t i = 0; i < c->n * groups; i++)
        PARE_TRY(pare__export_scale_code(cx, name, x->name, c, i / groups, i % groups, factor,
                                         &scale[i]));
    return PARE_OK;
}

static pare_status fill(pare_ctx *cx, pare_arena *scratch, const pare_export_model *m,
                        const pare_export_linear *x, const pare_linear *w,
                        void *const data[PARE_EXPORT_PARTS])
{
    const pare_packed_linear *const l = &x->packed;
    if (pare_encoding_is_float(l->encoding)) {
        pare_export_model f16 = *m;
        f16.floats = PARE_F16;
        return pare__export_safetensors.fill(cx, scratch, &f16, x, w, data);
    }
    pare__export_codes c;
    PARE_TRY(pare__export_unpack(scratch, l, w, &c));
    if (is_fp4(l))
        return pack_fp4(cx, m, x, &c, data);
    if (form_of(l) == PACKED) {
        pack(l, &c, data);
        return PARE_OK;
    }
    const uint8_t flip = form_of(l) == INTEGERS ? 0x80 : 0; /* code - 128 as two's complement */
    uint8_t *const to = data[0];
    for (size_t i = 0; i < c.n * c.k; i++)
        to[i] = c.code[i] ^ flip;
    memcpy(data[1], c.scale, c.n * sizeof *c.scale);
    if (l->activation.mode == PARE_ACTIVATION_TENSOR)
        memcpy(data[2], &w->activation.scale, sizeof w->activation.scale);
    return PARE_OK;
}

/* Of weights. */
static const char *strategy_of(const pare_packed_linear *l)
{
    return form_of(l) == NVFP4 ? "tensor_group" : group_of(l) ? "group" : "channel";
}

static void put_weights(pare_json_writer *w, const pare_packed_linear *l)
{
    pare_json_open_object(w, "weights");
    const bool floats = form_of(l) == FLOATS8 || is_fp4(l);
    pare_json_put_integer(w, "num_bits", (int64_t)width(l));
    pare_json_put_text(w, "type", floats ? "float" : "int");
    pare_json_put_bool(w, "symmetric", l->symmetric);
    pare_json_put_text(w, "strategy", strategy_of(l));
    if (group_of(l))
        pare_json_put_integer(w, "group_size", (int64_t)group_of(l));
    else
        pare_json_put_null(w, "group_size");
    pare_json_put_bool(w, "dynamic", false);
    if (form_of(l) == MXFP4)
        pare_json_put_text(w, "scale_dtype", "torch.uint8");
    pare_json_put_null(w, "actorder");
    pare_json_put_null(w, "block_structure");
    pare_json_put_text(w, "observer", "minmax");
    pare_json_open_object(w, "observer_kwargs");
    pare_json_close(w);
    pare_json_close(w);
}

static void put_inputs(pare_json_writer *w, const pare_packed_linear *l)
{
    const bool floats = (form_of(l) == FLOATS8 || is_fp4(l)) && l->activation.bits;
    if (form_of(l) != INTEGERS && !floats) {
        pare_json_put_null(w, "input_activations");
        return;
    }
    const bool tensor = l->activation.mode == PARE_ACTIVATION_TENSOR;
    pare_json_open_object(w, "input_activations");
    pare_json_put_integer(w, "num_bits", is_fp4(l) ? 4 : 8);
    pare_json_put_text(w, "type", floats ? "float" : "int");
    pare_json_put_bool(w, "symmetric", true);
    pare_json_put_text(w, "strategy", is_fp4(l) ? strategy_of(l) : tensor ? "tensor" : "token");
    if (is_fp4(l))
        pare_json_put_integer(w, "group_size", (int64_t)group_of(l));
    else
        pare_json_put_null(w, "group_size");
    if (form_of(l) == NVFP4) /* but for the global scale */
        pare_json_put_text(w, "dynamic", "local");
    else
        pare_json_put_bool(w, "dynamic", !tensor);
    if (is_fp4(l))
        pare_json_put_text(w, "scale_dtype",
                           form_of(l) == NVFP4 ? "torch.float8_e4m3fn" : "torch.uint8");
    pare_json_put_null(w, "observer");
    pare_json_close(w);
}

/* The scheme of linear `first` and all linears that have it. A single scheme names the class. */
static void put_group(pare_json_writer *w, const pare_export_model *m, size_t first, size_t index,
                      bool single)
{
    char key[32];
    (void)snprintf(key, sizeof key, "group_%zu", index);
    pare_json_open_object(w, key);
    pare_json_open_array(w, "targets");
    if (single)
        pare_json_put_text(w, NULL, "Linear");
    for (size_t i = first; !single && i < m->linears; i++)
        if (same_scheme(&m->linear[first], &m->linear[i]))
            pare_json_put_text(w, NULL, m->linear[i].name);
    pare_json_close(w);
    pare_json_put_text(w, "format", form_name[form_of(&m->linear[first].packed)]);
    put_weights(w, &m->linear[first].packed);
    put_inputs(w, &m->linear[first].packed);
    pare_json_put_null(w, "output_activations");
    pare_json_close(w);
}

/* Whether no linear before i has its scheme. */
static bool is_first(const pare_export_model *m, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (same_scheme(&m->linear[i], &m->linear[j]))
            return false;
    return !is_float(&m->linear[i]);
}

static bool has_float(const pare_export_model *m, const char *linear)
{
    for (size_t i = 0; i < m->linears; i++)
        if (is_float(&m->linear[i]) && strcmp(m->linear[i].name, linear) == 0)
            return true;
    return false;
}

static void config(pare_json_writer *w, const pare_export_model *m)
{
    size_t schemes = 0, forms = 0;
    bool seen[FORMS] = {false};
    form last = PACKED;
    for (size_t i = 0; i < m->linears; i++)
        if (is_first(m, i)) {
            last = form_of(&m->linear[i].packed);
            forms += !seen[last];
            seen[last] = true;
            schemes++;
        }
    pare_json_put_text(w, "quant_method", name);
    pare_json_put_text(w, "version", "0.12.2");
    pare_json_put_text(w, "format", forms == 1 ? form_name[last] : "mixed-precision");
    pare_json_put_text(w, "quantization_status", "compressed");
    pare_json_put_null(w, "global_compression_ratio");
    pare_json_put_null(w, "kv_cache_scheme");
    pare_json_open_array(w, "ignore");
    for (size_t i = 0; i < m->linears; i++)
        if (is_float(&m->linear[i]))
            pare_json_put_text(w, NULL, m->linear[i].name);
    for (size_t i = 0; i < m->kepts; i++)
        pare_json_put_text(w, NULL, m->kept[i]);
    if (has_float(m, "embed_out")) /* transformers 5 loads it under the name of other heads */
        pare_json_put_text(w, NULL, "lm_head");
    pare_json_close(w);
    pare_json_open_object(w, "sparsity_config");
    pare_json_close(w);
    pare_json_open_object(w, "transform_config");
    pare_json_close(w);
    pare_json_open_object(w, "config_groups");
    for (size_t i = 0, index = 0; i < m->linears; i++)
        if (is_first(m, i))
            put_group(w, m, i, index++, schemes == 1);
    pare_json_close(w);
}

const pare_export_target pare__export_compressed_tensors = {
    .name = name,
    .summary = "4 and 8 bits, 8-bit inputs, FP8, MXFP4, NVFP4: vLLM, SGLang, transformers",
    .check = check,
    .check_linear = check_linear,
    .grain = grain,
    .parts = parts,
    .fill = fill,
    .config = config,
    .read = pare__read_compressed_tensors};
