/* runtime/encoding.h - how the weights of a packed matrix are stored and its inputs quantized. */
#ifndef PARE_RUNTIME_ENCODING_H
#define PARE_RUNTIME_ENCODING_H

/* What the codes of a packed matrix stand for. Levels of tables: kernels/levels.h. */
typedef enum pare_encoding {
    PARE_ENCODING_UNIFORM,  /* (code - zero) scale; 2, 3, 4, 8 bits */
    PARE_ENCODING_TERNARY,  /* (code - 1) scale, code 0 .. 2; 2 bits */
    PARE_ENCODING_NF4,      /* level[code] scale */
    PARE_ENCODING_FP8,      /* E4M3 value of the code, times scale; 8 bits */
    PARE_ENCODING_MXFP4,    /* E2M1 value of the code, times a power of two per 32; 4 bits */
    PARE_ENCODING_CODEBOOK, /* book[row][code]; 3, 4 bits */
    PARE_ENCODING_BINARY,   /* two signs and two magnitudes per row and group (BiLLM); 2 bits */
    PARE_ENCODING_Q4_K,     /* super-blocks of 256 (solve/super.h); 4 bits */
    PARE_ENCODING_Q6_K,     /* likewise; 6 bits */
    PARE_ENCODING_F16       /* the weights themselves, only of pruned matrices; 16 bits */
} pare_encoding;

/* How zeros of a pruned matrix are left out. */
typedef enum pare_sparsity_store {
    PARE_SPARSITY_NONE, /* they are not; F16 without a panel, as a dense matrix */
    PARE_SPARSITY_2_4,  /* two places for each 4 columns of a row; UNIFORM symmetric of 4 or 8 bits,
                           or F16 */
    PARE_SPARSITY_BITMASK /* a bit per weight; F16 */
} pare_sparsity_store;

/* How the inputs of a packed matrix are quantized before the product. */
typedef enum pare_activation_mode {
    PARE_ACTIVATION_GROUP,  /* a scale per token and group of at most 128 */
    PARE_ACTIVATION_TOKEN,  /* a scale per token */
    PARE_ACTIVATION_TENSOR, /* one scale for all tokens, fixed at calibration */
    PARE_ACTIVATION_FLOAT   /* not at all: weights are decoded and multiplied in F32 */
} pare_activation_mode;

typedef struct pare_activation {
    pare_activation_mode mode;
    unsigned bits; /* 8, 4 (codes -7 .. 7); 0 when FLOAT */
    float scale;   /* TENSOR: value of one step */
} pare_activation;

#endif
