#include "tests/kernels/kernel_test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/half.h"
#include "tests/kernels/kernel_device.h"

uint64_t kt_u64(kt *t)
{
    uint64_t z = (t->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

size_t kt_below(kt *t, size_t n)
{
    return (size_t)(kt_u64(t) % n);
}

static void *take(size_t bytes)
{
    void *const p = malloc(bytes ? bytes : 1);
    if (!p) {
        (void)fprintf(stderr, "out of memory\n");
        exit(EXIT_FAILURE);
    }
    return p;
}

/* As an arena aligns them. */
static void *take_lines(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes ? bytes : 1) != 0) {
        (void)fprintf(stderr, "out of memory\n");
        exit(EXIT_FAILURE);
    }
    return p;
}

void *kt_input(kt *t, size_t count, size_t size)
{
    uint8_t *const p = t->bench ? take_lines(count * size) : take(count * size);
    for (size_t i = 0; i < count * size; i++)
        p[i] = (uint8_t)(kt_u64(t) >> 24);
    t->input[t->inputs++] = p;
    return p;
}

static float awkward(kt *t, float before)
{
    const uint64_t r = kt_u64(t);
    const float u = (float)((double)(int64_t)r * 0x1p-63);
    switch (r % 16) {
    case 0: return 0.0f;
    case 1: return u * 0x1p-60f;
    case 2: return u * 0x1p+30f;
    case 3: return before;
    case 4: return u * 0x1p-90f; /* products underflow, some to -0 */
    case 5: return -0.0f;
    default: return u;
    }
}

float *kt_floats(kt *t, size_t n)
{
    float *const x = kt_input(t, n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = awkward(t, i ? x[i - 1] : 1.0f);
    return x;
}

uint16_t *kt_halves(kt *t, size_t n, bool bf16)
{
    uint16_t *const x = kt_input(t, n, sizeof *x);
    for (size_t i = 0; i < n; i++) {
        const float v = awkward(t, 1.0f);
        const uint16_t h = bf16 ? (uint16_t)(pare_f32_bits(v) >> 16) : pare_f32_to_f16(v);
        x[i] = !bf16 && (h & 0x7c00u) == 0x7c00u ? 0x7bffu : h;
    }
    return x;
}

static void fail(kt *t, const kt_case *c, const char *what)
{
    t->failed++;
    if (t->quiet || t->failed > 5)
        return;
    (void)fprintf(stderr,
                  "FAIL %s on %s, m = %zu, n = %zu, k = %zu, group = %zu, seed = %" PRIu64 ": %s\n"
                  "repeat with: test_kernels_all %s --level %s --seed %" PRIu64 "\n",
                  t->kernel, t->level, c->m, c->n, c->k, c->group, t->seed, what, t->kernel,
                  t->level, t->seed);
}

static bool guards_hold(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < KT_GUARD; i++)
        if (p[i] != 0xa5 || p[KT_GUARD + bytes + i] != 0xa5)
            return false;
    return true;
}

