/* compress/passes/passes_internal.h - the descriptors, for the table. */
#ifndef PARE_COMPRESS_PASSES_INTERNAL_H
#define PARE_COMPRESS_PASSES_INTERNAL_H

#include "compress/pass.h"

extern const pare_pass pare_pass_awq;
extern const pare_pass pare_pass_gptq;
extern const pare_pass pare_pass_outlier_suppression;
extern const pare_pass pare_pass_rotate;
extern const pare_pass pare_pass_rtn;

#endif
