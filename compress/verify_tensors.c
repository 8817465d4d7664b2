#include <inttypes.h>
#include <string.h>

#include "compress/verify_internal.h"
#include "formats/hash.h"

enum { F16_EXPONENT = 0x7c00 };

/* The hash that the manifest has for a tensor, NULL when it has none. */
static const char *expected_hash(pare_verify_run *v, const char *name)
{
    const pare_json *const kept = pare_json_get(pare_json_get(v->manifest, "kept"), name);
    const char *const dot = strrchr(name, '.');
    if (kept || !dot)
        return pare_json_text(pare_json_get(kept, "xxh3"), NULL);
    const pare_mark mark = pare_arena_mark(&v->arena);
    char *const base = pare_arena_text(&v->arena, name, (size_t)(dot - name));
    const pare_json *const linear =
        base ? pare_json_get(pare_json_get(v->manifest, "tensors"), base) : NULL;
    pare_arena_rewind(&v->arena, mark);
    return pare_json_text(pare_json_get(pare_json_get(linear, "xxh3"), dot + 1), NULL);
}

static const char *file_of(const pare_verify_run *v, const pare_tensor *t)
{
    const pare_checkpoint *const ck = &v->checkpoint;
    const char *const path = ck->file[ck->tensor_file[t - ck->tensor]].path;
    const char *const slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Every tensor that the manifest names is there. */
static void check_named(pare_verify_run *v)
{
    const char *key;
    const pare_json *value;
    const pare_json *const kept = pare_json_get(v->manifest, "kept");
    const pare_json *const tensors = pare_json_get(v->manifest, "tensors");
    const pare_json *const linears = pare_json_get(v->checkpoint.index, "linears");
    for (pare_json_iter it = {0}; pare_json_next(kept, &it, &key, &value);)
        if (!pare_checkpoint_find(&v->checkpoint, key))
            pare__verify_found(v, "%s: in the manifest, but in no weight file", key);
    for (pare_json_iter it = {0}; pare_json_next(tensors, &it, &key, &value);)
        if (!pare_json_get(linears, key))
            pare__verify_found(v, "%s: in the manifest, but not in packed.index.json", key);
}

void pare__verify_hashes(pare_verify_run *v)
{
    for (size_t i = 0; i < v->checkpoint.tensors; i++) {
        const pare_tensor *const t = &v->checkpoint.tensor[i];
        const char *const want = expected_hash(v, t->name);
        char hex[PARE_XXH3_HEX];
        pare_xxh3_hex(t->data, (size_t)t->bytes, hex);
        if (!want)
            pare__verify_found(v, "%s: %s: the manifest has no hash of it", file_of(v, t), t->name);
        else if (strcmp(hex, want) != 0)
            pare__verify_found(v, "%s: %s: XXH3 is %s, the manifest says %s", file_of(v, t),
                               t->name, hex, want);
        pare_ctx_progress(v->cx, "hashing tensors", (double)(i + 1), (double)v->checkpoint.tensors);
    }
    check_named(v);
}

/* Index of the first element whose exponent bits, in the top bytes of each, are all set; `count`
 * when there is none. */
static uint64_t first_not_finite(const unsigned char *p, uint64_t count, size_t width,
                                 unsigned exponent)
{
    for (uint64_t i = 0; i < count; i++) {
        const unsigned char *const top = p + i * width + width - 2;
        const unsigned bits = top[0] | (unsigned)top[1] << 8;
        if ((bits & exponent) == exponent)
            return i;
    }
    return count;
}

void pare__verify_finite(pare_verify_run *v)
{
    for (size_t i = 0; i < v->checkpoint.tensors; i++) {
        const pare_tensor *const t = &v->checkpoint.tensor[i];
        unsigned exponent;
        switch (t->dtype) {
        case PARE_F16: exponent = F16_EXPONENT; break;
        case PARE_BF16:
        case PARE_F32: exponent = 0x7f80; break;
        case PARE_F64: exponent = 0x7ff0; break;
        default: continue;
        }
        const size_t width = pare_dtype_bits(t->dtype) / 8;
        const uint64_t count = t->bytes / width;
        const uint64_t at = first_not_finite(t->data, count, width, exponent);
        if (at < count)
            pare__verify_found(v, "%s: %s: element %" PRIu64 " is NaN or infinite", file_of(v, t),
                               t->name, at);
        pare_ctx_progress(v->cx, "looking for NaN", (double)(i + 1), (double)v->checkpoint.tensors);
    }
}
