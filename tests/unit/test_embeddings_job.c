/* Jobs that train the embeddings and the head, too: what was trained is what is stored, and what
 * steps behind the training see. */
#include <math.h>

#include "formats/hash.h"
#include "tests/unit/job_train.h"

#define EMBED "model.embed_tokens.weight"
#define ON    ", embeddings: true}\n"

/* In place of the default model. */
static void make(bool tied, pare_dtype dtype)
{
    teardown();
    tiny_model m = tiny_model_default();
    m.tied = tied;
    m.dtype = dtype;
    place = job_make(&m);
}

/* Tensor `to` of the model becomes `is` of another one, in the same type. */
static void move_table(const char *to, const char *from, const char *is)
{
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck[2];
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &a, job_path(&place, "model"), &ck[0]), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &a, job_path(&place, from), &ck[1]), PARE_OK);
    const pare_tensor *const t = pare_checkpoint_find(&ck[0], to), *const u = pare_checkpoint_find(
                                                                       &ck[1], is);
    ck_assert(t && u && t->bytes == u->bytes && t->dtype == u->dtype);
    const int fd = open(job_path(&place, "model/model.safetensors"), O_RDWR);
    const off_t at = (off_t)((const unsigned char *)t->data - ck[0].file[0].data);
    ck_assert_int_eq(pwrite(fd, u->data, (size_t)u->bytes, at), (ssize_t)u->bytes);
    ck_assert_int_eq(close(fd), 0);
    pare_checkpoint_close(&ck[0]);
    pare_checkpoint_close(&ck[1]);
    pare_arena_release(&a);
}

