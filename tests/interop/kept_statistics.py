"""Kept statistics as h5py reads them, and importance matrices: kept_statistics.py PARE MODEL TEXT HDF5

What the file says of the first block's attention is held against NumPy, which takes the inputs from
embeddings and norm: x = e / sqrt(mean e^2 + eps) * g. Importance matrices with the same sums, as
llama.cpp writes them, give the bytes that the file gives. HDF5 is "yes" where pare writes HDF5."""

import json
import os
import struct
import subprocess
import sys
import tempfile

import h5py
import numpy
import safetensors.numpy

PARE, MODEL, TEXT, HDF5 = sys.argv[1:5]
if HDF5 != "yes":
    print("skipped: pare was built without HDF5")
    sys.exit(77)
failures = 0


def check(what, condition, detail=""):
    global failures
    if not condition:
        failures += 1
        print(f"{what}: {detail}")


def close(what, ours, expected, bound):
    error = numpy.abs(ours - expected).max() / numpy.abs(expected).max()
    check(what, error < bound, f"off by {error:.2e} of the largest, more than {bound:.0e}")


def compress(folder, output, calibration, step="gptq: {bits: 4, group: 64}"):
    path = os.path.join(folder, f"{output}.yaml")
    with open(path, "w") as file:
        file.write(f"pare: 1\nmodel: {MODEL}\noutput: {folder}/{output}\ncalibration: {{{calibration}}}\n"
                   f"passes: [{step}]\n")
    ran = subprocess.run([PARE, "compress", path, "--threads", "2"], capture_output=True, text=True)
    check(f"compress {output}", ran.returncode == 0, ran.stderr[-300:])
    return {name: open(os.path.join(folder, output, name), "rb").read()
            for name in sorted(os.listdir(os.path.join(folder, output))) if name.startswith("packed-")}


def inputs(tokens):
    tensors = {}
    for name in sorted(os.listdir(MODEL)):
        if name.endswith(".safetensors"):
            tensors.update(safetensors.numpy.load_file(os.path.join(MODEL, name)))
    eps = json.load(open(os.path.join(MODEL, "config.json")))["rms_norm_eps"]
    e = tensors["model.embed_tokens.weight"][tokens.reshape(-1)].astype(numpy.float64)
    gain = tensors["model.layers.0.input_layernorm.weight"].astype(numpy.float64)
    return e / numpy.sqrt((e * e).mean(axis=1, keepdims=True) + eps) * gain


def same_as_numpy(file):
    x = inputs(file["tokens"][()])
    site = file["block00000/attention"]
    check("tokens", site["tokens"][0] == len(x), f"{site['tokens'][0]}, not {len(x)}")
    k = x.shape[1]
    h = numpy.zeros((k, k))
    h[numpy.tril_indices(k)] = site["h"]
    close("H", h, numpy.tril(x.T @ x), 1e-4)
    close("fourth", site["fourth"][()], (x**4).sum(axis=0), 1e-3)
    close("min", site["min"][()], x.min(axis=0), 1e-4)
    close("max", site["max"][()], x.max(axis=0), 1e-4)
    close("sum", site["sum"][()], x.sum(axis=0), 1e-4)
    close("abs_sum", site["abs_sum"][()], numpy.abs(x).sum(axis=0), 1e-4)
    close("loudness", site["loudness"][()], [(x * x).sum(), (x * x).sum(axis=1).max()], 1e-4)
    rows = site["sample"][()]
    far = min(len(rows), 32)
    nearest = [numpy.abs(x - row).max(axis=1).min() for row in rows[:far]]
    check("sample", max(nearest) < 1e-4 * numpy.abs(x).max(), f"a row is no input: {max(nearest):.2e}")


def written_again(path, again):
    """The same datasets, laid out by h5py as it likes."""
    with h5py.File(path) as source, h5py.File(again, "w") as target:
        def copy(name, item):
            if isinstance(item, h5py.Dataset):
                target.create_dataset(name, data=item[()])
        source.visititems(copy)


LINEARS = {"attention": ("attn_q", "attn_k", "attn_v"), "attended": ("attn_output",),
           "mlp": ("ffn_gate", "ffn_up"), "activated": ("ffn_down",)}


