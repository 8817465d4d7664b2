/* Kills a command at many moments, gives it again, and compares the bytes with those of a run
 * that nobody touched.
 *
 *   kill_resume PROGRAM SHIM ROUNDS [WHAT [SEED [HOW]]]
 *
 *   WHAT  a recipe; job:NAME, one of fault_place.h with its small model (job:gptq); family:NAME, a
 * model of that family (tests/data/families.h) HOW   fresh: pare compress where nothing is;
 * restart: with --restart over the finished output, and exports, of another recipe; export:FORMAT,
 * export-restart:FORMAT: pare export
 *
 * Every round kills one to three times: in front of a call that changes or syncs a disk (SHIM:
 * shim_fail.c), one later than in the round before so that all rounds together go through all of
 * the run; then, mostly, at a random time. The later kills hit a resumed run, in half of the cases
 * without --restart. Then it lets the command end. After each kill each output is what it was
 * before or the whole new one, and at the end nothing else lies beside them. Everything goes to a
 * temporary directory. Exit status 0: all of that held in every round. */
#define _DEFAULT_SOURCE
#include "tests/fault/shim.h"

enum { OUTPUTS = 1 + PLACE_EXPORTS, KILLS_MAX = 3 };

typedef struct driver {
    place p;
    shim shim;
    uint64_t calls; /* that change or sync a disk, of the reference run */
    place_job of_family;
    const char *args[PLACE_ARGS], *output[OUTPUTS];
    size_t restart; /* where --restart stands among the arguments; 0: not wanted */
    tree old, want; /* disk/ before and after */
    double seconds; /* of the reference run */
    uint64_t seed, drawn;
    size_t all_rounds, rounds, kills, hits, lives, refused, torn, different, left, failed;
} driver;

static double draw(driver *d)
{
    return pare_random_unit(d->seed, 0, d->drawn++);
}

static void complain(driver *d, size_t *count, const char *what, const char *which)
{
    (void)fprintf(stderr, "kill_resume: round %zu, %zu kills: %s: %s\n", d->rounds, d->kills, what,
                  which);
    if ((*count)++ == 0)
        place_show_log(&d->p);
}

enum { NOT_KILLED = 0 };

/* A new command, or one that continues; it is killed in front of the n-th call. */
static pid_t start(driver *d, bool restart, uint64_t n)
{
    static const char *const settings[][2] = {{FAIL_DIE, "1"}, {NULL, NULL}};
    d->args[d->restart] = d->restart && restart ? "--restart" : d->args[d->restart];
    if (d->restart && !restart)
        d->args[d->restart] = NULL;
    return n == NOT_KILLED ? place_start(&d->p, d->args, NULL)
                           : shim_start(&d->shim, &d->p, d->args, n, settings);
}

/* Each output is what it was or what it will be. Whether all are the latter. */
static bool check_outputs(driver *d)
{
    tree now = tree_load(place_path(&d->p, "disk"));
    bool all = true;
    for (size_t i = 0; i < OUTPUTS && d->output[i]; i++) {
        const place_state state = place_judge(&now, &d->old, &d->want, d->output[i]);
        if (state == PLACE_TORN || state == PLACE_LOST)
            complain(d, &d->torn, state == PLACE_TORN ? "torn output" : "vanished", d->output[i]);
        all &= state == PLACE_NEW;
    }
    tree_free(&now);
    return all;
}

/* Without --restart a finished output is not touched, whatever else there is to do. */
static bool ended_well(driver *d, int status, bool restart)
{
    if (!WIFEXITED(status))
        return false;
    return WEXITSTATUS(status) == 0 || (WEXITSTATUS(status) == 2 && d->restart && !restart);
}

/* At the end the outputs are there, and nothing else. */
static void check_end(driver *d)
{
    tree now = tree_load(place_path(&d->p, "disk")), tmp = tree_load(place_path(&d->p, "tmp"));
    const char *const other = place_difference(&d->want, &now, false);
    if (other)
        complain(d, tree_find(&d->want, other) ? &d->different : &d->left, "in the end differs",
                 other);
    else if (tmp.files > 1)
        complain(d, &d->left, "temporary file left behind", tmp.file[1].name);
    tree_free(&now);
    tree_free(&tmp);
}

static void one_round(driver *d)
{
    const size_t kills = 1 + (size_t)(draw(d) * KILLS_MAX);
    bool done = false, restart = true;
    place_clear(&d->p);
    tree_write(&d->old, place_path(&d->p, "disk"));
    for (size_t i = 0; i < kills && !done; i++) {
        const bool timed = i > 0 && draw(d) < 0.75;
        const double which = i > 0 ? draw(d) : (double)d->rounds / (double)d->all_rounds;
        const uint64_t n = timed ? NOT_KILLED : 1 + (uint64_t)(which * (double)d->calls);
        const int status =
            place_wait(start(d, restart, n), timed ? draw(d) * 1.05 * d->seconds : 600);
        d->kills++;
        d->hits += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if (!WIFSIGNALED(status) && !ended_well(d, status, restart))
            complain(d, &d->failed, "failed after a kill", d->args[1]);
        done = check_outputs(d);
        restart = draw(d) < 0.5;
    }
    d->lives += !done;
    int status = place_wait(start(d, restart, NOT_KILLED), 600);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2 && d->restart && !restart) {
        d->refused++; /* what is left of a restart, unfinished or not, asks for --restart */
        status = place_wait(start(d, true, NOT_KILLED), 600);
    }
    if (!ended_well(d, status, restart) && !(done && WEXITSTATUS(status) == 2))
        complain(d, &d->failed, "the last run failed", d->args[1]);
    else
        check_end(d);
}

