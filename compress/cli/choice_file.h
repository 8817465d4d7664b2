/* compress/cli/choice_file.h - multiple-choice files: one JSON object per line with "context"
 * (text), "choices" (texts, each a continuation of the context, its leading space included) and
 * "answer" (index from 0). */
#ifndef PARE_COMPRESS_CHOICE_H
#define PARE_COMPRESS_CHOICE_H

#include "compress/cli/cli.h"
#include "compress/evaluate/evaluate.h"

/* Reads and tokenizes the file and measures the model on it. PARE_EFORMAT names file and line. */
PARE_CHECKED pare_status pare_choice_measure(pare_cli *cli, const pare_loaded *l, const char *path,
                                             pare_choice_result *out);

#endif
