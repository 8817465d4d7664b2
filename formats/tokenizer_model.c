/* A SentencePiece tokenizer.model: a protobuf message of pieces, of what the trainer was told and
 * of how texts are normalized.
 *
 *     1 pieces*          1 text   2 score (float)   3 type (1 normal)
 *     2 trainer_spec     3 model_type (1 unigram)   24 treat_whitespace_as_suffix   35
 * byte_fallback 46 bos_piece   47 eos_piece 3 normalizer_spec  2 precompiled_charsmap   3
 * add_dummy_prefix   4 remove_extra_whitespaces 5 escape_whitespaces (all three true where absent)
 *     5 denormalizer_spec
 *
 * Other fields steer training and tests and are skipped. */
#include <math.h>
#include <string.h>

#include "formats/tokenizer_internal.h"
#include "formats/tokenizer_wire_internal.h"

enum { PIECES = 1, TRAINER = 2, NORMALIZER = 3, DENORMALIZER = 5 };
enum { UNIGRAM = 1, BPE = 2 };

typedef struct reader {
    pare_ctx *cx;
    pare_tokenizer *t;
    size_t count;
    uint64_t model_type;
    pare_tok_slice bos, eos;
    int32_t unknown;
} reader;

static pare_status read_flag(const pare_wire *w, const pare_wire_field *f, const char *name,
                             bool *out)
{
    PARE_TRY(pare__wire_expect(w, f, 0, name));
    *out = f->value != 0;
    return PARE_OK;
}

static pare_status read_text(const pare_wire *w, const pare_wire_field *f, const char *name,
                             pare_tok_slice *out)
{
    PARE_TRY(pare__wire_expect(w, f, 2, name));
    *out = f->text;
    return PARE_OK;
}

static pare_status read_trainer(reader *r, pare_wire w)
{
    pare_wire_field f;
    for (bool more;;) {
        PARE_TRY(pare__wire_next(&w, &f, &more));
        if (!more)
            return PARE_OK;
        switch (f.number) {
        case 3:
            PARE_TRY(pare__wire_expect(&w, &f, 0, "trainer_spec.model_type"));
            r->model_type = f.value;
            break;
        case 24:
            PARE_TRY(read_flag(&w, &f, "trainer_spec.treat_whitespace_as_suffix",
                               &r->t->sentence.suffix));
            break;
        case 35:
            PARE_TRY(read_flag(&w, &f, "trainer_spec.byte_fallback", &r->t->byte_fallback));
            break;
        case 46: PARE_TRY(read_text(&w, &f, "trainer_spec.bos_piece", &r->bos)); break;
        case 47: PARE_TRY(read_text(&w, &f, "trainer_spec.eos_piece", &r->eos)); break;
        default: break;
        }
    }
}

static pare_status read_normalizer(reader *r, pare_wire w)
{
    pare_tok_sentence *const how = &r->t->sentence;
    pare_tok_slice map = {0};
    pare_wire_field f;
    for (bool more;;) {
        PARE_TRY(pare__wire_next(&w, &f, &more));
        if (!more)
            break;
        switch (f.number) {
        case 2: PARE_TRY(read_text(&w, &f, "normalizer_spec.precompiled_charsmap", &map)); break;
        case 3:
            PARE_TRY(read_flag(&w, &f, "normalizer_spec.add_dummy_prefix", &how->dummy_prefix));
            break;
        case 4:
            PARE_TRY(read_flag(&w, &f, "normalizer_spec.remove_extra_whitespaces", &how->squeeze));
            break;
        case 5:
            PARE_TRY(read_flag(&w, &f, "normalizer_spec.escape_whitespaces", &how->escape));
            break;
        default: break;
        }
    }
    if (map.len == 0)
        return PARE_OK;
    char *const kept = pare_arena_text(&r->t->arena, map.at, map.len);
    if (!kept)
        return PARE_ENOMEM;
    return pare__charsmap_parse(r->cx, "normalizer_spec.precompiled_charsmap", kept, map.len,
                                &r->t->charsmap);
}

static pare_status refuse_denormalizer(reader *r, pare_wire w)
{
    pare_wire_field f;
    for (bool more;;) {
        PARE_TRY(pare__wire_next(&w, &f, &more));
        if (!more)
            return PARE_OK;
        if (f.number == 2 && (f.text.len || f.type != 2))
            return pare_fail(r->cx, PARE_ENOTSUP, "denormalizer_spec is not supported");
    }
}

