/* The leaves of a small model of every family against the tensors of its checkpoint. */
#include "formats/checkpoint.h"
#include "runtime/leaves.h"
#include "runtime/linear.h"
#include "tests/data/families.h"
#include "tests/unit/folder.h"

static pare_ctx cx;
static pare_arena arena;
static folder dir;
static pare_checkpoint ck;
static pare_model model;

static void begin(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    folder_make(&dir);
}

static void end(void)
{
    pare_checkpoint_close(&ck);
    folder_remove(&dir);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static void load(const family *f)
{
    ck_assert(family_write(f, dir.path));
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, dir.path, &ck) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &model) == PARE_OK, "%s", cx.what);
}

/* Tensors of the checkpoint that some leaf is, and values of all leaves. */
typedef struct walk {
    bool met[1024];
    uint64_t values;
} walk;

/* Holds a leaf against its tensor, which is nobody else's. */
static void check(walk *w, const char *name, const pare_leaf *leaf)
{
    char full[128];
    if (!(leaf->linear ? leaf->linear->name : leaf->vector ? (const char *)*leaf->vector : NULL))
        return;
    (void)snprintf(full, sizeof full, "%s%s", name, pare_leaf_suffix(leaf));
    const pare_tensor *const t = pare_checkpoint_find(&ck, full);
    ck_assert_msg(t != NULL, "no tensor %s", full);
    ck_assert_msg(!w->met[t - ck.tensor], "%s twice", full);
    w->met[t - ck.tensor] = true;
    w->values += leaf->n * leaf->k;
    const bool conv = t->rank == 3; /* [channels, 1, taps] */
    ck_assert_uint_eq(t->shape[0] * (conv ? t->shape[2] : 1), leaf->n);
    ck_assert_uint_eq(t->rank == 1 ? 1 : t->shape[1], leaf->k);
    if (leaf->linear) {
        ck_assert_str_eq(leaf->linear->name, name);
        ck_assert(leaf->linear->n == leaf->n && leaf->linear->k == leaf->k);
        return;
    }
    float *const value = PARE_NEW(&arena, float, leaf->n);
    const bool norm = leaf->kind == PARE_LEAF_NORM || leaf->kind == PARE_LEAF_INNER_NORM;
    ck_assert_int_eq(pare_tensor_to_f32(&cx, t, 0, leaf->n, value), PARE_OK);
    for (size_t i = 0; i < leaf->n; i++)
        ck_assert_float_eq(pare_leaf_floats(leaf)[i],
                           (value[i] + (norm ? model.config.arch->norm_offset : 0)) *
                               pare_norm_factor(&model.config, leaf->vector == &model.norm));
}

static void check_state(const pare_recurrence *r, const pare_leaf *l)
{
    float *const *const vector[PARE_STATE_VECTORS] = {&r->conv, &r->norm, &r->rate, &r->shift};
    ck_assert(l->vector == vector[l->index]);
}

/* Where a leaf of a block lies in it. */
static void check_place(const pare_block *b, const pare_leaf *l)
{
    const pare_linear *const linear =
        l->part || l->kind == PARE_LEAF_WEIGHT || l->kind == PARE_LEAF_BIAS
            ? pare_block_linear(b, l->part, (pare_role)l->index)
            : NULL;
    switch (l->kind) {
    case PARE_LEAF_NORM: ck_assert(l->vector == &b->norm[l->index]); break;
    case PARE_LEAF_NORM_BIAS: ck_assert(l->vector == &b->norm_bias[l->index]); break;
    case PARE_LEAF_INNER_NORM: ck_assert(l->vector == &b->inner_norm[l->index]); break;
    case PARE_LEAF_ROUTER_BIAS: ck_assert(l->vector == &b->router.bias); break;
    case PARE_LEAF_SINKS: ck_assert(l->vector == &b->sinks); break;
    case PARE_LEAF_CORRECTION: ck_assert(l->vector == &b->correction); break;
    case PARE_LEAF_ROUTER: ck_assert(l->linear == (l->index ? &b->shared_gate : &b->router)); break;
    case PARE_LEAF_STATE_LINEAR:
        ck_assert(l->linear == (l->index ? &b->recurrence.decay : &b->recurrence.beta));
        break;
    case PARE_LEAF_STATE_VECTOR: check_state(&b->recurrence, l); break;
    case PARE_LEAF_WEIGHT: ck_assert(l->linear == linear); break;
    case PARE_LEAF_BIAS: ck_assert(l->vector == &linear->bias); break;
    case PARE_LEAF_TABLE: ck_abort_msg("no table in a block");
    }
}

static void walk_model(walk *w)
{
    const pare_config *const c = &model.config;
    char name[128];
    for (size_t i = 0; i < PARE_MODEL_LEAVES; i++) {
        const pare_leaf leaf = pare_model_leaf(&model, i);
        check(w, leaf.name, &leaf);
    }
    for (size_t b = 0; b < c->blocks; b++) {
        pare_config own;
        pare_block_config(c, b, &own);
        for (size_t i = 0; i < pare_block_leaves(&own); i++) {
            const pare_leaf leaf = pare_block_leaf(&own, &model.block[b], i);
            if (!leaf.name)
                continue;
            ck_assert_uint_gt(
                pare_arch_name_in(c->arch, b, leaf.part, leaf.name, name, sizeof name), 0);
            check_place(&model.block[b], &leaf);
            check(w, name, &leaf);
        }
    }
}

