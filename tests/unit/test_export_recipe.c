#include <time.h>

#include "tests/unit/job.h"

/* Sizes that every target takes. */
static tiny_model wide(void)
{
    return (tiny_model){.hidden = 64,
                        .intermediate = 128,
                        .blocks = 2,
                        .heads = 4,
                        .kv_heads = 2,
                        .head_dim = 16,
                        .vocab = 96,
                        .context = 64,
                        .dtype = PARE_F16,
                        .shards = 1,
                        .seed = 1};
}

static job_place begin(const char *passes, const char *exports)
{
    const tiny_model m = wide();
    const job_place p = job_make(&m);
    char text[1024];
    (void)snprintf(text, sizeof text, "pare: 1\nmodel: model\npasses: [%s]\nexport:\n%s", passes,
                   exports);
    job_recipe(&p, text);
    return p;
}

static bool has(const job_place *p, const char *name)
{
    return pare_path_is_file(job_path(p, name));
}

#define RTN "rtn: {bits: 4, group: 32}"

START_TEST(a_recipe_exports_what_it_made)
{
    const job_place p = begin(RTN, "  - {format: gptq, path: x/gptq}\n"
                                   "  - {format: compressed-tensors, path: ct/}\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    ck_assert(has(&p, "out/manifest.json") && has(&p, "x/gptq/quantize_config.json"));
    ck_assert(has(&p, "x/gptq/model.safetensors") && has(&p, "ct/model.safetensors"));
    ck_assert(has(&p, "ct/pare-export.json") && !has(&p, "ct/quantize_config.json"));
    ck_assert(!pare_path_is_directory(job_path(&p, "ct.partial")));
    job_remove_directory(p.root);
}
END_TEST

/* What stands in a file of the job. */
static void says(const job_place *p, const char *name, const char *want)
{
    pare_ctx cx;
    pare_arena a;
    char *text;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_msg(pare_file_read(&cx, &a, job_path(p, name), 1 << 20, &text, &len) == PARE_OK, "%s",
                  cx.what);
    ck_assert_msg(strstr(text, want), "%s", text);
    pare_arena_release(&a);
}

static void write_text(const job_place *p, const char *name, const char *text)
{
    FILE *const f = fopen(job_path(p, name), "w");
    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

START_TEST(licenses_go_along)
{
    const job_place p = begin(RTN, "  - {format: gptq, path: x}\n");
    write_text(&p, "model/LICENSE", "may be used");
    write_text(&p, "model/Notice.txt", "was made by");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    says(&p, "out/LICENSE", "may be used");
    says(&p, "out/Notice.txt", "was made by");
    says(&p, "out/manifest.json", "\"LICENSE\"");
    says(&p, "x/LICENSE", "may be used");
    says(&p, "x/SHA256SUMS", "  Notice.txt");
    ck_assert(!has(&p, "x/NOTICE"));
    (void)unlink(job_path(&p, "model/LICENSE"));
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out", .restart = true}, NULL), PARE_OK);
    ck_assert(!has(&p, "out/LICENSE") && !has(&p, "x/LICENSE") && has(&p, "x/Notice.txt"));
    job_remove_directory(p.root);
}
END_TEST

START_TEST(exports_do_not_change_the_artifact)
{
    char with[PARE_SHA256_HEX], without[PARE_SHA256_HEX];
    const job_place p = begin(RTN, "  - {format: awq, path: x}\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "with"}, NULL), PARE_OK);
    job_recipe(&p, "pare: 1\nmodel: model\npasses: [" RTN "]\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "without"}, NULL), PARE_OK);
    job_hash(&p, "with", with);
    job_hash(&p, "without", without);
    ck_assert_str_eq(with, without);
    job_remove_directory(p.root);
}
END_TEST

/* What a plan refuses, and how. */
static const struct {
    const char *passes, *exports;
    pare_status s;
    const char *says;
} mistakes[] = {
    {RTN, "  - {format: gtpq, path: x}\n", PARE_EUSAGE,
     "recipe.yaml:5:14: unknown format \"gtpq\"; did you mean \"gptq\"?"},
    {RTN, "  - {format: \"gguf:q9\", path: x}\n", PARE_EUSAGE,
     "recipe.yaml:5:14: unknown format \"gguf:q9\"; known: compressed-tensors, gptq"},
    {RTN, "  - {format: \"gguf:q7_0\", path: x}\n", PARE_EUSAGE,
     "recipe.yaml:5:14: unknown format \"gguf:q7_0\"; did you mean \"gguf:q4_0\"?"},
    {RTN, "  - {format: Q4_K_M, path: x}\n", PARE_EUSAGE, "did you mean \"gguf:q4_k_m\"?"},
    {RTN, "  - {format: GGUF, path: x}\n", PARE_EUSAGE, "did you mean \"gguf:q4_k_m\"?"},
    {RTN, "  - {format: gguf:nvfp4, path: x}\n", PARE_EUSAGE,
     "\"gguf:nvfp4\"; linears in NVFP4 keep their blocks in a file of any TYPE but f16; take "
     "gguf:q8_0"},
    {RTN, "  - {format: \"gguf:q4_0\", path: x/}\n", PARE_EUSAGE, "recipe.yaml:5:33: "},
    {RTN, "  - {format: \"gguf:q4_0\", path: model/x.gguf}\n", PARE_EUSAGE, "lies inside "},
    {RTN, "  - {format: \"gguf:q4_0\", path: tokens.i32}\n", PARE_EEXISTS, "tokens.i32: exists"},
    {"rotate: {online: true}, " RTN, "  - {format: \"gguf:q4_0\", path: x}\n", PARE_EUSAGE,
     "its inputs are rotated while the model runs"},
    {"nf4", "  - {format: awq, path: x}\n", PARE_EUSAGE,
     "recipe.yaml:5:5: awq: linear model.layers.0.self_attn.q_proj (nf4"},
    {"mxfp4", "  - {format: awq, path: x}\n", PARE_EUSAGE,
     "compressed-tensors holds FP8, MXFP4 and NVFP4 as they are, safetensors and gguf:f16 all"},
    {"mxfp4", "  - {format: compressed-tensors, path: x, tensor_parallel: 4}\n", PARE_EUSAGE,
     "16 of 64 columns are no whole groups of 32; take 2 ranks"},
    {"fp8: {targets: '*.k_proj', activations: fp8_token}, fp8: {skip: '*.k_proj'}",
     "  - {format: compressed-tensors, path: x}\n", PARE_EUSAGE,
     "needs the same grid, bits, group, symmetry and rounding of inputs"},
    {"mxfp4: {targets: '*.k_proj', activations: mxfp4}, mxfp4: {skip: '*.k_proj'}",
     "  - {format: compressed-tensors, path: x}\n", PARE_EUSAGE,
     "needs the same grid, bits, group, symmetry and rounding of inputs"},
    {"rtn: {bits: 4, group: 32, symmetric: false}", "  - {format: gptq, path: x}\n", PARE_EUSAGE,
     "recipe.yaml:5:5: gptq: linear model.layers.0.self_attn.q_proj: zero points are stored"},
    {"rtn: {bits: 4, group: 96}", "  - {format: compressed-tensors, path: x}\n", PARE_EUSAGE,
     "vLLM has kernels for groups of 32, 64, 128 and whole rows"},
    {"rtn: {bits: 4, group: 32, targets: '*.q_proj'}",
     "  - {format: compressed-tensors, path: x}\n", PARE_EUSAGE,
     "linears model.layers.0.self_attn.q_proj and model.layers.0.self_attn.k_proj: vLLM runs"},
    {RTN, "  - {format: awq, path: x, tensor_parallel: 4}\n", PARE_EUSAGE,
     "recipe.yaml:5:5: awq for 4 ranks: linear model.layers.0.self_attn.o_proj (int4 g32 sym): 16 "
     "of 64 columns are no whole groups of 32; take 2 ranks"},
    {RTN, "  - {format: awq, path: x, tensor_parallel: 0}\n", PARE_EUSAGE,
     "recipe.yaml:5:45: \"tensor_parallel\" is \"0\"; it takes a whole number"},
    {RTN, "  - {format: awq, path: out/x}\n", PARE_EUSAGE, "recipe.yaml:5:25: "},
    {RTN, "  - {format: awq, path: x}\n  - {format: gptq, path: x/}\n", PARE_EUSAGE,
     "recipe.yaml:6:26: "},
    {RTN, "  - {format: awq, path: .}\n", PARE_EUSAGE, "must not lie in each other"},
    {RTN, "  - {format: awq, path: model}\n", PARE_EEXISTS, "would replace the model"},
    {RTN, "  - {format: awq, path: new/../out//x}\n", PARE_EUSAGE, "must not lie in each other"},
    {RTN, "  - {format: awq, path: new/./../out}\n", PARE_EUSAGE, "must not lie in each other"},
    {RTN, "  - {format: awq, path: link/out}\n", PARE_EUSAGE, "must not lie in each other"},
    {RTN, "  - {format: awq, path: model-link/x}\n", PARE_EUSAGE, "lies inside "},
    {RTN, "  - {format: awq, path: new/../model/x}\n", PARE_EUSAGE, "lies inside "},
    {RTN, "  - {format: awq, path: other/new/x}\n", PARE_EUSAGE, "other, where only files of"},
    {RTN, "  - {format: awq, path: tokens.i32/x}\n", PARE_EUSAGE, "which is no directory"},
    {RTN, "  - {format: awq, path: x}\n  - {format: gptq, path: ./new/..//x/}\n", PARE_EUSAGE,
     "another export of the recipe goes to "},
    {RTN, "  - {format: awq, path: x}\n  - {format: \"gguf:q4_0\", path: link/x/y.gguf}\n",
     PARE_EUSAGE, "another export of the recipe goes to "},
    {RTN, "  - {format: \"gguf:q8_0\", path: x}\n  - {format: \"gguf:q4_0\", path: link/./x}\n",
     PARE_EUSAGE, "another export of the recipe goes to "},
};
enum { MISTAKES = sizeof mistakes / sizeof *mistakes };

START_TEST(what_cannot_be_exported_is_refused_before_a_weight_is_read)
{
    char what[1024];
    const job_place p = begin(mistakes[_i].passes, mistakes[_i].exports);
    ck_assert(symlink(".", job_path(&p, "link")) == 0);
    ck_assert(symlink("model", job_path(&p, "model-link")) == 0);
    ck_assert(mkdir(job_path(&p, "other"), 0777) == 0);
    write_text(&p, "other/pare-export.json", "{}");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, what), mistakes[_i].s);
    ck_assert_msg(strstr(what, mistakes[_i].says), "%s", what);
    ck_assert(!pare_path_is_directory(job_path(&p, "out")));
    ck_assert(!pare_path_is_directory(job_path(&p, "out.partial")));
    ck_assert(unlink(job_path(&p, "link")) == 0 && unlink(job_path(&p, "model-link")) == 0);
    job_remove_directory(p.root);
}
END_TEST

#define CUT                                                                                        \
    "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 4, window: 64}\n"           \
    "passes: [%s]\nexport: [{format: %s, path: x}]\n"

START_TEST(plain_checkpoints_are_exported_as_floats_alone)
{
    static const char *const refused[][2] = {
        {"awq",
         "makes a file for llama.cpp of it, also where widths differ, and a quantizer behind "
         "these passes one for awq"},
        {"\"gguf:q4_0\"", "behind these passes one for gguf:q4_0"},
        {"safetensors", "which other programs read as it is (where"}};
    char what[1024], text[512];
    const job_place p = begin(RTN, "  - {format: awq, path: x}\n");
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(text, sizeof text, CUT, "depth: {blocks: 1}", refused[i][0]);
        job_recipe(&p, text);
        ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, what), PARE_EUSAGE);
        ck_assert_msg(strstr(what, refused[i][1]), "%s", what);
        ck_assert_msg(!strstr(strstr(what, "recipe.yaml:") + 1, "recipe.yaml:"), "%s", what);
    }
    job_remove_directory(p.root);
}
END_TEST

