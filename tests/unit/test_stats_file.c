/* Statistics in a file: they come back to the bit, and nothing malformed gets through. The program
 * of this test lies beside pare-hdf5. */
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "calib/stats_file.h"
#include "compress/artifact/diff_stats.h"
#include "compress/artifact/verify.h"
#include "runtime/random.h"
#include "tests/unit/load_case.h"

enum { K = 24, ROWS = 300, WINDOW = 60, SAMPLES = 5, VOCAB = 50 };

static pare_config config;
static pare_stats stats;
static pare_stats_about about;
static pare_tokens tokens;
static char sha256[PARE_SHA256_HEX];
static float inputs[ROWS * 4 * K], stream[WINDOW * K];
static const char *const files[2] = {"model.safetensors xxh3 00", "config.json xxh3 11"};
static const char *path;
static size_t mixtures; /* blocks with experts, in front of those without */

static pare_status see(pare_site site, size_t k)
{
    const pare_tap tap = pare_stats_tap(&stats);
    for (size_t i = 0; i < ROWS * k; i++)
        inputs[i] = (float)pare_random_normal(site + 1, 2, i);
    return tap.see(tap.self, 0, site, inputs, ROWS, k);
}

static void begin_stats(void)
{
    unsigned kinds[PARE_SITES];
    begin();
    mixtures = 0;
    config = (pare_config){.arch = pare_arch_find("llama"),
                           .hidden = K,
                           .blocks = 2,
                           .heads = 2,
                           .kv_heads = 2,
                           .head_dim = K / 2,
                           .intermediate = 2 * K,
                           .vocab = VOCAB};
    for (size_t s = 0; s < PARE_SITES; s++)
        kinds[s] = PARE_STATS_FILE_KINDS;
    ck_assert_int_eq(pare_stats_take(&cx, &arena, &config, 0, kinds, ROWS, &stats), PARE_OK);
    for (unsigned s = 0; s < PARE_SITES; s++)
        if (stats.site[s].k)
            ck_assert_int_eq(see((pare_site)s, stats.site[s].k), PARE_OK);
    tokens = (pare_tokens){.id = PARE_NEW(&arena, int32_t, ROWS), .count = ROWS};
    for (size_t i = 0; i < ROWS; i++)
        tokens.id[i] = (int32_t)(i % VOCAB);
    ck_assert_int_eq(pare_sha256_hex(&cx, tokens.id, ROWS * sizeof *tokens.id, sha256), PARE_OK);
    about = (pare_stats_about){.program = "pare 1",
                               .file = files,
                               .files = 2,
                               .nan = "error",
                               .family = "llama",
                               .blocks = 2,
                               .hidden = K,
                               .samples = SAMPLES,
                               .window = WINDOW,
                               .fresh = 290,
                               .tokens_sha256 = sha256,
                               .held_out_sha256 = "",
                               .seed = "18446744073709551615",
                               .precision = "f32",
                               .token_weights = "loss",
                               .cold = "rtn",
                               .min_tokens = 128};
    folder_put_text(&dir, "s.h5", "");
    const char *const name = folder_file(&dir, "s.h5");
    path = pare_arena_text(&arena, name, strlen(name));
    for (size_t i = 0; i < WINDOW * K; i++)
        stream[i] = (float)i;
}

/* A block of the file: what was seen, its outputs, and what two experts got and saw. */
static pare_status put_block(pare_hdf5_writer *w, size_t block)
{
    static const uint64_t routed[2] = {7, ROWS};
    pare_output_curvature outputs;
    PARE_TRY(pare_output_curvature_take(&arena, &config, &outputs));
    for (size_t i = 0; i < outputs.first[PARE_COMMON_ROLES]; i++)
        outputs.o[i] = (float)i + 1;
    const pare_stats_block b = {stream, &outputs, block < mixtures ? routed : NULL};
    config.experts = about.experts;
    const pare_status s = pare_stats_file_put_block(w, &config, WINDOW, block, &b);
    config.experts = 0;
    PARE_TRY(s);
    for (size_t part = 0; part <= (b.routed ? about.experts : 0); part++)
        PARE_TRY(pare_stats_file_put_part(w, &arena, block, part, &stats));
    return PARE_OK;
}

static pare_status create(uint64_t most, pare_hdf5_writer *w)
{
    const int file = open(path, O_RDWR | O_CLOEXEC);
    const pare_status s = pare_hdf5_create(&cx, path, file, most, w);
    ck_assert(file >= 0 && close(file) == 0);
    return s;
}

