#!/usr/bin/python3
# ckpt_forms.py - every form of checkpoint that PyTorch writes: gtrain reads the same names and values.
import argparse
import collections
import datetime
import enum
import io
import os
import pickle
import resource
import struct
import subprocess
import sys
import tempfile
import types
import warnings
import zipfile

try:
    import numpy
    import torch
except ImportError:
    print("1..0 # SKIP python has no torch")
    sys.exit(0)

warnings.filterwarnings("ignore")
PROGRAM = os.path.join(os.environ.get("GTRAIN_TESTS", "build/tests"), "ckpt_dump")
MAGIC, VERSION = 0x1950a86a20f9469cfc6c, 1001
KINDS = {"zip": "torch-zip", "legacy": "torch-legacy"}


# ---- what gtrain should say of a Python value, a line for each node

def tensor_bytes(t):
    t = t.detach().contiguous()
    return bytes(t.reshape(-1).view(torch.uint8).numpy()).hex() if t.numel() else ""


def ints(numbers):
    return "[" + ",".join(map(str, numbers)) + "]"


class Writer:
    """Numbers storages as they are met. `place`: where everything was saved from."""

    def __init__(self, place="cpu", protocol=2):
        self.place, self.protocol, self.seen, self.kept = place, protocol, {}, []

    def storage(self, t):
        self.kept.append(t)  # so that no address is used twice
        return self.seen.setdefault(t.storage()._cdata, len(self.seen))

    def tensor(self, t):
        return "tensor %s %s %s %d #%d %s %d %s" % (
            str(t.dtype).split(".")[1], ints(t.shape), ints(t.stride()), t.storage_offset(),
            self.storage(t), self.place, t.requires_grad, tensor_bytes(t))

    def string(self, s):
        return "string " + (s if isinstance(s, bytes) else s.encode("utf-8", "surrogatepass")).hex()

    def items(self, kind, values):
        yield "%s %d" % (kind, len(values))
        for v in values:
            yield from self.lines(v)

    def opaque(self, name, args, items=None, state=None):
        yield "opaque " + name
        for part, value in (("args", args), ("items", items), ("state", state)):
            if value is not None:
                yield part
                yield from self.lines(value)

    def dict(self, value):
        yield "dict %d" % len(value)
        for k, v in value.items():
            yield from self.lines(k)
            yield from self.lines(v)
        if getattr(value, "__dict__", None):
            yield "attributes"
            yield from self.lines(value.__dict__)

    def lines(self, value):
        if value is None:
            yield "none"
        elif isinstance(value, bool):
            yield "bool %d" % value
        elif type(value) is int and -2**63 <= value < 2**63:
            yield "int %d" % value
        elif type(value) is int:
            yield from self.opaque("builtins.int", (Number(value),))
        elif isinstance(value, Number):
            yield self.string((hex if self.protocol > 1 else str)(value.value))
        elif type(value) is float:
            yield "float " + struct.pack("=d", value).hex()
        elif isinstance(value, str):
            yield self.string(value)
        elif isinstance(value, Raw):
            yield self.string(value.value)
        elif isinstance(value, torch.Tensor):
            yield self.tensor(value)
            if value.__dict__:
                yield "attributes"
                yield from self.lines(value.__dict__)
        elif isinstance(value, Opaque):
            yield from self.opaque(value.name, value.args, value.items, value.state)
        elif isinstance(value, (dict, list, tuple)):
            if isinstance(value, dict):
                yield from self.dict(value)
            else:
                yield from self.items("list" if isinstance(value, list) else "tuple", list(value))
        elif isinstance(value, (bytes, bytearray)):
            yield from self.opaque("builtins." + type(value).__name__, (Raw(bytes(value)),))
        elif isinstance(value, (set, frozenset)):
            yield from self.opaque("builtins." + type(value).__name__, (), list(value))
        elif isinstance(value, complex):
            yield from self.opaque("builtins.complex", (value.real, value.imag))
        elif isinstance(value, argparse.Namespace):
            yield from self.opaque("argparse.Namespace", (), None, vars(value))
        elif isinstance(value, torch.dtype):
            yield "opaque " + str(value)
        elif isinstance(value, torch.device):
            yield from self.opaque("torch.device", (value.type,) + ((value.index,) if value.index is not None else ()))
        elif isinstance(value, enum.Enum):
            name = "__main__." + type(value).__qualname__
            yield from self.opaque("builtins.getattr", (Opaque(name, None), value.name))
        else:
            raise TypeError(type(value))


Raw = collections.namedtuple("Raw", "value")
Number = collections.namedtuple("Number", "value")
Opaque = collections.namedtuple("Opaque", "name args items state", defaults=(None, None))


def expected(kind, value, place="cpu", protocol=2):
    w = Writer(place, protocol)
    return [kind, *w.lines(value), "end"]


# ---- gtrain's answer

