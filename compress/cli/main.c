/* The program: splits the command line, runs one command, prints the failure, chooses the exit
 * code. Signals: SIGINT, SIGTERM, SIGHUP (the terminal is gone) and SIGXCPU (ulimit -t) ask the
 * command to stop at the next safe place, a second SIGINT or SIGTERM ends the program at once; an
 * unfinished compression can be resumed after both. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compress/batch/batch.h"
#include "compress/bench/bench.h"
#include "compress/cli/cli.h"
#include "compress/cli/early.h"
#include "compress/cli/output_file.h"
#include "recipes/pattern.h"
#include "runtime/room.h"
#include "runtime/threads.h"

static volatile int interrupt; /* the signal that came, or 0 */

static bool is_asked(int number)
{
    return number == SIGINT || number == SIGTERM;
}

/* A terminal that goes sends SIGHUP more than once, ulimit -t sends SIGXCPU each second: neither is
 * a first or second ^C. */
static void on_signal(int number)
{
    if (is_asked(interrupt) && is_asked(number))
        _exit(PARE_EXIT_INTERRUPTED);
    if (!interrupt || is_asked(number))
        interrupt = number;
}

/* Memory that a command gives back goes back to the system, whatever it took before: by default the
 * C library keeps more of it the larger the allocations were. */
static void return_memory(void)
{
#if defined(__GLIBC__)
    (void)mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    (void)mallopt(M_TRIM_THRESHOLD, 128 * 1024);
    (void)mallopt(M_ARENA_MAX, 1); /* one of another thread takes 64 MiB of addresses */
#endif
}

static void install_signals(void)
{
    struct sigaction stop = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN}, given;
    (void)sigemptyset(&stop.sa_mask);
    (void)sigemptyset(&ignore.sa_mask);
    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGTERM, &stop, NULL);
    (void)sigaction(SIGXCPU, &stop, NULL);
    if (sigaction(SIGHUP, NULL, &given) == 0 && given.sa_handler != SIG_IGN) /* as nohup has it */
        (void)sigaction(SIGHUP, &stop, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL); /* a write then fails and is reported */
    (void)sigaction(SIGXFSZ, &ignore, NULL);
    pare_file_guard(PARE_EXIT_INPUT);
}

/* Nothing is left to be stopped in order: whatever a library still does at the end, a signal ends
 * the program. */
static void end_signals(void)
{
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
}

/* The only place that turns a status into an exit code. */
static int exit_code(pare_status s)
{
    switch (s) {
    case PARE_OK: return PARE_EXIT_DONE;
    case PARE_EUSAGE:
    case PARE_EEXISTS: return PARE_EXIT_USAGE;
    case PARE_EFORMAT:
    case PARE_ENUMERIC:
    case PARE_ENOTFOUND:
    case PARE_ENOTSUP: return PARE_EXIT_INPUT;
    case PARE_ENOMEM:
    case PARE_ENOSPC: return PARE_EXIT_RESOURCES;
    case PARE_EINTERRUPTED: return PARE_EXIT_INTERRUPTED;
    case PARE_EINVAL:
    case PARE_ESHAPE:
    case PARE_EDEVICE:
    case PARE_EIO: break;
    }
    return PARE_EXIT_FAILED;
}