/* Of this thread: other processes may be busy. */
static double seconds(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* Best of several runs of about 2 ms each, in ns per call. */
static double time_of(const pare_kernels *k, const kt_case *c, kt_run *run, uint8_t *out)
{
    double best = 1e30;
    for (size_t calls = 1, i = 0; i < 7;) {
        const double start = seconds();
        for (size_t j = 0; j < calls; j++)
            run(k, c, out);
        const double s = seconds() - start;
        if (s < 2e-3) {
            calls *= 2;
            continue;
        }
        best = s / (double)calls < best ? s / (double)calls : best;
        i++;
    }
    return best * 1e9;
}

static bool both_nan(const uint8_t *a, const uint8_t *b)
{
    float x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return isnan(x) && isnan(y);
}

static bool equal(const kt *t, const kt_case *c, const uint8_t *a, const uint8_t *b)
{
    const size_t floats = t->any_nan ? (c->out_bytes - c->whole_bytes) / 4 : 0;
    for (size_t i = 0; i < floats; i++)
        if (memcmp(a + 4 * i, b + 4 * i, 4) != 0 && !both_nan(a + 4 * i, b + 4 * i))
            return false;
    return memcmp(a + 4 * floats, b + 4 * floats, c->out_bytes - 4 * floats) == 0;
}

void kt_check(kt *t, const kt_case *c, kt_run *run)
{
    const size_t all = c->out_bytes + 2 * KT_GUARD;
    uint8_t *const ref = take(all), *const now = take(all);
    memset(ref, 0xa5, all);
    memset(now, 0xa5, all);
    if (t->bench) {
        const double a = time_of(t->ref, c, run, ref + KT_GUARD);
        const double b = time_of(t->now, c, run, now + KT_GUARD);
        const double bytes = (double)c->work_bytes;
        printf("%-7s %-14s %4zu x %5zu x %5zu, %5zu %12.0f ns ref %8.2f GB/s  %12.0f ns new "
               "%8.2f GB/s  %6.1fx\n",
               t->level, t->kernel, c->m, c->n, c->k, c->group, a, bytes / a, b, bytes / b, a / b);
    } else {
        run(t->ref, c, ref + KT_GUARD);
        run(t->now, c, now + KT_GUARD);
    }
    t->checks++;
    if (!equal(t, c, ref + KT_GUARD, now + KT_GUARD))
        fail(t, c, "bytes differ");
    if (!guards_hold(ref, c->out_bytes) || !guards_hold(now, c->out_bytes))
        fail(t, c, "wrote outside the output");
    free(ref);
    free(now);
    while (t->inputs > 0)
        free(t->input[--t->inputs]);
}

static const struct {
    const char *name;
    void (*body)(kt *);
} kernels[] = {
#define X(name, ret, params, cls) {#name, kt_##name},
    PARE_KERNEL_LIST(X)
#undef X
};

enum { KERNELS = sizeof kernels / sizeof *kernels };

typedef struct options {
    const char *kernel, *level;
    uint64_t seed;
    bool bench, self_test;
} options;

/* Kernels of a table, but not those that it has from the table `below`, which may be NULL. */
static size_t run_level(const options *o, const pare_kernels *now, const char *level,
                        const pare_kernels *below, bool any_nan, size_t *ran)
{
    enum { EACH = sizeof(pare_kernels) / KERNELS };
    pare_kernels ref;
    pare_kernels_init(&ref, 0);
    size_t failed = 0;
    for (size_t i = 0; i < KERNELS; i++) {
        if ((o->kernel && strcmp(o->kernel, kernels[i].name) != 0) ||
            (below &&
             memcmp((const char *)now + i * EACH, (const char *)below + i * EACH, EACH) == 0))
            continue;
        kt t = {.ref = &ref,
                .now = now,
                .kernel = kernels[i].name,
                .level = level,
                .seed = o->seed,
                .state = o->seed,
                .bench = o->bench,
                .any_nan = any_nan};
        kernels[i].body(&t);
        if (!o->bench)
            printf("%-7s %-16s %6zu checks %s\n", t.level, t.kernel, t.checks,
                   t.failed ? "FAILED" : "ok");
        failed += t.failed;
        *ran += t.checks;
    }
    return failed;
}

#ifdef KT_DEVICE
static size_t run_levels(const options *o, size_t *ran)
{
    pare_kernels now, ref;
    pare_kernels_init(&ref, 0);
    now = ref;
    kt_device(&now);
    return o->level && strcmp(o->level, "cuda") != 0 ? 0
                                                     : run_level(o, &now, "cuda", &ref, true, ran);
}
#else
static size_t run_levels(const options *o, size_t *ran)
{
    const unsigned have = pare_cpu_detect();
    pare_kernels now, below;
    size_t failed = 0;
    for (size_t l = 0; l < PARE_CPU_LEVELS; l++) {
        const pare_cpu_level *const level = &pare_cpu_levels[l];
        if (level->cpu & ~have)
            continue;
        pare_kernels_init(&now, level->cpu);
        if (!o->level || strcmp(o->level, level->name) == 0)
            failed +=
                run_level(o, &now, level->name, l > 0 && !o->kernel ? &below : NULL, false, ran);
        below = now;
    }
    return failed;
}
#endif

static size_t run_all(const options *o)
{
    size_t ran = 0;
    const size_t failed = run_levels(o, &ran);
    if (ran == 0)
        (void)fprintf(stderr, "no such kernel or level\n");
    return failed + (ran == 0);
}

static size_t body_of(const char *name)
{
    for (size_t i = 0; i < KERNELS; i++)
        if (strcmp(name, kernels[i].name) == 0)
            return i;
    return KERNELS;
}

/* Every planted fault must be found, and every kernel must have had one. */
static size_t self_test(uint64_t seed)
{
    size_t missed = 0, planted[KERNELS + 1] = {0};
    pare_kernels ref, now;
    pare_kernels_init(&ref, 0);
    now = ref;
    const char *what = NULL, *name = NULL;
    for (size_t i = 0; (name = kt_plant(i, &now, &what)) != NULL; i++, now = ref) {
        const size_t body = body_of(name);
        planted[body]++;
        kt t = {.ref = &ref,
                .now = &now,
                .kernel = name,
                .level = "planted",
                .seed = seed,
                .state = seed,
                .quiet = true};
        if (body < KERNELS)
            kernels[body].body(&t);
        printf("%-16s %-44s %s\n", name, what, t.failed ? "caught" : "MISSED");
        missed += t.failed == 0;
    }
    for (size_t i = 0; i < KERNELS; i++)
        if (planted[i] == 0) {
            printf("%-16s has no planted fault\n", kernels[i].name);
            missed++;
        }
    return missed;
}

int main(int argc, char **argv)
{
    options o = {.seed = 20240601u};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0)
            o.bench = true;
        else if (strcmp(argv[i], "--self-test") == 0)
            o.self_test = true;
        else if (strcmp(argv[i], "--level") == 0 && i + 1 < argc)
            o.level = argv[++i];
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            o.seed = strtoull(argv[++i], NULL, 10);
        else if (argv[i][0] != '-' && !o.kernel)
            o.kernel = argv[i];
        else {
            (void)fprintf(stderr,
                          "usage: %s [KERNEL] [--level LEVEL] [--seed N] [--bench] "
                          "[--self-test]\n",
                          argv[0]);
            return EXIT_FAILURE;
        }
    }
    return (o.self_test ? self_test(o.seed) : run_all(&o)) ? EXIT_FAILURE : EXIT_SUCCESS;
}
