#include "compress/cli/measure_steps.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compress/evaluate/drafts.h"

static const double token_bytes = 4;  /* of text or of a file of tokens */
static const double item_bytes = 256; /* of a choice file */

/* Of prompts that are continued twice, token by token. */
static const double draft_bytes = 8.0 * PARE_DRAFT_PROMPTS * 2 * PARE_DRAFT_TOKENS;

/* Of four runs over 512 tokens. */
static const double speed_bytes = 4 * 512 * 4;

pare_status pare_measure_steps_take(pare_cli *cli, size_t most, pare_measure_steps *s)
{
    *s = (pare_measure_steps){.phase = PARE_NEW(&cli->arena, pare_phase, most)};
    return s->phase ? PARE_OK : PARE_ENOMEM;
}

static void expect(pare_measure *m, double amount, const char *piece)
{
    pare_measure_steps *const s = m->steps;
    s->phase[s->phases++] =
        (pare_phase){.name = "measuring", .amount = amount, .steps = 1, .piece = piece};
}

/* A file that is not there is refused when it is read. */
static double bytes_of(const char *path, double most)
{
    struct stat st;
    const double bytes = stat(path, &st) == 0 ? (double)st.st_size : 0;
    return most > 0 && most < bytes ? most : bytes;
}

void pare_measure_expect_open(pare_measure *m)
{
    expect(m, 0, NULL);
}

void pare_measure_expect_text(pare_measure *m, size_t window, size_t models)
{
    const double most = token_bytes * (double)m->limit * (double)window;
    if (m->text || m->tokens)
        expect(m, (double)models * bytes_of(m->text ? m->text : m->tokens, most),
               "scoring windows");
}

void pare_measure_expect_choice(pare_measure *m, size_t file)
{
    expect(m, bytes_of(m->choice[file], item_bytes * (double)m->limit), "answering questions");
}

void pare_measure_expect_task(pare_measure *m, size_t task)
{
    expect(m, bytes_of(m->task[task].file, item_bytes * (double)m->limit), "answering questions");
}

/* Lengths that are not given are about so long together. */
void pare_measure_expect_needle(pare_measure *m, const pare_needle_opts *o)
{
    enum { TOGETHER = 8192 };
    size_t tokens = o->lengths ? 0 : TOGETHER;
    for (size_t i = 0; i < o->lengths; i++)
        tokens += o->length[i];
    expect(m, token_bytes * (double)tokens * (double)(PARE_NEEDLE_DEPTHS * o->keys),
           "answering questions");
}

/* A token by itself takes about twice the time of one in a text. */
void pare_measure_expect_continue(pare_measure *m, size_t prompts, size_t most)
{
    expect(m, 2 * token_bytes * (double)prompts * (double)most, "continuing prompts");
}

void pare_measure_expect_speed(pare_measure *m)
{
    if (m->speed)
        expect(m, speed_bytes, "measuring speed");
}

void pare_measure_expect_draft(pare_measure *m)
{
    expect(m, draft_bytes, "drafting");
}

void pare_measure_steps_begin(pare_cli *cli, const pare_measure *m)
{
    pare_ctx_job(&cli->cx, m->steps->phase, m->steps->phases, 0);
}

void pare_measure_steps_end(pare_cli *cli)
{
    pare_ctx_job(&cli->cx, NULL, 0, 0);
}

/* Without the slashes behind a directory. */
static void put_last(char *text, size_t size, const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    size_t from = len;
    while (from > 0 && path[from - 1] != '/')
        from--;
    (void)snprintf(text, size, "%.*s", (int)(len - from), path + from);
}

void pare_measure_step(pare_cli *cli, const pare_measure *m, const char *model, const char *what,
                       const char *data)
{
    char name[48], file[48] = "", step[192];
    put_last(name, sizeof name, model);
    if (data)
        put_last(file, sizeof file, data);
    (void)snprintf(step, sizeof step, "%s: %s%s", name, what, file);
    pare_ctx_step(&cli->cx, m->steps->begun++, step);
}