static pare_status find_command(pare_cli *cli, const char *word, const pare_command **out)
{
    const char *known[PARE_ARGS_MAX];
    size_t count = 0;
    for (const pare_command *c = pare_commands; c->name; known[count++] = c->name, c++)
        if (strcmp(c->name, word) == 0) {
            *out = c;
            return PARE_OK;
        }
    known[count++] = "--version";
    const char *const near = pare_nearest_word(word, known, count);
    return pare_fail(&cli->cx, PARE_EUSAGE, "unknown command \"%s\"%s%s%s", word,
                     near ? "; did you mean " : "; \"pare help\" lists the commands",
                     near ? near : "", near ? "?" : "");
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static pare_status read_format(pare_cli *cli, const pare_command *command, const pare_args *args)
{
    const char *const format = pare_args_text(args, "format");
    if (command->run == pare_export_command) /* its --format is the engine's */
        return PARE_OK;
    if (command->run == pare_compare_run) /* it has more formats */
        return PARE_OK;
    cli->json = format && strcmp(format, "json") == 0;
    if (format && !cli->json && strcmp(format, "text") != 0)
        return pare_fail(&cli->cx, PARE_EUSAGE, "--format \"%s\": expected text or json", format);
    if (cli->json && (command->run == pare_help_run || command->run == pare_completion_run))
        return pare_fail(&cli->cx, PARE_EUSAGE, "%s prints text alone; leave --format json out",
                         command->name);
    return PARE_OK;
}

/* Commands that begin no threads read --threads, too, so that a mistake in it is told. A batch
 * shares them out, and has more. */
static pare_status read_threads(pare_cli *cli, const pare_command *command, const pare_args *args)
{
    uint64_t threads = 0;
    if (command->run == pare_batch_command)
        return PARE_OK;
    PARE_TRY(pare_args_count(&cli->cx, args, "threads", 1, PARE_THREADS_MAX, &threads));
    cli->threads = (size_t)threads;
    return PARE_OK;
}

/* The log is no file of a model. */
static pare_status place_log(pare_cli *cli, const pare_args *args, const char *path)
{
    PARE_TRY(pare_output_file_apart(cli, "--log", NULL, path));
    for (size_t i = 0; i < args->operands; i++)
        PARE_TRY(pare_output_file_apart(cli, "--log", args->operand[i], path));
    return PARE_OK;
}

/* --log and --no-progress, as far as the arguments could be read. */
static pare_status begin_log(pare_cli *cli, const pare_command *command, const pare_args *args)
{
    const char *const form = pare_args_text(args, "log");
    pare_screen *const screen = &cli->screen;
    screen->no_progress = pare_args_given(args, "no-progress");
    if (!form || pare_world_rank(&cli->cx) > 0)
        return PARE_OK;
    if (strncmp(form, "json:", 5) == 0)
        PARE_TRY(place_log(cli, args, form + 5));
    PARE_TRY(pare_event_log_open(&cli->cx, form, &screen->log));
    screen->silent = !screen->log.path;
    pare_json_writer *const w = pare_screen_event(screen, "start", command->summary);
    if (w) {
        pare_json_put_text(w, "command", command->name);
        pare_json_put_text(w, "version", PARE_VERSION);
    }
    pare_screen_event_end(screen, w);
    return PARE_OK;
}

/* The processes that mpirun started: the first of them speaks. */
static pare_status join_world(pare_cli *cli, const pare_command *command)
{
    PARE_TRY(pare_world_open(&cli->cx, &cli->world));
    if (pare_world_rank(&cli->cx) > 0) {
        cli->screen.mute = cli->screen.silent = true;
        cli->cx.progress = (pare_progress){0};
    }
    if (pare_world_size(&cli->cx) == 1 || command->run == pare_compress_run)
        return PARE_OK;
    return pare_fail(&cli->cx, PARE_EUSAGE,
                     "%s runs in one process, and %zu were started; only compress shares its work",
                     command->name, pare_world_size(&cli->cx));
}

/* All of a command line that is the same for every command. */
static pare_status prepare(pare_cli *cli, const pare_command *command, int argc, char **argv,
                           pare_args *args)
{
    const pare_status parsed = pare_args_parse(&cli->cx, command, argc, argv, args);
    const pare_status logged = begin_log(cli, command, args);
    PARE_TRY(parsed);
    PARE_TRY(logged);
    PARE_TRY(read_format(cli, command, args));
    PARE_TRY(read_threads(cli, command, args));
    const char *const level = getenv("PARE_CPU");
    if (level && *level && pare_ctx_cpu(&cli->cx, level) != PARE_OK)
        return pare_fail_context(&cli->cx, PARE_EUSAGE, "environment variable PARE_CPU");
    return PARE_OK;
}

static pare_status run(pare_cli *cli, int argc, char **argv)
{
    if (argc < 2)
        return pare_fail(&cli->cx, PARE_EUSAGE, "no command given; \"pare help\" lists them");
    if (strcmp(argv[1], "--version") == 0 && argc > 2)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "--version takes nothing behind it, and \"%s\" is there; \"pare doctor "
                         "--format json\" tells the version as JSON",
                         argv[2]);
    if (strcmp(argv[1], "--version") == 0) {
        (void)puts("pare " PARE_VERSION);
        return PARE_OK;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return pare_help(cli, NULL);
    const pare_command *command = NULL;
    PARE_TRY(find_command(cli, argv[1], &command));
    if (asks_for_help(argc - 2, argv + 2)) {
        pare_help_command(command);
        return PARE_OK;
    }
    pare_args args;
    PARE_TRY(join_world(cli, command));
    PARE_TRY(pare_world_agree(&cli->cx, prepare(cli, command, argc - 2, argv + 2, &args)));
    return command->run(cli, &args);
}

/* A result that did not reach the reader is a failure; one that closed the pipe knows it. */
static pare_status flush(pare_cli *cli)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return PARE_OK;
    if (errno == 0 && write(STDOUT_FILENO, "\n", 1) == 1) /* it failed before: why is asked anew */
        errno = EIO;
    cli->screen.mute = errno == EPIPE;
    return pare_file_fail(&cli->cx, "/dev/stdout", "write");
}

