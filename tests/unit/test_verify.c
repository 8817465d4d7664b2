#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "compress/artifact/verify.h"
#include "formats/safetensors.h"
#include "tests/data/tiny_artifact.h"
#include "tests/fuzz/manifest_input.h"
#include "tests/unit/folder.h"
#include "tests/unit/unit.h"

enum { FLIPS = 1000, CUTS = 100, TEXT = 1 << 16 };

/* A model and an artifact of it in one temporary directory. */
typedef struct fixture {
    pare_ctx cx;
    pare_arena a;
    char directory[32], model[64], artifact[64];
    char found[TEXT]; /* findings, one a line */
    size_t used;
    pare_verify_result result;
    char *text; /* that was loaded last */
} fixture;

static void take(void *self, const char *what)
{
    fixture *const f = self;
    const int n = snprintf(f->found + f->used, sizeof f->found - f->used, "%s\n", what);
    f->used += n > 0 && (size_t)n < sizeof f->found - f->used ? (size_t)n : 0;
}

static pare_status verify(fixture *f, const char *path)
{
    f->used = 0;
    f->found[0] = '\0';
    pare_ctx_clear(&f->cx);
    return pare_verify(&f->cx, path, take, f, &f->result);
}

static fixture *begin_with(tiny_model m, bool pruned)
{
    static fixture f;
    f = (fixture){.directory = "/tmp/pare-verify-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(f.directory));
    (void)snprintf(f.model, sizeof f.model, "%s/model", f.directory);
    (void)snprintf(f.artifact, sizeof f.artifact, "%s/artifact", f.directory);
    pare_ctx_init(&f.cx);
    ck_assert_int_eq(pare_arena_init(&f.cx, &f.a, 0), PARE_OK);
    ck_assert(tiny_model_write(&m, f.model));
    ck_assert_int_eq(mkdir(f.artifact, 0777), 0);
    const pare_status s = tiny_artifact_write(&f.cx, f.model, f.artifact, pruned);
    ck_assert_msg(s == PARE_OK, "%s", f.cx.what);
    return &f;
}

static fixture *begin(void)
{
    return begin_with(tiny_model_default(), false);
}

static void end(fixture *f)
{
    char command[64];
    pare_arena_release(&f->a);
    ck_assert_uint_eq(f->cx.live_bytes, 0);
    (void)snprintf(command, sizeof command, "rm -r %s", f->directory);
    ck_assert_int_eq(system(command), 0);
}

static const char *path_of(const fixture *f, const char *file)
{
    static char path[192];
    (void)snprintf(path, sizeof path, "%s/%s", f->artifact, file);
    return path;
}

/* Bytes of one file of the artifact, and the reverse without a detour over a temporary file. */
static char *load(fixture *f, const char *file, size_t *len)
{
    ck_assert_int_eq(pare_file_read(&f->cx, &f->a, path_of(f, file), 1 << 24, &f->text, len),
                     PARE_OK);
    return f->text;
}

static void store(const fixture *f, const char *file, const char *text, size_t len)
{
    FILE *const out = fopen(path_of(f, file), "wb");
    ck_assert(out && fwrite(text, 1, len, out) == len && fclose(out) == 0);
}

static size_t packed_files(const fixture *f, char name[][48], size_t most)
{
    size_t count = 0;
    DIR *const d = opendir(f->artifact);
    ck_assert_ptr_nonnull(d);
    for (const struct dirent *e = readdir(d); e && count < most; e = readdir(d))
        if (strncmp(e->d_name, "packed-", 7) == 0)
            (void)snprintf(name[count++], 48, "%.47s", e->d_name);
    (void)closedir(d);
    return count;
}

START_TEST(a_whole_artifact_and_a_whole_checkpoint_have_no_findings)
{
    fixture *const f = begin();
    ck_assert_int_eq(verify(f, f->artifact), PARE_OK);
    ck_assert_msg(f->result.findings == 0, "%s", f->found);
    ck_assert_uint_gt(f->result.files, 4);
    ck_assert_uint_gt(f->result.tensors, 30);
    ck_assert_int_eq(verify(f, f->model), PARE_OK);
    ck_assert_msg(f->result.findings == 0, "%s", f->found);
    ck_assert_uint_eq(f->result.tensors, 21);
    end(f);
}
END_TEST

START_TEST(each_of_1000_flipped_bits_of_packed_files_is_found)
{
    fixture *const f = begin();
    char name[16][48];
    const size_t files = packed_files(f, name, 16);
    ck_assert_uint_gt(files, 1);
    for (size_t i = 0; i < FLIPS; i++) {
        const char *const file = name[i % files];
        const pare_mark mark = pare_arena_mark(&f->a);
        size_t len;
        char *const text = load(f, file, &len);
        /* the first 64 of each file hit its header, the rest any bit */
        const uint64_t range = i / files < 64 ? 512 : len;
        const uint64_t bit = pare_random_u64(4, 0, i) % (8 * range);
        text[bit / 8] ^= (char)(1 << bit % 8);
        store(f, file, text, len);
        ck_assert_int_eq(verify(f, f->artifact), PARE_OK);
        ck_assert_msg(f->result.findings > 0, "bit %zu of %s", (size_t)bit, file);
        ck_assert_ptr_nonnull(strstr(f->found, file));
        text[bit / 8] ^= (char)(1 << bit % 8);
        store(f, file, text, len);
        pare_arena_rewind(&f->a, mark);
    }
    ck_assert_int_eq(verify(f, f->artifact), PARE_OK);
    ck_assert_uint_eq(f->result.findings, 0);
    end(f);
}
END_TEST

START_TEST(each_of_100_truncations_of_packed_files_is_found)
{
    fixture *const f = begin();
    char name[16][48];
    const size_t files = packed_files(f, name, 16);
    for (size_t i = 0; i < CUTS; i++) {
        const char *const file = name[i % files];
        const pare_mark mark = pare_arena_mark(&f->a);
        size_t len;
        char *const text = load(f, file, &len);
        store(f, file, text, i < files ? 0 : pare_random_u64(5, 0, i) % len);
        ck_assert_int_eq(verify(f, f->artifact), PARE_OK);
        ck_assert_uint_gt(f->result.findings, 0);
        ck_assert_ptr_nonnull(strstr(f->found, file));
        store(f, file, text, len);
        pare_arena_rewind(&f->a, mark);
    }
    end(f);
}
END_TEST

START_TEST(files_that_are_missing_or_too_many_are_found)
{
    static const char *const gone[] = {"packed.index.json", "config.json", "manifest.json",
                                       "packed-00001-of-00005.safetensors"};
    fixture *const f = begin();
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        size_t len;
        char *const text = load(f, gone[i], &len);
        ck_assert_int_eq(unlink(path_of(f, gone[i])), 0);
        ck_assert_int_eq(verify(f, f->artifact), PARE_OK);
        ck_assert_msg(f->result.findings > 0, "%s", gone[i]);
        ck_assert_ptr_nonnull(strstr(f->found, gone[i]));
        store(f, gone[i], text, len);
    }
    store(f, "stray.safetensors", "", 0);
    ck_assert_int_eq(verify(f, f->artifact), PARE_OK);
    ck_assert_ptr_nonnull(strstr(f->found, "stray.safetensors: a weight file that the manifest"));
    end(f);
}
END_TEST

