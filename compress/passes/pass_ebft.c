#include <string.h>

#include "compress/passes/learned_block.h"
#include "compress/passes/passes_internal.h"
#include "distill/ebft.h"
#include "runtime/random.h"

enum { EPOCHS, BATCH, RATE };

// clang-format off
static const pare_param params[] = {
    [EPOCHS] = {.name = "epochs", .type = PARE_PARAM_INTEGER, .min = 1, .max = 1000, .fallback = 10,
        .help = "rounds through the calibration windows for each block"},
    [BATCH] = {.name = "batch", .type = PARE_PARAM_INTEGER, .min = 1, .max = 1024, .fallback = 2,
        .help = "calibration windows of one step; more make fewer steps"},
    [RATE] = {.name = "rate", .type = PARE_PARAM_NUMBER, .min = 1e-8, .max = 1, .fallback = 5e-4,
        .help = "the largest learning rate of AdamW; it falls to a tenth"},
    {.name = NULL},
};
// clang-format on

static size_t batch_of(const double *value, size_t samples)
{
    const size_t batch = (size_t)value[BATCH];
    return samples == 0 || batch < samples ? batch : samples;
}

static pare_pass_cost block_cost(const pare_ctx *cx, const double *value, const pare_config *c,
                                 size_t samples, size_t window)
{
    const size_t batch = batch_of(value, samples);
    return pare_learned_block_cost(cx, c, pare_ebft_bytes(cx, c, batch, samples, window), samples,
                                   window, batch, value[EPOCHS]);
}

static unsigned folds(const double *value)
{
    (void)value;
    return 0;
}

/* Linears that are pruned: the planner selects no other. */
static unsigned pruned_roles(const pare_pass_block *block)
{
    unsigned roles = 0;
    for (size_t site = 0; site < PARE_SITES; site++)
        for (size_t role = 0; block->site[site] && role < PARE_ROLES; role++)
            if (block->site[site]->sparsity[role])
                roles |= 1u << role;
    return roles;
}

static pare_status transform_block(pare_ctx *cx, const double *value, pare_pass_block *block,
                                   pare_arena *scratch)
{
    const pare_ebft_opts opts = {.epochs = (size_t)value[EPOCHS],
                                 .batch = batch_of(value, block->wave->samples),
                                 .rate = value[RATE],
                                 .seed = block->seed,
                                 .stream =
                                     pare_random_stream("ebft") + ((uint64_t)block->number << 32)};
    pare_learned_block from;
    pare_block_data data;
    pare_ebft_found found;
    PARE_TRY(pare_learned_block_begin(cx, scratch, block, &from, &data));
    PARE_TRY(pare_ebft_train(cx, scratch, &opts, &data, pruned_roles(block), &found));
    pare_learned_block_note(block, found.kept, found.before, found.after);
    for (size_t role = 0; role < PARE_ROLES; role++) {
        const pare_linear *const l = &block->current->linear[role];
        if (found.w[role])
            memcpy(l->floats, found.w[role], l->n * l->k * sizeof *l->floats);
    }
    return PARE_OK;
}

static const pare_pass_transform transforms = {.sites = pare_learned_block_sites,
                                               .folds = folds,
                                               .block = transform_block,
                                               .block_cost = block_cost,
                                               .restores = true};

const pare_pass pare_pass_ebft = {
    .name = "ebft",
    .summary = "EBFT: trains what a pruner left of a block, on the outputs of the block",
    .source = "Guo et al., EBFT, 2024, whose own rate is 2e-4",
    .notes =
        "It comes behind a pruner and works on the linears that were pruned, block by block. "
        "AdamW\n"
        "trains the weights that are left, so that the block, behind the compressed ones, gives\n"
        "what it gives in the float model; a weight that is 0 stays 0. One window of eight is "
        "held\n"
        "out, and pare takes the epoch that does best there. One block is in memory at a time,\n"
        "where distill has 16 bytes for each weight that it trains. distill behind it wins more,\n"
        "and quantizers may follow. pare does less than the authors' program: norms and biases\n"
        "stay as they are. Blocks may have attention or a recurrent state, but no mixture of\n"
        "experts.\n",
    .needs = PARE_FACT_WEIGHTS | PARE_FACT_FLOATS,
    .params = params,
    .cost = pare_learned_block_linear_cost,
    .transform = &transforms,
};
