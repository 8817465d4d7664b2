#define _GNU_SOURCE /* memmem */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "compress/export/export.h"
#include "formats/gguf_write.h"
#include "runtime/linear.h"
#include "tests/unit/artifact.h"

/* What a file system lacks: open64 and linkat are wrapped. */
static enum { NOTHING, UNNAMED, NAMING } missing;
static int refused; /* calls */

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const bool unnamed = (flags & O_TMPFILE) == O_TMPFILE;
    const mode_t mode = flags & O_CREAT || unnamed ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (missing != UNNAMED || !unnamed)
        return __real_open64(path, flags, mode);
    refused++;
    errno = EOPNOTSUPP;
    return -1;
}

int __real_linkat(int from_at, const char *from, int to_at, const char *to, int flags);
int __wrap_linkat(int from_at, const char *from, int to_at, const char *to, int flags);
int __wrap_linkat(int from_at, const char *from, int to_at, const char *to, int flags)
{
    if (missing != NAMING)
        return __real_linkat(from_at, from, to_at, to, flags);
    refused++;
    errno = ENOENT; /* as without /proc */
    return -1;
}

/* A folder of an artifact and one of its GGUF file. */
static pare_ctx cx;
static pare_arena arena;
static folder from, out;
static char to[128], partial[128], work[160]; /* OUTPUT, its .partial, the file in that */

static void begin(void)
{
    folder_begin(&from, &cx, &arena);
    folder_make(&out);
    (void)snprintf(to, sizeof to, "%s/x.gguf", out.path);
    (void)snprintf(partial, sizeof partial, "%s/x.gguf.partial", out.path);
    (void)snprintf(work, sizeof work, "%s/model.gguf", partial);
}

static void end(void)
{
    folder_remove(&out);
    folder_end(&from, &arena);
}

static void write_artifact(const pare_packed_linear *kind, size_t hidden, pare_dtype dtype)
{
    static artifact m;
    const tiny_model tiny = {.hidden = hidden,
                             .intermediate = 2 * hidden,
                             .blocks = 2,
                             .heads = 4,
                             .kv_heads = 2,
                             .head_dim = hidden / 4,
                             .vocab = 96,
                             .context = 64,
                             .dtype = dtype,
                             .shards = 1,
                             .seed = 1};
    artifact_open_tiny(&m, &cx, &from, &tiny);
    for (size_t i = 0; i < 2 * PARE_COMMON_ROLES; i++)
        artifact_add(&m, i, kind);
    artifact_plan(&m, 1 << 20);
    artifact_finish(&m, &from, artifact_fill_encoded);
}

static pare_status export_as(const char *name, bool restart, bool strict, pare_export_result *r)
{
    const pare_export_job job = {.unchecked = true,
                                 .artifact = from.path,
                                 .output = to,
                                 .target = pare_export_find(name),
                                 .restart = restart,
                                 .strict = strict};
    return pare_export_run(&cx, &arena, &job, r);
}

static void check_says(pare_status is, pare_status wanted, const char *what)
{
    ck_assert_msg(is == wanted, "%s: %s", pare_strstatus(is), cx.what);
    ck_assert_msg(strstr(cx.what, what), "%s", cx.what);
    pare_ctx_clear(&cx);
    ck_assert(wanted == PARE_EEXISTS || access(partial, F_OK) != 0);
}

#define SYM(b, g)                                                                                  \
    {                                                                                              \
        .bits = (b), .group = (g), .symmetric = true                                               \
    }
#define ASYM(b, g)                                                                                 \
    {                                                                                              \
        .bits = (b), .group = (g)                                                                  \
    }
#define TERNARY(g)                                                                                 \
    {                                                                                              \
        .bits = 2, .group = (g), .symmetric = true, .encoding = PARE_ENCODING_TERNARY              \
    }

#define SUPER(b, e)                                                                                \
    {                                                                                              \
        .bits = (b), .group = 256, .symmetric = true, .encoding = (e), .activation = {             \
            .mode = PARE_ACTIVATION_FLOAT                                                          \
        }                                                                                          \
    }
