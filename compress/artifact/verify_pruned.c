#include "compress/artifact/verify_internal.h"
#include "kernels/layout.h"

enum { F16_EXPONENT = 0x7c00, F16_SIZE = 0x7fff, INDICES = 64, INDEX_BITS = 2 };

/* 64 columns of eight rows of 2:4 weights: an atom. */
typedef struct atom {
    uint8_t index[PARE_ATOM_N][PARE_ATOM_K], code[PARE_ATOM_N][PARE_ATOM_K];
    size_t row, column;
} atom;

static void found_at(pare_verify_run *v, const pare_packed_linear *p, size_t row, size_t column,
                     const char *what)
{
    pare__verify_found(v, "%s: row %zu, columns %zu .. %zu: %s", p->name, row, column, column + 3,
                       what);
}

/* A value that is no number; or whether there is one at all. */
static const char *value_fault(uint16_t half)
{
    return (half & F16_EXPONENT) == F16_EXPONENT ? "a value is not finite" : NULL;
}

/* What is wrong with the places of four columns, NULL when nothing is. Free ones hold 0 and have
 * the lowest columns that are left, so that equal weights are equal bytes. */
static const char *pair_fault(const pare_packed_linear *p, const pare_linear *l, const atom *a,
                              size_t r, size_t j)
{
    const uint8_t *const index = &a->index[r][j];
    const size_t row = a->row + r, column = a->column + j * 2;
    bool held[2];
    for (size_t i = 0; i < 2; i++) {
        const uint16_t half =
            l->panel.values ? l->panel.values[row * l->panel.ldv + a->column / 2 + j + i] : 0;
        const char *const fault = value_fault(half);
        if (fault)
            return fault;
        held[i] = l->panel.values ? half != 0 : a->code[r][j + i] != pare_packed_zero_code(p);
        if (held[i] && (row >= p->n || column + index[i] >= p->k))
            return "the padding does not stand for 0";
    }
    const bool lowest = (held[0] || index[0] == 0) && (held[1] || index[1] == 1);
    return lowest ? NULL : "a free place is not for the lowest column";
}

static bool check_atom(pare_verify_run *v, const pare_packed_linear *p, const pare_linear *l,
                       size_t at, size_t atoms)
{
    atom a = {.row = at / atoms * PARE_ATOM_N, .column = at % atoms * INDICES};
    pare_unpack_atom(a.index, l->panel.indices + at * INDICES, INDEX_BITS);
    if (l->panel.codes)
        pare_unpack_atom(a.code, l->panel.codes + at * pare_atom_bytes(p->bits), p->bits);
    for (size_t r = 0; r < PARE_ATOM_N; r++)
        for (size_t j = 0; j < PARE_ATOM_K; j += 2) {
            const char *const fault = pair_fault(p, l, &a, r, j);
            if (!fault)
                continue;
            found_at(v, p, a.row + r, a.column + j * 2, fault);
            return false;
        }
    return true;
}

static void check_dense(pare_verify_run *v, const pare_packed_linear *p, const pare_linear *l)
{
    const uint16_t *const half = l->data;
    for (size_t i = 0; i < p->n * p->k; i++)
        if (value_fault(half[i])) {
            pare__verify_found(v, "%s: row %zu, column %zu: %s", p->name, i / p->k, i % p->k,
                               value_fault(half[i]));
            return;
        }
}

/* Values of a mask are numbers and not 0, those behind them are. */
static void check_values(pare_verify_run *v, const pare_packed_linear *p, const pare_linear *l)
{
    const size_t used = l->mask.start[p->n];
    for (size_t i = 0; i < p->kept; i++) {
        const uint16_t half = l->mask.value[i];
        const char *const fault = value_fault(half);
        if (!fault && ((half & F16_SIZE) != 0) == (i < used))
            continue;
        pare__verify_found(v, "%s.values: value %zu: %s", p->name, i,
                           fault      ? fault
                           : i < used ? "a 0 is stored"
                                      : "behind the last one of the mask");
        return;
    }
}

void pare__verify_pruned(pare_verify_run *v, const pare_packed_linear *p, const pare_linear *l)
{
    const size_t atoms = pare_24_kept(p->k) / PARE_ATOM_K;
    const size_t count = pare_round_up(p->n, PARE_PAD_N) / PARE_ATOM_N * atoms;
    if (p->sparsity != PARE_SPARSITY_2_4) {
        (p->sparsity ? check_values : check_dense)(v, p, l);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (!check_atom(v, p, l, i, atoms))
            return;
}
