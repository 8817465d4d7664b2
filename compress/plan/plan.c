#include "compress/plan/plan.h"

#include <string.h>
#include <sys/stat.h>

#include "calib/shares.h"
#include "calib/wave.h"
#include "compress/artifact/manifest.h"
#include "compress/output/journal.h"
#include "compress/plan/chain_part.h"
#include "compress/plan/job_data.h"
#include "compress/plan/job_paths.h"
#include "compress/plan/plan_internal.h"
#include "compress/plan/plan_reap.h"
#include "formats/checksums.h"
#include "formats/dense.h"
#include "formats/packed_kv.h"
#include "formats/tokenizer.h"
#include "runtime/file.h"
#include "runtime/small.h"

static const uint64_t shard_bytes = (uint64_t)4 << 30;

static pare_status read_recipe(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    const pare_job *const job = plan->job;
    const pare_pass_words *words;
    PARE_TRY(
        pare_job_read_recipe(cx, a, job->recipe, job->text, &plan->recipe_text, &plan->recipe_len));
    PARE_TRY(pare_pass_words_take(a, &words));
    const pare_recipe_source source = {pare_job_file(job), plan->recipe_text, plan->recipe_len,
                                       job->sets, job->set_count};
    PARE_TRY(pare_recipe_parse(cx, a, &source, words, pare_pass_count(), &plan->recipe));
    pare_chain_cut(job, &plan->recipe);
    return pare__plan_fallbacks(cx, a, plan, words);
}

static pare_job_path output_path(const pare_plan *plan)
{
    return (pare_job_path){plan->job->recipe, "output", plan->job->output, &plan->recipe.output};
}

/* A finished output stays, unless --restart is given, now or to the run whose unfinished work lies
 * beside it: such a run is continued. Its journal says which output that was. */
static pare_status check_replacing(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                                   bool unfinished, pare_settled *settled)
{
    const pare_job_path output = output_path(plan);
    const bool there = pare_path_is_directory(plan->place.output);
    settled->replaces = there && (plan->job->restart || unfinished);
    return pare_job_check_replacing(cx, a, &output, &plan->place, settled->replaces,
                                    plan->job->plan_only, &settled->finished);
}

pare_status pare_plan_places(pare_ctx *cx, pare_arena *a, const pare_plan *plan, bool unfinished,
                             pare_settled *settled)
{
    PARE_TRY(check_replacing(cx, a, plan, unfinished, settled));
    PARE_TRY(pare__plan_export_places(cx, a, plan, settled));
    return pare__plan_disk(cx, a, plan, settled);
}

/* The same for a plan to be looked at. */
static pare_status look_at_places(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    char *const journal = pare_path_join(a, plan->place.partial, PARE_JOURNAL_NAME);
    struct stat st;
    if (!journal)
        return PARE_ENOMEM;
    return pare_plan_places(cx, a, plan, stat(journal, &st) == 0 && st.st_size > 0, &plan->settled);
}

/* Names of what a chain and a search put beside their outputs. */
static pare_status check_beside(pare_ctx *cx, const pare_plan *plan, const pare_job_path *output)
{
    static const char *const end[] = {".smaller", ".variants"};
    for (size_t i = 0; i < sizeof end / sizeof *end; i++)
        if (plan->job->part != PARE_JOB_SMALLER && pare_ends_with(plan->place.output, end[i]))
            return pare_job_path_fail(cx, PARE_EUSAGE, output,
                                      "%s: names that end in %s are for folders beside outputs; "
                                      "give another output",
                                      plan->place.output, end[i]);
    return PARE_OK;
}

static pare_status resolve_paths(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    const pare_job *const job = plan->job;
    const pare_recipe *const r = &plan->recipe;
    const pare_job_path model = {job->recipe, "model", job->model, &r->model},
                        tokenizer = {job->recipe, "tokenizer", job->tokenizer, &r->tokenizer},
                        output = output_path(plan);
    PARE_TRY(pare_job_path_pick(cx, a, &model, &plan->model_path));
    PARE_TRY(pare_job_check_model(cx, a, &model, plan->model_path));
    if (job->tokenizer || r->tokenizer.text)
        PARE_TRY(pare_job_path_pick(cx, a, &tokenizer, &plan->tokenizer_path));
    PARE_TRY(pare_job_output(cx, a, &output, &plan->place));
    PARE_TRY(check_beside(cx, plan, &output));
    return pare_job_output_beside(cx, &output, &plan->place, plan->model_path);
}

