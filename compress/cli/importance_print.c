#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calib/imatrix.h"
#include "compress/cli/stats_print.h"
#include "compress/text/units.h"

/* Fewest and most tokens of the matrices of an entry. */
static void tokens_of(const pare_imatrix *m, const pare_imatrix_entry *e, double *least,
                      double *most)
{
    *least = *most = (double)pare_imatrix_tokens(m, e, 0);
    for (size_t i = 1; i < e->matrices; i++) {
        const double n = (double)pare_imatrix_tokens(m, e, i);
        *least = fmin(*least, n);
        *most = fmax(*most, n);
    }
}

/* A copy of a text out of the file that a terminal may have. */
static const char *shown(pare_arena *a, const char *text)
{
    char *const own = pare_arena_text(a, text, strlen(text));
    return own ? pare_text_printable(own) : NULL;
}

static pare_status print_entries(pare_cli *cli, const pare_imatrix *m)
{
    char tokens[64];
    (void)printf("\n%-44s %10s %10s %20s\n", "inputs of", "columns", "matrices", "tokens");
    for (size_t i = 0; i < m->entries; i++) {
        const pare_imatrix_entry *const e = &m->entry[i];
        const char *const name = shown(&cli->arena, e->name);
        double least, most;
        if (!name)
            return PARE_ENOMEM;
        tokens_of(m, e, &least, &most);
        if (least < most)
            (void)snprintf(tokens, sizeof tokens, "%.9g to %.9g", least, most);
        else
            (void)snprintf(tokens, sizeof tokens, "%.9g", least);
        (void)printf("%-44s %10zu %10zu %20s\n", name, e->columns, e->matrices, tokens);
    }
    return PARE_OK;
}

static pare_status print_text(pare_cli *cli, const pare_imatrix *m)
{
    char size[PARE_UNIT_TEXT];
    (void)printf("%s\n", m->file.path);
    (void)printf(
        "importance matrix of llama.cpp, %s: sums of squares of the inputs of %zu linear%s\n",
        m->older ? "the older kind of file" : "GGUF", m->entries, pare_plural(m->entries));
    (void)printf("calibration       %zu chunk%s of %zu tokens%s\n", m->chunks,
                 pare_plural(m->chunks), m->chunk,
                 m->older ? " (the tool's default: the file does not say)" : "");
    for (size_t i = 0; i < m->datasets; i++) {
        const char *const text = shown(&cli->arena, m->dataset[i]);
        if (!text)
            return PARE_ENOMEM;
        (void)printf("%-17s %s\n", i ? "" : "data", text);
    }
    (void)printf("file              %s\n", pare_units_bytes(m->file.bytes, size));
    return print_entries(cli, m);
}

static void put_entry(pare_json_writer *w, const pare_imatrix *m, const pare_imatrix_entry *e)
{
    double least, most;
    tokens_of(m, e, &least, &most);
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "name", e->name);
    pare_json_put_integer(w, "columns", (int64_t)e->columns);
    pare_json_put_integer(w, "matrices", (int64_t)e->matrices);
    pare_json_put_finite(w, "tokens_least", least);
    pare_json_put_finite(w, "tokens_most", most);
    pare_json_close(w);
}

static pare_status print_json(pare_cli *cli, const pare_imatrix *m)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "file", m->file.path);
    pare_json_put_integer(w, "file_bytes", (int64_t)m->file.bytes);
    pare_json_open_object(w, "importance");
    pare_json_put_text(w, "kind", m->older ? "older" : "gguf");
    pare_json_put_integer(w, "chunks", (int64_t)m->chunks);
    pare_json_put_integer(w, "chunk_tokens", (int64_t)m->chunk);
    pare_json_open_array(w, "datasets");
    for (size_t i = 0; i < m->datasets; i++)
        pare_json_put_text(w, NULL, m->dataset[i]);
    pare_json_close(w);
    pare_json_open_array(w, "entries");
    for (size_t i = 0; i < m->entries; i++)
        put_entry(w, m, &m->entry[i]);
    pare_json_close(w);
    pare_json_close(w);
    pare_json_close(w);
    return pare_cli_print(w);
}

pare_status pare__importance_inspect(pare_cli *cli, const char *path)
{
    pare_imatrix m;
    pare_status s = pare_imatrix_open(&cli->cx, &cli->arena, path, &m);
    if (s == PARE_OK)
        s = cli->json ? print_json(cli, &m) : print_text(cli, &m);
    pare_imatrix_close(&m);
    return s;
}
