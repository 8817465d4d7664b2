#include "formats/expert_stack.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint_internal.h"
#include "runtime/threads.h"

/* TILE: rows and columns that are turned at once. SCALE_MOST: 6 * 2^125 is the largest number. */
enum { NAME = 256, TILE = 32, GROUP = 32, BYTES = GROUP / 2, CODES = 16, SCALE_MOST = 252 };

typedef enum form { FORM_DENSE, FORM_BIAS, FORM_BLOCKS, FORM_SCALES, FORMS } form;

static const char *const endings[FORMS] = {"", "_bias", "_blocks", "_scales"};

/* A kind of stack: the linears of an expert whose outputs take turns in it, or lie behind each
 * other in halves. */
typedef struct stack {
    const char *name; /* behind the stem */
    pare_role first;
    size_t count;
} stack;

static const stack stacks[] = {{"gate_up_proj", PARE_ROLE_GATE, 2},
                               {"down_proj", PARE_ROLE_DOWN, 1}};

typedef struct entry {
    pare_tensor tensor;
    pare_stored stored;
    uint32_t file;
} entry;

typedef struct splitter {
    pare_checkpoint *ck;
    pare_arena *arena;
    pare_config config;
    const pare_experts *experts;
    size_t stem; /* of names of experts, in front of their number */
    entry *out;
    pare_tensor *stack; /* what came apart */
    size_t stacks, stacked;
    size_t count, coded;
    uint16_t value[SCALE_MOST + 1][CODES]; /* BF16 */
} splitter;

/* A tensor of the file as one of the stacks. */
typedef struct found {
    const pare_tensor *t, *scales;
    uint32_t file;
    const stack *is;
    form form;
    size_t before; /* bytes of its name in front of the stem */
    size_t n, k;   /* of a linear */
} found;

/* The tensor with another ending. */
static const pare_tensor *beside(const splitter *s, const pare_tensor *t, form from, form to)
{
    char name[NAME];
    const size_t len = strlen(t->name) - strlen(endings[from]);
    const int n = snprintf(name, sizeof name, "%.*s%s", (int)len, t->name, endings[to]);
    return n > 0 && (size_t)n < sizeof name ? pare_checkpoint_find(s->ck, name) : NULL;
}

/* Whether a name is that of a stack in a block of the model; a part for images may have its own. */
static bool look(const splitter *s, const pare_tensor *t, found *f)
{
    size_t block;
    const char *const at = pare_arch_inside(s->config.arch, t->name, &block);
    if (!at || block >= s->config.blocks || strncmp(at, s->experts->prefix, s->stem) != 0)
        return false;
    const char *const rest = at + s->stem;
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) {
        const size_t len = strlen(stacks[i].name);
        for (form e = 0; strncmp(rest, stacks[i].name, len) == 0 && e < FORMS; e++) {
            if (strcmp(rest + len, endings[e]) != 0 ||
                (e != FORM_DENSE && s->experts->stacking != PARE_STACKING_TURNS))
                continue;
            *f = (found){.t = t, .is = &stacks[i], .form = e, .before = (size_t)(at - t->name)};
            pare_linear_shape(&s->config, 1, f->is->first, &f->n, &f->k);
            f->scales = e == FORM_BLOCKS ? beside(s, t, e, FORM_SCALES) : NULL;
            return true;
        }
    }
    return false;
}

static pare_status check_shape(const splitter *s, const pare_tensor *t, size_t rank,
                               const uint64_t *shape)
{
    bool same = t->rank == rank;
    for (size_t i = 0; same && i < rank; i++)
        same = t->shape[i] == shape[i];
    return same ? PARE_OK : pare__checkpoint_fail_shape(s->ck, t, rank, shape);
}

static pare_status check_type(const splitter *s, const pare_tensor *t, bool coded)
{
    const bool fits = coded ? t->dtype == PARE_U8
                            : t->dtype == PARE_F32 || t->dtype == PARE_F16 || t->dtype == PARE_BF16;
    return fits ? PARE_OK
                : pare_fail(s->ck->cx, PARE_EFORMAT, "%s: tensor %s has dtype %s, expected %s",
                            s->ck->path, t->name, pare_dtype_name(t->dtype),
                            coded ? "U8" : "F32, F16 or BF16");
}

