/* Recipes of trainings: what they come to, their canonical text, and every mistake in words. */
#include <string.h>

#include "compress/passes/training.h"
#include "recipes/train_recipe.h"
#include "tests/unit/unit.h"

typedef struct home {
    pare_ctx cx;
    pare_arena arena;
    pare_param params[PARE_PARAMS_MAX + 1];
} home;

static void begin(home *h)
{
    pare_ctx_init(&h->cx);
    ck_assert_int_eq(pare_arena_init(&h->cx, &h->arena, 0), PARE_OK);
    pare_training_params(h->params);
}

static void end(home *h)
{
    pare_arena_release(&h->arena);
    ck_assert_uint_eq(h->cx.live_bytes, 0);
}

static pare_status parse(home *h, const char *text, pare_train_recipe *r)
{
    const pare_recipe_source source = {"r.yaml", text, strlen(text), NULL, 0};
    return pare_train_recipe_parse(&h->cx, &h->arena, &source, h->params, r);
}

static double value_of(const home *h, const pare_train_recipe *r, const char *name)
{
    for (size_t i = 0; h->params[i].name; i++)
        if (strcmp(h->params[i].name, name) == 0)
            return r->value[i];
    ck_abort_msg("no parameter %s", name);
    return 0;
}

static const char full[] = "pare: 1\n"
                           "model: m\n"
                           "blocks: 4\n"
                           "teacher: t\n"
                           "output: o\n"
                           "tokenizer: k\n"
                           "seed: 7\n"
                           "keep_zeros: true\n"
                           "dtype: bf16\n"
                           "data: {text: [a, b], window: 64, held_out: 3}\n"
                           "train: {kl: 1, ce: 0.5, tokens: 4096, schedule: linear}\n"
                           "limits: {ram: 1GiB}\n";

START_TEST(a_recipe_is_what_it_says)
{
    home h;
    pare_train_recipe r;
    begin(&h);
    ck_assert_msg(parse(&h, full, &r) == PARE_OK, "%s", h.cx.what);
    ck_assert_str_eq(r.common.model.text, "m");
    ck_assert_str_eq(r.teacher.text, "t");
    ck_assert_str_eq(r.common.output.text, "o");
    ck_assert_str_eq(r.common.tokenizer.text, "k");
    ck_assert_uint_eq(r.common.seed, 7);
    ck_assert_uint_eq(r.common.ram_limit, 1u << 30);
    ck_assert(r.keep_zeros && r.store == PARE_STORE_BF16 && r.window_given);
    ck_assert_uint_eq(r.blocks, 4);
    ck_assert_uint_eq(r.text.count, 2);
    ck_assert_uint_eq(r.window, 64);
    ck_assert_uint_eq(r.held_out, 3);
    ck_assert_double_eq(value_of(&h, &r, "kl"), 1);
    ck_assert_double_eq(value_of(&h, &r, "ce"), .5);
    ck_assert_double_eq(value_of(&h, &r, "tokens"), 4096);
    ck_assert_double_eq(value_of(&h, &r, "batch"), 8);
    end(&h);
}
END_TEST

/* Alone it learns from the text; distill's defaults are a teacher's. */
START_TEST(defaults_are_those_of_a_training_without_a_teacher)
{
    home h;
    pare_train_recipe r;
    begin(&h);
    ck_assert_int_eq(parse(&h, "pare: 1\nmodel: m\ndata: {tokens: t.i32}\n", &r), PARE_OK);
    ck_assert_double_eq(value_of(&h, &r, "ce"), 1);
    ck_assert_double_eq(value_of(&h, &r, "kl"), 0);
    ck_assert_str_eq(r.tokens.text, "t.i32");
    ck_assert_uint_eq(r.window, 512);
    ck_assert_uint_eq(r.held_out, 16);
    ck_assert(!r.window_given && !r.keep_zeros && r.store == PARE_STORE_AUTO);
    ck_assert_uint_eq(r.blocks + r.vocabulary, 0);
    end(&h);
}
END_TEST

/* The canonical text is a recipe again, and its own canonical text; no path is in the portable one.
 */
