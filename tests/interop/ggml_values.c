/* Floats of the blocks of a GGUF type: ggml_values TYPE < blocks > floats. */
#include <stdio.h>
#include <stdlib.h>

#include "formats/ggml_blocks.h"

int main(int argc, char **argv)
{
    const pare_ggml_type *const t = argc == 2 ? pare_ggml_type_named(argv[1]) : NULL;
    uint8_t block[1024];
    float values[PARE_GGML_BLOCK_MAX];
    if (!t || !t->codec || t->bytes > sizeof block)
        return EXIT_FAILURE;
    while (fread(block, t->bytes, 1, stdin) == 1) {
        pare_ggml_decode(t, block, 1, values);
        if (fwrite(values, sizeof *values, t->elements, stdout) != t->elements)
            return EXIT_FAILURE;
    }
    return fclose(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
