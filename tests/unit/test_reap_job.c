/* Jobs that take experts out of mixtures: what is written and what is copied, that the smaller
 * model computes what the original does where its router cannot pick those that went, breaks,
 * refusals. */
#include <math.h>

#include "compress/artifact/verify.h"
#include "formats/safetensors.h"
#include "tests/unit/job_plan.h"
#include "tests/unit/moe_job.h"

#define EVALUATE "evaluate:\n  - kl: {tokens: tokens.i32, window: 64}\n"
#define REAP(settings)                                                                             \
    "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 12, window: 64}\n" EVALUATE \
    "passes:\n  - reap: {" settings "}\n"

/* A family, its share of experts that goes, and how many of them stay. */
typedef struct mixture {
    const char *family, *ratio;
    size_t kept;
    const char *from, *to; /* in its config.json */
} mixture;

#define FOUR "\"n_group\":4,\"topk_group\":2"
#define TWO  "\"n_group\":2,\"topk_group\":1"
#define BOTH "\"n_group\":2,\"topk_group\":2"

static const mixture mixtures[] = {
    {"mixtral", "ratio: 0.5", 3, NULL, NULL},
    {"qwen2_moe", "ratio: 0.3", 6, NULL, NULL},
    {"qwen3_moe", "", 6, "\"hidden_act\"", "\"n_routed_experts\":8,\"hidden_act\""},
    {"qwen3_moe", "ratio: 0.5, score: frequency", 4, NULL, NULL},
    {"gpt_oss", "ratio: 0.34", 4, NULL, NULL},
    {"deepseek_v2", "ratio: 0.4", 6, FOUR, TWO},
    {"deepseek_v2_lite", "ratio: 0.5", 4, NULL, NULL},
    {"deepseek_v3", "ratio: 0.25", 6, FOUR, TWO},
    {"deepseek_v3", "ratio: 0.45", 6, FOUR, BOTH},
    {"glm4_moe", "ratio: 0.25", 6, FOUR, TWO},
    {"glm4_moe_air", "ratio: 0.5", 3, NULL, NULL},
    {"llama4_text", "ratio: 0.5", 3, NULL, NULL},
    {"llama4", "ratio: 0.25", 3, NULL, NULL},
    {"qwen3_5_moe", "ratio: 0.3", 5, NULL, NULL},
};
enum { MIXTURES = sizeof mixtures / sizeof *mixtures };

/* The file of the place with `from` replaced. */
static void edit(const char *file, const char *from, const char *to)
{
    pare_ctx cx;
    pare_arena a;
    char *text;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_file_read(&cx, &a, job_path(&place, file), 1 << 20, &text, &len),
                     PARE_OK);
    const char *const at = strstr(text, from);
    ck_assert_msg(at != NULL, "%s", text);
    FILE *const out = fopen(job_path(&place, file), "wb");
    ck_assert_ptr_nonnull(out);
    (void)fprintf(out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    ck_assert_int_eq(fclose(out), 0);
    pare_arena_release(&a);
}

static void place_of(const mixture *m)
{
    setup_family(m->family);
    if (m->from)
        edit("model/config.json", m->from, m->to);
}

static void run(const char *recipe, const char *output)
{
    char what[1024];
    job_recipe(&place, recipe);
    ck_assert_msg(job_run(&place, (job_opts){.output = output}, what) == PARE_OK, "%s", what);
}

static void complain(void *self, const char *what)
{
    (void)self;
    (void)fprintf(stderr, "verify: %s\n", what);
}

static size_t findings(const char *output)
{
    pare_ctx cx;
    pare_verify_result r;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_verify(&cx, job_path(&place, output), complain, NULL, &r), PARE_OK);
    return r.findings;
}

/* What manifest.json says of a block; NULL: nothing. */
static const pare_json *told_of(const pare_json *manifest, size_t block)
{
    const pare_json *const all = pare_json_get(pare_json_get(manifest, "structure"), "experts");
    for (size_t i = 0; i < pare_json_count(all); i++)
        if (pare_json_integer(pare_json_get(pare_json_at(all, i), "block"), -1) == (int64_t)block)
            return pare_json_at(all, i);
    return NULL;
}