def ask(how, *paths):
    out = subprocess.run([PROGRAM, how, *paths], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if out.returncode:
        return ["status %d: %s" % (out.returncode, out.stderr.decode(errors="replace"))]
    return out.stdout.decode("utf-8", "surrogateescape").splitlines()


def difference(got, want):
    for i, (x, y) in enumerate(zip(got, want)):
        if x != y:
            return "line %d: gtrain '%.200s', wanted '%.200s'" % (i + 1, x, y)
    return "gtrain has %d lines, wanted %d" % (len(got), len(want)) if len(got) != len(want) else ""


def save(value, path, form, protocol=2):
    torch.save(value, path, pickle_protocol=protocol,
               _use_new_zipfile_serialization=form == "zip")


# ---- the table: what PyTorch 1.13 writes

class Colour(enum.Enum):
    RED = 1


class Slotted:
    __slots__ = ("a", "b")


class Words(dict):
    pass


class Anything:
    pass


Point = collections.namedtuple("Point", "x y")


def anything():
    made = Anything()
    made.x, made.w = 1, torch.ones(2)
    return made


def slotted():
    made = Slotted()
    made.a, made.b = 1, "two"
    return made


def words():
    made = Words(w=torch.ones(2))
    made.note = "kept"
    return made


def every_dtype():
    made = {}
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128):
        source = torch.complex128 if dtype.is_complex else torch.float64
        made[str(dtype)] = torch.randn(3, 5, dtype=source).to(dtype)
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        made[str(dtype)] = torch.randint(0, 127, (2, 3, 4), dtype=dtype)
    made["torch.bool"] = torch.tensor([True, False, True])
    return made


def views():
    base = torch.arange(120.0).reshape(2, 3, 4, 5)
    tied = torch.randn(4, 4)
    return {"base": base, "transposed": base.transpose(1, 3), "slice": base[1, :, 1:3, ::2],
            "expanded": torch.ones(1).expand(3, 4), "scalar": torch.tensor(2.5), "empty": torch.zeros(0),
            "empty2": torch.zeros(3, 0, 2), "tail": base.reshape(-1)[100:], "a": tied, "b": tied, "rows": tied[2:],
            "channels_last": base.contiguous(memory_format=torch.channels_last),
            "channels_last_3d": torch.randn(1, 2, 3, 4, 5).contiguous(memory_format=torch.channels_last_3d),
            "many dimensions": torch.randn([1] * 20 + [2])}


def parameters():
    p = torch.nn.Parameter(torch.randn(3, 2))
    frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    return collections.OrderedDict(w=p, frozen=frozen, again=p, data=p.data)


def attributes():
    t = torch.ones(2)
    t.note, t.other = "mine", torch.zeros(1)
    return {"t": t}


def metadata():
    made = collections.OrderedDict(w=torch.ones(2))
    made._metadata = collections.OrderedDict({"": {"version": 1}})
    return made


def trained(optimizer, **options):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
                              torch.nn.Linear(4 * 36, 5))
    opt = optimizer(net.parameters(), **options)
    scheduler = torch.optim.lr_scheduler.StepLR(opt, 2)
    for _ in range(3):
        opt.zero_grad()
        net(torch.randn(2, 3, 8, 8)).square().sum().backward()
        opt.step()
        scheduler.step()
    scaler = {"scale": 65536.0, "growth_factor": 2.0, "_growth_tracker": 3}
    return {"model": net.state_dict(), "optimizer": opt.state_dict(), "lr_scheduler": scheduler.state_dict(),
            "scaler": scaler, "epoch": 3, "best": 0.5, "rng": torch.get_rng_state(), "note": "üñí", "nothing": None,
            "args": argparse.Namespace(lr=0.1, arch="resnet", seed=None)}


def scalars():
    return {"ints": [0, 1, 255, 256, 65535, 65536, -1, -300, 2**31 - 1, 2**31, -2**31, -2**31 - 1, 2**63 - 1, -2**63],
            "long": [2**63, -2**63 - 1, 2**64, -2**64, 2**1000 + 1, -2**999, 10**700],
            "floats": [0.0, -0.0, 1e-300, float("inf"), float("-inf"), 3.14, float("nan")],
            "tuple": (), "one": (1,), "two": (1, "x"), "three": (1, 2, 3), "four": (1, 2, 3, 4),
            "nested": [[[{}]], []], 5: "int key", "": "empty key", "bools": [True, False],
            (1, 2): "tuple key", 1.5: "float key", None: "None key"}


def text():
    return {"ü": 1, "a.b": 2, "a\nb\\c'\"": 3, "\0": 4, "雪": 5, "😀": 6, "\ud800": 7, "x" * 300: 8, "y" * 70000: 9,
            "\\u0041": 10, "\x85\u2028": 11}


def values():
    return {"bytes": b"\0\xff\x80abc", "no bytes": b"", "long bytes": bytes(range(256)) * 300,
            "bytearray": bytearray(b"\1\xfe"), "set": {"one"}, "frozenset": frozenset([7]), "no set": set(),
            "complex": 1.5 - 2j, "dtype": torch.float32, "device": torch.device("cuda:1"), "cpu": torch.device("cpu"),
            "size": torch.Size([2, 3]), "namespace": argparse.Namespace(a=[1], b=argparse.Namespace(c=2)),
            "default": collections.defaultdict(list, {"k": [1]}), "ordered": collections.OrderedDict(x=1),
            "colour": Colour.RED, "bool set": {True}}


def shared():
    inner, word = [1, 2], "word"
    return {"a": inner, "b": inner, "c": [word, word, {word: word}]}


def many(n=10000):
    return {"layer.%d.weight" % i: torch.tensor([i, -i]) for i in range(n)}


