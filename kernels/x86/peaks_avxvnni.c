#define PARE_VNNI_BITS 256
#include "kernels/x86/peaks_vnni.h"

#ifdef PARE_VNNI

void pare_peaks_init_avxvnni(pare_peaks *p)
{
    p->dot_int8 = dot_int8;
}

#endif
