#define _GNU_SOURCE /* renameat2 */
#include "compress/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compress/journal.h"
#include "runtime/file.h"

static char *add_suffix(pare_arena *a, const char *path, const char *suffix)
{
    const size_t len = strlen(path), more = strlen(suffix) + 1;
    char *const out = PARE_NEW(a, char, len + more);
    if (out) {
        memcpy(out, path, len);
        memcpy(out + len, suffix, more);
    }
    return out;
}

pare_status pare_place_make(pare_arena *a, pare_output_kind kind, const char *output,
                            pare_output_place *out)
{
    size_t len = strlen(output);
    while (len > 1 && output[len - 1] == '/')
        len--;
    *out = (pare_output_place){.kind = kind, .output = pare_arena_text(a, output, len)};
    if (!out->output)
        return PARE_ENOMEM;
    out->partial = add_suffix(a, out->output, ".partial");
    out->replaced = add_suffix(a, out->output, ".replaced");
    return out->partial && out->replaced ? PARE_OK : PARE_ENOMEM;
}

static bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* Whether OUTPUT.replaced is an output that a run moved there. */
static pare_status was_moved(pare_ctx *cx, pare_arena *a, const pare_output_place *p, bool *out)
{
    pare_journal_kind kind;
    *out = false;
    if (p->kind == PARE_OUTPUT_FILE || !pare_path_is_directory(p->replaced))
        return PARE_OK;
    return pare_journal_look(cx, a, p->replaced, &kind, out);
}

/* What is left of a replaced output goes, as far as that is possible. */
static pare_status remove_replaced(pare_ctx *cx, pare_arena *a, const char *path,
                                   pare_output_kind kind, const pare_teller *teller)
{
    char why[sizeof cx->what];
    const pare_status s = pare_ours_remove(cx, a, path, kind);
    if (s == PARE_OK || s == PARE_ENOMEM || s == PARE_EINTERRUPTED)
        return s;
    (void)snprintf(why, sizeof why, "%s", cx->what);
    pare_ctx_clear(cx);
    pare_teller_say(teller, "what was replaced could not be removed whole: %s", why);
    return PARE_OK;
}

/* The second half of a step in two halves, or the way back. */
static pare_status mend_replaced(pare_ctx *cx, pare_arena *a, const pare_output_place *p,
                                 const pare_teller *teller)
{
    bool moved;
    PARE_TRY(was_moved(cx, a, p, &moved));
    if (!moved) {
        if (p->kind != PARE_OUTPUT_FILE)
            (void)rmdir(p->replaced); /* when it is empty */
        return PARE_OK;
    }
    if (is_there(p->output))
        return remove_replaced(cx, a, p->replaced, p->kind, teller);
    if (rename(p->replaced, p->output) != 0)
        return pare_file_fail(cx, p->replaced, "move back the output that was not replaced");
    pare_teller_say(teller,
                    "%s: an earlier run was stopped while it replaced it; the old output is "
                    "in place again",
                    p->output);
    return pare_file_sync_parent(cx, p->output);
}

pare_status pare_place_mend(pare_ctx *cx, pare_arena *a, const pare_output_place *p,
                            const pare_teller *teller, bool *unfinished)
{
    pare_ours_state state;
    bool ours;
    *unfinished = false;
    PARE_TRY(pare_ours_partial(cx, a, p->partial, p->kind, &state));
    PARE_TRY(mend_replaced(cx, a, p, teller));
    PARE_TRY(pare_ours_marked(cx, a, p->output, p->kind, &ours, NULL));
    if (ours && p->kind != PARE_OUTPUT_FILE)
        PARE_TRY(pare_ours_unmark(cx, a, p->output));
    if (state == PARE_OURS_NOTHING)
        (void)rmdir(p->partial); /* it is empty, or not there */
    else if (state == PARE_OURS_REPLACED)
        return remove_replaced(cx, a, p->partial, p->kind, teller);
    else if (p->kind != PARE_OUTPUT_ARTIFACT || (state == PARE_OURS_LOST && ours))
        return pare_ours_discard(cx, p->partial, p->kind, PARE_OURS_ALL);
    *unfinished = state == PARE_OURS_UNFINISHED;
    return PARE_OK;
}

