/* Jobs whose model another job of the batch wrote, and has written anew since. */
#include <stdio.h>
#include <string.h>

#include "compress/batch/batch_internal.h"
#include "compress/plan/chain.h"
#include "compress/plan/chain_part.h"
#include "formats/checksums.h"
#include "formats/json.h"
#include "formats/sums.h"
#include "runtime/file.h"

bool pare__batch_has_job_model(const pare_jobs *b, const pare_batch_row *r)
{
    const pare_batch_row *const before = &b->row[r->job->after];
    return before != r && strcmp(r->job->recipe.model.text, before->job->name) == 0;
}

/* What cannot be read says nothing; NULL then. */
static pare_status read_text(const pare_jobs *b, const char *directory, const char *name,
                             size_t cap, char **text, size_t *len)
{
    char *const path = pare_path_join(b->a, directory, name);
    *text = NULL;
    if (!path)
        return PARE_ENOMEM;
    if (!pare_path_is_file(path))
        return PARE_OK;
    const pare_status s = pare_file_read(b->cx, b->a, path, cap, text, len);
    if (s == PARE_ENOMEM)
        return s;
    if (s != PARE_OK)
        *text = NULL;
    pare_ctx_clear(b->cx);
    return PARE_OK;
}

/* The first input of a manifest that the sums have with another digest, or lack. */
static const char *other_input(const pare_json *manifest, const pare_sums *sums)
{
    const pare_json *const inputs = pare_json_get(manifest, "inputs");
    for (size_t i = 0; i < pare_json_count(inputs); i++) {
        const pare_json *const file = pare_json_at(inputs, i);
        const char *const name = pare_json_text(pare_json_get(file, "file"), NULL);
        const char *const sha256 = pare_json_text(pare_json_get(file, "sha256"), NULL);
        const pare_sum *const sum = name ? pare_sums_find(sums, name) : NULL;
        if (name && sha256 && !(sum && strcmp(sum->sha256, sha256) == 0))
            return name;
    }
    return NULL;
}

/* Which folder lists what the job read: of two jobs, the first read its model. */
static char *reader_of(const pare_jobs *b, const pare_batch_row *r)
{
    return pare_chain_lead(&r->job->recipe) ? pare_path_suffix(b->a, r->output, PARE_CHAIN_SMALLER)
                                            : r->output;
}

static void is_stale(pare_batch_row *r, const char *why, const char *file, const char *before)
{
    r->state = PARE_BATCH_STALE;
    r->stays = true;
    (void)snprintf(r->why, sizeof r->why,
                   "it was made of %s%.120s%s%s, so its figures are not shown; --restart makes it "
                   "anew",
                   why, file, file[0] ? " than is now in " : "", before);
}

static pare_status compare(const pare_jobs *b, pare_batch_row *r)
{
    const pare_batch_row *const before = &b->row[r->job->after];
    char *const directory = reader_of(b, r), *text, *list;
    size_t len, list_len;
    pare_json *manifest = NULL;
    pare_sums sums = {0};
    if (!directory)
        return PARE_ENOMEM;
    PARE_TRY(read_text(b, directory, PARE_MANIFEST_NAME, PARE_MANIFEST_CAP, &text, &len));
    PARE_TRY(read_text(b, before->output, PARE_SUMS_NAME, PARE_SUMS_CAP, &list, &list_len));
    if (!text || !list)
        return PARE_OK;
    pare_status s = pare_sums_parse(b->cx, b->a, before->output, list, list_len, &sums);
    if (s == PARE_OK)
        s = pare_json_parse(b->cx, directory, text, len, PARE_MANIFEST_CAP, &manifest);
    const char *const other = s == PARE_OK ? other_input(manifest, &sums) : NULL;
    if (other)
        is_stale(r, "another ", other, before->job->name);
    pare_json_free(manifest);
    if (s != PARE_ENOMEM)
        pare_ctx_clear(b->cx);
    return s == PARE_ENOMEM ? s : PARE_OK;
}

/* A job whose model is to be made anew, too. */
static void follow(const pare_jobs *b, pare_batch_row *r)
{
    for (const pare_batch_row *at = r; pare__batch_has_job_model(b, at);) {
        at = &b->row[at->job->after];
        if (!at->stays && !at->refused)
            continue;
        is_stale(r, "the output of a job that is stale, ", "", at->job->name);
        r->refused = at->refused;
        return;
    }
}

pare_status pare__batch_find_remade(const pare_jobs *b)
{
    for (size_t i = 0; i < b->rows; i++) {
        pare_batch_row *const r = &b->row[i];
        if (r->ran || r->state != PARE_BATCH_DONE || !pare__batch_has_job_model(b, r))
            continue;
        const pare_mark mark = pare_arena_mark(b->a);
        const pare_status s = compare(b, r);
        pare_arena_rewind(b->a, mark);
        PARE_TRY(s);
    }
    for (size_t i = 0; i < b->rows; i++)
        if (!b->row[i].ran && b->row[i].state == PARE_BATCH_DONE)
            follow(b, &b->row[i]);
    return PARE_OK;
}
