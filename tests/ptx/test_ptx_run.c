/* Kernels as a whole: lanes that part and meet, barriers, shuffles, votes, atomics, memory and its
 * limits; what a text must not hold; every fault with its line. */
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

/* A kernel k(u64 x, u32 n) with these declarations and statements; %d0 is x, %r0 is n, %r1 the lane
 * of the block, %r2 that of the grid. */
#define KERNEL(body)                                                                               \
    PTX_HEAD ".visible .entry k(.param .u64 x, .param .u32 n)\n{\n"                                \
             ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .f32 %f<8>; .reg .b64 "    \
             "%d<16>;\n"                                                                           \
             "ld.param.u64 %d0, [x]; ld.param.u32 %r0, [n]; mov.u32 %r1, %tid.x;\n"                \
             "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r2, %r3, %r4, %r1;\n" body  \
             "\n}\n"
/* x[lane of the grid] = %r10 */
#define STORE "mul.wide.u32 %d1, %r2, 4; add.u64 %d1, %d0, %d1; st.global.u32 [%d1], %r10;\n"

static ptx_launch prepare(const char *text, uint64_t x, uint32_t n, uint32_t blocks, uint32_t lanes)
{
    static ptx_arguments a;
    a = (ptx_arguments){.used = 0};
    ptx_pass_u64(&a, x);
    ptx_pass_u32(&a, n);
    return ptx_line(ptx_must_load(m, text), "k", blocks, lanes, &a);
}

/* Runs it in every order; each lane's word must be what expected says. */
static void run_all(const char *text, uint32_t n, uint32_t blocks, uint32_t lanes,
                    uint32_t (*expected)(uint32_t block, uint32_t lane, uint32_t n))
{
    const uint32_t count = blocks * lanes;
    const uint64_t x = ptx_take(m, count * 4);
    ptx_launch l = prepare(text, x, n, blocks, lanes);
    static uint32_t got[65536];
    for (uint64_t seed = 0; seed < 8; seed++) {
        l.options.order = seed < 3 ? (ptx_order)seed : PTX_RANDOM;
        l.options.seed = seed;
        l.options.checks = seed % 2 ? PTX_FULL : PTX_LIGHT;
        l.options.threads = 1 + (unsigned)seed % 3;
        ck_assert(ptx_fill(m, x, 0xee, count * 4));
        ptx_must_run(m, &l);
        ck_assert(ptx_get(m, got, x, count * 4));
        for (uint32_t k = 0; k < count; k++)
            ck_assert_msg(got[k] == expected(k / lanes, k % lanes, n),
                          "seed %d: block %u, lane %u: %u, not %u", (int)seed, k / lanes, k % lanes,
                          got[k], expected(k / lanes, k % lanes, n));
    }
}

/* ---- control ---- */
static uint32_t collatz_steps(uint32_t block, uint32_t lane, uint32_t n)
{
    uint32_t v = block * 70 + lane + n, steps = 0;
    for (; v != 1; steps++)
        v = v % 2 ? 3 * v + 1 : v / 2;
    return steps;
}

START_TEST(lanes_part_and_meet_again)
{
    run_all(KERNEL("add.u32 %r5, %r2, %r0; mov.u32 %r10, 0;\n"
                   "LOOP: setp.eq.u32 %p0, %r5, 1; @%p0 bra DONE;\n"
                   "and.b32 %r6, %r5, 1; setp.eq.u32 %p1, %r6, 0; @%p1 bra EVEN;\n"
                   "mad.lo.u32 %r5, %r5, 3, 1; bra NEXT;\n"
                   "EVEN: shr.u32 %r5, %r5, 1;\n"
                   "NEXT: add.u32 %r10, %r10, 1; bra.uni LOOP;\n"
                   "DONE: " STORE "ret;"),
            1, 5, 70, collatz_steps);
}
END_TEST

static uint32_t guarded(uint32_t block, uint32_t lane, uint32_t n)
{
    (void)block, (void)n;
    return lane < 5 ? 7 : lane < 40 ? 9 : 1;
}

