#include "calib/imatrix.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gguf.h"
#include "formats/little_endian.h"

enum { NAME_MOST = 512, ENTRIES_MOST = 1 << 20 };
static const char sums[] = ".in_sum2", counts[] = ".counts", weight[] = ".weight";

static float get_float(const unsigned char *p)
{
    const uint32_t bits = pare_le32(p);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static bool begins_as_gguf(const unsigned char *data, uint64_t bytes)
{
    return bytes >= 4 && memcmp(data, "GGUF", 4) == 0;
}

/* An older file has no mark: a number of entries, then a name that ends in ".weight". */
static bool begins_as_older(const unsigned char *data, uint64_t bytes)
{
    if (bytes < 8)
        return false;
    const uint32_t entries = pare_le32(data), len = pare_le32(data + 4);
    const size_t tail = sizeof weight - 1;
    return entries >= 1 && entries <= ENTRIES_MOST && len > tail && len <= NAME_MOST &&
           bytes - 8 >= len && memcmp(data + 8 + len - tail, weight, tail) == 0;
}

bool pare_imatrix_is_one(const char *path)
{
    unsigned char head[8 + NAME_MOST];
    if (!pare_path_is_file(path)) /* opening a pipe waits for a writer */
        return false;
    FILE *const f = fopen(path, "rb");
    if (!f)
        return false;
    const size_t len = fread(head, 1, sizeof head, f);
    (void)fclose(f);
    return begins_as_gguf(head, len) || begins_as_older(head, len);
}

static bool is_matrix(const pare_gguf *g)
{
    const char *type;
    size_t len;
    return pare_gguf_text(pare_gguf_find(g, "general.type"), &type, &len) && len == 7 &&
           memcmp(type, "imatrix", 7) == 0;
}

pare_status pare_imatrix_is_none_else(pare_ctx *cx, const char *path, bool *is)
{
    pare_arena a;
    pare_file file = {0};
    pare_gguf g;
    *is = false;
    if (!pare_imatrix_is_one(path))
        return PARE_OK;
    PARE_TRY(pare_arena_init(cx, &a, 0));
    pare_status s = pare_file_map(cx, &a, path, &file);
    if (s == PARE_OK && begins_as_gguf(file.data, file.bytes)) {
        s = pare_gguf_parse(cx, &a, path, file.data, file.bytes, &g);
        *is = s == PARE_OK && is_matrix(&g);
    } else {
        *is = s == PARE_OK;
    }
    pare_file_unmap(&file);
    pare_arena_release(&a);
    if (s == PARE_ENOMEM)
        return s;
    pare_ctx_clear(cx);
    return PARE_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pare_imatrix_entry *)a)->name, ((const pare_imatrix_entry *)b)->name);
}

static pare_status fault(const pare_imatrix *m, const char *what)
{
    return pare_fail(m->cx, PARE_EFORMAT, "%s: no importance matrix that pare reads: %s",
                     m->file.path, what);
}

/* --- GGUF --------------------------------------------------------------------------------------
 */

static bool ends_in(const char *name, const char *tail, size_t *len)
{
    const size_t all = strlen(name), behind = strlen(tail);
    *len = all > behind ? all - behind : 0;
    return *len && strcmp(name + *len, tail) == 0;
}

/* Columns of a matrix, or of several; 0 for what is none. */
static size_t columns_of(const pare_gguf_tensor *t)
{
    return t->rank ? (size_t)t->shape[t->rank - 1] : 0;
}

