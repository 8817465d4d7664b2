/* Memory that this process can still have. */
#include <stdio.h>
#include <string.h>

#include "compress/bench/bench_model.h"
#include "compress/text/units.h"
#include "runtime/machine.h"
#include "runtime/room.h"

static void lower(uint64_t *free, const char **by, uint64_t bytes, const char *what)
{
    if (bytes < *free) {
        *free = bytes;
        *by = what;
    }
}

/* What a container leaves; cached files in its use can be dropped. */
static uint64_t container(const char *limit, const char *use, const char *stat, const char *cached)
{
    const uint64_t most = pare_machine_number(limit, ""), used = pare_machine_number(use, "");
    const uint64_t file = pare_machine_number(stat, cached);
    if (most == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    const uint64_t held = file != UINT64_MAX && file < used ? used - file : used;
    return most > held ? most - held : 0;
}

pare_status pare_bench_memory(pare_ctx *cx, uint64_t bytes, const char *what)
{
    uint64_t free = UINT64_MAX;
    const char *by = "";
    const uint64_t memory = pare_machine_number("/proc/meminfo", "MemAvailable:");
    if (memory < UINT64_MAX / 1024)
        lower(&free, &by, memory * 1024, "available on this machine");
    lower(&free, &by,
          container("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
                    "/sys/fs/cgroup/memory.stat", "inactive_file "),
          "left to this container");
    lower(&free, &by,
          container("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                    "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                    "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file "),
          "left to this container");
    pare_room room[PARE_ROOMS];
    pare_room_read(room);
    lower(&free, &by, pare_room_left(&room[PARE_ROOM_ADDRESS]),
          "left by the limit of the address space (ulimit -v)");
    lower(&free, &by, pare_room_left(&room[PARE_ROOM_DATA]),
          "left by the limit of the data segment (ulimit -d)");
    if (cx->limit_bytes)
        lower(&free, &by, cx->limit_bytes > cx->live_bytes ? cx->limit_bytes - cx->live_bytes : 0,
              "left by the limit that was asked for");
    if (bytes <= free)
        return PARE_OK;
    char need[PARE_UNIT_TEXT], have[PARE_UNIT_TEXT];
    return pare_fail(cx, PARE_ENOMEM, "%s needs %s of memory, %s are %s", what,
                     pare_units_bytes(bytes, need), pare_units_bytes(free, have), by);
}
