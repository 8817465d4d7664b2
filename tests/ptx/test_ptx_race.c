/* Copies in flight, races, what is undefined, and counters. Each detector is shown a kernel that is
 * right and one with a fault planted, in every order of warps. */
#include "tests/ptx/ptx_test.h"

static ptx_machine *m;

static void begin(void)
{
    m = ptx_machine_new();
}

static void end(void)
{
    ptx_machine_free(m);
}

/* Kernel k(u64 x, u64 y, u32 n): %d0 = x, %d1 = y, %r0 = n, %r1 = lane of the block, %r2 = 4 lane,
 * %r3 = s, 8 KB of shared memory, %r4 = s + 4 lane, %d2 = x + 4 lane of the grid, %d3 = y + the
 * same. */
#define KERNEL(body)                                                                               \
    PTX_HEAD ".visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n)\n{\n"                 \
             ".reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %d<16>; .reg .b16 %h<4>;\n"            \
             ".shared .align 128 .b8 s[8192];\n"                                                   \
             "ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y]; ld.param.u32 %r0, [n];\n"              \
             "mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, s; add.u32 %r4, %r3, %r2;\n"  \
             "mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ntid.x; mad.lo.u32 %r5, %r5, %r6, %r1;\n"       \
             "mul.wide.u32 %d4, %r5, 4; add.u64 %d2, %d0, %d4; add.u64 %d3, %d1, %d4;\n" body      \
             "\nret;\n}\n"

/* Text with lines: .loc 1 N 0 in front of each statement ended by a newline. */
static const char *with_lines(const char *text)
{
    static char out[16384];
    size_t at = 0;
    unsigned line = 0;
    const char *const body = strstr(text, "add.u64 %d3, %d1, %d4;\n") + 23;
    at += (size_t)snprintf(out, sizeof out, "%.*s", (int)(body - text), text);
    for (const char *c = body; *c;) {
        const size_t n = strcspn(c, "\n");
        if (*c != '}' && n)
            at += (size_t)snprintf(out + at, sizeof out - at, ".loc 1 %u 0\n", ++line);
        at += (size_t)snprintf(out + at, sizeof out - at, "%.*s\n", (int)n, c);
        c += n + (c[n] == '\n');
    }
    ck_assert_uint_lt(at, sizeof out);
    return out;
}

enum { BYTES = 65536 };
static uint64_t x, y;

static ptx_launch prepare(const char *text, uint32_t blocks, uint32_t lanes)
{
    static ptx_arguments a;
    static uint32_t values[BYTES / 4];
    for (uint32_t k = 0; k < BYTES / 4; k++)
        values[k] = k * 7 + 1;
    a = (ptx_arguments){.used = 0};
    x = ptx_upload(m, values, sizeof values);
    y = ptx_take(m, BYTES);
    ck_assert(ptx_fill(m, y, 0, BYTES));
    ptx_pass_u64(&a, x);
    ptx_pass_u64(&a, y);
    ptx_pass_u32(&a, 0);
    return ptx_line(ptx_must_load(m, with_lines(text)), "k", blocks, lanes, &a);
}

/* Copies 16 bytes a lane in two stages of 512 lanes' worth; the numbers of the waits, and the
 * barrier, are what the cases change. y = the neighbour's words added. */
#define PIPELINE(first, second, barrier, guard)                                                    \
    KERNEL("shl.b32 %r7, %r1, 4; add.u32 %r8, %r3, %r7; mul.wide.u32 %d5, %r1, 16; add.u64 %d6, "  \
           "%d0, %d5;\n"                                                                           \
           "cp.async.cg.shared.global [%r8], [%d6], 16; cp.async.commit_group;\n"                  \
           "cp.async.cg.shared.global [%r8+2048], [%d6+2048], 16; cp.async.commit_group;\n"        \
           "cp.async.wait_group " first ";\n" barrier "\n"                                         \
           "xor.b32 %r9, %r2, 128; add.u32 %r9, %r3, %r9;\n"                                       \
           "ld.shared.u32 %r10, [%r9];\n" guard "\n"                                               \
           "cp.async.wait_group " second ";\nbar.sync 0;\n"                                        \
           "ld.shared.u32 %r11, [%r9+2048]; add.u32 %r10, %r10, %r11;\n"                           \
           "st.global.u32 [%d3], %r10;")

