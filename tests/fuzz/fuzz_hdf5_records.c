/* What pare-hdf5 may write once a file has taken it over. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/records_input.h"

static pare_status parse(pare_ctx *cx, pare_arena *a, const void *bytes, size_t len)
{
    pare_hdf5 file;
    pare_scratch scratch;
    pare_scratch_init(cx, &scratch);
    const pare_status s = records_run(cx, a, &scratch, bytes, len, &file);
    uint64_t total = 0;
    for (size_t i = 0; s == PARE_OK && i < file.tensors; i++) {
        const pare_tensor *const t = &file.tensor[i];
        const unsigned char *const data = t->data;
        total += t->bytes;
        if (t->bytes > 0) /* readable to its end */
            require(data[0] + data[t->bytes - 1] >= 0);
        require(i == 0 || strcmp(file.tensor[i - 1].name, t->name) < 0);
    }
    require(total <= len);
    pare_scratch_close(&scratch);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_parse(parse, bytes, len);
    return 0;
}
