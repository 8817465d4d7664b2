#include "quant/rotate.h"

#include "formats/checkpoint.h"
#include "tests/unit/tiny.h"

enum { TOKENS = 40 };

/* A model of F32 weights of its own, in the arena. */
typedef struct rig {
    tiny_home home;
    pare_model model;
    pare_checkpoint ck; /* of rig_load */
} rig;

static void rig_begin(rig *r, size_t threads)
{
    tiny_begin(&r->home, threads);
    r->model = tiny_model(&r->home.arena, tiny_kinds[0]);
    r->model.config.arch = pare_archs[0];
}

/* The same of a model in files; false when it is not there. */
static bool rig_load(rig *r, const char *path)
{
    if (!path)
        return false;
    tiny_begin(&r->home, 2);
    ck_assert_msg(pare_checkpoint_open(&r->home.cx, &r->home.arena, path, &r->ck) == PARE_OK, "%s",
                  r->home.cx.what);
    ck_assert_msg(pare_model_load(&r->home.cx, &r->home.arena, &r->ck, &r->model) == PARE_OK, "%s",
                  r->home.cx.what);
    return true;
}

static float *floats(rig *r, const pare_linear *l)
{
    float *const w = tiny_take(&r->home.arena, l->n * l->k, sizeof *w);
    pare_linear_to_f32(&r->home.cx, l, w);
    return w;
}

static const pare_rotation *rotation(rig *r, uint64_t seed, bool online)
{
    const pare_rotation *out;
    ck_assert_msg(pare_rotation_new(&r->home.cx, &r->home.arena, &r->model.config, seed, online,
                                    &out) == PARE_OK,
                  "%s", r->home.cx.what);
    return out;
}

static pare_block rotate_block(rig *r, const pare_rotation *rot, const pare_block *from)
{
    pare_arena *const a = &r->home.arena;
    const pare_config *const c = &r->model.config;
    pare_block out;
    ck_assert_int_eq(pare_block_take(a, c, pare_block_biases(from), &out), PARE_OK);
    pare_block_load(&r->home.cx, c, from, &out);
    for (size_t i = 0; i < PARE_COMMON_ROLES; i++)
        out.linear[i].rotated = pare_rotation_is_online(rot, (pare_role)i);
    ck_assert_int_eq(pare_rotation_block(&r->home.cx, a, rot, &out), PARE_OK);
    for (size_t i = 0; i < c->hidden; i++)
        ck_assert(out.norm[0][i] == 1.0f && out.norm[1][i] == 1.0f);
    return out;
}

static pare_model rotated(rig *r, const pare_rotation *rot)
{
    pare_arena *const a = &r->home.arena;
    pare_model m = r->model;
    const size_t hidden = m.config.hidden, vocab = m.config.vocab;
    float *const embed = floats(r, &m.embed);
    float *const head = floats(r, &m.head);
    float *const ones = tiny_take(a, hidden, sizeof *ones);
    pare_rotation_stream(&r->home.cx, rot, embed, vocab);
    pare_rotation_reader(&r->home.cx, rot, m.norm, head, vocab);
    for (size_t i = 0; i < hidden; i++)
        ones[i] = 1.0f;
    m.embed.data = embed;
    m.head.data = head;
    m.embed.dtype = m.head.dtype = PARE_F32;
    m.norm = ones;
    m.block = tiny_take(a, m.config.blocks, sizeof *m.block);
    for (size_t i = 0; i < m.config.blocks; i++)
        m.block[i] = rotate_block(r, rot, &r->model.block[i]);
    return m;
}

static float *logits_of(rig *r, const pare_model *m)
{
    pare_ctx *const cx = &r->home.cx;
    pare_arena *const a = &r->home.arena;
    pare_forward f;
    pare_kv kv;
    const int32_t *const tokens = tiny_tokens(a, 1, TOKENS);
    float *const x = tiny_take(a, TOKENS * m->config.hidden, sizeof *x);
    float *const y = tiny_take(a, TOKENS * m->config.vocab, sizeof *y);
    ck_assert_int_eq(pare_forward_init(cx, a, m, TOKENS, true, &f), PARE_OK);
    ck_assert_int_eq(pare_kv_take(a, &m->config, 1, TOKENS, &kv), PARE_OK);
    ck_assert_int_eq(pare_embed(cx, m, tokens, TOKENS, x), PARE_OK);
    ck_assert_int_eq(
        pare_model_forward(cx, a, &f, (pare_batch){.sequences = 1, .length = TOKENS}, x, &kv, 1),
        PARE_OK);
    ck_assert_int_eq(pare_logits(cx, a, &f, x, NULL, TOKENS, y), PARE_OK);
    return y;
}

