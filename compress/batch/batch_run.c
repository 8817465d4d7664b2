/* Runs the jobs: so many at once, each when what it waits for is done. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compress/batch/batch_internal.h"
#include "compress/text/units.h"
#include "runtime/file.h"
#include "runtime/machine.h"

enum { ARGS = 16, NUMBER = 32, FALLBACK = 3, VERDICT = 6, INTERRUPTED = 130 };

typedef struct runner {
    pare_jobs *b;
    size_t running, finished, all; /* jobs of this shard */
    size_t threads;                /* of a job */
    uint64_t ram;                  /* bytes of a job; 0: as its recipe says */
    bool stopping;
    double *started; /* [rows] */
} runner;

static bool wants_run(const runner *r, const pare_batch_row *row)
{
    return row->mine && row->child == 0 && !row->ran &&
           (row->state == PARE_BATCH_MISSING || row->state == PARE_BATCH_UNFINISHED) &&
           !r->stopping;
}

static pare_status start(runner *r, pare_batch_row *row)
{
    pare_jobs *const b = r->b;
    char threads[NUMBER], ram[NUMBER];
    const char *argv[ARGS] = {"pare",    PARE_BATCH_CHILD, "compress",  row->recipe,
                              "--share", b->shared,        "--threads", threads};
    size_t args = 8;
    (void)snprintf(threads, sizeof threads, "%zu", r->threads);
    (void)snprintf(ram, sizeof ram, "%llu", (unsigned long long)r->ram);
    if (r->ram) {
        argv[args++] = "--ram-limit";
        argv[args++] = ram;
    }
    if (row->anew || (b->opts->restart && row->state == PARE_BATCH_MISSING)) /* its exports */
        argv[args++] = "--restart";
    if (b->opts->strict)
        argv[args++] = "--strict";
    argv[args] = NULL;
    (void)unlink(row->failed_file);
    const pare__child child = {.argv = argv, .log = row->log};
    PARE_TRY(pare__batch_start(b->cx, &child, &row->child));
    pare_teller_say(&b->teller, "%s: %s", row->job->name,
                    row->state == PARE_BATCH_UNFINISHED ? "continues" : "begins");
    row->state = PARE_BATCH_RUNNING;
    r->started[row - b->row] = pare_seconds();
    r->running++;
    return PARE_OK;
}

/* Whether a job may begin now; one that never can is told. */
static bool is_ready(runner *r, pare_batch_row *row)
{
    const pare_batch_row *const before = &r->b->row[row->job->after];
    if (before == row || before->state == PARE_BATCH_DONE)
        return true;
    if (pare__batch_stops(before)) {
        row->state = PARE_BATCH_WAITS;
        (void)snprintf(row->why, sizeof row->why, "%s is not done", before->job->name);
        pare_teller_say(&r->b->teller, "%s: not begun: %s", row->job->name, row->why);
        r->finished++;
    }
    return false;
}

/* A job that could not be started failed; the others go on. */
static void start_some(runner *r)
{
    bool again = true;
    while (again) {
        again = false;
        for (size_t i = 0; i < r->b->rows && r->running < r->b->at_once; i++) {
            pare_batch_row *const row = &r->b->row[i];
            const pare_batch_state was = row->state;
            if (!wants_run(r, row))
                continue;
            if (is_ready(r, row) && start(r, row) != PARE_OK) {
                row->state = PARE_BATCH_FAILED;
                row->ran = true;
                (void)snprintf(row->why, sizeof row->why, "%s", r->b->cx->what);
                pare_ctx_clear(r->b->cx);
                pare__batch_failed(r->b, row);
                r->finished++;
            }
            again |= row->state != was && row->state != PARE_BATCH_RUNNING;
        }
    }
}

