/* Measured on hedge (recipes/demo/hedge: Llama family, 6 blocks, inputs of 256 and 640 columns): KL
 * to the original on 12,000 bytes of evaluation.txt, calibrated on n tokens of calibration.txt in
 * windows of 256 (two draws up to n = 512, the worse one), against the plain form.
 *
 *   tokens        2     32    128    256    512   1024   2048  24576   plain
 *   gptq 4 bit  .0061  .0080  .0077  .0081  .0058  .0037  .0034  .0028  .0058
 *   gptq 3 bit  .0306  .0422  .0423  .0452  .0318  .0201  .0171  .0147  .0290
 *   gptq 2 bit  .458   .682   .862  1.110   .682   .383   .285   .215   .425
 *   sparsegpt   .142   .225   .158   .178   .111   .070   .064   .054   .126   (2:4)
 *   wanda       .483   .287   .143   .169   .123   .115   .118   .113   .126   (2:4)
 *
 * A sweep that compensates does worst when there are as many tokens as inputs, where it can make up
 * for every error on these tokens and for none on others. By input, in 2 bits:
 *
 *   256 columns, n = 256: .303   384: .197   512: .163   1024: .118           plain .231
 *   640 columns, n = 640: .284   960: .208  1280: .153   1920: .114   2560: .105   plain .120
 *
 * So it gains from 1.2 tokens per input on where the inputs come from a norm, and from 2.8 on for
 * down_proj, whose inputs are loud in few tokens (1920 tokens are 45 effective samples, a 14th of
 * the columns). Needed are 3 tokens per input, and a 32nd of an effective sample.
 *
 * What takes sizes of columns alone gains from about 500 tokens on, where down_proj has 13
 * effective samples; the number of columns does not matter. Needed are 12.
 *
 * Ranges of columns: with a fixed scale of the inputs (int8_tensor) KL is .048 from 2 tokens, .0087
 * from 8, .0034 from 32 and .0069 from 2048; smoothquant changes little either way. Needed are 32.
 * omniquant, 2 bits in 20 epochs: .686 from 2 tokens, .553 from 128, plain .663. Needed are 128.
 *
 * Text that repeats itself, gptq in 2 bits on 24,576 tokens, of which so many are new as
 * pare_tokens_fresh counts them: KL when all of them count, and when the new ones do:
 *
 *   new tokens    55    270    558   1202   2409   4762  24564
 *   all count   .634   .767   .607   .342   .264   .241   .215
 *   new count   .425   .425   .425   .271   .264   .241   .215
 *
 * More is not always better: a Llama of 135M (inputs of 576 and 1536 columns), gptq in 4 bits, g64,
 * windows of 512, perplexity of 4599 tokens: plain 44.9; 4096 tokens (the inputs of 1536 columns
 * get the plain form) 46.5, 12,288 tokens 44.7, 49,152 tokens 45.4, one seed each.
 *
 * Rank: that of such calibrations was that of all columns each time. A quarter of it is needed: of
 * columns, or of the vocabulary where that is smaller, since the first block sees no more
 * different inputs than there are tokens. */
#include "compress/plan/calibration_need.h"
#include "compress/plan/plan_reap.h"
#include "runtime/small.h"

#include <math.h>
#include <stdio.h>

enum { TOKENS_PER_INPUT = 3, INPUTS_PER_SAMPLE = 32, RANK_PART = 4 };
/* For sizes of columns: effective samples, and tokens that may have as many. */
enum { SAMPLES = 12, FEW = 128 };
/* For ranges of columns. */
enum { RANGES = 32 };

bool pare_need_fixes(const pare_step *step)
{
    const pare_pass *const pass = pare_passes[step->pass];
    if (!pass->activation)
        return false;
    const pare_activation a = pass->activation(step->value);
    return pare_activation_is_fixed(
        pass->grid ? pass->grid(step->value).encoding : PARE_ENCODING_UNIFORM, &a);
}

bool pare_need_trusts(const pare_step *step)
{
    const pare_pass *const pass = pare_passes[step->pass];
    const unsigned asked = pass->diagonal && pass->asks ? pass->asks(step->value) : 0;
    return ((pass->needs | asked) & PARE_FACT_HESSIAN) != 0;
}

