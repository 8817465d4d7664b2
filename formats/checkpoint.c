#include "formats/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/archive.h"
#include "formats/checkpoint_internal.h"
#include "formats/expert_stack.h"
#include "formats/format_version.h"
#include "runtime/small.h"

static const char config_name[] = "config.json";
static const char packed_index_name[] = "packed.index.json";

/* TOLD_MOST: bytes of a path that is told whole. */
enum { CONFIG_MAX = 4 * 1024 * 1024, INDEX_MAX = 100 * 1000 * 1000, TOLD_MOST = 512 };

static pare_status read_json(pare_checkpoint *ck, const char *path, size_t cap, pare_json **doc)
{
    pare_arena scratch;
    char *text = NULL;
    size_t len = 0;
    pare_status s = pare_arena_init(ck->cx, &scratch, 0);
    if (s == PARE_OK)
        s = pare_file_read(ck->cx, &scratch, path, cap, &text, &len);
    if (s == PARE_OK)
        s = pare_json_parse(ck->cx, path, text, len, cap, doc);
    pare_arena_release(&scratch);
    return s;
}

/* config.json may be absent beside a single file only. */
static pare_status read_config(pare_checkpoint *ck, pare_arena *a, bool required)
{
    char *const path = pare_path_join(a, ck->directory, config_name);
    if (!path)
        return PARE_ENOMEM;
    if (!required) {
        pare_path_kind is;
        PARE_TRY(pare_path_look(ck->cx, path, &is));
        if (is != PARE_PATH_FILE)
            return PARE_OK;
    }
    PARE_TRY(pare_file_map(ck->cx, a, path, &ck->config_file));
    PARE_TRY(pare_watch_mapped(a, &ck->watch, &ck->config_file));
    PARE_TRY(read_json(ck, path, CONFIG_MAX, &ck->config));
    return pare_config_take_text(ck->cx, path, &ck->config, &ck->is_part);
}

static bool says_packed(const pare_json *config)
{
    const pare_json *const q = pare_json_get(config, "quantization_config");
    const char *const method = pare_json_text(pare_json_get(q, "quant_method"), NULL);
    return method && strcmp(method, "pare") == 0;
}

/* Maps the files named, in their order, and reads their headers. */
static pare_status open_files(pare_checkpoint *ck, pare_arena *a, const char *const *name,
                              size_t count, const pare__container *kind, pare__shard *shard)
{
    ck->kind = kind;
    ck->file = PARE_NEW(a, pare_file, count);
    if (!ck->file)
        return PARE_ENOMEM;
    for (; ck->files < count; ck->files++) {
        pare_file *const f = &ck->file[ck->files];
        char *const path = pare_path_join(a, ck->directory, name[ck->files]);
        if (!path)
            return PARE_ENOMEM;
        PARE_TRY(pare_file_map(ck->cx, a, path, f));
        const pare_status s = pare_watch_mapped(a, &ck->watch, f);
        if (s != PARE_OK) {
            pare_file_unmap(f);
            return s;
        }
    }
    for (size_t i = 0; i < count; i++)
        PARE_TRY(kind->read(ck, a, &ck->file[i], &shard[i]));
    return PARE_OK;
}

/* A tensor and the file it came from, while all are sorted. */
typedef struct placed {
    pare_tensor tensor;
    const pare_stored *stored;
    uint32_t file;
} placed;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const placed *)a)->tensor.name, ((const placed *)b)->tensor.name);
}

/* Of containers whose readers say it. */
static pare_status collect_stored(pare_checkpoint *ck, pare_arena *a, const placed *all,
                                  size_t count)
{
    if (count == 0 || !all[0].stored)
        return PARE_OK;
    pare_stored *const stored = PARE_NEW(a, pare_stored, count);
    if (!stored)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        stored[i] = *all[i].stored;
    ck->stored = stored;
    return PARE_OK;
}

