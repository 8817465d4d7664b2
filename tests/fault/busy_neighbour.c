/* How much a busy process on one core costs decoding and prefill.
 *
 *   busy_neighbour MODEL [THREADS]
 *
 * Measures both alone, then with a process that does nothing but spin on the first CPU that this
 * process may use, and prints the figures and their ratios. A measurement, not a test: it needs a
 * machine that does nothing else. */
#define _GNU_SOURCE /* CPU affinity */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compress/evaluate/evaluate.h"
#include "formats/checkpoint.h"
#include "runtime/threads.h"

enum { SECONDS = 4 };

static pid_t start_neighbour(void)
{
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all) == 0)
        for (size_t i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &all)) {
                CPU_SET(i, &one);
                (void)sched_setaffinity(0, sizeof one, &one);
                break;
            }
    for (volatile unsigned spin = 0;; spin++)
        ;
}

/* Tokens a second. */
typedef struct speeds {
    double decode, prefill;
} speeds;

/* Means over a few seconds: the system takes a while to move a thread away from a busy core. */
static pare_status measure(pare_ctx *cx, const pare_forward *f, speeds *mean)
{
    double decode = 0, prefill = 0; /* seconds a token */
    const time_t end = time(NULL) + SECONDS;
    size_t rounds = 0;
    for (; rounds == 0 || time(NULL) < end; rounds++) {
        pare_speed_result r;
        PARE_TRY(pare_evaluate_speed(cx, f, &r));
        decode += 1 / r.decode_tok_s;
        prefill += 1 / r.prefill_tok_s;
    }
    *mean = (speeds){(double)rounds / decode, (double)rounds / prefill};
    return PARE_OK;
}

static void print(const char *what, double alone, double beside)
{
    (void)printf("%-8s alone %.1f tokens/s, beside a busy process %.1f, %.2f times slower\n", what,
                 alone, beside, alone / beside);
}

static pare_status compare(pare_ctx *cx, pare_arena *a, pare_checkpoint *ck, const char *path)
{
    pare_model model;
    pare_forward f;
    speeds alone, beside = {0, 0};
    PARE_TRY(pare_checkpoint_open(cx, a, path, ck));
    PARE_TRY(pare_model_load(cx, a, ck, &model));
    PARE_TRY(pare_forward_init(cx, a, &model, model.config.context, false, &f));
    PARE_TRY(measure(cx, &f, &alone));
    const pid_t neighbour = start_neighbour();
    if (neighbour < 0)
        return pare_fail(cx, PARE_EIO, "no second process");
    const pare_status s = measure(cx, &f, &beside);
    (void)kill(neighbour, SIGKILL);
    (void)waitpid(neighbour, NULL, 0);
    PARE_TRY(s);
    (void)printf("%zu threads\n", pare_threads(cx));
    print("decode", alone.decode, beside.decode);
    print("prefill", alone.prefill, beside.prefill);
    return PARE_OK;
}

int main(int argc, char **argv)
{
    static pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck = {.cx = &cx};
    char *end = NULL;
    const unsigned long threads = argc > 2 ? strtoul(argv[2], &end, 10) : 0;
    if (argc < 2 || (end && *end != '\0')) {
        (void)fprintf(stderr, "busy_neighbour MODEL [THREADS]\n");
        return EXIT_FAILURE;
    }
    pare_ctx_init(&cx);
    pare_status s = pare_arena_init(&cx, &a, 0);
    if (s == PARE_OK)
        s = pare_pool_new(&cx, threads, &cx.pool);
    if (s == PARE_OK)
        s = compare(&cx, &a, &ck, argv[1]);
    if (s != PARE_OK)
        (void)fprintf(stderr, "busy_neighbour: %s\n", cx.what);
    pare_checkpoint_close(&ck);
    pare_pool_free(&cx, cx.pool);
    pare_arena_release(&a);
    return s == PARE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
