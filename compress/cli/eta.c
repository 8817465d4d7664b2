/* A phase that has finished steps is expected to go on as it did. One that has none is expected to
 * take what was said, times r: by how much what is finished took longer than was said of it,
 *
 *   r = (spent + h) / (said + h),   h a tenth of what was said of the whole job,
 *
 * so that a short phase that took ten times as long does not say the same of hours. Where amounts
 * of work have no rate in front, only what is finished gives one: h = 0. */
#include "compress/cli/eta.h"

#include <stdbool.h>
#include <string.h>

static const double INERTIA = 0.1;
static const double SHARE_MIN = 0.02; /* below it a share says little of the rest */
static const double OVERTIME = 0.25;  /* a step that takes longer than expected: so much more */

void pare_eta_begin(pare_eta *e, pare_phase *phase, size_t phases, double rate)
{
    *e = (pare_eta){.phase = phase, .phases = phases, .rate = rate, .now = phases};
}

size_t pare_eta_find(const pare_eta *e, const char *name)
{
    for (size_t i = e->now < e->phases ? e->now + 1 : 0; i < e->phases; i++)
        if (strcmp(e->phase[i].name, name) == 0)
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

/* Seconds by the rate; amounts where there is none. */
static double said_of_step(const pare_eta *e, size_t i)
{
    const pare_phase *const p = &e->phase[i];
    return p->steps ? p->amount / (e->rate > 0 ? e->rate : 1) / (double)p->steps : 0;
}

/* Seconds of a step of phase i when the phases take `r` times as long as was said. */
static double step_seconds(const pare_eta *e, size_t i, double r)
{
    return e->phase[i].done ? e->phase[i].spent / (double)e->phase[i].done : said_of_step(e, i) * r;
}

/* With what the step at work comes to, if its share says so. Negative: nothing is measured. A phase
 * of which nothing was said does not say how long the others take. */
static double ratio(const pare_eta *e, double step)
{
    double spent = 0, said = 0, whole = 0;
    for (size_t i = 0; i < e->phases; i++) {
        const pare_phase *const p = &e->phase[i];
        const bool at_work = i == e->now && step > 0;
        if (p->amount <= 0)
            continue;
        spent += p->spent + (at_work ? step : 0);
        said += said_of_step(e, i) * (double)(p->done + (at_work ? 1 : 0));
        whole += said_of_step(e, i) * (double)p->steps;
    }
    const double h = e->rate > 0 ? INERTIA * whole : 0;
    if (said + h > 0)
        return (spent + h) / (said + h);
    return e->rate > 0 ? 1 : -1;
}

double pare_eta_left(const pare_eta *e, double now, double share)
{
    double left = 0;
    if (!e->phases)
        return -1;
    const double taken = e->now < e->phases ? now - e->began : 0;
    const double whole = share >= SHARE_MIN ? taken / share : 0, r = ratio(e, whole);
    if (r < 0)
        return -1;
    for (size_t i = e->now < e->phases ? e->now : 0; i < e->phases; i++) {
        const size_t steps = e->phase[i].steps, over = e->phase[i].done + (i == e->now);
        left += steps > over ? step_seconds(e, i, r) * (double)(steps - over) : 0;
    }
    if (e->now == e->phases)
        return left;
    if (share >= SHARE_MIN)
        return left + whole - taken;
    const double expected = step_seconds(e, e->now, r), more = taken * OVERTIME;
    return left + (expected - taken > more ? expected - taken : more);
}

double pare_eta_share(pare_eta *e, double now, double left)
{
    double spent = e->now < e->phases ? now - e->began : 0;
    for (size_t i = 0; i < e->phases; i++)
        spent += e->phase[i].spent;
    const double share = left >= 0 && spent + left > 0 ? spent / (spent + left) : 0;
    e->shown = share > e->shown ? share : e->shown;
    return e->shown;
}
