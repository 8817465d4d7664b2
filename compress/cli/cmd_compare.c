/* Measures an original and, one after the other beside it, the models that came of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "compress/cli/compare_answers.h"
#include "compress/cli/compare_forms.h"
#include "compress/cli/measure_steps.h"
#include "compress/cli/measure_tasks.h"
#include "compress/cli/output_file.h"
#include "compress/output/inputs.h"
#include "formats/checksums.h"
#include "runtime/file.h"
#include "runtime/machine.h"
#include "runtime/small.h"

typedef enum form { FORM_TEXT, FORM_CSV, FORM_JSON, FORM_HTML, FORMS } form;

static const char *const form_name[FORMS] = {"text", "csv", "json", "html"};
static const char *const form_ending[FORMS] = {".txt", ".csv", ".json", ".html"};

typedef struct comparing {
    pare_cli *cli;
    const pare_args *args;
    pare_measure asked;
    pare_measure_steps steps;
    pare_compare_answers answers;
    form shown; /* on stdout */
    const char *output[PARE_ARGS_MAX];
    size_t outputs;
    pare_loaded original;
    pare_figures *f; /* [operands] */
    pare_ran_on *on; /* [operands] */
    size_t done;
    bool checked;
    size_t peak_bytes; /* anonymous, of what was over when the count began anew */
} comparing;

/* In the order of measure_all; each model but the original runs over the text beside it. */
static pare_status plan_job(comparing *c)
{
    pare_measure *const m = &c->asked;
    const size_t models = c->args->operands;
    uint64_t window = PARE_MEASURE_WINDOW;
    PARE_TRY(pare_args_count(&c->cli->cx, c->args, "window", 2, UINT32_MAX, &window));
    PARE_TRY(pare_measure_steps_take(c->cli, models * (5 + m->choices + m->tasks), &c->steps));
    m->steps = &c->steps;
    for (size_t i = 0; i < models; i++) {
        pare_measure_expect_open(m);
        pare_measure_expect_text(m, (size_t)window, i ? 2 : 1);
        for (size_t j = 0; j < m->choices; j++)
            pare_measure_expect_choice(m, j);
        for (size_t j = 0; j < m->tasks; j++)
            pare_measure_expect_task(m, j);
        pare_compare_answers_expect(m, &c->answers, i);
        pare_measure_expect_speed(m);
    }
    pare_measure_steps_begin(c->cli, m);
    return PARE_OK;
}

static bool form_of(const char *const *word, const char *text,
                    bool (*fits)(const char *text, const char *word), form *out)
{
    for (form i = FORM_TEXT; i < FORMS; i++)
        if (fits(text, word[i])) {
            *out = i;
            return true;
        }
    return false;
}

static bool equal(const char *text, const char *word)
{
    return strcmp(text, word) == 0;
}

/* Whether words stand in a text one behind the other, the first at its beginning. */
static bool has_in_order(const char *text, const char *const *word, size_t words)
{
    if (strncmp(text, word[0], strlen(word[0])) != 0)
        return false;
    for (size_t i = 0; text && i < words; i++)
        text = strstr(text, word[i]);
    return text != NULL;
}

/* What is replaced is a comparison of the same form. */
static pare_status check_content(pare_cli *cli, const char *path, form as)
{
    enum { FILE_CAP = 1 << 24, WORDS = 4 };
    static const char *const word[FORMS][WORDS] = {
        {"model ", " on disk ", "\nbits: ", "\nmemory: "},
        {"model,disk_bytes,", ",mapped_bytes,", ",peak_anonymous_bytes,", ",complete\n"},
        {"{\n", "\"original\": {\n", "\"models\": [", "\"complete\": "},
        {"<!doctype html>\n", "<title>pare compare</title>", "<p>pare ", "</html>"}};
    const pare_mark mark = pare_arena_mark(&cli->arena);
    char *text;
    size_t len;
    const pare_status s = pare_file_read(&cli->cx, &cli->arena, path, FILE_CAP, &text, &len);
    const bool ours = s == PARE_OK && has_in_order(text, word[as], WORDS);
    pare_arena_rewind(&cli->arena, mark);
    if (ours || s == PARE_ENOMEM)
        return s;
    pare_ctx_clear(&cli->cx);
    return pare_fail(&cli->cx, PARE_EUSAGE,
                     "compare: --output \"%s\": what is there is no comparison of pare, so "
                     "--restart does not replace it; choose another path",
                     path);
}

