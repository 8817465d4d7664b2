/* compress/evaluate/python_random.h - the draws of Python's random.Random, for shots that others
 * draw with it.
 *
 * Source  Matsumoto, Nishimura, ACM TOMACS 1998 (MT19937); seeding by an array of one word, and
 *         sample(), as CPython 3.11 and later have them. */
#ifndef PARE_COMPRESS_PYTHON_RANDOM_H
#define PARE_COMPRESS_PYTHON_RANDOM_H

#include <stddef.h>
#include <stdint.h>

enum { PARE_PYTHON_WORDS = 624 };
typedef struct pare_python_random {
    uint32_t word[PARE_PYTHON_WORDS];
    size_t at;
} pare_python_random;

/* random.Random(seed). */
void pare_python_seed(pare_python_random *r, uint32_t seed);

/* getrandbits(32). */
uint32_t pare_python_word(pare_python_random *r);

/* sample(range(total), count) into picked [count], in the order of the draws; count <= total, and
 * total < 2^32, are the caller's duty. pool [total] is scratch. */
void pare_python_sample(pare_python_random *r, size_t total, size_t count, size_t *pool,
                        size_t *picked);

#endif
