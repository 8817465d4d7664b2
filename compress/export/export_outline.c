/* What an export comes to before a weight is read, of a finished artifact or of a plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "compress/export/export_run.h"
#include "compress/text/version.h"
#include "formats/dense.h"
#include "formats/export_parallel.h"
#include "formats/gguf_seal.h"
#include "formats/packed_kv.h"
#include "recipes/pattern.h"

enum { NAME = 4096 };
static const uint64_t shard_bytes = 5000000000;

static int is_named(const void *name, const void *tensor)
{
    return strcmp(name, ((const pare_tensor *)tensor)->name);
}

static const pare_tensor *find(const pare__export *e, const char *linear, const char *suffix)
{
    char name[NAME];
    (void)snprintf(name, sizeof name, "%s%s", linear, suffix);
    return bsearch(name, e->source.tensor, e->source.tensors, sizeof *e->source.tensor, is_named);
}

static void mark(pare__export *e, const char *linear, const char *suffix)
{
    const pare_tensor *const t = find(e, linear, suffix);
    if (t)
        e->plane[t - e->source.tensor] = true;
}

/* Planes of packed linears do not go out as they are, but for biases. */
static void mark_linear(pare__export *e, const pare_export_linear *l, bool moved)
{
    char suffix[64];
    for (pare_plane p = 0; l->is_packed && p < PARE_PLANES; p++) {
        if (p == PARE_PLANE_BIAS)
            continue;
        (void)snprintf(suffix, sizeof suffix, ".%s", pare_packed_plane_name(p));
        mark(e, l->name, suffix);
    }
    if (moved && !l->is_packed)
        mark(e, l->name, ".weight");
}

/* Nor what lies elsewhere in the files of the family, nor tables of caches. */
static pare_status mark_planes(pare__export *e)
{
    const pare_export_model *const m = &e->source.shape;
    const bool directory = e->target->kind == PARE_EXPORT_DIRECTORY;
    e->plane = PARE_NEW(e->a, bool, e->source.tensors);
    if (!e->plane)
        return PARE_ENOMEM;
    for (size_t i = 0; i < m->linears + m->tables; i++) {
        const pare_export_linear *const l = &m->linear[i];
        if (!l->pieces)
            mark_linear(e, l, directory ? l->transposed : l->mates || e->target->mix);
        for (size_t p = 0; p < l->pieces; p++) {
            mark_linear(e, &l->piece[p], true);
            mark(e, l->piece[p].name, ".bias");
        }
    }
    for (size_t i = 0; e->source.kv == PARE_KV_KVQUANT && i < m->config->blocks; i++)
        for (pare_kv_table t = 0; t < PARE_KV_TABLES; t++) {
            pare_tensor table;
            PARE_TRY(pare_packed_kv_tensor(e->a, m->config, i, t, &table));
            mark(e, table.name, "");
        }
    return PARE_OK;
}

bool pare__export_writes(const pare_export_linear *l)
{
    return l->is_packed || l->pieces || l->transposed;
}

const pare_export_target *pare__export_writer(const pare__export *e, const pare_export_linear *l)
{
    return l->is_packed && !l->looked_up ? e->target : pare_export_find("safetensors");
}

bool pare__export_joins_bias(const pare_export_linear *l)
{
    return l->pieces && l->piece[0].weights->bias;
}

/* The type of float matrices that are joined: theirs, or one that holds all. */
static pare_dtype type_of(const pare_export_linear *l)
{
    if (!l->pieces)
        return l->weights->dtype;
    for (size_t i = 1; i < l->pieces; i++)
        if (l->piece[i].weights->dtype != l->piece[0].weights->dtype)
            return PARE_F32;
    return l->piece[0].weights->dtype;
}

pare_dtype pare__export_bias_type(const pare__export *e, const pare_export_linear *l)
{
    pare_dtype type = PARE_F32;
    for (size_t i = 0; i < l->pieces; i++) {
        const pare_tensor *const t = find(e, l->piece[i].name, ".bias");
        if (!t || (i > 0 && t->dtype != type))
            return PARE_F32;
        type = t->dtype;
    }
    return type;
}

