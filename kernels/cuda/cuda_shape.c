#include "kernels/cuda/cuda_shape.h"

#include "kernels/cuda/cuda_blocks.h"

static uint32_t parts(uint64_t n, uint64_t each)
{
    return (uint32_t)((n + each - 1) / each);
}

/* The second side of a grid is short; kernels go round. */
static uint32_t side(uint64_t n, uint64_t each)
{
    const uint64_t most = 65535, count = (n + each - 1) / each;
    return (uint32_t)(count < most ? count : most);
}

/* A thread per value. */
static pare_cuda_shape of_values(uint64_t n)
{
    return (pare_cuda_shape){{parts(n, PARE_CUDA_BLOCK), 1}, PARE_CUDA_BLOCK, 0};
}

/* A block per row. */
static pare_cuda_shape of_rows(uint64_t rows)
{
    return (pare_cuda_shape){{parts(rows, 1), 1}, PARE_CUDA_BLOCK, 0};
}

/* A warp per row. */
static pare_cuda_shape of_warps(uint64_t rows)
{
    return (pare_cuda_shape){{parts(rows, PARE_CUDA_WARPS), 1}, PARE_CUDA_WARPS * 32, 0};
}

#define ROWS(name)                                                                                 \
    pare_cuda_shape pare_cuda_##name##_shape(const pare_cuda_##name *a)                            \
    {                                                                                              \
        return of_rows(a->rows);                                                                   \
    }
#define WARPS(name)                                                                                \
    pare_cuda_shape pare_cuda_##name##_shape(const pare_cuda_##name *a)                            \
    {                                                                                              \
        return of_warps(a->rows);                                                                  \
    }
#define VALUES(name)                                                                               \
    pare_cuda_shape pare_cuda_##name##_shape(const pare_cuda_##name *a)                            \
    {                                                                                              \
        return of_values(a->n);                                                                    \
    }

ROWS(embed)
VALUES(add)
VALUES(activate)
WARPS(round)
ROWS(rows)
ROWS(scatter)
ROWS(share)
VALUES(cap)
ROWS(rope)
VALUES(kv_round)
ROWS(columns)
ROWS(bias)
ROWS(outliers_f16)
ROWS(outliers_q8)
WARPS(singles)
WARPS(route)
ROWS(score)
ROWS(divergence)

/* A block per row, a thread for two values or more. */
static pare_cuda_shape of_pairs(uint64_t rows, uint64_t width)
{
    pare_cuda_shape s = of_rows(rows);
    const uint32_t pairs = parts(width + 1, 64) * 32;
    s.block = pairs < PARE_CUDA_WIDE ? pairs : PARE_CUDA_WIDE;
    return s;
}

pare_cuda_shape pare_cuda_norm_shape(const pare_cuda_norm *a)
{
    return of_pairs(a->rows, a->width);
}

pare_cuda_shape pare_cuda_f16_rows_shape(const pare_cuda_f16_rows *a)
{
    pare_cuda_shape s = of_pairs(a->rows, a->ldy);
    if (a->rows > PARE_CUDA_BLOCK && s.block > PARE_CUDA_BLOCK) /* enough rows for all processors */
        s.block = PARE_CUDA_BLOCK;
    return s;
}

pare_cuda_shape pare_cuda_score_parts_shape(const pare_cuda_score_parts *a)
{
    return of_rows(a->rows * pare_cuda_parts_of(a->width));
}

pare_cuda_shape pare_cuda_score_sums_shape(const pare_cuda_score_sums *a)
{
    return of_rows(a->rows * pare_cuda_parts_of(a->width));
}

pare_cuda_shape pare_cuda_hadamard_shape(const pare_cuda_hadamard *a)
{
    return of_rows(a->n ? a->runs : 0);
}

pare_cuda_shape pare_cuda_mix_shape(const pare_cuda_mix *a)
{
    return of_rows(a->rows * parts(a->n, PARE_CUDA_MIX));
}

pare_cuda_shape pare_cuda_exl3_rows_shape(const pare_cuda_exl3_rows *a)
{
    return of_warps(a->rows * parts(a->width, 128));
}

pare_cuda_shape pare_cuda_exl3_columns_shape(const pare_cuda_exl3_columns *a)
{
    return of_rows(a->rows / (a->span ? a->span : 1) * parts(a->width, 32));
}

pare_cuda_shape pare_cuda_kv_put_shape(const pare_cuda_kv_put *a)
{
    return of_rows(a->b.sequences * a->b.length);
}

pare_cuda_shape pare_cuda_kv_store_shape(const pare_cuda_kv_store *a)
{
    const uint64_t planes = a->b.sequences * a->b.kv_heads;
    const uint64_t keys = pare_cuda_kv_units(&a->kv, &a->kv.key, &a->b);
    const uint64_t values = pare_cuda_kv_units(&a->kv, &a->kv.value, &a->b);
    pare_cuda_shape s = of_values(planes * (keys > values ? keys : values));
    s.grid[1] = 2;
    return s;
}

pare_cuda_shape pare_cuda_kv_keep_shape(const pare_cuda_kv_keep *a)
{
    return of_rows(a->sequences * a->kv_heads * a->count);
}

