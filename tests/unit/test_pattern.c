#include <regex.h>
#include <string.h>
#include <time.h>

#include "recipes/pattern.h"
#include "tests/unit/unit.h"

static unsigned draw(uint64_t *state, unsigned bound)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((*state >> 33) % bound);
}

static const struct {
    const char *pattern, *name;
    bool matches;
} rows[] = {
    {"a", "a", true},
    {"a", "b", false},
    {"a", "aa", false},
    {"a", "", false},
    {"*", "", true},
    {"*", "model.layers.0", true},
    {"**", "", true},
    {"*.mlp.*", "model.layers.0.mlp.up_proj", true},
    {"*.mlp.*", "model.layers.0.mlp", false},
    {"*.mlp.*", "mlp.up_proj", false},
    {"*.layers.0.*", "model.layers.0.mlp.up_proj", true},
    {"*.layers.0.*", "model.layers.10.mlp.up_proj", false},
    {"a*b*c", "a1b2b3c", true},
    {"a*b*c", "a1b2b3cd", false},
    {"*ab", "aab", true},
    {"*aab", "aaab", true},
    {"?", "x", true},
    {"?", "", false},
    {"?", "xy", false},
    {"a?c", "a.c", true},
    {"?", "\xc3\xa9", true},
    {"??", "\xc3\xa9", false},
    {"*?", "", false},
    {"[a-c]", "b", true},
    {"[a-c]", "d", false},
    {"[a-c]", "bb", false},
    {"[abx-z]*", "y.1", true},
    {"*.[0-3].*", "layers.3.q", true},
    {"*.[0-3].*", "layers.4.q", false},
    {"*.[!0-3].*", "layers.4.q", true},
    {"*.[^0-3].*", "layers.2.q", false},
    {"[]]", "]", true},
    {"[!]]", "]", false},
    {"[a-]", "-", true},
    {"[-a]", "-", true},
    {"[*]", "*", true},
    {"[*]", "x", false},
    {"[\xc3\xa0-\xc3\xb0]", "\xc3\xa9", true},
    {"]", "]", true},
    {"re", "re", true},
    {"re:a", "a", true},
    {"re:a", "ab", true}, /* the rest is free */
    {"re:a$", "ab", false},
    {"re:a", "ba", false},
    {"re:a|b", "b", true},
    {"re:a|b", "ab", true},
    {"re:(?:a|b)$", "ab", false},
    {"re:a|b", "cb", false},
    {"re:.*\\.(k|v)_proj", "model.layers.0.self_attn.k_proj", true},
    {"re:.*\\.(k|v)_proj", "model.layers.0.self_attn.q_proj", false},
    {"re:model\\.layers\\.[0-9]+\\.mlp\\..*", "model.layers.12.mlp.up_proj", true},
    {"re:x{2,3}", "xx", true},
    {"re:x{2,3}$", "xxxx", false},
    {"re:x{255}", "x", false},
    {"re:[(]", "(", true},
    {"re:[])]x", ")x", true},
    {"re:[[:digit:])]", "7", true},
    {"re:\\(", "(", true},
    {"re:(a|ab)(c|bcd)(d*)", "abcd", true},
    {"re:[{9999}]", "{", true},
    {"re:x{0}y", "y", true},
    {"re:x{0}y", "xy", false},
    {"re:x{,2}$", "x", true},
    {"re:[{,2}]", "2", true},
    {"re:[{,2}]", "0", false},
    {"re:\\{,2}", "{,2}", true},
    {"re:[]{,2}]", "]", true},
    {"re:x{,2}$", "xxx", false},
    {"re:x{,}y", "xxxy", true},
    {"re:x{,2}", "", true},
    {"re:x{2,}", "xxxxx", true},
    {"re:x{2,}", "x", false},
    {"re:(ab|c){2}", "cab", true},
    {"re:(a|)b", "b", true},
    {"re:()", "", true},
    {"re:|a", "", true},
    {"re:^a$", "a", true},
    {"re:a^b", "ab", false},
    {"re:(^a|b)c", "bc", true},
    {"re:a$b", "ab", false},
    {"re:.", "\xc3\xa9", true},
    {"re:\xc3\xa9+", "\xc3\xa9\xc3\xa9", true},
    {"re:[!a]", "!", true},
    {"re:[!a]", "b", false},
    {"re:[[:alpha:]_]+[[:digit:]]", "q_p7", true},
    {"re:[^[:space:]]", " ", false},
    {"re:[[:upper:]][[:lower:]][[:xdigit:]][[:punct:]][[:alnum:]][[:blank:]]", "Zzf_9\t", true},
    {"[[:digit:]]*", "7x", true},
    {"[[:digit:]]*", "x7", false},
    {"re:a}]", "a}]", true},
    {"re:(?i).*Q_PROJ", "model.layers.0.self_attn.q_proj", true},
    {"re:^(?!.*down_proj).*", "model.layers.0.mlp.up_proj", true},
    {"re:^(?!.*down_proj).*", "model.layers.0.mlp.down_proj", false},
    {"re:.*(?:q|k)_proj$", "model.layers.0.self_attn.k_proj", true},
    {"re:.*?\\.\\w+_proj", "model.layers.0.self_attn.k_proj", true},
    {"re:.*layers\\.[\\d]\\.mlp", "model.layers.7.mlp.up_proj", true},
    {"re:.*layers\\.\\d\\.mlp", "model.layers.17.mlp.up_proj", false},
    {"re:layers\\.0", "model.layers.0.mlp.up_proj", false},
    {"re:(?P<n>a)(?P=n)", "aa", true},
    {"re:(a)\\1", "aa", true},
    {"re:(?<=b)a", "a", false},
    {"re:\\w\\Z", "\xc3\xa9", true},
};

