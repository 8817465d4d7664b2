/* A real file system that gets full.
 *
 *   small_disk PROGRAM SHIM short|long [COMMAND]
 *
 * Mounts a tmpfs of a few MiB in a mount namespace of its own and runs commands on it: with less
 * and less free space from the start, and with a file that takes all that is left while the command
 * runs (SHIM: shim_fail.c), in front of the n-th call that needs space, for n = 1 until there is no
 * n-th. Either there was enough, or the command says with exit code 5 which path could not be
 * written and how much is free; an output that was there stays; and with space the same command
 * ends in the same bytes. A job that is complete needs no space. Exit status 0: so it was; 77:
 * mounting is not allowed here. */
#define _GNU_SOURCE /* unshare */
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "tests/fault/commands.h"
#include "tests/fault/shim.h"

enum { SKIPPED = 77, FULL = 5 };

/* The commands of other tests that write, and one with a log. */
static const struct {
    const char *name;
    bool restart, log;
} rows[] = {
    {"compress", false, false},
    {"compress", true, false},
    {"compress to a plain checkpoint", false, true},
    {"export to a directory", true, false},
    {"export to a file", true, false},
    {"generate", false, false},
    {"pack", true, false},
    {"unpack", false, false},
};
enum { ROWS = sizeof rows / sizeof *rows };

typedef struct attack {
    const command *c;
    bool restart;
    place p;
    const char *args[PLACE_ARGS + 1];
    shim shim;
    tree old, want;
    uint64_t needed; /* bytes of what the command makes */
    size_t runs, full, wrong;
} attack;

static void wrong(attack *a, const char *when, uint64_t n, const char *what, const char *which)
{
    (void)fprintf(stderr, "small_disk: %s%s: %s %llu: %s %s\n", a->c->name,
                  a->restart ? " --restart" : "", when, (unsigned long long)n, what, which);
    if (a->wrong++ < 10)
        place_show_log(&a->p);
}

static bool write_text(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY);
    const bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        (void)close(fd);
    return ok;
}

/* Mounts of this process are its own from now on. Without rights it becomes the root of a
 * namespace of users. */
