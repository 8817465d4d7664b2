/* formats/gguf_write.h - a GGUF file of version 3 in the making: values and tensors are named, then
 * the head is written and the tensors are filled in any order. Same bytes for the same calls. */
#ifndef PARE_FORMATS_GGUF_WRITE_H
#define PARE_FORMATS_GGUF_WRITE_H

#include "formats/gguf.h"

typedef struct pare_gguf_slot {
    const char *name; /* borrowed */
    const pare_ggml_type *type;
    uint32_t rank;
    uint64_t shape[3];      /* slowest first */
    uint64_t offset, bytes; /* from the start of the data */
} pare_gguf_slot;

/* Failures of memory are kept and come out of pare_gguf_lay_out. */
typedef struct pare_gguf_writer {
    pare_ctx *cx;
    pare_arena *arena;
    unsigned char *head; /* values, later the head of the file */
    size_t len, room;
    uint64_t values;
    pare_gguf_slot *slot;
    size_t slots, most;
    size_t sealed_tensors, sealed_head; /* where their checksums are in the head (gguf_seal.h) */
    uint64_t data, bytes;               /* where the data start; of the file; once it is laid out */
    bool failed;
    const char *path;
    int fd;
} pare_gguf_writer;

/* `most` tensors at most. Buffers lie in the arena; close in any case once begun. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_gguf_begin(pare_ctx *cx, pare_arena *a, size_t most,
                                         pare_gguf_writer *w);

/* Values; keys are not checked for repetition. */
void pare_gguf_put_text(pare_gguf_writer *w, const char *key, const char *text, size_t len);
void pare_gguf_put_u32(pare_gguf_writer *w, const char *key, uint32_t value);
void pare_gguf_put_f32(pare_gguf_writer *w, const char *key, float value);
void pare_gguf_put_bool(pare_gguf_writer *w, const char *key, bool value);

/* An array of `count` elements of kind TEXT, I32 or F32, which must follow. */
void pare_gguf_put_array(pare_gguf_writer *w, const char *key, pare_gguf_kind kind, uint64_t count);
void pare_gguf_add_text(pare_gguf_writer *w, const char *text, size_t len);
void pare_gguf_add_i32(pare_gguf_writer *w, int32_t value);
void pare_gguf_add_f32(pare_gguf_writer *w, float value);

/* Adds a tensor of rank 1 to 3 whose rows are whole blocks and returns its number. */
size_t pare_gguf_add(pare_gguf_writer *w, const char *name, const pare_ggml_type *type,
                     uint32_t rank, const uint64_t *shape);

/* All is named: places the tensors and makes the head, w->head [w->len]; w->bytes are those of the
 * whole file. PARE_ENOMEM, PARE_EFORMAT when sizes overflow. */
PARE_CHECKED pare_status pare_gguf_lay_out(pare_gguf_writer *w);

/* Creates the file that is laid out, with its head, which is durable, and its full size.
 * PARE_EEXISTS when something is there; PARE_EIO, PARE_ENOSPC. */
PARE_CHECKED pare_status pare_gguf_create(pare_gguf_writer *w, const char *path);

/* Writes `count` bytes of tensor i from byte `at` on. */
PARE_CHECKED pare_status pare_gguf_fill(pare_gguf_writer *w, size_t i, uint64_t at,
                                        const void *bytes, uint64_t count);

/* Makes all durable. */
PARE_CHECKED pare_status pare_gguf_sync(pare_gguf_writer *w);
void pare_gguf_close(pare_gguf_writer *w);

#endif