START_TEST(an_export_that_is_there_is_replaced_with_the_output)
{
    char what[1024];
    const job_place p = begin(RTN, "  - {format: awq, path: x}\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "other"}, what), PARE_EEXISTS);
    ck_assert_msg(strstr(what, "recipe.yaml:5:25") && strstr(what, "x: exists; --restart"), "%s",
                  what);
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out", .restart = true}, NULL), PARE_OK);
    ck_assert(has(&p, "x/model.safetensors"));
    job_remove_directory(p.root);
}
END_TEST

static bool same_file(const job_place *p, const char *first, const char *second)
{
    const char *const name[] = {first, second};
    char *text[2];
    size_t len[2];
    pare_ctx cx;
    pare_arena a;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(pare_file_read(&cx, &a, job_path(p, name[i]), 1 << 24, &text[i], &len[i]),
                         PARE_OK);
    const bool same = len[0] == len[1] && memcmp(text[0], text[1], len[0]) == 0;
    pare_arena_release(&a);
    return same;
}

START_TEST(an_export_for_ranks_is_the_same_files_and_says_so)
{
    const job_place p = begin(RTN, "  - {format: awq, path: x, tensor_parallel: 2}\n"
                                   "  - {format: awq, path: y}\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    says(&p, "x/pare-export.json", "\"tensor_parallel\": 2");
    ck_assert(!has(&p, "x/rank-0") && same_file(&p, "x/model.safetensors", "y/model.safetensors"));
    job_remove_directory(p.root);
}
END_TEST

/* Somebody takes the place of the second export while the first is written. */
static const job_place *taken;
static void take_place(void *self, const pare_event *e)
{
    (void)self;
    if (e->kind == PARE_EVENT_EXPORT && strncmp(e->text, "gptq to ", 8) == 0)
        ck_assert_int_eq(mkdir(job_path(taken, "second"), 0777), 0);
}

static bool holds(const job_place *p, const char *file, const char *fragment)
{
    char *text;
    size_t len;
    pare_ctx cx;
    pare_arena a;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_file_read(&cx, &a, job_path(p, file), 1 << 24, &text, &len), PARE_OK);
    const bool found = strstr(text, fragment) != NULL;
    pare_arena_release(&a);
    return found;
}

