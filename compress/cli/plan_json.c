#include "compress/artifact/sparsity_text.h"
#include "compress/cli/plan_print.h"
#include "compress/plan/calibration_need.h"
#include "compress/plan/plan_walks.h"

static void put_warnings(pare_json_writer *w, const pare_plan *p, const pare_plan_estimate *time)
{
    char text[PARE_SHORTAGE_TEXT];
    pare_shortage s;
    pare_json_open_array(w, "warnings");
    if (time->disk[0]) {
        (void)snprintf(text, sizeof text, PARE__PLAN_DISK, time->disk);
        pare_json_put_text(w, NULL, text);
    }
    if (p->refused)
        pare_json_put_text(w, NULL, p->refused);
    if (pare_checkpoint_quantized_text(&p->checkpoint, text, sizeof text))
        pare_json_put_text(w, NULL, text);
    for (size_t i = 0; i < p->recipe.steps; i++)
        if (pare_plan_short(p, &p->settled, i, &s))
            pare_json_put_text(w, NULL, pare_shortage_text(p, &p->settled, i, &s, text));
    if (pare_plan_few_held(p, &p->settled, text))
        pare_json_put_text(w, NULL, text);
    for (size_t i = 0; i < p->recipe.steps; i++)
        if (pare_plan_tail_text(p, i, text, sizeof text))
            pare_json_put_text(w, NULL, text);
    if (pare_plan_kept_idle(p))
        pare_json_put_text(w, NULL, pare_plan_kept_idle(p));
    if (pare_plan_experts_idle(p))
        pare_json_put_text(w, NULL, pare_plan_experts_idle(p));
    pare_json_close(w);
}

static void put_statistics(pare_json_writer *w, const pare_plan *p)
{
    if (!p->kept.used)
        return;
    uint64_t bytes = pare_plan_stage_bytes(p, &p->settled);
    (void)pare_path_bytes(p->kept.path, &bytes); /* of the file that is there */
    pare_json_open_object(w, "statistics");
    pare_json_put_text(w, "file", p->kept.path);
    pare_json_put_bool(w, "made", p->kept.made && !pare_path_is_file(p->kept.path));
    pare_json_put_integer(w, "bytes", (int64_t)bytes);
    pare_json_close(w);
}

static void put_exports(pare_json_writer *w, const pare_plan *p)
{
    pare_json_open_array(w, "exports");
    for (size_t i = 0; i < p->exports; i++) {
        const pare_plan_export *const x = &p->export[i];
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "format", x->target->name);
        pare_json_put_text(w, "output", x->path);
        pare_json_put_bool(w, "needs_restart", p->settled.export[i].taken);
        pare_json_put_bool(w, "bytes_exact", pare__plan_exports_exact(p));
        pare_export_put(w, &x->result, false);
        pare_json_close(w);
    }
    pare_json_close(w);
}

static void put_zeros(pare_json_writer *w, const pare_plan *p, const pare_plan_linear *l)
{
    char text[PARE_SPARSITY_TEXT];
    const pare_packed_linear *const q = &l->packed;
    pare_json_open_object(w, "pruned");
    pare_json_put_text(w, "pass", pare__plan_pass(p, l->prune_step));
    pare_json_put_text(w, "pattern", pare_sparsity_text(&l->sparsity, text));
    pare_json_put_finite(w, "zeros",
                         1.0 - (double)pare_sparsity_kept(&l->sparsity, q->n, q->k) /
                                   ((double)q->n * (double)q->k));
    pare_json_put_text(w, "storage", pare_sparsity_store_name(q->sparsity));
    pare_json_put_integer(w, "dense_bytes", (int64_t)pare_sparsity_dense_bytes(q));
    pare_json_put_text(w, "saves", pare_sparsity_saves(q));
    pare_json_close(w);
}

/* Members of an open object. */
static void put_packed(pare_json_writer *w, const pare_packed_linear *l, const char *pass)
{
    char encoding[PARE_PACKED_TEXT];
    pare_json_put_text(w, "name", l->name);
    pare_json_open_array(w, "shape");
    pare_json_put_integer(w, NULL, (int64_t)l->n);
    pare_json_put_integer(w, NULL, (int64_t)l->k);
    pare_json_close(w);
    pare_json_put_text(w, "pass", pass);
    pare_json_put_integer(w, "bits", (int64_t)l->bits);
    pare_json_put_integer(w, "group", (int64_t)l->group);
    pare_json_put_bool(w, "symmetric", l->symmetric);
    pare_json_put_text(w, "encoding", pare_packed_linear_text(l, encoding));
    pare_json_put_integer(w, "bytes", (int64_t)pare_packed_linear_bytes(l).total);
}

