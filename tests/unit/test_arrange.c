#include "formats/checkpoint.h"
#include "kernels/half.h"
#include "tests/data/families.h"
#include "tests/unit/load_case.h"

/* A family of the table with another configuration or tensor list. */
static family copy_of(const char *name)
{
    const family *const f = family_find(name);
    ck_assert_ptr_nonnull(f);
    return *f;
}

static void write_family(const family *f)
{
    ck_assert(family_write(f, dir.path));
}

static void open_ok(pare_checkpoint *ck)
{
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, dir.path, ck) == PARE_OK, "%s", cx.what);
}

static const pare_tensor *tensor(const pare_checkpoint *ck, const char *name)
{
    const pare_tensor *const t = pare_checkpoint_find(ck, name);
    ck_assert_msg(t != NULL, "%s is missing", name);
    return t;
}

/* Element `i` of a tensor as the file of the family holds it. */
static uint32_t element(const family *f, const char *name, size_t i)
{
    family_shape t;
    for (size_t at = 0; family_tensor(f, at, &t); at++)
        if (strcmp(t.name, name) == 0)
            return family_element(f, &t, i);
    ck_abort_msg("%s is not written", name);
}

static uint32_t half_at(const pare_tensor *t, size_t i)
{
    uint16_t value;
    memcpy(&value, (const char *)t->data + 2 * i, sizeof value);
    return value;
}

START_TEST(rows_that_lie_together_are_views)
{
    pare_checkpoint ck;
    const family f = copy_of("phi3");
    write_family(&f);
    open_ok(&ck);
    const pare_tensor *const v = tensor(&ck, "model.layers.1.self_attn.qkv_proj.v.weight");
    ck_assert(v->rank == 2 && v->shape[0] == 32 && v->shape[1] == 64 && v->bytes == 4096);
    const unsigned char *const data = v->data;
    ck_assert(data > ck.file[0].data && data < ck.file[0].data + ck.file[0].bytes);
    for (size_t i = 0; i < 32 * 64; i++)
        ck_assert_uint_eq(half_at(v, i),
                          element(&f, "model.layers.1.self_attn.qkv_proj.weight", 96 * 64 + i));
    const pare_tensor *const up = tensor(&ck, "model.layers.0.mlp.gate_up_proj.up.weight");
    ck_assert_uint_eq(half_at(up, 5),
                      element(&f, "model.layers.0.mlp.gate_up_proj.weight", 96 * 64 + 5));
    ck_assert_ptr_null(pare_checkpoint_find(&ck, "model.layers.0.mlp.gate_up_proj.weight"));
    ck_assert_uint_eq(ck.scratch.reserved, 0);
    pare_checkpoint_close(&ck);
}
END_TEST

START_TEST(transposed_linears_are_turned_and_names_get_their_prefix)
{
    pare_checkpoint ck;
    const family f = copy_of("gpt2");
    write_family(&f);
    open_ok(&ck);
    const pare_tensor *const k = tensor(&ck, "transformer.h.1.attn.c_attn.k.weight");
    const pare_tensor *const down = tensor(&ck, "transformer.h.0.mlp.c_proj.weight");
    const pare_tensor *const bias = tensor(&ck, "transformer.h.1.attn.c_attn.v.bias");
    ck_assert(k->shape[0] == 64 && k->shape[1] == 64);
    ck_assert(down->shape[0] == 64 && down->shape[1] == 256);
    for (size_t r = 0; r < 64; r++) {
        for (size_t j = 0; j < 64; j++)
            ck_assert_uint_eq(half_at(k, r * 64 + j),
                              element(&f, "h.1.attn.c_attn.weight", j * 192 + 64 + r));
        for (size_t j = 0; j < 256; j++)
            ck_assert_uint_eq(half_at(down, r * 256 + j),
                              element(&f, "h.0.mlp.c_proj.weight", j * 64 + r));
        ck_assert_uint_eq(half_at(bias, r), element(&f, "h.1.attn.c_attn.bias", 128 + r));
    }
    (void)tensor(&ck, "transformer.wpe.weight");
    ck_assert_ptr_null(pare_checkpoint_find(&ck, "transformer.h.0.attn.bias"));
    ck_assert_ptr_null(pare_checkpoint_find(&ck, "h.0.attn.bias"));
    pare_checkpoint_close(&ck);
}
END_TEST

