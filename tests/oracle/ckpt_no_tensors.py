#!/usr/bin/python3
# ckpt_no_tensors.py - checkpoints without any tensor, through every command that reads checkpoints.
import collections
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import warnings
import zipfile

try:
    import torch
except ImportError:
    print("1..0 # SKIP python has no torch")
    sys.exit(0)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402

warnings.filterwarnings("ignore")
GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
REPORTS = ("Sanitizer", "runtime error", "free()", "malloc()", "corrupted", "==ERROR")


def environment():
    """In plain builds the C library checks around what was allocated, where it can: else a byte too far goes unseen."""
    found = glob.glob("/lib/*/libc_malloc_debug.so.0") + glob.glob("/lib64/libc_malloc_debug.so.0")
    if os.environ.get("SANITIZE") or not found:
        return dict(os.environ)
    return dict(os.environ, LD_PRELOAD=found[0], MALLOC_CHECK_="3")


ENVIRONMENT = environment()


# ---- files ----

def torch_zip(value):
    return lambda path: torch.save(value, path)


def torch_legacy(value):
    return lambda path: torch.save(value, path, _use_new_zipfile_serialization=False)


def safetensors(header):
    def make(path):
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
    return make


def npz(path):
    zipfile.ZipFile(path, "w").close()


def gguf(path):
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 0))


def text(content):
    def make(path):
        with open(path, "w") as f:
            f.write(content)
    return make


# A pickled model has a state_dict, though an empty one; an empty dict is none; an index without shards does not open.
MODULE, OTHER, CLOSED = "module", "other", "closed"
VALUES = (("dict", {}, OTHER), ("ordered", collections.OrderedDict(), OTHER),
          ("module", torch.nn.Sequential(torch.nn.ReLU()), MODULE), ("nested", {"state_dict": {}, "epoch": 3}, OTHER),
          ("list", [1, 2.5], OTHER), ("empty list", [], OTHER), ("number", 7, OTHER), ("None", None, OTHER))
FILES = [(name + ", zip", "f.pth", torch_zip(value), kind) for name, value, kind in VALUES]
FILES += [(name + ", legacy", "f.pth", torch_legacy(value), kind) for name, value, kind in VALUES]
FILES += [("safetensors", "f.safetensors", safetensors({}), OTHER),
          ("safetensors with metadata", "f.safetensors", safetensors({"__metadata__": {"format": "pt"}}), OTHER),
          ("npz", "f.npz", npz, OTHER),
          ("gguf", "f.gguf", gguf, OTHER),
          ("index", "f.safetensors.index.json", text('{"metadata": {}, "weight_map": {}}'), CLOSED)]


# ---- commands ----

# The exit status by kind of file; None: 0 or 1. Files that a command writes have to open.
ALL = {MODULE: 0, OTHER: 0, CLOSED: 1}
DICTS = {MODULE: 0, OTHER: 1, CLOSED: 1}  # those that take a state_dict out
NONE = {MODULE: 1, OTHER: 1, CLOSED: 1}
USAGE = {MODULE: 2, OTHER: 2, CLOSED: 2}
COMMANDS = (
    ("ckpt ls IN", ALL),
    ("ckpt ls --stats IN", ALL),
    ("ckpt ls --json IN", ALL),
    ("ckpt verify IN", {MODULE: 1, OTHER: 0, CLOSED: 1}),  # a model's classes are refused by weights_only
    ("ckpt verify --json IN", {MODULE: 1, OTHER: 0, CLOSED: 1}),
    ("ckpt diff IN IN", ALL),
    ("ckpt strip-module IN -o OUT", None),
    ("ckpt add-module IN -o OUT", None),
    ("ckpt rename IN --map a=b -o OUT", None),
    ("ckpt remap IN --map cuda:*=cpu -o OUT", None),
    ("ckpt strip-module IN --in-place", None),
    ("ckpt add-module IN --in-place", None),
    ("ckpt rename IN --map a=b --in-place", None),
    ("ckpt remap IN --map cuda:*=cpu --in-place", None),
    ("ckpt convert IN -o OUT --to pth", ALL),
    ("ckpt convert IN -o OUT --to legacy", ALL),
    ("ckpt convert IN -o OUT --to safetensors", DICTS),
    ("ckpt convert IN -o OUT --to npz", DICTS),
    ("ckpt convert IN -o OUT --to pth --dtype bf16", ALL),
    ("ckpt convert IN -o OUT --to safetensors --shard-size 1M", DICTS),
    ("ckpt convert IN -o OUT --to npz --shard-size 1M", NONE),
    ("ckpt convert IN -o OUT --to pth --shard-size 1M", NONE),
    ("ckpt convert IN -o DIR/o.safetensors.index.json", USAGE),
    ("ckpt convert IN -o DIR/o.safetensors.index.json --shard-size 1M", NONE),
    ("ckpt select IN --keys * -o OUT --to pth", NONE),
    ("ckpt select IN --path state_dict -o OUT --to pth", None),
    ("ckpt merge IN IN -o OUT --to pth", DICTS),
    ("ckpt merge IN IN -o OUT --to safetensors --shard-size 1M", None),
    ("ckpt merge IN IN -o OUT --to pth --average", DICTS),
    ("ckpt merge IN IN -o OUT --to safetensors --average", None),
    ("eval --ckpt IN --model mlp:4,3,2 --data random", NONE),
    ("generate --ckpt IN --model gpt:layers=1,width=8,heads=1,block=4 --vocab DIR/vocab.json --prompt a", NONE),
    ("train --init-from IN --model mlp:4,3,2 --data random --steps 1 --out DIR/run", NONE),
)


def run(words):
    return subprocess.run([GTRAIN, *words], env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60)


def complaint(result, wanted):
    """A failure is one line and its hint; findings of verify are on standard output."""
    if result.returncode not in ((0, 1) if wanted is None else (wanted,)):
        return "status %d, not %s" % (result.returncode, wanted)
    if any(word in result.stdout + result.stderr for word in REPORTS):
        return "a report of memory"
    errors = [line for line in result.stderr.splitlines() if line.startswith("gtrain: error: ")]
    if len(errors) != (1 if result.returncode and not result.stdout else 0):
        return "%d lines of error" % len(errors)
    return ""


def check(words, wanted, folder):
    result = run(words)
    problem = complaint(result, wanted)
    written = [p for p in glob.glob(os.path.join(folder, "o*"))]
    if not problem and (len(written) > 1 or (result.returncode and written)):
        problem = "left " + ", ".join(written)
    if not problem and written:
        opened = run(["ckpt", "ls", written[0]])
        if opened.returncode or " 0 tensors" not in opened.stdout:
            problem = "wrote what does not open: " + opened.stderr
    for path in written:
        os.remove(path)
    return problem and problem + "\n%s\n%s%s" % (" ".join(words), result.stdout, result.stderr)


def every_command(folder):
    text('{"level": "byte"}')(os.path.join(folder, "vocab.json"))
    for name, file, make, kind in FILES:
        path, out = os.path.join(folder, file), os.path.join(folder, "o")
        problems = []
        for line, wanted in COMMANDS:
            make(path)
            places = {"IN": path, "OUT": out}
            words = [places.get(w, w.replace("DIR/", folder + "/")) for w in line.split()]
            problems.append(check(words, wanted and wanted[kind], folder))
        os.remove(path)
        shutil.rmtree(os.path.join(folder, "run"), ignore_errors=True)
        yield name, "\n".join(p for p in problems if p)


if __name__ == "__main__":
    sys.exit(tap.run([every_command], GTRAIN, sys.argv[1:]))