pare_need pare_need_of(const pare_step *step, size_t k, size_t columns, size_t vocab)
{
    const pare_pass *const pass = pare_passes[step->pass];
    const size_t rank =
        pare_smaller(pare_smaller(columns, vocab), PARE_SUPPORT_COLUMNS) / RANK_PART + 1;
    const uint64_t all = (uint64_t)k * TOKENS_PER_INPUT;
    if (pass->structure) {
        const pare_pass_structure s = pass->structure(step->value);
        return (pare_need){.tokens = s.hidden > 0 || s.hessian ? all : FEW};
    }
    if (pass->transform && pass->transform->block)
        return (pare_need){.tokens = FEW};
    if (!pare_need_trusts(step))
        return (pare_need){.tokens = pass->transform || pare_need_fixes(step) ? RANGES : 0};
    if (pass->diagonal)
        return (pare_need){.tokens = FEW, .rank = pare_smaller(rank, SAMPLES), .samples = SAMPLES};
    return (pare_need){
        .tokens = all, .rank = rank, .samples = pare_larger(k / INPUTS_PER_SAMPLE, SAMPLES)};
}

uint64_t pare_need_of_reap(const pare_plan *plan)
{
    const uint64_t given = plan->recipe.calibration.min_tokens;
    const uint64_t least = pare_need_of(&plan->recipe.step[0], 0, 0, 0).tokens;
    return given > least ? given : least;
}

static uint64_t all_tokens(const pare_plan *plan, const pare_settled *settled)
{
    return (uint64_t)settled->samples * plan->window;
}

static double fresh_part(const pare_plan *plan, const pare_settled *settled)
{
    return settled->fresh && settled->samples
               ? (double)settled->fresh / (double)all_tokens(plan, settled)
               : 1;
}

uint64_t pare_need_fresh(const pare_plan *plan, const pare_settled *settled, uint64_t tokens)
{
    return (uint64_t)((double)tokens * fresh_part(plan, settled));
}

double pare_need_effective(const pare_plan *plan, const pare_settled *settled,
                           const pare_support *support)
{
    return support->effective * fresh_part(plan, settled);
}

/* Tokens of which so many are new: at most those that there are. */
static uint64_t tokens_with(const pare_plan *plan, const pare_settled *settled, uint64_t fresh)
{
    uint64_t tokens = (uint64_t)((double)fresh / fresh_part(plan, settled));
    while (pare_need_fresh(plan, settled, tokens) < fresh)
        tokens++;
    return tokens;
}

uint64_t pare_need_of_experts(const pare_plan *plan, const pare_settled *settled)
{
    const pare_config *const c = &plan->model.config;
    const uint64_t all = all_tokens(plan, settled), fresh = pare_need_fresh(plan, settled, all);
    const uint64_t wide = (uint64_t)pare_larger(c->hidden, c->expert_width) * TOKENS_PER_INPUT,
                   narrow = (uint64_t)pare_smaller(c->hidden, c->expert_width) * TOKENS_PER_INPUT;
    if (!c->experts)
        return FEW;
    if (all == 0) /* not known yet */
        return wide;
    return wide <= fresh     ? tokens_with(plan, settled, wide)
           : narrow <= fresh ? tokens_with(plan, settled, narrow)
                             : FEW;
}

uint64_t pare_plan_min_tokens(const pare_plan *plan, const pare_settled *settled)
{
    const uint64_t given = plan->recipe.calibration.min_tokens, all = all_tokens(plan, settled);
    const uint64_t tokens = given ? given : pare_need_of_experts(plan, settled);
    return all && tokens > all ? all : tokens;
}

bool pare_need_is_met(const pare_plan *plan, const pare_settled *settled, const pare_step *step,
                      const pare_site_stats *stats)
{
    const pare_support *const h = &stats->support;
    const size_t columns = h->known ? h->columns : stats->k;
    const pare_need need = pare_need_of(step, stats->k, columns, plan->model.config.vocab);
    if (stats->identity) /* what was measured is gone, or was only the sizes of columns */
        return need.rank == 0 || (!h->known && stats->fourth);
    if (pare_need_fresh(plan, settled,
                        h->known || h->tokens ? h->tokens : all_tokens(plan, settled)) <
        need.tokens)
        return false;
    return !h->known ||
           (h->rank >= need.rank && pare_need_effective(plan, settled, h) >= (double)need.samples);
}