START_TEST(guards_choose_lanes)
{
    run_all(
        KERNEL("mov.u32 %r10, 1; setp.lt.u32 %p0|%p1, %r1, 5; setp.lt.and.u32 %p2, %r1, 40, %p1;\n"
               "@%p0 mov.u32 %r10, 7; @%p2 mov.u32 %r10, 9;\n" STORE),
        0, 2, 64, guarded);
}
END_TEST

START_TEST(a_branch_on_an_undefined_predicate_is_a_fault)
{
    const ptx_launch l = prepare(KERNEL("@%p3 bra A; A: ret;"), ptx_take(m, 4), 0, 1, 32);
    ptx_must_fail(m, &l, "undefined");
}
END_TEST

static uint32_t scoped(uint32_t block, uint32_t lane, uint32_t n)
{
    return (block * 32 + lane) * 5 + n;
}

START_TEST(blocks_in_braces_have_registers_and_labels_of_their_own)
{
    run_all(
        KERNEL("mov.u32 %r10, 0;\n"
               "{ .reg .u32 t; .reg .pred p; mov.u32 t, 0;\n"
               "  L: add.u32 %r10, %r10, %r2; add.u32 t, t, 1; setp.lt.u32 p, t, 3; @p bra L; }\n"
               "{ .reg .u32 t; mov.u32 t, 0; L: mad.lo.u32 t, %r2, 2, t;\n"
               "  { .reg .u32 t; mov.u32 t, %r0; add.u32 %r10, %r10, t; }\n"
               "  add.u32 %r10, %r10, t; bra END; }\n"
               "END: " STORE),
        11, 1, 32, scoped);
}
END_TEST

START_TEST(a_kernel_without_an_end_is_a_fault)
{
    ptx_launch l = prepare(KERNEL("L: add.u32 %r0, %r0, 1; bra L;"), ptx_take(m, 4), 0, 1, 32);
    l.options.limit = 10000;
    ptx_must_fail(m, &l, "does not come to an end");
}
END_TEST

/* ---- barriers, shuffles, votes ---- */
static uint32_t reversed(uint32_t block, uint32_t lane, uint32_t n)
{
    return block * 200 + (199 - lane) + n;
}

START_TEST(a_barrier_orders_shared_memory)
{
    run_all(KERNEL(".shared .align 4 .b8 s[800]; shl.b32 %r5, %r1, 2; mov.u32 %r6, s;\n"
                   "add.u32 %r7, %r6, %r5; add.u32 %r8, %r2, %r0; st.shared.u32 [%r7], %r8;\n"
                   "bar.sync 0; sub.u32 %r9, %r6, %r5; ld.shared.u32 %r10, [%r9+796];\n" STORE),
            3, 3, 200, reversed);
}
END_TEST

static uint32_t dynamic(uint32_t block, uint32_t lane, uint32_t n)
{
    (void)block;
    return 2 * n + lane;
}

START_TEST(dynamic_shared_memory_lies_behind_the_static_one)
{
    const char *const text = PTX_HEAD
        ".extern .shared .align 16 .b8 dyn[];\n.visible .entry k(.param .u64 x, .param .u32 n) {"
        ".reg .b32 %r<16>; .reg .b64 %d<8>; .shared .align 4 .b8 s[4];\n"
        "ld.param.u64 %d0, [x]; ld.param.u32 %r0, [n]; mov.u32 %r2, %tid.x; mov.u32 %r3, dyn;\n"
        "shl.b32 %r4, %r2, 2; add.u32 %r5, %r3, %r4; st.shared.u32 [s], %r0;\n"
        "bar.sync 0; ld.shared.u32 %r6, [s]; add.u32 %r6, %r6, %r2; st.shared.u32 [%r5], %r6;\n"
        "cvta.shared.u64 %d2, %d3; mov.u64 %d4, dyn; cvta.shared.u64 %d4, %d4;\n"
        "cvt.u64.u32 %d5, %r4; add.u64 %d4, %d4, %d5; ld.u32 %r10, [%d4]; add.u32 %r10, %r10, "
        "%r0;\n" STORE "}";
    const uint64_t x = ptx_take(m, 128);
    ptx_launch l = prepare(text, x, 40, 1, 32);
    l.shared = 128;
    ptx_must_run(m, &l);
    uint32_t got[32];
    ck_assert(ptx_get(m, got, x, 128));
    for (uint32_t k = 0; k < 32; k++)
        ck_assert_uint_eq(got[k], dynamic(0, k, 40));
    l.shared = 124;
    ptx_must_fail(m, &l, "shared memory");
}
END_TEST

