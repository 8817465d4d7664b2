/* compress/cli/cmd_bench.h - what the three forms of `pare bench` share. */
#ifndef PARE_COMPRESS_CMD_BENCH_H
#define PARE_COMPRESS_CMD_BENCH_H

#include "compress/bench/bench.h"
#include "compress/cli/cli.h"

/* Name of the processor as the system tells it; "unknown". Returns text. */
enum { PARE_CPU_TEXT = 96 };
const char *pare_bench_cpu(char text[PARE_CPU_TEXT]);

/* Members that every result begins with: program, kind, processor, level of the kernels, threads.
 */
void pare_bench_put_head(pare_cli *cli, pare_json_writer *w, const char *kind);
void pare_bench_put_limits(pare_json_writer *w, const char *key, const pare_bench_limits *l);

/* The same as a line of text. */
void pare_bench_print_head(const pare_cli *cli);

/* `pare bench model` and `pare bench --compare`. */
pare_status pare_bench_model_run(pare_cli *cli, const pare_args *args);
pare_status pare_bench_compare_run(pare_cli *cli, const pare_args *args);

#endif
