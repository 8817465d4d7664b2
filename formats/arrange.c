/* Tensors of a family as the rest of pare wants them: linears apart, rows of outputs, every name
 * with the prefix of the family, and nothing that holds no weights. */
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint_internal.h"

/* A list of tensors that grows, and where they come from. */
typedef struct arranger {
    pare_checkpoint *ck;
    pare_arena *arena;
    const pare_config *c;
    const pare_arch *arch;
    const char *prefix; /* to put in front of names, or "" */
    pare__ternary_kind ternary;
    struct pare__arranged {
        pare_tensor tensor;
        uint32_t file;
    } * out;
    size_t count;
} arranger;

static const char role_name[PARE_ROLES][5] = {"q",  "k",    "v",   "o",   "gate",
                                              "up", "down", "q_a", "kv_a"};

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Three texts joined, in the arena. */
static char *join(pare_arena *a, const char *x, size_t len, const char *y, const char *z)
{
    const size_t ny = strlen(y), nz = strlen(z);
    char *const text = PARE_NEW(a, char, len + ny + nz + 1);
    if (!text)
        return NULL;
    memcpy(text, x, len);
    memcpy(text + len, y, ny);
    memcpy(text + len + ny, z, nz);
    return text;
}

/* ".weight" or ".bias" when `rest` is one of these of `base`. */
static const char *suffix_of(const char *rest, const char *base)
{
    const char *const end = rest + strlen(base);
    if (!starts_with(rest, base))
        return NULL;
    return strcmp(end, ".weight") == 0 || strcmp(end, ".bias") == 0 ? end : NULL;
}

static void add(arranger *r, const pare_tensor *t, uint32_t file)
{
    r->out[r->count].tensor = *t;
    r->out[r->count++].file = file;
}

/* dst [rows, cols] = src [cols, rows] transposed; elements of `size` bytes, in tiles that stay in
 * the cache. */
static void transpose(char *dst, const char *src, size_t rows, size_t cols, size_t lds, size_t size)
{
    enum { TILE = 32 };
    for (size_t i0 = 0; i0 < rows; i0 += TILE)
        for (size_t j0 = 0; j0 < cols; j0 += TILE)
            for (size_t i = i0; i < rows && i < i0 + TILE; i++)
                for (size_t j = j0; j < cols && j < j0 + TILE; j++)
                    memcpy(dst + (i * cols + j) * size, src + (j * lds + i) * size, size);
}

/* Where rows of a part lie in a tensor of several linears. */
typedef struct part {
    size_t first, rows; /* of the part inside a piece */
    size_t step, count; /* rows of a piece, pieces */
} part;

static part part_of(const arranger *r, const pare_fused *f, size_t which)
{
    part p = {.count = 1};
    for (size_t i = 0; i < f->count; i++) {
        size_t n, k;
        pare_linear_shape(r->c, 0, (pare_role)((size_t)f->first + i), &n, &k);
        p.first += i < which ? n : 0;
        p.rows = i == which ? n : p.rows;
        p.step += n;
    }
    if (f->fusion == PARE_FUSION_HEADS) {
        p.count = r->c->heads;
        p.first /= p.count;
        p.rows /= p.count;
        p.step /= p.count;
    }
    return p;
}

static pare_status refuse_shape(const arranger *r, const pare_tensor *t, size_t n, size_t k)
{
    const pare_checkpoint *const ck = r->ck;
    return pare_fail(ck->cx, PARE_EFORMAT,
                     "%s: tensor %s does not have the shape [%zu, %zu] that config.json asks for",
                     ck->file[ck->tensor_file[t - ck->tensor]].path, t->name, n, k);
}

static void copy_part(const pare_tensor *t, const part *p, size_t k, bool transposed, char *to)
{
    const size_t size = pare_dtype_bits(t->dtype) / 8, all = p->step * p->count;
    for (size_t i = 0; i < p->count; i++, to += p->rows * k * size) {
        const size_t from = i * p->step + p->first;
        if (transposed)
            transpose(to, (const char *)t->data + from * size, p->rows, k, all, size);
        else
            memcpy(to, (const char *)t->data + from * k * size, p->rows * k * size);
    }
}

/* The rows [p->first ..) of every piece, part after part, k wide, from a tensor with outputs in
 * rows, or in columns when it is transposed. Viewed where they lie together in the right order. */
