/* calib/tokens.h - the tokens a model is calibrated and evaluated on. */
#ifndef PARE_CALIB_TOKENS_H
#define PARE_CALIB_TOKENS_H

#include "formats/tokenizer.h"
#include "runtime/file.h"
#include "runtime/forward.h"

/* What a text has that its reader may not have meant, the worst last. It is read as it is. */
typedef enum pare_text_flaw {
    PARE_TEXT_PLAIN,
    PARE_TEXT_CRLF,   /* most of its lines end in CR LF */
    PARE_TEXT_JSON,   /* it begins as JSON objects do: their keys and quotes are read as text */
    PARE_TEXT_INVALID /* more than one part in 1000 bytes is not valid UTF-8 */
} pare_text_flaw;

/* Tokens of texts and files, in the arena. */
typedef struct pare_tokens {
    int32_t *id;
    size_t count;
    /* The worst that was seen of the texts, and the first text that has it. */
    pare_text_flaw flaw;
    const char *flaw_in;
    size_t invalid; /* parts that are not valid UTF-8, read as U+FFFD */
} pare_tokens;

/* What to tell of them, or NULL when there are none. Returns text. */
enum { PARE_TOKENS_NOTE = 512 };
const char *pare_tokens_note(const pare_tokens *t, char text[PARE_TOKENS_NOTE]);

/* A .i32 file: little-endian int32. Every id must be in [0, vocab).
 * PARE_ENOTFOUND, PARE_EFORMAT (size not a multiple of 4, empty, an id out of range: its index;
 * integers of 64 or 16 bits or an array of numpy: how to convert them), PARE_ENOMEM. */
PARE_CHECKED pare_status pare_tokens_read(pare_ctx *cx, pare_arena *a, const char *path,
                                          size_t vocab, pare_tokens *out);

/* Whether a text of that many bytes surely has as many tokens: with 16 bytes for each. It need not
 * be tokenized to know that. */
static inline bool pare_text_has(uint64_t bytes, uint64_t tokens)
{
    return bytes / 16 > tokens;
}

/* The text of a file, mapped; a byte order mark in front is no part of it. */
typedef struct pare_text_file {
    pare_file file; /* pare_file_unmap ends the loan */
    const char *at; /* [len], never NULL */
    size_t len;
} pare_text_file;

/* PARE_ENOTFOUND, PARE_EFORMAT (a NUL byte, too large), PARE_ENOMEM. */
PARE_CHECKED pare_status pare_text_map(pare_ctx *cx, pare_arena *a, const char *path,
                                       pare_text_file *out);

/* Adds what it has that its reader may not have meant to the flaws of `out`. */
void pare_text_look(const pare_text_file *t, pare_tokens *out);

/* Whether a file can be a text, without tokenizing it: reads it once. As pare_text_map. */
PARE_CHECKED pare_status pare_text_check(pare_ctx *cx, pare_arena *a, const char *path);

/* Texts, each tokenized whole and joined in order. With `bos` >= 0 that token stands in front of
 * each. PARE_ENOTFOUND, PARE_EFORMAT (a NUL byte, a token outside the model's vocabulary),
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_tokens_encode(pare_ctx *cx, pare_arena *a, const pare_tokenizer *t,
                                            const char *const *paths, size_t path_count,
                                            int32_t bos, size_t vocab, pare_tokens *out);

/* Samples of the model itself: `samples` sequences of `window` tokens, the first drawn from the BOS
 * token (EOS if there is none, 0 if neither), each further one by pare_generate at `temperature`.
 * Sequence i depends on seed and i only. Reports progress. PARE_ENOMEM, PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_tokens_generate(pare_ctx *cx, pare_arena *a, pare_arena *scratch,
                                              const pare_forward *f, double temperature,
                                              uint64_t seed, size_t samples, size_t window,
                                              pare_tokens *out);

/* Upper bound of the memory of pare_tokens_generate without its result: the caches of all blocks
 * for as many sequences at once as fit 256 MiB (1 to 16), and one step of the forward pass. */
uint64_t pare_tokens_generate_bytes(const pare_ctx *cx, const pare_config *c, size_t window);

/* How windows are picked from a stream. */
typedef enum pare_pick {
    PARE_PICK_FIRST, /* the first `samples` windows */
    PARE_PICK_DRAW   /* `samples` windows drawn without replacement by seed, then sorted */
} pare_pick;

/* Cuts tokens into consecutive windows and keeps `samples` of them (0: all) as one
 * [samples, window] array. PARE_EUSAGE when there are fewer ("asked for 128 windows of 2048 tokens,
 * the text has 17; give more text, or samples: all"), PARE_ENOMEM. */
PARE_CHECKED pare_status pare_tokens_windows(pare_ctx *cx, pare_arena *a, const pare_tokens *tokens,
                                             size_t window, size_t samples, pare_pick pick,
                                             uint64_t seed, pare_tokens *out);

/* How many of the tokens [samples, window] say something new: those that do not stand somewhere
 * before with the same PARE_TOKENS_CONTEXT - 1 tokens in front of them. The first ones of a window,
 * which have fewer in front, are taken to be as new as the others; a window of less than twice the
 * context has half of itself for one. So a text that repeats itself has as many as one turn of it,
 * in windows of 16 at most twice as many. Exact for up to PARE_TOKENS_KEPT / 2 of them; of more an
 * estimate by contexts drawn by their hash, within 3 %, that does not depend on their order. Memory
 * pare_tokens_fresh_bytes of `scratch` and the heap, given back. PARE_ENOMEM. */
enum { PARE_TOKENS_CONTEXT = 8, PARE_TOKENS_KEPT = 1 << 16 };
PARE_CHECKED pare_status pare_tokens_fresh(pare_arena *scratch, const pare_tokens *tokens,
                                           size_t window, uint64_t *out);
uint64_t pare_tokens_fresh_bytes(uint64_t tokens);

/* Shares `samples` windows out over `texts` by weight: the whole part of samples w / sum w each,
 * the rest by largest remainder (of equal ones the first), and a text that would have none takes
 * one from the largest share. Weights are positive, texts <= samples: the caller's duty. */
void pare_tokens_share(const double *weight, size_t texts, size_t samples, size_t *share);

#endif
