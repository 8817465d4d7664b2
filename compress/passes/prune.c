#include "compress/passes/prune.h"

#include "compress/passes/quantize.h"
#include "prune/wanda.h"

const pare_word pare_prune_share[] = {{"auto", 0}, {NULL, 0}};
const pare_word pare_prune_patterns[] = {{"unstructured", 0}, {NULL, 0}};
const pare_word pare_prune_compare[] = {
    {"layer", PARE_COMPARE_LAYER}, {"row", PARE_COMPARE_ROW}, {NULL, 0}};
const pare_word pare_prune_ties[] = {{"first", 0}, {"random", 1}, {NULL, 0}};

const pare_word pare_prune_rules[] = {{"uniform", PARE_RATIOS_UNIFORM},
                                      {"owl", PARE_RATIOS_OWL},
                                      {"isc", PARE_RATIOS_ISC},
                                      {"search", PARE_RATIOS_SEARCH},
                                      {NULL, 0}};

pare_status pare_prune_rule(pare_ctx *cx, const double *value, double compare, pare_sparsity *out)
{
    const double pattern = value[PARE_PRUNE_PATTERN], share = value[PARE_PRUNE_SPARSITY];
    out->random_ties = value[PARE_PRUNE_TIES] != 0;
    out->tie_width = out->random_ties ? value[PARE_PRUNE_TIE_WIDTH] : 0;
    if (pattern == 0) {
        out->ratio = share > 0 ? share : 0.5;
        out->by_row = value[PARE_PRUNE_COMPARE] == (double)PARE_COMPARE_ROW;
        return PARE_OK;
    }
    out->keep = pare_pattern_keep(pattern);
    out->of = pare_pattern_of(pattern);
    if (share > 0)
        return pare_fail(cx, PARE_EINVAL,
                         "pattern %u:%u says how many weights go; leave out sparsity", out->keep,
                         out->of);
    if (value[PARE_PRUNE_COMPARE] != compare)
        return pare_fail(cx, PARE_EINVAL,
                         "pattern %u:%u compares groups of %u inputs; leave out compare", out->keep,
                         out->of, out->of);
    return PARE_OK;
}

const char *pare_ratio_rule_name(pare_ratio_rule rule)
{
    return pare_prune_rules[rule].text;
}

pare_pass_ratios pare_prune_ratios(const double *value)
{
    return (pare_pass_ratios){.rule = (pare_ratio_rule)value[PARE_PRUNE_RULE],
                              .spread = value[PARE_PRUNE_SPREAD],
                              .outlier = value[PARE_PRUNE_OUTLIER]};
}

pare_status pare_prune_check_ratios(pare_ctx *cx, const double *value, const pare_sparsity *s)
{
    const pare_pass_ratios r = pare_prune_ratios(value);
    const char *const rule = pare_prune_rules[r.rule].text;
    if (r.rule == PARE_RATIOS_UNIFORM)
        return PARE_OK;
    if (s->of)
        return pare_fail(cx, PARE_EINVAL,
                         "pattern %u:%u takes the same share of every linear; leave out ratios: "
                         "%s, or the pattern",
                         s->keep, s->of, rule);
    if (s->ratio - r.spread <= 0 || s->ratio + r.spread >= 1)
        return pare_fail(cx, PARE_EINVAL,
                         "ratios: %s takes sparsity %g - spread %g to sparsity + spread, and that "
                         "must lie between 0 and 1; lower spread (%g unless given)",
                         rule, s->ratio, r.spread, PARE_PRUNE_SPREAD_USUAL);
    return PARE_OK;
}

size_t pare_prune_bytes(size_t n, size_t k, size_t threads)
{
    return n * k * 5 + n * 8 + k * 4 + threads * 16384 + 4096;
}

pare_status pare_prune_without_factor(pare_ctx *cx, pare_pass_linear *linear, pare_arena *scratch)
{
    float *squares;
    PARE_TRY(pare_quantize_diagonal(scratch, linear->h, linear->k, &squares));
    pare_quantize_note(linear, "no factor: scores of Wanda");
    return pare_wanda_prune(cx, scratch, linear->sparsity, squares, linear->w, linear->n,
                            linear->k);
}
