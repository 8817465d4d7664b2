"""Writes components.json: small tokenizer.json documents that use one component after the other, hard
texts, and the ids and decoded texts that the package tokenizers gives. components.py > FILE"""

import json
import sys

import tokenizers

BYTES = {}
_next = 0x100
for b in range(256):
    if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b:
        BYTES[b] = chr(b)
    else:
        BYTES[b] = chr(_next)
        _next += 1

TEXTS = [
    "",
    " ",
    "a",
    "  a  b ",
    "Hello world, 12345 = 6!",
    "it's 3.14-ish;\tWE'LL (see)\r\n\n  x  ",
    "caf\u00e9 cafe\u0301 \u2460\u00bd\u00b2 \u0e51\u0e52 \u216b",
    "\u2581\u2581a \u2581b",
    "\u3000wide\u00a0space\u2003end\u2028",
    "100200300 12 3456",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u30c6\u30b9\u30c8",
    "\U0001f600\U0001f44d\U0001f3fd e\u0301e\u0301",
    "<|x|>a<|x|> <|y|> b",
    "x_y-z ''\"\" $5 <b>",
    "def f(x):\n    return  x\n\n\n",
    "\ufb01nd \ufb01\u0301 \uff21\uff22",
    "aaaa abab baba",
    "a\u00adb\u200dc\u0001d",
]

WORDS = "he el ll lo wo or rl ld in re th an on er es it is at en ab ba aa abab the ing".split()


def bpe(byte_level, **more):
    """A vocabulary of single characters and of WORDS, with and without what stands for a space."""
    space = "\u0120" if byte_level else "\u2581"
    chars = list(BYTES.values()) if byte_level else sorted(
        set("".join(TEXTS)) - set("\U0001f600\u2460") | {space} | {chr(c) for c in range(32, 127)})
    vocab = {c: i for i, c in enumerate(chars)}
    merges = []

    def merge(a, b):
        if a in vocab and b in vocab and a + b not in vocab:
            vocab[a + b] = len(vocab)
            merges.append([a, b])

    for w in WORDS:
        for i in range(1, len(w)):
            merge(w[:i], w[i])
    for c in "abhtwfx":
        merge(space, c)
    merge(space, space)
    merge(space + space, space + space)
    for d in ("12", "123", "00", "10", "100", "20"):
        merge(d[:-1], d[-1])
    if more.get("byte_fallback"):
        for b in range(256):
            vocab["<0x%02X>" % b] = len(vocab)
    if "unk_token" in more:
        vocab.setdefault(more["unk_token"], len(vocab))
    return dict({"type": "BPE", "vocab": vocab, "merges": merges}, **more)


def unigram(**more):
    vocab = [["<unk>", 0.0], ["\u2581", -2.5]]
    seen = {"<unk>", "\u2581"}

    def put(text, score):
        if text not in seen:
            seen.add(text)
            vocab.append([text, score])

    for i, w in enumerate(WORDS + ["Hello", "world", "cafe", "caf\u00e9", "wide", "end"]):
        put(w, -3.0 - 0.37 * (i % 7))
        put("\u2581" + w, -2.5 - 0.41 * (i % 5))
    for i in range(32, 127):
        if chr(i) not in "<>|$":
            put(chr(i), -6.0 - i / 100)
    if more.get("byte_fallback"):
        for b in range(256):
            put("<0x%02X>" % b, -9.0)
    return dict({"type": "Unigram", "unk_id": 0, "vocab": vocab}, **more)


def seq(kind, *parts):
    return {"type": "Sequence", kind: list(parts)}


def bl(space=False, regex=True):
    return {"type": "ByteLevel", "add_prefix_space": space, "trim_offsets": True, "use_regex": regex}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def meta(scheme, cut=True):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": cut}


BYTE_DECODER = bl(True)
LLAMA_DECODER = seq(
    "decoders", {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"},
)
DIGITS = {"type": "Digits", "individual_digits": True}
NUMBERS = {"type": "Digits", "individual_digits": False}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
FALLBACK = dict(byte_fallback=True, unk_token="<unk>", fuse_unk=True)
GEMMA = bpe(False, **FALLBACK)


def doc(model, pre=None, norm=None, decoder=None, **flags):
    size = len(model["vocab"])
    tokens = [
        dict(dict(id=size, content="<|x|>", single_word=False, lstrip=False, rstrip=False,
                  normalized=False, special=True), **flags),
        dict(id=size + 1, content="<|y|>", single_word=False, lstrip=True, rstrip=True,
             normalized=True, special=False),
    ]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens,
            "normalizer": norm, "pre_tokenizer": pre, "post_processor": None, "decoder": decoder,
            "model": model}


