/* What a batch is: its jobs, their recipes, where they are. */
#include <stdio.h>
#include <string.h>

#include "compress/batch/batch_internal.h"
#include "compress/output/output.h"
#include "compress/passes/pass.h"
#include "runtime/file.h"

enum { FILE_CAP = PARE__BATCH_FILE_CAP };

/* Every recipe begins so; a file that does not is not of a batch. */
static const char head[] = "# A job of \"pare batch\"; \"pare compress\" runs it alone, too.\n";

static pare_status take_words(pare_arena *a, pare_batch_words *out)
{
    const size_t count = pare_pass_count();
    bool *const rounds_not = PARE_NEW(a, bool, count);
    PARE_TRY(pare_pass_words_take(a, &out->passes));
    if (!rounds_not)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        rounds_not[i] = pare_passes[i]->transform != NULL || pare_passes[i]->rotation != NULL;
    out->rounds_not = rounds_not;
    out->count = count;
    return PARE_OK;
}

static pare_status read_file(pare_jobs *b)
{
    pare_batch_words words;
    char *text;
    size_t len;
    const char *const file = b->opts->file;
    if (!pare_path_is_file(file))
        return pare_fail(b->cx, PARE_EUSAGE, "%s: %s", file, pare_path_no_file(file));
    PARE_TRY(pare_file_read(b->cx, b->a, file, FILE_CAP, &text, &len));
    PARE_TRY(take_words(b->a, &words));
    const pare_recipe_source source = {.file = file, .text = text, .len = len};
    return pare_batch_parse(b->cx, b->a, &source, &words, &b->file);
}

/* Absolute, so that recipes and scripts mean the same from everywhere. */
static pare_status find_output(pare_jobs *b)
{
    const char *path = b->opts->output;
    char real[PATH_MAX];
    if (!path && !b->file.output.text)
        return pare_fail(b->cx, PARE_EUSAGE,
                         "%s:1:1: no output; write \"output: DIR\" or give --output DIR",
                         b->file.file);
    if (!path) {
        char *const directory = pare_path_directory(b->a, b->file.file);
        path = directory ? pare_path_join(b->a, directory, b->file.output.text) : NULL;
        if (!path)
            return PARE_ENOMEM;
    }
    PARE_TRY(pare_output_check_length(b->cx, path));
    if (!pare_output_real(path, real))
        return pare_fail(b->cx, PARE_EUSAGE, "%s: its path is too long", path);
    b->output = pare_arena_text(b->a, real, strlen(real));
    b->shared = b->output ? pare_path_join(b->a, b->output, "shared") : NULL;
    return b->shared ? PARE_OK : PARE_ENOMEM;
}

static pare_status take_text(pare_jobs *b, pare_batch_row *r)
{
    const pare_pass_words *words;
    char *text;
    size_t len;
    PARE_TRY(pare_pass_words_take(b->a, &words));
    PARE_TRY(pare_recipe_normalize(b->cx, b->a, &r->job->recipe, words, false, &text, &len));
    r->text = pare_arena_take(b->a, sizeof head + len, 1);
    if (!r->text)
        return PARE_ENOMEM;
    (void)snprintf(r->text, sizeof head + len, "%s%s", head, text);
    return PARE_OK;
}

static pare_status take_row(pare_jobs *b, pare_batch_row *r, const pare_batch_job *job)
{
    r->job = job;
    r->output = pare_path_join(b->a, b->output, job->name);
    r->recipe = r->output ? pare_path_suffix(b->a, r->output, ".yaml") : NULL;
    r->log = r->output ? pare_path_suffix(b->a, r->output, ".log") : NULL;
    r->speed_file = r->output ? pare_path_suffix(b->a, r->output, ".speed.json") : NULL;
    r->failed_file = r->output ? pare_path_suffix(b->a, r->output, ".failed") : NULL;
    return r->recipe && r->log && r->speed_file && r->failed_file ? take_text(b, r) : PARE_ENOMEM;
}