pare_export_model pare__export_shape_for(const pare__export *e, const pare_export_linear *l)
{
    pare_export_model m = e->source.shape;
    if (!l->is_packed)
        m.floats = type_of(l);
    return m;
}

size_t pare__export_parts(const pare__export *e, const pare_export_linear *l,
                          pare_export_part part[PARE_EXPORT_PARTS])
{
    const pare_export_model m = pare__export_shape_for(e, l);
    if (!pare__export_writes(l))
        return 0;
    size_t parts = pare__export_writer(e, l)->parts(&m, l, part);
    if (pare__export_joins_bias(l))
        part[parts++] = (pare_export_part){".bias", pare__export_bias_type(e, l), 1, {l->packed.n}};
    return parts;
}

/* Adds the tensors of linear i. */
static pare_status add_parts(pare__export *e, size_t i, pare_tensor *tensor, size_t *unit,
                             size_t *count)
{
    const pare_export_linear *const l = &e->source.shape.linear[i];
    pare_export_part part[PARE_EXPORT_PARTS];
    const size_t parts = pare__export_parts(e, l, part);
    for (size_t p = 0; p < parts; p++) {
        char name[NAME];
        pare_tensor *const t = &tensor[*count];
        const int len = snprintf(name, sizeof name, "%s%s", l->name, part[p].suffix);
        unit[(*count)++] = i;
        *t = (pare_tensor){.name = pare_arena_text(e->a, name, (size_t)len),
                           .dtype = part[p].dtype,
                           .rank = part[p].rank};
        if (!t->name)
            return PARE_ENOMEM;
        memcpy(t->shape, part[p].shape, sizeof part[p].shape);
        PARE_TRY(pare_tensor_bytes(t->dtype, t->rank, t->shape, &t->bytes));
    }
    return PARE_OK;
}

/* Matrices of floats, or codes in bytes beside what becomes of them; those that are joined lie
 * apart, too. */
static void count_directory(pare__export *e)
{
    const pare_export_model *const m = &e->source.shape;
    for (size_t i = 0; i < m->linears + m->tables; i++) {
        const pare_export_linear *const l = &m->linear[i];
        const uint64_t bytes = (uint64_t)l->packed.n * l->packed.k * (l->pieces ? 17 : 13);
        if (pare__export_writes(l) && bytes > e->out->ram_bytes)
            e->out->ram_bytes = bytes;
    }
    for (uint32_t i = 0; i < e->layout.shards; i++)
        e->out->bytes += e->layout.file_bytes[i];
}

static pare_status lay_out_directory(pare__export *e)
{
    const pare_export_source *const s = &e->source;
    const size_t linears = s->shape.linears + s->shape.tables;
    const size_t most = s->tensors + linears * PARE_EXPORT_PARTS;
    pare_tensor *const tensor = PARE_NEW(e->a, pare_tensor, most);
    size_t *const unit = PARE_NEW(e->a, size_t, most), count = 0;
    if (!tensor || !unit)
        return PARE_ENOMEM;
    for (size_t i = 0; i < linears; i++)
        PARE_TRY(add_parts(e, i, tensor, unit, &count));
    for (size_t i = 0; i < s->tensors; i++) {
        if (e->plane[i])
            continue;
        unit[count] = linears;
        tensor[count++] = s->tensor[i];
    }
    PARE_TRY(pare_packed_layout_dense(e->cx, e->a, tensor, unit, count, shard_bytes, &e->layout));
    count_directory(e);
    return PARE_OK;
}

/* Bytes of a piece twice, and its floats: wanted, decoded, before their rows move. */
static void count_file(pare__export *e)
{
    for (size_t i = 0; i < e->items; i++)
        for (size_t j = 0; j < e->item[i].pieces; j++) {
            const pare_gguf_piece *const p = &e->item[i].piece[j];
            const uint64_t copies = p->way == PARE_GGUF_BYTES ? 0 : e->item[i].heads ? 4 : 3;
            const uint64_t bytes = 2 * p->bytes + p->elements * copies * sizeof(float);
            e->out->ram_bytes = bytes > e->out->ram_bytes ? bytes : e->out->ram_bytes;
        }
    e->out->bytes = e->gguf.bytes;
}

