/* tests/fault/fault_place.h - a directory with a small model, tokens and the recipes of a few jobs,
 * and the program run in it; what a job left, compared with what it leaves when nothing breaks. */
#ifndef PARE_TESTS_FAULT_PLACE_H
#define PARE_TESTS_FAULT_PLACE_H

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/data/families.h"
#include "tests/data/tiny_model.h"
#include "tests/fault/tree.h"

enum { PLACE_ARGS = 16, PLACE_ENV = 8, PLACE_EXPORTS = 2 };

typedef struct place_job {
    const char *name, *family; /* family NULL: a llama */
    const char *parameter[2];  /* what stands for @: in job.yaml, and in old.yaml */
    const char *recipe;
    const char *exports[PLACE_EXPORTS]; /* below disk/ */
} place_job;

#define PLACE_CALIBRATION "calibration: {tokens: tokens.i32, samples: 4, window: 32}\n"

/* Some experts get few tokens, and are calibrated in another way. */
static const place_job place_jobs[] = {
    {"rtn", NULL, {"4", "8"}, "passes:\n  - rtn: {bits: @, group: 32}\n", {NULL}},
    {"gptq",
     NULL,
     {"4", "8"},
     PLACE_CALIBRATION "passes:\n  - smoothquant: {attended: true, activated: true}\n"
                       "  - gptq: {bits: @, group: 32}\n",
     {NULL}},
    {"sparse",
     NULL,
     {"4", "8"},
     PLACE_CALIBRATION
     "passes:\n  - sparsegpt: {pattern: \"2:4\"}\n  - gptq: {bits: @, group: 32}\n"
     "export:\n  - {format: safetensors, path: disk/x}\n  - {format: \"gguf:q8_0\", path: "
     "disk/x.gguf}\n",
     {"x", "x.gguf"}},
    {"distill",
     NULL,
     {"1", "2"},
     PLACE_CALIBRATION "passes:\n  - magnitude: {pattern: 2:4}\n"
                       "  - distill: {tokens: 400, batch: @, save: 0}\n"
                       "  - gptq: {bits: 4, group: 32}\n",
     {NULL}},
    {"flap", NULL, {"0.5", "0.3"}, PLACE_CALIBRATION "passes:\n  - flap: {ratio: @}\n", {NULL}},
    {"experts",
     "qwen2_moe",
     {"4", "8"},
     PLACE_CALIBRATION "passes:\n  - gptq: {bits: @, group: 32}\n",
     {NULL}},
    {"reap",
     "qwen2_moe",
     {"0.3", "0.5"},
     PLACE_CALIBRATION "passes:\n  - reap: {ratio: @}\n",
     {NULL}},
};
enum { PLACE_JOBS = sizeof place_jobs / sizeof *place_jobs };

typedef struct place {
    const char *program; /* pare */
    char root[64]; /* holds model/, tokens.i32, NAME.yaml, print, log, tmp/; jobs write to disk/ */
    const place_job *job;
} place;

static inline double place_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline const char *place_path(const place *p, const char *name)
{
    static char path[8][TREE_PATH];
    static size_t turn;
    char *const at = path[turn++ % 8];
    tree_join(at, p->root, name);
    return at;
}

static inline const place_job *place_find(const char *name)
{
    for (size_t i = 0; i < PLACE_JOBS; i++)
        if (strcmp(place_jobs[i].name, name) == 0)
            return &place_jobs[i];
    return NULL;
}

static inline void place_recipe(const place *p, const char *name, const char *parameter)
{
    const char *const recipe = p->job->recipe, *const at = strchr(recipe, '@');
    FILE *const f = fopen(place_path(p, name), "w");
    if (!f || !at ||
        fprintf(f, "pare: 1\nmodel: model\n%.*s%s%s", (int)(at - recipe), recipe, parameter,
                at + 1) < 0 ||
        fclose(f) != 0)
        tree_die("cannot write", name);
}

/* Makes a place with job.yaml and, for what was there before, old.yaml. */
static inline place place_make(const char *program, const place_job *job, size_t blocks)
{
    place p = {.program = program, .root = "/tmp/pare-fault-XXXXXX", .job = job};
    const tiny_model m = {.hidden = 64,
                          .intermediate = 128,
                          .blocks = blocks,
                          .heads = 4,
                          .kv_heads = 2,
                          .head_dim = 16,
                          .vocab = FAMILY_VOCAB,
                          .context = 64,
                          .dtype = PARE_F16,
                          .shards = 2,
                          .seed = 1};
    if (!mkdtemp(p.root) || mkdir(place_path(&p, "tmp"), 0777) != 0 ||
        mkdir(place_path(&p, "disk"), 0777) != 0)
        tree_die("cannot make", p.root);
    const char *const model = place_path(&p, "model");
    if (!(job->family ? family_write(family_find(job->family), model)
                      : tiny_model_write(&m, model)) ||
        !tiny_tokens_write(place_path(&p, "tokens.i32"), FAMILY_VOCAB, 1024, 2))
        tree_die("cannot write", model);
    place_recipe(&p, "job.yaml", job->parameter[0]);
    place_recipe(&p, "old.yaml", job->parameter[1]);
    return p;
}

