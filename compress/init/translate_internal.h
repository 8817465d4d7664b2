/* compress/init/translate_internal.h - a recipe of llm-compressor while it is translated. */
#ifndef PARE_COMPRESS_TRANSLATE_INTERNAL_H
#define PARE_COMPRESS_TRANSLATE_INTERNAL_H

#include "compress/init/init_internal.h"
#include "compress/passes/pass.h"
#include "recipes/pattern.h"

/* Who works on a linear; modifier NULL: nobody. */
typedef struct pare__taker {
    const char *modifier;
    size_t line; /* of the other recipe */
} pare__taker;

/* A tensor of the files that pare has under other names. They are without language_model. */
typedef struct pare__stored_name {
    const char *whole, *module; /* without ".weight"; without the last word */
    const char *part;           /* the first linear of pare in that module, or NULL */
    bool kept;                  /* no part, but other matrices of pare, which keep their type */
} pare__stored_name;

/* Errors are sticky, as those of texts: `status`. */
typedef struct pare__translation {
    pare__draft draft;
    const char *modifier; /* that is translated now */
    pare_status status;
    pare_init_left *left;
    size_t lefts, room;
    size_t passes;                   /* written so far */
    const pare_yaml *ignore;         /* of the first modifier that quantizes, or NULL */
    bool cached;                     /* a kv_cache stands in the recipe */
    pare__taker *quantizer, *pruner; /* [slots of the draft]; NULL: of none yet */
    pare__stored_name *stored;       /* [storeds] */
    size_t storeds;
    const char **known; /* [knowns] every tensor of the files, as they and as pare name it */
    size_t knowns;
} pare__translation;

/* Lists a node as left out. */
void pare__leave(pare__translation *t, const pare_yaml *node, const char *why);
/* Lists a node that needs no counterpart, because what it asks for is always so. */
void pare__imply(pare__translation *t, const pare_yaml *node, const char *why);
/* The same for a name to be ignored that is nowhere in the model: it may be misspelt. */
void pare__doubt(pare__translation *t, const pare_yaml *node, const char *why);

/* Reads t->stored and t->known. The statuses of pare_checkpoint_open_plain. */
PARE_CHECKED pare_status pare__names_read(pare__translation *t);

/* `text`, a name or an expression, without language_model. ; NULL: no memory. */
char *pare__name_in_text(pare_arena *a, const char *text);

/* What a pattern of the other tool means by our names and by those of the files. */
typedef struct pare__named {
    bool *linear; /* [slots of the draft] */
    bool head, router, kept;
    const pare__stored_name *stored; /* the first that it matches, or NULL */
    const pare__stored_name *lost;   /* one whose linears nothing tells, or NULL */
} pare__named;
PARE_CHECKED pare_status pare__names_match(const pare__translation *t, const pare_pattern *p,
                                           pare__named *out);
/* *known: the pattern matches a tensor of the files, or a module that one lies in. */
PARE_CHECKED pare_status pare__names_known(const pare__translation *t, const pare_pattern *p,
                                           bool *known);

/* Patterns over the linears of this model. */
typedef struct pare__patterns {
    const char **text; /* as our recipes write them */
    size_t count;
    bool all;  /* of targets: every linear of the blocks */
    bool head; /* the head is among them, beside linears of the blocks or to be ignored */
} pare__patterns;

/* Reads "targets" or "ignore" (`skip`): a text or a list; nothing for NULL. What selects nothing
 * here is dropped and listed. */
void pare__patterns_read(pare__translation *t, const pare_yaml *list, bool skip,
                         pare__patterns *out);
void pare__patterns_join(pare__translation *t, pare__patterns *to, const pare__patterns *from);

/* Lists `node` where the head is among targets and not among `skip`: it cannot be quantized. */
void pare__patterns_leave_head(pare__translation *t, const pare_yaml *node,
                               const pare__patterns *targets, const pare__patterns *skip);

/* A pass while its parameters are gathered. */
typedef struct pare__item {
    const pare_pass *pass;
    char text[512]; /* "bits: 4, group: 128" */
    size_t len;
    char why[512]; /* lines of comment above the pass */
} pare__item;

/* Adds a parameter. A value that the pass does not take is listed as `node`. */
void pare__item_set(pare__translation *t, pare__item *item, const pare_yaml *node, const char *name,
                    double value);

/* The same with the number that a node says, which is listed if it is none; nothing for NULL. */
void pare__item_set_number(pare__translation *t, pare__item *item, const pare_yaml *node,
                           const char *name);
/* Adds "name: value" as it is. */
void pare__item_add(pare__item *item, const char *text);

/* The number that a node says; false for anything else. */
bool pare__node_number(const pare_yaml *node, double *out);
bool pare__node_is(const pare_yaml *node, const char *word);

/* Writes the pass into the recipe, unless targets leave nothing; `node` is what it comes from. A
 * linear that another pass quantizes or prunes already is a failure: t->status. */
void pare__item_put(pare__translation *t, const pare_yaml *node, const pare__item *item,
                    const pare__patterns *targets, const pare__patterns *skip);

/* Says where groups of so many weights leave a shorter one: it runs here, and engines refuse it. */
void pare__item_put_short(pare__translation *t, size_t group);

/* The passes of a modifier that quantizes: by GPTQ or to nearest. */
void pare__translate_quantizer(pare__translation *t, const pare_yaml *modifier, bool gptq);
/* What those of them that round to integers take together; `skip` gets what the others take. */
void pare__quantizer_targets(pare__translation *t, const pare_yaml *modifier, pare__patterns *out,
                             pare__patterns *skip);

#endif
