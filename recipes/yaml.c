#include "recipes/yaml.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "recipes/recipe_internal.h"

enum { TEXT_MAX = 1 << 20, DEPTH_MAX = 64, ENTRIES_MAX = 4096, NODES_MAX = 65536 };

typedef struct reader {
    pare_ctx *cx;
    pare_arena *a;
    const char *file, *text;
    size_t len;
    bool lines;
    yaml_parser_t parser;
    pare_yaml *root, *key; /* key: waits for its value */
    pare_yaml *open[DEPTH_MAX];
    size_t depth, nodes, documents;
} reader;

static pare_place place_of(const reader *r, yaml_mark_t mark)
{
    return r->lines ? (pare_place){r->file, mark.line + 1, mark.column + 1}
                    : (pare_place){r->file, 0, 0};
}

/* The place of a byte, for errors found before libyaml sees the text. */
static pare_place place_of_byte(const reader *r, size_t offset)
{
    yaml_mark_t mark = {0, 0, 0};
    for (size_t i = 0; i < offset && i < r->len; i++) {
        const unsigned char c = (unsigned char)r->text[i];
        const bool crlf = c == '\r' && i + 1 < r->len && r->text[i + 1] == '\n';
        if ((c == '\n' || c == '\r') && !crlf) {
            mark.line++;
            mark.column = 0;
        } else if ((c & 0xc0) != 0x80 && !crlf) {
            mark.column++;
        }
    }
    return place_of(r, mark);
}

/* Bytes of the well-formed UTF-8 sequence at p, and its character; 0 when there is none. */
static size_t utf8_length(const unsigned char *p, size_t left, unsigned *out)
{
    static const unsigned least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t n = p[0] < 0x80             ? 1
                     : (p[0] & 0xe0) == 0xc0 ? 2
                     : (p[0] & 0xf0) == 0xe0 ? 3
                     : (p[0] & 0xf8) == 0xf0 ? 4
                                             : 0;
    if (n == 0 || n > left)
        return 0;
    unsigned c = n == 1 ? p[0] : p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *out = c;
    return n;
}

bool pare__is_utf8(const char *text)
{
    const size_t len = strlen(text);
    for (size_t i = 0, n; i < len; i += n) {
        unsigned c;
        n = utf8_length((const unsigned char *)text + i, len - i, &c);
        if (n == 0)
            return false;
    }
    return true;
}

static bool is_control(unsigned c)
{
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') ||
           (c >= 0x7f && c < 0xa0 && c != 0x85) || c == 0xfeff || c == 0xfffe || c == 0xffff;
}

static pare_status check_characters(const reader *r)
{
    for (size_t i = 0, n; i < r->len; i += n) {
        unsigned c = 0;
        n = utf8_length((const unsigned char *)r->text + i, r->len - i, &c);
        if (n == 0)
            return pare_recipe_fail(r->cx, place_of_byte(r, i),
                                    "byte 0x%02X is not UTF-8; save the file as UTF-8",
                                    (unsigned char)r->text[i]);
        if (is_control(c))
            return pare_recipe_fail(r->cx, place_of_byte(r, i),
                                    "control character U+%04X; a recipe is plain text", c);
    }
    return PARE_OK;
}

/* True if the line of a mark is indented with a tab, which YAML does not take. */
static bool has_tab(const reader *r, yaml_mark_t mark)
{
    const char *p = r->text, *const end = r->text + r->len;
    for (size_t line = 0; line < mark.line && p < end; p++)
        line += *p == '\n' || (*p == '\r' && (p + 1 == end || p[1] != '\n'));
    while (p < end && *p == ' ')
        p++;
    return p < end && *p == '\t';
}

