/* Tasks whose answers a model writes itself: gsm8k, as lm_eval's file of it has them. Greedy
 * decoding up to a word that ends an answer, an end token, or 256 tokens. Documents whose prompts
 * have the same number of tokens run together. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "compress/evaluate/evaluate_internal.h"
#include "compress/evaluate/task_internal.h"
#include "runtime/sample.h"

/* ROOM: of the text of an answer, more than any vocabulary fills in use. */
enum { TOGETHER = 16, ROOM = 256 * PARE__TASK_WRITTEN + 1 };

/* Returned by what looks on while a model writes, when all have ended. */
static const pare_status enough = (pare_status)1;

static const char *const stops[] = {"Question:", "</s>", "<|im_end|>"};
enum { STOPS = sizeof stops / sizeof *stops };

bool pare__task_cut(char *text, const char *end_text)
{
    bool found = false;
    for (size_t i = 0; i <= STOPS; i++) {
        const char *const stop = i < STOPS ? stops[i] : end_text;
        char *const at = stop && *stop ? strstr(text, stop) : NULL;
        if (at)
            *at = '\0';
        found |= at != NULL;
    }
    return found;
}

/* "#### " and a number: the first that is there. Returns its length; 0: there is none. */
static size_t find_strict(const char *text, const char **from)
{
    for (const char *at = text; (at = strstr(at, "#### ")); at++) {
        const size_t sign = at[5] == '-', digits = strspn(at + 5 + sign, "0123456789.,");
        *from = at + 5;
        if (digits)
            return sign + digits;
    }
    return 0;
}

/* The last of: two or more of digits and $ . , or digits alone, each behind a minus or not. */
static size_t find_flexible(const char *text, const char **from)
{
    size_t found = 0;
    for (const char *at = text; *at;) {
        const size_t sign = *at == '-';
        const size_t mixed = strspn(at + sign, "$0123456789.,");
        const size_t digits = strspn(at + sign, "0123456789");
        const size_t len = mixed >= 2 ? mixed : digits;
        if (len) {
            *from = at;
            found = sign + len;
        }
        at += len ? sign + len : 1;
    }
    return found;
}

/* What is compared: without , and $, what stands in front of the last "#### " and a dot at the
 * end; small letters. In place. */
static void normalize(char *text)
{
    char *out = text, *last = NULL;
    for (const char *at = text; *at; at++)
        if (*at != ',' && *at != '$')
            *out++ = (char)tolower((unsigned char)*at);
    *out = '\0';
    for (char *at = text; (at = strstr(at, "#### ")); at++)
        last = at + 5;
    if (last)
        memmove(text, last, strlen(last) + 1);
    const size_t len = strlen(text), tail = len && text[len - 1] == '\n';
    if (len > tail && text[len - 1 - tail] == '.')
        memmove(text + len - 1 - tail, text + len - tail, tail + 1);
}

static bool is_answer(pare_arena *a, const char *from, size_t len, const char *reference,
                      bool *right)
{
    static const char none[] = "[invalid]";
    char *const text = len ? pare_arena_text(a, from, len) : pare_arena_text(a, none, strlen(none));
    if (!text)
        return false;
    normalize(text);
    *right = strcmp(text, reference) == 0;
    return true;
}

pare_status pare__task_answer(pare_arena *a, const char *written, const char *answer,
                              unsigned char *verdict)
{
    const pare_mark mark = pare_arena_mark(a);
    char *const reference = pare_arena_text(a, answer, strlen(answer));
    const char *from = NULL;
    bool strict = false, flexible = false;
    if (!reference)
        return PARE_ENOMEM;
    normalize(reference);
    const size_t first = find_strict(written, &from);
    if (!is_answer(a, from, first, reference, &strict))
        return PARE_ENOMEM;
    const size_t last = find_flexible(written, &from);
    if (!is_answer(a, from, last, reference, &flexible))
        return PARE_ENOMEM;
    *verdict = (unsigned char)(PARE_CHOICE_ASKED | (strict ? PARE_CHOICE_RIGHT : 0) |
                               (flexible ? PARE_CHOICE_RIGHT_NORM : 0));
    pare_arena_rewind(a, mark);
    return PARE_OK;
}

/* Documents that write together. */
typedef struct writing {
    pare_ctx *cx;
    pare_arena work; /* of one batch */
    const pare_forward *f;
    const pare_task_data *data;
    const size_t *member; /* [count] documents */
    size_t count, prompt, length;
    int32_t *tokens; /* [count, length] */
    char *text;      /* [count, ROOM] what they wrote */
    size_t len[TOGETHER], ended;
    bool end[TOGETHER];
} writing;

/* Adds the text of a token. Bytes of 0 would end it. */
static pare_status add_token(writing *w, size_t i, int32_t token, bool first)
{
    char *const text = w->text + i * ROOM;
    size_t len;
    const char *const piece = pare__task_piece(w->data, token, first, &len);
    if (len >= ROOM - w->len[i])
        return pare_fail(w->cx, PARE_EFORMAT, "an answer of more than %d bytes", ROOM - 1);
    for (size_t at = 0; at < len; at++)
        text[w->len[i]++] = (char)(piece[at] ? piece[at] : 1);
    text[w->len[i]] = '\0';
    return PARE_OK;
}

