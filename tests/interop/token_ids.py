"""Ids of our tokenizer against the packages tokenizers and sentencepiece.

token_ids.py PROGRAM MODELS: PROGRAM is tokenizer_ids, MODELS the folder of vocabularies."""

import os
import struct
import subprocess
import sys
import tempfile

import sentencepiece
import tokenizers

import token_lines


def ours(program, directory):
    raw = subprocess.run([program, directory], check=True, stdout=subprocess.PIPE).stdout
    words = struct.unpack("<%di" % (len(raw) // 4), raw)
    rows, at = [], 0
    while at < len(words):
        rows.append(list(words[at + 1 : at + 1 + words[at]]))
        at += 1 + words[at]
    return rows


def from_json(path):
    t = tokenizers.Tokenizer.from_file(path)
    return lambda line: t.encode(line, add_special_tokens=False).ids


def from_merges(directory):
    t = tokenizers.Tokenizer(
        tokenizers.models.BPE.from_file(directory + "/vocab.json", directory + "/merges.txt")
    )
    t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.add_special_tokens(["<|endoftext|>"])
    return lambda line: t.encode(line, add_special_tokens=False).ids


def from_model(path):
    """The pieces of control are found in the text first, as those of a tokenizer.json are."""
    sp = sentencepiece.SentencePieceProcessor(model_file=path)
    special = {sp.id_to_piece(i): i for i in range(len(sp)) if sp.is_control(i) or sp.is_unknown(i)}

    def encode(line):
        ids, start, at = [], 0, 0
        while at < len(line):
            hit = next((s for s in special if line.startswith(s, at)), None)
            if hit is None:
                at += 1
                continue
            ids += sp.encode(line[start:at]) + [special[hit]]
            start = at = at + len(hit)
        return ids + sp.encode(line[start:])

    return encode


def compare(name, got, want, lines):
    wrong = [i for i, line in enumerate(lines) if got[i] != want(line)]
    print("%-28s %d lines, %d differ, digest %s" % (name, len(lines), len(wrong),
                                                   token_lines.digest(got)))
    for i in wrong[:5]:
        print("  line %d %r\n    ours   %s\n    theirs %s" % (i, lines[i], got[i], want(lines[i])))
    return len(wrong)


def main():
    program, models = sys.argv[1:]
    lines = token_lines.lines()
    wrong = 0
    for name in sorted(os.listdir(models)):
        directory = os.path.join(models, name)
        files = set(os.listdir(directory))
        if "tokenizer.json" in files:
            want = from_json(directory + "/tokenizer.json")
        elif "tokenizer.model" in files:
            want = from_model(directory + "/tokenizer.model")
        else:
            want = from_merges(directory)
        wrong += compare(name, ours(program, directory), want, lines)
        if "tokenizer.json" in files and "tokenizer.model" in files:
            with tempfile.TemporaryDirectory() as alone:
                os.symlink(os.path.realpath(directory + "/tokenizer.model"),
                           alone + "/tokenizer.model")
                want = from_model(directory + "/tokenizer.model")
                wrong += compare(name + " (tokenizer.model)", ours(program, alone), want, lines)
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
