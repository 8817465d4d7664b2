#include "compress/run/run_floats.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"

static pare_status open_floats(pare_run *run, const char *name, bool makes, pare_run_floats *out,
                               struct stat *st)
{
    const int how = makes ? O_RDWR | O_CREAT : O_RDONLY;
    *out =
        (pare_run_floats){.path = pare_path_join(run->a, run->plan->place.partial, name), .fd = -1};
    if (!out->path)
        return PARE_ENOMEM;
    out->fd = open(out->path, how | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (out->fd < 0)
        return pare_file_fail(run->cx, out->path, makes ? "create" : "open");
    if (fstat(out->fd, st) != 0)
        return pare_file_fail(run->cx, out->path, "look at");
    if (!S_ISREG(st->st_mode))
        return pare_fail(run->cx, PARE_EFORMAT, "%s: is not a regular file", out->path);
    return PARE_OK;
}

pare_status pare__floats_open(pare_run *run, const char *name, pare_run_floats *out)
{
    struct stat st;
    PARE_TRY(open_floats(run, name, true, out, &st));
    return pare_file_sync_parent(run->cx, out->path);
}

void pare__floats_close(pare_run_floats *f)
{
    pare_file_unmap(&f->map);
    if (f->path && f->fd >= 0)
        (void)close(f->fd);
    *f = (pare_run_floats){0};
}

static pare_leaf outside(const pare_run *run, size_t i)
{
    return pare_plan_outside(run->plan, &run->model, i - run->plan->linears);
}

size_t pare__floats_count(const pare_run *run, size_t i)
{
    if (i >= run->plan->linears) {
        const pare_leaf leaf = outside(run, i);
        return leaf.n * leaf.k;
    }
    const pare_plan_linear *const l = &run->settled.linear[i];
    return pare_plan_trains(run->plan, l) ? l->packed.n * l->packed.k : 0;
}

static size_t weight_bytes(const pare_run *run, size_t i)
{
    return pare__floats_count(run, i) * sizeof(float);
}

static size_t step_bytes(const pare_run *run, size_t i)
{
    return i < run->plan->linears
               ? pare_plan_beside(run->plan, &run->settled.linear[i]) * sizeof(float)
               : 0;
}

const char *pare__floats_name(const pare_run *run, size_t i)
{
    return i < run->plan->linears ? run->settled.linear[i].packed.name : outside(run, i).name;
}

/* Where i lies. */
static uint64_t place_of(const pare_run *run, size_t i)
{
    uint64_t at = 0;
    for (size_t j = 0; j < i; j++)
        if (pare__floats_count(run, j) > 0)
            at += weight_bytes(run, j) + step_bytes(run, j);
    return at;
}

static uint64_t all_bytes(const pare_run *run)
{
    return place_of(run, run->plan->linears + PARE_MODEL_LEAVES);
}

pare_status pare__floats_look(pare_run *run, const char *name, pare_run_floats *out)
{
    struct stat st;
    PARE_TRY(open_floats(run, name, false, out, &st));
    const uint64_t all = all_bytes(run), bytes = (uint64_t)st.st_size;
    return bytes >= all ? PARE_OK
                        : pare_fail(run->cx, PARE_EFORMAT,
                                    "%s: has %llu bytes here and %llu where process 0 wrote it: do "
                                    "all processes see the same folder?",
                                    out->path, (unsigned long long)bytes, (unsigned long long)all);
}

static void hash_of(const pare_run *run, size_t i, const float *w, const float *steps,
                    uint8_t hash[16])
{
    pare_xxh3_state state;
    pare_xxh3_begin(&state);
    pare_xxh3_add(&state, w, weight_bytes(run, i));
    if (steps)
        pare_xxh3_add(&state, steps, step_bytes(run, i));
    pare_xxh3_end(&state, hash);
}

pare_status pare__floats_put(pare_run *run, const pare_run_floats *f, size_t i, const float *w,
                             const float *steps, uint8_t hash[16])
{
    const uint64_t at = place_of(run, i);
    const size_t bytes = weight_bytes(run, i);
    hash_of(run, i, w, steps, hash);
    PARE_TRY(pare_file_put(run->cx, f->fd, f->path, w, bytes, at));
    return steps ? pare_file_put(run->cx, f->fd, f->path, steps, step_bytes(run, i), at + bytes)
                 : PARE_OK;
}

pare_status pare__floats_get(pare_run *run, const pare_run_floats *f, size_t i, float *w,
                             float *steps, const uint8_t hash[16])
{
    const size_t bytes = weight_bytes(run, i), more = step_bytes(run, i);
    const uint64_t at = place_of(run, i);
    uint8_t is[16];
    struct stat st;
    if (fstat(f->fd, &st) != 0)
        return pare_file_fail(run->cx, f->path, "look at");
    bool same = hash && (uint64_t)st.st_size >= at + bytes + more;
    if (same) {
        PARE_TRY(pare_file_get(run->cx, f->fd, f->path, w, bytes, at));
        if (steps)
            PARE_TRY(pare_file_get(run->cx, f->fd, f->path, steps, more, at + bytes));
        hash_of(run, i, w, steps, is);
        same = memcmp(is, hash, sizeof is) == 0;
    }
    return same ? PARE_OK
                : pare_fail(run->cx, PARE_EFORMAT, "%s: %s was damaged since it was written",
                            f->path, pare__floats_name(run, i));
}

pare_status pare__floats_sync(pare_run *run, const pare_run_floats *f)
{
    return pare_file_sync(run->cx, f->fd, f->path);
}

pare_status pare__floats_map(pare_run *run, pare_run_floats *f)
{
    return pare_file_map_shared(run->cx, f->fd, f->path, all_bytes(run), &f->map);
}

const float *pare__floats_at(const pare_run *run, const pare_run_floats *f, size_t i)
{
    return (const float *)(const void *)(f->map.data + place_of(run, i));
}

const uint8_t *pare__floats_hash(const pare_unit_result *unit, const char *linear)
{
    for (size_t i = 0; i < unit->kept_count; i++)
        if (strcmp(unit->kept[i].name, linear) == 0)
            return unit->kept[i].hash;
    return NULL;
}
