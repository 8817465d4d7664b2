#include "runtime/linalg.h"
#include "runtime/tape.h"
#include "tests/unit/tiny.h"

/* A block in double, written apart from the code under test, whose loss is sum(dy y). Every number
 * it depends on lies in one array, so that any of them can be moved. */
enum {
    HIDDEN = 12,
    INNER = 20,
    HEADS = 4,
    KV_HEADS = 2,
    DIM = 6,
    Q_WIDTH = HEADS * DIM,
    KV_WIDTH = KV_HEADS * DIM,
    ROWS_MAX = 144,
    PARTS = 2 * PARE_COMMON_ROLES + 5
};

typedef struct part {
    size_t first, count;
} part;

typedef struct plain {
    size_t sequences, length;
    const double *p;           /* weights, biases, norms, norm biases, x */
    part part[PARTS];          /* roles' weights, roles' biases, norms, norm biases, x */
    const float *dy;           /* [rows, HIDDEN] */
    double offset[PARE_SITES]; /* added to the inputs of a site */
} plain;

static const size_t shape[PARE_COMMON_ROLES][2] = {
    {Q_WIDTH, HIDDEN}, {KV_WIDTH, HIDDEN}, {KV_WIDTH, HIDDEN}, {HIDDEN, Q_WIDTH},
    {INNER, HIDDEN},   {INNER, HIDDEN},    {HIDDEN, INNER}};

static const double *plain_part(const plain *p, size_t i)
{
    return p->p + p->part[i].first;
}

static void plain_linear(const plain *p, size_t role, const double *x, double *y)
{
    const size_t n = shape[role][0], k = shape[role][1];
    const double *const w = plain_part(p, role), *const bias =
                                                     plain_part(p, PARE_COMMON_ROLES + role);
    for (size_t i = 0; i < n; i++) {
        y[i] = bias[i];
        for (size_t j = 0; j < k; j++)
            y[i] += w[i * k + j] * x[j];
    }
}

static void plain_norm(const plain *p, size_t which, pare_site site, const double *x, double *y)
{
    const double *const w = plain_part(p, 2 * PARE_COMMON_ROLES + which);
    const double *const bias = plain_part(p, 2 * PARE_COMMON_ROLES + 2 + which);
    double squares = 0;
    for (size_t i = 0; i < HIDDEN; i++)
        squares += x[i] * x[i];
    for (size_t i = 0; i < HIDDEN; i++)
        y[i] = w[i] * x[i] / sqrt(squares / HIDDEN + 1e-5) + bias[i] + p->offset[site];
}

static void plain_rope(double *x, size_t heads, size_t position)
{
    for (size_t h = 0; h < heads; h++, x += DIM)
        for (size_t i = 0; i < DIM / 2; i++) {
            const double angle = (double)position / pow(100, 2 * (double)i / DIM);
            const double a = x[i], b = x[i + DIM / 2];
            x[i] = a * cos(angle) - b * sin(angle);
            x[i + DIM / 2] = a * sin(angle) + b * cos(angle);
        }
}

static void plain_attend(const double *q, double (*k)[KV_WIDTH], double (*v)[KV_WIDTH], size_t t,
                         double *z)
{
    for (size_t h = 0; h < HEADS; h++) {
        const size_t at = h / (HEADS / KV_HEADS) * DIM;
        double score[ROWS_MAX], total = 0;
        for (size_t j = 0; j <= t; j++) {
            score[j] = 0;
            for (size_t i = 0; i < DIM; i++)
                score[j] += q[h * DIM + i] * k[j][at + i];
            total += score[j] = exp(score[j] / sqrt(DIM));
        }
        for (size_t i = 0; i < DIM; i++) {
            z[h * DIM + i] = 0;
            for (size_t j = 0; j <= t; j++)
                z[h * DIM + i] += score[j] / total * v[j][at + i];
        }
    }
}

static double plain_row(const plain *p, const double *x, const float *dy, double *z)
{
    double h[HIDDEN], n[HIDDEN], gate[INNER], up[INNER], y[HIDDEN], loss = 0;
    for (size_t i = 0; i < Q_WIDTH; i++)
        z[i] += p->offset[PARE_SITE_ATTENDED];
    plain_linear(p, PARE_ROLE_O, z, h);
    for (size_t i = 0; i < HIDDEN; i++)
        h[i] += x[i];
    plain_norm(p, 1, PARE_SITE_MLP, h, n);
    plain_linear(p, PARE_ROLE_GATE, n, gate);
    plain_linear(p, PARE_ROLE_UP, n, up);
    for (size_t i = 0; i < INNER; i++)
        gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i] + p->offset[PARE_SITE_ACTIVATED];
    plain_linear(p, PARE_ROLE_DOWN, gate, y);
    for (size_t i = 0; i < HIDDEN; i++)
        loss += (double)dy[i] * (y[i] + h[i]);
    return loss;
}