/* The counts of the sums in t, as many as matrices. */
static pare_status find_counts(const pare_imatrix *m, const pare_gguf *g, const pare_gguf_tensor *t,
                               size_t len, const pare_gguf_tensor **out)
{
    char name[NAME_MOST + sizeof counts];
    const size_t k = columns_of(t);
    if (t->type->dtype != PARE_F32 || !k || len > NAME_MOST)
        return pare_fail(m->cx, PARE_EFORMAT,
                         "%s: %s is no matrix of sums in F32, or its name has more than %d bytes",
                         m->file.path, t->name, NAME_MOST);
    (void)snprintf(name, sizeof name, "%.*s%s", (int)len, t->name, counts);
    const pare_gguf_tensor *const found = *out = pare_gguf_tensor_find(g, name);
    if (!found)
        return pare_fail(m->cx, PARE_EFORMAT, "%s: %s is there, but not %s, which belongs to it",
                         m->file.path, t->name, name);
    if (found->type->dtype != PARE_F32 || found->elements != t->elements / k)
        return pare_fail(m->cx, PARE_EFORMAT,
                         "%s: %s is not in F32, or not a count for each of %" PRIu64 " matrices",
                         m->file.path, name, t->elements / k);
    return PARE_OK;
}

/* A whole number of the head, from 1 to `most`. */
static pare_status read_head(const pare_imatrix *m, const pare_gguf *g, const char *key,
                             int64_t most, size_t *out)
{
    int64_t is;
    const pare_gguf_value *const v = pare_gguf_find(g, key);
    if (!pare_gguf_integer(v, 0, &is) || is < 1 || is > most)
        return pare_fail(m->cx, PARE_EFORMAT,
                         "%s: no importance matrix that pare reads: %s is %s; a whole number from "
                         "1 to %" PRId64 " is expected",
                         m->file.path, key, v ? "something else" : "missing", most);
    *out = (size_t)is;
    return PARE_OK;
}

static pare_status add_dataset(pare_arena *a, pare_imatrix *m, const char *text, size_t len)
{
    char *const own = pare_arena_text(a, text, len);
    if (!own)
        return PARE_ENOMEM;
    m->dataset[m->datasets++] = own;
    return PARE_OK;
}

static pare_status list_datasets(pare_arena *a, const pare_gguf *g, pare_imatrix *m)
{
    const pare_gguf_value *const v = pare_gguf_find(g, "imatrix.datasets");
    pare_gguf_texts it = {0};
    const char *text;
    size_t len;
    if (!v || v->kind != PARE_GGUF_TEXT)
        return PARE_OK;
    m->dataset = PARE_NEW(a, const char *, (size_t)v->count);
    if (!m->dataset)
        return PARE_ENOMEM;
    while (pare_gguf_next(v, &it, &text, &len))
        PARE_TRY(add_dataset(a, m, text, len));
    return PARE_OK;
}

static pare_status list_gguf(pare_arena *a, pare_imatrix *m)
{
    pare_gguf g;
    size_t len;
    PARE_TRY(pare_gguf_parse(m->cx, a, m->file.path, m->file.data, m->file.bytes, &g));
    if (!is_matrix(&g))
        return fault(m, "its general.type is not \"imatrix\"");
    PARE_TRY(read_head(m, &g, "imatrix.chunk_count", INT32_MAX, &m->chunks));
    PARE_TRY(read_head(m, &g, "imatrix.chunk_size", 1 << 24, &m->chunk));
    PARE_TRY(list_datasets(a, &g, m));
    m->entry = PARE_NEW(a, pare_imatrix_entry, g.tensors);
    if (!m->entry)
        return PARE_ENOMEM;
    for (size_t i = 0; i < g.tensors; i++) {
        const pare_gguf_tensor *const t = &g.tensor[i];
        if (!ends_in(t->name, sums, &len))
            continue;
        const pare_gguf_tensor *n;
        PARE_TRY(find_counts(m, &g, t, len, &n));
        char *const name = pare_arena_text(a, t->name, len);
        if (!name)
            return PARE_ENOMEM;
        m->entry[m->entries++] = (pare_imatrix_entry){.name = name,
                                                      .columns = columns_of(t),
                                                      .matrices = (size_t)n->elements,
                                                      .sum = t->data,
                                                      .counts = n->data};
    }
    return PARE_OK;
}

/* --- the older kind ----------------------------------------------------------------------------
 */

