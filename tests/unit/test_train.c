/* The training loop on the tiny model: its loss against a plain one, its gradients against
 * differences of the loss, and what a user relies on. */
#include "kernels/half.h"
#include "runtime/block_set.h"
#include "runtime/linalg.h"
#include "solve/scales.h"
#include "tests/unit/train_rig.h"

enum { RELATED = 2 /* pieces */ };

static pare_status see_qkv(void *self, const float *q, const float *k, const float *v, size_t rows)
{
    const float *const from[3] = {q, k, v};
    pare_qkv *const to = self;
    for (size_t i = 0; i < 3; i++)
        memcpy(to->at[i], from[i], rows * to->width[i] * sizeof(float));
    return PARE_OK;
}

/* Queries, keys and values of the last block. */
static pare_qkv plain_qkv(rig *r, const pare_forward *f, float *x)
{
    pare_arena *const a = &r->home.arena;
    const pare_config *const c = &f->model->config;
    const size_t windows = r->data.windows;
    const size_t q = c->heads * c->head_dim, k = c->kv_heads * c->head_dim;
    pare_qkv out = {.width = {q, k, k}};
    pare_kv kv;
    for (size_t i = 0; i < 3; i++)
        out.at[i] = floats(a, windows * WINDOW * out.width[i]);
    const pare_tap tap = {.self = &out, .last = PARE_SITES, .see_qkv = see_qkv};
    ck_assert_int_eq(pare_kv_take(a, c, windows, WINDOW, &kv), PARE_OK);
    ck_assert_int_eq(pare_block_forward(&r->home.cx, a, f, &f->model->block[BLOCKS - 1],
                                        (pare_batch){windows, WINDOW, 0}, x, &kv, &tap),
                     PARE_OK);
    return out;
}

static double scored(const float *x, size_t width, size_t i, size_t j)
{
    double sum = 0;
    for (size_t c = 0; c < width / RELATED; c++)
        sum += (double)x[i * width + c] * (double)x[j * width + c];
    return sum / sqrt((double)(width / RELATED));
}

/* KL of the relations of token i of a window; s and t of its first token and of a piece. */
static double row_apart(const float *s, const float *t, size_t width, size_t i)
{
    double all_s = 0, all_t = 0, sum = 0;
    for (size_t j = 0; j <= i; j++) {
        all_s += exp(scored(s, width, i, j));
        all_t += exp(scored(t, width, i, j));
    }
    for (size_t j = 0; j <= i; j++) {
        const double u = scored(t, width, i, j);
        sum += exp(u) / all_t * (u - log(all_t) - scored(s, width, i, j) + log(all_s));
    }
    return sum;
}

/* The loss relations, of streams in front of the last blocks. */
static double plain_relations(rig *r, float *x, float *u)
{
    const pare_qkv s = plain_qkv(r, &r->student_f, x), t = plain_qkv(r, &r->teacher_f, u);
    double sum = 0;
    for (size_t kind = 0; kind < 3; kind++) {
        const size_t width = s.width[kind];
        for (size_t i = 0; i < r->data.windows * WINDOW; i++)
            for (size_t piece = 0; piece < RELATED; piece++) {
                const size_t at = i / WINDOW * WINDOW * width + piece * (width / RELATED);
                sum += row_apart(s.at[kind] + at, t.at[kind] + at, width, i % WINDOW);
            }
    }
    return sum / (double)(3 * RELATED * r->data.windows * WINDOW);
}

/* Means of CE and of KL at T 1 over the rows that have a next token; the difference of hidden
 * states.
 */
static double plain_loss(rig *r, const pare_losses *l)
{
    float *s[BLOCKS], *u[BLOCKS];
    const float *z = plain_forward(r, &r->student_f, s), *t = plain_forward(r, &r->teacher_f, u);
    const size_t width = r->student.config.hidden, windows = r->data.windows;
    double sum = 0, hidden = 0;
    for (size_t i = 0; i < windows * WINDOW; i++, z += TINY_VOCAB, t += TINY_VOCAB) {
        if (i % WINDOW == WINDOW - 1)
            continue;
        const double lz = plain_lse(z), lt = plain_lse(t);
        sum += l->ce * (lz - (double)z[r->data.token[i + 1]]);
        for (size_t v = 0; v < TINY_VOCAB; v++)
            sum += l->kl * exp((double)t[v] - lt) * ((double)t[v] - lt - (double)z[v] + lz);
    }
    for (size_t b = 0; l->hidden > 0 && b < BLOCKS; b++) {
        double off = 0, all = 0;
        for (size_t i = 0; i < windows * WINDOW * width; i++) {
            off += pow((double)s[b][i] - (double)u[b][i], 2);
            all += pow((double)u[b][i], 2);
        }
        hidden += off / all / BLOCKS;
    }
    if (l->relations > 0)
        sum = l->relations * plain_relations(r, s[BLOCKS - 2], u[BLOCKS - 2]) *
              (double)(windows * (WINDOW - 1));
    return sum / (double)(windows * (WINDOW - 1)) + l->hidden * hidden;
}