static double plain_loss(const plain *p)
{
    static double k[ROWS_MAX][KV_WIDTH], v[ROWS_MAX][KV_WIDTH];
    double n[HIDDEN], q[Q_WIDTH], z[Q_WIDTH], loss = 0;
    for (size_t s = 0; s < p->sequences; s++)
        for (size_t t = 0; t < p->length; t++) {
            const size_t row = s * p->length + t;
            const double *const x = plain_part(p, PARTS - 1) + row * HIDDEN;
            plain_norm(p, 0, PARE_SITE_ATTENTION, x, n);
            plain_linear(p, PARE_ROLE_Q, n, q);
            plain_linear(p, PARE_ROLE_K, n, k[t]);
            plain_linear(p, PARE_ROLE_V, n, v[t]);
            plain_rope(q, HEADS, t);
            plain_rope(k[t], KV_HEADS, t);
            plain_attend(q, k, v, t, z);
            loss += plain_row(p, x, p->dy + row * HIDDEN, z);
        }
    return loss;
}

/* The same block as the code under test takes it. */
typedef struct home {
    tiny_home h;
    pare_model model;
    pare_block block;
    pare_forward f;
    pare_batch batch;
    float *x, *dy, *y, *dx;
    pare_leaf_gradient leaf[PARTS - 1];
    float offset[PARE_SITES];
    plain plain;
    double *values;
    float *given[PARTS], *got[PARTS];
} home;

static void build(home *m)
{
    pare_block *const b = &m->block;
    float *const *const norm = m->given + 2 * PARE_COMMON_ROLES;
    *b = (pare_block){.norm = {norm[0], norm[1]}, .norm_bias = {norm[2], norm[3]}};
    for (size_t i = 0; i < PARTS - 1; i++)
        m->leaf[i] = (pare_leaf_gradient){m->given[i], m->got[i]};
    for (size_t r = 0; r < PARE_COMMON_ROLES; r++)
        b->linear[r] = (pare_linear){.name = "tiny",
                                     .n = shape[r][0],
                                     .k = shape[r][1],
                                     .dtype = PARE_F32,
                                     .data = m->given[r],
                                     .bias = m->given[PARE_COMMON_ROLES + r]};
    m->x = m->given[PARTS - 1];
    m->dx = m->got[PARTS - 1];
}

static void begin(home *m, size_t threads, size_t sequences, size_t length)
{
    *m = (home){.batch = {sequences, length, 0}};
    tiny_begin(&m->h, threads);
    pare_arena *const a = &m->h.arena;
    m->model.config = (pare_config){.arch = pare_archs[0],
                                    .hidden = HIDDEN,
                                    .intermediate = INNER,
                                    .blocks = 1,
                                    .heads = HEADS,
                                    .kv_heads = KV_HEADS,
                                    .head_dim = DIM,
                                    .norm_eps = 1e-5,
                                    .rope = {.theta = 100}};
    const size_t rows = sequences * length;
    size_t total = 0;
    for (size_t i = 0; i < PARTS; i++) {
        const size_t count = i < PARE_COMMON_ROLES           ? shape[i][0] * shape[i][1]
                             : i < 2 * PARE_COMMON_ROLES     ? shape[i - PARE_COMMON_ROLES][0]
                             : i < 2 * PARE_COMMON_ROLES + 4 ? HIDDEN
                                                             : rows * HIDDEN;
        m->plain.part[i] = (part){total, count};
        m->given[i] = tiny_take(a, count, sizeof(float));
        m->got[i] = tiny_take(a, count, sizeof(float));
        total += count;
    }
    m->values = tiny_take(a, total, sizeof *m->values);
    for (size_t i = 0; i < PARTS; i++)
        for (size_t j = 0; j < m->plain.part[i].count; j++) {
            const double middle = i / 2 == PARE_COMMON_ROLES ? 1 : 0,
                         spread = i < PARE_COMMON_ROLES ? 0.4 : 0.5;
            m->given[i][j] = (float)(middle + spread * pare_random_normal(3, i, j));
            m->values[m->plain.part[i].first + j] = (double)m->given[i][j];
        }
    m->dy = tiny_take(a, rows * HIDDEN, sizeof(float));
    m->y = tiny_take(a, rows * HIDDEN, sizeof(float));
    for (size_t j = 0; j < rows * HIDDEN; j++)
        m->dy[j] = (float)pare_random_normal(3, 100, j);
    m->plain.sequences = sequences;
    m->plain.length = length;
    m->plain.p = m->values;
    m->plain.dy = m->dy;
    build(m);
    ck_assert_int_eq(pare_forward_init(&m->h.cx, a, &m->model, length, true, &m->f), PARE_OK);
}

