#define _DEFAULT_SOURCE /* flock */
#include "compress/run/run_keep.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compress/output/output.h"
#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_serve.h"
#include "compress/run/run_walk.h"
#include "compress/text/units.h"
#include "runtime/machine.h"

/* --- the walk ----------------------------------------------------------------------------------
 */

void pare__keep_walk(pare_run *run, pare_plan *stage)
{
    pare_plan_stage(run->plan, stage);
    run->plan = stage;
    run->walk = (pare_run_walk){.kinds = stage->kinds,
                                .expert_kinds = stage->expert_kinds,
                                .calibrated = true,
                                .keeps = true};
}

/* Statistics of what every token runs: one pass of the wave, which stays in front of the block. */
static pare_status keep_part(pare_run *run, size_t block)
{
    const size_t window = run->plan->window, hidden = run->model.config.hidden;
    pare_stats stats;
    PARE_TRY(pare_token_weights_load(run->cx, block, &run->weights));
    PARE_TRY(pare__run_take_sites(run, (1u << PARE_SITES) - 1, &stats));
    PARE_TRY(pare__run_gather(run, block, &stats));
    float *const stream = PARE_NEW(&run->scratch, float, window *hidden);
    if (!stream)
        return PARE_ENOMEM;
    PARE_TRY(pare_wave_window(run->cx, &run->wave, 0, stream));
    const pare_stats_block b = {stream, run->weights.outputs.o ? &run->weights.outputs : NULL,
                                run->shape.experts ? run->experts.routed : NULL};
    PARE_TRY(pare_stats_file_put_block(run->kept.to, &run->model.config, window, block, &b));
    return pare_stats_file_put_part(run->kept.to, &run->scratch, block, 0, &stats);
}

static pare_status keep_block(pare_run *run, size_t block)
{
    const size_t blocks = run->model.config.blocks;
    PARE_TRY(pare__run_load(run, block));
    if (run->model.config.experts)
        PARE_TRY(pare__run_experts_count(run, block));
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const pare_status s = keep_part(run, block);
    pare_arena_rewind(&run->scratch, mark);
    PARE_TRY(s);
    if (run->shape.experts)
        PARE_TRY(pare__run_experts_keep(run, block));
    return block + 1 < blocks ? pare__run_carry(run, block) : PARE_OK;
}

static pare_status keep_blocks(pare_run *run, const pare_stats_about *about)
{
    const size_t blocks = run->model.config.blocks;
    PARE_TRY(pare_stats_file_begin(run->kept.to, about, &run->data.tokens, &run->data.held_out));
    PARE_TRY(pare__walk_begin(run));
    for (size_t i = 0; i < blocks; i++) {
        char step[96];
        (void)snprintf(step, sizeof step, "statistics of block %zu of %zu", i + 1, blocks);
        PARE_TRY(pare_ctx_interrupted(run->cx));
        pare_ctx_step(run->cx, PARE__PHASE_KEEP, step);
        PARE_TRY(keep_block(run, i));
    }
    return PARE_OK;
}

/* The walk as a job of its own, whose plan asks for every statistic. */
static pare_status keep_all(pare_run *run, const pare_stats_about *about)
{
    const pare_plan *const plan = run->plan;
    pare_plan stage;
    pare__keep_walk(run, &stage);
    const pare_status s = keep_blocks(run, about);
    pare__walk_end(run);
    run->wave = run->floats = (pare_wave){0};
    run->plan = plan;
    return s;
}

/* --- the file ----------------------------------------------------------------------------------
 */

/* Whether the descriptor is what the name means; a job that waited for another one finds it gone.
 */
static bool is_named(int fd, const char *path)
{
    struct stat own, named;
    return fstat(fd, &own) == 0 && lstat(path, &named) == 0 && own.st_dev == named.st_dev &&
           own.st_ino == named.st_ino;
}

/* Takes the lock of an open file, when others give it back. */
static pare_status lock(pare_run *run, int fd, const char *path)
{
    enum { WAIT_MS = 200 };
    for (bool told = false; flock(fd, LOCK_EX | LOCK_NB) != 0; told = true) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return pare_file_fail(run->cx, path, "lock");
        if (!told)
            pare__notify(run, PARE_EVENT_NOTICE, "%s: another job is making it; waiting", path);
        PARE_TRY(pare_ctx_interrupted(run->cx));
        (void)poll(NULL, 0, WAIT_MS);
    }
    return PARE_OK;
}