static const pare_losses mixes[] = {{.ce = 1, .temperature = 1},
                                    {.kl = 1, .temperature = 1},
                                    {.ce = .5, .kl = 2, .hidden = 3, .temperature = 1},
                                    {.relations = 1, .pieces = 2}};

START_TEST(loss_and_gradients_are_those_of_a_plain_one)
{
    rig r;
    rig_begin(&r, 2);
    const pare_losses l = mixes[_i];
    r.data.windows =
        l.hidden > 0 ? 22 : WINDOWS; /* one lot, whose hidden states are compared; two */
    const pare_train_opts o = one_step(l, r.data.windows);
    const double before = plain_loss(&r, &l);
    static float was[LEAVES][4000];
    for (size_t i = 0; i < LEAVES; i++)
        memcpy(was[i], r.leaf[i].value, r.leaf[i].count * sizeof(float));
    ck_assert_int_eq(train(&r, &o), PARE_OK);
    hashed_near("loss", r.last.loss, before, 2e-6);
    double dot = 0, square = 0;
    for (size_t i = 0; i < LEAVES; i++)
        for (size_t j = 0; j < r.leaf[i].count; j++) {
            const double g = (double)was[i][j] - (double)r.leaf[i].value[j];
            ck_assert(j % 2 || g == 0);
            square += g * g;
        }
    hashed_near("norm", r.last.norm, sqrt(square), 1e-4);
    /* along the gradient the loss changes by its square; along signs by their product with it */
    for (unsigned way = 0; way < 3; way++) {
        double side[2];
        const double step = way ? 1e-4 : 1e-3 / sqrt(square);
        dot = 0;
        for (size_t s = 0; s < 2; s++) {
            for (size_t i = 0; i < LEAVES; i++)
                for (size_t j = 0; j < r.leaf[i].count; j++) {
                    const double g = (double)was[i][j] - (double)r.leaf[i].value[j];
                    const double to = way == 0                                  ? g
                                      : j % 2 == 0                              ? 0
                                      : hashed(way * 100000 + i * 5000 + j) > 0 ? 1
                                                                                : -1;
                    dot += s ? 0 : to * g;
                    r.leaf[i].gradient[j] = (float)((double)was[i][j] + (s ? -step : step) * to);
                }
            for (size_t i = 0; i < LEAVES; i++) { /* values and moved ones change places */
                float *const value = floats(&r.home.arena, r.leaf[i].count);
                memcpy(value, r.leaf[i].value, r.leaf[i].count * sizeof *value);
                memcpy(r.leaf[i].value, r.leaf[i].gradient, r.leaf[i].count * sizeof *value);
                memcpy(r.leaf[i].gradient, value, r.leaf[i].count * sizeof *value);
            }
            side[s] = plain_loss(&r, &l);
            for (size_t i = 0; i < LEAVES; i++)
                memcpy(r.leaf[i].value, r.leaf[i].gradient, r.leaf[i].count * sizeof(float));
        }
        hashed_near("slope", (side[0] - side[1]) / (2 * step), dot, 2e-3 * fmax(.05, fabs(dot)));
    }
    tiny_end(&r.home);
}
END_TEST

static bool is_any(void *self, size_t block, const pare_leaf *leaf)
{
    (void)self;
    (void)block;
    (void)leaf;
    return true;
}