def documents(charsmap):
    precompiled = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    yield "gpt_neox", doc(bpe(True), bl(), {"type": "NFC"}, BYTE_DECODER)
    yield "gpt2_prefix", doc(bpe(True), bl(True), None, BYTE_DECODER)
    yield "starcoder", doc(bpe(True), seq("pretokenizers", DIGITS, bl()), None, BYTE_DECODER)
    yield "falcon", doc(bpe(True), seq(
        "pretokenizers", {"type": "Punctuation", "behavior": "Contiguous"}, bl(), NUMBERS,
        split("[0-9][0-9][0-9]")), None, BYTE_DECODER)
    yield "deepseek", doc(bpe(True), seq(
        "pretokenizers", split("[\r\n]"),
        split("\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba]+"),
        split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"), split("\\s+$"),
        split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), DIGITS, bl(False, False)), None,
        BYTE_DECODER)
    yield "gemma", doc(GEMMA, split(" ", "MergedWithPrevious", kind="String"), REPLACE,
                       LLAMA_DECODER)
    yield "mistral_first", doc(GEMMA, meta("first", False), None, seq(
        "decoders", *LLAMA_DECODER["decoders"],
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}))
    yield "metaspace_always", doc(GEMMA, meta("always"), None, meta("always"))
    yield "metaspace_never", doc(GEMMA, meta("never"), None, meta("never"))
    yield "phi3", doc(GEMMA, None, seq("normalizers", {"type": "Prepend", "prepend": "\u2581"},
                                       REPLACE), seq("decoders", *LLAMA_DECODER["decoders"], {
                                           "type": "Strip", "content": " ", "start": 1, "stop": 0}),
                      rstrip=True)
    yield "t5", doc(unigram(), seq("pretokenizers", {"type": "WhitespaceSplit"}, meta("always")),
                    precompiled, meta("always"))
    yield "t5_new", doc(unigram(), meta("always"), seq(
        "normalizers", precompiled, {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}), meta("always"))
    yield "unigram_bytes", doc(unigram(byte_fallback=True), meta("first", False), None,
                               LLAMA_DECODER)
    yield "forms", doc(bpe(False, unk_token="?"), {"type": "Whitespace"}, {"type": "NFKC"})
    yield "decomposed", doc(bpe(False), None, {"type": "NFKD"})
    yield "canonical", doc(bpe(False, unk_token="?"), {"type": "Punctuation", "behavior": "Removed"},
                           {"type": "NFD"})
    marks = "a\u00b2\u00bd\u216b\u0e51 1"
    pairs = ["\u00bd\u00b2", "\u00b2 ", " \u0e51", "\u216b ", "12"]
    signs = {c: i for i, c in enumerate(sorted(set(marks + "23")) + pairs)}
    for single in (False, True):
        yield "digits_%d" % single, doc(
            {"type": "BPE", "vocab": signs, "merges": [list(p) for p in pairs], "unk_token": "a"},
            {"type": "Digits", "individual_digits": single})
    for behavior in ("Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"):
        for invert in (False, True):
            yield "split_%s_%d" % (behavior, invert), doc(
                bpe(False, ignore_merges=True), split("[ab]", behavior, invert))
    yield "empty_matches", doc(bpe(True), seq("pretokenizers", split("b*", "MergedWithPrevious"),
                                              bl(False, False)), None, BYTE_DECODER)
    yield "anchors_only", doc(bpe(True), seq("pretokenizers", split("^|$|a^b"), bl(False, False)),
                              None, BYTE_DECODER)
    yield "anchors", doc(bpe(True), seq("pretokenizers", split("^[a-z ]+|\\S+$"),
                                        bl(False, False)), None, BYTE_DECODER)
    yield "nested_class", doc(bpe(True), seq(
        "pretokenizers", split(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001])]+"), bl(False, False)),
        None, BYTE_DECODER)
    for name, pattern in ("words", "\\w+"), ("boundaries", "\\b"), ("han", "\\p{Han}+"), (
            "lines", "^\\s*"):
        yield name, doc(bpe(True), seq("pretokenizers", split(pattern, "MergedWithNext"),
                                       bl(False, False)), None, BYTE_DECODER)
    yield "first_of_stripped", doc(GEMMA, meta("first", False), {
        "type": "Strip", "strip_left": True, "strip_right": False}, LLAMA_DECODER)
    yield "spaces_taken", doc(bpe(True), bl(), None, BYTE_DECODER, content=" ", lstrip=True,
                              rstrip=True)


def main():
    import pathlib, base64
    charsmap = base64.b64encode(pathlib.Path(sys.argv[1]).read_bytes()).decode()
    out = []
    for name, document in documents(charsmap):
        t = tokenizers.Tokenizer.from_str(json.dumps(document))
        cases = []
        for text in TEXTS:
            ids = t.encode(text, add_special_tokens=False).ids
            cases.append({"text": text, "ids": ids,
                          "decoded": t.decode(ids, skip_special_tokens=False)})
        out.append({"name": name, "document": document, "cases": cases})
    json.dump(out, sys.stdout, ensure_ascii=True, separators=(",", ":"))


main()
