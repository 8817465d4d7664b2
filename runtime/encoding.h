/* runtime/encoding.h - how the weights of a packed matrix are stored and its inputs quantized. */
#ifndef PARE_RUNTIME_ENCODING_H
#define PARE_RUNTIME_ENCODING_H

#include "kernels/kernels.h"
#include "runtime/tensor.h"

/* What the codes of a packed matrix stand for. Levels of tables: kernels/levels.h. Journals hold
 * the numbers: new ones come last. */
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
    PARE_ENCODING_F16,      /* the weights themselves, only of pruned matrices; 16 bits */
    PARE_ENCODING_NVFP4,    /* E2M1 value of the code, times a scale per 16; 4 bits */
    PARE_ENCODING_EXL3      /* trellis codes between Hadamard matrices (runtime/linear_exl3.h) */
} pare_encoding;
enum { PARE_ENCODINGS = PARE_ENCODING_EXL3 + 1 };

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
    PARE_ACTIVATION_FLOAT   /* not to integers: weights are decoded and multiplied in F32 */
} pare_activation_mode;

typedef struct pare_activation {
    pare_activation_mode mode;
    unsigned bits; /* 8, 4 (codes -7 .. 7); FLOAT: 0, or 8: x becomes E4M3(x / s) s with
                      s = max |x| / 448 of a token, or 4: E2M1(x / s) s in groups, which and with
                      which s the encoding of the weights says (runtime/linear_inputs.c) */
    float scale;   /* TENSOR: value of one step; NVFP4: 448 6 / largest |x|, fixed at calibration */
} pare_activation;

/* How the scales of rows and groups are stored. */
typedef enum pare_scale_store {
    PARE_SCALES_NONE, /* values come from a book, or are the weights themselves */
    PARE_SCALES_F16,
    PARE_SCALES_STEPS,  /* U8: f16(offset + step (code - 128)), a step per 256 scales */
    PARE_SCALES_POWERS, /* U8: exponents of 2, plus 127 */
    PARE_SCALES_E4M3    /* U8: E4M3 value of the code, times a power of two per matrix */
} pare_scale_store;

/* One encoding: what general code has to know of it. Code that treats encodings differently asks
 * their rows; only what quantizes onto one encoding, or lists some, names it. */
typedef struct pare_encoding_row {
    const char *name;    /* in files */
    unsigned widths;     /* bit b is set: codes may have b bits */
    unsigned widths_2_4; /* likewise, of matrices stored as 2:4 */
    bool uniform;        /* equal steps over a range to choose: zero points, clips, refinement */
    unsigned codes;      /* fewer than 2^bits stand for a number: so many; 0: all of them */
    bool zero_in_middle; /* the code of 0 is 2^(bits - 1), and scales may be negative; else: */
    uint8_t zero;        /* the code of 0, and of padding */
    bool no_zero;        /* a row or group may have no code of 0: it cannot be pruned */
    size_t group;        /* the only group there is; 0: any, of what has scales or magnitudes */
    pare_scale_store scales;
    bool minima;   /* sub-blocks have a scale and an offset, else a scale */
    bool integer;  /* there is an integer product; else inputs stay floats */
    bool by_token; /* with inputs in a scale per token unless a recipe says else, not group */
    pare_decoding decoding; /* the kernels that decode */
    const float *level;     /* [2^bits] values of the codes, where all groups have the same */
    float most;             /* the largest of them */
    pare_dtype dtype;    /* a checkpoint's type for what is stored: F16, F8_E4M3; 0: it has none */
    const char *ggml;    /* type of GGUF files whose blocks these are, or NULL */
    float least;         /* smaller largest weights of a group are stored coarsely; 0: its
                            scale says so */
    bool vanishes;       /* so are groups whose codes all stand for 0 */
    const char *storage; /* what such weights are too small for */
} pare_encoding_row;

/* Row e is that of encoding e. */
extern const pare_encoding_row pare_encodings[PARE_ENCODINGS];

/* Whether codes of an encoding may have so many bits; 2_4: in matrices stored as 2:4. */
static inline bool pare_encoding_fits(pare_encoding e, unsigned bits)
{
    return bits < 32 && pare_encodings[e].widths >> bits & 1;
}

static inline bool pare_encoding_fits_2_4(pare_encoding e, unsigned bits)
{
    return bits < 32 && pare_encodings[e].widths_2_4 >> bits & 1;
}

/* Whether the weights themselves are stored, not codes. */
static inline bool pare_encoding_is_float(pare_encoding e)
{
    return pare_encodings[e].dtype == PARE_F16;
}

/* Whether a grid has two levels of scales. */
static inline bool pare_encoding_is_super(pare_encoding e)
{
    return pare_encodings[e].decoding == PARE_DECODE_SUPER;
}

/* Whether rows and columns are scaled and mixed, so that a product turns its inputs and outputs. */
static inline bool pare_encoding_turns(pare_encoding e)
{
    return pare_encodings[e].decoding == PARE_DECODE_EXL3;
}

/* Whether a row may be cut into groups: there are scales, or magnitudes. */
static inline bool pare_encoding_has_groups(pare_encoding e)
{
    return pare_encodings[e].scales || pare_encodings[e].decoding == PARE_DECODE_BINARY;
}

/* Whether scales are stored in 8 bits each. */
static inline bool pare_encoding_codes_scales(pare_encoding e)
{
    return pare_encodings[e].scales > PARE_SCALES_F16;
}

/* Whether weights are 4-bit floats whose groups have scales of 8 bits: inputs can be that, too. */
static inline bool pare_encoding_is_fp4(pare_encoding e)
{
    const pare_scale_store s = pare_encodings[e].scales;
    return s == PARE_SCALES_POWERS || s == PARE_SCALES_E4M3;
}

/* Whether inputs of such weights have a number that calibration fixes. */
static inline bool pare_activation_is_fixed(pare_encoding e, const pare_activation *a)
{
    return a->mode == PARE_ACTIVATION_TENSOR || (a->mode == PARE_ACTIVATION_FLOAT && a->bits == 4 &&
                                                 pare_encodings[e].scales == PARE_SCALES_E4M3);
}

/* The last code that stands for a number. */
static inline unsigned pare_encoding_top(pare_encoding e, unsigned bits)
{
    return (pare_encodings[e].codes ? pare_encodings[e].codes : 1u << bits) - 1;
}

/* The code of 0 where no zero point rules, and of padding. */
static inline uint8_t pare_encoding_zero(pare_encoding e, unsigned bits)
{
    return (uint8_t)(pare_encodings[e].zero_in_middle ? 1u << (bits - 1) : pare_encodings[e].zero);
}

#endif
