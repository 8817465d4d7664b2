/* What a batch is, and what of it is there. */
#include <stdio.h>
#include <string.h>

#include "compress/batch/batch_internal.h"
#include "compress/output/output.h"
#include "compress/passes/pass.h"
#include "formats/checksums.h"
#include "runtime/file.h"

enum { FILE_CAP = 1 << 20 };

/* Every recipe begins so; a file that does not is not of a batch. */
static const char head[] = "# A job of \"pare batch\"; \"pare compress\" runs it alone, too.\n";

const char *pare_batch_state_name(pare_batch_state s)
{
    static const char *const names[] = {"missing", "unfinished", "running",
                                        "done",    "failed",     "waits"};
    return names[s];
}

size_t pare_batch_count(const pare_jobs *b, pare_batch_state s)
{
    size_t count = 0;
    for (size_t i = 0; i < b->rows; i++)
        count += b->row[i].state == s;
    return count;
}

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
        return pare_fail(b->cx, PARE_EUSAGE, "%s: there is no such file", file);
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
    return r->recipe && r->log && r->speed_file ? take_text(b, r) : PARE_ENOMEM;
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

pare_status pare_batch_open(pare_ctx *cx, pare_arena *a, const pare_batch_opts *opts,
                            const pare_teller *teller, pare_jobs *out)
{
    *out = (pare_jobs){.cx = cx, .a = a, .opts = opts, .teller = *teller};
    PARE_TRY(read_file(out));
    PARE_TRY(find_output(out));
    out->row = PARE_NEW(a, pare_batch_row, out->file.jobs);
    if (!out->row)
        return PARE_ENOMEM;
    out->rows = out->file.jobs;
    for (size_t i = 0; i < out->rows; i++)
        PARE_TRY(take_row(out, &out->row[i], &out->file.job[i]));
    share_out(out);
    return PARE_OK;
}

/* Whether a file holds just this text; false, too, where it cannot be read. PARE_ENOMEM. */
static pare_status holds(const pare_jobs *b, const char *path, const char *text, bool *same)
{
    char *is;
    size_t len;
    *same = false;
    if (!pare_path_is_file(path))
        return PARE_OK;
    const pare_mark mark = pare_arena_mark(b->a);
    const pare_status s = pare_file_read(b->cx, b->a, path, FILE_CAP, &is, &len);
    *same = s == PARE_OK && len == strlen(text) && memcmp(is, text, len) == 0;
    pare_arena_rewind(b->a, mark);
    if (s == PARE_ENOMEM)
        return s;
    pare_ctx_clear(b->cx);
    return PARE_OK;
}

pare_status pare__batch_done(const pare_jobs *b, const pare_batch_row *r, bool *done)
{
    const pare_mark mark = pare_arena_mark(b->a);
    char *const manifest = pare_path_join(b->a, r->output, PARE_MANIFEST_NAME);
    char *const recipe = pare_path_join(b->a, r->output, "recipe.yaml");
    pare_status s = manifest && recipe ? PARE_OK : PARE_ENOMEM;
    *done = false;
    if (s == PARE_OK && pare_path_is_file(manifest))
        s = holds(b, recipe, r->text, done);
    pare_arena_rewind(b->a, mark);
    return s;
}

/* A recipe of a batch may be replaced, any other file may not. */
static pare_status write_recipe(const pare_jobs *b, const pare_batch_row *r)
{
    bool same;
    pare_path_kind kind;
    PARE_TRY(holds(b, r->recipe, r->text, &same));
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
    char name[64] = ".batch";
    if (b->opts->shards > 1)
        (void)snprintf(name, sizeof name, ".batch-%zu-of-%zu", b->opts->shard, b->opts->shards);
    char *const path = pare_path_join(b->a, b->output, name);
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

static pare_status look_at(pare_jobs *b, pare_batch_row *r)
{
    bool done;
    PARE_TRY(pare__batch_done(b, r, &done));
    if (done && r->state != PARE_BATCH_FAILED)
        r->state = PARE_BATCH_DONE;
    if (done || r->state == PARE_BATCH_DONE) /* of another bound, it keeps its recipe */
        return pare__batch_figures(b, r);
    if (r->state != PARE_BATCH_MISSING)
        return PARE_OK;
    const pare_mark mark = pare_arena_mark(b->a);
    char *const partial = pare_path_suffix(b->a, r->output, ".partial");
    if (!partial)
        return PARE_ENOMEM;
    if (pare_path_is_directory(partial))
        r->state = PARE_BATCH_UNFINISHED;
    pare_arena_rewind(b->a, mark);
    return PARE_OK;
}

pare_status pare_batch_look(pare_jobs *b)
{
    for (size_t i = 0; i < b->rows; i++)
        PARE_TRY(look_at(b, &b->row[i]));
    pare__batch_fronts(b);
    return PARE_OK;
}