/* Largest difference of a position's logits over its largest logit, over all positions. */
static double distance(const rig *r, const float *a, const float *b)
{
    const size_t vocab = r->model.config.vocab;
    double worst = 0.0;
    for (size_t t = 0; t < TOKENS; t++) {
        double most = 0.0, off = 0.0;
        for (size_t i = 0; i < vocab; i++) {
            most = fmax(most, fabs((double)a[t * vocab + i]));
            off = fmax(off, fabs((double)a[t * vocab + i] - (double)b[t * vocab + i]));
        }
        worst = fmax(worst, off / most);
    }
    return worst;
}

START_TEST(a_rotated_model_gives_the_same_logits)
{
    static rig r;
    rig_begin(&r, 2);
    r.model.block[0].linear[PARE_ROLE_V].bias =
        tiny_ones(&r.home.arena, 500, r.model.block[0].linear[PARE_ROLE_V].n);
    r.model.block[1].linear[PARE_ROLE_DOWN].bias =
        tiny_ones(&r.home.arena, 501, r.model.block[1].linear[PARE_ROLE_DOWN].n);
    const pare_model m = rotated(&r, rotation(&r, 3, _i == 1));
    const double off = distance(&r, logits_of(&r, &r.model), logits_of(&r, &m));
    ck_assert_msg(off < 1e-5, "logits differ by %g of the largest", off);
    tiny_end(&r.home);
}
END_TEST

/* Inner size 172 = 4 x 43, and a tied head; F16 weights and heads of 32. */
START_TEST(real_models_give_the_same_logits)
{
    static rig r;
    const char *const path =
        _i < 2 ? PARE_SOURCE_DIR "/recipes/demo/hedge" : unit_shared("models/stories260k");
    if (!rig_load(&r, path))
        return;
    const pare_model m = rotated(&r, rotation(&r, 3, _i % 2 == 1));
    const double off = distance(&r, logits_of(&r, &r.model), logits_of(&r, &m));
    ck_assert_msg(off < 1e-5, "logits differ by %g of the largest", off);
    ck_assert_double_gt(off, 0);
    pare_checkpoint_close(&r.ck);
    tiny_end(&r.home);
}
END_TEST

/* Every stage matters: leaving one out changes the logits far beyond rounding. */
START_TEST(a_stage_left_out_is_seen)
{
    static rig r;
    rig_begin(&r, 1);
    const float *const want = logits_of(&r, &r.model);
    pare_model m = rotated(&r, rotation(&r, 3, true));
    for (size_t i = 0; i < 4; i++) {
        pare_model wrong = m;
        pare_block block[2] = {m.block[0], m.block[1]};
        wrong.block = block;
        switch (i) {
        case 0: wrong.embed = r.model.embed; break;
        case 1: wrong.norm = r.model.norm; break;
        case 2: block[1].linear[PARE_ROLE_DOWN].rotated = false; break;
        default: block[0].linear[PARE_ROLE_V].data = r.model.block[0].linear[PARE_ROLE_V].data;
        }
        ck_assert_double_gt(distance(&r, want, logits_of(&r, &wrong)), 1e-2);
    }
    tiny_end(&r.home);
}
END_TEST

