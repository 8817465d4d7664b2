#include "formats/pickle.h"

#include <string.h>

#include "formats/little_endian.h"
#include "formats/pickle_internal.h"

enum {
    STACK_MAX = 1 << 20,
    DICT_MAX = 1 << 20,
    MEMO_MAX = 1 << 22,
    MARKS_MAX = 64,
    TEXT_MAX = 1 << 16
};
enum { BYTES_MAX = 64 << 20, LINE_MAX_BYTES = 255, PROTOCOL_MAX = 5 };

typedef unsigned long long ull;

typedef struct machine {
    pare_ctx *cx;
    pare__builder builder;
    const unsigned char *bytes;
    size_t len;
    size_t at;          /* of the running instruction */
    size_t next;        /* first byte not read */
    pare__value *stack; /* [room] */
    size_t depth, room;
    size_t mark[MARKS_MAX]; /* depths */
    size_t marks;
    pare__value *memo; /* [memo_room] */
    size_t memos, memo_room;
    bool stopped;
} machine;

static pare_status bad(machine *m, const char *reason)
{
    return pare_fail(m->cx, PARE_EFORMAT, "%s", reason);
}

/* The next `count` bytes. */
static pare_status take(machine *m, uint64_t count, const unsigned char **out)
{
    if (count > m->len - m->next)
        return bad(m, "the pickle ends in the middle of an instruction");
    *out = m->bytes + m->next;
    m->next += (size_t)count;
    return PARE_OK;
}

/* Makes room for one more value; what was there stays. */
static pare_status grow(machine *m, pare__value **array, size_t count, size_t *room, size_t most,
                        const char *what)
{
    if (count < *room)
        return PARE_OK;
    if (count >= most)
        return pare_fail(m->cx, PARE_EFORMAT, "more than %zu %s", most, what);
    const size_t wanted = *room ? 2 * *room : 8; /* a file may have millions of dictionaries */
    pare__value *const larger = PARE_NEW(m->builder.arena, pare__value, wanted);
    if (!larger)
        return PARE_ENOMEM;
    if (count)
        memcpy(larger, *array, count * sizeof *larger);
    *array = larger;
    *room = wanted;
    return PARE_OK;
}

static pare_status push(machine *m, pare__value v)
{
    PARE_TRY(grow(m, &m->stack, m->depth, &m->room, STACK_MAX, "values on the stack"));
    m->stack[m->depth++] = v;
    return PARE_OK;
}

/* The `count` values on top, above the last mark, which are then gone from the stack. */
static pare_status pop(machine *m, size_t count, const pare__value **out)
{
    const size_t floor = m->marks ? m->mark[m->marks - 1] : 0;
    if (m->depth - floor < count)
        return bad(m, "the stack does not hold enough values");
    m->depth -= count;
    *out = m->stack + m->depth;
    return PARE_OK;
}

/* All values above the last mark, which is then gone too; without values *out is NULL. */
static pare_status pop_mark(machine *m, const pare__value **out, size_t *count)
{
    if (m->marks == 0)
        return bad(m, "there is no mark");
    const size_t floor = m->mark[--m->marks];
    *count = m->depth - floor;
    *out = *count ? m->stack + floor : NULL;
    m->depth = floor;
    return PARE_OK;
}

static pare_status top(machine *m, pare__value_type type, pare__value *out)
{
    const pare__value *v;
    PARE_TRY(pop(m, 1, &v));
    m->depth++;
    if (v->type != type)
        return bad(m, "the value that is changed has the wrong type");
    *out = *v;
    return PARE_OK;
}

static pare_status run_proto(machine *m)
{
    const unsigned char *p;
    PARE_TRY(take(m, 1, &p));
    if (m->at != 0 || *p < 2 || *p > PROTOCOL_MAX)
        return pare_fail(m->cx, PARE_ENOTSUP, "protocol %u, 2 to %d are read", *p, PROTOCOL_MAX);
    return PARE_OK;
}

static pare_status run_frame(machine *m)
{
    const unsigned char *p;
    PARE_TRY(take(m, 8, &p));
    return pare_le64(p) > m->len - m->next ? bad(m, "a frame that reaches beyond the pickle")
                                           : PARE_OK;
}

static pare_status run_stop(machine *m)
{
    if (m->depth != 1 || m->marks != 0)
        return bad(m, "not exactly one value is left on the stack");
    if (m->next != m->len)
        return bad(m, "bytes follow the end of the pickle");
    m->stopped = true;
    return PARE_OK;
}

static pare_status run_mark(machine *m)
{
    if (m->marks == MARKS_MAX)
        return bad(m, "more than 64 marks");
    m->mark[m->marks++] = m->depth;
    return PARE_OK;
}

static pare_status run_none(machine *m)
{
    return push(m, (pare__value){.type = PARE__NONE});
}

