#!/usr/bin/env python3
"""Tasks beside lm_eval 0.4.13 (EleutherAI's evaluation harness): heavy, run by hand with the python of an
environment that has lm_eval, transformers, torch and datasets.

    tasks.py compare PARE MODEL TEXT ITEMS [TASK ...]
    tasks.py golden ../../recipes/demo/hedge ../../recipes/demo/evaluation.txt

compare: ITEMS documents a task, made of the sentences of TEXT (wiki.test.raw) in the shapes of the published
data sets, with shots for some (gsm8k: made-up sums); pare and the harness, in F32, must have the same figures to 4 decimals. Prints a
line a figure; exits with 1 where one differs.

golden: writes 4 documents a task to ../golden/tasks/ and the log-likelihoods and figures of the harness to
../golden/tasks.txt (golden.tasks holds pare against them)."""

import json
import os
import random
import subprocess
import sys
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
HERE = os.path.dirname(os.path.abspath(__file__))
SUBJECTS = ("anatomy", "high_school_physics")
BAR = {"perplexity": 2e-4, "word_perplexity": 2e-4}  # relative; others: 4 decimals
SHOTS = {"piqa": 3, "winogrande": 2, "mmlu_anatomy": 2, "mmlu_high_school_physics": 2, "gsm8k": 5}


def sentences(path):
    """Runs of words between full stops, of 12 to 40 words."""
    text = "\n".join(x for x in open(path, encoding="utf-8", errors="ignore").read().split("\n") if not x.startswith(" ="))
    return [s.split() for s in text.replace(" . ", ". ").replace(".\n", ". ").split(". ") if 12 <= len(s.split()) <= 40]


class Maker:
    def __init__(self, text, seed):
        self.pool, self.draw = sentences(text), random.Random(seed)

    def pick(self):
        return self.draw.choice(self.pool)

    def parted(self, choices):
        """A beginning, ends of sentences, and the place of the true one."""
        words = self.pick()
        cut = self.draw.randint(4, 8)
        ends = [" ".join(w[cut:cut + self.draw.randint(2, 8)]) for w in [words] + [self.pick() for _ in range(choices - 1)]]
        order = list(range(choices))
        self.draw.shuffle(order)
        return " ".join(words[:cut]), [ends[i] for i in order], order.index(0)

    def piqa(self):
        goal, ends, at = self.parted(2)
        return {"goal": goal, "sol1": ends[0], "sol2": ends[1], "label": at}

    def arc(self):
        question, ends, at = self.parted(self.draw.randint(3, 5))
        labels = list("ABCDE" if self.draw.random() < .7 else "12345")[:len(ends)]
        return {"id": "x", "question": question, "choices": {"text": ends, "label": labels}, "answerKey": labels[at]}

    def openbookqa(self):
        stem, ends, at = self.parted(4)
        # the harness strips the left of the key
        return {"id": "1-2", "question_stem": stem, "choices": {"text": ends, "label": list("ABCD")},
                "answerKey": " "[:self.draw.randint(0, 1)] + "ABCD"[at]}

    def hellaswag(self):
        front, ends, at = self.parted(4)
        words = front.split()
        mark = self.draw.choice(["", " [title] ", "[step]", " [substeps] x "])
        return {"activity_label": self.draw.choice(["Making a Cake", "Sailing"]), "ctx_a": " ".join(words[:2]) + mark,
                "ctx_b": self.draw.choice([" ".join(words[2:]), "ÉTAT McDonald " + words[2], "", "İx"[1:]]),
                "endings": [e.replace(" ", "  ", 1) + self.draw.choice(["", " [title] so", "."]) for e in ends],
                "label": str(at)}

    def winogrande(self):
        words, other = self.pick(), self.pick()
        at = self.draw.randint(3, 9)
        while other[at] == words[at]:  # a tie would be decided by the last bit
            other = self.pick()
        right = self.draw.randint(1, 2)
        options = [words[at], other[at]] if right == 1 else [other[at], words[at]]
        words = words[:at] + ["_"] + words[at + 1:at + 8]
        return {"sentence": " ".join(words), "option1": options[0], "option2": options[1], "answer": str(right)}

    def boolq(self):
        return {"passage": " ".join(self.pick()), "question": " ".join(self.pick()[:6]).lower(), "idx": 0,
                "label": self.draw.randint(0, 1)}

    def mmlu(self, subject):
        question, ends, at = self.parted(4)
        return {"question": self.draw.choice(["", " ", "\n"]) + question + " ", "subject": subject, "choices": ends, "answer": at}

    def truthful(self):
        question, ends, at = self.parted(4)
        ends = [ends[at]] + ends[:at] + ends[at + 1:]
        labels = [1] + [0] * 3
        more = [self.draw.randint(0, 1) for _ in ends[1:]]
        return {"question": question, "mc1_targets": {"choices": ends, "labels": labels},
                "mc2_targets": {"choices": ends, "labels": [1] + more}}

    def gsm8k(self):
        """Sums that a small model gets right now and then, in the forms that the filters know."""
        a, b, c = self.draw.randint(2, 9), self.draw.randint(2, 9), self.draw.choice([1, 1, 1, 100, 1000])
        what = self.draw.choice(["apples", "coins", "books"])
        total = "{:,}".format((a + b) * c)
        money = "$" if self.draw.random() < .3 else ""
        return {"question": "Tom has %s%d %s and gets %s%d more. How many %s does he have?" % (money, a * c, what, money, b * c, what),
                "answer": "%s%d + %s%d = <<%d+%d=%d>>%s%s\n#### %s" % (money, a * c, money, b * c, a * c, b * c, (a + b) * c, money,
                                                                      total, total)}

    def lambada(self):
        return {"text": " ".join(self.pick())}