static pare_status fail_yaml(const reader *r)
{
    const yaml_parser_t *const p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return pare_fail(r->cx, PARE_ENOMEM, "out of memory while reading %s", r->file);
    const char *hint = "";
    if (has_tab(r, p->problem_mark))
        hint = "; indent with spaces, this line has a tab";
    else if (p->context && strstr(p->context, "alias"))
        hint = "; a pattern that begins with * stands in quotes";
    char context[128] = "";
    if (p->context && r->lines)
        (void)snprintf(context, sizeof context, " (%s at line %zu)", p->context,
                       p->context_mark.line + 1);
    return pare_recipe_fail(r->cx, place_of(r, p->problem_mark), "not valid YAML: %s%s%s",
                            p->problem ? p->problem : "no reason known", context, hint);
}

static pare_status check_key(const reader *r, const pare_yaml *node)
{
    if (node->kind != PARE_YAML_SCALAR)
        return pare_recipe_fail(r->cx, node->place, "a key must be a text, not a %s",
                                node->kind == PARE_YAML_LIST ? "list" : "mapping");
    const pare_yaml *const twin = pare_yaml_get(r->open[r->depth - 1], node->text);
    if (!twin)
        return PARE_OK;
    char quoted[PARE__QUOTE];
    (void)pare__quote(quoted, node->text);
    if (!r->lines)
        return pare_recipe_fail(r->cx, node->place, "%s is given twice", quoted);
    return pare_recipe_fail(r->cx, node->place, "%s is given twice; first at line %zu", quoted,
                            twin->key->place.line);
}

/* Hangs a node into the collection that is open, as a key, a value or a list entry. */
static pare_status attach(reader *r, pare_yaml *node)
{
    if (r->depth == 0) {
        r->root = node;
        return PARE_OK;
    }
    pare_yaml *const parent = r->open[r->depth - 1];
    if (parent->kind == PARE_YAML_MAPPING && !r->key) {
        r->key = node;
        return check_key(r, node);
    }
    if (parent->count == ENTRIES_MAX)
        return pare_recipe_fail(r->cx, node->place, "more than %d entries in one %s", ENTRIES_MAX,
                                parent->kind == PARE_YAML_LIST ? "list" : "mapping");
    node->key = r->key;
    r->key = NULL;
    pare_yaml_append(parent, node);
    return PARE_OK;
}

static pare_status add_node(reader *r, const yaml_event_t *e, pare_yaml_kind kind,
                            const yaml_char_t *anchor, const yaml_char_t *tag)
{
    const pare_place place = place_of(r, e->start_mark);
    char quoted[PARE__QUOTE];
    if (anchor)
        return pare_recipe_fail(r->cx, place, "anchors are not supported: %s",
                                pare__quote(quoted, (const char *)anchor));
    if (tag)
        return pare_recipe_fail(r->cx, place, "tags are not supported: %s",
                                pare__quote(quoted, (const char *)tag));
    if (r->nodes++ == NODES_MAX)
        return pare_recipe_fail(r->cx, place, "more than %d values", NODES_MAX);
    if (kind != PARE_YAML_SCALAR && r->depth == DEPTH_MAX)
        return pare_recipe_fail(r->cx, place, "nested deeper than %d", DEPTH_MAX);
    pare_yaml *const node = PARE_NEW(r->a, pare_yaml, 1);
    if (!node)
        return PARE_ENOMEM;
    *node = (pare_yaml){.kind = kind, .place = place};
    if (kind == PARE_YAML_SCALAR) {
        const char *const text = (const char *)e->data.scalar.value;
        if (memchr(text, 0, e->data.scalar.length))
            return pare_recipe_fail(r->cx, place, "a text must not hold the character U+0000");
        node->plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        node->text = pare_arena_text(r->a, text, e->data.scalar.length);
        if (!node->text)
            return PARE_ENOMEM;
    }
    PARE_TRY(attach(r, node));
    if (kind != PARE_YAML_SCALAR)
        r->open[r->depth++] = node;
    return PARE_OK;
}

