#include "distill/schedule.h"

#include <math.h>

#include "runtime/random.h"

static const double pi = 3.14159265358979323846;

double pare_schedule_rate(const pare_schedule *s, size_t step)
{
    if (step < s->warmup)
        return s->peak * (double)(step + 1) / (double)s->warmup;
    const double r = (double)(step - s->warmup) / (double)(s->steps - s->warmup);
    const double f = s->decay == PARE_DECAY_COSINE   ? (1 + cos(pi * r)) / 2
                     : s->decay == PARE_DECAY_LINEAR ? 1 - r
                                                     : 1;
    return s->last + (s->peak - s->last) * f;
}

void pare_schedule_order(uint64_t seed, uint64_t round, size_t windows, size_t *order)
{
    const uint64_t stream = pare_random_stream("order of training data") + round;
    for (size_t i = 0; i < windows; i++)
        order[i] = i;
    for (size_t i = windows; i-- > 1;) {
        const size_t j = (size_t)(pare_random_unit(seed, stream, i) * (double)(i + 1));
        const size_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}
