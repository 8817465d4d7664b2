/* Checkpoints of mixtures of experts: what is bound, what is missing, what is refused. */
#include "tests/data/families.h"
#include "tests/unit/load_case.h"

static family copy_of(const char *name)
{
    const family *const f = family_find(name);
    ck_assert_ptr_nonnull(f);
    return *f;
}

static void write_family(const family *f)
{
    ck_assert(family_write(f, dir.path));
}

/* Index of the first tensor of the list whose name holds `part`. */
static size_t tensor_at(const family *f, const char *part)
{
    size_t i = 0;
    while (!strstr(f->tensor[i], part))
        i++;
    return i;
}

START_TEST(every_expert_and_the_router_are_bound)
{
    static const char *const names[] = {"mixtral", "qwen2_moe", "qwen3_moe"};
    pare_checkpoint ck;
    pare_model m;
    const family f = copy_of(names[_i]);
    write_family(&f);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &ck), PARE_OK);
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &m) == PARE_OK, "%s", cx.what);
    const pare_config *const c = &m.config;
    ck_assert_uint_eq(c->experts, _i ? 8 : 6);
    ck_assert_uint_eq(c->experts_used, _i == 1 ? 4 : 2);
    ck_assert_uint_eq(c->expert_width, f.size[10]);
    ck_assert_uint_eq(c->intermediate, _i == 1 ? 64 : 0);
    ck_assert_int_eq(c->expert_norm, _i != 1);
    size_t bound = 0;
    for (size_t b = 0; b < c->blocks; b++) {
        ck_assert(m.block[b].router.n == c->experts && m.block[b].router.k == c->hidden);
        ck_assert_int_eq(m.block[b].shared_gate.name != NULL, _i == 1);
        for (size_t part = 1; part < pare_block_parts(c); part++)
            for (pare_role r = 0; r < PARE_COMMON_ROLES; r++) {
                const pare_linear *const l = pare_block_linear(&m.block[b], part, r);
                char name[128];
                ck_assert_int_eq(l->name != NULL, r >= PARE_ROLE_GATE);
                if (!l->name)
                    continue;
                (void)snprintf(name, sizeof name, "%s.weight", l->name);
                ck_assert_ptr_eq(l->data, pare_checkpoint_find(&ck, name)->data);
                bound++;
            }
    }
    ck_assert_uint_eq(bound, c->blocks * c->experts * 3);
    pare_checkpoint_close(&ck);
}
END_TEST

START_TEST(an_expert_too_few_or_too_many_is_told)
{
    family f = copy_of("qwen3_moe");
    f.tensor[tensor_at(&f, "mlp.gate.")] = "model.layers.%zu.mlp.gate.weight GH";
    f.size[8] = 8;
    f.size[FAMILY_EXPERTS] = 7;
    write_family(&f);
    refuses(PARE_EFORMAT, "tensor model.layers.0.mlp.experts.7.gate_proj.weight is missing");
    f.size[FAMILY_EXPERTS] = 9;
    write_family(&f);
    refuses(PARE_EFORMAT, "tensor model.layers.0.mlp.experts.8.down_proj.weight has no place");
    f = copy_of("mixtral");
    f.tensor[tensor_at(&f, ".w2.")] = "model.layers.%zu.block_sparse_moe.experts.%zu.w2.weight XH";
    write_family(&f);
    refuses(PARE_EFORMAT, "experts.0.w2.weight has shape [96, 64], config.json asks for [64, 96]");
}
END_TEST

START_TEST(a_router_has_a_row_for_every_expert)
{
    family f = copy_of("qwen2_moe");
    write_family(&f);
    edit("config.json", "\"num_experts\":8", "\"num_experts\":9");
    refuses(PARE_EFORMAT, "mlp.gate.weight has shape [8, 64], config.json asks for [9, 64]");
    f.tensor[tensor_at(&f, "shared_expert_gate")] = "model.layers.%zu.mlp.other.weight 1H";
    write_family(&f);
    refuses(PARE_EFORMAT, "tensor model.layers.0.mlp.shared_expert_gate.weight is missing");
}
END_TEST

START_TEST(blocks_without_experts_are_refused_by_the_word_that_asks_for_them)
{
    const family f = copy_of("qwen2_moe");
    write_family(&f);
    edit("config.json", "\"mlp_only_layers\":[]", "\"mlp_only_layers\":[1]");
    refuses(PARE_ENOTSUP, "mlp_only_layers names 1 block without experts");
    write_family(&f);
    edit("config.json", "\"decoder_sparse_step\":1", "\"decoder_sparse_step\":2");
    refuses(PARE_ENOTSUP, "decoder_sparse_step 2 leaves blocks without experts");
    write_family(&f);
    edit("config.json", "\"num_experts_per_tok\":4", "\"num_experts_per_tok\":9");
    refuses(PARE_EFORMAT, "num_experts_per_tok is not a whole number from 1 to 8");
    write_family(&f);
    edit("config.json", "\"num_experts\":8", "\"num_experts\":4096");
    refuses(PARE_EFORMAT, "num_experts is not a whole number from 1 to 1024");
}
END_TEST

START_TEST(every_failed_allocation_is_reported)
{
    const family f = copy_of("qwen2_moe");
    write_family(&f);
    for (long n = 0;; n++) {
        unit_failing failing = {.left = n};
        pare_ctx c;
        pare_arena a;
        pare_checkpoint ck = {0};
        pare_model m;
        pare_ctx_init(&c);
        c.alloc = (pare_alloc){unit_failing_resize, &failing};
        pare_status s = pare_arena_init(&c, &a, 0);
        if (s == PARE_OK)
            s = pare_checkpoint_open(&c, &a, dir.path, &ck);
        if (s == PARE_OK)
            s = pare_model_load(&c, &a, &ck, &m);
        pare_checkpoint_close(&ck);
        pare_arena_release(&a);
        ck_assert_int_eq(failing.live, 0);
        if (s == PARE_OK)
            break;
        ck_assert_int_eq(s, PARE_ENOMEM);
        ck_assert_str_ne(c.what, "");
        ck_assert_int_lt(n, 1000);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("experts_load");
    TCase *const t = tcase_create("experts_load");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(t, every_expert_and_the_router_are_bound, 0, 3);
    tcase_add_test(t, an_expert_too_few_or_too_many_is_told);
    tcase_add_test(t, a_router_has_a_row_for_every_expert);
    tcase_add_test(t, blocks_without_experts_are_refused_by_the_word_that_asks_for_them);
    tcase_add_test(t, every_failed_allocation_is_reported);
    suite_add_tcase(s, t);
    return unit_main(s);
}
