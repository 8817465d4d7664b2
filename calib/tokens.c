#include "calib/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/hash.h"
#include "runtime/file.h"
#include "runtime/random.h"
#include "runtime/sample.h"

enum { TEXT_CAP = 1 << 30, GENERATE_MOST = 16, INVALID_SHARE = 1000, FOREIGN_LEAST = 8 };
static const uint64_t generate_cache_bytes = (uint64_t)256 << 20;

static int32_t read_le32(const unsigned char *p)
{
    const uint32_t u =
        (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    int32_t value;
    memcpy(&value, &u, sizeof value);
    return value;
}

static pare_status check_ids(pare_ctx *cx, const char *path, const pare_tokens *t, size_t vocab)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->id[i] < 0 || (size_t)t->id[i] >= vocab)
            return pare_fail(cx, PARE_EFORMAT,
                             "%s: token %zu is %d, outside the model's vocabulary of %zu", path, i,
                             (int)t->id[i], vocab);
    return PARE_OK;
}

/* Integers of 64 bits: behind each id stands a word of zeros. Ids of 32 bits do that only by
 * intent; where most are 0, as in padding, nothing is told. */
static bool is_int64(const pare_tokens *t)
{
    size_t found = 0;
    for (size_t i = 0; i < t->count; i++)
        if (i % 2 == 0)
            found += t->id[i] != 0;
        else if (t->id[i] != 0)
            return false;
    return found > t->count / 4 && t->count >= FOREIGN_LEAST && t->count % 2 == 0;
}

/* Integers of 16 bits: most pairs are no ids of the model, all halves are. A large vocabulary has
 * the halves of any 32 bits: where few are no ids, these are what is wrong. */
static bool is_uint16(const pare_tokens *t, size_t vocab)
{
    size_t outside = 0;
    for (size_t i = 0; i < t->count; i++) {
        const uint32_t pair = (uint32_t)t->id[i];
        outside += pair >= vocab;
        if ((pair & 0xffff) >= vocab || pair >> 16 >= vocab)
            return false;
    }
    return outside > t->count / 2 && t->count >= FOREIGN_LEAST;
}

static pare_status fail_type(pare_ctx *cx, const char *path, const char *type, const char *read)
{
    return pare_fail(cx, PARE_EFORMAT,
                     "%s: looks like %s. pare reads little-endian int32; in Python, "
                     "%s.astype(\"<i4\").tofile(NEW) writes such a file",
                     path, type, read);
}

/* Files of other integers, as trainers write them. */
static pare_status check_type(pare_ctx *cx, const char *path, const pare_tokens *t, size_t vocab)
{
    if (is_int64(t))
        return fail_type(cx, path, "a list of int64, since every second word of 32 bits is 0",
                         "numpy.fromfile(FILE, \"<i8\")");
    if (is_uint16(t, vocab))
        return fail_type(
            cx, path, "a list of uint16, since its halves are tokens and most of its words are not",
            "numpy.fromfile(FILE, \"<u2\")");
    return PARE_OK;
}

/* Maps a file of at most TEXT_CAP bytes: only its tokens take memory. */
static pare_status map_data(pare_ctx *cx, pare_arena *a, const char *path, pare_file *f)
{
    PARE_TRY(pare_file_map(cx, a, path, f));
    if (f->bytes <= TEXT_CAP)
        return PARE_OK;
    const unsigned long long bytes = f->bytes;
    pare_file_unmap(f);
    return pare_fail(cx, PARE_EFORMAT, "%s: %llu bytes, at most %d are accepted", path, bytes,
                     TEXT_CAP);
}

