/* Regular expressions over names: the extended expressions of POSIX without back references and
 * collating elements. An expression becomes a small program (Thompson's construction, counted
 * repeats copied out) that is run with the set of all states it can be in, so that matching takes
 * time proportional to the length of the name times that of the program, whatever the expression;
 * compilers of C libraries can take exponential time and memory for a nested repeat. */
#include <string.h>

#include "recipes/recipe_internal.h"

/* EMITTED_MAX bounds the work of what is compiled and thrown away, as in (a{255}){0}. */
enum { PROGRAM_MAX = 2000, EMITTED_MAX = 20000, REPEAT_MAX = 255, NESTING_MAX = 64 };

typedef enum opcode { CHARACTER, ANY, SET, JUMP, SPLIT, BEGIN, END, MATCH } opcode;

/* CHARACTER: x is the code point; SET: the offset of the text behind "["; JUMP, SPLIT: where to. */
typedef struct instruction {
    opcode op;
    unsigned x, y;
} instruction;

struct pare__expression {
    const char *text;
    instruction *code;
    unsigned count;
};

typedef struct compiler {
    const char *text;
    instruction code[PROGRAM_MAX];
    unsigned count, emitted, depth;
    const char *why; /* what is wrong; the first reason stays */
} compiler;

static const char *refuse(compiler *c, const char *why)
{
    if (!c->why)
        c->why = why;
    return NULL;
}

/* Number of the new instruction; 0 when there is no room, which also refuses the expression. */
static unsigned emit(compiler *c, opcode op, unsigned x, unsigned y)
{
    if (c->count == PROGRAM_MAX || c->emitted++ == EMITTED_MAX) {
        (void)refuse(c, "repeats make it too large");
        return 0;
    }
    c->code[c->count] = (instruction){op, x, y};
    return c->count++;
}

static const char *compile_alternatives(compiler *c, const char *s);

static const char *compile_escape(compiler *c, const char *s)
{
    if (*s >= '0' && *s <= '9')
        return refuse(c, "back references are not supported");
    if (*s == '\0' || !strchr("^$.[]|()*+?{}\\-/", *s))
        return refuse(c, "a \\ in front of what needs none; [[:digit:]] is the class of digits");
    (void)emit(c, CHARACTER, (unsigned char)*s, 0);
    return s + 1;
}

static const char *compile_group(compiler *c, const char *s)
{
    if (c->depth == NESTING_MAX)
        return refuse(c, "groups are nested too deep");
    c->depth++;
    s = compile_alternatives(c, s);
    c->depth--;
    if (s && *s != ')')
        return refuse(c, "a ( without its )");
    return s ? s + 1 : NULL;
}

/* What a repeat repeats. All functions named compile_* return the text behind what they read, or
 * NULL when it is refused. */
static const char *compile_atom(compiler *c, const char *s)
{
    bool hit;
    const char *end;
    switch (*s) {
    case '(': return compile_group(c, s + 1);
    case '\\': return compile_escape(c, s + 1);
    case '*':
    case '+':
    case '?':
    case '{': return refuse(c, "a repeat of nothing");
    case '.': (void)emit(c, ANY, 0, 0); return s + 1;
    case '^': (void)emit(c, BEGIN, 0, 0); return s + 1;
    case '$': (void)emit(c, END, 0, 0); return s + 1;
    case '[':
        (void)emit(c, SET, (unsigned)(s + 1 - c->text), 0);
        end = pare__set_matches(s + 1, "^", 0, &hit);
        return end ? end : refuse(c, PARE__SET_REASON);
    default: (void)emit(c, CHARACTER, pare__character(&s), 0); return s;
    }
}

typedef struct repeat {
    unsigned least, most;
    bool unbounded;
} repeat;

/* Reads digits, at most REPEAT_MAX + 1. */
static unsigned read_count(const char **s)
{
    unsigned n = 0;
    for (; **s >= '0' && **s <= '9'; (*s)++)
        n = n > REPEAT_MAX ? n : n * 10 + (unsigned)(**s - '0');
    return n;
}

/* Reads {m}, {m,}, {,n} or {m,n}. */
static const char *read_braces(compiler *c, const char *s, repeat *r)
{
    const char *const begin = ++s;
    r->least = r->most = read_count(&s);
    bool digits = s > begin;
    if (*s == ',') {
        const char *const second = ++s;
        r->most = read_count(&s);
        r->unbounded = s == second;
        digits = digits || !r->unbounded;
    }
    if (!digits || *s != '}')
        return refuse(c, "a { without its count and }; the character is written \\{");
    if (r->least > REPEAT_MAX || r->most > REPEAT_MAX)
        return refuse(c, "a repeat count above 255");
    if (!r->unbounded && r->most < r->least)
        return refuse(c, "a repeat count that runs backwards");
    return s + 1;
}

/* Reads the repeat behind an atom, {1,1} when there is none. */
static const char *read_repeat(compiler *c, const char *s, repeat *r)
{
    *r = (repeat){1, 1, false};
    if (*s == '\0' || !strchr("*+?{", *s))
        return s;
    if (*s == '{') {
        s = read_braces(c, s, r);
    } else {
        *r = (repeat){*s == '+', 1, *s != '?'};
        s++;
    }
    if (s && *s && strchr("*+?{", *s))
        return refuse(c, "a repeat of a repeat; put the inner one in ( )");
    return s;
}

