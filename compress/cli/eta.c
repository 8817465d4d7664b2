/* A phase that has finished steps is expected to go on as it did. One that has none is expected to
 * take what was said, times r: by how much what is finished took longer than was said of it,
 *
 *   r = (spent + h) / (said + h),   h a tenth of what was said of the whole job,
 *
 * so that a short phase that took ten times as long does not say the same of hours. */
#include "compress/cli/eta.h"

#include <string.h>

static const double INERTIA = 0.1;
static const double SHARE_MIN = 0.02; /* below it a share says little of the rest */
static const double OVERTIME = 0.25;  /* a step that takes longer than expected: so much more */

void pare_eta_begin(pare_eta *e, const pare_phase *phase, size_t phases)
{
    *e = (pare_eta){.phases = phases < PARE_ETA_PHASES ? phases : PARE_ETA_PHASES};
    for (size_t i = 0; i < e->phases; i++)
        e->phase[i].expected = phase[i];
    e->now = e->phases;
}

size_t pare_eta_find(const pare_eta *e, const char *name)
{
    for (size_t i = e->now < e->phases ? e->now + 1 : 0; i < e->phases; i++)
        if (strcmp(e->phase[i].expected.name, name) == 0)
            return i;
    return e->phases;
}

void pare_eta_step(pare_eta *e, size_t phase, double now)
{
    if (phase >= e->phases)
        return;
    if (e->now < e->phases) {
        e->phase[e->now].spent += now - e->began;
        e->phase[e->now].done++;
    }
    e->now = phase;
    e->began = now;
}

static double said_of_step(const pare_eta *e, size_t i)
{
    const pare_phase *const p = &e->phase[i].expected;
    return p->steps ? p->seconds / (double)p->steps : 0;
}

/* Seconds of a step of phase i when the phases take `r` times as long as was said. */
static double step_seconds(const pare_eta *e, size_t i, double r)
{
    return e->phase[i].done ? e->phase[i].spent / (double)e->phase[i].done : said_of_step(e, i) * r;
}

/* With what the step at work comes to, if its share says so. */
static double ratio(const pare_eta *e, double step)
{
    double spent = step, said = step > 0 ? said_of_step(e, e->now) : 0, whole = 0;
    for (size_t i = 0; i < e->phases; i++) {
        spent += e->phase[i].spent;
        said += said_of_step(e, i) * (double)e->phase[i].done;
        whole += e->phase[i].expected.seconds;
    }
    const double h = INERTIA * whole;
    return said + h > 0 ? (spent + h) / (said + h) : 1;
}

double pare_eta_left(const pare_eta *e, double now, double share)
{
    double left = 0;
    if (!e->phases)
        return -1;
    const double taken = e->now < e->phases ? now - e->began : 0;
    const double whole = share >= SHARE_MIN ? taken / share : 0, r = ratio(e, whole);
    for (size_t i = e->now < e->phases ? e->now : 0; i < e->phases; i++) {
        const size_t steps = e->phase[i].expected.steps, over = e->phase[i].done + (i == e->now);
        left += steps > over ? step_seconds(e, i, r) * (double)(steps - over) : 0;
    }
    if (e->now == e->phases)
        return left;
    if (share >= SHARE_MIN)
        return left + whole - taken;
    const double expected = step_seconds(e, e->now, r), more = taken * OVERTIME;
    return left + (expected - taken > more ? expected - taken : more);
}

double pare_eta_share(const pare_eta *e, double now, double left)
{
    double spent = e->now < e->phases ? now - e->began : 0;
    for (size_t i = 0; i < e->phases; i++)
        spent += e->phase[i].spent;
    return spent + left > 0 ? spent / (spent + left) : 0;
}
