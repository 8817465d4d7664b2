/* formats/tokenizer.h - text to token ids and back, by the rules of a tokenizer's files.
 *
 * Supported: tokenizer.json with BPE, byte-level (GPT-2, GPT-NeoX, Falcon, StarCoder, Llama 3,
 * Qwen, DeepSeek; patterns through PCRE2) or over marked spaces (Llama 2, Gemma, Mistral, Phi-3;
 * byte fallback), and with Unigram (T5); SentencePiece tokenizer.model, BPE and unigram; vocab.json
 * with merges.txt (GPT-2, Qwen). Added tokens, normalizers and pre-tokenizers as those use them,
 * TemplateProcessing for BOS. Anything else is refused by name, never approximated; truncation and
 * padding are not part of the rules and ignored. Character classes and normal forms follow the
 * Unicode version of the installed libraries: characters newer than that count as unassigned.
 */
#ifndef PARE_FORMATS_TOKENIZER_H
#define PARE_FORMATS_TOKENIZER_H

#include <stdbool.h>

#include "runtime/arena.h"

typedef struct pare_tokenizer pare_tokenizer;

/* Reads a tokenizer.json in memory. `name` is the file for messages.
 * PARE_EFORMAT (place and reason), PARE_ENOTSUP (the component that is not supported), PARE_ENOMEM.
 * Free with pare_tokenizer_free. Safe for untrusted input. */
PARE_CHECKED pare_status pare_tokenizer_parse(pare_ctx *cx, const char *name, const char *text,
                                              size_t len, pare_tokenizer **out);

/* The same for a SentencePiece tokenizer.model. Its control pieces and its unknown one are matched
 * in a text as special tokens; a BOS is added unless tokenizer_config.json says otherwise. */
PARE_CHECKED pare_status pare_tokenizer_parse_model(pare_ctx *cx, const char *name,
                                                    const void *bytes, size_t len,
                                                    pare_tokenizer **out);

/* The tokenizer of a model's directory: tokenizer.json, else tokenizer.model, else vocab.json with
 * merges.txt. BOS and EOS from tokenizer_config.json when it is there; for the second and third
 * added tokens, add_bos_token and add_eos_token too, with special_tokens_map.json and
 * added_tokens.json. A tokenizer.json says in its template what stands around a text, and
 * add_bos_token is not asked, as in transformers 5.
 * PARE_ENOTFOUND says what was looked for. */
PARE_CHECKED pare_status pare_tokenizer_open(pare_ctx *cx, const char *directory,
                                             pare_tokenizer **out);
/* Memory that reading it takes, by the size of its files: their text, the parsed document and the
 * tables made of it. Measured on the tokenizers of GPT-2, Llama 2 and 3, Qwen 3 and SmolLM. */
uint64_t pare_tokenizer_bytes(const char *directory);
uint64_t pare_tokenizer_json_bytes(uint64_t text);
/* Whether pare_tokenizer_open would find files to read. */
bool pare_tokenizer_is_in(const char *directory);
void pare_tokenizer_free(pare_tokenizer *t);

/* Takes bos and eos from a tokenizer_config.json in memory. `name` is the file for messages.
 * PARE_EFORMAT, also for a token that there is not; PARE_ENOMEM. */
PARE_CHECKED pare_status pare_tokenizer_configure(pare_ctx *cx, pare_tokenizer *t, const char *name,
                                                  const char *text, size_t len);

size_t pare_tokenizer_vocab(const pare_tokenizer *t); /* largest id + 1 */
int32_t pare_tokenizer_bos(const pare_tokenizer *t);  /* -1: none */
int32_t pare_tokenizer_eos(const pare_tokenizer *t);  /* -1: none */

/* Tokens that stand around a text as a whole: BOS in front of it, EOS behind. A prompt has them,
 * texts of calibration and evaluation do not. */
enum { PARE_TOK_AROUND_MAX = 4 };
typedef struct pare_tok_around {
    int32_t front[PARE_TOK_AROUND_MAX], behind[PARE_TOK_AROUND_MAX];
    size_t fronts, behinds;
} pare_tok_around;
const pare_tok_around *pare_tokenizer_around(const pare_tokenizer *t);

/* Encodes UTF-8 text; special tokens written in the text are matched as added_tokens say; no BOS.
 * Invalid UTF-8 is replaced by U+FFFD, one for each longest part of a sequence, as the peers do.
 * ids in the arena. Only text can fail that no ordinary file meets:
 *   PARE_ENOMEM
 *   PARE_ENOTSUP  a pattern that takes too many steps, normalizers that blow up the text, 2 GiB at
 *                 once between two added tokens
 *   PARE_EFORMAT  a character without a token, and an unk_token that has no id
 *
 * Work     about linear in len; one very long word adds a logarithm.
 * Threads  may share *t, each with its own cx and arena. */
PARE_CHECKED pare_status pare_tokenizer_encode(pare_ctx *cx, const pare_tokenizer *t, pare_arena *a,
                                               const char *text, size_t len, int32_t **ids,
                                               size_t *count);

/* How many parts of a text that encoding replaces. */
size_t pare_tokenizer_invalid(const char *text, size_t len);

/* Decodes ids, special tokens included as written; text in the arena, NUL behind. Bytes are given
 * back as the tokens spell them: the text may hold, or end in, a part of a UTF-8 sequence where the
 * ids do, and texts of parts of a list can be joined. An id without a token has no text and is left
 * out: embeddings have rows beyond the tokens, and a model may draw them. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_tokenizer_decode(pare_ctx *cx, const pare_tokenizer *t, pare_arena *a,
                                               const int32_t *ids, size_t count, char **text,
                                               size_t *len);

#endif