/* Before the work, and again before a file is written. */
static pare_status check_there(comparing *c, const char *path, form as, bool *there)
{
    PARE_TRY(pare_output_file_there(c->cli, "compare", path, pare_args_given(c->args, "restart"),
                                    there));
    return *there ? check_content(c->cli, path, as) : PARE_OK;
}

/* Whether two paths name one file, which may not be there yet. Their directories are. */
static pare_status check_twice(pare_cli *cli, const char *a, const char *b)
{
    const char *const in_a = pare_path_directory(&cli->arena, a);
    const char *const in_b = pare_path_directory(&cli->arena, b);
    if (!in_a || !in_b)
        return PARE_ENOMEM;
    const pare_file_stamp x = pare_file_look(in_a), y = pare_file_look(in_b);
    const bool twice = x.device == y.device && x.inode == y.inode &&
                       strcmp(pare_last_name(a), pare_last_name(b)) == 0;
    return twice ? pare_fail(&cli->cx, PARE_EUSAGE,
                             "compare: --output \"%s\" is given twice; name another file", b)
                 : PARE_OK;
}

static pare_status read_forms(comparing *c)
{
    pare_cli *const cli = c->cli;
    const char *const format = pare_args_text(c->args, "format");
    if (format && !form_of(form_name, format, equal, &c->shown))
        return pare_fail(&cli->cx, PARE_EUSAGE, "--format \"%s\": expected text, csv, json or html",
                         format);
    c->outputs = pare_args_texts(c->args, "output", c->output);
    for (size_t i = 0; i < c->outputs; i++) {
        form as;
        bool there;
        if (!form_of(form_ending, c->output[i], pare_ends_with, &as))
            return pare_fail(&cli->cx, PARE_EUSAGE,
                             "compare: --output \"%s\" must end in .txt, .csv, .json or .html",
                             c->output[i]);
        for (size_t m = 0; m < c->args->operands; m++)
            PARE_TRY(pare_output_file_place(cli, "compare", c->args->operand[m], c->output[i]));
        PARE_TRY(check_there(c, c->output[i], as, &there));
        for (size_t other = 0; other < i; other++)
            PARE_TRY(check_twice(cli, c->output[other], c->output[i]));
    }
    return PARE_OK;
}

/* Against the original: the configuration, and the tokens of the data. */
static pare_status check_other(comparing *c, const char *path, pare_loaded *l)
{
    pare_cli *const cli = c->cli;
    const pare_measure *const m = &c->asked;
    pare_config *const config = &l->model.config;
    if (!l->checkpoint.config)
        return pare_fail(&cli->cx, PARE_EFORMAT, "%s: there is no config.json beside it", path);
    PARE_TRY(
        pare_config_parse(&cli->cx, l->checkpoint.config_file.path, l->checkpoint.config, config));
    PARE_TRY(pare_measure_fits(cli, m, &c->original.model.config, path, config));
    if (m->text)
        PARE_TRY(pare_measure_same_tokens(cli, &c->original, l, m->text));
    for (size_t i = 0; i < m->choices; i++)
        PARE_TRY(pare_measure_same_tokens(cli, &c->original, l, m->choice[i]));
    for (size_t i = 0; i < m->tasks; i++)
        PARE_TRY(pare_measure_same_tokens(cli, &c->original, l, m->task[i].file));
    if (c->answers.needle->opts.file)
        PARE_TRY(pare_measure_same_tokens(cli, &c->original, l, c->answers.needle->opts.file));
    PARE_TRY(pare_measure_check_choices(cli, m, l));
    PARE_TRY(pare_measure_check_tasks(cli, m, l));
    return pare_compare_answers_check(cli, m, l, &c->answers);
}

/* Binds the tensors, unless some must be unpacked for that. */
static pare_status check_shapes(pare_cli *cli, const pare_checkpoint *ck)
{
    pare_model model;
    bool viewed = !ck->stored;
    for (size_t i = 0; i < ck->tensors; i++)
        viewed &= ck->tensor[i].data || ck->tensor[i].bytes == 0;
    return viewed ? pare_model_load(&cli->cx, &cli->arena, ck, &model) : PARE_OK;
}

