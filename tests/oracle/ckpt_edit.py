#!/usr/bin/python3
# ckpt_edit.py - edits of checkpoints against PyTorch: only what was asked for changes, and it loads.
import collections
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import warnings
import zipfile

try:
    import torch
except ImportError:
    print("1..0 # SKIP python has no torch")
    sys.exit(0)

warnings.filterwarnings("ignore")
GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
DATA = os.environ.get("GTRAIN_TEST_DATA", "../shared/data")
WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
torch.manual_seed(5)


def gtrain(command, *args):
    if command != "ls":
        args += ("--sync=no",)  # what the disk does is no part of this test
    return subprocess.run([GTRAIN, "ckpt", command, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


# ---- what files hold ----

def network():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, bias=False), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
                               torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 5)))


def stepped(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.randn(6, 3, 4, 4)).sum().backward()
    optimizer.step()
    return optimizer


def wrapped():
    return torch.nn.DataParallel(network())


def plain():
    return wrapped().state_dict()


def training():
    model = wrapped()
    optimizer = stepped(model)
    return {"epoch": 3, "arch": "module.0.weight", "state_dict": model.state_dict(), "best": 0.5,
            "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state(), "note": None}


def nested():
    """EMA copy beside the model; the same str objects are keys in both."""
    state = plain()
    ema = collections.OrderedDict((k, v.clone()) for k, v in state.items())
    return {"train": {"model": state, "ema": {"shadow": ema}}, "list": [{"again": dict(state)}]}


def memo():
    """One str object as a key of two dicts, a value, an element of lists and of a tuple."""
    key = "module." + "conv.weight"
    other = "module." + "conv.bias"
    return {"a": {key: torch.ones(2), other: torch.zeros(1)}, "names": [key, key, other], "first": key,
            "pair": (other, key), "b": {other: torch.ones(3), key: torch.arange(4.)}, key: [other]}


def memo_value_first():
    key = "module." + "conv.weight"
    return {"first": key, "names": [key], "a": {key: torch.ones(2)}, "last": key}


def by_name():
    """An optimizer that knows parameters by name, as FSDP's full optimizer state does."""
    state = plain()
    names = [k for k in state if k.endswith("weight")]
    return {"model": state, "optimizer": {
        "state": {n: {"exp_avg": torch.ones(2), "step": 3, "module.0.weight": torch.ones(1)} for n in names},
        "param_groups": [{"lr": 0.1, "params": names, "param_names": list(names), "note": names[0]}]}}


def tied():
    w = torch.randn(6, 4)
    return {"module.a.weight": w, "module.b.weight": w, "module.view": w[1:3].t(), "module.scalar": torch.tensor(2.5),
            "module.empty": torch.empty(0, 3), "module.half": torch.ones(3, dtype=torch.float16),
            "module.b16": torch.ones(3, dtype=torch.bfloat16), "module.bool": torch.tensor([True, False]),
            "module.long": torch.arange(3), "module.c": torch.ones(2, dtype=torch.complex64), "module.none": None}


def stacked():
    return {"module._orig_mod.a.weight": torch.ones(1), "_orig_mod.module.b.weight": torch.ones(2),
            "module.module.c": torch.ones(3), "d": torch.ones(4), "x.module.e": torch.ones(5), "module.": torch.ones(6)}


def compiled():
    """`_metadata` of a wrapped wrapper: three entries want to be ''."""
    state = collections.OrderedDict(("module._orig_mod." + k, v) for k, v in network().state_dict().items())
    state._metadata = collections.OrderedDict({"": {"version": 7}, "module": {"version": 8}})
    for k, v in network().state_dict()._metadata.items():
        state._metadata[("module._orig_mod." + k).rstrip(".")] = v
    return state


def unicode_names():
    return {"module.gewicht_größe.weight": torch.ones(1), "module.重み.bias": torch.ones(2),
            "module." + "x" * 300 + ".weight": torch.ones(3), "module.\U0001f600": torch.ones(4)}


def many():
    return {"module.layer%d.weight" % i: torch.full((3,), float(i)) for i in range(1500)}


def inner():
    """FSDP and activation checkpointing wrap modules inside the model, torch.compile and DDP around it."""
    names = {"0": "_fsdp_wrapped_module._checkpoint_wrapped_module", "2": "_orig_mod.module"}
    front, state = "module._orig_mod._fsdp_wrapped_module.", network().state_dict()
    out = collections.OrderedDict()
    for k, v in state.items():
        head, _, tail = k.partition(".")
        out[front + ".".join(filter(None, (head, names.get(head), tail)))] = v
    out._metadata = collections.OrderedDict({"": {"version": 7}, front[:-1]: {"version": 1}})
    return {"model": out, "epoch": 1, "a": {"model._orig_mod.module._orig_mod.w.weight": torch.ones(2)}}


CASES = [inner, plain, training, nested, memo, memo_value_first, by_name, tied, stacked, compiled, unicode_names, many]


# ---- what has to become of them ----

def strip(name):
    """The wrappers of PyTorch's own go wherever they are, "module." in front and behind another wrapper."""
    kept, follows, steps = [], True, name.split(".")
    for i, step in enumerate(steps):
        last = i + 1 == len(steps) or steps[i + 1:] == [""]
        follows = not last and (step in WRAPPERS or (step == "module" and follows))
        if not follows:
            kept.append(step)
    return ".".join(kept)


def strip_path(path):
    name = strip(path + ".x")
    return "" if name == "x" else name[:-2]


def is_state_dict(d):
    return isinstance(d, dict) and any(isinstance(v, torch.Tensor) and "." in k for k, v in d.items() if isinstance(k, str)) \
        and all(v is None or isinstance(v, torch.Tensor) for v in d.values())


def expected(value, rename, names=None):
    """The Python value after names of its state_dicts went through `rename`."""
    if names is None:
        names = set(itertools.chain.from_iterable(all_names(value)))
    if isinstance(value, dict) and {"state", "param_groups"} <= set(value):
        new = lambda n: rename(n) if isinstance(n, str) and n in names else n
        return {**value, "state": {new(k): v for k, v in value["state"].items()},
                "param_groups": [{k: [new(x) for x in v] if isinstance(v, list) else v for k, v in g.items()}
                                 for g in value["param_groups"]]}
    if is_state_dict(value):
        return type(value)((rename(k), v) for k, v in value.items())
    if isinstance(value, dict):
        return type(value)((k, expected(v, rename, names)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return type(value)(expected(v, rename, names) for v in value)
    return value


def all_names(value):
    if isinstance(value, dict) and {"state", "param_groups"} <= set(value):
        return
    if is_state_dict(value):
        yield value.keys()
    elif isinstance(value, (dict, list, tuple)):
        for v in value.values() if isinstance(value, dict) else value:
            yield from all_names(v)


def difference(a, b, path="root"):
    if type(a) is not type(b):
        return "%s: %s, not %s" % (path, type(a), type(b))
    if isinstance(a, torch.Tensor):
        same = (a.dtype, a.shape, a.stride(), a.storage_offset(), a.requires_grad) == \
            (b.dtype, b.shape, b.stride(), b.storage_offset(), b.requires_grad) and a.device == b.device
        return "" if same and torch.equal(a, b) else path + ": tensors differ"
    if isinstance(a, dict):
        if list(a) != list(b):
            return "%s: keys %s, not %s" % (path, [k for k in a if k not in b][:3], [k for k in b if k not in a][:3])
        pairs = ((a[k], b[k], "%s[%r]" % (path, k)) for k in a)
    elif isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return path + ": lengths differ"
        pairs = ((x, y, "%s[%d]" % (path, i)) for i, (x, y) in enumerate(zip(a, b)))
    else:
        return "" if a == b else "%s: %r, not %r" % (path, a, b)
    return next(filter(None, (difference(*p) for p in pairs)), "")


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for v in value.values() if isinstance(value, dict) else value:
            yield from tensors(v)


def sharing(value):
    seen = {}
    return [seen.setdefault(t.storage().data_ptr(), len(seen)) if t.numel() else -1 for t in tensors(value)]


def metadata_problem(old, new, path=strip_path):
    """Entries under a path that names lead to must be there, with their value."""
    if not hasattr(old, "_metadata"):
        return "a _metadata came from nowhere" if hasattr(new, "_metadata") else ""
    if len(old._metadata) != len(new._metadata):
        return "_metadata has %d entries, not %d" % (len(new._metadata), len(old._metadata))
    for p, v in old._metadata.items():
        if p not in ("", "module") and new._metadata.get(path(p)) != v:
            return "_metadata of %r is lost" % p
    return ""


# ---- files ----

def save(value, path, legacy, protocol):
    torch.save(value, path, pickle_protocol=protocol, _use_new_zipfile_serialization=not legacy)


def loads_restricted(path):
    try:
        torch.load(path, weights_only=True)
        return True
    except Exception:
        return False


def protocol_of(path):
    """The pickle protocol of a file of either format."""
    if not zipfile.is_zipfile(path):
        return open(path, "rb").read(2)[1]
    with zipfile.ZipFile(path) as z:
        return next(z.read(n)[1] for n in z.namelist() if n.endswith("/data.pkl"))


def check_protocol(target, protocol, in_place, said):
    """A copy has protocol 2 if torch.load would refuse that of the input; a file that is edited in place keeps its own."""
    refused = protocol >= 4
    kept = 2 if refused and not in_place else protocol
    line = f"keeps pickle protocol {protocol}" if in_place else f"pickle protocol {protocol} became protocol 2"
    if protocol_of(target) != kept:
        return f"protocol {protocol_of(target)} for {kept}"
    return "" if (line in said) == refused else f"said: {said}"


def check_edit(folder, value, legacy, protocol, command, rename, path=strip_path):
    """-o, --in-place, and -o of that: all three are the expected value."""
    source, out, own, again = (os.path.join(folder, n) for n in ("in.pth", "out.pth", "own.pth", "again.pth"))
    save(value, source, legacy, protocol)
    before = open(source, "rb").read()
    open(own, "wb").write(before)
    want = expected(torch.load(source), rename)
    for target, args in (out, [source, "-o", out]), (own, [own, "--in-place"]), (again, [own, "-o", again]):
        if target == again and command[0] != "strip-module":
            continue
        done = gtrain(*command, *args)
        if done.returncode:
            return "%s: %s" % (os.path.basename(target), done.stderr)
        got = torch.load(target)
        problem = difference(got, want) or ("" if sharing(got) == sharing(want) else "tensors share otherwise")
        if not problem and hasattr(value, "_metadata"):
            problem = metadata_problem(value, got, path)
        if not problem and target != again:
            problem = check_protocol(target, protocol, target == own, done.stderr)
        if not problem and protocol >= 4 and target == out:
            save(value, source + ".2", legacy, 2)
            if loads_restricted(source + ".2") != loads_restricted(out):
                problem = "weights_only=True does not open it as it opens protocol 2"
        if not problem and loads_restricted(source) and not loads_restricted(target):
            problem = "weights_only=True refuses it"
        if problem:
            return "%s: %s" % (os.path.basename(target), problem)
        listed = gtrain("ls", "--json", target)
        if listed.returncode:
            return "%s: gtrain ls: %s" % (os.path.basename(target), listed.stderr)
    return "" if open(source, "rb").read() == before else "the input has changed"


def case_tests(folder):
    for case, legacy, protocol in itertools.product(CASES, (False, True), (2, 3, 4)):
        name = "%s, %s, protocol %d" % (case.__name__, "legacy" if legacy else "zip", protocol)
        if protocol == 3 and case is not memo:
            continue  # 2 with another number; 4 has frames and MEMOIZE
        value = case()
        yield "strip-module: " + name, lambda v=value, l=legacy, p=protocol: \
            check_edit(folder, v, l, p, ["strip-module"], strip)
        if protocol == 2:
            yield "add-module: " + name, lambda v=value, l=legacy: check_edit(
                folder, v, l, 2, ["add-module", "--prefix", "net.module."], "net.module.".__add__,
                lambda p: "net.module." + p)


def check_rename(folder):
    value = {"model": plain()}
    rules = {r"^module\.0\.": "stem.conv.", r"^module\.([0-9]+)\.": r"blocks.\1.", "running_": "moving_"}
    import re

    def rename(name):
        for pattern, to in rules.items():
            name = re.sub(pattern, to, name, count=1)
        return name
    source, out = os.path.join(folder, "in.pth"), os.path.join(folder, "out.pth")
    save(value, source, False, 2)
    done = gtrain("rename", source, "-o", out, *itertools.chain.from_iterable(("--map", p + "=" + t) for p, t in rules.items()))
    if done.returncode:
        return done.stderr
    got = torch.load(out)
    paths = list(got["model"]._metadata)
    return difference(got, expected(value, rename)) or \
        ("" if {"stem.conv", "blocks.1", "blocks.3.1"} <= set(paths) else "_metadata has %s" % paths)


def check_strict(folder, wrap, legacy):
    """What load_state_dict(strict=True) has to say, `_metadata`'s versions included."""
    source, out = os.path.join(folder, "in.pth"), os.path.join(folder, "out.pth")
    model = wrap(network())
    save({"state_dict": model.state_dict()}, source, legacy, 2)
    done = gtrain("strip-module", source, "-o", out)
    if done.returncode:
        return done.stderr
    fresh = network()
    fresh.load_state_dict(torch.load(out)["state_dict"], strict=True)
    back = os.path.join(folder, "back.pth")
    done = gtrain("add-module", out, "-o", back)
    if done.returncode:
        return done.stderr
    wrapped().load_state_dict(torch.load(back)["state_dict"], strict=True)
    return difference(list(fresh.state_dict().values()), list(model.state_dict().values()))


class Stateful(torch.nn.Module):
    """A module whose extra state is a value that no tensor holds."""

    def __init__(self, value):
        super().__init__()
        self.weight, self.value = torch.nn.Parameter(torch.ones(2)), value

    def get_extra_state(self):
        return self.value

    def set_extra_state(self, value):
        self.value = value


def content(value):
    return value.getvalue() if isinstance(value, io.BytesIO) else value


def quantised():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 2)))
    return torch.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)


