/* calib/imatrix.h - importance matrices of llama.cpp: of the inputs of each linear the sum of
 * squares of every column, and how many tokens it is of.
 *
 * Two kinds of files, little-endian:
 *
 *   GGUF    general.type "imatrix", imatrix.chunk_count, imatrix.chunk_size, imatrix.datasets; for
 *           each linear
 *           NAME.in_sum2 F32 [matrices, k] and NAME.counts F32 [matrices, 1]
 *   older   i32 entries, each: i32 length, name, i32 calls, i32 k, f32 [k] mean square times calls;
 *           then i32 chunks, i32 length, path of the text; the last three may be missing
 *
 * Names are those of GGUF files ("blk.0.attn_q.weight"). The file is untrusted: lengths, counts and
 * every number that is used are checked. An older file does not say how long a chunk was:
 * PARE_IMATRIX_CHUNK tokens, the tool's default, are taken. */
#ifndef PARE_CALIB_IMATRIX_H
#define PARE_CALIB_IMATRIX_H

#include "calib/stats.h"
#include "runtime/file.h"

enum { PARE_IMATRIX_CHUNK = 512 };

/* One linear. Neither pointer is aligned; counts is NULL in an older file. */
typedef struct pare_imatrix_entry {
    const char *name;
    size_t columns, matrices;
    const unsigned char *sum;    /* f32 [matrices, columns] */
    const unsigned char *counts; /* f32 [matrices] */
    int32_t calls;
} pare_imatrix_entry;

typedef struct pare_imatrix {
    pare_ctx *cx;
    pare_file file;
    pare_imatrix_entry *entry; /* sorted by name */
    size_t entries;
    size_t chunks, chunk; /* and tokens of each */
    bool older;
    const char **dataset; /* [datasets] paths of texts, as the tool was told them; any bytes */
    size_t datasets;
} pare_imatrix;

/* Whether a file begins as one of the two kinds does; false for what cannot be read. */
bool pare_imatrix_is_one(const char *path);

/* The same of a file that may be a model as well: a GGUF file must say that it is a matrix. False
 * for what cannot be read. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_imatrix_is_none_else(pare_ctx *cx, const char *path, bool *is);

/* Lists the bytes of a file, which are borrowed; names go to the arena. PARE_EFORMAT "path:
 * reason", PARE_ENOMEM. */
PARE_CHECKED pare_status pare_imatrix_read(pare_ctx *cx, pare_arena *a, const pare_file *file,
                                           pare_imatrix *out);

/* The same of a file that it maps. Close it in any case. What pare_file_map returns, too. */
PARE_CHECKED pare_status pare_imatrix_open(pare_ctx *cx, pare_arena *a, const char *path,
                                           pare_imatrix *out);
void pare_imatrix_close(pare_imatrix *m);

/* The entry of a linear of the checkpoint of a family, of k inputs, one matrix.
 * PARE_EFORMAT: it is not there, its columns are not k, it is of several matrices. */
PARE_CHECKED pare_status pare_imatrix_find(const pare_imatrix *m, const char *model_type,
                                           const char *linear, size_t k,
                                           const pare_imatrix_entry **out);

/* Tokens of matrix i of an entry, as the file says: any number. */
float pare_imatrix_tokens(const pare_imatrix *m, const pare_imatrix_entry *e, size_t i);

/* Checks the numbers of an entry, of which an expert may have seen no token; `fill` puts them,
 * checked, where H of its inputs belongs: the sums of squares on the diagonal, 0 beside it. What H
 * rests on stays unknown but for the tokens. PARE_EFORMAT for a sum that is negative or not finite,
 * sums that are all 0, or a count below 1.
 */
PARE_CHECKED pare_status pare_imatrix_check(const pare_imatrix *m, const pare_imatrix_entry *e);
PARE_CHECKED pare_status pare_imatrix_fill(const pare_imatrix *m, const pare_imatrix_entry *e,
                                           pare_site_stats *s);

#endif