/* Bytes of the weight files of a finished export. */
static uint64_t written(const char *path)
{
    struct stat st;
    uint64_t bytes = 0;
    DIR *const d = opendir(path);
    if (!d) {
        ck_assert_int_eq(stat(path, &st), 0);
        return (uint64_t)st.st_size;
    }
    for (struct dirent *e; (e = readdir(d));) {
        if (!strstr(e->d_name, ".safetensors") || strstr(e->d_name, ".json"))
            continue;
        ck_assert_int_eq(fstatat(dirfd(d), e->d_name, &st, 0), 0);
        bytes += (uint64_t)st.st_size;
    }
    (void)closedir(d);
    return bytes;
}

static const struct {
    const char *passes, *exports[4];
    bool other; /* something goes to other codes or types */
} planned[] = {
    {RTN, {"gptq", "awq", "compressed-tensors", "safetensors"}, false},
    {RTN, {"gguf:q4_0", "gguf:q8_0", "gguf:q4_1", "gguf:f16"}, false},
    {RTN, {"gguf:q4_k"}, true},
    {"rtn: {bits: 4, group: 32, symmetric: false}", {"gguf:q4_1"}, true},
    {"rtn: {bits: 4, group: 32, symmetric: false}", {"gguf:q8_0", "compressed-tensors"}, false},
    {"rtn: {bits: 8, group: 32, skip: '*.up_proj'}, ternary: {group: 64, targets: '*.up_proj'}",
     {"gguf:q6_k"},
     true},
    {"rotate: {online: false}, " RTN, {"gguf:q4_0", "safetensors"}, false},
};
enum { PLANNED = sizeof planned / sizeof *planned };

