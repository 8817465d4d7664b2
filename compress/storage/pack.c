#include "compress/storage/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compress/output/output.h"
#include "compress/storage/input_folder.h"
#include "compress/text/version.h"
#include "formats/archive_stretch.h"
#include "formats/checksums.h"
#include "formats/hash.h"
#include "formats/signature.h"
#include "formats/sums.h"
#include "runtime/small.h"
#include "runtime/threads.h"
#include "runtime/watch.h"

typedef struct pack {
    pare_ctx *cx;
    pare_arena *a;
    const pare_pack_opts *opts;
    pare_folder from, base;
    pare_sums sums; /* of SHA256SUMS in `from`; empty: it has none */
    pare_archive archive;
    pare_stretch *stretch; /* of all files, in order */
    size_t stretches;
    pare_stretch_coder *coder;
    unsigned char **room; /* of one round */
    size_t round;
    pare_hashing *hashing;
    char (*sha256)[PARE_SHA256_HEX], (*base_sha256)[PARE_SHA256_HEX];
    pare_watch watch;
    char *output, *partial;
    pare_lock lock;
    int fd; /* of `partial`; -1: none */
    uint64_t written;
} pack;

static bool is_archive(const char *path, bool partly)
{
    unsigned char head[PARE_ARCHIVE_HEAD];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    ssize_t n = -1;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        n = read(fd, head, sizeof head);
    if (fd >= 0)
        (void)close(fd);
    return n >= 0 && (partly || n == PARE_ARCHIVE_HEAD) &&
           memcmp(head, pare_archive_head, (size_t)n) == 0;
}

static bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static pare_status find_output(pack *p)
{
    const char *home, *output = p->opts->output;
    if (!output) {
        size_t len = strlen(p->opts->path);
        while (len > 1 && p->opts->path[len - 1] == '/')
            len--;
        const char *const path = pare_arena_text(p->a, p->opts->path, len);
        const char *const slash = path ? strrchr(path, '/') : NULL,
                          *last = slash ? slash + 1 : path;
        if (last && (!*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0))
            return pare_fail(p->cx, PARE_EUSAGE, "%s: name the archive with --output", path);
        output = path ? pare_path_suffix(p->a, path, PARE_ARCHIVE_ENDING) : NULL;
        if (!output)
            return PARE_ENOMEM;
    }
    PARE_TRY(pare_output_check_length(p->cx, output));
    p->output = pare_arena_text(p->a, output, strlen(output));
    p->partial = p->output ? pare_path_suffix(p->a, p->output, ".partial") : NULL;
    if (!p->partial)
        return PARE_ENOMEM;
    if (!pare_ends_with(output, PARE_ARCHIVE_ENDING))
        return pare_fail(p->cx, PARE_EUSAGE,
                         "%s: the name of an archive ends in " PARE_ARCHIVE_ENDING, output);
    if (pare_path_is_directory(p->opts->path) && pare_output_lies_in(output, p->opts->path))
        return pare_fail(p->cx, PARE_EUSAGE,
                         "%s: lies in the folder that is packed; choose another "
                         "path",
                         output);
    PARE_TRY(pare_output_home(p->cx, p->a, output, &home));
    return home ? pare_fail(p->cx, PARE_EUSAGE,
                            "%s: lies inside %s, where only files of that model belong; choose "
                            "another path",
                            output, home)
                : pare_output_check_room(p->cx, output);
}

static pare_status check_output(const pack *p)
{
    if (is_there(p->output) && !p->opts->replace)
        return pare_fail(p->cx, PARE_EEXISTS, "%s: exists already; --restart replaces it",
                         p->output);
    if (is_there(p->output) && !is_archive(p->output, false))
        return pare_fail(p->cx, PARE_EEXISTS,
                         "%s: is no archive of pare, so it is not replaced; choose another path",
                         p->output);
    return PARE_OK;
}

/* What a run that was killed left may be written over. */
static pare_status check_partial(const pack *p)
{
    if (is_there(p->partial) && !is_archive(p->partial, true))
        return pare_fail(p->cx, PARE_EEXISTS,
                         "%s: is in the way, and not of pare; move it away, or choose another path",
                         p->partial);
    return PARE_OK;
}

