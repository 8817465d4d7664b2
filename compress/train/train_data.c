/* What is trained on: tokens cut into windows, some of which are held out. */
#include <string.h>

#include "compress/plan/same_tokens.h"
#include "compress/train/train_internal.h"
#include "formats/sha256.h"
#include "formats/tokenizer_train.h"
#include "runtime/file.h"

static pare_status data_path(pare_training *t, const pare_text *text, const char **out)
{
    const pare_job_path p = {t->job->recipe, "data", NULL, text};
    char *path;
    PARE_TRY(pare_job_path_pick(t->cx, t->a, &p, &path));
    if (!pare_path_is_file(path))
        return pare_recipe_fail(t->cx, text->place,
                                "%s: %s; a path in a recipe is relative to the recipe", path,
                                pare_path_no_file(path));
    *out = path;
    return PARE_OK;
}

/* Learns a tokenizer from the texts; its files are kept for the output. */
static pare_status train_tokenizer(pare_training *t, const char *const *path, size_t texts,
                                   pare_tokenizer **out)
{
    static const char *const special[] = {"<|endoftext|>"};
    const pare_tok_train_opts opts = {.vocab = t->recipe.vocabulary,
                                      .special = special,
                                      .specials = 1,
                                      .bos = special[0],
                                      .eos = special[0]};
    pare_tok_train_text *const text = PARE_NEW(&t->scratch, pare_tok_train_text, texts);
    pare_text_file *const file = PARE_NEW(&t->scratch, pare_text_file, texts);
    pare_tok_trained made;
    if (!text || !file)
        return PARE_ENOMEM;
    pare_status s = PARE_OK;
    for (size_t i = 0; s == PARE_OK && i < texts; i++) {
        s = pare_text_map(t->cx, &t->scratch, path[i], &file[i]);
        text[i] = (pare_tok_train_text){file[i].at, file[i].len};
    }
    if (s == PARE_OK)
        s = pare_tokenizer_train(t->cx, t->a, text, texts, &opts, &made);
    for (size_t i = 0; i < texts; i++)
        pare_file_unmap(&file[i].file);
    if (s == PARE_EUSAGE) {
        (void)pare_recipe_fail_at(t->cx, s, t->recipe.vocabulary_place);
        return s;
    }
    PARE_TRY(s);
    pare__train_tell(t, "a tokenizer of %zu tokens from %llu words", made.vocab,
                     (unsigned long long)made.words);
    t->tokenizer = made.json;
    t->tokenizer_len = made.json_len;
    t->tokenizer_config = made.config;
    t->tokenizer_config_len = made.config_len;
    t->bos = pare_tokenizer_bos(made.tokenizer);
    t->eos = pare_tokenizer_eos(made.tokenizer);
    *out = made.tokenizer;
    return PARE_OK;
}

static pare_status open_tokenizer(pare_training *t, const char *const *path, size_t texts,
                                  pare_tokenizer **out)
{
    bool has = false;
    if (t->recipe.vocabulary)
        return train_tokenizer(t, path, texts, out);
    PARE_TRY(pare_checkpoint_has_tokenizer(&t->model, &has));
    if (!has)
        return pare_recipe_fail(t->cx, t->recipe.data_place,
                                "text needs a tokenizer, and beside %s there is none; name one "
                                "with \"tokenizer: PATH\"%s, or give tokens: a file of "
                                "little-endian int32",
                                t->model_path,
                                t->fresh ? ", train one with \"vocabulary: 4096\"" : "");
    return pare_checkpoint_tokenizer(&t->model, out);
}

static pare_status fail_teacher(pare_training *t, const char *of, size_t at)
{
    return pare_recipe_fail(t->cx, t->recipe.teacher.place,
                            "%s: its tokenizer is another one than that of the model: token %zu of "
                            "%s differs; take a teacher of the same tokenizer",
                            t->teacher_path, at, of);
}

/* Whether another tokenizer has the same tokens for the beginning of each text. */
static pare_status compare_texts(pare_training *t, const pare_tokenizer *own,
                                 const pare_tokenizer *other, const char *const *path, size_t texts)
{
    enum { BEGINNING = 1 << 20 };
    for (size_t i = 0; i < texts; i++) {
        const pare_mark mark = pare_arena_mark(&t->scratch);
        pare_tokens_apart apart;
        pare_text_file f;
        PARE_TRY(pare_text_map(t->cx, &t->scratch, path[i], &f));
        const pare_status s = pare_text_apart(t->cx, &t->scratch, own, other, f.at,
                                              f.len < BEGINNING ? f.len : BEGINNING, &apart);
        pare_file_unmap(&f.file);
        pare_arena_rewind(&t->scratch, mark);
        PARE_TRY(s);
        if (apart.differ)
            return fail_teacher(t, path[i], apart.at);
    }
    return PARE_OK;
}

