/* tests/fuzz/manifest_input.h - manifest.json as verify reads it, beside an artifact of three
 * tensors: the planes of linear "l" and a kept tensor "n". The first finding becomes the message.
 */
#ifndef PARE_TESTS_MANIFEST_INPUT_H
#define PARE_TESTS_MANIFEST_INPUT_H

#include <stdlib.h>

#include "compress/artifact/verify_internal.h"

enum { MANIFEST_INPUT_CAP = 1 << 14 };

static inline void manifest_input_found(void *self, const char *what)
{
    pare_ctx *const cx = self;
    (void)pare_fail(cx, PARE_EFORMAT, "%s", what);
}

static inline pare_status manifest_input_run(pare_ctx *cx, pare_arena *a, const void *bytes,
                                             size_t len)
{
    static const char index[] = "{\"linears\": {\"l\": {}}}", data[] = "0123456789abcdef";
    static char path[] = "packed-00001-of-00001.safetensors";
    pare_tensor tensor[] = {
        {.name = "l.codes", .dtype = PARE_U8, .rank = 1, .shape = {16}, .bytes = 16, .data = data},
        {.name = "l.scales", .dtype = PARE_U8, .rank = 1, .shape = {8}, .bytes = 8, .data = data},
        {.name = "n", .dtype = PARE_U8, .rank = 1, .shape = {3}, .bytes = 3, .data = data}};
    uint32_t tensor_file[] = {0, 0, 0};
    pare_file file = {.path = path};
    pare_verify_result result = {0};
    pare_verify_run v = {.cx = cx, .found = manifest_input_found, .self = cx, .out = &result};
    v.arena = *a;
    v.checkpoint = (pare_checkpoint){.cx = cx,
                                     .file = &file,
                                     .files = 1,
                                     .tensor = tensor,
                                     .tensors = 3,
                                     .tensor_file = tensor_file};
    pare_json *linears = NULL;
    pare_status s =
        pare_json_parse(cx, "manifest.json", bytes, len, MANIFEST_INPUT_CAP, &v.manifest);
    if (s == PARE_OK)
        s = pare_json_parse(cx, "index", index, sizeof index - 1, sizeof index, &linears);
    if (s == PARE_OK) {
        pare_listed_file f;
        v.checkpoint.index = linears;
        for (size_t i = 0; i < pare_manifest_files(v.manifest); i++)
            (void)pare__verify_listed(&v, i, &f);
        s = pare__verify_recipe(&v);
        if (s == PARE_OK)
            s = pare__verify_hashes(&v);
    }
    *a = v.arena;
    pare_json_free(linears);
    pare_json_free(v.manifest);
    return s == PARE_OK && result.findings ? PARE_EFORMAT : s;
}

#endif
