#include "formats/export_parallel.h"

#include <stdio.h>

#include "formats/export_internal.h"
#include "kernels/layout.h"

/* What ranks do not get whole; GRAINS and GROUPS: `grain` of their share. */
typedef enum fault_kind { NONE, HEADS, KV_HEADS, VOCABULARY, SHARES, GRAINS, GROUPS } fault_kind;

typedef struct fault {
    fault_kind kind;
    const pare_export_linear *linear; /* of SHARES and what follows: its tensor, and */
    const char *name;                 /* that of the piece */
    pare_rank_share share;
    size_t grain;
} fault;

pare_rank_share pare_export_share(const pare_config *c, const pare_export_linear *l, size_t ranks)
{
    pare_rank_share s = {.columns = l->role == PARE_ROLE_O || l->role == PARE_ROLE_DOWN};
    const bool copied = (l->role == PARE_ROLE_K || l->role == PARE_ROLE_V) && c->kv_heads < ranks;
    const size_t by = copied ? c->kv_heads : ranks;
    s.whole = s.columns ? l->packed.k : l->packed.n;
    s.each = s.whole % by == 0 ? s.whole / by : 0;
    return s;
}

static fault look_at(const pare_export_target *t, const pare_export_model *m,
                     const pare_export_linear *tensor, const pare_export_linear *l, size_t ranks)
{
    const pare_export_grain g = pare_export_grain_of(t, tensor);
    fault f = {.linear = tensor, .name = l->name, .share = pare_export_share(m->config, l, ranks)};
    f.grain = f.share.columns ? g.columns : g.rows;
    if (f.share.each == 0)
        f.kind = SHARES;
    else if (f.share.each % f.grain != 0)
        f.kind = GRAINS;
    else if (f.share.columns && g.group && f.share.each % g.group != 0) {
        f.kind = GROUPS;
        f.grain = g.group;
    }
    return f;
}

/* llama.cpp cuts rows wherever it likes, and engines of directories pad vocabularies in floats. */
static fault look_at_head(const pare_export_target *t, const pare_export_model *m,
                          const pare_export_linear *l, size_t ranks)
{
    const fault f = {.kind = VOCABULARY};
    if (t->kind == PARE_EXPORT_FILE)
        return (fault){NONE};
    if (l->is_packed)
        return look_at(t, m, l, l, ranks);
    return pare_round_up(m->config->vocab, PARE_VOCAB_PAD) % ranks ? f : (fault){NONE};
}

static fault find_fault(const pare_export_target *t, const pare_export_model *m, size_t ranks)
{
    const pare_config *const c = m->config;
    if (c->heads % ranks != 0)
        return (fault){.kind = HEADS};
    if (c->kv_heads % ranks != 0 && ranks % c->kv_heads != 0)
        return (fault){.kind = KV_HEADS};
    for (size_t i = 0; i < m->linears; i++) {
        const pare_export_linear *const l = &m->linear[i];
        fault f = {NONE};
        if (l->block == c->blocks)
            f = look_at_head(t, m, l, ranks);
        for (size_t p = 0; l->block < c->blocks && !f.kind && p < (l->pieces ? l->pieces : 1); p++)
            f = look_at(t, m, l, l->pieces ? &l->piece[p] : l, ranks);
        if (f.kind)
            return f;
    }
    return (fault){NONE};
}

enum { TEXT = 256 };

/* Whether another group (0: a row) gives whole pieces of every linear that has the group at fault,
 * as those of one step have. */
static bool would_do(const pare_export_target *t, const pare_export_model *m, const fault *f,
                     size_t ranks, size_t group)
{
    for (size_t i = 0; i < m->linears; i++) {
        pare_export_linear l = m->linear[i];
        if (!l.is_packed || l.packed.group != f->linear->packed.group)
            continue;
        l.packed.group = group;
        for (size_t p = 0; p < (l.pieces ? l.pieces : 1); p++)
            if (look_at(t, m, &l, l.pieces ? &l.piece[p] : &l, ranks).kind)
                return false;
    }
    return true;
}

/* "32, 64 or row": groups that would do. */
static size_t list_groups(const pare_export_target *t, const pare_export_model *m, const fault *f,
                          size_t ranks, char text[TEXT])
{
    size_t used = 0;
    for (size_t group = 32; group <= 128; group *= 2)
        if (would_do(t, m, f, ranks, group))
            used += (size_t)snprintf(text + used, TEXT - used, "%s%zu", used ? ", " : "", group);
    if (would_do(t, m, f, ranks, 0)) /* its scales go along with any columns */
        used += (size_t)snprintf(text + used, TEXT - used, "%srow", used ? " or " : "");
    return used;
}

/* What would do instead. */
static void advise(const pare_export_target *t, const pare_export_model *m, const fault *f,
                   size_t ranks, char text[TEXT])
{
    char other[TEXT] = "";
    size_t fewer = ranks - 1, used = 0;
    while (fewer > 1 && find_fault(t, m, fewer).kind)
        fewer--;
    if (f->kind == GROUPS && !pare_encodings[f->linear->packed.encoding].group &&
        list_groups(t, m, f, ranks, other))
        used = (size_t)snprintf(text, TEXT, "; take group %.64s", other);
    else if (f->kind == GRAINS && t->kind == PARE_EXPORT_FILE)
        used = (size_t)snprintf(text, TEXT, "; take %s",
                                f->share.each % 32 ? "gguf:f16" : "gguf:q8_0 or gguf:q4_0");
    if (fewer > 1)
        (void)snprintf(text + used, TEXT - used, "%s %zu ranks", used ? ", or" : "; take", fewer);
    else
        (void)snprintf(text + used, TEXT - used, "; no smaller number of ranks does");
}

static pare_status refuse_linear(pare_ctx *cx, const pare_export_target *t, const fault *f,
                                 size_t ranks, const char *advice)
{
    char stored[PARE_PACKED_TEXT] = "float";
    const char *const lines = f->share.columns ? "columns" : "rows";
    if (f->linear->is_packed)
        (void)pare_packed_linear_text(&f->linear->packed, stored);
    if (f->kind == SHARES)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s for %zu ranks: linear %s (%s): %zu %s do not divide%s", t->name, ranks,
                         f->name, stored, f->share.whole, lines, advice);
    return pare_fail(cx, PARE_ENOTSUP,
                     "%s for %zu ranks: linear %s (%s): %zu of %zu %s are no whole %s of %zu%s",
                     t->name, ranks, f->name, stored, f->share.each, f->share.whole, lines,
                     f->kind == GROUPS ? "groups" : "blocks", f->grain, advice);
}

pare_status pare_export_check_ranks(pare_ctx *cx, const pare_export_target *t,
                                    const pare_export_model *m, size_t ranks)
{
    const pare_config *const c = m->config;
    const fault f = find_fault(t, m, ranks);
    char advice[TEXT];
    if (f.kind == NONE)
        return PARE_OK;
    advise(t, m, &f, ranks, advice);
    if (f.kind == HEADS)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s for %zu ranks: %zu heads of attention do not divide%s", t->name, ranks,
                         c->heads, advice);
    if (f.kind == KV_HEADS)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s for %zu ranks: %zu heads of keys and values neither divide, nor does "
                         "each go to the same number of ranks%s",
                         t->name, ranks, c->kv_heads, advice);
    if (f.kind == VOCABULARY)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s for %zu ranks: engines pad the vocabulary of %zu to a multiple of %d, "
                         "which does not divide%s",
                         t->name, ranks, c->vocab, PARE_VOCAB_PAD, advice);
    return refuse_linear(cx, t, &f, ranks, advice);
}
