#include "runtime/model.h"

#include <math.h>

#include "runtime/small.h"

static bool is_recurrent(const pare_config *c, size_t block)
{
    return c->mixed && pare_blocks_have(c->recurrent, block);
}

static bool is_dense(const pare_config *c, size_t block)
{
    return c->dense_blocks && pare_blocks_have(c->dense, block);
}

const pare_arch *pare_block_arch(const pare_config *c, size_t block)
{
    if (is_dense(c, block))
        return c->arch->dense;
    return is_recurrent(c, block) ? c->arch->recurrent : c->arch;
}

size_t pare_config_attentions(const pare_config *c)
{
    size_t blocks = c->arch && c->arch->recurrence ? 0 : c->blocks;
    for (size_t i = 0; blocks && i < c->blocks; i++)
        blocks -= is_recurrent(c, i);
    return blocks;
}

size_t pare_mixed_width(const pare_config *c)
{
    const pare_recurrence_sizes *const r = &c->recurrence;
    return 2 * r->key_heads * r->key_width + r->value_heads * r->value_width;
}

static size_t width_of(const pare_config *c, pare_width w)
{
    switch (w) {
    case PARE_WIDTH_HIDDEN: return c->hidden;
    case PARE_WIDTH_Q: return c->heads * c->head_dim;
    case PARE_WIDTH_KV: return c->kv_heads * c->head_dim;
    case PARE_WIDTH_MLP: return c->intermediate;
    case PARE_WIDTH_EXPERT: return c->expert_width;
    case PARE_WIDTH_Q_LATENT: return c->q_rank;
    case PARE_WIDTH_KV_LATENT: return c->kv_rank;
    case PARE_WIDTH_KV_A: return c->kv_rank + c->rope.rotary;
    case PARE_WIDTH_KV_B: return c->heads * (c->head_dim - c->rope.rotary + c->value_dim);
    case PARE_WIDTH_VALUES: return c->heads * c->value_dim;
    case PARE_WIDTH_GATED_Q: return 2 * c->heads * c->head_dim;
    case PARE_WIDTH_MIXED: return pare_mixed_width(c);
    case PARE_WIDTH_STATE: return c->recurrence.value_heads * c->recurrence.value_width;
    }
    return 0;
}

static void shape_in(const pare_config *c, const pare_arch *arch, size_t part, pare_role role,
                     size_t *n, size_t *k)
{
    const pare_linear_desc *const d = pare_arch_linear(arch, part, role);
    *n = d->name ? width_of(c, d->out) : 0;
    *k = d->name ? width_of(c, d->in) : 0;
}

void pare_linear_shape(const pare_config *c, size_t part, pare_role role, size_t *n, size_t *k)
{
    size_t rows, columns;
    shape_in(c, c->arch, part, role, n, k);
    if (!c->mixed)
        return;
    shape_in(c, c->arch->recurrent, part, role, &rows, &columns);
    *n = pare_larger(*n, rows);
    *k = pare_larger(*k, columns);
}

size_t pare_config_mlp(const pare_config *c, size_t block)
{
    return c->uneven ? c->mlp[block] : c->intermediate;
}

size_t pare_config_channels(const pare_config *c)
{
    size_t channels = 0;
    for (size_t i = 0; i < c->blocks; i++)
        channels += pare_config_mlp(c, i);
    return channels;
}

void pare_block_shape(const pare_config *c, size_t block, size_t part, pare_role role, size_t *n,
                      size_t *k)
{
    const pare_arch *const arch = pare_block_arch(c, block);
    const pare_linear_desc *const d = pare_arch_linear(arch, part, role);
    shape_in(c, arch, part, role, n, k);
    if (d->name && d->out == PARE_WIDTH_MLP)
        *n = pare_config_mlp(c, block);
    if (d->name && d->in == PARE_WIDTH_MLP)
        *k = pare_config_mlp(c, block);
}

void pare_block_config(const pare_config *c, size_t block, pare_config *out)
{
    *out = *c;
    out->intermediate = pare_config_mlp(c, block);
    out->uneven = false;
    out->arch = pare_block_arch(c, block);
    out->mixed = false;
    if (is_dense(c, block))
        out->experts = 0;
    out->dense_blocks = 0;
}

