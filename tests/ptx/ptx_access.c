/* tests/ptx/ptx_access.c - loads and stores of lanes.
 *
 * A load gives an undefined value where a byte of it is undefined (full checks); a store marks what
 * it writes. To global memory no undefined value goes: that is a fault. */
#include "tests/ptx/ptx_parse.h"

static const char *const space_names[] = {"generic", "global",    "shared",
                                          "local",   "parameter", "constant"};

static void outside(ptx_warp *w, const ptx_ins *in, const ptx_access *t, int lane, uint64_t size,
                    uint64_t at)
{
    const unsigned long long a = t->address[lane];
    const char *const verb = t->write ? "writes" : "reads";
    if (a % t->bytes && size)
        ptx_fail(w, in, 1u << lane, a, "%s %u bytes of %s memory at %#llx, which is not aligned",
                 verb, t->bytes, space_names[t->space], a);
    else if (size)
        ptx_fail(w, in, 1u << lane, a,
                 "%s %u bytes of %s memory at %#llx, offset %lld of an object of %llu", verb,
                 t->bytes, space_names[t->space], a, (long long)at, (unsigned long long)size);
    else
        ptx_fail(w, in, 1u << lane, a, "%s %u bytes at %#llx, where no %s memory is", verb,
                 t->bytes, a, space_names[t->space]);
}

/* An object: its bytes begin at this address; those of lane i `stride` * i further. */
typedef struct object {
    uint8_t *bytes, *defined; /* defined NULL: all of it is */
    uint64_t start, size;
    uint32_t stride;
} object;

/* Finds the bytes of all lanes at once; false if any lane is outside of the object. */
static bool place(ptx_warp *w, ptx_access *t, const object *o)
{
    const uint64_t last = o->size - t->bytes, start = o->start, align = t->bytes - 1;
    const uintptr_t bytes = (uintptr_t)o->bytes, defined = (uintptr_t)o->defined;
    const uint64_t *const address = t->address;
    uint64_t wrong = 0;
    if (o->size < t->bytes)
        return false;
    /* The top bit of `at` or `last - at` is set where one of them is below 0. */
    PTX_EACH(w, const uint64_t at = address[i] - start;
             wrong |= m ? at | (last - at) | (address[i] & align) << 60 : 0;)
    if (wrong >> 60)
        return false;
    for (int i = 0; i < PTX_LANES; i++)
        t->host[i] = (uint8_t *)(bytes + (address[i] - start));
    for (int i = 0; i < PTX_LANES; i++)
        t->defined[i] = o->defined ? (uint8_t *)(defined + (address[i] - start)) : NULL;
    for (uint32_t i = 0; o->stride && i < PTX_LANES; i++) {
        t->host[i] += o->stride * i;
        if (o->defined)
            t->defined[i] += o->stride * i;
    }
    return true;
}

static bool reach_global(ptx_warp *w, const ptx_ins *in, ptx_access *t)
{
    const ptx_machine *const m = w->block->grid->machine;
    const uint64_t first = t->address[__builtin_ctz(w->act)];
    const ptx_segment *s = ptx_segment_of(m, first);
    const uint64_t start = (first >> 32 << 32) + PTX_GUARD;
    if (s && place(w, t, &(object){s->bytes, s->defined, start, s->size, 0}))
        return true;
    for (uint32_t left = w->act; left; left &= left - 1) { /* different ones, or a fault */
        const int i = __builtin_ctz(left);
        const uint64_t a = t->address[i], at = (uint32_t)a - (uint64_t)PTX_GUARD;
        s = ptx_segment_of(m, a);
        if (!s || at >= s->size || t->bytes > s->size - at || a & (t->bytes - 1)) {
            outside(w, in, t, i, s ? s->size : 0, at);
            return false;
        }
        t->host[i] = s->bytes + at;
        t->defined[i] = s->defined + at;
    }
    return true;
}

