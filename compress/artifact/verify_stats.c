/* A file of kept statistics, by the rules that a job reads it by. */
#include "calib/stats_file.h"
#include "compress/artifact/diff_stats.h"
#include "compress/artifact/verify_internal.h"

/* Any token that is one: of which vocabulary the file does not say. */
static pare_status check_tokens(pare_verify_run *v, const pare_stats_about *about)
{
    pare_tokens tokens, held_out;
    return pare_stats_file_tokens(v->cx, &v->arena, v->path, about, INT32_MAX, &tokens, &held_out);
}

/* What else a job takes of a block. */
static pare_status check_block(pare_verify_run *v, const pare_stats_about *about, size_t block)
{
    const pare_mark mark = pare_arena_mark(&v->arena);
    float *const x = pare_arena_take(&v->arena, about->window, about->hidden * sizeof(float));
    uint64_t *const routed = PARE_NEW(&v->arena, uint64_t, about->experts);
    pare_stats_group g = {0};
    if (!x || !routed)
        return PARE_ENOMEM;
    pare_status s = pare_stats_group_open(v->cx, &v->arena, v->path, block, 0, &g);
    if (s == PARE_OK)
        s = pare_stats_group_stream(&g, about->window, about->hidden, x);
    if (s == PARE_OK && pare_stats_group_experts(&g))
        s = pare_stats_group_routed(&g, about->experts, (uint64_t)about->samples * about->window,
                                    routed);
    pare_stats_group_close(&g);
    pare_arena_rewind(&v->arena, mark);
    return s;
}

pare_status pare__verify_statistics(pare_verify_run *v)
{
    pare_stats_about about;
    pare_stats_diff d;
    PARE_TRY(pare_stats_file_is_one(v->cx, &v->arena, v->path, &v->out->statistics));
    if (!v->out->statistics)
        return PARE_OK;
    const pare_status s = pare_stats_file_about(v->cx, &v->arena, v->path, &about);
    PARE_TRY(pare__verify_absorb(v, s));
    if (s != PARE_OK)
        return PARE_OK;
    PARE_TRY(pare__verify_absorb(v, check_tokens(v, &about)));
    for (size_t i = 0; i < about.blocks; i++)
        PARE_TRY(pare__verify_absorb(v, check_block(v, &about, i)));
    /* held against itself, so that all of it is read as a job reads it */
    return pare__verify_absorb(v, pare_diff_stats(v->cx, &v->arena, v->path, v->path, &d));
}
