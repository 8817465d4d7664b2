/* tests/unit/artifact.h - a folder with a random llama checkpoint, and its packed artifact. */
#ifndef PARE_TESTS_ARTIFACT_H
#define PARE_TESTS_ARTIFACT_H

#include "formats/checkpoint.h"
#include "formats/format_version.h"
#include "formats/packed.h"
#include "tests/data/encoded.h"
#include "tests/data/tiny_model.h"
#include "tests/unit/folder.h"
#include "tests/unit/uniform.h"

/* The same sizes in every row: 48 x 112 and so on, neither a multiple of the padding nor the group.
 */
typedef struct artifact {
    pare_ctx *cx;
    pare_arena a;
    pare_checkpoint ck;
    pare_model model;
    pare_packed_linear linear[2 * PARE_COMMON_ROLES];
    size_t linears, unit[2 * PARE_COMMON_ROLES];
    pare_tensor kept[64];
    size_t kept_unit[64], keeps;
    pare_packed_layout layout;
} artifact;

static inline void artifact_ok(const artifact *m, pare_status s)
{
    ck_assert_msg(s == PARE_OK, "%s: %s", pare_strstatus(s), m->cx->what);
}

static inline bool artifact_packs(const artifact *m, const char *tensor)
{
    for (size_t i = 0; i < m->linears; i++) {
        const size_t n = strlen(m->linear[i].name);
        if (strncmp(tensor, m->linear[i].name, n) == 0 && strcmp(tensor + n, ".weight") == 0)
            return true;
    }
    return false;
}

/* A linear of the model, stored like `kind`. */
static inline void artifact_add(artifact *m, size_t i, const pare_packed_linear *kind)
{
    const pare_linear *const l =
        &m->model.block[i / PARE_COMMON_ROLES].linear[i % PARE_COMMON_ROLES];
    pare_packed_linear *const to = &m->linear[m->linears];
    *to = *kind;
    to->name = l->name;
    to->n = l->n;
    to->k = l->k;
    m->unit[m->linears++] = i / PARE_COMMON_ROLES;
}

/* Lays out the linears that were added and what is left of the checkpoint. */
static inline void artifact_plan(artifact *m, uint64_t shard_bytes)
{
    for (size_t i = 0; i < m->ck.tensors; i++) {
        if (artifact_packs(m, m->ck.tensor[i].name))
            continue;
        m->kept_unit[m->keeps] = 2;
        m->kept[m->keeps++] = m->ck.tensor[i];
    }
    artifact_ok(m, pare_packed_layout_make(m->cx, &m->a, m->kept, m->kept_unit, m->keeps, m->linear,
                                           m->unit, m->linears, shard_bytes, &m->layout));
}

static inline void artifact_put(artifact *m, pare_packed_writer *w, const char *linear,
                                const char *suffix, const void *bytes)
{
    char name[256];
    (void)snprintf(name, sizeof name, "%s%s", linear, suffix);
    const pare_packed_entry *const e = pare_packed_find(&m->layout, name);
    ck_assert_ptr_nonnull(e);
    artifact_ok(m, pare_packed_put(m->cx, w, e, bytes));
}

static inline void artifact_put_planes(artifact *m, pare_packed_writer *w, const char *linear,
                                       const pare_packed_planes *planes)
{
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        char suffix[32];
        (void)snprintf(suffix, sizeof suffix, ".%s", pare_packed_plane_name(p));
        if (planes->plane[p])
            artifact_put(m, w, linear, suffix, planes->plane[p]);
    }
}

/* Codes, scales and zeros that differ in every place. */
static inline void artifact_fill(artifact *m, pare_packed_writer *w, size_t i)
{
    const pare_packed_linear *const l = &m->linear[i];
    const pare_grid g = {.bits = l->bits, .group = l->group, .symmetric = l->symmetric};
    pare_codes codes;
    pare_packed_planes planes;
    artifact_ok(m, pare_codes_take(&m->a, &g, l->n, l->k, &codes));
    for (size_t j = 0; j < l->n * l->k; j++)
        codes.codes[j] = (uint8_t)((j * 7 + i) & ((1u << l->bits) - 1));
    for (size_t j = 0; j < l->n * codes.groups; j++) {
        codes.scales[j] = (float)(1 + (j + i) % 50) / 64;
        codes.zeros[j] = (uint8_t)(l->symmetric ? 1u << (l->bits - 1) : j & 1);
    }
    artifact_ok(m, pare_packed_pack(m->cx, &m->a, l, &codes, &planes));
    artifact_put_planes(m, w, l->name, &planes);
}

/* Codes of any encoding, random with the linear's index as seed. */
static inline void artifact_fill_encoded(artifact *m, pare_packed_writer *w, size_t i)
{
    pare_codes codes;
    pare_packed_planes planes;
    ck_assert(encoded_codes(&m->a, &m->linear[i], i, &codes));
    artifact_ok(m, pare_packed_pack(m->cx, &m->a, &m->linear[i], &codes, &planes));
    artifact_put_planes(m, w, m->linear[i].name, &planes);
}

