/* formats/quantized_internal.h - linears that other programs quantized, as their files hold them:
 * integer codes or small floats, zero points, scales; and how they become linears of ours.
 *
 *   integers  w[r, j] = (code - zero) scale,  code and zero 0 .. 2^bits - 1
 *   floats    w[r, j] = level[code] scale
 *
 * in F32, where zero and scale are those of row r and of the group of column j; or trellis codes,
 * weights of whole tiles. A method (gptq,
 * ...) knows settings and names of tensors, and describes each linear; everything else is here
 * once. */
#ifndef PARE_FORMATS_QUANTIZED_INTERNAL_H
#define PARE_FORMATS_QUANTIZED_INTERNAL_H

#include "formats/checkpoint_internal.h"
#include "formats/packed.h"
#include "runtime/regex.h"

enum { PARE__SIDE_MAX = 1 << 24, PARE__TENSOR_NAME = 1024 };

/* Fields in lines: words of 32 bits, filled from their lowest bit; or bytes. Field i of a line
 * begins at bit i * bits and may lie across two words, but with `per`. */
typedef struct pare__fields {
    const void *data; /* not aligned; NULL: there are none */
    size_t line;      /* words (bytes) from one line to the next */
    size_t step;      /* and from one word (byte) of a line to the next */
    unsigned bits;
    size_t per; /* fields of a word, whose upper bits are left over; 0: they follow each other */
    bool bytes;
    uint8_t flip;         /* bytes: exclusive or, 0x80 for numbers with a sign */
    int add;              /* what a field lacks */
    const uint8_t *order; /* [8] places in a word of 8 fields of 4 bits; NULL: ascending */
} pare__fields;

/* Of trellis codes (quantized_exl3.c); NO_BOOK: they are none. */
typedef enum pare__codebook { PARE__NO_BOOK, PARE__3INST, PARE__MUL1, PARE__MCG } pare__codebook;

typedef struct pare__coded {
    const char *name; /* of the linear; its tensors begin so */
    size_t n, k;
    unsigned bits;
    const float *level;   /* values of the codes: those of E4M3 or E2M1; NULL: integers */
    size_t group, groups; /* columns of a group, 0: all, the last may have fewer; groups of a row */
    pare__fields code;    /* a line is a row, field j column j; or: */
    bool down;            /* a line is a column, field r row r */
    pare__fields zero;    /* line g is a group, field r row r; none: 2^(bits - 1) */
    bool symmetric;       /* zero points that are there say nothing: all 2^(bits - 1) */
    const pare_tensor *codes, *zeros, *scales, *index; /* for messages; index may be NULL */
    /* Element of `scales` for row r and group g: r / scale_rows * scale_line + g * scale_step. */
    size_t scale_rows, scale_line, scale_step;
    /* Scales in E4M3 are divided by the one or multiplied by the other, which is not 0; those in U8
     * are powers of two, plus 127. */
    float divisor, factor;
    pare_activation activation; /* of inputs when it runs; bits 0: not said */
    bool rounds_inputs;         /* its program rounds them, in this way or another */
    uint64_t bytes;             /* of all its tensors */
    /* Trellis codes: `codes` are tiles, `scales` those of the rows; nothing else above counts but
     * n, k and bits. */
    pare__codebook codebook;
    size_t rows;                /* of the tiles, n or more */
    const pare_tensor *columns; /* scales of the columns */
} pare__coded;

typedef struct pare__method pare__method;

/* A checkpoint on its way. */
typedef struct pare__quantized {
    pare_checkpoint *ck;
    pare_ctx *cx;
    pare_arena *arena, *scratch;
    const char *file;        /* config.json, for messages */
    const pare_json *config; /* quantization_config */
    const pare__method *method;
    void *settings;        /* of the method, in `scratch` */
    bool rounds_inputs;    /* the model would round inputs as pare does not */
    const pare_arch *arch; /* NULL: of no known family */
    bool packs;            /* linears may stay codes: the family has them as the files do */
} pare__quantized;

struct pare__method {
    const char *name;          /* quant_method */
    const char *const *codes;  /* ends of the names of tensors with codes, NULL behind the last */
    const char *const *beside; /* of tensors that belong to them */
    /* Reads quantization_config. PARE_ENOTSUP, PARE_EFORMAT with the key, PARE_ENOMEM. */
    pare_status (*begin)(pare__quantized *q);
    /* Whether a tensor with such a name holds codes; NULL: always. */
    bool (*holds)(const pare_tensor *t);
    /* What a tensor of another type or shape does not fit; NULL: quantization_config asks for it.
     */
    const char *asks;
    /* Describes the linear whose codes are in out->codes: out->name is set, all the rest is not.
     * Sizes are checked against the tensors. PARE_EFORMAT, PARE_ENOTSUP with tensor and reason. */
    pare_status (*describe)(pare__quantized *q, pare__coded *out);
};

extern const pare__method pare__compressed_tensors, pare__gptq, pare__awq, pare__fp8,
    pare__auto_round, pare__modelopt, pare__exl3;

/* What its codes stand for. */
pare_encoding pare__coded_encoding(const pare__coded *c);

/* A text of the settings; `absent` where there is none, "?" for what is no text. */
const char *pare__quantized_word(const pare_json *v, const char *absent);

/* The tensor name + suffix, or NULL. */
const pare_tensor *pare__quantized_find(const pare__quantized *q, const char *name,
                                        const char *suffix);