/* Of a model of several parts, what is not of its language model. */
static bool is_of_another_part(const char *name)
{
    static const char *const parts[] = {"vision_tower.", "model.visual.", "mtp.", "vision_model.",
                                        "multi_modal_projector."};
    bool is = false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        is |= strncmp(name, parts[i], strlen(parts[i])) == 0;
    return is;
}

/* Neither a mask of attention nor the scale of ternary weights, which goes into their codes. */
static bool holds_weights(const char *name)
{
    const char *const *const mask = model.config.arch->ignored;
    char end[32];
    for (size_t i = 0; i < 2 && mask[i]; i++) {
        (void)snprintf(end, sizeof end, ".%s", mask[i]);
        if (family_ends(name, end))
            return false;
    }
    return !family_ends(name, ".weight_scale") && !is_of_another_part(name);
}

START_TEST(leaves_are_the_tensors_of_the_checkpoint_once)
{
    static walk w;
    uint64_t values = 0;
    family_shape t;
    load(&families[_i]);
    ck_assert_uint_le(ck.tensors, sizeof w.met);
    walk_model(&w);
    for (size_t i = 0; i < ck.tensors; i++)
        ck_assert_msg(w.met[i] != is_of_another_part(ck.tensor[i].name), "%s: %s is no leaf",
                      families[_i].name, ck.tensor[i].name);
    for (size_t i = 0; family_tensor(&families[_i], i, &t); i++) /* as the file has them */
        if (holds_weights(t.name))
            values +=
                (uint64_t)t.rows * (t.cols ? t.cols : 1) * t.depth * (t.dtype == PARE_U8 ? 4 : 1);
    ck_assert_uint_eq(w.values, values);
}
END_TEST

/* A leaf of the block in floats against that of the model: a copy of its own, or the same. */
static void check_copy(const pare_leaf *is, const pare_leaf *was, bool own)
{
    const size_t count = was->n * was->k;
    const float *const x = pare_leaf_floats(is);
    float *const y = PARE_NEW(&arena, float, count);
    ck_assert_ptr_nonnull(y);
    if (!own) {
        ck_assert(!was->name || (was->linear ? is->linear->data == was->linear->data
                                             : *is->vector == *was->vector));
        return;
    }
    if (was->linear)
        pare_linear_to_f32(&cx, was->linear, y);
    else if (was->vector && *was->vector)
        memcpy(y, *was->vector, count * sizeof *y);
    ck_assert((x != NULL) == (was->name != NULL));
    if (x) {
        ck_assert(was->linear || x != *was->vector);
        ck_assert_mem_eq(x, y, count * sizeof *y);
    }
}

/* With room for every bias: those that the family lacks are 0. */
START_TEST(a_block_in_floats_owns_the_first_leaves)
{
    static const pare_biases every = {(1u << PARE_ROLES) - 1, 3};
    load(&families[_i]);
    const pare_config *const c = &model.config;
    pare_block b;
    pare_arena a;
    ck_assert_int_eq(pare_arena_init(&cx, &a, pare_block_float_bytes(c)), PARE_OK);
    const size_t limit = cx.limit_bytes;
    cx.limit_bytes = cx.live_bytes; /* no more than was promised */
    ck_assert_int_eq(pare_block_take(&a, c, every, &b), PARE_OK);
    cx.limit_bytes = limit;
    for (size_t at = 0; at < c->blocks; at++) {
        for (size_t i = 0; i < PARE_OWN_LEAVES; i++) {
            const pare_leaf old = pare_block_leaf(c, &b, i);
            for (size_t j = 0; j < old.n * old.k; j++)
                pare_leaf_floats(&old)[j] = 7;
        }
        pare_config own;
        pare_block_config(c, at, &own);
        pare_block_load(&cx, c, &model.block[at], &b);
        for (size_t i = 0; i < pare_block_leaves(&own); i++) {
            const pare_leaf is = pare_block_leaf(&own, &b, i);
            const pare_leaf was = pare_block_leaf(&own, &model.block[at], i);
            check_copy(&is, &was, i < PARE_OWN_LEAVES);
        }
    }
    const pare_biases has = pare_block_biases(&b);
    for (unsigned role = 0; role < PARE_COMMON_ROLES; role++)
        ck_assert_int_eq(has.linear >> role & 1, pare_arch_has(c->arch, (pare_role)role));
    ck_assert_uint_eq(has.norm, c->arch->mlp_norm ? 3 : c->arch->attention_norm ? 1 : 0);
    pare_arena_release(&a);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("leaves");
    TCase *const c = tcase_create("leaves");
    tcase_add_checked_fixture(c, begin, end);
    tcase_add_loop_test(c, leaves_are_the_tensors_of_the_checkpoint_once, 0, FAMILIES);
    tcase_add_loop_test(c, a_block_in_floats_owns_the_first_leaves, 0, FAMILIES);
    suite_add_tcase(s, c);
    return unit_main(s);
}
