#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compress/cli/cli.h"
#include "compress/init/init.h"
#include "recipes/yaml.h"

enum { RECIPE_CAP = 1 << 20 };

/* What the recipe calls a path of the command line. In another directory than this one a relative
 * path would lead elsewhere. */
static pare_status name_path(pare_cli *cli, const char *recipe, const char *path, const char **out)
{
    char real[PATH_MAX];
    *out = path;
    if (path[0] == '/' || !strchr(recipe, '/'))
        return PARE_OK;
    if (!realpath(path, real))
        return pare_fail(&cli->cx, PARE_EUSAGE, "init: %s: %s", path, strerror(errno));
    *out = pare_arena_text(&cli->arena, real, strlen(real));
    return *out ? PARE_OK : PARE_ENOMEM;
}

/* The last part of the model's path, without the suffix of a file. */
static pare_status name_model(pare_cli *cli, const char *path, const char **out)
{
    char real[PATH_MAX];
    if (!realpath(path, real))
        return pare_fail(&cli->cx, PARE_ENOTFOUND, "init: %s: there is no such model", path);
    const char *const name = strrchr(real, '/') + 1;
    const char *const dot = strrchr(name, '.');
    const size_t len =
        dot && dot > name && pare_path_is_file(real) ? (size_t)(dot - name) : strlen(name);
    *out = len ? pare_arena_text(&cli->arena, name, len) : "model";
    return *out ? PARE_OK : PARE_ENOMEM;
}

/* Outputs lie beside the recipe, and nothing but the model belongs where the model lies. */
static pare_status check_place(pare_cli *cli, const pare_init *init)
{
    char model[PATH_MAX], place[PATH_MAX];
    const char *const directory = pare_path_directory(&cli->arena, init->recipe);
    if (!directory)
        return PARE_ENOMEM;
    if (!realpath(init->model_path, model) || !realpath(directory, place) ||
        strcmp(model, place) != 0)
        return PARE_OK;
    return pare_fail(&cli->cx, PARE_EUSAGE,
                     "init: the recipe would lie in the model, and its output beside it; work in "
                     "another directory, or give --output FILE elsewhere");
}

/* What is replaced is a recipe. */
static pare_status check_content(pare_cli *cli, const char *output)
{
    pare_yaml *root = NULL;
    char *text;
    size_t len;
    pare_status s = pare_file_read(&cli->cx, &cli->arena, output, RECIPE_CAP, &text, &len);
    if (s == PARE_OK)
        s = pare_yaml_parse(&cli->cx, &cli->arena, output, true, text, len, &root);
    if (s == PARE_ENOMEM)
        return s;
    if (s == PARE_OK && root && root->kind == PARE_YAML_MAPPING && pare_yaml_get(root, "pare"))
        return PARE_OK;
    pare_ctx_clear(&cli->cx);
    return pare_fail(&cli->cx, PARE_EUSAGE,
                     "init: --output \"%s\": what is there is no recipe of pare, so --restart "
                     "does not replace it; choose another path",
                     output);
}

static pare_status check_output(pare_cli *cli, const pare_args *args, const char *output)
{
    struct stat st;
    const char *const directory = pare_path_directory(&cli->arena, output);
    if (!directory)
        return PARE_ENOMEM;
    if (!pare_path_is_directory(directory) || access(directory, W_OK | X_OK) != 0)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "init: --output \"%s\": %s is not a directory that can be written to",
                         output, directory);
    if (lstat(output, &st) != 0)
        return PARE_OK;
    if (!S_ISREG(st.st_mode))
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "init: --output \"%s\" is no regular file, and is not replaced; choose "
                         "another path",
                         output);
    if (pare_args_given(args, "restart"))
        return check_content(cli, output);
    return pare_fail(&cli->cx, PARE_EUSAGE,
                     "init: --output \"%s\" exists already; --restart replaces it", output);
}

