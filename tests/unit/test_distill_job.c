/* Jobs that train what pruners left. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "tests/unit/job_train.h"

static uint64_t disk_free; /* what is said to be free, or 0: what is; statvfs64 is wrapped */

int __real_statvfs64(const char *path, struct statvfs *fs);
int __wrap_statvfs64(const char *path, struct statvfs *fs);
int __wrap_statvfs64(const char *path, struct statvfs *fs)
{
    const int rc = __real_statvfs64(path, fs);
    if (rc == 0 && disk_free)
        fs->f_bavail = disk_free / fs->f_frsize;
    return rc;
}

/* Zeros of the first are zeros of the second, whose other weights moved, and which is stored as is
 * said. */
static void check_zeros(const char *pruned, const char *trained, pare_sparsity_store sparsity,
                        unsigned bits)
{
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck[2];
    pare_model m[2];
    open_two(&cx, &a, pruned, trained, ck, m);
    for (size_t i = 0; i < m[0].config.blocks * PARE_COMMON_ROLES; i++) {
        const pare_linear
            *const l = &m[0].block[i / PARE_COMMON_ROLES].linear[i % PARE_COMMON_ROLES],
                   *const t = &m[1].block[i / PARE_COMMON_ROLES].linear[i % PARE_COMMON_ROLES];
        const size_t count = l->n * l->k;
        float *const w = PARE_NEW(&a, float, count), *const v = PARE_NEW(&a, float, count);
        ck_assert(w && v);
        ck_assert_int_eq(t->sparsity, sparsity);
        ck_assert_uint_eq(t->bits, bits);
        pare_linear_to_f32(&cx, l, w);
        pare_linear_to_f32(&cx, t, v);
        size_t moved = 0;
        for (size_t j = 0; j < count; j++) {
            ck_assert(w[j] != 0 || v[j] == 0);
            moved += w[j] != v[j];
        }
        ck_assert_uint_gt(moved, count / 4);
    }
    close_two(&a, ck);
}

static const char *const passes[] = {
    "  - sparsegpt: {pattern: 2:4}\n" TRAIN "ce: 0.1, temperature: 2, teacher_top: 100}\n",
    "  - magnitude: {sparsity: 0.6}\n" TRAIN "kl: 0, jsd: 1, reverse_kl: 0.5, sinkhorn: 0.2}\n",
    "  - wanda: {pattern: 2:4, skip: [\"*.v_proj\"]}\n" TRAIN
    "hidden: 1, relations: 0.5, attention: 0.1}\n",
};
enum { PASSES = sizeof passes / sizeof *passes };

