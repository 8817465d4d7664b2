/* Requests in tokens, as lm_eval's TemplateLM and HFLM make them of texts. */
#include <string.h>

#include "compress/evaluate/task_internal.h"
#include "formats/unicode.h"

typedef struct encoding {
    pare_ctx *cx;
    pare_arena *a;
    pare_arena work; /* rewound after each document */
    const pare_tokenizer *t;
    const char *path, *prefix_text; /* the latter: what BOS, or EOS, is written as */
    size_t most;
    int32_t prefix; /* BOS, or EOS; -1: neither */
    size_t room;    /* of items */
    pare_task_data *out;
} encoding;

typedef struct ids {
    const int32_t *id;
    size_t count;
} ids;

/* len bytes of a text with what the tokenizer puts around it; not where the text begins with BOS
 * already. */
static pare_status encode(encoding *e, const char *text, size_t len, ids *out)
{
    const pare_tok_around *const around = pare_tokenizer_around(e->t);
    const size_t mark = e->prefix_text ? strlen(e->prefix_text) : 0;
    const bool bare = mark && len >= mark && memcmp(text, e->prefix_text, mark) == 0;
    const size_t front = bare ? 0 : around->fronts, behind = bare ? 0 : around->behinds;
    int32_t *token;
    size_t count;
    PARE_TRY(pare_tokenizer_encode(e->cx, e->t, &e->work, text, len, &token, &count));
    int32_t *const id = PARE_NEW(&e->work, int32_t, front + count + behind);
    if (!id)
        return PARE_ENOMEM;
    for (size_t i = 0; i < front; i++)
        id[i] = around->front[i];
    if (count)
        memcpy(id + front, token, count * sizeof *id);
    for (size_t i = 0; i < behind; i++)
        id[front + count + i] = around->behind[i];
    *out = (ids){id, front + count + behind};
    return PARE_OK;
}

static pare_status fail(const encoding *e, size_t line, const char *reason)
{
    return pare_fail(e->cx, PARE_EFORMAT, "%s:%zu: %s", e->path, line, reason);
}

/* Copies of the last `take` of context, and of choices. */
static pare_status put_item(encoding *e, size_t line, ids context, size_t take, const ids *choice,
                            size_t choices)
{
    pare_task_data *const d = e->out;
    if (d->items == e->room) {
        const size_t room = e->room ? 2 * e->room : 64;
        pare_choice_item *const more = PARE_NEW(e->a, pare_choice_item, room);
        if (!more)
            return PARE_ENOMEM;
        if (d->items)
            memcpy(more, d->item, d->items * sizeof *more);
        d->item = more;
        e->room = room;
    }
    size_t tokens = take;
    for (size_t c = 0; c < choices; c++)
        tokens += choice[c].count;
    int32_t *at = PARE_NEW(e->a, int32_t, tokens);
    const int32_t **const list = PARE_NEW(e->a, const int32_t *, choices);
    size_t *const count = PARE_NEW(e->a, size_t, 2 * choices);
    if (!at || !list || !count)
        return PARE_ENOMEM;
    pare_choice_item *const out = &d->item[d->items++];
    *out = (pare_choice_item){.context = at,
                              .context_count = take,
                              .choice = list,
                              .choice_count = count,
                              .choice_bytes = count + choices,
                              .choices = choices,
                              .line = line};
    memcpy(at, context.id + context.count - take, take * sizeof *at);
    at += take;
    for (size_t c = 0; c < choices; c++) {
        memcpy(at, choice[c].id, choice[c].count * sizeof *at);
        list[c] = at;
        at += choice[c].count;
        count[c] = choice[c].count;
        count[choices + c] = 1; /* of no use: scores are divided by code points */
        d->longest = take + count[c] > d->longest ? take + count[c] : d->longest;
    }
    d->values += choices;
    return PARE_OK;
}

/* The tokens of context + choice behind as many as the context has. */
static pare_status encode_choice(encoding *e, const pare_choice_text *t, size_t c, ids context,
                                 ids *out)
{
    const char *const whole = pare__task_joined(&e->work, t->context, t->choice[c], (char *)NULL);
    ids all;
    if (!whole)
        return PARE_ENOMEM;
    PARE_TRY(encode(e, whole, strlen(whole), &all));
    if (all.count <= context.count)
        return fail(e, t->line, "a choice adds no tokens to its context");
    *out = (ids){all.id + context.count, all.count - context.count};
    return out->count <= e->most ? PARE_OK
                                 : pare_fail(e->cx, PARE_EFORMAT,
                                             "%s:%zu: choice %zu has %zu tokens, and the model's "
                                             "context is %zu",
                                             e->path, t->line, c, out->count, e->most);
}

