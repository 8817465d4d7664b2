/* What stands around a text, as the post_processor of a tokenizer.json. */
#include <string.h>

#include "formats/gguf_internal.h"

static void put_piece(pare_json_writer *w, const char *kind, const char *id, int type)
{
    pare_json_open_object(w, NULL);
    pare_json_open_object(w, kind);
    pare_json_put_text(w, "id", id);
    pare_json_put_integer(w, "type_id", type);
    pare_json_close(w);
    pare_json_close(w);
}

/* Of one text or of two. */
static void put_texts(pare_json_writer *w, const char *key, int texts, const char *front,
                      const char *behind)
{
    static const char *const text[] = {"A", "B"};
    pare_json_open_array(w, key);
    for (int i = 0; i < texts; i++) {
        if (front)
            put_piece(w, "SpecialToken", front, i);
        put_piece(w, "Sequence", text[i], i);
        if (behind)
            put_piece(w, "SpecialToken", behind, i);
    }
    pare_json_close(w);
}

static void put_token(pare_json_writer *w, pare__gguf_named t)
{
    pare_json_open_object(w, t.text);
    pare_json_put_text(w, "id", t.text);
    pare_json_open_array(w, "ids");
    pare_json_put_integer(w, NULL, t.id);
    pare_json_close(w);
    pare_json_open_array(w, "tokens");
    pare_json_put_text(w, NULL, t.text);
    pare_json_close(w);
    pare_json_close(w);
}

void pare__gguf_put_template(pare_json_writer *w, pare__gguf_named front, pare__gguf_named behind)
{
    if (!front.text && !behind.text) {
        pare_json_put_null(w, "post_processor");
        return;
    }
    pare_json_open_object(w, "post_processor");
    pare_json_put_text(w, "type", "TemplateProcessing");
    put_texts(w, "single", 1, front.text, behind.text);
    put_texts(w, "pair", 2, front.text, behind.text);
    pare_json_open_object(w, "special_tokens");
    if (front.text)
        put_token(w, front);
    if (behind.text && behind.id != front.id)
        put_token(w, behind);
    pare_json_close(w);
    pare_json_close(w);
}
