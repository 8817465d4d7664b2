#include "formats/torch.h"

#include "tests/data/torch_file.h"
#include "tests/unit/folder.h"

/* Every message of archive, pickle and tensors. Bounds that only large files reach stand below. */
static const char *const messages[] = {
    /* archive */
    "bytes, a zip archive has at least 22: truncated?",
    "no end of a zip directory: truncated, or not a zip archive?",
    "file: a part of an archive of several files",
    "the locator of the zip64 directory points to 5, where there is none",
    "points to 9223372036854775808, where there is none",
    "the zip64 directory should have 7 bytes from byte ",
    "the two ends of the directory do not agree",
    "file: the directory should have ",
    "600 entries in a directory of ",
    "1152921504606846976 entries in a directory of ",
    "the directory goes on behind its 2 entries",
    "no entry of the directory",
    "an entry reaches beyond the directory",
    "an entry's name has 0 bytes, 1 to 1024 are accepted",
    "an entry's name has 1025 bytes, 1 to 1024 are accepted",
    "a control character in an entry's name",
    "entry m/data.pkl: its 64-bit sizes are missing from the directory",
    "entry m/data.pkl is encrypted",
    "entry m/data.pkl is compressed (method 8, deflate); only stored entries are read",
    "entry m/data.pkl is compressed (method 14);",
    "entry m/data.pkl is stored, but has 10 bytes in the file and 100000 outside",
    "entry m/data.pkl should begin at byte 3: not there",
    "entry m/data.pkl should begin at byte 4294967280: not there",
    "entry m/data.pkl is described otherwise in the directory than at byte 0",
    "entry m/data.pkl at byte 0 should have 5000 bytes, but the directory begins at byte ",
    ", inside entry m/data.pkl that ends at ",
    "two entries are called m/data/0",
    /* checkpoint */
    "the format of PyTorch before 1.6, without zip",
    "a zip archive without NAME/data.pkl: not a PyTorch checkpoint",
    "two descriptions, m/data.pkl and n/data.pkl",
    "byteorder is \"big\", only little is read",
    "tensor a: its storage 0 is not in the file",
    "tensor a: storage 0 has 20 bytes, its description says 24",
    "tensor a has more elements than its storage of 24 bytes",
    /* instructions */
    "data.pkl: byte 2: GLOBAL: os.system is not one of the names that tensors need",
    "STACK_GLOBAL: posix.system is not one of the names",
    "GLOBAL: builtins.eval is not one of the names",
    "GLOBAL: __builtin__.getattr is not one of the names",
    "GLOBAL: ??os.sys?[tem is not one of the names",
    "byte 3: instruction INST (0x69) has no place in a description of tensors",
    "instruction OBJ (0x6f)",
    "instruction NEWOBJ (0x81)",
    "instruction EXT1 (0x82)",
    "instruction POP (0x30)",
    "instruction DUP (0x32)",
    "instruction EMPTY_SET (0x8f)",
    "instruction SHORT_BINBYTES (0x43)",
    "instruction STRING (0x53)",
    "instruction unknown (0xff)",
    "PROTO: protocol 6, 2 to 5 are read",
    "byte 2: PROTO: protocol 2, 2 to 5 are read",
    "bytes of a pickle without its end",
    "BININT: the pickle ends in the middle of an instruction",
    "GLOBAL: a line without an end",
    "FRAME: a frame that reaches beyond the pickle",
    "STOP: not exactly one value is left on the stack",
    "STOP: bytes follow the end of the pickle",
    "TUPLE2: the stack does not hold enough values",
    "TUPLE1: the stack does not hold enough values",
    "TUPLE: there is no mark",
    "MARK: more than 64 marks",
    "APPEND: the value that is changed has the wrong type",
    "APPENDS: the value that is changed has the wrong type",
    "SETITEM: the value that is changed has the wrong type",
    "BUILD: the value that is changed has the wrong type",
    "SETITEMS: a key without a value",
    "LONG1: a number of more than 64 bits",
    "BINUNICODE: a text of 2147483647 bytes, at most 65536 are accepted",
    "BUILD: a state that is not a dictionary",
    "LONG_BINPUT: memory 2147483647 is set when 0 are in use",
    "BINGET: memory 0 is read when 0 are in use",
    "STACK_GLOBAL: a name that is not a text",
    /* objects */
    "REDUCE: no imported name, or no tuple of arguments",
    "REDUCE: a type where a function is expected",
    "REDUCE: an OrderedDict with 1 arguments, not 0",
    "REDUCE: a tensor is not made of (storage, offset, shape, stride, requires_grad, hooks)",
    "REDUCE: a parameter is not made of (tensor, requires_grad, hooks)",
    "BINPERSID: a persistent id is not (storage, type, key, location, elements)",
    "BINPERSID: a storage of -1 elements",
    "REDUCE: a tensor begins at element -1 of its storage",
    "the shape of a tensor is not a tuple of at most 8 numbers",
    "number 0 of the shape of a tensor is not a whole number from 0 on",
    "number 0 of the stride of a tensor is not a whole number from 0 on",
    "REDUCE: a tensor of 2 dimensions with 1 strides",
    "REDUCE: a tensor from element 1 on reaches beyond its storage of 6 elements",
    "REDUCE: a tensor from element 0 on reaches beyond its storage of 6 elements",
    /* the dictionary */
    "data.pkl: the pickle is not a dictionary",
    "REDUCE: a tensor is marked \"neg\": its values are others than those that are stored",
    "REDUCE: a tensor is marked \"conj\"",
    "REDUCE: a tensor is marked \"scale\"",
    "REDUCE: the metadata of a tensor are not a dictionary",
    "REDUCE: the metadata of a tensor have a key without text",
    "data.pkl: no tensor in the outermost dictionary, nor one level below it",
    "data.pkl: more than one dictionary of tensors; keep the model's alone",
    "data.pkl: name 0 of the tensors is not a plain text of 1 to 1024 bytes",
    "data.pkl: epoch is not a tensor, but stands among them",
    "data.pkl: two tensors are called a",
    "data.pkl: tensor a: the key of its storage is not a plain text of 1 to 64 bytes",
    "data.pkl: tensor a: a storage of 4611686018427387904 elements",
};

