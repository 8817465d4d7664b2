/* Any text is a file of a batch, whose jobs have names for folders, wait for each other without
 * cycles and have recipes with a normal form; or it is refused with a message. Other files are not
 * there. */
#include <string.h>

#include "compress/passes/pass.h"
#include "recipes/batch_recipe.h"
#include "runtime/file.h"
#include "tests/fuzz/fuzz.h"

enum { NORMAL = 4, PARTS = 24 };

/* name that the linker looks for (--wrap) */
PARE_CHECKED pare_status __wrap_pare_file_read(pare_ctx *cx, pare_arena *a, const char *path,
                                               size_t cap, char **text, size_t *len);
pare_status __wrap_pare_file_read(pare_ctx *cx, pare_arena *a, const char *path, size_t cap,
                                  char **text, size_t *len)
{
    (void)a;
    (void)cap;
    (void)text;
    (void)len;
    return pare_fail(cx, PARE_ENOTFOUND, "%s: is not there", path);
}

/* A few hundred jobs at most: each is a parse of its own. */
static bool is_short(const char *bytes, size_t len)
{
    size_t parts = 0;
    for (size_t i = 0; i < len; i++)
        parts += bytes[i] == ',' || bytes[i] == '\n';
    return parts <= PARTS;
}

static void check_job(pare_ctx *cx, pare_arena *a, const pare_pass_words *words,
                      const pare_batch_recipe *b, size_t i)
{
    const pare_batch_job *const job = &b->job[i];
    char *text;
    size_t len, at = i;
    require(job->name[0] && strlen(job->name) <= PARE_BATCH_NAME_MAX && !strchr(job->name, '/'));
    for (size_t j = 0; j < i; j++)
        require(strcmp(job->name, b->job[j].name) != 0);
    for (size_t steps = 0; b->job[at].after != at; steps++) {
        at = b->job[at].after;
        require(at < b->jobs && steps < b->jobs);
    }
    require(at == job->root);
    if (i < NORMAL)
        require(pare_recipe_normalize(cx, a, &job->recipe, words, false, &text, &len) == PARE_OK);
}

static pare_status parse(pare_ctx *cx, pare_arena *a, const void *bytes, size_t len)
{
    bool *const rounds_not = PARE_NEW(a, bool, pare_pass_count());
    pare_batch_words words = {.rounds_not = rounds_not, .count = pare_pass_count()};
    const pare_recipe_source source = {.file = "b.yaml", .text = bytes, .len = len};
    pare_batch_recipe b;
    require(rounds_not && pare_pass_words_take(a, &words.passes) == PARE_OK);
    for (size_t i = 0; i < words.count; i++)
        rounds_not[i] = pare_passes[i]->transform != NULL;
    if (!is_short(bytes, len))
        return PARE_OK;
    const pare_status s = pare_batch_parse(cx, a, &source, &words, &b);
    require(s == PARE_OK || s == PARE_EUSAGE || s == PARE_ENOTFOUND);
    for (size_t i = 0; s == PARE_OK && i < b.jobs; i++)
        check_job(cx, a, words.passes, &b, i);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_parse(parse, bytes, len);
    return 0;
}
