/* tests/ptx/ptx_move.c - mov in all its forms (registers, addresses, packing and splitting), and
 * setp, which may combine a comparison with a predicate. */
#include <stdio.h>

#include "tests/ptx/ptx_parse.h"

/* x: elements; x2: bits of one. The first element is lowest. a: where the units stand in the pool.
 */
#define PACK(name, D, bits)                                                                        \
    static void name(ptx_warp *w, const ptx_ins *in)                                               \
    {                                                                                              \
        ptx_lanes *const rd = ptx_reg(w, in->d);                                                   \
        const uint32_t *const units = w->block->grid->kernel->module->pool + in->a;                \
        D sum[PTX_LANES] = {0};                                                                    \
        uint32_t undef = 0;                                                                        \
        for (uint32_t k = 0; k < in->x; k++) {                                                     \
            const ptx_lanes *const r = ptx_reg(w, units[k]);                                       \
            for (int i = 0; i < PTX_LANES; i++)                                                    \
                sum[i] |= (D)((bits) == 16 ? r->u32[i] & 0xffffu : r->u32[i]) << (bits)*k;         \
            undef |= ptx_undef(w, units[k]);                                                       \
        }                                                                                          \
        PTX_EACH(w, KEEP_##D(rd, sum[i]);)                                                         \
        ptx_spread(w, in->d, undef);                                                               \
    }
#define UNPACK(name, S, field, bits)                                                               \
    static void name(ptx_warp *w, const ptx_ins *in)                                               \
    {                                                                                              \
        const ptx_lanes *const ra = ptx_reg(w, in->a);                                             \
        const uint32_t *const units = w->block->grid->kernel->module->pool + in->d;                \
        const uint32_t undef = ptx_undef(w, in->a);                                                \
        S from[PTX_LANES];                                                                         \
        memcpy(from, ra->field, sizeof from);                                                      \
        for (uint32_t k = 0; k < in->x; k++) {                                                     \
            ptx_lanes *const r = ptx_reg(w, units[k]);                                             \
            PTX_EACH(w, const uint32_t v = (uint32_t)(from[i] >> (bits)*k);                        \
                     KEEP_uint32_t(r, (bits) == 16 ? v & 0xffffu : v);)                            \
            ptx_spread(w, units[k], undef);                                                        \
        }                                                                                          \
    }
#define KEEP_uint32_t(r, v) (r)->u32[i] = m ? (v) : (r)->u32[i]
#define KEEP_uint64_t(r, v) (r)->u64[i] = m ? (v) : (r)->u64[i]

PACK(do_pack_2x16, uint32_t, 16)
PACK(do_pack_4x16, uint64_t, 16)
PACK(do_pack_2x32, uint64_t, 32)
UNPACK(do_unpack_2x16, uint32_t, u32, 16)
UNPACK(do_unpack_4x16, uint64_t, u64, 16)
UNPACK(do_unpack_2x32, uint64_t, u64, 32)

/* mov.b32 %r, {%rs1, %rs2} and mov.b32 {%rs1, %rs2}, %r; also b64 with 2 or 4. */
static void lower_packing(ptx_parser *p, bool pack)
{
    const bool wide = ptx_has(p, "b64");
    const ptx_operand *const o = &p->operands[pack ? 1 : 0];
    const bool by32 = wide && o->count == 2;
    if ((!wide && !ptx_has(p, "b32")) || (o->count != 2 && !(wide && o->count == 4))) {
        ptx_error(p, "'%s' with %u parts is not supported", p->opcode, o->count);
        return;
    }
    ptx_op *const run = pack ? (by32   ? do_pack_2x32
                                : wide ? do_pack_4x16
                                       : do_pack_2x16)
                             : (by32   ? do_unpack_2x32
                                : wide ? do_unpack_4x16
                                       : do_unpack_2x16);
    const uint32_t parts = ptx_vector(p, pack ? 1 : 0, o->count, by32 ? '4' : '2', !pack);
    const char size = wide ? '8' : '4';
    const uint32_t whole =
        pack ? ptx_target(p, ptx_plain(p, 0), size) : ptx_use(p, ptx_plain(p, 1), size);
    ptx_ins *const in = ptx_emit(p, run, PTX_INTEGER);
    in->x = o->count;
    in->d = pack ? whole : parts;
    in->a = pack ? parts : whole;
}

void ptx_lower_mov(ptx_parser *p)
{
    if (!ptx_need_operands(p, 2, 2))
        return;
    if (p->operands[0].form == PTX_O_VECTOR || p->operands[1].form == PTX_O_VECTOR) {
        lower_packing(p, p->operands[1].form == PTX_O_VECTOR);
        return;
    }
    const ptx_row *const row = ptx_row_of(p->machine, p->opcode);
    if (!row || p->operands[0].form != PTX_O_PLAIN || p->operands[1].form != PTX_O_PLAIN) {
        ptx_error(p, "'%s' with these operands is not known", p->opcode);
        return;
    }
    const uint32_t d = ptx_target(p, ptx_plain(p, 0), row->sizes[0]);
    const uint32_t a = ptx_use(p, ptx_plain(p, 1), row->sizes[1]);
    ptx_ins *const in = ptx_emit(p, row->run, row->kind);
    in->d = d;
    in->a = a;
}

/* d = a op c, or d = !a op c through the sink. */
static void combine(ptx_parser *p, const char *op, uint32_t d, uint32_t a, const ptx_atom *c)
{
    char name[16];
    (void)snprintf(name, sizeof name, "%s_pred", op);
    const ptx_row *const row = ptx_row_of(p->machine, name);
    ptx_atom plain = *c;
    plain.negated = false;
    uint32_t other = ptx_use(p, &plain, 'p');
    if (c->negated) {
        ptx_ins *const in = ptx_emit(p, ptx_row_of(p->machine, "not_pred")->run, PTX_INTEGER);
        in->d = PTX_REG_SINK + 1;
        in->a = other;
        other = PTX_REG_SINK + 1;
    }
    ptx_ins *const in = ptx_emit(p, row->run, PTX_INTEGER);
    in->d = d;
    in->a = a;
    in->b = other;
}

/* setp.cmp[.bool][.ftz].type p[|q], a, b[, c]: p = cmp bool c, q = !cmp bool c. */
void ptx_lower_setp(ptx_parser *p)
{
    static const char *const words[] = {"and", "or", "xor"};
    const char *op = NULL;
    for (size_t k = 0; k < 3; k++)
        if (ptx_has(p, words[k]))
            op = words[k];
    if (!ptx_need_operands(p, op ? 4 : 3, op ? 4 : 3))
        return;
    char cmp[16] = "", type[16] = "", name[48];
    (void)sscanf(p->opcode, "setp.%15[^.]", cmp);
    (void)snprintf(type, sizeof type, "%s", strrchr(p->opcode, '.') + 1);
    (void)snprintf(name, sizeof name, "setp.%s.%s", cmp, type);
    const ptx_row *const row = ptx_row_of(p->machine, name);
    const size_t expected = strlen(name) + (op ? strlen(op) + 1 : 0);
    if (!row || strlen(p->opcode) != expected) {
        ptx_error(p, "opcode '%s' is not known", p->opcode);
        return;
    }
    const bool pair = p->operands[0].paired;
    const uint32_t d = ptx_target(p, ptx_plain(p, 0), 'p');
    const uint32_t q = pair ? ptx_target(p, ptx_plain(p, 0) + 1, 'p') : PTX_REG_SINK;
    const uint32_t a = ptx_use(p, ptx_plain(p, 1), row->sizes[1]);
    const uint32_t b = ptx_use(p, ptx_plain(p, 2), row->sizes[2]);
    if (pair && (p->guard >> 1 == d || p->guard >> 1 == q) && p->guard)
        ptx_error(p, "'%s' is guarded by a predicate that it sets", p->opcode);
    ptx_ins *in = ptx_emit(p, row->run, row->kind);
    in->d = op ? PTX_REG_SINK : d;
    in->a = a;
    in->b = b;
    if (op)
        combine(p, op, d, PTX_REG_SINK, ptx_plain(p, 3));
    if (!pair)
        return;
    const uint32_t from = op ? PTX_REG_SINK : d;
    in = ptx_emit(p, ptx_row_of(p->machine, "not_pred")->run, PTX_INTEGER);
    in->d = op ? PTX_REG_SINK : q;
    in->a = from;
    if (op)
        combine(p, op, q, PTX_REG_SINK, ptx_plain(p, 3));
}
