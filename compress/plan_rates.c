#include "compress/plan_rates.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "calib/tokens.h"
#include "compress/passes/quantize.h"
#include "compress/plan_internal.h"
#include "compress/run_linear.h"
#include "formats/hash.h"
#include "quant/rtn.h"
#include "runtime/file.h"
#include "runtime/linalg.h"
#include "runtime/linear.h"
#include "runtime/ops.h"
#include "runtime/threads.h"

enum {
    RUNS = 3,
    WIDTH = 1024,         /* most rows and columns of a matrix */
    TOKENS = 256,         /* of an input of it */
    VOCABULARY = 1 << 15, /* logits of a row */
    BYTES = 8 << 20,      /* hashed, copied, written */
    TEXT = 1 << 16,       /* read of a text */
    PIECES = 16,
    PIECE = 1 << 20, /* of the weights */
    SYNCS = 4
};

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Everything the probes share. */
typedef struct probe {
    pare_ctx *cx;
    pare_arena *a;
    const pare_plan *plan;
    size_t n, k;      /* of the matrix */
    float *w, *x, *y; /* [n, k], [TOKENS, k], [TOKENS, n] */
    unsigned char *bytes;
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
    p->k = at_most(c->hidden / 32 * 32, WIDTH);
    p->n = at_most(c->hidden, WIDTH);
    p->w = PARE_NEW(p->a, float, p->n * p->k);
    p->x = PARE_NEW(p->a, float, TOKENS * p->k);
    p->y = PARE_NEW(p->a, float, TOKENS * p->n);
    p->bytes = pare_arena_take(p->a, BYTES, 1);
    if (!p->w || !p->x || !p->y || !p->bytes)
        return PARE_ENOMEM;
    fill(p->w, p->n * p->k);
    fill(p->x, TOKENS * p->k);
    return pare_linalg_init(p->cx);
}

/* Operations in a second of x W^T; the first run warms up. */
static pare_status time_linear(probe *p, const pare_linear *w, double *rate)
{
    double start = 0;
    for (int run = -1; run < RUNS; run++) {
        start = run == 0 ? now() : start;
        PARE_TRY(pare_linear_apply(p->cx, p->a, w, false, p->x, p->k, TOKENS, p->y, p->n));
    }
    *rate = 2.0 * TOKENS * (double)p->n * (double)p->k * RUNS / (now() - start);
    return PARE_OK;
}

static pare_status measure_products(probe *p)
{
    const size_t count = p->n * p->k;
    uint16_t *const half = PARE_NEW(p->a, uint16_t, count);
    float *const h = PARE_NEW(p->a, float, p->k * p->k);
    if (!half || !h)
        return PARE_ENOMEM;
    PARE_TRY(pare_f32_to_dtype(p->cx, PARE_F16, p->w, count, half));
    pare_linear w = {.name = "probe", .n = p->n, .k = p->k, .dtype = PARE_F32, .data = p->w};
    PARE_TRY(time_linear(p, &w, &p->out->gemm));
    w.dtype = PARE_F16;
    w.data = half;
    PARE_TRY(time_linear(p, &w, &p->out->gemm_half));
    double start = 0;
    for (int run = -1; run < RUNS; run++) {
        start = run == 0 ? now() : start;
        pare_gram_add(p->cx, h, p->x, TOKENS, p->k);
    }
    p->out->gram = (double)TOKENS * (double)p->k * (double)p->k * RUNS / (now() - start);
    return PARE_OK;
}

/* One linear as a job compresses it: rounded, packed, hashed, decoded, measured; then used. */
static pare_status measure_codes(probe *p)
{
    const pare_grid grid = {.bits = 4, .group = 32, .symmetric = true, .f16_scales = true};
    pare_packed_linear packed = {.name = "probe"};
    pare_codes codes;
    pare_packed_planes planes;
    pare_linear view;
    uint8_t hash[16];
    float *const q = PARE_NEW(p->a, float, p->n * p->k);
    if (!q)
        return PARE_ENOMEM;
    PARE_TRY(pare_quantize_keep(&grid, p->n, p->k, &packed));
    PARE_TRY(pare_codes_take(p->a, &grid, p->n, p->k, &codes));
    double round = 0, store = 0;
    for (int run = 0; run < RUNS; run++) {
        double error[2];
        const double start = now();
        PARE_TRY(pare_rtn_quantize(p->cx, &grid, p->w, p->n, p->k, &codes));
        const double rounded = now();
        PARE_TRY(pare_packed_pack(p->cx, p->a, &packed, &codes, &planes));
        for (size_t i = 0; i < PARE_PLANES; i++)
            if (planes.plane[i])
                pare_xxh3(planes.plane[i], (size_t)planes.bytes.plane[i], hash);
        PARE_TRY(pare_packed_view(p->cx, p->a, &packed, planes.plane, &view));
        pare_linear_to_f32(p->cx, &view, q);
        pare__run_errors(p->cx, p->w, q, p->w, q, NULL, p->n, p->k, error);
        round += rounded - start;
        store += now() - rounded;
    }
    p->out->round = RUNS * (double)p->n * (double)p->k / round;
    p->out->store = RUNS * (double)p->n * (double)p->k / store;
    return time_linear(p, &view, &p->out->gemm_codes);
}

