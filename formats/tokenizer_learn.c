/* Merges learned from counted words, by a heap of candidates that are looked at again when they
 * come out.
 *
 *     words      symbols of the words one behind another; a word shrinks in place
 *     pairs      neighbours that were ever seen, with their counts
 *     heap       candidates: a pair, the count it had, the words that have it
 *     lists      those words, ascending, one list for each candidate
 *
 * A candidate whose count is no longer that of its pair goes back with the right one, so that only
 * counts that grew need a new candidate. A merge walks over the words of its list; each pair that
 * gains there is noted with the word, and the notes become the lists of new candidates.
 *
 * Work: a word is walked over once for each merge that changes it, so at most as often as it has
 * symbols; each change costs a look into the table of pairs. */
#include "formats/tokenizer_learn_internal.h"

#include <string.h>

enum { REPORT = 64 }; /* merges between two reports of progress */

/* An array in an arena of its own: what it was before it grew is freed. */
typedef struct array {
    pare_arena arena;
    void *at;
    size_t capacity;
} array;

typedef struct word {
    uint32_t at, len; /* in symbols */
    int64_t count;
} word;

typedef struct pair {
    pare_tok_join ids;
    int64_t count;
    uint32_t gain; /* index into gains; of this step when that names the pair */
} pair;

/* A pair that gains in this step. */
typedef struct gain {
    uint32_t pair, last; /* the last word it was noted with */
    size_t words, at;    /* their number, and where the next one goes in the lists */
} gain;

typedef struct note {
    uint32_t gain, word;
} note;

typedef struct candidate {
    int64_t count;
    pare_tok_join ids;
    uint32_t pair, words;
    size_t at; /* of its list */
} candidate;

typedef struct learner {
    pare_ctx *cx;
    pare_tok_vocab *tokens;
    word *words;
    int32_t *symbols;
    array slots, pairs, gains, notes, heap, lists, joins;
    size_t slot_mask, pair_count, gain_count, note_count, heap_count, list_count, join_count;
    size_t listed; /* words in lists of candidates that still wait */
} learner;

static pare_status grow(pare_ctx *cx, array *b, size_t used, size_t need, size_t size)
{
    if (need <= b->capacity)
        return PARE_OK;
    const size_t room = need < 512 ? 1024 : need > SIZE_MAX / 2 ? need : need + need / 2;
    pare_arena fresh = {.cx = cx};
    void *const at = pare_arena_take_raw(&fresh, room, size);
    if (!at)
        return PARE_ENOMEM;
    if (used)
        memcpy(at, b->at, used * size);
    pare_arena_release(&b->arena);
    *b = (array){fresh, at, room};
    return PARE_OK;
}

static void release(array *b)
{
    pare_arena_release(&b->arena);
}

/* The slot of a pair in the table: it holds the index plus one, or 0. */
static uint32_t *slot_of(const learner *l, pare_tok_join ids)
{
    const pair *const pairs = l->pairs.at;
    uint32_t *const slots = l->slots.at;
    uint64_t x =
        ((uint64_t)(uint32_t)ids.left << 32 | (uint32_t)ids.right) * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 32;
    for (size_t i = (size_t)x & l->slot_mask;; i = (i + 1) & l->slot_mask) {
        const pair *const p = slots[i] ? &pairs[slots[i] - 1] : NULL;
        if (!p || (p->ids.left == ids.left && p->ids.right == ids.right))
            return &slots[i];
    }
}

/* Twice the slots, at most half of them full. */
static pare_status enlarge(learner *l)
{
    const size_t slots = l->slot_mask ? 2 * (l->slot_mask + 1) : 1 << 12;
    const pair *const pairs = l->pairs.at;
    if (slots > UINT32_MAX)
        return pare_fail(l->cx, PARE_ENOMEM, "%zu pairs of tokens", l->pair_count);
    release(&l->slots);
    l->slots = (array){.arena = {.cx = l->cx}};
    l->slots.at = PARE_NEW(&l->slots.arena, uint32_t, slots);
    if (!l->slots.at)
        return PARE_ENOMEM;
    l->slot_mask = slots - 1;
    for (size_t i = 0; i < l->pair_count; i++)
        *slot_of(l, pairs[i].ids) = (uint32_t)i + 1;
    return PARE_OK;
}

