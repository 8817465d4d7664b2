#include "compress/artifact/adapter.h"

static void put_targets(pare_json_writer *w, const char *key, const pare_adapter_result *r)
{
    pare_json_open_array(w, key);
    for (size_t i = 0; i < r->targets; i++)
        pare_json_put_text(w, NULL, r->target[i]);
    pare_json_close(w);
}

void pare_adapter_put(pare_json_writer *w, const pare_adapter_result *r)
{
    pare_json_open_object(w, "adapter");
    pare_json_put_integer(w, "rank", (int64_t)r->rank);
    pare_json_put_number(w, "alpha", r->alpha);
    pare_json_put_bool(w, "rslora", r->rslora);
    pare_json_put_bool(w, "merged", r->merged);
    put_targets(w, "targets", r);
    pare_json_put_integer(w, "linears", (int64_t)r->linears);
    pare_json_put_integer(w, "trained_weights", (int64_t)r->trained);
    pare_json_close(w);
}

pare_status pare_adapter_config(pare_ctx *cx, pare_arena *a, const pare_adapter_result *r,
                                const char *model, char **text, size_t *len)
{
    pare_json_writer *w;
    const char *from = NULL;
    PARE_TRY(pare_json_writer_new(cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "peft_type", "LORA");
    pare_json_put_text(w, "task_type", "CAUSAL_LM");
    pare_json_put_text(w, "base_model_name_or_path", model);
    pare_json_put_integer(w, "r", (int64_t)r->rank);
    pare_json_put_number(w, "lora_alpha", r->alpha);
    pare_json_put_bool(w, "use_rslora", r->rslora);
    pare_json_put_integer(w, "lora_dropout", 0);
    put_targets(w, "target_modules", r);
    pare_json_put_text(w, "bias", "none");
    pare_json_put_bool(w, "fan_in_fan_out", false);
    pare_json_put_bool(w, "inference_mode", true);
    pare_json_close(w);
    pare_status s = pare_json_writer_finish(w, &from, len);
    if (s == PARE_OK)
        s = (*text = pare_arena_text(a, from, *len)) ? PARE_OK : PARE_ENOMEM;
    pare_json_writer_free(w);
    return s;
}
