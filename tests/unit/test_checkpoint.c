#include "formats/archive.h"
#include "tests/fuzz/index_input.h"
#include "tests/unit/load_case.h"

static const char *const index_messages[] = {
    "bytes of JSON, at most 16384 are accepted",
    "nested deeper than 64 levels",
    "duplicate object key",
    "invalid token near",
    "unexpected token",
    "index: is not a JSON object",
    "index: metadata is not an object",
    "index: metadata.total_size is not a number of bytes",
    "index: weight_map is missing or not an object",
    "index: weight_map is empty",
    "index: the file of tensor a is not a text",
    "is not the plain name of a file in the same directory",
    "is not a .safetensors file",
    "index: tensor b of model-00001-of-00002.safetensors is not in the index",
    "index: tensor a lies in two files, model-00001-of-00002.safetensors and model-00002-of-",
    "should lie in model-00002-of-00002.safetensors, but lies in model-00001-of-",
    ".safetensors, which has none",
};

static pare_status parse_index(pare_ctx *c, const void *bytes, size_t len)
{
    pare_arena a;
    pare_status s = pare_arena_init(c, &a, 0);
    if (s == PARE_OK)
        s = index_input_run(c, &a, bytes, len);
    pare_arena_release(&a);
    return s;
}

START_TEST(the_corpus_reaches_every_message_of_the_index)
{
    corpus_reaches("index", parse_index, index_messages,
                   sizeof index_messages / sizeof *index_messages);
}
END_TEST

START_TEST(shards_give_the_same_tensors_as_one_file)
{
    pare_checkpoint one, many;
    folder other;
    folder_make(&other);
    write_shards(4);
    const tiny_model m = tiny_model_default();
    ck_assert(tiny_model_write(&m, other.path));
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, other.path, &one), PARE_OK);
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, dir.path, &many) == PARE_OK, "%s", cx.what);
    ck_assert(one.files == 1 && many.files == 4 && !many.packed);
    ck_assert_ptr_null(one.index);
    ck_assert_uint_eq(one.tensors, many.tensors);
    for (size_t i = 0; i < one.tensors; i++) {
        ck_assert_str_eq(one.tensor[i].name, many.tensor[i].name);
        ck_assert_uint_eq(one.tensor[i].bytes, many.tensor[i].bytes);
        ck_assert_mem_eq(one.tensor[i].data, many.tensor[i].data, (size_t)one.tensor[i].bytes);
        const pare_file *const f = &many.file[many.tensor_file[i]];
        const unsigned char *const data = many.tensor[i].data;
        ck_assert(data >= f->data && data + many.tensor[i].bytes <= f->data + f->bytes);
        ck_assert_ptr_eq(pare_checkpoint_find(&many, one.tensor[i].name), &many.tensor[i]);
    }
    ck_assert_ptr_null(pare_checkpoint_find(&many, "model.norm"));
    pare_checkpoint_close(&one);
    pare_checkpoint_close(&many);
    folder_remove(&other);
}
END_TEST

START_TEST(a_single_file_takes_the_config_beside_it)
{
    pare_model model;
    char path[384];
    write_shards(1);
    (void)snprintf(path, sizeof path, "%s", folder_file(&dir, "model.safetensors"));
    ck_assert_int_eq(load(path, &model), PARE_OK);
    ck_assert_uint_eq(model.config.vocab, 97);
    ck_assert_int_eq(unlink(folder_file(&dir, "config.json")), 0);
    ck_assert_int_eq(load(path, &model), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "there is no config.json beside it"));
    refuses(PARE_ENOTFOUND, "no config.json and no .gguf file is there");
}
END_TEST

