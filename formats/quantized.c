/* Checkpoints that other programs quantized: the list of tensors with each linear in one piece, as
 * floats or in the order of our kernels. What quantization_config says is the method's. */
#include "formats/quantized_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/packed_internal.h"

enum { TYPES = 16 };

static const pare__method *const methods[] = {
    &pare__compressed_tensors, &pare__gptq,     &pare__awq, &pare__fp8,
    &pare__auto_round,         &pare__modelopt, &pare__exl3};

/* A tensor of the list that is made. */
typedef struct entry {
    pare_tensor tensor;
    uint32_t file;
    bool linear;
    pare_stored stored;
} entry;

typedef struct listing {
    pare__quantized *q;
    entry *out;
    size_t count, linears;
} listing;

/* Length of a name without one of these endings, 0 without any. */
static size_t base_of(const char *name, const char *const *endings)
{
    const size_t len = strlen(name);
    for (size_t i = 0; endings[i]; i++) {
        const size_t n = strlen(endings[i]);
        if (len > n && strcmp(name + len - n, endings[i]) == 0)
            return len - n;
    }
    return 0;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = end ? strlen(end) : 0;
    return m && n > m && strcmp(text + n - m, end) == 0;
}

/* Whether kernels multiply a matrix of this name as it lies, or look its rows up: not those that
 * are read as floats. */
static bool is_multiplied(const pare__quantized *q, const char *name)
{
    const pare_experts *const e = q->arch->experts;
    return !(e && (ends_with(name, e->router) || ends_with(name, e->shared_gate))) &&
           !(q->arch->positions && strcmp(name, q->arch->positions) == 0);
}

static const char *type_of(const pare__coded *c)
{
    static const char *const integers[] = {[2] = "int2", [3] = "int3", [4] = "int4", [5] = "int5",
                                           [6] = "int6", [7] = "int7", [8] = "int8"};
    static const char *const trellises[] = {"",
                                            "exl3 1 bits",
                                            "exl3 2 bits",
                                            "exl3 3 bits",
                                            "exl3 4 bits",
                                            "exl3 5 bits",
                                            "exl3 6 bits",
                                            "exl3 7 bits",
                                            "exl3 8 bits"};
    if (c->codebook)
        return trellises[c->bits];
    if (!c->level)
        return integers[c->bits];
    return c->bits == 8 ? "fp8" : c->scales->dtype == PARE_U8 ? "mxfp4" : "nvfp4";
}

static void add(listing *l, size_t i, const pare_tensor *t, const pare_stored *stored, bool linear)
{
    l->out[l->count++] = (entry){
        .tensor = *t, .file = l->q->ck->tensor_file[i], .linear = linear, .stored = *stored};
    l->linears += linear;
}

/* Weights of a listing stay where they are. */
static pare_status convert(const pare__quantized *q, const pare__coded *c, bool turned,
                           pare_tensor *out, pare_stored *stored)
{
    pare_packed_linear form;
    bool packs = false;
    void *room;
    if (q->packs && is_multiplied(q, c->name))
        PARE_TRY(pare__coded_packs(q, c, &packs, &form));
    stored->run_bytes = packs ? pare_packed_linear_bytes(&form).total : out->bytes;
    if (q->ck->listed) {
        pare_scratch_count(&q->ck->scratch, out->bytes);
        return PARE_OK;
    }
    if (packs && q->ck->runs)
        return pare__coded_pack(q, c, &form, out, &stored->packed);
    PARE_TRY(pare_scratch_take(&q->ck->scratch, out->bytes, &room));
    out->data = room;
    return pare__coded_floats(q, c, turned, room);
}

/* Lists of names that hold no codes. */
static const char *const left_out[] = {"ignore", "modules_to_not_convert"};
enum { LISTS = sizeof left_out / sizeof *left_out };