START_TEST(heads_that_lie_one_after_the_other_are_taken_apart)
{
    pare_checkpoint ck;
    const family f = copy_of("gpt_neox");
    static const char name[] = "gpt_neox.layers.1.attention.query_key_value.";
    write_family(&f);
    open_ok(&ck);
    for (size_t part = 0; part < 3; part++) {
        char weight[96], bias[96];
        (void)snprintf(weight, sizeof weight, "%s%c.weight", name, "qkv"[part]);
        (void)snprintf(bias, sizeof bias, "%s%c.bias", name, "qkv"[part]);
        const pare_tensor *const w = tensor(&ck, weight), *const b = tensor(&ck, bias);
        ck_assert(w->shape[0] == 64 && w->shape[1] == 64 && b->shape[0] == 64 && b->rank == 1);
        for (size_t r = 0; r < 64; r++) {
            const size_t from = r / 16 * 48 + part * 16 + r % 16; /* four heads of 16 */
            ck_assert_uint_eq(
                half_at(b, r),
                element(&f, "gpt_neox.layers.1.attention.query_key_value.bias", from));
            ck_assert_uint_eq(
                half_at(w, r * 64 + 7),
                element(&f, "gpt_neox.layers.1.attention.query_key_value.weight", from * 64 + 7));
        }
    }
    pare_checkpoint_close(&ck);
}
END_TEST

/* Rows of tensor `part` begin in the tensor `whole` of two key heads where `first` says, head after
 * head in steps of `step`. */
static void check_span(const family *f, const pare_checkpoint *ck, const char *part,
                       const char *whole, size_t at, size_t rows, size_t first, size_t step)
{
    char name[96], from[96];
    (void)snprintf(name, sizeof name, "model.layers.1.linear_attn.%s.weight", part);
    (void)snprintf(from, sizeof from, "model.layers.1.linear_attn.%s.weight", whole);
    const pare_tensor *const t = tensor(ck, name);
    for (size_t r = 0; r < 2 * rows; r++)
        for (size_t j = 0; j < 64; j += 9)
            ck_assert_uint_eq(half_at(t, (at + r) * 64 + j),
                              element(f, from, (r / rows * step + first + r % rows) * 64 + j));
}

START_TEST(inputs_of_a_state_are_taken_apart_by_key_heads)
{
    static const char qkv[] = "in_proj_qkvz.qkv", all[] = "in_proj_qkvz";
    pare_checkpoint ck;
    const family f = copy_of("qwen3_next");
    write_family(&f);
    open_ok(&ck);
    check_span(&f, &ck, qkv, all, 0, 12, 0, 104);
    check_span(&f, &ck, qkv, all, 24, 12, 12, 104);
    check_span(&f, &ck, qkv, all, 48, 40, 24, 104);
    check_span(&f, &ck, "in_proj_qkvz.z", all, 0, 40, 64, 104);
    check_span(&f, &ck, "in_proj_ba.b", "in_proj_ba", 0, 2, 0, 4);
    check_span(&f, &ck, "in_proj_ba.a", "in_proj_ba", 0, 2, 2, 4);
    ck_assert_ptr_null(pare_checkpoint_find(&ck, "model.layers.1.linear_attn.in_proj_ba.weight"));
    pare_checkpoint_close(&ck);
}
END_TEST

START_TEST(ternary_codes_become_floats_of_the_scale)
{
    pare_checkpoint ck;
    const family f = copy_of("bitnet");
    static const char name[] = "model.layers.2.mlp.down_proj.weight";
    write_family(&f);
    open_ok(&ck);
    const pare_tensor *const w = tensor(&ck, name);
    ck_assert(w->dtype == PARE_F16 && w->shape[0] == 64 && w->shape[1] == 96);
    ck_assert_ptr_null(pare_checkpoint_find(&ck, "model.layers.2.mlp.down_proj.weight_scale"));
    const float scale =
        pare_f16_to_f32((uint16_t)element(&f, "model.layers.2.mlp.down_proj.weight_scale", 0));
    for (size_t i = 0; i < 64 * 96; i++) {
        const size_t plane = i / (16 * 96), at = i % (16 * 96);
        const float code = (float)(element(&f, name, at) >> 2 * plane & 3) - 1;
        ck_assert(pare_f16_to_f32((uint16_t)half_at(w, i)) == code * scale);
    }
    pare_checkpoint_close(&ck);
}
END_TEST

