/* compress/output/owned_files.h - what pare wrote, told by its content: nothing else is replaced or
 * removed.
 *
 * A finished directory has a manifest of pare (an artifact) or the record of an export, and nothing
 * but regular files with names that pare gives, each listed in SHA256SUMS with the digest it has.
 * An unfinished one has a journal of pare, and nothing but regular files with such names; so has
 * one that was replaced, whose journal says so. A GGUF file says who quantized it and fits the
 * checksums in its head (formats/gguf_seal.h); unfinished, it lies in a directory with a journal.
 */
#ifndef PARE_COMPRESS_OUTPUT_OWNED_FILES_H
#define PARE_COMPRESS_OUTPUT_OWNED_FILES_H

#include <stdbool.h>

#include "runtime/arena.h"

typedef enum pare_output_kind {
    PARE_OUTPUT_ARTIFACT, /* what compress makes: a directory */
    PARE_OUTPUT_EXPORT,   /* a directory of safetensors for another engine */
    PARE_OUTPUT_FILE      /* a GGUF file */
} pare_output_kind;

/* The record of an export, in every directory of one. */
#define PARE_EXPORT_RECORD "pare-export.json"

/* Whether the manifest, the record or the head of what lies at `path` is one of pare; with `why`,
 * room for PARE_OWNED_WHY bytes, what speaks against it. Nothing else of it is looked at.
 * PARE_ENOMEM. */
enum { PARE_OWNED_WHY = 192 };
PARE_CHECKED pare_status pare_owned_marked(pare_ctx *cx, pare_arena *a, const char *path,
                                           pare_output_kind kind, bool *ours, char *why);

/* What every refusal says, so that nothing else helps. */
#define PARE_OWNED_ONLY "pare replaces and removes only what it wrote and nobody changed"

/* Refuses a `path` that is no finished output of the kind, or not as pare left it: PARE_EEXISTS
 * with what it is or holds, and what to do. Reads every byte.
 * Listed files may be missing with `remains`: removing it was interrupted.
 * PARE_EIO, PARE_ENOMEM, PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_owned_check(pare_ctx *cx, pare_arena *a, const char *path,
                                          pare_output_kind kind, bool remains);

/* What lies where the work goes. */
typedef enum pare_owned_state {
    PARE_OWNED_NOTHING,    /* absent, or an empty directory */
    PARE_OWNED_UNFINISHED, /* work of pare on an output of the kind */
    PARE_OWNED_LOST,       /* work, but its journal is damaged: nobody knows of which job */
    PARE_OWNED_REPLACED    /* a finished output that is marked as replaced, or what is left of it */
} pare_owned_state;

/* The file that is written when the output is one, in the directory of the work. */
#define PARE_OWNED_FILE "model.gguf"

/* Which of these `path` is: PARE_EEXISTS, as above, when it is none: a finished output that no run
 * has marked as replaced, or work of compress where an export goes, or the other way round. */
PARE_CHECKED pare_status pare_owned_partial(pare_ctx *cx, pare_arena *a, const char *path,
                                            pare_output_kind kind, pare_owned_state *out);

/* Marks the finished directory `path`, durable, as one that is about to be replaced by `partial`
 * (its journal says so: pare_journal_look); removes that mark, or the journal of a run that is
 * over and the state of its training, when the journal is a good one of pare. PARE_EIO,
 * PARE_ENOSPC, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_owned_mark_replaced(pare_ctx *cx, const char *path,
                                                  const char *partial);
/* A journal for the unfinished directory of an export. The same. */
PARE_CHECKED pare_status pare_owned_mark_unfinished(pare_ctx *cx, const char *path);
PARE_CHECKED pare_status pare_owned_unmark(pare_ctx *cx, pare_arena *a, const char *path);

/* Removes the directory `path` that pare_owned_check accepts (with `remains`), file by file: those
 * whose digest is the listed one, if they are still the files that were read for it. PARE_EEXISTS:
 * a file that has come there or changed since, which is named and stays. PARE_EIO, PARE_ENOMEM, and
 * what pare_inventory_check returns. */
PARE_CHECKED pare_status pare_owned_remove(pare_ctx *cx, pare_arena *a, const char *path,
                                           pare_output_kind kind);

/* Removes unfinished work (pare_owned_partial): all of it; or only temporary files, as a run goes
 * on there; or all but the journal, as it begins anew there; or all but that and the state of a
 * training, whose output is written again. PARE_EIO. */
typedef enum pare_owned_part {
    PARE_OWNED_ALL,
    PARE_OWNED_TEMPORARY,
    PARE_OWNED_BUT_JOURNAL,
    PARE_OWNED_BUT_STATE
} pare_owned_part;
PARE_CHECKED pare_status pare_owned_discard(pare_ctx *cx, const char *path, pare_output_kind kind,
                                            pare_owned_part part);

#endif
