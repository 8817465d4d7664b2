/* Whether tests of kernels find bugs: one mistake at a time (fault_kinds.h) is planted in the PTX
 * of a kernel, in a line that the rows of op_rows.h run; then one of them must fail.
 *
 * By default a kernel gets one kind of mistake, the next kernel the next kind; with
 * PARE_PTX_FAULTS=n each kernel gets every kind, in n lines, and a line is written for each. */
#include <string.h>
#include <sys/wait.h>

#include "runtime/threads.h"
#include "tests/ptx/device_ptx.h"
#include "tests/ptx/fault_kinds.h"
#include "tests/ptx/op_rows.h"
#include "tests/unit/unit.h"

#define NAME(name, ...) "pare_" #name "_cuda",
static const char *const names[] = {PARE_CUDA_KERNELS(NAME)};
enum {
    KERNELS = sizeof names / sizeof *names,
    CASES = 1024,
    KINDS = 32,
    PLACES = 8192,
    MOST = 9,
    LINES = 1 << 20
};

/* A case of a row, and what it runs. */
typedef struct run_case {
    const op_row *row;
    size_t i, size;        /* size: bytes of PTX that it runs, as a measure of its time */
    op_run near;           /* on the CPU */
    uint8_t *ran[KERNELS]; /* by line; NULL: the kernel is not launched */
} run_case;

/* The PTX of a kernel: text [0, head) of its file, then [start, end). */
typedef struct kernel_text {
    const char *file, *start, *end;
    size_t head, first, lines; /* first: number of the line at `start`; lines: of the file */
    uint8_t *ran;              /* by any case */
} kernel_text;

typedef struct fault {
    const fault_kind *kind;
    size_t kernel, line;
} fault;

static pare_ctx cx;
static pare_device *d;
static run_case cases[CASES];
static size_t case_count;
static kernel_text kernels[KERNELS];

/* --- texts ----------------------------------------------------------------------------------- */

static char *read_file(const char *path, size_t n)
{
    char name[4096], *text;
    (void)snprintf(name, sizeof name, "%.*s", (int)n, path);
    FILE *const f = fopen(name, "rb");
    ck_assert_msg(f && fseek(f, 0, SEEK_END) == 0, "%s", name);
    const long size = ftell(f);
    text = malloc((size_t)size + 1);
    ck_assert(text && fseek(f, 0, SEEK_SET) == 0);
    ck_assert_uint_eq(fread(text, 1, (size_t)size, f), (size_t)size);
    (void)fclose(f);
    text[size] = 0;
    return text;
}

static size_t lines_between(const char *from, const char *to)
{
    size_t n = 0;
    for (; from < to; from++)
        n += *from == '\n';
    return n;
}

/* Finds the kernels of a file. */
static void find_kernels(const char *text)
{
    static const char entry[] = ".visible .entry ";
    const char *const head = strstr(text, entry);
    for (const char *at = head; at; at = strstr(at + 1, entry)) {
        const char *const name = at + strlen(entry), *const end = strstr(at, "\n}\n");
        size_t k = 0;
        while (k < KERNELS &&
               (strncmp(name, names[k], strlen(names[k])) != 0 || name[strlen(names[k])] != '('))
            k++;
        ck_assert_msg(k < KERNELS && end, "%.60s", at);
        kernels[k] = (kernel_text){.file = text,
                                   .start = at,
                                   .end = end + 3,
                                   .head = (size_t)(head - text),
                                   .first = 1 + lines_between(text, at),
                                   .lines = 2 + lines_between(text, text + strlen(text))};
        kernels[k].ran = calloc(kernels[k].lines, 1);
        ck_assert_ptr_nonnull(kernels[k].ran);
    }
}

