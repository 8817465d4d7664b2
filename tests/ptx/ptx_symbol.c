/* tests/ptx/ptx_symbol.c - declarations: registers, variables, scopes and their labels. */
#include <stdlib.h>

#include "tests/ptx/ptx_parse.h"

enum { MOST_UNITS = 1 << 20, MOST_BYTES = 1 << 30, MOST_CONST = 65536, MOST_LOCAL = 1 << 19 };

static bool same(const char *a, size_t n, const char *b, size_t m)
{
    return n == m && memcmp(a, b, n) == 0;
}

void ptx_declare(ptx_parser *p, ptx_symbol s)
{
    const size_t from = p->depth ? p->scopes[p->depth - 1].symbols : 0;
    for (size_t k = from; k < p->symbol_count; k++)
        if (same(p->symbols[k].name, p->symbols[k].length, s.name, s.length))
            ptx_error(p, "'%.*s' is declared twice", (int)s.length, s.name);
    p->symbols = ptx_grow(p->symbols, p->symbol_count, sizeof *p->symbols);
    p->symbols[p->symbol_count++] = s;
}

/* The number behind the name of a range; UINT32_MAX if the text is no such register. */
static uint32_t range_index(const ptx_symbol *s, const char *text, size_t length)
{
    if (length <= s->length || length > s->length + 8 || memcmp(text, s->name, s->length) != 0)
        return UINT32_MAX;
    uint32_t v = 0;
    for (size_t k = s->length; k < length; k++) {
        if (text[k] < '0' || text[k] > '9')
            return UINT32_MAX;
        v = 10 * v + (uint32_t)(text[k] - '0');
    }
    const bool padded = text[s->length] == '0' && length > s->length + 1;
    return padded || v >= s->count ? UINT32_MAX : v;
}

static bool special_register(const char *text, size_t length, ptx_atom *a)
{
    static const struct {
        const char *name;
        uint32_t unit;
    } names[] = {
        {"%tid.x", PTX_REG_TID},           {"%tid.y", PTX_REG_TID + 1},
        {"%tid.z", PTX_REG_TID + 2},       {"%ntid.x", PTX_REG_NTID},
        {"%ntid.y", PTX_REG_NTID + 1},     {"%ntid.z", PTX_REG_NTID + 2},
        {"%ctaid.x", PTX_REG_CTAID},       {"%ctaid.y", PTX_REG_CTAID + 1},
        {"%ctaid.z", PTX_REG_CTAID + 2},   {"%nctaid.x", PTX_REG_NCTAID},
        {"%nctaid.y", PTX_REG_NCTAID + 1}, {"%nctaid.z", PTX_REG_NCTAID + 2},
        {"%laneid", PTX_REG_LANEID},       {"%warpid", PTX_REG_WARPID},
        {"%nwarpid", PTX_REG_NWARPID},     {"%smid", PTX_REG_SMID},
        {"%lanemask_eq", PTX_REG_MASK_EQ}, {"%lanemask_lt", PTX_REG_MASK_LT},
        {"%lanemask_le", PTX_REG_MASK_LE}, {"%lanemask_gt", PTX_REG_MASK_GT},
        {"%lanemask_ge", PTX_REG_MASK_GE}, {"%dynamic_smem_size", PTX_REG_DYNAMIC_BYTES},
    };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (same(names[k].name, strlen(names[k].name), text, length)) {
            *a = (ptx_atom){.kind = PTX_A_REGISTER, .size = '4', .unit = names[k].unit};
            return true;
        }
    return false;
}

bool ptx_lookup(ptx_parser *p, const char *text, size_t length, ptx_atom *a)
{
    for (size_t k = p->symbol_count; k-- > 0;) {
        const ptx_symbol *const s = &p->symbols[k];
        if (s->kind == PTX_S_RANGE) {
            const uint32_t index = range_index(s, text, length);
            if (index == UINT32_MAX)
                continue;
            const uint32_t each = s->size == '8' ? 2 : 1;
            *a = (ptx_atom){
                .kind = PTX_A_REGISTER, .size = s->size, .unit = (uint32_t)s->value + index * each};
            return true;
        }
        if (!same(s->name, s->length, text, length))
            continue;
        *a = s->kind == PTX_S_REGISTER
                 ? (ptx_atom){.kind = PTX_A_REGISTER, .size = s->size, .unit = (uint32_t)s->value}
                 : (ptx_atom){.kind = PTX_A_SYMBOL, .symbol = s->kind, .value = s->value};
        return true;
    }
    return special_register(text, length, a);
}

