#include "compress/artifact/diff.h"

#include "tests/unit/artifact.h"
#include "tests/unit/tensor_at.h"

/* Two models of the same tensors; what their manifests and runs say is the test's. */
typedef struct pair {
    folder f[2];
    pare_ctx cx;
    pare_arena a;
    pare_diff d;
} pair;

static void begin(pair *p)
{
    const tiny_model m = tiny_model_default();
    *p = (pair){.f = {{.path = ""}}};
    folder_begin(&p->f[0], &p->cx, &p->a);
    folder_make(&p->f[1]);
    for (size_t i = 0; i < 2; i++)
        ck_assert(tiny_model_write(&m, p->f[i].path));
}

static void end(pair *p)
{
    folder_remove(&p->f[1]);
    folder_end(&p->f[0], &p->a);
}

static void compare(pair *p, const char *a, const char *b)
{
    folder_put_text(&p->f[0], "manifest.json", a);
    folder_put_text(&p->f[1], "manifest.json", b);
    ck_assert_msg(pare_diff_models(&p->cx, &p->a, p->f[0].path, p->f[1].path, &p->d) == PARE_OK,
                  "%s", p->cx.what);
    ck_assert_uint_eq(p->d.count[PARE_DIFF_SAME], p->d.rows);
}

#define TEACHER(hash) "{\"file\": \"teacher/a\", \"sha256\": \"" hash "\"}"
#define RECIPE        "\"recipe\": \"pare: 1\\ncalibration:\\n  text: \\\"data\\\"\\n\""

START_TEST(what_models_were_made_from_is_compared)
{
    static const struct {
        const char *a, *b;
        int differs; /* a source; -1: none */
    } row[] = {
        {"", "", -1},
        {", \"calibration\": null", ", \"calibration\": {\"tokens_sha256\": \"a\"}", -1},
        {", \"calibration\": {\"tokens_sha256\": \"a\"}",
         ", \"calibration\": {\"tokens_sha256\": \"a\"}", -1},
        {", \"calibration\": {\"tokens_sha256\": \"a\"}",
         ", \"calibration\": {\"tokens_sha256\": \"b\"}", PARE_DIFF_CALIBRATION},
        {", \"calibration\": {\"statistics_xxh3\": \"a\"}",
         ", \"calibration\": {\"statistics_xxh3\": \"b\"}", PARE_DIFF_CALIBRATION},
        {", \"inputs\": [{\"file\": \"a\", \"sha256\": \"1\"}]",
         ", \"inputs\": [{\"file\": \"b\", \"sha256\": \"1\"}]", -1},
        {", \"inputs\": [{\"file\": \"a\", \"sha256\": \"1\"}]",
         ", \"inputs\": [{\"file\": \"a\", \"sha256\": \"2\"}]", PARE_DIFF_ORIGINAL},
        {", \"inputs\": [{\"sha256\": \"1\"}]",
         ", \"inputs\": [{\"sha256\": \"1\"}, {\"sha256\": \"2\"}]", PARE_DIFF_ORIGINAL},
        {", \"inputs\": [{\"file\": \"a\", \"sha256\": \"1\"}, " TEACHER("2") "]",
         ", \"inputs\": [{\"file\": \"a\", \"sha256\": \"1\"}, " TEACHER("3") "]",
         PARE_DIFF_TEACHER},
        {", \"inputs\": [{\"file\": \"a\", \"sha256\": \"1\"}, " TEACHER("2") "]",
         ", \"inputs\": [{\"file\": \"a\", \"sha256\": \"4\"}, " TEACHER("2") "]",
         PARE_DIFF_ORIGINAL},
        {", \"inputs\": [{\"file\": \"a\", \"sha256\": \"1\"}, " TEACHER("2") "]",
         ", \"inputs\": [{\"file\": \"a\", \"sha256\": \"1\"}]", PARE_DIFF_TEACHER},
        {", \"inputs\": [{\"file\": \"a\", \"sha256\": \"1\"}]",
         ", \"inputs\": [{\"file\": \"a\", \"sha256\": \"2\"}, " TEACHER("1") "]",
         PARE_DIFF_ORIGINAL},
        {", \"held_out_sha256\": \"a\"", ", \"held_out_sha256\": \"b\"", PARE_DIFF_HELD_OUT},
        {", \"training_sha256\": \"a\"", ", \"training_sha256\": \"b\"", PARE_DIFF_TRAINING},
        {", \"evaluated_sha256\": [\"a\"]", ", \"evaluated_sha256\": [\"b\"]",
         PARE_DIFF_EVALUATION},
        {", \"evaluated_sha256\": [\"a\"]", "", -1},
        {", \"inputs\": [{\"sha256\": \"1\"}]", ", \"inputs\": {\"a\": 1}", -1},
        {", \"inputs\": 7, \"calibration\": \"x\"", ", \"inputs\": {}, \"calibration\": [1]", -1},
    };
    pair p;
    begin(&p);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char a[512], b[512];
        (void)snprintf(a, sizeof a, "{" RECIPE "%s}", row[i].a);
        (void)snprintf(b, sizeof b, "{" RECIPE "%s}", row[i].b);
        compare(&p, a, b);
        ck_assert(p.d.recipes);
        ck_assert_uint_eq(p.d.lines, 0);
        for (int k = 0; k < PARE_DIFF_SOURCES; k++)
            ck_assert_msg(p.d.source[k] == (k == row[i].differs), "row %zu: %s", i,
                          pare_diff_source_word((pare_diff_source)k));
        ck_assert(p.d.same); /* tensors and recipes are */
    }
    end(&p);
}
END_TEST

