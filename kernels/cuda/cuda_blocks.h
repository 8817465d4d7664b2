/* kernels/cuda/cuda_blocks.h - how kernels share out their work: what the launch shapes and the
 * kernels must agree on. */
#ifndef PARE_KERNELS_CUDA_BLOCKS_H
#define PARE_KERNELS_CUDA_BLOCKS_H

#include "kernels/cuda/cuda_list.h"

enum {
    PARE_CUDA_BLOCK = 256,   /* threads of a block that has a thread per value */
    PARE_CUDA_WARPS = 4,     /* warps of a block that has a warp per row */
    PARE_CUDA_WIDE = 1024,   /* of a block that has a long row */
    PARE_CUDA_DECODED = 8,   /* atoms of a block of dequant */
    PARE_CUDA_TOKENS = 8,    /* that a block of a product takes at once */
    PARE_CUDA_F32_FEW = 4,   /* of a product of floats; more than PARE_CUDA_TOKENS go to tiles */
    PARE_CUDA_F32_ROWS = 64, /* of a tile, by so many tokens */
    PARE_CUDA_F32_TOKENS = 32,
    PARE_CUDA_F32_THREADS = 256,
    PARE_CUDA_PART = 4096,      /* values of a row of score that a block of threads has */
    PARE_CUDA_MIX = 32,         /* columns of a block of mix */
    PARE_CUDA_X8_WARPS = 8,     /* of a block of gemm_x8 */
    PARE_CUDA_X8_FEW = 32,      /* more tokens go to tiles */
    PARE_CUDA_X8_LD = 36,       /* integers from one token of a slot to the next */
    PARE_CUDA_F16_COLUMNS = 64, /* of a stage of gemm_f16 */
    PARE_CUDA_CODES_WARPS = 8,  /* of a block of gemm_f16_q4, _s16, which has 32 rows */
    PARE_CUDA_CODES_LD = 36     /* of its sums, from one token to the next */
};

/* Of attention; a row is a query of a head. */
enum {
    PARE_CUDA_KV = 64,      /* positions that are taken at once */
    PARE_CUDA_ROWS = 64,    /* of a block */
    PARE_CUDA_FEW = 8,      /* the same where queries are few, and channels of attend_values */
    PARE_CUDA_VALUES = 320, /* threads of attend_values */
    PARE_CUDA_FEW_MOST = 32 /* rows of a KV head that are few */
};

/* Parts of a row of logits. */
PARE__CUDA_BOTH static inline uint32_t pare_cuda_parts_of(uint64_t width)
{
    return (uint32_t)((width + PARE_CUDA_PART - 1) / PARE_CUDA_PART);
}

/* Whether a span of quant_x8 takes a block of threads, not a warp. */
PARE__CUDA_BOTH static inline bool pare_cuda_wide_span(const pare_cuda_quant_x8 *a)
{
    return (a->fixed > 0 ? a->k : a->span) > PARE_CUDA_WIDE;
}

/* Atoms whose sums share a slot: a chunk of 4, or 1 where a group may end inside a chunk. */
PARE__CUDA_BOTH static inline uint32_t pare_cuda_x8_slot_atoms(const pare_x8 *x)
{
    return x->group % 128 == 0 || x->group >= x->k ? 4 : 1;
}

/* Tiles of 8 tokens of a block: 1, 2 or 4. For 4 there are too many slots where a group may end
 * inside a chunk, and too few registers below 4 bits. */
PARE__CUDA_BOTH static inline uint32_t pare_cuda_x8_tiles(const pare_x8 *x, uint32_t bits)
{
    if (x->m <= 8)
        return 1;
    return x->m <= 16 || pare_cuda_x8_slot_atoms(x) == 1 || bits < 4 ? 2 : 4;
}

/* Slots of up to 32 tokens (gemm_x8_few.cuh), units that are under way together, and the shared
 * memory of a block of threads: per tile of 8 tokens inputs of the warps, outputs and sums; steps.
 */
#define PARE_CUDA_X8_SLOTS(tiles, each) ((each) == 1 ? 32 : 32 / (tiles))
#define PARE_CUDA_X8_AHEAD(tiles, each, bits)                                                      \
    ((tiles) == 1 && (each) == 4 && (bits) != 3 && (bits) != 8 ? 4u : 2u) /* registers bound it */
