#include "compress/output/owned_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calib/spill.h"
#include "compress/output/inventory.h"
#include "compress/output/journal.h"
#include "compress/output/output.h"
#include "compress/text/version.h"
#include "formats/checksums.h"
#include "formats/gguf_seal.h"
#include "formats/signature.h"
#include "runtime/file.h"

// clang-format off
static const char *const artifact_names[] = {
    "packed-*.safetensors", "packed.index.json", "config.json", PARE_MANIFEST_NAME, "recipe.yaml",
    "README.md", "report.html", "layers.csv", "run.json", "model.safetensors",
    "model-*-of-*.safetensors", "model.safetensors.index.json", "adapter_config.json",
    "adapter_model.safetensors", PARE_SUMS_NAME, PARE_SIGNATURE_NAME, NULL};
static const char *const export_names[] = {
    "config.json", "quantize_config.json", "quantization_config.json", "model.safetensors",
    "model-*-of-*.safetensors", "model.safetensors.index.json", PARE_EXPORT_RECORD, PARE_SUMS_NAME,
    PARE_SIGNATURE_NAME, NULL};
// clang-format on
static const char *const file_names[] = {PARE_OWNED_FILE, NULL};
static const char *const *const names[] = {artifact_names, export_names, file_names};

static bool is_listed(const char *const *list, const char *name)
{
    for (size_t i = 0; list[i]; i++)
        if (fnmatch(list[i], name, 0) == 0)
            return true;
    return false;
}

static bool is_temporary(const char *name)
{
    const size_t len = strlen(name);
    return pare_spill_is_name(name) || (len > 4 && strcmp(name + len - 4, ".tmp") == 0);
}

/* What only unfinished work of compress has. */
static const char *const unfinished_names[] = {PARE_JOURNAL_NAME, "pruned.f32", "trained.f32",
                                               PARE_TRAINING_STATE, NULL};

/* Whether pare gives that name in a directory of the kind. */
static bool gives(pare_output_kind kind, const char *name, bool unfinished)
{
    char base[NAME_MAX + 1];
    const bool temporary = unfinished && is_temporary(name);
    if (temporary && pare_spill_is_name(name))
        return kind == PARE_OUTPUT_ARTIFACT;
    (void)snprintf(base, sizeof base, "%.*s", (int)(strlen(name) - (temporary ? 4 : 0)), name);
    return (unfinished && is_listed(unfinished_names, base)) || is_listed(names[kind], base) ||
           (kind != PARE_OUTPUT_FILE &&
            (is_listed(pare_companions, base) || is_listed(pare_licenses, base)));
}

static const char *mark_name(pare_output_kind kind)
{
    return kind == PARE_OUTPUT_ARTIFACT ? PARE_MANIFEST_NAME : PARE_EXPORT_RECORD;
}

static const char *kind_name(pare_output_kind kind)
{
    static const char *const name[] = {"artifact of pare", "export of pare",
                                       "export of pare in GGUF"};
    return name[kind];
}

static bool is_mark(const pare_json *doc, pare_output_kind kind)
{
    if (kind == PARE_OUTPUT_ARTIFACT)
        return pare_json_text(pare_json_get(doc, "pare"), NULL) &&
               pare_json_type_of(pare_json_get(doc, "format")) == PARE_JSON_INTEGER &&
               pare_json_type_of(pare_json_get(doc, "outputs")) == PARE_JSON_ARRAY;
    const char *const program = pare_json_text(pare_json_get(doc, "program"), NULL);
    return program && strncmp(program, "pare ", 5) == 0 &&
           pare_json_text(pare_json_get(doc, "format"), NULL);
}

static pare_status read_mark(pare_ctx *cx, pare_arena *a, const char *directory,
                             pare_output_kind kind, bool *ours)
{
    const pare_mark m = pare_arena_mark(a);
    char *const path = pare_path_join(a, directory, mark_name(kind)), *text;
    pare_json *doc = NULL;
    size_t len;
    if (!path)
        return PARE_ENOMEM;
    pare_status s = pare_file_read(cx, a, path, PARE_MANIFEST_CAP, &text, &len);
    if (s == PARE_OK)
        s = pare_json_parse(cx, path, text, len, PARE_MANIFEST_CAP, &doc);
    *ours = s == PARE_OK && is_mark(doc, kind);
    pare_json_free(doc);
    pare_arena_rewind(a, m);
    if (s == PARE_ENOMEM)
        return s;
    pare_ctx_clear(cx);
    return PARE_OK;
}

