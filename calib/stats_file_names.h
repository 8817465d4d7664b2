/* calib/stats_file_names.h - names in a file of statistics, for its writer and its reader. */
#ifndef PARE_CALIB_STATS_FILE_NAMES_H
#define PARE_CALIB_STATS_FILE_NAMES_H

#define PARE__STATS_SETTINGS "settings"
#define PARE__STATS_TOKENS   "tokens"
#define PARE__STATS_HELD_OUT "held_out"
#define PARE__STATS_STREAM   "stream"
#define PARE__STATS_OUTPUTS  "outputs"
#define PARE__STATS_EXPERTS  "experts"

#endif
