/* Tensors by their names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint.h"
#include "formats/checkpoint_internal.h"

static int by_tensor_name(const void *a, const void *b)
{
    return strcmp(((const pare_tensor *)a)->name, ((const pare_tensor *)b)->name);
}

const pare_tensor *pare__find_tensor(const pare_tensor *tensor, size_t tensors, const char *name)
{
    const pare_tensor key = {.name = name};
    return tensors ? bsearch(&key, tensor, tensors, sizeof key, by_tensor_name) : NULL;
}

const pare_tensor *pare_checkpoint_find(const pare_checkpoint *ck, const char *name)
{
    return pare__find_tensor(ck->tensor, ck->tensors, name);
}

const pare_stored *pare_checkpoint_stored(const pare_checkpoint *ck, const char *linear)
{
    char name[1024];
    const int n = ck->stored ? snprintf(name, sizeof name, "%s.weight", linear) : 0;
    const pare_tensor *const t =
        n > 0 && (size_t)n < sizeof name ? pare_checkpoint_find(ck, name) : NULL;
    return t ? &ck->stored[t - ck->tensor] : NULL;
}