/* The rig with every leaf trained, embeddings, norms and head too; a teacher of one block. */
static void rig_begin_whole(rig *r, bool tied)
{
    rig_begin(r, 2);
    pare_arena *const a = &r->home.arena;
    const pare_choice all = {.wants = is_any};
    r->student.config.tied = tied;
    if (tied)
        r->student.head = r->student.embed;
    ck_assert_int_eq(pare_trainee_take(&r->home.cx, a, &r->student, &all, &r->trainee), PARE_OK);
    ck_assert(r->trainee.tables);
    ck_assert_uint_eq(r->trainee.leaves, LEAVES + 3 * BLOCKS + (tied ? 2 : 3));
    r->leaf = r->trainee.leaf;
    for (size_t i = 0; i < r->trainee.leaves; i++)
        r->leaf[i].keeps_zeros = false;
    ck_assert_ptr_eq(r->student.head.floats == r->student.embed.floats ? &r->student : NULL,
                     tied ? &r->student : NULL);
    r->teacher.config.blocks = 1;
}

/* Means over the rows that have a next token of CE and of KL to a teacher of one block. */
static double whole_loss(rig *r)
{
    const size_t windows = r->data.windows;
    float *s[BLOCKS], *u[BLOCKS];
    const float *z = plain_forward(r, &r->student_f, s), *t = plain_forward(r, &r->teacher_f, u);
    double sum = 0;
    for (size_t i = 0; i < windows * WINDOW; i++, z += TINY_VOCAB, t += TINY_VOCAB) {
        if (i % WINDOW == WINDOW - 1)
            continue;
        const double lz = plain_lse(z), lt = plain_lse(t);
        sum += lz - (double)z[r->data.token[i + 1]];
        for (size_t v = 0; v < TINY_VOCAB; v++)
            sum += exp((double)t[v] - lt) * ((double)t[v] - lt - (double)z[v] + lz);
    }
    return sum / (double)(windows * (WINDOW - 1));
}

/* Along the gradient of each leaf alone the loss changes by its square. */
START_TEST(every_leaf_has_its_gradient)
{
    rig r;
    rig_begin_whole(&r, _i == 1);
    const pare_train_opts o = one_step((pare_losses){.ce = 1, .kl = 1, .temperature = 1}, 3);
    r.data.windows = 3;
    const size_t leaves = r.trainee.leaves;
    float **const was = tiny_take(&r.home.arena, leaves, sizeof *was);
    for (size_t i = 0; i < leaves; i++) {
        was[i] = floats(&r.home.arena, r.leaf[i].count);
        memcpy(was[i], r.leaf[i].value, r.leaf[i].count * sizeof(float));
    }
    const double before = whole_loss(&r);
    ck_assert_int_eq(train(&r, &o), PARE_OK);
    hashed_near("loss", r.last.loss, before, 2e-6);
    float **const g = tiny_take(&r.home.arena, leaves, sizeof *g);
    for (size_t i = 0; i < leaves; i++) {
        g[i] = floats(&r.home.arena, r.leaf[i].count);
        for (size_t j = 0; j < r.leaf[i].count; j++)
            g[i][j] = was[i][j] - r.leaf[i].value[j];
        memcpy(r.leaf[i].value, was[i], r.leaf[i].count * sizeof(float));
    }
    for (size_t i = 0; i < leaves; i++) {
        double square = 0, side[2];
        for (size_t j = 0; j < r.leaf[i].count; j++)
            square += (double)g[i][j] * (double)g[i][j];
        ck_assert_double_gt(square, 1e-8);
        const double step = 3e-3 / sqrt(square);
        for (size_t s = 0; s < 2; s++) {
            for (size_t j = 0; j < r.leaf[i].count; j++)
                r.leaf[i].value[j] =
                    (float)((double)was[i][j] + (s ? -step : step) * (double)g[i][j]);
            side[s] = whole_loss(&r);
        }
        memcpy(r.leaf[i].value, was[i], r.leaf[i].count * sizeof(float));
        hashed_near("slope of a leaf", (side[0] - side[1]) / (2 * step), square,
                    .02 * square + 1e-5);
    }
    tiny_end(&r.home);
}
END_TEST

START_TEST(a_teacher_that_does_not_fit_is_refused)
{
    static const char *const says[] = {"a vocabulary of 52 tokens",
                                       "needs a projection between them", "there is none",
                                       "block 1 of the teacher has a recurrent state",
                                       "block 0 of the teacher has a recurrent state"};
    rig r;
    pare_train_opts o = usual();
    rig_begin(&r, 1);
    if (_i == 0)
        r.teacher.config.vocab = 52;
    if (_i == 1) {
        r.teacher.config.hidden += 2;
        o.losses = (pare_losses){.hidden = 1, .temperature = 1};
    }
    if (_i == 2)
        r.trainee.teacher = NULL;
    if (_i == 3 || _i == 4) {
        r.teacher.config.mixed = true;
        pare_blocks_add(r.teacher.config.recurrent, _i == 3);
        o.losses = (pare_losses){.relations = _i == 3, .attention = _i == 4, .temperature = 1};
    }
    ck_assert_int_eq(train(&r, &o), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(r.home.cx.what, says[_i]));
    tiny_end(&r.home);
}
END_TEST