static void read_texts(void)
{
    for (const char *path = PARE_PTX_FILES; *path;) {
        const size_t n = strcspn(path, ":");
        find_kernels(read_file(path, n));
        path += n + (path[n] == ':');
    }
    for (size_t k = 0; k < KERNELS; k++)
        ck_assert_msg(kernels[k].start != NULL, "no text of %s", names[k]);
}

static const char *line_at(const kernel_text *k, size_t number)
{
    const char *at = k->start;
    for (size_t line = k->first; line < number; line++)
        at = strchr(at, '\n') + 1;
    return at;
}

/* --- the kernels as they are ----------------------------------------------------------------- */

static void trace(run_case *c)
{
    static uint8_t ran[LINES];
    for (size_t k = 0; k < KERNELS; k++) {
        const size_t lines = kernels[k].lines;
        void *kernel;
        ck_assert(lines <= LINES && d->op->kernel(&cx, d, names[k], &kernel) == PARE_OK);
        if (!ptx_trace(kernel, ran, lines))
            continue;
        c->ran[k] = malloc(lines);
        ck_assert_ptr_nonnull(c->ran[k]);
        memcpy(c->ran[k], ran, lines);
        memset(ran, 0, lines);
        c->size += (size_t)(kernels[k].end - kernels[k].start);
        for (size_t i = 0; i < lines; i++)
            kernels[k].ran[i] |= c->ran[k][i];
    }
}

/* Every case must pass, and every kernel be launched. */
static void run_cases(void)
{
    for (const op_row *row = op_rows; row->name; row++)
        for (size_t i = 0; i < row->cases; i++) {
            ck_assert_uint_lt(case_count, CASES);
            run_case *const c = &cases[case_count++];
            op_run there = {.out = NULL};
            *c = (run_case){.row = row, .i = i};
            const bool passed = op_row_run(&cx, NULL, row, i, &c->near) == PARE_OK &&
                                op_row_run(&cx, d, row, i, &there) == PARE_OK &&
                                op_row_compare(&cx, row, i, &c->near, &there) == PARE_OK;
            ck_assert_msg(passed, "%s %zu: %s", row->name, i, cx.what);
            free(there.out);
            trace(c);
        }
    for (size_t k = 0; k < KERNELS; k++)
        ck_assert_msg(memchr(kernels[k].ran, 1, kernels[k].lines) != NULL, "no row launches %s",
                      names[k]);
}

/* --- faults ---------------------------------------------------------------------------------- */

/* Lines that run and have a place for a mistake; at most `most`. */
static size_t places(const kernel_text *k, const fault_kind *kind, size_t *line, size_t most)
{
    size_t n = 0, number = k->first;
    for (const char *at = k->start; at < k->end && n < most; at = strchr(at, '\n') + 1, number++) {
        char words[FAULT_LINE], out[FAULT_LINE];
        if (!k->ran[number] || strcspn(at, "\n") >= sizeof words)
            continue;
        (void)snprintf(words, sizeof words, "%.*s", (int)strcspn(at, "\n"), at);
        if (kind->plant(words, out) && (!kind->fits || kind->fits(at)))
            line[n++] = number;
    }
    return n;
}

static char *planted(const fault *f, size_t *bytes)
{
    const kernel_text *const k = &kernels[f->kernel];
    const char *const at = line_at(k, f->line);
    const size_t before = (size_t)(at - k->start), length = strcspn(at, "\n");
    char words[FAULT_LINE], out[FAULT_LINE];
    char *const text = malloc(k->head + (size_t)(k->end - k->start) + FAULT_LINE);
    ck_assert_ptr_nonnull(text);
    (void)snprintf(words, sizeof words, "%.*s", (int)length, at);
    ck_assert(f->kind->plant(words, out));
    memcpy(text, k->file, k->head);
    memcpy(text + k->head, k->start, before);
    *bytes = k->head + before;
    memcpy(text + *bytes, out, strlen(out));
    *bytes += strlen(out);
    memcpy(text + *bytes, at + length, (size_t)(k->end - at) - length);
    *bytes += (size_t)(k->end - at) - length;
    return text;
}

