#!/usr/bin/python3
# gguf.py - GGUF files: blocks decoded to the last bit, and each command that reads checkpoints.
"""
GGUF_PYTHON names a python with the package `gguf` (`pip install gguf`): then its code decodes the same blocks, and the first
difference is named.
"""
import hashlib
import json
import os
import struct
import subprocess
import sys
import zlib

import numpy

for folder in ("common", "fuzz"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))
import tap  # noqa: E402
from attack_files import gguf  # noqa: E402

GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
PYTHON = os.environ.get("GGUF_PYTHON")

# name: (number in GGUF, elements and bytes of a block, places of its halves, CRC-32 of what the package `gguf` decodes as float32)
BLOCKS = {
    "q4_0": (2, 32, 18, [0], 0xb968a413), "q4_1": (3, 32, 20, [0, 2], 0x207aeeab), "q5_0": (6, 32, 22, [0], 0x780de438), "q5_1": (7, 32, 24, [0, 2], 0xd189088e),
    "q8_0": (8, 32, 34, [0], 0x96c155b5), "q2_K": (10, 256, 84, [80, 82], 0x9f494cea), "q3_K": (11, 256, 110, [108], 0xb7dc5e79),
    "q4_K": (12, 256, 144, [0, 2], 0x21cf7445), "q5_K": (13, 256, 176, [0, 2], 0xc10ed576), "q6_K": (14, 256, 210, [208], 0x313c32c3),
}
ROWS = 6


def run(*words):
    return subprocess.run([GTRAIN, "ckpt", *words], capture_output=True, text=True, check=False)


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)
    return path


def quantized(name):
    """Blocks of any bits, but for their halves, which are small numbers; two blocks in a row."""
    _, _, size, halves, _ = BLOCKS[name]
    data = bytearray(hashlib.shake_256(name.encode()).digest(2 * ROWS * size))
    for block in range(2 * ROWS):
        for i, at in enumerate(halves):
            struct.pack_into("<e", data, block * size + at, (block - 3.25) * (0.0137 if i else 0.071))
    return bytes(data)


BY_PACKAGE = """
import sys, numpy, gguf
kind, size = gguf.GGMLQuantizationType(int(sys.argv[1])), int(sys.argv[2])
data = numpy.frombuffer(sys.stdin.buffer.read(), numpy.uint8).reshape(-1, size)
sys.stdout.buffer.write(gguf.quants.dequantize(data, kind).astype("<f4").tobytes())
"""


def difference(name, got):
    """The decoded tensor beside the package's, or its checksum."""
    number, _, size, _, crc = BLOCKS[name]
    if PYTHON:
        right = subprocess.run([PYTHON, "-c", BY_PACKAGE, str(number), str(size)], input=quantized(name), capture_output=True, check=True).stdout
        right = numpy.frombuffer(right, "<f4").reshape(got.shape)
        wrong = numpy.argwhere(got.view("<u4") != right.view("<u4"))
        if len(wrong):
            at = tuple(wrong[0])
            return "%d elements differ: %s is %r, not %r" % (len(wrong), at, got[at], right[at])
        return "" if zlib.crc32(right.tobytes()) == crc else "the CRC-32 is %#x" % zlib.crc32(right.tobytes())
    return "" if zlib.crc32(got.tobytes()) == crc else "other elements than those of the package"


def blocks(folder):
    tensors = [(name, (2 * elements, ROWS), number, quantized(name)) for name, (number, elements, *_) in BLOCKS.items()]
    path, out = write(os.path.join(folder, "q.gguf"), gguf(tensors)), os.path.join(folder, "q.npz")
    done = run("convert", path, "-o", out)
    if done.returncode:
        yield "convert", done.stderr
        return
    with numpy.load(out) as arrays:
        for name, (_, elements, *_) in BLOCKS.items():
            got = arrays[name]
            yield name, difference(name, got) if got.shape == (ROWS, 2 * elements) and got.dtype == "<f4" else str(got.shape)
    done = run("ls", "--json", path)
    stored = {t["key"]: t.get("stored_as") for t in json.loads(done.stdout)["tensors"]}
    yield "ls names the types", "" if stored == {name: name for name in BLOCKS} else str(stored)


