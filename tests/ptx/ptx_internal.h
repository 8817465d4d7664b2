/* tests/ptx/ptx_internal.h - what the parts of the interpreter share.
 *
 * A register is a row of 32 lanes: one unit of 128 bytes for up to 32 bits a lane, two for 64. An
 * operand is the index of its first unit, in the registers of the warp or, with PTX_FIXED, among
 * the constants of the module. A predicate is a bit per lane in u32[0] of its unit. Beside each
 * first unit stands a word with a bit per lane whose value is undefined.
 *
 *   text -> tokens (ptx_lex.c) -> symbols and records (ptx_parse.c, ptx_lower.c)
 *        -> warps (ptx_warp.c) of blocks of a grid (ptx_grid.c), an operation at a time
 */
#ifndef PARE_TESTS_PTX_INTERNAL_H
#define PARE_TESTS_PTX_INTERNAL_H

#include <pthread.h>
#include <stdarg.h>
#include <string.h>

#include "tests/ptx/ptx.h"

enum {
    PTX_LANES = 32,
    PTX_UNIT = 128,           /* bytes */
    PTX_GUARD = 4096,         /* bytes before and after an allocation that nobody may touch */
    PTX_SHARED_START = 0x400, /* so that shared address 0 is a fault */
    PTX_SHARED_MOST = 232448, /* 227 KB: what a block may ask for */
    PTX_PARAM_MOST = 4352,    /* bytes */
    PTX_BARRIERS = 16
};
#define PTX_FIXED 0x80000000u

typedef union ptx_lanes {
    uint32_t u32[PTX_LANES];
    int32_t s32[PTX_LANES];
    float f32[PTX_LANES];
    uint64_t u64[PTX_LANES];
    int64_t s64[PTX_LANES];
    double f64[PTX_LANES];
} ptx_lanes;

/* Registers that every warp has before its own. */
enum {
    PTX_REG_SINK = 0, /* two units: `_` */
    PTX_REG_TID = 2,
    PTX_REG_NTID = 5,
    PTX_REG_CTAID = 8,
    PTX_REG_NCTAID = 11,
    PTX_REG_LANEID = 14,
    PTX_REG_WARPID,
    PTX_REG_NWARPID,
    PTX_REG_SMID,
    PTX_REG_MASK_EQ,
    PTX_REG_MASK_LT,
    PTX_REG_MASK_LE,
    PTX_REG_MASK_GT,
    PTX_REG_MASK_GE,
    PTX_REG_DYNAMIC_BYTES,
    PTX_REG_DYNAMIC32,      /* where dynamic shared memory begins */
    PTX_REG_DYNAMIC64 = 26, /* the same in 64 bits */
    PTX_REG_CARRY = 28,     /* a bit per lane */
    PTX_REG_OWN = 29
};

typedef struct ptx_segment ptx_segment; /* ptx_memory.h */
typedef struct ptx_file ptx_file;       /* ptx_grid.c: registers */
typedef struct ptx_warp ptx_warp;
typedef struct ptx_ins ptx_ins;
typedef void ptx_op(ptx_warp *w, const ptx_ins *in);

typedef enum ptx_class {
    PTX_OTHER,
    PTX_TENSOR,
    PTX_INTEGER,
    PTX_FLOAT,
    PTX_CONVERT,
    PTX_ACCESS_SHARED,
    PTX_ACCESS_GLOBAL,
    PTX_BRANCH,
    PTX_CLASSES
} ptx_class;

struct ptx_ins {
    ptx_op *run;
    uint32_t d, a, b, c; /* units, or indices into module->pool; bra: d is the target */
    uint32_t x;          /* what else the operation needs */
    uint32_t guard;      /* unit * 2 + 1 if negated; 0: none */
    uint32_t loc;        /* index into module->locs */
    uint16_t kind;       /* ptx_class */
    uint16_t x2;
};

typedef struct ptx_loc {
    uint32_t ptx_line, file, line, at_file, at_line; /* at_: where it was inlined; 0: nowhere */
} ptx_loc;

typedef struct ptx_param {
    const char *name;
    uint32_t offset, bytes;
} ptx_param;

