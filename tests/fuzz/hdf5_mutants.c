/* Valid HDF5 files, damaged in many ways, through the reader and through the program.
 *
 *   hdf5_mutants HELPER PROGRAM MUTANTS [SEED]
 *
 * Every other mutant has one byte inverted, from byte SEED on in steps that lead once around all
 * files; the others are damaged at random: bits, bytes, numbers at bounds, a part cut off,
 * two parts exchanged, a part repeated. Each is read here by way of HELPER (pare-hdf5, which may
 * crash), and one of PROGRAM_EVERY by "PROGRAM inspect". Exit status 0: no crash, tensors or a
 * message within SECONDS_MAX, PROGRAM ends with 0 or 4. Else the mutant is left in its folder. */
#define H5_USE_110_API
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "formats/hdf5_internal.h"
#include "runtime/random.h"

enum {
    FILES = 5,
    FILE_MAX = 1 << 16,
    PART_BITS = 10,
    PATH = 256,
    PROGRAM_EVERY = 8,
    SECONDS_MAX = 10
};
enum { SILENCE_MS = 60 * 1000, WAIT_MS = 10 * SILENCE_MS }; /* as pare has them */

typedef struct driver {
    const char *helper, *program;
    char directory[64], mutant[PATH], log[PATH];
    unsigned char valid[FILES][FILE_MAX], bytes[FILE_MAX];
    size_t len[FILES], total;
    uint64_t seed, number, drawn;
    size_t read, refused, crashed, slow, programs;
    double slowest, sum;
} driver;

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A whole number below `below`. */
static size_t draw(driver *d, size_t below)
{
    return (size_t)(pare_random_unit(d->seed, d->number, d->drawn++) * (double)below);
}

