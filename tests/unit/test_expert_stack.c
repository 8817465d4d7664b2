/* Experts of a block in one tensor: as floats, and as MXFP4. */
#include <math.h>

#include "formats/gguf_write.h"
#include "formats/safetensors.h"
#include "runtime/leaves.h"
#include "runtime/linear.h"
#include "tests/data/families.h"
#include "tests/unit/load_case.h"

enum { HIDDEN = 64, WIDTH = 96, EXPERTS = 6, BLOCKS = 3, GROUP = 32 };

/* What replaces a dense stack of a file. */
typedef struct coded {
    const char *name;
    size_t rows, columns;
    uint8_t *code[BLOCKS], *scale[BLOCKS];
} coded;

static coded stacks[] = {{"gate_up_proj", 2 * WIDTH, HIDDEN, {0}, {0}},
                         {"down_proj", HIDDEN, WIDTH, {0}, {0}}};
enum { STACKS = sizeof stacks / sizeof *stacks };

/* The files that are written. */
static pare_tensor tensor[128];
static size_t tensors;

static uint8_t *random_bytes(const char *stream, size_t count, uint8_t least, unsigned range)
{
    uint8_t *const to = PARE_NEW(&arena, uint8_t, count);
    ck_assert_ptr_nonnull(to);
    for (size_t i = 0; i < count; i++)
        to[i] = (uint8_t)(least + pare_random_u64(5, pare_random_stream(stream), i) % range);
    return to;
}

static void add(const char *name, uint32_t rank, const uint64_t *shape, pare_dtype dtype,
                const void *data)
{
    pare_tensor t = {.name = pare_arena_text(&arena, name, strlen(name)),
                     .dtype = dtype,
                     .rank = rank,
                     .data = data};
    memcpy(t.shape, shape, rank * sizeof *shape);
    ck_assert_int_eq(pare_tensor_bytes(dtype, rank, shape, &t.bytes), PARE_OK);
    tensor[tensors++] = t;
}

static void add_coded(coded *s, size_t block)
{
    char name[128];
    const uint64_t shape[] = {EXPERTS, s->rows, s->columns / GROUP, GROUP / 2};
    const size_t groups = EXPERTS * s->rows * s->columns / GROUP;
    (void)snprintf(name, sizeof name, "model.layers.%zu.mlp.experts.%s_blocks", block, s->name);
    s->code[block] = random_bytes(name, groups * GROUP / 2, 0, 256);
    add(name, 4, shape, PARE_U8, s->code[block]);
    (void)snprintf(name, sizeof name, "model.layers.%zu.mlp.experts.%s_scales", block, s->name);
    s->scale[block] = random_bytes(name, groups, 110, 20);
    add(name, 3, shape, PARE_U8, s->scale[block]);
}

static void write_file(void)
{
    uint64_t offset[sizeof tensor / sizeof *tensor], at = 0;
    char *head;
    size_t len;
    for (size_t i = 0; i < tensors; i++) {
        offset[i] = at;
        at += tensor[i].bytes;
    }
    ck_assert_int_eq(pare_safetensors_header(&cx, &arena, tensor, offset, tensors, 8, &head, &len),
                     PARE_OK);
    FILE *const out = fopen(folder_file(&dir, "model.safetensors"), "wb");
    ck_assert(out && fwrite(head, 1, len, out) == len);
    for (size_t i = 0; i < tensors; i++)
        ck_assert_uint_eq(fwrite(tensor[i].data, 1, (size_t)tensor[i].bytes, out), tensor[i].bytes);
    ck_assert_int_eq(fclose(out), 0);
}

/* The small gpt-oss with its stacks in MXFP4. */
static void write_coded(void)
{
    pare_checkpoint ck;
    ck_assert(family_write(family_find("gpt_oss"), dir.path));
    edit("config.json", "\"hidden_act\"",
         "\"quantization_config\":{\"quant_method\":\"mxfp4\"},\"hidden_act\"");
    ck_assert_msg(pare_checkpoint_open_plain(&cx, &arena, dir.path, &ck) == PARE_OK, "%s", cx.what);
    tensors = 0;
    for (size_t i = 0; i < ck.tensors; i++) {
        const pare_tensor *const t = &ck.tensor[i];
        if (t->rank == 3)
            continue;
        void *const copy = PARE_NEW(&arena, uint8_t, (size_t)t->bytes);
        ck_assert_ptr_nonnull(copy);
        add(t->name, t->rank, t->shape, t->dtype, memcpy(copy, t->data, (size_t)t->bytes));
    }
    pare_checkpoint_close(&ck);
    for (size_t b = 0; b < BLOCKS; b++)
        for (size_t s = 0; s < STACKS; s++)
            add_coded(&stacks[s], b);
    write_file();
}

