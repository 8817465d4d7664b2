/* Kills a compression at random moments, resumes it, and compares the bytes with those of a run
 * that nobody touched.
 *
 *   kill_resume PROGRAM ROUNDS [RECIPE [SEED]]
 *
 * Without RECIPE a tiny model with its recipe is made first, with family:NAME one of that family
 * (tests/data/families.h). Every round kills one to three times
 * (the later kills hit a resumed run) and then lets the run end. After each kill the output must be
 * absent or complete. Output goes to a temporary directory. Exit status 0: every round gave the
 * bytes of the reference run. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "formats/hash.h"
#include "tests/data/families.h"
#include "tests/data/tiny_model.h"

enum { PATH = 512, NAMES = 64, KILLS_MAX = 3, SUMS = NAMES * (PARE_SHA256_HEX + 64) };

static const char tiny_recipe[] = "pare: 1\nmodel: model\ncalibration:\n  tokens: tokens.i32\n"
                                  "  samples: 6\n  window: 48\npasses:\n"
                                  "  - smoothquant: {attended: true, activated: true}\n"
                                  "  - gptq: {bits: 4, group: 32}\n";

/* Some experts get fewer tokens than that, and are calibrated in the other way. */
static const char family_recipe[] = "pare: 1\nmodel: model\ncalibration:\n  tokens: tokens.i32\n"
                                    "  samples: 6\n  window: 48\n"
                                    "passes:\n  - gptq: {bits: 4, group: 32}\n";
static const char family_prefix[] = "family:";

typedef struct driver {
    const char *program, *recipe;
    char directory[64], recipe_path[PATH], output[PATH], log[PATH];
    char want[SUMS]; /* one line per file of the deterministic set */
    double seconds;  /* of the reference run */
    uint64_t seed, drawn;
    size_t kills, hits, lives;
} driver;

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double draw(driver *d)
{
    return pare_random_unit(d->seed, 0, d->drawn++);
}

static bool fail(const char *what, const char *which)
{
    (void)fprintf(stderr, "kill_resume: %s: %s\n", what, which);
    return false;
}

static pid_t start(const driver *d)
{
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    const int log = open(d->log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    (void)dup2(log, STDOUT_FILENO);
    (void)dup2(log, STDERR_FILENO);
    (void)execl(d->program, d->program, "compress", d->recipe, "--output", d->output, "--threads",
                "2", (char *)NULL);
    _exit(127);
}

/* Waits until `seconds` have passed (then kills) or the program has ended; its wait status. */
static int wait_or_kill(pid_t pid, double seconds)
{
    int status = 0;
    const double end = now() + seconds;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now() >= end) {
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, &status, 0);
            break;
        }
        const struct timespec nap = {0, 500000};
        (void)nanosleep(&nap, NULL);
    }
    return status;
}

static bool deterministic(const char *name)
{
    static const char *const set[] = {"packed.index.json", "config.json", "manifest.json"};
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++)
        if (strcmp(name, set[i]) == 0)
            return true;
    return strncmp(name, "packed-", 7) == 0;
}

static int by_text(const void *x, const void *y)
{
    return strcmp(x, y);
}

/* Names of the deterministic set in a directory, sorted. */
static size_t list(const char *directory, char name[NAMES][64])
{
    size_t count = 0;
    DIR *const d = opendir(directory);
    for (const struct dirent *e = d ? readdir(d) : NULL; e && count < NAMES; e = readdir(d))
        if (deterministic(e->d_name))
            (void)snprintf(name[count++], 64, "%.63s", e->d_name);
    if (d)
        (void)closedir(d);
    qsort(name, count, 64, by_text);
    return count;
}

/* One line "sha256 name" for each file of the set; empty when the directory has none. */
static bool sum(const char *directory, char sums[SUMS])
{
    char name[NAMES][64], path[PATH + 80];
    const size_t count = list(directory, name);
    size_t used = 0;
    sums[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        pare_ctx cx;
        pare_arena a;
        pare_file f;
        char hex[PARE_SHA256_HEX];
        pare_ctx_init(&cx);
        (void)snprintf(path, sizeof path, "%s/%s", directory, name[i]);
        if (pare_arena_init(&cx, &a, 0) != PARE_OK || pare_file_map(&cx, &a, path, &f) != PARE_OK)
            return fail("cannot hash", path);
        pare_sha256_hex(f.data, (size_t)f.bytes, hex);
        pare_file_unmap(&f);
        pare_arena_release(&a);
        used += (size_t)snprintf(sums + used, SUMS - used, "%s %s\n", hex, name[i]);
    }
    return true;
}

static void remove_flat(const char *directory)
{
    DIR *const d = opendir(directory);
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        (void)closedir(d);
    (void)rmdir(directory);
}

static void remove_output(const driver *d)
{
    char partial[PATH + 16];
    (void)snprintf(partial, sizeof partial, "%s.partial", d->output);
    remove_flat(d->output);
    remove_flat(partial);
}