static bool wants_text(const pare_recipe *r)
{
    bool text = r->calibration.text.count > 0;
    for (size_t i = 0; i < r->evaluations; i++)
        text = text || pare_evaluation_asks(r->evaluation[i].kind) || r->evaluation[i].text.text;
    return text;
}

/* Before a weight is unpacked: the tokenizer, which must be read whole when texts need it, and the
 * room for the weights. */
static pare_status look_ahead(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    const pare_mark mark = pare_arena_mark(a);
    pare_checkpoint ck;
    pare_tokenizer *t = NULL;
    bool has = false;
    pare_status s = pare_checkpoint_list(cx, a, plan->model_path, &ck);
    ck.tokenizer = plan->tokenizer_path;
    if (s == PARE_OK)
        s = pare_checkpoint_has_tokenizer(&ck, &has);
    if (s == PARE_OK && has && wants_text(&plan->recipe))
        s = pare_checkpoint_tokenizer(&ck, &t);
    if (s == PARE_OK && !plan->job->unlimited)
        s = pare_scratch_check_free(cx, ck.scratch.counted);
    pare_tokenizer_free(t);
    pare_checkpoint_close(&ck);
    pare_arena_rewind(a, mark);
    plan->untokenized = !has;
    return s;
}

static pare_status open_model(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    PARE_TRY(look_ahead(cx, a, plan));
    PARE_TRY(pare_checkpoint_open(cx, a, plan->model_path, &plan->checkpoint));
    plan->checkpoint.tokenizer = plan->tokenizer_path;
    if (plan->checkpoint.packed)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: is compressed already; give the checkpoint it was made from",
                         plan->model_path);
    PARE_TRY(pare_checkpoint_check_companions(&plan->checkpoint, a));
    for (size_t i = 0; i < plan->checkpoint.files; i++)
        plan->input_bytes += plan->checkpoint.file[i].bytes;
    plan->checkpoint.nonfinite = plan->recipe.nan != PARE_NAN_ERROR;
    return pare_model_load(cx, a, &plan->checkpoint, &plan->model);
}

/* Windows are cut to the context when the recipe does not name a size. */
static pare_status fit_window(pare_ctx *cx, const pare_plan *plan, size_t asked, bool given,
                              pare_place place, size_t *window)
{
    const size_t context = plan->model.config.context;
    if (given && asked > context)
        return pare_recipe_fail(cx, place,
                                "window %zu is above the model's context of %zu tokens; "
                                "take at most that",
                                asked, context);
    *window = asked < context ? asked : context;
    return PARE_OK;
}

static pare_status check_windows(pare_ctx *cx, pare_plan *plan)
{
    pare_calibration *const c = &plan->recipe.calibration;
    PARE_TRY(fit_window(cx, plan, c->window, c->window_given, c->window_place, &c->window));
    plan->window = c->window;
    plan->settled.samples = c->samples;
    plan->batch = pare_wave_batch(plan->window);
    if (plan->settled.samples)
        plan->batch = pare_smaller(plan->batch, pare_share_largest(plan->settled.samples));
    for (size_t i = 0; i < plan->recipe.evaluations; i++) {
        pare_evaluation *const e = &plan->recipe.evaluation[i];
        if (pare_evaluation_asks(e->kind))
            continue;
        PARE_TRY(fit_window(cx, plan, e->window, e->window_given, e->place, &e->window));
    }
    return PARE_OK;
}

/* Settings of the cache that the model at hand cannot keep. */
static pare_status check_kv(pare_ctx *cx, const pare_plan *plan)
{
    const pare_recipe *const r = &plan->recipe;
    const pare_config *const c = &plan->model.config;
    const char *const method = pare_kv_method_name(r->kv.method);
    if (r->kv.group && c->head_dim % r->kv.group != 0)
        return pare_recipe_fail(cx, r->kv_group_place,
                                "kv_cache: group %zu of method %s does not divide the %zu channels "
                                "of a head; take a multiple of 8 that does%s",
                                r->kv.group, method, c->head_dim,
                                r->kv.method == PARE_KV_INT4 ? ", or head" : ", or another method");
    if (r->kv.method == PARE_KV_KVQUANT && c->mixed)
        return pare_recipe_fail(cx, r->kv_place,
                                "kv_cache: method kvquant is not done for models of type %s, some "
                                "of whose blocks have no keys; take int8, int4 or kivi",
                                c->arch->model_type);
    const size_t exact = r->kv.window + r->kv.sink;
    if (exact && exact >= c->context)
        return pare_recipe_fail(cx, r->kv_place,
                                "kv_cache: method %s leaves %zu tokens in F16 (%s), but the model "
                                "has a context of %zu: nothing would be coded",
                                method, exact, r->kv.window ? "window" : "sink", c->context);
    return PARE_OK;
}

