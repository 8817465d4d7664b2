#include "runtime/ops.h"
#include "tests/unit/tiny.h"

/* A plain llama in double over dense weights, written apart from the code under test: whole
 * sequence at once, no cache, RoPE by complex rotation. x [length][hidden] in and out. */
typedef struct plain {
    const pare_config *c;
    double w[PARE_COMMON_ROLES][70 * 70];
    const pare_block *block;
} plain;

static void plain_load(plain *p, pare_ctx *cx, const pare_config *c, const pare_block *b)
{
    float dense[70 * 70];
    p->c = c;
    p->block = b;
    for (size_t r = 0; r < PARE_COMMON_ROLES; r++) {
        pare_linear_to_f32(cx, &b->linear[r], dense);
        for (size_t i = 0; i < b->linear[r].n * b->linear[r].k; i++)
            p->w[r][i] = (double)dense[i];
    }
}

static void plain_linear(const plain *p, pare_role role, const double *x, double *y)
{
    const pare_linear *const w = &p->block->linear[role];
    for (size_t r = 0; r < w->n; r++) {
        y[r] = w->bias ? (double)w->bias[r] : 0;
        for (size_t j = 0; j < w->k; j++)
            y[r] += p->w[role][r * w->k + j] * x[j];
    }
}

static void plain_norm(const plain *p, const float *w, const double *x, double *y)
{
    const size_t n = p->c->hidden;
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += x[i] * x[i];
    for (size_t i = 0; i < n; i++)
        y[i] = (double)w[i] * x[i] / sqrt(squares / (double)n + p->c->norm_eps);
}

static void plain_rope(const plain *p, double *x, size_t position)
{
    const size_t d = p->c->head_dim;
    for (size_t i = 0; i < d / 2; i++) {
        const double angle = (double)position / pow(p->c->rope.theta, 2 * (double)i / (double)d);
        const double a = x[i], b = x[i + d / 2];
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + d / 2] = a * sin(angle) + b * cos(angle);
    }
}

static void plain_attention(const plain *p, const double *q, const double *k, const double *v,
                            size_t position, double *out)
{
    const size_t d = p->c->head_dim, kv_width = p->c->kv_heads * d;
    for (size_t h = 0; h < p->c->heads; h++) {
        const size_t at = h / (p->c->heads / p->c->kv_heads) * d;
        double score[TINY_CONTEXT], total = 0;
        for (size_t j = 0; j <= position; j++) {
            score[j] = 0;
            for (size_t i = 0; i < d; i++)
                score[j] += q[h * d + i] * k[j * kv_width + at + i];
            total += score[j] = exp(score[j] / sqrt((double)d));
        }
        for (size_t i = 0; i < d; i++) {
            out[h * d + i] = 0;
            for (size_t j = 0; j <= position; j++)
                out[h * d + i] += score[j] / total * v[j * kv_width + at + i];
        }
    }
}

static void plain_block(const plain *p, double *x, size_t length)
{
    const pare_config *const c = p->c;
    const size_t d = c->head_dim, kv_width = c->kv_heads * d;
    double normed[70], q[70], out[70], attended[70], gate[70], up[70];
    double k[TINY_CONTEXT * 70], v[TINY_CONTEXT * 70];
    for (size_t t = 0; t < length; t++) {
        double *const h = x + t * c->hidden;
        plain_norm(p, p->block->norm[0], h, normed);
        plain_linear(p, PARE_ROLE_Q, normed, q);
        plain_linear(p, PARE_ROLE_K, normed, k + t * kv_width);
        plain_linear(p, PARE_ROLE_V, normed, v + t * kv_width);
        for (size_t i = 0; i < c->heads; i++)
            plain_rope(p, q + i * d, t);
        for (size_t i = 0; i < c->kv_heads; i++)
            plain_rope(p, k + t * kv_width + i * d, t);
        plain_attention(p, q, k, v, t, attended);
        plain_linear(p, PARE_ROLE_O, attended, out);
        for (size_t i = 0; i < c->hidden; i++)
            h[i] += out[i];
        plain_norm(p, p->block->norm[1], h, normed);
        plain_linear(p, PARE_ROLE_GATE, normed, gate);
        plain_linear(p, PARE_ROLE_UP, normed, up);
        for (size_t i = 0; i < c->intermediate; i++)
            gate[i] *= up[i] / (1 + exp(-gate[i]));
        plain_linear(p, PARE_ROLE_DOWN, gate, out);
        for (size_t i = 0; i < c->hidden; i++)
            h[i] += out[i];
    }
}

