/* Ids of the random lines by the tokenizer of a directory or of a model's file: for each line their
 * number and then the ids, as little-endian 32-bit words on standard output.
 * tokenizer_ids DIRECTORY|FILE [LINES] */
#include <stdio.h>
#include <stdlib.h>

#include "formats/checkpoint.h"
#include "tests/data/token_lines.h"

static void put(uint32_t x)
{
    for (unsigned i = 0; i < 4; i++)
        (void)putchar((int)(x >> (8 * i) & 0xff));
}

static int fail(const pare_ctx *cx)
{
    (void)fprintf(stderr, "tokenizer_ids: %s\n", cx->what);
    return 1;
}

int main(int argc, char **argv)
{
    static token_line line;
    pare_ctx cx;
    pare_arena a;
    pare_tokenizer *t;
    pare_ctx_init(&cx);
    if (argc != 2 && argc != 3)
        return 2;
    const uint32_t lines = argc == 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : TOKEN_LINES;
    const bool file = pare_path_is_file(argv[1]);
    if (pare_arena_init(&cx, &a, 0) != PARE_OK ||
        (file ? pare_checkpoint_tokenizer_of(&cx, argv[1], NULL, &t)
              : pare_tokenizer_open(&cx, argv[1], &t)) != PARE_OK)
        return fail(&cx);
    for (uint32_t i = 0; i < lines; i++) {
        const pare_mark mark = pare_arena_mark(&a);
        int32_t *ids;
        size_t count;
        token_line_make(&line, i);
        if (pare_tokenizer_encode(&cx, t, &a, line.text, line.len, &ids, &count) != PARE_OK)
            return fail(&cx);
        put((uint32_t)count);
        for (size_t j = 0; j < count; j++)
            put((uint32_t)ids[j]);
        pare_arena_rewind(&a, mark);
    }
    pare_tokenizer_free(t);
    pare_arena_release(&a);
    return 0;
}