static bool matches(pare_ctx *cx, const pare_pattern *p, const char *name)
{
    bool hit;
    ck_assert_msg(pare_pattern_matches(cx, p, name, &hit) == PARE_OK, "%s", cx->what);
    return hit;
}

START_TEST(globs_match_whole_names_and_expressions_their_beginning)
{
    pare_ctx cx;
    pare_arena a;
    pare_pattern *p = NULL;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_msg(pare_pattern_new(&cx, &a, rows[_i].pattern, &p) == PARE_OK, "%s", cx.what);
    ck_assert_msg(matches(&cx, p, rows[_i].name) == rows[_i].matches, "%s on %s", rows[_i].pattern,
                  rows[_i].name);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

#define SET "a set [...] without its ], with a range that runs backwards or an unknown class"

static const struct {
    const char *pattern, *message;
} bad[] = {
    {"", "an empty pattern matches nothing"},
    {"re:", "an empty pattern matches nothing"},
    {"a[b", "pattern \"a[b\": " SET},
    {"[]", "pattern \"[]\": " SET},
    {"[!]", "pattern \"[!]\": " SET},
    {"[b-a]", "pattern \"[b-a]\": " SET},
    {"[a-", "pattern \"[a-\": " SET},
    {"[[:alpho:]]", "pattern \"[[:alpho:]]\": " SET},
    {"[[:alpha]", "pattern \"[[:alpha]\": " SET},
    {"[[.a.]]", "pattern \"[[.a.]]\": " SET},
    {"re:[a", "missing terminating ]"},
    {"re:[z-a]", "range out of order"},
    {"re:a[]", "missing terminating ]"},
    {"re:[[=a=]]", "POSIX collating elements"},
    {"re:[[:alpho:]]", "unknown POSIX class name"},
    {"re:a{65536}", "number too big"},
    {"re:a{3,2}", "numbers out of order"},
    {"re:((((((){255}){255}){255}){255}){255})", "too large"},
    {"re:a**", "quantifier does not follow"},
    {"re:*a", "quantifier does not follow"},
    {"re:(a|(b)", "missing closing parenthesis"},
    {"re:a)|(b", "unmatched closing parenthesis"},
    {"re:(a)\\2", "reference to non-existent"},
    {"re:a\\", "\\ at end of pattern"},
    {"re:(?<=a*)b", "not fixed length"},
    {"re:\\C", "\\C is disabled"},
};

START_TEST(bad_patterns_say_why)
{
    pare_ctx cx;
    pare_arena a;
    pare_pattern *p = NULL;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_pattern_new(&cx, &a, bad[_i].pattern, &p), PARE_EUSAGE);
    ck_assert_msg(strstr(cx.what, bad[_i].message) != NULL, "%s", cx.what);
    const bool regex = strncmp(bad[_i].pattern, "re:", 3) == 0 && bad[_i].pattern[3];
    ck_assert(!regex || strncmp(cx.what, "regular expression \"", 20) == 0);
    ck_assert_ptr_null(p);
    pare_arena_release(&a);
}
END_TEST

static void append(char *out, const char *piece)
{
    memcpy(out + strlen(out), piece, strlen(piece) + 1);
}

/* A random expression of at most `depth` nested groups, in the part of the grammar where every
 * implementation agrees. */