static pare_status run_true(machine *m)
{
    return push(m, (pare__value){.type = PARE__BOOL, .integer = 1});
}

static pare_status run_false(machine *m)
{
    return push(m, (pare__value){.type = PARE__BOOL});
}

static pare_status run_real(machine *m)
{
    const unsigned char *p;
    PARE_TRY(take(m, 8, &p));
    return push(m, (pare__value){.type = PARE__REAL});
}

static pare_status push_integer(machine *m, int64_t value)
{
    return push(m, (pare__value){.type = PARE__INTEGER, .integer = value});
}

static pare_status run_int1(machine *m)
{
    const unsigned char *p;
    PARE_TRY(take(m, 1, &p));
    return push_integer(m, *p);
}

static pare_status run_int2(machine *m)
{
    const unsigned char *p;
    PARE_TRY(take(m, 2, &p));
    return push_integer(m, pare_le16(p));
}

static pare_status run_int4(machine *m)
{
    const unsigned char *p;
    PARE_TRY(take(m, 4, &p));
    return push_integer(m, (int32_t)pare_le32(p));
}

/* Two's complement of any number of bytes. */
static pare_status run_long1(machine *m)
{
    const unsigned char *count, *p;
    PARE_TRY(take(m, 1, &count));
    PARE_TRY(take(m, *count, &p));
    if (*count > 8)
        return bad(m, "a number of more than 64 bits");
    uint64_t value = *count && p[*count - 1] & 0x80 ? UINT64_MAX : 0;
    for (unsigned i = *count; i-- > 0;)
        value = value << 8 | p[i];
    return push_integer(m, (int64_t)value);
}

static pare_status push_text(machine *m, uint32_t len)
{
    const unsigned char *p;
    if (len > TEXT_MAX)
        return pare_fail(m->cx, PARE_EFORMAT, "a text of %u bytes, at most %d are accepted", len,
                         TEXT_MAX);
    PARE_TRY(take(m, len, &p));
    return push(m, (pare__value){.type = PARE__TEXT, .count = len, .text = (const char *)p});
}

static pare_status run_text1(machine *m)
{
    const unsigned char *p;
    PARE_TRY(take(m, 1, &p));
    return push_text(m, *p);
}

static pare_status run_text4(machine *m)
{
    const unsigned char *p;
    PARE_TRY(take(m, 4, &p));
    return push_text(m, pare_le32(p));
}

static pare_status push_tuple(machine *m, const pare__value *item, size_t count)
{
    pare__value *copy;
    PARE_TRY(pare__build(&m->builder, count, sizeof *copy, &copy));
    if (count)
        memcpy(copy, item, count * sizeof *copy);
    return push(m, (pare__value){.type = PARE__TUPLE, .count = (uint32_t)count, .item = copy});
}

static pare_status run_tuple(machine *m)
{
    const pare__value *item;
    size_t count;
    PARE_TRY(pop_mark(m, &item, &count));
    return push_tuple(m, item, count);
}

static pare_status run_tuple0(machine *m)
{
    return push_tuple(m, NULL, 0);
}

/* TUPLE1, TUPLE2, TUPLE3 follow one another. */
static pare_status run_tuple_n(machine *m)
{
    const size_t count = (size_t)m->bytes[m->at] - 0x84;
    const pare__value *item;
    PARE_TRY(pop(m, count, &item));
    return push_tuple(m, item, count);
}

static pare_status run_list(machine *m)
{
    return push(m, (pare__value){.type = PARE__LIST});
}

static pare_status run_append(machine *m)
{
    pare__value list;
    const pare__value *item;
    PARE_TRY(pop(m, 1, &item));
    return top(m, PARE__LIST, &list);
}

static pare_status run_appends(machine *m)
{
    pare__value list;
    const pare__value *item;
    size_t count;
    PARE_TRY(pop_mark(m, &item, &count));
    return top(m, PARE__LIST, &list);
}

static pare_status run_dict(machine *m)
{
    pare__value v;
    PARE_TRY(pare__build_dict(&m->builder, &v));
    return push(m, v);
}

/* The popped items stay where they are until the next push. */
static pare_status set_items(machine *m, const pare__value *item, size_t count)
{
    pare__value v;
    PARE_TRY(top(m, PARE__DICT, &v));
    if (count % 2 != 0)
        return bad(m, "a key without a value");
    for (size_t i = 0; i < count; i++) {
        PARE_TRY(grow(m, &v.dict->item, v.dict->count, &v.dict->room, DICT_MAX,
                      "keys and values of a dictionary"));
        v.dict->item[v.dict->count++] = item[i];
    }
    return PARE_OK;
}

static pare_status run_setitem(machine *m)
{
    const pare__value *item;
    PARE_TRY(pop(m, 2, &item));
    return set_items(m, item, 2);
}