/* Replaces the first `from` in the manifest by `to`, of the same length. */
static void edit_manifest(fixture *f, const char *from, const char *to)
{
    size_t len;
    char *const text = load(f, "manifest.json", &len);
    char *const at = strstr(text, from);
    ck_assert_ptr_nonnull(at);
    memcpy(at, to, strlen(to));
    store(f, "manifest.json", text, len);
}

START_TEST(a_manifest_that_disagrees_is_found)
{
    static const struct {
        const char *from, *to, *what;
    } edit[] = {
        {"\"none\"", "\"nine\"", "SHA-256 of the recipe is"},
        {"\"bytes\"", "\"bites\"", "outputs: item 0 is malformed"},
        {"packed-00002", "packed-00092", "packed-00002-of-00005.safetensors: a weight file that"},
        {"model.norm.weight", "model.norm.wEight", "model.norm.wEight: in the manifest, but in no"},
        {"layers.1.mlp.up_proj", "layers.9.mlp.up_proj", "but not in packed.index.json"},
        {"\"scales\": \"", "\"scales\": \"x", "the manifest says x"},
        {"\"file\": \"config.json\"", "\"file\": \"/onfig.json\"", "item 0 is malformed"},
        {"\"pare\": ", "\"pare\": }", "manifest.json:2:"},
    };
    fixture *const f = begin();
    size_t len;
    char *const text = load(f, "manifest.json", &len);
    for (size_t i = 0; i < sizeof edit / sizeof edit[0]; i++) {
        edit_manifest(f, edit[i].from, edit[i].to);
        ck_assert_int_eq(verify(f, f->artifact), PARE_OK);
        ck_assert_msg(strstr(f->found, edit[i].what), "no \"%s\" in:\n%s", edit[i].what, f->found);
        store(f, "manifest.json", text, len);
    }
    end(f);
}
END_TEST

