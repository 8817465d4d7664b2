"""Logits of GGUF files by llama.cpp (llama-cpp-python), and the ids of its tokenizer.
engine_llama.py JOBS RESULTS"""

import llama_cpp
import numpy as np

import engine_compare

F32 = 0  # type of ggml


def make_logits(job, tokens):
    """Keys and values are kept in F32, so that what differs is the arithmetic of the weights."""
    window = job["window"]
    model = llama_cpp.Llama(model_path=job["path"], n_ctx=window, n_batch=window, n_ubatch=window,
                            logits_all=True, n_threads=1, n_threads_batch=1, type_k=F32, type_v=F32,
                            use_mmap=False, verbose=False)
    found = np.empty((*tokens.shape, model.n_vocab()), np.float32)
    for row, ids in zip(found, tokens):
        model.reset()
        model.eval([int(t) for t in ids])
        row[:] = model.scores[:window]
    extra = {}
    if "lines" in job:
        lines, wanted = engine_compare.read_lines(job["lines"])
        found_ids = [model.tokenize(x.encode(), add_bos=False, special=True) for x in lines]
        extra["lines"] = engine_compare.compare_ids(lines, found_ids, wanted)
    model.close()
    return found, extra


engine_compare.work(make_logits, {"llama-cpp-python": llama_cpp.__version__})