static const struct {
    const char *text, *fault; /* NULL: right */
    unsigned line;
} pipelines[] = {
    {PIPELINE("1", "0", "bar.sync 0;", ""), NULL, 0},
    {PIPELINE("2", "0", "bar.sync 0;", ""), "a copy of line 2 is on its way", 7},
    {PIPELINE("1", "1", "bar.sync 0;", ""), "a copy of line 3 is on its way", 10},
    {PIPELINE("1", "0", "", ""), "shared memory at ", 0}, /* at the copy or at the read */
    {PIPELINE("1", "0", "bar.warp.sync -1;", ""), "shared memory at ", 0},
    {PIPELINE("1", "0", "bar.sync 0;", "st.shared.u32 [%r4+2048], %r10;"), "is on its way", 8},
    {PIPELINE("1", "0", "bar.sync 0;", "st.global.u32 [%d2+2048], %r10;"), "changed while", 9},
    {PIPELINE("1", "0", "bar.sync 0;", "cp.async.cg.shared.global [%r8], [%d6+4096], 16;"),
     "read at line 7, with no barrier between", 8},
};

static uint32_t word(uint32_t k)
{
    return k * 7 + 1;
}

START_TEST(copies_land_at_their_wait)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        ptx_launch l = prepare(pipelines[_i].text, 1, 128);
        l.options.order = seed < 3 ? (ptx_order)seed : PTX_RANDOM;
        l.options.seed = seed;
        l.options.early = seed % 2;
        if (pipelines[_i].fault) {
            ptx_must_fail(m, &l, pipelines[_i].fault);
            const unsigned line = ptx_report(m)->line;
            ck_assert_msg(line == pipelines[_i].line || !pipelines[_i].line, "line %u: %s", line,
                          ptx_report(m)->text);
            continue;
        }
        ptx_must_run(m, &l);
        uint32_t got[128];
        ck_assert(ptx_get(m, got, y, sizeof got));
        for (uint32_t k = 0; k < 128; k++)
            ck_assert_uint_eq(got[k], word(k ^ 32) + word((k ^ 32) + 512));
    }
}
END_TEST

START_TEST(light_checks_run_copies_too)
{
    for (int early = 0; early < 2; early++) {
        ptx_launch l = prepare(pipelines[0].text, 1, 128);
        l.options.checks = PTX_LIGHT;
        l.options.early = early;
        ptx_must_run(m, &l);
        uint32_t got[128];
        ck_assert(ptx_get(m, got, y, sizeof got));
        ck_assert_uint_eq(got[5], word(5 ^ 32) + word((5 ^ 32) + 512));
        /* a wait that is too lax shows in the values of one of the two models */
        l = prepare(pipelines[1].text, 1, 128);
        l.options.checks = PTX_LIGHT;
        l.options.early = early;
        ptx_must_run(m, &l);
        ck_assert(ptx_get(m, got, y, sizeof got));
        ck_assert(early == (got[5] == word(5 ^ 32) + word((5 ^ 32) + 512)));
    }
}
END_TEST

START_TEST(a_copy_may_keep_fewer_bytes)
{
    const char *const text = KERNEL(
        "mov.u32 %r7, 0; setp.lt.u32 %p0, %r1, 2;\n"
        "selp.b32 %r7, 4, 0, %p0; setp.eq.u32 %p1, %r1, 1; selp.b32 %r7, 2, %r7, %p1;\n"
        "selp.b64 %d7, %d2, 12, %p0;\n" /* where nothing is kept the address may be anything */
        "cp.async.ca.shared.global [%r4], [%d7], 4, %r7; cp.async.wait_all;\n"
        "ld.shared.u32 %r10, [%r4]; st.global.u32 [%d3], %r10;");
    const ptx_launch l = prepare(text, 1, 32);
    ptx_must_run(m, &l);
    uint32_t got[32];
    ck_assert(ptx_get(m, got, y, sizeof got));
    ck_assert_uint_eq(got[0], word(0));
    ck_assert_uint_eq(got[1], word(1) & 0xffff);
    ck_assert_uint_eq(got[2] | got[31], 0);
}
END_TEST

