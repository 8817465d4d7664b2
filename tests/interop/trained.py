"""Tokenizers learned from random texts, ours against the package tokenizers.

trained.py > FILE writes what the package learns from the texts of a few cases
(../data/tokenizers/trained.json). trained.py PARE TOKENIZER_IDS [COUNT [SEED]] draws COUNT texts and
holds the tokens and merges of pare train-tokenizer against the package's, and, of the first ones, the
ids that the two programs give random lines by the file of pare."""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import token_lines

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
PROSE = "recipes/demo/calibration.txt"
LINES = 200
ENCODED = 5  # cases whose files encode the lines
# Few letters give pairs that two merges make, and counts that tie; the last has every class of the
# pattern, and characters of one to four bytes.
ALPHABETS = ["ab", "abc", "ab1 \n's\u00e9", "aelt'sdmrv 12.,\n\t\u00a0\u3000\u4e2d\u6587\u0301\U0001f600\u00df"]


def learn(texts, vocab, least, special):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab, min_frequency=least, special_tokens=special,
                                  show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator(texts, trainer)
    return t


def parts(document):
    model = document["model"]
    return sorted(model["vocab"], key=model["vocab"].get), model["merges"]


def draw(r):
    """Texts, tokens, the least count, special tokens."""
    letters = r.choice(ALPHABETS)
    words = ["".join(r.choice(letters) for _ in range(r.randint(1, r.choice([4, 12, 40]))))
             for _ in range(r.randint(1, 40))]
    texts = [" ".join(r.choice(words) for _ in range(r.randint(1, 200))) for _ in range(r.randint(1, 3))]
    special = r.choice([["<s>"], ["</s>", "<s>"], ["ab", "<s>"], ["aab", "a"]])
    least = r.choice([1, 1, 2, 3])
    most = 256 + len(special) + r.randint(1, r.choice([20, 120, 400]))
    vocab = learn(texts, most, least, special).get_vocab_size()  # a text may give fewer
    return texts, vocab, least, special


def case(texts, vocab, least, special):
    read = []
    for text in texts:
        if isinstance(text, dict):
            with open(os.path.join(ROOT, text["file"]), newline="", errors="replace") as f:
                text = f.read()
        read.append(text)
    tokens, merges = parts(json.loads(learn(read, vocab, least, special).to_str()))
    return {"texts": texts, "vocab": vocab, "min_count": least, "special": special,
            "tokens": tokens[len(special):], "merges": merges}


def golden():
    r = random.Random(11)
    out = [case([{"file": PROSE}], 2500, 2, ["<s>"])]
    while len(out) < 13:
        drawn = draw(r)
        if drawn[1] >= 256 + len(drawn[3]):
            out.append(case(*drawn))
    json.dump(out, sys.stdout, ensure_ascii=True, separators=(",", ":"))


def encode(program, folder, reference):
    lines = list(token_lines.lines(LINES))
    got = subprocess.run([program, folder, str(LINES)], check=True, capture_output=True).stdout
    at = 0
    for line in lines:
        count, = struct.unpack_from("<I", got, at)
        ids = list(struct.unpack_from("<%dI" % count, got, at + 4))
        at += 4 + 4 * count
        want = reference.encode(line, add_special_tokens=False).ids
        if ids != want:
            return "%r: %s, not %s" % (line, ids, want)
    return None


def compare(pare, program, count, seed):
    r = random.Random(seed)
    equal = 0
    with tempfile.TemporaryDirectory() as home:
        for i in range(count):
            texts, vocab, least, special = draw(r)
            if vocab < 256 + len(special):
                continue
            names = []
            for j, text in enumerate(texts):
                names.append(os.path.join(home, "text%d" % j))
                with open(names[j], "w", newline="") as f:
                    f.write(text)
            out = os.path.join(home, "tokenizer%d" % i)
            words = [pare, "train-tokenizer", *names, "--vocab", str(vocab), "--min-count", str(least),
                     "--output", out, "--eos", special[0], "--no-progress"]
            if len(special) > 1:
                words += ["--bos", special[1]]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            with open(os.path.join(out, "tokenizer.json")) as f:
                ours = json.load(f)
            theirs = learn(texts, vocab, least, special)
            if parts(ours) != parts(json.loads(theirs.to_str())):
                sys.exit("case %d of seed %d: other tokens or merges" % (i, seed))
            wrong = encode(program, out, Tokenizer.from_file(os.path.join(out, "tokenizer.json"))) \
                if i < ENCODED else None
            if wrong:
                sys.exit("case %d of seed %d: %s" % (i, seed, wrong))
            equal += 1
    if equal < count / 2:
        sys.exit("only %d of %d cases were compared" % (equal, count))
    print("%d tokenizers learned as by the package" % equal)


if len(sys.argv) < 3:
    golden()
else:
    compare(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 200,
            int(sys.argv[4]) if len(sys.argv) > 4 else 1)