START_TEST(a_list_of_tensors_has_the_same_names_and_shapes)
{
    static const char *const name[] = {"gpt2",   "phi3",          "gpt_neox",
                                       "bitnet", "bitnet_master", "qwen3_next"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        pare_checkpoint ck, list;
        write_family(family_find(name[i]));
        open_ok(&ck);
        ck_assert_int_eq(pare_checkpoint_list(&cx, &arena, dir.path, &list), PARE_OK);
        ck_assert_uint_eq(ck.tensors, list.tensors);
        ck_assert_uint_eq(list.scratch.reserved, 0);
        for (size_t t = 0; t < ck.tensors; t++) {
            const pare_tensor *const x = &ck.tensor[t], *const y = &list.tensor[t];
            ck_assert_str_eq(x->name, y->name);
            ck_assert(x->rank == y->rank && x->dtype == y->dtype && x->bytes == y->bytes);
            ck_assert_mem_eq(x->shape, y->shape, sizeof x->shape);
        }
        pare_checkpoint_close(&list);
        pare_checkpoint_close(&ck);
    }
}
END_TEST

/* Writes the family and expects loading to fail with a message. */
static void refused(const family *f, const char *message)
{
    write_family(f);
    refuses(PARE_EFORMAT, message);
}

static void replace(char *text, const char *from, const char *to)
{
    char *const at = strstr(text, from);
    ck_assert(at && strlen(from) == strlen(to));
    memcpy(at, to, strlen(to));
}

START_TEST(what_does_not_fit_the_configuration_is_refused)
{
    char config[2048];
    family f = copy_of("phi3");
    (void)snprintf(config, sizeof config, "%s", f.config);
    f.config = config;
    replace(config, "\"num_key_value_heads\":2", "\"num_key_value_heads\":4");
    refused(&f, "does not have the shape [192, 64] that config.json asks for");
    f = copy_of("gpt2");
    f.tensor[9] = "h.%zu.attn.c_attn.weight AH";
    refused(&f, "does not have the shape [64, 192] that config.json asks for");
    f = copy_of("qwen3_next");
    (void)snprintf(config, sizeof config, "%s", f.config);
    f.config = config;
    replace(config, "\"linear_value_head_dim\":20", "\"linear_value_head_dim\":24");
    refused(&f, "does not have the shape [240, 64] that config.json asks for");
    f = copy_of("gpt2");
    f.tensor[17] = "h.%zu.attn.c_attn.k.bias H";
    refused(&f, "tensor transformer.h.0.attn.c_attn.k.bias is there twice");
    f = copy_of("gpt2");
    f.tensor[9] = NULL; /* and what stands behind it */
    refused(&f, "tensor transformer.h.0.attn.c_attn.weight is missing");
}
END_TEST

/* The name in the file, not that of a part inside. */
START_TEST(several_linears_that_are_missing_have_one_name)
{
    static const char *const whole[][2] = {{"phi3", "self_attn.qkv_proj.weight"},
                                           {"phi3", "mlp.gate_up_proj.weight"},
                                           {"gpt_neox", "attention.query_key_value.bias"},
                                           {"qwen3_next", "linear_attn.in_proj_qkvz.weight"},
                                           {"qwen3_next", "linear_attn.in_proj_ba.weight"}};
    char message[128];
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        family f = copy_of(whole[i][0]);
        size_t at = 0;
        while (!strstr(f.tensor[at], whole[i][1]))
            at++;
        f.tensor[at] = "other 1";
        (void)snprintf(message, sizeof message, "layers.0.%s is missing", whole[i][1]);
        refused(&f, message);
    }
}
END_TEST

