#include "compress/plan/plan_rates.h"
#include "compress/output/output_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "calib/tokens.h"
#include "compress/passes/quantize.h"
#include "compress/plan/plan_internal.h"
#include "compress/text/units.h"
#include "formats/hash.h"
#include "formats/sha256.h"
#include "quant/matrix_error.h"
#include "quant/rtn.h"
#include "runtime/file.h"
#include "runtime/gram_bf16.h"
#include "runtime/linalg.h"
#include "runtime/linear.h"
#include "runtime/machine.h"
#include "runtime/ops.h"
#include "runtime/small.h"
#include "runtime/threads.h"

/* A probe runs so long, or so often: the median leaves out what a neighbour takes now and then, and
 * has what one takes all the time. */
static const double least_seconds = 0.03;
enum {
    RUNS_LEAST = 3,
    RUNS_MOST = 128,
    LEAST = 32,           /* columns of a matrix: one group of codes */
    WIDTH = 1024,         /* most rows and columns */
    TOKENS = 2048,        /* of an input of it, as many as a job has in a batch of windows */
    VOCABULARY = 1 << 15, /* logits of a row */
    BYTES = 8 << 20,      /* hashed, copied, written */
    TEXT = 1 << 16,       /* read of a text */
    PIECES = 16,
    PIECE = 1 << 20, /* of the weights */
    SYNCS = 4,
    ROOM = 5 * BYTES /* of all of it: a job does not take new memory for each linear either */
};

/* Everything the probes share. */
typedef struct probe {
    pare_ctx *cx;
    pare_arena *a;
    const pare_plan *plan;
    size_t n, k;          /* of the matrix */
    float *w, *x, *y, *h; /* [n, k], [TOKENS, k], [TOKENS, n], [k, k] */
    uint16_t *half;       /* w in F16 */
    unsigned char *bytes;
    double divergence;
    uint64_t bad;
    pare_plan_rates *out;
} probe;

static size_t at_most(size_t size, size_t most)
{
    return size < most ? size : most;
}

/* Numbers around 0 that are no two alike. */
static void fill(float *x, size_t count)
{
    uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)state * 0x1p-31F;
    }
}

/* A matrix of the shape of the model's, if it is not too large. */
static pare_status begin(probe *p)
{
    const pare_config *const c = &p->plan->model.config;
    p->k = c->hidden < LEAST ? LEAST : at_most(c->hidden / LEAST * LEAST, WIDTH);
    p->n = at_most(c->hidden, WIDTH);
    p->w = PARE_NEW(p->a, float, p->n * p->k);
    p->x = PARE_NEW(p->a, float, TOKENS * p->k);
    p->y = PARE_NEW(p->a, float, TOKENS * p->n);
    p->bytes = pare_arena_take(p->a, BYTES, 1);
    if (!p->w || !p->x || !p->y || !p->bytes)
        return PARE_ENOMEM;
    fill(p->w, p->n * p->k);
    fill(p->x, TOKENS * p->k);
    return PARE_OK;
}

/* Seconds of one run of `work`, the median of some; one before them warms up. */
static pare_status median_seconds(probe *p, pare_status (*work)(probe *, const void *),
                                  const void *arg, double *seconds)
{
    double took[RUNS_MOST], sum = 0;
    size_t runs = 0;
    PARE_TRY(work(p, arg));
    while (runs < RUNS_LEAST || (runs < RUNS_MOST && sum < least_seconds)) {
        const double start = pare_seconds();
        PARE_TRY(work(p, arg));
        took[runs] = pare_seconds() - start;
        sum += took[runs++];
    }
    qsort(took, runs, sizeof *took, pare_by_double);
    *seconds = took[runs / 2];
    return PARE_OK;
}

static pare_status run_linear(probe *p, const void *linear)
{
    return pare_linear_apply(p->cx, p->a, linear, false, p->x, p->k, TOKENS, p->y, p->n);
}

static pare_status run_bf16(probe *p, const void *linear)
{
    return pare_linear_apply_bf16(p->cx, p->a, linear, p->x, p->k, TOKENS, p->y, p->n);
}

/* Operations in a second of x W^T. */
static pare_status time_linear(probe *p, pare_status (*work)(probe *, const void *),
                               const pare_linear *w, double *rate)
{
    double seconds;
    PARE_TRY(median_seconds(p, work, w, &seconds));
    *rate = 2.0 * TOKENS * (double)p->n * (double)p->k / seconds;
    return PARE_OK;
}

static pare_status run_gram(probe *p, const void *unused)
{
    (void)unused;
    pare_gram_add(p->cx, p->h, p->x, TOKENS, p->k);
    return PARE_OK;
}

