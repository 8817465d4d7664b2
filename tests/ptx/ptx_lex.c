/* tests/ptx/ptx_lex.c - PTX text into tokens; the errors of a text. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/ptx/ptx_parse.h"

void ptx_error(ptx_parser *p, const char *format, ...)
{
    if (!p->failed) {
        ptx_fault *const f = &p->machine->fault;
        memset(f, 0, sizeof *f);
        f->ptx_line = p->instruction_line ? p->instruction_line : p->line;
        f->line = p->loc.line;
        f->kernel = p->kernel ? p->kernel->name : NULL;
        const int n = snprintf(f->text, sizeof f->text, "PTX line %u: ", f->ptx_line);
        va_list list;
        va_start(list, format);
        (void)vsnprintf(f->text + n, sizeof f->text - (size_t)n, format, list);
        va_end(list);
    }
    p->failed = true;
    p->at = p->end;
    p->token = (ptx_token){.kind = PTX_T_END, .text = "", .length = 0};
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || c == '.' || c == '%';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Spaces and comments. */
static void skip(ptx_parser *p)
{
    while (p->at < p->end) {
        const size_t left = (size_t)(p->end - p->at);
        if (*p->at == '\n') {
            p->line++;
            p->at++;
        } else if (*p->at == ' ' || *p->at == '\t' || *p->at == '\r' || *p->at == 0) {
            p->at++;
        } else if (left > 1 && p->at[0] == '/' && p->at[1] == '/') {
            while (p->at < p->end && *p->at != '\n')
                p->at++;
        } else if (left > 1 && p->at[0] == '/' && p->at[1] == '*') {
            p->at += 2;
            while (p->at < p->end && !(p->at[0] == '*' && p->end - p->at > 1 && p->at[1] == '/'))
                p->line += *p->at++ == '\n';
            p->at = p->end - p->at > 2 ? p->at + 2 : p->end;
        } else {
            return;
        }
    }
}

static unsigned digit_of(char c)
{
    return is_digit(c)              ? (unsigned)(c - '0')
           : (c >= 'a' && c <= 'f') ? (unsigned)(c - 'a' + 10)
           : (c >= 'A' && c <= 'F') ? (unsigned)(c - 'A' + 10)
                                    : 99;
}

/* Digits of a base up to the end of the word. */
static void digits(ptx_parser *p, const char *from, const char *end, unsigned base)
{
    uint64_t v = 0;
    if (from == end)
        ptx_error(p, "a number without digits");
    for (; from < end; from++) {
        const unsigned d = digit_of(*from);
        if (d >= base || v > (UINT64_MAX - d) / base) {
            ptx_error(p, "'%.*s' is not a number that PTX knows", (int)p->token.length,
                      p->token.text);
            return;
        }
        v = v * base + d;
    }
    p->token.value = v;
}

static void number(ptx_parser *p)
{
    const char *const from = p->token.text;
    const char *end = from + p->token.length;
    const char second = end - from > 1 ? from[1] : 0;
    p->token.kind = PTX_T_NUMBER;
    if (from[0] == '0' && (second == 'f' || second == 'F')) {
        p->token.kind = PTX_T_F32;
        digits(p, from + 2, end, 16);
        if (end - from != 10)
            ptx_error(p, "an F32 constant has 8 hexadecimal digits");
        return;
    }
    if (from[0] == '0' && (second == 'd' || second == 'D')) {
        p->token.kind = PTX_T_F64;
        digits(p, from + 2, end, 16);
        if (end - from != 18)
            ptx_error(p, "an F64 constant has 16 hexadecimal digits");
        return;
    }
    if (end[-1] == 'U')
        end--;
    if (second == 'x' || second == 'X')
        digits(p, from + 2, end, 16);
    else if (second == 'b' || second == 'B')
        digits(p, from + 2, end, 2);
    else
        digits(p, from, end, from[0] == '0' ? 8 : 10);
}

static void string(ptx_parser *p)
{
    p->token.kind = PTX_T_STRING;
    p->token.text = ++p->at;
    while (p->at < p->end && *p->at != '"' && *p->at != '\n')
        p->at++;
    p->token.length = (size_t)(p->at - p->token.text);
    if (p->at < p->end && *p->at == '"')
        p->at++;
    else
        ptx_error(p, "a string without an end");
}

void ptx_advance(ptx_parser *p)
{
    skip(p);
    p->token = (ptx_token){.kind = PTX_T_END, .text = p->at};
    if (p->at >= p->end)
        return;
    if (*p->at == '"') {
        string(p);
        return;
    }
    if (!is_word(*p->at)) {
        p->token.kind = PTX_T_SIGN;
        p->token.length = 1;
        p->token.value = (unsigned char)*p->at++;
        return;
    }
    const bool directive = *p->at == '.'; /* .reg.b32 is two words, add.s32 is one */
    do
        p->at += *p->at == ':' ? 2 : 1;
    while (p->at < p->end && !(directive && *p->at == '.') &&
           (is_word(*p->at) || (*p->at == ':' && p->end - p->at > 1 && p->at[1] == ':')));
    p->token.length = (size_t)(p->at - p->token.text);
    p->token.kind = PTX_T_WORD;
    if (is_digit(*p->token.text) && !memchr(p->token.text, '.', p->token.length))
        number(p);
}

bool ptx_is(const ptx_parser *p, const char *text)
{
    return (p->token.kind == PTX_T_WORD || p->token.kind == PTX_T_SIGN) &&
           p->token.length == strlen(text) && memcmp(p->token.text, text, p->token.length) == 0;
}

bool ptx_accept(ptx_parser *p, const char *text)
{
    if (!ptx_is(p, text))
        return false;
    ptx_advance(p);
    return true;
}

void ptx_expect(ptx_parser *p, const char *text)
{
    if (!ptx_accept(p, text))
        ptx_error(p, "'%s' is expected here, not '%.*s'", text, (int)p->token.length,
                  p->token.text);
}

uint64_t ptx_number(ptx_parser *p, uint64_t most)
{
    const uint64_t v = p->token.value;
    if (p->token.kind != PTX_T_NUMBER || v > most) {
        ptx_error(p, "a number up to %llu is expected here", (unsigned long long)most);
        return 0;
    }
    ptx_advance(p);
    return v;
}

void *ptx_grow(void *array, size_t count, size_t size)
{
    if (count & (count - 1) && count) /* not a power of two: there is room */
        return array;
    void *const grown = realloc(array, (count ? 2 * count : 1) * size);
    if (!grown)
        abort();
    return grown;
}

char *ptx_name(ptx_parser *p, const char *text, size_t length)
{
    ptx_module *const m = p->module;
    char *const name = malloc(length + 1);
    if (!name)
        abort();
    memcpy(name, text, length);
    name[length] = 0;
    m->names = ptx_grow(m->names, m->name_count, sizeof *m->names);
    m->names[m->name_count++] = name;
    return name;
}
