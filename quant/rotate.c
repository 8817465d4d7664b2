#include "quant/rotate.h"

#include <string.h>

#include "runtime/random.h"
#include "runtime/threads.h"

enum { COLUMNS = 16 }; /* turned at once where columns are rotated */

static pare_status make(pare_ctx *cx, const char *what, size_t k, pare_hadamard *h)
{
    const pare_status s = pare_hadamard_make(cx, k, h);
    return s == PARE_OK ? s : pare_fail_context(cx, s, "%s", what);
}

static pare_status make_signed(pare_ctx *cx, pare_arena *a, const char *what, size_t k,
                               uint64_t seed, pare_hadamard *h)
{
    PARE_TRY(make(cx, what, k, h));
    float *const sign = PARE_NEW(a, float, k);
    if (!sign)
        return PARE_ENOMEM;
    pare_hadamard_signs(seed, pare_random_stream(what), k, sign);
    h->sign = sign;
    return PARE_OK;
}

pare_status pare_rotation_new(pare_ctx *cx, pare_arena *a, const pare_config *config, uint64_t seed,
                              bool online, const pare_rotation **out)
{
    pare_rotation *const r = PARE_NEW(a, pare_rotation, 1);
    *out = r;
    if (!r)
        return PARE_ENOMEM;
    r->config = config;
    r->online = online;
    PARE_TRY(make_signed(cx, a, "hidden size", config->hidden, seed, &r->hidden));
    PARE_TRY(make_signed(cx, a, "head size", config->head_dim, seed, &r->head));
    if (!online)
        return PARE_OK;
    PARE_TRY(make(cx, "input of o", config->heads * config->head_dim, &r->attended));
    return make(cx, "input of down", config->intermediate, &r->activated);
}

static bool reads_stream(const pare_config *c, pare_role role)
{
    const pare_site site = c->arch->linear[role].site;
    return site == PARE_SITE_ATTENTION || site == PARE_SITE_MLP;
}

static bool adds_to_stream(const pare_config *c, pare_role role)
{
    return c->arch->linear[role].out == PARE_WIDTH_HIDDEN;
}

bool pare_rotation_turns_bias(const pare_rotation *r, pare_role role)
{
    return role == PARE_ROLE_V || adds_to_stream(r->config, role);
}

bool pare_rotation_is_online(const pare_rotation *r, pare_role role)
{
    const pare_site site = r->config->arch->linear[role].site;
    return r->online && (site == PARE_SITE_ATTENDED || site == PARE_SITE_ACTIVATED);
}

/* Columns [begin, end) in units of COLUMNS: each column times a matrix, piece by piece of its k. */
typedef struct column_call {
    const pare_ctx *alone; /* without a pool: the loop itself is parallel */
    const pare_hadamard *h;
    bool inverse;
    float *w;
    size_t n, columns;
    float *buffer; /* [workers][COLUMNS * n] */
} column_call;

static void turn(const pare_ctx *cx, const pare_hadamard *h, bool inverse, float *x, size_t rows)
{
    if (inverse)
        pare_hadamard_invert(cx, h, x, h->k, rows);
    else
        pare_hadamard_apply(cx, h, x, h->k, rows);
}

static void turn_columns(void *arg, size_t begin, size_t end, size_t worker)
{
    const column_call *const c = arg;
    float *const buffer = c->buffer + worker * COLUMNS * c->n;
    for (size_t first = begin * COLUMNS; first < end * COLUMNS && first < c->columns;
         first += COLUMNS) {
        const size_t count = c->columns - first < COLUMNS ? c->columns - first : COLUMNS;
        for (size_t i = 0; i < c->n; i++)
            for (size_t j = 0; j < count; j++)
                buffer[j * c->n + i] = c->w[i * c->columns + first + j];
        turn(c->alone, c->h, c->inverse, buffer, count * (c->n / c->h->k));
        for (size_t i = 0; i < c->n; i++)
            for (size_t j = 0; j < count; j++)
                c->w[i * c->columns + first + j] = buffer[j * c->n + i];
    }
}

/* w [n, columns] <- diag(A, A, ...) w, A the matrix of h or its inverse. */
static void rotate_outputs(pare_ctx *cx, const pare_hadamard *h, bool inverse, float *w, size_t n,
                           size_t columns, float *buffer)
{
    pare_ctx alone = *cx;
    alone.pool = NULL;
    column_call c = {&alone, h, inverse, w, n, columns, buffer};
    pare_parallel(cx, (columns + COLUMNS - 1) / COLUMNS, 4, turn_columns, &c);
}

static size_t widest_output(const pare_config *c)
{
    const size_t kv = c->kv_heads * c->head_dim;
    return kv > c->hidden ? kv : c->hidden;
}

size_t pare_rotation_scratch(const pare_ctx *cx, const pare_config *config)
{
    return pare_threads(cx) * COLUMNS * widest_output(config) * sizeof(float) + PARE_ALIGN;
}

void pare_rotation_stream(const pare_ctx *cx, const pare_rotation *r, float *x, size_t rows)
{
    pare_hadamard_apply(cx, &r->hidden, x, r->hidden.k, rows);
}

void pare_rotation_reader(const pare_ctx *cx, const pare_rotation *r, const float *g, float *w,
                          size_t rows)
{
    const size_t k = r->hidden.k;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < k; j++)
            w[i * k + j] *= g[j];
    pare_rotation_stream(cx, r, w, rows);
}

static void rotate_linear(pare_ctx *cx, const pare_rotation *r, pare_role role, pare_block *block,
                          float *buffer)
{
    const pare_config *const c = r->config;
    float *const w = block->linear[role].floats, *const bias = block->linear[role].bias;
    size_t n, k;
    pare_linear_shape(c, 0, role, &n, &k);
    if (reads_stream(c, role))
        pare_rotation_reader(cx, r, block->norm[c->arch->linear[role].site == PARE_SITE_MLP], w, n);
    if (role == PARE_ROLE_V) {
        rotate_outputs(cx, &r->head, true, w, n, k, buffer);
        if (bias)
            turn(cx, &r->head, true, bias, c->kv_heads);
    }
    if (role == PARE_ROLE_O)
        turn(cx, &r->head, true, w, n * c->heads);
    if (pare_rotation_is_online(r, role))
        turn(cx, role == PARE_ROLE_O ? &r->attended : &r->activated, false, w, n);
    if (adds_to_stream(c, role)) {
        rotate_outputs(cx, &r->hidden, false, w, n, k, buffer);
        if (bias)
            pare_rotation_stream(cx, r, bias, 1);
    }
}

pare_status pare_rotation_block(pare_ctx *cx, pare_arena *scratch, const pare_rotation *r,
                                pare_block *block)
{
    const pare_config *const c = r->config;
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; block->norm_bias[i] && j < c->hidden; j++)
            if (block->norm_bias[i][j] != 0.0f)
                return pare_fail(cx, PARE_ENOTSUP, "a norm with a bias cannot be rotated");
    const pare_mark mark = pare_arena_mark(scratch);
    float *const buffer = PARE_NEW(scratch, float, pare_threads(cx) * COLUMNS * widest_output(c));
    if (!buffer)
        return PARE_ENOMEM;
    for (size_t role = 0; role < PARE_COMMON_ROLES; role++)
        rotate_linear(cx, r, (pare_role)role, block, buffer);
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < c->hidden; j++)
            block->norm[i][j] = 1.0f;
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}
