#!/usr/bin/python3
# safetensors.py - safetensors, shards and npz against a reader of 30 lines and numpy, both ways.
#
# The safetensors library is not needed: read() and write() below follow the format's own page
# (huggingface/safetensors, README.md "Format"), with its rules as assertions.
import collections
import json
import os
import pickle
import struct
import subprocess
import sys
import zlib

try:
    import numpy as np
    import torch
except ImportError:
    print("1..0 # SKIP python has no torch or no numpy")
    sys.exit(0)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402

TESTS = os.environ.get("GTRAIN_TESTS", "build/tests")
PROGRAM = os.path.join(TESTS, "ckpt_tree")
GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
DATA = os.environ.get("GTRAIN_TEST_DATA", "../shared/data")

DTYPES = {"BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "F16": torch.float16,
          "BF16": torch.bfloat16, "I32": torch.int32, "F32": torch.float32, "C64": torch.complex64,
          "F64": torch.float64, "I64": torch.int64}
NAMES = {v: k for k, v in DTYPES.items()}
ORDER = list(DTYPES)  # of the types torch 1.13 has, as the library lays them out, last first


# ---- the format ----

def raw(t):
    t = t.detach().cpu().contiguous()
    return bytes(t.reshape(-1).view(torch.uint8).numpy()) if t.numel() else b""


def once(pairs):
    keys = [k for k, _ in pairs]
    assert len(keys) == len(set(keys)), "a key twice"
    return dict(pairs)


def read(path):
    """(tensors, metadata) of a safetensors file"""
    with open(path, "rb") as f:
        data = f.read()
    n, = struct.unpack("<Q", data[:8])
    assert n <= 100000000 and data[8:9] == b"{" and n % 8 == 0
    header = json.loads(data[8:8 + n].decode(), object_pairs_hook=once)
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(v, str) for v in metadata.values())
    body, at, tensors = data[8 + n:], 0, {}
    assert list(header) == sorted(header, key=lambda k: (-ORDER.index(header[k]["dtype"]), k.encode()))
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert begin == at and end >= begin, "hole or overlap"
        at, dtype, count = end, DTYPES[entry["dtype"]], 1
        for size in entry["shape"]:
            count *= size
        assert (end - begin) == count * torch.empty(0, dtype=dtype).element_size()
        t = torch.frombuffer(bytearray(body[begin:end]), dtype=dtype) if count else torch.empty(0, dtype=dtype)
        tensors[name] = t.reshape(entry["shape"])
    assert at == len(body), "the data are not covered"
    return tensors, metadata


def write(path, tensors, metadata=None, pad=0):
    header, body = {"__metadata__": metadata} if metadata else {}, b""
    for name, t in tensors.items():
        header[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape),
                        "data_offsets": [len(body), len(body) + len(raw(t))]}
        body += raw(t)
    text = json.dumps(header).encode() + b" " * pad
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def check_digests(path):
    """gtrain's entries of __metadata__, as lib/ckpt/safetensors/safetensors.h describes them"""
    with open(path, "rb") as f:
        data = f.read()
    n, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    metadata = header.pop("__metadata__")
    own = metadata["gtrain.crc32.header"].encode()
    zeroed = data[:8 + n].replace(b'"gtrain.crc32.header":"' + own, b'"gtrain.crc32.header":"00000000')
    if "%08x" % zlib.crc32(zeroed) != own.decode():
        return "the header's CRC-32 is wrong"
    ranges = sorted(e["data_offsets"] for e in header.values())
    sums = ["%08x" % zlib.crc32(data[8 + n + b:8 + n + e]) for b, e in ranges if b < e]
    return "" if metadata["gtrain.crc32.tensors"] == " ".join(sums) else "the tensors' CRC-32s are wrong"


# ---- comparing ----

def run(*args):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def compare(got, want):
    if sorted(got) != sorted(want):
        return "names differ: %s and %s" % (sorted(got)[:5], sorted(want)[:5])
    for name, t in want.items():
        if got[name].dtype != t.dtype or got[name].shape != t.shape or raw(got[name]) != raw(t):
            return "tensor '%s' differs" % name
    return ""


def printed(path, kind):
    """The tensors that gtrain reads, and what is wrong."""
    out = run(PROGRAM, "print", path)
    lines = out.stdout.splitlines()
    if out.returncode or lines[0] != kind:
        return None, out.stderr or "the format is " + lines[0]
    names = [bytes.fromhex(line[7:]).decode() for line in lines[2::2]]
    tensors = {}
    for name, line in zip(names, lines[3::2]):
        word = line.split(" ")
        dtype, shape = getattr(np, word[1].replace("bool", "bool_"), None), [int(x) for x in word[2][1:-1].split(",") if x]
        data = bytes.fromhex(word[7] if len(word) > 7 else "")
        if dtype is None:  # bfloat16
            t = torch.frombuffer(bytearray(data), dtype=getattr(torch, word[1])).reshape(shape)
        else:
            t = np.frombuffer(data, dtype).reshape(shape)
        tensors[name] = t
    return tensors, ""