/* ---- bulk copies and mbarriers: warp 0 fills two buffers of 512 bytes in turn, three warps read
 * them. full = s + 4096, 8 bytes each; free = s + 4112. The cases leave out a wait, an arrival, a
 * byte. ---- */
#define BULK(bytes, wait_full, arrive, wait_free)                                                  \
    KERNEL(                                                                                        \
        "setp.eq.u32 %p0, %r1, 0;\nadd.u32 %r7, %r3, 4096;\nadd.u32 %r8, %r3, 4112;\n@!%p0 bra "   \
        "I;\n"                                                                                     \
        "mbarrier.init.shared::cta.b64 [%r7], 1;\nmbarrier.init.shared::cta.b64 [%r7+8], 1;\n"     \
        "mbarrier.init.shared::cta.b64 [%r8], 96;\nmbarrier.init.shared::cta.b64 [%r8+8], 96;\n"   \
        "fence.mbarrier_init.release.cluster;\nI: bar.sync 0;\nmov.u32 %r9, 0;\nmov.u32 %r20, "    \
        "0;\n"                                                                                     \
        "setp.lt.u32 %p1, %r1, 32;\n@!%p1 bra C;\n"                                                \
        "P: and.b32 %r10, %r9, 1;\nshl.b32 %r11, %r10, 3;\nadd.u32 %r12, %r7, %r11;\n"             \
        "add.u32 %r13, %r8, %r11;\nshr.u32 %r14, %r9, 1;\nand.b32 %r14, %r14, 1;\nxor.b32 %r14, "  \
        "%r14, 1;\n"                                                                               \
        "setp.lt.u32 %p3, %r9, 2;\n@%p3 bra F;\n"                                                  \
        "W: " wait_free "\nF: @!%p0 bra N;\n"                                                      \
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r12], " bytes ";\n"                        \
        "shl.b32 %r15, %r10, 9;\nadd.u32 %r15, %r3, %r15;\nmul.wide.u32 %d5, %r9, 512;\nadd.u64 "  \
        "%d5, %d0, %d5;\n"                                                                         \
        "mov.u32 %r16, 512;\n"                                                                     \
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r15], [%d5], %r16, "  \
        "[%r12];\n"                                                                                \
        "N: add.u32 %r9, %r9, 1;\nsetp.lt.u32 %p2, %r9, 6;\n@%p2 bra P;\nret;\n"                   \
        "C: and.b32 %r10, %r9, 1;\nshl.b32 %r11, %r10, 3;\nadd.u32 %r12, %r7, %r11;\n"             \
        "add.u32 %r13, %r8, %r11;\nshr.u32 %r14, %r9, 1;\nand.b32 %r14, %r14, 1;\n"                \
        "V: " wait_full "\nshl.b32 %r15, %r10, 9;\nadd.u32 %r15, %r4, %r15;\n"                     \
        "ld.shared.u32 %r16, [%r15+-128];\nadd.u32 %r20, %r20, %r16;\n" arrive "\n"                \
        "add.u32 %r9, %r9, 1;\nsetp.lt.u32 %p2, %r9, 6;\n@%p2 bra C;\nst.global.u32 [%d3], %r20;")
#define WAIT(what, label)                                                                          \
    "mbarrier.try_wait.parity.shared::cta.b64 %p4, [" what "], %r14;\n@!%p4 bra " label ";"
#define FREE "mbarrier.arrive.shared::cta.b64 %d7, [%r13];"

