/* What structured steps took out: shapes before and after, and block by block. */
#include "compress/report/report_internal.h"
#include "compress/text/units.h"

typedef struct size_row {
    const char *what;
    size_t before, after;
} size_row;

enum { SIZES = 7 };

/* Weights of the linears and the embedding, and of a head of its own; of experts and their router.
 */
static size_t weights_of(const pare_config *c)
{
    size_t weights = c->vocab * c->hidden * (c->tied ? 1 : 2);
    for (size_t i = 0; i < c->blocks * PARE_ROLES; i++) {
        size_t n, k;
        pare_block_shape(c, i / PARE_ROLES, 0, (pare_role)(i % PARE_ROLES), &n, &k);
        weights += n * k;
    }
    for (size_t b = 0; b < c->blocks && c->experts; b++) {
        const bool dense = !pare_block_arch(c, b)->experts;
        weights += dense ? 0 : c->experts * (3 * c->expert_width + 1) * c->hidden;
    }
    return weights;
}

/* How many sizes the model has. */
static size_t list_sizes(const pare_report *r, size_row row[SIZES])
{
    const pare_config *const b = r->structure->before, *const a = r->config;
    const size_row rows[SIZES] = {{"blocks", b->blocks, a->blocks},
                                  {"hidden size", b->hidden, a->hidden},
                                  {"query heads", b->heads, a->heads},
                                  {"key/value heads", b->kv_heads, a->kv_heads},
                                  {a->uneven ? "MLP channels of all blocks" : "MLP channels",
                                   a->uneven ? pare_config_channels(b) : b->intermediate,
                                   a->uneven ? pare_config_channels(a) : a->intermediate},
                                  {"experts of a block", b->experts, a->experts},
                                  {"number of weights", weights_of(b), weights_of(a)}};
    size_t count = 0;
    for (size_t i = 0; i < SIZES; i++)
        if (rows[i].before)
            row[count++] = rows[i];
    return count;
}

static double share_gone(size_t before, size_t after)
{
    return before ? 100.0 * (1.0 - (double)after / (double)before) : 0.0;
}

static void put_cut_markdown(pare_text_out *t, size_t block, const pare_cut_result *c)
{
    pare__text_put(t, "| %zu | %s | %s | %zu of %zu | %.2f%% |", block, c->pass,
                   pare_part_name(c->part), c->after, c->before, 100.0 * c->lost);
    if (c->output_error >= 0)
        pare__text_put(t, " %.3g |\n", c->output_error);
    else
        pare__text_put(t, " |\n");
}

void pare__report_structure_sizes(pare_text_out *t, const pare_report *r)
{
    size_row row[SIZES];
    const size_t sizes = list_sizes(r, row);
    for (size_t i = 0; i < sizes; i++)
        pare__text_put(t, "| %s | %zu | %zu (%.1f%% less) |\n", row[i].what, row[i].before,
                       row[i].after, share_gone(row[i].before, row[i].after));
}

static bool stays(const pare_structure_result *s, size_t block)
{
    for (size_t i = 0; i < s->sources; i++)
        if (s->source[i] == block)
            return true;
    return false;
}

static void put_blocks_markdown(pare_text_out *t, const pare_structure_result *s)
{
    if (!s->influence)
        return;
    pare__text_put(t, "\nInfluence: 1 - mean cosine of what enters and leaves a block of the "
                      "original.\n\n| block | influence | |\n|---|---|---|\n");
    for (size_t i = 0; i < s->before->blocks; i++)
        pare__text_put(t, "| %zu | %.4f | %s |\n", i, s->influence[i],
                       stays(s, i) ? "stays" : "went");
}

/* The numbers of the experts of a block that went. */
static void put_gone(pare_text_out *t, const pare_structure_result *s, size_t block)
{
    const char *before = "";
    for (size_t e = 0; e < s->before->experts; e++)
        if (!s->expert[block].keep[e]) {
            pare__text_put(t, "%s%zu", before, e);
            before = ", ";
        }
}

static void put_experts(pare_text_out *t, const pare_structure_result *s, bool html)
{
    if (!s->expert)
        return;
    pare__text_put(t,
                   html ? "<div class=\"scroll\"><table><tr><th>block</th><th>experts that "
                          "went</th><th>that got fewer than %llu new tokens</th></tr>\n"
                        : "\n| block | experts that went | that got fewer than %llu new tokens "
                          "|\n|---|---|---|\n",
                   (unsigned long long)s->least_tokens);
    for (size_t b = 0; b < s->before->blocks; b++) {
        if (!s->expert[b].keep)
            continue;
        pare__text_put(t, html ? "<tr><td>%zu</td><td>" : "| %zu | ", b);
        put_gone(t, s, b);
        pare__text_put(t, html ? "</td><td>%zu</td></tr>\n" : " | %zu |\n", s->expert[b].few);
    }
    if (html)
        pare__text_put(t, "</table></div>\n");
}

static void put_blocks_html(pare_text_out *t, const pare_structure_result *s)
{
    if (s->captured > 0)
        pare__text_put(t,
                       "<p>The directions of the residual stream that stay hold %.2f%% of its "
                       "square on the calibration data.</p>\n",
                       100.0 * s->captured);
    if (!s->influence)
        return;
    pare__text_put(t,
                   "<table><tr><th>block of the original</th><th>influence</th><th></th></tr>\n");
    for (size_t i = 0; i < s->before->blocks; i++)
        pare__text_put(t, "<tr><td>%zu</td><td>%.4f</td><td>%s</td></tr>\n", i, s->influence[i],
                       stays(s, i) ? "stays" : "went");
    pare__text_put(t, "</table>\n");
}

