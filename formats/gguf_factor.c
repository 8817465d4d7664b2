/* The number beside a matrix. llama.cpp multiplies the product of X.weight with X.scale. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/gguf.h"

enum { NAME = 128, SCALES = 4, E4M3_MOST = 0x7e };
#define LARGEST (6.0F * 448.0F) /* value of a block */

static const char weight[] = ".weight";

static bool is_nvfp4(const pare_gguf_tensor *t)
{
    return strcmp(t->type->name, "NVFP4") == 0;
}

static bool is_matrix(const pare_gguf_tensor *t)
{
    return t && t->rank > 1;
}

/* The tensor whose name is `name` with another ending; NULL when there is none. */
static const pare_gguf_tensor *beside(const pare_gguf *g, const char *name, const char *ending,
                                      const char *other)
{
    char text[NAME];
    const size_t len = strlen(name), n = strlen(ending);
    if (len < n || strcmp(name + len - n, ending) != 0)
        return NULL;
    (void)snprintf(text, sizeof text, "%.*s%s", (int)(len - n), name, other);
    return pare_gguf_tensor_find(g, text);
}

pare_status pare_gguf_factor(pare_ctx *cx, const char *name, const pare_gguf *g,
                             const pare_gguf_tensor *t, uint64_t matrix, float *out)
{
    const pare_gguf_tensor *const s = is_matrix(t) ? beside(g, t->name, weight, ".scale") : NULL;
    const uint64_t matrices = t->rank > 2 ? t->shape[0] : 1;
    *out = 1;
    if (!s)
        return PARE_OK;
    if (s->type->dtype != PARE_F32 || s->elements != matrices)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: tensor %s: %llu numbers of %s, not %llu of F32 for %s", name, s->name,
                         (unsigned long long)s->elements, s->type->name,
                         (unsigned long long)matrices, t->name);
    memcpy(out, s->data + matrix * sizeof *out, sizeof *out);
    if (!(*out > 0) || !isfinite(*out * LARGEST))
        return pare_fail(cx, PARE_EFORMAT, "%s: tensor %s: value %llu is %g, which is no scale",
                         name, s->name, (unsigned long long)matrix, (double)*out);
    return PARE_OK;
}

pare_status pare_gguf_check_scales(pare_ctx *cx, const char *name, const pare_gguf_tensor *t)
{
    const uint64_t blocks = is_nvfp4(t) ? t->elements / t->type->elements : 0;
    for (uint64_t i = 0; i < blocks; i++)
        for (size_t s = 0; s < SCALES; s++)
            if (t->data[i * t->type->bytes + s] > E4M3_MOST)
                return pare_fail(cx, PARE_EFORMAT,
                                 "%s: tensor %s: block %llu: scale %zu is NaN or has a sign", name,
                                 t->name, (unsigned long long)i, s);
    return PARE_OK;
}

bool pare_gguf_is_factor(const pare_gguf *g, const char *name)
{
    return is_matrix(beside(g, name, ".scale", weight)) ||
           is_matrix(beside(g, name, ".input_scale", weight));
}