/* Value that artifact_fill gave weight [r, c] of linear i. */
static inline float artifact_weight(const pare_packed_linear *l, size_t i, size_t r, size_t c)
{
    const size_t groups = l->group ? (l->k + l->group - 1) / l->group : 1;
    const size_t j = r * groups + (l->group ? c / l->group : 0);
    const int code = (int)(((r * l->k + c) * 7 + i) & ((1u << l->bits) - 1));
    const int zero = l->symmetric ? 1 << (l->bits - 1) : (int)(j & 1);
    return (float)(code - zero) * ((float)(1 + (j + i) % 50) / 64);
}

static inline void artifact_config(artifact *m, folder *dir)
{
    pare_json_writer *w;
    const char *text, *key;
    const pare_json *value;
    size_t len;
    artifact_ok(m, pare_json_writer_new(m->cx, &w));
    pare_json_open_object(w, NULL);
    for (pare_json_iter it = {0}; pare_json_next(m->ck.config, &it, &key, &value);)
        pare_json_put_copy(w, key, value);
    pare_json_open_object(w, "quantization_config");
    pare_json_put_text(w, "quant_method", "pare");
    pare_json_put_integer(w, "format", PARE_CONFIG_FORMAT);
    pare_json_close(w);
    pare_json_close(w);
    artifact_ok(m, pare_json_writer_finish(w, &text, &len));
    folder_put(dir, "config.json", text, len);
    pare_json_writer_free(w);
}

/* Writes a checkpoint into the folder and opens it. */
static inline void artifact_open_tiny(artifact *m, pare_ctx *cx, folder *dir,
                                      const tiny_model *tiny)
{
    *m = (artifact){.cx = cx};
    ck_assert(tiny_model_write(tiny, dir->path));
    artifact_ok(m, pare_arena_init(cx, &m->a, 0));
    artifact_ok(m, pare_checkpoint_open(cx, &m->a, dir->path, &m->ck));
    artifact_ok(m, pare_model_load(cx, &m->a, &m->ck, &m->model));
}

static inline void artifact_open(artifact *m, pare_ctx *cx, folder *dir)
{
    const tiny_model tiny = tiny_model_default();
    artifact_open_tiny(m, cx, dir, &tiny);
}

/* Writes what was laid out in place of the checkpoint. */
static inline void artifact_finish(artifact *m, folder *dir,
                                   void (*fill)(artifact *, pare_packed_writer *, size_t))
{
    pare_packed_writer *w;
    artifact_ok(m, pare_packed_create(m->cx, dir->path, &m->layout, &w));
    for (size_t i = 0; i < m->linears; i++)
        fill(m, w, i);
    for (size_t i = 0; i < m->keeps; i++)
        artifact_put(m, w, m->kept[i].name, "", m->kept[i].data);
    pare_packed_close(m->cx, w);
    artifact_config(m, dir);
    ck_assert_int_eq(unlink(folder_file(dir, "model.safetensors")), 0);
    pare_checkpoint_close(&m->ck);
    pare_arena_release(&m->a);
}

/* An artifact whose linears are all stored in one way. */
static inline void artifact_write(pare_ctx *cx, folder *dir, unsigned bits, size_t group,
                                  bool symmetric, uint64_t shard_bytes)
{
    static artifact m;
    const pare_packed_linear kind = UNIFORM(NULL, 0, 0, bits, group, symmetric);
    artifact_open(&m, cx, dir);
    for (size_t i = 0; i < 2 * PARE_COMMON_ROLES; i++)
        artifact_add(&m, i, &kind);
    artifact_plan(&m, shard_bytes);
    artifact_finish(&m, dir, artifact_fill);
}

/* The linear that artifact_write_encoded leaves as it was, but for a bias. */
enum { ARTIFACT_DENSE = PARE_COMMON_ROLES + PARE_ROLE_V };

/* What linear i of artifact_write_encoded is stored like. */
static inline pare_packed_linear artifact_kind(size_t i)
{
    pare_packed_linear kind = encoded_kinds[i % ENCODED_KINDS];
    kind.rotated = i % PARE_COMMON_ROLES == PARE_ROLE_O || i % PARE_COMMON_ROLES == PARE_ROLE_DOWN;
    return kind;
}

static inline float artifact_bias(size_t which, size_t i)
{
    return (float)(i + which) / 7;
}

/* An artifact with every encoding, and the vectors that folding adds. */
static inline void artifact_write_encoded(pare_ctx *cx, folder *dir, uint64_t shard_bytes)
{
    static artifact m;
    static float bias[3][48];
    static const char *const name[3] = {"model.layers.0.input_layernorm.bias",
                                        "model.layers.1.post_attention_layernorm.bias",
                                        "model.layers.1.self_attn.v_proj.bias"};
    artifact_open(&m, cx, dir);
    for (size_t i = 0; i < 2 * PARE_COMMON_ROLES; i++) {
        const pare_packed_linear kind = artifact_kind(i);
        if (i != ARTIFACT_DENSE)
            artifact_add(&m, i, &kind);
    }
    for (size_t t = 0; t < 3; t++) {
        const size_t len = t < 2 ? 48 : m.model.block[1].linear[PARE_ROLE_V].n;
        for (size_t i = 0; i < len; i++)
            bias[t][i] = artifact_bias(t, i);
        m.kept_unit[m.keeps] = 2;
        m.kept[m.keeps++] = (pare_tensor){
            .name = name[t], .dtype = PARE_F32, .rank = 1, .shape = {len}, .data = bias[t]};
    }
    artifact_plan(&m, shard_bytes);
    artifact_finish(&m, dir, artifact_fill_encoded);
}

#endif
