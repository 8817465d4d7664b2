/* The loudest token's share of the energy, and the effective rank of what the inputs span, against
 * sums in double over the inputs. */
#include <math.h>

#include "calib/stats.h"
#include "runtime/linalg.h"
#include "runtime/random.h"
#include "tests/unit/tiny.h"

enum { TOKENS = 700, K = 83, LOUD = 411 };

typedef struct inputs {
    tiny_home home;
    float x[TOKENS * K], weight[TOKENS];
} inputs;

/* Noise on top of a few directions; the token LOUD is `factor` times as large. */
static inputs *inputs_begin(size_t threads, float factor)
{
    static inputs in;
    tiny_begin(&in.home, threads);
    for (size_t t = 0; t < TOKENS; t++) {
        in.weight[t] = 0.25F + (float)(t % 7);
        for (size_t j = 0; j < K; j++) {
            const double loud = j % 9 ? 1 : 5;
            in.x[t * K + j] = (float)(loud * pare_random_normal(11, t, j));
            in.x[t * K + j] *= t == LOUD ? factor : 1;
        }
    }
    return &in;
}

/* Through the tap, in batches of at most `batch` tokens. */
static pare_support seen(inputs *in, unsigned kind, bool weighed, size_t batch)
{
    pare_arena *const a = &in->home.arena;
    pare_config c = {.hidden = K, .arch = pare_arch_find("llama")};
    const unsigned kinds[PARE_SITES] = {[PARE_SITE_ATTENTION] = kind};
    pare_stats s;
    ck_assert_int_eq(pare_stats_take(&in->home.cx, a, &c, 0, kinds, TOKENS, &s), PARE_OK);
    s.site[PARE_SITE_ATTENTION].weight = weighed ? in->weight : NULL;
    const pare_tap tap = pare_stats_tap(&s);
    for (size_t t = 0; t < TOKENS; t += batch) {
        const size_t rows = TOKENS - t < batch ? TOKENS - t : batch;
        ck_assert_int_eq(tap.see(tap.self, 0, PARE_SITE_ATTENTION, in->x + t * K, rows, K),
                         PARE_OK);
    }
    ck_assert_int_eq(pare_stats_support(a, &s, 1u << PARE_SITE_ATTENTION), PARE_OK);
    return s.site[PARE_SITE_ATTENTION].support;
}

static double plain_share(const inputs *in, bool weighed)
{
    double sum = 0, most = 0;
    for (size_t t = 0; t < TOKENS; t++) {
        double energy = 0;
        for (size_t j = 0; j < K; j++)
            energy += pow((double)in->x[t * K + j], 2);
        energy *= weighed ? (double)in->weight[t] : 1;
        sum += energy;
        most = fmax(most, energy);
    }
    return most / sum;
}

/* From the full second moment, both halves. */
static double plain_rank(const inputs *in, bool weighed)
{
    double trace = 0, squares = 0;
    for (size_t a = 0; a < K; a++)
        for (size_t b = 0; b < K; b++) {
            double h = 0;
            for (size_t t = 0; t < TOKENS; t++)
                h += (weighed ? (double)in->weight[t] : 1) * (double)in->x[t * K + a] *
                     (double)in->x[t * K + b];
            trace += a == b ? h : 0;
            squares += h * h;
        }
    return trace * trace / squares;
}

static void check_near(double is, double want)
{
    ck_assert_msg(fabs(is - want) <= 1e-5 * want, "%.9g, not %.9g", is, want);
}

START_TEST(share_and_rank_are_those_of_sums_in_double)
{
    static const float factors[] = {1, 8, 1000};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        inputs *const in = inputs_begin(2, factors[i]);
        const pare_support s = seen(in, PARE_STATS_HESSIAN, _i, 300);
        check_near(s.loudest, plain_share(in, _i));
        check_near(s.effective_rank, plain_rank(in, _i));
        tiny_end(&in->home);
    }
}
END_TEST

/* Weights are of H: what has no H counts each token once. */
START_TEST(without_a_hessian_there_is_a_share_and_no_rank)
{
    static const unsigned kinds[] = {PARE_STATS_CHANNELS, PARE_STATS_SAMPLE,
                                     PARE_STATS_CHANNELS | PARE_STATS_SAMPLE};
    inputs *const in = inputs_begin(1, 8);
    const pare_support s = seen(in, kinds[_i], true, 300);
    ck_assert(!s.known && s.effective_rank == 0);
    check_near(s.loudest, plain_share(in, false));
    tiny_end(&in->home);
}
END_TEST

START_TEST(known_inputs_have_known_figures)
{
    inputs *const in = inputs_begin(1, 1);
    for (size_t i = 0; i < TOKENS * K; i++)
        in->x[i] = i / K % K == i % K ? 3.0F : 0.0F; /* each axis 8 or 9 times, K of them */
    pare_support s = seen(in, PARE_STATS_HESSIAN, false, TOKENS);
    check_near(s.loudest, 1.0 / TOKENS);
    ck_assert(s.effective_rank > K - 1 && s.effective_rank <= K);
    for (size_t i = 0; i < TOKENS * K; i++)
        in->x[i] = i / K == LOUD ? 2.0F : 0.0F; /* one token is all there is */
    s = seen(in, PARE_STATS_HESSIAN, false, TOKENS);
    ck_assert(s.loudest == 1 && s.effective_rank == 1);
    memset(in->x, 0, sizeof in->x);
    s = seen(in, PARE_STATS_HESSIAN, false, TOKENS);
    ck_assert(s.known && s.loudest == 0 && s.effective_rank == 0);
    in->x[5] = NAN;
    s = seen(in, PARE_STATS_CHANNELS, false, TOKENS);
    ck_assert(s.loudest == 0);
    tiny_end(&in->home);
}
END_TEST

START_TEST(threads_change_no_bit_and_batches_not_the_share)
{
    pare_support first = {0};
    for (size_t threads = 1; threads <= 3; threads++) {
        inputs *const in = inputs_begin(threads, 8);
        const pare_support s = seen(in, PARE_STATS_HESSIAN, true, 300);
        if (threads == 1)
            first = s;
        ck_assert_mem_eq(&s.loudest, &first.loudest, sizeof s.loudest);
        ck_assert_mem_eq(&s.effective_rank, &first.effective_rank, sizeof s.effective_rank);
        for (size_t batch = 1; batch <= TOKENS; batch = 3 * batch + 17) {
            const pare_support other = seen(in, PARE_STATS_CHANNELS, false, batch);
            const pare_support whole = seen(in, PARE_STATS_CHANNELS, false, TOKENS);
            ck_assert_mem_eq(&other.loudest, &whole.loudest, sizeof whole.loudest);
        }
        tiny_end(&in->home);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("loudness");
    TCase *const t = tcase_create("loudness");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, share_and_rank_are_those_of_sums_in_double, 0, 2);
    tcase_add_loop_test(t, without_a_hessian_there_is_a_share_and_no_rank, 0, 3);
    tcase_add_test(t, known_inputs_have_known_figures);
    tcase_add_test(t, threads_change_no_bit_and_batches_not_the_share);
    suite_add_tcase(s, t);
    return unit_main(s);
}
