/* Mistakes by the thousand, made from a good recipe: each is refused with its place, and a misspelt
 * word is corrected. */
#include <ctype.h>
#include <string.h>

#include "tests/unit/recipe_job.h"

/* Numbers for the mistakes: a linear congruential generator, so that a failure repeats. */
static size_t draw(uint64_t *state, size_t bound)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)((*state >> 33) % bound);
}

/* True and the place, if a message begins with r.yaml:LINE:COLUMN. */
static bool has_place(const char *what, size_t *line, size_t *column)
{
    int used = 0;
    return sscanf(what, "r.yaml:%zu:%zu: %n", line, column, &used) == 2 && used > 0 && *line > 0 &&
           *column > 0 && what[used];
}

/* One letter deleted, inserted, replaced, or swapped with the next; the result differs. */
static void misspell(uint64_t *state, const char *word, char *out)
{
    const size_t n = strlen(word);
    do {
        const size_t at = draw(state, n), kind = draw(state, 4);
        const char letter = (char)('a' + draw(state, 26));
        memcpy(out, word, n + 1);
        if (kind == 0) {
            memmove(out + at, out + at + 1, n - at);
        } else if (kind == 1) {
            memmove(out + at + 1, out + at, n - at + 1);
            out[at] = letter;
        } else if (kind == 2) {
            out[at] = letter;
        } else if (at + 1 < n) {
            out[at] = word[at + 1];
            out[at + 1] = word[at];
        }
    } while (strcmp(out, word) == 0);
}

static const char *const known_words[] = {
    "pare",  "model",  "output", "seed",      "calibration", "text",   "samples",
    "all",   "window", "passes", "rtn",       "bits",        "group",  "row",
    "clip",  "mse",    "tail",   "error",     "targets",     "gptq",   "symmetric",
    "false", "none",   "short",  "act_order", "true",        "damp",   "true_sequential",
    "block", "skip",   "kl",     "evaluate",  "perplexity",  "tokens", "limits",
    "ram",   "nan",    "clamp"};

/* The known word at p and its length, unless p is inside a longer one or inside a text. */
static const char *word_at(const char *text, const char *p)
{
    size_t n = 0;
    while (isalpha((unsigned char)p[n]) || p[n] == '_')
        n++;
    const bool begins = p == text || strchr(" {[-\n", p[-1]) != NULL;
    const bool ends = strchr(" :,}]\n", p[n]) != NULL;
    for (size_t i = 0; begins && ends && i < sizeof known_words / sizeof known_words[0]; i++)
        if (strlen(known_words[i]) == n && strncmp(known_words[i], p, n) == 0)
            return known_words[i];
    return NULL;
}

typedef struct typo_score {
    size_t words, mistakes, right;
} typo_score;

/* Misspells the word at p: the message must stand at exactly that place. */
static void try_typo(typo_score *score, uint64_t *state, const char *p, const char *word)
{
    char wrong[64], text[2 * sizeof full], hint[128];
    misspell(state, word, wrong);
    (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(p - full), full, wrong, p + strlen(word));
    size_t line = 1, column = 1, at_line = 0, at_column = 0;
    for (const char *q = full; q < p; q++) {
        column = *q == '\n' ? 1 : column + 1;
        line += *q == '\n';
    }
    job j;
    job_text(&j, text);
    if (j.s != PARE_OK) {
        score->mistakes++;
        ck_assert_int_eq(j.s, PARE_EUSAGE);
        ck_assert_msg(has_place(j.cx.what, &at_line, &at_column), "%s", j.cx.what);
        ck_assert_msg(at_line == line && at_column == column, "%s for %s at %zu:%zu", j.cx.what,
                      wrong, line, column);
        (void)snprintf(hint, sizeof hint, "did you mean \"%s\"?", word);
        score->right += strstr(j.cx.what, hint) != NULL;
    }
    job_end(&j);
}

