#include "runtime/watch.h"

#include <string.h>

static pare_status note(pare_arena *a, pare_watch *w, const char *path, pare_file_stamp was)
{
    pare_watched *const item = PARE_NEW(a, pare_watched, 1);
    char *const copy = pare_arena_text(a, path, strlen(path));
    if (!item || !copy)
        return PARE_ENOMEM;
    *item = (pare_watched){copy, was, w->last};
    w->last = item;
    return PARE_OK;
}

pare_status pare_watch_path(pare_arena *a, pare_watch *w, const char *path)
{
    return note(a, w, path, pare_file_look(path));
}

pare_status pare_watch_mapped(pare_arena *a, pare_watch *w, const pare_file *f)
{
    return note(a, w, f->path, f->stamp);
}

static bool same_time(const int64_t a[2], const int64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

static bool is_there(const pare_file_stamp *s)
{
    return s->inode != 0;
}

static pare_status fail(pare_ctx *cx, const char *path, const char *what)
{
    return pare_fail(cx, PARE_EFORMAT, "%s: changed while it was in use: %s", path, what);
}

static pare_status check(pare_ctx *cx, const pare_watched *item)
{
    const pare_file_stamp *const was = &item->was;
    const pare_file_stamp is = pare_file_look(item->path);
    if (!is_there(was) && !is_there(&is))
        return PARE_OK;
    if (!is_there(&is))
        return fail(cx, item->path, "it is gone");
    if (!is_there(was))
        return fail(cx, item->path, "it was not there before");
    if (is.device != was->device || is.inode != was->inode)
        return fail(cx, item->path, "another file has its name");
    if (is.bytes != was->bytes)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: changed while it was in use: it had %llu byte%s and has %llu",
                         item->path, (unsigned long long)was->bytes, pare_plural(was->bytes),
                         (unsigned long long)is.bytes);
    if (!same_time(is.written, was->written))
        return fail(cx, item->path, "it was written to or touched");
    if (!same_time(is.changed, was->changed))
        return fail(cx, item->path, "its time of change moved (written to, renamed or linked)");
    return PARE_OK;
}

pare_status pare_watch_check(pare_ctx *cx, const pare_watch *w)
{
    for (const pare_watched *item = w->last; item; item = item->before)
        PARE_TRY(check(cx, item));
    return PARE_OK;
}
