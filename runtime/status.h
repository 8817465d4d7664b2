/* runtime/status.h - the one error convention above kernels/.
 *
 * Every fallible function returns a pare_status. The first failure leaves its message in the
 * context (pare_fail); layers above add context with pare_fail_context. Only main() prints. */
#ifndef PARE_RUNTIME_STATUS_H
#define PARE_RUNTIME_STATUS_H

/* X(name, value, text). The program's exit code of each stands in compress/cli. */
#define PARE_STATUS_MAP(X)                                                                         \
    X(OK, 0, "success")                                                                            \
    X(EINVAL, -1, "invalid argument")                                                              \
    X(ESHAPE, -2, "shapes do not agree")                                                           \
    X(ENOMEM, -3, "out of memory")                                                                 \
    X(EIO, -4, "input/output error")                                                               \
    X(EFORMAT, -5, "malformed file")                                                               \
    X(ENUMERIC, -6, "matrix is not positive definite or a value is not finite")                    \
    X(ENOTSUP, -7, "not supported")                                                                \
    X(EUSAGE, -8, "wrong usage or recipe")                                                         \
    X(ENOSPC, -9, "no space left")                                                                 \
    X(EINTERRUPTED, -10, "interrupted")                                                            \
    X(EEXISTS, -11, "exists already")                                                              \
    X(ENOTFOUND, -12, "not found")                                                                 \
    X(EDEVICE, -13, "the device failed")

typedef enum pare_status {
#define X(name, value, text) PARE_##name = (value),
    PARE_STATUS_MAP(X)
#undef X
} pare_status;

/* Text of a status, static storage, never NULL. */
const char *pare_strstatus(pare_status s);

#if defined(__GNUC__)
#define PARE_CHECKED            __attribute__((warn_unused_result))
#define PARE_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define PARE_CHECKED
#define PARE_PRINTF(fmt, first)
#endif

/* The ending of a counted word: "1 window", "2 windows". */
static inline const char *pare_plural(unsigned long long count)
{
    return count == 1 ? "" : "s";
}

/* Forwards an error to the caller. The only macro in the project that returns. */
#define PARE_TRY(expr)                                                                             \
    do {                                                                                           \
        const pare_status pare_try_ = (expr);                                                      \
        if (pare_try_ != PARE_OK)                                                                  \
            return pare_try_;                                                                      \
    } while (0)

#endif