FORMS = [  # name, maker, protocols
    ("state_dict", lambda: trained(torch.optim.SGD, lr=0.1)["model"], (1, 2, 3, 4, 5)),
    ("a Parameter alone", lambda: torch.nn.Parameter(torch.randn(2, 3)), (2, 4)),
    ("a tensor alone", lambda: torch.randn(3), (2,)),
    ("sgd with momentum", lambda: trained(torch.optim.SGD, lr=0.1, momentum=0.9), (1, 2, 4)),
    ("adam", lambda: trained(torch.optim.Adam, lr=0.01, amsgrad=True), (2, 5)),
    ("every dtype", every_dtype, (2,)),
    ("views and tied tensors", views, (2, 4)),
    ("parameters", parameters, (1, 2, 4)),
    ("attributes of a tensor", attributes, (2, 4)),
    ("_metadata of a state_dict", metadata, (2, 4)),
    ("numbers", scalars, (0, 1, 2, 3, 4, 5)),
    ("text", text, (0, 1, 2, 3, 4, 5)),
    ("values of other classes", values, (0, 1, 2, 3, 4, 5)),
    ("references", shared, (0, 1, 2, 4)),
    ("10,000 tensors", many, (2,)),
]


def forms(folder):
    path = os.path.join(folder, "form.pth")
    for name, maker, protocols in FORMS:
        value = maker()
        for form, kind in KINDS.items():
            for protocol in protocols:
                save(value, path, form, protocol)
                loaded = torch.load(path)
                yield ("%s, %s, protocol %d" % (name, form, protocol),
                       difference(ask("tree", path), expected(kind, loaded, protocol=protocol)))


def places(folder):
    """Locations are what location_tag() says: the name of a device that need not be here."""
    path, tag = os.path.join(folder, "place.pth"), torch.serialization.location_tag
    value = {"w": torch.ones(2), "p": torch.nn.Parameter(torch.zeros(3))}
    for place in ("cuda:0", "cuda:11", "mps", "xla:0", "hpu", "privateuseone:1"):
        for form, kind in KINDS.items():
            torch.serialization.location_tag = lambda storage: place
            try:
                save(value, path, form)
            finally:
                torch.serialization.location_tag = tag
            loaded = torch.load(path, map_location=lambda storage, location: storage)
            yield "saved on %s, %s" % (place, form), difference(ask("tree", path), expected(kind, loaded, place))


# ---- objects that are named and left alone, with the tensors in them

def contains(lines, *wanted):
    """Each of `wanted` is a line, in this order."""
    at = 0
    for line in wanted:
        while at < len(lines) and lines[at] != line:
            at += 1
        if at == len(lines):
            return "no line '%.200s' in order in: %.600s" % (line, " | ".join(lines))
    return "" if lines[-1] == "end" else lines[-1]


def one_tensor(t, number=0, place="cpu"):
    w = Writer(place)
    return w.tensor(t).replace("#0", "#%d" % number)


def left_alone(folder):
    quantised = torch.quantize_per_tensor(torch.randn(4), 0.1, 3, torch.quint8)
    per_channel = torch.quantize_per_channel(torch.randn(2, 3), torch.tensor([.1, .2]), torch.tensor([0, 1]), 0,
                                             torch.qint8)
    wide = torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.qint32)
    sparse = torch.tensor([[0, 2.], [3, 0]]).to_sparse().coalesce()
    csr = torch.tensor([[0, 2.], [3, 0]]).to_sparse_csr()
    meta = torch.empty(2, 3, device="meta")
    numbers = numpy.array([[1, 2], [3, 4]], dtype="f4")
    cases = [
        ("quint8", quantised, ["opaque torch._utils._rebuild_qtensor", one_tensor(quantised.int_repr()),
                               "opaque torch.per_tensor_affine"]),
        ("qint8 per channel", per_channel, ["opaque torch._utils._rebuild_qtensor",
                                            one_tensor(per_channel.int_repr().reshape(-1))]),
        ("qint32", wide, ["opaque torch._utils._rebuild_qtensor", one_tensor(wide.int_repr())]),
        ("sparse", sparse, ["opaque torch._utils._rebuild_sparse_tensor", one_tensor(sparse.indices()),
                            one_tensor(sparse.values(), 1)]),
        ("sparse csr", csr, ["opaque torch._utils._rebuild_sparse_csr_tensor"]),
        ("meta", meta, ["opaque torch._utils._rebuild_meta_tensor_no_storage", "opaque torch.float32"]),
        ("a Parameter of quint8", torch.nn.Parameter(quantised, requires_grad=False),
         ["opaque torch._utils._rebuild_parameter", "opaque torch._utils._rebuild_qtensor"]),
        ("an object", anything(), ["opaque __main__.Anything", "state", one_tensor(torch.ones(2))]),
        ("an object with slots", slotted(), ["opaque __main__.Slotted"]),
        ("a class made from dict", words(), ["opaque __main__.Words", one_tensor(torch.ones(2)),
                                             Writer().string("kept")]),
        ("a named tuple", Point(torch.ones(2), 3), ["opaque __main__.Point", one_tensor(torch.ones(2)), "int 3"]),
        ("a date", datetime.datetime(2020, 1, 2), ["opaque datetime.datetime"]),
        ("a numpy array", numbers, ["opaque numpy.core.multiarray._reconstruct", "opaque numpy.ndarray"]),
        ("a numpy scalar", numpy.float64(1.5), ["opaque numpy.core.multiarray.scalar", "opaque numpy.dtype"]),
        ("a numpy generator's state", numpy.random.RandomState(0).get_state()[0:2], [Writer().string("MT19937")]),
        ("a function", os.path.join, ["opaque posixpath.join"]),
        ("a counter", collections.Counter("aab"), ["opaque collections.Counter"]),
        ("a cycle", cycle(), ["opaque (cycle)"]),
    ]
    path = os.path.join(folder, "opaque.pth")
    for name, value, wanted in cases:
        for form, kind in KINDS.items():
            for protocol in (2, 4):
                save({"it": value}, path, form, protocol)
                yield ("left alone: %s, %s, protocol %d" % (name, form, protocol),
                       contains(ask("tree", path), kind, *wanted))
    for form, kind in KINDS.items():
        for protocol in (0, 1):
            save({"o": slotted_free()}, path, form, protocol)
            yield ("left alone: an object, %s, protocol %d" % (form, protocol),
                   contains(ask("tree", path), kind, "opaque __main__.Anything", "state", "int 5"))
    save({"w": torch.ones(2)}, path, "legacy", 0)
    yield "tensors in protocol 0 are refused by name", "" if "PERSID" in ask("tree", path)[-1] else ask("tree", path)[-1]


