/* A plain checkpoint, written in shards or in one file, opens as the model it was. */
#include "formats/dense.h"
#include "tests/unit/artifact.h"

static folder dir;

static void setup(void)
{
    folder_make(&dir);
}

static void teardown(void)
{
    folder_remove(&dir);
}

/* Lays out every tensor of the model, the last ones first, and writes them to the same folder. */
static void write_again(artifact *m, uint64_t shard_bytes)
{
    pare_packed_writer *w;
    for (size_t i = m->ck.tensors; i-- > 0;) {
        m->kept_unit[m->keeps] = m->keeps / 4;
        m->kept[m->keeps++] = m->ck.tensor[i];
    }
    artifact_ok(m, pare_packed_layout_dense(m->cx, &m->a, m->kept, m->kept_unit, m->keeps,
                                            shard_bytes, &m->layout));
    ck_assert_int_eq(unlink(folder_file(&dir, "model.safetensors")), 0); /* stays mapped */
    artifact_ok(m, pare_packed_create(m->cx, dir.path, &m->layout, &w));
    for (size_t i = 0; i < m->keeps; i++)
        artifact_put(m, w, m->kept[i].name, "", m->kept[i].data);
    pare_packed_close(m->cx, w);
}

START_TEST(a_written_checkpoint_is_the_one_that_was_read)
{
    static artifact m;
    const bool single = _i == 0;
    pare_ctx cx;
    pare_checkpoint ck;
    pare_model model;
    pare_ctx_init(&cx);
    artifact_open(&m, &cx, &dir);
    write_again(&m, single ? UINT64_MAX : 20000);
    ck_assert_int_eq(m.layout.shards == 1, single);
    ck_assert_int_eq(pare_packed_index_name(&m.layout) == NULL, single);
    if (single)
        ck_assert_str_eq(m.layout.shard_name[0], "model.safetensors");
    else
        ck_assert_int_eq(strncmp(m.layout.shard_name[0], "model-00001-of-0", 16), 0);
    artifact_ok(&m, pare_checkpoint_open(&cx, &m.a, dir.path, &ck));
    ck_assert(!ck.packed && ck.files == m.layout.shards && ck.tensors == m.ck.tensors);
    for (size_t i = 0; i < ck.tensors; i++) {
        const pare_tensor *const t = &ck.tensor[i], *const was = &m.ck.tensor[i];
        ck_assert_str_eq(t->name, was->name);
        ck_assert(t->dtype == was->dtype && t->rank == was->rank && t->bytes == was->bytes);
        ck_assert_mem_eq(t->shape, was->shape, t->rank * sizeof *t->shape);
        ck_assert_mem_eq(t->data, was->data, (size_t)t->bytes);
    }
    artifact_ok(&m, pare_model_load(&cx, &m.a, &ck, &model));
    pare_checkpoint_close(&ck);
    pare_checkpoint_close(&m.ck);
    pare_arena_release(&m.a);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("dense");
    TCase *const tc = tcase_create("checkpoints");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_written_checkpoint_is_the_one_that_was_read, 0, 2);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
