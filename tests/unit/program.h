/* tests/unit/program.h - calls of the program, as a user makes them. */
#ifndef PARE_TESTS_PROGRAM_H
#define PARE_TESTS_PROGRAM_H

#include <sys/wait.h>

#include "tests/unit/unit.h"

/* What a call of the program left: exit code and, as asked, stdout or stderr. */
typedef struct outcome {
    int code;
    char text[1 << 16];
} outcome;

enum { OUT, ERR };

static inline outcome *call(const char *arguments, int stream)
{
    static outcome o;
    char command[4096];
    (void)snprintf(command, sizeof command, "'%s' %s %s", PARE_PROGRAM, arguments,
                   stream == OUT ? "2>/dev/null" : "2>&1 >/dev/null");
    FILE *const f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    const size_t n = fread(o.text, 1, sizeof o.text - 1, f);
    o.text[n] = '\0';
    const int status = pclose(f);
    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return &o;
}

#endif
