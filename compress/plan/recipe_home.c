#include "compress/plan/recipe_home.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "compress/output/output.h"
#include "compress/plan/job_paths.h"
#include "formats/checksums.h"
#include "formats/json.h"
#include "runtime/file.h"

enum { CAP = 64 << 20 };

char *pare_recipe_way(pare_arena *a, const char *from, const char *to)
{
    char here[PATH_MAX], there[PATH_MAX], way[3 * PATH_MAX];
    if (!pare_output_real(from, here) || !pare_output_real(to, there))
        return NULL;
    size_t shared = 0; /* bytes of the folders that both lie in, up to a slash */
    for (size_t i = 0; here[i] == there[i] || !here[i] || !there[i]; i++) {
        const bool ends_here = !here[i] || here[i] == '/',
                   ends_there = !there[i] || there[i] == '/';
        if (ends_here && ends_there)
            shared = i;
        if (!here[i] || !there[i])
            break;
    }
    size_t len = 0;
    way[0] = '\0';
    for (const char *at = here + shared; *at; at++)
        if (*at == '/' && at[1])
            len += (size_t)snprintf(way + len, sizeof way - len, "%s..", len ? "/" : "");
    const char *const rest = there + shared + (there[shared] == '/');
    if (*rest)
        (void)snprintf(way + len, sizeof way - len, "%s%s", len ? "/" : "", rest);
    return pare_arena_text(a, way[0] ? way : ".", strlen(way[0] ? way : "."));
}

/* run.json of the output that a recipe lies in; *run NULL: it lies in none. */
static pare_status read_run(pare_ctx *cx, pare_arena *a, const char *directory, pare_json **run)
{
    char *const manifest = pare_path_join(a, directory, PARE_MANIFEST_NAME);
    char *const path = pare_path_join(a, directory, "run.json");
    char *text;
    size_t len;
    *run = NULL;
    if (!manifest || !path)
        return PARE_ENOMEM;
    if (!pare_path_is_file(manifest) || !pare_path_is_file(path))
        return PARE_OK;
    pare_status s = pare_file_read(cx, a, path, CAP, &text, &len);
    if (s == PARE_OK)
        s = pare_json_parse(cx, path, text, len, CAP, run);
    if (s == PARE_ENOMEM)
        return s;
    pare_ctx_clear(cx); /* a damaged run.json tells nothing */
    return PARE_OK;
}

static pare_status take(pare_ctx *cx, pare_arena *a, const char *directory, const pare_json *run,
                        pare_job *job)
{
    const char *const way = pare_json_text(pare_json_get(run, "recipe_directory"), NULL);
    const size_t sets = pare_json_count(pare_json_get(run, "sets"));
    char *text;
    size_t len;
    if (!way || !*way || *way == '/')
        return PARE_OK;
    char *const home = pare_path_join(a, directory, way);
    char *const recipe = home ? pare_path_join(a, home, "recipe.yaml") : NULL;
    if (!recipe)
        return PARE_ENOMEM;
    PARE_TRY(pare_job_read_recipe(cx, a, job->recipe, NULL, &text, &len));
    if (strlen(text) != len) /* a zero byte: the parser of the file says so */
        return PARE_OK;
    job->file = job->recipe;
    job->recipe = recipe;
    job->text = text;
    if (sets > 0)
        pare_warn(
            cx,
            "%s: the output was made with %zu setting%s beside this recipe, which it does not "
            "hold; run.json has them (\"sets\"), give them again with --set",
            job->file, sets, sets == 1 ? "" : "s");
    return PARE_OK;
}

pare_status pare_recipe_go_home(pare_ctx *cx, pare_arena *a, pare_job *job)
{
    const char *const slash = strrchr(job->recipe, '/');
    char *const directory = pare_path_directory(a, job->recipe);
    pare_json *run;
    if (!directory)
        return PARE_ENOMEM;
    if (strcmp(slash ? slash + 1 : job->recipe, "recipe.yaml") != 0)
        return PARE_OK;
    PARE_TRY(read_run(cx, a, directory, &run));
    const pare_status s = run ? take(cx, a, directory, run, job) : PARE_OK;
    pare_json_free(run);
    return s;
}
