/* solve/nvfp4.h - the scales of NVFP4: 8-bit floats, times one number per matrix.
 *
 *   scale  = E4M3(code) factor           16 weights of a row, code 0 .. 126
 *   factor = 2^e, the smallest with max scale <= 448 factor, e in -15 .. 7
 *
 * NVIDIA's rule is factor = max |W| / (6 448), any F32. As a power of two it leaves the scales the
 * same three bits of fraction, and products with it are exact, in F16 too. */
#ifndef PARE_SOLVE_NVFP4_H
#define PARE_SOLVE_NVFP4_H

#include "solve/grid.h"

/* The largest scale that can be stored. */
#define PARE_NVFP4_MOST 57344.0F

/* Whether a number from a file is a factor. */
bool pare_nvfp4_is_factor(float factor);

/* The factor of a matrix whose largest scale is `most`, 0 <= most <= PARE_NVFP4_MOST. */
float pare_nvfp4_factor_for(float most);

/* The factor under which a group of weights [n, k] whose largest magnitude is `most` finds its
 * scale, and with a search those up to most / 4. Finite most >= 0. */
float pare_nvfp4_factor(float most, pare_clip clip);

/* Fills scale_codes and scale_factor from out->scales, which are E4M3 values times such a power. */
void pare_nvfp4_scales(pare_codes *out);

#endif