static pare_status parse_bytes(pare_ctx *cx, const void *bytes, size_t len)
{
    pare_arena a;
    pare_torch file;
    pare_status s = pare_arena_init(cx, &a, 0);
    if (s == PARE_OK)
        s = pare_torch_parse(cx, &a, "file", bytes, len, &file);
    pare_arena_release(&a);
    return s;
}

START_TEST(the_corpus_reaches_every_message)
{
    corpus_reaches("torch", parse_bytes, messages, sizeof messages / sizeof *messages);
}
END_TEST

static const float numbers[24] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                  12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};

/* Four tensors over one storage: in order, a part, turned, turned in the middle. */
static grown make(void)
{
    static const pare_strided tensors[] = {
        {{"d.whole", PARE_F32, 3, {2, 3, 4}, NULL, 96}, {12, 4, 1}},
        {{"b.part", PARE_F32, 2, {2, 4}, NULL, 32}, {4, 1}},
        {{"c.turned", PARE_F32, 2, {4, 6}, NULL, 96}, {1, 4}},
        {{"a.inner", PARE_F32, 3, {3, 2, 2}, NULL, 48}, {4, 12, 1}},
    };
    static const pare_tensor flags = {"e.mask", PARE_BOOL, 1, {3}, "\1\0\1", 3};
    torch_file t;
    torch_begin(&t);
    const size_t storage = torch_storage(&t, numbers, sizeof numbers);
    for (size_t i = 0; i < 4; i++)
        torch_tensor(&t, &tensors[i], storage, 24, i == 1 ? 8 : i == 3 ? 2 : 0);
    torch_add(&t, &flags);
    return torch_end(&t);
}

static void expect(const pare_strided *s, const char *name, bool in_order, const float *first,
                   const float *values, size_t count)
{
    float copy[24];
    ck_assert_str_eq(s->tensor.name, name);
    ck_assert_uint_eq(s->tensor.bytes, count * sizeof *copy);
    ck_assert_int_eq(pare_strided_in_order(s), in_order);
    ck_assert_mem_eq(s->tensor.data, first, sizeof *first);
    pare_strided_copy(s, copy);
    ck_assert_mem_eq(copy, values, count * sizeof *copy);
}

START_TEST(a_name_that_is_not_utf_8_is_refused)
{
    static const char *const names[] = {"model.layers.0.weight\xe2\x96", "a\xff", "\xc0\xafz"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const pare_tensor tensor = {names[i], PARE_BOOL, 1, {3}, "\1\0\1", 3};
        pare_ctx cx;
        torch_file t;
        torch_begin(&t);
        torch_add(&t, &tensor);
        grown g = torch_end(&t);
        pare_ctx_init(&cx);
        ck_assert_int_eq(parse_bytes(&cx, g.bytes, g.len), PARE_EFORMAT);
        ck_assert_msg(strstr(cx.what, "name 0 of the tensors is not a plain text"), "%s", cx.what);
        free(g.bytes);
    }
}
END_TEST

