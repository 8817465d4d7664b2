#include "kernels/levels.h"

#include <math.h>

const float pare_levels_nf4[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

const float pare_levels_e2m1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                    -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

/* Exponent 0 counts as 1 but has no leading one: fraction 2^-9, else (8 + fraction) 2^(e - 10). */
#define EXPONENT(c)  ((c) >> 3 & 15)
#define STEPS(c)     (EXPONENT(c) ? (8 + ((c)&7)) << EXPONENT(c) : ((c)&7) << 1)
#define MAGNITUDE(c) (((c)&127) == 127 ? NAN : (float)STEPS(c) * 0x1p-10f)
#define LEVEL(c)     ((c)&128 ? -MAGNITUDE(c) : MAGNITUDE(c))
#define LEVELS_8(c)                                                                                \
    LEVEL(c), LEVEL((c) + 1), LEVEL((c) + 2), LEVEL((c) + 3), LEVEL((c) + 4), LEVEL((c) + 5),      \
        LEVEL((c) + 6), LEVEL((c) + 7)
#define LEVELS_64(c)                                                                               \
    LEVELS_8(c), LEVELS_8((c) + 8), LEVELS_8((c) + 16), LEVELS_8((c) + 24), LEVELS_8((c) + 32),    \
        LEVELS_8((c) + 40), LEVELS_8((c) + 48), LEVELS_8((c) + 56)

const float pare_levels_e4m3[256] = {LEVELS_64(0), LEVELS_64(64), LEVELS_64(128), LEVELS_64(192)};
