#include <stdio.h>

#include "compress/cli/choice_file.h"
#include "compress/cli/cli.h"
#include "compress/evaluate/choice_items.h"
#include "compress/report/units.h"
#include "formats/packed.h"

/* Everything one run measured. */
typedef struct figures {
    const char *model;
    size_t tokens, window; /* window 0: no text was scored */
    pare_eval_result text;
    const char *choice_file[PARE_ARGS_MAX];
    pare_choice_result choice[PARE_ARGS_MAX];
    size_t choices;
    bool has_speed;
    pare_speed_result speed;
    uint64_t weight_bytes, peak_rss_bytes;
    double bits_per_weight;
    const pare_model *weights; /* the model measured */
    bool checked;              /* its checksums were, and those of the baseline */
} figures;

static uint64_t plane_bytes(const pare_checkpoint *ck, const char *name, const char *plane)
{
    char full[1024];
    const int n = snprintf(full, sizeof full, "%s.%s", name, plane);
    const pare_tensor *const t =
        n > 0 && (size_t)n < sizeof full ? pare_checkpoint_find(ck, full) : NULL;
    return t ? t->bytes : 0;
}

/* Bits per weight of the packed linears, every plane counted; of all linears of the blocks when
 * none is packed. */
static double bits_per_weight(const pare_loaded *l)
{
    double packed_bytes = 0, packed_weights = 0, dense_bits = 0, dense_weights = 0;
    for (size_t b = 0; b < l->model.config.blocks; b++)
        for (size_t i = 0; i < pare_block_parts(&l->model.config) * PARE_ROLES; i++) {
            const pare_linear *const w =
                pare_block_linear(&l->model.block[b], i / PARE_ROLES, (pare_role)(i % PARE_ROLES));
            const double weights = (double)w->n * (double)w->k;
            if (!w->name)
                continue;
            if (w->bits == 0 && plane_bytes(&l->checkpoint, w->name, "values") == 0) {
                dense_bits += weights * pare_dtype_bits(w->dtype);
                dense_weights += weights;
                continue;
            }
            for (pare_plane p = 0; p < PARE_PLANES; p++)
                packed_bytes +=
                    (double)plane_bytes(&l->checkpoint, w->name, pare_packed_plane_name(p));
            packed_weights += weights;
        }
    return packed_weights > 0 ? packed_bytes * 8 / packed_weights : dense_bits / dense_weights;
}

static void measure_memory(const pare_loaded *l, figures *f)
{
    for (size_t i = 0; i < l->checkpoint.tensors; i++)
        f->weight_bytes += l->checkpoint.tensor[i].bytes;
    f->bits_per_weight = bits_per_weight(l);
    f->peak_rss_bytes = pare_cli_peak_rss();
}

/* window and stride against the model, before anything is read or run. */
static pare_status read_windows(pare_cli *cli, const pare_args *args, const pare_config *c,
                                pare_eval_opts *opts)
{
    pare_ctx *const cx = &cli->cx;
    uint64_t window = c->context < 2048 ? c->context : 2048, stride = 0;
    PARE_TRY(pare_args_count(cx, args, "window", 2, c->context, &window));
    PARE_TRY(pare_args_count(cx, args, "stride", 1, window - 1, &stride));
    *opts = (pare_eval_opts){.window = (size_t)window, .stride = (size_t)stride};
    return PARE_OK;
}

static pare_status check_options(pare_cli *cli, const pare_args *args)
{
    pare_ctx *const cx = &cli->cx;
    const bool text = pare_args_given(args, "text"), tokens = pare_args_given(args, "tokens");
    if (text && tokens)
        return pare_fail(cx, PARE_EUSAGE, "eval: --text and --tokens exclude each other");
    if (!text && !tokens && !pare_args_given(args, "choice") && !pare_args_given(args, "speed"))
        return pare_fail(cx, PARE_EUSAGE,
                         "eval: nothing to measure; give --text, --tokens, --choice or --speed");
    static const char *const of_text[] = {"window", "stride", "bos", "baseline"};
    for (size_t i = 0; i < sizeof of_text / sizeof *of_text; i++)
        if (!text && !tokens && pare_args_given(args, of_text[i]))
            return pare_fail(cx, PARE_EUSAGE, "eval: --%s needs --text or --tokens", of_text[i]);
    if (tokens && pare_args_given(args, "bos"))
        return pare_fail(cx, PARE_EUSAGE, "eval: --bos needs --text; tokens are used as they are");
    return PARE_OK;
}