/* What is reported depends on who comes first; each of these names the line. */
static const struct {
    const char *text, *faults[4]; /* NULL: right */
} bulks[] = {
    {BULK("512", WAIT("%r12", "V"), FREE, WAIT("%r13", "W")), {NULL}},
    {BULK("528", WAIT("%r12", "V"), FREE, WAIT("%r13", "W")), {"never come"}},
    {BULK("512", "", FREE, WAIT("%r13", "W")), {"on its way", "undefined", "no barrier between"}},
    {BULK("512", WAIT("%r12", "V"), "", WAIT("%r13", "W")), {"never come"}},
    {BULK("512", WAIT("%r12", "V"), FREE, ""),
     {"no barrier between", "on its way", "where 0 lack", "never come"}},
    {BULK("512", WAIT("%r12", "V"), FREE FREE, WAIT("%r13", "W")),
     {"where 0 lack", "never come", "no barrier between", "on its way"}},
};

static bool is_one_of(const char *text, const char *const *words)
{
    for (int k = 0; k < 4 && words[k]; k++)
        if (strstr(text, words[k]))
            return true;
    return false;
}

START_TEST(bulk_copies_complete_phases)
{
    for (uint64_t seed = 0; seed < 16; seed++) {
        ptx_launch l = prepare(bulks[_i].text, 1, 128);
        l.options.order = seed < 3 ? (ptx_order)seed : PTX_RANDOM;
        l.options.seed = seed;
        l.options.early = seed % 5 == 4;
        if (bulks[_i].faults[0]) {
            ck_assert_msg(!ptx_run(m, &l), "no fault with seed %d", (int)seed);
            ck_assert_msg(is_one_of(ptx_report(m)->text, bulks[_i].faults), "%s",
                          ptx_report(m)->text);
            continue;
        }
        ptx_must_run(m, &l);
        uint32_t got[128];
        ck_assert(ptx_get(m, got, y, sizeof got));
        for (uint32_t k = 32; k < 128; k++) {
            uint32_t sum = 0;
            for (uint32_t stage = 0; stage < 6; stage++)
                sum += word(128 * stage + k - 32);
            ck_assert_uint_eq(got[k], sum);
        }
    }
}
END_TEST