/* Offset of a tensor in its file; the file's bytes come out too. */
static char *seek(fixture *f, const char *tensor, const char **file, size_t *len, size_t *at)
{
    static char name[16][48];
    const size_t files = packed_files(f, name, 16);
    for (size_t i = 0; i < files; i++) {
        pare_safetensors st;
        char *const text = load(f, name[i], len);
        ck_assert_int_eq(pare_safetensors_parse(&f->cx, &f->a, name[i], text, *len, &st), PARE_OK);
        for (size_t t = 0; t < st.tensors; t++) {
            if (strcmp(st.tensor[t].name, tensor) != 0)
                continue;
            *file = name[i];
            *at = (size_t)((const char *)st.tensor[t].data - text);
            return text;
        }
    }
    ck_abort_msg("no %s", tensor);
    return NULL;
}

/* Values no writer of ours makes. They would be found with right hashes as well: each has its own
 * finding beside those of the hashes. Gate of block 0 is 3 bit by row, asymmetric, 112 x 48; down
 * is EXL3, 48 x 112, 3 bit. */
START_TEST(values_out_of_range_have_findings_of_their_own)
{
    static const struct {
        const char *tensor;
        size_t offset;
        unsigned char byte;
        const char *what;
    } poke[] = {
        {"model.layers.0.mlp.gate_proj.zeros", 5, 8, "gate_proj.zeros: row 5: 8 is not below 8"},
        {"model.layers.0.mlp.gate_proj.scales", 3, 0x7c, "gate_proj.scales: row 1: 0x7c"},
        {"model.layers.0.mlp.gate_proj.scales", 1, 0xb0, "is not 0 or a positive F16"},
        {"model.layers.0.mlp.gate_proj.codes", 128, 0xff,
         "gate_proj.codes: padding of rows 0 .. 7"},
        {"model.layers.0.mlp.gate_proj.codes", 160, 0xff,
         "gate_proj.codes: padding of rows 0 .. 7"},
        {"model.layers.0.self_attn.k_proj.scales", 24 * 2 * 2 + 1, 0x30,
         "padding row 24 has scale"},
        {"model.norm.weight", 1, 0x7e, "model.norm.weight: element 0 is NaN or infinite"},
        {"model.layers.1.mlp.down_proj.codes", 0, 3,
         "down_proj.codes: row 0, column 0: 3 stands for no ternary value"},
        {"model.layers.1.mlp.up_proj.codes", 0, 0x7f,
         "up_proj.codes: row 0, column 0: 255 stands for no fp8_e4m3 value"},
        {"model.layers.1.mlp.up_proj.scales", 1, 0xb0, "is not 0 or a positive F16"},
        {"model.layers.1.self_attn.k_proj.scales", 0, 10, "row 0: 2^-117 is outside 2^-24 .. 2^15"},
        {"model.layers.1.self_attn.k_proj.scales", 48, 5,
         "k_proj.scales: row 24: code 5 stands for 0x0000"},
        {"model.layers.1.mlp.gate_proj.scale_steps", 3, 0xbf, "gate_proj.scale_steps: -"},
        {"model.layers.1.mlp.gate_proj.scale_offset", 3, 0x7f, "stands for 0x7c00"},
        {"model.layers.0.mlp.up_proj.book", 1, 0xb0, "up_proj.book: row 0: 0xb0"},
        {"model.layers.1.self_attn.v_proj.book", 384, 5,
         "v_proj.book: row 24: 0x0005 is in the padding"},
        {"model.layers.1.self_attn.q_proj.book", 2304, 5,
         "q_proj.book: row 72: 0x0005 is in the padding"},
        {"model.layers.0.mlp.up_proj.salient", 3, 2, "up_proj.salient: column 3: 2"},
        {"model.layers.0.self_attn.o_proj.outlier_columns", 4, 0,
         "o_proj.outlier_columns: 0 is not below 72 and above"},
        {"model.layers.0.self_attn.o_proj.outlier_scales", 1, 0xb0,
         "o_proj.outlier_scales: row 0: 0xb0"},
        {"model.layers.0.self_attn.o_proj.outlier_codes", 257, 5,
         "o_proj.outlier_codes: padding of rows 0 .. 7"},
        {"model.layers.0.self_attn.q_proj.input_scale", 3, 0xbd, "q_proj: input scale -"},
        {"model.layers.0.self_attn.v_proj.sparse_starts", 4, 200,
         "row 1: 200 does not ascend from 0 to 40"},
        {"model.layers.0.self_attn.v_proj.sparse_columns", 0, 240,
         "v_proj.sparse_columns: 240 is not below 48"},
        {"model.layers.0.mlp.down_proj.row_scales", 5, 0x7e,
         "down_proj.row_scales: element 2 is NaN or infinite"},
        {"model.layers.0.mlp.down_proj.column_scales", 223, 0xfe,
         "down_proj.column_scales: element 111 is NaN or infinite"},
        {"model.layers.0.mlp.down_proj.codes", 7 * 96, 5,
         "down_proj.codes: padding of rows 0 .. 15 is not 0"},
        {"model.layers.0.mlp.down_proj.codes", 24 * 96 - 1, 5,
         "down_proj.codes: padding of rows 32 .. 47 is not 0"},
    };
    fixture *const f = begin();
    for (size_t i = 0; i < sizeof poke / sizeof poke[0]; i++) {
        const char *file = NULL;
        size_t len, at;
        char *const text = seek(f, poke[i].tensor, &file, &len, &at);
        /* a code of 3 bits has no room to be out of range: only padding can be wrong */
        const char old = text[at + poke[i].offset];
        text[at + poke[i].offset] =
            (char)(poke[i].byte == 0xff ? ~(unsigned char)old : poke[i].byte);
        store(f, file, text, len);
        ck_assert_int_eq(verify(f, f->artifact), PARE_OK);
        ck_assert_msg(strstr(f->found, poke[i].what), "no \"%s\" in:\n%s", poke[i].what, f->found);
        text[at + poke[i].offset] = old;
        store(f, file, text, len);
    }
    end(f);
}
END_TEST

