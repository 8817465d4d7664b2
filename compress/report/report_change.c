/* Another verdict, and the recipe that it is of, in a README.md or report.html that is there. */
#include <string.h>

#include "compress/report/report_internal.h"

#define HEAD_HTML "<h3>Recipe</h3>\n<pre>"
#define TAIL_HTML "</pre>\n"
#define HEAD_CARD "\n## Recipe\n\n"

/* Behind the recipe that begins at `at`; NULL where it has no end. In a card, a fence of backquotes
 * that it does not have itself stands around it; in HTML, its own marks are escaped. */
static const char *behind_recipe(const char *at, bool html)
{
    const char *const text = at + strlen(html ? HEAD_HTML : HEAD_CARD);
    const char *const end = html ? strstr(text, TAIL_HTML) : NULL;
    if (html)
        return end ? end + strlen(TAIL_HTML) : NULL;
    const size_t fence = strspn(text, "`");
    for (const char *line = strchr(text, '\n'); fence && line; line = strchr(line + 1, '\n'))
        if (strspn(line + 1, "`") == fence && line[1 + fence] == '\n')
            return line + fence + 2;
    return NULL;
}

/* Adds `text`, with another recipe in place of its own. */
static void put_rest(pare_text_out *t, const char *text, const char *recipe, bool html)
{
    const char *const at = strstr(text, html ? HEAD_HTML : HEAD_CARD);
    const char *const end = at ? behind_recipe(at, html) : NULL;
    if (end) {
        pare__text_add(t, text, (size_t)(at - text));
        if (html) {
            pare__text_put(t, HEAD_HTML);
            pare__text_put_html(t, recipe);
            pare__text_put(t, TAIL_HTML);
        } else {
            pare__report_recipe_card(t, recipe);
        }
        text = end;
    }
    pare__text_add(t, text, strlen(text));
}

void pare_report_change(pare_text_out *t, const pare_report *r, const char *text, bool html)
{
    const char *const begin = strstr(text, PARE__VERDICT_BEGIN);
    const char *const end = begin ? strstr(begin, PARE__VERDICT_END) : NULL;
    if (end) {
        pare__text_add(t, text, (size_t)(begin - text));
        if (html)
            pare__report_verdict_html(t, r);
        else
            pare__report_verdict_card(t, r);
        text = end + sizeof PARE__VERDICT_END - 1;
    }
    put_rest(t, text, r->recipe_text, html);
}
