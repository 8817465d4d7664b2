/* compress/text/units.h - numbers as people read them. Pure functions of their arguments. */
#ifndef PARE_COMPRESS_UNITS_H
#define PARE_COMPRESS_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PARE_UNIT_TEXT = 32 };

/* "640 B", "9.89 MiB", "1.20 GiB": three significant digits, powers of 1024. Returns text. */
const char *pare_units_bytes(uint64_t bytes, char text[PARE_UNIT_TEXT]);

/* "0.42 s", "12.3 s", "4 min 05 s", "3 h 07 min". Negative or not finite: "?". Returns text. */
const char *pare_units_seconds(double seconds, char text[PARE_UNIT_TEXT]);

/* "640 J", "1.20 kJ", "3.41 MJ". Not above 0 or not finite: "?". Returns text. */
const char *pare_units_joules(double joules, char text[PARE_UNIT_TEXT]);

/* "0.4567", "123.5", "175123": a rate in four significant digits, or all before the point. Returns
 * text. */
const char *pare_units_rate(double rate, char text[PARE_UNIT_TEXT]);

/* Reads "8GiB", "512MiB", "1.5GB", "4096": a number and B, KiB, MiB, GiB, TiB, KB, MB, GB or TB,
 * without a space. False for anything else, for 0 and above 2^63 - 1. */
bool pare_units_parse_bytes(const char *text, uint64_t *bytes);

#endif
