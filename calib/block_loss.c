#include "calib/block_loss.h"

#include <math.h>
#include <string.h>

#include "kernels/layout.h"
#include "runtime/leaves.h"
#include "runtime/ops.h"
#include "runtime/threads.h"

enum { ROWS_PER_CHUNK = 8 };

/* Rows of inputs that are rounded in groups. */
typedef struct input_rows {
    float *x;
    size_t k, group;
    float top;
} input_rows;

/* Rounds groups of the inputs of a site: scale max |x| / top, codes -top .. top. */
static void alter_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const input_rows *const a = arg;
    for (size_t i = begin; i < end; i++)
        for (size_t at = 0; at < a->k; at += a->group) {
            float *const x = a->x + i * a->k + at, max = 0;
            const size_t count = a->k - at < a->group ? a->k - at : a->group;
            for (size_t j = 0; j < count; j++)
                max = fabsf(x[j]) > max ? fabsf(x[j]) : max;
            const float scale = max / a->top;
            for (size_t j = 0; scale > 0 && j < count; j++)
                x[j] = rintf(x[j] / scale) * scale;
        }
}

/* Inputs that share a scale in the runtime; the finest where linears of a site differ. */
static size_t input_group(const pare_block_data *data, pare_site site, size_t k)
{
    const size_t all = pare_round_up(k, PARE_ATOM_K);
    size_t finest = all;
    for (size_t r = 0; r < PARE_ROLES; r++) {
        const pare_grid *const grid = data->grid[r];
        if (!grid || data->config->arch->linear[r].site != site)
            continue;
        const size_t group = pare_x8_group(grid->group ? grid->group : all);
        finest = group < finest ? group : finest;
    }
    return finest;
}

static void alter(void *self, pare_site site, float *x, size_t rows, size_t k)
{
    const pare_block_loss *const l = self;
    const pare_activation *const a = &l->data->activation[site];
    if (a->bits == 0 || a->mode == PARE_ACTIVATION_FLOAT)
        return;
    input_rows call = {.x = x, .k = k, .top = (float)((1u << (a->bits - 1)) - 1)};
    call.group = a->mode == PARE_ACTIVATION_GROUP ? input_group(l->data, site, k) : k;
    pare_parallel(l->cx, rows, ROWS_PER_CHUNK, alter_rows, &call);
}

/* Inputs and wanted outputs of windows; those that follow one another are read at once. */
static pare_status read_windows(const pare_block_loss *l, const size_t *window, size_t count)
{
    const size_t stride = l->data->window * l->data->config->hidden;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && window[end] == window[end - 1] + 1; end++)
            ;
        PARE_TRY(l->data->read(l->data->self, window[i], end - i, l->x + i * stride,
                               l->want + i * stride));
    }
    return PARE_OK;
}

/* The block on some windows, on a new tape; y becomes y - want. *error: sum of squares. */
static pare_status forward(pare_block_loss *l, const size_t *window, size_t count, double *error,
                           double *energy)
{
    pare_ctx_progress(l->cx, l->what, (double)l->done++, (double)l->total);
    PARE_TRY(pare_ctx_interrupted(l->cx));
    PARE_TRY(read_windows(l, window, count));
    const size_t hidden = l->data->config->hidden, rows = count * l->data->window;
    const pare_batch batch = {.sequences = count, .length = l->data->window};
    const pare_tap tap = {.change = alter, .self = l, .last = PARE_SITES};
    pare_array x;
    PARE_TRY(pare_tape_input(&l->tape, l->x, rows, hidden, false, &x));
    PARE_TRY(pare_tape_block(&l->tape, l->data->forward, &l->rounded, batch, x, &tap, &l->y));
    double sum = 0, whole = 0;
    for (size_t i = 0; i < rows * hidden; i++) {
        l->y.at[i] -= l->want[i];
        sum += (double)l->y.at[i] * (double)l->y.at[i];
        whole += (double)l->want[i] * (double)l->want[i];
    }
    *error += sum;
    *energy += whole;
    return PARE_OK;
}

static pare_status measure_batch(pare_block_loss *l, size_t first, size_t end, double *error,
                                 double *energy)
{
    const size_t left = end - first, count = left < l->batch ? left : l->batch;
    for (size_t i = 0; i < count; i++)
        l->chosen[i] = first + i;
    pare_tape_begin(l->cx, &l->room, NULL, &l->tape);
    const pare_status s = forward(l, l->chosen, count, error, energy);
    pare_tape_end(&l->tape);
    return s;
}

