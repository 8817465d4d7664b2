/* The heat map: one column per projection, one row per block, colour by the logarithm of the error.
 * The ramp runs from dark blue over grey to yellow, lighter at every step, so that it is read alike
 * by those who see few colours and in grey; it follows the idea of cividis (Nunez et al., 2018). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/report/report_internal.h"

enum { COLUMNS = 32 };

static const double ramp[][3] = {{0, 34, 78},     {53, 69, 108},   {102, 105, 112},
                                 {148, 142, 119}, {200, 184, 102}, {254, 232, 56}};
enum { STOPS = sizeof ramp / sizeof *ramp };

const char *pare__report_projection(const char *name)
{
    for (const char *p = name; (p = strchr(p, '.')) != NULL; p++) {
        const size_t digits = strspn(p + 1, "0123456789");
        if (digits && p[1 + digits] == '.')
            return p + digits + 2;
    }
    return name;
}

/* Whether two projections are the same but for numbers: those of two experts. */
static bool same_projection(const char *a, const char *b)
{
    while (*a && *a == *b) {
        const bool dot = *a == '.';
        a++, b++;
        if (dot && strspn(a, "0123456789") && strspn(b, "0123456789")) {
            a += strspn(a, "0123456789");
            b += strspn(b, "0123456789");
        }
    }
    return *a == *b;
}

/* Short title of a column: what stands behind the last dot, with a mark where it is of experts, and
 * blanks for underscores, where a narrow page may break it. */
static void put_title(pare_text_out *t, const char *name)
{
    char title[64];
    const char *const dot = strrchr(name, '.');
    const char *number = name;
    while ((number = strchr(number, '.')) && !strspn(number + 1, "0123456789"))
        number++;
    (void)snprintf(title, sizeof title, "%s%s", number ? "*." : "", dot ? dot + 1 : name);
    for (char *p = title; *p; p++)
        *p = *p == '_' ? ' ' : *p;
    pare__text_put_html(t, title);
}

/* Of the experts of a block the one with the largest error is drawn, the first of such. */
static bool is_drawn(const pare_report *r, size_t i)
{
    const pare_linear_result *const l = &r->row[i];
    const char *const name = pare__report_projection(l->linear.name);
    const double error = pare__report_error(l);
    for (size_t j = i; l->part && j-- > 0 && r->row[j].block == l->block;)
        if (pare__report_error(&r->row[j]) >= error &&
            same_projection(pare__report_projection(r->row[j].linear.name), name))
            return false;
    for (size_t j = i + 1; l->part && j < r->rows && r->row[j].block == l->block; j++)
        if (pare__report_error(&r->row[j]) > error &&
            same_projection(pare__report_projection(r->row[j].linear.name), name))
            return false;
    return true;
}

static size_t column_of(const pare_report *r, const char *const *column, size_t columns, size_t row)
{
    const char *const name = pare__report_projection(r->row[row].linear.name);
    size_t i = 0;
    while (i < columns && !same_projection(column[i], name))
        i++;
    return i;
}

typedef struct range {
    double low, high; /* logarithms */
} range;

/* Errors of outputs and of weights are not of one kind: each has its scale. */
typedef struct scales {
    range outputs, weights;
    bool both; /* there are linears of each */
} scales;

static bool of_weights(const pare_linear_result *l)
{
    return l->output_error < 0;
}

static range error_range(const pare_report *r, bool weights)
{
    range x = {INFINITY, -INFINITY};
    for (size_t i = 0; i < r->rows; i++) {
        const double e = pare__report_error(&r->row[i]);
        if (of_weights(&r->row[i]) == weights && e > 0 && isfinite(e)) {
            x.low = fmin(x.low, log(e));
            x.high = fmax(x.high, log(e));
        }
    }
    return x;
}

/* 0 for the least error, 1 for the largest; an exact linear counts as least. */
static double place(range x, double error)
{
    if (!(error > 0) || !(x.high > x.low))
        return 0;
    return isfinite(error) ? (log(error) - x.low) / (x.high - x.low) : 1;
}

/* The colour of a share of the ramp, and a text on it that can be read. */
static void put_colour(pare_text_out *t, double share)
{
    double rgb[3];
    const double at = share * (STOPS - 1);
    const size_t low = at < STOPS - 1 ? (size_t)at : STOPS - 2;
    for (size_t i = 0; i < 3; i++)
        rgb[i] = ramp[low][i] + (at - (double)low) * (ramp[low + 1][i] - ramp[low][i]);
    const double light = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
    pare__text_put(t, "background:rgb(%.0f,%.0f,%.0f);color:%s", rgb[0], rgb[1], rgb[2],
                   light < 128 ? "#fff" : "#000");
}