static void random_expression(uint64_t *state, int depth, char *out)
{
    static const char *const atoms[] = {"a", "b", ".", "[ab]", "[^a]", "c", "\\."};
    static const char *const repeats[] = {"", "", "", "*", "+", "?", "{2}", "{0,2}", "{1,}", "{0}"};
    const unsigned pieces = 1 + draw(state, 3);
    for (unsigned i = 0; i < pieces; i++) {
        if (depth > 0 && draw(state, 3) == 0) {
            append(out, "(");
            random_expression(state, depth - 1, out);
            append(out, draw(state, 3) ? ")" : "|b)");
        } else {
            append(out, atoms[draw(state, 7)]);
        }
        append(out, repeats[draw(state, 10)]);
    }
}

START_TEST(expressions_agree_with_those_of_the_c_library)
{
    uint64_t state = 5;
    size_t hits = 0;
    for (int i = 0; i < 1500; i++) {
        char text[2048] = "re:", whole[2100], name[8];
        pare_ctx cx;
        pare_arena a;
        pare_pattern *p = NULL;
        regex_t regex;
        random_expression(&state, 2, text);
        (void)snprintf(whole, sizeof whole, "^(%s)", text + 3);
        pare_ctx_init(&cx);
        ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
        ck_assert_msg(pare_pattern_new(&cx, &a, text, &p) == PARE_OK, "%s", cx.what);
        ck_assert_int_eq(regcomp(&regex, whole, REG_EXTENDED | REG_NOSUB), 0);
        for (int k = 0; k < 40; k++) {
            const size_t len = draw(&state, 7);
            for (size_t j = 0; j < len; j++)
                name[j] = "abc."[draw(&state, 4)];
            name[len] = '\0';
            const bool hit = regexec(&regex, name, 0, NULL, 0) == 0;
            hits += hit;
            ck_assert_msg(matches(&cx, p, name) == hit, "%s on %s", text, name);
        }
        regfree(&regex);
        pare_arena_release(&a);
    }
    ck_assert_uint_ge(hits, 3000);
}
END_TEST

/* Each of these keeps a program that does not count its steps busy for hours. */
START_TEST(hostile_expressions_take_little_time)
{
    static const char *const hostile[] = {
        "re:(((((.*)+)+)+)+)+",
        "re:((a*)*){250}$",
        "re:(((a*)*){50})*[bc]",
        "re:(a?){250}a{250}$",
        "re:((a*b*c*)+(a*b*c*)+(a*b*c*)+(a*b*c*)+(a*b*c*)+(a*b*c*)+(a*b*c*)+(a*b*c*)+)+$",
        "re:((((((((a)*)*)*)*)*)*)*)*$"};
    char name[2001];
    size_t refused = 0;
    memset(name, 'a', sizeof name - 2);
    name[sizeof name - 2] = 'x';
    name[sizeof name - 1] = '\0';
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        pare_ctx cx;
        pare_arena a;
        pare_pattern *p = NULL;
        const clock_t begin = clock();
        pare_ctx_init(&cx);
        ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
        ck_assert_msg(pare_pattern_new(&cx, &a, hostile[i], &p) == PARE_OK, "%s", cx.what);
        bool hit;
        const pare_status s = pare_pattern_matches(&cx, p, name, &hit);
        ck_assert_msg(s == PARE_OK ? hit == (i == 0)
                                   : s == PARE_EUSAGE && strstr(cx.what, ": too many steps"),
                      "%s: %s", hostile[i], cx.what);
        refused += s == PARE_EUSAGE;
        ck_assert((double)(clock() - begin) / CLOCKS_PER_SEC < 2);
        pare_arena_release(&a);
    }
    ck_assert_uint_ge(refused, 3);
}
END_TEST

/* With plain backtracking this takes longer than the age of the universe. */
START_TEST(many_stars_take_little_time)
{
    enum { STARS = 400, LETTERS = 20000 };
    char pattern[2 * STARS + 2], *const name = malloc(LETTERS + 1);
    ck_assert_ptr_nonnull(name);
    for (size_t i = 0; i < STARS; i++)
        memcpy(pattern + 2 * i, "a*", 2);
    memcpy(pattern + 2 * STARS, "b", 2);
    memset(name, 'a', LETTERS);
    name[LETTERS] = '\0';
    pare_ctx cx;
    pare_arena a;
    pare_pattern *p = NULL;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_pattern_new(&cx, &a, pattern, &p), PARE_OK);
    const clock_t begin = clock();
    ck_assert(!matches(&cx, p, name));
    ck_assert((double)(clock() - begin) / CLOCKS_PER_SEC < 2);
    pare_arena_release(&a);
    free(name);
}
END_TEST

START_TEST(patterns_survive_failed_allocations)
{
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK; n++) {
        pare_ctx cx;
        pare_arena a;
        pare_pattern *p = NULL;
        unit_failing f = {.left = n};
        pare_ctx_init(&cx);
        cx.alloc = (pare_alloc){unit_failing_resize, &f};
        ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
        s = pare_pattern_new(&cx, &a, "re:a.*", &p);
        ck_assert(s == PARE_OK || (s == PARE_ENOMEM && cx.what[0]));
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        ck_assert_int_lt(n, 100);
    }
}
END_TEST