START_TEST(what_is_no_checkpoint_is_refused)
{
    pare_model model;
    ck_assert_int_eq(load("/nonexistent/model", &model), PARE_ENOTFOUND);
    folder_put_text(&dir, "model.onnx", "\x08\x07");
    ck_assert_int_eq(load(dir.file, &model), PARE_ENOTSUP);
    ck_assert_ptr_nonnull(strstr(cx.what, "neither a directory nor a file of a known kind"));
    folder_put(&dir, "model.pare.zst", pare_archive_head, PARE_ARCHIVE_HEAD);
    ck_assert_int_eq(load(dir.file, &model), PARE_ENOTSUP);
    ck_assert_ptr_nonnull(strstr(cx.what, "an archive of \"pare pack\""));
    folder_put_text(&dir, "config.json", "{}");
    refuses(PARE_ENOTFOUND, "no file model.safetensors, pytorch_model.bin, model.npz, model.h5, "
                            "no index of shards and no .gguf is there; ");
    folder_put_text(&dir, "packed.index.json", "{}");
    refuses(PARE_EFORMAT, "config.json has no quantization_config of pare");
    folder_put_text(&dir, "config.json",
                    "{\"quantization_config\": {\"quant_method\": \"pare\", \"format\": 1}}");
    ck_assert_int_eq(unlink(folder_file(&dir, "packed.index.json")), 0);
    refuses(PARE_EFORMAT, "missing, but config.json says that this is a packed model");
    folder_put_text(&dir, "config.json", "{");
    refuses(PARE_EFORMAT, "config.json:1:");
}
END_TEST

START_TEST(a_missing_shard_is_named_before_any_work)
{
    write_shards(3);
    ck_assert_int_eq(unlink(folder_file(&dir, "model-00002-of-00003.safetensors")), 0);
    refuses(PARE_EFORMAT, "model-00002-of-00003.safetensors: file 2 of 3 is missing; ");
    ck_assert_ptr_nonnull(strstr(cx.what, "index.json puts tensor model.layers."));
}
END_TEST

/* A link into a directory that is closed. */
START_TEST(a_file_that_may_not_be_looked_at_is_not_taken_for_missing)
{
    static const char *const names[] = {"config.json",
                                        "packed.index.json",
                                        "model.safetensors",
                                        "model.safetensors.index.json",
                                        "model-00002-of-00002.safetensors",
                                        "tokenizer.json"};
    const char *const name = names[_i];
    char target[384], *text;
    folder closed;
    pare_checkpoint ck;
    size_t len;
    write_shards(strncmp(name, "model-", 6) == 0 ? 2 : 1);
    folder_make(&closed);
    (void)snprintf(target, sizeof target, "%s", folder_file(&closed, "x"));
    (void)unlink(folder_file(&dir, name));
    ck_assert_int_eq(symlink(target, folder_file(&dir, name)), 0);
    ck_assert_int_eq(chmod(closed.path, 0) | chmod(dir.path, 0755), 0);
    unit_be_nobody();
    pare_status s = pare_checkpoint_open(&cx, &arena, dir.path, &ck);
    if (s == PARE_OK && strcmp(name, "tokenizer.json") == 0)
        s = pare_checkpoint_companion(&ck, &arena, name, &text, &len);
    unit_be_again();
    pare_checkpoint_close(&ck);
    ck_assert_int_eq(chmod(closed.path, 0700), 0);
    folder_remove(&closed);
    ck_assert_msg(s == PARE_EFORMAT, "%s: %s", pare_strstatus(s), cx.what);
    ck_assert_msg(strstr(cx.what, name) && strstr(cx.what, ": cannot look at: "), "%s", cx.what);
}
END_TEST

START_TEST(a_truncated_shard_is_refused_at_every_length)
{
    static const size_t missing[] = {1, 2, 1000};
    size_t len;
    write_shards(2);
    char *const bytes = folder_get(folder_file(&dir, "model-00002-of-00002.safetensors"), &len);
    for (size_t i = 0; i < 3; i++) {
        folder_put(&dir, "model-00002-of-00002.safetensors", bytes, len - missing[i]);
        refuses(PARE_EFORMAT, "truncated?");
        ck_assert_ptr_nonnull(strstr(cx.what, "model-00002-of-00002.safetensors: tensor "));
    }
    folder_put(&dir, "model-00002-of-00002.safetensors", bytes, 100);
    refuses(PARE_EFORMAT, "in a file of 100 bytes: truncated?");
    folder_put(&dir, "model-00002-of-00002.safetensors", "", 0);
    refuses(PARE_EFORMAT, "0 bytes, a safetensors file has at least 8: truncated?");
    free(bytes);
}
END_TEST

