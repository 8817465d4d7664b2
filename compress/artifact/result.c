/* The journal's form of what a unit left, little-endian:
 *
 *   u32 magic "PR04" | u32 rows | u32 kept | rows | kept tensors
 *   text  u16 length, bytes             double  its 64 bits
 *
 * and behind that, each only when there is some: what statistics of the rows rest on, u32 magic
 * "SUP2" | one item per row; how much of the calibration reached experts, u32 magic "EXP1" | one
 * item per row; groups too small for their storage, u32 magic "CRS1" | one item per row; what went
 * of a block, u32 magic "CUT1" | u32 cuts | cuts; what training did, u32 magic "TRN3" | 16 B
 * hash of its settings | its figures | u32 points | points.
 *
 * Bounds come before reads and allocations: a count is believed only as far as the bytes that are
 * left can hold that many of the smallest item. */
#include <math.h>
#include <string.h>

#include "compress/artifact/manifest.h"

enum {
    MAGIC = 0x34305250, /* "PR04" */
    TEXT_MAX = 65535,
    FLAG_SYMMETRIC = 1,
    FLAG_F64 = 2,
    FLAG_FALLBACK = 4,
    FLAG_OUTLIERS_INT8 = 8,
    FLAG_ROTATED = 16,
    FLAG_BIAS = 32,
    FLAG_PRUNED = 64,
    FLAGS = 127,
    HASH = 16,
    MOST_BITS = 16,
    /* both names empty, no planes, no steps */
    ROW_MIN = 2 + 2 + 4 * 8 + 1 + 1 + 3 + 2 * 8 + 1 + 8 + 8 + 4 + 7 * 8 + 4 + 1,
    KEPT_MIN = 2 + HASH,
    CUTS = 0x31545543,    /* "CUT1" */
    EXPERTS = 0x31505845, /* "EXP1" */
    SUPPORT = 0x32505553, /* "SUP2" */
    COARSE = 0x31535243,  /* "CRS1" */
    KNOWN = 1,
    THIN = 2,
    CUT_BYTES = 4 + 1 + 2 * 8 + 2 * 8,
    TRAINING = 0x334e5254, /* "TRN3" */
    POINT_BYTES = 4 * 8
};

const char *pare_repair_text(pare_nan_policy nan)
{
    return nan == PARE_NAN_CLAMP ? "the largest finite number (NaN: 0)" : "0";
}

/* Counts only, while `to` is NULL. */
typedef struct sink {
    unsigned char *to;
    size_t used;
} sink;

static void put(sink *s, uint64_t v, size_t bytes)
{
    for (size_t i = 0; s->to && i < bytes; i++)
        s->to[s->used + i] = (unsigned char)(v >> 8 * i);
    s->used += bytes;
}

static void put_bytes(sink *s, const void *bytes, size_t len)
{
    if (s->to)
        memcpy(s->to + s->used, bytes, len);
    s->used += len;
}

static void put_text(sink *s, const char *text)
{
    const size_t len = strlen(text);
    put(s, len, 2);
    put_bytes(s, text, len);
}

static void put_double(sink *s, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put(s, bits, sizeof bits);
}

static unsigned flags_of(const pare_linear_result *r)
{
    const pare_packed_linear *const l = &r->linear;
    return (l->symmetric ? FLAG_SYMMETRIC : 0u) | (r->f64 ? FLAG_F64 : 0u) |
           (r->fallback ? FLAG_FALLBACK : 0u) | (l->outliers_int8 ? FLAG_OUTLIERS_INT8 : 0u) |
           (l->rotated ? FLAG_ROTATED : 0u) | (l->bias ? FLAG_BIAS : 0u) |
           (r->pruned ? FLAG_PRUNED : 0u);
}

static void put_linear(sink *s, const pare_linear_result *r)
{
    const pare_packed_linear *const l = &r->linear;
    put_text(s, l->name);
    put_text(s, r->method);
    put(s, l->n, 8);
    put(s, l->k, 8);
    put(s, l->group, 8);
    put(s, r->block, 8);
    put(s, l->bits, 1);
    put(s, flags_of(r), 1);
    put(s, (uint64_t)l->encoding, 1);
    put(s, (uint64_t)l->activation.mode, 1);
    put(s, l->activation.bits, 1);
    put(s, l->outliers, 8);
    put(s, l->sparse, 8);
    put(s, (uint64_t)l->sparsity, 1);
    put(s, l->kept, 8);
}

/* Bit p: the linear has plane p. */
static unsigned planes_of(const pare_packed_linear *l)
{
    unsigned planes = 0;
    pare_tensor t;
    for (pare_plane p = 0; p < PARE_PLANES; p++)
        planes |= pare_packed_plane_shape(l, p, &t) ? 1u << p : 0;
    return planes;
}

