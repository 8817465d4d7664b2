#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "compress/cli/cli.h"
#include "compress/plan/plan_limits.h"
#include "compress/text/units.h"
#include "runtime/device.h"
#include "runtime/linalg.h"
#include "runtime/machine.h"
#include "runtime/room.h"
#include "runtime/threads.h"

static const uint64_t UNLIMITED = UINT64_MAX;

typedef struct findings {
    const char *cpu, *blas;
    unsigned cpu_bits; /* of the processor, whatever level was asked for */
    pare_machine machine;
    uint64_t memory, memory_available, cgroup_limit; /* 0: not known */
    uint64_t limit_address, limit_data, limit_file, limit_files, disk_free;
    pare_memory_limit limit; /* the one that counts */
    bool runs;               /* with threads and BLAS */
    char why_not[1024];      /* when it does not */
    char gpu[256];           /* its name; empty: none that can be used, and why: */
    char no_gpu[1024];
    unsigned major, minor; /* its compute capability */
    size_t gpu_free, gpu_memory;
    size_t packages; /* of processors whose energy can be read; 0: none, and why: */
    char no_energy[160];
} findings;

static uint64_t limit_of(int resource)
{
    struct rlimit r;
    return getrlimit(resource, &r) == 0 && r.rlim_cur != RLIM_INFINITY ? (uint64_t)r.rlim_cur
                                                                       : UNLIMITED;
}

/* 0 when it is not known. */
static uint64_t known(const char *path, const char *key)
{
    const uint64_t value = pare_machine_number(path, key);
    return value == UINT64_MAX ? 0 : value;
}

/* Whether the threads of `compress` fit under the limits of the shell. */
static void try_room(findings *f)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    const size_t threads =
        f->machine.threads < PARE_THREADS_MAX ? f->machine.threads : PARE_THREADS_MAX;
    char what[64];
    (void)snprintf(what, sizeof what, "%zu thread%s", threads, pare_plural(threads));
    f->runs = pare_room_check(&cx, pare_pool_room(threads), what,
                              threads == 1 ? NULL : "give a smaller --threads") == PARE_OK;
    (void)snprintf(f->why_not, sizeof f->why_not, "%s", cx.what);
}

/* The GPU is opened as a command does that computes on it. */
static void try_gpu(findings *f)
{
    pare_ctx cx;
    pare_device *d;
    pare_ctx_init(&cx);
    pare_status s = pare_device_open(&cx, &d);
    if (s == PARE_OK) {
        s = d->op->memory(&cx, d, &f->gpu_free, &f->gpu_memory);
        if (s == PARE_OK)
            (void)snprintf(f->gpu, sizeof f->gpu, "%s", d->name);
        f->major = d->major;
        f->minor = d->minor;
        d->op->close(&cx, d);
    }
    (void)snprintf(f->no_gpu, sizeof f->no_gpu, "%s", cx.what);
}

static void try_energy(findings *f)
{
    pare_energy e;
    if (pare_energy_open(&e, PARE_POWERCAP, f->no_energy, sizeof f->no_energy))
        f->packages = e.count;
    pare_energy_close(&e);
}

