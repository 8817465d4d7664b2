/* formats/checkpoint.h - a model on disk: a directory (Hugging Face layout or an artifact of ours)
 * or a single file of one of the kinds in container.c. Everything is checked here before any work:
 * every shard present and whole, index and headers agreeing both ways. Tensors are views of mapped
 * files. */
#ifndef PARE_FORMATS_CHECKPOINT_H
#define PARE_FORMATS_CHECKPOINT_H

#include "formats/json.h"
#include "formats/scratch.h"
#include "formats/tokenizer.h"
#include "runtime/file.h"
#include "runtime/model.h"
#include "runtime/watch.h"

/* How a tensor lies in its file, and what becomes of it. */
typedef struct pare_stored {
    const char *type; /* "Q4_K" */
    uint64_t bytes;
    uint64_t run_bytes; /* in memory when the model runs: as floats, in kernel order, or mapped */
    const pare_linear *packed; /* in kernel order, without name and bias; NULL: its data are what
                                  its dtype says */
    const char *inputs; /* how its program rounds what it is multiplied with: "x fp8 per token";
                           NULL: not at all, or not known */
    float input_scale;  /* of the one step for all of them; 0: none is fixed */
} pare_stored;

struct pare__container;

typedef struct pare_checkpoint {
    pare_ctx *cx;
    char *path, *directory;   /* as given; the directory that holds config.json */
    bool packed;              /* an artifact of ours: quantization_config.quant_method is "pare" */
    bool is_part;             /* the text part of a model of texts and images: config is its own */
    bool arranged;            /* set by a reader whose tensors are as runtime/arch.h has them */
    const pare_tensor *stack; /* [stacks] those that held all experts of a block, as the files have
                                 them; in `tensor` stand the `stacked` ones that they came apart
                                 into (formats/expert_stack.h) */
    size_t stacks, stacked;
    size_t unpacked;       /* linears that other programs quantized, as floats or to run */
    const char *quantized; /* which: "gptq: 120 x int4", or NULL */
    const char *unread;    /* why a listing shows quantized linears as their words, or NULL */
    bool nonfinite;        /* set by a caller that repairs NaN and Inf: loading lets them pass */
    pare_file *file;       /* weight files, sorted by name */
    size_t files;
    const struct pare_gguf *head; /* of several GGUF files, and of all together; else NULL */
    pare_tensor *tensor;          /* of all files, sorted by name */
    size_t tensors;
    uint32_t *tensor_file; /* [tensors] index into file */
    pare_file config_file; /* bytes 0 when a single file has no config.json beside it */
    pare_json *config;     /* NULL likewise */
    const struct pare__container *kind; /* of the weight files */
    bool listed;                        /* opened by pare_checkpoint_list */
    bool runs;                          /* opened by pare_checkpoint_open_to_run */
    const pare_stored *stored;          /* [tensors], or NULL: as their dtypes say */
    pare_watch watch;                   /* weight files, config.json and the index, as read */
    pare_scratch scratch;               /* tensors that could not be viewed in place */
    pare_json *index;                   /* packed.index.json or the index of shards, or NULL */
    const char *tokenizer; /* set by a caller whose user names one: a tokenizer.json or a folder
                              that holds a tokenizer; NULL: the model's own */
} pare_checkpoint;

/* Opens and checks. Release with pare_checkpoint_close in any case (also after an error).
 * PARE_ENOTFOUND, PARE_EFORMAT (missing or truncated shard, index and header disagree, a tensor in
 * two shards, ...), PARE_ENOTSUP (a version that this program does not know:
 * formats/format_version.h), PARE_EIO, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_checkpoint_open(pare_ctx *cx, pare_arena *a, const char *path,
                                              pare_checkpoint *ck);

/* The same for a model that is run and not compressed: linears of blocks that a GGUF file holds in
 * Q4_0, Q4_1, Q5_0, Q8_0, Q4_K or Q6_K, and those that another program quantized on a grid of ours
 * (formats/quantized_internal.h), are packed for the kernels instead of decoded, value for
 * value (formats/gguf_pack.c). Inputs of Q4_0 and Q8_0 are quantized to int8 per group, as those of
 * artifacts are; the others stay floats. Such a tensor is bytes, and pare_stored.packed the linear.
 */
PARE_CHECKED pare_status pare_checkpoint_open_to_run(pare_ctx *cx, pare_arena *a, const char *path,
                                                     pare_checkpoint *ck);

/* As pare_checkpoint_open, but tensors and names are those of the files, whatever the family does
 * with them. */
PARE_CHECKED pare_status pare_checkpoint_open_plain(pare_ctx *cx, pare_arena *a, const char *path,
                                                    pare_checkpoint *ck);

/* As pare_checkpoint_open, but weights are not converted: tensors that cannot be viewed in place
 * have data NULL, those that nothing here reads are bytes. For listings. */
PARE_CHECKED pare_status pare_checkpoint_list(pare_ctx *cx, pare_arena *a, const char *path,
                                              pare_checkpoint *ck);
void pare_checkpoint_close(pare_checkpoint *ck);

/* Tensor by name, NULL when there is none. */
const pare_tensor *pare_checkpoint_find(const pare_checkpoint *ck, const char *name);

/* How the weight of a linear lies in its file; NULL: as the dtype of its tensor says. */
const pare_stored *pare_checkpoint_stored(const pare_checkpoint *ck, const char *linear);

