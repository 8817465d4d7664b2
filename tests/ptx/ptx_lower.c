/* tests/ptx/ptx_lower.c - from operands of text to records. Most opcodes are rows of the tables of
 * operations; those with forms of their own are lowered by the functions of `specials`. */
#include <stdlib.h>

#include "tests/ptx/ptx_parse.h"

/* ---- operands ---- */
static void atom(ptx_parser *p)
{
    if (p->atom_count == PTX_ATOMS) {
        ptx_error(p, "too many operands");
        return;
    }
    ptx_atom *const a = &p->atoms[p->atom_count++];
    *a = (ptx_atom){.kind = PTX_A_WORD};
    const bool negated = ptx_accept(p, "!"), minus = ptx_accept(p, "-");
    const ptx_token t = p->token;
    if (t.kind == PTX_T_NUMBER || t.kind == PTX_T_F32 || t.kind == PTX_T_F64)
        *a = (ptx_atom){.kind = t.kind == PTX_T_NUMBER ? PTX_A_NUMBER
                                : t.kind == PTX_T_F32  ? PTX_A_F32
                                                       : PTX_A_F64,
                        .value = minus ? 0 - t.value : t.value};
    else if (t.kind != PTX_T_WORD)
        ptx_error(p, "an operand is expected here, not '%.*s'", (int)t.length, t.text);
    else if (ptx_is(p, "WARP_SZ"))
        *a = (ptx_atom){.kind = PTX_A_NUMBER, .value = PTX_LANES};
    else if (ptx_is(p, "_"))
        a->kind = PTX_A_SINK;
    else
        (void)ptx_lookup(p, t.text, t.length, a);
    a->negated = negated;
    a->text = t.text;
    a->length = t.length;
    ptx_advance(p);
}

static void operand(ptx_parser *p)
{
    if (p->operand_count == PTX_OPERANDS) {
        ptx_error(p, "too many operands");
        return;
    }
    ptx_operand *const o = &p->operands[p->operand_count++];
    *o = (ptx_operand){.form = PTX_O_PLAIN, .first = (uint32_t)p->atom_count};
    if (ptx_accept(p, "[")) {
        o->form = PTX_O_MEMORY;
        atom(p);
        while (ptx_is(p, "+") || ptx_is(p, "-")) {
            bool minus = ptx_is(p, "-");
            ptx_advance(p);
            if (ptx_accept(p, "-"))
                minus = !minus;
            const int64_t v = (int64_t)ptx_number(p, UINT32_MAX);
            o->offset += minus ? -v : v;
        }
        ptx_expect(p, "]");
    } else if (ptx_accept(p, "{")) {
        o->form = PTX_O_VECTOR;
        do
            atom(p);
        while (ptx_accept(p, ","));
        ptx_expect(p, "}");
    } else if (ptx_accept(p, "(")) { /* of a call */
        do
            atom(p);
        while (ptx_accept(p, ","));
        ptx_expect(p, ")");
    } else {
        atom(p);
        if (ptx_accept(p, "|")) {
            o->paired = true;
            atom(p);
        }
    }
    o->count = (uint32_t)p->atom_count - o->first;
}

void ptx_operands(ptx_parser *p)
{
    p->atom_count = p->operand_count = 0;
    if (ptx_accept(p, ";"))
        return;
    do
        operand(p);
    while (ptx_accept(p, ","));
    ptx_expect(p, ";");
}

/* ---- what lowering needs ---- */
ptx_ins *ptx_emit(ptx_parser *p, ptx_op *run, ptx_class kind)
{
    ptx_kernel *const k = p->kernel;
    ptx_module *const m = p->module;
    k->code = ptx_grow(k->code, k->code_count, sizeof *k->code);
    if (m->loc_count == 0 || memcmp(&m->locs[m->loc_count - 1], &p->loc, sizeof p->loc) != 0) {
        m->locs = ptx_grow(m->locs, m->loc_count, sizeof *m->locs);
        m->locs[m->loc_count++] = p->loc;
    }
    ptx_ins *const in = &k->code[k->code_count++];
    *in = (ptx_ins){
        .run = run, .guard = p->guard, .loc = (uint32_t)m->loc_count - 1, .kind = (uint16_t)kind};
    return in;
}

