#include "compress/cli/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/artifact/inspect.h"
#include "compress/cli/measure_steps.h"
#include "compress/cli/measure_tasks.h"
#include "compress/evaluate/choice_items.h"
#include "compress/plan/same_tokens.h"
#include "formats/packed.h"

pare_status pare_measure_options(pare_cli *cli, const pare_args *args, const char *command,
                                 pare_measure *m)
{
    pare_ctx *const cx = &cli->cx;
    uint64_t limit = 0;
    *m = (pare_measure){.text = pare_args_text(args, "text"),
                        .tokens = pare_args_text(args, "tokens"),
                        .bos = pare_args_given(args, "bos"),
                        .speed = pare_args_given(args, "speed"),
                        .exact = pare_args_given(args, "exact")};
    m->choices = pare_args_texts(args, "choice", m->choice);
    if (m->text && m->tokens)
        return pare_fail(cx, PARE_EUSAGE, "%s: --text and --tokens exclude each other", command);
    PARE_TRY(pare_args_count(cx, args, "limit", 1, UINT32_MAX, &limit));
    m->limit = (size_t)limit;
    m->by = pare_args_text(args, "by");
    PARE_TRY(pare_measure_task_options(cli, args, m));
    const bool items = m->choices || m->tasks;
    if (m->by && !items)
        return pare_fail(cx, PARE_EUSAGE, "%s: --by needs --tasks or --choice", command);
    if (!m->text && !m->tokens && !items && !m->speed && !pare_args_given(args, "needle") &&
        !pare_args_given(args, "continuations") &&
        !pare_args_given(args, "draft")) /* these say themselves what they need */
        return pare_fail(cx, PARE_EUSAGE,
                         "%s: nothing to measure; give --text, --tokens, --tasks, --choice, "
                         "--needle or --speed",
                         command);
    static const char *const of_text[] = {"window", "stride", "bos", "by-position"};
    for (size_t i = 0; i < sizeof of_text / sizeof *of_text; i++)
        if (!m->text && !m->tokens && pare_args_given(args, of_text[i]))
            return pare_fail(cx, PARE_EUSAGE, "%s: --%s needs --text or --tokens", command,
                             of_text[i]);
    if (m->tokens && m->bos)
        return pare_fail(cx, PARE_EUSAGE, "%s: --bos needs --text; tokens are used as they are",
                         command);
    if (m->limit && !m->text && !m->tokens && !items)
        return pare_fail(cx, PARE_EUSAGE, "%s: --limit needs --text, --tokens, --tasks or --choice",
                         command);
    return PARE_OK;
}

pare_status pare_measure_shared(pare_cli *cli, const pare_args *args, const char *command,
                                bool draft)
{
    const bool writes = pare_args_given(args, "draft") || pare_args_given(args, "continuations");
    if (!writes && pare_args_given(args, "temperature"))
        return pare_fail(&cli->cx, PARE_EUSAGE, "%s: --temperature needs %s--continuations",
                         command, draft ? "--draft or " : "");
    if (!writes && !pare_args_given(args, "needle") && pare_args_given(args, "seed"))
        return pare_fail(&cli->cx, PARE_EUSAGE, "%s: --seed needs %s--continuations or --needle",
                         command, draft ? "--draft, " : "");
    return PARE_OK;
}

pare_status pare_measure_watch(pare_cli *cli, const pare_measure *m, pare_loaded *l)
{
    const char *const path = m->text ? m->text : m->tokens;
    if (path)
        PARE_TRY(pare_loaded_watch(cli, l, path));
    for (size_t i = 0; i < m->choices; i++)
        PARE_TRY(pare_choice_watch(&cli->arena, &l->checkpoint.watch, m->choice[i]));
    for (size_t i = 0; i < m->tasks; i++)
        PARE_TRY(pare_task_watch(&cli->arena, &l->checkpoint.watch, &m->task[i]));
    return PARE_OK;
}

