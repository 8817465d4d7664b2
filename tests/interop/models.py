"""Writes models.json: hard texts with the ids and decoded texts that the package sentencepiece gives
for small tokenizer.model files. models.py FOLDER > FILE"""

import json
import os
import sys

import sentencepiece

TEXTS = [
    "",
    " ",
    "a",
    "  a  b ",
    "Hello world, 12345 = 6!",
    "hello   world\tthe\nthing  ",
    "caf\u00e9 cafe\u0301 \u2460\u00bd\u00b2",
    "\u2581\u2581a \u2581b   c",
    "\u3000wide\u00a0space\u2003end\u2028",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002 xx \u4f60",
    "\U0001f600\U0001f44d\U0001f3fd e\u0301e\u0301",
    "\ufb01nd \uff21\uff22 a\u00adb",
    "ththth lllll llll the all",
    "aaaa abab baba",
    "<0x41> 0x41",
    "xa bbb abb bbbbb th that f ff fff q lll lllll xxx",
]


def main():
    out = []
    for name in sorted(n for n in os.listdir(sys.argv[1]) if n.endswith(".model")):
        sp = sentencepiece.SentencePieceProcessor(model_file=os.path.join(sys.argv[1], name))
        cases = []
        for text in TEXTS:
            ids = sp.encode(text)
            decoded = sp.decode(ids).replace(" \u2047 ", "<unk>")
            cases.append({"text": text, "ids": ids, "decoded": decoded})
        out.append({"name": name, "cases": cases})
    json.dump(out, sys.stdout, ensure_ascii=True, separators=(",", ":"))


main()
