"""Values of blocks of random bytes, against those of the package gguf.

    ggml_values.py GGML_VALUES GRIDS.h

Every type of block that the package decodes must give the same floats, infinite ones and NaN
included, or be one that pare refuses by name. The header of the grids is what ggml_grids.py writes.
"""
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

import ggml_grids

BLOCKS = 4000
REFUSED = {"Q1_0", "Q2_0"}


def ours(program, name, raw):
    done = subprocess.run([program, name], input=raw.tobytes(), capture_output=True)
    return np.frombuffer(done.stdout, np.float32) if done.returncode == 0 else None


def main():
    rng, checked = np.random.default_rng(3), 0
    for kind in Type:
        elements, size = gguf.GGML_QUANT_SIZES.get(kind, (1, 0))
        if elements == 1 or kind.name in ("Q8_1", "Q8_K"):  # the last two are in no file
            continue
        raw = rng.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
        found = ours(sys.argv[1], kind.name, raw)
        if kind.name in REFUSED:
            assert found is None, f"{kind.name} is read and not in the test"
            continue
        with np.errstate(all="ignore"):
            wanted = gguf.quants.dequantize(raw, kind).reshape(-1)
        assert found is not None and found.size == BLOCKS * elements, f"{kind.name} is not read"
        same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        assert same.all(), f"{kind.name}: element {np.argmin(same)} differs"
        checked += 1
    assert checked >= 21, checked
    doubles = np.concatenate([rng.normal(size=1000), [1e300, -1e-320, 1e-42, np.nan]])
    with np.errstate(over="ignore"):
        assert np.array_equal(ours(sys.argv[1], "F64", doubles), doubles.astype(np.float32), True)
    text = "\n".join(ggml_grids.lines()) + "\n"
    assert Path(sys.argv[2]).read_text() == text, "the header of the grids is another"
    print(f"{checked} types of blocks: {BLOCKS} random blocks each, the same floats")


if __name__ == "__main__":
    main()
