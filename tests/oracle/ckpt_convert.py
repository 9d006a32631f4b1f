#!/usr/bin/python3
# ckpt_convert.py - gtrain ckpt convert, select and merge beside PyTorch: the same tensors and bits.
import functools
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections import OrderedDict, defaultdict

try:
    import numpy as np
    import torch
except ImportError:
    print("1..0 # SKIP python has no torch")
    sys.exit(0)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import program  # noqa: E402

warnings.filterwarnings("ignore")
GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
DATA = os.path.join(os.environ.get("GTRAIN_TEST_DATA", "../shared/data"), "ckpt")
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
results = []


def check(name, good, why=""):
    results.append(good)
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}")
    if not good:
        print(f"# {why}")


def gtrain(*words):
    return subprocess.run([GTRAIN, "ckpt", *words], capture_output=True, text=True)


def convert(source, target, *words):
    done = gtrain("convert", source, "-o", target, *words)
    return done.stderr.strip() if done.returncode else ""


def bits(t):
    t = t.detach().cpu().contiguous()
    return t.reshape(-1).view(torch.uint8) if t.numel() and t.dtype != torch.bool else t


def equal(a, b):
    """Whether two trees are the same, tensors bit for bit; NaN equals NaN."""
    if isinstance(a, torch.Tensor):
        return (isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape
                and torch.equal(bits(a), bits(b)))
    if isinstance(a, dict):
        return (isinstance(b, dict) and list(a) == list(b)
                and all(equal(a[k], b[k]) for k in a))
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, float) and a != a:
        return b != b
    return type(a) is type(b) and a == b


DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16,
          "BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32, "I16": torch.int16,
          "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}


def read_safetensors(path):
    """By the format's description: u64 length, JSON, bytes."""
    raw = open(path, "rb").read()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    meta = header.pop("__metadata__", {})
    out = {}
    for name, entry in header.items():
        first, end = entry["data_offsets"]
        data = torch.frombuffer(bytearray(raw[8 + length + first:8 + length + end] + b"\0"),
                                dtype=torch.uint8)[:end - first]
        out[name] = data.clone().view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    # The library keeps tied weights once, and names the others here.
    for name, kept in meta.items():
        if name not in out and kept in out:
            out[name] = out[kept]
    return out


def samples():
    torch.manual_seed(7)
    base = torch.randn(6, 8)
    tied = torch.randn(5, 3)
    every = OrderedDict((f"t.{d}".replace("torch.", ""), (torch.randn(3, 4) * 9).to(d)) for d in (
        *FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.bool))
    every["t.uint8"] = torch.arange(200, dtype=torch.uint8)
    views = OrderedDict(row=base[2], column=base[:, 3], flipped=base.t(), step=base[::2, 1::3],
                        wide=torch.randn(4, 1).expand(4, 5), scalar=torch.tensor(2.5),
                        empty=torch.empty(0, 4), deep=torch.randn(2, 3, 4, 5).permute(3, 1, 0, 2))
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    model[1].register_buffer("hidden", torch.ones(2), persistent=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.randn(5, 4)).sum().backward()
    optimizer.step()
    state = OrderedDict((k, v) for k, v in model.state_dict().items())
    return {
        "every type": every,
        "views": views,
        "tied": OrderedDict(a=tied, b=tied, c=torch.zeros(2)),
        "training": {"model": state, "optimizer": optimizer.state_dict(), "epoch": 3,
                     "big": 1 << 80, "minus": -(1 << 70), "best": float("nan"),
                     "raw": b"\x00\xffabc", "set": {1, 2}, "name": "\u00fc\u4e2d",
                     "size": (1, 2.5, None, True), "device": torch.device("cpu"),
                     "dtype": torch.float16},
    }, model


def flat(tree):
    return tree.get("model", tree)


def test_round_trips(folder, cases):
    for name, tree in cases.items():
        for legacy in (False, True):
            source = os.path.join(folder, "in.pth")
            torch.save(tree, source, _use_new_zipfile_serialization=not legacy)
            label = f"{name}, {'legacy' if legacy else 'zip'}"
            for first, second in (("pth", "legacy"), ("legacy", "pth")):
                one, two = os.path.join(folder, "one.pth"), os.path.join(folder, "two.pth")
                why = convert(source, one, "--to", first) or convert(one, two, "--to", second)
                good = not why and equal(tree, torch.load(one)) and equal(tree, torch.load(two))
                check(f"{label}: to {first}, then to {second}", good, why)
            for ending in ("safetensors", "npz"):
                there, back = os.path.join(folder, f"x.{ending}"), os.path.join(folder, "x.pth")
                want = flat(tree)
                if ending == "npz":  # numpy has no bfloat16
                    want = OrderedDict((k, v) for k, v in want.items()
                                       if v.dtype != torch.bfloat16)
                    torch.save(want, source)
                why = convert(source, there) or convert(there, back)
                got = torch.load(back) if not why else {}
                check(f"{label}: to {ending} and back",
                      not why and equal({k: want[k] for k in sorted(want)},
                                        {k: got[k] for k in sorted(got)}), why)
                if why:
                    continue
                if ending == "npz":
                    with np.load(there) as z:
                        direct = {k: torch.from_numpy(z[k]) for k in z.files}
                else:
                    direct = read_safetensors(there)
                check(f"{label}: {ending} as others read it",
                      all(equal(want[k], direct[k]) for k in want) and len(want) == len(direct))


