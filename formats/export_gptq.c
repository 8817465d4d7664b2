/* GPTQ as AutoGPTQ and GPTQModel write it: codes packed along the inputs, zero points along the
 * outputs. Version 1 stores zero points less one, which version 2 does not. */
#include <string.h>

#include "formats/export_internal.h"

enum { MULTIPLE = 32 };
#define ENGINE "GPTQModel"

static pare_status check_named(pare_ctx *cx, const pare_packed_linear *l, const char *name)
{
    PARE_TRY(pare__export_check_grid(cx, l, name));
    PARE_TRY(pare__export_check_inputs(cx, l, name));
    return pare__export_check_group(cx, l, name, ENGINE);
}

/* Zero points below 1 have no code less one. Those of a plane may be 0. */
static pare_status check_linear_1(pare_ctx *cx, const pare_export_linear *x)
{
    const pare_packed_linear *const l = &x->packed;
    PARE_TRY(check_named(cx, l, "gptq"));
    if (!l->symmetric)
        return pare_fail(cx, PARE_ENOTSUP,
                         "gptq: linear %s: zero points are stored less one, so 0 has no code; use "
                         "gptq_v2",
                         l->name);
    return PARE_OK;
}

static pare_status check_linear_2(pare_ctx *cx, const pare_export_linear *x)
{
    const pare_packed_linear *const l = &x->packed;
    return check_named(cx, l, "gptq_v2");
}

static pare_status check_1(pare_ctx *cx, const pare_export_model *m)
{
    return pare__export_check_uniform(cx, m, "gptq");
}

static pare_status check_2(pare_ctx *cx, const pare_export_model *m)
{
    return pare__export_check_uniform(cx, m, "gptq_v2");
}

/* That a slice is what GPTQModel takes, and whole words of any width: 32 fields. */
static pare_export_grain grain(const pare_export_target *t, const pare_export_linear *x)
{
    (void)t;
    return (pare_export_grain){MULTIPLE, MULTIPLE, x->packed.group};
}

static size_t parts(const pare_export_model *m, const pare_export_linear *x,
                    pare_export_part part[PARE_EXPORT_PARTS])
{
    const pare_packed_linear *const l = &x->packed;
    (void)m;
    const uint64_t groups = pare_packed_linear_groups(l), bits = l->bits;
    part[0] = (pare_export_part){".qweight", PARE_I32, 2, {l->k * bits / 32, l->n}};
    part[1] = (pare_export_part){".qzeros", PARE_I32, 2, {groups, l->n * bits / 32}};
    part[2] = (pare_export_part){".scales", PARE_F16, 2, {groups, l->n}};
    part[3] = (pare_export_part){".g_idx", PARE_I32, 1, {l->k}};
    return 4;
}

static pare_status fill(pare_arena *scratch, const pare_packed_linear *l, const pare_linear *w,
                        uint8_t less, void *const data[PARE_EXPORT_PARTS])
{
    pare__export_codes c;
    PARE_TRY(pare__export_unpack(scratch, l, w, &c));
    uint32_t *const codes = data[0], *const zeros = data[1];
    uint16_t *const scale = data[2];
    int32_t *const group_of = data[3];
    const size_t words = c.n * l->bits / 32;
    for (size_t r = 0; r < c.n; r++)
        for (size_t k = 0; k < c.k; k++)
            pare__export_put_bits(codes + r, c.n, k, l->bits, c.code[r * c.k + k]);
    for (size_t g = 0; g < c.groups; g++)
        for (size_t r = 0; r < c.n; r++) {
            const size_t from = r * c.groups + g;
            pare__export_put_bits(zeros + g * words, 1, r, l->bits,
                                  (uint32_t)(c.zero[from] - less));
            scale[g * c.n + r] = c.scale[from];
        }
    for (size_t k = 0; k < c.k; k++)
        group_of[k] = (int32_t)(k / c.group);
    return PARE_OK;
}

