/* The gradient of a step as the sum of those of its lots. Room for that of one lot is needed for
 * one block at a time, because a lot goes through a block once. */
#include <string.h>

#include "distill/loop_internal.h"
#include "runtime/threads.h"
#include "runtime/world.h"

enum { CHUNK = 1 << 14 }; /* weights at once */

/* What the model reads, and where the gradient of it goes. */
static void note(pare__lot_sum *s, float *read, float *gradient, size_t count, size_t block)
{
    if (!read)
        return;
    memset(gradient, 0, count * sizeof *gradient); /* a step that failed may have left some */
    s->gradient[s->count] = (pare_leaf_gradient){read, gradient};
    s->part[s->count++] =
        (pare__lot_part){.read = read, .total = gradient, .count = count, .block = block};
}

/* Parts of a block lie behind one another in the trainee, those outside the blocks last. `room`:
 * for the largest block, `most` floats, and behind it for those outside; NULL: only counts them. */
static void lay(pare__lot_sum *s, float *room, size_t *most, size_t *outside)
{
    const size_t inside = *most;
    size_t floats = 0;
    *most = *outside = 0;
    for (size_t i = 0; i < s->count; i++) {
        pare__lot_part *const p = &s->part[i];
        const bool out = p->block == PARE_OUTSIDE;
        floats = i > 0 && p->block == p[-1].block ? floats : 0;
        if (room)
            p->apart = room + (out ? inside : 0) + floats;
        floats += p->count;
        size_t *const of = out ? outside : most;
        *of = floats > *of ? floats : *of;
    }
}

static pare_status take_apart(pare_arena *a, pare__lot_sum *s)
{
    size_t most = 0, outside;
    lay(s, NULL, &most, &outside);
    float *const room = PARE_NEW(a, float, most + outside);
    if (!room)
        return PARE_ENOMEM;
    lay(s, room, &most, &outside);
    return PARE_OK;
}

pare_status pare__lot_sum_take(pare_arena *a, const pare_trainee *t, bool apart, pare__lot_sum *out)
{
    const size_t most = t->leaves + t->loras;
    *out = (pare__lot_sum){.gradient = PARE_NEW(a, pare_leaf_gradient, most),
                           .part = PARE_NEW(a, pare__lot_part, most)};
    if (!out->gradient || !out->part)
        return PARE_ENOMEM;
    for (size_t i = 0; i < t->leaves; i++)
        note(out, t->leaf[i].read, t->leaf[i].gradient, t->leaf[i].count, t->leaf[i].block);
    for (size_t i = 0; i < t->loras; i++)
        note(out, t->lora[i].seen, t->lora[i].gradient, t->lora[i].base.n * t->lora[i].base.k,
             t->lora[i].a->block);
    return apart ? take_apart(a, out) : PARE_OK;
}

void pare__lot_sum_begin(pare__lot_sum *s, bool first)
{
    for (size_t i = 0; i < s->count; i++)
        s->gradient[i].gradient = first ? s->part[i].total : s->part[i].apart;
}

/* What is added to a part. */
typedef struct addend {
    float *to, *from;
} addend;

static void add_range(void *arg, size_t begin, size_t end, size_t worker)
{
    const addend *const a = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        a->to[i] += a->from[i];
        a->from[i] = 0;
    }
}

void pare__lot_sum_add(const pare_ctx *cx, pare__lot_sum *s, size_t block)
{
    for (size_t i = 0; i < s->count; i++) {
        const pare__lot_part *const p = &s->part[i];
        if (p->block == block && s->gradient[i].gradient == p->apart)
            pare_parallel(cx, p->count, CHUNK, add_range, &(addend){p->total, p->apart});
    }
}

/* --- several processes -------------------------------------------------------------------------
 */

void pare__lot_sum_spread(const pare_ctx *cx, const pare__lot_sum *s)
{
    for (size_t i = 0; i < s->count; i++)
        pare_world_broadcast(cx, s->part[i].read, s->part[i].count * sizeof(float));
}

void pare__lot_sum_send(const pare_ctx *cx, const pare__lot_sum *s, size_t piece)
{
    for (size_t i = 0; i < s->count; i++) {
        const pare__lot_part *const p = &s->part[i];
        for (size_t at = 0, some; at < p->count; at += some) {
            some = pare_smaller(piece, p->count - at);
            pare_world_send(cx, 0, p->total + at, some * sizeof(float));
        }
        memset(p->total, 0, p->count * sizeof *p->total);
    }
}

void pare__lot_sum_receive(const pare_ctx *cx, const pare__lot_sum *s, size_t from, size_t piece,
                           float *room)
{
    for (size_t i = 0; i < s->count; i++) {
        const pare__lot_part *const p = &s->part[i];
        for (size_t at = 0, some; at < p->count; at += some) {
            some = pare_smaller(piece, p->count - at);
            pare_world_receive(cx, from, room, some * sizeof *room);
            pare_parallel(cx, some, CHUNK, add_range, &(addend){p->total + at, room});
        }
    }
}