START_TEST(tensors_are_views_of_storages_in_any_order_of_elements)
{
    pare_ctx cx;
    pare_arena a;
    pare_torch file;
    grown g = make();
    float turned[24];
    static const float inner[12] = {2, 3, 14, 15, 6, 7, 18, 19, 10, 11, 22, 23};
    for (size_t i = 0; i < 24; i++)
        turned[i] = numbers[i % 6 * 4 + i / 6];
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const pare_status s = pare_torch_parse(&cx, &a, "file", g.bytes, g.len, &file);
    ck_assert_msg(s == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(file.tensors, 5);
    expect(&file.tensor[0], "a.inner", false, numbers + 2, inner, 12);
    expect(&file.tensor[1], "b.part", true, numbers + 8, numbers + 8, 8);
    expect(&file.tensor[2], "c.turned", false, numbers, turned, 24);
    expect(&file.tensor[3], "d.whole", true, numbers, numbers, 24);
    const unsigned char *const data = file.tensor[3].tensor.data;
    ck_assert(data > g.bytes && data < g.bytes + g.len);
    ck_assert_ptr_eq(file.tensor[2].tensor.data, data);
    ck_assert_ptr_eq(file.tensor[1].tensor.data, data + 32);
    ck_assert_int_eq(file.tensor[4].tensor.dtype, PARE_BOOL);
    ck_assert_mem_eq(file.tensor[4].tensor.data, "\1\0\1", 3);
    pare_arena_release(&a);
    free(g.bytes);
}
END_TEST

/* Files that PyTorch 2.7.1 wrote: 3 x 20 numbers i % 7 in each of twelve types, as they are and
 * turned; the second one by protocol 4. */
START_TEST(files_of_pytorch_itself_are_read)
{
    static const char *const names[] = {"real_state_dict", "real_protocol_4"};
    for (size_t f = 0; f < 2; f++) {
        char path[512];
        float copy[60];
        size_t len, seen = 0;
        pare_ctx cx;
        pare_arena a;
        pare_torch file;
        (void)snprintf(path, sizeof path, "%s/tests/fuzz/corpus/torch/%s", PARE_SOURCE_DIR,
                       names[f]);
        char *const bytes = folder_get(path, &len);
        pare_ctx_init(&cx);
        ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
        const pare_status s = pare_torch_parse(&cx, &a, "file", bytes, len, &file);
        ck_assert_msg(s == PARE_OK, "%s", cx.what);
        ck_assert_uint_eq(file.tensors, 27);
        for (size_t i = 0; i < file.tensors; i++) {
            const pare_strided *const t = &file.tensor[i];
            const bool turned = strcmp(t->tensor.name, "f.t") == 0;
            if (!turned && strcmp(t->tensor.name, "f") != 0 && strcmp(t->tensor.name, "tied") != 0)
                continue;
            ck_assert_int_eq(pare_strided_in_order(t), !turned);
            pare_strided_copy(t, copy);
            for (size_t j = 0; j < 60; j++)
                ck_assert(copy[j] == (float)((turned ? j % 3 * 20 + j / 3 : j) % 7));
            seen++;
        }
        ck_assert_uint_eq(seen, 3);
        pare_arena_release(&a);
        free(bytes);
    }
}
END_TEST

/* Larger than a tile on both sides. */
START_TEST(large_matrices_are_turned_tile_by_tile)
{
    enum { N = 70, K = 45 };
    static uint16_t src[K * N], dst[N * K];
    for (size_t i = 0; i < sizeof src / sizeof *src; i++)
        src[i] = (uint16_t)i;
    const pare_strided s = {{"t", PARE_F16, 2, {N, K}, src, sizeof dst}, {1, N}};
    ck_assert(!pare_strided_in_order(&s));
    pare_strided_copy(&s, dst);
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < K; j++)
            ck_assert_uint_eq(dst[i * K + j], src[j * N + i]);
    }
}
END_TEST

