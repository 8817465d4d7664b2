/* Any text is a recipe with one canonical form, or is refused with a message that begins with its
 * place. Patterns that were taken can be matched. */
#include <assert.h>
#include <stdlib.h>

#include "recipes/pattern.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/recipe_case.h"

static void match_all(pare_ctx *cx, pare_arena *a, const pare_texts *texts)
{
    static const char *const names[] = {"", "lm_head", "model.layers.0.mlp.down_proj",
                                        "model.layers.11.self_attn.q_proj"};
    for (size_t i = 0; i < texts->count; i++) {
        pare_pattern *p = NULL;
        if (pare_pattern_new(cx, a, texts->item[i].text, &p) != PARE_OK)
            abort();
        for (size_t j = 0; j < sizeof names / sizeof names[0]; j++) {
            bool hit;
            const pare_status s = pare_pattern_matches(cx, p, names[j], &hit);
            if (s != PARE_OK && s != PARE_EUSAGE) /* it takes too many steps */
                abort();
        }
    }
}

/* Normal form of a normal form: the same bytes. */
static void check_normal(pare_ctx *cx, pare_arena *a, const pare_recipe *r, bool portable)
{
    char *once = NULL, *twice = NULL;
    size_t len = 0, again = 0;
    pare_recipe copy;
    if (pare_recipe_normalize(cx, a, r, recipe_passes, portable, &once, &len) != PARE_OK)
        abort();
    /* Escapes can lengthen a text beyond what is read. */
    if (len > RECIPE_CASE_MAX - 64)
        return;
    const pare_recipe_source source = {.file = "n.yaml", .text = once, .len = len};
    if (pare_recipe_parse(cx, a, &source, recipe_passes, RECIPE_PASSES, &copy) != PARE_OK ||
        pare_recipe_normalize(cx, a, &copy, recipe_passes, portable, &twice, &again) != PARE_OK ||
        len != again || memcmp(once, twice, len) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    pare_ctx cx;
    pare_arena a;
    pare_recipe r;
    fuzz_ctx_init(&cx);
    if (pare_arena_init(&cx, &a, 0) != PARE_OK)
        abort();
    const pare_status s = recipe_case(&cx, &a, "r.yaml", data, len, &r);
    if (s == PARE_OK) {
        check_normal(&cx, &a, &r, false);
        check_normal(&cx, &a, &r, true);
        for (size_t i = 0; i < r.steps; i++) {
            match_all(&cx, &a, &r.step[i].targets);
            match_all(&cx, &a, &r.step[i].skip);
        }
    } else if (s != PARE_EUSAGE ||
               (strncmp(cx.what, "r.yaml:", 7) != 0 && strncmp(cx.what, "--set ", 6) != 0)) {
        abort();
    }
    pare_arena_release(&a);
    return 0;
}