/* Tokens 0 .. length of `sequences` streams, embedded: [sequences * length, hidden]. */
static float *embedded(tiny_home *h, const pare_model *m, size_t sequences, size_t length)
{
    float *const x = tiny_take(&h->arena, sequences * length, m->config.hidden * sizeof *x);
    for (size_t i = 0; i < sequences; i++) {
        const int32_t *const t = tiny_tokens(&h->arena, i, length);
        ck_assert_int_eq(pare_embed(&h->cx, m, t, length, x + i * length * m->config.hidden),
                         PARE_OK);
    }
    return x;
}

static pare_kv *caches(tiny_home *h, const pare_model *m, size_t sequences, size_t capacity)
{
    pare_kv *const kv = tiny_take(&h->arena, m->config.blocks, sizeof *kv);
    for (size_t i = 0; i < m->config.blocks; i++)
        ck_assert_int_eq(pare_kv_take(&h->arena, &m->config, sequences, capacity, &kv[i]), PARE_OK);
    return kv;
}

START_TEST(activations_equal_a_plain_double_forward)
{
    static plain p;
    static double want[TINY_CONTEXT * 44];
    const size_t length = 70;
    tiny_home h;
    tiny_begin(&h, 2);
    const pare_model m = tiny_model(&h.arena, tiny_kinds[_i]);
    const size_t hidden = m.config.hidden;
    pare_forward f;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, length, true, &f), PARE_OK);
    float *const x = embedded(&h, &m, 1, length);
    for (size_t i = 0; i < length * hidden; i++)
        want[i] = (double)x[i];
    pare_kv *const kv = caches(&h, &m, 1, length);
    for (size_t b = 0; b < m.config.blocks; b++) {
        plain_load(&p, &h.cx, &m.config, &m.block[b]);
        plain_block(&p, want, length);
    }
    ck_assert_int_eq(pare_model_forward(&h.cx, &h.arena, &f, (pare_batch){1, length, 0}, x, kv, 2),
                     PARE_OK);
    /* F32 arithmetic over sums of at most 70 terms, two blocks: a few hundred roundings of 6e-8. */
    for (size_t i = 0; i < length * hidden; i++)
        ck_assert_msg(fabs((double)x[i] - want[i]) <= 2e-5 * (1 + fabs(want[i])), "%zu: %g %g", i,
                      (double)x[i], want[i]);
    tiny_end(&h);
}
END_TEST

/* Runs `length` tokens of 3 sequences in pieces of `piece`; result [3 * length, hidden]. */
static float *in_pieces(tiny_home *h, const pare_model *m, bool exact, size_t length, size_t piece)
{
    const size_t hidden = m->config.hidden, n = 3;
    pare_forward f;
    ck_assert_int_eq(pare_forward_init(&h->cx, &h->arena, m, length, exact, &f), PARE_OK);
    const float *const x = embedded(h, m, n, length);
    float *const out = tiny_take(&h->arena, n * length, hidden * sizeof *out);
    float *const part = tiny_take(&h->arena, n * piece, hidden * sizeof *part);
    pare_kv *const kv = caches(h, m, n, length + piece % 3);
    for (size_t at = 0; at < length; at += piece) {
        const size_t count = length - at < piece ? length - at : piece;
        for (size_t i = 0; i < n; i++)
            memcpy(part + i * count * hidden, x + (i * length + at) * hidden,
                   count * hidden * sizeof *x);
        const pare_batch batch = {n, count, at};
        ck_assert_int_eq(pare_model_forward(&h->cx, &h->arena, &f, batch, part, kv, 2), PARE_OK);
        for (size_t i = 0; i < n; i++)
            memcpy(out + (i * length + at) * hidden, part + i * count * hidden,
                   count * hidden * sizeof *x);
    }
    return out;
}

START_TEST(prefill_decode_and_any_thread_count_give_the_same_bytes)
{
    enum { LENGTH = 75, SIZE = 3 * LENGTH * 44 };
    static float first[SIZE];
    const tiny_kind kind = tiny_kinds[_i / 2];
    static const size_t threads[] = {1, 2, 5, 1, 2, 2}, piece[] = {LENGTH, LENGTH, LENGTH, 1, 1, 7};
    for (size_t i = 0; i < sizeof piece / sizeof *piece; i++) {
        tiny_home h;
        tiny_begin(&h, threads[i]);
        const pare_model m = tiny_model(&h.arena, kind);
        const float *const x = in_pieces(&h, &m, _i % 2, LENGTH, piece[i]);
        if (i == 0)
            memcpy(first, x, sizeof first);
        ck_assert_mem_eq(first, x, sizeof first);
        tiny_end(&h);
    }
}
END_TEST

