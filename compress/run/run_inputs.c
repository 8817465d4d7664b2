/* What goes into a run is what its manifest says. Every file that is read is watched from the
 * moment it is opened. Before a unit counts as done, the stamps of all are looked at: a unit that
 * is recorded was computed from what was there at the start. A change that leaves no trace in the
 * stamps is found by XXH3: that of the bytes at the start, which is the identity of the job, that
 * of the bytes that went into the SHA-256 meanwhile, and that of the bytes at the end are one; when
 * they are not, no unit can be trusted. */
#include <string.h>

#include "compress/evaluate/choice_items.h"
#include "compress/output/inputs.h"
#include "compress/output/inventory.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_look.h"
#include "compress/run/run_original.h"
#include "formats/checksums.h"

static pare_status watch_data(pare_run *run, const pare_text *t)
{
    const char *const path = pare_data_path(run->a, run->plan, t);
    return path ? pare_watch_path(run->a, &run->checkpoint.watch, path) : PARE_ENOMEM;
}

/* Whether a file of labels may lie beside the one that is named. */
static bool has_labels(const pare_evaluation *e)
{
    return e->kind == PARE_EVALUATE_CHOICE || e->kind == PARE_EVALUATE_TASK;
}

static pare_status watch_evaluation(pare_run *run, const pare_evaluation *e)
{
    const char *const path = pare_data_path(run->a, run->plan, pare_evaluation_data(e));
    if (!path)
        return PARE_ENOMEM;
    pare_watch *const watch = &run->checkpoint.watch;
    if (!has_labels(e))
        return pare_watch_path(run->a, watch, path);
    if (e->shots_file.text)
        PARE_TRY(watch_data(run, &e->shots_file));
    return pare_choice_watch(run->a, watch, path);
}

pare_status pare__run_watch_inputs(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    const pare_recipe *const r = &plan->recipe;
    bool checked;
    PARE_TRY(pare_inputs_watch(run->a, &run->checkpoint));
    for (size_t i = 0; i < r->calibration.text.count; i++)
        PARE_TRY(watch_data(run, &r->calibration.text.item[i]));
    if (r->calibration.tokens.text)
        PARE_TRY(watch_data(run, &r->calibration.tokens));
    if (r->calibration.from.text)
        PARE_TRY(watch_data(run, &r->calibration.from));
    for (size_t i = 0; i < r->evaluations; i++)
        PARE_TRY(watch_evaluation(run, &r->evaluation[i]));
    return pare_checkpoint_check(&run->checkpoint, &checked);
}

/* The job reads them at its start and at its end: the watch says that they are one. */
pare_status pare__run_hash_evaluations(pare_run *run)
{
    const pare_recipe *const r = &run->plan->recipe;
    const char **const name = PARE_NEW(run->a, const char *, 3 * r->evaluations);
    char *const directory = pare_path_directory(run->a, run->plan->job->recipe);
    run->files.evaluated = PARE_NEW(run->a, pare_file_digest, 3 * r->evaluations);
    size_t count = 0;
    if (!name || !directory || !run->files.evaluated)
        return PARE_ENOMEM;
    for (size_t i = 0; i < r->evaluations; i++) {
        const pare_evaluation *const e = &r->evaluation[i];
        name[count++] = pare_evaluation_data(e)->text;
        if (e->shots_file.text)
            name[count++] = e->shots_file.text;
        if (!has_labels(e))
            continue;
        name[count] = pare_choice_labels(run->a, pare_evaluation_data(e)->text);
        char *const path = name[count] ? pare_path_join(run->a, directory, name[count]) : NULL;
        if (!path)
            return PARE_ENOMEM;
        count += pare_path_is_file(path);
    }
    run->files.evaluated_count = count;
    return pare_inventory_digest(run->cx, run->a, directory, name, count, run->files.evaluated);
}

/* Names what was read of a checkpoint: weights and configuration, which a weight file may contain.
 * Files of the original beside the model begin with "original/". */
static pare_status list_files(pare_run *run, const pare_checkpoint *ck)
{
    const bool original = ck != &run->checkpoint;
    for (size_t i = 0; i < ck->files + (ck->config_file.data != NULL); i++) {
        const bool weights = i < ck->files;
        const char *const slash = weights ? strrchr(ck->file[i].path, '/') : NULL;
        const char *const name = !weights ? "config.json" : slash ? slash + 1 : ck->file[i].path;
        pare_file_digest *const f = &run->files.input[run->files.inputs];
        f->file = original ? pare_path_join(run->a, "original", name) : name;
        if (!f->file)
            return PARE_ENOMEM;
        run->hash.input_file[run->files.inputs] = weights ? ck->file[i] : ck->config_file;
        f->bytes = run->hash.input_file[run->files.inputs++].bytes;
    }
    return PARE_OK;
}

static pare_status list_inputs(pare_run *run)
{
    const pare_checkpoint *const original = pare__run_original_files(run);
    const size_t most = run->checkpoint.files + original->files + 2;
    run->files.input = PARE_NEW(run->a, pare_file_digest, most);
    run->hash.input_file = PARE_NEW(run->a, pare_file, most);
    run->hash.input_xxh3 = pare_arena_take(run->a, most, sizeof *run->hash.input_xxh3);
    run->hash.input_hashed = pare_arena_take(run->a, most, sizeof *run->hash.input_hashed);
    run->hash.input_sha256 = pare_arena_take(run->a, most, sizeof *run->hash.input_sha256);
    if (!run->files.input || !run->hash.input_file || !run->hash.input_xxh3 ||
        !run->hash.input_hashed || !run->hash.input_sha256)
        return PARE_ENOMEM;
    PARE_TRY(list_files(run, &run->checkpoint));
    return original == &run->checkpoint ? PARE_OK : list_files(run, original);
}

