/* Where the bytes are: a bar of the model before and one of it after, on one scale, and their
 * table. The colours are those of Okabe and Ito, which people tell apart who see few. */
#include "compress/report/report_internal.h"
#include "compress/text/units.h"

static const struct {
    const char *name, *colour;
} part[PARE_REPORT_PARTS] = {[PARE_REPORT_EMBEDDING] = {"embedding", "#56b4e9"},
                             [PARE_REPORT_ATTENTION] = {"attention", "#0072b2"},
                             [PARE_REPORT_MLP] = {"MLP", "#e69f00"},
                             [PARE_REPORT_EXPERTS] = {"experts", "#009e73"},
                             [PARE_REPORT_OTHER] = {"norms and others", "#999999"},
                             [PARE_REPORT_HEAD] = {"head", "#cc79a7"}};

static void put_bar(pare_text_out *t, const char *what, const uint64_t *bytes, uint64_t widest)
{
    char text[PARE_UNIT_TEXT];
    pare__text_put(t, "<div>%s: %s</div>\n<div class=\"stack\">", what,
                   pare_units_bytes(pare_report_total(bytes), text));
    for (size_t i = 0; i < PARE_REPORT_PARTS; i++)
        if (bytes[i])
            pare__text_put(t, "<i style=\"width:%.3f%%;background:%s\" title=\"%s: %s\"></i>",
                           100.0 * (double)bytes[i] / (double)widest, part[i].colour, part[i].name,
                           pare_units_bytes(bytes[i], text));
    pare__text_put(t, "</div>\n");
}

void pare__report_sizes(pare_text_out *t, const pare_report *r)
{
    const uint64_t *const before = r->sizes.before, *const after = r->sizes.after;
    const uint64_t was = pare_report_total(before), is = pare_report_total(after);
    const uint64_t widest = was > is ? was : is;
    char a[PARE_UNIT_TEXT], b[PARE_UNIT_TEXT];
    if (widest == 0)
        return;
    pare__text_put(t, "<h2>Size by part</h2>\n");
    put_bar(t, "before", before, widest);
    put_bar(t, "after", after, widest);
    pare__text_put(t, "<table><thead><tr><th>part</th><th>before</th><th>after</th><th>is</th></tr>"
                      "</thead><tbody>\n");
    for (size_t i = 0; i < PARE_REPORT_PARTS; i++) {
        if (!before[i] && !after[i])
            continue;
        pare__text_put(t,
                       "<tr><td><span class=\"swatch\" style=\"background:%s\"></span>%s</td>"
                       "<td>%s</td><td>%s</td>",
                       part[i].colour, part[i].name, pare_units_bytes(before[i], a),
                       pare_units_bytes(after[i], b));
        if (before[i])
            pare__text_put(t, "<td>%.1f%%</td></tr>\n",
                           100.0 * (double)after[i] / (double)before[i]);
        else
            pare__text_put(t, "<td>new</td></tr>\n");
    }
    pare__text_put(t, "</tbody></table>\n");
}
