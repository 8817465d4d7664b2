/* compress/cli/stats_print.h - files of kept statistics, where a command takes them in place of a
 * model. */
#ifndef PARE_COMPRESS_CLI_STATS_PRINT_H
#define PARE_COMPRESS_CLI_STATS_PRINT_H

#include "compress/cli/cli.h"

/* pare diff A.h5 B.h5 and pare inspect FILE.h5. */
PARE_CHECKED pare_status pare__stats_diff(pare_cli *cli, const char *first, const char *second);
PARE_CHECKED pare_status pare__stats_inspect(pare_cli *cli, const char *path);

/* pare inspect of an importance matrix of llama.cpp. */
PARE_CHECKED pare_status pare__importance_inspect(pare_cli *cli, const char *path);

#endif
