/* formats/checkpoint_internal.h - kinds of files that hold tensors, and the index of a sharded
 * checkpoint, without any file. */
#ifndef PARE_FORMATS_CHECKPOINT_INTERNAL_H
#define PARE_FORMATS_CHECKPOINT_INTERNAL_H

#include "formats/checkpoint.h"
#include "formats/json.h"
#include "runtime/arch.h"
#include "runtime/tensor.h"

/* One line of the weight_map. */
typedef struct pare__placed {
    const char *tensor;
    uint32_t file;
} pare__placed;

/* Borrows its texts from the JSON document it was read from. */
typedef struct pare__index {
    const char **file; /* [files] sorted, each once */
    size_t files;
    pare__placed *placed; /* [tensors] sorted by tensor */
    size_t tensors;
    int64_t total_size; /* metadata.total_size, -1 when absent */
} pare__index;

/* The tensors of one file, sorted by name. */
typedef struct pare__shard {
    const pare_tensor *tensor;
    const pare_stored *stored; /* [tensors] likewise, or NULL */
    size_t tensors;
} pare__shard;

/* Reads {"metadata": {...}, "weight_map": {tensor: file}}. A file is a plain name that ends in
 * `ending` (".safetensors"): an index must not lead out of its directory. `name` stands in
 * messages. PARE_EFORMAT, PARE_ENOMEM. */
PARE_CHECKED pare_status pare__index_parse(pare_ctx *cx, pare_arena *a, const char *name,
                                           const pare_json *json, const char *ending,
                                           pare__index *out);

/* Index and headers name the same tensors in the same files, and no tensor lies in two of them.
 *   shard  [index->files] in the order of index->file
 * PARE_EFORMAT with tensor and files, PARE_ENOMEM. */
PARE_CHECKED pare_status pare__index_check(pare_ctx *cx, const char *name, const pare__index *index,
                                           const pare__shard *shard);

enum { PARE__ENDINGS = 3 };

/* A kind of file that holds tensors: how it is recognized, and how it is read. */
typedef struct pare__container {
    const char *name;                  /* as messages and reports call it */
    const char *ending[PARE__ENDINGS]; /* of a file of this kind; NULL behind the last */
    const char *single;                /* name of the one file of a directory */
    const char *index, *shards; /* its index when there are several, and their pattern; or NULL */
    /* Whether a file begins like this, for one whose name says nothing. */
    bool (*knows)(const unsigned char *bytes, uint64_t len);
    /* Reads one mapped file, of ck->file when it is one of several, which are all mapped: its
     * tensors sorted by name, in the arena, as views of the file or of ck->scratch. PARE_EFORMAT or
     * PARE_ENOTSUP with file, tensor and numbers, PARE_ENOMEM, and what the scratch says. */
    pare_status (*read)(pare_checkpoint *ck, pare_arena *a, const pare_file *file,
                        pare__shard *out);
    /* Whether a directory may hold one such file of any name, and nothing else of weights. */
    bool alone;
    /* Of a kind whose models may lie in several files by their names, or NULL. The names of all
     * when `name` is one of several, which are checked to be parts of one model; else *out and
     * *count stay. PARE_EFORMAT for a part that is missing or another's, PARE_ENOMEM. */
    pare_status (*parts)(const pare_checkpoint *ck, pare_arena *a, const char *name,
                         const char *const **out, size_t *count);
    bool (*together)(const char *a, const char *b); /* two names of parts of one model */
    /* pare_checkpoint_companion for a container that holds such texts itself, or NULL. */
    pare_status (*companion)(const pare_checkpoint *ck, pare_arena *a, const char *name,
                             char **text, size_t *len);
    /* Holds the file against checksums that it carries itself; *checked is false when it has none.
     * NULL for what never has. PARE_EFORMAT, PARE_ENOMEM, PARE_EINTERRUPTED. */
    pare_status (*check)(const pare_checkpoint *ck, pare_arena *a, bool *checked);
} pare__container;

/* The containers, in the order in which a directory is searched for them; NULL behind the last. */
const pare__container *pare__container_at(size_t i);

/* The container of a file by the end of its name, else by its first bytes; NULL: none of them. */
const pare__container *pare__container_of(const pare_file *file);

/* Refuses a directory in which weights lie twice in one kind of file, kind->single and the shards
 * of an index: engines differ in which they take. An index without its shards is left over, and
 * passes. PARE_EFORMAT, and what reading a directory gives. */
PARE_CHECKED pare_status pare__checkpoint_refuse_two(const pare_checkpoint *ck,
                                                     const pare__container *kind);

/* Refuses a directory that holds an adapter (adapter_config.json): transformers adds it to the
 * weights beside it, others do not. `alone`: no weights are there. PARE_ENOTSUP, PARE_ENOMEM. */
PARE_CHECKED pare_status pare__checkpoint_refuse_adapter(const pare_checkpoint *ck, pare_arena *a,
                                                         bool alone);

/* Says why a directory has no weights where what lies there tells it: links to files that are not
 * there, a directory or a pipe under the name of a file, an adapter, shards without their index, a
 * cache of downloads. PARE_OK where nothing tells it. PARE_ENOTFOUND, PARE_EFORMAT, PARE_ENOTSUP,
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare__checkpoint_refuse_absent(const pare_checkpoint *ck, pare_arena *a);

/* The tensor of a name among tensors in the order of their names, or NULL. */
const pare_tensor *pare__find_tensor(const pare_tensor *tensor, size_t tensors, const char *name);

