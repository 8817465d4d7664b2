/* compress/text/text_out.h - a text that grows, and the file made of it. */
#ifndef PARE_COMPRESS_TEXT_TEXT_OUT_H
#define PARE_COMPRESS_TEXT_TEXT_OUT_H

#include "runtime/context.h"

/* Errors (memory) are sticky: writers need not look, pare__text_save does. */
typedef struct pare_text_out {
    pare_ctx *cx;
    char *text;
    size_t len, size;
    pare_status status;
} pare_text_out;

void pare__text_add(pare_text_out *t, const char *bytes, size_t len);
void pare__text_put(pare_text_out *t, const char *fmt, ...) PARE_PRINTF(2, 3);

/* Adds text from outside (names, paths, recipes) so that it stays text: */
void pare__text_put_html(pare_text_out *t, const char *text);
void pare__text_put_cell(pare_text_out *t, const char *text); /* of a Markdown table */
void pare__text_put_csv(pare_text_out *t, const char *text);

/* "37.50% +- 3.00", with `sign` for "+-"; without the error where it is not known: of one item. */
void pare__text_put_share(pare_text_out *t, double share, const char *sign, double error);

void pare__text_free(pare_text_out *t);

/* Writes the text to DIRECTORY/name and releases it, in any case. */
PARE_CHECKED pare_status pare__text_save(pare_text_out *t, const char *directory, const char *name);

#endif