static uint32_t butterfly(uint32_t block, uint32_t lane, uint32_t n)
{
    const uint32_t warp = (block * 64 + lane) / 32, i = lane % 32;
    const uint32_t sum = 32 * 32 * warp + 496;
    (void)n;
    return sum + 3 * (i < 30 ? i + 2 : i) + 5 * (i ? i - 1 : 0) + 7 * (i / 8 * 8 + 3) +
           (i < 30 ? 100000 : 0);
}

START_TEST(shuffles_follow_their_rules)
{
    run_all(KERNEL("mov.u32 %r5, %laneid; mov.u32 %r10, %r2;\n"
                   "shfl.sync.bfly.b32 %r6|%p1, %r10, 16, 31, -1; add.u32 %r10, %r10, %r6;\n"
                   "shfl.sync.bfly.b32 %r6|%p1, %r10, 8, 31, -1; add.u32 %r10, %r10, %r6;\n"
                   "shfl.sync.bfly.b32 %r6|%p1, %r10, 4, 31, -1; add.u32 %r10, %r10, %r6;\n"
                   "shfl.sync.bfly.b32 %r6|%p1, %r10, 2, 31, -1; add.u32 %r10, %r10, %r6;\n"
                   "shfl.sync.bfly.b32 %r6|%p1, %r10, 1, 31, -1; add.u32 %r10, %r10, %r6;\n"
                   "shfl.sync.down.b32 %r6|%p2, %r5, 2, 31, -1; mad.lo.u32 %r10, %r6, 3, %r10;\n"
                   "shfl.sync.up.b32 %r6, %r5, 1, 0, -1; mad.lo.u32 %r10, %r6, 5, %r10;\n"
                   "shfl.sync.idx.b32 %r6, %r5, 3, 6175, -1; mad.lo.u32 %r10, %r6, 7, %r10;\n"
                   "@%p2 add.u32 %r10, %r10, 100000;\n" STORE),
            0, 2, 64, butterfly);
}
END_TEST

static uint32_t voted(uint32_t block, uint32_t lane, uint32_t n)
{
    (void)block, (void)n;
    const uint32_t odd = lane % 2;
    return (odd ? 0xaaaaaaaau : 0x55555555u) % 1000 + (lane / 32 == 1 ? 2000 : 0) + 4000 +
           (odd ? 31 + 32 * (lane / 32) : 0) * 10000;
}

START_TEST(votes_and_reductions_see_the_lanes_of_their_mask)
{
    run_all(
        KERNEL("and.b32 %r5, %r1, 1; setp.eq.u32 %p0, %r5, 1; setp.ge.u32 %p1, %r1, 32;\n"
               "mov.u32 %r11, 0; mov.u32 %r10, 0; @%p0 bra ODD;\n"
               "vote.sync.ballot.b32 %r6, !%p0, 0x55555555; bra.uni MEET;\n"
               "ODD: vote.sync.ballot.b32 %r6, %p0, 0xaaaaaaaa;\n"
               "redux.sync.max.u32 %r11, %r1, 0xaaaaaaaa;\n"
               "MEET: bar.warp.sync -1; rem.u32 %r10, %r6, 1000; vote.sync.all.pred %p2, %p1, -1;\n"
               "@%p2 add.u32 %r10, %r10, 2000; vote.sync.any.pred %p3, %p0, -1;\n"
               "@%p3 add.u32 %r10, %r10, 4000; mad.lo.u32 %r10, %r11, 10000, %r10;\n" STORE),
        0, 1, 64, voted);
}
END_TEST

static uint32_t matched(uint32_t block, uint32_t lane, uint32_t n)
{
    (void)block, (void)n;
    return 0x11111111u << lane % 4;
}