enum { FOUND, MISSED, BROKEN };

/* Cases that run the line, those that take less time first, until one fails. */
static int look_for(const fault *f, char *how, size_t most)
{
    size_t bytes;
    char *const text = planted(f, &bytes);
    if (pare_device_ptx_replace(&cx, d, text, bytes) != PARE_OK) {
        (void)snprintf(how, most, "%s", cx.what);
        return BROKEN;
    }
    size_t told = (size_t)snprintf(how, most, "nothing of");
    for (size_t i = 0; i < case_count; i++) {
        const run_case *const c = &cases[i];
        op_run there = {.out = NULL};
        if (!c->ran[f->kernel] || !c->ran[f->kernel][f->line])
            continue;
        if (op_row_run(&cx, d, c->row, c->i, &there) != PARE_OK ||
            op_row_compare(&cx, c->row, c->i, &c->near, &there) != PARE_OK) {
            (void)snprintf(how, most, "%s", cx.what);
            return FOUND;
        }
        free(there.out);
        if (told + 32 < most)
            told += (size_t)snprintf(how + told, most - told, " %s %zu", c->row->name, c->i);
    }
    return MISSED;
}

static void tell(const fault *f, const char *how)
{
    const kernel_text *const k = &kernels[f->kernel];
    const char *const at = line_at(k, f->line);
    size_t loc = f->line;
    unsigned file = 0, line = 0;
    while (loc > k->first && sscanf(line_at(k, loc), " .loc %u %u", &file, &line) != 2)
        loc--;
    (void)fprintf(stderr, "%s, %s, line %zu (source %u:%u) '%.*s': %s\n", names[f->kernel],
                  f->kind->name, f->line, file, line, (int)strcspn(at + 1, "\n"), at + 1, how);
}

static pid_t start(const fault *f, bool loud)
{
    char how[1100];
    const pid_t child = fork();
    if (child)
        return child;
    const int result = look_for(f, how, sizeof how);
    if (loud || result != FOUND)
        tell(f, how);
    _exit(result);
}

static int by_size(const void *a, const void *b)
{
    const run_case *const x = a, *const y = b;
    return (x->size > y->size) - (x->size < y->size);
}

/* How many are not found. Some run side by side, in processes of their own: they may end one. */
static size_t run_faults(const fault *f, size_t count, bool loud)
{
    size_t running = 0, missed = 0;
    for (size_t i = 0; i < count || running > 0;) {
        int status;
        if (i < count && running < pare_cpu_count()) {
            ck_assert_int_gt(start(&f[i++], loud), 0);
            running++;
            continue;
        }
        ck_assert_int_gt(wait(&status), 0);
        running--;
        missed += WIFEXITED(status) && WEXITSTATUS(status) != FOUND;
    }
    return missed;
}

/* What no check finds, and why. The lines are those of the text of nvcc 13.0. */
static const struct {
    const char *kernel, *kind, *why;
} unseen[] = {
    {"route", "no barrier of a warp", "lanes of a warp that race in global memory go in step here"},
    {"divergence", "other lane", "the largest of eight values that each octet of a warp has"},
    {"score", "other lane",
     "the largest of parts of a row from the seventeenth on; rows have three"},
    {"kv_put", "predicate", "the way of nvcc to divide small numbers, with the same result"},
    {"gemm_f16_q3", "predicate", "atoms are taken one by one instead of two by two"},
    {"gemm_x8_many_s4", "predicate", "four rows are written one by one instead of at once"},
    {"gemm_x8_many_q2", "size", "the last of four rows, which lie behind n together or not at all"},
    {"gemm_x8_many_q3", "size", "m at the fourth of eight tiles of tokens, behind all or before"},
    {"gemm_x8_many_q4", "size", "as q2"},
    {"gemm_x8_many_t2", "size", "as q2"},
    {"gemm_x8_many_s4", "size", "as q2"},
    {"gemm_x8_many_s8", "size", "as q2"},
    {"attend_scores", "size", "rows that read the same are asked one by one"},
    {"attend_128", "size", "channels left of a head whose channels come in whole eights"},
    {"dequant_24", "size", "k, a multiple of 32, is rounded up to 64"},
    {"dequant_binary", "shift", "a place of codes of 8 bits; these have 2"},
    {"gemm_f16", "shift", "the first token of a tile, of which there is one"},
    {"gemm_f16_many_e4m3", "shift", "the lowest bit of a NaN, which is one without it, too"},
};

