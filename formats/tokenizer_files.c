/* A tokenizer in a directory: tokenizer.json, else tokenizer.model, else vocab.json with
 * merges.txt.
 *
 * The second and third name only a part of the special tokens; the others stand in files beside
 * them, by content and as a rule by id: tokenizer_config.json (added_tokens_decoder),
 * added_tokens.json, special_tokens_map.json; they are found in the text as it was written. A
 * tokenizer.json should hold them all; tokenizer_config.json may add some and say otherwise how
 * they are found, as in transformers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tokenizer_internal.h"
#include "runtime/file.h"
#include "runtime/small.h"

enum { FILE_CAP = 256 * 1024 * 1024, CONFIG_CAP = 16 * 1024 * 1024 };

/* Files of one directory; NULL where there is none. */
typedef struct folder {
    pare_ctx *cx;
    pare_arena *a;
    const char *path;
    const char *config_path, *map_path, *added_path;
    pare_json *config, *map, *added, *vocab, *model;
    pare_tok_added *more;
    size_t count, capacity;
    bool json; /* there is a tokenizer.json */
} folder;

/* The path, NULL when there is no such file. */
static pare_status look(folder *f, const char *name, const char **path)
{
    *path = pare_path_join(f->a, f->path, name);
    if (!*path)
        return PARE_ENOMEM;
    pare_path_kind is;
    PARE_TRY(pare_path_look(f->cx, *path, &is));
    if (is != PARE_PATH_FILE)
        *path = NULL;
    return PARE_OK;
}

static pare_status read_json(folder *f, const char *name, size_t cap, const char **path,
                             pare_json **doc)
{
    char *text;
    size_t len;
    PARE_TRY(look(f, name, path));
    if (!*path)
        return PARE_OK;
    PARE_TRY(pare_file_read(f->cx, f->a, *path, cap, &text, &len));
    return pare_json_parse(f->cx, *path, text, len, cap, doc);
}

/* A token that a file names, as a string or as {"content": string}. */
static const char *content_of(const pare_json *v, size_t *len)
{
    if (pare_json_type_of(v) == PARE_JSON_OBJECT)
        v = pare_json_get(v, "content");
    return pare_json_text(v, len);
}

static pare_status add(folder *f, const char *text, size_t len, pare_tok_added token)
{
    if (f->count == f->capacity) {
        const size_t capacity = f->capacity * 2 + 16;
        pare_tok_added *const all = PARE_NEW(f->a, pare_tok_added, capacity);
        if (!all)
            return PARE_ENOMEM;
        if (f->count)
            memcpy(all, f->more, f->count * sizeof *all);
        f->more = all;
        f->capacity = capacity;
    }
    token.content = (pare_tok_slice){pare_arena_text(f->a, text, len), len};
    f->more[f->count++] = token;
    return token.content.at ? PARE_OK : PARE_ENOMEM;
}

static pare_status add_special(folder *f, const pare_json *v)
{
    size_t len;
    const char *const text = content_of(v, &len);
    return text ? add(f, text, len, (pare_tok_added){.id = -1, .special = true}) : PARE_OK;
}

static const char *const special_keys[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                           "sep_token", "cls_token", "mask_token"};
enum { SPECIAL_KEYS = sizeof special_keys / sizeof *special_keys };

/* Tokens that special_tokens_map.json or tokenizer_config.json gives a role. */
static pare_status add_specials(folder *f, const pare_json *doc)
{
    for (size_t i = 0; i < SPECIAL_KEYS; i++)
        PARE_TRY(add_special(f, pare_json_get(doc, special_keys[i])));
    const pare_json *const list = pare_json_get(doc, "additional_special_tokens");
    for (size_t i = 0; i < pare_json_count(list); i++)
        PARE_TRY(add_special(f, pare_json_at(list, i)));
    return PARE_OK;
}

/* added_tokens_decoder: {"32000": {"content": "<|end|>", "rstrip": true, ...}, ...} */
static pare_status add_decoder(folder *f)
{
    const pare_json *const all = pare_json_get(f->config, "added_tokens_decoder");
    const pare_json *v;
    const char *key;
    for (pare_json_iter it = {0}; pare_json_next(all, &it, &key, &v);) {
        pare_tok_added token = {0};
        size_t len;
        char *end;
        const char *const text = content_of(v, &len);
        const long id = strtol(key, &end, 10);
        if (!text || len == 0 || *end || end == key || id < 0 || id >= INT32_MAX)
            return pare_fail(f->cx, PARE_EFORMAT,
                             "%s: added_tokens_decoder['%.60s']: an id and an object with the "
                             "content of a token expected",
                             f->config_path, key);
        token.id = (int32_t)id;
        token.special = pare_json_bool(pare_json_get(v, "special"), false);
        token.single_word = pare_json_bool(pare_json_get(v, "single_word"), false);
        token.lstrip = pare_json_bool(pare_json_get(v, "lstrip"), false);
        token.rstrip = pare_json_bool(pare_json_get(v, "rstrip"), false);
        token.normalized =
            f->json && pare_json_bool(pare_json_get(v, "normalized"), !token.special);
        PARE_TRY(add(f, text, len, token));
    }
    return PARE_OK;
}

