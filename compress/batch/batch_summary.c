/* One summary of all jobs: for a terminal, CSV, JSON; and the files of it. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compress/batch/batch_internal.h"
#include "compress/output/output.h"
#include "compress/text/units.h"
#include "formats/json.h"
#include "runtime/file.h"

enum { CELL = 32, KL = 4, BEFORE = 6, BEHIND = 5, COLUMNS = BEFORE + PARE_BATCH_TASKS + BEHIND };

/* Columns: those before, one for each task, those behind. */
static const char *title_of(const pare_jobs *b, size_t column)
{
    static const char *const before[BEFORE] = {"bytes",      "bits", "model bits",
                                               "perplexity", "KL",   "top-1"};
    static const char *const behind[BEHIND] = {"tokens/s", "seconds", "state", "verdict", "front"};
    return column < BEFORE              ? before[column]
           : column < BEFORE + b->tasks ? b->task[column - BEFORE]
                                        : behind[column - BEFORE - b->tasks];
}

static size_t columns_of(const pare_jobs *b)
{
    return BEFORE + b->tasks + BEHIND;
}

/* Empty for a figure that is not known. */
static void put_number(char cell[CELL], int digits, double value)
{
    cell[0] = '\0';
    if (value >= 0)
        (void)snprintf(cell, CELL, "%.*f", digits, value);
}

static void cells_of(const pare_jobs *b, const pare_batch_row *r, char cell[COLUMNS][CELL])
{
    const bool done = r->state == PARE_BATCH_DONE;
    char(*const behind)[CELL] = cell + BEFORE + b->tasks;
    put_number(cell[0], 0, done ? r->bytes : -1);
    put_number(cell[1], 3, done ? r->bits : -1);
    put_number(cell[2], 3, done ? r->model_bits : -1);
    put_number(cell[3], 4, done ? r->perplexity : -1);
    put_number(cell[4], 6, done ? r->kl : -1);
    put_number(cell[5], 4, done ? r->top1 : -1);
    for (size_t i = 0; i < b->tasks; i++)
        put_number(cell[BEFORE + i], 4, done ? r->task[i] : -1);
    put_number(behind[0], 1, done ? r->tokens_s : -1);
    put_number(behind[1], 1, done ? r->seconds : -1);
    (void)snprintf(behind[2], CELL, "%s", pare_batch_state_name(r->state));
    (void)snprintf(behind[3], CELL, "%s", r->verdict);
    (void)snprintf(behind[4], CELL, "%s", r->front ? "*" : "");
}

/* Columns that some row fills. */
static void find_columns(const pare_jobs *b, size_t width[COLUMNS], size_t *name)
{
    char cell[COLUMNS][CELL];
    const size_t columns = columns_of(b);
    *name = strlen("job");
    memset(width, 0, COLUMNS * sizeof *width);
    for (size_t i = 0; i < b->rows; i++) {
        const size_t len = strlen(b->row[i].job->name);
        *name = len > *name ? len : *name;
        cells_of(b, &b->row[i], cell);
        for (size_t c = 0; c < columns; c++)
            width[c] = strlen(cell[c]) > width[c] ? strlen(cell[c]) : width[c];
    }
    for (size_t c = 0; c < columns; c++)
        if (width[c] && strlen(title_of(b, c)) > width[c])
            width[c] = strlen(title_of(b, c));
}

/* What there is to say of a row, each on a line. */
static void put_row_notes(pare_text_out *t, const pare_batch_row *r, bool by_kl)
{
    const char *const name = r->job->name;
    const bool done = r->state == PARE_BATCH_DONE;
    if (done && r->fallback_of[0])
        pare__text_put(t, "%s: is its fallback %s\n", name, r->fallback_of);
    if (done && r->resumed > 0)
        pare__text_put(t, "%s: its seconds are of the last run; %.0f block%s %s done before\n",
                       name, r->resumed, r->resumed > 1 ? "s" : "",
                       r->resumed > 1 ? "were" : "was");
    if (done && r->warnings)
        pare__text_put(t, "%s: %zu warning%s%s: %s\n", name, r->warnings, pare_plural(r->warnings),
                       r->warnings > 1 ? ", the first" : "", r->warning);
    if (done && by_kl && r->beside)
        pare__text_put(t,
                       "%s: its KL is to %s, so it has no part in the front; original: in its "
                       "recipe names the model that it is compared with\n",
                       name, pare__batch_original(r));
    if (r->why[0])
        pare__text_put(t, "%s: %s\n", name, r->why);
}

static bool has_verdicts(const pare_jobs *b)
{
    bool found = false;
    for (size_t i = 0; i < b->rows; i++)
        found |= b->row[i].verdict[0] != '\0';
    return found;
}

