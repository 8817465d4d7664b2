/* Unigram: of all ways to spell a word with pieces, the one with the largest sum of scores.
 *
 *     best(j) = max over pieces x[i..j] of best(i) + score(piece),   best(0) = 0
 *
 * A character that is no piece counts as the unknown token with the least score - 10. Of equal sums
 * the one found first stays: the piece that starts further left. Where no piece reaches across a
 * place, the path up to it is settled, given out and forgotten; its sum is carried on, so sums are
 * the same as over the whole word.
 *
 * Source   Kudo, ACL 2018, section 3.2; penalty and ties as in the published program. Its sums are
 *          in single precision for a tokenizer.model, in double for a tokenizer.json. */
#include <string.h>

#include "formats/tokenizer_encode_internal.h"

static const double unknown_penalty = 10;

/* A run of characters without a piece: its bytes when all have tokens, else one unknown token. */
pare_status pare__encode_unknown(pare_tok_encoder *e)
{
    const pare_tokenizer *const t = e->t;
    const pare_tok_slice run = e->unknown;
    bool falls_back = t->byte_fallback;
    e->unknown.len = 0;
    if (run.len == 0)
        return PARE_OK;
    for (size_t i = 0; i < run.len && falls_back; i++)
        falls_back = t->fallback_ids[(unsigned char)run.at[i]] >= 0;
    for (size_t i = 0; i < run.len && falls_back; i++)
        PARE_TRY(pare__encode_id(e, t->fallback_ids[(unsigned char)run.at[i]]));
    if (falls_back)
        return PARE_OK;
    if (t->unk < 0)
        return pare_fail(e->cx, PARE_EFORMAT,
                         "tokenizer: a character has no token and the model has no unk_id");
    return pare__encode_id(e, t->unk);
}

pare_status pare__encode_piece(pare_tok_encoder *e, pare_tok_slice text, int32_t id)
{
    if (id < 0) {
        e->unknown =
            e->unknown.len ? (pare_tok_slice){e->unknown.at, e->unknown.len + text.len} : text;
        return PARE_OK;
    }
    PARE_TRY(pare__encode_unknown(e));
    return pare__encode_id(e, id);
}

/* Nodes are places of the word from `base` on; node i of the list is place base + i. */
typedef struct lattice {
    pare_tok_encoder *e;
    pare_tok_slice word;
    size_t base, reach; /* reach: the last node that a piece ends at */
} lattice;

static pare_status offer(lattice *l, size_t from, size_t to, double score,
                         const pare_tok_entry *piece)
{
    pare_tok_encoder *const e = l->e;
    double sum = e->places[from].sum + score;
    if (e->t->pieces.single)
        sum = (double)(float)sum;
    PARE_TRY(pare__reserve(e, (void **)&e->places, &e->place_capacity, l->reach + 1, to + 1,
                           sizeof *e->places));
    while (l->reach < to)
        e->places[++l->reach].from = SIZE_MAX;
    pare_tok_place *const p = &e->places[to];
    if (p->from != SIZE_MAX && sum <= p->sum)
        return PARE_OK;
    p->from = from;
    p->sum = sum;
    p->piece = piece;
    return PARE_OK;
}

/* Pieces that start at node `from`. *step becomes the bytes of the character there. */
static pare_status extend(lattice *l, size_t from, size_t *step)
{
    const pare_tokenizer *const t = l->e->t;
    const pare_tok_pieces *const p = &t->pieces;
    const char *const at = l->word.at + l->base + from;
    const size_t left = l->word.len - l->base - from;
    pare_tok_range r = {0, p->normal.count, 0};
    const pare_tok_entry *piece;
    bool alone = false;
    uint32_t c;
    *step = pare__utf8_read(at, &c);
    for (size_t i = 0; i < left && pare__sorted_step(&p->normal, &r, (unsigned char)at[i], &piece);
         i++) {
        if (!piece)
            continue;
        double score = p->score[piece - t->vocab.entries];
        if (pare__pieces_type(&t->vocab, p, piece) == PARE_TOK_USER)
            score = (double)((float)((double)((float)(i + 1) * (float)p->most) - 0.1));
        alone = alone || i + 1 == *step;
        PARE_TRY(offer(l, from, from + i + 1, score, piece));
    }
    if (alone)
        return PARE_OK;
    const double unknown = p->least - unknown_penalty;
    return offer(l, from, from + *step, p->single ? (double)(float)unknown : unknown, NULL);
}

/* Gives out the path to node `end`, which every path passes, and starts anew there. */
static pare_status settle(lattice *l, size_t end)
{
    pare_tok_encoder *const e = l->e;
    pare_tok_place *const p = e->places;
    const double sum = p[end].sum;
    size_t next = SIZE_MAX;
    for (size_t at = end; at != SIZE_MAX;) {
        const size_t from = at ? p[at].from : SIZE_MAX;
        p[at].from = next; /* links now lead forward */
        next = at;
        at = from;
    }
    for (size_t at = 0; at < end; at = p[at].from) {
        const pare_tok_entry *const piece = p[p[at].from].piece;
        const pare_tok_slice text = {l->word.at + l->base + at, p[at].from - at};
        PARE_TRY(pare__encode_piece(e, text, piece ? piece->id : -1));
    }
    l->base += end;
    l->reach = 0;
    p[0] = (pare_tok_place){.sum = sum};
    return PARE_OK;
}

pare_status pare__encode_unigram(pare_tok_encoder *e, pare_tok_slice word)
{
    lattice l = {.e = e, .word = word};
    PARE_TRY(pare__reserve(e, (void **)&e->places, &e->place_capacity, 0, 1, sizeof *e->places));
    e->places[0] = (pare_tok_place){.sum = 0};
    for (size_t at = 0, step; l.base + at < word.len; at += step) {
        if (at && at == l.reach) {
            PARE_TRY(settle(&l, at));
            at = 0;
        }
        PARE_TRY(extend(&l, at, &step));
    }
    PARE_TRY(settle(&l, l.reach));
    return pare__encode_unknown(e);
}