static void write_file(void)
{
    pare_hdf5_writer w;
    pare_ctx_clear(&cx);
    pare_status s = create(pare_stats_file_bytes(&config, &about), &w);
    if (s == PARE_OK)
        s = pare_stats_file_begin(&w, &about, &tokens, NULL);
    if (s == PARE_OK)
        s = put_block(&w, 0);
    if (s == PARE_OK)
        s = put_block(&w, 1);
    if (s == PARE_OK)
        s = pare_hdf5_finish(&w);
    ck_assert_msg(s == PARE_OK, "%s", cx.what);
}

/* The same with two experts in the first blocks. */
static void write_mixture(size_t blocks)
{
    about.experts = 2;
    mixtures = blocks;
    write_file();
}

/* Reads block 1 into fresh statistics. */
static pare_status read_block(pare_stats *out)
{
    unsigned kinds[PARE_SITES];
    pare_stats_group g;
    for (size_t s = 0; s < PARE_SITES; s++)
        kinds[s] = PARE_STATS_FILE_KINDS;
    ck_assert_int_eq(pare_stats_take(&cx, &arena, &config, 0, kinds, ROWS, out), PARE_OK);
    pare_status s = pare_stats_group_open(&cx, &arena, path, 1, 0, &g);
    if (s == PARE_OK)
        s = pare_stats_group_fill(&g, out);
    pare_stats_group_close(&g);
    return s;
}

static pare_verify_result verify(void)
{
    pare_verify_result r;
    ck_assert_msg(pare_verify(&cx, path, NULL, NULL, &r) == PARE_OK, "%s", cx.what);
    return r;
}

static void same_triangle(const float *a, const float *b, size_t k)
{
    for (size_t i = 0; i < k; i++)
        ck_assert_mem_eq(a + i * k, b + i * k, (i + 1) * sizeof *a);
}

START_TEST(statistics_come_back_to_the_bit)
{
    pare_stats now;
    write_file();
    ck_assert_msg(read_block(&now) == PARE_OK, "%s", cx.what);
    for (unsigned i = 0; i < PARE_SITES; i++) {
        if (!stats.site[i].k)
            continue;
        const pare_site_stats *const a = &stats.site[i], *const b = &now.site[i];
        const size_t k = a->k, f = k * sizeof(float), d = k * sizeof(double);
        same_triangle(a->h, b->h, k);
        ck_assert_mem_eq(a->fourth, b->fourth, d);
        ck_assert_mem_eq(a->absmax, b->absmax, f);
        ck_assert_mem_eq(a->absmean, b->absmean, f);
        ck_assert_mem_eq(a->mean, b->mean, f);
        ck_assert_mem_eq(a->min, b->min, f);
        ck_assert_mem_eq(a->max, b->max, f);
        ck_assert_mem_eq(a->sum, b->sum, d);
        ck_assert_mem_eq(a->abs_sum, b->abs_sum, d);
        ck_assert_uint_eq(a->samples, b->samples);
        ck_assert_uint_eq(a->samples, PARE_STATS_ROWS);
        ck_assert_mem_eq(a->sample, b->sample, a->samples * f);
        ck_assert(a->loudness.sum == b->loudness.sum && a->loudness.most == b->loudness.most);
        ck_assert_uint_eq(a->tokens, b->tokens);
    }
}
END_TEST

START_TEST(what_belongs_to_a_block_comes_back)
{
    pare_stats_group g;
    pare_output_curvature outputs;
    uint64_t routed[2];
    static float x[WINDOW * K];
    write_mixture(1);
    ck_assert_int_eq(pare_stats_group_open(&cx, &arena, path, 0, 0, &g), PARE_OK);
    ck_assert_int_eq(pare_stats_group_stream(&g, WINDOW, K, x), PARE_OK);
    ck_assert_mem_eq(x, stream, sizeof x);
    ck_assert_int_eq(pare_output_curvature_take(&arena, &config, &outputs), PARE_OK);
    ck_assert_int_eq(pare_stats_group_outputs(&g, &outputs), PARE_OK);
    ck_assert(outputs.o[outputs.first[PARE_COMMON_ROLES] - 1] ==
              (float)outputs.first[PARE_COMMON_ROLES]);
    ck_assert_int_eq(pare_stats_group_routed(&g, 2, ROWS, routed), PARE_OK);
    ck_assert(routed[0] == 7 && routed[1] == ROWS);
    ck_assert_int_eq(pare_stats_group_routed(&g, 2, ROWS - 1, routed), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "experts: element 1 is above the tokens"));
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_stats_group_stream(&g, WINDOW, K + 1, x), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "block00000.stream is F32 [60, 24], not F32 [60, 25]"));
    pare_stats_group_close(&g);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_stats_group_open(&cx, &arena, path, 2, 0, &g), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "nothing called block00002 is in it"));
    pare_stats_group_close(&g);
}
END_TEST

