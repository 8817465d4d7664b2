#include "formats/config_copy.h"

#include <string.h>

static const char tied_word[] = "tie_word_embeddings";

/* Names files of code beside the original, which do not go along. Every engine has its own code for
 * the families that are supported; asked to trust that of a model, it would look for those files.
 */
static bool names_code(const char *key)
{
    return strcmp(key, "auto_map") == 0;
}

void pare_config_put_member(pare_json_writer *w, const pare_config *c, const char *key,
                            const pare_json *v)
{
    if (strcmp(key, tied_word) == 0)
        pare_json_put_bool(w, key, c->tied);
    else if (!names_code(key))
        pare_json_put_copy(w, key, v);
}

void pare_config_put_tied(pare_json_writer *w, const pare_config *c, const pare_json *config)
{
    if (c->tied != c->arch->tied &&
        pare_json_type_of(pare_json_get(config, tied_word)) == PARE_JSON_ABSENT)
        pare_json_put_bool(w, tied_word, c->tied);
}

void pare_config_put_widths(pare_json_writer *w, const char *key, const pare_config *c)
{
    pare_json_open_array(w, key);
    for (size_t i = 0; i < c->blocks; i++)
        pare_json_put_integer(w, NULL, (int64_t)pare_config_mlp(c, i));
    pare_json_close(w);
}
