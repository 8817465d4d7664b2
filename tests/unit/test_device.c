/* The driver of GPUs over a library in the place of NVIDIA's: what it asks for, and what it says of
 * each call that fails. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#if __has_include(<cuda.h>)
#include <cuda.h>
#define HAS_CUDA_H 1
#endif
#include "kernels/cuda/cuda_images.h"
#include "runtime/cuda.h"
#include "runtime/device_driver_internal.h"
#include "tests/unit/fake_cuda.h"
#include "tests/unit/unit.h"

#ifdef HAS_CUDA_H /* the calls are those of NVIDIA's header */
#define SAME(name, parameters)                                                                     \
    _Static_assert(_Generic(&name, CUresult(*) parameters : 1, default : 0), #name);
PARE__DRIVER_CALLS(SAME)
_Static_assert(PARE__CUDA_OUT_OF_MEMORY == (int)CUDA_ERROR_OUT_OF_MEMORY, "");
_Static_assert(PARE__CUDA_NO_DEVICE == (int)CUDA_ERROR_NO_DEVICE, "");
_Static_assert(PARE__CUDA_NO_BINARY == (int)CUDA_ERROR_NO_BINARY_FOR_GPU, "");
_Static_assert(PARE__CUDA_PROCESSORS == (int)CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "");
_Static_assert(PARE__CUDA_MAJOR == (int)CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "");
_Static_assert(PARE__CUDA_MINOR == (int)CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "");
_Static_assert(PARE__CUDA_SHARED == (int)CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, "");
_Static_assert(PARE__CUDA_SHARED_OF_KERNEL == (int)CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
               "");
_Static_assert(CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT == 1, "");
_Static_assert(CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT == 2, "");
#endif

static const void *const images[] = {"other", "probe", NULL};

static fake_cuda *fake; /* that of the library, emptied */
static pare_ctx cx;

static void begin(void)
{
    void *const library = dlopen(PARE_FAKE_CUDA, RTLD_NOW);
    ck_assert_msg(library, "%s", dlerror());
    fake = dlsym(library, "fake");
    ck_assert_ptr_nonnull(fake);
    *fake = (fake_cuda){.memory = 1 << 20};
    pare_ctx_init(&cx);
}

static void let_fail(const char *call, int left, int error)
{
    fake->fail = call;
    fake->left = left;
    fake->error = error;
}

static pare_device *opened(void)
{
    pare_device *d;
    begin();
    ck_assert_msg(pare__device_driver_open(&cx, PARE_FAKE_CUDA, images, &d) == PARE_OK, "%s",
                  cx.what);
    return d;
}

static void nothing_is_left(void)
{
    ck_assert_int_eq(fake->contexts, 0);
    ck_assert_int_eq(fake->modules, 0);
    ck_assert_int_eq(fake->streams, 0);
    ck_assert_int_eq(fake->allocations, 0);
    ck_assert_int_eq(fake->graphs, 0);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

START_TEST(a_device_says_what_it_is_and_leaves_nothing)
{
    pare_device *const d = opened();
    size_t free, total;
    ck_assert_str_eq(d->name, "Fake GPU 7");
    ck_assert_uint_eq(d->major, 9);
    ck_assert_uint_eq(d->processors, 132);
    ck_assert_uint_eq(d->shared, 227 * 1024);
    ck_assert_int_eq(d->op->memory(&cx, d, &free, &total), PARE_OK);
    ck_assert_uint_eq(total, 1 << 20);
    ck_assert_int_eq(fake->modules, 2);
    d->op->close(&cx, d);
    nothing_is_left();
}
END_TEST

START_TEST(bytes_go_to_it_and_come_back)
{
    pare_device *const d = opened();
    pare_address a, b;
    char back[9] = "";
    ck_assert_int_eq(d->op->take(&cx, d, 8, &a), PARE_OK);
    ck_assert_int_eq(d->op->take(&cx, d, 8, &b), PARE_OK);
    ck_assert_int_eq(d->op->put(&cx, d, a, "12345678", 8), PARE_OK);
    ck_assert_int_eq(d->op->fill(&cx, d, b, 'x', 8), PARE_OK);
    ck_assert_int_eq(d->op->copy(&cx, d, b, a + 4, 4), PARE_OK);
    ck_assert_int_eq(d->op->get(&cx, d, back, b, 8), PARE_OK);
    ck_assert_str_eq(back, "5678xxxx");
    ck_assert_int_eq(d->op->wait(&cx, d), PARE_OK);
    d->op->give(&cx, d, a);
    d->op->give(&cx, d, b);
    d->op->give(&cx, d, 0);
    d->op->close(&cx, d);
    nothing_is_left();
}
END_TEST

START_TEST(memory_that_is_not_there_is_refused_with_both_figures)
{
    pare_device *const d = opened();
    pare_address a;
    ck_assert_int_eq(d->op->take(&cx, d, 1000, &a), PARE_OK);
    pare_address b;
    ck_assert_int_eq(d->op->take(&cx, d, 2000000, &b), PARE_ENOMEM);
    ck_assert_str_eq(cx.what, "Fake GPU 7: out of memory: 2000000 bytes are asked for, 1047576 of "
                              "1048576 are free");
    d->op->give(&cx, d, a);
    d->op->close(&cx, d);
    nothing_is_left();
}
END_TEST

START_TEST(a_kernel_gets_its_arguments_and_its_shape)
{
    const struct {
        pare_address at;
        uint32_t n;
    } argument = {5, 6};
    pare_device *const d = opened();
    void *k, *again;
    pare_launch l = {{2, 3, 4}, {5, 6, 7}, 1000};
    ck_assert_int_eq(d->op->kernel(&cx, d, "probe", &k), PARE_OK);
    ck_assert_int_eq(d->op->kernel(&cx, d, "probe", &again), PARE_OK);
    ck_assert_ptr_eq(k, again);
    ck_assert_int_eq(d->op->launch(&cx, d, k, &l, &argument, sizeof argument), PARE_OK);
    ck_assert_mem_eq(fake->grid, l.grid, sizeof l.grid);
    ck_assert_mem_eq(fake->block, l.block, sizeof l.block);
    ck_assert_uint_eq(fake->shared, 1000);
    ck_assert_uint_eq(fake->bytes, sizeof argument);
    ck_assert_mem_eq(fake->argument, &argument, sizeof argument);
    const char *const first = strstr(fake->log, "cuFuncSetAttribute");
    ck_assert_ptr_nonnull(first);
    l.shared = 100000; /* more is asked for once */
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(d->op->launch(&cx, d, k, &l, &argument, sizeof argument), PARE_OK);
    const char *const second = strstr(first + 1, "cuFuncSetAttribute");
    ck_assert_ptr_nonnull(second);
    ck_assert_ptr_null(strstr(second + 1, "cuFuncSetAttribute"));
    ck_assert_int_eq(d->op->kernel(&cx, d, "nothing", &k), PARE_EDEVICE);
    ck_assert_str_eq(cx.what, "Fake GPU 7: there is no kernel nothing");
    d->op->close(&cx, d);
    nothing_is_left();
}
END_TEST

START_TEST(what_a_kernel_did_is_told_with_its_name)
{
    pare_device *const d = opened();
    const pare_launch l = {{2, 1, 1}, {32, 1, 1}, 0};
    void *k;
    ck_assert_int_eq(d->op->kernel(&cx, d, "probe", &k), PARE_OK);
    let_fail("cuLaunchKernel", 0, 701);
    ck_assert_int_eq(d->op->launch(&cx, d, k, &l, "", 0), PARE_EDEVICE);
    ck_assert_str_eq(cx.what, "Fake GPU 7: launching probe, grid 2 x 1 x 1, block 32 x 1 x 1, "
                              "shared 0: CUDA_ERROR_OTHER (701): another error");
    pare_ctx_clear(&cx);
    ck_assert_int_eq(d->op->launch(&cx, d, k, &l, "", 0), PARE_OK);
    let_fail("cuStreamSynchronize", 0, 700);
    ck_assert_int_eq(d->op->wait(&cx, d), PARE_EDEVICE);
    ck_assert_str_eq(cx.what,
                     "Fake GPU 7: waiting: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory "
                     "access was encountered; the last kernel was probe, grid 2 x 1 x 1, block 32 "
                     "x 1 x 1");
    d->op->close(&cx, d);
    nothing_is_left();
}
END_TEST

/* Calls of an opening, the error of each, and what is said. */
static const struct {
    const char *call;
    int left, error;
    pare_status status;
    const char *what;
} openings[] = {
    {"cuInit", 0, 100, PARE_EDEVICE,
     "the NVIDIA driver shows no GPU; see nvidia-smi and CUDA_VISIBLE_DEVICES"},
    {"cuInit", 0, 999, PARE_EDEVICE,
     "NVIDIA driver: starting: CUDA_ERROR_OTHER (999): another error"},
    {"cuDeviceGet", 0, 101, PARE_EDEVICE,
     "the NVIDIA driver shows no GPU; see nvidia-smi and CUDA_VISIBLE_DEVICES"},
    {"cuDeviceGetName", 0, 3, PARE_EDEVICE, NULL},
    {"cuDeviceGetAttribute", 0, 3, PARE_EDEVICE, NULL},
    {"cuDeviceGetAttribute", 3, 3, PARE_EDEVICE, NULL},
    {"cuDevicePrimaryCtxRetain", 0, 2, PARE_ENOMEM,
     "Fake GPU 7: making a context: CUDA_ERROR_OTHER (2): another error"},
    {"cuCtxSetCurrent", 0, 3, PARE_EDEVICE, NULL},
    {"cuStreamCreate", 0, 3, PARE_EDEVICE, NULL},
    {"cuModuleLoadData", 1, 209, PARE_EDEVICE,
     "Fake GPU 7: the NVIDIA driver cannot load kernels of CUDA %s (209); install a newer driver"},
    {"cuModuleLoadData", 1, 200, PARE_EDEVICE, NULL},
    {"cuModuleLoadData", 1, 222, PARE_EDEVICE,
     "Fake GPU 7: the NVIDIA driver cannot load kernels of CUDA %s (222); install a newer driver"},
    {"cuModuleLoadData", 0, 1, PARE_EDEVICE, NULL},
};

/* What is said where a text has %s for the version of CUDA. */
static const char *said(const char *text)
{
    static char all[256];
    const char *const version = strstr(text, "%s");
    const int before = version ? (int)(version - text) : (int)strlen(text);
    (void)snprintf(all, sizeof all, "%.*s%s%s", before, text, version ? pare_cuda_version : "",
                   version ? version + 2 : "");
    return all;
}

START_TEST(an_old_gpu_is_refused)
{
    pare_device *d;
    begin();
    fake->major = 7;
    let_fail("cuModuleLoadData", 0, 209);
    ck_assert_int_eq(pare__device_driver_open(&cx, PARE_FAKE_CUDA, images, &d), PARE_EDEVICE);
    ck_assert_str_eq(cx.what,
                     "Fake GPU 7 has compute capability 7.0; the kernels need 8.0 or higher");
    nothing_is_left();
}
END_TEST

/* What there are no kernels for is refused by its own name, before any other reason. */
START_TEST(models_without_kernels_are_refused)
{
    static const struct {
        const char *family, *what;
        bool mixed, turns_neighbours;
    } cases[] = {{"qwen3_5_text", "a recurrent state", true, false},
                 {"gpt_oss", "attention sinks or a clamped SwiGLU", false, false},
                 {"deepseek_v3", "latent attention", false, true},
                 {"llama4_text", "attention in chunks", false, true},
                 {"glm4_moe", "pick by sigmoids and a correction", false, false},
                 {"glm4", "neighbouring channels that turn together", false, true}};
    pare_device *const d = opened();
    const pare_model m = {.config = {.arch = pare_arch_find(cases[_i].family),
                                     .mixed = cases[_i].mixed,
                                     .turns_neighbours = cases[_i].turns_neighbours}};
    pare_forward f = {.model = &m};
    pare_cuda *c;
    ck_assert_int_eq(pare_cuda_open(&cx, d, 0, &f, &c), PARE_ENOTSUP);
    ck_assert_ptr_null(c);
    ck_assert_msg(strstr(cx.what, cases[_i].what) && strstr(cx.what, cases[_i].family), "%s",
                  cx.what);
    d->op->close(&cx, d);
    nothing_is_left();
}
END_TEST

/* One linear of a block, or the head. */
START_TEST(inputs_in_small_floats_are_refused)
{
    pare_device *const d = opened();
    const pare_linear rounded = {.name = "w",
                                 .bits = _i ? 4 : 8,
                                 .encoding = _i ? PARE_ENCODING_MXFP4 : PARE_ENCODING_FP8,
                                 .activation = {.mode = PARE_ACTIVATION_FLOAT, .bits = _i ? 4 : 8}};
    pare_block block = {.linear = {{0}}};
    pare_model m = {.config = {.arch = pare_arch_find("llama"), .blocks = 1}, .block = &block};
    pare_forward f = {.model = &m};
    pare_cuda *c;
    *(_i ? &m.head : &block.linear[PARE_ROLE_DOWN]) = rounded;
    ck_assert_int_eq(pare_cuda_open(&cx, d, 0, &f, &c), PARE_ENOTSUP);
    ck_assert_msg(strstr(cx.what, _i ? "w rounds its inputs to 4-bit floats"
                                     : "w rounds its inputs to 8-bit floats"),
                  "%s", cx.what);
    d->op->close(&cx, d);
    nothing_is_left();
}
END_TEST

START_TEST(an_opening_that_fails_leaves_nothing)
{
    pare_device *d;
    begin();
    let_fail(openings[_i].call, openings[_i].left, openings[_i].error);
    ck_assert_int_eq(pare__device_driver_open(&cx, PARE_FAKE_CUDA, images, &d),
                     openings[_i].status);
    ck_assert_ptr_null(d);
    if (openings[_i].what)
        ck_assert_str_eq(cx.what, said(openings[_i].what));
    nothing_is_left();
}
END_TEST

START_TEST(every_call_that_fails_is_told)
{
    static const char *const calls[] = {
        "cuMemGetInfo_v2",    "cuMemAlloc_v2",        "cuMemcpyHtoD_v2",
        "cuMemsetD8Async",    "cuMemcpyDtoDAsync_v2", "cuMemcpyDtoH_v2",
        "cuFuncSetAttribute", "cuLaunchKernel",       "cuStreamSynchronize"};
    pare_device *const d = opened();
    const pare_device_table *const op = d->op;
    size_t free, total;
    pare_address a = 0, b;
    void *k;
    char x[8] = "";
    ck_assert_int_eq(op->kernel(&cx, d, "probe", &k), PARE_OK);
    ck_assert_int_eq(op->take(&cx, d, 16, &a), PARE_OK);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const pare_launch l = {{1, 1, 1}, {1, 1, 1}, 100000 + (uint32_t)i};
        let_fail(calls[i], 0, 999);
        const pare_status s[] = {op->memory(&cx, d, &free, &total), op->take(&cx, d, 8, &b),
                                 op->put(&cx, d, a, x, 8),          op->fill(&cx, d, a, 1, 8),
                                 op->copy(&cx, d, a + 8, a, 8),     op->get(&cx, d, x, a, 8),
                                 op->launch(&cx, d, k, &l, "", 0),  op->wait(&cx, d)};
        size_t failed = 0;
        for (size_t j = 0; j < sizeof s / sizeof *s; j++)
            failed += s[j] == PARE_EDEVICE;
        ck_assert_msg(failed == 1, "%s: %zu calls fail", calls[i], failed);
        if (s[1] == PARE_OK)
            op->give(&cx, d, b);
    }
    op->give(&cx, d, a);
    op->close(&cx, d);
    nothing_is_left();
}
END_TEST

enum { ROW = 40, TOKENS = 5 };

/* A token's launches: two of them hold its position. */
static pare_status decode(pare_device *q, unsigned token)
{
    void *k;
    PARE_TRY(q->op->kernel(&cx, q, "probe", &k));
    for (unsigned i = 0; i < ROW; i++) {
        const unsigned argument[2] = {i == 7 || i == 30 ? 1000 + token : i, 5};
        const pare_launch l = {{1, 1, 1}, {32, 1, 1}, i == 9 ? 60000 : 0};
        PARE_TRY(q->op->launch(&cx, q, k, &l, argument, sizeof argument));
    }
    return q->op->wait(&cx, q);
}

static pare_device *queued(void)
{
    pare_device *q;
    ck_assert_int_eq(pare_device_queue(&cx, opened(), &q), PARE_OK);
    return q;
}

static size_t made(const char *call)
{
    size_t n = 0;
    for (const char *at = fake->log; (at = strstr(at, call)) != NULL; at++)
        n++;
    return n;
}

START_TEST(a_row_of_launches_that_comes_again_is_a_graph)
{
    pare_device *const q = queued();
    for (unsigned t = 0; t < TOKENS; t++)
        ck_assert_msg(decode(q, t) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(fake->launches, TOKENS * ROW);
    for (unsigned t = 0; t < TOKENS; t++)
        for (unsigned i = 0; i < ROW; i++)
            ck_assert_uint_eq(fake->first[t * ROW + i], i == 7 || i == 30 ? 1000 + t : i);
    /* The first one by one, the second as it is made into a graph. */
    ck_assert_uint_eq(made("cuLaunchKernel "), ROW);
    ck_assert_uint_eq(made("cuGraphLaunch "), TOKENS - 1);
    ck_assert_uint_eq(fake->nodes, ROW);
    ck_assert_uint_eq(fake->sets, 2 * (TOKENS - 2));
    q->op->close(&cx, q);
    nothing_is_left();
}
END_TEST

START_TEST(what_waits_runs_before_what_follows)
{
    pare_device *const q = queued();
    const pare_launch l = {{1, 1, 1}, {32, 1, 1}, 0};
    const unsigned argument = 77;
    pare_address at;
    char x[8] = "";
    void *k;
    ck_assert_int_eq(q->op->take(&cx, q, 16, &at), PARE_OK);
    ck_assert_int_eq(q->op->kernel(&cx, q, "probe", &k), PARE_OK);
    for (size_t i = 0; i < 6; i++) {
        ck_assert_int_eq(q->op->launch(&cx, q, k, &l, &argument, sizeof argument), PARE_OK);
        ck_assert_uint_eq(fake->launches, i);
        if (i < 5)
            ck_assert_int_eq(i == 0   ? q->op->put(&cx, q, at, x, 8)
                             : i == 1 ? q->op->get(&cx, q, x, at, 8)
                             : i == 2 ? q->op->fill(&cx, q, at, 0, 8)
                             : i == 3 ? q->op->copy(&cx, q, at + 8, at, 8)
                                      : q->op->wait(&cx, q),
                             PARE_OK);
        else
            q->op->give(&cx, q, at);
        ck_assert_uint_eq(fake->launches, i + 1);
    }
    /* What `give` cannot say the next call does. */
    ck_assert_int_eq(q->op->take(&cx, q, 16, &at), PARE_OK);
    ck_assert_int_eq(q->op->launch(&cx, q, k, &l, &argument, sizeof argument), PARE_OK);
    let_fail("cuLaunchKernel", 0, 701);
    q->op->give(&cx, q, at);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(q->op->wait(&cx, q), PARE_EDEVICE);
    ck_assert_msg(strstr(cx.what, "launching probe"), "%s", cx.what);
    q->op->close(&cx, q);
    nothing_is_left();
}
END_TEST

START_TEST(a_call_of_a_graph_that_fails_is_told)
{
    static const char *const calls[] = {"cuGraphCreate", "cuGraphAddKernelNode_v2",
                                        "cuGraphInstantiateWithFlags",
                                        "cuGraphExecKernelNodeSetParams_v2", "cuGraphLaunch"};
    pare_device *const q = queued();
    size_t failed = 0;
    let_fail(calls[_i], 0, 999);
    for (unsigned t = 0; t < 3; t++)
        failed += decode(q, t) == PARE_EDEVICE;
    ck_assert_uint_eq(failed, 1);
    ck_assert_msg(strstr(cx.what, "Fake GPU 7: "), "%s", cx.what);
    ck_assert_msg(strstr(cx.what, "graph"), "%s", cx.what);
    q->op->close(&cx, q);
    nothing_is_left();
}
END_TEST

/* Whatever of a graph takes memory: what was asked for runs once, in its order. */
START_TEST(without_memory_for_a_graph_launches_go_one_by_one)
{
    static const char *const calls[] = {"cuGraphCreate", "cuGraphAddKernelNode_v2",
                                        "cuGraphInstantiateWithFlags",
                                        "cuGraphExecKernelNodeSetParams_v2", "cuGraphLaunch"};
    pare_device *const q = queued();
    let_fail(calls[_i], 0, 2);
    for (unsigned t = 0; t < TOKENS; t++)
        ck_assert_msg(decode(q, t) == PARE_OK, "%s", cx.what);
    ck_assert_str_eq(cx.what, "");
    ck_assert_uint_eq(fake->launches, TOKENS * ROW);
    for (unsigned t = 0; t < TOKENS; t++)
        for (unsigned i = 0; i < ROW; i++)
            ck_assert_uint_eq(fake->first[t * ROW + i], i == 7 || i == 30 ? 1000 + t : i);
    ck_assert_int_eq(fake->graphs, 0);
    q->op->close(&cx, q);
    nothing_is_left();
}
END_TEST

/* What went wrong in a graph is reported by a later call, with what ran last. */
START_TEST(what_a_graph_did_is_told_with_its_last_kernel)
{
    pare_device *const q = queued();
    for (unsigned t = 0; t < 2; t++)
        ck_assert_int_eq(decode(q, t), PARE_OK);
    let_fail("cuStreamSynchronize", 0, 700);
    ck_assert_int_eq(decode(q, 2), PARE_EDEVICE);
    ck_assert_msg(strstr(cx.what,
                         "; the last kernel was probe, grid 1 x 1 x 1, block 32 x 1 x 1, of "
                         "a graph of 40 launches"),
                  "%s", cx.what);
    q->op->close(&cx, q);
    nothing_is_left();
}
END_TEST

START_TEST(a_queue_without_memory_leaves_nothing)
{
    pare_device *const d = opened();
    const pare_alloc plain = cx.alloc;
    pare_device *q;
    unit_failing failing = {.left = 1};
    cx.alloc = (pare_alloc){unit_failing_resize, &failing};
    const pare_status s = pare_device_queue(&cx, d, &q);
    cx.alloc = plain;
    ck_assert_int_eq(s, PARE_ENOMEM);
    ck_assert_ptr_null(q);
    ck_assert_int_eq(fake->contexts, 0);
    ck_assert_int_eq(fake->streams, 0);
}
END_TEST

START_TEST(without_a_driver_or_with_an_old_one_it_says_so)
{
    pare_device *d;
    begin();
    ck_assert_int_eq(pare__device_driver_open(&cx, "libnowhere.so.1", images, &d), PARE_EDEVICE);
    ck_assert_str_eq(cx.what, "no NVIDIA driver: libnowhere.so.1: cannot open shared object file: "
                              "No such file or directory");
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare__device_driver_open(&cx, "libm.so.6", images, &d), PARE_EDEVICE);
    ck_assert_str_eq(cx.what, said("libm.so.6 has no cuInit: the NVIDIA driver is too old; install "
                                   "one of CUDA %s or later"));
    nothing_is_left();
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("device");
    TCase *const t = tcase_create("device");
    tcase_add_test(t, a_device_says_what_it_is_and_leaves_nothing);
    tcase_add_test(t, bytes_go_to_it_and_come_back);
    tcase_add_test(t, memory_that_is_not_there_is_refused_with_both_figures);
    tcase_add_test(t, a_kernel_gets_its_arguments_and_its_shape);
    tcase_add_test(t, what_a_kernel_did_is_told_with_its_name);
    tcase_add_test(t, an_old_gpu_is_refused);
    tcase_add_loop_test(t, models_without_kernels_are_refused, 0, 6);
    tcase_add_loop_test(t, inputs_in_small_floats_are_refused, 0, 2);
    tcase_add_loop_test(t, an_opening_that_fails_leaves_nothing, 0,
                        sizeof openings / sizeof *openings);
    tcase_add_test(t, every_call_that_fails_is_told);
    tcase_add_test(t, a_row_of_launches_that_comes_again_is_a_graph);
    tcase_add_test(t, what_waits_runs_before_what_follows);
    tcase_add_loop_test(t, a_call_of_a_graph_that_fails_is_told, 0, 5);
    tcase_add_loop_test(t, without_memory_for_a_graph_launches_go_one_by_one, 0, 5);
    tcase_add_test(t, what_a_graph_did_is_told_with_its_last_kernel);
    tcase_add_test(t, a_queue_without_memory_leaves_nothing);
    tcase_add_test(t, without_a_driver_or_with_an_old_one_it_says_so);
    suite_add_tcase(s, t);
    return unit_main(s);
}
