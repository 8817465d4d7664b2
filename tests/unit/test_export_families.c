#include "compress/export/export.h"
#include "runtime/linear.h"
#include "tests/data/families.h"
#include "tests/unit/folder.h"
#include "tests/unit/loaded.h"

/* Recipes: every linear; and the first piece of what some families keep in one tensor. */
static const char *const recipes[] = {
    "pare: 1\nmodel: model\npasses: [rtn: {bits: 4, group: 32, symmetric: false}]\n",
    "pare: 1\nmodel: model\npasses: [rtn: {bits: 4, group: 32, targets: "
    "'re:.*[.]q(_b)?(_proj)?$'}]\n",
};

static const char *const mixtures[] = {"mixtral", "qwen2_moe", "qwen3_moe"};

static job_place begin(const family *f, const char *recipe)
{
    job_place p;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    (void)snprintf(p.root, sizeof p.root, "job.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(p.root));
    ck_assert(family_write(f, job_path(&p, "model")));
    job_recipe(&p, recipe);
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    return p;
}

static void end(const job_place *p)
{
    job_remove_directory(p->root);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static pare_status export_to(const job_place *p, const char *target, pare_export_result *r)
{
    char artifact[512], output[512];
    (void)snprintf(artifact, sizeof artifact, "%s/out", p->root);
    (void)snprintf(output, sizeof output, "%s/%s", p->root, target);
    const pare_export_job job = {
        .artifact = artifact, .output = output, .target = pare_export_find(target)};
    return pare_export_run(&cx, &arena, &job, r);
}

static void check_linear(const pare_linear *is, const pare_linear *was, bool floats)
{
    ck_assert(is->n == was->n && is->k == was->k);
    float *const a = PARE_NEW(&arena, float, is->n * is->k);
    float *const b = PARE_NEW(&arena, float, is->n * is->k);
    ck_assert(a && b);
    pare_linear_to_f32(&cx, is, a);
    pare_linear_to_f32(&cx, was, b);
    for (size_t i = 0; i < is->n * is->k; i++) {
        const float most = floats ? 0 : fabsf(b[i]) * 0x1p-11f + 0x1p-25f;
        ck_assert_msg(fabsf(a[i] - b[i]) <= most, "%s [%zu, %zu]: %g, %g", was->name, i / is->k,
                      i % is->k, (double)a[i], (double)b[i]);
    }
    check_vector(is->bias, was->bias, is->n, was->name);
}

/* The export is loaded as any checkpoint of the family is, which takes it apart again. */
static void check_model(const loaded *is, const loaded *was)
{
    const pare_config *const c = &was->model.config;
    ck_assert_uint_eq(is->model.config.blocks, c->blocks);
    for (size_t i = 0; i < c->blocks; i++) {
        const pare_block *const a = &is->model.block[i], *const b = &was->model.block[i];
        for (size_t j = 0; j < pare_block_leaves(c); j++) {
            const pare_leaf x = pare_block_leaf(c, a, j), y = pare_block_leaf(c, b, j);
            if (y.linear)
                check_linear(x.linear, y.linear,
                             y.kind != PARE_LEAF_WEIGHT || was->model.embed.dtype == PARE_F32);
            else if (y.vector)
                check_vector(*x.vector, *y.vector, y.n, y.name);
        }
    }
    check_linear(&is->model.head, &was->model.head, true);
    check_linear(&is->model.embed, &was->model.embed, true);
}

/* Names and shapes are those of the files that the model came from. */
static void check_names(const job_place *p)
{
    pare_checkpoint is, was;
    ck_assert_int_eq(pare_checkpoint_open_plain(&cx, &arena, job_path(p, "safetensors"), &is),
                     PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open_plain(&cx, &arena, job_path(p, "model"), &was), PARE_OK);
    for (size_t i = 0; i < is.tensors; i++) {
        const pare_tensor *t = pare_checkpoint_find(&was, is.tensor[i].name);
        const char *const dot = strchr(is.tensor[i].name, '.');
        if (!t && dot) /* files may leave the prefix of all names out */
            t = pare_checkpoint_find(&was, dot + 1);
        if (was.is_part) { /* what is written is a text model */
            char whole[256];
            (void)snprintf(whole, sizeof whole, "language_model.%s", is.tensor[i].name);
            t = pare_checkpoint_find(&was, whole);
            (void)snprintf(whole, sizeof whole, "model.language_model.%s", dot + 1);
            t = t ? t : pare_checkpoint_find(&was, whole);
        }
        ck_assert_msg(t != NULL, "%s", is.tensor[i].name);
        ck_assert_msg(t->rank == is.tensor[i].rank &&
                          memcmp(t->shape, is.tensor[i].shape, t->rank * sizeof *t->shape) == 0 &&
                          t->dtype == is.tensor[i].dtype,
                      "%s", is.tensor[i].name);
    }
    pare_checkpoint_close(&is);
    pare_checkpoint_close(&was);
}

static void check_refused(pare_status s, const char *what)
{
    ck_assert_int_eq(s, PARE_ENOTSUP);
    ck_assert_msg(strstr(cx.what, what), "%s", cx.what);
    pare_ctx_clear(&cx);
}

/* Floats by any recipe; *was is the artifact, false for a family that is refused. */
static bool check_floats(const job_place *p, loaded *was)
{
    pare_export_result r;
    loaded is;
    load(p, "out", was);
    const pare_status s = export_to(p, "safetensors", &r);
    if (was->model.config.arch->rounds_inputs) {
        check_refused(s, "round their inputs");
        return false;
    }
    const pare_experts *const experts = was->model.config.arch->experts;
    if (experts && experts->stacking) {
        check_refused(s, "are not written: engines want all experts of a block in one tensor");
        check_refused(export_to(p, "gguf:q4_0", &r), "are not written: engines want all experts");
        return false;
    }
    const pare_arch *const recurrent = was->model.config.arch->recurrent;
    if (recurrent && recurrent->recurrence->fused[0]) {
        check_refused(s, "are not written: engines want the inputs of a recurrent state in one");
        return false;
    }
    const bool plain = was->model.config.arch->latent_eps > 0 || (experts && experts->correction);
    ck_assert_msg(s == PARE_OK, "%s", cx.what);
    if (plain)
        check_refused(export_to(p, "gguf:q4_0", &r), "are written in the format safetensors only");
    load(p, "safetensors", &is);
    check_model(&is, was);
    check_names(p);
    pare_checkpoint_close(&is.ck);
    if (!was->model.config.mixed)
        return !plain;
    check_refused(export_to(p, "gptq_v2", &r), "models of type qwen3_5_text are not written");
    check_refused(export_to(p, "gguf:q4_0", &r), "models of type qwen3_5_text are not written");
    return false;
}

START_TEST(linears_are_joined_as_the_family_has_them)
{
    static const char *const targets[] = {"gptq_v2", "awq", "compressed-tensors"};
    const job_place p = begin(&families[_i], recipes[0]);
    pare_export_result r;
    loaded was;
    const bool taken = check_floats(&p, &was);
    const pare_arch *const arch = was.model.config.arch;
    for (size_t t = 0; taken && t < sizeof targets / sizeof *targets; t++) {
        const pare_status s = export_to(&p, targets[t], &r);
        if (arch->transposed && t > 0) {
            check_refused(s, "Conv1D of GPT-2");
        } else if (arch->experts && t == 2) {
            check_refused(s, "vLLM runs experts in this format with symmetric codes only");
        } else if (was.model.config.expert_width == 32) { /* a group of 32 is the row there */
            check_refused(s, "this format has one kind for all");
        } else if (t == 0 && was.model.config.kv_heads * was.model.config.head_dim % 32 != 0) {
            check_refused(s, "multiples of 32");
        } else {
            ck_assert_msg(s == PARE_OK, "%s", cx.what);
            ck_assert(r.error == 0 && r.count[PARE_EXPORT_ROUNDED] == 0);
            ck_assert_uint_eq(r.count[PARE_EXPORT_FLOAT], 1); /* the head */
        }
    }
    pare_checkpoint_close(&was.ck);
    end(&p);
}
END_TEST

/* Families that keep several linears in one tensor. */
START_TEST(grids_of_floats_are_joined)
{
    static const char *const passes[] = {"mxfp4: {activations: mxfp4}", "nvfp4: {}",
                                         "fp8: {activations: fp8_token}"},
                             *const names[] = {"phi3", "gpt_neox"};
    char recipe[128];
    (void)snprintf(recipe, sizeof recipe, "pare: 1\nmodel: model\npasses: [%s]\n", passes[_i / 2]);
    const job_place p = begin(family_find(names[_i % 2]), recipe);
    pare_export_result r;
    ck_assert_msg(export_to(&p, "compressed-tensors", &r) == PARE_OK, "%s", cx.what);
    ck_assert(r.error == 0 && r.count[PARE_EXPORT_ROUNDED] == 0);
    ck_assert_uint_eq(r.count[PARE_EXPORT_FLOAT], 1); /* the head */
    end(&p);
}
END_TEST

START_TEST(codes_and_floats_in_one_tensor_become_floats_only)
{
    const job_place p = begin(&families[_i], recipes[1]);
    pare_export_result r;
    loaded was;
    if (check_floats(&p, &was)) {
        const pare_status s = export_to(&p, "gptq_v2", &r);
        if (was.model.config.arch->fused[0].name &&
            was.model.config.arch->fused[0].first == PARE_ROLE_Q)
            check_refused(s, "lie in one tensor of this family");
        else
            check_refused(s, "vLLM runs them as one matrix and refuses files in which only one");
    }
    pare_checkpoint_close(&was.ck);
    end(&p);
}
END_TEST

static bool text_has(const char *text, const char *format, const char *name)
{
    char pattern[512];
    (void)snprintf(pattern, sizeof pattern, format, name);
    return strstr(text, pattern) != NULL;
}

/* What every list of names says of a router: AWQ and compressed-tensors give it, GPTQ a pattern. */
static void check_kept(const char *text, const char *target, const char *name)
{
    char escaped[256];
    size_t len = 0;
    for (const char *c = name; *c; c++) {
        if (*c == '.')
            escaped[len++] = '\\', escaped[len++] = '\\'; /* as JSON has it */
        escaped[len++] = *c;
    }
    escaped[len] = '\0';
    ck_assert_msg(strcmp(target, "gptq") == 0 ? text_has(text, "\"-:^%s$\"", escaped)
                                              : text_has(text, "\"%s\"", name),
                  "%s: %s", target, name);
}

START_TEST(experts_go_by_their_names_and_routers_stay_floats)
{
    static const struct {
        const char *target, *codes;
    } targets[] = {
        {"compressed-tensors", "weight_packed"}, {"gptq", "qweight"}, {"awq", "qweight"}};
    const job_place p = begin(family_find(mixtures[_i]),
                              "pare: 1\nmodel: model\npasses: [rtn: {bits: 4, group: row}]\n");
    loaded was;
    load(&p, "out", &was);
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
        pare_export_result r;
        pare_checkpoint is;
        size_t len;
        char path[512], name[128];
        ck_assert_msg(export_to(&p, targets[t].target, &r) == PARE_OK, "%s", cx.what);
        ck_assert(r.error == 0 && r.count[PARE_EXPORT_LOSSLESS] + 1 == r.rows);
        (void)snprintf(path, sizeof path, "%s/config.json", job_path(&p, targets[t].target));
        char *const text = folder_get(path, &len);
        ck_assert_int_eq(
            pare_checkpoint_open_plain(&cx, &arena, job_path(&p, targets[t].target), &is), PARE_OK);
        for (size_t b = 0; b < was.model.config.blocks; b++) {
            const pare_block *const block = &was.model.block[b];
            check_kept(text, targets[t].target, block->router.name);
            if (block->shared_gate.name)
                check_kept(text, targets[t].target, block->shared_gate.name);
            (void)snprintf(name, sizeof name, "%s.weight", block->router.name);
            const pare_tensor *const router = pare_checkpoint_find(&is, name);
            ck_assert(router && router->dtype == PARE_F16);
            ck_assert_mem_eq(router->data, block->router.data, (size_t)router->bytes);
            (void)snprintf(name, sizeof name, "%s.%s",
                           pare_block_linear(block, 3, PARE_ROLE_UP)->name, targets[t].codes);
            ck_assert_msg(pare_checkpoint_find(&is, name) != NULL, "%s", name);
        }
        pare_checkpoint_close(&is);
        free(text);
    }
    pare_checkpoint_close(&was.ck);
    end(&p);
}
END_TEST

/* Engines run the experts of a block as one. */
START_TEST(experts_that_no_engine_runs_are_refused)
{
    static const struct {
        const char *target, *passes, *why; /* NULL: taken */
    } cases[] = {
        {"gptq", "[rtn: {bits: 4, group: 32, targets: 're:.*experts[.]2[.].*'}]",
         "vLLM runs them with all experts of the block"},
        {"awq", "[rtn: {bits: 4, group: 32, targets: 're:.*down_proj'}]",
         "vLLM runs them with all experts of the block"},
        {"compressed-tensors",
         "[rtn: {bits: 4, group: row, targets: 're:.*experts[.]2[.].*'}, "
         "rtn: {bits: 8, group: row, skip: 're:.*experts[.]2[.].*'}]",
         "vLLM runs them with all experts of the block and needs the same grid, bits, group"},
        {"compressed-tensors", "[rtn: {bits: 4, group: row, targets: 're:.*experts[.].*'}]", NULL},
        {"compressed-tensors", "[rtn: {bits: 4, group: row, targets: 're:.*self_attn.*'}]", NULL},
        {"compressed-tensors", "[rtn: {bits: 4, group: row, symmetric: false}]",
         "with symmetric codes only"},
        {"compressed-tensors", "[fp8: {group: row}]", "no experts of E4M3 weights"},
        {"compressed-tensors", "[rtn: {bits: 8, group: row, activations: int8_token}]", NULL},
    };
    char recipe[256];
    pare_export_result r;
    (void)snprintf(recipe, sizeof recipe, "pare: 1\nmodel: model\npasses: %s\n", cases[_i].passes);
    const job_place p = begin(family_find("qwen3_moe"), recipe);
    const pare_status s = export_to(&p, cases[_i].target, &r);
    if (cases[_i].why)
        check_refused(s, cases[_i].why);
    else
        ck_assert_msg(s == PARE_OK, "%s", cx.what);
    end(&p);
}
END_TEST

/* Folded into linears of a family that has no biases, shifts would get lost. */
START_TEST(biases_that_a_pass_made_need_a_family_with_biases)
{
    static const char recipe[] =
        "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 4, window: 32}\n"
        "passes:\n  - outlier_suppression: {}\n  - rtn: {bits: 4, group: 32}\n";
    static const char *const names[] = {"mistral", "opt"};
    const family *const f = family_find(names[_i]);
    ck_assert_ptr_nonnull(f);
    pare_export_result r;
    const job_place p = begin(f, recipes[0]);
    ck_assert(tiny_tokens_write(job_path(&p, "tokens.i32"), FAMILY_VOCAB, 32 * 8, 3));
    job_recipe(&p, recipe);
    char what[1024];
    const pare_status made = job_run(&p, (job_opts){.output = "out", .restart = true}, what);
    ck_assert_msg(made == PARE_OK, "%s", what);
    const pare_status s = export_to(&p, "gptq", &r);
    if (_i == 0)
        check_refused(s, "a pass made bias");
    else
        ck_assert_msg(s == PARE_OK, "%s", cx.what);
    end(&p);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("export_families");
    TCase *const t = tcase_create("families");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, linears_are_joined_as_the_family_has_them, 0, (int)FAMILIES);
    tcase_add_loop_test(t, grids_of_floats_are_joined, 0, 6);
    tcase_add_loop_test(t, codes_and_floats_in_one_tensor_become_floats_only, 0, (int)FAMILIES);
    tcase_add_loop_test(t, experts_go_by_their_names_and_routers_stay_floats, 0, 3);
    tcase_add_loop_test(t, experts_that_no_engine_runs_are_refused, 0, 8);
    tcase_add_loop_test(t, biases_that_a_pass_made_need_a_family_with_biases, 0, 2);
    suite_add_tcase(s, t);
    return unit_main(s);
}
