/* AWQ in the GEMM layout of AutoAWQ: codes of 4 bits with zero points, in blocks of 8 outputs whose
 * order the original kernel dictates. Codes of 2 and 3 bits fit in 4 as they are. */
#include "formats/export_internal.h"

static const char name[] = "awq";
#define ENGINE "AutoAWQ"

enum { BITS = 4, PER_WORD = 32 / BITS };

/* Field i of a word belongs to output 8 c + order[i]. */
static const unsigned order[PER_WORD] = {0, 2, 4, 6, 1, 3, 5, 7};

static pare_status check_linear(pare_ctx *cx, const pare_export_linear *x)
{
    const pare_packed_linear *const l = &x->packed;
    char text[PARE_PACKED_TEXT];
    PARE_TRY(pare__export_check_grid(cx, l, name));
    PARE_TRY(pare__export_check_inputs(cx, l, name));
    const char *why = NULL;
    if (x->transposed)
        why = "AutoAWQ does not know the Conv1D of GPT-2; the format gptq does";
    else if (l->bits > BITS)
        why = "AWQ has codes of 4 bits; take bits: 4, or the format gptq";
    if (why)
        return pare_fail(cx, PARE_ENOTSUP, "%s: linear %s (%s, %zu x %zu): %s", name, l->name,
                         pare_packed_linear_text(l, text), l->n, l->k, why);
    return pare__export_check_group(cx, l, name, ENGINE);
}

static pare_status check(pare_ctx *cx, const pare_export_model *m)
{
    return pare__export_check_uniform(cx, m, name);
}

/* vLLM takes a scale per row for a group that a slice of the columns has to hold whole. */
static pare_export_grain grain(const pare_export_target *t, const pare_export_linear *x)
{
    const pare_packed_linear *const l = &x->packed;
    (void)t;
    return (pare_export_grain){PER_WORD, 1, l->group ? l->group : l->k};
}

static size_t parts(const pare_export_model *m, const pare_export_linear *x,
                    pare_export_part part[PARE_EXPORT_PARTS])
{
    const pare_packed_linear *const l = &x->packed;
    (void)m;
    const uint64_t groups = pare_packed_linear_groups(l);
    part[0] = (pare_export_part){".qweight", PARE_I32, 2, {l->k, l->n / PER_WORD}};
    part[1] = (pare_export_part){".qzeros", PARE_I32, 2, {groups, l->n / PER_WORD}};
    part[2] = (pare_export_part){".scales", PARE_F16, 2, {groups, l->n}};
    return 3;
}

/* from [n, columns] bytes to [columns, n / 8] words. */
static void interleave(uint32_t *to, const uint8_t *from, size_t n, size_t columns)
{
    for (size_t j = 0; j < columns; j++)
        for (size_t c = 0; c < n / PER_WORD; c++) {
            uint32_t word = 0;
            for (size_t i = 0; i < PER_WORD; i++)
                word |= (uint32_t)from[(c * PER_WORD + order[i]) * columns + j] << (BITS * i);
            to[j * (n / PER_WORD) + c] = word;
        }
}

static pare_status fill(pare_ctx *cx, pare_arena *scratch, const pare_export_model *m,
                        const pare_export_linear *x, const pare_linear *w,
                        void *const data[PARE_EXPORT_PARTS])
{
    const pare_packed_linear *const l = &x->packed;
    (void)cx;
    (void)m;
    pare__export_codes c;
    PARE_TRY(pare__export_unpack(scratch, l, w, &c));
    interleave(data[0], c.code, c.n, c.k);
    interleave(data[1], c.zero, c.n, c.groups);
    uint16_t *const scale = data[2];
    for (size_t g = 0; g < c.groups; g++)
        for (size_t r = 0; r < c.n; r++)
            scale[g * c.n + r] = c.scale[r * c.groups + g];
    return PARE_OK;
}

static void config(pare_json_writer *w, const pare_export_model *m)
{
    size_t first = 0, left = m->kepts;
    while (!m->linear[first].is_packed)
        first++;
    const size_t group = m->linear[first].packed.group;
    pare_json_put_text(w, "quant_method", name);
    pare_json_put_integer(w, "bits", BITS);
    pare_json_put_integer(w, "group_size", group ? (int64_t)group : -1);
    pare_json_put_bool(w, "zero_point", true);
    pare_json_put_text(w, "version", "gemm");
    for (size_t i = 0; i < m->linears; i++)
        left += m->linear[i].block < m->config->blocks && !m->linear[i].is_packed;
    if (!left) {
        pare_json_put_null(w, "modules_to_not_convert");
        return;
    }
    pare_json_open_array(w, "modules_to_not_convert");
    for (size_t i = 0; i < m->linears; i++)
        if (!m->linear[i].is_packed)
            pare_json_put_text(w, NULL, m->linear[i].name);
    for (size_t i = 0; i < m->kepts; i++)
        pare_json_put_text(w, NULL, m->kept[i]);
    pare_json_close(w);
    pare__export_put_left_out(w, m); /* GPTQModel reads nothing else */
}

const pare_export_target pare__export_awq = {
    .name = name,
    .summary =
        "4-bit codes (2 and 3 bits in 4) in the GEMM layout of AutoAWQ: vLLM, SGLang, transformers",
    .check = check,
    .check_linear = check_linear,
    .rows = PER_WORD,
    .engine = ENGINE,
    .grain = grain,
    .parts = parts,
    .fill = fill,
    .config = config,
    .read = pare__read_awq};
