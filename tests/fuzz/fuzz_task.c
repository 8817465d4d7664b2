/* Any bytes are a file of a task, whose documents have requests and a right answer among their
 * choices; or they are refused with a message. */
#include "formats/unicode.h"
#include "runtime/file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/task_input.h"

static task_input input;

/* name that the linker looks for (--wrap): every file is the input */
PARE_CHECKED pare_status __wrap_pare_file_read(pare_ctx *cx, pare_arena *a, const char *path,
                                               size_t cap, char **text, size_t *len);
pare_status __wrap_pare_file_read(pare_ctx *cx, pare_arena *a, const char *path, size_t cap,
                                  char **text, size_t *len)
{
    (void)cx;
    (void)path;
    (void)cap;
    *text = pare_arena_take(a, input.len + 1, 1);
    if (!*text)
        return PARE_ENOMEM;
    memcpy(*text, input.text, input.len);
    *len = input.len;
    return PARE_OK;
}

static void check(const pare_task_texts *t)
{
    require(t->docs > 0 && t->docs <= t->all);
    for (size_t i = 0; i < t->docs; i++) {
        const pare_task_doc *const d = &t->doc[i];
        require(d->count > 0 && d->first + d->count <= t->request.count && d->choices > 0);
        require(d->answer < d->choices && (d->right >> d->choices) == 0);
        for (size_t k = 0; k < d->count; k++) {
            const pare_choice_text *const r = &t->request.item[d->first + k];
            require(r->answer < r->choices);
            require(pare_unicode_valid(r->context, strlen(r->context)) == strlen(r->context));
            for (size_t c = 0; c < r->choices; c++)
                require(r->choice[c][0] != '\0');
        }
    }
}

static pare_status parse(pare_ctx *cx, pare_arena *a, const void *bytes, size_t len)
{
    char file[16];
    pare_task_texts texts;
    if (!task_input_read(bytes, len, &input))
        return PARE_OK;
    (void)snprintf(file, sizeof file, "a.%s", input.ending);
    const pare_task_asked asked = {
        .name = input.task, .file = file, .shots = input.shots, .shots_file = file};
    const pare_status s = pare_task_read(cx, a, &asked, &texts);
    require(s == PARE_OK || s == PARE_EUSAGE || s == PARE_EFORMAT || s == PARE_ENOTSUP);
    if (s == PARE_OK)
        check(&texts);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_parse(parse, bytes, len);
    return 0;
}