/* window and stride against the model, before anything is read or run. */
static pare_status read_windows(pare_cli *cli, const pare_args *args, const pare_loaded *l,
                                pare_eval_opts *opts)
{
    pare_ctx *const cx = &cli->cx;
    const pare_config *const c = &l->model.config;
    uint64_t window = c->context < PARE_MEASURE_WINDOW ? c->context : PARE_MEASURE_WINDOW,
             stride = 0;
    PARE_TRY(pare_args_count(cx, args, "window", 2, UINT32_MAX, &window));
    if (window > c->context)
        return pare_fail(cx, PARE_EUSAGE,
                         "--window %llu: the context of %s is %zu tokens; give %zu or less",
                         (unsigned long long)window, l->checkpoint.path, c->context, c->context);
    PARE_TRY(pare_args_count(cx, args, "stride", 1, window - 1, &stride));
    *opts = (pare_eval_opts){.window = (size_t)window, .stride = (size_t)stride};
    return PARE_OK;
}

pare_status pare_measure_data(pare_cli *cli, const pare_args *args, const pare_loaded *l,
                              pare_measure *m)
{
    const pare_config *const c = &l->model.config;
    if (!m->text && !m->tokens)
        return PARE_OK;
    PARE_TRY(read_windows(cli, args, l, &m->opts));
    if (m->text)
        PARE_TRY(pare_loaded_text(cli, l, m->text, m->bos, &m->data));
    else
        PARE_TRY(pare_tokens_read(&cli->cx, &cli->arena, m->tokens, c->vocab, &m->data));
    const size_t window = m->opts.window, step = m->opts.stride ? m->opts.stride : window;
    if (m->data.count < window)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "%s has %zu token%s, fewer than one window of %zu; give %s",
                         m->text ? m->text : m->tokens, m->data.count, pare_plural(m->data.count),
                         window, m->data.count < 2 ? "another text" : "a smaller --window");
    char note[PARE_TOKENS_NOTE];
    if (pare_tokens_note(&m->data, note))
        pare_screen_say(&cli->screen, "pare: warning: %s", note);
    if (m->limit && m->limit <= (m->data.count - window) / step)
        m->data.count = window + (m->limit - 1) * step;
    return PARE_OK;
}

/* Items of a choice file in the tokens of a model. */
static pare_status read_items(pare_cli *cli, const pare_measure *m, const pare_loaded *l,
                              const char *path, pare_choice_texts *texts, pare_choice_item **item)
{
    return pare_choice_load(&cli->cx, &cli->arena, &l->checkpoint, l->model.config.context, path,
                            m->limit, m->by, texts, item);
}

pare_status pare_measure_check_choices(pare_cli *cli, const pare_measure *m, const pare_loaded *l)
{
    for (size_t i = 0; i < m->choices; i++) {
        const pare_mark mark = pare_arena_mark(&cli->arena);
        pare_choice_item *item;
        pare_choice_texts texts;
        PARE_TRY(read_items(cli, m, l, m->choice[i], &texts, &item));
        pare_arena_rewind(&cli->arena, mark);
    }
    return PARE_OK;
}

pare_status pare_measure_fits(pare_cli *cli, const pare_measure *m, const pare_config *first,
                              const char *path, const pare_config *other)
{
    if (other->vocab != first->vocab)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "%s: its vocabulary has %zu tokens, that of the other model %zu; only "
                         "models with one vocabulary can be held against each other",
                         path, other->vocab, first->vocab);
    if (other->context < m->opts.window)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "%s: its context is %zu tokens; give a smaller --window than %zu", path,
                         other->context, m->opts.window);
    return PARE_OK;
}

static pare_status fail_tokens(pare_cli *cli, const pare_loaded *first, const pare_loaded *other,
                               const char *path, size_t at)
{
    return pare_fail(&cli->cx, PARE_EUSAGE,
                     "%s: its tokenizer is another one than that of %s: token %zu of %s differs; "
                     "only models with one tokenizer can be held against each other",
                     other->checkpoint.path, first->checkpoint.path, at, path);
}