static pare_status lay_out_file(pare__export *e)
{
    bool has;
    const pare_export_source *const s = &e->source;
    const pare_config *const c = s->shape.config;
    PARE_TRY(pare_gguf_items(e->cx, e->a, e->target, &s->shape, s->tensor, s->tensors, e->plane,
                             &e->item, &e->items));
    PARE_TRY(pare_gguf_begin(e->cx, e->a, e->items, &e->gguf));
    PARE_TRY(pare_gguf_describe(e->cx, c, e->target, "pare " PARE_VERSION, &e->gguf));
    PARE_TRY(pare_gguf_describe_tokenizer(e->cx, e->a, s->ck, c, &e->gguf, &has));
    e->out->no_tokenizer = !has;
    pare_gguf_put_seal(&e->gguf);
    for (size_t i = 0; i < e->items; i++)
        (void)pare_gguf_add(&e->gguf, e->item[i].name, e->item[i].type, e->item[i].rank,
                            e->item[i].shape);
    PARE_TRY(pare_gguf_lay_out(&e->gguf));
    PARE_TRY(pare_gguf_check_words(e->cx, e->a, c, &e->gguf, e->item, e->items));
    PARE_TRY(pare_gguf_check_texts(e->cx, s->ck, &e->gguf));
    count_file(e);
    return PARE_OK;
}

static pare_status take_rows(pare__export *e)
{
    const pare_export_model *const m = &e->source.shape;
    pare_export_result *const out = e->out;
    char text[PARE_PACKED_TEXT];
    out->row = PARE_NEW(e->kept, pare_export_row, m->linears + m->tables);
    if (!out->row)
        return PARE_ENOMEM;
    for (size_t i = 0; i < m->linears + m->tables; i++) {
        const pare_export_linear *const l = &m->linear[i];
        const pare_export_store s = pare_export_store_of(e->target, l);
        pare_export_row *const row = &out->row[out->rows++];
        *row = (pare_export_row){.name = l->name,
                                 .fate = s.fate,
                                 .type = s.type,
                                 .fallback = s.fallback,
                                 .beside_floats = s.beside_floats,
                                 .no_factor = s.no_factor,
                                 .again = m->tables && m->config->tied && i + 1 == m->linears};
        out->count[s.fate] += !row->again;
        out->fallbacks += s.fallback;
        out->beside_floats += s.beside_floats;
        out->no_factor += s.no_factor;
        if (!l->is_packed)
            continue;
        (void)pare_packed_linear_text(&l->packed, text);
        row->was = pare_arena_text(e->kept, text, strlen(text));
        if (!row->was)
            return PARE_ENOMEM;
    }
    return PARE_OK;
}

static size_t count_types(const pare_export_result *r, bool beside_floats,
                          pare_export_type type[PARE_EXPORT_TYPES])
{
    size_t types = 0;
    for (size_t i = 0; i < r->rows; i++) {
        const pare_export_row *const row = &r->row[i];
        size_t t = 0;
        if (!row->fallback || (row->beside_floats && !beside_floats))
            continue;
        while (t < types && strcmp(type[t].name, row->type) != 0)
            t++;
        if (t == PARE_EXPORT_TYPES)
            continue;
        if (t == types)
            type[types++] = (pare_export_type){row->type, 0};
        type[t].count++;
    }
    return types;
}

size_t pare_export_fallback_types(const pare_export_result *r,
                                  pare_export_type type[PARE_EXPORT_TYPES])
{
    return count_types(r, true, type);
}

char *pare_export_fallback_text(const pare_export_result *r, char text[PARE_EXPORT_TEXT])
{
    pare_export_type type[PARE_EXPORT_TYPES];
    const size_t types = count_types(r, false, type);
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < types && used < PARE_EXPORT_TEXT; i++)
        used += (size_t)snprintf(text + used, PARE_EXPORT_TEXT - used, "%s%zu %s", i ? ", " : "",
                                 type[i].count, type[i].name);
    return text;
}