/* The untied model ties its head, which stays in the file. */
static void tie_in_file(void)
{
    static const char untied[] = "\"tie_word_embeddings\": false", tied[] = "true ";
    char text[1 << 14];
    move_table("lm_head.weight", "model", EMBED);
    FILE *const f = fopen(job_path(&place, "model/config.json"), "r+");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    char *const at = strstr(text, untied);
    ck_assert_ptr_nonnull(at);
    memcpy(at + sizeof untied - sizeof tied, tied, sizeof tied - 1);
    rewind(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

/* With data enough to gain on windows that nobody trained on. */
static void long_recipe(const char *more)
{
    char text[1024];
    ck_assert(
        tiny_tokens_write(job_path(&place, "many.i32"), tiny_model_default().vocab, 64 * 112, 4));
    (void)snprintf(text, sizeof text,
                   HEAD "calibration: {tokens: many.i32, samples: 96, window: 64}\npasses:\n"
                        "  - gptq: {bits: 2, group: 32}\n"
                        "  - distill: {aware: true, tokens: 6144, batch: 4, rate: 1e-3, save: 0%s",
                   more);
    job_recipe(&place, text);
}

/* Values of a table of an artifact or model, as many as its matrix has. */
static float *table_of(pare_ctx *cx, pare_arena *a, const char *output, bool head, size_t *count)
{
    pare_checkpoint ck;
    pare_model m;
    ck_assert_int_eq(pare_checkpoint_open(cx, a, job_path(&place, output), &ck), PARE_OK);
    ck_assert_int_eq(pare_model_load(cx, a, &ck, &m), PARE_OK);
    const pare_linear *const w = head ? &m.head : &m.embed;
    *count = w->n * w->k;
    float *const x = PARE_NEW(a, float, *count);
    ck_assert_ptr_nonnull(x);
    pare_linear_to_f32(cx, w, x);
    pare_checkpoint_close(&ck);
    return x;
}

/* Root mean square difference of a table of two models. */
static double apart(const char *first, const char *second, bool head)
{
    pare_ctx cx;
    pare_arena a;
    size_t n, m;
    double sum = 0;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const float *const x = table_of(&cx, &a, first, head, &n), *const y = table_of(&cx, &a, second,
                                                                                   head, &m);
    ck_assert_uint_eq(n, m);
    for (size_t i = 0; i < n; i++)
        sum += pow((double)x[i] - (double)y[i], 2);
    pare_arena_release(&a);
    return sqrt(sum / (double)n);
}

static const struct {
    bool tied, both; /* a tied head that stands in the file, too */
    pare_dtype dtype;
} shapes[] = {{false, false, PARE_F16},
              {true, false, PARE_F16},
              {true, false, PARE_BF16},
              {false, false, PARE_F32},
              {false, true, PARE_F16}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static bool tells(const char *file, const char *text)
{
    pare_ctx cx;
    pare_arena a;
    char *all;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_file_read(&cx, &a, job_path(&place, file), 1 << 24, &all, &len), PARE_OK);
    const bool found = strstr(all, text) != NULL;
    pare_arena_release(&a);
    return found;
}

/* They gain, and the artifact predicts what the training measured at its end. */
START_TEST(embeddings_that_were_trained_are_stored)
{
    make(shapes[_i].tied, shapes[_i].dtype);
    if (shapes[_i].both)
        tie_in_file();
    long_recipe("}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "without"}, NULL), PARE_OK);
    ck_assert_double_eq(apart("model", "without", false), 0);
    long_recipe(ON);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    const double after = figure("one", "training", "kl_after");
    ck_assert_double_eq(figure("one", "training", "kl_before"),
                        figure("without", "training", "kl_before"));
    ck_assert_double_lt(after, .98 * figure("without", "training", "kl_after"));
    ck_assert_double_eq_tol(figure("one", "kl", "mean"), after, .02 * after);
    ck_assert(tells("one/README.md", "Embeddings and head were trained, too."));
    ck_assert(tells("one/run.json", "\"embeddings\": true,"));
    ck_assert(!tells("without/run.json", "\"embeddings\": true,"));
    for (int head = 0; head < 2; head++) {
        ck_assert_double_gt(apart("model", "one", head), 1e-3);
        ck_assert_double_lt(apart("model", "one", head), .1);
    }
}
END_TEST

/* Files that hold the matrices last, and how far into them one of these lies. */
static const struct {
    const char *at, *broken, *told;
    double share;
} stops[] = {
    {"step 3 of", NULL, "continues after step 3 of 4", 0},
    {"after training", NULL, "training is done; 0 of 2 blocks are written", 0},
    {"after training", "two.partial/trained.f32", "they are trained again", 1},
    {"evaluat", NULL, "training is done; 2 of 2 blocks are written", 0},
    {"evaluat", "two.partial/packed-00001-of-00001.safetensors", "training is done; 2 of 2", .97},
    {"evaluat", "two.partial/packed-00001-of-00001.safetensors", "training is done; 2 of 2", .97},
};
enum { STOPS = sizeof stops / sizeof *stops };

#define BETWEEN                                                                                    \
    "  - wanda: {pattern: 2:4}\n"                                                                  \
    "  - distill: {tokens: 1024, batch: 4, rate: 3e-3, save: 0" ON "  - gptq: {bits: 4, group: "   \
    "32}\n"

static void hear_step(void *self, size_t phase, const char *what)
{
    listener *const l = self;
    (void)phase;
    l->stop |= strstr(what, l->at) != NULL;
}

static pare_status run_stopping(listener *l)
{
    const pare_events events = {hear, l};
    const job_opts opts = {
        .output = "two", .events = &events, .step = hear_step, .self = l, .interrupt = &l->stop};
    return job_run(&place, opts, NULL);
}

START_TEST(a_job_that_was_stopped_goes_on_to_the_same_bytes)
{
    listener stop = {.at = stops[_i].at}, again = {.wanted = stops[_i].told};
    make(_i % 2, PARE_F16);
    recipe(BETWEEN);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one", .threads = 3}, NULL), PARE_OK);
    ck_assert_double_gt(apart("model", "one", false), 1e-3);
    ck_assert_int_eq(run_stopping(&stop), PARE_EINTERRUPTED);
    if (stops[_i].broken)
        damage_at(stops[_i].broken, stops[_i].share);
    ck_assert_int_eq(run_listening(&again, "two"), PARE_OK);
    ck_assert_msg(again.heard, "nothing says \"%s\"", stops[_i].told);
    job_check_same(&place, "one", "two");
}
END_TEST

static void hear_weighing(void *weighs, size_t phase, const char *what)
{
    (void)phase;
    *(bool *)weighs |= strstr(what, "weighing tokens") || strstr(what, "running the calibration");
}

/* With all blocks done, only the training is left: no calibration runs again. */
START_TEST(a_training_that_goes_on_weighs_no_tokens)
{
    bool weighs = false;
    listener stop = {.at = "step 1 of"};
    const job_opts opts = {.output = "two", .step = hear_weighing, .self = &weighs};
    recipe("  - gptq: {bits: 2, group: 32}\n"
           "  - distill: {aware: true, tokens: 512, batch: 4, rate: 1e-3, save: 0}\n");
    ck_assert_int_eq(run_listening(&stop, "two"), PARE_EINTERRUPTED);
    ck_assert_int_eq(job_run(&place, opts, NULL), PARE_OK);
    ck_assert(!weighs);
    ck_assert_int_eq(
        job_run(&place, (job_opts){.output = "one", .step = hear_weighing, .self = &weighs}, NULL),
        PARE_OK);
    ck_assert(weighs);
    job_check_same(&place, "one", "two");
}
END_TEST

/* What was saved of a training with other leaves is no damage. */
START_TEST(a_training_of_other_leaves_begins_anew)
{
    listener stop = {.at = "step 2 of"}, again = {.wanted = "distill has other settings"};
    recipe("  - wanda: {pattern: 2:4}\n  - distill: {tokens: 768, batch: 4, save: 0" ON);
    ck_assert_int_eq(run_listening(&stop, "two"), PARE_EINTERRUPTED);
    recipe("  - wanda: {pattern: 2:4}\n  - distill: {tokens: 768, batch: 4, save: 0}\n");
    ck_assert_int_eq(run_listening(&again, "two"), PARE_OK);
    ck_assert(again.heard);
}
END_TEST

/* One more blank in the head of the file: no tensor lies where its type may be read. */
static void shift_by_one(void)
{
    pare_ctx cx;
    pare_arena a;
    char *bytes;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const char *const path = job_path(&place, "model/model.safetensors");
    ck_assert_int_eq(pare_file_read(&cx, &a, path, 1 << 24, &bytes, &len), PARE_OK);
    uint64_t head;
    memcpy(&head, bytes, sizeof head);
    const size_t data = sizeof head + (size_t)head;
    head++;
    FILE *const f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(&head, 1, sizeof head, f), sizeof head);
    ck_assert_uint_eq(fwrite(bytes + sizeof head, 1, data - sizeof head, f), data - sizeof head);
    ck_assert_int_eq(fputc(' ', f), ' ');
    ck_assert_uint_eq(fwrite(bytes + data, 1, len - data, f), len - data);
    ck_assert_int_eq(fclose(f), 0);
    pare_arena_release(&a);
}

/* Wherever they lie in the file. */
START_TEST(embeddings_at_odd_places_are_trained)
{
    make(_i, PARE_F16);
    recipe(BETWEEN);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    shift_by_one();
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, NULL), PARE_OK);
    job_check_same_weights(&place, "one", "two");
    ck_assert_double_gt(apart("model", "two", false), 1e-3);
}
END_TEST