def sums(file):
    """Names of GGUF files, sums of squares of the inputs, tokens."""
    for block in range(sum(name.startswith("block") for name in file)):
        for site, linears in LINEARS.items():
            group = file[f"block{block:05}/{site}"]
            k = int(numpy.sqrt(2 * len(group["h"])))
            diagonal = group["h"][()][[i * (i + 3) // 2 for i in range(k)]]
            for linear in linears:
                yield f"blk.{block}.{linear}.weight", diagonal, int(group["tokens"][0])


def write_gguf(path, entries, chunk):
    def text(t):
        return struct.pack("<Q", len(t)) + t.encode()

    values = [text("general.type") + struct.pack("<I", 8) + text("imatrix"),
              text("imatrix.chunk_count") + struct.pack("<II", 4, entries[0][2] // chunk),
              text("imatrix.chunk_size") + struct.pack("<II", 4, chunk)]
    head, data = b"", b""
    for name, diagonal, tokens in entries:
        for tail, array in (("in_sum2", diagonal), ("counts", numpy.float32([tokens]))):
            head += text(f"{name}.{tail}") + struct.pack("<IQQIQ", 2, len(array), 1, 0, len(data))
            data += array.tobytes() + bytes(-array.nbytes % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, 2 * len(entries), len(values)) + b"".join(values) + head
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32) + data)


def write_older(path, entries):
    """Mean squares times the chunks of 512 tokens."""
    with open(path, "wb") as file:
        file.write(struct.pack("<i", len(entries)))
        for name, diagonal, tokens in entries:
            file.write(struct.pack("<i", len(name)) + name.encode())
            file.write(struct.pack("<ii", tokens // 512, len(diagonal)) + (diagonal / numpy.float32(512)).tobytes())
        file.write(struct.pack("<ii", entries[0][2] // 512, 4) + b"text")


def refuses(folder, name, step, words):
    path = os.path.join(folder, "refused.yaml")
    with open(path, "w") as file:
        file.write(f"pare: 1\nmodel: {MODEL}\noutput: {folder}/refused\ncalibration: {{from: {name}}}\n"
                   f"passes: [{step}]\n")
    ran = subprocess.run([PARE, "plan", path], capture_output=True, text=True)
    check(f"{step} from {name}", ran.returncode in (2, 4) and words in ran.stderr, ran.stderr[-300:])


def importance(folder, kept):
    step = "rtn: {bits: 4, group: 64, clip: weighted}"
    with h5py.File(kept) as file:
        entries = list(sums(file))
    write_gguf(os.path.join(folder, "imatrix.gguf"), entries, 64)
    write_older(os.path.join(folder, "imatrix.dat"), entries)
    ours = compress(folder, "kept", f"from: {kept}", step)
    for name in ("imatrix.gguf", "imatrix.dat"):
        theirs = compress(folder, f"from-{name[8:]}", f"from: {folder}/{name}", step)
        check(name, ours and theirs == ours, "the bytes differ")
    refuses(folder, "imatrix.gguf", "gptq: {}", "needs the whole Hessian")
    refuses(folder, "imatrix.gguf", "awq, rtn", "transforms inputs by more than the sizes")
    write_gguf(os.path.join(folder, "other.gguf"), entries[:-1], 64)
    refuses(folder, "other.gguf", step, "importance of model.layers.5.mlp.down_proj")


with tempfile.TemporaryDirectory() as folder:
    data = f"text: [{TEXT}], samples: 16, window: 64, precision: f32, token_weights: even"
    kept = os.path.join(folder, "stats.h5")
    first = compress(folder, "first", f"{data}, keep: {kept}")
    with h5py.File(kept) as file:
        check("settings", json.loads(file["settings"][()].tobytes())["token_weights"] == "even", "not even")
        same_as_numpy(file)
    again = os.path.join(folder, "again.h5")
    written_again(kept, again)
    check("bytes", first and compress(folder, "second", f"from: {again}") == first, "differ")
    importance(folder, kept)

print(f"{failures} failures")
sys.exit(1 if failures else 0)
