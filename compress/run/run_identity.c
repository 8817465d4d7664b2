/* What makes two jobs the same one: the recipe, the model, the calibration, the program and the
 * arithmetic. Settings of a step that trains are left out: what was pruned in front of it stays
 * good when they change. What was trained keeps their hash. */
#include <stdio.h>
#include <string.h>

#include "compress/plan/chain_part.h"
#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_training.h"
#include "compress/run/run_unfinished.h"
#include "compress/text/version.h"
#include "formats/checksums.h"
#include "runtime/file.h"
#include "runtime/linalg.h"

/* Another one when the same recipe leads to other decisions or another journal. */
#define JOURNAL_FORMAT "13"

pare_status pare__run_identify(pare_run *run)
{
    const pare_pass_words *words;
    char *text;
    size_t len;
    PARE_TRY(pare_pass_words_take(run->a, &words));
    PARE_TRY(pare_recipe_normalize(run->cx, run->a, &run->plan->recipe, words, true, &text, &len));
    run->recipe_portable = text;
    return PARE_OK;
}

#define OTHER_SETTINGS                                                                             \
    "distill has other settings or windows than in the unfinished run: what the passes before it " \
    "did stays, and training begins anew"

pare_training_place pare__run_training_place(pare_run *run)
{
    return (pare_training_place){
        run->cx,        &run->scratch, run->plan->place.partial, run->training_asked,
        OTHER_SETTINGS, &run->teller};
}

void pare__run_forget_training(pare_run *run)
{
    const pare_training_place place = pare__run_training_place(run);
    pare_training_state_remove(&place);
}

bool pare__run_trained_as_asked(pare_run *run, const pare_training_result *t)
{
    const bool same = memcmp(t->asked, run->training_asked, sizeof t->asked) == 0;
    if (!same)
        pare__notify(run, PARE_EVENT_NOTICE, OTHER_SETTINGS);
    return same;
}

const char *pare__run_blas(const pare_run *run)
{
    return run->plan->out.hidden < run->plan->model.config.hidden ? pare_blas_name() : NULL;
}

/* The output that the run was asked to replace, by its manifest: no other one is replaced when it
 * is continued. */
static pare_status put_replaced(pare_run *run, pare_json_writer *w)
{
    char hex[PARE_SHA256_HEX], text[PARE_SHA256_HEX + 64];
    pare_file f;
    if (!run->settled.replaces) {
        pare_json_put_text(w, PARE_JOURNAL_REPLACES, PARE_JOURNAL_NO_OUTPUT);
        return PARE_OK;
    }
    char *const path = pare_path_join(run->a, run->plan->place.output, PARE_MANIFEST_NAME);
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_file_map(run->cx, run->a, path, &f));
    const pare_status s = pare_sha256_hex(run->cx, f.data, (size_t)f.bytes, hex);
    pare_file_unmap(&f);
    PARE_TRY(s);
    (void)snprintf(text, sizeof text, "an output with manifest.json sha256 %s", hex);
    pare_json_put_text(w, PARE_JOURNAL_REPLACES, text);
    return PARE_OK;
}

/* The lines of a recipe in the fingerprint; those of the settings of the pass that trains, if any,
 * go to the hash. `text` is cut into lines. */
static void put_lines(char *text, const pare_pass *training, pare_json_writer *w,
                      pare_xxh3_state *hash)
{
    static const char indent[] = "      ";
    char head[64] = "", key[64];
    bool trains = false;
    if (training)
        (void)snprintf(head, sizeof head, "  - %s:", training->name);
    size_t number = 0;
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        trains = (trains && strncmp(line, indent, strlen(indent)) == 0) || strcmp(line, head) == 0;
        if (trains && strcmp(line, head) != 0) {
            pare_xxh3_add(hash, line, strlen(line) + 1);
            continue;
        }
        (void)snprintf(key, sizeof key, PARE_JOURNAL_RECIPE "%zu", ++number);
        pare_json_put_text(w, key, line);
    }
}

static void put_recipe(pare_run *run, char *text, pare_json_writer *w)
{
    const pare_step *const training = run->plan->training;
    pare_xxh3_state hash;
    pare_xxh3_begin(&hash);
    put_lines(text, training ? pare_passes[training->pass] : NULL, w, &hash);
    pare_xxh3_add(&hash, run->data.training_sha256, sizeof run->data.training_sha256);
    pare_xxh3_add(&hash, run->data.held_out_sha256, sizeof run->data.held_out_sha256);
    pare_xxh3_end(&hash, run->training_asked);
}

