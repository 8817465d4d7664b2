/* formats/gguf_internal.h - a GGUF file as a model: families, names, words of its configuration. */
#ifndef PARE_FORMATS_GGUF_INTERNAL_H
#define PARE_FORMATS_GGUF_INTERNAL_H

#include "formats/checkpoint_internal.h"
#include "formats/gguf.h"

/* How a tensor differs from those of the original checkpoint as runtime/arch.h has them. Pairs:
 * channels that turn together lie side by side in each head of q and k, there they are half a head
 * apart. */
typedef enum pare__gguf_form {
    PARE__GGUF_SAME,
    PARE__GGUF_PAIRS_Q,
    PARE__GGUF_PAIRS_K,
    PARE__GGUF_QKV,      /* rows of q, then k, then v; there they are tensors of their own */
    PARE__GGUF_GATE_UP,  /* likewise */
    PARE__GGUF_PLUS_ONE, /* norms hold what is multiplied with */
    PARE__GGUF_F32,      /* a matrix that is always in F32 */
    PARE__GGUF_BARE,     /* a vector; there its name ends without ".weight" */
    PARE__GGUF_ROW,      /* a vector; there it is a matrix of one row */
    PARE__GGUF_EXPERTS /* one matrix or bias of each expert; there they are tensors of their own */
} pare__gguf_form;

/* Names without ".weight" or ".bias"; those of a block behind its prefix, with a %zu for the number
 * of an expert. */
typedef struct pare__gguf_name {
    const char *gguf, *original; /* NULL: the end of the list */
    pare__gguf_form form;
} pare__gguf_name;

/* A key of the metadata behind "ARCH." and the word of config.json for it. */
typedef enum pare__gguf_sort { PARE__GGUF_WHOLE, PARE__GGUF_REAL, PARE__GGUF_FLAG } pare__gguf_sort;
typedef struct pare__gguf_word {
    const char *key, *word; /* NULL: the end of the list */
    pare__gguf_sort sort;
    bool needed;
} pare__gguf_word;

/* What is special about files of a family. */
enum {
    PARE__GGUF_ROTARY = 1,     /* heads turn */
    PARE__GGUF_HEAD = 2,       /* readers want an output of its own, tied or not */
    PARE__GGUF_SQUARE = 4,     /* readers take the heads for as wide as the stream */
    PARE__GGUF_KEY_LENGTH = 8, /* the width of a head is always given */
    PARE__GGUF_ACT = 16, /* read from hidden_activation, `act` where that is missing; readers may
                          know no other */
    PARE__GGUF_QKV_BIAS = 32,    /* q, k and v must have biases */
    PARE__GGUF_TIED = 64,        /* readers take the embedding for the output */
    PARE__GGUF_MIXTURE = 128,    /* of experts: told from another family by expert_count */
    PARE__GGUF_NO_WINDOW = 512,  /* readers let every token see all before it */
    PARE__GGUF_NO_O_BIAS = 1024, /* o has none */
    PARE__GGUF_WINDOW = 2048,    /* a window is always given, 0 for none: some readers guess one */
    PARE__GGUF_LOCAL = 8192,     /* the file says which blocks have the window, and these turn by a
                                    base of their own, unscaled */
    PARE__GGUF_DIVISORS = 4096,  /* readers take divisors of frequencies, rope_freqs.weight */
    PARE__GGUF_FACTORS = 16384,  /* and two sets of them, pare__gguf_factors */
    PARE__GGUF_NO_BIAS = 32768,  /* no linear has one */
    PARE__GGUF_UNEVEN = 65536,   /* MLPs of the blocks may differ in width */
    PARE__GGUF_MLP_SCALE = 131072, /* readers multiply products of the MLP and of experts with the
                                      number beside NVFP4, as all readers do in attention */
    PARE__GGUF_EXPERT_NORM = 256   /* weights of the experts of a token sum to 1, where models may
                                      say otherwise */
};

typedef struct pare__gguf_family {
    const char *arch, *model_type, *architecture; /* general.architecture; config.json */
    const char *prefix;                           /* of a block: one %zu */
    const pare__gguf_name *global, *block;
    const pare__gguf_word *words;
    const char *act_word, *act;
    const char *rotary_word; /* share of a head that turns; NULL: all of it, or none turns */
    unsigned how;
} pare__gguf_family;