static job_place begin_planned(int i)
{
    char exports[512] = "";
    for (size_t j = 0; j < 4 && planned[i].exports[j]; j++) {
        const size_t len = strlen(exports);
        (void)snprintf(exports + len, sizeof exports - len, "  - {format: \"%s\", path: x%zu}\n",
                       planned[i].exports[j], j);
    }
    return begin(planned[i].passes, exports);
}

static void plan(pare_ctx *cx, pare_arena *a, const job_place *p, pare_plan *out)
{
    const pare_job job = {
        .recipe = job_path(p, "recipe.yaml"), .output = job_path(p, "out"), .plan_only = true};
    pare_ctx_init(cx);
    ck_assert_int_eq(pare_arena_init(cx, a, 0), PARE_OK);
    ck_assert_msg(pare_plan_make(cx, a, &job, out) == PARE_OK, "%s", cx->what);
}

START_TEST(a_plan_knows_bytes_and_fates_of_its_exports)
{
    const job_place p = begin_planned(_i);
    pare_ctx cx;
    pare_arena a;
    pare_plan said;
    plan(&cx, &a, &p, &said);
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    for (size_t i = 0; i < said.exports; i++) {
        const pare_plan_export *const x = &said.export[i];
        const pare_export_result *const r = &x->result;
        ck_assert_uint_eq(r->bytes, written(x->path));
        ck_assert_uint_eq(r->rows, 15);
        ck_assert(planned[_i].other == (r->count[PARE_EXPORT_REQUANTIZED] + r->fallbacks > 0));
        const pare_export_job again = {
            .artifact = job_path(&p, "out"), .output = job_path(&p, "again"), .target = x->target};
        pare_export_result is;
        ck_assert_msg(pare_export_run(&cx, &a, &again, &is) == PARE_OK, "%s", cx.what);
        ck_assert(is.bytes == r->bytes && is.rows == r->rows && is.fallbacks == r->fallbacks);
        for (size_t j = 0; j < is.rows; j++) {
            const pare_export_row *const was = &r->row[j], *const row = &is.row[j];
            ck_assert_str_eq(was->name, row->name);
            ck_assert(was->fate == row->fate || was->fate == PARE_EXPORT_ROUNDED);
            ck_assert(was->type == row->type && was->fallback == row->fallback);
        }
        if (pare_path_is_directory(again.output))
            job_remove_directory(again.output);
        else
            ck_assert_int_eq(unlink(again.output), 0);
    }
    pare_plan_close(&said);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
    job_remove_directory(p.root);
}
END_TEST

