/* tests/fuzz/gguf_input.h - everything that is done with the bytes of a GGUF file. */
#ifndef PARE_TESTS_GGUF_INPUT_H
#define PARE_TESTS_GGUF_INPUT_H

#include "formats/gguf_internal.h"

static inline pare_status gguf_as_checkpoint(pare_ctx *cx, pare_arena *a, const pare_file *file,
                                             bool listed, bool runs)
{
    pare_checkpoint ck = {.cx = cx, .listed = listed, .runs = runs};
    pare__shard shard;
    pare_config config;
    pare_scratch_init(cx, &ck.scratch);
    pare_status s = pare__gguf_read(&ck, a, file, &shard);
    if (s == PARE_OK && pare_config_parse(cx, "config", ck.config, &config) != PARE_OK)
        pare_ctx_clear(cx); /* its messages are not those of this reader */
    pare_checkpoint_close(&ck);
    return s;
}

/* Tokenizer, settings, configuration, tensors of a container that was read; the first failure. */
static inline pare_status gguf_read_rest(pare_ctx *cx, pare_arena *a, const pare_gguf *g,
                                         const void *bytes, size_t len)
{
    static char name[] = "file";
    const pare_file file = {.data = bytes, .bytes = len, .path = name};
    char *text;
    size_t n;
    PARE_TRY(pare__gguf_tokenizer(cx, a, name, g, false, &text, &n));
    PARE_TRY(pare__gguf_tokenizer(cx, a, name, g, true, &text, &n));
    PARE_TRY(gguf_as_checkpoint(cx, a, &file, true, false));
    PARE_TRY(gguf_as_checkpoint(cx, a, &file, false, true));
    return gguf_as_checkpoint(cx, a, &file, false, false);
}

/* The container and the rest. */
static inline pare_status gguf_read_all(pare_ctx *cx, pare_arena *a, const void *bytes, size_t len)
{
    pare_gguf g;
    PARE_TRY(pare_gguf_parse(cx, a, "file", bytes, len, &g));
    return gguf_read_rest(cx, a, &g, bytes, len);
}

#endif