static void add_offset(void *self, pare_site site, float *x, size_t rows, size_t k)
{
    const home *const m = self;
    for (size_t i = 0; i < rows * k; i++)
        x[i] += m->offset[site];
}

static pare_status descend_on(home *m, pare_tape *t, const pare_tap *tap)
{
    const size_t rows = m->batch.sequences * m->batch.length;
    const pare_gradients wanted = {.leaf = m->leaf, .leaves = PARTS - 1};
    pare_array x, y;
    PARE_TRY(pare_tape_input(t, m->x, rows, HIDDEN, m->dx != NULL, &x));
    PARE_TRY(pare_tape_block(t, &m->f, &m->block, m->batch, x, tap, &y));
    memcpy(m->y, y.at, rows * HIDDEN * sizeof *m->y);
    PARE_TRY(pare_tape_back(t, y, m->dy, &wanted));
    ck_assert((pare_tape_gradient(x) != NULL) == (m->dx != NULL));
    for (size_t i = 0; m->dx && i < rows * HIDDEN; i++)
        m->dx[i] += pare_tape_gradient(x)[i];
    return PARE_OK;
}

static pare_status descend(home *m, const pare_tap *tap)
{
    pare_tape t;
    pare_tape_begin(&m->h.cx, &m->h.arena, NULL, &t);
    const pare_status s = descend_on(m, &t, tap);
    pare_tape_end(&t);
    return s;
}

/* Central differences in double of every `stride`-th number. Gradients are sums of F32 products:
 * the bound is 2e-5 of the largest of the tensor, a few hundred roundings. */
static void compare(home *m, size_t stride)
{
    const double step = 1e-5;
    for (size_t i = 0; i < PARTS; i++) {
        const part *const p = &m->plain.part[i];
        double largest = 0;
        for (size_t j = 0; j < p->count; j++)
            largest = fmax(largest, fabs((double)m->got[i][j]));
        ck_assert_msg(largest > 0.1, "part %zu has no gradient", i);
        for (size_t j = i % stride % p->count; j < p->count; j += stride) {
            double *const value = &m->values[p->first + j];
            const double old = *value;
            *value = old + step;
            double slope = plain_loss(&m->plain);
            *value = old - step;
            slope = (slope - plain_loss(&m->plain)) / (2 * step);
            *value = old;
            ck_assert_msg(fabs(slope - (double)m->got[i][j]) <= 2e-5 * largest,
                          "part %zu, number %zu: %g, by differences %g (largest %g)", i, j,
                          (double)m->got[i][j], slope, largest);
        }
    }
}

START_TEST(every_gradient_equals_central_differences)
{
    static home m;
    begin(&m, 2, 3, 5);
    ck_assert_int_eq(descend(&m, NULL), PARE_OK);
    compare(&m, 1);
    tiny_end(&m.h);
}
END_TEST

START_TEST(several_tiles_of_queries_and_altered_inputs_have_gradients_too)
{
    static home m;
    begin(&m, 2, 2, 70);
    for (size_t s = 0; s < PARE_SITES; s++)
        m.plain.offset[s] = (double)(m.offset[s] = 0.25F * (float)(s + 1));
    const pare_tap tap = {.change = add_offset, .self = &m, .last = PARE_SITES};
    ck_assert_int_eq(descend(&m, &tap), PARE_OK);
    compare(&m, 23);
    tiny_end(&m.h);
}
END_TEST

START_TEST(a_block_on_the_tape_is_the_forward_pass)
{
    static home m;
    begin(&m, 2, 2, 70);
    ck_assert_int_eq(descend(&m, NULL), PARE_OK);
    pare_kv kv;
    ck_assert_int_eq(pare_kv_take(&m.h.arena, &m.model.config, 2, 70, &kv), PARE_OK);
    ck_assert_int_eq(
        pare_block_forward(&m.h.cx, &m.h.arena, &m.f, &m.block, m.batch, m.x, &kv, NULL), PARE_OK);
    ck_assert_mem_eq(m.x, m.y, (size_t)2 * 70 * HIDDEN * sizeof *m.y);
    tiny_end(&m.h);
}
END_TEST

START_TEST(any_thread_count_gives_the_same_gradient_bytes)
{
    static home first, m;
    begin(&first, 1, 3, 40);
    ck_assert_int_eq(descend(&first, NULL), PARE_OK);
    for (size_t threads = 2; threads < 6; threads++) {
        begin(&m, threads, 3, 40);
        ck_assert_int_eq(descend(&m, NULL), PARE_OK);
        for (size_t i = 0; i < PARTS; i++)
            ck_assert_mem_eq(first.got[i], m.got[i], m.plain.part[i].count * sizeof(float));
        tiny_end(&m.h);
    }
    tiny_end(&first.h);
}
END_TEST