START_TEST(training_lowers_the_loss_and_zeros_stay)
{
    rig r;
    rig_begin(&r, 2);
    const pare_train_opts o = usual();
    ck_assert_int_eq(train(&r, &o), PARE_OK);
    ck_assert_uint_eq(r.last.step, 12);
    ck_assert_double_lt(r.last.loss, .8 * r.first_loss);
    for (size_t i = 0; i < LEAVES; i++)
        for (size_t j = 0; j < r.leaf[i].count; j++)
            ck_assert((j % 2 == 0) == (r.leaf[i].value[j] == 0));
    tiny_end(&r.home);
}
END_TEST

START_TEST(bytes_are_the_same_for_any_number_of_threads)
{
    rig r[2];
    const pare_train_opts o = usual();
    for (size_t i = 0; i < 2; i++) {
        rig_begin(&r[i], i ? 5 : 1);
        ck_assert_int_eq(train(&r[i], &o), PARE_OK);
    }
    ck_assert_double_eq(r[0].last.loss, r[1].last.loss);
    for (size_t i = 0; i < LEAVES; i++)
        ck_assert_mem_eq(r[0].leaf[i].value, r[1].leaf[i].value,
                         r[0].leaf[i].count * sizeof(float));
    tiny_end(&r[0].home);
    tiny_end(&r[1].home);
}
END_TEST

/* Each leaf's gradient of one step, with products in BF16 and in F32. */
START_TEST(bf16_gradients_are_off_by_rounding)
{
    rig r[2];
    static float was[LEAVES + 3 * BLOCKS + 3][4000];
    const pare_losses l = {.ce = 1, .kl = 1, .temperature = 1};
    for (size_t k = 0; k < 2; k++) {
        pare_train_opts o = one_step(l, WINDOWS);
        o.bf16 = k;
        rig_begin_whole(&r[k], false);
        for (size_t i = 0; i < r[k].trainee.leaves; i++) {
            ck_assert_uint_le(r[k].leaf[i].count, 4000);
            memcpy(was[i], r[k].leaf[i].value, r[k].leaf[i].count * sizeof(float));
        }
        ck_assert_int_eq(train(&r[k], &o), PARE_OK);
    }
    ck_assert_double_ne(r[0].last.loss, r[1].last.loss);
    hashed_near("loss", r[1].last.loss, r[0].last.loss, 1e-2);
    for (size_t i = 0; i < r[0].trainee.leaves; i++) {
        double square = 0, off = 0;
        for (size_t j = 0; j < r[0].leaf[i].count; j++) {
            const double g = (double)was[i][j] - (double)r[0].leaf[i].value[j];
            const double h = (double)was[i][j] - (double)r[1].leaf[i].value[j];
            square += g * g;
            off += (g - h) * (g - h);
        }
        ck_assert_msg(off > 1e-8 * square && off < 1e-3 * square, "leaf %zu: %g of %g", i,
                      sqrt(off), sqrt(square));
    }
    tiny_end(&r[0].home);
    tiny_end(&r[1].home);
}
END_TEST

/* With what blocks computed kept, and with the layers' losses that tap them. */
START_TEST(bytes_are_the_same_with_less_memory)
{
    rig r[2];
    pare_train_opts o = usual();
    o.bf16 = _i;
    o.losses = (pare_losses){
        .kl = 1, .sinkhorn = 1, .hidden = 1, .relations = 1, .attention = 1, .temperature = 1};
    for (size_t i = 0; i < 2; i++) {
        o.keep = i;
        rig_begin(&r[i], i ? 5 : 1);
        ck_assert_int_eq(train(&r[i], &o), PARE_OK);
    }
    ck_assert_double_eq(r[0].last.loss, r[1].last.loss);
    for (size_t i = 0; i < LEAVES; i++)
        ck_assert_mem_eq(r[0].leaf[i].value, r[1].leaf[i].value,
                         r[0].leaf[i].count * sizeof(float));
    tiny_end(&r[0].home);
    tiny_end(&r[1].home);
}
END_TEST