#define Q4_K SUPER(4, PARE_ENCODING_Q4_K)
#define Q6_K SUPER(6, PARE_ENCODING_Q6_K)
#define FP4(size, of)                                                                              \
    {                                                                                              \
        .bits = 4, .group = (size), .symmetric = true, .encoding = (of), .activation = {           \
            .mode = PARE_ACTIVATION_FLOAT                                                          \
        }                                                                                          \
    }

#define MXFP4 FP4(32, PARE_ENCODING_MXFP4)
#define NVFP4 FP4(16, PARE_ENCODING_NVFP4)

static const struct {
    pare_packed_linear kind;
    size_t hidden;
    const char *name, *type;
    pare_export_fate fate;
    bool fallback;
} cases[] = {
    {SYM(4, 32), 64, "gguf:q4_0", "Q4_0", PARE_EXPORT_LOSSLESS, false},
    {SYM(4, 64), 64, "gguf:q4_0", "Q4_0", PARE_EXPORT_LOSSLESS, false},
    {SYM(3, 0), 64, "gguf:q4_0", "Q4_0", PARE_EXPORT_LOSSLESS, false},
    {TERNARY(64), 64, "gguf:q4_0", "Q4_0", PARE_EXPORT_LOSSLESS, false},
    {ASYM(3, 32), 64, "gguf:q4_0", "Q4_0", PARE_EXPORT_LOSSLESS, false},
    {ASYM(4, 32), 64, "gguf:q4_0", "Q4_0", PARE_EXPORT_REQUANTIZED, false},
    {SYM(8, 32), 64, "gguf:q4_0", "Q4_0", PARE_EXPORT_REQUANTIZED, false},
    {SYM(4, 32), 64, "gguf:q4_1", "Q4_1", PARE_EXPORT_LOSSLESS, false},
    {ASYM(4, 32), 64, "gguf:q4_1", "Q4_1", PARE_EXPORT_REQUANTIZED, false},
    {SYM(8, 0), 64, "gguf:q8_0", "Q8_0", PARE_EXPORT_LOSSLESS, false},
    {ASYM(4, 64), 64, "gguf:q8_0", "Q8_0", PARE_EXPORT_LOSSLESS, false},
    {ASYM(8, 64), 64, "gguf:q8_0", "Q8_0", PARE_EXPORT_REQUANTIZED, false},
    {TERNARY(0), 256, "gguf:tq1_0", "TQ1_0", PARE_EXPORT_LOSSLESS, false},
    {TERNARY(256), 256, "gguf:tq2_0", "TQ2_0", PARE_EXPORT_LOSSLESS, false},
    {TERNARY(64), 256, "gguf:tq2_0", "TQ2_0", PARE_EXPORT_REQUANTIZED, false},
    {TERNARY(64), 64, "gguf:tq2_0", "Q4_0", PARE_EXPORT_LOSSLESS, true},
    {SYM(4, 0), 256, "gguf:q6_k", "Q6_K", PARE_EXPORT_LOSSLESS, false},
    {ASYM(4, 256), 256, "gguf:q4_k", "Q4_K", PARE_EXPORT_LOSSLESS, false},
    {SYM(4, 32), 256, "gguf:q4_k", "Q4_K", PARE_EXPORT_REQUANTIZED, false},
    {SYM(4, 32), 64, "gguf:q4_k", "Q5_0", PARE_EXPORT_LOSSLESS, true},
    {SYM(8, 0), 64, "gguf:q6_k", "Q8_0", PARE_EXPORT_LOSSLESS, true},
    {SYM(8, 32), 64, "gguf:q4_k", "Q8_0", PARE_EXPORT_LOSSLESS, true},
    {SYM(8, 64), 64, "gguf:tq2_0", "Q8_0", PARE_EXPORT_LOSSLESS, true},
    {ASYM(8, 32), 64, "gguf:q4_k", "Q5_0", PARE_EXPORT_REQUANTIZED, true},
    {SYM(3, 0), 64, "gguf:q5_0", "Q5_0", PARE_EXPORT_LOSSLESS, false},
    {SYM(4, 32), 64, "gguf:q5_1", "Q5_1", PARE_EXPORT_LOSSLESS, false},
    {ASYM(4, 32), 64, "gguf:q5_1", "Q5_1", PARE_EXPORT_REQUANTIZED, false},
    {ASYM(2, 0), 256, "gguf:q2_k", "Q2_K", PARE_EXPORT_LOSSLESS, false},
    {SYM(3, 256), 256, "gguf:q3_k", "Q3_K", PARE_EXPORT_LOSSLESS, false},
    {ASYM(4, 256), 256, "gguf:q5_k", "Q5_K", PARE_EXPORT_LOSSLESS, false},
    {SYM(8, 32), 256, "gguf:q3_k", "Q3_K", PARE_EXPORT_REQUANTIZED, false},
    {SYM(8, 32), 256, "gguf:q2_k", "Q2_K", PARE_EXPORT_REQUANTIZED, false},
    {ASYM(8, 32), 64, "gguf:q5_k", "Q5_1", PARE_EXPORT_REQUANTIZED, true},
    {ASYM(8, 32), 64, "gguf:q3_k", "Q4_0", PARE_EXPORT_REQUANTIZED, true},
    {Q4_K, 256, "gguf:q5_k", "Q4_K", PARE_EXPORT_LOSSLESS, false},
    {Q4_K, 256, "gguf:q4_k", "Q4_K", PARE_EXPORT_LOSSLESS, false},
    {Q6_K, 256, "gguf:q6_k", "Q6_K", PARE_EXPORT_LOSSLESS, false},
    {Q4_K, 256, "gguf:q6_k", "Q4_K", PARE_EXPORT_LOSSLESS, false},
    {Q6_K, 256, "gguf:q8_0", "Q6_K", PARE_EXPORT_LOSSLESS, false},
    {Q6_K, 256, "gguf:f16", "F16", PARE_EXPORT_ROUNDED, false},
    {MXFP4, 64, "gguf:mxfp4", "MXFP4", PARE_EXPORT_LOSSLESS, false},
    {MXFP4, 64, "gguf:q4_0", "MXFP4", PARE_EXPORT_LOSSLESS, false},
    {MXFP4, 64, "gguf:q4_k", "MXFP4", PARE_EXPORT_LOSSLESS, false},
    {SYM(4, 32), 64, "gguf:mxfp4", "MXFP4", PARE_EXPORT_REQUANTIZED, false},
    {NVFP4, 64, "gguf:mxfp4", "NVFP4", PARE_EXPORT_LOSSLESS, false},
    {NVFP4, 64, "gguf:q8_0", "NVFP4", PARE_EXPORT_LOSSLESS, false},
    {NVFP4, 64, "gguf:f16", "F16", PARE_EXPORT_LOSSLESS, false},
    {SYM(4, 0), 48, "gguf:q4_0", "F16", PARE_EXPORT_ROUNDED, true},
    {SYM(4, 32), 64, "gguf:f16", "F16", PARE_EXPORT_ROUNDED, false},
};
enum { CASES = sizeof cases / sizeof *cases };