struct ptx_kernel {
    ptx_module *module;
    const char *name;
    ptx_param *params;
    ptx_ins *code;
    uint8_t *ran;   /* [code_count]: 1 if it ran (options.trace) */
    ptx_file *file; /* for one launch at a time */
    size_t param_count, code_count, bytes;
    uint32_t units;         /* of registers of a warp */
    uint32_t shared, local; /* bytes; static */
    uint32_t dynamic_align; /* 0: the kernel has no dynamic shared memory */
    uint32_t most[3];       /* .maxntid, .reqntid; 0: not given */
    bool required;          /* .reqntid */
    bool narrow;            /* it accesses less than 4 bytes of shared or global memory */
    bool atomics;           /* on global memory: blocks run one after the other */
};

struct ptx_module {
    ptx_machine *machine;
    ptx_module *next;
    char *text;
    char **names; /* copies of names */
    ptx_kernel *kernels;
    uint32_t *pool;
    ptx_lanes *fixed;  /* in units: see ptx_fixed_at */
    uint32_t *defined; /* zeros, one word per unit of fixed */
    ptx_loc *locs;
    char **files; /* by .file index */
    uint8_t *constants;
    size_t name_count, kernel_count, pool_count, fixed_count, loc_count, file_count, constant_count;
    uint32_t shared; /* bytes of .shared outside of kernels */
};

struct ptx_machine {
    ptx_segment *segments;
    size_t segment_count;
    ptx_module *modules;
    const struct ptx_row **rows; /* every operation, by name */
    size_t row_count;
    uint32_t launches;
    ptx_fault fault;
    ptx_counts counts;
};

/* A launch. */
typedef struct ptx_grid {
    ptx_machine *machine;
    const ptx_launch *launch;
    const ptx_kernel *kernel;
    uint8_t *arguments;      /* a copy */
    uint32_t *order;         /* blocks in the order they start */
    uint64_t blocks, next;   /* next: that nobody has started */
    struct ptx_edges *edges; /* between blocks; NULL without full checks */
    uint32_t launch_number;
    uint64_t failed; /* position in the order of the block with the fault; blocks: none */
    pthread_mutex_t lock;
    ptx_fault fault;
    ptx_counts counts;
} ptx_grid;

typedef struct ptx_phases ptx_phases; /* ptx_phase.c */

typedef struct ptx_barrier {
    uint32_t arrived; /* lanes */
    uint32_t expected;
    uint32_t any, all, count; /* of bar.red */
} ptx_barrier;

typedef struct ptx_block {
    ptx_grid *grid;
    uint64_t position; /* in the order */
    uint32_t id[3];
    uint32_t warp_count, threads, alive; /* lanes */
    uint8_t *shared;
    uint32_t shared_end;       /* first address behind */
    uint8_t *shared_defined;   /* a byte per byte; NULL without full checks */
    struct ptx_shadow *shadow; /* NULL without full checks */
    ptx_warp *warps;
    ptx_barrier barriers[PTX_BARRIERS];
    uint64_t random;
    ptx_counts counts;
    bool faulted;
    ptx_phases *phases; /* NULL: no mbarrier was used */
    bool watched;       /* full checks or counters */
} ptx_block;

typedef enum ptx_state { PTX_READY, PTX_AT_BARRIER, PTX_AT_PHASE, PTX_ENDED } ptx_state;

struct ptx_warp {
    uint8_t *bank[2];   /* registers; constants */
    uint32_t *undef[2]; /* a word per unit */
    uint32_t act;       /* lanes that the present instruction runs */
    uint32_t pc, stop;  /* of the group; the lowest pc of the others */
    uint32_t group, live, blocked;
    uint32_t expanded; /* the lanes that mask stands for */
    int32_t mask[PTX_LANES];
    uint32_t lane_pc[PTX_LANES];
    const ptx_ins *code;
    ptx_block *block;
    ptx_state state;
    uint32_t index, barrier;
    bool at_phase;          /* some of the blocked lanes wait for an mbarrier */
    uint8_t *local;         /* [lane][bytes] */
    uint8_t *local_defined; /* NULL without full checks */
    uint64_t steps;
    struct ptx_copies *copies; /* in flight; NULL: there were none */
};

