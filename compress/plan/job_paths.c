#include "compress/plan/job_paths.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compress/output/inputs.h"
#include "compress/output/output.h"
#include "runtime/file.h"

enum { RECIPE_CAP = 1 << 20 };

pare_status pare_job_read_recipe(pare_ctx *cx, pare_arena *a, const char *recipe, const char *text,
                                 char **out, size_t *len)
{
    struct stat st;
    if (text) {
        *len = strlen(text);
        *out = pare_arena_text(a, text, *len);
        return *out ? PARE_OK : PARE_ENOMEM;
    }
    if (stat(recipe, &st) == 0 && st.st_size > RECIPE_CAP)
        return pare_recipe_fail(cx, (pare_place){recipe, 1, 1},
                                "%lld bytes; a recipe has at most %d", (long long)st.st_size,
                                RECIPE_CAP);
    return pare_file_read(cx, a, recipe, RECIPE_CAP, out, len);
}

pare_status pare_job_path_pick(pare_ctx *cx, pare_arena *a, const pare_job_path *p, char **out)
{
    if (p->override) {
        *out = pare_arena_text(a, p->override, strlen(p->override));
    } else if (p->written->text) {
        char *const directory = pare_path_directory(a, p->recipe);
        *out = directory ? pare_path_join(a, directory, p->written->text) : NULL;
    } else {
        return pare_fail(cx, PARE_EUSAGE, "%s:1:1: no %s; write \"%s: PATH\" or give --%s PATH",
                         p->recipe, p->key, p->key, p->key);
    }
    if (!*out)
        return PARE_ENOMEM;
    for (size_t n = strlen(*out); n > 1 && (*out)[n - 1] == '/'; n--)
        (*out)[n - 1] = '\0';
    return PARE_OK;
}

pare_status pare_job_path_fail(pare_ctx *cx, pare_status s, const pare_job_path *p, const char *fmt,
                               ...)
{
    char reason[sizeof cx->what];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    pare_ctx_clear(cx); /* of a reason that is recorded, and now gets its place */
    if (p->override)
        return pare_fail(cx, s, "--%s: %s", p->key, reason);
    (void)pare_recipe_fail(cx, p->written->place, "%s", reason);
    return s;
}

pare_status pare_job_check_model(pare_ctx *cx, pare_arena *a, const pare_job_path *p,
                                 const char *path)
{
    struct stat st;
    PARE_TRY(pare_inputs_no_work(cx, a, path));
    if (stat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR))
        return PARE_OK;
    return pare_job_path_fail(cx, PARE_EUSAGE, p, "%s: there is no such model", path);
}

/* A directory that is reached through a symbolic link, or named "." or "..", goes by its real name:
 * a rename must move the directory itself. */
static pare_status check_name(pare_ctx *cx, pare_arena *a, const pare_job_path *p, char **output)
{
    const char *const path = *output, *const slash = strrchr(path, '/');
    const char *const last = slash ? slash + 1 : path;
    const bool dots = strcmp(last, ".") == 0 || strcmp(last, "..") == 0;
    struct stat st;
    char real[PATH_MAX];
    if (path[0] == '\0')
        return pare_job_path_fail(cx, PARE_EUSAGE, p, "the path of the output is empty");
    if (!pare_output_fits(path))
        return pare_job_path_fail(
            cx, PARE_EUSAGE, p,
            "%.60s...: the path of the output is too long: %zu bytes, its name %zu; "
            "%d and %d are possible, and %d for a directory in it",
            path, strlen(path), strlen(last), PARE_OUTPUT_PATH_MOST, PARE_OUTPUT_NAME_MOST,
            NAME_MAX);
    if (pare_output_check_way_back(cx, path) != PARE_OK)
        return pare_job_path_fail(cx, PARE_EUSAGE, p, "%s", cx->what);
    if (lstat(path, &st) != 0 && errno == ENOTDIR)
        return pare_job_path_fail(cx, PARE_EUSAGE, p, "%s: the path leads through a file", path);
    if (lstat(path, &st) != 0)
        return dots ? pare_job_path_fail(cx, PARE_EUSAGE, p, "%s: the output must end in a name",
                                         path)
                    : PARE_OK;
    if (!pare_path_is_directory(path))
        return pare_job_path_fail(cx, PARE_EEXISTS, p,
                                  "%s: the output is a file; it must be a directory", path);
    if (!S_ISLNK(st.st_mode) && !dots)
        return PARE_OK;
    if (!realpath(path, real))
        return pare_file_fail(cx, path, "resolve");
    *output = pare_arena_text(a, real, strlen(real));
    return *output ? PARE_OK : PARE_ENOMEM;
}

static pare_status refuse_inside(pare_ctx *cx, const pare_job_path *p, const char *output,
                                 const char *directory)
{
    return pare_job_path_fail(cx, PARE_EUSAGE, p,
                              "%s: lies inside %s, where only files of that model belong; give "
                              "another output",
                              output, directory);
}

pare_status pare_job_output(pare_ctx *cx, pare_arena *a, const pare_job_path *p,
                            pare_output_place *out)
{
    char *output;
    const char *home;
    PARE_TRY(pare_job_path_pick(cx, a, p, &output));
    PARE_TRY(check_name(cx, a, p, &output));
    PARE_TRY(pare_output_place_make(a, PARE_OUTPUT_ARTIFACT, output, out));
    const char *const reserved = pare_output_place_reserved(out);
    if (reserved)
        return pare_job_path_fail(cx, PARE_EUSAGE, p,
                                  "%s: names that end in %s are for files beside outputs; give "
                                  "another output",
                                  output, reserved);
    PARE_TRY(pare_output_home(cx, a, output, &home));
    return home ? refuse_inside(cx, p, output, home) : PARE_OK;
}

pare_status pare_job_output_beside(pare_ctx *cx, const pare_job_path *p,
                                   const pare_output_place *place, const char *model)
{
    if (pare_output_lies_in(model, place->output) || pare_output_lies_in(model, place->partial))
        return pare_job_path_fail(cx, PARE_EEXISTS, p,
                                  "%s: the output would replace the model at %s", place->output,
                                  model);
    return pare_path_is_directory(model) && pare_output_lies_in(place->output, model)
               ? refuse_inside(cx, p, place->output, model)
               : PARE_OK;
}

pare_status pare_job_check_replacing(pare_ctx *cx, pare_arena *a, const pare_job_path *p,
                                     const pare_output_place *place, bool replaces, bool look_only,
                                     bool *finished)
{
    char why[PARE_OWNED_WHY];
    bool ours;
    *finished = false;
    if (!pare_path_is_directory(place->output))
        return PARE_OK;
    *finished = !replaces;
    if (replaces && !look_only)
        return pare_output_place_check(cx, a, place);
    PARE_TRY(pare_owned_marked(cx, a, place->output, PARE_OUTPUT_ARTIFACT, &ours, why));
    return ours ? PARE_OK
                : pare_job_path_fail(cx, PARE_EEXISTS, p,
                                     "%s: %s, so pare does not write there; give another output",
                                     place->output, why);
}
