/* The presets. */
#include <stdio.h>
#include <string.h>

#include "compress/init/init_internal.h"
#include "kernels/exl3.h"
#include "recipes/pattern.h"

/* A transform, of the inputs that it can scale; false: none. */
static bool put_transform(pare__draft *d, const char *why, const char *pass, const char *params)
{
    const char *name[PARE__DRAFT_FIXED];
    bool none;
    const size_t fixed = pare__draft_fixed(d, pass, name, &none);
    if (fixed)
        pare__text_put(&d->passes,
                       "  # In a model of type %s nothing in front of %s linears takes scales of "
                       "%s: %s.\n",
                       d->model.config.arch->model_type, none ? "its" : "some", pass,
                       none ? "it is left out" : "it skips them");
    if (none)
        return false;
    pare__text_put(&d->passes, "%s  - %s: {%s", why, pass, params);
    for (size_t i = 0; i < fixed; i++)
        pare__text_put(&d->passes, "%s\"*.%s\"", i ? ", " : ", skip: [", name[i]);
    pare__text_put(&d->passes, "%s}\n", fixed ? "]" : "");
    return true;
}

static bool put_awq(pare__draft *d)
{
    return put_transform(
        d,
        "  # AWQ makes channels with large inputs larger before they are rounded; it does not "
        "clip,\n  # because GPTQ searches its own ranges.\n",
        "awq", "clip: false");
}

/* Says why the group is what it is; returns it, 0: a row, which engines take whatever its width. */
static size_t put_group(pare__draft *d)
{
    const size_t group = pare__draft_group(d);
    if (group == 0)
        pare__text_put(&d->passes, "  # group: row, because engines take no group that divides "
                                   "inputs of ");
    else if (group == 128)
        pare__text_put(&d->passes,
                       "  # group: 128, which engines run fastest, divides the inputs, ");
    else
        pare__text_put(
            &d->passes,
            "  # group: %zu, the largest that engines take and that divides the inputs, ", group);
    pare__draft_put_widths(d, group ? 0 : 32, &d->passes);
    pare__text_put(&d->passes, group ? ".\n"
                                     : ".\n  # group: 32, the last of a row shorter, loses less; "
                                       "pare and GGUF files hold it.\n");
    return group;
}

/* GPTQ to integers. */
static void put_gptq(pare__draft *d, const char *params, size_t group)
{
    pare__text_put(&d->passes,
                   "  # GPTQ rounds the columns that matter most first, and searches the range of "
                   "each group by what\n  # its errors do to the outputs.\n"
                   "  - gptq: {%s, group: ",
                   params);
    pare__text_put(&d->passes, group ? "%zu}\n" : "row}\n", group);
}

static void write_w4a16(pare__draft *d)
{
    (void)put_awq(d);
    put_gptq(d, "bits: 4", put_group(d));
    d->format = "compressed-tensors";
}

static void write_w8a8(pare__draft *d)
{
    (void)put_transform(
        d,
        "  # SmoothQuant moves loud channels of the inputs into the weights, which round "
        "better.\n",
        "smoothquant", "alpha: 0.5");
    pare__text_put(&d->passes,
                   "  # 8 bits lose so little that plain rounding does; a scale per row of the "
                   "weights and one per\n  # token of the inputs is what engines run.\n"
                   "  - rtn: {bits: 8, group: row, activations: int8_token}\n");
    d->format = "compressed-tensors";
}

/* The two matrices outside the blocks, half of a small model. Measured on one of 135M: 24 % less of
 * the whole, and .001 nats (docs/settings.md). */
static void put_tables(pare__draft *d)
{
    static const char eight[] = "{rtn: {bits: 8, group: 32, clip: mse}}";
    const bool tied = d->model.config.tied;
    if (d->model.embed.k % 32 != 0)
        return;
    d->tables = true;
    pare__text_put(&d->tail,
                   "# The embeddings%s in 8 bits, the blocks of Q8_0: a loss that hardly shows.\n",
                   tied ? ", which are the head as well," : " and the head");
    pare__text_put(&d->tail, "%s: %s\n", tied ? "head" : "embeddings", eight);
    if (!tied)
        pare__text_put(&d->tail, "head: %s\n", eight);
}

