#include "tests/ptx/device_ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/threads.h"

typedef struct device_ptx {
    pare_device device; /* first */
    ptx_machine *machine;
    ptx_module *modules[256];
    size_t module_count;
    ptx_options run;
    size_t total, used, count; /* bytes; allocations that live */
    struct taken {
        pare_address at;
        size_t bytes;
    } * taken;
    FILE *counts;
    size_t graphs; /* that live */
} device_ptx;

static device_ptx *of(pare_device *d)
{
    return (device_ptx *)d;
}

ptx_machine *pare_device_ptx_machine(pare_device *d)
{
    return of(d)->machine;
}

static pare_status failed(pare_ctx *cx, const device_ptx *x)
{
    return pare_fail(cx, PARE_EDEVICE, "interpreter: %s", ptx_report(x->machine)->text);
}

static void give_up(const char *why, unsigned long long number)
{
    (void)fprintf(stderr, "interpreter: %s: %#llx\n", why, number);
    abort();
}

static pare_status memory(pare_ctx *cx, pare_device *d, size_t *left, size_t *total)
{
    (void)cx;
    *total = of(d)->total;
    *left = *total - of(d)->used;
    return PARE_OK;
}

static pare_status take(pare_ctx *cx, pare_device *d, size_t bytes, pare_address *at)
{
    device_ptx *const x = of(d);
    *at = bytes <= x->total - x->used ? ptx_take(x->machine, bytes) : 0;
    if (!*at)
        return pare_fail(cx, PARE_ENOMEM, "%s: no room for %zu bytes, %zu of %zu are free", d->name,
                         bytes, x->total - x->used, x->total);
    struct taken *const grown = realloc(x->taken, (x->count + 1) * sizeof *grown);
    if (!grown)
        return pare_fail(cx, PARE_ENOMEM, "%s: out of memory", d->name);
    x->taken = grown;
    x->taken[x->count++] = (struct taken){*at, bytes};
    x->used += bytes;
    return PARE_OK;
}

static void give(pare_ctx *cx, pare_device *d, pare_address at)
{
    device_ptx *const x = of(d);
    (void)cx;
    if (at == 0)
        return;
    size_t k = 0;
    while (k < x->count && x->taken[k].at != at)
        k++;
    if (k == x->count || !ptx_give(x->machine, at))
        give_up("memory is given back that was not taken", at);
    x->used -= x->taken[k].bytes;
    x->taken[k] = x->taken[--x->count];
}

static pare_status put(pare_ctx *cx, pare_device *d, pare_address to, const void *from,
                       size_t bytes)
{
    return ptx_put(of(d)->machine, to, from, bytes) ? PARE_OK : failed(cx, of(d));
}

static pare_status get(pare_ctx *cx, pare_device *d, void *to, pare_address from, size_t bytes)
{
    return ptx_get(of(d)->machine, to, from, bytes) ? PARE_OK : failed(cx, of(d));
}

static pare_status fill(pare_ctx *cx, pare_device *d, pare_address to, uint8_t byte, size_t bytes)
{
    return ptx_fill(of(d)->machine, to, byte, bytes) ? PARE_OK : failed(cx, of(d));
}

static pare_status copy(pare_ctx *cx, pare_device *d, pare_address to, pare_address from,
                        size_t bytes)
{
    return ptx_copy(of(d)->machine, to, from, bytes) ? PARE_OK : failed(cx, of(d));
}

static pare_status kernel(pare_ctx *cx, pare_device *d, const char *name, void **found)
{
    device_ptx *const x = of(d);
    for (size_t k = x->module_count; k-- > 0;) {
        const ptx_kernel *const one = ptx_find(x->modules[k], name);
        if (one) {
            *found = (void *)(uintptr_t)one; /* the table's handles are not const */
            return PARE_OK;
        }
    }
    return pare_fail(cx, PARE_EDEVICE, "%s has no kernel '%s'", d->name, name);
}

static void write_counts(device_ptx *x, const ptx_launch *l)
{
    const ptx_counts *const c = ptx_counted(x->machine);
    (void)fprintf(
        x->counts, "%s,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu\n",
        ptx_kernel_name(l->kernel), (unsigned long long)c->instructions,
        (unsigned long long)c->lanes, (unsigned long long)c->tensor, (unsigned long long)c->integer,
        (unsigned long long)c->floating, (unsigned long long)c->conversion,
        (unsigned long long)c->branch, (unsigned long long)c->divergent,
        (unsigned long long)c->asked, (unsigned long long)c->sectors,
        (unsigned long long)c->distinct, (unsigned long long)c->wavefronts,
        (unsigned long long)c->least, (unsigned long long)c->barriers);
    (void)fflush(x->counts);
}

