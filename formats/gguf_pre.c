/* The rules by which tokenizer.ggml.pre cuts the text of byte-level BPE into words: one table for
 * the reader and the writer.
 *
 * A row has one to six expressions, in the dialect of tokenizer.json. Each cuts the pieces that the
 * one before it left: what it matches becomes a piece, and what lies between two matches, too.
 * Where llama.cpp tells letters by ASCII ranges, the expression of the models' own tokenizer.json
 * stands here: a file is read as the model was trained.
 *
 * Source  the names and flags of llama.cpp, src/llama-vocab.cpp; expressions of the models'
 *         tokenizer.json files. */
#include <string.h>

#include "formats/gguf_internal.h"
#include "formats/tokenizer_internal.h"

#define SHORT      "(?i:'s|'t|'re|'ve|'m|'ll|'d)" /* contractions */
#define LEAD       "[^\\r\\n\\p{L}\\p{N}]?"       /* a sign in front of a word */
#define SIGNS      " ?[^\\s\\p{L}\\p{N}]+"
#define LINES      "\\s*[\\r\\n]+"
#define SPACES     "\\s+(?!\\S)|\\s+"
#define TAIL       SIGNS "[\\r\\n]*|" LINES "|" SPACES
#define TAIL_SLASH SIGNS "[\\r\\n/]*|" LINES "|" SPACES
#define WORDS      SHORT "|" LEAD "\\p{L}+|"
#define QWEN2      WORDS "\\p{N}|" TAIL
#define LLAMA3     WORDS "\\p{N}{1,3}|" TAIL

/* Words whose letters change from upper to lower case once. */
#define UPPER               "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER               "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(up, low, end) LEAD up "*" low "+" end "|" LEAD up "+" low "*" end "|"
#define GPT4O(digits, tail) CASED(UPPER, LOWER, SHORT "?") digits "|" tail
#define NOT_HAN             "(?!\\p{Han})"

#define SIGN_WORDS                                                                                 \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES "|" SPACES
#define CHINESE "[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+"
#define EAST    "[\\u4e00-\\u9fa5\\u0800-\\u4e00\\uac00-\\ud7a3]+"
#define FINNISH " ?[^(\\s|.,!?\\u2026\\u3002\\uff0c\\u3001\\u0964\\u06d4\\u060c)]+"

/* Letters with case of Unicode 10, without those of Armenian and Georgian that are lower. */
#define CASED_LETTERS                                                                              \
    "A-Za-z\\u00b5\\u00c0-\\u00d6\\u00d8-\\u00f6\\u00f8-\\u01ba\\u01bc-\\u01bf\\u01c4-\\u0293"     \
    "\\u0295-\\u02af\\u0370-\\u0373\\u0376\\u0377\\u037b-\\u037d\\u037f\\u0386\\u0388-\\u038a"     \
    "\\u038c\\u038e-\\u03a1\\u03a3-\\u03f5\\u03f7-\\u0481\\u048a-\\u052f\\u0531-\\u0556"           \
    "\\u10a0-\\u10c5\\u13a0-\\u13f5\\u13f8-\\u13fd\\u1c90-\\u1cba\\u1cbd-\\u1cbf\\u1d00-\\u1d2b"   \
    "\\u1d6b-\\u1d77\\u1d79-\\u1d9a\\u1e00-\\u1f15\\u1f18-\\u1f1d\\u1f20-\\u1f45\\u1f48-\\u1f4d"   \
    "\\u1f50-\\u1f57\\u1f59\\u1f5b\\u1f5d\\u1f5f-\\u1f7d\\u1f80-\\u1fb4\\u1fb6-\\u1fbc\\u1fbe"     \
    "\\u1fc2-\\u1fc4\\u1fc6-\\u1fcc\\u1fd0-\\u1fd3\\u1fd6-\\u1fdb\\u1fe0-\\u1fec\\u1ff2-\\u1ff4"   \
    "\\u1ff6-\\u1ffc\\u2102\\u2107\\u210a-\\u2113\\u2115\\u2119-\\u211d\\u2124\\u2126\\u2128"      \
    "\\u212a-\\u212d\\u212f-\\u2134\\u2139\\u213c-\\u213f\\u2145-\\u2149\\u214e\\u2183\\u2184"     \
    "\\u2c00-\\u2c7b\\u2c7e-\\u2ce4\\u2ceb-\\u2cee\\u2cf2\\u2cf3\\ua640-\\ua66d\\ua680-\\ua69b"    \
    "\\ua722-\\ua76f\\ua771-\\ua787\\ua78b-\\ua78e\\uab70-\\uabbf\\ufb00-\\ufb06\\ufb13-\\ufb17"   \
    "\\uff21-\\uff3a\\uff41-\\uff5a\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{"      \
    "104fb}"                                                                                       \
    "\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

