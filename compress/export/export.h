/* compress/export/export.h - an artifact written as files of another engine. */
#ifndef PARE_COMPRESS_EXPORT_EXPORT_H
#define PARE_COMPRESS_EXPORT_EXPORT_H

#include "compress/output/output_swap.h"
#include "formats/export_target.h"

typedef struct pare_export_job {
    const char *artifact, *output; /* paths as given */
    const pare_export_target *target;
    size_t ranks;   /* of tensor parallelism that get whole pieces of it; 0: as 1 */
    bool restart;   /* replace a finished output */
    bool strict;    /* refuse what would round to other codes */
    bool unchecked; /* take the weights of the artifact without a look at their checksums */
    pare_teller teller;
} pare_export_job;

/* What becomes of a linear. */
typedef struct pare_export_row {
    const char *name;
    const char *was; /* "int4 g32 sym"; NULL: a float matrix */
    pare_export_fate fate;
    const char *type;   /* of its blocks or floats in a GGUF file, else NULL */
    bool fallback;      /* not the type that was asked for */
    bool beside_floats; /* a fallback because others in its tensor stay floats */
    bool no_factor;     /* codes of NVFP4 that engines have no factor for */
    bool again;         /* the head of a tied matrix that has a row: it does not count */
    double error;       /* |W' - W| / |W|, Frobenius, W as our kernels decode it */
} pare_export_row;

/* An export, planned or done. */
typedef struct pare_export_result {
    pare_export_row *row;            /* linears of the blocks, the head, a packed embedding; in the
                                        arena */
    size_t rows;                     /* 0 when it failed before */
    size_t count[PARE_EXPORT_FATES]; /* rows of each fate */
    size_t fallbacks;                /* rows of another type than asked for */
    size_t beside_floats;            /* of them, those in one tensor with floats */
    size_t no_factor;                /* rows of NVFP4 that engines have no factor for */
    double error;       /* as of a row, over all quantized linears; below 0: only planned */
    size_t ranks;       /* more than 1: they get whole pieces of every linear */
    uint64_t bytes;     /* of the weight files, exact */
    uint64_t ram_bytes; /* most that one tensor needs on its way */
    bool no_tokenizer;  /* a GGUF file without one */
    const char *notice; /* what the format does not carry on, or NULL */
} pare_export_result;

/* Members of an open object: what an export came to, with `rows` for each linear. */
void pare_export_put(pare_json_writer *w, const pare_export_result *r, bool rows);

/* The types of rows that are fallbacks, and how many have each; and as text, "12 Q5_0, 2 F16", of
 * those whose rows are no whole blocks. */
enum { PARE_EXPORT_TEXT = 128, PARE_EXPORT_TYPES = 4 };
typedef struct pare_export_type {
    const char *name;
    size_t count;
} pare_export_type;
size_t pare_export_fallback_types(const pare_export_result *r,
                                  pare_export_type type[PARE_EXPORT_TYPES]);
char *pare_export_fallback_text(const pare_export_result *r, char text[PARE_EXPORT_TEXT]);

/* What a file without a tokenizer means to people. */
extern const char pare_export_no_tokenizer[];

/* For an unknown name what was meant, a part of a sentence: gguf:q4_k_m for gguf:Q4_K_M; or NULL.
 */
const char *pare_export_meant(const char *name, char text[PARE_EXPORT_TEXT]);

/* The names of all targets, "gptq, awq". */
char *pare_export_known(char *text, size_t size);

/* What is exported: a finished artifact, or one that is planned. */
typedef struct pare_export_source {
    const pare_checkpoint *ck; /* its tokenizer goes along */
    pare_export_model shape;
    const pare_model *model;
    const pare_tensor *tensor; /* of the artifact, sorted by name; data NULL when it is planned */
    size_t tensors;
    pare_kv_method kv;
} pare_export_source;

/* Every linear of the blocks in order, then the head. `packed` [count] describes those that are
 * quantized, `config` is config.json. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_export_describe(pare_arena *a, const pare_model *model,
                                              const pare_json *config,
                                              const pare_packed_linear *packed, size_t count,
                                              pare_export_model *out);

/* What an export of it comes to: whether the target can hold it, for so many ranks
 * (formats/export_parallel.h; 0 and 1: whole), the fate of every linear, bytes. Reads no weight.
 * PARE_ENOTSUP with linear and reason, PARE_EFORMAT, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_export_outline(pare_ctx *cx, pare_arena *a,
                                             const pare_export_source *source,
                                             const pare_export_target *target, size_t ranks,
                                             bool strict, pare_export_result *out);

/* Where an export goes. */
typedef struct pare_export_place {
    pare_output_place at;
    bool replaces; /* an export that is there */
} pare_export_place;

/* Whether an export of `artifact` can go to `output`, by its path. PARE_EUSAGE for an empty path,
 * one inside the artifact, one that ends in no name or not as the kind asks for; PARE_EEXISTS for
 * the artifact itself and for a symbolic link; PARE_ENOMEM. */
PARE_CHECKED pare_status pare_export_place_find(pare_ctx *cx, pare_arena *a, const char *artifact,
                                                const char *output, pare_export_kind kind,
                                                pare_export_place *out);

/* Whether what lies there may be replaced: nothing, or with restart what pare_output_place_check
 * accepts. PARE_EEXISTS and what that returns. */
PARE_CHECKED pare_status pare_export_place_check(pare_ctx *cx, pare_arena *a, pare_export_place *p,
                                                 bool restart);

/* Ends what a killed export to `output` was about (pare_output_place_mend). */
PARE_CHECKED pare_status pare_export_mend(pare_ctx *cx, pare_arena *a, const pare_export_job *job);

/* Writes OUTPUT.partial, a directory or a file, reads it back as the engine would and compares
 * every weight of every linear, and every other tensor byte by byte, and renames it to OUTPUT.
 *
 * What a directory is says OUTPUT/pare-export.json, and a GGUF file general.quantized_by: this,
 * SHA256SUMS and the checksums in the head of the file tell what --restart may replace
 * (compress/output/owned_files.h).
 *
 * PARE_EEXISTS   a finished output is there (without restart), or what no export left, or the
 *                artifact itself; or another process writes there
 * PARE_ENOTSUP   the target cannot hold the artifact, or not without other codes (strict): linear
 *                and reason, before a byte is written
 * PARE_ENUMERIC  what was read back differs: a mistake of this program, or a weight that the floats
 *                of the model do not reach; nothing stays
 * PARE_EFORMAT, PARE_ENOTFOUND, PARE_EIO, PARE_ENOSPC, PARE_ENOMEM, PARE_EINTERRUPTED
 * Memory         ram_bytes of the result. */
PARE_CHECKED pare_status pare_export_run(pare_ctx *cx, pare_arena *a, const pare_export_job *job,
                                         pare_export_result *out);

#endif
