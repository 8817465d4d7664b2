#include "kernels/half.h"
#include "kernels/kernels_internal.h"
#include "kernels/layout.h"

void pare_dequant_f32_ref(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    const size_t groups = (w->k + w->group - 1) / w->group;
    const uint8_t *atom = w->codes;
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N)
        for (size_t k = 0; k < w->k; k += PARE_ATOM_K, atom += pare_atom_bytes(bits)) {
            uint8_t u[PARE_ATOM_N][PARE_ATOM_K];
            pare_unpack_atom(u, atom, bits);
            for (size_t r = 0; r < PARE_ATOM_N; r++) {
                const size_t g = row * groups + k / w->group * PARE_ATOM_N + r;
                const int z = w->zeros ? w->zeros[g] : 1 << (bits - 1);
                for (size_t j = 0; j < PARE_ATOM_K; j++)
                    dst[(row + r) * ldd + k + j] =
                        (float)(u[r][j] - z) * pare_f16_to_f32(w->scales[g]);
            }
        }
}