static pare_status read_ids(pare_ctx *cx, pare_arena *a, const pare_file *f, size_t vocab,
                            pare_tokens *out)
{
    static const char npy[] = "\x93NUMPY";
    if (f->bytes > sizeof npy && memcmp(f->data, npy, strlen(npy)) == 0)
        return fail_type(cx, f->path, "an array of numpy (.npy)", "numpy.load(FILE)");
    if (f->bytes == 0 || f->bytes % 4 != 0)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: %llu byte%s not a list of little-endian int32 tokens", f->path,
                         (unsigned long long)f->bytes, f->bytes == 1 ? " is" : "s are");
    *out = (pare_tokens){.count = (size_t)f->bytes / 4};
    out->id = PARE_NEW(a, int32_t, out->count);
    if (!out->id)
        return PARE_ENOMEM;
    for (size_t i = 0; i < out->count; i++)
        out->id[i] = read_le32(f->data + 4 * i);
    PARE_TRY(check_type(cx, f->path, out, vocab));
    return check_ids(cx, f->path, out, vocab);
}

pare_status pare_tokens_read(pare_ctx *cx, pare_arena *a, const char *path, size_t vocab,
                             pare_tokens *out)
{
    pare_file f;
    PARE_TRY(map_data(cx, a, path, &f));
    const pare_status s = read_ids(cx, a, &f, vocab, out);
    pare_file_unmap(&f);
    return s;
}

const char *pare_tokens_note(const pare_tokens *t, char text[PARE_TOKENS_NOTE])
{
    const bool one = t->invalid == 1;
    switch (t->flaw) {
    case PARE_TEXT_PLAIN: return NULL;
    case PARE_TEXT_CRLF:
        (void)snprintf(text, PARE_TOKENS_NOTE,
                       "%.300s: its lines end in CR LF, and the model sees both; text of other "
                       "systems has LF alone",
                       t->flaw_in);
        break;
    case PARE_TEXT_JSON:
        (void)snprintf(text, PARE_TOKENS_NOTE,
                       "%.300s: this is JSON, and it is read as it is, keys and quotes included; "
                       "give the texts alone in a file",
                       t->flaw_in);
        break;
    case PARE_TEXT_INVALID:
        (void)snprintf(
            text, PARE_TOKENS_NOTE,
            "%.300s: %zu part%s not valid UTF-8, and pare reads %s as U+FFFD; is it a text, "
            "and in UTF-8?",
            t->flaw_in, t->invalid, one ? " is" : "s are", one ? "it" : "them");
        break;
    }
    return text;
}

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && strchr(" \t\r\n", *p) && *p)
        p++;
    return p;
}

/* An object, or a list of them: { and the quote of a key. */
static bool begins_as_json(const char *text, size_t len)
{
    const char *const end = text + len;
    const char *p = skip_space(text, end);
    if (p < end && *p == '[')
        p = skip_space(p + 1, end);
    if (p == end || *p != '{')
        return false;
    p = skip_space(p + 1, end);
    return p < end && *p == '"';
}

