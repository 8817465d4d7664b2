/* recipes/param.h - parameter tables: one table validates recipes, prints help and holds defaults.
 */
#ifndef PARE_RECIPES_PARAM_H
#define PARE_RECIPES_PARAM_H

#include <stdbool.h>
#include <stddef.h>

typedef enum pare_param_type {
    PARE_PARAM_INTEGER, /* min .. max, a multiple of `multiple` when that is not 0 */
    PARE_PARAM_NUMBER,  /* min .. max */
    PARE_PARAM_BOOL,    /* true, false */
    PARE_PARAM_CHOICE,  /* one of `words` */
    PARE_PARAM_PATTERN  /* N:M with 1 <= N < M <= max, or one of `words` */
} pare_param_type;

/* Value of a pattern N:M, and its parts. */
#define PARE_PATTERN(n, m) ((n)*65536.0 + (m))
static inline unsigned pare_pattern_keep(double value)
{
    return (unsigned)value / 65536;
}
static inline unsigned pare_pattern_of(double value)
{
    return (unsigned)value % 65536;
}

/* A word that stands for a value: "row" for 0, "mse" for PARE_CLIP_MSE, "4" for 4. */
typedef struct pare_word {
    const char *text;
    double value;
} pare_word;

typedef struct pare_param {
    const char *name;
    pare_param_type type;
    double min, max;
    double fallback; /* the default */
    unsigned multiple;
    const pare_word *words; /* ends with a NULL text; for CHOICE, and extra words of others */
    const char *help;       /* one line */
    /* Counts only when the parameter `by` of the same table has one of the words in `when`, such as
     * "owl, isc or search"; NULL: always. */
    const char *by, *when;
} pare_param;

enum { PARE_PARAMS_MAX = 40 };

/* Number of entries of a table that ends with a NULL name. */
size_t pare_param_count(const pare_param *params);

/* Writes a value the way a recipe would (the word if one matches): "4", "row", "true", "0.01". */
void pare_param_print(const pare_param *p, double value, char *text, size_t size);

#endif