static bool enter_namespace(void)
{
    char map[64];
    const unsigned user = geteuid(), group = getegid();
    if (unshare(CLONE_NEWNS) != 0) {
        if (unshare(CLONE_NEWNS | CLONE_NEWUSER) != 0)
            return false;
        (void)write_text("/proc/self/setgroups", "deny");
        (void)snprintf(map, sizeof map, "0 %u 1", user);
        if (!write_text("/proc/self/uid_map", map))
            return false;
        (void)snprintf(map, sizeof map, "0 %u 1", group);
        if (!write_text("/proc/self/gid_map", map))
            return false;
    }
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static uint64_t free_bytes(const attack *a)
{
    struct statvfs fs;
    if (statvfs(place_path(&a->p, "disk"), &fs) != 0)
        tree_die("cannot look at", "disk");
    return (uint64_t)fs.f_bavail * fs.f_frsize;
}

/* What is there before each run. */
static void lay_out(attack *a)
{
    place_clear(&a->p);
    tree_write(&a->old, place_path(&a->p, "disk"));
}

static void leave_free(attack *a, uint64_t bytes)
{
    const uint64_t all = free_bytes(a);
    const int fd = open(place_path(&a->p, "disk/eater"), O_RDWR | O_CREAT, 0666);
    if (fd < 0 || (bytes < all && posix_fallocate(fd, 0, (off_t)(all - bytes)) != 0))
        tree_die("cannot fill", "disk");
    (void)close(fd);
}

static bool contains(const char *text, size_t len, const char *word)
{
    const size_t n = strlen(word);
    for (size_t i = 0; i + n <= len; i++)
        if (memcmp(text + i, word, n) == 0)
            return true;
    return false;
}

static void check_message(attack *a, const char *when, uint64_t n)
{
    size_t len;
    char *const log = (char *)tree_read(place_path(&a->p, "log"), &len);
    if (!contains(log, len, place_path(&a->p, "disk")))
        wrong(a, when, n, "no path in the message", "");
    if (!contains(log, len, " free"))
        wrong(a, when, n, "the message does not say how much is free", "");
    free(log);
}

/* Old, new, or absent where nothing was. Whether all are new. */
static bool check_outputs(attack *a, const char *when, uint64_t n)
{
    tree now = tree_load(place_path(&a->p, "disk"));
    bool all = true;
    for (size_t i = 0; i < COMMAND_OUTPUTS && a->c->output[i]; i++) {
        const place_state state = place_judge(&now, &a->old, &a->want, a->c->output[i]);
        if (state == PLACE_TORN || state == PLACE_LOST)
            wrong(a, when, n, "torn or lost", a->c->output[i]);
        all &= state == PLACE_NEW;
    }
    tree_free(&now);
    return all;
}

static void run_again(attack *a, const char *when, uint64_t n, bool done)
{
    const int status = place_run(&a->p, a->args, NULL);
    if (status != 0 && !(done && status == 2)) {
        wrong(a, when, n, "with space it fails", "");
        return;
    }
    tree now = tree_load(place_path(&a->p, "disk"));
    const char *const other = place_difference(&a->want, &now, false);
    if (other)
        wrong(a, when, n, "with space differs", other);
    tree_free(&now);
}

/* Runs on a disk that is full, or gets so; false when it did not matter. */
static bool run_full(attack *a, const char *when, uint64_t n, bool gets_full)
{
    const char *const settings[][2] = {{FAIL_EAT, place_path(&a->p, "disk/eater")}, {NULL, NULL}};
    a->runs++;
    const int status = place_end(gets_full ? shim_start(&a->shim, &a->p, a->args, n, settings)
                                           : place_start(&a->p, a->args, NULL));
    const bool struck = !gets_full || atomic_load(&a->shim.counts->struck) != 0;
    (void)unlink(place_path(&a->p, "disk/eater"));
    const bool done = check_outputs(a, when, n);
    a->full += status == FULL;
    if (status == FULL)
        check_message(a, when, n);
    else if (status != 0)
        wrong(a, when, n, "an exit code other than 5", "");
    else if (!done)
        wrong(a, when, n, "success without the output", "");
    if (status == FULL && !struck)
        wrong(a, when, n, "not full, and says so", "");
    if (status != 0)
        run_again(a, when, n, done);
    return struck;
}

static void add_option(attack *a, const char *option, const char *value)
{
    size_t n = 0;
    while (a->args[n])
        n++;
    a->args[n++] = strdup(option);
    if (value)
        a->args[n++] = strdup(value);
    a->args[n] = NULL;
}

static void must_run(attack *a)
{
    if (place_run(&a->p, a->args, NULL) == 0)
        return;
    place_show_log(&a->p);
    tree_die("failed on an empty disk", a->c->name);
}

static void begin(attack *a, const char *program, const char *library, bool log)
{
    a->p = place_make(program, place_find(a->c->job), 2);
    a->shim = shim_open(&a->p, library);
    command_artifacts(&a->p, a->c);
    place_clear(&a->p);
    if (mount("none", place_path(&a->p, "disk"), "tmpfs", 0, "size=4m") != 0)
        tree_die("cannot mount a tmpfs on", place_path(&a->p, "disk"));
    command_args(&a->p, a->c, true, a->args);
    if (a->restart)
        must_run(a);
    a->old = tree_load(place_path(&a->p, "disk"));
    command_free(a->args);
    command_args(&a->p, a->c, false, a->args);
    if (a->restart)
        add_option(a, "--restart", NULL);
    if (log) {
        char form[600];
        (void)snprintf(form, sizeof form, "json:%s", place_path(&a->p, "disk/log.jsonl"));
        add_option(a, "--log", form);
    }
    must_run(a);
    a->want = tree_load(place_path(&a->p, "disk"));
    for (size_t i = 0; i < a->want.files; i++)
        a->needed += a->want.file[i].len;
}

static void end(attack *a)
{
    tree_free(&a->old);
    tree_free(&a->want);
    command_free(a->args);
    shim_close(&a->shim);
    if (umount(place_path(&a->p, "disk")) != 0)
        tree_die("cannot unmount", "disk");
    tree_remove(a->p.root);
}

/* A job that is complete needs no space but for the line in its lock. */
static void run_complete(attack *a)
{
    enum { LOCK_BYTES = 64 << 10 };
    const char *const compress = a->args[0], *const commands_of_job[] = {compress, "plan"};
    if (strcmp(compress, "compress") != 0 || a->restart)
        return;
    place_clear(&a->p);
    tree_write(&a->want, place_path(&a->p, "disk"));
    leave_free(a, LOCK_BYTES);
    for (size_t i = 0; i < 2; i++) {
        a->args[0] = commands_of_job[i];
        a->runs++;
        if (place_run(&a->p, a->args, NULL) != 0)
            wrong(a, "a complete output, bytes that are free:", LOCK_BYTES, "refused by",
                  a->args[0]);
    }
    a->args[0] = compress;
    (void)unlink(place_path(&a->p, "disk/eater"));
}

static size_t attack_row(size_t row, const char *program, const char *library, size_t points)
{
    static attack a;
    const command *c = commands;
    while (strcmp(c->name, rows[row].name) != 0)
        c++;
    a = (attack){.c = c, .restart = rows[row].restart};
    begin(&a, program, library, rows[row].log);
    /* from nothing to less than the half */
    for (size_t i = 0; i < points; i++) {
        const uint64_t bytes = i * a.needed / (2 * points);
        lay_out(&a);
        leave_free(&a, bytes);
        (void)run_full(&a, "bytes that are free:", bytes, false);
    }
    const size_t small = a.full;
    if (!rows[row].log)
        run_complete(&a);
    uint64_t calls = 0, n = 1;
    do {
        lay_out(&a);
        calls = n;
        n += run_full(&a, "full in front of call", n, true) ? 1 : 0;
        if (n > calls && points < 100) /* the short form skips more and more */
            n += n / 4;
    } while (n > calls);
    (void)printf("%-31s%-10s%s %3zu runs: %3zu exit 5 with too little from the start, %3zu with a "
                 "disk that got full, %zu wrong\n",
                 c->name, a.restart ? " --restart" : "", rows[row].log ? " --log" : "", a.runs,
                 small, a.full - small, a.wrong);
    (void)fflush(stdout);
    const size_t found = a.wrong + (a.full == small) + (small == 0);
    end(&a);
    return found;
}

int main(int argc, char **argv)
{
    const bool is_long = argc > 3 && strcmp(argv[3], "long") == 0;
    size_t found = 0, tried = 0;
    if (argc < 4 || (!is_long && strcmp(argv[3], "short") != 0)) {
        (void)fprintf(stderr, "small_disk PROGRAM SHIM short|long [COMMAND]\n");
        return EXIT_FAILURE;
    }
    if (!enter_namespace()) {
        (void)fprintf(stderr, "small_disk: skipped: mounting is not allowed here: %s\n",
                      strerror(errno));
        return SKIPPED;
    }
    for (size_t i = 0; i < ROWS; i++) {
        if (argc > 4 && strcmp(argv[4], rows[i].name) != 0)
            continue;
        found += attack_row(i, argv[1], argv[2], is_long ? 100 : 3);
        tried++;
    }
    (void)printf("small_disk: %zu commands, %zu findings\n", tried, found);
    return tried && !found ? EXIT_SUCCESS : EXIT_FAILURE;
}
