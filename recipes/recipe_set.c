/* --set path=value: changes of the tree before it is validated, so that an override is checked by
 * the same rules as the text of a recipe. */
#include <stdio.h>
#include <string.h>

#include "recipes/recipe_internal.h"

enum { SHOWN_BYTES = 200 };

/* Value text as one YAML value: in brackets it is read in flow style whatever it begins with; the
 * line break ends a comment. */
static pare_status parse_value(const pare__walk *w, pare_place place, const char *value,
                               pare_yaml **out)
{
    const size_t len = strlen(value);
    char *const text = pare_arena_take(w->a, len + 4, 1);
    if (!text)
        return PARE_ENOMEM;
    (void)snprintf(text, len + 4, "[%s\n]", value);
    pare_yaml *root = NULL;
    PARE_TRY(pare_yaml_parse(w->cx, w->a, place.file, false, text, len + 3, &root));
    if (!root || root->kind != PARE_YAML_LIST || root->count != 1 || root->next)
        return pare_recipe_fail(w->cx, place,
                                "the value must be one value: write [a, b] for a list and put "
                                "a text with commas in quotes");
    *out = root->first;
    return PARE_OK;
}

static pare_yaml *new_entry(const pare__walk *w, pare_place place, const char *name, size_t len)
{
    pare_yaml *const key = PARE_NEW(w->a, pare_yaml, 1);
    pare_yaml *const entry = PARE_NEW(w->a, pare_yaml, 1);
    char *const text = pare_arena_text(w->a, name, len);
    if (!key || !entry || !text)
        return NULL;
    *key = (pare_yaml){.plain = true, .place = place, .text = text};
    *entry = (pare_yaml){.plain = true, .place = place, .text = "", .key = key};
    return entry;
}

/* A scalar on the way becomes a mapping: nothing (`gptq:`) an empty one, a bare pass name in a list
 * the mapping {name: nothing}. */
static pare_status open_scalar(const pare__walk *w, pare_yaml *node, pare_place place,
                               const char *part, size_t len)
{
    char quoted[PARE__QUOTE];
    const char *const text = node->text;
    const bool bare = !node->key && strlen(text) == len && strncmp(text, part, len) == 0;
    if (!bare && !pare_yaml_is_null(node))
        return pare_recipe_fail(w->cx, place, "the path goes through %s, which is no mapping",
                                pare__quote(quoted, text));
    node->kind = PARE_YAML_MAPPING;
    node->text = NULL;
    if (bare) {
        pare_yaml *const entry = new_entry(w, node->place, part, len);
        if (!entry)
            return PARE_ENOMEM;
        pare_yaml_append(node, entry);
    }
    return PARE_OK;
}

static pare_status step_into_list(const pare__walk *w, pare_yaml *list, pare_place place,
                                  const char *part, size_t len, pare_yaml **out)
{
    char index[24], quoted[PARE__QUOTE];
    uint64_t i = 0;
    (void)snprintf(index, sizeof index, "%.*s", (int)(len < sizeof index ? len : 0), part);
    if (!pare__u64(index, &i)) {
        (void)snprintf(index, sizeof index, "%.*s", (int)(len < 20 ? len : 20), part);
        return pare_recipe_fail(w->cx, place,
                                "%s is not the number of a list entry; the first is 0",
                                pare__quote(quoted, index));
    }
    *out = i < list->count ? pare_yaml_at(list, (size_t)i) : NULL;
    if (!*out)
        return pare_recipe_fail(w->cx, place, "there is no entry %s; the list has %zu, from 0",
                                index, list->count);
    return PARE_OK;
}

static pare_status step_into(const pare__walk *w, pare_yaml *node, pare_place place,
                             const char *part, size_t len, pare_yaml **out)
{
    if (len == 0)
        return pare_recipe_fail(w->cx, place, "the path has an empty part");
    if (node->kind == PARE_YAML_SCALAR)
        PARE_TRY(open_scalar(w, node, place, part, len));
    if (node->kind == PARE_YAML_LIST)
        return step_into_list(w, node, place, part, len, out);
    *out = pare_yaml_find(node, part, len);
    if (*out)
        return PARE_OK;
    *out = new_entry(w, place, part, len);
    if (!*out)
        return PARE_ENOMEM;
    pare_yaml_append(node, *out);
    return PARE_OK;
}

/* The override as the place of what it set, cut where it would hide the reason. */
static const char *shown(const pare__walk *w, const char *set)
{
    const bool valid = pare__is_utf8(set);
    const size_t full = strlen(set);
    size_t len = full < SHOWN_BYTES ? full : SHOWN_BYTES;
    while (len < full && len > 0 && ((unsigned char)set[len] & 0xc0) == 0x80)
        len--;
    const size_t size = sizeof "--set ..." + len;
    char *const text = pare_arena_take(w->a, size, 1);
    if (!text)
        return NULL;
    (void)snprintf(text, size, "--set %.*s%s", (int)len, set, len < full ? "..." : "");
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f || (!valid && (unsigned char)*p > 0x7f))
            *p = '?';
    return text;
}

pare_status pare__put(const pare__walk *w, pare_yaml *root, pare_place place, const char *path,
                      size_t len, const pare_yaml *value)
{
    pare_yaml *node = root;
    for (size_t at = 0; at <= len; at++) {
        const size_t begin = at;
        while (at < len && path[at] != '.')
            at++;
        PARE_TRY(step_into(w, node, place, path + begin, at - begin, &node));
    }
    pare_yaml *const key = node->key, *const next = node->next;
    *node = *value;
    node->key = key;
    node->next = next;
    return PARE_OK;
}

pare_status pare__set(const pare__walk *w, pare_yaml *root, const char *set)
{
    const pare_place place = {shown(w, set), 0, 0};
    if (!place.file)
        return PARE_ENOMEM;
    if (!pare__is_utf8(set))
        return pare_recipe_fail(w->cx, place, "not UTF-8");
    const char *const equals = strchr(set, '=');
    if (!equals)
        return pare_recipe_fail(w->cx, place, "write path=value, as in passes.0.gptq.bits=3");
    pare_yaml *value = NULL;
    PARE_TRY(parse_value(w, place, equals + 1, &value));
    return pare__put(w, root, place, set, (size_t)(equals - set), value);
}
