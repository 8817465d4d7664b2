/* Structured passes from the recipe to a smaller plain checkpoint. */
#include <math.h>

#include "compress/artifact/verify.h"
#include "compress/export/export.h"
#include "tests/unit/job.h"

static job_place place;

/* F32, so that what is stored is what was computed. */
static void setup(void)
{
    tiny_model m = tiny_model_default();
    m.dtype = PARE_F32;
    m.tied = true;
    place = job_make(&m);
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

#define TOP      "pare: 1\nmodel: model\nseed: 5\n"
#define DATA     "calibration: {tokens: tokens.i32, samples: 8, window: 64}\n"
#define EVALUATE "evaluate:\n  - kl: {tokens: tokens.i32, window: 64}\n"
#define HEAD     TOP DATA EVALUATE "passes:\n"

/* A finished job: what it evaluated, and its output as a model. */
typedef struct outcome {
    pare_ctx cx;
    pare_arena a;
    pare_report_eval e;
    size_t cuts;
    pare_checkpoint ck;
    pare_model m;
} outcome;

/* Runs a job; the plan must have known every byte of the one file that it writes. */
static void run(outcome *o, const char *recipe, const char *output)
{
    pare_plan plan;
    pare_compress_result result;
    char path[2][512];
    struct stat st;
    job_recipe(&place, recipe);
    pare_ctx_init(&o->cx);
    ck_assert_int_eq(pare_arena_init(&o->cx, &o->a, 0), PARE_OK);
    (void)snprintf(path[0], sizeof path[0], "%s", job_path(&place, "recipe.yaml"));
    (void)snprintf(path[1], sizeof path[1], "%s", job_path(&place, output));
    const pare_job job = {.recipe = path[0], .output = path[1]};
    ck_assert_msg(pare_plan_make(&o->cx, &o->a, &job, &plan) == PARE_OK, "%s", o->cx.what);
    ck_assert_msg(pare_compress(&o->cx, &o->a, &job, NULL, &result) == PARE_OK, "%s", o->cx.what);
    ck_assert_int_eq(stat(pare_path_join(&o->a, path[1], "model.safetensors"), &st), 0);
    ck_assert_uint_eq((uint64_t)st.st_size, plan.settled.packed_bytes);
    ck_assert_ptr_nonnull(result.report.structure);
    o->e = result.report.evaluation[0];
    o->cuts = result.report.structure->cuts;
    pare_plan_close(&plan);
    ck_assert_msg(pare_checkpoint_open(&o->cx, &o->a, path[1], &o->ck) == PARE_OK, "%s",
                  o->cx.what);
    ck_assert_msg(pare_model_load(&o->cx, &o->a, &o->ck, &o->m) == PARE_OK, "%s", o->cx.what);
}

static void finish(outcome *o)
{
    pare_checkpoint_close(&o->ck);
    pare_arena_release(&o->a);
    ck_assert_uint_eq(o->cx.live_bytes, 0);
}

static int64_t member(const outcome *o, const char *key)
{
    return pare_json_integer(pare_json_get(o->ck.config, key), -1);
}

START_TEST(the_configuration_and_every_tensor_have_the_new_shapes)
{
    outcome o;
    run(&o, HEAD "  - flap: {ratio: 0.5}\n", "out");
    ck_assert_int_eq(member(&o, "num_hidden_layers"), 2);
    ck_assert_int_eq(member(&o, "hidden_size"), 48);
    ck_assert_int_eq(member(&o, "num_key_value_heads"), 1);
    ck_assert_int_eq(member(&o, "num_attention_heads"), 3);
    ck_assert_int_eq(member(&o, "head_dim"), 12);
    ck_assert_int_eq(member(&o, "intermediate_size"), 64);
    ck_assert(pare_json_bool(pare_json_get(o.ck.config, "attention_bias"), false));
    ck_assert(pare_json_bool(pare_json_get(o.ck.config, "mlp_bias"), false));
    ck_assert_int_eq(pare_json_type_of(pare_json_get(o.ck.config, "quantization_config")),
                     PARE_JSON_ABSENT);
    ck_assert_uint_eq(o.cuts, 4);
    ck_assert_uint_eq(o.ck.tensors, 2 + 2 * (2 + 2 * PARE_COMMON_ROLES));
    for (size_t b = 0; b < 2; b++)
        for (size_t role = 0; role < PARE_COMMON_ROLES; role++) {
            const pare_linear *const l = &o.m.block[b].linear[role];
            const bool filled = role == PARE_ROLE_O || role == PARE_ROLE_DOWN;
            bool any = false;
            ck_assert_int_eq(l->dtype, PARE_F32);
            ck_assert_ptr_nonnull(l->bias);
            for (size_t i = 0; i < l->n; i++)
                any |= l->bias[i] != 0;
            ck_assert_int_eq(any, filled);
        }
    finish(&o);
}
END_TEST

START_TEST(biases_are_written_where_something_went)
{
    outcome o;
    run(&o, HEAD "  - flap: {ratio: 0.5, heads: false}\n", "out");
    ck_assert_int_eq(member(&o, "num_key_value_heads"), 2);
    ck_assert(!pare_json_bool(pare_json_get(o.ck.config, "attention_bias"), true));
    ck_assert(!o.m.block[0].linear[PARE_ROLE_O].bias && o.m.block[0].linear[PARE_ROLE_DOWN].bias);
    finish(&o);
    run(&o, TOP EVALUATE "passes:\n  - channels: {score: random, ratio: 0.5}\n", "random");
    ck_assert_int_eq(member(&o, "intermediate_size"), 64);
    ck_assert(!o.m.block[0].linear[PARE_ROLE_O].bias && !o.m.block[0].linear[PARE_ROLE_DOWN].bias);
    finish(&o);
}
END_TEST

/* Channels and a key/value head that nothing reads go first, and the model computes what it did. */
START_TEST(what_nobody_reads_goes_without_a_trace)
{
    static const char *const recipes[] = {
        HEAD "  - flap: {ratio: 0.5, ffn: false}\n  - channels: {ratio: 0.15, heads: false}\n",
        HEAD "  - channels: {ratio: 0.5, ffn: false}\n  - flap: {ratio: 0.15, heads: false}\n",
        HEAD "  - channels: {score: magnitude, ratio: 0.5, ffn: false}\n"
             "  - channels: {score: magnitude, ratio: 0.15, heads: false}\n"};
    outcome o;
    for (size_t b = 0; b < 2; b++) {
        for (int c = 0; c < 16; c++) { /* 112 - 16 is a multiple of 32 */
            job_scale(&place, b, "mlp.down_proj", JOB_ALL, 7 * c, 0);
            job_scale(&place, b, "mlp.gate_proj", 7 * c, JOB_ALL, 0.01F);
        }
        for (int c = 0; c < 36; c++) {
            job_scale(&place, b, "self_attn.o_proj", JOB_ALL, (b ? 36 : 0) + c, 0);
            job_scale(&place, b, "self_attn.q_proj", (b ? 36 : 0) + c, JOB_ALL, 0.01F);
        }
    }
    run(&o, recipes[_i], "out");
    ck_assert_int_eq(member(&o, "intermediate_size"), 96);
    ck_assert_int_eq(member(&o, "num_key_value_heads"), 1);
    ck_assert_msg(o.e.after.kl_mean < 1e-9, "KL %g", o.e.after.kl_mean);
    ck_assert_double_eq_tol(o.e.after.nll, o.e.before.nll, 1e-5);
    finish(&o);
}
END_TEST

START_TEST(one_seed_takes_the_same_parts_and_another_others)
{
    outcome o;
    double kl[3];
    static const char *const recipes[] = {HEAD "  - channels: {score: random, ratio: 0.4}\n",
                                          HEAD "  - channels: {score: random, ratio: 0.4}\n",
                                          "pare: 1\nmodel: model\nseed: 6\n" DATA EVALUATE
                                          "passes:\n  - channels: {score: random, ratio: 0.4}\n"};
    static const char *const output[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        run(&o, recipes[i], output[i]);
        kl[i] = o.e.after.kl_mean;
        finish(&o);
    }
    ck_assert_double_eq(kl[0], kl[1]);
    ck_assert_double_ne(kl[0], kl[2]);
}
END_TEST

static void hash(const char *output, char hex[PARE_SHA256_HEX])
{
    static const char *const name[] = {"config.json", "manifest.json", "model.safetensors"};
    pare_ctx cx;
    pare_arena a;
    char all[3 * PARE_SHA256_HEX] = "";
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    for (size_t i = 0; i < 3; i++) {
        char *text, *const path = pare_path_join(&a, job_path(&place, output), name[i]);
        size_t len;
        ck_assert_msg(pare_file_read(&cx, &a, path, 1 << 28, &text, &len) == PARE_OK, "%s",
                      cx.what);
        ck_assert_int_eq(pare_sha256_hex(&cx, text, len, all + i * (PARE_SHA256_HEX - 1)), PARE_OK);
    }
    ck_assert_int_eq(pare_sha256_hex(&cx, all, strlen(all), hex), PARE_OK);
    pare_arena_release(&a);
}

static void stop_at_block(void *self, const pare_event *e)
{
    *(volatile int *)self |= e->kind == PARE_EVENT_BLOCK;
}

START_TEST(bytes_are_the_same_for_any_thread_count_and_after_a_break)
{
    static const char *const recipes[] = {
        HEAD "  - flap: {ratio: 0.5}\n",
        HEAD "  - channels: {score: magnitude, ratio: 0.5, ffn: false}\n"
             "  - flap: {ratio: 0.3, heads: false}\n",
        HEAD "  - depth\n", HEAD "  - slicegpt: {ratio: 0.5}\n",
        HEAD "  - ziplm: {ratio: 0.5, targets: \"*.layers.1.mlp.*\"}\n"
             "  - channels: {ratio: 0.5, ffn: false}\n"};
    char first[PARE_SHA256_HEX], other[PARE_SHA256_HEX], what[1024];
    volatile int stop = 0;
    const pare_events events = {stop_at_block, (void *)&stop};
    const job_opts broken = {.output = "two", .events = &events, .interrupt = &stop};
    job_recipe(&place, recipes[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&place, broken, what), PARE_EINTERRUPTED);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "three", .threads = 2}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "five", .threads = 5}, NULL), PARE_OK);
    hash("one", first);
    static const char *const others[] = {"two", "three", "five"};
    for (size_t i = 0; i < 3; i++) {
        hash(others[i], other);
        ck_assert_str_eq(first, other);
    }
    ck_assert_int_ne(access(job_path(&place, "two/packed.index.json"), F_OK), 0);
}
END_TEST

