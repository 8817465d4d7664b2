/* A model in several GGUF files, NAME-00001-of-00003.gguf and so on. Each has its number from 0 on
 * (split.no), that of the files (split.count) and of the tensors of all (split.tensors.count); the
 * other values stand in the first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gguf_internal.h"

enum { DIGITS = 5, ENDING = sizeof "-00001-of-00003.gguf" - 1 };

/* What a name says: of which part, from 1 on; stem: bytes in front of its number. */
typedef struct numbers {
    unsigned no, count;
    size_t stem;
} numbers;

static bool read_digits(const char *text, unsigned *out)
{
    *out = 0;
    for (size_t i = 0; i < DIGITS; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *out = *out * 10 + (unsigned)(text[i] - '0');
    }
    return true;
}

static bool read_numbers(const char *name, numbers *out)
{
    const size_t len = strlen(name);
    if (len < ENDING)
        return false;
    out->stem = len - ENDING;
    const char *const end = name + out->stem;
    return end[0] == '-' && read_digits(end + 1, &out->no) && memcmp(end + 6, "-of-", 4) == 0 &&
           read_digits(end + 10, &out->count) && strcmp(end + 15, ".gguf") == 0 && out->no >= 1 &&
           out->no <= out->count;
}

bool pare__gguf_is_part(const char *name)
{
    numbers n;
    return read_numbers(name, &n) && n.count > 1;
}

bool pare__gguf_together(const char *a, const char *b)
{
    numbers x, y;
    return read_numbers(a, &x) && read_numbers(b, &y) && x.count == y.count && x.count > 1 &&
           x.stem == y.stem && memcmp(a, b, x.stem) == 0;
}

/* The names of all parts; each is there. */
static pare_status find_parts(const pare_checkpoint *ck, pare_arena *a, const char *name,
                              const numbers *n, const char **part)
{
    for (unsigned i = 0; i < n->count; i++) {
        char ending[ENDING + 1];
        (void)snprintf(ending, sizeof ending, "-%05u-of-%05u.gguf", (i + 1) % 100000u,
                       n->count % 100000u);
        char *const text = pare_arena_text(a, name, strlen(name));
        char *const path = text ? pare_path_join(a, ck->directory, text) : NULL;
        pare_path_kind is;
        if (!path)
            return PARE_ENOMEM;
        memcpy(text + n->stem, ending, ENDING);
        memcpy(path + strlen(path) - ENDING, ending, ENDING);
        PARE_TRY(pare_path_look(ck->cx, path, &is));
        if (is != PARE_PATH_FILE)
            return pare_fail(ck->cx, PARE_EFORMAT,
                             "%s: missing: it is part %u of %u of the model; put all parts into "
                             "one directory",
                             path, i + 1, n->count);
        part[i] = text;
    }
    return PARE_OK;
}

/* A tensor and the part it is in. */
typedef struct held {
    const char *tensor;
    unsigned part;
} held;

static int by_tensor(const void *a, const void *b)
{
    const held *const x = a, *const y = b;
    const int order = strcmp(x->tensor, y->tensor);
    return order != 0 ? order : (x->part > y->part) - (x->part < y->part);
}

/* Whether a file is the part that its name says; `total`: tensors that all must have. */
static pare_status check_part(pare_ctx *cx, const char *path, const pare_gguf *g, unsigned i,
                              unsigned count, int64_t *total)
{
    int64_t no = -1, of = -1, tensors = -1;
    (void)pare_gguf_integer(pare_gguf_find(g, "split.no"), 0, &no);
    (void)pare_gguf_integer(pare_gguf_find(g, "split.count"), 0, &of);
    (void)pare_gguf_integer(pare_gguf_find(g, "split.tensors.count"), 0, &tensors);
    if (no != (int64_t)i || of != (int64_t)count)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: its name says part %u of %u, but split.no is %lld and split.count "
                         "%lld (%u and %u are right): a renamed or mixed part; download it again",
                         path, i + 1, count, (long long)no, (long long)of, i, count);
    if (i > 0 && tensors != *total)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: split.tensors.count is %lld, in the first part %lld: parts of two "
                         "models; download them again",
                         path, (long long)tensors, (long long)*total);
    *total = tensors;
    return PARE_OK;
}