static void put_row(sink *s, const pare_linear_result *r)
{
    put_linear(s, r);
    put(s, r->dead, 8);
    put(s, r->raises, 4);
    put_double(s, r->weight_error);
    put_double(s, r->output_error);
    put_double(s, r->damp);
    put_double(s, r->zeros);
    put_double(s, r->stability);
    put_double(s, r->bits_per_weight);
    put_double(s, r->seconds);
    const unsigned planes = planes_of(&r->linear);
    put(s, planes, 4);
    for (unsigned p = 0; p < PARE_PLANES; p++)
        if (planes >> p & 1)
            put_bytes(s, r->hash[p], HASH);
    put(s, r->steps, 1);
    for (size_t i = 0; i < r->steps; i++) {
        put(s, r->step[i].step, 4);
        put_text(s, r->step[i].pass);
        put_double(s, r->step[i].output_error);
        put_double(s, r->step[i].weight_error);
        put_text(s, r->step[i].note);
    }
}

static void put_cuts(sink *s, const pare_unit_result *u)
{
    put(s, CUTS, 4);
    put(s, u->cuts, 4);
    for (size_t i = 0; i < u->cuts; i++) {
        const pare_cut_result *const c = &u->cut[i];
        put(s, c->step, 4);
        put(s, c->part, 1);
        put(s, c->before, 8);
        put(s, c->after, 8);
        put_double(s, c->lost);
        put_double(s, c->output_error);
    }
}

/* What statistics of each row rest on, where some has them. */
static void put_support(sink *s, const pare_unit_result *u)
{
    bool any = false;
    for (size_t i = 0; i < u->rows; i++)
        any |= u->row[i].support.known || u->row[i].support.loudest > 0 || u->row[i].thin;
    if (!any)
        return;
    put(s, SUPPORT, 4);
    for (size_t i = 0; i < u->rows; i++) {
        const pare_support *const h = &u->row[i].support;
        put(s, (h->known ? KNOWN : 0u) | (u->row[i].thin ? THIN : 0u), 1);
        put(s, h->tokens, 8);
        put(s, h->columns, 8);
        put(s, h->rank, 8);
        put_double(s, h->effective);
        put_double(s, h->effective_rank);
        put_double(s, h->loudest);
    }
}

/* How much calibration each row saw, where some are of experts. */
static void put_experts(sink *s, const pare_unit_result *u)
{
    bool any = false;
    for (size_t i = 0; i < u->rows; i++)
        any |= u->row[i].part > 0;
    if (!any)
        return;
    put(s, EXPERTS, 4);
    for (size_t i = 0; i < u->rows; i++) {
        put(s, u->row[i].part, 8);
        put(s, (uint64_t)(u->row[i].tokens + 1), 8);
        put(s, (uint64_t)u->row[i].cold, 1);
    }
}

/* Groups of each row that are too small for their storage, where some has them. */
static void put_coarse(sink *s, const pare_unit_result *u)
{
    bool any = false;
    for (size_t i = 0; i < u->rows; i++)
        any |= u->row[i].coarse || u->row[i].lost;
    if (!any)
        return;
    put(s, COARSE, 4);
    for (size_t i = 0; i < u->rows; i++) {
        put(s, u->row[i].coarse, 8);
        put(s, u->row[i].lost, 8);
    }
}

static void put_training(sink *s, const pare_training_result *t)
{
    put(s, TRAINING, 4);
    put_bytes(s, t->asked, sizeof t->asked);
    put(s, t->steps, 8);
    put(s, t->tokens, 8);
    put_double(s, t->seconds);
    put_double(s, t->kl_before);
    put_double(s, t->kl_after);
    put_double(s, t->nll_before);
    put_double(s, t->nll_after);
    put(s, t->points, 4);
    for (size_t i = 0; i < t->points; i++) {
        put(s, t->point[i].step, 8);
        put_double(s, t->point[i].loss);
        put_double(s, t->point[i].norm);
        put_double(s, t->point[i].rate);
    }
}

static void put_unit(sink *s, const pare_unit_result *u)
{
    put(s, MAGIC, 4);
    put(s, u->rows, 4);
    put(s, u->kept_count, 4);
    for (size_t i = 0; i < u->rows; i++)
        put_row(s, &u->row[i]);
    for (size_t i = 0; i < u->kept_count; i++) {
        put_text(s, u->kept[i].name);
        put_bytes(s, u->kept[i].hash, sizeof u->kept[i].hash);
    }
    put_support(s, u);
    put_experts(s, u);
    put_coarse(s, u);
    if (u->cuts)
        put_cuts(s, u);
    if (u->training)
        put_training(s, u->training);
}

