"""Ids of random lines by every name of tokenizer.ggml.pre: ours against llama.cpp's.

gguf_pre.py PROGRAM TABLE [NAME ...]: PROGRAM is tokenizer_ids, TABLE formats/gguf_pre.c; without
names the first one of every row. The vocabulary is
trained on the spot, on the lines as they are: its merges go across words, so that each cut shows in
the ids. llama.cpp is the one in the wheel of xllamacpp, through its C interface. Names on which
llama.cpp is known to differ stand in KNOWN, with the reason and how many lines it may be."""

import ctypes
import glob
import os
import re
import struct
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import tokenizers

import token_lines

try:
    import xllamacpp
except ImportError:
    print("skipped: the package xllamacpp (llama.cpp) could not be installed")
    sys.exit(77)

LINES = 2000
MARKS = "it tells letters from marks, which belong to words in the models' own files"
CASE = "it tells upper from lower case for ASCII only"
SPACES = "its white space is ASCII in expressions without a \\p"
KNOWN = {
    "qwen2": (500, "it does not compose texts (NFC); hunyuan has the same expression"),
    "gpt-4o": (700, MARKS + "; " + CASE),
    "tekken": (700, MARKS + "; " + CASE),
    "kimi-k2": (700, MARKS),
    "tiny_aya": (140, "the digits before a letter, and the text before digits, are not cut off"),
    "granite-embed-multi-97m": (20, CASE),
    "youtu": (20, CASE),
    "afmoe": (5, "its \\S leaves out private-use characters there"),
    "deepseek-coder": (2, SPACES),
    "deepseek-llm": (15, SPACES),
}


class Engine:
    VOCAB_ONLY = 72  # its place in llama_model_params

    class Params(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_ubyte * 256)]

    def __init__(self):
        lib = self.lib = ctypes.CDLL(glob.glob(xllamacpp.__path__[0] + "/xllamacpp*.so")[0])
        lib.llama_model_default_params.restype = self.Params
        lib.llama_model_load_from_file.argtypes = [ctypes.c_char_p, self.Params]
        lib.llama_model_load_from_file.restype = ctypes.c_void_p
        lib.llama_model_get_vocab.argtypes = [ctypes.c_void_p]
        lib.llama_model_get_vocab.restype = ctypes.c_void_p
        lib.llama_model_free.argtypes = [ctypes.c_void_p]
        lib.llama_tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32,
                                       ctypes.POINTER(ctypes.c_int32), ctypes.c_int32,
                                       ctypes.c_bool, ctypes.c_bool]
        self.said = []
        kind = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
        self.log = kind(lambda level, text, _: self.said.append(text.decode()))
        lib.llama_log_set(self.log, None)

    def rows(self, path, lines):
        params = self.lib.llama_model_default_params()
        params.bytes[self.VOCAB_ONLY] = 1
        self.said.clear()
        model = self.lib.llama_model_load_from_file(path.encode(), params)
        if not model:
            return None
        vocab, rows = self.lib.llama_model_get_vocab(model), []
        for line in lines:
            raw = line.encode()
            out = (ctypes.c_int32 * (len(raw) + 16))()
            n = self.lib.llama_tokenize(vocab, raw, len(raw), out, len(out), False, True)
            rows.append(list(out[:n]))
        self.lib.llama_model_free(model)
        return rows


def train(lines):
    """Tokens by id, and merges."""
    t = tokenizers.Tokenizer(tokenizers.models.BPE())
    t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=6000, initial_alphabet=sorted(alphabet),
                                             show_progress=False, special_tokens=["<s>", "</s>"])
    t.train_from_iterator(lines, trainer)
    with tempfile.TemporaryDirectory() as folder:
        t.model.save(folder)
        merges = open(folder + "/merges.txt", encoding="utf-8").read().split("\n")
    vocab = sorted(t.get_vocab().items(), key=lambda item: item[1])
    return [text for text, _ in vocab], [m for m in merges if m and not m.startswith("#version")]


def write(path, name, tokens, merges):
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(64)
    w.add_embedding_length(32)
    w.add_block_count(1)
    w.add_feed_forward_length(32)
    w.add_head_count(2)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(len(tokens))
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(name)
    w.add_token_list(tokens)
    w.add_token_types([3 if text in ("<s>", "</s>") else 1 for text in tokens])
    w.add_token_merges(merges)
    w.add_bos_token_id(0)
    w.add_eos_token_id(1)
    w.add_tensor("token_embd.weight", np.zeros((len(tokens), 32), np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def ours(program, path):
    run = subprocess.run([program, path, str(LINES)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if run.returncode:
        return run.stderr.decode()
    words, rows, at = struct.unpack("<%di" % (len(run.stdout) // 4), run.stdout), [], 0
    while at < len(words):
        rows.append(list(words[at + 1 : at + 1 + words[at]]))
        at += 1 + words[at]
    return rows


def names_of(table):
    """Rows of the table in C: their names."""
    text = open(table, encoding="utf-8").read()
    text = text[text.index("table[] = {") :]
    rows = re.findall(r'^    \{((?:"[^"]*"\s*)+),', text, re.M)
    return [" ".join(re.findall(r'"([^"]*)"', row)).split() for row in rows]


def main(program, table, *chosen):
    engine, lines = Engine(), token_lines.lines()
    tokens, merges = train([x for x in lines if "|>" not in x])  # llama.cpp takes some for special
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        for names in names_of(table):
            for name in [x for x in names if x in chosen] if chosen else names[:1]:
                write(path, name, tokens, merges)
                mine = ours(program, path)
                if isinstance(mine, str):
                    print("%-24s refused: %s" % (name, mine.strip()[-160:]))
                    bad += "is not supported" not in mine
                    continue
                theirs = engine.rows(path, lines[:LINES])
                if theirs is None:
                    print("%-24s unknown to this llama.cpp" % name)
                    continue
                differ = [i for i in range(LINES) if mine[i] != theirs[i]]
                may, why = KNOWN.get(name, (0, ""))
                print("%-24s %d of %d lines differ%s" % (name, len(differ), LINES,
                                                         ": " + why if differ and why else ""))
                for i in differ[:3] if len(differ) > may else []:
                    print("    %r" % lines[i])
                    print("    ours  ", [tokens[t] for t in mine[i]])
                    print("    theirs", [tokens[t] for t in theirs[i]])
                bad += len(differ) > may
    return bad


if __name__ == "__main__":
    sys.exit(min(main(*sys.argv[1:]), 1))
