/* distill/schedule.h - how fast a step learns, and which data it sees.
 *
 * Step s of S = 0, 1, ..: the first W rise in a line, the others fall from `peak` to `last`:
 *
 *   s < W   peak (s + 1) / W
 *   else    last + (peak - last) f(r),  r = (s - W) / (S - W)
 *           f: cosine (1 + cos(pi r)) / 2, linear 1 - r, constant 1 */
#ifndef PARE_DISTILL_SCHEDULE_H
#define PARE_DISTILL_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

typedef enum pare_decay { PARE_DECAY_COSINE, PARE_DECAY_LINEAR, PARE_DECAY_CONSTANT } pare_decay;

typedef struct pare_schedule {
    double peak, last;
    size_t warmup, steps; /* warmup <= steps */
    pare_decay decay;
} pare_schedule;

double pare_schedule_rate(const pare_schedule *s, size_t step);

/* The windows of one round through the data, order [windows], each once: places change as Fisher
 * and Yates say, by numbers of (seed, round). Source: Durstenfeld, 1964. */
void pare_schedule_order(uint64_t seed, uint64_t round, size_t windows, size_t *order);

#endif