static void write_gguf_q4(pare__draft *d)
{
    put_tables(d);
    if (pare__draft_divides(d, 256)) {
        (void)put_awq(d);
        pare__text_put(&d->passes,
                       "  # 256 divides the inputs: the blocks of Q4_K, their scales and codes "
                       "chosen by GPTQ.\n  - gptq: {grid: q4_k}\n");
        d->format = "gguf:q4_k";
        return;
    }
    (void)put_awq(d);
    pare__text_put(&d->passes, "  # Q4_K has blocks of 256, which do not divide all inputs (");
    pare__draft_put_widths(d, 256, &d->passes);
    pare__text_put(
        &d->passes, "): groups of 32\n  # are the blocks of Q4_0, code for code.%s\n",
        pare__draft_divides(d, 32) ? "" : " Rows that 32 does not divide are F16 in the file.");
    put_gptq(d, "bits: 4", 32);
    d->format = "gguf:q4_0";
}

static void write_2of4(pare__draft *d)
{
    d->prunes = true;
    pare__text_put(&d->passes,
                   "  # Two of four weights go; SparseGPT lets the others make up for them.%s\n"
                   "  - sparsegpt: {pattern: \"2:4\"}\n",
                   pare__draft_divides(d, 4)
                       ? ""
                       : " 4 does not\n  # divide all inputs: the rest of a row keeps half, "
                         "rounded up.");
    const size_t group = put_group(d);
    put_gptq(d, "bits: 4", group);
    pare__text_put(
        &d->tail,
        "# Stored by pare in %.4g bits per weight%s and run by its own kernels; the export "
        "holds the zeros\n# as codes like any other, and saves nothing by them.\n",
        group ? 3 + 16.0 / (double)group : 3, group ? "" : " and a scale per row");
    d->format = "compressed-tensors";
}

static void write_w2(pare__draft *d)
{
    pare__text_put(&d->head,
                   "# 2 bits lose much of a model of a few billion parameters, and most of a "
                   "smaller one: look at the\n# evaluation before you use it. 3 bits (bits: 3) "
                   "lose far less.\n");
    (void)put_awq(d);
    pare__text_put(&d->passes,
                   "  # Groups of 32, the smallest there are, with a zero point each (symmetric: "
                   "false): 2.75 bits\n  # per weight, scales and zero points counted.%s\n",
                   pare__draft_divides(d, 32) ? "" : " The last group of a row is shorter.");
    put_gptq(d, "bits: 2, symmetric: false", 32);
    d->format = "gptq_v2";
}

static void write_exl3(pare__draft *d)
{
    pare__text_put(
        &d->passes,
        "  # EXL3 codes tiles of 16 x 16 weights as paths through a trellis, with a scale "
        "for each row and\n  # column and no groups: in 3 bits about half of what GPTQ "
        "loses. The search for the paths takes\n  # long; \"pare plan\" says how "
        "long.\n"
        "  - exl3: {bits: 3}\n");
    d->format = "exl3";
}

/* Whether tiles divide the linears of a role in all blocks, and in their experts. */
static bool tiles_divide(const pare_config *c, pare_role role)
{
    bool all = true;
    for (size_t i = 0; i < c->blocks; i++)
        for (size_t part = 0; part < (c->experts ? 2 : 1); part++) {
            size_t n, k;
            pare_block_shape(c, i, part, role, &n, &k);
            all = all && n % PARE_EXL3_TILE == 0 && k % PARE_EXL3_TILE == 0;
        }
    return all;
}

/* Patterns of the linears that tiles divide, as targets has them. */
static void put_fitting(const pare__draft *d, char *text, size_t size)
{
    const pare_config *const c = &d->model.config;
    size_t used = 0;
    text[0] = '\0';
    for (size_t role = 0; role < PARE_ROLES && used < size; role++) {
        const char *const name = d->model.block[0].linear[role].name;
        const char *const dot = name ? strrchr(name, '.') : NULL;
        if (dot && !c->mixed && tiles_divide(c, (pare_role)role))
            used += (size_t)snprintf(text + used, size - used, "%s\"*%s\"", used ? ", " : "", dot);
    }
}

/* What else there is, where tiles do not divide some linears. */
static pare_status advise_exl3(pare__draft *d, pare_status s)
{
    char fitting[512];
    put_fitting(d, fitting, sizeof fitting);
    return *fitting
               ? pare_fail_after(d->cx, s,
                                 "in a recipe, exl3: {bits: 3, targets: [%s]} takes those that "
                                 "fit, and another pass or none the rest; or take --preset "
                                 "w4a16 or w2",
                                 fitting)
               : pare_fail_after(d->cx, s, "take --preset w4a16 or w2");
}

