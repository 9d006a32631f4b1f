#!/usr/bin/python3
# ckpt_by_hand.py - checkpoints that PyTorch 1.13 does not write: other versions', damaged ones, none at all.
import collections
import io
import os
import pickle
import resource
import struct
import shutil
import subprocess
import sys
import types
import zipfile

from ckpt_forms import KINDS, Writer, ask, contains, difference, ints, main, many, numpy, save, torch

MAGIC, VERSION = 0x1950a86a20f9469cfc6c, 1001


class Anything:
    pass


# ---- what later versions write, by hand

class Place:
    """A storage, for persistent_id()."""

    def __init__(self, kind, key, numel, place="cpu"):
        self.id = ("storage", kind, key, place, numel)


GTRAIN = os.environ.get("GTRAIN", "build/gtrain")

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
        ("float8_e8m0fnu", new("float8_e8m0fnu", 8), [tensor_line("float8_e8m0fnu", [8], [1], odd)]),
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


FOLDERS = [
    ("zero_to_fp32.py", "a checkpoint of DeepSpeed without a step", "global_step100"),
    ("latest_checkpointed_iteration.txt", "a checkpoint of Megatron-LM", "model_optim_rng.pt"),
    ("mp_rank_00/model_optim_rng.pt", "a part of a checkpoint of Megatron-LM", "mp_rank_00"),
    ("consolidated.00.pth", "a LLaMA as Meta publishes it", ".pth"),
    ("adapter_model.safetensors", "an adapter of PEFT", "adapter_model.safetensors"),
    ("model_index.json", "a pipeline of Diffusers", "unet"),
    ("notes.txt", "a directory without a checkpoint in it", "gtrain looks there for"),
]


def accidents(folder):
    path = os.path.join(folder, "accident")
    nothing = bytes(600)
    cases = [
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"), (b" <!DOCTYPE html>", "web page"),
        (b"{\"error\": \"Invalid\"}", "JSON"), (b"", "empty"), (b"\x1f\x8b\x08" + nothing, "gzip"),
        (b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh9", "bzip2"), (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"GGUF\3\0\0\0", "its header goes on behind byte 8"), (b"\x08\x07\x12\x07pytorch", "ONNX"), (nothing, "all zeros"),
        (b"\x1c\0\0\0TFL3", "Lite"), (nothing + b"\x57\xfb\x80\x8b\x24\x75\x47\xdb", "index of a TensorFlow"),
        (b"model/weights".ljust(257, b"\0") + b"ustar\x0000" + nothing, "a tar archive"),
        (b"sys_info".ljust(257, b"\0") + b"ustar\x0000" + nothing, "PyTorch 0.1"),
        (pickle.dumps({"w": torch.ones(2)}), "pickle.dump"), (pickle.dumps([1]), "not one of torch.save"),
        (pickle.dumps({"a": 1}, 0), "not one of torch.save"),
        (b"Entry not found", "a server's error text"), (b"Repository not found\n", "a server's error text"),
        (b"Access to model x/y is restricted", "access to the model is restricted"), (b"\x81\xa6params\x81", "msgpack"),
        (struct.pack("<3iq", 0, 2, 0, 1) + b"\1", "Darknet"), (struct.pack("<3iq", 0, 2, 5, 1) + b"\1", "Darknet"),
        (struct.pack("<2i", 20240326, 3) + nothing, "llm.c"),
    ]
    for content, said in cases:
        with open(path, "wb") as f:
            f.write(content)
        out = ask("tree", path)[-1]
        yield "accident: " + said, "" if said in out and out.startswith("error") else out
    for name, what, hint in FOLDERS:
        place = os.path.join(folder, "folder", name)
        os.makedirs(os.path.dirname(place))
        with open(place, "wb"):
            pass
        out = subprocess.run([GTRAIN, "ckpt", "ls", os.path.join(folder, "folder")], capture_output=True, text=True, check=False).stderr
        shutil.rmtree(os.path.join(folder, "folder"))
        yield "a folder with " + name, "" if what in out and hint in out else out
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("archive/data.pkl", "N.")
    with open(path, "rb") as f:
        part = f.read()
    with open(path, "wb") as f:
        f.write(part + part + b"odd")
    out = subprocess.run([GTRAIN, "ckpt", "ls", path], capture_output=True, text=True, check=False).stderr
    yield "archives in a row are a part of a distributed checkpoint", "" if "name the folder" in out and "head -c" not in out else out
    for content in b"\x08\x07\x12\x07pytorch", b"\x08\x0a\x3a\x00\x00":
        with open(path, "wb") as f:
            f.write(content)
        out = subprocess.run([GTRAIN, "ckpt", "ls", path], capture_output=True, text=True, check=False).stderr
        yield "ONNX: a hint without a placeholder", "" if "ONNX" in out and "{" not in out and "--model" not in out else out
    for members, said in ((["a/archive_format", "a/models/model.json"], "data/weights/model_weights_config.json"),
                          (["a/archive_format"], "torch.export, in the form of PyTorch before 2.9"), (["m/model.json", "m/tensors/0"], "1.0 to 1.3"), (["p/.data/extern_modules"], "torch.package"),
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
        for n in (5000, 20000):
            save(many(n), path, form)
            best, out = min(cpu_time(path) for _ in range(3))
            times.append(best)
        print("# %s: 5,000 tensors %.0f ms, 20,000 %.0f ms of processor time" % (
            form, 1e3 * times[-2], 1e3 * times[-1]))
        yield "opening costs in proportion, " + form, "" if times[-1] < 8 * times[-2] + 0.05 else str(times)


if __name__ == "__main__":
    sys.exit(main(later_versions, byte_orders, python2, cut_files, accidents, cost))
