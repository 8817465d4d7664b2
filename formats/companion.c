/* Texts that go along with weights, and what a checkpoint says of how they were stored. */
#include <stdio.h>
#include <string.h>

#include "formats/checkpoint_internal.h"
#include "formats/ggml_blocks.h"

enum { COMPANION_CAP = 256 * 1024 * 1024, TYPES = 64 };

const char *const pare_companions[] = {"tokenizer.json",      "tokenizer_config.json",
                                       "tokenizer.model",     "special_tokens_map.json",
                                       "added_tokens.json",   "generation_config.json",
                                       "vocab.json",          "merges.txt",
                                       "chat_template.jinja", NULL};

const char *const pare_licenses[] = {"LICENSE",    "LICENSE.txt",   "LICENSE.md", "LICENCE",
                                     "COPYING",    "NOTICE",        "NOTICE.txt", "NOTICE.md",
                                     "Notice.txt", "USE_POLICY.md", NULL};

/* The text of a file, NULL when there is none. */
static pare_status read_beside(pare_ctx *cx, pare_arena *a, const char *path, char **text,
                               size_t *len)
{
    pare_path_kind is;
    PARE_TRY(pare_path_look(cx, path, &is));
    return is == PARE_PATH_FILE ? pare_file_read(cx, a, path, COMPANION_CAP, text, len) : PARE_OK;
}

/* Whether ck->tokenizer is a tokenizer.json, whatever its name is, and no folder. */
static bool names_file(const pare_checkpoint *ck)
{
    return ck->tokenizer && !pare_path_is_directory(ck->tokenizer);
}

/* Of the tokenizer that the user names. A file stands for tokenizer.json; the settings beside it
 * are its own. */
static pare_status read_named(const pare_checkpoint *ck, pare_arena *a, const char *name,
                              char **text, size_t *len)
{
    const bool file = names_file(ck), json = strcmp(name, "tokenizer.json") == 0;
    if (file && json)
        return pare_file_read(ck->cx, a, ck->tokenizer, COMPANION_CAP, text, len);
    if (file && strcmp(name, "tokenizer_config.json") != 0 &&
        strcmp(name, "chat_template.jinja") != 0)
        return PARE_OK;
    const char *const directory = file ? pare_path_directory(a, ck->tokenizer) : ck->tokenizer;
    char *const path = directory ? pare_path_join(a, directory, name) : NULL;
    return path ? read_beside(ck->cx, a, path, text, len) : PARE_ENOMEM;
}

/* Of the container; of the file beside it when the container's tokenizer is not supported. */
static pare_status read_own(const pare_checkpoint *ck, pare_arena *a, const char *name, char **text,
                            size_t *len)
{
    pare_arena scratch;
    char *own = NULL, *beside = NULL;
    size_t own_len;
    pare_status s = pare_arena_init(ck->cx, &scratch, 0);
    char *const path =
        s == PARE_OK ? pare_path_join(&scratch, ck->directory, "tokenizer.json") : NULL;
    if (!path) {
        pare_arena_release(&scratch);
        return PARE_ENOMEM;
    }
    if (pare_path_is_file(path)) {
        s = ck->kind->companion(ck, &scratch, "tokenizer.json", &own, &own_len);
        if (s == PARE_ENOTSUP || (s == PARE_OK && !own)) {
            pare_ctx_clear(ck->cx);
            beside = pare_path_join(a, ck->directory, name);
            s = beside ? read_beside(ck->cx, a, beside, text, len) : PARE_ENOMEM;
        }
    }
    pare_arena_release(&scratch);
    if (s != PARE_OK || *text)
        return s;
    s = ck->kind->companion(ck, a, name, text, len);
    if (s == PARE_ENOTSUP && beside) { /* settings of a tokenizer that another stands for */
        pare_ctx_clear(ck->cx);
        s = PARE_OK;
    }
    return s;
}

pare_status pare_checkpoint_companion(const pare_checkpoint *ck, pare_arena *a, const char *name,
                                      char **text, size_t *len)
{
    *text = NULL;
    *len = 0;
    if (ck->tokenizer && strcmp(name, "generation_config.json") != 0)
        return read_named(ck, a, name, text, len);
    if (ck->kind && ck->kind->companion)
        return read_own(ck, a, name, text, len);
    char *const path = pare_path_join(a, ck->directory, name);
    return path ? read_beside(ck->cx, a, path, text, len) : PARE_ENOMEM;
}