/* Contents of the special tokens so far, sorted. */
static pare_status sort_specials(folder *f, const char ***out, size_t *count)
{
    const char **const text = PARE_NEW(f->a, const char *, f->count + 1);
    size_t n = 0;
    if (!text)
        return PARE_ENOMEM;
    for (size_t i = 0; i < f->count; i++)
        if (f->more[i].special)
            text[n++] = f->more[i].content.at;
    qsort(text, n, sizeof *text, pare_by_text);
    *out = text;
    *count = n;
    return PARE_OK;
}

/* added_tokens.json: {"<|end|>": 32000, ...} */
static pare_status add_added(folder *f)
{
    const char **special;
    size_t specials;
    const pare_json *v;
    const char *key;
    PARE_TRY(sort_specials(f, &special, &specials));
    for (pare_json_iter it = {0}; pare_json_next(f->added, &it, &key, &v);) {
        const int64_t id = pare_json_integer(v, -1);
        if (id < 0 || id >= INT32_MAX || !key[0])
            return pare_fail(f->cx, PARE_EFORMAT, "%s: '%.60s': a token and its id expected",
                             f->added_path, key);
        const bool known = bsearch(&key, special, specials, sizeof *special, pare_by_text);
        PARE_TRY(add(f, key, strlen(key), (pare_tok_added){.id = (int32_t)id, .special = known}));
    }
    return PARE_OK;
}

/* Tokens with an id of their own first: of equal ones the first counts. */
static pare_status gather(folder *f)
{
    PARE_TRY(add_decoder(f));
    const size_t decoder = f->count;
    PARE_TRY(add_specials(f, f->map));
    PARE_TRY(add_specials(f, f->config));
    const size_t specials = f->count;
    PARE_TRY(add_added(f));
    if (specials == decoder || f->count == specials)
        return PARE_OK;
    const size_t n = f->count - specials;
    pare_tok_added *const own = PARE_NEW(f->a, pare_tok_added, n);
    if (!own)
        return PARE_ENOMEM;
    memcpy(own, f->more + specials, n * sizeof *own);
    memmove(f->more + decoder + n, f->more + decoder, (specials - decoder) * sizeof *own);
    memcpy(f->more + decoder, own, n * sizeof *own);
    return PARE_OK;
}

static pare_status find_token(pare_ctx *cx, const pare_tokenizer *t, const pare_json *doc,
                              const char *path, const char *key, int32_t *id)
{
    size_t len = 0;
    const char *const text = content_of(pare_json_get(doc, key), &len);
    if (!text)
        return PARE_OK;
    const pare_tok_entry *entry = pare__vocab_by_text(&t->added_vocab, text, len);
    if (!entry)
        entry = pare__vocab_by_text(&t->vocab, text, len);
    if (!entry)
        return pare_fail(cx, PARE_EFORMAT, "%s: %s '%.60s' is not a token", path, key, text);
    *id = entry->id;
    return PARE_OK;
}

/* `parts`: no tokenizer.json, whose template says what stands around a text. */
static pare_status apply_config(folder *f, pare_tokenizer *t, bool parts)
{
    pare_tok_around *const a = &t->around;
    if (parts) {
        PARE_TRY(find_token(f->cx, t, f->map, f->map_path, "bos_token", &t->bos));
        PARE_TRY(find_token(f->cx, t, f->map, f->map_path, "eos_token", &t->eos));
    }
    PARE_TRY(find_token(f->cx, t, f->config, f->config_path, "bos_token", &t->bos));
    PARE_TRY(find_token(f->cx, t, f->config, f->config_path, "eos_token", &t->eos));
    if (!parts)
        return PARE_OK;
    const bool bos = pare_json_bool(pare_json_get(f->config, "add_bos_token"), a->fronts > 0);
    const bool eos = pare_json_bool(pare_json_get(f->config, "add_eos_token"), false);
    *a = (pare_tok_around){.front = {t->bos},
                           .behind = {t->eos},
                           .fronts = bos && t->bos >= 0,
                           .behinds = eos && t->eos >= 0};
    return PARE_OK;
}