static float value_of(const coded *s, size_t block, size_t row, size_t column)
{
    static const float size[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const size_t at = row * s->columns + column;
    const uint8_t both = s->code[block][at / 2], code = at % 2 ? both >> 4 : both & 15;
    const float x = ldexpf(size[code & 7], s->scale[block][at / GROUP] - 127);
    return code & 8 ? -x : x;
}

/* Row r of a linear of an expert is row `step r + turn` of its stack. */
static void check_coded(const coded *s, const pare_linear *l, size_t block, size_t expert,
                        size_t step, size_t turn)
{
    float *const w = PARE_NEW(&arena, float, l->n * l->k);
    ck_assert_ptr_nonnull(w);
    ck_assert(l->n * step == s->rows && l->k == s->columns && l->dtype == PARE_BF16);
    pare_linear_to_f32(&cx, l, w);
    for (size_t r = 0; r < l->n; r++)
        for (size_t j = 0; j < l->k; j++)
            ck_assert_msg(w[r * l->k + j] ==
                              value_of(s, block, expert * s->rows + step * r + turn, j),
                          "%s [%zu, %zu]", l->name, r, j);
}

/* A listing counts all that opening takes. */
static void check_counted(const pare_checkpoint *ck)
{
    pare_checkpoint listed;
    ck_assert_int_eq(pare_checkpoint_list(&cx, &arena, dir.path, &listed), PARE_OK);
    ck_assert(ck->scratch.reserved > 0 && !listed.scratch.open);
    ck_assert_uint_eq(listed.scratch.counted, ck->scratch.reserved);
    pare_checkpoint_close(&listed);
}

START_TEST(mxfp4_becomes_the_weights_that_its_codes_stand_for)
{
    pare_checkpoint ck;
    pare_model m;
    char text[256];
    write_coded();
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, dir.path, &ck) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &m) == PARE_OK, "%s", cx.what);
    ck_assert(pare_checkpoint_quantized(&ck, text, sizeof text));
    ck_assert_str_eq(text, "mxfp4: 54 x mxfp4");
    for (size_t b = 0; b < BLOCKS; b++)
        for (size_t e = 0; e < EXPERTS; e++) {
            const pare_block *const block = &m.block[b];
            check_coded(&stacks[0], pare_block_linear(block, e + 1, PARE_ROLE_GATE), b, e, 2, 0);
            check_coded(&stacks[0], pare_block_linear(block, e + 1, PARE_ROLE_UP), b, e, 2, 1);
            check_coded(&stacks[1], pare_block_linear(block, e + 1, PARE_ROLE_DOWN), b, e, 1, 0);
        }
    check_counted(&ck);
    pare_checkpoint_close(&ck);
}
END_TEST

START_TEST(floats_keep_their_bits_and_their_biases)
{
    pare_checkpoint plain, ck;
    pare_model m;
    ck_assert(family_write(family_find("gpt_oss"), dir.path));
    ck_assert_int_eq(pare_checkpoint_open_plain(&cx, &arena, dir.path, &plain), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &ck), PARE_OK);
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &m) == PARE_OK, "%s", cx.what);
    const pare_tensor *const gate_up =
        pare_checkpoint_find(&plain, "model.layers.1.mlp.experts.gate_up_proj");
    const pare_tensor *const bias =
        pare_checkpoint_find(&plain, "model.layers.1.mlp.experts.gate_up_proj_bias");
    const pare_tensor *const down =
        pare_checkpoint_find(&plain, "model.layers.1.mlp.experts.down_proj");
    ck_assert(gate_up && bias && down);
    for (size_t e = 0; e < EXPERTS; e++) {
        const pare_linear *const up = pare_block_linear(&m.block[1], e + 1, PARE_ROLE_UP);
        const pare_linear *const d = pare_block_linear(&m.block[1], e + 1, PARE_ROLE_DOWN);
        const uint16_t *const w = up->data, *const v = d->data;
        float b;
        for (size_t r = 0; r < WIDTH; r++) {
            for (size_t j = 0; j < HIDDEN; j++) {
                const size_t at = (e * HIDDEN + j) * 2 * WIDTH + 2 * r + 1;
                ck_assert_uint_eq(w[r * HIDDEN + j], ((const uint16_t *)gate_up->data)[at]);
                ck_assert_uint_eq(v[j * WIDTH + r],
                                  ((const uint16_t *)down->data)[(e * WIDTH + r) * HIDDEN + j]);
            }
            ck_assert_int_eq(pare_tensor_to_f32(&cx, bias, e * 2 * WIDTH + 2 * r + 1, 1, &b),
                             PARE_OK);
            ck_assert(up->bias[r] == b);
        }
    }
    check_counted(&ck);
    pare_checkpoint_close(&ck);
    pare_checkpoint_close(&plain);
}
END_TEST

