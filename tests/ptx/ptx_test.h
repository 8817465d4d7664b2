/* tests/ptx/ptx_test.h - what the tests of the interpreter share: a machine, a module from text,
 * and arguments packed as a kernel wants them. */
#ifndef PARE_TESTS_PTX_TEST_H
#define PARE_TESTS_PTX_TEST_H

#include <string.h>

#include "tests/ptx/ptx.h"
#include "tests/unit/unit.h"

#define PTX_HEAD ".version 9.0\n.target sm_80\n.address_size 64\n"

typedef struct ptx_arguments {
    unsigned char bytes[512];
    size_t used;
} ptx_arguments;

/* One more argument, at its own alignment. */
static inline void ptx_pass(ptx_arguments *a, const void *value, size_t bytes)
{
    a->used = (a->used + bytes - 1) / bytes * bytes;
    memcpy(a->bytes + a->used, value, bytes);
    a->used += bytes;
}

static inline void ptx_pass_u64(ptx_arguments *a, uint64_t v)
{
    ptx_pass(a, &v, sizeof v);
}

static inline void ptx_pass_u32(ptx_arguments *a, uint32_t v)
{
    ptx_pass(a, &v, sizeof v);
}

/* Device memory with a copy of these bytes. */
static inline uint64_t ptx_upload(ptx_machine *m, const void *source, size_t bytes)
{
    const uint64_t address = ptx_take(m, bytes);
    ck_assert_msg(address && ptx_put(m, address, source, bytes), "%s", ptx_report(m)->text);
    return address;
}

static inline ptx_module *ptx_must_load(ptx_machine *m, const char *text)
{
    ptx_module *const module = ptx_load(m, text, strlen(text));
    ck_assert_msg(module != NULL, "%s", ptx_report(m)->text);
    return module;
}

/* Blocks of lanes in one dimension. */
static inline ptx_launch ptx_line(const ptx_module *module, const char *kernel, uint32_t blocks,
                                  uint32_t lanes, const ptx_arguments *a)
{
    const ptx_kernel *const k = ptx_find(module, kernel);
    ck_assert_msg(k != NULL, "no kernel %s", kernel);
    return (ptx_launch){.kernel = k,
                        .grid = {blocks, 1, 1},
                        .block = {lanes, 1, 1},
                        .arguments = a->bytes,
                        .bytes = a->used,
                        .options = {.checks = PTX_FULL, .limit = 1000000}};
}

static inline void ptx_must_run(ptx_machine *m, const ptx_launch *l)
{
    ck_assert_msg(ptx_run(m, l), "%s", ptx_report(m)->text);
}

/* The launch must fail with a report that holds these words. */
static inline void ptx_must_fail(ptx_machine *m, const ptx_launch *l, const char *words)
{
    ck_assert_msg(!ptx_run(m, l), "no fault, but '%s' was expected", words);
    ck_assert_msg(strstr(ptx_report(m)->text, words) != NULL, "'%s' lacks '%s'",
                  ptx_report(m)->text, words);
}

#endif
