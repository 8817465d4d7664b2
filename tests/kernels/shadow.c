/* Checked vector kernels (pare_checked_kernels) ask libasan about each access of 32 and 64 bytes.
 * Its functions are for a region of any size, and took half of the time of these tests. The ones
 * here stand in front of them: most accesses touch only good bytes, and two words of shadow memory
 * tell that. What they do not know to be good they leave to libasan, which decides and reports. */
#include <sanitizer/asan_interface.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

void __asan_loadN(void *p, intptr_t size);
void __asan_storeN(void *p, intptr_t size);
void __asan_report_load_n(void *p, intptr_t size);
void __asan_report_store_n(void *p, intptr_t size);

/* A byte of shadow is 0 where all of its eight bytes are good. */
static inline bool is_good(const void *p, intptr_t size)
{
    const uintptr_t at = (uintptr_t)p;
    const unsigned char *const shadow = (const unsigned char *)(at / 8 + 0x7fff8000U),
                               last = *(const unsigned char *)((at + (uintptr_t)size - 1) / 8 +
                                                               0x7fff8000U);
    uint64_t eight;
    uint32_t four;
    switch (size) {
    case 32: memcpy(&four, shadow, sizeof four); return (four | last) == 0;
    case 64: memcpy(&eight, shadow, sizeof eight); return (eight | last) == 0;
    default: return false;
    }
}

/* Apart, so that the way past them saves no registers. */
__attribute__((noinline)) static void ask_load(void *p, intptr_t size)
{
    if (__asan_region_is_poisoned(p, (size_t)size))
        __asan_report_load_n(p, size);
}

__attribute__((noinline)) static void ask_store(void *p, intptr_t size)
{
    if (__asan_region_is_poisoned(p, (size_t)size))
        __asan_report_store_n(p, size);
}

void __asan_loadN(void *p, intptr_t size)
{
    if (!is_good(p, size))
        ask_load(p, size);
}

void __asan_storeN(void *p, intptr_t size)
{
    if (!is_good(p, size))
        ask_store(p, size);
}