START_TEST(match_finds_the_lanes_of_a_value)
{
    run_all(KERNEL("and.b32 %r5, %r1, 3; match.any.sync.b32 %r10, %r5, -1;\n" STORE), 0, 1, 64,
            matched);
}
END_TEST

/* 128 bits: x * 2^64 + lane, and 5 * 2^64 - lane. */
static uint32_t carried(uint32_t block, uint32_t lane, uint32_t n)
{
    (void)block;
    return (lane > 0 ? n + 1 : n) * 16 + (lane > 3 ? 4 : 5);
}

START_TEST(carries_go_from_word_to_word)
{
    run_all(KERNEL("mov.u64 %d5, 0xffffffffffffffff; cvt.u64.u32 %d6, %r1; cvt.u64.u32 %d7, %r0;\n"
                   "add.cc.u64 %d5, %d5, %d6; addc.cc.u64 %d7, %d7, 0; mov.u32 %r5, 3;\n"
                   "sub.cc.u32 %r5, %r5, %r1; subc.u32 %r6, 5, 0; cvt.u32.u64 %r10, %d7;\n"
                   "mad.lo.u32 %r10, %r10, 16, %r6;\n" STORE),
            7, 1, 32, carried);
}
END_TEST

START_TEST(lanes_that_wait_for_others_in_vain_are_a_fault)
{
    const ptx_launch l =
        prepare(KERNEL("setp.lt.u32 %p0, %r1, 7; @%p0 bra A; bar.warp.sync -1; ret;\n"
                       "A: bar.warp.sync 0x7f; bar.warp.sync -1; ret;"),
                ptx_take(m, 4), 0, 1, 32);
    ptx_must_fail(m, &l, "never come");
}
END_TEST

START_TEST(warps_that_wait_for_others_in_vain_are_a_fault)
{
    const ptx_launch l = prepare(
        KERNEL("setp.lt.u32 %p0, %r1, 32; @%p0 bra A; bar.sync 1; ret; A: bar.sync 2; ret;"),
        ptx_take(m, 4), 0, 1, 64);
    ptx_must_fail(m, &l, "barrier");
}
END_TEST

START_TEST(lanes_of_a_warp_come_to_a_barrier_together)
{
    const ptx_launch l =
        prepare(KERNEL("setp.lt.u32 %p0, %r1, 7; @%p0 bra A; bar.sync 0; A: bar.sync 0; ret;"),
                ptx_take(m, 4), 0, 1, 32);
    ptx_must_fail(m, &l, "wait");
}
END_TEST

static uint32_t any_of_block(uint32_t block, uint32_t lane, uint32_t n)
{
    (void)lane;
    return n / 100 == block ? 11 : 0;
}

START_TEST(a_barrier_reduces_predicates)
{
    run_all(KERNEL("setp.eq.u32 %p0, %r2, %r0; mov.u32 %r10, 0; bar.red.or.pred %p1, 0, %p0;\n"
                   "@%p1 add.u32 %r10, %r10, 1; bar.red.popc.u32 %r5, 0, %p0;\n"
                   "mad.lo.u32 %r10, %r5, 10, %r10; bar.red.and.pred %p2, 0, !%p0;\n"
                   "@%p1 bra B; @!%p2 trap; B:" STORE),
            177, 3, 100, any_of_block);
}
END_TEST

/* ---- memory ---- */
static uint32_t vectors(uint32_t block, uint32_t lane, uint32_t n)
{
    (void)block;
    const uint32_t byte = lane + 200; /* as a signed one less 256 */
    return (lane + 1) + 2 * (lane + 2) + 3 * (lane + 3) + 4 * (lane + 4) + n + byte - 256 + byte;
}

