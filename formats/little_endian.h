/* formats/little_endian.h - numbers of a file, byte by byte: no alignment, no cast. The caller has
 * checked that the bytes are there. */
#ifndef PARE_FORMATS_LITTLE_ENDIAN_H
#define PARE_FORMATS_LITTLE_ENDIAN_H

#include <stdint.h>

static inline uint16_t pare_le16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t pare_le32(const unsigned char *p)
{
    return (uint32_t)pare_le16(p) | (uint32_t)pare_le16(p + 2) << 16;
}

static inline uint64_t pare_le64(const unsigned char *p)
{
    return (uint64_t)pare_le32(p) | (uint64_t)pare_le32(p + 4) << 32;
}

#endif