/* A quantizer of the tables takes what was trained. */
START_TEST(tables_are_quantized_as_they_were_trained)
{
    const double near = 2e-3; /* codes of 8 bits */
    make(false, PARE_F16);
    recipe(BETWEEN);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "floats"}, NULL), PARE_OK);
    recipe(BETWEEN "embeddings: {rtn: {bits: 8, group: 32}}\nhead: {rtn: {bits: 8, group: 32}}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "codes"}, NULL), PARE_OK);
    ck_assert(tells("floats/README.md", "\n| gptq | "));
    ck_assert(tells("codes/README.md", "\n| gptq + rtn of the embeddings + rtn of the head | "));
    for (int head = 0; head < 2; head++) {
        ck_assert_double_lt(apart("floats", "codes", head), near);
        ck_assert_double_gt(apart("model", "codes", head), 2 * near);
    }
}
END_TEST

/* The weights, in floats, of a quantized linear that reads the first block's inputs. */
static size_t query_of(pare_ctx *cx, pare_arena *a, const char *output, float **w)
{
    pare_checkpoint ck;
    pare_model m;
    ck_assert_int_eq(pare_checkpoint_open(cx, a, job_path(&place, output), &ck), PARE_OK);
    ck_assert_int_eq(pare_model_load(cx, a, &ck, &m), PARE_OK);
    const pare_linear *const q = &m.block[0].linear[PARE_ROLE_Q];
    *w = PARE_NEW(a, float, q->n * q->k);
    ck_assert(*w && q->bits == 3);
    pare_linear_to_f32(cx, q, *w);
    pare_checkpoint_close(&ck);
    return q->n * q->k;
}

/* The share of these weights whose values differ between two artifacts. */
static double other_codes(const char *first, const char *second)
{
    pare_ctx cx;
    pare_arena a;
    float *x, *y;
    size_t others = 0;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const size_t count = query_of(&cx, &a, first, &x);
    ck_assert_uint_eq(query_of(&cx, &a, second, &y), count);
    for (size_t i = 0; i < count; i++)
        others += x[i] != y[i];
    pare_arena_release(&a);
    return (double)others / (double)count;
}