START_TEST(vectors_and_bytes_go_through_local_memory)
{
    run_all(
        KERNEL(
            ".local .align 16 .b8 depot[32]; .reg .b64 %SP, %SPL; mov.u64 %SPL, depot;\n"
            "cvta.local.u64 %SP, %SPL; add.u64 %d5, %SP, 16; cvta.to.local.u64 %d6, %d5;\n"
            "add.u32 %r5, %r1, 1; add.u32 %r6, %r1, 2; add.u32 %r7, %r1, 3; add.u32 %r8, %r1, 4;\n"
            "st.local.v4.u32 [%d6], {%r5, %r6, %r7, %r8}; ld.v2.u32 {%r11, %r12}, [%d5];\n"
            "ld.local.v2.u32 {%r13, %r14}, [%d6+8]; mad.lo.u32 %r10, %r12, 2, %r11;\n"
            "mad.lo.u32 %r10, %r13, 3, %r10; mad.lo.u32 %r10, %r14, 4, %r10;\n"
            "add.u32 %r15, %r1, 200; st.local.u8 [depot+3], %r15; ld.local.s8 %r16, [depot+3];\n"
            "ld.local.u8 %r17, [%SPL+3]; add.u32 %r10, %r10, %r16; add.u32 %r10, %r10, %r17;\n"
            "add.u32 %r10, %r10, %r0;\n" STORE),
        5, 2, 33, vectors);
}
END_TEST

static uint32_t table(uint32_t block, uint32_t lane, uint32_t n)
{
    static const uint32_t values[4] = {3, 1, 4, 0};
    (void)block, (void)n;
    return values[lane % 4] + 0x3f800000u / 65536 - 2;
}

START_TEST(constants_and_variables_have_their_values)
{
    const char *const text = PTX_HEAD
        ".const .align 4 .u32 t[4] = {3, 1, 4};\n.global .align 8 .f32 g[2] = {0f3F800000};\n"
        ".global .s32 minus = -2;\n.visible .entry k(.param .u64 x, .param .u32 n) {"
        ".reg .b32 %r<16>; .reg .b64 %d<8>; ld.param.u64 %d0, [x]; mov.u32 %r1, %tid.x;\n"
        "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r2, %r3, %r4, %r1;\n"
        "and.b32 %r5, %r1, 3; mul.wide.u32 %d1, %r5, 4; mov.u64 %d2, t; add.u64 %d2, %d2, %d1;\n"
        "ld.const.u32 %r10, [%d2]; mov.u64 %d3, g; cvta.global.u64 %d3, %d3; ld.u32 %r6, [%d3];\n"
        "shr.u32 %r6, %r6, 16; add.u32 %r10, %r10, %r6; ld.global.u32 %r6, [minus];\n"
        "add.u32 %r10, %r10, %r6;\n" STORE "}";
    run_all(text, 0, 1, 64, table);
}
END_TEST