static pare_status check_scales(const splitter *s, const pare_tensor *t)
{
    const uint8_t *const scale = t->data;
    for (uint64_t i = 0; scale && i < t->bytes; i++)
        if (scale[i] > SCALE_MOST)
            return pare_fail(s->ck->cx, PARE_EFORMAT,
                             "%s: tensor %s: scale %" PRIu64 " is 2^%d, with which a weight may "
                             "not be finite",
                             s->ck->path, t->name, i, (int)scale[i] - 127);
    return PARE_OK;
}

static pare_status check(const splitter *s, const found *f)
{
    const uint64_t all = (uint64_t)f->is->count * f->n, experts = s->config.experts;
    const bool coded = f->form == FORM_BLOCKS;
    PARE_TRY(check_type(s, f->t, coded));
    if (f->form == FORM_BIAS)
        return check_shape(s, f->t, 2, (const uint64_t[]){experts, all});
    if (s->experts->stacking == PARE_STACKING_ROWS)
        return check_shape(s, f->t, 3, (const uint64_t[]){experts, all, f->k});
    if (!coded)
        return check_shape(s, f->t, 3, (const uint64_t[]){experts, f->k, all});
    if (!f->scales)
        return pare_fail(s->ck->cx, PARE_EFORMAT, "%s: tensor %s has no %s beside it", s->ck->path,
                         f->t->name, endings[FORM_SCALES]);
    if (f->k % GROUP != 0)
        return pare_fail(s->ck->cx, PARE_EFORMAT,
                         "%s: tensor %s: rows of %zu weights are no whole groups of %d",
                         s->ck->path, f->t->name, f->k, GROUP);
    PARE_TRY(check_shape(s, f->t, 4, (const uint64_t[]){experts, all, f->k / GROUP, BYTES}));
    PARE_TRY(check_type(s, f->scales, true));
    PARE_TRY(check_shape(s, f->scales, 3, (const uint64_t[]){experts, all, f->k / GROUP}));
    return check_scales(s, f->scales);
}

/* Arguments of the loops that fill a linear of one expert. */
typedef struct fill {
    const splitter *s;
    const found *f;
    size_t expert, turn; /* turn: of the linears of the stack */
    char *to;
    size_t size; /* of an element */
} fill;

/* Where output i of a linear stands among those of its stack. */
static size_t column_of(const fill *p, size_t i)
{
    const bool halves = p->s->experts->stacking == PARE_STACKING_HALVES;
    return halves ? p->turn * p->f->n + i : i * p->f->is->count + p->turn;
}

/* Rows of outputs from columns of outputs. */
static void turn_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const fill *const p = arg;
    const size_t n = p->f->n, k = p->f->k, step = p->f->is->count;
    const char *const from = (const char *)p->f->t->data + p->expert * n * k * step * p->size;
    for (size_t i0 = begin * TILE; i0 < n && i0 < end * TILE; i0 += TILE)
        for (size_t j0 = 0; j0 < k; j0 += TILE)
            for (size_t i = i0; i < n && i < i0 + TILE; i++)
                for (size_t j = j0; j < k && j < j0 + TILE; j++)
                    memcpy(p->to + (i * k + j) * p->size,
                           from + (j * n * step + column_of(p, i)) * p->size, p->size);
}

static void decode_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const fill *const p = arg;
    const size_t n = p->f->n, step = p->f->is->count, groups = p->f->k / GROUP;
    for (size_t i = begin * TILE; i < n && i < end * TILE; i++) {
        const size_t row = ((p->expert * n + i) * step + p->turn) * groups;
        const uint8_t *const code = (const uint8_t *)p->f->t->data + row * BYTES;
        const uint8_t *const scale = (const uint8_t *)p->f->scales->data + row;
        uint16_t *const to = (uint16_t *)(void *)p->to + i * groups * GROUP;
        for (size_t g = 0; g < groups; g++)
            for (size_t b = 0; b < BYTES; b++) {
                const uint8_t both = code[g * BYTES + b];
                to[g * GROUP + 2 * b] = p->s->value[scale[g]][both & 15];
                to[g * GROUP + 2 * b + 1] = p->s->value[scale[g]][both >> 4];
            }
    }
}

static void fill_bias(const fill *p)
{
    const size_t n = p->f->n, step = p->f->is->count;
    const char *const from = (const char *)p->f->t->data + p->expert * n * step * p->size;
    for (size_t i = 0; i < n; i++)
        memcpy(p->to + i * p->size, from + (i * step + p->turn) * p->size, p->size);
}

