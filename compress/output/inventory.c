#include "compress/output/inventory.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compress/output/journal.h"
#include "formats/signature.h"
#include "runtime/file.h"

typedef struct entry {
    const char *name;
    bool regular;
} entry;

typedef struct folder {
    pare_ctx *cx;
    pare_arena *a;
    const char *path;
    entry *item;
    size_t count;
} folder;

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Counts the entries, or takes those that were counted. */
static pare_status walk(folder *f, size_t most)
{
    DIR *const d = opendir(f->path);
    if (!d)
        return pare_file_fail(f->cx, f->path, "list");
    pare_status s = PARE_OK;
    size_t count = 0;
    for (const struct dirent *e; s == PARE_OK && (e = readdir(d)); count++) {
        if (!f->item || count >= most)
            continue;
        char *const name = pare_arena_text(f->a, e->d_name, strlen(e->d_name));
        char *const path = name ? pare_path_join(f->a, f->path, name) : NULL;
        struct stat st;
        if (!path)
            s = PARE_ENOMEM;
        else if (!is_dots(name) && lstat(path, &st) != 0)
            s = pare_file_fail(f->cx, path, "look at");
        else if (!is_dots(name))
            f->item[f->count++] = (entry){name, S_ISREG(st.st_mode)};
    }
    (void)closedir(d);
    if (s == PARE_OK && !f->item)
        f->count = count;
    return s;
}

/* Everything in the directory, in no order. */
static pare_status list(folder *f)
{
    PARE_TRY(walk(f, 0));
    const size_t most = f->count;
    f->count = 0;
    f->item = PARE_NEW(f->a, entry, most);
    return f->item ? walk(f, most) : PARE_ENOMEM;
}

pare_status pare_inventory_digest(pare_ctx *cx, pare_arena *a, const char *directory,
                                  const char *const *name, size_t count, pare_file_digest *out)
{
    pare_file *const file = PARE_NEW(a, pare_file, count);
    char(*const hex)[PARE_SHA256_HEX] = pare_arena_take(a, count, sizeof *hex);
    pare_status s = file && hex ? PARE_OK : PARE_ENOMEM;
    size_t mapped = 0;
    while (s == PARE_OK && mapped < count) {
        char *const path = pare_path_join(a, directory, name[mapped]);
        s = path ? pare_file_map(cx, a, path, &file[mapped]) : PARE_ENOMEM;
        mapped += s == PARE_OK;
    }
    if (s == PARE_OK)
        s = pare_sha256_files(cx, file, count, hex);
    for (size_t i = 0; i < mapped; i++) {
        out[i].file = name[i];
        out[i].bytes = file[i].bytes;
        memcpy(out[i].sha256, hex[i], sizeof hex[i]);
        pare_file_unmap(&file[i]);
    }
    return s;
}

static const pare_file_digest *find_known(const pare_file_digest *known, size_t count,
                                          const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(known[i].file, name) == 0)
            return &known[i];
    return NULL;
}

/* The names that belong on the list, with the digests that are known; for the others the name goes
 * to `unknown`, and `place` says where its digest belongs. */
static pare_status choose(const folder *f, const pare_file_digest *known, size_t count,
                          pare_sums *sums, const char **unknown, size_t *place, size_t *unknowns)
{
    for (size_t i = 0; i < f->count; i++) {
        const char *const name = f->item[i].name;
        if (strcmp(name, PARE_SUMS_NAME) == 0 || strcmp(name, PARE_SIGNATURE_NAME) == 0 ||
            strcmp(name, PARE_JOURNAL_NAME) == 0 || strcmp(name, PARE_TRAINING_STATE) == 0)
            continue;
        if (!f->item[i].regular)
            return pare_fail(f->cx, PARE_EEXISTS, "%s/%s: is no regular file, and not of pare",
                             f->path, name);
        pare_sum *const s = &sums->item[sums->count];
        const pare_file_digest *const k = find_known(known, count, name);
        s->name = name;
        if (k) {
            memcpy(s->sha256, k->sha256, sizeof s->sha256);
        } else {
            place[*unknowns] = sums->count;
            unknown[(*unknowns)++] = name;
        }
        sums->count++;
    }
    return PARE_OK;
}

