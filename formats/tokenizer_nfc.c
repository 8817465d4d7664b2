/* NFC, NFD, NFKC, NFKD in three steps: decomposition (utf8proc's tables), stable sort of each run
 * of marks by combining class, composition (utf8proc) where it is asked for. The sort is a merge
 * sort because a text of nothing but marks is legal and must not take quadratic time. */
#include <string.h>
#include <utf8proc.h>

#include "formats/tokenizer_internal.h"

enum { DECOMPOSED_MAX = 32 }; /* code points of one decomposition; the longest has 18 */

/* True when no character is at or above U+0300, such text is in NFC, or above ASCII, which is in
 * all forms. */
static bool is_plain(const pare_tok_step *step, pare_tok_slice in)
{
    const unsigned char from = step->compose && !step->compatible ? 0xcc : 0x80;
    for (size_t i = 0; i < in.len; i++)
        if ((unsigned char)in.at[i] >= from)
            return false;
    return true;
}

static pare_status decompose(pare_arena *a, const pare_tok_step *step, pare_tok_slice in,
                             int32_t **points, size_t *count)
{
    const utf8proc_option_t how =
        (utf8proc_option_t)((unsigned)UTF8PROC_DECOMPOSE | (unsigned)UTF8PROC_STABLE |
                            (step->compatible ? (unsigned)UTF8PROC_COMPAT : 0u));
    size_t capacity = in.len + DECOMPOSED_MAX, n = 0;
    int32_t *p = PARE_NEW(a, int32_t, capacity);
    if (!p)
        return PARE_ENOMEM;
    for (size_t i = 0; i < in.len;) {
        uint32_t c;
        i += pare__utf8_read(in.at + i, &c);
        if (capacity - n < DECOMPOSED_MAX) {
            int32_t *const more = PARE_NEW(a, int32_t, capacity * 2);
            if (!more)
                return PARE_ENOMEM;
            p = memcpy(more, p, n * sizeof *p);
            capacity *= 2;
        }
        int boundary = 0;
        const utf8proc_ssize_t got =
            utf8proc_decompose_char((int32_t)c, p + n, DECOMPOSED_MAX, how, &boundary);
        if (got < 0 || got > DECOMPOSED_MAX)
            return pare_fail(a->cx, PARE_ENOTSUP, "tokenizer: NFC of U+%04X: %s", (unsigned)c,
                             utf8proc_errmsg(got));
        n += (size_t)got;
    }
    *points = p;
    *count = n;
    return PARE_OK;
}

static int32_t combining(int32_t c)
{
    return utf8proc_get_property(c)->combining_class;
}

/* Stable bottom-up merge sort of p[n] by combining class; tmp[n]. */
static void sort_marks(int32_t *p, int32_t *tmp, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t i = 0; i < n; i += 2 * width) {
            const size_t mid = i + width < n ? i + width : n;
            const size_t end = mid + width < n ? mid + width : n;
            size_t l = i, r = mid;
            for (size_t k = i; k < end; k++) {
                const bool left = l < mid && (r == end || combining(p[l]) <= combining(p[r]));
                tmp[k] = left ? p[l++] : p[r++];
            }
        }
        memcpy(p, tmp, n * sizeof *p);
    }
}

static pare_status order(pare_arena *a, int32_t *p, size_t n)
{
    int32_t *const tmp = PARE_NEW(a, int32_t, n);
    if (!tmp)
        return PARE_ENOMEM;
    for (size_t i = 0; i < n;) {
        if (combining(p[i]) == 0) {
            i++;
            continue;
        }
        const size_t start = i;
        while (i < n && combining(p[i]) != 0)
            i++;
        sort_marks(p + start, tmp, i - start);
    }
    return PARE_OK;
}

pare_status pare__text_compose(pare_arena *a, const pare_tok_step *step, pare_tok_slice in,
                               pare_tok_slice *out)
{
    *out = in;
    if (is_plain(step, in))
        return PARE_OK;
    int32_t *points = NULL;
    size_t count = 0;
    PARE_TRY(decompose(a, step, in, &points, &count));
    PARE_TRY(order(a, points, count));
    utf8proc_ssize_t left = (utf8proc_ssize_t)count;
    if (step->compose)
        left = utf8proc_normalize_utf32(points, left, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    if (left < 0)
        return pare_fail(a->cx, PARE_ENOTSUP, "tokenizer: NFC: %s", utf8proc_errmsg(left));
    char *const text = PARE_NEW(a, char, (size_t)left * 4);
    if (!text)
        return PARE_ENOMEM;
    size_t used = 0;
    for (utf8proc_ssize_t i = 0; i < left; i++)
        used += (size_t)utf8proc_encode_char(points[i], (utf8proc_uint8_t *)text + used);
    *out = (pare_tok_slice){text, used};
    return PARE_OK;
}