static bool reach_small(ptx_warp *w, const ptx_ins *in, ptx_access *t, const object *o)
{
    if (place(w, t, o))
        return true;
    for (uint32_t left = w->act; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        const uint64_t a = t->address[i], at = a - o->start;
        if (at >= o->size || t->bytes > o->size - at || a & (t->bytes - 1)) {
            outside(w, in, t, i, o->size, at);
            break;
        }
    }
    return false;
}

/* Which memory generic addresses mean. */
static bool resolve(ptx_warp *w, const ptx_ins *in, ptx_access *t)
{
    const int first = __builtin_ctz(w->act);
    const uint64_t high = t->address[first] >> 32;
    t->space = high == PTX_HIGH_SHARED  ? PTX_SHARED
               : high == PTX_HIGH_LOCAL ? PTX_LOCAL
               : high == PTX_HIGH_PARAM ? PTX_PARAM
               : high == PTX_HIGH_CONST ? PTX_CONST
                                        : PTX_GLOBAL;
    for (uint32_t left = t->space == PTX_GLOBAL ? 0 : w->act; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        if (t->address[i] >> 32 != high) {
            ptx_fail(w, in, 1u << i, t->address[i],
                     "lanes use generic addresses of different memories, which is not supported");
            return false;
        }
        t->address[i] = (uint32_t)t->address[i];
    }
    return true;
}

bool ptx_reach(ptx_warp *w, const ptx_ins *in, ptx_access *t)
{
    const ptx_lanes *const ra = ptx_reg(w, in->a);
    const int32_t offset = (int32_t)in->b;
    if (!ptx_known(w, in, in->a, "an address"))
        return false;
    if (in->x & PTX_X_WIDE)
        for (int i = 0; i < PTX_LANES; i++)
            t->address[i] = ra->u64[i] + (uint64_t)(int64_t)offset;
    else
        for (int i = 0; i < PTX_LANES; i++)
            t->address[i] = ra->u32[i] + (uint32_t)offset;
    if (t->space == PTX_GENERIC && !resolve(w, in, t))
        return false;
    ptx_block *const b = w->block;
    const ptx_kernel *const k = b->grid->kernel;
    switch (t->space) {
    case PTX_SHARED:
        return reach_small(w, in, t,
                           &(object){b->shared, b->shared_defined, PTX_SHARED_START,
                                     b->shared_end - PTX_SHARED_START, 0});
    case PTX_LOCAL:
        return reach_small(w, in, t, &(object){w->local, w->local_defined, 0, k->local, k->local});
    case PTX_PARAM:
        return reach_small(w, in, t, &(object){b->grid->arguments, NULL, 0, k->bytes, 0});
    case PTX_CONST:
        return reach_small(w, in, t,
                           &(object){k->module->constants, NULL, 0, k->module->constant_count, 0});
    default: return reach_global(w, in, t);
    }
}

uint32_t ptx_undefined(const ptx_warp *w, const ptx_access *t, uint32_t offset, uint32_t bytes)
{
    uint32_t bits = 0;
    for (uint32_t left = w->act; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        uint8_t all = 1;
        for (uint32_t k = 0; t->defined[i] && k < bytes; k++)
            all &= t->defined[i][offset + k];
        bits |= (all ? 0u : 1u) << i;
    }
    return bits;
}

/* Runs statements for each lane i that runs. */
#define LANES_THAT_RUN(...)                                                                        \
    const uint32_t act_ = w->act;                                                                  \
    for (uint32_t i = 0; act_ == ~0u && i < PTX_LANES; i++) {                                      \
        __VA_ARGS__                                                                                \
    }                                                                                              \
    for (uint32_t left_ = act_ == ~0u ? 0 : act_; left_; left_ &= left_ - 1) {                     \
        const int i = __builtin_ctz(left_);                                                        \
        __VA_ARGS__                                                                                \
    }

