#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/bench/compare.h"
#include "compress/cli/cmd_bench.h"

enum { TOLERANCE_MAX = 1000 }; /* percent */

/* "5" or "5%", as a share. */
static pare_status read_tolerance(pare_cli *cli, const pare_args *args, double *out)
{
    const char *const text = pare_args_text(args, "tolerance");
    *out = 0.05;
    if (!text)
        return PARE_OK;
    char *end = NULL;
    errno = 0;
    const double percent = strtod(text, &end);
    if (strspn(text, "0123456789.") == 0 || errno != 0 || !(percent <= TOLERANCE_MAX) ||
        strcmp(end, *end == '%' ? "%" : "") != 0)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "--tolerance \"%.32s\": expected percent from 0 to %d, such as 5", text,
                         TOLERANCE_MAX);
    *out = percent / 100;
    return PARE_OK;
}

static void put_change(pare_json_writer *w, const pare_bench_change *c)
{
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "key", c->key);
    pare_json_put_text(w, "metric", c->metric);
    pare_json_put_finite(w, "before", c->before);
    pare_json_put_finite(w, "after", c->after);
    pare_json_put_finite(w, "ratio", c->ratio);
    pare_json_put_finite(w, "share_before", c->share_before);
    pare_json_put_finite(w, "share_after", c->share_after);
    pare_json_put_finite(w, "share_ratio", c->share_ratio);
    pare_json_put_text(w, "verdict", pare_verdict_text(c->verdict));
    pare_json_close(w);
}

static pare_status print_json(pare_cli *cli, const char *const path[2], double tolerance,
                              const pare_bench_comparison *c)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "program", "pare " PARE_VERSION);
    pare_json_put_text(w, "kind", "compare");
    pare_json_put_text(w, "compared", c->kind);
    pare_json_put_text(w, "before", path[0]);
    pare_json_put_text(w, "after", path[1]);
    pare_json_put_number(w, "tolerance", tolerance);
    pare_json_open_array(w, "warnings");
    for (size_t i = 0; i < c->warnings; i++)
        pare_json_put_text(w, NULL, c->warning[i]);
    pare_json_close(w);
    pare_json_put_integer(w, "slower", (int64_t)c->slower);
    pare_json_put_integer(w, "share_held", (int64_t)c->share_held);
    pare_json_put_integer(w, "faster", (int64_t)c->faster);
    pare_json_put_integer(w, "missing", (int64_t)c->missing);
    pare_json_put_integer(w, "lost", (int64_t)c->lost);
    pare_json_open_array(w, "rows");
    for (size_t i = 0; i < c->changes; i++)
        put_change(w, &c->change[i]);
    pare_json_close(w);
    pare_json_close(w);
    return pare_cli_print(w);
}

/* A number of `digits` behind the point, or "-". Returns text. */
static const char *number(double value, int digits, char text[24])
{
    (void)snprintf(text, 24, isfinite(value) ? "%.*f" : "-", digits, value);
    return text;
}

static void print_text(const pare_bench_comparison *c)
{
    char t[6][24];
    (void)printf("%-48s %-8s %11s %11s %7s %8s %8s %7s  %s\n", "row", "time", "before", "after",
                 "ratio", "share", "share", "ratio", "verdict");
    for (size_t i = 0; i < c->changes; i++) {
        const pare_bench_change *const x = &c->change[i];
        (void)printf("%-48s %-8s %11s %11s %7s %8s %8s %7s  %s\n", x->key, x->metric,
                     number(x->before, 2, t[0]), number(x->after, 2, t[1]),
                     number(x->ratio, 3, t[2]), number(x->share_before, 3, t[3]),
                     number(x->share_after, 3, t[4]), number(x->share_ratio, 3, t[5]),
                     pare_verdict_text(x->verdict));
    }
    (void)printf("\n%zu slower (%zu of them at the same share of the limit), %zu faster, %zu "
                 "missing, of %zu times\n",
                 c->slower, c->share_held, c->faster, c->missing, c->changes);
}

/* Which times have no partner. */
static void say_missing(pare_cli *cli, const char *const path[2], const pare_bench_comparison *c)
{
    for (size_t i = 0; i < c->changes; i++) {
        const pare_bench_change *const x = &c->change[i];
        if (x->verdict == PARE_VERDICT_ONLY_BEFORE || x->verdict == PARE_VERDICT_ONLY_AFTER)
            pare_screen_say(&cli->screen, "pare: warning: %s of \"%s\" is only in %s", x->metric,
                            x->key, path[x->verdict == PARE_VERDICT_ONLY_AFTER]);
    }
}

pare_status pare_bench_compare_run(pare_cli *cli, const pare_args *args)
{
    static pare_bench_comparison c;
    double tolerance;
    if (args->operands != 1)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "bench: --compare takes two files: pare bench --compare A.json B.json");
    const char *const path[2] = {pare_args_text(args, "compare"), args->operand[0]};
    PARE_TRY(read_tolerance(cli, args, &tolerance));
    PARE_TRY(pare_bench_compare(&cli->cx, &cli->arena, path[0], path[1], tolerance, &c));
    for (size_t i = 0; i < c.warnings; i++)
        pare_screen_say(&cli->screen, "pare: warning: %s", c.warning[i]);
    say_missing(cli, path, &c);
    if (cli->json)
        PARE_TRY(print_json(cli, path, tolerance, &c));
    else
        print_text(&c);
    if (c.slower == 0 && c.lost == 0)
        return PARE_OK;
    return pare_fail(&cli->cx, PARE_EINVAL,
                     "%zu of %zu times grew by more than %g%%, and %zu of %s are missing in %s",
                     c.slower, c.changes - c.missing, tolerance * 100, c.lost, path[0], path[1]);
}