static void must(driver *d, int status, const char *what)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    place_show_log(&d->p);
    (void)fprintf(stderr, "kill_resume: %s failed without a kill\n", what);
    exit(EXIT_FAILURE);
}

static void set_compress(driver *d, const char *recipe, bool restart)
{
    static char path[TREE_PATH], output[TREE_PATH];
    const size_t n = 6;
    (void)snprintf(path, sizeof path, "%s", recipe);
    (void)snprintf(output, sizeof output, "%s", place_path(&d->p, "disk/out"));
    const char *const args[] = {"compress", path, "--output", output, "--threads", "2", NULL, NULL};
    memcpy(d->args, args, sizeof args);
    d->restart = restart ? n : 0;
    d->output[0] = "out";
    for (size_t i = 0; i < PLACE_EXPORTS; i++)
        d->output[1 + i] = d->p.job->exports[i];
}

static void set_export(driver *d, const char *artifact, const char *format, bool restart)
{
    static char path[TREE_PATH], output[TREE_PATH];
    (void)snprintf(path, sizeof path, "%s", place_path(&d->p, artifact));
    (void)snprintf(output, sizeof output, "%s", place_path(&d->p, "disk/x"));
    const char *const args[] = {"export", path,        "--format", format, "--output",
                                output,   "--threads", "2",        NULL,   NULL};
    memcpy(d->args, args, sizeof args);
    d->restart = restart ? 8 : 0;
    d->output[0] = "x";
}

/* An artifact beside disk/; its exports do not stay. */
static void make_artifact(driver *d, const char *recipe, const char *name)
{
    const char *const args[] = {"compress", place_path(&d->p, recipe), "--output",
                                place_path(&d->p, name), NULL};
    must(d, place_wait(place_start(&d->p, args, NULL), 600), recipe);
    place_clear(&d->p);
}

/* What was there before, the command, and what it makes. */
static void prepare(driver *d, const char *recipe, const char *how)
{
    const char *const format = strchr(how, ':');
    const bool restart = strstr(how, "restart") != NULL;
    if (format) {
        make_artifact(d, "job.yaml", "job");
        make_artifact(d, "old.yaml", "old");
        set_export(d, "old", format + 1, false);
    } else {
        set_compress(d, restart ? place_path(&d->p, "old.yaml") : recipe, false);
    }
    if (restart)
        must(d, place_wait(start(d, false, NOT_KILLED), 3600), "the old job");
    d->old = tree_load(place_path(&d->p, "disk"));
    if (format)
        set_export(d, "job", format + 1, restart);
    else
        set_compress(d, recipe, restart);
    const double begin = place_now();
    must(d, place_wait(start(d, true, UINT64_MAX), 3600), "the reference run");
    d->seconds = place_now() - begin;
    d->calls = atomic_load(&d->shim.counts->all);
    if (d->calls == 0)
        tree_die("the shim sees no calls", d->args[0]);
    d->want = tree_load(place_path(&d->p, "disk"));
}

static const char *after(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0 ? text + strlen(prefix) : NULL;
}

/* The place of a job; the recipe to run. */
static const char *make_place(driver *d, const char *program, const char *what)
{
    const char *const named = after(what, "family:"), *const job = after(what, "job:");
    d->of_family = *place_find("experts");
    d->of_family.family = named;
    const place_job *const found = named ? &d->of_family : place_find(job ? job : "rtn");
    if (!found || (named && !family_find(named))) {
        (void)fprintf(stderr, "kill_resume: %s: no such job or family\n", what);
        exit(EXIT_FAILURE);
    }
    d->p = place_make(program, found, 4);
    return job || named ? place_path(&d->p, "job.yaml") : what;
}

int main(int argc, char **argv)
{
    static driver d = {.seed = 1};
    char *end = NULL;
    const long rounds = argc > 3 ? strtol(argv[3], &end, 10) : 0;
    if (rounds <= 0 || *end != '\0') {
        (void)fprintf(stderr, "kill_resume PROGRAM SHIM ROUNDS [WHAT [SEED [HOW]]]\n");
        return EXIT_FAILURE;
    }
    const char *const what = argc > 4 ? argv[4] : "job:gptq", *const how =
                                                                  argc > 6 ? argv[6] : "fresh";
    d.seed = argc > 5 ? strtoull(argv[5], NULL, 10) : d.seed;
    const char *const recipe = make_place(&d, argv[1], what);
    d.shim = shim_open(&d.p, argv[2]);
    prepare(&d, recipe, how);
    d.all_rounds = (size_t)rounds;
    for (; d.rounds < (size_t)rounds; d.rounds++)
        one_round(&d);
    const size_t wrong = d.torn + d.different + d.left + d.failed;
    (void)printf(
        "%-12s %-24s %4zu rounds %5zu kills of which %5zu hit, %4zu run to the end, %.2f s "
        "a run: %zu torn, %zu different, %zu left behind, %zu failed\n",
        what, how, d.rounds, d.kills, d.hits, d.lives, d.seconds, d.torn, d.different, d.left,
        d.failed);
    tree_free(&d.old);
    tree_free(&d.want);
    shim_close(&d.shim);
    if (wrong == 0)
        tree_remove(d.p.root);
    else
        (void)fprintf(stderr, "kill_resume: left behind: %s\n", d.p.root);
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
