/* tests/ptx/ptx_atomic.c - atom and red: lane after lane, in an order that a random run turns.
 * Blocks of a kernel with atomics on global memory run one after the other. */
#include <math.h>

#include "kernels/half.h"
#include "tests/ptx/ptx_parse.h"

enum { ADD, MIN, MAX, AND, OR, XOR, EXCH, CAS, INC, DEC, OPERATIONS };
enum { UNSIGNED, SIGNED, FLOAT, HALF_PAIR };

static float f32_of(uint64_t v)
{
    return pare_f32_from_bits((uint32_t)v);
}

static double f64_of(uint64_t v)
{
    double d;
    memcpy(&d, &v, sizeof d);
    return d;
}

static uint64_t add(uint64_t old, uint64_t b, uint32_t type, bool wide)
{
    if (type == HALF_PAIR) {
        uint64_t sum = 0;
        for (int k = 0; k < 32; k += 16)
            sum |= (uint64_t)pare_f32_to_f16(pare_f16_to_f32((uint16_t)(old >> k)) +
                                             pare_f16_to_f32((uint16_t)(b >> k)))
                   << k;
        return sum;
    }
    if (type == FLOAT && wide) {
        const double sum = f64_of(old) + f64_of(b);
        memcpy(&old, &sum, sizeof old);
        return old;
    }
    return type == FLOAT ? pare_f32_bits(f32_of(old) + f32_of(b)) : old + b;
}

/* What the word becomes. Signed 32-bit values come extended to 64. */
static uint64_t apply(uint32_t what, uint32_t type, bool wide, uint64_t old, uint64_t b, uint64_t c)
{
    const bool less = type == SIGNED ? (int64_t)b < (int64_t)old : b < old;
    switch (what) {
    case ADD: return add(old, b, type, wide);
    case MIN: return less ? b : old;
    case MAX: return less ? old : b;
    case AND: return old & b;
    case OR: return old | b;
    case XOR: return old ^ b;
    case EXCH: return b;
    case CAS: return old == b ? c : old;
    case INC: return old >= b ? 0 : old + 1;
    default: return old == 0 || old > b ? b : old - 1;
    }
}

static uint64_t value_of(const ptx_lanes *r, int i, bool wide, bool sign)
{
    return wide ? r->u64[i] : sign ? (uint64_t)(int64_t)r->s32[i] : r->u32[i];
}

/* pool at d: the units of d, b, c, what, type. */
static void atom(ptx_warp *w, const ptx_ins *in)
{
    const uint32_t *const more = w->block->grid->kernel->module->pool + in->d;
    const bool wide = PTX_X_SIZE(in->x) == 8, sign = more[4] == SIGNED;
    ptx_access t = {
        .space = PTX_X_SPACE(in->x), .bytes = PTX_X_SIZE(in->x), .write = true, .atomic = true};
    if (!ptx_known(w, in, more[1], "an atomic operand") ||
        !ptx_known(w, in, more[2], "an atomic operand") || !ptx_reach(w, in, &t) ||
        !ptx_note(w, in, &t))
        return;
    if (t.space != PTX_GLOBAL && t.space != PTX_SHARED) {
        ptx_fail(w, in, w->act, t.address[__builtin_ctz(w->act)],
                 "an atomic access of memory that no other lane sees");
        return;
    }
    const bool random = w->block->grid->launch->options.order == PTX_RANDOM;
    const int turn = random ? (int)(ptx_next(&w->block->random) & 31) : 0;
    for (int k = 0; k < PTX_LANES; k++) {
        const int i = (k + turn) & 31;
        if (!(w->act >> i & 1))
            continue;
        if (t.defined[i] && memchr(t.defined[i], 0, t.bytes)) {
            ptx_fail(w, in, 1u << i, t.address[i], "an atomic access of undefined memory");
            return;
        }
        uint64_t old = 0;
        memcpy(&old, t.host[i], t.bytes);
        if (!wide && sign)
            old = (uint64_t)(int64_t)(int32_t)old;
        const uint64_t now =
            apply(more[3], more[4], wide, old, value_of(ptx_reg(w, more[1]), i, wide, sign),
                  value_of(ptx_reg(w, more[2]), i, wide, sign));
        memcpy(t.host[i], &now, t.bytes);
        if (wide)
            ptx_reg(w, more[0])->u64[i] = old;
        else
            ptx_reg(w, more[0])->u32[i] = (uint32_t)old;
    }
    ptx_spread(w, more[0], 0);
}

/* Splits an opcode at its dots; what the words of an atom or red mean. */
static bool atom_words(ptx_parser *p, uint32_t *what, uint32_t *type, uint32_t *x)
{
    static const char *const names[OPERATIONS] = {"add", "min",  "max", "and", "or",
                                                  "xor", "exch", "cas", "inc", "dec"};
    const char *const last = strrchr(p->opcode, '.');
    const unsigned bytes = last ? ptx_type_bytes(last, strlen(last)) : 0;
    for (*what = 0; *what < OPERATIONS && !ptx_has(p, names[*what]); ++*what)
        ;
    *type = UNSIGNED;
    if (last && last[1] == 's')
        *type = SIGNED;
    if (last && last[1] == 'f')
        *type = strcmp(last, ".f16x2") == 0 ? HALF_PAIR : FLOAT;
    *x = ptx_has(p, "shared") || ptx_has(p, "shared::cta") ? PTX_SHARED
         : ptx_has(p, "global")                            ? PTX_GLOBAL
                                                           : PTX_GENERIC;
    *x |= (bytes == 8 ? 3u : 2u) << 3 | 1u << 6;
    return *what < OPERATIONS && (bytes == 4 || bytes == 8) && (*type < FLOAT || *what == ADD);
}

void ptx_lower_atom(ptx_parser *p)
{
    const bool red = strncmp(p->opcode, "red", 3) == 0;
    uint32_t what = 0, type = 0, x = 0;
    if (!atom_words(p, &what, &type, &x)) {
        ptx_error(p, "opcode '%s' is not known", p->opcode);
        return;
    }
    const size_t at = red ? 0 : 1, n = at + (what == CAS ? 3 : 2);
    if (!ptx_need_operands(p, n, n))
        return;
    const char size = PTX_X_SIZE(x) == 8 ? '8' : '4';
    const uint32_t d = red ? (uint32_t)PTX_REG_SINK : ptx_target(p, ptx_plain(p, 0), size);
    const uint32_t b = ptx_use(p, ptx_plain(p, at + 1), size);
    const uint32_t c = what == CAS ? ptx_use(p, ptx_plain(p, at + 2), size) : b;
    const uint32_t a = ptx_address(p, at, PTX_X_SPACE(x), &x);
    const int64_t offset = p->operands[at < p->operand_count ? at : 0].offset;
    const uint32_t pooled = ptx_pooled(p, d);
    (void)ptx_pooled(p, b);
    (void)ptx_pooled(p, c);
    (void)ptx_pooled(p, what);
    (void)ptx_pooled(p, type);
    if (PTX_X_SPACE(x) != PTX_SHARED)
        p->kernel->atomics = true;
    ptx_ins *const in =
        ptx_emit(p, atom, PTX_X_SPACE(x) == PTX_SHARED ? PTX_ACCESS_SHARED : PTX_ACCESS_GLOBAL);
    in->d = pooled;
    in->a = a;
    in->b = (uint32_t)(int32_t)offset;
    in->x = x;
}