static bool has_crlf(const char *text, size_t len)
{
    const char *const end = text + len;
    size_t lines = 0, with = 0;
    for (const char *p = text; (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++) {
        lines++;
        with += p > text && p[-1] == '\r';
    }
    return with > lines / 2;
}

/* Texts that models wrote have a few parts that are not valid UTF-8. */
static pare_text_flaw flaw_of(const char *text, size_t len, size_t invalid)
{
    if (invalid > len / INVALID_SHARE)
        return PARE_TEXT_INVALID;
    if (begins_as_json(text, len))
        return PARE_TEXT_JSON;
    return has_crlf(text, len) ? PARE_TEXT_CRLF : PARE_TEXT_PLAIN;
}

static pare_status check_text(pare_ctx *cx, const pare_file *f)
{
    const unsigned char *const nul = f->bytes ? memchr(f->data, '\0', (size_t)f->bytes) : NULL;
    return nul ? pare_fail(cx, PARE_EFORMAT,
                           "%s: byte %zu is NUL, so this is no text; give a text in UTF-8, or a "
                           "file of tokens where tokens are asked for",
                           f->path, (size_t)(nul - f->data))
               : PARE_OK;
}

pare_status pare_text_map(pare_ctx *cx, pare_arena *a, const char *path, pare_text_file *out)
{
    static const char mark[] = "\xef\xbb\xbf";
    pare_file f;
    PARE_TRY(map_data(cx, a, path, &f));
    const pare_status s = check_text(cx, &f);
    if (s != PARE_OK) {
        pare_file_unmap(&f);
        return s;
    }
    const size_t begin = f.bytes >= 3 && memcmp(f.data, mark, 3) == 0 ? 3 : 0;
    *out = (pare_text_file){.file = f,
                            .at = f.data ? (const char *)f.data + begin : "",
                            .len = (size_t)f.bytes - begin};
    return PARE_OK;
}

pare_status pare_text_check(pare_ctx *cx, pare_arena *a, const char *path)
{
    pare_text_file t;
    PARE_TRY(pare_text_map(cx, a, path, &t));
    pare_file_unmap(&t.file);
    return PARE_OK;
}

void pare_text_look(const pare_text_file *t, pare_tokens *out)
{
    const size_t invalid = pare_tokenizer_invalid(t->at, t->len);
    const pare_text_flaw flaw = flaw_of(t->at, t->len, invalid);
    out->invalid += flaw == PARE_TEXT_INVALID ? invalid : 0;
    if (flaw <= out->flaw)
        return;
    out->flaw = flaw;
    out->flaw_in = t->file.path;
}

/* The text has no part in it. */
static pare_status check_tokenizer(pare_ctx *cx, const char *path, const pare_tokens *t,
                                   size_t vocab)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->id[i] < 0 || (size_t)t->id[i] >= vocab)
            return pare_fail(cx, PARE_EFORMAT,
                             "the tokenizer makes token %d of %s, and the vocabulary of the model "
                             "has %zu: is it the tokenizer of another model?",
                             (int)t->id[i], path, vocab);
    return PARE_OK;
}

static pare_status encode_file(pare_ctx *cx, pare_arena *a, const pare_tokenizer *t,
                               const char *path, size_t vocab, pare_tokens *out)
{
    pare_text_file text;
    PARE_TRY(pare_text_map(cx, a, path, &text));
    const pare_status s = pare_tokenizer_encode(cx, t, a, text.at, text.len, &out->id, &out->count);
    pare_text_look(&text, out);
    pare_file_unmap(&text.file);
    if (s != PARE_OK)
        return pare_fail_context(cx, s, "%s", path);
    return check_tokenizer(cx, path, out, vocab);
}

pare_status pare_tokens_encode(pare_ctx *cx, pare_arena *a, const pare_tokenizer *t,
                               const char *const *paths, size_t path_count, int32_t bos,
                               size_t vocab, pare_tokens *out)
{
    pare_tokens *const part = PARE_NEW(a, pare_tokens, path_count);
    if (!part)
        return PARE_ENOMEM;
    size_t total = 0;
    for (size_t i = 0; i < path_count; i++) {
        pare_ctx_progress(cx, "turning text into tokens", (double)i, (double)path_count);
        PARE_TRY(encode_file(cx, a, t, paths[i], vocab, &part[i]));
        total += part[i].count + (bos >= 0);
    }
    pare_ctx_progress(cx, "turning text into tokens", 1, 1);
    if (path_count == 1 && bos < 0) {
        *out = part[0];
        return PARE_OK;
    }
    *out = (pare_tokens){.id = PARE_NEW(a, int32_t, total)};
    if (!out->id)
        return PARE_ENOMEM;
    for (size_t i = 0; i < path_count; i++) {
        if (part[i].flaw > out->flaw) {
            out->flaw = part[i].flaw;
            out->flaw_in = part[i].flaw_in;
        }
        out->invalid += part[i].flaw == PARE_TEXT_INVALID ? part[i].invalid : 0;
        if (bos >= 0)
            out->id[out->count++] = bos;
        if (part[i].count)
            memcpy(out->id + out->count, part[i].id, part[i].count * sizeof *out->id);
        out->count += part[i].count;
    }
    return PARE_OK;
}