/* Whether a step that trusts Hessians gets too few tokens for k inputs. */
static bool is_starved(const pare_plan *plan, size_t step, size_t k, uint64_t fresh)
{
    const pare_step *const s = &plan->recipe.step[step];
    return pare_need_trusts(s) && fresh < pare_need_of(s, k, k, plan->model.config.vocab).tokens;
}

bool pare_need_is_hopeless(const pare_plan *plan, const pare_settled *settled, size_t block,
                           size_t part, pare_site site, uint64_t tokens)
{
    enum { HESSIANS = PARE_STATS_HESSIAN | PARE_STATS_HELD | PARE_STATS_BF16 };
    const uint64_t fresh = pare_need_fresh(plan, settled, tokens);
    size_t i, end;
    if (plan->expert_kinds[site] & ~(unsigned)HESSIANS)
        return false;
    for (pare_plan_range(plan, block, part, &i, &end); i < end; i++) {
        const pare_plan_linear *const l = &plan->linear[i];
        const size_t k = l->packed.k;
        if (pare_plan_site(plan, l) == site &&
            ((l->quantized && !is_starved(plan, l->step, k, fresh)) ||
             (l->pruned && !is_starved(plan, l->prune_step, k, fresh))))
            return false;
    }
    return true;
}

const char *pare_need_outcome(const pare_step *step, bool one)
{
    const pare_pass *const pass = pare_passes[step->pass];
    if (pare_pass_transforms(pass))
        return one ? "stays as it is" : "stay as they are";
    if (pare_need_trusts(step))
        return one ? "gets its plain form" : "get its plain form";
    return one ? "has scales of its inputs from these tokens alone"
               : "have scales of their inputs from these tokens alone";
}

static bool transforms(const pare_plan *plan, size_t step, const pare_plan_linear *l)
{
    bool found = false;
    for (size_t i = 0; !found && l->part == 0 && i < plan->transforms; i++) {
        const pare_plan_transform *const t = &plan->transform[i];
        found = t->step == step && t->block == l->block && t->roles & 1u << l->role;
    }
    return found;
}

size_t pare_need_first(const pare_plan *plan, const pare_settled *settled,
                       const pare_plan_linear *l, const pare_support *support, pare_need *need)
{
    const pare_site_stats stats = {.k = l->packed.k, .support = *support};
    size_t first = l->step;
    bool found = false;
    for (int turn = 0; !found && turn < 2; turn++)
        for (size_t step = 0; !found && step < plan->recipe.steps; step++) {
            const bool works =
                turn ? transforms(plan, step, l)
                     : (l->quantized && l->step == step) || (l->pruned && l->prune_step == step);
            found = works && !pare_need_is_met(plan, settled, &plan->recipe.step[step], &stats);
            first = found ? step : first;
        }
    *need = pare_need_of(&plan->recipe.step[first], l->packed.k, support->columns,
                         plan->model.config.vocab);
    return first;
}

/* Counts linears of k inputs that a step works on. */
static void count_short(const pare_plan *plan, size_t step, size_t k, size_t linears,
                        pare_shortage *out)
{
    const pare_need need = pare_need_of(&plan->recipe.step[step], k, k, plan->model.config.vocab);
    if (need.tokens <= out->fresh)
        return;
    out->linears += linears;
    if (need.tokens > out->need.tokens)
        out->need = need, out->k = k;
}

/* Tokens with which each expert gets what its score needs, if the router sends all the same. */
static void count_experts(const pare_plan *plan, pare_shortage *out)
{
    const pare_config *const c = &plan->model.config;
    const double each = (double)pare_need_of_reap(plan);
    const double need = ceil(each * (double)c->experts / (double)c->experts_used);
    if (need > (double)out->fresh)
        out->need.tokens = (uint64_t)need, out->k = c->hidden;
}

/* Inputs that a structured step has an H of, or would have. */
static size_t structure_inputs(const pare_plan *plan, size_t step)
{
    const pare_step *const s = &plan->recipe.step[step];
    const pare_config *const c = &plan->model.config;
    return pare_passes[s->pass]->structure(s->value).hessian ? c->intermediate : c->hidden;
}

