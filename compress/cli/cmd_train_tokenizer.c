/* A tokenizer from texts: a directory of two files, which gets its name when both are whole. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compress/cli/cli.h"
#include "compress/output/lock.h"
#include "compress/output/output.h"
#include "formats/tokenizer_train.h"
#include "runtime/file.h"

#define END_OF_TEXT "<|endoftext|>"

static const char *const names[] = {"tokenizer.json", "tokenizer_config.json"};
enum { NAMES = sizeof names / sizeof *names };

typedef struct request {
    const pare_args *args;
    pare_tok_train_opts opts;
    const char *special[PARE_ARGS_MAX + 2];
    char *output, *partial; /* without slashes at the end */
    bool restart, there;
} request;

static pare_status find_output(pare_cli *cli, request *r, const char *output)
{
    const char *home;
    if (!output)
        return pare_fail(&cli->cx, PARE_EUSAGE, "train-tokenizer: --output is missing");
    PARE_TRY(pare_output_check_length(&cli->cx, output));
    size_t len = strlen(output);
    while (len > 1 && output[len - 1] == '/')
        len--;
    r->output = pare_arena_text(&cli->arena, output, len);
    r->partial = r->output ? pare_path_suffix(&cli->arena, r->output, ".partial") : NULL;
    if (!r->partial)
        return PARE_ENOMEM;
    const char *const slash = strrchr(r->output, '/'), *const last = slash ? slash + 1 : r->output;
    if (!*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
        return pare_fail(&cli->cx, PARE_EUSAGE, "%s: the output must end in a name", r->output);
    PARE_TRY(pare_output_home(&cli->cx, &cli->arena, r->output, &home));
    return home ? pare_fail(&cli->cx, PARE_EUSAGE,
                            "%s: lies inside %s, where only files of that model belong; choose "
                            "another path",
                            r->output, home)
                : pare_output_check_room(&cli->cx, r->output);
}

/* EOS first, then BOS and the others; one that is named twice is one token. */
static void add_special(request *r, const char *text)
{
    for (size_t i = 0; i < r->opts.specials; i++)
        if (strcmp(r->special[i], text) == 0)
            return;
    r->special[r->opts.specials++] = text;
}

static pare_status read_request(pare_cli *cli, const pare_args *args, request *r)
{
    const char *special[PARE_ARGS_MAX];
    uint64_t vocab = 0, least = 2;
    *r = (request){.args = args, .restart = pare_args_given(args, "restart")};
    if (!pare_args_given(args, "vocab"))
        return pare_fail(&cli->cx, PARE_EUSAGE, "train-tokenizer: --vocab is missing");
    PARE_TRY(pare_args_count(&cli->cx, args, "vocab", 1, PARE_TOK_TRAIN_VOCAB_MOST, &vocab));
    PARE_TRY(pare_args_count(&cli->cx, args, "min-count", 1, INT64_MAX, &least));
    const char *const eos = pare_args_text(args, "eos"), *const bos = pare_args_text(args, "bos");
    r->opts = (pare_tok_train_opts){.vocab = (size_t)vocab,
                                    .min_count = least,
                                    .special = r->special,
                                    .eos = eos ? eos : END_OF_TEXT};
    r->opts.bos = bos ? bos : r->opts.eos;
    add_special(r, r->opts.eos);
    add_special(r, r->opts.bos);
    const size_t count = pare_args_texts(args, "special", special);
    for (size_t i = 0; i < count; i++)
        add_special(r, special[i]);
    return find_output(cli, r, pare_args_text(args, "output"));
}

static bool is_ours(const char *name)
{
    for (size_t i = 0; i < NAMES; i++) {
        const size_t n = strlen(names[i]);
        if (strncmp(name, names[i], n) == 0 && (!name[n] || strcmp(name + n, ".tmp") == 0))
            return true;
    }
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Nothing but a tokenizer may lie in a directory that is written to. */
static pare_status check_directory(pare_cli *cli, const char *path, bool *there, bool *empty)
{
    struct stat st;
    *there = lstat(path, &st) == 0;
    *empty = true;
    if (!*there)
        return PARE_OK;
    DIR *const d = S_ISDIR(st.st_mode) ? opendir(path) : NULL;
    if (!d)
        return pare_fail(&cli->cx, PARE_EEXISTS,
                         "%s: is no directory that can be read; choose another path", path);
    pare_status s = PARE_OK;
    for (const struct dirent *e; s == PARE_OK && (e = readdir(d)) != NULL;) {
        *empty = *empty && e->d_name[0] == '.';
        if (!is_ours(e->d_name))
            s = pare_fail(&cli->cx, PARE_EEXISTS,
                          "%s: holds %s, and only files of a tokenizer may be there; choose "
                          "another path",
                          path, e->d_name);
    }
    (void)closedir(d);
    return s;
}

static pare_status check_output(pare_cli *cli, request *r)
{
    bool empty, partial;
    PARE_TRY(check_directory(cli, r->output, &r->there, &empty));
    if (r->there && !empty && !r->restart)
        return pare_fail(&cli->cx, PARE_EEXISTS, "%s: exists already; --restart replaces it",
                         r->output);
    return check_directory(cli, r->partial, &partial, &empty);
}

static pare_status train(pare_cli *cli, const request *r, pare_tok_trained *out)
{
    const size_t count = r->args->operands;
    pare_text_file *const text = PARE_NEW(&cli->arena, pare_text_file, count);
    pare_tok_train_text *const part = PARE_NEW(&cli->arena, pare_tok_train_text, count);
    pare_tokens seen = {0};
    char note[PARE_TOKENS_NOTE];
    size_t open = 0;
    pare_status s = text && part ? PARE_OK : PARE_ENOMEM;
    for (; s == PARE_OK && open < count; open += s == PARE_OK)
        s = pare_text_map(&cli->cx, &cli->arena, r->args->operand[open], &text[open]);
    for (size_t i = 0; s == PARE_OK && i < count; i++) {
        part[i] = (pare_tok_train_text){text[i].at, text[i].len};
        pare_text_look(&text[i], &seen);
    }
    if (s == PARE_OK && pare_tokens_note(&seen, note))
        pare_screen_say(&cli->screen, "pare: warning: %s", note);
    if (s == PARE_OK)
        s = pare_tokenizer_train(&cli->cx, &cli->arena, part, count, &r->opts, out);
    while (open)
        pare_file_unmap(&text[--open].file);
    return s;
}

/* Both files get their names with the directory; one after the other where one is there that the
 * file system cannot exchange with it. */
static pare_status publish(pare_cli *cli, const request *r)
{
    bool done;
    if (!r->there)
        return rename(r->partial, r->output) == 0 ? pare_file_sync_parent(&cli->cx, r->output)
                                                  : pare_file_fail(&cli->cx, r->output, "create");
    PARE_TRY(pare_file_exchange(&cli->cx, r->partial, r->output, &done));
    if (done)
        return PARE_OK;
    for (size_t i = 0; i < NAMES; i++) {
        const char *const from = pare_path_join(&cli->arena, r->partial, names[i]);
        const char *const to = pare_path_join(&cli->arena, r->output, names[i]);
        if (!from || !to)
            return PARE_ENOMEM;
        if (rename(from, to) != 0)
            return pare_file_fail(&cli->cx, to, "replace");
        PARE_TRY(pare_file_sync_parent(&cli->cx, to));
    }
    return PARE_OK;
}

/* What does not become the output goes: what was replaced, or what could not be written whole. */
static void discard(pare_cli *cli, const request *r)
{
    for (size_t i = 0; i < NAMES; i++) {
        const char *const path = pare_path_join(&cli->arena, r->partial, names[i]);
        const char *const half = path ? pare_path_suffix(&cli->arena, path, ".tmp") : NULL;
        if (path)
            (void)unlink(path);
        if (half)
            (void)unlink(half);
    }
    (void)rmdir(r->partial);
}

static pare_status write_all(pare_cli *cli, request *r, const pare_tok_trained *t)
{
    const char *const text[NAMES] = {t->json, t->config};
    const size_t len[NAMES] = {t->json_len, t->config_len};
    PARE_TRY(check_output(cli, r));
    PARE_TRY(pare_output_make(&cli->cx, &cli->arena, r->partial));
    pare_status s = PARE_OK;
    for (size_t i = 0; s == PARE_OK && i < NAMES; i++) {
        const char *const path = pare_path_join(&cli->arena, r->partial, names[i]);
        s = path ? pare_file_write(&cli->cx, path, text[i], len[i]) : PARE_ENOMEM;
    }
    if (s == PARE_OK)
        s = publish(cli, r);
    discard(cli, r);
    return s;
}

static pare_status print(pare_cli *cli, const request *r, const pare_tok_trained *t)
{
    if (!cli->json) {
        (void)printf("output    %s\n", r->output);
        (void)printf("tokens    %zu (%zu special, 256 bytes, %zu by %zu merges)\n", t->vocab,
                     r->opts.specials, t->vocab - 256 - r->opts.specials, t->merges);
        (void)printf("text      %llu bytes, %llu words, %zu distinct\n",
                     (unsigned long long)t->bytes, (unsigned long long)t->words, t->distinct);
        return PARE_OK;
    }
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "output", r->output);
    pare_json_put_integer(w, "vocab", (int64_t)t->vocab);
    pare_json_put_integer(w, "special", (int64_t)r->opts.specials);
    pare_json_put_integer(w, "merges", (int64_t)t->merges);
    pare_json_put_integer(w, "text_bytes", (int64_t)t->bytes);
    pare_json_put_integer(w, "words", (int64_t)t->words);
    pare_json_put_integer(w, "distinct_words", (int64_t)t->distinct);
    pare_json_close(w);
    return pare_cli_print(w);
}

pare_status pare_train_tokenizer_run(pare_cli *cli, const pare_args *args)
{
    const pare_teller teller = {pare_cli_tell, cli};
    request r;
    pare_lock lock = {0};
    pare_tok_trained t = {0};
    PARE_TRY(read_request(cli, args, &r));
    PARE_TRY(pare_lock_take(&cli->cx, &cli->arena, r.output, "train-tokenizer", &teller, &lock));
    pare_status s = check_output(cli, &r);
    if (s == PARE_OK)
        s = train(cli, &r, &t);
    if (s == PARE_OK)
        s = write_all(cli, &r, &t);
    pare_tokenizer_free(t.tokenizer);
    pare_lock_release(&lock);
    return s == PARE_OK ? print(cli, &r, &t) : s;
}
