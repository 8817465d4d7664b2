/* tests/unit/program.h - calls of the program, as a user makes them. */
#ifndef PARE_TESTS_PROGRAM_H
#define PARE_TESTS_PROGRAM_H

#include <string.h>
#include <sys/wait.h>

#include "formats/json.h"
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

static inline void check_fails(const char *arguments, int code, const char *fragment)
{
    const outcome *const o = call(arguments, ERR);
    ck_assert_msg(o->code == code && strstr(o->text, fragment),
                  "pare %s: exit %d, expected %d with \"%s\":\n%s", arguments, o->code, code,
                  fragment, o->text);
    ck_assert_msg(strncmp(o->text, "pare: error: ", 13) == 0, "pare %s: %s", arguments, o->text);
}

/* Parses stdout of a successful call as JSON. */
static inline pare_json *parse(pare_ctx *cx, const char *arguments)
{
    pare_json *json = NULL;
    const outcome *const o = call(arguments, OUT);
    ck_assert_msg(o->code == 0, "pare %s: exit %d", arguments, o->code);
    pare_ctx_init(cx);
    ck_assert_msg(pare_json_parse(cx, "stdout", o->text, strlen(o->text), sizeof o->text, &json) ==
                      PARE_OK,
                  "pare %s: %s\n%s", arguments, cx->what, o->text);
    return json;
}

static inline double number_in(const pare_json *json, const char *object, const char *key)
{
    return pare_json_number(pare_json_get(pare_json_get(json, object), key), -1);
}

#endif