static pare_status cut(arranger *r, const pare_tensor *t, const part *p, size_t parts, size_t k,
                       bool transposed, pare_tensor *out)
{
    const size_t size = pare_dtype_bits(t->dtype) / 8;
    size_t rows = 0;
    void *room;
    for (size_t i = 0; i < parts; i++)
        rows += p[i].rows * p[i].count;
    out->shape[0] = rows;
    if (out->rank == 2)
        out->shape[1] = k;
    out->bytes = (uint64_t)rows * k * size;
    const bool viewed = !transposed && parts == 1 && p->count == 1;
    if (r->ck->listed) { /* what it is counts, not what it holds, which may be nowhere yet */
        if (!viewed)
            pare_scratch_count(&r->ck->scratch, out->bytes);
        out->data = NULL;
        return PARE_OK;
    }
    if (viewed) {
        out->data = (const char *)t->data + p->first * k * size;
        return PARE_OK;
    }
    PARE_TRY(pare_scratch_take(&r->ck->scratch, out->bytes, &room));
    out->data = room;
    char *to = room;
    for (size_t i = 0; i < parts; to += p[i].rows * p[i].count * k * size, i++)
        copy_part(t, &p[i], k, transposed, to);
    return PARE_OK;
}

/* A whole tensor has the shape that its parts come to. */
static pare_status check(const arranger *r, const pare_tensor *t, const char *suffix, size_t n,
                         size_t k)
{
    const bool matrix = strcmp(suffix, ".weight") == 0;
    const bool turned = r->arch->transposed;
    if (matrix ? t->rank != 2 || t->shape[turned] != n || t->shape[!turned] != k
               : t->rank != 1 || t->shape[0] != n)
        return refuse_shape(r, t, turned && matrix ? k : n, turned && matrix ? n : matrix ? k : 1);
    if (pare_dtype_bits(t->dtype) % 8 != 0)
        return pare_fail(r->ck->cx, PARE_EFORMAT, "%s: tensor %s has dtype %s", r->ck->path,
                         t->name, pare_dtype_name(t->dtype));
    return PARE_OK;
}

static pare_status split(arranger *r, const pare_tensor *t, const char *name, const char *suffix,
                         const pare_fused *f, uint32_t file)
{
    size_t n, k, all = 0;
    const bool matrix = strcmp(suffix, ".weight") == 0;
    for (size_t i = 0; i < f->count; i++) {
        pare_linear_shape(r->c, 0, (pare_role)((size_t)f->first + i), &n, &k);
        all += n;
    }
    PARE_TRY(check(r, t, suffix, all, k));
    for (size_t i = 0; i < f->count; i++) {
        const part p = part_of(r, f, i);
        pare_tensor out = *t;
        char part_name[8] = ".";
        memcpy(part_name + 1, role_name[(size_t)f->first + i], sizeof role_name[0]);
        out.name = join(r->arena, name, (size_t)(suffix - name), part_name, suffix);
        if (!out.name)
            return PARE_ENOMEM;
        PARE_TRY(cut(r, t, &p, 1, matrix ? k : 1, matrix && r->arch->transposed, &out));
        add(r, &out, file);
    }
    return PARE_OK;
}

/* Names of the linears of a recurrent state that lie in one tensor, or NULL. */
static const char *const *fused_states(const pare_arch *arch)
{
    return arch->recurrent && arch->recurrent->recurrence->fused[0]
               ? arch->recurrent->recurrence->fused
               : NULL;
}

/* Both linears of such a tensor: all spans of its key heads but the last, and the last. */
static pare_status split_state(arranger *r, const pare_tensor *t, const char *name,
                               const char *suffix, size_t which, uint32_t file)
{
    enum { SPANS = 4 };
    static const char *const names[2][2] = {{".qkv", ".z"}, {".b", ".a"}};
    const pare_recurrence_sizes *const s = &r->c->recurrence;
    const size_t each = s->value_heads / s->key_heads, values = each * s->value_width;
    const size_t rows[2][SPANS] = {{s->key_width, s->key_width, values, values}, {each, each}};
    const size_t spans = which ? 2 : SPANS;
    part p[SPANS];
    size_t step = 0;
    for (size_t i = 0; i < spans; i++) {
        p[i] = (part){.first = step, .rows = rows[which][i], .count = s->key_heads};
        step += rows[which][i];
    }
    for (size_t i = 0; i < spans; i++)
        p[i].step = step;
    PARE_TRY(check(r, t, suffix, step * s->key_heads, r->c->hidden));
    for (size_t i = 0; i < 2; i++) {
        pare_tensor out = *t;
        out.name = join(r->arena, name, (size_t)(suffix - name), names[which][i], suffix);
        if (!out.name)
            return PARE_ENOMEM;
        PARE_TRY(cut(r, t, i ? &p[spans - 1] : p, i ? 1 : spans - 1, r->c->hidden, false, &out));
        add(r, &out, file);
    }
    return PARE_OK;
}