START_TEST(a_sequence_does_not_see_its_neighbours)
{
    tiny_home h;
    tiny_begin(&h, 2);
    const pare_model m = tiny_model(&h.arena, tiny_kinds[3]);
    const size_t length = 20, hidden = m.config.hidden;
    const float *const three = in_pieces(&h, &m, false, length, length);
    pare_forward f;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, length, false, &f), PARE_OK);
    float *const x = embedded(&h, &m, 3, length);
    pare_kv *const kv = caches(&h, &m, 1, length);
    for (size_t i = 0; i < 3; i++) {
        float *const own = x + i * length * hidden;
        ck_assert_int_eq(
            pare_model_forward(&h.cx, &h.arena, &f, (pare_batch){1, length, 0}, own, kv, 1),
            PARE_OK);
        ck_assert_mem_eq(own, three + i * length * hidden, length * hidden * sizeof *x);
    }
    tiny_end(&h);
}
END_TEST

/* What a tap saw. */
typedef struct witness {
    size_t calls;
    pare_site site[8];
    float x[PARE_SITES][30 * 70];
    size_t k[PARE_SITES];
    pare_status answer;
} witness;

static pare_status look(void *self, size_t part, pare_site site, const float *x, size_t rows,
                        size_t k)
{
    witness *const w = self;
    ck_assert_uint_eq(part, 0);
    ck_assert_uint_eq(rows, 30);
    w->site[w->calls++] = site;
    w->k[site] = k;
    memcpy(w->x[site], x, rows * k * sizeof *x);
    return w->answer;
}

START_TEST(a_tap_sees_the_inputs_of_the_linears_and_stops_where_it_says)
{
    static witness w, whole;
    tiny_home h;
    tiny_begin(&h, 2);
    const pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    const size_t hidden = m.config.hidden, bytes = 30 * hidden * sizeof(float);
    const pare_batch batch = {2, 15, 0};
    pare_forward f;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, 15, true, &f), PARE_OK);
    float *const x = embedded(&h, &m, 2, 15), *const y = embedded(&h, &m, 2, 15);
    float *const untouched = embedded(&h, &m, 2, 15);
    pare_kv *const kv = caches(&h, &m, 2, 15);
    pare_tap tap = {.see = look, .self = &whole, .last = PARE_SITES};
    ck_assert_int_eq(pare_block_forward(&h.cx, &h.arena, &f, m.block, batch, x, kv, NULL), PARE_OK);
    ck_assert_int_eq(pare_block_forward(&h.cx, &h.arena, &f, m.block, batch, y, kv, &tap), PARE_OK);
    ck_assert_mem_eq(x, y, bytes);
    const size_t widths[] = {hidden, 40, hidden, m.config.intermediate};
    ck_assert_uint_eq(whole.calls, 4);
    for (size_t i = 0; i < whole.calls; i++) {
        const pare_site last = whole.site[i];
        w.calls = 0;
        tap = (pare_tap){.see = look, .self = &w, .last = last};
        ck_assert_int_eq(
            pare_block_forward(&h.cx, &h.arena, &f, m.block, batch, untouched, kv, &tap), PARE_OK);
        ck_assert_uint_eq(w.calls, i + 1);
        ck_assert_int_eq(w.site[i], (int)last);
        ck_assert_uint_eq(w.k[last], widths[i]);
        ck_assert_mem_eq(w.x[last], whole.x[last], 30 * widths[i] * sizeof(float));
    }
    ck_assert_mem_eq(untouched, embedded(&h, &m, 2, 15), bytes);
    w.answer = PARE_ENUMERIC;
    ck_assert_int_eq(pare_block_forward(&h.cx, &h.arena, &f, m.block, batch, untouched, kv, &tap),
                     PARE_ENUMERIC);
    tiny_end(&h);
}
END_TEST