/* What widths were chosen for, and what they reached. */
static void put_speed(pare_text_out *t, const pare_report *r, const char *open, const char *close)
{
    const pare_speed *const s = r->speed;
    char text[4][PARE_UNIT_TEXT];
    if (s)
        pare__text_put(t,
                       "%sWidths for a speed: %s tokens/s asked, %s predicted by the times of "
                       "the machine, %s measured; the original decodes %s.%s",
                       open, pare_units_rate(s->asked, text[0]),
                       pare_units_rate(s->predicted, text[1]), pare_units_rate(s->reached, text[2]),
                       pare_units_rate(s->original, text[3]), close);
}

void pare__report_structure_card(pare_text_out *t, const pare_report *r)
{
    const pare_structure_result *const s = r->structure;
    if (!s)
        return;
    pare__text_put(t, "\n## What went\n\n%s\n",
                   r->config->uneven
                       ? "A plain checkpoint whose blocks have MLPs of different width: pare runs "
                         "it, other programs do not."
                       : "A plain checkpoint: any program that runs the original runs it.");
    put_speed(t, r, "\n", "\n");
    put_blocks_markdown(t, s);
    put_experts(t, s, false);
    if (s->captured > 0)
        pare__text_put(t,
                       "\nThe directions of the residual stream that stay hold %.2f%% of its "
                       "square on the calibration data.\n",
                       100.0 * s->captured);
    if (s->cuts)
        pare__text_put(t, "\n| block | pass | part | stay | of the scores went | error of the "
                          "output |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < s->cuts; i++)
        put_cut_markdown(t, s->cut_block[i], &s->cut[i]);
}

void pare__report_structure_html(pare_text_out *t, const pare_report *r)
{
    const pare_structure_result *const s = r->structure;
    size_row row[SIZES];
    if (!s)
        return;
    const size_t sizes = list_sizes(r, row);
    pare__text_put(t, "<h2>What went</h2>\n<table><tr><th>size</th><th>before</th><th>after</th>"
                      "<th>less</th></tr>\n");
    for (size_t i = 0; i < sizes; i++)
        pare__text_put(t, "<tr><td>%s</td><td>%zu</td><td>%zu</td><td>%.1f%%</td></tr>\n",
                       row[i].what, row[i].before, row[i].after,
                       share_gone(row[i].before, row[i].after));
    pare__text_put(t, "</table>\n");
    put_speed(t, r, "<p>", "</p>\n");
    put_blocks_html(t, s);
    put_experts(t, s, true);
    if (!s->cuts)
        return;
    pare__text_put(t, "<div "
                      "class=\"scroll\"><table><tr><th>block</th><th>pass</th><th>part</"
                      "th><th>stay</th><th>of the "
                      "scores went</th><th>error of the output</th></tr>\n");
    for (size_t i = 0; i < s->cuts; i++) {
        const pare_cut_result *const c = &s->cut[i];
        pare__text_put(t,
                       "<tr><td>%zu</td><td>%s</td><td>%s</td><td>%zu of %zu</td><td>%.2f%%</td>",
                       s->cut_block[i], c->pass, pare_part_name(c->part), c->after, c->before,
                       100.0 * c->lost);
        if (c->output_error >= 0)
            pare__text_put(t, "<td>%.3g</td></tr>\n", c->output_error);
        else
            pare__text_put(t, "<td></td></tr>\n");
    }
    pare__text_put(t, "</table></div>\n");
}

static double lost_of(const pare_structure_result *s, size_t block)
{
    for (size_t i = 0; i < s->cuts; i++)
        if (s->cut_block[i] == block && s->cut[i].part == PARE_PART_EXPERTS)
            return s->cut[i].lost;
    return 0;
}

void pare__report_structure_run(pare_json_writer *w, const pare_report *r)
{
    const pare_structure_result *const s = r->structure;
    if (!s || !s->expert)
        return;
    pare_json_open_array(w, "experts_gone");
    for (size_t b = 0; b < s->before->blocks; b++) {
        if (!s->expert[b].keep)
            continue;
        pare_json_open_object(w, NULL);
        pare_json_put_integer(w, "block", (int64_t)b);
        pare_json_put_integer(w, "before", (int64_t)s->before->experts);
        pare_json_open_array(w, "gone");
        for (size_t e = 0; e < s->before->experts; e++)
            if (!s->expert[b].keep[e])
                pare_json_put_integer(w, NULL, (int64_t)e);
        pare_json_close(w);
        pare_json_put_number(w, "score_lost", lost_of(s, b));
        pare_json_put_integer(w, "few_tokens", (int64_t)s->expert[b].few);
        pare_json_put_integer(w, "least_tokens", (int64_t)s->least_tokens);
        pare_json_close(w);
    }
    pare_json_close(w);
}

void pare__report_structure_csv(pare_text_out *t, const pare_report *r)
{
    const pare_structure_result *const s = r->structure;
    pare__text_put(t, "block,step,pass,part,before,after,score_lost,output_error\n");
    for (size_t i = 0; s->influence && i < s->before->blocks; i++)
        pare__text_put(t, "%zu,0,depth,block,1,%d,%.9g,\n", i, stays(s, i), s->influence[i]);
    for (size_t i = 0; i < s->cuts; i++) {
        const pare_cut_result *const c = &s->cut[i];
        pare__text_put(t, "%zu,%u,%s,%s,%zu,%zu,%.9g,", s->cut_block[i], c->step, c->pass,
                       pare_part_name(c->part), c->before, c->after, c->lost);
        if (c->output_error >= 0)
            pare__text_put(t, "%.9g", c->output_error);
        pare__text_put(t, "\n");
    }
}
