/* What bounds the memory of a job: what was asked for, the machine, the container, the shell. */
#include <unistd.h>

#include "compress/plan/plan_internal.h"
#include "runtime/machine.h"
#include "runtime/product.h"
#include "runtime/room.h"
#include "runtime/threads.h"

/* Kept back under a limit of the shell: parsed JSON, tables of the tokenizer, what the allocator of
 * the system cannot give back. */
static const uint64_t shell_reserve = (uint64_t)16 << 20;

static void lower(pare_memory_limit *limit, const char *name, uint64_t bytes)
{
    if (bytes < limit->bytes)
        *limit = (pare_memory_limit){name, bytes};
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Of the machine or of the container that the process runs in, whichever has less. */
static pare_memory_limit physical(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    static const char *const container[] = {"/sys/fs/cgroup/memory.max",
                                            "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    pare_memory_limit limit = {"the machine", UINT64_MAX};
    if (pages > 0 && page > 0)
        limit.bytes = (uint64_t)pages * (uint64_t)page;
    for (size_t i = 0; i < sizeof container / sizeof *container; i++)
        lower(&limit, "the container", pare_machine_number(container[i], ""));
    return limit;
}

pare_memory_limit pare_memory_limit_find(pare_memory_limit asked, uint64_t held, uint64_t mapped)
{
    pare_memory_limit limit = physical();
    if (asked.bytes)
        lower(&limit, asked.name, asked.bytes);
    else if (limit.bytes != UINT64_MAX)
        limit.bytes = limit.bytes / 4 * 3; /* others live here, too */
    pare_room room[PARE_ROOMS];
    pare_room_read(room);
    for (size_t i = 0; i < PARE_ROOMS; i++) {
        const uint64_t left = pare_room_left(&room[i]);
        const uint64_t files = i == PARE_ROOM_ADDRESS ? mapped : 0;
        if (left != UINT64_MAX)
            lower(&limit, room[i].name, held + less(less(left, shell_reserve), files));
    }
    return limit;
}

uint64_t pare_process_bytes(const pare_ctx *cx, size_t columns)
{
    /* Of a thread: weights and sums that a product of floats keeps there, in registers of 512 bits
     * or shorter ones, are most of it. */
    enum { WIDE_STACK = 400 << 10, STACK = 208 << 10 };
    const size_t stack = cx->cpu & PARE_CPU_AVX512 ? WIDE_STACK : STACK;
    return PARE_PROGRAM_BYTES + pare_threads(cx) * (stack + pare_product_bytes(columns));
}

uint64_t pare__plan_largest_export(const pare_plan *plan)
{
    uint64_t most = 0;
    for (size_t i = 0; i < plan->exports; i++)
        if (plan->export[i].result.bytes > most)
            most = plan->export[i].result.bytes;
    return most;
}

pare_memory_limit pare__plan_limit(const pare_plan *plan, uint64_t packed_bytes, uint64_t held)
{
    const pare_job *const job = plan->job;
    const pare_memory_limit asked = {job->ram_limit ? "--ram-limit" : "\"limits\" of the recipe",
                                     job->ram_limit ? job->ram_limit : plan->recipe.ram_limit};
    /* The output as it is filled and as it is evaluated or exported; what was exported, read back.
     * The input is mapped already. */
    return pare_memory_limit_find(asked, held, 2 * packed_bytes + pare__plan_largest_export(plan));
}
