/* What goes into a run is what its manifest says. The SHA-256 of weights and config is taken once,
 * at the start, and every file that is read is watched from the moment it is opened. Before a unit
 * counts as done, the stamps of all are looked at: a unit that is recorded was computed from what
 * was hashed. A change that leaves no trace in the stamps is found at the end, by the XXH3 of the
 * weights that was taken in the same pass as their SHA-256; then no unit can be trusted. */
#include <string.h>

#include "compress/compress_internal.h"
#include "compress/evaluate/choice_items.h"
#include "compress/inputs.h"
#include "formats/checksums.h"

static pare_status watch_data(pare_run *run, const pare_text *t)
{
    const char *const path = pare__run_data_path(run, t);
    return path ? pare_watch_path(run->a, &run->plan.checkpoint.watch, path) : PARE_ENOMEM;
}

static pare_status watch_evaluation(pare_run *run, const pare_evaluation *e)
{
    const char *const path = pare__run_data_path(run, pare_evaluation_data(e));
    if (!path)
        return PARE_ENOMEM;
    pare_watch *const watch = &run->plan.checkpoint.watch;
    return e->kind == PARE_EVALUATE_CHOICE ? pare_choice_watch(run->a, watch, path)
                                           : pare_watch_path(run->a, watch, path);
}

pare_status pare__run_watch_inputs(pare_run *run)
{
    pare_plan *const plan = &run->plan;
    const pare_recipe *const r = &plan->recipe;
    bool checked;
    PARE_TRY(pare_inputs_watch(run->a, &plan->checkpoint));
    for (size_t i = 0; i < r->calibration.text.count; i++)
        PARE_TRY(watch_data(run, &r->calibration.text.item[i]));
    if (r->calibration.tokens.text)
        PARE_TRY(watch_data(run, &r->calibration.tokens));
    for (size_t i = 0; i < r->evaluations; i++)
        PARE_TRY(watch_evaluation(run, &r->evaluation[i]));
    return pare_checkpoint_check(&plan->checkpoint, &checked);
}

pare_status pare__run_hash_inputs(pare_run *run)
{
    const pare_checkpoint *const ck = &run->plan.checkpoint;
    char(*const hex)[PARE_SHA256_HEX] = pare_arena_take(run->a, ck->files, sizeof *hex);
    run->input = PARE_NEW(run->a, pare_manifest_file, ck->files + 1);
    run->input_xxh3 = pare_arena_take(run->a, ck->files, sizeof *run->input_xxh3);
    if (!hex || !run->input || !run->input_xxh3)
        return PARE_ENOMEM;
    PARE_TRY(pare_digest_files(run->cx, ck->file, ck->files, hex, run->input_xxh3));
    for (size_t i = 0; i < ck->files; i++) {
        const char *const slash = strrchr(ck->file[i].path, '/');
        pare_manifest_file *const f = &run->input[run->inputs++];
        f->file = slash ? slash + 1 : ck->file[i].path;
        f->bytes = ck->file[i].bytes;
        memcpy(f->sha256, hex[i], sizeof hex[i]);
    }
    if (!ck->config_file.data) /* the weight file is the configuration too */
        return PARE_OK;
    pare_manifest_file *const config = &run->input[run->inputs++];
    config->file = "config.json";
    config->bytes = ck->config_file.bytes;
    pare_sha256_hex(ck->config_file.data, ck->config_file.bytes, config->sha256);
    return PARE_OK;
}

pare_status pare__run_inputs_watched(pare_run *run)
{
    const pare_status s = pare_watch_check(run->cx, &run->plan.checkpoint.watch);
    return s == PARE_OK ? s
                        : pare_fail_context(run->cx, s,
                                            "an input is not what it was at the start; what was "
                                            "done before is kept for a run with the same inputs");
}

/* Nothing that was done counts: the next run of the job starts over. */
static pare_status forget_units(pare_run *run)
{
    return pare_journal_keep(run->cx, run->journal, run->record, 0);
}

static pare_status fail_bytes(pare_run *run, const char *path)
{
    PARE_TRY(forget_units(run));
    return pare_fail(run->cx, PARE_EFORMAT,
                     "%s: its bytes changed while it was in use, and its times did not; nothing of "
                     "this run is kept, start it again when no program writes to the file",
                     path);
}

/* The bytes of weights and config are those that were hashed at the start. */
static pare_status check_bytes(pare_run *run)
{
    const pare_checkpoint *const ck = &run->plan.checkpoint;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_span *const span = PARE_NEW(&run->scratch, pare_span, ck->files);
    uint8_t(*const xxh3)[16] = pare_arena_take(&run->scratch, ck->files, sizeof *xxh3);
    char config[PARE_SHA256_HEX];
    if (!span || !xxh3)
        return PARE_ENOMEM;
    for (size_t i = 0; i < ck->files; i++)
        span[i] = (pare_span){ck->file[i].data, ck->file[i].bytes};
    PARE_TRY(pare_xxh3_spans(run->cx, "looking whether the model changed", span, ck->files, xxh3));
    for (size_t i = 0; i < ck->files; i++)
        if (memcmp(xxh3[i], run->input_xxh3[i], sizeof xxh3[i]) != 0)
            return fail_bytes(run, ck->file[i].path);
    pare_sha256_hex(ck->config_file.data, ck->config_file.bytes, config);
    if (ck->config_file.data && strcmp(config, run->input[run->inputs - 1].sha256) != 0)
        return fail_bytes(run, ck->config_file.path);
    pare_arena_rewind(&run->scratch, mark);
    return PARE_OK;
}

pare_status pare__run_inputs_same(pare_run *run)
{
    PARE_TRY(pare__run_inputs_watched(run));
    PARE_TRY(check_bytes(run));
    return pare__run_inputs_watched(run);
}