static bool is_gone(const pare_json *of, size_t expert)
{
    const pare_json *const gone = pare_json_get(of, "gone");
    bool is = false;
    for (size_t i = 0; i < pare_json_count(gone); i++)
        is |= pare_json_integer(pare_json_at(gone, i), -1) == (int64_t)expert;
    return is;
}

/* Which expert of the original has the number `to`. */
static size_t source_of(const pare_json *of, size_t to)
{
    size_t e = 0;
    while (is_gone(of, e) || to-- > 0)
        e++;
    return e;
}

static pare_json *json_of(pair *p, const char *output, const char *name)
{
    char path[256], *text;
    size_t len;
    pare_json *json;
    (void)snprintf(path, sizeof path, "%s/%s", output, name);
    ck_assert_int_eq(pare_file_read(&p->cx, &p->a, job_path(&place, path), 1 << 24, &text, &len),
                     PARE_OK);
    ck_assert_int_eq(pare_json_parse(&p->cx, path, text, len, 1 << 24, &json), PARE_OK);
    return json;
}

/* The scores that went are the lowest, of each group; every token that was sent is counted. */
static void check_choice(const pair *p, const pare_json *manifest, bool by_tokens)
{
    const pare_config *const c = &p->before.config;
    const size_t groups = c->expert_groups ? c->expert_groups : 1, each = c->experts / groups;
    for (size_t b = 0; b < c->blocks; b++) {
        const pare_json *const of = told_of(manifest, b);
        int64_t tokens = 0;
        ck_assert_int_eq(of != NULL, pare_block_arch(c, b)->experts != NULL);
        if (!of)
            continue;
        const pare_json *const score = pare_json_get(of, "score");
        ck_assert_uint_eq(pare_json_count(pare_json_get(of, "gone")),
                          c->experts - p->after.config.experts);
        for (size_t i = 0; i < c->experts; i++) {
            const int64_t seen =
                pare_json_integer(pare_json_at(pare_json_get(of, "tokens"), i), -1);
            tokens += seen;
            ck_assert(!by_tokens || pare_json_number(pare_json_at(score, i), NAN) == (double)seen);
            for (size_t j = i / each * each; j < (i / each + 1) * each; j++)
                ck_assert(!is_gone(of, i) || is_gone(of, j) ||
                          pare_json_number(pare_json_at(score, i), NAN) <=
                              pare_json_number(pare_json_at(score, j), NAN));
        }
        ck_assert_int_eq(tokens, (int64_t)(TOKENS * c->experts_used));
    }
}

/* Whether a tensor has a row for each expert. */
static bool has_rows(const pare_config *c, const char *name)
{
    const pare_experts *const e = c->arch->experts;
    size_t block;
    const char *const inside = pare_arch_inside(c->arch, name, &block);
    const size_t len = strlen(e->router);
    return inside && pare_block_arch(c, block)->experts &&
           ((strncmp(inside, e->router, len) == 0 &&
             (strcmp(inside + len, ".weight") == 0 || strcmp(inside + len, ".bias") == 0)) ||
            (e->correction && strcmp(inside, e->correction) == 0));
}

/* Every tensor is one of the original, or some of its rows, byte for byte. */
static void check_tensors(const pair *p, const pare_json *manifest)
{
    const pare_config *const c = &p->before.config;
    size_t expected = 0, block, expert;
    const char *rest;
    for (size_t i = 0; i < p->ck[0].tensors; i++) {
        const char *const name = p->ck[0].tensor[i].name;
        expected +=
            p->before.used[i] && (!pare_arch_expert(c->arch, name, &block, &expert, &rest) ||
                                  expert < p->after.config.experts);
    }
    ck_assert_uint_eq(p->ck[1].tensors, expected);
    for (size_t i = 0; i < p->ck[1].tensors; i++) {
        const pare_tensor *const t = &p->ck[1].tensor[i];
        char source[256];
        (void)snprintf(source, sizeof source, "%s", t->name);
        if (pare_arch_expert(c->arch, t->name, &block, &expert, &rest))
            (void)pare_arch_name_in(c->arch, block, source_of(told_of(manifest, block), expert) + 1,
                                    rest, source, sizeof source);
        const pare_tensor *const from = pare_checkpoint_find(&p->ck[0], source);
        ck_assert_msg(from && from->dtype == t->dtype && from->rank == t->rank, "%s", t->name);
        if (!has_rows(c, t->name)) {
            ck_assert_msg(from->bytes == t->bytes && memcmp(from->data, t->data, t->bytes) == 0,
                          "%s is not %s", t->name, source);
            continue;
        }
        (void)pare_arch_inside(c->arch, t->name, &block);
        const size_t row = from->bytes / c->experts;
        ck_assert_uint_eq(t->shape[0], p->after.config.experts);
        for (size_t e = 0; e < p->after.config.experts; e++)
            ck_assert_msg(
                memcmp((const char *)t->data + e * row,
                       (const char *)from->data + source_of(told_of(manifest, block), e) * row,
                       row) == 0,
                "%s: row %zu", t->name, e);
    }
}

