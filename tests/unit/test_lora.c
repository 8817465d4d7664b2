/* Adapters on the tiny model: the matrix they make against sums in double, their gradients against
 * differences of the loss, and what stays as it was. */
#include "tests/unit/train_rig.h"

enum { RANK = 3, ADAPTED = BLOCKS * (PARE_COMMON_ROLES - 1), STEPS = 12 };

static bool all_but_k(void *self, size_t block, const pare_leaf *leaf)
{
    (void)self;
    (void)block;
    return leaf->index != PARE_ROLE_K || leaf->kind != PARE_LEAF_WEIGHT;
}

/* The rig with adapters beside all linears but those of the keys; the student lies in `dtype`. */
static void rig_begin_lora(rig *r, size_t threads, pare_dtype dtype, bool root)
{
    const pare_choice choice = {.wants = all_but_k};
    const pare_lora_opts o = {.rank = RANK, .alpha = 6, .root = root, .seed = 3};
    rig_begin(r, threads);
    pare_arena *const a = &r->home.arena;
    r->student = tiny_model(a, (tiny_kind){.dtype = dtype});
    r->student.config.arch = pare_arch_find("llama");
    ck_assert_int_eq(pare_trainee_adapt(a, &r->student, &choice, &o, &r->trainee), PARE_OK);
    ck_assert_uint_eq(r->trainee.loras, ADAPTED);
    ck_assert_uint_eq(r->trainee.leaves, 2 * ADAPTED);
    ck_assert(!r->trainee.tables && r->trainee.awares == 0);
    r->leaf = r->trainee.leaf;
    ck_assert_int_eq(pare_trainee_round(&r->home.cx, &r->trainee), PARE_OK);
}

/* B away from 0. */
static void move_b(rig *r)
{
    for (size_t i = 0; i < ADAPTED; i++)
        for (size_t j = 0; j < r->leaf[2 * i + 1].count; j++)
            r->leaf[2 * i + 1].value[j] = .05F * hashed(i * 1000 + j);
    ck_assert_int_eq(pare_trainee_round(&r->home.cx, &r->trainee), PARE_OK);
}

static const pare_dtype types[] = {PARE_F32, PARE_F16, PARE_BF16};

START_TEST(at_first_the_model_is_what_it_was)
{
    rig r;
    float *stream[BLOCKS];
    rig_begin_lora(&r, 2, types[_i], false);
    pare_arena *const a = &r.home.arena;
    r.data.windows = 2;
    const size_t logits = r.data.windows * WINDOW * TINY_VOCAB * sizeof(float);
    const pare_model plain = tiny_model(a, (tiny_kind){.dtype = types[_i]});
    pare_forward f;
    ck_assert_int_eq(pare_forward_init(&r.home.cx, a, &plain, WINDOW, false, &f), PARE_OK);
    const float *const was = plain_forward(&r, &f, stream);
    const float *const is = plain_forward(&r, &r.student_f, stream);
    ck_assert_mem_eq(was, is, logits);
    for (size_t i = 0; i < ADAPTED; i++) {
        const pare_lora *const l = &r.trainee.lora[i];
        const double bound = 1 / sqrt((double)l->base.k);
        double most = 0, sum = 0;
        for (size_t j = 0; j < l->a->count; j++) {
            most = fmax(most, fabs((double)l->a->value[j]));
            sum += (double)l->a->value[j];
        }
        ck_assert(most <= bound && most > .8 * bound);
        ck_assert_double_lt(fabs(sum) / (double)l->a->count, .2 * bound);
        for (size_t j = 0; j < l->b->count; j++)
            ck_assert(l->b->value[j] == 0);
        ck_assert(l->a->decays && l->b->decays && !l->a->keeps_zeros && !l->b->keeps_zeros);
    }
    move_b(&r);
    ck_assert_mem_ne(was, plain_forward(&r, &r.student_f, stream), logits);
    tiny_end(&r.home);
}
END_TEST

/* W + s B A, s = 6 / 3 or 6 / sqrt(3). */
START_TEST(the_matrix_is_that_of_the_formula)
{
    rig r;
    rig_begin_lora(&r, 2, types[_i / 2], _i % 2);
    move_b(&r);
    const double s = _i % 2 ? 6 / sqrt(3) : 2;
    for (size_t i = 0; i < ADAPTED; i++) {
        const pare_lora *const l = &r.trainee.lora[i];
        const size_t n = l->base.n, k = l->base.k;
        float *const w = floats(&r.home.arena, n * k);
        pare_linear_to_f32(&r.home.cx, &l->base, w);
        for (size_t row = 0; row < n; row++)
            for (size_t j = 0; j < k; j++) {
                double sum = (double)w[row * k + j];
                for (size_t q = 0; q < RANK; q++)
                    sum += s * (double)l->b->value[row * RANK + q] * (double)l->a->value[q * k + j];
                hashed_near("a weight", (double)l->seen[row * k + j], sum, 2e-6);
            }
    }
    tiny_end(&r.home);
}
END_TEST