/* Everything but the pieces, which are counted. */
static pare_status read_specs(reader *r, pare_wire w)
{
    static const char *const names[] = {"", "pieces",           "trainer_spec", "normalizer_spec",
                                        "", "denormalizer_spec"};
    pare_wire_field f;
    for (bool more;;) {
        PARE_TRY(pare__wire_next(&w, &f, &more));
        if (!more)
            return PARE_OK;
        if (f.number > DENORMALIZER || f.number == 4)
            continue;
        PARE_TRY(pare__wire_expect(&w, &f, 2, names[f.number]));
        r->count += f.number == PIECES;
        if (f.number == TRAINER)
            PARE_TRY(read_trainer(r, pare__wire_inside(&w, &f)));
        if (f.number == NORMALIZER)
            PARE_TRY(read_normalizer(r, pare__wire_inside(&w, &f)));
        if (f.number == DENORMALIZER)
            PARE_TRY(refuse_denormalizer(r, pare__wire_inside(&w, &f)));
    }
}

static bool is_text(pare_tok_slice s)
{
    bool valid = s.len > 0 && !memchr(s.at, '\0', s.len);
    for (size_t i = 0; i < s.len && valid;)
        i += pare__utf8_length(s.at + i, s.len - i, &valid);
    return valid;
}

static pare_status read_piece(reader *r, pare_wire w, size_t i)
{
    pare_tokenizer *const t = r->t;
    pare_tok_slice text = {0};
    uint64_t type = PARE_TOK_NORMAL;
    float score = 0;
    pare_wire_field f;
    for (bool more;;) {
        PARE_TRY(pare__wire_next(&w, &f, &more));
        if (!more)
            break;
        if (f.number == 1)
            PARE_TRY(read_text(&w, &f, "the text of a piece", &text));
        if (f.number == 2) {
            PARE_TRY(pare__wire_expect(&w, &f, 5, "the score of a piece"));
            const uint32_t bits = (uint32_t)f.value;
            memcpy(&score, &bits, sizeof score);
        }
        if (f.number == 3) {
            PARE_TRY(pare__wire_expect(&w, &f, 0, "the type of a piece"));
            type = f.value;
        }
    }
    if (!is_text(text) || !isfinite(score) || type < PARE_TOK_NORMAL || type > PARE_TOK_BYTE)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "piece %zu: a text in UTF-8, a finite score and a type of 1 to 6 expected",
                         i);
    text.at = pare_arena_text(&t->arena, text.at, text.len);
    if (!text.at)
        return PARE_ENOMEM;
    const pare_tok_entry *const other = pare__vocab_add(&t->vocab, text, (int32_t)i);
    if (other)
        return pare_fail(r->cx, PARE_EFORMAT, "piece %zu: '%.60s' is there already, as piece %ld",
                         i, text.at, (long)other->id);
    t->pieces.score[i] = (double)score;
    t->pieces.type[i] = (unsigned char)type;
    if (type == PARE_TOK_UNKNOWN && r->unknown >= 0)
        return pare_fail(r->cx, PARE_EFORMAT, "piece %zu: a second unknown piece", i);
    if (type == PARE_TOK_UNKNOWN)
        r->unknown = (int32_t)i;
    return PARE_OK;
}

static pare_status read_pieces(reader *r, pare_wire w)
{
    pare_tokenizer *const t = r->t;
    t->pieces.score = PARE_NEW(&t->arena, double, r->count);
    t->pieces.type = PARE_NEW(&t->arena, unsigned char, r->count);
    if (!t->pieces.score || !t->pieces.type)
        return PARE_ENOMEM;
    PARE_TRY(pare__vocab_init(&t->arena, &t->vocab, r->count));
    pare_wire_field f;
    for (size_t i = 0;;) {
        bool more;
        PARE_TRY(pare__wire_next(&w, &f, &more));
        if (!more)
            break;
        if (f.number == PIECES)
            PARE_TRY(read_piece(r, pare__wire_inside(&w, &f), i++));
    }
    t->size = r->count;
    return PARE_OK;
}