#define TRAINED        "{\"recipe\": \"pare: 1\\ndata:\\n  text: \\\"data\\\"\\n\", "
#define TRAINED_ON     TRAINED "\"calibration\": null, \"training_sha256\": "
#define TRAINED_BEFORE TRAINED "\"calibration\": {\"tokens_sha256\": "

/* Older versions of `pare train` wrote what they trained on as calibration. */
START_TEST(what_was_trained_on_is_no_calibration)
{
    static const struct {
        const char *a, *b;
        bool differs;
    } row[] = {
        {TRAINED_ON "\"a\"}", TRAINED_ON "\"a\"}", false},
        {TRAINED_ON "\"a\"}", TRAINED_ON "\"b\"}", true},
        {TRAINED_BEFORE "\"a\"}}", TRAINED_BEFORE "\"b\"}}", true},
        {TRAINED_BEFORE "\"a\"}}", TRAINED_ON "\"b\"}", true},
        {TRAINED_ON "\"a\"}", TRAINED_BEFORE "\"a\"}}", false},
        {TRAINED_BEFORE "\"a\"}}", "{" RECIPE ", \"calibration\": {\"tokens_sha256\": \"b\"}}",
         false},
    };
    pair p;
    begin(&p);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        compare(&p, row[i].a, row[i].b);
        for (int k = 0; k < PARE_DIFF_SOURCES; k++)
            ck_assert_msg(p.d.source[k] == (row[i].differs && k == PARE_DIFF_TRAINING),
                          "row %zu: %s", i, pare_diff_source_word((pare_diff_source)k));
    }
    end(&p);
}
END_TEST

/* A manifest has "data" where a recipe has a path. */
START_TEST(a_path_of_data_is_a_file)
{
    pair p;
    begin(&p);
    compare(&p, "{\"recipe\": \"pare: 1\\n\"}",
            "{\"recipe\": \"pare: 1\\n  text: [{path: \\\"data\\\", weight: 2}, "
            "{path: \\\"data\\\", weight: 1}]\\n  tokens: \\\"data\\\"\\n\"}");
    ck_assert_uint_eq(p.d.lines, 2);
    ck_assert_str_eq(p.d.line[0].text, "text: [{path: FILE, weight: 2}, {path: FILE, weight: 1}]");
    ck_assert_str_eq(p.d.line[1].text, "tokens: FILE");
    ck_assert(p.d.line[0].of_b && !p.d.same);
    end(&p);
}
END_TEST

/* Of `pare train`, on windows held out. */
START_TEST(what_training_came_to_is_compared)
{
    static const char run[] = "{\"training\": {\"kl_before\": 3, \"perplexity_after\": 20.5%s}}";
    char text[128];
    pair p;
    begin(&p);
    (void)snprintf(text, sizeof text, run, "");
    folder_put_text(&p.f[0], "run.json", text);
    (void)snprintf(text, sizeof text, run, ", \"kl_after\": 0.25");
    folder_put_text(&p.f[1], "run.json", text);
    compare(&p, TRAINED_ON "\"a\"}", TRAINED_ON "\"a\"}");
    ck_assert_uint_eq(p.d.figures, 2);
    ck_assert_str_eq(p.d.figure[0].name, "windows held out: perplexity");
    ck_assert(p.d.figure[0].value[0] == 20.5 && p.d.figure[0].value[1] == 20.5);
    ck_assert_str_eq(p.d.figure[1].name, "windows held out: KL from the teacher");
    ck_assert(isnan(p.d.figure[1].value[0]) && p.d.figure[1].value[1] == 0.25);
    compare(&p, "{" RECIPE "}", "{" RECIPE "}"); /* what a quantizer behind it left is another */
    ck_assert_uint_eq(p.d.figures, 0);
    end(&p);
}
END_TEST