START_TEST(a_finished_output_is_replaced_on_demand_and_verified)
{
    outcome o;
    pare_verify_result v;
    run(&o, HEAD "  - flap: {ratio: 0.3}\n", "out");
    finish(&o);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out", .restart = true}, NULL), PARE_OK);
    pare_ctx cx;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_verify(&cx, job_path(&place, "out"), NULL, NULL, &v), PARE_OK);
    ck_assert_uint_eq(v.findings, 0);
    const int fd = open(job_path(&place, "out/model.safetensors"), O_RDWR);
    unsigned char byte;
    ck_assert_int_eq(pread(fd, &byte, 1, 20000), 1);
    byte ^= 1;
    ck_assert_int_eq(pwrite(fd, &byte, 1, 20000), 1);
    (void)close(fd);
    ck_assert_int_eq(pare_verify(&cx, job_path(&place, "out"), NULL, NULL, &v), PARE_OK);
    ck_assert_uint_eq(v.findings, 2); /* the file and the tensor */
}
END_TEST

/* Pruning is always evaluated: on windows that were held out when the recipe names no data. */
START_TEST(a_recipe_without_data_is_evaluated_all_the_same)
{
    outcome o;
    run(&o, TOP DATA "passes:\n  - flap: {ratio: 0.5}\n", "out");
    ck_assert(o.e.after.has_kl && o.e.after.kl_mean > 0);
    finish(&o);
}
END_TEST