/* Which rules go with vocab.json and merges.txt: the name of the class of the peers says it or,
 * without one, the kind of model; without both they are those of GPT-2. */
static pare_status is_qwen(folder *f, bool *qwen)
{
    static const struct {
        const char *name;
        bool qwen;
    } classes[] = {{"GPT2Tokenizer", false}, {"CodeGenTokenizer", false}, {"Qwen2Tokenizer", true}};
    size_t len = 0;
    const char *const kind = pare_json_text(pare_json_get(f->model, "model_type"), NULL);
    const char *const class = pare_json_text(pare_json_get(f->config, "tokenizer_class"), &len);
    *qwen = kind && (strncmp(kind, "qwen2", 5) == 0 || strncmp(kind, "qwen3", 5) == 0);
    if (!class)
        return PARE_OK;
    if (len > 4 && strcmp(class + len - 4, "Fast") == 0)
        len -= 4;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strlen(classes[i].name) == len && strncmp(class, classes[i].name, len) == 0) {
            *qwen = classes[i].qwen;
            return PARE_OK;
        }
    return pare_fail(f->cx, PARE_ENOTSUP,
                     "%s: tokenizer_class '%.60s' with vocab.json and merges.txt is not supported "
                     "(GPT2Tokenizer, CodeGenTokenizer, Qwen2Tokenizer are)",
                     f->config_path, class);
}

static void put_type(pare_json_writer *w, const char *key, const char *type)
{
    pare_json_open_object(w, key);
    pare_json_put_text(w, "type", type);
}

static void put_stages(pare_json_writer *w, bool qwen, bool space)
{
    if (qwen) {
        put_type(w, "normalizer", "NFC");
        pare_json_close(w);
    }
    put_type(w, "pre_tokenizer", "Sequence");
    pare_json_open_array(w, "pretokenizers");
    if (qwen) {
        put_type(w, NULL, "Split");
        pare_json_put_text(w, "behavior", "Isolated");
        pare_json_open_object(w, "pattern");
        pare_json_put_text(w, "Regex", pare__qwen_pattern);
        pare_json_close(w);
        pare_json_close(w);
    }
    put_type(w, NULL, "ByteLevel");
    pare_json_put_bool(w, "add_prefix_space", space);
    pare_json_put_bool(w, "use_regex", !qwen);
    pare_json_close(w);
    pare_json_close(w);
    pare_json_close(w);
    put_type(w, "decoder", "ByteLevel");
    pare_json_close(w);
}

/* Lines "a b", best first; the first may be "#version: 0.2". */
static void put_merges(pare_json_writer *w, char *text)
{
    pare_json_open_array(w, "merges");
    for (char *line = text, *next; *line; line = next) {
        const size_t len = strcspn(line, "\n");
        next = line[len] ? line + len + 1 : line + len;
        line[len] = '\0';
        if (len && line[len - 1] == '\r')
            line[len - 1] = '\0';
        if (line[0] && (line != text || strncmp(line, "#version", 8) != 0))
            pare_json_put_text(w, NULL, line);
    }
    pare_json_close(w);
}

/* The two files as a tokenizer.json. */
static void write_document(const folder *f, pare_json_writer *w, char *merges, bool qwen)
{
    pare_json_open_object(w, NULL);
    put_stages(w, qwen, pare_json_bool(pare_json_get(f->config, "add_prefix_space"), false));
    put_type(w, "model", "BPE");
    pare_json_put_copy(w, "vocab", f->vocab);
    put_merges(w, merges);
    pare_json_close(w);
    pare_json_close(w);
}

static pare_status open_merges(folder *f, const char *path, const char *vocab_path,
                               pare_tokenizer **out)
{
    static const char end_of_text[] = "<|endoftext|>";
    const pare_tok_added end = {.id = -1, .special = true};
    pare_tok_source from = {.name = vocab_path};
    const char *model_path;
    char *merges;
    size_t len;
    bool qwen;
    PARE_TRY(pare_file_read(f->cx, f->a, path, FILE_CAP, &merges, &len));
    if (strlen(merges) != len)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: byte %zu is NUL", path, strlen(merges));
    PARE_TRY(read_json(f, "config.json", CONFIG_CAP, &model_path, &f->model));
    PARE_TRY(is_qwen(f, &qwen));
    PARE_TRY(gather(f));
    PARE_TRY(add(f, end_of_text, sizeof end_of_text - 1, end));
    from.more = f->more;
    from.count = f->count;
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(f->cx, &w));
    write_document(f, w, merges, qwen);
    pare_status s = pare_json_writer_finish(w, &from.text, &from.len);
    if (s == PARE_OK)
        s = pare__tokenizer_read(f->cx, &from, out);
    pare_json_writer_free(w);
    if (s != PARE_OK)
        return s;
    const pare_tok_entry *const entry =
        pare__vocab_by_text(&(*out)->added_vocab, end_of_text, sizeof end_of_text - 1);
    (*out)->bos = entry && !qwen ? entry->id : -1;
    (*out)->eos = entry ? entry->id : -1;
    return PARE_OK;
}

