/* What of a batch is there: the state of each job, by what lies in the folder. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compress/batch/batch_internal.h"
#include "compress/budget/budget.h"
#include "compress/output/journal.h"
#include "compress/output/output.h"
#include "compress/passes/pass.h"
#include "compress/run/run_unfinished.h"
#include "formats/checksums.h"
#include "runtime/file.h"

const char *pare_batch_state_name(pare_batch_state s)
{
    static const char *const names[] = {"missing", "unfinished", "running",    "done",
                                        "stale",   "failed",     "infeasible", "waits"};
    return names[s];
}

size_t pare_batch_count(const pare_jobs *b, pare_batch_state s)
{
    size_t count = 0;
    for (size_t i = 0; i < b->rows; i++)
        count += b->row[i].state == s;
    return count;
}

pare_status pare__batch_holds(const pare_jobs *b, const char *path, const char *text, bool *same)
{
    char *is;
    size_t len;
    *same = false;
    if (!pare_path_is_file(path))
        return PARE_OK;
    const pare_mark mark = pare_arena_mark(b->a);
    const pare_status s = pare_file_read(b->cx, b->a, path, PARE__BATCH_FILE_CAP, &is, &len);
    *same = s == PARE_OK && len == strlen(text) && memcmp(is, text, len) == 0;
    pare_arena_rewind(b->a, mark);
    if (s == PARE_ENOMEM)
        return s;
    pare_ctx_clear(b->cx);
    return PARE_OK;
}

/* A failure to write it is none of the job's. */
void pare__batch_failed(const pare_jobs *b, const pare_batch_row *r)
{
    char line[PARE_BATCH_WHY + sizeof "\n" PARE__BATCH_REFUSED "\n"];
    const int len =
        snprintf(line, sizeof line, "%s\n%s", r->why, r->refused ? PARE__BATCH_REFUSED "\n" : "");
    if (pare_file_write(b->cx, r->failed_file, line, (size_t)len) != PARE_OK)
        pare_ctx_clear(b->cx);
}

/* What lies in the output of a job; akin: of the same passes and settings, with other paths, bounds
 * or exports, or torn: the job looks whether it is its own. */
typedef enum found { NOTHING, WHOLE, AKIN, OTHER, DAMAGED } found;

bool pare__batch_searches(const pare_recipe *r)
{
    bool does = false;
    for (size_t i = 0; i < r->steps; i++)
        does |= pare_budget_is_step(&r->step[i]);
    return does;
}

/* Where the recipe lies that the output of a row was made of; NULL: PARE_ENOMEM. A search for a
 * budget puts what it came to into the output. */
static char *recipe_of(const pare_jobs *b, const pare_batch_row *r)
{
    if (!pare__batch_searches(&r->job->recipe))
        return pare_path_join(b->a, r->output, "recipe.yaml");
    char *const store = pare_path_suffix(b->a, r->output, PARE_BUDGET_STORE);
    return store ? pare_path_join(b->a, store, PARE_BUDGET_ASKED) : NULL;
}

pare_status pare__batch_parse(const pare_jobs *b, const char *file, const char *text,
                              const pare_pass_words **words, pare_recipe *out)
{
    const pare_recipe_source source = {.file = file, .text = text, .len = strlen(text)};
    PARE_TRY(pare_pass_words_take(b->a, words));
    return pare_recipe_parse(b->cx, b->a, &source, *words, pare_pass_count(), out);
}

/* What a recipe asks for without paths, bounds, exports and limits; NULL for a text that is none.
 */
static pare_status work_of(const pare_jobs *b, const char *file, const char *text, char **out)
{
    const pare_pass_words *words;
    pare_recipe recipe;
    size_t len;
    *out = NULL;
    const pare_status s = pare__batch_parse(b, file, text, &words, &recipe);
    if (s == PARE_OK)
        return pare_recipe_normalize(b->cx, b->a, &recipe, words, true, out, &len);
    if (s != PARE_ENOMEM)
        pare_ctx_clear(b->cx);
    return s == PARE_ENOMEM ? s : PARE_OK;
}