START_TEST(what_diverges_stops)
{
    rig r;
    rig_begin(&r, 1);
    pare_train_opts o = usual();
    if (_i == 0) {
        r.leaf[3].value[1] = INFINITY;
    } else { /* from close by */
        for (size_t i = 0; i < LEAVES; i++)
            for (size_t j = 0; j < r.leaf[i].count; j++) {
                const pare_linear *const l =
                    &r.teacher.block[i / PARE_COMMON_ROLES].linear[i % PARE_COMMON_ROLES];
                r.leaf[i].value[j] = 1.1F * ((const float *)l->data)[j];
            }
        o.schedule = (pare_schedule){.peak = 1e4, .last = 1e4, .steps = 9};
    }
    ck_assert_int_eq(train(&r, &o), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(r.home.cx.what, "train with a smaller rate"));
    tiny_end(&r.home);
}
END_TEST

static bool on_grid(void *self, size_t block, const pare_leaf *leaf, pare_grid *grid)
{
    (void)block;
    (void)leaf;
    *grid = *(const pare_grid *)self;
    return true;
}

/* The rig with codes in place, on a grid fitted to its weights. */
static void rig_begin_aware(rig *r, size_t threads, pare_grid grid)
{
    rig_begin(r, threads);
    pare_arena *const a = &r->home.arena;
    const pare_choice codes = {.wants = is_matrix, .grid = on_grid, .self = &grid};
    ck_assert_int_eq(pare_trainee_take(&r->home.cx, a, &r->student, &codes, &r->trainee), PARE_OK);
    ck_assert_uint_eq(r->trainee.awares, LEAVES);
    ck_assert_uint_eq(r->trainee.leaves,
                      pare_encodings[grid.encoding].uniform ? 2 * LEAVES : LEAVES);
    r->leaf = r->trainee.leaf;
    for (size_t i = 0; i < LEAVES; i++) {
        pare_aware *const t = &r->trainee.aware[i];
        r->leaf[i].keeps_zeros = false;
        ck_assert_int_eq(pare_scales_fit(&r->home.cx, &grid, t->master->value, NULL, t->codes.n,
                                         t->codes.k, &t->codes),
                         PARE_OK);
        if (t->step)
            memcpy(t->step->value, t->codes.scales, t->step->count * sizeof(float));
    }
    ck_assert_int_eq(pare_trainee_round(&r->home.cx, &r->trainee), PARE_OK);
}

static const pare_grid grids[] = {
    {.bits = 3, .group = 32, .symmetric = true, .f16_scales = true},
    {.bits = 2, .f16_scales = true},
    {.bits = 2, .encoding = PARE_ENCODING_TERNARY, .f16_scales = true, .tensor = true},
};
enum { GRIDS = sizeof grids / sizeof *grids };

/* What comes back to masters and steps is what a model of these values as floats has as its
 * gradient, taken back by the grid. */
START_TEST(gradients_of_codes_are_those_of_their_values)
{
    rig r, plain;
    const pare_train_opts o = one_step((pare_losses){.ce = 1, .temperature = 1}, 8);
    rig_begin_aware(&r, 2, grids[_i]);
    rig_begin(&plain, 2);
    r.data.windows = plain.data.windows = 8;
    for (size_t i = 0; i < LEAVES; i++) {
        plain.leaf[i].keeps_zeros = false;
        memcpy(plain.leaf[i].value, r.trainee.aware[i].seen, plain.leaf[i].count * sizeof(float));
    }
    pare_train_state state = {0};
    const pare_train_watch watch = {0};
    /* only the gradient is looked at: the step goes nowhere */
    pare_train_opts still = o;
    still.schedule.peak = 0;
    still.adamw = (pare_adamw){.beta1 = 0, .beta2 = 0, .eps = 1};
    ck_assert_int_eq(pare_train(&plain.home.cx, &plain.home.arena, &plain.trainee, &plain.data,
                                &still, &state, &watch),
                     PARE_OK);
    state = (pare_train_state){0};
    ck_assert_int_eq(
        pare_train(&r.home.cx, &r.home.arena, &r.trainee, &r.data, &still, &state, &watch),
        PARE_OK);
    for (size_t i = 0; i < LEAVES; i++) { /* m is the gradient: beta1 is 0 */
        pare_aware *const t = &r.trainee.aware[i];
        memcpy(t->master->gradient, plain.leaf[i].m, t->master->count * sizeof(float));
        pare_aware_gradient(&r.home.cx, t);
        ck_assert_mem_eq(t->master->gradient, t->master->m, t->master->count * sizeof(float));
        size_t some = 0;
        for (size_t j = 0; j < t->master->count; j++)
            some += t->master->m[j] != 0;
        ck_assert_uint_gt(some, t->master->count / 4);
        if (t->step)
            ck_assert_mem_eq(t->step->gradient, t->step->m, t->step->count * sizeof(float));
    }
    tiny_end(&r.home);
    tiny_end(&plain.home);
}
END_TEST

