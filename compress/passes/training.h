/* compress/passes/training.h - the settings of a training, which the pass distill and recipes of
 * "pare train" share. */
#ifndef PARE_COMPRESS_PASSES_TRAINING_H
#define PARE_COMPRESS_PASSES_TRAINING_H

#include "distill/train.h"
#include "recipes/param.h"

/* The parameters of a training that is no pass, ended by a NULL name: those of distill but for
 * aware, with other defaults: ce 1, kl 0. */
void pare_training_params(pare_param out[PARE_PARAMS_MAX + 1]);

/* What their values come to for windows of `window` tokens. */
void pare_training_opts(const double *value, size_t window, pare_train_opts *out);

#endif
