/* tests/unit/uniform.h - a packed linear of the plain kind in one line. */
#ifndef PARE_TESTS_UNIFORM_H
#define PARE_TESTS_UNIFORM_H

#define UNIFORM(name_, n_, k_, bits_, group_, symmetric_)                                          \
    {                                                                                              \
        .name = (name_), .n = (n_), .k = (k_), .bits = (bits_), .group = (group_),                 \
        .symmetric = (symmetric_)                                                                  \
    }

#endif
