#include "compress/cli/screen.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "compress/text/units.h"
#include "runtime/machine.h"

enum { BAR_WIDTH = 10, COLUMNS_MIN = 60, COLUMNS = 80, STACK = 256 * 1024, LEFT = 64, LINE = 2048 };
enum { NAME = 2 * PARE_SCREEN_NAME + 2 }; /* of the step and the piece */
static const double REDRAW_SECONDS = 0.1, WATCH_SECONDS = 0.5;

static void wipe(pare_screen *s)
{
    if (s->drawn)
        (void)fputs("\r\033[K", stderr);
    s->drawn = false;
}

/* Share of the piece at work, and what follows for the job. */
typedef struct outlook {
    double share, job_share, left; /* negative: not known */
} outlook;

/* Whether the piece at work is all that the step does, not one of several. */
static bool is_whole_step(const pare_screen *s)
{
    if (s->eta.now >= s->eta.phases)
        return false;
    const pare_phase *const p = &s->eta.phase[s->eta.now];
    return strcmp(p->piece ? p->piece : p->name, s->piece) == 0;
}

static outlook look_ahead(pare_screen *s, double now)
{
    outlook o = {.share = s->piece[0] && s->total > 0 ? s->done / s->total : -1,
                 .job_share = -1,
                 .left = -1};
    o.share = o.share > 1 ? 1 : o.share;
    if (s->eta.phases) {
        o.left = pare_eta_left(&s->eta, now, is_whole_step(s) ? o.share : 0);
        o.job_share = pare_eta_share(&s->eta, now, o.left);
    } else if (o.share > 0) {
        o.left = (now - s->began) * (1 - o.share) / o.share;
    }
    return o;
}

/* "about 42 s left", or nothing. */
static void put_left(double left, char text[LEFT])
{
    char seconds[PARE_UNIT_TEXT];
    text[0] = '\0';
    if (left < 60)
        (void)snprintf(seconds, sizeof seconds, "%d s", (int)(left + 0.5));
    else
        (void)pare_units_seconds(left, seconds);
    if (left >= 0)
        (void)snprintf(text, LEFT, "about %s left", seconds);
}

/* A step that is one piece of work may have its name: it stands there once. */
static void put_name(const pare_screen *s, char name[NAME])
{
    const char *const piece = strcmp(s->piece, s->step) == 0 ? "" : s->piece;
    (void)snprintf(name, NAME, "%s%s%s", s->step, s->step[0] && piece[0] ? ": " : "", piece);
}

static int columns(void)
{
    struct winsize w = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col == 0)
        return COLUMNS;
    return w.ws_col < COLUMNS_MIN ? COLUMNS_MIN : w.ws_col;
}

/* The bar is that of the job where one is known. A longer name is cut, so that the line has no
 * second one. */
static void draw(pare_screen *s, const outlook *o)
{
    char bar[BAR_WIDTH + 32] = "", left[LEFT], name[NAME];
    const double share = o->job_share >= 0 ? o->job_share : o->share;
    put_name(s, name);
    put_left(o->left, left);
    if (share >= 0) {
        const size_t filled = (size_t)(share * BAR_WIDTH);
        bar[0] = '[';
        memset(bar + 1, '#', filled);
        memset(bar + 1 + filled, '.', BAR_WIDTH - filled);
        (void)snprintf(bar + 1 + BAR_WIDTH, sizeof bar - 1 - BAR_WIDTH, "] %3d%%  ",
                       (int)(share * 100));
    }
    const int room = columns() - 2 - (int)(strlen(bar) + strlen(left));
    (void)fprintf(stderr, "\r\033[K%.*s %s%s", room > 0 ? room : 0, name, bar, left);
    (void)fflush(stderr);
    s->drawn = true;
}

static void put_share(pare_json_writer *w, const char *key, double value)
{
    if (value >= 0)
        pare_json_put_number(w, key, value);
    else
        pare_json_put_null(w, key);
}

static void log_outlook(pare_screen *s, const char *event, const outlook *o)
{
    char name[NAME];
    put_name(s, name);
    pare_json_writer *const w = pare_event_log_begin(&s->log, event, name);
    if (w) {
        if (strcmp(event, "progress") == 0)
            put_share(w, "share", o->share);
        put_share(w, "job_share", o->job_share);
        put_share(w, "left_seconds", o->left);
    }
    pare_event_log_end(&s->log, w);
}

/* A line of progress off a terminal: "NAME 72%; job 12%, about 42 s left", as far as it is known.
 */
static void tell(pare_screen *s, const outlook *o, double now)
{
    char name[NAME], left[LEFT], share[16] = "", job[32] = "", at[PARE_CLOCK_TEXT];
    s->told = true;
    s->beaten = now;
    if (s->silent || s->no_progress || s->terminal)
        return;
    put_name(s, name);
    put_left(o->left, left);
    if (o->share > 0)
        (void)snprintf(share, sizeof share, " %d%%", (int)(o->share * 100));
    if (o->job_share >= 0)
        (void)snprintf(job, sizeof job, "; job %d%%", (int)(o->job_share * 100));
    (void)fprintf(stderr, "%s %s%s%s%s%s\n", pare_clock_text(at), name, share, job,
                  !left[0] ? ""
                  : job[0] ? ", "
                           : "; ",
                  left);
}

