/* The table of pare compare on a terminal: which form it takes, and how wide it is. */
#include "compress/cli/compare_forms.h"

#include <string.h>

#include "tests/unit/unit.h"

/* Of notes, which are not looked at here. */
const char *pare_measure_limit_text(const pare_measure *m, char text[PARE_MEASURE_TEXT])
{
    (void)m;
    text[0] = '\0';
    return text;
}

static pare_figures figures_of(const char *name)
{
    return (pare_figures){.model = name,
                          .disk_bytes = 72 << 20,
                          .window = 512,
                          .text_complete = true,
                          .text = {.ppl = 128.3961,
                                   .ppl_stderr = 1.2345,
                                   .has_kl = true,
                                   .kl_mean = 0.012345,
                                   .top1 = 0.9},
                          .memory = {.weight_bytes = 72 << 20,
                                     .model_bits_per_weight = 4.5,
                                     .peak_anonymous_bytes = 123 << 20}};
}

static char *text_of(const char *name, size_t width)
{
    static char text[8192];
    const pare_figures model[] = {figures_of("SmolLM2-135M"), figures_of(name)};
    const pare_measure asked = {.text = "wiki.txt", .data = {.count = 512}};
    const pare_comparison c = {.asked = &asked,
                               .model = model,
                               .models = 2,
                               .given = 2,
                               .checked = true,
                               .complete = true};
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_text_out t = {.cx = &cx};
    pare_compare_text(&t, &c, width);
    ck_assert(t.status == PARE_OK && t.len < sizeof text);
    memcpy(text, t.text, t.len);
    text[t.len] = '\0';
    (void)cx.alloc.resize(cx.alloc.self, t.text, t.size, 0);
    char *const notes = strstr(text, "\n\n");
    ck_assert_ptr_nonnull(notes);
    notes[1] = '\0';
    return text;
}

static size_t widest(const char *text)
{
    size_t most = 0;
    for (size_t n; *text; text += n + 1) {
        n = strcspn(text, "\n");
        most = n > most ? n : most;
    }
    return most;
}

#define LONG "SmolLM2-135M-w4a16-gptq-awq-30"

START_TEST(names_of_30_characters_leave_the_table_at_80_columns)
{
    const char *const text = text_of(LONG, 80);
    ck_assert_uint_eq(strlen(LONG), 30);
    ck_assert_msg(widest(text) <= 80, "%s", text);
    ck_assert_msg(strstr(text, "\n" LONG "\n ") && strstr(text, "  perplexity        KL   flips"),
                  "%s", text);
}
END_TEST

START_TEST(short_names_stand_in_front_of_their_figures)
{
    ck_assert_ptr_nonnull(strstr(text_of("w4", 100), "\nw4            72.0 MiB"));
    ck_assert_ptr_nonnull(strstr(text_of(LONG, 0), "\n" LONG "  72.0 MiB"));
}
END_TEST

START_TEST(a_narrow_terminal_gets_a_figure_a_line)
{
    const char *const text = text_of(LONG, 40);
    ck_assert_msg(widest(text) <= 40 && strstr(text, "\n" LONG "\n  on disk     "), "%s", text);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("compare_forms");
    TCase *const c = tcase_create("compare_forms");
    tcase_add_test(c, names_of_30_characters_leave_the_table_at_80_columns);
    tcase_add_test(c, short_names_stand_in_front_of_their_figures);
    tcase_add_test(c, a_narrow_terminal_gets_a_figure_a_line);
    suite_add_tcase(s, c);
    return unit_main(s);
}
