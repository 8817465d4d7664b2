/* tests/ptx/ptx_ops_test.h - runs one opcode over many operands and compares each result with what
 * C says. A case names the opcode, the bytes of its operands (destination first; p: a predicate,
 * whose result is 0 or 1) and a function of the bits of the sources. */
#ifndef PARE_TESTS_PTX_OPS_TEST_H
#define PARE_TESTS_PTX_OPS_TEST_H

#include <inttypes.h>
#include <math.h>

#include "tests/ptx/ptx_test.h"

typedef uint64_t op_reference(uint64_t a, uint64_t b, uint64_t c);

typedef struct op_case {
    const char *opcode;
    const char *sizes;
    op_reference *reference;
} op_case;

static inline float op_f32(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float v;
    memcpy(&v, &low, sizeof v);
    return v;
}

static inline double op_f64(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* A NaN of F32 arithmetic is 7fffffff. */
static inline uint64_t op_bits32(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return isnan(v) ? 0x7fffffffu : bits;
}

static inline uint64_t op_bits64(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static inline uint64_t op_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33 ^ *state << 13;
}

enum { OP_VALUES = 4096 };

/* PTX that loads up to three operands of a lane, runs one instruction and stores the result. */
static inline void op_text(char *text, size_t most, const op_case *c)
{
    const size_t n = strlen(c->sizes);
    size_t at = (size_t)snprintf(
        text, most,
        PTX_HEAD ".visible .entry k(.param .u64 src, .param .u64 dst) {\n"
                 ".reg .pred %%p<3>; .reg .b16 %%h<5>; .reg .b32 %%r<8>; .reg .b64 %%d<12>;\n"
                 "ld.param.u64 %%d10, [src]; ld.param.u64 %%d11, [dst];\n"
                 "mov.u32 %%r5, %%tid.x; mov.u32 %%r6, %%ctaid.x; mov.u32 %%r7, %%ntid.x;\n"
                 "mad.lo.s32 %%r5, %%r6, %%r7, %%r5; mul.wide.u32 %%d9, %%r5, 32;\n"
                 "add.s64 %%d10, %%d10, %%d9; mul.wide.u32 %%d9, %%r5, 8;\n"
                 "add.s64 %%d11, %%d11, %%d9;\n");
    for (size_t k = 1; k < n; k++) {
        const char s = c->sizes[k];
        if (s == 'p')
            at += (size_t)snprintf(text + at, most - at,
                                   "ld.global.u32 %%r4, [%%d10+%zu]; and.b32 %%r4, %%r4, 1;"
                                   "setp.ne.u32 %%p%zu, %%r4, 0;\n",
                                   8 * (k - 1), k % 3);
        else
            at += (size_t)snprintf(text + at, most - at, "ld.global.b%d %%%c%zu, [%%d10+%zu];\n",
                                   8 * (s - '0'),
                                   s == '8'   ? 'd'
                                   : s == '4' ? 'r'
                                              : 'h',
                                   k, 8 * (k - 1));
    }
    at += (size_t)snprintf(text + at, most - at, "%s ", c->opcode);
    for (size_t k = 0; k < n; k++) {
        const char s = c->sizes[k];
        at += (size_t)snprintf(text + at, most - at, "%s%%%c%zu", k ? ", " : "",
                               s == 'p'   ? 'p'
                               : s == '8' ? 'd'
                               : s == '4' ? 'r'
                                          : 'h',
                               s == 'p' ? k % 3 : k);
    }
    const char s = c->sizes[0];
    at += (size_t)snprintf(text + at, most - at,
                           ";\nmov.u64 %%d8, 0; st.global.u64 [%%d11], %%d8;\n");
    if (s == 'p')
        at += (size_t)snprintf(text + at, most - at,
                               "selp.u32 %%r0, 1, 0, %%p0; st.global.u32 [%%d11], %%r0;\nret; }\n");
    else
        at += (size_t)snprintf(text + at, most - at, "st.global.b%d [%%d11], %%%c0;\nret; }\n",
                               8 * (s - '0'),
                               s == '8'   ? 'd'
                               : s == '4' ? 'r'
                                          : 'h');
    ck_assert_uint_lt(at, most);
}

static inline uint64_t op_cut(uint64_t v, char size)
{
    return size == '8' ? v : size == '4' ? v & 0xffffffffu : size == '2' ? v & 0xffffu : v & 1;
}

static inline void op_check(const op_case *c, const uint64_t *sources, bool nan_is_nan)
{
    static char text[4096];
    static uint64_t results[OP_VALUES];
    op_text(text, sizeof text, c);
    ptx_machine *const m = ptx_machine_new();
    ptx_module *const module = ptx_load(m, text, strlen(text));
    ck_assert_msg(module != NULL, "%s: %s\n%s", c->opcode, ptx_report(m)->text, text);
    ptx_arguments a = {.used = 0};
    const uint64_t target = ptx_take(m, sizeof results);
    ptx_pass_u64(&a, ptx_upload(m, sources, OP_VALUES * 4 * sizeof *sources));
    ptx_pass_u64(&a, target);
    const ptx_launch l = ptx_line(module, "k", OP_VALUES / 128, 128, &a);
    ptx_must_run(m, &l);
    ck_assert(ptx_get(m, results, target, sizeof results));
    for (size_t k = 0; k < OP_VALUES; k++) {
        uint64_t in[3] = {0, 0, 0};
        for (size_t j = 1; c->sizes[j]; j++)
            in[j - 1] = op_cut(sources[4 * k + j - 1], c->sizes[j]);
        const uint64_t want = op_cut(c->reference(in[0], in[1], in[2]), c->sizes[0]);
        const bool both_nan = nan_is_nan && isnan(op_f64(want)) && isnan(op_f64(results[k]));
        ck_assert_msg(results[k] == want || both_nan,
                      "%s of %#" PRIx64 ", %#" PRIx64 ", %#" PRIx64 " gives %#" PRIx64
                      ", not %#" PRIx64,
                      c->opcode, in[0], in[1], in[2], results[k], want);
    }
    ptx_machine_free(m);
}

/* Edge values in every combination for two operands, then random ones. */
static inline void op_sources(uint64_t *sources, const uint64_t *edges, size_t n, uint64_t seed)
{
    for (size_t k = 0; k < OP_VALUES; k++)
        for (size_t j = 0; j < 4; j++) {
            const bool edge = k < n * n || op_random(&seed) % 4 == 0;
            const size_t which = j == 0 ? k % n : j == 1 ? k / n % n : op_random(&seed) % n;
            sources[4 * k + j] = edge ? edges[which] : op_random(&seed) ^ op_random(&seed) << 32;
        }
}

#endif
