/* tests/fault/commands.h - commands of the program, each in a place with all that it needs, for
 * programs that break them. */
#ifndef PARE_TESTS_COMMANDS_H
#define PARE_TESTS_COMMANDS_H

#include "tests/fault/fault_place.h"

enum { COMMAND_OUTPUTS = 3 };

typedef struct command {
    const char *name, *job;
    const char *args[PLACE_ARGS]; /* @NAME is a path in the place, %NAME the same, of what comes
                                     from the other recipe when an old output is made */
    const char *output[COMMAND_OUTPUTS]; /* below disk/ */
} command;

static const command commands[] = {
    {"compress", "sparse", {"compress", "%.yaml", "--output", "@disk/out"}, {"out", "x", "x.gguf"}},
    {"compress to a plain checkpoint",
     "flap",
     {"compress", "%.yaml", "--output", "@disk/out"},
     {"out"}},
    {"export to a directory",
     "rtn",
     {"export", "%-artifact", "--format", "gptq", "--output", "@disk/x"},
     {"x"}},
    {"export to a file",
     "rtn",
     {"export", "%-artifact", "--format", "gguf:q4_0", "--output", "@disk/x.gguf"},
     {"x.gguf"}},
    {"eval", "rtn", {"eval", "%-artifact", "--tokens", "@tokens.i32", "--window", "64"}, {NULL}},
    {"compare",
     "rtn",
     {"compare", "@model", "%-artifact", "--tokens", "@tokens.i32", "--window", "64", "--output",
      "@disk/t.csv"},
     {"t.csv"}},
    {"verify", "rtn", {"verify", "%-artifact"}, {NULL}},
    {"generate",
     "rtn",
     {"generate", "%-artifact", "--tokens", "8", "--count", "3", "--output", "@disk/drawn.i32"},
     {"drawn.i32"}},
    {"pack", "rtn", {"pack", "%-artifact", "--output", "@disk/x.pare.zst"}, {"x.pare.zst"}},
    {"unpack", "rtn", {"unpack", "%-artifact.pare.zst", "--output", "@disk/x"}, {"x"}},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* The arguments in a place; `old`: of the command that makes what is there before. */
static inline void command_args(const place *p, const command *c, bool old, const char **args)
{
    size_t n = 0;
    for (; c->args[n]; n++) {
        const char kind = c->args[n][0], *const name = c->args[n] + 1;
        char named[64];
        (void)snprintf(named, sizeof named, "%s%s", kind == '%' ? (old ? "old" : "job") : "", name);
        args[n] = strdup(kind == '@' || kind == '%' ? place_path(p, named) : c->args[n]);
    }
    args[n++] = strdup("--threads");
    args[n++] = strdup("2");
    args[n] = NULL;
}

static inline void command_free(const char **args)
{
    for (size_t i = 0; args[i]; i++)
        free((void *)args[i]);
}

/* Makes the artifacts that a command reads: job-artifact and old-artifact, packed where it
 * unpacks. */
static inline void command_artifacts(const place *p, const command *c)
{
    static const char *const name[] = {"job", "old"};
    for (size_t i = 0; strcmp(c->args[0], "compress") != 0 && i < 2; i++) {
        char recipe[32], artifact[32];
        (void)snprintf(recipe, sizeof recipe, "%s.yaml", name[i]);
        (void)snprintf(artifact, sizeof artifact, "%s-artifact", name[i]);
        const char *const args[] = {"compress", place_path(p, recipe), "--output",
                                    place_path(p, artifact), NULL};
        if (place_run(p, args, NULL) != 0)
            tree_die("cannot make the artifact", c->name);
        const char *const store[] = {"pack", place_path(p, artifact), NULL};
        if (strcmp(c->args[0], "unpack") == 0 && place_run(p, store, NULL) != 0)
            tree_die("cannot pack the artifact", c->name);
    }
}

/* What it printed, but for lines that tell the time or memory. */
static inline tree command_printed(const place *p)
{
    tree t = {0};
    size_t len, used = 0;
    char *const text = (char *)tree_read(place_path(p, "print"), &len);
    for (size_t at = 0; at < len;) {
        const char *const end = memchr(text + at, '\n', len - at);
        const size_t line = end ? (size_t)(end - text) + 1 - at : len - at;
        if (strncmp(text + at, "time", 4) != 0 && strncmp(text + at, "memory", 6) != 0) {
            memmove(text + used, text + at, line);
            used += line;
        }
        at += line;
    }
    tree_add(&t, "print", false, (unsigned char *)text, used);
    return t;
}

#endif
