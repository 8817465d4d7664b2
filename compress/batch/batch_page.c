/* report.html of a batch: a plot of quality against size, and against speed where it was measured,
 * with the jobs that no other one beats; and the table. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/batch/batch_internal.h"
#include "compress/report/report_page.h"
#include "compress/text/units.h"
#include "compress/text/version.h"

/* Of a plot, in its own units. */
enum {
    WIDTH = 720,
    HEIGHT = 400,
    LEFT = 96,
    RIGHT = 20,
    TOP = 16,
    BOTTOM = 46,
    TICKS = 5,
    MOST_TICKS = 12
};

static const char style[] =
    "<style>svg{max-width:100%;height:auto;display:block}svg text{fill:var(--fg);font-size:12px}\n"
    "svg .dim{fill:var(--dim)}svg line{stroke:var(--line)}svg .front{fill:var(--bar);stroke:"
    "var(--bar)}\n"
    "svg circle{fill:var(--bg);stroke:var(--dim);stroke-width:2}"
    "svg polyline{fill:none;stroke:var(--bar);stroke-width:2}\n"
    "td.front{color:var(--bar);font-weight:600}</style>\n";

/* What a plot shows of a row along its lower edge, and whether it is on its front. */
typedef struct plot {
    const pare_jobs *b;
    bool speed;
    double x0, x1, y0, y1; /* ends of the axes; y by its logarithm */
    size_t points;
} plot;

static double x_of(const plot *p, const pare_batch_row *r)
{
    return p->speed ? r->tokens_s : r->bytes / 0x1p20;
}

static double y_of(const plot *p, const pare_batch_row *r)
{
    return log(pare__batch_quality(p->b, r));
}

static bool on_front(const plot *p, const pare_batch_row *r)
{
    return p->speed ? r->fast_front : r->front;
}

/* A quality of 0 has no logarithm, and a KL to another model than the others is none of the plot:
 * such a row stands in the table alone. */
static bool is_shown(const plot *p, const pare_batch_row *r)
{
    const double quality = pare__batch_quality(p->b, r);
    return r->state == PARE_BATCH_DONE && x_of(p, r) > 0 && quality > 0 && isfinite(quality) &&
           !(p->b->by_kl && r->beside);
}

static void widen(double *least, double *most, double share)
{
    const double more = *most > *least ? (*most - *least) * share : fabs(*most) * 0.05 + 0.01;
    *least -= more;
    *most += more;
}

static void find_ends(plot *p)
{
    p->x0 = p->y0 = INFINITY;
    p->x1 = p->y1 = -INFINITY;
    for (size_t i = 0; i < p->b->rows; i++) {
        const pare_batch_row *const r = &p->b->row[i];
        if (!is_shown(p, r))
            continue;
        p->points++;
        p->x0 = fmin(p->x0, x_of(p, r));
        p->x1 = fmax(p->x1, x_of(p, r));
        p->y0 = fmin(p->y0, y_of(p, r));
        p->y1 = fmax(p->y1, y_of(p, r));
    }
    widen(&p->x0, &p->x1, 0.08);
    widen(&p->y0, &p->y1, 0.08);
}

static double across(const plot *p, double x)
{
    return LEFT + (x - p->x0) / (p->x1 - p->x0) * (WIDTH - LEFT - RIGHT);
}

static double down(const plot *p, double y)
{
    return HEIGHT - BOTTOM - (y - p->y0) / (p->y1 - p->y0) * (HEIGHT - TOP - BOTTOM);
}

/* About TICKS of them in [least, most]: 1, 2 or 5 times a power of ten. */
static double step_of(double least, double most)
{
    const double step = (most - least) / TICKS, power = pow(10, floor(log10(step)));
    return power * (step <= power ? 1 : step <= 2 * power ? 2 : step <= 5 * power ? 5 : 10);
}

static void put_tick_across(pare_text_out *t, const plot *p, double x)
{
    if (x <= p->x1)
        pare__text_put(t,
                       "<text class=\"dim\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
                       across(p, x), HEIGHT - BOTTOM + 18, x);
}

