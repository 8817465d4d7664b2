#include "compress/run/run_kept.h"

#include <stdio.h>
#include <string.h>

#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_keep.h"
#include "compress/text/version.h"
#include "formats/hash.h"

/* The files of the model that statistics are of, as a job before the compression finds them. */
static pare_status list_model(pare_run *run, pare_stats_about *out)
{
    const size_t files = run->checkpoint.files + (run->checkpoint.config_file.data != NULL);
    const char **const file = PARE_NEW(run->a, const char *, files);
    char hex[PARE_XXH3_HEX], text[512];
    if (!file)
        return PARE_ENOMEM;
    for (size_t i = 0; i < files; i++) {
        pare_xxh3_text(run->hash.input_xxh3[i], hex);
        (void)snprintf(text, sizeof text, "%s xxh3 %s", run->files.input[i].file, hex);
        file[i] = pare_arena_text(run->a, text, strlen(text));
        if (!file[i])
            return PARE_ENOMEM;
    }
    out->file = file;
    out->files = files;
    out->nan = pare_plan_nan(run->plan);
    return PARE_OK;
}

pare_status pare__keep_about(pare_run *run, pare_stats_about *out)
{
    const pare_plan *const plan = run->plan;
    const pare_config *const c = &run->model.config;
    char seed[24];
    *out =
        (pare_stats_about){.program = "pare " PARE_VERSION,
                           .family = c->arch->model_type,
                           .blocks = c->blocks,
                           .hidden = c->hidden,
                           .experts = c->experts,
                           .held_out = plan->held_out ? run->data.held_out.count / plan->window : 0,
                           .fresh = run->settled.fresh,
                           .tokens_sha256 = run->data.sha256,
                           .held_out_sha256 = run->data.held_out_sha256};
    pare_plan_kept_asks(plan, &run->settled, seed, out);
    out->seed = pare_arena_text(run->a, seed, strlen(seed));
    return out->seed ? list_model(run, out) : PARE_ENOMEM;
}

/* What the file must be of: what the job keeps, or what the planner read, of this model. */
static pare_status compare(pare_run *run)
{
    const pare_plan_kept *const kept = &run->plan->kept;
    pare_stats_about own = kept->about, found;
    char values[2][128];
    PARE_TRY(kept->made ? pare__keep_about(run, &own) : list_model(run, &own));
    PARE_TRY(pare_plan_kept_read(run->cx, run->a, run->plan, &found));
    const char *const what = pare_stats_about_differ(&found, &own, values);
    if (what && kept->made)
        return pare_plan_kept_fail(run->cx, run->plan, what, values);
    return what ? pare_fail(run->cx, PARE_EFORMAT,
                            "%s: statistics of another model: %s: \"%s\" there, \"%s\" here; take "
                            "those of this model",
                            kept->path, what, values[0], values[1])
                : PARE_OK;
}

pare_status pare__kept_hash(pare_run *run)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_file f;
    pare_status s = pare_file_map(run->cx, &run->scratch, run->plan->kept.path, &f);
    if (s == PARE_OK) {
        s = pare_xxh3_files(run->cx, "reading statistics", &f, 1, &run->kept.xxh3);
        pare_file_unmap(&f);
        run->kept.hashed = s == PARE_OK;
    }
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

pare_status pare__kept_open(pare_run *run)
{
    const pare_plan_kept *const kept = &run->plan->kept;
    const char *const idle = pare_plan_kept_idle(run->plan);
    if (idle)
        pare__notify(run, PARE_EVENT_NOTICE, "%s", idle);
    if (!kept->used)
        return PARE_OK;
    if (kept->made) {
        PARE_TRY(pare__keep_file(run)); /* watched from here on; a given one is already */
        PARE_TRY(pare_watch_path(run->a, &run->checkpoint.watch, kept->path));
    }
    PARE_TRY(pare__kept_hash(run));
    const pare_status s = kept->imatrix ? PARE_OK : compare(run);
    if (s == PARE_OK)
        pare__notify(run, PARE_EVENT_NOTICE,
                     "%s of the original model are taken from %s; linears do not see what those in "
                     "front of them lost",
                     kept->imatrix ? "sizes of input columns" : "statistics", kept->path);
    return s;
}

pare_status pare__kept_take(pare_run *run)
{
    const pare_config *const c = &run->model.config;
    run->wave = (pare_wave){.window = run->plan->window, .hidden = c->hidden};
    return run->plan->token_weights
               ? pare_output_curvature_take(&run->stage, c, &run->weights.outputs)
               : PARE_OK;
}

pare_status pare__kept_begin(pare_run *run, size_t block)
{
    const pare_plan_kept *const kept = &run->plan->kept;
    if (!kept->used || kept->imatrix)
        return PARE_OK;
    PARE_TRY(pare_stats_group_open(run->cx, &run->scratch, kept->path, block, 0, &run->kept.group));
    return run->plan->token_weights
               ? pare_stats_group_outputs(&run->kept.group, &run->weights.outputs)
               : PARE_OK;
}

/* The sizes of columns at a site, of a linear that reads it: they are the same for all that do. */
static pare_status fill_site(pare_run *run, const pare_imatrix *m, size_t block, pare_site site,
                             pare_site_stats *stats)
{
    const pare_plan *const plan = run->plan;
    const pare_imatrix_entry *entry = NULL;
    size_t i, end;
    for (pare_plan_range(plan, block, 0, &i, &end); !entry && i < end; i++) {
        const pare_plan_linear *const l = &plan->linear[i];
        if (l->calibrated && pare_plan_site(plan, l) == site)
            PARE_TRY(pare_imatrix_find(m, plan->model.config.arch->model_type, l->packed.name,
                                       stats->k, &entry));
    }
    return entry ? pare_imatrix_fill(m, entry, stats) : PARE_OK;
}

pare_status pare__kept_fill(pare_run *run, size_t block, pare_stats *stats)
{
    if (!run->plan->kept.imatrix)
        return pare_stats_group_fill(&run->kept.group, stats);
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_imatrix m;
    pare_status s = pare_imatrix_open(run->cx, &run->scratch, run->plan->kept.path, &m);
    for (unsigned i = 0; s == PARE_OK && i < PARE_SITES; i++)
        if (stats->active & (1u << i))
            s = fill_site(run, &m, block, (pare_site)i, &stats->site[i]);
    pare_imatrix_close(&m);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

void pare__kept_end(pare_run *run)
{
    pare_stats_group_close(&run->kept.group);
}

pare_status pare__kept_expert(pare_run *run, size_t block, size_t part, pare_stats *stats)
{
    pare_stats_group g;
    if (!stats->active)
        return PARE_OK;
    pare_status s =
        pare_stats_group_open(run->cx, &run->scratch, run->plan->kept.path, block, part, &g);
    if (s == PARE_OK)
        s = pare_stats_group_fill(&g, stats);
    pare_stats_group_close(&g);
    return s;
}
