/* tests/unit/train_rig.h - a teacher, a student and their data for the training loop. */
#ifndef PARE_TESTS_TRAIN_RIG_H
#define PARE_TESTS_TRAIN_RIG_H

#include "distill/train.h"
#include "tests/unit/hashed.h"
#include "tests/unit/tiny.h"

enum { WINDOWS = 30, WINDOW = 90, BLOCKS = 2, LEAVES = BLOCKS * PARE_COMMON_ROLES };

/* A teacher, and a student that is the teacher with half of its weights gone. */
typedef struct rig {
    tiny_home home;
    pare_model teacher, student;
    pare_forward teacher_f, student_f;
    pare_trained *leaf; /* [LEAVES] */
    pare_trainee trainee;
    pare_train_data data;
    pare_train_step last;
    double first_loss;
} rig;

static inline float *floats(pare_arena *a, size_t count)
{
    return tiny_take(a, count, sizeof(float));
}

static inline bool is_matrix(void *self, size_t block, const pare_leaf *leaf)
{
    (void)self;
    return block != PARE_OUTSIDE && leaf->linear != NULL;
}

static inline void rig_begin(rig *r, size_t threads)
{
    *r = (rig){0};
    tiny_begin(&r->home, threads);
    pare_arena *const a = &r->home.arena;
    r->teacher = tiny_model(a, (tiny_kind){.dtype = PARE_F32});
    r->student = tiny_model(a, (tiny_kind){.dtype = PARE_F32});
    r->teacher.config.arch = r->student.config.arch = pare_arch_find("llama");
    const pare_choice matrices = {.wants = is_matrix};
    ck_assert_int_eq(pare_trainee_take(&r->home.cx, a, &r->student, &matrices, &r->trainee),
                     PARE_OK);
    ck_assert_uint_eq(r->trainee.leaves, LEAVES);
    r->leaf = r->trainee.leaf;
    for (size_t i = 0; i < LEAVES; i++)
        for (size_t j = 0; j < r->leaf[i].count; j += 2)
            r->leaf[i].value[j] = 0;
    ck_assert_int_eq(pare_forward_init(&r->home.cx, a, &r->teacher, WINDOW, false, &r->teacher_f),
                     PARE_OK);
    ck_assert_int_eq(pare_forward_init(&r->home.cx, a, &r->student, WINDOW, false, &r->student_f),
                     PARE_OK);
    r->data = (pare_train_data){tiny_tokens(a, 1, WINDOWS * WINDOW), WINDOWS, WINDOW};
    r->trainee.student = &r->student_f;
    r->trainee.teacher = &r->teacher_f;
}

static inline pare_train_opts usual(void)
{
    return (pare_train_opts){.losses = {.kl = 1, .temperature = 1},
                             .adamw = {.beta1 = .9, .beta2 = .95, .eps = 1e-8, .clip = 1},
                             .schedule = {.peak = 1e-3, .last = 1e-4, .warmup = 2, .steps = 12},
                             .batch = 4,
                             .seed = 5};
}

static inline pare_status see(void *self, const pare_train_step *s)
{
    rig *const r = self;
    if (s->step == 1)
        r->first_loss = s->loss;
    ck_assert_uint_eq(s->step, r->last.step + 1);
    r->last = *s;
    return PARE_OK;
}

static inline pare_status train(rig *r, const pare_train_opts *o)
{
    pare_train_state state = {0};
    const pare_train_watch watch = {see, r};
    r->last = (pare_train_step){0};
    return pare_train(&r->home.cx, &r->home.arena, &r->trainee, &r->data, o, &state, &watch);
}

/* The most weights of a block that have a gradient, and those outside the blocks. */
static inline uint64_t widest(const pare_trainee *t)
{
    uint64_t block[BLOCKS] = {0}, most = 0, outside = 0;
    for (size_t i = 0; i < t->leaves; i++)
        *(t->leaf[i].block == PARE_OUTSIDE ? &outside : &block[t->leaf[i].block]) +=
            t->leaf[i].read ? t->leaf[i].count : 0;
    for (size_t i = 0; i < t->loras; i++)
        block[t->lora[i].a->block] += t->lora[i].base.n * t->lora[i].base.k;
    for (size_t b = 0; b < BLOCKS; b++)
        most = block[b] > most ? block[b] : most;
    return most + outside;
}

/* Trains within what pare_train_bytes says, and within nothing less; leaves: of the trainee, and
 * adapters. */
static inline void check_memory(rig *r, const pare_train_opts *o, size_t leaves)
{
    enum { PARTS = 12 };
    pare_arena own;
    pare_ctx *const cx = &r->home.cx;
    const size_t before = cx->live_bytes;
    ck_assert_int_eq(pare_arena_init(cx, &own, 0), PARE_OK);
    const size_t most = (size_t)pare_train_bytes(cx, &r->student.config, &r->teacher.config,
                                                 &r->data, o, leaves, widest(&r->trainee));
    for (size_t i = 1; i <= PARTS; i++) {
        pare_train_state state = {0};
        cx->limit_bytes = before + most * i / PARTS;
        const pare_status s =
            pare_train(cx, &own, &r->trainee, &r->data, o, &state, &(pare_train_watch){0});
        ck_assert_msg(s == PARE_OK || (s == PARE_ENOMEM && i < PARTS), "%zu: %s", i, cx->what);
        ck_assert_uint_eq(cx->live_bytes, before);
        pare_ctx_clear(cx);
    }
    cx->limit_bytes = 0;
    pare_arena_release(&own);
}

/* Logits of all windows, and the stream behind each block. */
static inline float *plain_forward(rig *r, const pare_forward *f, float **stream)
{
    pare_arena *const a = &r->home.arena;
    const pare_config *const c = &f->model->config;
    const size_t windows = r->data.windows, rows = windows * WINDOW;
    float *const x = floats(a, rows * c->hidden), *const z = floats(a, rows * c->vocab);
    const pare_batch batch = {windows, WINDOW, 0};
    pare_kv kv;
    ck_assert_int_eq(pare_embed_batch(&r->home.cx, f->model, r->data.token, batch, x), PARE_OK);
    for (size_t b = 0; b < c->blocks; b++) {
        ck_assert_int_eq(pare_kv_take(a, c, windows, WINDOW, &kv), PARE_OK);
        ck_assert_int_eq(
            pare_block_forward(&r->home.cx, a, f, &f->model->block[b], batch, x, &kv, NULL),
            PARE_OK);
        stream[b] = floats(a, rows * c->hidden);
        memcpy(stream[b], x, rows * c->hidden * sizeof *x);
    }
    ck_assert_int_eq(pare_logits(&r->home.cx, a, f, x, NULL, rows, z), PARE_OK);
    return z;
}

static inline double plain_lse(const float *z)
{
    double sum = 0;
    for (size_t v = 0; v < TINY_VOCAB; v++)
        sum += exp((double)z[v]);
    return log(sum);
}

/* One step over all windows that adds the gradient to the weights: betas of 0 and a
 * great eps leave w - rate g / eps. */
static inline pare_train_opts one_step(pare_losses l, size_t windows)
{
    return (pare_train_opts){.losses = l,
                             .adamw = {.eps = 1e8},
                             .schedule = {.peak = 1e8, .steps = 1, .decay = PARE_DECAY_CONSTANT},
                             .batch = windows};
}

#endif