uint32_t ptx_fixed(ptx_module *m, uint64_t bits, unsigned bytes)
{
    const uint32_t units = bytes == 8 ? 2 : 1;
    uint8_t *const from = (uint8_t *)m->fixed;
    for (size_t k = 0; k + units <= m->fixed_count; k++) { /* the first lanes say which it is */
        ptx_lanes *const r = (ptx_lanes *)(void *)(from + k * PTX_UNIT);
        const bool match = bytes == 8 ? r->u64[0] == bits && r->u64[31] == bits
                                      : r->u32[0] == bits && r->u32[31] == bits;
        if (match)
            return (uint32_t)k | PTX_FIXED;
    }
    uint8_t *grown = (uint8_t *)m->fixed;
    for (uint32_t k = 0; k < units; k++) {
        grown = ptx_grow(grown, m->fixed_count, PTX_UNIT);
        m->fixed_count++;
    }
    m->fixed = (ptx_lanes *)(void *)grown;
    ptx_lanes *const r = (ptx_lanes *)(void *)(grown + (m->fixed_count - units) * (size_t)PTX_UNIT);
    for (int i = 0; i < PTX_LANES; i++)
        if (bytes == 8)
            r->u64[i] = bits;
        else
            r->u32[i] = (uint32_t)bits;
    return (uint32_t)(m->fixed_count - units) | PTX_FIXED;
}

uint32_t ptx_pooled(ptx_parser *p, uint32_t value)
{
    ptx_module *const m = p->module;
    m->pool = ptx_grow(m->pool, m->pool_count, sizeof *m->pool);
    m->pool[m->pool_count] = value;
    return (uint32_t)m->pool_count++;
}

ptx_atom *ptx_plain(ptx_parser *p, size_t operand)
{
    p->none = (ptx_atom){.kind = PTX_A_WORD, .text = ""};
    if (operand >= p->operand_count) {
        ptx_error(p, "'%s' has too few operands", p->opcode);
        return &p->none;
    }
    return &p->atoms[p->operands[operand].first];
}

static void wrong(ptx_parser *p, const ptx_atom *a, const char *what)
{
    ptx_error(p, "'%s': operand '%.*s' %s", p->opcode, (int)a->length, a->text, what);
}

static unsigned letter_bytes(char size)
{
    return size == '8' ? 8 : 4;
}

/* Whether a register of this size may stand where the letter asks for one. */
static bool fits(char size, char letter)
{
    return size == letter || (letter == '1' && (size == '2' || size == '4'));
}

uint32_t ptx_use(ptx_parser *p, const ptx_atom *a, char size)
{
    if (a->kind == PTX_A_REGISTER) {
        if (!fits(a->size, size) || a->negated)
            wrong(p, a, "has the wrong size");
        return a->unit;
    }
    if (size == 'p' && a->kind == PTX_A_NUMBER)
        return ptx_fixed(p->module, a->value ? UINT32_MAX : 0, 4);
    if (a->kind == PTX_A_NUMBER)
        return ptx_fixed(p->module, size == '8' ? a->value : (uint32_t)a->value,
                         letter_bytes(size));
    if ((a->kind == PTX_A_F32 && size == '4') || (a->kind == PTX_A_F64 && size == '8'))
        return ptx_fixed(p->module, a->value, letter_bytes(size));
    if (a->kind == PTX_A_SYMBOL && a->symbol == PTX_S_DYNAMIC && (size == '4' || size == '8')) {
        const uint32_t align = (uint32_t)a->value;
        if (align > p->kernel->dynamic_align)
            p->kernel->dynamic_align = align;
        return size == '4' ? PTX_REG_DYNAMIC32 : PTX_REG_DYNAMIC64;
    }
    if (a->kind == PTX_A_SYMBOL && (size == '8' || (size == '4' && a->value <= UINT32_MAX)))
        return ptx_fixed(p->module, a->value + (a->symbol == PTX_S_SHARED ? PTX_SHARED_START : 0),
                         letter_bytes(size));
    wrong(p, a, a->kind == PTX_A_WORD ? "is not declared" : "does not fit");
    return 0;
}

uint32_t ptx_target(ptx_parser *p, const ptx_atom *a, char size)
{
    if (a->kind == PTX_A_SINK)
        return PTX_REG_SINK;
    if (a->kind != PTX_A_REGISTER || !fits(a->size, size) || a->unit < PTX_REG_OWN) {
        wrong(p, a, a->kind == PTX_A_WORD ? "is not declared" : "is not a register of that size");
        return PTX_REG_SINK;
    }
    return a->unit;
}

uint32_t ptx_vector(ptx_parser *p, size_t operand, uint32_t n, char size, bool target)
{
    const ptx_atom *const first = ptx_plain(p, operand);
    const uint32_t at = (uint32_t)p->module->pool_count;
    const ptx_operand *const o = &p->operands[operand < p->operand_count ? operand : 0];
    if (p->failed)
        return 0;
    if (o->count != n || o->form == PTX_O_MEMORY) {
        ptx_error(p, "'%s': operand %zu must name %u registers", p->opcode, operand + 1, n);
        return 0;
    }
    for (uint32_t k = 0; k < n; k++)
        (void)ptx_pooled(p, target ? ptx_target(p, &first[k], size) : ptx_use(p, &first[k], size));
    return at;
}

bool ptx_need_operands(ptx_parser *p, size_t least, size_t most)
{
    if (p->operand_count < least || p->operand_count > most)
        ptx_error(p, "'%s' does not take %zu operands", p->opcode, p->operand_count);
    return !p->failed;
}

