/* Blocks of GGUF as linears of the runtime, value for value.
 *
 * Q4_0 and Q8_0 are the symmetric integers of artifacts in groups of 32. Super-blocks are what
 * solve/super.h has. A block of 32 with a minimum m of its own, or with codes around 16, is a
 * super-block of 32: s and o are 1, and M is -m. Integers with a zero point cannot hold it: m / d
 * is no whole number. NVFP4 is that of artifacts where the number beside the tensor is one of its
 * factors; other types have no place for a number but 1. What is left (5 bits with a minimum) has
 * no encoding of that width. */
#include <string.h>

#include "formats/gguf_internal.h"
#include "formats/packed.h"
#include "kernels/layout.h"
#include "runtime/threads.h"
#include "solve/nvfp4.h"
#include "solve/super.h"

enum { CHUNK = 2, F16_SIGN = 0x8000, ATOM_MAX = 256, NVFP4_SCALES = 4 };

/* How the blocks of a type become codes of an encoding. */
typedef struct form {
    const char *type;
    pare_encoding encoding;
    unsigned bits;
    uint8_t more; /* code of the encoding less that of the block */
} form;

static const form forms[] = {
    {"Q4_0", PARE_ENCODING_UNIFORM, 4, 0}, {"Q8_0", PARE_ENCODING_UNIFORM, 8, 128},
    {"Q4_1", PARE_ENCODING_Q4_K, 4, 0},    {"Q5_0", PARE_ENCODING_Q6_K, 6, 16},
    {"Q4_K", PARE_ENCODING_Q4_K, 4, 0},    {"Q6_K", PARE_ENCODING_Q6_K, 6, 0},
    {"NVFP4", PARE_ENCODING_NVFP4, 4, 0},
};

typedef struct packing {
    const pare_gguf_tensor *t;
    const form *form;
    uint64_t heads;  /* whose rows lie in pairs; 0: rows are in their order */
    uint64_t blocks; /* of a row */
    uint8_t pad;     /* code of a row of padding, as blocks have it */
    uint8_t *codes, *sub, *scale_codes;
    uint16_t *scales, *minima;
} packing;

static const form *form_of(const pare_gguf_tensor *t)
{
    for (size_t i = 0; t->rank == 2 && i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].type, t->type->name) == 0)
            return (forms[i].encoding == PARE_ENCODING_NVFP4 ? pare_nvfp4_is_factor(t->factor)
                                                             : t->factor == 1)
                       ? &forms[i]
                       : NULL;
    return NULL;
}

static pare_packed_linear linear_of(const pare_gguf_tensor *t, const form *f)
{
    pare_packed_linear l = {.name = t->name,
                            .n = (size_t)t->shape[0],
                            .k = (size_t)t->shape[1],
                            .bits = f->bits,
                            .group = t->type->elements,
                            .symmetric = true,
                            .encoding = f->encoding,
                            .activation = {.mode = PARE_ACTIVATION_GROUP, .bits = 8}};
    if (!pare_encodings[f->encoding].integer)
        l.activation = (pare_activation){.mode = PARE_ACTIVATION_FLOAT};
    if (pare_encoding_codes_scales(f->encoding))
        l.group = pare_encodings[f->encoding].group;
    return l;
}

/* Row r of the original, NULL behind the last. Channels that are half a head apart there lie side
 * by side in the file. */
static const uint8_t *row_of(const packing *p, uint64_t r)
{
    const uint64_t rows = p->t->shape[0], head = p->heads ? rows / p->heads : rows, i = r % head;
    if (r >= rows)
        return NULL;
    const uint64_t pair = i < head / 2 ? 2 * i : 2 * (i - head / 2) + 1;
    return p->t->data + (p->heads ? r - i + pair : r) * p->blocks * p->t->type->bytes;
}

/* What an atom of a super-block knows of a row: s and o, or s of both halves. */
static void put_sub(const packing *p, const pare_ggml_block *b, size_t atom, uint8_t *to)
{
    const bool halves = !pare_encodings[p->form->encoding].minima;
    if (p->t->type->elements == PARE_ATOM_K) {
        to[0] = to[PARE_ATOM_N] = 1;
        return;
    }
    to[0] = (uint8_t)b->scale[halves ? 2 * atom : atom];
    to[PARE_ATOM_N] = halves ? (uint8_t)b->scale[2 * atom + 1] : b->offset[atom];
}

/* Scales of the groups of 16 of a block of NVFP4, which is number `at` of all. */
static void put_scale_codes(const packing *p, const pare_ggml_block *b, size_t at, size_t row)
{
    for (size_t s = 0; s < NVFP4_SCALES; s++)
        p->scale_codes[(at * NVFP4_SCALES + s) * PARE_ATOM_N + row] = (uint8_t)b->scale[s];
}