/* Bytes of the file, from the front on. */
typedef struct reader {
    const unsigned char *at;
    uint64_t left;
} reader;

static bool take(reader *r, uint64_t bytes, const unsigned char **at)
{
    if (bytes > r->left)
        return false;
    *at = r->at;
    r->at += bytes;
    r->left -= bytes;
    return true;
}

static bool take_number(reader *r, int32_t *out)
{
    const unsigned char *at;
    if (!take(r, 4, &at))
        return false;
    *out = (int32_t)pare_le32(at);
    return true;
}

static bool take_entry(reader *r, pare_arena *a, pare_imatrix_entry *e, bool *memory)
{
    int32_t len, k;
    const unsigned char *text;
    if (!take_number(r, &len) || len < 1 || len > NAME_MOST || !take(r, (uint64_t)len, &text) ||
        !take_number(r, &e->calls) || !take_number(r, &k) || k < 1 || e->calls < 0 ||
        !take(r, (uint64_t)k * 4, &e->sum))
        return false;
    e->columns = (size_t)k;
    e->matrices = 1;
    e->name = pare_arena_text(a, (const char *)text, (size_t)len);
    *memory = e->name != NULL;
    return *memory && strlen(e->name) == (size_t)len;
}

/* What may stand behind the entries: chunks, and the path of the text. */
static pare_status list_text(reader *r, pare_arena *a, pare_imatrix *m)
{
    int32_t chunks, len;
    const unsigned char *text;
    if (!take_number(r, &chunks) || !take_number(r, &len) || len < 1 ||
        !take(r, (uint64_t)len, &text))
        return PARE_OK;
    m->dataset = PARE_NEW(a, const char *, 1);
    return m->dataset ? add_dataset(a, m, (const char *)text, (size_t)len) : PARE_ENOMEM;
}

static pare_status list_older(pare_arena *a, pare_imatrix *m)
{
    reader r = {m->file.data, m->file.bytes};
    int32_t entries = 0, chunks = 0;
    bool memory = true;
    (void)take_number(&r, &entries);
    m->older = true;
    m->chunk = PARE_IMATRIX_CHUNK; /* the entries in front of a broken one are checked, too */
    m->entry = PARE_NEW(a, pare_imatrix_entry, (size_t)entries);
    if (!m->entry)
        return PARE_ENOMEM;
    for (; m->entries < (size_t)entries; m->entries++) {
        pare_imatrix_entry *const e = &m->entry[m->entries];
        if (take_entry(&r, a, e, &memory)) {
            chunks = e->calls > chunks ? e->calls : chunks;
            continue;
        }
        return memory ? pare_fail(m->cx, PARE_EFORMAT,
                                  "%s: entry %zu of %d goes past the end of the file, or has a "
                                  "length or a number of calls that cannot be",
                                  m->file.path, m->entries + 1, entries)
                      : PARE_ENOMEM;
    }
    m->chunks = (size_t)chunks;
    return chunks ? list_text(&r, a, m) : fault(m, "no entry has a call");
}

/* --- both --------------------------------------------------------------------------------------
 */

pare_status pare_imatrix_read(pare_ctx *cx, pare_arena *a, const pare_file *file, pare_imatrix *out)
{
    *out = (pare_imatrix){.cx = cx, .file = *file};
    if (begins_as_gguf(file->data, file->bytes))
        PARE_TRY(list_gguf(a, out));
    else if (begins_as_older(file->data, file->bytes))
        PARE_TRY(list_older(a, out));
    else
        return fault(out, "it begins as neither kind of file does");
    if (!out->entries)
        return fault(out, "it has no entry");
    qsort(out->entry, out->entries, sizeof *out->entry, by_name);
    for (size_t i = 1; i < out->entries; i++)
        if (by_name(&out->entry[i - 1], &out->entry[i]) == 0)
            return pare_fail(cx, PARE_EFORMAT, "%s: %s is there twice", file->path,
                             out->entry[i].name);
    return PARE_OK;
}