START_TEST(every_truncation_is_refused)
{
    grown g = make();
    for (size_t cut = 0; cut < g.len; cut++) {
        pare_ctx cx;
        pare_ctx_init(&cx);
        unsigned char *const part = malloc(cut ? cut : 1);
        ck_assert_ptr_nonnull(part);
        memcpy(part, g.bytes, cut);
        ck_assert_int_ne(parse_bytes(&cx, part, cut), PARE_OK);
        ck_assert_msg(strncmp(cx.what, "file: ", 6) == 0, "%s", cx.what);
        free(part);
    }
    free(g.bytes);
}
END_TEST

/* The sanitizers see what reads too far; a changed byte of data is no error. */
START_TEST(every_changed_byte_is_survived)
{
    grown g = make();
    unsigned char *const part = malloc(g.len);
    ck_assert_ptr_nonnull(part);
    size_t refused = 0;
    for (size_t i = 0; i < g.len; i++) {
        static const unsigned char flips[] = {1, 0x80, 0xff};
        for (size_t f = 0; f < 3; f++) {
            pare_ctx cx;
            pare_ctx_init(&cx);
            memcpy(part, g.bytes, g.len);
            part[i] ^= flips[f];
            const pare_status s = parse_bytes(&cx, part, g.len);
            ck_assert_int_eq(s == PARE_OK, cx.what[0] == '\0');
            ck_assert_uint_eq(cx.live_bytes, 0);
            refused += s != PARE_OK;
        }
    }
    ck_assert_uint_gt(refused, 300);
    free(part);
    free(g.bytes);
}
END_TEST

/* `count` times the same instructions in a pickle. */
static void refuses_many(const char *head, const char *piece, size_t piece_len, size_t count,
                         const char *message)
{
    torch_file t = {0};
    grown_put(&t.pickle, head, strlen(head));
    for (size_t i = 0; i < count; i++)
        grown_put(&t.pickle, piece, piece_len);
    zip_add(&t.zip, "m/data.pkl", t.pickle.bytes, t.pickle.len);
    grown g = zip_end(&t.zip);
    pare_ctx cx;
    pare_ctx_init(&cx);
    const pare_status s = parse_bytes(&cx, g.bytes, g.len);
    ck_assert_msg(s == PARE_EFORMAT && strstr(cx.what, message), "%s\nexpected: %s", cx.what,
                  message);
    ck_assert_uint_lt(cx.peak_bytes, (size_t)768 << 20);
    free(t.pickle.bytes);
    free(g.bytes);
}

START_TEST(a_small_file_cannot_take_all_memory)
{
    refuses_many("\x80\x02", "N", 1, (1 << 20) + 1, "NONE: more than 1048576 values on the stack");
    refuses_many("\x80\x02]", ")a", 2, (1 << 21) + 1, "EMPTY_TUPLE: more than 2097152 objects");
    refuses_many("\x80\x02N", "\x94", 1, (1 << 22) + 1,
                 "MEMOIZE: more than 4194304 values remembered");
    refuses_many("\x80\x02N\x94}", "h\0h\0s", 5, (1 << 19) + 1,
                 "SETITEM: more than 1048576 keys and values of a dictionary");
    refuses_many("\x80\x02]", "}NNsa", 5, 1 << 20, "bytes of a pickle without its end");
    refuses_many("\x80\x02}", "]NNNNNNN", 8, 8 << 20, "bytes, at most 67108864 are accepted");
}
END_TEST

START_TEST(every_failed_allocation_is_reported)
{
    grown g = make();
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx cx;
        pare_ctx_init(&cx);
        cx.alloc = (pare_alloc){unit_failing_resize, &f};
        const pare_status s = parse_bytes(&cx, g.bytes, g.len);
        ck_assert_int_eq(f.live, 0);
        if (s == PARE_OK) {
            ck_assert_int_ge(n, 3);
            break;
        }
        ck_assert_int_eq(s, PARE_ENOMEM);
        ck_assert_str_ne(cx.what, "");
    }
    free(g.bytes);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("torch");
    TCase *const t = tcase_create("torch");
    tcase_add_test(t, the_corpus_reaches_every_message);
    tcase_add_test(t, a_name_that_is_not_utf_8_is_refused);
    tcase_add_test(t, tensors_are_views_of_storages_in_any_order_of_elements);
    tcase_add_test(t, files_of_pytorch_itself_are_read);
    tcase_add_test(t, large_matrices_are_turned_tile_by_tile);
    tcase_add_test(t, every_truncation_is_refused);
    tcase_add_test(t, every_changed_byte_is_survived);
    tcase_add_test(t, a_small_file_cannot_take_all_memory);
    tcase_add_test(t, every_failed_allocation_is_reported);
    suite_add_tcase(s, t);
    return unit_main(s);
}
