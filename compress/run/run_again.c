#include <stdio.h>
#include <string.h>

#include "compress/output/output.h"
#include "compress/run/run_evaluate.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_look.h"
#include "formats/checksums.h"
#include "formats/format_version.h"
#include "runtime/file.h"

static bool is_text(const pare_json *object, const char *key, const char *text)
{
    const char *const is = pare_json_text(pare_json_get(object, key), NULL);
    return is && strcmp(is, text) == 0;
}

static pare_status read_manifest(pare_run *run, pare_json **out)
{
    char *const path = pare_path_join(run->a, run->plan->place.output, PARE_MANIFEST_NAME), *text;
    size_t len;
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_file_read(run->cx, &run->scratch, path, PARE_MANIFEST_CAP, &text, &len));
    const pare_status s = pare_json_parse(run->cx, path, text, len, PARE_MANIFEST_CAP, out);
    if (s == PARE_EFORMAT) { /* nothing that a job left */
        pare_ctx_clear(run->cx);
        return PARE_OK;
    }
    PARE_TRY(s);
    return pare_version_check(run->cx, path, "format", pare_json_get(*out, "format"),
                              PARE_MANIFEST_FORMAT);
}

/* What differs between the output and the job, or nothing yet. */
enum { DIFFERENCE = 512, SHOWN = 120 };

/* The first line of the recipe that is another one. */
static void compare_recipes(const char *was, const char *is, char difference[DIFFERENCE])
{
    while (*was || *is) {
        was += strspn(was, " ");
        is += strspn(is, " ");
        const size_t a = strcspn(was, "\n"), b = strcspn(is, "\n");
        if (a != b || memcmp(was, is, a) != 0) {
            (void)snprintf(difference, DIFFERENCE,
                           "its recipe says \"%.*s\" where this one says \"%.*s\"",
                           a < SHOWN ? (int)a : SHOWN, was, b < SHOWN ? (int)b : SHOWN, is);
            return;
        }
        was += a + (was[a] == '\n');
        is += b + (is[b] == '\n');
    }
}

/* Sampled text follows from recipe and model, and is not sampled again. An earlier pare did not
 * note the windows that it held out, or trained on. */
static pare_status compare_tokens(pare_run *run, const pare_json *manifest,
                                  char difference[DIFFERENCE])
{
    const pare_plan *const plan = run->plan;
    const pare_json *const was = pare_json_get(manifest, "calibration");
    const bool noted = plan->held_out && pare_json_get(manifest, "held_out_sha256");
    const bool trained = plan->training && pare_json_get(manifest, "training_sha256");
    if ((!plan->calibrated && !noted) || plan->recipe.calibration.kind == PARE_CALIBRATION_GENERATE)
        return PARE_OK;
    const pare_data_reader reader = pare__run_reader(run);
    PARE_TRY(pare_data_calibration(&reader, &run->data, &run->settled));
    if (plan->calibrated && run->data.sha256[0] && !is_text(was, "tokens_sha256", run->data.sha256))
        (void)snprintf(difference, DIFFERENCE, "it was calibrated with other tokens");
    else if (noted && !is_text(manifest, "held_out_sha256", run->data.held_out_sha256))
        (void)snprintf(difference, DIFFERENCE, "it was evaluated on other windows held out");
    else if (trained && !is_text(manifest, "training_sha256", run->data.training_sha256))
        (void)snprintf(difference, DIFFERENCE, "it was trained on other windows");
    return PARE_OK;
}

/* A file of statistics in place of data, by its bytes; the recipe says all of one that is kept. */
static pare_status compare_statistics(pare_run *run, const pare_json *manifest,
                                      char difference[DIFFERENCE])
{
    const pare_plan_kept *const kept = &run->plan->kept;
    char hex[PARE_XXH3_HEX];
    if (!kept->used || kept->made)
        return PARE_OK;
    PARE_TRY(pare__kept_hash(run));
    pare_xxh3_text(run->kept.xxh3, hex);
    if (!is_text(pare_json_get(manifest, "calibration"), "statistics_xxh3", hex))
        (void)snprintf(difference, DIFFERENCE, "it was made from other statistics");
    return PARE_OK;
}

/* A manifest of an earlier pare does not say on which bytes the output was evaluated: nothing
 * speaks against those that are there. */