static pare_status run_setitems(machine *m)
{
    const pare__value *item;
    size_t count;
    PARE_TRY(pop_mark(m, &item, &count));
    return set_items(m, item, count);
}

/* Attributes of a dictionary (versions of modules) say nothing about tensors. */
static pare_status run_build(machine *m)
{
    const pare__value *state;
    pare__value target;
    PARE_TRY(pop(m, 1, &state));
    if (state->type != PARE__DICT)
        return bad(m, "a state that is not a dictionary");
    return top(m, PARE__DICT, &target);
}

/* Memory is numbered in the order of use, as every writer does it. */
static pare_status put(machine *m, size_t i)
{
    const pare__value *v;
    PARE_TRY(pop(m, 1, &v));
    m->depth++;
    if (i > m->memos)
        return pare_fail(m->cx, PARE_EFORMAT, "memory %zu is set when %zu are in use", i, m->memos);
    const pare__value copy = *v;
    if (i == m->memos) {
        PARE_TRY(grow(m, &m->memo, m->memos, &m->memo_room, MEMO_MAX, "values remembered"));
        m->memos++;
    }
    m->memo[i] = copy;
    return PARE_OK;
}

static pare_status get(machine *m, size_t i)
{
    if (i >= m->memos)
        return pare_fail(m->cx, PARE_EFORMAT, "memory %zu is read when %zu are in use", i,
                         m->memos);
    return push(m, m->memo[i]);
}

static pare_status run_put1(machine *m)
{
    const unsigned char *p;
    PARE_TRY(take(m, 1, &p));
    return put(m, *p);
}

static pare_status run_put4(machine *m)
{
    const unsigned char *p;
    PARE_TRY(take(m, 4, &p));
    return put(m, pare_le32(p));
}

static pare_status run_memoize(machine *m)
{
    return put(m, m->memos);
}

static pare_status run_get1(machine *m)
{
    const unsigned char *p;
    PARE_TRY(take(m, 1, &p));
    return get(m, *p);
}

static pare_status run_get4(machine *m)
{
    const unsigned char *p;
    PARE_TRY(take(m, 4, &p));
    return get(m, pare_le32(p));
}

static pare_status take_line(machine *m, const char **text, size_t *len)
{
    const unsigned char *const begin = m->bytes + m->next;
    const size_t left = m->len - m->next;
    const size_t most = left < LINE_MAX_BYTES ? left : LINE_MAX_BYTES;
    const unsigned char *const end = most ? memchr(begin, '\n', most) : NULL;
    if (!end)
        return bad(m, "a line without an end");
    *text = (const char *)begin;
    *len = (size_t)(end - begin);
    m->next += *len + 1;
    return PARE_OK;
}

static pare_status run_global(machine *m)
{
    const char *module, *name;
    size_t module_len, name_len;
    pare__value v;
    PARE_TRY(take_line(m, &module, &module_len));
    PARE_TRY(take_line(m, &name, &name_len));
    PARE_TRY(pare__pickle_global(m->cx, module, module_len, name, name_len, &v));
    return push(m, v);
}

static pare_status run_stack_global(machine *m)
{
    const pare__value *v;
    pare__value out;
    PARE_TRY(pop(m, 2, &v));
    if (v[0].type != PARE__TEXT || v[1].type != PARE__TEXT)
        return bad(m, "a name that is not a text");
    PARE_TRY(pare__pickle_global(m->cx, v[0].text, v[0].count, v[1].text, v[1].count, &out));
    return push(m, out);
}

static pare_status run_persid(machine *m)
{
    const pare__value *id;
    pare__value out;
    PARE_TRY(pop(m, 1, &id));
    PARE_TRY(pare__pickle_storage(&m->builder, id, &out));
    return push(m, out);
}

static pare_status run_reduce(machine *m)
{
    const pare__value *v;
    pare__value out;
    PARE_TRY(pop(m, 2, &v));
    PARE_TRY(pare__pickle_reduce(&m->builder, &v[0], &v[1], &out));
    return push(m, out);
}

