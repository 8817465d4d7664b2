/* A page of its own: no script, nothing from elsewhere. On a narrow screen each model becomes a
 * block of lines, whose names are the titles of the columns. */
#include "compress/cli/compare_forms.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
    "<title>pare compare</title>\n<style>\n"
    ":root{color-scheme:light dark;--fg:#1b1b1b;--bg:#fff;--line:#ccc;--dim:#595959;--head:#f3f3f3}"
    "\n"
    "@media(prefers-color-scheme:dark){:root{--fg:#e6e6e6;--bg:#16181c;--line:#444;--dim:#a8a8a8;"
    "--head:#22262c}}\n"
    "body{font:14px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);margin:2em auto;"
    "max-width:100em;padding:0 1em}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse}th,td{border-bottom:1px solid "
    "var(--line);padding:.35em .6em;text-align:right;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}\n"
    "thead th,thead "
    "th:first-child{background:var(--head);vertical-align:bottom}th:first-child{text-align:left;"
    "position:sticky;left:0;background:var(--bg)}h1{font-size:1.6em;overflow-wrap:anywhere}"
    "ul{color:var(--dim);padding-left:1.2em;overflow-wrap:anywhere}\n"
    "@media(max-width:50em){thead{display:none}table,tbody,tr,th,td{display:block}"
    "tr{margin:0 0 1.5em}th:first-child{white-space:normal;overflow-wrap:anywhere;"
    "background:var(--head)}td{white-space:normal}td::before{content:attr(data-title);float:left;"
    "color:var(--dim)}}\n"
    "</style></head><body>\n";

static void put_note(pare_text_out *t, const char *line)
{
    pare__text_put(t, "<li>");
    pare__text_put_html(t, line);
    pare__text_put(t, "</li>\n");
}

static void put_model(pare_text_out *t, const pare_comparison *c, const pare_figures *f,
                      const pare_row *titles)
{
    pare_row row;
    pare_compare_cells(c, f, &row);
    pare__text_put(t, "<tr><th scope=\"row\">");
    pare__text_put_html(t, f->model);
    pare__text_put(t, "</th>");
    for (size_t i = 1; i < row.cells; i++) {
        pare__text_put(t, "<td data-title=\"");
        pare__text_put_html(t, titles->cell[i]);
        pare__text_put(t, "\">");
        pare__text_put_html(t, row.cell[i][0] ? row.cell[i] : "-");
        pare__text_put(t, "</td>");
    }
    pare__text_put(t, "</tr>\n");
}

void pare_compare_html(pare_text_out *t, const pare_comparison *c)
{
    pare_row titles;
    pare_compare_titles(c, &titles);
    pare__text_put(t, "%s<h1>", head);
    pare__text_put_html(t, c->model[0].model);
    pare__text_put(t, " compared</h1>\n<div class=\"wide\"><table><thead><tr>");
    for (size_t i = 0; i < titles.cells; i++) {
        pare__text_put(t, "<th scope=\"col\">");
        pare__text_put_html(t, titles.cell[i]);
        pare__text_put(t, "</th>");
    }
    pare__text_put(t, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < c->models; i++)
        put_model(t, c, &c->model[i], &titles);
    pare__text_put(t, "</tbody></table></div>\n<ul>\n");
    pare_compare_notes(c, t, put_note);
    pare__text_put(t, "</ul>\n<p>pare %s</p>\n</body></html>\n", PARE_VERSION);
}
