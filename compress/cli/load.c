#include "calib/stats_file.h"
#include "compress/cli/cli.h"
#include "compress/output/inputs.h"
#include "formats/checksums.h"
#include "runtime/cuda.h"
#include "runtime/threads.h"

pare_status pare_cli_threads(pare_cli *cli)
{
    return pare_pool_new(&cli->cx, cli->threads, &cli->cx.pool);
}

bool pare_cli_unchecked(pare_cli *cli, const pare_args *args, const char *path)
{
    const bool given = pare_args_given(args, "unchecked");
    if (given)
        pare_screen_say(&cli->screen,
                        "pare: warning: %s: checksums are not looked at (--unchecked)", path);
    return given;
}

pare_status pare_loaded_watch(pare_cli *cli, pare_loaded *l, const char *path)
{
    return pare_watch_path(&cli->arena, &l->checkpoint.watch, path);
}

pare_status pare_loaded_unchanged(pare_cli *cli, const pare_loaded *l)
{
    return pare_watch_check(&cli->cx, &l->checkpoint.watch);
}

/* What a file in blocks runs as; `exact`: with inputs in floats. */
static void say_quantized(pare_cli *cli, const char *path, const pare_checkpoint *ck, bool exact)
{
    char types[256];
    bool integer = false, rounded[2] = {false, false};
    if (!pare_checkpoint_quantized(ck, types, sizeof types))
        return;
    for (size_t i = 0; ck->stored && !exact && i < ck->tensors; i++) {
        const pare_linear *const w = ck->stored[i].packed;
        const bool stay = !w || w->activation.mode == PARE_ACTIVATION_FLOAT;
        integer = integer || !stay;
        if (w && stay && w->activation.bits)
            rounded[w->activation.bits == 4] = true;
    }
    pare_screen_say(&cli->screen,
                    "pare: warning: %s is quantized already (%s); pare takes its values%s%s%s",
                    path, types, rounded[0] ? "; linears in FP8 take their inputs in FP8, too" : "",
                    rounded[1] ? "; linears in MXFP4 or NVFP4 take their inputs in the same" : "",
                    !integer       ? ""
                    : ck->unpacked ? "; linears in integers take their inputs in int8, as those of "
                                     "an artifact do"
                                   : "; linears in Q4_0 and Q8_0 take their inputs in int8, as "
                                     "those of an artifact do");
}

pare_status pare_loaded_no_statistics(pare_cli *cli, const char *path)
{
    bool is;
    PARE_TRY(pare_stats_file_is_one(&cli->cx, &cli->arena, path, &is));
    return is ? pare_fail(&cli->cx, PARE_EFORMAT,
                          "%s holds statistics of a calibration and no model; \"pare inspect\" "
                          "shows them, and \"calibration: {from: FILE}\" of a recipe takes them",
                          path)
              : PARE_OK;
}

pare_status pare_loaded_open(pare_cli *cli, const pare_args *args, const char *path, bool exact,
                             bool text, pare_loaded *out)
{
    pare_ctx *const cx = &cli->cx;
    const char *const tokenizer = pare_args_text(args, "tokenizer");
    *out = (pare_loaded){0};
    PARE_TRY(pare_inputs_no_work(cx, &cli->arena, path));
    PARE_TRY(pare_loaded_no_statistics(cli, path));
    if (text)
        PARE_TRY(pare_checkpoint_tokenizer_of(cx, path, tokenizer, &out->tokenizer));
    PARE_TRY(pare_checkpoint_open_to_run(cx, &cli->arena, path, &out->checkpoint));
    out->checkpoint.tokenizer = tokenizer;
    PARE_TRY(pare_inputs_watch(&cli->arena, &out->checkpoint));
    say_quantized(cli, path, &out->checkpoint, exact);
    for (size_t i = 0; i < out->checkpoint.files; i++)
        pare_file_read_ahead(&out->checkpoint.file[i]);
    if (!pare_cli_unchecked(cli, args, path))
        PARE_TRY(pare_checkpoint_check(&out->checkpoint, &out->checked));
    pare_status s = pare_model_load(cx, &cli->arena, &out->checkpoint, &out->model);
    if (s == PARE_OK)
        s = pare_forward_init(cx, &cli->arena, &out->model, out->model.config.context, exact,
                              &out->forward);
    return s;
}

void pare_loaded_text_done(pare_loaded *l)
{
    pare_tokenizer_free(l->tokenizer);
    l->tokenizer = NULL;
    pare_memory_trim();
}

void pare_loaded_close(pare_loaded *l)
{
    pare_loaded_text_done(l);
    pare_cuda_close(l->cuda);
    l->cuda = NULL;
    if (l->checkpoint.cx)
        pare_checkpoint_close(&l->checkpoint);
}

/* --bos: the token in front of the text, or -1. */
static pare_status bos_token(pare_cli *cli, const pare_tokenizer *t, const char *path, bool wanted,
                             int32_t *bos)
{
    *bos = wanted ? pare_tokenizer_bos(t) : -1;
    if (wanted && *bos < 0)
        return pare_fail(&cli->cx, PARE_EUSAGE, "--bos: the tokenizer of %s names no BOS token",
                         path);
    return PARE_OK;
}

pare_status pare_loaded_text(pare_cli *cli, const pare_loaded *l, const char *path, bool bos,
                             pare_tokens *out)
{
    int32_t first;
    PARE_TRY(bos_token(cli, l->tokenizer, l->checkpoint.path, bos, &first));
    return pare_tokens_encode(&cli->cx, &cli->arena, l->tokenizer, &path, 1, first,
                              l->model.config.vocab, out);
}

void pare_cli_tell(void *self, const char *text)
{
    pare_cli *const cli = self;
    pare_screen_say(&cli->screen, "%s", text);
}

pare_status pare_cli_print(pare_json_writer *w)
{
    const char *text;
    size_t len;
    const pare_status s = pare_json_writer_finish(w, &text, &len);
    if (s == PARE_OK)
        (void)fwrite(text, 1, len, stdout); /* main looks at the stream's error flag */
    pare_json_writer_free(w);
    return s;
}
