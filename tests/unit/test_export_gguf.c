/* Models of every family as GGUF files: read back they are the artifact that they came from. */
#include "compress/export/export.h"
#include "formats/gguf.h"
#include "runtime/linear.h"
#include "tests/data/families.h"
#include "tests/unit/loaded.h"
#include "tests/unit/logits.h"

/* Every linear; the first piece of what some families keep in one tensor. */
static const char *const recipes[] = {
    "pare: 1\nmodel: model\npasses: [rtn: {bits: 4, group: 32, symmetric: false}]\n"
    "export: [{format: \"gguf:q8_0\", path: x.gguf}]\n",
    "pare: 1\nmodel: model\npasses: [rtn: {bits: 4, group: 32, targets: 're:.*[.]q(_proj)?$'}]\n",
};

/* A family, what is replaced in its config.json, and why it is refused, if it is. */
typedef struct kind {
    const char *family, *from, *to, *refused;
    const char *less; /* tensors with this in their names are left out */
} kind;

#define AS_IS(name)                                                                                \
    {                                                                                              \
        .family = (name)                                                                           \
    }
#define CHANGED(name, is, becomes)                                                                 \
    {                                                                                              \
        .family = (name), .from = (is), .to = (becomes)                                            \
    }
#define REFUSED(name, is, becomes, why)                                                            \
    {                                                                                              \
        .family = (name), .from = (is), .to = (becomes), .refused = (why)                          \
    }
#define QWEN3_WINDOWS                                                                              \
    "\"use_sliding_window\":true,\"sliding_window\":11,"                                           \
    "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\"]"

#define GEMMA3_BLOCKS                                                                              \
    "\"attention_bias\":true,\"sliding_window\":7,"                                                \
    "\"layer_types\":[\"full_attention\",\"sliding_attention\",\"sliding_attention\"],"
#define GEMMA3_PERIOD                                                                              \
    "\"query_pre_attn_scalar\":16,\"sliding_window\":7,\"sliding_window_pattern\":2,"
#define SMALL_YARN "\"original_max_position_embeddings\":16,\"beta_fast\":0.5,\"beta_slow\":0.05"

