"""Kept statistics as h5py reads them: kept_statistics.py PARE MODEL TEXT HDF5

What the file says of the first block's attention is held against NumPy, which takes the inputs from
embeddings and norm: x = e / sqrt(mean e^2 + eps) * g. HDF5 is "yes" where pare writes HDF5."""

import json
import os
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


def compress(folder, output, calibration):
    path = os.path.join(folder, f"{output}.yaml")
    with open(path, "w") as file:
        file.write(f"pare: 1\nmodel: {MODEL}\noutput: {folder}/{output}\ncalibration: {{{calibration}}}\n"
                   "passes: [gptq: {bits: 4, group: 64}]\n")
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

print(f"{failures} failures")
sys.exit(1 if failures else 0)
