#include "kernels/kernels_internal.h"

void pare_kernels_init_x86(pare_kernels *k, unsigned cpu)
{
    (void)k;
    if (!(cpu & PARE_CPU_AVX2))
        return;
}