static void put_linear(pare_json_writer *w, const pare_plan *p, const pare_plan_linear *l)
{
    pare_json_open_object(w, NULL);
    put_packed(w, &l->packed, pare__plan_pass(p, l->step));
    if (l->part)
        pare_json_put_integer(w, "expert", (int64_t)l->part - 1);
    if (l->pruned)
        put_zeros(w, p, l);
    pare_json_close(w);
}

/* The embeddings and the head come last. */
static void put_linears(pare_json_writer *w, const pare_plan *p)
{
    pare_json_open_array(w, "linears");
    for (size_t i = 0; i < p->linears; i++)
        put_linear(w, p, &p->linear[i]);
    for (size_t i = 0; i < p->tables.count; i++) {
        const pare_plan_table *const t = &p->tables.of[i];
        pare_json_open_object(w, NULL);
        put_packed(w, &t->packed, pare_passes[t->step->pass]->name);
        pare_json_close(w);
    }
    pare_json_close(w);
}

static void put_memory(pare_json_writer *w, const pare_plan *p)
{
    pare_json_open_object(w, "memory");
    pare_json_put_integer(w, "anonymous_bytes", (int64_t)p->settled.memory.anonymous_bytes);
    pare_json_put_integer(w, "mapped_bytes", (int64_t)p->settled.memory.mapped_bytes);
    pare_json_put_integer(w, "limit_bytes", (int64_t)p->settled.memory.limit_bytes);
    pare_json_put_text(w, "limit", p->settled.memory.limit);
    pare_json_close(w);
    if (p->device)
        pare_json_put_text(w, "device", p->device);
    if (p->device_fallback)
        pare_json_put_text(w, "device_fallback", p->device_fallback);
    if (!p->device_bytes)
        return;
    pare_json_open_object(w, "device_memory");
    pare_json_put_integer(w, "bytes", (int64_t)p->device_bytes);
    pare_json_put_integer(w, "free_bytes", (int64_t)p->device_free);
    pare_json_close(w);
}

static void put_time(pare_json_writer *w, const pare_plan_estimate *t)
{
    pare_json_put_finite(w, "seconds", t->seconds);
    pare_json_put_finite(w, "seconds_least", t->least);
    pare_json_put_finite(w, "seconds_most", t->most);
    pare_json_put_integer(w, "load", (int64_t)t->load);
    pare_json_open_array(w, "phases");
    for (size_t i = 0; i < PARE_PLAN_PHASES; i++) {
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "name", pare_plan_phase_name(i));
        pare_json_put_finite(w, "seconds", t->phase[i]);
        pare_json_close(w);
    }
    pare_json_close(w);
}

static void put_passes(pare_json_writer *w, const pare_plan *p)
{
    char word[32];
    pare_json_open_array(w, "passes");
    for (size_t i = 0; i < p->recipe.steps; i++) {
        const char *const correct = pare__plan_correct(p, i, word, sizeof word);
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "name", pare__plan_pass(p, i));
        if (correct)
            pare_json_put_text(w, "correct", correct);
        pare_json_close(w);
    }
    pare_json_close(w);
}

static void put_requirements(pare_json_writer *w, const pare_plan *p)
{
    const pare_recipe *const r = &p->recipe;
    pare_json_open_array(w, "requirements");
    for (size_t i = 0; i < r->requirements; i++) {
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "name", r->requirement[i].name);
        pare_json_put_text(w, "bound", r->requirement[i].text.text);
        pare_json_put_bool(w, "feasible",
                           !pare__plan_larger(p, &r->requirement[i]) || pare_plan_known_once(p));
        pare_json_close(w);
    }
    pare_json_close(w);
    pare_json_put_integer(w, "fallbacks", (int64_t)r->fallbacks);
}

static void put_evaluations(pare_json_writer *w, const pare_recipe *r)
{
    pare_json_open_array(w, "evaluations");
    for (size_t i = 0; i < r->evaluations; i++) {
        const pare_evaluation *const e = &r->evaluation[i];
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "kind", pare_evaluation_kind_name(e->kind));
        if (e->task.text)
            pare_json_put_text(w, "task", e->task.text);
        pare_json_put_text(w, "data", pare_evaluation_data(e)->text);
        if (!pare_evaluation_asks(e->kind))
            pare_json_put_integer(w, "window", (int64_t)e->window);
        if (e->limit)
            pare_json_put_integer(w, "limit", (int64_t)e->limit);
        pare_json_close(w);
    }
    pare_json_close(w);
}