static const struct {
    const char *body, *words;
} faults[] = {
    {"add.u64 %d1, %d0, 128; ld.global.u32 %r5, [%d1]; ret;", "offset 128 of an object of 128"},
    {"ld.global.u32 %r5, [%d0+128]; ret;", "offset 128 of an object of 128"},
    {"ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%d0+128]; ret;", "offset 128 of an object of 128"},
    {"setp.eq.u32 %p0, %r1, 31; add.u64 %d1, %d0, 124; selp.b64 %d1, %d1, %d0, %p0;\n"
     "ld.global.u32 %r5, [%d1+4]; ret;",
     "offset 128 of an object of 128"},
    {"ld.global.u32 %r5, [%d0+-4]; ret;", "offset -4 of an object of 128"},
    {"st.global.v2.u32 [%d0+4], {%r1, %r1}; ret;", "not aligned"},
    {"ld.global.u16 %h0, [%d0+1]; ret;", "not aligned"},
    {"mov.u64 %d1, 0; ld.global.u32 %r5, [%d1]; ret;", "where no global memory is"},
    {"mov.u64 %d1, 0x700000000000; ld.global.u32 %r5, [%d1]; ret;", "where no global memory is"},
    {"st.global.u32 [%d0], %r20; ret;", "what is stored has an undefined value"},
    {"ld.global.u32 %r5, [%d5]; ret;", "an address has an undefined value"},
    {"ld.shared.u32 %r5, [%r0]; ret;", "where no shared memory is"},
    {".shared .align 4 .b8 s[64]; mov.u32 %r5, s; ld.shared.u32 %r6, [%r5+64]; ret;", "offset 64"},
    {".shared .align 4 .b8 s[64]; ld.shared.u32 %r6, [s+4]; setp.eq.u32 %p0, %r6, 0; @%p0 ret; "
     "ret;",
     "undefined value"},
    {".local .align 4 .b8 s[64]; ld.local.u32 %r6, [s+4]; st.global.u32 [%d0], %r6; ret;",
     "undefined value"},
    {"ld.global.u32 %r6, [%d0+64]; st.global.u32 [%d0], %r6; ret;", "undefined value"},
    {"st.param.u32 [n], %r0; ret;", "writes parameter memory"},
    {"mov.u32 %r5, 0; div.u32 %r5, %r5, %r5; ret;", "divided by 0"},
    {"setp.eq.u32 %p0, %r1, 3; @%p0 trap; ret;", "trap"},
    {"shfl.sync.idx.b32 %r5, %r6, 0, 31, -1; ret;", "a shuffle has an undefined value"},
    {"setp.lt.u32 %p0, %r1, 16; @%p0 bra A; ret; A: shfl.sync.idx.b32 %r5, %r1, 20, 31, 0xffff;\n"
     "st.global.u32 [%d0], %r5; ret;",
     "undefined value"},
    {"shfl.sync.idx.b32 %r5, %r1, 0, 31, 0xffff; ret;", "does not name this lane"},
    {"atom.global.add.u32 %r5, [%d0+64], 1; ret;", "undefined memory"},
    {"atom.global.add.u32 %r5, [%d0], %r6; ret;", "undefined value"},
};

START_TEST(what_a_lane_must_not_do_is_a_fault_with_its_line)
{
    char text[2048];
    (void)snprintf(text, sizeof text, "%s",
                   KERNEL(".loc 1 10 0\nmov.u32 %r31, 0;\n.loc 1 77 3\nBODY\n"));
    char *const at = strstr(text, "BODY");
    char rest[64];
    (void)snprintf(rest, sizeof rest, "%s", at + 4);
    (void)snprintf(at, sizeof text - (size_t)(at - text), "%s%s.file 1 \"dir/a.cu\"\n",
                   faults[_i].body, rest);
    const uint64_t x = ptx_take(m, 128);
    ck_assert(ptx_fill(m, x, 1, 64)); /* the rest is undefined */
    ptx_launch l = prepare(text, x, 0, 2, 32);
    l.options.checks = PTX_LIGHT; /* which do not know what memory is undefined */
    if (!strstr(faults[_i].words, "undefined"))
        ptx_must_fail(m, &l, faults[_i].words);
    l.options.checks = PTX_FULL;
    ptx_must_fail(m, &l, faults[_i].words);
    const ptx_fault *const f = ptx_report(m);
    ck_assert_msg(strncmp(f->text, "a.cu:77: kernel k: ", 19) == 0, "%s", f->text);
    ck_assert_uint_eq(f->line, 77);
    ck_assert_uint_eq(f->block[0], 0);
    ck_assert_str_eq(f->kernel, "k");
}
END_TEST

START_TEST(atomics_add_up)
{
    static const uint32_t zero[8] = {0, 0xffffffffu, 0, 7, 0, 0, 0, 5};
    const uint64_t x = ptx_upload(m, zero, sizeof zero);
    ptx_launch l = prepare(
        KERNEL("atom.global.add.u32 %r5, [%d0], %r1; red.global.min.u32 [%d0+4], %r2;\n"
               "red.global.max.s32 [%d0+8], %r2; atom.global.cas.b32 %r6, [%d0+12], 7, %r2;\n"
               "add.u64 %d2, %d0, 16; cvt.u64.u32 %d3, %r2; atom.add.u64 %d4, [%d2], %d3;\n"
               "mov.f32 %f0, 0f3F800000; red.global.add.f32 [%d0+24], %f0;\n"
               "atom.global.inc.u32 %r7, [%d0+28], 9; ret;"),
        x, 0, 4, 40);
    l.options.order = PTX_RANDOM;
    l.options.seed = 3;
    ptx_must_run(m, &l);
    uint32_t got[8];
    ck_assert(ptx_get(m, got, x, sizeof got));
    ck_assert_uint_eq(got[0], 4 * 780);
    ck_assert_uint_eq(got[1], 0);
    ck_assert_uint_eq(got[2], 159);
    ck_assert_uint_lt(got[3], 160);
    ck_assert_uint_eq(got[4] + got[5], 159 * 160 / 2);
    ck_assert_uint_eq(got[6], 0x43200000); /* 160 */
    ck_assert_uint_eq(got[7], (5 + 160) % 10);
}
END_TEST

