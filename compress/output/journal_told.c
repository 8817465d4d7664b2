/* How two jobs differ, by the fingerprints in their journals, in words. */
#include "compress/output/journal_told.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"

enum { DIFFERENCE_CAP = 900, VALUE_CAP = 80 };

/* What a difference is told with: a text that ends where the room ends. */
typedef struct difference {
    char text[DIFFERENCE_CAP];
    size_t used;
    size_t more;   /* that did not fit */
    bool one_uses; /* of both jobs just one looks at the calibration */
    bool came;     /* an output to a place where there was none */
} difference;

__attribute__((format(printf, 2, 3))) static void add(difference *d, const char *format, ...)
{
    const char *const between = d->used ? "; " : "";
    char told[DIFFERENCE_CAP];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(told, sizeof told, format, args);
    va_end(args);
    const size_t len = strlen(between) + strlen(told);
    if (len >= sizeof d->text - d->used) {
        d->more++;
        return;
    }
    (void)snprintf(d->text + d->used, sizeof d->text - d->used, "%s%s", between, told);
    d->used += len;
}

/* A line of a recipe; NULL where it has none. */
static const char *line_of(const pare_json *doc, size_t number)
{
    char key[64];
    (void)snprintf(key, sizeof key, PARE_JOURNAL_RECIPE "%zu", number);
    return pare_json_text(pare_json_get(doc, key), NULL);
}

static size_t lines_of(const pare_json *doc)
{
    size_t count = 0;
    while (line_of(doc, count + 1))
        count++;
    return count;
}

/* Whether `longer` has lines from `number` on that are not in the other recipe, which goes on at
 * the same place. */
static bool has_more(const pare_json *longer, const pare_json *other, size_t number)
{
    const size_t more = lines_of(longer) - lines_of(other);
    const char *const behind = line_of(longer, number + more), *const next = line_of(other, number);
    return !next || (behind && strcmp(behind, next) == 0);
}

/* The first line that differs; those behind it may only have moved. */
static void tell_recipe(difference *d, const pare_json *old, const pare_json *now)
{
    const size_t had = lines_of(old), has = lines_of(now);
    size_t number = 1;
    while (number <= had && number <= has &&
           strcmp(line_of(old, number), line_of(now, number)) == 0)
        number++;
    const char *was = line_of(old, number), *is = line_of(now, number);
    if (!was && !is)
        return;
    was = was ? was + strspn(was, " ") : "";
    is = is ? is + strspn(is, " ") : "";
    if (had > has && has_more(old, now, number))
        add(d, "its recipe has \"%.*s\", which this one lacks", VALUE_CAP, was);
    else if (has > had && has_more(now, old, number))
        add(d, "its recipe lacks \"%.*s\", which this one has", VALUE_CAP, is);
    else
        add(d, "its recipe says \"%.*s\" where this one says \"%.*s\"", VALUE_CAP, was, VALUE_CAP,
            is);
}

static bool uses_tokens(const pare_json *doc)
{
    const char *const tokens = pare_json_text(pare_json_get(doc, PARE_JOURNAL_TOKENS), NULL);
    return tokens && strcmp(tokens, PARE_JOURNAL_UNUSED) != 0;
}

/* Tokens that differ, or are of no use to one of them. */
static void tell_tokens(difference *d, const char *was, const char *is)
{
    if (was && strcmp(was, PARE_JOURNAL_UNUSED) == 0)
        add(d, "it uses no calibration, which this one does");
    else if (is && strcmp(is, PARE_JOURNAL_UNUSED) == 0)
        add(d, "it uses the calibration, which this one does not");
    else
        add(d, "it has other %s", PARE_JOURNAL_TOKENS);
}

static void tell(difference *d, const char *key, const pare_json *old, const pare_json *now)
{
    size_t len;
    const char *const was = pare_json_text(old, &len), *const is = pare_json_text(now, &len);
    if (was && is && strcmp(was, is) == 0)
        return;
    if (is && strcmp(key, PARE_JOURNAL_REPLACES) == 0 && strcmp(is, PARE_JOURNAL_NO_OUTPUT) == 0)
        return; /* it went away, and nothing else is in its place */
    if (was && is && strcmp(key, PARE_JOURNAL_REPLACES) == 0 &&
        strcmp(was, PARE_JOURNAL_NO_OUTPUT) == 0) {
        d->came = true;
        return; /* tell_came does */
    }
    if (strncmp(key, PARE_JOURNAL_RECIPE, strlen(PARE_JOURNAL_RECIPE)) == 0)
        return; /* tell_recipe does */
    if (strcmp(key, PARE_JOURNAL_PRECISION) == 0 && d->one_uses)
        return; /* the other has none */
    if (strcmp(key, PARE_JOURNAL_TOKENS) == 0)
        tell_tokens(d, was, is);
    else if (was && is && strncmp(key, PARE_JOURNAL_FILE, strlen(PARE_JOURNAL_FILE)) == 0)
        add(d, "it has other bytes in the model's %.*s", (int)strcspn(is, " "), is);
    else
        add(d, "%.*s was %.*s, is %.*s", VALUE_CAP, key, VALUE_CAP, was ? was : "not given",
            VALUE_CAP, is ? is : "not given");
}

/* An output that came meanwhile costs no work where nothing else differs. `path` ends in the
 * journal, in OUTPUT.partial. */