static pare_status collect(pare_checkpoint *ck, pare_arena *a, const pare__shard *shard)
{
    size_t count = 0;
    for (size_t i = 0; i < ck->files; i++)
        count += shard[i].tensors;
    ck->tensor = PARE_NEW(a, pare_tensor, count);
    ck->tensor_file = PARE_NEW(a, uint32_t, count);
    pare_arena scratch;
    pare_status s = pare_arena_init(ck->cx, &scratch, 0);
    placed *const all = s == PARE_OK ? PARE_NEW(&scratch, placed, count) : NULL;
    if (!ck->tensor || !ck->tensor_file || !all) {
        s = PARE_ENOMEM;
        goto done;
    }
    size_t at = 0;
    for (size_t i = 0; i < ck->files; i++) {
        for (size_t j = 0; j < shard[i].tensors; j++)
            all[at++] = (placed){shard[i].tensor[j], shard[i].stored ? &shard[i].stored[j] : NULL,
                                 (uint32_t)i};
    }
    if (count > 1)
        qsort(all, count, sizeof *all, by_name);
    for (size_t i = 0; i < count; i++) {
        ck->tensor[i] = all[i].tensor;
        ck->tensor_file[i] = all[i].file;
    }
    ck->tensors = count;
    s = collect_stored(ck, a, all, count);
done:
    pare_arena_release(&scratch);
    return s;
}

/* One file, or all parts of a model that it is one of. */
static pare_status open_single(pare_checkpoint *ck, pare_arena *a, const char *name,
                               const pare__container *kind)
{
    const char *const *part = &name;
    size_t parts = 1;
    if (kind->parts)
        PARE_TRY(kind->parts(ck, a, name, &part, &parts));
    pare__shard *const shard = PARE_NEW(a, pare__shard, parts);
    if (!shard)
        return PARE_ENOMEM;
    PARE_TRY(open_files(ck, a, part, parts, kind, shard));
    PARE_TRY(collect(ck, a, shard));
    for (size_t i = 1; i < ck->tensors; i++)
        if (strcmp(ck->tensor[i - 1].name, ck->tensor[i].name) == 0)
            return pare_fail(ck->cx, PARE_EFORMAT, "%s: two tensors stand for %s", ck->path,
                             ck->tensor[i].name);
    return PARE_OK;
}

/* Missing files are named before any is opened, with one of the tensors that would be missing. */
static pare_status check_present(pare_checkpoint *ck, pare_arena *a, const char *index_path,
                                 const pare__index *index)
{
    for (size_t i = 0; i < index->files; i++) {
        char *const path = pare_path_join(a, ck->directory, index->file[i]);
        if (!path)
            return PARE_ENOMEM;
        pare_path_kind is;
        PARE_TRY(pare_path_look(ck->cx, path, &is));
        if (is == PARE_PATH_FILE)
            continue;
        size_t first = 0;
        while (index->placed[first].file != i)
            first++;
        return pare_fail(ck->cx, PARE_EFORMAT,
                         "%s: file %zu of %zu is missing; %s puts tensor %s into it", path, i + 1,
                         index->files, index_path, index->placed[first].tensor);
    }
    return PARE_OK;
}

/* A shard that lies there but is named nowhere: the index is of another download or another run. */
static pare_status check_strangers(pare_checkpoint *ck, const char *index_path,
                                   const pare__index *index, const pare__container *kind)
{
    const char *const pattern = ck->packed ? "packed-[0-9]*-of-[0-9]*.safetensors" : kind->shards;
    DIR *const d = opendir(ck->directory);
    if (!d)
        return pare_file_fail_input(ck->cx, ck->directory, "list");
    pare_status s = PARE_OK;
    const struct dirent *e;
    while (s == PARE_OK && (e = readdir(d)) != NULL) {
        const char *const name = e->d_name;
        if (fnmatch(pattern, name, 0) == 0 &&
            !bsearch(&name, index->file, index->files, sizeof name, pare_by_text))
            s = pare_fail(ck->cx, PARE_EFORMAT, "%s: %s lies beside it, but is not in the index",
                          index_path, name);
    }
    (void)closedir(d);
    return s;
}

