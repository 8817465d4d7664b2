"""Order-0 entropy of the 16-bit floats of a checkpoint: exponents.py FILE.safetensors BF16|F16

A coder of exponents alone (DFloat11) stores sign and mantissa as they are, and the exponents at best
in their entropy: the bits per weight of the last line, without its tables."""
import array
import collections
import json
import math
import struct
import sys

MANTISSA = {"BF16": 7, "F16": 10}


def entropy(counts):
    total = sum(counts.values())
    return -sum(n / total * math.log2(n / total) for n in counts.values())


with open(sys.argv[1], "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    start, counts = f.tell(), collections.Counter()
    for name, t in header.items():
        if name != "__metadata__" and t["dtype"] == sys.argv[2]:
            begin, end = t["data_offsets"]
            f.seek(start + begin)
            counts.update(array.array("H", f.read(end - begin)))
bits = MANTISSA[sys.argv[2]]
exponents = collections.Counter()
for value, n in counts.items():
    exponents[(value & 0x7FFF) >> bits] += n
print(f"weights {sum(counts.values())}, entropy of exponents {entropy(exponents):.3f} bits")
best = 1 + bits + entropy(exponents)
print(f"sign, mantissa and coded exponent: {best:.3f} bits of 16, ratio {16 / best:.3f}")
