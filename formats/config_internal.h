/* formats/config_internal.h - what the files that read config.json share. */
#ifndef PARE_FORMATS_CONFIG_INTERNAL_H
#define PARE_FORMATS_CONFIG_INTERNAL_H

#include "formats/checkpoint.h"

enum { PARE__CONFIG_SIZE_MAX = 1 << 24 };

/* The file being read; passed along so that every message names it. */
typedef struct pare__config_file {
    pare_ctx *cx;
    const char *name;
    const pare_json *json;
} pare__config_file;

/* null counts as absent. */
static inline bool pare__config_absent(const pare_json *v)
{
    const pare_json_type t = pare_json_type_of(v);
    return t == PARE_JSON_ABSENT || t == PARE_JSON_NULL;
}

/* A whole number from 1 to max. PARE_EFORMAT, _or: not where the key is absent. */
PARE_CHECKED pare_status pare__config_size(const pare__config_file *f, const char *key, size_t max,
                                           size_t *out);
PARE_CHECKED pare_status pare__config_size_or(const pare__config_file *f, const char *key,
                                              size_t max, size_t fallback, size_t *out);

/* True or false. PARE_EFORMAT. */
PARE_CHECKED pare_status pare__config_flag(const pare__config_file *f, const char *key,
                                           bool fallback, bool *out);

/* A finite number above zero; *out stays when the key is absent. PARE_EFORMAT. */
PARE_CHECKED pare_status pare__config_positive(const pare__config_file *f, const pare_json *object,
                                               const char *key, double *out);

/* Refuses other numbers of a clamped SwiGLU than it is computed with, and another activation than
 * its SiLU (NULL: config.json names none). PARE_ENOTSUP, PARE_EFORMAT. */
PARE_CHECKED pare_status pare__config_clamped(const pare__config_file *f, const char *act);

/* PARE_EFORMAT where nothing describes the scaling of positions. */
PARE_CHECKED pare_status pare__config_needs_scaling(const pare__config_file *f);

/* What pare does not compute of a family that is known by name only; NULL for other names. */
const char *pare__config_missing(const char *model_type);

/* Refuses another share of the channels of a head that turn than all of them. PARE_ENOTSUP. */
PARE_CHECKED pare_status pare__config_all_turn(const pare__config_file *f, const pare_config *c,
                                               double share);

/* What the object `key` of the file says of the scaling of positions, of a type that it names; *r
 * has theta and rotary. As pare__config_rope. */
PARE_CHECKED pare_status pare__config_scaling(const pare__config_file *f, const char *key,
                                              const char *type, const pare_config *c, pare_rope *r);

/* Warns of positions that are computed as the file says and that it can hardly mean: a stretch
 * below 1, more positions before they were stretched than there are now. */
void pare__config_scaling_warn(const pare__config_file *f, const pare_config *c);

/* Windows of a configuration that has its sizes. PARE_EFORMAT, PARE_ENOTSUP. */
PARE_CHECKED pare_status pare__config_window(const pare__config_file *f, pare_config *c);

/* c->rope of a configuration that has its sizes. PARE_EFORMAT for a setting that is missing, wrong
 * or said twice in different ways, PARE_ENOTSUP for what the runtime does not compute. */
PARE_CHECKED pare_status pare__config_rope(const pare__config_file *f, pare_config *c);

/* c->arch becomes its plain form where the file says so. PARE_EFORMAT. */
PARE_CHECKED pare_status pare__config_plain(const pare__config_file *f, pare_config *c);

/* Latent attention: the widths of a configuration that has its heads; the scale of scores of one
 * that has its positions. PARE_EFORMAT, PARE_ENOTSUP for what the runtime does not compute. */
PARE_CHECKED pare_status pare__config_latent(const pare__config_file *f, pare_config *c);
PARE_CHECKED pare_status pare__config_latent_scale(const pare__config_file *f, pare_config *c);

/* How experts in groups are picked, and the first blocks, which have none; of a configuration that
 * has the sizes of its experts. As pare__config_latent. */
PARE_CHECKED pare_status pare__config_router(const pare__config_file *f, pare_config *c);

/* The widths of the MLPs of blocks with and without experts, where c->intermediate is that of the
 * latter and c->dense names them. */
void pare__config_dense(pare_config *c, size_t shared);

/* The blocks that the list `key` names, if it is there: named[block] becomes true. PARE_EFORMAT for
 * an item that is no block of the model. */
PARE_CHECKED pare_status pare__config_blocks(const pare__config_file *f, const char *key,
                                             const pare_config *c, bool *named);

/* Attention in chunks and what comes with it, of a configuration that has its positions; blocks
 * without experts, of one that has the sizes of its experts. Nothing for other families.
 * PARE_EFORMAT, PARE_ENOTSUP. */
PARE_CHECKED pare_status pare__config_chunks(const pare__config_file *f, pare_config *c);
PARE_CHECKED pare_status pare__config_interleaved(const pare__config_file *f, pare_config *c);

/* Which blocks have a recurrent state, and its sizes, of a configuration that has its activation
 * and blocks. PARE_EFORMAT, PARE_ENOTSUP. */
PARE_CHECKED pare_status pare__config_recurrent(const pare__config_file *f, pare_config *c);

/* What multiplies embedding, scores, halves and logits, of a configuration that has its epsilon.
 * PARE_EFORMAT, PARE_ENOTSUP for factors that do not fit F32. */
PARE_CHECKED pare_status pare__config_multipliers(const pare__config_file *f, pare_config *c);

#endif
