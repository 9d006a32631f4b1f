#!/usr/bin/python3
# ckpt_forms.py - every form of checkpoint that PyTorch 1.13 writes: gtrain reads the same names and values.
import argparse
import collections
import datetime
import enum
import os
import struct
import subprocess
import sys
import warnings

try:
    import numpy
    import torch
except ImportError:
    print("1..0 # SKIP python has no torch")
    sys.exit(0)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402

warnings.filterwarnings("ignore")
PROGRAM = os.path.join(os.environ.get("GTRAIN_TESTS", "build/tests"), "ckpt_dump")
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
            if pickled_by(value) is getattr:
                yield from self.opaque("builtins.getattr", (Opaque(name, None), value.name))
            else:
                yield from self.opaque(name, (value.value,))
        else:
            raise TypeError(type(value))


def pickled_by(value):
    """The function or class that pickle names for it: that depends on the versions of Python, numpy and PyTorch."""
    return value.__reduce_ex__(2)[0]


def full_name(function):
    return "%s.%s" % (function.__module__, function.__qualname__)


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
        ("sparse csr", csr, ["opaque " + full_name(pickled_by(csr))]),
        ("meta", meta, ["opaque torch._utils._rebuild_meta_tensor_no_storage", "opaque torch.float32"]),
        ("a Parameter of quint8", torch.nn.Parameter(quantised, requires_grad=False),
         ["opaque torch._utils._rebuild_parameter", "opaque torch._utils._rebuild_qtensor"]),
        ("an object", anything(), ["opaque __main__.Anything", "state", one_tensor(torch.ones(2))]),
        ("an object with slots", slotted(), ["opaque __main__.Slotted"]),
        ("a class made from dict", words(), ["opaque __main__.Words", one_tensor(torch.ones(2)),
                                             Writer().string("kept")]),
        ("a named tuple", Point(torch.ones(2), 3), ["opaque __main__.Point", one_tensor(torch.ones(2)), "int 3"]),
        ("a date", datetime.datetime(2020, 1, 2), ["opaque datetime.datetime"]),
        ("a numpy array", numbers, [one_tensor(torch.from_numpy(numbers))]),
        ("a numpy scalar", numpy.float64(1.5), ["opaque " + full_name(pickled_by(numpy.float64(1.5))), "opaque numpy.dtype"]),
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
            save({"o": plain_object()}, path, form, protocol)
            yield ("left alone: an object, %s, protocol %d" % (form, protocol),
                   contains(ask("tree", path), kind, "opaque __main__.Anything", "state", "int 5"))
    save({"w": torch.ones(2)}, path, "legacy", 0)
    yield "tensors in protocol 0 are refused by name", "" if "PERSID" in ask("tree", path)[-1] else ask("tree", path)[-1]


def plain_object():
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
        off = "; 'module.' removed from %d key%s" % (taken, "" if taken == 1 else "s") if taken else ""
        for form, kind in KINDS.items():
            for protocol in (1, 2, 4):
                save(net, path, form, protocol)
                yield ("whole model %s, %s, protocol %d" % (name, form, protocol), difference(
                    ask("state", path), state_lines(kind, "a whole pickled model" + off, stripped)))
        save(torch.nn.DataParallel(net), path, "zip")
        note = "a whole pickled model; 'module.' removed from %d keys" % len(want)
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
        ("a pair of networks", [a, b, optimizer], "state_dict found under '[0]'; there is also '[1]'"),
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


def main(*parts):
    return tap.run(parts, PROGRAM, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main(forms, places, left_alone, storages, whole_models, script_models, layouts))