/* What the user can change about the data is told as such. */
static pare_status check_data(pare_cli *cli, const pare_args *args, const pare_eval_opts *opts,
                              size_t tokens)
{
    const char *const text = pare_args_text(args, "text");
    if (tokens >= opts->window)
        return PARE_OK;
    return pare_fail(&cli->cx, PARE_EUSAGE,
                     "%s has %zu tokens, fewer than one window of %zu; give a smaller --window",
                     text ? text : pare_args_text(args, "tokens"), tokens, opts->window);
}

static pare_status check_baseline(pare_cli *cli, const pare_args *args, const pare_config *c,
                                  const pare_config *base, const pare_eval_opts *opts)
{
    const char *const path = pare_args_text(args, "baseline");
    if (base->vocab != c->vocab)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "--baseline %s: its vocabulary has %zu tokens, the model's %zu", path,
                         base->vocab, c->vocab);
    if (base->context < opts->window)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "--baseline %s: its context is %zu tokens; give a smaller --window than "
                         "%zu",
                         path, base->context, opts->window);
    return PARE_OK;
}

static pare_status measure_text(pare_cli *cli, const pare_args *args, const pare_loaded *l,
                                const pare_loaded *baseline, figures *f)
{
    pare_eval_opts opts;
    pare_tokens tokens;
    PARE_TRY(read_windows(cli, args, &l->model.config, &opts));
    if (baseline)
        PARE_TRY(check_baseline(cli, args, &l->model.config, &baseline->model.config, &opts));
    if (pare_args_given(args, "text"))
        PARE_TRY(pare_loaded_text(cli, l, pare_args_text(args, "text"),
                                  pare_args_given(args, "bos"), &tokens));
    else
        PARE_TRY(pare_tokens_read(&cli->cx, &cli->arena, pare_args_text(args, "tokens"),
                                  l->model.config.vocab, &tokens));
    PARE_TRY(check_data(cli, args, &opts, tokens.count));
    f->window = opts.window;
    PARE_TRY(pare_evaluate(&cli->cx, &l->forward, baseline ? &baseline->forward : NULL, &opts,
                           tokens.id, tokens.count, &f->text));
    f->tokens = f->text.scored;
    return PARE_OK;
}

static pare_status measure(pare_cli *cli, const pare_args *args, const pare_loaded *l,
                           const pare_loaded *baseline, figures *f)
{
    if (pare_args_given(args, "text") || pare_args_given(args, "tokens"))
        PARE_TRY(measure_text(cli, args, l, baseline, f));
    f->choices = pare_args_texts(args, "choice", f->choice_file);
    for (size_t i = 0; i < f->choices; i++)
        PARE_TRY(pare_choice_measure(cli, l, f->choice_file[i], &f->choice[i]));
    f->has_speed = pare_args_given(args, "speed");
    if (f->has_speed)
        PARE_TRY(pare_evaluate_speed(&cli->cx, &l->forward, &f->speed));
    measure_memory(l, f);
    return PARE_OK;
}

static void put_text_figures(pare_json_writer *w, const figures *f)
{
    pare_json_put_integer(w, "tokens", (int64_t)f->tokens);
    pare_json_put_integer(w, "window", (int64_t)f->window);
    pare_json_open_object(w, "perplexity");
    pare_json_put_finite(w, "nll", f->text.nll);
    pare_json_put_finite(w, "ppl", f->text.ppl);
    pare_json_put_finite(w, "stderr", f->text.ppl_stderr);
    pare_json_close(w);
    if (!f->text.has_kl)
        return;
    pare_json_open_object(w, "kl");
    pare_json_put_finite(w, "mean", f->text.kl_mean);
    pare_json_put_finite(w, "p99", f->text.kl_p99);
    pare_json_put_finite(w, "top1_agreement", f->text.top1);
    pare_json_close(w);
}

static void put_other_figures(pare_json_writer *w, const figures *f)
{
    if (f->choices) {
        pare_json_open_array(w, "choice");
        for (size_t i = 0; i < f->choices; i++) {
            pare_json_open_object(w, NULL);
            pare_json_put_text(w, "file", f->choice_file[i]);
            pare_json_put_number(w, "accuracy", f->choice[i].accuracy);
            pare_json_put_number(w, "accuracy_norm", f->choice[i].accuracy_norm);
            pare_json_put_integer(w, "n", (int64_t)f->choice[i].n);
            pare_json_close(w);
        }
        pare_json_close(w);
    }
    if (f->has_speed) {
        pare_json_open_object(w, "speed");
        pare_json_put_finite(w, "prefill_tok_s", f->speed.prefill_tok_s);
        pare_json_put_finite(w, "decode_tok_s", f->speed.decode_tok_s);
        pare_json_put_finite(w, "ttft_ms", f->speed.ttft_ms);
        pare_json_put_finite(w, "tpot_ms", f->speed.tpot_ms);
        pare_json_put_integer(w, "threads", (int64_t)f->speed.threads);
        pare_json_close(w);
    }
    pare_json_open_object(w, "memory");
    pare_json_put_integer(w, "weight_bytes", (int64_t)f->weight_bytes);
    pare_json_put_finite(w, "bits_per_weight", f->bits_per_weight);
    pare_json_put_integer(w, "peak_rss_bytes", (int64_t)f->peak_rss_bytes);
    pare_json_close(w);
    pare_json_put_kv(w, &f->weights->config, &f->weights->kv);
}

