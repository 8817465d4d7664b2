#include "compress/export/export_run.h"

#include <string.h>
#include <sys/stat.h>

#include "compress/output/inputs.h"
#include "compress/output/output.h"
#include "formats/checksums.h"
#include "runtime/file.h"

static pare_status describe(pare__export *e)
{
    const pare_json *const linears = pare_json_get(e->ck.index, "linears");
    const size_t most = pare_json_count(linears);
    pare_packed_linear *const packed = PARE_NEW(e->a, pare_packed_linear, most + 1);
    if (!packed)
        return PARE_ENOMEM;
    size_t count = 0;
    const char *name;
    const pare_json *v;
    for (pare_json_iter it = {0}; count < most && pare_json_next(linears, &it, &name, &v);)
        PARE_TRY(pare_packed_linear_read(e->cx, name, v, &packed[count++]));
    e->source = (pare_export_source){.ck = &e->ck,
                                     .model = &e->model,
                                     .tensor = e->ck.tensor,
                                     .tensors = e->ck.tensors,
                                     .kv = e->model.kv.method};
    return pare_export_describe(e->a, &e->model, e->ck.config, packed, count, &e->source.shape);
}

static pare_status wrote_it(const pare__export *e, bool *ours)
{
    char *const path = pare_path_join(e->a, e->job->artifact, PARE_MANIFEST_NAME), *text;
    size_t len;
    *ours = false;
    if (!path)
        return PARE_ENOMEM;
    if (!pare_path_is_file(path))
        return PARE_OK;
    PARE_TRY(pare_file_read(e->cx, e->a, path, PARE_MANIFEST_CAP, &text, &len));
    *ours = pare_manifest_is_ours(text, len);
    return PARE_OK;
}

/* A checkpoint in floats has no codes to hold; one that pare wrote becomes a file of floats. */
static pare_status check_floats(const pare__export *e)
{
    const char *const format = e->job->target->name;
    bool ours;
    PARE_TRY(wrote_it(e, &ours));
    if (!ours)
        return pare_fail(e->cx, PARE_ENOTSUP,
                         "%s: not a packed artifact; export writes what pare compress has made. "
                         "Give a checkpoint in floats to pare compress, with a quantizer and "
                         "export: [{format: %s, path: PATH}] in its recipe",
                         e->job->artifact, format);
    if (e->job->target->kind == PARE_EXPORT_FILE && e->job->target->fate == PARE_EXPORT_ROUNDED)
        return PARE_OK;
    if (e->job->target->fate == PARE_EXPORT_ROUNDED)
        return pare_fail(e->cx, PARE_ENOTSUP,
                         "%s: is a checkpoint in floats already; gguf:f16 makes a file for "
                         "llama.cpp of it",
                         e->job->artifact);
    return pare_fail(e->cx, PARE_ENOTSUP,
                     "%s: holds floats, of which gguf:f16 makes a file for llama.cpp; for %s give "
                     "it to pare compress as model, with a quantizer and export: [{format: %s, "
                     "path: PATH}] in the recipe",
                     e->job->artifact, format, format);
}

/* Its weights are only mapped. */
static pare_status open_artifact(pare__export *e)
{
    PARE_TRY(pare_checkpoint_open(e->cx, e->a, e->job->artifact, &e->ck));
    if (!e->ck.packed)
        PARE_TRY(check_floats(e));
    PARE_TRY(pare_inputs_watch(e->a, &e->ck));
    PARE_TRY(pare_model_load(e->cx, e->a, &e->ck, &e->model));
    return describe(e);
}

static pare_status check_weights(pare__export *e)
{
    bool checked;
    for (size_t i = 0; i < e->ck.files; i++)
        pare_file_read_ahead(&e->ck.file[i]);
    return e->job->unchecked ? PARE_OK : pare_checkpoint_check(&e->ck, &checked);
}

/* {"Q5_0": 12, "F16": 2} */
static void put_fallbacks(pare_json_writer *w, const pare_export_result *r)
{
    pare_export_type type[PARE_EXPORT_TYPES];
    const size_t types = pare_export_fallback_types(r, type);
    pare_json_open_object(w, "fallbacks");
    for (size_t i = 0; i < types; i++)
        pare_json_put_integer(w, type[i].name, (int64_t)type[i].count);
    pare_json_close(w);
}

