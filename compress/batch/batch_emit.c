/* Scripts that run a batch elsewhere. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compress/batch/batch_internal.h"
#include "runtime/file.h"

static pare_status find_program(const pare_jobs *b, char path[PATH_MAX])
{
    const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (n <= 0)
        return pare_file_fail(b->cx, "/proc/self/exe", "read");
    path[n] = '\0';
    return PARE_OK;
}

static pare_status find_file(const pare_jobs *b, char path[PATH_MAX])
{
    return realpath(b->file.file, path) ? PARE_OK : pare_file_fail(b->cx, b->file.file, "find");
}

/* For a shell, whatever stands in it. */
static void put_quoted(pare_text_out *t, const char *text)
{
    pare__text_put(t, "'");
    for (const char *p = text; *p; p++)
        if (*p == '\'')
            pare__text_put(t, "'\\''");
        else
            pare__text_add(t, p, 1);
    pare__text_put(t, "'");
}

/* Paths are names of make's files, words of its rules and of a shell: only what is plain in all. */
static pare_status check_plain(const pare_jobs *b, const char *path)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+/";
    if (path[strspn(path, plain)] == '\0')
        return PARE_OK;
    return pare_fail(b->cx, PARE_EUSAGE,
                     "--emit make: a Makefile cannot hold the path %s; choose one of letters, "
                     "digits and \"._-+/\"",
                     path);
}

/* What every job of the script gets. */
static void put_options(pare_text_out *t, const pare_jobs *b, uint64_t ram)
{
    if (ram)
        pare__text_put(t, " --ram-limit %llu", (unsigned long long)ram);
    if (b->opts->strict)
        pare__text_put(t, " --strict");
}

/* A job whose verdict is not ACCEPT (exit code 6) is done where its output is there. One that is
 * not done says why, for the summary. */
static void put_rule(pare_text_out *t, const pare_jobs *b, const pare_batch_row *r)
{
    const pare_batch_row *const before = &b->row[r->job->after];
    pare__text_put(t, "\n%s/manifest.json: %s", r->output, r->recipe);
    if (before != r)
        pare__text_put(t, " %s/manifest.json", before->output);
    pare__text_put(t,
                   "\n\t@rm -f %s\n\t$(PARE) " PARE_BATCH_CHILD
                   " compress %s --share %s --threads $(THREADS)",
                   r->failed_file, r->recipe, b->shared);
    put_options(t, b, b->opts->ram_limit / b->at_once);
    pare__text_put(t,
                   " >> %s 2>&1 || { code=$$?; \\\n\t[ $$code = 6 ] && [ -e $@ ] || { \\\n"
                   "\tsed -n 's/^verdict *//p; s/^.*error: *//p' %s | tail -n 1 > %s; \\\n"
                   "\t[ $$code != %d ] || echo " PARE__BATCH_REFUSED " >> %s; false; }; }\n",
                   r->log, r->log, r->failed_file, PARE_BATCH_OTHER, r->failed_file);
}

static pare_status emit_make(pare_text_out *t, const pare_jobs *b, const char *program,
                             const char *file)
{
    PARE_TRY(check_plain(b, b->output));
    PARE_TRY(check_plain(b, program));
    PARE_TRY(check_plain(b, file));
    pare__text_put(t,
                   "# make -j%zu -f THIS: the jobs of %s, then their summary, whatever fails\n"
                   "PARE ?= %s\nTHREADS ?= %zu\nTHIS := $(lastword $(MAKEFILE_LIST))\n\n"
                   ".PHONY: summary jobs\nsummary:\n"
                   "\t@$(MAKE) -k -f $(THIS) jobs; jobs=$$?; \\\n"
                   "\t$(PARE) batch %s --output %s --summary; code=$$?; \\\n"
                   "\t[ $$code != 0 ] || code=$$jobs; exit $$code\n\njobs:",
                   b->at_once, file, program, pare_batch_threads(b), file, b->output);
    for (size_t i = 0; i < b->rows; i++)
        if (b->row[i].mine)
            pare__text_put(t, " \\\n    %s/manifest.json", b->row[i].output);
    pare__text_put(t, "\n");
    for (size_t i = 0; i < b->rows; i++)
        if (b->row[i].mine)
            put_rule(t, b, &b->row[i]);
    return t->status;
}

/* A task for each chain of jobs; every one writes the summary of what is there when it ends. */
static pare_status emit_slurm(pare_text_out *t, const pare_jobs *b, const char *program,
                              const char *file)
{
    size_t chains = 0;
    for (size_t i = 0; i < b->rows; i++)
        chains += b->file.job[i].root == i;
    pare__text_put(
        t,
        "#!/bin/sh\n# sbatch THIS; a task that is stopped or begun again goes on where it "
        "was\n"
        "#SBATCH --job-name=pare\n#SBATCH --array=1-%zu\n#SBATCH --requeue\n"
        "#SBATCH --signal=B:INT@120\n#SBATCH --open-mode=append\n\nexec ",
        chains);
    put_quoted(t, program);
    pare__text_put(t, " batch ");
    put_quoted(t, file);
    pare__text_put(t, " --output ");
    put_quoted(t, b->output);
    pare__text_put(t, " \\\n    --shard \"$SLURM_ARRAY_TASK_ID/%zu\"", chains);
    put_options(t, b, b->opts->ram_limit);
    pare__text_put(t, "%s\n", b->opts->speed ? " --speed" : "");
    return t->status;
}

pare_status pare_batch_emit(pare_text_out *t, const pare_jobs *b, bool make)
{
    char program[PATH_MAX], file[PATH_MAX];
    PARE_TRY(find_program(b, program));
    PARE_TRY(find_file(b, file));
    return make ? emit_make(t, b, program, file) : emit_slurm(t, b, program, file);
}
