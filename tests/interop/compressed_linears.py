"""Writes compressed_linears.json: small linears in the words and bytes of compressed-tensors, by its own
schemes and compressors, and the weights that its dequantize makes of them in F32, bit for bit
(unit.compressed_linears replays them).

    compressed_linears.py OUT

Runs in the environment `torch` of heavy.sh. A line of "tensors" is one of tests/fuzz/quantized_input.h."""

import json
import sys

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
from compressed_tensors.quantization import QuantizationConfig, preset_name_to_scheme
from compressed_tensors.quantization.lifecycle.forward import dequantize

import foreign

NAME, K = "model.layers.0.mlp.down_proj", 64
TYPES = {torch.uint8: "U8", torch.int8: "I8", torch.int32: "I32", torch.int64: "I64",
         torch.float8_e4m3fn: "F8_E4M3", torch.bfloat16: "BF16", torch.float32: "F32"}

# preset, rows, format, and what differs in its weights
CASES = [
    ("NVFP4A16", 2, "nvfp4-pack-quantized", {}),
    ("NVFP4", 2, "nvfp4-pack-quantized", {}),
    ("MXFP4A16", 2, "mxfp4-pack-quantized", {}),
    ("MXFP4", 2, "mxfp4-pack-quantized", {}),
    *((f"W{bits}A16", 4, "pack-quantized", {"group_size": 32}) for bits in range(2, 9)),
    *((f"W{bits}A16", 4, "pack-quantized", {"group_size": 32, "symmetric": False})
      for bits in (2, 3, 5, 6, 7)),
    ("W3A16", 5, "pack-quantized", {"group_size": None, "strategy": "channel"}),
]


def state_of(w, weights, kind):
    if kind != "pack-quantized":
        return {"weight": w, **foreign.pairs(w, kind)}
    scale, zero = foreign.grid(w, weights.num_bits, weights.group_size or w.shape[1],
                               weights.symmetric)
    return {"weight": w, "weight_scale": scale, "weight_zero_point": zero}


def weights_of(done, weights, shape):
    """In F32; the package's own decompress ends in the type of the scales, BF16 for E2M1."""
    zero, packed = done.get("weight_zero_point"), done["weight_packed"]
    scale, divisor = done["weight_scale"], done.get("weight_global_scale")
    if packed.dtype == torch.uint8:
        codes = unpack_fp4_from_uint8(packed, *shape, dtype=torch.float32)
        scale = scale.float() if divisor is not None else 2.0 ** (scale.int() - 127)
    else:
        codes = unpack_from_int32(packed, weights.num_bits, shape)
        if zero is not None:
            zero = unpack_from_int32(zero, weights.num_bits, (shape[0], scale.shape[1]), 0)
    return dequantize(codes, scale, zero, weights, torch.float32, divisor)


def line(name, t):
    values = t.view(torch.uint8) if t.dtype == torch.float8_e4m3fn else t
    words = " ".join(repr(v) for v in values.flatten().tolist())
    return f"{NAME}.{name} {TYPES[t.dtype]} {' '.join(map(str, t.shape))} = {words}\n"


def make(preset, rows, kind, changes):
    scheme = preset_name_to_scheme(preset, ["Linear"])
    scheme.weights = scheme.weights.model_copy(update=changes)
    scheme.format = kind
    w = torch.randn(rows, K, generator=torch.Generator().manual_seed(rows + len(preset)))
    compressor = BaseCompressor.get_value_from_registry(kind)
    done = compressor.compress(state_of(w, scheme.weights, kind), scheme)
    back = weights_of(done, scheme.weights, w.shape)
    theirs = compressor.decompress(done, scheme)["weight"]
    assert torch.equal(back.to(theirs.dtype), theirs), preset
    if scheme.input_activations is not None and kind.startswith("nvfp4"):
        done["input_global_scale"] = torch.tensor([12.5])
    config = QuantizationConfig(config_groups={"group_0": scheme}, format=kind, ignore=["lm_head"],
                                quantization_status="compressed").model_dump(mode="json")
    return {"name": f"{preset} {changes}", "config": {"model_type": "llama",
                                                      "quantization_config": config},
            "tensors": "".join(line(k, v) for k, v in done.items()),
            "weights": back.contiguous().view(torch.int32).flatten().tolist()}


if __name__ == "__main__":
    cases = ",\n".join(json.dumps(make(*case)) for case in CASES)
    with open(sys.argv[1], "w", encoding="utf8") as out:
        out.write(f"[\n{cases}\n]\n")
