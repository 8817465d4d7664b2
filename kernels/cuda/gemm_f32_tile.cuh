/* kernels/cuda/gemm_f32_tile.cuh - products of floats for more than 4 tokens, in the order of
 * gemm_f32: of each output eight lanes add the columns l, l + 8, .. .
 *
 * Of many tokens a block of threads has 64 rows and 32 tokens, a thread one lane of 8 rows by 8
 * tokens: 64 sums, so that 16 numbers from shared memory serve 64 multiply-adds. Weights and inputs
 * lie there column by column, as floats; those of the next columns come into registers while these
 * are multiplied. Bound: the rate of F32. */
#ifndef PARE_KERNELS_CUDA_GEMM_F32_TILE
#define PARE_KERNELS_CUDA_GEMM_F32_TILE

#include "kernels/cuda/coded.cuh"

struct as_f32 {
    static __device__ float at(float w) { return w; }
    static __device__ void eight(const float *w, uint32_t n, bool wide, float to[8])
    {
        eight_floats(w, n, wide, to);
    }
};
struct as_f16 {
    static __device__ float at(uint16_t w) { return float_of_f16(w); }
    static __device__ void eight(const uint16_t *w, uint32_t n, bool wide, float to[8])
    {
        eight_halves(w, n, wide, to);
    }
};
struct as_bf16 {
    static __device__ float at(uint16_t w) { return float_of_bf16(w); }
    static __device__ void eight(const uint16_t *w, uint32_t n, bool wide, float to[8])
    {
        const uint4 all = wide ? *(const uint4 *)w : uint4{0, 0, 0, 0};
        const uint32_t word[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            to[i] = __uint_as_float(i % 2 ? word[i / 2] & 0xffff0000u : word[i / 2] << 16);
        if (!wide)
#pragma unroll
            for (uint32_t i = 0; i < 8; i++)
                to[i] = i < n ? float_of_bf16(w[i]) : 0.0f;
    }
};

template <class TYPE, class ARGUMENT> struct float_tile {
    static constexpr uint32_t ROWS = PARE_CUDA_F32_ROWS, TOKENS = PARE_CUDA_F32_TOKENS;
    static constexpr uint32_t COLUMNS = 32;                     /* of a stage */
    static constexpr uint32_t LDW = ROWS + 4, LDX = TOKENS + 4; /* lanes meet different banks */

    struct stage {
        float w[COLUMNS][LDW], x[COLUMNS][LDX];
    };

    const ARGUMENT &a;
    uint64_t row, token; /* the first of the block */
    uint32_t lane, row8, token8;
    bool wide_w, wide_x; /* rows begin at multiples of 16 bytes */
    float next_w[8], next_x[4];

    __device__ float_tile(const ARGUMENT &argument) : a(argument)
    {
        const uint64_t across = (a.m + TOKENS - 1) / TOKENS;
        row = blockIdx.x / across * ROWS;
        token = blockIdx.x % across * TOKENS;
        lane = threadIdx.x % 8;
        row8 = threadIdx.x / 8 % (ROWS / 8) * 8;
        token8 = threadIdx.x / 8 / (ROWS / 8) * 8;
        wide_w = (uint64_t)a.w % 16 == 0 && a.ldw * sizeof *a.w % 16 == 0;
        wide_x = (uint64_t)a.x % 16 == 0 && a.ldx % 4 == 0;
    }

    /* Columns j .. of a row and of a token; rows behind the last one are the last one again. */
    __device__ void fetch(uint64_t j)
    {
        const uint64_t r = min(row + threadIdx.x % ROWS, a.n - 1);
        const uint64_t t = min(token + threadIdx.x % TOKENS, a.m - 1);
        const uint64_t of_w = j + threadIdx.x / ROWS * 8, of_x = j + threadIdx.x / TOKENS * 4;
        const uint32_t left = (uint32_t)min(a.k - min(of_w, a.k), (uint64_t)8);
        const float *const x = a.x + t * a.ldx + of_x;
        TYPE::eight(a.w + r * a.ldw + of_w, left, wide_w && left == 8, next_w);
        if (wide_x && of_x + 4 <= a.k) {
            const float4 four = *(const float4 *)x;
            next_x[0] = four.x, next_x[1] = four.y, next_x[2] = four.z, next_x[3] = four.w;
        } else {
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                next_x[i] = of_x + i < a.k ? x[i] : 0.0f;
        }
    }

    __device__ void put(stage *to) const
    {
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            to->w[threadIdx.x / ROWS * 8 + i][threadIdx.x % ROWS] = next_w[i];
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            to->x[threadIdx.x / TOKENS * 4 + i][threadIdx.x % TOKENS] = next_x[i];
    }

    /* The column of the lane of eight. */
    __device__ void multiply(const stage *from, uint32_t column, float (*sum)[8]) const
    {
        const float4 *const w = (const float4 *)&from->w[column][row8];
        const float4 *const x = (const float4 *)&from->x[column][token8];
        const float of_w[8] = {w[0].x, w[0].y, w[0].z, w[0].w, w[1].x, w[1].y, w[1].z, w[1].w};
        const float of_x[8] = {x[0].x, x[0].y, x[0].z, x[0].w, x[1].x, x[1].y, x[1].z, x[1].w};
#pragma unroll
        for (int r = 0; r < 8; r++)
#pragma unroll
            for (int t = 0; t < 8; t++)
                sum[r][t] = fmaf(of_x[t], of_w[r], sum[r][t]);
    }

    /* Lane t writes the outputs of token t. */
    __device__ void write(float (*sum)[8]) const
    {
        const uint64_t t = token + token8 + lane;
        float *const y = a.y + t * a.ldy + row + row8;
#pragma unroll
        for (uint32_t r = 0; r < 8; r++) {
            float own = 0;
#pragma unroll
            for (uint32_t i = 0; i < 8; i++) {
                const float all = lane_sum(sum[r][i]);
                own = lane == i ? all : own;
            }
            if (t < a.m && row + row8 + r < a.n)
                y[r] = a.add ? y[r] + own : own;
        }
    }

    __device__ void run(stage *stages)
    {
        float sum[8][8] = {};
        fetch(0);
#pragma unroll 1
        for (uint64_t j = 0, turn = 0; j < a.k; j += COLUMNS, turn ^= 1) {
            stage *const now = &stages[turn];
            put(now);
            __syncthreads(); /* all is here; what is put next, nobody reads */
            if (j + COLUMNS < a.k)
                fetch(j + COLUMNS);
            if (j + COLUMNS <= a.k) {
#pragma unroll
                for (uint32_t i = 0; i < COLUMNS; i += 8)
                    multiply(now, i + lane, sum);
            } else {
#pragma unroll 1
                for (uint32_t i = lane; j + i < a.k; i += 8)
                    multiply(now, i, sum);
            }
        }
        write(sum);
    }
};

/* 5 to 8 tokens: a block of threads has 64 rows, eight lanes two of them, and all tokens, whose
 * columns lie in shared memory. Tokens and rows behind the last one are its copies.
 * Bound: bytes of the weights, or 10 numbers from shared memory for 16 multiply-adds. */
template <class TYPE, class ARGUMENT> struct float_some {
    static constexpr uint32_t TOKENS = PARE_CUDA_TOKENS, COLUMNS = 256, AHEAD = 16;
    using stage = float[TOKENS][COLUMNS];

    const ARGUMENT &a;
    uint64_t row; /* the first of the two */
    uint32_t lane;
    float sum[2][TOKENS] = {};

    __device__ float_some(const ARGUMENT &argument)
        : a(argument), row((uint64_t)blockIdx.x * PARE_CUDA_F32_ROWS + threadIdx.x / 8 * 2),
          lane(threadIdx.x % 8)
    {
    }

    __device__ void fetch(stage &to, uint64_t column) const
    {
        const uint64_t j = column + threadIdx.x;
#pragma unroll
        for (uint32_t t = 0; t < TOKENS; t++)
            to[t][threadIdx.x] = j < a.k ? a.x[min((uint64_t)t, a.m - 1) * a.ldx + j] : 0.0f;
    }

    /* `count` columns that the stage has, all or not. */
    template <class W> __device__ void multiply(const stage &x, const W *const *w, uint32_t count)
    {
        uint32_t j = lane;
#pragma unroll 1
        for (; j + (AHEAD - 1) * 8 < count; j += AHEAD * 8) {
            float value[2][AHEAD];
#pragma unroll
            for (uint32_t i = 0; i < 2 * AHEAD; i++)
                value[i / AHEAD][i % AHEAD] = TYPE::at(w[i / AHEAD][j + i % AHEAD * 8]);
#pragma unroll
            for (uint32_t i = 0; i < AHEAD; i++)
#pragma unroll
                for (uint32_t t = 0; t < TOKENS; t++) {
                    const float of_x = x[t][j + 8 * i];
                    sum[0][t] = fmaf(of_x, value[0][i], sum[0][t]);
                    sum[1][t] = fmaf(of_x, value[1][i], sum[1][t]);
                }
        }
#pragma unroll 1
        for (; j < count; j += 8)
#pragma unroll
            for (uint32_t i = 0; i < 2 * TOKENS; i++)
                sum[i / TOKENS][i % TOKENS] =
                    fmaf(x[i % TOKENS][j], TYPE::at(w[i / TOKENS][j]), sum[i / TOKENS][i % TOKENS]);
    }

    __device__ void run(stage *stages)
    {
        decltype(a.w) w[2] = {a.w + min(row, a.n - 1) * a.ldw, a.w + min(row + 1, a.n - 1) * a.ldw};
        fetch(stages[0], 0);
#pragma unroll 1
        for (uint64_t j = 0, turn = 0; j < a.k; j += COLUMNS, turn ^= 1) {
            __syncthreads(); /* all is here; what is fetched next, nobody reads */
            if (j + COLUMNS < a.k)
                fetch(stages[turn ^ 1], j + COLUMNS);
            multiply(stages[turn], w, (uint32_t)min(a.k - j, (uint64_t)COLUMNS));
            w[0] += COLUMNS;
            w[1] += COLUMNS;
        }
#pragma unroll
        for (uint32_t i = 0; i < 2 * TOKENS; i++) {
            const float all = lane_sum(sum[i / TOKENS][i % TOKENS]);
            const uint64_t r = row + i / TOKENS;
            if (lane == i % TOKENS && lane < a.m && r < a.n) {
                float *const y = a.y + lane * a.ldy + r;
                *y = a.add ? *y + all : all;
            }
        }
    }
};

#endif