static const kind kinds[] = {
    AS_IS("llama"),
    AS_IS("mistral"),
    CHANGED("qwen2", "\"use_sliding_window\":true", "\"use_sliding_window\":false"),
    {"qwen3", "\"attention_bias\":true," QWEN3_WINDOWS, "\"attention_bias\":false", NULL, ".bias "},
    AS_IS("gemma"),
    CHANGED("gemma2", "\"query_pre_attn_scalar\":10", "\"query_pre_attn_scalar\":24"),
    CHANGED("gemma3_text", "\"query_pre_attn_scalar\":10", "\"query_pre_attn_scalar\":24"),
    {"gemma3", GEMMA3_BLOCKS, GEMMA3_PERIOD, NULL, ".bias "},
    CHANGED("gemma3_text", "\"query_pre_attn_scalar\":10,",
            "\"query_pre_attn_scalar\":24,\"layer_types\":[\"sliding_attention\","
            "\"sliding_attention\",\"sliding_attention\"],"),
    AS_IS("smollm3"),
    AS_IS("olmo2"),
    AS_IS("olmo3"),
    AS_IS("glm4"),
    AS_IS("granite"),
    AS_IS("gpt2"),
    AS_IS("gpt_neox"),
    CHANGED("gpt_neox", "\"rotary_pct\":0.25",
            "\"rotary_pct\":0.5,\"use_parallel_residual\":false"),
    AS_IS("phi"),
    AS_IS("phi3"),
    CHANGED("phi3", "\"sliding_window\":13", "\"sliding_window\":null"),
    CHANGED("bitnet", "\"relu2\"", "\"silu\""),
    CHANGED("bitnet_master", "\"relu2\"", "\"silu\""),
    AS_IS("mixtral"),
    AS_IS("qwen2_moe"),
    AS_IS("qwen3_moe"),
    CHANGED("llama_yarn", SMALL_YARN, "\"original_max_position_embeddings\":128"),
    AS_IS("llama_longrope"),
    AS_IS("phi3_longrope"),
    AS_IS("phi3_short"),
    CHANGED("qwen2_yarn",
            "\"truncate\":false,\"mscale\":1.5,\"mscale_all_dim\":0.5,\"factor\":16," SMALL_YARN,
            "\"factor\":16,\"original_max_position_embeddings\":64"),
    CHANGED("phi", "\"partial_rotary_factor\":0.5",
            "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4,"
            "\"attention_factor\":1.7079441541679836,\"original_max_position_embeddings\":64,"
            "\"partial_rotary_factor\":0.5}"),
    REFUSED("qwen2_yarn", NULL, NULL, "llama.cpp has no place for yarn with truncate: false"),
    REFUSED("llama_yarn", NULL, NULL, "yarn with other bounds than beta_fast 32 and beta_slow 1"),
    REFUSED("llama_yarn", SMALL_YARN, "\"original_max_position_embeddings\":2",
            "yarn with an original_max_position_embeddings so small"),
    REFUSED("llama_dynamic", NULL, NULL,
            "llama.cpp has no place for scaled frequencies (rope_type dynamic) in models of llama"),
    REFUSED(
        "qwen2", "\"use_sliding_window\":true",
        "\"use_sliding_window\":false,\"rope_scaling\":{\"rope_type\":\"longrope\","
        "\"short_factor\":[1,1,1,1,1,1,1,1],\"long_factor\":[1,1,1,1,1,1,1,2]}",
        "llama.cpp has no place for scaled frequencies (rope_type longrope) in models of qwen2"),
    REFUSED("qwen2_moe", "\"norm_topk_prob\":false", "\"norm_topk_prob\":true",
            "the weights of experts"),
    REFUSED("qwen2", "\"use_sliding_window\":true",
            "\"use_sliding_window\":false,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
            "\"low_freq_factor\":1,\"high_freq_factor\":4,"
            "\"original_max_position_embeddings\":8192}",
            "llama.cpp has no place for scaled frequencies (rope_type llama3) in models of qwen2"),
    REFUSED("gemma3_text", "\"rope_type\":\"linear\"", "\"rope_type\":\"yarn\"",
            "llama.cpp has no place for scaled frequencies (rope_type yarn) in models of gemma3"),
    REFUSED("gemma3_text", "\"rope_type\":\"linear\"",
            "\"rope_type\":\"longrope\",\"short_factor\":[1,1,1,1,1,1,1,1,1,1,1,1],"
            "\"long_factor\":[1,1,1,1,1,1,1,1,1,1,1,2]",
            "llama.cpp has no place for scaled frequencies (rope_type longrope) in models of "
            "gemma3"),
    REFUSED("opt", NULL, NULL, "llama.cpp has no architecture for them"),
    REFUSED("bitnet", NULL, NULL, "llama.cpp computes SiLU in models of bitnet"),
    REFUSED("qwen2", NULL, NULL, "window"),
    REFUSED("qwen3", QWEN3_WINDOWS, "\"use_sliding_window\":false",
            "has a bias, which readers of files of qwen3 have no place for"),
    REFUSED("gemma2", NULL, NULL, "the scale of scores"),
    REFUSED("gemma2", "\"query_pre_attn_scalar\":10,\"attn_logit_softcapping\":2.0",
            "\"query_pre_attn_scalar\":24,\"attn_logit_softcapping\":null", "the cap of scores"),
    REFUSED("gemma3_text", NULL, NULL, "the scale of scores"),
    {"gemma3", "\"attention_bias\":true,", "\"query_pre_attn_scalar\":16,", "blocks with a window",
     ".bias "},
    REFUSED("gemma3", GEMMA3_BLOCKS, GEMMA3_PERIOD "\"attention_bias\":true,",
            "has a bias, which readers of files of gemma3_text have no place for"),
    REFUSED("smollm3", "\"pad_token_id\":0", "\"no_rope_layer_interval\":2",
            "such a file has no place for which blocks have no positions"),
    REFUSED("gpt_neox", "\"hidden_act\":\"gelu\"", "\"hidden_act\":\"relu\"", "the activation"),
    REFUSED("gpt_neox_serial", NULL, NULL,
            "has no bias, which readers of files of gpt_neox ask for"),
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static job_place begin(const kind *k, const char *recipe)
{
    static char config[4096];
    job_place p;
    family f = *family_find(k->family);
    const char *const at = k->from ? strstr(f.config, k->from) : NULL;
    ck_assert(!k->from || at);
    if (at)
        (void)snprintf(config, sizeof config, "%.*s%s%s", (int)(at - f.config), f.config, k->to,
                       at + strlen(k->from));
    f.config = at ? config : f.config;
    size_t kept = 0;
    for (size_t i = 0; i < sizeof f.tensor / sizeof *f.tensor && f.tensor[i]; i++)
        if (!k->less || !strstr(f.tensor[i], k->less))
            f.tensor[kept++] = f.tensor[i];
    if (kept < sizeof f.tensor / sizeof *f.tensor)
        f.tensor[kept] = NULL;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    (void)snprintf(p.root, sizeof p.root, "job.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(p.root));
    ck_assert(family_write(&f, job_path(&p, "model")));
    job_recipe(&p, recipe);
    return p;
}

static void end(const job_place *p)
{
    job_remove_directory(p->root);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static pare_status export_as(const job_place *p, const char *target, pare_export_result *r)
{
    const pare_export_job job = {.artifact = job_path(p, "out"),
                                 .output = job_path(p, "x.gguf"),
                                 .target = pare_export_find(target),
                                 .restart = true};
    return pare_export_run(&cx, &arena, &job, r);
}

static void check_linear(const pare_linear *is, const pare_linear *was, bool rounded)
{
    const size_t count = was->n * was->k;
    if (!was->data && was->bits == 0) { /* the family has none such */
        ck_assert(!is->data);
        return;
    }
    ck_assert(is->n == was->n && is->k == was->k);
    float *const a = PARE_NEW(&arena, float, count);
    float *const b = PARE_NEW(&arena, float, count);
    ck_assert(a && b);
    pare_linear_to_f32(&cx, is, a);
    pare_linear_to_f32(&cx, was, b);
    for (size_t i = 0; i < count; i++) {
        const float most = rounded ? fabsf(b[i]) * 0x1p-11f + 0x1p-25f : 0;
        ck_assert_msg(fabsf(a[i] - b[i]) <= most, "%s [%zu, %zu]: %g, %g", was->name, i / is->k,
                      i % is->k, (double)a[i], (double)b[i]);
    }
    check_vector(is->bias, was->bias, was->n, was->name);
}

static void check_model(const loaded *is, const loaded *was, bool rounded)
{
    const pare_config *const c = &was->model.config;
    ck_assert_uint_eq(is->model.config.blocks, c->blocks);
    ck_assert(is->model.config.rope_local.theta == c->rope_local.theta);
    for (size_t i = 0; i < c->blocks; i++) {
        const pare_block *const a = &is->model.block[i], *const b = &was->model.block[i];
        for (size_t j = 0; j < pare_block_leaves(c); j++) {
            const pare_leaf x = pare_block_leaf(c, a, j), y = pare_block_leaf(c, b, j);
            if (y.linear)
                check_linear(x.linear, y.linear, rounded && y.kind == PARE_LEAF_WEIGHT);
            else if (y.vector)
                check_vector(*x.vector, *y.vector, y.n, y.name);
        }
        ck_assert_uint_eq(a->window, b->window);
        ck_assert(a->apart == b->apart);
    }
    check_vector(is->model.norm, was->model.norm, c->hidden, "norm");
    check_vector(is->model.norm_bias, was->model.norm_bias, c->hidden, "its bias");
    check_linear(&is->model.head, &was->model.head, rounded);
    check_linear(&is->model.embed, &was->model.embed, rounded);
    check_linear(&is->model.positions, &was->model.positions, false);
}

/* What the plan of the recipe says before and after. */
static void check_plan(const job_place *p)
{
    struct stat st;
    const job_opts opts = {.output = "out"};
    const pare_job job = {.recipe = job_path(p, "recipe.yaml"),
                          .output = job_path(p, opts.output),
                          .plan_only = true};
    pare_plan plan;
    ck_assert_int_eq(pare_plan_make(&cx, &arena, &job, &plan), PARE_OK);
    ck_assert_int_eq(stat(job_path(p, "x.gguf"), &st), 0);
    ck_assert_uint_eq(plan.export[0].result.bytes, (uint64_t)st.st_size);
    ck_assert(plan.settled.export[0].taken && plan.export[0].result.fallbacks == 0);
    pare_plan_close(&plan);
}

/* Readers of phi3 want to be told that there is no window. */
static void check_window(const kind *k, const loaded *is)
{
    pare_gguf g;
    int64_t window = -1;
    if (strcmp(k->family, "phi3") != 0)
        return;
    ck_assert_int_eq(
        pare_gguf_parse(&cx, &arena, "g", is->ck.file[0].data, is->ck.file[0].bytes, &g), PARE_OK);
    ck_assert(pare_gguf_integer(pare_gguf_find(&g, "phi3.attention.sliding_window"), 0, &window));
    ck_assert_int_eq(window, k->to ? 0 : 13);
}

/* Every linear of a block stays in blocks, and nothing else does. */
static void check_packed(const pare_model *m)
{
    const size_t parts = pare_block_parts(&m->config);
    for (size_t i = 0; i < m->config.blocks * parts * PARE_COMMON_ROLES; i++) {
        const pare_block *const b = &m->block[i / (parts * PARE_COMMON_ROLES)];
        const pare_linear *const l =
            pare_block_linear(b, i / PARE_COMMON_ROLES % parts, (pare_role)(i % PARE_COMMON_ROLES));
        ck_assert(!l->name || (l->bits == 8 && l->panel.group == 32));
        ck_assert(b->router.bits == 0 && b->shared_gate.bits == 0);
    }
    ck_assert(m->embed.bits == 0 && m->head.bits == 0 && m->positions.bits == 0);
}

START_TEST(the_file_of_a_family_is_the_artifact)
{
    char what[1024];
    const kind *const k = &kinds[_i];
    const job_place p = begin(k, recipes[0]);
    pare_export_result r;
    loaded was, is;
    const pare_status s = job_run(&p, (job_opts){.output = "out"}, what);
    ck_assert_msg(s == (k->refused ? PARE_EUSAGE : PARE_OK), "%s", what);
    ck_assert_msg(!k->refused || strstr(what, k->refused), "%s", what);
    ck_assert(pare_path_is_directory(job_path(&p, "out")) == !k->refused);
    if (s == PARE_OK) {
        check_plan(&p);
        load(&p, "out", &was);
        load(&p, "x.gguf", &is);
        check_model(&is, &was, false);
        check_window(k, &is);
        const size_t bytes = was.model.config.vocab * sizeof(float);
        ck_assert_mem_eq(logits(&is.model, true), logits(&was.model, true), bytes);
        pare_checkpoint_close(&is.ck);
        load_to_run(&p, "x.gguf", &is);
        check_packed(&is.model);
        check_model(&is, &was, false);
        ck_assert_mem_eq(logits(&is.model, true), logits(&was.model, true), bytes);
        pare_checkpoint_close(&is.ck);
        ck_assert_int_eq(export_as(&p, "gguf:f16", &r), PARE_OK);
        load(&p, "x.gguf", &is);
        check_model(&is, &was, true);
        pare_checkpoint_close(&is.ck);
        pare_checkpoint_close(&was.ck);
    }
    end(&p);
}
END_TEST

START_TEST(codes_and_floats_in_one_tensor_become_floats)
{
    const kind *const k = &kinds[_i];
    const job_place p = begin(k, recipes[1]);
    pare_export_result r;
    loaded was, is;
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    const pare_status s = export_as(&p, "gguf:q8_0", &r);
    ck_assert_msg(s == (k->refused ? PARE_ENOTSUP : PARE_OK), "%s", cx.what);
    ck_assert_msg(!k->refused || strstr(cx.what, k->refused), "%s", cx.what);
    pare_ctx_clear(&cx);
    if (s == PARE_OK) {
        load(&p, "out", &was);
        const pare_config *const c = &was.model.config;
        const bool joined = c->arch->fused[0].name && c->arch->fused[0].first == PARE_ROLE_Q;
        ck_assert_uint_eq(r.fallbacks, joined ? c->blocks : 0);
        ck_assert_uint_eq(r.beside_floats, r.fallbacks);
        load(&p, "x.gguf", &is);
        check_model(&is, &was, joined || was.model.embed.dtype == PARE_F32);
        pare_checkpoint_close(&is.ck);
        pare_checkpoint_close(&was.ck);
    }
    end(&p);
}
END_TEST

/* Why they are not of the type asked for: floats in their tensor, or rows that are no blocks. */
static void check_reasons(const job_place *p, size_t blocks, size_t experts)
{
    char blockless[96];
    pare_export_result r;
    pare_export_job strict = {.artifact = job_path(p, "out"),
                              .output = job_path(p, "strict.gguf"),
                              .target = pare_export_find("gguf:q8_0"),
                              .strict = true};
    ck_assert_int_eq(export_as(p, "gguf:q8_0", &r), PARE_OK);
    ck_assert_uint_eq(r.beside_floats, 2 * blocks * (experts - 1));
    ck_assert_ptr_nonnull(strstr(r.notice, "lie in one tensor with others that are not quantized"));
    ck_assert_ptr_null(strstr(r.notice, "no whole blocks"));
    ck_assert_int_eq(pare_export_run(&cx, &arena, &strict, &r), PARE_ENOTSUP);
    ck_assert_msg(strstr(cx.what, "experts of its block that are not quantized"), "%s", cx.what);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(export_as(p, "gguf:q4_k", &r), PARE_OK);
    (void)snprintf(
        blockless, sizeof blockless,
        "rows of %zu linears are no whole blocks of the type, they have others: %zu Q5_0;",
        blocks * experts, blocks * experts);
    ck_assert_msg(strstr(r.notice, blockless), "%s", r.notice);
    ck_assert_uint_eq(r.beside_floats, 2 * blocks * (experts - 1));
    for (size_t i = 0; i < r.rows; i++)
        ck_assert(r.row[i].beside_floats ==
                  (r.row[i].fallback && strcmp(r.row[i].type, "F16") == 0));
}

/* What an expert is stored as does not change what others are, but for the type of their tensor. */
START_TEST(experts_share_a_tensor_and_keep_their_fates)
{
    static const char recipe[] =
        "pare: 1\nmodel: model\npasses:\n  - rtn: {bits: 4, group: 32, targets: '*.experts.*', "
        "skip: '*.experts.3.*'}\n  - rtn: {bits: 8, group: 32, symmetric: false, targets: "
        "'*.experts.3.up_proj'}\n";
    const kind k = AS_IS("qwen3_moe");
    const job_place p = begin(&k, recipe);
    pare_export_result r;
    loaded was, is;
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    ck_assert_int_eq(export_as(&p, "gguf:q8_0", &r), PARE_OK);
    load(&p, "out", &was);
    load(&p, "x.gguf", &is);
    const size_t blocks = was.model.config.blocks, experts = was.model.config.experts;
    ck_assert_uint_eq(r.fallbacks, 2 * blocks * (experts - 1));  /* gate and down, beside floats */
    ck_assert_uint_eq(r.count[PARE_EXPORT_REQUANTIZED], blocks); /* up of expert 3 */
    ck_assert_uint_eq(r.count[PARE_EXPORT_ROUNDED], 2 * blocks * (experts - 1));
    ck_assert_uint_eq(r.count[PARE_EXPORT_LOSSLESS], blocks * (experts - 1));
    for (size_t e = 0; e < experts; e++)
        for (pare_role role = PARE_ROLE_GATE; role < PARE_COMMON_ROLES; role++)
            if (e != 3 || role != PARE_ROLE_UP)
                check_linear(pare_block_linear(&is.model.block[1], 1 + e, role),
                             pare_block_linear(&was.model.block[1], 1 + e, role),
                             role != PARE_ROLE_UP);
    for (size_t i = 0; i < r.rows; i++)
        if (r.row[i].fate == PARE_EXPORT_REQUANTIZED)
            ck_assert(strstr(r.row[i].name, "experts.3.up_proj") && r.row[i].error > 0 &&
                      r.row[i].error < 0.01);
    check_reasons(&p, blocks, experts);
    pare_checkpoint_close(&is.ck);
    pare_checkpoint_close(&was.ck);
    end(&p);
}
END_TEST

/* Which linears keep their codes: the engine multiplies with a factor in attention and in the MLP
 * of some families where that has no biases, once for each tensor. `kept`: of q, k, v, o, gate, up,
 * down, whose rows 64 may not divide. */
static const struct {
    kind of;
    const char *kept;
    size_t lost; /* linears of a block without a factor */
} factors[] = {
    {AS_IS("llama"), "qkvo", 2},
    {CHANGED("qwen2", "\"use_sliding_window\":true", "\"use_sliding_window\":false"), "qkvo", 2},
    {{"qwen3", "\"attention_bias\":true," QWEN3_WINDOWS, "\"attention_bias\":false", NULL,
      ".bias "},
     "qkvogu",
     0},
    {AS_IS("gpt2"), "o", 3},
    {AS_IS("phi3"), "o", 2},
    {AS_IS("mixtral"), "qkvogu", 0},
    {AS_IS("qwen3_moe"), "qkvogud", 0},
};
enum { FACTORS = sizeof factors / sizeof *factors };

/* The factors of a tensor are not all the same. */
static bool differs(const pare_gguf_tensor *t)
{
    for (uint64_t i = 1; i < t->elements; i++)
        if (memcmp(t->data, t->data + i * sizeof(float), sizeof(float)) != 0)
            return true;
    return false;
}

START_TEST(nvfp4_stays_where_the_engine_has_a_place_for_factors)
{
    static const char recipe[] = "pare: 1\nmodel: model\npasses: [nvfp4: {}]\n";
    const job_place p = begin(&factors[_i].of, recipe);
    const size_t lost = factors[_i].lost;
    pare_export_result r;
    loaded was, is;
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    ck_assert_msg(export_as(&p, "gguf:q8_0", &r) == PARE_OK, "%s", cx.what);
    load(&p, "out", &was);
    load_to_run(&p, "x.gguf", &is);
    const pare_config *const c = &was.model.config;
    size_t kept = 0, without = 0, apart = 0;
    for (size_t b = 0; b < c->blocks; b++)
        for (size_t part = 0; part < pare_block_parts(c); part++)
            for (pare_role role = 0; role < PARE_COMMON_ROLES; role++) {
                const pare_linear *const x = pare_block_linear(&is.model.block[b], part, role),
                                         *const y =
                                             pare_block_linear(&was.model.block[b], part, role);
                if (!y->name)
                    continue;
                const bool stays = strchr(factors[_i].kept, "qkvogud"[role]) != NULL;
                ck_assert_msg((x->encoding == PARE_ENCODING_NVFP4) == stays, "%s", y->name);
                kept += stays;
                if (stays)
                    check_linear(x, y, false);
            }
    ck_assert_uint_eq(r.count[PARE_EXPORT_LOSSLESS], kept);
    for (size_t i = 0; i < r.rows; i++)
        without += r.row[i].no_factor;
    ck_assert_uint_eq(without, lost * c->blocks);
    ck_assert_uint_eq(r.no_factor, without);
    ck_assert((strstr(r.notice, "llama.cpp has no place for the factor of NVFP4 of") != NULL) ==
              (lost > 0));
    pare_gguf g;
    ck_assert_int_eq(pare_gguf_parse(&cx, &arena, "g", is.ck.file[0].data, is.ck.file[0].bytes, &g),
                     PARE_OK);
    for (size_t i = 0; i < g.tensors; i++)
        apart += pare_gguf_is_factor(&g, g.tensor[i].name) && differs(&g.tensor[i]);
    ck_assert((apart > 0) == (c->experts > 0));
    pare_checkpoint_close(&is.ck);
    pare_checkpoint_close(&was.ck);
    end(&p);
}
END_TEST

/* A head keeps its codes; one that is the embedding has no place for a factor. */
START_TEST(a_head_in_nvfp4_stays_unless_it_is_the_embedding)
{
    static const char recipe[] = "pare: 1\nmodel: model\nhead: {nvfp4: {}}\n"
                                 "passes: [nvfp4: {targets: '*.v_proj'}]\n";
    const bool tied = _i != 0;
    const job_place p = begin(&factors[_i].of, recipe);
    pare_export_result r;
    loaded was, is;
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    ck_assert_msg(export_as(&p, _i == 2 ? "gguf:q4_k_m" : "gguf:q8_0", &r) == PARE_OK, "%s",
                  cx.what);
    load(&p, "out", &was);
    load_to_run(&p, "x.gguf", &is);
    ck_assert_int_eq(was.model.config.tied, tied);
    ck_assert_int_eq(is.model.head.encoding == PARE_ENCODING_NVFP4, !tied);
    for (size_t i = 0; i < r.rows; i++)
        if (!strstr(r.row[i].name, "v_proj"))
            ck_assert_int_eq(strcmp(r.row[i].type, "NVFP4") == 0,
                             !tied && strcmp(r.row[i].name, "lm_head") == 0);
    if (!tied)
        check_linear(&is.model.head, &was.model.head, false);
    pare_checkpoint_close(&is.ck);
    pare_checkpoint_close(&was.ck);
    end(&p);
}
END_TEST

START_TEST(strict_refuses_windows_that_the_engine_does_not_keep_to)
{
    char what[1024];
    const kind wide = CHANGED("mistral", "\"sliding_window\":9", "\"sliding_window\":256");
    const job_place p = begin(_i ? &wide : &kinds[1], recipes[0]);
    const pare_status s = job_run(&p, (job_opts){.output = "out", .strict = true}, what);
    ck_assert_msg(s == (_i ? PARE_OK : PARE_EUSAGE), "%s", what);
    ck_assert_msg(_i || strstr(what, "not only the window of 9 of a context of 256"), "%s", what);
    end(&p);
}
END_TEST

/* Factor, bounds and original context of Llama 3, the usual ones first. Some leave one pair or none
 * between the bounds, some scale all pairs or none. */
static const struct {
    double factor, low, high;
    int original;
} scalings[] = {
    {8, 1, 4, 8192}, {8, 1, 4, 256},        {8, 2, 4, 8192},      {32, 1, 4, 8000},
    {4, 0.5, 8, 64}, {8, 1.2345, 3.3, 300}, {16, 1, 1.5, 1000},   {8, 30, 31, 1000},
    {8, 1, 4, 4},    {8, 1, 4, 12000000},   {2.5, 3, 300, 20000}, {40, 1, 1.01, 777},
    {1, 1, 4, 8192}, {16, 1, 1, 8192},      {16, 1, 1, 4},        {16, 1, 1, 12000000},
};
enum { SCALINGS = sizeof scalings / sizeof *scalings };

START_TEST(divisors_say_what_the_model_computes)
{
    static char scaled[256];
    loaded was, is;
    (void)snprintf(scaled, sizeof scaled,
                   "\"rope_scaling\":{\"rope_type\":\"llama3\","
                   "\"factor\":%g,\"low_freq_factor\":%g,\"high_freq_factor\":%g,"
                   "\"original_max_position_embeddings\":%d}",
                   scalings[_i].factor, scalings[_i].low, scalings[_i].high, scalings[_i].original);
    const kind k =
        CHANGED("llama", "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2.5}", scaled);
    const job_place p = begin(&k, recipes[0]);
    char what[1024];
    const pare_status s = job_run(&p, (job_opts){.output = "out"}, what);
    ck_assert_msg(s == PARE_OK, "%s", what);
    load(&p, "out", &was);
    load(&p, "x.gguf", &is);
    const pare_rope *const a = &was.model.config.rope, *const b = &is.model.config.rope;
    const size_t pairs = pare_rope_pairs(&was.model.config);
    ck_assert(a->kind == PARE_ROPE_LLAMA3 && pairs == 8);
    for (size_t i = 0; i < pairs; i++) {
        const double want = pare_rope_frequency(a, i, pairs, 0),
                     got = pare_rope_frequency(b, i, pairs, 0);
        ck_assert_msg(fabs(want - got) <= 1e-6 * want, "pair %zu: %.9g, %.9g", i, want, got);
    }
    if (_i == 0) /* words that other programs expect */
        ck_assert(b->low_freq_factor == 1 && b->high_freq_factor == 4 &&
                  b->original_context == 8192);
    pare_checkpoint_close(&is.ck);
    pare_checkpoint_close(&was.ck);
    end(&p);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("export_gguf");
    TCase *const t = tcase_create("families");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, the_file_of_a_family_is_the_artifact, 0, KINDS);
    tcase_add_loop_test(t, codes_and_floats_in_one_tensor_become_floats, 0, KINDS);
    tcase_add_test(t, experts_share_a_tensor_and_keep_their_fates);
    tcase_add_loop_test(t, nvfp4_stays_where_the_engine_has_a_place_for_factors, 0, FACTORS);
    tcase_add_loop_test(t, a_head_in_nvfp4_stays_unless_it_is_the_embedding, 0, 3);
    tcase_add_loop_test(t, strict_refuses_windows_that_the_engine_does_not_keep_to, 0, 2);
    suite_add_tcase(s, t);
    TCase *const d = tcase_create("divisors");
    tcase_set_timeout(d, 240);
    tcase_add_loop_test(d, divisors_say_what_the_model_computes, 0, SCALINGS);
    suite_add_tcase(s, d);
    return unit_main(s);
}
