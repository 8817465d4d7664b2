"""The recorded ids of small tokenizers are those that the packages give today; and models that are
trained here, with the large maps of characters that are not recorded, give the same ids as ours.

recorded.py PROGRAM DATA: PROGRAM is tokenizer_ids, DATA the folder tests/data/tokenizers."""

import io
import json
import os
import subprocess
import sys
import tempfile

import sentencepiece

import token_ids
import token_lines

OPTIONS = {
    "nmt_nfkc": dict(model_type="unigram", vocab_size=6000),
    "nmt_nfkc_cf": dict(model_type="unigram", vocab_size=6000, byte_fallback=True,
                        normalization_rule_name="nmt_nfkc_cf"),
    "nmt_nfkc_bpe": dict(model_type="bpe", vocab_size=6000, user_defined_symbols=["th", "e\u0301"]),
    "spaces": dict(model_type="bpe", vocab_size=6000, byte_fallback=True,
                   normalization_rule_name="identity", remove_extra_whitespaces=False,
                   user_defined_symbols=["\u2581\u2581", "\n", "ll"]),
    "behind": dict(model_type="unigram", vocab_size=6000, treat_whitespace_as_suffix=True),
}


def train(path, options, lines):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, minloglevel=2, hard_vocab_limit=False,
        character_coverage=0.98, **options)
    with open(path, "wb") as f:
        f.write(model.getvalue())


def main():
    program, data = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    wrong = 0
    for script, given, recorded in (("components.py", data + "/rules.map", "components.json"),
                                    ("models.py", data, "models.json")):
        now = subprocess.run([sys.executable, os.path.join(here, script), given], check=True,
                             stdout=subprocess.PIPE).stdout
        with open(os.path.join(data, recorded), "rb") as f:
            same = json.loads(now) == json.load(f)
        print("%-28s %s" % (recorded, "as recorded" if same else "DIFFERS"))
        wrong += not same
    lines = token_lines.lines()
    corpus = [t for t in " ".join(lines[:3000]).replace("\x00", "").split("\n") if t][:2000]
    corpus += ["hello all the things in the world, that is %d" % i for i in range(500)]
    for name, options in OPTIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/tokenizer.model"
            train(path, options, [t[:4000] for t in corpus])
            wrong += token_ids.compare(name, token_ids.ours(program, folder),
                                       token_ids.from_model(path), lines)
    sys.exit(wrong != 0)


main()