START_TEST(a_shard_that_the_index_does_not_name_is_refused)
{
    write_shards(2);
    folder_put_text(&dir, "consolidated.safetensors", "of another program");
    pare_model model;
    ck_assert_int_eq(load(dir.path, &model), PARE_OK);
    folder_put_text(&dir, "model-00003-of-00003.safetensors", "old");
    refuses(PARE_EFORMAT, "model-00003-of-00003.safetensors lies beside it, but is not in the");
}
END_TEST

START_TEST(index_and_headers_must_agree)
{
    static const char index[] = "model.safetensors.index.json";
    write_shards(2);
    edit(index, "\"model.norm.weight\"", "\"model.norm.other\"");
    refuses(PARE_EFORMAT, "tensor model.norm.weight of model-00002-of-00002.safetensors is not in");
    edit(index, "\"model.norm.other\"", "\"model.norm.weight\"");
    edit(index, "\"model.norm.weight\"",
         "\"extra\": \"model-00001-of-00002.safetensors\","
         "\"model.norm.weight\"");
    refuses(PARE_EFORMAT, "tensor extra should lie in model-00001-of-00002.safetensors, which has");
    edit(index, "\"extra\": \"model-00001-of-00002.safetensors\",", "");
    edit(index, "\"model.norm.weight\": \"model-00002", "\"model.norm.weight\": \"model-00001");
    refuses(PARE_EFORMAT, "tensor model.norm.weight should lie in model-00001-of-00002.safetensors"
                          ", but lies in model-00002-of-00002.safetensors");
    edit(index, "\"model.norm.weight\": \"model-00001", "\"model.norm.weight\": \"../del-00002");
    refuses(PARE_EFORMAT, "is not the plain name of a file in the same directory");
}
END_TEST

/* Engines take the one or the other; an index that was left behind alone does no harm. */
START_TEST(two_sets_of_weights_are_refused)
{
    pare_model model;
    write_shards(1);
    write_shards(2);
    refuses(PARE_EFORMAT, "two sets of weights: model.safetensors, and the files of "
                          "model.safetensors.index.json such as model-00001-of-00002.safetensors");
    ck_assert_int_eq(unlink(folder_file(&dir, "model-00001-of-00002.safetensors")), 0);
    refuses(PARE_EFORMAT, "such as model-00002-of-00002.safetensors");
    ck_assert_int_eq(load(folder_file(&dir, "model.safetensors"), &model), PARE_OK);
    ck_assert_int_eq(unlink(folder_file(&dir, "model-00002-of-00002.safetensors")), 0);
    ck_assert_int_eq(load(dir.path, &model), PARE_OK);
}
END_TEST

START_TEST(an_adapter_is_no_model)
{
    folder_put_text(&dir, "adapter_config.json", "{\"peft_type\": \"LORA\"}");
    refuses(PARE_ENOTSUP, "adapter_config.json: this directory holds an adapter (LoRA), and no");
    folder_put_text(&dir, "config.json", "{\"model_type\": \"llama\"}");
    refuses(PARE_ENOTSUP, "adapter_config.json: this directory holds an adapter (LoRA), and no");
    write_shards(1);
    refuses(PARE_ENOTSUP, "adapter_config.json: an adapter (LoRA) lies beside the weights");
}
END_TEST

START_TEST(links_that_lead_nowhere_are_named)
{
    write_shards(1);
    ck_assert_int_eq(unlink(folder_file(&dir, "model.safetensors")), 0);
    ck_assert_int_eq(symlink("../../blobs/0f1e", folder_file(&dir, "model.safetensors")), 0);
    refuses(PARE_ENOTFOUND, "model.safetensors: is a link to a file that is not there; ");
    ck_assert_int_eq(unlink(folder_file(&dir, "model.safetensors")), 0);
    ck_assert_int_eq(mkdir(folder_file(&dir, "model.safetensors"), 0755), 0);
    refuses(PARE_EFORMAT, "model.safetensors: is a directory, expected a file");
    ck_assert_int_eq(rmdir(folder_file(&dir, "model.safetensors")), 0);
    ck_assert_int_eq(mkfifo(folder_file(&dir, "model.safetensors.index.json"), 0600), 0);
    refuses(PARE_EFORMAT, "model.safetensors.index.json: is not a regular file, expected a file");
    ck_assert_int_eq(unlink(folder_file(&dir, "model.safetensors.index.json")), 0);
    ck_assert_int_eq(unlink(folder_file(&dir, "config.json")), 0);
    ck_assert_int_eq(symlink("config.blob", folder_file(&dir, "config.json")), 0);
    refuses(PARE_ENOTFOUND, "config.json: is a link to a file that is not there; ");
}
END_TEST

