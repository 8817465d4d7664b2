#include "prune/flap.h"

#include <string.h>

#include "prune/channels.h"

pare_status pare_flap_score(pare_ctx *cx, pare_arena *scratch, const pare_structure *s,
                            double *score)
{
    const pare_mark mark = pare_arena_mark(scratch);
    const size_t width = pare_part_width(s->config, s->part);
    size_t n, k;
    pare_linear_shape(s->config, 0, pare_part_role(s->part), &n, &k);
    double *const square = PARE_NEW(scratch, double, k);
    if (!square)
        return PARE_ENOMEM;
    pare_column_sums(cx, s->block->linear[pare_part_role(s->part)].floats, n, k, true, square);
    memset(score, 0, k / width * sizeof *score);
    for (size_t j = 0; j < k; j++)
        score[j / width] += pare_moments_variance(s->moments, j) * square[j];
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

void pare_flap_bias(const pare_structure *s, const uint8_t *keep, float *bias)
{
    const size_t width = pare_part_width(s->config, s->part);
    size_t n, k;
    pare_linear_shape(s->config, 0, pare_part_role(s->part), &n, &k);
    const float *const w = s->block->linear[pare_part_role(s->part)].floats;
    for (size_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (size_t j = 0; j < k; j++)
            if (!keep[j / width])
                sum += (double)w[i * k + j] * pare_moments_mean(s->moments, j);
        bias[i] += (float)sum;
    }
}
