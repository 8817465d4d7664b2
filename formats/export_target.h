/* formats/export_target.h - packed linears in files of other engines, from the same integer codes.
 *
 * A target turns the codes of one linear into tensors of its own. What it cannot hold it refuses
 * by name, from the description alone, so that a recipe fails before a weight is read; what it
 * holds, it holds exactly: the values that its engine computes are those that our kernels decode,
 * bit for bit in F32 (`safetensors` rounds them to the model's floats). Decoders (export_read.c)
 * are written from the rules of the engines and share nothing with the writers. */
#ifndef PARE_FORMATS_EXPORT_TARGET_H
#define PARE_FORMATS_EXPORT_TARGET_H

#include "formats/checkpoint.h"
#include "formats/packed.h"

/* The linears of the blocks and the head of a model, in order, as the files of the family have
 * them: those that lie in one tensor there are one here. */
typedef struct pare_export_linear pare_export_linear;
struct pare_export_linear {
    const char *name;
    size_t block;               /* number of blocks: the head, or the embedding */
    pare_role role;             /* PARE_ROLES outside the blocks */
    bool looked_up;             /* the embedding */
    const pare_linear *weights; /* NULL when there are pieces */
    const pare_config *config;  /* of the model */
    bool is_packed;             /* some of it is; else it stays the float matrix it is */
    pare_packed_linear packed;  /* of all pieces, of the first unless they are alike; n, k always */
    bool transposed;            /* as floats it lies [in, out] in files */
    const pare_export_linear *piece;
    size_t pieces; /* 0: a tensor of its own */
    pare_fusion fusion;
    const char *unlike;              /* a piece that is not stored like the first, or NULL */
    size_t part;                     /* of the block: 0, or 1 + the expert */
    const pare_export_linear *mates; /* [mate_count] the same linear of all experts, or NULL */
    size_t mate_count;
};

typedef struct pare_export_model {
    const pare_config *config;
    const pare_export_linear *linear; /* [linears + tables] */
    size_t linears, tables;           /* the latter 1 where the embedding is packed: floats in
                                         directories; its engines know no codes there */
    const char *const *kept;          /* [kepts] matrices beside them that stay floats: routers */
    size_t kepts;
    pare_dtype floats;  /* what dequantized weights become: F16, BF16 or F32 */
    bool shifts_norms;  /* a pass made biases behind norms that have none */
    const char *biased; /* a float matrix for which a pass made a bias, where the family has none */
} pare_export_model;

/* What a target makes of a linear. */
typedef enum pare_export_fate {
    PARE_EXPORT_LOSSLESS,    /* the values that our kernels decode */
    PARE_EXPORT_ROUNDED,     /* to floats of the model */
    PARE_EXPORT_REQUANTIZED, /* other codes on another grid */
    PARE_EXPORT_FLOAT,       /* the float matrix that it is stays one */
    PARE_EXPORT_QUANTIZED,   /* the float matrix that it is becomes blocks of a mix */
    PARE_EXPORT_FATES
} pare_export_fate;
const char *pare_export_fate_name(pare_export_fate f); /* "requantized", in JSON */
const char *pare_export_fate_text(pare_export_fate f); /* "quantized again", behind a number */

/* How a target stores a linear, known from its description. */
typedef struct pare_export_store {
    pare_export_fate fate;
    const char *type;   /* of its blocks or floats in a GGUF file, else NULL */
    bool fallback;      /* not the type that was asked for */
    bool beside_floats; /* a fallback because linears that stay floats lie in the same tensor;
                           else rows are no whole blocks */
    bool no_factor;     /* codes of NVFP4 that readers have no factor for */
} pare_export_store;

/* What an export leaves. */
typedef enum pare_export_kind {
    PARE_EXPORT_DIRECTORY, /* safetensors, config.json and what goes along */
    PARE_EXPORT_FILE       /* one GGUF file (export_gguf.h), which holds all of that */
} pare_export_kind;

enum { PARE_EXPORT_PARTS = 6 };

/* One tensor of a linear: its name is that of the linear and the suffix. */
typedef struct pare_export_part {
    const char *suffix; /* ".weight_packed" */
    pare_dtype dtype;
    uint32_t rank;
    uint64_t shape[3];
} pare_export_part;

/* The least slice of a packed linear that is a linear of its own in a format: the words that codes
 * and zero points lie in, blocks of a GGUF file, and groups. */
typedef struct pare_export_grain {
    size_t rows, columns;
    size_t group; /* columns of a slice are a multiple of it, too; 0: any */
} pare_export_grain;