/* Outputs in rows: those of gate in front of those of up. */
START_TEST(rows_of_outputs_stay_where_they_lie)
{
    pare_checkpoint ck, plain;
    char name[128];
    ck_assert(family_write(family_find("qwen3_5_moe"), dir.path));
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, dir.path, &ck) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(pare_checkpoint_open_plain(&cx, &arena, dir.path, &plain), PARE_OK);
    ck_assert_uint_eq(ck.scratch.reserved, 0);
    for (size_t i = 0; i < 18; i++) {
        static const char *const part[] = {"gate_proj", "up_proj", "down_proj"};
        const size_t expert = i / 3, p = i % 3, bytes = (size_t)64 * 64 * 2;
        (void)snprintf(name, sizeof name, "model.layers.2.mlp.experts.%zu.%s.weight", expert,
                       part[p]);
        const pare_tensor *const t = pare_checkpoint_find(&ck, name);
        const pare_tensor *const all = pare_checkpoint_find(
            &plain, p == 2 ? "model.language_model.layers.2.mlp.experts.down_proj"
                           : "model.language_model.layers.2.mlp.experts.gate_up_proj");
        ck_assert(t && all && t->rank == 2 && t->shape[0] == 64 && t->shape[1] == 64);
        ck_assert_mem_eq(
            t->data, (const char *)all->data + (p == 2 ? expert : 2 * expert + p) * bytes, bytes);
    }
    pare_checkpoint_close(&plain);
    pare_checkpoint_close(&ck);
    edit("config.json", "\"num_experts\":6", "\"num_experts\":5");
    refuses(PARE_EFORMAT, "has shape [6, 64, 64], config.json asks for [5, 64, 64]");
}
END_TEST

