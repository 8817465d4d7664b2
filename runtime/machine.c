#define _GNU_SOURCE /* sched_getaffinity */
#include "runtime/machine.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Where a hierarchy of control groups that knows about CPU time may be mounted. */
static const char *const mounts_v2[] = {"sys/fs/cgroup", "sys/fs/cgroup/unified", NULL};
static const char *const mounts_v1[] = {"sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/cpu", NULL};

/* The mask holds 8192 CPUs; a call with less room than the system's mask fails. */
typedef struct cpu_mask {
    cpu_set_t set[8];
} cpu_mask;

typedef char text_buffer[256];

static bool joined(char *path, const char *root, const char *first, const char *rest,
                   const char *name)
{
    const int n = snprintf(path, PATH_MAX, "%s/%s%s/%s", root, first, rest, name);
    return n > 0 && n < PATH_MAX;
}

/* The first bytes of a small file; false when it cannot be read. */
static bool read_text(const char *path, text_buffer text)
{
    FILE *const f = fopen(path, "r");
    if (!f)
        return false;
    const size_t n = fread(text, 1, sizeof(text_buffer) - 1, f);
    (void)fclose(f);
    text[n] = '\0';
    return n > 0;
}

double pare_machine_quota(const char *text)
{
    char *end;
    const long long quota = strtoll(text, &end, 10);
    if (end == text || quota <= 0)
        return 0;
    const char *const second = end;
    const long long period = strtoll(second, &end, 10);
    return end == second || period <= 0 ? 0 : (double)quota / (double)period;
}

static double quota_v2(const char *root, const char *mount, const char *group)
{
    char path[PATH_MAX];
    text_buffer text;
    if (!joined(path, root, mount, group, "cpu.max") || !read_text(path, text))
        return 0;
    return pare_machine_quota(text);
}

static double quota_v1(const char *root, const char *mount, const char *group)
{
    char path[PATH_MAX];
    text_buffer quota, period;
    char both[2 * sizeof(text_buffer)];
    if (!joined(path, root, mount, group, "cpu.cfs_quota_us") || !read_text(path, quota) ||
        !joined(path, root, mount, group, "cpu.cfs_period_us") || !read_text(path, period))
        return 0;
    (void)snprintf(both, sizeof both, "%s %s", quota, period);
    return pare_machine_quota(both);
}

/* The least quota of a group and all above it. A container may see its own group as the mount and
 * yet be told the path that the host uses: the part of it that is not there limits nothing. */
static double least_quota(const char *root, const char *mount, const char *group, bool v2)
{
    char at[PATH_MAX];
    double least = 0;
    const int n = snprintf(at, sizeof at, "%s", group);
    if (n < 0 || (size_t)n >= sizeof at)
        return 0;
    for (char *last = at + n;; last = strrchr(at, '/')) {
        if (last)
            *last = '\0';
        const double quota = v2 ? quota_v2(root, mount, at) : quota_v1(root, mount, at);
        least = quota > 0 && (least == 0 || quota < least) ? quota : least;
        if (!last || *at == '\0')
            return least;
    }
}

/* True for a list such as "cpuacct,cpu" that has the word. */
static bool names(const char *list, size_t len, const char *word)
{
    const size_t want = strlen(word);
    for (size_t at = 0; at < len;) {
        const char *const comma = memchr(list + at, ',', len - at);
        const size_t stop = comma ? (size_t)(comma - list) : len;
        if (stop - at == want && memcmp(list + at, word, want) == 0)
            return true;
        at = stop + 1;
    }
    return false;
}

