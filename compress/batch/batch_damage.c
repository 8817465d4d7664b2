/* Whether a finished output is as its job left it, as far as a batch reads it. */
#include <stdio.h>
#include <string.h>

#include "compress/batch/batch_internal.h"
#include "compress/output/owned_files.h"
#include "compress/passes/pass.h"
#include "formats/checksums.h"
#include "formats/json.h"
#include "formats/sums.h"
#include "runtime/file.h"

enum { READ_CAP = 1 << 26 };

#define RECIPE "recipe.yaml"
#define RUN    "run.json"

static void say(pare_batch_row *r, const char *name, const char *what)
{
    r->damaged = true;
    (void)snprintf(
        r->why, sizeof r->why,
        "its file %.120s is %s; move the folder away, and the same command makes it anew", name,
        what);
}

/* NULL for what cannot be read. */
static pare_status read_file(const pare_jobs *b, const pare_batch_row *r, const char *name,
                             size_t cap, char **text, size_t *len)
{
    char *const path = pare_path_join(b->a, r->output, name);
    if (!path)
        return PARE_ENOMEM;
    const pare_status s = pare_file_read(b->cx, b->a, path, cap, text, len);
    if (s == PARE_ENOMEM)
        return s;
    *text = s == PARE_OK ? *text : NULL;
    pare_ctx_clear(b->cx);
    return PARE_OK;
}

/* Files that the manifest lists, by their sizes; pare verify looks into them. */
static pare_status check_sizes(const pare_jobs *b, pare_batch_row *r)
{
    pare_json *manifest = NULL;
    pare_listed_file f;
    uint64_t bytes;
    char *text;
    size_t len;
    PARE_TRY(read_file(b, r, PARE_MANIFEST_NAME, PARE_MANIFEST_CAP, &text, &len));
    pare_status s = PARE_EFORMAT;
    if (text)
        s = pare_json_parse(b->cx, PARE_MANIFEST_NAME, text, len, PARE_MANIFEST_CAP, &manifest);
    if (s == PARE_ENOMEM)
        return s;
    if (s != PARE_OK) {
        pare_ctx_clear(b->cx);
        say(r, PARE_MANIFEST_NAME, "damaged");
        return PARE_OK;
    }
    for (size_t i = 0; s == PARE_OK && !r->damaged && i < pare_manifest_files(manifest); i++) {
        const bool listed = pare_manifest_file_at(manifest, i, &f);
        char *const file = listed ? pare_path_join(b->a, r->output, f.name) : NULL;
        if (!listed)
            say(r, PARE_MANIFEST_NAME, "damaged");
        else if (!file)
            s = PARE_ENOMEM;
        else if (!pare_path_bytes(file, &bytes) || bytes != f.bytes)
            say(r, f.name, "missing or damaged");
    }
    pare_json_free(manifest);
    return s;
}

/* A run that holds other bounds against the output writes run.json and recipe.yaml anew, each
 * whole, behind SHA256SUMS: where it was stopped, the next one ends that. */
static pare_status can_be_read(const pare_jobs *b, const char *name, const char *text, size_t len,
                               bool *out)
{
    const pare_pass_words *words;
    pare_recipe recipe;
    pare_json *run = NULL;
    pare_status s = PARE_EFORMAT;
    if (strcmp(name, RUN) == 0)
        s = pare_json_parse(b->cx, name, text, len, READ_CAP, &run);
    else if (strcmp(name, RECIPE) == 0)
        s = pare__batch_parse(b, name, text, &words, &recipe);
    pare_json_free(run);
    *out = s == PARE_OK;
    if (s == PARE_ENOMEM)
        return s;
    pare_ctx_clear(b->cx);
    return PARE_OK;
}

static pare_status check_file(const pare_jobs *b, pare_batch_row *r, const pare_sum *sum)
{
    const pare_mark mark = pare_arena_mark(b->a);
    char hex[PARE_SHA256_HEX] = "", *text;
    size_t len;
    PARE_TRY(read_file(b, r, sum->name, READ_CAP, &text, &len));
    if (text)
        PARE_TRY(pare_sha256_hex(b->cx, text, len, hex));
    bool whole = strcmp(hex, sum->sha256) == 0;
    if (text && !whole) {
        PARE_TRY(can_be_read(b, sum->name, text, len, &whole));
        r->torn |= whole;
    }
    pare_arena_rewind(b->a, mark);
    if (!whole)
        say(r, sum->name, "damaged");
    return PARE_OK;
}

/* Every file is there, and those that say what the output is are as they were. */
static pare_status check_sums(const pare_jobs *b, pare_batch_row *r)
{
    static const char *const by_bytes[] = {RECIPE, RUN, "layers.csv", PARE_MANIFEST_NAME};
    pare_sums sums = {0};
    char *text;
    size_t len;
    PARE_TRY(read_file(b, r, PARE_SUMS_NAME, PARE_SUMS_CAP, &text, &len));
    pare_status s = PARE_EFORMAT;
    if (text)
        s = pare_sums_parse(b->cx, b->a, PARE_SUMS_NAME, text, len, &sums);
    if (s == PARE_ENOMEM)
        return s;
    pare_ctx_clear(b->cx);
    if (s != PARE_OK)
        say(r, PARE_SUMS_NAME, "damaged");
    for (size_t i = 0; !r->damaged && i < sums.count; i++) {
        char *const path = pare_path_join(b->a, r->output, sums.item[i].name);
        if (!path)
            return PARE_ENOMEM;
        if (!pare_path_is_file(path))
            say(r, sums.item[i].name, "missing");
    }
    for (size_t i = 0; !r->damaged && i < sizeof by_bytes / sizeof *by_bytes; i++) {
        const pare_sum *const sum = pare_sums_find(&sums, by_bytes[i]);
        if (!sum)
            say(r, PARE_SUMS_NAME, "damaged");
        else
            PARE_TRY(check_file(b, r, sum));
    }
    return PARE_OK;
}

pare_status pare__batch_check_output(const pare_jobs *b, pare_batch_row *r)
{
    static const char *const needed[] = {RUN, PARE_SUMS_NAME};
    bool ours;
    PARE_TRY(pare_owned_marked(b->cx, b->a, r->output, PARE_OUTPUT_ARTIFACT, &ours, NULL));
    if (!ours)
        say(r, PARE_MANIFEST_NAME, "damaged, or not of pare");
    for (size_t i = 0; !r->damaged && i < sizeof needed / sizeof *needed; i++) {
        char *const path = pare_path_join(b->a, r->output, needed[i]);
        if (!path)
            return PARE_ENOMEM;
        if (!pare_path_is_file(path))
            say(r, needed[i], "missing");
    }
    if (!r->damaged)
        PARE_TRY(check_sizes(b, r));
    return r->damaged ? PARE_OK : check_sums(b, r);
}
