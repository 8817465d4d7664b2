#include <string.h>
#include <sys/stat.h>

#include "compress/export/export.h"
#include "compress/output/output.h"

static pare_status check_path(pare_ctx *cx, const char *output, pare_export_kind kind)
{
    size_t len = strlen(output);
    if (len == 0)
        return pare_fail(cx, PARE_EUSAGE, "the path of the output is empty");
    PARE_TRY(pare_output_check_length(cx, output));
    if (kind == PARE_EXPORT_FILE && output[len - 1] == '/')
        return pare_fail(cx, PARE_EUSAGE, "\"%s\": this format writes a file, not a directory",
                         output);
    return PARE_OK;
}

pare_status pare_export_place_find(pare_ctx *cx, pare_arena *a, const char *artifact,
                                   const char *output, pare_export_kind kind,
                                   pare_export_place *out)
{
    struct stat st;
    const char *home;
    *out = (pare_export_place){0};
    PARE_TRY(check_path(cx, output, kind));
    PARE_TRY(pare_output_place_make(
        a, kind == PARE_EXPORT_FILE ? PARE_OUTPUT_FILE : PARE_OUTPUT_EXPORT, output, &out->at));
    const char *const path = out->at.output, *const slash = strrchr(path, '/');
    const char *const last = slash ? slash + 1 : path;
    const bool there = lstat(path, &st) == 0;
    const char *const reserved = pare_output_place_reserved(&out->at);
    if (reserved)
        return pare_fail(cx, PARE_EUSAGE,
                         "%s: names that end in %s are for files beside outputs; choose another "
                         "path",
                         path, reserved);
    if (there && S_ISLNK(st.st_mode))
        return pare_fail(cx, PARE_EEXISTS, "%s: is a symbolic link; give the %s itself", path,
                         kind == PARE_EXPORT_FILE ? "file" : "directory");
    if (there && pare_output_lies_in(artifact, path))
        return pare_fail(cx, PARE_EEXISTS, "%s: the output would replace the model at %s", path,
                         artifact);
    if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0 || !*last)
        return pare_fail(cx, PARE_EUSAGE, "%s: the output must end in a name", path);
    if (pare_output_lies_in(path, artifact))
        home = artifact;
    else
        PARE_TRY(pare_output_home(cx, a, path, &home));
    return home ? pare_fail(cx, PARE_EUSAGE,
                            "%s: lies inside %s, where only files of that model belong; choose "
                            "another path",
                            path, home)
                : pare_output_check_room(cx, path);
}

pare_status pare_export_place_check(pare_ctx *cx, pare_arena *a, pare_export_place *p, bool restart)
{
    struct stat st;
    p->replaces = lstat(p->at.output, &st) == 0;
    if (!p->replaces)
        return PARE_OK;
    if (!restart)
        return pare_fail(cx, PARE_EEXISTS, "%s: exists; --restart replaces it if it is an export",
                         p->at.output);
    return pare_output_place_check(cx, a, &p->at);
}