static pare_status make(pare_cli *cli, const pare_args *args, const pare_init *init,
                        pare_init_result *out)
{
    const char *const preset = pare_args_text(args, "preset");
    const char *const from = pare_args_text(args, "from");
    char *text;
    size_t len;
    if (!preset == !from)
        return pare_fail(
            &cli->cx, PARE_EUSAGE,
            "init: give one of --preset NAME and --from FILE; \"pare help preset\" has "
            "the presets");
    if (preset)
        return pare_init_preset(&cli->cx, &cli->arena, init, preset, out);
    if (!pare_path_is_file(from))
        return pare_fail(&cli->cx, PARE_EUSAGE, "init: --from \"%s\": %s", from,
                         pare_path_no_file(from));
    PARE_TRY(pare_file_read(&cli->cx, &cli->arena, from, RECIPE_CAP, &text, &len));
    return pare_init_translate(&cli->cx, &cli->arena, init, from, text, len, out);
}

/* What is neither implied nor unknown was left out. */
static void put_list(pare_json_writer *w, const char *key, const pare_init_result *r, bool implied,
                     bool unknown)
{
    pare_json_open_array(w, key);
    for (size_t i = 0; i < r->lefts; i++) {
        if (r->left[i].unknown != unknown || (r->left[i].implied && !unknown) != implied)
            continue;
        pare_json_open_object(w, NULL);
        pare_json_put_integer(w, "line", (int64_t)r->left[i].line);
        pare_json_put_text(w, "what", r->left[i].what);
        pare_json_put_text(w, "reason", r->left[i].why);
        pare_json_close(w);
    }
    pare_json_close(w);
}

static pare_status print_json(pare_cli *cli, const char *model, const char *output,
                              const pare_init_result *r)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "model", model);
    if (output)
        pare_json_put_text(w, "recipe", output);
    else
        pare_json_put_text(w, "text", r->text);
    put_list(w, "left_out", r, false, false);
    put_list(w, "implied", r, true, false);
    put_list(w, "unknown", r, false, true);
    pare_json_close(w);
    return pare_cli_print(w);
}

pare_status pare_init_run(pare_cli *cli, const pare_args *args)
{
    const char *const output = pare_args_text(args, "output");
    pare_init init = {.recipe = output ? output : "recipe.yaml",
                      .printed = !output,
                      .model_path = args->operand[0],
                      .data_path = pare_args_text(args, "text")};
    const char *const tokens = pare_args_text(args, "tokens");
    pare_init_result r = {0};
    if (init.data_path && tokens)
        return pare_fail(&cli->cx, PARE_EUSAGE, "init: give one of --text FILE and --tokens FILE");
    init.tokens = tokens != NULL;
    init.data_path = tokens ? tokens : init.data_path;
    if (output)
        PARE_TRY(check_output(cli, args, output));
    PARE_TRY(name_model(cli, init.model_path, &init.name));
    PARE_TRY(check_place(cli, &init));
    PARE_TRY(name_path(cli, init.recipe, init.model_path, &init.model));
    if (init.data_path)
        PARE_TRY(name_path(cli, init.recipe, init.data_path, &init.data));
    PARE_TRY(pare_cli_threads(cli));
    PARE_TRY(make(cli, args, &init, &r));
    for (size_t i = 0; i < r.lefts; i++)
        pare_screen_say(&cli->screen, "pare: %s: %s:%zu: %s: %s",
                        r.left[i].unknown   ? "warning"
                        : r.left[i].implied ? "always so"
                                            : "left out",
                        pare_args_text(args, "from"), r.left[i].line, r.left[i].what,
                        r.left[i].why);
    if (r.warning)
        pare_screen_say(&cli->screen, "pare: warning: %s", r.warning);
    if (r.no_export)
        pare_screen_say(&cli->screen, "pare: %s", r.no_export);
    cli->fallback = r.lost > 0;
    if (output)
        PARE_TRY(pare_args_given(args, "restart")
                     ? pare_file_write(&cli->cx, output, r.text, r.len)
                     : pare_file_write_new(&cli->cx, output, r.text, r.len));
    if (cli->json)
        return print_json(cli, init.model, output, &r);
    if (output)
        (void)printf("%s\n", output);
    else
        (void)fwrite(r.text, 1, r.len, stdout);
    return PARE_OK;
}
