/* recipes/recipe_internal.h - what the files of the recipe parser share: the walk over the tree and
 * its typed getters. Every getter fails with the place of the node and says what it takes. */
#ifndef PARE_RECIPES_RECIPE_INTERNAL_H
#define PARE_RECIPES_RECIPE_INTERNAL_H

#include "recipes/train_recipe.h"
#include "recipes/yaml.h"

typedef struct pare__walk {
    pare_ctx *cx;
    pare_arena *a;
    const pare_pass_words *passes;
    size_t pass_count;
    pare_recipe *out;
} pare__walk;

enum { PARE__QUOTE = 96, PARE__LIST = 512, PARE__NUMBER = 40, PARE__WORD = 64 };

/* Text in double quotes, control characters escaped, cut at 64 bytes; returns out. */
const char *pare__quote(char out[PARE__QUOTE], const char *text);

bool pare__is_utf8(const char *text);

/* "a, b, c", cut with "..." when it does not fit; returns out. */
const char *pare__list(char out[PARE__LIST], const char *const *words, size_t count);

/* Fails with "what; did you mean "w"?" or, when no word is near, "what; known: w, w". */
pare_status pare__fail_word(const pare__walk *w, pare_place place, const char *what,
                            const char *text, const char *const *words, size_t count);

/* Every key of the mapping is one of `words`; `where` names the mapping in the message, which lists
 * the first `listed` of them. */
PARE_CHECKED pare_status pare__keys(const pare__walk *w, const pare_yaml *mapping,
                                    const char *where, const char *const *words, size_t count);
PARE_CHECKED pare_status pare__keys_listed(const pare__walk *w, const pare_yaml *mapping,
                                           const char *where, const char *const *words,
                                           size_t count, size_t listed);

/* Fails with ""key" is VALUE; it takes TAKES". */
pare_status pare__fail_takes(const pare__walk *w, const pare_yaml *node, const char *takes);

/* `node` is a mapping, or null, which is taken for an empty one. */
PARE_CHECKED pare_status pare__mapping(const pare__walk *w, const pare_yaml *node,
                                       const char *name);

/* A text that is not empty; a text or a list of them. */
PARE_CHECKED pare_status pare__text(const pare__walk *w, const pare_yaml *node, pare_text *out);
PARE_CHECKED pare_status pare__texts(const pare__walk *w, const pare_yaml *node, pare_texts *out);

/* The patterns of linears of an entry that may be there; a bad one is refused with its place. */
PARE_CHECKED pare_status pare__patterns(const pare__walk *w, const pare_yaml *mapping,
                                        const char *name, pare_texts *out);

/* A value as its table entry wants it. */
PARE_CHECKED pare_status pare__value(const pare__walk *w, const pare_yaml *node,
                                     const pare_param *p, double *out);

/* The entry p->name of a mapping, or the default; *given and *place may be NULL. */
PARE_CHECKED pare_status pare__entry(const pare__walk *w, const pare_yaml *mapping,
                                     const pare_param *p, double *out, bool *given,
                                     pare_place *place);

/* Digits only, no leading zero, no overflow. */
bool pare__u64(const char *text, uint64_t *out);

/* A decimal number: -12, 0.5, 1e-3. At most 15 digits and exponents -22 .. 22, so that the
 * conversion is exact up to one rounding and does not depend on the locale. `whole`: only digits,
 * or with an exponent what comes to a whole number (1e6, 1.5e3). */
typedef enum pare__decimal {
    PARE__DECIMAL,
    PARE__DECIMAL_NOT,
    PARE__DECIMAL_LONG,
    PARE__DECIMAL_WORD /* of pare__param_read: a word or a pattern, which may stand in quotes */
} pare__decimal;
pare__decimal pare__number(const char *text, bool whole, double *out);

/* The value of a parameter; DECIMAL_NOT for one that it does not take. */
pare__decimal pare__param_read(const pare_param *p, const char *text, double *out);

/* True for a parameter params[i] that another one leaves without effect, which has the word `by`.
 */
bool pare__param_idle(const pare_param *params, const double *value, size_t i, char by[PARE__WORD]);

/* The words that a parameter takes; returns their number. */
size_t pare__param_words(const pare_param *p, const char *words[PARE_PARAMS_MAX]);