static pare_status write_list(folder *f, const pare_file_digest *known, size_t count)
{
    PARE_TRY(list(f));
    pare_sums sums = {PARE_NEW(f->a, pare_sum, f->count), 0};
    const char **const unknown = PARE_NEW(f->a, const char *, f->count);
    size_t *const place = PARE_NEW(f->a, size_t, f->count), unknowns = 0;
    pare_file_digest *const found = PARE_NEW(f->a, pare_file_digest, f->count);
    if (!sums.item || !unknown || !place || !found)
        return PARE_ENOMEM;
    PARE_TRY(choose(f, known, count, &sums, unknown, place, &unknowns));
    PARE_TRY(pare_inventory_digest(f->cx, f->a, f->path, unknown, unknowns, found));
    for (size_t i = 0; i < unknowns; i++)
        memcpy(sums.item[place[i]].sha256, found[i].sha256, sizeof found[i].sha256);
    char *text, *const path = pare_path_join(f->a, f->path, PARE_SUMS_NAME);
    size_t len;
    PARE_TRY(pare_sums_text(f->cx, f->a, &sums, &text, &len));
    return path ? pare_file_write(f->cx, path, text, len) : PARE_ENOMEM;
}

pare_status pare_inventory_write(pare_ctx *cx, pare_arena *a, const char *directory,
                                 const pare_file_digest *known, size_t count)
{
    const pare_mark mark = pare_arena_mark(a);
    folder f = {.cx = cx, .a = a, .path = directory};
    const pare_status s = write_list(&f, known, count);
    pare_arena_rewind(a, mark);
    return s;
}

/* Where findings go. */
typedef struct listener {
    pare_inventory_found *found;
    void *self;
    pare_inventory_result *out;
} listener;

static void tell(const listener *l, const char *name, const char *what)
{
    l->out->findings++;
    if (l->found)
        l->found(l->self, name, what);
}

static pare_status read_sums(folder *f, pare_sums *sums)
{
    char *const path = pare_path_join(f->a, f->path, PARE_SUMS_NAME), *text;
    size_t len;
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_file_read(f->cx, f->a, path, PARE_SUMS_CAP, &text, &len));
    return pare_sums_parse(f->cx, f->a, path, text, len, sums);
}

/* The files that are on the list and there, after telling of everything else. */
static pare_status match(folder *f, const pare_sums *sums, const listener *l, const char **name,
                         size_t *count)
{
    bool *const there = PARE_NEW(f->a, bool, sums->count);
    if (!there)
        return PARE_ENOMEM;
    for (size_t i = 0; i < f->count; i++) {
        const entry *const e = &f->item[i];
        const pare_sum *const s = pare_sums_find(sums, e->name);
        if (s)
            there[s - sums->item] = true;
        if (strcmp(e->name, PARE_SUMS_NAME) == 0 ||
            (strcmp(e->name, PARE_SIGNATURE_NAME) == 0 && e->regular))
            continue;
        if (!s)
            tell(l, e->name, "is not listed in " PARE_SUMS_NAME);
        else if (!e->regular)
            tell(l, e->name, "is no regular file");
        else
            name[(*count)++] = s->name;
    }
    for (size_t i = 0; i < sums->count; i++)
        if (!there[i])
            tell(l, sums->item[i].name, "is missing");
    return PARE_OK;
}

static pare_status check(folder *f, const listener *l)
{
    pare_sums sums;
    PARE_TRY(read_sums(f, &sums));
    PARE_TRY(list(f));
    const char **const name = PARE_NEW(f->a, const char *, f->count);
    pare_file_digest *const is = PARE_NEW(f->a, pare_file_digest, f->count);
    size_t count = 0;
    if (!name || !is)
        return PARE_ENOMEM;
    PARE_TRY(match(f, &sums, l, name, &count));
    PARE_TRY(pare_inventory_digest(f->cx, f->a, f->path, name, count, is));
    l->out->files = count + 1;
    for (size_t i = 0; i < count; i++) {
        l->out->bytes += is[i].bytes;
        if (strcmp(pare_sums_find(&sums, name[i])->sha256, is[i].sha256) != 0)
            tell(l, name[i], "differs from its SHA-256 in " PARE_SUMS_NAME);
    }
    return PARE_OK;
}

pare_status pare_inventory_check(pare_ctx *cx, pare_arena *a, const char *directory,
                                 pare_inventory_found *found, void *self,
                                 pare_inventory_result *out)
{
    const pare_mark mark = pare_arena_mark(a);
    folder f = {.cx = cx, .a = a, .path = directory};
    *out = (pare_inventory_result){0};
    const listener l = {found, self, out};
    const pare_status s = check(&f, &l);
    pare_arena_rewind(a, mark);
    return s;
}
