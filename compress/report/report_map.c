/* The heat map: one column per projection, one row per block, colour by the logarithm of the error.
 * Cells tell their number when pointed at, and the table below it has all of them. */
#include <math.h>
#include <string.h>

#include "compress/report/report_internal.h"

enum { CELL_W = 92, CELL_H = 24, LEFT = 64, TOP = 34 };

/* Name of the projection behind the block number: "self_attn.q_proj"; the whole name without one.
 */
static const char *projection(const char *name)
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

/* Short title of a column: what stands behind the last dot, with a mark where it is of experts. */
static void put_title(pare_text_out *t, const char *name)
{
    const char *const dot = strrchr(name, '.');
    const char *number = name;
    while ((number = strchr(number, '.')) && !strspn(number + 1, "0123456789"))
        number++;
    pare__text_put(t, "%s", number ? "*." : "");
    pare__text_put_html(t, dot ? dot + 1 : name);
}

/* Of the experts of a block the one with the largest error is drawn, the first of such. */
static bool is_drawn(const pare_report *r, size_t i)
{
    const pare_linear_result *const l = &r->row[i];
    const char *const name = projection(l->linear.name);
    const double error = pare__report_error(l);
    for (size_t j = i; l->part && j-- > 0 && r->row[j].block == l->block;)
        if (pare__report_error(&r->row[j]) >= error &&
            same_projection(projection(r->row[j].linear.name), name))
            return false;
    for (size_t j = i + 1; l->part && j < r->rows && r->row[j].block == l->block; j++)
        if (pare__report_error(&r->row[j]) > error &&
            same_projection(projection(r->row[j].linear.name), name))
            return false;
    return true;
}

static size_t column_of(const pare_report *r, const char *const *column, size_t columns, size_t row)
{
    const char *const name = projection(r->row[row].linear.name);
    size_t i = 0;
    while (i < columns && !same_projection(column[i], name))
        i++;
    return i;
}

typedef struct range {
    double low, high; /* logarithms */
} range;

static range error_range(const pare_report *r)
{
    range x = {INFINITY, -INFINITY};
    for (size_t i = 0; i < r->rows; i++) {
        const double e = pare__report_error(&r->row[i]);
        if (e > 0 && isfinite(e)) {
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

static void put_cell(pare_text_out *t, const pare_linear_result *l, range x, size_t column,
                     size_t row)
{
    const double error = pare__report_error(l), share = place(x, error);
    const size_t left = LEFT + column * CELL_W, top = TOP + row * CELL_H;
    pare__text_put(t, "<g><title>");
    pare__text_put_html(t, l->linear.name);
    pare__text_put(t,
                   ": %.4g</title><rect x=\"%zu\" y=\"%zu\" width=\"%d\" height=\"%d\" "
                   "fill=\"hsl(%.0f 70%% %.0f%%)\"/>",
                   error, left, top, CELL_W - 2, CELL_H - 2, 220 - 210 * share, 82 - 30 * share);
    pare__text_put(t,
                   "<text x=\"%zu\" y=\"%zu\" text-anchor=\"middle\" font-size=\"11\" "
                   "style=\"fill:#111\">%.2e</text></g>\n",
                   left + CELL_W / 2 - 1, top + 16, error);
}

void pare__report_map(pare_text_out *t, const pare_report *r)
{
    const char *column[32];
    size_t columns = 0, blocks = 0;
    for (size_t i = 0; i < r->rows; i++) {
        const size_t c = column_of(r, column, columns, i);
        if (c == columns && columns < sizeof column / sizeof *column)
            column[columns++] = projection(r->row[i].linear.name);
        blocks = r->row[i].block + 1 > blocks ? r->row[i].block + 1 : blocks;
    }
    if (columns == 0)
        return;
    pare__text_put(
        t,
        "<h2>Error by block and projection</h2>\n<p class=\"dim\">Relative error of the "
        "outputs on the calibration data (of the weights where none was used); blue is "
        "least, red most.%s</p>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" "
        "height=\"%zu\" role=\"img\" aria-label=\"error by block and projection\">\n",
        r->config->experts ? " Columns with * show the expert with the largest." : "",
        LEFT + columns * CELL_W, TOP + blocks * CELL_H);
    for (size_t c = 0; c < columns; c++) {
        pare__text_put(t, "<text x=\"%zu\" y=\"22\" text-anchor=\"middle\" font-size=\"12\">",
                       LEFT + c * CELL_W + CELL_W / 2);
        put_title(t, column[c]);
        pare__text_put(t, "</text>\n");
    }
    for (size_t b = 0; b < blocks; b++)
        pare__text_put(t, "<text x=\"0\" y=\"%zu\" font-size=\"12\">block %zu</text>\n",
                       TOP + b * CELL_H + 16, b);
    const range x = error_range(r);
    for (size_t i = 0; i < r->rows; i++) {
        const size_t c = column_of(r, column, columns, i);
        if (c < columns && is_drawn(r, i))
            put_cell(t, &r->row[i], x, c, r->row[i].block);
    }
    pare__text_put(t, "</svg>\n");
}
