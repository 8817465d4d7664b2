#include <inttypes.h>
#include <string.h>

#include "compress/artifact/verify_internal.h"
#include "formats/hash.h"

enum { F16_EXPONENT = 0x7c00 };

static const char *file_of(const pare_checkpoint *ck, const pare_tensor *t)
{
    const char *const path = ck->file[ck->tensor_file[t - ck->tensor]].path;
    const char *const slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void found_absent(void *self, const char *name, const char *what)
{
    pare__verify_found(self, "%s: %s", name, what);
}

static pare_status check_hashes(pare_verify_run *v, const pare_checkpoint *ck)
{
    pare_span *const span = PARE_NEW(&v->arena, pare_span, ck->tensors + 1);
    uint8_t(*const xxh3)[16] = pare_arena_take(&v->arena, ck->tensors + 1, sizeof *xxh3);
    if (!span || !xxh3)
        return PARE_ENOMEM;
    for (size_t i = 0; i < ck->tensors; i++)
        span[i] = (pare_span){ck->tensor[i].data, ck->tensor[i].bytes};
    PARE_TRY(pare_xxh3_spans(v->cx, "hashing tensors", span, ck->tensors, xxh3));
    for (size_t i = 0; i < ck->tensors; i++) {
        const pare_tensor *const t = &ck->tensor[i];
        const char *const want = pare_manifest_tensor(v->manifest, t->name);
        char hex[PARE_XXH3_HEX];
        pare_xxh3_text(xxh3[i], hex);
        if (!want)
            pare__verify_found(v, "%s: %s: the manifest has no hash of it", file_of(ck, t),
                               t->name);
        else if (strcmp(hex, want) != 0)
            pare__verify_found(v, "%s: %s: XXH3 is %s, the manifest says %s", file_of(ck, t),
                               t->name, hex, want);
    }
    pare_manifest_absent(v->manifest, ck, found_absent, v);
    return PARE_OK;
}

/* What holds all experts of a block has its hash as the files have it. */
pare_status pare__verify_hashes(pare_verify_run *v)
{
    pare_checkpoint plain;
    if (!v->checkpoint.stacks)
        return check_hashes(v, &v->checkpoint);
    pare_status s = pare_checkpoint_open_plain(v->cx, &v->arena, v->path, &plain);
    if (s == PARE_OK)
        s = check_hashes(v, &plain);
    pare_checkpoint_close(&plain);
    return s;
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
            pare__verify_found(v, "%s: %s: element %" PRIu64 " is NaN or infinite",
                               file_of(&v->checkpoint, t), t->name, at);
        pare_ctx_progress(v->cx, "looking for NaN", (double)(i + 1), (double)v->checkpoint.tensors);
    }
}