/* In block 0: down 48 x 112 of 4 bits, gate 112 x 48 of 8 bits, up and v (24 x 48) of 16 bits, 2:4;
 * k 24 x 48 with a mask, one weight in four. In block 1: v 24 x 48 of 16 bits, dense. */
START_TEST(pruned_weights_have_findings_of_their_own)
{
    static const struct {
        const char *tensor;
        size_t offset;
        unsigned char byte;
        const char *what;
    } poke[] = {
        {"model.layers.0.mlp.up_proj.values", 1, 0x7c,
         "up_proj: row 0, columns 0 .. 3: a value is not finite"},
        {"model.layers.0.mlp.up_proj.values", 50, 5,
         "up_proj: row 0, columns 48 .. 51: the padding does not stand for 0"},
        {"model.layers.0.self_attn.v_proj.values", 1536, 5,
         "v_proj: row 24, columns 0 .. 3: the padding does not stand for 0"},
        {"model.layers.0.mlp.down_proj.codes", 192, 0xff,
         "down_proj: row 0, columns 112 .. 115: the padding does not stand for 0"},
        {"model.layers.0.mlp.gate_proj.indices", 33, 0xff,
         "a free place is not for the lowest column"},
        {"model.layers.0.self_attn.v_proj.indices", 0, 0xff, "v_proj.indices: row 0: the two of"},
        {"model.layers.0.self_attn.k_proj.values", 1, 0x7c,
         "k_proj.values: value 0: a value is not finite"},
        {"model.layers.0.self_attn.k_proj.values", 576, 5,
         "k_proj.values: value 288: behind the last one of the mask"},
        {"model.layers.0.self_attn.k_proj.mask", 0, 0x23,
         "k_proj.values: value 288: a 0 is stored"},
        {"model.layers.1.self_attn.v_proj.values", 97, 0x7c,
         "v_proj: row 1, column 0: a value is not finite"},
    };
    fixture *const f = begin_with(tiny_model_default(), true);
    ck_assert_int_eq(verify(f, f->artifact), PARE_OK);
    ck_assert_msg(f->result.findings == 0, "%s", f->found);
    for (size_t i = 0; i < sizeof poke / sizeof poke[0]; i++) {
        const char *file = NULL;
        size_t len, at;
        char *const text = seek(f, poke[i].tensor, &file, &len, &at);
        const char old = text[at + poke[i].offset];
        text[at + poke[i].offset] = (char)poke[i].byte;
        store(f, file, text, len);
        ck_assert_int_eq(verify(f, f->artifact), PARE_OK);
        ck_assert_msg(strstr(f->found, poke[i].what), "no \"%s\" in:\n%s", poke[i].what, f->found);
        text[at + poke[i].offset] = old;
        store(f, file, text, len);
    }
    end(f);
}
END_TEST