def test_attributes(folder, model):
    """What state_dict() adds, parameters, sharing."""
    source, out = os.path.join(folder, "in.pth"), os.path.join(folder, "out.pth")
    torch.save(model.state_dict(), source)
    why = convert(source, out)
    got = torch.load(out)
    check("_metadata stays", getattr(got, "_metadata", None) == model.state_dict()._metadata, why)
    check("weights_only loads", equal(dict(torch.load(out, weights_only=True)),
                                      dict(model.state_dict())))
    p = torch.nn.Parameter(torch.randn(3), requires_grad=False)
    grad = torch.randn(2, requires_grad=True)
    base = torch.randn(10)
    torch.save({"p": p, "q": p, "g": grad, "x": base[:6], "y": base[4:], "s": base.storage()},
               source)
    why = convert(source, out, "--to", "legacy") or convert(out, source, "--to", "pth")
    got = torch.load(source)
    check("parameters", isinstance(got["p"], torch.nn.Parameter) and got["q"] is got["p"]
          and not got["p"].requires_grad and got["g"].requires_grad, why)
    got["x"][4] = 77
    check("views share memory", got["y"][0] == 77 and got["s"][4] == 77)


def cast(t, dtype):
    """What t.to(dtype) gives, but that PyTorch rounds float64 twice, to float32 first."""
    if t.dtype not in FLOATS:
        return t
    near = t.to(dtype)
    if t.dtype != torch.float64 or dtype == torch.float32:
        return near
    codes = near.view(torch.int16)
    for step in (-1, 1):  # the neighbours, where one is nearer, or as near and even
        other = (codes + step).view(dtype)
        gap, now = (other.double() - t).abs(), (codes.view(dtype).double() - t).abs()
        better = (gap < now) | ((gap == now) & ((codes + step) % 2 == 0))
        codes = torch.where(better, codes + step, codes)
    return codes.view(dtype)


def test_casts(folder):
    torch.manual_seed(3)
    patterns = torch.randint(-(1 << 31), (1 << 31) - 1, (200000,), dtype=torch.int64)
    any_bits = patterns.to(torch.int32).view(torch.float32)
    halves = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
    near = torch.randn(100000) * 1e-6
    tree = OrderedDict(any=any_bits[~any_bits.isnan()], near=near, ties=torch.arange(100000) / 512.,
                       doubles=torch.randn(50000, dtype=torch.float64) * 300,
                       half=halves.view(torch.float16), brain=halves.view(torch.bfloat16),
                       strided=torch.randn(300, 200).t(), step=torch.tensor(5))
    tree["half"], tree["brain"] = (t[~t.isnan()] for t in (tree["half"], tree["brain"]))
    source, out = os.path.join(folder, "in.pth"), os.path.join(folder, "out.pth")
    torch.save(tree, source)
    for word, dtype in (("fp32", torch.float32), ("fp16", torch.float16),
                        ("bf16", torch.bfloat16)):
        for ending in ("pth", "safetensors"):
            there = os.path.join(folder, f"cast.{ending}")
            why = convert(source, there, "--dtype", word) or convert(there, out)
            got = torch.load(out) if not why else {}
            wrong = [k for k, t in tree.items() if not why and
                     not equal(cast(t, dtype), got[k])]
            check(f"{word} in {ending} is .to({dtype})", not why and not wrong, why or wrong)


class Slotted(torch.nn.Module):
    """Its state is a tuple: the attributes, the slots."""
    __slots__ = ("extra",)

    def __init__(self):
        super().__init__()
        self.p = torch.nn.Parameter(torch.randn(3))
        self.inner = torch.nn.Linear(3, 2)
        self.register_buffer("hidden", torch.ones(2), persistent=False)
        self.extra = 5

    def __setstate__(self, state):
        self.__dict__.update(state[0])
        self.extra = state[1]["extra"]


class Holder:
    def __init__(self, net):
        self.net = net


class Maker(dict):
    def __reduce__(self):
        return Maker, (self["net"],)

    def __init__(self, net):
        super().__init__(net=net)


def find_dicts(value):
    """What torch made of the holders, as far as they hold a dict of weights."""
    return value.net if isinstance(value, Holder) else value["net"]


def test_hidden_modules(folder):
    """Modules that are recognised and reached wherever they are."""
    source, out = os.path.join(folder, "whole.pth"), os.path.join(folder, "out.pth")
    fx = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    for name, whole in (("slots", Slotted()), ("torch.fx", fx)):
        torch.save({"net": whole, "epoch": 3}, source)
        why = convert(source, out)
        got = torch.load(out, weights_only=True) if not why else {}
        check(f"{name}: its state_dict", not why and got["epoch"] == 3
              and equal(dict(whole.state_dict()), dict(got["net"])), why)
        done = gtrain("ls", "--json", source)
        told = [t["key"] for t in json.loads(done.stdout)["tensors"]
                if t.get("persistent", True)] if not done.returncode else []
        check(f"{name}: ls names it so", told == [f"net.{k}" for k in whole.state_dict()], told)
        key = next(iter(whole.state_dict()))
        done = gtrain("select", source, "--path", f"net.{key}", "-o", out)
        check(f"{name}: select finds it so", done.returncode == 0
              and equal(whole.state_dict()[key], torch.load(out).data), done.stderr)
    for name, holder in (("state", Holder(Slotted())), ("args", Maker(Slotted()))):
        torch.save({"holder": holder}, source)
        why = convert(source, out)
        got = torch.load(out) if not why else {}
        check(f"a module in the {name} of an object", not why and equal(
            dict(find_dicts(holder).state_dict()), dict(find_dicts(got["holder"]))), why)


def test_modules(folder, model):
    source, out = os.path.join(folder, "whole.pth"), os.path.join(folder, "out.pth")
    cases = {"a model": model, "DataParallel": torch.nn.DataParallel(model)}
    tied = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    cases["a tied model"] = tied
    for name, whole in cases.items():
        for legacy in (False, True):
            torch.save(whole, source, _use_new_zipfile_serialization=not legacy)
            why = convert(source, out)
            got = torch.load(out, weights_only=True) if not why else {}
            check(f"{name}{', legacy' if legacy else ''}: its state_dict",
                  not why and equal(dict(whole.state_dict()), dict(got)), why)
            if name == "a tied model" and not why:
                check("tied weights stay tied", got["0.weight"].data_ptr()
                      == got["1.weight"].data_ptr())
            why = convert(source, os.path.join(folder, "x.safetensors"))
            got = read_safetensors(os.path.join(folder, "x.safetensors")) if not why else {}
            want = whole.state_dict()
            check(f"{name}: in safetensors", not why and sorted(want) == sorted(got)
                  and all(equal(want[k], got[k]) for k in want), why)