enum { SEQUENCES = 3, LENGTH = 21, ROWS = SEQUENCES * LENGTH };

static float *logits_of(pair *p, const pare_model *m)
{
    const pare_config *const c = &m->config;
    const pare_batch batch = {SEQUENCES, LENGTH, 0};
    pare_forward f;
    pare_kv kv;
    int32_t token[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        token[i] = family_token(i);
    float *const x = PARE_NEW(&p->a, float, ROWS * c->hidden);
    float *const out = PARE_NEW(&p->a, float, ROWS * c->vocab);
    ck_assert(x && out);
    ck_assert_int_eq(pare_forward_init(&p->cx, &p->a, m, LENGTH, true, &f), PARE_OK);
    ck_assert_int_eq(pare_kv_take(&p->a, c, SEQUENCES, LENGTH, &kv), PARE_OK);
    ck_assert_int_eq(pare_embed_batch(&p->cx, m, token, batch, x), PARE_OK);
    ck_assert_int_eq(pare_model_forward(&p->cx, &p->a, &f, batch, x, &kv, 1), PARE_OK);
    ck_assert_int_eq(pare_logits(&p->cx, &p->a, &f, x, NULL, ROWS, out), PARE_OK);
    return out;
}

/* The router of the original cannot pick what went: its logits are as good as -infinity. */
static void forbid(pair *p, const pare_json *manifest)
{
    const pare_config *const c = &p->before.config;
    for (size_t b = 0; b < c->blocks; b++) {
        const pare_json *const of = told_of(manifest, b);
        pare_block *const block = &p->before.block[b];
        float *const bias = PARE_NEW(&p->a, float, c->experts);
        ck_assert_ptr_nonnull(bias);
        for (size_t e = 0; of && e < c->experts; e++) {
            bias[e] = block->router.bias ? block->router.bias[e] : 0;
            if (!is_gone(of, e))
                continue;
            bias[e] = -1e30F;
            if (block->correction)
                block->correction[e] = -1e30F;
        }
        if (of)
            block->router.bias = bias;
    }
}

static size_t bytes_of(const char *file)
{
    struct stat st;
    ck_assert_int_eq(stat(job_path(&place, file), &st), 0);
    return (size_t)st.st_size;
}

/* No word of config.json that counts experts has the old number. */
static void check_counts(const pair *p, size_t kept)
{
    static const char *const word[] = {"num_experts", "num_local_experts", "n_routed_experts"};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        ck_assert_int_eq(pare_json_integer(pare_json_get(p->ck[1].config, word[i]), (int64_t)kept),
                         (int64_t)kept);
}

START_TEST(what_stays_is_copied_and_computes_what_it_did)
{
    const mixture *const m = &mixtures[_i];
    char recipe[512];
    pair p;
    place_of(m);
    (void)snprintf(recipe, sizeof recipe, REAP("%s"), m->ratio);
    job_recipe(&place, recipe);
    const job_plan plan = job_plan_of(&place, 0);
    run(recipe, "out");
    ck_assert_uint_eq(bytes_of("out/model.safetensors"), plan.packed_bytes);
    ck_assert_uint_eq(findings("out"), 0);
    open_pair(&p, "out");
    pare_json *const manifest = json_of(&p, "out", "manifest.json");
    ck_assert_uint_eq(p.after.config.experts, m->kept);
    check_counts(&p, m->kept);
    ck_assert_uint_eq(p.after.config.experts_used, p.before.config.experts_used);
    check_choice(&p, manifest, strstr(m->ratio, "frequency") != NULL);
    check_tensors(&p, manifest);
    float *const whole = logits_of(&p, &p.before);
    forbid(&p, manifest);
    const size_t bytes = ROWS * p.before.config.vocab * sizeof(float);
    const float *const now = logits_of(&p, &p.after);
    ck_assert_mem_eq(logits_of(&p, &p.before), now, bytes);
    ck_assert_int_ne(memcmp(whole, now, bytes), 0);
    pare_json_free(manifest);
    close_pair(&p);
    teardown();
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

/* When a job stops: behind the first block that is scored, or the second that is done. */
typedef struct stopper {
    volatile int stop;
    bool scored;
    size_t seen;
    char resumed[64]; /* what the next run says of that */
} stopper;

static void stop_there(void *self, const pare_event *e)
{
    stopper *const s = self;
    if (e->kind == PARE_EVENT_RESUME)
        (void)snprintf(s->resumed, sizeof s->resumed, "%s", e->text);
    const bool scored = e->kind == PARE_EVENT_NOTICE && strstr(e->text, " experts go, ") != NULL;
    s->seen += s->scored ? scored : e->kind == PARE_EVENT_BLOCK;
    s->stop |= s->seen == (s->scored ? 1 : 2);
}

START_TEST(bytes_are_the_same_for_any_thread_count_and_after_a_break)
{
    static const char *const names[] = {"qwen3_moe", "gpt_oss"};
    static const char *const others[] = {"scored", "done", "three", "five"};
    char first[PARE_SHA256_HEX], other[PARE_SHA256_HEX], what[1024];
    setup_family(names[_i]);
    run(REAP("ratio: 0.4"), "one");
    for (size_t i = 0; i < 2; i++) {
        stopper s = {.scored = i == 0};
        const pare_events events = {stop_there, &s};
        const job_opts broken = {.output = others[i], .events = &events, .interrupt = &s.stop};
        ck_assert_int_eq(job_run(&place, broken, what), PARE_EINTERRUPTED);
        s = (stopper){.seen = 100};
        ck_assert_int_eq(job_run(&place, (job_opts){.output = others[i], .events = &events}, NULL),
                         PARE_OK);
        ck_assert_msg(i == 0 || strcmp(s.resumed, "continuing: experts are scored anew") == 0, "%s",
                      s.resumed);
    }
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "three", .threads = 3}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "five", .threads = 5}, NULL), PARE_OK);
    hash("one", first);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        hash(others[i], other);
        ck_assert_msg(strcmp(first, other) == 0, "%s", others[i]);
    }
    teardown();
}
END_TEST