pare_status pare_block_loss_measure(pare_block_loss *l, size_t first, size_t end, double *loss)
{
    const pare_block_data *const d = l->data;
    double error = 0, energy = 0;
    for (size_t i = first; i < end; i += l->batch)
        PARE_TRY(measure_batch(l, i, end, &error, &energy));
    l->energy = energy / ((double)(end - first) * (double)d->window * (double)d->config->hidden);
    *loss = energy == 0 ? 0 : error / energy;
    return PARE_OK;
}

pare_status pare_block_loss_check(pare_ctx *cx, double plain)
{
    if (isfinite(plain))
        return PARE_OK;
    return pare_fail(cx, PARE_ENUMERIC,
                     "the error of the block's output is not finite: repair the checkpoint, or "
                     "leave this pass out");
}

static pare_status find_slopes(pare_block_loss *l, const size_t *window, size_t count)
{
    const pare_config *const c = l->data->config;
    const size_t values = count * l->data->window * c->hidden;
    pare_leaf_gradient leaf[PARE_OWN_LEAVES];
    double error = 0, energy = 0;
    for (size_t i = 0; i < PARE_OWN_LEAVES; i++) {
        const pare_leaf value = pare_block_leaf(c, &l->rounded, i),
                        slope = pare_block_leaf(c, &l->slope, i);
        leaf[i] = (pare_leaf_gradient){pare_leaf_floats(&value), pare_leaf_floats(&slope)};
        if (leaf[i].gradient)
            memset(leaf[i].gradient, 0, slope.n * slope.k * sizeof(float));
    }
    PARE_TRY(forward(l, window, count, &error, &energy));
    const float scale = (float)(l->energy > 0 ? 2 / (l->energy * (double)values) : 0);
    for (size_t i = 0; i < values; i++)
        l->y.at[i] *= scale;
    return pare_tape_back(&l->tape, l->y, l->y.at,
                          &(pare_gradients){.leaf = leaf, .leaves = PARE_OWN_LEAVES});
}

pare_status pare_block_loss_slopes(pare_block_loss *l, const size_t *window, size_t count)
{
    pare_tape_begin(l->cx, &l->room, NULL, &l->tape);
    const pare_status s = find_slopes(l, window, count);
    pare_tape_end(&l->tape);
    return s;
}

pare_status pare_block_loss_take(pare_block_loss *l, pare_arena *a, const pare_block *floats)
{
    const pare_config *const c = l->data->config;
    const pare_batch batch = {.sequences = l->batch, .length = l->data->window};
    l->room = (pare_arena){.cx = l->cx};
    PARE_TRY(pare_block_take(a, c, pare_block_biases(l->data->current), &l->slope));
    l->rounded = *floats;
    for (size_t r = 0; r < PARE_ROLES; r++) {
        pare_linear *const w = &l->rounded.linear[r];
        w->floats = PARE_NEW(a, float, w->n * w->k);
        if (!w->floats)
            return PARE_ENOMEM;
    }
    float **const place[] = {&l->x, &l->want};
    for (size_t i = 0; i < 2; i++) {
        *place[i] = pare_arena_take(a, batch.sequences * batch.length, c->hidden * sizeof(float));
        if (!*place[i])
            return PARE_ENOMEM;
    }
    l->chosen = PARE_NEW(a, size_t, l->batch);
    if (!l->chosen)
        return PARE_ENOMEM;
    /* the tape takes caches of all kinds of blocks that the model has */
    return pare_arena_init(
        l->cx, &l->room,
        pare_tape_block_bytes(l->cx, &l->data->forward->model->config, batch, false));
}

void pare_block_loss_release(pare_block_loss *l)
{
    pare_arena_release(&l->room);
}

size_t pare_block_loss_bytes(const pare_ctx *cx, const pare_config *c, size_t batch, size_t window)
{
    const pare_batch of = {.sequences = batch, .length = window};
    size_t bytes = pare_tape_block_bytes(cx, c, of, false), part;
    if (__builtin_mul_overflow(batch * 2 * c->hidden * sizeof(float), window, &part) ||
        __builtin_add_overflow(bytes, part, &bytes) ||
        __builtin_add_overflow(bytes, batch * sizeof(size_t) + (size_t)256 * PARE_ALIGN, &bytes) ||
        __builtin_add_overflow(bytes, 2 * pare_block_float_bytes(c), &bytes))
        return SIZE_MAX;
    return bytes;
}

pare_status pare_block_data_check(pare_ctx *cx, const pare_block_data *data, const char *method)
{
    for (size_t r = 0; r < PARE_ROLES; r++)
        if (data->grid[r] && !pare_encodings[data->grid[r]->encoding].uniform)
            return pare_fail(cx, PARE_ENOTSUP,
                             "%s: %s learns to round to uniform grids only: put rtn behind it",
                             data->current->linear[r].name, method);
    return PARE_OK;
}
