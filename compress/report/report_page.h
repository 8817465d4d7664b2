/* compress/report/report_page.h - what every page of a report begins with. */
#ifndef PARE_COMPRESS_REPORT_PAGE_H
#define PARE_COMPRESS_REPORT_PAGE_H

#include "compress/text/text_out.h"

/* Its style, in the head. */
void pare__report_style(pare_text_out *t);

#endif