static pare_status check_lists(const pare__quantized *q)
{
    char what[96];
    for (size_t i = 0; i < LISTS; i++) {
        const pare_json *const list = pare_json_get(q->config, left_out[i]);
        const pare_json_type is = pare_json_type_of(list);
        if (is != PARE_JSON_ABSENT && is != PARE_JSON_NULL && is != PARE_JSON_ARRAY)
            return pare__quantized_refuse(q, "", left_out[i], "a list of names is expected");
        for (size_t j = 0; j < pare_json_count(list); j++) {
            if (pare_json_text(pare_json_at(list, j), NULL))
                continue;
            (void)snprintf(what, sizeof what, "entry %zu is no text; a list of names is expected",
                           j + 1);
            return pare__quantized_refuse(q, "", left_out[i], what);
        }
    }
    return PARE_OK;
}

static pare_status check_not_left_out(const pare__quantized *q, const pare__coded *c)
{
    for (size_t i = 0; i < LISTS; i++) {
        const pare_json *const list = pare_json_get(q->config, left_out[i]);
        for (size_t j = 0; j < pare_json_count(list); j++) {
            const char *const text = pare_json_text(pare_json_at(list, j), NULL);
            if (text && strcmp(text, c->name) == 0)
                return pare_fail(q->cx, PARE_EFORMAT,
                                 "%s: quantization_config: %s names the linear %s, whose weights "
                                 "are quantized",
                                 q->file, left_out[i], c->name);
        }
    }
    return PARE_OK;
}

/* Rounding that our kernels do not do has no more words. */
static pare_status describe_inputs(const pare__quantized *q, const pare__coded *c, pare_stored *out)
{
    char text[PARE_PACKED_TEXT];
    if (!c->rounds_inputs)
        return PARE_OK;
    const char *const is =
        c->activation.bits ? pare__activation_text(pare__coded_encoding(c), &c->activation, text)
                           : "x rounded";
    out->inputs = pare_arena_text(q->arena, is, strlen(is));
    return out->inputs ? PARE_OK : PARE_ENOMEM;
}

static pare_status add_linear(listing *l, size_t i, size_t len)
{
    pare__quantized *const q = l->q;
    const pare_tensor *const t = &q->ck->tensor[i];
    const pare_mark mark = pare_arena_mark(q->scratch);
    char full[PARE__TENSOR_NAME];
    if (len + sizeof ".weight" > sizeof full)
        return pare__quantized_wrong(q, "", t->name, "a name of such a length is not read");
    (void)snprintf(full, sizeof full, "%.*s.weight", (int)len, t->name);
    pare_tensor out = {
        .name = pare_arena_text(q->arena, full, strlen(full)), .dtype = PARE_F32, .rank = 2};
    pare__coded c = {.name = pare_arena_text(q->arena, full, len),
                     .codes = t,
                     .bytes = t->bytes,
                     .scale_rows = 1};
    if (!c.name || !out.name)
        return PARE_ENOMEM;
    PARE_TRY(check_not_left_out(q, &c));
    PARE_TRY(q->method->describe(q, &c));
    PARE_TRY(pare__coded_check(q, &c));
    const bool turned = q->arch && q->arch->transposed && strcmp(c.name, q->arch->head) != 0;
    out.shape[turned] = c.n;
    out.shape[!turned] = c.k;
    PARE_TRY(pare_tensor_bytes(out.dtype, out.rank, out.shape, &out.bytes));
    pare_stored stored = {.type = type_of(&c), .bytes = c.bytes, .input_scale = c.activation.scale};
    PARE_TRY(describe_inputs(q, &c, &stored));
    PARE_TRY(convert(q, &c, turned, &out, &stored));
    q->rounds_inputs |= c.rounds_inputs && !(stored.packed && c.activation.bits);
    pare_arena_rewind(q->scratch, mark);
    add(l, i, &out, &stored, true);
    return PARE_OK;
}

/* Whether codes lie under the name of a linear. */
static bool has_codes(const pare__quantized *q, const char *name, size_t len)
{
    char base[PARE__TENSOR_NAME];
    (void)snprintf(base, sizeof base, "%.*s", (int)len, name);
    for (size_t i = 0; q->method->codes[i]; i++) {
        const pare_tensor *const t = pare__quantized_find(q, base, q->method->codes[i]);
        if (t && (!q->method->holds || q->method->holds(t)))
            return true;
    }
    return false;
}

