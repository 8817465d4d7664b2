/* Exports in the formats of other engines read as models: every weight is that of the artifact. */
#include "compress/artifact/verify.h"
#include "compress/export/export.h"
#include "runtime/linear.h"
#include "tests/data/families.h"
#include "tests/unit/folder.h"
#include "tests/unit/logits.h"

#define CT           "compressed-tensors"
#define RTN(options) "rtn: {bits: 4, group: 32" options "}"

/* Every way of storing weights that pare writes; families with several linears in one tensor, with
 * experts, and with names of their own. */
static const struct {
    const char *family, *passes, *target;
} cases[] = {
    {"mistral", RTN(""), CT},
    {"mistral", RTN(", symmetric: false"), CT},
    {"mistral", "rtn: {bits: 4, group: row}", CT},
    {"mistral", "rtn: {bits: 3, group: 32, symmetric: false}", CT},
    {"mistral", "rtn: {bits: 8, group: 32}", CT},
    {"mistral", "rtn: {bits: 8, group: row, activations: int8_token}", CT},
    {"mistral", "fp8: {group: row}", CT},
    {"mistral", "mxfp4: {}", CT},
    {"mistral", "nvfp4: {}", CT},
    {"phi3", "nvfp4: {}", CT},
    {"qwen3_moe", "nvfp4: {}", CT},
    {"mistral", "mxfp4: {activations: mxfp4}", CT},
    {"mistral", "nvfp4: {activations: nvfp4}", CT},
    {"qwen3_moe", "mxfp4: {activations: mxfp4}", CT},
    {"qwen3_moe", "nvfp4: {activations: nvfp4}", CT},
    {"mistral",
     RTN(", targets: '*.mlp.*'") ", rtn: {bits: 8, group: row, activations: int8_token, "
                                 "targets: '*.self_attn.*'}",
     CT},
    {"mistral", RTN(", skip: ['*.layers.1.self_attn.*', '*.layers.0.mlp.*']"), CT},
    {"phi3", RTN(", symmetric: false"), CT},
    {"gpt_neox", RTN(""), CT},
    {"opt", RTN(""), CT},
    {"qwen3_moe", "rtn: {bits: 4, group: row}", CT},
    {"qwen2", RTN(""), "gptq"},
    {"qwen2", "rtn: {bits: 3, group: 32, symmetric: false}", "gptq_v2"},
    {"gpt2", RTN(""), "gptq"},
    {"qwen2", "rtn: {bits: 3, group: row}", "awq"},
    {"qwen2", RTN(", symmetric: false"), "awq"},
};
enum { CASES = sizeof cases / sizeof *cases };

