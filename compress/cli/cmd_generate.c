#include <stdio.h>
#include <string.h>

#include "compress/cli/cli.h"
#include "compress/cli/output_file.h"
#include "compress/output/lock.h"
#include "runtime/file.h"
#include "runtime/sample.h"
#include "runtime/small.h"

/* Sequences in one batch: enough to keep the cores busy, few enough for the key/value cache. */
enum { BATCH = 16, COUNT_MAX = 1 << 20 };

typedef struct request {
    pare_generate_opts opts;
    pare_sample_filter filter;
    size_t count, prompt; /* sequences; tokens of the prompt */
    const int32_t *start; /* [prompt] */
    size_t lead;          /* tokens in front that nobody wrote: they are not shown */
    const char *output;   /* or NULL */
    bool tokens_out;      /* FILE.i32 */
    bool restart;         /* a file there is replaced */
} request;

/* The token that starts a sequence without a prompt: BOS, else the first end token. */
static pare_status start_token(pare_cli *cli, const pare_config *c, const pare_tokenizer *t,
                               int32_t *out)
{
    int64_t id = t ? pare_tokenizer_bos(t) : -1;
    if (id < 0)
        id = c->bos_id;
    if (id < 0 && c->eos_ids)
        id = c->eos_id[0];
    if (id < 0 || (uint64_t)id >= c->vocab)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "generate: the model names no start token; give --prompt");
    *out = (int32_t)id;
    return PARE_OK;
}

/* A prompt made by a chat template has the tokens in front of it already. */
static bool begins_with(const int32_t *ids, size_t count, const pare_tok_around *around)
{
    return count >= around->fronts && memcmp(ids, around->front, around->fronts * sizeof *ids) == 0;
}

static pare_status read_prompt(pare_cli *cli, const pare_args *args, const pare_config *c,
                               const pare_tokenizer *t, request *r)
{
    const char *const text = pare_args_text(args, "prompt");
    int32_t *ids = NULL, *start;
    size_t count = 0;
    if (text && *text)
        PARE_TRY(pare_tokenizer_encode(&cli->cx, t, &cli->arena, text, strlen(text), &ids, &count));
    const pare_tok_around *const around = count ? pare_tokenizer_around(t) : NULL;
    const size_t behind = around ? around->behinds : 0;
    r->lead = !around ? 1 : begins_with(ids, count, around) ? 0 : around->fronts;
    r->prompt = r->lead + count + behind;
    r->start = start = PARE_NEW(&cli->arena, int32_t, r->prompt);
    if (!start)
        return PARE_ENOMEM;
    if (!around)
        PARE_TRY(start_token(cli, c, t, start));
    for (size_t i = 0; around && i < r->lead; i++)
        start[i] = around->front[i];
    if (count)
        memcpy(start + r->lead, ids, count * sizeof *ids);
    for (size_t i = 0; i < behind; i++)
        start[r->lead + count + i] = around->behind[i];
    if (r->prompt >= c->context)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "generate: the prompt has %zu tokens, the model's context is %zu",
                         r->prompt, c->context);
    return PARE_OK;
}

static pare_status read_filter(pare_ctx *cx, const pare_args *args, request *r)
{
    static const char *const drawn[] = {"top-k", "top-p", "min-p"};
    uint64_t k = 0;
    bool given = pare_args_given(args, "repetition-penalty");
    PARE_TRY(pare_args_number(cx, args, "repetition-penalty", 0.01, 100, &r->filter.repetition));
    PARE_TRY(pare_args_count(cx, args, "top-k", 1, UINT32_MAX, &k));
    PARE_TRY(pare_args_number(cx, args, "top-p", 1e-6, 1, &r->filter.top_p));
    PARE_TRY(pare_args_number(cx, args, "min-p", 0, 1, &r->filter.min_p));
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) {
        if (pare_args_given(args, drawn[i]) && r->opts.temperature <= 0)
            return pare_fail(cx, PARE_EUSAGE,
                             "generate: --%s chooses among tokens, and --temperature 0 takes the "
                             "most likely one; give a temperature above 0, or leave one of both "
                             "out",
                             drawn[i]);
        given |= pare_args_given(args, drawn[i]);
    }
    r->filter.top_k = (size_t)k;
    r->opts.filter = given ? &r->filter : NULL;
    return PARE_OK;
}

static pare_status read_request(pare_cli *cli, const pare_args *args, const pare_config *c,
                                request *r)
{
    pare_ctx *const cx = &cli->cx;
    const size_t room = c->context - r->prompt;
    uint64_t tokens = room < 128 ? room : 128, count = 1;
    r->opts.temperature = 1;
    PARE_TRY(pare_args_count(cx, args, "tokens", 1, UINT32_MAX, &tokens));
    if (tokens > room)
        return pare_fail(
            cx, PARE_EUSAGE,
            "--tokens %llu: the context of %s is %zu tokens, of which the prompt takes "
            "%zu; give %zu or less",
            (unsigned long long)tokens, args->operand[0], c->context, r->prompt, room);
    PARE_TRY(pare_args_count(cx, args, "count", 1, COUNT_MAX, &count));
    PARE_TRY(pare_args_count(cx, args, "seed", 0, INT64_MAX, &r->opts.seed));
    PARE_TRY(pare_args_number(cx, args, "temperature", 0, 1000, &r->opts.temperature));
    PARE_TRY(read_filter(cx, args, r));
    r->count = (size_t)count;
    r->opts.length = r->prompt + (size_t)tokens;
    r->opts.stop_at_eos = !r->output;
    return PARE_OK;
}