static bool is_unseen(const fault *f)
{
    char name[64];
    for (size_t i = 0; i < sizeof unseen / sizeof *unseen; i++) {
        (void)snprintf(name, sizeof name, "pare_%s_cuda", unseen[i].kernel);
        if (strcmp(names[f->kernel], name) == 0 && strcmp(unseen[i].kind, f->kind->name) == 0)
            return true;
    }
    return false;
}

/* The faults of a kernel: of each kind `each`, or with 0 one of two kinds and of those that no
 * kernel had. used[i] is set for the kinds. */
static size_t choose(size_t k, size_t each, fault *out, bool *used)
{
    static size_t line[KINDS][PLACES];
    const bool known = strcmp(PARE_CUDA_VERSION, "13.0") == 0;
    const size_t most = each ? each : 1;
    size_t place[KINDS], kinds[KINDS], n = 0, count = 0;
    for (size_t i = 0; fault_kinds[i].name; i++) {
        if (fault_kinds[i].by_compiler && !known)
            continue;
        place[n] = places(&kernels[k], &fault_kinds[i], line[n], PLACES);
        kinds[n] = i;
        n += place[n] > 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (!each && used[kinds[i]] && i != k % n && i != (k + n / 2) % n)
            continue;
        for (size_t j = 0; j < most && j < place[i]; j++) {
            const size_t at = place[i] <= most ? j : (2 * j + 1) * place[i] / (2 * most);
            out[count] = (fault){&fault_kinds[kinds[i]], k, line[i][at]};
            if (is_unseen(&out[count]))
                continue;
            count++;
            used[kinds[i]] = true;
        }
    }
    ck_assert_msg(count > 0, "%s has no place for a fault", names[k]);
    return count;
}

START_TEST(planted_faults_are_found)
{
    const char *const all = getenv("PARE_PTX_FAULTS");
    const size_t each = all ? strtoul(all, NULL, 10) : 0;
    const pare_device_ptx_options options = {
        .run = {.checks = PTX_FULL, .trace = true, .limit = 1 << 20}};
    static fault faults[KERNELS * KINDS * MOST];
    bool used[KINDS] = {false};
    size_t count = 0;
    ck_assert_uint_le(each, MOST);
    pare_ctx_init(&cx);
    ck_assert_msg(pare_device_ptx_open(&cx, PARE_PTX_FILES, &options, &d) == PARE_OK, "%s",
                  cx.what);
    read_texts();
    run_cases();
    qsort(cases, case_count, sizeof *cases, by_size);
    for (size_t k = 0; k < KERNELS; k++)
        count += choose(k, each, faults + count, used);
    for (size_t i = 0; fault_kinds[i].name; i++)
        ck_assert_msg(used[i] || fault_kinds[i].by_compiler, "no place for '%s'",
                      fault_kinds[i].name);
    const size_t missed = run_faults(faults, count, all != NULL);
    ck_assert_msg(missed == 0, "%zu of %zu faults are not found", missed, count);
    (void)fprintf(stderr, "%zu faults are found\n", count);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("ptx.faults");
    TCase *const t = tcase_create("faults");
    tcase_add_test(t, planted_faults_are_found);
    suite_add_tcase(s, t);
    return unit_main(s);
}