/* Whether weights were quantized before, and then with which types: "120 x Q4_K, 13 x Q6_K". Cut to
 * fit. */
bool pare_checkpoint_quantized(const pare_checkpoint *ck, char *text, size_t size);

/* The same for who compresses them: "the model is already quantized (133 x Q4_K): its errors stay
 * in it", in text [size]. Codes of codes lose twice. */
bool pare_checkpoint_quantized_text(const pare_checkpoint *ck, char *text, size_t size);

/* Files beside the weights that belong to a model, ended by NULL. */
extern const char *const pare_companions[];

/* Names of the texts beside a model that say what may be done with it; NULL behind the last. They
 * go along with it and nothing reads them. */
extern const char *const pare_licenses[];

/* A text that goes along with the weights (tokenizer.json, ...), of the file that stands beside
 * them or of what a container holds in its place, or of the tokenizer that ck->tokenizer names. Of
 * a container whose tokenizer is not supported, a tokenizer.json beside it is taken. *text is NULL
 * when there is none; it lies in the arena, NUL behind. PARE_EFORMAT above 256 MiB, PARE_ENOTSUP
 * for a tokenizer that cannot be written as a tokenizer.json, PARE_EIO, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_checkpoint_companion(const pare_checkpoint *ck, pare_arena *a,
                                                   const char *name, char **text, size_t *len);

/* Whether those that are there can be read: a job needs them last. PARE_ENOTFOUND for a link to a
 * file that is not there, PARE_EFORMAT for what is no file, may not be read, or is a pointer of Git
 * LFS, PARE_EIO, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_checkpoint_check_companions(const pare_checkpoint *ck, pare_arena *a);

/* Its tokenizer, as pare_tokenizer_open, and whether there is one; the same statuses, and those
 * above. */
PARE_CHECKED pare_status pare_checkpoint_has_tokenizer(const pare_checkpoint *ck, bool *has);
/* Memory that reading the tokenizer takes, parsed files and tables, by the size of its files; 0
 * without one. The same statuses. */
PARE_CHECKED pare_status pare_checkpoint_tokenizer_bytes(const pare_checkpoint *ck,
                                                         uint64_t *bytes);
PARE_CHECKED pare_status pare_checkpoint_tokenizer(const pare_checkpoint *ck, pare_tokenizer **out);

/* The tokenizer of the model at `path`, before a weight of it is unpacked; `named` is for
 * ck->tokenizer. The statuses of pare_checkpoint_list, and those above. */
PARE_CHECKED pare_status pare_checkpoint_tokenizer_of(pare_ctx *cx, const char *path,
                                                      const char *named, pare_tokenizer **out);

/* Of a model of texts and images (model_type gemma3, qwen3_5, qwen3_5_moe, llama4) *config becomes
 * that of its text part, a model of its own, and *part is true; other configurations stay.
 * PARE_EFORMAT and PARE_ENOTSUP with the field; PARE_ENOMEM. */
PARE_CHECKED pare_status pare_config_take_text(pare_ctx *cx, const char *name, pare_json **config,
                                               bool *part);

/* Reads config.json into a configuration. PARE_EFORMAT for a missing or wrong field (named),
 * PARE_ENOTSUP for an unknown family or an option the runtime does not compute (named). Bounds:
 * every size 1 .. 2^24, blocks <= 4096, heads a multiple of kv_heads, head_dim even, ... */
PARE_CHECKED pare_status pare_config_parse(pare_ctx *cx, const char *name, const pare_json *json,
                                           pare_config *out);

/* Warns of what such a file says and the model does not use: ids beyond its vocabulary, a window of
 * a family without windows. */
void pare_config_warn(pare_ctx *cx, const char *name, const pare_json *json, const pare_config *c);

/* Reads generation_config.json: the start and end tokens that it names take the place of those of
 * config.json, as in transformers. Warns of ids beyond the vocabulary. PARE_EFORMAT, with the
 * field. */
PARE_CHECKED pare_status pare_config_generation(pare_ctx *cx, const char *name,
                                                const pare_json *json, pare_config *config);

/* The same of the file beside a model, where there is one. `a` is scratch. PARE_EFORMAT,
 * PARE_ENOMEM, PARE_EIO. */
PARE_CHECKED pare_status pare_checkpoint_generation(const pare_checkpoint *ck, pare_arena *a,
                                                    pare_config *config);

/* Whether linears of this description have biases of their own in models with this config.json. */
bool pare_linear_has_bias(const pare_json *config, const pare_linear_desc *d);

/* Binds tensors to a model: shapes are checked against the configuration, small vectors copied as
 * F32 into the arena, large ones viewed (copied too where the file leaves them unaligned). Packed
 * linears (NAME.codes, .scales, .zeros, described by packed.index.json) become panels. Warns of
 * what it leaves out: tensors without a place, pare_config_warn. A head that differs from the
 * embedding it is tied to is used, with a warning: out->config.tied says how it is. PARE_EFORMAT:
 * missing tensor, wrong shape, wrong dtype, a tensor without a place that belongs to one that has
 * one (of an artifact or a GGUF file: any), NaN or Inf in a small vector (unless ck->nonfinite). */
PARE_CHECKED pare_status pare_model_load(pare_ctx *cx, pare_arena *a, const pare_checkpoint *ck,
                                         pare_model *out);

#endif