/* Others count total_size in various ways; our own index says what the tensors have. */
static pare_status check_total(pare_checkpoint *ck, const char *index_path,
                               const pare__index *index)
{
    uint64_t total = 0;
    for (size_t i = 0; i < ck->tensors; i++)
        total += ck->tensor[i].bytes;
    if (ck->packed && (index->total_size < 0 || (uint64_t)index->total_size != total))
        return pare_fail(ck->cx, PARE_EFORMAT,
                         "%s: metadata.total_size is %lld, the tensors have %llu bytes", index_path,
                         (long long)index->total_size, (unsigned long long)total);
    return PARE_OK;
}

static pare_status open_shards(pare_checkpoint *ck, pare_arena *a, const char *index_path,
                               const pare__index *index, const pare__container *kind)
{
    pare__shard *const shard = PARE_NEW(a, pare__shard, index->files);
    if (!shard)
        return PARE_ENOMEM;
    PARE_TRY(open_files(ck, a, index->file, index->files, kind, shard));
    PARE_TRY(pare__index_check(ck->cx, index_path, index, shard));
    return collect(ck, a, shard);
}

static pare_status open_indexed(pare_checkpoint *ck, pare_arena *a, const char *index_path,
                                const pare__container *kind)
{
    PARE_TRY(pare_watch_path(a, &ck->watch, index_path));
    PARE_TRY(read_json(ck, index_path, INDEX_MAX, &ck->index));
    if (ck->packed)
        PARE_TRY(pare_index_version_check(ck->cx, index_path, ck->index));
    pare__index index;
    PARE_TRY(pare__index_parse(ck->cx, a, index_path, ck->index, kind->ending[0], &index));
    PARE_TRY(check_present(ck, a, index_path, &index));
    PARE_TRY(check_strangers(ck, index_path, &index, kind));
    PARE_TRY(open_shards(ck, a, index_path, &index, kind));
    return check_total(ck, index_path, &index);
}

/* One file, or an index and its files, of the given kind; *found tells whether there is either. */
static pare_status open_kind(pare_checkpoint *ck, pare_arena *a, const pare__container *kind,
                             bool *found)
{
    char *const single = pare_path_join(a, ck->directory, kind->single);
    char *const index = kind->index ? pare_path_join(a, ck->directory, kind->index) : NULL;
    if (!single || (kind->index && !index))
        return PARE_ENOMEM;
    pare_path_kind is, index_is = PARE_PATH_ABSENT;
    PARE_TRY(pare_path_look(ck->cx, single, &is));
    if (index)
        PARE_TRY(pare_path_look(ck->cx, index, &index_is));
    *found = true;
    if (is == PARE_PATH_FILE && index_is == PARE_PATH_FILE)
        PARE_TRY(pare__checkpoint_refuse_two(ck, kind));
    if (is == PARE_PATH_FILE)
        return open_single(ck, a, kind->single, kind);
    if (index_is == PARE_PATH_FILE)
        return open_indexed(ck, a, index, kind);
    *found = false;
    return PARE_OK;
}

static const pare__container *stands_alone(const char *name)
{
    const pare_file file = {.path = (char *)name};
    const pare__container *const kind = pare__container_of(&file);
    return kind && kind->alone ? kind : NULL;
}

/* A file of any name, when it is the only one of a kind that brings its own configuration; parts of
 * one model count as one. */