/* What it wrote is a model: a second recipe quantizes it. */
START_TEST(the_smaller_model_can_be_quantized)
{
    outcome o;
    run(&o, HEAD "  - flap: {ratio: 0.5}\n", "small");
    finish(&o);
    job_recipe(&place,
               "pare: 1\nmodel: small\n" DATA EVALUATE "passes:\n  - gptq: {bits: 8, group: 32}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "packed"}, NULL), PARE_OK);
}
END_TEST

/* KL that the passes of a second recipe leave of the checkpoint `out`, whose files have the width
 * of each block. */
static double pack(const char *passes)
{
    char recipe[512];
    pare_arena a;
    pare_ctx cx;
    pare_compress_result result;
    pare_checkpoint ck;
    pare_model m;
    (void)snprintf(recipe, sizeof recipe, "pare: 1\nmodel: out\n" DATA EVALUATE "passes: [%s]\n",
                   passes);
    job_recipe(&place, recipe);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const char *const path = pare_path_join(&a, place.root, "recipe.yaml");
    const char *const output = pare_path_join(&a, place.root, "packed");
    const pare_job job = {.recipe = path, .output = output, .restart = true};
    ck_assert_msg(pare_compress(&cx, &a, &job, NULL, &result) == PARE_OK, "%s: %s", passes,
                  cx.what);
    ck_assert_msg(pare_checkpoint_open(&cx, &a, output, &ck) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_model_load(&cx, &a, &ck, &m) == PARE_OK, "%s", cx.what);
    ck_assert(m.config.uneven);
    ck_assert_uint_eq(m.block[0].linear[PARE_ROLE_DOWN].k, 112);
    ck_assert_uint_eq(m.block[1].linear[PARE_ROLE_DOWN].k, 64);
    ck_assert_uint_eq(m.block[1].linear[PARE_ROLE_UP].n, 64);
    const double kl = result.report.evaluation[0].after.kl_mean;
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
    return kl;
}

/* Blocks of their own width: what the files and config.json say, and what goes on from there. */
START_TEST(blocks_of_different_width_go_on)
{
    static const char *const close[] = {
        "{rtn: {bits: 8, group: row}}",
        "{gptq: {bits: 8, group: row}}",
        "{gptq: {bits: 8, group: row, correct: qronos}}",
        "smoothquant, {rtn: {bits: 8, group: row}}",
        "awq, {gptq: {bits: 8, group: row}}",
        "{omniquant: {epochs: 1}}, {rtn: {bits: 8, group: row}}",
        "{sparsegpt: {sparsity: 0.02}}",
        "{wanda: {sparsity: 0.02, ratios: search, spread: 0.01}}, {gptq: {bits: 8, group: row}}",
    };
    outcome o;
    char what[1024];
    run(&o, HEAD "  - ziplm: {ratio: 0.5, targets: \"*.layers.1.*\"}\n", "out");
    ck_assert_uint_eq(o.cuts, 1);
    ck_assert(o.m.config.uneven && o.m.config.mlp[0] == 112 && o.m.config.mlp[1] == 64);
    ck_assert_uint_eq(o.m.block[1].linear[PARE_ROLE_DOWN].k, 64);
    ck_assert_uint_eq(o.m.block[0].linear[PARE_ROLE_DOWN].k, 112);
    ck_assert(o.e.after.has_kl && o.e.after.kl_mean > 0);
    finish(&o);
    for (size_t i = 0; i < sizeof close / sizeof *close; i++) {
        const double kl = pack(close[i]);
        ck_assert_msg(kl > 0 && kl < 1e-3, "%s: KL %g", close[i], kl);
    }
    job_recipe(&place, "pare: 1\nmodel: out\n" DATA "passes: [rotate, rtn]\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "turned"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "rotate: cannot rotate a model of type llama: MLPs of its blocks "
                               "differ in width") != NULL,
                  "%s", what);
    job_recipe(&place, "pare: 1\nmodel: out\n" DATA EVALUATE "passes: [flap]\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "less"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "MLPs of its blocks differ in width") != NULL, "%s", what);
    run(&o, HEAD "  - ziplm: {ratio: 0.5}\n", "even");
    ck_assert(!o.m.config.uneven && o.m.config.intermediate == 64);
    finish(&o);
}
END_TEST

/* The widths of a GGUF file, which says them in a list. */
static void check_gguf(const char *name)
{
    pare_arena a;
    pare_ctx cx;
    pare_checkpoint ck;
    pare_model m;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const char *const path = job_path(&place, name);
    ck_assert_msg(pare_checkpoint_open(&cx, &a, path, &ck) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_model_load(&cx, &a, &ck, &m) == PARE_OK, "%s", cx.what);
    ck_assert(m.config.uneven && m.config.mlp[0] == 112 && m.config.mlp[1] == 64);
    ck_assert_uint_eq(m.block[0].linear[PARE_ROLE_DOWN].k, 112);
    ck_assert_uint_eq(m.block[1].linear[PARE_ROLE_UP].n, 64);
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
}

/* The smaller model, which holds floats, becomes a file of F16 and nothing else. */
START_TEST(a_smaller_model_is_exported_as_floats)
{
    pare_arena a;
    pare_ctx cx;
    pare_export_result r;
    pare_export_job job = {.target = pare_export_find("gguf:f16")};
    outcome o;
    run(&o, HEAD "  - ziplm: {ratio: 0.5, targets: \"*.layers.1.*\"}\n", "out");
    finish(&o);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    char from[512], to[512];
    (void)snprintf(from, sizeof from, "%s/out", place.root);
    (void)snprintf(to, sizeof to, "%s/out.gguf", place.root);
    job.artifact = from;
    job.output = to;
    ck_assert_msg(pare_export_run(&cx, &a, &job, &r) == PARE_OK, "%s", cx.what);
    check_gguf("out.gguf");
    ck_assert_uint_eq(r.count[PARE_EXPORT_ROUNDED], r.rows); /* the head, which is tied, too */
    for (size_t i = 0; i < r.rows; i++)
        ck_assert(r.row[i].error > 0 && r.row[i].error < 0x1p-11);
    ck_assert(r.error > 0 && strstr(r.notice, "rounded to F16"));
    job.target = pare_export_find("gptq");
    ck_assert_int_eq(pare_export_run(&cx, &a, &job, &r), PARE_ENOTSUP);
    ck_assert_msg(strstr(cx.what, "holds floats") && strstr(cx.what, "format: gptq, path: PATH"),
                  "%s", cx.what);
    pare_arena_release(&a);
}
END_TEST

/* In one recipe; what an export cannot have is refused before the smaller model is there. */
START_TEST(widths_in_front_of_other_passes_of_a_recipe)
{
    static const char passes[] = HEAD "  - ziplm: {ratio: 0.5, targets: \"*.layers.1.*\"}\n"
                                      "  - rtn: {bits: 8, group: row}\n";
    char recipe[1024], what[1024];
    struct stat st;
    job_recipe(&place, passes);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "chain"}, NULL), PARE_OK);
    (void)snprintf(recipe, sizeof recipe, "%sexport: [{format: compressed-tensors, path: x}]\n",
                   passes);
    job_recipe(&place, recipe);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "early"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "compressed-tensors: MLPs of its blocks differ in width") != NULL &&
                      strstr(what, "export gguf:TYPE, which llama.cpp reads, the format safetens"),
                  "%s", what);
    ck_assert_int_ne(stat(job_path(&place, "early.smaller"), &st), 0);
    (void)snprintf(recipe, sizeof recipe, "%sexport: [{format: gguf:q8_0, path: x.gguf}]\n",
                   passes);
    job_recipe(&place, recipe);
    ck_assert_msg(job_run(&place, (job_opts){.output = "late"}, what) == PARE_OK, "%s", what);
    check_gguf("x.gguf");
}
END_TEST

