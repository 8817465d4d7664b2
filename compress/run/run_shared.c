/* What other jobs of the same model and calibration found, in the folder of pare_job.share: how
 * much each token counts. It follows from the float model, the tokens and the arithmetic alone, so
 * the job comes to the same bytes with the file and without. */
#include <stdio.h>
#include <string.h>

#include "calib/kept_weights.h"
#include "compress/output/output.h"
#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"
#include "compress/text/version.h"
#include "formats/hash.h"

/* Another number when the same key leads to other floats. */
#define KEPT_FORMAT "1"

/* All that the weights of tokens depend on. */
static pare_status key_of(pare_run *run, pare_json_writer *w, const char **text)
{
    const pare_plan *const plan = run->plan;
    char name[64], value[512], hex[PARE_XXH3_HEX];
    size_t len;
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "program", "pare " PARE_VERSION);
    pare_json_put_text(w, "format", KEPT_FORMAT);
    for (size_t i = 0; i < run->files.inputs; i++) {
        (void)snprintf(name, sizeof name, "model file %zu", i + 1);
        pare_xxh3_text(run->hash.input_xxh3[i], hex);
        (void)snprintf(value, sizeof value, "%s xxh3 %s", run->files.input[i].file, hex);
        pare_json_put_text(w, name, value);
    }
    pare_json_put_integer(w, "nan", plan->recipe.nan);
    pare_json_put_text(w, "tokens", run->data.sha256);
    pare_json_put_integer(w, "windows", (int64_t)run->settled.samples);
    pare_json_put_integer(w, "window", (int64_t)plan->window);
    (void)snprintf(value, sizeof value, "%llu", (unsigned long long)plan->recipe.seed);
    pare_json_put_text(w, "seed", value);
    pare_json_put_text(w, "precision", pare_plan_precision(plan));
    pare_json_close(w);
    return pare_json_writer_finish(w, text, &len);
}

static pare_status path_of(pare_run *run, const char *key, char **path)
{
    char hex[PARE_XXH3_HEX], name[64];
    pare_xxh3_hex(key, strlen(key), hex);
    (void)snprintf(name, sizeof name, "token_weights-%s", hex);
    *path = pare_path_join(run->a, run->plan->job->share, name);
    return *path ? PARE_OK : PARE_ENOMEM;
}

static pare_status find(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    return pare_token_weights_find(run->cx, &run->stage, &run->scratch, &run->wave_forward,
                                   run->data.tokens.id, run->settled.samples, plan->window,
                                   plan->recipe.seed, &run->current, plan->place.partial,
                                   &run->weights);
}

/* That they could not be kept does not stop the job, which has them. */
static void keep(pare_run *run, const char *path, const char *key)
{
    const pare_config *const c = &run->source.config;
    if (pare_kept_weights_put(run->cx, &run->scratch, c, &run->weights, path, key) == PARE_OK) {
        pare__notify(run, PARE_EVENT_NOTICE, "weights of tokens: kept for other jobs in %s", path);
        return;
    }
    pare__notify(run, PARE_EVENT_NOTICE,
                 "warning: weights of tokens are not kept for other jobs: %s", run->cx->what);
    pare_ctx_clear(run->cx);
}

static pare_status take_or_find(pare_run *run, const char *path, const char *key)
{
    const char *why;
    PARE_TRY(pare_kept_weights_take(run->cx, &run->stage, &run->scratch, &run->source.config,
                                    run->settled.samples * run->plan->window,
                                    run->plan->place.partial, path, key, &why, &run->weights));
    if (!why) {
        pare__notify(run, PARE_EVENT_NOTICE, "weights of tokens: taken from %s", path);
        return PARE_OK;
    }
    pare__notify(run, PARE_EVENT_NOTICE, "weights of tokens: found here: %s: %s", path, why);
    PARE_TRY(find(run));
    keep(run, path, key);
    return PARE_OK;
}

static pare_status share(pare_run *run)
{
    pare_json_writer *w = NULL;
    const char *key;
    char *path;
    PARE_TRY(pare_output_make(run->cx, run->a, run->plan->job->share));
    pare_status s = pare_json_writer_new(run->cx, &w);
    if (s == PARE_OK)
        s = key_of(run, w, &key);
    if (s == PARE_OK)
        s = path_of(run, key, &path);
    if (s == PARE_OK)
        s = take_or_find(run, path, key);
    pare_json_writer_free(w);
    return s;
}

pare_status pare__run_token_weights(pare_run *run)
{
    if (!run->plan->job->share)
        return find(run);
    if (!run->plan->training)
        return share(run);
    pare__notify(run, PARE_EVENT_NOTICE,
                 "weights of tokens: found here: a job that trains shares none");
    return find(run);
}
