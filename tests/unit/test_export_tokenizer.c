/* What a GGUF file says of the tokenizer: the tokens around a text, and those that end it. */
#include "compress/export/export.h"
#include "formats/gguf.h"
#include "formats/tokenizer.h"
#include "tests/unit/loaded.h"

enum { BYTES = 256, START = 256, END, TURN, MORE, ALL, VOCAB = 264 };

static const char recipe[] = "pare: 1\nmodel: model\npasses: [rtn: {bits: 8, group: 32}]\n"
                             "export: [{format: \"gguf:q8_0\", path: x.gguf}]\n";

static void put_file(const job_place *p, const char *name, const char *text)
{
    FILE *const f = fopen(job_path(p, name), "w");
    ck_assert_ptr_nonnull(f);
    ck_assert(fputs(text, f) >= 0 && fclose(f) == 0);
}

/* A character for every byte: printable ones stand for themselves, others for what follows 255. */
static void put_bytes(FILE *f)
{
    unsigned next = 256;
    for (unsigned b = 0; b < BYTES; b++) {
        const bool plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        (void)fprintf(f, "%s\"\\u%04x\":%u", b ? "," : "", plain ? b : next++, b);
    }
}

static void put_tokenizer(const job_place *p, const char *post)
{
    static const char *const special[] = {"<s>", "</s>", "<turn>", "<more>"};
    FILE *const f = fopen(job_path(p, "model/tokenizer.json"), "w");
    ck_assert_ptr_nonnull(f);
    (void)fprintf(f, "{\"version\":\"1.0\",\"added_tokens\":[");
    for (size_t i = 0; i < 4; i++)
        (void)fprintf(f, "%s{\"id\":%zu,\"content\":\"%s\",\"special\":true}", i ? "," : "",
                      START + i, special[i]);
    (void)fprintf(f,
                  "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                  "\"add_prefix_space\":false,\"use_regex\":true},\"decoder\":{\"type\":"
                  "\"ByteLevel\"},\"post_processor\":%s,\"model\":{\"type\":\"BPE\",\"vocab\":{",
                  post);
    put_bytes(f);
    (void)fprintf(f, "},\"merges\":[]}}");
    ck_assert_int_eq(fclose(f), 0);
}

static const tiny_model tiny = {.hidden = 32,
                                .intermediate = 64,
                                .blocks = 1,
                                .heads = 2,
                                .kv_heads = 1,
                                .head_dim = 16,
                                .vocab = VOCAB,
                                .context = 64,
                                .dtype = PARE_F16,
                                .shards = 1,
                                .seed = 3};

static job_place begin(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    const job_place p = job_make(&tiny);
    job_recipe(&p, recipe);
    return p;
}

