/* formats/expert_stack.h - all experts of a block in one tensor, as files of gpt-oss, Llama 4 and
 * Qwen 3.5 have them, and how they come apart.
 *
 *   mlp.experts.gate_up_proj       [experts, hidden, 2 width], columns gate, up, gate, up ...
 *   mlp.experts.gate_up_proj_bias  [experts, 2 width] in the same order
 *   mlp.experts.down_proj          [experts, width, hidden]
 *   mlp.experts.down_proj_bias     [experts, hidden]
 *
 * (in files of Llama 4, feed_forward.experts, all columns of gate in front of those of up, and no
 * biases; in those of Qwen 3.5 the same with outputs in rows, [experts, 2 width, hidden] and
 * [experts, hidden, width]);
 * or in place of a matrix, MXFP4 with its outputs in rows: NAME_blocks U8 [experts, rows,
 * columns / 32, 16], byte b of a group being columns 2 b (low bits) and 2 b + 1, and NAME_scales U8
 * [experts, rows, columns / 32]. A weight is E2M1(code) 2^(scale - 127), which BF16 holds exactly.
 *
 * Source  transformers, modeling_gpt_oss.py, modeling_llama4.py, modeling_qwen3_5_moe.py
 *         and integrations/mxfp4.py. */
#ifndef PARE_FORMATS_EXPERT_STACK_H
#define PARE_FORMATS_EXPERT_STACK_H

#include "formats/checkpoint.h"

/* Such tensors become those of runtime/arch.h, mlp.experts.E.gate_proj.weight and so on: biases and
 * matrices in the type of the file, MXFP4 in BF16; in ck->scratch, but outputs in rows where they
 * lie. Nothing happens for families without them, for an artifact of ours, when ck->arranged is
 * set, or for a config.json that cannot be read. Of a listing the data are nowhere.
 * PARE_EFORMAT (a shape, a type, a scale above 2^125, blocks without scales), PARE_EINTERRUPTED,
 * PARE_ENOMEM, and what the scratch says. */
PARE_CHECKED pare_status pare__expert_stack(pare_checkpoint *ck, pare_arena *a);

#endif