/* `pass` is the transform that the summary names, and `without` the summary where a model has
 * nothing that takes its scales; NULL: it names none. `instead`: the presets that fit where the
 * export, which is what this one is for, does not; NULL: the preset does without it. */
typedef struct preset {
    pare_init_preset_row row;
    const char *suffix;
    void (*write)(pare__draft *d);
    const char *pass, *without, *instead;
} preset;

static const preset presets[] = {
    {{"w4a16", "4-bit weights by AWQ and GPTQ", "vLLM and SGLang"},
     "w4a16",
     write_w4a16,
     "awq",
     "4-bit weights by GPTQ",
     NULL},
    {{"w8a8", "8-bit weights and inputs by SmoothQuant", "vLLM and SGLang"},
     "w8a8",
     write_w8a8,
     "smoothquant",
     "8-bit weights and inputs",
     NULL},
    {{"gguf-q4", "a GGUF file of 4 bits for llama.cpp", NULL},
     "q4",
     write_gguf_q4,
     NULL,
     NULL,
     "w4a16, w8a8, 2:4 and w2"},
    {{"2:4", "two of four weights pruned, the rest in 4 bits", NULL},
     "2of4",
     write_2of4,
     NULL,
     NULL,
     NULL},
    {{"w2", "2-bit weights; loses much", NULL}, "w2", write_w2, NULL, NULL, NULL},
    {{"exl3", "3-bit trellis codes (EXL3)", "ExLlamaV3 and GPTQModel"},
     "exl3",
     write_exl3,
     NULL,
     NULL,
     NULL},
};
enum { PRESETS = sizeof presets / sizeof *presets };

size_t pare_init_preset_count(void)
{
    return PRESETS;
}

pare_init_preset_row pare_init_preset_at(size_t i)
{
    return presets[i].row;
}

static pare_status find(pare_ctx *cx, const char *name, const preset **out)
{
    const char *known[PRESETS];
    for (size_t i = 0; i < PRESETS; known[i] = presets[i].row.name, i++)
        if (strcmp(presets[i].row.name, name) == 0) {
            *out = &presets[i];
            return PARE_OK;
        }
    const char *const near = pare_nearest_word(name, known, PRESETS);
    return pare_fail(cx, PARE_EUSAGE,
                     "--preset \"%s\": expected w4a16, w8a8, gguf-q4, 2:4, w2 or exl3%s%s%s", name,
                     near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static const char *summary_of(const pare__draft *d, const preset *p)
{
    const char *name[PARE__DRAFT_FIXED];
    bool none = false;
    if (p->pass)
        (void)pare__draft_fixed(d, p->pass, name, &none);
    return none ? p->without : p->row.summary;
}

pare_status pare_init_preset(pare_ctx *cx, pare_arena *a, const pare_init *init, const char *name,
                             pare_init_result *out)
{
    const preset *p = NULL;
    pare__draft d = {0};
    *out = (pare_init_result){0};
    PARE_TRY(find(cx, name, &p));
    pare_status s = pare__draft_begin(cx, a, init, &d);
    if (s == PARE_OK) {
        d.suffix = p->suffix;
        d.engines = p->row.engines;
        d.instead = p->instead;
        pare__text_put(&d.head,
                       "# %s: %s. Written for a model of type %s with %zu block%s;\n"
                       "# \"pare plan\" says what it will do, \"pare help recipe\" what "
                       "else can stand here.\n",
                       p->row.name, summary_of(&d, p), d.model.config.arch->model_type,
                       d.model.config.blocks, pare_plural(d.model.config.blocks));
        if (d.model.config.arch->rounds_inputs)
            pare__text_put(&d.head, "# The weights of this model are ternary: the pass ternary "
                                    "stores them as they are, and is the better choice.\n");
        p->write(&d);
        pare__text_put(&d.passes,
                       "  # All linears of the blocks are worked on; %s keep their type.\n"
                       "  # skip: [\"*.down_proj\"] in a pass leaves some out.\n",
                       d.tables ? "norms" : "embeddings, norms and the output head");
        s = pare__draft_finish(&d, &out->text, &out->len);
        if (s == PARE_EUSAGE && p->write == write_exl3)
            s = advise_exl3(&d, s);
    }
    out->warning = d.warning;
    out->no_export = d.no_export;
    pare__draft_end(&d);
    return s;
}