START_TEST(the_canonical_text_is_a_recipe)
{
    home h;
    pare_train_recipe r, again;
    char *text, *other, *portable;
    size_t len, other_len, portable_len;
    begin(&h);
    ck_assert_int_eq(parse(&h, full, &r), PARE_OK);
    ck_assert_int_eq(pare_train_recipe_normalize(&h.cx, &h.arena, &r, h.params, false, &text, &len),
                     PARE_OK);
    ck_assert_uint_eq(len, strlen(text));
    ck_assert_msg(parse(&h, text, &again) == PARE_OK, "%s in\n%s", h.cx.what, text);
    ck_assert_int_eq(
        pare_train_recipe_normalize(&h.cx, &h.arena, &again, h.params, false, &other, &other_len),
        PARE_OK);
    ck_assert_str_eq(text, other);
    ck_assert_int_eq(
        pare_train_recipe_normalize(&h.cx, &h.arena, &r, h.params, true, &portable, &portable_len),
        PARE_OK);
    ck_assert_ptr_null(strstr(portable, "model"));
    ck_assert_ptr_null(strstr(portable, "output"));
    ck_assert_ptr_null(strstr(portable, "\"a\""));
    ck_assert_ptr_nonnull(strstr(portable, "      schedule: linear\n"));
    end(&h);
}
END_TEST

static const char adapters[] = "pare: 1\n"
                               "model: m\n"
                               "lora: {rank: 4, alpha: 0.5, rslora: true, merge: false,\n"
                               "       targets: [q_proj, \"re:.*mlp\"]}\n"
                               "data: {text: a}\n";

START_TEST(adapters_are_what_they_say)
{
    home h;
    pare_train_recipe r, again;
    char *text, *other;
    size_t len;
    begin(&h);
    ck_assert_msg(parse(&h, adapters, &r) == PARE_OK, "%s", h.cx.what);
    ck_assert(r.lora.given && r.lora.rslora && !r.lora.merge);
    ck_assert_uint_eq(r.lora.rank, 4);
    ck_assert_double_eq(r.lora.alpha, .5);
    ck_assert_uint_eq(r.lora.targets.count, 2);
    ck_assert_str_eq(r.lora.targets.item[1].text, "re:.*mlp");
    ck_assert_int_eq(pare_train_recipe_normalize(&h.cx, &h.arena, &r, h.params, true, &text, &len),
                     PARE_OK);
    ck_assert_ptr_nonnull(strstr(text, "      targets: [\"q_proj\", \"re:.*mlp\"]\n"));
    ck_assert_int_eq(pare_train_recipe_normalize(&h.cx, &h.arena, &r, h.params, false, &text, &len),
                     PARE_OK);
    ck_assert_msg(parse(&h, text, &again) == PARE_OK, "%s in\n%s", h.cx.what, text);
    ck_assert_int_eq(
        pare_train_recipe_normalize(&h.cx, &h.arena, &again, h.params, false, &other, &len),
        PARE_OK);
    ck_assert_str_eq(text, other);
    ck_assert_int_eq(parse(&h, "pare: 1\nmodel: m\nlora:\ndata: {text: a}\n", &r), PARE_OK);
    ck_assert(r.lora.given && !r.lora.rslora && r.lora.merge);
    ck_assert_uint_eq(r.lora.rank, 16);
    ck_assert_double_eq(r.lora.alpha, 32);
    ck_assert_uint_eq(r.lora.targets.count, 0);
    end(&h);
}
END_TEST

