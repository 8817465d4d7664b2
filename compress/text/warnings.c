#include "compress/text/warnings.h"

#include <string.h>

void pare_warnings_keep(pare_warnings *all, pare_arena *a, const char *notice)
{
    static const char mark[] = "warning: ";
    if (strncmp(notice, mark, sizeof mark - 1) != 0)
        return;
    notice += sizeof mark - 1;
    for (const pare_warning *w = all->first; w; w = w->next)
        if (strcmp(w->text, notice) == 0)
            return;
    pare_warning *const w = PARE_NEW(a, pare_warning, 1);
    const char *const text = w ? pare_arena_text(a, notice, strlen(notice)) : NULL;
    all->lost |= !text;
    if (!text)
        return;
    *w = (pare_warning){NULL, text};
    *(all->last ? &all->last->next : &all->first) = w;
    all->last = w;
    all->count++;
}

pare_status pare_warnings_list(const pare_warnings *all, pare_arena *a, const char ***out)
{
    size_t i = 0;
    *out = PARE_NEW(a, const char *, all->count + 1);
    if (!*out || all->lost)
        return PARE_ENOMEM;
    for (const pare_warning *w = all->first; w; w = w->next)
        (*out)[i++] = w->text;
    return PARE_OK;
}