/* ---- what the host may ask ---- */
START_TEST(memory_of_the_device_has_bounds_for_the_host_too)
{
    unsigned char bytes[16] = {1, 2, 3}, back[16];
    const uint64_t a = ptx_take(m, 16), b = ptx_take(m, 16);
    ck_assert(a && b && a >> 32 != b >> 32);
    ck_assert(ptx_put(m, a, bytes, 16) && ptx_copy(m, b + 8, a, 8) && ptx_get(m, back, b + 8, 3));
    ck_assert_mem_eq(back, bytes, 3);
    ck_assert(!ptx_put(m, a + 1, bytes, 16));
    ck_assert(strstr(ptx_report(m)->text, "not inside"));
    ck_assert(!ptx_get(m, back, a - 1, 1));
    ck_assert(!ptx_fill(m, 4096, 0, 1));
    ck_assert(!ptx_give(m, a + 4) && ptx_give(m, a) && !ptx_give(m, a));
    ck_assert(!ptx_get(m, back, a, 1));
    ck_assert(!ptx_take(m, (uint64_t)1 << 33));
}
END_TEST

START_TEST(a_launch_that_does_not_fit_its_kernel_is_refused)
{
    ptx_launch l = prepare(KERNEL("ret;"), ptx_take(m, 4), 0, 1, 32);
    ptx_must_run(m, &l);
    l.bytes = 8;
    ptx_must_fail(m, &l, "bytes of arguments");
    l.bytes = 12;
    l.shared = 16;
    ptx_must_fail(m, &l, "no dynamic shared memory");
    l.shared = 0;
    l.block[1] = 64;
    ptx_must_fail(m, &l, "lanes a block");
    l.block[1] = 0;
    ptx_must_fail(m, &l, "a grid of");
}
END_TEST

static const struct {
    const char *text, *words;
} texts[] = {
    {KERNEL("frob.u32 %r5, %r6;"), "opcode 'frob.u32' is not known"},
    {KERNEL("add.s33 %r5, %r6, %r7;"), "opcode 'add.s33' is not known"},
    {KERNEL("ld.global.foo.u32 %r5, [%d0];"), "opcode 'ld.global.foo.u32' is not known"},
    {KERNEL("add.u32 %r5, %r6;"), "does not take 2 operands"},
    {KERNEL("add.u32 %r5, %r6, %d1;"), "wrong size"},
    {KERNEL("add.u32 %r5, %r6, %q1;"), "'%q1' is not declared"},
    {KERNEL("add.u32 %r5, %r6, %r32;"), "'%r32' is not declared"},
    {KERNEL("add.f32 %f1, %f2, 0d3FF0000000000000;"), "does not fit"},
    {KERNEL("bra NOWHERE;"), "no label 'NOWHERE'"},
    {KERNEL("A: A: ret;"), "stands twice"},
    {KERNEL("add.u32 %r5, %r6, %r7"), "';' is expected"},
    {KERNEL("{ ret;"), "the text ends inside of kernel 'k'"},
    {KERNEL(".pragma \"nounroll\""), "';' is expected"},
    {KERNEL(".reg .b32 %r<2>;"), "declared twice"},
    {KERNEL("@%r1 bra A; A: ret;"), "is not a predicate"},
    {KERNEL("ld.global.u32 %r5, [%r6];"), "an address has 64 bits"},
    {KERNEL("mov.u32 %tid.x, 1;"), "is not a register"},
    {PTX_HEAD, "holds no kernel"},
    {PTX_HEAD ".func f { ret; }", "not inlined"},
    {".address_size 32", "64"},
    {PTX_HEAD ".const .align 4 .b8 a[4] = {1, 2, 3, 4, 5};", "does not fit"},
};

