/* What makes two jobs the same one: the recipe, the model, the calibration, the program and the
 * arithmetic. */
#include <stdio.h>
#include <string.h>

#include "compress/run/run_internal.h"
#include "compress/text/version.h"
#include "formats/checksums.h"
#include "runtime/file.h"
#include "runtime/linalg.h"

/* Another one when the same recipe leads to other decisions or another journal. */
#define JOURNAL_FORMAT "5"

pare_status pare__run_identify(pare_run *run)
{
    const pare_pass_words *words;
    char *text;
    size_t len;
    PARE_TRY(pare_pass_words_take(run->a, &words));
    PARE_TRY(pare_recipe_normalize(run->cx, run->a, &run->plan->recipe, words, true, &text, &len));
    run->recipe_portable = text;
    return PARE_OK;
}

/* The output that the run was asked to replace, by its manifest: no other one is replaced when it
 * is continued. */
static pare_status put_replaced(pare_run *run, pare_json_writer *w)
{
    char hex[PARE_SHA256_HEX], text[PARE_SHA256_HEX + 64];
    pare_file f;
    if (!run->settled.replaces) {
        pare_json_put_text(w, PARE_JOURNAL_REPLACES, PARE_JOURNAL_NO_OUTPUT);
        return PARE_OK;
    }
    char *const path = pare_path_join(run->a, run->plan->place.output, PARE_MANIFEST_NAME);
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_file_map(run->cx, run->a, path, &f));
    const pare_status s = pare_sha256_hex(run->cx, f.data, (size_t)f.bytes, hex);
    pare_file_unmap(&f);
    PARE_TRY(s);
    (void)snprintf(text, sizeof text, "an output with manifest.json sha256 %s", hex);
    pare_json_put_text(w, PARE_JOURNAL_REPLACES, text);
    return PARE_OK;
}

pare_status pare__run_fingerprint(pare_run *run, pare_json_writer *w, const char **text)
{
    const pare_plan *const plan = run->plan;
    char key[64], hex[PARE_XXH3_HEX];
    size_t len = strlen(run->recipe_portable);
    char *const recipe = pare_arena_text(run->a, run->recipe_portable, len);
    if (!recipe)
        return PARE_ENOMEM;
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "program", "pare " PARE_VERSION);
    pare_json_put_text(w, "format", JOURNAL_FORMAT);
    pare_json_put_text(w, "cpu", pare_cpu_name(run->cx->cpu));
    pare_json_put_text(w, "blas", pare_blas_name());
    for (size_t i = 0; i < run->files.inputs; i++) {
        (void)snprintf(key, sizeof key, PARE_JOURNAL_FILE "%zu", i + 1);
        char value[512];
        pare_xxh3_text(run->hash.input_xxh3[i], hex);
        (void)snprintf(value, sizeof value, "%s xxh3 %s", run->files.input[i].file, hex);
        pare_json_put_text(w, key, value);
    }
    pare_json_put_text(w, PARE_JOURNAL_TOKENS, plan->calibrated ? run->data.sha256 : "not used");
    size_t line = 0;
    for (char *at = recipe; *at; line++) {
        char *const end = strchr(at, '\n');
        if (end)
            *end = '\0';
        (void)snprintf(key, sizeof key, PARE_JOURNAL_RECIPE "%zu", line + 1);
        pare_json_put_text(w, key, at);
        at = end ? end + 1 : at + strlen(at);
    }
    PARE_TRY(put_replaced(run, w));
    pare_json_close(w);
    return pare_json_writer_finish(w, text, &len);
}