pare_status pare_place_check(pare_ctx *cx, pare_arena *a, const pare_output_place *p)
{
    if (p->kind != PARE_OUTPUT_FILE && is_there(p->replaced))
        return pare_fail(
            cx, PARE_EEXISTS,
            "%s: is where the old output may have to go for a moment, and not of pare; "
            "move it away, or choose another path",
            p->replaced);
    bool ours = false;
    if (p->kind != PARE_OUTPUT_FILE)
        PARE_TRY(pare_ours_marked(cx, a, p->output, p->kind, &ours, NULL));
    if (ours) /* a run that was killed may have left its journal in the finished output */
        PARE_TRY(pare_ours_unmark(cx, a, p->output));
    return pare_ours_check(cx, a, p->output, p->kind, false);
}

/* Whether a file system lacks a way of renaming. */
static bool is_missing_way(int code)
{
    return code == EINVAL || code == ENOSYS || code == EOPNOTSUPP;
}

static pare_status fail_publish(pare_ctx *cx, const pare_output_place *p)
{
    return errno == EEXIST || errno == ENOTEMPTY
               ? pare_fail(cx, PARE_EEXISTS, "%s: something was put there meanwhile", p->output)
               : pare_file_fail(cx, p->output, "put the finished files in place");
}

static pare_status publish_new(pare_ctx *cx, const pare_output_place *p)
{
    int rc = renameat2(AT_FDCWD, p->partial, AT_FDCWD, p->output, RENAME_NOREPLACE);
    if (rc != 0 && is_missing_way(errno)) {
        const bool taken = is_there(p->output);
        errno = EEXIST;
        rc = taken ? -1 : rename(p->partial, p->output);
    }
    return rc == 0 ? pare_file_sync_parent(cx, p->output) : fail_publish(cx, p);
}

/* A file is replaced in one step everywhere. */
static pare_status replace_file(pare_ctx *cx, pare_arena *a, const pare_output_place *p)
{
    PARE_TRY(pare_ours_check(cx, a, p->output, p->kind, false));
    return rename(p->partial, p->output) == 0 ? pare_file_sync_parent(cx, p->output)
                                              : fail_publish(cx, p);
}

/* The old output is out of the way. */
static pare_status second_step(pare_ctx *cx, const pare_output_place *p)
{
    PARE_TRY(pare_file_sync_parent(cx, p->output));
    return rename(p->partial, p->output) == 0 ? PARE_OK : fail_publish(cx, p);
}

static pare_status replace_in_two_steps(pare_ctx *cx, const pare_output_place *p,
                                        const pare_teller *teller)
{
    PARE_TRY(pare_ours_mark_replaced(cx, p->output));
    if (rename(p->output, p->replaced) != 0)
        return fail_publish(cx, p);
    const pare_status s = second_step(cx, p);
    if (s != PARE_OK) {
        (void)rename(p->replaced, p->output); /* or the next run does it */
        return s;
    }
    pare_teller_say(teller,
                    "%s: the file system cannot exchange two directories; the old one was moved "
                    "away first",
                    p->output);
    return pare_file_sync_parent(cx, p->output);
}

/* *old: where the old output lies now. */
static pare_status replace_directory(pare_ctx *cx, const pare_output_place *p,
                                     const pare_teller *teller, const char **old)
{
    *old = p->partial;
    if (renameat2(AT_FDCWD, p->partial, AT_FDCWD, p->output, RENAME_EXCHANGE) == 0)
        return pare_file_sync_parent(cx, p->output);
    if (!is_missing_way(errno))
        return fail_publish(cx, p);
    *old = p->replaced;
    return replace_in_two_steps(cx, p, teller);
}

pare_status pare_place_publish(pare_ctx *cx, pare_arena *a, const pare_output_place *p,
                               bool replace, const pare_teller *teller)
{
    const char *old = NULL;
    if (!replace)
        PARE_TRY(publish_new(cx, p));
    else if (p->kind == PARE_OUTPUT_FILE)
        return replace_file(cx, a, p);
    else
        PARE_TRY(replace_directory(cx, p, teller, &old));
    if (p->kind != PARE_OUTPUT_FILE)
        PARE_TRY(pare_ours_unmark(cx, a, p->output));
    return old ? remove_replaced(cx, a, old, p->kind, teller) : PARE_OK;
}