static pare_status check_tensors(pare_ctx *cx, pare_arena *a, const char *const *part,
                                 const pare_gguf *g, unsigned count, int64_t total)
{
    size_t tensors = 0, at = 0;
    for (unsigned i = 0; i < count; i++)
        tensors += g[i].tensors;
    held *const all = PARE_NEW(a, held, tensors);
    if (!all)
        return PARE_ENOMEM;
    for (unsigned i = 0; i < count; i++)
        for (size_t j = 0; j < g[i].tensors; j++)
            all[at++] = (held){g[i].tensor[j].name, i};
    if (tensors > 1)
        qsort(all, tensors, sizeof *all, by_tensor);
    for (size_t i = 1; i < tensors; i++)
        if (strcmp(all[i - 1].tensor, all[i].tensor) == 0)
            return pare_fail(cx, PARE_EFORMAT, "%s: tensor %s is in part %s, too",
                             part[all[i].part], all[i].tensor, part[all[i - 1].part]);
    if (total < 0 || (uint64_t)total != tensors)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: split.tensors.count is %lld, but its %u parts have %zu tensors: "
                         "parts of two models; download them again",
                         part[0], (long long)total, count, tensors);
    return PARE_OK;
}

static pare_status check_parts(const pare_checkpoint *ck, pare_arena *a, const char *const *part,
                               unsigned count)
{
    pare_file *const file = PARE_NEW(a, pare_file, count);
    pare_gguf *const g = PARE_NEW(a, pare_gguf, count);
    unsigned mapped = 0;
    int64_t total = -1;
    pare_status s = file && g ? PARE_OK : PARE_ENOMEM;
    for (unsigned i = 0; s == PARE_OK && i < count; i++) {
        char *const path = pare_path_join(a, ck->directory, part[i]);
        s = path ? pare_file_map(ck->cx, a, path, &file[i]) : PARE_ENOMEM;
        mapped += s == PARE_OK;
        if (s == PARE_OK)
            s = pare_gguf_parse(ck->cx, a, path, file[i].data, file[i].bytes, &g[i]);
        if (s == PARE_OK)
            s = check_part(ck->cx, path, &g[i], i, count, &total);
    }
    if (s == PARE_OK)
        s = check_tensors(ck->cx, a, part, g, count, total);
    for (unsigned i = 0; i < mapped; i++)
        pare_file_unmap(&file[i]);
    return s;
}

pare_status pare__gguf_parts(const pare_checkpoint *ck, pare_arena *a, const char *name,
                             const char *const **out, size_t *count)
{
    numbers n;
    if (!read_numbers(name, &n) || n.count == 1)
        return PARE_OK;
    const char **const part = PARE_NEW(a, const char *, n.count);
    pare_arena scratch;
    if (!part)
        return PARE_ENOMEM;
    PARE_TRY(find_parts(ck, a, name, &n, part));
    pare_status s = pare_arena_init(ck->cx, &scratch, 0);
    if (s == PARE_OK)
        s = check_parts(ck, &scratch, part, n.count);
    pare_arena_release(&scratch);
    *out = part;
    *count = n.count;
    return s;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pare_gguf_tensor *)a)->name, ((const pare_gguf_tensor *)b)->name);
}

pare_status pare__gguf_heads(pare_ctx *cx, pare_arena *a, const pare_file *file, size_t files,
                             const pare_gguf **out)
{
    size_t tensors = 0, at = 0;
    pare_gguf *const g = PARE_NEW(a, pare_gguf, files + 1);
    if (!g)
        return PARE_ENOMEM;
    for (size_t i = 0; i < files; i++) {
        PARE_TRY(pare_gguf_parse(cx, a, file[i].path, file[i].data, file[i].bytes, &g[i]));
        tensors += g[i].tensors;
    }
    pare_gguf_tensor *const all = PARE_NEW(a, pare_gguf_tensor, tensors);
    if (!all)
        return PARE_ENOMEM;
    for (size_t i = 0; i < files; i++)
        for (size_t j = 0; j < g[i].tensors; j++)
            all[at++] = g[i].tensor[j];
    if (tensors > 1)
        qsort(all, tensors, sizeof *all, by_name);
    g[files] = g[0];
    g[files].tensor = all;
    g[files].tensors = tensors;
    *out = g;
    return PARE_OK;
}