def pages(path, count):
    out, page = [], []
    for line in open(path, encoding="utf-8", errors="ignore").read().split("\n"):
        flat = line.replace("= = =", "===").replace("= =", "==").strip()
        if flat.startswith("= ") and flat.endswith(" ="):
            out.append("\n".join(page))
            page = []
        page.append(line)
    return [{"page": p} for p in out if p.strip()][:count]


def make(text, items, train, page_count):
    """{task: (documents, documents for shots)}"""
    out = {}
    for task, kind in (("piqa", "piqa"), ("arc_easy", "arc"), ("arc_challenge", "arc"), ("openbookqa", "openbookqa"),
                       ("hellaswag", "hellaswag"), ("winogrande", "winogrande"), ("boolq", "boolq"),
                       ("truthfulqa_mc1", "truthful"), ("truthfulqa_mc2", "truthful"), ("lambada_openai", "lambada"), ("gsm8k", "gsm8k")):
        m = Maker(text, task)
        out[task] = [getattr(m, kind)() for _ in range(items)], [getattr(m, kind)() for _ in range(train)]
    for s in SUBJECTS:
        m = Maker(text, s)
        out["mmlu_" + s] = [m.mmlu(s) for _ in range(items // len(SUBJECTS))], [m.mmlu(s) for _ in range(5)]
    one = pages(text, page_count)
    out["wikitext"] = one, one[:1]
    return out


def write(folder, docs):
    files = {}
    for task, parts in docs.items():
        files[task] = []
        for name, rows in zip(("test", "train"), parts):
            path = os.path.join(folder, "%s_%s.jsonl" % (task, name))
            with open(path, "w", encoding="utf-8") as f:
                f.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            files[task].append(path)
    return files


class Harness:
    def __init__(self, model):
        import lm_eval
        from lm_eval.models.huggingface import HFLM
        from lm_eval.tasks import TaskManager
        from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
        import torch
        torch.set_num_threads(2)
        self.run, self.manager = lm_eval.simple_evaluate, TaskManager()
        config = json.load(open(os.path.join(model, "tokenizer_config.json")))
        names = {k: config[k] if isinstance(config[k], str) else config[k]["content"]
                 for k in ("bos_token", "eos_token") if config.get(k)}
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(model, "tokenizer.json"), **names)
        net = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        # its cache mixes up requests of one text that is parted in two places
        self.lm = HFLM(pretrained=net, tokenizer=tokenizer, batch_size=32, logits_cache=False)

    def figures(self, task, files, shots):
        data = {"test": files[0], "validation": files[0]}
        if os.path.getsize(files[1]):
            data.update({"train": files[1], "dev": files[1]})
        spec = {"task": task, "dataset_path": "json", "dataset_name": None, "dataset_kwargs": {"data_files": data},
                "num_fewshot": shots}
        # a spec by itself replaces the harness's own file of the task
        entry = self.manager._entry(task)
        made = self.manager._factory.build(entry, overrides=spec, registry=self.manager._index)
        out = self.run(model=self.lm, tasks=[made], task_manager=self.manager, log_samples=True)
        # "acc,none" as acc; "exact_match_stderr,strict-match" as it is
        return {k.replace(",none", ""): v for k, v in out["results"][task].items() if "," in k}, out["samples"][task]


def pare_figures(program, model, task, files, shots):
    command = [program, "eval", model, "--exact", "--format", "json", "--tasks", "%s=%s" % (task, files[0])]
    if shots:
        command += ["--shots", str(shots), "--shots-from", "%s=%s" % (task, files[1])]
    done = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["tasks"][0]
    out = {}
    for m in done["metrics"]:
        out[m["name"]] = m["value"]
        name, *filtered = m["name"].split(",")
        out[",".join([name + "_stderr"] + filtered)] = m.get("stderr")
    return out, done["n"]


def with_config(model, folder):
    """MODEL, or a folder that has a tokenizer_config.json, too."""
    if os.path.exists(os.path.join(model, "tokenizer_config.json")):
        return model
    out = os.path.join(folder, "model")
    os.mkdir(out)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        os.symlink(os.path.realpath(os.path.join(model, name)), os.path.join(out, name))
    with open(os.path.join(out, "tokenizer_config.json"), "w") as f:
        json.dump({"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}, f)
    return out


def compare(program, model, text, items, chosen):
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        model = with_config(model, folder)
        docs = make(text, items, 300, 12)
        files = write(folder, docs)
        harness = Harness(model)
        for task in docs:
            if chosen and task not in chosen:
                continue
            for shots in sorted({0, SHOTS.get(task, 0)}):
                mine, n = pare_figures(program, model, task, files[task], shots)
                theirs, _ = harness.figures(task, files[task], shots)
                for name, value in theirs.items():
                    if not isinstance(value, float) or name == "perplexity_stderr" or name not in mine:
                        continue
                    bar = BAR.get(name, 0) * abs(value) or 5e-5
                    bad = abs(mine[name] - value) > bar
                    wrong += bad
                    print("%-26s %d shots, %4d documents  %-16s harness %.6f  pare %.6f%s"
                          % (task, shots, n, name, value, mine[name], "  WRONG" if bad else ""), flush=True)
    return 1 if wrong else 0


def golden(model, text):
    folder = os.path.join(HERE, "..", "golden", "tasks")
    os.makedirs(folder, exist_ok=True)
    # hedge has no room for the 256 tokens of an answer to gsm8k
    docs = {k: (a[:4], b) for k, (a, b) in make(text, 8, 4, 1).items() if k != "gsm8k"}
    page = open(text, encoding="utf-8", errors="ignore").read()[:2400].replace(" -", " @-@ ").replace(",", " ,").replace(".", " .")
    docs["wikitext"] = ([{"page": " = Title = \n \n " + page}, {"page": " = Short = \n ( a )"}], [{"page": "a"}])
    docs["boolq"][0][1]["passage"] = " ".join(page.split()[:260])  # longer than the model takes
    files = write(folder, docs)
    harness = Harness(model)
    with open(os.path.join(folder, "..", "tasks.txt"), "w") as f:
        f.write("# written by ../interop/tasks.py golden: log-likelihoods and figures of lm_eval 0.4.13 on hedge\n")
        for task in docs:
            for shots in sorted({0, min(SHOTS.get(task, 0), 3)}):
                theirs, samples = harness.figures(task, files[task], shots)
                f.write("task %s %d\n" % (task, shots))
                for s in sorted(samples, key=lambda s: s["doc_id"]):
                    scores = s["filtered_resps"]
                    f.write("doc " + " ".join("%.5f" % (x[0] if isinstance(x, (list, tuple)) else x) for x in scores) + "\n")
                for name in ("acc", "acc_norm", "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte"):
                    if name in theirs:
                        f.write("figure %s %.6f\n" % (name, theirs[name]))
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "golden":
        sys.exit(golden(*sys.argv[2:]))
    sys.exit(compare(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6:]))
