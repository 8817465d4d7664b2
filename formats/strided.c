#include "formats/strided.h"

#include <string.h>

enum { TILE = 32 };

bool pare_strided_in_order(const pare_strided *s)
{
    uint64_t expected = 1;
    if (s->tensor.bytes == 0)
        return true;
    for (uint32_t i = s->tensor.rank; i-- > 0;) {
        if (s->tensor.shape[i] > 1 && s->stride[i] != expected)
            return false;
        expected *= s->tensor.shape[i];
    }
    return true;
}

/* A matrix: strides in bytes; dst has its rows one after the other. */
typedef struct matrix {
    uint64_t rows, columns, row_stride, column_stride;
    size_t size; /* of an element */
} matrix;

/* By tiles: of rows and columns one is far apart in the source. */
static void copy_tile(const matrix *m, const unsigned char *src, unsigned char *dst, uint64_t row,
                      uint64_t column)
{
    const uint64_t row_end = m->rows - row < TILE ? m->rows : row + TILE;
    const uint64_t column_end = m->columns - column < TILE ? m->columns : column + TILE;
    for (uint64_t i = row; i < row_end; i++) {
        for (uint64_t j = column; j < column_end; j++)
            memcpy(dst + (i * m->columns + j) * m->size,
                   src + i * m->row_stride + j * m->column_stride, m->size);
    }
}

static void copy_matrix(const matrix *m, const unsigned char *src, unsigned char *dst)
{
    for (uint64_t i = 0; i < m->rows; i += TILE) {
        for (uint64_t j = 0; j < m->columns; j += TILE)
            copy_tile(m, src, dst, i, j);
    }
}

/* The last two dimensions are matrices, the others count them. */
void pare_strided_copy(const pare_strided *s, void *dst)
{
    const pare_tensor *const t = &s->tensor;
    const size_t size = pare_dtype_bits(t->dtype) / 8;
    const uint32_t outer = t->rank > 2 ? t->rank - 2 : 0;
    matrix m = {.rows = 1, .columns = 1, .size = size};
    uint64_t index[PARE_RANK_MAX] = {0};
    if (t->bytes == 0)
        return;
    if (t->rank >= 1) {
        m.columns = t->shape[t->rank - 1];
        m.column_stride = s->stride[t->rank - 1] * size;
    }
    if (t->rank >= 2) {
        m.rows = t->shape[t->rank - 2];
        m.row_stride = s->stride[t->rank - 2] * size;
    }
    unsigned char *out = dst;
    for (bool more = true; more; out += m.rows * m.columns * size) {
        const unsigned char *src = t->data;
        for (uint32_t i = 0; i < outer; i++)
            src += index[i] * s->stride[i] * size;
        copy_matrix(&m, src, out);
        more = false;
        for (uint32_t i = outer; i-- > 0 && !more;) {
            more = ++index[i] < t->shape[i];
            index[i] = more ? index[i] : 0;
        }
    }
}