static uint64_t read_one(const uint8_t *from, uint32_t size, bool sign)
{
    uint64_t v = 0;
    memcpy(&v, from, size); /* little-endian, as the device is */
    const uint64_t top = (uint64_t)1 << (8 * size - 1);
    return sign && size < 8 && v & top ? v | ~(2 * top - 1) : v;
}

/* The object of global or shared memory that the first lane means; false: something else. */
static bool likely(const ptx_warp *w, const ptx_ins *in, object *o)
{
    const ptx_block *const b = w->block;
    if (PTX_X_SPACE(in->x) == PTX_SHARED) {
        *o = (object){b->shared, NULL, PTX_SHARED_START, b->shared_end - PTX_SHARED_START, 0};
        return true;
    }
    const uint64_t first = ptx_reg(w, in->a)->u64[__builtin_ctz(w->act)];
    const ptx_segment *const s = ptx_segment_of(b->grid->machine, first);
    if (PTX_X_SPACE(in->x) != PTX_GLOBAL || !(in->x & PTX_X_WIDE) || !s)
        return false;
    *o = (object){s->bytes, NULL, (first >> 32 << 32) + PTX_GUARD, s->size, 0};
    return true;
}

/* One value of every lane, `at` bytes from here. */
static void gather(ptx_warp *w, ptx_lanes *r, const uint8_t *from, const uint64_t *at,
                   uint32_t size, bool sign)
{
    if (size == 8) {
        PTX_EACH(w, uint64_t v; memcpy(&v, from + at[i], 8); r->u64[i] = m ? v : r->u64[i];)
    } else if (size == 4) {
        PTX_EACH(w, uint32_t v; memcpy(&v, from + at[i], 4); r->u32[i] = m ? v : r->u32[i];)
    } else if (size == 2) {
        PTX_EACH(w, uint16_t v; memcpy(&v, from + at[i], 2);
                 const uint32_t all = sign ? (uint32_t)(int16_t)v : v;
                 r->u32[i] = m ? all : r->u32[i];)
    } else {
        PTX_EACH(w, const uint8_t v = from[at[i]];
                 const uint32_t all = sign ? (uint32_t)(int8_t)v : v;
                 r->u32[i] = m ? all : r->u32[i];)
    }
}

/* A load that nobody watches, of one object: the usual one. false: it was not one, nothing is done.
 */
static bool ld_simple(ptx_warp *w, const ptx_ins *in)
{
    const uint32_t size = PTX_X_SIZE(in->x), count = PTX_X_COUNT(in->x);
    const uint32_t *const units = w->block->grid->kernel->module->pool + in->d;
    const ptx_lanes *const ra = ptx_reg(w, in->a);
    const uint64_t align = size * count - 1;
    object o;
    if (w->block->watched || ptx_undef(w, in->a) & w->act || (in->x & PTX_X_TO64 && size < 8) ||
        !likely(w, in, &o) || o.size < size * count)
        return false;
    const uint64_t start = o.start - (uint64_t)(int64_t)(int32_t)in->b,
                   last = o.size - size * count;
    uint64_t at[PTX_LANES], wrong = 0;
    if (in->x & PTX_X_WIDE) {
        PTX_EACH(w, at[i] = m ? ra->u64[i] - start : 0;
                 wrong |= at[i] | (last - at[i]) | (at[i] & align) << 60;)
    } else {
        PTX_EACH(w, at[i] = m ? ra->u32[i] - start : 0;
                 wrong |= at[i] | (last - at[i]) | (at[i] & align) << 60;)
    }
    if (wrong >> 60)
        return false;
    for (uint32_t k = 0; k < count; k++) {
        gather(w, ptx_reg(w, units[k]), o.bytes + size * k, at, size, in->x & PTX_X_SIGNED);
        ptx_spread(w, units[k], 0);
    }
    return true;
}