/* What is stored is what was measured: the packed model has the same KL. */
START_TEST(training_wins_quality_back_and_survives_threads_and_breaks)
{
    recipe(passes[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    const double before = figure("one", "training", "kl_before"),
                 after = figure("one", "training", "kl_after");
    ck_assert_msg(after < 0.92 * before, "KL %g before, %g after", before, after);
    ck_assert_double_eq_tol(figure("one", "kl", "mean"), after, 1e-4 * after);
    ck_assert_double_eq(figure("one", "training", "steps"), 12);
    ck_assert_double_eq(figure("one", "training", "tokens"), 12 * 4 * 64);
    check_survives();
}
END_TEST

#define CHAIN_OF(train)                                                                            \
    "  - sparsegpt: {pattern: 2:4}\n" train "save: 0}\n"                                           \
    "  - gptq: {bits: 4, group: 32}\n"
#define SHORT "  - distill: {tokens: 1024, batch: 4, rate: 3e-3, " /* 4 steps */
#define CHAIN CHAIN_OF(SHORT)

static const halt unharmed[] = {
    {"step 3 of", NULL, "continues after step 3 of 4",
     "continuing: 2 of 2 blocks are pruned; training comes"},
    {"after training", NULL, "continuing: training is done; 0 of 2 blocks are written", NULL},
};
static const halt no_state[] = {
    {"step 3 of", "two.partial/training.state", "training begins anew", NULL},
    {"after training", "two.partial/trained.f32", "they are trained again",
     "continues after step 3 of 4"},
};
static const halt no_block[] = {
    {"step 3 of", "two.partial/pruned.f32", "block 2 of 2 of the unfinished run is damaged", NULL},
};

static const char *const plain[] = {
    "  - sparsegpt: {pattern: 2:4}\n" SHORT "}\n",
    "  - sparsegpt: {pattern: 2:4}\n" SHORT "save: 0}\n",
    "  - sparsegpt: {pattern: 2:4}\n" SHORT "save: 0, lambda: 0.5, moments: 8bit}\n",
};
enum { PLAIN = sizeof plain / sizeof *plain };

static void check_resumed(const halt *halts, size_t count, double blocks)
{
    check_halts(halts, count);
    ck_assert_double_eq(figure("two", "evaluation_seconds", "resumed_blocks"), blocks);
}

START_TEST(a_job_that_was_stopped_goes_on_to_the_same_bytes)
{
    recipe(plain[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    check_resumed(unharmed, 1, 2);
}
END_TEST

START_TEST(a_chain_that_was_stopped_goes_on_to_the_same_bytes)
{
    recipe(CHAIN);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    check_resumed(unharmed, 2, 2);
    check_resumed(no_state, 2, 2);
    check_resumed(no_block, 1, 1);
}
END_TEST

/* Other settings of a training that was stopped, or that is done; those of another pass are
 * refused. */
START_TEST(settings_of_the_training_may_change_and_what_is_pruned_stays)
{
    static const char *const at[] = {"step 3 of", "after training"};
    static const char other[] = "  - sparsegpt: {pattern: 2:4}\n"
                                "  - distill: {tokens: 768, batch: 4, rate: 1e-3, save: 0}\n"
                                "  - gptq: {bits: 4, group: %d}\n";
    listener stop = {.at = at[_i]}, same = {.wanted = "other settings"};
    char what[1024], text[256];
    recipe(CHAIN);
    ck_assert_int_eq(run_listening(&stop, "two"), PARE_EINTERRUPTED);
    (void)snprintf(text, sizeof text, other, 64);
    recipe(text);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, what), PARE_EEXISTS);
    ck_assert_msg(strstr(what, "where this one says \"group: 64\""), "%s", what);
    (void)snprintf(text, sizeof text, other, 32);
    recipe(text);
    stop = (listener){.at = "step 2 of", .wanted = "distill has other settings"};
    ck_assert_int_eq(run_listening(&stop, "two"), PARE_EINTERRUPTED);
    ck_assert(stop.heard);
    ck_assert_int_eq(run_listening(&same, "two"), PARE_OK);
    ck_assert(!same.heard);
    ck_assert_double_eq(figure("two", "evaluation_seconds", "resumed_blocks"), 2);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    job_check_same(&place, "one", "two");
}
END_TEST

/* KL before training is that of the windows held out: of others, training begins anew. */
START_TEST(a_state_is_of_the_windows_held_out)
{
    listener stop = {.at = "step 3 of"},
             other = {.wanted = "distill has other settings or windows"};
    const long first = 12L * 64 * 4; /* behind those of calibration comes one that is held out */
    recipe(CHAIN);
    ck_assert_int_eq(run_listening(&stop, "two"), PARE_EINTERRUPTED);
    FILE *const f = fopen(job_path(&place, "tokens.i32"), "r+");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, first, SEEK_SET), 0);
    const int was = fgetc(f);
    ck_assert_int_eq(fseek(f, first, SEEK_SET), 0);
    ck_assert_int_eq(fputc(was ^ 1, f), was ^ 1);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(run_listening(&other, "two"), PARE_OK);
    ck_assert(other.heard);
}
END_TEST

/* Bytes of the disk that a job needs that begins now. */
static uint64_t need_of(const char *output)
{
    char recipe_path[512], output_path[512];
    pare_ctx cx;
    pare_arena a;
    pare_plan plan;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    (void)snprintf(recipe_path, sizeof recipe_path, "%s", job_path(&place, "recipe.yaml"));
    (void)snprintf(output_path, sizeof output_path, "%s", job_path(&place, output));
    const pare_job job = {.recipe = recipe_path, .output = output_path, .plan_only = true};
    ck_assert_int_eq(pare_plan_make(&cx, &a, &job, &plan), PARE_OK);
    const uint64_t need = plan.settled.disk_bytes;
    pare_plan_close(&plan);
    pare_arena_release(&a);
    return need;
}