typedef struct notices {
    size_t went, few, idle;
    char first[512], shortage[512];
} notices;

static void note(void *self, const pare_event *e)
{
    notices *const n = self;
    if (e->kind != PARE_EVENT_NOTICE)
        return;
    n->went += strstr(e->text, " experts go, with ") != NULL;
    n->idle += strstr(e->text, "\"experts\" of the calibration does nothing") != NULL;
    if (strstr(e->text, "calibration: reap needs"))
        (void)snprintf(n->shortage, sizeof n->shortage, "%s", e->text);
    if (strstr(e->text, "what they add is hardly known") && n->few++ == 0)
        (void)snprintf(n->first, sizeof n->first, "%s", e->text);
}

/* As many tokens as the place has, in the same 128 again and again. */
static void repeat_tokens(void)
{
    int32_t token[128];
    FILE *const out = fopen(job_path(&place, "tokens.i32"), "wb");
    ck_assert_ptr_nonnull(out);
    for (size_t i = 0; i < 128; i++)
        token[i] = family_token(i);
    for (size_t i = 0; i < 12; i++)
        ck_assert_uint_eq(fwrite(token, sizeof token, 1, out), 1);
    ck_assert_int_eq(fclose(out), 0);
}

/* One line says what goes of a block, and one that too few new tokens reach some. */
START_TEST(each_block_is_told_and_experts_that_few_tokens_reach)
{
    static const struct {
        const char *fields;
        size_t few;
        const char *first, *shortage;
    } row[] = {
        {"", 2, "give more text or samples", ""},
        {", experts: {min_tokens: 1}", 2, "fewer than 128 new tokens", ""},
        {", experts: {cold: rtn}", 2, "fewer than 128 new tokens", ""},
        {", experts: {min_tokens: 100000}", 3, "8 of 8 experts get fewer than 100000 new tokens",
         "reap needs 400000 tokens of calibration, 100000 for each of 8 experts, of which a token "
         "uses 2, and there are 768: what it takes out is left to chance; give "},
        {"", 3, "8 of 8 experts get fewer than 128 new tokens", "reap needs 512 tokens"},
    };
    setup_family("qwen3_moe");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (i == 4)
            repeat_tokens();
        char recipe[512];
        notices n = {0};
        const pare_events events = {note, &n};
        const job_opts opts = {.output = "out", .restart = i > 0, .events = &events};
        (void)snprintf(recipe, sizeof recipe, HEAD("%s") "  - reap\n" EVALUATE, row[i].fields);
        job_recipe(&place, recipe);
        ck_assert_int_eq(job_run(&place, opts, NULL), PARE_OK);
        ck_assert_uint_eq(n.went, 3);
        ck_assert_uint_eq(n.few, row[i].few);
        ck_assert_uint_eq(n.idle, i == 2);
        ck_assert_msg(strstr(n.first, row[i].first) != NULL, "%s", n.first);
        ck_assert_msg(!n.shortage[0] == !row[i].shortage[0] &&
                          strstr(n.shortage, row[i].shortage) != NULL,
                      "%s", n.shortage);
    }
    teardown();
}
END_TEST