def check_other_entries(folder, make, nest, legacy):
    """State that is no tensor is renamed as the tensors are: load_state_dict finds every key."""
    one, two, three, back = (os.path.join(folder, n) for n in ("in.pth", "out.pth", "re.pth", "back.pth"))
    model = make()
    value = torch.nn.DataParallel(model).state_dict()
    value["epoch"] = 3  # added by a script: no module has it
    save({"model": value} if nest else value, one, legacy, 2)
    for args in (["strip-module", one, "-o", two], ["rename", one, "--map", r"^module\.=", "-o", three],
                 ["add-module", two, "-o", back]):
        done = gtrain(*args)
        if done.returncode:
            return done.stderr
        checked = subprocess.run([GTRAIN, "ckpt", "verify", "-q", args[-1]], stdout=subprocess.PIPE, text=True)
        if "damage" in checked.stdout:
            return checked.stdout
    for path, wrap in (two, lambda m: m), (three, lambda m: m), (back, torch.nn.DataParallel):
        got = torch.load(path)["model"] if nest else torch.load(path)
        fresh = make()
        if got.pop("epoch", 0) != 3:
            return "'epoch' is not as it was"
        try:
            wrap(fresh).load_state_dict(got, strict=True)
        except RuntimeError as e:
            return str(e)
        if [content(m.value) for m in fresh.modules() if isinstance(m, Stateful)] != \
           [content(m.value) for m in model.modules() if isinstance(m, Stateful)]:
            return "the extra state differs"
    return ""


