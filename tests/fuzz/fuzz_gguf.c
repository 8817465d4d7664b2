/* A file of arbitrary bytes. What is accepted lies inside the file, all of it can be read. */
#include <string.h>

#include "formats/gguf_seal.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/gguf_input.h"

static void touch(const unsigned char *data, uint64_t bytes, const uint8_t *file, size_t len)
{
    require(data >= file && bytes <= len && (size_t)(data - file) <= len - bytes);
}

static void read_value(const pare_gguf_value *v, const uint8_t *file, size_t len)
{
    pare_gguf_texts it = {0};
    const char *text;
    size_t n;
    uint64_t texts = 0;
    int64_t whole;
    double number;
    touch(v->data, v->bytes, file, len);
    for (; pare_gguf_next(v, &it, &text, &n); texts++)
        touch((const unsigned char *)text, n, file, len);
    require(v->kind != PARE_GGUF_TEXT || texts == v->count);
    for (uint64_t i = 0; i <= v->count && i < 1000; i++) {
        if (pare_gguf_integer(v, i, &whole))
            require(pare_gguf_number(v, i, &number) && i < v->count);
    }
}

static void read_all(const pare_gguf *g, const uint8_t *file, size_t len)
{
    for (size_t i = 0; i < g->values; i++) {
        read_value(&g->value[i], file, len);
        require(pare_gguf_find(g, g->value[i].key) == &g->value[i]);
    }
    for (size_t i = 0; i < g->tensors; i++) {
        const pare_gguf_tensor *const t = &g->tensor[i];
        float values[PARE_GGML_BLOCK_MAX];
        touch(t->data, t->bytes, file, len);
        if (t->type->codec) {
            pare_ggml_decode(t->type, t->data, 1, values);
            pare_ggml_decode(t->type, t->data + t->bytes - t->type->bytes, 1, values);
        }
        require(pare_gguf_tensor_find(g, t->name) == t);
    }
}

/* Most say nothing, or something wrong, of their bytes. */
static pare_status check_seal(pare_ctx *cx, pare_arena *a, const pare_gguf *g, const void *bytes,
                              size_t len)
{
    const pare_file f = {.path = "fuzz", .data = bytes, .bytes = len};
    bool sealed;
    const pare_status s = pare_gguf_check_seal(cx, a, &f, g, &sealed);
    require(s == PARE_OK || (sealed && (s == PARE_EFORMAT || s == PARE_ENOMEM)));
    if (s == PARE_EFORMAT)
        pare_ctx_clear(cx);
    return s == PARE_EFORMAT ? PARE_OK : s;
}

static pare_status parse(pare_ctx *cx, pare_arena *a, const void *bytes, size_t len)
{
    pare_gguf g;
    PARE_TRY(pare_gguf_parse(cx, a, "fuzz", bytes, len, &g));
    read_all(&g, bytes, len);
    PARE_TRY(check_seal(cx, a, &g, bytes, len));
    return gguf_read_rest(cx, a, &g, bytes, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_parse(parse, bytes, len);
    return 0;
}