static pare_status tell_came(pare_ctx *cx, const char *path, difference *d)
{
    static const char end[] = ".partial/" PARE_JOURNAL_NAME;
    const size_t len = strlen(path), ends = strlen(end);
    const bool beside = len > ends && strcmp(path + len - ends, end) == 0;
    if (d->came && d->used)
        add(d, "nothing lay at the output when it began, and now a finished output does");
    else if (d->came)
        return pare_fail(cx, PARE_EEXISTS,
                         "nothing lay at %.*s when the unfinished run began, and now a finished "
                         "output does: move that away, and the same command goes on",
                         (int)(beside ? len - ends : len), path);
    return PARE_OK;
}

/* Refuses a job that differs. */
static pare_status fail_other(pare_ctx *cx, const char *path, difference *d)
{
    char more[48] = "";
    PARE_TRY(tell_came(cx, path, d));
    if (d->used == 0)
        return PARE_OK; /* the same members in another order */
    if (d->more)
        (void)snprintf(more, sizeof more, "; and %zu more", d->more);
    return pare_fail(cx, PARE_EEXISTS,
                     "%s: the unfinished run is not this job: %s%s. --restart starts over; another "
                     "--output leaves it",
                     path, d->text, more);
}

static bool is_training(const pare_json *print)
{
    return pare_json_get(print, PARE_JOURNAL_TRAINING) != NULL;
}

/* Work of the other command: what differs besides says nothing. `path` ends in the journal. */
static pare_status fail_command(pare_ctx *cx, const char *path, bool trained)
{
    return pare_fail(cx, PARE_EEXISTS,
                     "%.*s: holds an unfinished run of pare %s, and this is pare %s. The command "
                     "of that run goes on with it; --restart starts over; another --output leaves "
                     "it",
                     (int)(strlen(path) - strlen("/" PARE_JOURNAL_NAME)), path,
                     trained ? "train" : "compress", trained ? "compress" : "train");
}

/* `without`: a member that this fingerprint lacks yet, or NULL. */
static pare_status refuse(pare_ctx *cx, const char *path, const pare_json *old,
                          const pare_json *now, const char *without)
{
    difference d = {.one_uses = uses_tokens(old) != uses_tokens(now)};
    const char *const had = pare_json_text(pare_json_get(old, "format"), NULL);
    const char *const has = pare_json_text(pare_json_get(now, "format"), NULL);
    if (had && has && strtol(had, NULL, 10) > strtol(has, NULL, 10))
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: format is %.*s, and this program reads %s; a newer pare is needed to "
                         "continue the unfinished run, or --restart to start over",
                         path, VALUE_CAP, had, has);
    if (is_training(old) != is_training(now))
        return fail_command(cx, path, is_training(old));
    const char *key;
    const pare_json *value;
    for (pare_json_iter it = {0}; pare_json_next(now, &it, &key, &value);)
        tell(&d, key, pare_json_get(old, key), value);
    for (pare_json_iter it = {0}; pare_json_next(old, &it, &key, &value);)
        if (!pare_json_get(now, key) && !(without && strcmp(key, without) == 0))
            tell(&d, key, value, NULL);
    tell_recipe(&d, old, now);
    return fail_other(cx, path, &d);
}

pare_status pare__journal_compare(pare_ctx *cx, const char *path, const pare_journal_record *record,
                                  const char *fingerprint, const char *without)
{
    const size_t len = strlen(fingerprint);
    if (record->len == len && memcmp(record->payload, fingerprint, len) == 0)
        return PARE_OK;
    pare_json *old = NULL, *now = NULL;
    pare_status s =
        pare_json_parse(cx, "fingerprint", fingerprint, len, PARE_JOURNAL_JSON_CAP, &now);
    if (s != PARE_OK)
        goto done;
    s = pare_json_parse(cx, path, (const char *)record->payload, record->len, PARE_JOURNAL_JSON_CAP,
                        &old);
    if (s == PARE_EFORMAT)
        s = pare_fail_context(cx, PARE_EEXISTS,
                              "the unfinished run is of another program; --restart starts over");
    else if (s == PARE_OK)
        s = refuse(cx, path, old, now, without);
done:
    pare_json_free(old);
    pare_json_free(now);
    return s;
}

pare_status pare__journal_compare_recipe(pare_ctx *cx, const char *path,
                                         const pare_journal_record *record, const char *lines)
{
    pare_json *old = NULL, *now = NULL;
    difference d = {.used = 0};
    pare_status s =
        pare_json_parse(cx, "recipe", lines, strlen(lines), PARE_JOURNAL_JSON_CAP, &now);
    if (s == PARE_OK)
        s = pare_json_parse(cx, path, (const char *)record->payload, record->len,
                            PARE_JOURNAL_JSON_CAP, &old);
    const bool of_job = s == PARE_OK && line_of(old, 1);
    if (of_job && is_training(old) != is_training(now))
        s = fail_command(cx, path, is_training(old));
    if (s == PARE_OK && of_job) {
        const pare_json *const replaces = pare_json_get(now, PARE_JOURNAL_REPLACES);
        if (replaces)
            tell(&d, PARE_JOURNAL_REPLACES, pare_json_get(old, PARE_JOURNAL_REPLACES), replaces);
        tell_recipe(&d, old, now);
        s = fail_other(cx, path, &d);
    }
    pare_json_free(old);
    pare_json_free(now);
    return s;
}
