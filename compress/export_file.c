/* An artifact as one GGUF file. */
#include "compress/export_run.h"
#include "compress/output.h"
#include "runtime/file.h"

static pare_status write_item(pare__export *e, size_t i)
{
    const uint64_t bytes = e->gguf.slot[i].bytes;
    void *const data = pare_arena_take_raw(&e->scratch, 1, (size_t)bytes);
    if (!data)
        return PARE_ENOMEM;
    PARE_TRY(pare_gguf_encode(e->cx, &e->scratch, &e->item[i], bytes, data));
    return pare_gguf_fill(&e->gguf, i, data);
}

static pare_status write_all(pare__export *e)
{
    char *const directory = pare_path_directory(e->a, e->place.partial);
    if (!directory)
        return PARE_ENOMEM;
    if (!pare_path_is_directory(directory))
        PARE_TRY(pare_output_make(e->cx, e->a, directory));
    PARE_TRY(pare_gguf_create(&e->gguf, e->place.partial));
    for (size_t i = 0; i < e->items; i++) {
        PARE_TRY(pare_ctx_interrupted(e->cx));
        pare_ctx_progress(e->cx, "writing", (double)i, (double)e->items);
        const pare_mark m = pare_arena_mark(&e->scratch);
        const pare_status s = write_item(e, i);
        pare_arena_rewind(&e->scratch, m);
        PARE_TRY(s);
    }
    return pare_gguf_sync(&e->gguf);
}

pare_status pare__export_file(pare__export *e)
{
    pare_status s = write_all(e);
    pare_gguf_close(&e->gguf);
    if (s == PARE_OK)
        s = pare__export_file_check(e);
    pare__export_count(e->out);
    return s;
}
