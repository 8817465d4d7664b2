#define _GNU_SOURCE /* sched_getaffinity */
#include "runtime/machine.h"

#include <math.h>
#include <sched.h>

#include "runtime/arena.h"
#include "tests/unit/folder.h"

static const struct quota_text {
    const char *text;
    double quota;
} quota_texts[] = {
    {"max 100000\n", 0},
    {"150000 100000\n", 1.5},
    {"100000 100000", 1},
    {"5000 100000", 0.05},
    {"-1\n 100000\n", 0}, /* version 1 says "none" like this */
    {"200000\n 100000\n", 2},
    {"", 0},
    {"garbage", 0},
    {"150000", 0},
    {"150000 0", 0},
    {"150000 -100000", 0},
    {"150000 max", 0},
    {"0 100000", 0},
    {"99999999999999999999 1", 9223372036854775807.0},
};

START_TEST(a_quota_is_two_positive_numbers)
{
    ck_assert_double_eq(pare_machine_quota(quota_texts[_i].text), quota_texts[_i].quota);
}
END_TEST

/* A system with one file besides the folders on the way to it. */
typedef struct file_text {
    const char *name, *text;
} file_text;

enum { FILES_MAX = 8 };

static const struct group_case {
    const char *what;
    file_text file[FILES_MAX];
    double quota;
} group_cases[] = {
    {"nothing to read", {{NULL, NULL}}, 0},
    {"no file of the group itself", {{"proc/self/cgroup", "0::/a\n"}}, 0},
    {"version 2, own group",
     {{"proc/self/cgroup", "0::/a/b\n"}, {"sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"}},
     1.5},
    {"version 2, a group above is tighter",
     {{"proc/self/cgroup", "0::/a/b\n"},
      {"sys/fs/cgroup/a/b/cpu.max", "400000 100000\n"},
      {"sys/fs/cgroup/a/cpu.max", "250000 100000\n"},
      {"sys/fs/cgroup/cpu.max", "300000 100000\n"}},
     2.5},
    {"version 2, a group above has no limit",
     {{"proc/self/cgroup", "0::/a/b\n"},
      {"sys/fs/cgroup/a/b/cpu.max", "50000 100000\n"},
      {"sys/fs/cgroup/a/cpu.max", "max 100000\n"}},
     0.5},
    {"the container's group is the mount",
     {{"proc/self/cgroup", "0::/host/path\n"}, {"sys/fs/cgroup/cpu.max", "300000 100000\n"}},
     3},
    {"a namespace of its own",
     {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "100000 100000\n"}},
     1},
    {"another group's limit is not ours",
     {{"proc/self/cgroup", "0::/a\n"}, {"sys/fs/cgroup/b/cpu.max", "100000 100000\n"}},
     0},
    {"version 1",
     {{"proc/self/cgroup", "3:cpuset:/x\n2:cpu,cpuacct:/a\n1:name=systemd:/y\n"},
      {"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "350000\n"},
      {"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}},
     3.5},
    {"cpuset is not cpu",
     {{"proc/self/cgroup", "3:cpuset,cpuacct:/a\n"},
      {"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "100000\n"},
      {"sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"}},
     0},
    {"both versions, the smaller one",
     {{"proc/self/cgroup", "2:cpu:/a\n0::/b\n"},
      {"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "300000\n"},
      {"sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"},
      {"sys/fs/cgroup/unified/b/cpu.max", "200000 100000\n"}},
     2},
    {"lines that make no sense",
     {{"proc/self/cgroup", "\nx\n0\n0:\n0::\n0::a\n:::/\n0::/a"},
      {"sys/fs/cgroup/a/cpu.max", "700000 100000\n"},
      {"sys/fs/cgroup/cpu.max", "what\n"}},
     7},
};

static void make_folders(folder *f, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s", name);
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(folder_file(f, path), 0777);
        *slash = '/';
    }
}

static void put(folder *f, const file_text *file)
{
    for (size_t i = 0; i < FILES_MAX && file[i].name; i++) {
        make_folders(f, file[i].name);
        folder_put_text(f, file[i].name, file[i].text);
    }
}

static void remove_all(folder *f)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -r '%s'", f->path);
    ck_assert_int_eq(system(command), 0);
}

/* CPUs of the mask, counted one by one. */
static size_t cpus_of_mask(void)
{
    cpu_set_t set;
    size_t n = 0;
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        n += CPU_ISSET(i, &set) != 0;
    return n;
}

START_TEST(the_tightest_group_limits_the_threads)
{
    const struct group_case *const c = &group_cases[_i];
    folder f;
    pare_machine m;
    folder_make(&f);
    put(&f, c->file);
    pare_machine_read(f.path, &m);
    const size_t cpus = cpus_of_mask(), whole = (size_t)ceil(c->quota);
    ck_assert_msg(m.quota == c->quota, "%s: quota %g, expected %g", c->what, m.quota, c->quota);
    ck_assert_uint_eq(m.cpus, cpus);
    ck_assert_uint_eq(m.threads, c->quota > 0 && whole < cpus ? whole : cpus);
    remove_all(&f);
}
END_TEST

START_TEST(part_of_a_cpu_is_one_thread)
{
    static const file_text files[FILES_MAX] = {{"proc/self/cgroup", "0::/\n"},
                                               {"sys/fs/cgroup/cpu.max", "1000 100000\n"}};
    folder f;
    pare_machine m;
    folder_make(&f);
    put(&f, files);
    pare_machine_read(f.path, &m);
    ck_assert_uint_eq(m.threads, 1);
    remove_all(&f);
}
END_TEST

static const struct node_case {
    file_text file[FILES_MAX];
    size_t nodes;
} node_cases[] = {
    {{{"sys/devices/system/node/online", "0\n"},
      {"sys/devices/system/node/node0/cpulist", "0-8191\n"}},
     1},
    {{{"sys/devices/system/node/online", "0-1,3\n"},
      {"sys/devices/system/node/node0/cpulist", "0-8191\n"},
      {"sys/devices/system/node/node1/cpulist", "0,1,2-8191\n"},
      {"sys/devices/system/node/node3/cpulist", "8000,0-4000\n"}},
     3},
    {{{"sys/devices/system/node/online", "0-1\n"}, /* memory without CPUs */
      {"sys/devices/system/node/node0/cpulist", "0-8191\n"},
      {"sys/devices/system/node/node1/cpulist", "\n"}},
     1},
    {{{"sys/devices/system/node/online", "0-1\n"}, /* CPUs outside of the mask, and of any */
      {"sys/devices/system/node/node0/cpulist", "8190-99999999999\n"},
      {"sys/devices/system/node/node1/cpulist", "0-4095\n"}},
     1},
    {{{"sys/devices/system/node/online", "what\n"}}, 1},
    {{{NULL, NULL}}, 1},
};

START_TEST(nodes_count_where_a_cpu_of_the_mask_lies)
{
    folder f;
    pare_machine m;
    folder_make(&f);
    put(&f, node_cases[_i].file);
    pare_machine_read(f.path, &m);
    ck_assert_uint_eq(m.nodes, node_cases[_i].nodes);
    remove_all(&f);
}
END_TEST

START_TEST(a_number_stands_behind_the_start_of_its_line)
{
    static const char name[] = "pare-machine-number";
    FILE *const f = fopen(name, "w");
    ck_assert(f && fputs("max\nTotal:    24 kB\nfile 7\nhuge 99999999999999999999\n", f) >= 0);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_uint_eq(pare_machine_number(name, "Total:"), 24);
    ck_assert_uint_eq(pare_machine_number(name, "file"), 7);
    ck_assert_uint_eq(pare_machine_number(name, ""), UINT64_MAX);
    ck_assert_uint_eq(pare_machine_number(name, "otal"), UINT64_MAX);
    ck_assert_uint_eq(pare_machine_number(name, "huge"), UINT64_MAX);
    ck_assert_uint_eq(pare_machine_number("pare-no-such-file", ""), UINT64_MAX);
    ck_assert_int_eq(remove(name), 0);
}
END_TEST

START_TEST(this_system_can_be_read)
{
    pare_machine m;
    pare_machine_read("", &m);
    ck_assert_uint_eq(m.cpus, cpus_of_mask());
    ck_assert(m.threads >= 1 && m.threads <= m.cpus && m.nodes >= 1);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("machine");
    TCase *const c = tcase_create("machine");
    tcase_add_loop_test(c, a_quota_is_two_positive_numbers, 0,
                        sizeof quota_texts / sizeof *quota_texts);
    tcase_add_loop_test(c, the_tightest_group_limits_the_threads, 0,
                        sizeof group_cases / sizeof *group_cases);
    tcase_add_test(c, part_of_a_cpu_is_one_thread);
    tcase_add_loop_test(c, nodes_count_where_a_cpu_of_the_mask_lies, 0,
                        sizeof node_cases / sizeof *node_cases);
    tcase_add_test(c, a_number_stands_behind_the_start_of_its_line);
    tcase_add_test(c, this_system_can_be_read);
    suite_add_tcase(s, c);
    return unit_main(s);
}
