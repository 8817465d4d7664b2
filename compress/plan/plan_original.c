/* The model that results are compared with, and that a training learns from, where the recipe names
 * one beside the model that it compresses. */
#include <sys/stat.h>

#include "calib/tokens.h"
#include "compress/plan/job_data.h"
#include "compress/plan/job_paths.h"
#include "compress/plan/plan_internal.h"
#include "compress/plan/same_tokens.h"

static pare_status fail_tokens(pare_ctx *cx, const pare_plan *plan, const char *of, size_t at)
{
    return pare_recipe_fail(cx, plan->recipe.original.place,
                            "%s: its tokenizer is another one than that of the model: token %zu of "
                            "%s differs; name the model that this one was made from",
                            plan->original_path, at, of);
}

/* Whether the beginning of a text has the same tokens in both. */
static pare_status compare_text(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                                const pare_tokenizer *own, const pare_tokenizer *other,
                                const pare_text *text)
{
    enum { BEGINNING = 1 << 20 };
    const pare_mark mark = pare_arena_mark(a);
    char *const path = pare_data_path(a, plan, text);
    pare_tokens_apart apart = {0};
    pare_text_file f;
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_text_map(cx, a, path, &f));
    const pare_status s =
        pare_text_apart(cx, a, own, other, f.at, f.len < BEGINNING ? f.len : BEGINNING, &apart);
    pare_file_unmap(&f.file);
    pare_arena_rewind(a, mark);
    PARE_TRY(s);
    return apart.differ ? fail_tokens(cx, plan, text->text, apart.at) : PARE_OK;
}

static pare_status compare_texts(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                                 const pare_tokenizer *own, const pare_tokenizer *other)
{
    const pare_recipe *const r = &plan->recipe;
    for (size_t i = 0; i < r->calibration.text.count; i++)
        PARE_TRY(compare_text(cx, a, plan, own, other, &r->calibration.text.item[i]));
    for (size_t i = 0; i < r->evaluations; i++)
        if (r->evaluation[i].text.text)
            PARE_TRY(compare_text(cx, a, plan, own, other, &r->evaluation[i].text));
    return PARE_OK;
}

/* A tokenizer that cannot be read says nothing. */
static pare_status open_tokenizer(pare_ctx *cx, const pare_checkpoint *ck, pare_tokenizer **out)
{
    bool has;
    *out = NULL;
    PARE_TRY(pare_checkpoint_has_tokenizer(ck, &has));
    const pare_status s = has ? pare_checkpoint_tokenizer(ck, out) : PARE_OK;
    if (s == PARE_ENOTSUP)
        pare_ctx_clear(cx);
    return s == PARE_ENOTSUP ? PARE_OK : s;
}

static pare_status check_tokens(pare_ctx *cx, pare_arena *a, const pare_plan *plan)
{
    pare_tokenizer *own = NULL, *other = NULL;
    pare_status s = open_tokenizer(cx, &plan->checkpoint, &own);
    if (s == PARE_OK && own)
        s = open_tokenizer(cx, &plan->original_checkpoint, &other);
    if (s == PARE_OK && other)
        s = compare_texts(cx, a, plan, own, other);
    pare_tokenizer_free(other);
    pare_tokenizer_free(own);
    return s;
}

static pare_status check_window(pare_ctx *cx, const pare_plan *plan, size_t window)
{
    const size_t context = plan->original.config.context;
    return window <= context
               ? PARE_OK
               : pare_recipe_fail(cx, plan->recipe.original.place,
                                  "windows have %zu tokens, and \"original\" a context of %zu; "
                                  "take shorter windows",
                                  window, context);
}

/* Whether both paths lead to one file or folder. */
static bool is_same(const char *a, const char *b)
{
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

pare_status pare__plan_original(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    const pare_text *const written = &plan->recipe.original;
    const pare_job_path path = {plan->job->recipe, "original", plan->job->original, written};
    if (!written->text && !plan->job->original)
        return PARE_OK;
    PARE_TRY(pare_job_path_pick(cx, a, &path, &plan->original_path));
    PARE_TRY(pare_job_check_model(cx, a, &path, plan->original_path));
    const bool said = written->text && !plan->job->original; /* else by a chain of two jobs */
    if (said && plan->training && is_same(plan->original_path, plan->model_path))
        return pare_job_path_fail(
            cx, PARE_EUSAGE, &path,
            "%s: is the model itself, from which %s learns without this key, too; leave it out, or "
            "name the model that this one was made from",
            plan->original_path, pare_passes[plan->training->pass]->name);
    PARE_TRY(pare_checkpoint_open_to_run(cx, a, plan->original_path, &plan->original_checkpoint));
    PARE_TRY(pare_model_load(cx, a, &plan->original_checkpoint, &plan->original));
    const pare_job_path output = {plan->job->recipe, "output", plan->job->output,
                                  &plan->recipe.output};
    PARE_TRY(pare_job_output_beside(cx, &output, &plan->place, plan->original_path));
    if (plan->original.config.vocab != plan->model.config.vocab)
        return pare_recipe_fail(cx, written->place,
                                "\"original\" has a vocabulary of %zu tokens and the model one of "
                                "%zu; name the model that this one was made from",
                                plan->original.config.vocab, plan->model.config.vocab);
    PARE_TRY(check_window(cx, plan, plan->window));
    for (size_t i = 0; i < plan->recipe.evaluations; i++)
        if (!pare_evaluation_asks(plan->recipe.evaluation[i].kind))
            PARE_TRY(check_window(cx, plan, plan->recipe.evaluation[i].window));
    return PARE_OK;
}

pare_status pare__plan_original_tokens(pare_ctx *cx, pare_arena *a, const pare_plan *plan)
{
    return plan->original_path ? check_tokens(cx, a, plan) : PARE_OK;
}