/* Likewise a quantizer: 72 of 96 directions stay, which 16 does not divide. What it says instead of
 * the ratio does. */
START_TEST(widths_that_a_quantizer_cannot_have_are_refused_before_the_smaller_model)
{
    static const char passes[] =
        HEAD "  - slicegpt: {ratio: %s}\n  - exl3: {bits: 2, targets: \"*.down_proj\"}\n";
    tiny_model m = tiny_model_default();
    char recipe[1024], what[1024];
    struct stat st;
    job_remove_directory(place.root);
    m.hidden = 96;
    m.intermediate = 64;
    place = job_make(&m);
    (void)snprintf(recipe, sizeof recipe, passes, "0.25");
    job_recipe(&place, recipe);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "recipe.yaml:9:5: exl3: model.layers.0.mlp.down_proj, as slicegpt "
                               "leaves it: exl3 has tiles of 16 x 16 weights, which do not divide "
                               "a matrix of 72 x 64: give it another quantizer, or take ratio: 0.5 "
                               "in slicegpt") != NULL,
                  "%s", what);
    ck_assert_int_ne(stat(job_path(&place, "out.smaller"), &st), 0);
    (void)snprintf(recipe, sizeof recipe, passes, "0.5");
    job_recipe(&place, recipe);
    ck_assert_msg(job_run(&place, (job_opts){.output = "out"}, what) == PARE_OK, "%s", what);
}
END_TEST