def same_as_numpy(got, want):
    if sorted(got) != sorted(want):
        return "names differ: %s and %s" % (sorted(got)[:5], sorted(want)[:5])
    for name, a in want.items():
        b = np.asarray(got[name])
        if b.shape != a.shape or b.dtype != a.dtype.newbyteorder("=") or not np.array_equal(a, b):
            return "array '%s' differs" % name
    return ""


def as_numpy(tensors):
    return {k: v.numpy() for k, v in tensors.items() if v.dtype != torch.bfloat16}


def every_dtype():
    torch.manual_seed(1)
    out = {}
    for dtype in DTYPES.values():
        t = torch.randn(3, 5) * 50
        out["t." + str(dtype)] = (t > 0) if dtype == torch.bool else t.abs().to(dtype) if dtype == torch.uint8 else t.to(dtype)
    return out


def shapes():
    base = torch.arange(24.0)
    return {"scalar": torch.tensor(2.5), "empty": torch.empty(3, 0), "tüte": base, "": base + 1,
            "transposed": (base + 2).reshape(4, 6).t(), "every other": (base + 3)[::2],
            "expanded": torch.tensor([1.0]).expand(4, 3), "a": torch.tensor(True), "one": torch.ones(1, dtype=torch.int8)}


# ---- the parts ----

def reading(folder):
    path = os.path.join(folder, "m.safetensors")
    for name, tensors, metadata, pad in (("every dtype", every_dtype(), None, 0), ("shapes", shapes(), {"format": "pt"}, 3),
                                         ("many", {"k%d" % i: torch.tensor(i) for i in range(10000)}, None, 0),
                                         ("none", {}, None, 0)):
        write(path, tensors, metadata, pad)
        got, problem = printed(path, "safetensors")
        yield "safetensors, %s: read" % name, problem or same_as_numpy(
            {k: v for k, v in got.items() if not torch.is_tensor(v)}, as_numpy(tensors))
        run(PROGRAM, "copy", path, path + ".pth")
        yield "safetensors, %s: to torch" % name, compare(torch.load(path + ".pth"), tensors)


def writing(folder):
    source, path = os.path.join(folder, "s.pth"), os.path.join(folder, "w.safetensors")
    tied = {"wte": torch.arange(6.0), "part": None, "head": None}
    tied["head"], tied["part"] = tied["wte"], tied["wte"][:3]
    for name, tensors in (("every dtype", every_dtype()), ("shapes", shapes()), ("tied", tied),
                          ("many", {"k%d" % i: torch.tensor(i) for i in range(10000)})):
        for form in (True, False):
            torch.save(tensors, source, _use_new_zipfile_serialization=form)
            out = run(PROGRAM, "write", source, path, "safetensors")
            got, metadata = read(path) if not out.returncode else ({}, {})
            want = dict(tensors)
            if name == "tied":
                del want["wte"]
                if metadata.get("wte") != "head":
                    out.stderr += "the tie is not recorded"
            title = "safetensors, %s, from %s" % (name, "zip" if form else "legacy")
            yield title, out.stderr or compare(got, want)
            yield title + ": digests", check_digests(path)
            run(PROGRAM, "copy", path, path + ".pth")
            back = torch.load(path + ".pth")
            yield title + ": and back", compare(back, tensors)
            if name == "tied":
                yield (title + ": still tied", "" if back["wte"].data_ptr() == back["head"].data_ptr() else "they are two")


def shards(folder):
    tensors = {"layer%d.weight" % i: torch.randn(10, 10) for i in range(7)}
    source, path = os.path.join(folder, "s.pth"), os.path.join(folder, "model.safetensors")
    torch.save(tensors, source)
    out = run(PROGRAM, "write", source, path, "safetensors", "900")
    with open(path + ".index.json") as f:
        index = json.load(f)
    got = {}
    for name, file in index["weight_map"].items():
        got[name] = read(os.path.join(folder, file))[0][name]
    yield "shards: written", out.stderr or compare(got, tensors)
    yield "shards: total_size", "" if index["metadata"]["total_size"] == 2800 else "it is wrong"
    yield "shards: names", "" if len(set(index["weight_map"].values())) == 4 and \
        index["weight_map"]["layer0.weight"] == "model-00001-of-00004.safetensors" else str(index)
    run(PROGRAM, "copy", path + ".index.json", source)
    yield "shards: read", compare(torch.load(source), tensors)
    run(PROGRAM, "copy", folder, source)
    yield "shards: read by their folder", compare(torch.load(source), tensors)
    other = os.path.join(folder, "bin")
    os.mkdir(other)
    for i in range(7):
        torch.save({"layer%d.weight" % i: tensors["layer%d.weight" % i]}, os.path.join(other, "p-%d.bin" % i))
    with open(os.path.join(other, "pytorch_model.bin.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": 2800}, "weight_map": {"layer%d.weight" % i: "p-%d.bin" % i for i in range(7)}}, f)
    run(PROGRAM, "copy", other, source)
    yield "shards of torch: read", compare(torch.load(source), tensors)


