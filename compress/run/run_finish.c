#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compress/output/inventory.h"
#include "compress/output/output.h"
#include "compress/plan/plan_reap.h"
#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_outside.h"
#include "compress/run/run_reap.h"
#include "compress/run/run_rotate.h"
#include "compress/text/version.h"
#include "formats/checksums.h"
#include "formats/dense.h"
#include "runtime/file.h"
#include "runtime/linalg.h"
#include "runtime/threads.h"

static pare_status sync_written(pare_run *run)
{
    if (!run->walk.front)
        return pare_packed_sync(run->cx, run->writer);
    PARE_TRY(pare__floats_sync(run, &run->pruned));
    return pare__floats_sync(run, &run->trained);
}

pare_status pare__run_commit(pare_run *run, const pare_unit_result *unit)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    unsigned char *payload;
    size_t len;
    pare_status s = sync_written(run);
    if (s == PARE_OK)
        s = pare_result_encode(run->cx, &run->scratch, unit, &payload, &len);
    if (s == PARE_OK)
        s = pare__run_inputs_watched(run);
    if (s == PARE_OK)
        s = pare_journal_append(run->cx, run->journal, payload, len);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

pare_status pare__run_hash_packed(pare_run *run)
{
    const uint32_t shards = run->settled.layout.shards;
    pare_file *const file = PARE_NEW(run->a, pare_file, shards);
    run->hash.packed_sha256 = pare_arena_take(run->a, shards, sizeof *run->hash.packed_sha256);
    if (!file || !run->hash.packed_sha256)
        return PARE_ENOMEM;
    for (uint32_t i = 0; i < shards; i++) {
        const pare_status s = pare_packed_map_file(run->cx, run->writer, i, &file[i]);
        if (s == PARE_EIO) { /* the file system has no maps that others write to */
            pare_ctx_clear(run->cx);
            return PARE_OK;
        }
        PARE_TRY(s);
    }
    return pare_hashing_begin(run->cx, file, shards, run->hash.packed_sha256, NULL,
                              &run->hash.packed);
}

pare_status pare__run_packed_ready(pare_run *run, size_t unit)
{
    const pare_packed_layout *const l = &run->settled.layout;
    if (!run->hash.packed || run->walk.front)
        return PARE_OK;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    uint64_t *const ready = PARE_NEW(&run->scratch, uint64_t, l->shards);
    if (!ready)
        return PARE_ENOMEM;
    memcpy(ready, l->file_bytes, l->shards * sizeof *ready);
    for (size_t i = 0; i < l->entries; i++) {
        const pare_packed_entry *const e = &l->entry[i];
        if (e->unit > unit && e->offset < ready[e->shard])
            ready[e->shard] = e->offset;
    }
    for (uint32_t i = 0; i < l->shards; i++)
        pare_hashing_ready(run->hash.packed, i, ready[i]);
    pare_arena_rewind(&run->scratch, mark);
    return PARE_OK;
}

pare_status pare__run_put_part(pare_run *run, const pare_packed_entry *e, uint64_t first,
                               uint64_t len, const void *bytes)
{
    pare_packed_entry part = *e;
    part.offset += first;
    part.tensor.bytes = len;
    return pare_packed_put(run->cx, run->writer, &part, bytes);
}

/* A tensor that goes from file to file: it is hashed while it is written. */
enum { COPY_WRITE, COPY_HASH, COPY_TASKS };

typedef struct copy_job {
    pare_run *run;
    const pare_packed_entry *entry;
    const pare_tensor *tensor;
    uint8_t *hash;
    pare_status status;
} copy_job;

static void copy_task(void *arg, size_t begin, size_t end, size_t worker)
{
    copy_job *const job = arg;
    const pare_tensor *const t = job->tensor;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        if (i == COPY_WRITE)
            job->status = pare_packed_put(job->run->cx, job->run->writer, job->entry, t->data);
        else
            pare_xxh3(t->data, (size_t)t->bytes, job->hash);
}

pare_status pare__run_kept(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    const size_t blocks = plan->out.blocks;
    pare_unit_result *const unit = &run->units.result[blocks], before = *unit;
    const pare_unit_result *const found = run->units.found > blocks ? &before : NULL;
    *unit = (pare_unit_result){.row = unit->row, .rows = unit->rows};
    unit->kept = PARE_NEW(run->a, pare_kept_hash, run->settled.layout.entries);
    if (!unit->kept)
        return PARE_ENOMEM;
    PARE_TRY(pare__run_tables(run, unit));
    for (size_t i = 0; i < run->settled.layout.entries; i++) {
        const pare_packed_entry *const e = &run->settled.layout.entry[i];
        if (e->unit != blocks || e->plane)
            continue;
        PARE_TRY(pare_ctx_interrupted(run->cx));
        pare_ctx_progress(run->cx, "copying tensors that stay", (double)i,
                          (double)run->settled.layout.entries);
        pare_kept_hash *const k = &unit->kept[unit->kept_count++];
        bool done;
        k->name = e->tensor.name;
        PARE_TRY(pare__rotate_put(run, e, k->hash, &done));
        if (!done)
            PARE_TRY(pare__run_kv_put(run, e, k->hash, &done));
        if (!done)
            PARE_TRY(pare__reap_put(run, e, k->hash, &done));
        if (done)
            continue;
        const pare_tensor *const t = pare__reap_source(run, e->tensor.name);
        PARE_TRY(pare__outside_put(run, e, t, found, k->hash, &done));
        if (done)
            continue;
        copy_job job = {run, e, t, k->hash, PARE_OK};
        pare_parallel(run->cx, COPY_TASKS, 1, copy_task, &job);
        PARE_TRY(job.status);
    }
    return run->units.found > blocks ? pare_packed_sync(run->cx, run->writer)
                                     : pare__run_commit(run, unit);
}