/* down, up and v (24 x 256) are Q4_K, gate, q and k (24 x 256) Q6_K. */
START_TEST(super_blocks_have_findings_of_their_own)
{
    static const struct {
        const char *tensor;
        size_t offset;
        unsigned char byte;
        const char *what;
    } poke[] = {
        {"model.layers.0.self_attn.v_proj.sub", 5, 64, "v_proj.sub: row 5: 64 is not below 64"},
        {"model.layers.0.self_attn.v_proj.sub", 384, 1, "v_proj.sub: row 24: 1 is in the padding"},
        {"model.layers.0.self_attn.k_proj.sub", 391, 255,
         "k_proj.sub: row 31: 255 is in the padding"},
        {"model.layers.0.self_attn.v_proj.minima", 1, 0xb0, "v_proj.minima: row 0: 0xb0"},
        {"model.layers.0.self_attn.v_proj.minima", 3, 0x7c, "v_proj.minima: row 1: 0x7c"},
        {"model.layers.0.self_attn.v_proj.minima", 49, 0x30, "minima: padding row 24 has scale"},
        {"model.layers.0.self_attn.v_proj.scales", 1, 0xb0, "is not 0 or a positive F16"},
        {"model.layers.0.self_attn.k_proj.scales", 1, 0x7c, "k_proj.scales: row 0: 0x7c"},
        {"model.layers.0.self_attn.k_proj.scales", 1, 0xfc, " is not a finite F16"},
        {"model.layers.0.self_attn.v_proj.codes", 3072, 0xff,
         "v_proj.codes: padding of rows 24 .. 31"},
        {"model.layers.0.self_attn.k_proj.codes", 4608, 0xff,
         "k_proj.codes: padding of rows 24 .. 31"},
    };
    tiny_model m = tiny_model_default();
    m.hidden = 256;
    m.intermediate = 512;
    m.blocks = 1;
    fixture *const f = begin_with(m, false);
    ck_assert_int_eq(verify(f, f->artifact), PARE_OK);
    ck_assert_msg(f->result.findings == 0, "%s", f->found);
    for (size_t i = 0; i < sizeof poke / sizeof poke[0]; i++) {
        const char *file = NULL;
        size_t len, at;
        char *const text = seek(f, poke[i].tensor, &file, &len, &at);
        const char old = text[at + poke[i].offset];
        text[at + poke[i].offset] =
            (char)(poke[i].byte == 0xff ? ~(unsigned char)old : poke[i].byte);
        store(f, file, text, len);
        ck_assert_int_eq(verify(f, f->artifact), PARE_OK);
        ck_assert_msg(strstr(f->found, poke[i].what), "no \"%s\" in:\n%s", poke[i].what, f->found);
        text[at + poke[i].offset] = old;
        store(f, file, text, len);
    }
    /* the scale of a Q6_K block may be negative */
    const char *file = NULL;
    size_t len, at;
    char *text = seek(f, "model.layers.0.self_attn.k_proj.scales", &file, &len, &at);
    text[at + 1] = (char)((unsigned char)text[at + 1] | 0x80);
    store(f, file, text, len);
    ck_assert_int_eq(verify(f, f->artifact), PARE_OK);
    ck_assert_ptr_null(strstr(f->found, "k_proj.scales: row"));
    end(f);
}
END_TEST