static pare_status check_apart_from(const pack *p, const pare_folder *read, const char *path)
{
    const pare_file_stamp there = pare_file_look(path);
    for (size_t i = 0; there.inode && i < read->files; i++) {
        const pare_file_stamp *const is = &read->file[i].stamp;
        if (is->device == there.device && is->inode == there.inode)
            return pare_fail(p->cx, PARE_EUSAGE,
                             "%s: is one of the files that are read; choose another path", path);
    }
    return PARE_OK;
}

/* What is written is none of the files that are read, however it is spelled. */
static pare_status check_apart(const pack *p)
{
    PARE_TRY(check_apart_from(p, &p->from, p->output));
    PARE_TRY(check_apart_from(p, &p->from, p->partial));
    PARE_TRY(check_apart_from(p, &p->base, p->output));
    return check_apart_from(p, &p->base, p->partial);
}

/* Where the element at `at` of a part lies in the base file; what is not of a tensor, or of one
 * that is another there, has no twin. */
static void find_twin(const pare_file_part *part, const pare_file_part *base, size_t bases,
                      pare_file_part *out)
{
    *out = (pare_file_part){0};
    for (size_t i = 0; part->tensor && i < bases; i++)
        if (base[i].tensor && strcmp(base[i].tensor, part->tensor) == 0)
            *out = base[i];
}

/* Bytes of the base around a place: as many in front and behind as the stretch may be long. */
static pare_base_bytes around(const pare_file *base, uint64_t at, uint64_t bytes)
{
    if (!base || base->bytes == 0)
        return (pare_base_bytes){0};
    const uint64_t reach = PARE_ARCHIVE_STRETCH, last = base->bytes;
    const uint64_t begin = at > reach ? at - reach < last ? at - reach : 0 : 0;
    const uint64_t end = at + bytes + reach < last ? at + bytes + reach : last;
    return end > begin ? (pare_base_bytes){base->data + begin, begin, (size_t)(end - begin)}
                       : (pare_base_bytes){0};
}

/* The next stretch of a part, from `at` in the file on. */
static pare_stretch stretch_of(const pare_file *f, const pare_file_part *part,
                               const pare_file *base, const pare_file_part *twin, uint64_t at)
{
    const uint64_t left = part->at + part->bytes - at, skip = at - part->at;
    const size_t n = left < PARE_ARCHIVE_STRETCH ? (size_t)left : PARE_ARCHIVE_STRETCH;
    pare_stretch s = {.from = f->data + at, .width = part->width};
    s.frame.bytes = n;
    if (!base)
        return s;
    s.base = around(base, twin->bytes > skip ? twin->at + skip : at, n);
    if (twin->bytes == part->bytes && twin->width == part->width)
        s.twin = (pare_base_bytes){base->data + twin->at + skip, twin->at + skip, n};
    return s;
}

/* Two that follow each other in the file become one where they are alike and short. */
static bool join(pare_stretch *s, const pare_stretch *next)
{
    if (s->width != next->width || s->base.at || next->base.at ||
        s->frame.bytes + next->frame.bytes > PARE_ARCHIVE_STRETCH)
        return false;
    s->frame.bytes += next->frame.bytes;
    return true;
}

static pare_status cut_file(pack *p, size_t i, pare_stretch *to, size_t *count)
{
    const pare_file *const f = &p->from.file[i];
    const pare_file *const base = pare_folder_find(&p->base, p->from.name[i]);
    pare_file_part *part, *old = NULL, twin = {0};
    size_t parts, olds = 0;
    const pare_mark mark = pare_arena_mark(p->a);
    PARE_TRY(pare_parts(p->cx, p->a, f, &part, &parts));
    if (base)
        PARE_TRY(pare_parts(p->cx, p->a, base, &old, &olds));
    *count = 0;
    for (size_t k = 0; k < parts; k++) {
        find_twin(&part[k], old, olds, &twin);
        for (uint64_t at = part[k].at; at < part[k].at + part[k].bytes;) {
            const pare_stretch s = stretch_of(f, &part[k], base, &twin, at);
            at += s.frame.bytes;
            if (*count > 0 && to && join(&to[*count - 1], &s))
                continue;
            if (to)
                to[*count] = s;
            (*count)++;
        }
    }
    pare_arena_rewind(p->a, mark);
    return PARE_OK;
}