/* Takes from all names what torch.compile, DataParallel or peft put in front of them ("_orig_mod.",
 * "module.", ...), where every name has it, and from each what FSDP put anywhere into it
 * ("_fsdp_wrapped_module."). Not for an artifact, nor when ck->arranged is set. PARE_EFORMAT for a
 * name that is then there twice, PARE_ENOMEM. */
PARE_CHECKED pare_status pare__checkpoint_names(pare_checkpoint *ck, pare_arena *a);

/* PARE_EFORMAT for a tensor that is missing, with what tells why: one file of several, names with
 * another beginning, blocks with experts that the file has without or the other way round, all
 * experts in one tensor (PARE_ENOTSUP). */
PARE_CHECKED pare_status pare__checkpoint_fail_missing(const pare_checkpoint *ck,
                                                       const pare_arch *arch, const char *base,
                                                       const char *suffix);

/* Bytes of the name of several linears in one tensor that `rest`, a name inside a block, begins
 * with in front of a dot; 0: none. */
size_t pare__fused_stem(const pare_arch *arch, const char *rest);

/* The name that a tensor has in the files, in text [256]: for a part of several linears in one
 * tensor that of the whole. */
const char *pare__name_in_files(const pare_checkpoint *ck, const pare_arch *arch, const char *name,
                                char *text);

/* The flag of config.json that asks for a bias of such a linear, or says that there is none. */
const char *pare__config_bias_key(const pare_linear_desc *d);

/* The entry of config.json by which a model has this tensor or not, in text [128]:
 * ": attention_bias is false"; "" where none says so. */
const char *pare__config_entry(const pare_checkpoint *ck, const pare_arch *arch, const char *name,
                               char *text);

/* PARE_EFORMAT for a tensor of another shape than [rank] shape. */
PARE_CHECKED pare_status pare__checkpoint_fail_shape(const pare_checkpoint *ck,
                                                     const pare_tensor *t, size_t rank,
                                                     const uint64_t *shape);

/* Gives the tensors of a model the names and the order of rows that runtime/arch.h describes, when
 * the files hold them otherwise: several linears in one tensor, [in, out], names without their
 * prefix. Views where that is possible, else in ck->scratch. Nothing happens without a config.json
 * of a known family, for an artifact of ours, or when ck->arranged is set.
 * PARE_EFORMAT (a shape, a name twice), PARE_ENOMEM, and what the scratch says. */
PARE_CHECKED pare_status pare__checkpoint_arrange(pare_checkpoint *ck, pare_arena *a);

/* Gives the head the name of the embedding when both are one (tie_word_embeddings) and the files
 * have it under the name of the head alone. Names are as pare__checkpoint_arrange leaves them. Not
 * for an artifact, nor when ck->arranged is set. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__checkpoint_head(pare_checkpoint *ck, pare_arena *a);

/* What the model of a family with so many blocks does not use is left out with a warning, or
 * refused; used[i], of tensor i, becomes true for what stands beside the weights and changes
 * nothing. PARE_EFORMAT, PARE_ENOMEM. */
PARE_CHECKED pare_status pare__model_check_used(const pare_checkpoint *ck, pare_arena *scratch,
                                                const pare_arch *arch, size_t blocks, bool *used);

/* Puts behind a failure that config.json may have caused which sizes of a text_config it does not
 * say, with the defaults that stand for them. Returns `s`, or PARE_ENOMEM. */
pare_status pare__config_fail_usual(const pare_checkpoint *ck, pare_status s);

/* The name that a tensor of such a model has in a text model: without language_model. in it. NULL
 * when there is no memory. */
const char *pare__text_tensor(pare_arena *a, const char *name);

/* Whether pare__checkpoint_arrange has something to do, as far as names tell. */
bool pare__checkpoint_arranges(const pare_checkpoint *ck);

/* Linears that the program in quantization_config quantized become one tensor each: the floats that
 * they stand for or, when ck->runs and our kernels multiply them as they are, codes in the order of
 * the kernels (pare_stored.packed); in ck->scratch. Other tensors stay. Nothing happens for other
 * checkpoints. PARE_ENOTSUP (a setting that is not read, by its key), PARE_EFORMAT (a tensor that
 * is not what the settings say, a value that is none), PARE_ENOMEM, and what the scratch says. A
 * listing has the tensors of the files where settings are not read. */
PARE_CHECKED pare_status pare__quantized_read(pare_checkpoint *ck, pare_arena *a);

/* Tensors of F64 and of floats of 8 bits become F32, in ck->scratch; nothing happens for an
 * artifact of ours. PARE_EFORMAT, PARE_ENOMEM, PARE_EINTERRUPTED, and what the scratch says. */
PARE_CHECKED pare_status pare__plain_floats(pare_checkpoint *ck, pare_arena *a);

/* How a file says what linears that are trained to be ternary stand for. */
typedef enum pare__ternary_kind {
    PARE__TERNARY_SCALED,  /* codes or floats times weight_scale */
    PARE__TERNARY_DIVIDED, /* divided by it */
    PARE__TERNARY_ONLINE   /* master weights that are rounded whenever they are used */
} pare__ternary_kind;

/* The [n, k] floats that the weight tensor of such a linear stands for, in ck->scratch; `scale` is
 * its weight_scale or NULL. PARE_EFORMAT (shape, scale, code, dtype), and what the scratch says. */
PARE_CHECKED pare_status pare__ternary_take(pare_checkpoint *ck, const pare_tensor *t,
                                            const pare_tensor *scale, pare__ternary_kind kind,
                                            size_t n, size_t k, pare_tensor *out);

#endif