def slotted_free():
    made = Anything()
    made.x = 5
    return made


def cycle():
    made = [1]
    made.append(made)
    return made


def storages(folder):
    path = os.path.join(folder, "storage.pth")
    t = torch.arange(6, dtype=torch.int16)
    for form, kind in KINDS.items():
        save(t.storage(), path, form)
        yield "a typed storage alone, " + form, difference(ask("tree", path), expected(kind, t))
        save({"s": t.storage().untyped()}, path, form)
        raw = t.view(torch.uint8)
        want = [kind, "dict 1", Writer().string("s"), one_tensor(raw), "end"]
        yield "an untyped storage, " + form, difference(ask("tree", path), want)


# ---- whole models

class Hidden(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tied = torch.nn.Linear(3, 3)
        self.inner = torch.nn.ModuleDict({"a": torch.nn.Sequential(self.tied, torch.nn.ReLU()), "b": self.tied})
        self.register_buffer("kept", torch.ones(2))
        self.register_buffer("dropped", torch.zeros(2), persistent=False)
        self.register_buffer("absent", None)
        self.register_parameter("nothing", None)
        self.scale = torch.nn.Parameter(torch.tensor(2.0))
        self.list = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.zeros(2))])
        self.plain = torch.ones(7)

    def forward(self, x):
        return self.inner["a"](x) * self.scale + self.kept.sum() + self.dropped.sum()


class Scripted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2))
        self.register_buffer("kept", torch.ones(2))
        self.plain = torch.zeros(3)
        self.words = ["x", "y"]
        self.table = {"a": torch.ones(1)}

    def forward(self, x):
        return self.net(x) + self.kept + torch.tensor([1.5, 2.5]) * self.plain.sum() + self.table["a"]


def state_lines(kind, note, state):
    w = Writer()
    return [kind, note, *("%s %s" % (k.encode().hex(), w.tensor(v)) for k, v in state.items()), "end"]


def whole_models(folder):
    path = os.path.join(folder, "whole.pth")
    torch.manual_seed(1)
    lstm = torch.nn.LSTM(3, 4, 2, bidirectional=True)
    traced_fx = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    for name, net in (("with hidden buffers and ties", Hidden()), ("lstm", lstm), ("fx", traced_fx),
                      ("transformer", torch.nn.TransformerEncoderLayer(8, 2, 16)),
                      ("wrapped already", torch.nn.DataParallel(torch.nn.Linear(2, 2)))):
        want = net.state_dict(keep_vars=True)
        stripped = {k[7:] if k.startswith("module.") else k: v for k, v in want.items()}
        taken = sum(k.startswith("module.") for k in want)
        off = "; 'module.' taken off %d key%s" % (taken, "" if taken == 1 else "s") if taken else ""
        for form, kind in KINDS.items():
            for protocol in (1, 2, 4):
                save(net, path, form, protocol)
                yield ("whole model %s, %s, protocol %d" % (name, form, protocol), difference(
                    ask("state", path), state_lines(kind, "a whole pickled model" + off, stripped)))
        save(torch.nn.DataParallel(net), path, "zip")
        note = "a whole pickled model; 'module.' taken off %d keys" % len(want)
        yield "whole model %s in DataParallel" % name, difference(
            ask("state", path), state_lines("torch-zip", note, stripped))
        save({"epoch": 3, "model": None, "ema": net, "optimizer": {}}, path, "zip")
        note = "a whole pickled model found under 'ema'" + off
        yield "whole model %s in a checkpoint" % name, difference(
            ask("state", path), state_lines("torch-zip", note, stripped))


def script_models(folder):
    path = os.path.join(folder, "script.pt")
    net = Scripted().eval()
    for name, made in (("scripted", torch.jit.script(net)), ("traced", torch.jit.trace(net, torch.ones(2, 3))),
                       ("scripted lstm", torch.jit.script(torch.nn.LSTM(3, 4))),
                       ("frozen", torch.jit.freeze(torch.jit.script(net)))):
        made.save(path)
        loaded = torch.jit.load(path)
        state = loaded.state_dict(keep_vars=True)
        yield "TorchScript %s" % name, difference(
            ask("state", path), state_lines("torchscript", "a TorchScript model", state))
    torch.jit.trace(net, torch.ones(2, 3)).save(path)
    lines = ask("tree", path)
    constants = "\n".join(lines[lines.index(Writer().string("constants.pkl")):])
    found = tensor_bytes(torch.tensor([1.5, 2.5])) in constants and constants.endswith("end")
    yield "TorchScript's constants", "" if found else constants