/* flap adds biases, slicegpt and ziplm change widths; with targets blocks differ in them. */
static const struct {
    const char *passes;
    pare_dtype dtype;
    bool tied;
} cuts[] = {
    {"depth: {blocks: 1}", PARE_F16, false},
    {"depth: {blocks: 1}", PARE_BF16, true},
    {"flap: {ratio: 0.25}", PARE_F16, false},
    {"channels: {ratio: 0.25}", PARE_F32, false},
    {"slicegpt: {ratio: 0.25}", PARE_F16, true},
    {"slicegpt: {ratio: 0.25}", PARE_BF16, false},
    {"ziplm: {ratio: 0.25}", PARE_F16, false},
    {"ziplm: {ratio: 0.25, targets: \"*.0.mlp.*\"}", PARE_F16, false},
};
enum { CUTS = sizeof cuts / sizeof *cuts };

START_TEST(what_structured_passes_leave_is_exported)
{
    char text[512];
    tiny_model m = wide();
    m.dtype = cuts[_i].dtype;
    m.tied = cuts[_i].tied;
    const job_place p = job_make(&m);
    pare_ctx cx;
    pare_arena a;
    pare_plan said;
    pare_export_result is;
    (void)snprintf(text, sizeof text, CUT, cuts[_i].passes, "\"gguf:f16\"");
    job_recipe(&p, text);
    plan(&cx, &a, &p, &said);
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    const pare_plan_export *const x = &said.export[0];
    ck_assert_uint_eq(x->result.bytes, written(x->path));
    const pare_export_job again = {
        .artifact = job_path(&p, "out"), .output = job_path(&p, "again"), .target = x->target};
    ck_assert_msg(pare_export_run(&cx, &a, &again, &is) == PARE_OK, "%s", cx.what);
    ck_assert(same_file(&p, "x", "again"));
    ck_assert_uint_eq(x->result.rows, is.rows);
    for (pare_export_fate i = 0; i < PARE_EXPORT_FATES; i++) /* what is rounded may be the same */
        ck_assert(cuts[_i].dtype == PARE_BF16 || x->result.count[i] == is.count[i]);
    pare_plan_close(&said);
    pare_arena_release(&a);
    job_remove_directory(p.root);
}
END_TEST

/* The type that "TYPE holds all linears" names does. */
static void follow_advice(const job_place *p, const char *passes, const char *what)
{
    static const char behind[] = " holds all linears";
    char text[512];
    const char *const end = strstr(what, behind), *type = end;
    ck_assert_msg(end != NULL, "%s", what);
    while (type > what && type[-1] != ' ')
        type--;
    (void)snprintf(text, sizeof text,
                   "pare: 1\nmodel: model\npasses: [%s]\nexport: [{format: \"%.*s\", path: y}]\n",
                   passes, (int)(end - type), type);
    job_recipe(p, text);
    ck_assert_int_eq(job_run(p, (job_opts){.output = "out", .strict = true}, NULL), PARE_OK);
    ck_assert(written(job_path(p, "y")) > 0);
}