START_TEST(what_cannot_be_cut_is_refused_with_its_place)
{
    static const struct {
        const char *recipe, *message;
    } cases[] = {
        {HEAD "  - flap\n  - gptq\n  - depth\n",
         "recipe.yaml:9:5: gptq: pass 1 (depth) makes a smaller plain checkpoint, and only passes "
         "of its kind can come before it"},
        {HEAD "  - rtn\n  - channels\n",
         "recipe.yaml:8:5: rtn: pass 1 (channels) makes a smaller plain checkpoint"},
        {HEAD "  - rotate\n  - flap\n", "recipe.yaml:8:5: rotate: pass 1 (flap) makes a smaller"},
        {HEAD "  - flap: {targets: \"*down_proj\"}\n",
         "recipe.yaml:8:5: flap: a configuration has one size for all blocks, so it works on the "
         "whole model and takes no targets and no skip"},
        {HEAD "  - flap: {ratio: 0.5}\n  - channels: {ratio: 0.5}\n",
         "recipe.yaml:9:5: channels: heads are already taken out by a pass in front of it"},
        {HEAD "  - flap: {ratio: 0.05}\n",
         "recipe.yaml:8:5: flap: nothing would go: of 2 key/value heads, and of 112 channels in "
         "steps of 32, all that stay are rounded up; raise the ratio"},
        {HEAD "  - flap: {heads: false, ffn: false}\n",
         "recipe.yaml:8:5: flap: nothing would go: heads and ffn are both false"},
        {HEAD "  - flap: {ratio: 1}\n", "ratio"},
        {HEAD "  - ziplm: {ratio: 0.5, targets: \"*q_proj\"}\n",
         "recipe.yaml:8:5: ziplm: works on MLPs whose down the targets match, and they match none"},
        {HEAD "  - ziplm: {ratio: 0.5}\n  - ziplm: {ratio: 0.4, targets: \"*.layers.1.mlp.*\"}\n",
         "recipe.yaml:9:5: ziplm: channels are already taken out by a pass in front of it"},
        {HEAD "  - depth\n  - ziplm: {ratio: 0.5, targets: \"*.layers.1.mlp.*\"}\n",
         "recipe.yaml:9:5: ziplm: blocks of different width do not go with depth"},
        {TOP EVALUATE "passes:\n  - ziplm: {ratio: 0.5}\n", "ziplm needs calibration data"},
        {HEAD "  - ziplm: {speedup: 1.2}\n  - depth\n", "it stands alone in passes"},
        {HEAD "  - ziplm: {speedup: 1}\n", "ziplm: speedup 1 asks for no more than the original"},
        {HEAD "  - ziplm: {speedup: 2, ratio: 0.5}\n", "leave out ratio"},
        {HEAD "  - ziplm: {speedup: 2, tokens_s: 5}\n", "speedup and tokens_s are both given"},
        {HEAD "  - depth: {blocks: 2}\n",
         "recipe.yaml:8:5: depth: 2 blocks of 2 would leave none; take out 1 at most"},
        {HEAD "  - flap: {ratio: 0.5}\n  - depth\n",
         "recipe.yaml:9:5: depth looks at the model as it was, so it must be the first pass"},
        {HEAD "  - depth\n  - slicegpt\n", "recipe.yaml:9:5: slicegpt changes the basis of the "
                                           "whole model, so no other pass that makes it"},
        {HEAD "  - slicegpt: {ratio: 0.1}\n",
         "recipe.yaml:8:5: slicegpt: nothing would go: of 48 directions as many stay as round up "
         "to a multiple of 24; raise the ratio"},
        {TOP EVALUATE "passes:\n  - depth\n", "recipe.yaml:7:5: depth needs calibration data"},
        {TOP EVALUATE "passes:\n  - flap: {ratio: 0.5}\n",
         "recipe.yaml:7:5: flap needs calibration data"},
        {TOP "passes:\n  - channels: {score: random, ratio: 0.5}\n",
         "recipe.yaml:5:5: channels: a pruned model is always evaluated"},
        {HEAD "  - flap: {ratio: 0.5}\nkv_cache: {method: int8}\n",
         "kv_cache: flap makes a plain checkpoint, which has no place for the form of a cache"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[1024];
        job_recipe(&place, cases[i].recipe);
        ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
        ck_assert_msg(strstr(what, cases[i].message) != NULL, "case %zu: %s", i, what);
    }
}
END_TEST

START_TEST(the_only_key_value_head_cannot_go)
{
    char what[1024];
    tiny_model m = tiny_model_default();
    m.kv_heads = 1;
    const job_place one = job_make(&m);
    job_recipe(&one, HEAD "  - flap: {ratio: 0.5}\n");
    ck_assert_int_eq(job_run(&one, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "recipe.yaml:8:5: flap: the model has one key/value head, which "
                               "cannot go; write heads: false") != NULL,
                  "%s", what);
    job_recipe(&one, HEAD "  - flap: {ratio: 0.5, heads: false}\n");
    ck_assert_int_eq(job_run(&one, (job_opts){.output = "out"}, NULL), PARE_OK);
    job_remove_directory(one.root);
}
END_TEST

/* Of four groups of two heads, three would make six heads, which do not divide 64 directions. */
START_TEST(heads_that_stay_divide_the_hidden_size)
{
    char what[1024];
    tiny_model m = tiny_model_default();
    m.hidden = 64;
    m.heads = 8;
    m.kv_heads = 4;
    outcome o;
    teardown();
    place = job_make(&m);
    job_recipe(&place, HEAD "  - channels: {score: random, ratio: 0.25, ffn: false}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "nothing would go") != NULL, "%s", what);
    run(&o, HEAD "  - channels: {score: random, ratio: 0.5, ffn: false}\n", "out");
    ck_assert_int_eq(member(&o, "num_key_value_heads"), 2);
    ck_assert_int_eq(member(&o, "num_attention_heads"), 4);
    finish(&o);
}
END_TEST

/* A block that adds nothing goes without a trace, the others move up. */
START_TEST(a_block_without_influence_goes)
{
    tiny_model m = tiny_model_default();
    m.dtype = PARE_F32;
    m.blocks = 4;
    outcome o;
    teardown();
    place = job_make(&m);
    job_scale(&place, 2, "self_attn.o_proj", JOB_ALL, JOB_ALL, 0);
    job_scale(&place, 2, "mlp.down_proj", JOB_ALL, JOB_ALL, 0);
    job_scale(&place, 3, "mlp.gate_proj", 0, JOB_ALL, 3);
    run(&o, HEAD "  - depth: {blocks: 1}\n", "out");
    ck_assert_int_eq(member(&o, "num_hidden_layers"), 3);
    ck_assert_msg(o.e.after.kl_mean < 1e-12, "KL %g", o.e.after.kl_mean);
    pare_checkpoint whole;
    ck_assert_int_eq(pare_checkpoint_open(&o.cx, &o.a, job_path(&place, "model"), &whole), PARE_OK);
    const pare_tensor *const from =
        pare_checkpoint_find(&whole, "model.layers.3.mlp.gate_proj.weight");
    ck_assert_mem_eq(o.m.block[2].linear[PARE_ROLE_GATE].data, from->data, (size_t)from->bytes);
    pare_checkpoint_close(&whole);
    finish(&o);
    run(&o, HEAD "  - depth: {blocks: 2}\n  - flap: {ratio: 0.5}\n", "both");
    ck_assert_int_eq(member(&o, "num_hidden_layers"), 2);
    ck_assert_int_eq(member(&o, "intermediate_size"), 64);
    ck_assert_uint_eq(o.cuts, 4);
    finish(&o);
}
END_TEST

/* A stream that never leaves 40 of its 48 directions is narrowed without a trace; norms have
 * weights, and the head is tied. */
START_TEST(directions_that_are_never_taken_go)
{
    outcome o;
    tiny_model m = tiny_model_default();
    m.dtype = PARE_F32;
    m.heads = 4; /* divides 8, so that directions go in steps of 8 */
    teardown();
    place = job_make(&m);
    for (int c = 40; c < 48; c++) {
        job_change(&place, "model.embed_tokens.weight", JOB_ALL, c, 0, 0);
        for (size_t b = 0; b < 2; b++) {
            job_scale(&place, b, "self_attn.o_proj", c, JOB_ALL, 0);
            job_scale(&place, b, "mlp.down_proj", c, JOB_ALL, 0);
        }
    }
    for (int c = 0; c < 48; c += 3) {
        job_change(&place, "model.norm.weight", JOB_ALL, c, 1.5F, 0);
        job_change(&place, "model.layers.1.input_layernorm.weight", JOB_ALL, c, 0.5F, 0);
    }
    run(&o, HEAD "  - slicegpt: {ratio: 0.17}\n", "out");
    ck_assert_int_eq(member(&o, "hidden_size"), 40);
    ck_assert_int_eq(member(&o, "head_dim"), 12);
    ck_assert(!o.m.config.tied && o.m.head.k == 40 && o.m.embed.k == 40);
    for (size_t i = 0; i < 40; i++)
        ck_assert_float_eq_tol(o.m.norm[i], sqrtf(48.0F / 40.0F), 1e-6F);
    ck_assert_msg(o.e.after.kl_mean < 1e-6, "KL %g", o.e.after.kl_mean);
    finish(&o);
    run(&o, HEAD "  - slicegpt: {ratio: 0.5}\n", "half");
    ck_assert_int_eq(member(&o, "hidden_size"), 24);
    ck_assert(o.e.after.kl_mean > 1e-4 && o.e.after.kl_mean < 2);
    finish(&o);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("structure job");
    TCase *const tc = tcase_create("jobs");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, the_configuration_and_every_tensor_have_the_new_shapes);
    tcase_add_test(tc, biases_are_written_where_something_went);
    tcase_add_loop_test(tc, what_nobody_reads_goes_without_a_trace, 0, 3);
    tcase_add_test(tc, one_seed_takes_the_same_parts_and_another_others);
    tcase_add_loop_test(tc, bytes_are_the_same_for_any_thread_count_and_after_a_break, 0, 5);
    tcase_add_test(tc, a_block_without_influence_goes);
    tcase_add_test(tc, directions_that_are_never_taken_go);
    tcase_add_test(tc, a_finished_output_is_replaced_on_demand_and_verified);
    tcase_add_test(tc, a_recipe_without_data_is_evaluated_all_the_same);
    tcase_add_test(tc, the_smaller_model_can_be_quantized);
    tcase_add_test(tc, blocks_of_different_width_go_on);
    tcase_add_test(tc, a_smaller_model_is_exported_as_floats);
    tcase_add_test(tc, widths_that_a_quantizer_cannot_have_are_refused_before_the_smaller_model);
    tcase_add_test(tc, widths_in_front_of_other_passes_of_a_recipe);
    tcase_add_test(tc, what_cannot_be_cut_is_refused_with_its_place);
    tcase_add_test(tc, the_only_key_value_head_cannot_go);
    tcase_add_test(tc, heads_that_stay_divide_the_hidden_size);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