/* Whether a file is one that an export wrote, by its head. */
static pare_status read_head(pare_ctx *cx, pare_arena *a, const char *path, bool *ours)
{
    const pare_mark m = pare_arena_mark(a);
    pare_file f = {0};
    pare_gguf g;
    pare_status s = pare_file_map(cx, a, path, &f);
    if (s == PARE_OK)
        s = pare_gguf_parse(cx, a, path, f.data, f.bytes, &g);
    *ours = s == PARE_OK && pare_gguf_is_ours(&g);
    pare_file_unmap(&f);
    pare_arena_rewind(a, m);
    if (s == PARE_ENOMEM)
        return s;
    pare_ctx_clear(cx);
    return PARE_OK;
}

/* Whether the user may not read what would tell whose it is. */
static pare_status is_hidden(pare_arena *a, const char *path, pare_output_kind kind, bool *hidden)
{
    const pare_mark m = pare_arena_mark(a);
    const char *const mark =
        kind == PARE_OUTPUT_FILE ? path : pare_path_join(a, path, mark_name(kind));
    *hidden = mark && faccessat(AT_FDCWD, mark, R_OK, AT_EACCESS) != 0 && errno == EACCES;
    pare_arena_rewind(a, m);
    return mark ? PARE_OK : PARE_ENOMEM;
}

pare_status pare_owned_marked(pare_ctx *cx, pare_arena *a, const char *path, pare_output_kind kind,
                              bool *ours, char *why)
{
    struct stat st;
    const bool file = kind == PARE_OUTPUT_FILE;
    const char *what = NULL;
    bool hidden = false;
    *ours = false;
    if (why)
        why[0] = '\0';
    if (lstat(path, &st) != 0)
        what = "does not exist";
    else if (S_ISLNK(st.st_mode))
        what = "is a symbolic link";
    else if (!(file ? S_ISREG(st.st_mode) : S_ISDIR(st.st_mode)))
        what = file ? "is no regular file" : "is no directory";
    else if (file)
        PARE_TRY(read_head(cx, a, path, ours));
    else
        PARE_TRY(read_mark(cx, a, path, kind, ours));
    if (*ours || !why)
        return PARE_OK;
    if (!what)
        PARE_TRY(is_hidden(a, path, kind, &hidden));
    what = hidden ? "cannot be read, its permissions do not allow it" : what;
    if (what)
        (void)snprintf(why, PARE_OWNED_WHY, "%s", what);
    else
        (void)snprintf(why, PARE_OWNED_WHY, "is no %s%s%s%s", kind_name(kind), file ? "" : " (no ",
                       file ? "" : mark_name(kind), file ? "" : " of one)");
    return PARE_OK;
}

/* What a directory holds, by names alone. */
typedef struct survey {
    size_t entries;
    char first[NAME_MAX + 1]; /* the lowest name */
    char odd[NAME_MAX + 1];   /* the lowest that is no regular file, or none that pare gives */
    bool folder, regular;     /* what that is */
} survey;

static bool is_lower(const char *name, const char *than)
{
    return !than[0] || strcmp(name, than) < 0;
}