static inline void place_redirect(const char *path, int fd)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file < 0 || dup2(file, fd) < 0)
        _exit(126);
    (void)close(file);
}

/* NAME=VALUE for the environment, on the heap. */
static inline char *place_env(const char *name, const char *value)
{
    const size_t size = strlen(name) + strlen(value) + 2;
    char *const text = tree_grow(NULL, size, 1);
    (void)snprintf(text, size, "%s=%s", name, value);
    return text;
}

/* Starts the program with arguments after its name, ended by NULL; what it prints goes to
 * ROOT/print, its messages to ROOT/log. `env` are texts NAME=VALUE, ended by NULL, or NULL. */
static inline pid_t place_start(const place *p, const char *const *args, char *const *env)
{
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    const char *argv[PLACE_ARGS + 2] = {p->program};
    for (size_t i = 0; i < PLACE_ARGS && args[i]; i++)
        argv[i + 1] = args[i];
    place_redirect(place_path(p, "print"), STDOUT_FILENO);
    place_redirect(place_path(p, "log"), STDERR_FILENO);
    (void)setenv("TMPDIR", place_path(p, "tmp"), 1);
    for (size_t i = 0; env && env[i]; i++)
        (void)putenv(env[i]);
    (void)execv(p->program, (char *const *)argv);
    _exit(127);
}

/* Waits until `seconds` have passed, then kills, or the program has ended; its wait status. */
static inline int place_wait(pid_t pid, double seconds)
{
    int status = 0;
    const double end = place_now() + seconds;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (place_now() >= end) {
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, &status, 0);
            break;
        }
        const struct timespec nap = {0, 500000};
        (void)nanosleep(&nap, NULL);
    }
    return status;
}

enum { PLACE_HUNG = 200, PLACE_CRASHED = 201, PLACE_LIMIT = 120 };

/* Exit status, or one of the two above. */
static inline int place_end(pid_t pid)
{
    const int status = place_wait(pid, PLACE_LIMIT);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? PLACE_HUNG : PLACE_CRASHED;
}

static inline int place_run(const place *p, const char *const *args, char *const *env)
{
    return place_end(place_start(p, args, env));
}

static inline void place_show_log(const place *p)
{
    size_t len;
    unsigned char *const text = tree_read(place_path(p, "log"), &len);
    (void)fwrite(text, 1, len, stderr);
    free(text);
}

/* Files whose bytes tell the time a job took, or hash such files. */
static inline bool place_timed(const char *name)
{
    static const char *const set[] = {"run.json",   "report.html", "README.md",
                                      "layers.csv", "SHA256SUMS",  "log.jsonl"};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        if (strcmp(name, set[i]) == 0)
            return true;
    return false;
}

static inline const char *place_base(const tree_file *f)
{
    const char *const slash = strrchr(f->name, '/');
    return slash ? slash + 1 : f->name;
}

/* Where two directories or files differ: the name of a file, or NULL. Files that tell the time are
 * compared when `exact`. A finished artifact may still have its journal. */
static inline const char *place_difference(const tree *want, const tree *now, bool exact)
{
    for (size_t i = 0; i < want->files; i++) {
        const tree_file *const w = &want->file[i], *const n = tree_find(now, w->name);
        if (!n || w->directory != n->directory)
            return w->name;
        if ((exact || !place_timed(place_base(w))) && !tree_same_file(w, n))
            return w->name;
    }
    for (size_t i = 0; i < now->files; i++)
        if (!tree_find(want, now->file[i].name) &&
            strcmp(place_base(&now->file[i]), "journal") != 0)
            return now->file[i].name;
    return NULL;
}

/* What an output is, of what it was and what it will be. A place where nothing was may be empty. */
typedef enum place_state { PLACE_OLD, PLACE_NEW, PLACE_TORN, PLACE_LOST } place_state;

static inline place_state place_judge(const tree *now, const tree *old, const tree *want,
                                      const char *output)
{
    tree is = tree_below(now, output), was = tree_below(old, output);
    tree will = tree_below(want, output);
    place_state state = is.files ? PLACE_TORN : PLACE_LOST;
    if (is.files && !place_difference(&will, &is, false))
        state = PLACE_NEW;
    else if (was.files ? !place_difference(&was, &is, true) : !is.files)
        state = PLACE_OLD;
    free(is.file);
    free(was.file);
    free(will.file);
    return state;
}

/* Removes what jobs left. */
static inline void place_clear(const place *p)
{
    tree_empty(place_path(p, "disk"));
    tree_empty(place_path(p, "tmp"));
}

#endif