static pare_status add_tensor(listing *l, size_t i)
{
    const pare__quantized *const q = l->q;
    const pare_tensor *const t = &q->ck->tensor[i];
    const size_t codes = base_of(t->name, q->method->codes);
    const size_t beside = base_of(t->name, q->method->beside);
    if (codes && (!q->method->holds || q->method->holds(t)))
        return add_linear(l, i, codes);
    if (beside && has_codes(q, t->name, beside))
        return PARE_OK;
    if (beside)
        return pare__quantized_wrong(q, t->name, "", "there are no quantized weights beside it");
    add(l, i, t,
        &(pare_stored){.type = pare_dtype_name(t->dtype), .bytes = t->bytes, .run_bytes = t->bytes},
        false);
    return PARE_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->tensor.name, ((const entry *)b)->tensor.name);
}

/* "gptq: 120 x int4, 3 x int8" */
static pare_status describe_types(const listing *l)
{
    char text[256];
    const char *type[TYPES];
    size_t count[TYPES] = {0}, types = 0;
    for (size_t i = 0; i < l->count; i++) {
        const entry *const e = &l->out[i];
        size_t k = 0;
        if (!e->linear)
            continue;
        while (k < types && strcmp(type[k], e->stored.type) != 0)
            k++;
        if (k == TYPES)
            continue;
        type[k] = e->stored.type;
        count[k]++;
        types += k == types;
    }
    size_t at = (size_t)snprintf(text, sizeof text, "%s: ", l->q->method->name);
    for (size_t k = 0; k < types && at < sizeof text; k++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%zu x %s", k ? ", " : "", count[k],
                               type[k]);
    l->q->ck->quantized = pare_arena_text(l->q->arena, text, strlen(text));
    return l->q->ck->quantized ? PARE_OK : PARE_ENOMEM;
}

/* The list takes the place of that of the files. */
static pare_status take_over(const listing *l)
{
    pare_checkpoint *const ck = l->q->ck;
    pare_stored *const stored = PARE_NEW(l->q->arena, pare_stored, l->count);
    ck->tensor = PARE_NEW(l->q->arena, pare_tensor, l->count);
    ck->tensor_file = PARE_NEW(l->q->arena, uint32_t, l->count);
    if (!stored || !ck->tensor || !ck->tensor_file)
        return PARE_ENOMEM;
    if (l->count > 1)
        qsort(l->out, l->count, sizeof *l->out, by_name);
    for (size_t i = 0; i < l->count; i++) {
        if (i > 0 && by_name(&l->out[i - 1], &l->out[i]) == 0)
            return pare_fail(l->q->cx, PARE_EFORMAT, "%s: two tensors stand for %s", ck->path,
                             l->out[i].tensor.name);
        ck->tensor[i] = l->out[i].tensor;
        ck->tensor_file[i] = l->out[i].file;
        stored[i] = l->out[i].stored;
    }
    ck->stored = stored;
    ck->tensors = l->count;
    ck->unpacked = l->linears;
    return PARE_OK;
}

static pare_status convert_all(pare__quantized *q)
{
    pare_checkpoint *const ck = q->ck;
    listing l = {.q = q, .out = PARE_NEW(q->scratch, entry, ck->tensors)};
    if (!l.out)
        return PARE_ENOMEM;
    PARE_TRY(check_lists(q));
    PARE_TRY(q->method->begin(q));
    for (size_t i = 0; i < ck->tensors; i++) {
        pare_ctx_progress(q->cx, "unpacking weights", (double)i, (double)ck->tensors);
        PARE_TRY(pare_ctx_interrupted(q->cx));
        PARE_TRY(add_tensor(&l, i));
    }
    pare_ctx_progress(q->cx, "unpacking weights", 1, 1);
    if (l.linears)
        PARE_TRY(describe_types(&l));
    PARE_TRY(take_over(&l));
    if (q->rounds_inputs && !ck->listed)
        pare_warn(
            q->cx,
            "%s: quantization_config rounds the inputs of linears, and pare does not round them so "
            "here: it reads the weights and takes inputs as without it",
            q->file);
    return PARE_OK;
}

/* A tensor with codes in words, as programs with integers name them. */
static const pare_tensor *find_words(const pare_checkpoint *ck)
{
    static const char *const words[] = {".qweight", ".weight_packed", ".trellis", NULL};
    for (size_t i = 0; i < ck->tensors; i++)
        if (base_of(ck->tensor[i].name, words))
            return &ck->tensor[i];
    return NULL;
}

