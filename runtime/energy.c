#include "runtime/energy.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/machine.h"

enum { PATH_MAX_TEXT = 512, NUMBER_TEXT = 32 };

/* intel-rapl:N is a package; intel-rapl:N:M is a part of one and would count twice. */
static bool is_package(const char *name)
{
    static const char prefix[] = "intel-rapl:";
    const size_t len = sizeof prefix - 1;
    if (strncmp(name, prefix, len) != 0 || name[len] == '\0')
        return false;
    for (const char *c = name + len; *c; c++)
        if (!isdigit((unsigned char)*c))
            return false;
    return true;
}

static bool read_number(int fd, uint64_t *out)
{
    char text[NUMBER_TEXT];
    const ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0 || text[0] < '0' || text[0] > '9')
        return false;
    text[n] = '\0';
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && (*end == '\n' || *end == '\0');
}

/* Opens DIRECTORY/NAME/FILE; -1 with errno. */
static int open_in(const char *directory, const char *name, const char *file)
{
    char path[PATH_MAX_TEXT];
    const int n = snprintf(path, sizeof path, "%s/%s/%s", directory, name, file);
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* That of the whole platform has the name of a package, and would count packages twice. */
static bool is_platform(const char *directory, const char *name)
{
    static const char platform[] = "psys";
    char text[sizeof platform] = "";
    const int fd = open_in(directory, name, "name");
    const ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof text - 1, 0);
    if (fd >= 0)
        (void)close(fd);
    return n > 0 && strcmp(text, platform) == 0;
}

/* Adds the counter of one package; false with errno when it cannot be read. */
static bool add_package(pare_energy *e, const char *directory, const char *name)
{
    const int range = open_in(directory, name, "max_energy_range_uj");
    uint64_t most = 0;
    const bool bounded = range >= 0 && read_number(range, &most);
    if (range >= 0)
        (void)close(range);
    const int fd = open_in(directory, name, "energy_uj");
    if (fd < 0)
        return false;
    uint64_t now;
    if (!read_number(fd, &now)) {
        (void)close(fd);
        errno = EIO;
        return false;
    }
    e->fd[e->count] = fd;
    e->last[e->count] = now;
    e->range[e->count++] = bounded ? most : 0;
    return true;
}

bool pare_energy_open(pare_energy *e, const char *directory, char *note, size_t size)
{
    *e = (pare_energy){.read_at = pare_seconds()};
    DIR *const d = opendir(directory);
    if (!d) {
        (void)snprintf(note, size, "%.80s: %s", directory, strerror(errno));
        return false;
    }
    bool readable = true;
    for (const struct dirent *entry; readable && (entry = readdir(d)) != NULL;)
        if (is_package(entry->d_name) && !is_platform(directory, entry->d_name) &&
            e->count < PARE_ENERGY_MAX)
            readable = add_package(e, directory, entry->d_name);
    const int reason = errno;
    (void)closedir(d);
    if (!readable)
        (void)snprintf(note, size, "a counter in %.80s cannot be read: %s", directory,
                       strerror(reason));
    else if (e->count == 0)
        (void)snprintf(note, size, "%.80s has no intel-rapl counter", directory);
    if (!readable)
        pare_energy_close(e);
    return e->count > 0;
}

/* What counter i has gone up by; false: nobody can tell. */
static bool count_up(pare_energy *e, size_t i, double seconds, uint64_t *used)
{
    static const double most = 1e9; /* microjoules in a second */
    const uint64_t last = e->last[i], range = e->range[i];
    uint64_t now;
    if (!read_number(e->fd[i], &now) || (range && seconds * most > (double)range))
        return false;
    *used = now >= last ? now - last : now + range - last;
    e->last[i] = now;
    return now >= last || now + range >= last;
}

double pare_energy_read(pare_energy *e)
{
    const double now = pare_seconds();
    for (size_t i = 0; i < e->count; i++) {
        uint64_t used;
        if (count_up(e, i, now - e->read_at, &used))
            e->joules += (double)used * 1e-6;
        else
            e->joules = (double)NAN;
    }
    e->read_at = now;
    return e->joules;
}

void pare_energy_poll(pare_energy *e)
{
    if (e && pare_seconds() - e->read_at > 5)
        (void)pare_energy_read(e);
}

double pare_energy_since(pare_energy *e, double since)
{
    const double used = e ? pare_energy_read(e) - since : 0;
    return isfinite(used) ? used : 0;
}

void pare_energy_close(pare_energy *e)
{
    for (size_t i = 0; i < e->count; i++)
        (void)close(e->fd[i]);
    e->count = 0;
}