/* What a tap sees of the first site. */
static pare_status see_first(void *self, size_t part, pare_site site, const float *x, size_t rows,
                             size_t k)
{
    ck_assert_uint_eq(part, 0);
    if (site == PARE_SITE_ATTENTION)
        memcpy(self, x, rows * k * sizeof *x);
    return PARE_OK;
}

/* Recipes may give q, k and v other widths and groups, or leave one as it was: each must come out
 * as if it were alone. V has no rotation, so the cache shows it. */
static void check_mixed(size_t first, size_t third, bool exact)
{
    enum { LENGTH = 5, HIDDEN = 44, KV = 20, D = 10 };
    const tiny_kind q = tiny_kinds[first], v = tiny_kinds[third];
    float seen[LENGTH * HIDDEN], alone[LENGTH * KV];
    tiny_home h;
    tiny_begin(&h, 2);
    pare_model m = tiny_model(&h.arena, q);
    pare_forward f;
    pare_kv kv;
    m.block[0].linear[PARE_ROLE_V] = v.bits ? tiny_packed(&h.arena, v, 99, KV, HIDDEN)
                                            : tiny_dense(&h.arena, v.dtype, 99, KV, HIDDEN);
    float *const x = embedded(&h, &m, 1, LENGTH);
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, LENGTH, exact, &f), PARE_OK);
    ck_assert_int_eq(pare_kv_take(&h.arena, &m.config, 1, LENGTH, &kv), PARE_OK);
    const pare_tap tap = {.see = see_first, .self = seen, .last = PARE_SITES};
    ck_assert_int_eq(pare_block_forward(&h.cx, &h.arena, &f, &m.block[0],
                                        (pare_batch){1, LENGTH, 0}, x, &kv, &tap),
                     PARE_OK);
    ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &m.block[0].linear[PARE_ROLE_V], exact,
                                       seen, HIDDEN, LENGTH, alone, KV),
                     PARE_OK);
    for (size_t t = 0; t < LENGTH; t++)
        for (size_t i = 0; i < KV; i += D) /* values [head][position][dim] */
            ck_assert_mem_eq(&kv.values[i * LENGTH + t * D], &alone[t * KV + i], D * sizeof *alone);
    tiny_end(&h);
}

START_TEST(linears_of_one_input_may_be_of_different_kinds)
{
    for (size_t third = 0; third < TINY_KINDS; third++)
        check_mixed((size_t)_i / 2, third, _i % 2 != 0);
}
END_TEST

START_TEST(logits_are_the_head_times_the_normed_rows_asked_for)
{
    tiny_home h;
    tiny_begin(&h, 2);
    const pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    const size_t hidden = m.config.hidden, rows[] = {7, 0, 7};
    pare_forward f;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, 8, true, &f), PARE_OK);
    const float *const x = embedded(&h, &m, 1, 8), *const head = m.head.data;
    float logits[3 * TINY_VOCAB], all[8 * TINY_VOCAB], normed[44];
    ck_assert_int_eq(pare_logits(&h.cx, &h.arena, &f, x, rows, 3, logits), PARE_OK);
    ck_assert_int_eq(pare_logits(&h.cx, &h.arena, &f, x, NULL, 8, all), PARE_OK);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_mem_eq(logits + i * TINY_VOCAB, all + rows[i] * TINY_VOCAB, sizeof all / 8);
        pare_rms_norm(normed, x + rows[i] * hidden, m.norm, hidden, m.config.norm_eps);
        for (size_t v = 0; v < TINY_VOCAB; v++) {
            double sum = 0;
            for (size_t j = 0; j < hidden; j++)
                sum += (double)normed[j] * (double)head[v * hidden + j];
            ck_assert_double_eq_tol((double)logits[i * TINY_VOCAB + v], sum, 2e-5);
        }
    }
    tiny_end(&h);
}
END_TEST

START_TEST(a_token_outside_the_vocabulary_is_refused_by_number)
{
    tiny_home h;
    tiny_begin(&h, 1);
    const pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    float x[3 * 44];
    const int32_t high[] = {1, 2, TINY_VOCAB}, low[] = {0, -1, 0};
    ck_assert_int_eq(pare_embed(&h.cx, &m, high, 3, x), PARE_EINVAL);
    ck_assert_str_eq(h.cx.what, "token 2 is 53; this model knows 0 to 52");
    pare_ctx_clear(&h.cx);
    ck_assert_int_eq(pare_embed(&h.cx, &m, low, 3, x), PARE_EINVAL);
    ck_assert_str_eq(h.cx.what, "token 1 is -1; this model knows 0 to 52");
    tiny_end(&h);
}
END_TEST

