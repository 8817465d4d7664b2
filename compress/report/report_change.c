/* Another verdict, and the recipe that it is of, in a README.md or report.html that is there. */
#include <string.h>

#include "compress/report/report_internal.h"

/* Where a recipe stands in it. */
static void put_recipe(pare_text_out *t, const char *recipe, bool html)
{
    if (!html) {
        pare__report_recipe_card(t, recipe);
        return;
    }
    pare__text_put(t, "<pre>");
    pare__text_put_html(t, recipe);
    pare__text_put(t, "</pre>\n");
}

/* Adds `text`, with the first occurrence of the recipe as it was replaced by what it is. */
static void put_rest(pare_text_out *t, const char *text, const char *was, const char *is, bool html)
{
    pare_text_out old = {.cx = t->cx};
    put_recipe(&old, was, html);
    pare__text_add(&old, "", 1); /* its end */
    t->status = t->status == PARE_OK ? old.status : t->status;
    const char *const at = old.status == PARE_OK ? strstr(text, old.text) : NULL;
    if (at) {
        pare__text_add(t, text, (size_t)(at - text));
        put_recipe(t, is, html);
        text = at + old.len - 1;
    }
    pare__text_add(t, text, strlen(text));
    pare__text_free(&old);
}

void pare_report_change(pare_text_out *t, const pare_report *r, const char *text,
                        const char *recipe_was, bool html)
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
    put_rest(t, text, recipe_was, r->recipe_text, html);
}