size_t pare_site_width(const pare_config *c, size_t part, pare_site site)
{
    size_t width = 0;
    for (pare_role role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        pare_linear_shape(c, part, role, &n, &k);
        if (k && pare_arch_linear(c->arch, part, role)->site == site)
            width = pare_larger(width, k);
    }
    return width;
}

uint64_t pare_config_idle_weights(const pare_config *c)
{
    uint64_t expert = 0, all;
    for (pare_role role = 0; role < PARE_ROLES && c->experts; role++) {
        size_t n, k;
        pare_linear_shape(c, 1, role, &n, &k);
        expert += (uint64_t)n * k;
    }
    const uint64_t idle = (uint64_t)(c->experts - c->experts_used) * (c->blocks - c->dense_blocks);
    return __builtin_mul_overflow(expert, idle, &all) ? UINT64_MAX : all;
}

size_t pare_norm_width(const pare_config *c, pare_norm norm)
{
    switch (norm) {
    case PARE_NORM_Q: return c->arch->whole_qk_norms ? c->heads * c->head_dim : c->head_dim;
    case PARE_NORM_K: return c->arch->whole_qk_norms ? c->kv_heads * c->head_dim : c->head_dim;
    case PARE_NORM_ATTENDED: return c->heads * c->head_dim;
    case PARE_NORM_ACTIVATED: return c->intermediate;
    case PARE_NORM_Q_LATENT: return c->q_rank;
    case PARE_NORM_KV_LATENT: return c->kv_rank;
    case PARE_NORM_AFTER_ATTENTION:
    case PARE_NORM_AFTER_MLP:
    case PARE_NORMS: break;
    }
    return c->hidden;
}

size_t pare_config_window(const pare_config *c, size_t block)
{
    return pare_blocks_have(c->wide, block) ? 0 : c->window;
}

float pare_config_temperature(const pare_config *c, bool apart, size_t position)
{
    if (!apart || !(c->temperature > 0))
        return 1;
    const size_t steps = (position + 1) / c->temperature_step;
    return (float)(1 + c->temperature * log1p((double)steps));
}

bool pare_config_turns_apart(const pare_config *c, size_t block)
{
    if (c->rope_local.kind == PARE_ROPE_NONE)
        return pare_blocks_have(c->unturned, block);
    return c->rope_local.theta > 0 && pare_config_window(c, block) > 0;
}

size_t pare_rope_pairs(const pare_config *c)
{
    if (c->arch && c->arch->positions)
        return 0;
    return (c->rope.rotary ? c->rope.rotary : c->head_dim) / 2;
}

static const double two_pi = 2 * 3.14159265358979323846;