static pare_status find_pair(learner *l, pare_tok_join ids, pair **out)
{
    if (2 * l->pair_count >= l->slot_mask)
        PARE_TRY(enlarge(l));
    uint32_t *const slot = slot_of(l, ids);
    if (!*slot) {
        PARE_TRY(grow(l->cx, &l->pairs, l->pair_count, l->pair_count + 1, sizeof(pair)));
        ((pair *)l->pairs.at)[l->pair_count++] = (pair){.ids = ids};
        *slot = (uint32_t)l->pair_count;
    }
    *out = (pair *)l->pairs.at + *slot - 1;
    return PARE_OK;
}

/* The pair is gone from a place of the word. */
static pare_status lose(learner *l, int32_t left, int32_t right, int64_t count)
{
    pair *p;
    PARE_TRY(find_pair(l, (pare_tok_join){left, right}, &p));
    p->count -= count;
    return PARE_OK;
}

/* The pair has come up at a place of the word. *index: of its gain; *fresh: not yet in this word.
 * Words come in ascending order. */
static pare_status gain_pair(learner *l, pare_tok_join ids, int64_t count, uint32_t at,
                             uint32_t *index, bool *fresh)
{
    pair *p;
    PARE_TRY(find_pair(l, ids, &p));
    p->count += count;
    const uint32_t number = (uint32_t)(p - (pair *)l->pairs.at);
    gain *g = p->gain < l->gain_count ? (gain *)l->gains.at + p->gain : NULL;
    *fresh = !g || g->pair != number;
    if (*fresh) {
        PARE_TRY(grow(l->cx, &l->gains, l->gain_count, l->gain_count + 1, sizeof *g));
        p->gain = (uint32_t)l->gain_count;
        g = (gain *)l->gains.at + l->gain_count++;
        *g = (gain){.pair = number};
    } else {
        *fresh = g->last != at;
    }
    *index = p->gain;
    g->last = at;
    g->words += *fresh;
    return PARE_OK;
}

/* The same, noted. */
static pare_status win(learner *l, int32_t left, int32_t right, int64_t count, uint32_t at)
{
    uint32_t index;
    bool fresh;
    PARE_TRY(gain_pair(l, (pare_tok_join){left, right}, count, at, &index, &fresh));
    if (!fresh)
        return PARE_OK;
    PARE_TRY(grow(l->cx, &l->notes, l->note_count, l->note_count + 1, sizeof(note)));
    ((note *)l->notes.at)[l->note_count++] = (note){index, at};
    return PARE_OK;
}

/* The one that merges first. */
static bool before(const candidate *a, const candidate *b)
{
    if (a->count != b->count)
        return a->count > b->count;
    return a->ids.left != b->ids.left ? a->ids.left < b->ids.left : a->ids.right < b->ids.right;
}

static void sift_up(candidate *heap, size_t i)
{
    const candidate c = heap[i];
    for (; i > 0 && before(&c, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = c;
}

/* Puts `c` where the top was. */
static void sift_down(candidate *heap, size_t count, candidate c)
{
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &c))
            break;
        heap[i] = heap[child];
    }
    heap[i] = c;
}

/* Room for `more` words behind the lists; lists without a candidate go where it would not do. */
static pare_status make_room(learner *l, size_t more)
{
    if (more <= l->lists.capacity - l->list_count)
        return PARE_OK;
    array fresh = {.arena = {.cx = l->cx}};
    PARE_TRY(grow(l->cx, &fresh, 0, l->listed + more, sizeof(uint32_t)));
    candidate *const heap = l->heap.at;
    l->list_count = 0;
    for (size_t i = 0; i < l->heap_count; i++) {
        memcpy((uint32_t *)fresh.at + l->list_count, (uint32_t *)l->lists.at + heap[i].at,
               heap[i].words * sizeof(uint32_t));
        heap[i].at = l->list_count;
        l->list_count += heap[i].words;
    }
    release(&l->lists);
    l->lists = fresh;
    return PARE_OK;
}

/* A list for each gain, to be filled. */
static pare_status open_lists(learner *l)
{
    gain *const gains = l->gains.at;
    size_t words = 0;
    for (size_t i = 0; i < l->gain_count; i++)
        words += gains[i].words;
    PARE_TRY(make_room(l, words));
    for (size_t i = 0; i < l->gain_count; i++) {
        gains[i].at = l->list_count;
        l->list_count += gains[i].words;
    }
    return PARE_OK;
}

