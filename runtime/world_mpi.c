/* The only file that includes mpi.h. An error of MPI ends all processes, as MPI has it. */
#include <mpi.h>
#include <time.h>

#include "runtime/small.h"
#include "runtime/world_internal.h"

enum { TAG = 1, SPINS = 1000, SLEEP_NS = 200000 };
static const size_t piece = (size_t)1 << 30; /* counts of MPI are of int */

static void send(void *self, size_t to, const void *bytes, size_t count)
{
    const char *at = bytes;
    (void)self;
    for (size_t some; count > 0; at += some, count -= some) {
        some = pare_smaller(piece, count);
        (void)MPI_Send(at, (int)some, MPI_BYTE, (int)to, TAG, MPI_COMM_WORLD);
    }
}

/* MPI waits by asking, which keeps a CPU busy: what may take long is asked for with pauses. */
static void wait_for(int from)
{
    const struct timespec pause = {.tv_nsec = SLEEP_NS};
    int there = 0;
    for (size_t i = 0; !there; i++) {
        (void)MPI_Iprobe(from, TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        if (!there && i > SPINS)
            (void)nanosleep(&pause, NULL);
    }
}

static void receive(void *self, size_t from, void *bytes, size_t count)
{
    char *at = bytes;
    (void)self;
    for (size_t some; count > 0; at += some, count -= some) {
        some = pare_smaller(piece, count);
        wait_for((int)from);
        (void)MPI_Recv(at, (int)some, MPI_BYTE, (int)from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void broadcast(void *self, void *bytes, size_t count)
{
    char *at = bytes;
    (void)self;
    for (size_t some; count > 0; at += some, count -= some) {
        some = pare_smaller(piece, count);
        (void)MPI_Bcast(at, (int)some, MPI_BYTE, 0, MPI_COMM_WORLD);
    }
}

static void close_link(void *self)
{
    (void)self;
    (void)MPI_Finalize();
}

pare_status pare__world_mpi(pare_ctx *cx, pare_world *world)
{
    static const pare_world_link link = {send, receive, broadcast, close_link};
    int rank = 0, size = 1, given;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS)
        return pare_fail(cx, PARE_EIO, "MPI could not be started");
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    *world = (pare_world){.rank = (size_t)rank, .size = (size_t)size, .link = &link};
    return PARE_OK;
}
