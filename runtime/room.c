#include "runtime/room.h"

#include <sys/resource.h>

#include "runtime/machine.h"

static pare_room read_one(const char *name, int resource, const char *key)
{
    struct rlimit r;
    if (getrlimit(resource, &r) != 0 || r.rlim_cur == RLIM_INFINITY)
        return (pare_room){name, UINT64_MAX, 0};
    const uint64_t limit = (uint64_t)r.rlim_cur;
    const uint64_t kib = pare_machine_number("/proc/self/status", key);
    return (pare_room){name, limit, kib > UINT64_MAX / 1024 ? limit : kib * 1024};
}

void pare_room_read(pare_room room[PARE_ROOMS])
{
    room[PARE_ROOM_ADDRESS] = read_one("address space (ulimit -v)", RLIMIT_AS, "VmSize:");
    room[PARE_ROOM_DATA] = read_one("data segment (ulimit -d)", RLIMIT_DATA, "VmData:");
}

uint64_t pare_room_left(const pare_room *room)
{
    if (room->limit == UINT64_MAX)
        return UINT64_MAX;
    return room->limit > room->used ? room->limit - room->used : 0;
}

const pare_room *pare_room_least(const pare_room room[PARE_ROOMS])
{
    const pare_room *const address = &room[PARE_ROOM_ADDRESS], *const data = &room[PARE_ROOM_DATA];
    const pare_room *const least = pare_room_left(data) < pare_room_left(address) ? data : address;
    return least->limit == UINT64_MAX ? NULL : least;
}

pare_status pare_room_check(pare_ctx *cx, uint64_t bytes, const char *what, const char *remedy)
{
    pare_room room[PARE_ROOMS];
    pare_room_read(room);
    const pare_room *const least = pare_room_least(room);
    if (!least || bytes <= pare_room_left(least))
        return PARE_OK;
    return pare_fail(cx, PARE_ENOMEM,
                     "%s: %.1f MiB are needed and the limit of the %s is %.1f MiB; raise it%s%s",
                     what, ((double)least->used + (double)bytes) / 0x1p20, least->name,
                     (double)least->limit / 0x1p20, remedy ? ", or " : "", remedy ? remedy : "");
}