/* Long waves turn `factor` times slower, short ones as before, those between somewhere between. */
START_TEST(llama_3_scaling_stretches_the_long_waves_only)
{
    tiny_home h;
    tiny_begin(&h, 1);
    pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    m.config.head_dim = 128;
    m.config.rope = (pare_rope){.theta = 500000};
    pare_forward plain_f, scaled;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, 2, true, &plain_f), PARE_OK);
    const double factor = _i ? 16 : 8, high = _i ? 1 : 4; /* of Llama 4 Scout; of Llama 3.1 */
    m.config.rope = (pare_rope){.theta = 500000,
                                .kind = PARE_ROPE_LLAMA3,
                                .factor = factor,
                                .low_freq_factor = 1,
                                .high_freq_factor = high,
                                .original_context = 8192};
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, 2, true, &scaled), PARE_OK);
    size_t kept = 0, between = 0, stretched = 0;
    for (size_t i = 0; i < 64; i++) {
        const double before = pow(500000, -(double)i / 64), wave = 6.283185307179586 / before;
        const double now = asin((double)scaled.rope_sin[64 + i]);
        if (wave < 8192 / high) {
            kept++;
            ck_assert(scaled.rope_sin[64 + i] == plain_f.rope_sin[64 + i]);
        } else if (wave > 8192) {
            stretched++;
            ck_assert_double_eq_tol(now, before / factor, before * 1e-6);
        } else {
            const double mix = (8192 / wave - 1) / (high - 1);
            between++;
            ck_assert_double_eq_tol(now, (1 - mix) * before / factor + mix * before, before * 1e-6);
        }
    }
    ck_assert(kept > 20 && (_i ? between == 0 : between > 2) && stretched > 20);
    tiny_end(&h);
}
END_TEST

/* A wave as long as both bounds is neither between them nor stretched. */
START_TEST(llama_3_scaling_without_a_band_keeps_the_wave_at_its_bound)
{
    const double bound = 8192 / 6.283185307179586;
    const pare_rope r = {.theta = 500000,
                         .kind = PARE_ROPE_LLAMA3,
                         .factor = 16,
                         .low_freq_factor = bound,
                         .high_freq_factor = bound,
                         .original_context = 8192};
    ck_assert_double_eq(pare_rope_frequency(&r, 0, 64, 0), 1);
    ck_assert_double_eq_tol(pare_rope_frequency(&r, 1, 64, 0), pow(500000, -1.0 / 64) / 16, 1e-12);
}
END_TEST

START_TEST(planned_scratch_is_enough_for_one_block)
{
    tiny_home h;
    tiny_begin(&h, 3);
    const pare_model m = tiny_model(&h.arena, tiny_kinds[_i / 2]);
    const pare_batch batch = {2, 15, 0};
    pare_forward f;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, 15, _i % 2, &f), PARE_OK);
    float *const x = embedded(&h, &m, 2, 15);
    pare_kv *const kv = caches(&h, &m, 2, 15);
    pare_arena scratch;
    const size_t bytes = pare_block_forward_scratch(&h.cx, &m.config, batch);
    ck_assert_int_eq(pare_arena_init(&h.cx, &scratch, bytes), PARE_OK);
    h.cx.limit_bytes = h.cx.live_bytes; /* nothing beyond the plan */
    static witness w;
    const pare_tap tap = {.see = look, .self = &w, .last = PARE_SITE_ACTIVATED};
    ck_assert_int_eq(pare_block_forward(&h.cx, &scratch, &f, m.block, batch, x, kv, &tap), PARE_OK);
    ck_assert_int_eq(pare_block_forward(&h.cx, &scratch, &f, m.block, batch, x, kv, NULL), PARE_OK);
    pare_arena_release(&scratch);
    tiny_end(&h);
}
END_TEST

