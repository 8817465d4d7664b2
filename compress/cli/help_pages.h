/* compress/cli/help_pages.h - pages of help that are not of commands, and how pages are printed. */
#ifndef PARE_COMPRESS_CLI_HELP_PAGES_H
#define PARE_COMPRESS_CLI_HELP_PAGES_H

#include "compress/cli/cli.h"

/* A page that is neither of a command nor of a pass; the table ends with a NULL name. */
typedef struct pare_topic {
    const char *name, *summary;
    void (*print)(void);
} pare_topic;
extern const pare_topic pare_topics[];

/* Pages of topics that are no section of a recipe. */
void pare_help_passes(void);
void pare_help_choice(void);
void pare_help_require(void);
void pare_help_tasks(void);
void pare_help_needle(void);
void pare_help_presets(void);
void pare_help_log(void);
void pare_help_exit(void);
void pare_help_training(void);
void pare_help_batch(void);

/* The exit code whose number is `code`. PARE_EUSAGE when there is no such. */
PARE_CHECKED pare_status pare_help_exit_code(pare_cli *cli, const char *code);

/* Words of `text` behind `column` columns that are printed already; lines behind the first begin at
 * `indent`, and none is wider than a page. */
void pare_help_words(int column, int indent, const char *text);

/* A row of a table: `left`, and `text` from `column` on; below `left` where that is too long. */
void pare_help_row(int column, const char *left, const char *text);

/* A setting: its name, its default, the values that it takes, and below them what it is. */
void pare_help_setting(const pare_param *p);

#endif