START_TEST(a_text_that_is_not_understood_is_refused_with_its_line)
{
    ck_assert(!ptx_load(m, texts[_i].text, strlen(texts[_i].text)));
    ck_assert_msg(strstr(ptx_report(m)->text, texts[_i].words), "'%s' lacks '%s'",
                  ptx_report(m)->text, texts[_i].words);
    ck_assert_msg(strncmp(ptx_report(m)->text, "PTX line ", 9) == 0, "%s", ptx_report(m)->text);
}
END_TEST

/* Any damage to a text is an error or another text, never a crash. */
START_TEST(a_damaged_text_is_read_to_its_end_or_refused)
{
    static char text[4096];
    const char *const whole =
        KERNEL(".shared .align 4 .b8 s[64]; .loc 1 2 3, function_name $L0, inlined_at 1 5 77\n"
               "{ .reg .f32 a; mov.f32 a, 0f3F800000; @!%p0 bra L; L: }\n"
               "st.shared.v2.u32 [s+8], {%r1, %r2}; shfl.sync.up.b32 %r5|%p1, %r1, 1, 0, -1;\n"
               "atom.global.add.u32 %r5, [%d0+4], 7; setp.lt.and.u32 %p2|%p3, %r1, 3, !%p1;");
    const size_t n = strlen(whole);
    uint64_t random = 12345;
    for (int k = 0; k < 3000; k++) {
        memcpy(text, whole, n);
        for (int j = 0; j <= k % 3; j++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            const size_t at = (size_t)(random >> 33) % n;
            text[at] = k % 2 ? (char)(random >> 20) : whole[(size_t)(random >> 13) % n];
        }
        (void)ptx_load(m, text, n - (k % 5 ? 0 : (size_t)(random >> 40) % n));
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("ptx.run");
    TCase *const t = tcase_create("run");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, lanes_part_and_meet_again);
    tcase_add_test(t, guards_choose_lanes);
    tcase_add_test(t, a_branch_on_an_undefined_predicate_is_a_fault);
    tcase_add_test(t, blocks_in_braces_have_registers_and_labels_of_their_own);
    tcase_add_test(t, a_kernel_without_an_end_is_a_fault);
    tcase_add_test(t, a_barrier_orders_shared_memory);
    tcase_add_test(t, dynamic_shared_memory_lies_behind_the_static_one);
    tcase_add_test(t, shuffles_follow_their_rules);
    tcase_add_test(t, votes_and_reductions_see_the_lanes_of_their_mask);
    tcase_add_test(t, match_finds_the_lanes_of_a_value);
    tcase_add_test(t, carries_go_from_word_to_word);
    tcase_add_test(t, lanes_that_wait_for_others_in_vain_are_a_fault);
    tcase_add_test(t, warps_that_wait_for_others_in_vain_are_a_fault);
    tcase_add_test(t, lanes_of_a_warp_come_to_a_barrier_together);
    tcase_add_test(t, a_barrier_reduces_predicates);
    tcase_add_test(t, vectors_and_bytes_go_through_local_memory);
    tcase_add_test(t, constants_and_variables_have_their_values);
    tcase_add_loop_test(t, what_a_lane_must_not_do_is_a_fault_with_its_line, 0,
                        (int)(sizeof faults / sizeof *faults));
    tcase_add_test(t, atomics_add_up);
    tcase_add_test(t, memory_of_the_device_has_bounds_for_the_host_too);
    tcase_add_test(t, a_launch_that_does_not_fit_its_kernel_is_refused);
    tcase_add_loop_test(t, a_text_that_is_not_understood_is_refused_with_its_line, 0,
                        (int)(sizeof texts / sizeof *texts));
    tcase_add_test(t, a_damaged_text_is_read_to_its_end_or_refused);
    suite_add_tcase(s, t);
    return unit_main(s);
}
