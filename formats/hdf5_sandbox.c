#define _DEFAULT_SOURCE /* madvise, numbers of system calls */
#include "formats/hdf5_sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* Standard streams and the file; 1 GiB of addresses; a minute, and 10 MB a second. */
enum { FILES = 4, MEMORY = 1 << 30, SECONDS = 60, BYTES_PER_SECOND = 10 * 1000 * 1000 };

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef ARCHITECTURE

/* What a reader needs once its libraries are loaded; memory stays without code. */
static const int always[] = {
    SYS_read,          SYS_pread64,      SYS_lseek,        SYS_write,   SYS_close,      SYS_fstat,
    SYS_brk,           SYS_munmap,       SYS_mremap,       SYS_madvise, SYS_flock,      SYS_futex,
    SYS_clock_gettime, SYS_gettimeofday, SYS_rt_sigreturn, SYS_exit,    SYS_exit_group,
};

/* What opening a file takes beside that; the last closes the door behind. */
static const int opening[] = {
    SYS_newfstatat, SYS_readlinkat, SYS_getcwd,
#ifdef SYS_readlink
    SYS_readlink,   SYS_stat,       SYS_lstat,
#endif
    SYS_prctl,
};

/* What writing one that is open takes. */
static const int writing[] = {SYS_pwrite64, SYS_ftruncate};

typedef enum filter_kind { FILTER_OPEN, FILTER_READ, FILTER_WRITE } filter_kind;
enum { PROGRAM_MAX = 128 };

typedef struct program {
    struct sock_filter step[PROGRAM_MAX];
    unsigned short len;
} program;

static void add(program *p, unsigned short code, uint32_t k, uint8_t yes, uint8_t no)
{
    if (p->len < PROGRAM_MAX)
        p->step[p->len++] = (struct sock_filter){code, yes, no, k};
}

static void allow(program *p, int call)
{
    add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1);
    add(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

/* Only without the given bits in the third argument. */
static void allow_without(program *p, int call, uint32_t bits)
{
    add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 4);
    add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args[2]), 0, 0);
    add(p, BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0);
    add(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    add(p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
}

/* What is not allowed fails with EPERM, so that the library can say what it missed. False where
 * the kernel has no filters: the limits hold without them. */
static bool filter(filter_kind kind)
{
    program p = {.len = 0};
    add(&p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, arch), 0, 0);
    add(&p, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
    add(&p, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
    add(&p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr), 0, 0);
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        allow(&p, always[i]);
    allow_without(&p, SYS_mmap, PROT_EXEC);
    allow_without(&p, SYS_mprotect, PROT_EXEC);
    for (size_t i = 0; kind == FILTER_WRITE && i < sizeof writing / sizeof *writing; i++)
        allow(&p, writing[i]);
    if (kind == FILTER_OPEN) {
        for (size_t i = 0; i < sizeof opening / sizeof *opening; i++)
            allow(&p, opening[i]);
        allow_without(&p, SYS_openat, O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND);
    }
    add(&p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
    const struct sock_fprog all = {p.len, p.step};
    return p.len < PROGRAM_MAX && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) == 0;
}

#else
typedef enum filter_kind { FILTER_OPEN, FILTER_READ, FILTER_WRITE } filter_kind;

static bool filter(filter_kind kind)
{
    (void)kind;
    return false;
}
#endif

static bool limit(int what, uint64_t most)
{
    const struct rlimit r = {most, most};
    return setrlimit(what, &r) == 0;
}

/* `written`: bytes that a file may have. */
static bool enter(uint64_t file_bytes, uint64_t written, uint64_t files)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_DUMPABLE, 0) == 0 &&
           limit(RLIMIT_AS, MEMORY) && limit(RLIMIT_CPU, SECONDS + file_bytes / BYTES_PER_SECOND) &&
           limit(RLIMIT_FSIZE, written) && limit(RLIMIT_NOFILE, files) && limit(RLIMIT_CORE, 0);
}

bool pare_hdf5_sandbox_enter(uint64_t file_bytes)
{
    if (!enter(file_bytes, 0, FILES))
        return false;
    (void)filter(FILTER_OPEN);
    return true;
}

bool pare_hdf5_sandbox_write(uint64_t most)
{
    if (!enter(most, most, 0))
        return false;
    (void)filter(FILTER_WRITE);
    return true;
}

bool pare_hdf5_sandbox_close(void)
{
    const bool filtered = filter(FILTER_READ);
    return limit(RLIMIT_NOFILE, 0) || filtered; /* the filter keeps limits as they are */
}
