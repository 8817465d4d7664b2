#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compress/output/output.h"
#include "compress/output/output_disk.h"
#include "compress/storage/input_folder.h"
#include "compress/storage/pack.h"
#include "compress/text/units.h"
#include "formats/archive_stretch.h"
#include "formats/hash.h"
#include "runtime/small.h"
#include "runtime/threads.h"

typedef struct unpack {
    pare_ctx *cx;
    pare_arena *a;
    const pare_unpack_opts *opts;
    pare_file from;
    pare_archive archive;
    pare_folder base;
    pare_stretch_coder *coder;
    pare_stretch *stretch; /* of one round */
    size_t round;
    unsigned char **room;
    pare_output_place place;
    pare_lock lock;
    pare_file *to; /* the files, mapped as they are written; empty with `check` */
    char **path;   /* of them */
    pare_hashing *hashing;
    char (*sha256)[PARE_SHA256_HEX];
    pare_sha256 *running; /* with `check`: of the file at hand */
    char *mark;           /* in place.partial, while it is not whole */
    bool made;            /* place.partial */
    uint64_t done;
} unpack;

static bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static pare_status find_output(unpack *u)
{
    const char *home, *output = u->opts->output;
    if (!output && !pare_ends_with(u->opts->path, PARE_ARCHIVE_ENDING))
        return pare_fail(u->cx, PARE_EUSAGE, "%s: name the folder with --output", u->opts->path);
    if (!output)
        output = pare_arena_text(u->a, u->opts->path,
                                 strlen(u->opts->path) - strlen(PARE_ARCHIVE_ENDING));
    if (!output)
        return PARE_ENOMEM;
    const char *const slash = strrchr(output, '/');
    if (!*output || (slash && strlen(slash) == 1 && slash == output))
        return pare_fail(u->cx, PARE_EUSAGE, "\"%s\": name the folder with --output", output);
    PARE_TRY(pare_output_check_length(u->cx, output));
    PARE_TRY(pare_output_place_make(u->a, PARE_OUTPUT_ARTIFACT, output, &u->place));
    const char *const kept = pare_output_place_reserved(&u->place);
    if (kept)
        return pare_fail(u->cx, PARE_EUSAGE,
                         "%s: names that end in %s are pare's own; choose another", u->place.output,
                         kept);
    PARE_TRY(pare_output_home(u->cx, u->a, u->place.output, &home));
    return home ? pare_fail(u->cx, PARE_EUSAGE,
                            "%s: lies inside %s, where only files of that model belong; choose "
                            "another path",
                            u->place.output, home)
                : pare_output_check_room(u->cx, u->place.output);
}

static bool is_of_archive(const unpack *u, const char *name)
{
    for (size_t i = 0; i < u->archive.files; i++)
        if (strcmp(u->archive.file[i].name, name) == 0)
            return true;
    return false;
}

/* What an unpacking that was killed left may go: an empty folder, or one with its mark and
 * otherwise nothing but regular files that the archive has, too. */
