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
