/* The keys "require" and "fallback": what the finished model must keep to, and what to try where it
 * does not. */
#include <stdio.h>
#include <string.h>

#include "recipes/recipe_internal.h"

// clang-format off
const pare_requirement_word pare_requirement_words[] = {
    {"perplexity", true, "\"<= +1%\" of the original's, or \"<= 31.5\"",
     "of every evaluation on text; +1%: above that of the original; 31.5: as it is"},
    {"kl", true, "\"<= 0.02\", in nats", "mean KL from the original, of every evaluation that measures it"},
    {"top1", false, "\">= 0.97\" or \">= 97%\"",
     "share of positions where both models have the same most likely token"},
    {"choice", false, "\">= 99%\" of the original's, or \">= 0.41\"",
     "accuracy of every evaluation with choice"},
    {"tasks.TASK", false, "\">= 99%\" of the original's, or \">= 0.41\"",
     "acc of a task of the recipe, as in tasks.piqa; tasks.piqa.acc_norm: another share of it"},
    {"needle", false, "\">= 99%\" of the original's, or \">= 0.9\"",
     "share of the numbers found in a long text, of every evaluation with needle"},
    {"bytes", true, "\"<= 4GiB\"", "of the weights as they are stored: the packed files"},
    {NULL, false, NULL, NULL},
};
// clang-format on

/* "+1%" as 1.01, "99%" as 0.99, "0.02" as it is. */
static bool read_bound(const char *text, pare_requirement *r)
{
    char number[PARE__NUMBER];
    const bool plus = *text == '+', change = plus || *text == '-';
    text += plus;
    const size_t len = strlen(text);
    const bool percent = len > 0 && text[len - 1] == '%';
    double value;
    if (len >= sizeof number || (change && (!percent || r->kind != PARE_REQUIRE_PERPLEXITY)) ||
        (plus && *text == '-'))
        return false;
    (void)snprintf(number, sizeof number, "%.*s", (int)(len - percent), text);
    if (pare__number(number, false, &value) != PARE__DECIMAL)
        return false;
    r->relative = percent;
    r->bound = !percent ? value : change ? 1 + value / 100 : value / 100;
    return r->bound >= 0;
}

static bool takes_bound(const char *text, pare_requirement *r)
{
    uint64_t bytes;
    if (r->kind == PARE_REQUIRE_BYTES) {
        r->bound = pare_bytes_parse(text, &bytes) ? (double)bytes : 0;
        return r->bound > 0;
    }
    if (!read_bound(text, r) || (r->kind == PARE_REQUIRE_KL && r->relative))
        return false;
    if (r->kind == PARE_REQUIRE_TOP1)
        r->relative = false;
    return pare_requirement_words[r->kind].most || r->relative || r->bound <= 1; /* else a share */
}

static const char task_prefix[] = "tasks.";

static bool names_task(const char *key)
{
    const size_t len = sizeof task_prefix - 1;
    return strncmp(key, task_prefix, len) == 0 && key[len] && key[len] != '.';
}

/* "tasks.piqa.acc_norm" as piqa and acc_norm. */
static pare_status read_task(const pare__walk *w, const char *key, pare_requirement *out)
{
    const char *const name = key + sizeof task_prefix - 1, *const dot = strchr(name, '.');
    out->task = pare_arena_text(w->a, name, dot ? (size_t)(dot - name) : strlen(name));
    out->metric = dot ? dot + 1 : "acc";
    return out->task ? PARE_OK : PARE_ENOMEM;
}

static pare_status read_one(const pare__walk *w, const pare_yaml *node, pare_requirement *out)
{
    char takes[192];
    size_t kind = PARE_REQUIRE_TASK;
    if (!names_task(node->key->text))
        for (kind = 0; strcmp(pare_requirement_words[kind].name, node->key->text) != 0; kind++)
            ;
    const pare_requirement_word *const word = &pare_requirement_words[kind];
    *out = (pare_requirement){.kind = (pare_requirement_kind)kind, .name = node->key->text};
    if (kind == PARE_REQUIRE_TASK)
        PARE_TRY(read_task(w, node->key->text, out));
    PARE_TRY(pare__text(w, node, &out->text));
    const char *bound = out->text.text;
    const bool direction = strncmp(bound, word->most ? "<=" : ">=", 2) == 0;
    bound += direction ? 2 : 0;
    bound += strspn(bound, " ");
    const bool taken = direction && takes_bound(bound, out);
    if (taken && kind == PARE_REQUIRE_PERPLEXITY && out->relative && *bound != '-' &&
        out->bound < 1)
        return pare_recipe_fail(w->cx, node->place,
                                "\"perplexity\" is \"<= %.32s\" of the original's, far below it: "
                                "write \"<= +%.32s\" for so much above it",
                                bound, bound);
    if (taken)
        return PARE_OK;
    (void)snprintf(takes, sizeof takes, "%s (in quotes)%s", word->takes,
                   kind == PARE_REQUIRE_BYTES
                       ? ": a whole number above 0 with a unit of B, KB, MB, "
                         "GB, KiB, MiB, GiB"
                       : "");
    return pare__fail_takes(w, node, takes);
}