static const char *signal_name(int number)
{
    switch (number) {
    case SIGTERM: return "SIGTERM";
    case SIGHUP: return "SIGHUP";
    case SIGXCPU: return "SIGXCPU";
    default: return "SIGINT";
    }
}

static void log_signal(pare_screen *s)
{
    pare_json_writer *const w =
        s->told_stop ? NULL
                     : pare_event_log_begin(&s->log, "interrupted",
                                            "stopping at the next safe place; the same signal "
                                            "again stops at once");
    s->told_stop = true;
    if (w)
        pare_json_put_text(w, "signal", signal_name(*s->interrupt));
    pare_event_log_end(&s->log, w);
}

/* What is due. Called for each report, and by the thread in between. */
static void beat(pare_screen *s, double now)
{
    if (*s->interrupt && !s->told_stop) {
        log_signal(s);
        wipe(s);
        if (!s->silent)
            (void)fputs("stopping at the next safe place; the same signal again stops at once\n",
                        stderr);
    }
    if (!(s->step[0] || s->piece[0]))
        return;
    const outlook o = look_ahead(s, now);
    if (s->terminal && !s->silent && !s->no_progress && now - s->first >= s->quiet_seconds &&
        now - s->shown >= REDRAW_SECONDS) {
        s->shown = now;
        draw(s, &o);
    }
    if ((!s->told && now - s->began >= s->quiet_seconds) || now - s->beaten >= s->beat_seconds) {
        tell(s, &o, now);
        log_outlook(s, "progress", &o);
    }
}