static pare_status load(const char *path, pare_checkpoint *ck, pare_model *m)
{
    PARE_TRY(pare_checkpoint_open(&cx, &arena, path, ck));
    return pare_model_load(&cx, &arena, ck, m);
}

/* Largest relative distance of the linears of the file to those of the artifact. */
static double distance(void)
{
    pare_checkpoint a, b;
    pare_model was, is;
    double square = 0, difference = 0;
    ck_assert_msg(load(from.path, &a, &was) == PARE_OK, "%s", cx.what);
    ck_assert_msg(load(to, &b, &is) == PARE_OK, "%s", cx.what);
    for (size_t i = 0; i < 2 * PARE_COMMON_ROLES; i++) {
        const pare_linear *const x =
            &was.block[i / PARE_COMMON_ROLES].linear[i % PARE_COMMON_ROLES];
        const pare_linear *const y = &is.block[i / PARE_COMMON_ROLES].linear[i % PARE_COMMON_ROLES];
        ck_assert(x->n == y->n && x->k == y->k);
        float *const w = PARE_NEW(&arena, float, x->n * x->k);
        float *const v = PARE_NEW(&arena, float, x->n * x->k);
        pare_linear_to_f32(&cx, x, w);
        pare_linear_to_f32(&cx, y, v);
        for (size_t j = 0; j < x->n * x->k; j++) {
            square += (double)w[j] * (double)w[j];
            difference += ((double)w[j] - (double)v[j]) * ((double)w[j] - (double)v[j]);
        }
    }
    for (size_t i = 0; i < was.config.hidden; i++)
        ck_assert(was.norm[i] == is.norm[i] && was.block[1].norm[1][i] == is.block[1].norm[1][i]);
    ck_assert_mem_eq(was.embed.data, is.embed.data, 96 * was.config.hidden * 2);
    pare_checkpoint_close(&a);
    pare_checkpoint_close(&b);
    return sqrt(difference / square);
}