pare_status pare_checkpoint_generation(const pare_checkpoint *ck, pare_arena *a,
                                       pare_config *config)
{
    static const char name[] = "generation_config.json";
    const char *const path = pare_path_join(a, ck->directory, name);
    pare_json *doc = NULL;
    char *text;
    size_t len;
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_checkpoint_companion(ck, a, name, &text, &len));
    if (!text)
        return PARE_OK;
    PARE_TRY(pare_json_parse(ck->cx, path, text, len, len, &doc));
    const pare_status s = pare_config_generation(ck->cx, path, doc, config);
    pare_json_free(doc);
    return s;
}

/* The folder that holds the files of the tokenizer; NULL when it comes as a text, of a container or
 * of a file that the user names. */
static const char *folder_of(const pare_checkpoint *ck)
{
    if (ck->tokenizer)
        return names_file(ck) ? NULL : ck->tokenizer;
    return ck->kind && ck->kind->companion ? NULL : ck->directory;
}

/* Bytes of the tokenizer that comes as a text; 0: there is none. */
static pare_status own_bytes(const pare_checkpoint *ck, size_t *bytes)
{
    pare_arena a;
    char *text = NULL;
    *bytes = 0;
    pare_status s = pare_arena_init(ck->cx, &a, 0);
    if (s == PARE_OK)
        s = pare_checkpoint_companion(ck, &a, "tokenizer.json", &text, bytes);
    pare_arena_release(&a);
    return s;
}

pare_status pare_checkpoint_has_tokenizer(const pare_checkpoint *ck, bool *has)
{
    const char *const folder = folder_of(ck);
    size_t bytes = 0;
    const pare_status s = folder ? PARE_OK : own_bytes(ck, &bytes);
    *has = folder ? pare_tokenizer_is_in(folder) : bytes > 0;
    return s;
}

pare_status pare_checkpoint_tokenizer_bytes(const pare_checkpoint *ck, uint64_t *bytes)
{
    const char *const folder = folder_of(ck);
    size_t text = 0;
    const pare_status s = folder ? PARE_OK : own_bytes(ck, &text);
    *bytes = folder ? pare_tokenizer_bytes(folder) : pare_tokenizer_json_bytes(text);
    return s;
}

static pare_status parse_own(const pare_checkpoint *ck, pare_arena *a, pare_tokenizer **out)
{
    const char *const name = ck->tokenizer ? ck->tokenizer : ck->path;
    char *text, *settings;
    size_t len, settings_len;
    PARE_TRY(pare_checkpoint_companion(ck, a, "tokenizer.json", &text, &len));
    if (!text)
        return pare_fail(ck->cx, PARE_ENOTFOUND, "%s: has no tokenizer", name);
    PARE_TRY(pare_checkpoint_companion(ck, a, "tokenizer_config.json", &settings, &settings_len));
    PARE_TRY(pare_tokenizer_parse(ck->cx, name, text, len, out));
    const pare_status s =
        settings ? pare_tokenizer_configure(ck->cx, *out, name, settings, settings_len) : PARE_OK;
    if (s != PARE_OK) {
        pare_tokenizer_free(*out);
        *out = NULL;
    }
    return s;
}

pare_status pare_checkpoint_tokenizer(const pare_checkpoint *ck, pare_tokenizer **out)
{
    pare_arena a;
    const char *const folder = folder_of(ck);
    if (folder)
        return pare_tokenizer_open(ck->cx, folder, out);
    pare_status s = pare_arena_init(ck->cx, &a, 0);
    if (s == PARE_OK)
        s = parse_own(ck, &a, out);
    pare_arena_release(&a);
    return s;
}

bool pare_checkpoint_quantized(const pare_checkpoint *ck, char *text, size_t size)
{
    const char *type[TYPES];
    size_t count[TYPES] = {0}, types = 0, at = 0;
    if (ck->quantized) {
        (void)snprintf(text, size, "%s", ck->quantized);
        return true;
    }
    for (size_t i = 0; ck->stored && i < ck->tensors; i++) {
        const pare_ggml_type *const t = pare_ggml_type_named(ck->stored[i].type);
        size_t k = 0;
        if (!t || t->elements == 1)
            continue;
        while (k < types && strcmp(type[k], t->name) != 0)
            k++;
        if (k == TYPES)
            continue;
        type[k] = t->name;
        count[k]++;
        types += k == types;
    }
    text[0] = '\0';
    for (size_t k = 0; k < types && at < size; k++) {
        const int n =
            snprintf(text + at, size - at, "%s%zu x %s", k ? ", " : "", count[k], type[k]);
        at += n > 0 ? (size_t)n : 0;
    }
    return types > 0;
}

bool pare_checkpoint_quantized_text(const pare_checkpoint *ck, char *text, size_t size)
{
    char types[256];
    const bool quantized = pare_checkpoint_quantized(ck, types, sizeof types);
    (void)snprintf(text, size, "the model is already quantized (%s): its errors stay in it", types);
    return quantized;
}