unsigned ptx_type_bytes(const char *type, size_t length)
{
    static const char *const names[] = {"b8",    "u8",     "s8",  "b16", "u16", "s16",
                                        "f16",   "bf16",   "b32", "u32", "s32", "f32",
                                        "f16x2", "bf16x2", "b64", "u64", "s64", "f64"};
    static const uint8_t bytes[] = {1, 1, 1, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 8, 8, 8};
    if (length && *type == '.') {
        type++;
        length--;
    }
    for (size_t k = 0; k < sizeof bytes; k++)
        if (same(names[k], strlen(names[k]), type, length))
            return bytes[k];
    return 0;
}

/* The word at the token as a type. */
static unsigned type(ptx_parser *p)
{
    const unsigned bytes =
        p->token.kind == PTX_T_WORD ? ptx_type_bytes(p->token.text, p->token.length) : 0;
    if (!bytes)
        ptx_error(p, "'%.*s' is not a type that is known here", (int)p->token.length,
                  p->token.text);
    ptx_advance(p);
    return bytes;
}

/* .reg .type %r<count>, name, ...; */
void ptx_registers(ptx_parser *p)
{
    const bool predicate = ptx_accept(p, ".pred");
    const unsigned bytes = predicate ? 4 : type(p);
    const char size = predicate ? 'p' : bytes == 8 ? '8' : bytes == 4 ? '4' : '2';
    do {
        ptx_symbol s = {.kind = PTX_S_REGISTER,
                        .name = p->token.text,
                        .length = p->token.length,
                        .size = size,
                        .count = 1};
        if (p->token.kind != PTX_T_WORD)
            ptx_error(p, "a register has no name");
        ptx_advance(p);
        if (ptx_accept(p, "<")) {
            s.kind = PTX_S_RANGE;
            s.count = (uint32_t)ptx_number(p, MOST_UNITS / 4);
            ptx_expect(p, ">");
        }
        if (p->failed)
            return;
        s.value = p->kernel->units;
        ptx_declare(p, s);
        p->kernel->units += s.count * (size == '8' ? 2 : 1);
        if (p->kernel->units > MOST_UNITS)
            ptx_error(p, "too many registers");
    } while (ptx_accept(p, ","));
    ptx_expect(p, ";");
}

static uint32_t align_up(uint64_t v, uint32_t align)
{
    return (uint32_t)((v + align - 1) / align * align);
}

/* [n] or [n][m] or [] or nothing: elements, 0 for []. */
static uint64_t dimensions(ptx_parser *p)
{
    uint64_t n = 1;
    while (ptx_accept(p, "[")) {
        n *= ptx_is(p, "]") ? 0 : ptx_number(p, MOST_BYTES);
        ptx_expect(p, "]");
        if (n > MOST_BYTES) {
            ptx_error(p, "a variable is too large");
            return 1;
        }
    }
    return n;
}

static void one_value(ptx_parser *p, uint8_t *bytes, unsigned each, uint64_t at, uint64_t size)
{
    const bool minus = ptx_accept(p, "-");
    const ptx_token t = p->token;
    const unsigned need = t.kind == PTX_T_F32 ? 4 : t.kind == PTX_T_F64 ? 8 : each;
    if (t.kind != PTX_T_NUMBER && t.kind != PTX_T_F32 && t.kind != PTX_T_F64)
        ptx_error(p, "only numbers are known as initial values");
    else if (need != each || at + each > size)
        ptx_error(p, "an initial value does not fit its variable");
    else {
        const uint64_t v = minus ? 0 - t.value : t.value;
        memcpy(bytes + at, &v, each);
    }
    ptx_advance(p);
}

/* = value or = {value, ...}, into zeroed bytes. */
static void initial_values(ptx_parser *p, uint8_t *bytes, unsigned each, uint64_t size)
{
    if (!ptx_accept(p, "=") || !bytes)
        return;
    if (!ptx_accept(p, "{")) {
        one_value(p, bytes, each, 0, size);
        return;
    }
    uint64_t at = 0;
    do {
        one_value(p, bytes, each, at, size);
        at += each;
    } while (ptx_accept(p, ","));
    ptx_expect(p, "}");
}

