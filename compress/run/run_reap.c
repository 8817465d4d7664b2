/* Experts that go: a walk over the model as it was scores them block by block; then what stays is
 * copied, numbered anew, and the rows of the router with it. */
#include <stdio.h>
#include <string.h>

#include "compress/plan/calibration_need.h"
#include "compress/plan/plan_reap.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_reap.h"
#include "prune/reap.h"

/* Scores of the experts of a block while windows pass. */
typedef struct scorer {
    pare_run *run;
    pare_reap *of; /* [experts] */
} scorer;

static pare_status see(void *self, size_t expert, const pare_visit *visit, const float *y,
                       size_t rows, size_t hidden)
{
    const scorer *const s = self;
    return pare_reap_add(s->run->cx, &s->run->scratch, &s->of[expert], visit, y, rows, hidden);
}

static pare_status take_choice(pare_run *run, pare_expert_choice *c)
{
    const size_t experts = run->model.config.experts;
    *c = (pare_expert_choice){.keep = PARE_NEW(run->a, uint8_t, experts),
                              .score = PARE_NEW(run->a, double, experts),
                              .tokens = PARE_NEW(run->a, uint64_t, experts)};
    return c->keep && c->score && c->tokens ? PARE_OK : PARE_ENOMEM;
}

static double lost_share(const pare_expert_choice *c, size_t experts)
{
    double gone = 0, all = 0;
    for (size_t e = 0; e < experts; e++) {
        all += c->score[e];
        gone += c->keep[e] ? 0 : c->score[e];
    }
    return all > 0 ? gone / all : 0;
}

/* Adds to a list that holds as much as a line does. */
static void list(char text[256], const char *item)
{
    const size_t used = strlen(text);
    if (used + 40 < 256)
        (void)snprintf(text + used, 256 - used, "%s%s", used ? ", " : "", item);
    else if (text[used - 1] != '.')
        (void)snprintf(text + used, 256 - used, ", ...");
}

/* Text that repeats itself says nothing new of an expert. */
static bool is_few(const pare_run *run, uint64_t tokens)
{
    return pare_need_fresh(run->plan, &run->settled, tokens) < run->structure.least_tokens;
}

bool pare__reap_few(const pare_run *run)
{
    bool few = false;
    for (size_t b = 0; run->structure.expert && b < run->model.config.blocks; b++)
        few |= run->structure.expert[b].few > 0;
    return few;
}

/* Which experts of a block go; and of which the calibration says little. */
static void tell(pare_run *run, size_t block, const pare_expert_choice *c)
{
    const size_t experts = run->model.config.experts, blocks = run->model.config.blocks;
    const uint64_t least = run->structure.least_tokens;
    const bool all = run->settled.windows && run->settled.windows <= run->settled.samples;
    char gone[256] = "", few[256] = "", item[48];
    for (size_t e = 0; e < experts; e++) {
        (void)snprintf(item, sizeof item, "%zu", e);
        if (!c->keep[e])
            list(gone, item);
        (void)snprintf(item, sizeof item, "%zu: %llu", e,
                       (unsigned long long)pare_need_fresh(run->plan, &run->settled, c->tokens[e]));
        if (is_few(run, c->tokens[e]))
            list(few, item);
    }
    pare__notify(run, PARE_EVENT_NOTICE,
                 "block %zu of %zu: %zu of %zu experts go, with %.2f%% of the scores (%s)",
                 block + 1, blocks, experts - run->plan->out.experts, experts,
                 100 * lost_share(c, experts), gone);
    if (c->few)
        pare__notify(run, PARE_EVENT_NOTICE,
                     "warning: block %zu of %zu: %zu of %zu experts %s fewer than %llu new token%s "
                     "of the calibration (%s); what they add is hardly known: give %s",
                     block + 1, blocks, c->few, experts, c->few == 1 ? "gets" : "get",
                     (unsigned long long)least, pare_plural(least), few,
                     all ? "more text" : "more text or samples");
}