static void ld(ptx_warp *w, const ptx_ins *in)
{
    if (ld_simple(w, in))
        return;
    const uint32_t size = PTX_X_SIZE(in->x), count = PTX_X_COUNT(in->x);
    const uint32_t *const units = w->block->grid->kernel->module->pool + in->d;
    ptx_access t;
    ptx_access_begin(&t, PTX_X_SPACE(in->x), size * count, false);
    if (!ptx_reach(w, in, &t) || !ptx_note(w, in, &t))
        return;
    const bool full = w->block->grid->launch->options.checks == PTX_FULL;
    for (uint32_t k = 0; k < count; k++) {
        ptx_lanes *const r = ptx_reg(w, units[k]);
        const bool sign = in->x & PTX_X_SIGNED, wide = in->x & PTX_X_TO64;
        if (size == 4 && !wide) {
            LANES_THAT_RUN(memcpy(&r->u32[i], t.host[i] + 4 * k, 4);)
        } else if (size == 8) {
            LANES_THAT_RUN(memcpy(&r->u64[i], t.host[i] + 8 * k, 8);)
        } else if (wide) {
            LANES_THAT_RUN(r->u64[i] = read_one(t.host[i] + size * k, size, sign);)
        } else {
            LANES_THAT_RUN(r->u32[i] = (uint32_t)read_one(t.host[i] + size * k, size, sign);)
        }
        ptx_spread(w, units[k], full ? ptx_undefined(w, &t, size * k, size) : 0);
    }
}

/* Lanes of one instruction may write the same bytes only if they write the same values. */
static void read_back(ptx_warp *w, const ptx_ins *in, const ptx_access *t)
{
    const uint32_t size = PTX_X_SIZE(in->x), count = PTX_X_COUNT(in->x);
    const uint32_t *const units = w->block->grid->kernel->module->pool + in->d;
    for (uint32_t k = 0; k < count; k++) {
        const ptx_lanes *const r = ptx_reg(w, units[k]);
        for (uint32_t left = w->act; left; left &= left - 1) {
            const int i = __builtin_ctz(left);
            const uint64_t v = in->x & PTX_X_TO64 ? r->u64[i] : r->u32[i];
            if (memcmp(t->host[i] + size * k, &v, size) != 0) {
                ptx_fail(w, in, 1u << i, t->address[i],
                         "lanes of one instruction write different values to %s memory at %#llx",
                         space_names[t->space], (unsigned long long)t->address[i] + size * k);
                return;
            }
        }
    }
}

static void st(ptx_warp *w, const ptx_ins *in)
{
    const uint32_t size = PTX_X_SIZE(in->x), count = PTX_X_COUNT(in->x);
    const uint32_t *const units = w->block->grid->kernel->module->pool + in->d;
    ptx_access t;
    ptx_access_begin(&t, PTX_X_SPACE(in->x), size * count, true);
    if (!ptx_reach(w, in, &t))
        return;
    if (t.space == PTX_PARAM || t.space == PTX_CONST)
        ptx_fail(w, in, w->act, 0, "writes %s memory", space_names[t.space]);
    else if (!ptx_note(w, in, &t))
        return;
    for (uint32_t k = 0; k < count && !w->block->faulted; k++) {
        const ptx_lanes *const r = ptx_reg(w, units[k]);
        const uint32_t undef = ptx_undef(w, units[k]);
        if (t.space == PTX_GLOBAL && !ptx_known(w, in, units[k], "what is stored"))
            return;
        for (uint32_t left = w->act; left; left &= left - 1) {
            const int i = __builtin_ctz(left);
            const uint64_t v = in->x & PTX_X_TO64 ? r->u64[i] : r->u32[i];
            memcpy(t.host[i] + size * k, &v, size);
            if (t.defined[i])
                memset(t.defined[i] + size * k, !(undef >> i & 1), size);
        }
    }
    if (w->block->shadow)
        read_back(w, in, &t);
}

/* ---- lowering ---- */
/* Takes the words of an opcode one by one. */
typedef struct words {
    const char *at;
    char one[48];
} words;

