#define _GNU_SOURCE /* renameat2 */
#include "compress/output/output_swap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compress/output/journal.h"
#include "runtime/file.h"

pare_status pare_output_place_make(pare_arena *a, pare_output_kind kind, const char *output,
                                   pare_output_place *out)
{
    size_t len = strlen(output);
    while (len > 1 && output[len - 1] == '/')
        len--;
    *out = (pare_output_place){.kind = kind, .output = pare_arena_text(a, output, len)};
    if (!out->output)
        return PARE_ENOMEM;
    out->partial = pare_path_suffix(a, out->output, ".partial");
    out->replaced = pare_path_suffix(a, out->output, ".replaced");
    if (!out->partial || !out->replaced)
        return PARE_ENOMEM;
    out->work =
        kind == PARE_OUTPUT_FILE ? pare_path_join(a, out->partial, PARE_OWNED_FILE) : out->partial;
    return out->work ? PARE_OK : PARE_ENOMEM;
}

const char *pare_output_place_reserved(const pare_output_place *p)
{
    static const char *const suffix[] = {".partial", ".replaced", ".lock", ".tmp"};
    const size_t len = strlen(p->output);
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
        const size_t n = strlen(suffix[i]);
        if (len >= n && strcmp(p->output + len - n, suffix[i]) == 0)
            return suffix[i];
    }
    return NULL;
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
    PARE_TRY(pare_journal_look(cx, a, p->replaced, &kind));
    *out = kind == PARE_JOURNAL_REPLACED;
    return PARE_OK;
}

/* A finished output that may have been left with the journal of its run. */
static pare_status unmark_finished(pare_ctx *cx, pare_arena *a, const pare_output_place *p,
                                   bool *ours)
{
    PARE_TRY(pare_owned_marked(cx, a, p->output, p->kind, ours, NULL));
    return *ours && p->kind != PARE_OUTPUT_FILE ? pare_owned_unmark(cx, a, p->output) : PARE_OK;
}

/* What remains of something that had to be removed is told when the output is fine without that. */
static pare_status tell_remains(pare_ctx *cx, pare_status s, const pare_teller *teller)
{
    char why[sizeof cx->what];
    if (s == PARE_OK || s == PARE_ENOMEM || s == PARE_EINTERRUPTED)
        return s;
    (void)snprintf(why, sizeof why, "%s", cx->what);
    pare_ctx_clear(cx);
    pare_teller_say(teller, "what is not needed any more could not be removed whole: %s", why);
    return PARE_OK;
}

/* The old output was moved away: it goes when what lies in its place is the new one, whole. */
static pare_status end_replacing(pare_ctx *cx, pare_arena *a, const pare_output_place *p,
                                 const pare_teller *teller)
{
    bool ours;
    PARE_TRY(unmark_finished(cx, a, p, &ours));
    const pare_status s = pare_owned_check(cx, a, p->output, p->kind, false);
    if (s == PARE_OK)
        return tell_remains(cx, pare_owned_remove(cx, a, p->replaced, p->kind), teller);
    return s == PARE_EEXISTS ? pare_fail_context(cx, s,
                                                 "%s is an old output that a stopped run moved "
                                                 "away, and %s is not what replaced it; move one "
                                                 "of them elsewhere",
                                                 p->replaced, p->output)
                             : s;
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
        return end_replacing(cx, a, p, teller);
    if (rename(p->replaced, p->output) != 0)
        return pare_file_fail(cx, p->replaced, "move back the output that was not replaced");
    pare_teller_say(teller,
                    "%s: an earlier run was stopped while it replaced it; the old output is "
                    "in place again",
                    p->output);
    return pare_file_sync_parent(cx, p->output);
}

pare_status pare_output_place_mend(pare_ctx *cx, pare_arena *a, const pare_output_place *p,
                                   const pare_teller *teller, bool *unfinished)
{
    pare_owned_state state;
    bool ours;
    *unfinished = false;
    PARE_TRY(pare_owned_partial(cx, a, p->partial, p->kind, &state));
    PARE_TRY(mend_replaced(cx, a, p, teller));
    PARE_TRY(unmark_finished(cx, a, p, &ours));
    if (state == PARE_OWNED_NOTHING)
        (void)rmdir(p->partial); /* it is empty, or not there */
    else if (state == PARE_OWNED_REPLACED)
        return pare_owned_remove(cx, a, p->partial, p->kind);
    else if (p->kind != PARE_OUTPUT_ARTIFACT || (state == PARE_OWNED_LOST && ours))
        return pare_owned_discard(cx, p->partial, p->kind, PARE_OWNED_ALL);
    *unfinished = state == PARE_OWNED_UNFINISHED;
    return PARE_OK;
}