static pare_status compare(const pare_jobs *b, pare_batch_row *r, const char *recipe, found *out)
{
    char *text, *work[2] = {NULL};
    size_t len;
    pare_status s = pare_file_read(b->cx, b->a, recipe, PARE__BATCH_FILE_CAP, &text, &len);
    const bool same = s == PARE_OK && strcmp(text, r->text) == 0;
    if (same && r->torn) {
        *out = AKIN;
        (void)snprintf(r->why, sizeof r->why,
                       "a run that held other bounds against it was stopped, or its run.json was "
                       "changed, so its figures are not shown until a run looks at it");
    }
    if (same)
        return PARE_OK;
    if (s == PARE_OK)
        s = work_of(b, recipe, text, &work[0]);
    if (s == PARE_OK)
        s = work_of(b, r->recipe, r->text, &work[1]);
    if (s == PARE_ENOMEM)
        return s;
    pare_ctx_clear(b->cx);
    *out = work[0] && work[1] && strcmp(work[0], work[1]) == 0 ? AKIN : OTHER;
    (void)snprintf(
        r->why, sizeof r->why, "%s",
        *out == AKIN
            ? "its recipe asks for the same work with other paths, bounds, fallbacks, "
              "exports, limits or devices, so its figures are not shown until a run looks at it"
            : "it was made of another recipe, so its figures are not shown; "
              "--restart makes it anew");
    return PARE_OK;
}

static pare_status find(const pare_jobs *b, pare_batch_row *r, found *out)
{
    char *const manifest = pare_path_join(b->a, r->output, PARE_MANIFEST_NAME);
    char *const recipe = recipe_of(b, r);
    if (!manifest || !recipe)
        return PARE_ENOMEM;
    *out = NOTHING;
    if (!pare_path_is_file(manifest))
        return PARE_OK;
    PARE_TRY(pare__batch_check_output(b, r));
    *out = r->damaged ? DAMAGED : WHOLE;
    return *out == WHOLE ? compare(b, r, recipe, out) : PARE_OK;
}

/* Whether a search left variants, which it goes on with, or which are of another one. */
static pare_status has_variants(const pare_jobs *b, const pare_batch_row *r, bool *out)
{
    char *const store = pare_path_suffix(b->a, r->output, PARE_BUDGET_STORE);
    *out = store && pare__batch_searches(&r->job->recipe) && pare_path_is_directory(store);
    return store ? PARE_OK : PARE_ENOMEM;
}

/* The first line of NAME.failed, and whether it says that what was there was not replaced: an older
 * pare said so in that line. */
static pare_status read_failed(const pare_jobs *b, const pare_batch_row *r,
                               char why[PARE_BATCH_WHY], bool *refused)
{
    char *text;
    size_t len;
    why[0] = '\0';
    const pare_status s =
        pare_file_read(b->cx, b->a, r->failed_file, PARE__BATCH_FILE_CAP, &text, &len);
    if (s == PARE_ENOMEM)
        return s;
    const size_t line = s == PARE_OK ? strcspn(text, "\n") : 0;
    if (s == PARE_OK)
        (void)snprintf(why, PARE_BATCH_WHY, "%.*s", (int)line, text);
    *refused = s == PARE_OK && (strcmp(text + line, "\n" PARE__BATCH_REFUSED "\n") == 0 ||
                                strstr(why, "give --restart to replace it"));
    (void)pare_text_printable(why);
    pare_ctx_clear(b->cx);
    return PARE_OK;
}

/* What an earlier call said of a job that is not done. One that did not replace what is there is no
 * failure that another try could mend. */
static pare_status recall(const pare_jobs *b, pare_batch_row *r, found is)
{
    static const char infeasible[] = "INFEASIBLE";
    char why[PARE_BATCH_WHY];
    bool refused, variants;
    if (!pare_path_is_file(r->failed_file))
        return PARE_OK;
    PARE_TRY(read_failed(b, r, why, &refused));
    PARE_TRY(has_variants(b, r, &variants));
    if (r->damaged) {
        r->refused = true;
        return PARE_OK;
    }
    if (refused && r->anew) {
        r->state = PARE_BATCH_STALE;
        return PARE_OK;
    }
    if (refused) { /* of what is asked for now, or before its recipe changed */
        bool same;
        PARE_TRY(pare__batch_holds(b, r->recipe, r->text, &same));
        if (!same || (is == NOTHING && !variants)) /* or what was in the way is gone */
            return PARE_OK;
    }
    r->refused = refused;
    r->state = refused ? PARE_BATCH_STALE : PARE_BATCH_FAILED;
    memcpy(r->why, why, sizeof why);
    if (strncmp(r->why, infeasible, sizeof infeasible - 1) == 0) {
        r->state = PARE_BATCH_INFEASIBLE;
        (void)snprintf(r->verdict, sizeof r->verdict, "%s", infeasible);
    }
    return PARE_OK;
}

