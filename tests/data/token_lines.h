/* tests/data/token_lines.h - random lines of Unicode from a fixed rule, the same in
 * tests/interop/token_lines.py.
 *
 * Line i starts the generator (xorshift, 13 7 17) at (i + 1) * 0x9e3779b97f4a7c15. pick(n) is the
 * next state >> 33, modulo n. A line has 1 + pick(12) parts; pick(16) is the kind of a part. */
#ifndef PARE_TESTS_TOKEN_LINES_H
#define PARE_TESTS_TOKEN_LINES_H

#include <stdint.h>
#include <string.h>

enum { TOKEN_LINES = 10000, TOKEN_LINE_MAX = 2048 };

typedef struct token_line {
    uint64_t state;
    char text[TOKEN_LINE_MAX];
    size_t len;
} token_line;

static const struct {
    uint32_t first, count;
} token_blocks[] = {
    {0x00a1, 0x5f},   {0x0100, 0x80},  {0x0370, 0x90},    {0x0400, 0x100},  {0x0531, 0x26},
    {0x05d0, 0x1b},   {0x0620, 0x40},  {0x0905, 0x35},    {0x0e01, 0x3a},   {0x10d0, 0x2b},
    {0x1100, 0x100},  {0x1e00, 0x100}, {0x1f00, 0x16},    {0x2000, 0x65},   {0x2070, 0x02},
    {0x20a0, 0x20},   {0x2100, 0x8c},  {0x2190, 0x100},   {0x2500, 0x200},  {0x3041, 0x56},
    {0x30a0, 0x60},   {0x3400, 0x100}, {0x4e00, 0x5000},  {0xac00, 0x2ba4}, {0xe000, 0x100},
    {0xf900, 0x100},  {0xfb00, 0x07},  {0xff01, 0x5e},    {0x10330, 0x1b},  {0x1d400, 0x50},
    {0x1f300, 0x300}, {0x1f600, 0x50}, {0x20000, 0x1000}, {0x0600, 0x06},   {0x0000, 0x21},
    {0x007f, 0x22},   {0xfff9, 0x05}};

static const char *const token_texts[] = {"<s>",
                                          "</s>",
                                          "<unk>",
                                          "<|endoftext|>",
                                          "<|im_start|>",
                                          "<|begin_of_text|>",
                                          "<|eot_id|>",
                                          "<0x0A>",
                                          "\xe2\x96\x81",
                                          "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7",
                                          "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa",
                                          "\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd",
                                          "'s",
                                          "'T",
                                          "'re",
                                          "'VE",
                                          "'ll",
                                          "\xe2\x80\x99s",
                                          "\xef\xac\x81",
                                          "\xc2\xbd",
                                          "\xe2\x85\xa7",
                                          "...",
                                          "://",
                                          "\\n"};

static const char *const token_spaces[] = {
    " ", " ", " ", "\n", "\t", "\r\n", "\xc2\xa0", "\xe3\x80\x80", "\xe2\x80\xa8", "\n\n"};

static inline uint32_t token_pick(token_line *l, uint32_t n)
{
    l->state ^= l->state << 13;
    l->state ^= l->state >> 7;
    l->state ^= l->state << 17;
    return (uint32_t)(l->state >> 33) % n;
}

static inline void token_put(token_line *l, const char *text)
{
    const size_t n = strlen(text);
    memcpy(l->text + l->len, text, n);
    l->len += n;
}

static inline void token_put_point(token_line *l, uint32_t c)
{
    char *const p = l->text + l->len;
    const size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        p[i] = (char)(0x80 | (c & 0x3f));
    p[0] = (char)(n == 1 ? c : (0xf0u << (4 - n) & 0xff) | c);
    l->len += n;
}

static inline void token_part(token_line *l)
{
    enum { BLOCKS = sizeof token_blocks / sizeof *token_blocks };
    const uint32_t kind = token_pick(l, 16);
    if (kind < 6) {
        if (token_pick(l, 4))
            token_put(l, " ");
        const uint32_t first = token_pick(l, 4) ? 'a' : 'A';
        for (uint32_t n = 1 + token_pick(l, 9), i = 0; i < n; i++)
            token_put_point(l, (i ? 'a' : first) + token_pick(l, 26));
    } else if (kind == 6) {
        for (uint32_t n = 1 + token_pick(l, 7); n; n--)
            token_put_point(l, '0' + token_pick(l, 10));
    } else if (kind == 7) {
        for (uint32_t n = 1 + token_pick(l, 4); n; n--)
            token_put_point(l, '!' + token_pick(l, 15));
    } else if (kind == 8) {
        const char *const space =
            token_spaces[token_pick(l, sizeof token_spaces / sizeof *token_spaces)];
        for (uint32_t n = 1 + token_pick(l, 5); n; n--)
            token_put(l, space);
    } else if (kind == 9) {
        token_put(l, "e");
        for (uint32_t n = 1 + token_pick(l, 3); n; n--)
            token_put_point(l, 0x300 + token_pick(l, 0x40));
    } else if (kind < 12) {
        token_put(l, token_texts[token_pick(l, sizeof token_texts / sizeof *token_texts)]);
    } else {
        const uint32_t block = token_pick(l, BLOCKS);
        for (uint32_t n = 1 + token_pick(l, 6); n; n--)
            token_put_point(l,
                            token_blocks[block].first + token_pick(l, token_blocks[block].count));
    }
}

static inline void token_line_make(token_line *l, uint32_t i)
{
    l->state = (i + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
    l->len = 0;
    for (uint32_t n = 1 + token_pick(l, 12); n; n--)
        token_part(l);
}

#endif
