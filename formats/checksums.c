#define _GNU_SOURCE /* memmem */
#include "formats/checksums.h"

#include <stdio.h>
#include <string.h>

#include "formats/hash.h"

bool pare_manifest_is_ours(const char *text, size_t len)
{
    static const char begin[] = "{\n  \"pare\":", member[] = "\"recipe_sha256\"";
    return (len >= sizeof begin && memcmp(text, begin, sizeof begin - 1) == 0) ||
           memmem(text, len, member, sizeof member - 1);
}

/* A name that stays inside the directory. */
static bool plain_name(const char *name)
{
    return name && name[0] != '\0' && name[0] != '.' && !strchr(name, '/');
}

static const pare_json *files_of(const pare_json *manifest)
{
    return pare_json_get(manifest, "outputs");
}

size_t pare_manifest_files(const pare_json *manifest)
{
    return pare_json_count(files_of(manifest));
}

bool pare_manifest_file_at(const pare_json *manifest, size_t i, pare_listed_file *out)
{
    const pare_json *const item = pare_json_at(files_of(manifest), i);
    const int64_t bytes = pare_json_integer(pare_json_get(item, "bytes"), -1);
    *out = (pare_listed_file){pare_json_text(pare_json_get(item, "file"), NULL),
                              pare_json_text(pare_json_get(item, "sha256"), NULL), (uint64_t)bytes};
    return plain_name(out->name) && out->sha256 && bytes >= 0;
}

bool pare_manifest_lists(const pare_json *manifest, const char *name)
{
    pare_listed_file f;
    for (size_t i = 0; i < pare_manifest_files(manifest); i++)
        if (pare_manifest_file_at(manifest, i, &f) && strcmp(f.name, name) == 0)
            return true;
    return false;
}

/* The member of `object` whose key is the first `len` bytes of `name`. */
static const pare_json *get_cut(const pare_json *object, const char *name, size_t len)
{
    char key[1024];
    if (len >= sizeof key)
        return NULL;
    memcpy(key, name, len);
    key[len] = '\0';
    return pare_json_get(object, key);
}

const char *pare_manifest_tensor(const pare_json *manifest, const char *name)
{
    const pare_json *const kept = pare_json_get(pare_json_get(manifest, "kept"), name);
    const char *const dot = strrchr(name, '.');
    if (kept || !dot)
        return pare_json_text(pare_json_get(kept, "xxh3"), NULL);
    const pare_json *const linear =
        get_cut(pare_json_get(manifest, "tensors"), name, (size_t)(dot - name));
    return pare_json_text(pare_json_get(pare_json_get(linear, "xxh3"), dot + 1), NULL);
}

void pare_manifest_absent(const pare_json *manifest, const pare_checkpoint *ck,
                          void (*absent)(void *self, const char *name, const char *what),
                          void *self)
{
    static const char nowhere[] = "in the manifest, but in no weight file";
    const char *key, *plane;
    const pare_json *value, *hash;
    const pare_json *const linears = pare_json_get(ck->index, "linears");
    for (pare_json_iter it = {0}; pare_json_next(pare_json_get(manifest, "kept"), &it, &key, NULL);)
        if (!pare_checkpoint_find(ck, key))
            absent(self, key, nowhere);
    for (pare_json_iter it = {0};
         pare_json_next(pare_json_get(manifest, "tensors"), &it, &key, &value);) {
        if (!pare_json_get(linears, key)) {
            absent(self, key, "in the manifest, but not in packed.index.json");
            continue;
        }
        for (pare_json_iter p = {0};
             pare_json_next(pare_json_get(value, "xxh3"), &p, &plane, &hash);) {
            char name[1024];
            const int n = snprintf(name, sizeof name, "%s.%s", key, plane);
            if (n < 0 || (size_t)n >= sizeof name || !pare_checkpoint_find(ck, name))
                absent(self, name, nowhere);
        }
    }
}