static const struct {
    const char *text, *says;
} mistakes[] = {
    {"", "r.yaml:1:1: the recipe is empty"},
    {"- a\n", "a recipe is a mapping"},
    {"model: m\n", "\"pare\" is missing"},
    {"pare: 2\n", "reads version 1 of the grammar"},
    {"pare: 1\nmodle: m\n", "r.yaml:2:1: unknown key \"modle\" in the recipe; did you mean "
                            "\"model\"?"},
    {"pare: 1\nmodel: m\n", "\"data\" is missing"},
    {"pare: 1\nmodel: m\npasses: [gptq]\n", "is one of \"pare compress\""},
    {"pare: 1\nmodel: m\ndata: prose\n", "\"data\" is \"prose\"; it takes a mapping"},
    {"pare: 1\nmodel: m\ndata: {}\n", "data needs one of text, tokens"},
    {"pare: 1\nmodel: m\ndata: {text: a, tokens: b}\n", "data has both \"text\" and \"tokens\""},
    {"pare: 1\nmodel: m\ndata: {txt: a}\n", "unknown key \"txt\" in data"},
    {"pare: 1\nmodel: m\ndata: {text: a, window: 1}\n", "takes a whole number from 2"},
    {"pare: 1\nmodel: m\ndata: {text: a, held_out: 0}\n", "takes a whole number from 1"},
    {"pare: 1\nmodel: m\ndata: {text: a}\ntrain: {rate: 0}\n", "\"rate\" is \"0\""},
    {"pare: 1\nmodel: m\ndata: {text: a}\ntrain: {aware: true}\n",
     "unknown key \"aware\" in train"},
    {"pare: 1\nmodel: m\ndata: {text: a}\ntrain: 3\n", "\"train\" is \"3\"; it takes a mapping"},
    {"pare: 1\nmodel: m\ndata: {text: a}\nblocks: 0\n", "\"blocks\" is \"0\""},
    {"pare: 1\nmodel: m\ndata: {text: a}\ndtype: int8\n", "takes one of auto, f32, f16, bf16"},
    {"pare: 1\nmodel: m\ndata: {text: a}\nkeep_zeros: 2\n", "\"keep_zeros\" is \"2\""},
    {"pare: 1\nmodel: m\nconfig: c\ndata: {text: a}\n",
     "r.yaml:3:1: \"config\" and \"model\" exclude each other"},
    {"pare: 1\nconfig: c\nblocks: 2\ndata: {text: a}\n", "\"blocks\" needs \"model\""},
    {"pare: 1\nmodel: m\nvocabulary: 300\ndata: {text: a}\n", "\"vocabulary\" needs \"config\""},
    {"pare: 1\nconfig: c\ntokenizer: t\nvocabulary: 300\ndata: {text: a}\n",
     "\"vocabulary\" and \"tokenizer\" exclude each other"},
    {"pare: 1\nconfig: c\nvocabulary: 300\ndata: {tokens: a}\n",
     "\"vocabulary\" and \"tokens\" exclude each other"},
    {"pare: 1\nconfig: c\nvocabulary: 12\ndata: {text: a}\n", "takes a whole number from 257"},
    {"pare: 1\nmodel: m\nseed: -1\ndata: {text: a}\n", "\"seed\" is \"-1\""},
    {"pare: 1\nmodel: m\nlimits: {ram: 8G}\ndata: {text: a}\n", "did you mean \"8GiB\"?"},
    {"pare: 1\nmodel: m\nteacher: []\ndata: {text: a}\n", "\"teacher\""},
    {"pare: 1\nconfig: {}\ndata: {text: a}\n", "\"config\""},
    {"pare: 1\nconfig: c\nlora: {rank: 4}\ndata: {text: a}\n",
     "r.yaml:3:1: \"lora\" and \"config\" exclude each other"},
    {"pare: 1\nmodel: m\nlora: 4\ndata: {text: a}\n", "\"lora\" is \"4\"; it takes a mapping"},
    {"pare: 1\nmodel: m\nlora: {rank: 0}\ndata: {text: a}\n", "takes a whole number from 1"},
    {"pare: 1\nmodel: m\nlora: {alpha: 0}\ndata: {text: a}\n", "\"alpha\" is \"0\""},
    {"pare: 1\nmodel: m\nlora: {r: 4}\ndata: {text: a}\n", "unknown key \"r\" in lora"},
    {"pare: 1\nmodel: m\nlora: {targets: []}\ndata: {text: a}\n", "is an empty list"},
    {"pare: 1\nmodel: m\nlora: {targets: [\"re:(\"]}\ndata: {text: a}\n", "r.yaml:3:18: "},
    {"pare: 1\nmodel: m\nlora: {rank: 4}\nkeep_zeros: true\ndata: {text: a}\n",
     "leave out \"keep_zeros\" or \"lora\""},
    {"pare: 1\nmodel: m\nlora: {merge: false}\nblocks: 2\ndata: {text: a}\n",
     "not with some of its blocks"},
    {"pare: 1\nmodel: m\nlora: {merge: false}\ndtype: f32\ndata: {text: a}\n",
     "adapters are written in F32"},
    {"pare: 1\nmodel: m\nlora: {}\ndtype: f16\ndata: {text: a}\n", "take dtype auto or f32"},
};

START_TEST(mistakes_are_told)
{
    home h;
    pare_train_recipe r;
    begin(&h);
    ck_assert_int_eq(parse(&h, mistakes[_i].text, &r), PARE_EUSAGE);
    ck_assert_msg(strstr(h.cx.what, mistakes[_i].says) != NULL, "no \"%s\" in \"%s\"",
                  mistakes[_i].says, h.cx.what);
    end(&h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("train_recipe");
    TCase *const t = tcase_create("train_recipe");
    tcase_add_test(t, a_recipe_is_what_it_says);
    tcase_add_test(t, defaults_are_those_of_a_training_without_a_teacher);
    tcase_add_test(t, the_canonical_text_is_a_recipe);
    tcase_add_test(t, adapters_are_what_they_say);
    tcase_add_loop_test(t, mistakes_are_told, 0, sizeof mistakes / sizeof *mistakes);
    suite_add_tcase(s, t);
    return unit_main(s);
}
