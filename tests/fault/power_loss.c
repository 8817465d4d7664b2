/* Power losses in the middle of jobs, without a machine to switch off.
 *
 *   power_loss PROGRAM SHIM short|long [SCENARIO]
 *
 * Runs a job with SHIM (shim_record.c), which logs what it does to the disk, and plays the log into
 * a disk in memory (disk.h). At every call of the log the power fails, and the disk has each of the
 * states that the calls before leave possible, as far as they are listed in choose_names and
 * choose_data. In each state
 *
 *   - an output or export is what it was before the job, whole, or what the job makes, whole, byte
 *     for byte; one that was there does not vanish; after the last call it is the new one
 *   - what the journal says was done is in the files beside it
 *   - where files can be without a name, a lock has its line, and an unfinished GGUF file its head
 *
 * and of some states the job is run again: it must end well, in the same bytes, and pare verify
 * must agree. Exit status 0: no state broke a rule. */
#define _GNU_SOURCE /* O_TMPFILE */
#include "compress/output/owned_files.h"
#include "formats/hash.h"
#include "tests/fault/disk.h"
#include "tests/fault/fault_place.h"

typedef enum start { EMPTY, FINISHED, UNFINISHED } start; /* what another job left */

typedef struct scenario {
    const char *name, *job, *output;
    const char *export; /* the format: pare export of an artifact; NULL: pare compress */
    start start;
    bool in_short;
} scenario;

static const scenario scenarios[] = {
    {"rtn in a new directory", "rtn", "deep/er/out", NULL, EMPTY, true},
    {"gptq", "gptq", "out", NULL, EMPTY, false},
    {"gptq --restart over an unfinished run", "gptq", "out", NULL, UNFINISHED, false},
    {"gptq --restart over a finished one", "gptq", "out", NULL, FINISHED, false},
    {"flap", "flap", "out", NULL, EMPTY, false},
    {"flap --restart over an unfinished run", "flap", "out", NULL, UNFINISHED, true},
    {"flap --restart over a finished one", "flap", "out", NULL, FINISHED, false},
    {"sparse with exports", "sparse", "out", NULL, EMPTY, false},
    {"sparse with exports --restart", "sparse", "out", NULL, FINISHED, true},
    {"experts", "experts", "out", NULL, EMPTY, false},
    {"export of a directory", "rtn", "x", "gptq", EMPTY, false},
    {"export of a directory --restart", "rtn", "x", "gptq", FINISHED, true},
    {"export of a file", "rtn", "x.gguf", "gguf:q4_0", EMPTY, false},
    {"export of a file --restart", "rtn", "x.gguf", "gguf:q4_0", FINISHED, true},
};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

/* How many states are looked at. */
typedef struct effort {
    size_t all_names;    /* every subset of at most so many pending names */
    size_t random_names; /* of more: so many at random */
    size_t random_data;
    size_t reruns; /* a scenario */
    size_t blocks; /* of the model */
} effort;

enum { WATCHED = 1 + PLACE_EXPORTS, CHOICES = 4096, PENDING = 256, KINDS_TOLD = 16 };

typedef struct call {
    disk_record r;
    const char *path, *to;
    const unsigned char *data;
    const char *file; /* the path of its descriptor */
} call;

typedef struct run {
    const scenario *s;
    const effort *effort;
    place p;
    const char *args[PLACE_ARGS + 1], *old[PLACE_ARGS + 1];
    char operand[2][TREE_PATH], output[TREE_PATH];
    const char *watched[WATCHED];
    unsigned char *log;
    call *call;
    size_t calls;
    tree before, after; /* disk/ */
    char partial[64];   /* OUTPUT.partial, below disk/ */
    bool unnamed;       /* files can be without a name */
    const call *head;   /* wrote the head of a GGUF file, or NULL */
    uint64_t *seen;     /* hashes of states, open addressing */
    size_t seen_room;
    size_t states, distinct, unfinished, reruns, violations;
    const char *kind[KINDS_TOLD]; /* of what was told */
    size_t kinds;
} run;

