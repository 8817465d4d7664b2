"""Random compositions of a tokenizer.json, ours against the package tokenizers.

compositions.py PROGRAM [COUNT [SEED]]: PROGRAM is tokenizer_ids. Normalizers, pre-tokenizers, and
added tokens of all flags are drawn and put together; what a step sees of the text around it depends
on the steps before it. A composition must be refused by name or give the same ids on random lines."""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile

import tokenizers

import token_lines

LINES = 200
MARK = "\u2581"
PATTERNS = ["\\s+", "\\s+(?!\\S)", " ?\\p{L}+", "(?<=\\p{L})\\p{N}+", "(?<!\\p{L})\\p{N}", "\\p{N}{1,3}",
            "[^\\s\\p{L}\\p{N}]+", "(?<= )\\p{L}", "^\\s*", "\\s+$", "(?=\\p{Lu})", "\\b", "\\w+", "\\p{Han}+",
            "(?<=\\n).", "\\p{L}+(?=\\s)"]
BEHAVIORS = ["Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"]
ADDED = ["<s>", "</s>", "<unk>", "<|endoftext|>", "'s", "...", "\u00bd", "\ufb01", MARK, "://", "\\n",
         "<0x0A>", "a", "e\u0301", " ", "  ", "\n", "b ", " c", "Z"]


def draw_pattern(r):
    if r.random() < 0.2:
        return {"String": r.choice([" ", "a", ".", "\n", MARK, "e", "'s"])}
    return {"Regex": r.choice(PATTERNS)}


def draw_normalizer(r):
    kind = r.choice(["NFC", "NFD", "NFKC", "NFKD", "Prepend", "Replace", "Replace", "Strip"])
    if kind == "Prepend":
        return {"type": kind, "prepend": r.choice([MARK, " ", "a"])}
    if kind == "Replace":
        return {"type": kind, "pattern": draw_pattern(r), "content": r.choice([MARK, " ", "", "ab"])}
    if kind == "Strip":
        return {"type": kind, "strip_left": r.random() < 0.5, "strip_right": r.random() < 0.5}
    return {"type": kind}


def draw_metaspace(r):
    scheme = r.choice(["always", "first", "never"])
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme,
            "add_prefix_space": scheme != "never", "split": r.random() < 0.5}


def draw_stage(r):
    kind = r.choice(["Split", "Split", "Split", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit",
                     "Metaspace"])
    if kind == "Split":
        return {"type": kind, "pattern": draw_pattern(r), "behavior": r.choice(BEHAVIORS),
                "invert": r.random() < 0.2}
    if kind == "Digits":
        return {"type": kind, "individual_digits": r.random() < 0.5}
    if kind == "Punctuation":
        return {"type": kind, "behavior": r.choice(BEHAVIORS)}
    return draw_metaspace(r) if kind == "Metaspace" else {"type": kind}


def draw_byte_level(r):
    return {"type": "ByteLevel", "add_prefix_space": r.random() < 0.3, "trim_offsets": True,
            "use_regex": r.random() < 0.5}


def train(lines, bytes_of):
    t = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token=None if bytes_of else "<unk>"))
    if bytes_of:
        t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet() if bytes_of else [MARK, " "]
    t.train_from_iterator([x.replace(" ", r) for x in lines for r in (" ", MARK)],
                          tokenizers.trainers.BpeTrainer(vocab_size=3000, show_progress=False,
                                                         initial_alphabet=sorted(alphabet),
                                                         limit_alphabet=1500,
                                                         special_tokens=["<unk>"]))
    return json.loads(t.to_str())["model"]


def draw(r, models):
    bytes_of = r.random() < 0.6
    model = dict(models[bytes_of])
    model["ignore_merges"] = r.random() < 0.2
    stages = [draw_stage(r) for _ in range(r.choice([0, 1, 1, 2, 3]))]
    if bytes_of:
        stages.append(draw_byte_level(r))
        if r.random() < 0.1:
            stages.append(draw_stage(r))
    steps = [draw_normalizer(r) for _ in range(r.choice([0, 0, 1, 1, 2]))]
    vocab, added = dict(model["vocab"]), []
    for text in r.sample(ADDED, r.choice([0, 1, 3, 6])):
        added.append({"id": vocab.setdefault(text, len(vocab)), "content": text,
                      "single_word": r.random() < 0.25, "lstrip": r.random() < 0.25,
                      "rstrip": r.random() < 0.25, "normalized": r.random() < 0.5,
                      "special": r.random() < 0.5})
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": "Sequence", "normalizers": steps} if steps else None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": stages} if stages else None,
            "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": True,
                                                "trim_offsets": True, "use_regex": True},
            "model": model}


def ours(program, directory):
    run = subprocess.run([program, directory, str(LINES)], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    if run.returncode:
        return run.stderr.decode().strip()
    words, rows, at = struct.unpack("<%di" % (len(run.stdout) // 4), run.stdout), [], 0
    while at < len(words):
        rows.append(list(words[at + 1 : at + 1 + words[at]]))
        at += 1 + words[at]
    return rows


def alike(t, added):
    """Whether two added tokens have one text behind the normalizers."""
    texts = [t.normalizer.normalize_str(a["content"]) if t.normalizer and a["normalized"] else a["content"]
             for a in added]
    return len(set(texts)) < len(texts)


def stopped(e):
    """The package stops on some compositions."""
    return "Panic" in type(e).__name__


def show(case):
    """The parts that were drawn."""
    return json.dumps({k: case[k] for k in ("normalizer", "pre_tokenizer", "added_tokens")} |
                      {"ignore_merges": case["model"]["ignore_merges"]}, ensure_ascii=True)


def main(program, count=150, seed=0):
    lines = token_lines.lines(3000)
    models = {bytes_of: train(lines, bytes_of) for bytes_of in (False, True)}
    bad = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(int(count)):
            case = draw(random.Random(int(seed) * 100003 + i), models)
            text = json.dumps(case)
            try:
                theirs = tokenizers.Tokenizer.from_str(text)
                if alike(theirs, case["added_tokens"]):
                    continue  # which of them is found depends on its tables
            except BaseException as e:
                if not stopped(e):
                    raise
                continue
            with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as out:
                out.write(text)
            mine = ours(program, folder)
            if isinstance(mine, str):
                refused += 1
                if "not supported" not in mine:
                    print("%d: %s\n    %s" % (i, mine, show(case)))
                    bad += 1
                continue
            for line, ids in zip(lines, mine):
                try:
                    want = theirs.encode(line, add_special_tokens=False).ids
                except BaseException as e:
                    if not stopped(e):
                        raise
                    continue
                if ids != want:
                    print("%d: %r\n    ours   %r\n    theirs %r\n    %s"
                          % (i, line, [theirs.id_to_token(x) for x in ids],
                             [theirs.id_to_token(x) for x in want], show(case)))
                    bad += 1
                    break
    print("%s compositions, %d refused, %d differ" % (count, refused, bad))
    return bad


if __name__ == "__main__":
    sys.exit(min(main(*sys.argv[1:]), 1))
