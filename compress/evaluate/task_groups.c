/* Documents by their subjects, in time that does not grow with how many subjects there are. */
#include <stdlib.h>
#include <string.h>

#include "compress/evaluate/task_internal.h"

typedef struct named {
    const char *name;
    size_t at;
} named;

static int by_name(const void *x, const void *y)
{
    const named *const a = x, *const b = y;
    const int order = strcmp(a->name, b->name);
    return order ? order : (a->at > b->at) - (a->at < b->at);
}

pare_status pare__task_groups(pare_arena *a, const char *const *name, size_t count, size_t *of,
                              size_t *groups)
{
    const pare_mark mark = pare_arena_mark(a);
    named *const sorted = PARE_NEW(a, named, count);
    *groups = 0;
    if (!sorted)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        sorted[i] = (named){name[i], i};
    qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 0, first = 0; i < count; i++) {
        first = i && strcmp(sorted[i].name, sorted[first].name) == 0 ? first : i;
        of[sorted[i].at] = sorted[first].at; /* the first that has the name */
    }
    for (size_t i = 0; i < count; i++) /* numbers in their order: those before it have theirs */
        of[i] = of[i] == i ? (*groups)++ : of[of[i]];
    pare_arena_rewind(a, mark);
    return PARE_OK;
}
