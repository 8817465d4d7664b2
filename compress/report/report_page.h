/* compress/report/report_page.h - what every page of a report begins and ends with. */
#ifndef PARE_COMPRESS_REPORT_PAGE_H
#define PARE_COMPRESS_REPORT_PAGE_H

#include "compress/text/text_out.h"

/* Its style, in the head; its script, at the end: headings of tables of the class "sort" sort. */
void pare__report_style(pare_text_out *t);
void pare__report_script(pare_text_out *t);

#endif