/* What it wrote is a model: it is reaped once more, packed, and stands in front of other passes. */
START_TEST(the_smaller_model_goes_on)
{
    static const char *const names[] = {"mixtral", "qwen3_5_moe", "deepseek_v2_lite"};
    char what[1024];
    setup_family(names[_i]);
    run(REAP("ratio: 0.2"), "small");
    run("pare: 1\nmodel: small\ncalibration: {tokens: tokens.i32, samples: 12, window: 64}\n"
        "passes:\n  - reap: {ratio: 0.2}\n",
        "smaller");
    ck_assert_uint_eq(findings("smaller"), 0);
    run("pare: 1\nmodel: small\npasses:\n  - rtn: {bits: 8, group: row}\n", "packed");
    job_recipe(&place, HEAD("") "  - reap: {ratio: 0.2}\n  - gptq: {bits: 8, group: row}\n");
    ck_assert_msg(job_run(&place, (job_opts){.output = "both"}, what) == PARE_OK, "%s", what);
    ck_assert_uint_eq(findings("both"), 0);
    ck_assert_uint_eq(findings("both.smaller"), 0);
    teardown();
}
END_TEST

/* --- codes of another program -------------------------------------------------------------------
 */

enum { GROUP = 32, TENSORS = 128 };

static void add_codes(pare_arena *a, pare_tensor *to, const pare_tensor *dense, bool scales)
{
    const bool gate = family_ends(dense->name, "gate_up_proj");
    const uint64_t rows = dense->shape[2], columns = dense->shape[1];
    char name[256];
    (void)snprintf(name, sizeof name, "%s%s", dense->name, scales ? "_scales" : "_blocks");
    *to = (pare_tensor){.name = pare_arena_text(a, name, strlen(name)),
                        .dtype = PARE_U8,
                        .rank = scales ? 3 : 4,
                        .shape = {dense->shape[0], rows, columns / GROUP, scales ? 0 : GROUP / 2}};
    ck_assert_int_eq(pare_tensor_bytes(to->dtype, to->rank, to->shape, &to->bytes), PARE_OK);
    uint8_t *const data = PARE_NEW(a, uint8_t, (size_t)to->bytes);
    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < to->bytes; i++)
        data[i] =
            (uint8_t)(pare_random_u64(gate, scales, i) % (scales ? 4 : 256) + (scales ? 119 : 0));
    to->data = data;
}