pare_status pare_measure_same_tokens(pare_cli *cli, const pare_loaded *first,
                                     const pare_loaded *other, const char *path)
{
    const pare_mark mark = pare_arena_mark(&cli->arena);
    pare_text_file f;
    pare_tokens_apart apart;
    PARE_TRY(pare_text_map(&cli->cx, &cli->arena, path, &f));
    const pare_status s = pare_text_apart(&cli->cx, &cli->arena, first->tokenizer, other->tokenizer,
                                          f.at, f.len, &apart);
    pare_file_unmap(&f.file);
    pare_arena_rewind(&cli->arena, mark);
    PARE_TRY(s);
    return apart.differ ? fail_tokens(cli, first, other, path, apart.at) : PARE_OK;
}

pare_status pare_measure_same_ids(pare_cli *cli, const pare_measure *m, const pare_loaded *first,
                                  const pare_loaded *other)
{
    pare_tokens_apart apart;
    PARE_TRY(pare_ids_apart(&cli->cx, &cli->arena, &first->checkpoint, &other->checkpoint,
                            m->data.id, m->data.count, &apart));
    return apart.differ ? fail_tokens(cli, first, other, m->tokens, apart.at) : PARE_OK;
}

/* Bits of a linear that pare did not pack: as its file has them. */
static double unpacked_bits(const pare_stored *stored, const pare_linear *w)
{
    const double weights = (double)w->n * (double)w->k;
    return stored ? 8 * (double)stored->bytes : weights * pare_dtype_bits(w->dtype);
}

/* Bits per weight of the packed linears as compress counts them: all that the index says is stored
 * for one, which leaves out biases that the model had; of all linears of the blocks when none is
 * packed. */
static pare_status count_bits(pare_cli *cli, const pare_loaded *l, double *out)
{
    const pare_checkpoint *const ck = &l->checkpoint;
    const pare_json *const linears = pare_json_get(ck->index, "linears");
    double packed_bits = 0, packed_weights = 0, bits = 0, weights = 0;
    for (size_t b = 0; b < l->model.config.blocks; b++)
        for (size_t i = 0; i < pare_block_parts(&l->model.config) * PARE_ROLES; i++) {
            const pare_linear *const w =
                pare_block_linear(&l->model.block[b], i / PARE_ROLES, (pare_role)(i % PARE_ROLES));
            const pare_json *const entry = w->name ? pare_json_get(linears, w->name) : NULL;
            if (entry) {
                pare_packed_linear p;
                PARE_TRY(pare_packed_linear_read(&cli->cx, w->name, entry, &p));
                packed_bits += 8 * (double)pare_packed_linear_bytes(&p).total;
                packed_weights += (double)w->n * (double)w->k;
            } else if (w->name) {
                bits += unpacked_bits(pare_checkpoint_stored(ck, w->name), w);
                weights += (double)w->n * (double)w->k;
            }
        }
    *out = packed_weights > 0 ? packed_bits / packed_weights : bits / weights;
    return PARE_OK;
}

pare_status pare_measure_sizes(pare_cli *cli, const pare_loaded *l, pare_figures *f)
{
    pare_inspection in;
    const pare_mark mark = pare_arena_mark(&cli->arena);
    double bits;
    PARE_TRY(count_bits(cli, l, &bits));
    PARE_TRY(pare_inspect(&cli->cx, &cli->arena, f->model, &in));
    f->disk_bytes = in.file_bytes;
    f->memory = (pare_memory_figures){.weight_bytes = in.tensor_bytes,
                                      .bits_per_weight = bits,
                                      .model_bits_per_weight = in.bits_per_weight,
                                      .mapped_bytes = in.mapped_bytes};
    pare_arena_rewind(&cli->arena, mark);
    return PARE_OK;
}

