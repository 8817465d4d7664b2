"""Reads FILE.pare.zst by what docs/storage.md says of it, with zstd's own program: archive.py FILE DIR.
The files of DIR must come out of it. Shares no line with pare."""

import hashlib
import json
import os
import struct
import subprocess
import sys


def decode(frame):
    return subprocess.run(["zstd", "-dcq"], input=frame, stdout=subprocess.PIPE, check=True).stdout


def join(planes, width):
    """The elements of which `planes` are the first bytes, the second ..., each turned right by a bit."""
    n, out = len(planes) // width, bytearray()
    for i in range(n):
        x = sum(planes[k * n + i] << 8 * k for k in range(width))
        out += (x >> 1 | (x & 1) << 8 * width - 1).to_bytes(width, "little")
    return bytes(out) + planes[n * width:]


def main():
    data = open(sys.argv[1], "rb").read()
    rows, flags, magic = struct.unpack("<IBI", data[-9:])
    assert magic == 0x8F92EAB1 and flags == 0
    table = len(data) - 9 - 8 * rows
    sizes = [struct.unpack_from("<II", data, table + 8 * i) for i in range(rows)]
    assert sum(stored for stored, _ in sizes) == table - 8
    at = sum(stored for stored, _ in sizes[:-1])
    magic, length = struct.unpack_from("<II", data, at)
    assert magic == 0x184D2A5D and at + 8 + length == table - 8
    index = json.loads(decode(data[at + 24:table - 8]))
    at, names, forms = sizes[0][0], [], set()
    for entry in index["files"]:
        names.append(entry["name"])
        whole = b""
        for frame in entry["frames"]:
            part = decode(data[at:at + frame["stored"]])
            forms.add(frame["form"])
            whole += join(part, int(frame["form"][-1])) if frame["form"].startswith("planes") else part
            at += frame["stored"]
        assert hashlib.sha256(whole).hexdigest() == entry["sha256"], entry["name"]
        assert whole == open(os.path.join(sys.argv[2], entry["name"]), "rb").read(), entry["name"]
    assert sorted(os.listdir(sys.argv[2])) == sorted(names)
    assert "planes2" in forms, forms
    plain = decode(data)  # a whole archive: the stretches in their forms
    assert len(plain) == sum(size for _, size in sizes)


main()
