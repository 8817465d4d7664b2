/* The linears of an artifact as the files of their family have them. */
#include <stdlib.h>
#include <string.h>

#include "compress/export/export.h"

static int is_named(const void *name, const void *packed)
{
    return strcmp(name, (*(const pare_packed_linear *const *)packed)->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const pare_packed_linear *const *)a)->name,
                  (*(const pare_packed_linear *const *)b)->name);
}

/* A bias that a pass made takes the place of the model's own where there is one, and only there do
 * engines have a place for it. */
static pare_export_linear linear_of(const char *name, const pare_linear *w, bool biased,
                                    const pare_packed_linear *const *packed, size_t count)
{
    pare_export_linear l = {
        .name = name, .weights = w, .packed = {.name = name, .n = w->n, .k = w->k}};
    const pare_packed_linear *const *const found =
        count ? bsearch(name, packed, count, sizeof *packed, is_named) : NULL;
    if (found) {
        l.is_packed = true;
        l.packed = **found;
        l.packed.name = name;
        l.packed.activation.scale = w->activation.scale;
        l.packed.bias &= !biased;
    }
    return l;
}

/* The tensor of several linears that begins with this role; NULL: it has one of its own. */
static const pare_fused *fused_at(const pare_arch *arch, pare_role r)
{
    for (size_t i = 0; i < PARE_FUSED_MAX && arch->fused[i].name; i++)
        if (arch->fused[i].first == r)
            return &arch->fused[i];
    return NULL;
}

/* "h.0.attn.c_attn" of "h.0.attn.c_attn.q". */
static const char *fused_name(pare_arena *a, const char *piece)
{
    const char *const dot = strrchr(piece, '.');
    return dot ? pare_arena_text(a, piece, (size_t)(dot - piece)) : piece;
}

static pare_status describe_block(pare_arena *a, const pare_model *model, const pare_json *config,
                                  size_t block, pare_export_linear single[PARE_ROLES],
                                  pare_export_model *out)
{
    const pare_arch *const arch = model->config.arch;
    pare_export_linear *const linear = (pare_export_linear *)(uintptr_t)out->linear;
    for (pare_role r = 0; r < PARE_ROLES;) {
        const pare_fused *const f = fused_at(arch, r);
        pare_export_linear *const l = &linear[out->linears];
        const pare_linear *const w =
            model->block[block].linear[r].name ? &model->block[block].linear[r] : NULL;
        if (w && w->bias && !single[r].is_packed && !pare_linear_has_bias(config, &arch->linear[r]))
            out->biased = w->name;
        if (f) {
            const char *const name = fused_name(a, single[r].name);
            if (!name)
                return PARE_ENOMEM;
            pare_export_join(l, name, &single[r], f->count, f->fusion);
        } else if (w) {
            *l = single[r];
        }
        out->linears += w != NULL;
        r += (pare_role)(f ? f->count : 1);
    }
    return PARE_OK;
}

/* The linears of the experts of a block, role by role. */
static void describe_experts(const pare_model *model, size_t block,
                             const pare_packed_linear *const *packed, size_t count,
                             pare_export_model *out)
{
    const pare_config *const c = &model->config;
    for (pare_role r = 0; r < PARE_ROLES; r++) {
        pare_export_linear *const first =
            (pare_export_linear *)(uintptr_t)&out->linear[out->linears];
        for (size_t part = 1; part < pare_block_parts(c); part++) {
            const pare_linear *const w = pare_block_linear(&model->block[block], part, r);
            pare_export_linear *const l = &first[part - 1];
            if (!w->name)
                break;
            *l = linear_of(w->name, w, false, packed, count);
            l->config = c;
            l->block = block;
            l->part = part;
            l->role = r;
            l->mates = first;
            l->mate_count = c->experts;
            out->linears++;
        }
    }
}

