/* tests/data/tiny_artifact.h - a small artifact with random codes: every kind of plane, of padding
 * and of kept tensor, made by the writers of the library without a compression. */
#ifndef PARE_TESTS_TINY_ARTIFACT_H
#define PARE_TESTS_TINY_ARTIFACT_H

#include "compress/artifact/manifest.h"
#include "compress/output/inventory.h"
#include "formats/checkpoint.h"
#include "tests/data/encoded.h"
#include "tests/data/tiny_model.h"

enum { TINY_LINEARS = 64, TINY_KEPT = 64, TINY_FILES = 32 };

typedef struct tiny_artifact {
    pare_checkpoint from;
    pare_packed_layout layout;
    pare_packed_linear linear[TINY_LINEARS];
    pare_linear_result row[TINY_LINEARS];
    size_t linears;
    pare_tensor kept[TINY_KEPT];
    pare_kept_hash hash[TINY_KEPT];
    size_t kept_count;
    size_t unit[TINY_LINEARS]; /* all zero */
    bool pruned;               /* every linear is */
} tiny_artifact;

/* Sorts the tensors of the model into linears, with a storage that changes from one to the next so
 * that every encoding comes up, super-blocks where they fit, and the rest. */
static inline pare_status tiny_artifact_plan(pare_ctx *cx, pare_arena *a, tiny_artifact *t)
{
    static const unsigned bits[] = {4, 3, 8, 2};
    static const size_t group[] = {32, 0, 64};
    static const pare_packed_linear trellis = {.bits = 3,
                                               .symmetric = true,
                                               .encoding = PARE_ENCODING_EXL3,
                                               .activation = {.mode = PARE_ACTIVATION_FLOAT}};
    for (size_t i = 0; i < t->from.tensors; i++) {
        const pare_tensor *const x = &t->from.tensor[i];
        const char *const end = strstr(x->name, "_proj.weight");
        if (!end) {
            t->kept[t->kept_count++] = *x;
            continue;
        }
        char *const name = pare_arena_text(a, x->name, (size_t)(end - x->name) + 5);
        if (!name)
            return PARE_ENOMEM;
        const size_t l = t->linears++;
        t->linear[l] = (pare_packed_linear){
            .bits = bits[l % 4], .group = group[l % 3], .symmetric = l % 2 == 0};
        if (l == 0)
            t->linear[l] = trellis;
        else if (l != 1 && l != 3)
            t->linear[l] = encoded_kinds[(l + 4) % ENCODED_PRUNED];
        if (x->shape[1] % 256 == 0)
            t->linear[l] = encoded_kinds[ENCODED_KINDS + l % 2];
        if (t->pruned)
            t->linear[l] = encoded_kinds[ENCODED_PRUNED + (l < 13 ? l % 4 : 4)];
        t->linear[l].name = name;
        t->linear[l].n = (size_t)x->shape[0];
        t->linear[l].k = (size_t)x->shape[1];
    }
    return pare_packed_layout_make(cx, a, t->kept, t->unit, t->kept_count, t->linear, t->unit,
                                   t->linears, 16384, &t->layout);
}

static inline pare_status tiny_put(pare_ctx *cx, const tiny_artifact *t, pare_packed_writer *w,
                                   const char *name, const char *suffix, const void *bytes,
                                   uint8_t hash[16])
{
    char full[TINY_NAME];
    (void)snprintf(full, sizeof full, "%s%s", name, suffix);
    const pare_packed_entry *const e = pare_packed_find(&t->layout, full);
    if (!e)
        return pare_fail(cx, PARE_EINVAL, "%s is not laid out", full);
    pare_xxh3(bytes, (size_t)e->tensor.bytes, hash);
    return pare_packed_put(cx, w, e, bytes);
}