/* A file that will be read later is there now, and has that many bytes. */
static pare_status check_data(pare_ctx *cx, pare_arena *a, pare_plan *plan, const pare_text *file,
                              bool text, uint64_t *bytes)
{
    char *const path = pare_data_path(a, plan, file);
    if (!path)
        return PARE_ENOMEM;
    pare_path_kind kind;
    PARE_TRY(pare_path_look(cx, path, &kind));
    if (kind != PARE_PATH_FILE || !pare_path_bytes(path, bytes))
        return pare_recipe_fail(cx, file->place, "%s: %s", path,
                                kind == PARE_PATH_DIRECTORY ? "is a directory, not a file"
                                : kind == PARE_PATH_OTHER
                                    ? "is no regular file"
                                    : "no such file; a path in a recipe is relative to the recipe");
    bool has = true;
    if (text)
        PARE_TRY(pare_checkpoint_has_tokenizer(&plan->checkpoint, &has));
    if (!has)
        return pare_recipe_fail(cx, file->place,
                                "text needs the model's tokenizer, and in %s tokenizer.json is "
                                "missing (tokenizer.model or vocab.json with merges.txt would do); "
                                "name one with tokenizer: or --tokenizer, or give tokens: a file "
                                "of little-endian int32",
                                plan->checkpoint.directory);
    return text && !plan->data.tokenizer_bytes
               ? pare_checkpoint_tokenizer_bytes(&plan->checkpoint, &plan->data.tokenizer_bytes)
               : PARE_OK;
}

/* Texts with weights are read one after the other, others at once. */
static pare_status check_calibration(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    const pare_calibration *const c = &plan->recipe.calibration;
    for (size_t i = 0; i < c->text.count; i++) {
        uint64_t bytes;
        PARE_TRY(check_data(cx, a, plan, &c->text.item[i], true, &bytes));
        if (!c->weight)
            plan->data.text_bytes += bytes;
        else if (bytes > plan->data.text_bytes)
            plan->data.text_bytes = bytes;
    }
    if (!c->tokens.text)
        return PARE_OK;
    PARE_TRY(check_data(cx, a, plan, &c->tokens, false, &plan->data.token_bytes));
    plan->settled.windows = plan->data.token_bytes / sizeof(int32_t) / plan->window;
    return PARE_OK;
}

/* Most bytes of an item as it runs. */
static size_t item_bytes(const pare_choice_text *t)
{
    size_t longest = 0;
    for (size_t c = 0; c < t->choices; c++) {
        const size_t len = strlen(t->choice[c]);
        longest = len > longest ? len : longest;
    }
    return strlen(t->context) + t->choices * longest;
}

static pare_status read_items(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                              const pare_evaluation *e, pare_choice_texts *out)
{
    pare_task_asked asked;
    pare_task_texts task = {0};
    PARE_TRY(pare_data_asked(a, plan, e, &asked));
    if (e->kind == PARE_EVALUATE_CHOICE)
        return pare_choice_read(cx, a, asked.file, e->limit, NULL, out);
    const pare_status s = pare_task_read(cx, a, &asked, &task);
    *out = task.request;
    return s == PARE_EUSAGE ? pare_recipe_fail_at(cx, s, e->task.place) : s;
}

/* A mistake in a file of multiple choice or of a task is told before any work. A page, which
 * has no context, comes in parts that the model takes. */
static pare_status check_choice(pare_ctx *cx, const pare_plan *plan, const pare_evaluation *e,
                                pare_plan_choice *out)
{
    pare_arena a = {.cx = cx};
    pare_choice_texts texts = {0};
    const size_t most = 2 * plan->model.config.context;
    const pare_status s = read_items(cx, &a, plan, e, &texts);
    for (size_t i = 0; s == PARE_OK && i < texts.count; i++) {
        const size_t bytes = item_bytes(&texts.item[i]);
        out->bytes += bytes;
        const size_t as_run = !*texts.item[i].context && bytes > most ? most : bytes;
        out->longest = as_run > out->longest ? as_run : out->longest;
    }
    out->items = texts.count;
    pare_arena_release(&a);
    return s;
}