static pare_status open_alone(pare_checkpoint *ck, pare_arena *a, bool *found)
{
    typedef struct seen {
        const struct seen *before;
        char *name;
    } seen;
    size_t count = 0;
    const seen *models = NULL;
    DIR *const d = opendir(ck->directory);
    if (!d)
        return pare_file_fail_input(ck->cx, ck->directory, "list");
    pare_status s = PARE_OK;
    for (const struct dirent *e = readdir(d); e && s == PARE_OK; e = readdir(d)) {
        const pare__container *const kind = stands_alone(e->d_name);
        const seen *with = kind && kind->together ? models : NULL;
        while (with && !kind->together(with->name, e->d_name))
            with = with->before;
        if (!kind || with)
            continue;
        seen *const own = PARE_NEW(a, seen, 1);
        if (own)
            *own = (seen){models, pare_arena_text(a, e->d_name, strlen(e->d_name))};
        s = own && own->name ? PARE_OK : PARE_ENOMEM;
        models = own;
        count++;
    }
    (void)closedir(d);
    PARE_TRY(s);
    *found = count > 0;
    if (count > 1)
        return pare_fail(ck->cx, PARE_EFORMAT,
                         "%s: %zu models of kind %s; name a file of one of them", ck->path, count,
                         stands_alone(models->name)->name);
    return models ? open_single(ck, a, models->name, stands_alone(models->name)) : PARE_OK;
}

/* Names what was looked for, so that a file of another name gets the right one. */
static pare_status refuse_without_weights(const pare_checkpoint *ck, pare_arena *a)
{
    char names[128] = "";
    size_t used = 0;
    const pare__container *kind;
    PARE_TRY(pare__checkpoint_refuse_absent(ck, a));
    for (size_t i = 0; (kind = pare__container_at(i)) != NULL; i++) {
        if (kind->single && used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                     kind->single);
    }
    return pare_fail(ck->cx, PARE_ENOTFOUND,
                     "%s: no weights: no file %s, no index of shards and no .gguf is there; a file "
                     "of another name can be given itself, instead of its directory",
                     ck->path, names);
}

static pare_status open_directory(pare_checkpoint *ck, pare_arena *a)
{
    bool found = false;
    char *const config = pare_path_join(a, ck->directory, config_name);
    char *const packed_index = pare_path_join(a, ck->directory, packed_index_name);
    pare_path_kind config_is, packed_is;
    if (!config || !packed_index)
        return PARE_ENOMEM;
    PARE_TRY(pare_path_look(ck->cx, config, &config_is));
    PARE_TRY(pare_path_look(ck->cx, packed_index, &packed_is));
    if (config_is != PARE_PATH_FILE)
        PARE_TRY(open_alone(ck, a, &found));
    if (found)
        return PARE_OK;
    if (config_is == PARE_PATH_ABSENT)
        PARE_TRY(pare__checkpoint_refuse_absent(ck, a));
    if (config_is == PARE_PATH_ABSENT)
        return pare_fail(ck->cx, PARE_ENOTFOUND,
                         "%s: no config.json and no .gguf file is there; a model is a directory "
                         "that has one of them, or a .gguf file",
                         ck->directory);
    PARE_TRY(read_config(ck, a, true));
    ck->packed = says_packed(ck->config);
    PARE_TRY(pare_checkpoint_version_check(ck));
    if (ck->packed) {
        if (packed_is != PARE_PATH_FILE)
            return pare_fail(ck->cx, PARE_EFORMAT,
                             "%s: missing, but config.json says that this is a packed model",
                             packed_index);
        return open_indexed(ck, a, packed_index, pare__container_at(0));
    }
    const pare__container *kind;
    for (size_t i = 0; !found && (kind = pare__container_at(i)) != NULL; i++) {
        if (kind->single)
            PARE_TRY(open_kind(ck, a, kind, &found));
    }
    if (!found)
        PARE_TRY(open_alone(ck, a, &found));
    if (found)
        return pare__checkpoint_refuse_adapter(ck, a, false);
    if (packed_is == PARE_PATH_FILE)
        return pare_fail(ck->cx, PARE_EFORMAT,
                         "%s: there, but config.json has no quantization_config of pare",
                         packed_index);
    return refuse_without_weights(ck, a);
}

