/* tests/unit/moe_job.h - a place with a small mixture of experts, what a job tells of its experts,
 * and the model beside an artifact of it. */
#ifndef PARE_TESTS_MOE_JOB_H
#define PARE_TESTS_MOE_JOB_H

#include "calib/wave.h"
#include "runtime/linear.h"
#include "tests/data/families.h"
#include "tests/unit/job.h"

enum { SAMPLES = 12, WINDOW = 64, TOKENS = SAMPLES * WINDOW };

#define HEAD(experts)                                                                              \
    "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 12, window: 64" experts     \
    "}\npasses:\n"

static job_place place;

static inline void setup_family(const char *name)
{
    (void)snprintf(place.root, sizeof place.root, "moe.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(place.root));
    ck_assert(family_write(family_find(name), job_path(&place, "model")));
    ck_assert(tiny_tokens_write(job_path(&place, "tokens.i32"), FAMILY_VOCAB, 64 * 24, 3));
}

static inline void setup(void)
{
    setup_family("qwen2_moe");
}

static inline void teardown(void)
{
    job_remove_directory(place.root);
}

/* What the job told of a linear of an expert. */
typedef struct told {
    size_t block, part;
    pare_role role;
    int64_t tokens;
    pare_cold_policy cold;
    double error;
    bool thin, known; /* too little for the pass; its statistics were gathered */
} told;

enum { TOLD = 3 * 8 * 3 };

typedef struct listener {
    told row[TOLD];
    size_t rows, notices;
} listener;

static inline pare_role role_of(const char *name)
{
    static const struct {
        const char *end;
        pare_role role;
    } ends[] = {{"gate_proj", PARE_ROLE_GATE}, {"w1", PARE_ROLE_GATE},
                {"up_proj", PARE_ROLE_UP},     {"w3", PARE_ROLE_UP},
                {"down_proj", PARE_ROLE_DOWN}, {"w2", PARE_ROLE_DOWN}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (family_ends(name, ends[i].end))
            return ends[i].role;
    ck_abort_msg("%s", name);
}

static inline void listen(void *self, const pare_event *e)
{
    listener *const l = self;
    l->notices += e->kind == PARE_EVENT_NOTICE && strstr(e->text, " fewer than ") != NULL;
    for (size_t i = 0; i < e->rows; i++) {
        const pare_linear_result *const r = &e->row[i];
        if (r->part == 0) {
            ck_assert_int_eq(r->tokens, -1);
            continue;
        }
        ck_assert_uint_lt(l->rows, TOLD);
        l->row[l->rows++] =
            (told){r->block,        r->part, role_of(r->linear.name), r->tokens, r->cold,
                   r->output_error, r->thin, r->support.known};
    }
}

/* A model and an artifact of it. */
typedef struct pair {
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck[2];
    pare_model before, after;
    pare_forward forward;
    pare_wave wave;
} pair;

static inline void open_pair(pair *p, const char *output)
{
    pare_ctx_init(&p->cx);
    ck_assert_int_eq(pare_arena_init(&p->cx, &p->a, 0), PARE_OK);
    pare_model *const model[] = {&p->before, &p->after};
    for (size_t i = 0; i < 2; i++) {
        const char *const path = job_path(&place, i ? output : "model");
        ck_assert_msg(pare_checkpoint_open(&p->cx, &p->a, path, &p->ck[i]) == PARE_OK &&
                          pare_model_load(&p->cx, &p->a, &p->ck[i], model[i]) == PARE_OK,
                      "%s", p->cx.what);
    }
}

static inline void close_pair(pair *p)
{
    pare_checkpoint_close(&p->ck[0]);
    pare_checkpoint_close(&p->ck[1]);
    pare_arena_release(&p->a);
    ck_assert_uint_eq(p->cx.live_bytes, 0);
}

static inline float *floats_of(pair *p, const pare_linear *l)
{
    float *const w = PARE_NEW(&p->a, float, l->n * l->k);
    ck_assert_ptr_nonnull(w);
    pare_linear_to_f32(&p->cx, l, w);
    return w;
}

#endif