/* The mean of the cross-entropy over the rows that have a next token. */
static double plain_loss(rig *r)
{
    const size_t windows = r->data.windows;
    float *stream[BLOCKS];
    const float *z = plain_forward(r, &r->student_f, stream);
    double sum = 0;
    for (size_t i = 0; i < windows * WINDOW; i++, z += TINY_VOCAB)
        if (i % WINDOW != WINDOW - 1)
            sum += plain_lse(z) - (double)z[r->data.token[i + 1]];
    return sum / (double)(windows * (WINDOW - 1));
}

/* The loss with leaf i moved by `far` times its gradient g. */
static double moved_loss(rig *r, size_t i, const float *g, double far)
{
    pare_trained *const l = &r->leaf[i];
    float *const was = floats(&r->home.arena, l->count);
    memcpy(was, l->value, l->count * sizeof *was);
    for (size_t j = 0; j < l->count; j++)
        l->value[j] = (float)((double)was[j] + far * (double)g[j]);
    ck_assert_int_eq(pare_trainee_round(&r->home.cx, &r->trainee), PARE_OK);
    const double loss = plain_loss(r);
    memcpy(l->value, was, l->count * sizeof *was);
    return loss;
}

/* Along the gradient of each A and each B alone the loss changes by its square; the norm is of
 * these alone. */
START_TEST(gradients_are_differences_of_the_loss)
{
    rig r;
    rig_begin_lora(&r, 2, types[_i], true);
    r.data.windows = 3;
    move_b(&r);
    const pare_train_opts o = one_step((pare_losses){.ce = 1, .temperature = 1}, 3);
    float *was[2 * ADAPTED], *g[2 * ADAPTED];
    double all = 0;
    for (size_t i = 0; i < 2 * ADAPTED; i++) {
        const size_t bytes = r.leaf[i].count * sizeof(float);
        g[i] = floats(&r.home.arena, r.leaf[i].count);
        was[i] = memcpy(floats(&r.home.arena, r.leaf[i].count), r.leaf[i].value, bytes);
    }
    const double before = plain_loss(&r);
    ck_assert_int_eq(train(&r, &o), PARE_OK);
    hashed_near("loss", r.last.loss, before, 2e-6);
    for (size_t i = 0; i < 2 * ADAPTED; i++) {
        for (size_t j = 0; j < r.leaf[i].count; j++) {
            g[i][j] = was[i][j] - r.leaf[i].value[j];
            all += (double)g[i][j] * (double)g[i][j];
        }
        memcpy(r.leaf[i].value, was[i], r.leaf[i].count * sizeof(float));
    }
    hashed_near("norm", r.last.norm, sqrt(all), 1e-4);
    for (size_t i = 0; i < 2 * ADAPTED; i++) {
        double square = 0;
        for (size_t j = 0; j < r.leaf[i].count; j++)
            square += (double)g[i][j] * (double)g[i][j];
        ck_assert_double_gt(square, 1e-8);
        const double step = 3e-3 / sqrt(square);
        hashed_near("slope of a leaf",
                    (moved_loss(&r, i, g[i], step) - moved_loss(&r, i, g[i], -step)) / (2 * step),
                    square, .02 * square + 1e-5);
    }
    tiny_end(&r.home);
}
END_TEST

static pare_train_opts lora_opts(void)
{
    pare_train_opts o = usual();
    o.losses = (pare_losses){.ce = .5, .kl = 1, .temperature = 1};
    o.schedule.peak = 2e-2;
    o.adamw.decay = .1;
    return o;
}

static void same_leaves(const rig *x, const rig *y)
{
    for (size_t i = 0; i < 2 * ADAPTED; i++) {
        const size_t bytes = x->leaf[i].count * sizeof(float);
        ck_assert_mem_eq(x->leaf[i].value, y->leaf[i].value, bytes);
        ck_assert_mem_eq(x->leaf[i].v, y->leaf[i].v, bytes);
    }
    for (size_t i = 0; i < ADAPTED; i++)
        ck_assert_mem_eq(x->trainee.lora[i].seen, y->trainee.lora[i].seen,
                         x->trainee.lora[i].base.n * x->trainee.lora[i].base.k * sizeof(float));
}

START_TEST(bytes_are_the_same_for_any_number_of_threads)
{
    static const size_t threads[] = {1, 2, 5};
    rig r[3];
    pare_train_opts o = lora_opts();
    o.bf16 = _i;
    for (size_t i = 0; i < 3; i++) {
        o.keep = i == 1;
        rig_begin_lora(&r[i], threads[i], PARE_F16, false);
        ck_assert_int_eq(train(&r[i], &o), PARE_OK);
        same_leaves(&r[0], &r[i]);
    }
    for (size_t i = 0; i < 3; i++)
        tiny_end(&r[i].home);
}
END_TEST