/* Pieces of the weight files, evenly spread: some may lie in memory, others on the disk. */
static void measure_reading(probe *p)
{
    const pare_checkpoint *const ck = &p->plan->checkpoint;
    uint64_t all = 0, read = 0;
    uint8_t hash[16];
    for (size_t i = 0; i < ck->files; i++)
        all += ck->file[i].bytes;
    const double start = now();
    for (size_t i = 0; i < ck->files; i++) {
        const uint64_t bytes = ck->file[i].bytes;
        const uint64_t pieces = bytes ? bytes * PIECES / all + 1 : 0;
        for (uint64_t j = 0; j < pieces; j++) {
            const uint64_t at = bytes / pieces * j, left = bytes - at;
            const size_t count = at_most((size_t)(left < PIECE ? left : PIECE), PIECE);
            pare_xxh3(ck->file[i].data + at, count, hash);
            read += count;
        }
    }
    p->out->read = read ? (double)read / (now() - start) : 0;
}

static void measure_memory(probe *p)
{
    char hex[PARE_SHA256_HEX];
    const double start = now();
    pare_sha256_hex(p->bytes, BYTES, hex);
    const double hashed = now();
    unsigned char *const copy = pare_arena_take(p->a, BYTES, 1);
    if (copy)
        memcpy(copy, p->bytes, BYTES);
    p->out->sha256 = BYTES / (hashed - start);
    p->out->copy = BYTES / (now() - hashed);
}

/* What comparing the logits of two models takes. */
static pare_status measure_comparison(probe *p)
{
    float *const logit = PARE_NEW(p->a, float, 2 * VOCABULARY);
    if (!logit)
        return PARE_ENOMEM;
    fill(logit, 2 * VOCABULARY);
    volatile double kept = 0;
    const double start = now();
    for (int run = 0; run < RUNS; run++)
        kept = kept + pare_divergence(logit, logit + VOCABULARY, VOCABULARY);
    p->out->compare = (double)RUNS * VOCABULARY / (now() - start);
    return PARE_OK;
}

static pare_status write_and_sync(probe *p, int fd, const char *path)
{
    pare_ctx *const cx = p->cx;
    const double start = now();
    PARE_TRY(pare_file_put(cx, fd, path, p->bytes, BYTES, 0));
    PARE_TRY(pare_file_sync(cx, fd, path));
    const double written = now();
    for (int i = 0; i < SYNCS; i++) {
        PARE_TRY(pare_file_put(cx, fd, path, p->bytes, 1, (uint64_t)BYTES + (uint64_t)i));
        PARE_TRY(pare_file_sync(cx, fd, path));
    }
    p->out->write = BYTES / (written - start);
    p->out->sync = (now() - written) / SYNCS;
    return PARE_OK;
}

/* A file beside the output, which loses its name at once. */
static pare_status measure_disk(probe *p)
{
    char name[64];
    (void)snprintf(name, sizeof name, ".pare-plan.%ld.tmp", (long)getpid());
    const char *directory;
    PARE_TRY(pare__plan_directory(p->cx, p->a, p->plan, &directory));
    char *const path = pare_path_join(p->a, directory, name);
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

/* The first text that the recipe names; NULL: none. */
static const pare_text *first_text(const pare_plan *plan)
{
    const pare_calibration *const c = &plan->recipe.calibration;
    if ((plan->calibrated || plan->held_out) && c->text.count)
        return &c->text.item[0];
    for (size_t i = 0; i < plan->recipe.evaluations; i++)
        if (plan->recipe.evaluation[i].text.text)
            return &plan->recipe.evaluation[i].text;
    return NULL;
}

static pare_status encode_start(probe *p, const pare_tokenizer *t, const pare_file *f)
{
    int32_t *ids;
    size_t count;
    const size_t len = (size_t)(f->bytes < TEXT ? f->bytes : TEXT);
    const double start = now();
    PARE_TRY(pare_tokenizer_encode(p->cx, t, p->a, (const char *)f->data, len, &ids, &count));
    p->out->encode = (double)len / (now() - start);
    p->out->tokens = (double)count / (double)len;
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
    const double start = now();
    pare_status s = pare_checkpoint_tokenizer(&p->plan->checkpoint, &t);
    p->out->tokenizer = now() - start;
    if (s == PARE_OK && f.bytes)
        s = encode_start(p, t, &f);
    pare_tokenizer_free(t);
    pare_file_unmap(&f);
    return s;
}

pare_status pare_plan_rates_measure(pare_ctx *cx, const pare_plan *plan, pare_plan_rates *out)
{
    static pare_status (*const measure[])(probe *) = {
        begin, measure_products, measure_codes, measure_comparison, measure_text, measure_disk,
    };
    enum { MEASURES = sizeof measure / sizeof *measure };
    pare_arena scratch;
    *out = (pare_plan_rates){0};
    pare_status s = pare_arena_init(cx, &scratch, 0);
    probe p = {.cx = cx, .a = &scratch, .plan = plan, .out = out};
    for (size_t i = 0; s == PARE_OK && i < MEASURES; i++) {
        pare_ctx_progress(cx, "measuring this machine", (double)i, MEASURES);
        s = pare_ctx_interrupted(cx);
        if (s == PARE_OK)
            s = measure[i](&p);
    }
    if (s == PARE_OK) {
        measure_reading(&p);
        measure_memory(&p);
    }
    pare_arena_release(&scratch);
    return s;
}
