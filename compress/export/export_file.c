/* An artifact as one GGUF file. */
#include "compress/export/export_run.h"
#include "compress/output/output.h"
#include "formats/gguf_seal.h"
#include "runtime/file.h"

static pare_status write_piece(pare__export *e, size_t i, size_t piece, uint64_t at)
{
    const uint64_t bytes = e->item[i].piece[piece].bytes;
    const pare_mark m = pare_arena_mark(&e->scratch);
    void *const data = pare_arena_take_raw(&e->scratch, 1, (size_t)bytes);
    pare_status s =
        data ? pare_gguf_encode(e->cx, &e->scratch, &e->item[i], piece, data) : PARE_ENOMEM;
    if (s == PARE_OK)
        s = pare_gguf_fill(&e->gguf, i, at, data, bytes);
    pare_arena_rewind(&e->scratch, m);
    return s;
}

static pare_status write_item(pare__export *e, size_t i)
{
    uint64_t at = 0;
    for (size_t j = 0; j < e->item[i].pieces; j++) {
        PARE_TRY(pare_ctx_interrupted(e->cx));
        PARE_TRY(write_piece(e, i, j, at));
        at += e->item[i].piece[j].bytes;
    }
    return PARE_OK;
}

static pare_status write_all(pare__export *e)
{
    PARE_TRY(pare_output_make(e->cx, e->a, e->place.at.partial));
    PARE_TRY(pare_owned_mark_unfinished(e->cx, e->place.at.partial));
    PARE_TRY(pare_gguf_create(&e->gguf, e->place.at.work));
    for (size_t i = 0; i < e->items; i++) {
        pare_ctx_progress(e->cx, "writing the export", (double)i, (double)e->items);
        PARE_TRY(write_item(e, i));
    }
    return pare_gguf_seal(&e->gguf);
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