typedef struct pare_export_target {
    const char *name;    /* "gptq" */
    const char *summary; /* one line: what it is and who loads it */
    pare_export_kind kind;
    pare_export_fate fate; /* of packed linears */
    /* That of one of them, where it is not the same for all; or NULL. */
    pare_export_store (*store)(const struct pare_export_target *t, const pare_export_linear *l);
    pare_export_grain (*grain)(const struct pare_export_target *t, const pare_export_linear *l);
    /* Refuses what the whole model cannot be. */
    pare_status (*check)(pare_ctx *cx, const pare_export_model *m);
    /* Refuses a packed linear that its engine has no place or no kernel for. */
    pare_status (*check_linear)(pare_ctx *cx, const pare_export_linear *l);
    /* What rows and columns of integers must be multiples of, as `engine` needs it; 0: any. */
    size_t rows, columns;
    const char *engine;

    /* A file: type of its blocks, its number for files of that type, and which tensors get another
     * type (export_gguf_mix.c): 0: none. A mix quantizes floats, too. */
    const char *block;
    uint32_t file_type;
    unsigned mix;

    /* A directory: all that follows. */
    const char *extra; /* file that gets the configuration alone, or NULL */
    /* Tensors of a linear that passed; returns their number. */
    size_t (*parts)(const pare_export_model *m, const pare_export_linear *l,
                    pare_export_part part[PARE_EXPORT_PARTS]);
    /* Fills the tensors, zeroed, in the order of `parts`; w is what pare_export_weights gives. */
    pare_status (*fill)(pare_ctx *cx, pare_arena *scratch, const pare_export_model *m,
                        const pare_export_linear *l, const pare_linear *w,
                        void *const data[PARE_EXPORT_PARTS]);
    /* Members of an open object: quantization_config; NULL: config.json gets none. */
    void (*config)(pare_json_writer *w, const pare_export_model *m);
    /* The configuration lists the tensors of every packed linear, with these members of an open
     * object beside them; NULL: it does not. */
    void (*storage)(pare_json_writer *w, const pare_export_linear *l);
    /* The weights that the engine computes, f32 [n, k], from the tensors of a finished file. */
    pare_status (*read)(pare_ctx *cx, const pare_checkpoint *ck, const pare_export_linear *l,
                        float *w);
} pare_export_target;

/* All targets, ended by NULL. */
extern const pare_export_target *const pare_export_targets[];
const pare_export_target *pare_export_find(const char *name); /* NULL when unknown */

pare_export_store pare_export_store_of(const pare_export_target *t, const pare_export_linear *l);

/* That of the target, in which zeros of 2:4 stay whole; 1 and 1 of a matrix of floats. */
pare_export_grain pare_export_grain_of(const pare_export_target *t, const pare_export_linear *l);

/* The linears of a model that lie in one tensor: `piece` [pieces], each with weights. */
void pare_export_join(pare_export_linear *l, const char *name, const pare_export_linear *piece,
                      size_t pieces, pare_fusion fusion);

/* Its weights as one linear, in `scratch` when they lie apart; `floats`: F32, else codes. */
PARE_CHECKED pare_status pare_export_weights(pare_ctx *cx, pare_arena *scratch,
                                             const pare_export_model *m,
                                             const pare_export_linear *l, bool floats,
                                             pare_linear *out);

/* Its weights as our kernels decode them, f32 [n, k], by another way. */
PARE_CHECKED pare_status pare_export_floats(pare_ctx *cx, pare_arena *scratch,
                                            const pare_export_model *m, const pare_export_linear *l,
                                            float *out);

/* Its bias, f32 [n]; every piece has one. */
void pare_export_bias(const pare_export_model *m, const pare_export_linear *l, float *out);

/* The embedding where it is packed, else NULL. */
const pare_export_linear *pare_export_packed_embedding(const pare_export_model *m);

/* Whether a target can hold MLPs of these widths: floats any, other formats one for all blocks, and
 * none those of a family whose files have all experts of a block in one tensor.
 * PARE_ENOTSUP. */
PARE_CHECKED pare_status pare_export_check_widths(pare_ctx *cx, const pare_export_target *t,
                                                  const pare_config *c);

/* Whether a target can hold the model: all rules above; with `strict` only without other codes and
 * other types than those asked for. Reads no weights. PARE_ENOTSUP with linear, target and reason.
 */
PARE_CHECKED pare_status pare_export_check(pare_ctx *cx, const pare_export_target *t,
                                           const pare_export_model *m, bool strict);

#endif