static const char *disk_path(const run *r, const char *name)
{
    char inner[TREE_PATH];
    (void)snprintf(inner, sizeof inner, "disk/%s", name);
    return place_path(&r->p, inner);
}

static void must_run(run *r, const char *const *args, char *const *env)
{
    const int code = place_run(&r->p, args, env);
    if (code == 0)
        return;
    place_show_log(&r->p);
    (void)fprintf(stderr, "power_loss: %s: a run without a failure ended with %d\n", r->s->name,
                  code);
    exit(EXIT_FAILURE);
}

/* Runs with the recorder and reads its log. */
static void record(run *r, const char *const *args, const char *shim)
{
    const char *const log = place_path(&r->p, "calls");
    char *const env[] = {place_env("LD_PRELOAD", shim), place_env(DISK_LOG_VARIABLE, log),
                         place_env(DISK_ROOT_VARIABLE, place_path(&r->p, "disk")),
                         place_env("ASAN_OPTIONS", "verify_asan_link_order=0"), NULL};
    must_run(r, args, env);
    for (size_t i = 0; env[i]; i++)
        free(env[i]);
    size_t len, at = 0;
    const char *file[DISK_FDS] = {NULL};
    r->log = tree_read(log, &len);
    r->calls = 0;
    (void)unlink(log);
    while (len - at >= sizeof(disk_record)) {
        call c = {.path = NULL};
        memcpy(&c.r, r->log + at, sizeof c.r);
        at += sizeof c.r;
        c.path = c.r.path ? (const char *)r->log + at : NULL;
        at += c.r.path;
        c.to = c.r.to ? (const char *)r->log + at : NULL;
        at += c.r.to;
        c.data = r->log + at;
        at += (size_t)c.r.len;
        if (c.r.call == DISK_OPEN || c.r.call == DISK_UNNAMED)
            file[c.r.fd] = c.path;
        c.file = c.r.fd >= 0 && c.r.fd < DISK_FDS ? file[c.r.fd] : NULL;
        r->call = tree_grow(r->call, r->calls + 1, sizeof c);
        r->call[r->calls++] = c;
    }
}

static void play(const run *r, disk *d, size_t i)
{
    const call *const c = &r->call[i];
    if (disk_play(d, &c->r, c->path, c->to, c->data))
        return;
    (void)fprintf(stderr, "power_loss: %s: call %zu cannot be played: %s\n", r->s->name, i,
                  d->what);
    exit(EXIT_FAILURE);
}

static bool everything[PENDING];

/* What another run left, half way: the first half of its calls, all of them kept. */
static void leave_unfinished(run *r, const char *shim)
{
    disk d;
    record(r, r->old, shim);
    disk_init(&d, place_path(&r->p, "disk"), &r->before);
    for (size_t i = 0; i < r->calls / 2; i++)
        play(r, &d, i);
    tree half = disk_after_crash(&d, everything, KEPT_ALL, 0);
    place_clear(&r->p);
    tree_write(&half, place_path(&r->p, "disk"));
    tree_free(&half);
    disk_free(&d);
    free(r->log);
    free(r->call);
    r->call = NULL;
}

/* The command of the job, or of the one that came before it. */
static void set_args(run *r, bool old, bool restart)
{
    const char *const operand =
        r->s->export ? (old ? "old" : "job") : (old ? "old.yaml" : "job.yaml");
    const char **const args = old ? r->old : r->args;
    size_t n = 0;
    (void)snprintf(r->operand[old], TREE_PATH, "%s", place_path(&r->p, operand));
    (void)snprintf(r->output, TREE_PATH, "%s", disk_path(r, r->s->output));
    args[n++] = r->s->export ? "export" : "compress";
    args[n++] = r->operand[old];
    args[n++] = "--output";
    args[n++] = r->output;
    args[n++] = "--threads";
    args[n++] = "2";
    if (r->s->export) {
        args[n++] = "--format";
        args[n++] = r->s->export;
    }
    if (restart)
        args[n++] = "--restart";
    args[n] = NULL;
}