/* The role of a linear of the blocks that is a tensor of its own, PARE_ROLES for others. */
static pare_role role_of(const arranger *r, const char *rest, const char *ending)
{
    pare_role role = 0;
    for (; role < PARE_ROLES; role++) {
        const char *const base = r->arch->linear[role].name;
        if (base && starts_with(rest, base) && strcmp(rest + strlen(base), ending) == 0)
            break;
    }
    return role;
}

/* A linear that is trained to be ternary; its scale goes into the weights. */
static pare_status unpack(arranger *r, const pare_tensor *t, const char *name, const char *rest,
                          uint32_t file)
{
    static const char scale_name[] = ".weight_scale";
    pare_tensor out = *t;
    size_t n, k;
    const pare_role role = role_of(r, rest, ".weight");
    if (role_of(r, rest, scale_name) != PARE_ROLES)
        return PARE_OK;
    if (role != PARE_ROLES) {
        char *const other =
            join(r->arena, t->name, strlen(t->name) - strlen(".weight"), scale_name, "");
        if (!other)
            return PARE_ENOMEM;
        pare_linear_shape(r->c, 0, role, &n, &k);
        PARE_TRY(pare__ternary_take(r->ck, t, pare_checkpoint_find(r->ck, other), r->ternary, n, k,
                                    &out));
    }
    out.name = name;
    add(r, &out, file);
    return PARE_OK;
}

/* A linear of its own that lies transposed. */
static pare_status turn(arranger *r, const pare_tensor *t, const char *name, const char *rest,
                        uint32_t file)
{
    pare_tensor out = *t;
    out.name = name;
    const pare_role role = role_of(r, rest, ".weight");
    if (r->arch->transposed && role != PARE_ROLES) {
        size_t n, k;
        pare_linear_shape(r->c, 0, role, &n, &k);
        PARE_TRY(check(r, t, ".weight", n, k));
        const part p = {.rows = n, .step = n, .count = 1};
        PARE_TRY(cut(r, t, &p, 1, k, true, &out));
    }
    add(r, &out, file);
    return PARE_OK;
}

/* ExLlamaV3 takes the linears of such tensors apart: "self_attn.q_proj" is a part of
 * "self_attn.qkv_proj". *out becomes its name here, NULL for another tensor. */
static pare_status name_part(const arranger *r, const char *name, const char *rest, char **out)
{
    *out = NULL;
    for (size_t i = 0; i < PARE_FUSED_MAX && r->arch->fused[i].name; i++) {
        const pare_fused *const f = &r->arch->fused[i];
        const size_t folder = strcspn(f->name, ".") + 1;
        for (size_t j = 0; j < f->count; j++) {
            const char *const role = role_name[(size_t)f->first + j];
            char *const own = join(r->arena, f->name, folder, role, "_proj");
            const char *const suffix = own ? suffix_of(rest, own) : NULL;
            char *const fused = suffix ? join(r->arena, f->name, strlen(f->name), ".", role) : NULL;
            if (!own || (suffix && !fused))
                return PARE_ENOMEM;
            if (!suffix)
                continue;
            *out = join(r->arena, name, (size_t)(rest - name), fused, suffix);
            return *out ? PARE_OK : PARE_ENOMEM;
        }
    }
    return PARE_OK;
}

static bool is_ignored(const pare_arch *arch, const char *rest)
{
    const size_t most = sizeof arch->ignored / sizeof *arch->ignored;
    bool found = false;
    for (size_t i = 0; i < most && arch->ignored[i]; i++)
        found |= strcmp(rest, arch->ignored[i]) == 0;
    return found;
}

static pare_status arrange_one(arranger *r, const pare_tensor *t, uint32_t file)
{
    const char *name = r->ck->is_part ? pare__text_tensor(r->arena, t->name) : t->name;
    if (name && r->prefix[0] && !starts_with(name, r->arch->head))
        name = join(r->arena, r->prefix, strlen(r->prefix), name, "");
    size_t block;
    const char *const rest = name ? pare_arch_inside(r->arch, name, &block) : NULL;
    if (!name)
        return PARE_ENOMEM;
    if (!rest) {
        pare_tensor out = *t;
        out.name = name;
        add(r, &out, file);
        return PARE_OK;
    }
    if (is_ignored(r->arch, rest))
        return PARE_OK;
    for (size_t i = 0; i < PARE_FUSED_MAX && r->arch->fused[i].name; i++) {
        const char *const suffix = suffix_of(rest, r->arch->fused[i].name);
        if (suffix)
            return split(r, t, name, suffix, &r->arch->fused[i], file);
    }
    const char *const *const states = fused_states(r->arch);
    for (size_t i = 0; states && i < 2; i++) {
        const char *const suffix = suffix_of(rest, states[i]);
        if (suffix && strcmp(suffix, ".weight") == 0)
            return split_state(r, t, name, suffix, i, file);
    }
    char *own;
    PARE_TRY(name_part(r, name, rest, &own));
    if (own) {
        pare_tensor out = *t;
        out.name = own;
        add(r, &out, file);
        return PARE_OK;
    }
    return r->arch->rounds_inputs ? unpack(r, t, name, rest, file) : turn(r, t, name, rest, file);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct pare__arranged *)a)->tensor.name,
                  ((const struct pare__arranged *)b)->tensor.name);
}

