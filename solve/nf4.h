/* solve/nf4.h - double quantization: the scales of NF4 stored in 8 bits.
 *
 *   offset = mean of all scales
 *   step   = max |scale - offset| / 127 over 256 scales that lie together in the stored plane
 *   code   = clamp(rint((scale - offset) / step) + 128, 1, 255)
 *   scale' = f16(offset + step * (code - 128))
 * scale' is what weights are rounded with. Where it would be negative or -0, which takes a
 * group of almost no weight among large ones, the code is one higher. */
#ifndef PARE_SOLVE_NF4_H
#define PARE_SOLVE_NF4_H

#include "solve/grid.h"

enum { PARE_NF4_SCALES = 256 };

/* Value of a code of a scale; the loader of the file computes the same bits. */
float pare_nf4_scale(float offset, float step, uint8_t code);

/* out->scales in: max |w| of each group; out: what ships. Fills scale_codes, scale_steps,
 * scale_offset. The mean is over the scales of real rows, in double, in the order of the rows.
 *   Source  Dettmers et al., NeurIPS 2023, section 3 (there an 8-bit float, here an integer). */
void pare_nf4_scales(pare_codes *out);

#endif