START_TEST(typos_are_placed_and_corrected)
{
    typo_score score = {0};
    uint64_t state = 1;
    for (const char *p = full; *p; p++) {
        const char *const word = word_at(full, p);
        if (!word)
            continue;
        score.words++;
        for (int i = 0; i < 12; i++)
            try_typo(&score, &state, p, word);
    }
    (void)printf("%zu words, %zu mistakes, %zu corrected\n", score.words, score.mistakes,
                 score.right);
    ck_assert_uint_ge(score.words, 45);
    ck_assert_uint_ge(score.mistakes, 500);
    ck_assert_uint_ge(score.right * 100, score.mistakes * 90);
}
END_TEST

/* Replaces the value behind each "key: " in turn. */
START_TEST(wrong_values_are_placed)
{
    static const char *const values[] = {"[1, [2]]", "{a: b}",      "-1",   "1e99",
                                         "0x10",     "99999999999", "~",    "''",
                                         "yes",      "\"1\"",       "&a 3", "*a"};
    size_t mistakes = 0;
    for (const char *p = strstr(full, ": "); p; p = strstr(p + 1, ": ")) {
        const size_t begin = (size_t)(p + 2 - full), len = strcspn(p + 2, ",}\n[{");
        for (size_t i = 0; len && i < sizeof values / sizeof values[0]; i++) {
            char text[2 * sizeof full];
            size_t line, column;
            (void)snprintf(text, sizeof text, "%.*s%s%s", (int)begin, full, values[i],
                           full + begin + len);
            job j;
            job_text(&j, text);
            if (j.s != PARE_OK) {
                mistakes++;
                ck_assert_msg(has_place(j.cx.what, &line, &column), "%s", j.cx.what);
            }
            job_end(&j);
        }
    }
    ck_assert_uint_ge(mistakes, 200);
}
END_TEST

/* Damage to the layout: blanks added or taken in front of a line, tabs, lost or doubled characters,
 * lines that are lost, doubled or swapped, a cut end. */
static void damage(uint64_t *state, char *text)
{
    const size_t n = strlen(text), kind = draw(state, 7);
    size_t at = draw(state, n);
    while (kind < 4 && at > 0 && text[at - 1] != '\n')
        at--;
    const size_t line = strcspn(text + at, "\n") + 1;
    if (kind == 0) {
        memmove(text + at + 1, text + at, n - at + 1);
        text[at] = draw(state, 3) ? ' ' : '\t';
    } else if (kind == 1 && text[at] == ' ') {
        memmove(text + at, text + at + 1, n - at);
    } else if (kind == 2) {
        memmove(text + at, text + at + line, n - at - line + 1);
    } else if (kind == 3) {
        memmove(text + at + line, text + at, n - at + 1);
    } else if (kind == 4) {
        memmove(text + at, text + at + 1, n - at);
    } else if (kind == 5) {
        text[at] = "{}[]:,-\"'&*#?|>%@`! \t\x01\xff"[draw(state, 24)];
    } else {
        text[at] = '\0';
    }
}

START_TEST(damaged_recipes_are_refused_with_a_place)
{
    size_t mistakes = 0;
    uint64_t state = 2;
    for (int i = 0; i < 3000; i++) {
        char text[4 * sizeof full];
        size_t line, column;
        memcpy(text, full, sizeof full);
        damage(&state, text);
        if (text[0] && draw(&state, 2))
            damage(&state, text);
        job j;
        job_text(&j, text);
        if (j.s != PARE_OK) {
            mistakes++;
            ck_assert_int_eq(j.s, PARE_EUSAGE);
            ck_assert_msg(has_place(j.cx.what, &line, &column), "%s\n%s", j.cx.what, text);
        }
        job_end(&j);
    }
    ck_assert_uint_ge(mistakes, 1500);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("recipe_mistakes");
    TCase *const t = tcase_create("recipe_mistakes");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, typos_are_placed_and_corrected);
    tcase_add_test(t, wrong_values_are_placed);
    tcase_add_test(t, damaged_recipes_are_refused_with_a_place);
    suite_add_tcase(s, t);
    return unit_main(s);
}