/* Memory that ran out under a limit of the shell: which, and how much of it is in use. A limit that
 * leaves more than a large step takes was not the reason. */
static void explain_memory(pare_cli *cli)
{
    enum { LARGE_STEP = 1 << 28 };
    pare_room room[PARE_ROOMS];
    pare_room_read(room);
    const pare_room *const least = pare_room_least(room);
    if (!least || pare_room_left(least) > LARGE_STEP || strstr(cli->cx.what, "(ulimit -"))
        return;
    (void)pare_fail_after(&cli->cx, PARE_ENOMEM,
                          "%.1f MiB of the %.1f MiB of the %s are in use: raise the limit",
                          (double)least->used / 0x1p20, (double)least->limit / 0x1p20, least->name);
}

static void log_end(pare_cli *cli, const char *event, const char *text, int code)
{
    pare_json_writer *const w = pare_screen_event(&cli->screen, event, text);
    if (w)
        pare_json_put_integer(w, "exit_code", code);
    pare_screen_event_end(&cli->screen, w);
}

/* No work was begun: what was asked, or what lies there, did not allow it. */
static bool is_refusal(const pare_cli *cli, pare_status s)
{
    return !cli->screen.begun && (s == PARE_EUSAGE || s == PARE_EEXISTS || s == PARE_ENOTSUP ||
                                  s == PARE_ENOMEM || s == PARE_ENOSPC);
}

/* Says how the command ended, to people and to the log. Returns the exit code. */
static int conclude(pare_cli *cli, pare_status s)
{
    const char *const what = cli->cx.what[0] ? cli->cx.what : pare_strstatus(s);
    const bool other = s != PARE_OK && cli->of_batch && cli->other;
    int code = other           ? PARE_BATCH_OTHER
               : s != PARE_OK  ? exit_code(s)
               : cli->refused  ? PARE_EXIT_VERDICT
               : cli->fallback ? PARE_EXIT_FALLBACK
                               : PARE_EXIT_DONE;
    if (s != PARE_OK)
        pare_screen_error(&cli->screen, what);
    if (s == PARE_EINTERRUPTED)
        pare_screen_interrupted(&cli->screen);
    else if (s != PARE_OK)
        log_end(cli, is_refusal(cli, s) ? "refused" : "error", what, code);
    pare_job_ended(cli, what, is_refusal(cli, s), code);
    log_end(cli, "done", s == PARE_OK ? "done" : "ended without a result", code);
    const pare_status lost = pare_event_log_close(&cli->cx, &cli->screen.log);
    if (s == PARE_OK && lost != PARE_OK) {
        pare_screen_error(&cli->screen, cli->cx.what);
        code = exit_code(lost);
    }
    return code;
}

/* A job that a batch started: no other command has the mark in front. */
static bool is_of_batch(int argc, char **argv)
{
    return argc > 2 && strcmp(argv[1], PARE_BATCH_CHILD) == 0 && strcmp(argv[2], "compress") == 0;
}

int main(int argc, char **argv)
{
    if (!pare_early_descriptors())
        return PARE_EXIT_FAILED;
    const size_t stack = pare_early_end();
    if (argc > 1 && strcmp(argv[1], PARE_BENCH_CHILD) == 0)
        return pare_bench_child(argc, argv);
    const bool of_batch = is_of_batch(argc, argv);
    static pare_cli cli; /* its address is kept by the allocator hook */
    pare_ctx_init(&cli.cx);
    cli.cx.interrupt = &interrupt;
    cli.of_batch = of_batch;
    cli.program = argc > 0 ? argv[0] : "pare";
    pare_screen_init(&cli.screen, &cli.cx);
    install_signals();
    return_memory();
    pare_status s = pare_arena_init(&cli.cx, &cli.arena, 0);
    if (s == PARE_OK && stack < PARE_EARLY_STACK)
        s = pare_fail(&cli.cx, PARE_ENOMEM,
                      "the stack is limited to %zu KiB (ulimit -s), and 3 MiB is needed; raise the "
                      "limit",
                      stack / 1024);
    if (s == PARE_OK)
        s = run(&cli, argc - of_batch, argv + of_batch);
    if (s == PARE_OK)
        s = flush(&cli);
    pare_screen_end(&cli.screen);
    if (s == PARE_ENOMEM)
        explain_memory(&cli);
    pare_cli_device_close(&cli);
    pare_world_close(&cli.cx);
    const int code = conclude(&cli, s);
    pare_arena_release(&cli.arena);
    pare_pool_free(&cli.cx, cli.cx.pool);
    end_signals();
    return code;
}