static bool next_word(words *s)
{
    if (!*s->at)
        return false;
    if (*s->at == '.')
        s->at++;
    const size_t n = strcspn(s->at, "."), most = sizeof s->one - 1;
    memcpy(s->one, s->at, n < most ? n : most);
    s->one[n < most ? n : most] = 0;
    s->at += n;
    return true;
}

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

/* The space that a word names; -1 if it names none. */
static int space_word(const char *word)
{
    static const char *const names[] = {"global", "shared", "local", "param", "const"};
    static const ptx_space spaces[] = {PTX_GLOBAL, PTX_SHARED, PTX_LOCAL, PTX_PARAM, PTX_CONST};
    if (strcmp(word, "shared::cta") == 0)
        return PTX_SHARED;
    for (size_t k = 0; k < 5; k++)
        if (strcmp(word, names[k]) == 0)
            return (int)spaces[k];
    return -1;
}

static uint32_t log2_of(uint32_t v)
{
    return (uint32_t)__builtin_ctz(v);
}

uint32_t ptx_access_words(ptx_parser *p)
{
    static const char *const hints[] = {"ca", "cs", "cv", "lu", "wb", "wt", "cg", "weak", NULL};
    static const char *const strong[] = {"volatile", "relaxed", "cta", "gpu", "sys", NULL};
    words s = {.at = p->opcode};
    uint32_t x = 0, size = 0, count = 1;
    bool known = true;
    (void)next_word(&s);
    while (next_word(&s)) {
        const int space = space_word(s.one);
        const unsigned bytes = ptx_type_bytes(s.one, strlen(s.one));
        if (space >= 0)
            x |= (uint32_t)space;
        else if (strcmp(s.one, "nc") == 0)
            x |= PTX_X_NC;
        else if (strcmp(s.one, "acquire") == 0 || strcmp(s.one, "release") == 0)
            x |= PTX_X_ACQUIRE;
        else if (is_one_of(s.one, strong))
            x |= PTX_X_STRONG;
        else if (strcmp(s.one, "v2") == 0 || strcmp(s.one, "v4") == 0)
            count = (uint32_t)(s.one[1] - '0');
        else if (bytes && !*s.at) {
            size = bytes;
            x |= *s.one == 's' ? PTX_X_SIGNED : 0;
        } else
            known &= is_one_of(s.one, hints) || strncmp(s.one, "L1::", 4) == 0 ||
                     strncmp(s.one, "L2::", 4) == 0;
    }
    if (!known || size == 0 || size * count > 16) {
        ptx_error(p, "opcode '%s' is not known", p->opcode);
        return 0;
    }
    if (x & (PTX_X_ACQUIRE | PTX_X_STRONG) && PTX_X_SPACE(x) != PTX_SHARED)
        p->kernel->atomics = true;
    p->kernel->narrow |= size < 4 && PTX_X_SPACE(x) <= PTX_SHARED;
    return x | log2_of(size) << 3 | count << 6;
}

uint32_t ptx_address(ptx_parser *p, size_t operand, ptx_space space, uint32_t *x)
{
    const ptx_atom *a = ptx_plain(p, operand);
    const ptx_operand *const o = &p->operands[operand < p->operand_count ? operand : 0];
    if (p->failed)
        return 0;
    if (o->form != PTX_O_MEMORY || o->offset > INT32_MAX || o->offset < INT32_MIN) {
        ptx_error(p, "'%s': operand %zu must be an address", p->opcode, operand + 1);
        return 0;
    }
    const bool symbol = a->kind == PTX_A_SYMBOL && a->symbol != PTX_S_GLOBAL;
    const bool wide = a->kind == PTX_A_REGISTER ? a->size == '8' : !symbol;
    if (!wide && (space == PTX_GLOBAL || space == PTX_GENERIC))
        ptx_error(p, "'%s': an address has 64 bits", p->opcode);
    *x |= wide ? PTX_X_WIDE : 0;
    return ptx_use(p, a, wide ? '8' : '4');
}