static pare_status check_data_files(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    const size_t count = plan->recipe.evaluations;
    uint64_t shots;
    if (plan->calibrated || plan->held_out)
        PARE_TRY(check_calibration(cx, a, plan));
    plan->data.evaluated_bytes = PARE_NEW(a, uint64_t, count);
    plan->data.choice = PARE_NEW(a, pare_plan_choice, count);
    if (!plan->data.evaluated_bytes || !plan->data.choice)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const pare_evaluation *const e = &plan->recipe.evaluation[i];
        PARE_TRY(check_data(cx, a, plan, pare_evaluation_data(e), !e->tokens.text,
                            &plan->data.evaluated_bytes[i]));
        if (e->shots_file.text)
            PARE_TRY(check_data(cx, a, plan, &e->shots_file, false, &shots));
        if (e->kind == PARE_EVALUATE_NEEDLE)
            pare__plan_needle(e, &plan->data.evaluated_bytes[i], &plan->data.choice[i]);
        else if (pare_evaluation_asks(e->kind))
            PARE_TRY(check_choice(cx, plan, e, &plan->data.choice[i]));
    }
    return PARE_OK;
}

/* Tensors that stay as they are belong to the unit behind the last block, changed ones to their
 * block. */
static pare_status lay_out(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                           pare_settled *settled)
{
    const pare_checkpoint *const ck = &plan->checkpoint;
    const size_t blocks = plan->out.blocks;
    const size_t levels = plan->recipe.kv.method == PARE_KV_KVQUANT ? blocks * PARE_KV_TABLES : 0;
    const size_t most = ck->tensors + ck->stacks + plan->changes + 1 + levels;
    const size_t linears = plan->linears + plan->tables.count;
    pare_tensor *const kept = PARE_NEW(a, pare_tensor, most);
    size_t *const unit = PARE_NEW(a, size_t, most);
    pare_packed_linear *const linear = PARE_NEW(a, pare_packed_linear, linears);
    size_t *const linear_unit = PARE_NEW(a, size_t, linears);
    if (!kept || !unit || !linear || !linear_unit)
        return PARE_ENOMEM;
    size_t count = 0;
    if (plan->unties) {
        PARE_TRY(pare__plan_head(a, plan, &kept[count]));
        unit[count++] = blocks;
    }
    for (size_t i = 0; i < ck->tensors; i++) {
        if (!plan->model.used[i] || pare__plan_replaces(plan, ck->tensor[i].name) ||
            (plan->unties && strcmp(ck->tensor[i].name, kept[0].name) == 0))
            continue;
        kept[count] = ck->tensor[i];
        pare__plan_cut_global(plan, &kept[count]);
        pare__plan_cut_experts(plan, &kept[count]);
        unit[count++] = blocks;
    }
    for (size_t i = 0; pare_plan_reaps(plan) && i < ck->stacks; i++) {
        kept[count] = ck->stack[i];
        pare__plan_cut_experts(plan, &kept[count]);
        unit[count++] = blocks;
    }
    for (size_t i = 0; i < plan->changes; i++) {
        kept[count] = plan->changed[i].tensor;
        unit[count++] = plan->changed[i].block;
    }
    for (size_t i = 0; i < levels; i++) {
        PARE_TRY(pare_packed_kv_tensor(a, &plan->model.config, i / PARE_KV_TABLES,
                                       (pare_kv_table)(i % PARE_KV_TABLES), &kept[count]));
        unit[count++] = blocks;
    }
    for (size_t i = 0; i < plan->linears; i++) {
        linear[i] = settled->linear[i].packed;
        linear_unit[i] = settled->linear[i].block;
    }
    for (size_t i = 0; i < plan->tables.count; i++) {
        linear[plan->linears + i] = plan->tables.of[i].packed;
        linear_unit[plan->linears + i] = blocks;
    }
    if (plan->structured) {
        PARE_TRY(pare_packed_layout_dense(cx, a, kept, unit, count, shard_bytes, &settled->layout));
    } else {
        PARE_TRY(pare_packed_layout_make(cx, a, kept, unit, count, linear, linear_unit, linears,
                                         shard_bytes, &settled->layout));
        PARE_TRY(pare_packed_layout_kv(cx, a, &plan->recipe.kv, &settled->layout));
        settled->bits_per_weight = pare_manifest_bits_per_weight(linear, plan->linears);
    }
    settled->packed_bytes = settled->layout.index_bytes;
    for (uint32_t i = 0; i < settled->layout.shards; i++)
        settled->packed_bytes += settled->layout.file_bytes[i];
    return PARE_OK;
}

