"""Arrays that NumPy and h5py wrote, as the readers of npz and HDF5 give them: arrays.py PROGRAM HDF5

PROGRAM prints the tensors of a file (tensor_bytes.c); HDF5 is "yes" where pare reads HDF5."""

import json
import os
import subprocess
import sys
import tempfile

import h5py
import numpy

PROGRAM, HDF5 = sys.argv[1:3]
failures = 0


def arrays():
    """Every type, ranks 0 to 5, orders of rows and of columns, views with gaps."""
    random = numpy.random.default_rng(1)
    types = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "bool"]
    out = {}
    for name in types:
        for shape in [(), (7,), (3, 5), (2, 3, 4), (2, 1, 3, 2, 2), (0, 4)]:
            values = (random.random(shape) * 100).astype(name)
            key = f"{name}.rank{len(shape)}"
            out[key] = values
            if len(shape) == 2:
                out[key + ".columns"] = numpy.asfortranarray(values)
                out[key + ".part"] = values[::2, 1:]
    out["large.weight"] = random.standard_normal((700, 333)).astype("f4")
    return out


def words(name, a):
    names = {"f2": "F16", "f4": "F32", "b1": "BOOL"}
    if a.dtype == numpy.float64:  # as which F64 is read
        a = a.astype(numpy.float32)
    kind = a.dtype.str[1:]
    dtype = names.get(kind, f"{kind[0].upper()}{8 * a.dtype.itemsize}")
    shape = "x".join(map(str, a.shape)) if a.shape else "scalar"
    return f"{name} {dtype} {shape} {a.tobytes().hex()}"


def run(path):
    return subprocess.run([PROGRAM, path], capture_output=True, text=True)


def check(what, condition, detail=""):
    global failures
    if not condition:
        failures += 1
        print(f"{what}: {detail[:300]}")


def same(path, expected):
    got = run(path)
    lines = sorted(words(k, v) for k, v in expected.items())
    what = os.path.basename(path)
    check(what, got.returncode == 0, got.stderr)
    ours = sorted(got.stdout.splitlines())
    check(what, len(ours) == len(lines), f"{len(ours)} tensors of {len(lines)}")
    for a, b in zip(ours, lines):
        check(what, a == b, f"{a[:120]} is not {b[:120]}")
    print(f"{what}: {len(lines)} arrays")


def refused(path, message):
    got = run(path)
    what = os.path.basename(path)
    check(what, got.returncode == 4 and message in got.stderr, got.stderr or "accepted")
    print(f"{what}: {got.stderr.strip()[-100:]}")


def npz(folder, data):
    path = f"{folder}/plain.npz"
    numpy.savez(path, **data)
    same(path, data)
    path = f"{folder}/compressed.npz"
    numpy.savez_compressed(path, **data)
    refused(path, "is compressed (method 8, deflate)")
    path = f"{folder}/objects.npz"
    numpy.savez(path, a=numpy.array([{}, 1], dtype=object))
    refused(path, "elements of type |O")
    path = f"{folder}/big_endian.npz"
    numpy.savez(path, a=numpy.arange(3, dtype=">f4"))
    refused(path, "only little-endian ones are read")


def hdf5(folder, data):
    for name, options in {
        "plain": {},
        "chunked": {"chunks": True},
        "gzip": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    }.items():
        path = f"{folder}/{name}.h5"
        with h5py.File(path, "w") as f:
            for key, a in data.items():
                f.create_dataset(key, data=a, **(options if a.ndim and a.size else {}))
        same(path, data)
    path = f"{folder}/groups.h5"
    with h5py.File(path, "w", libver=("v108", "v110")) as f:
        for key, a in data.items():
            f[key.replace(".", "/")] = a
        f.attrs["layer_names"] = list(data)
    same(path, {k: v for k, v in data.items()})
    malicious(folder)


def malicious(folder):
    path = f"{folder}/lzf.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("a", data=numpy.zeros((9, 9)), compression="lzf")
    refused(path, "filter 32000 (lzf)")
    path = f"{folder}/external.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("a", (4,), "f4", external=[("/etc/passwd", 0, 16)])
    refused(path, "external storage")
    path = f"{folder}/external_link.h5"
    with h5py.File(path, "w") as f:
        f["a"] = h5py.ExternalLink("plain.h5", "/f4.rank1")
    refused(path, "an external link")
    path = f"{folder}/virtual.h5"
    with h5py.File(path, "w") as f:
        layout = h5py.VirtualLayout((7,), "f4")
        layout[:] = h5py.VirtualSource("plain.h5", "f4.rank1", (7,))
        f.create_virtual_dataset("a", layout)
    refused(path, "a virtual dataset")
    path = f"{folder}/circle.h5"
    with h5py.File(path, "w") as f:
        f.create_group("g")["again"] = f["/"]
    refused(path, "was met before under another name")


with tempfile.TemporaryDirectory() as temporary:
    with open(f"{temporary}/config.json", "w") as config:
        json.dump({"model_type": "llama"}, config)
    everything = arrays()
    npz(temporary, everything)
    if HDF5 == "yes":
        # parts of a name may not be both a group and a dataset
        hdf5(temporary, {f"{k}.w": v for k, v in everything.items()})
    else:
        print("HDF5: pare was built without it")
sys.exit(1 if failures else 0)