/* Files may leave the prefix out, all of them or none. */
static const char *missing_prefix(const pare_checkpoint *ck, const pare_arch *arch)
{
    const char *const prefix = arch->prefix;
    for (size_t i = 0; prefix && i < ck->tensors; i++)
        if (ck->is_part || starts_with(ck->tensor[i].name, prefix))
            return "";
    return prefix ? prefix : "";
}

static pare__ternary_kind ternary_of(const pare_json *config)
{
    const pare_json *const q = pare_json_get(config, "quantization_config");
    const char *const mode = pare_json_text(pare_json_get(q, "quantization_mode"), NULL);
    const char *const type = pare_json_text(pare_json_get(q, "linear_class"), NULL);
    if (!type || strcmp(type, "autobitlinear") != 0)
        return PARE__TERNARY_DIVIDED;
    return mode && strcmp(mode, "online") == 0 ? PARE__TERNARY_ONLINE : PARE__TERNARY_SCALED;
}

/* The list takes the place of that of the files. */
static pare_status take_over(arranger *r)
{
    pare_checkpoint *const ck = r->ck;
    ck->tensor = PARE_NEW(r->arena, pare_tensor, r->count);
    ck->tensor_file = PARE_NEW(r->arena, uint32_t, r->count);
    if (!ck->tensor || !ck->tensor_file)
        return PARE_ENOMEM;
    if (r->count > 1)
        qsort(r->out, r->count, sizeof *r->out, by_name);
    for (size_t i = 0; i < r->count; i++) {
        if (i > 0 && by_name(&r->out[i - 1], &r->out[i]) == 0)
            return pare_fail(ck->cx, PARE_EFORMAT, "%s: tensor %s is there twice", ck->path,
                             r->out[i].tensor.name);
        ck->tensor[i] = r->out[i].tensor;
        ck->tensor_file[i] = r->out[i].file;
    }
    ck->tensors = r->count;
    ck->stored = NULL; /* of another list */
    return PARE_OK;
}

static const pare_arch *arch_of(const pare_checkpoint *ck)
{
    const char *const type =
        ck->config ? pare_json_text(pare_json_get(ck->config, "model_type"), NULL) : NULL;
    return type ? pare_arch_find(type) : NULL;
}

bool pare__checkpoint_arranges(const pare_checkpoint *ck)
{
    const pare_arch *const arch = arch_of(ck);
    return arch && !ck->packed && !ck->arranged &&
           (ck->is_part || missing_prefix(ck, arch)[0] || arch->fused[0].name || arch->transposed ||
            arch->rounds_inputs || fused_states(arch));
}

pare_status pare__checkpoint_arrange(pare_checkpoint *ck, pare_arena *a)
{
    const pare_arch *const arch = arch_of(ck);
    pare_config c;
    if (!arch || !pare__checkpoint_arranges(ck))
        return PARE_OK;
    const char *const prefix = missing_prefix(ck, arch);
    if (pare_config_parse(ck->cx, ck->path, ck->config, &c) != PARE_OK) {
        pare_ctx_clear(ck->cx); /* loading says what is wrong; looking at the file goes on */
        return PARE_OK;
    }
    arranger r = {.ck = ck,
                  .arena = a,
                  .c = &c,
                  .arch = arch,
                  .prefix = prefix,
                  .ternary = ternary_of(ck->config)};
    size_t most;
    if (__builtin_mul_overflow(ck->tensors, (size_t)PARE_ROLES, &most))
        return PARE_ENOMEM;
    pare_arena scratch;
    pare_status s = pare_arena_init(ck->cx, &scratch, 0);
    r.out = s == PARE_OK ? pare_arena_take(&scratch, most, sizeof *r.out) : NULL;
    s = r.out ? PARE_OK : PARE_ENOMEM;
    for (size_t i = 0; s == PARE_OK && i < ck->tensors; i++) {
        pare_ctx_progress(ck->cx, "arranging weights", (double)i, (double)ck->tensors);
        s = arrange_one(&r, &ck->tensor[i], ck->tensor_file[i]);
    }
    pare_ctx_progress(ck->cx, "arranging weights", 1, 1);
    if (s == PARE_OK)
        s = take_over(&r);
    pare_arena_release(&scratch);
    return s;
}