/* ---- races in shared memory: statement by statement, the line that must be reported ---- */
static const struct {
    const char *text, *fault;
    unsigned line;
} races[] = {
    /* between warps */
    {KERNEL("st.shared.u32 [%r4], %r1;\nbar.sync 0;\nxor.b32 %r7, %r4, 128;\n"
            "ld.shared.u32 %r8, [%r7];\nbar.sync 0;\nst.shared.u32 [%r4], %r8;"),
     NULL, 0},
    {KERNEL("st.shared.u32 [%r4], %r1;\nmov.u32 %r9, 0;\nxor.b32 %r7, %r4, 128;\n"
            "ld.shared.u32 %r8, [%r7];"),
     "no barrier between", 0},
    {KERNEL("st.shared.u32 [%r4], %r1;\nbar.sync 0;\nxor.b32 %r7, %r4, 128;\n"
            "ld.shared.u32 %r8, [%r7];\nst.shared.u32 [%r4], %r8;"),
     "no barrier between", 0},
    {KERNEL("st.shared.u32 [s], %r0;"), "wrote at line 1, with no barrier between", 1},
    {KERNEL("setp.eq.u32 %p0, %r1, 0;\n@%p0 st.shared.u32 [s], %r1;\nbar.sync 0;\n"
            "ld.shared.u32 %r7, [s];\nbar.sync 1;\n@%p0 st.shared.u32 [s], %r7;"),
     NULL, 0},
    /* a barrier of two warps does not order the third */
    {KERNEL("setp.ge.u32 %p0, %r1, 64;\n@%p0 bra L;\nst.shared.u32 [%r4], %r1;\nbar.sync 3, 64;\n"
            "xor.b32 %r7, %r4, 128;\nld.shared.u32 %r8, [%r7];\nL: bar.sync 0;"),
     NULL, 0},
    {KERNEL("setp.ge.u32 %p0, %r1, 64;\n@%p0 bra L;\nst.shared.u32 [%r4], %r1;\nbar.sync 3, "
            "64;\nret;\n"
            "L: ld.shared.u32 %r8, [s];"),
     "shared memory at 0x400", 0},
    /* one side only arrives */
    {KERNEL("setp.lt.u32 %p0, %r1, 32;\n@%p0 bra P;\nbar.sync 1, 128;\nld.shared.u32 %r8, [s];\n"
            "bar.sync 0;\nret;\nP: setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [s], %r1;\n"
            "bar.arrive 1, 128;\nbar.sync 0;"),
     NULL, 0},
    {KERNEL("setp.lt.u32 %p0, %r1, 32;\n@%p0 bra P;\nbar.sync 1, 128;\nld.shared.u32 %r8, [s];\n"
            "bar.sync 0;\nret;\nP: setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [s], %r1;\n"
            "bar.arrive 1, 128;\n@%p1 st.shared.u32 [s], %r1;\nbar.sync 0;"),
     "shared memory at 0x400", 0},
    /* between lanes of a warp */
    {KERNEL("st.shared.u32 [%r4], %r1;\nbar.warp.sync -1;\nxor.b32 %r7, %r4, 4;\nld.shared.u32 "
            "%r8, [%r7];"),
     NULL, 0},
    {KERNEL("st.shared.u32 [%r4], %r1;\nxor.b32 %r7, %r4, 4;\nld.shared.u32 %r8, [%r7];"),
     "lane 1 of warp", 3},
    {KERNEL("st.shared.u32 [%r4], %r1;\nshfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;\nxor.b32 %r7, %r4, "
            "4;\n"
            "ld.shared.u32 %r8, [%r7];"),
     "wrote at line 1", 4},
    {KERNEL("shl.b32 %r7, %r1, 7;\nand.b32 %r7, %r7, 4096;\nadd.u32 %r7, %r3, %r7;\n"
            "st.shared.u32 [%r7], %r1;"),
     "different values", 4},
    /* narrow accesses */
    {KERNEL(
         "add.u32 %r7, %r3, %r1;\nst.shared.u8 [%r7], %r1;\nbar.sync 0;\nld.shared.u32 %r8, [s];"),
     NULL, 0},
    {KERNEL("add.u32 %r7, %r3, %r1;\nst.shared.u8 [%r7], %r1;\nld.shared.u8 %h0, [%r7];\n"
            "xor.b32 %r7, %r7, 64;\nld.shared.u8 %h0, [%r7];"),
     "no barrier between", 0},
    /* atomics */
    {KERNEL("setp.eq.u32 %p0, %r1, 0;\n@%p0 st.shared.u32 [s], %r0;\nbar.sync 0;\n"
            "atom.shared.add.u32 %r7, [s], 1;\nbar.sync 0;\nld.shared.u32 %r7, [s];"),
     NULL, 0},
    {KERNEL("setp.eq.u32 %p0, %r1, 0;\n@%p0 st.shared.u32 [s], %r0;\nbar.sync 0;\n"
            "atom.shared.add.u32 %r7, [s], 1;\nld.shared.u32 %r7, [s];"),
     "no barrier between", 0},
};

START_TEST(a_missing_barrier_is_found_in_any_order)
{
    ptx_launch l = prepare(races[_i].text, 1, 128);
    for (uint64_t seed = 0; seed < 12; seed++) {
        l.options.order = seed < 3 ? (ptx_order)seed : PTX_RANDOM;
        l.options.seed = seed;
        if (!races[_i].fault) {
            ptx_must_run(m, &l);
            continue;
        }
        ptx_must_fail(m, &l, races[_i].fault);
        if (races[_i].line)
            ck_assert_msg(ptx_report(m)->line == races[_i].line, "line %u: %s", ptx_report(m)->line,
                          ptx_report(m)->text);
        l.options.checks = PTX_LIGHT; /* which do not look for it */
        ptx_must_run(m, &l);
        l.options.checks = PTX_FULL;
    }
}
END_TEST