/* As those of the part for images, of further tokens and of blocks beyond those of the model. */
START_TEST(stacks_that_the_model_does_not_use_are_left_out)
{
    static const char *const kept[] = {"model.visual.blocks.0.mlp.experts.gate_up_proj",
                                       "model.layers.3.mlp.experts.down_proj",
                                       "mtp.layers.0.mlp.experts.gate_up_proj"};
    pare_checkpoint ck;
    pare_model m;
    family f = *family_find("qwen3_5_moe");
    size_t end = 0;
    while (f.tensor[end])
        end++;
    f.tensor[end - 3] = "model.visual.blocks.0.mlp.experts.gate_up_proj DHH";
    f.tensor[end - 2] = "model.language_model.layers.3.mlp.experts.down_proj DHH";
    ck_assert(family_write(&f, dir.path));
    ck_assert_msg(load(dir.path, &m) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(pare_checkpoint_list(&cx, &arena, dir.path, &ck), PARE_OK);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        ck_assert_ptr_nonnull(pare_checkpoint_find(&ck, kept[i]));
    pare_checkpoint_close(&ck);
}
END_TEST

static size_t find(const char *end)
{
    size_t i = 0;
    while (!family_ends(tensor[i].name, end))
        i++;
    return i;
}

START_TEST(stacks_that_are_broken_are_refused_by_name)
{
    write_coded();
    stacks[1].scale[0][7] = 253;
    write_file();
    refuses(PARE_EFORMAT, "0.mlp.experts.down_proj_scales: scale 7 is 2^126, with which a weight "
                          "may not be finite");
    stacks[1].scale[0][7] = 252;
    write_file();
    pare_model m;
    ck_assert_msg(load(dir.path, &m) == PARE_OK, "%s", cx.what);
    const size_t scales = find("gate_up_proj_scales"), codes = find("down_proj_blocks");
    tensor[scales].shape[1] /= 2;
    tensor[scales].bytes /= 2;
    write_file();
    refuses(PARE_EFORMAT, "gate_up_proj_scales has shape [6, 96, 2], config.json asks for [6, 192, "
                          "2]");
    tensor[scales] = tensor[0]; /* once more under a name that no model has */
    tensor[scales].name = "unknown";
    write_file();
    refuses(PARE_EFORMAT, "gate_up_proj_blocks has no _scales beside it");
    write_coded();
    tensor[codes].dtype = PARE_I8;
    write_file();
    refuses(PARE_EFORMAT, "down_proj_blocks has dtype I8, expected U8");
    write_coded();
    tensor[codes].shape[0] = 3;
    tensor[codes].shape[1] *= 2;
    write_file();
    refuses(PARE_EFORMAT,
            "down_proj_blocks has shape [3, 128, 3, 16], config.json asks for [6, 64, "
            "3, 16]");
    ck_assert(family_write(family_find("gpt_oss"), dir.path));
    edit("config.json", "\"num_local_experts\":6", "\"num_local_experts\":5");
    refuses(PARE_EFORMAT, "has shape [6, 96, 64], config.json asks for [5, 96, 64]");
}
END_TEST

/* A tensor gets another name of the same length. */
static void rename_tensor(const char *from, const char *to)
{
    enum { LENGTH = 8 }; /* of the header, in front of it */
    size_t len;
    char *const bytes = folder_get(folder_file(&dir, "model.safetensors"), &len);
    char *const at = strstr(bytes + LENGTH, from);
    ck_assert_ptr_nonnull(at);
    memcpy(at, to, strlen(to));
    folder_put(&dir, "model.safetensors", bytes, len);
    free(bytes);
}

START_TEST(a_missing_stack_is_named_as_the_file_should_have_it)
{
    ck_assert(family_write(family_find("llama4_text"), dir.path));
    rename_tensor("2.feed_forward.experts.gate_up_proj", "2.feed_forward.experts.gate_up_pros");
    refuses(PARE_EFORMAT,
            "tensor model.layers.2.feed_forward.experts.gate_up_proj is missing, which holds all "
            "experts of block 2; nor is there one for each of them, "
            "model.layers.2.feed_forward.experts.0.gate_proj.weight and so on");
    ck_assert(family_write(family_find("llama4_text"), dir.path));
    rename_tensor("2.feed_forward.experts.down_proj", "2.feed_forward.experts.down_pros");
    refuses(PARE_EFORMAT, "tensor model.layers.2.feed_forward.experts.down_proj is missing, which");
    ck_assert(family_write(family_find("gpt_oss"), dir.path));
    rename_tensor("1.mlp.experts.gate_up_proj_bias", "1.mlp.experts.gate_up_proj_bits");
    refuses(PARE_EFORMAT, "tensor model.layers.1.mlp.experts.gate_up_proj_bias is missing, which");
}
END_TEST

START_TEST(a_block_of_the_other_kind_is_named)
{
    ck_assert(family_write(family_find("llama4_text"), dir.path));
    edit("config.json", "\"moe_layers\":[0,2]", "\"moe_layers\":[0,1,2]");
    refuses(PARE_EFORMAT,
            "tensor model.layers.1.feed_forward.shared_expert.gate_proj.weight is missing: block 1 "
            "has experts by config.json (moe_layers, interleave_moe_layer_step), but the file has "
            "model.layers.1.feed_forward.gate_proj.weight, of a block without experts");
    edit("config.json", "[0,1,2]", "[0]");
    refuses(PARE_EFORMAT,
            "tensor model.layers.2.feed_forward.gate_proj.weight is missing: block 2 has no "
            "experts by config.json (moe_layers, interleave_moe_layer_step), but the file has "
            "model.layers.2.feed_forward.router.weight, of a block with experts");
    ck_assert(family_write(family_find("deepseek_v3"), dir.path));
    edit("config.json", "\"first_k_dense_replace\":1", "\"first_k_dense_replace\":0");
    refuses(PARE_EFORMAT, "block 0 has experts by config.json (first_k_dense_replace), but the "
                          "file has model.layers.0.mlp.gate_proj.weight");
    edit("config.json", "\"first_k_dense_replace\":0", "\"first_k_dense_replace\":2");
    refuses(PARE_EFORMAT, "but the file has model.layers.1.mlp.gate.weight, of a block with");
}
END_TEST

/* --- GGUF --------------------------------------------------------------------------------------
 */

/* Names of both, without ".weight"; those of a block behind its prefix. */
static const char *const outer[][2] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
static const char *const inner[][2] = {
    {"attn_norm", "input_layernorm"},  {"post_attention_norm", "post_attention_layernorm"},
    {"attn_q", "self_attn.q_proj"},    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},    {"attn_output", "self_attn.o_proj"},
    {"attn_sinks", "self_attn.sinks"}, {"ffn_gate_inp", "mlp.router"}};
