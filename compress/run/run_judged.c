/* Files of a finished output that have its verdict, brought to the requirements of now: README.md,
 * report.html, run.json and recipe.yaml, with their digests in SHA256SUMS. A run that is killed in
 * between is made good by the next one: a file is ours where SHA256SUMS has its digest or that of
 * its new text. SHA256SUMS is written between the files, so that one of them always differs from
 * what it becomes, whether the next run has the new requirements or again the old ones. recipe.yaml
 * is the last: where SHA256SUMS has its digest, no run was killed behind that. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compress/run/run_evaluate.h"
#include "compress/run/run_internal.h"
#include "compress/text/text_out.h"
#include "formats/signature.h"
#include "formats/sums.h"
#include "runtime/file.h"

enum { PAGE, CARD, RUN, RECIPE, FILES, CAP = 64 << 20 };

typedef struct judged {
    pare_run *run;
    const pare_report *report;
    struct {
        const char *name;
        char *path, *was;
        size_t len;
        pare_text_out is;
        bool changes;
    } file[FILES];
    bool listed;  /* by SHA256SUMS */
    bool stopped; /* a run was, behind that */
    char *sums_path, *sums_was, *signature_path;
    size_t sums_len;
    pare_sums sums;
} judged;

static pare_status read_sums(judged *j)
{
    pare_ctx *const cx = j->run->cx;
    j->listed = pare_path_is_file(j->sums_path);
    if (!j->listed)
        return PARE_OK;
    PARE_TRY(pare_file_read(cx, &j->run->scratch, j->sums_path, PARE_SUMS_CAP, &j->sums_was,
                            &j->sums_len));
    return pare_sums_parse(cx, &j->run->scratch, j->sums_path, j->sums_was, j->sums_len, &j->sums);
}

static pare_status read_files(judged *j)
{
    static const char *const name[FILES] = {"report.html", "README.md", "run.json", "recipe.yaml"};
    const char *const output = j->run->plan->place.output;
    j->sums_path = pare_path_join(&j->run->scratch, output, PARE_SUMS_NAME);
    j->signature_path = pare_path_join(&j->run->scratch, output, PARE_SIGNATURE_NAME);
    if (!j->sums_path || !j->signature_path)
        return PARE_ENOMEM;
    for (size_t i = 0; i < FILES; i++) {
        j->file[i].name = name[i];
        j->file[i].is = (pare_text_out){.cx = j->run->cx};
        j->file[i].path = pare_path_join(&j->run->scratch, output, name[i]);
        if (!j->file[i].path)
            return PARE_ENOMEM;
        if (pare_path_is_file(j->file[i].path))
            PARE_TRY(pare_file_read(j->run->cx, &j->run->scratch, j->file[i].path, CAP,
                                    &j->file[i].was, &j->file[i].len));
    }
    return PARE_OK;
}

/* run.json, with the verdict where one stood, or behind all. */
static pare_status make_run(pare_run *run, const pare_json *all, const pare_gate *verdict,
                            pare_text_out *out)
{
    pare_json_writer *w;
    pare_json_iter at = {0};
    const pare_json *value;
    const char *key, *text;
    size_t len;
    PARE_TRY(pare_json_writer_new(run->cx, &w));
    pare_json_open_object(w, NULL);
    while (pare_json_next(all, &at, &key, &value))
        if (strcmp(key, "verdict") != 0)
            pare_json_put_copy(w, key, value);
        else
            pare_gate_put(w, verdict);
    if (!pare_json_get(all, "verdict"))
        pare_gate_put(w, verdict);
    pare_json_close(w);
    const pare_status s = pare_json_writer_finish(w, &text, &len);
    if (s == PARE_OK)
        pare__text_add(out, text, len);
    pare_json_writer_free(w);
    return s == PARE_OK ? out->status : s;
}

static pare_status make_texts(judged *j, const pare_json *all)
{
    const pare_plan *const plan = j->run->plan;
    PARE_TRY(make_run(j->run, all, j->report->verdict, &j->file[RUN].is));
    pare__text_add(&j->file[RECIPE].is, plan->recipe_text, plan->recipe_len);
    for (size_t i = PAGE; i <= CARD; i++)
        if (j->file[i].was)
            pare_report_change(&j->file[i].is, j->report, j->file[i].was, i == PAGE);
    for (size_t i = 0; i < FILES; i++) {
        const pare_text_out *const is = &j->file[i].is;
        PARE_TRY(is->status);
        j->file[i].changes =
            j->file[i].was && (is->len != j->file[i].len ||
                               (is->len && memcmp(is->text, j->file[i].was, is->len) != 0));
    }
    return PARE_OK;
}