/* ---- global memory between blocks ---- */
static const struct {
    const char *text, *fault;
} between[] = {
    /* the last block to come adds what all of them left */
    {KERNEL("mov.u32 %r7, %ctaid.x;\nst.global.u32 [%d3], %r5;\nbar.sync 0;\nsetp.eq.u32 %p0, %r1, "
            "0;\n"
            "mov.u32 %r8, 0;\n@!%p0 bra M;\nmembar.gl;\natom.global.add.u32 %r8, [%d0], "
            "1;\nmembar.gl;\n"
            "st.shared.u32 [s], %r8;\nM: bar.sync 0;\nld.shared.u32 %r8, [s];\n"
            "setp.ne.u32 %p1, %r8, 4;\n@%p1 bra E;\nld.global.u32 %r9, [%d1+%OTHER];\n"
            "st.global.u32 [%d3+32768], %r9;\nE:"),
     NULL},
    {KERNEL("st.global.u32 [%d3], %r5;\nbar.sync 0;\nsetp.eq.u32 %p0, %r1, 0;\nmov.u32 %r8, 0;\n"
            "@!%p0 bra M;\natom.global.add.u32 %r8, [%d0], 1;\nmembar.gl;\n"
            "st.shared.u32 [s], %r8;\nM: bar.sync 0;\nld.shared.u32 %r8, [s];\n"
            "setp.ne.u32 %p1, %r8, 4;\n@%p1 bra E;\nld.global.u32 %r9, [%d1+%OTHER];\nE:"),
     "with no fence and atomic access between"},
    {KERNEL("st.global.u32 [%d3], %r5;\nbar.sync 0;\nsetp.eq.u32 %p0, %r1, 0;\nmov.u32 %r8, 0;\n"
            "@!%p0 bra M;\nmembar.gl;\natom.global.add.u32 %r8, [%d0], 1;\n"
            "st.shared.u32 [s], %r8;\nM: bar.sync 0;\nld.shared.u32 %r8, [s];\n"
            "setp.ne.u32 %p1, %r8, 4;\n@%p1 bra E;\nld.global.u32 %r9, [%d1+%OTHER];\nE:"),
     "with no fence and atomic access between"},
    {KERNEL("st.global.u32 [%d3], %r5;"), NULL},
    {KERNEL("st.global.u32 [%d1], %r0;"), "writes global memory"},
    {KERNEL("ld.global.u32 %r7, [%d2];\nst.global.u32 [%d2], %r7;"), NULL},
    {KERNEL("ld.global.u32 %r7, [%d2];\nst.global.u32 [%d2+64], %r7;"), "global memory"},
    {KERNEL("st.global.u32 [%d2], %r0;\nld.global.nc.u32 %r7, [%d2];"), "read-only cache"},
    {KERNEL("cvt.u64.u32 %d7, %r5;\nadd.u64 %d7, %d1, %d7;\nst.global.u8 [%d7], %r5;"), NULL},
    {KERNEL("cvt.u64.u32 %d7, %r5;\nshr.u64 %d7, %d7, 1;\nadd.u64 %d7, %d1, %d7;\nmov.u32 %r7, 5;\n"
            "st.global.u8 [%d7+1], %r7;\nld.global.u8 %r8, [%d7];"),
     "global memory"},
};

START_TEST(blocks_share_global_memory_only_behind_a_fence)
{
    char text[4096];
    (void)snprintf(text, sizeof text, "%s", between[_i].text);
    for (char *at; (at = strstr(text, "%OTHER")) != NULL;)
        memcpy(at, "  192 ", 6); /* words of block 1, read by the last block to come */
    ptx_launch l = prepare(text, 5, 32);
    const uint32_t zero = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        l.options.order = seed ? PTX_RANDOM : PTX_ROUND_ROBIN;
        l.options.seed = seed;
        ck_assert(ptx_put(m, x, &zero, 4));
        if (!between[_i].fault)
            ptx_must_run(m, &l);
        else if (!ptx_run(m, &l) || seed == 0) /* the last block may be 1 itself */
            ck_assert_msg(strstr(ptx_report(m)->text, between[_i].fault), "%s",
                          ptx_report(m)->text);
    }
}
END_TEST

/* ---- blocks one after the other: nothing of one is left for the next ---- */
#define FIRST "setp.eq.u32 %p0, %r5, %r1;\n" /* block 0: its lanes are the first of the grid */

