/* What other jobs of the same model found, in the folder of pare_job.share: how much each token of
 * the calibration counts, and what the blocks of the original give for the text of an evaluation.
 * Both follow from the model, the tokens and the arithmetic alone, so the job comes to the same
 * bytes and figures with the files and without. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compress/output/output.h"
#include "compress/plan/plan_walks.h"
#include "compress/run/run_evaluate.h"
#include "compress/run/run_internal.h"
#include "compress/text/version.h"
#include "formats/hash.h"
#include "formats/kept_file.h"

/* Another number when the same key leads to other bytes. */
#define KEPT_FORMAT "1"

/* A file in the folder: what it is called in messages and in its name, all that it depends on, and
 * where it is. */
typedef struct kept {
    const char *what, *name;
    const char *key;
    char *path;
    uint64_t bytes;
} kept;

/* The model as it was read, and the program. The level of the CPU is not among it: all of them come
 * to the same bytes (tests/e2e/bytes.sh). */
static void put_model(pare_run *run, pare_json_writer *w)
{
    char name[64], value[512], hex[PARE_XXH3_HEX];
    pare_json_put_text(w, "program", "pare " PARE_VERSION);
    pare_json_put_text(w, "format", KEPT_FORMAT);
    for (size_t i = 0; i < run->files.inputs; i++) {
        (void)snprintf(name, sizeof name, "model file %zu", i + 1);
        pare_xxh3_text(run->hash.input_xxh3[i], hex);
        (void)snprintf(value, sizeof value, "%s xxh3 %s", run->files.input[i].file, hex);
        pare_json_put_text(w, name, value);
    }
    pare_json_put_integer(w, "nan", run->plan->recipe.nan);
}

static void put_calibration(pare_run *run, pare_json_writer *w)
{
    char seed[32];
    pare_json_put_text(w, "tokens", run->data.sha256);
    pare_json_put_integer(w, "windows", (int64_t)run->settled.samples);
    pare_json_put_integer(w, "window", (int64_t)run->plan->window);
    (void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)run->plan->recipe.seed);
    pare_json_put_text(w, "seed", seed);
    pare_json_put_text(w, "precision", pare_plan_precision(run->plan));
}

static void put_evaluation(const pare_tokens *tokens, size_t window, pare_json_writer *w)
{
    char hex[PARE_XXH3_HEX];
    pare_xxh3_hex(tokens->id, tokens->count * sizeof *tokens->id, hex);
    pare_json_put_text(w, "tokens", hex);
    pare_json_put_integer(w, "count", (int64_t)tokens->count);
    pare_json_put_integer(w, "window", (int64_t)window);
}

/* The key, out of a writer that is open, and the path that follows from it. */
static pare_status place(pare_run *run, pare_json_writer *w, kept *k)
{
    char hex[PARE_XXH3_HEX], name[96];
    const char *text;
    size_t len;
    pare_json_close(w);
    PARE_TRY(pare_json_writer_finish(w, &text, &len));
    k->key = pare_arena_text(run->a, text, len);
    if (!k->key)
        return PARE_ENOMEM;
    pare_xxh3_hex(text, len, hex);
    (void)snprintf(name, sizeof name, "%s-%s", k->name, hex);
    k->path = pare_path_join(run->a, run->plan->job->share, name);
    return k->path ? pare_output_make(run->cx, run->a, run->plan->job->share) : PARE_ENOMEM;
}

/* That something could not be kept does not stop the job, which has it. */
static void keep(pare_run *run, const kept *k, int fd, const char *path)
{
    bool done;
    if (pare_kept_put(run->cx, &run->scratch, fd, path, k->bytes, k->path, k->key, &done) ==
        PARE_OK) {
        pare__notify(run, PARE_EVENT_NOTICE,
                     done ? "%s: kept for other jobs in %s"
                          : "%s: another job is writing it for others to %s",
                     k->what, k->path);
        return;
    }
    pare__notify(run, PARE_EVENT_NOTICE, "warning: %s: not kept for other jobs: %s", k->what,
                 run->cx->what);
    pare_ctx_clear(run->cx);
}

/* Opens what is kept; *fd below 0 where it is to be computed now, which is told with the reason. */
static pare_status take(pare_run *run, const kept *k, int *fd)
{
    const char *why;
    PARE_TRY(pare_kept_open(run->cx, &run->scratch, k->path, k->key, k->bytes, fd, &why));
    if (why)
        pare__notify(run, PARE_EVENT_NOTICE, "%s: computed now: %s: %s", k->what, k->path, why);
    else
        pare__notify(run, PARE_EVENT_NOTICE, "%s: taken from %s", k->what, k->path);
    return PARE_OK;
}