static pare_status run_gram_bf16(probe *p, const void *side)
{
    pare_gram_add_bf16(p->cx, *(uint16_t *const *)side, p->h, p->x, NULL, TOKENS, p->k);
    return PARE_OK;
}

/* Operations in a second of what is counted only where a plan has it. */
static pare_status measure_bf16(probe *p, const pare_linear *w)
{
    uint16_t *const side = PARE_NEW(p->a, uint16_t, p->k * PARE_GRAM_LINE);
    double seconds;
    if (!side)
        return PARE_ENOMEM;
    PARE_TRY(time_linear(p, run_bf16, w, &p->out->gemm_bf16));
    PARE_TRY(median_seconds(p, run_gram_bf16, &side, &seconds));
    p->out->gram_bf16 = (double)TOKENS * (double)p->k * (double)p->k / seconds;
    return PARE_OK;
}

static pare_status measure_products(probe *p)
{
    const size_t count = p->n * p->k;
    double seconds;
    p->half = PARE_NEW(p->a, uint16_t, count);
    p->h = PARE_NEW(p->a, float, p->k * p->k);
    if (!p->half || !p->h)
        return PARE_ENOMEM;
    PARE_TRY(pare_f32_to_dtype(p->cx, PARE_F16, p->w, count, p->half));
    pare_linear w = {.name = "probe", .n = p->n, .k = p->k, .dtype = PARE_F32, .data = p->w};
    PARE_TRY(time_linear(p, run_linear, &w, &p->out->gemm));
    if (p->plan->bf16 || p->plan->train.bf16)
        PARE_TRY(measure_bf16(p, &w));
    w.dtype = PARE_F16;
    w.data = p->half;
    PARE_TRY(time_linear(p, run_linear, &w, &p->out->gemm_half));
    PARE_TRY(median_seconds(p, run_gram, NULL, &seconds));
    p->out->gram = (double)TOKENS * (double)p->k * (double)p->k / seconds;
    return PARE_OK;
}

/* A linear as a job compresses it. */
typedef struct coded {
    pare_grid grid;
    pare_packed_linear packed;
    pare_codes codes;
    pare_packed_planes planes;
    pare_linear view;
    float *loaded, *q; /* [n, k] as it is read, as it is stored */
} coded;

static pare_status run_rounding(probe *p, const void *arg)
{
    coded *const c = *(coded *const *)arg;
    return pare_rtn_quantize(p->cx, &c->grid, p->w, NULL, p->n, p->k, &c->codes);
}

/* Loaded, packed, hashed, decoded and measured. */
static pare_status run_storing(probe *p, const void *arg)
{
    coded *const c = *(coded *const *)arg;
    const pare_mark mark = pare_arena_mark(p->a);
    const size_t count = p->n * p->k;
    const pare_tensor t = {.dtype = PARE_F16,
                           .rank = 1,
                           .shape = {count},
                           .data = p->half,
                           .bytes = count * sizeof *p->half};
    uint8_t hash[16];
    double error[2];
    PARE_TRY(pare_tensor_to_f32(p->cx, &t, 0, count, c->loaded));
    pare_status s = pare_packed_pack(p->cx, p->a, &c->packed, &c->codes, &c->planes);
    for (size_t i = 0; s == PARE_OK && i < PARE_PLANES; i++)
        if (c->planes.plane[i])
            pare_xxh3(c->planes.plane[i], (size_t)c->planes.bytes.plane[i], hash);
    if (s == PARE_OK)
        s = pare_packed_view(p->cx, p->a, &c->packed, c->planes.plane, &c->view);
    if (s == PARE_OK) {
        pare_linear_to_f32(p->cx, &c->view, c->q);
        pare_matrix_errors(p->cx, c->loaded, c->q, c->loaded, NULL, p->n, p->k, error);
    }
    pare_arena_rewind(p->a, mark);
    return s;
}

static pare_status measure_codes(probe *p)
{
    coded c = {.grid = {.bits = 4, .group = 32, .symmetric = true, .f16_scales = true},
               .packed = {.name = "probe"},
               .loaded = PARE_NEW(p->a, float, p->n * p->k),
               .q = PARE_NEW(p->a, float, p->n * p->k)};
    coded *const at = &c;
    const double weights = (double)p->n * (double)p->k;
    double seconds;
    if (!c.loaded || !c.q)
        return PARE_ENOMEM;
    PARE_TRY(pare_quantize_keep(&c.grid, p->n, p->k, &c.packed));
    PARE_TRY(pare_codes_take(p->a, &c.grid, p->n, p->k, &c.codes));
    PARE_TRY(median_seconds(p, run_rounding, &at, &seconds));
    p->out->round = weights / seconds;
    PARE_TRY(median_seconds(p, run_storing, &at, &seconds));
    p->out->store = weights / seconds;
    PARE_TRY(pare_packed_pack(p->cx, p->a, &c.packed, &c.codes, &c.planes));
    PARE_TRY(pare_packed_view(p->cx, p->a, &c.packed, c.planes.plane, &c.view));
    return time_linear(p, run_linear, &c.view, &p->out->gemm_codes);
}

