/* The channels of a site in another order. Rows move along the cycles of the order, so that one
 * row of scratch is enough. */
#include <string.h>

#include "runtime/fold.h"
#include "runtime/threads.h"

enum { ROWS = 16 };

bool pare_fold_reorders(const pare_config *c, pare_site site, pare_role role)
{
    if (site == PARE_SITE_ACTIVATED)
        return c->arch->linear[role].site ==
               PARE_SITE_MLP; /* gate and up meet channel by channel */
    return site == PARE_SITE_ATTENDED && c->arch->producer[site].kind == PARE_PRODUCER_LINEAR &&
           c->arch->producer[site].role == role;
}

/* Channels that may change places with each other lie together in parts of this many. */
static size_t part_of(const pare_config *c, pare_site site)
{
    return site == PARE_SITE_ATTENDED ? c->head_dim : pare_fold_channels(c, site);
}

void pare_fold_sources(const pare_config *c, pare_site site, const uint32_t *from, uint32_t *column)
{
    const size_t k = pare_site_width(c, 0, site), part = part_of(c, site);
    pare_fold_columns(c, site, column);
    for (size_t j = 0; j < k; j++)
        column[j] = (uint32_t)(j / part * part + from[column[j]] % part);
}

static pare_status check(pare_ctx *cx, const pare_config *c, pare_site site, const uint32_t *from,
                         uint8_t *seen)
{
    const size_t channels = pare_fold_channels(c, site), part = part_of(c, site);
    for (size_t i = 0; i < channels; i++) {
        const size_t f = from[i];
        if (f >= channels || seen[f])
            return pare_fail(cx, PARE_EINVAL, "channel %zu of %zu takes channel %zu, %s", i,
                             channels, f, f >= channels ? "which is none" : "as another does");
        if (f / part != i / part)
            return pare_fail(cx, PARE_EINVAL,
                             "channel %zu takes channel %zu of another head, and heads stay", i, f);
        seen[f] = 1;
    }
    return PARE_OK;
}

/* Row i becomes row from[i]. */
static void move_rows(float *w, size_t width, const uint32_t *from, size_t n, float *row,
                      uint8_t *done)
{
    memset(done, 0, n);
    for (size_t first = 0; first < n; first++) {
        if (done[first])
            continue;
        size_t i = first;
        memcpy(row, w + first * width, width * sizeof *w);
        for (; from[i] != first; i = from[i]) {
            memcpy(w + i * width, w + from[i] * width, width * sizeof *w);
            done[i] = 1;
        }
        memcpy(w + i * width, row, width * sizeof *w);
        done[i] = 1;
    }
}

typedef struct columns_job {
    float *w;
    const uint32_t *column;
    size_t k;
    float *row; /* [workers, k] */
} columns_job;

static void move_columns(void *arg, size_t begin, size_t end, size_t worker)
{
    const columns_job *const job = arg;
    float *const row = job->row + worker * job->k;
    for (size_t r = begin; r < end; r++) {
        float *const w = job->w + r * job->k;
        memcpy(row, w, job->k * sizeof *w);
        for (size_t j = 0; j < job->k; j++)
            w[j] = row[job->column[j]];
    }
}

typedef struct room {
    float *row;
    uint8_t *done;
    uint32_t *column;
} room;

static pare_status take_room(const pare_ctx *cx, pare_arena *scratch, const pare_config *c,
                             pare_site site, room *out)
{
    const size_t k = pare_site_width(c, 0, site), workers = pare_threads(cx);
    const size_t width = k * workers > c->hidden ? k * workers : c->hidden;
    out->row = PARE_NEW(scratch, float, width);
    out->done = out->row ? PARE_NEW(scratch, uint8_t, pare_fold_channels(c, site)) : NULL;
    out->column = out->done ? PARE_NEW(scratch, uint32_t, k) : NULL;
    return out->column ? PARE_OK : PARE_ENOMEM;
}

static void move_all(pare_ctx *cx, const pare_config *c, pare_block *block, pare_site site,
                     const uint32_t *from, const room *to)
{
    for (size_t role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        pare_linear_shape(c, 0, (pare_role)role, &n, &k);
        if (pare_fold_reorders(c, site, (pare_role)role)) {
            move_rows(block->linear[role].floats, k, from, n, to->row, to->done);
            if (block->linear[role].bias)
                move_rows(block->linear[role].bias, 1, from, n, to->row, to->done);
        }
        if (c->arch->linear[role].site == site) {
            columns_job job = {block->linear[role].floats, to->column, k, to->row};
            pare_parallel(cx, n, ROWS, move_columns, &job);
        }
    }
}

pare_status pare_fold_permute(pare_ctx *cx, pare_arena *scratch, const pare_config *c,
                              pare_block *block, pare_site site, const uint32_t *from)
{
    bool any = false;
    for (size_t role = 0; role < PARE_ROLES; role++)
        any |= pare_fold_reorders(c, site, (pare_role)role);
    if (!any)
        return pare_fail(cx, PARE_ENOTSUP,
                         "the channels of this input are not its own: every block reads them in "
                         "the order they have");
    const pare_mark mark = pare_arena_mark(scratch);
    room to;
    pare_status s = take_room(cx, scratch, c, site, &to);
    if (s == PARE_OK)
        s = check(cx, c, site, from, to.done);
    if (s == PARE_OK) {
        pare_fold_sources(c, site, from, to.column);
        move_all(cx, c, block, site, from, &to);
    }
    pare_arena_rewind(scratch, mark);
    return s;
}
