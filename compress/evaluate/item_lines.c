#include <string.h>

#include "compress/evaluate/choice_internal.h"

const size_t pare__items_bytes = (size_t)1 << 30;

pare__lines pare__lines_of(const char *text, size_t len)
{
    const size_t mark = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    return (pare__lines){text + mark, text + len, 0};
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

bool pare__lines_next(pare__lines *l, const char **line, size_t *len)
{
    while (l->at < l->end) {
        const char *from = l->at, *stop = memchr(from, '\n', (size_t)(l->end - from));
        stop = stop ? stop : l->end;
        l->at = stop < l->end ? stop + 1 : stop;
        l->number++;
        while (from < stop && is_blank(*from))
            from++;
        while (from < stop && is_blank(stop[-1]))
            stop--;
        *line = from;
        *len = (size_t)(stop - from);
        if (*len)
            return true;
    }
    return false;
}

size_t pare__lines_count(const char *text, size_t len)
{
    pare__lines l = pare__lines_of(text, len);
    const char *line;
    size_t count = 0;
    while (pare__lines_next(&l, &line, &len))
        count++;
    return count;
}

pare_status pare__lines_parse(pare_ctx *cx, const char *path, size_t number, const char *line,
                              size_t len, pare_json **out)
{
    const pare_status s = pare_json_parse_line(cx, path, number, line, len, out);
    const bool object = line[0] == '{' && line[len - 1] == '}'; /* the error is inside it */
    return s == PARE_EFORMAT && !object
               ? pare_fail_after(cx, s, "each line must be one item, as a JSON object")
               : s;
}