static void end(const job_place *p)
{
    job_remove_directory(p->root);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

#define FRONT  "{\"SpecialToken\":{\"id\":\"<s>\"}},"
#define BEHIND ",{\"SpecialToken\":{\"id\":\"</s>\"}}"
#define TEMPLATE(front, behind)                                                                    \
    "{\"type\":\"TemplateProcessing\",\"single\":[" front "{\"Sequence\":{\"id\":\"A\"}}" behind   \
    "],\"special_tokens\":{\"<s>\":{\"ids\":[256]},\"</s>\":{\"ids\":[257]}}}"
#define SETTINGS "\"bos_token\":\"<s>\",\"eos_token\":\"</s>\""

/* The model names 2 as its end token. -1: the file has no such key. */
static const struct {
    const char *post, *settings, *generation;
    int bos, add_bos, add_eos, ends[3];
    const char *refused;
} cases[] = {
    {"null", SETTINGS, NULL, START, 0, 0, {END, 2, -1}, NULL},
    {TEMPLATE(FRONT, ""), SETTINGS, NULL, START, 1, 0, {END, 2, -1}, NULL},
    {TEMPLATE(FRONT, ""), NULL, NULL, START, 1, 0, {2, -1, -1}, NULL},
    {TEMPLATE(FRONT, ""),
     SETTINGS ",\"add_bos_token\":false",
     NULL,
     START,
     1,
     0,
     {END, 2, -1},
     NULL},
    {"null", SETTINGS ",\"add_bos_token\":true", NULL, START, 0, 0, {END, 2, -1}, NULL},
    {TEMPLATE(FRONT, BEHIND), SETTINGS, "{}", START, 1, 1, {END, 2, -1}, NULL},
    {"null", SETTINGS, "{\"eos_token_id\":[257,258]}", START, 0, 0, {END, TURN, -1}, NULL},
    {"null", SETTINGS, "{\"eos_token_id\":258}", START, 0, 0, {END, TURN, -1}, NULL},
    {"null",
     "\"bos_token\":\"<s>\",\"eos_token\":\"<turn>\"",
     "{\"eos_token_id\":[257,259,258]}",
     START,
     0,
     0,
     {TURN, END, MORE},
     NULL},
    {"null", SETTINGS, "{\"eos_token_id\":[257,258,259,9]}", 0, 0, 0, {0}, "any of 4 tokens"},
    {TEMPLATE(FRONT FRONT, ""), SETTINGS, NULL, 0, 0, 0, {0}, "tokens that its tokenizer puts"},
    {TEMPLATE("", BEHIND), NULL, NULL, 0, 0, 0, {0}, "tokens that its tokenizer puts"},
};
enum { CASES = sizeof cases / sizeof *cases };

static void check_integer(const pare_gguf *g, const char *key, int want)
{
    int64_t is = -1;
    (void)pare_gguf_integer(pare_gguf_find(g, key), 0, &is);
    ck_assert_msg(is == want, "%s is %lld, not %d", key, (long long)is, want);
}

static void check_words(const job_place *p, int i_of)
{
    static const char *const end_key[] = {"tokenizer.ggml.eos_token_id",
                                          "tokenizer.ggml.eot_token_id",
                                          "tokenizer.ggml.eom_token_id"};
    pare_file f;
    pare_gguf g;
    ck_assert_int_eq(pare_file_map(&cx, &arena, job_path(p, "x.gguf"), &f), PARE_OK);
    ck_assert_int_eq(pare_gguf_parse(&cx, &arena, "g", f.data, f.bytes, &g), PARE_OK);
    check_integer(&g, "tokenizer.ggml.bos_token_id", cases[i_of].bos);
    check_integer(&g, "tokenizer.ggml.add_bos_token", cases[i_of].add_bos);
    check_integer(&g, "tokenizer.ggml.add_eos_token", cases[i_of].add_eos);
    for (size_t i = 0; i < 3; i++)
        check_integer(&g, end_key[i], cases[i_of].ends[i]);
    pare_file_unmap(&f);
}

/* The file read as a model ends with the same tokens, and more where the tokenizer has one. */
static void check_model(const job_place *p, int i_of)
{
    loaded is;
    pare_tokenizer *t;
    load(p, "x.gguf", &is);
    const pare_config *const c = &is.model.config;
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(i < c->eos_ids ? c->eos_id[i] : -1, cases[i_of].ends[i]);
    ck_assert_int_eq(pare_checkpoint_tokenizer(&is.ck, &t), PARE_OK);
    ck_assert_uint_eq(pare_tokenizer_around(t)->fronts, (size_t)cases[i_of].add_bos);
    ck_assert_uint_eq(pare_tokenizer_around(t)->behinds, (size_t)cases[i_of].add_eos);
    pare_tokenizer_free(t);
    pare_checkpoint_close(&is.ck);
}

START_TEST(special_tokens_of_all_files_go_along)
{
    const job_place p = begin();
    char what[1024], settings[256];
    put_tokenizer(&p, cases[_i].post);
    (void)snprintf(settings, sizeof settings, "{%s}", cases[_i].settings ? cases[_i].settings : "");
    if (cases[_i].settings)
        put_file(&p, "model/tokenizer_config.json", settings);
    if (cases[_i].generation)
        put_file(&p, "model/generation_config.json", cases[_i].generation);
    const pare_status s = job_run(&p, (job_opts){.output = "out"}, what);
    ck_assert_msg(s == (cases[_i].refused ? PARE_EUSAGE : PARE_OK), "%s", what);
    ck_assert_msg(!cases[_i].refused || strstr(what, cases[_i].refused), "%s", what);
    if (!cases[_i].refused) {
        check_words(&p, _i);
        check_model(&p, _i);
    }
    end(&p);
}
END_TEST

static void check_text(const pare_gguf *g, const char *key, const char *want)
{
    const char *text = NULL;
    size_t len = 0;
    ck_assert_msg(pare_gguf_text(pare_gguf_find(g, key), &text, &len), "%s is missing", key);
    ck_assert_uint_eq(len, strlen(want));
    ck_assert_mem_eq(text, want, len);
}

/* Engines ask for one of several by its name. */
START_TEST(all_chat_templates_go_along)
{
    const job_place p = begin();
    char what[1024];
    pare_file f;
    pare_gguf g;
    pare_gguf_texts it = {0};
    const char *text;
    size_t len;
    put_tokenizer(&p, "null");
    put_file(&p, "model/tokenizer_config.json",
             "{\"chat_template\":[{\"name\":\"tool-use\",\"template\":\"with tools\"},"
             "{\"name\":\"default\",\"template\":\"plain\"},{\"name\":\"none\"}]}");
    ck_assert_msg(job_run(&p, (job_opts){.output = "out"}, what) == PARE_OK, "%s", what);
    ck_assert_int_eq(pare_file_map(&cx, &arena, job_path(&p, "x.gguf"), &f), PARE_OK);
    ck_assert_int_eq(pare_gguf_parse(&cx, &arena, "g", f.data, f.bytes, &g), PARE_OK);
    check_text(&g, "tokenizer.chat_template", "plain");
    check_text(&g, "tokenizer.chat_template.tool_use", "with tools");
    const pare_gguf_value *const names = pare_gguf_find(&g, "tokenizer.chat_templates");
    ck_assert(names && names->count == 1 && pare_gguf_next(names, &it, &text, &len));
    ck_assert(len == strlen("tool_use") && memcmp(text, "tool_use", len) == 0);
    pare_file_unmap(&f);
    end(&p);
}
END_TEST

/* llama.cpp loads such a file; people are told before the job and behind it. */
START_TEST(a_file_without_a_tokenizer_is_told)
{
    const job_place p = begin();
    const pare_job job = {
        .recipe = job_path(&p, "recipe.yaml"), .output = job_path(&p, "out"), .plan_only = true};
    pare_plan plan;
    ck_assert_int_eq(pare_plan_make(&cx, &arena, &job, &plan), PARE_OK);
    ck_assert(plan.export[0].result.no_tokenizer);
    ck_assert_ptr_nonnull(strstr(plan.export[0].result.notice, pare_export_no_tokenizer));
    pare_plan_close(&plan);
    put_tokenizer(&p, "null");
    ck_assert_int_eq(pare_plan_make(&cx, &arena, &job, &plan), PARE_OK);
    ck_assert(!plan.export[0].result.no_tokenizer);
    ck_assert_ptr_null(strstr(plan.export[0].result.notice, pare_export_no_tokenizer));
    pare_plan_close(&plan);
    end(&p);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("export_tokenizer");
    TCase *const t = tcase_create("tokenizer");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, special_tokens_of_all_files_go_along, 0, CASES);
    tcase_add_test(t, all_chat_templates_go_along);
    tcase_add_test(t, a_file_without_a_tokenizer_is_told);
    suite_add_tcase(s, t);
    return unit_main(s);
}