START_TEST(strict_refuses_other_codes_of_exports_before_a_weight_is_read)
{
    char what[1024];
    const job_place p = begin_planned(_i);
    const pare_status s = job_run(&p, (job_opts){.output = "out", .strict = true}, what);
    ck_assert_msg(s == (planned[_i].other ? PARE_EUSAGE : PARE_OK), "%s", what);
    ck_assert(!planned[_i].other || strstr(what, "which --strict refuses"));
    ck_assert(pare_path_is_directory(job_path(&p, "out")) == !planned[_i].other);
    ck_assert(!pare_path_is_directory(job_path(&p, "out.partial")));
    if (planned[_i].other)
        follow_advice(&p, planned[_i].passes, what);
    job_remove_directory(p.root);
}
END_TEST

START_TEST(a_recipe_replaces_its_own_gguf_file_only)
{
    char what[1024];
    const job_place p = begin(RTN, "  - {format: \"gguf:q4_0\", path: new/m.gguf}\n");
    const job_opts again = {.output = "out", .restart = true};
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    ck_assert(has(&p, "new/m.gguf") && !has(&p, "new/m.gguf.partial"));
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "other"}, what), PARE_EEXISTS);
    ck_assert_int_eq(job_run(&p, again, NULL), PARE_OK);
    ck_assert(holds(&p, "out/run.json", "\"format\": \"gguf:q4_0\""));
    ck_assert(holds(&p, "out/README.md", "new/m.gguf |"));
    ck_assert_int_eq(truncate(job_path(&p, "new/m.gguf"), 100), 0);
    ck_assert_int_eq(job_run(&p, again, what), PARE_EEXISTS);
    ck_assert_msg(strstr(what, "is no export of pare in GGUF"), "%s", what);
    job_remove_directory(p.root);
}
END_TEST

START_TEST(a_failed_export_leaves_the_artifact_and_says_so)
{
    char what[1024];
    const job_place p = begin(RTN, "  - {format: awq, path: first}\n"
                                   "  - {format: gptq, path: second}\n");
    const pare_events events = {take_place, NULL};
    taken = &p;
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out", .events = &events}, what),
                     PARE_EEXISTS);
    ck_assert_msg(
        strstr(what, "/out is complete, and the same command makes exports that are missing; its "
                     "export to ") &&
            strstr(what, "/second (pare export --format gptq) failed: ") &&
            strstr(what, "second: exists"),
        "%s", what);
    ck_assert(has(&p, "out/manifest.json") && has(&p, "first/model.safetensors"));
    ck_assert(!pare_path_is_directory(job_path(&p, "out.partial")));
    ck_assert(!pare_path_is_directory(job_path(&p, "second.partial")));
    job_remove_directory(p.root);
}
END_TEST

static volatile int stop_now;
static void stop_second(void *self, const pare_event *e)
{
    (void)self;
    if (e->kind == PARE_EVENT_EXPORT && strncmp(e->text, "gptq to ", 8) == 0)
        stop_now = 1;
}

static struct stat status_of(const job_place *p, const char *name)
{
    struct stat st;
    ck_assert_msg(stat(job_path(p, name), &st) == 0, "%s", name);
    return st;
}

static void write_bytes(const job_place *p, const char *name, const char *text)
{
    FILE *const f = fopen(job_path(p, name), "w");
    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Two directories and a file; the job was stopped before the second. */
static job_place begin_stopped(const char *passes, const job_opts *o)
{
    char what[1024];
    const job_place p = begin(passes, "  - {format: awq, path: first}\n"
                                      "  - {format: gptq, path: second}\n"
                                      "  - {format: \"gguf:q4_0\", path: third.gguf}\n");
    const pare_events events = {stop_second, NULL};
    job_opts stopped = *o;
    stopped.events = &events;
    stopped.interrupt = &stop_now;
    stop_now = 0;
    ck_assert_int_eq(job_run(&p, stopped, what), PARE_EINTERRUPTED);
    ck_assert(has(&p, "out/manifest.json") && has(&p, "first/model.safetensors"));
    ck_assert(!has(&p, "second/model.safetensors") && !has(&p, "third.gguf"));
    return p;
}

/* What a killed export of a file leaves. */
static void leave_work(const job_place *p, const char *name)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    ck_assert_int_eq(mkdir(job_path(p, name), 0777), 0);
    ck_assert_int_eq(pare_owned_mark_unfinished(&cx, job_path(p, name)), PARE_OK);
}