/* 2.1e-3 rather than 2.1e-03. */
static void put_error(pare_text_out *t, double error)
{
    const int exponent = error > 0 && isfinite(error) ? (int)floor(log10(error * 1.005)) : 0;
    if (error > 0 && isfinite(error))
        pare__text_put(t, "%.1fe%d", error / pow(10, exponent), exponent);
    else
        pare__text_put(t, "%g", error);
}

static void put_cell(pare_text_out *t, const pare_linear_result *l, const scales *x)
{
    const double error = pare__report_error(l);
    const bool marked = x->both && of_weights(l);
    pare__text_put(t, "<td style=\"");
    put_colour(t, place(of_weights(l) ? x->weights : x->outputs, error));
    pare__text_put(t, "\" title=\"");
    pare__text_put_html(t, l->linear.name);
    pare__text_put(t, ": %.4g%s\">", error, marked ? " (of the weights)" : "");
    put_error(t, error);
    pare__text_put(t, "%s</td>", marked ? " w" : "");
}

static void put_legend(pare_text_out *t, range x, const char *of)
{
    pare__text_put(t, "%s", of);
    if (!(x.high > x.low))
        return;
    pare__text_put(t, "<div class=\"ramp\" style=\"background:linear-gradient(to right");
    for (size_t i = 0; i < STOPS; i++)
        pare__text_put(t, ",rgb(%.0f,%.0f,%.0f)", ramp[i][0], ramp[i][1], ramp[i][2]);
    pare__text_put(t,
                   ")\"></div>\n<div class=\"ends\"><span>least: %.2g</span><span>%.2g</span>"
                   "<span>largest: %.2g</span></div>\n",
                   exp(x.low), exp((x.low + x.high) / 2), exp(x.high));
}

/* The projections in the order in which they come up. */
static size_t list_columns(const pare_report *r, const char *column[COLUMNS])
{
    size_t columns = 0;
    for (size_t i = 0; i < r->rows; i++) {
        const size_t c = column_of(r, column, columns, i);
        if (c == columns && columns < COLUMNS)
            column[columns++] = pare__report_projection(r->row[i].linear.name);
    }
    return columns;
}

/* The cells of a block; `first` is its first row, and the number of the next block's comes back. */
static size_t put_block(pare_text_out *t, const pare_report *r, const char *const *column,
                        size_t columns, const scales *x, size_t first)
{
    const size_t block = r->row[first].block;
    const pare_linear_result *cell[COLUMNS] = {NULL};
    size_t i = first;
    for (; i < r->rows && r->row[i].block == block; i++) {
        const size_t c = column_of(r, column, columns, i);
        if (c < columns && is_drawn(r, i))
            cell[c] = &r->row[i];
    }
    pare__text_put(t, "<tr><th>%zu</th>", block);
    for (size_t c = 0; c < columns; c++)
        if (cell[c])
            put_cell(t, cell[c], x);
        else
            pare__text_put(t, "<td></td>");
    pare__text_put(t, "</tr>\n");
    return i;
}

void pare__report_map(pare_text_out *t, const pare_report *r)
{
    const char *column[COLUMNS];
    const size_t columns = list_columns(r, column);
    if (columns == 0)
        return;
    pare__text_put(
        t,
        "<h2>Error by block and projection</h2>\n<p>Relative error of the outputs on the "
        "calibration data, on a scale of logarithms; of the weights behind a training, and for a "
        "method that needs no inputs.%s</p>\n",
        r->config->experts ? " Columns with * show the expert with the largest." : "");
    scales x = {error_range(r, false), error_range(r, true), false};
    x.both = x.outputs.high >= x.outputs.low && x.weights.high >= x.weights.low;
    put_legend(t, x.outputs, x.both ? "<p class=\"dim\">of the outputs</p>\n" : "");
    put_legend(t, x.weights, x.both ? "<p class=\"dim\">w: of the weights</p>\n" : "");
    pare__text_put(t, "<div class=\"scroll map\"><table><thead><tr><th>block</th>");
    for (size_t c = 0; c < columns; c++) {
        pare__text_put(t, "<th>");
        put_title(t, column[c]);
        pare__text_put(t, "</th>");
    }
    pare__text_put(t, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < r->rows;)
        i = put_block(t, r, column, columns, &x, i);
    pare__text_put(t, "</tbody></table></div>\n");
}