#define PARE__CUDA_X8_TILE(slots, ahead)                                                           \
    (PARE_CUDA_X8_WARPS * 512 * (ahead) + 2048 + (slots)*32 * PARE_CUDA_X8_LD)
#define PARE__CUDA_X8_STEPS(tiles, slots) ((slots) * (96 + (tiles)*64))
#define PARE_CUDA_X8_FEW_BYTES(tiles, each, bits)                                                  \
    (((tiles)*PARE__CUDA_X8_TILE(PARE_CUDA_X8_SLOTS(tiles, each),                                  \
                                 PARE_CUDA_X8_AHEAD(tiles, each, bits)) +                          \
      PARE__CUDA_X8_STEPS(tiles, PARE_CUDA_X8_SLOTS(tiles, each)) + 15) /                          \
     16 * 16)

/* A stage of a tile of rows by tokens (gemm_x8_tile.cuh): bytes of a row block, where a gap behind
 * the indices of 2:4 weights keeps those of four row blocks in different banks; of all; how many
 * stages there are, within the 99 KiB that every GPU has for a block of threads. */
#define PARE_CUDA_X8_ROW(bits, sparse) ((sparse) ? (bits)*64 + 192 : (bits)*128)
#define PARE_CUDA_X8_STAGE(bits, sparse, rows, tokens)                                             \
    ((tokens)*160 + (rows) / 8 * PARE_CUDA_X8_ROW(bits, sparse) + (rows)*12)
#define PARE_CUDA_X8_STAGES(bytes) ((bytes)*4 <= 99 * 1024 ? 4 : (bytes)*3 <= 99 * 1024 ? 3 : 2)

/* Whether tiles of 128 rows by 128 tokens are enough to fill a GPU. Else tiles of 64 by 64. */
PARE__CUDA_BOTH static inline bool pare_cuda_x8_many(uint64_t m, uint64_t n)
{
    return m > 64 && (m + 127) / 128 * ((n + 127) / 128) >= 128;
}

/* The tile of a block of gemm_f16, and the stages of columns that its shared memory holds. */
typedef struct pare_cuda_f16_tile {
    uint32_t rows, tokens, warps, stages;
} pare_cuda_f16_tile;

PARE__CUDA_BOTH static inline pare_cuda_f16_tile pare_cuda_f16_tile_of(uint64_t m)
{
    pare_cuda_f16_tile t = {128, 128, 8, 3};
    if (m <= 16) {
        t.rows = 32;
        t.tokens = 16;
        t.warps = 2;
        t.stages = 8;
    } else if (m <= 64) {
        t.rows = t.tokens = 64;
        t.warps = t.stages = 4;
    }
    return t;
}

/* Tiles of 8 tokens of a block of gemm_f16_q4. */
PARE__CUDA_BOTH static inline uint32_t pare_cuda_codes_tiles(uint64_t m)
{
    return m <= 8 ? 1 : m <= 16 ? 2 : 4;
}

/* The tile of a block of gemm_f16_many_q4; bytes of a stage of 64 columns: beside inputs and codes
 * two scales and zero points of a row, or four scales. */
enum { PARE_CUDA_CODES_ROWS = 128, PARE_CUDA_CODES_TOKENS = 64, PARE_CUDA_CODES_STAGES = 4 };
#define PARE_CUDA_CODES_STAGE(bits)                                                                \
    (PARE_CUDA_CODES_TOKENS * 128 + PARE_CUDA_CODES_ROWS * (8 * (bits) + 8))

/* Pieces of one plane that kv_store codes on their own: 8 channels of a token or of tokens that
 * share scales, or what shares a scale of one token. */
PARE__CUDA_BOTH static inline uint64_t pare_cuda_kv_units(const pare_cuda_kv *kv,
                                                          const pare_cuda_side *s,
                                                          const pare_cuda_batch *b)
{
    const uint64_t tokens =
        pare_cuda_coded(kv, s, b->start + b->length) - pare_cuda_coded(kv, s, b->start);
    return s->tokens == 1 ? tokens * s->entries
                          : tokens / (s->tokens ? s->tokens : 1) * ((b->head_dim + 7) / 8);
}

/* Rows of one KV head: queries times heads. */
PARE__CUDA_BOTH static inline uint32_t pare_cuda_attend_rows(const pare_cuda_attention *a)
{
    return (uint32_t)a->b.length * ((uint32_t)a->heads / (uint32_t)a->b.kv_heads);
}

#endif
