/* Writes a random llama checkpoint and calibration tokens for it, of any size, with little memory.
 *
 *   make_checkpoint DIRECTORY [KEY=NUMBER ...]
 *
 * Keys and their defaults, a model of 4.1 GB in 160 small blocks: see `known`. The tokens go to
 * DIRECTORY/tokens.i32. The bytes are a function of the keys. */
#include <stdlib.h>

#include "tests/data/tiny_model.h"

typedef struct known {
    const char *key;
    uint64_t value;
} known;

enum {
    HIDDEN,
    INTERMEDIATE,
    BLOCKS,
    HEADS,
    KV_HEADS,
    HEAD_DIM,
    VOCAB,
    CONTEXT,
    TIED,
    BITS,
    SHARDS,
    SEED,
    TOKENS,
    KEYS
};

static bool set(known *table, const char *argument)
{
    const char *const equals = strchr(argument, '=');
    for (size_t i = 0; equals && i < KEYS; i++) {
        const size_t len = (size_t)(equals - argument);
        if (strlen(table[i].key) != len || strncmp(table[i].key, argument, len) != 0)
            continue;
        char *end;
        errno = 0;
        table[i].value = strtoull(equals + 1, &end, 10);
        return errno == 0 && end != equals + 1 && *end == '\0' && equals[1] != '-' &&
               table[i].value < UINT32_MAX;
    }
    return false;
}

static int fail(const char *what)
{
    (void)fprintf(stderr, "make_checkpoint: %s\n", what);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    known table[KEYS] = {
        [HIDDEN] = {"hidden", 1024},   [INTERMEDIATE] = {"intermediate", 2816},
        [BLOCKS] = {"blocks", 160},    [HEADS] = {"heads", 16},
        [KV_HEADS] = {"kv_heads", 16}, [HEAD_DIM] = {"head_dim", 64},
        [VOCAB] = {"vocab", 8192},     [CONTEXT] = {"context", 2048},
        [TIED] = {"tied", 0},          [BITS] = {"bits", 16},
        [SHARDS] = {"shards", 8},      [SEED] = {"seed", 1},
        [TOKENS] = {"tokens", 65536},
    };
    if (argc < 2)
        return fail("DIRECTORY [KEY=NUMBER ...]");
    for (int i = 2; i < argc; i++)
        if (!set(table, argv[i]))
            return fail(argv[i]);
    const tiny_model m = {.hidden = (size_t)table[HIDDEN].value,
                          .intermediate = (size_t)table[INTERMEDIATE].value,
                          .blocks = (size_t)table[BLOCKS].value,
                          .heads = (size_t)table[HEADS].value,
                          .kv_heads = (size_t)table[KV_HEADS].value,
                          .head_dim = (size_t)table[HEAD_DIM].value,
                          .vocab = (size_t)table[VOCAB].value,
                          .context = (size_t)table[CONTEXT].value,
                          .tied = table[TIED].value != 0,
                          .dtype = table[BITS].value == 32 ? PARE_F32 : PARE_F16,
                          .shards = (size_t)table[SHARDS].value,
                          .seed = table[SEED].value};
    char tokens[4096];
    if (m.vocab == 0 || m.shards == 0 || m.shards > m.blocks * TINY_PER_BLOCK)
        return fail("vocab and shards must be above 0, shards at most 9 times blocks");
    (void)snprintf(tokens, sizeof tokens, "%s/tokens.i32", argv[1]);
    if (!tiny_model_write(&m, argv[1]) ||
        !tiny_tokens_write(tokens, m.vocab, (size_t)table[TOKENS].value, m.seed))
        return fail(strerror(errno));
    return EXIT_SUCCESS;
}