/* Keeps the bar, and the lines, up while the command computes. */
static void *watch(void *self)
{
    pare_screen *const s = self;
    (void)pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        const double due = (double)until.tv_nsec * 1e-9 +
                           (s->beat_seconds < WATCH_SECONDS ? s->beat_seconds : WATCH_SECONDS);
        until.tv_sec += (time_t)due;
        until.tv_nsec = (long)((due - (double)(time_t)due) * 1e9);
        (void)pthread_cond_timedwait(&s->wake, &s->lock, &until);
        if (!s->stop)
            beat(s, pare_seconds());
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Without the thread, what is reported keeps the lines up as far as it goes. Signals go to the
 * thread that computes. */
static void start_watching(pare_screen *s)
{
    pthread_attr_t attr;
    sigset_t all, before;
    if (s->watching || pthread_attr_init(&attr) != 0)
        return;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    s->watching = pthread_attr_setstacksize(&attr, STACK) == 0 &&
                  pthread_create(&s->watcher, &attr, watch, s) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
}

/* Whether a line off a terminal would come soon after the last one, or after the beginning: a job
 * of a second has no lines of progress, and one of many short steps has few. */
static bool is_early(const pare_screen *s, double now)
{
    return !s->terminal && s->begun && now - s->beaten < s->quiet_seconds;
}

/* Work begins, of which nothing is told yet. */
static void begin(pare_screen *s, const char *step, const char *piece, double now)
{
    if (!s->begun) {
        s->first = s->beaten = now;
        start_watching(s);
    }
    s->begun = true;
    s->told = false;
    s->began = now;
    (void)snprintf(s->step, sizeof s->step, "%s", step);
    (void)snprintf(s->piece, sizeof s->piece, "%s", piece);
    s->done = s->total = 0;
}

/* A piece of work that the job has as a phase, or that stands for itself, is more than a part of
 * the step. */
static void begin_piece(pare_screen *s, const char *what, double now)
{
    const size_t phase = pare_eta_find(&s->eta, what);
    if (phase == s->eta.phases && s->step[0]) {
        (void)snprintf(s->piece, sizeof s->piece, "%s", what);
        return;
    }
    begin(s, "", what, now);
    pare_eta_step(&s->eta, phase, now);
    const outlook o = look_ahead(s, now);
    log_outlook(s, "phase", &o);
}

static void report(void *self, const char *what, double done, double total)
{
    pare_screen *const s = self;
    (void)pthread_mutex_lock(&s->lock);
    const double now = pare_seconds();
    if (strncmp(what, s->piece, sizeof s->piece - 1) != 0 || done < s->done)
        begin_piece(s, what, now);
    s->done = done;
    s->total = total;
    beat(s, now);
    if (done >= total) { /* the next piece of this name begins anew */
        s->piece[0] = '\0';
        s->done = 0;
        if (!s->step[0])
            wipe(s);
    }
    (void)pthread_mutex_unlock(&s->lock);
}

static void further(void *self, double done, double total)
{
    pare_screen *const s = self;
    (void)pthread_mutex_lock(&s->lock);
    if (s->piece[0]) {
        s->done = done;
        s->total = total;
        beat(s, pare_seconds());
    }
    (void)pthread_mutex_unlock(&s->lock);
}

static void job(void *self, pare_phase *phase, size_t phases, double rate)
{
    pare_screen *const s = self;
    (void)pthread_mutex_lock(&s->lock);
    pare_eta_begin(&s->eta, phase, phases, rate);
    s->step[0] = s->piece[0] = '\0';
    wipe(s);
    (void)pthread_mutex_unlock(&s->lock);
}

static void step(void *self, size_t phase, const char *what)
{
    pare_screen *const s = self;
    (void)pthread_mutex_lock(&s->lock);
    const double now = pare_seconds();
    begin(s, what, "", now);
    pare_eta_step(&s->eta, phase, now);
    const outlook o = look_ahead(s, now);
    if (!is_early(s, now) && (phase >= s->eta.phases || s->eta.phase[phase].amount > 0))
        tell(s, &o, now); /* else once it takes long */
    log_outlook(s, "phase", &o);
    (void)pthread_mutex_unlock(&s->lock);
}

static void warn(void *self, const char *text)
{
    pare_screen_say(self, "pare: warning: %s", text);
}

void pare_screen_init(pare_screen *s, pare_ctx *cx)
{
    static const volatile int none;
    const char *const term = getenv("TERM"), *const no_color = getenv("NO_COLOR");
    pthread_condattr_t attr;
    *s = (pare_screen){.terminal = isatty(STDERR_FILENO) == 1,
                       .quiet_seconds = 2,
                       .beat_seconds = 30,
                       .interrupt = cx->interrupt ? cx->interrupt : &none,
                       .log = {.started = pare_seconds()}};
    if (!term || strcmp(term, "dumb") == 0)
        s->terminal = false;
    s->colour = s->terminal && !(no_color && *no_color);
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&s->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    cx->progress = (pare_progress){report, s, job, step, warn, further};
}

void pare_screen_end(pare_screen *s)
{
    (void)pthread_mutex_lock(&s->lock);
    s->stop = true;
    (void)pthread_cond_signal(&s->wake);
    wipe(s);
    (void)pthread_mutex_unlock(&s->lock);
    if (s->watching)
        (void)pthread_join(s->watcher, NULL);
    s->watching = false;
}

void pare_screen_wipe(pare_screen *s)
{
    (void)pthread_mutex_lock(&s->lock);
    wipe(s);
    (void)pthread_mutex_unlock(&s->lock);
}

static void put_line(pare_screen *s, const char *text)
{
    char at[PARE_CLOCK_TEXT] = "";
    const bool dated = !s->terminal && s->eta.phases > 0;
    wipe(s);
    if (!s->silent)
        (void)fprintf(stderr, "%s%s%s\n", dated ? pare_clock_text(at) : "", dated ? " " : "", text);
}

void pare_screen_line(pare_screen *s, bool waits, const char *fmt, ...)
{
    if (s->no_progress || (waits && is_early(s, pare_seconds())))
        return;
    char text[LINE];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)pthread_mutex_lock(&s->lock);
    put_line(s, text);
    (void)pthread_mutex_unlock(&s->lock);
}

void pare_screen_say(pare_screen *s, const char *fmt, ...)
{
    static const char warning[] = "warning: ", ours[] = "pare: ";
    char text[LINE];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)pthread_mutex_lock(&s->lock);
    put_line(s, text);
    const char *at = text;
    at += strncmp(at, ours, sizeof ours - 1) == 0 ? sizeof ours - 1 : 0;
    const bool warns = strncmp(at, warning, sizeof warning - 1) == 0;
    at += warns ? sizeof warning - 1 : 0;
    pare_event_log_end(&s->log, pare_event_log_begin(&s->log, warns ? "warning" : "notice", at));
    (void)pthread_mutex_unlock(&s->lock);
}

void pare_screen_error(pare_screen *s, const char *message)
{
    if (s->mute || s->silent)
        return;
    pare_screen_wipe(s);
    (void)fprintf(stderr, "pare: %serror:%s %s\n", s->colour ? "\033[1;31m" : "",
                  s->colour ? "\033[0m" : "", message);
}

pare_json_writer *pare_screen_event(pare_screen *s, const char *event, const char *text)
{
    (void)pthread_mutex_lock(&s->lock);
    return pare_event_log_begin(&s->log, event, text);
}

void pare_screen_event_end(pare_screen *s, pare_json_writer *w)
{
    pare_event_log_end(&s->log, w);
    (void)pthread_mutex_unlock(&s->lock);
}

void pare_screen_interrupted(pare_screen *s)
{
    (void)pthread_mutex_lock(&s->lock);
    log_signal(s);
    (void)pthread_mutex_unlock(&s->lock);
}