pare_status pare_result_encode(pare_ctx *cx, pare_arena *a, const pare_unit_result *u,
                               unsigned char **bytes, size_t *len)
{
    bool fits = u->rows <= UINT32_MAX && u->kept_count <= UINT32_MAX && u->cuts <= UINT32_MAX;
    for (size_t i = 0; fits && i < u->rows; i++)
        fits = strlen(u->row[i].linear.name) <= TEXT_MAX && strlen(u->row[i].method) <= TEXT_MAX &&
               u->row[i].steps <= PARE_STEPS_MAX;
    for (size_t i = 0; fits && i < u->kept_count; i++)
        fits = strlen(u->kept[i].name) <= TEXT_MAX;
    if (!fits)
        return pare_fail(cx, PARE_EINVAL, "the name of a tensor is longer than %d bytes", TEXT_MAX);
    sink s = {0};
    put_unit(&s, u);
    *len = s.used;
    *bytes = PARE_NEW(a, unsigned char, s.used);
    if (!*bytes)
        return PARE_ENOMEM;
    s = (sink){.to = *bytes};
    put_unit(&s, u);
    return PARE_OK;
}

/* Reads behind the end give 0 and set `bad`, which stays. */
typedef struct source {
    pare_arena *a;
    const unsigned char *from;
    size_t at, len;
    const char *bad; /* first thing that was wrong */
    bool no_memory;
} source;

static const unsigned char *get_bytes(source *s, size_t bytes)
{
    if (!s->bad && bytes > s->len - s->at)
        s->bad = "ends too early";
    if (s->bad)
        return NULL;
    s->at += bytes;
    return s->from + s->at - bytes;
}