static findings examine(const pare_ctx *cx)
{
    struct statvfs disk;
    pare_machine machine;
    pare_machine_read("", &machine);
    findings f = {
        .cpu = pare_cpu_name(cx->cpu),
        .cpu_bits = pare_cpu_detect(),
        .blas = pare_blas_name(),
        .machine = machine,
        .memory = known("/proc/meminfo", "MemTotal:") * 1024,
        .memory_available = known("/proc/meminfo", "MemAvailable:") * 1024,
        .cgroup_limit = known("/sys/fs/cgroup/memory.max", ""),
        .limit_address = limit_of(RLIMIT_AS),
        .limit_data = limit_of(RLIMIT_DATA),
        .limit_file = limit_of(RLIMIT_FSIZE),
        .limit_files = limit_of(RLIMIT_NOFILE),
        .disk_free = statvfs(".", &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : 0,
        .limit = pare_memory_limit_find((pare_memory_limit){0}, 0, 0),
    };
    try_room(&f);
    try_gpu(&f);
    try_energy(&f);
    return f;
}

static void print_bytes(const char *what, uint64_t bytes)
{
    char text[PARE_UNIT_TEXT];
    (void)printf("%-18s %s\n", what,
                 bytes == UNLIMITED ? "none"
                 : bytes            ? pare_units_bytes(bytes, text)
                                    : "not known");
}

/* The level in use, then all that PARE_CPU may name here. */
static void print_levels(const findings *f)
{
    (void)printf("%-18s %s (of ", "kernels", f->cpu);
    for (size_t i = 0; i < PARE_CPU_LEVELS; i++)
        if ((pare_cpu_levels[i].cpu & ~f->cpu_bits) == 0)
            (void)printf("%s%s", i ? ", " : "", pare_cpu_levels[i].name); /* the first is ref */
    (void)printf("; PARE_CPU chooses)\n");
}

static void print_gpu(const findings *f)
{
    char all[PARE_UNIT_TEXT], free[PARE_UNIT_TEXT];
    if (*f->gpu)
        (void)printf("%-18s %s, compute capability %u.%u, %s, of which %s are free\n", "GPU",
                     f->gpu, f->major, f->minor, pare_units_bytes(f->gpu_memory, all),
                     pare_units_bytes(f->gpu_free, free));
    else
        (void)printf("%-18s none: %s\n", "GPU", f->no_gpu);
}

static void print_text(const findings *f)
{
    const pare_machine *const m = &f->machine;
    (void)printf("%-18s pare " PARE_VERSION "\n", "program");
    print_levels(f);
    (void)printf("%-18s %zu\n", "CPUs", m->cpus);
    if (m->quota > 0)
        (void)printf("%-18s %.2f CPUs, by control groups\n", "CPU time", m->quota);
    else
        (void)printf("%-18s not limited\n", "CPU time");
    (void)printf("%-18s %zu\n%-18s %zu\n%-18s %s\n", "threads", m->threads, "memory nodes",
                 m->nodes, "BLAS", f->blas);
    (void)printf("%-18s " PARE_LIBRARY_VERSIONS "\n", "libraries");
    print_bytes("memory", f->memory);
    print_bytes("memory available", f->memory_available);
    print_bytes("container limit", f->cgroup_limit ? f->cgroup_limit : UNLIMITED);
    print_bytes("limit: addresses", f->limit_address);
    print_bytes("limit: data", f->limit_data);
    char bytes[PARE_UNIT_TEXT];
    (void)printf("%-18s %s, of %s\n", "limit that counts", pare_units_bytes(f->limit.bytes, bytes),
                 f->limit.name);
    (void)printf("%-18s %s%s\n", "compress can run", f->runs ? "yes" : "no: ", f->why_not);
    print_bytes("limit: file size", f->limit_file);
    if (f->limit_files != UNLIMITED)
        (void)printf("%-18s %llu\n", "limit: open files", (unsigned long long)f->limit_files);
    print_bytes("free disk here", f->disk_free);
    print_gpu(f);
    if (f->packages)
        (void)printf("%-18s of %zu package%s, whole machine\n", "energy", f->packages,
                     pare_plural(f->packages));
    else
        (void)printf("%-18s not known: %s (many kernels show it to root only)\n", "energy",
                     f->no_energy);
}

static void put_limit(pare_json_writer *w, const char *key, uint64_t value)
{
    if (value == UNLIMITED || value > INT64_MAX)
        pare_json_put_null(w, key);
    else
        pare_json_put_integer(w, key, (int64_t)value);
}

static void put_gpu(pare_json_writer *w, const findings *f)
{
    if (!*f->gpu) {
        pare_json_put_null(w, "gpu");
        pare_json_put_text(w, "no_gpu_because", f->no_gpu);
        return;
    }
    pare_json_open_object(w, "gpu");
    pare_json_put_text(w, "name", f->gpu);
    pare_json_put_integer(w, "major", (int64_t)f->major);
    pare_json_put_integer(w, "minor", (int64_t)f->minor);
    pare_json_put_integer(w, "memory_bytes", (int64_t)f->gpu_memory);
    pare_json_put_integer(w, "memory_free_bytes", (int64_t)f->gpu_free);
    pare_json_close(w);
}

static pare_status print_json(pare_cli *cli, const findings *f)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "program", "pare " PARE_VERSION);
    pare_json_put_text(w, "cpu_level", f->cpu);
    pare_json_open_array(w, "cpu_levels");
    for (size_t i = 0; i < PARE_CPU_LEVELS; i++)
        if ((pare_cpu_levels[i].cpu & ~f->cpu_bits) == 0)
            pare_json_put_text(w, NULL, pare_cpu_levels[i].name);
    pare_json_close(w);
    pare_json_put_integer(w, "cpus", (int64_t)f->machine.cpus);
    if (f->machine.quota > 0)
        pare_json_put_number(w, "cpu_quota", f->machine.quota);
    else
        pare_json_put_null(w, "cpu_quota");
    pare_json_put_integer(w, "threads", (int64_t)f->machine.threads);
    pare_json_put_integer(w, "memory_nodes", (int64_t)f->machine.nodes);
    pare_json_put_text(w, "blas", f->blas);
    pare_json_put_text(w, "libraries", PARE_LIBRARY_VERSIONS);
    put_limit(w, "memory_bytes", f->memory ? f->memory : UNLIMITED);
    put_limit(w, "memory_available_bytes", f->memory_available ? f->memory_available : UNLIMITED);
    put_limit(w, "container_limit_bytes", f->cgroup_limit ? f->cgroup_limit : UNLIMITED);
    put_limit(w, "limit_address_bytes", f->limit_address);
    put_limit(w, "limit_data_bytes", f->limit_data);
    put_limit(w, "limit_bytes", f->limit.bytes);
    pare_json_put_text(w, "limit", f->limit.name);
    pare_json_put_bool(w, "compress_can_run", f->runs);
    if (!f->runs)
        pare_json_put_text(w, "compress_cannot_run_because", f->why_not);
    put_limit(w, "limit_file_bytes", f->limit_file);
    put_limit(w, "limit_open_files", f->limit_files);
    put_limit(w, "disk_free_bytes", f->disk_free);
    put_gpu(w, f);
    pare_json_put_integer(w, "energy_packages", (int64_t)f->packages);
    if (!f->packages)
        pare_json_put_text(w, "no_energy_because", f->no_energy);
    pare_json_close(w);
    return pare_cli_print(w);
}

pare_status pare_doctor_run(pare_cli *cli, const pare_args *args)
{
    (void)args;
    findings f = examine(&cli->cx); /* no thread is begun: where that fails, this page says why */
    if (cli->threads)
        f.machine.threads = cli->threads;
    if (cli->json)
        return print_json(cli, &f);
    print_text(&f);
    return PARE_OK;
}