def arrays(folder):
    rng = np.random.default_rng(1)
    made = {"f_order": np.asfortranarray(rng.normal(size=(3, 4, 2))), "big": rng.normal(size=5).astype(">f4"),
            "a/b.c": np.arange(6, dtype=np.uint16).reshape(2, 3), "scalar": np.float32(2), "empty": np.zeros((2, 0))}
    for code in "?bBhHiIlLefdFD":
        made["code " + code] = (rng.normal(size=(3, 2)) * 9).astype(code) if code in "efdFD" else \
            rng.integers(0, 2 if code == "?" else 100, (3, 2)).astype(code)
    path, source = os.path.join(folder, "a.npz"), os.path.join(folder, "a.pth")
    for name, save in (("stored", np.savez), ("deflated", np.savez_compressed)):
        save(path, **made)
        got, problem = printed(path, "npz")
        yield "npz, %s: read" % name, problem or same_as_numpy(got, {k: np.asarray(v) for k, v in made.items()})
    out = run(PROGRAM, "write", path, path + "2", "npz")
    yield "npz: rewritten", out.stderr or same_as_numpy(
        dict(np.load(path + "2", allow_pickle=False)), {k: np.asarray(v) for k, v in made.items()})
    for version in ((1, 0), (2, 0), (3, 0)):
        with open(path, "wb") as f:
            np.lib.format.write_array(f, made["f_order"], version=version)
        got, problem = printed(path, "npy")
        yield "npy, version %d" % version[0], problem or same_as_numpy(got, {"arr_0": made["f_order"]})
    tensors = {k: v for k, v in dict(every_dtype(), **shapes()).items() if v.dtype != torch.bfloat16}
    torch.save(tensors, source)
    out = run(PROGRAM, "write", source, path, "npz")
    yield "npz: from torch", out.stderr or same_as_numpy(dict(np.load(path, allow_pickle=False)), as_numpy(tensors))
    others = {"classes": np.array(["a", "bc"]), "history": np.array([{}], dtype=object), "b": np.array([b"x"])}
    few = {"w": made["f_order"].astype("f4"), "n": np.arange(3)}
    np.savez(path, **others, **few)
    for name, ending in ("npz", "npz"), ("torch", "pth"):
        copy = os.path.join(folder, "others." + ending)
        out = subprocess.run([GTRAIN, "ckpt", "convert", path, "-o", copy], capture_output=True, text=True, check=False)
        got = out.returncode == 0 and (np.load(copy) if ending == "npz" else torch.load(copy))
        problem = "" if got and all(n in out.stderr for n in others) else out.stderr
        if not problem and set(got) != set(few):
            problem = f"names {sorted(got)}"
        yield "npz: strings and objects are left behind by name, to " + name, problem
    mostly = {"layer.weight": np.ones((2, 2)), "layer.bias": np.ones(2), "classes": others["classes"]}
    np.savez(path, **mostly)
    out = subprocess.run([GTRAIN, "ckpt", "add-module", path, "--in-place"], capture_output=True, text=True, check=False)
    yield "npz: no edit loses strings and objects", "" if out.returncode == 1 and "'gtrain ckpt convert' leaves" in out.stderr and \
        set(np.load(path).files) == set(mostly) else f"status {out.returncode}: {out.stderr}"
    np.savez(path, raw=np.array([b"ab"], dtype="V2"), **made)
    out = run(PROGRAM, "print", path)
    yield "npz: raw bytes may be weights, and are refused", "" if "array 'raw'" in out.stderr and "raw bytes" in out.stderr else out.stderr


