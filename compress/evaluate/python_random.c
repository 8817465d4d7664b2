#include "compress/evaluate/python_random.h"

#include <assert.h>

enum { WORDS = PARE_PYTHON_WORDS, MIDDLE = 397 };

/* The state that the reference program starts an array of keys from, then one key mixed in. */
void pare_python_seed(pare_python_random *r, uint32_t seed)
{
    uint32_t *const w = r->word;
    size_t i = 1;
    w[0] = 19650218u;
    for (size_t j = 1; j < WORDS; j++)
        w[j] = 1812433253u * (w[j - 1] ^ (w[j - 1] >> 30)) + (uint32_t)j;
    for (size_t k = 0; k < WORDS; k++) {
        w[i] = (w[i] ^ ((w[i - 1] ^ (w[i - 1] >> 30)) * 1664525u)) + seed;
        if (++i == WORDS) {
            w[0] = w[WORDS - 1];
            i = 1;
        }
    }
    for (size_t k = 1; k < WORDS; k++) {
        w[i] = (w[i] ^ ((w[i - 1] ^ (w[i - 1] >> 30)) * 1566083941u)) - (uint32_t)i;
        if (++i == WORDS) {
            w[0] = w[WORDS - 1];
            i = 1;
        }
    }
    w[0] = 0x80000000u;
    r->at = WORDS;
}

static void refill(pare_python_random *r)
{
    uint32_t *const w = r->word;
    for (size_t i = 0; i < WORDS; i++) {
        const uint32_t y = (w[i] & 0x80000000u) | (w[(i + 1) % WORDS] & 0x7fffffffu);
        w[i] = w[(i + MIDDLE) % WORDS] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    r->at = 0;
}

uint32_t pare_python_word(pare_python_random *r)
{
    if (r->at == WORDS)
        refill(r);
    uint32_t y = r->word[r->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

/* Uniform in [0, n): words with as many bits as n has, until one is below it. */
static size_t below(pare_python_random *r, size_t n)
{
    unsigned bits = 0;
    uint32_t x;
    for (size_t rest = n; rest; rest >>= 1)
        bits++;
    assert(bits > 0 && bits <= 32);
    do
        x = pare_python_word(r) >> (32 - bits);
    while (x >= n);
    return x;
}

/* Of few, the drawn one is replaced by the last; of many, a number that came already is drawn
 * again. Which of both decides what is drawn. */
void pare_python_sample(pare_python_random *r, size_t total, size_t count, size_t *pool,
                        size_t *picked)
{
    size_t few = 21, power = 1;
    while (power < count * 3)
        power *= 4;
    few += count > 5 ? power : 0;
    for (size_t i = 0; i < total; i++)
        pool[i] = total <= few ? i : 0;
    for (size_t i = 0; i < count; i++) {
        size_t j = below(r, total <= few ? total - i : total);
        if (total <= few) {
            picked[i] = pool[j];
            pool[j] = pool[total - i - 1];
            continue;
        }
        while (pool[j])
            j = below(r, total);
        pool[j] = 1;
        picked[i] = j;
    }
}