static double llama3_frequency(const pare_rope *r, double plain)
{
    const double turns = (double)r->original_context * plain / two_pi;
    if (turns < r->low_freq_factor)
        return plain / r->factor;
    if (turns >= r->high_freq_factor) /* also where nothing is in between */
        return plain;
    const double keep = (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return (1 - keep) * plain / r->factor + keep * plain;
}

void pare_rope_ramp(const pare_rope *r, size_t pairs, double bound[2])
{
    const double beta[2] = {r->beta_fast, r->beta_slow};
    for (size_t i = 0; i < 2; i++) /* pair b turns C theta^(-b / pairs) / 2 pi times */
        bound[i] =
            (double)pairs * log((double)r->original_context / (beta[i] * two_pi)) / log(r->theta);
    if (!r->exact_bounds) {
        bound[0] = floor(bound[0]);
        bound[1] = ceil(bound[1]);
    }
    bound[0] = fmax(bound[0], 0);
    bound[1] = fmin(bound[1], 2 * (double)pairs - 1);
    if (bound[0] == bound[1])
        bound[1] += 0.001;
}

static double yarn_frequency(const pare_rope *r, size_t i, size_t pairs, double plain)
{
    double bound[2];
    pare_rope_ramp(r, pairs, bound);
    const double mixed = fmin(fmax(((double)i - bound[0]) / (bound[1] - bound[0]), 0), 1);
    return (1 - mixed) * plain + mixed * plain / r->factor;
}

double pare_rope_frequency(const pare_rope *r, size_t i, size_t pairs, size_t length)
{
    const double share = -(double)i / (double)pairs, plain = pow(r->theta, share);
    const bool beyond = length > r->original_context;
    switch (r->kind) {
    case PARE_ROPE_LINEAR: break;
    case PARE_ROPE_LLAMA3: return llama3_frequency(r, plain);
    case PARE_ROPE_DYNAMIC: /* the exponent of the new base times -i / pairs; pair 0 stays */
        return beyond && i > 0
                   ? plain * pow(r->factor * (double)length / (double)r->original_context -
                                     r->factor + 1,
                                 -(double)i / ((double)pairs - 1))
                   : plain;
    case PARE_ROPE_YARN: return yarn_frequency(r, i, pairs, plain);
    case PARE_ROPE_LONGROPE: return plain / (double)r->divisor[beyond][i];
    case PARE_ROPE_NONE: return 0;
    }
    return r->stretch > 0 ? plain / r->stretch : plain;
}

size_t pare_rope_rows(const pare_rope *r, size_t positions)
{
    const bool two = pare_rope_by_length(r) && positions > r->original_context;
    return two ? r->original_context + positions : positions;
}

size_t pare_rope_table_rows(const pare_config *c, size_t positions)
{
    return pare_rope_rows(&c->rope, positions) + (c->rope_local.theta > 0 ? positions : 0);
}

static const char other_widths[] = "MLPs of its blocks differ in width";

const char *pare_config_no_training(const pare_config *c)
{
    if (c->arch->window == PARE_WINDOW_CHUNKS)
        return "it has attention in chunks";
    if (c->arch->latent_eps > 0)
        return "it has latent attention";
    if (c->arch->experts && c->arch->experts->correction)
        return "its router has a correction, which no gradient reaches";
    return NULL;
}

/* What every method below computes with. */
static const char *beside_llama(const pare_config *c)
{
    const pare_arch *const a = c->arch;
    if (c->mixed)
        return "some of its blocks have a recurrent state in place of attention";
    if (a->latent_eps > 0)
        return "its keys and values come from one narrow vector (latent attention)";
    if (a->multiplies)
        return "it multiplies what its halves make, and its logits";
    if (a->experts)
        return "its MLP is a mixture of experts";
    if (a->norm_kind != PARE_NORM_RMS)
        return "its norms take the mean away";
    if (a->positions)
        return "it has learned positions";
    if (c->residual != PARE_RESIDUAL_SERIAL)
        return "attention and MLP run side by side";
    if (!a->attention_norm)
        return "it has no norms in front of attention and MLP";
    if (a->inner_norm[PARE_NORM_AFTER_ATTENTION])
        return "it has norms behind attention and MLP";
    if (a->inner_norm[PARE_NORM_ATTENDED])
        return "it has norms in front of o and down";
    return NULL;
}

const char *pare_config_no_rotation(const pare_config *c)
{
    const char *const other = c->uneven ? other_widths : beside_llama(c);
    return !other && c->embed_scale > 0 ? "it scales its embedding" : other;
}

const char *pare_config_no_structure(const pare_config *c)
{
    const char *const other = beside_llama(c);
    if (other)
        return other;
    if (c->uneven)
        return other_widths;
    if (c->arch->inner_norm[PARE_NORM_Q])
        return "it has norms on q and k";
    if (c->arch->fused[0].name)
        return "its checkpoints hold several linears in one tensor";
    if (c->window)
        return "it has a sliding window";
    if (c->rope_local.kind == PARE_ROPE_NONE)
        return "some of its blocks have no positions";
    if (c->arch->linear[PARE_ROLE_Q].bias != c->arch->linear[PARE_ROLE_O].bias)
        return "some linears of attention have biases and others have none";
    return c->embed_scale > 0 ? "it scales its embedding" : NULL;
}