#define QUERY                                                                                      \
    "  - gptq: {bits: 3, group: 32, clip: none, refine: 0, correct: none, targets: "               \
    "[\"*.0.self_attn.q_proj\"]}\n"
#define LOSS .sets = {"calibration.token_weights=loss"}, .set_count = 1
#define EVEN .sets = {"calibration.token_weights=even"}, .set_count = 1

/* GPTQ behind the training sees inputs that come from trained embeddings: of the first block's
 * queries, which are not trained, it makes what it makes of a model that has these embeddings. */
START_TEST(steps_behind_see_trained_embeddings)
{
    make(true, PARE_F16);
    recipe("  - wanda: {pattern: 2:4, targets: [\"*.v_proj\"]}\n"
           "  - distill: {tokens: 1024, batch: 4, rate: 3e-2, save: 0" ON QUERY);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one", EVEN}, NULL), PARE_OK);
    recipe(QUERY);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "plain", EVEN}, NULL), PARE_OK);
    move_table(EMBED, "one", EMBED);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "moved", EVEN}, NULL), PARE_OK);
    ck_assert_double_eq(other_codes("one", "moved"), 0);
    ck_assert_double_gt(other_codes("one", "plain"), 0);
}
END_TEST

/* Weights of a role become those of an artifact, in every block. */
static void move_linears(const char *from, pare_role role)
{
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck[2];
    pare_model m[2];
    open_two(&cx, &a, "model", from, ck, m);
    const int fd = open(job_path(&place, "model/model.safetensors"), O_RDWR);
    for (size_t b = 0; b < m[0].config.blocks; b++) {
        const pare_linear *const to = &m[0].block[b].linear[role];
        const size_t count = to->n * to->k, bytes = count * pare_dtype_bits(to->dtype) / 8;
        float *const w = PARE_NEW(&a, float, count);
        void *const stored = pare_arena_take(&a, bytes, 1);
        ck_assert(w && stored);
        pare_linear_to_f32(&cx, &m[1].block[b].linear[role], w);
        ck_assert_int_eq(pare_f32_to_dtype(&cx, to->dtype, w, count, stored), PARE_OK);
        const off_t at = (off_t)((const unsigned char *)to->data - ck[0].file[0].data);
        ck_assert_int_eq(pwrite(fd, stored, bytes, at), (ssize_t)bytes);
    }
    ck_assert_int_eq(close(fd), 0);
    close_two(&a, ck);
}

/* Tokens are weighed behind the training by what the trained model loses, whose tied head is the
 * trained embedding, also where one stands in the file: GPTQ makes what it makes of a model that
 * has all that was trained. */
START_TEST(a_tied_head_weighs_tokens_as_it_was_trained)
{
    make(_i == 0, PARE_F32);
    if (_i)
        tie_in_file();
    recipe("  - wanda: {pattern: 2:4, targets: [\"*.v_proj\"]}\n"
           "  - distill: {tokens: 1024, batch: 4, rate: 3e-2, save: 0" ON QUERY);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one", LOSS}, NULL), PARE_OK);
    recipe(QUERY);
    move_linears("one", PARE_ROLE_V);
    move_table(EMBED, "one", EMBED);
    if (_i)
        move_table("lm_head.weight", "one", EMBED);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "moved", LOSS}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "even", EVEN}, NULL), PARE_OK);
    ck_assert_double_eq(other_codes("one", "moved"), 0);
    ck_assert_double_gt(other_codes("one", "even"), 0);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("embeddings_job");
    TCase *const t = tcase_create("embeddings_job");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, embeddings_that_were_trained_are_stored, 0, SHAPES);
    tcase_add_loop_test(t, a_job_that_was_stopped_goes_on_to_the_same_bytes, 0, STOPS);
    tcase_add_test(t, a_training_that_goes_on_weighs_no_tokens);
    tcase_add_test(t, a_training_of_other_leaves_begins_anew);
    tcase_add_loop_test(t, embeddings_at_odd_places_are_trained, 0, 2);
    tcase_add_test(t, tables_are_quantized_as_they_were_trained);
    tcase_add_test(t, steps_behind_see_trained_embeddings);
    tcase_add_loop_test(t, a_tied_head_weighs_tokens_as_it_was_trained, 0, 2);
    suite_add_tcase(s, t);
    return unit_main(s);
}