static pare_status look_around(pare_ctx *cx, const char *path, pare_output_kind kind,
                               bool unfinished, survey *v)
{
    DIR *const d = opendir(path);
    struct stat st;
    *v = (survey){0};
    if (!d)
        return pare_file_fail(cx, path, "open the directory");
    for (struct dirent *e; (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        const bool known = fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0;
        v->entries++;
        if (is_lower(e->d_name, v->first))
            (void)snprintf(v->first, sizeof v->first, "%s", e->d_name);
        if ((known && S_ISREG(st.st_mode) && gives(kind, e->d_name, unfinished)) ||
            !is_lower(e->d_name, v->odd))
            continue;
        (void)snprintf(v->odd, sizeof v->odd, "%s", e->d_name);
        v->folder = known && S_ISDIR(st.st_mode);
        v->regular = known && S_ISREG(st.st_mode);
    }
    (void)closedir(d);
    return PARE_OK;
}

static pare_status refuse(pare_ctx *cx, const char *path, const char *name, const char *what)
{
    return pare_fail(
        cx, PARE_EEXISTS,
        "%s/%.100s: %s; " PARE_OWNED_ONLY ": "
        "move it away, remove it yourself if it is of no use (pare verify tells what is "
        "damaged), or choose another path",
        path, name, what);
}

static pare_status refuse_whole(pare_ctx *cx, const char *path, const char *what)
{
    return pare_fail(cx, PARE_EEXISTS,
                     "%s: %s; " PARE_OWNED_ONLY ": move it "
                     "away, or choose another path",
                     path, what);
}

static pare_status refuse_odd(pare_ctx *cx, const char *path, pare_output_kind kind,
                              const survey *v)
{
    char what[PARE_OWNED_WHY];
    (void)snprintf(what, sizeof what, "%s%s",
                   v->folder    ? "is a directory"
                   : v->regular ? "is no file of an "
                                : "is no regular file",
                   v->regular ? kind_name(kind) : "");
    return refuse(cx, path, v->odd, what);
}

/* Hears of an inventory. */
typedef struct listener {
    const char *path;
    bool remains;              /* a missing file is none */
    char name[NAME_MAX + 1];   /* the lowest finding */
    char what[PARE_OWNED_WHY]; /* and what is wrong with it */
    pare_arena *keep;          /* for all of them, or NULL */
    struct finding {
        const char *name;
        struct finding *next;
    } * all;
    bool no_memory;
} listener;

static bool is_missing(const listener *l, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    const int n = snprintf(path, sizeof path, "%s/%s", l->path, name);
    return n > 0 && (size_t)n < sizeof path && lstat(path, &st) != 0 && errno == ENOENT;
}

static void hear(void *self, const char *name, const char *what)
{
    listener *const l = self;
    if (l->remains && (strcmp(name, PARE_JOURNAL_NAME) == 0 || is_missing(l, name)))
        return;
    if (is_lower(name, l->name)) {
        (void)snprintf(l->name, sizeof l->name, "%s", name);
        (void)snprintf(l->what, sizeof l->what, "%s", what);
    }
    if (!l->keep)
        return;
    struct finding *const f = PARE_NEW(l->keep, struct finding, 1);
    char *const copy = pare_arena_text(l->keep, name, strlen(name));
    l->no_memory |= !f || !copy;
    if (l->no_memory)
        return;
    *f = (struct finding){copy, l->all};
    l->all = f;
}

/* Refuses what is not marked; *gone: the mark of what was being removed is missing, which goes
 * last. */
static pare_status check_mark(pare_ctx *cx, pare_arena *a, const char *path, pare_output_kind kind,
                              bool remains, bool *gone)
{
    char why[PARE_OWNED_WHY];
    bool ours;
    *gone = false;
    PARE_TRY(pare_owned_marked(cx, a, path, kind, &ours, why));
    if (ours)
        return PARE_OK;
    if (remains && pare_path_is_directory(path)) {
        struct stat st;
        char *const mark = pare_path_join(a, path, mark_name(kind));
        if (!mark)
            return PARE_ENOMEM;
        *gone = lstat(mark, &st) != 0;
    }
    return *gone ? PARE_OK : refuse_whole(cx, path, why);
}

static pare_status check_directory(pare_ctx *cx, pare_arena *a, const char *path,
                                   pare_output_kind kind, bool remains, listener *l)
{
    pare_inventory_result result;
    survey v;
    bool gone;
    PARE_TRY(check_mark(cx, a, path, kind, remains, &gone));
    PARE_TRY(look_around(cx, path, kind, remains, &v));
    if (v.odd[0])
        return refuse_odd(cx, path, kind, &v);
    const pare_status s = pare_inventory_check(cx, a, path, hear, l, &result);
    if (s == PARE_ENOTFOUND || s == PARE_EFORMAT) {
        pare_ctx_clear(cx);
        return refuse(cx, path, PARE_SUMS_NAME,
                      s == PARE_ENOTFOUND
                          ? "is missing, so nobody knows whether the files there are of pare"
                          : "is damaged");
    }
    PARE_TRY(s);
    if (gone && result.files > 1)
        return refuse(cx, path, mark_name(kind), "is missing");
    return l->name[0] ? refuse(cx, path, l->name, l->what) : PARE_OK;
}

/* A file of ours, by all of its bytes. */
static pare_status check_file(pare_ctx *cx, pare_arena *a, const char *path)
{
    pare_file f;
    pare_gguf g;
    bool gone, sealed;
    PARE_TRY(check_mark(cx, a, path, PARE_OUTPUT_FILE, false, &gone));
    PARE_TRY(pare_file_map(cx, a, path, &f));
    pare_status s = pare_gguf_parse(cx, a, path, f.data, f.bytes, &g);
    if (s == PARE_OK)
        s = pare_gguf_check_seal(cx, a, &f, &g, &sealed);
    pare_file_unmap(&f);
    if (s != PARE_EFORMAT)
        return s;
    pare_ctx_clear(cx);
    return refuse_whole(cx, path, "has no checksums in its head, or differs from them");
}

pare_status pare_owned_check(pare_ctx *cx, pare_arena *a, const char *path, pare_output_kind kind,
                             bool remains)
{
    const pare_mark m = pare_arena_mark(a);
    listener l = {.path = path, .remains = remains};
    const pare_status s = kind == PARE_OUTPUT_FILE
                              ? check_file(cx, a, path)
                              : check_directory(cx, a, path, kind, remains, &l);
    pare_arena_rewind(a, m);
    return s;
}

static pare_status partial_replaced(pare_ctx *cx, pare_arena *a, const char *path,
                                    pare_output_kind kind, const survey *v)
{
    return v->entries == 1 ? PARE_OK : pare_owned_check(cx, a, path, kind, true);
}

/* Work whose journal nobody can read. */
static pare_status partial_lost(pare_ctx *cx, pare_arena *a, const char *path,
                                pare_output_kind kind)
{
    bool finished = false;
    if (kind != PARE_OUTPUT_FILE)
        PARE_TRY(read_mark(cx, a, path, kind, &finished));
    return finished ? refuse(cx, path, PARE_JOURNAL_NAME, "is damaged, and lies in finished work")
                    : PARE_OK;
}

static pare_status refuse_other_kind(pare_ctx *cx, const char *path, const char *command)
{
    return pare_fail(cx, PARE_EEXISTS,
                     "%s: is unfinished work of pare %s; let that run come to its end or remove "
                     "it, or choose another path",
                     path, command);
}

static pare_status partial_directory(pare_ctx *cx, pare_arena *a, const char *path,
                                     pare_output_kind kind, pare_owned_state *out)
{
    const bool artifact = kind == PARE_OUTPUT_ARTIFACT;
    pare_journal_kind journal;
    survey v;
    PARE_TRY(look_around(cx, path, kind, true, &v));
    if (v.entries == 0)
        return PARE_OK;
    PARE_TRY(pare_journal_look(cx, a, path, &journal));
    if (journal == PARE_JOURNAL_FOREIGN)
        return refuse(cx, path, PARE_JOURNAL_NAME, "is no journal of pare");
    if (journal == (artifact ? PARE_JOURNAL_EXPORT : PARE_JOURNAL_COMPRESS) ||
        (!artifact && journal == PARE_JOURNAL_TRAIN))
        return refuse_other_kind(cx, path, artifact ? "export" : "compress");
    if (v.odd[0])
        return refuse_odd(cx, path, kind, &v);
    if (journal == PARE_JOURNAL_NONE)
        return refuse(cx, path, v.first, "lies beside no journal of an unfinished run");
    *out = journal == PARE_JOURNAL_REPLACED  ? PARE_OWNED_REPLACED
           : journal == PARE_JOURNAL_DAMAGED ? PARE_OWNED_LOST
                                             : PARE_OWNED_UNFINISHED;
    return *out == PARE_OWNED_REPLACED ? partial_replaced(cx, a, path, kind, &v)
           : *out == PARE_OWNED_LOST   ? partial_lost(cx, a, path, kind)
                                       : PARE_OK;
}

pare_status pare_owned_partial(pare_ctx *cx, pare_arena *a, const char *path, pare_output_kind kind,
                               pare_owned_state *out)
{
    const pare_mark m = pare_arena_mark(a);
    struct stat st;
    *out = PARE_OWNED_NOTHING;
    if (lstat(path, &st) != 0)
        return PARE_OK;
    const pare_status s = S_ISDIR(st.st_mode) ? partial_directory(cx, a, path, kind, out)
                                              : refuse_whole(cx, path, "is no directory");
    pare_arena_rewind(a, m);
    return s;
}

pare_status pare_owned_mark_replaced(pare_ctx *cx, const char *path, const char *partial)
{
    return pare_journal_put(cx, path, partial,
                            "{\"program\": \"pare " PARE_VERSION "\", \"replaced\": true}");
}

pare_status pare_owned_mark_unfinished(pare_ctx *cx, const char *path)
{
    pare_journal *j;
    PARE_TRY(pare_journal_restart(cx, path, "{\"program\": \"pare " PARE_VERSION "\"}", &j));
    pare_journal_close(cx, j);
    return PARE_OK;
}

pare_status pare_owned_unmark(pare_ctx *cx, pare_arena *a, const char *path)
{
    pare_journal_kind kind;
    PARE_TRY(pare_journal_look(cx, a, path, &kind));
    char *const journal = pare_path_join(a, path, PARE_JOURNAL_NAME);
    char *const state = pare_path_join(a, path, PARE_TRAINING_STATE);
    if (!journal || !state)
        return PARE_ENOMEM;
    if (kind == PARE_JOURNAL_NONE || kind == PARE_JOURNAL_FOREIGN || kind == PARE_JOURNAL_DAMAGED)
        return PARE_OK;
    if (kind != PARE_JOURNAL_REPLACED && pare_path_is_file(state)) {
        if (unlink(state) != 0)
            return pare_file_fail(cx, state, "remove");
        PARE_TRY(pare_file_sync_parent(cx, state)); /* nothing else tells that it is pare's */
    }
    return unlink(journal) == 0 ? PARE_OK : pare_file_fail(cx, journal, "remove");
}

static bool is_found(const listener *l, const char *name)
{
    for (const struct finding *f = l->all; f; f = f->next)
        if (strcmp(f->name, name) == 0)
            return true;
    return false;
}

/* A file as it was before its bytes were read. */
typedef struct seen {
    const char *name;
    struct stat st;
    struct seen *next;
} seen;

static pare_status see(pare_ctx *cx, pare_arena *keep, const char *path, pare_output_kind kind,
                       seen **out)
{
    DIR *const d = opendir(path);
    struct stat st;
    pare_status s = PARE_OK;
    if (!d)
        return pare_file_fail(cx, path, "open the directory");
    for (struct dirent *e; s == PARE_OK && (e = readdir(d));) {
        if (!gives(kind, e->d_name, false) ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        seen *const f = PARE_NEW(keep, seen, 1);
        char *const name = pare_arena_text(keep, e->d_name, strlen(e->d_name));
        s = f && name ? PARE_OK : PARE_ENOMEM;
        if (s != PARE_OK)
            break;
        *f = (seen){name, st, *out};
        *out = f;
    }
    (void)closedir(d);
    return s;
}

static bool is_unchanged(int directory, const seen *f)
{
    struct stat st;
    return fstatat(directory, f->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_dev == f->st.st_dev && st.st_ino == f->st.st_ino && st.st_size == f->st.st_size &&
           st.st_ctim.tv_sec == f->st.st_ctim.tv_sec && st.st_ctim.tv_nsec == f->st.st_ctim.tv_nsec;
}

/* Removes what was seen, is not among the findings and has not changed; the mark and SHA256SUMS go
 * last, before the journal. */
static pare_status remove_listed(pare_ctx *cx, const char *path, pare_output_kind kind,
                                 const listener *l, const seen *files)
{
    const char *const last[] = {mark_name(kind), PARE_SUMS_NAME};
    DIR *const d = opendir(path);
    bool failed = false;
    if (!d)
        return pare_file_fail(cx, path, "open the directory");
    for (size_t i = 0; !failed && i < 3; i++) {
        for (const seen *f = files; !failed && f; f = f->next) {
            const size_t turn = strcmp(f->name, last[0]) == 0   ? 1
                                : strcmp(f->name, last[1]) == 0 ? 2
                                                                : 0;
            if (turn == i && !is_found(l, f->name) && is_unchanged(dirfd(d), f))
                failed = unlinkat(dirfd(d), f->name, 0) != 0;
        }
        /* last on the disk, too: each waits for what came before, and so does the journal */
        failed = failed || fsync(dirfd(d)) != 0;
    }
    const pare_status s =
        failed ? pare_file_fail(cx, path, "remove files of the replaced output") : PARE_OK;
    (void)closedir(d);
    return s;
}

static pare_status remove_directory(pare_ctx *cx, pare_arena *a, const char *path,
                                    pare_output_kind kind, listener *l)
{
    pare_inventory_result result;
    survey v;
    bool gone;
    seen *files = NULL;
    PARE_TRY(look_around(cx, path, kind, true, &v));
    const bool bare = v.entries == 1 && strcmp(v.first, PARE_JOURNAL_NAME) == 0;
    if (!bare) {
        PARE_TRY(check_mark(cx, a, path, kind, true, &gone));
        PARE_TRY(see(cx, l->keep, path, kind, &files));
        PARE_TRY(pare_inventory_check(cx, a, path, hear, l, &result));
        if (l->no_memory)
            return PARE_ENOMEM;
        PARE_TRY(remove_listed(cx, path, kind, l, files));
    }
    PARE_TRY(pare_owned_unmark(cx, a, path));
    if (rmdir(path) == 0)
        return PARE_OK;
    const pare_status s = pare_file_fail(cx, path, "remove the directory");
    if (look_around(cx, path, kind, false, &v) != PARE_OK || v.entries == 0)
        return s;
    pare_ctx_clear(cx);
    return pare_fail(cx, PARE_EEXISTS, "%s: \"%.100s\" came there or changed meanwhile, and stays",
                     path, v.first);
}

pare_status pare_owned_remove(pare_ctx *cx, pare_arena *a, const char *path, pare_output_kind kind)
{
    const pare_mark m = pare_arena_mark(a);
    pare_arena keep;
    listener l = {.path = path, .remains = true, .keep = &keep};
    PARE_TRY(pare_arena_init(cx, &keep, 0));
    const pare_status s = remove_directory(cx, a, path, kind, &l);
    pare_arena_release(&keep);
    pare_arena_rewind(a, m);
    return s;
}

pare_status pare_owned_discard(pare_ctx *cx, const char *path, pare_output_kind kind,
                               pare_owned_part part)
{
    static const char doing[] = "remove what an earlier run left";
    DIR *const d = opendir(path);
    if (!d)
        return pare_file_fail(cx, path, "open the directory");
    int failed = 0;
    for (struct dirent *e; !failed && (e = readdir(d));)
        if (gives(kind, e->d_name, true) && strcmp(e->d_name, PARE_JOURNAL_NAME) != 0 &&
            (part != PARE_OWNED_BUT_STATE || strcmp(e->d_name, PARE_TRAINING_STATE) != 0) &&
            (part != PARE_OWNED_TEMPORARY || is_temporary(e->d_name)))
            failed = unlinkat(dirfd(d), e->d_name, 0);
    if (!failed && part == PARE_OWNED_ALL) { /* what tells that it is ours goes last */
        failed = fsync(dirfd(d)) != 0 ||
                 (unlinkat(dirfd(d), PARE_JOURNAL_NAME, 0) != 0 && errno != ENOENT);
        failed = failed || rmdir(path) != 0;
    }
    const pare_status s = failed ? pare_file_fail(cx, path, doing) : PARE_OK;
    (void)closedir(d);
    return s;
}
