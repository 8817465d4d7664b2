/* kernels/kernels_internal.h - the functions behind the table. */
#ifndef PARE_KERNELS_KERNELS_INTERNAL_H
#define PARE_KERNELS_KERNELS_INTERNAL_H

#include "kernels/kernels.h"
#include "kernels/peaks.h"

#define X(name, ret, params, cls) ret pare_##name##_ref params;
PARE_KERNEL_LIST(X)
#undef X

/* gemv_packed of PARE_DECODE_EXL3. */
void pare_gemv_exl3_ref(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits);

/* f(..., bits), compiled for each width of EXL3 on its own. */
#define PARE_EXL3_OF_WIDTH(bits, f, ...)                                                           \
    switch (bits) {                                                                                \
    case 1: f(__VA_ARGS__, 1); return;                                                             \
    case 2: f(__VA_ARGS__, 2); return;                                                             \
    case 3: f(__VA_ARGS__, 3); return;                                                             \
    case 4: f(__VA_ARGS__, 4); return;                                                             \
    case 5: f(__VA_ARGS__, 5); return;                                                             \
    case 6: f(__VA_ARGS__, 6); return;                                                             \
    case 7: f(__VA_ARGS__, 7); return;                                                             \
    default: f(__VA_ARGS__, 8);                                                                    \
    }

/* Whether both halves of an atom have scales of their own. */
static inline bool pare_panel_has_halves(const pare_panel *w)
{
    return w->group == 16;
}

/* The fixed tree of the eight lanes of a sum. */
static inline float pare_lane_sum(const float l[8])
{
    return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

void pare_kernels_init_x86(pare_kernels *k, unsigned cpu);
void pare_kernels_init_avxvnni(pare_kernels *k);
void pare_kernels_init_avx512(pare_kernels *k);
void pare_kernels_init_amx(pare_kernels *k);
void pare_kernels_init_arm(pare_kernels *k, unsigned cpu);
void pare_peaks_init_avx2(pare_peaks *p);
void pare_peaks_init_avxvnni(pare_peaks *p);
void pare_peaks_init_avx512(pare_peaks *p);
void pare_peaks_init_amx(pare_peaks *p);
void pare_peaks_init_arm(pare_peaks *p, unsigned cpu);

#endif
