"""Every export of the demo model, read with the package safetensors and dequantized by the rules of
its engine in numpy, against `pare export --format safetensors` of the same artifact.
exports.py PARE MODEL CALIBRATION"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import safetensors

TYPES = {"F16": np.float16, "F32": np.float32, "I8": np.int8, "U8": np.uint8, "I16": np.int16,
         "I32": np.int32, "I64": np.int64, "F8_E4M3": np.uint8}

CALIBRATION = "calibration: {text: [%s], samples: 4, window: 128}\n"
CASES = [
    ("rtn: {bits: 4, group: 64}", ["gptq", "gptq_v2", "awq", "compressed-tensors"]),
    ("rtn: {bits: 4, group: 32, symmetric: false}", ["gptq_v2", "awq", "compressed-tensors"]),
    ("rtn: {bits: 3, group: 64}", ["gptq", "gptq_v2", "awq", "compressed-tensors"]),
    ("rtn: {bits: 2, group: row, symmetric: false}", ["gptq_v2", "awq", "compressed-tensors"]),
    ("rtn: {bits: 8, group: row}", ["gptq", "compressed-tensors"]),
    ("fp8: {group: row}", ["compressed-tensors"]),
    ("ternary: {group: 64}", ["compressed-tensors"]),
    ("smoothquant: {}, rtn: {bits: 8, group: row, activations: int8_token}", ["compressed-tensors"]),
    ("exl3: {bits: 3, targets: ['*.layers.0.self_attn.*']}", ["exl3"]),
    ("exl3: {bits: 5, targets: ['*.layers.1.self_attn.k_proj']}", ["exl3"]),
]


def tensors(folder):
    """All tensors of the weight files; FP8 as bytes."""
    out = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        with open(os.path.join(folder, name), "rb") as f:
            for key, t in safetensors.deserialize(f.read()):
                out[key] = np.frombuffer(t["data"], TYPES[t["dtype"]]).reshape(t["shape"])
    return out


def fields(words, bits, count):
    """`count` values of `bits` bits along the last axis of 32-bit words, lowest bit first."""
    stream = (words.view(np.uint32)[..., None] >> np.arange(32, dtype=np.uint32)) & 1
    stream = stream.reshape(*words.shape[:-1], -1)[..., : count * bits]
    stream = stream.reshape(*words.shape[:-1], count, bits).astype(np.int64)
    return (stream << np.arange(bits)).sum(-1)


def columns(scale, k):
    return np.repeat(scale, k // scale.shape[1], axis=1)


def e4m3(code):
    code = code.astype(np.int64)
    exponent, fraction = code >> 3 & 15, code & 7
    size = np.where(exponent > 0, (8 + fraction) * 2.0 ** (exponent - 10), fraction * 2.0**-9)
    return np.where(code & 128, -size, size)


def compressed_tensors(t, name, config):
    scale = t[name + ".weight_scale"].astype(np.float64)
    if name + ".weight" in t:
        code = t[name + ".weight"]
        kind = [g for g in config["config_groups"].values()][0]["format"]
        assert kind == ("int-quantized" if code.dtype == np.int8 else "float-quantized")
        return (code if code.dtype == np.int8 else e4m3(code)) * columns(scale, code.shape[1])
    n, k = t[name + ".weight_shape"]
    bits = [g for g in config["config_groups"].values()][0]["weights"]["num_bits"]
    q = fields(t[name + ".weight_packed"], bits, k) - 2 ** (bits - 1)
    zero = np.zeros_like(scale)
    if name + ".weight_zero_point" in t:
        zero = fields(t[name + ".weight_zero_point"].T.copy(), bits, n).T - 2 ** (bits - 1)
    return (q - columns(zero, k)) * columns(scale, k)


def gptq(t, name, config):
    bits, group = config["bits"], t[name + ".g_idx"]
    k, n = len(group), t[name + ".scales"].shape[1]
    q = fields(t[name + ".qweight"].T.copy(), bits, k)
    zero = fields(t[name + ".qzeros"], bits, n) + (config["checkpoint_format"] == "gptq")
    return (q - zero.T[:, group]) * t[name + ".scales"].astype(np.float64).T[:, group]


def awq(t, name, config):
    place = np.array([0, 4, 1, 5, 2, 6, 3, 7])
    scale = t[name + ".scales"].astype(np.float64)
    q, zero = [
        (x.view(np.uint32)[..., None] >> (4 * place).astype(np.uint32) & 15).astype(np.int64)
        .reshape(x.shape[0], -1)
        for x in (t[name + ".qweight"], t[name + ".qzeros"])
    ]
    group = np.arange(len(q)) // (len(q) // len(scale))
    return ((q - zero[group]) * scale[group]).T


def hadamard(x):
    """Rows of x times matrices of 128."""
    h = np.ones((1, 1))
    while len(h) < 128:
        h = np.block([[h, h], [h, -h]])
    return (x.reshape(-1, 128) @ h / np.sqrt(128)).reshape(x.shape)


def exl3(t, name, config):
    entry = config["tensor_storage"][name]
    for full, form in entry["stored_tensors"].items():
        assert list(t[full].shape) == form["shape"], full
    tiles, bits = t[name + ".trellis"].view(np.uint16), entry["bits_per_weight"]
    assert int(t[name + ".mul1"]) & 0xFFFFFFFF == entry["mul1_multiplier"] == 0x83DCD12D
    words = tiles.reshape(*tiles.shape[:2], -1, 2)[..., ::-1].reshape(tiles.shape)
    stream = (words[..., None] >> np.arange(15, -1, -1, dtype=np.uint16) & 1).reshape(
        *tiles.shape[:2], 256 * bits).astype(np.uint32)
    state = sum(np.roll(stream, i, -1)[..., bits - 1 :: bits] << i for i in range(16))
    product = (state.astype(np.uint64) * 0x83DCD12D & 0xFFFFFFFF).astype("<u4")
    total = product.view(np.uint8).reshape(*product.shape, 4).sum(-1)
    scale, offset = np.array([0x1EEE, 0xC931], np.uint16).view(np.float16).astype(np.float64)
    value = (scale * (1024 + total) + offset).astype(np.float16).astype(np.float64)
    t256 = np.arange(256)
    thread, j = t256 // 8, t256 % 8
    inner = np.zeros((*tiles.shape[:2], 16, 16))
    inner[..., thread % 4 * 2 + (j & 1) + 8 * (j >> 1 & 1), thread // 4 + 8 * (j >> 2)] = value
    inner = inner.transpose(0, 2, 1, 3).reshape(tiles.shape[0] * 16, -1)
    turned = hadamard(hadamard(inner.T.copy()).T.copy()).T
    return (turned * t[name + ".svh"].astype(np.float64)[:, None]
            * t[name + ".suh"].astype(np.float64)[None])


READ = {"compressed-tensors": compressed_tensors, "gptq": gptq, "gptq_v2": gptq, "awq": awq,
        "exl3": exl3}
MARK = {"compressed-tensors": ".weight_scale", "gptq": ".qweight", "gptq_v2": ".qweight",
        "awq": ".qweight", "exl3": ".trellis"}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.returncode}\n{done.stderr}")


def compare(folder, target, plain):
    t = tensors(folder)
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)["quantization_config"]
    names = [n[: -len(MARK[target])] for n in t if n.endswith(MARK[target])]
    assert names
    for name in names:
        is_, was = READ[target](t, name, config), plain[name + ".weight"].astype(np.float64)
        sums = 2.0**-20 * np.abs(is_).max() if target == "exl3" else 0  # of 128 numbers in F32
        if not (np.abs(is_ - was) <= np.abs(is_) * 2.0**-11 + 2.0**-25 + sums).all():
            sys.exit(f"{target}: {name}: {np.abs(is_ - was).max()} apart")
    rest = [n for n in t if not any(n.startswith(name + ".") for name in names)]
    for name in rest:
        assert name in plain and t[name].tobytes() == plain[name].tobytes(), name
    assert len(rest) + len(names) == len(plain)
    return len(names)


def main():
    pare, model, text = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for i, (passes, targets) in enumerate(CASES):
            recipe, output = os.path.join(folder, f"{i}.yaml"), os.path.join(folder, f"{i}")
            with open(recipe, "w") as f:
                f.write(f"pare: 1\nmodel: {model}\noutput: {output}\n")
                f.write(CALIBRATION % text if "smooth" in passes or "exl3" in passes else "")
                f.write(f"passes: [{passes}]\nexport:\n")
                for target in targets + ["safetensors"]:
                    f.write(f"  - {{format: {target}, path: {output}-{target}}}\n")
            run(pare, "compress", recipe)
            plain = tensors(f"{output}-safetensors")
            for target in targets:
                count = compare(f"{output}-{target}", target, plain)
                print(f"{passes:48} {target:20} {count} linears as engines compute them")


main()