static void tell_end(runner *r, const pare_batch_row *row)
{
    char seconds[PARE_UNIT_TEXT];
    const double took = pare_seconds() - r->started[row - r->b->row];
    pare_teller_say(&r->b->teller, "%s: %s after %s; %zu of %zu%s%s", row->job->name,
                    pare_batch_state_name(row->state), pare_units_seconds(took, seconds),
                    r->finished, r->all, row->why[0] ? ": " : "", row->why);
}

/* Why it failed. */
static void take_why(const pare_jobs *b, pare_batch_row *row, int status, const char *said)
{
    row->refused = WIFEXITED(status) && WEXITSTATUS(status) == PARE_BATCH_OTHER;
    row->state = *said          ? PARE_BATCH_INFEASIBLE
                 : row->refused ? PARE_BATCH_STALE
                                : PARE_BATCH_FAILED;
    if (WIFSIGNALED(status))
        (void)snprintf(row->why, sizeof row->why,
                       "ended by signal %d; the same command continues it", WTERMSIG(status));
    else if (WIFEXITED(status) && WEXITSTATUS(status) == INTERRUPTED)
        (void)snprintf(row->why, sizeof row->why, "interrupted; the same command continues it");
    else if (*said)
        (void)snprintf(row->why, sizeof row->why, "%s", said);
    else
        pare__batch_said(row->log, "error: ", row->why);
    pare__batch_failed(b, row);
}

/* What a finished job says of its verdict, "REGRESSION: kl <= 1 is not kept: 2", holds, whatever
 * stands in its output: another bound is no other job. */
static void take_end(runner *r, pare_batch_row *row, int status)
{
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    const bool ended = code == 0 || code == FALLBACK || code == VERDICT;
    char said[PARE_BATCH_WHY] = "";
    if (ended && row->job->recipe.requirements)
        pare__batch_said(row->log, "\nverdict ", said);
    const bool done = ended && strncmp(said, "INFEASIBLE", strlen("INFEASIBLE")) != 0;
    row->child = 0;
    row->ran = true;
    row->fallback = code == FALLBACK;
    r->running--;
    r->finished += !r->stopping || done;
    (void)snprintf(row->verdict, sizeof row->verdict, "%.*s", (int)strcspn(said, ":"), said);
    if (done) {
        row->state = PARE_BATCH_DONE;
    } else if (r->stopping) {
        row->state = PARE_BATCH_UNFINISHED;
    } else {
        take_why(r->b, row, status, ended ? said : "");
    }
    tell_end(r, row);
}

/* The first signal goes to every child; a second one ends this program, and so them. */
static void pass_on(runner *r)
{
    if (r->stopping || pare_ctx_interrupted(r->b->cx) == PARE_OK)
        return;
    pare_ctx_clear(r->b->cx);
    r->stopping = true;
    for (size_t i = 0; i < r->b->rows; i++)
        if (r->b->row[i].child > 0)
            pare__batch_stop(r->b->row[i].child);
}

static void run_all(runner *r)
{
    for (;;) {
        pid_t pid;
        int status;
        pass_on(r);
        start_some(r);
        if (r->running == 0)
            break;
        pare__batch_wait(r->b->cx, r->stopping, &pid, &status);
        for (size_t i = 0; pid > 0 && i < r->b->rows; i++)
            if (r->b->row[i].child == pid)
                take_end(r, &r->b->row[i], status);
    }
}

/* Whether a finished row stays as it is, and no job is to look: neither at exports, which may be
 * missing, nor at a model that a job of this call may make anew. */
static bool is_settled(const pare_jobs *b, const pare_batch_row *row)
{
    return row->state == PARE_BATCH_DONE && !row->job->recipe.exports &&
           !(pare__batch_has_job_model(b, row) && b->row[row->job->after].state != PARE_BATCH_DONE);
}

/* What is there is damaged: no job touches it. */
static void refuse(runner *r, pare_batch_row *row)
{
    row->ran = row->refused = true;
    pare__batch_failed(r->b, row);
    r->finished++;
    pare_teller_say(&r->b->teller, "%s: not begun: %s", row->job->name, row->why);
}

