#include "compress/cli/event_log.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "runtime/file.h"
#include "runtime/machine.h"

enum { FIRST_LINE = 4096 }; /* longer than the first event of any command */

const char *pare_clock_text(char text[PARE_CLOCK_TEXT])
{
    const time_t now = time(NULL);
    struct tm utc;
    if (!gmtime_r(&now, &utc) || !strftime(text, PARE_CLOCK_TEXT, "%Y-%m-%dT%H:%M:%SZ", &utc))
        text[0] = '\0';
    return text;
}

/* Whether a file begins with the first event of a log. */
static bool begins_with_start(pare_event_log *log)
{
    char line[FIRST_LINE];
    pare_json *e;
    if (!fgets(line, sizeof line, log->file))
        return false;
    const pare_status s = pare_json_parse(&log->cx, log->path, line, strlen(line), sizeof line, &e);
    pare_ctx_clear(&log->cx);
    if (s != PARE_OK)
        return false;
    const char *const event = pare_json_text(pare_json_get(e, "event"), NULL);
    const bool starts = event && strcmp(event, "start") == 0;
    pare_json_free(e);
    return starts;
}

/* A run that was killed may have left half a line, which ends here. Leaves the file at its end. */
static bool end_last_line(FILE *f)
{
    if (fseek(f, -1, SEEK_END) != 0)
        return false;
    const int last = fgetc(f);
    return last != EOF && fseek(f, 0, SEEK_END) == 0 && (last == '\n' || fputc('\n', f) != EOF);
}

/* Events go behind those of earlier runs; behind anything else they would damage it. */
static pare_status open_file(pare_ctx *cx, pare_event_log *log)
{
    struct stat st;
    const bool regular = stat(log->path, &st) == 0 && S_ISREG(st.st_mode);
    log->file = fopen(log->path, regular ? "a+" : "a");
    if (!log->file)
        return pare_fail(cx, PARE_EUSAGE, "--log json:%s: cannot open: %s", log->path,
                         strerror(errno));
    if (!regular || st.st_size == 0 || (begins_with_start(log) && end_last_line(log->file)))
        return PARE_OK;
    (void)fclose(log->file);
    log->file = NULL;
    return pare_fail(cx, PARE_EUSAGE,
                     "--log json:%s: is no log of pare, which lines would be added to; give "
                     "another file",
                     log->path);
}

pare_status pare_event_log_open(pare_ctx *cx, const char *form, pare_event_log *log)
{
    static const char json[] = "json";
    const size_t len = sizeof json - 1;
    if (strncmp(form, json, len) != 0 || (form[len] && form[len] != ':') ||
        strcmp(form + len, ":") == 0)
        return pare_fail(cx, PARE_EUSAGE,
                         "--log \"%s\": expected json (events on stderr) or json:FILE", form);
    pare_ctx_init(&log->cx);
    log->path = form[len] ? form + len + 1 : NULL;
    if (log->path)
        return open_file(cx, log);
    log->file = stderr;
    return PARE_OK;
}

static void lose(pare_event_log *log, int code)
{
    log->lost = log->lost ? log->lost : code ? code : EIO;
}

pare_json_writer *pare_event_log_begin(pare_event_log *log, const char *event, const char *text)
{
    pare_json_writer *w;
    char now[PARE_CLOCK_TEXT];
    if (!log->file)
        return NULL;
    if (pare_json_writer_new(&log->cx, &w) != PARE_OK) {
        lose(log, ENOMEM);
        return NULL;
    }
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "event", event);
    pare_json_put_text(w, "time", pare_clock_text(now));
    pare_json_put_number(w, "seconds", pare_seconds() - log->started);
    pare_json_put_text(w, "text", text);
    return w;
}

/* The writer indents; a log has one object per line, so its line breaks become spaces (none stands
 * inside a JSON string). */
static void put_line(FILE *f, const char *text, size_t len)
{
    bool space = false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n') {
            space = true;
        } else if (!space || text[i] != ' ') {
            (void)fputc(text[i], f);
            space = false;
        }
    }
    (void)fputc('\n', f);
}

void pare_event_log_end(pare_event_log *log, pare_json_writer *w)
{
    const char *text;
    size_t len;
    if (!w)
        return;
    pare_json_close(w);
    if (pare_json_writer_finish(w, &text, &len) != PARE_OK) {
        lose(log, ENOMEM);
    } else {
        errno = 0;
        put_line(log->file, text, len);
        if (fflush(log->file) != 0 || ferror(log->file))
            lose(log, errno);
    }
    pare_json_writer_free(w);
}

pare_status pare_event_log_close(pare_ctx *cx, pare_event_log *log)
{
    if (!log->file)
        return PARE_OK;
    if (log->path && fclose(log->file) != 0)
        lose(log, errno);
    log->file = NULL;
    errno = log->lost;
    return log->lost ? pare_file_fail(cx, log->path ? log->path : "/dev/stderr",
                                      "write the log (what the command did is done, the log is "
                                      "not complete)")
                     : PARE_OK;
}