bool ptx_has(const ptx_parser *p, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = strchr(p->opcode, '.'); at; at = strchr(at, '.')) {
        at++;
        if (strncmp(at, word, n) == 0 && (at[n] == '.' || at[n] == 0))
            return true;
    }
    return false;
}

/* ---- the tables ---- */
static int by_name(const void *a, const void *b)
{
    return strcmp((*(const ptx_row *const *)a)->name, (*(const ptx_row *const *)b)->name);
}

static void collect(ptx_machine *m)
{
    static const ptx_rows *const lists[] = {&ptx_rows_integer, &ptx_rows_compare,
                                            &ptx_rows_float,   &ptx_rows_directed,
                                            &ptx_rows_half,    &ptx_rows_convert};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (size_t k = 0; k < lists[l]->count; k++) {
            m->rows = ptx_grow(m->rows, m->row_count, sizeof *m->rows);
            m->rows[m->row_count++] = &lists[l]->row[k];
        }
    qsort(m->rows, m->row_count, sizeof *m->rows, by_name);
}

const ptx_row *ptx_row_of(ptx_machine *m, const char *opcode)
{
    char name[160];
    size_t n = 0;
    for (; opcode[n] && n < sizeof name - 1; n++)
        name[n] = opcode[n] == '.' || opcode[n] == ':' ? '_' : opcode[n];
    name[n] = 0;
    if (m->row_count == 0)
        collect(m);
    const ptx_row key = {.name = name}, *const at = &key;
    const ptx_row **const found = bsearch(&at, m->rows, m->row_count, sizeof *m->rows, by_name);
    return found ? *found : NULL;
}

static void by_row(ptx_parser *p)
{
    const ptx_row *const row = ptx_row_of(p->machine, p->opcode);
    if (!row) {
        ptx_error(p, "opcode '%s' is not known", p->opcode);
        return;
    }
    const size_t n = strlen(row->sizes);
    if (!ptx_need_operands(p, n, n))
        return;
    uint32_t unit[5] = {0};
    for (size_t k = 0; k < n; k++) { /* sources that there are not are the first one again */
        const ptx_atom *const a = ptx_plain(p, k);
        if (p->operands[k].form != PTX_O_PLAIN || p->operands[k].count != 1)
            wrong(p, a, "must be one register");
        if (row->sizes[k] == 'i' && a->kind != PTX_A_NUMBER)
            wrong(p, a, "must be a number");
        unit[k] = row->sizes[k] == 'i' ? (uint32_t)a->value
                  : k == 0             ? ptx_target(p, a, row->sizes[k])
                                       : ptx_use(p, a, row->sizes[k]);
    }
    ptx_ins *const in = ptx_emit(p, row->run, row->kind);
    in->d = unit[0];
    in->a = unit[1];
    in->b = unit[n > 2 ? 2 : 1];
    in->c = unit[n > 3 ? 3 : 1];
    in->x = unit[4];
}

static const ptx_special specials[] = {
    {"mov", ptx_lower_mov},
    {"setp", ptx_lower_setp},
    {"bra", ptx_lower_bra},
    {"ret", ptx_lower_ret},
    {"exit", ptx_lower_ret},
    {"trap", ptx_lower_trap},
    {"call", ptx_lower_call},
    {"ld", ptx_lower_ld},
    {"ldu", ptx_lower_ld},
    {"st", ptx_lower_st},
    {"cvta", ptx_lower_cvta},
    {"bar", ptx_lower_bar},
    {"barrier", ptx_lower_bar},
    {"shfl", ptx_lower_shfl},
    {"vote", ptx_lower_vote},
    {"redux", ptx_lower_redux},
    {"match", ptx_lower_match},
    {"activemask", ptx_lower_activemask},
    {"membar", ptx_lower_fence},
    {"fence", ptx_lower_fence},
    {"atom", ptx_lower_atom},
    {"red", ptx_lower_atom},
    {"cp", ptx_lower_copy},
    {"mbarrier", ptx_lower_mbarrier},
    {"griddepcontrol", ptx_lower_nothing},
    {"createpolicy", ptx_lower_policy},
    {"mma", ptx_lower_mma},
    {"ldmatrix", ptx_lower_ldmatrix},
    {"nanosleep", ptx_lower_nothing},
    {"prefetch", ptx_lower_nothing},
    {"prefetchu", ptx_lower_nothing},
};

void ptx_lower(ptx_parser *p)
{
    const size_t n = strcspn(p->opcode, ".");
    for (size_t k = 0; k < sizeof specials / sizeof *specials; k++)
        if (strlen(specials[k].name) == n && memcmp(specials[k].name, p->opcode, n) == 0) {
            specials[k].lower(p);
            return;
        }
    by_row(p);
}