/* Models of `plain` with a window go by another name, and are written as files of it. */
typedef struct pare__gguf_windowed {
    const char *plain, *model_type, *architecture; /* of config.json */
} pare__gguf_windowed;
const pare__gguf_windowed *pare__gguf_windowed_of(const pare__gguf_family *f); /* or NULL */

/* NULL when the file's architecture is none that is known. */
const pare__gguf_family *pare__gguf_family_of(const pare_gguf *g);

enum { PARE__GGUF_NAME = 128 };

/* The name in the original checkpoint without ".weight" or ".bias", which *suffix then is; false
 * when the family has none such. */
bool pare__gguf_rename(const pare__gguf_family *f, const char *name, char out[PARE__GGUF_NAME],
                       const char **suffix, pare__gguf_form *form);

/* The way back: the family that such models are written as, NULL when there is none; and where a
 * tensor of the original, `name` without its suffix, goes. */
typedef struct pare__gguf_place {
    char name[64];
    pare__gguf_form form;
    size_t order; /* of the tensors of a file: by block, as the family lists them */
} pare__gguf_place;
const pare__gguf_family *pare__gguf_family_for(const pare_config *c);
bool pare__gguf_unname(const pare__gguf_family *f, const char *name, const char *suffix,
                       pare__gguf_place *out);

/* A pre-tokenizer of byte-level BPE: the names that tokenizer.ggml.pre has for it, a space between
 * two, and its expressions, each of which cuts the pieces of the one before it. */
enum { PARE__GGUF_CUTS = 6 };
enum {
    PARE__PRE_WHOLE = 1, /* a word that is a token is taken whole, whatever the merges say */
    PARE__PRE_BOS = 2,   /* a text starts with BOS where the file does not say */
    PARE__PRE_CLEAN = 4, /* decoding takes out the space in front of a sign */
    PARE__PRE_NFC = 8,   /* the models' own tokenizer.json composes the text first */
    PARE__PRE_READ = 16  /* for reading only: an older name stands for the same ids */
};
typedef struct pare__gguf_pre {
    const char *names, *cut[PARE__GGUF_CUTS];
    unsigned how;
    const char *refused; /* what is not supported about it, or NULL */
} pare__gguf_pre;

/* The rows of the table; NULL behind the last. The row of a name; NULL without one. */
const pare__gguf_pre *pare__gguf_pre_at(size_t i);
const pare__gguf_pre *pare__gguf_pre_named(const char *name, size_t len);
size_t pare__gguf_pre_first(const pare__gguf_pre *p); /* length of the first name */

/* Members "normalizer" and "pre_tokenizer" of a tokenizer.json; a ByteLevel as a member or, without
 * a key, an element. */
void pare__gguf_put_pre(pare_json_writer *w, const pare__gguf_pre *p);
void pare__gguf_put_bytes(pare_json_writer *w, const char *key, bool regex);

/* export_gguf_pre.c: the row by whose rules a set of texts has the ids that `t` gives it, with the
 * same words before the same ids only. PARE_ENOTSUP without one: `name`, and the text on which the
 * nearest row differs. */
PARE_CHECKED pare_status pare__gguf_pre_choose(pare_ctx *cx, const char *name,
                                               const pare_tokenizer *t, const pare__gguf_pre **out);

/* Values under "ARCH.KEY". Missing or of another kind: false, and *out stays. */
bool pare__gguf_integer(const pare_gguf *g, const char *key, int64_t *out);
bool pare__gguf_number(const pare_gguf *g, const char *key, double *out);

/* Sizes of a file, as far as it has them, else 0. */
typedef struct pare__gguf_shape {
    int64_t blocks, width, turned; /* width: of a head; turned: channels of it */
    double theta, factor;          /* factor: of the scaling of positions */
    bool window;
    pare_rope_kind scaling; /* pare__gguf_scaling_kind */
} pare__gguf_shape;

/* The shortest decimal number that is the same float: 1e-5, not what F32 makes of it. */
double pare__gguf_shortest(double x);

/* Tensors of the divisors of LongRoPE: for short sequences, for long ones. */
extern const char *const pare__gguf_factors[2];