/* A tensor that a model has or not by an entry of config.json; texts of one length. */
START_TEST(the_entry_that_asks_for_a_tensor_is_named)
{
    static const char *const by[][4] = {
        {"qwen3_5", "\"full_attention_interval\":3", "\"full_attention_interval\":4",
         "block 2 has a recurrent state by config.json (full_attention_interval), but the file has "
         "model.layers.2.self_attn.q_proj.weight, of a block with attention"},
        {"qwen3_next", "\"full_attention_interval\":3,", "\"full_attention_interval\":2,",
         "model.layers.1.self_attn.q_proj.weight is missing: block 1 has attention by config.json"},
        {"qwen3_next", "\"full_attention_interval\":3", "\"full_attention_intervax\":3",
         "tensor model.layers.2.linear_attn.in_proj_qkvz.weight is missing: block 2 has a "
         "recurrent "
         "state by config.json (the default of full_attention_interval)"},
        {"llama", "\"attention_bias\":true", "\"attention_bias\":null",
         "k_proj.bias has no place in a model of type llama with this config.json: attention_bias "
         "is null"},
        {"llama", "\"mlp_bias\":true", "\"mlp_bias\":null", "config.json: mlp_bias is null"},
        {"glm4_moe", "\"use_qk_norm\":true", "\"use_qk_nort\":true",
         "k_norm.weight has no place in a model of type glm4_moe with this config.json: "
         "use_qk_norm is not there"},
        {"glm4_moe_air", "\"use_qk_norm\":false", "\"use_qk_norm\": true",
         "q_norm.weight is missing, which config.json asks for: use_qk_norm is true"}};
    char config[4096];
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        family f = copy_of(by[i][0]);
        (void)snprintf(config, sizeof config, "%s", f.config);
        f.config = config;
        replace(config, by[i][1], by[i][2]);
        refused(&f, by[i][3]);
    }
}
END_TEST

static void add_tensor(family *f, const char *shape)
{
    size_t i = 0;
    while (f->tensor[i])
        i++;
    ck_assert_uint_lt(i, sizeof f->tensor / sizeof *f->tensor);
    f->tensor[i] = shape;
}

/* Of several linears in one tensor, which is no more in the list when parts of it are found. */
START_TEST(parts_of_linears_that_were_taken_apart_are_refused)
{
    static const char *const part[][3] = {
        {"qwen3_next", "model.layers.1.linear_attn.in_proj_qkvz.bias H", "qkvz.bias"},
        {"qwen3_next", "model.layers.1.linear_attn.in_proj_qkvz.weight_scale_inv 11",
         "qkvz.weight_scale_inv"},
        {"qwen3_next", "model.layers.0.linear_attn.in_proj_ba.lora_A.weight 1H",
         "in_proj_ba.lora_A.weight"},
        {"phi3", "model.layers.0.self_attn.qkv_proj.weight_scale 1", "qkv_proj.weight_scale"},
        {"phi3", "model.layers.0.self_attn.qkv_proj.bias A", "self_attn.qkv_proj.bias"},
        {"phi3", "model.layers.2.mlp.gate_up_proj.lora_B.weight G1", "gate_up_proj.lora_B.weight"}};
    static const char *const other[] = {"model.layers.0.self_attn.qkv_proj.k_scale 1",
                                        "model.layers.0.self_attn.qkv_projector.weight_scale 1",
                                        "model.layers.3.self_attn.qkv_proj.weight_scale 1"};
    char message[128];
    pare_model m;
    family f;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        f = copy_of(part[i][0]);
        add_tensor(&f, part[i][1]);
        (void)snprintf(message, sizeof message, "%s has no place in a model of type", part[i][2]);
        refused(&f, message);
    }
    f = copy_of("phi3");
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        add_tensor(&f, other[i]);
    write_family(&f);
    ck_assert_msg(load(dir.path, &m) == PARE_OK, "%s", cx.what);
}
END_TEST