static bool needs_text(const comparing *c)
{
    return c->asked.text || c->asked.choices || c->asked.tasks || c->answers.needle->opts.file;
}

static pare_status open_other(comparing *c, const char *path, pare_loaded *l)
{
    PARE_TRY(pare_inputs_no_work(&c->cli->cx, &c->cli->arena, path));
    PARE_TRY(pare_loaded_no_statistics(c->cli, path));
    const char *const tokenizer = pare_args_text(c->args, "tokenizer");
    if (needs_text(c))
        PARE_TRY(pare_checkpoint_tokenizer_of(&c->cli->cx, path, tokenizer, &l->tokenizer));
    PARE_TRY(pare_checkpoint_list(&c->cli->cx, &c->cli->arena, path, &l->checkpoint));
    l->checkpoint.tokenizer = tokenizer;
    if (!pare_args_given(c->args, "unchecked"))
        PARE_TRY(pare_checkpoint_check_files(&l->checkpoint));
    PARE_TRY(check_other(c, path, l));
    return check_shapes(c->cli, &l->checkpoint);
}

/* What all that is small says against the others, before hours of work. */
static pare_status check_others(comparing *c)
{
    pare_cli *const cli = c->cli;
    pare_status s = PARE_OK;
    for (size_t i = 1; s == PARE_OK && i < c->args->operands; i++) {
        const char *const path = c->args->operand[i];
        pare_loaded l = {0};
        const pare_mark mark = pare_arena_mark(&cli->arena);
        s = open_other(c, path, &l);
        pare_loaded_close(&l);
        pare_arena_rewind(&cli->arena, mark);
    }
    return s;
}

static pare_status open_original(comparing *c)
{
    pare_cli *const cli = c->cli;
    const char *const path = c->args->operand[0];
    pare_measure_step(cli, &c->asked, path, "reading", NULL);
    PARE_TRY(pare_loaded_open(cli, c->args, path, c->asked.exact, needs_text(c), &c->original));
    c->checked = c->original.checked;
    PARE_TRY(pare_measure_watch(cli, &c->asked, &c->original));
    if (c->answers.needle->opts.file)
        PARE_TRY(pare_loaded_watch(cli, &c->original, c->answers.needle->opts.file));
    PARE_TRY(pare_measure_data(cli, c->args, &c->original, &c->asked));
    PARE_TRY(pare_measure_check_choices(cli, &c->asked, &c->original));
    PARE_TRY(pare_measure_check_tasks(cli, &c->asked, &c->original));
    PARE_TRY(pare_compare_answers_check(cli, &c->asked, &c->original, &c->answers));
    PARE_TRY(check_others(c));
    PARE_TRY(pare_compare_answers_take(cli, &c->answers));
    pare_loaded_text_done(&c->original);
    PARE_TRY(pare_loaded_device(cli, &c->original));
    c->f = PARE_NEW(&cli->arena, pare_figures, c->args->operands);
    c->on = PARE_NEW(&cli->arena, pare_ran_on, c->args->operands);
    if (!c->f || !c->on)
        return PARE_ENOMEM;
    for (size_t i = 0; i < c->args->operands; i++) {
        c->f[i].model = c->args->operand[i];
        c->f[i].choice = PARE_NEW(&cli->arena, pare_choice_figures, c->asked.choices);
        c->f[i].task = PARE_NEW(&cli->arena, pare_task_figures, c->asked.tasks);
        if (!c->f[i].choice || !c->f[i].task)
            return PARE_ENOMEM;
    }
    return PARE_OK;
}

/* Room for the subjects of the other models, which are those of the original. */
static pare_status take_groups(comparing *c)
{
    for (size_t i = 1; i < c->args->operands; i++)
        for (size_t t = 0; t < c->f[0].tasks; t++) {
            c->f[i].task[t].group =
                PARE_NEW(&c->cli->arena, pare_task_group, c->f[0].task[t].groups);
            if (!c->f[i].task[t].group)
                return PARE_ENOMEM;
        }
    return PARE_OK;
}

/* The next task; what the figures keep of it outlives the model. Subjects that the original was
 * not asked about (it was interrupted) are left out. */