/* The model of the place with what held all experts in MXFP4, or with one expert in BF16. */
static void write_again(bool codes)
{
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    static pare_tensor tensor[TENSORS];
    uint64_t offset[TENSORS], at = 0;
    size_t count = 0, len;
    char *head;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open_plain(&cx, &a, job_path(&place, "model"), &ck), PARE_OK);
    for (size_t i = 0; i < ck.tensors; i++) {
        tensor[count++] = ck.tensor[i];
        if (!codes && strstr(ck.tensor[i].name, "layers.1.mlp.experts.3.up_proj"))
            tensor[count - 1].dtype = PARE_BF16;
        if (!codes || ck.tensor[i].rank < 3)
            continue;
        add_codes(&a, &tensor[count - 1], &ck.tensor[i], false);
        add_codes(&a, &tensor[count++], &ck.tensor[i], true);
    }
    for (size_t i = 0; i < count; i++) {
        offset[i] = at;
        at += tensor[i].bytes;
    }
    ck_assert_int_eq(pare_safetensors_header(&cx, &a, tensor, offset, count, 8, &head, &len),
                     PARE_OK);
    FILE *const out = fopen(job_path(&place, "coded"), "wb");
    ck_assert(out && fwrite(head, 1, len, out) == len);
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(fwrite(tensor[i].data, 1, (size_t)tensor[i].bytes, out), tensor[i].bytes);
    ck_assert_int_eq(fclose(out), 0);
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
    char from[256];
    (void)snprintf(from, sizeof from, "%s", job_path(&place, "coded"));
    ck_assert_int_eq(rename(from, job_path(&place, "model/model.safetensors")), 0);
    if (codes)
        edit("model/config.json", "\"hidden_act\"",
             "\"quantization_config\":{\"quant_method\":\"mxfp4\"},\"hidden_act\"");
}

/* Bytes of the tensors of a file. */
static size_t payload_of(const char *file)
{
    uint64_t head = 0;
    FILE *const in = fopen(job_path(&place, file), "rb");
    ck_assert(in && fread(&head, sizeof head, 1, in) == 1);
    ck_assert_int_eq(fclose(in), 0);
    return bytes_of(file) - sizeof head - (size_t)head;
}

/* What run.json says of weights is what the files hold: codes count as codes. */
static void check_figures(pair *p)
{
    pare_json *const report = json_of(p, "out", "run.json");
    const pare_json *const memory = pare_json_get(report, "memory");
    const pare_json *const before = pare_json_get(pare_json_get(report, "baseline"), "memory");
    ck_assert_uint_eq((size_t)pare_json_integer(pare_json_get(before, "weight_bytes"), 0),
                      payload_of("model/model.safetensors"));
    ck_assert_uint_eq((size_t)pare_json_integer(pare_json_get(memory, "weight_bytes"), 0),
                      payload_of("out/model.safetensors"));
    ck_assert_double_lt(pare_json_number(pare_json_get(memory, "bits_per_weight"), NAN), 16);
    pare_json_free(report);
}

/* All experts of a block in codes: they stay codes, and config.json says so. */
START_TEST(codes_of_experts_stay_codes)
{
    pair p;
    pare_checkpoint plain;
    setup_family("gpt_oss");
    write_again(true);
    run(REAP("ratio: 0.5"), "out");
    ck_assert_uint_eq(findings("out"), 0);
    open_pair(&p, "out");
    pare_json *const manifest = json_of(&p, "out", "manifest.json");
    check_tensors(&p, manifest);
    ck_assert_int_eq(pare_json_type_of(pare_json_get(p.ck[1].config, "quantization_config")),
                     PARE_JSON_OBJECT);
    ck_assert_int_eq(pare_checkpoint_open_plain(&p.cx, &p.a, job_path(&place, "out"), &plain),
                     PARE_OK);
    const pare_tensor *const codes =
        pare_checkpoint_find(&plain, "model.layers.1.mlp.experts.down_proj_blocks");
    ck_assert(codes && codes->dtype == PARE_U8 && codes->shape[0] == 3 && codes->rank == 4);
    pare_checkpoint_close(&plain);
    check_figures(&p);
    pare_json_free(manifest);
    close_pair(&p);
    teardown();
}
END_TEST

