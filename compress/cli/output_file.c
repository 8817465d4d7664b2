#include "compress/cli/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compress/output/output.h"
#include "compress/output/output_disk.h"
#include "compress/output/owned_files.h"
#include "compress/text/units.h"
#include "runtime/file.h"

const char *pare_last_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A directory that holds a model, under the names that its weights have. */
static bool is_model(pare_cli *cli, const char *place)
{
    static const char *const weights[] = {"model.safetensors", "model.safetensors.index.json",
                                          "pytorch_model.bin", "pytorch_model.bin.index.json"};
    const char *const config = pare_path_join(&cli->arena, place, "config.json");
    bool found = false;
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        const char *const path = pare_path_join(&cli->arena, place, weights[i]);
        found |= path && pare_path_is_file(path);
    }
    return found && config && pare_path_is_file(config);
}

pare_status pare_output_file_apart(pare_cli *cli, const char *option, const char *model,
                                   const char *path)
{
    const size_t len = (size_t)(pare_last_name(path) - path);
    const char *const place = len ? pare_arena_text(&cli->arena, path, len) : ".";
    bool artifact, export,
        inside = model && pare_path_is_directory(model) && pare_output_lies_in(path, model);
    if (!place)
        return PARE_ENOMEM;
    PARE_TRY(
        pare_owned_marked(&cli->cx, &cli->arena, place, PARE_OUTPUT_ARTIFACT, &artifact, NULL));
    PARE_TRY(pare_owned_marked(&cli->cx, &cli->arena, place, PARE_OUTPUT_EXPORT, &export, NULL));
    inside |= is_model(cli, place);
    for (size_t i = 0; pare_companions[i]; i++)
        inside |= strcmp(pare_last_name(path), pare_companions[i]) == 0;
    return artifact || export || inside
               ? pare_fail(&cli->cx, PARE_EUSAGE,
                           "%s \"%s\": only files of a model belong there; choose another path",
                           option, path)
               : PARE_OK;
}

/* A page in a file that loses its name at once: what permissions do not tell (a full disk, one that
 * is mounted to be read, /proc) shows before the work, not behind it. */
static pare_status try_writing(pare_cli *cli, const char *command, const char *path,
                               const char *place)
{
    static const char page[4096];
    char name[64];
    (void)snprintf(name, sizeof name, ".pare-output.%ld.tmp", (long)getpid());
    char *const probe = pare_path_join(&cli->arena, place, name);
    if (!probe)
        return PARE_ENOMEM;
    const int fd = open(probe, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != ENOSPC && errno != EDQUOT)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "%s: --output \"%s\": %s is not a directory that can be written to",
                         command, path, place);
    pare_status s = fd < 0               ? pare_file_fail(&cli->cx, probe, "create")
                    : unlink(probe) != 0 ? pare_file_fail(&cli->cx, probe, "remove")
                                         : pare_file_put(&cli->cx, fd, probe, page, sizeof page, 0);
    if (fd >= 0)
        (void)close(fd);
    return s == PARE_OK ? s : pare_fail_context(&cli->cx, s, "%s: --output \"%s\"", command, path);
}

pare_status pare_output_file_room(pare_cli *cli, const char *command, const char *path,
                                  uint64_t bytes)
{
    char needed[PARE_UNIT_TEXT], left[PARE_UNIT_TEXT];
    char *const name = pare_arena_text(&cli->arena, path, strlen(path));
    const pare_output_place place = {.output = name, .partial = name};
    pare_output_disk disk;
    if (!name)
        return PARE_ENOMEM;
    PARE_TRY(pare_output_disk_find(&cli->cx, &cli->arena, &place, &disk));
    return bytes <= disk.free_bytes
               ? PARE_OK
               : pare_fail(&cli->cx, PARE_ENOSPC,
                           "%s: --output \"%s\" will have about %s, and %s are free on that disk",
                           command, path, pare_units_bytes(bytes, needed),
                           pare_units_bytes(disk.free_bytes, left));
}

pare_status pare_output_file_place(pare_cli *cli, const char *command, const char *model,
                                   const char *path)
{
    PARE_TRY(pare_output_check_length(&cli->cx, path));
    const size_t len = (size_t)(pare_last_name(path) - path);
    const char *const place = len ? pare_arena_text(&cli->arena, path, len) : ".";
    if (!place)
        return PARE_ENOMEM;
    char option[64];
    (void)snprintf(option, sizeof option, "%s: --output", command);
    PARE_TRY(pare_output_file_apart(cli, option, model, path));
    return try_writing(cli, command, path, place);
}

pare_status pare_output_file_there(pare_cli *cli, const char *command, const char *path,
                                   bool restart, bool *there)
{
    char temporary[PATH_MAX];
    struct stat st;
    const int n = snprintf(temporary, sizeof temporary, "%s.tmp", path);
    if (n > 0 && (size_t)n < sizeof temporary && lstat(temporary, &st) == 0)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "%s: --output \"%s\": %s is in the way; move it away, or choose "
                         "another path",
                         command, path, temporary);
    *there = lstat(path, &st) == 0;
    if (!*there)
        return PARE_OK;
    if (!S_ISREG(st.st_mode))
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "%s: --output \"%s\" is no regular file, and is not replaced; "
                         "choose another path",
                         command, path);
    return restart ? PARE_OK
                   : pare_fail(&cli->cx, PARE_EUSAGE,
                               "%s: --output \"%s\" exists already; --restart replaces it", command,
                               path);
}

/* Whether a file can be one of tokens: numbers that some vocabulary may have. */
static bool holds_tokens(const pare_file *f)
{
    enum { VOCAB_MAX = 1 << 24 };
    for (uint64_t i = 0; i + 4 <= f->bytes; i += 4) {
        const unsigned char *const b = f->data + i;
        if ((b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24) >= VOCAB_MAX)
            return false;
    }
    return f->bytes % 4 == 0;
}

pare_status pare_output_file_fits(pare_cli *cli, const char *command, const char *path, bool tokens,
                                  bool restart, bool *there)
{
    pare_file f;
    PARE_TRY(pare_output_file_there(cli, command, path, restart, there));
    if (!*there)
        return PARE_OK;
    PARE_TRY(pare_file_map(&cli->cx, &cli->arena, path, &f));
    const bool fits = tokens ? holds_tokens(&f) : !f.data || !memchr(f.data, 0, (size_t)f.bytes);
    pare_file_unmap(&f);
    return fits ? PARE_OK
                : pare_fail(&cli->cx, PARE_EUSAGE,
                            "%s: --output \"%s\": what is there is no file of %s, so --restart "
                            "does not replace it; choose another path",
                            command, path, tokens ? "tokens" : "text");
}

pare_status pare_output_file_write(pare_cli *cli, const char *command, const char *path,
                                   bool tokens, bool restart, const void *bytes, size_t len)
{
    bool there;
    PARE_TRY(pare_output_file_fits(cli, command, path, tokens, restart, &there));
    return there ? pare_file_write(&cli->cx, path, bytes, len)
                 : pare_file_write_new(&cli->cx, path, bytes, len);
}

pare_status pare_output_file_tokens(pare_cli *cli, const char *command, const char *path,
                                    bool restart, const int32_t *ids, size_t count)
{
    unsigned char *const b = PARE_NEW(&cli->arena, unsigned char, 4 * count);
    if (!b)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        for (unsigned j = 0; j < 4; j++)
            b[4 * i + j] = (unsigned char)((uint32_t)ids[i] >> (8 * j));
    return pare_output_file_write(cli, command, path, true, restart, b, 4 * count);
}
