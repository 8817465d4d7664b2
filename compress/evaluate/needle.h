/* compress/evaluate/needle.h - whether a model finds a number that stands somewhere in a long text.
 *
 * A prompt is a line that announces the number, sentences of a text that the user names, among them
 * one that says the number, and a question at the end. The answer is right if each of its tokens is
 * the likeliest one behind the prompt and the tokens before it: what greedy decoding writes.
 *
 *   length   tokens of prompt and answer, those that the tokenizer puts in front included, at most;
 *            a prompt has as many whole sentences as fit
 *   depth    the number stands behind the first sentence end that has at least this share of the
 *            tokens of the sentences in front of it; 0: in front of all of them, 100: behind them
 *   key k    its number, of five digits, and the sentence that its prompts begin with are drawn
 *            from (seed, k): they are the same at each length and depth. Sentences go on from the
 *            end of the text to its beginning
 *
 * Source  passkey retrieval of Mohtashami and Jaggi, Landmark Attention, NeurIPS 2023; lengths and
 *         depths in a grid as in Hsieh et al., RULER, COLM 2024 (niah_single). Different here: the
 *         words; the user's text instead of five sentences that repeat (both) or Paul Graham's
 *         essays (RULER); fixed depths instead of drawn ones; all tokens of the answer must be the
 *         likeliest, where both look for the number in what the model writes. So figures are for
 *         models beside each other, not beside those of papers. */
#ifndef PARE_COMPRESS_NEEDLE_H
#define PARE_COMPRESS_NEEDLE_H

#include "compress/evaluate/evaluate.h"
#include "compress/evaluate/paired.h"
#include "formats/json.h"
#include "formats/tokenizer.h"

enum {
    PARE_NEEDLE_DEPTHS = 5, /* 0, 25, 50, 75, 100 % */
    PARE_NEEDLE_LENGTHS = 16,
    PARE_NEEDLE_KEYS = 1000,
    PARE_NEEDLE_LEAST = 128, /* tokens of a length */
    PARE_NEEDLE_READS = 64   /* most bytes of the text for each token of the longest prompt */
};

typedef struct pare_needle_opts {
    const char *file;                   /* of the text */
    size_t length[PARE_NEEDLE_LENGTHS]; /* each from PARE_NEEDLE_LEAST to the model's context */
    size_t lengths, keys;               /* 1 to PARE_NEEDLE_LENGTHS, to PARE_NEEDLE_KEYS */
    uint64_t seed;
} pare_needle_opts;

/* Lengths where none are given: 512, 1024, 2048, 4096 as far as the context goes, a shorter context
 * itself; false for one that is too short. */
bool pare_needle_choose(pare_needle_opts *opts, size_t context);

/* Percent. */
size_t pare_needle_depth(size_t depth);

/* The prompts in tokens, in the arena: item ((length * DEPTHS) + depth) * keys + key, each with the
 * answer as its one choice. Memory: 4 bytes a token. PARE_EUSAGE (too few sentences for a length,
 * or too long ones), PARE_EFORMAT (an answer that adds no token), what pare_text_map and
 * pare_tokenizer_encode return. Reads the first 64 bytes of the text for each token of the longest
 * prompt. */
PARE_CHECKED pare_status pare_needle_load(pare_ctx *cx, pare_arena *a, const pare_tokenizer *t,
                                          const pare_needle_opts *opts, pare_choice_item **item);
size_t pare_needle_items(const pare_needle_opts *opts);

typedef struct pare_needle_cell {
    size_t n, right; /* keys asked, and found */
} pare_needle_cell;

typedef struct pare_needle_figures {
    pare_needle_opts opts;
    pare_needle_cell *cell; /* [lengths, DEPTHS] */
    pare_needle_cell all;
    unsigned char *verdict; /* [items] PARE_CHOICE_ASKED, PARE_CHOICE_RIGHT */
    bool complete;          /* no interrupt came before the last prompt */
    bool has_paired;
    pare_paired paired; /* against the baseline, prompt by prompt */
} pare_needle_figures;

/* Share of c that was found, and its standard error; NaN where there is none. */
double pare_needle_share(pare_needle_cell c);
double pare_needle_error(pare_needle_cell c);

/* Asks a model; figures in the arena. Statuses of pare_evaluate_choice; on PARE_EINTERRUPTED the
 * figures are of all.n prompts. Memory: that of pare_evaluate_choice, whose caches are of one
 * block: hidden states of the longest prompt, and its keys and values twice. */
PARE_CHECKED pare_status pare_needle_ask(pare_ctx *cx, pare_arena *a, const pare_forward *f,
                                         pare_choice_item *item, const pare_needle_opts *opts,
                                         pare_needle_figures *out);

/* Holds answers against those of the baseline to the same lengths, depths and keys. */
void pare_needle_pair(const pare_needle_figures *baseline, pare_needle_figures *out);

/* Member "needle" of the object that is open. */
void pare_needle_put(pare_json_writer *w, const pare_needle_figures *f);

#endif
