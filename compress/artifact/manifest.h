/* compress/artifact/manifest.h - what an artifact says about itself: manifest.json and config.json,
 * and the form in which the results of one unit (a block, or everything outside the blocks) wait in
 * the journal until the manifest is written.
 *
 * Both texts belong to the deterministic set: no time, path, host or thread count gets in. */
#ifndef PARE_COMPRESS_ARTIFACT_MANIFEST_H
#define PARE_COMPRESS_ARTIFACT_MANIFEST_H

#include "compress/artifact/adapter.h"
#include "compress/artifact/result.h"
#include "compress/output/inventory.h"
#include "formats/hash.h"

/* Hash of a tensor that is stored as it came. */
typedef struct pare_kept_hash {
    const char *name;
    uint8_t hash[16]; /* XXH3-128 */
} pare_kept_hash;

/* What one unit left. */
typedef struct pare_unit_result {
    pare_linear_result *row;
    size_t rows;
    pare_kept_hash *kept;
    size_t kept_count;
    pare_cut_result *cut;
    size_t cuts;
    pare_training_result *training; /* of the last unit, when a step trained; else NULL */
} pare_unit_result;

/* The payload of a journal record: little-endian, versioned; `bytes` in the arena.
 * PARE_ENOMEM, PARE_EINVAL for a name of 64 KiB or more. */
PARE_CHECKED pare_status pare_result_encode(pare_ctx *cx, pare_arena *a, const pare_unit_result *u,
                                            unsigned char **bytes, size_t *len);

/* The inverse; strings are copied into the arena. Safe for untrusted bytes.
 * PARE_EFORMAT (with the offset) when they are not exactly one payload of this version,
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_result_decode(pare_ctx *cx, pare_arena *a, const unsigned char *bytes,
                                            size_t len, pare_unit_result *out);

typedef struct pare_manifest {
    const char *version; /* of the program: "0.1.0" */
    const char *recipe;  /* normalized, portable; NUL-terminated */
    uint64_t seed;
    const char *tokens_sha256;   /* of the calibration tokens; "": unknown; NULL: no
                                  calibration */
    const char *held_out_sha256; /* of the windows held out to evaluate on; NULL: none */
    const char *training_sha256; /* of the windows that a pass trained on; NULL: none did */
    bool trained;                /* by pare train: then windows and precision are of that */
    size_t windows, window;      /* calibration */
    uint64_t fresh;              /* tokens of it that say something new */
    bool token_weights;          /* they count by the loss */
    const char *precision;       /* of its products */
    const uint8_t *statistics;   /* [16] XXH3-128 of the file that they come out of, or NULL */
    const size_t *share; /* [shares] windows of each text; NULL when no weights were given */
    size_t shares;
    const char *blas; /* pare_blas_name(), which the bytes depend on; NULL: they do not */
    const pare_config *config;
    const pare_packed_layout *layout; /* dtype and shape of the kept tensors */
    const pare_linear_result *row;    /* in the order in which they stand in the manifest */
    size_t rows;
    const pare_kept_hash *kept; /* every entry of the layout that is not a plane of a row */
    size_t kept_count;
    double bits_per_weight;                 /* of the targeted linears */
    const pare_structure_result *structure; /* NULL: a packed artifact */
    const pare_adapter_result *adapter;     /* that were trained; NULL: none */
    const pare_file_digest *input;
    size_t inputs;
    const pare_file_digest *evaluated; /* of what the recipe evaluates on: only its SHA-256 */
    size_t evaluated_count;
    const pare_repair *repair; /* [repairs] */
    size_t repairs;
    const pare_file_digest *output; /* packed files, index, config.json, tokenizer files */
    size_t outputs;
} pare_manifest;

/* Text of manifest.json, in the arena.
 * PARE_EINVAL for a kept tensor that the layout does not have or a number that is not finite,
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_manifest_text(pare_ctx *cx, pare_arena *a, const pare_manifest *m,
                                            char **text, size_t *len);

/* Text of the artifact's config.json, in the arena: the members of the input's in their order, with
 * quantization_config (last) {"quant_method": "pare", "format": 1, ...}. PARE_ENOMEM.
 */
PARE_CHECKED pare_status pare_manifest_config(pare_ctx *cx, pare_arena *a, const pare_json *config,
                                              const pare_config *c, char **text, size_t *len);

/* The same for a plain checkpoint of the shape `c`, as other programs read it: members that say its
 * sizes and biases are replaced or, when they are absent, stand at the end; lists with one item for
 * each block keep those of the blocks that stay; others stay. Head size and key/value heads are
 * always written. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_manifest_dense_config(pare_ctx *cx, pare_arena *a,
                                                    const pare_json *config, const pare_config *c,
                                                    const pare_structure_result *r,
                                                    bool attention_bias, bool mlp_bias, char **text,
                                                    size_t *len);

/* The same where nothing but the number of experts, `before`, changes, under all its names: all
 * other members are copied, and quantization_config with them where tensors stay as it says.
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_manifest_experts_config(pare_ctx *cx, pare_arena *a,
                                                      const pare_json *config, const pare_config *c,
                                                      size_t before, bool quantized, char **text,
                                                      size_t *len);

/* Bits of all planes of the rows over their weights, padding not counted; 0 without rows. */
double pare_manifest_bits_per_weight(const pare_packed_linear *linear, size_t count);

#endif
