#include <string.h>

#include "compress/compress_internal.h"
#include "compress/plan_internal.h"
#include "runtime/file.h"

enum { MANIFEST_CAP = 1 << 30 };

static bool is_text(const pare_json *object, const char *key, const char *text)
{
    const char *const is = pare_json_text(pare_json_get(object, key), NULL);
    return is && strcmp(is, text) == 0;
}

static pare_status read_manifest(pare_run *run, pare_json **out)
{
    char *const path = pare_path_join(run->a, run->plan.output_path, "manifest.json"), *text;
    size_t len;
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_file_read(run->cx, &run->scratch, path, MANIFEST_CAP, &text, &len));
    const pare_status s = pare_json_parse(run->cx, path, text, len, MANIFEST_CAP, out);
    if (s == PARE_EFORMAT) /* nothing that a job left */
        pare_ctx_clear(run->cx);
    return s == PARE_EFORMAT ? PARE_OK : s;
}

/* Sampled text follows from recipe and model, and is not sampled again. */
static pare_status same_tokens(pare_run *run, const pare_json *manifest, bool *same)
{
    const pare_plan *const plan = &run->plan;
    const pare_json *const was = pare_json_get(manifest, "calibration");
    *same = true;
    if (!plan->calibrated || plan->recipe.calibration.kind == PARE_CALIBRATION_GENERATE)
        return PARE_OK;
    PARE_TRY(pare__run_tokens(run));
    *same = is_text(was, "tokens_sha256", run->tokens_sha256);
    return PARE_OK;
}

static pare_status same_inputs(pare_run *run, const pare_json *manifest, bool *same)
{
    const pare_json *const was = pare_json_get(manifest, "inputs");
    PARE_TRY(pare__run_hash_inputs(run));
    *same = pare_json_count(was) == run->inputs;
    for (size_t i = 0; *same && i < run->inputs; i++) {
        const pare_json *const file = pare_json_at(was, i);
        *same = is_text(file, "file", run->input[i].file) &&
                is_text(file, "sha256", run->input[i].sha256);
    }
    return PARE_OK;
}

/* Whether the finished output is what this job would make. */
static pare_status same_job(pare_run *run, const pare_json *manifest, bool *same)
{
    PARE_TRY(pare__run_identify(run));
    *same = is_text(manifest, "recipe", run->recipe_portable);
    if (*same)
        PARE_TRY(same_inputs(run, manifest, same));
    return *same ? same_tokens(run, manifest, same) : PARE_OK;
}

pare_status pare__run_again(pare_run *run, pare_compress_result *out)
{
    const pare_plan *const plan = &run->plan;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_json *manifest = NULL;
    bool same = false;
    pare_status s = read_manifest(run, &manifest);
    if (s == PARE_OK)
        s = same_job(run, manifest, &same);
    pare_json_free(manifest);
    pare_arena_rewind(&run->scratch, mark);
    PARE_TRY(s);
    if (!same)
        return pare__plan_refuse_finished(run->cx, plan);
    const size_t missing = pare_plan_missing(plan);
    pare__notify(run, PARE_EVENT_NOTICE,
                 "%s is complete and of the same recipe and model: making %zu of its %zu export%s",
                 plan->output_path, missing, plan->exports, plan->exports == 1 ? "" : "s");
    out->again = true;
    out->report.output = plan->output_path;
    PARE_TRY(pare__run_exports(run, out));
    pare__notify(run, PARE_EVENT_DONE, "%s", plan->output_path);
    return PARE_OK;
}
