/* distill/aware_internal.h - parts of aware.c: EXL3, whose rows and columns have multipliers. */
#ifndef PARE_DISTILL_AWARE_INTERNAL_H
#define PARE_DISTILL_AWARE_INTERNAL_H

#include "distill/aware.h"

/* As it is stored: an F16 of either sign. */
float pare__aware_stored(float step);

/* EXL3: pare_aware_begin, pare_aware_round, pare_aware_gradient. */
void pare__aware_multiply_begin(pare_aware *t);
void pare__aware_multiply(const pare_ctx *cx, pare_aware *t);
void pare__aware_multiply_back(const pare_ctx *cx, pare_aware *t);

#endif
