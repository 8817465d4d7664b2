/* How much of the calibration reached each expert of a mixture. */
#include <stdlib.h>

#include "compress/report/report_internal.h"

/* Lines of a table; layers.csv and run.json have all of them. */
enum { MOST_COLD = 64 };

/* The first row of an expert whose tokens were counted. */
static bool is_expert(const pare_linear_result *row, size_t i)
{
    return row[i].part && row[i].tokens >= 0 &&
           (i == 0 || row[i].block != row[i - 1].block || row[i].part != row[i - 1].part);
}

/* Some linear of the expert of row i was calibrated on what stood in for its inputs. */
static bool is_cold(const pare_linear_result *row, size_t rows, size_t i)
{
    const size_t first = i;
    for (; i < rows && row[i].block == row[first].block && row[i].part == row[first].part; i++)
        if (row[i].cold != PARE_COLD_NOT)
            return true;
    return false;
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

pare_status pare_report_experts_take(pare_arena *a, const pare_linear_result *row, size_t rows,
                                     pare_report_experts *out)
{
    int64_t *const tokens = PARE_NEW(a, int64_t, rows);
    out->count = out->cold = 0;
    if (!tokens)
        return PARE_ENOMEM;
    for (size_t i = 0; i < rows; i++) {
        if (!is_expert(row, i))
            continue;
        tokens[out->count++] = row[i].tokens;
        out->cold += is_cold(row, rows, i);
    }
    if (out->count == 0)
        return PARE_OK;
    qsort(tokens, out->count, sizeof *tokens, by_value);
    out->least = tokens[0];
    out->median = tokens[out->count / 2];
    return PARE_OK;
}

static const char *instead(const pare_report_experts *e)
{
    return e->policy == PARE_COLD_RTN ? "white noise stands in for their inputs"
                                      : "other tokens make up for those that are missing";
}

void pare__report_experts_card(pare_text_out *t, const pare_report *r)
{
    const pare_report_experts *const e = &r->experts;
    size_t told = 0;
    if (e->count == 0)
        return;
    pare__text_put(t,
                   "\n## Experts\n\nEach token runs %zu of the %zu experts of a block. Tokens of "
                   "the calibration that reach an expert: least %lld, median %lld.\n",
                   r->config->experts_used, r->config->experts, (long long)e->least,
                   (long long)e->median);
    if (e->cold)
        pare__text_put(t,
                       "\nFewer than %llu token%s reach %zu of the %zu experts; %s.\n\n"
                       "| block | expert | tokens |\n|---|---|---|\n",
                       (unsigned long long)e->min_tokens, pare_plural(e->min_tokens), e->cold,
                       e->count, instead(e));
    for (size_t i = 0; i < r->rows; i++)
        if (is_expert(r->row, i) && is_cold(r->row, r->rows, i) && told++ < MOST_COLD)
            pare__text_put(t, "| %zu | %zu | %lld |\n", r->row[i].block, r->row[i].part - 1,
                           (long long)r->row[i].tokens);
    if (told > MOST_COLD)
        pare__text_put(t, "\n%zu more are named in `run.json`.\n", told - MOST_COLD);
}

void pare__report_experts_html(pare_text_out *t, const pare_report *r)
{
    const pare_report_experts *const e = &r->experts;
    if (e->count == 0)
        return;
    pare__text_put(t,
                   "<tr><td>experts</td><td>%zu of %zu run for a token; least %lld, median %lld "
                   "tokens of the calibration reach one",
                   r->config->experts_used, r->config->experts, (long long)e->least,
                   (long long)e->median);
    if (e->cold)
        pare__text_put(t, "; fewer than %llu reach %zu: %s", (unsigned long long)e->min_tokens,
                       e->cold, instead(e));
    pare__text_put(t, "</td></tr>\n");
}

void pare__report_experts_run(pare_json_writer *w, const pare_report *r)
{
    const pare_report_experts *const e = &r->experts;
    if (e->count == 0)
        return;
    pare_json_open_object(w, "experts");
    pare_json_put_integer(w, "in_block", (int64_t)r->config->experts);
    pare_json_put_integer(w, "used", (int64_t)r->config->experts_used);
    pare_json_put_integer(w, "counted", (int64_t)e->count);
    pare_json_put_integer(w, "least_tokens", e->least);
    pare_json_put_integer(w, "median_tokens", e->median);
    pare_json_put_integer(w, "min_tokens", (int64_t)e->min_tokens);
    pare_json_put_text(w, "cold_policy", pare_cold_policy_name(e->policy));
    pare_json_open_array(w, "cold");
    for (size_t i = 0; i < r->rows; i++) {
        if (!is_expert(r->row, i) || !is_cold(r->row, r->rows, i))
            continue;
        pare_json_open_object(w, NULL);
        pare_json_put_integer(w, "block", (int64_t)r->row[i].block);
        pare_json_put_integer(w, "expert", (int64_t)r->row[i].part - 1);
        pare_json_put_integer(w, "tokens", r->row[i].tokens);
        pare_json_close(w);
    }
    pare_json_close(w);
    pare_json_close(w);
}

void pare__report_experts_csv(pare_text_out *t, const pare_linear_result *l)
{
    if (l->part)
        pare__text_put(t, ",%zu,", l->part - 1);
    else
        pare__text_put(t, ",,");
    if (l->tokens >= 0)
        pare__text_put(t, "%lld", (long long)l->tokens);
    pare__text_put(t, ",%s", l->cold == PARE_COLD_NOT ? "" : pare_cold_policy_name(l->cold));
}