static pare_status open_file(pare_checkpoint *ck, pare_arena *a)
{
    pare_file f; /* opening it says why not */
    PARE_TRY(pare_file_map(ck->cx, a, ck->path, &f));
    const pare__container *const kind = pare__container_of(&f);
    const bool archive =
        f.bytes >= PARE_ARCHIVE_HEAD && memcmp(f.data, pare_archive_head, PARE_ARCHIVE_HEAD) == 0;
    pare_file_unmap(&f);
    if (archive)
        return pare_fail(ck->cx, PARE_ENOTSUP,
                         "%s: an archive of \"pare pack\": unpack it with \"pare unpack\", and "
                         "give the directory that it writes",
                         ck->path);
    if (!kind)
        return pare_fail(ck->cx, PARE_ENOTSUP,
                         "%s: neither a directory nor a file of a known kind, by its name or by "
                         "its first bytes; of several files that belong together give the "
                         "directory",
                         ck->path);
    ck->directory = pare_path_directory(a, ck->path);
    if (!ck->directory)
        return PARE_ENOMEM;
    PARE_TRY(read_config(ck, a, false));
    PARE_TRY(pare_checkpoint_version_check(ck));
    const char *const slash = strrchr(ck->path, '/');
    return open_single(ck, a, slash ? slash + 1 : ck->path, kind);
}

static pare_status open_path(pare_checkpoint *ck, pare_arena *a)
{
    pare_path_kind is;
    PARE_TRY(pare_path_look(ck->cx, ck->path, &is));
    if (is == PARE_PATH_ABSENT && strlen(ck->path) <= TOLD_MOST && access(ck->path, F_OK) != 0 &&
        errno == ENOENT)
        return pare_fail(ck->cx, PARE_ENOTFOUND,
                         "%s: no such file or directory; a model is a path on this machine, pare "
                         "downloads none",
                         ck->path);
    if (is != PARE_PATH_DIRECTORY)
        return open_file(ck, a);
    ck->directory = ck->path;
    return open_directory(ck, a);
}

static pare_status open_any(pare_ctx *cx, pare_arena *a, const char *path, pare_checkpoint *ck)
{
    ck->cx = cx;
    pare_scratch_init(cx, &ck->scratch);
    ck->path = pare_arena_text(a, path, strlen(path));
    return ck->path ? open_path(ck, a) : PARE_ENOMEM;
}

/* Tensors of the files as the rest wants them. */
static pare_status convert(pare_checkpoint *ck, pare_arena *a)
{
    PARE_TRY(pare__checkpoint_names(ck, a));
    PARE_TRY(pare__quantized_read(ck, a));
    PARE_TRY(pare__plain_floats(ck, a));
    PARE_TRY(pare__checkpoint_arrange(ck, a));
    PARE_TRY(pare__expert_stack(ck, a));
    return pare__checkpoint_head(ck, a);
}

pare_status pare_checkpoint_open(pare_ctx *cx, pare_arena *a, const char *path, pare_checkpoint *ck)
{
    *ck = (pare_checkpoint){0};
    PARE_TRY(open_any(cx, a, path, ck));
    return convert(ck, a);
}

pare_status pare_checkpoint_open_to_run(pare_ctx *cx, pare_arena *a, const char *path,
                                        pare_checkpoint *ck)
{
    *ck = (pare_checkpoint){.runs = true};
    PARE_TRY(open_any(cx, a, path, ck));
    return convert(ck, a);
}

pare_status pare_checkpoint_open_plain(pare_ctx *cx, pare_arena *a, const char *path,
                                       pare_checkpoint *ck)
{
    *ck = (pare_checkpoint){0};
    return open_any(cx, a, path, ck);
}

pare_status pare_checkpoint_list(pare_ctx *cx, pare_arena *a, const char *path, pare_checkpoint *ck)
{
    *ck = (pare_checkpoint){.listed = true};
    PARE_TRY(open_any(cx, a, path, ck));
    return convert(ck, a);
}

void pare_checkpoint_close(pare_checkpoint *ck)
{
    for (size_t i = 0; i < ck->files; i++)
        pare_file_unmap(&ck->file[i]);
    pare_file_unmap(&ck->config_file);
    pare_json_free(ck->config);
    pare_json_free(ck->index);
    pare_scratch_close(&ck->scratch);
    *ck = (pare_checkpoint){.cx = ck->cx};
}