static pare_status launch(pare_ctx *cx, pare_device *d, void *which, const pare_launch *l,
                          const void *arguments, size_t bytes)
{
    device_ptx *const x = of(d);
    const ptx_launch now = {.kernel = which,
                            .grid = {l->grid[0], l->grid[1], l->grid[2]},
                            .block = {l->block[0], l->block[1], l->block[2]},
                            .shared = l->shared,
                            .arguments = arguments,
                            .bytes = bytes,
                            .options = x->run};
    if (l->shared > d->shared)
        return pare_fail(cx, PARE_EDEVICE, "%s: kernel %s asks for %u bytes of shared memory",
                         d->name, ptx_kernel_name(which), l->shared);
    if (!ptx_run(x->machine, &now))
        return failed(cx, x);
    if (x->counts)
        write_counts(x, &now);
    return PARE_OK;
}

/* A graph keeps its calls. */
typedef struct kept {
    size_t count;
    pare_call call[];
} kept;

static void graph_drop(pare_ctx *cx, pare_device *d, void *graph)
{
    kept *const g = graph;
    (void)cx;
    of(d)->graphs--;
    for (size_t i = 0; i < g->count; i++)
        free((void *)(uintptr_t)g->call[i].arguments);
    free(g);
}

static pare_status graph_set(pare_ctx *cx, pare_device *d, void *graph, size_t i,
                             const pare_call *c)
{
    pare_call *const to = &((kept *)graph)->call[i];
    if (to->kernel && to->kernel != c->kernel)
        return pare_fail(cx, PARE_EDEVICE, "%s: another kernel in a graph", d->name);
    void *const copied = malloc(c->bytes ? c->bytes : 1);
    if (!copied)
        return pare_fail(cx, PARE_ENOMEM, "%s: out of memory", d->name);
    memcpy(copied, c->arguments, c->bytes);
    free((void *)(uintptr_t)to->arguments);
    *to = *c;
    to->arguments = copied;
    return PARE_OK;
}

static pare_status graph_make(pare_ctx *cx, pare_device *d, const pare_call *c, size_t count,
                              void **graph)
{
    kept *const g = calloc(1, sizeof *g + count * sizeof *g->call);
    *graph = g;
    if (!g)
        return pare_fail(cx, PARE_ENOMEM, "%s: out of memory", d->name);
    g->count = count;
    of(d)->graphs++;
    for (size_t i = 0; i < count; i++)
        PARE_TRY(graph_set(cx, d, g, i, &c[i]));
    return PARE_OK;
}

static pare_status graph_run(pare_ctx *cx, pare_device *d, void *graph)
{
    const kept *const g = graph;
    for (size_t i = 0; i < g->count; i++)
        PARE_TRY(launch(cx, d, g->call[i].kernel, &g->call[i].how, g->call[i].arguments,
                        g->call[i].bytes));
    return PARE_OK;
}

static pare_status wait_for_all(pare_ctx *cx, pare_device *d)
{
    (void)cx;
    (void)d;
    return PARE_OK; /* launches run at once */
}

static void release(device_ptx *x)
{
    if (x->counts)
        (void)fclose(x->counts);
    ptx_machine_free(x->machine);
    free(x->taken);
    free(x);
}

static void close_device(pare_ctx *cx, pare_device *d)
{
    (void)cx;
    if (of(d)->used)
        give_up("the device is closed while bytes of its memory are taken", of(d)->used);
    if (of(d)->graphs)
        give_up("the device is closed while it has graphs", of(d)->graphs);
    release(of(d));
}

static const pare_device_table table = {
    .memory = memory,
    .take = take,
    .give = give,
    .put = put,
    .get = get,
    .fill = fill,
    .copy = copy,
    .kernel = kernel,
    .launch = launch,
    .graph_make = graph_make,
    .graph_set = graph_set,
    .graph_run = graph_run,
    .graph_drop = graph_drop,
    .wait = wait_for_all,
    .close = close_device,
};

static pare_status add_text(pare_ctx *cx, device_ptx *x, const char *name, const char *text,
                            size_t bytes)
{
    if (x->module_count == sizeof x->modules / sizeof *x->modules)
        return pare_fail(cx, PARE_EINVAL, "more than %zu files of PTX", x->module_count);
    ptx_module *const m = ptx_load(x->machine, text, bytes);
    if (!m)
        return pare_fail(cx, PARE_EINVAL, "%s: %s", name, ptx_report(x->machine)->text);
    x->modules[x->module_count++] = m;
    return PARE_OK;
}

pare_status pare_device_ptx_replace(pare_ctx *cx, pare_device *d, const char *text, size_t bytes)
{
    return add_text(cx, of(d), "PTX", text, bytes);
}

static pare_status load(pare_ctx *cx, device_ptx *x, const char *path)
{
    FILE *const f = fopen(path, "rb");
    if (!f)
        return pare_fail(cx, PARE_EINVAL, "'%s' cannot be opened", path);
    char *text = NULL;
    size_t n = 0, room = 0;
    do {
        room += 1 << 20;
        text = realloc(text, room);
        if (!text)
            abort();
        n += fread(text + n, 1, room - n, f);
    } while (n == room);
    (void)fclose(f);
    const pare_status s = add_text(cx, x, path, text, n);
    free(text);
    return s;
}

