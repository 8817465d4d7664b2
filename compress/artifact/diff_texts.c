/* Recipes line by line, what belongs to them, and the figures of run.json. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/artifact/diff_internal.h"

enum { LINES_MOST = 4096, NAME = 512, FIGURES_MOST = 4096, DEPTH_MOST = 4 };

typedef struct line {
    const char *at;
    size_t len;
    bool met; /* the other has it, too */
} line;

static size_t split(const char *text, line *out)
{
    size_t n = 0;
    while (text && *text && n < LINES_MOST) {
        text += strspn(text, " ");
        const size_t len = strcspn(text, "\n");
        if (len)
            out[n++] = (line){text, len, false};
        text += len + (text[len] == '\n');
    }
    return n;
}

/* Lines pair up in their order: each with the next one of the same text that has none yet. */
static void pair(line *a, size_t na, line *b, size_t nb)
{
    for (size_t i = 0; i < na; i++)
        for (size_t j = 0; j < nb && !a[i].met; j++)
            if (!b[j].met && a[i].len == b[j].len && memcmp(a[i].at, b[j].at, a[i].len) == 0)
                a[i].met = b[j].met = true;
}

/* A recipe without paths has "data" in their place. */
static const char *shown(pare_arena *a, const line *l)
{
    static const char path[] = "\"data\"", word[] = "FILE";
    char *const text = pare_arena_text(a, l->at, l->len);
    for (char *at = text; at && (at = strstr(at, path)) != NULL; at += strlen(word)) {
        memcpy(at, word, strlen(word));
        memmove(at + strlen(word), at + strlen(path), strlen(at + strlen(path)) + 1);
    }
    return text;
}

pare_status pare__diff_recipes(pare_arena *a, const pare_diff_side side[2], pare_diff *out)
{
    line *list[2];
    size_t count[2];
    bool there[2];
    for (size_t i = 0; i < 2; i++) {
        const char *const text = pare_json_text(pare_json_get(side[i].manifest, "recipe"), NULL);
        list[i] = PARE_NEW(a, line, LINES_MOST);
        if (!list[i])
            return PARE_ENOMEM;
        there[i] = text != NULL;
        count[i] = split(text, list[i]);
    }
    out->recipes = there[0] && there[1];
    if (!out->recipes)
        return PARE_OK;
    pair(list[0], count[0], list[1], count[1]);
    out->line = PARE_NEW(a, pare_diff_line, count[0] + count[1]);
    if (!out->line)
        return PARE_ENOMEM;
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < count[i]; j++) {
            if (list[i][j].met)
                continue;
            const char *const text = shown(a, &list[i][j]);
            if (!text)
                return PARE_ENOMEM;
            out->line[out->lines++] = (pare_diff_line){text, i == 1};
        }
    return PARE_OK;
}

/* Whether both have a text there, and another one. What only one names is not known of the other.
 */
static bool differs(const pare_json *a, const pare_json *b)
{
    const char *const x = pare_json_text(a, NULL), *const y = pare_json_text(b, NULL);
    return x && y && strcmp(x, y) != 0;
}

static bool member_differs(const pare_json *a, const pare_json *b, const char *key)
{
    return differs(pare_json_get(a, key), pare_json_get(b, key));
}

/* Lists of digests. */
static bool lists_differ(const pare_json *a, const pare_json *b)
{
    const size_t count = pare_json_count(a);
    bool is = count != pare_json_count(b);
    if (pare_json_type_of(a) != PARE_JSON_ARRAY || pare_json_type_of(b) != PARE_JSON_ARRAY)
        return false;
    for (size_t i = 0; i < count && !is; i++)
        is = differs(pare_json_at(a, i), pare_json_at(b, i));
    return is;
}

/* The next file from *at on of those that a manifest names as a teacher's, or of the others; NULL:
 * none. */
static const pare_json *next_input(const pare_json *inputs, bool teacher, size_t *at)
{
    static const char folder[] = "teacher/";
    while (*at < pare_json_count(inputs)) {
        const pare_json *const file = pare_json_at(inputs, (*at)++);
        const char *const name = pare_json_text(pare_json_get(file, "file"), NULL);
        if (teacher == (name && strncmp(name, folder, strlen(folder)) == 0))
            return file;
    }
    return NULL;
}

static bool has_teacher(const pare_json *inputs)
{
    size_t at = 0;
    return next_input(inputs, true, &at) != NULL;
}

/* The models that both were made of, or their teachers: where none is named, it is that model. */
static bool inputs_differ(const pare_json *a, const pare_json *b, bool teacher)
{
    const bool of_a = teacher && has_teacher(a), of_b = teacher && has_teacher(b);
    size_t i = 0, j = 0;
    if (pare_json_type_of(a) != PARE_JSON_ARRAY || pare_json_type_of(b) != PARE_JSON_ARRAY ||
        (teacher && !of_a && !of_b))
        return false;
    for (;;) {
        const pare_json *const x = next_input(a, of_a, &i), *const y = next_input(b, of_b, &j);
        if (!x || !y)
            return x || y;
        if (member_differs(x, y, "sha256"))
            return true;
    }
}

/* Whether `pare train` wrote it: only its recipe has "data" by itself. */
static bool is_training(const pare_json *manifest)
{
    const char *const recipe = pare_json_text(pare_json_get(manifest, "recipe"), NULL);
    return recipe && strstr(recipe, "\ndata:\n");
}

/* The digest of what was trained on; older versions of `pare train` put it where others put that of
 * the calibration. */
