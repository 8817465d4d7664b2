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

/* A finished artifact may wait in such a directory, too: with its list of sums. */
pare_status pare_inputs_no_work(pare_ctx *cx, pare_arena *a, const char *path)
{
    static const char ending[] = ".partial";
    pare_journal_kind kind;
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    const size_t output = len > strlen(ending) ? len - strlen(ending) : 0;
    if (!output || strncmp(path + output, ending, strlen(ending)) != 0)
        return PARE_OK;
    char *const sums = pare_path_join(a, path, PARE_SUMS_NAME);
    if (!sums)
        return PARE_ENOMEM;
    if (pare_path_is_file(sums))
        return PARE_OK;
    PARE_TRY(pare_journal_look(cx, a, path, &kind));
    if (kind != PARE_JOURNAL_COMPRESS && kind != PARE_JOURNAL_TRAIN &&
        kind != PARE_JOURNAL_EXPORT && kind != PARE_JOURNAL_DAMAGED)
        return PARE_OK;
    const char *const command = kind == PARE_JOURNAL_EXPORT  ? "pare export"
                                : kind == PARE_JOURNAL_TRAIN ? "pare train"
                                                             : "pare compress";
    return pare_fail(cx, PARE_EFORMAT,
                     "%s: is the work directory of an unfinished job, and no model yet; give its "
                     "command (%s) again, which goes on and makes %.*s",
                     path, command, (int)output, path);
}
