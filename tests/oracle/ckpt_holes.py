#!/usr/bin/python3
# ckpt_holes.py - files of a TiB that are holes but for a few bytes: every command says at once what is wrong.
import os
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402

GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
TIB, MIB = 1 << 40, 1 << 20
SECONDS = 10  # a command takes milliseconds, a TiB minutes


# ---- files: (name, size, bytes at their places, a part of what is said) ----

def local(name, content=b""):
    """A record's header in a zip, of unknown size."""
    return b"PK\3\4" + struct.pack("<HHHHHIIIHH", 20, 0x808, 0, 0, 0, 0, 0, 0, len(name), 0) + name + content


def safetensors(text, length):
    return struct.pack("<Q", length) + text.ljust(length)


CUT = "the file is cut: a zip archive of 1099511627776 bytes without its end record"
MEMORY = "bytes of memory are asked for"
INDEX = "an index of 1099511627776 bytes: the most is 268435456"
HALF_ZERO = "not a checkpoint: the first and the last MiB are all zeros, the rest was not checked"
PYTHON_2 = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}."  # the first pickles of torch.save
FILES = (
    ("nothing", TIB, {}, "the file is all zeros"),
    ("nothing of a few bytes", 5, {}, "the file is all zeros"),
    ("written zeros", TIB, {1 << 30: bytes(MIB)}, "the file is all zeros"),
    ("written zeros, more of them", TIB, {0: bytes(MIB), TIB - MIB: bytes(MIB)}, HALF_ZERO),
    ("one byte amid zeros", TIB, {0: bytes(MIB), TIB // 2: b"x", TIB - MIB: bytes(MIB)}, HALF_ZERO),
    ("one byte amid a hole", TIB, {TIB // 2: b"x"}, "not a checkpoint: the first bytes"),
    ("one byte at the end", TIB, {TIB - 1: b"x"}, "not a checkpoint: the first bytes"),
    ("zip signature", TIB, {0: b"PK\3\4"}, CUT),
    ("zip, its first record", TIB, {0: local(b"archive/version")}, CUT),
    ("zip, its pickle begun", TIB, {0: local(b"archive/data.pkl", b"\x80\x02")}, CUT),
    ("zip, an end record", TIB, {0: b"PK\3\4", TIB - 22: b"PK\5\6".ljust(22, b"\0")}, "zip: a directory of 0 records"),
    ("npz, its first record", TIB, {0: local(b"a.npy")}, CUT),
    ("legacy, protocol", TIB, {0: b"\x80\x02"}, "no known opcode"),
    ("legacy, the third pickle", TIB, {0: PYTHON_2}, "no known opcode"),
    ("legacy, a line", TIB, {0: b"\x80\x02c"}, MEMORY),
    ("legacy, a number", TIB, {0: b"\x80\x02I"}, MEMORY),
    ("legacy, a text of 2 GiB", TIB, {0: b"\x80\x02X\xff\xff\xff\x7f"}, MEMORY),
    ("legacy, a text of all", TIB, {0: b"\x80\x04\x8d" + struct.pack("<Q", TIB - 64)}, MEMORY),
    ("legacy, bytes of all", TIB, {0: b"\x80\x04\x8e" + struct.pack("<Q", TIB - 12), TIB - 1: b"."}, MEMORY),
    ("safetensors, an open header", TIB, {0: struct.pack("<Q", 100000000) + b"{"}, "JSON: byte 9"),
    ("safetensors, no tensors", TIB, {0: safetensors(b"{}", 8)}, "belong to no tensor"),
    ("safetensors, more than a TiB", TIB, {0: safetensors(
        b'{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (TIB, TIB), 80)}, "88 of its 1099511627864 bytes"),
    ("npy, a header of 4 GiB", TIB, {0: b"\x93NUMPY\2\0\xff\xff\xff\xff"}, "npy: a header of 4294967295 bytes"),
    ("index, a name", TIB, {0: b'{"weight_map":{"a'}, INDEX),
    ("index, a list", TIB, {0: b'{"weight_map":{"a":['}, INDEX),
    ("GGUF, no tensors", TIB, {0: b"GGUF" + struct.pack("<IQQ", 3, 0, 0)}, "belong to no tensor"),
    ("GGUF, strings", TIB, {0: b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 8, 1 << 36)}, "has 68719476736 strings"),
    ("GGUF, numbers", TIB, {0: b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 10, 1 << 36)}, "belong to no tensor"),
    ("tar", TIB, {257: b"ustar"}, "a tar archive"),
)


# ---- commands ----

MLP = "--model mlp:4,3,2 --data random --quiet"
COMMANDS = ["ckpt " + line for line in (
    "ls F", "ls --stats F", "ls --json F", "verify F", "verify --json F", "verify --repair F", "diff F F",
    "strip-module F -o OUT", "strip-module F --in-place", "add-module F --in-place", "rename F --map a=b --in-place",
    "remap F --map cuda:*=cpu --in-place", "convert F -o OUT", "convert F -o OUT.safetensors --shard-size 1M",
    "select F --keys * -o OUT", "merge F F -o OUT", "merge F F --average -o OUT")]
COMMANDS += ["eval --ckpt F " + MLP, "train --init-from F --steps 1 --out RUN " + MLP,
             "train --resume F --steps 1 --out RUN " + MLP,
             "generate --ckpt F --vocab VOCAB --prompt a --model gpt:layers=1,width=8,heads=1,block=4"]


def run(line, places):
    words = [places.get(w, w.replace("OUT", places["OUT"])) for w in line.split()]
    try:
        r = subprocess.run([GTRAIN, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None
    return r.returncode, r.stdout + r.stderr


def check(line, places, said):
    """The problem, and whether it took too long."""
    result = run(line, places)
    if not result:
        return line + ": took too long", True
    status, text = result
    if status != 1 or "Sanitizer" in text or "runtime error" in text:
        return "%s: status %d\n%s" % (line, status, text), False
    if "--repair" in line:
        said = ": no earlier state of the file is sound" if "sound" in text else "is not a zip archive and cannot"
    return "" if said in text else "%s: does not say '%s'\n%s" % (line, said, text), False


def make(path, size, pieces):
    with open(path, "wb") as f:
        f.truncate(size)
        for at, data in pieces.items():
            f.seek(at)
            f.write(data)


def every_command(folder):
    places = {"F": os.path.join(folder, "f.pth"), "OUT": os.path.join(folder, "out.pth"),
              "RUN": os.path.join(folder, "run"), "VOCAB": os.path.join(folder, "vocab.json")}
    with open(places["VOCAB"], "w") as f:
        f.write('{"level": "byte"}')
    for name, size, pieces, said in FILES:
        if "thread" in os.environ.get("SANITIZE", ""):
            yield name + " # SKIP sanitizer: has no room for the address of a file of a TiB", ""
            continue
        try:
            make(places["F"], size, pieces)
        except OSError as e:
            print("# no file of %d bytes here: %s" % (size, e.strerror))
            yield name + " # SKIP data: no sparse file of a TiB in the temporary folder", ""
            continue
        problems = []
        for line in COMMANDS:
            problem, late = check(line, places, said)
            problems += [problem] if problem else []
            shutil.rmtree(places["RUN"], ignore_errors=True)
            if late:
                break
        if os.path.getsize(places["F"]) != size or sorted(os.listdir(folder)) != ["f.pth", "vocab.json"]:
            problems.append("files were changed: " + ", ".join(os.listdir(folder)))
        os.remove(places["F"])
        yield name, "\n".join(problems)


if __name__ == "__main__":
    sys.exit(tap.run([every_command], GTRAIN, sys.argv[1:]))
