/* runtime/context.h - what every fallible call carries: allocator, kernels, threads, diagnostics.
 *
 * One context per job. It is not thread-safe: tasks on the pool never fail and never touch it
 * except to read `kernels`; they report through memory of their own, and the caller fails. */
#ifndef PARE_RUNTIME_CONTEXT_H
#define PARE_RUNTIME_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "runtime/status.h"

/* resize(self, NULL, 0, n) allocates, resize(self, p, old, 0) frees and returns NULL; other calls
 * move. Alignment is that of malloc. NULL means out of memory; the old object then stays. */
typedef struct pare_alloc {
    void *(*resize)(void *self, void *ptr, size_t old_size, size_t new_size);
    void *self;
} pare_alloc;

/* A phase of a job: `steps` of it are about `amount` of work together, as far as is known in
 * front; 0: nothing is known. */
typedef struct pare_phase {
    const char *name; /* in plain words, "hashing inputs"; lives as long as the job */
    double amount;
    size_t steps;
    const char *piece; /* the only piece of work of a step; NULL: `name`, or several pieces */
    size_t done;       /* steps, counted by who shows progress; 0 in front */
    double spent;      /* seconds in them */
} pare_phase;

/* Who wants to see progress; any of the functions may be NULL. */
typedef struct pare_progress {
    void (*report)(void *self, const char *what, double done, double total);
    void *self;
    void (*job)(void *self, pare_phase *phase, size_t phases, double rate);
    void (*step)(void *self, size_t phase, const char *what);
    void (*warn)(void *self, const char *text); /* one line, without "warning" in front */
    void (*further)(void *self, double done, double total);
} pare_progress;

struct pare_pool;
struct pare_world;
struct pare_energy;

typedef struct pare_ctx {
    pare_alloc alloc;
    pare_kernels kernels;
    unsigned cpu;             /* PARE_CPU_* bits the kernels were filled for */
    struct pare_pool *pool;   /* NULL: one thread */
    struct pare_world *world; /* runtime/world.h; NULL: one process */
    pare_progress progress;
    const volatile int *interrupt; /* the signal that asked to stop, or 0; may be NULL */
    struct pare_energy *energy;    /* read on the way (runtime/energy.h), or NULL */
    size_t live_bytes, peak_bytes, limit_bytes; /* of alloc; limit 0: none */
    char what[1024];                            /* first failure, empty while all is well */
} pare_ctx;

/* Fills *cx: malloc behind the hook with accounting against limit_bytes, every kernel the CPU has,
 * no pool, no progress. Never fails. */
void pare_ctx_init(pare_ctx *cx);

/* Hands freed memory back to the system where the C library keeps it: behind parsed documents,
 * whose many small pieces leave holes. Takes about a millisecond for each 10 MiB. */
void pare_memory_trim(void);

/* Takes the kernels of the level of that name (pare_cpu_levels) in place of the best ones. Every
 * level gives the same bytes. PARE_EINVAL, naming the levels there are, for a name that is none or
 * a level that this CPU lacks. */
PARE_CHECKED pare_status pare_ctx_cpu(pare_ctx *cx, const char *level);

/* Control characters but line ends become '?': what a file says must not steer a terminal. Returns
 * text. */
char *pare_text_printable(char *text);

/* Records the first failure, made printable, and returns `s`, so that callers write
 * `return pare_fail(...)`. */
pare_status pare_fail(pare_ctx *cx, pare_status s, const char *fmt, ...) PARE_PRINTF(3, 4);

/* Puts "<context>: " in front of the recorded message; returns `s`. For layers on the way up. */
pare_status pare_fail_context(pare_ctx *cx, pare_status s, const char *fmt, ...) PARE_PRINTF(3, 4);

/* Puts "; <advice>" behind it, or behind the text of the status where nothing is recorded: what the
 * user can do. Returns `s`. */
pare_status pare_fail_after(pare_ctx *cx, pare_status s, const char *fmt, ...) PARE_PRINTF(3, 4);

/* Forgets the recorded failure, for the caller that has dealt with it. */
void pare_ctx_clear(pare_ctx *cx);

/* Tells, made printable, what of a file is left out or not believed while the work goes on. */
void pare_warn(const pare_ctx *cx, const char *fmt, ...) PARE_PRINTF(2, 3);

/* PARE_EINTERRUPTED once a signal asked to stop, else PARE_OK. Cheap; call it once per block. */
PARE_CHECKED pare_status pare_ctx_interrupted(pare_ctx *cx);

/* `done` of `total` of a long piece of work, in any unit that grows linearly with time. `what` says
 * what is being done in plain words: "hashing inputs". */
void pare_ctx_progress(const pare_ctx *cx, const char *what, double done, double total);

/* The same of the piece that was told of last, by who does not know what it is called. */
void pare_ctx_further(const pare_ctx *cx, double done, double total);

/* What the whole job comes to, from which its time left follows; 0 phases: it is over, which is
 * said before the phases go. `rate`: of their amounts in a second; 0: nobody knows before something
 * is measured. Without this each piece of work stands for itself. */
void pare_ctx_job(const pare_ctx *cx, pare_phase *phase, size_t phases, double rate);

/* A step of phase number `phase` begins, "block 3 of 30"; what is reported until the next one is a
 * part of it. Phases may be left out. A piece of work that is reported under the name of a later
 * phase begins that phase, too. */
void pare_ctx_step(const pare_ctx *cx, size_t phase, const char *what);

#endif