static void put_fallbacks(pare_json_writer *w, const pare_recipe *r, const pare_fallback_size *size)
{
    pare_json_open_array(w, "fallback_plans");
    for (size_t i = 0; i < r->fallbacks; i++) {
        const pare_fallback_size *const x = &size[i];
        pare_json_open_object(w, NULL);
        pare_json_open_array(w, "settings");
        for (size_t j = 0; j < r->fallback[i].count; j++)
            pare_json_put_text(w, NULL, r->fallback[i].item[j].text);
        pare_json_close(w);
        pare_json_put_bool(w, "feasible", !pare_fallback_infeasible(x));
        pare_json_put_bool(w, "first", x->first);
        pare_json_put_integer(w, "packed_bytes", (int64_t)x->bytes);
        pare_json_put_bool(w, "packed_bytes_exact", !x->known_once);
        pare_json_put_finite(w, "bits_per_weight", x->bits_per_weight);
        pare_json_close(w);
    }
    pare_json_close(w);
}

/* What the calibration is to give them, where it looks at them. */
static void put_experts(pare_json_writer *w, const pare_plan *p)
{
    if (!p->experts)
        return;
    pare_json_put_integer(w, "experts_in_a_pass", (int64_t)p->settled.memory.chunk);
    if (!pare_plan_sees_experts(p))
        return;
    pare_json_open_object(w, "experts");
    pare_json_put_integer(w, "min_tokens", (int64_t)pare_plan_min_tokens(p, &p->settled));
    pare_json_put_text(w, "cold_policy", pare_cold_policy_name(p->recipe.calibration.cold));
    pare_json_close(w);
}

static void put_plan(pare_json_writer *w, const pare_plan *p, const pare_plan_estimate *time)
{
    pare_json_put_text(w, "model", p->model_path);
    if (p->original_path)
        pare_json_put_text(w, "original", p->original_path);
    pare_json_put_text(w, "output", p->place.output);
    pare_json_put_bool(w, "needs_restart", pare__plan_is_taken(p));
    pare_json_put_integer(w, "packed_bytes", (int64_t)p->settled.packed_bytes);
    pare_json_put_bool(w, "packed_bytes_exact", !pare_plan_known_once(p));
    pare_json_put_integer(w, "other_bytes", (int64_t)p->settled.other_bytes);
    pare_json_put_integer(w, "input_bytes", (int64_t)p->input_bytes);
    pare_json_put_finite(w, "bits_per_weight", p->settled.bits_per_weight);
    pare_json_put_kv(w, &p->model.config, &p->recipe.kv);
    pare_json_put_bool(w, "plain_checkpoint", p->structured);
    put_passes(w, p);
    pare_json_put_integer(w, "samples", (int64_t)p->settled.samples);
    pare_json_put_integer(w, "window", (int64_t)p->window);
    pare_json_put_text(w, "token_weights", p->token_weights ? "loss" : "even");
    if (p->calibrated)
        pare_json_put_text(w, "precision", pare_plan_precision(p));
    put_statistics(w, p);
    pare_json_put_integer(w, "held_out_windows",
                          (int64_t)(p->settled.held_out ? p->settled.held_out : p->held_out));
    put_evaluations(w, &p->recipe);
    put_experts(w, p);
    pare_json_put_bool(w, "spill", p->settled.memory.spill);
    pare_json_put_bool(w, "sparing", p->settled.memory.sparing);
    put_memory(w, p);
    pare_json_put_integer(w, "disk_bytes", (int64_t)p->settled.disk_bytes);
    pare_json_put_integer(w, "disk_free_bytes", (int64_t)p->settled.disk_free_bytes);
    pare_json_put_integer(w, "temporary_bytes", (int64_t)pare__plan_temporary(p));
    pare_json_put_text(w, "temporary_directory", pare_scratch_directory());
    put_time(w, time);
    put_linears(w, p);
    put_requirements(w, p);
    put_warnings(w, p, time);
    put_exports(w, p);
}

pare_status pare__plan_print_json(pare_cli *cli, const pare_plan *p, const pare_plan_estimate *time,
                                  size_t jobs, const pare_fallback_size *size)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    if (jobs > 1) {
        pare_json_open_object(w, "smaller");
        put_plan(w, p, time);
        pare_json_close(w);
    }
    put_plan(w, &p[jobs - 1], &time[jobs - 1]);
    put_fallbacks(w, &p[jobs - 1].recipe, size);
    pare_json_close(w);
    return pare_cli_print(w);
}