/* Tokens to show: without a start token nobody wrote, and up to the end token if that ends it. */
static const int32_t *shown(const request *r, const pare_config *c, const int32_t *sequence,
                            size_t *count)
{
    size_t end = r->opts.length;
    for (size_t i = r->prompt; r->opts.stop_at_eos && i < end; i++)
        if (pare_is_end(c, sequence[i]))
            end = i;
    *count = end - r->lead;
    return sequence + r->lead;
}

/* What the file of all texts will have, by the first ones: a disk without room for it is no place
 * to draw for, as all would be lost at the end. Of tokens it is known before. */
static pare_status check_room(pare_cli *cli, pare_arena *scratch, const pare_loaded *l,
                              const request *r, const int32_t *tokens, size_t drawn)
{
    size_t bytes = 0, count, len;
    char *text;
    if (!r->output || r->tokens_out)
        return PARE_OK;
    for (size_t i = 0; i < drawn; i++) {
        const int32_t *const ids = shown(r, &l->model.config, tokens + i * r->opts.length, &count);
        PARE_TRY(pare_tokenizer_decode(&cli->cx, l->tokenizer, scratch, ids, count, &text, &len));
        bytes += len + 1;
    }
    return pare_output_file_room(cli, "generate", r->output,
                                 (uint64_t)((double)bytes / (double)drawn * (double)r->count));
}

static pare_status draw(pare_cli *cli, const pare_loaded *l, const request *r, int32_t *tokens)
{
    pare_arena scratch;
    pare_status s = pare_arena_init(&cli->cx, &scratch, 0);
    for (size_t i = 0; i < r->count; i++)
        memcpy(tokens + i * r->opts.length, r->start, r->prompt * sizeof *tokens);
    for (size_t i = 0; i < r->count && s == PARE_OK; i += BATCH) {
        pare_generate_opts opts = r->opts;
        opts.first = i;
        opts.sequences = r->count - i < BATCH ? r->count - i : BATCH;
        pare_ctx_progress(&cli->cx, "drawing sequences", (double)i, (double)r->count);
        const pare_mark mark = pare_arena_mark(&scratch);
        s = pare_generate(&cli->cx, &scratch, &l->forward, &opts, r->prompt,
                          tokens + i * r->opts.length, NULL, NULL);
        if (s == PARE_OK && i == 0)
            s = check_room(cli, &scratch, l, r, tokens, opts.sequences);
        pare_arena_rewind(&scratch, mark);
    }
    pare_arena_release(&scratch);
    return s;
}

/* The text of each sequence. */
static pare_status decode_texts(pare_cli *cli, const pare_config *c, const pare_tokenizer *t,
                                const request *r, const int32_t *tokens, char **text, size_t *len)
{
    size_t count;
    for (size_t i = 0; i < r->count; i++) {
        const int32_t *const ids = shown(r, c, tokens + i * r->opts.length, &count);
        PARE_TRY(pare_tokenizer_decode(&cli->cx, t, &cli->arena, ids, count, &text[i], &len[i]));
    }
    return PARE_OK;
}

/* All texts, one after the other, each with a newline behind. */
static pare_status join_texts(pare_cli *cli, const request *r, char *const *text, const size_t *len,
                              char **out, size_t *out_len)
{
    size_t total = 0, at = 0;
    for (size_t i = 0; i < r->count; i++)
        total += len[i] + 1;
    char *const all = PARE_NEW(&cli->arena, char, total + 1); /* NUL behind */
    if (!all)
        return PARE_ENOMEM;
    for (size_t i = 0; i < r->count; i++) {
        memcpy(all + at, text[i], len[i]);
        at += len[i];
        all[at++] = '\n';
    }
    *out = all;
    *out_len = total;
    return PARE_OK;
}

static pare_status print_json(pare_cli *cli, const char *path, const pare_loaded *l,
                              const request *r, char *const *text)
{
    const pare_ran_on on = pare_loaded_ran_on(cli, l);
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "model", path);
    pare_json_put_bool(w, "checked", l->checked);
    pare_json_put_integer(w, "count", (int64_t)r->count);
    pare_json_put_integer(w, "length", (int64_t)r->opts.length);
    pare_json_put_integer(w, "seed", (int64_t)r->opts.seed);
    pare_json_put_number(w, "temperature", r->opts.temperature);
    if (r->output)
        pare_json_put_text(w, "output", r->output);
    pare_json_open_array(w, "texts");
    for (size_t i = 0; text && i < r->count; i++)
        pare_json_put_text(w, NULL, text[i]);
    pare_json_close(w);
    pare_json_put_kv(w, &l->model.config, &l->model.kv);
    pare_json_put_ran_on(w, &on);
    pare_json_close(w);
    return pare_cli_print(w);
}

