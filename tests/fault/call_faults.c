/* Every call that a command makes fails in turn.
 *
 *   call_faults PROGRAM SHIM short|long [COMMAND]
 *
 * Runs a command with SHIM (shim_fail.c), which lets the n-th call of a kind fail, for n = 1 until
 * a run has no n-th call, for each kind and each of its errors (call_kinds.h); of many calls of one
 * kind some. The command must end, with a message and one of the exit codes that its user was
 * promised for it, or in success with the right bytes; an output is whole or absent; and without
 * the failure the same command ends in the same bytes. Exit status 0: it always did. */
#define _DEFAULT_SOURCE
#include "tests/fault/commands.h"
#include "tests/fault/shim.h"

static const struct {
    const char *name, *errors;
} kinds[] = {
#define X(name, errors, space) {#name, errors},
    CALL_KINDS(X)
#undef X
};

static const struct {
    const char *name;
    int code;
} error_codes[] = {{"EMFILE", EMFILE},        {"EACCES", EACCES}, {"EIO", EIO},
                   {"EINTR", EINTR},          {"ENOSPC", ENOSPC}, {"ENOMEM", ENOMEM},
                   {"ENODEV", ENODEV},        {"EDQUOT", EDQUOT}, {"EINVAL", EINVAL},
                   {"ENOSYS", ENOSYS},        {"EAGAIN", EAGAIN}, {"ENOLCK", ENOLCK},
                   {"EOPNOTSUPP", EOPNOTSUPP}};

/* How many failures are tried. */
typedef struct effort {
    size_t points;    /* calls of a kind, where it has more */
    bool first_error; /* of a kind's errors that one alone, and no run with all later calls failing
                       */
    bool run_each;    /* again after each failure, else after every fourth */
} effort;

typedef struct attack {
    const command *c;
    const effort *effort;
    place p;
    const char *args[PLACE_ARGS + 1];
    shim shim;
    tree want, printed;
    size_t runs, struck, codes[6], again, wrong;
} attack;

/* What a failure was, for messages. */
typedef struct fault {
    call_kind kind;
    const char *error;
    uint64_t at;
    bool stays;
} fault;

static int error_code(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof error_codes / sizeof *error_codes; i++)
        if (strlen(error_codes[i].name) == len && strncmp(error_codes[i].name, name, len) == 0)
            return error_codes[i].code;
    tree_die("unknown error", name);
    return 0;
}

static void wrong(attack *a, const fault *f, const char *what, const char *which)
{
    (void)fprintf(stderr, "call_faults: %s: %s call %llu fails with %.*s%s: %s %s\n", a->c->name,
                  kinds[f->kind].name, (unsigned long long)f->at, (int)strcspn(f->error, " "),
                  f->error, f->stays ? " and all behind it" : "", what, which);
    if (a->wrong++ < 10)
        place_show_log(&a->p);
}

/* Runs with a failure, or without when it is NULL. */
static int run_with(attack *a, const fault *f)
{
    char code[16];
    a->runs++;
    if (!f)
        return place_run(&a->p, a->args, NULL);
    (void)snprintf(code, sizeof code, "%d", error_code(f->error, strcspn(f->error, " ")));
    const char *const settings[][2] = {{FAIL_KIND, kinds[f->kind].name},
                                       {FAIL_ERRNO, code},
                                       {f->stays ? FAIL_STAY : NULL, "1"},
                                       {NULL, NULL}};
    return place_end(shim_start(&a->shim, &a->p, a->args, f->at, settings));
}

/* How many of the outputs are there; those are compared with what they should be. */
static size_t check_outputs(attack *a, const fault *f, const tree *now, const char *when)
{
    size_t there = 0;
    for (size_t i = 0; i < COMMAND_OUTPUTS && a->c->output[i]; i++) {
        tree is = tree_below(now, a->c->output[i]), should = tree_below(&a->want, a->c->output[i]);
        const char *const other = is.files ? place_difference(&should, &is, false) : NULL;
        there += is.files > 0;
        if (other)
            wrong(a, f, when, *other ? other : a->c->output[i]);
        free(is.file);
        free(should.file);
    }
    return there;
}

static void check_again(attack *a, const fault *f, bool all_there)
{
    a->again++;
    const int status = run_with(a, NULL);
    if (status != 0 && !(status == 2 && all_there)) {
        wrong(a, f, "the next run ends with an error", "");
        return;
    }
    tree now = tree_load(place_path(&a->p, "disk"));
    const char *const other = place_difference(&a->want, &now, false);
    if (other)
        wrong(a, f, "after the next run differs", other);
    tree_free(&now);
}

/* What nobody can look at counts as absent or as not of pare, which is a mistake of whoever named
 * it; the message has its path. */
static bool is_promised(const fault *f, int status)
{
    return status == 1 || status == 4 || status == 5 ||
           (status == 2 && (f->kind == CALL_access || f->kind == CALL_stat));
}