static pare_status begin_document(reader *r, const yaml_event_t *e)
{
    const pare_place place = place_of(r, e->start_mark);
    if (r->documents++)
        return pare_recipe_fail(r->cx, place, "a second document; a recipe is one document");
    if (e->data.document_start.version_directive ||
        e->data.document_start.tag_directives.start != e->data.document_start.tag_directives.end)
        return pare_recipe_fail(r->cx, place, "directives (%%YAML, %%TAG) are not supported");
    return PARE_OK;
}

static pare_status take_event(reader *r, const yaml_event_t *e)
{
    char quoted[PARE__QUOTE];
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT: return begin_document(r, e);
    case YAML_ALIAS_EVENT:
        return pare_recipe_fail(r->cx, place_of(r, e->start_mark),
                                "aliases are not supported: %s; a pattern that begins with * "
                                "stands in quotes",
                                pare__quote(quoted, (const char *)e->data.alias.anchor));
    case YAML_SCALAR_EVENT:
        return add_node(r, e, PARE_YAML_SCALAR, e->data.scalar.anchor, e->data.scalar.tag);
    case YAML_SEQUENCE_START_EVENT:
        return add_node(r, e, PARE_YAML_LIST, e->data.sequence_start.anchor,
                        e->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return add_node(r, e, PARE_YAML_MAPPING, e->data.mapping_start.anchor,
                        e->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: r->depth--; return PARE_OK;
    default: return PARE_OK;
    }
}

static pare_status read_events(reader *r)
{
    yaml_event_type_t type = YAML_NO_EVENT;
    while (type != YAML_STREAM_END_EVENT) {
        yaml_event_t event;
        if (!yaml_parser_parse(&r->parser, &event))
            return fail_yaml(r);
        type = event.type;
        const pare_status s = take_event(r, &event);
        yaml_event_delete(&event);
        if (s != PARE_OK)
            return s;
    }
    return PARE_OK;
}

pare_status pare_yaml_parse(pare_ctx *cx, pare_arena *a, const char *file, bool lines,
                            const char *text, size_t len, pare_yaml **root)
{
    reader r = {.cx = cx, .a = a, .file = file, .text = text, .len = len, .lines = lines};
    if (len > TEXT_MAX)
        return pare_recipe_fail(cx, (pare_place){file, lines, lines},
                                "%zu bytes; a recipe has at most %d", len, TEXT_MAX);
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        r.text += 3;
        r.len -= 3;
    }
    PARE_TRY(check_characters(&r));
    if (!yaml_parser_initialize(&r.parser))
        return pare_fail(cx, PARE_ENOMEM, "out of memory while reading %s", file);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)r.text, r.len);
    const pare_status s = read_events(&r);
    yaml_parser_delete(&r.parser);
    *root = r.root;
    return s;
}

pare_yaml *pare_yaml_find(const pare_yaml *mapping, const char *key, size_t len)
{
    for (pare_yaml *e = mapping->first; e; e = e->next)
        if (e->key->text[0] == key[0] && strncmp(e->key->text, key, len) == 0 &&
            e->key->text[len] == '\0')
            return e;
    return NULL;
}

pare_yaml *pare_yaml_get(const pare_yaml *mapping, const char *key)
{
    return pare_yaml_find(mapping, key, strlen(key));
}

pare_yaml *pare_yaml_at(const pare_yaml *collection, size_t index)
{
    pare_yaml *e = collection->first;
    for (size_t i = 0; e && i < index; i++)
        e = e->next;
    return e;
}

void pare_yaml_append(pare_yaml *collection, pare_yaml *entry)
{
    if (collection->last)
        collection->last->next = entry;
    else
        collection->first = entry;
    collection->last = entry;
    collection->count++;
}

bool pare_yaml_is_null(const pare_yaml *node)
{
    return node->kind == PARE_YAML_SCALAR && node->plain &&
           (node->text[0] == '\0' || strcmp(node->text, "~") == 0 ||
            strcmp(node->text, "null") == 0);
}