pare_status pare_imatrix_open(pare_ctx *cx, pare_arena *a, const char *path, pare_imatrix *out)
{
    pare_file file;
    *out = (pare_imatrix){.cx = cx};
    PARE_TRY(pare_file_map(cx, a, path, &file));
    return pare_imatrix_read(cx, a, &file, out);
}

void pare_imatrix_close(pare_imatrix *m)
{
    pare_file_unmap(&m->file);
}

pare_status pare_imatrix_find(const pare_imatrix *m, const char *model_type, const char *linear,
                              size_t k, const pare_imatrix_entry **out)
{
    char name[PARE_GGUF_NAME];
    if (!pare_gguf_name_of(model_type, linear, name))
        return pare_fail(m->cx, PARE_EFORMAT, "%s: GGUF files have no name for %s", m->file.path,
                         linear);
    const pare_imatrix_entry key = {.name = name};
    *out = bsearch(&key, m->entry, m->entries, sizeof key, by_name);
    if (!*out)
        return pare_fail(m->cx, PARE_EFORMAT, "%s: importance of %s (%s) is missing", m->file.path,
                         linear, name);
    if ((*out)->columns != k || (*out)->matrices != 1)
        return pare_fail(m->cx, PARE_EFORMAT,
                         "%s: importance of another model: %s has %zu columns of %zu, not %zu of 1",
                         m->file.path, name, (*out)->columns, (*out)->matrices, k);
    return PARE_OK;
}

/* Of an older file the mean square times the calls, of a chunk each. */
static float sum_of(const pare_imatrix *m, const pare_imatrix_entry *e, size_t j)
{
    return get_float(e->sum + 4 * j) * (e->counts ? 1 : (float)m->chunk);
}

float pare_imatrix_tokens(const pare_imatrix *m, const pare_imatrix_entry *e, size_t i)
{
    return e->counts ? get_float(e->counts + 4 * i) : (float)e->calls * (float)m->chunk;
}

static pare_status check_matrix(const pare_imatrix *m, const pare_imatrix_entry *e, size_t i)
{
    const float tokens = pare_imatrix_tokens(m, e, i);
    const bool unseen = e->matrices > 1 && tokens == 0; /* an expert that no token went to */
    bool some = false;
    if (!unseen && !(tokens >= 1 && tokens <= 0x1p53F))
        return pare_fail(m->cx, PARE_EFORMAT, "%s: %s has a count of %g tokens", m->file.path,
                         e->name, (double)tokens);
    for (size_t j = i * e->columns; j < (i + 1) * e->columns; j++) {
        const float sum = sum_of(m, e, j);
        if (!(sum >= 0 && isfinite(sum)))
            return pare_fail(m->cx, PARE_EFORMAT, "%s: %s: element %zu is negative or not finite",
                             m->file.path, e->name, j);
        some |= sum > 0;
    }
    if (some == unseen)
        return pare_fail(m->cx, PARE_EFORMAT,
                         unseen ? "%s: %s: an expert without a token has sums"
                                : "%s: %s: all sums of squares are 0",
                         m->file.path, e->name);
    return PARE_OK;
}

pare_status pare_imatrix_check(const pare_imatrix *m, const pare_imatrix_entry *e)
{
    for (size_t i = 0; i < e->matrices; i++)
        PARE_TRY(check_matrix(m, e, i));
    return PARE_OK;
}

pare_status pare_imatrix_fill(const pare_imatrix *m, const pare_imatrix_entry *e,
                              pare_site_stats *s)
{
    PARE_TRY(pare_imatrix_check(m, e));
    memset(s->h, 0, s->k * s->k * sizeof *s->h);
    for (size_t j = 0; j < s->k; j++)
        s->h[j * (s->k + 1)] = sum_of(m, e, j);
    s->tokens = (uint64_t)pare_imatrix_tokens(m, e, 0);
    s->fourth = NULL;
    return PARE_OK;
}