/* What a text that the parameter does not take was meant to be, in quotes unless it is a number;
 * false when that is not clear. */
enum { PARE__HINT = 128 };
bool pare__hint(const pare_param *p, const char *text, char out[PARE__HINT]);

/* Shortest text that reads back as the same number. */
void pare__number_print(double value, char out[PARE__NUMBER]);

/* A regular expression; `text` is borrowed. PARE_EUSAGE with the reason, PARE_ENOMEM. */
typedef struct pare__expression pare__expression;
PARE_CHECKED pare_status pare__expression_new(pare_ctx *cx, pare_arena *a, const char *text,
                                              pare__expression **out);
/* Whether the beginning of the name matches. PARE_EUSAGE: it takes too many steps, or the name is
 * not valid UTF-8; PARE_ENOMEM. */
PARE_CHECKED pare_status pare__expression_matches(pare_ctx *cx, const pare__expression *e,
                                                  const char *name, bool *hit);

/* The value of "passes", "evaluate", "export", "calibration", "kv_cache", ... into w->out. */
PARE_CHECKED pare_status pare__steps(const pare__walk *w, const pare_yaml *list);

/* A step for a table: one pass, without targets and skip. */
PARE_CHECKED pare_status pare__table(const pare__walk *w, const pare_yaml *node, pare_table table);
PARE_CHECKED pare_status pare__evaluations(const pare__walk *w, const pare_yaml *list);

/* The mappings behind "needle" and "continuations". */
#define PARE__NEEDLE_EXAMPLE "needle: {text: FILE}"
PARE_CHECKED pare_status pare__read_needle(const pare__walk *w, const pare_yaml *mapping,
                                           const pare_yaml *key, pare_evaluation *out);
PARE_CHECKED pare_status pare__read_continuations(const pare__walk *w, const pare_yaml *mapping,
                                                  const pare_yaml *key, pare_evaluation *out);
PARE_CHECKED pare_status pare__exports(const pare__walk *w, const pare_yaml *list);
PARE_CHECKED pare_status pare__calibration(const pare__walk *w, const pare_yaml *node);
PARE_CHECKED pare_status pare__kv_cache(const pare__walk *w, const pare_yaml *node);
PARE_CHECKED pare_status pare__require(const pare__walk *w, const pare_yaml *node);
PARE_CHECKED pare_status pare__fallback(const pare__walk *w, const pare_yaml *list);

/* The one key of a mapping, and its node, out of some of which one must be there. */
PARE_CHECKED pare_status pare__one_source(const pare__walk *w, const pare_yaml *mapping,
                                          pare_place place, const char *where,
                                          const char *const *words, size_t count,
                                          const pare_yaml **source);

/* The text of a recipe as a tree, a mapping, changed by the sets; fills what w->out has by default.
 */
PARE_CHECKED pare_status pare__open(const pare__walk *w, const pare_recipe_source *source,
                                    pare_yaml **out);

/* A recipe, of the file `file`, out of such a tree. */
PARE_CHECKED pare_status pare__read_tree(const pare__walk *w, const char *file,
                                         const pare_yaml *root);

/* The key "pare"; model, output, tokenizer, seed and limits into w->out, as far as they are there.
 */
PARE_CHECKED pare_status pare__version(const pare__walk *w, const pare_yaml *root);
PARE_CHECKED pare_status pare__common_keys(const pare__walk *w, const pare_yaml *root);

/* What stands at a path of the tree [len bytes], keys and indices of lists joined by dots, becomes
 * *value; keys that are not there are added. `place` is told of a path that leads nowhere. */
PARE_CHECKED pare_status pare__put(const pare__walk *w, pare_yaml *root, pare_place place,
                                   const char *path, size_t len, const pare_yaml *value);

/* Applies "path=value" to the tree. */
PARE_CHECKED pare_status pare__set(const pare__walk *w, pare_yaml *root, const char *set);

/* The key "lora" of a training, where it is there, and what it excludes. */
PARE_CHECKED pare_status pare__lora(const pare__walk *w, const pare_yaml *root,
                                    pare_train_recipe *out);

extern const pare_word pare__all_words[];
extern const pare_param pare__samples, pare__window, pare__temperature, pare__weight, pare__nan;

#endif