static pare_status note(void *self, size_t position)
{
    writing *const w = self;
    for (size_t i = 0; i < w->count; i++) {
        const int32_t token = w->tokens[i * w->length + position];
        if (w->end[i])
            continue;
        w->end[i] = pare_is_end(&w->f->model->config, token);
        if (!w->end[i]) {
            PARE_TRY(add_token(w, i, token, position == w->prompt));
            w->end[i] = pare__task_cut(w->text + i * ROOM, w->data->end_text);
        }
        w->ended += w->end[i];
    }
    return w->ended == w->count ? enough : PARE_OK;
}

static pare_status take_batch(writing *w)
{
    w->prompt = w->data->item[w->member[0]].context_count;
    w->length = w->prompt + PARE__TASK_WRITTEN;
    w->tokens = pare_arena_take(&w->work, w->count, w->length * sizeof *w->tokens);
    w->text = pare_arena_take(&w->work, w->count, ROOM);
    if (!w->tokens || !w->text)
        return PARE_ENOMEM;
    for (size_t i = 0; i < w->count; i++)
        memcpy(w->tokens + i * w->length, w->data->item[w->member[i]].context,
               w->prompt * sizeof *w->tokens);
    return PARE_OK;
}

static pare_status write_batch(writing *w)
{
    const pare_mark mark = pare_arena_mark(&w->work);
    PARE_TRY(take_batch(w));
    const pare_generate_opts opts = {
        .sequences = w->count, .length = w->length, .stop_at_eos = true};
    const pare_status s =
        pare_generate(w->cx, &w->work, w->f, &opts, w->prompt, w->tokens, note, w);
    if (s != enough)
        PARE_TRY(s);
    for (size_t i = 0; i < w->count; i++) {
        const size_t doc = w->member[i];
        const char *const answer = w->data->texts.request.item[doc].choice[0] + 1; /* a space */
        PARE_TRY(
            pare__task_answer(&w->work, w->text + i * ROOM, answer, w->data->item[doc].verdict));
    }
    pare_arena_rewind(&w->work, mark);
    return PARE_OK;
}

typedef struct place {
    size_t length, doc;
} place;

static int shorter(const void *a, const void *b)
{
    const place *const p = a, *const r = b;
    if (p->length != r->length)
        return p->length < r->length ? -1 : 1;
    return (p->doc > r->doc) - (p->doc < r->doc);
}

/* Documents, prompts of equal length together. */
static pare_status sort(pare_arena *a, const pare_task_data *d, size_t **order)
{
    place *const p = PARE_NEW(a, place, d->items);
    *order = PARE_NEW(a, size_t, d->items);
    if (!p || !*order)
        return PARE_ENOMEM;
    for (size_t i = 0; i < d->items; i++)
        p[i] = (place){d->item[i].context_count, i};
    qsort(p, d->items, sizeof *p, shorter);
    for (size_t i = 0; i < d->items; i++)
        (*order)[i] = p[i].doc;
    return PARE_OK;
}

static pare_status write_all(pare_ctx *cx, pare_arena *work, const pare_forward *f,
                             const pare_task_data *d)
{
    static const char step[] = "answering questions";
    const pare_model *const m = f->model;
    size_t *order;
    PARE_TRY(sort(work, d, &order));
    pare_ctx_progress(cx, step, 0, (double)d->items);
    for (size_t i = 0, n = 0; i < d->items; i += n) {
        const size_t prompt = d->item[order[i]].context_count;
        const size_t most =
            pare__eval_together(&m->config, &m->kv, prompt + PARE__TASK_WRITTEN, TOGETHER);
        writing w = {.cx = cx, .work = {.cx = cx}, .f = f, .data = d, .member = order + i};
        for (n = 0; n < most && i + n < d->items; n++)
            if (d->item[order[i + n]].context_count != prompt)
                break;
        w.count = n;
        const pare_status s = write_batch(&w);
        pare_arena_release(&w.work);
        PARE_TRY(s);
        pare_ctx_progress(cx, step, (double)(i + n), (double)d->items);
    }
    return PARE_OK;
}

uint64_t pare_task_write_bytes(const pare_ctx *cx, const pare_eval_side *side, size_t items,
                               size_t longest)
{
    enum { PREFILL = 2048, OF_TOKEN = 64 };
    const pare_config *const c = side->config;
    const size_t least = c->context < PARE__TASK_WRITTEN + 1 ? PARE__TASK_WRITTEN + 1 : c->context;
    const size_t room = least - PARE__TASK_WRITTEN, prompt = longest < room ? longest : room;
    const size_t length = prompt + PARE__TASK_WRITTEN;
    const size_t n = pare__eval_together(c, side->kv, length, items < TOGETHER ? items : TOGETHER);
    const size_t most = PREFILL / n, chunk = prompt < most ? prompt : most;
    const pare_batch widest = {n, chunk, length - chunk};
    const uint64_t caches = (uint64_t)c->blocks * pare_kv_bytes(c, side->kv, n, length);
    const uint64_t rows = (uint64_t)n * (chunk + 1) * c->hidden * sizeof(float);
    const uint64_t texts = (uint64_t)n * ROOM + c->vocab * OF_TOKEN;
    return caches + rows + (uint64_t)n * c->vocab * sizeof(float) + texts +
           pare_block_forward_scratch(cx, c, widest);
}

pare_status pare__task_write(pare_ctx *cx, const pare_forward *f, const pare_task_data *data)
{
    pare_arena work = {.cx = cx};
    const pare_status s = write_all(cx, &work, f, data);
    pare_arena_release(&work);
    return s;
}