static uint64_t mix(uint64_t hash, const float *value, size_t count)
{
    for (size_t i = 0; value && i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &value[i], sizeof bits);
        hash = (hash ^ bits) * 1099511628211u;
    }
    return hash;
}

/* Of all that is no adapter: W of those, and every other leaf, F32. */
static uint64_t hash_rest(const rig *r)
{
    const pare_model *const m = &r->student;
    const size_t each = pare_block_leaves(&m->config), inside = BLOCKS * each;
    uint64_t hash = 0;
    for (size_t i = 0; i < inside + PARE_MODEL_LEAVES; i++) {
        const pare_leaf leaf = i < inside
                                   ? pare_block_leaf(&m->config, &m->block[i / each], i % each)
                                   : pare_model_leaf(m, i - inside);
        const bool adapted = i < inside && leaf.linear && all_but_k(NULL, 0, &leaf);
        if (leaf.name && !adapted)
            hash = mix(hash, pare_leaf_floats(&leaf), leaf.n * leaf.k);
    }
    for (size_t i = 0; i < ADAPTED; i++) {
        const pare_linear *const w = &r->trainee.lora[i].base;
        hash = mix(hash, w->floats, w->n * w->k);
    }
    return hash;
}

START_TEST(training_lowers_the_loss_and_moves_adapters_alone)
{
    rig r;
    rig_begin_lora(&r, 2, PARE_F32, false);
    /* a teacher that is not the student */
    for (size_t b = 0; b < BLOCKS; b++)
        for (size_t i = 0; i < r.teacher.config.hidden; i++)
            r.teacher.block[b].norm[0][i] *= .5F;
    const uint64_t before = hash_rest(&r);
    const pare_train_opts o = lora_opts();
    ck_assert_int_eq(train(&r, &o), PARE_OK);
    ck_assert_uint_eq(r.last.step, STEPS);
    ck_assert_double_lt(r.last.loss, .95 * r.first_loss);
    ck_assert(hash_rest(&r) == before);
    for (size_t i = 0; i < ADAPTED; i++) {
        const pare_trained *const b = r.trainee.lora[i].b;
        size_t moved = 0;
        for (size_t j = 0; j < b->count; j++)
            moved += b->value[j] != 0;
        ck_assert_uint_gt(moved, b->count / 2);
    }
    tiny_end(&r.home);
}
END_TEST

static pare_status stop(void *self, const pare_train_step *s)
{
    (void)self;
    return s->step == 5 ? PARE_EINTERRUPTED : PARE_OK;
}

/* What the model reads is made again from A and B. */
START_TEST(a_training_goes_on_from_its_leaves)
{
    rig r[2];
    const pare_train_opts o = lora_opts();
    pare_train_state state = {0};
    for (size_t i = 0; i < 2; i++)
        rig_begin_lora(&r[i], 2, PARE_F16, false);
    ck_assert_int_eq(train(&r[0], &o), PARE_OK);
    ck_assert_int_eq(pare_train(&r[1].home.cx, &r[1].home.arena, &r[1].trainee, &r[1].data, &o,
                                &state, &(pare_train_watch){stop, NULL}),
                     PARE_EINTERRUPTED);
    ck_assert_uint_eq(state.steps, 5);
    for (size_t i = 0; i < ADAPTED; i++)
        r[1].trainee.lora[i].seen[i] = 77;
    pare_ctx_clear(&r[1].home.cx);
    ck_assert_int_eq(pare_train(&r[1].home.cx, &r[1].home.arena, &r[1].trainee, &r[1].data, &o,
                                &state, &(pare_train_watch){0}),
                     PARE_OK);
    same_leaves(&r[0], &r[1]);
    for (size_t i = 0; i < 2; i++)
        tiny_end(&r[i].home);
}
END_TEST

START_TEST(it_keeps_to_its_memory)
{
    rig r;
    rig_begin_lora(&r, 2, types[_i / 2], false);
    pare_train_opts o = lora_opts();
    o.batch = WINDOWS;
    o.schedule.steps = 2;
    o.keep = _i % 2;
    o.adapters = true;
    check_memory(&r, &o, r.trainee.leaves + r.trainee.loras);
    tiny_end(&r.home);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("lora");
    TCase *const t = tcase_create("lora");
    tcase_add_loop_test(t, at_first_the_model_is_what_it_was, 0, 3);
    tcase_add_loop_test(t, the_matrix_is_that_of_the_formula, 0, 6);
    tcase_add_loop_test(t, gradients_are_differences_of_the_loss, 0, 3);
    tcase_add_loop_test(t, bytes_are_the_same_for_any_number_of_threads, 0, 2);
    tcase_add_test(t, training_lowers_the_loss_and_moves_adapters_alone);
    tcase_add_test(t, a_training_goes_on_from_its_leaves);
    tcase_add_loop_test(t, it_keeps_to_its_memory, 0, 4);
    suite_add_tcase(s, t);
    return unit_main(s);
}