/* Keys that are no task must be known. */
static pare_status check_keys(const pare__walk *w, const pare_yaml *node)
{
    enum { KINDS = sizeof pare_requirement_words / sizeof *pare_requirement_words - 1 };
    const char *names[KINDS];
    for (size_t i = 0; i < KINDS; i++)
        names[i] = pare_requirement_words[i].name;
    for (const pare_yaml *e = node->first; e; e = e->next) {
        pare_yaml alone = *node, one = *e;
        if (names_task(e->key->text))
            continue;
        one.next = NULL;
        alone.first = &one;
        PARE_TRY(pare__keys(w, &alone, "require", names, KINDS));
    }
    return PARE_OK;
}

pare_status pare__require(const pare__walk *w, const pare_yaml *node)
{
    pare_recipe *const out = w->out;
    PARE_TRY(pare__mapping(w, node, "require: {kl: \"<= 0.02\"}"));
    PARE_TRY(check_keys(w, node));
    out->requirement = PARE_NEW(w->a, pare_requirement, node->count);
    if (!out->requirement)
        return PARE_ENOMEM;
    for (const pare_yaml *e = node->first; e; e = e->next)
        PARE_TRY(read_one(w, e, &out->requirement[out->requirements++]));
    return PARE_OK;
}

/* Keys that attempts have in common: one of them becomes the output, and all are held to the same.
 */
static bool stays(const char *path)
{
    static const char *const key[] = {"model",    "output",  "tokenizer", "original",
                                      "evaluate", "require", "fallback"};
    const size_t len = strcspn(path, ".");
    for (size_t i = 0; i < sizeof key / sizeof *key; i++)
        if (len == strlen(key[i]) && strncmp(path, key[i], len) == 0)
            return true;
    return false;
}

/* A setting as --set has it. */
static pare_status read_set(const pare__walk *w, const pare_yaml *node, pare_text *out)
{
    char quoted[PARE__QUOTE];
    if (stays(node->key->text))
        return pare_recipe_fail(w->cx, node->key->place,
                                "a fallback changes how the model is compressed; %s stays as it is",
                                pare__quote(quoted, node->key->text));
    if (node->kind != PARE_YAML_SCALAR)
        return pare__fail_takes(w, node, "a number or a word: name each setting by its whole path");
    const char *const path = node->key->text;
    const size_t size = strlen(path) + strlen(node->text) + 2;
    char *const text = pare_arena_take(w->a, size, 1);
    if (!text)
        return PARE_ENOMEM;
    (void)snprintf(text, size, "%s=%s", path, node->text);
    *out = (pare_text){text, node->place};
    return PARE_OK;
}

pare_status pare__fallback(const pare__walk *w, const pare_yaml *list)
{
    static const char example[] = "a list of settings, as in \"[{passes.0.gptq.bits: 4}]\"";
    pare_recipe *const out = w->out;
    if (list->kind != PARE_YAML_LIST)
        return pare__fail_takes(w, list, example);
    out->fallback = PARE_NEW(w->a, pare_texts, list->count);
    if (!out->fallback)
        return PARE_ENOMEM;
    for (const pare_yaml *e = list->first; e; e = e->next) {
        pare_texts *const sets = &out->fallback[out->fallbacks++];
        if (e->kind != PARE_YAML_MAPPING || !e->first)
            return pare__fail_takes(w, e, example);
        sets->item = PARE_NEW(w->a, pare_text, e->count);
        if (!sets->item)
            return PARE_ENOMEM;
        for (const pare_yaml *s = e->first; s; s = s->next)
            PARE_TRY(read_set(w, s, &sets->item[sets->count++]));
    }
    return PARE_OK;
}