static void put_notes(pare_text_out *t, const pare_jobs *b)
{
    char bytes[PARE_UNIT_TEXT];
    for (size_t i = 0; i < b->rows; i++) {
        const pare_batch_row *const r = &b->row[i];
        bool told = r->state != PARE_BATCH_DONE || r->before_bytes < 0;
        for (size_t j = 0; j < i && !told; j++)
            told = b->row[j].state == PARE_BATCH_DONE &&
                   strcmp(pare__batch_original(&b->row[j]), pare__batch_original(r)) == 0;
        if (told)
            continue;
        pare__text_put(t, "original %s: %s",
                       r->job->recipe.original.text ? r->job->recipe.original.text : r->job->model,
                       pare_units_bytes((uint64_t)r->before_bytes, bytes));
        if (r->before_perplexity >= 0)
            pare__text_put(t, ", perplexity %.4f", r->before_perplexity);
        pare__text_put(t, "\n");
    }
    for (size_t i = 0; i < b->rows; i++)
        put_row_notes(t, &b->row[i], b->by_kl);
    const size_t done = pare_batch_count(b, PARE_BATCH_DONE);
    pare__text_put(t, "%zu of %zu job%s done", done, b->rows, b->rows == 1 ? "" : "s");
    for (int s = 0; s < PARE_BATCH_STATES; s++) {
        const size_t count = pare_batch_count(b, (pare_batch_state)s);
        if (s != PARE_BATCH_DONE && count)
            pare__text_put(t, ", %zu %s", count, pare_batch_state_name((pare_batch_state)s));
    }
    pare__text_put(t, "; *: no other job%s has fewer bytes and not more %s\nsummary in %s\n",
                   has_verdicts(b) ? " with the verdict ACCEPT" : "",
                   b->by_kl ? "KL" : "perplexity", b->output);
}

void pare_batch_text(pare_text_out *t, const pare_jobs *b)
{
    char cell[COLUMNS][CELL];
    size_t width[COLUMNS], name;
    const size_t columns = columns_of(b);
    find_columns(b, width, &name);
    pare__text_put(t, "%-*s", (int)name, "job");
    for (size_t c = 0; c < columns; c++)
        if (width[c])
            pare__text_put(t, "  %*s", (int)width[c], title_of(b, c));
    pare__text_put(t, "\n");
    for (size_t i = 0; i < b->rows; i++) {
        cells_of(b, &b->row[i], cell);
        pare__text_put(t, "%-*s", (int)name, b->row[i].job->name);
        for (size_t c = 0; c < columns; c++)
            if (width[c])
                pare__text_put(t, "  %*s", (int)width[c], cell[c]);
        pare__text_put(t, "\n");
    }
    if (pare_batch_count(b, PARE_BATCH_DONE))
        pare__text_put(t, "bytes: of all tensors; bits: per weight in the linears; model bits: of "
                          "all tensors, per weight\n");
    if (width[KL])
        pare__text_put(t,
                       "KL: nats, to the original; top-1: share of the tokens for which the same "
                       "one comes first\n");
    put_notes(t, b);
}

/* Tasks stand at the end: the other columns are the same in every batch. */
void pare_batch_csv(pare_text_out *t, const pare_jobs *b)
{
    char cell[COLUMNS][CELL];
    const size_t columns = columns_of(b);
    pare__text_put(t, "job,model,bytes,bits_per_weight,model_bits_per_weight,perplexity,kl,"
                      "top1_agreement,decode_tok_s,seconds,state,verdict,front,resumed_blocks,"
                      "warnings");
    for (size_t i = 0; i < b->tasks; i++) {
        pare__text_put(t, ",");
        pare__text_put_csv(t, b->task[i]);
    }
    pare__text_put(t, "\n");
    for (size_t i = 0; i < b->rows; i++) {
        const pare_batch_row *const r = &b->row[i];
        const bool done = r->state == PARE_BATCH_DONE;
        cells_of(b, r, cell);
        pare__text_put_csv(t, r->job->name);
        pare__text_put(t, ",");
        pare__text_put_csv(t, r->job->model);
        for (size_t c = 0; c + 1 < columns; c++)
            if (c < BEFORE || c >= BEFORE + b->tasks)
                pare__text_put(t, ",%s", cell[c]);
        pare__text_put(t, ",%s", r->front ? "true" : "false");
        if (done && r->resumed >= 0)
            pare__text_put(t, ",%.0f,%zu", r->resumed, r->warnings);
        else
            pare__text_put(t, ",,");
        for (size_t c = BEFORE; c < BEFORE + b->tasks; c++)
            pare__text_put(t, ",%s", cell[c]);
        pare__text_put(t, "\n");
    }
}

/* Absent where it was not measured. */
static void put_figure(pare_json_writer *w, const char *key, double value)
{
    if (value >= 0)
        pare_json_put_number(w, key, value);
}