/* One atom with its repeat. The first copy shows where the repeat stands; {0} drops it again. */
static const char *compile_piece(compiler *c, const char *s)
{
    repeat r;
    const unsigned start = c->count;
    const char *const behind = compile_atom(c, s);
    const char *const end = behind ? read_repeat(c, behind, &r) : NULL;
    if (!end)
        return NULL;
    if (r.least == 1 && r.most == 1 && !r.unbounded)
        return end;
    if (r.least == 0)
        c->count = start;
    for (unsigned i = 1; i < r.least && !c->why; i++)
        (void)compile_atom(c, s);
    if (r.unbounded) {
        const unsigned split = emit(c, SPLIT, c->count + 1, 0);
        (void)compile_atom(c, s);
        (void)emit(c, JUMP, split, 0);
        c->code[split].y = c->count;
        return end;
    }
    /* Each optional copy lies inside the one before: leaving one leaves all. */
    unsigned last = 0;
    for (unsigned i = r.least; i < r.most && !c->why; i++) {
        last = emit(c, SPLIT, c->count + 1, last);
        (void)compile_atom(c, s);
    }
    for (unsigned i = r.least; i < r.most && !c->why; i++) {
        const unsigned before = c->code[last].y;
        c->code[last].y = c->count;
        last = before;
    }
    return end;
}

/* Alternatives up to the end or a ")" of the group. Each begins with a place for the SPLIT to the
 * next one; the jumps behind them are linked through x until the end is known. */
static const char *compile_alternatives(compiler *c, const char *s)
{
    unsigned jumps = 0;
    for (;;) {
        const unsigned split = emit(c, JUMP, c->count + 1, 0);
        while (s && !c->why && *s && *s != '|' && *s != ')')
            s = compile_piece(c, s);
        if (!s || c->why || *s != '|')
            break;
        jumps = emit(c, JUMP, jumps, 0);
        c->code[split] = (instruction){SPLIT, split + 1, c->count};
        s++;
    }
    while (jumps && !c->why) {
        const unsigned before = c->code[jumps].x;
        c->code[jumps].x = c->count;
        jumps = before;
    }
    return c->why ? NULL : s;
}

pare_status pare__expression_new(pare_ctx *cx, pare_arena *a, const char *text,
                                 pare__expression **out)
{
    pare__expression *const e = PARE_NEW(a, pare__expression, 1);
    if (!e)
        return PARE_ENOMEM;
    *e = (pare__expression){.text = text, .code = PARE_NEW(a, instruction, PROGRAM_MAX)};
    if (!e->code)
        return PARE_ENOMEM;
    compiler c;
    c.text = text;
    c.why = NULL;
    c.count = c.emitted = c.depth = 0;
    const char *const end = compile_alternatives(&c, text);
    if (end && *end)
        (void)refuse(&c, "a ) without its (");
    (void)emit(&c, MATCH, 0, 0);
    char quoted[PARE__QUOTE];
    if (c.why)
        return pare_fail(cx, PARE_EUSAGE, "regular expression %s: %s", pare__quote(quoted, text),
                         c.why);
    memcpy(e->code, c.code, c.count * sizeof *e->code);
    e->count = c.count;
    *out = e;
    return PARE_OK;
}

/* A set of states: program positions, each at most once. */
typedef struct states {
    size_t count;
    uint16_t at[PROGRAM_MAX];
    bool has[PROGRAM_MAX];
} states;

static void states_add(states *s, size_t at)
{
    if (s->has[at])
        return;
    s->has[at] = true;
    s->at[s->count++] = (uint16_t)at;
}

static void states_clear(states *s, size_t positions)
{
    s->count = 0;
    memset(s->has, 0, positions * sizeof *s->has);
}

static bool takes(const pare__expression *e, const instruction *i, unsigned character)
{
    bool hit = i->op == ANY || (i->op == CHARACTER && i->x == character);
    if (i->op == SET)
        (void)pare__set_matches(e->text + i->x, "^", character, &hit);
    return hit;
}

/* Moves one state: without a character within `now`, which grows while it is walked, or with it
 * into `next`. True when the program ends here. */
static bool move(const pare__expression *e, size_t at, bool first, bool last, unsigned character,
                 states *now, states *next)
{
    const instruction *const i = &e->code[at];
    switch (i->op) {
    case JUMP: states_add(now, i->x); return false;
    case SPLIT:
        states_add(now, i->x);
        states_add(now, i->y);
        return false;
    case BEGIN:
    case END:
        if (i->op == BEGIN ? first : last)
            states_add(now, at + 1);
        return false;
    case MATCH: return last;
    default:
        if (!last && takes(e, i, character))
            states_add(next, at + 1);
        return false;
    }
}

bool pare__expression_matches(const pare__expression *e, const char *name)
{
    states sets[2], *now = &sets[0], *next = &sets[1];
    states_clear(now, e->count);
    states_add(now, 0);
    for (bool first = true, last = false; !last && now->count; first = false) {
        last = *name == '\0';
        const unsigned character = last ? 0 : pare__character(&name);
        states_clear(next, e->count);
        for (size_t i = 0; i < now->count; i++)
            if (move(e, now->at[i], first, last, character, now, next))
                return true;
        states *const spare = now;
        now = next;
        next = spare;
    }
    return false;
}