class Keeper:
    """Some program's class."""

    def __init__(self, value):
        self.value = value


def test_weights_only(folder):
    """--weights-only leaves a file that torch.load(weights_only=True) loads, with all that it would load; without, a line says what it refuses."""
    source, out = os.path.join(folder, "kept.pth"), os.path.join(folder, "out.pth")
    w = torch.arange(6.0).reshape(2, 3)
    plain = {"w": w, "size": w.shape, "type": w.dtype, "od": OrderedDict(a=1), "deep": [(w, None)]}
    if "_codecs.encode" in torch._weights_only_unpickler._get_allowed_globals():  # since PyTorch 2.0
        plain |= {"real": 1.5, "big": 2**70, "bytes": b"a\xff", "set": {1, 2}}
    with_default = defaultdict(list, a=[1])
    # (name, what is saved, what is to be left of it, words of the notes)
    table = [
        ("nothing to leave", plain, plain, []),
        ("an object in a dict", {**plain, "args": Keeper(w)}, plain, ["1 object", "'args' (__main__.Keeper)"]),
        ("objects in a list", {"l": [1, Keeper(1), [Keeper(2)]]}, {"l": [1, None, [None]]}, ["2 objects", "'l.1' (__main__.Keeper), 'l.2.0' (__main__.Keeper)"]),
        ("an object as a key", {"k": {Keeper(1): 2, "a": 1}}, {"k": {"a": 1}}, ["1 object"]),
        ("a dict with defaults", {"d": with_default}, {"d": dict(with_default)}, ["'d' (collections.defaultdict)"]),
        ("a function", {"f": os.system, "w": w}, {"w": w}, ["'f' (posix.system)"]),
        ("a numpy scalar", {"loss": np.float64(3), "w": w}, {"w": w}, ["'loss' (numpy.", "core.multiarray.scalar)"]),
        ("a module and an object", {"net": torch.nn.Linear(2, 2), "o": Keeper(torch.nn.Linear(1, 1))}, None, [" pickled model", "'o' (__main__.Keeper)"]),
        ("more objects than are named", {str(i): Keeper(i) for i in range(6)}, {}, ["6 objects", "'3' (__main__.Keeper) and 2 more"]),
    ]
    for name, saved, left, words in table:
        torch.save(saved, source)
        for to in ("pth", "legacy"):
            done = gtrain("convert", source, "-o", out, "--weights-only", "--to", to)
            got = torch.load(out, weights_only=True) if not done.returncode else {}
            good = equal(got, left) if left is not None else list(got) == ["net"]
            told = all(word in done.stderr for word in words) and ("left behind" in done.stderr) == any("object" in w or "'" in w for w in words)
            check(f"--weights-only, {to}: {name}", good and told, f"{got} {done.stderr}")
        done = gtrain("convert", source, "-o", out)
        told = all(word in done.stderr for word in words) and ("weights_only=True" in done.stderr) == bool(words) and "left behind" not in done.stderr
        check(f"without: {name}", done.returncode == 0 and told, done.stderr)
    torch.save(Keeper(1), source)
    why = convert(source, out, "--weights-only")
    check("--weights-only: nothing would be left", "is an object of class '__main__.Keeper'" in why, why)


def test_many_values(folder):
    """More values than ls would list."""
    source, out = os.path.join(folder, "many.pth"), os.path.join(folder, "out.pth")
    tree = {"w": torch.ones(2), **dict.fromkeys(range(262200), 7)}
    torch.save(tree, source)
    done = gtrain("convert", source, "-o", out, "--json")
    check("many values", done.returncode == 0 and json.loads(done.stdout)["tensors"] == 1
          and equal(tree, torch.load(out)), done.stderr)


def test_long_notes(folder):
    """Nothing of what there is to say is lost because it is long."""
    source, out = os.path.join(folder, "long.pth"), os.path.join(folder, "out.safetensors")
    key = "net" + "x" * 500
    torch.save({key: {"w": torch.ones(2)}, **{f"{i}" + "y" * 80: i for i in range(5)}, "\u4e2d" * 60: 1}, source)
    for words in (("convert", source), ("select", source, "--keys", "w"),
                  ("diff", source, source, "--state-dict")):
        done = gtrain(*words, *(() if words[0] == "diff" else ("-o", out)))
        check(f"{words[0]}: a long note is whole", done.returncode == 0
              and f"'{key}'" in done.stderr
              and (words[0] != "convert" or "left behind: '0yyy" in done.stderr), done.stderr)
    done = gtrain("convert", source, "-o", out, "--json")
    check("and so in JSON", done.returncode == 0
          and any("\u4e2d" * 60 in n for n in json.loads(done.stdout)["notes"]), done.stderr)