/* Block `at` of the rows of a pad, in their two row blocks. */
static void pack_block(const packing *p, const pare_ggml_block b[PARE_PAD_N], size_t pad, size_t at)
{
    const size_t atoms = p->t->type->elements / PARE_ATOM_K, size = pare_atom_bytes(p->form->bits);
    const unsigned sign = p->t->type->elements == PARE_ATOM_K ? F16_SIGN : 0;
    for (size_t a = 0; a < atoms; a++) {
        uint8_t u[PARE_PAD_N][PARE_ATOM_K], packed[2 * ATOM_MAX];
        for (size_t r = 0; r < PARE_PAD_N; r++)
            for (size_t j = 0; j < PARE_ATOM_K; j++)
                u[r][j] = (uint8_t)(b[r].code[a * PARE_ATOM_K + j] + p->form->more);
        pare_pack_codes(packed, u[0], PARE_ATOM_K, PARE_PAD_N, PARE_ATOM_K, p->form->bits, NULL, 0,
                        0);
        for (size_t half = 0; half < 2; half++) {
            const size_t atom = ((2 * pad + half) * (size_t)p->blocks + at) * atoms + a;
            memcpy(p->codes + atom * size, packed + half * size, size);
            for (size_t g = 0; p->sub && g < PARE_ATOM_N; g++)
                put_sub(p, &b[half * PARE_ATOM_N + g], a, p->sub + atom * PARE_SUPER_BYTES + g);
        }
    }
    for (size_t r = 0; r < PARE_PAD_N; r++) {
        const size_t block = 2 * pad + r / PARE_ATOM_N;
        const size_t to = (block * (size_t)p->blocks + at) * PARE_ATOM_N + r % PARE_ATOM_N;
        if (p->scale_codes) {
            put_scale_codes(p, &b[r], block * (size_t)p->blocks + at, r % PARE_ATOM_N);
            continue;
        }
        p->scales[to] = b[r].d;
        if (p->minima)
            p->minima[to] = (uint16_t)(b[r].m ^ sign);
    }
}

/* Items are pads of 16 rows, as the packing of an artifact has them. */
static void pack_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const packing *const p = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        for (uint64_t j = 0; j < p->blocks; j++) {
            pare_ggml_block b[PARE_PAD_N];
            for (uint64_t r = 0; r < PARE_PAD_N; r++) {
                const uint8_t *const row = row_of(p, i * PARE_PAD_N + r);
                b[r] = (pare_ggml_block){0};
                memset(b[r].code, p->pad, sizeof b[r].code);
                if (row)
                    pare_ggml_split(p->t->type, row + j * p->t->type->bytes, &b[r]);
            }
            pack_block(p, b, i, (size_t)j);
        }
}

uint64_t pare__gguf_packed_bytes(const pare_gguf_tensor *t)
{
    const form *const f = form_of(t);
    if (!f)
        return 0;
    const pare_packed_linear l = linear_of(t, f);
    return pare_packed_linear_bytes(&l).total;
}

/* Planes one behind the other. */
static pare_status take_planes(pare_checkpoint *ck, const pare_packed_linear *l, pare_tensor *out,
                               void *plane[PARE_PLANES])
{
    const pare_packed_bytes bytes = pare_packed_linear_bytes(l);
    void *at;
    PARE_TRY(pare_scratch_take(&ck->scratch, bytes.total, &at));
    out->dtype = PARE_U8;
    out->data = at;
    out->bytes = bytes.total;
    uint8_t *next = at;
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        plane[p] = bytes.plane[p] ? next : NULL;
        next += bytes.plane[p];
    }
    return PARE_OK;
}

pare_status pare__gguf_pack(pare_checkpoint *ck, pare_arena *a, const pare_gguf_tensor *t,
                            uint64_t heads, pare_tensor *out, const pare_linear **packed)
{
    const form *const f = form_of(t);
    const pare_packed_linear l = linear_of(t, f);
    void *plane[PARE_PLANES];
    pare_linear *const w = PARE_NEW(a, pare_linear, 1);
    if (!w)
        return PARE_ENOMEM;
    PARE_TRY(take_planes(ck, &l, out, plane));
    packing p = {.t = t,
                 .form = f,
                 .heads = heads,
                 .blocks = t->shape[1] / t->type->elements,
                 .pad = (uint8_t)(pare_packed_zero_code(&l) - f->more),
                 .codes = plane[PARE_PLANE_CODES],
                 .sub = plane[PARE_PLANE_SUB],
                 .scales = plane[PARE_PLANE_SCALES],
                 .minima = plane[PARE_PLANE_MINIMA]};
    if (pare_encoding_codes_scales(l.encoding)) {
        p.scale_codes = plane[PARE_PLANE_SCALES];
        memcpy(plane[PARE_PLANE_SCALE_FACTOR], &t->factor, sizeof t->factor);
    }
    pare_parallel(ck->cx, pare_round_up(l.n, PARE_PAD_N) / PARE_PAD_N, CHUNK, pack_rows, &p);
    PARE_TRY(pare_packed_view(ck->cx, a, &l, plane, w));
    *packed = w;
    return PARE_OK;
}