static uint64_t get(source *s, size_t bytes)
{
    const unsigned char *const p = get_bytes(s, bytes);
    uint64_t v = 0;
    for (size_t i = 0; p && i < bytes; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static char *get_text(source *s)
{
    const size_t len = (size_t)get(s, 2);
    const unsigned char *const p = get_bytes(s, len);
    if (!p)
        return NULL;
    if (memchr(p, 0, len))
        s->bad = "a NUL in a name";
    char *const text = pare_arena_text(s->a, (const char *)p, len);
    s->no_memory |= !text;
    return text;
}

static double get_double(source *s)
{
    const uint64_t bits = get(s, 8);
    double v;
    memcpy(&v, &bits, sizeof v);
    if (!s->bad && !isfinite(v))
        s->bad = "a number that is not finite";
    return v;
}

static void get_flags(source *s, pare_linear_result *r)
{
    const unsigned flags = (unsigned)get(s, 1);
    if (!s->bad && flags > FLAGS)
        s->bad = "unknown flags";
    r->linear.symmetric = flags & FLAG_SYMMETRIC;
    r->f64 = flags & FLAG_F64;
    r->fallback = flags & FLAG_FALLBACK;
    r->linear.outliers_int8 = flags & FLAG_OUTLIERS_INT8;
    r->linear.rotated = flags & FLAG_ROTATED;
    r->linear.bias = flags & FLAG_BIAS;
    r->pruned = flags & FLAG_PRUNED;
}

static void get_linear(source *s, pare_linear_result *r)
{
    pare_packed_linear *const l = &r->linear;
    l->name = get_text(s);
    r->method = get_text(s);
    l->n = (size_t)get(s, 8);
    l->k = (size_t)get(s, 8);
    l->group = (size_t)get(s, 8);
    r->block = (size_t)get(s, 8);
    l->bits = (unsigned)get(s, 1);
    get_flags(s, r);
    const unsigned encoding = (unsigned)get(s, 1), mode = (unsigned)get(s, 1);
    if (!s->bad &&
        (encoding >= PARE_ENCODINGS || mode > PARE_ACTIVATION_FLOAT || l->bits > MOST_BITS))
        s->bad = "an unknown encoding";
    l->encoding = (pare_encoding)encoding;
    l->activation.mode = (pare_activation_mode)mode;
    l->activation.bits = (unsigned)get(s, 1);
    l->outliers = (size_t)get(s, 8);
    l->sparse = (size_t)get(s, 8);
    const unsigned sparsity = (unsigned)get(s, 1);
    if (!s->bad && sparsity > PARE_SPARSITY_BITMASK)
        s->bad = "an unknown way to store zeros";
    l->sparsity = (pare_sparsity_store)sparsity;
    l->kept = get(s, 8);
}

static void get_hashes(source *s, pare_linear_result *r)
{
    const unsigned planes = (unsigned)get(s, 4);
    if (!s->bad && planes != planes_of(&r->linear))
        s->bad = "other planes than such a linear has";
    for (unsigned p = 0; p < PARE_PLANES; p++) {
        const unsigned char *const hash = !s->bad && planes >> p & 1 ? get_bytes(s, HASH) : NULL;
        if (hash)
            memcpy(r->hash[p], hash, HASH);
    }
}

static void get_note(source *s, char note[PARE_NOTE])
{
    const size_t len = (size_t)get(s, 2);
    const unsigned char *const p = get_bytes(s, len);
    if (p && (len >= PARE_NOTE || memchr(p, 0, len)))
        s->bad = "a note that is too long or has a NUL";
    if (p && !s->bad)
        memcpy(note, p, len);
}

static void get_steps(source *s, pare_linear_result *r)
{
    r->steps = (size_t)get(s, 1);
    if (!s->bad && r->steps > PARE_STEPS_MAX)
        s->bad = "too many steps";
    for (size_t i = 0; !s->bad && i < r->steps; i++) {
        pare_step_result *const step = &r->step[i];
        step->step = (unsigned)get(s, 4);
        step->pass = get_text(s);
        step->output_error = get_double(s);
        step->weight_error = get_double(s);
        get_note(s, step->note);
    }
}

static void get_row(source *s, pare_linear_result *r)
{
    get_linear(s, r);
    r->dead = (size_t)get(s, 8);
    r->raises = (unsigned)get(s, 4);
    r->weight_error = get_double(s);
    r->output_error = get_double(s);
    r->damp = get_double(s);
    r->zeros = get_double(s);
    r->stability = get_double(s);
    r->bits_per_weight = get_double(s);
    r->seconds = get_double(s);
    get_hashes(s, r);
    get_steps(s, r);
    r->tokens = -1;
}

static size_t get_count(source *s, size_t item_min)
{
    const uint64_t count = get(s, 4);
    if (!s->bad && count > (s->len - s->at) / item_min)
        s->bad = "more items than bytes";
    return s->bad ? 0 : (size_t)count;
}

static bool has_mark(const source *s, uint64_t mark)
{
    source ahead = *s;
    return !s->bad && s->at < s->len && get(&ahead, 4) == mark;
}

static void get_support(source *s, pare_unit_result *out)
{
    bool any = false;
    (void)get(s, 4);
    for (size_t i = 0; !s->bad && i < out->rows; i++) {
        pare_support *const h = &out->row[i].support;
        const unsigned flags = (unsigned)get(s, 1);
        h->known = flags & KNOWN;
        h->tokens = get(s, 8);
        h->columns = (size_t)get(s, 8);
        h->rank = (size_t)get(s, 8);
        h->effective = get_double(s);
        h->effective_rank = get_double(s);
        h->loudest = get_double(s);
        out->row[i].thin = flags & THIN;
        if (!s->bad &&
            (flags > (KNOWN | THIN) || h->columns > out->row[i].linear.k || h->rank > h->columns ||
             h->rank > h->tokens || !(h->effective >= 0 && h->effective <= (double)h->tokens) ||
             !(h->effective_rank >= 0 && h->effective_rank <= (double)h->columns) ||
             !(h->loudest >= 0 && h->loudest <= 1)))
            s->bad = "a rank that no calibration gives";
        any |= flags != 0 || h->loudest > 0;
    }
    if (!s->bad && !any)
        s->bad = "a mark of ranks, and none of them";
}

static void get_experts(source *s, pare_unit_result *out)
{
    bool any = false;
    (void)get(s, 4);
    for (size_t i = 0; !s->bad && i < out->rows; i++) {
        pare_linear_result *const r = &out->row[i];
        r->part = (size_t)get(s, 8);
        const uint64_t tokens = get(s, 8), cold = get(s, 1);
        if (!s->bad && (tokens > INT64_MAX || cold > PARE_COLD_RTN))
            s->bad = "more tokens than there can be, or an unknown way with too few";
        r->tokens = s->bad ? -1 : (int64_t)tokens - 1;
        r->cold = s->bad ? PARE_COLD_NOT : (pare_cold_policy)cold;
        any |= r->part > 0;
    }
    if (!s->bad && !any)
        s->bad = "a mark of experts, and none of them";
}

/* Whether a linear has fewer weights, to the next whole row. */
static bool is_beyond(const pare_linear_result *r, uint64_t count)
{
    return r->linear.k ? count / r->linear.k > r->linear.n : count > 0;
}

static void get_coarse(source *s, pare_unit_result *out)
{
    bool any = false;
    (void)get(s, 4);
    for (size_t i = 0; !s->bad && i < out->rows; i++) {
        pare_linear_result *const r = &out->row[i];
        r->coarse = (size_t)get(s, 8);
        r->lost = get(s, 8);
        if (!s->bad && (is_beyond(r, r->coarse) || is_beyond(r, r->lost)))
            s->bad = "more small groups than the linear has weights";
        any |= r->coarse || r->lost;
    }
    if (!s->bad && !any)
        s->bad = "a mark of small groups, and none of them";
}

static void get_cuts(source *s, pare_unit_result *out)
{
    (void)get(s, 4);
    out->cuts = get_count(s, CUT_BYTES);
    if (!s->bad && out->cuts == 0)
        s->bad = "a mark of parts that went, and none of them";
    out->cut = PARE_NEW(s->a, pare_cut_result, out->cuts);
    s->no_memory |= !out->cut;
    for (size_t i = 0; !s->no_memory && !s->bad && i < out->cuts; i++) {
        pare_cut_result *const c = &out->cut[i];
        c->step = (unsigned)get(s, 4);
        const uint64_t part = get(s, 1);
        c->before = (size_t)get(s, 8);
        c->after = (size_t)get(s, 8);
        c->lost = get_double(s);
        c->output_error = get_double(s);
        if (!s->bad && (part >= PARE_PARTS || c->after > c->before))
            s->bad = "a part that blocks do not have";
        c->part = (pare_part)part;
    }
}

static void get_training(source *s, pare_unit_result *out)
{
    pare_training_result *const t = PARE_NEW(s->a, pare_training_result, 1);
    (void)get(s, 4);
    const unsigned char *const asked = get_bytes(s, sizeof t->asked);
    out->training = t;
    s->no_memory |= !t;
    if (!t || !asked)
        return;
    memcpy(t->asked, asked, sizeof t->asked);
    t->steps = (size_t)get(s, 8);
    t->tokens = get(s, 8);
    t->seconds = get_double(s);
    t->kl_before = get_double(s);
    t->kl_after = get_double(s);
    t->nll_before = get_double(s);
    t->nll_after = get_double(s);
    t->points = get_count(s, POINT_BYTES);
    if (!s->bad && (t->points > PARE_TRAINING_POINTS || t->points > t->steps))
        s->bad = "more points of a curve than it has";
    for (size_t i = 0; !s->bad && i < t->points; i++) {
        t->point[i].step = (size_t)get(s, 8);
        t->point[i].loss = get_double(s);
        t->point[i].norm = get_double(s);
        t->point[i].rate = get_double(s);
    }
}

static void get_unit(source *s, pare_unit_result *out)
{
    if (get(s, 4) != MAGIC && !s->bad)
        s->bad = "another version";
    out->rows = get_count(s, ROW_MIN);
    out->kept_count = get_count(s, KEPT_MIN);
    out->row = PARE_NEW(s->a, pare_linear_result, out->rows);
    out->kept = PARE_NEW(s->a, pare_kept_hash, out->kept_count);
    s->no_memory |= !out->row || !out->kept;
    for (size_t i = 0; !s->no_memory && !s->bad && i < out->rows; i++)
        get_row(s, &out->row[i]);
    for (size_t i = 0; !s->no_memory && !s->bad && i < out->kept_count; i++) {
        out->kept[i].name = get_text(s);
        const unsigned char *const hash = get_bytes(s, sizeof out->kept[i].hash);
        if (hash)
            memcpy(out->kept[i].hash, hash, sizeof out->kept[i].hash);
    }
    if (!s->no_memory && has_mark(s, SUPPORT))
        get_support(s, out);
    if (!s->no_memory && has_mark(s, EXPERTS))
        get_experts(s, out);
    if (!s->no_memory && has_mark(s, COARSE))
        get_coarse(s, out);
    if (!s->no_memory && has_mark(s, CUTS))
        get_cuts(s, out);
    if (!s->no_memory && has_mark(s, TRAINING))
        get_training(s, out);
}

pare_status pare_result_decode(pare_ctx *cx, pare_arena *a, const unsigned char *bytes, size_t len,
                               pare_unit_result *out)
{
    *out = (pare_unit_result){0};
    source s = {.a = a, .from = bytes, .len = len};
    get_unit(&s, out);
    if (s.no_memory)
        return PARE_ENOMEM;
    if (!s.bad && s.at != len)
        s.bad = "bytes behind the last item";
    if (s.bad)
        return pare_fail(cx, PARE_EFORMAT, "results of a unit, byte %zu of %zu: %s", s.at, len,
                         s.bad);
    return PARE_OK;
}