/* The filled lists become candidates. */
static pare_status close_lists(learner *l)
{
    const gain *const gains = l->gains.at;
    const pair *const pairs = l->pairs.at;
    PARE_TRY(
        grow(l->cx, &l->heap, l->heap_count, l->heap_count + l->gain_count, sizeof(candidate)));
    candidate *const heap = l->heap.at;
    for (size_t i = 0; i < l->gain_count; i++) {
        const gain *const g = &gains[i];
        const pair *const p = &pairs[g->pair];
        if (p->count < 1) /* gained and lost */
            continue;
        heap[l->heap_count] =
            (candidate){p->count, p->ids, g->pair, (uint32_t)g->words, g->at - g->words};
        l->listed += g->words;
        sift_up(heap, l->heap_count++);
    }
    l->gain_count = 0;
    return PARE_OK;
}

static pare_status list_notes(learner *l)
{
    const note *const notes = l->notes.at;
    PARE_TRY(open_lists(l));
    for (size_t i = 0; i < l->note_count; i++) {
        gain *const g = (gain *)l->gains.at + notes[i].gain;
        ((uint32_t *)l->lists.at)[g->at++] = notes[i].word;
    }
    l->note_count = 0;
    return close_lists(l);
}

/* Joins the pair wherever it stands in a word, from left to right. */
static pare_status merge_in(learner *l, uint32_t at, pare_tok_join ids, int32_t id)
{
    word *const w = &l->words[at];
    int32_t *const s = l->symbols + w->at;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->len; i++) {
        if (s[i] != ids.left || i + 1 == w->len || s[i + 1] != ids.right) {
            s[kept++] = s[i];
            continue;
        }
        i++;
        if (kept) {
            PARE_TRY(lose(l, s[kept - 1], ids.left, w->count));
            PARE_TRY(win(l, s[kept - 1], id, w->count, at));
        }
        if (i + 1 < w->len) {
            PARE_TRY(lose(l, ids.right, s[i + 1], w->count));
            PARE_TRY(win(l, id, s[i + 1], w->count, at));
        }
        s[kept++] = id;
    }
    w->len = kept;
    return PARE_OK;
}

/* The token of both texts; a new one takes the next id. */
static pare_status make_token(learner *l, pare_arena *a, pare_tok_join ids, int32_t *id)
{
    const pare_tok_slice left = l->tokens->entries[ids.left].text,
                         right = l->tokens->entries[ids.right].text;
    if (left.len > SIZE_MAX / 4 || right.len > SIZE_MAX / 4)
        return PARE_ENOMEM;
    char *const text = pare_arena_take_raw(a, left.len + right.len + 1, 1);
    if (!text)
        return PARE_ENOMEM;
    memcpy(text, left.at, left.len);
    memcpy(text + left.len, right.at, right.len);
    text[left.len + right.len] = '\0';
    *id = (int32_t)l->tokens->count;
    const pare_tok_entry *const there =
        pare__vocab_add(l->tokens, (pare_tok_slice){text, left.len + right.len}, *id);
    if (there)
        *id = there->id;
    return PARE_OK;
}

static pare_status merge(learner *l, pare_arena *a, const candidate *c)
{
    int32_t id;
    PARE_TRY(make_token(l, a, c->ids, &id));
    PARE_TRY(grow(l->cx, &l->joins, l->join_count, l->join_count + 1, sizeof c->ids));
    ((pare_tok_join *)l->joins.at)[l->join_count++] = c->ids;
    for (size_t i = 0; i < c->words; i++)
        PARE_TRY(merge_in(l, ((uint32_t *)l->lists.at)[c->at + i], c->ids, id));
    l->listed -= c->words;
    return list_notes(l);
}

static pare_status merge_all(learner *l, pare_arena *a, int64_t min_count)
{
    const size_t first = l->tokens->count, most = l->tokens->capacity;
    while (l->tokens->count < most && l->heap_count) {
        candidate *const heap = l->heap.at;
        candidate top = heap[0];
        const int64_t now = ((pair *)l->pairs.at)[top.pair].count;
        if (top.count != now) {
            top.count = now;
            sift_down(heap, l->heap_count, top);
            continue;
        }
        if (now < min_count)
            break;
        const candidate last = heap[--l->heap_count];
        if (l->heap_count)
            sift_down(heap, l->heap_count, last);
        if (l->join_count % REPORT == 0)
            pare_ctx_progress(l->cx, "learning merges", (double)(l->tokens->count - first),
                              (double)(most - first));
        PARE_TRY(pare_ctx_interrupted(l->cx));
        PARE_TRY(merge(l, a, &top));
    }
    return PARE_OK;
}

