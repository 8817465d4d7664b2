#include "compress/output/inputs.h"

#include <string.h>

#include "compress/output/journal.h"
#include "compress/output/output.h"
#include "formats/sums.h"
#include "runtime/file.h"

static pare_status watch_companions(pare_arena *a, pare_watch *watch, const char *directory)
{
    for (size_t i = 0; pare_companions[i]; i++) {
        char *const path = pare_path_join(a, directory, pare_companions[i]);
        if (!path)
            return PARE_ENOMEM;
        PARE_TRY(pare_watch_path(a, watch, path));
    }
    return PARE_OK;
}

pare_status pare_inputs_watch(pare_arena *a, pare_checkpoint *ck)
{
    if (ck->tokenizer && pare_path_is_directory(ck->tokenizer))
        PARE_TRY(watch_companions(a, &ck->watch, ck->tokenizer));
    else if (ck->tokenizer)
        PARE_TRY(pare_watch_path(a, &ck->watch, ck->tokenizer));
    return watch_companions(a, &ck->watch, ck->directory);
}

/* The command whose unfinished work lies in a directory: *command NULL without any. A finished
 * artifact may wait there, too: with its list of sums. */
static pare_status find_work(pare_ctx *cx, pare_arena *a, const char *partial, const char **command)
{
    pare_journal_kind kind;
    char *const sums = pare_path_join(a, partial, PARE_SUMS_NAME);
    *command = NULL;
    if (!sums)
        return PARE_ENOMEM;
    if (pare_path_is_file(sums))
        return PARE_OK;
    PARE_TRY(pare_journal_look(cx, a, partial, &kind));
    if (kind == PARE_JOURNAL_EXPORT)
        *command = "pare export";
    else if (kind == PARE_JOURNAL_TRAIN)
        *command = "pare train";
    else if (kind == PARE_JOURNAL_COMPRESS || kind == PARE_JOURNAL_DAMAGED)
        *command = "pare compress";
    return PARE_OK;
}

/* A search for settings works in a folder of its own until it has chosen; what the output was made
 * of is written last. */
static pare_status check_search(pare_ctx *cx, pare_arena *a, const char *output)
{
    char *const store = pare_path_suffix(a, output, PARE_BUDGET_STORE);
    char *const base = store ? pare_path_join(a, store, "base") : NULL;
    char *const begun = base ? pare_path_suffix(a, base, ".partial") : NULL;
    char *const done = store ? pare_path_join(a, store, PARE_BUDGET_ASKED) : NULL;
    if (!begun || !done)
        return PARE_ENOMEM;
    if ((!pare_path_is_directory(base) && !pare_path_is_directory(begun)) ||
        pare_path_is_file(done))
        return PARE_OK;
    return pare_fail(cx, PARE_ENOTFOUND,
                     "%s: is not there yet: the search that makes it is unfinished, and its work "
                     "lies in %s; give its command (pare compress) again, which goes on",
                     output, store);
}

/* A model that is not there because the job that makes it is unfinished. */
static pare_status check_absent(pare_ctx *cx, pare_arena *a, const char *output)
{
    char *const partial = pare_path_suffix(a, output, ".partial");
    const char *command;
    pare_path_kind is;
    if (!partial)
        return PARE_ENOMEM;
    PARE_TRY(pare_path_look(cx, output, &is));
    if (is != PARE_PATH_ABSENT)
        return PARE_OK;
    if (!pare_path_is_directory(partial))
        return check_search(cx, a, output);
    PARE_TRY(find_work(cx, a, partial, &command));
    return !command ? PARE_OK
                    : pare_fail(cx, PARE_ENOTFOUND,
                                "%s: is not there yet: the job that makes it is unfinished, and "
                                "its work lies in %s; give its command (%s) again, which goes on",
                                output, partial, command);
}

pare_status pare_inputs_no_work(pare_ctx *cx, pare_arena *a, const char *path)
{
    static const char ending[] = ".partial";
    const char *command;
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    const size_t output = len > strlen(ending) ? len - strlen(ending) : 0;
    if (!output || strncmp(path + output, ending, strlen(ending)) != 0) {
        const char *const whole = pare_arena_text(a, path, len);
        return whole ? check_absent(cx, a, whole) : PARE_ENOMEM;
    }
    PARE_TRY(find_work(cx, a, path, &command));
    return !command ? PARE_OK
                    : pare_fail(cx, PARE_EFORMAT,
                                "%s: is the work directory of an unfinished job, and no model yet; "
                                "give its command (%s) again, which goes on and makes %.*s",
                                path, command, (int)output, path);
}