static uint64_t bytes_in(const char *directory)
{
    char path[256];
    struct stat st;
    uint64_t bytes = 0;
    DIR *const d = opendir(job_path(&place, directory));
    ck_assert_ptr_nonnull(d);
    for (const struct dirent *e; (e = readdir(d));) {
        (void)snprintf(path, sizeof path, "%s/%.200s", directory, e->d_name);
        ck_assert_int_eq(stat(job_path(&place, path), &st), 0);
        bytes += S_ISREG(st.st_mode) ? (uint64_t)st.st_blocks * 512 : 0;
    }
    ck_assert_int_eq(closedir(d), 0);
    return bytes;
}

/* A disk on which a job fits is enough for it after a break, too. */
START_TEST(what_a_stopped_job_holds_is_room_for_it)
{
    enum { BLOCK = 1 << 16 }; /* of a file system, or more */
    listener stop = {.at = "step 3 of"};
    char what[1024];
    recipe(CHAIN);
    const uint64_t disk = need_of("two") + BLOCK;
    disk_free = disk - 2 * BLOCK;
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, what), PARE_ENOSPC);
    disk_free = disk;
    ck_assert_int_eq(run_listening(&stop, "two"), PARE_EINTERRUPTED);
    const uint64_t held = bytes_in("two.partial");
    disk_free = disk - held - 2 * BLOCK;
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, what), PARE_ENOSPC);
    disk_free = disk - held;
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, NULL), PARE_OK);
}
END_TEST

/* One that the disk stops says what it goes on with. */
START_TEST(a_full_disk_leaves_a_saved_state)
{
    listener stop = {.at = "step 3 of"};
    struct rlimit files;
    char what[1024];
    recipe(CHAIN);
    ck_assert_int_eq(run_listening(&stop, "two"), PARE_EINTERRUPTED);
    (void)signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &files), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 15, files.rlim_max}), 0);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, what), PARE_ENOSPC);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &files), 0);
    ck_assert_msg(strstr(what, "; the state of step 3 of 4 is saved: once"), "%s", what);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, NULL), PARE_OK);
}
END_TEST

/* Of two trainings of one recipe, one goes on with the moments of the other. */
/* Changes the first token of a window of the data. */
static void change_window(long window)
{
    FILE *const f = fopen(job_path(&place, "tokens.i32"), "r+");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, window * 64 * (long)sizeof(int32_t), SEEK_SET), 0);
    const int token = fgetc(f);
    ck_assert_int_eq(fseek(f, window * 64 * (long)sizeof(int32_t), SEEK_SET), 0);
    ck_assert_int_ne(fputc(token ^ 1, f), EOF);
    ck_assert_int_eq(fclose(f), 0);
}

/* Calibration sees windows 0 to 11; 12, 15, 18 and 21 are held out, and the others trained on, too.
 */
START_TEST(more_windows_than_those_of_calibration_are_trained_on)
{
    char what[1024];
    recipe("  - wanda: {pattern: 2:4}\n" TRAIN "windows: 12}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "same"}, NULL), PARE_OK);
    recipe("  - wanda: {pattern: 2:4}\n" TRAIN "}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "few"}, NULL), PARE_OK);
    ck_assert_double_eq(figure("same", "training", "kl_after"),
                        figure("few", "training", "kl_after"));
    recipe("  - wanda: {pattern: 2:4}\n" TRAIN "windows: 20}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    change_window(13);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, what), PARE_EEXISTS);
    ck_assert_msg(strstr(what, "it was trained on other windows"), "%s", what);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, NULL), PARE_OK);
    ck_assert_double_eq(figure("one", "training", "kl_before"),
                        figure("two", "training", "kl_before"));
    ck_assert_double_ne(figure("one", "training", "kl_after"),
                        figure("two", "training", "kl_after"));
}
END_TEST

START_TEST(moments_are_part_of_the_state)
{
    listener stop = {.at = "step 3 of"};
    recipe(CHAIN);
    ck_assert_int_eq(run_listening(&stop, "two"), PARE_EINTERRUPTED);
    struct stat st;
    ck_assert_int_eq(stat(job_path(&place, "two.partial/pruned.f32"), &st), 0);
    const off_t weights = st.st_size;
    ck_assert_int_eq(stat(job_path(&place, "two.partial/training.state"), &st), 0);
    ck_assert_int_gt(st.st_size, 3 * weights);
    ck_assert_int_lt(st.st_size, 3 * weights + 4096);
}
END_TEST

/* The report says what pruning, training and quantizing did: the last is what was evaluated. */
static void check_stages(void)
{
    ck_assert_double_eq(figure("one", "none: the original", "kl"), 0);
    ck_assert_double_eq(figure("one", "sparsegpt", "kl"), figure("one", "training", "kl_before"));
    ck_assert_double_eq(figure("one", "distill", "perplexity"),
                        figure("one", "training", "perplexity_after"));
    ck_assert_double_eq(figure("one", "gptq", "kl"), figure("one", "kl", "mean"));
    ck_assert_double_gt(figure("one", "gptq", "kl"), figure("one", "distill", "kl"));
}

/* Codes of 2:4 on the mask of the pruner, of weights that were trained: better than without. */
START_TEST(a_quantizer_behind_it_keeps_the_mask_and_gains)
{
    recipe("  - sparsegpt: {pattern: 2:4}\n  - gptq: {bits: 4, group: 32}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "plain"}, NULL), PARE_OK);
    recipe(CHAIN_OF(TRAIN));
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    ck_assert_double_lt(figure("one", "kl", "mean"), 0.92 * figure("plain", "kl", "mean"));
    ck_assert_double_lt(figure("one", "training", "kl_after"),
                        0.92 * figure("one", "training", "kl_before"));
    check_stages();
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "five", .threads = 5}, NULL), PARE_OK);
    job_check_same_weights(&place, "one", "five");
    /* A job without training rounds what it pruned to F16, which BF16 does not round alike. */
    const char *const floats = "calibration.precision=f32";
    ck_assert_int_eq(
        job_run(&place, (job_opts){.output = "floats", .sets = {floats}, .set_count = 1}, NULL),
        PARE_OK);
    recipe("  - sparsegpt: {pattern: 2:4}\n");
    ck_assert_int_eq(
        job_run(&place, (job_opts){.output = "pruned", .sets = {floats}, .set_count = 1}, NULL),
        PARE_OK);
    check_zeros("pruned", "floats", PARE_SPARSITY_2_4, 4);
}
END_TEST