static job_place begin(const char *name, const char *passes, const char *target)
{
    char recipe[512];
    job_place p;
    pare_export_result r;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    (void)snprintf(p.root, sizeof p.root, "job.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(p.root));
    ck_assert(family_write(family_find(name), job_path(&p, "model")));
    ck_assert(tiny_tokens_write(job_path(&p, "tokens.i32"), 32, 2048, 1));
    (void)snprintf(recipe, sizeof recipe,
                   "pare: 1\nmodel: model\npasses: [%s]\n"
                   "calibration: {tokens: tokens.i32, samples: 16, window: 32}\n",
                   passes);
    job_recipe(&p, recipe);
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    const pare_export_job job = {.artifact = job_path(&p, "out"),
                                 .output = job_path(&p, "ct"),
                                 .target = pare_export_find(target)};
    ck_assert_msg(pare_export_run(&cx, &arena, &job, &r) == PARE_OK, "%s", cx.what);
    return p;
}

static void end(const job_place *p)
{
    job_remove_directory(p->root);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static void check_linear(const pare_linear *is, const pare_linear *was)
{
    const size_t count = was->n * was->k;
    float *const a = PARE_NEW(&arena, float, count);
    float *const b = PARE_NEW(&arena, float, count);
    ck_assert(is->n == was->n && is->k == was->k && a && b);
    pare_linear_to_f32(&cx, is, a);
    pare_linear_to_f32(&cx, was, b);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(a[i] == b[i], "%s [%zu, %zu]: %g, %g", was->name, i / is->k, i % is->k,
                      (double)a[i], (double)b[i]);
    check_vector(is->bias, was->bias, was->n, was->name);
}

/* As pare eval opens it: the codes of the artifact in the same kernels, and the same logits. Codes
 * of 2 and 3 bits may lie in 4, and those of families whose tensors are cut become floats. */
static void check_run(const job_place *p, const loaded *was, const loaded *floats, bool cut)
{
    loaded is;
    load_to_run(p, "ct", &is);
    const pare_config *const c = &was->model.config;
    for (size_t i = 0; i < c->blocks * PARE_COMMON_ROLES; i++) {
        const pare_role r = (pare_role)(i % PARE_COMMON_ROLES);
        const pare_linear *const a =
            pare_block_linear(&is.model.block[i / PARE_COMMON_ROLES], 0, r);
        const pare_linear *const b =
            pare_block_linear(&was->model.block[i / PARE_COMMON_ROLES], 0, r);
        ck_assert_int_eq(a->bits > 0, b->bits > 0 && !cut);
        if (!a->bits)
            continue;
        const size_t groups = b->panel.n * ((b->panel.k + b->panel.group - 1) / b->panel.group);
        ck_assert(a->encoding == b->encoding && a->panel.group == b->panel.group);
        ck_assert(a->activation.mode == b->activation.mode);
        ck_assert_uint_eq(a->activation.bits, b->activation.bits);
        ck_assert(a->activation.scale == b->activation.scale);
        ck_assert_mem_eq(a->panel.scales, b->panel.scales, groups * sizeof *b->panel.scales);
        ck_assert(a->bits == b->bits || (a->bits == 4 && b->bits < 4));
        if (a->bits != b->bits)
            continue;
        ck_assert_mem_eq(a->panel.codes, b->panel.codes, b->panel.n * b->panel.k * b->bits / 8);
        ck_assert(!a->panel.zeros == !b->panel.zeros);
        if (b->panel.zeros)
            ck_assert_mem_eq(a->panel.zeros, b->panel.zeros, groups);
    }
    const size_t bytes = c->vocab * sizeof(float);
    if (!cut)
        ck_assert_mem_eq(logits(&is.model, false), logits(&was->model, false), bytes);
    ck_assert_mem_eq(logits(&is.model, true), logits(&was->model, true), bytes);
    ck_assert_mem_eq(logits(&is.model, true), logits(&floats->model, true), bytes);
    pare_checkpoint_close(&is.ck);
}

START_TEST(an_export_is_read_as_the_artifact)
{
    const job_place p = begin(cases[_i].family, cases[_i].passes, cases[_i].target);
    loaded is, was;
    size_t linears = 0;
    load(&p, "out", &was);
    load(&p, "ct", &is);
    const pare_config *const c = &was.model.config;
    for (size_t i = 0; i < c->blocks; i++)
        for (size_t part = 0; part < pare_block_parts(c); part++)
            for (pare_role r = 0; r < PARE_COMMON_ROLES; r++) {
                const pare_linear *const l = pare_block_linear(&was.model.block[i], part, r);
                if (!l->name)
                    continue;
                check_linear(pare_block_linear(&is.model.block[i], part, r), l);
                linears += l->bits > 0;
            }
    check_linear(&is.model.head, &was.model.head);
    check_linear(&is.model.embed, &was.model.embed);
    ck_assert(is.ck.unpacked > 0 && is.ck.unpacked <= linears);
    check_run(&p, &was, &is, c->arch->fused[0].name || c->arch->transposed);
    pare_checkpoint_close(&is.ck);
    pare_checkpoint_close(&was.ck);
    end(&p);
}
END_TEST

/* What is changed in config.json of an export, and what pare says of that. */
static const struct {
    const char *from, *to, *says;
} changes[] = {
    {"\"kv_cache_scheme\": null", "\"kv_cache_scheme\": {\"num_bits\": 8}", NULL},
    {"\"sparsity_config\": {}", "\"sparsity_config\": {\"format\": \"sparse-24-bitmask\"}",
     "sparsity_config: is"},
    {"\"sparsity_config\": {}", "\"sparsity_config\": {\"format\": \"dense\"}", NULL},
    {"\"transform_config\": {}", "\"transform_config\": {\"a\": 1}",
     "transform_config: is not read"},
    {"\"num_bits\": 4", "\"num_bits\": 9", "num_bits: 9 bits for integers; 2 to 8 are read"},
    {"\"num_bits\": 4", "\"num_bits\": 6", "weight_packed is I32 [64, 12], quantization_config"},
    {"\"type\": \"int\"", "\"type\": \"log\"", "group_0.weights.type: only int and float are read"},
    {"\"strategy\": \"group\"", "\"strategy\": \"block\"",
     "weights.block_structure: rows and columns of blocks"},
    {"\"group_size\": 32", "\"group_size\": 0", "group_0.weights.group_size: a number of columns"},
    {"\"group_size\": 32", "\"group_size\": 16", "down_proj.weight_scale is F16 [64, 3], quant"},
    {"\"num_bits\": 4", "\"num_bits\": 8", "weight_packed is I32 [64, 12], quantization_config"},
    {"\"symmetric\": true", "\"symmetric\": false", "weight_zero_point is missing beside"},
    {"\"dynamic\": false", "\"dynamic\": true", "weights.dynamic: scales that are not stored"},
    {"\"actorder\": null", "\"actorder\": \"group\"", "weight_g_idx is missing beside"},
    {"\"input_activations\": null", "\"input_activations\": {\"num_bits\": \"8\"}",
     "group_0.input_activations.num_bits: a whole number is expected"},
    {"\"input_activations\": null", "\"input_activations\": {\"num_bits\": null}", NULL},
    {"\"output_activations\": null", "\"output_activations\": {\"num_bits\": 8}",
     "output_activations: "},
    {"\"Linear\"", "\"re:(a\"", "ct/config.json: quantization_config: target re:(a: missing"},
    {"\"Linear\"", "\"re:.*self_attn.*\"", "names the linear model.layers.0.mlp.down_proj, whose"},
    {"\"Linear\"", "\"re:.*self_attn.*\", \"re:.*mlp[.](up|gate|down)_proj$\"", NULL},
    {"\"actorder\": null", "\"actorder\": \"static\"", NULL},
};
enum { CHANGES = sizeof changes / sizeof *changes };

START_TEST(what_is_not_read_is_refused_by_name)
{
    const job_place p = begin("mistral", RTN(""), CT);
    char changed[16384];
    size_t len;
    char *const text = folder_get(job_path(&p, "ct/config.json"), &len);
    const char *const at = strstr(text, changes[_i].from);
    pare_checkpoint ck;
    ck_assert_msg(at, "%s", text);
    (void)snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, changes[_i].to,
                   at + strlen(changes[_i].from));
    free(text);
    FILE *const f = fopen(job_path(&p, "ct/config.json"), "w");
    ck_assert(f && fputs(changed, f) >= 0 && fclose(f) == 0);
    const pare_status s = pare_checkpoint_open(&cx, &arena, job_path(&p, "ct"), &ck);
    ck_assert_msg((s == PARE_OK) == !changes[_i].says, "%s", cx.what);
    ck_assert_msg(s == PARE_OK || strstr(cx.what, changes[_i].says), "%s", cx.what);
    pare_ctx_clear(&cx);
    pare_checkpoint_close(&ck);
    end(&p);
}
END_TEST

/* Its values are what is compressed; who does so is told. */
START_TEST(it_is_compressed_again_with_a_warning)
{
    const job_place p = begin("mistral", RTN(""), CT);
    char text[256];
    loaded is, was;
    job_recipe(&p, "pare: 1\nmodel: ct\npasses: [" RTN("") "]\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "again"}, NULL), PARE_OK);
    load(&p, "ct", &was);
    load(&p, "again", &is);
    ck_assert(pare_checkpoint_quantized_text(&was.ck, text, sizeof text));
    ck_assert_str_eq(text, "the model is already quantized (compressed-tensors: 21 x int4): its "
                           "errors stay in it");
    ck_assert(!pare_checkpoint_quantized_text(&is.ck, text, sizeof text));
    ck_assert_uint_gt(pare_block_linear(&is.model.block[0], 0, PARE_ROLE_Q)->bits, 0);
    pare_checkpoint_close(&is.ck);
    pare_checkpoint_close(&was.ck);
    end(&p);
}
END_TEST

/* A machine without room for floats says nothing about the files. */
START_TEST(a_missing_temporary_folder_is_no_finding)
{
    const job_place p = begin("mistral", RTN(""), CT);
    pare_verify_result r;
    ck_assert_int_eq(setenv("TMPDIR", job_path(&p, "none"), 1), 0);
    ck_assert_int_eq(pare_verify(&cx, job_path(&p, "ct"), NULL, NULL, &r), PARE_EUSAGE);
    ck_assert_uint_eq(r.findings, 0);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(unsetenv("TMPDIR"), 0);
    end(&p);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("compressed");
    TCase *const t = tcase_create("compressed");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, an_export_is_read_as_the_artifact, 0, CASES);
    tcase_add_loop_test(t, what_is_not_read_is_refused_by_name, 0, CHANGES);
    tcase_add_test(t, it_is_compressed_again_with_a_warning);
    tcase_add_test(t, a_missing_temporary_folder_is_no_finding);
    suite_add_tcase(s, t);
    return unit_main(s);
}