/* One item, or one for each choice where one does not fit behind the whole context: the last token
 * of a choice is only predicted. */
static pare_status put_request(encoding *e, const pare_choice_text *t)
{
    const char *from = t->context, *to = from + strlen(from);
    ids context, choice[PARE__CHOICES_MAX];
    bool fits = true;
    pare_unicode_strip(&from, &to); /* only the end counts: white space in front stays */
    const size_t len = from < to ? (size_t)(to - t->context) : 0;
    PARE_TRY(encode(e, t->context, len, &context));
    if (!context.count)
        return fail(e, t->line, "the context has no tokens");
    for (size_t c = 0; c < t->choices; c++) {
        PARE_TRY(encode_choice(e, t, c, context, &choice[c]));
        fits &= context.count + choice[c].count <= e->most + 1;
    }
    e->out->cut += !fits;
    if (fits)
        return put_item(e, t->line, context, context.count, choice, t->choices);
    for (size_t c = 0; c < t->choices; c++) {
        const size_t room = e->most + 1 - choice[c].count;
        PARE_TRY(put_item(e, t->line, context, room < context.count ? room : context.count,
                          &choice[c], 1));
    }
    return PARE_OK;
}

/* All tokens of a page are predicted once: the first window behind BOS (or EOS), the next ones
 * behind the token in front, the last one behind as many as fit. */
static pare_status put_page(encoding *e, const pare_choice_text *t)
{
    ids all;
    PARE_TRY(encode(e, t->choice[0], strlen(t->choice[0]), &all));
    if (!all.count)
        return fail(e, t->line, "the page has no tokens");
    if (e->prefix < 0)
        return fail(e, t->line,
                    "pages need a BOS or EOS token in front, and the tokenizer has "
                    "neither");
    for (size_t done = 0; done < all.count;) {
        const size_t left = all.count - done, take = left < e->most ? left : e->most;
        const size_t back = done ? e->most - take + 1 : 1;
        const ids context = done ? (ids){all.id + done - back, back} : (ids){&e->prefix, 1};
        const ids next = {all.id + done, take};
        PARE_TRY(put_item(e, t->line, context, back, &next, 1));
        done += take;
    }
    return PARE_OK;
}

/* A prompt in front of what a model writes. */
static pare_status put_prompt(encoding *e, const pare_choice_text *t)
{
    const size_t most = e->most > PARE__TASK_WRITTEN ? e->most - PARE__TASK_WRITTEN : 0;
    ids all;
    if (!most)
        return pare_fail(e->cx, PARE_EUSAGE,
                         "%s: a model writes %d tokens for an answer, and the context of this one "
                         "is %zu",
                         e->out->texts.task->name, PARE__TASK_WRITTEN, e->most);
    PARE_TRY(encode(e, t->context, strlen(t->context), &all));
    if (!all.count)
        return fail(e, t->line, "the prompt has no tokens");
    const size_t take = all.count < most ? all.count : most;
    e->out->cut += take < all.count;
    if (take + PARE__TASK_WRITTEN > e->out->longest)
        e->out->longest = take + PARE__TASK_WRITTEN;
    return put_item(e, t->line, all, take, NULL, 0);
}

static pare_status put_doc(encoding *e, pare_task_doc *doc)
{
    pare_task_data *const d = e->out;
    const size_t first = d->items, cut = d->cut;
    doc->value = d->values;
    for (size_t i = 0; i < doc->count; i++) {
        const pare_choice_text *const t = &d->texts.request.item[doc->first + i];
        PARE_TRY(d->texts.task->kind == PARE__TASK_PAGE     ? put_page(e, t)
                 : d->texts.task->kind == PARE__TASK_ANSWER ? put_prompt(e, t)
                                                            : put_request(e, t));
    }
    d->cut = d->cut > cut ? cut + 1 : cut; /* of its requests, one or more */
    doc->first = first;
    doc->count = d->items - first;
    return PARE_OK;
}

