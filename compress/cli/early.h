/* compress/cli/early.h - what happens before the libraries of the program start. */
#ifndef PARE_COMPRESS_EARLY_H
#define PARE_COMPRESS_EARLY_H

/* Gives the process back the CPUs it was started with. The first call of main. */
void pare_early_end(void);

#endif
