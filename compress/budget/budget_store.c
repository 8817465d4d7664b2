/* The variants: a folder of packed files for each setting, and a journal with what each linear
 * lost.
 *
 * A record is of a block: of its linears in their order, of each the settings in theirs. Records
 * behind those of all blocks hold the KL measured (budget_measure.c). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calib/output_curvature.h"
#include "compress/budget/budget_internal.h"
#include "compress/output/output.h"
#include "compress/text/version.h"
#include "formats/hash.h"
#include "quant/gptq.h"
#include "runtime/file.h"
#include "runtime/linear.h"
#include "runtime/small.h"
#include "runtime/threads.h"

/* Another one when the same settings lead to other codes or records. */
#define STORE_FORMAT "1"

static const uint64_t shard_bytes = (uint64_t)4 << 30;

static pare_status fingerprint(const pare_budget *b, pare_json_writer *w, const char **text)
{
    char key[64], value[256];
    size_t len;
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "program", "pare " PARE_VERSION);
    pare_json_put_text(w, "format", STORE_FORMAT);
    for (size_t i = 0; i < b->settings; i++) {
        (void)snprintf(key, sizeof key, "setting %zu", i + 1);
        (void)snprintf(value, sizeof value, "%s: {%s}", b->setting[i].pass, b->setting[i].setting);
        pare_json_put_text(w, key, value);
    }
    pare_json_close(w);
    return pare_json_writer_finish(w, text, &len);
}

static pare_status open_journal(pare_budget *b, size_t found)
{
    pare_json_writer *w = NULL;
    const char *text;
    PARE_TRY(pare_json_writer_new(b->cx, &w));
    pare_status s = fingerprint(b, w, &text);
    b->records = 0;
    if (s == PARE_OK && found == 0)
        s = pare_journal_restart(b->cx, b->store, text, &b->journal);
    else if (s == PARE_OK)
        s = pare_journal_open(b->cx, b->a, b->store, text, &b->journal, &b->record, &b->records);
    pare_json_writer_free(w);
    return s;
}

/* The packed files of a setting; those that are there keep their bytes. */
static pare_status open_files(pare_budget *b, size_t setting)
{
    size_t *const unit = PARE_NEW(b->a, size_t, b->linears);
    char *const path = pare_path_join(b->a, b->store, b->setting[setting].label);
    if (!unit || !path)
        return PARE_ENOMEM;
    for (size_t i = 0; i < b->linears; i++)
        unit[i] = b->linear[i].block;
    PARE_TRY(pare_output_make(b->cx, b->a, path));
    PARE_TRY(pare_packed_layout_make(b->cx, b->a, NULL, NULL, 0, pare__budget_packed(b, setting, 0),
                                     unit, b->linears, shard_bytes, &b->layout[setting]));
    return pare_packed_create(b->cx, path, &b->layout[setting], &b->writer[setting]);
}

static const pare_packed_entry *entry_of(const pare_budget *b, size_t setting, size_t linear,
                                         pare_plane plane)
{
    char name[1024];
    (void)snprintf(name, sizeof name, "%s.%s", b->linear[linear].packed.name,
                   pare_packed_plane_name(plane));
    return pare_packed_find(&b->layout[setting], name);
}

/* The bytes of a linear as they stand in the files. */
static pare_status check_hash(pare_budget *b, size_t setting, size_t linear)
{
    const pare_packed_bytes bytes =
        pare_packed_linear_bytes(pare__budget_packed(b, setting, linear));
    uint8_t hash[16];
    pare_xxh3_state state;
    pare_xxh3_begin(&state);
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        const pare_packed_entry *const e = bytes.plane[p] ? entry_of(b, setting, linear, p) : NULL;
        void *data;
        if (!e)
            continue;
        PARE_TRY(pare_packed_map(b->cx, b->writer[setting], e, &data));
        pare_xxh3_add(&state, data, (size_t)bytes.plane[p]);
    }
    pare_xxh3_end(&state, hash);
    if (memcmp(hash, b->made[linear * b->settings + setting].hash, sizeof hash) == 0)
        return PARE_OK;
    return pare_fail(b->cx, PARE_EEXISTS,
                     "%s: %s of %s was damaged since it was written; --restart makes the variants "
                     "anew",
                     b->store, b->setting[setting].label, b->linear[linear].packed.name);
}

