#define _GNU_SOURCE /* memmem */
#include "compress/ours.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compress/export.h"
#include "compress/inventory.h"
#include "compress/journal.h"
#include "compress/output.h"
#include "compress/version.h"
#include "formats/gguf.h"
#include "runtime/file.h"

enum { MANIFEST_CAP = 1 << 30, TORN = 256 };

static const char *const artifact_names[] = {"packed-*.safetensors",
                                             "packed.index.json",
                                             "config.json",
                                             "manifest.json",
                                             "recipe.yaml",
                                             "README.md",
                                             "report.html",
                                             "layers.csv",
                                             "run.json",
                                             "model.safetensors",
                                             "model-*-of-*.safetensors",
                                             "model.safetensors.index.json",
                                             PARE_SUMS_NAME,
                                             NULL};
static const char *const export_names[] = {"config.json",
                                           "quantize_config.json",
                                           "model.safetensors",
                                           "model-*-of-*.safetensors",
                                           "model.safetensors.index.json",
                                           PARE_EXPORT_RECORD,
                                           PARE_SUMS_NAME,
                                           NULL};

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
    return strcmp(name, "activations") == 0 || (len > 4 && strcmp(name + len - 4, ".tmp") == 0);
}

/* Whether pare gives that name in a directory of the kind. */
static bool gives(pare_output_kind kind, const char *name, bool unfinished)
{
    char base[NAME_MAX + 1];
    const size_t len = strlen(name), cut = unfinished && is_temporary(name) ? 4 : 0;
    (void)snprintf(base, sizeof base, "%.*s", (int)(len - cut), name);
    if (unfinished && kind == PARE_OUTPUT_ARTIFACT && strcmp(name, "activations") == 0)
        return true;
    return (unfinished && strcmp(name, PARE_JOURNAL_NAME) == 0) ||
           is_listed(kind == PARE_OUTPUT_ARTIFACT ? artifact_names : export_names, base) ||
           is_listed(pare_companions, base);
}

static const char *mark_name(pare_output_kind kind)
{
    return kind == PARE_OUTPUT_ARTIFACT ? "manifest.json" : PARE_EXPORT_RECORD;
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
    pare_status s = pare_file_read(cx, a, path, MANIFEST_CAP, &text, &len);
    if (s == PARE_OK)
        s = pare_json_parse(cx, path, text, len, MANIFEST_CAP, &doc);
    *ours = s == PARE_OK && is_mark(doc, kind);
    pare_json_free(doc);
    pare_arena_rewind(a, m);
    if (s == PARE_ENOMEM)
        return s;
    pare_ctx_clear(cx);
    return PARE_OK;
}

/* A head that is torn is of pare as far as it says so; a few bytes of one say nothing yet. */
static bool is_torn_head(const pare_file *f)
{
    static const char key[] = "general.quantized_by";
    const size_t len = f->bytes < TORN ? (size_t)f->bytes : TORN, word = sizeof key - 1 + 12;
    if (len < 4)
        return len == 0;
    if (memcmp(f->data, "GGUF", 4) != 0)
        return false;
    const unsigned char *const at = memmem(f->data, len, key, sizeof key - 1);
    return at ? (size_t)(f->data + len - at) >= word + 5 && memcmp(at + word, "pare ", 5) == 0
              : len < TORN;
}

/* Whether a file is one that an export wrote; or one that it did not finish: empty, torn inside its
 * head, or with a head of ours, whatever of the tensors is there. */
static pare_status read_head(pare_ctx *cx, pare_arena *a, const char *path, bool unfinished,
                             bool *ours)
{
    const pare_mark m = pare_arena_mark(a);
    pare_file f = {0};
    pare_gguf g;
    const char *text = NULL;
    size_t len = 0;
    pare_status s = pare_file_map(cx, a, path, &f);
    if (s == PARE_OK) {
        s = pare_gguf_parse_head(cx, a, path, f.data, f.bytes,
                                 unfinished ? PARE_GGUF_ANY_SIZE : f.bytes, &g);
        *ours = s == PARE_OK
                    ? pare_gguf_text(pare_gguf_find(&g, "general.quantized_by"), &text, &len) &&
                          len >= 5 && memcmp(text, "pare ", 5) == 0
                    : unfinished && is_torn_head(&f);
    }
    pare_file_unmap(&f);
    pare_arena_rewind(a, m);
    if (s == PARE_ENOMEM)
        return s;
    pare_ctx_clear(cx);
    return PARE_OK;
}

