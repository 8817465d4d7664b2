/* compress/cli/choice_file.h - a loaded model measured on a multiple-choice file. */
#ifndef PARE_COMPRESS_CHOICE_H
#define PARE_COMPRESS_CHOICE_H

#include "compress/cli/cli.h"
#include "compress/evaluate/evaluate.h"

/* Reads and tokenizes the file (compress/evaluate/choice_items.h) and measures the model on it.
 * PARE_EFORMAT names file and line. */
PARE_CHECKED pare_status pare_choice_measure(pare_cli *cli, const pare_loaded *l, const char *path,
                                             pare_choice_result *out);

#endif