/* Of those that are listed. */
static pare_status hash_inputs(pare_run *run)
{
    PARE_TRY(pare_hashing_begin(run->cx, run->hash.input_file, run->files.inputs,
                                run->hash.input_sha256, run->hash.input_hashed, &run->hash.input));
    for (size_t i = 0; i < run->files.inputs; i++)
        pare_hashing_ready(run->hash.input, i, run->files.input[i].bytes);
    return pare_xxh3_files(run->cx, "reading the model", run->hash.input_file, run->files.inputs,
                           run->hash.input_xxh3);
}

pare_status pare__run_hash_inputs(pare_run *run)
{
    PARE_TRY(list_inputs(run));
    return hash_inputs(run);
}

static const pare_looked_file *find_looked(const pare_looked *looked, const pare_file *f)
{
    const pare_looked_file *x = looked->first;
    while (x && (strcmp(x->path, f->path) != 0 || memcmp(&x->stamp, &f->stamp, sizeof x->stamp)))
        x = x->next;
    return x;
}

/* Whether all files have been read. */
static bool take_looked(pare_run *run, const pare_looked *looked)
{
    for (size_t i = 0; i < run->files.inputs; i++) {
        const pare_looked_file *const x = find_looked(looked, &run->hash.input_file[i]);
        if (!x)
            return false;
        memcpy(run->files.input[i].sha256, x->sha256, sizeof x->sha256);
    }
    return true;
}

static pare_status keep_looked(const pare_run *run, pare_looked *looked)
{
    for (size_t i = 0; i < run->files.inputs; i++) {
        const pare_file *const f = &run->hash.input_file[i];
        pare_looked_file *const x = PARE_NEW(looked->a, pare_looked_file, 1);
        const char *const path = pare_arena_text(looked->a, f->path, strlen(f->path));
        if (!x || !path)
            return PARE_ENOMEM;
        *x = (pare_looked_file){.path = path, .stamp = f->stamp, .next = looked->first};
        memcpy(x->sha256, run->files.input[i].sha256, sizeof x->sha256);
        looked->first = x;
    }
    return PARE_OK;
}

pare_status pare__run_digest_inputs(pare_run *run)
{
    pare_looked *const looked = run->plan->job->looked;
    PARE_TRY(list_inputs(run));
    if (looked && take_looked(run, looked))
        return PARE_OK;
    PARE_TRY(hash_inputs(run));
    PARE_TRY(pare__run_inputs_hashed(run));
    return looked ? keep_looked(run, looked) : PARE_OK;
}

pare_status pare__run_inputs_watched(pare_run *run)
{
    pare_status s = pare_watch_check(run->cx, &run->checkpoint.watch);
    if (s == PARE_OK)
        s = pare_watch_check(run->cx, &pare__run_original_files(run)->watch);
    return s == PARE_OK ? s
                        : pare_fail_context(run->cx, s,
                                            "an input is not what it was at the start; what was "
                                            "done before is kept for a run with the same inputs");
}

/* Nothing that was done counts: the next run of the job starts over. */
static pare_status forget_units(pare_run *run)
{
    return run->journal ? pare_journal_keep(run->cx, run->journal, run->record, 0) : PARE_OK;
}

static pare_status fail_bytes(pare_run *run, const char *path)
{
    PARE_TRY(forget_units(run));
    return pare_fail(run->cx, PARE_EFORMAT,
                     "%s: its bytes changed while it was in use, and its times did not; nothing of "
                     "this run is kept, start it again when no program writes to the file",
                     path);
}

/* The bytes are those that were there at the start. */
static pare_status compare_bytes(pare_run *run, uint8_t (*xxh3)[16])
{
    for (size_t i = 0; i < run->files.inputs; i++)
        if (memcmp(xxh3[i], run->hash.input_xxh3[i], sizeof xxh3[i]) != 0)
            return fail_bytes(run, run->hash.input_file[i].path);
    return PARE_OK;
}

pare_status pare__run_inputs_hashed(pare_run *run)
{
    PARE_TRY(pare_hashing_end(run->cx, &run->hash.input));
    for (size_t i = 0; i < run->files.inputs; i++)
        memcpy(run->files.input[i].sha256, run->hash.input_sha256[i],
               sizeof run->files.input[i].sha256);
    return compare_bytes(run, run->hash.input_hashed);
}

static pare_status check_bytes(pare_run *run)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    uint8_t(*const xxh3)[16] = pare_arena_take(&run->scratch, run->files.inputs, sizeof *xxh3);
    if (!xxh3)
        return PARE_ENOMEM;
    PARE_TRY(pare_xxh3_files(run->cx, "looking whether the model changed", run->hash.input_file,
                             run->files.inputs, xxh3));
    PARE_TRY(compare_bytes(run, xxh3));
    pare_arena_rewind(&run->scratch, mark);
    return PARE_OK;
}

pare_status pare__run_inputs_same(pare_run *run)
{
    PARE_TRY(pare__run_inputs_watched(run));
    PARE_TRY(check_bytes(run));
    return pare__run_inputs_watched(run);
}
