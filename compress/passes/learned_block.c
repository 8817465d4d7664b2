#include "compress/passes/learned_block.h"

#include <stdio.h>
#include <string.h>

#include "calib/wave.h"

/* Wanted outputs up to this many bytes are kept; more are made again for every batch. */
static const uint64_t targets_most = (uint64_t)256 << 20;

/* What matrices of a small model leave empty in the blocks of an arena. */
enum { ARENA_ENDS = 512 << 10 };

static size_t targets_bytes(size_t samples, size_t window, size_t hidden)
{
    const uint64_t bytes = pare_wave_bytes(samples, window, hidden);
    return bytes <= targets_most ? (size_t)bytes : 0;
}

/* y [count * window, hidden]: the inputs in, the outputs of the float block out. */
static pare_status make_targets(const pare_learned_block *s, size_t count, float *y)
{
    pare_kv kv;
    const pare_batch batch = {.sequences = count, .length = s->block->wave->window};
    PARE_TRY(pare_kv_take(s->scratch, s->block->config, count, batch.length, &kv));
    return pare_block_forward(s->cx, s->scratch, s->block->forward, s->block->reference, batch, y,
                              &kv, NULL);
}

static pare_status read_windows(void *self, size_t first, size_t count, float *x, float *y)
{
    pare_learned_block *const s = self;
    const pare_wave *const wave = s->block->wave, *const floats = s->block->floats;
    const size_t stride = wave->window * wave->hidden;
    bool made = s->targets != NULL;
    for (size_t i = 0; i < count; i++) {
        PARE_TRY(pare_wave_window(s->cx, wave, first + i, x + i * stride));
        made = made && s->made[first + i];
    }
    if (made) {
        memcpy(y, s->targets + first * stride, count * stride * sizeof *y);
        return PARE_OK;
    }
    for (size_t i = 0; floats && i < count; i++)
        PARE_TRY(pare_wave_window(s->cx, floats, first + i, y + i * stride));
    if (!floats)
        memcpy(y, x, count * stride * sizeof *y);
    const pare_mark mark = pare_arena_mark(s->scratch);
    const pare_status status = make_targets(s, count, y);
    pare_arena_rewind(s->scratch, mark);
    if (s->targets) {
        memcpy(s->targets + first * stride, y, count * stride * sizeof *y);
        memset(s->made + first, true, count * sizeof *s->made);
    }
    return status;
}

/* Inputs in 8 bits with a scale per group lose next to nothing: they count as floats. */
static bool rounds(const pare_activation *a)
{
    return a->mode != PARE_ACTIVATION_FLOAT && (a->bits == 4 || a->mode != PARE_ACTIVATION_GROUP);
}

static void look_ahead(const pare_pass_block *block, pare_block_data *data)
{
    const pare_arch *const arch = block->config->arch;
    for (size_t role = 0; role < PARE_ROLES; role++) {
        const pare_site site = arch->linear[role].site; /* PARE_SITES: there is no such linear */
        const pare_pass_site *const s = site < PARE_SITES ? block->site[site] : NULL;
        if (!s)
            continue;
        data->grid[role] = s->grid[role];
        if (s->grid[role] && rounds(&s->activation[role]))
            data->activation[site] = s->activation[role];
    }
}

pare_status pare_learned_block_begin(pare_ctx *cx, pare_arena *scratch,
                                     const pare_pass_block *block, pare_learned_block *from,
                                     pare_block_data *data)
{
    *from = (pare_learned_block){.cx = cx, .scratch = scratch, .block = block};
    *data = (pare_block_data){.config = block->config,
                              .forward = block->forward,
                              .current = block->current,
                              .samples = block->wave->samples,
                              .window = block->wave->window,
                              .read = read_windows,
                              .self = from};
    const size_t kept = targets_bytes(data->samples, data->window, block->wave->hidden);
    look_ahead(block, data);
    if (!kept)
        return PARE_OK;
    from->targets = pare_arena_take(scratch, kept, 1);
    from->made = PARE_NEW(scratch, bool, data->samples);
    return from->targets && from->made ? PARE_OK : PARE_ENOMEM;
}

void pare_learned_block_note(const pare_pass_block *block, bool kept, double before, double after)
{
    for (size_t s = 0; s < PARE_SITES; s++) {
        if (!block->site[s])
            continue;
        pare_step_result *const r = block->site[s]->result;
        if (kept)
            (void)snprintf(r->note, sizeof r->note, "loss %.3g, not lowered", before);
        else
            (void)snprintf(r->note, sizeof r->note, "loss %.3g -> %.3g", before, after);
    }
}

pare_pass_cost pare_learned_block_cost(const pare_ctx *cx, const pare_config *c, size_t own,
                                       size_t samples, size_t window, size_t batch, double passes)
{
    const pare_batch of = {.sequences = batch, .length = window};
    const pare_kv_format floats = {.method = PARE_KV_FLOAT};
    const size_t target = pare_block_forward_scratch(cx, c, of) +
                          pare_kv_bytes(c, &floats, batch, window) +
                          targets_bytes(samples, window, c->hidden) + ARENA_ENDS;
    double weights = 0;
    for (unsigned role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        pare_linear_shape(c, 0, (pare_role)role, &n, &k);
        weights += (double)n * (double)k;
    }
    /* forward of the float block and of the rounded one, and twice that backward */
    return (pare_pass_cost){.linear_bytes = own > SIZE_MAX - target ? SIZE_MAX : own + target,
                            .flops = (passes * 8 + 8) * (double)samples * (double)window * weights};
}

pare_pass_cost pare_learned_block_linear_cost(const double *value, size_t n, size_t k,
                                              size_t threads)
{
    (void)value;
    (void)n;
    (void)k;
    (void)threads;
    return (pare_pass_cost){0};
}

unsigned pare_learned_block_sites(const double *value)
{
    (void)value;
    return (1u << PARE_SITES) - 1;
}

const char *pare_learned_block_refuses(const pare_grid *grid)
{
    if (!grid || !pare_encodings[grid->encoding].uniform)
        return "ranges are learned for uniform grids, and the pass behind it has another; put rtn "
               "or gptq there";
    if (grid->clip != PARE_CLIP_NONE)
        return "the ranges that are learned would be searched again by the pass behind it; put rtn "
               "or gptq with the uniform grid and clip: none there";
    return NULL;
}
