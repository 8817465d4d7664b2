/* Names of jobs: readable, unique, and those of files. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "recipes/batch_recipe_internal.h"

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

/* FNV-1a. */
static uint32_t hash_of(const char *text, size_t len)
{
    uint32_t h = UINT32_C(2166136261);
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)text[i]) * UINT32_C(16777619);
    return h;
}

/* A dash, unless the word is empty or has one at its end. */
static void put_dash(char *word, size_t *used)
{
    if (*used && word[*used - 1] != '-')
        word[(*used)++] = '-';
}

/* The last part of a path. Letters beyond ASCII become a dash; the first of them also six digits of
 * a hash of all, so that other letters make another word: "mod-2f0c1a-le". */
char *pare__batch_word(pare_arena *a, const char *text)
{
    size_t len = strlen(text), used = 0;
    bool hashed = false, dash = false;
    while (len > 1 && text[len - 1] == '/')
        len--;
    for (const char *slash; (slash = memchr(text, '/', len - (len > 0))) != NULL;) {
        len -= (size_t)(slash + 1 - text);
        text = slash + 1;
    }
    char *const word = pare_arena_take(a, 2 * len + sizeof "-123456", 1);
    for (size_t i = 0; word && i < len; i++) {
        const bool beyond = ((unsigned char)text[i] & 0x80) != 0;
        const char c = strchr(plain, text[i]) ? text[i] : '-';
        if (beyond && !hashed) {
            put_dash(word, &used);
            used += (size_t)snprintf(word + used, sizeof "123456", "%06x",
                                     hash_of(text, len) & 0xffffff);
        } else if (!beyond) {
            if (dash && c != '.')
                put_dash(word, &used);
            if (!dash || c != '-')
                word[used++] = c;
        }
        hashed |= beyond;
        dash = beyond;
    }
    return word;
}

/* A piece behind a dash, unless it is the first. */
static bool add(char *name, size_t *used, const char *piece, bool dash)
{
    const size_t left = PARE_BATCH_NAME_MAX + 1 - *used;
    const int n = snprintf(name + *used, left, "%s%s", dash && *used ? "-" : "", piece);
    if (n < 0 || (size_t)n >= left)
        return false;
    *used += (size_t)n;
    return true;
}

static bool add_value(const pare__batch *b, char *name, size_t *used, const pare__axis *axis,
                      const pare_yaml *value)
{
    const char *const word = pare__batch_word(b->w.a, value->text);
    const bool number = word && strchr("0123456789", word[0]);
    return word && add(name, used, axis->word, true) && (number || add(name, used, "-", false)) &&
           add(name, used, word, false);
}

/* Whether a folder may be called so: not as files of the batch are, or those beside a job. */
static bool is_free(const char *name)
{
    static const char *const ends[] = {".yaml",     ".log",    ".partial", ".lock",
                                       ".tmp",      ".csv",    ".json",    ".html",
                                       ".replaced", ".failed", ".smaller", ".variants"};
    const size_t len = strlen(name);
    bool fits = len <= PARE_BATCH_NAME_MAX && name[strspn(name, plain)] == '\0' && name[0] != '.' &&
                name[0] != '-' && strcasecmp(name, "shared") != 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        fits = fits && (len < strlen(ends[i]) || strcasecmp(name + len - strlen(ends[i]), ends[i]));
    return fits;
}

pare_status pare__batch_name(const pare__batch *b, const pare__pick *p, const char **name)
{
    char text[PARE_BATCH_NAME_MAX + 1] = "";
    size_t used = 0;
    bool fits = true;
    if (p->model && b->models > 1)
        fits = add(text, &used, p->model->name, true);
    if (p->method)
        fits = fits && add(text, &used, p->method->name, true);
    for (size_t i = 0; i < b->axes; i++)
        if (p->value[i])
            fits = fits && add_value(b, text, &used, &b->axis[i], p->value[i]);
    if (!used) {
        const pare_yaml *const passes = pare__batch_passes(b, p->method);
        for (const pare_yaml *e = passes ? passes->first : NULL; e; e = e->next)
            fits = fits && add(text, &used, pare__batch_pass_name(e), true);
    }
    if (!fits || !used)
        return pare_recipe_fail(b->w.cx, b->matrix ? b->matrix->place : b->base->place,
                                "the names of its jobs would have more than %d characters; list "
                                "them in \"include\", with a \"name\" each",
                                PARE_BATCH_NAME_MAX);
    if (!is_free(text))
        return pare_recipe_fail(b->w.cx, p->model ? p->model->path->place : b->base->place,
                                "a job would be called \"%s\", which is no name for its folder; "
                                "name the model, as in models: {name: PATH}, or list the job in "
                                "\"include\", with a \"name\"",
                                text);
    *name = pare_arena_text(b->w.a, text, used);
    return *name ? PARE_OK : PARE_ENOMEM;
}

/* A name that the file gives. */
pare_status pare__batch_check_name(const pare__batch *b, const pare_yaml *node)
{
    pare_text name;
    PARE_TRY(pare__text(&b->w, node, &name));
    if (is_free(name.text))
        return PARE_OK;
    return pare__fail_takes(&b->w, node,
                            "a name for a folder: letters, digits, \".\", \"_\" and \"-\", at most "
                            "120, not \"shared\" and without an ending such as .yaml");
}