START_TEST(what_cannot_go_is_refused_with_its_place)
{
    static const struct {
        const char *family, *recipe, *message, *from, *to;
    } cases[] = {
        {"llama", REAP(""),
         "recipe.yaml:7:5: reap: cannot take experts out of a model of type "
         "llama: it has no experts",
         NULL, NULL},
        {"qwen3_next", REAP(""), "its checkpoints hold several linears in one tensor", NULL, NULL},
        {"qwen3_moe", REAP("ratio: 0.1"),
         "recipe.yaml:7:5: reap: nothing would go: of the 8 experts of a block, all that stay are "
         "rounded up; raise the ratio to 0.125",
         NULL, NULL},
        {"qwen3_moe", REAP("ratio: 0.9"),
         "recipe.yaml:7:5: reap: a ratio of 0.9 leaves 1 of the 8 experts of a block, and a token "
         "uses 2 of 8, so that 2 must stay there; lower it to 0.75",
         NULL, NULL},
        {"deepseek_v3", REAP(""),
         "reap: no expert can go: a token uses 3 of 8, for which all 2 of each of the 4 groups of "
         "a block are needed",
         NULL, NULL},
        {"deepseek_v3", REAP(""),
         "reap: no expert can go: two experts speak for a group, for which all 2 of each of the 4 "
         "groups of a block are needed",
         "\"num_experts_per_tok\":3", "\"num_experts_per_tok\":2"},
        {"qwen3_moe", REAP("targets: \"*experts.1.*\""), "takes no targets and no skip", NULL,
         NULL},
        {"qwen3_moe", REAP("") "  - depth\n", "recipe.yaml:7:5: reap looks at the model as it was",
         NULL, NULL},
        {"qwen3_moe", REAP("") "  - rtn\n  - reap\n",
         "recipe.yaml:8:5: rtn: pass 1 (reap) makes a smaller plain checkpoint of the model as it "
         "was; put rtn behind it",
         NULL, NULL},
        {"qwen3_moe", "pare: 1\nmodel: model\n" EVALUATE "passes:\n  - reap\n",
         "recipe.yaml:6:5: reap needs calibration data", NULL, NULL},
        {"gpt_oss", "nan: zero\n" REAP(""),
         "reap: tensors that hold all experts of a block are copied as they are; leave out nan",
         NULL, NULL},
        {"qwen3_moe", REAP("score: tokens"), "it takes one of reap, frequency", NULL, NULL},
    };
    char what[1024];
    setup_family(cases[_i].family);
    if (cases[_i].from)
        edit("model/config.json", cases[_i].from, cases[_i].to);
    job_recipe(&place, cases[_i].recipe);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, cases[_i].message) != NULL, "%s", what);
    teardown();
}
END_TEST

/* Experts take each other's place, so those of a model must be alike. */
START_TEST(experts_of_another_type_are_refused)
{
    char what[1024];
    setup_family("qwen3_moe");
    write_again(false);
    job_recipe(&place, REAP(""));
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "reap: model.layers.1.mlp.experts.3.up_proj.weight is stored as "
                               "BF16 and that of expert 0 as F16") != NULL,
                  "%s", what);
    teardown();
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("reap job");
    TCase *const tc = tcase_create("jobs");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, what_stays_is_copied_and_computes_what_it_did, 0, MIXTURES);
    tcase_add_loop_test(tc, bytes_are_the_same_for_any_thread_count_and_after_a_break, 0, 2);
    tcase_add_test(tc, each_block_is_told_and_experts_that_few_tokens_reach);
    tcase_add_loop_test(tc, the_smaller_model_goes_on, 0, 3);
    tcase_add_test(tc, codes_of_experts_stay_codes);
    tcase_add_test(tc, experts_of_another_type_are_refused);
    tcase_add_loop_test(tc, what_cannot_go_is_refused_with_its_place, 0, 12);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