static void lower_access(ptx_parser *p, bool store)
{
    const bool policy = ptx_has(p, "L2::cache_hint");
    const size_t n = policy ? 3 : 2;
    if (!ptx_need_operands(p, n, n))
        return;
    uint32_t x = ptx_access_words(p);
    const size_t memory = store ? 0 : 1, values = store ? 1 : 0;
    const ptx_atom *const first = ptx_plain(p, memory);
    /* Parameters of a call lie in local memory. */
    if (PTX_X_SPACE(x) == PTX_PARAM && first->kind == PTX_A_SYMBOL && first->symbol == PTX_S_LOCAL)
        x = (x & ~7u) | PTX_LOCAL;
    if (policy)
        (void)ptx_use(p, ptx_plain(p, 2), '8');
    const uint32_t a = ptx_address(p, memory, PTX_X_SPACE(x), &x);
    const ptx_operand *const o = &p->operands[values];
    const ptx_atom *const v = ptx_plain(p, values);
    char size = PTX_X_SIZE(x) == 8 ? '8' : PTX_X_SIZE(x) == 4 ? '4' : '1';
    if (v->kind == PTX_A_REGISTER && v->size == '8')
        size = '8';
    if (size == '8')
        x |= PTX_X_TO64;
    const uint32_t d = ptx_vector(p, values, PTX_X_COUNT(x), size, !store);
    const int64_t offset = p->operands[memory].offset;
    if ((o->form == PTX_O_VECTOR) != (PTX_X_COUNT(x) > 1))
        ptx_error(p, "'%s' and its operand have different counts", p->opcode);
    const ptx_class kind = PTX_X_SPACE(x) == PTX_SHARED   ? PTX_ACCESS_SHARED
                           : PTX_X_SPACE(x) <= PTX_GLOBAL ? PTX_ACCESS_GLOBAL
                                                          : PTX_OTHER;
    ptx_ins *const in = ptx_emit(p, store ? st : ld, kind);
    in->d = d;
    in->a = a;
    in->b = (uint32_t)(int32_t)offset;
    in->x = x;
}

void ptx_lower_ld(ptx_parser *p)
{
    lower_access(p, false);
}

void ptx_lower_st(ptx_parser *p)
{
    lower_access(p, true);
}

/* x: the upper half to add; 0: to take off. */
static void do_cvta(ptx_warp *w, const ptx_ins *in)
{
    const ptx_lanes *const ra = ptx_reg(w, in->a);
    ptx_lanes *const rd = ptx_reg(w, in->d);
    const uint64_t high = (uint64_t)in->x << 32;
    PTX_EACH(w, const uint64_t v = in->x2 ? ra->u64[i] & 0xffffffffu : ra->u64[i];
             rd->u64[i] = m ? v | high : rd->u64[i];)
    ptx_spread(w, in->d, ptx_undef(w, in->a));
}

void ptx_lower_cvta(ptx_parser *p)
{
    static const uint32_t highs[] = {
        0, 0, PTX_HIGH_SHARED, PTX_HIGH_LOCAL, PTX_HIGH_PARAM, PTX_HIGH_CONST};
    words s = {.at = p->opcode};
    bool to = false;
    int space = -1;
    (void)next_word(&s);
    while (next_word(&s)) {
        to |= strcmp(s.one, "to") == 0;
        space = space >= 0 ? space : space_word(s.one);
    }
    if (space < 0 || !ptx_has(p, "u64"))
        ptx_error(p, "opcode '%s' is not known", p->opcode);
    if (!ptx_need_operands(p, 2, 2))
        return;
    const uint32_t d = ptx_target(p, ptx_plain(p, 0), '8');
    const uint32_t a = ptx_use(p, ptx_plain(p, 1), '8');
    ptx_ins *const in = ptx_emit(p, do_cvta, PTX_INTEGER);
    in->d = d;
    in->a = a;
    in->x = to ? 0 : highs[space];
    in->x2 = to && space != PTX_GLOBAL;
}