static const char *const each[][2] = {
    {"ffn_gate_exps", "gate_proj"}, {"ffn_up_exps", "up_proj"}, {"ffn_down_exps", "down_proj"}};

typedef struct gguf_file {
    const pare_checkpoint *ck;
    pare_gguf_writer w;
    float *value[128];
    size_t bytes[128];
} gguf_file;

/* One tensor of F32 from `count` of the checkpoint, whose names have a number in `pattern`. */
static void put(gguf_file *g, const char *gguf, const char *pattern, const char *from,
                const char *to, size_t count)
{
    char name[128], target[64];
    float *value = NULL;
    uint64_t shape[3] = {count}, n = 0;
    uint32_t rank = 0;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "%s", pattern);
        char *const mark = strchr(name, '#');
        if (mark)
            *mark = (char)('0' + i);
        (void)snprintf(name + strlen(name), sizeof name - strlen(name), "%s", from);
        const pare_tensor *const t = pare_checkpoint_find(g->ck, name);
        if (!t && strcmp(from, ".bias") == 0)
            return;
        ck_assert_msg(t != NULL, "%s", name);
        n = t->shape[0] * (t->rank > 1 ? t->shape[1] : 1);
        rank = t->rank + (count > 1);
        memcpy(shape + (count > 1), t->shape, t->rank * sizeof *shape);
        value = value ? value : PARE_NEW(&arena, float, count *n);
        ck_assert_ptr_nonnull(value);
        ck_assert_int_eq(pare_tensor_to_f32(&cx, t, 0, n, value + i * n), PARE_OK);
    }
    (void)snprintf(target, sizeof target, "%s%s", gguf, to);
    const char *const kept = pare_arena_text(&arena, target, strlen(target));
    const size_t at = pare_gguf_add(&g->w, kept, pare_ggml_type_named("F32"), rank, shape);
    g->value[at] = value;
    g->bytes[at] = count * n * sizeof *value;
}

static void put_words(pare_gguf_writer *w)
{
    pare_gguf_put_text(w, "general.architecture", "gpt-oss", 7);
    pare_gguf_put_u32(w, "gpt-oss.context_length", 256);
    pare_gguf_put_u32(w, "gpt-oss.embedding_length", HIDDEN);
    pare_gguf_put_u32(w, "gpt-oss.block_count", BLOCKS);
    pare_gguf_put_u32(w, "gpt-oss.feed_forward_length", WIDTH);
    pare_gguf_put_u32(w, "gpt-oss.expert_feed_forward_length", WIDTH);
    pare_gguf_put_u32(w, "gpt-oss.expert_count", EXPERTS);
    pare_gguf_put_u32(w, "gpt-oss.expert_used_count", 2);
    pare_gguf_put_u32(w, "gpt-oss.attention.head_count", 4);
    pare_gguf_put_u32(w, "gpt-oss.attention.head_count_kv", 2);
    pare_gguf_put_u32(w, "gpt-oss.attention.key_length", 16);
    pare_gguf_put_u32(w, "gpt-oss.attention.value_length", 16);
    pare_gguf_put_u32(w, "gpt-oss.attention.sliding_window", 9);
    pare_gguf_put_f32(w, "gpt-oss.attention.layer_norm_rms_epsilon", 1e-5f);
    pare_gguf_put_f32(w, "gpt-oss.rope.freq_base", 150000);
    pare_gguf_put_text(w, "gpt-oss.rope.scaling.type", "yarn", 4);
    pare_gguf_put_f32(w, "gpt-oss.rope.scaling.factor", 8);
    pare_gguf_put_u32(w, "gpt-oss.rope.scaling.original_context_length", 64);
}

