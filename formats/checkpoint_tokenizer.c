/* The tokenizer of a model that is not opened yet: before a weight of it is unpacked. */
#include "formats/checkpoint.h"

pare_status pare_checkpoint_tokenizer_of(pare_ctx *cx, const char *path, const char *named,
                                         pare_tokenizer **out)
{
    pare_checkpoint ck = {0};
    pare_arena a;
    *out = NULL;
    PARE_TRY(pare_arena_init(cx, &a, 0));
    pare_status s = pare_checkpoint_list(cx, &a, path, &ck);
    ck.tokenizer = named;
    if (s == PARE_OK)
        s = pare_checkpoint_tokenizer(&ck, out);
    if (ck.cx)
        pare_checkpoint_close(&ck);
    pare_arena_release(&a);
    return s;
}