static pare_status settle(runner *r)
{
    pare_jobs *const b = r->b;
    size_t kept = 0;
    PARE_TRY(pare__batch_restart_mark(b));
    PARE_TRY(pare_batch_look(b));
    bool *const settled = PARE_NEW(b->a, bool, b->rows);
    if (!settled)
        return PARE_ENOMEM;
    for (size_t i = 0; i < b->rows; i++)
        settled[i] = is_settled(b, &b->row[i]);
    for (size_t i = 0; i < b->rows; i++) {
        pare_batch_row *const row = &b->row[i];
        r->all += row->mine;
        if (!row->mine)
            continue;
        if (row->state == PARE_BATCH_DONE)
            (void)unlink(row->failed_file); /* it is of a try before */
        if (settled[i]) {
            kept++;
            continue;
        }
        if (row->damaged) {
            refuse(r, row);
            continue;
        }
        if (row->state != PARE_BATCH_DONE)
            (void)unlink(row->speed_file); /* it is of an output before */
        if (row->state != PARE_BATCH_UNFINISHED)
            row->state = PARE_BATCH_MISSING;
        row->why[0] = row->verdict[0] = '\0';
        row->refused = false;
    }
    r->finished += kept;
    if (kept)
        pare_teller_say(&b->teller, "%zu of %zu job%s %s done already", kept, r->all,
                        r->all == 1 ? "" : "s", kept == 1 ? "is" : "are");
    return PARE_OK;
}

/* One at a time, when nothing else runs. The file gets its name when it is whole. */
static pare_status measure_speed(runner *r, pare_batch_row *row)
{
    pare_jobs *const b = r->b;
    char threads[NUMBER];
    char *const temporary = pare_path_suffix(b->a, row->speed_file, ".tmp");
    const char *argv[ARGS] = {"pare", "eval",      row->output, "--speed",       "--format",
                              "json", "--threads", threads,     "--no-progress", NULL};
    const pare__child child = {.argv = argv, .log = row->log, .out = temporary};
    pid_t pid = 0;
    int status = 0;
    if (!temporary)
        return PARE_ENOMEM;
    (void)snprintf(threads, sizeof threads, "%zu", b->opts->threads);
    pare_teller_say(&b->teller, "%s: its speed", row->job->name);
    PARE_TRY(pare__batch_start(b->cx, &child, &row->child));
    while (pid == 0) {
        pass_on(r);
        pare__batch_wait(b->cx, r->stopping, &pid, &status);
    }
    row->child = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && rename(temporary, row->speed_file) == 0)
        return PARE_OK;
    (void)unlink(temporary);
    if (!r->stopping)
        pare_teller_say(&b->teller, "warning: %s: no speed was measured", row->job->name);
    return PARE_OK;
}

static pare_status measure_speeds(runner *r)
{
    for (size_t i = 0; r->b->opts->speed && i < r->b->rows && !r->stopping; i++) {
        pare_batch_row *const row = &r->b->row[i];
        if (row->mine && row->state == PARE_BATCH_DONE &&
            (row->ran || !pare_path_is_file(row->speed_file)))
            PARE_TRY(measure_speed(r, row));
    }
    return PARE_OK;
}

pare_status pare_batch_run(pare_jobs *b)
{
    runner r = {.b = b, .started = PARE_NEW(b->a, double, b->rows)};
    if (!r.started)
        return PARE_ENOMEM;
    r.threads = pare_batch_threads(b);
    r.ram = b->opts->ram_limit / b->at_once;
    PARE_TRY(settle(&r));
    run_all(&r);
    pare__batch_restart_unmark(b);
    PARE_TRY(measure_speeds(&r));
    return r.stopping ? pare_fail(b->cx, PARE_EINTERRUPTED, "interrupted") : PARE_OK;
}