/* Every instruction there is; those without a function are refused. */
static const struct instruction {
    const char *name;
    pare_status (*run)(machine *m);
} instruction[256] = {
    [0x80] = {"PROTO", run_proto},
    [0x95] = {"FRAME", run_frame},
    ['.'] = {"STOP", run_stop},
    ['('] = {"MARK", run_mark},
    ['N'] = {"NONE", run_none},
    [0x88] = {"NEWTRUE", run_true},
    [0x89] = {"NEWFALSE", run_false},
    ['G'] = {"BINFLOAT", run_real},
    ['K'] = {"BININT1", run_int1},
    ['M'] = {"BININT2", run_int2},
    ['J'] = {"BININT", run_int4},
    [0x8a] = {"LONG1", run_long1},
    [0x8c] = {"SHORT_BINUNICODE", run_text1},
    ['X'] = {"BINUNICODE", run_text4},
    [')'] = {"EMPTY_TUPLE", run_tuple0},
    ['t'] = {"TUPLE", run_tuple},
    [0x85] = {"TUPLE1", run_tuple_n},
    [0x86] = {"TUPLE2", run_tuple_n},
    [0x87] = {"TUPLE3", run_tuple_n},
    [']'] = {"EMPTY_LIST", run_list},
    ['a'] = {"APPEND", run_append},
    ['e'] = {"APPENDS", run_appends},
    ['}'] = {"EMPTY_DICT", run_dict},
    ['s'] = {"SETITEM", run_setitem},
    ['u'] = {"SETITEMS", run_setitems},
    ['b'] = {"BUILD", run_build},
    ['q'] = {"BINPUT", run_put1},
    ['r'] = {"LONG_BINPUT", run_put4},
    [0x94] = {"MEMOIZE", run_memoize},
    ['h'] = {"BINGET", run_get1},
    ['j'] = {"LONG_BINGET", run_get4},
    ['c'] = {"GLOBAL", run_global},
    [0x93] = {"STACK_GLOBAL", run_stack_global},
    ['Q'] = {"BINPERSID", run_persid},
    ['R'] = {"REDUCE", run_reduce},
    /* refused */
    ['0'] = {"POP", NULL},
    ['1'] = {"POP_MARK", NULL},
    ['2'] = {"DUP", NULL},
    ['F'] = {"FLOAT", NULL},
    ['I'] = {"INT", NULL},
    ['L'] = {"LONG", NULL},
    [0x8b] = {"LONG4", NULL},
    ['P'] = {"PERSID", NULL},
    ['S'] = {"STRING", NULL},
    ['T'] = {"BINSTRING", NULL},
    ['U'] = {"SHORT_BINSTRING", NULL},
    ['V'] = {"UNICODE", NULL},
    [0x8d] = {"BINUNICODE8", NULL},
    ['B'] = {"BINBYTES", NULL},
    ['C'] = {"SHORT_BINBYTES", NULL},
    [0x8e] = {"BINBYTES8", NULL},
    [0x96] = {"BYTEARRAY8", NULL},
    ['d'] = {"DICT", NULL},
    ['l'] = {"LIST", NULL},
    ['g'] = {"GET", NULL},
    ['p'] = {"PUT", NULL},
    ['i'] = {"INST", NULL},
    ['o'] = {"OBJ", NULL},
    [0x81] = {"NEWOBJ", NULL},
    [0x92] = {"NEWOBJ_EX", NULL},
    [0x82] = {"EXT1", NULL},
    [0x83] = {"EXT2", NULL},
    [0x84] = {"EXT4", NULL},
    [0x8f] = {"EMPTY_SET", NULL},
    [0x90] = {"ADDITEMS", NULL},
    [0x91] = {"FROZENSET", NULL},
    [0x97] = {"NEXT_BUFFER", NULL},
    [0x98] = {"READONLY_BUFFER", NULL},
};

static pare_status run_all(machine *m, const char *name)
{
    while (!m->stopped) {
        if (m->next == m->len)
            return pare_fail(m->cx, PARE_EFORMAT, "%s: %zu bytes of a pickle without its end", name,
                             m->len);
        m->at = m->next++;
        const unsigned char code = m->bytes[m->at];
        const struct instruction *const i = &instruction[code];
        if (!i->run)
            return pare_fail(m->cx, PARE_ENOTSUP,
                             "%s: byte %zu: instruction %s (0x%02x) has no place in a description "
                             "of tensors, so it is refused",
                             name, m->at, i->name ? i->name : "unknown", code);
        const pare_status s = i->run(m);
        if (s != PARE_OK)
            return pare_fail_context(m->cx, s, "%s: byte %zu: %s", name, m->at, i->name);
    }
    return PARE_OK;
}

pare_status pare_pickle_parse(pare_ctx *cx, pare_arena *a, const char *name, const void *bytes,
                              uint64_t len, pare_pickle *out)
{
    *out = (pare_pickle){0};
    if (len > BYTES_MAX)
        return pare_fail(cx, PARE_EFORMAT, "%s: a pickle of %llu bytes, at most %d are accepted",
                         name, (ull)len, BYTES_MAX);
    pare_arena scratch;
    machine m = {.cx = cx, .builder = {cx, &scratch, 0}, .bytes = bytes, .len = (size_t)len};
    pare_status s = pare_arena_init(cx, &scratch, 0);
    if (s == PARE_OK)
        s = run_all(&m, name);
    if (s == PARE_OK)
        s = pare__pickle_collect(&m.builder, a, name, m.stack, out);
    pare_arena_release(&scratch);
    return s;
}