static pare_status write_output(pare_run *run, const char *name, const void *bytes, size_t len)
{
    char *const path = pare_path_join(run->a, run->plan->place.partial, name);
    return path ? pare_file_write(run->cx, path, bytes, len) : PARE_ENOMEM;
}

/* The rows of all blocks, *count of them, one behind the other; then those of tables. */
static pare_status gather_rows(pare_run *run, pare_linear_result **row, size_t *count)
{
    const pare_unit_result *const rest = &run->units.result[run->plan->out.blocks];
    *row = PARE_NEW(run->a, pare_linear_result, run->plan->linears + rest->rows);
    if (!*row)
        return PARE_ENOMEM;
    *count = 0;
    for (size_t i = 0; i < run->plan->linears; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        const pare_unit_result *const unit = &run->units.result[l->block];
        for (size_t r = 0; r < unit->rows; r++)
            if (strcmp(unit->row[r].linear.name, l->packed.name) == 0)
                (*row)[(*count)++] = unit->row[r];
    }
    if (*count != run->plan->linears)
        return pare_fail(run->cx, PARE_EFORMAT, "%s: the journal does not name every linear",
                         run->plan->place.partial);
    if (rest->rows)
        memcpy(*row + *count, rest->row, rest->rows * sizeof **row);
    return PARE_OK;
}

/* The packed files, which could not be hashed while they were written. */
static pare_status hash_written(pare_run *run)
{
    const pare_packed_layout *const l = &run->settled.layout;
    pare_file *const file = PARE_NEW(run->a, pare_file, l->shards);
    pare_status s = file ? PARE_OK : PARE_ENOMEM;
    for (uint32_t i = 0; i < l->shards && s == PARE_OK; i++) {
        char *const path = pare_path_join(run->a, run->plan->place.partial, l->shard_name[i]);
        s = path ? pare_file_map(run->cx, run->a, path, &file[i]) : PARE_ENOMEM;
    }
    if (s == PARE_OK)
        s = pare_sha256_files(run->cx, file, l->shards, run->hash.packed_sha256);
    for (uint32_t i = 0; file && i < l->shards; i++)
        pare_file_unmap(&file[i]);
    return s;
}

/* The list of outputs: packed files, whose digests are at hand by now, and `count` others. */
static pare_status list_outputs(pare_run *run, const char **name, size_t count)
{
    const pare_packed_layout *const l = &run->settled.layout;
    run->files.output = PARE_NEW(run->a, pare_file_digest, l->shards + count);
    if (!run->files.output)
        return PARE_ENOMEM;
    PARE_TRY(run->hash.packed ? pare_hashing_end(run->cx, &run->hash.packed) : hash_written(run));
    for (uint32_t i = 0; i < l->shards; i++) {
        run->files.output[i] =
            (pare_file_digest){.file = l->shard_name[i], .bytes = l->file_bytes[i]};
        memcpy(run->files.output[i].sha256, run->hash.packed_sha256[i],
               sizeof run->files.output[i].sha256);
    }
    run->files.outputs = l->shards + count;
    return pare_inventory_digest(run->cx, run->a, run->plan->place.partial, name, count,
                                 run->files.output + l->shards);
}

/* Hashes of all that is not a plane: what folds changed, block by block, then the rest. */
static pare_status gather_kept(pare_run *run, pare_kept_hash **kept, size_t *count)
{
    const size_t units = run->plan->out.blocks + 1;
    size_t all = 0;
    for (size_t i = 0; i < units; i++)
        all += run->units.result[i].kept_count;
    *count = 0;
    *kept = PARE_NEW(run->a, pare_kept_hash, all);
    for (size_t i = 0; *kept && i < units; i++)
        for (size_t j = 0; j < run->units.result[i].kept_count; j++)
            (*kept)[(*count)++] = run->units.result[i].kept[j];
    return *kept ? PARE_OK : PARE_ENOMEM;
}

