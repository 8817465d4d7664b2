/* Launch shapes of the kernels for GPUs, which need none. */
#include <string.h>

#include "kernels/cuda/cuda_blocks.h"
#include "kernels/cuda/cuda_shape.h"
#include "tests/unit/unit.h"

enum { MOST_SIDE = 65535, LARGEST = 99 * 1024 /* bytes that every GPU of 8.0 and up has */ };

static uint64_t ceiling(uint64_t n, uint64_t each)
{
    return n / each + (n % each != 0);
}

START_TEST(nothing_to_do_is_no_block)
{
#define NOTHING(kernel, ...)                                                                       \
    if (strncmp(#kernel, "attend", 6) != 0 && strcmp(#kernel, "quant_x8") != 0) {                  \
        const pare_cuda_##kernel a = {0};                                                          \
        const pare_cuda_shape s = pare_cuda_##kernel##_shape(&a);                                  \
        ck_assert_msg(s.grid[0] == 0 || s.grid[1] == 0, #kernel);                                  \
    }
    PARE_CUDA_KERNELS(NOTHING)
    const pare_cuda_attend_64 attend = {
        .call = {.heads = 4, .planes = 2, .b = {.kv_heads = 2, .head_dim = 8}}};
    const pare_cuda_quant_x8 quant = {.m = 0, .k = 64, .group = 32, .span = 32};
    ck_assert_uint_eq(pare_cuda_attend_64_shape(&attend).grid[0], 0);
    ck_assert_uint_eq(pare_cuda_quant_x8_shape(&quant).grid[0], 0);
}
END_TEST

START_TEST(every_value_has_a_thread)
{
    for (uint64_t n = 1; n < 1000; n += 37) {
        const pare_cuda_add add = {.n = n};
        const pare_cuda_norm norm = {.rows = n};
        const pare_cuda_quant_x8 quant = {.m = 3, .k = n, .group = 32, .span = 96};
        const pare_cuda_shape a = pare_cuda_add_shape(&add), b = pare_cuda_norm_shape(&norm);
        const pare_cuda_shape c = pare_cuda_quant_x8_shape(&quant);
        ck_assert_uint_eq(a.grid[0], ceiling(n, a.block));
        ck_assert_uint_eq(b.grid[0], ceiling(n, b.block / 32));
        ck_assert_uint_eq(c.grid[0], ceiling(3 * ceiling(n, 96), c.block / 32));
    }
}
END_TEST

START_TEST(the_second_side_of_a_grid_is_short)
{
    const pare_cuda_dequant_f32 tall = {
        .w = {.n = (size_t)8 * PARE_CUDA_DECODED * (MOST_SIDE + 5), .k = 64}};
    const pare_cuda_shape s = pare_cuda_dequant_f32_shape(&tall);
    ck_assert_uint_eq(s.grid[0], 2);
    ck_assert_uint_eq(s.grid[1], MOST_SIDE);
}
END_TEST

/* Up to 32 tokens: 32 rows a block, all warps have work in a piece. More: tiles of 64, or of 128
 * where these fill a GPU. Shared memory is what every GPU has for a block. */
START_TEST(products_cover_rows_and_tokens)
{
    static const size_t tokens[] = {1, 2, 3, 8, 16, 17, 32, 33, 64, 65},
                        groups[] = {32, 96, 128, 4160};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        for (size_t j = 0; j < sizeof groups / sizeof *groups; j++) {
            const pare_cuda_gemm_x8_q4 a = {.x = {.m = tokens[i], .k = 4160, .group = groups[j]},
                                            .n = 77};
            const pare_cuda_shape s = pare_cuda_gemm_x8_q4_shape(&a);
            const uint32_t tiles = pare_cuda_x8_tiles(&a.x, 4),
                           each = pare_cuda_x8_slot_atoms(&a.x);
            const bool few = tokens[i] <= 32;
            ck_assert_uint_eq(s.grid[0], few ? 3 * ceiling(tokens[i], (uint64_t)8 * tiles)
                                             : 2 * ceiling(tokens[i], 64));
            ck_assert_uint_eq(s.block, PARE_CUDA_X8_WARPS * 32);
            ck_assert_uint_eq(PARE_CUDA_X8_SLOTS(tiles, each) * each % (4 * PARE_CUDA_X8_WARPS), 0);
            ck_assert_uint_le(s.shared, LARGEST);
            ck_assert(each == 1 || groups[j] % 128 == 0 || groups[j] == 4160);
        }
    const pare_cuda_gemm_x8_many_q8 a = {.x = {.m = 129, .k = 4160, .group = 128}, .n = 8100};
    const pare_cuda_shape s = pare_cuda_gemm_x8_many_q8_shape(&a);
    ck_assert_uint_eq(s.grid[0], 2 * 64);
    ck_assert_uint_le(s.shared, LARGEST);
    ck_assert(pare_cuda_x8_many(129, 8100) && !pare_cuda_x8_many(64, 1 << 20));
    ck_assert(!pare_cuda_x8_many(128, 127 * 128));
}
END_TEST

START_TEST(attention_covers_rows_channels_and_positions)
{
    for (uint64_t length = 1; length < 40; length++)
        for (uint64_t d = 2; d < 300; d += 31) {
            const pare_cuda_attention call = {
                .heads = 15,
                .planes = 4,
                .ld = length * 64,
                .b = {.kv_heads = 3, .head_dim = d, .length = length}};
            const pare_cuda_attend_128 tiles = {call};
            const pare_cuda_attend_scores scores = {call};
            const pare_cuda_attend_weigh weigh = {call};
            const pare_cuda_attend_values values = {call};
            const pare_cuda_shape s = pare_cuda_attend_weigh_shape(&weigh);
            ck_assert_uint_eq(pare_cuda_attend_rows(&call), 5 * length);
            ck_assert_uint_eq(pare_cuda_attend_128_shape(&tiles).grid[0],
                              4 * ceiling(5 * length, 64) * ceiling(d, 128));
            ck_assert_uint_eq(pare_cuda_attend_scores_shape(&scores).grid[0],
                              4 * ceiling(5 * length, 8) * length);
            ck_assert_uint_eq(pare_cuda_attend_values_shape(&values).grid[0],
                              4 * ceiling(5 * length, 8) * ceiling(d, 8));
            ck_assert_uint_eq(s.grid[0], 4 * 5 * length);
            ck_assert_uint_eq(s.block, length < 29 ? 32 * ceiling(length, 4) : 256);
        }
}
END_TEST

/* Kivi with a window of 128: of 300 tokens 172 are old, 160 of them whole groups of 32 keys. Values
 * leave token by token, two groups of channels each. */
START_TEST(what_leaves_the_window_is_coded)
{
    const pare_cuda_kv_store a = {
        .kv = {.key = {.tokens = 32, .step = 32},
               .value = {.tokens = 1, .step = 1, .entries = 2},
               .window = 128},
        .b = {.sequences = 3, .length = 100, .start = 200, .kv_heads = 2, .head_dim = 60}};
    ck_assert_uint_eq(pare_cuda_coded(&a.kv, &a.kv.key, 300), 160);
    ck_assert_uint_eq(pare_cuda_coded(&a.kv, &a.kv.key, 128), 0);
    ck_assert_uint_eq(pare_cuda_kv_units(&a.kv, &a.kv.key, &a.b), (160 - 64) / 32 * 8);
    ck_assert_uint_eq(pare_cuda_kv_units(&a.kv, &a.kv.value, &a.b), (172 - 72) * 2);
    const pare_cuda_shape s = pare_cuda_kv_store_shape(&a);
    ck_assert_uint_eq(s.grid[0], ceiling(6 * 200, s.block));
    ck_assert_uint_eq(s.grid[1], 2);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("cuda_shape");
    TCase *const t = tcase_create("cuda_shape");
    tcase_add_test(t, nothing_to_do_is_no_block);
    tcase_add_test(t, every_value_has_a_thread);
    tcase_add_test(t, the_second_side_of_a_grid_is_short);
    tcase_add_test(t, products_cover_rows_and_tokens);
    tcase_add_test(t, attention_covers_rows_channels_and_positions);
    tcase_add_test(t, what_leaves_the_window_is_coded);
    suite_add_tcase(s, t);
    return unit_main(s);
}
