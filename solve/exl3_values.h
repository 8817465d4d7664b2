/* solve/exl3_values.h - what trellis codes stand for: W = diag(r) H V H diag(c) of
 * runtime/linear_exl3.h.
 */
#ifndef PARE_SOLVE_EXL3_VALUES_H
#define PARE_SOLVE_EXL3_VALUES_H

#include "solve/grid.h"

/* Every row of x [rows, count], `ldx` apart, in place: spans of pare_exl3_span(count) values times
 * the Hadamard matrix, as hadamard_f32 of kernels.h. */
void pare_exl3_mix_rows(float *x, size_t ldx, size_t rows, size_t count);

/* Every column of x [rows, count], `ldx` apart, in place: spans of pare_exl3_span(rows) values. The
 * same sums as of rows. */
void pare_exl3_mix_columns(float *x, size_t ldx, size_t rows, size_t count);

/* The values of the symbols of a tile, as they lie: code [16, 16], ldc apart, into v, ldv apart. */
void pare_exl3_tile_values(const uint8_t *code, size_t ldc, unsigned bits, float *v, size_t ldv);

/* The weights [n, k] that codes stand for, to the bit what pare_linear_to_f32 gives. */
void pare_exl3_codes_values(const pare_codes *c, unsigned bits, float *dst);

#endif