/* What nobody pruned is not trained, and quantized all the same. */
START_TEST(linears_that_stay_dense_are_quantized_too)
{
    recipe("  - wanda: {pattern: 2:4, skip: [\"*.v_proj\", \"*.down_proj\"]}\n" TRAIN
           "kl: 1}\n  - rtn: {bits: 8, group: 32}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    recipe("  - rtn: {bits: 8, group: 32, targets: [\"*.v_proj\", \"*.down_proj\"]}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "dense"}, NULL), PARE_OK);
    pare_ctx cx;
    pare_arena a;
    pare_model m[2];
    pare_checkpoint ck[2];
    open_two(&cx, &a, "one", "dense", ck, m);
    for (size_t b = 0; b < m[0].config.blocks; b++) {
        const pare_linear *const v = &m[0].block[b].linear[PARE_ROLE_V];
        const size_t count = v->n * v->k;
        float *const w = PARE_NEW(&a, float, count), *const u = PARE_NEW(&a, float, count);
        ck_assert(w && u);
        pare_linear_to_f32(&cx, v, w);
        pare_linear_to_f32(&cx, &m[1].block[b].linear[PARE_ROLE_V], u);
        ck_assert_uint_eq(v->bits, 8);
        ck_assert_mem_eq(w, u, count * sizeof *w);
    }
    close_two(&a, ck);
}
END_TEST

/* Weights of zero stay, and only they. */
START_TEST(zeros_are_those_of_the_pruner)
{
    recipe("  - wanda: {pattern: 2:4}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "pruned"}, NULL), PARE_OK);
    recipe("  - wanda: {pattern: 2:4}\n" TRAIN "kl: 1}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "trained"}, NULL), PARE_OK);
    ck_assert(!job_same_weights(&place, "pruned", "trained"));
    check_zeros("pruned", "trained", PARE_SPARSITY_2_4, 16);
}
END_TEST

START_TEST(what_diverges_stops_with_the_pass)
{
    char what[1024];
    recipe("  - wanda: {pattern: 2:4}\n  - distill: {tokens: 9000, rate: 1, kl: 0, hidden: 1}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_ENUMERIC);
    ck_assert_msg(strstr(what, "distill: step") && strstr(what, "smaller rate") &&
                      strstr(what, "what the passes before it did stays"),
                  "%s", what);
}
END_TEST

/* A warning that the report has, too, and that --strict counts; with a break behind it as well. */
START_TEST(a_training_that_does_harm_is_a_warning)
{
    static const char harm[] = "training made the model worse: KL ";
    listener stop = {.at = harm}, again = {.wanted = harm};
    const char *const file[] = {"two/run.json", "two/README.md", "two/report.html"};
    char text[1 << 16];
    recipe("  - wanda: {pattern: 2:4}\n  - distill: {tokens: 3000, batch: 4, rate: 3e-2}\n");
    ck_assert_int_eq(run_listening(&stop, "two"), PARE_EINTERRUPTED);
    ck_assert_int_eq(run_listening(&again, "two"), PARE_OK);
    ck_assert(!again.heard);
    ck_assert_double_gt(figure("two", "training", "kl_after"),
                        figure("two", "training", "kl_before"));
    ck_assert_double_eq(figure("two", "evaluation_seconds", "fallbacks"), 1);
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        FILE *const f = fopen(job_path(&place, file[i]), "r");
        ck_assert_ptr_nonnull(f);
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        ck_assert_int_eq(fclose(f), 0);
        ck_assert_msg(strstr(text, harm) != NULL, "%s does not warn", file[i]);
    }
}
END_TEST

static const struct {
    const char *passes, *says;
    int line;
} refused[] = {
    {"  - wanda: {pattern: 2:4}\n  - distill: {}\n  - wanda: {pattern: 2:4}\n",
     "wanda comes after distill, and only quantizers can; put it before distill", 7},
    {"  - wanda: {pattern: 2:4}\n  - distill: {}\n  - smoothquant: {}\n  - rtn: {}\n",
     "smoothquant comes after distill", 7},
    {"  - wanda: {pattern: 2:4}\n  - distill: {}\n  - sparsegpt_joint: {pattern: 2:4, bits: 4}\n",
     "sparsegpt_joint comes after distill", 7},
    {"  - wanda: {pattern: 2:4}\n  - rtn: {}\n  - distill: {}\n", "put the quantizer after it", 7},
    {"  - distill: {}\n", "no pass before it prunes a linear and none behind it quantizes one", 5},
    {"  - distill: {}\n  - rtn: {}\n", "the model would learn only from itself", 5},
    {"  - wanda: {pattern: 2:4}\n  - distill: {targets: [\"*.q_proj\"]}\n", "takes no targets", 6},
    {"  - wanda: {pattern: 2:4}\n  - distill: {windows: 11}\n", "fewer than the 12 of calibration",
     6},
    {"  - wanda: {pattern: 2:4}\n  - distill: {windows: 24}\n",
     "24 are 12 more than it calibrates on; the data have 12 more, and one is held out; give more "
     "text, or at most windows: 23",
     6},
    {"  - wanda: {pattern: 2:4}\n  - distill: {kl: 0}\n", "all losses have weight 0", 6},
    {"  - wanda: {pattern: 2:4}\n  - distill: {relations: 1, pieces: 5}\n",
     "they cannot be cut into 5 equal pieces", 6},
    {"  - distill: {}\n  - distill: {}\n", "a recipe can have one distill", 6},
    {"  - channels: {}\n  - distill: {}\n", "none behind it quantizes one; add one", 6},
    {"  - rtn: {}\n  - distill: {}\n", "only with \"aware: true\"", 6},
    {"  - wanda: {pattern: 2:4}\n  - distill: {aware: true}\n  - rtn: {}\n",
     "there is none; add one, or leave aware out", 6},
    {"  - nf4: {}\n  - distill: {aware: true}\n", "distill with aware: true trains codes with", 5},
    {"  - mxfp4: {}\n  - distill: {aware: true}\n", "put this one after distill", 5},
    {"  - squeezellm: {}\n  - distill: {aware: true}\n", "put this one after distill", 5},
    {"  - fp8: {}\n  - distill: {aware: true}\n", "put this one after distill", 5},
    {"  - rtn: {bits: 8, group: row, activations: int8_tensor}\n  - distill: {aware: true}\n",
     "no fixed scale of inputs", 5},
    {"  - awq: {}\n  - rtn: {bits: 4, group: 32}\n  - distill: {aware: true}\n",
     "a model that a transform changed", 7},
};

START_TEST(what_cannot_be_is_refused_with_its_place)
{
    char what[1024], line[32];
    recipe(refused[_i].passes);
    (void)snprintf(line, sizeof line, "recipe.yaml:%d:", refused[_i].line);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, refused[_i].says) && strstr(what, line), "%s", what);
}
END_TEST

/* The teacher is the model already. */
START_TEST(an_original_that_is_the_model_is_refused)
{
    char what[1024];
    job_recipe(&place, HEAD "original: ./model\n" DATA "passes:\n  - distill: {tokens: 256}\n"
                            "  - rtn: {bits: 4, group: 32}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "recipe.yaml:3:11: ") && strstr(what, "is the model itself, from "),
                  "%s", what);
}
END_TEST

enum { STEPS = 512 };

static void add_step(char steps[STEPS], const char *what)
{
    const size_t at = strlen(steps);
    (void)snprintf(steps + at, STEPS - at, "%s, ", what);
}

static void take_step(void *self, size_t phase, const char *what)
{
    (void)phase;
    if (strstr(what, "quality "))
        add_step(self, what);
}

static void take_piece(void *self, const char *what, double done, double total)
{
    (void)total;
    if (done == 0 && strcmp(what, "training") == 0 && !strstr(self, "training, training"))
        add_step(self, what);
}

/* Windows held out are scored in steps of their own, around the training. */
START_TEST(what_measures_a_training_has_a_name)
{
    char steps[STEPS] = "";
    recipe("  - wanda: {pattern: 2:4}\n  - distill: {tokens: 256, batch: 4}\n");
    ck_assert_int_eq(
        job_run(&place,
                (job_opts){.output = "out", .report = take_piece, .step = take_step, .self = steps},
                NULL),
        PARE_OK);
    ck_assert_msg(
        strstr(steps, "quality before the training, training, quality after the training, "), "%s",
        steps);
}
END_TEST

/* A recipe that leaves no window to hold out is told which number leaves some. */
START_TEST(samples_that_leave_windows_are_named)
{
    static const char *const says[][2] = {
        {"24", "calibration takes every window: the data have 24; samples: 19 leaves 5"},
        {"all", "give samples a number that leaves windows to measure, up to 32"}};
    char what[1024], set[64];
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(set, sizeof set, "calibration.samples=%s", says[i][0]);
        const char *const sets = set;
        recipe("  - wanda: {pattern: 2:4}\n" TRAIN "}\n");
        ck_assert_int_eq(
            job_run(&place, (job_opts){.output = "out", .sets = {sets}, .set_count = 1}, what),
            PARE_EUSAGE);
        ck_assert_msg(strstr(what, says[i][1]) != NULL, "%s", what);
    }
}
END_TEST

/* What a job says of too little calibration, and how often. */
typedef struct thin_listener {
    listener stop;
    size_t count;
    char text[512];
} thin_listener;

static void hear_thin(void *self, const pare_event *e)
{
    thin_listener *const l = self;
    hear(&l->stop, e);
    if (!e->text || !strstr(e->text, "too little for "))
        return;
    l->count++;
    (void)snprintf(l->text, sizeof l->text, "%s", e->text);
}

static pare_status run_thin(thin_listener *l, const char *output)
{
    const pare_events events = {hear_thin, l};
    const job_opts opts = {.output = output, .events = &events, .interrupt = &l->stop.stop};
    return job_run(&place, opts, NULL);
}

/* Too little for a pruner: said once, with the figures of its own statistics, also by a job that
 * goes on in the training or behind it. */
START_TEST(what_was_thin_is_said_once_and_after_a_break_again)
{
    static const char *const at[] = {"step 3 of", "after training"};
    static const char *const behind[] = {"", "  - gptq: {bits: 4, group: 32}\n"};
    thin_listener whole = {.count = 0}, first = {.stop.at = at[_i % 2]}, again = {.count = 0};
    char text[512];
    (void)snprintf(text, sizeof text,
                   HEAD "calibration: {tokens: tokens.i32, samples: 1, window: 64}\npasses:\n"
                        "  - wanda: {pattern: 2:4}\n  - distill: {tokens: 768, batch: 1}\n%s",
                   behind[_i / 2]);
    job_recipe(&place, text);
    ck_assert_int_eq(run_thin(&whole, "one"), PARE_OK);
    ck_assert_msg(whole.count == 1 && strstr(whole.text, "rank ") &&
                      strstr(whole.text, "where wanda needs 128 new tokens, "),
                  "%zu: %s", whole.count, whole.text);
    ck_assert_int_eq(run_thin(&first, "two"), PARE_EINTERRUPTED);
    ck_assert_int_eq(run_thin(&again, "two"), PARE_OK);
    ck_assert_msg(again.count == 1, "said %zu times", again.count);
    ck_assert_str_eq(first.text, whole.text);
    ck_assert_str_eq(again.text, whole.text);
    job_check_same(&place, "one", "two");
}
END_TEST

/* Takes `pieces` of 64 KiB when a block is done and gives all but the last back, which malloc
 * keeps. */
typedef struct hoarder {
    size_t pieces; /* of 64 KiB */
    void *last;
} hoarder;

static void hoard(void *self, const pare_event *e)
{
    enum { PIECE = 64 << 10, MOST = 1024 };
    static void *piece[MOST];
    hoarder *const h = self;
    if (e->kind != PARE_EVENT_BLOCK || h->last)
        return;
    for (size_t i = 0; i < h->pieces; i++) {
        piece[i] = malloc(PIECE);
        ck_assert_ptr_nonnull(piece[i]);
        memset(piece[i], 1, PIECE);
    }
    h->last = malloc(PIECE);
    for (size_t i = 0; i < h->pieces; i++)
        free(piece[i]);
}

START_TEST(memory_that_was_given_back_is_not_counted_again)
{
    double bytes[2];
#ifdef UNIT_SANITIZED /* which keeps what is given back */
    return;
#endif
    recipe("  - rtn: {group: 32}\n");
    for (size_t i = 0; i < 2; i++) {
        hoarder h = {.pieces = i ? 1024 : 0};
        const pare_events events = {hoard, &h};
        const job_opts opts = {.output = "out", .restart = i > 0, .events = &events};
        ck_assert_int_eq(job_run(&place, opts, NULL), PARE_OK);
        ck_assert_ptr_nonnull(h.last);
        free(h.last);
        bytes[i] = figure("out", "peak_rss_bytes", "peak_anonymous_bytes");
    }
    ck_assert_double_lt(bytes[1] - bytes[0], 8 << 20);
}
END_TEST

/* A key that is not there is told those that are: targets and skip of steps that take them. */
START_TEST(only_keys_that_a_step_takes_are_listed)
{
    static const struct {
        const char *pass;
        bool takes;
    } row[] = {{"distill", false},
               {"rotate", false},
               {"channels", false},
               {"ziplm", true},
               {"wanda", true}};
    char what[1024], text[128];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        (void)snprintf(text, sizeof text, "  - %s: {qqqq: false}\n", row[i].pass);
        recipe(text);
        ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
        ck_assert_msg(strstr(what, "known: ") && !strstr(what, "targets, skip") == !row[i].takes,
                      "%s", what);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("distill_job");
    TCase *const t = tcase_create("distill_job");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, training_wins_quality_back_and_survives_threads_and_breaks, 0, PASSES);
    tcase_add_loop_test(t, a_job_that_was_stopped_goes_on_to_the_same_bytes, 0, PLAIN);
    tcase_add_test(t, a_chain_that_was_stopped_goes_on_to_the_same_bytes);
    tcase_add_test(t, what_a_stopped_job_holds_is_room_for_it);
    tcase_add_test(t, a_full_disk_leaves_a_saved_state);
    tcase_add_loop_test(t, settings_of_the_training_may_change_and_what_is_pruned_stays, 0, 2);
    tcase_add_test(t, a_state_is_of_the_windows_held_out);
    tcase_add_test(t, more_windows_than_those_of_calibration_are_trained_on);
    tcase_add_test(t, moments_are_part_of_the_state);
    tcase_add_test(t, a_quantizer_behind_it_keeps_the_mask_and_gains);
    tcase_add_test(t, linears_that_stay_dense_are_quantized_too);
    tcase_add_test(t, zeros_are_those_of_the_pruner);
    tcase_add_test(t, what_diverges_stops_with_the_pass);
    tcase_add_test(t, a_training_that_does_harm_is_a_warning);
    tcase_add_loop_test(t, what_cannot_be_is_refused_with_its_place, 0,
                        sizeof refused / sizeof *refused);
    tcase_add_test(t, an_original_that_is_the_model_is_refused);
    tcase_add_loop_test(t, what_was_thin_is_said_once_and_after_a_break_again, 0, 4);
    tcase_add_test(t, memory_that_was_given_back_is_not_counted_again);
    tcase_add_test(t, what_measures_a_training_has_a_name);
    tcase_add_test(t, samples_that_leave_windows_are_named);
    tcase_add_test(t, only_keys_that_a_step_takes_are_listed);
    suite_add_tcase(s, t);
    return unit_main(s);
}