/* Pieces of the weight files, one somewhere in each stretch: some may lie in memory, others on the
 * disk. Another plan reads other pieces, because these lie in memory now. */
static pare_status measure_reading(probe *p)
{
    uint32_t place = (uint32_t)time(NULL) ^ (uint32_t)getpid();
    const pare_checkpoint *const ck = &p->plan->checkpoint;
    uint64_t all = 0, read = 0;
    uint8_t hash[16];
    for (size_t i = 0; i < ck->files; i++)
        all += ck->file[i].bytes;
    double seconds = 0, scanned = 0;
    for (size_t i = 0; i < ck->files; i++) {
        const uint64_t bytes = ck->file[i].bytes;
        const uint64_t pieces = bytes ? bytes * PIECES / all + 1 : 0;
        for (uint64_t j = 0; j < pieces; j++) {
            const uint64_t stretch = bytes / pieces, spare = stretch > PIECE ? stretch - PIECE : 0;
            place = place * 1664525u + 1013904223u;
            const uint64_t at = stretch * j + (spare >> 16) * (place >> 16);
            const size_t count = (size_t)(bytes - at < PIECE ? bytes - at : PIECE);
            const double start = pare_seconds();
            pare_xxh3(ck->file[i].data + at, count, hash);
            const double hashed = pare_seconds();
            p->bad += pare_count_nonfinite(PARE_F16, ck->file[i].data + at, count / 2);
            seconds += hashed - start;
            scanned += pare_seconds() - hashed;
            read += count;
        }
    }
    p->out->read = read ? (double)read / seconds : 0;
    p->out->scan = read ? (double)read / scanned : 0;
    return PARE_OK;
}

static pare_status run_hash(probe *p, const void *unused)
{
    char hex[PARE_SHA256_HEX];
    (void)unused;
    return pare_sha256_hex(p->cx, p->bytes, BYTES, hex);
}

static pare_status run_copy(probe *p, const void *unused)
{
    const pare_mark mark = pare_arena_mark(p->a);
    unsigned char *const copy = pare_arena_take(p->a, BYTES, 1);
    (void)unused;
    if (!copy)
        return PARE_ENOMEM;
    memcpy(copy, p->bytes, BYTES);
    pare_arena_rewind(p->a, mark);
    return PARE_OK;
}

static pare_status measure_memory(probe *p)
{
    double seconds;
    PARE_TRY(median_seconds(p, run_hash, NULL, &seconds));
    p->out->sha256 = BYTES / seconds;
    PARE_TRY(median_seconds(p, run_copy, NULL, &seconds));
    p->out->copy = BYTES / seconds;
    return PARE_OK;
}

/* What comparing the logits of two models takes. */
static pare_status run_comparison(probe *p, const void *logits)
{
    const float *const a = logits, *const b = a + VOCABULARY;
    p->divergence += pare_divergence(a, b, VOCABULARY);
    return PARE_OK;
}

static pare_status measure_comparison(probe *p)
{
    float *const logits = PARE_NEW(p->a, float, 2 * VOCABULARY);
    double seconds;
    if (!logits)
        return PARE_ENOMEM;
    fill(logits, (size_t)2 * VOCABULARY);
    PARE_TRY(median_seconds(p, run_comparison, logits, &seconds));
    p->out->compare = VOCABULARY / seconds;
    return PARE_OK;
}

static pare_status write_and_sync(probe *p, int fd, const char *path)
{
    pare_ctx *const cx = p->cx;
    const double start = pare_seconds();
    PARE_TRY(pare_file_put(cx, fd, path, p->bytes, BYTES, 0));
    PARE_TRY(pare_file_sync(cx, fd, path));
    const double written = pare_seconds();
    for (int i = 0; i < SYNCS; i++) {
        PARE_TRY(pare_file_put(cx, fd, path, p->bytes, 1, (uint64_t)BYTES + (uint64_t)i));
        PARE_TRY(pare_file_sync(cx, fd, path));
    }
    p->out->write = BYTES / (written - start);
    p->out->sync = (pare_seconds() - written) / SYNCS;
    return PARE_OK;
}

