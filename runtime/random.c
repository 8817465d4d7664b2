#include "runtime/random.h"

#include <assert.h>
#include <math.h>

enum { ROUNDS = 10 };

typedef struct words {
    uint32_t w[4];
} words;

static words philox(uint64_t key, uint64_t low, uint64_t high)
{
    words x = {{(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)}};
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t p0 = (uint64_t)x.w[0] * 0xD2511F53u, p1 = (uint64_t)x.w[2] * 0xCD9E8D57u;
        x = (words){{(uint32_t)(p1 >> 32) ^ x.w[1] ^ k0, (uint32_t)p1,
                     (uint32_t)(p0 >> 32) ^ x.w[3] ^ k1, (uint32_t)p0}};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return x;
}

static uint64_t join(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

uint64_t pare_random_u64(uint64_t seed, uint64_t stream, uint64_t index)
{
    const words x = philox(seed, index, stream);
    return join(x.w[0], x.w[1]);
}

double pare_random_unit(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (double)(pare_random_u64(seed, stream, index) >> 11) * 0x1p-53;
}

double pare_random_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    const words x = philox(seed, index, stream);
    const double u = (double)((join(x.w[0], x.w[1]) >> 11) + 1) * 0x1p-53; /* (0, 1] */
    const double v = (double)(join(x.w[2], x.w[3]) >> 11) * 0x1p-53;
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

uint64_t pare_random_stream(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

void pare_random_choose(uint64_t seed, uint64_t stream, size_t total, size_t count, size_t *picked)
{
    assert(count <= total);
    size_t taken = 0;
    for (size_t i = 0; taken < count; i++)
        if (pare_random_unit(seed, stream, i) * (double)(total - i) < (double)(count - taken))
            picked[taken++] = i;
}
