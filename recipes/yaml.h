/* recipes/yaml.h - YAML text as a tree of nodes that know where they stood.
 *
 * The subset recipes use: one document, text keys, no anchors, aliases, tags or directives, no
 * duplicate keys, UTF-8. Limits: 1 MiB of text, nesting 64, 4096 entries per collection, 65536
 * nodes. Nodes and strings live in the arena. */
#ifndef PARE_RECIPES_YAML_H
#define PARE_RECIPES_YAML_H

#include "recipes/recipe.h"

typedef enum pare_yaml_kind { PARE_YAML_SCALAR, PARE_YAML_LIST, PARE_YAML_MAPPING } pare_yaml_kind;

typedef struct pare_yaml {
    pare_yaml_kind kind;
    bool plain; /* a scalar without quotes */
    pare_place place;
    const char *text;      /* of a scalar, else NULL */
    struct pare_yaml *key; /* the scalar in front of an entry of a mapping, else NULL */
    struct pare_yaml *first, *last, *next;
    size_t count; /* entries of a list or a mapping */
} pare_yaml;

/* Parses text [len]; *root is NULL for a text without any node. With `lines` off every place has
 * line 0, for text that is not a file. PARE_EUSAGE with the place, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_yaml_parse(pare_ctx *cx, pare_arena *a, const char *file, bool lines,
                                         const char *text, size_t len, pare_yaml **root);

/* The entry of a mapping with that key [len bytes], or NULL. */
pare_yaml *pare_yaml_find(const pare_yaml *mapping, const char *key, size_t len);
pare_yaml *pare_yaml_get(const pare_yaml *mapping, const char *key);

/* Entry `index` of a collection, or NULL. */
pare_yaml *pare_yaml_at(const pare_yaml *collection, size_t index);

/* Puts `entry` behind the last entry of a collection. */
void pare_yaml_append(pare_yaml *collection, pare_yaml *entry);

/* True for a value that was left out: nothing, ~ or null, without quotes. */
bool pare_yaml_is_null(const pare_yaml *node);

#endif