START_TEST(a_block_without_experts_has_no_groups_for_them)
{
    pare_stats_group g;
    pare_stats_diff d;
    size_t sites = 0;
    const char *const first = path;
    for (size_t i = 0; i < PARE_SITES; i++)
        sites += stats.site[i].k != 0;
    write_mixture(1);
    for (size_t block = 0; block < 2; block++) {
        ck_assert_int_eq(pare_stats_group_open(&cx, &arena, path, block, 0, &g), PARE_OK);
        ck_assert(pare_stats_group_experts(&g) == (block == 0));
        pare_stats_group_close(&g);
    }
    const pare_verify_result r = verify();
    ck_assert(r.statistics && r.findings == 0);
    ck_assert_msg(pare_diff_stats(&cx, &arena, path, path, &d) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(d.rows, (1 + 2 + 1) * sites);
    folder_put_text(&dir, "t.h5", "");
    path = folder_file(&dir, "t.h5");
    write_mixture(2);
    ck_assert_int_eq(pare_diff_stats(&cx, &arena, first, path, &d), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "t.h5: block00001 has experts, unlike that in "));
}
END_TEST

START_TEST(blocks_without_experts_take_no_room_for_them)
{
    uint64_t bytes[3];
    config.arch = pare_arch_find("llama4_text");
    config.expert_width = K;
    config.experts = 2;
    for (config.dense_blocks = 0; config.dense_blocks < 3; config.dense_blocks++)
        bytes[config.dense_blocks] = pare_stats_file_bytes(&config, &about);
    ck_assert_uint_gt(bytes[0], bytes[1]);
    ck_assert_uint_le(bytes[0] - bytes[1], bytes[1] - bytes[2] + 1); /* rounded */
    ck_assert_uint_le(bytes[1] - bytes[2], bytes[0] - bytes[1] + 1);
    config.experts = 0;
    ck_assert_uint_eq(bytes[2], pare_stats_file_bytes(&config, &about));
}
END_TEST

START_TEST(the_head_comes_back)
{
    pare_stats_about now;
    pare_tokens ids, held;
    char values[2][128];
    write_file();
    ck_assert_msg(pare_stats_file_about(&cx, &arena, path, &now) == PARE_OK, "%s", cx.what);
    ck_assert_ptr_null(pare_stats_about_differ(&about, &now, values));
    ck_assert(now.fresh == 290 && now.held_out == 0 && now.blocks == 2 && now.hidden == K);
    ck_assert_str_eq(now.program, "pare 1");
    ck_assert_int_eq(pare_stats_file_tokens(&cx, &arena, path, &now, VOCAB, &ids, &held), PARE_OK);
    ck_assert_uint_eq(ids.count, ROWS);
    ck_assert_mem_eq(ids.id, tokens.id, ROWS * sizeof *ids.id);
    ck_assert_int_eq(pare_stats_file_tokens(&cx, &arena, path, &now, VOCAB - 1, &ids, &held),
                     PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "tokens: element 49 is no token of the model"));
    pare_ctx_clear(&cx);
    now.tokens_sha256 = "00";
    ck_assert_int_eq(pare_stats_file_tokens(&cx, &arena, path, &now, VOCAB, &ids, &held),
                     PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "tokens are not those that its settings name"));
}
END_TEST

START_TEST(each_difference_is_named)
{
    char values[2][128];
    static const char *const other[2] = {"model.safetensors xxh3 01", "config.json xxh3 11"};
    static const char *const what[] = {
        "number of model files", "model", "nan",       "window",       "samples",
        "SHA-256 of the tokens", "seed",  "precision", "token_weights"};
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        pare_stats_about b = about;
        b.program = "pare 2";
        b.files -= i == 0;
        b.file = i == 1 ? other : b.file;
        b.nan = i == 2 ? "zero" : b.nan;
        b.window += i == 3;
        b.samples += i == 4;
        b.tokens_sha256 = i == 5 ? "" : b.tokens_sha256;
        b.seed = i == 6 ? "0" : b.seed;
        b.precision = i == 7 ? "bf16" : b.precision;
        b.token_weights = i == 8 ? "even" : b.token_weights;
        ck_assert_str_eq(pare_stats_about_differ(&about, &b, values), what[i]);
        ck_assert_str_ne(values[0], values[1]);
    }
}
END_TEST