/* ---- registers ---- */
static inline ptx_lanes *ptx_reg(const ptx_warp *w, uint32_t unit)
{
    return (ptx_lanes *)(void *)(w->bank[unit >> 31] + (size_t)(unit & ~PTX_FIXED) * PTX_UNIT);
}

static inline uint32_t ptx_undef(const ptx_warp *w, uint32_t unit)
{
    return w->undef[unit >> 31][unit & ~PTX_FIXED];
}

/* The lanes that run get these undefined bits. */
static inline void ptx_spread(ptx_warp *w, uint32_t unit, uint32_t bits)
{
    w->undef[0][unit] = (w->undef[0][unit] & ~w->act) | (bits & w->act);
}

void ptx_expand(ptx_warp *w);

/* -1 for lanes that run, 0 for others. */
static inline const int32_t *ptx_mask(ptx_warp *w)
{
    if (w->expanded != w->act)
        ptx_expand(w);
    return w->mask;
}

/* Runs body for lane i; m is -1 where a result must be kept, 0 where it must not. */
#if defined(__clang__)
#define PTX_VECTOR
#else
#define PTX_VECTOR _Pragma("GCC ivdep")
#endif
#define PTX_EACH(w, ...)                                                                           \
    if ((w)->act == ~0u) {                                                                         \
        const int32_t m = -1;                                                                      \
        PTX_VECTOR for (int i = 0; i < PTX_LANES; i++)                                             \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } else {                                                                                       \
        const int32_t *const mask_ = ptx_mask(w);                                                  \
        PTX_VECTOR for (int i = 0; i < PTX_LANES; i++)                                             \
        {                                                                                          \
            const int32_t m = mask_[i];                                                            \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

/* ---- the table of operations ---- */
typedef struct ptx_row {
    const char *name; /* the opcode with _ for . */
    ptx_op *run;
    const char *sizes; /* a letter per operand, destination first: p, 2, 4, 8 (bytes of a lane);
                          1: up to 4 bytes; i: an immediate, which goes to x */
    ptx_class kind;
} ptx_row;

typedef struct ptx_rows {
    const ptx_row *row;
    size_t count;
} ptx_rows;

extern const ptx_rows ptx_rows_integer, ptx_rows_compare, ptx_rows_float, ptx_rows_directed,
    ptx_rows_half, ptx_rows_convert;

/* ---- faults ---- */
#define PTX_PRINTF(at, rest) __attribute__((format(printf, at, rest)))
/* The first fault of a block stops it; lanes and address as in ptx_fault. */
void ptx_fail(ptx_warp *w, const ptx_ins *in, uint32_t lanes, uint64_t address, const char *format,
              ...) PTX_PRINTF(5, 6);
/* A mistake of the caller. Returns false. */
bool ptx_refuse(ptx_machine *m, const char *format, ...) PTX_PRINTF(2, 3);

/* Faults if a lane that runs has an undefined value in this register. */
bool ptx_known(ptx_warp *w, const ptx_ins *in, uint32_t unit, const char *what);

/* ---- control (ptx_warp.c, ptx_barrier.c) ---- */
void ptx_warp_run(ptx_warp *w, uint64_t budget);
/* Waits until these lanes are here; false: not yet. */
bool ptx_gather(ptx_warp *w, const ptx_ins *in, uint32_t lanes);
ptx_op ptx_do_bra, ptx_do_ret, ptx_do_trap;
void ptx_barrier_settle(ptx_block *b);

/* ---- loading ---- */
uint32_t ptx_fixed(ptx_module *m, uint64_t bits, unsigned bytes); /* a constant in all lanes */
void *ptx_grow(void *array, size_t count, size_t size); /* room for one more; capacity: 2^n */
uint64_t ptx_next(uint64_t *state);                     /* a random number */
void ptx_modules_free(ptx_machine *m);
ptx_file *ptx_file_new(void);
void ptx_file_free(ptx_file *f);

#endif