/* The largest of a few outlier weights of a row may be tiny; only the hashes tell of the change. */
START_TEST(a_subnormal_scale_of_outliers_is_no_finding)
{
    fixture *const f = begin();
    const char *file = NULL;
    size_t len, at;
    char *const text = seek(f, "model.layers.0.self_attn.o_proj.outlier_scales", &file, &len, &at);
    text[at] = 7;
    text[at + 1] = 1;
    store(f, file, text, len);
    ck_assert_int_eq(verify(f, f->artifact), PARE_OK);
    ck_assert_ptr_nonnull(strstr(f->found, "SHA-256"));
    ck_assert_ptr_null(strstr(f->found, "row 0"));
    end(f);
}
END_TEST

START_TEST(what_is_not_there_is_an_error_and_not_a_finding)
{
    fixture *const f = begin();
    ck_assert_int_eq(verify(f, "/nowhere/at/all"), PARE_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(f->cx.what, "/nowhere/at/all"));
    ck_assert_int_eq(verify(f, path_of(f, "manifest.json")), PARE_ENOTSUP);
    end(f);
}
END_TEST

/* Neither an artifact without files nor a path with nothing there. */
START_TEST(what_may_not_be_looked_at_is_an_error_and_not_a_finding)
{
    fixture *const f = begin();
    ck_assert_int_eq(chmod(f->directory, 0755), 0);
    ck_assert_int_eq(chmod(f->artifact, 0444), 0);
    unit_be_nobody();
    const pare_status inside = verify(f, f->artifact);
    unit_be_again();
    ck_assert_msg(inside == PARE_EFORMAT, "%d: %s", (int)inside, f->found);
    ck_assert_msg(strstr(f->cx.what, "artifact/packed.index.json: cannot look at"), "%s",
                  f->cx.what);
    ck_assert_int_eq(chmod(f->artifact, 0755), 0);
    ck_assert_int_eq(chmod(f->directory, 0), 0);
    unit_be_nobody();
    const pare_status itself = verify(f, f->artifact);
    unit_be_again();
    ck_assert_int_eq(chmod(f->directory, 0700), 0);
    ck_assert_int_eq(itself, PARE_EFORMAT);
    ck_assert_msg(strstr(f->cx.what, "artifact: cannot look at"), "%s", f->cx.what);
    end(f);
}
END_TEST

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    fixture *const f = begin();
    const pare_alloc real = f->cx.alloc;
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK && n < 10000; n++) {
        unit_failing failing = {.left = n};
        f->cx.alloc = (pare_alloc){unit_failing_resize, &failing};
        s = verify(f, f->artifact);
        ck_assert(s == PARE_OK || s == PARE_ENOMEM);
        ck_assert((s == PARE_OK) == (f->cx.what[0] == '\0'));
        ck_assert_int_eq(failing.live, 0);
    }
    f->cx.alloc = real;
    ck_assert_int_eq(s, PARE_OK);
    ck_assert_uint_eq(f->result.findings, 0);
    end(f);
}
END_TEST

