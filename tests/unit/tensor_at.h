/* tests/unit/tensor_at.h - where the bytes of a tensor lie in a file, to damage them there. */
#ifndef PARE_TESTS_TENSOR_AT_H
#define PARE_TESTS_TENSOR_AT_H

#include <stdio.h>
#include <sys/types.h>

#include "formats/checkpoint.h"
#include "tests/unit/unit.h"

/* Its offset in a weight file of the checkpoint, whose path goes to `file` unless that is NULL. */
static inline off_t tensor_at(const char *checkpoint, const char *tensor, char file[512])
{
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_msg(pare_checkpoint_open(&cx, &a, checkpoint, &ck) == PARE_OK, "%s", cx.what);
    const pare_tensor *const t = pare_checkpoint_find(&ck, tensor);
    ck_assert_ptr_nonnull(t);
    const pare_file *const f = &ck.file[ck.tensor_file[t - ck.tensor]];
    const off_t at = (off_t)((const unsigned char *)t->data - f->data);
    if (file)
        (void)snprintf(file, 512, "%s", f->path);
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
    return at;
}

#endif