# ---- where the state_dict is

def layouts(folder):
    a, b = {"w": torch.ones(2)}, {"w": torch.zeros(2)}
    opt = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1, momentum=0.9)
    (opt.param_groups[0]["params"][0] * 2).sum().backward()
    opt.step()
    optimizer = opt.state_dict()
    cases = [
        ("Lightning", {"epoch": 1, "state_dict": a, "optimizer_states": [optimizer], "callbacks": {}},
         "state_dict found under 'state_dict'"),
        ("timm", {"arch": "resnet50", "state_dict": a, "optimizer": optimizer, "state_dict_ema": b},
         "state_dict found under 'state_dict'; there is also 'state_dict_ema'"),
        ("mmdet", {"meta": {"CLASSES": ("a",)}, "state_dict": a, "optimizer": optimizer},
         "state_dict found under 'state_dict'"),
        ("DETR", {"model": a, "optimizer": optimizer, "lr_scheduler": {}, "epoch": 3,
                  "args": argparse.Namespace(lr=1)}, "state_dict found under 'model'"),
        ("fairseq", {"args": argparse.Namespace(), "model": a, "optimizer_history": [], "extra_state": {},
                     "last_optimizer_state": optimizer}, "state_dict found under 'model'"),
        ("DeiT", {"model": a, "model_ema": b}, "state_dict found under 'model'; there is also 'model_ema'"),
        ("an average alone", {"ema_state_dict": a, "step": 1}, "state_dict found under 'ema_state_dict'"),
        ("ESRGAN", {"params_ema": b, "params": a},
         "state_dict found under 'params'; there is also 'params_ema'"),
        ("Whisper", {"dims": {"n": 1}, "model_state_dict": a}, "state_dict found under 'model_state_dict'"),
        ("DeepSpeed", {"module": a, "optimizer": optimizer, "dp_world_size": 2}, "state_dict found under 'module'"),
        ("fastai", (a, optimizer), "state_dict found under '[0]'"),
        ("a class made from dict", Words(state_dict=Words(a)), "state_dict found under 'state_dict'"),
    ]
    path = os.path.join(folder, "layout.pth")
    for name, value, note in cases:
        save(value, path, "zip")
        yield "found: " + name, difference(ask("state", path), state_lines("torch-zip", note, a))
    for name, value, said in (("an optimizer's file", optimizer, "state of an optimizer"),
                              ("an optimizer's file, nested", {"optimizer": optimizer, "epoch": 1},
                               "'optimizer' is the state of an optimizer"),
                              ("an object", anything(), "class '__main__.Anything'"),
                              ("a tensor", torch.ones(2), "one tensor")):
        save(value, path, "zip")
        said_there = ask("state", path)[-1]
        yield "not found: " + name, "" if said in said_there else said_there
    save({"w": torch.ones(2), "q": torch.quantize_per_tensor(torch.ones(2), .1, 0, torch.qint8)}, path, "zip")
    note = ask("state", path)[1]
    yield "left out: a quantised one", "" if note == "1 left out (torch._utils._rebuild_qtensor)" else note


# ---- what later versions write, by hand

class Place:
    """A storage, for persistent_id()."""

    def __init__(self, kind, key, numel, place="cpu"):
        self.id = ("storage", kind, key, place, numel)


def stand_in(module, name):
    """A function or class that pickles as module.name, whether this PyTorch has it or not."""
    owner = sys.modules.get(module) or sys.modules.setdefault(module, types.ModuleType(module))
    if not hasattr(owner, name):
        made = types.FunctionType((lambda *a: None).__code__, {}, name)
        made.__module__, made.__qualname__ = module, name
        setattr(owner, name, made)
    return getattr(owner, name)


class Call:
    def __init__(self, function, *args):
        self.function, self.args = function, args

    def __reduce__(self):
        return self.function, self.args


def by_hand(value, protocol=2):
    out = io.BytesIO()
    pickler = pickle.Pickler(out, protocol)
    pickler.persistent_id = lambda o: o.id if isinstance(o, Place) else None
    pickler.dump(value)
    return out.getvalue()


def archive(path, value, data, root="archive", extra=(), protocol=2):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        z.writestr(root + "/data.pkl", by_hand(value, protocol))
        for name, text in extra:
            z.writestr("%s/%s" % (root, name), text)
        for key, content in data.items():
            z.writestr("%s/data/%s" % (root, key), content)
        z.writestr(root + "/version", "3\n")