static bool evaluated_on_unknown(const pare_run *run, const pare_json *manifest)
{
    return run->plan->recipe.evaluations && !pare_json_get(manifest, "evaluated_sha256");
}

/* The figures in the output are of these bytes. */
static pare_status compare_evaluations(pare_run *run, const pare_json *manifest,
                                       char difference[DIFFERENCE])
{
    const pare_json *const was = pare_json_get(manifest, "evaluated_sha256");
    if (evaluated_on_unknown(run, manifest))
        return PARE_OK;
    PARE_TRY(pare__run_hash_evaluations(run));
    if (pare_json_count(was) != run->files.evaluated_count)
        (void)snprintf(difference, DIFFERENCE,
                       "it was evaluated on %zu file%s, labels of choice files included, and there "
                       "%s %zu",
                       pare_json_count(was), pare_plural(pare_json_count(was)),
                       run->files.evaluated_count == 1 ? "is" : "are", run->files.evaluated_count);
    for (size_t i = 0; !difference[0] && i < run->files.evaluated_count; i++) {
        const char *const sha256 = pare_json_text(pare_json_at(was, i), NULL);
        if (!sha256 || strcmp(sha256, run->files.evaluated[i].sha256) != 0)
            (void)snprintf(difference, DIFFERENCE,
                           "%.*s had other bytes when it was evaluated (pare eval measures it on "
                           "those that are there)",
                           SHOWN, run->files.evaluated[i].file);
    }
    return PARE_OK;
}

static pare_status compare_inputs(pare_run *run, const pare_json *manifest,
                                  char difference[DIFFERENCE])
{
    const pare_json *const was = pare_json_get(manifest, "inputs");
    PARE_TRY(pare__run_digest_inputs(run));
    if (pare_json_count(was) != run->files.inputs)
        (void)snprintf(difference, DIFFERENCE, "it was made of %zu file%s, the model has %zu",
                       pare_json_count(was), pare_plural(pare_json_count(was)), run->files.inputs);
    for (size_t i = 0; !difference[0] && i < run->files.inputs; i++) {
        const pare_json *const file = pare_json_at(was, i);
        const pare_file_digest *const is = &run->files.input[i];
        const char *const name = pare_json_text(pare_json_get(file, "file"), NULL);
        if (!is_text(file, "file", is->file))
            (void)snprintf(difference, DIFFERENCE, "it was made of %.*s in place of %.*s", SHOWN,
                           name ? name : "nothing", SHOWN, is->file);
        else if (!is_text(file, "sha256", is->sha256))
            (void)snprintf(difference, DIFFERENCE, "it was made of another %.*s", SHOWN, is->file);
    }
    return PARE_OK;
}

/* What is copied from beside the weights: the tokenizer above all, which --tokenizer may name. */
static pare_status compare_companions(pare_run *run, char difference[DIFFERENCE])
{
    const pare_plan *const plan = run->plan;
    for (size_t i = 0; !difference[0] && pare_companions[i]; i++) {
        bool same;
        PARE_TRY(pare_output_has_copy(&run->scratch, &run->checkpoint, plan->place.output,
                                      pare_companions[i], &same));
        if (!same)
            (void)snprintf(difference, DIFFERENCE, "it has another %s", pare_companions[i]);
    }
    return PARE_OK;
}

/* Files that the manifest lists, by their sizes: pare verify looks into them. */
static pare_status compare_outputs(pare_run *run, const pare_json *manifest,
                                   char damage[DIFFERENCE])
{
    for (size_t i = 0; !damage[0] && i < pare_manifest_files(manifest); i++) {
        pare_listed_file f;
        uint64_t bytes = 0;
        if (!pare_manifest_file_at(manifest, i, &f)) {
            (void)snprintf(damage, DIFFERENCE, "its " PARE_MANIFEST_NAME " is damaged");
            break;
        }
        char *const path = pare_path_join(&run->scratch, run->plan->place.output, f.name);
        if (!path)
            return PARE_ENOMEM;
        if (!pare_path_bytes(path, &bytes) || bytes != f.bytes)
            (void)snprintf(damage, DIFFERENCE, "its file %.*s is missing or damaged", SHOWN,
                           f.name);
    }
    return PARE_OK;
}