static void show_log(const driver *d)
{
    char text[4096];
    FILE *const f = fopen(d->log, "rb");
    const size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    (void)fwrite(text, 1, n, stderr);
    if (f)
        (void)fclose(f);
}

/* The output is absent, or it is the whole artifact. */
static bool whole_or_absent(driver *d, bool *there)
{
    static char sums[SUMS];
    *there = access(d->output, F_OK) == 0;
    if (!*there)
        return true;
    if (!sum(d->output, sums))
        return false;
    return strcmp(sums, d->want) == 0 || fail("torn or different output", d->output);
}

static bool one_round(driver *d)
{
    const size_t kills = 1 + (size_t)(draw(d) * KILLS_MAX);
    bool there = false;
    for (size_t i = 0; i < kills && !there; i++) {
        const int status = wait_or_kill(start(d), draw(d) * 1.05 * d->seconds);
        d->kills++;
        d->hits += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
            return show_log(d), fail("the program failed", d->output);
        if (!whole_or_absent(d, &there))
            return false;
    }
    if (!there) {
        d->lives++;
        const int status = wait_or_kill(start(d), 600);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            return show_log(d), fail("the resumed program failed", d->output);
        if (!whole_or_absent(d, &there) || !there)
            return fail("no output after the resumed run", d->output);
    }
    remove_output(d);
    return true;
}

static bool reference(driver *d)
{
    const double begin = now();
    const int status = wait_or_kill(start(d), 3600);
    d->seconds = now() - begin;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return show_log(d), fail("the reference run failed", d->recipe);
    if (!sum(d->output, d->want) || d->want[0] == '\0')
        return fail("the reference run left nothing", d->output);
    remove_output(d);
    return true;
}

static bool write_model(const char *name, const char *path, size_t *vocab)
{
    tiny_model m = tiny_model_default();
    m.blocks = 4;
    m.shards = 2;
    *vocab = name ? FAMILY_VOCAB : m.vocab;
    const family *const f = name ? family_find(name) : NULL;
    return name ? f && family_write(f, path) : tiny_model_write(&m, path);
}

/* A model of a family, or the tiny one. */
static bool make_tiny(driver *d, const char *name)
{
    char path[PATH];
    size_t vocab;
    (void)snprintf(path, sizeof path, "%s/model", d->directory);
    if (!write_model(name, path, &vocab))
        return fail("cannot write", path);
    (void)snprintf(path, sizeof path, "%s/tokens.i32", d->directory);
    if (!tiny_tokens_write(path, vocab, 1024, 2))
        return fail("cannot write", path);
    (void)snprintf(d->recipe_path, sizeof d->recipe_path, "%s/recipe.yaml", d->directory);
    FILE *const f = fopen(d->recipe_path, "wb");
    d->recipe = d->recipe_path;
    return (f && fputs(name ? family_recipe : tiny_recipe, f) >= 0 && fclose(f) == 0) ||
           fail("cannot write", d->recipe);
}

static void remove_tiny(const driver *d)
{
    char path[PATH];
    (void)snprintf(path, sizeof path, "%s/model", d->directory);
    remove_flat(path);
    remove_output(d);
    remove_flat(d->directory);
}

int main(int argc, char **argv)
{
    static driver d = {.directory = "/tmp/pare-kill-XXXXXX", .seed = 1};
    char *end = NULL;
    const long rounds = argc > 2 ? strtol(argv[2], &end, 10) : 0;
    if (rounds <= 0 || *end != '\0' || !mkdtemp(d.directory))
        return fail("usage", "kill_resume PROGRAM ROUNDS [RECIPE [SEED]]"), EXIT_FAILURE;
    d.program = argv[1];
    d.recipe = argc > 3 ? argv[3] : NULL;
    d.seed = argc > 4 ? strtoull(argv[4], NULL, 10) : d.seed;
    (void)snprintf(d.output, sizeof d.output, "%s/out", d.directory);
    (void)snprintf(d.log, sizeof d.log, "%s/log", d.directory);
    const size_t prefix = sizeof family_prefix - 1;
    const bool small = d.recipe && strncmp(d.recipe, family_prefix, prefix) == 0;
    const bool made = d.recipe && !small;
    bool ok = (made || make_tiny(&d, small ? d.recipe + prefix : NULL)) && reference(&d);
    long done = 0;
    for (; ok && done < rounds; done++)
        ok = one_round(&d);
    (void)printf("kill_resume: %ld of %ld rounds equal, %zu kills of which %zu hit a running "
                 "program, %zu resumed to the end, %.2f s a run\n",
                 ok ? done : done - 1, rounds, d.kills, d.hits, d.lives, d.seconds);
    if (ok)
        remove_tiny(&d);
    else
        (void)fprintf(stderr, "kill_resume: left behind: %s\n", d.directory);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