/* Chains are shared out, not jobs: what a job waits for is in its shard. */
static void share_out(pare_jobs *b)
{
    size_t chain = 0;
    for (size_t i = 0; i < b->rows; i++)
        if (b->file.job[i].root == i)
            b->row[i].mine = chain++ % b->opts->shards == b->opts->shard - 1;
    for (size_t i = 0; i < b->rows; i++)
        b->row[i].mine = b->row[b->file.job[i].root].mine;
}

/* Not in an artifact, nor in a model that it reads. */
static pare_status check_place(const pare_jobs *b)
{
    const char *home;
    PARE_TRY(pare_output_home(b->cx, b->a, b->output, &home));
    for (size_t i = 0; !home && i < b->file.jobs; i++) {
        const char *const model = b->file.job[i].recipe.model.text;
        if (b->file.job[i].after == i && pare_path_is_directory(model) &&
            pare_output_lies_in(b->output, model))
            home = model;
    }
    return home ? pare_fail(b->cx, PARE_EUSAGE,
                            "%s: lies inside %s, where only files of that model belong; give "
                            "another output",
                            b->output, home)
                : PARE_OK;
}

/* A file of this shard in the folder. */
static char *shard_file(const pare_jobs *b, const char *word)
{
    char name[64];
    if (b->opts->shards > 1)
        (void)snprintf(name, sizeof name, ".%s-%zu-of-%zu", word, b->opts->shard, b->opts->shards);
    else
        (void)snprintf(name, sizeof name, ".%s", word);
    return pare_path_join(b->a, b->output, name);
}

pare_status pare_batch_open(pare_ctx *cx, pare_arena *a, const pare_batch_opts *opts,
                            const pare_teller *teller, pare_jobs *out)
{
    *out = (pare_jobs){
        .cx = cx, .a = a, .opts = opts, .teller = *teller, .before_bytes = cx->live_bytes};
    PARE_TRY(read_file(out));
    PARE_TRY(find_output(out));
    PARE_TRY(check_place(out));
    out->restart_file = shard_file(out, "restart");
    out->row = PARE_NEW(a, pare_batch_row, out->file.jobs);
    if (!out->row || !out->restart_file)
        return PARE_ENOMEM;
    out->rows = out->file.jobs;
    out->at_once = opts->at_once < out->rows ? opts->at_once : out->rows;
    for (size_t i = 0; i < out->rows; i++)
        PARE_TRY(take_row(out, &out->row[i], &out->file.job[i]));
    share_out(out);
    return PARE_OK;
}

/* A recipe of a batch may be replaced, any other file may not. */
static pare_status write_recipe(const pare_jobs *b, const pare_batch_row *r)
{
    bool same;
    pare_path_kind kind;
    PARE_TRY(pare__batch_holds(b, r->recipe, r->text, &same));
    if (same)
        return PARE_OK;
    PARE_TRY(pare_path_look(b->cx, r->recipe, &kind));
    if (kind != PARE_PATH_ABSENT) {
        char *text;
        size_t len = 0;
        const pare_status s = pare_file_read(b->cx, b->a, r->recipe, FILE_CAP, &text, &len);
        if (s != PARE_OK || strncmp(text, head, sizeof head - 1) != 0) {
            pare_ctx_clear(b->cx);
            return pare_fail(b->cx, PARE_EEXISTS,
                             "%s: is no recipe of a batch, and is in the way of one; choose "
                             "another output",
                             r->recipe);
        }
    }
    return pare_file_write(b->cx, r->recipe, r->text, strlen(r->text));
}

pare_status pare_batch_begin(pare_jobs *b)
{
    char *const path = shard_file(b, "batch");
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_output_check_room(b->cx, path));
    PARE_TRY(pare_lock_take(b->cx, b->a, path, "batch", &b->teller, &b->lock));
    for (size_t i = 0; i < b->rows; i++)
        if (b->row[i].mine)
            PARE_TRY(write_recipe(b, &b->row[i]));
    return PARE_OK;
}

void pare_batch_release(pare_jobs *b)
{
    pare_lock_release(&b->lock);
}