static pare_status fill_1(pare_ctx *cx, pare_arena *scratch, const pare_export_model *m,
                          const pare_export_linear *x, const pare_linear *w,
                          void *const data[PARE_EXPORT_PARTS])
{
    const pare_packed_linear *const l = &x->packed;
    (void)cx;
    (void)m;
    return fill(scratch, l, w, 1, data);
}

static pare_status fill_2(pare_ctx *cx, pare_arena *scratch, const pare_export_model *m,
                          const pare_export_linear *x, const pare_linear *w,
                          void *const data[PARE_EXPORT_PARTS])
{
    const pare_packed_linear *const l = &x->packed;
    (void)cx;
    (void)m;
    return fill(scratch, l, w, 0, data);
}

/* "-:" and a regular expression that matches one name. */
static void put_left_out(pare_json_writer *w, const char *linear)
{
    char pattern[2048] = "-:^";
    size_t len = strlen(pattern);
    for (const char *c = linear; *c && len + 3 < sizeof pattern; c++) {
        if (*c == '.')
            pattern[len++] = '\\';
        pattern[len++] = *c;
    }
    pattern[len++] = '$';
    pattern[len] = '\0';
    pare_json_open_object(w, pattern);
    pare_json_close(w);
}

void pare__export_put_left_out(pare_json_writer *w, const pare_export_model *m)
{
    size_t left = m->kepts;
    for (size_t i = 0; i < m->linears; i++)
        left += m->linear[i].block < m->config->blocks && !m->linear[i].is_packed;
    if (!left)
        return;
    pare_json_open_object(w, "dynamic");
    for (size_t i = 0; i < m->linears; i++)
        if (m->linear[i].block < m->config->blocks && !m->linear[i].is_packed)
            put_left_out(w, m->linear[i].name);
    for (size_t i = 0; i < m->kepts; i++)
        put_left_out(w, m->kept[i]);
    pare_json_close(w);
}

static void config(pare_json_writer *w, const pare_export_model *m, const char *version)
{
    const pare_packed_linear *first = NULL;
    bool head = false;
    for (size_t i = 0; i < m->linears; i++) {
        if (m->linear[i].is_packed && !first)
            first = &m->linear[i].packed;
        head |= m->linear[i].is_packed && m->linear[i].block == m->config->blocks;
    }
    pare_json_put_text(w, "quant_method", "gptq");
    pare_json_put_integer(w, "bits", first->bits);
    pare_json_put_integer(w, "group_size", first->group ? (int64_t)first->group : -1);
    pare_json_put_bool(w, "sym", first->symmetric && pare_encodings[first->encoding].uniform);
    pare_json_put_bool(w, "desc_act", false);
    pare_json_put_bool(w, "static_groups", true);
    pare_json_put_bool(w, "lm_head", head);
    pare_json_put_text(w, "checkpoint_format", version);
    pare_json_put_text(w, "pack_dtype", "int32");
    pare__export_put_left_out(w, m);
}

static void config_1(pare_json_writer *w, const pare_export_model *m)
{
    config(w, m, "gptq");
}

static void config_2(pare_json_writer *w, const pare_export_model *m)
{
    config(w, m, "gptq_v2");
}

const pare_export_target pare__export_gptq = {
    .name = "gptq",
    .summary = "codes of 2, 3, 4, 8 bits as AutoGPTQ writes them: vLLM, SGLang, transformers",
    .extra = "quantize_config.json",
    .check = check_1,
    .check_linear = check_linear_1,
    .rows = MULTIPLE,
    .columns = MULTIPLE,
    .engine = ENGINE,
    .grain = grain,
    .parts = parts,
    .fill = fill_1,
    .config = config_1,
    .read = pare__read_gptq};

const pare_export_target pare__export_gptq_v2 = {
    .name = "gptq_v2",
    .summary = "the same with zero points as they are, for asymmetric codes too: vLLM, GPTQModel",
    .extra = "quantize_config.json",
    .check = check_2,
    .check_linear = check_linear_2,
    .rows = MULTIPLE,
    .columns = MULTIPLE,
    .engine = ENGINE,
    .grain = grain,
    .parts = parts,
    .fill = fill_2,
    .config = config_2,
    .read = pare__read_gptq_v2};