/* The functions that make files give false when libhdf5 does not do what it should. */
static bool put(hid_t at, const char *name, hid_t type, int rank, hid_t how)
{
    static const hsize_t size[3] = {4, 3, 5};
    static double data[60];
    const hid_t space = H5Screate_simple(rank, size, NULL);
    const hid_t set = H5Dcreate2(at, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
    const bool good = set >= 0 && H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0;
    return good && H5Dclose(set) >= 0 && H5Sclose(space) >= 0;
}

/* In chunks that do not divide it, through every filter that is read. */
static bool put_packed(hid_t at, const char *name, bool may_grow)
{
    static const hsize_t size[2] = {6, 4}, chunk[2] = {4, 3}, most[2] = {H5S_UNLIMITED, 4};
    static float data[24];
    for (size_t i = 0; i < 24; i++)
        data[i] = (float)i;
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t space = H5Screate_simple(2, size, may_grow ? most : NULL);
    bool good = H5Pset_chunk(how, 2, chunk) >= 0 && H5Pset_shuffle(how) >= 0 &&
                H5Pset_deflate(how, 6) >= 0 && H5Pset_fletcher32(how) >= 0;
    const hid_t set = H5Dcreate2(at, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, how, H5P_DEFAULT);
    good =
        good && set >= 0 && H5Dwrite(set, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0;
    return good && H5Dclose(set) >= 0 && H5Sclose(space) >= 0 && H5Pclose(how) >= 0;
}

static bool put_attribute(hid_t at, const char *name, const char *text)
{
    const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    const bool sized = H5Tset_size(type, strlen(text)) >= 0;
    const hid_t attribute = H5Acreate2(at, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    return sized && attribute >= 0 && H5Awrite(attribute, type, text) >= 0 &&
           H5Aclose(attribute) >= 0 && H5Tclose(type) >= 0 && H5Sclose(space) >= 0;
}

static bool put_groups(hid_t file)
{
    const hid_t outer = H5Gcreate2(file, "model", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t inner = H5Gcreate2(outer, "layers.0", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    return put(inner, "w", H5T_IEEE_F32LE, 2, H5P_DEFAULT) &&
           put_attribute(outer, "note", "text") && put(outer, "b", H5T_STD_I64LE, 1, H5P_DEFAULT) &&
           H5Gclose(inner) >= 0 && H5Gclose(outer) >= 0;
}

static bool put_small(hid_t file)
{
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE), flags = H5Tenum_create(H5T_STD_I8LE);
    return H5Pset_layout(how, H5D_COMPACT) >= 0 && H5Tenum_insert(flags, "FALSE", "\0") >= 0 &&
           H5Tenum_insert(flags, "TRUE", "\1") >= 0 && put(file, "f", flags, 1, H5P_DEFAULT) &&
           H5Tcommit2(file, "named", flags, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT) >= 0 &&
           put(file, "c", H5T_STD_U8LE, 3, how) && H5Tclose(flags) >= 0 && H5Pclose(how) >= 0;
}

/* More names than a group keeps in its own header. */
static bool put_many(hid_t file)
{
    char name[16];
    bool good = true;
    for (int i = 0; i < 12 && good; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        good = put(file, name, H5T_STD_I8LE, 1, H5P_DEFAULT);
    }
    return good;
}

/* File `which` of the valid ones: structures as libhdf5 has always written them, then those with
 * checksums of its later versions. */
static bool make_file(driver *d, size_t which)
{
    char path[PATH];
    (void)snprintf(path, sizeof path, "%s/valid.h5", d->directory);
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    const bool late = which >= 3;
    bool good = H5Pset_libver_bounds(access, late ? H5F_LIBVER_V110 : H5F_LIBVER_EARLIEST,
                                     H5F_LIBVER_V110) >= 0;
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    good = good && file >= 0;
    switch (which) {
    case 0: good = good && put_groups(file); break;
    case 1: good = good && put_packed(file, "p", false) && put_packed(file, "q", true); break;
    case 2: good = good && put_small(file); break;
    case 3: good = good && put_many(file); break;
    default:
        good = good && put_groups(file) && put_packed(file, "p", false) &&
               put_packed(file, "q", true) && put_small(file);
    }
    good = good && H5Fclose(file) >= 0 && H5Pclose(access) >= 0;
    FILE *const in = good ? fopen(path, "rb") : NULL;
    d->len[which] = in ? fread(d->valid[which], 1, FILE_MAX, in) : 0;
    if (in)
        (void)fclose(in);
    d->total += d->len[which];
    return d->len[which] > (size_t)1 << PART_BITS && d->len[which] < FILE_MAX;
}

static void damage_number(driver *d, size_t len)
{
    static const uint64_t bounds[] = {0,          1,          0x7f,       0xff,       0xffff,
                                      0x7fffffff, 1u << 31,   UINT32_MAX, 1ull << 32, 1ull << 40,
                                      INT64_MAX,  1ull << 63, UINT64_MAX};
    const size_t width = (size_t)1 << draw(d, 4), at = draw(d, len - width);
    const uint64_t v = bounds[draw(d, sizeof bounds / sizeof *bounds)];
    for (size_t i = 0; i < width; i++)
        d->bytes[at + i] = (unsigned char)(v >> 8 * i);
}

/* Two parts of the file change their places, or one is written over the other. */
static void damage_parts(driver *d, size_t len, bool exchange)
{
    unsigned char part[1 << (PART_BITS - 1)];
    const size_t n = (size_t)1 << draw(d, PART_BITS), one = draw(d, len - n),
                 other = draw(d, len - n);
    memcpy(part, d->bytes + one, n);
    if (exchange)
        memmove(d->bytes + one, d->bytes + other, n);
    memcpy(d->bytes + other, part, n);
}

/* Mutant `number` of `all` into d->bytes; its length. */
static size_t damage(driver *d, size_t number, size_t all)
{
    d->number = number;
    d->drawn = 0;
    size_t which = draw(d, FILES);
    if (number % 2 == 0) { /* the next byte */
        size_t at = (size_t)((double)number / (double)all * (double)d->total + (double)d->seed);
        at %= d->total;
        for (which = 0; at >= d->len[which]; which++)
            at -= d->len[which];
        memcpy(d->bytes, d->valid[which], d->len[which]);
        d->bytes[at] ^= 0xff;
        return d->len[which];
    }
    size_t len = d->len[which];
    memcpy(d->bytes, d->valid[which], len);
    for (size_t left = 1 + draw(d, 3); left > 0; left--) {
        switch (draw(d, 7)) {
        case 0: d->bytes[draw(d, len)] ^= (unsigned char)(1u << draw(d, 8)); break;
        case 1: d->bytes[draw(d, len)] = (unsigned char)draw(d, 256); break;
        case 2:
        case 3: damage_number(d, len); break;
        case 4: damage_parts(d, len, true); break;
        case 5: damage_parts(d, len, false); break;
        default: len -= len >> PART_BITS ? draw(d, len / 2) : 0; /* stays longer than a part */
        }
    }
    return len;
}

static bool write_mutant(const driver *d, size_t len)
{
    FILE *const out = fopen(d->mutant, "wb");
    const bool good = out && fwrite(d->bytes, 1, len, out) == len;
    return out && fclose(out) == 0 && good;
}

/* In this process: tensors whose bytes can be read, or a message. */
static bool read_mutant(driver *d, size_t len, bool bare)
{
    pare_ctx cx;
    pare_arena a;
    pare_scratch scratch;
    pare_hdf5 out;
    const pare__hdf5_limits limits = {SILENCE_MS, WAIT_MS};
    pare_ctx_init(&cx);
    pare_scratch_init(&cx, &scratch);
    bool good = pare_arena_init(&cx, &a, 0) == PARE_OK;
    const pare_status s =
        pare__hdf5_run(&cx, &a, &scratch, d->helper, limits, d->mutant, len, bare, NULL, &out);
    for (size_t i = 0; s == PARE_OK && i < out.tensors; i++) {
        const unsigned char *const data = out.tensor[i].data;
        for (uint64_t j = 0; data && j < out.tensor[i].bytes; j++)
            d->sum += data[j];
    }
    d->read += s == PARE_OK;
    d->refused += s != PARE_OK;
    d->crashed += strstr(cx.what, "crashed") != NULL;
    good = good && (s == PARE_OK) == (cx.what[0] == '\0') &&
           (s == PARE_OK || s == PARE_EFORMAT || s == PARE_ENOTSUP);
    if (!good)
        (void)fprintf(stderr, "%s: %s: %s\n", d->mutant, pare_strstatus(s), cx.what);
    pare_scratch_close(&scratch);
    pare_arena_release(&a);
    return good && cx.live_bytes == 0;
}

static bool inspect_mutant(driver *d)
{
    char *const argv[] = {(char *)(uintptr_t)d->program, "inspect", d->mutant, NULL};
    const pid_t pid = fork();
    if (pid == 0) {
        const int log = open(d->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
            _exit(126);
        (void)execv(d->program, argv);
        _exit(127);
    }
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    const int code = pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    d->programs++;
    if (code != 0 && code != 4)
        (void)fprintf(stderr, "%s: %s inspect ends with %d (%s)\n", d->mutant, d->program, code,
                      d->log);
    return code == 0 || code == 4;
}

static bool run(driver *d, size_t number, size_t all)
{
    const size_t len = damage(d, number, all);
    if (!write_mutant(d, len)) {
        perror(d->mutant);
        return false;
    }
    const double start = now();
    bool good = read_mutant(d, len, number % 4 == 1);
    if (number % PROGRAM_EVERY == 0)
        good = inspect_mutant(d) && good;
    const double seconds = now() - start;
    d->slowest = seconds > d->slowest ? seconds : d->slowest;
    if (seconds > SECONDS_MAX)
        (void)fprintf(stderr, "%s: took %.1f s\n", d->mutant, seconds);
    if (!good || seconds > SECONDS_MAX)
        (void)fprintf(stderr, "mutant %zu of %zu with seed %llu\n", number, all,
                      (unsigned long long)d->seed);
    return good && seconds <= SECONDS_MAX;
}

int main(int argc, char **argv)
{
    static driver d;
    const size_t all = argc >= 4 ? strtoul(argv[3], NULL, 10) : 0;
    if (all == 0 || argc > 5) {
        (void)fprintf(stderr, "usage: hdf5_mutants HELPER PROGRAM MUTANTS [SEED]\n");
        return 2;
    }
    d.seed = argc == 5 ? strtoull(argv[4], NULL, 10) % UINT32_MAX : 1;
    d.helper = argv[1];
    d.program = argv[2];
    (void)snprintf(d.directory, sizeof d.directory, "/tmp/pare-mutants-XXXXXX");
    if (!mkdtemp(d.directory)) {
        perror(d.directory);
        return EXIT_FAILURE;
    }
    (void)snprintf(d.mutant, sizeof d.mutant, "%s/model.h5", d.directory);
    (void)snprintf(d.log, sizeof d.log, "%s/log", d.directory);
    bool good = H5Eset_auto2(H5E_DEFAULT, NULL, NULL) >= 0;
    for (size_t i = 0; i < FILES && good; i++) {
        good = make_file(&d, i);
        memcpy(d.bytes, d.valid[i], d.len[i]); /* undamaged, it is read */
        good = good && write_mutant(&d, d.len[i]) && read_mutant(&d, d.len[i], false);
    }
    good = good && d.read == FILES;
    d.read = 0;
    if (!good)
        (void)fprintf(stderr, "%s: the valid files were not all made and read\n", d.directory);
    const double start = now();
    for (size_t i = 0; i < all && good; i++)
        good = run(&d, i, all);
    const double seconds = now() - start;
    (void)printf("%zu mutants of %d files, %zu bytes: %zu read, %zu refused, for %zu of which the "
                 "helper crashed; %zu by the program; slowest %.2f s, %.0f a second\n",
                 d.read + d.refused, FILES, d.total, d.read, d.refused, d.crashed, d.programs,
                 d.slowest, (double)all / seconds);
    if (!good)
        return EXIT_FAILURE;
    char command[PATH];
    for (size_t i = 0; i < 3; i++) {
        static const char *const names[] = {"model.h5", "valid.h5", "log"};
        (void)snprintf(command, sizeof command, "%s/%s", d.directory, names[i]);
        (void)unlink(command);
    }
    return rmdir(d.directory) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