/* What was not asked for is absent. */
static pare_status print_json(pare_cli *cli, const figures *f)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "model", f->model);
    pare_json_put_bool(w, "checked", f->checked);
    if (f->window)
        put_text_figures(w, f);
    put_other_figures(w, f);
    pare_json_close(w);
    return pare_cli_print(w);
}

static void print_text(const figures *f)
{
    char bytes[PARE_UNIT_TEXT], cache[PARE_KV_TEXT];
    (void)printf("model             %s\n", f->model);
    if (f->window) {
        (void)printf(
            "perplexity        %.4f +- %.4f   (%.6f nats, %zu tokens scored, window %zu)\n",
            f->text.ppl, f->text.ppl_stderr, f->text.nll, f->tokens, f->window);
        if (f->text.has_kl)
            (void)printf("KL to baseline    %.6f mean, %.6f p99; same first choice %.2f%%\n",
                         f->text.kl_mean, f->text.kl_p99, f->text.top1 * 100);
    }
    for (size_t i = 0; i < f->choices; i++)
        (void)printf("choice            %.2f%%, per byte %.2f%%   (%s, %zu item%s)\n",
                     f->choice[i].accuracy * 100, f->choice[i].accuracy_norm * 100,
                     f->choice_file[i], f->choice[i].n, f->choice[i].n == 1 ? "" : "s");
    if (f->has_speed)
        (void)printf(
            "speed             prefill %.1f tok/s, decode %.1f tok/s   (%zu threads; first "
            "token %.1f ms, then %.2f ms)\n",
            f->speed.prefill_tok_s, f->speed.decode_tok_s, f->speed.threads, f->speed.ttft_ms,
            f->speed.tpot_ms);
    (void)printf("weights           %s, %.3f bits per weight in the linears\n",
                 pare_units_bytes(f->weight_bytes, bytes), f->bits_per_weight);
    pare_kv_text(&f->weights->config, &f->weights->kv, cache);
    (void)printf("KV cache          %s\n", cache);
    (void)printf("peak memory       %s\n", pare_units_bytes(f->peak_rss_bytes, bytes));
}

/* Files that are measured on. */
static pare_status watch_data(pare_cli *cli, const pare_args *args, pare_loaded *l)
{
    const char *const text = pare_args_text(args, "text"), *choice[PARE_ARGS_MAX];
    const char *const path = text ? text : pare_args_text(args, "tokens");
    if (path)
        PARE_TRY(pare_loaded_watch(cli, l, path));
    const size_t choices = pare_args_texts(args, "choice", choice);
    for (size_t i = 0; i < choices; i++)
        PARE_TRY(pare_choice_watch(&cli->arena, &l->checkpoint.watch, choice[i]));
    return PARE_OK;
}

pare_status pare_eval_run(pare_cli *cli, const pare_args *args)
{
    figures f = {.model = args->operand[0]};
    const char *const other = pare_args_text(args, "baseline");
    pare_loaded model = {0}, baseline = {0};
    PARE_TRY(check_options(cli, args));
    PARE_TRY(pare_cli_threads(cli, args));
    const bool exact = pare_args_given(args, "exact");
    pare_status s = pare_loaded_open(cli, args, f.model, exact, &model);
    f.weights = &model.model;
    if (s == PARE_OK)
        s = pare_loaded_kv(cli, args, &model);
    if (s == PARE_OK && other)
        s = pare_loaded_open(cli, args, other, exact, &baseline);
    if (s == PARE_OK)
        s = watch_data(cli, args, &model);
    if (s == PARE_OK)
        s = measure(cli, args, &model, other ? &baseline : NULL, &f);
    if (s == PARE_OK)
        s = pare_loaded_unchanged(cli, &model);
    if (s == PARE_OK && other)
        s = pare_loaded_unchanged(cli, &baseline);
    f.checked = model.checked && (!other || baseline.checked);
    pare_loaded_close(&baseline);
    pare_loaded_close(&model);
    PARE_TRY(s);
    if (cli->json)
        return print_json(cli, &f);
    print_text(&f);
    return PARE_OK;
}