/* Stretches of all files: counted in front, as if none were joined. */
static pare_status cut(pack *p)
{
    size_t most = 0, n;
    pare_archive *const x = &p->archive;
    *x = (pare_archive){.program = PARE_VERSION,
                        .zstd = pare_stretch_library(),
                        .level = p->opts->level,
                        .stretch = PARE_ARCHIVE_STRETCH,
                        .files = p->from.files,
                        .bytes = p->from.bytes};
    for (size_t i = 0; i < p->from.files; i++, most += n)
        PARE_TRY(cut_file(p, i, NULL, &n));
    p->stretch = PARE_NEW(p->a, pare_stretch, most);
    x->file = PARE_NEW(p->a, pare_archive_file, x->files);
    pare_archive_frame *const frame = PARE_NEW(p->a, pare_archive_frame, most);
    if (!p->stretch || !x->file || !frame)
        return PARE_ENOMEM;
    for (size_t i = 0; i < x->files; i++) {
        pare_archive_file *const f = &x->file[i];
        *f = (pare_archive_file){
            .name = p->from.name[i], .bytes = p->from.file[i].bytes, .frame = frame + p->stretches};
        PARE_TRY(cut_file(p, i, p->stretch + p->stretches, &f->frames));
        p->stretches += f->frames;
    }
    return PARE_OK;
}