def legacy(path, value, data, little=True, protocol=2):
    system = {"protocol_version": VERSION, "little_endian": little, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    with open(path, "wb") as f:
        for part in (MAGIC, VERSION, system):
            pickle.dump(part, f, protocol)
        f.write(by_hand(value, protocol))
        pickle.dump(sorted(data), f, protocol)
        for key in sorted(data):
            size, content = data[key]
            f.write(struct.pack("<q", len(content) // size) + content)


def tensor_line(dtype, shape, stride, content, offset=0, number=0, place="cpu", grad=0):
    return "tensor %s %s %s %d #%d %s %d %s" % (dtype, ints(shape), ints(stride), offset, number, place, grad,
                                                content.hex())


def later_versions(folder):
    path = os.path.join(folder, "hand.pth")
    v2, v3 = torch._utils._rebuild_tensor_v2, stand_in("torch._utils", "_rebuild_tensor_v3")
    hooks, untyped, single = collections.OrderedDict(), torch.UntypedStorage, torch.FloatStorage
    floats = struct.pack("<4f", 1, 2, 3, 4)
    odd = bytes(range(8))

    def new(dtype, count, key="0"):
        return Call(v3, Place(untyped, key, 8), 0, (count,), (1,), False, hooks, stand_in("torch", dtype))

    def one(**more):
        return Call(v2, Place(single, "0", 4, **more), 1, (3,), (1,), True, hooks)
    one_line = tensor_line("float32", [3], [1], floats[4:], 1, grad=1)
    state = {"note": "kept"}
    cpu = stand_in("torch._utils", "_rebuild_device_tensor_from_cpu_tensor")
    from_numpy = stand_in("torch._utils", "_rebuild_device_tensor_from_numpy")
    with_state = stand_in("torch._utils", "_rebuild_parameter_with_state")
    from_type = stand_in("torch._tensor", "_rebuild_from_type_v2")
    array = numpy.arange(6, dtype="f4").reshape(2, 3)
    key = Writer().string("t")
    cases = [
        ("float8_e4m3fn", new("float8_e4m3fn", 8), [tensor_line("float8_e4m3fn", [8], [1], odd)]),
        ("float8_e5m2", new("float8_e5m2", 8), [tensor_line("float8_e5m2", [8], [1], odd)]),
        ("uint16", new("uint16", 4), [tensor_line("uint16", [4], [1], odd)]),
        ("uint32", new("uint32", 2), [tensor_line("uint32", [2], [1], odd)]),
        ("uint64", new("uint64", 1), [tensor_line("uint64", [1], [1], odd)]),
        ("complex32", new("complex32", 2), ["opaque torch._utils._rebuild_tensor_v3", "opaque torch.complex32"]),
        ("float8_e8m0fnu", new("float8_e8m0fnu", 8), ["opaque torch._utils._rebuild_tensor_v3"]),
        ("a conjugate view", Call(v2, Place(single, "0", 4), 0, (4,), (1,), False, hooks, {"conj": True}),
         ["opaque torch._utils._rebuild_tensor_v2"]),
        ("metadata without a bit", Call(v2, Place(single, "0", 4), 0, (4,), (1,), False, hooks, {}),
         [tensor_line("float32", [4], [1], floats)]),
        ("a Parameter with state", Call(with_state, one(), True, hooks, state),
         [one_line, "attributes", "dict 1", Writer().string("note"), Writer().string("kept")]),
        ("a Parameter with slots", Call(with_state, one(), True, hooks, (None, state)),
         [one_line, "attributes", "tuple 2", "none", "dict 1"]),
        ("a tensor with attributes", Call(from_type, v2, torch.Tensor, one().args, state),
         [one_line, "attributes", "dict 1"]),
        ("a subclass", Call(from_type, v2, Anything, one().args, state),
         ["opaque torch._tensor._rebuild_from_type_v2", "opaque __main__.Anything",
          tensor_line("float32", [4], [1], floats)]),
        ("a nested tensor", Call(stand_in("torch._utils", "_rebuild_nested_tensor"), one(), 1, 2, 3),
         ["opaque torch._utils._rebuild_nested_tensor", one_line]),
        ("a wrapper", Call(torch._utils._rebuild_wrapper_subclass, Anything, torch.float32, (2,), (1,), 0, None, "cpu",
                           False), ["opaque torch._utils._rebuild_wrapper_subclass"]),
        ("a storage on meta", Call(v2, Place(single, "9", 4, "meta"), 0, (4,), (1,), False, hooks),
         ["opaque torch._utils._rebuild_tensor_v2", "opaque torch.FloatStorage"]),
        ("XLA's by way of the CPU", Call(cpu, one(), torch.float32, "xla:0", True),
         [one_line.replace(" cpu ", " xla:0 ")]),
        ("XLA's by way of numpy", Call(from_numpy, array, torch.float32, "xla:0", True),
         [tensor_line("float32", [2, 3], [3, 1], array.tobytes(), place="xla:0", grad=1)]),
        ("XLA's by way of numpy, Fortran's order", Call(from_numpy, numpy.asfortranarray(array), torch.float32, "xla:0",
                                                       False),
         [tensor_line("float32", [2, 3], [1, 2], array.tobytes(), place="xla:0")]),
        ("XLA's by way of numpy, big-endian", Call(from_numpy, array.astype(">f4"), torch.float32, "xla:0", False),
         [tensor_line("float32", [2, 3], [3, 1], array.tobytes(), place="xla:0")]),
        ("XLA's bfloat16 by way of numpy", Call(from_numpy, array, torch.bfloat16, "xla:0", False),
         ["opaque torch._utils._rebuild_device_tensor_from_numpy"]),
        ("0.3's Variable", Call(stand_in("torch.autograd.variable", "Variable"), one()),
         [one_line[:one_line.rindex(" 1 ")] + " 0 " + floats[4:].hex()]),
        ("0.3's storage on a GPU", Call(torch._utils._rebuild_tensor, Place(stand_in("torch.cuda", "HalfStorage"), "0",
                                                                           2, "cuda:3"), 0, (2,), (1,)),
         [tensor_line("float16", [2], [1], floats[:4], place="cuda:3")]),
        ("an unknown storage", Call(v2, Place(stand_in("torch", "OddStorage"), "0", 4), 0, (4,), (1,), False, hooks),
         ["opaque torch._utils._rebuild_tensor_v2", "opaque torch.OddStorage"]),
    ]
    extra = [("byteorder", "little"), (".format_version", "1"), (".storage_alignment", "64"),
             (".data/serialization_id", "0" * 40)]
    for name, value, wanted in cases:
        for protocol in (2, 5):
            data = {"0": floats if isinstance(value, Call) and value.function is not v3 else odd}
            archive(path, {"t": value}, data, "a b.ü", extra, protocol)
            yield ("by hand: %s, protocol %d" % (name, protocol),
                   contains(ask("tree", path), "torch-zip", "dict 1", key, *wanted))


def byte_orders(folder):
    path = os.path.join(folder, "order.pth")
    v2, v3 = torch._utils._rebuild_tensor_v2, stand_in("torch._utils", "_rebuild_tensor_v3")
    hooks = collections.OrderedDict()
    value = {"d": Call(v2, Place(torch.DoubleStorage, "0", 2), 0, (2,), (1,), False, hooks),
             "c": Call(v2, Place(torch.ComplexFloatStorage, "1", 1), 0, (1,), (1,), False, hooks),
             "b": Call(v2, Place(torch.BoolStorage, "2", 2), 0, (2,), (1,), False, hooks),
             "h": Call(v3, Place(torch.UntypedStorage, "3", 4), 0, (2,), (1,), False, hooks, stand_in("torch", "uint16"))}
    big = {"0": struct.pack(">2d", 1, -2), "1": struct.pack(">2f", 3, 4), "2": b"\1\0", "3": struct.pack(">2H", 5, 600)}
    little = {"0": struct.pack("<2d", 1, -2), "1": struct.pack("<2f", 3, 4), "2": b"\1\0", "3": struct.pack("<2H", 5, 600)}
    dtypes = ("float64", 2), ("complex64", 1), ("bool", 2), ("uint16", 2)
    want = ["dict 4"]
    for i, (name, (dtype, count)) in enumerate(zip(value, dtypes)):
        want += [Writer().string(name), tensor_line(dtype, [count], [1], little[str(i)], number=i)]
    for name, data, order in (("big", big, "big"), ("little", little, "little"), ("untold", little, None)):
        archive(path, value, data, extra=[("byteorder", order)] if order else [])
        yield "byteorder %s" % name, difference(ask("tree", path), ["torch-zip", *want, "end"])
    archive(path, value, big, extra=[("byteorder", "middle")])
    yield "byteorder that is none", "" if "neither" in ask("tree", path)[-1] else ask("tree", path)[-1]
    sizes = {"0": 8, "1": 8, "2": 1, "3": 1}
    for host in (True, False):  # a big-endian writer of legacy files swaps: the data is little-endian
        legacy(path, value, {k: (sizes[k], little[k]) for k in little}, host)
        yield "legacy, little_endian %s" % host, difference(ask("tree", path), ["torch-legacy", *want, "end"])
    data = {"7": (4, struct.pack("<6f", *range(6)))}
    view = Place(torch.FloatStorage, "7", 6)
    view.id += (("99", 2, 3),)
    legacy(path, Call(torch._utils._rebuild_tensor, view, 1, (2,), (1,)), data)
    yield "legacy, a view of a storage", difference(
        ask("tree", path), ["torch-legacy", tensor_line("float32", [2], [1], struct.pack("<2f", 3, 4), 3), "end"])


def python2(folder):
    """What Python 2 wrote: strings by the byte, OrderedDict of pairs, old names of modules."""
    path = os.path.join(folder, "python2.pth")
    floats = struct.pack("<2f", 1, 2)
    tensor = (b"ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\nU\x010U\x06cuda:0K\x02NtQ"
              b"K\x00K\x02\x85K\x01\x85\x89ccollections\nOrderedDict\n]\x85RtR")
    body = (b"\x80\x02ccollections\nOrderedDict\n](](U\x08module.w" + tensor + b"e](U\x02\xff\xfeU\x04textee\x85R"
            b"}U\x09_metadata}sb.")
    with open(path, "wb") as f:
        for part in (MAGIC, VERSION, {"little_endian": True}):
            pickle.dump(part, f, 2)
        f.write(body)
        f.write(b"\x80\x02](U\x010e.")
        f.write(struct.pack("<q", 2) + floats)
    w = Writer()
    want = ["torch-legacy", "dict 2", w.string("module.w"), tensor_line("float32", [2], [1], floats, place="cuda:0"),
            *w.lines(b"\xff\xfe"), w.string("text"), "attributes", "dict 1", w.string("_metadata"), "dict 0", "end"]
    yield "Python 2's OrderedDict", difference(ask("tree", path), want)
    objects = {
        "set": (b"c__builtin__\nset\n](U\x01ae\x85R.", list(Writer().lines({"a"}))),
        "old class": (b"(i__main__\nAnything\nU\x01xK\x05\x86\x85c__builtin__\ndict\nR0}U\x01xK\x05sb.", None),
        "_reconstructor": (b"ccopy_reg\n_reconstructor\n(c__main__\nAnything\nc__builtin__\nobject\nNtR}U\x01xK\x05sb.",
                           list(Writer().opaque("__main__.Anything", (), None, {"x": 5}))),
        "_reconstructor of a dict": (b"ccopy_reg\n_reconstructor\n(c__main__\nWords\nc__builtin__\ndict\n}U\x01xK\x05stR.",
                                     list(Writer().opaque("__main__.Words", (), {"x": 5}))),
        "long": (b"\x8a\x09\0\0\0\0\0\0\0\0\1.", list(Writer().lines(2**64))),
        "unicode": (b"V\\u00e9\\U0001f600x\xe9\n.", [Writer().string("é😀xé")]),
        "string": (b"S'a\\x00\\n\\'\\\\\\101'\n.", [Writer().string("a\0\n'\\A")]),
    }
    for name, (text, want) in objects.items():
        if want is None:
            continue
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("x/data.pkl", text)
        yield "Python 2: " + name, difference(ask("tree", path), ["torch-zip", *want, "end"])


# ---- accidents

def cut_files(folder):
    path, short = os.path.join(folder, "all.pth"), os.path.join(folder, "cut.pth")
    tensors = {"w%d" % i: torch.randn(1000) for i in range(5)}
    for form in KINDS:
        save(tensors, path, form)
        whole = open(path, "rb").read()
        for part in (0.3, 0.5, 0.9, 0.999):
            keep = int(len(whole) * part)
            with open(short, "wb") as f:
                f.write(whole[:keep])
            said = ask("tree", short)[-1]
            missing = len(whole) - keep if form == "legacy" else None
            good = "is cut" in said and ("%d bytes are missing" % missing in said if missing else
                                         "bytes are missing" in said or "all its tensors" in said)
            yield "a %s file cut at %g" % (form, part), "" if good else said
    with open(short, "wb") as f:
        f.write(whole[:60])
    said = ask("tree", short)[-1]
    yield "a legacy file cut in its first pickles", "" if "cut" in said else said
    big = {"w": torch.randn(30000), "v": torch.randn(20000)}
    save(big, path, "zip")
    whole = open(path, "rb").read()
    with open(short, "wb") as f:
        f.write(whole[:whole.index(b"all.pth".split(b".")[0] + b"/data/1")])
    said = ask("tree", short)[-1]
    good = "with 120000 of the 200000 bytes" in said and "at least 80000 bytes are missing" in said
    yield "a zip cut between two storages says how much is missing", "" if good else said


def accidents(folder):
    path = os.path.join(folder, "accident")
    nothing = bytes(600)
    cases = [
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"), (b" <!DOCTYPE html>", "web page"),
        (b"{\"error\": \"Invalid\"}", "JSON"), (b"", "empty"), (b"\x1f\x8b\x08" + nothing, "gzip"),
        (b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh9", "bzip2"), (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"GGUF\3\0\0\0", "GGUF"), (b"\x08\x07\x12\x07pytorch", "ONNX"), (nothing, "all zeros"),
        (b"\x1c\0\0\0TFL3", "Lite"), (nothing + b"\x57\xfb\x80\x8b\x24\x75\x47\xdb", "index of a TensorFlow"),
        (b"model/weights".ljust(257, b"\0") + b"ustar\x0000" + nothing, "a tar archive"),
        (b"sys_info".ljust(257, b"\0") + b"ustar\x0000" + nothing, "PyTorch 0.1"),
        (pickle.dumps({"w": torch.ones(2)}), "pickle.dump"), (pickle.dumps([1]), "not one of torch.save"),
        (pickle.dumps({"a": 1}, 0), "not one of torch.save"),
    ]
    for content, said in cases:
        with open(path, "wb") as f:
            f.write(content)
        out = ask("tree", path)[-1]
        yield "accident: " + said, "" if said in out and out.startswith("error") else out
    for members, said in ((["m/model.json", "m/tensors/0"], "1.0 to 1.3"), (["p/.data/extern_modules"], "torch.package"),
                          (["config.json", "metadata.json", "model.weights.h5"], "Keras"),
                          (["best/model.pth"], "'best/model.pth'"), (["notes.txt"], "without data.pkl"),
                          (["a/data.pkl", "b/data.pkl"], "two checkpoints")):
        with zipfile.ZipFile(path, "w") as z:
            for member in members:
                z.writestr(member, "N.")
        out = ask("tree", path)[-1]
        yield "accident: a zip with " + members[0], "" if said in out else out


# ---- cost

def cpu_time(path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = ask("open", path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, out


def cost(folder):
    """Four times the tensors may cost four times the work, with room for noise, not sixteen times."""
    path, times = os.path.join(folder, "many.pth"), []
    for form in KINDS:
        for n in (10000, 40000):
            save(many(n), path, form)
            best, out = min(cpu_time(path) for _ in range(3))
            times.append(best)
        print("# %s: 10,000 tensors %.0f ms, 40,000 %.0f ms of processor time" % (
            form, 1e3 * times[-2], 1e3 * times[-1]))
        yield "opening costs in proportion, " + form, "" if times[-1] < 8 * times[-2] + 0.05 else str(times)


def main():
    if not os.path.exists(PROGRAM):
        print("1..0 # SKIP no %s: run make tests" % PROGRAM)
        return 0
    failed = count = 0
    only = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for part in (forms, places, left_alone, storages, whole_models, script_models, layouts, later_versions,
                     byte_orders, python2, cut_files, accidents, cost):
            if only and part.__name__ not in only:
                continue
            for name, problem in part(folder):
                count += 1
                failed += bool(problem)
                print("%s %d - %s" % ("not ok" if problem else "ok", count, name))
                if problem:
                    print("# " + problem.strip().replace("\n", "\n# "))
    print("1..%d" % count)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