static pare_status deliver(pare_cli *cli, const char *path, const pare_loaded *l,
                           const pare_tokenizer *t, const request *r, const int32_t *tokens)
{
    const pare_model *const model = &l->model;
    char cache[PARE_KV_TEXT], *all = NULL;
    char **const text = PARE_NEW(&cli->arena, char *, r->count);
    size_t *const lengths = PARE_NEW(&cli->arena, size_t, r->count), len = 0;
    if (!text || !lengths)
        return PARE_ENOMEM;
    if (r->tokens_out) {
        PARE_TRY(pare_output_file_tokens(cli, "generate", r->output, r->restart, tokens,
                                         r->count * r->opts.length));
    } else {
        PARE_TRY(decode_texts(cli, &model->config, t, r, tokens, text, lengths));
        PARE_TRY(join_texts(cli, r, text, lengths, &all, &len));
        if (r->output)
            PARE_TRY(
                pare_output_file_write(cli, "generate", r->output, false, r->restart, all, len));
    }
    if (cli->json)
        return print_json(cli, path, l, r, r->output ? NULL : text);
    pare_kv_text(&model->config, &model->kv, cache);
    if (r->output)
        (void)printf("%s: %zu sequence%s of %zu token%s; KV cache: %s\n", r->output, r->count,
                     pare_plural(r->count), r->opts.length, pare_plural(r->opts.length), cache);
    else
        (void)fwrite(all, 1, len, stdout);
    return PARE_OK;
}

static pare_status generate(pare_cli *cli, const pare_args *args, pare_loaded *l,
                            const pare_tokenizer *t, request *r)
{
    const pare_config *const c = &l->model.config;
    size_t total;
    PARE_TRY(read_prompt(cli, args, c, t, r));
    PARE_TRY(read_request(cli, args, c, r));
    if (__builtin_mul_overflow(r->count, r->opts.length, &total))
        return pare_fail(&cli->cx, PARE_ENOMEM, "generate: too many tokens");
    if (r->tokens_out)
        PARE_TRY(pare_output_file_room(cli, "generate", r->output, 4 * (uint64_t)total));
    int32_t *const tokens = PARE_NEW(&cli->arena, int32_t, total);
    if (!tokens)
        return PARE_ENOMEM;
    pare_status s;
    do
        s = draw(cli, l, r, tokens);
    while (pare_loaded_leave_device(cli, s, l, NULL));
    PARE_TRY(s);
    PARE_TRY(pare_loaded_unchanged(cli, l));
    return deliver(cli, args->operand[0], l, t, r, tokens);
}

/* Before the sampling, which can take long: a place for the file. */
static pare_status check_place(pare_cli *cli, const char *model, const request *r)
{
    if (!r->tokens_out && !pare_ends_with(r->output, ".txt"))
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "generate: --output \"%s\" must end in .txt or .i32", r->output);
    return pare_output_file_place(cli, "generate", model, r->output);
}

static pare_status take_output(pare_cli *cli, const pare_args *args, const request *r,
                               pare_lock *lock)
{
    const pare_teller teller = {pare_cli_tell, cli};
    bool there;
    PARE_TRY(check_place(cli, args->operand[0], r));
    PARE_TRY(pare_lock_take(&cli->cx, &cli->arena, r->output, "generate", &teller, lock));
    return pare_output_file_fits(cli, "generate", r->output, r->tokens_out, r->restart, &there);
}

pare_status pare_generate_run(pare_cli *cli, const pare_args *args)
{
    request r = {.output = pare_args_text(args, "output"),
                 .restart = pare_args_given(args, "restart")};
    pare_loaded model = {0};
    const char *const prompt = pare_args_text(args, "prompt");
    r.tokens_out = r.output && pare_ends_with(r.output, ".i32");
    const bool text = !r.tokens_out || (prompt && *prompt);
    pare_lock lock = {0};
    pare_status s = r.output ? take_output(cli, args, &r, &lock) : PARE_OK;
    if (s == PARE_OK)
        s = pare_cli_threads(cli);
    if (s == PARE_OK)
        s = pare_cli_device(cli, args);
    if (s == PARE_OK)
        s = pare_loaded_open(cli, args, args->operand[0], false, text, &model);
    if (s == PARE_OK)
        s = pare_loaded_kv(cli, args, &model);
    if (s == PARE_OK)
        s = pare_loaded_device(cli, &model);
    if (s == PARE_OK)
        s = generate(cli, args, &model, model.tokenizer, &r);
    pare_loaded_close(&model);
    pare_lock_release(&lock);
    return s;
}
