#!/usr/bin/python3
# ckpt_look.py - gtrain ckpt ls, verify and diff against what PyTorch sees in the same files.
import collections
import json
import math
import os
import pickle
import random
import shutil
import subprocess
import sys
import warnings
import zipfile

try:
    import numpy
    import torch
except ImportError:
    print("1..0 # SKIP python has no torch or no numpy")
    sys.exit(0)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402

warnings.filterwarnings("ignore")
GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
DATA = os.environ.get("GTRAIN_TEST_DATA", "../shared/data")
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
COMPLEX = (torch.complex64, torch.complex128)


def run(*args):
    return subprocess.run([GTRAIN, "ckpt", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


# ---- what torch sees ----

def walk(value, path=()):
    """(path, tensor) in the order of the file; modules as their state_dict() names things."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, torch.nn.Module):
        for part in (value._parameters, value._buffers, value._modules):
            for k, v in part.items():
                yield from walk(v, path + (k,))
    elif isinstance(value, dict):
        for k, v in value.items():
            yield from walk(v, path + (k,))
    elif isinstance(value, (list, tuple)):
        for i, v in enumerate(value):
            yield from walk(v, path + (i,))


def values(value):
    """The checkpoint without its tensors, as ls --json gives it."""
    if isinstance(value, torch.Tensor):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(k): values(v) for k, v in value.items() if has_values(v)}
    if isinstance(value, (list, tuple)):
        return [values(v) for v in value]
    return value


def has_values(value):
    if isinstance(value, dict):
        return not value or any(has_values(v) for v in value.values())
    return not isinstance(value, torch.Tensor)


def compare_stats(told, t):
    t = t.detach().contiguous().reshape(-1)
    if t.dtype.is_complex:
        t = t.to(torch.complex128).abs()
    t = t.to(torch.float64)
    finite = t[torch.isfinite(t)]
    counts = {"nan": int(torch.isnan(t).sum()), "inf": int(torch.isinf(t).sum()), "zeros": int((t == 0).sum())}
    reals = {"min": float(finite.min()) if len(finite) else None, "max": float(finite.max()) if len(finite) else None,
             "mean": float(finite.mean()) if len(finite) else None,
             "std": float(finite.std()) if len(finite) > 1 else None}
    for k, v in counts.items():
        if told[k] != v:
            return "%s is %s, torch has %s" % (k, told[k], v)
    scale = float(finite.abs().max()) if len(finite) else 1
    for k, v in reals.items():
        if (told[k] is None) != (v is None) or (v is not None and abs(told[k] - v) > 1e-12 * scale):
            return "%s is %s, torch has %s" % (k, told[k], v)
    return ""


def compare(path, value, exact_values=True):
    out = run("ls", "--json", "--stats", path)
    if out.returncode:
        return out.stderr
    told = json.loads(out.stdout)
    wanted = list(walk(value))
    if [t["path"] for t in told["tensors"]] != [list(p) for p, _ in wanted]:
        return "keys %s, torch has %s" % ([t["key"] for t in told["tensors"]][:5], wanted[:5])
    groups, numbers = {}, {}
    for row, (p, t) in zip(told["tensors"], wanted):
        seen = (row["key"], row["dtype"], row["shape"], row["stride"], row["offset"], row["bytes"])
        real = (".".join(map(str, p)), str(t.dtype)[6:], list(t.shape), list(t.stride()), t.storage_offset(),
                t.numel() * t.element_size())
        if seen != real:
            return "%s, torch has %s" % (seen, real)
        if row["device"] != str(t.device):
            return "%s is on %s" % (row["key"], row["device"])
        if t.numel():
            group = groups.setdefault(t.storage().data_ptr(), row["storage"])
            if group != row["storage"] or numbers.setdefault(row["storage"], t.storage().data_ptr()) != t.storage().data_ptr():
                return "%s shares another storage" % row["key"]
        problem = compare_stats(row["stats"], t)
        if problem:
            return "%s: %s" % (row["key"], problem)
    if exact_values and told["values"] != values(value):
        return "values %s, torch has %s" % (told["values"], values(value))
    return ""


# ---- ls ----

def numbers(dtype, n):
    torch.manual_seed(n)
    if dtype.is_complex:
        t = torch.randn(n, dtype=torch.complex128).to(dtype)
    elif dtype.is_floating_point:
        t = (torch.randn(n, dtype=torch.float64) * 3 + 100).to(dtype)
        for i, odd in enumerate((math.nan, math.inf, -math.inf, 0.0, -0.0)):
            t[i * 7 % n] = odd
    else:
        t = torch.randint(0, 2, (n,)).to(dtype) if dtype == torch.bool else torch.randint(-100, 100, (n,)).to(dtype)
    return t


def forms():
    yield "every dtype", {str(d): numbers(d, 3001) for d in FLOATS + INTEGERS + COMPLEX}
    w = torch.randn(40, 30)
    yield "views and strides", {
        "w": w, "t": w.t(), "part": w[3:9, ::2], "tied": w, "flat": w.view(-1), "expanded": w[0].expand(7, 5, 30),
        "permuted": torch.randn(4, 5, 6).permute(2, 0, 1), "row": torch.randn(9)[4:], "channels": torch.randn(
            2, 3, 4, 4).contiguous(memory_format=torch.channels_last)}
    yield "empty and scalar", {"a": torch.zeros(0), "b": torch.zeros(3, 0, 2), "c": torch.tensor(2.5), "d": torch.ones(1)}
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 5))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    net(torch.randn(2, 3, 8, 8)).sum().backward()
    opt.step()
    yield "a training checkpoint", {"model": net.state_dict(), "optimizer": opt.state_dict(), "epoch": 3, "best": 0.25,
                                    "note": "\u00fc\u4e2d\x1b\n\"\\", "none": None, "yes": True, "loss": math.inf,
                                    "history": [1, 2.5, (3, "x")], "empty": {}, "deep": [{"w": torch.ones(2)}, 5]}
    yield "keys with dots and numbers", {"a.b": torch.ones(1), "a": {"b": torch.zeros(1)}, 7: torch.ones(2), "": torch.ones(3)}
    yield "a bare tensor", torch.arange(5)
    yield "a large tensor in pieces", {"w": torch.randn(1500, 1500), "h": torch.randn(2500000).half()}


def ls_cases(folder):
    path = os.path.join(folder, "f.pth")
    for name, value in forms():
        for new in (True, False):
            torch.save(value, path, _use_new_zipfile_serialization=new)
            kind = "zip" if new else "legacy"
            exact = isinstance(value, dict)
            yield "ls: %s (%s)" % (name, kind), compare(path, torch.load(path), exact)
    for wrap in (lambda m: m, torch.nn.DataParallel):
        net = wrap(torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3, bias=False), torch.nn.Sequential(torch.nn.BatchNorm2d(2))))
        torch.save(net, path)
        yield "ls: a whole %s" % type(net).__name__, compare(path, net, False)
    for name in ("resnet20-12fca82f.th", "dqn-conv.pth", "lpips-alex.pth"):
        real = os.path.join(DATA, "ckpt", name)
        if not os.path.exists(real):
            yield "ls: %s # SKIP data: %s is not there" % (name, real), ""
            continue
        out = json.loads(run("ls", "--json", real).stdout)
        copy = torch.load(real, map_location="cpu")
        wanted = [[list(p), list(t.shape)] for p, t in walk(copy)]
        yield "ls: " + name, "" if [[t["path"], t["shape"]] for t in out["tensors"]] == wanted else "other tensors"


def thread_cases(folder):
    path = os.path.join(folder, "threads.pth")
    torch.manual_seed(3)
    torch.save({"a": torch.randn(3000000), "b": torch.randn(70).double(), "c": torch.randn(1200, 900).t()}, path)
    told = {run("ls", "--json", "--stats", "--threads", n, path).stdout for n in ("1", "2", "3", "8")}
    yield "ls --stats is the same for any number of threads", "" if len(told) == 1 else "%d answers" % len(told)


# ---- diff ----

def diff_cases(folder):
    a, b = os.path.join(folder, "a.pth"), os.path.join(folder, "b.pth")

    def check(name, x, y, code, *words, options=(), legacy=False):
        torch.save(x, a)
        torch.save(y, b, _use_new_zipfile_serialization=not legacy)
        out = run("diff", *options, a, b)
        text = out.stdout + out.stderr
        missing = [w for w in words if w not in text]
        return "diff: " + name, "" if out.returncode == code and not missing else "%d: %s" % (out.returncode, text)

    w = torch.randn(300, 70)
    changed = w.clone()
    changed[17, 5] += 0.5
    nan = w.clone()
    nan[3, 3] = math.nan
    yield check("equal files", {"w": w, "n": 1}, {"w": w.clone(), "n": 1}, 0, "the same: 1 tensor, 1 other value")
    yield check("zip against legacy", {"w": w}, {"w": w}, 0, "the same", legacy=True)
    yield check("other strides", {"w": w}, {"w": w.t().contiguous().t()}, 0)
    yield check("an expanded tensor", {"w": w[0].expand(5, 70)}, {"w": w[0].expand(5, 70).contiguous()}, 0)
    yield check("order of keys", {"x": w, "y": w + 1}, {"y": w + 1, "x": w}, 0)
    yield check("one element", {"w": w}, {"w": changed}, 1, "1 of 21000 differ, by at most 0.5")
    yield check("one element in a transposed view", {"w": w.t()}, {"w": changed.t()}, 1, "1 of 21000")
    yield check("tolerance above", {"w": w}, {"w": changed}, 0, options=("--tolerance", "0.51"))
    yield check("tolerance below", {"w": w}, {"w": changed}, 1, options=("--tolerance", "0.49"))
    yield check("NaN is itself", {"w": nan}, {"w": nan.clone()}, 0)
    yield check("NaN on one side", {"w": w}, {"w": nan}, 1, "1 NaN on one side alone", options=("--tolerance", "1e9"))
    yield check("zeros of both signs", {"w": torch.tensor([0.0])}, {"w": torch.tensor([-0.0])}, 0)
    yield check("infinities", {"w": torch.tensor([math.inf])}, {"w": torch.tensor([-math.inf])}, 1, "by at most inf")
    yield check("dtype", {"w": w}, {"w": w.half()}, 1, "float32 [300, 70] against float16 [300, 70]; ")
    yield check("dtype, equal numbers", {"w": w.half().float()}, {"w": w.half()}, 1, "the numbers are the same")
    yield check("shape", {"w": w}, {"w": w.t()}, 1, "[300, 70] against float32 [70, 300]")
    yield check("keys", {"x": w, "z": w}, {"y": w, "z": w}, 1, "only in A  x", "only in B  y")
    yield check("values", {"e": 1, "l": [1, 2], "s": "a"}, {"e": 2, "l": [1, 2], "s": "a"}, 1, "value  e  1 against 2")
    yield check("NaN values", {"e": math.nan}, {"e": math.nan}, 0)
    yield check("kinds", {"e": torch.ones(2)}, {"e": 1}, 1, "value")
    yield check("large integers", {"i": torch.tensor([2**62 + 1])}, {"i": torch.tensor([2**62])}, 1, "by at most 1 ")
    for most, code in (0, 1), (1, 1), (99, 1), (100, 0):
        yield check(f"integers that are one double, tolerance {most}", {"i": 2**60}, {"i": 2**60 + 100}, code, options=("--tolerance", str(most)))
    yield check("complex", {"c": torch.tensor([1 + 2j])}, {"c": torch.tensor([1 + 3j])}, 1, "1 of 1 differ")
    far = (torch.tensor([1 + 2j]), torch.tensor([4 + 6j]))
    yield check("complex magnitude", *({"c": c} for c in far), 1, "by at most 5 (relative: 0.693)", options=("--tolerance", "4.9"))
    yield check("complex tolerance", *({"c": c} for c in far), 0, options=("--tolerance", "5"))
    odd = torch.tensor([complex(math.inf, 1), complex(math.nan, 1), complex(math.nan, 1)])
    yield check("complex NaN and infinity", {"c": odd}, {"c": torch.tensor([complex(math.inf, 1), complex(math.nan, 1),
                complex(0, 1)])}, 1, "1 of 3 differ; 1 NaN on one side alone")
    yield check("a prefix is no secret", {"w": w}, {"module.w": w}, 1, "without wrappers and prefixes, 1 names are in both")
    two = torch.ones(2)
    yield check("tuples as keys", {(1, 2): two, "x": 1}, {(7, 8): two, "x": 1}, 1,
                "only in A  (1, 2)", "only in B  (7, 8)", "2 differences")
    yield check("equal tuples as keys", {(1, "a"): two, (1, "b"): w}, {(1, "b"): w, (1, "a"): two}, 0)
    yield check("sets as keys", {frozenset([1]): two}, {frozenset([2]): two}, 1, "2 differences")
    yield check("a number and a string as keys", {1: two}, {"1": two}, 1, "only in A  1", "1 key has the same text in both")
    yield check("both as keys", {1: two, "1": w}, {"1": w, 1: two}, 0, "the same: 2 tensors")
    yield check("exchanged", {1: two, "1": w}, {"1": two, 1: w}, 1, "2 differences; 2 tensors")
    yield check("nested", {1: {"1": two}}, {"1": {1: two}}, 1, "2 differences")
    yield check("a list and a tuple of tensors", [two], (two,), 1, "1 key has the same text in both")
    yield check("a list and a tuple of numbers", {"a": [1, 2]}, {"a": (1, 2)}, 1, "value  a  [1, 2] against (1, 2)")
    yield check("zeros in keys", {"a\0b": two}, {"a\0c": two}, 1, r"only in A  a\0b", r"only in B  a\0c")
    yield check("a zero and its text in keys", {"a\0b": two}, {r"a\0b": two}, 1, "2 differences", "1 key has the same text in both")
    yield check("quotes in keys", {("a', 'b",): two}, {("a", "b"): two}, 1, r"only in A  ('a\', \'b')", "only in B  ('a', 'b')")
    yield check("backslashes in keys", {("a\0",): two}, {(r"a\0",): two}, 1, r"only in A  ('a\0')", r"only in B  ('a\\0')")
    yield check("keys that are no names", {"w": w, 1: two}, {"w": w, "a\0b": two}, 0, "1 tensor left out, as its key is not text: 1",
                r"'a\0b'", options=("--state-dict",))
    yield check("state_dicts", {"w": w}, {"model": {"module.w": w}, "epoch": 1}, 0, options=("--state-dict",))
    path = os.path.join(folder, "missing.pth")
    out = run("diff", a, path)
    yield "diff: a file that is not there", "" if out.returncode == 1 and not out.stdout and "cannot open" in out.stderr else out.stderr
    torch.save({"w": w}, a)
    with open(a, "rb") as f:
        raw = bytearray(f.read())
    raw[len(raw) // 2] ^= 1
    with open(b, "wb") as f:
        f.write(raw)
    out = run("diff", a, b)
    yield "diff: damage is no difference", "" if out.returncode == 1 and not out.stdout and "is damaged" in out.stderr else out.stdout


# ---- verify ----

class Evil:
    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


def swap_pickle(path, data):
    """The same archive with another data.pkl, every sum in order."""
    copy = path + ".new"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(copy, "w") as new:
        for r in old.infolist():
            new.writestr(r.filename, data if r.filename.endswith("/data.pkl") else old.read(r))
    shutil.move(copy, path)


def pickles_anywhere(path, touch, verify):
    """Files that are no checkpoints, and records that no reader of checkpoints opens, have their globals judged, too."""
    def write(data):
        with open(path, "wb") as f:
            f.write(data)

    evil, named = Evil(os.system, touch), ("calls 'posix.system', which can run code", "DANGEROUS")
    for protocol in range(6):
        write(pickle.dumps({"x": evil}, protocol))
        yield verify("a pickle of protocol %d" % protocol, 1, *named, "the first pickle")
        write(pickle.dumps({"x": evil}, protocol)[:-1] + b"\xff")
        yield verify("a damaged pickle of protocol %d" % protocol, 1, *named)
        write(pickle.dumps([1], protocol) * 6 + pickle.dumps(evil, protocol))
        yield verify("a seventh pickle of protocol %d" % protocol, 1, *named, "the pickle at byte")
    good = torch.ones(3).numpy()
    for deflated in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for name in ("v/data/0", "v/version", "weights.npy", "notes.txt"):
            with zipfile.ZipFile(path, "w", deflated) as z:
                z.writestr(name, pickle.dumps(evil))
            yield verify("a pickle as record %s, method %d" % (name, deflated), 1, *named, name)
    objects = numpy.array([good, evil], dtype=object)
    numpy.save(path + ".npy", objects)
    shutil.move(path + ".npy", path)
    yield verify("an array of objects", 1, *named)
    for save in (numpy.savez, numpy.savez_compressed):
        save(path + ".npz", x=good, y=objects)
        shutil.move(path + ".npz", path)
        yield verify("an archive with an array of objects (%s)" % save.__name__, 1, *named, "y.npy")
    torch.save({"x": torch.ones(300)}, path + ".pth")
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(path + ".pth") as old, zipfile.ZipFile(path, "w") as new:
            for name in old.namelist():
                if name.endswith(("/data.pkl", "/data/0", "/version")):  # newer PyTorch writes more
                    new.writestr(name, old.read(name), method)
        yield verify("records packed by method %d" % method, 1, "unread: 3 records are packed by a method that gtrain cannot unpack",
                     "data.pkl' (method %d)" % method, absent=("damage",))
    for i, data in enumerate((b"cos and sin\n(1.\n" * 9, json.dumps({"posix": "system"}).encode(), random.Random(7).randbytes(5000))):
        write(data)
        yield verify("data that is no pickle (%s)" % ("text", "JSON", "random")[i], 1, absent=("posix", "calls"))


def large_cases(path, verify):
    """Files that unpack to more than gtrain takes into memory are compared with their sums all the same."""
    def pack(data):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("x.npy", data)
            z.writestr("y.npy", b"\x93NUMPY\1\0\x46\0" + b"{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}".ljust(69) + b"\n" + bytes(8))

    array = b"\x93NUMPY\1\0\x46\0" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (40000, 1000)}".ljust(69) + b"\n" + bytes(160000000)
    pack(array)
    yield verify("zeros that unpack to more than the limit", 0, "153 MiB compared with checksums", "over the limit", absent=("damage",))
    with open(path, "r+b") as f:
        whole = f.read()
        f.seek(whole.index(b"PK\1\2") + 16)  # the sum of x.npy
        f.write(b"\1\2\3\4")
        f.seek(14)
        f.write(b"\1\2\3\4")
    yield verify("the same, damaged", 1, "record 'x.npy' is damaged", "153 MiB compared", absent=("'y.npy'",))
    pack(b"\x80\2" + b"N0" * 70000000 + b"cposix\nsystem\n)R.")
    yield verify("a call behind 140 MB that do nothing", 1, "x.npy at byte 140000002 calls 'posix.system'")


def verify_cases(folder):
    path, ran = os.path.join(folder, "v.pth"), os.path.join(folder, "RAN")
    touch = "touch " + ran

    def verify(name, code, *words, absent=(), options=()):
        out = run("verify", *options, path)
        told = json.loads(run("verify", "--json", *options, path).stdout)
        problems = ["status %d" % out.returncode] if out.returncode != code else []
        problems += ["no '%s'" % w for w in words if w not in out.stdout]
        problems += ["'%s'" % w for w in absent if w in out.stdout]
        problems += ["it was run"] if os.path.exists(ran) else []
        problems += ["JSON says otherwise"] if told["ok"] != (code == 0) else []
        return "verify: " + name, "" if not problems else "%s\n%s" % (", ".join(problems), out.stdout + out.stderr)

    good = collections.OrderedDict(a=torch.ones(3), b=torch.ones(2))
    for new in (True, False):
        torch.save(good, path, _use_new_zipfile_serialization=new)
        yield verify("a good file (%s)" % ("zip" if new else "legacy"), 0, "nothing is wrong", "collections.OrderedDict", "allowed")
        torch.save({"a": torch.ones(2), "x": Evil(os.system, touch)}, path, _use_new_zipfile_serialization=new)
        yield verify("os.system (%s)" % ("zip" if new else "legacy"), 1, "calls 'posix.system', which can run code", "DANGEROUS")
    torch.save({"x": Evil(eval, "__import__('os').system('%s')" % touch)}, path)
    yield verify("eval", 1, "builtins.eval", "DANGEROUS")
    torch.save({"x": os.system}, path)
    yield verify("a function that is only named", 1, "names 'posix.system'")
    inner = pickle.dumps(Evil(os.system, touch))
    torch.save({"blob": inner}, path)
    yield verify("a pickle in bytes", 1, "posix.system", "in a string of it")
    torch.save({"blob": pickle.dumps(Evil(os.system, touch), 0).decode("latin1")}, path)
    yield verify("a pickle of protocol 0 in a text", 1, "posix.system", "in a string of it")
    torch.save({"blob": pickle.dumps({"more": inner})}, path)
    yield verify("a pickle in a pickle in a pickle", 1, "posix.system")
    torch.save({"text": "config\nvalue\nmore text. class\n", "note": "cos and sin\n(1.\n"}, path)
    yield verify("text that is no pickle", 0, "nothing is wrong")
    torch.save(good, path)
    swap_pickle(path, b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94h\x00h\x01\x93\x94000}.")
    yield verify("STACK_GLOBAL on texts from the memo", 1, "posix.system")
    swap_pickle(path, b"(S'%s'\niposix\nsystem\n." % touch.encode())
    yield verify("INST", 1, "calls 'posix.system'")
    swap_pickle(path, b"\x80\x02cposix\nsystem\nX" + len(touch).to_bytes(4, "little") + touch.encode() + b"\x85R\xff")
    yield verify("what comes before nonsense", 1, "calls 'posix.system'", "damage")
    yield from pickles_anywhere(path, touch, verify)
    torch.save(torch.nn.Linear(2, 3), path)
    yield verify("a whole model", 1, "torch.nn.modules.linear.Linear", "which weights_only=True refuses", absent=("DANGEROUS",))
    odd = torch.ones(5)
    odd[1], odd[2] = math.nan, -math.inf
    torch.save({"layer": {"w": odd}, "b": torch.ones(2)}, path)
    yield verify("NaN and Inf", 0, "tensor 'layer.w' holds 1 NaN and 1 Inf among 5 elements", absent=("'b'",))
    yield verify("NaN and Inf, strictly", 1, "holds 1 NaN", options=("--strict",))
    torch.save(good, path)
    with zipfile.ZipFile(path, "a") as z:
        z.writestr("v/extra/unused", b"some bytes that no tensor uses")
    with open(path, "rb") as f:
        raw = f.read()
    yield verify("a record that no tensor uses", 0, "nothing is wrong")
    with open(path, "wb") as f:
        f.write(raw.replace(b"some bytes", b"same bytes"))
    yield verify("damage where no tensor is", 1, "record 'v/extra/unused' is damaged")
    with open(path, "wb") as f:
        f.write(raw[:-30])
    yield verify("a cut file", 1, "damage", "is cut")
    torch.save({}, path)
    swap_pickle(path, b"\x80\x02\x82\x01.")
    yield verify("what cannot be read", 1, "unread", "registry (EXT)", absent=("note", "nothing is wrong"))
    for protocol in (3, 4, 5):
        for new in (True, False):
            torch.save(good, path, pickle_protocol=protocol, _use_new_zipfile_serialization=new)
            refused = "written in pickle protocol %d, of which torch.load(weights_only=True) refuses the opcode" % protocol
            yield verify("pickle protocol %d (%s)" % (protocol, "zip" if new else "legacy"), 0, *(
                [refused, "`gtrain ckpt convert`"] if protocol > 3 else ["nothing is wrong"]))
    yield from large_cases(path, verify)
    torch.save(good, path, _use_new_zipfile_serialization=False)
    yield verify("a legacy file", 0, "nothing is wrong")
    with open(path, "ab") as f, zipfile.ZipFile(f, "w") as z:
        z.writestr("archive/data.pkl", b"\x80\x02}.")
    yield verify("a zip after a legacy file", 1, "damage", "that other programs would open instead")


def allowed_cases(folder):
    """Everything on this PyTorch's own list is on ours."""
    import torch._weights_only_unpickler as w
    path = os.path.join(folder, "g.pth")
    torch.save({}, path)
    names = sorted(w._get_allowed_globals())
    lines = b"".join(b"c%s\n%s\n" % tuple(n.encode().rsplit(b".", 1)) for n in names)
    swap_pickle(path, b"\x80\x02(" + lines + b"l.")
    told = json.loads(run("verify", "--json", path).stdout)
    wrong = [g["name"] for g in told["globals"] if not g["allowed"]]
    same = sorted(g["name"] for g in told["globals"]) == names
    yield "verify: PyTorch's own list is allowed", "" if same and not wrong and names else "%s" % (wrong or "names are missing")


def main():
    return tap.run((ls_cases, thread_cases, diff_cases, verify_cases, allowed_cases), GTRAIN)


if __name__ == "__main__":
    sys.exit(main())