static const struct {
    const char *text, *fault;
} blocks[] = {
    {KERNEL("st.shared.u32 [%r4], %r1;\nbar.sync 0;\nxor.b32 %r7, %r4, 128;\n"
            "ld.shared.u32 %r8, [%r7];\nbar.sync 0;\nst.shared.u32 [%r4], %r8;"),
     NULL},
    {KERNEL(FIRST "st.shared.u32 [%r4], %r1;\n@%p0 bar.sync 0;\nxor.b32 %r7, %r4, 128;\n"
                  "ld.shared.u32 %r8, [%r7];"),
     "no barrier between"},
    {KERNEL(FIRST "ld.shared.u32 %r8, [%r4];\n@%p0 bar.sync 0;\nxor.b32 %r7, %r4, 128;\n"
                  "st.shared.u32 [%r7], %r1;"),
     "no barrier between"},
    /* what the first one wrote, or a copy that it did not wait for */
    {KERNEL(FIRST "@!%p0 bra L;\nst.shared.u32 [%r4], %r1;\nret;\n"
                  "L: xor.b32 %r7, %r4, 128;\nld.shared.u32 %r8, [%r7];"),
     NULL},
    {KERNEL(FIRST "@!%p0 bra L;\nshl.b32 %r7, %r1, 4; add.u32 %r8, %r3, %r7;\n"
                  "mul.wide.u32 %d5, %r1, 16; add.u64 %d6, %d0, %d5;\n"
                  "cp.async.cg.shared.global [%r8], [%d6], 16;\nret;\n"
                  "L: ld.shared.u32 %r8, [%r4];"),
     NULL},
    /* registers of one unit and of two */
    {KERNEL(FIRST "@%p0 mov.u32 %r20, 1;\nst.global.u32 [%d3], %r20;"),
     "what is stored has an undefined value"},
    {KERNEL(FIRST "@%p0 mov.u64 %d9, %d3;\nst.global.u32 [%d9], %r1;"),
     "an address has an undefined value"},
    {KERNEL(FIRST "@%p0 mov.u32 %r20, 1;\n@!%p0 mov.u32 %r20, 2;\nst.global.u32 [%d3], %r20;"),
     NULL},
};

START_TEST(what_a_block_left_is_nothing_to_the_next)
{
    ptx_launch l = prepare(blocks[_i].text, 3, 128);
    for (int order = 0; order < 3; order++) { /* blocks begin in the order of their numbers */
        l.options.order = (ptx_order)order;
        if (!blocks[_i].fault) {
            ptx_must_run(m, &l);
            continue;
        }
        ptx_must_fail(m, &l, blocks[_i].fault);
        ck_assert_msg(ptx_report(m)->block[0] == 1, "%s", ptx_report(m)->text);
    }
}
END_TEST