static pare_status measure_task(comparing *c, pare_loaded *l, pare_figures *f)
{
    const size_t at = f->tasks;
    pare_task_figures *const t = &f->task[at], *const first = &c->f[0].task[at];
    pare_task_group *const room = t->group;
    const pare_status s = pare_measure_task(c->cli, &c->asked, l, f);
    if (t == first || f->tasks == at)
        return s;
    pare_task_pair(first, t);
    size_t groups = 0;
    for (size_t g = 0; room && g < t->groups && groups < first->groups; g++)
        for (size_t k = 0; k < first->groups; k++)
            if (strcmp(first->group[k].name, t->group[g].name) == 0) {
                room[groups] = t->group[g];
                room[groups++].name = first->group[k].name;
                break;
            }
    t->group = room;
    t->groups = groups;
    return s;
}

/* Anonymous memory is counted anew from here. Returns what is in use. */
static size_t count_anew(comparing *c)
{
    pare_ctx *const cx = &c->cli->cx;
    c->peak_bytes = cx->peak_bytes > c->peak_bytes ? cx->peak_bytes : c->peak_bytes;
    cx->peak_bytes = cx->live_bytes;
    return cx->live_bytes;
}

/* Measures a model, beside the original unless it is that one. What the original takes beside it
 * does not count as its memory. */
static pare_status measure(comparing *c, pare_loaded *l, pare_figures *f)
{
    pare_cli *const cli = c->cli;
    const bool first = l == &c->original;
    const size_t before = count_anew(c);
    pare_status s = pare_measure_text(cli, &c->asked, l, first ? NULL : &c->original, f);
    const size_t text = cli->cx.peak_bytes - before - f->text.baseline_bytes;
    (void)count_anew(c);
    while (s == PARE_OK && f->choices < c->asked.choices)
        s = pare_measure_choice(cli, &c->asked, l, f);
    for (size_t i = 0; !first && i < f->choices && i < c->f[0].choices; i++)
        pare_choice_pair(&c->f[0].choice[i], &f->choice[i]);
    while (s == PARE_OK && f->tasks < c->asked.tasks)
        s = measure_task(c, l, f);
    if (s == PARE_OK)
        s = pare_compare_answers_needle(cli, &c->asked, l, c->done, &c->answers, f);
    const size_t asked = cli->cx.peak_bytes - before;
    if (s == PARE_OK)
        s = pare_compare_answers_continue(cli, &c->asked, l, &c->original, c->done, &c->answers, f);
    (void)count_anew(c);
    if (s == PARE_OK)
        s = pare_measure_speed(cli, &c->asked, l, f);
    const size_t timed = cli->cx.peak_bytes - before;
    f->memory.peak_anonymous_bytes = pare_larger(text, pare_larger(asked, timed));
    return s;
}

/* A row more, also of a model that an interrupt cut short. */
static pare_status take(comparing *c, const pare_loaded *l, pare_status s)
{
    const pare_figures *const f = &c->f[c->done];
    if (s != PARE_OK && s != PARE_EINTERRUPTED)
        return s;
    pare_ctx_clear(&c->cli->cx); /* of the interrupt: a file that changed tells more */
    if (l != &c->original && pare_watch_check(&c->cli->cx, &l->checkpoint.watch) != PARE_OK)
        return PARE_EFORMAT;
    c->on[c->done] = pare_loaded_ran_on(c->cli, l);
    if (s == PARE_OK || f->window || f->choices || f->tasks || f->needle || f->continuations)
        c->done++;
    if (s == PARE_OK)
        pare_screen_say(&c->cli->screen, "%zu of %zu measured: %s", c->done, c->args->operands,
                        f->model);
    return s;
}

static pare_status measure_other(comparing *c)
{
    pare_loaded l = {0};
    const pare_mark mark = pare_arena_mark(&c->cli->arena);
    pare_figures *const f = &c->f[c->done];
    pare_measure_step(c->cli, &c->asked, f->model, "reading", NULL);
    pare_status s = pare_loaded_open(c->cli, c->args, f->model, c->asked.exact, false, &l);
    c->checked &= l.checked;
    if (s == PARE_OK)
        s = pare_measure_sizes(c->cli, &l, f);
    if (s == PARE_OK)
        s = pare_loaded_device(c->cli, &l);
    if (s == PARE_OK)
        s = measure(c, &l, f);
    s = take(c, &l, s);
    pare_loaded_close(&l);
    pare_arena_rewind(&c->cli->arena, mark);
    return s;
}