static pare_status fill_data(splitter *s, const found *f, size_t expert, size_t turn,
                             pare_tensor *out)
{
    void *room;
    if (s->experts->stacking == PARE_STACKING_ROWS) { /* viewed where they lie */
        const char *const all = f->t->data;
        out->data = all ? all + (expert * f->is->count + turn) * out->bytes : NULL;
        return PARE_OK;
    }
    if (s->ck->listed) {
        pare_scratch_count(&s->ck->scratch, out->bytes);
        return PARE_OK;
    }
    PARE_TRY(pare_ctx_interrupted(s->ck->cx));
    PARE_TRY(pare_scratch_take(&s->ck->scratch, out->bytes, &room));
    fill p = {s, f, expert, turn, room, pare_dtype_bits(out->dtype) / 8};
    if (f->form == FORM_BIAS)
        fill_bias(&p);
    else
        pare_parallel(s->ck->cx, (f->n + TILE - 1) / TILE, 1,
                      f->form == FORM_DENSE ? turn_tiles : decode_tiles, &p);
    out->data = room;
    return PARE_OK;
}

static pare_status name_of(const splitter *s, const found *f, size_t expert, size_t turn,
                           const char **out)
{
    char inside[64], name[NAME];
    const pare_role role = (pare_role)((size_t)f->is->first + turn);
    (void)snprintf(inside, sizeof inside, s->experts->prefix, expert);
    const int n =
        snprintf(name, sizeof name, "%.*s%s%s%s", (int)f->before, f->t->name, inside,
                 s->experts->linear[role].name, f->form == FORM_BIAS ? ".bias" : ".weight");
    if (n <= 0 || (size_t)n >= sizeof name)
        return pare_fail(s->ck->cx, PARE_EFORMAT,
                         "%s: tensor %s: a name of such a length is not "
                         "read",
                         s->ck->path, f->t->name);
    *out = pare_arena_text(s->arena, name, (size_t)n);
    return *out ? PARE_OK : PARE_ENOMEM;
}

static pare_status split(splitter *s, const found *f)
{
    const bool coded = f->form == FORM_BLOCKS;
    s->stacked += s->config.experts * f->is->count;
    for (size_t i = 0; i < s->config.experts * f->is->count; i++) {
        const size_t expert = i / f->is->count, turn = i % f->is->count;
        entry *const e = &s->out[s->count++];
        pare_tensor *const t = &e->tensor;
        *e = (entry){.file = f->file};
        t->dtype = coded ? PARE_BF16 : f->t->dtype;
        t->rank = f->form == FORM_BIAS ? 1 : 2;
        t->shape[0] = f->n;
        t->shape[1] = f->form == FORM_BIAS ? 0 : f->k;
        PARE_TRY(pare_tensor_bytes(t->dtype, t->rank, t->shape, &t->bytes));
        PARE_TRY(name_of(s, f, expert, turn, &t->name));
        PARE_TRY(fill_data(s, f, expert, turn, t));
        e->stored = (pare_stored){.type = coded ? "mxfp4" : pare_dtype_name(t->dtype),
                                  .bytes = t->bytes,
                                  .run_bytes = t->bytes};
        if (coded)
            e->stored.bytes = (uint64_t)f->n * (f->k / GROUP) * (BYTES + 1);
        s->coded += coded;
    }
    return PARE_OK;
}

static pare_status split_any(splitter *s, size_t i)
{
    const pare_checkpoint *const ck = s->ck;
    const pare_tensor *const t = &ck->tensor[i];
    found f;
    if (look(s, t, &f)) {
        f.file = ck->tensor_file[i];
        if (f.form != FORM_SCALES || beside(s, t, FORM_SCALES, FORM_BLOCKS))
            s->stack[s->stacks++] = *t;
        if (f.form == FORM_SCALES && beside(s, t, FORM_SCALES, FORM_BLOCKS))
            return PARE_OK; /* goes with the blocks */
        if (f.form != FORM_SCALES)
            return split(s, &f);
    }
    s->out[s->count++] = (entry){*t,
                                 ck->stored ? ck->stored[i]
                                            : (pare_stored){.type = pare_dtype_name(t->dtype),
                                                            .bytes = t->bytes,
                                                            .run_bytes = t->bytes},
                                 ck->tensor_file[i]};
    return PARE_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->tensor.name, ((const entry *)b)->tensor.name);
}