static const char raw_text[] = "its pieces are UTF-8 and not the characters of bytes";

enum { BOS = PARE__PRE_BOS, CLEAN = PARE__PRE_CLEAN, NFC = PARE__PRE_NFC, WHOLE = PARE__PRE_WHOLE };
enum { READ = PARE__PRE_READ };

static const pare__gguf_pre table[] = {
    {"gpt-2 phi-2 olmo mpt jais exaone4 gigachat a.x-4.0 mellum modern-bert jina-es jina-de "
     "jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe",
     {pare__gpt2_pattern},
     CLEAN,
     NULL},
    {"trillion granite-docling", {pare__gpt2_pattern}, READ, NULL},
    {"smollm command-r", {"\\p{N}", pare__gpt2_pattern}, 0, NULL},
    {"starcoder refact codeshell exaone minerva-7b mellum2",
     {"\\p{N}", pare__gpt2_pattern},
     CLEAN,
     NULL},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     {LLAMA3},
     WHOLE | BOS | CLEAN,
     NULL},
    {"smaug-bpe dbrx glm4 chatglm-bpe", {LLAMA3}, CLEAN, NULL},
    {"qwen2 deepseek-r1-qwen", {QWEN2}, NFC, NULL},
    {"hunyuan solar-open grok-2 kormo f2llmv2", {QWEN2}, 0, NULL},
    {"stablelm2 megrez", {QWEN2}, CLEAN, NULL},
    {"qwen35",
     {SHORT "|" LEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES
            "|" SPACES},
     0,
     NULL},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", {GPT4O("\\p{N}{1,3}", TAIL_SLASH)}, 0, NULL},
    {"granite-embed-multi-97m", {GPT4O("\\p{N}{1,3}", TAIL_SLASH)}, WHOLE, NULL},
    {"tekken", {CASED(UPPER, LOWER, "") "\\p{N}|" TAIL_SLASH}, WHOLE | BOS, NULL},
    {"tiny_aya cohere2moe",
     {"\\d{1,3}(?=(?:\\d{3})*\\b)", GPT4O("\\p{N}{1,3}", TAIL_SLASH)},
     0,
     NULL},
    {"youtu",
     {"[\\uac00-\\ud7a3\\u3131-\\u318e]+|[\\uff01\\u2026\\u201c\\u201d\\u2018\\u2019\\u2014\\uff1a"
      "\\uff1b\\uff0c\\u3001-\\u303f\\ufe30-\\ufe4f]+|[\\u3105-\\u312f]+|" CHINESE,
      GPT4O("\\p{N}", TAIL_SLASH)},
     WHOLE,
     NULL},
    {"kimi-k2",
     {"\\p{Han}+|" CASED("(?:" NOT_HAN UPPER ")", "(?:" NOT_HAN LOWER ")",
                         SHORT "?") "\\p{N}{1,3}|" TAIL},
     0,
     NULL},
    {"deepseek-v3 hunyuan-dense joyai-llm", {"\\p{N}{1,3}", CHINESE, SIGN_WORDS}, 0, NULL},
    {"deepseek-coder", {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", EAST, "\\p{N}"}, 0, NULL},
    {"deepseek-llm",
     {"[\\r\\n]", "\\s?[" CASED_LETTERS "]+",
      "\\s?[!-/:-~\\uff01-\\uff0f\\uff1a-\\uff5e\\u2018-\\u201f\\u3000-\\u3002]+", "\\s+$", EAST,
      "\\p{N}+"},
     0,
     NULL},
    {"afmoe",
     {"(?<=\\p{N})(?!\\p{N})|(?<=\\p{N})(?=(?:\\p{N}{3})+(?!\\p{N}))",
      "[\\u4e00-\\u9fff\\u3400-\\u4dbf\\uf900-\\ufaff\\u3040-\\u309f\\u30a0-\\u30ff\\uff65-\\uff9f"
      "\\u2f00-\\u2fdf\\u0e40-\\u0e7f\\u0e80-\\u0eff\\u1780-\\u17ff\\u1000-\\u109f\\uaa60-\\uaa7f"
      "\\ua9e0-\\ua9ff\\uac00-\\ud7af\\u1100-\\u11ff]+",
      SIGN_WORDS},
     0,
     NULL},
    {"minicpm5", {"\\p{N}{1,3}", WORDS "\\p{N}+|" TAIL}, WHOLE | CLEAN, NULL},
    {"jais-2",
     {WORDS "\\p{N}{1,3}|" SIGNS "[\\r\\n]*|" LINES
            "|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|"
            "\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s"},
     CLEAN,
     NULL},
    {"laguna", {"[^\\n]+|[\\n]+", QWEN2}, 0, NULL},
    {"seed-coder", {WORDS "\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" LINES "|" SPACES}, 0, NULL},
    {"exaone-moe",
     {SHORT "|" LEAD "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|" SIGNS
            "[\\r\\n/]?|\\s*[\\r\\n]|" SPACES},
     CLEAN,
     NULL},
    {"bailingmoe bailingmoe2 llada-moe",
     {"'(?i:s|d|m|t|ll|ve|re)|" LEAD "\\p{L}+|\\p{N}|" SIGNS "[\\r\\n]*|\\s*[\\r\\n]|" SPACES},
     0,
     NULL},
    {"falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", pare__gpt2_pattern, "[0-9][0-9][0-9]"}, CLEAN, NULL},
    {"superbpe", {"\\p{N}+", "(?=(?:\\d{3})+(?!\\d))"}, 0, NULL},
    {"bloom gpt3-finnish", {FINNISH}, CLEAN, NULL},
    {"poro-chat", {FINNISH}, READ, NULL},
    {"viking", {FINNISH, "\\p{N}"}, 0, NULL},
    {"chameleon",
     {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}",
      "[\\p{P}!-/:-@\\[-`{-~]", pare__gpt2_pattern},
     BOS,
     NULL},
    {"default",
     {"[\\p{P}\\$\\+<=>\\^~\\|]+", pare__gpt2_pattern, "\\p{N}+", "[0-9][0-9][0-9]"},
     CLEAN | READ,
     NULL},
    {"gemma4 granite-embed-multi-311m sarvam-moe", {NULL}, READ, raw_text},
    {"whitespace", {NULL}, READ, raw_text},
};