static pare_status check_model(reader *r)
{
    const pare_tokenizer *const t = r->t;
    if (r->model_type != UNIGRAM && r->model_type != BPE)
        return pare_fail(r->cx, PARE_ENOTSUP,
                         "trainer_spec.model_type %llu is not supported (1, unigram, and 2, BPE, "
                         "are)",
                         (unsigned long long)r->model_type);
    if (r->unknown < 0)
        return pare_fail(r->cx, PARE_EFORMAT, "none of %zu pieces is the unknown one", r->count);
    for (size_t b = 0; t->byte_fallback && b < 256; b++)
        if (t->fallback_ids[b] < 0)
            return pare_fail(r->cx, PARE_EFORMAT, "byte_fallback needs the piece <0x%02X>",
                             (unsigned)b);
    for (size_t i = 0; r->model_type == BPE && i < r->count; i++)
        if (t->pieces.type[i] == PARE_TOK_UNUSED)
            return pare_fail(r->cx, PARE_ENOTSUP,
                             "piece %zu is unused: that is not supported with BPE", i);
    return PARE_OK;
}

static int32_t control_id(const reader *r, pare_tok_slice text)
{
    const pare_tok_entry *const e = pare__vocab_by_text(&r->t->vocab, text.at, text.len);
    return e && r->t->pieces.type[e->id] == PARE_TOK_CONTROL ? e->id : -1;
}

static void set_decoder(pare_tokenizer *t)
{
    pare_tok_decoder *const d = &t->decoder;
    d->given = d->fuse = true;
    d->byte_fallback = t->byte_fallback;
    d->replaces = t->sentence.escape ? 1 : 0;
    d->replace[0] = (pare_tok_step){
        .kind = PARE_TOK_REPLACE, .pattern = {"\xe2\x96\x81", 3}, .content = {" ", 1}};
    if (!t->sentence.dummy_prefix && !t->sentence.squeeze)
        return;
    d->peel = d->replace[0].pattern;
    d->peel_each = t->sentence.squeeze;
}

static bool is_special(const pare_tokenizer *t, size_t piece)
{
    const unsigned type = t->pieces.type[piece];
    return type == PARE_TOK_CONTROL || type == PARE_TOK_UNKNOWN;
}

/* Control pieces and the unknown one are matched in the text as the special tokens of the same
 * model in a tokenizer.json are. */
static pare_status add_specials(reader *r, const pare_tok_added *more, size_t count)
{
    pare_tokenizer *const t = r->t;
    size_t n = count, specials = 0;
    for (size_t i = 0; i < r->count; i++)
        specials += is_special(t, i);
    pare_tok_added *const all = PARE_NEW(&t->arena, pare_tok_added, count + specials);
    if (!all)
        return PARE_ENOMEM;
    if (count)
        memcpy(all, more, count * sizeof *all);
    for (size_t i = 0; i < r->count; i++)
        if (is_special(t, i))
            all[n++] = (pare_tok_added){
                .content = t->vocab.entries[i].text, .id = (int32_t)i, .special = true};
    return pare__parse_added(r->cx, t, NULL, all, n);
}

pare_status pare__model_read(pare_ctx *cx, pare_tokenizer *t, const void *bytes, size_t len,
                             const pare_tok_added *more, size_t count)
{
    const unsigned char *const p = bytes;
    const pare_wire w = {cx, p, p, p + len};
    reader r = {.cx = cx,
                .t = t,
                .model_type = UNIGRAM,
                .bos = {"<s>", 3},
                .eos = {"</s>", 4},
                .unknown = -1};
    t->sentence = (pare_tok_sentence){.dummy_prefix = true, .squeeze = true, .escape = true};
    if (len == 0 || p[0] != (PIECES << 3 | 2))
        return pare_fail(cx, PARE_EFORMAT,
                         "not a SentencePiece model: those start with the byte 0x0a");
    PARE_TRY(read_specs(&r, w));
    PARE_TRY(read_pieces(&r, w));
    pare__ids_fill(t);
    PARE_TRY(check_model(&r));
    t->unk = r.unknown;
    t->bos = control_id(&r, r.bos);
    t->eos = control_id(&r, r.eos);
    t->around = (pare_tok_around){.front = {t->bos}, .fronts = t->bos >= 0};
    t->pieces.single = true;
    t->model = r.model_type == BPE ? PARE_TOK_SCORES : PARE_TOK_UNIGRAM;
    t->steps[t->step_count++].kind = PARE_TOK_SENTENCE;
    set_decoder(t);
    PARE_TRY(pare__pieces_sort(&t->arena, &t->vocab, &t->pieces));
    if (t->model == PARE_TOK_SCORES)
        PARE_TRY(pare__pieces_rank(&t->arena, &t->vocab, &t->pieces));
    return add_specials(&r, more, count);
}
