/* What --restart waits for: a file in the folder says when the outputs that were there, and work on
 * them, were last written. A row whose files have these times still is to be made anew; no clock
 * has to be right for that. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compress/batch/batch_internal.h"
#include "compress/output/journal.h"
#include "compress/text/text_out.h"
#include "formats/checksums.h"
#include "runtime/file.h"

enum { LINE = 256, CAP = 2 * LINE * PARE_BATCH_JOBS_MAX };

/* The line of a file of a row, which says when it was written, behind the end of the line before;
 * empty where there is none. */
static pare_status line_of(const pare_jobs *b, const pare_batch_row *r, const char *suffix,
                           const char *name, char line[LINE])
{
    struct stat st;
    char *const directory = pare_path_suffix(b->a, r->output, suffix);
    char *const path = directory ? pare_path_join(b->a, directory, name) : NULL;
    if (!path)
        return PARE_ENOMEM;
    line[0] = '\0';
    if (stat(path, &st) == 0)
        (void)snprintf(line, LINE, "\n%s %s %lld.%09ld\n", r->job->name, name,
                       (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    return PARE_OK;
}

static pare_status work_of(const pare_jobs *b, const pare_batch_row *r, char line[LINE])
{
    return line_of(b, r, ".partial", PARE_JOURNAL_NAME, line);
}

static pare_status output_of(const pare_jobs *b, const pare_batch_row *r, char line[LINE])
{
    return line_of(b, r, "", PARE_MANIFEST_NAME, line);
}

static pare_status put_row(const pare_jobs *b, const pare_batch_row *r, pare_text_out *t)
{
    char line[LINE];
    PARE_TRY(work_of(b, r, line));
    pare__text_put(t, "%s", line[0] ? line + 1 : "");
    PARE_TRY(output_of(b, r, line));
    pare__text_put(t, "%s", line[0] ? line + 1 : "");
    return t->status;
}

pare_status pare__batch_restart_mark(const pare_jobs *b)
{
    pare_text_out t = {.cx = b->cx};
    if (!b->opts->restart)
        return PARE_OK;
    const pare_mark mark = pare_arena_mark(b->a);
    pare_status s = PARE_OK;
    pare__text_put(&t, "what was written when this says waits for pare batch --restart\n");
    for (size_t i = 0; s == PARE_OK && i < b->rows; i++)
        s = b->row[i].mine ? put_row(b, &b->row[i], &t) : PARE_OK;
    if (s == PARE_OK)
        s = pare_file_write(b->cx, b->restart_file, t.text, t.len);
    pare__text_free(&t);
    pare_arena_rewind(b->a, mark);
    return s;
}

pare_status pare__batch_restart_waits(const pare_jobs *b, pare_batch_row *r)
{
    char line[LINE], *text;
    size_t len;
    r->anew = false;
    if (!r->mine || r->ran || !pare_path_is_file(b->restart_file))
        return PARE_OK;
    const pare_mark mark = pare_arena_mark(b->a);
    pare_status s = work_of(b, r, line);
    if (s == PARE_OK && !line[0]) /* else it is newer once the row was begun anew */
        s = output_of(b, r, line);
    if (s == PARE_OK)
        s = pare_file_read(b->cx, b->a, b->restart_file, CAP, &text, &len);
    if (s == PARE_OK)
        r->anew = line[0] && strstr(text, line);
    pare_arena_rewind(b->a, mark);
    return s;
}

void pare__batch_restart_unmark(const pare_jobs *b)
{
    bool done = true;
    for (size_t i = 0; i < b->rows; i++)
        done &= !b->row[i].mine || b->row[i].state == PARE_BATCH_DONE;
    if (done)
        (void)unlink(b->restart_file);
}