PLAIN = {"f32": (0, "<f4"), "f16": (1, "<f2"), "i8": (24, "i1"), "i16": (25, "<i2"), "i32": (26, "<i4"), "i64": (27, "<i8"), "f64": (28, "<f8")}
METADATA = [("general.architecture", 8, "llama"), ("general.name", 8, "\u00e9t\u00e9"), ("general.alignment", 4, 64), ("a.u8", 0, 255), ("a.i8", 1, -1),
            ("a.u16", 2, 65535), ("a.i16", 3, -2), ("a.i32", 5, -3), ("a.eps", 6, 1e-6), ("a.third", 6, 1 / 3), ("a.yes", 7, True),
            ("a.u64", 10, 2**64 - 1), ("a.i64", 11, -2**63), ("a.f64", 12, 0.1), ("a.short", 9, (5, [1, -2])),
            ("a.long", 9, (4, list(range(100)))), ("tokenizer.ggml.tokens", 9, (8, ["a", "\u00e9", ""]))]
TEXTS = {"general.architecture": "llama", "general.name": "\u00e9t\u00e9", "general.alignment": "64", "a.u8": "255", "a.i8": "-1", "a.u16": "65535", "a.i16": "-2",
         "a.i32": "-3", "a.eps": "1e-06", "a.third": "0.333333343", "a.yes": "true", "a.u64": str(2**64 - 1), "a.i64": str(-2**63), "a.f64": "0.1",
         "a.short": "[1, -2]", "a.long": "100 numbers", "tokenizer.ggml.tokens": "3 strings"}


def commands(folder):
    """A file of both versions with every plain type, through each command."""
    arrays = {name: numpy.arange(12).reshape(4, 3).astype(kind) for name, (_, kind) in PLAIN.items()}
    tensors = [(name, (3, 4), number, arrays[name].tobytes()) for name, (number, _) in PLAIN.items()]
    tensors += [("bf16", (2,), 30, struct.pack("<2H", 0x3f80, 0xc000)), ("scalar", (), 0, struct.pack("<f", 2.5)), ("none", (0, 4), 0, b"")]
    path, out = os.path.join(folder, "p.gguf"), os.path.join(folder, "p.npz")
    for version in 2, 3:
        write(path, gguf(tensors, METADATA, version, align=64))
        listed = json.loads(run("ls", "--json", path).stdout)
        yield "metadata of version %d" % version, "" if listed["metadata"] == TEXTS else str(listed["metadata"])
        done = run("convert", path, "--dtype", "fp32", "-o", out)
        with numpy.load(out) as got:
            wrong = [name for name in arrays if not numpy.array_equal(got[name], arrays[name])]
            wrong += [] if got["bf16"].tolist() == [1, -2] and got["scalar"] == 2.5 and got["none"].shape == (4, 0) else ["bf16, scalar or none"]
        yield "convert of version %d" % version, done.stderr if done.returncode else " ".join(wrong)
    for words in (["verify", path], ["diff", path, path], ["select", path, "--keys", "f*", "-o", os.path.join(folder, "s.safetensors")],
                  ["merge", path, path, "--average", "-o", os.path.join(folder, "m.pth")], ["ls", "--stats", path]):
        done = run(*words)
        yield words[0], done.stdout + done.stderr if done.returncode else ""
    done = run("rename", path, "--map", "f=g", "-o", os.path.join(folder, "r.gguf"))
    yield "rename is refused", "" if done.returncode == 1 and "gguf" in done.stderr else done.stderr


if __name__ == "__main__":
    sys.exit(tap.run([blocks, commands], GTRAIN, sys.argv[1:]))