static inline pare_status tiny_put_linear(pare_ctx *cx, pare_arena *a, tiny_artifact *t, size_t i,
                                          pare_packed_writer *w)
{
    const pare_packed_linear *const l = &t->linear[i];
    pare_codes c;
    pare_packed_planes p;
    if (!encoded_codes(a, l, i, &c))
        return PARE_ENOMEM;
    PARE_TRY(pare_packed_pack(cx, a, l, &c, &p));
    pare_linear_result *const r = &t->row[i];
    *r = (pare_linear_result){.linear = *l, .method = "random", .output_error = -1};
    for (pare_plane plane = 0; plane < PARE_PLANES; plane++) {
        char suffix[32];
        (void)snprintf(suffix, sizeof suffix, ".%s", pare_packed_plane_name(plane));
        if (p.plane[plane])
            PARE_TRY(tiny_put(cx, t, w, l->name, suffix, p.plane[plane], r->hash[plane]));
    }
    return PARE_OK;
}

static inline pare_status tiny_put_tensors(pare_ctx *cx, pare_arena *a, tiny_artifact *t,
                                           pare_packed_writer *w)
{
    for (size_t i = 0; i < t->linears; i++)
        PARE_TRY(tiny_put_linear(cx, a, t, i, w));
    for (size_t i = 0; i < t->kept_count; i++) {
        t->hash[i].name = t->kept[i].name;
        PARE_TRY(tiny_put(cx, t, w, t->kept[i].name, "", t->kept[i].data, t->hash[i].hash));
    }
    return pare_packed_sync(cx, w);
}

static inline pare_status tiny_list(pare_ctx *cx, pare_arena *a, const char *directory,
                                    const char *name, pare_file_digest *out)
{
    char *text;
    size_t len;
    char *const path = pare_path_join(a, directory, name);
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_file_read(cx, a, path, 1 << 24, &text, &len));
    out->file = name;
    out->bytes = len;
    return pare_sha256_hex(cx, text, len, out->sha256);
}

static inline pare_status tiny_put_texts(pare_ctx *cx, pare_arena *a, const tiny_artifact *t,
                                         const char *directory)
{
    pare_config config;
    pare_file_digest file[TINY_FILES];
    char *text;
    size_t len, files = 0;
    PARE_TRY(pare_config_parse(cx, "config.json", t->from.config, &config));
    PARE_TRY(pare_manifest_config(cx, a, t->from.config, &config, &text, &len));
    PARE_TRY(pare_file_write(cx, pare_path_join(a, directory, "config.json"), text, len));
    PARE_TRY(tiny_list(cx, a, directory, "config.json", &file[files++]));
    PARE_TRY(tiny_list(cx, a, directory, "packed.index.json", &file[files++]));
    for (uint32_t s = 0; s < t->layout.shards && files < TINY_FILES; s++)
        PARE_TRY(tiny_list(cx, a, directory, t->layout.shard_name[s], &file[files++]));
    const pare_manifest m = {.version = "0",
                             .recipe = "none",
                             .blas = "none",
                             .config = &config,
                             .layout = &t->layout,
                             .row = t->row,
                             .rows = t->linears,
                             .kept = t->hash,
                             .kept_count = t->kept_count,
                             .output = file,
                             .outputs = files};
    PARE_TRY(pare_manifest_text(cx, a, &m, &text, &len));
    return pare_file_write(cx, pare_path_join(a, directory, "manifest.json"), text, len);
}

/* Writes an artifact of the checkpoint `from` into the existing directory `to`. Shards hold 16 KiB.
 */
static inline pare_status tiny_artifact_write(pare_ctx *cx, const char *from, const char *to,
                                              bool pruned)
{
    tiny_artifact t = {.pruned = pruned};
    pare_packed_writer *w = NULL;
    pare_arena a;
    pare_status s = pare_arena_init(cx, &a, 0);
    if (s == PARE_OK)
        s = pare_checkpoint_open(cx, &a, from, &t.from);
    if (s == PARE_OK)
        s = tiny_artifact_plan(cx, &a, &t);
    if (s == PARE_OK)
        s = pare_packed_create(cx, to, &t.layout, &w);
    if (s == PARE_OK)
        s = tiny_put_tensors(cx, &a, &t, w);
    pare_packed_close(cx, w);
    if (s == PARE_OK)
        s = tiny_put_texts(cx, &a, &t, to);
    if (s == PARE_OK)
        s = pare_inventory_write(cx, &a, to, NULL, 0);
    pare_checkpoint_close(&t.from);
    pare_arena_release(&a);
    return s;
}

#endif