void pare_export_put(pare_json_writer *w, const pare_export_result *r, bool rows)
{
    if (r->error >= 0)
        pare_json_put_number(w, "relative_error", r->error);
    pare_json_put_integer(w, "bytes", (int64_t)r->bytes);
    if (r->ranks > 1)
        pare_json_put_integer(w, "tensor_parallel", (int64_t)r->ranks);
    if (r->notice)
        pare_json_put_text(w, "notice", r->notice);
    pare_json_open_object(w, "fates");
    for (pare_export_fate f = 0; f < PARE_EXPORT_FATES; f++)
        pare_json_put_integer(w, pare_export_fate_name(f), (int64_t)r->count[f]);
    pare_json_close(w);
    if (r->fallbacks)
        put_fallbacks(w, r);
    if (!rows)
        return;
    pare_json_open_array(w, "linears");
    for (size_t i = 0; i < r->rows; i++) {
        if (r->row[i].again)
            continue;
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "name", r->row[i].name);
        if (r->row[i].was)
            pare_json_put_text(w, "encoding", r->row[i].was);
        pare_json_put_text(w, "fate", pare_export_fate_name(r->row[i].fate));
        if (r->row[i].type) {
            pare_json_put_text(w, "type", r->row[i].type);
            pare_json_put_bool(w, "fallback", r->row[i].fallback);
            if (r->row[i].beside_floats)
                pare_json_put_bool(w, "beside_floats", true);
        }
        pare_json_put_number(w, "relative_error", r->row[i].error);
        pare_json_close(w);
    }
    pare_json_close(w);
}

void pare__export_count(pare_export_result *r)
{
    memset(r->count, 0, sizeof r->count);
    for (size_t i = 0; i < r->rows; i++)
        r->count[r->row[i].fate] += !r->row[i].again;
}

static pare_status lock_place(pare_ctx *cx, pare_arena *a, const pare_export_job *job,
                              pare_export_place *p, pare_lock *lock)
{
    PARE_TRY(pare_export_place_find(cx, a, job->artifact, job->output, job->target->kind, p));
    return pare_lock_take(cx, a, p->at.output, "export", &job->teller, lock);
}

pare_status pare_export_mend(pare_ctx *cx, pare_arena *a, const pare_export_job *job)
{
    pare_export_place p;
    pare_lock lock = {0};
    bool unfinished;
    pare_status s = lock_place(cx, a, job, &p, &lock);
    if (s == PARE_OK)
        s = pare_output_place_mend(cx, a, &p.at, &job->teller, &unfinished);
    pare_lock_release(&lock);
    return s;
}

/* What was begun and not published goes; the failure that led here is the one that is told. */
static pare_status discard(const pare__export *e, pare_status s)
{
    struct stat st;
    const pare_output_place *const at = &e->place.at;
    const pare_status gone = lstat(at->partial, &st) != 0
                                 ? PARE_OK
                                 : pare_owned_discard(e->cx, at->partial, at->kind, PARE_OWNED_ALL);
    return s != PARE_OK ? s : gone;
}

static pare_status run(pare__export *e)
{
    const pare_export_job *const job = e->job;
    bool unfinished;
    PARE_TRY(lock_place(e->cx, e->a, job, &e->place, &e->lock));
    PARE_TRY(open_artifact(e));
    PARE_TRY(pare__export_outline(e)); /* what cannot be exported costs nothing that is there */
    PARE_TRY(pare_output_place_mend(e->cx, e->a, &e->place.at, &job->teller, &unfinished));
    PARE_TRY(pare_export_place_check(e->cx, e->a, &e->place, job->restart));
    PARE_TRY(check_weights(e));
    const bool file = e->target->kind == PARE_EXPORT_FILE;
    pare_status made = file ? pare__export_file(e) : pare__export_directory(e);
    if (made == PARE_OK)
        made = pare_watch_check(e->cx, &e->ck.watch);
    if (made != PARE_OK)
        return discard(e, made);
    const pare_status s =
        pare_output_place_publish(e->cx, e->a, &e->place.at, e->place.replaces, &job->teller);
    return s == PARE_EEXISTS
               ? pare_fail_context(e->cx, s, "the finished export waits in %s", e->place.at.work)
               : s;
}

pare_status pare_export_run(pare_ctx *cx, pare_arena *a, const pare_export_job *job,
                            pare_export_result *out)
{
    pare__export e = {.cx = cx,
                      .a = a,
                      .kept = a,
                      .job = job,
                      .target = job->target,
                      .ranks = job->ranks,
                      .strict = job->strict,
                      .out = out,
                      .gguf = {.fd = -1}};
    *out = (pare_export_result){0};
    pare_status s = pare_arena_init(cx, &e.scratch, 0);
    if (s == PARE_OK)
        s = run(&e);
    if (e.ck.cx)
        pare_checkpoint_close(&e.ck);
    pare_arena_release(&e.scratch);
    pare_lock_release(&e.lock);
    if (s != PARE_OK)
        out->rows = 0;
    return s;
}
