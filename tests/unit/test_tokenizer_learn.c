/* Merges of counted words against the same rules in quadratic time: no heap, no table, every word
 * walked over for every merge. Counts that 32 bits do not hold. */
#include <string.h>

#include "formats/tokenizer_learn_internal.h"
#include "unit.h"

enum {
    WORDS = 40,
    LONGEST = 24,
    TOKENS = 64,
    PAIRS = TOKENS * TOKENS,
    CANDIDATES = 4096,
    MERGES = 512
};

/* What a merge may be, and the words that had its pair when it was counted. */
typedef struct candidate {
    int left, right;
    int64_t count;
    bool has[WORDS], over;
} candidate;

typedef struct naive {
    int symbols[WORDS][LONGEST];
    size_t len[WORDS], words;
    int64_t weight[WORDS], count[TOKENS][TOKENS];
    candidate candidates[CANDIDATES];
    size_t candidate_count;
    char text[TOKENS][LONGEST + 1];
    int tokens;
    pare_tok_join joins[MERGES];
    size_t join_count;
} naive;

static pare_ctx cx;
static pare_arena arena;

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void teardown(void)
{
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static unsigned draw(uint64_t *state, unsigned below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(*state >> 33) % below;
}

static void add(naive *n, int left, int right, const bool gained[WORDS])
{
    ck_assert_uint_lt(n->candidate_count, CANDIDATES);
    candidate *const c = &n->candidates[n->candidate_count++];
    *c = (candidate){.left = left, .right = right, .count = n->count[left][right]};
    memcpy(c->has, gained, sizeof c->has);
}

static void add_all(naive *n, bool gained[PAIRS][WORDS])
{
    for (int i = 0; i < PAIRS; i++)
        for (size_t w = 0; w < n->words; w++)
            if (gained[i][w] && n->count[i / TOKENS][i % TOKENS] > 0) {
                add(n, i / TOKENS, i % TOKENS, gained[i]);
                break;
            }
    memset(gained, 0, sizeof(bool[PAIRS][WORDS]));
}

static candidate *best(naive *n)
{
    candidate *top = NULL;
    for (size_t i = 0; i < n->candidate_count; i++) {
        candidate *const c = &n->candidates[i];
        c->count = n->count[c->left][c->right];
        if (!c->over &&
            (!top || c->count > top->count ||
             (c->count == top->count &&
              (c->left < top->left || (c->left == top->left && c->right < top->right)))))
            top = c;
    }
    return top;
}

static void merge_in(naive *n, size_t w, const candidate *c, int id, bool gained[PAIRS][WORDS])
{
    int *const s = n->symbols[w];
    for (size_t i = 0; i + 1 < n->len[w]; i++) {
        if (s[i] != c->left || s[i + 1] != c->right)
            continue;
        s[i] = id;
        memmove(s + i + 1, s + i + 2, (--n->len[w] - i - 1) * sizeof *s);
        if (i) {
            n->count[s[i - 1]][c->left] -= n->weight[w];
            n->count[s[i - 1]][id] += n->weight[w];
            gained[s[i - 1] * TOKENS + id][w] = true;
        }
        if (i + 1 < n->len[w]) {
            n->count[c->right][s[i + 1]] -= n->weight[w];
            n->count[id][s[i + 1]] += n->weight[w];
            gained[id * TOKENS + s[i + 1]][w] = true;
        }
    }
}

static int token_of(naive *n, const candidate *c)
{
    char text[2 * LONGEST + 1];
    (void)snprintf(text, sizeof text, "%s%s", n->text[c->left], n->text[c->right]);
    for (int i = 0; i < n->tokens; i++)
        if (strcmp(n->text[i], text) == 0)
            return i;
    memcpy(n->text[n->tokens], text, strlen(text) + 1);
    return n->tokens++;
}

static void join(naive *n, const candidate *c)
{
    ck_assert_uint_lt(n->join_count, MERGES);
    n->joins[n->join_count++] = (pare_tok_join){c->left, c->right};
}

static void learn(naive *n, int most, int64_t least)
{
    static bool gained[PAIRS][WORDS];
    for (size_t w = 0; w < n->words; w++)
        for (size_t i = 1; i < n->len[w]; i++) {
            n->count[n->symbols[w][i - 1]][n->symbols[w][i]] += n->weight[w];
            gained[n->symbols[w][i - 1] * TOKENS + n->symbols[w][i]][w] = true;
        }
    add_all(n, gained);
    while (n->tokens < most) {
        candidate *const c = best(n);
        if (!c || c->count < least)
            return;
        c->over = true;
        const int id = token_of(n, c);
        join(n, c);
        for (size_t w = 0; w < n->words; w++)
            if (c->has[w])
                merge_in(n, w, c, id, gained);
        add_all(n, gained);
    }
}

/* Words of a few letters; the first tokens are the letters from 'a' on. */
static void draw_words(naive *n, uint64_t *state, unsigned letters, pare_tok_counted *words)
{
    n->words = 1 + draw(state, WORDS);
    for (size_t w = 0; w < n->words; w++) {
        n->len[w] = 1 + draw(state, draw(state, 2) ? 6 : LONGEST);
        n->weight[w] = 1 + draw(state, 4);
        char *const text = PARE_NEW(&arena, char, n->len[w]);
        ck_assert_ptr_nonnull(text);
        for (size_t i = 0; i < n->len[w]; i++) {
            n->symbols[w][i] = (int)draw(state, letters);
            text[i] = (char)('a' + n->symbols[w][i]);
        }
        words[w] = (pare_tok_counted){{text, n->len[w]}, n->weight[w]};
    }
}

/* Letters, and texts that merges will make, as special tokens can be. */
static const char *const start[] = {"a", "b", "c", "d", "ab", "aab", "ba", "bab"};

static void first_tokens(pare_tok_vocab *tokens, size_t most, size_t count, int32_t ids[256])
{
    ck_assert_int_eq(pare__vocab_init(&arena, tokens, most), PARE_OK);
    for (size_t i = 0; i < count; i++) {
        const pare_tok_slice text = {start[i], strlen(start[i])};
        ck_assert_ptr_null(pare__vocab_add(tokens, text, (int32_t)i));
        if (text.len == 1)
            ids[(unsigned char)text.at[0]] = (int32_t)i;
    }
}

START_TEST(merges_are_those_of_the_rules_without_a_heap)
{
    static naive n;
    uint64_t state = 5;
    size_t doubled = 0;
    for (size_t round = 0; round < 300; round++) {
        pare_tok_counted words[WORDS];
        pare_tok_vocab tokens;
        pare_tok_join *joins;
        int32_t ids[256] = {0};
        size_t count;
        const unsigned letters = 2 + draw(&state, 3), first = draw(&state, 2) ? 8 : 4,
                       most = first + 1 + draw(&state, 40);
        const int64_t least = 1 + draw(&state, 3);
        memset(&n, 0, sizeof n);
        draw_words(&n, &state, letters, words);
        first_tokens(&tokens, most, first, ids);
        for (unsigned i = 0; i < first; i++)
            (void)snprintf(n.text[n.tokens++], sizeof n.text[0], "%s", start[i]);
        learn(&n, (int)most, least);
        ck_assert_int_eq(
            pare__learn_merges(&cx, &arena, words, n.words, least, ids, &tokens, &joins, &count),
            PARE_OK);
        ck_assert_uint_eq(tokens.count, (size_t)n.tokens);
        ck_assert_uint_eq(count, n.join_count);
        for (size_t i = 0; i < count; i++)
            ck_assert_msg(joins[i].left == n.joins[i].left && joins[i].right == n.joins[i].right,
                          "round %zu: merge %zu", round, i);
        for (size_t i = 0; i < tokens.count; i++)
            ck_assert_str_eq(tokens.entries[i].text.at, n.text[i]);
        doubled += count > tokens.count - first;
    }
    ck_assert_uint_gt(doubled, 50); /* merges that made no new token */
}
END_TEST

static pare_status learn_counts(int64_t a, int64_t b, int64_t c, pare_tok_vocab *tokens)
{
    const pare_tok_counted words[] = {{{"ab", 2}, a}, {{"cd", 2}, b}, {{"abd", 3}, c}};
    int32_t ids[256] = {0};
    pare_tok_join *joins;
    size_t count;
    first_tokens(tokens, 6, 4, ids);
    return pare__learn_merges(&cx, &arena, words, 3, 1, ids, tokens, &joins, &count);
}

START_TEST(counts_are_held_that_pass_32_bits)
{
    pare_tok_vocab tokens;
    ck_assert_int_eq(
        learn_counts(INT64_C(3000000000), INT64_C(5000000000), INT64_C(2500000000), &tokens),
        PARE_OK);
    ck_assert_str_eq(tokens.entries[4].text.at, "ab"); /* 5.5e9, which is 1.2e9 in 32 bits */
    ck_assert_str_eq(tokens.entries[5].text.at, "cd");
}
END_TEST

START_TEST(counts_that_63_bits_do_not_hold_are_refused)
{
    pare_tok_vocab tokens;
    ck_assert_int_eq(learn_counts(INT64_MAX / 2, 1, 1, &tokens), PARE_EINVAL);
    ck_assert_int_eq(learn_counts(INT64_MAX / 2 + 1, 1, 1, &tokens), PARE_EINVAL);
    ck_assert_int_eq(learn_counts(1, 1, 0, &tokens), PARE_EINVAL);
    ck_assert_int_eq(learn_counts(INT64_MAX / 4, INT64_MAX / 8, INT64_MAX / 16, &tokens), PARE_OK);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("tokenizer_learn");
    TCase *const t = tcase_create("tokenizer_learn");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, merges_are_those_of_the_rules_without_a_heap);
    tcase_add_test(t, counts_are_held_that_pass_32_bits);
    tcase_add_test(t, counts_that_63_bits_do_not_hold_are_refused);
    suite_add_tcase(s, t);
    return unit_main(s);
}