/* What the journal says of the first `found` blocks. */
static pare_status read_found(pare_budget *b, size_t found)
{
    size_t i, end;
    if (b->records < found)
        return pare_fail(b->cx, PARE_EEXISTS,
                         "%s: its journal has %zu of %zu blocks; --restart makes the variants anew",
                         b->store, b->records, found);
    for (size_t block = 0; block < found; block++) {
        pare__budget_range(b, block, &i, &end);
        const size_t bytes = (end - i) * b->settings * sizeof *b->made;
        if (b->record[block].len != bytes)
            return pare_fail(b->cx, PARE_EEXISTS,
                             "%s: its journal is of other linears; --restart makes the variants "
                             "anew",
                             b->store);
        memcpy(b->made + i * b->settings, b->record[block].payload, bytes);
        for (; i < end; i++)
            for (size_t s = 0; s < b->settings; s++)
                PARE_TRY(check_hash(b, s, i));
    }
    return PARE_OK;
}

pare_status pare__budget_store_begin(void *self, size_t found)
{
    pare_budget *const b = self;
    found = found < b->blocks ? found : b->blocks; /* what is no block has no variants */
    pare__budget_store_close(b);
    PARE_TRY(open_journal(b, found));
    for (size_t s = 0; s < b->settings; s++)
        PARE_TRY(open_files(b, s));
    PARE_TRY(read_found(b, found));
    /* a block that is made again is not in it twice; KL stands behind all blocks */
    return found < b->blocks && b->records > found
               ? pare_journal_keep(b->cx, b->journal, b->record, found)
               : PARE_OK;
}

void pare__budget_store_close(pare_budget *b)
{
    for (size_t s = 0; s < b->settings; s++) {
        pare_packed_close(b->cx, b->writer[s]);
        b->writer[s] = NULL;
    }
    pare_journal_close(b->cx, b->journal);
    b->journal = NULL;
}

/* trace(O E H E^T), of O the diagonal; q becomes E with its rows weighed. */
static double error_of(const pare_budget *b, const pare_pass_linear *l, float *q)
{
    for (size_t i = 0; i < l->n; i++) {
        const float *const o = l->outputs;
        const float weight = o ? sqrtf(o[i * PARE_OUTPUT_BLOCK + i % PARE_OUTPUT_BLOCK]) : 1.0F;
        for (size_t j = 0; j < l->k; j++)
            q[i * l->k + j] = weight * (l->w[i * l->k + j] - q[i * l->k + j]);
    }
    return pare_gptq_error(b->cx, q, NULL, l->h, l->n, l->k);
}

static pare_status write_planes(pare_budget *b, size_t setting, size_t index,
                                const pare_packed_planes *planes, uint8_t hash[16])
{
    pare_xxh3_state state;
    pare_xxh3_begin(&state);
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        if (!planes->plane[p])
            continue;
        PARE_TRY(pare_packed_put(b->cx, b->writer[setting], entry_of(b, setting, index, p),
                                 planes->plane[p]));
        pare_xxh3_add(&state, planes->plane[p], (size_t)planes->bytes.plane[p]);
    }
    pare_xxh3_end(&state, hash);
    return PARE_OK;
}

/* Values of a setting for a variant: without refinement, which makes all of them better alike. */
static void variant_values(const pare_step *step, const pare_param *params, double *value)
{
    for (size_t i = 0; params[i].name; i++)
        value[i] = strcmp(params[i].name, "refine") == 0 ? 0 : step->value[i];
}

