/* kernels/cuda/gemm_x8_tile.cuh - products of integer activations for many tokens: a tile of rows
 * and tokens for each block of threads.
 *
 * A stage holds 128 columns of the rows and of the tokens, and the steps of the groups of these
 * columns. Copies of the next stages are under way while a stage is multiplied; one barrier per
 * stage. A warp has 32 rows and 8 TILES tokens. Pieces of 16 bytes of a token are exchanged by
 * (token % 8), so that ldmatrix meets no bank twice.
 *
 * Sums of a group of at most 128 columns begin at START: as a float, that is 1.5 2^23, and the sum
 * is an integer below 2^22. So the bits are those of 1.5 2^23 + sum, and a subtraction, which is
 * exact, takes the place of the conversion. Longer groups are converted. */
#ifndef PARE_KERNELS_CUDA_GEMM_X8_TILE
#define PARE_KERNELS_CUDA_GEMM_X8_TILE

#include "kernels/cuda/gemm_x8.cuh"

/* 128 columns, and the steps of up to four groups that have some of them. */
template <class CODES, uint32_t ROWS, uint32_t TOKENS> struct stage {
    alignas(128) uint8_t x[TOKENS][128];
    uint8_t codes[ROWS / 8][PARE_CUDA_X8_ROW(CODES::WIDTH, CODES::INDICES > 0)]; /* then indices */
    float x_scales[4][TOKENS];
    int x_sums[4][TOKENS];
    uint16_t scales[4][ROWS];
    uint8_t zeros[4][ROWS];
};