/* Work that was begun goes on, unless it is of another recipe. */
static pare_status look_at_work(const pare_jobs *b, pare_batch_row *r, const char *partial,
                                found *is)
{
    const pare_pass_words *words;
    pare_recipe recipe;
    pare_status s = PARE_OK;
    r->state = PARE_BATCH_UNFINISHED;
    r->why[0] = '\0';
    r->stays = false;
    r->begun = !r->anew;
    if (r->anew || pare__batch_searches(&r->job->recipe) || r->job->recipe.fallbacks)
        return PARE_OK;
    s = pare__batch_parse(b, r->recipe, r->text, &words, &recipe);
    if (s == PARE_OK)
        s = pare_unfinished_check(b->cx, b->a, partial, &recipe);
    if (s == PARE_EEXISTS) {
        *is = OTHER;
        r->state = PARE_BATCH_STALE;
        r->stays = true;
        r->begun = false;
        (void)snprintf(r->why, sizeof r->why, "%s", b->cx->what);
    }
    if (s != PARE_ENOMEM)
        pare_ctx_clear(b->cx);
    return s == PARE_ENOMEM ? s : PARE_OK;
}

static pare_status look_at(const pare_jobs *b, pare_batch_row *r)
{
    static const pare_batch_state states[] = {[NOTHING] = PARE_BATCH_MISSING,
                                              [WHOLE] = PARE_BATCH_DONE,
                                              [AKIN] = PARE_BATCH_STALE,
                                              [OTHER] = PARE_BATCH_STALE,
                                              [DAMAGED] = PARE_BATCH_STALE};
    found is;
    bool variants;
    char *const partial = pare_path_suffix(b->a, r->output, ".partial");
    if (!partial)
        return PARE_ENOMEM;
    if (r->ran && r->state != PARE_BATCH_DONE)
        return PARE_OK;
    r->why[0] = '\0';
    r->refused = r->stays = r->damaged = r->torn = r->begun = r->there = false;
    PARE_TRY(find(b, r, &is));
    if (r->ran && is == DAMAGED) { /* `compress` does not miss a run.json */
        r->state = PARE_BATCH_STALE;
        r->refused = true;
        pare__batch_failed(b, r);
    } else if (r->ran) { /* with other exports, its recipe is another one */
        r->why[0] = '\0';
    }
    if (r->ran)
        return PARE_OK;
    PARE_TRY(pare__batch_restart_waits(b, r));
    r->state = states[is];
    r->stays = !r->anew && (is == OTHER || is == DAMAGED);
    r->there = is != NOTHING && is != DAMAGED && !pare_path_is_directory(partial);
    if (is != DAMAGED && pare_path_is_directory(partial)) {
        PARE_TRY(look_at_work(b, r, partial, &is));
    } else if (is == NOTHING) {
        PARE_TRY(has_variants(b, r, &variants));
        r->state = variants ? PARE_BATCH_UNFINISHED : r->state;
        r->begun = variants && !r->anew;
    } else if (r->state == PARE_BATCH_DONE && r->anew) {
        r->state = PARE_BATCH_STALE;
        (void)snprintf(r->why, sizeof r->why, "--restart was stopped before it");
    }
    return r->state == PARE_BATCH_DONE ? PARE_OK : recall(b, r, is);
}

bool pare__batch_stops(const pare_batch_row *r)
{
    return r->state == PARE_BATCH_FAILED || r->state == PARE_BATCH_INFEASIBLE ||
           r->state == PARE_BATCH_WAITS || r->refused;
}

/* A job that was not begun because one before it is not done. */
static void find_waiting(pare_jobs *b)
{
    for (size_t i = 0; i < b->rows; i++) {
        pare_batch_row *const r = &b->row[i];
        size_t at = i;
        while (r->state == PARE_BATCH_MISSING && b->row[at].job->after != at) {
            at = b->row[at].job->after;
            if (!pare__batch_stops(&b->row[at]))
                continue;
            r->state = PARE_BATCH_WAITS;
            (void)snprintf(r->why, sizeof r->why, "%s is not done",
                           b->row[r->job->after].job->name);
        }
    }
}

pare_status pare_batch_look(pare_jobs *b)
{
    b->tasks = 0;
    for (size_t i = 0; i < b->rows; i++) {
        const pare_mark mark = pare_arena_mark(b->a);
        const pare_status s = look_at(b, &b->row[i]);
        pare_arena_rewind(b->a, mark);
        PARE_TRY(s);
    }
    PARE_TRY(pare__batch_find_remade(b));
    for (size_t i = 0; i < b->rows; i++)
        if (b->row[i].state == PARE_BATCH_DONE)
            PARE_TRY(pare__batch_figures(b, &b->row[i]));
    find_waiting(b);
    pare__batch_fronts(b);
    return PARE_OK;
}
