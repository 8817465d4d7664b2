/* compress/bench/bench_model.h - how fast a model runs, beside what the machine allows.
 *
 * The limits are measured between the runs: memory by reading the weights themselves, arithmetic in
 * registers. From them comes the shortest time that a prefill or a decoding step could take:
 *
 *   memory      (weights read once + cached keys and values read) / rate of reading
 *   arithmetic  8-bit operations / their peak + F32 operations / theirs
 *   bound       the longer of the two
 *
 * Of experts as many count as read as tokens would reach that pick theirs evenly and each on its
 * own: a share of 1 - (1 - used / experts)^tokens. Where a router prefers some, fewer are read and
 * the time may fall below the bound.
 *
 * Nothing here prints. */
#ifndef PARE_COMPRESS_BENCH_MODEL_H
#define PARE_COMPRESS_BENCH_MODEL_H

#include "compress/bench/bench.h"
#include "runtime/device.h"
#include "runtime/energy.h"
#include "runtime/forward.h"

/* Shape of a synthetic model. */
typedef struct pare_bench_shape {
    const char *name, *like;
    size_t hidden, intermediate, blocks, heads, kv_heads, head_dim, vocab, context;
    bool tied;
    double theta;
    size_t experts, experts_used, expert_width; /* 0: one MLP for all tokens */
} pare_bench_shape;

/* Ended by a NULL name. */
extern const pare_bench_shape pare_bench_shapes[];

/* Words for the weights of the blocks' linears: "int4", "exl3-3", "f16", ...; ended by NULL. */
enum { PARE_BENCH_WEIGHTS = 22 };
extern const char *const pare_bench_weights[PARE_BENCH_WEIGHTS + 1];

/* What to make. */
typedef struct pare_bench_spec {
    const char *shape, *weights;
    size_t group; /* weights that share a scale; 0: what is usual, PARE_BENCH_ROW: a row */
} pare_bench_spec;
#define PARE_BENCH_ROW SIZE_MAX

/* Puts configuration and empty blocks into *out; *spec becomes what is meant: its group is that of
 * the weights, 0 where there is none. PARE_EUSAGE for unknown words (the message names the nearest
 * one or all) and for a group that the weights do not have or that does not divide the widths;
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_bench_synthetic_plan(pare_ctx *cx, pare_arena *a,
                                                   pare_bench_spec *spec, pare_model *out);

/* Bytes that the weights of a planned model will take. */
uint64_t pare_bench_synthetic_bytes(const pare_model *m, const pare_bench_spec *spec);

/* Fills the weights, the same for the same spec: random, sized so that activations stay of the
 * order of 1. Embedding and head are F16, or dense as the linears are. PARE_ENOMEM,
 * PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_bench_synthetic_fill(pare_ctx *cx, pare_arena *a,
                                                   const pare_bench_spec *spec, pare_model *m);

/* The word for the weights of the blocks and their group (PARE_BENCH_ROW: a row, 0: there is none);
 * "mixed" and 0 when they differ. */
const char *pare_bench_weights_name(const pare_model *m, size_t *group);

enum { PARE_BENCH_BATCHES = 8, PARE_BENCH_BATCH_MAX = 64, PARE_BENCH_RUNS_MAX = 64 };

typedef struct pare_bench_model_opts {
    size_t prompt, output; /* tokens of a sequence, >= 1 and >= 2; the first of the output belongs
                              to the prefill */
    size_t batch[PARE_BENCH_BATCHES], batches; /* sequences that run together */
    size_t runs;
    bool quick;           /* short passes over the limits */
    const char *powercap; /* where the kernel shows energy counters */
    double copy_gb_s;     /* of the device on which models run (pare_bench_device_copy) */
} pare_bench_model_opts;

/* GB/s, read and written, of a copy within the memory of a device, the best of a few. Takes up to
 * 1 GiB of it for that time (quick: 32 MiB), and no more than half of what `limit` (0: none) and
 * what is free leave. PARE_ENOMEM, PARE_EDEVICE. */
PARE_CHECKED pare_status pare_bench_device_copy(pare_ctx *cx, pare_device *d, size_t limit,
                                                bool quick, double *gb_s);

/* A time over several runs; of decoding, each run counts with the median of its steps. */
typedef struct pare_bench_time {
    double ms;     /* median */
    double spread; /* (longest - shortest) / median; NAN of one run */
} pare_bench_time;

/* How a phase stands to its bound. */
typedef struct pare_bench_phase {
    pare_bench_time time; /* of the prefill, or of a step of decoding */
    double tok_s;         /* of all sequences together */
    double bound_ms;
    const char *bound; /* "dram", or the arithmetic that takes most: "int8", "int8 tiles", "fma";
                          "copy" on a device: the bytes at the rate of a copy within it */
    double share;      /* bound_ms / time.ms */
    double ratio;      /* time of the model it is held against / its own; NAN: none */
    double joules;     /* per token; NAN: not measured */
} pare_bench_phase;

typedef struct pare_bench_model_row {
    size_t model; /* 0, or 1: the one that it is held against */
    size_t batch;
    pare_bench_phase prefill, decode;
    double weight_share; /* decoding steps per second times weight bytes, of the rate of reading */
} pare_bench_model_row;

typedef struct pare_bench_model_result {
    pare_bench_limits limits; /* dram_read_gb_s: reading the weights of model 0 */
    uint64_t weight_bytes[2]; /* what a decoding step of one token reads: linears and head */
    uint64_t stored_bytes[2]; /* the same with all experts */
    double kv_token_bytes[2];
    size_t prompt, output, runs, threads;
    double cpu_share; /* CPU time of this process / (time * threads) while models ran: far below 1
                         others had the CPUs, and the times say little */
    pare_bench_model_row row[2 * PARE_BENCH_BATCHES];
    size_t rows;
    bool energy;
    char energy_note[160]; /* why there is none */
} pare_bench_model_result;

/* Runs prefill and decoding of f[0], and in turns with it of f[1] unless that is NULL: a warm-up
 * and opts->runs runs for each batch, with passes over the limits in between. Prompts are random
 * tokens of a fixed seed.
 *
 * Returns PARE_OK, PARE_EUSAGE when prompt and output do not fit the positions of f, PARE_ENUMERIC
 * when logits are not finite, PARE_ENOMEM, PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_bench_model(pare_ctx *cx, const pare_forward *const f[2],
                                          const pare_bench_model_opts *opts,
                                          pare_bench_model_result *out);

/* Bytes that pare_bench_model takes for one model, weights apart; upper bound. */
uint64_t pare_bench_model_bytes(const pare_ctx *cx, const pare_config *c, const pare_kv_format *kv,
                                const pare_bench_model_opts *opts);

/* PARE_ENOMEM when `bytes` for `what` are more than this process can still have: by the limit of
 * cx, the memory that is free, the limits of the process and of its container. */
PARE_CHECKED pare_status pare_bench_memory(pare_ctx *cx, uint64_t bytes, const char *what);

#endif