/* A token that has a text also where decoders strip what stands in front of a text; -1: none. */
static pare_status find_front(encoding *e, size_t count, int32_t *id, size_t *len)
{
    const pare_mark mark = pare_arena_mark(&e->work);
    char *text;
    *len = 0;
    for (*id = 0; (size_t)*id < count; ++*id) {
        PARE_TRY(pare_tokenizer_decode(e->cx, e->t, &e->work, id, 1, &text, len));
        pare_arena_rewind(&e->work, mark);
        if (*len)
            return PARE_OK;
    }
    *id = -1;
    return PARE_OK;
}

/* The texts of all tokens behind token `front`, whose own text has `skip` bytes; front below 0: in
 * front of a text. Their sizes first. */
static pare_status take_pieces(encoding *e, int32_t front, size_t skip, pare_task_pieces *p)
{
    const size_t count = pare_tokenizer_vocab(e->t);
    const pare_mark mark = pare_arena_mark(&e->work);
    size_t *const start = PARE_NEW(e->a, size_t, count + 1), len;
    char *text, *all = NULL;
    if (!start)
        return PARE_ENOMEM;
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < count; i++) {
            const int32_t id[] = {front, (int32_t)i};
            const size_t alone = front < 0;
            PARE_TRY(
                pare_tokenizer_decode(e->cx, e->t, &e->work, id + alone, 2 - alone, &text, &len));
            len = len > skip ? len - skip : 0;
            if (all && len)
                memcpy(all + start[i], text + skip, len);
            start[i + 1] = start[i] + len;
            pare_arena_rewind(&e->work, mark);
        }
        if (!all)
            all = PARE_NEW(e->a, char, start[count]);
        if (!all)
            return PARE_ENOMEM;
    }
    p->text = all;
    p->start = start;
    p->count = count;
    return PARE_OK;
}

const char *pare__task_piece(const pare_task_data *d, int32_t token, bool first, size_t *len)
{
    const pare_task_pieces *const p = first ? &d->first : &d->next;
    if (token < 0 || (size_t)token >= p->count) {
        *len = 0;
        return "";
    }
    *len = p->start[token + 1] - p->start[token];
    return p->text + p->start[token];
}

static pare_status take_written(encoding *e)
{
    pare_task_data *const d = e->out;
    const int32_t eos = pare_tokenizer_eos(e->t);
    int32_t front;
    size_t len;
    char *text;
    PARE_TRY(find_front(e, pare_tokenizer_vocab(e->t), &front, &len));
    PARE_TRY(take_pieces(e, -1, 0, &d->first));
    PARE_TRY(take_pieces(e, front, len, &d->next));
    if (eos < 0)
        return PARE_OK;
    PARE_TRY(pare_tokenizer_decode(e->cx, e->t, e->a, &eos, 1, &text, &len));
    d->end_text = text;
    return PARE_OK;
}

static pare_status encode_all(encoding *e)
{
    const int32_t bos = pare_tokenizer_bos(e->t);
    char *text = NULL;
    size_t len = 0;
    e->prefix = bos >= 0 ? bos : pare_tokenizer_eos(e->t);
    if (e->prefix >= 0)
        PARE_TRY(pare_tokenizer_decode(e->cx, e->t, e->a, &e->prefix, 1, &text, &len));
    e->prefix_text = text;
    if (e->out->texts.task->kind == PARE__TASK_ANSWER)
        PARE_TRY(take_written(e));
    for (size_t i = 0; i < e->out->texts.docs; i++) {
        const pare_mark mark = pare_arena_mark(&e->work);
        PARE_TRY(put_doc(e, &e->out->texts.doc[i]));
        pare_arena_rewind(&e->work, mark);
    }
    return PARE_OK;
}

pare_status pare_task_encode(pare_ctx *cx, pare_arena *a, const pare_tokenizer *t, size_t most,
                             const char *path, pare_task_data *data)
{
    encoding e = {
        .cx = cx, .a = a, .work = {.cx = cx}, .t = t, .path = path, .most = most, .out = data};
    const pare_status s = encode_all(&e);
    pare_arena_release(&e.work);
    return s;
}

pare_status pare_task_load(pare_ctx *cx, pare_arena *a, const pare_checkpoint *ck, size_t most,
                           const pare_task_asked *asked, pare_task_data *out)
{
    pare_tokenizer *t;
    *out = (pare_task_data){0};
    PARE_TRY(pare_task_read(cx, a, asked, &out->texts));
    PARE_TRY(pare_checkpoint_tokenizer(ck, &t));
    const pare_status s = pare_task_encode(cx, a, t, most, asked->file, out);
    pare_tokenizer_free(t);
    pare_memory_trim();
    return s;
}