/* Squares of inputs about 1e-24 are 0 in F32, and their products with others are not. */
START_TEST(a_column_of_tiny_inputs_comes_back)
{
    pare_site_stats *const s = &stats.site[PARE_SITE_ATTENDED];
    pare_stats now;
    for (size_t j = 0; j < s->k; j++)
        s->h[j < 3 ? 3 * s->k + j : j * s->k + 3] = j == 3 ? 0 : -2e-22F;
    write_file();
    ck_assert_msg(read_block(&now) == PARE_OK, "%s", cx.what);
    same_triangle(s->h, now.site[PARE_SITE_ATTENDED].h, s->k);
}
END_TEST

/* One number of the statistics that cannot be. */
typedef struct fault {
    void (*plant)(pare_site_stats *s);
    const char *message;
} fault;

static void h_nan(pare_site_stats *s)
{
    s->h[3 * s->k + 1] = NAN;
}
static void h_nan_diagonal(pare_site_stats *s)
{
    s->h[3 * s->k + 3] = NAN;
}
static void h_infinite(pare_site_stats *s)
{
    s->h[0] = INFINITY;
}
static void h_negative(pare_site_stats *s)
{
    s->h[s->k + 1] = -1;
}
static void h_large(pare_site_stats *s)
{
    s->h[2 * s->k] = 1000;
}
static void h_without_diagonal(pare_site_stats *s)
{
    s->h[2 * s->k + 2] = 0;
}
static void fourth_nan(pare_site_stats *s)
{
    s->fourth[5] = (double)NAN;
}
static void fourth_negative(pare_site_stats *s)
{
    s->fourth[5] = -1;
}
static void min_nan(pare_site_stats *s)
{
    s->min[1] = NAN;
}
static void max_nan(pare_site_stats *s)
{
    s->max[1] = NAN;
}
static void max_low(pare_site_stats *s)
{
    s->max[2] = s->min[2] - 1;
}
static void sum_nan(pare_site_stats *s)
{
    s->sum[4] = (double)NAN;
}
static void sum_large(pare_site_stats *s)
{
    s->sum[4] = 2 * s->abs_sum[4];
}
static void abs_sum_large(pare_site_stats *s)
{
    s->abs_sum[6] = 1e9;
}
static void sample_nan(pare_site_stats *s)
{
    s->sample[s->k] = NAN;
}
static void sample_short(pare_site_stats *s)
{
    s->samples--;
}
static void loud_nan(pare_site_stats *s)
{
    s->loudness.sum = (double)NAN;
}
static void loud_most(pare_site_stats *s)
{
    s->loudness.most = 2 * s->loudness.sum;
}
static void tokens_less(pare_site_stats *s)
{
    s->tokens--;
}

static const fault faults[] = {
    {h_nan, "attended.h: element 7 is not finite, or larger than its row"},
    {h_nan_diagonal, "attended.h: element 9 is on the diagonal and no finite number"},
    {h_infinite, "attended.h: element 0 is on the diagonal and no finite number"},
    {h_negative, "attended.h: element 2 is on the diagonal and no finite number"},
    {h_large, "attended.h: element 3 is not finite, or larger than its row"},
    {h_without_diagonal, "attended.h: element 3 is not finite, or larger than its row"},
    {fourth_nan, "attended.fourth: element 5 is not finite"},
    {fourth_negative, "attended.fourth: element 5 is below 0"},
    {min_nan, "attended.min: element 1 is not finite"},
    {max_nan, "attended.max: element 1 is not finite"},
    {max_low, "attended.max: element 2 does not fit the least value"},
    {sum_nan, "attended.sum: element 4 is not finite"},
    {sum_large, "attended.abs_sum: element 4 is below the sum"},
    {abs_sum_large, "attended.max: element 6 does not fit the least value and the sum"},
    {sample_nan, "attended.sample: element 24 is not finite"},
    {sample_short, "attended.sample is F32 [255, 24], not F32 [256, 24]"},
    {loud_nan, "attended.loudness: element 0 is not finite"},
    {loud_most, "attended.loudness: element 1 is no part of the energy"},
    {tokens_less, "attended.tokens is 299, not 300"}};
enum { FAULTS = sizeof faults / sizeof *faults };

START_TEST(no_malformed_number_gets_through)
{
    pare_stats now;
    faults[_i].plant(&stats.site[PARE_SITE_ATTENDED]);
    write_file();
    ck_assert_int_eq(read_block(&now), PARE_EFORMAT);
    ck_assert_msg(strstr(cx.what, faults[_i].message) && strstr(cx.what, "s.h5: block00001."),
                  "%s\nexpected: %s", cx.what, faults[_i].message);
    pare_ctx_clear(&cx);
    const pare_verify_result r = verify();
    ck_assert(r.statistics && r.findings > 0);
}
END_TEST

