/* compress/text/version.h - the version of the program, as the build defines it. */
#ifndef PARE_COMPRESS_TEXT_VERSION_H
#define PARE_COMPRESS_TEXT_VERSION_H

#ifndef PARE_VERSION
#error "PARE_VERSION comes from the build"
#endif

#endif
