#!/usr/bin/python3
# ckpt.py - checkpoints against PyTorch: what torch writes is read alike, what gtrain writes is loaded alike.
import collections
import os
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
PROGRAM = os.path.join(os.environ.get("GTRAIN_TESTS", "build/tests"), "ckpt_tree")
DATA = os.environ.get("GTRAIN_TEST_DATA", "../shared/data")
REAL = {"resnet20-12fca82f.th": "torch-legacy", "dqn-conv.pth": "torch-zip", "lpips-alex.pth": "torch-legacy"}


def run(*args):
    return subprocess.run([PROGRAM, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def tensor_bytes(t):
    t = t.detach().cpu().contiguous()
    if t.numel() == 0:
        return ""
    return bytes(t.reshape(-1).view(torch.uint8).numpy()).hex()


def tensor_line(t, place=None):
    shape = ",".join(map(str, t.shape))
    stride = ",".join(map(str, t.stride()))
    return "tensor %s [%s] [%s] %d %s %d %s" % (
        str(t.dtype).split(".")[1], shape, stride, t.storage_offset(), place or t.device,
        t.requires_grad, tensor_bytes(t))


def lines(value, place):
    """What ckpt_tree prints for a Python value."""
    if value is None:
        yield "none"
    elif isinstance(value, bool):
        yield "bool %d" % value
    elif isinstance(value, int):
        yield "int %d" % value
    elif isinstance(value, float):
        yield "float " + struct.pack("=d", value).hex()
    elif isinstance(value, str):
        yield "string " + value.encode().hex()
    elif isinstance(value, torch.Tensor):
        yield tensor_line(value, place)
    elif isinstance(value, dict):
        yield "dict %d" % len(value)
        for k, v in value.items():
            yield from lines(k, place)
            yield from lines(v, place)
    elif isinstance(value, (list, tuple)):
        yield "%s %d" % ("list" if isinstance(value, list) else "tuple", len(value))
        for v in value:
            yield from lines(v, place)
    elif isinstance(value, torch.dtype):
        yield "opaque " + str(value)
    elif isinstance(value, torch.device):
        yield "opaque torch.device"
    else:
        yield "opaque %s.%s" % (type(value).__module__, type(value).__qualname__)


def first_difference(a, b):
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return "line %d: gtrain '%.150s', torch '%.150s'" % (i + 1, x, y)
    return "gtrain has %d lines, torch %d" % (len(a), len(b)) if len(a) != len(b) else ""


def compare_read(path, value, kind, place=None):
    out = run("print", path)
    if out.returncode:
        return out.stderr
    return first_difference(out.stdout.splitlines(), [kind, *lines(value, place)])


def compare_copy(path, value, folder, weights_only):
    """gtrain writes what it read; torch's tree of that must be the first one (on the CPU)."""
    copy = os.path.join(folder, "copy.pth")
    out = run("copy", path, copy)
    if out.returncode:
        return out.stderr
    loaded = torch.load(copy, weights_only=weights_only)
    first = torch.load(path, map_location="cpu")
    problem = first_difference(list(lines(loaded, None)), list(lines(first, None)))
    return problem or compare_sharing(loaded, first)


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors(v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors(v)


def compare_sharing(a, b):
    def groups(value):
        seen = {}
        return [seen.setdefault(t.storage().data_ptr(), len(seen)) if t.numel() else -1
                for t in tensors(value)]
    return "" if groups(a) == groups(b) else "tensors share storages differently"


def trained(optimizer, **options):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
                              torch.nn.Linear(4 * 36, 5))
    opt = optimizer(net.parameters(), **options)
    for _ in range(3):
        opt.zero_grad()
        net(torch.randn(2, 3, 8, 8)).square().sum().backward()
        opt.step()
    return {"model": net.state_dict(), "optimizer": opt.state_dict(), "epoch": 3, "best": 0.5,
            "note": "üñí", "nothing": None}


def every_dtype():
    made = {}
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64,
                  torch.complex128):
        made[str(dtype)] = torch.randn(3, 5, dtype=torch.complex128 if dtype.is_complex else
                                       torch.float64).to(dtype)
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        made[str(dtype)] = torch.randint(0, 127, (2, 3, 4), dtype=dtype)
    made["torch.bool"] = torch.tensor([True, False, True])
    return made


def views():
    base = torch.arange(120.0).reshape(2, 3, 4, 5)
    tied = torch.randn(4, 4)
    return {"base": base, "transposed": base.transpose(1, 3), "slice": base[1, :, 1:3, ::2],
            "expanded": torch.ones(1).expand(3, 4), "scalar": torch.tensor(2.5), "empty": torch.zeros(0),
            "empty2": torch.zeros(3, 0, 2), "channels_last": base.contiguous(
                memory_format=torch.channels_last), "a": tied, "b": tied, "int": torch.tensor(7)}


def parameters():
    p = torch.nn.Parameter(torch.randn(3, 2))
    return collections.OrderedDict(w=p, frozen=torch.nn.Parameter(torch.ones(2), requires_grad=False),
                                   again=p, data=p.data)


def scalars():
    return {"ints": [0, 1, 255, 256, 65535, 65536, -1, -300, 2**31 - 1, 2**31, -2**31, -2**31 - 1,
                     2**63 - 1, -2**63], "floats": [0.0, -0.0, 1e-300, float("inf"), 3.14], "tuple": (),
            "one": (1,), "two": (1, "x"), "three": (1, 2, 3), "four": (1, 2, 3, 4), "nested": [[[{}]], []],
            5: "int key", "": "empty key", "bools": [True, False]}


def unknown():
    return {"size": torch.Size([2, 3]), "dtype": torch.float32, "device": torch.device("cuda:0"),
            "w": torch.ones(2)}


def cases(folder):
    """(name, value, whether gtrain can write it, whether torch's weights_only can load it)"""
    made = [("sgd with momentum", trained(torch.optim.SGD, lr=0.1, momentum=0.9), True, False),
            ("adam", trained(torch.optim.Adam, lr=0.01), True, False),
            ("every dtype", every_dtype(), True, True), ("views and tied tensors", views(), True, True),
            ("parameters", parameters(), True, True), ("scalars", scalars(), True, False),
            ("unknown classes", unknown(), False, False), ("many", {str(i): torch.tensor(i)
                                                                    for i in range(5000)}, True, True)]
    forms = [("zip", "torch-zip", {}), ("legacy", "torch-legacy", {"_use_new_zipfile_serialization": False}),
             ("zip, protocol 4", "torch-zip", {"pickle_protocol": 4}),
             ("legacy, protocol 4", "torch-legacy", {"_use_new_zipfile_serialization": False,
                                                     "pickle_protocol": 4})]
    for name, value, writable, restricted in made:
        for form, kind, options in forms:
            path = os.path.join(folder, "torch.pth")
            torch.save(value, path, **options)
            # Loaded again: torch leaves offsets and sharing as they are, but not identities.
            yield "%s, %s: read" % (name, form), compare_read(path, torch.load(path), kind)
            if writable:
                yield ("%s, %s: written" % (name, form),
                       compare_copy(path, value, folder, restricted))


def whole_model(folder):
    """A pickled nn.Module gives the state_dict that torch gives."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    for protocol in (2, 4):
        path = os.path.join(folder, "whole.pth")
        torch.save(torch.nn.DataParallel(net), path, pickle_protocol=protocol)
        out = run("state", path)
        want = ["a whole pickled model; 'module.' removed from 7 keys"]
        for k, v in net.state_dict(keep_vars=True).items():
            want.append("%s %s" % (k, tensor_line(v)))
        yield ("a whole pickled model, protocol %d" % protocol,
               out.stderr or first_difference(out.stdout.splitlines(), want))


def note_of(value, place):
    """The line that should be said of these files, all of whose tensors were on one device."""
    said = ["state_dict found under 'state_dict'"] if "state_dict" in value else []
    keys = [k for k in value.get("state_dict", value) if k.startswith("module.")]
    said += ["'module.' removed from %d keys" % len(keys)] if keys else []
    return "; ".join(said + (["saved on " + place] if place != "cpu" else []))


def real_files(folder):
    for name, kind in REAL.items():
        path = os.path.join(DATA, "ckpt", name)
        if not os.path.exists(path):
            yield name + " # SKIP no " + path, ""
            continue
        places = set()
        value = torch.load(path, map_location=lambda storage, place: places.add(place) or storage)
        place = places.pop()
        yield name + ": read", compare_read(path, value, kind, place)
        yield name + ": written", compare_copy(path, value, folder, False)
        first = run("state", path).stdout.splitlines()[0]
        yield name + ": note", "" if first == note_of(value, place) else "the note is: " + first


def rezipped(folder):
    """The same records by another writer: deflated, zip64 sizes, another root, the other byte order."""
    value = {"w": torch.arange(300.0), "h": torch.arange(9, dtype=torch.int16), "b": torch.tensor([True])}
    swap = {"0": 4, "1": 2, "2": 1}
    source, path = os.path.join(folder, "torch.pth"), os.path.join(folder, "other.pth")
    torch.save(value, source)
    for name, method, root, big in (("deflated", zipfile.ZIP_DEFLATED, "archive", False),
                                    ("another root", zipfile.ZIP_STORED, "a b.ü", False),
                                    ("big-endian", zipfile.ZIP_STORED, "archive", True)):
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", method) as new:
            for record in old.namelist():
                data, stem = old.read(record), record.split("/", 1)[1]
                if big and stem == "byteorder":  # newer PyTorch writes it
                    continue
                if big and stem.startswith("data/"):
                    size = swap[stem[5:]]
                    data = b"".join(data[i:i + size][::-1] for i in range(0, len(data), size))
                with new.open(root + "/" + stem, "w", force_zip64=True) as out:
                    out.write(data)
            if big:
                new.writestr(root + "/byteorder", "big")
        yield "a zip that is " + name, compare_read(path, value, "torch-zip")
        run("copy", path, source + ".copy")
        same = list(lines(torch.load(source + ".copy"), None)) == list(lines(value, None))
        yield "a zip that is %s: written" % name, "" if same else "torch reads other values"


def more_than_65535(folder):
    """So many storages that the archive needs zip64's end record."""
    path = os.path.join(folder, "many.pth")
    torch.save({"l": [torch.tensor(i) for i in range(66000)]}, path)
    yield "66000 storages", compare_copy(path, None, folder, True)


def main():
    return tap.run((cases, whole_model, real_files, rezipped, more_than_65535), PROGRAM)


if __name__ == "__main__":
    sys.exit(main())