static pare_status choose_block(pare_run *run, size_t block, pare_expert_choice *c)
{
    const pare_config *const m = &run->model.config;
    scorer s = {run, PARE_NEW(&run->scratch, pare_reap, m->experts)};
    const pare_tap tap = {.see_expert = see, .self = &s, .last = PARE_SITES};
    if (!s.of)
        return PARE_ENOMEM;
    PARE_TRY(pare_ctx_interrupted(run->cx));
    PARE_TRY(pare__run_load(run, block));
    PARE_TRY(pare__run_wave(run, &tap, "scoring experts"));
    if (!run->shape.experts)
        return PARE_OK;
    PARE_TRY(take_choice(run, c));
    for (size_t e = 0; e < m->experts; e++) {
        c->tokens[e] = s.of[e].tokens;
        c->few += is_few(run, c->tokens[e]);
        c->score[e] = pare_plan_reaps_by_tokens(run->plan) ? (double)s.of[e].tokens
                                                           : pare_reap_score(&s.of[e]);
    }
    const pare_status chosen = pare_reap_choose(run->cx, &run->scratch, c->score, m->experts,
                                                m->expert_groups, run->plan->out.experts, c->keep);
    if (chosen != PARE_OK)
        return pare_fail_context(run->cx, chosen, "reap: experts of block %zu", block);
    tell(run, block, c);
    return PARE_OK;
}

static void tell_step(const pare_run *run, size_t block)
{
    char step[96];
    (void)snprintf(step, sizeof step, "experts of block %zu of %zu", block + 1,
                   run->model.config.blocks);
    pare_ctx_step(run->cx, PARE__PHASE_PRUNE, step);
}

pare_status pare__reap_choose(pare_run *run)
{
    const size_t blocks = run->model.config.blocks;
    pare_expert_choice *const choice = PARE_NEW(run->a, pare_expert_choice, blocks);
    if (!choice)
        return PARE_ENOMEM;
    run->structure.expert = choice;
    run->structure.least_tokens = pare_need_of_reap(run->plan);
    for (size_t b = 0; b < blocks; b++) {
        const pare_mark mark = pare_arena_mark(&run->scratch);
        tell_step(run, b);
        const pare_status s = choose_block(run, b, &choice[b]);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
    }
    return PARE_OK;
}

void pare__reap_cut(const pare_run *run, size_t block, pare_cut_result *out)
{
    const size_t experts = run->model.config.experts;
    *out = (pare_cut_result){.part = PARE_PART_EXPERTS,
                             .before = experts,
                             .after = run->plan->out.experts,
                             .lost = lost_share(&run->structure.expert[block], experts),
                             .output_error = -1.0};
}

/* Which expert of the model comes to be number `to` of a block. */
static size_t source_of(const pare_run *run, size_t block, size_t to)
{
    const uint8_t *const keep = run->structure.expert[block].keep;
    size_t e = 0;
    for (size_t left = to + 1; left > 0; e++)
        left -= keep[e] != 0;
    return e - 1;
}

const pare_tensor *pare__reap_source(const pare_run *run, const char *name)
{
    const pare_arch *const arch = run->model.config.arch;
    size_t block, expert;
    const char *rest;
    char source[1024];
    if (!pare_plan_reaps(run->plan) || !pare_arch_expert(arch, name, &block, &expert, &rest) ||
        !run->structure.expert[block].keep)
        return pare_checkpoint_find(&run->checkpoint, name);
    const size_t len = pare_arch_name_in(arch, block, source_of(run, block, expert) + 1, rest,
                                         source, sizeof source);
    return len ? pare_checkpoint_find(&run->checkpoint, source) : NULL;
}

static const pare_tensor *whole_of(const pare_run *run, const char *name)
{
    for (size_t i = 0; i < run->checkpoint.stacks; i++)
        if (strcmp(run->checkpoint.stack[i].name, name) == 0)
            return &run->checkpoint.stack[i];
    return pare_checkpoint_find(&run->checkpoint, name);
}

pare_status pare__reap_put(pare_run *run, const pare_packed_entry *e, uint8_t hash[16], bool *done)
{
    size_t block;
    *done = pare_plan_reaps(run->plan) && pare_plan_has_pieces(run->plan, e->tensor.name, &block);
    if (!*done)
        return PARE_OK;
    const pare_tensor *const from = whole_of(run, e->tensor.name);
    const uint64_t piece = e->tensor.bytes / e->tensor.shape[0];
    pare_xxh3_state state;
    pare_xxh3_begin(&state);
    for (size_t i = 0; i < run->plan->out.experts; i++) {
        const char *const data = (const char *)from->data + source_of(run, block, i) * piece;
        PARE_TRY(pare_ctx_interrupted(run->cx));
        pare_xxh3_add(&state, data, (size_t)piece);
        PARE_TRY(pare__run_put_part(run, e, i * piece, piece, data));
    }
    pare_xxh3_end(&state, hash);
    return PARE_OK;
}