START_TEST(a_refusal_says_where_the_model_is)
{
    pare_model model;
    write_shards(3);
    ck_assert_int_eq(load(folder_file(&dir, "config.json"), &model), PARE_ENOTSUP);
    ck_assert_msg(strstr(cx.what, "of several files that belong together give the directory"), "%s",
                  cx.what);
    ck_assert_int_eq(unlink(folder_file(&dir, "model.safetensors.index.json")), 0);
    refuses(PARE_ENOTFOUND, ": 3 files such as model-00001-of-00003.safetensors are there, but not "
                            "model.safetensors.index.json");
    ck_assert_int_eq(load("meta-llama/Llama-3.2-1B", &model), PARE_ENOTFOUND);
    ck_assert_msg(strstr(cx.what, "Llama-3.2-1B: no such file or directory; a model is a path on"),
                  "%s", cx.what);
}
END_TEST

/* models--ORG--NAME as downloads leave it. */
START_TEST(a_cache_of_downloads_is_told)
{
    folder cache;
    char model[512];
    folder_make(&cache);
    ck_assert_int_eq(mkdir(folder_file(&cache, "snapshots"), 0755), 0);
    ck_assert_int_eq(mkdir(folder_file(&cache, "snapshots/.tmp"), 0755), 0);
    ck_assert_int_eq(mkdir(folder_file(&cache, "snapshots/9f1e2d"), 0755), 0);
    ck_assert_int_eq(mkdir(folder_file(&cache, "snapshots/0f1e2d"), 0755), 0);
    ck_assert_int_eq(mkdir(folder_file(&cache, "snapshots/5f1e2d"), 0755), 0);
    (void)snprintf(model, sizeof model, "%s", cache.path);
    pare_model none;
    ck_assert_int_eq(load(model, &none), PARE_ENOTFOUND);
    ck_assert_msg(strstr(cx.what, "the model lies in ") && strstr(cx.what, "/snapshots/0f1e2d, so"),
                  "%s", cx.what);
    ck_assert_int_eq(rmdir(folder_file(&cache, "snapshots/0f1e2d")), 0);
    ck_assert_int_eq(rmdir(folder_file(&cache, "snapshots/9f1e2d")), 0);
    ck_assert_int_eq(rmdir(folder_file(&cache, "snapshots/5f1e2d")), 0);
    ck_assert_int_eq(rmdir(folder_file(&cache, "snapshots/.tmp")), 0);
    ck_assert_int_eq(rmdir(folder_file(&cache, "snapshots")), 0);
    folder_remove(&cache);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("checkpoint");
    TCase *const t = tcase_create("checkpoint");
    tcase_add_checked_fixture(t, begin, end);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_corpus_reaches_every_message_of_the_index);
    tcase_add_test(t, shards_give_the_same_tensors_as_one_file);
    tcase_add_test(t, a_single_file_takes_the_config_beside_it);
    tcase_add_test(t, what_is_no_checkpoint_is_refused);
    tcase_add_test(t, a_missing_shard_is_named_before_any_work);
    tcase_add_loop_test(t, a_file_that_may_not_be_looked_at_is_not_taken_for_missing, 0, 6);
    tcase_add_test(t, a_truncated_shard_is_refused_at_every_length);
    tcase_add_test(t, a_shard_that_the_index_does_not_name_is_refused);
    tcase_add_test(t, index_and_headers_must_agree);
    tcase_add_test(t, two_sets_of_weights_are_refused);
    tcase_add_test(t, an_adapter_is_no_model);
    tcase_add_test(t, links_that_lead_nowhere_are_named);
    tcase_add_test(t, a_refusal_says_where_the_model_is);
    tcase_add_test(t, a_cache_of_downloads_is_told);
    suite_add_tcase(s, t);
    return unit_main(s);
}
