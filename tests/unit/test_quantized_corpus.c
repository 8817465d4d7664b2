/* Every message about checkpoints that other programs quantized, from a file of the corpus. */
#include "tests/fuzz/quantized_input.h"
#include "tests/unit/folder.h"

#define LAYER "model.layers.0.mlp.down_proj"

/* Every message of the readers. */
static const char *const messages[] = {
    "config.json:1:",
    "quantization_config: sparsity_config: is not read",
    "quantization_config: transform_config: is not read",
    "quantization_config: config_groups: an object is expected",
    "quantization_config: config_groups: more than 64 groups",
    "quantization_config: format: marlin-24 is not read; pack-quantized,",
    "quantization_config: g.format: mxfp6-pack-quantized is not read",
    "quantization_config: format: what is no text is not read",
    "quantization_config: g.weights: a description of the weights is expected",
    "quantization_config: g.weights: floats in words are not read",
    "quantization_config: g.weights.type: only int and float are read",
    "quantization_config: g.weights.num_bits: 9 bits for integers; 2 to 8 are read",
    "quantization_config: g.weights.num_bits: 1 bit for integers; 2 to 8 are read",
    "quantization_config: g.weights.num_bits: 4 bits for floats; 8 are read, and 4 in nvfp4-",
    "quantization_config: g.weights.num_bits: a whole number is expected; 2 to 8 are read",
    "quantization_config: g.weights.dynamic: scales that are not stored",
    "quantization_config: g.weights.strategy: only tensor, channel, group and block",
    "quantization_config: g.weights.group_size: a number of columns of 1 to 2^24",
    "quantization_config: g.weights.actorder: only group and weight are read",
    "quantization_config: g.weights.block_structure: rows and columns of blocks of floats",
    "quantization_config: g.output_activations: outputs that are rounded",
    "quantization_config: g.targets: more than 1024 expressions",
    "quantization_config: target re:(a",
    "no group of config_groups names the linear " LAYER ", whose weights",
    "down_proj.weight_shape is missing beside the quantized weights of " LAYER,
    "down_proj.weight_shape is F32 [2], quantization_config asks for I64 [2]",
    "down_proj.weight_shape: sizes are not within 1 to 2^24",
    "down_proj.weight_packed is I32 [5, 7], quantization_config asks for I32 [5, 8]",
    "down_proj.weight_packed is I32 [40], quantization_config asks for",
    "down_proj.weight_scale is missing",
    "down_proj.weight_scale is F16 [5, 1], quantization_config asks for F16, BF16 or F32 [5, 2]",
    "down_proj.weight_scale is I8 [5, 2], quantization_config asks for F16, BF16 or F32 [5, 2]",
    "down_proj.weight_scale is F16 [5, 2], quantization_config asks for F16, BF16 or F32 [1, 1]",
    "down_proj.weight_scale: value 3 is NaN",
    "down_proj.weight_scale: value 0 is infinite",
    "down_proj.weight_zero_point is missing",
    "down_proj.weight_zero_point is I32 [2, 2], quantization_config asks for I32 [1, 2]",
    "down_proj.weight_zero_point: the zero point of row 0, group 1 is 16, not one of 0 to 15",
    "down_proj.weight_zero_point: the zero point of row 1, group 0 is -1, not one of 0 to 15",
    "down_proj.weight_zero_point: word 0 has bits behind the last of 5",
    "down_proj.weight_packed: word 4 has bits behind the last of 35",
    "down_proj.weight_g_idx is missing",
    "down_proj.weight_g_idx: column 2 is of group 2, there are 2",
    "down_proj.weight_g_idx: column 1 is of group -1, there are 2",
    "down_proj.weight_g_idx is I32 [63], quantization_config asks for I32 [64]",
    "quantization_config: g.weights.type: nvfp4-pack-quantized has symmetric floats of 4 bits, "
    "strategy tensor_group, group_size 16 and columns in order",
    "quantization_config: g.weights.num_bits: nvfp4-pack-quantized has symmetric floats",
    "quantization_config: g.weights.strategy: nvfp4-pack-quantized has symmetric floats",
    "quantization_config: g.weights.group_size: nvfp4-pack-quantized has symmetric floats",
    "quantization_config: g.weights.actorder: nvfp4-pack-quantized has symmetric floats",
    "quantization_config: g.weights.strategy: mxfp4-pack-quantized has symmetric floats of 4 bits, "
    "strategy group, group_size 32 and",
    "quantization_config: g.weights.group_size: mxfp4-pack-quantized has symmetric floats",
    "down_proj.weight_packed: rows of 24 weights are no whole groups of 16",
    "down_proj.weight_packed: is no matrix of codes",
    "down_proj.weight_packed is I32 [5, 8], quantization_config asks for U8 [5, 8]",
    "down_proj.weight_packed is I32 [5, 8], quantization_config asks for I32 [5, 6]",
    "down_proj.weight_packed is missing beside",
    "down_proj.weight_packed: word 6 has bits behind the last of 64",
    "down_proj.weight_zero_point: word 1 has bits behind the last of 5",
    "down_proj.weight_scale is F16 [5, 4], quantization_config asks for F8_E4M3 [5, 4]",
    "down_proj.weight_scale is F8_E4M3 [5, 2], quantization_config asks for F8_E4M3 [5, 4]",
    "down_proj.weight_scale is F8_E4M3 [5, 2], quantization_config asks for U8 [5, 2]",
    "down_proj.weight_scale: value 1 is NaN",
    "down_proj.weight_scale: value 2 is so large that a weight may not be finite",
    "down_proj.weight_global_scale is missing beside the quantized weights of " LAYER,
    "down_proj.weight_global_scale: is no finite positive number",
    "down_proj.weight_global_scale: 9.80909e-45 is too small: value 0 of weight_scale divided by "
    "it",
    "down_proj.weight_scale_2: 3e+38 is too large: value 0 of weight_scale times it gives weights",
    "down_proj.weight_global_scale is F32 [2], quantization_config asks for F16, BF16 or F32 [1, "
    "1]",
    "down_proj.weight_global_scale: there are no quantized weights beside it",
    "down_proj.weight_g_idx: is there, but columns of the format lie in order",
    "down_proj.weight is U8 [5, 64], quantization_config asks for I8 [5, 64]",
    "down_proj.weight: is no matrix of codes",
    "down_proj.weight: holds 8 bits, quantization_config says fewer",
    "down_proj.weight is F8_E4M3 [5, 7], quantization_config asks for I8 [5, 7]",
    "down_proj.weight: value 2 is NaN",
    "down_proj.input_scale is missing",
    "down_proj.input_scale: is no finite positive number",
    "down_proj.weight_scale: there are no quantized weights beside it",
    "two tensors stand for " LAYER ".weight",
    "quantization_config: bits: only GPTQ with 2, 3, 4 or 8 is read",
    "quantization_config: group_size: expected -1 (all inputs) or a number of inputs of 1 to 2^24",
    "quantization_config: checkpoint_format: marlin is not read; gptq and gptq_v2 are",
    "quantization_config: format: gptq_p is not read; gptq and",
    "quantization_config: format: ? is not read; gptq and",
    "quantization_config: is_marlin_format: that order is not read",
    "quantization_config: pack_dtype: only int32 is read",
    "down_proj.qweight: is no matrix of I32",
    "down_proj.qweight: 8 rows of words hold 256 bits, but g_idx has 60 inputs and "
    "quantization_config gives each 4 bits",
    "down_proj.qweight: 10 rows of words hold 320 bits, but g_idx has 64 inputs and "
    "quantization_config gives each 4 bits",
    "down_proj.qweight: 8 rows of words hold 256 bits, and no whole number of inputs up to 2^24 "
    "with the 3 bits",
    "down_proj.qweight: 8 rows of words hold 256 bits, but g_idx has 64 inputs and "
    "quantization_config gives each 8 bits",
    "down_proj.qweight: is there, but dynamic or extra_config of quantization_config leaves",
    "down_proj.qweight: 8 rows of words hold 256 bits, but g_idx has 64 inputs and "
    "quantization_config gives each 3 bits",
    "down_proj.qzeros is I32 [2, 1], quantization_config asks for I32 [4, 1]",
    "quantization_config: dynamic: an object is expected",
    "quantization_config: dynamic.+:.*: an object is expected",
    "quantization_config: dynamic: (a",
    "quantization_config: +:.*.bits: only GPTQ with",
    "quantization_config: .*.group_size: expected -1",
    "quantization_config: desc_act: true or false",
    "down_proj.g_idx: is missing, and desc_act: true says",
    "down_proj.g_idx: is all zeros, so all inputs are of the first group",
    LAYER ".weight holds weights that MLX quantized, which pare does not read",
    "quantization_config: packing_format: auto_round:fp8 is not read; auto_round:auto_gptq,",
    "quantization_config: packing_format: ? is not read",
    "quantization_config: data_type: only int is read",
    "quantization_config: down_proj.bits: linears that differ are not read from AWQ",
    "quantization_config: extra_config: an object is expected",
    "quantization_config: extra_config.down_proj: an object is expected",
    "quantization_config: extra_config: a name has 1017 bytes, and at most 1016 are read",
    "quantization_config: extra_config: .*?(?:(a): ",
    "down_proj.qzeros is I32 [2, 1], quantization_config asks for I32 [1, 2]",
    "down_proj.g_idx: column 0 is of group -1, there are 2",
    "down_proj.weight_g_idx: column 0 is of group -1, there are 2",
    "down_proj.scales is F16 [8, 2], quantization_config asks for F16, BF16 or F32 [2, 8]",
    "down_proj.scales is F16 [16, 2], quantization_config asks for F16, BF16 or F32 [2, 16]",
    "down_proj.weight_scale is F16 [2, 5], quantization_config asks for F16, BF16 or F32 [5, 2]",
    "down_proj.weight_scale is F32 [2, 2], quantization_config asks for F16, BF16 or F32 [1, 1]",
    "down_proj.weight_scale_inv is F32 [2, 3], quantization_config asks for F16, BF16 or F32 [3, "
    "2]",
    "quantization_config: g.weights.symmetric: nvfp4-pack-quantized has symmetric floats",
    "down_proj.weight_global_scale: is there, but the format has none",
    "quantization_config: quant_algo: only NVFP4, W4A16_NVFP4,",
    "down_proj.weight_scale_2 is missing beside",
    "down_proj.weight_scale_2: is no finite positive number",
    "down_proj.weight_scale is F8_E4M3 [5, 2], quantization_config asks for F8_E4M3 [5, 4]",
    "down_proj.weight: rows of 24 weights are no whole groups of 16",
    "down_proj.pre_quant_scale: scales of inputs are not read",
    "quantization_config: zero_point: false is not read",
    "quantization_config: zero_point: true or false",
    "quantization_config: g.weights.symmetric: true or false",
    "down_proj.weight_zero_point: has zero points, but quantization_config says",
    "down_proj.weight_zero_point: zero points of floats are not read",
    "quantization_config: g.weights.num_bits: missing; the bits of codes in words",
    "down_proj.weight_packed: is there, but the format of quantization_config",
    "quantization_config: ignore: a list of names",
    "quantization_config: ignore re:(: missing closing parenthesis at byte 1",
    "quantization_config: ignore: entry 2 is no text; a list of names",
    "quantization_config: ignore re:.*down_proj$ names the linear " LAYER ", whose weights are",
    "quantization_config: g.weights.group_size: 33 does not divide the 64 columns of " LAYER,
    "quantization_config: ignore names the linear " LAYER ", whose weights are quantized",
    "quantization_config: modules_to_not_convert names the linear " LAYER ",",
    "down_proj.weight_packed holds quantized weights, and the quant_method of quantization_config "
    "is other, which",
    "down_proj.weight_packed holds quantized weights, but config.json has no quantization_config",
    "down_proj.qweight holds quantized weights, but config.json has no quantization_config",
    "down_proj.qweight: zero points of its columns are no whole words",
    "down_proj.scales is F16 [48, 8], quantization_config asks for F16, BF16 or F32 [2, 8]",
    "down_proj.scales is F16 [1, 8], quantization_config asks for F16, BF16 or F32 [2, 8]",
    "down_proj.scales: value 2 is infinite",
    "down_proj.qzeros is missing",
    "down_proj.qzeros is I32 [1, 1], quantization_config asks for I32 [2, 1]",
    "down_proj.qzeros: the zero point of row 7, group 1 is 16, not one of 0 to 15",
    "down_proj.g_idx: column 3 is of group 2, there are 2",
    "down_proj.qzeros: there are no quantized weights beside it",
    "quantization_config: bits: only AWQ with bits: 4 is read",
    "quantization_config: version: gemv_fast is not read; the layout gemm is",
    "quantization_config: format: marlin is not read; the layout gemm is",
    "down_proj.qzeros is I32 [2, 1], quantization_config asks for I32 [2, 2]",
    "down_proj.scales is F16 [2, 8], quantization_config asks for F16, BF16 or F32 [2, 16]",
    "down_proj.scales: value 1 is NaN",
    "mlp.act.scales: there are no quantized weights beside it",
    "quantization_config: fmt: only e4m3 is read",
    "quantization_config: weight_block_size: rows and columns of a block",
    "down_proj.weight_scale_inv is missing",
    "down_proj.weight_scale_inv is F32 [1, 2], quantization_config asks for F16, BF16 or F32 [2, "
    "2]",
    "down_proj.weight_scale_inv: value 1 is NaN",
    "down_proj.weight_scale_inv: there are no quantized weights beside it",
    "the tiles of EXL3 ask for I16 [columns / 16, rows / 16, 16 bits]",
    "down_proj.trellis: only whole numbers of bits, 1 to 8, are read",
    "down_proj.trellis has 112 rows and 128 columns; only multiples of 128 are read",
    "down_proj.suh is missing beside the quantized weights of " LAYER,
    "down_proj.suh is F16 [64], the tiles of EXL3 ask for F16 [128]",
    "down_proj.sv is I16 [4], the tiles of EXL3 ask for I16 [8]",
    "down_proj.svh is F32 [128], the tiles of EXL3 ask for F16 [128]",
    "down_proj.mul1: is no number in I32",
    "down_proj.mul1 holds the multiplier 2212286767; only the codebook of 2212286765 is read",
    "down_proj.mcg holds the multiplier 1; only the codebook of 3417055213 is read",
    "down_proj.mcg: is there beside mul1: a linear has one codebook",
    "down_proj.suh: value 1 is NaN",
    "down_proj.svh: value 0 is infinite",
    "down_proj.suh: there are no quantized weights beside it",
    "down_proj.trellis: has other bits than bits_per_weight of tensor_storage says",
    "down_proj.trellis: has another shape than tensor_storage says",
    "down_proj.trellis holds quantized weights, but config.json has no quantization_config",
};

static pare_status parse(pare_ctx *c, const void *bytes, size_t len)
{
    pare_arena a;
    pare_status s = pare_arena_init(c, &a, 0);
    if (s == PARE_OK)
        s = quantized_input_run(c, &a, bytes, len);
    pare_arena_release(&a);
    return s;
}

START_TEST(the_corpus_reaches_every_message)
{
    corpus_reaches("quantized", parse, messages, sizeof messages / sizeof *messages);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("quantized_corpus");
    TCase *const t = tcase_create("quantized_corpus");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_corpus_reaches_every_message);
    suite_add_tcase(s, t);
    return unit_main(s);
}