def pickles(folder):
    """Weights as a dict of numpy arrays, by pickle.dump and by torch.save; other arrays stay objects."""
    path, out = os.path.join(folder, "weights.pkl"), os.path.join(folder, "weights.safetensors")
    made = {"a.weight": np.arange(6, dtype="f4").reshape(2, 3), "a.bias": np.asfortranarray(np.ones((3, 2))), "n": np.array(3)}
    want = {n: torch.from_numpy(np.ascontiguousarray(a)).reshape(a.shape) for n, a in made.items()}

    def dump(value, protocol):
        with open(path, "wb") as f:
            pickle.dump(value, f, protocol)

    writers = [("pickle.dump %d" % p, lambda v, p=p: dump(v, p)) for p in (2, 3, 4, 5)]
    writers += [("torch.save", lambda v: torch.save(v, path)),
                ("torch.save, legacy", lambda v: torch.save(v, path, _use_new_zipfile_serialization=False))]
    for how, write in writers:
        for where, value in ("the root", made), ("'model'", {"model": collections.OrderedDict(made), "__author__": "me"}):
            write(value)
            ran = subprocess.run([GTRAIN, "ckpt", "convert", path, "-o", out], capture_output=True, text=True, check=False)
            got = read(out)[0] if not ran.returncode else {}
            same = set(got) == set(want) and all(torch.equal(got[n], t) and got[n].dtype == t.dtype for n, t in want.items())
            yield f"arrays by {how}, {where}", "" if same else ran.stderr or str(got)
    for what, value in ("states of random numbers", {"epoch": 1, "rng": {"keys": np.arange(5)}}), ("no array", {"a": 1}):
        dump(value, 4)
        ran = subprocess.run([GTRAIN, "ckpt", "ls", path], capture_output=True, text=True, check=False)
        yield "a pickle of " + what, "" if ran.returncode == 1 and "not one of torch.save" in ran.stderr else ran.stderr
    torch.save({"net": {"w.weight": torch.ones(2, 2)}, "rng": {"keys": np.ones((5, 2))}}, path)
    ran = subprocess.run([GTRAIN, "ckpt", "convert", path, "-o", out], capture_output=True, text=True, check=False)
    yield "arrays beside tensors", "" if set(read(out)[0]) == {"w.weight"} and "left behind: 'rng'" in ran.stderr else ran.stderr


def edits(folder):
    tensors = {"module." + k: v for k, v in every_dtype().items()}
    source, path = os.path.join(folder, "e.pth"), os.path.join(folder, "e.safetensors")
    want = {k[7:]: v for k, v in tensors.items()}
    write(path, tensors, {"format": "pt"}, -len(json.dumps("")) % 8)
    out = run(GTRAIN, "ckpt", "rename", path, "--map", "^module[.]=", "-o", path + "2")
    got, problem = printed(path + "2", "safetensors")
    yield "edits: a file of others", (out.stderr if out.returncode else "") or problem or same_as_numpy(
        {k: v for k, v in got.items() if not torch.is_tensor(v)}, as_numpy(want))
    torch.save({"x.module." + k: v for k, v in want.items()}, source)
    run(PROGRAM, "write", source, path, "safetensors")
    for words, name in ((["--map", "^x=much.longer.names.than.before"], "longer"), (["--map", "^.*module[.]="], "shorter")):
        out = run(GTRAIN, "ckpt", "rename", path, *words, "--in-place")
        yield "edits: %s, in place" % name, (out.stderr if out.returncode else "") or check_digests(path)
    with open(path, "rb") as f:  # the data are where read() wants them; the header is not a multiple of 8 any more
        n, = struct.unpack("<Q", f.read(8))
    got, _ = read(path) if n % 8 == 0 else ({}, {})
    yield "edits: values", compare(got, want)


def real_files(folder):
    for name in ("resnet20-12fca82f.th", "dqn-conv.pth", "lpips-alex.pth"):
        source, path = os.path.join(DATA, "ckpt", name), os.path.join(folder, "real")
        if not os.path.exists(source):
            yield name + " # SKIP no " + source, ""
            continue
        value = torch.load(source, map_location="cpu")
        value = value.get("state_dict", value)
        want = {k[7:] if k.startswith("module.") else k: v.detach() for k, v in value.items()}
        out = run(PROGRAM, "write", source, path, "safetensors")
        yield name + ": to safetensors", out.stderr or compare(read(path)[0], want)
        run(PROGRAM, "copy", path, path + ".pth")
        yield name + ": and back", compare(torch.load(path + ".pth"), want)
        out = run(PROGRAM, "write", source, path, "npz")
        yield name + ": to npz", out.stderr or same_as_numpy(dict(np.load(path, allow_pickle=False)), as_numpy(want))
        run(PROGRAM, "copy", path, path + ".pth")
        yield name + ": from npz", compare(torch.load(path + ".pth"), want)


def main():
    return tap.run((reading, writing, shards, arrays, pickles, edits, real_files), PROGRAM)


if __name__ == "__main__":
    sys.exit(main())
