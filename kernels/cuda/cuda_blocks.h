/* kernels/cuda/cuda_blocks.h - how kernels share out their work: what the launch shapes and the
 * kernels must agree on. */
#ifndef PARE_KERNELS_CUDA_BLOCKS_H
#define PARE_KERNELS_CUDA_BLOCKS_H

#include "kernels/cuda/cuda_list.h"

enum {
    PARE_CUDA_BLOCK = 256,      /* threads of a block that has a thread per value */
    PARE_CUDA_WARPS = 4,        /* warps of a block that has a warp per row */
    PARE_CUDA_TOKENS = 8,       /* that a block of a product takes at once */
    PARE_CUDA_MIX = 32,         /* columns of a block of mix */
    PARE_CUDA_X8_WARPS = 8,     /* of a block of gemm_x8 of dense weights, which has 32 rows */
    PARE_CUDA_X8_SLOTS = 64,    /* sums of 32 rows by 8 tokens that it keeps */
    PARE_CUDA_X8_LD = 36,       /* integers from one token of a slot to the next */
    PARE_CUDA_24_WARPS = 16,    /* of a block of gemm_x8 of 2:4 weights, which has 32 rows */
    PARE_CUDA_F16_COLUMNS = 64, /* of a stage of gemm_f16 */
    PARE_CUDA_CODES_WARPS = 8,  /* of a block of gemm_f16_q4, _s16, which has 32 rows */
    PARE_CUDA_CODES_LD = 36     /* of its sums, from one token to the next */
};

/* Of attention; a row is a query of a head. */
enum {
    PARE_CUDA_KV = 64,      /* positions that are taken at once */
    PARE_CUDA_ROWS = 64,    /* of a block */
    PARE_CUDA_FEW = 8,      /* the same where queries are few, and channels of attend_values */
    PARE_CUDA_FEW_MOST = 32 /* rows of a KV head that are few */
};

/* Atoms whose sums share a slot: a chunk of 4, or 1 where a group may end inside a chunk. */
PARE__CUDA_BOTH static inline uint32_t pare_cuda_x8_slot_atoms(const pare_x8 *x)
{
    return x->group % 128 == 0 || x->group >= x->k ? 4 : 1;
}

/* Tiles of 8 tokens of a block: 1, 2 or 4. With 4, groups that end anywhere would leave less than a
 * chunk for each warp. */
PARE__CUDA_BOTH static inline uint32_t pare_cuda_x8_tiles(const pare_x8 *x)
{
    if (x->m <= 8)
        return 1;
    return x->m <= 16 || pare_cuda_x8_slot_atoms(x) == 1 ? 2 : 4;
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