/* A linear with one setting: its codes into the files, what it lost into `made`. */
static pare_status make_one(pare_budget *b, size_t setting, size_t index,
                            const pare_pass_linear *like, pare_arena *scratch)
{
    const pare_step *const step = &b->step[setting];
    const pare_pass *const pass = pare_passes[step->pass];
    pare_budget_made *const made = &b->made[index * b->settings + setting];
    const pare_packed_linear *const packed = pare__budget_packed(b, setting, index);
    pare_sparsity sparsity;
    pare_codes codes = {0};
    pare_linear_result result = {.linear = *packed};
    pare_packed_planes planes;
    pare_linear view;
    pare_pass_linear l = *like;
    double value[PARE_PARAMS_MAX];
    variant_values(step, pass->params, value);
    PARE_TRY(pare__budget_sparsity(b, setting, index, &sparsity));
    float *const w = pare_arena_take_raw(scratch, l.n * l.k, sizeof *w);
    if (!w)
        return PARE_ENOMEM;
    memcpy(w, like->w, l.n * l.k * sizeof *w);
    if (pass != pare_pass_find("gptq") && pass->site) /* else that of the base will do */
        PARE_TRY(pass->site(b->cx, value, l.stats, scratch, &l.site_state));
    l.w = w;
    l.sparsity = pass->sparsity ? &sparsity : NULL;
    l.codes = &codes;
    l.result = &result;
    PARE_TRY(pare_pass_run(b->cx, pass, value, &l, scratch));
    PARE_TRY(pare_packed_pack(b->cx, scratch, packed, &codes, &planes));
    PARE_TRY(write_planes(b, setting, index, &planes, made->hash));
    PARE_TRY(pare_packed_view(b->cx, scratch, packed, planes.plane, &view));
    pare_linear_to_f32(b->cx, &view, w);
    made->error = error_of(b, like, w);
    return PARE_OK;
}

/* "exl3-3 of q_proj" */
static void tell_variant(const pare_budget *b, size_t setting, size_t index)
{
    char what[128];
    const char *const name = b->linear[index].packed.name, *const dot = strrchr(name, '.');
    (void)snprintf(what, sizeof what, "%s of %s", b->setting[setting].label, dot ? dot + 1 : name);
    pare_ctx_progress(b->cx, what, 0, 1);
}

pare_status pare__budget_store_linear(void *self, size_t index, const pare_pass_linear *linear,
                                      pare_arena *scratch)
{
    pare_budget *const b = self;
    for (size_t s = 0; s < b->settings; s++) {
        tell_variant(b, s, index);
        const pare_mark mark = pare_arena_mark(scratch);
        const pare_status status = make_one(b, s, index, linear, scratch);
        pare_arena_rewind(scratch, mark);
        if (status != PARE_OK)
            return pare_fail_context(b->cx, status, "budget: %s of %s", b->setting[s].label,
                                     b->linear[index].packed.name);
    }
    return PARE_OK;
}

pare_status pare__budget_store_block(void *self, size_t block)
{
    pare_budget *const b = self;
    size_t begin, end;
    pare__budget_range(b, block, &begin, &end);
    for (size_t s = 0; s < b->settings; s++)
        PARE_TRY(pare_packed_sync(b->cx, b->writer[s]));
    return pare_journal_append(b->cx, b->journal, b->made + begin * b->settings,
                               (end - begin) * b->settings * sizeof *b->made);
}

/* What a setting takes whose state of a site is not that of the base. */
static size_t own_bytes(const pare_budget *b, size_t setting, size_t linear)
{
    const pare_step *const step = &b->step[setting];
    const pare_pass *const pass = pare_passes[step->pass];
    const pare_packed_linear *const p = &b->linear[linear].packed;
    if (pass == pare_pass_find("gptq"))
        return 0;
    const pare_pass_cost c = pass->cost(step->value, p->n, p->k, pare_threads(b->cx));
    return pare_larger(c.site_bytes, c.start_bytes) + c.linear_bytes;
}

/* The base has the room of one setting; codes of 8 bits and codebooks take more than its own. */
size_t pare__budget_store_bytes(const pare_budget *b)
{
    size_t most = 0;
    for (size_t i = 0; i < b->linears; i++) {
        const size_t count = b->linear[i].packed.n * b->linear[i].packed.k;
        for (size_t s = 0; s < b->settings; s++)
            most = pare_larger(most, count * 2 * sizeof(float) + own_bytes(b, s, i));
    }
    return most;
}