START_TEST(gradients_are_added_and_those_not_asked_for_are_not_needed)
{
    static home once, m;
    begin(&once, 1, 2, 9);
    begin(&m, 1, 2, 9);
    ck_assert_int_eq(descend(&once, NULL), PARE_OK);
    ck_assert_int_eq(descend(&m, NULL), PARE_OK);
    m.leaf[PARE_ROLE_GATE].gradient = NULL;
    m.leaf[PARE_COMMON_ROLES + PARE_ROLE_O].gradient = NULL;
    m.leaf[2 * PARE_COMMON_ROLES + 1].gradient = NULL;
    m.dx = NULL;
    ck_assert_int_eq(descend(&m, NULL), PARE_OK);
    for (size_t i = 0; i < PARTS; i++) {
        const bool left_out = i == PARE_ROLE_GATE || i == PARE_COMMON_ROLES + PARE_ROLE_O ||
                              i == 2 * PARE_COMMON_ROLES + 1 || i == PARTS - 1;
        for (size_t j = 0; j < m.plain.part[i].count; j++) {
            const float want = once.got[i][j] * (left_out ? 1 : 2);
            ck_assert_msg(fabsf(m.got[i][j] - want) <= 1e-5F * (1 + fabsf(want)), "%zu %zu: %g %g",
                          i, j, (double)m.got[i][j], (double)want);
        }
    }
    tiny_end(&m.h);
    tiny_end(&once.h);
}
END_TEST

START_TEST(packed_weights_and_coded_caches_are_refused)
{
    static home m;
    begin(&m, 1, 1, 4);
    m.block.linear[PARE_ROLE_K].bits = 4;
    ck_assert_int_eq(descend(&m, NULL), PARE_ENOTSUP);
    ck_assert_ptr_nonnull(strstr(m.h.cx.what, "tiny: a gradient needs dense weights"));
    tiny_end(&m.h);
    begin(&m, 1, 1, 4);
    pare_tape t;
    pare_array x, y;
    pare_kv kv;
    pare_tape_begin(&m.h.cx, &m.h.arena, NULL, &t);
    const pare_ops o = pare_tape_ops(&t);
    ck_assert_int_eq(pare_kv_take(&m.h.arena, &m.model.config, 1, 8, &kv), PARE_OK);
    m.f.positions = 8;
    ck_assert_int_eq(pare_tape_input(&t, m.x, 4, HIDDEN, true, &x), PARE_OK);
    ck_assert_int_eq(pare_block_run(&o, &m.f, &m.block, (pare_batch){1, 4, 4}, x, &kv, NULL, &y),
                     PARE_ENOTSUP);
    ck_assert_ptr_nonnull(strstr(m.h.cx.what, "begins with the batch"));
    tiny_end(&m.h);
}
END_TEST

START_TEST(memory_that_ends_anywhere_is_reported_and_the_bound_holds)
{
    static home m;
    begin(&m, 2, 2, 40);
    const size_t most = pare_tape_block_bytes(&m.h.cx, &m.model.config, m.batch, false);
    const pare_arena kept = m.h.arena;
    ck_assert_int_eq(pare_arena_init(&m.h.cx, &m.h.arena, most), PARE_OK);
    m.h.cx.limit_bytes = m.h.cx.live_bytes; /* nothing beyond the bound */
    ck_assert_int_eq(descend(&m, NULL), PARE_OK);
    m.h.cx.limit_bytes = 0;
    pare_arena_release(&m.h.arena);
    const pare_alloc alloc = m.h.cx.alloc;
    for (long left = 0;; left++) {
        unit_failing failing = {.left = left};
        m.h.cx.alloc = (pare_alloc){unit_failing_resize, &failing};
        m.h.arena = (pare_arena){.cx = &m.h.cx};
        const pare_status s = descend(&m, NULL);
        pare_arena_release(&m.h.arena);
        ck_assert_int_eq(failing.live, 0);
        pare_ctx_clear(&m.h.cx);
        if (s == PARE_OK)
            break;
        ck_assert_int_eq(s, PARE_ENOMEM);
        ck_assert_int_lt(left, 200);
    }
    m.h.cx.alloc = alloc;
    m.h.arena = kept;
    tiny_end(&m.h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("tape");
    TCase *const t = tcase_create("block");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_gradient_equals_central_differences);
    tcase_add_test(t, several_tiles_of_queries_and_altered_inputs_have_gradients_too);
    tcase_add_test(t, a_block_on_the_tape_is_the_forward_pass);
    tcase_add_test(t, any_thread_count_gives_the_same_gradient_bytes);
    tcase_add_test(t, gradients_are_added_and_those_not_asked_for_are_not_needed);
    tcase_add_test(t, packed_weights_and_coded_caches_are_refused);
    tcase_add_test(t, memory_that_ends_anywhere_is_reported_and_the_bound_holds);
    suite_add_tcase(s, t);
    return unit_main(s);
}
