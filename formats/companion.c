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

pare_status pare_checkpoint_companion(const pare_checkpoint *ck, pare_arena *a, const char *name,
                                      char **text, size_t *len)
{
    *text = NULL;
    *len = 0;
    if (ck->kind && ck->kind->companion)
        return ck->kind->companion(ck, a, name, text, len);
    char *const path = pare_path_join(a, ck->directory, name);
    pare_path_kind is;
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_path_look(ck->cx, path, &is));
    return is == PARE_PATH_FILE ? pare_file_read(ck->cx, a, path, COMPANION_CAP, text, len)
                                : PARE_OK;
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

/* Bytes of the tokenizer that the format names in its own way; 0: it names none. */
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
    const bool own = ck->kind && ck->kind->companion;
    size_t bytes = 0;
    const pare_status s = own ? own_bytes(ck, &bytes) : PARE_OK;
    *has = own ? bytes > 0 : pare_tokenizer_is_in(ck->directory);
    return s;
}

pare_status pare_checkpoint_tokenizer_bytes(const pare_checkpoint *ck, uint64_t *bytes)
{
    const bool own = ck->kind && ck->kind->companion;
    size_t text = 0;
    const pare_status s = own ? own_bytes(ck, &text) : PARE_OK;
    *bytes = own ? pare_tokenizer_json_bytes(text) : pare_tokenizer_bytes(ck->directory);
    return s;
}

static pare_status parse_own(const pare_checkpoint *ck, pare_arena *a, pare_tokenizer **out)
{
    char *text, *settings;
    size_t len, settings_len;
    PARE_TRY(pare_checkpoint_companion(ck, a, "tokenizer.json", &text, &len));
    if (!text)
        return pare_fail(ck->cx, PARE_ENOTFOUND, "%s: has no tokenizer", ck->path);
    PARE_TRY(pare_checkpoint_companion(ck, a, "tokenizer_config.json", &settings, &settings_len));
    PARE_TRY(pare_tokenizer_parse(ck->cx, ck->path, text, len, out));
    const pare_status s =
        settings ? pare_tokenizer_configure(ck->cx, *out, ck->path, settings, settings_len)
                 : PARE_OK;
    if (s != PARE_OK) {
        pare_tokenizer_free(*out);
        *out = NULL;
    }
    return s;
}

pare_status pare_checkpoint_tokenizer(const pare_checkpoint *ck, pare_tokenizer **out)
{
    pare_arena a;
    if (!ck->kind || !ck->kind->companion)
        return pare_tokenizer_open(ck->cx, ck->directory, out);
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