/* The loss falls, for any number of threads alike, and what the student reads are values of the
 * codes with the scales of the last step. */
START_TEST(codes_are_trained_and_are_what_the_student_reads)
{
    rig r[2];
    pare_train_opts o = usual();
    o.schedule = (pare_schedule){.peak = 3e-3, .last = 1e-3, .warmup = 2, .steps = 16};
    for (size_t i = 0; i < 2; i++) {
        rig_begin_aware(&r[i], i ? 5 : 1, grids[_i]);
        ck_assert_int_eq(train(&r[i], &o), PARE_OK);
    }
    ck_assert_double_lt(r[0].last.loss, .8 * r[0].first_loss);
    for (size_t i = 0; i < r[0].trainee.leaves; i++)
        ck_assert_mem_eq(r[0].leaf[i].value, r[1].leaf[i].value,
                         r[0].leaf[i].count * sizeof(float));
    for (size_t i = 0; i < LEAVES; i++) {
        const pare_aware *const t = &r[0].trainee.aware[i];
        const pare_linear *const l =
            &r[0].student.block[i / PARE_COMMON_ROLES].linear[i % PARE_COMMON_ROLES];
        float *const q = floats(&r[0].home.arena, t->master->count);
        ck_assert_ptr_eq(l->floats, t->seen);
        pare_codes_values(&grids[_i], &t->codes, q);
        ck_assert_mem_eq(q, t->seen, t->master->count * sizeof *q);
        for (size_t g = 0; t->step && g < t->step->count; g++)
            ck_assert_float_eq(t->codes.scales[g], pare_f16_scale(t->step->value[g]));
    }
    tiny_end(&r[0].home);
    tiny_end(&r[1].home);
}
END_TEST

static bool is_wanted(void *self, size_t block, const pare_leaf *leaf)
{
    (void)self;
    return block == 1 && (leaf->kind == PARE_LEAF_NORM ||
                          (leaf->kind == PARE_LEAF_WEIGHT && leaf->index == PARE_ROLE_DOWN));
}

/* Values as they were, in floats of the leaf, where the model finds them; norms keep no zeros. */
START_TEST(leaves_are_taken_in_their_order)
{
    rig r;
    pare_trainee t;
    const pare_choice some = {.wants = is_wanted};
    rig_begin(&r, 2);
    pare_model m = tiny_model(&r.home.arena, (tiny_kind){.dtype = PARE_F16});
    m.config.arch = pare_arch_find("llama");
    const pare_linear down = m.block[1].linear[PARE_ROLE_DOWN];
    const float *const norm = m.block[1].norm[1];
    float *const w = floats(&r.home.arena, down.n * down.k);
    pare_linear_to_f32(&r.home.cx, &down, w);
    ck_assert_int_eq(pare_trainee_take(&r.home.cx, &r.home.arena, &m, &some, &t), PARE_OK);
    const pare_trained *const leaf = t.leaf;
    ck_assert_uint_eq(t.leaves, 3);
    ck_assert_ptr_eq(m.block[1].norm[0], leaf[0].value);
    ck_assert_ptr_eq(m.block[1].norm[1], leaf[1].value);
    ck_assert_ptr_eq(m.block[1].linear[PARE_ROLE_DOWN].floats, leaf[2].value);
    ck_assert_uint_eq(leaf[1].count, m.config.hidden);
    ck_assert_mem_eq(leaf[1].value, norm, leaf[1].count * sizeof *norm);
    ck_assert(!leaf[1].decays && !leaf[1].keeps_zeros);
    ck_assert_uint_eq(leaf[2].count, down.n * down.k);
    ck_assert_mem_eq(leaf[2].value, w, leaf[2].count * sizeof *w);
    ck_assert(leaf[2].decays && leaf[2].keeps_zeros);
    tiny_end(&r.home);
}
END_TEST