START_TEST(settings_are_no_figures)
{
    pair p;
    begin(&p);
    folder_put_text(&p.f[0], "run.json",
                    "{\"evaluations\": [{\"kind\": \"perplexity\", \"data\": \"x\", \"limit\": 2, "
                    "\"available\": 9, \"window\": 8, \"tokens\": 16, "
                    "\"perplexity\": {\"nll\": 1.5}}]}");
    compare(&p, "{}", "{}");
    ck_assert_uint_eq(p.d.figures, 5);
    for (size_t i = 0; i < p.d.figures; i++) {
        const bool nll = strcmp(p.d.figure[i].name, "perplexity x: perplexity.nll") == 0;
        ck_assert_msg(p.d.figure[i].setting == !nll, "%s", p.d.figure[i].name);
    }
    ck_assert(!p.d.recipes && p.d.same);
    end(&p);
}
END_TEST

/* As where a scale has the other sign, and each code with it. */
START_TEST(other_bytes_of_the_same_values_are_no_other_values)
{
    static const char table[] = "model.embed_tokens.weight";
    static const unsigned char first[3][2] = {{0, 0}, {0, 0x80}, {1, 0x80}}; /* F16: 0, -0, below */
    pair p;
    begin(&p);
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < 2; k++) {
            char file[512];
            const off_t at = tensor_at(p.f[k].path, table, file);
            FILE *const f = fopen(file, "r+b");
            ck_assert(f && fseek(f, at, SEEK_SET) == 0 && fwrite(first[k ? i + 1 : 0], 2, 1, f));
            ck_assert_int_eq(fclose(f), 0);
        }
        ck_assert_int_eq(pare_diff_models(&p.cx, &p.a, p.f[0].path, p.f[1].path, &p.d), PARE_OK);
        ck_assert(!p.d.same);
        ck_assert_uint_eq(p.d.count[PARE_DIFF_SAME], p.d.rows - 1);
        ck_assert_uint_eq(p.d.count[i ? PARE_DIFF_VALUES : PARE_DIFF_ENCODING], 1);
    }
    end(&p);
}
END_TEST

static size_t halvings;

/* Scales of NVFP4 under a factor of 2^-9, or twice as large with codes of half the value. */
static void fill_scales(artifact *m, pare_packed_writer *w, size_t i)
{
    pare_codes c;
    pare_packed_planes planes;
    ck_assert(encoded_codes(&m->a, &m->linear[i], i, &c));
    c.scale_factor = ldexpf(1, (int)halvings - 9);
    for (size_t j = 0; j < c.n * c.groups; j++)
        c.scale_codes[j] = (uint8_t)(16 + j % 80 - 8 * halvings);
    artifact_ok(m, pare_packed_pack(m->cx, &m->a, &m->linear[i], &c, &planes));
    artifact_put_planes(m, w, m->linear[i].name, &planes);
}

START_TEST(a_factor_of_scales_is_part_of_the_encoding)
{
    static const pare_packed_linear kind = {.bits = 4,
                                            .group = 16,
                                            .symmetric = true,
                                            .encoding = PARE_ENCODING_NVFP4,
                                            .activation = {.mode = PARE_ACTIVATION_FLOAT}};
    static artifact m;
    pair p;
    begin(&p);
    for (halvings = 0; halvings < 2; halvings++) {
        artifact_open(&m, &p.cx, &p.f[halvings]);
        for (size_t i = 0; i < 2 * PARE_COMMON_ROLES; i++)
            if (i % PARE_COMMON_ROLES != PARE_ROLE_O) /* its columns are no whole groups */
                artifact_add(&m, i, &kind);
        artifact_plan(&m, 1 << 16);
        artifact_finish(&m, &p.f[halvings], fill_scales);
    }
    ck_assert_msg(pare_diff_models(&p.cx, &p.a, p.f[0].path, p.f[1].path, &p.d) == PARE_OK, "%s",
                  p.cx.what);
    ck_assert_uint_eq(p.d.count[PARE_DIFF_ENCODING], m.linears);
    ck_assert_uint_eq(p.d.count[PARE_DIFF_VALUES], 0);
    end(&p);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("diff");
    TCase *const t = tcase_create("diff");
    tcase_add_test(t, what_models_were_made_from_is_compared);
    tcase_add_test(t, what_was_trained_on_is_no_calibration);
    tcase_add_test(t, a_path_of_data_is_a_file);
    tcase_add_test(t, what_training_came_to_is_compared);
    tcase_add_test(t, settings_are_no_figures);
    tcase_add_test(t, other_bytes_of_the_same_values_are_no_other_values);
    tcase_add_test(t, a_factor_of_scales_is_part_of_the_encoding);
    suite_add_tcase(s, t);
    return unit_main(s);
}