pare_status pare_measure_text(pare_cli *cli, const pare_measure *m, pare_loaded *l,
                              pare_loaded *baseline, pare_figures *f)
{
    if (!m->data.count)
        return PARE_OK;
    pare_eval_opts opts = m->opts;
    opts.model = l->checkpoint.path;
    opts.baseline = baseline ? baseline->checkpoint.path : NULL;
    pare_measure_step(cli, m, l->checkpoint.path,
                      baseline ? "perplexity and KL on " : "perplexity on ",
                      m->text ? m->text : m->tokens);
    pare_status s;
    do
        s = pare_evaluate(&cli->cx, &l->forward, baseline ? &baseline->forward : NULL, &opts,
                          m->data.id, m->data.count, &f->text);
    while (pare_loaded_leave_device(cli, s, l, baseline));
    if (f->text.scored) {
        f->window = m->opts.window;
        f->stride = m->opts.stride;
        f->text_complete = s == PARE_OK;
    }
    return s;
}

pare_status pare_measure_choice(pare_cli *cli, const pare_measure *m, pare_loaded *l,
                                pare_figures *f)
{
    pare_choice_figures *const c = &f->choice[f->choices];
    pare_choice_item *item;
    pare_choice_texts texts;
    *c = (pare_choice_figures){.file = m->choice[f->choices], .by = m->by};
    PARE_TRY(read_items(cli, m, l, c->file, &texts, &item));
    pare_measure_step(cli, m, l->checkpoint.path, "questions of ", c->file);
    pare_status s;
    do
        s = pare_choice_ask(&cli->cx, &cli->arena, &l->forward, item, texts.count, c);
    while (pare_loaded_leave_device(cli, s, l, NULL));
    if (c->result.n > 0) {
        PARE_TRY(pare_choice_part(&cli->arena, &texts, c));
        f->choices++;
    }
    return s == PARE_OK || s == PARE_EINTERRUPTED
               ? s
               : pare_fail_context(&cli->cx, s, "%s on %s", l->checkpoint.path, c->file);
}

void pare_measure_pair(const pare_figures *baseline, pare_figures *f)
{
    for (size_t i = 0; i < f->choices && i < baseline->choices; i++)
        pare_choice_pair(&baseline->choice[i], &f->choice[i]);
    for (size_t i = 0; i < f->tasks && i < baseline->tasks; i++)
        pare_task_pair(&baseline->task[i], &f->task[i]);
}

pare_status pare_measure_speed(pare_cli *cli, const pare_measure *m, pare_loaded *l,
                               pare_figures *f)
{
    if (!m->speed)
        return PARE_OK;
    pare_measure_step(cli, m, l->checkpoint.path, "speed", NULL);
    pare_status s;
    do
        s = pare_evaluate_speed(&cli->cx, &l->forward, &f->speed);
    while (pare_loaded_leave_device(cli, s, l, NULL));
    PARE_TRY(s);
    f->has_speed = true;
    return PARE_OK;
}

void pare_measure_print_share(double share, double error)
{
    (void)printf("%.2f%%", share * 100);
    if (error > 0 && isfinite(error)) /* none where all answers are alike */
        (void)printf(" +- %.2f%%", error * 100);
}

const char *pare_measure_limit_text(const pare_measure *m, char text[PARE_MEASURE_TEXT])
{
    const struct {
        bool is;
        const char *what, *of;
    } part[] = {{m->data.count > 0, "window", "the text"},
                {m->choices > 0, "item", "each choice file"},
                {m->tasks > 0, "document", "each task"}};
    size_t used = 0, left = 0;
    text[0] = '\0';
    for (size_t i = 0; i < 3; i++)
        left += part[i].is;
    if (!m->limit || !left)
        return text;
    used = (size_t)snprintf(text, PARE_MEASURE_TEXT, "first");
    if (m->limit > 1)
        used += (size_t)snprintf(text + used, PARE_MEASURE_TEXT - used, " %zu", m->limit);
    for (size_t i = 0, told = 0; i < 3; i++)
        if (part[i].is) {
            const char *const before = told == 0 ? "" : told + 1 == left ? " and" : ",";
            used += (size_t)snprintf(text + used, PARE_MEASURE_TEXT - used, "%s %s%s of %s", before,
                                     part[i].what, pare_plural(m->limit), part[i].of);
            told++;
        }
    return text;
}