static uint64_t place_global(ptx_parser *p, unsigned each, uint64_t size)
{
    uint8_t *const bytes = calloc(size ? size : 1, 1);
    if (!bytes)
        abort();
    initial_values(p, bytes, each, size);
    const uint64_t address = p->failed ? 0 : ptx_take(p->machine, size);
    if (address)
        (void)ptx_put(p->machine, address, bytes, size);
    free(bytes);
    return address;
}

static uint64_t place_const(ptx_parser *p, unsigned each, uint64_t size, uint32_t align)
{
    ptx_module *const m = p->module;
    const uint32_t at = align_up(m->constant_count, align);
    if (size > MOST_CONST || at + size > MOST_CONST) {
        ptx_error(p, "more than 64 KB of constants");
        return 0;
    }
    if (!m->constants && !(m->constants = calloc(MOST_CONST, 1)))
        abort();
    initial_values(p, m->constants + at, each, size);
    m->constant_count = at + size;
    return at;
}

/* Room in memory of a block or lane, counted in *used. */
static uint64_t place_counted(ptx_parser *p, uint32_t *used, uint64_t size, uint32_t align,
                              uint32_t most)
{
    const uint32_t at = align_up(*used, align);
    if (size > most || at + size > most)
        ptx_error(p, "more than %u bytes of shared or local memory", most);
    else
        *used = at + (uint32_t)size;
    return at;
}

void ptx_variable(ptx_parser *p)
{
    const bool global = ptx_accept(p, ".global"), constant = !global && ptx_accept(p, ".const"),
               shared = !global && !constant && ptx_accept(p, ".shared");
    if (!global && !constant && !shared)
        ptx_advance(p); /* .local, .param */
    uint32_t align = 1;
    if (ptx_accept(p, ".align")) {
        align = (uint32_t)ptx_number(p, 4096);
        if (align == 0 || (align & (align - 1)))
            ptx_error(p, "an alignment that is not a power of two");
    }
    const unsigned each = type(p);
    if (p->failed)
        return;
    align = align > each ? align : each;
    ptx_symbol s = {.name = p->token.text, .length = p->token.length};
    if (p->token.kind != PTX_T_WORD)
        ptx_error(p, "a variable has no name");
    ptx_advance(p);
    const uint64_t size = dimensions(p) * each;
    if (p->failed)
        return;
    if (global) {
        s.kind = PTX_S_GLOBAL;
        s.value = place_global(p, each, size);
    } else if (constant) {
        s.kind = PTX_S_CONST;
        s.value = place_const(p, each, size, align);
    } else if (shared && size == 0) {
        s.kind = PTX_S_DYNAMIC;
        s.value = align;
    } else if (shared) {
        s.kind = PTX_S_SHARED;
        s.value = place_counted(p, p->kernel ? &p->kernel->shared : &p->module->shared, size, align,
                                PTX_SHARED_MOST);
    } else if (p->kernel) {
        s.kind = PTX_S_LOCAL;
        s.value = place_counted(p, &p->kernel->local, size, align, MOST_LOCAL);
    } else {
        ptx_error(p, "a local variable outside of a kernel");
    }
    ptx_declare(p, s);
    ptx_expect(p, ";");
}

void ptx_open(ptx_parser *p)
{
    if (p->depth == PTX_SCOPES) {
        ptx_error(p, "blocks are nested too deeply");
        return;
    }
    p->scopes[p->depth++] = (ptx_scope){p->symbol_count, p->label_count, p->branch_count};
}

/* Branches to labels of this block are settled; others wait for the block around. */
void ptx_close(ptx_parser *p)
{
    const ptx_scope s = p->scopes[--p->depth];
    size_t kept = s.branches;
    for (size_t b = s.branches; b < p->branch_count; b++) {
        const ptx_label *const branch = &p->branches[b];
        size_t k = s.labels;
        while (k < p->label_count &&
               !same(p->labels[k].name, p->labels[k].length, branch->name, branch->length))
            k++;
        if (k < p->label_count)
            p->kernel->code[branch->pc].d = p->labels[k].pc;
        else
            p->branches[kept++] = *branch;
    }
    p->branch_count = kept;
    p->label_count = s.labels;
    p->symbol_count = s.symbols;
    if (p->depth == 1 && kept > s.branches)
        ptx_error(p, "no label '%.*s'", (int)p->branches[s.branches].length,
                  p->branches[s.branches].name);
}