static pare_status check_teacher(pare_training *t, const pare_tokenizer *own,
                                 const char *const *path, size_t texts)
{
    pare_tokenizer *other = NULL;
    bool has = false;
    if (!t->own_teacher)
        return PARE_OK;
    pare_status s = pare_checkpoint_has_tokenizer(&t->teacher, &has);
    if (s == PARE_OK && has)
        s = pare_checkpoint_tokenizer(&t->teacher, &other);
    if (s == PARE_ENOTSUP || (s == PARE_OK && !has)) {
        pare_ctx_clear(t->cx);
        pare__train_tell(t,
                         "warning: %s has no tokenizer that pare reads, and is taken to have that "
                         "of the model",
                         t->teacher_path);
        return PARE_OK;
    }
    if (s == PARE_OK)
        s = compare_texts(t, own, other, path, texts);
    pare_tokenizer_free(other);
    return s;
}

static pare_status read_texts(pare_training *t, pare_tokens *out)
{
    const size_t texts = t->recipe.text.count, vocab = t->source.config.vocab;
    const char **const path = PARE_NEW(t->a, const char *, texts);
    char note[PARE_TOKENS_NOTE];
    pare_tokenizer *tokenizer = NULL;
    if (!path)
        return PARE_ENOMEM;
    for (size_t i = 0; i < texts; i++)
        PARE_TRY(data_path(t, &t->recipe.text.item[i], &path[i]));
    PARE_TRY(open_tokenizer(t, path, texts, &tokenizer));
    pare_status s = PARE_OK;
    if (pare_tokenizer_vocab(tokenizer) > vocab)
        s = pare_recipe_fail(t->cx, t->recipe.data_place,
                             "the tokenizer has %zu tokens, and the model a vocabulary of %zu; "
                             "\"vocab_size\" in config.json must be at least that",
                             pare_tokenizer_vocab(tokenizer), vocab);
    if (s == PARE_OK)
        s = check_teacher(t, tokenizer, path, texts);
    if (s == PARE_OK)
        s = pare_tokens_encode(t->cx, t->a, tokenizer, path, texts, -1, vocab, out);
    pare_tokenizer_free(tokenizer);
    if (s == PARE_OK && pare_tokens_note(out, note))
        pare__train_tell(t, "warning: %s", note);
    return s;
}

static pare_status read_stream(pare_training *t, pare_tokens *out)
{
    const char *path;
    if (t->recipe.text.count)
        return read_texts(t, out);
    PARE_TRY(data_path(t, &t->recipe.tokens, &path));
    PARE_TRY(pare_tokens_read(t->cx, t->a, path, t->source.config.vocab, out));
    if (!t->own_teacher)
        return PARE_OK;
    pare_tokens_apart apart;
    PARE_TRY(
        pare_ids_apart(t->cx, &t->scratch, &t->model, &t->teacher, out->id, out->count, &apart));
    return apart.differ ? fail_teacher(t, path, apart.at) : PARE_OK;
}

/* Windows i * all / held of the stream are held out; the others move together, in their order. */
static pare_status split(pare_training *t, pare_tokens *stream)
{
    const size_t window = t->window, all = stream->count / window, held = t->recipe.held_out;
    const size_t bytes = window * sizeof(int32_t);
    if (all <= held)
        return pare_recipe_fail(t->cx, t->recipe.data_place,
                                "the data have %zu token%s: %zu window%s of %zu, and %zu %s held "
                                "out; give more, a smaller window or fewer held_out",
                                stream->count, pare_plural(stream->count), all, pare_plural(all),
                                window, held, held == 1 ? "is" : "are");
    t->held_out = (pare_tokens){.id = PARE_NEW(t->a, int32_t, held * window)};
    if (!t->held_out.id)
        return PARE_ENOMEM;
    size_t kept = 0;
    for (size_t i = 0, out = 0; i < all; i++) {
        const int32_t *const from = stream->id + i * window;
        if (out < held && i == out * all / held) {
            memcpy(t->held_out.id + out++ * window, from, bytes);
            continue;
        }
        memmove(stream->id + kept++ * window, from, bytes);
    }
    t->held_out.count = held * window;
    t->windows = (pare_tokens){.id = stream->id, .count = kept * window};
    return PARE_OK;
}

pare_status pare__train_data(pare_training *t)
{
    const size_t context = t->source.config.context;
    pare_tokens stream;
    if (t->recipe.window_given && t->recipe.window > context)
        return pare_recipe_fail(t->cx, t->recipe.window_place,
                                "\"window\" is %zu, above the context of the model, which is %zu",
                                t->recipe.window, context);
    t->window = t->recipe.window < context ? t->recipe.window : context;
    if (t->taught && t->taught_by.config.context < t->window)
        return pare_recipe_fail(
            t->cx, t->recipe.window_given ? t->recipe.window_place : t->recipe.data_place,
            "windows have %zu tokens, and the teacher a context of %zu", t->window,
            t->taught_by.config.context);
    t->recipe.window = t->window;
    PARE_TRY(read_stream(t, &stream));
    PARE_TRY(split(t, &stream));
    PARE_TRY(pare_sha256_hex(t->cx, t->windows.id, t->windows.count * sizeof *t->windows.id,
                             t->windows_sha256));
    return pare_sha256_hex(t->cx, t->held_out.id, t->held_out.count * sizeof *t->held_out.id,
                           t->held_out_sha256);
}