static pare_status begin(pack *p)
{
    const size_t bound = pare_stretch_bound(PARE_ARCHIVE_STRETCH);
    p->round = pare_smaller(2 * pare_threads(p->cx), p->stretches);
    p->room = PARE_NEW(p->a, unsigned char *, p->round);
    p->sha256 = pare_arena_take(p->a, p->from.files, sizeof *p->sha256);
    if (!p->room || !p->sha256)
        return PARE_ENOMEM;
    for (size_t i = 0; i < p->round; i++)
        if (!(p->room[i] = pare_arena_take_raw(p->a, bound, 1)))
            return PARE_ENOMEM;
    for (size_t i = 0; i < p->from.files; i++) {
        PARE_TRY(pare_watch_mapped(p->a, &p->watch, &p->from.file[i]));
        pare_file_read_ahead(&p->from.file[i]);
    }
    PARE_TRY(pare_stretch_coder_new(p->cx, PARE_ARCHIVE_STRETCH, p->opts->level, &p->coder));
    PARE_TRY(pare_hashing_begin(p->cx, p->from.file, p->from.files, p->sha256, NULL, &p->hashing));
    for (size_t i = 0; i < p->from.files; i++)
        pare_hashing_ready(p->hashing, i, p->from.file[i].bytes);
    p->fd = open(p->partial, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (p->fd < 0)
        return pare_file_fail(p->cx, p->partial, "create");
    p->written = PARE_ARCHIVE_HEAD;
    return pare_file_put(p->cx, p->fd, p->partial, pare_archive_head, PARE_ARCHIVE_HEAD, 0);
}

/* A round of stretches: compressed on the pool, written in order. */
static pare_status write_round(pack *p, size_t first, size_t count, pare_archive_frame *frame)
{
    pare_stretch *const s = p->stretch + first;
    const uint64_t begin = p->written;
    for (size_t i = 0; i < count; i++)
        s[i].to = p->room[i];
    PARE_TRY(pare_stretch_encode(p->cx, p->coder, s, count));
    for (size_t i = 0; i < count; i++) {
        s[i].frame.at = p->written;
        frame[first + i] = s[i].frame;
        PARE_TRY(pare_file_put(p->cx, p->fd, p->partial, s[i].to, s[i].frame.stored, p->written));
        p->written += s[i].frame.stored;
    }
    pare_file_start_writing(p->fd, begin, p->written - begin);
    return PARE_OK;
}

static pare_status write_frames(pack *p)
{
    static const char what[] = "packing";
    pare_archive_frame *const frame = p->archive.files ? p->archive.file[0].frame : NULL;
    uint64_t done = 0;
    for (size_t i = 0; i < p->stretches; i += p->round) {
        const size_t n = pare_smaller(p->round, p->stretches - i);
        pare_ctx_progress(p->cx, what, (double)done, (double)p->from.bytes);
        PARE_TRY(pare_ctx_interrupted(p->cx));
        PARE_TRY(write_round(p, i, n, frame));
        for (size_t k = 0; k < n; k++)
            done += frame[i + k].bytes;
    }
    pare_ctx_progress(p->cx, what, (double)done, (double)p->from.bytes);
    return PARE_OK;
}

/* Files that nobody listed are packed, and named. */
static void tell_unlisted(const pack *p)
{
    const char *first = NULL;
    size_t more = 0;
    for (size_t i = 0; i < p->from.files; i++) {
        const char *const name = p->from.name[i];
        if (strcmp(name, PARE_SUMS_NAME) == 0 || strcmp(name, PARE_SIGNATURE_NAME) == 0 ||
            pare_sums_find(&p->sums, name))
            continue;
        more += first != NULL;
        first = first ? first : p->from.file[i].path;
    }
    if (first && more)
        pare_teller_say(&p->opts->teller,
                        "%s and %zu more file%s: packed, though " PARE_SUMS_NAME
                        " does not list them",
                        first, more, pare_plural(more));
    else if (first)
        pare_teller_say(&p->opts->teller, "%s: packed, though " PARE_SUMS_NAME " does not list it",
                        first);
}

/* The list of digests among the files: what it lists must be there. */
static pare_status read_sums(pack *p)
{
    const pare_file *const f = pare_folder_find(&p->from, PARE_SUMS_NAME);
    if (!f || !pare_path_is_directory(p->opts->path))
        return PARE_OK;
    const pare_status s = pare_sums_parse(p->cx, p->a, f->path, f->data, f->bytes, &p->sums);
    if (s == PARE_EFORMAT) { /* of another form, so of others */
        p->sums = (pare_sums){.item = NULL};
        return pare_ctx_clear(p->cx), PARE_OK;
    }
    PARE_TRY(s);
    const bool artifact = pare_folder_find(&p->from, PARE_MANIFEST_NAME) != NULL;
    for (size_t i = 0; i < p->sums.count && artifact; i++)
        if (!pare_folder_find(&p->from, p->sums.item[i].name))
            return pare_fail(p->cx, PARE_EFORMAT,
                             "%s: %s is missing, which " PARE_SUMS_NAME
                             " lists; an artifact that is not whole is not packed: put the file "
                             "back, or take " PARE_SUMS_NAME " out of the folder",
                             p->opts->path, p->sums.item[i].name);
    tell_unlisted(p);
    return PARE_OK;
}

/* Digests must fit: a damaged artifact is not kept as if it were whole. */
static pare_status check_sums(pack *p)
{
    for (size_t i = 0; i < p->from.files && p->sums.count; i++) {
        const pare_sum *const want = pare_sums_find(&p->sums, p->from.name[i]);
        if (want && strcmp(want->sha256, p->sha256[i]) != 0)
            return pare_fail(p->cx, PARE_EFORMAT,
                             "%s: differs from its SHA-256 in " PARE_SUMS_NAME
                             ", so it is not packed; pare verify says what is damaged",
                             p->from.file[i].path);
    }
    return PARE_OK;
}

/* What of the base the frames need, by name, size and digest. */
static pare_status name_bases(pack *p)
{
    pare_archive *const x = &p->archive;
    if (!p->opts->base)
        return PARE_OK;
    p->base_sha256 = pare_arena_take(p->a, p->base.files, sizeof *p->base_sha256);
    if (!p->base_sha256)
        return PARE_ENOMEM;
    PARE_TRY(pare_sha256_files(p->cx, p->base.file, p->base.files, p->base_sha256));
    for (size_t i = 0; i < x->files; i++) {
        pare_archive_file *const f = &x->file[i];
        const pare_file *const base = pare_folder_find(&p->base, f->name);
        for (size_t k = 0; k < f->frames; k++)
            f->based |= pare_archive_form_based(f->frame[k].form);
        if (!f->based || !base)
            continue;
        f->base_bytes = base->bytes;
        memcpy(f->base_sha256, p->base_sha256[base - p->base.file], sizeof f->base_sha256);
        x->based = true;
    }
    return PARE_OK;
}

static pare_status finish(pack *p)
{
    char *tail;
    size_t len;
    PARE_TRY(pare_hashing_end(p->cx, &p->hashing));
    for (size_t i = 0; i < p->archive.files; i++)
        memcpy(p->archive.file[i].sha256, p->sha256[i], sizeof p->sha256[i]);
    PARE_TRY(check_sums(p));
    PARE_TRY(name_bases(p));
    PARE_TRY(pare_archive_tail(p->cx, p->a, &p->archive, &tail, &len));
    PARE_TRY(pare_file_put(p->cx, p->fd, p->partial, tail, len, p->written));
    p->written += len;
    PARE_TRY(pare_watch_check(p->cx, &p->watch));
    PARE_TRY(pare_file_sync(p->cx, p->fd, p->partial));
    PARE_TRY(check_output(p));
    if (!p->opts->replace)
        PARE_TRY(pare_file_name(p->cx, p->partial, p->output));
    else if (rename(p->partial, p->output) != 0)
        return pare_file_fail(p->cx, p->output, "replace");
    return pare_file_sync_parent(p->cx, p->output);
}

static pare_status run(pack *p)
{
    PARE_TRY(check_output(p));
    PARE_TRY(check_partial(p));
    PARE_TRY(pare_folder_open(p->cx, p->a, p->opts->path, &p->from));
    if (p->opts->base)
        PARE_TRY(pare_folder_open(p->cx, p->a, p->opts->base, &p->base));
    PARE_TRY(check_apart(p));
    PARE_TRY(read_sums(p));
    for (size_t i = 0; i < p->base.files; i++)
        PARE_TRY(pare_watch_mapped(p->a, &p->watch, &p->base.file[i]));
    PARE_TRY(cut(p));
    pare_status s = begin(p);
    if (s == PARE_OK)
        s = write_frames(p);
    if (s == PARE_OK)
        s = finish(p);
    if (p->fd >= 0)
        (void)close(p->fd);
    if (p->fd >= 0 && s != PARE_OK)
        (void)unlink(p->partial);
    return s;
}

static void tell(const pack *p, pare_pack_result *out)
{
    *out = (pare_pack_result){.output = p->output,
                              .files = p->from.files,
                              .frames = p->stretches,
                              .bytes = p->from.bytes,
                              .stored = p->written};
    for (size_t i = 0; i < p->stretches; i++)
        out->form[p->stretch[i].frame.form]++;
    for (size_t i = 0; i < p->archive.files; i++)
        out->base_bytes += p->archive.file[i].base_bytes;
}

pare_status pare_pack(pare_ctx *cx, pare_arena *a, const pare_pack_opts *opts,
                      pare_pack_result *out)
{
    pack p = {.cx = cx, .a = a, .opts = opts, .fd = -1};
    pare_phase phase[] = {{.name = "packing", .amount = 1, .steps = 1},
                          {.name = "hashing", .amount = 0.1, .steps = 1}};
    PARE_TRY(find_output(&p));
    PARE_TRY(pare_lock_take(cx, a, p.output, "pack", &opts->teller, &p.lock));
    pare_ctx_job(cx, phase, sizeof phase / sizeof *phase, 0);
    const pare_status s = run(&p);
    pare_ctx_job(cx, NULL, 0, 0);
    pare_hashing_free(cx, p.hashing);
    pare_stretch_coder_free(cx, p.coder);
    pare_folder_close(&p.from);
    pare_folder_close(&p.base);
    pare_lock_release(&p.lock);
    if (s == PARE_OK)
        tell(&p, out);
    return s;
}