START_TEST(every_refused_allocation_of_a_block_is_reported_and_nothing_leaks)
{
    tiny_home h;
    tiny_begin(&h, 2);
    const pare_model m = tiny_model(&h.arena, tiny_kinds[3]);
    const pare_batch batch = {3, TINY_CONTEXT, 0};
    pare_forward f;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, TINY_CONTEXT, _i, &f), PARE_OK);
    pare_kv *const kv = caches(&h, &m, 3, TINY_CONTEXT);
    const pare_alloc plain_alloc = h.cx.alloc;
    float *const x = embedded(&h, &m, 3, TINY_CONTEXT);
    pare_status s = PARE_ENOMEM;
    long n = 0;
    for (; s != PARE_OK; n++) {
        unit_failing failing = {.left = n};
        pare_arena scratch = {.cx = &h.cx};
        pare_ctx_clear(&h.cx);
        h.cx.alloc = (pare_alloc){unit_failing_resize, &failing};
        s = pare_block_forward(&h.cx, &scratch, &f, m.block, batch, x, kv, NULL);
        ck_assert(s == PARE_OK || (s == PARE_ENOMEM && h.cx.what[0]));
        pare_arena_release(&scratch);
        ck_assert_int_eq(failing.live, 0);
    }
    ck_assert_int_gt(n, 4);
    h.cx.alloc = plain_alloc;
    tiny_end(&h);
}
END_TEST

START_TEST(an_interrupt_ends_the_pass)
{
    tiny_home h;
    tiny_begin(&h, 1);
    const volatile int interrupts = 1;
    const pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    pare_forward f;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, 4, true, &f), PARE_OK);
    float *const x = embedded(&h, &m, 1, 4);
    pare_kv *const kv = caches(&h, &m, 1, 4);
    h.cx.interrupt = &interrupts;
    ck_assert_int_eq(pare_model_forward(&h.cx, &h.arena, &f, (pare_batch){1, 4, 0}, x, kv, 2),
                     PARE_EINTERRUPTED);
    tiny_end(&h);
}
END_TEST

START_TEST(the_exponential_is_right_to_1e_11_and_keeps_nan)
{
    double worst = 0;
    for (double x = -700; x <= 700; x += 0.0371) {
        const double e = fabs(pare_exp(x) / exp(x) - 1);
        worst = e > worst ? e : worst;
    }
    ck_assert_double_le(worst, 1e-11);
    ck_assert(isnan(pare_exp((double)NAN)));
    ck_assert(pare_exp(-1e9) > 0 && (float)pare_exp(-1e9) == 0);
    ck_assert(isinf((float)pare_exp(1e9)));
    ck_assert(pare_exp(0) == 1);
}
END_TEST

START_TEST(softmax_in_blocks_has_the_weights_of_its_definition)
{
    enum { N = 90, CUT = 37 };
    pare_ctx cx;
    pare_ctx_init(&cx);
    for (size_t n = 1; n <= N; n++) {
        float row[N], max = -INFINITY, shrink = 1;
        double x[N], total = 0, sum = 0;
        for (size_t i = 0; i < n; i++)
            x[i] = (double)(row[i] = (float)pare_random_normal(1, n, i) * 30);
        (void)cx.kernels.softmax_f32(row, n < CUT ? n : CUT, 0.5F, &max, &total);
        if (n > CUT)
            shrink = cx.kernels.softmax_f32(row + CUT, n - CUT, 0.5F, &max, &total);
        for (size_t i = 0; i < n; i++)
            sum += exp((x[i] - (double)max) / 2);
        ck_assert_double_eq_tol(total / sum, 1, 1e-6);
        for (size_t i = 0; i < n; i++) {
            const double is = (double)row[i] * (i < CUT ? (double)shrink : 1) / total;
            ck_assert_double_eq_tol(is, exp((x[i] - (double)max) / 2) / sum, 1e-6);
        }
    }
}
END_TEST

/* Far outside the range of the exponential, where its clamp and nothing else keeps the result. */
START_TEST(softmax_and_silu_hold_for_huge_values)
{
    const float huge[] = {88, 100, 200, 1000, 1e30F, INFINITY};
    pare_ctx cx;
    pare_ctx_init(&cx);
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        float row[] = {0, -huge[i], -huge[i] / 2, 0}, gate[] = {huge[i], -huge[i]}, max = -INFINITY;
        const float up[] = {0.5F, 0.5F};
        double total = 0;
        (void)cx.kernels.softmax_f32(row, 4, 1, &max, &total);
        ck_assert(row[0] == 1 && row[3] == 1 && total >= 2 && total < 2.0001 && max == 0);
        ck_assert(row[1] >= 0 && row[1] <= 2e-37F && row[2] >= row[1] && row[2] < 2e-18F);
        if (isinf(huge[i]))
            continue;
        cx.kernels.silu_f32(gate, up, 2);
        ck_assert(gate[0] == huge[i] / 2);
        ck_assert(gate[1] <= 0 && gate[1] >= -huge[i] * 1e-37F);
    }
}
END_TEST