static const char *find_near(const char *name)
{
    enum { WORDS = 64, NAME_MOST = 64 };
    static const char family[] = "gguf:", usual[] = "q4_k_m";
    const char *word[WORDS];
    char whole[NAME_MOST];
    size_t count = 0;
    const char *const type = strcasecmp(name, "gguf") == 0 ? usual : name;
    (void)snprintf(whole, sizeof whole, "%s%.32s", family, type);
    for (; pare_export_targets[count] && count < WORDS; count++) {
        word[count] = pare_export_targets[count]->name;
        if (strcasecmp(name, word[count]) == 0 || strcasecmp(whole, word[count]) == 0)
            return word[count];
    }
    return pare_nearest_word(name, word, count);
}

const char *pare_export_meant(const char *name, char text[PARE_EXPORT_TEXT])
{
    if (strcasecmp(name, "gguf:nvfp4") == 0)
        return "linears in NVFP4 keep their blocks in a file of any TYPE but f16; take gguf:q8_0";
    const char *const near = find_near(name);
    if (!near)
        return NULL;
    (void)snprintf(text, PARE_EXPORT_TEXT, "did you mean \"%s\"?", near);
    return text;
}

char *pare_export_known(char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; pare_export_targets[i] && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "",
                                 pare_export_targets[i]->name);
    return text;
}

const char pare_export_no_tokenizer[] =
    "the model has no tokenizer, so the file has none: llama.cpp loads it and aborts at the first "
    "text";

/* Whether the recipe rounds inputs in another way than our kernels need for such weights. */
static bool rounds_inputs(const pare_packed_linear *l)
{
    switch (l->activation.mode) {
    case PARE_ACTIVATION_FLOAT: return l->activation.bits != 0;
    case PARE_ACTIVATION_TOKEN: return !pare_encodings[l->encoding].by_token;
    case PARE_ACTIVATION_GROUP: return l->activation.bits == 4;
    default: return true;
    }
}

/* Linears that become floats, whose inputs no engine rounds. A table that is the head, too, is one.
 */
static size_t count_unrounded(const pare__export *e)
{
    const pare_export_model *const m = &e->source.shape;
    size_t n = 0;
    for (size_t i = 0; i < e->out->rows; i++) {
        const pare_export_linear *const l = &m->linear[i];
        n += l->is_packed && e->out->row[i].fate == PARE_EXPORT_ROUNDED && !e->out->row[i].again &&
             (!l->looked_up || m->config->tied) && rounds_inputs(&l->packed);
    }
    return n;
}

static pare_status take_notice(pare__export *e)
{
    char text[1280], types[PARE_EXPORT_TEXT]; /* all sentences fit */
    const size_t unrounded = count_unrounded(e);
    const bool file = e->target->kind == PARE_EXPORT_FILE;
    const bool packed = pare_export_packed_embedding(&e->source.shape) != NULL;
    int len = 0;
    text[0] = '\0';
    const bool floats = !packed || e->out->count[PARE_EXPORT_QUANTIZED];
    if (file && e->target->mix && floats)
        len += snprintf(text, sizeof text,
                        "what the artifact keeps in floats is quantized by the plain rule");
    else if (file && !e->target->mix)
        len += snprintf(text, sizeof text, "%swhat the artifact keeps in floats %s %s",
                        packed ? "" : "embeddings and ", packed ? "is" : "are",
                        strcmp(e->target->block, "F16") == 0 && e->source.shape.floats != PARE_F16
                            ? "rounded to F16"
                            : "floats here, too");
    if (e->out->no_tokenizer)
        len += snprintf(text + len, sizeof text - (size_t)len, "; %s", pare_export_no_tokenizer);
    if (unrounded && !e->source.shape.config->arch->rounds_inputs)
        len += snprintf(text + len, sizeof text - (size_t)len,
                        "; %zu linear%s floats here, and engines do not round %s inputs as the "
                        "artifact does",
                        unrounded, unrounded == 1 ? " becomes" : "s become",
                        unrounded == 1 ? "its" : "their");
    if (file && e->source.shape.config->arch->rounds_inputs)
        len += snprintf(text + len, sizeof text - (size_t)len,
                        "; engines round the inputs of linears by blocks, not by token");
    if (file && !pare_gguf_keeps_window(e->source.shape.config))
        len += snprintf(text + len, sizeof text - (size_t)len,
                        "; llama.cpp lets every token of this family see all before it, whatever "
                        "the window of %zu",
                        e->source.shape.config->window);
    if (e->out->fallbacks > e->out->beside_floats)
        len += snprintf(text + len, sizeof text - (size_t)len,
                        "; rows of %zu linear%s are no whole blocks of the type, they have others: "
                        "%s",
                        e->out->fallbacks - e->out->beside_floats,
                        pare_plural(e->out->fallbacks - e->out->beside_floats),
                        pare_export_fallback_text(e->out, types));
    if (e->out->beside_floats)
        len += snprintf(text + len, sizeof text - (size_t)len,
                        "; %zu linear%s in one tensor with others that are not quantized "
                        "(experts of a block do), which becomes F16: quantize all of them or none",
                        e->out->beside_floats, e->out->beside_floats == 1 ? " lies" : "s lie");
    if (e->out->no_factor)
        len +=
            snprintf(text + len, sizeof text - (size_t)len,
                     "; llama.cpp has no place for the factor of NVFP4 of %zu linear%s here, which "
                     "%s quantized again",
                     e->out->no_factor, pare_plural(e->out->no_factor),
                     e->out->no_factor == 1 ? "is" : "are");
    if (e->source.kv != PARE_KV_FLOAT)
        len += snprintf(text + len, sizeof text - (size_t)len,
                        "%sthe format of the key/value cache is not part of it: engines choose "
                        "their own",
                        len ? "; " : "");
    const size_t skipped = strncmp(text, "; ", 2) == 0 ? 2 : 0; /* no first sentence */
    e->out->notice = len ? pare_arena_text(e->kept, text + skipped, (size_t)len - skipped) : NULL;
    return len && !e->out->notice ? PARE_ENOMEM : PARE_OK;
}