START_TEST(the_same_command_makes_the_exports_that_are_missing)
{
    const job_opts o = {.output = "out"};
    const job_place p = begin_stopped(RTN, &o);
    ck_assert_int_eq(mkdir(job_path(&p, "second.partial"), 0777), 0);
    write_bytes(&p, "second.partial/model.safetensors", "what was written so far");
    write_bytes(&p, "second.partial/journal", "PJ01");
    leave_work(&p, "third.gguf.partial");
    const struct stat artifact = status_of(&p, "out/manifest.json"),
                      first = status_of(&p, "first/model.safetensors");
    ck_assert_int_eq(job_run(&p, o, NULL), PARE_OK);
    ck_assert(has(&p, "second/model.safetensors") && has(&p, "third.gguf"));
    ck_assert(!pare_path_is_directory(job_path(&p, "second.partial")));
    ck_assert(!has(&p, "third.gguf.partial"));
    ck_assert(artifact.st_ino == status_of(&p, "out/manifest.json").st_ino);
    ck_assert(first.st_ino == status_of(&p, "first/model.safetensors").st_ino);
    leave_work(&p, "third.gguf.partial"); /* of a run that was killed at its end */
    ck_assert_int_eq(job_run(&p, o, NULL), PARE_OK);
    ck_assert(!has(&p, "third.gguf.partial"));
    ck_assert(artifact.st_ino == status_of(&p, "out/manifest.json").st_ino);
    job_remove_directory(p.root);
}
END_TEST

START_TEST(another_job_makes_no_exports_of_a_finished_artifact)
{
    static const char *const passes[] = {RTN, "rtn: {bits: 8, group: 32}"};
    char what[1024];
    const job_opts o = {.output = "out"};
    const job_place p = begin_stopped(RTN, &o);
    char text[256];
    if (_i == 0) /* another model, by one weight */
        job_change(&p, "model.norm.weight", 0, 1, 2, 0);
    (void)snprintf(text, sizeof text,
                   "pare: 1\nmodel: model\npasses: [%s]\nexport: [{format: gptq, path: second}]\n",
                   passes[_i]);
    job_recipe(&p, text);
    const pare_status s = job_run(&p, o, what);
    ck_assert_msg(s == PARE_EEXISTS &&
                      strstr(what, "/out: the output exists already, and belongs") &&
                      strstr(what, _i == 0 ? "it was made of another model.safetensors"
                                           : "where this one says \"bits: 8\""),
                  "%s", what);
    ck_assert(!pare_path_is_directory(job_path(&p, "second")));
    job_remove_directory(p.root);
}
END_TEST

#define GPTQ "gptq: {bits: 4, group: 32}"
#define CALIBRATED                                                                                 \
    "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 4, window: 64}\npasses: "   \
    "[" GPTQ "]\n"

START_TEST(exports_of_a_calibrated_artifact_need_the_same_tokens)
{
    char what[1024];
    const job_opts o = {.output = "out"};
    const job_place p = begin(RTN, "  - {format: awq, path: x}\n");
    job_recipe(&p, CALIBRATED);
    ck_assert_int_eq(job_run(&p, o, NULL), PARE_OK);
    job_recipe(&p, CALIBRATED "export: [{format: gptq, path: x}]\n");
    ck_assert(tiny_tokens_write(job_path(&p, "tokens.i32"), wide().vocab, 64 * 24, 4));
    ck_assert_int_eq(job_run(&p, o, what), PARE_EEXISTS);
    ck_assert_msg(strstr(what, "the output exists already"), "%s", what);
    ck_assert(tiny_tokens_write(job_path(&p, "tokens.i32"), wide().vocab, 64 * 24, 3));
    ck_assert_int_eq(job_run(&p, o, NULL), PARE_OK);
    ck_assert(has(&p, "x/model.safetensors"));
    job_remove_directory(p.root);
}
END_TEST