const pare__gguf_pre *pare__gguf_pre_at(size_t i)
{
    return i < sizeof table / sizeof *table ? &table[i] : NULL;
}

size_t pare__gguf_pre_first(const pare__gguf_pre *p)
{
    return strcspn(p->names, " ");
}

const pare__gguf_pre *pare__gguf_pre_named(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (const char *at = table[i].names; *at; at += strspn(at, " ")) {
            const size_t n = strcspn(at, " ");
            if (n == len && memcmp(at, name, len) == 0)
                return &table[i];
            at += n;
        }
    return NULL;
}

static void put_type(pare_json_writer *w, const char *key, const char *type)
{
    pare_json_open_object(w, key);
    pare_json_put_text(w, "type", type);
}

void pare__gguf_put_bytes(pare_json_writer *w, const char *key, bool regex)
{
    put_type(w, key, "ByteLevel");
    pare_json_put_bool(w, "add_prefix_space", false);
    pare_json_put_bool(w, "trim_offsets", true);
    pare_json_put_bool(w, "use_regex", regex);
    pare_json_close(w);
}

static void put_cut(pare_json_writer *w, const char *regex)
{
    put_type(w, NULL, "Split");
    pare_json_open_object(w, "pattern");
    pare_json_put_text(w, "Regex", regex);
    pare_json_close(w);
    pare_json_put_text(w, "behavior", "Isolated");
    pare_json_put_bool(w, "invert", false);
    pare_json_close(w);
}

void pare__gguf_put_pre(pare_json_writer *w, const pare__gguf_pre *p)
{
    size_t cuts = 0;
    while (cuts < PARE__GGUF_CUTS && p->cut[cuts])
        cuts++;
    /* ByteLevel has the expression of GPT-2 in it. */
    const bool own = cuts > 0 && p->cut[cuts - 1] == pare__gpt2_pattern;
    cuts -= own;
    if (p->how & PARE__PRE_NFC) {
        put_type(w, "normalizer", "NFC");
        pare_json_close(w);
    } else {
        pare_json_put_null(w, "normalizer");
    }
    if (cuts > 0) {
        put_type(w, "pre_tokenizer", "Sequence");
        pare_json_open_array(w, "pretokenizers");
    }
    for (size_t i = 0; i < cuts; i++)
        put_cut(w, p->cut[i]);
    pare__gguf_put_bytes(w, cuts > 0 ? NULL : "pre_tokenizer", own);
    if (cuts > 0) {
        pare_json_close(w);
        pare_json_close(w);
    }
}