START_TEST(what_cannot_be_learned_from_is_refused)
{
    static const struct {
        size_t windows, window, batch;
        double kl;
        const char *says;
    } bad[] = {{9, 1, 4, 1, "take windows of at least 2"},
               {0, 9, 4, 1, "no windows"},
               {9, 9, 0, 1, "a step of 0 windows"},
               {9, 9, 4, 0, "all losses have weight 0"}};
    rig r;
    pare_train_opts o = usual();
    rig_begin(&r, 1);
    r.data.windows = bad[_i].windows;
    r.data.window = bad[_i].window;
    o.batch = bad[_i].batch;
    o.losses.kl = bad[_i].kl;
    ck_assert_int_eq(train(&r, &o), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(r.home.cx.what, bad[_i].says));
    tiny_end(&r.home);
}
END_TEST

/* With all that is planned, and with less; with what blocks computed kept, and without, in
 * F32 and BF16. */
START_TEST(it_keeps_to_its_memory)
{
    rig r;
    rig_begin(&r, 2);
    pare_train_opts o = usual();
    o.losses = (pare_losses){.ce = 1,
                             .jsd = 1,
                             .sinkhorn = 1,
                             .hidden = 1,
                             .relations = 1,
                             .attention = 1,
                             .temperature = 1,
                             .beta = .5};
    o.batch = WINDOWS;
    o.schedule.steps = 2;
    o.keep = _i & 1;
    o.bf16 = _i & 2;
    check_memory(&r, &o, LEAVES);
    tiny_end(&r.home);
}
END_TEST

/* What was reported of a training, and how much of it lay within its first step. */
typedef struct reports {
    const char *what;
    double last;
    size_t within;
} reports;

static void report(void *self, const char *what, double done, double total)
{
    reports *const r = self;
    ck_assert_str_eq(what, r->what);
    ck_assert_double_ge(done, r->last);
    ck_assert_double_le(done, total);
    r->within += done > 0 && done < 1;
    r->last = done;
}

/* Blocks there and back, in two lots, with what they computed kept or computed again. */
START_TEST(a_long_step_says_how_far_it_is)
{
    rig r;
    pare_train_opts o = one_step((pare_losses){.ce = 1, .temperature = 1}, WINDOWS);
    reports said = {.what = "timing"};
    rig_begin(&r, 2);
    o.keep = _i == 1;
    o.what = said.what;
    r.home.cx.progress = (pare_progress){.report = report, .self = &said};
    ck_assert_int_eq(train(&r, &o), PARE_OK);
    ck_assert_uint_ge(said.within, 2 * BLOCKS - 1);
    ck_assert_double_lt(said.last, 1);
    tiny_end(&r.home);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("train");
    TCase *const t = tcase_create("train");
    tcase_add_loop_test(t, loss_and_gradients_are_those_of_a_plain_one, 0,
                        sizeof mixes / sizeof *mixes);
    tcase_add_loop_test(t, every_leaf_has_its_gradient, 0, 2);
    tcase_add_loop_test(t, a_teacher_that_does_not_fit_is_refused, 0, 5);
    tcase_add_test(t, training_lowers_the_loss_and_zeros_stay);
    tcase_add_test(t, bytes_are_the_same_for_any_number_of_threads);
    tcase_add_test(t, bf16_gradients_are_off_by_rounding);
    tcase_add_loop_test(t, bytes_are_the_same_with_less_memory, 0, 2);
    tcase_add_loop_test(t, what_diverges_stops, 0, 2);
    tcase_add_loop_test(t, gradients_of_codes_are_those_of_their_values, 0, GRIDS);
    tcase_add_loop_test(t, codes_are_trained_and_are_what_the_student_reads, 0, GRIDS);
    tcase_add_loop_test(t, a_long_step_says_how_far_it_is, 0, 2);
    tcase_add_test(t, leaves_are_taken_in_their_order);
    tcase_add_loop_test(t, what_cannot_be_learned_from_is_refused, 0, 4);
    tcase_add_loop_test(t, it_keeps_to_its_memory, 0, 4);
    suite_add_tcase(s, t);
    return unit_main(s);
}