pare_status pare_ours_marked(pare_ctx *cx, pare_arena *a, const char *path, pare_output_kind kind,
                             bool *ours, char *why)
{
    struct stat st;
    const bool file = kind == PARE_OUTPUT_FILE;
    const char *what = NULL;
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
        PARE_TRY(read_head(cx, a, path, false, ours));
    else
        PARE_TRY(read_mark(cx, a, path, kind, ours));
    if (*ours || !why)
        return PARE_OK;
    if (what)
        (void)snprintf(why, PARE_OURS_WHY, "%s", what);
    else
        (void)snprintf(why, PARE_OURS_WHY, "is no %s%s%s%s", kind_name(kind), file ? "" : " (no ",
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
    return pare_fail(cx, PARE_EEXISTS,
                     "%s/%.100s: %s; only what pare wrote, as it wrote it, is replaced or removed: "
                     "move away what is yours, or choose another path",
                     path, name, what);
}

static pare_status refuse_whole(pare_ctx *cx, const char *path, const char *what)
{
    return pare_fail(
        cx, PARE_EEXISTS,
        "%s: %s; only what pare wrote, as it wrote it, is replaced or removed: move it "
        "away, or choose another path",
        path, what);
}

static pare_status refuse_odd(pare_ctx *cx, const char *path, pare_output_kind kind,
                              const survey *v)
{
    char what[PARE_OURS_WHY];
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
    bool remains;             /* a missing file is none */
    char name[NAME_MAX + 1];  /* the lowest finding */
    char what[PARE_OURS_WHY]; /* and what is wrong with it */
    pare_arena *keep;         /* for all of them, or NULL */
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
    char why[PARE_OURS_WHY];
    bool ours;
    *gone = false;
    PARE_TRY(pare_ours_marked(cx, a, path, kind, &ours, why));
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

pare_status pare_ours_check(pare_ctx *cx, pare_arena *a, const char *path, pare_output_kind kind,
                            bool remains)
{
    const pare_mark m = pare_arena_mark(a);
    listener l = {.path = path, .remains = remains};
    bool gone;
    const pare_status s = kind == PARE_OUTPUT_FILE
                              ? check_mark(cx, a, path, kind, false, &gone)
                              : check_directory(cx, a, path, kind, remains, &l);
    pare_arena_rewind(a, m);
    return s;
}

static pare_status partial_directory(pare_ctx *cx, pare_arena *a, const char *path,
                                     pare_output_kind kind, pare_ours_state *out)
{
    pare_journal_kind journal;
    bool replaced;
    survey v;
    PARE_TRY(look_around(cx, path, kind, true, &v));
    if (v.entries == 0)
        return PARE_OK;
    PARE_TRY(pare_journal_look(cx, a, path, &journal, &replaced));
    if (journal == PARE_JOURNAL_FOREIGN)
        return refuse(cx, path, PARE_JOURNAL_NAME, "is no journal of pare");
    if (v.odd[0])
        return refuse_odd(cx, path, kind, &v);
    *out = journal == PARE_JOURNAL_NONE      ? PARE_OURS_REPLACED
           : journal == PARE_JOURNAL_DAMAGED ? PARE_OURS_LOST
                                             : PARE_OURS_UNFINISHED;
    if (journal != PARE_JOURNAL_NONE)
        return PARE_OK;
    char *const sums = pare_path_join(a, path, PARE_SUMS_NAME);
    if (!sums)
        return PARE_ENOMEM;
    return pare_path_is_file(sums)
               ? pare_ours_check(cx, a, path, kind, true)
               : refuse(cx, path, v.first, "lies beside no journal of an unfinished run");
}

static pare_status partial_file(pare_ctx *cx, pare_arena *a, const char *path, mode_t mode,
                                pare_ours_state *out)
{
    bool ours = false;
    if (S_ISREG(mode))
        PARE_TRY(read_head(cx, a, path, false, &ours));
    *out = ours ? PARE_OURS_REPLACED : PARE_OURS_UNFINISHED;
    if (S_ISREG(mode) && !ours)
        PARE_TRY(read_head(cx, a, path, true, &ours));
    return ours ? PARE_OK : refuse_whole(cx, path, "is no unfinished export of pare");
}

pare_status pare_ours_partial(pare_ctx *cx, pare_arena *a, const char *path, pare_output_kind kind,
                              pare_ours_state *out)
{
    const pare_mark m = pare_arena_mark(a);
    struct stat st;
    *out = PARE_OURS_NOTHING;
    if (lstat(path, &st) != 0)
        return PARE_OK;
    const bool file = kind == PARE_OUTPUT_FILE;
    const pare_status s = file                  ? partial_file(cx, a, path, st.st_mode, out)
                          : S_ISDIR(st.st_mode) ? partial_directory(cx, a, path, kind, out)
                                                : refuse_whole(cx, path, "is no directory");
    pare_arena_rewind(a, m);
    return s;
}

static pare_status mark_with(pare_ctx *cx, const char *path, const char *print)
{
    pare_journal *j;
    PARE_TRY(pare_journal_restart(cx, path, print, &j));
    pare_journal_close(cx, j);
    return PARE_OK;
}

pare_status pare_ours_mark_replaced(pare_ctx *cx, const char *path)
{
    return mark_with(cx, path, "{\"program\": \"pare " PARE_VERSION "\", \"replaced\": true}");
}

pare_status pare_ours_mark_unfinished(pare_ctx *cx, const char *path)
{
    return mark_with(cx, path, "{\"program\": \"pare " PARE_VERSION "\"}");
}

pare_status pare_ours_unmark(pare_ctx *cx, pare_arena *a, const char *path)
{
    pare_journal_kind kind;
    bool replaced;
    PARE_TRY(pare_journal_look(cx, a, path, &kind, &replaced));
    char *const journal = pare_path_join(a, path, PARE_JOURNAL_NAME);
    if (!journal)
        return PARE_ENOMEM;
    if (kind == PARE_JOURNAL_NONE || kind == PARE_JOURNAL_FOREIGN || unlink(journal) == 0)
        return PARE_OK;
    return pare_file_fail(cx, journal, "remove");
}

static bool is_found(const listener *l, const char *name)
{
    for (const struct finding *f = l->all; f; f = f->next)
        if (strcmp(f->name, name) == 0)
            return true;
    return false;
}

/* Removes what is not among the findings; the mark and SHA256SUMS go last. */
static pare_status remove_listed(pare_ctx *cx, const char *path, pare_output_kind kind,
                                 const listener *l)
{
    const char *const last[] = {mark_name(kind), PARE_SUMS_NAME};
    DIR *const d = opendir(path);
    int failed = 0;
    if (!d)
        return pare_file_fail(cx, path, "open the directory");
    for (struct dirent *e; (e = readdir(d));)
        if (gives(kind, e->d_name, false) && !is_found(l, e->d_name) &&
            strcmp(e->d_name, last[0]) != 0 && strcmp(e->d_name, last[1]) != 0)
            failed |= unlinkat(dirfd(d), e->d_name, 0);
    for (size_t i = 0; !failed && i < sizeof last / sizeof *last; i++)
        if (!is_found(l, last[i])) /* last on the disk, too: each waits for what came before */
            failed |=
                fsync(dirfd(d)) != 0 || (unlinkat(dirfd(d), last[i], 0) != 0 && errno != ENOENT);
    (void)closedir(d);
    return failed ? pare_file_fail(cx, path, "remove files of the replaced output") : PARE_OK;
}

static pare_status remove_directory(pare_ctx *cx, pare_arena *a, const char *path,
                                    pare_output_kind kind, listener *l)
{
    pare_inventory_result result;
    survey v;
    bool gone;
    PARE_TRY(look_around(cx, path, kind, true, &v));
    const bool bare = v.entries == 1 && strcmp(v.first, PARE_JOURNAL_NAME) == 0;
    if (!bare) {
        PARE_TRY(check_mark(cx, a, path, kind, true, &gone));
        PARE_TRY(pare_inventory_check(cx, a, path, hear, l, &result));
        if (l->no_memory)
            return PARE_ENOMEM;
        PARE_TRY(remove_listed(cx, path, kind, l));
    }
    PARE_TRY(pare_ours_unmark(cx, a, path));
    if (rmdir(path) == 0)
        return PARE_OK;
    const pare_status s = pare_file_fail(cx, path, "remove the directory");
    if (look_around(cx, path, kind, false, &v) != PARE_OK || v.entries == 0)
        return s;
    pare_ctx_clear(cx);
    return pare_fail(cx, PARE_EEXISTS, "%s: \"%.100s\" came there or changed meanwhile, and stays",
                     path, v.first);
}

static pare_status remove_file(pare_ctx *cx, pare_arena *a, const char *path)
{
    bool gone;
    PARE_TRY(check_mark(cx, a, path, PARE_OUTPUT_FILE, false, &gone));
    return unlink(path) == 0 ? PARE_OK : pare_file_fail(cx, path, "remove");
}

pare_status pare_ours_remove(pare_ctx *cx, pare_arena *a, const char *path, pare_output_kind kind)
{
    const pare_mark m = pare_arena_mark(a);
    pare_arena keep;
    listener l = {.path = path, .remains = true, .keep = &keep};
    PARE_TRY(pare_arena_init(cx, &keep, 0));
    const pare_status s = kind == PARE_OUTPUT_FILE ? remove_file(cx, a, path)
                                                   : remove_directory(cx, a, path, kind, &l);
    pare_arena_release(&keep);
    pare_arena_rewind(a, m);
    return s;
}

pare_status pare_ours_discard(pare_ctx *cx, const char *path, pare_output_kind kind,
                              pare_ours_part part)
{
    static const char doing[] = "remove what an earlier run left";
    if (kind == PARE_OUTPUT_FILE)
        return unlink(path) == 0 ? PARE_OK : pare_file_fail(cx, path, doing);
    DIR *const d = opendir(path);
    if (!d)
        return pare_file_fail(cx, path, "open the directory");
    int failed = 0;
    for (struct dirent *e; !failed && (e = readdir(d));)
        if (gives(kind, e->d_name, true) && strcmp(e->d_name, PARE_JOURNAL_NAME) != 0 &&
            (part != PARE_OURS_TEMPORARY || is_temporary(e->d_name)))
            failed = unlinkat(dirfd(d), e->d_name, 0);
    if (!failed && part == PARE_OURS_ALL) { /* what tells that it is ours goes last */
        failed = fsync(dirfd(d)) != 0 ||
                 (unlinkat(dirfd(d), PARE_JOURNAL_NAME, 0) != 0 && errno != ENOENT);
        failed = failed || rmdir(path) != 0;
    }
    const pare_status s = failed ? pare_file_fail(cx, path, doing) : PARE_OK;
    (void)closedir(d);
    return s;
}