/* A GGUF file has a tied matrix once. */
static pare_status leave_tied_head(pare__export *e)
{
    pare_export_model *const m = &e->source.shape;
    if (e->target->kind != PARE_EXPORT_FILE || !m->config->tied || !m->tables)
        return PARE_OK;
    pare_export_linear *const own =
        PARE_NEW(e->a, pare_export_linear, m->linears); /* others plan with it, too */
    if (!own)
        return PARE_ENOMEM;
    memcpy(own, m->linear, m->linears * sizeof *own);
    own[m->linears - 1] = m->linear[m->linears];
    m->linear = own;
    m->tables = 0;
    return PARE_OK;
}

pare_status pare__export_outline(pare__export *e)
{
    const pare_config *const c = e->source.shape.config;
    PARE_TRY(pare_export_check(e->cx, e->target, &e->source.shape, e->strict));
    if (e->ranks > 1)
        PARE_TRY(pare_export_check_ranks(e->cx, e->target, &e->source.shape, e->ranks));
    e->out->ranks = e->ranks;
    e->out->error = -1;
    if (e->strict && e->target->kind == PARE_EXPORT_FILE && !pare_gguf_keeps_window(c))
        return pare_fail(e->cx, PARE_ENOTSUP,
                         "%s: llama.cpp lets every token of this family see all before it, not "
                         "only the window of %zu of a context of %zu, which --strict refuses",
                         e->target->name, c->window, c->context);
    PARE_TRY(leave_tied_head(e));
    PARE_TRY(mark_planes(e));
    PARE_TRY(e->target->kind == PARE_EXPORT_FILE ? lay_out_file(e) : lay_out_directory(e));
    PARE_TRY(take_rows(e));
    return take_notice(e);
}

pare_status pare_export_outline(pare_ctx *cx, pare_arena *a, const pare_export_source *source,
                                const pare_export_target *target, size_t ranks, bool strict,
                                pare_export_result *out)
{
    pare_arena all;
    *out = (pare_export_result){0};
    PARE_TRY(pare_arena_init(cx, &all, 0));
    pare__export e = {.cx = cx,
                      .a = &all,
                      .kept = a,
                      .target = target,
                      .ranks = ranks,
                      .strict = strict,
                      .source = *source,
                      .out = out};
    const pare_status s = pare__export_outline(&e);
    pare_arena_release(&all);
    return s;
}