static pare_status check_partial(unpack *u)
{
    struct stat st;
    if (lstat(u->place.partial, &st) != 0)
        return PARE_OK;
    DIR *const d = S_ISDIR(st.st_mode) ? opendir(u->place.partial) : NULL;
    pare_status s = PARE_OK;
    if (!d)
        return pare_fail(u->cx, PARE_EEXISTS, "%s: is in the way; move it away", u->place.partial);
    const bool marked =
        fstatat(dirfd(d), PARE_ARCHIVE_MARK, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
    for (const struct dirent *e; s == PARE_OK && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (!marked)
            s = pare_fail(u->cx, PARE_EEXISTS,
                          "%s: holds %s and is not marked as a folder that pare was unpacking; "
                          "move it away",
                          u->place.partial, e->d_name);
        else if (strcmp(e->d_name, PARE_ARCHIVE_MARK) != 0 &&
                 (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
                  !S_ISREG(st.st_mode) || !is_of_archive(u, e->d_name)))
            s = pare_fail(u->cx, PARE_EEXISTS,
                          "%s: holds %s, which this archive does not write; move it away",
                          u->place.partial, e->d_name);
    }
    (void)closedir(d);
    return s;
}

static pare_status check_output(unpack *u)
{
    return is_there(u->place.output) ? pare_fail(u->cx, PARE_EEXISTS,
                                                 "%s: exists already; choose another path with "
                                                 "--output, or remove it",
                                                 u->place.output)
                                     : check_partial(u);
}

static pare_status check_disk(unpack *u)
{
    pare_output_disk disk;
    char need[PARE_UNIT_TEXT], have[PARE_UNIT_TEXT];
    PARE_TRY(pare_output_disk_find(u->cx, u->a, &u->place, &disk));
    if (u->archive.bytes <= disk.free_bytes + disk.held_bytes)
        return PARE_OK;
    return pare_fail(u->cx, PARE_ENOSPC, "%s: needs %s of disk and %s are free there",
                     u->place.output, pare_units_bytes(u->archive.bytes, need),
                     pare_units_bytes(disk.free_bytes + disk.held_bytes, have));
}

/* Each base file that is needed is there and has its digest. */
static pare_status check_base(unpack *u)
{
    const size_t files = u->archive.files;
    if (!u->archive.based)
        return u->opts->base ? pare_fail(u->cx, PARE_EUSAGE,
                                         "%s: was not packed against a base; leave --base away",
                                         u->opts->path)
                             : PARE_OK;
    if (!u->opts->base)
        return pare_fail(u->cx, PARE_EUSAGE,
                         "%s: is a difference from other files; name their folder with --base",
                         u->opts->path);
    PARE_TRY(pare_folder_open(u->cx, u->a, u->opts->base, &u->base));
    pare_file *const used = PARE_NEW(u->a, pare_file, files);
    const pare_archive_file **const of = PARE_NEW(u->a, const pare_archive_file *, files);
    char(*const hex)[PARE_SHA256_HEX] = pare_arena_take(u->a, files, sizeof *hex);
    size_t count = 0;
    if (!used || !of || !hex)
        return PARE_ENOMEM;
    for (size_t i = 0; i < files; i++) {
        const pare_archive_file *const f = &u->archive.file[i];
        const pare_file *const base = f->based ? pare_folder_find(&u->base, f->name) : NULL;
        if (!f->based)
            continue;
        if (!base || base->bytes != f->base_bytes)
            return pare_fail(
                u->cx, PARE_EFORMAT, "%s: has no %s of %llu bytes, which %s is a difference from",
                u->opts->base, f->name, (unsigned long long)f->base_bytes, u->opts->path);
        of[count] = f;
        used[count++] = *base;
    }
    PARE_TRY(pare_sha256_files(u->cx, used, count, hex));
    for (size_t i = 0; i < count; i++)
        if (strcmp(hex[i], of[i]->base_sha256) != 0)
            return pare_fail(u->cx, PARE_EFORMAT,
                             "%s: is another file than the one that %s is a difference from: "
                             "SHA-256 is %s, it was %s",
                             used[i].path, u->opts->path, hex[i], of[i]->base_sha256);
    return PARE_OK;
}

/* A file with its size and no bytes yet, mapped so that its digest can follow what is written. */
static pare_status create(unpack *u, size_t i)
{
    const pare_archive_file *const f = &u->archive.file[i];
    char *const path = pare_path_join(u->a, u->place.partial, f->name);
    if (!path)
        return PARE_ENOMEM;
    u->path[i] = path;
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return pare_file_fail(u->cx, path, "create");
    pare_status s = PARE_OK;
    if (ftruncate(fd, (off_t)f->bytes) != 0)
        s = pare_file_fail(u->cx, path, "reserve");
    else if (f->bytes > 0)
        s = pare_file_map_shared(u->cx, fd, path, f->bytes, &u->to[i]);
    if (close(fd) != 0 && s == PARE_OK)
        s = pare_file_fail(u->cx, path, "close");
    return s;
}

/* Removes what lies in OUTPUT.partial under the names of the archive, then the mark, then the
 * folder. */
static void discard(unpack *u)
{
    for (size_t i = 0; i < u->archive.files; i++) {
        const pare_mark mark = pare_arena_mark(u->a);
        const char *const path = pare_path_join(u->a, u->place.partial, u->archive.file[i].name);
        if (path)
            (void)unlink(path);
        pare_arena_rewind(u->a, mark);
    }
    (void)unlink(u->mark);
    (void)rmdir(u->place.partial);
}

/* The folder with its mark, the first file in it. */
static pare_status create_partial(unpack *u)
{
    u->mark = pare_path_join(u->a, u->place.partial, PARE_ARCHIVE_MARK);
    if (!u->mark)
        return PARE_ENOMEM;
    PARE_TRY(check_partial(u)); /* again: reading the base takes its time */
    discard(u);                 /* of a run that was killed */
    if (mkdir(u->place.partial, 0777) != 0)
        return pare_file_fail(u->cx, u->place.partial, "create");
    u->made = true;
    const int fd = open(u->mark, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0 || close(fd) != 0)
        return pare_file_fail(u->cx, u->mark, "create");
    return pare_file_sync_parent(u->cx, u->mark);
}

static pare_status create_all(unpack *u)
{
    const size_t files = u->archive.files;
    u->to = PARE_NEW(u->a, pare_file, files);
    u->path = PARE_NEW(u->a, char *, files);
    u->sha256 = pare_arena_take(u->a, files, sizeof *u->sha256);
    if (!u->to || !u->path || !u->sha256)
        return PARE_ENOMEM;
    if (u->opts->check)
        return PARE_OK;
    PARE_TRY(create_partial(u));
    for (size_t i = 0; i < files; i++)
        PARE_TRY(create(u, i));
    return pare_hashing_begin(u->cx, u->to, files, u->sha256, NULL, &u->hashing);
}

static pare_status make_room(unpack *u)
{
    size_t frames = 0;
    for (size_t i = 0; i < u->archive.files; i++)
        frames = pare_larger(frames, u->archive.file[i].frames);
    u->round = pare_smaller(2 * pare_threads(u->cx), frames);
    u->stretch = PARE_NEW(u->a, pare_stretch, u->round);
    u->room = PARE_NEW(u->a, unsigned char *, u->round);
    if (!u->stretch || !u->room)
        return PARE_ENOMEM;
    for (size_t i = 0; i < u->round; i++)
        if (!(u->room[i] = pare_arena_take_raw(u->a, u->archive.stretch, 1)))
            return PARE_ENOMEM;
    return pare_stretch_coder_new(u->cx, u->archive.stretch, 0, &u->coder);
}

static pare_status decode_round(unpack *u, const pare_archive_file *f, size_t first, size_t count)
{
    const pare_file *const base = f->based ? pare_folder_find(&u->base, f->name) : NULL;
    for (size_t i = 0; i < count; i++) {
        const pare_archive_frame *const frame = &f->frame[first + i];
        u->stretch[i] =
            (pare_stretch){.from = u->from.data + frame->at, .to = u->room[i], .frame = *frame};
        if (pare_archive_form_based(frame->form) && base)
            u->stretch[i].base =
                (pare_base_bytes){base->data + frame->base_at, frame->base_at, frame->base_bytes};
    }
    const pare_status s = pare_stretch_decode(u->cx, u->coder, u->stretch, count);
    if (s != PARE_EFORMAT)
        return s;
    for (size_t i = 0; i < count; i++)
        if (u->stretch[i].why)
            return pare_fail(u->cx, s, "%s: %s: frame %zu at byte %llu %s", u->opts->path, f->name,
                             first + i, (unsigned long long)f->frame[first + i].at,
                             u->stretch[i].why);
    return s;
}

/* A file, round by round; with `check` into a digest of its own. */
static pare_status write_file(unpack *u, size_t i, int fd)
{
    const pare_archive_file *const f = &u->archive.file[i];
    uint64_t at = 0;
    for (size_t k = 0; k < f->frames; k += u->round) {
        const size_t n = pare_smaller(u->round, f->frames - k);
        pare_ctx_progress(u->cx, u->opts->check ? "checking" : "unpacking", (double)u->done,
                          (double)u->archive.bytes);
        PARE_TRY(pare_ctx_interrupted(u->cx));
        PARE_TRY(decode_round(u, f, k, n));
        const uint64_t begin = at;
        for (size_t j = 0; j < n; j++) {
            const size_t bytes = f->frame[k + j].bytes;
            if (fd >= 0)
                PARE_TRY(pare_file_put(u->cx, fd, u->path[i], u->room[j], bytes, at));
            else
                pare_sha256_add(u->running, u->room[j], bytes);
            at += bytes;
            u->done += bytes;
        }
        if (fd >= 0) {
            pare_file_start_writing(fd, begin, at - begin);
            pare_hashing_ready(u->hashing, i, at);
        }
    }
    return fd >= 0 ? pare_file_sync(u->cx, fd, u->path[i]) : PARE_OK;
}

static pare_status write_all(unpack *u)
{
    for (size_t i = 0; i < u->archive.files; i++) {
        const int fd = u->opts->check ? -1 : open(u->path[i], O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
        if (!u->opts->check && fd < 0)
            return pare_file_fail(u->cx, u->path[i], "open");
        pare_status s = fd < 0 ? pare_sha256_new(u->cx, &u->running) : PARE_OK;
        if (s == PARE_OK)
            s = write_file(u, i, fd);
        if (s == PARE_OK && fd < 0)
            s = pare_sha256_end(u->cx, &u->running, u->sha256[i]);
        if (fd >= 0 && close(fd) != 0 && s == PARE_OK)
            s = pare_file_fail(u->cx, u->path[i], "close");
        PARE_TRY(s);
    }
    return u->opts->check ? PARE_OK : pare_hashing_end(u->cx, &u->hashing);
}

static pare_status match_digests(unpack *u)
{
    for (size_t i = 0; i < u->archive.files; i++)
        if (strcmp(u->sha256[i], u->archive.file[i].sha256) != 0)
            return pare_fail(u->cx, PARE_EFORMAT,
                             "%s: %s: SHA-256 is %s, the index says %s: the archive is damaged, or "
                             "was not written by pare",
                             u->opts->path, u->archive.file[i].name, u->sha256[i],
                             u->archive.file[i].sha256);
    return PARE_OK;
}

static pare_status publish(unpack *u)
{
    for (size_t i = 0; i < u->archive.files; i++)
        pare_file_unmap(&u->to[i]);
    const char *const mark = pare_path_join(u->a, u->place.output, PARE_ARCHIVE_MARK);
    if (!mark)
        return PARE_ENOMEM;
    PARE_TRY(pare_file_sync_parent(u->cx, u->mark));
    if (unlink(u->mark) != 0)
        return pare_file_fail(u->cx, u->mark, "remove");
    /* at once: a run that is killed here leaves a folder that the next one does not touch */
    PARE_TRY(pare_file_name(u->cx, u->place.partial, u->place.output));
    u->made = false;
    PARE_TRY(pare_file_sync_parent(u->cx, mark));
    return pare_file_sync_parent(u->cx, u->place.output);
}

static pare_status run(unpack *u)
{
    if (!u->opts->check) {
        PARE_TRY(check_output(u));
        PARE_TRY(check_disk(u));
    }
    PARE_TRY(check_base(u));
    PARE_TRY(make_room(u));
    pare_status s = create_all(u);
    if (s == PARE_OK)
        s = write_all(u);
    if (s == PARE_OK)
        s = match_digests(u);
    if (s == PARE_OK && !u->opts->check)
        s = publish(u);
    return s;
}

static void end(unpack *u)
{
    pare_hashing_free(u->cx, u->hashing);
    pare_sha256_free(u->running);
    for (size_t i = 0; u->to && i < u->archive.files; i++)
        pare_file_unmap(&u->to[i]);
    if (u->made)
        discard(u);
    pare_stretch_coder_free(u->cx, u->coder);
    pare_folder_close(&u->base);
    pare_lock_release(&u->lock);
    pare_file_unmap(&u->from);
}

static pare_status open_archive(pare_ctx *cx, pare_arena *a, const char *path, pare_file *f,
                                pare_archive *out)
{
    PARE_TRY(pare_file_map(cx, a, path, f));
    const pare_status s = pare_archive_parse(cx, a, path, f->data, f->bytes, out);
    if (s != PARE_OK)
        pare_file_unmap(f);
    return s;
}

pare_status pare_unpack_list(pare_ctx *cx, pare_arena *a, const char *path, pare_archive *out)
{
    pare_file f;
    PARE_TRY(open_archive(cx, a, path, &f, out));
    pare_file_unmap(&f);
    return PARE_OK;
}

pare_status pare_unpack(pare_ctx *cx, pare_arena *a, const pare_unpack_opts *opts,
                        pare_unpack_result *out)
{
    unpack u = {.cx = cx, .a = a, .opts = opts};
    pare_phase phase[] = {{.name = opts->check ? "checking" : "unpacking", .amount = 1, .steps = 1},
                          {.name = "hashing", .amount = 0.1, .steps = 1}};
    PARE_TRY(open_archive(cx, a, opts->path, &u.from, &u.archive));
    pare_status s = opts->check ? PARE_OK : find_output(&u);
    if (s == PARE_OK && !opts->check)
        s = pare_lock_take(cx, a, u.place.output, "unpack", &opts->teller, &u.lock);
    pare_ctx_job(cx, phase, sizeof phase / sizeof *phase, 0);
    if (s == PARE_OK)
        s = run(&u);
    pare_ctx_job(cx, NULL, 0, 0);
    end(&u);
    *out = (pare_unpack_result){.output = u.place.output, .archive = u.archive};
    return s;
}