static void put_tasks(pare_json_writer *w, const pare_jobs *b, const pare_batch_row *r)
{
    if (b->tasks)
        pare_json_open_object(w, "tasks");
    for (size_t i = 0; i < b->tasks; i++)
        put_figure(w, b->task[i], r->task[i]);
    if (b->tasks)
        pare_json_close(w);
}

static void put_row(pare_json_writer *w, const pare_jobs *b, const pare_batch_row *r)
{
    const bool done = r->state == PARE_BATCH_DONE;
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "name", r->job->name);
    pare_json_put_text(w, "model", r->job->recipe.model.text);
    pare_json_put_text(w, "output", r->output);
    pare_json_put_text(w, "recipe", r->recipe);
    pare_json_put_text(w, "state", pare_batch_state_name(r->state));
    if (b->row[r->job->after].job != r->job)
        pare_json_put_text(w, "after", b->row[r->job->after].job->name);
    if (r->why[0])
        pare_json_put_text(w, "error", r->why);
    if (r->verdict[0])
        pare_json_put_text(w, "verdict", r->verdict);
    if (done) {
        put_figure(w, "weight_bytes", r->bytes);
        put_figure(w, "bits_per_weight", r->bits);
        put_figure(w, "model_bits_per_weight", r->model_bits);
        put_figure(w, "perplexity", r->perplexity);
        put_figure(w, "kl", r->kl);
        put_figure(w, "top1_agreement", r->top1);
        put_figure(w, "decode_tok_s", r->tokens_s);
        put_figure(w, "seconds", r->seconds);
        if (r->resumed >= 0)
            pare_json_put_integer(w, "resumed_blocks", (int64_t)r->resumed);
        put_figure(w, "original_weight_bytes", r->before_bytes);
        put_figure(w, "original_perplexity", r->before_perplexity);
        put_tasks(w, b, r);
        pare_json_put_integer(w, "warnings", (int64_t)r->warnings);
        if (r->warnings)
            pare_json_put_text(w, "first_warning", r->warning);
        if (r->fallback_of[0])
            pare_json_put_text(w, "fallback", r->fallback_of);
        pare_json_put_bool(w, "front", r->front);
        pare_json_put_bool(w, "speed_front", r->fast_front);
    }
    pare_json_close(w);
}

pare_status pare_batch_json(pare_text_out *t, const pare_jobs *b)
{
    pare_json_writer *w;
    const char *text;
    size_t len;
    PARE_TRY(pare_json_writer_new(b->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "batch", b->file.file);
    pare_json_put_text(w, "output", b->output);
    pare_json_put_text(w, "quality", b->by_kl ? "kl" : "perplexity");
    pare_json_put_bool(w, "complete", pare_batch_count(b, PARE_BATCH_DONE) == b->rows);
    pare_json_open_array(w, "jobs");
    for (size_t i = 0; i < b->rows; i++)
        put_row(w, b, &b->row[i]);
    pare_json_close(w);
    pare_json_close(w);
    const pare_status s = pare_json_writer_finish(w, &text, &len);
    if (s == PARE_OK)
        pare__text_add(t, text, len);
    pare_json_writer_free(w);
    return s;
}

static pare_status write_files(pare_jobs *b)
{
    pare_text_out csv = {.cx = b->cx}, json = {.cx = b->cx}, page = {.cx = b->cx};
    pare_batch_csv(&csv, b);
    pare_batch_html(&page, b);
    pare_status s = pare_batch_json(&json, b);
    json.status = json.status == PARE_OK ? s : json.status;
    s = pare__text_save(&csv, b->output, "summary.csv");
    const pare_status of_json = pare__text_save(&json, b->output, "summary.json");
    const pare_status of_page = pare__text_save(&page, b->output, "report.html");
    return s != PARE_OK ? s : of_json != PARE_OK ? of_json : of_page;
}

/* Another shard may be writing them: what it saw is less old than a moment. */
pare_status pare_batch_write(pare_jobs *b)
{
    enum { TRIES = 100 };
    static const struct timespec pause = {.tv_nsec = 50000000};
    char *const path = pare_path_join(b->a, b->output, ".summary");
    pare_lock lock = {0};
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_output_check_room(b->cx, path));
    pare_status s = PARE_EEXISTS;
    for (int i = 0; s == PARE_EEXISTS && i < TRIES; i++) {
        if (i)
            (void)nanosleep(&pause, NULL);
        pare_ctx_clear(b->cx);
        s = pare_lock_take(b->cx, b->a, path, "batch", &b->teller, &lock);
    }
    PARE_TRY(s);
    s = pare_batch_look(b);
    for (size_t i = 0; s == PARE_OK && i < b->rows; i++)
        if (b->row[i].mine && b->row[i].state == PARE_BATCH_DONE)
            (void)unlink(b->row[i].failed_file); /* it is of a try before */
    if (s == PARE_OK)
        s = write_files(b);
    pare_lock_release(&lock);
    return s;
}