/* Caches of one sequence, all blocks. */
static uint64_t cache_bytes(const pare_config *c, size_t window)
{
    const pare_kv_format floats = {.method = PARE_KV_FLOAT};
    uint64_t bytes = 0;
    for (size_t i = 0; i < c->blocks; i++) {
        pare_config own;
        pare_block_config(c, i, &own);
        bytes += pare_kv_bytes(&own, &floats, 1, window);
    }
    return bytes;
}

/* A sequence does not depend on the others, so neither does the result on this number. */
static size_t generate_batch(const pare_config *c, size_t window)
{
    const uint64_t fit = generate_cache_bytes / cache_bytes(c, window);
    return fit == 0 ? 1 : fit > GENERATE_MOST ? GENERATE_MOST : (size_t)fit;
}

uint64_t pare_tokens_generate_bytes(const pare_ctx *cx, const pare_config *c, size_t window)
{
    const size_t count = generate_batch(c, window);
    const pare_batch step = {.sequences = count, .length = 1, .start = window - 1};
    return count * (cache_bytes(c, window) + (c->vocab + 2 * c->hidden) * sizeof(float)) +
           pare_block_forward_scratch(cx, c, step);
}

pare_status pare_tokens_generate(pare_ctx *cx, pare_arena *a, pare_arena *scratch,
                                 const pare_forward *f, double temperature, uint64_t seed,
                                 size_t samples, size_t window, pare_tokens *out)
{
    size_t count;
    if (__builtin_mul_overflow(samples, window, &count))
        return pare_fail(cx, PARE_EINVAL, "%zu samples of %zu tokens", samples, window);
    *out = (pare_tokens){.id = PARE_NEW(a, int32_t, count), .count = count};
    if (!out->id)
        return PARE_ENOMEM;
    const pare_config *const c = &f->model->config;
    const int64_t first = c->bos_id >= 0 ? c->bos_id : c->eos_ids ? c->eos_id[0] : 0;
    for (size_t i = 0; i < samples; i++)
        out->id[i * window] = (int32_t)first;
    const size_t batch = generate_batch(c, window);
    for (size_t i = 0; i < samples; i += batch) {
        pare_ctx_progress(cx, "sampling calibration text from the model", (double)i,
                          (double)samples);
        const pare_generate_opts opts = {.temperature = temperature,
                                         .seed = seed,
                                         .first = i,
                                         .sequences = samples - i < batch ? samples - i : batch,
                                         .length = window};
        PARE_TRY(pare_generate(cx, scratch, f, &opts, 1, out->id + i * window, NULL, NULL));
    }
    return PARE_OK;
}

pare_status pare_tokens_windows(pare_ctx *cx, pare_arena *a, const pare_tokens *tokens,
                                size_t window, size_t samples, pare_pick pick, uint64_t seed,
                                pare_tokens *out)
{
    const size_t have = tokens->count / window;
    const size_t want = samples ? samples : have;
    if (have == 0)
        return pare_fail(cx, PARE_EUSAGE,
                         "the calibration data has %zu token%s, not one window of %zu; give %s",
                         tokens->count, pare_plural(tokens->count), window,
                         tokens->count < 2 ? "more data" : "more data or a smaller window");
    if (want > have)
        return pare_fail(cx, PARE_EUSAGE,
                         "asked for %zu windows of %zu tokens, the calibration data has %zu tokens "
                         "(%zu window%s); give more data, a smaller window, or samples: all",
                         want, window, tokens->count, have, pare_plural(have));
    size_t *const index = PARE_NEW(a, size_t, want);
    *out = (pare_tokens){.id = PARE_NEW(a, int32_t, want * window), .count = want * window};
    if (!index || !out->id)
        return PARE_ENOMEM;
    if (pick == PARE_PICK_DRAW && want < have)
        pare_random_choose(seed, pare_random_stream("calibration windows"), have, want, index);
    else
        for (size_t i = 0; i < want; i++)
            index[i] = i;
    for (size_t i = 0; i < want; i++)
        memcpy(out->id + i * window, tokens->id + index[i] * window, window * sizeof *out->id);
    return PARE_OK;
}