/* The place of a file in SHA256SUMS; NULL where it is not listed. */
static pare_sum *listed(judged *j, size_t i)
{
    const pare_sum *const found = j->listed ? pare_sums_find(&j->sums, j->file[i].name) : NULL;
    return found ? &j->sums.item[found - j->sums.item] : NULL;
}

static pare_status find_stopped(judged *j)
{
    const pare_sum *const sum = listed(j, RECIPE);
    char was[PARE_SHA256_HEX];
    if (!sum || !j->file[RECIPE].was)
        return PARE_OK;
    PARE_TRY(pare_sha256_hex(j->run->cx, j->file[RECIPE].was, j->file[RECIPE].len, was));
    j->stopped = strcmp(was, sum->sha256) != 0;
    return PARE_OK;
}

/* Its digest becomes that of the new text. A file that somebody else changed stays as it is, with
 * the digest that it had; so does a run.json whose text need not change, unless a run was killed,
 * which leaves such a one, too. */
static pare_status list_one(judged *j, size_t i)
{
    pare_sum *const sum = listed(j, i);
    char was[PARE_SHA256_HEX], is[PARE_SHA256_HEX];
    if (!sum)
        return PARE_OK;
    PARE_TRY(pare_sha256_hex(j->run->cx, j->file[i].was, j->file[i].len, was));
    PARE_TRY(pare_sha256_hex(j->run->cx, j->file[i].is.text, j->file[i].is.len, is));
    if ((j->file[i].changes || (i == RUN && !j->stopped)) && strcmp(was, sum->sha256) != 0 &&
        strcmp(is, sum->sha256) != 0) {
        j->file[i].changes = false;
        pare__notify(j->run, PARE_EVENT_NOTICE,
                     "%s was changed since pare wrote it: it stays, with the verdict that it has",
                     j->file[i].path);
        return PARE_OK;
    }
    memcpy(sum->sha256, is, sizeof is);
    return PARE_OK;
}

/* The signature is of SHA256SUMS as it was. */
static pare_status remove_signature(judged *j)
{
    if (unlink(j->signature_path) == 0)
        pare__notify(j->run, PARE_EVENT_NOTICE,
                     "%s: the signature was of the old verdict and is removed: sign it again",
                     j->signature_path);
    else if (errno != ENOENT)
        return pare_file_fail(j->run->cx, j->signature_path, "remove");
    return PARE_OK;
}

static pare_status write_sums(judged *j)
{
    char *text;
    size_t len;
    if (!j->listed)
        return PARE_OK;
    PARE_TRY(pare_sums_text(j->run->cx, &j->run->scratch, &j->sums, &text, &len));
    if (len == j->sums_len && memcmp(text, j->sums_was, len) == 0)
        return PARE_OK;
    PARE_TRY(remove_signature(j));
    return pare_file_write(j->run->cx, j->sums_path, text, len);
}

static pare_status write_files(judged *j)
{
    PARE_TRY(read_sums(j));
    PARE_TRY(find_stopped(j));
    for (size_t i = 0; i < FILES; i++)
        if (j->file[i].was)
            PARE_TRY(list_one(j, i));
    for (size_t i = 0; i < FILES; i++) {
        if (i == RUN)
            PARE_TRY(write_sums(j));
        if (j->file[i].changes)
            PARE_TRY(pare_file_write(j->run->cx, j->file[i].path, j->file[i].is.text,
                                     j->file[i].is.len));
    }
    return PARE_OK;
}

/* What a killed run left of a file that it was writing. */
static pare_status remove_half(judged *j, const char *path)
{
    struct stat st;
    char *const half = pare_path_suffix(&j->run->scratch, path, ".tmp");
    if (!half)
        return PARE_ENOMEM;
    if (lstat(half, &st) == 0 && S_ISREG(st.st_mode) && unlink(half) != 0)
        return pare_file_fail(j->run->cx, half, "remove");
    return PARE_OK;
}

static pare_status remove_halves(judged *j)
{
    PARE_TRY(remove_half(j, j->sums_path));
    for (size_t i = 0; i < FILES; i++)
        PARE_TRY(remove_half(j, j->file[i].path));
    return PARE_OK;
}

pare_status pare__run_judged(pare_run *run, const pare_json *all, const pare_report *r)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_report report = *r;
    judged j = {.run = run, .report = &report};
    bool changes = false;
    report.recipe_text = run->plan->recipe_text;
    pare_status s = read_files(&j);
    if (s == PARE_OK)
        s = make_texts(&j, all);
    for (size_t i = 0; i < FILES; i++)
        changes |= j.file[i].changes;
    if (s == PARE_OK && changes)
        s = write_files(&j);
    if (s == PARE_OK)
        s = remove_halves(&j);
    for (size_t i = 0; i < FILES; i++)
        pare__text_free(&j.file[i].is);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}
