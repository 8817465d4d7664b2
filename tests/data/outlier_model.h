/* tests/data/outlier_model.h - a copy of an F16 checkpoint in which a few channels of the normed
 * inputs are many times larger, and the weights that read them as many times smaller.
 *
 * Trained models have such channels. The float model computes what it did, up to the rounding of
 * the F16 weights; whoever quantizes inputs or weights with one scale for many channels suffers. */
#ifndef PARE_TESTS_OUTLIER_MODEL_H
#define PARE_TESTS_OUTLIER_MODEL_H

#include <stdio.h>
#include <string.h>

#include "formats/checkpoint.h"
#include "kernels/half.h"
#include "runtime/file.h"
#include "runtime/random.h"

/* Column c of a [rows, k] or [k] tensor of the file `bytes` times f. */
static inline void outlier_scale(const pare_checkpoint *ck, unsigned char *bytes, const char *name,
                                 size_t c, float f)
{
    const pare_tensor *const t = pare_checkpoint_find(ck, name);
    const size_t k = (size_t)t->shape[t->rank - 1];
    const size_t base = (size_t)((const unsigned char *)t->data - ck->file[0].data);
    for (size_t i = c; i < t->bytes / 2; i += k) {
        uint16_t h;
        memcpy(&h, bytes + base + 2 * i, sizeof h);
        h = pare_f32_to_f16(pare_f16_to_f32(h) * f);
        memcpy(bytes + base + 2 * i, &h, sizeof h);
    }
}

/* `channels` channels in front of the attention and of the MLP of every block, drawn by block,
 * times `factor`. Writes into the existing directory `to`; the model has one F16 shard. */
static inline pare_status outlier_model(pare_ctx *cx, pare_arena *a, const char *from,
                                        const char *to, size_t channels, float factor)
{
    static const char *const norm[] = {"input_layernorm", "post_attention_layernorm"};
    static const char *const reader[2][3] = {
        {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
        {"mlp.gate_proj", "mlp.up_proj", NULL}};
    static const char *const copied[] = {"config.json", "tokenizer.json"};
    pare_checkpoint ck;
    pare_model m;
    char name[128], *text;
    size_t len, picked[64];
    PARE_TRY(pare_checkpoint_open(cx, a, from, &ck));
    pare_status s = pare_model_load(cx, a, &ck, &m);
    unsigned char *const bytes =
        s == PARE_OK ? pare_arena_take(a, (size_t)ck.file[0].bytes, 1) : NULL;
    if (bytes)
        memcpy(bytes, ck.file[0].data, (size_t)ck.file[0].bytes);
    for (size_t i = 0; bytes && i < 2 * m.config.blocks; i++) {
        pare_random_choose(1, i, m.config.hidden, channels, picked);
        for (size_t c = 0; c < channels; c++) {
            (void)snprintf(name, sizeof name, "model.layers.%zu.%s.weight", i / 2, norm[i % 2]);
            outlier_scale(&ck, bytes, name, picked[c], factor);
            for (size_t r = 0; r < 3 && reader[i % 2][r]; r++) {
                (void)snprintf(name, sizeof name, "model.layers.%zu.%s.weight", i / 2,
                               reader[i % 2][r]);
                outlier_scale(&ck, bytes, name, picked[c], 1 / factor);
            }
        }
    }
    if (s == PARE_OK)
        s = bytes ? pare_file_write(cx, pare_path_join(a, to, "model.safetensors"), bytes,
                                    (size_t)ck.file[0].bytes)
                  : PARE_ENOMEM;
    pare_checkpoint_close(&ck);
    for (size_t i = 0; s == PARE_OK && i < 2; i++) {
        s = pare_file_read(cx, a, pare_path_join(a, from, copied[i]), 1 << 24, &text, &len);
        if (s == PARE_OK)
            s = pare_file_write(cx, pare_path_join(a, to, copied[i]), text, len);
    }
    return s;
}

#endif