/* What structured steps took out of the blocks, in their order. */
static pare_status gather_cuts(pare_run *run, pare_structure_result *out)
{
    const pare_plan *const plan = run->plan;
    const size_t blocks = plan->out.blocks, most = blocks * plan->recipe.steps * PARE_PARTS;
    pare_cut_result *const cut = PARE_NEW(run->a, pare_cut_result, most);
    size_t *const cut_block = PARE_NEW(run->a, size_t, most);
    if (!cut || !cut_block)
        return PARE_ENOMEM;
    for (size_t b = 0; plan->structured && b < blocks; b++)
        for (size_t i = 0; i < run->units.result[b].cuts && out->cuts < most; i++) {
            cut_block[out->cuts] = b;
            pare_cut_result *const c = &cut[out->cuts++];
            *c = run->units.result[b].cut[i];
            c->pass = c->step < plan->recipe.steps
                          ? pare_passes[plan->recipe.step[c->step].pass]->name
                          : "";
        }
    out->cut = cut;
    out->cut_block = cut_block;
    out->before = &run->model.config;
    out->captured = run->slice.captured;
    return PARE_OK;
}

static pare_status write_manifest(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    pare_config shape = plan->out;
    shape.tied = shape.tied && !plan->unties;
    pare_kept_hash *kept;
    size_t kept_count;
    PARE_TRY(gather_kept(run, &kept, &kept_count));
    pare_manifest m = {.version = PARE_VERSION,
                       .recipe = run->recipe_portable,
                       .seed = plan->recipe.seed,
                       .tokens_sha256 = plan->calibrated ? run->data.sha256 : NULL,
                       .held_out_sha256 = plan->held_out ? run->data.held_out_sha256 : NULL,
                       .training_sha256 = plan->training ? run->data.training_sha256 : NULL,
                       .windows = plan->calibrated ? run->settled.samples : 0,
                       .window = plan->calibrated ? plan->window : 0,
                       .fresh = run->settled.fresh,
                       .token_weights = plan->token_weights,
                       .precision = pare_plan_precision(plan),
                       .statistics = plan->kept.used ? run->kept.xxh3 : NULL,
                       .share = run->data.share,
                       .shares = plan->recipe.calibration.text.count,
                       .blas = pare__run_blas(run),
                       .config = &shape,
                       .layout = &run->settled.layout,
                       .kept = kept,
                       .kept_count = kept_count,
                       .bits_per_weight = run->settled.bits_per_weight,
                       .input = run->files.input,
                       .inputs = run->files.inputs,
                       .evaluated = run->files.evaluated,
                       .evaluated_count = run->files.evaluated_count,
                       .structure = plan->structured ? &run->structure : NULL,
                       .repair = run->repair,
                       .repairs = run->repairs,
                       .output = run->files.output,
                       .outputs = run->files.outputs};
    m.row = run->row;
    m.rows = run->rows + plan->tables.count;
    char *text;
    size_t len;
    PARE_TRY(pare_manifest_text(run->cx, run->a, &m, &text, &len));
    return write_output(run, PARE_MANIFEST_NAME, text, len);
}

static pare_status make_config(pare_run *run, char **text, size_t *len)
{
    const pare_plan *const plan = run->plan;
    const pare_json *const from = run->checkpoint.config;
    pare_config shape = plan->out;
    shape.tied = shape.tied && !plan->unties;
    if (!plan->structured)
        return pare_manifest_config(run->cx, run->a, from, &shape, text, len);
    if (pare_plan_reaps(plan))
        return pare_manifest_experts_config(run->cx, run->a, from, &shape,
                                            plan->model.config.experts,
                                            pare_plan_copies_codes(plan), text, len);
    return pare_manifest_dense_config(run->cx, run->a, from, &shape, &run->structure,
                                      plan->attention_bias, plan->mlp_bias, text, len);
}

pare_status pare__run_describe(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    PARE_TRY(gather_rows(run, &run->row, &run->rows));
    PARE_TRY(gather_cuts(run, &run->structure));
    const char *const *copied;
    char *config;
    size_t len, copies, count = 0;
    PARE_TRY(pare_output_copy_all(run->a, &run->checkpoint, plan->place.partial, &copied, &copies));
    const char **const name = PARE_NEW(run->a, const char *, copies + 2);
    if (!name)
        return PARE_ENOMEM;
    if (pare_packed_index_name(&run->settled.layout))
        name[count++] = pare_packed_index_name(&run->settled.layout);
    PARE_TRY(make_config(run, &config, &len));
    PARE_TRY(write_output(run, "config.json", config, len));
    name[count++] = "config.json";
    for (size_t i = 0; i < copies; i++)
        name[count++] = copied[i];
    PARE_TRY(write_output(run, "recipe.yaml", plan->recipe_text, plan->recipe_len));
    PARE_TRY(list_outputs(run, name, count));
    PARE_TRY(pare__run_inputs_hashed(run));
    return write_manifest(run);
}

pare_status pare__run_publish(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    return pare_output_place_publish(run->cx, run->a, &plan->place, run->settled.replaces,
                                     &run->teller);
}
