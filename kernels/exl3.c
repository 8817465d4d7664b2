#include "kernels/exl3.h"

enum { STATE_BITS = 16 };

/* Byte i of the stream in a file whose words are little-endian and begin with their highest bit. */
static size_t byte_at(size_t i)
{
    return i ^ 3;
}

void pare_exl3_unpack(uint8_t symbol[PARE_EXL3_WEIGHTS], const uint8_t *bytes, unsigned bits)
{
    uint32_t held = 0;
    unsigned count = 0;
    size_t next = 0;
    for (unsigned p = 0; p < PARE_EXL3_WEIGHTS; p++) {
        if (count < bits) {
            held = held << 8 | bytes[byte_at(next++)];
            count += 8;
        }
        count -= bits;
        symbol[p] = (uint8_t)(held >> count & ((1U << bits) - 1));
    }
}

void pare_exl3_pack(uint8_t *bytes, const uint8_t symbol[PARE_EXL3_WEIGHTS], unsigned bits)
{
    uint32_t held = 0;
    unsigned count = 0;
    size_t next = 0;
    for (unsigned p = 0; p < PARE_EXL3_WEIGHTS; p++) {
        held = held << bits | symbol[p];
        count += bits;
        if (count >= 8) {
            count -= 8;
            bytes[byte_at(next++)] = (uint8_t)(held >> count);
        }
    }
}

void pare_exl3_values(float value[PARE_EXL3_WEIGHTS], const uint8_t symbol[PARE_EXL3_WEIGHTS],
                      unsigned bits)
{
    uint32_t state = 0;
    for (unsigned p = PARE_EXL3_WEIGHTS - STATE_BITS; p < PARE_EXL3_WEIGHTS; p++)
        state = state << bits | symbol[p];
    for (unsigned p = 0; p < PARE_EXL3_WEIGHTS; p++) {
        state = (state << bits | symbol[p]) & (PARE_EXL3_STATES - 1);
        value[p] = pare_exl3_value(state);
    }
}