/* Codes of MLX: NAME.weight in words, with NAME.scales and, in most of its modes, NAME.biases. */
static const pare_tensor *find_mlx(const pare_checkpoint *ck)
{
    static const char *const weight[] = {".weight", NULL};
    char scales[PARE__TENSOR_NAME];
    for (size_t i = 0; i < ck->tensors; i++) {
        const size_t len = base_of(ck->tensor[i].name, weight);
        if (!len || ck->tensor[i].dtype != PARE_U32 || len + sizeof ".scales" > sizeof scales)
            continue;
        (void)snprintf(scales, sizeof scales, "%.*s.scales", (int)len, ck->tensor[i].name);
        if (pare_checkpoint_find(ck, scales))
            return &ck->tensor[i];
    }
    return NULL;
}

/* Words that nothing of ours reads are no weights. */
static pare_status refuse_words(const pare_checkpoint *ck, const char *method)
{
    const pare_tensor *const mlx = find_mlx(ck);
    if (mlx)
        return pare_fail(ck->cx, PARE_ENOTSUP,
                         "%s: tensor %s holds weights that MLX quantized, which pare does not "
                         "read; mlx_lm.convert --dequantize makes floats of them, or give the "
                         "model that it was made from",
                         ck->path, mlx->name);
    const pare_tensor *const t = find_words(ck);
    if (!t)
        return PARE_OK;
    if (method)
        return pare_fail(ck->cx, PARE_ENOTSUP,
                         "%s: tensor %s holds quantized weights, and the quant_method of "
                         "quantization_config is %.64s, which pare does not read; it reads "
                         "compressed-tensors, gptq, awq, fp8, auto-round, modelopt and exl3",
                         ck->path, t->name, method);
    return pare_fail(ck->cx, PARE_ENOTSUP,
                     "%s: tensor %s holds quantized weights, but config.json has no "
                     "quantization_config with a quant_method that says how; put what "
                     "quantize_config.json, quant_config.json or compression_config says there",
                     ck->path, t->name);
}

/* What a listing shows as the files have it, and why. */
static pare_status keep_reason(pare_checkpoint *ck, pare_arena *a)
{
    ck->unread = pare_arena_text(a, ck->cx->what, strlen(ck->cx->what));
    pare_ctx_clear(ck->cx);
    return ck->unread ? PARE_OK : PARE_ENOMEM;
}

pare_status pare__quantized_read(pare_checkpoint *ck, pare_arena *a)
{
    const pare_json *const config =
        ck->config ? pare_json_get(ck->config, "quantization_config") : NULL;
    const char *const method = pare_json_text(pare_json_get(config, "quant_method"), NULL);
    const char *const type = pare_json_text(pare_json_get(ck->config, "model_type"), NULL);
    const pare_arch *const arch = type ? pare_arch_find(type) : NULL;
    const char *const slash = method ? strchr(method, '/') : NULL; /* "intel/auto-round" */
    const char *const word = slash ? slash + 1 : method;
    const pare__method *found = NULL;
    pare_arena scratch;
    for (size_t i = 0; method && i < sizeof methods / sizeof *methods; i++)
        found = strcmp(word, methods[i]->name) == 0 ? methods[i] : found;
    if (ck->packed || ck->arranged)
        return PARE_OK;
    if (!found) {
        const pare_status s = refuse_words(ck, method);
        return s == PARE_ENOTSUP && ck->listed ? keep_reason(ck, a) : s;
    }
    pare_status s = pare_arena_init(ck->cx, &scratch, 0);
    pare__quantized q = {.ck = ck,
                         .cx = ck->cx,
                         .arena = a,
                         .scratch = &scratch,
                         .file = ck->config_file.path,
                         .config = config,
                         .method = found,
                         .arch = arch,
                         .packs = arch && !pare__checkpoint_arranges(ck)};
    if (s == PARE_OK)
        s = convert_all(&q);
    if (s == PARE_ENOTSUP && ck->listed)
        s = keep_reason(ck, a);
    pare_arena_release(&scratch);
    return s;
}