/* A block per rows of a KV head and channels. */
#define ATTEND(name, channels)                                                                     \
    pare_cuda_shape pare_cuda_##name##_shape(const pare_cuda_##name *a)                            \
    {                                                                                              \
        const uint32_t tiles = parts(pare_cuda_attend_rows(&a->call), PARE_CUDA_ROWS);             \
        return of_rows(a->call.planes * tiles * parts(a->call.b.head_dim, channels));              \
    }
ATTEND(attend_64, 64)
ATTEND(attend_128, 128)

static uint64_t few_tiles(const pare_cuda_attention *a)
{
    return a->planes * parts(pare_cuda_attend_rows(a), PARE_CUDA_FEW);
}

pare_cuda_shape pare_cuda_attend_scores_shape(const pare_cuda_attend_scores *a)
{
    pare_cuda_shape s = of_rows(few_tiles(&a->call) * parts(a->call.ld, PARE_CUDA_KV));
    s.block = PARE_CUDA_KV;
    return s;
}

/* 8 threads for each block of positions, as far as there are. */
pare_cuda_shape pare_cuda_attend_weigh_shape(const pare_cuda_attend_weigh *a)
{
    pare_cuda_shape s = of_rows(a->call.planes * pare_cuda_attend_rows(&a->call));
    s.block = parts(a->call.ld, (uint64_t)4 * PARE_CUDA_KV) * 32;
    s.block = s.block < PARE_CUDA_BLOCK ? s.block : PARE_CUDA_BLOCK;
    return s;
}

pare_cuda_shape pare_cuda_attend_values_shape(const pare_cuda_attend_values *a)
{
    pare_cuda_shape s = of_rows(few_tiles(&a->call) * parts(a->call.b.head_dim, PARE_CUDA_FEW));
    s.block = PARE_CUDA_VALUES;
    return s;
}

pare_cuda_shape pare_cuda_quant_x8_shape(const pare_cuda_quant_x8 *a)
{
    const uint64_t spans = a->m * (a->fixed > 0 ? 1 : parts(a->k, a->span));
    return pare_cuda_wide_span(a) ? (pare_cuda_shape){{parts(spans, 1), 1}, PARE_CUDA_WIDE, 0}
                                  : of_warps(spans);
}

/* Tiles of `side` rows by as many tokens. */
static pare_cuda_shape of_tiles(const pare_x8 *x, uint64_t n, uint32_t bits, bool sparse,
                                uint32_t side)
{
    const uint32_t bytes = PARE_CUDA_X8_STAGE(bits, sparse, side, side);
    return (pare_cuda_shape){{parts(n, side) * parts(x->m, side), 1},
                             PARE_CUDA_X8_WARPS * 32,
                             bytes * PARE_CUDA_X8_STAGES(bytes)};
}

static pare_cuda_shape of_x8(const pare_x8 *x, uint64_t n, const pare_cuda_mate *mate,
                             uint32_t bits, bool sparse)
{
    const uint32_t rows = parts(n, 32) + parts(mate[0].n, 32) + parts(mate[1].n, 32);
    const uint32_t tiles = pare_cuda_x8_tiles(x, bits), each = pare_cuda_x8_slot_atoms(x);
    if (x->m > PARE_CUDA_X8_FEW)
        return of_tiles(x, n, bits, sparse, 64);
    return (pare_cuda_shape){{rows * parts(x->m, (uint64_t)tiles * 8), 1},
                             PARE_CUDA_X8_WARPS * 32,
                             PARE_CUDA_X8_FEW_BYTES(tiles, each, bits)};
}

#define GEMM_X8(name, bits, sparse)                                                                \
    pare_cuda_shape pare_cuda_gemm_x8_##name##_shape(const pare_cuda_gemm_x8_##name *a)            \
    {                                                                                              \
        return of_x8(&a->x, a->n, a->mate, bits, sparse);                                          \
    }                                                                                              \
    pare_cuda_shape pare_cuda_gemm_x8_many_##name##_shape(const pare_cuda_gemm_x8_many_##name *a)  \
    {                                                                                              \
        return of_tiles(&a->x, a->n, bits, sparse, 128);                                           \
    }
GEMM_X8(q2, 2, false)
GEMM_X8(q3, 3, false)
GEMM_X8(q4, 4, false)
GEMM_X8(q8, 8, false)
GEMM_X8(t2, 2, false)
GEMM_X8(s4, 4, true)
GEMM_X8(s8, 8, true)

/* 8 lanes have a row of few tokens, two of some; else a block has a tile. */
static pare_cuda_shape of_floats(uint64_t m, uint64_t n)
{
    const bool some = m <= PARE_CUDA_TOKENS;
    const uint32_t rows = m <= PARE_CUDA_F32_FEW ? PARE_CUDA_F32_THREADS / 8 : PARE_CUDA_F32_ROWS;
    const uint32_t across = some ? m > 0 : parts(m, PARE_CUDA_F32_TOKENS);
    return (pare_cuda_shape){{parts(n, rows) * across, 1}, PARE_CUDA_F32_THREADS, 0};
}

