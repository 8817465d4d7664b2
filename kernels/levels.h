/* kernels/levels.h - the values that codes of table encodings stand for, before their scale.
 *
 *   nf4   the 16 levels of NormalFloat-4, ascending, as printed in appendix E of "QLoRA"
 *         (Dettmers et al., 2023): quantiles of the normal distribution, 0 and +-1 among them
 *   e2m1  4-bit floats of OCP MXFP4: sign, two bits of exponent (bias 1), one of fraction;
 *         0, 0.5, 1, 1.5, 2, 3, 4, 6 and, from code 8 on, their negatives
 *   e4m3  8-bit floats of OCP FP8: sign, four bits of exponent (bias 7), three of fraction;
 *         largest 448, smallest 2^-9, codes 0x7f and 0xff are NaN, there is no infinity */
#ifndef PARE_KERNELS_LEVELS_H
#define PARE_KERNELS_LEVELS_H

extern const float pare_levels_nf4[16];
extern const float pare_levels_e2m1[16];
extern const float pare_levels_e4m3[256];

#endif