/* Against sums over the explicit matrices: q reads with R, o adds with R and reads with M and Q. */
START_TEST(weights_are_the_products_with_the_explicit_matrices)
{
    static rig r;
    rig_begin(&r, 1);
    pare_ctx *const cx = &r.home.cx;
    const pare_config *const c = &r.model.config;
    const size_t n = c->hidden, k = c->heads * c->head_dim, d = c->head_dim;
    const pare_rotation *const rot = rotation(&r, 4, true);
    float big[44 * 44] = {0}, head[10 * 10] = {0}, all[40 * 40] = {0};
    for (size_t i = 0; i < n; i++)
        big[i * n + i] = 1.0f;
    for (size_t i = 0; i < d; i++)
        head[i * d + i] = 1.0f;
    for (size_t i = 0; i < k; i++)
        all[i * k + i] = 1.0f;
    pare_hadamard_apply(cx, &rot->hidden, big, n, n); /* row j: R e_j */
    pare_hadamard_invert(cx, &rot->head, head, d, d); /* row j: M e_j */
    pare_hadamard_apply(cx, &rot->attended, all, k, k);
    const pare_block got = rotate_block(&r, rot, &r.model.block[0]);
    const float *const w = r.model.block[0].linear[PARE_ROLE_O].data;
    const float *const now = got.linear[PARE_ROLE_O].data;
    for (size_t i = 0; i < n; i += 7)
        for (size_t j = 0; j < k; j += 3) {
            double sum = 0.0; /* sum over a, b, e: R[i, a] W[a, b] M[e, b]^T Q[j, e]^T */
            for (size_t a = 0; a < n; a++)
                for (size_t b = 0; b < k; b++)
                    for (size_t e = b / d * d; e < b / d * d + d; e++)
                        sum += (double)big[a * n + i] * (double)w[a * k + b] *
                               (double)head[b % d * d + e % d] * (double)all[e * k + j];
            ck_assert_double_eq_tol((double)now[i * k + j], sum, 2e-6);
        }
    tiny_end(&r.home);
}
END_TEST

START_TEST(threads_do_not_change_a_bit_and_the_seed_does)
{
    static rig r, s;
    rig_begin(&r, 1);
    rig_begin(&s, 3);
    const pare_block a = rotate_block(&r, rotation(&r, 5, false), &r.model.block[0]);
    const pare_block b = rotate_block(&s, rotation(&s, 5, false), &s.model.block[0]);
    const pare_block other = rotate_block(&s, rotation(&s, 6, false), &s.model.block[0]);
    for (size_t i = 0; i < PARE_COMMON_ROLES; i++) {
        const size_t bytes = a.linear[i].n * a.linear[i].k * sizeof(float);
        ck_assert_mem_eq(a.linear[i].data, b.linear[i].data, bytes);
        ck_assert_mem_ne(a.linear[i].data, other.linear[i].data, bytes);
    }
    tiny_end(&r.home);
    tiny_end(&s.home);
}
END_TEST

START_TEST(widths_without_a_rotation_are_refused_by_name)
{
    static rig r;
    const pare_rotation *out;
    rig_begin(&r, 1);
    r.model.config.intermediate = 67;
    ck_assert_int_eq(pare_rotation_new(&r.home.cx, &r.home.arena, &r.model.config, 1, false, &out),
                     PARE_OK);
    ck_assert_int_eq(pare_rotation_new(&r.home.cx, &r.home.arena, &r.model.config, 1, true, &out),
                     PARE_ENOTSUP);
    ck_assert_ptr_nonnull(strstr(r.home.cx.what, "input of down: no Hadamard rotation of 67"));
    tiny_end(&r.home);
}
END_TEST

START_TEST(a_norm_with_a_bias_is_refused_unless_it_is_zero)
{
    static rig r;
    pare_block f;
    rig_begin(&r, 1);
    const pare_rotation *const rot = rotation(&r, 1, false);
    pare_arena *const a = &r.home.arena;
    const pare_biases room = {.norm = 1};
    ck_assert_int_eq(pare_block_take(a, &r.model.config, room, &f), PARE_OK);
    pare_block_load(&r.home.cx, &r.model.config, &r.model.block[0], &f);
    ck_assert_int_eq(pare_rotation_block(&r.home.cx, a, rot, &f), PARE_OK);
    f.norm_bias[0][3] = 1.0f;
    ck_assert_int_eq(pare_rotation_block(&r.home.cx, a, rot, &f), PARE_ENOTSUP);
    ck_assert_str_eq(r.home.cx.what, "a norm with a bias cannot be rotated");
    tiny_end(&r.home);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("rotate");
    TCase *const c = tcase_create("rotate");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, a_rotated_model_gives_the_same_logits, 0, 2);
    tcase_add_loop_test(c, real_models_give_the_same_logits, 0, 4);
    tcase_add_test(c, a_stage_left_out_is_seen);
    tcase_add_test(c, weights_are_the_products_with_the_explicit_matrices);
    tcase_add_test(c, threads_do_not_change_a_bit_and_the_seed_does);
    tcase_add_test(c, widths_without_a_rotation_are_refused_by_name);
    tcase_add_test(c, a_norm_with_a_bias_is_refused_unless_it_is_zero);
    suite_add_tcase(s, c);
    return unit_main(s);
}