/* Whether the finished output is what this job would make. */
static pare_status compare(pare_run *run, const pare_json *manifest, char difference[DIFFERENCE],
                           char damage[DIFFERENCE])
{
    PARE_TRY(pare__run_identify(run));
    const char *const was = pare_json_text(pare_json_get(manifest, "recipe"), NULL);
    compare_recipes(was ? was : "", run->recipe_portable, difference);
    if (!difference[0])
        PARE_TRY(compare_outputs(run, manifest, damage));
    if (damage[0])
        return PARE_OK;
    if (!difference[0])
        PARE_TRY(compare_inputs(run, manifest, difference));
    if (!difference[0])
        PARE_TRY(compare_companions(run, difference));
    if (!difference[0])
        PARE_TRY(compare_tokens(run, manifest, difference));
    if (!difference[0])
        PARE_TRY(compare_statistics(run, manifest, difference));
    return difference[0] ? PARE_OK : compare_evaluations(run, manifest, difference);
}

static void tell(pare_run *run, bool texts_unknown)
{
    const pare_plan *const plan = run->plan;
    const size_t missing = pare_plan_missing(plan, &run->settled);
    const char *const of =
        texts_unknown ? "of the same recipe and model (an earlier pare did not note on which bytes "
                        "it was evaluated, so the texts were not compared)"
                      : "of the same recipe, model and texts";
    if (missing)
        pare__notify(run, PARE_EVENT_NOTICE,
                     "%s is already complete, %s: making %zu of its %zu export%s",
                     plan->place.output, of, missing, plan->exports, pare_plural(plan->exports));
    else
        pare__notify(
            run, PARE_EVENT_NOTICE,
            "%s is already complete: it is %s, and its files have their sizes (pare verify "
            "reads them whole); --restart makes it anew",
            plan->place.output, of);
}

/* A file that pare did not write as it is now is not replaced. */
static pare_status fail_damaged(const pare_run *run, const char *damage)
{
    return pare_fail(run->cx, PARE_EEXISTS,
                     "%s: %s (pare verify looks into all of them); move it away, and the same "
                     "command makes it anew, or give another --output",
                     run->plan->place.output, damage);
}

static pare_status fail_other(const pare_run *run, const char *difference)
{
    const pare_plan *const plan = run->plan;
    if (plan->job->variants) /* the base of a search, which says more */
        return pare_fail(run->cx, PARE_EEXISTS, "%s: is of another job: %s", plan->place.output,
                         difference);
    if (plan->job->text && !plan->job->look_only) /* a recipe that a search wrote */
        return pare_fail(run->cx, PARE_EEXISTS,
                         "%s: the output exists already, and belongs to another job: what the "
                         "search chose for it, or its recipe, is another (%s); give --restart to "
                         "replace it, out of the variants that are there, or another --output",
                         plan->place.output, difference);
    return pare_fail(run->cx, PARE_EEXISTS,
                     "%s: the output exists already, and belongs to another job: %s; "
                     "give --restart to replace it, or another --output%s%s",
                     plan->place.output, difference,
                     plan->exports ? " and other paths for its exports" : "",
                     pare_plan_missing(plan, &run->settled)
                         ? "; pare export writes a missing export of what is there"
                         : "");
}

pare_status pare__run_again_check(pare_run *run, bool *other, bool *texts_unknown)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_json *manifest = NULL;
    char difference[DIFFERENCE] = "", damage[DIFFERENCE] = "";
    pare_status s = read_manifest(run, &manifest);
    if (s == PARE_OK)
        s = compare(run, manifest, difference, damage);
    *texts_unknown = s == PARE_OK && evaluated_on_unknown(run, manifest);
    pare_json_free(manifest);
    pare_arena_rewind(&run->scratch, mark);
    PARE_TRY(s);
    *other = difference[0] || damage[0];
    if (damage[0])
        return fail_damaged(run, damage);
    return difference[0] ? fail_other(run, difference) : PARE_OK;
}

pare_status pare__run_again(pare_run *run, pare_compress_result *out)
{
    const pare_plan *const plan = run->plan;
    bool texts_unknown;
    PARE_TRY(pare__run_again_check(run, &out->other, &texts_unknown));
    tell(run, texts_unknown);
    out->again = true;
    out->report.output = plan->place.output;
    PARE_TRY(pare__run_verdict_again(run, &out->report));
    PARE_TRY(pare__run_exports(run, out));
    pare__notify(run, PARE_EVENT_DONE, "%s", plan->place.output);
    return PARE_OK;
}