/* ---- counters ---- */
static const struct {
    const char *text;
    ptx_counts want;
} counted[] = {
    {KERNEL("ld.global.u32 %r7, [%d2]; st.global.u32 [%d3], %r7;"),
     {.asked = 2 * 2 * 128, .sectors = 2 * 2 * 4, .distinct = 16}},
    {KERNEL("mul.wide.u32 %d5, %r1, 64; add.u64 %d5, %d0, %d5; ld.global.u32 %r7, [%d5];"),
     {.asked = 256, .sectors = 64, .distinct = 64}},
    {KERNEL("mul.wide.u32 %d5, %r1, 16; add.u64 %d5, %d0, %d5; ld.global.v4.u32 {%r7, %r8, %r9, "
            "%r10}, [%d5];"),
     {.asked = 1024, .sectors = 32, .distinct = 32}},
    {KERNEL("ld.global.u32 %r7, [%d0]; ld.global.u32 %r7, [%d0+4];"),
     {.asked = 512, .sectors = 4, .distinct = 1}},
    {KERNEL("st.shared.u32 [%r4], %r1;"), {.wavefronts = 2, .least = 2}},
    {KERNEL("mad.lo.u32 %r7, %r1, 8, %r3; st.shared.u32 [%r7], %r1;"),
     {.wavefronts = 4, .least = 2}},
    {KERNEL("mad.lo.u32 %r7, %r1, 128, %r3; st.shared.u32 [%r7], %r1;"),
     {.wavefronts = 64, .least = 2}},
    {KERNEL("mad.lo.u32 %r7, %r1, 8, %r3; st.shared.v2.u32 [%r7], {%r1, %r1};"),
     {.wavefronts = 4, .least = 4}},
    {KERNEL("mad.lo.u32 %r7, %r1, 16, %r3; st.shared.v4.u32 [%r7], {%r1, %r1, %r1, %r1};"),
     {.wavefronts = 8, .least = 8}},
    {KERNEL("mad.lo.u32 %r7, %r1, 32, %r3; st.shared.v4.u32 [%r7], {%r1, %r1, %r1, %r1};"),
     {.wavefronts = 16, .least = 8}},
    {KERNEL("ld.shared.u32 %r7, [s];"), {.wavefronts = 2, .least = 2}},
    {KERNEL("and.b32 %r7, %r1, 1; setp.eq.u32 %p0, %r7, 1; @%p0 bra L; L: bar.sync 0;"),
     {.divergent = 2, .barriers = 2}},
};

START_TEST(counters_are_exact_and_independent_of_the_order)
{
    ptx_launch l = prepare(counted[_i].text, 1, 64);
    l.options.count = true;
    const ptx_counts *const w = &counted[_i].want;
    ptx_counts first = {0};
    for (uint64_t seed = 0; seed < 4; seed++) {
        l.options.order = seed < 3 ? (ptx_order)seed : PTX_RANDOM;
        ptx_must_run(m, &l);
        const ptx_counts *const c = ptx_counted(m);
        ck_assert_uint_eq(c->asked, w->asked);
        ck_assert_uint_eq(c->sectors, w->sectors);
        ck_assert_uint_eq(c->distinct, w->distinct);
        ck_assert_uint_eq(c->wavefronts, w->wavefronts);
        ck_assert_uint_eq(c->least, w->least);
        ck_assert_uint_eq(c->divergent, w->divergent);
        ck_assert_uint_eq(c->barriers, w->barriers);
        ck_assert_uint_eq(c->instructions,
                          c->integer + c->global + c->shared + c->branch + c->other);
        if (seed == 0)
            first = *c;
        ck_assert_mem_eq(c, &first, sizeof first);
    }
}
END_TEST

START_TEST(waits_that_leave_copies_in_flight_are_counted)
{
    ptx_launch l = prepare(pipelines[0].text, 1, 128);
    l.options.count = true;
    ptx_must_run(m, &l);
    ck_assert_uint_eq(ptx_counted(m)->waits, 8);
    ck_assert_uint_eq(ptx_counted(m)->overlapped, 4);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("ptx.race");
    TCase *const t = tcase_create("race");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(t, copies_land_at_their_wait, 0,
                        (int)(sizeof pipelines / sizeof *pipelines));
    tcase_add_test(t, light_checks_run_copies_too);
    tcase_add_loop_test(t, bulk_copies_complete_phases, 0, (int)(sizeof bulks / sizeof *bulks));
    tcase_add_test(t, a_copy_may_keep_fewer_bytes);
    tcase_add_loop_test(t, a_missing_barrier_is_found_in_any_order, 0,
                        (int)(sizeof races / sizeof *races));
    tcase_add_loop_test(t, blocks_share_global_memory_only_behind_a_fence, 0,
                        (int)(sizeof between / sizeof *between));
    tcase_add_loop_test(t, what_a_block_left_is_nothing_to_the_next, 0,
                        (int)(sizeof blocks / sizeof *blocks));
    tcase_add_loop_test(t, counters_are_exact_and_independent_of_the_order, 0,
                        (int)(sizeof counted / sizeof *counted));
    tcase_add_test(t, waits_that_leave_copies_in_flight_are_counted);
    suite_add_tcase(s, t);
    return unit_main(s);
}