static void put_block(gguf_file *g, size_t b)
{
    char gguf[64], original[96];
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) {
        const bool sinks = strcmp(inner[i][0], "attn_sinks") == 0;
        (void)snprintf(gguf, sizeof gguf, "blk.%zu.%s", b, inner[i][0]);
        (void)snprintf(original, sizeof original, "model.layers.%zu.%s", b, inner[i][1]);
        put(g, gguf, original, sinks ? "" : ".weight", ".weight", 1);
        put(g, gguf, original, ".bias", ".bias", 1);
    }
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        (void)snprintf(gguf, sizeof gguf, "blk.%zu.%s", b, each[i][0]);
        (void)snprintf(original, sizeof original, "model.layers.%zu.mlp.experts.#.%s", b,
                       each[i][1]);
        put(g, gguf, original, ".weight", ".weight", EXPERTS);
        put(g, gguf, original, ".bias", ".bias", EXPERTS);
    }
}

static void write_gguf(const pare_checkpoint *ck, const char *path)
{
    static gguf_file g;
    g = (gguf_file){.ck = ck};
    ck_assert_int_eq(pare_gguf_begin(&cx, &arena, 128, &g.w), PARE_OK);
    put_words(&g.w);
    for (size_t i = 0; i < sizeof outer / sizeof *outer; i++)
        put(&g, outer[i][0], outer[i][1], ".weight", ".weight", 1);
    for (size_t b = 0; b < BLOCKS; b++)
        put_block(&g, b);
    ck_assert_int_eq(pare_gguf_lay_out(&g.w), PARE_OK);
    ck_assert_int_eq(pare_gguf_create(&g.w, path), PARE_OK);
    for (size_t i = 0; i < g.w.slots; i++)
        ck_assert_int_eq(pare_gguf_fill(&g.w, i, 0, g.value[i], g.bytes[i]), PARE_OK);
    ck_assert_int_eq(pare_gguf_sync(&g.w), PARE_OK);
    pare_gguf_close(&g.w);
}

static float *floats_of(const pare_leaf *l)
{
    float *const to = PARE_NEW(&arena, float, l->n * l->k);
    ck_assert_ptr_nonnull(to);
    if (l->linear)
        pare_linear_to_f32(&cx, l->linear, to);
    else
        memcpy(to, *l->vector, l->n * sizeof *to);
    return to;
}

START_TEST(a_gguf_file_is_the_same_model)
{
    pare_checkpoint from, ck;
    pare_model was, is;
    ck_assert(family_write(family_find("gpt_oss"), dir.path));
    edit("config.json", "\"truncate\":false", "\"truncate\":true");
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &from), PARE_OK);
    ck_assert_msg(pare_model_load(&cx, &arena, &from, &was) == PARE_OK, "%s", cx.what);
    const char *const path = folder_file(&dir, "m.gguf");
    write_gguf(&from, path);
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, path, &ck) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &is) == PARE_OK, "%s", cx.what);
    const pare_config *const c = &was.config, *const d = &is.config;
    ck_assert(d->experts == EXPERTS && d->experts_used == 2 && d->expert_norm);
    ck_assert(d->window == c->window && memcmp(d->wide, c->wide, sizeof c->wide) == 0);
    ck_assert(d->act == c->act && d->rope.attention == c->rope.attention && !d->tied);
    for (size_t i = 0; i < 8; i++)
        ck_assert(pare_rope_frequency(&d->rope, i, 8, 1) == pare_rope_frequency(&c->rope, i, 8, 1));
    for (size_t b = 0; b < BLOCKS; b++)
        for (size_t i = 0; i < pare_block_leaves(c); i++) {
            const pare_leaf x = pare_block_leaf(c, &was.block[b], i);
            const pare_leaf y = pare_block_leaf(d, &is.block[b], i);
            if (!x.name || (x.vector && !*x.vector))
                continue;
            ck_assert_msg(y.linear || *y.vector, "%s", x.name);
            ck_assert_mem_eq(floats_of(&x), floats_of(&y), x.n * x.k * sizeof(float));
        }
    pare_checkpoint_close(&ck);
    pare_checkpoint_close(&from);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("expert_stack");
    TCase *const t = tcase_create("stacks");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, mxfp4_becomes_the_weights_that_its_codes_stand_for);
    tcase_add_test(t, floats_keep_their_bits_and_their_biases);
    tcase_add_test(t, rows_of_outputs_stay_where_they_lie);
    tcase_add_test(t, stacks_that_the_model_does_not_use_are_left_out);
    tcase_add_test(t, stacks_that_are_broken_are_refused_by_name);
    tcase_add_test(t, a_missing_stack_is_named_as_the_file_should_have_it);
    tcase_add_test(t, a_block_of_the_other_kind_is_named);
    tcase_add_test(t, a_gguf_file_is_the_same_model);
    suite_add_tcase(s, t);
    return unit_main(s);
}