bool pare_plan_short(const pare_plan *plan, const pare_settled *settled, size_t step,
                     pare_shortage *out)
{
    const uint64_t all = all_tokens(plan, settled);
    *out = (pare_shortage){.tokens = all, .fresh = pare_need_fresh(plan, settled, all)};
    if (!plan->calibrated || settled->samples == 0)
        return false;
    if (pare_plan_reaps(plan))
        count_experts(plan, out);
    else if (plan->structured)
        count_short(plan, step, structure_inputs(plan, step), 0, out);
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_plan_linear *const l = &plan->linear[i];
        if ((l->quantized && l->step == step) || (l->pruned && l->prune_step == step))
            count_short(plan, step, l->packed.k, 1, out);
    }
    for (size_t i = 0; i < plan->transforms; i++) {
        const pare_plan_transform *const t = &plan->transform[i];
        if (t->step == step)
            count_short(plan, step, pare_site_width(&plan->model.config, 0, t->site),
                        (size_t)__builtin_popcount(t->roles), out);
    }
    return out->need.tokens > 0;
}

const char *pare_few_held_text(const char *what, size_t windows, const char *advice,
                               char text[PARE_SHORTAGE_TEXT])
{
    if (windows == 0 || windows >= PARE_HELD_FEW)
        return NULL;
    (void)snprintf(text, PARE_SHORTAGE_TEXT,
                   "%s: what it trained is judged on %zu window%s held out, and fewer than %d tell "
                   "little; give %s",
                   what, windows, pare_plural(windows), PARE_HELD_FEW, advice);
    return text;
}

const char *pare_plan_few_held(const pare_plan *plan, const pare_settled *settled,
                               char text[PARE_SHORTAGE_TEXT])
{
    return plan->training
               ? pare_few_held_text(pare_passes[plan->training->pass]->name, settled->held_out,
                                    "more text, or fewer samples or windows", text)
               : NULL;
}

/* Windows that have `tokens` new ones, when as many of each are new as of those at hand. */
static uint64_t windows_for(const pare_settled *settled, const pare_shortage *s)
{
    return (uint64_t)ceil((double)s->need.tokens * (double)settled->samples / (double)s->fresh);
}

/* "1152 tokens of calibration for 384 inputs" */
static void need_text(const pare_plan *plan, const pare_shortage *s, char text[160])
{
    const pare_config *const c = &plan->model.config;
    const unsigned long long tokens = s->need.tokens;
    if (pare_plan_reaps(plan))
        (void)snprintf(text, 160,
                       "%llu tokens of calibration, %llu for each of %zu experts, of which a token "
                       "uses %zu",
                       tokens, (unsigned long long)pare_need_of_reap(plan), c->experts,
                       c->experts_used);
    else
        (void)snprintf(text, 160, "%llu tokens of calibration for %zu inputs", tokens, s->k);
}

const char *pare_shortage_text(const pare_plan *plan, const pare_settled *settled, size_t step,
                               const pare_shortage *s, char text[PARE_SHORTAGE_TEXT])
{
    const pare_step *const st = &plan->recipe.step[step];
    char what[96] = "what it takes out is left to chance", fresh[48] = "";
    const bool kept = plan->recipe.calibration.kind == PARE_CALIBRATION_FROM;
    char windows[80], need[160];
    (void)snprintf(windows, sizeof windows, "%smore text", kept ? "statistics of " : "");
    if (s->fresh < s->tokens)
        (void)snprintf(fresh, sizeof fresh, ", %llu of them new", (unsigned long long)s->fresh);
    if (s->linears)
        (void)snprintf(what, sizeof what, "%zu linear%s %s", s->linears, pare_plural(s->linears),
                       pare_need_outcome(st, s->linears == 1));
    const uint64_t wanted = s->fresh ? windows_for(settled, s) : 0;
    if (wanted && settled->windows && wanted > settled->windows)
        (void)snprintf(windows, sizeof windows, "%smore text: at least %llu tokens",
                       kept ? "statistics of " : "", (unsigned long long)(wanted * plan->window));
    else if (wanted)
        (void)snprintf(windows, sizeof windows, "%s%llu or more%s (windows of %zu)",
                       kept ? "statistics of " : "samples: ", (unsigned long long)wanted,
                       kept ? " samples" : "", plan->window);
    need_text(plan, s, need);
    (void)snprintf(text, PARE_SHORTAGE_TEXT, "%s needs %s, and there are %llu%s: %s; give %s",
                   pare_passes[st->pass]->name, need, (unsigned long long)s->tokens, fresh, what,
                   windows);
    return text;
}