static pare_status open_file(folder *f, const char *path, bool is_model, pare_tokenizer **out)
{
    char *text;
    pare_tok_source from = {.name = path, .is_model = is_model};
    PARE_TRY(gather(f));
    PARE_TRY(pare_file_read(f->cx, f->a, path, FILE_CAP, &text, &from.len));
    from.text = text;
    from.more = f->more;
    from.count = f->count;
    return pare__tokenizer_read(f->cx, &from, out);
}

static pare_status open_any(folder *f, pare_tokenizer **out)
{
    const char *json, *model, *merges, *vocab;
    PARE_TRY(look(f, "tokenizer.json", &json));
    PARE_TRY(look(f, "tokenizer.model", &model));
    PARE_TRY(look(f, "merges.txt", &merges));
    PARE_TRY(look(f, "vocab.json", &vocab));
    if (!json && !model && !(merges && vocab))
        return pare_fail(f->cx, PARE_ENOTFOUND,
                         "%s: no tokenizer: tokenizer.json, tokenizer.model or vocab.json with "
                         "merges.txt expected",
                         f->path);
    PARE_TRY(read_json(f, "tokenizer_config.json", CONFIG_CAP, &f->config_path, &f->config));
    f->json = json;
    if (!json) {
        PARE_TRY(read_json(f, "special_tokens_map.json", CONFIG_CAP, &f->map_path, &f->map));
        PARE_TRY(read_json(f, "added_tokens.json", CONFIG_CAP, &f->added_path, &f->added));
    }
    if (json)
        PARE_TRY(open_file(f, json, false, out));
    else if (model)
        PARE_TRY(open_file(f, model, true, out));
    else {
        PARE_TRY(read_json(f, "vocab.json", FILE_CAP, &vocab, &f->vocab));
        PARE_TRY(open_merges(f, merges, vocab, out));
    }
    const pare_status s = apply_config(f, *out, !json);
    if (s != PARE_OK) {
        pare_tokenizer_free(*out);
        *out = NULL;
    }
    return s;
}

pare_status pare_tokenizer_open(pare_ctx *cx, const char *directory, pare_tokenizer **out)
{
    pare_arena a;
    folder f = {.cx = cx, .a = &a, .path = directory};
    pare_status s = pare_arena_init(cx, &a, 0);
    if (s == PARE_OK)
        s = open_any(&f, out);
    pare_json *const docs[] = {f.config, f.map, f.added, f.vocab, f.model};
    for (size_t i = 0; i < sizeof docs / sizeof *docs; i++)
        pare_json_free(docs[i]);
    pare_arena_release(&a);
    return s;
}

pare_status pare_tokenizer_configure(pare_ctx *cx, pare_tokenizer *t, const char *name,
                                     const char *text, size_t len)
{
    folder f = {.cx = cx, .config_path = name};
    PARE_TRY(pare_json_parse(cx, name, text, len, CONFIG_CAP, &f.config));
    const pare_status s = apply_config(&f, t, false);
    pare_json_free(f.config);
    return s;
}

uint64_t pare_tokenizer_json_bytes(uint64_t text)
{
    return 10 * text;
}

static uint64_t file_bytes(const char *directory, const char *name)
{
    char path[4096];
    uint64_t bytes;
    const int n = snprintf(path, sizeof path, "%s/%s", directory, name);
    return n > 0 && (size_t)n < sizeof path && pare_path_bytes(path, &bytes) ? bytes : 0;
}

/* The first that is there is read. */
uint64_t pare_tokenizer_bytes(const char *directory)
{
    const uint64_t json = file_bytes(directory, "tokenizer.json");
    const uint64_t model = file_bytes(directory, "tokenizer.model");
    if (json)
        return pare_tokenizer_json_bytes(json);
    if (model)
        return 18 * model;
    return 18 * (file_bytes(directory, "vocab.json") + file_bytes(directory, "merges.txt"));
}

bool pare_tokenizer_is_in(const char *directory)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "vocab.json",
                                        "merges.txt"};
    bool there[4];
    for (size_t i = 0; i < 4; i++) {
        char path[4096];
        const int n = snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        there[i] = n > 0 && (size_t)n < sizeof path && pare_path_is_file(path);
    }
    return there[0] || there[1] || (there[2] && there[3]);
}
