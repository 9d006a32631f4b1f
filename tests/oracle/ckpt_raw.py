#!/usr/bin/python3
# ckpt_raw.py - tensors of types that gtrain does not compute with: every command carries their bytes, or fails and writes nothing.
"""
The files are made and read by hand, as PyTorch of Debian 12 has none of these types. HF_PYTHON names a python with a PyTorch that has
them (2.9 or later, `pip install torch`): then torch.load(weights_only=True) opens each output, too.
"""
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap

GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
NEW_TORCH = os.environ.get("HF_PYTHON")

# name: (type in safetensors, shape there, type in PyTorch, shape in PyTorch, bytes)
TENSORS = {
    "fc.weight": ("F32", [2, 2], "FloatStorage", [2, 2], struct.pack("<4f", 1, -2, 0.5, 3)),
    "scale": ("F8_E8M0", [2, 4], "float8_e8m0fnu", [2, 4], bytes(range(120, 128))),
    "fz": ("F8_E4M3FNUZ", [6], "float8_e4m3fnuz", [6], bytes(range(6))),
    "f5": ("F8_E5M2FNUZ", [3, 2], "float8_e5m2fnuz", [3, 2], bytes(range(250, 256))),
    "q.fp4": ("F4", [2, 16], "float4_e2m1fn_x2", [2, 8], bytes(range(16))),
}


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, (kind, shape, _, _, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def read_safetensors(path):
    with open(path, "rb") as f:
        data = f.read()
    n, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    body = data[8 + n:]
    return {name: (e["dtype"], e["shape"], body[slice(*e["data_offsets"])]) for name, e in header.items()}


class Dict(dict):
    """A dict with attributes, as OrderedDict."""


class Unpickler(pickle.Unpickler):
    """The calls that make tensors, by their names alone."""

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return Dict
        if name.startswith("_rebuild_tensor"):
            return lambda *a: (a[6] if name.endswith("v3") else a[0][0], list(a[2]), a[0][1])
        return name

    def persistent_load(self, pid):
        return pid[1], pid[2]


def read_pth(path):
    with zipfile.ZipFile(path) as z:
        root = z.namelist()[0].split("/")[0]
        tree = Unpickler(io.BytesIO(z.read(root + "/data.pkl"))).load()
        return {k: (kind, shape, z.read(f"{root}/data/{key}")) for k, (kind, shape, key) in tree.items()}


def expected(pth, rename=lambda name: name, names=TENSORS):
    return {rename(n): ((TENSORS[n][2], TENSORS[n][3]) if pth else TENSORS[n][:2]) + (TENSORS[n][4],) for n in names}


def compare(path, right):
    got = (read_pth if path.endswith(".pth") else read_safetensors)(path)
    wrong = [f"{n}: {got.get(n)} for {v}" for n, v in right.items() if got.get(n) != tuple(v)]
    if set(got) != set(right):
        wrong.append(f"names {sorted(got)}")
    return "\n".join(wrong)


LOAD = """
import json, sys, torch
t = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
print(json.dumps({k: [str(v.dtype), list(v.shape), bytes(v.contiguous().view(torch.uint8).flatten().tolist()).hex()] for k, v in t.items()}))
"""


def by_torch(path, right):
    if not NEW_TORCH or not path.endswith(".pth"):
        return ""
    ran = subprocess.run([NEW_TORCH, "-c", LOAD, path], capture_output=True, text=True, check=False)
    if ran.returncode:
        return "torch.load: " + ran.stderr
    got = json.loads(ran.stdout)
    types = {"FloatStorage": "float32"}
    wanted = {n: ["torch." + types.get(k, k), list(s), b.hex()] for n, (k, s, b) in right.items()}
    return "" if got == wanted else f"torch.load: {got} for {wanted}"


def problem(source, path):
    """Whether a .pth has the tensors of a safetensors file with the same bytes; used for cases from outside."""
    types = {t[0]: t[2] for t in TENSORS.values()}
    right = {n: (types[kind], shape, data) for n, (kind, shape, data) in read_safetensors(source).items()}
    return compare(path, right) or by_torch(path, right)


def gtrain(*words):
    return subprocess.run([GTRAIN, "ckpt", *words], capture_output=True, text=True, check=False)


def add(name):
    return "module." + name


EDITS = [
    ("convert", [], str, TENSORS),
    ("convert --dtype bf16", [], None, TENSORS),
    ("strip-module", [], str, TENSORS),
    ("add-module", [], add, TENSORS),
    ("rename", ["--map", "scale=s"], lambda n: n.replace("scale", "s"), TENSORS),
    ("remap", ["--map", "cpu=cuda:0"], str, TENSORS),
    ("select", ["--keys", "scale", "--keys", "q.*"], str, ["scale", "q.fp4"]),
]


def outputs(folder):
    """Each command on a file of both formats; then the same of its output, by convert into the other format."""
    mx = os.path.join(folder, "mx.safetensors")
    write_safetensors(mx, TENSORS)
    pth = os.path.join(folder, "mx.pth")
    ran = gtrain("convert", mx, "-o", pth)
    yield "convert to .pth", ran.stderr if ran.returncode else compare(pth, expected(True)) or by_torch(pth, expected(True))
    for source in mx, pth:
        ending = source[source.rindex("."):]
        for command, words, rename, names in EDITS:
            out = os.path.join(folder, "out" + ending)
            ran = gtrain(*command.split(), source, *words, "-o", out)
            right = expected(ending == ".pth", rename or str, names)
            if not rename:  # the floats alone are converted
                right["fc.weight"] = ("BFloat16Storage" if ending == ".pth" else "BF16", [2, 2],
                                      bytes.fromhex("803f00c0003f4040"))
            problem = ran.stderr if ran.returncode else compare(out, right)
            yield f"{command} of {ending}", problem or (by_torch(out, right) if rename else "")


def together(folder):
    """Commands of several files: merge, the mean, diff, shards."""
    a, b = os.path.join(folder, "a.safetensors"), os.path.join(folder, "b.safetensors")
    out = os.path.join(folder, "out.pth")
    write_safetensors(a, TENSORS)
    write_safetensors(b, {**TENSORS, "fz": TENSORS["fz"][:4] + (bytes(6),)})
    ran = gtrain("merge", a, a, "-o", out)
    yield "merge of equal tensors", ran.stderr if ran.returncode else compare(out, expected(True))
    ran = gtrain("merge", a, a, "--average", "-o", out)
    yield "mean of equal tensors", ran.stderr if ran.returncode else compare(out, expected(True))
    os.unlink(out)
    ran = gtrain("merge", a, b, "--average", "-o", out)
    wrong = ran.returncode != 1 or "'fz' differs, and gtrain has no mean of float8_e4m3fnuz" not in ran.stderr or os.path.exists(out)
    yield "mean of others: an error, no file", ran.stderr if wrong else ""
    ran = gtrain("diff", a, b)
    yield "diff counts elements", "" if "5 of 6 differ" in ran.stdout and "at most" not in ran.stdout else ran.stdout
    os.makedirs(os.path.join(folder, "s"))
    ran = gtrain("convert", a, "--shard-size", "24", "-o", os.path.join(folder, "s", "model.safetensors"))
    got = {}
    for name in os.listdir(os.path.join(folder, "s")):
        if name.endswith(".safetensors"):
            got.update(read_safetensors(os.path.join(folder, "s", name)))
    yield "shards", ran.stderr if ran.returncode or got != {n: tuple(v) for n, v in expected(False).items()} else ""
    whole = os.path.join(folder, "whole.pth")
    ran = gtrain("convert", os.path.join(folder, "s"), "-o", whole)
    yield "shards to .pth", ran.stderr if ran.returncode else compare(whole, expected(True))


def refused(folder):
    """Formats and files that cannot hold a type: an error that names the tensor, and no file."""
    mx = os.path.join(folder, "mx.safetensors")
    write_safetensors(mx, {"fc.weight": TENSORS["fc.weight"], "scale": TENSORS["scale"]})
    new = os.path.join(folder, "new.safetensors")
    write_safetensors(new, {"fc.weight": TENSORS["fc.weight"], "scale": ("F7_E3M3", [8], "", [], bytes(8))})
    for source, to in (mx, "npz"), (mx, "legacy"), (new, "pth"), (new, "npz"):
        out = os.path.join(folder, "out." + to)
        ran = gtrain("convert", source, "--to", to, "-o", out)
        wrong = ran.returncode != 1 or "'scale'" not in ran.stderr or os.path.exists(out)
        yield f"{os.path.basename(source)} to {to}", ran.stdout + ran.stderr if wrong else ""
    out = os.path.join(folder, "out.safetensors")
    ran = gtrain("add-module", new, "-o", out)
    got = read_safetensors(out) if not ran.returncode else ran.stderr
    yield "a new type is edited", "" if got.get("module.scale") == ("F7_E3M3", [8], bytes(8)) else str(got)


if __name__ == "__main__":
    sys.exit(tap.run([outputs, together, refused], GTRAIN, sys.argv[1:]))