/* A file beside the output, which loses its name at once. */
static pare_status measure_file(probe *p)
{
    char name[64];
    (void)snprintf(name, sizeof name, ".pare-plan.%ld.tmp", (long)getpid());
    pare_output_disk disk;
    char free_text[PARE_UNIT_TEXT];
    PARE_TRY(pare_output_disk_find(p->cx, p->a, &p->plan->place, &disk));
    if (p->plan->settled.disk_free_bytes < p->plan->settled.disk_bytes + BYTES + SYNCS)
        return pare_fail(p->cx, PARE_ENOSPC, "%s: only %s free", disk.directory,
                         pare_units_bytes(p->plan->settled.disk_free_bytes, free_text));
    char *const path = pare_path_join(p->a, disk.directory, name);
    if (!path)
        return PARE_ENOMEM;
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return pare_file_fail(p->cx, path, "create a file to see how fast the disk is");
    const pare_status s =
        unlink(path) == 0 ? write_and_sync(p, fd, path) : pare_file_fail(p->cx, path, "unlink");
    (void)close(fd);
    return s;
}

/* A plan may be made where nothing can be written. */
static pare_status measure_disk(probe *p)
{
    const pare_status s = measure_file(p);
    if (s != PARE_EIO && s != PARE_ENOSPC && s != PARE_ENOTFOUND)
        return s;
    (void)snprintf(p->out->disk, sizeof p->out->disk, "%.*s", PARE_RATES_WHY - 1, p->cx->what);
    p->out->write = p->out->sync = 0;
    pare_ctx_clear(p->cx);
    return PARE_OK;
}

/* The first text that the recipe names; NULL: none. */
static const pare_text *first_text(const pare_plan *plan)
{
    const pare_calibration *const c = &plan->recipe.calibration;
    if ((plan->calibrated || plan->held_out) && c->text.count)
        return &c->text.item[0];
    for (size_t i = 0; i < plan->recipe.evaluations; i++)
        if (!plan->recipe.evaluation[i].tokens.text)
            return pare_evaluation_data(&plan->recipe.evaluation[i]);
    return NULL;
}

/* A short text is taken again and again: on a few bytes the first call alone would be timed. */
static pare_status encode_start(probe *p, const pare_tokenizer *t, const pare_file *f)
{
    int32_t *ids;
    size_t count;
    char *const text = pare_arena_take(p->a, TEXT, 1);
    if (!text)
        return PARE_ENOMEM;
    for (size_t at = 0, n; at < TEXT; at += n) {
        n = f->bytes < TEXT - at ? (size_t)f->bytes : TEXT - at;
        memcpy(text + at, f->data, n);
    }
    const double start = pare_seconds();
    PARE_TRY(pare_tokenizer_encode(p->cx, t, p->a, text, TEXT, &ids, &count));
    p->out->encode = TEXT / (pare_seconds() - start);
    p->out->tokens = (double)count / TEXT;
    return PARE_OK;
}

/* The tokenizer on the start of a text. */
static pare_status measure_text(probe *p)
{
    const pare_text *const text = first_text(p->plan);
    char *const directory = pare_path_directory(p->a, p->plan->job->recipe);
    char *const path = text && directory ? pare_path_join(p->a, directory, text->text) : NULL;
    pare_tokenizer *t = NULL;
    pare_file f;
    if (!text)
        return PARE_OK;
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_file_map(p->cx, p->a, path, &f));
    const double start = pare_seconds();
    pare_status s = pare_checkpoint_tokenizer(&p->plan->checkpoint, &t);
    p->out->tokenizer = pare_seconds() - start;
    if (s == PARE_OK && f.bytes)
        s = encode_start(p, t, &f);
    pare_tokenizer_free(t);
    pare_file_unmap(&f);
    return s;
}

pare_status pare_plan_rates_measure(pare_ctx *cx, const pare_plan *plan, pare_plan_rates *out)
{
    static pare_status (*const measure[])(probe *) = {
        begin,          measure_products, measure_codes, measure_comparison,
        measure_memory, measure_reading,  measure_text,  measure_disk,
    };
    enum { MEASURES = sizeof measure / sizeof *measure };
    pare_arena scratch;
    *out = (pare_plan_rates){0};
    pare_status s = pare_arena_init(cx, &scratch, ROOM);
    probe p = {.cx = cx, .a = &scratch, .plan = plan, .out = out};
    for (size_t i = 0; s == PARE_OK && i < MEASURES; i++) {
        pare_ctx_progress(cx, "measuring this machine", (double)i, MEASURES);
        s = pare_ctx_interrupted(cx);
        if (s == PARE_OK)
            s = measure[i](&p);
    }
    pare_arena_release(&scratch);
    return s;
}
