/* What this library makes of a model, for other programs to compare with, on standard output.
 *
 *   model_logits MODEL tokens TEXT          ids of the text, little-endian int32
 *   model_logits MODEL exact WINDOW IDS     logits of each window of IDS (a file as `tokens`
 * writes), model_logits MODEL packed WINDOW IDS    F32 [windows, WINDOW, vocab]: dequantized
 * weights, or the kernels that run the model */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/tokens.h"
#include "formats/checkpoint.h"
#include "runtime/forward.h"

typedef struct home {
    pare_ctx cx;
    pare_arena arena, scratch;
    pare_checkpoint ck;
    pare_model model;
    pare_forward f;
    pare_kv kv;
    float *x, *logits;
} home;

static pare_status put(home *h, const void *bytes, size_t size)
{
    if (fwrite(bytes, 1, size, stdout) == size)
        return PARE_OK;
    return pare_fail(&h->cx, PARE_EIO, "standard output takes no more");
}

static pare_status put_tokens(home *h, const char *text)
{
    pare_tokenizer *t;
    pare_tokens ids;
    PARE_TRY(pare_checkpoint_tokenizer(&h->ck, &t));
    const pare_status s =
        pare_tokens_encode(&h->cx, &h->arena, t, &text, 1, -1, h->model.config.vocab, &ids);
    pare_tokenizer_free(t);
    return s == PARE_OK ? put(h, ids.id, ids.count * sizeof *ids.id) : s;
}

static pare_status put_window(home *h, const int32_t *id, size_t window)
{
    const pare_config *const c = &h->model.config;
    const pare_mark mark = pare_arena_mark(&h->scratch);
    PARE_TRY(pare_embed(&h->cx, &h->model, id, window, h->x));
    PARE_TRY(pare_model_forward(&h->cx, &h->scratch, &h->f, (pare_batch){1, window, 0}, h->x,
                                &h->kv, 1));
    PARE_TRY(pare_logits(&h->cx, &h->scratch, &h->f, h->x, NULL, window, h->logits));
    pare_arena_rewind(&h->scratch, mark);
    return put(h, h->logits, window * c->vocab * sizeof(float));
}

static pare_status put_logits(home *h, bool exact, size_t window, const char *path)
{
    const pare_config *const c = &h->model.config;
    pare_tokens ids;
    PARE_TRY(pare_forward_init(&h->cx, &h->arena, &h->model, window, exact, &h->f));
    PARE_TRY(pare_tokens_read(&h->cx, &h->arena, path, c->vocab, &ids));
    PARE_TRY(pare_kv_take(&h->arena, c, 1, window, &h->kv));
    h->x = pare_arena_take(&h->arena, window, c->hidden * sizeof(float));
    h->logits = pare_arena_take(&h->arena, window, c->vocab * sizeof(float));
    if (!h->x || !h->logits)
        return PARE_ENOMEM;
    for (size_t at = 0; at + window <= ids.count; at += window)
        PARE_TRY(put_window(h, ids.id + at, window));
    return PARE_OK;
}

static pare_status run(home *h, char **argv)
{
    PARE_TRY(pare_arena_init(&h->cx, &h->arena, 0));
    PARE_TRY(pare_arena_init(&h->cx, &h->scratch, 0));
    PARE_TRY(pare_checkpoint_open(&h->cx, &h->arena, argv[1], &h->ck));
    PARE_TRY(pare_model_load(&h->cx, &h->arena, &h->ck, &h->model));
    if (strcmp(argv[2], "tokens") == 0)
        return put_tokens(h, argv[3]);
    return put_logits(h, strcmp(argv[2], "exact") == 0, (size_t)strtoul(argv[3], NULL, 10),
                      argv[4]);
}

int main(int argc, char **argv)
{
    static home h;
    const bool tokens = argc == 4 && strcmp(argv[2], "tokens") == 0;
    if (!tokens && !(argc == 5 && strtoul(argv[3], NULL, 10) > 1 &&
                     (strcmp(argv[2], "exact") == 0 || strcmp(argv[2], "packed") == 0)))
        return 2;
    pare_ctx_init(&h.cx);
    const pare_status s = run(&h, argv);
    if (s != PARE_OK)
        (void)fprintf(stderr, "model_logits: %s\n", h.cx.what);
    if (h.ck.cx)
        pare_checkpoint_close(&h.ck);
    pare_arena_release(&h.scratch);
    pare_arena_release(&h.arena);
    return s != PARE_OK;
}