static pare_status find(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_block floats = run->current;
    if (run->settled.memory.sparing)
        PARE_TRY(pare_block_take(&run->scratch, &run->model.config, plan->biases, &floats));
    const pare_status s =
        pare_token_weights_find(run->cx, &run->stage, &run->scratch, &run->wave_forward,
                                run->data.tokens.id, run->settled.samples, plan->window,
                                plan->recipe.seed, &floats, plan->place.partial, &run->weights);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

static pare_status share(pare_run *run, pare_json_writer *w)
{
    const pare_config *const c = &run->source.config;
    const size_t tokens = run->settled.samples * run->plan->window;
    kept k = {.what = "weights of tokens",
              .name = "token_weights",
              .bytes = pare_token_weights_file(c, tokens)};
    int fd;
    pare_json_open_object(w, NULL);
    put_model(run, w);
    put_calibration(run, w);
    PARE_TRY(place(run, w, &k));
    PARE_TRY(take(run, &k, &fd));
    if (fd >= 0) {
        const pare_status s =
            pare_token_weights_copy(run->cx, &run->stage, c, tokens, run->plan->place.partial, fd,
                                    k.path, PARE_KEPT_HEAD, &run->weights);
        (void)close(fd);
        return s;
    }
    PARE_TRY(find(run));
    keep(run, &k, run->weights.file.fd, run->weights.file.path);
    return PARE_OK;
}

pare_status pare__run_token_weights(pare_run *run)
{
    pare_json_writer *w = NULL;
    if (!run->plan->job->share)
        return find(run);
    if (run->plan->training) {
        pare__notify(run, PARE_EVENT_NOTICE,
                     "weights of tokens: computed now: a job that trains shares none");
        return find(run);
    }
    PARE_TRY(pare_json_writer_new(run->cx, &w));
    const pare_status s = share(run, w);
    pare_json_writer_free(w);
    return s;
}

/* Where there is no room for the file the job goes on without. */
static pare_status take_stream(pare_run *run, pare_json_writer *w, const pare_tokens *tokens,
                               size_t window, pare_run_stream *out)
{
    kept k = {.what = "the original on the text", .name = "evaluation"};
    int fd;
    k.bytes = (uint64_t)(tokens->count / window * window) * pare_plan_original(run->plan)->hidden *
              sizeof(float);
    pare_json_open_object(w, NULL);
    put_model(run, w);
    put_evaluation(tokens, window, w);
    PARE_TRY(place(run, w, &k));
    PARE_TRY(take(run, &k, &fd));
    out->key = k.key;
    out->kept = k.path;
    out->bytes = k.bytes;
    if (fd >= 0) {
        out->stream = (pare_eval_stream){fd, k.path, PARE_KEPT_HEAD, true};
        out->use = true;
        return PARE_OK;
    }
    const pare_status s = pare_spill_open(run->cx, run->a, run->plan->place.partial,
                                          PARE_SPILL_STREAM, k.bytes, k.what, &out->file);
    if (s == PARE_ENOSPC) {
        pare__notify(run, PARE_EVENT_NOTICE, "%s: not kept for other jobs: %s", k.what,
                     run->cx->what);
        pare_ctx_clear(run->cx);
        return PARE_OK;
    }
    out->stream = (pare_eval_stream){out->file.fd, out->file.path, 0, false};
    out->use = s == PARE_OK;
    return s;
}

pare_status pare__run_stream_open(pare_run *run, const pare_tokens *tokens, size_t window,
                                  pare_run_stream *out)
{
    pare_json_writer *w = NULL;
    *out = (pare_run_stream){0};
    if (!run->plan->job->share)
        return PARE_OK;
    PARE_TRY(pare_json_writer_new(run->cx, &w));
    const pare_status s = take_stream(run, w, tokens, window, out);
    pare_json_writer_free(w);
    return s;
}

void pare__run_stream_close(pare_run *run, bool whole, pare_run_stream *s)
{
    const kept k = {"the original on the text", "evaluation", s->key, s->kept, s->bytes};
    if (s->use && !s->stream.filled && whole)
        keep(run, &k, s->file.fd, s->file.path);
    if (s->use && s->stream.filled)
        (void)close(s->stream.fd);
    pare_spill_close(&s->file);
    *s = (pare_run_stream){0};
}
