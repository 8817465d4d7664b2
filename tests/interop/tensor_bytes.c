/* tensor_bytes FILE: prints every tensor of a checkpoint, sorted by name, a line each:
 *   name dtype size x size ... hexadecimal bytes */
#include <stdio.h>

#include "formats/checkpoint.h"

static void print_tensor(const pare_tensor *t)
{
    const unsigned char *const data = t->data;
    (void)printf("%s %s ", t->name, pare_dtype_name(t->dtype));
    for (uint32_t i = 0; i < t->rank; i++)
        (void)printf("%s%llu", i ? "x" : "", (unsigned long long)t->shape[i]);
    (void)printf("%s ", t->rank ? "" : "scalar");
    for (uint64_t i = 0; i < t->bytes; i++)
        (void)printf("%02x", data[i]);
    (void)printf("\n");
}

int main(int argc, char **argv)
{
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    pare_ctx_init(&cx);
    pare_status s = pare_arena_init(&cx, &a, 0);
    if (argc != 2 || s != PARE_OK)
        return 2;
    s = pare_checkpoint_open(&cx, &a, argv[1], &ck);
    if (s != PARE_OK)
        (void)fprintf(stderr, "%s\n", cx.what);
    for (size_t i = 0; s == PARE_OK && i < ck.tensors; i++)
        print_tensor(&ck.tensor[i]);
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
    return s == PARE_OK ? 0 : 4;
}