/* PARE_ENOTSUP for what quantization_config says: "FILE: quantization_config: WHERE.KEY: WHAT". */
pare_status pare__quantized_refuse(const pare__quantized *q, const char *where, const char *key,
                                   const char *what);

/* PARE_EFORMAT: "PATH: tensor NAME SUFFIX: WHAT". */
pare_status pare__quantized_wrong(const pare__quantized *q, const char *name, const char *suffix,
                                  const char *what);

/* PARE_EFORMAT: "PATH: tensor NAME is TYPE [SHAPE], quantization_config asks for DTYPE SHAPE", or
 * what the method says that asks. */
pare_status pare__quantized_fail_form(const pare__quantized *q, const pare_tensor *t,
                                      const char *dtype, const char *shape);

/* The tensor name + suffix with this type and shape [rows, columns]; a vector of `columns` when
 * rows is 0. PARE_EFORMAT naming what is missing or how it is. */
PARE_CHECKED pare_status pare__quantized_take(const pare__quantized *q, const char *name,
                                              const char *suffix, pare_dtype dtype, uint64_t rows,
                                              uint64_t columns, const pare_tensor **out);

/* The same for scales: F16, BF16 or F32 [rows, columns], a vector where one of both is 1; a single
 * one may have any rank. */
PARE_CHECKED pare_status pare__quantized_scales(const pare__quantized *q, const char *name,
                                                const char *suffix, uint64_t rows, uint64_t columns,
                                                const pare_tensor **out);

/* A single number that must be positive; 0 where a listing comes without data. Adds its bytes. */
PARE_CHECKED pare_status pare__quantized_number(const pare__quantized *q, const char *suffix,
                                                pare__coded *c, float *out);

/* n and k from the shape of the codes, of which `per` lie in an element. */
PARE_CHECKED pare_status pare__quantized_sizes(const pare__quantized *q, const char *suffix,
                                               size_t per, pare__coded *c);

/* Codes of 4 bits in U8 [n, k / 2], the first in the lower bits: n, k, groups and code, from
 * c->group. */
PARE_CHECKED pare_status pare__quantized_pairs(const pare__quantized *q, const char *suffix,
                                               pare__coded *c);

/* Says that settings of the cache are left out. */
void pare__quantized_warn_cache(const pare__quantized *q);

/* true or false of the settings, `absent` where there is none or null; PARE_ENOTSUP for another. */
PARE_CHECKED pare_status pare__quantized_flag(const pare__quantized *q, const char *where,
                                              const char *key, const pare_json *v, bool absent,
                                              bool *out);

/* group_size: *group is 0 for -1, which is all inputs. */
PARE_CHECKED pare_status pare__quantized_group(const pare__quantized *q, const char *where,
                                               const pare_json *v, size_t *group);

/* quantized_match.c: an expression that names linears from their start, as Python's re.match. */
typedef struct pare__expression {
    const char *text, *where; /* where: in front of it in messages */
    const pare_regex *regex;
} pare__expression;

/* PARE_EFORMAT, PARE_ENOTSUP with the expression; PARE_ENOMEM. */
PARE_CHECKED pare_status pare__quantized_expression(const pare__quantized *q, const char *where,
                                                    const char *text, pare__expression *out);

/* *which: the first that matches, `count` without one. */
PARE_CHECKED pare_status pare__quantized_match(const pare__quantized *q, const pare__expression *e,
                                               size_t count, const char *name, size_t *which);

/* The group of every column, from a tensor of I32 [k] or, without one, by their order: groups of
 * c->group; so, too, when all are -1 and that is what a method writes. Sets c->index when they are
 * in another order. PARE_EFORMAT for one that is none. */
PARE_CHECKED pare_status pare__quantized_index(const pare__quantized *q, const char *suffix,
                                               bool may_be_unset, pare__coded *c);

/* quantized_decode.c: what a description and its data do not promise: scales that are finite, codes
 * that are numbers, weights in F32, zero points on the grid, words without bits behind the last
 * field. PARE_EFORMAT. Data that a listing lacks are not looked at. */
PARE_CHECKED pare_status pare__coded_check(const pare__quantized *q, const pare__coded *c);

/* Its weights, f32 [n, k], [k, n] when `turned`. Threads over rows; exact. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__coded_floats(const pare__quantized *q, const pare__coded *c,
                                            bool turned, float *w);

/* Whether our kernels multiply it as it is: *out then describes it. The grid must be ours: columns
 * in order, groups of a multiple of 32, bits of our encodings, scales that F16 holds; of NVFP4, a
 * power of two beside the scales. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__coded_packs(const pare__quantized *q, const pare__coded *c,
                                           bool *packs, pare_packed_linear *out);

/* Such a linear in the order of the kernels, planes in ck->scratch: *t its bytes. Exact.
 * PARE_ENOMEM, and what the scratch says. */
PARE_CHECKED pare_status pare__coded_pack(const pare__quantized *q, const pare__coded *c,
                                          const pare_packed_linear *l, pare_tensor *t,
                                          const pare_linear **packed);

/* quantized_exl3.c: the same of trellis codes, which have no grid. Planes of `fill` are taken. */
PARE_CHECKED pare_status pare__trellis_check(const pare__quantized *q, const pare__coded *c);
PARE_CHECKED pare_status pare__trellis_floats(const pare__quantized *q, const pare__coded *c,
                                              bool turned, float *w);
bool pare__trellis_packs(const pare__quantized *q, const pare__coded *c, pare_packed_linear *out);
void pare__trellis_fill(const pare__coded *c, const pare_packed_planes *to);

#endif