static const struct {
    const char *text, *nearest;
} near[] = {{"grop", "group"},   {"gruop", "group"},
            {"groups", "group"}, {"GROUP", "group"},
            {"goup", "group"},   {"gorpu", "group"},
            {"bist", "bits"},    {"tits", "bits"},
            {"b", NULL},         {"bi", NULL},
            {"x", NULL},         {"", NULL},
            {"xyz", NULL},       {"mes", "mse"},
            {"m", NULL},         {"true_sequental", "true_sequential"},
            {"group", "group"},  {"tru", "true"},
            {"ab", "abc"},       {"symetric", "symmetric"},
            {"gpu", "cuda"},     {"NVIDIA", "cuda"},
            {"cp", "cpu"}};

START_TEST(the_nearest_word_is_found)
{
    static const char *const words[] = {
        "bits", "group", "symmetric", "mse", "true", "true_sequential",
        "abc",  "abd",   "cpu",       "cuda"};
    const char *const word = pare_nearest_word(near[_i].text, words, 10);
    if (near[_i].nearest)
        ck_assert_pstr_eq(word, near[_i].nearest);
    else
        ck_assert_ptr_null(word);
}
END_TEST

START_TEST(long_words_are_not_compared)
{
    char text[200];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    const char *const words[] = {text};
    ck_assert_ptr_null(pare_nearest_word(text, words, 1));
    ck_assert_ptr_null(pare_nearest_word("aaaa", words, 1));
    text[64] = '\0';
    ck_assert_ptr_nonnull(pare_nearest_word(text, words, 1));
}
END_TEST

static const struct {
    const char *pattern, *nearest;
} nearest[] = {{"*.mlp.dwn_proj", "m.layers.0.mlp.down_proj"},
               {"q_proj", "m.layers.0.self_attn.q_proj"},
               {"layers.1.self_attn", "m.layers.1.self_attn.q_proj"},
               {"*.layers.1.*.dow_proj", "m.layers.1.mlp.down_proj"},
               {"*.up-proj", "m.layers.0.mlp.up_proj"},
               {"m.layers.[0-1].mlp.up_prj", "m.layers.0.mlp.up_proj"},
               {"m.layers.?.mlp.upp_proj", "m.layers.0.mlp.up_proj"},
               {"re:.*[.]1[.].*dwn_proj", "m.layers.1.mlp.down_proj"},
               {"re:.+\\.down_porj", "m.layers.0.mlp.down_proj"},
               {"re:q_proj", "m.layers.0.self_attn.q_proj"},
               {"*", "m.layers.0.self_attn.k_proj"},
               {"[", "m.layers.0.self_attn.k_proj"},
               {"re:\\", "m.layers.0.self_attn.k_proj"}};

START_TEST(the_nearest_name_is_found)
{
    char text[600];
    memset(text, 'q', sizeof text - 1);
    text[sizeof text - 1] = '\0'; /* too long to be compared */
    const char *const names[] = {"m.layers.0.self_attn.k_proj", text,
                                 "m.layers.0.self_attn.q_proj", "m.layers.0.mlp.up_proj",
                                 "m.layers.0.mlp.down_proj",    "m.layers.1.self_attn.q_proj",
                                 "m.layers.1.mlp.down_proj"};
    ck_assert_str_eq(pare_nearest_name(nearest[_i].pattern, names, 7), nearest[_i].nearest);
    ck_assert_ptr_null(pare_nearest_name(nearest[_i].pattern, names, 0));
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("pattern");
    TCase *const t = tcase_create("pattern");
    tcase_add_loop_test(t, globs_match_whole_names_and_expressions_their_beginning, 0,
                        sizeof rows / sizeof rows[0]);
    tcase_add_loop_test(t, bad_patterns_say_why, 0, sizeof bad / sizeof bad[0]);
    tcase_add_test(t, expressions_agree_with_those_of_the_c_library);
    tcase_add_test(t, hostile_expressions_take_little_time);
    tcase_add_test(t, many_stars_take_little_time);
    tcase_add_test(t, patterns_survive_failed_allocations);
    tcase_add_loop_test(t, the_nearest_word_is_found, 0, sizeof near / sizeof near[0]);
    tcase_add_test(t, long_words_are_not_compared);
    tcase_add_loop_test(t, the_nearest_name_is_found, 0, sizeof nearest / sizeof nearest[0]);
    suite_add_tcase(s, t);
    return unit_main(s);
}