static void put_tick_down(pare_text_out *t, const plot *p, double value)
{
    const double y = down(p, log(value));
    if (!(y >= TOP && y <= HEIGHT - BOTTOM)) /* nor where a value is no number */
        return;
    pare__text_put(t,
                   "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
                   "<text class=\"dim\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                   LEFT, y, WIDTH - RIGHT, y, LEFT - 6, y + 4, value);
}

/* Of the logarithmic axis: 1, 2 and 5 times powers of ten, or even steps where those are few. */
static void put_ticks_down(pare_text_out *t, const plot *p)
{
    const double least = exp(p->y0), most = exp(p->y1), step = step_of(least, most);
    if (most < 8 * least) {
        for (int i = 0; i < MOST_TICKS; i++)
            put_tick_down(t, p, (ceil(least / step) + i) * step);
        return;
    }
    const int first = (int)floor(p->y0 / log(10)), last = (int)floor(p->y1 / log(10));
    const int apart = 1 + (last - first) / MOST_TICKS; /* one for each power where they are many */
    for (int i = first; i <= last; i += apart) {
        put_tick_down(t, p, pow(10, i));
        if (apart == 1) {
            put_tick_down(t, p, 2 * pow(10, i));
            put_tick_down(t, p, 5 * pow(10, i));
        }
    }
}

static void put_axes(pare_text_out *t, const plot *p)
{
    const double step = step_of(p->x0, p->x1);
    for (int i = 0; i < MOST_TICKS; i++)
        put_tick_across(t, p, (ceil(p->x0 / step) + i) * step);
    put_ticks_down(t, p);
    pare__text_put(t, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", LEFT, HEIGHT - BOTTOM,
                   WIDTH - RIGHT, HEIGHT - BOTTOM);
    pare__text_put(
        t,
        "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n"
        "<text x=\"14\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 14 %d)\">%s "
        "(logarithmic; lower is better)</text>\n",
        (WIDTH + LEFT) / 2, HEIGHT - 8, p->speed ? "tokens per second, decoding" : "MiB of weights",
        HEIGHT / 2, HEIGHT / 2, p->b->by_kl ? "KL to the original, nats" : "perplexity");
}

/* The next row of the front behind x, or NULL. */
static const pare_batch_row *next_on_front(const plot *p, double x)
{
    const pare_batch_row *next = NULL;
    for (size_t i = 0; i < p->b->rows; i++) {
        const pare_batch_row *const r = &p->b->row[i];
        if (is_shown(p, r) && on_front(p, r) && x_of(p, r) > x &&
            (!next || x_of(p, r) < x_of(p, next)))
            next = r;
    }
    return next;
}

static void put_front(pare_text_out *t, const plot *p)
{
    pare__text_put(t, "<polyline points=\"");
    for (const pare_batch_row *r = next_on_front(p, -1); r; r = next_on_front(p, x_of(p, r)))
        pare__text_put(t, "%.1f,%.1f ", across(p, x_of(p, r)), down(p, y_of(p, r)));
    pare__text_put(t, "\"/>\n");
}

static void put_points(pare_text_out *t, const plot *p)
{
    for (size_t i = 0; i < p->b->rows; i++) {
        const pare_batch_row *const r = &p->b->row[i];
        if (!is_shown(p, r))
            continue;
        const double x = across(p, x_of(p, r)), y = down(p, y_of(p, r));
        pare__text_put(t, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\"%s><title>", x, y,
                       on_front(p, r) ? " class=\"front\"" : "");
        pare__text_put_html(t, r->job->name);
        pare__text_put(t, ": %.4g, %.6g</title></circle>\n", x_of(p, r),
                       pare__batch_quality(p->b, r));
        pare__text_put(t, "<text%s x=\"%.1f\" y=\"%.1f\">%zu</text>\n",
                       on_front(p, r) ? "" : " class=\"dim\"", x + 7, y - 6, i + 1);
    }
}

static void put_plot(pare_text_out *t, const pare_jobs *b, bool speed)
{
    plot p = {.b = b, .speed = speed};
    find_ends(&p);
    if (p.points == 0)
        return;
    pare__text_put(
        t,
        "<h2>Quality and %s</h2>\n<p>Filled: the front. No other job that keeps to what it "
        "requires is better in one and at least as good in the other. Numbers are those of the "
        "table.</p>\n"
        "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"quality against %s\">\n",
        speed ? "speed" : "size", WIDTH, HEIGHT, speed ? "speed" : "size");
    put_axes(t, &p);
    put_front(t, &p);
    put_points(t, &p);
    pare__text_put(t, "</svg>\n");
}

/* A cell; empty where the figure is not known. */
static void put_cell(pare_text_out *t, double value, int digits)
{
    if (value >= 0)
        pare__text_put(t, "<td>%.*f</td>", digits, value);
    else
        pare__text_put(t, "<td></td>");
}

static void put_row(pare_text_out *t, const pare_jobs *b, const pare_batch_row *r, bool speeds)
{
    char seconds[PARE_UNIT_TEXT];
    const bool done = r->state == PARE_BATCH_DONE;
    pare__text_put(t, "<tr><td>%zu</td><td class=\"%s\">", (size_t)(r - b->row) + 1,
                   r->front ? "front left" : "left");
    pare__text_put_html(t, r->job->name);
    pare__text_put(t, "</td><td class=\"left\">");
    pare__text_put_html(t, r->job->model);
    pare__text_put(t, "</td>");
    put_cell(t, done ? r->bytes / 0x1p20 : -1, 2);
    put_cell(t, done ? r->bits : -1, 3);
    put_cell(t, done ? r->model_bits : -1, 3);
    put_cell(t, done ? r->perplexity : -1, 4);
    put_cell(t, done ? r->kl : -1, 6);
    put_cell(t, done && r->top1 >= 0 ? 100 * r->top1 : -1, 2);
    for (size_t i = 0; i < b->tasks; i++)
        put_cell(t, done ? r->task[i] : -1, 4);
    if (speeds)
        put_cell(t, done ? r->tokens_s : -1, 1);
    pare__text_put(t, "<td>%s</td><td>%s%s%s%s</td><td class=\"left\">",
                   done && r->seconds >= 0 ? pare_units_seconds(r->seconds, seconds) : "",
                   pare_batch_state_name(r->state), r->verdict[0] ? ", " : "", r->verdict,
                   r->front ? ", front" : "");
    if (done && r->fallback_of[0]) {
        pare__text_put(t, "fallback: ");
        pare__text_put_html(t, r->fallback_of);
        pare__text_put(t, " ");
    }
    if (done && r->warnings) {
        pare__text_put(t, "%zu warning%s: ", r->warnings, pare_plural(r->warnings));
        pare__text_put_html(t, r->warning);
        pare__text_put(t, " ");
    }
    pare__text_put_html(t, r->why);
    pare__text_put(t, "</td></tr>\n");
}

void pare_batch_html(pare_text_out *t, const pare_jobs *b)
{
    bool speeds = false;
    for (size_t i = 0; i < b->rows; i++)
        speeds |= b->row[i].state == PARE_BATCH_DONE && b->row[i].tokens_s > 0;
    pare__text_put(t, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    pare__report_style(t);
    pare__text_put(t, "%s<title>pare batch: ", style);
    pare__text_put_html(t, b->file.file);
    pare__text_put(t, "</title></head><body>\n<h1>");
    pare__text_put_html(t, b->file.file);
    pare__text_put(t, "</h1>\n<p>%zu of %zu jobs are done, in ",
                   pare_batch_count(b, PARE_BATCH_DONE), b->rows);
    pare__text_put_html(t, b->output);
    pare__text_put(t, "</p>\n");
    put_plot(t, b, false);
    if (speeds)
        put_plot(t, b, true);
    pare__text_put(t,
                   "<h2>Jobs</h2>\n<div class=\"scroll\"><table><thead><tr>"
                   "<th></th><th class=\"left\">job</th><th "
                   "class=\"left\">model</th><th>MiB</th><th>bits per weight</th>"
                   "<th>in the whole model</th><th>perplexity</th><th>KL</th><th>top-1, %%</th>");
    for (size_t i = 0; i < b->tasks; i++) {
        pare__text_put(t, "<th>");
        pare__text_put_html(t, b->task[i]);
        pare__text_put(t, "</th>");
    }
    pare__text_put(t,
                   "%s<th>time</th><th>state</th><th class=\"left\">remarks</th></tr></thead>"
                   "<tbody>\n",
                   speeds ? "<th>tokens/s</th>" : "");
    for (size_t i = 0; i < b->rows; i++)
        put_row(t, b, &b->row[i], speeds);
    pare__text_put(t, "</tbody></table></div>\n<p class=\"dim\">pare %s</p>\n</body></html>\n",
                   PARE_VERSION);
}
