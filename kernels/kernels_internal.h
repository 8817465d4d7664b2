/* kernels/kernels_internal.h - the functions behind the table. */
#ifndef PARE_KERNELS_KERNELS_INTERNAL_H
#define PARE_KERNELS_KERNELS_INTERNAL_H

#include "kernels/kernels.h"
#include "kernels/peaks.h"

#define X(name, ret, params, cls) ret pare_##name##_ref params;
PARE_KERNEL_LIST(X)
#undef X

void pare_kernels_init_x86(pare_kernels *k, unsigned cpu);
void pare_kernels_init_arm(pare_kernels *k, unsigned cpu);
void pare_peaks_init_avx2(pare_peaks *p);

#endif