/* What other ratios of the same mean can add to the files: half a weight in each row of the last
 * linear, padding, longer numbers in headers, one more file. */
static uint64_t ratio_bytes(const pare_plan *plan)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < plan->linears; i++)
        rows = plan->linear[i].packed.n > rows ? plan->linear[i].packed.n : rows;
    return rows * sizeof(uint16_t) * plan->recipe.steps + plan->settled.layout.entries * 64 + 8192;
}

pare_status pare_plan_settle(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                             const pare_plan_found *found, pare_settled *settled)
{
    pare_plan_linear *const linear = PARE_NEW(a, pare_plan_linear, plan->linears);
    if (!linear)
        return PARE_ENOMEM;
    for (size_t i = 0; i < plan->linears; i++) {
        pare_plan_linear *const l = &linear[i];
        *l = plan->linear[i];
        if (pare_plan_chooses_columns(plan, l))
            l->packed.outliers = found->columns[i];
        if (!l->pruned || pare_plan_ratios(plan, l->prune_step).rule == PARE_RATIOS_UNIFORM)
            continue;
        l->sparsity.ratio = found->ratio[i];
        pare__plan_store(l);
    }
    settled->linear = linear;
    return lay_out(cx, a, plan, settled);
}

/* A refusal for the smallest model there may be depends on no setting. */
static pare_status relieve(pare_ctx *cx, const pare_plan *plan, pare_status s)
{
    return s == PARE_ENOMEM && !plan->job->unlimited && !plan->job->stand_in
               ? pare__plan_relief(cx, plan)
               : s;
}

pare_status pare_plan_make(pare_ctx *cx, pare_arena *a, const pare_job *job, pare_plan *plan)
{
    *plan = (pare_plan){.job = job};
    PARE_TRY(read_recipe(cx, a, plan));
    PARE_TRY(resolve_paths(cx, a, plan));
    PARE_TRY(open_model(cx, a, plan));
    PARE_TRY(pare__plan_kept_open(cx, a, plan));
    PARE_TRY(pare__plan_resolve(cx, a, plan));
    if (job->stand_in && pare_chain_changes_basis(&plan->recipe))
        plan->unties = plan->model.config.tied;
    PARE_TRY(check_windows(cx, plan));
    PARE_TRY(pare__plan_original(cx, a, plan));
    PARE_TRY(pare__plan_answers(cx, plan));
    PARE_TRY(pare__plan_check_held(cx, plan, plan->settled.samples));
    PARE_TRY(pare__plan_train(cx, plan));
    PARE_TRY(check_kv(cx, plan));
    PARE_TRY(pare__plan_hold_out(cx, a, plan));
    PARE_TRY(pare__plan_require(cx, plan));
    PARE_TRY(check_data_files(cx, a, plan));
    PARE_TRY(pare__plan_original_tokens(cx, a, plan));
    plan->settled.linear = plan->linear;
    PARE_TRY(lay_out(cx, a, plan, &plan->settled));
    PARE_TRY(pare__plan_exports(cx, a, plan));
    PARE_TRY(pare__plan_kept_place(cx, a, plan));
    plan->settled.packed_bytes += plan->ratios ? ratio_bytes(plan) : 0;
    PARE_TRY(pare__plan_device(cx, a, plan));
    pare_status s = pare__plan_cost(cx, plan, &plan->settled);
    if (s != PARE_OK)
        return relieve(cx, plan, s);
    if (!job->plan_only)
        return PARE_OK;
    PARE_TRY(look_at_places(cx, a, plan));
    PARE_TRY(pare__plan_kept_look(cx, a, plan));
    if (plan->settled.finished || job->unlimited)
        return PARE_OK;
    s = pare__plan_data(cx, plan);
    return relieve(cx, plan, s);
}

void pare_plan_close(pare_plan *plan)
{
    pare_checkpoint_close(&plan->checkpoint);
    if (plan->original_path)
        pare_checkpoint_close(&plan->original_checkpoint);
}
