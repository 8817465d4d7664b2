#include "kernels/kernels_internal.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* clang 14 has no name for F16C in __builtin_cpu_supports. */
static int has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}
#endif

unsigned pare_cpu_detect(void)
{
    unsigned cpu = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c())
        cpu |= PARE_CPU_AVX2;
#endif
    return cpu;
}

const char *pare_cpu_name(unsigned cpu)
{
    return cpu & PARE_CPU_AVX2 ? "avx2" : "ref";
}

void pare_kernels_init(pare_kernels *k, unsigned cpu)
{
#define X(name, ret, params, cls) k->name = pare_##name##_ref;
    PARE_KERNEL_LIST(X)
#undef X
#if defined(__x86_64__)
    pare_kernels_init_x86(k, cpu);
#else
    (void)cpu;
#endif
}
