/* compress/passes/passes_internal.h - the descriptors, for the table. */
#ifndef PARE_COMPRESS_PASSES_INTERNAL_H
#define PARE_COMPRESS_PASSES_INTERNAL_H

#include "compress/passes/pass.h"

extern const pare_pass pare_pass_atom;
extern const pare_pass pare_pass_awq;
extern const pare_pass pare_pass_billm;
extern const pare_pass pare_pass_budget;
extern const pare_pass pare_pass_channels;
extern const pare_pass pare_pass_depth;
extern const pare_pass pare_pass_distill;
extern const pare_pass pare_pass_ebft;
extern const pare_pass pare_pass_flap;
extern const pare_pass pare_pass_fp8;
extern const pare_pass pare_pass_gptq;
extern const pare_pass pare_pass_hqq;
extern const pare_pass pare_pass_llm_int8;
extern const pare_pass pare_pass_magnitude;
extern const pare_pass pare_pass_mxfp4;
extern const pare_pass pare_pass_nf4;
extern const pare_pass pare_pass_nvfp4;
extern const pare_pass pare_pass_exl3;
extern const pare_pass pare_pass_omniquant;
extern const pare_pass pare_pass_outlier_suppression;
extern const pare_pass pare_pass_permute;
extern const pare_pass pare_pass_reap;
extern const pare_pass pare_pass_ria;
extern const pare_pass pare_pass_rotate;
extern const pare_pass pare_pass_rtn;
extern const pare_pass pare_pass_signround;
extern const pare_pass pare_pass_slicegpt;
extern const pare_pass pare_pass_smoothquant;
extern const pare_pass pare_pass_sparsegpt;
extern const pare_pass pare_pass_sparsegpt_joint;
extern const pare_pass pare_pass_squeezellm;
extern const pare_pass pare_pass_ternary;
extern const pare_pass pare_pass_wanda;
extern const pare_pass pare_pass_ziplm;

#endif