/* One line of proc/self/cgroup, "ID:CONTROLLERS:PATH"; version 2 has no controllers. */
static double quota_of_line(const char *root, char *line)
{
    char *const controllers = strchr(line, ':');
    char *const path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path || path[1] != '/')
        return 0;
    path[1 + strcspn(path + 1, "\n")] = '\0';
    const size_t len = (size_t)(path - controllers - 1);
    const bool v2 = len == 0;
    if (!v2 && !names(controllers + 1, len, "cpu"))
        return 0;
    double least = 0;
    for (const char *const *mount = v2 ? mounts_v2 : mounts_v1; *mount; mount++) {
        const double quota = least_quota(root, *mount, path + 1, v2);
        least = quota > 0 && (least == 0 || quota < least) ? quota : least;
    }
    return least;
}

static double read_quota(const char *root)
{
    char path[PATH_MAX], line[PATH_MAX];
    if (!joined(path, root, "proc/self", "", "cgroup"))
        return 0;
    FILE *const f = fopen(path, "r");
    double least = 0;
    while (f && fgets(line, sizeof line, f)) {
        const double quota = quota_of_line(root, line);
        least = quota > 0 && (least == 0 || quota < least) ? quota : least;
    }
    if (f)
        (void)fclose(f);
    return least;
}

/* Calls `see` for the numbers of a list such as "0-3,8"; true once a call was. */
static bool any_of_list(const char *list, bool (*see)(const void *self, size_t number),
                        const void *self)
{
    for (const char *p = list; *p >= '0' && *p <= '9';) {
        char *end;
        const unsigned long first = strtoul(p, &end, 10);
        const unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
        for (unsigned long i = first; i <= last && i < sizeof(cpu_mask) * CHAR_BIT; i++)
            if (see(self, i))
                return true;
        p = *end == ',' ? end + 1 : end;
    }
    return false;
}

static bool cpu_is_ours(const void *self, size_t cpu)
{
    const cpu_mask *const m = self;
    return CPU_ISSET_S(cpu, sizeof m->set, m->set);
}

typedef struct node_count {
    const char *root;
    const cpu_mask *mask;
    size_t *nodes;
} node_count;

static bool count_node(const void *self, size_t node)
{
    const node_count *const c = self;
    char path[PATH_MAX];
    text_buffer list;
    const int n =
        snprintf(path, sizeof path, "%s/sys/devices/system/node/node%zu/cpulist", c->root, node);
    if (n > 0 && (size_t)n < sizeof path && read_text(path, list))
        *c->nodes += any_of_list(list, cpu_is_ours, c->mask);
    return false;
}

static size_t read_nodes(const char *root, const cpu_mask *mask)
{
    char path[PATH_MAX];
    text_buffer list;
    size_t nodes = 0;
    const node_count count = {root, mask, &nodes};
    if (joined(path, root, "sys/devices/system/node", "", "online") && read_text(path, list))
        (void)any_of_list(list, count_node, &count);
    return nodes > 0 ? nodes : 1;
}

void pare_machine_read(const char *root, pare_machine *m)
{
    cpu_mask mask = {0};
    const int seen = sched_getaffinity(0, sizeof mask.set, mask.set) == 0
                         ? CPU_COUNT_S(sizeof mask.set, mask.set)
                         : 1;
    *m = (pare_machine){.cpus = seen > 0 ? (size_t)seen : 1, .quota = read_quota(root)};
    m->nodes = read_nodes(root, &mask);
    m->threads = m->cpus;
    if (m->quota > 0 && ceil(m->quota) < (double)m->cpus)
        m->threads = (size_t)ceil(m->quota);
}

uint64_t pare_machine_number(const char *path, const char *key)
{
    char line[256];
    uint64_t value = UINT64_MAX;
    FILE *const f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *const digits = line + strlen(key) + strspn(line + strlen(key), " \t");
        char *end;
        errno = 0;
        const unsigned long long number = strtoull(digits, &end, 10);
        if (errno == 0 && end != digits)
            value = number;
        break;
    }
    if (f)
        (void)fclose(f);
    return value;
}

uint64_t pare_machine_peak_resident(void)
{
    const uint64_t kib = pare_machine_number("/proc/self/status", "VmHWM:");
    return kib == UINT64_MAX ? 0 : kib * 1024;
}

double pare_seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
