/* MLP channels go by the Hessian of the input of down. With a target of speed, compress/budget
 * (widths.c) puts steps with ratios in the place of this one. */
#include "compress/passes/passes_internal.h"
#include "compress/passes/ziplm_step.h"

// clang-format off
static const pare_param params[] = {
    [PARE_ZIPLM_RATIO] = {.name = "ratio", .type = PARE_PARAM_NUMBER, .min = 0.01, .max = 0.95,
        .fallback = 0.2,
        .help = "share of the MLP channels of each block of targets that goes; as many as stay "
                "round up to a multiple of 32"},
    [PARE_ZIPLM_SPEEDUP] = {.name = "speedup", .type = PARE_PARAM_NUMBER, .min = 0, .max = 100,
        .fallback = 0,
        .help = "how many times as fast as the original this machine decodes at least, instead of "
                "ratio: a width for each block; 0: ratio decides"},
    [PARE_ZIPLM_SPEED] = {.name = "tokens_s", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1e6,
        .fallback = 0,
        .help = "least tokens that this machine decodes in a second, instead of ratio; not together "
                "with speedup; 0: ratio or speedup decides"},
    {.name = NULL},
};
// clang-format on

static const char notes[] =
    "Each block of targets (a pattern that matches its down) loses the channels that cost least\n"
    "in the output of down, one after the other; those left make up for each. Where blocks come\n"
    "to differ in width, intermediate_size in config.json is a list: pare runs and "
    "trains\n"
    "such a model, and other passes take it, in the same recipe or in one of their own, but for\n"
    "rotate and passes that make a checkpoint smaller. It can be exported as safetensors, which "
    "pare\n"
    "reads, and as GGUF, where llama.cpp has such models of Llama under the name deci.\n"
    "With a pass behind it, evaluate: held_out, which a job that prunes has where evaluate: is "
    "not\n"
    "given, measures the model behind the widths and behind the rest: stages in run.json and\n"
    "a table in report.html.\n"
    "With speedup or tokens_s the step stands alone. compress takes the channels of each block "
    "out\n"
    "on the float model and records the error at each width, times the MLP of each width and a\n"
    "token with kernels of this machine (one row, weights as stored), and takes the widths of\n"
    "least summed error that are fast enough. Both are kept in OUTPUT.variants/widths.json: a\n"
    "continued job and one with another target use them again; without the file they are measured\n"
    "anew. recipe.yaml of the output has a ratio for each width: an ordinary recipe that makes "
    "the\n"
    "same bytes anywhere. Beside that the paper takes out attention heads and whole MLPs, "
    "corrects\n"
    "the weights of the errors by a search on the loss, and trains between steps; pare does none\n"
    "of these, and the errors are those in front of any pruning.\n";

const char pare_search_alone[] =
    "ziplm: with speedup or tokens_s it stands alone in passes: times are those of the model as it "
    "is; run it alone, then append the other passes to recipe.yaml of its output";

static pare_pass_structure structure(const double *value)
{
    const bool search = value[PARE_ZIPLM_SPEEDUP] > 0 || value[PARE_ZIPLM_SPEED] > 0;
    const double share = search ? params[PARE_ZIPLM_RATIO].max : value[PARE_ZIPLM_RATIO];
    return (pare_pass_structure){
        .share = {[PARE_PART_CHANNELS] = share}, .hessian = true, .search = search};
}

const pare_pass pare_pass_ziplm = {
    .name = "ziplm",
    .summary = "ZipLM: removes MLP channels and makes up for them, to a ratio or to a speed",
    .source = "Kurtic et al., ZipLM, NeurIPS 2023, algorithm 1 (columns, post-training)",
    .needs = PARE_FACT_WEIGHTS,
    .caution = "with speedup or tokens_s pare plan shows all channels: compress chooses how many "
               "each block keeps, and the files get smaller by the rest",
    .notes = notes,
    .params = params,
    .structure = structure,
};