#define GEMM_F32(name)                                                                             \
    pare_cuda_shape pare_cuda_##name##_shape(const pare_cuda_##name *a)                            \
    {                                                                                              \
        return of_floats(a->m, a->n);                                                              \
    }
GEMM_F32(gemm_f32_f32)
GEMM_F32(gemm_f32_f16)
GEMM_F32(gemm_f32_bf16)

pare_cuda_shape pare_cuda_gemm_f16_shape(const pare_cuda_gemm_f16 *a)
{
    const pare_cuda_f16_tile t = pare_cuda_f16_tile_of(a->m);
    const uint32_t columns = PARE_CUDA_F16_COLUMNS * (uint32_t)sizeof(uint16_t);
    return (pare_cuda_shape){{parts(a->n, t.rows) * parts(a->m, t.tokens), 1},
                             t.warps * 32,
                             (t.rows + t.tokens) * columns * t.stages};
}

#define GEMM_F16(name)                                                                             \
    pare_cuda_shape pare_cuda_##name##_shape(const pare_cuda_##name *a)                            \
    {                                                                                              \
        const uint32_t tokens = pare_cuda_codes_tiles(a->m) * 8;                                   \
        const uint32_t sums = PARE_CUDA_CODES_WARPS * tokens * PARE_CUDA_CODES_LD;                 \
        return (pare_cuda_shape){{parts(a->n, 32) * parts(a->m, tokens), 1},                       \
                                 PARE_CUDA_CODES_WARPS * 32,                                       \
                                 sums * (uint32_t)sizeof(float)};                                  \
    }
GEMM_F16(gemm_f16_q2)
GEMM_F16(gemm_f16_t2)
GEMM_F16(gemm_f16_q3)
GEMM_F16(gemm_f16_q4)
GEMM_F16(gemm_f16_q8)
GEMM_F16(gemm_f16_e2m1)
GEMM_F16(gemm_f16_e4m3)
GEMM_F16(gemm_f16_s4)
GEMM_F16(gemm_f16_s8)
GEMM_F16(gemm_f16_s16)
GEMM_F16(gemm_f16_exl3)

#define GEMM_F16_MANY(name, bits)                                                                  \
    pare_cuda_shape pare_cuda_##name##_shape(const pare_cuda_##name *a)                            \
    {                                                                                              \
        const uint32_t tiles =                                                                     \
            parts(a->n, PARE_CUDA_CODES_ROWS) * parts(a->m, PARE_CUDA_CODES_TOKENS);               \
        return (pare_cuda_shape){{tiles, 1},                                                       \
                                 PARE_CUDA_CODES_WARPS * 32,                                       \
                                 PARE_CUDA_CODES_STAGE(bits) * PARE_CUDA_CODES_STAGES};            \
    }
GEMM_F16_MANY(gemm_f16_many_q2, 2)
GEMM_F16_MANY(gemm_f16_many_t2, 2)
GEMM_F16_MANY(gemm_f16_many_q3, 3)
GEMM_F16_MANY(gemm_f16_many_q4, 4)
GEMM_F16_MANY(gemm_f16_many_q8, 8)
GEMM_F16_MANY(gemm_f16_many_e2m1, 4)
GEMM_F16_MANY(gemm_f16_many_e4m3, 8)

/* A warp per row block. */
#define GEMM_CODES(name)                                                                           \
    pare_cuda_shape pare_cuda_##name##_shape(const pare_cuda_##name *a)                            \
    {                                                                                              \
        return of_warps(parts(a->n, 8));                                                           \
    }
GEMM_CODES(gemm_f32_uniform)
GEMM_CODES(gemm_f32_table)
GEMM_CODES(gemm_f32_book)
GEMM_CODES(gemm_f32_binary)
GEMM_CODES(gemm_f32_super)
GEMM_CODES(gemm_f32_exl3)

pare_cuda_shape pare_cuda_gemm_sparse_f32_shape(const pare_cuda_gemm_sparse_f32 *a)
{
    return (pare_cuda_shape){{parts(a->n, PARE_CUDA_BLOCK), side(a->m, 1)}, PARE_CUDA_BLOCK, 0};
}

/* A block for 32 columns of up to PARE_CUDA_DECODED atoms of 8 rows. */
#define DEQUANT(name)                                                                              \
    pare_cuda_shape pare_cuda_##name##_shape(const pare_cuda_##name *a)                            \
    {                                                                                              \
        const uint32_t down = side(a->w.n, (uint64_t)8 * PARE_CUDA_DECODED);                       \
        return (pare_cuda_shape){{parts(a->w.k, 32), down}, 256, 0};                               \
    }
DEQUANT(dequant_f32)
DEQUANT(dequant_table)
DEQUANT(dequant_book)
DEQUANT(dequant_binary)
DEQUANT(dequant_super)
DEQUANT(dequant_exl3)
DEQUANT(dequant_exl3_f16)
DEQUANT(dequant_24)

pare_cuda_shape pare_cuda_dequant_mask_shape(const pare_cuda_dequant_mask *a)
{
    return of_warps(a->w.n);
}
