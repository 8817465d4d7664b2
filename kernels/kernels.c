#define _DEFAULT_SOURCE /* syscall */
#include "kernels/kernels_internal.h"

#if defined(__x86_64__)
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

const pare_cpu_level pare_cpu_levels[PARE_CPU_LEVELS] = {
    {"ref", 0},
    {"avx2", PARE_CPU_AVX2},
    {"avxvnni", PARE_CPU_AVX2 | PARE_CPU_AVXVNNI},
    {"avx512", PARE_CPU_AVX2 | PARE_CPU_AVX512},
    {"amx", PARE_CPU_AVX2 | PARE_CPU_AVX512 | PARE_CPU_AMX},
    {"neon", PARE_CPU_NEON},
    {"dotprod", PARE_CPU_NEON | PARE_CPU_DOTPROD},
    {"i8mm", PARE_CPU_NEON | PARE_CPU_DOTPROD | PARE_CPU_I8MM},
};

#if defined(__x86_64__)
/* Compilers differ in the names they know, so these two are read from the processor. */
static int has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}

static int has_avxvnni(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4) != 0;
}

/* Linux lets a process use tiles when it asks; threads that start later may, too. */
static int may_use_tiles(void)
{
#ifdef __linux__
    enum { ASK = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM */
    return syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0;
#else
    return 0;
#endif
}

static int has_amx(void)
{
    enum { BF16 = 1u << 22, TILES = 1u << 24, INT8 = 1u << 25, KEPT = 3u << 17 };
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) ||
        !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
        (d & (BF16 | TILES | INT8)) != (BF16 | TILES | INT8))
        return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & KEPT) == KEPT && may_use_tiles();
}

unsigned pare_cpu_detect(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
        return 0;
    unsigned cpu = PARE_CPU_AVX2;
    if (has_avxvnni())
        cpu |= PARE_CPU_AVXVNNI;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni"))
        cpu |= PARE_CPU_AVX512;
    if (cpu & PARE_CPU_AVX512 && has_amx())
        cpu |= PARE_CPU_AMX;
    return cpu;
}
#elif defined(__aarch64__)
unsigned pare_cpu_detect(void)
{
    const unsigned long one = getauxval(AT_HWCAP), two = getauxval(AT_HWCAP2);
    unsigned cpu = PARE_CPU_NEON;
    if (one & 1ul << 20)
        cpu |= PARE_CPU_DOTPROD;
    if (two & 1ul << 13)
        cpu |= PARE_CPU_I8MM;
    return cpu;
}
#else
unsigned pare_cpu_detect(void)
{
    return 0;
}
#endif

const char *pare_cpu_name(unsigned cpu)
{
    size_t best = 0;
    for (size_t i = 0; i < PARE_CPU_LEVELS; i++)
        if ((pare_cpu_levels[i].cpu & ~cpu) == 0)
            best = i;
    return pare_cpu_levels[best].name;
}

void pare_kernels_init(pare_kernels *k, unsigned cpu)
{
#define X(name, ret, params, cls) k->name = pare_##name##_ref;
    PARE_KERNEL_LIST(X)
#undef X
#if defined(__x86_64__)
    pare_kernels_init_x86(k, cpu);
#elif defined(__aarch64__)
    pare_kernels_init_arm(k, cpu);
#else
    (void)cpu;
#endif
}