START_TEST(a_model_reads_back_as_far_away_as_was_said)
{
    begin();
    pare_export_result r;
    write_artifact(&cases[_i].kind, cases[_i].hidden, PARE_F16);
    ck_assert_msg(export_as(cases[_i].name, false, false, &r) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(r.rows, 15);
    ck_assert_uint_eq(r.count[cases[_i].fate],
                      cases[_i].hidden == 48 ? 12 : 14); /* down is wider */
    ck_assert_str_eq(r.row[0].type, cases[_i].type);
    ck_assert(r.row[0].fallback == cases[_i].fallback);
    ck_assert(access(partial, F_OK) != 0);
    ck_assert((r.error == 0) == (cases[_i].fate == PARE_EXPORT_LOSSLESS));
    ck_assert(r.error < 0.6);
    ck_assert_double_eq_tol(distance(), r.error, 1e-9);
    end();
}
END_TEST

START_TEST(strict_refuses_other_codes_and_other_types)
{
    begin();
    const pare_packed_linear kind = SYM(4, 32);
    pare_export_result r;
    write_artifact(&kind, 64, PARE_F16);
    check_says(export_as("gguf:q4_k", false, true, &r), PARE_ENOTSUP,
               "rows of 64 are no whole blocks, it would become Q5_0");
    ck_assert(!pare_path_is_file(to));
    ck_assert_int_eq(export_as("gguf:q4_0", false, true, &r), PARE_OK);
    end();
}
END_TEST

/* What a message advises holds all linears. */
START_TEST(strict_advises_what_holds)
{
    static const struct {
        size_t hidden;
        unsigned bits;
        const char *asked, *advice;
    } row[] = {
        {64, 4, "gguf:q4_k", "it would become Q5_0, which --strict refuses; gguf:q4_0 holds"},
        {64, 8, "gguf:q4_k", "it would become Q8_0, which --strict refuses; gguf:q8_0 holds"},
        {48, 4, "gguf:q4_k", "it would become F16, which --strict refuses; gguf:f16 holds"},
        {48, 4, "gguf:q8_0", "it would become F16, which --strict refuses; gguf:f16 holds"},
        {64, 8, "gguf:q4_0", "would be quantized again, which --strict refuses; "}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        begin();
        const pare_packed_linear kind = SYM(row[i].bits, 32);
        pare_export_result r;
        write_artifact(&kind, row[i].hidden, PARE_F16);
        check_says(export_as(row[i].asked, false, true, &r), PARE_ENOTSUP, row[i].advice);
        end();
    }
}
END_TEST

/* Floats that F16 does not hold whole are rounded, and said to be. */
START_TEST(floats_that_are_rounded_are_named)
{
    static const struct {
        pare_dtype dtype;
        const char *target;
        pare_export_fate head;
    } row[] = {{PARE_F16, "gguf:f16", PARE_EXPORT_FLOAT},
               {PARE_F32, "gguf:f16", PARE_EXPORT_ROUNDED},
               {PARE_F32, "gguf:q8_0", PARE_EXPORT_FLOAT}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        begin();
        const pare_packed_linear kind = SYM(8, 32);
        pare_export_result r;
        write_artifact(&kind, 64, row[i].dtype);
        ck_assert_msg(export_as(row[i].target, false, true, &r) == PARE_OK, "%s", cx.what);
        const pare_export_row *const head = &r.row[r.rows - 1];
        ck_assert_int_eq(head->fate, row[i].head);
        ck_assert((head->error > 0) == (row[i].head == PARE_EXPORT_ROUNDED));
        ck_assert((strstr(r.notice, "rounded to F16") != NULL) == (head->error > 0));
        end();
    }
}
END_TEST

static void put_file(const char *path, const char *text)
{
    FILE *const f = fopen(path, "w");
    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* A copy of a file. */
static void copy_file(const char *path, const char *of)
{
    static unsigned char bytes[1 << 20];
    const int in = open(of, O_RDONLY), part = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const ssize_t len = read(in, bytes, sizeof bytes);
    ck_assert(len > 4096 && (size_t)len < sizeof bytes);
    ck_assert_int_eq(write(part, bytes, (size_t)len), len);
    ck_assert_int_eq(close(in) | close(part), 0);
}

START_TEST(a_path_that_is_too_long_is_refused_before_anything_is_made)
{
    begin();
    const pare_packed_linear kind = SYM(4, 32);
    pare_export_result r;
    char path[6000];
    size_t len = (size_t)snprintf(path, sizeof path, "%s", out.path);
    write_artifact(&kind, 64, PARE_F16);
    while (len < 4200)
        len += (size_t)snprintf(path + len, sizeof path - len, "/d");
    const pare_export_job job = {.unchecked = true,
                                 .artifact = from.path,
                                 .output = path,
                                 .target = pare_export_find("gguf:q4_0")};
    check_says(pare_export_run(&cx, &arena, &job, &r), PARE_EUSAGE, "is too long: 4201 bytes");
    (void)snprintf(path, sizeof path, "%s/q/%0300d/x", out.path, 0);
    check_says(pare_export_run(&cx, &arena, &job, &r), PARE_EUSAGE,
               "and 255 for a directory in it");
    (void)snprintf(path, sizeof path, "%s/q/%0240d/", out.path, 0);
    check_says(pare_export_run(&cx, &arena, &job, &r), PARE_EUSAGE, "239 for its name");
    end(); /* which finds directories */
}
END_TEST

START_TEST(only_files_of_ours_are_replaced)
{
    begin();
    const pare_packed_linear kind = SYM(4, 32);
    pare_export_result r;
    write_artifact(&kind, 64, PARE_F16);
    put_file(to, "a letter");
    check_says(export_as("gguf:q4_0", true, false, &r), PARE_EEXISTS, "is no export of pare");
    ck_assert_int_eq(unlink(to), 0);
    ck_assert_msg(export_as("gguf:q4_0", false, false, &r) == PARE_OK, "%s", cx.what);
    check_says(export_as("gguf:q8_0", false, false, &r), PARE_EEXISTS, "--restart replaces it");
    copy_file(partial, to); /* a finished export by that name */
    check_says(export_as("gguf:q8_0", true, false, &r), PARE_EEXISTS,
               "x.gguf.partial: is no directory");
    ck_assert(pare_path_is_file(partial) && unlink(partial) == 0);
    ck_assert_int_eq(mkdir(partial, 0777), 0);
    copy_file(work, to);
    check_says(export_as("gguf:q8_0", true, false, &r), PARE_EEXISTS,
               "model.gguf: lies beside no journal");
    ck_assert(pare_path_is_file(work));
    ck_assert_int_eq(pare_owned_mark_unfinished(&cx, partial), PARE_OK); /* of a killed run */
    ck_assert_msg(export_as("gguf:q8_0", true, false, &r) == PARE_OK, "%s", cx.what);
    ck_assert_str_eq(r.row[0].type, "Q8_0");
    ck_assert(access(partial, F_OK) != 0);
    end();
}
END_TEST

/* A file of the user's beside the unfinished one, and one that a link there leads to. */
START_TEST(names_beside_the_file_are_left_alone)
{
    begin();
    const pare_packed_linear kind = SYM(4, 32);
    char beside[sizeof partial + 4], mine[sizeof partial + 5];
    pare_export_result r;
    size_t len;
    write_artifact(&kind, 64, PARE_F16);
    (void)snprintf(beside, sizeof beside, "%s.tmp", partial);
    (void)snprintf(mine, sizeof mine, "%s.mine", partial);
    put_file(mine, "a letter");
    ck_assert_int_eq(symlink(mine, beside), 0);
    ck_assert_msg(export_as("gguf:q4_0", false, false, &r) == PARE_OK, "%s", cx.what);
    char *const letter = folder_get(mine, &len);
    ck_assert_str_eq(letter, "a letter");
    free(letter);
    ck_assert_int_eq(unlink(beside) | unlink(mine), 0);
    end();
}
END_TEST

START_TEST(a_file_is_made_where_there_is_none_and_nowhere_else)
{
    begin();
    pare_gguf_writer w;
    ck_assert_int_eq(pare_gguf_begin(&cx, &arena, 0, &w), PARE_OK);
    ck_assert_int_eq(pare_gguf_lay_out(&w), PARE_OK);
    ck_assert_int_eq(symlink("nowhere", partial), 0);
    ck_assert_int_eq(pare_gguf_create(&w, partial), PARE_EEXISTS);
    ck_assert_ptr_nonnull(strstr(cx.what, "something was put there meanwhile"));
    pare_ctx_clear(&cx);
    ck_assert_int_eq(unlink(partial), 0);
    ck_assert_int_eq(pare_gguf_create(&w, partial), PARE_OK);
    pare_gguf_close(&w);
    ck_assert_int_eq(unlink(partial), 0);
    end();
}
END_TEST

/* The same where files cannot be without a name, or get none later. */
START_TEST(a_file_is_made_without_unnamed_files)
{
    static const unsigned char magic[] = "GGUF";
    begin();
    pare_gguf_writer w;
    unsigned char head[4];
    missing = _i == 0 ? UNNAMED : NAMING;
    ck_assert_int_eq(pare_gguf_begin(&cx, &arena, 0, &w), PARE_OK);
    ck_assert_int_eq(pare_gguf_lay_out(&w), PARE_OK);
    put_file(partial, "a letter");
    check_says(pare_gguf_create(&w, partial), PARE_EEXISTS, "something was put there meanwhile");
    ck_assert_int_eq(unlink(partial), 0);
    ck_assert_msg(pare_gguf_create(&w, partial) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(pread(w.fd, head, sizeof head, 0), sizeof head);
    ck_assert_mem_eq(head, magic, sizeof head);
    ck_assert_int_eq(refused, 2);
    pare_gguf_close(&w);
    missing = NOTHING;
    ck_assert_int_eq(unlink(partial), 0);
    end();
}
END_TEST

/* Damages the last weights of the file, between writing and reading back. */
static void damage(void *self, const char *what, double done, double total)
{
    (void)self;
    (void)total;
    if (strcmp(what, "reading the export back") != 0 || done != 0)
        return;
    const int fd = open(work, O_RDWR);
    ck_assert_int_ge(fd, 0);
    unsigned char byte;
    const off_t at = lseek(fd, 0, SEEK_END) - 40;
    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    ck_assert_int_eq(close(fd), 0);
}

START_TEST(a_byte_written_wrongly_is_found)
{
    static const char *const name[] = {"gguf:q4_0", "gguf:q4_1", "gguf:f16", "gguf:q8_0"};
    begin();
    const pare_packed_linear kind = ASYM(4, 32);
    pare_export_result r;
    write_artifact(&kind, 64, PARE_F16);
    cx.progress.report = damage;
    check_says(export_as(name[_i], false, false, &r), PARE_ENUMERIC,
               "read back otherwise than written");
    ck_assert(!pare_path_is_file(to));
    end();
}
END_TEST

/* Somebody's letter comes to the place of the output, between writing and reading back. */
static void put_letter(void *self, const char *what, double done, double total)
{
    (void)self;
    (void)total;
    if (strcmp(what, "reading the export back") == 0 && done == 0)
        put_file(to, "a letter");
}

START_TEST(what_comes_while_the_file_is_made_stays_and_so_does_the_export)
{
    begin();
    const pare_packed_linear kind = SYM(4, 32);
    pare_export_result r;
    size_t len;
    write_artifact(&kind, 64, PARE_F16);
    if (_i == 1) /* where one of ours was, which was to be replaced */
        ck_assert_msg(export_as("gguf:q8_0", false, false, &r) == PARE_OK, "%s", cx.what);
    cx.progress.report = put_letter;
    const pare_status s = export_as("gguf:q4_0", _i == 1, false, &r);
    cx.progress.report = NULL;
    ck_assert_msg(strstr(cx.what, "the finished export waits in") && strstr(cx.what, work), "%s",
                  cx.what);
    check_says(s, PARE_EEXISTS,
               _i == 1 ? "is no export of pare" : "something was put there meanwhile");
    char *const letter = folder_get(to, &len);
    ck_assert_str_eq(letter, "a letter");
    free(letter);
    ck_assert(pare_path_is_file(work) && unlink(to) == 0);
    ck_assert_msg(export_as("gguf:q4_0", false, false, &r) == PARE_OK, "%s", cx.what);
    ck_assert(access(partial, F_OK) != 0);
    end();
}
END_TEST

START_TEST(running_out_of_memory_leaves_nothing_behind)
{
    begin();
    const pare_packed_linear kind = ASYM(4, 32);
    pare_export_result r;
    pare_status s = PARE_ENOMEM;
    write_artifact(&kind, 64, PARE_F16);
    const pare_export_job job = {.unchecked = true,
                                 .artifact = from.path,
                                 .output = to,
                                 .target = pare_export_find("gguf:q4_0")};
    for (long n = 0; s != PARE_OK; n++) {
        unit_failing f = {.left = n};
        pare_ctx failing;
        pare_arena a;
        pare_ctx_init(&failing);
        failing.alloc = (pare_alloc){unit_failing_resize, &f};
        s = pare_arena_init(&failing, &a, 0);
        if (s == PARE_OK)
            s = pare_export_run(&failing, &a, &job, &r);
        ck_assert_msg(s == PARE_OK || s == PARE_ENOMEM, "%ld: %s: %s", n, pare_strstatus(s),
                      failing.what);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        ck_assert(access(partial, F_OK) != 0);
        ck_assert(s == PARE_OK || unlink(to) == 0 || errno == ENOENT);
    }
    end();
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("export_file");
    TCase *const t = tcase_create("files");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, a_model_reads_back_as_far_away_as_was_said, 0, CASES);
    tcase_add_test(t, strict_refuses_other_codes_and_other_types);
    tcase_add_test(t, strict_advises_what_holds);
    tcase_add_test(t, floats_that_are_rounded_are_named);
    tcase_add_test(t, a_path_that_is_too_long_is_refused_before_anything_is_made);
    tcase_add_test(t, only_files_of_ours_are_replaced);
    tcase_add_test(t, names_beside_the_file_are_left_alone);
    tcase_add_test(t, a_file_is_made_where_there_is_none_and_nowhere_else);
    tcase_add_loop_test(t, a_file_is_made_without_unnamed_files, 0, 2);
    tcase_add_loop_test(t, a_byte_written_wrongly_is_found, 0, 4);
    tcase_add_loop_test(t, what_comes_while_the_file_is_made_stays_and_so_does_the_export, 0, 2);
    tcase_add_test(t, running_out_of_memory_leaves_nothing_behind);
    suite_add_tcase(s, t);
    return unit_main(s);
}