static pare_status check_lines(pare_ctx *cx, pare_arena *a, const char *partial,
                               const pare_recipe *r)
{
    const pare_pass_words *words;
    const pare_pass *training = NULL;
    pare_json_writer *w;
    pare_xxh3_state hash;
    char *lines;
    const char *text;
    size_t len;
    for (size_t i = 0; i < r->steps; i++)
        training = pare_passes[r->step[i].pass]->training ? pare_passes[r->step[i].pass] : training;
    PARE_TRY(pare_pass_words_take(a, &words));
    PARE_TRY(pare_recipe_normalize(cx, a, r, words, true, &lines, &len));
    PARE_TRY(pare_json_writer_new(cx, &w));
    pare_xxh3_begin(&hash);
    pare_json_open_object(w, NULL);
    put_lines(lines, training, w, &hash);
    pare_json_close(w);
    pare_status s = pare_json_writer_finish(w, &text, &len);
    if (s == PARE_OK)
        s = pare_journal_check_recipe(cx, a, partial, text);
    pare_json_writer_free(w);
    return s;
}

/* The recipe as the plan of a job settles it. */
static pare_status check_settled(pare_ctx *cx, pare_arena *a, const char *partial,
                                 const pare_recipe *asked, bool plain)
{
    pare_recipe r = *asked;
    r.step = PARE_NEW(a, pare_step, r.steps);
    if (!r.step)
        return PARE_ENOMEM;
    if (r.steps)
        memcpy(r.step, asked->step, r.steps * sizeof *r.step);
    pare_passes_decide(r.step, r.steps, plain);
    for (int i = 0; i < PARE_TABLES; i++) {
        pare_step *const table = r.table[i] ? PARE_NEW(a, pare_step, 1) : NULL;
        if (r.table[i] && !table)
            return PARE_ENOMEM;
        if (table) {
            *table = *r.table[i];
            pare_passes_decide(table, 1, false);
        }
        r.table[i] = table;
    }
    return check_lines(cx, a, partial, &r);
}

/* Nobody has looked whether the model is a mixture of experts, so that it may be either. */
pare_status pare_unfinished_check(pare_ctx *cx, pare_arena *a, const char *partial,
                                  const pare_recipe *asked)
{
    const size_t lead = asked->lead ? 0 : pare_chain_lead(asked); /* else cut already */
    const bool kept = asked->calibration.from.text || asked->calibration.keep.text;
    pare_recipe r = *asked;
    r.step += lead;
    r.steps -= lead;
    r.lead += lead;
    pare_status s = check_settled(cx, a, partial, &r, !kept);
    if (s != PARE_EEXISTS || kept)
        return s;
    char first[sizeof cx->what];
    memcpy(first, cx->what, sizeof first);
    pare_ctx_clear(cx);
    s = check_settled(cx, a, partial, &r, false);
    if (s == PARE_EEXISTS) {
        pare_ctx_clear(cx);
        return pare_fail(cx, s, "%s", first);
    }
    return s;
}

pare_status pare__run_fingerprint(pare_run *run, pare_json_writer *w, const char **text)
{
    const pare_plan *const plan = run->plan;
    char key[64], hex[PARE_XXH3_HEX];
    size_t len = strlen(run->recipe_portable);
    char *const recipe = pare_arena_text(run->a, run->recipe_portable, len);
    if (!recipe)
        return PARE_ENOMEM;
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "program", "pare " PARE_VERSION);
    pare_json_put_text(w, "format", JOURNAL_FORMAT);
    if (pare__run_blas(run))
        pare_json_put_text(w, "blas", pare__run_blas(run));
    for (size_t i = 0; i < run->files.inputs; i++) {
        (void)snprintf(key, sizeof key, PARE_JOURNAL_FILE "%zu", i + 1);
        char value[512];
        pare_xxh3_text(run->hash.input_xxh3[i], hex);
        (void)snprintf(value, sizeof value, "%s xxh3 %s", run->files.input[i].file, hex);
        pare_json_put_text(w, key, value);
    }
    pare_json_put_text(w, PARE_JOURNAL_TOKENS,
                       plan->calibrated ? run->data.sha256 : PARE_JOURNAL_UNUSED);
    if (run->kept.hashed) {
        pare_xxh3_text(run->kept.xxh3, hex);
        pare_json_put_text(w, PARE_JOURNAL_STATISTICS, hex);
    }
    put_recipe(run, recipe, w);
    if (plan->calibrated)
        pare_json_put_text(w, PARE_JOURNAL_PRECISION, pare_plan_precision(plan));
    PARE_TRY(put_replaced(run, w));
    pare_json_close(w);
    return pare_json_writer_finish(w, text, &len);
}