static int rising(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Different hashes, of which those stay that begin with `zeros` bits of 0: so many are kept that
 * there is room, and the choice does not depend on their order. */
typedef struct sketch {
    uint64_t *hash; /* [PARE_TOKENS_KEPT] at most */
    size_t count;
    unsigned zeros;
} sketch;

static bool is_kept(const sketch *s, uint64_t hash)
{
    return s->zeros == 0 || hash >> (64 - s->zeros) == 0;
}

static void drop_doubles(sketch *s)
{
    size_t kept = 0;
    qsort(s->hash, s->count, sizeof *s->hash, rising);
    for (size_t i = 0; i < s->count; i++)
        if (kept == 0 || s->hash[i] != s->hash[kept - 1])
            s->hash[kept++] = s->hash[i];
    s->count = kept;
}

static void make_room(sketch *s)
{
    drop_doubles(s);
    while (s->count > PARE_TOKENS_KEPT / 2) {
        s->zeros++; /* sorted: those that stay come first */
        while (s->count && !is_kept(s, s->hash[s->count - 1]))
            s->count--;
    }
}

pare_status pare_tokens_fresh(pare_arena *scratch, const pare_tokens *tokens, size_t window,
                              uint64_t *out)
{
    const pare_mark mark = pare_arena_mark(scratch);
    const size_t half = (window + 1) / 2, most = PARE_TOKENS_CONTEXT;
    const size_t context = half < most ? half : most;
    const size_t room = tokens->count < PARE_TOKENS_KEPT ? tokens->count : PARE_TOKENS_KEPT;
    sketch s = {.hash = PARE_NEW(scratch, uint64_t, room)};
    uint64_t count = 0;
    if (!s.hash)
        return PARE_ENOMEM;
    for (size_t i = 0; i < tokens->count; i++) {
        uint8_t wide[16];
        uint64_t hash;
        if (i % window + 1 < context)
            continue;
        pare_xxh3(tokens->id + i + 1 - context, context * sizeof *tokens->id, wide);
        memcpy(&hash, wide, sizeof hash);
        count++;
        if (!is_kept(&s, hash))
            continue;
        if (s.count == room)
            make_room(&s);
        if (is_kept(&s, hash))
            s.hash[s.count++] = hash;
    }
    make_room(&s); /* so that as many are kept as in any other order */
    const uint64_t all = (uint64_t)s.count << s.zeros, different = all < count ? all : count;
    *out = tokens->count / count * different + tokens->count % count * different / count;
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

uint64_t pare_tokens_fresh_bytes(uint64_t tokens)
{
    const uint64_t n = tokens < PARE_TOKENS_KEPT ? tokens : PARE_TOKENS_KEPT;
    return 2 * n * sizeof(uint64_t); /* qsort takes as much as it sorts */
}

/* Part of text i that is not yet given to it: below 0 when it has more. */
static double owed(const double *weight, double sum, size_t samples, size_t share, size_t i)
{
    return (double)samples * weight[i] / sum - (double)share;
}

void pare_tokens_share(const double *weight, size_t texts, size_t samples, size_t *share)
{
    double sum = 0.0;
    size_t given = 0;
    for (size_t i = 0; i < texts; i++)
        sum += weight[i];
    for (size_t i = 0; i < texts; i++)
        given += share[i] = (size_t)((double)samples * weight[i] / sum);
    for (; given < samples; given++) {
        size_t best = 0;
        for (size_t i = 1; i < texts; i++)
            if (owed(weight, sum, samples, share[i], i) >
                owed(weight, sum, samples, share[best], best))
                best = i;
        share[best]++;
    }
    for (size_t i = 0; i < texts; i++) {
        size_t most = 0;
        for (size_t j = 1; j < texts; j++)
            most = share[j] > share[most] ? j : most;
        if (share[i] == 0) {
            share[most]--;
            share[i]++;
        }
    }
}