static pare_status load_all(pare_ctx *cx, device_ptx *x, const char *files)
{
    while (*files) {
        char path[4096];
        const size_t n = strcspn(files, ":");
        if (n >= sizeof path)
            return pare_fail(cx, PARE_EINVAL, "the name of a file of PTX is too long");
        memcpy(path, files, n);
        path[n] = 0;
        PARE_TRY(load(cx, x, path));
        files += n + (files[n] == ':');
    }
    return PARE_OK;
}

/* A machine with the kernels of files. */
static pare_status read_files(pare_ctx *cx, const char *files, device_ptx **d)
{
    device_ptx *const x = calloc(1, sizeof *x);
    *d = NULL;
    if (!x)
        return pare_fail(cx, PARE_ENOMEM, "out of memory");
    x->machine = ptx_machine_new();
    const pare_status s = load_all(cx, x, files);
    if (s == PARE_OK)
        *d = x;
    else
        release(x);
    return s;
}

static struct {
    device_ptx *device;
    const char *files;
} ahead;

pare_status pare_device_ptx_read_ahead(pare_ctx *cx, const char *files)
{
    ahead.files = files;
    return read_files(cx, files, &ahead.device);
}

pare_status pare_device_ptx_open(pare_ctx *cx, const char *files,
                                 const pare_device_ptx_options *options, pare_device **d)
{
    device_ptx *x = ahead.device && strcmp(files, ahead.files) == 0 ? ahead.device : NULL;
    *d = NULL;
    if (x)
        ahead.device = NULL;
    else
        PARE_TRY(read_files(cx, files, &x));
    x->device = (pare_device){.op = &table,
                              .name = "interpreter of PTX",
                              .major = 8,
                              .processors = 4,
                              .shared = (size_t)163 << 10};
    x->run = options->run;
    x->total = options->memory ? options->memory : (size_t)64 << 30;
    if (options->counts && !(x->counts = fopen(options->counts, "a"))) {
        release(x);
        return pare_fail(cx, PARE_EINVAL, "'%s' cannot be opened", options->counts);
    }
    *d = &x->device;
    return PARE_OK;
}

/* The index of the word of a variable in a list ended by NULL; 0 if it is not set. */
static pare_status choice(pare_ctx *cx, const char *variable, const char *const *words, int *index)
{
    const char *const value = getenv(variable);
    *index = 0;
    if (!value || !*value)
        return PARE_OK;
    for (; words[*index]; ++*index)
        if (strcmp(words[*index], value) == 0)
            return PARE_OK;
    return pare_fail(cx, PARE_EINVAL, "%s: '%s' is not known", variable, value);
}

static pare_status number(pare_ctx *cx, const char *variable, uint64_t *n, bool *set)
{
    const char *const value = getenv(variable);
    char *end = NULL;
    *set = value && *value;
    if (*set)
        *n = strtoull(value, &end, 10);
    if (*set && *end)
        return pare_fail(cx, PARE_EINVAL, "%s: '%s' is not a number", variable, value);
    return PARE_OK;
}

pare_status pare_device_ptx_environment(pare_ctx *cx, pare_device_ptx_options *options)
{
    static const char *const checks[] = {"light", "full", NULL};
    static const char *const models[] = {"exact", "a100", "h100", NULL};
    static const char *const orders[] = {"turn", "ascending", "descending", "random", NULL};
    uint64_t seed = 0, threads = pare_cpu_count(), bytes = 0, early = 0;
    bool seeded = false, set = false;
    int check, model, order;
    PARE_TRY(choice(cx, "PARE_PTX_CHECKS", checks, &check));
    PARE_TRY(choice(cx, "PARE_PTX_MODEL", models, &model));
    PARE_TRY(choice(cx, "PARE_PTX_ORDER", orders, &order));
    PARE_TRY(number(cx, "PARE_PTX_SEED", &seed, &seeded));
    PARE_TRY(number(cx, "PARE_PTX_THREADS", &threads, &set));
    PARE_TRY(number(cx, "PARE_PTX_MEMORY", &bytes, &set));
    PARE_TRY(number(cx, "PARE_PTX_EARLY", &early, &set));
    const char *const counts = getenv("PARE_PTX_COUNTS");
    *options = (pare_device_ptx_options){.run = {.checks = (ptx_checks)check,
                                                 .order = seeded ? PTX_RANDOM : (ptx_order)order,
                                                 .seed = seed,
                                                 .model = (ptx_model)model,
                                                 .early = early != 0,
                                                 .count = counts != NULL,
                                                 .threads = (unsigned)threads},
                                         .memory = bytes,
                                         .counts = counts};
    return PARE_OK;
}