static const char *const manifest_messages[] = {
    "manifest.json:1:",
    "manifest.json: outputs: item 0 is malformed",
    "manifest.json: outputs: item 1 is malformed",
    "manifest.json: SHA-256 of the recipe is absent, recipe_sha256 says nothing",
    "manifest.json: SHA-256 of the recipe is ca978112",
    "manifest.json: SHA-256 of the recipe is absent, recipe_sha256 says ca978112",
    "packed-00001-of-00001.safetensors: l.codes: XXH3 is",
    "packed-00001-of-00001.safetensors: l.scales: the manifest has no hash of it",
    "packed-00001-of-00001.safetensors: l.codes: the manifest has no hash of it",
    "packed-00001-of-00001.safetensors: n: the manifest has no hash of it",
    "packed-00001-of-00001.safetensors: n: XXH3 is",
    "m: in the manifest, but in no weight file",
    "x: in the manifest, but not in packed.index.json",
};

static pare_status parse_manifest(pare_ctx *c, const void *bytes, size_t len)
{
    pare_arena a;
    pare_status s = pare_arena_init(c, &a, 0);
    if (s == PARE_OK)
        s = manifest_input_run(c, &a, bytes, len);
    pare_arena_release(&a);
    return s;
}

START_TEST(the_corpus_reaches_every_message_of_the_manifest)
{
    corpus_reaches("manifest", parse_manifest, manifest_messages,
                   sizeof manifest_messages / sizeof *manifest_messages);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("verify");
    TCase *const t = tcase_create("verify");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_whole_artifact_and_a_whole_checkpoint_have_no_findings);
    tcase_add_test(t, each_of_1000_flipped_bits_of_packed_files_is_found);
    tcase_add_test(t, each_of_100_truncations_of_packed_files_is_found);
    tcase_add_test(t, files_that_are_missing_or_too_many_are_found);
    tcase_add_test(t, a_manifest_that_disagrees_is_found);
    tcase_add_test(t, values_out_of_range_have_findings_of_their_own);
    tcase_add_test(t, pruned_weights_have_findings_of_their_own);
    tcase_add_test(t, super_blocks_have_findings_of_their_own);
    tcase_add_test(t, a_subnormal_scale_of_outliers_is_no_finding);
    tcase_add_test(t, what_is_not_there_is_an_error_and_not_a_finding);
    tcase_add_test(t, what_may_not_be_looked_at_is_an_error_and_not_a_finding);
    tcase_add_test(t, every_failed_allocation_is_reported_and_leaks_nothing);
    tcase_add_test(t, the_corpus_reaches_every_message_of_the_manifest);
    suite_add_tcase(s, t);
    return unit_main(s);
}