/* Checked sums: no count of a pair can pass 63 bits. */
static pare_status measure(pare_ctx *cx, const pare_tok_counted *words, size_t count, size_t *bytes)
{
    int64_t places = 0, more;
    *bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t len = words[i].text.len;
        if (len > UINT32_MAX - *bytes)
            return pare_fail(cx, PARE_ENOTSUP, "distinct words of 4 GiB or more together");
        *bytes += len;
        if (words[i].count < 1 || __builtin_mul_overflow(words[i].count, (int64_t)len, &more) ||
            __builtin_add_overflow(places, more, &places))
            return pare_fail(cx, PARE_EINVAL, "word %zu: a count of %lld", i,
                             (long long)words[i].count);
    }
    return PARE_OK;
}

static pare_status take_words(learner *l, pare_arena *a, const pare_tok_counted *words,
                              size_t count, const int32_t byte_ids[256])
{
    size_t bytes, used = 0;
    PARE_TRY(measure(l->cx, words, count, &bytes));
    l->words = PARE_NEW(a, word, count);
    l->symbols = pare_arena_take_raw(a, bytes, sizeof *l->symbols);
    if (!l->words || !l->symbols)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const pare_tok_slice text = words[i].text;
        l->words[i] = (word){(uint32_t)used, (uint32_t)text.len, words[i].count};
        for (size_t j = 0; j < text.len; j++)
            l->symbols[used++] = byte_ids[(unsigned char)text.at[j]];
    }
    return PARE_OK;
}

/* Counts the pairs of all words, and goes over them once more to list the words: notes would take
 * twice the memory of the lists. */
static pare_status count_pairs(learner *l, size_t words)
{
    uint32_t index;
    bool fresh;
    for (size_t i = 0; i < words; i++) {
        const word *const w = &l->words[i];
        const int32_t *const s = l->symbols + w->at;
        for (size_t j = 1; j < w->len; j++)
            PARE_TRY(gain_pair(l, (pare_tok_join){s[j - 1], s[j]}, w->count, (uint32_t)i, &index,
                               &fresh));
    }
    PARE_TRY(open_lists(l));
    const pair *const pairs = l->pairs.at;
    gain *const gains = l->gains.at;
    for (size_t i = 0; i < l->gain_count; i++)
        gains[i].last = UINT32_MAX; /* no word has that number */
    for (size_t i = 0; i < words; i++) {
        const word *const w = &l->words[i];
        const int32_t *const s = l->symbols + w->at;
        for (size_t j = 1; j < w->len; j++) {
            const uint32_t *const slot = slot_of(l, (pare_tok_join){s[j - 1], s[j]});
            gain *const g = &gains[pairs[*slot - 1].gain];
            if (g->last != i)
                ((uint32_t *)l->lists.at)[g->at++] = (uint32_t)i;
            g->last = (uint32_t)i;
        }
    }
    return close_lists(l);
}

static pare_status give(const learner *l, pare_arena *a, pare_tok_join **joins, size_t *count)
{
    *count = l->join_count;
    *joins = PARE_NEW(a, pare_tok_join, *count);
    if (!*joins)
        return PARE_ENOMEM;
    if (*count)
        memcpy(*joins, l->joins.at, *count * sizeof **joins);
    return PARE_OK;
}

pare_status pare__learn_merges(pare_ctx *cx, pare_arena *a, const pare_tok_counted *words,
                               size_t count, int64_t min_count, const int32_t byte_ids[256],
                               pare_tok_vocab *tokens, pare_tok_join **joins, size_t *join_count)
{
    learner l = {.cx = cx, .tokens = tokens};
    array *const arrays[] = {&l.slots, &l.pairs, &l.gains, &l.notes, &l.heap, &l.lists, &l.joins};
    pare_arena keep = {.cx = cx};
    pare_status s = take_words(&l, &keep, words, count, byte_ids);
    if (s == PARE_OK)
        s = count_pairs(&l, count);
    if (s == PARE_OK)
        s = merge_all(&l, a, min_count < 1 ? 1 : min_count);
    if (s == PARE_OK)
        s = give(&l, a, joins, join_count);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        release(arrays[i]);
    pare_arena_release(&keep);
    return s;
}