/* Two artifacts for exports, beside the disk. */
static void make_artifacts(run *r)
{
    const char *const job[] = {"compress", place_path(&r->p, "job.yaml"), "--output",
                               place_path(&r->p, "job"), NULL};
    const char *const old[] = {"compress", place_path(&r->p, "old.yaml"), "--output",
                               place_path(&r->p, "old"), NULL};
    must_run(r, job, NULL);
    must_run(r, old, NULL);
}

static bool has_unnamed(const run *r)
{
    const int fd = open(place_path(&r->p, "disk"), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

static const call *find_head(const run *r)
{
    for (size_t i = 0; r->s->export && i < r->calls; i++) {
        const call *const c = &r->call[i];
        if (c->r.call == DISK_WRITE && c->r.len > 4 && memcmp(c->data, "GGUF", 4) == 0)
            return c;
    }
    return NULL;
}

static void begin(run *r, const char *program, const char *shim)
{
    const place_job *const job = place_find(r->s->job);
    r->p = place_make(program, job, r->effort->blocks);
    (void)snprintf(r->partial, sizeof r->partial, "%s.partial", r->s->output);
    r->watched[0] = r->s->output;
    for (size_t i = 0; !r->s->export && i < PLACE_EXPORTS; i++)
        r->watched[1 + i] = job->exports[i];
    if (r->s->export)
        make_artifacts(r);
    set_args(r, true, false);
    set_args(r, false, r->s->start != EMPTY);
    r->before = tree_load(place_path(&r->p, "disk"));
    if (r->s->start == FINISHED)
        must_run(r, r->old, NULL);
    else if (r->s->start == UNFINISHED)
        leave_unfinished(r, shim);
    tree_free(&r->before);
    r->before = tree_load(place_path(&r->p, "disk"));
    record(r, r->args, shim);
    r->after = tree_load(place_path(&r->p, "disk"));
    r->unnamed = has_unnamed(r);
    r->head = find_head(r);
}

/* The first of each kind is told, all are counted. True when it was told. */
static bool report(run *r, size_t at, const char *name, const char *what)
{
    const call *const c = at ? &r->call[at - 1] : NULL;
    r->violations++;
    for (size_t i = 0; i < r->kinds; i++)
        if (r->kind[i] == what)
            return false;
    if (r->kinds < KINDS_TOLD)
        r->kind[r->kinds++] = what;
    const char *const file = !c ? "" : c->path ? c->path : c->file ? c->file : "";
    (void)fprintf(stderr, "power_loss: %s: after call %zu of %zu (%u %s): %s: %s\n", r->s->name, at,
                  r->calls, c ? c->r.call : 0, file, name, what);
    return true;
}

/* Old, new, or absent where nothing was; `done`: new. */
static void check_output(run *r, size_t at, const tree *state, const char *name, bool *is_new)
{
    tree was = tree_below(&r->before, name), now = tree_below(state, name);
    tree will = tree_below(&r->after, name);
    *is_new = now.files > 0 && !place_difference(&will, &now, true);
    const bool same = was.files == 0 ? now.files == 0 : !place_difference(&was, &now, true);
    if (at == r->calls && !*is_new)
        (void)report(r, at, name,
                     now.files ? "the job ended, and it is not the new one"
                               : "the job ended, and it is not there");
    else if (!*is_new && !same)
        (void)report(r, at, name,
                     now.files ? "neither what was there nor what the job makes"
                               : "was there, and is not any more");
    free(was.file);
    free(now.file);
    free(will.file);
}

static bool ends_with(const char *text, const char *tail)
{
    const size_t n = strlen(text), m = strlen(tail);
    return n >= m && strcmp(text + n - m, tail) == 0;
}

/* A call that wrote into a file of weights in the partial directory: its name there, else NULL. */
static const char *weights_of(const run *r, const call *c)
{
    if (c->r.call != DISK_WRITE || !c->file || !ends_with(c->file, ".safetensors"))
        return NULL;
    const char *const name = c->file + strlen(place_path(&r->p, "disk")) + 1;
    const size_t len = strlen(r->partial);
    return strncmp(name, r->partial, len) == 0 && name[len] == '/' ? name + len + 1 : NULL;
}

/* The last append to the journal, before call `at`, of which the state has the bytes and all
 * bytes before them; 0 when there is none. */
static size_t last_record(const run *r, size_t at, const tree_file *journal)
{
    size_t last = 0, from = 0;
    char tail[80];
    (void)snprintf(tail, sizeof tail, "%s/journal", r->partial);
    for (size_t i = 0; i < at; i++) {
        const call *const c = &r->call[i];
        if (c->r.call != DISK_WRITE || !c->file || !ends_with(c->file, tail))
            continue;
        if (c->r.offset == 0)
            from = 0;
        const bool there = c->r.offset == from && c->r.offset + c->r.len <= journal->len &&
                           memcmp(journal->bytes + c->r.offset, c->data, c->r.len) == 0;
        last = there ? i : from == 0 ? 0 : last;
        from = there ? (size_t)(c->r.offset + c->r.len) : from;
    }
    return last;
}

/* What was written before a record of the journal, and is in the finished file, is there when the
 * record is. */
static void check_journal(run *r, size_t at, const tree *state)
{
    char name[TREE_PATH];
    tree_join(name, r->partial, "journal");
    const tree_file *const journal = tree_find(state, name);
    const size_t last = journal && !r->s->export ? last_record(r, at, journal) : 0;
    for (size_t i = 0; i < last; i++) {
        const call *const c = &r->call[i];
        const char *const file = weights_of(r, c);
        if (!file)
            continue;
        tree_join(name, r->s->output, file);
        const tree_file *const end = tree_find(&r->after, name);
        tree_join(name, r->partial, file);
        const tree_file *const now = tree_find(state, name);
        const size_t from = (size_t)c->r.offset, len = (size_t)c->r.len;
        if (!end || from + len > end->len || memcmp(end->bytes + from, c->data, len) != 0)
            continue;
        if (now && from + len <= now->len && memcmp(now->bytes + from, c->data, len) == 0)
            continue;
        (void)report(r, at, name,
                     now ? "lacks weights that the journal calls done"
                         : "is not there, and the journal calls its weights done");
        return;
    }
}

/* What gets its name when it has its first bytes. They may change to those of `end`, which is NULL
 * when they do not: each byte is of one of them. */
static void check_beginning(run *r, size_t at, const tree *state, const char *name,
                            const unsigned char *bytes, size_t len, const tree_file *end)
{
    const tree_file *const file = r->unnamed ? tree_find(state, name) : NULL;
    size_t good = 0;
    while (file && good < len && good < file->len &&
           (file->bytes[good] == bytes[good] || (end && file->bytes[good] == end->bytes[good])))
        good++;
    if (file && good < len)
        (void)report(r, at, name, "has its name, and does not begin as it should");
}

static void check_beginnings(run *r, size_t at, const tree *state)
{
    static const unsigned char lock[] = "pare lock: ";
    char name[TREE_PATH];
    (void)snprintf(name, sizeof name, "%s.lock", r->s->output);
    check_beginning(r, at, state, name, lock, sizeof lock - 1, NULL);
    tree_join(name, r->partial, PARE_OWNED_FILE);
    if (r->head)
        check_beginning(r, at, state, name, r->head->data, (size_t)r->head->r.len,
                        tree_find(&r->after, r->s->output));
}

/* Runs the job again in a state; `done` says that all its outputs are the new ones. */
static void run_again(run *r, size_t at, const tree *state, bool done)
{
    r->reruns++;
    place_clear(&r->p);
    tree_write(state, place_path(&r->p, "disk"));
    const int code = place_run(&r->p, r->args, NULL);
    if (code != 0 && !(done && code == 2)) {
        if (report(r, at, r->s->output, "the next run failed"))
            place_show_log(&r->p);
        return;
    }
    tree now = tree_load(place_path(&r->p, "disk"));
    const char *const other = place_difference(&r->after, &now, false);
    if (other && report(r, at, other, "differs after the next run"))
        place_show_log(&r->p);
    tree_free(&now);
    const char *const verify[] = {"verify", r->output, NULL};
    if (!r->s->export && place_run(&r->p, verify, NULL) != 0)
        (void)report(r, at, r->s->output, "verify finds faults after the next run");
}

/* True the first time. */
static bool is_new_state(run *r, const tree *t)
{
    uint8_t hash[16];
    uint64_t key = t->files;
    for (size_t i = 0; i < t->files; i++) {
        uint64_t part;
        pare_xxh3(t->file[i].name, strlen(t->file[i].name), hash);
        memcpy(&part, hash, sizeof part);
        key = key * 0x9E3779B97F4A7C15u + part;
        pare_xxh3(t->file[i].bytes, t->file[i].len, hash);
        memcpy(&part, hash, sizeof part);
        key = key * 0x9E3779B97F4A7C15u + part + t->file[i].directory;
    }
    if (2 * r->distinct >= r->seen_room) {
        const size_t room = r->seen_room ? 2 * r->seen_room : 4096;
        uint64_t *const table = calloc(room, sizeof *table);
        if (!table)
            tree_die("no memory", "states");
        for (size_t i = 0; i < r->seen_room; i++)
            if (r->seen[i]) {
                size_t at = r->seen[i] % room;
                while (table[at])
                    at = (at + 1) % room;
                table[at] = r->seen[i];
            }
        free(r->seen);
        r->seen = table;
        r->seen_room = room;
    }
    key += key == 0;
    size_t at = key % r->seen_room;
    for (; r->seen[at]; at = (at + 1) % r->seen_room)
        if (r->seen[at] == key)
            return false;
    r->seen[at] = key;
    return true;
}

/* Which of `count` pending names a crash keeps, one choice after the other; false past the last:
 * up to all_names every subset, of more all, none, all oldest, all newest, all but one, one alone,
 * and some at random. */
static bool choose_names(const effort *e, size_t count, size_t turn, uint64_t seed, bool *kept)
{
    if (count <= e->all_names) {
        for (size_t i = 0; i < count; i++)
            kept[i] = turn >> i & 1;
        return turn < (size_t)1 << count;
    }
    const size_t kind = turn / (count + 1), at = turn % (count + 1);
    for (size_t i = 0; i < count; i++) {
        switch (kind) {
        case 0: kept[i] = i < at; break;
        case 1: kept[i] = i >= at; break;
        case 2: kept[i] = i != at; break;
        case 3: kept[i] = i == at; break;
        default: kept[i] = pare_random_u64(seed, turn, i) % 2; break;
        }
    }
    return turn < 4 * (count + 1) + e->random_names;
}

/* What a crash keeps of the data; false past the last. */
static bool choose_data(const effort *e, bool pending, size_t turn, disk_kept *kept)
{
    *kept = turn < KEPT_RANDOM ? (disk_kept)turn : KEPT_RANDOM;
    return turn < (pending ? KEPT_RANDOM + e->random_data : 1);
}

/* A lock or a journal that was never synced and begins with foreign bytes is not taken for one of
 * pare: the next run asks its user to look at it. Nothing is lost, so such states are not run
 * again. */
static bool has_foreign_mark(const tree *t)
{
    for (size_t i = 0; i < t->files; i++)
        if ((ends_with(t->file[i].name, ".lock") || ends_with(t->file[i].name, "/journal")) &&
            t->file[i].len > 0 && t->file[i].bytes[0] == DISK_STALE)
            return true;
    return false;
}

static void look_at(run *r, size_t at, tree *state, tree *sample, bool *sample_done)
{
    bool is_new, all_new = true;
    r->states++;
    if (!is_new_state(r, state) && at < r->calls)
        return;
    r->distinct++;
    for (size_t i = 0; i < WATCHED; i++)
        if (r->watched[i]) {
            check_output(r, at, state, r->watched[i], &is_new);
            all_new &= is_new;
        }
    check_journal(r, at, state);
    check_beginnings(r, at, state);
    r->unfinished += !all_new;
    /* any of the states of this call, each as likely as the others */
    const uint64_t chance = pare_random_u64(3, at, r->states);
    if ((!sample->files || chance % 4 == 0) && !has_foreign_mark(state)) {
        const tree old = *sample;
        *sample = *state;
        *state = old;
        *sample_done = all_new;
    }
}

/* All that may be left when the power fails behind call `at`. */
static void fail_power(run *r, size_t at, const disk *d, bool again)
{
    bool kept[PENDING];
    tree sample = {0};
    bool sample_done = false;
    if (d->changes > PENDING)
        tree_die("too many pending names", r->s->name);
    const bool pending = disk_has_pending_data(d);
    for (size_t n = 0; choose_names(r->effort, d->changes, n, at, kept); n++) {
        disk_kept data;
        for (size_t i = 0; choose_data(r->effort, pending, i, &data); i++) {
            tree state = disk_after_crash(d, kept, data, pare_random_u64(at, n, i));
            look_at(r, at, &state, &sample, &sample_done);
            tree_free(&state);
        }
    }
    if (again && sample.files)
        run_again(r, at, &sample, sample_done);
    tree_free(&sample);
}

static bool changes_nothing(const call *c)
{
    return c->r.call == DISK_CLOSE || (c->r.call == DISK_OPEN && !(c->r.flags & O_CREAT));
}

static size_t play_scenario(const scenario *s, const effort *e, const char *program,
                            const char *shim)
{
    static run r;
    disk d;
    r = (run){.s = s, .effort = e};
    begin(&r, program, shim);
    disk_init(&d, place_path(&r.p, "disk"), &r.before);
    size_t again = 0;
    for (size_t at = 0; at <= r.calls; at++) {
        if (at > 0)
            play(&r, &d, at - 1);
        if (at > 0 && at < r.calls && changes_nothing(&r.call[at - 1]))
            continue;
        const bool due = at * e->reruns >= again * r.calls;
        again += due;
        fail_power(&r, at, &d, due);
    }
    tree end = disk_after_crash(&d, everything, KEPT_ALL, 0);
    const char *const missed = place_difference(&r.after, &end, true);
    if (missed)
        (void)report(&r, r.calls, missed,
                     "the recorder missed a call: the disk differs from its log");
    (void)printf(
        "%-38s %5zu calls %8zu states %7zu distinct %7zu unfinished %5zu rerun %3zu wrong\n",
        s->name, r.calls, r.states, r.distinct, r.unfinished, r.reruns, r.violations);
    (void)fflush(stdout);
    tree_free(&end);
    tree_free(&r.before);
    tree_free(&r.after);
    disk_free(&d);
    free(r.log);
    free(r.call);
    free(r.seen);
    tree_remove(r.p.root);
    return r.violations;
}

int main(int argc, char **argv)
{
    static const effort of_short = {3, 2, 1, 6, 2}, of_long = {9, 24, 8, 400, 4};
    const bool is_long = argc > 3 && strcmp(argv[3], "long") == 0;
    size_t wrong = 0, played = 0;
    if (argc < 4 || (!is_long && strcmp(argv[3], "short") != 0)) {
        (void)fprintf(stderr, "power_loss PROGRAM SHIM short|long [SCENARIO]\n");
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < PENDING; i++)
        everything[i] = true;
    for (size_t i = 0; i < SCENARIOS; i++) {
        if (argc > 4 ? strcmp(argv[4], scenarios[i].name) != 0 : !is_long && !scenarios[i].in_short)
            continue;
        wrong += play_scenario(&scenarios[i], is_long ? &of_long : &of_short, argv[1], argv[2]);
        played++;
    }
    (void)printf("power_loss: %zu scenarios, %zu wrong states\n", played, wrong);
    return played && !wrong ? EXIT_SUCCESS : EXIT_FAILURE;
}