static const pare_json *trained_on(const pare_json *manifest)
{
    const pare_json *const own = pare_json_get(manifest, "training_sha256");
    return !own && is_training(manifest)
               ? pare_json_get(pare_json_get(manifest, "calibration"), "tokens_sha256")
               : own;
}

static const pare_json *calibration(const pare_json *manifest)
{
    return is_training(manifest) ? NULL : pare_json_get(manifest, "calibration");
}

void pare__diff_sources(const pare_diff_side side[2], pare_diff *out)
{
    const pare_json *const a = side[0].manifest, *const b = side[1].manifest;
    const pare_json *const from[2] = {calibration(a), calibration(b)};
    const pare_json *const input[2] = {pare_json_get(a, "inputs"), pare_json_get(b, "inputs")};
    out->source[PARE_DIFF_ORIGINAL] = inputs_differ(input[0], input[1], false);
    out->source[PARE_DIFF_TEACHER] = inputs_differ(input[0], input[1], true);
    out->source[PARE_DIFF_CALIBRATION] = member_differs(from[0], from[1], "tokens_sha256") ||
                                         member_differs(from[0], from[1], "statistics_xxh3");
    out->source[PARE_DIFF_HELD_OUT] = member_differs(a, b, "held_out_sha256");
    out->source[PARE_DIFF_TRAINING] = differs(trained_on(a), trained_on(b));
    out->source[PARE_DIFF_EVALUATION] =
        lists_differ(pare_json_get(a, "evaluated_sha256"), pare_json_get(b, "evaluated_sha256"));
}

static bool is_setting(const char *key)
{
    static const char *const keys[] = {"limit",         "available", "window",  "tokens",
                                       "seed",          "keys",      "prompts", "temperature",
                                       "prompt_tokens", "threads",   "n",       "most_tokens"};
    bool is = false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        is |= strcmp(keys[i], key) == 0;
    return is;
}

static pare_status put_figure(pare_arena *a, pare_diff *out, size_t i, const char *name,
                              const char *key, double x)
{
    for (size_t k = 0; k < out->figures; k++)
        if (strcmp(out->figure[k].name, name) == 0) {
            out->figure[k].value[i] = x;
            return PARE_OK;
        }
    if (out->figures == FIGURES_MOST)
        return PARE_OK;
    pare_diff_figure *const f = &out->figure[out->figures];
    f->name = pare_arena_text(a, name, strlen(name));
    f->value[0] = f->value[1] = (double)NAN;
    f->value[i] = x;
    f->setting = is_setting(key);
    out->figures++;
    return f->name ? PARE_OK : PARE_ENOMEM;
}

/* Numbers of an object and of those in it; what the original gave is no figure of this model. */
static pare_status put_numbers(pare_arena *a, pare_diff *out, size_t i, const char *name,
                               const pare_json *object, int depth)
{
    const char *key;
    const pare_json *v;
    for (pare_json_iter it = {0}; pare_json_next(object, &it, &key, &v);) {
        char longer[NAME];
        const pare_json_type type = pare_json_type_of(v);
        if (strcmp(key, "baseline") == 0)
            continue;
        const int len = snprintf(longer, sizeof longer, "%s%s%s", name, depth ? "." : ": ", key);
        if (len < 0 || (size_t)len >= sizeof longer)
            continue;
        if (type == PARE_JSON_OBJECT && depth < DEPTH_MOST)
            PARE_TRY(put_numbers(a, out, i, longer, v, depth + 1));
        else if (type == PARE_JSON_REAL || type == PARE_JSON_INTEGER)
            PARE_TRY(put_figure(a, out, i, longer, key, pare_json_number(v, (double)NAN)));
    }
    return PARE_OK;
}

/* What `pare train` measured on the windows held out. */
static pare_status put_training(pare_arena *a, pare_diff *out, size_t i, const pare_diff_side *side)
{
    static const char *const figure[][2] = {{"perplexity_after", "windows held out: perplexity"},
                                            {"kl_after", "windows held out: KL from the teacher"}};
    const pare_json *const training = pare_json_get(side->run, "training");
    for (size_t k = 0; is_training(side->manifest) && k < 2; k++) {
        const double x = pare_json_number(pare_json_get(training, figure[k][0]), (double)NAN);
        if (!isnan(x))
            PARE_TRY(put_figure(a, out, i, figure[k][1], figure[k][0], x));
    }
    return PARE_OK;
}

pare_status pare__diff_figures(pare_arena *a, const pare_diff_side side[2], pare_diff *out)
{
    out->figure = PARE_NEW(a, pare_diff_figure, FIGURES_MOST);
    if (!out->figure)
        return PARE_ENOMEM;
    for (size_t i = 0; i < 2; i++) {
        const pare_json *const all = pare_json_get(side[i].run, "evaluations");
        for (size_t k = 0; k < pare_json_count(all); k++) {
            char name[NAME];
            const pare_json *const e = pare_json_at(all, k);
            const char *const kind = pare_json_text(pare_json_get(e, "kind"), NULL);
            const char *const data = pare_json_text(pare_json_get(e, "data"), NULL);
            (void)snprintf(name, sizeof name, "%s%s%s", kind ? kind : "evaluation", data ? " " : "",
                           data ? data : "");
            PARE_TRY(put_numbers(a, out, i, name, e, 0));
        }
        PARE_TRY(put_training(a, out, i, &side[i]));
    }
    return PARE_OK;
}
