/* tests/fuzz/task_input.h - an input for files of tasks: a line "TASK ENDING SHOTS", and the file
 * behind it, out of which the shots are taken, too. */
#ifndef PARE_TESTS_TASK_INPUT_H
#define PARE_TESTS_TASK_INPUT_H

#include <stdio.h>
#include <string.h>

#include "compress/evaluate/task.h"

typedef struct task_input {
    char task[32], ending[8];
    unsigned shots;
    const char *text;
    size_t len;
} task_input;

/* False for an input without such a line. */
static inline bool task_input_read(const void *bytes, size_t len, task_input *out)
{
    char line[64];
    const char *const end = memchr(bytes, '\n', len < sizeof line ? len : sizeof line);
    if (!end)
        return false;
    out->text = end + 1;
    out->len = len - (size_t)(out->text - (const char *)bytes);
    (void)snprintf(line, sizeof line, "%.*s", (int)(end - (const char *)bytes),
                   (const char *)bytes);
    return sscanf(line, "%31s %7[a-z] %2u", out->task, out->ending, &out->shots) == 3;
}

#endif