/* False when there was no such call. */
static bool try_fault(attack *a, const fault *f)
{
    size_t outputs = 0, len;
    while (outputs < COMMAND_OUTPUTS && a->c->output[outputs])
        outputs++;
    place_clear(&a->p);
    const int status = run_with(a, f);
    const bool struck = atomic_load(&a->shim.counts->struck) != 0;
    tree now = tree_load(place_path(&a->p, "disk")), printed = command_printed(&a->p);
    const size_t there = check_outputs(a, f, &now, "left torn or wrong");
    free(tree_read(place_path(&a->p, "log"), &len));
    a->struck += struck;
    a->codes[status < 6 ? status : 3]++;
    if (status == PLACE_HUNG || status == PLACE_CRASHED)
        wrong(a, f, status == PLACE_HUNG ? "hangs" : "crashes", "");
    else if (status == 0 &&
             (there != outputs || (outputs == 0 && place_difference(&a->printed, &printed, true))))
        wrong(a, f, "success, and not what it should give", "");
    else if (status != 0 && !(struck && is_promised(f, status)))
        wrong(a, f, "an exit code that says something else", "");
    else if (status != 0 && len == 0)
        wrong(a, f, "no message", "");
    else if (outputs > 0 && struck && (a->effort->run_each || a->struck % 4 == 0))
        check_again(a, f, there == outputs);
    tree_free(&now);
    tree_free(&printed);
    return struck;
}

/* n = 1 until clean, or `points` of them when a run without failure has more. */
static void try_error(attack *a, call_kind kind, const char *error, uint64_t calls, bool stays)
{
    const size_t points = a->effort->points;
    fault f = {.kind = kind, .error = error, .stays = stays};
    if (calls <= points) {
        for (f.at = 1; try_fault(a, &f); f.at++)
            ;
        return;
    }
    for (size_t i = 0; i < points; i++) {
        f.at = points == 1 ? (calls + 1) / 2 : 1 + i * (calls - 1) / (points - 1);
        (void)try_fault(a, &f);
    }
}

/* With each of its errors; and, once the first call has failed, all behind it. */
static void try_kind(attack *a, call_kind kind, uint64_t calls)
{
    const char *error = kinds[kind].errors;
    for (size_t i = 0; calls && *error; i++) {
        try_error(a, kind, error, calls, false);
        if (a->effort->first_error)
            return;
        if (i == 0 && strncmp(error, "EINTR", 5) != 0)
            try_error(a, kind, error, calls, true);
        error += strcspn(error, " ");
        error += strspn(error, " ");
    }
}

static void begin(attack *a, const char *program, const char *library)
{
    a->p = place_make(program, place_find(a->c->job), 2);
    a->shim = shim_open(&a->p, library);
    command_artifacts(&a->p, a->c);
    command_args(&a->p, a->c, false, a->args);
    if (run_with(a, NULL) != 0) {
        place_show_log(&a->p);
        tree_die("the run without a failure failed", a->c->name);
    }
    a->want = tree_load(place_path(&a->p, "disk"));
    a->printed = command_printed(&a->p);
    place_clear(&a->p);
}

static size_t attack_command(const command *c, const effort *e, const char *program,
                             const char *library)
{
    static attack a;
    a = (attack){.c = c, .effort = e};
    begin(&a, program, library);
    /* no call is the 0th: this counts */
    const fault none = {.kind = CALL_open, .error = kinds[CALL_open].errors};
    uint64_t calls[CALL_KIND_COUNT];
    size_t met = 0;
    if (run_with(&a, &none) != 0)
        tree_die("does not run with the shim", c->name);
    for (call_kind k = 0; k < CALL_KIND_COUNT; k++) {
        calls[k] = atomic_load(&a.shim.counts->calls[k]);
        met += calls[k] > 0;
    }
    if (calls[CALL_open] == 0 || calls[CALL_malloc] == 0)
        tree_die("the shim sees no calls", c->name);
    for (call_kind k = 0; k < CALL_KIND_COUNT; k++)
        try_kind(&a, k, calls[k]);
    (void)printf("%-31s %2zu kinds of calls %6zu failures: %5zu exit 0, %5zu exit 1, %4zu exit 4, "
                 "%5zu exit 5, %2zu other; %5zu run again, %zu wrong\n",
                 c->name, met, a.struck, a.codes[0], a.codes[1], a.codes[4], a.codes[5],
                 a.codes[2] + a.codes[3], a.again, a.wrong);
    (void)fflush(stdout);
    tree_free(&a.want);
    tree_free(&a.printed);
    command_free(a.args);
    shim_close(&a.shim);
    tree_remove(a.p.root);
    return a.wrong;
}

int main(int argc, char **argv)
{
    static const effort of_short = {1, true, false}, of_long = {100, false, true};
    const bool is_long = argc > 3 && strcmp(argv[3], "long") == 0;
    size_t wrong_runs = 0, tried = 0;
    if (argc < 4 || (!is_long && strcmp(argv[3], "short") != 0)) {
        (void)fprintf(stderr, "call_faults PROGRAM SHIM short|long [COMMAND]\n");
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < COMMANDS; i++) {
        if (argc > 4 && strcmp(argv[4], commands[i].name) != 0)
            continue;
        wrong_runs +=
            attack_command(&commands[i], is_long ? &of_long : &of_short, argv[1], argv[2]);
        tried++;
    }
    (void)printf("call_faults: %zu commands, %zu wrong runs\n", tried, wrong_runs);
    return tried && !wrong_runs ? EXIT_SUCCESS : EXIT_FAILURE;
}