/* Stopped while it replaced both: what is left of the replaced exports is none of the new ones. */
START_TEST(exports_of_a_replaced_artifact_are_made_anew)
{
    const job_opts o = {.output = "out"};
    const job_place p = begin(RTN, "  - {format: gptq, path: second}\n");
    const pare_events events = {stop_second, NULL};
    ck_assert_int_eq(job_run(&p, o, NULL), PARE_OK);
    const struct stat before = status_of(&p, "second/model.safetensors");
    const job_opts again = {
        .output = "out", .restart = true, .events = &events, .interrupt = &stop_now};
    stop_now = 0;
    ck_assert_int_eq(nanosleep(&(struct timespec){0, 20000000}, NULL),
                     0); /* times of files have ticks of some milliseconds */
    ck_assert_int_eq(job_run(&p, again, (char[1024]){0}), PARE_EINTERRUPTED);
    ck_assert(before.st_ino == status_of(&p, "second/model.safetensors").st_ino);
    ck_assert_int_eq(job_run(&p, o, NULL), PARE_OK);
    const struct stat after = status_of(&p, "second/model.safetensors");
    ck_assert(before.st_mtim.tv_sec != after.st_mtim.tv_sec ||
              before.st_mtim.tv_nsec != after.st_mtim.tv_nsec);
    job_remove_directory(p.root);
}
END_TEST

START_TEST(an_output_does_not_go_into_a_model_or_an_artifact)
{
    static const char *const inside[] = {"model/out", "model/new/out", "out/x", "out/new/x"};
    char what[1024];
    const job_place p = begin(RTN, "  - {format: awq, path: x}\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    job_recipe(&p, "pare: 1\nmodel: model\npasses: [" RTN "]\n");
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        ck_assert_int_eq(job_run(&p, (job_opts){.output = inside[i]}, what), PARE_EUSAGE);
        ck_assert_msg(strstr(what, "where only files of that model belong"), "%s", what);
        ck_assert(!pare_path_is_directory(job_path(&p, inside[i])));
    }
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "new/out"}, NULL), PARE_OK);
    job_remove_directory(p.root);
}
END_TEST

START_TEST(reports_name_the_exports)
{
    const job_place p = begin(RTN, "  - {format: awq, path: x}\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    ck_assert(holds(&p, "out/README.md", "| awq | x |"));
    ck_assert(holds(&p, "out/report.html", "<tr><td>export</td><td>awq to x</td></tr>"));
    ck_assert(holds(&p, "out/run.json", "\"exports\": ["));
    ck_assert(!holds(&p, "out/manifest.json", "awq"));
    job_remove_directory(p.root);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("export_recipe");
    TCase *const t = tcase_create("jobs");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, a_recipe_exports_what_it_made);
    tcase_add_test(t, licenses_go_along);
    tcase_add_test(t, exports_do_not_change_the_artifact);
    tcase_add_loop_test(t, what_cannot_be_exported_is_refused_before_a_weight_is_read, 0, MISTAKES);
    tcase_add_test(t, plain_checkpoints_are_exported_as_floats_alone);
    tcase_add_loop_test(t, what_structured_passes_leave_is_exported, 0, CUTS);
    tcase_add_test(t, an_export_for_ranks_is_the_same_files_and_says_so);
    tcase_add_test(t, an_export_that_is_there_is_replaced_with_the_output);
    tcase_add_loop_test(t, a_plan_knows_bytes_and_fates_of_its_exports, 0, PLANNED);
    tcase_add_loop_test(t, strict_refuses_other_codes_of_exports_before_a_weight_is_read, 0,
                        PLANNED);
    tcase_add_test(t, a_recipe_replaces_its_own_gguf_file_only);
    tcase_add_test(t, a_failed_export_leaves_the_artifact_and_says_so);
    tcase_add_test(t, the_same_command_makes_the_exports_that_are_missing);
    tcase_add_loop_test(t, another_job_makes_no_exports_of_a_finished_artifact, 0, 2);
    tcase_add_test(t, exports_of_a_calibrated_artifact_need_the_same_tokens);
    tcase_add_test(t, exports_of_a_replaced_artifact_are_made_anew);
    tcase_add_test(t, an_output_does_not_go_into_a_model_or_an_artifact);
    tcase_add_test(t, reports_name_the_exports);
    suite_add_tcase(s, t);
    return unit_main(s);
}