/* Routers and gates of shared experts: never packed, and linears in the eyes of engines. */
static pare_status find_kept(pare_arena *a, const pare_model *model, pare_export_model *out)
{
    const char **const kept = PARE_NEW(a, const char *, 2 * model->config.blocks);
    if (!kept)
        return PARE_ENOMEM;
    for (size_t i = 0; i < model->config.blocks; i++) {
        const char *const name[] = {model->block[i].router.name, model->block[i].shared_gate.name};
        for (size_t j = 0; j < 2; j++)
            if (name[j])
                kept[out->kepts++] = name[j];
    }
    out->kept = kept;
    return PARE_OK;
}

/* What a configuration says of its floats. */
static pare_dtype floats_of(const pare_json *config)
{
    static const struct {
        const char *name;
        pare_dtype is;
    } types[] = {{"bfloat16", PARE_BF16}, {"float32", PARE_F32}};
    const pare_json *const old = pare_json_get(config, "torch_dtype");
    const char *const text = pare_json_text(old ? old : pare_json_get(config, "dtype"), NULL);
    for (size_t i = 0; text && i < sizeof types / sizeof *types; i++)
        if (strcmp(text, types[i].name) == 0)
            return types[i].is;
    return PARE_F16;
}

/* A head that is tied to a packed embedding: floats of the files, where there are any. */
static pare_status leave_head(pare_arena *a, const pare_json *config, pare_export_linear *head,
                              pare_export_model *out)
{
    pare_linear *const w = PARE_NEW(a, pare_linear, 1);
    if (!w)
        return PARE_ENOMEM;
    out->floats = floats_of(config);
    *w = (pare_linear){
        .name = head->name, .n = head->packed.n, .k = head->packed.k, .dtype = out->floats};
    if (out->config->tied)
        head->weights = w;
    return PARE_OK;
}

pare_status pare_export_describe(pare_arena *a, const pare_model *model, const pare_json *config,
                                 const pare_packed_linear *packed, size_t count,
                                 pare_export_model *out)
{
    const pare_config *const c = &model->config;
    const size_t most = c->blocks * PARE_ROLES;
    const size_t all = c->blocks * pare_block_parts(c) * PARE_ROLES;
    pare_export_linear *const single = PARE_NEW(a, pare_export_linear, most);
    pare_export_linear *const linear = PARE_NEW(a, pare_export_linear, all + 2);
    *out = (pare_export_model){.config = c, .linear = linear, .floats = model->embed.dtype};
    const pare_packed_linear **const sorted = PARE_NEW(a, const pare_packed_linear *, count);
    if (!single || !linear || !sorted)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        sorted[i] = &packed[i];
    if (count > 1)
        qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 0; i < c->blocks; i++) {
        const pare_block *const b = &model->block[i];
        out->shifts_norms |=
            c->arch->norm_kind != PARE_NORM_LAYER && (b->norm_bias[0] || b->norm_bias[1]);
        for (pare_role r = 0; r < PARE_ROLES; r++) {
            const pare_linear *const w = &b->linear[r];
            pare_export_linear *const l = &single[i * PARE_ROLES + r];
            if (!w->name)
                continue;
            *l = linear_of(w->name, w, pare_linear_has_bias(config, &c->arch->linear[r]), sorted,
                           count);
            l->config = c;
            l->block = i;
            l->role = r;
            l->transposed = c->arch->transposed;
        }
        PARE_TRY(describe_block(a, model, config, i, &single[i * PARE_ROLES], out));
        if (c->experts)
            describe_experts(model, i, sorted, count, out);
    }
    linear[out->linears] =
        linear_of(c->arch->head, &model->head, c->arch->head_bias, sorted, count);
    linear[out->linears].config = c;
    linear[out->linears].block = c->blocks;
    linear[out->linears++].role = PARE_ROLES;
    pare_export_linear *const table = &linear[out->linears];
    *table = linear_of(c->arch->embed, &model->embed, false, sorted, count);
    table->config = c;
    table->block = c->blocks;
    table->role = PARE_ROLES;
    table->looked_up = true;
    out->tables = table->is_packed;
    if (table->is_packed)
        PARE_TRY(leave_head(a, config, &linear[out->linears - 1], out));
    return find_kept(a, model, out);
}