/* Whether a file of HDF5 can be what an ended job left: one that cannot be read as it is, or lists
 * nothing yet, or settings. */
static pare_status is_left(pare_run *run, const char *path, uint64_t bytes, bool *left)
{
    pare_scratch scratch;
    pare_hdf5 file;
    pare_scratch_init(run->cx, &scratch);
    const pare_status s = pare_hdf5_read(run->cx, run->a, &scratch, path, bytes, true, &file);
    pare_scratch_close(&scratch);
    *left = s == PARE_EFORMAT || (s == PARE_OK && file.tensors == 0);
    for (size_t i = 0; s == PARE_OK && i < file.tensors; i++)
        *left |= strcmp(file.tensor[i].name, "settings") == 0;
    if (s == PARE_EFORMAT || s == PARE_ENOTSUP)
        pare_ctx_clear(run->cx);
    return s == PARE_EFORMAT || s == PARE_ENOTSUP ? PARE_OK : s;
}

/* FILE.partial, locked and empty, or left by a job that was ended. */
static pare_status open_partial(pare_run *run, const char *path, int *fd)
{
    unsigned char first[PARE_HDF5_SIGNATURE_BYTES];
    for (;;) {
        *fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
        if (*fd < 0)
            return pare_file_fail(run->cx, path, "make");
        PARE_TRY(lock(run, *fd, path));
        if (is_named(*fd, path))
            break;
        (void)close(*fd);
        *fd = -1;
    }
    struct stat st;
    const bool regular = fstat(*fd, &st) == 0 && S_ISREG(st.st_mode);
    const ssize_t n = regular ? pread(*fd, first, sizeof first, 0) : -1;
    bool left = n == 0;
    if (n == sizeof first && memcmp(first, PARE_HDF5_SIGNATURE, sizeof first) == 0)
        PARE_TRY(is_left(run, path, (uint64_t)st.st_size, &left));
    if (left)
        return PARE_OK;
    return pare_fail(run->cx, PARE_EEXISTS,
                     "%s: is in the way and not what a job of pare left there; remove it, or give "
                     "\"keep\" another name",
                     path);
}

static pare_status write_partial(pare_run *run, const char *partial, int fd)
{
    const char *const path = run->plan->kept.path;
    pare_stats_about about;
    pare_hdf5_writer w;
    char size[PARE_UNIT_TEXT];
    uint64_t bytes = 0;
    PARE_TRY(pare__keep_about(run, &about));
    PARE_TRY(pare_hdf5_create(run->cx, partial, fd,
                              pare_stats_file_bytes(&run->model.config, &about), &w));
    run->kept.to = &w;
    pare_status s = keep_all(run, &about);
    run->kept.to = NULL;
    if (s == PARE_OK)
        s = pare_hdf5_finish(&w);
    pare_hdf5_abandon(&w);
    PARE_TRY(s);
    PARE_TRY(pare_file_sync(run->cx, fd, partial));
    PARE_TRY(pare_file_name(run->cx, partial, path));
    (void)pare_path_bytes(path, &bytes);
    pare__notify(run, PARE_EVENT_NOTICE, "statistics of the original model are kept in %s (%s)",
                 path, pare_units_bytes(bytes, size));
    return pare_file_sync_parent(run->cx, path);
}

/* Under the lock; another job may have made it meanwhile. */
static pare_status make(pare_run *run, const char *partial, int fd)
{
    pare_path_kind kind;
    PARE_TRY(pare_path_look(run->cx, run->plan->kept.path, &kind));
    const pare_status s = kind == PARE_PATH_ABSENT ? write_partial(run, partial, fd) : PARE_OK;
    if (is_named(fd, partial))
        (void)unlink(partial);
    return s;
}

pare_status pare__keep_file(pare_run *run)
{
    const char *const path = run->plan->kept.path;
    char *const partial = pare_path_suffix(run->a, path, ".partial");
    char *made = NULL;
    pare_path_kind kind;
    int fd = -1;
    if (!partial)
        return PARE_ENOMEM;
    PARE_TRY(pare_path_look(run->cx, path, &kind));
    if (kind != PARE_PATH_ABSENT)
        return PARE_OK;
    pare_status s = pare_output_make_parents(run->cx, run->a, path, &made);
    if (s == PARE_OK)
        s = open_partial(run, partial, &fd);
    if (s == PARE_OK)
        s = make(run, partial, fd);
    if (fd >= 0)
        (void)close(fd);
    if (s != PARE_OK)
        pare_output_remove_made(path, made);
    return s;
}
