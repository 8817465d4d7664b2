#include "compress/cli/screen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compress/report/units.h"

enum { BAR_WIDTH = 30 };
static const double QUIET_SECONDS = 2, REDRAW_SECONDS = 0.1;

double pare_screen_clock(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0)
        return 0;
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void draw(pare_screen *s, double done, double total, double elapsed)
{
    char bar[BAR_WIDTH + 1], left[PARE_UNIT_TEXT];
    const double share = done >= total ? 1 : done / total;
    const size_t filled = (size_t)(share * BAR_WIDTH);
    memset(bar, '#', filled);
    memset(bar + filled, '.', BAR_WIDTH - filled);
    bar[BAR_WIDTH] = '\0';
    (void)fprintf(stderr, "\r\033[K%s [%s] %3.0f%%", s->step, bar, share * 100);
    if (share > 0)
        (void)fprintf(stderr, "  %s left", pare_units_seconds(elapsed / share - elapsed, left));
    (void)fflush(stderr);
    s->drawn = true;
}

static void report(void *self, const char *what, double done, double total)
{
    pare_screen *const s = self;
    const double now = pare_screen_clock();
    if (strncmp(what, s->step, sizeof s->step - 1) != 0 || done <= 0) {
        pare_screen_wipe(s);
        (void)snprintf(s->step, sizeof s->step, "%s", what);
        s->began = now;
    }
    if (done >= total) {
        pare_screen_wipe(s);
        s->step[0] = '\0'; /* the next step of this name has its own clock */
    } else if (now - s->began >= QUIET_SECONDS && now - s->shown >= REDRAW_SECONDS) {
        s->shown = now;
        draw(s, done, total, now - s->began);
    }
}

void pare_screen_init(pare_screen *s, pare_ctx *cx)
{
    const char *const term = getenv("TERM"), *const no_color = getenv("NO_COLOR");
    *s = (pare_screen){.terminal = isatty(STDERR_FILENO) == 1};
    if (!term || strcmp(term, "dumb") == 0)
        s->terminal = false;
    s->colour = s->terminal && !(no_color && *no_color);
    if (s->terminal)
        cx->progress = (pare_progress){report, s};
}

void pare_screen_wipe(pare_screen *s)
{
    if (s->drawn)
        (void)fputs("\r\033[K", stderr);
    s->drawn = false;
}

void pare_screen_say(pare_screen *s, const char *fmt, ...)
{
    pare_screen_wipe(s);
    va_list ap;
    va_start(ap, fmt);
    (void)vfprintf(stderr, fmt, ap);
    va_end(ap);
    (void)fputc('\n', stderr);
}

void pare_screen_error(pare_screen *s, const char *message)
{
    if (s->mute)
        return;
    pare_screen_say(s, "pare: %serror:%s %s", s->colour ? "\033[1;31m" : "",
                    s->colour ? "\033[0m" : "", message);
}