/* YARN, LONGROPE, or LINEAR for anything else. */
pare_rope_kind pare__gguf_scaling_kind(const pare_gguf *g, const pare__gguf_family *f);

/* Turns between which llama.cpp mixes frequencies of YaRN: it does not read the keys for others in
 * the architectures here. */
enum { PARE__GGUF_BETA_FAST = 32, PARE__GGUF_BETA_SLOW = 1 };

/* What llama.cpp multiplies cosines and sines with for YaRN, beside the key attn_factor. */
double pare__gguf_yarn_attention(double factor);

/* Writes the member rope_scaling for those two; *is: it is one of them. PARE_EFORMAT, PARE_ENOTSUP.
 */
PARE_CHECKED pare_status pare__gguf_scaling(pare_ctx *cx, const char *name, const pare_gguf *g,
                                            const pare__gguf_family *f, pare_json_writer *w,
                                            bool *is);

/* The keys of the architecture of the file that no word of config.json stands for. PARE_ENOTSUP for
 * one that changes what the model computes, or may; PARE_EFORMAT for one of the wrong kind. */
PARE_CHECKED pare_status pare__gguf_settings(pare_ctx *cx, const char *name, const pare_gguf *g,
                                             const pare__gguf_family *f, const pare__gguf_shape *s);

/* The metadata as config.json; of a family that is not known the name of its architecture alone.
 * `name` is the file. PARE_EFORMAT for missing or wrong values, PARE_ENOTSUP for what the words
 * cannot say; PARE_ENOMEM. Free *doc with pare_json_free. */
PARE_CHECKED pare_status pare__gguf_config(pare_ctx *cx, const char *name, const pare_gguf *g,
                                           pare_json **doc);

/* The tokenizer of the file as tokenizer.json, or with `settings` as tokenizer_config.json. *text
 * is NULL when the file has none; it lies in the arena. PARE_ENOTSUP for a kind of tokenizer that
 * is not known. */
PARE_CHECKED pare_status pare__gguf_tokenizer(pare_ctx *cx, pare_arena *a, const char *name,
                                              const pare_gguf *g, bool settings, char **text,
                                              size_t *len);

/* A token with its id, and the post_processor of a tokenizer.json that puts them around a text;
 * text NULL: none there. */
typedef struct pare__gguf_named {
    const char *text;
    int64_t id;
} pare__gguf_named;
void pare__gguf_put_template(pare_json_writer *w, pare__gguf_named front, pare__gguf_named behind);

/* Bytes of a matrix in the order of the kernels; 0 where none multiplies its blocks. */
uint64_t pare__gguf_packed_bytes(const pare_gguf_tensor *t);

/* Packs such a matrix into ck->scratch: *packed is the linear, *out the bytes of its planes. Of
 * `heads` heads in pairs rows go back to halves of heads, 0 leaves them in their order.
 * PARE_EFORMAT, PARE_ENOMEM, and what the scratch says. Threads over blocks of rows; exact. */
PARE_CHECKED pare_status pare__gguf_pack(pare_checkpoint *ck, pare_arena *a,
                                         const pare_gguf_tensor *t, uint64_t heads,
                                         pare_tensor *out, const pare_linear **packed);

/* gguf_split.c: whether a name is that of one of several parts. */
bool pare__gguf_is_part(const char *name);

/* Parses each of several files, once: *out is [files + 1], the last with the values of the first
 * and the tensors of all, sorted by name. */
PARE_CHECKED pare_status pare__gguf_heads(pare_ctx *cx, pare_arena *a, const pare_file *file,
                                          size_t files, const pare_gguf **out);

/* pare__container.parts, .together, .read, .companion and .check. */
PARE_CHECKED pare_status pare__gguf_parts(const pare_checkpoint *ck, pare_arena *a,
                                          const char *name, const char *const **out, size_t *count);
bool pare__gguf_together(const char *a, const char *b);
PARE_CHECKED pare_status pare__gguf_read(pare_checkpoint *ck, pare_arena *a, const pare_file *file,
                                         pare__shard *out);
PARE_CHECKED pare_status pare__gguf_companion(const pare_checkpoint *ck, pare_arena *a,
                                              const char *name, char **text, size_t *len);
PARE_CHECKED pare_status pare__gguf_check(const pare_checkpoint *ck, pare_arena *a, bool *checked);

#endif