START_TEST(verify_looks_at_what_a_job_looks_at)
{
    write_file();
    const pare_verify_result good_one = verify();
    ck_assert(good_one.statistics && good_one.findings == 0);
    sha256[0] ^= 1; /* the hash of the tokens */
    write_file();
    ck_assert_uint_eq(verify().findings, 1);
}
END_TEST

/* Settings as a text, and what is wrong with them. */
static const char good[] =
    "{\"format\": \"pare statistics\", \"version\": 1, \"program\": \"p\", \"model\": [\"m\"], "
    "\"nan\": \"error\", \"family\": \"llama\", \"blocks\": 2, \"hidden\": 24, \"experts\": 0, "
    "\"samples\": 5, \"window\": 60, \"tokens_sha256\": \"\", \"held_out\": 0, "
    "\"held_out_sha256\": \"\", \"fresh\": \"3\", \"seed\": \"0\", \"precision\": \"f32\", "
    "\"token_weights\": \"loss\", \"min_tokens\": 128, \"cold\": \"rtn\"}";
static const struct {
    const char *from, *to, *message;
} changes[] = {{"", "", NULL},
               {"pare statistics", "others", "not those of statistics that pare keeps"},
               {"\"version\": 1", "\"version\": 2", "of version 2; this pare reads up to 1"},
               {"\"blocks\": 2", "\"blocks\": 0", "\"blocks\" is no whole number in its range"},
               {"\"window\": 60", "\"window\": 1e3", "\"window\" is no whole number"},
               {"\"samples\": 5, ", "", "\"samples\" is no whole number in its range"},
               {"\"samples\": 5", "\"samples\": 5000000000", "\"samples\" is no whole number"},
               {"[\"m\"]", "[]", "\"model\" is no list of files"},
               {"[\"m\"]", "[7]", "\"model\" is no text"},
               {"\"seed\": \"0\"", "\"seed\": 0", "\"seed\" is no text"},
               {"\"fresh\": \"3\"", "\"fresh\": \"3x\"", "\"fresh\" is no whole number in digits"},
               {"\"fresh\": \"3\"", "\"fresh\": \"301\"", "\"fresh\" is no number of tokens"},
               {"\"cold\": \"rtn\"}", "\"cold\": \"rtn\"", "s.h5:"}};
enum { CHANGES = sizeof changes / sizeof *changes };

START_TEST(malformed_settings_are_refused)
{
    char text[2048];
    pare_hdf5_writer w;
    pare_stats_about now;
    const char *const at = strstr(good, changes[_i].from);
    const size_t from = strlen(changes[_i].from);
    (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, changes[_i].to,
                   at + from);
    pare_tensor t = {
        .name = "settings", .dtype = PARE_U8, .rank = 1, .shape = {strlen(text)}, .data = text};
    t.bytes = t.shape[0];
    ck_assert_int_eq(create(1 << 20, &w), PARE_OK);
    ck_assert_int_eq(pare_hdf5_put(&w, &t, false), PARE_OK);
    ck_assert_int_eq(pare_hdf5_finish(&w), PARE_OK);
    const pare_status s = pare_stats_file_about(&cx, &arena, path, &now);
    ck_assert_msg(s == (changes[_i].message ? PARE_EFORMAT : PARE_OK), "%s", cx.what);
    if (changes[_i].message)
        ck_assert_msg(strstr(cx.what, changes[_i].message), "%s\nexpected: %s", cx.what,
                      changes[_i].message);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("stats_file");
    TCase *const t = tcase_create("stats_file");
    tcase_add_checked_fixture(t, begin_stats, end);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, statistics_come_back_to_the_bit);
    tcase_add_test(t, what_belongs_to_a_block_comes_back);
    tcase_add_test(t, a_block_without_experts_has_no_groups_for_them);
    tcase_add_test(t, blocks_without_experts_take_no_room_for_them);
    tcase_add_test(t, the_head_comes_back);
    tcase_add_test(t, each_difference_is_named);
    tcase_add_test(t, a_column_of_tiny_inputs_comes_back);
    tcase_add_loop_test(t, no_malformed_number_gets_through, 0, FAULTS);
    tcase_add_test(t, verify_looks_at_what_a_job_looks_at);
    tcase_add_loop_test(t, malformed_settings_are_refused, 0, CHANGES);
    suite_add_tcase(s, t);
    return unit_main(s);
}