/* The list takes the place of that of the files. */
static pare_status take_over(splitter *s)
{
    pare_checkpoint *const ck = s->ck;
    const bool keeps = ck->stored || s->coded;
    pare_stored *const stored = PARE_NEW(s->arena, pare_stored, s->count);
    char text[64];
    ck->tensor = PARE_NEW(s->arena, pare_tensor, s->count);
    ck->tensor_file = PARE_NEW(s->arena, uint32_t, s->count);
    if (!stored || !ck->tensor || !ck->tensor_file)
        return PARE_ENOMEM;
    qsort(s->out, s->count, sizeof *s->out, by_name);
    for (size_t i = 0; i < s->count; i++) {
        if (i > 0 && by_name(&s->out[i - 1], &s->out[i]) == 0)
            return pare_fail(ck->cx, PARE_EFORMAT, "%s: two tensors stand for %s", ck->path,
                             s->out[i].tensor.name);
        ck->tensor[i] = s->out[i].tensor;
        ck->tensor_file[i] = s->out[i].file;
        stored[i] = s->out[i].stored;
    }
    ck->tensors = s->count;
    ck->stack = s->stack;
    ck->stacks = s->stacks;
    ck->stacked = s->stacked;
    ck->stored = keeps ? stored : NULL;
    if (!s->coded)
        return PARE_OK;
    ck->unpacked += s->coded;
    const int n = snprintf(text, sizeof text, "mxfp4: %zu x mxfp4", s->coded);
    ck->quantized = pare_arena_text(s->arena, text, (size_t)n);
    return ck->quantized ? PARE_OK : PARE_ENOMEM;
}

static void make_values(splitter *s)
{
    static const float size[CODES / 2] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (int scale = 0; scale <= SCALE_MOST; scale++)
        for (size_t code = 0; code < CODES; code++) {
            const float x = ldexpf(code & 8 ? -size[code & 7] : size[code & 7], scale - 127);
            uint32_t bits;
            memcpy(&bits, &x, sizeof bits);
            s->value[scale][code] = (uint16_t)(bits >> 16); /* no bit is lost */
        }
}

static pare_status split_all(splitter *s, pare_arena *scratch)
{
    pare_checkpoint *const ck = s->ck;
    size_t stacked = 0, most;
    found f;
    for (size_t i = 0; i < ck->tensors; i++) {
        if (!look(s, &ck->tensor[i], &f))
            continue;
        stacked++;
        if (f.form != FORM_SCALES)
            PARE_TRY(check(s, &f)); /* before room is made by what config.json says */
    }
    if (!stacked)
        return PARE_OK;
    if (__builtin_mul_overflow(stacked, 2 * s->config.experts, &most) ||
        __builtin_add_overflow(most, ck->tensors, &most))
        return PARE_ENOMEM;
    s->out = PARE_NEW(scratch, entry, most);
    s->stack = PARE_NEW(s->arena, pare_tensor, stacked);
    if (!s->out || !s->stack)
        return PARE_ENOMEM;
    make_values(s);
    for (size_t i = 0; i < ck->tensors; i++) {
        pare_ctx_progress(ck->cx, "unpacking experts", (double)i, (double)ck->tensors);
        PARE_TRY(split_any(s, i));
    }
    pare_ctx_progress(ck->cx, "unpacking experts", 1, 1);
    return take_over(s);
}

pare_status pare__expert_stack(pare_checkpoint *ck, pare_arena *a)
{
    const char *const type =
        ck->config ? pare_json_text(pare_json_get(ck->config, "model_type"), NULL) : NULL;
    const pare_arch *const arch = type ? pare_arch_find(type) : NULL;
    if (!arch || !arch->experts || !arch->experts->stacking || ck->packed || ck->arranged)
        return PARE_OK;
    pare_arena scratch;
    pare_status status = pare_arena_init(ck->cx, &scratch, 0);
    splitter *const s = status == PARE_OK ? PARE_NEW(&scratch, splitter, 1) : NULL;
    if (!s) {
        status = PARE_ENOMEM;
    } else if (pare_config_parse(ck->cx, ck->path, ck->config, &s->config) != PARE_OK) {
        pare_ctx_clear(ck->cx); /* loading says what is wrong; looking at the file goes on */
    } else {
        s->ck = ck;
        s->arena = a;
        s->experts = arch->experts;
        s->stem = strcspn(arch->experts->prefix, "%");
        status = split_all(s, &scratch);
    }
    pare_arena_release(&scratch);
    return status;
}