/* As ExLlamaV3 writes them. */
START_TEST(linears_that_lie_apart_load_as_those_of_one_tensor)
{
    family f = copy_of("phi3");
    pare_checkpoint ck;
    pare_model m;
    for (size_t i = 0; f.tensor[i]; i++)
        if (strstr(f.tensor[i], "qkv_proj"))
            f.tensor[i] = "model.layers.%zu.self_attn.q_proj.weight QH";
        else if (strstr(f.tensor[i], "gate_up_proj"))
            f.tensor[i] = "model.layers.%zu.mlp.up_proj.weight MH";
    add_tensor(&f, "model.layers.%zu.self_attn.k_proj.weight KH");
    add_tensor(&f, "model.layers.%zu.self_attn.v_proj.weight KH");
    add_tensor(&f, "model.layers.%zu.mlp.gate_proj.weight MH");
    write_family(&f);
    ck_assert_msg(load(dir.path, &m) == PARE_OK, "%s", cx.what);
    open_ok(&ck);
    ck_assert_uint_eq(half_at(tensor(&ck, "model.layers.1.self_attn.qkv_proj.v.weight"), 70),
                      element(&f, "model.layers.1.self_attn.v_proj.weight", 70));
    ck_assert_uint_eq(half_at(tensor(&ck, "model.layers.0.mlp.gate_up_proj.up.weight"), 5),
                      element(&f, "model.layers.0.mlp.up_proj.weight", 5));
    pare_checkpoint_close(&ck);
    add_tensor(&f, "model.layers.%zu.mlp.gate_up_proj.weight GH");
    refused(&f, "tensor model.layers.0.mlp.gate_up_proj.gate.weight is there twice");
}
END_TEST

START_TEST(ternary_linears_that_say_too_little_are_refused)
{
    char config[2048];
    family f = copy_of("bitnet");
    f.tensor[7] = "model.layers.%zu.other 1"; /* in place of a scale */
    refused(&f, "self_attn.q_proj.weight: there is no weight_scale of it");
    f = copy_of("bitnet");
    f.tensor[7] = "model.layers.%zu.self_attn.q_proj.weight_scale D";
    refused(&f, "its weight_scale is not one number");
    f = copy_of("bitnet");
    f.tensor[6] = "model.layers.%zu.self_attn.q_proj.weight KH*";
    refused(&f, "does not hold the [64, 64] weights that config.json asks for");
    f = copy_of("bitnet_master");
    (void)snprintf(config, sizeof config, "%s", f.config);
    f.config = config;
    replace(config, "\"quantization_mode\":\"online\"", "\"quantization_mode\":\"offlin\"");
    refused(&f, "there is no weight_scale of it");
    f = copy_of("bitnet");
    (void)snprintf(config, sizeof config, "%s", f.config);
    f.config = config;
    replace(config, "\"quant_method\":\"bitnet\"", "\"quant_method\":\"awqawq\"");
    write_family(&f);
    refuses(PARE_ENOTSUP, "quant_method is not bitnet");
}
END_TEST

START_TEST(a_failing_allocation_leaves_nothing_behind)
{
    static const char *const name[] = {"gpt2", "bitnet_master", "gpt_neox"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        write_family(family_find(name[i]));
        for (long n = 0;; n++) {
            unit_failing failing = {.left = n};
            pare_ctx other;
            pare_ctx_init(&other);
            other.alloc = (pare_alloc){unit_failing_resize, &failing};
            pare_arena a;
            pare_checkpoint ck = {.cx = &other};
            pare_status s = pare_arena_init(&other, &a, 0);
            if (s == PARE_OK)
                s = pare_checkpoint_open(&other, &a, dir.path, &ck);
            pare_checkpoint_close(&ck);
            pare_arena_release(&a);
            ck_assert_int_eq(failing.live, 0);
            if (s == PARE_OK)
                break;
            ck_assert_int_eq(s, PARE_ENOMEM);
        }
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("arrange");
    TCase *const t = tcase_create("arrange");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, rows_that_lie_together_are_views);
    tcase_add_test(t, transposed_linears_are_turned_and_names_get_their_prefix);
    tcase_add_test(t, heads_that_lie_one_after_the_other_are_taken_apart);
    tcase_add_test(t, inputs_of_a_state_are_taken_apart_by_key_heads);
    tcase_add_test(t, ternary_codes_become_floats_of_the_scale);
    tcase_add_test(t, a_list_of_tensors_has_the_same_names_and_shapes);
    tcase_add_test(t, what_does_not_fit_the_configuration_is_refused);
    tcase_add_test(t, several_linears_that_are_missing_have_one_name);
    tcase_add_test(t, the_entry_that_asks_for_a_tensor_is_named);
    tcase_add_test(t, parts_of_linears_that_were_taken_apart_are_refused);
    tcase_add_test(t, linears_that_lie_apart_load_as_those_of_one_tensor);
    tcase_add_test(t, ternary_linears_that_say_too_little_are_refused);
    tcase_add_test(t, a_failing_allocation_leaves_nothing_behind);
    suite_add_tcase(s, t);
    return unit_main(s);
}
