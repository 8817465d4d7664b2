#include <stdio.h>
#include <string.h>

#include "compress/cli/cli.h"
#include "compress/cli/output_file.h"
#include "compress/output/inputs.h"
#include "compress/output/lock.h"
#include "runtime/file.h"
#include "runtime/small.h"

typedef struct request {
    const char *model, *text, *file, *output; /* TEXT or the FILE of it; output: NULL for stdout */
    bool bos, restart;
    pare_tokens tokens;
} request;

static pare_status check_request(pare_cli *cli, const pare_args *args, request *r)
{
    pare_ctx *const cx = &cli->cx;
    *r = (request){.model = args->operand[0],
                   .text = args->operands > 1 ? args->operand[1] : NULL,
                   .file = pare_args_text(args, "text"),
                   .output = pare_args_text(args, "output"),
                   .bos = pare_args_given(args, "bos"),
                   .restart = pare_args_given(args, "restart")};
    if (!r->text == !r->file)
        return pare_fail(cx, PARE_EUSAGE, "tokenize: give a TEXT or --text FILE%s",
                         r->text ? ", not both" : "");
    if (r->restart && !r->output)
        return pare_fail(cx, PARE_EUSAGE, "tokenize: --restart needs --output");
    if (r->output && !pare_ends_with(r->output, ".i32"))
        return pare_fail(cx, PARE_EUSAGE, "tokenize: --output \"%s\" must end in .i32", r->output);
    return r->output ? pare_output_file_place(cli, "tokenize", r->model, r->output) : PARE_OK;
}

/* TEXT as pare_tokens_encode gives a file. */
static pare_status encode_text(pare_cli *cli, const pare_tokenizer *t, int32_t bos, request *r)
{
    const size_t len = strlen(r->text);
    int32_t *ids;
    size_t count;
    PARE_TRY(pare_tokenizer_encode(&cli->cx, t, &cli->arena, r->text, len, &ids, &count));
    const size_t invalid = pare_tokenizer_invalid(r->text, len);
    r->tokens = (pare_tokens){.count = count + (bos >= 0),
                              .flaw = invalid ? PARE_TEXT_INVALID : PARE_TEXT_PLAIN,
                              .flaw_in = "TEXT",
                              .invalid = invalid};
    r->tokens.id = PARE_NEW(&cli->arena, int32_t, r->tokens.count);
    if (!r->tokens.id)
        return PARE_ENOMEM;
    if (bos >= 0)
        r->tokens.id[0] = bos;
    if (count)
        memcpy(r->tokens.id + (bos >= 0), ids, count * sizeof *ids);
    return PARE_OK;
}

static pare_status encode(pare_cli *cli, const pare_tokenizer *t, request *r)
{
    const int32_t bos = r->bos ? pare_tokenizer_bos(t) : -1;
    char note[PARE_TOKENS_NOTE];
    if (r->bos && bos < 0)
        return pare_fail(&cli->cx, PARE_EUSAGE, "--bos: the tokenizer of %s names no BOS token",
                         r->model);
    if (r->text)
        PARE_TRY(encode_text(cli, t, bos, r));
    else
        PARE_TRY(pare_tokens_encode(&cli->cx, &cli->arena, t, &r->file, 1, bos,
                                    pare_tokenizer_vocab(t), &r->tokens));
    if (pare_tokens_note(&r->tokens, note))
        pare_screen_say(&cli->screen, "pare: warning: %s", note);
    return PARE_OK;
}

static pare_status print_json(pare_cli *cli, const request *r)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "model", r->model);
    pare_json_put_integer(w, "count", (int64_t)r->tokens.count);
    if (r->output)
        pare_json_put_text(w, "output", r->output);
    pare_json_open_array(w, "ids");
    for (size_t i = 0; !r->output && i < r->tokens.count; i++)
        pare_json_put_integer(w, NULL, r->tokens.id[i]);
    pare_json_close(w);
    pare_json_close(w);
    return pare_cli_print(w);
}

static pare_status deliver(pare_cli *cli, const request *r)
{
    const pare_tokens *const t = &r->tokens;
    if (r->output)
        PARE_TRY(pare_output_file_tokens(cli, "tokenize", r->output, r->restart, t->id, t->count));
    if (cli->json)
        return print_json(cli, r);
    if (r->output) {
        (void)printf("%s: %zu token%s\n", r->output, t->count, pare_plural(t->count));
        return PARE_OK;
    }
    for (size_t i = 0; i < t->count; i++)
        (void)printf("%s%ld", i ? " " : "", (long)t->id[i]);
    (void)printf("\n");
    return PARE_OK;
}

/* The tokenizer of MODEL, which may be a folder with a tokenizer alone. */
static pare_status open_tokenizer(pare_cli *cli, const pare_args *args, const char *model,
                                  pare_tokenizer **out)
{
    const char *const named = pare_args_text(args, "tokenizer");
    const pare_status s = pare_checkpoint_tokenizer_of(&cli->cx, model, named, out);
    if (s != PARE_ENOTFOUND || named || !pare_tokenizer_is_in(model))
        return s;
    pare_ctx_clear(&cli->cx);
    return pare_tokenizer_open(&cli->cx, model, out);
}

static pare_status work(pare_cli *cli, const pare_args *args, request *r)
{
    pare_tokenizer *t = NULL;
    bool there;
    if (r->output)
        PARE_TRY(pare_output_file_fits(cli, "tokenize", r->output, true, r->restart, &there));
    PARE_TRY(pare_inputs_no_work(&cli->cx, &cli->arena, r->model));
    PARE_TRY(open_tokenizer(cli, args, r->model, &t));
    const pare_status s = encode(cli, t, r);
    pare_tokenizer_free(t);
    return s == PARE_OK ? deliver(cli, r) : s;
}

pare_status pare_tokenize_run(pare_cli *cli, const pare_args *args)
{
    const pare_teller teller = {pare_cli_tell, cli};
    request r;
    pare_lock lock = {0};
    PARE_TRY(check_request(cli, args, &r));
    pare_status s =
        r.output ? pare_lock_take(&cli->cx, &cli->arena, r.output, "tokenize", &teller, &lock)
                 : PARE_OK;
    if (s == PARE_OK)
        s = work(cli, args, &r);
    pare_lock_release(&lock);
    return s;
}