OTHER_ENTRIES = {
    "BytesIO": lambda: torch.nn.Sequential(torch.nn.Linear(2, 2), Stateful(io.BytesIO(b"a\0b"))),
    "bytes": lambda: torch.nn.Sequential(Stateful(b"a\0\xff"), Stateful({"a": (1, b"c")})),
    "quantize_dynamic": quantised,
}


class Block(torch.nn.Module):
    """The layout of the CIFAR ResNets of akamaster/pytorch_resnet_cifar10: conv1 bn1 conv2 bn2, no shortcut weights."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(outputs)
        self.conv2 = torch.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(outputs)


class ResNet20(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(16)
        for i, (a, b) in enumerate(((16, 16), (16, 32), (32, 64)), 1):
            setattr(self, "layer%d" % i, torch.nn.Sequential(Block(a, b, min(i, 2)), Block(b, b, 1), Block(b, b, 1)))
        self.linear = torch.nn.Linear(64, 10)


def check_resnet20(folder):
    source = os.path.join(DATA, "ckpt", "resnet20-12fca82f.th")
    cpu, out = os.path.join(folder, "cpu.th"), os.path.join(folder, "out.th")
    for args in ["remap", source, "--map", "cuda:*=cpu", "-o", cpu], ["strip-module", cpu, "-o", out]:
        done = gtrain(*args)
        if done.returncode:
            return done.stderr
    old, new = torch.load(source, map_location="cpu"), torch.load(out)  # no map_location: all is on the CPU
    ResNet20().load_state_dict(new["state_dict"], strict=True)
    return difference(new, expected(old, strip))


def cuda_file(path, value, legacy):
    """A file that says cuda: the location of storages, changed while it is pickled (this torch has no GPU)."""
    real, numbers = torch.serialization.location_tag, {}
    torch.serialization.location_tag = lambda s: "cuda:%d" % (numbers.setdefault(s.data_ptr(), len(numbers)) % 2)
    try:
        save(value, path, legacy, 2)
    finally:
        torch.serialization.location_tag = real


def locations(path):
    seen = []

    def note(storage, location):
        seen.append(location)
        return storage
    value = torch.load(path, map_location=note)
    return value, seen


def check_remap(folder, legacy):
    source, out = os.path.join(folder, "in.pth"), os.path.join(folder, "out.pth")
    value = {"cuda:0": "cuda:0", "m": {"a.w": torch.ones(2), "b.w": torch.ones(3), "c.w": torch.ones(5)}, "x": ["cuda:1"]}
    cuda_file(source, value, legacy)
    was = locations(source)[1]
    if sorted(set(was)) != ["cuda:0", "cuda:1"]:
        return "the file made for this test is on %s" % was
    swap = {"cuda:0": "cuda:1", "cuda:1": "cuda:0"}
    for maps, to in ((["cuda:*=cpu"], lambda l: "cpu"), (["cuda:0=cuda:1", "cuda:1=cuda:0"], swap.get),
                     (["cuda=cpu"], lambda l: "cpu" if l == "cuda:0" else l), (["*=cuda:7"], lambda l: "cuda:7")):
        done = gtrain("remap", source, "-o", out, *itertools.chain.from_iterable(("--map", m) for m in maps))
        if done.returncode:
            return done.stderr
        got, now = locations(out)
        problem = difference(got, locations(source)[0]) or \
            ("" if now == [to(l) for l in was] else "%s: on %s, was %s" % (maps, now, was))
        if problem:
            return problem
    return ""


def check_long_edits(folder):
    """One edit in place after the other: the file grows, is read by both, and -o takes the dead bytes away."""
    path, out = os.path.join(folder, "own.pth"), os.path.join(folder, "out.pth")
    value = training()
    save(value, path, False, 2)
    size = os.path.getsize(path)
    for command in ("strip-module", "add-module") * 5:
        done = gtrain(command, path, "--in-place", "--json")
        if done.returncode:
            return done.stderr
        if json.loads(done.stdout)["dead_bytes"] < 500:
            return "no dead bytes are reported"
    done = gtrain("strip-module", path, "-o", out)
    if done.returncode:
        return done.stderr
    if os.path.getsize(out) > size + 4096:
        return "%d bytes became %d" % (size, os.path.getsize(out))
    return difference(torch.load(out), expected(value, strip))


def check_records(folder):
    """Records that are not ours are carried over, aligned as they were; sums stay."""
    import zipfile
    source, out = os.path.join(folder, "in.pth"), os.path.join(folder, "out.pth")
    save(plain(), source, False, 2)
    with zipfile.ZipFile(source, "a") as z:
        z.writestr("in/extra/of mine", b"anything " * 40, zipfile.ZIP_DEFLATED)
        if "in/byteorder" not in z.namelist():  # older PyTorch writes none
            z.writestr("in/byteorder", "little")
        z.comment = b"a comment"
    done = gtrain("strip-module", source, "-o", out)
    own = gtrain("strip-module", source, "--in-place")
    if done.returncode or own.returncode:
        return done.stderr + own.stderr
    for path in out, source:
        with zipfile.ZipFile(path) as z:
            if z.testzip() or z.read("in/extra/of mine") != b"anything " * 40 or z.comment != b"a comment":
                return "records are not as they were"
            with open(path, "rb") as f:
                for i in z.infolist():
                    f.seek(i.header_offset + 26)
                    start = i.header_offset + 30 + sum(int.from_bytes(f.read(2), "little") for _ in "ne")
                    if start % 64 and ("/data" in i.filename):
                        return "%s is at byte %d" % (i.filename, start)
        torch.load(path)
    return ""


def check_refusal(folder, value, command, words):
    path, out = os.path.join(folder, "in.pth"), os.path.join(folder, "out.pth")
    save(value, path, False, 2)
    before = open(path, "rb").read()
    if os.path.exists(out):
        os.remove(out)
    for args in [path, "-o", out], [path, "--in-place"]:
        done = gtrain(*command, *args)
        if done.returncode != 1 or any(w not in done.stderr for w in words):
            return "%d: %s" % (done.returncode, done.stderr)
    return "something was written" if os.path.exists(out) or open(path, "rb").read() != before else ""


def refusals(folder):
    both = {"module.a.w": torch.ones(1), "a.w": torch.ones(2), "module.b.w": torch.ones(1), "b.w": torch.ones(1)}
    model = wrapped()
    yield "names that would collide", both, ["strip-module"], ["2 names", "'module.a.w'", "'b.w'"]
    yield "names that one rule makes one", plain(), ["rename", "--map", "^.*$=x"], ["become 'x'"]
    yield "a whole model", model, ["strip-module"], ["whole pickled model", "DataParallel", "ckpt convert"]
    yield "a whole model in a dict", {"model": model, "epoch": 1}, ["strip-module"], ["whole pickled model"]
    yield "a module beside tensors", {"x.w": torch.ones(1), "epoch": 1, "o": torch.nn.Linear(1, 1)}, \
        ["strip-module"], ["no state_dict", "'o' is not a tensor, so its dict is not a state_dict"]
    yield "a lone surrogate in a name", {"module.a.w": torch.ones(1), "module.\ud800.w": torch.ones(1)}, ["add-module"], \
        ["would become text that is not UTF-8", "hint: the name is not UTF-8 itself"]
    yield "an optimizer alone", stepped(model).state_dict(), ["strip-module"], ["optimizer's state"]
    yield "no state_dict", {"epoch": 1, "rng": torch.ones(3), "names": ["module.a"]}, ["add-module"], ["no state_dict"]


def tests(folder):
    yield from case_tests(folder)
    yield "rename: groups, and _metadata follows", lambda: check_rename(folder)
    for legacy in False, True:
        kind = "legacy" if legacy else "zip"
        yield "strict=True after strip-module and back, DataParallel, " + kind, \
            lambda l=legacy: check_strict(folder, torch.nn.DataParallel, l)
        yield "remap, " + kind, lambda l=legacy: check_remap(folder, l)
        for what, make in OTHER_ENTRIES.items():
            for nest in False, True:
                yield "renamed too: %s, %s%s" % (what, kind, ", nested" if nest else ""), \
                    lambda m=make, n=nest, l=legacy: check_other_entries(folder, m, n, l)
    yield "edits in place, ten in a row", lambda: check_long_edits(folder)
    yield "records and their places", lambda: check_records(folder)
    for what, *rest in refusals(folder):
        yield "refused: " + what, lambda r=rest: check_refusal(folder, *r)


def main():
    with tempfile.TemporaryDirectory() as folder:
        todo = list(tests(folder))
        real = os.path.isdir(os.path.join(DATA, "ckpt"))
        print("1..%d" % (len(todo) + 1))
        for i, (name, test) in enumerate(todo, 1):
            problem = test()
            print("%s %d - %s" % ("not ok" if problem else "ok", i, name))
            if problem:
                print("# " + problem.strip().replace("\n", "\n# "))
        name = "strip-module and remap of resnet20 load with strict=True"
        problem = check_resnet20(folder) if real else None
        print("%s %d - %s%s" % ("not ok" if problem else "ok", len(todo) + 1, name,
                                "" if real else " # SKIP data: no " + os.path.join(DATA, "ckpt")))
        if problem:
            print("# " + problem)


main()