def forge(source, target):
    """Give the storages to each other, or other bytes to the only one; the zip itself is sound."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        data = [n for n in old.namelist() if "/data/" in n]
        for name in old.namelist():
            raw = old.read(data[1 - data.index(name)]) if name in data[:2] and data[1:] else old.read(name)
            new.writestr(name, bytes(reversed(raw)) if data == [name] else raw)


def test_forged(folder):
    """What the digests disown is not written again with fresh ones."""
    source, forged, good, out = (os.path.join(folder, f"{n}.pth") for n in ("in", "forged", "good", "out"))
    base = torch.arange(6.0)
    torch.save({"x": torch.ones(2)}, good)
    for name, tree in (("exchanged", {"a": torch.ones(3), "b": torch.zeros(3)}),
                       ("views", {"a": base[:4], "b": base[2:]})):
        torch.save(tree, source)
        convert(source, out)
        forge(out, forged)
        os.remove(out)
        for words in (("convert", forged), ("select", forged, "--keys", "a"), ("merge", good, forged),
                      *((("add-module", forged), ("remap", forged, "--map", "cpu=cuda:0"))
                        if name == "exchanged" else ())):
            done = gtrain(*words, "-o", out)
            check(f"{words[0]}, {name}: refused", done.returncode == 1 and not os.path.exists(out)
                  and "is not the one that was saved" in done.stderr, done.stderr)
    torch.save({"a": torch.ones(3), "b": torch.zeros(3)}, source)
    convert(source, out)
    forge(out, forged)
    before = open(forged, "rb").read()
    done = gtrain("add-module", forged, "--in-place")
    check("in place: refused", done.returncode == 1 and open(forged, "rb").read() == before, done.stderr)


def test_select(folder, cases):
    source, out = os.path.join(folder, "in.pth"), os.path.join(folder, "out.pth")
    tree = cases["training"]
    torch.save(tree, source)
    done = gtrain("select", source, "--path", "model", "-o", out)
    check("--path model", done.returncode == 0 and equal(tree["model"], torch.load(out)),
          done.stderr)
    done = gtrain("select", source, "--path", "optimizer", "-o", out)
    check("--path optimizer", done.returncode == 0 and equal(tree["optimizer"], torch.load(out)),
          done.stderr)
    done = gtrain("select", source, "--path", "optimizer.param_groups.0", "-o", out)
    check("--path into a list", done.returncode == 0
          and equal(tree["optimizer"]["param_groups"][0], torch.load(out)), done.stderr)
    done = gtrain("select", source, "--keys", "0.*", "--keys", "*.bias", "-o", out)
    want = {k: v for k, v in tree["model"].items() if k.startswith("0.") or k.endswith(".bias")}
    check("--keys", done.returncode == 0 and equal(want, dict(torch.load(out))), done.stderr)


def combined(names, trees, out):
    """merge --weights, --base and --drop, by their formulas in float64."""
    base, weights = names[0], (0.75, -0.125)

    def run(*words):
        done = gtrain("merge", *names[1:], *words, "-o", out)
        return done, torch.load(out) if not done.returncode else {}

    def compare(label, words, formula):
        done, got = run("--weights", "0.75,-0.125", *words)
        wrong = [] if not done.returncode else [done.stderr]
        for key in got:
            first = trees[1][key]
            wide = [t[key].to(torch.complex128 if first.is_complex() else torch.float64) for t in trees]
            want = formula(wide).to(first.dtype) if first.is_floating_point() or first.is_complex() else first
            wrong += [] if equal(want, got[key]) else [key]
        check(label, not wrong, " ".join(wrong))

    compare("--weights", [], lambda t: (weights[0] * t[1] + weights[1] * t[2]) / sum(weights))
    compare("--base", ["--base", base], lambda t: t[0] + weights[0] * (t[1] - t[0]) + weights[1] * (t[2] - t[0]))
    _, once = run("--base", base, "--drop", "0.25", "--seed", "5")
    _, again = run("--base", base, "--drop", "0.25", "--seed", "5")
    _, other = run("--base", base, "--drop", "0.25", "--seed", "6")
    check("--drop depends on the seed alone", all(equal(once[k], again[k]) for k in once) and not torch.equal(once["w"], other["w"]))
    wide = [t["w"].double() for t in trees]
    choices = [wide[0] + (a * (wide[1] - wide[0]) + b * (wide[2] - wide[0])) / 0.75 for a in (0, 1) for b in (0, 1)]
    near = torch.stack([(once["w"].double() - c).abs() < 1e-5 for c in choices])
    share = [float(n.double().mean()) for n in near]
    wanted = (0.0625, 0.1875, 0.1875, 0.5625)
    check("--drop leaves out a quarter, and divides the others", bool(near.any(0).all()) and all(abs(s - w) < 0.01 for s, w in zip(share, wanted)), str(share))
    for words, said in ((["--weights", "1"], "for each of 2 files"), (["--weights", "1,x"], "for each of 2 files"), (["--weights", "1,2,3"], "for each of 2 files"),
                        (["--weights", "1,"], "for each of 2 files"), (["--weights", "1,-1"], "there is no mean"),
                        (["--weights", "1e308,1e308"], "too large"), (["--drop", "0.5"], "use it with --base"), (["--base", base, "--average"], "--average"),
                        (["--base", base, "--seed", "3"], "use it with --drop"), (["--base", base, "--drop", "1"], "--drop"),
                        (["--ties", "0.5"], "use it with --base"), (["--base", base, "--ties", "0"], "--ties"), (["--base", base, "--ties", "1.1"], "--ties"),
                        (["--base", base, "--drop", "0.5", "--ties", "0.5"], "--ties below 1"), (["--slerp", "0.5", "--average"], "--average"),
                        (["--slerp", "0.5", "--weights", "1,2"], "--weights"), (["--slerp", "0.5", "--base", base], "--base"), (["--slerp", "1.5"], "--slerp")):
        os.path.exists(out) and os.unlink(out)
        done, _ = run(*words)
        check("merge " + " ".join(words[-2:]).replace(base, "BASE"), done.returncode == 2 and said in done.stderr and not os.path.exists(out), done.stderr)


def reals(t):
    """The numbers of a tensor in float64, two for a complex one."""
    return torch.view_as_real(t.to(torch.complex128)) if t.is_complex() else t.double()


def like(numbers, t):
    return torch.view_as_complex(numbers.contiguous()).to(t.dtype) if t.is_complex() else numbers.to(t.dtype)


def ties(base, others, weights, density):
    """Trim, elect a sign, and take the mean of those that have it."""
    differences = [t - base for t in others]
    for d in differences:
        keep = int(density * d.numel())
        least = d.abs().flatten().sort(descending=True).values[keep - 1] if keep else torch.tensor(float("inf"))
        d[d.abs() < least] = 0
    elected = torch.where(sum(differences) >= 0, 1, -1)
    chosen = [(d.sign() == elected).double() for d in differences]
    total = sum(w * d * c for w, d, c in zip(weights, differences, chosen))
    return base + total / sum(chosen).clamp(min=1)


def slerp(x, y, t):
    cosine = float((x * y).sum() / (x.norm() * y.norm()))
    if not abs(cosine) <= 0.9995:
        return (1 - t) * x + t * y
    angle = math.acos(cosine)
    return (math.sin((1 - t) * angle) * x + math.sin(t * angle) * y) / math.sin(angle)


def on_differences(folder, names, trees, out):
    """merge --ties and --slerp, and one file with a base, by their formulas in float64."""
    def compare(label, files, words, formula, said=""):
        done = gtrain("merge", *files, *words, "-o", out)
        got = torch.load(out) if not done.returncode else {}
        wrong = [] if got and said in done.stderr else [done.stderr]
        for key in got:
            first, mean = trees[1][key], trees[1][key].is_floating_point() or trees[1][key].is_complex()
            want = like(formula([reals(t[key]) for t in trees]), first) if mean else first
            near = torch.allclose(want, got[key], rtol=1e-14 if first.dtype == torch.float64 else 1e-7, atol=0) or equal(want, got[key])
            wrong += [] if near and got[key].dtype == want.dtype else [key]
        check(label, not wrong, " ".join(wrong))

    base, both = ["--base", names[0]], names[1:]
    for share in (0.2, 0.5, 1):
        compare(f"--ties {share}", both, [*base, "--ties", str(share)], lambda t: ties(t[0], t[1:], (1, 1), share))
    compare("--ties with weights", both, [*base, "--ties", "0.3", "--weights", "0.75,-0.125"], lambda t: ties(t[0], t[1:], (0.75, -0.125), 0.3))
    for t in (0, 0.3, 1):
        compare(f"--slerp {t}", both, ["--slerp", str(t)], lambda x: slerp(x[1], x[2], t), "interpolation of 2 checkpoints")
    compare("one file with a base", names[1:2], [*base, "--weights", "-0.5"], lambda t: t[0] - 0.5 * (t[1] - t[0]), "with the differences of 1 checkpoint,")
    compare("one file with a base, trimmed", names[1:2], [*base, "--ties", "0.25"], lambda t: ties(t[0], t[1:2], (1,), 0.25))
    gtrain("merge", *both, *base, "--drop", "0.5", "--ties", "1", "-o", out)
    wide = [t["w"].double() for t in trees]
    choices = [ties(wide[0], [wide[0] + a * (wide[1] - wide[0]), wide[0] + b * (wide[2] - wide[0])], (1, 1), 1) for a in (0, 2) for b in (0, 2)]
    got = torch.load(out)["w"].double()
    near = torch.stack([(got - c).abs() < 1e-5 for c in choices])
    check("DARE-TIES: each element is that of TIES of those that are not dropped", bool(near.any(0).all()) and all(n.double().mean() > 0.24 for n in near))
    files = [os.path.join(folder, f"few{i}.pth") for i in range(3)]
    few = ([0, 0, 0, 0, 0, 0], [1, -1, 3, -2, 0, float("nan")], [1, 1, -3, 1, 0, 1])
    for name, values in zip(files, few):
        torch.save({"w": torch.tensor(values, dtype=torch.float64)}, name)
    gtrain("merge", *files[1:], "--base", files[0], "--ties", "0.5", "-o", out)
    got = torch.load(out)["w"]
    check("elements as large as the last that is kept stay, and NaN", equal(got[:5], torch.tensor([1., 1, 3, -2, 0], dtype=torch.float64)) and got[5].isnan(), str(got))
    lines = [dict(near=torch.tensor(x), zero=torch.zeros(3), far=torch.tensor(y)) for x, y in (([1., 2, 3], [8., 6, 10]), ([2., 4, 6.0625], [8., 8, 4]))]
    for name, tree in zip(files, lines):
        torch.save(tree, name)
    done = gtrain("merge", *files[:2], "--slerp", "0.5", "-o", out)
    got, middle = torch.load(out), {k: (lines[0][k] + lines[1][k]) / 2 for k in lines[0]}
    check("--slerp: nearly parallel tensors, and zeros, are on a line", "2 tensors are nearly parallel or zero" in done.stderr and
          [equal(got[k], middle[k]) for k in ("near", "zero", "far")] == [True, True, False], done.stderr)
    for words, said in (([files[0]], "one file alone"), ([files[0], "--average"], "one file alone"), ([*files, "--slerp", "0.5"], "between two files, not 3"),
                        ([files[0], "--slerp", "0.5"], "between two files, not 1")):
        done = gtrain("merge", *words, "-o", out)
        check("merge " + " ".join(w for w in words if w not in files) + f" of {len(set(words) & set(files))}", done.returncode == 2 and said in done.stderr, done.stderr)


def test_merge(folder):
    names = [os.path.join(folder, f"{n}.pth") for n in "abc"]
    out = os.path.join(folder, "out.pth")
    torch.manual_seed(11)
    trees = [OrderedDict(w=torch.randn(300, 500), h=torch.randn(77).half(),
                         b=torch.randn(9).bfloat16(), t=torch.randn(40, 30).t(),
                         d=torch.randn(5, dtype=torch.float64),
                         z=torch.randn(6, dtype=torch.complex64), n=torch.tensor(i),
                         same=torch.arange(4)) for i in range(3)]
    for name, tree in zip(names, trees):
        torch.save(tree, name)
    done = gtrain("merge", *names, "-o", out, "--average")
    got = torch.load(out) if not done.returncode else {}
    check("--average", done.returncode == 0 and sorted(got) == sorted(trees[0]), done.stderr)
    for key in got:
        first = trees[0][key]
        if first.is_floating_point() or first.is_complex():
            wide = torch.complex128 if first.is_complex() else torch.float64
            want = (sum(t[key].to(wide) for t in trees) / 3).to(first.dtype)
        else:
            want = first
        check(f"--average: {key}", equal(want, got[key]))
    check("--average says what it took from the first", "1 tensor of integers differs"
          in done.stderr, done.stderr)
    combined(names, trees, out)
    on_differences(folder, names, trees, out)
    # The mean is above the middle of two numbers of bfloat16, by less than float32 tells.
    for name, value in zip(names, (1 + 2**-8 + 2**-23, 1 + 2**-8, 1 + 2**-8)):
        torch.save({"w": torch.tensor([value])}, name)
    done = gtrain("merge", *names, "--average", "--dtype", "bf16", "-o", out)
    check("--average --dtype rounds once", done.returncode == 0 and torch.equal(
        torch.load(out)["w"], torch.tensor([1 + 2**-7]).bfloat16()), done.stderr)
    for name, tree in zip(names, trees):
        torch.save(tree, name)
    torch.save({"opt": {0: 1.0, 1: 2.0}}, out)
    done = gtrain("select", out, "--path", "opt", "-o", os.path.join(folder, "none.safetensors"))
    check("keys that are numbers are listed", "its keys are: 0, 1" in done.stderr, done.stderr)
    torch.save(OrderedDict(x=torch.ones(3), same=torch.arange(4)), names[1])
    done = gtrain("merge", *names[:2], "-o", out)
    want = OrderedDict(trees[0], x=torch.ones(3))
    check("union", done.returncode == 0 and equal(want, torch.load(out)), done.stderr)
    torch.save(OrderedDict(w=torch.ones(3)), names[1])
    done = gtrain("merge", *names[:2], "-o", out)
    check("union: a name with two contents", done.returncode == 1 and "'w'" in done.stderr)


def test_overflow(folder):
    source, inf = os.path.join(folder, "in.pth"), float("inf")
    tree = OrderedDict(a=torch.tensor([1e6, inf, -65520.0, 65519.0]), b=torch.ones(3),
                       c=torch.full((300, 70), -1e9, dtype=torch.float64).t(),
                       n=torch.tensor([float("nan"), -inf]))
    torch.save(tree, source)
    for to in program.formats():
        done = gtrain("convert", source, "-o", os.path.join(folder, f"x-{to}"), "--to", to,
                      "--dtype", "fp16")
        check(f"{to}: values that became infinite are counted", done.returncode == 0 and
              "21002 finite values in 2 tensors became infinite" in done.stderr, done.stderr)
    done = gtrain("convert", source, "-o", os.path.join(folder, "x.pth"), "--dtype", "bf16")
    check("none where none did", "finite" not in done.stderr, done.stderr)
    done = gtrain("convert", source, "-o", os.path.join(folder, "x.pth"), "--dtype", "fp16",
                  "--json")
    check("in --json", "21002 finite" in str(json.loads(done.stdout)["notes"]), done.stdout)


def test_step_is_no_weight(folder):
    source, out = os.path.join(folder, "in.pth"), os.path.join(folder, "out.pth")
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    for state in optimizer.state.values():
        state["step"] = torch.tensor(100001.0)
    torch.save({"model": dict(model.state_dict(), scale=torch.tensor(2.0)),
                "optimizer": optimizer.state_dict()}, source)
    for to in ("pth", "legacy"):
        why = convert(source, out, "--to", to, "--dtype", "fp16")
        got = torch.load(out)
        state = got["optimizer"]["state"][0]
        check(f"{to}: the optimizer's step stays float32", not why and state["step"].dtype
              == torch.float32 and state["step"] == 100001 and state["exp_avg"].dtype
              == torch.float16 and got["model"]["scale"].dtype == torch.float16, why)


def test_no_type_for_legacy(folder):
    """A storage of a legacy file is of a class with a type: PyTorch cannot load one that is not."""
    source, out = os.path.join(folder, "in.pth"), os.path.join(folder, "none.pth")
    torch.save({"a": [{"raw": torch.UntypedStorage(3)}], 7: torch.ones(2)}, source)
    done = gtrain("convert", source, "-o", out, "--to", "legacy")
    check("an UntypedStorage is refused", done.returncode == 1 and not os.path.exists(out)
          and "'a.0.raw' has an UntypedStorage, which the legacy format cannot hold" in done.stderr, done.stderr)
    torch.save(torch.UntypedStorage(3), source)
    done = gtrain("convert", source, "-o", out, "--to", "legacy")
    check("an UntypedStorage alone is refused", done.returncode == 1 and "the tensor has an UntypedStorage, which" in done.stderr, done.stderr)


def test_types_stay(folder):
    source, out = os.path.join(folder, "in.pth"), os.path.join(folder, "out.pth")
    counts = defaultdict(int, a=1)
    tree = {"w": torch.ones(2), "size": torch.ones(2, 3).shape, "none": torch.Size([]),
            "counts": counts, "again": counts, "lists": defaultdict(list, {1: [2]}),
            "plain": defaultdict(None, b=2), "tuple": (2, 3), "dict": {}}
    model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    for legacy in (False, True):
        torch.save(tree, source, _use_new_zipfile_serialization=not legacy)
        for to in ("pth", "legacy"):
            why = convert(source, out, "--to", to)
            got = torch.load(out) if not why else {}
            check(f"types stay, to {to}", not why and equal(tree, got)
                  and all(type(tree[k]) is type(got[k]) for k in tree)
                  and got["counts"] is got["again"] and got["counts"]["new"] == 0
                  and got["plain"].default_factory is None and got["lists"][5] == [], why)
    torch.save({"net": {"g": model, "d": model}, "epoch": 1, "list": [model]}, source)
    done = gtrain("convert", source, "-o", out)
    check("models that become state_dicts are named", done.returncode == 0
          and "3 pickled models became their state_dict: 'net.g', 'net.d', 'list.0'"
          in done.stderr, done.stderr)


def test_metadata(folder):
    source, out = os.path.join(folder, "in.pth"), os.path.join(folder, "out.pth")
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Sequential(
        torch.nn.BatchNorm1d(2)), torch.nn.Linear(2, 2))
    state = model.state_dict()
    for tree in (state, {"model": state, "epoch": 1}):
        torch.save(tree, source)
        done = gtrain("select", source, "--keys", "*", "-o", out)
        got = torch.load(out) if not done.returncode else OrderedDict()
        check("select --keys '*' keeps _metadata", getattr(got, "_metadata", None)
              == state._metadata, done.stderr)
    done = gtrain("select", source, "--keys", "2.*", "-o", out)
    got = torch.load(out) if not done.returncode else OrderedDict()
    want = {k: v for k, v in state._metadata.items() if k in ("", "2", "2.0")}
    check("select keeps what belongs to the names", getattr(got, "_metadata", None) == want,
          done.stderr)
    done = gtrain("merge", source, source, "--average", "-o", out)
    check("merge --average keeps _metadata", getattr(torch.load(out), "_metadata", None)
          == state._metadata, done.stderr)
    one, two = os.path.join(folder, "one.pth"), os.path.join(folder, "two.pth")
    for mark in (1, 7):
        for name, parts in ((one, ("0", "3")), (two, ("2",))):
            gtrain("select", source, *(w for p in parts for w in ("--keys", p + ".*")), "-o", name)
        part = torch.load(two)
        part._metadata[""] = {"version": mark}
        torch.save(part, two)
        done = gtrain("merge", one, two, "-o", out)
        got = torch.load(out) if not done.returncode else OrderedDict()
        want = {k: v for k, v in state._metadata.items() if k != "1"}
        check("merge unites _metadata", getattr(got, "_metadata", None) == want
              and ("1 entry of the metadata differs" in done.stderr) is (mark == 7), done.stderr)
        model.load_state_dict(got, strict=True)
    texts = [os.path.join(folder, n) for n in ("texts.safetensors", "more.safetensors", "last.safetensors")]
    for path, text in zip(texts, ({"a": "x", "b": "y"}, {"a": "x", "b": "z", "c": "w"}, {"b": "w", "a": "x"})):
        header = json.dumps({"__metadata__": text, path[-16:-13]: {
            "dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(header)) + header + bytes(4))
    done = gtrain("merge", *texts, "-o", out, "--to", "safetensors")
    with open(out, "rb") as f:
        meta = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))["__metadata__"]
    check("merge unites __metadata__", {k: v for k, v in meta.items() if len(k) == 1}
          == {"a": "x", "b": "y", "c": "w"} and "1 entry of the metadata differs" in done.stderr, done.stderr)
    torch.save({"model": state, "model_ema": state}, source)
    done = gtrain("merge", source, source, "-o", out)
    check("merge says where it found the weights", f"{source}: state_dict found under 'model'; there is also 'model_ema'"
          in done.stderr, done.stderr)
    model[2][0]._version = 7
    torch.save(model, source)
    why = convert(source, out)
    check("of a whole model the versions that are in the file", not why and
          torch.load(out)._metadata == {"2.0": {"version": 7}}, why)
    fresh = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Sequential(
        torch.nn.BatchNorm1d(2)), torch.nn.Linear(2, 2))
    fresh.load_state_dict(torch.load(out), strict=True)


def test_merge_keeps_ties(folder):
    names = [os.path.join(folder, f"{n}.pth") for n in ("one", "two")]
    out = os.path.join(folder, "out.pth")
    for split in (False, True):
        for i, name in enumerate(names):
            torch.manual_seed(i)
            w = torch.randn(4, 5)
            other = torch.randn(4, 5) if split and i else w
            torch.save({"z": w, "n": torch.arange(3), "a": other, "e": torch.empty(0),
                        "t": w.t(), "y": w}, name)
        done = gtrain("merge", *names, "--average", "-o", out)
        got = torch.load(out) if not done.returncode else {}
        one, two = (torch.load(n) for n in names)
        check("--average: a dict stays one", type(got) is dict and list(got) == list(one),
              done.stderr)
        check("--average: values" + (", tie in one file only" if split else ""), all(
            torch.allclose(got[k], ((one[k] + two[k]) / 2).to(one[k].dtype)) for k in one
            if k != "n"))
        tied = got["z"].data_ptr() == got["a"].data_ptr()
        check("--average: what is tied in all files stays so, and nothing else",
              got["z"].data_ptr() == got["y"].data_ptr() and tied is not split)


def test_merge_says_what_it_leaves(folder):
    names = [os.path.join(folder, f"{n}.pth") for n in ("one", "two")]
    out = os.path.join(folder, "out.pth")
    torch.save({"model": {"a.w": torch.ones(2), "a._extra_state": {"k": 1},
                          "a.s": torch.eye(2).to_sparse()},
                "optimizer": {"state": {}, "param_groups": []}, "epoch": 3}, names[0])
    torch.save({"b.w": torch.ones(2), "q": torch.quantize_per_tensor(
        torch.ones(3), 0.5, 0, torch.qint8)}, names[1])
    done = gtrain("merge", *names, "-o", out)
    check("merge names what it leaves of each file", done.returncode == 0
          and f"{names[0]}: left behind: 'optimizer', 'epoch', 'a._extra_state', 'a.s'"
          in done.stderr and f"{names[1]}: left behind: 'q'" in done.stderr, done.stderr)
    done = gtrain("merge", names[0], names[0], "--average", "-o", out, "--json")
    check("and in --json", done.returncode == 0 and any(
        "one.pth: left behind" in note for note in json.loads(done.stdout)["notes"]), done.stdout)


def test_keys_that_are_no_names(folder):
    """Tensors under other keys than text cannot be in a state_dict; none is lost without a word."""
    source, out = os.path.join(folder, "in.pth"), os.path.join(folder, "out.safetensors")
    tree = {0: torch.ones(2), (1, "x"): torch.ones(3), "a\0b": torch.ones(1), "a.weight": torch.zeros(1)}
    names = r"0, (1, 'x'), 'a\0b'"
    for nested in (False, True):
        torch.save({"model": tree} if nested else tree, source)
        for words in (("convert", source), ("merge", source, source), ("merge", source, source, "--average")):
            done = gtrain(*words, "-o", out)
            check(f"{words[0]} names tensors without a name", done.returncode == 0
                  and f"left behind: {names}" in done.stderr, done.stderr)
        done = gtrain("select", source, "--keys", "*", "-o", out)
        check("select, too", done.returncode == 0 and f"3 tensors left out, as their keys are not text: {names}"
              in done.stderr, done.stderr)


def test_rewritten(folder):
    """Another program copies gtrain's checksums into a header of its own: they are stale, not damage."""
    source, old, new, out = (os.path.join(folder, n) for n in ("in.pth", "old.safetensors", "new.safetensors", "out.safetensors"))
    torch.save({"a.w": torch.ones(3), "b.w": torch.zeros(2)}, source)
    convert(source, old)
    with open(old, "rb") as f:
        meta = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))["__metadata__"]
    orders = [meta, dict(sorted(meta.items())), dict(reversed(meta.items())), {**meta, "more": "text"}]
    for i, (kept, separators) in enumerate((m, s) for m in orders for s in (None, (",", ":"))):
        header = {"__metadata__": kept, "x.w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                  "y.w": {"dtype": "F32", "shape": [3], "data_offsets": [8, 20]}}
        text = json.dumps(header, separators=separators).encode()
        with open(new, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + struct.pack("<5f", 1, 2, 3, 4, 5))
        want = {"x.w": torch.tensor([1., 2]), "y.w": torch.tensor([3., 4, 5])}
        done = gtrain("verify", new)
        check(f"rewritten {i}: verify", done.returncode == 0 and "note: the checksums in __metadata__ are stale" in done.stdout, done.stdout)
        done = gtrain("add-module", new, "-o", out)
        check(f"rewritten {i}: edited", done.returncode == 0 and "stale" in gtrain("verify", out).stdout
              and equal(read_safetensors(out), {"module." + k: t for k, t in want.items()}), done.stderr)
        done = gtrain("convert", new, "-o", out)
        told = gtrain("verify", out).stdout
        check(f"rewritten {i}: convert", done.returncode == 0 and "nothing is wrong" in told
              and equal(read_safetensors(out), want), done.stderr + told)
        with open(out, "r+b") as f:
            f.seek(-1, os.SEEK_END)
            f.write(b"\1")
        check(f"rewritten {i}: with new checksums", "is damaged" in gtrain("verify", out).stdout)


def test_names_of_python_2(folder):
    """Protocol 2 writes __builtin__.xrange for range: both halves of such a name are new."""
    source, out = os.path.join(folder, "in.pth"), os.path.join(folder, "out.pth")
    tree = {"x.w": torch.ones(1), "o": range(3), "types": [int, str, range, bytes, functools.reduce,
                                                          sys.intern, chr, complex, object],
            "zip": zip, "map": map, "error": ValueError, "number": complex(1, 2)}
    for legacy in (False, True):
        torch.save(tree, source, _use_new_zipfile_serialization=not legacy)
        for to in ("pth", "legacy"):
            why = convert(source, out, "--to", to)
            check(f"names that Python 2 had otherwise, to {to}", not why
                  and equal(tree, torch.load(out)), why)


def test_real(folder):
    if not os.path.isdir(DATA):
        print(f"ok {len(results) + 1} - real files # SKIP no {DATA}")
        results.append(True)
        return
    for name in sorted(os.listdir(DATA)):
        source, want = os.path.join(DATA, name), None
        want = torch.load(source, map_location="cpu")
        state = want.get("state_dict", want)
        for to in program.formats():
            there, back = os.path.join(folder, f"{name}.{to}"), os.path.join(folder, "back.pth")
            why = convert(source, there, "--to", to) or convert(there, back)
            got = torch.load(back, map_location="cpu") if not why else {}
            got = got.get("state_dict", got) if to == "dcp" else got  # its parameters are tensors
            same = (equal(want, got) if to in ("legacy", "pth") else
                    sorted(state) == sorted(got) and all(equal(state[k].data, got[k])
                                                         for k in state))
            check(f"{name}: {to} and back", not why and same, why)


def main():
    print("TAP version 13")
    with tempfile.TemporaryDirectory() as folder:
        cases, model = samples()
        test_round_trips(folder, cases)
        test_attributes(folder, model)
        test_casts(folder)
        test_modules(folder, model)
        test_hidden_modules(folder)
        test_many_values(folder)
        test_long_notes(folder)
        test_weights_only(folder)
        test_forged(folder)
        test_select(folder, cases)
        test_merge(folder)
        test_overflow(folder)
        test_step_is_no_weight(folder)
        test_no_type_for_legacy(folder)
        test_types_stay(folder)
        test_metadata(folder)
        test_merge_keeps_ties(folder)
        test_merge_says_what_it_leaves(folder)
        test_keys_that_are_no_names(folder)
        test_rewritten(folder)
        test_names_of_python_2(folder)
        test_real(folder)
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