/* 32 STRIPS rows; CHUNKS: groups end where chunks of 128 columns do. */
template <class CODES, uint32_t STRIPS, int TILES, bool CHUNKS, class ARGUMENT> class tile
{
    static constexpr uint32_t THREADS = PARE_CUDA_X8_WARPS * 32, ROWS = 32 * STRIPS;
    static constexpr uint32_t TOKENS = PARE_CUDA_X8_WARPS / STRIPS * TILES * 8;
    static constexpr int START = 0x4b400000;
    using stage = ::stage<CODES, ROWS, TOKENS>;
    static constexpr uint32_t STAGES = PARE_CUDA_X8_STAGES(sizeof(stage));
    static_assert(sizeof(stage) ==
                      PARE_CUDA_X8_STAGE(CODES::WIDTH, CODES::INDICES > 0, ROWS, TOKENS),
                  "the launch shape takes as much");

    const ARGUMENT &a;
    const uint32_t first, last, t0; /* row blocks; the first token */
    const uint32_t k, atoms;
    const uint32_t each;                /* atoms of a group */
    const uint32_t strip, across, g, t; /* of the warp and the lane */
    int start;                          /* START, or 0 */
    uint32_t ahead, ahead_end, end; /* the group of the next copies, the atoms behind it and behind
                                       the group that is summed */
    uint64_t group_at;              /* where the steps of its token or row block begin */
    int sum[TILES][8]; /* rows 4 g, 4 g + 2, 4 g + 1, 4 g + 3; tokens 2 t, 2 t + 1 of each */
    float y[TILES][8];

    static __device__ stage &slot(uint32_t i) { return ((stage *)shared_block)[i]; }

    /* Atoms of a group of the weights. */
    __device__ uint32_t w_each() const { return (uint32_t)(a.w.group / 32); }

    /* Rows have zero points of their own. */
    __device__ bool own() const { return CODES::OWN && a.w.zeros; }

    __device__ uint64_t token(uint32_t i) const { return min(t0 + i, (uint32_t)a.x.m - 1); }

    /* Codes or indices of the chunk, BYTES of each row block into its place from `at` on. */
    template <uint32_t BYTES>
    __device__ void fetch_rows(stage &s, uint32_t at, const uint8_t *from, uint64_t row,
                               uint32_t chunk) const
    {
        constexpr uint32_t PIECES = BYTES / 16, ALL = ROWS / 8 * PIECES;
#pragma unroll
        for (uint32_t j = 0; j < (ALL + THREADS - 1) / THREADS; j++) {
            const uint32_t i = threadIdx.x + j * THREADS, block = i / PIECES;
            const uint64_t byte = (uint64_t)chunk * BYTES + i % PIECES * 16;
            if (ALL % THREADS == 0 || i < ALL)
                copy16(shared_at(&s.codes[block][at + i % PIECES * 16]),
                       from + min(first + block, last) * row + byte, byte < row ? 16 : 0);
        }
    }

    /* Scales, zero points and sums of the groups that have columns in a chunk: a thread for each
     * token, others for row blocks. */
    __device__ void fetch_steps(stage &s, uint32_t chunk)
    {
        static_assert(TOKENS + ROWS / 8 <= THREADS, "");
        for (; chunk * 4 >= ahead_end; ahead_end += each)
            ahead++;
        const uint32_t to = min(chunk * 4 + 4, atoms);
        uint32_t b = ahead, at = 0, end = ahead_end;
#pragma unroll 1
        do {
            const uint32_t i = threadIdx.x - TOKENS;
            if (threadIdx.x < TOKENS) {
                copy_bytes<4>(shared_at(&s.x_scales[at][threadIdx.x]), a.x.scales + group_at + b);
                if (CODES::SUMS)
                    copy_bytes<4>(shared_at(&s.x_sums[at][threadIdx.x]), a.x.sums + group_at + b);
            } else if (i < ROWS / 8) {
                const uint64_t from = group_at + (w_each() == each ? b : b * each / w_each()) * 8;
                copy16(shared_at(&s.scales[at][i * 8]), a.w.scales + from, 16);
                if (own())
                    copy_bytes<8>(shared_at(&s.zeros[at][i * 8]), a.w.zeros + from);
            }
            b++;
            at++;
            end += each;
        } while (!CHUNKS && end - each < to);
    }

    __device__ void fetch(uint32_t into, uint32_t chunk)
    {
        stage &s = slot(into);
        const uint32_t column = chunk * 128 + threadIdx.x % 8 * 16;
#pragma unroll
        for (uint32_t i = 0; i < TOKENS * 8 / THREADS; i++) {
            const uint32_t at = threadIdx.x / 8 + i * (THREADS / 8);
            copy16(shared_at(&s.x[at][(threadIdx.x % 8 ^ at % 8) * 16]),
                   a.x.codes + token(at) * k + column, column < k ? 16 : 0);
        }
        fetch_rows<2 * CODES::ROW>(s, 0, a.w.codes, CODES::row(k), chunk);
        if constexpr (CODES::INDICES > 0)
            fetch_rows<2 * CODES::INDICES>(s, 2 * CODES::ROW, a.w.indices,
                                           (k + 63) / 64 * CODES::INDICES, chunk);
        fetch_steps(s, chunk);
    }

    /* The columns WHICH of 64, those from 64 half on; FRESH: sums begin here. */
    template <int WHICH, bool FRESH> __device__ void multiply(const stage &s, uint32_t half)
    {
        const uint8_t *const codes = s.codes[strip * 4 + g / 2];
        const uint32_t lane = threadIdx.x % 32;
        const uint32_t x =
            shared_at(s.x[across * TILES * 8 + lane % 8]) + ((half * 4 + lane / 8) ^ lane % 8) * 16;
        typename CODES::words w;
        w.template read<from_shared, WHICH>(codes + half * CODES::ROW + CODES::place(lane),
                                            codes + 2 * CODES::ROW + half * CODES::INDICES +
                                                CODES::index_place(lane));
        const typename CODES::template operands<WHICH> of_w(w, t);
        const int zero[4] = {start, start, start, start};
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            uint32_t b[4];
            load_matrices(b, x + i * 1024);
            if (FRESH)
                of_w.multiply(sum[i], b, zero);
            else
                of_w.multiply(sum[i], b);
        }
    }

    /* The step of the group whose scales are the `at`-th of the stage. */
    template <bool SMALL, bool OWN> __device__ void step(const stage &s, uint32_t at)
    {
        const uint32_t row = strip * 32 + 4 * g;
        const uint2 halves = *(const uint2 *)&s.scales[at][row];
        const uint32_t zeros = OWN ? *(const uint32_t *)&s.zeros[at][row] : 0;
        const float of_row[4] = {
            float_of_f16((uint16_t)halves.x), float_of_f16((uint16_t)(halves.x >> 16)),
            float_of_f16((uint16_t)halves.y), float_of_f16((uint16_t)(halves.y >> 16))};
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            const uint32_t token = (across * TILES + tile) * 8 + 2 * t;
            const float2 of_x = *(const float2 *)&s.x_scales[at][token];
            const int2 sums = CODES::SUMS ? *(const int2 *)&s.x_sums[at][token] : int2{0, 0};
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const int r = i / 4 + i / 2 % 2 * 2; /* of the four */
                const int z = OWN ? (int)(zeros >> 8 * r & 255) - CODES::OFFSET : CODES::ZERO;
                const int less = CODES::SUMS ? z * (i % 2 ? sums.y : sums.x) : 0;
                int &c = sum[tile][i];
                float d = (float)((c >> CODES::SHIFT) - less);
                if (SMALL && CODES::SHIFT > 0)
                    d = fmaf(__int_as_float(c), 1.0f / (1 << CODES::SHIFT),
                             -__int_as_float(START) / (1 << CODES::SHIFT));
                else if (SMALL)
                    d = __int_as_float(c) - __int_as_float(START + less);
                y[tile][i] = fmaf(d, of_row[r] * (i % 2 ? of_x.y : of_x.x), y[tile][i]);
                if (!CHUNKS)
                    c = start;
            }
        }
    }

    __device__ void step(const stage &s, uint32_t at)
    {
        end += each;
        if (start && own())
            step<true, true>(s, at);
        else if (start)
            step<true, false>(s, at);
        else if (own())
            step<false, true>(s, at);
        else
            step<false, false>(s, at);
    }

    __device__ void multiply_chunk(const stage &s, uint32_t atom)
    {
        const uint32_t to = min(atom + 4, atoms);
        if (CHUNKS) {
            if (atom + each == end)
                multiply<BOTH, true>(s, 0);
            else
                multiply<BOTH, false>(s, 0);
            if (atom + 2 < to)
                multiply<BOTH, false>(s, 1);
            if (to >= end || to == atoms)
                step(s, 0);
            return;
        }
        uint32_t at = 0;
#pragma unroll 1
        for (; atom < to; atom++) {
            if (atom % 2)
                multiply<SECOND, false>(s, atom % 4 / 2);
            else
                multiply<FIRST, false>(s, atom % 4 / 2);
            if (atom + 1 >= end || atom + 1 == atoms)
                step(s, at++);
        }
    }

    /* Four rows of a token. */
    __device__ void write(const float *four, float *to, uint64_t row) const
    {
        const float value[4] = {four[0], four[4], four[2], four[6]};
        if (row + 4 <= a.n && (uintptr_t)to % 16 == 0) {
            const float4 old = a.add ? *(const float4 *)to : float4{0, 0, 0, 0};
            *(float4 *)to = a.add ? float4{old.x + value[0], old.y + value[1], old.z + value[2],
                                           old.w + value[3]}
                                  : float4{value[0], value[1], value[2], value[3]};
            return;
        }
#pragma unroll
        for (uint32_t r = 0; r < 4; r++)
            if (row + r < a.n)
                to[r] = a.add ? to[r] + value[r] : value[r];
    }

  public:
    /* The tile of rows from 8 first on and tokens from t0 on. */
    __device__ tile(const ARGUMENT &a, uint32_t first, uint32_t t0)
        : a(a), first(first), last((uint32_t)((a.n - 1) / 8)), t0(t0), k((uint32_t)a.x.k),
          atoms(k / 32), each((uint32_t)(a.x.group / 32)), strip(threadIdx.x / 32 % STRIPS),
          across(threadIdx.x / 32 / STRIPS), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4),
          start(each <= 4 ? START : 0), ahead(0), ahead_end(each), end(each)
    {
        if (threadIdx.x < TOKENS)
            group_at = token(threadIdx.x) * ((atoms + each - 1) / each);
        else
            group_at = (uint64_t)min(first + threadIdx.x - TOKENS, last) *
                       ((atoms + w_each() - 1) / w_each()) * 8;
    }

    __device__ void run()
    {
        const uint32_t chunks = (atoms + 3) / 4, from = t0 + across * TILES * 8;
        const uint64_t row = (uint64_t)first * 8 + strip * 32;
        const bool has_some = row < a.n && from < a.x.m;
#pragma unroll
        for (int i = 0; i < TILES * 8; i++) {
            sum[i / 8][i % 8] = start;
            y[i / 8][i % 8] = 0;
        }
#pragma unroll
        for (uint32_t i = 0; i + 1 < STAGES; i++) {
            if (i < chunks)
                fetch(i, i);
            commit_copies();
        }
        uint32_t into = STAGES - 1, at = 0;
#pragma unroll 1
        for (uint32_t chunk = 0; chunk < chunks; chunk++) {
            wait_copies<STAGES - 2>();
            __syncthreads();
            if (chunk + STAGES - 1 < chunks)
                fetch(into, chunk + STAGES - 1);
            commit_copies();
            if (has_some)
                multiply_chunk(slot(at), chunk * 4);
            into = into + 1 < STAGES ? into + 1 : 0;
            at = at + 1 < STAGES ? at + 1 : 0;
        }
        if (!has_some)
            return;
#pragma unroll
        for (uint32_t i = 0; i < TILES * 2; i++) {
            const uint32_t of = from + i / 2 * 8 + 2 * t + i % 2;
            if (of < a.x.m)
                write(&y[i / 2][i % 2], a.y + of * a.ldy + row + 4 * g, row + 4 * g);
        }
    }
};

/* The tile of this block of threads; those that share rows follow each other, so that weights come
 * from the memory once. */
template <class CODES, uint32_t STRIPS, int TILES, class ARGUMENT>
static __device__ void run_tile(const ARGUMENT &a)
{
    constexpr uint32_t TOKENS = PARE_CUDA_X8_WARPS / STRIPS * TILES * 8;
    const uint32_t across = ((uint32_t)a.x.m + TOKENS - 1) / TOKENS;
    const uint32_t first = blockIdx.x / across * (4 * STRIPS), t0 = blockIdx.x % across * TOKENS;
    if (pare_cuda_x8_slot_atoms(&a.x) == 4)
        tile<CODES, STRIPS, TILES, true, ARGUMENT>(a, first, t0).run();
    else
        tile<CODES, STRIPS, TILES, false, ARGUMENT>(a, first, t0).run();
}

#endif