static pare_status measure_all(comparing *c)
{
    pare_status s = open_original(c);
    if (s == PARE_OK)
        s = pare_measure_sizes(c->cli, &c->original, &c->f[0]);
    if (s == PARE_OK)
        s = take(c, &c->original, measure(c, &c->original, &c->f[0]));
    if (s == PARE_OK)
        s = take_groups(c);
    while (s == PARE_OK && c->done < c->args->operands)
        s = measure_other(c);
    return s;
}

/* Columns of the terminal that results go to; 0 when they go elsewhere. */
static size_t terminal_width(void)
{
    const char *const columns = getenv("COLUMNS");
    struct winsize size = {0};
    if (isatty(STDOUT_FILENO) != 1)
        return 0;
    if (columns && *columns)
        return (size_t)strtoul(columns, NULL, 10);
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static pare_status render(const pare_comparison *r, form as, size_t width, pare_text_out *t)
{
    switch (as) {
    case FORM_CSV: pare_compare_csv(t, r); break;
    case FORM_JSON: PARE_TRY(pare_compare_json(t, r)); break;
    case FORM_HTML: pare_compare_html(t, r); break;
    case FORM_TEXT:
    case FORMS: pare_compare_text(t, r, width); break;
    }
    return t->status;
}

static pare_status write_form(comparing *c, const pare_comparison *r, const char *path)
{
    pare_ctx *const cx = &c->cli->cx;
    pare_text_out t = {.cx = cx};
    form as = c->shown;
    bool there;
    if (path)
        (void)form_of(form_ending, path, pare_ends_with, &as);
    pare_status s = render(r, as, path ? 0 : terminal_width(), &t);
    if (s == PARE_OK && !path) {
        (void)fwrite(t.text, 1, t.len, stdout); /* main looks at the stream's error flag */
    } else if (s == PARE_OK) {
        s = check_there(c, path, as, &there);
        if (s == PARE_OK)
            s = there ? pare_file_write(cx, path, t.text, t.len)
                      : pare_file_write_new(cx, path, t.text, t.len);
    }
    pare__text_free(&t);
    return s;
}

/* Everything that was measured, unless the files of the original or of the data changed. Files are
 * written of a whole comparison only. */
static pare_status deliver(comparing *c, bool complete)
{
    if (c->done == 0)
        return PARE_OK;
    PARE_TRY(pare_loaded_unchanged(c->cli, &c->original));
    (void)count_anew(c);
    const pare_comparison r = {.asked = &c->asked,
                               .needle = c->answers.needle->opts.file,
                               .continuations = c->answers.continued->opts.prompts > 0,
                               .model = c->f,
                               .on = c->on,
                               .device = c->cli->device != NULL,
                               .models = c->done,
                               .given = c->args->operands,
                               .checked = c->checked,
                               .complete = complete,
                               .peak_rss_bytes = pare_machine_peak_resident(),
                               .peak_anonymous_bytes = c->peak_bytes};
    pare_status s = write_form(c, &r, NULL);
    for (size_t i = 0; i < c->outputs; i++) {
        if (!complete)
            pare_screen_say(&c->cli->screen,
                            "pare: warning: %s is not written, because the comparison is not "
                            "complete",
                            c->output[i]);
        else if (s == PARE_OK)
            s = write_form(c, &r, c->output[i]);
    }
    return s;
}

pare_status pare_compare_run(pare_cli *cli, const pare_args *args)
{
    comparing c = {.cli = cli, .args = args};
    PARE_TRY(pare_measure_options(cli, args, "compare", &c.asked));
    PARE_TRY(pare_compare_answers_options(cli, args, &c.asked, args->operands, &c.answers));
    PARE_TRY(pare_measure_shared(cli, args, "compare", false));
    PARE_TRY(read_forms(&c));
    PARE_TRY(pare_cli_threads(cli));
    PARE_TRY(pare_cli_device(cli, args));
    PARE_TRY(plan_job(&c));
    pare_status s = measure_all(&c);
    pare_measure_steps_end(cli);
    const pare_status delivered = deliver(&c, s == PARE_OK);
    pare_loaded_close(&c.original);
    if (s != PARE_EINTERRUPTED || c.done == 0 || delivered != PARE_OK)
        return s == PARE_OK ? delivered : s;
    pare_ctx_clear(&cli->cx);
    return pare_fail(&cli->cx, s, "interrupted; what was done is printed");
}
