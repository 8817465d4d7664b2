/* tests/unit/pipes.h - a job of several processes without MPI: forked, a pipe from each to each. */
#ifndef PARE_TESTS_PIPES_H
#define PARE_TESTS_PIPES_H

#include <sys/wait.h>
#include <unistd.h>

#include "runtime/world.h"
#include "tests/unit/unit.h"

enum { PIPES_SIZE = 4 };

/* A world of forked processes: a pipe from each to each. */
typedef struct pipes {
    int fd[PIPES_SIZE][PIPES_SIZE][2]; /* [from][to] */
    size_t rank;
} pipes;

static inline void pipes_send(void *self, size_t to, const void *bytes, size_t count)
{
    const pipes *const p = self;
    for (const char *at = bytes; count > 0;) {
        const ssize_t done = write(p->fd[p->rank][to][1], at, count);
        if (done <= 0)
            _exit(99);
        at += done;
        count -= (size_t)done;
    }
}

static inline void pipes_receive(void *self, size_t from, void *bytes, size_t count)
{
    const pipes *const p = self;
    for (char *at = bytes; count > 0;) {
        const ssize_t done = read(p->fd[from][p->rank][0], at, count);
        if (done <= 0)
            _exit(98);
        at += done;
        count -= (size_t)done;
    }
}

static inline void pipes_broadcast(void *self, void *bytes, size_t count)
{
    const pipes *const p = self;
    for (size_t r = 1; p->rank == 0 && r < PIPES_SIZE; r++)
        pipes_send(self, r, bytes, count);
    if (p->rank > 0)
        pipes_receive(self, 0, bytes, count);
}

static inline void pipes_close(void *self)
{
    (void)self;
}

/* Runs `body` in PIPES_SIZE processes; the sum of what they return, 0 when all is well. */
static inline int pipes_run(int (*body)(pare_ctx *cx))
{
    static const pare_world_link link = {pipes_send, pipes_receive, pipes_broadcast, pipes_close};
    pipes p;
    pid_t child[PIPES_SIZE];
    int wrong = 0, status;
    for (size_t i = 0; i < PIPES_SIZE; i++)
        for (size_t j = 0; j < PIPES_SIZE; j++)
            ck_assert_int_eq(pipe(p.fd[i][j]), 0);
    for (size_t r = 0; r < PIPES_SIZE; r++) {
        child[r] = fork();
        ck_assert_int_ge(child[r], 0);
        if (child[r] > 0)
            continue;
        pare_ctx cx;
        pare_ctx_init(&cx);
        p.rank = r;
        pare_world world = {.rank = r, .size = PIPES_SIZE, .link = &link, .self = &p};
        cx.world = &world;
        const int code = body(&cx);
        pare_world_close(&cx);
        _exit(cx.world ? 97 : code);
    }
    for (size_t r = 0; r < PIPES_SIZE; r++) {
        ck_assert_int_eq(waitpid(child[r], &status, 0), child[r]);
        wrong += WIFEXITED(status) ? WEXITSTATUS(status) : 100;
    }
    return wrong;
}

#endif