START_TEST(silu_and_its_exponential_are_right_to_4e_7)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    double worst = 0;
    for (double x = -87; x < 87; x += 0.0037) {
        float y = (float)x, max = 0;
        const double g = (double)y, want = g / (1 + exp(-g));
        const float up = 1;
        double total = 0;
        cx.kernels.silu_f32(&y, &up, 1);
        worst = fmax(worst, fabs((double)y - want) / fabs(want));
        y = (float)fmin(x, 0);
        const double e = exp((double)y);
        (void)cx.kernels.softmax_f32(&y, 1, 1, &max, &total);
        worst = fmax(worst, fabs((double)y / e - 1));
    }
    ck_assert_double_le(worst, 4e-7);
}
END_TEST

START_TEST(logsumexp_divergence_and_argmax_agree_with_their_definitions)
{
    enum { N = 200 };
    float a[N], b[N];
    pare_ctx cx;
    pare_ctx_init(&cx);
    for (size_t n = 1; n <= N; n++) {
        double sum = 0, sum0 = 0, kl = 0;
        for (size_t i = 0; i < n; i++) {
            a[i] = (float)pare_random_normal(2, n, i) * 3;
            b[i] = a[i] + (float)pare_random_normal(3, n, i);
            sum0 += exp((double)a[i]);
            sum += exp((double)b[i]);
        }
        ck_assert_double_eq_tol(pare_logsumexp(&cx.kernels, b, n), log(sum), 1.1e-6);
        for (size_t i = 0; i < n; i++)
            kl += exp((double)a[i]) / sum0 * ((double)a[i] - log(sum0) - ((double)b[i] - log(sum)));
        ck_assert_double_eq_tol(pare_divergence(a, b, n), kl, 1e-10);
        ck_assert(pare_divergence(a, a, n) == 0);
    }
    a[N - 1] = NAN; /* a NaN is not lost, wherever it stands */
    ck_assert(isnan(pare_logsumexp(&cx.kernels, a, N)));
    ck_assert(isnan(pare_divergence(a, b, N)) && isnan(pare_divergence(b, a, N)));
    const float tie[] = {1, NAN, 5, 2, 5, -INFINITY, 0, 3, 5};
    ck_assert_uint_eq(pare_argmax(tie, 9), 2);
    const float none[] = {NAN, NAN};
    ck_assert_uint_eq(pare_argmax(none, 2), 0);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("forward");
    TCase *const c = tcase_create("forward");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, activations_equal_a_plain_double_forward, 0, TINY_KINDS);
    tcase_add_loop_test(c, prefill_decode_and_any_thread_count_give_the_same_bytes, 0,
                        TINY_KINDS * 2);
    tcase_add_test(c, a_sequence_does_not_see_its_neighbours);
    tcase_add_test(c, a_tap_sees_the_inputs_of_the_linears_and_stops_where_it_says);
    tcase_add_loop_test(c, linears_of_one_input_may_be_of_different_kinds, 0, 2 * TINY_KINDS);
    tcase_add_test(c, logits_are_the_head_times_the_normed_rows_asked_for);
    tcase_add_test(c, a_token_outside_the_vocabulary_is_refused_by_number);
    tcase_add_loop_test(c, llama_3_scaling_stretches_the_long_waves_only, 0, 2);
    tcase_add_test(c, llama_3_scaling_without_a_band_keeps_the_wave_at_its_bound);
    tcase_add_loop_test(c, planned_scratch_is_enough_for_one_block, 0, TINY_KINDS * 2);
    tcase_add_loop_test(c, every_refused_allocation_of_a_block_is_reported_and_nothing_leaks, 0, 2);
    tcase_add_test(c, an_interrupt_ends_the_pass);
    tcase_add_test(c, the_exponential_is_right_to_1e_11_and_keeps_nan);
    tcase_add_test(c, softmax_in_blocks_has_the_weights_of_its_definition);
    tcase_add_test(c, softmax_and_silu_hold_for_huge_values);
    tcase_add_test(c, silu_and_its_exponential_are_right_to_4e_7);
    tcase_add_test(c, logsumexp_divergence_and_argmax_agree_with_their_definitions);
    suite_add_tcase(s, c);
    return unit_main(s);
}