/* As pare left it, in a directory that can be written into. */
static pare_status check_left(pare_ctx *cx, pare_arena *a, const pare_output_place *p)
{
    PARE_TRY(pare_owned_check(cx, a, p->output, p->kind, false));
    if (p->kind != PARE_OUTPUT_FILE && is_there(p->output) &&
        faccessat(AT_FDCWD, p->output, W_OK | X_OK, AT_EACCESS) != 0)
        return pare_file_fail(cx, p->output, "replace what lies in the directory");
    return PARE_OK;
}

pare_status pare_output_place_look(pare_ctx *cx, pare_arena *a, const pare_output_place *p)
{
    pare_journal_kind kind = PARE_JOURNAL_NONE;
    if (p->kind != PARE_OUTPUT_FILE)
        PARE_TRY(pare_journal_look(cx, a, p->output, &kind));
    return kind == PARE_JOURNAL_NONE ? check_left(cx, a, p) : PARE_OK;
}

pare_status pare_output_place_check(pare_ctx *cx, pare_arena *a, const pare_output_place *p)
{
    if (p->kind != PARE_OUTPUT_FILE && is_there(p->replaced))
        return pare_fail(
            cx, PARE_EEXISTS,
            "%s: is where the old output may have to go for a moment, and not of pare; "
            "move it away, or choose another path",
            p->replaced);
    bool ours;
    PARE_TRY(unmark_finished(cx, a, p, &ours));
    return check_left(cx, a, p);
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
    int rc = renameat2(AT_FDCWD, p->work, AT_FDCWD, p->output, RENAME_NOREPLACE);
    if (rc != 0 && is_missing_way(errno)) {
        const bool taken = is_there(p->output);
        errno = EEXIST;
        rc = taken ? -1 : rename(p->work, p->output);
    }
    return rc == 0 ? pare_file_sync_parent(cx, p->output) : fail_publish(cx, p);
}

/* A file is replaced in one step everywhere. */
static pare_status replace_file(pare_ctx *cx, pare_arena *a, const pare_output_place *p)
{
    PARE_TRY(pare_owned_check(cx, a, p->output, p->kind, false));
    return rename(p->work, p->output) == 0 ? pare_file_sync_parent(cx, p->output)
                                           : fail_publish(cx, p);
}

static pare_status publish_file(pare_ctx *cx, pare_arena *a, const pare_output_place *p,
                                bool replace, const pare_teller *teller)
{
    const pare_status s = replace ? replace_file(cx, a, p) : publish_new(cx, p);
    if (s != PARE_OK && is_there(p->work))
        return s;
    const pare_status rest = pare_owned_discard(cx, p->partial, p->kind, PARE_OWNED_ALL);
    return s != PARE_OK ? s : tell_remains(cx, rest, teller);
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
    if (rename(p->output, p->replaced) != 0)
        return fail_publish(cx, p);
    const pare_status s = second_step(cx, p);
    if (s != PARE_OK) /* the next run does it when it cannot be undone now */
        return rename(p->replaced, p->output) == 0
                   ? s
                   : pare_fail_context(cx, s, "the old output lies in %s", p->replaced);
    pare_teller_say(teller,
                    "%s: the file system cannot exchange two directories; the old one was moved "
                    "away first",
                    p->output);
    return pare_file_sync_parent(cx, p->output);
}

/* *old: where the old output lies now. */
static pare_status replace_directory(pare_ctx *cx, pare_arena *a, const pare_output_place *p,
                                     const pare_teller *teller, const char **old)
{
    bool done;
    *old = p->partial;
    PARE_TRY(pare_output_place_check(cx, a, p)); /* the first look may have been hours ago */
    PARE_TRY(pare_owned_mark_replaced(cx, p->output, p->partial));
    PARE_TRY(pare_file_exchange(cx, p->partial, p->output, &done));
    if (done)
        return PARE_OK;
    *old = p->replaced;
    return replace_in_two_steps(cx, p, teller);
}

/* Work on an artifact is continued, that on an export is not. */
static pare_status fail_waits(pare_ctx *cx, pare_status s, const pare_output_place *p)
{
    if (s != PARE_EEXISTS || p->kind != PARE_OUTPUT_ARTIFACT || !is_there(p->partial))
        return s;
    (void)pare_fail_context(cx, s, "the finished artifact waits in %s", p->partial);
    return pare_fail_after(cx, s, "once that is moved away, the same command ends the run");
}

pare_status pare_output_place_publish(pare_ctx *cx, pare_arena *a, const pare_output_place *p,
                                      bool replace, const pare_teller *teller)
{
    const char *old = NULL;
    const bool replaces = replace && is_there(p->output);
    if (p->kind == PARE_OUTPUT_FILE)
        return publish_file(cx, a, p, replaces, teller);
    const pare_status s = replaces ? replace_directory(cx, a, p, teller, &old) : publish_new(cx, p);
    PARE_TRY(fail_waits(cx, s, p));
    PARE_TRY(pare_owned_unmark(cx, a, p->output));
    return old ? tell_remains(cx, pare_owned_remove(cx, a, old, p->kind), teller) : PARE_OK;
}
