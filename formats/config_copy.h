/* formats/config_copy.h - a config.json that is written anew from the one of the model. */
#ifndef PARE_FORMATS_CONFIG_COPY_H
#define PARE_FORMATS_CONFIG_COPY_H

#include "formats/json.h"
#include "runtime/model.h"

/* A member of a config.json that is written anew for the shape `c`, copied but for whether the head
 * is tied, and for auto_map, which is left out: the code that it names does not go along; and that,
 * behind all members, where they do not say it and the family would be taken for the other. */
void pare_config_put_member(pare_json_writer *w, const pare_config *c, const char *key,
                            const pare_json *v);
void pare_config_put_tied(pare_json_writer *w, const pare_config *c, const pare_json *config);

/* A list of the MLP channels of each block. */
void pare_config_put_widths(pare_json_writer *w, const char *key, const pare_config *c);

#endif
