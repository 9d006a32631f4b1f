# attacks.py - known attacks on readers and scanners of checkpoints: a file each, and what has to be said of it.
#
# Each function yields (name, bytes, said): `said` is a part of the refusal; or Opens(text), where the file is to be
# read, nothing of it run, and `text` to be seen in the tree. $CANARY is a file that would appear if anything were run.
#
# Sources:
#   picklescan's advisories: CVE-2025-1716 (pip), -1889 (endings), -1944 (names of headers), -1945 (flags),
#     -10155, -10156 (CRC-32), -10157 (submodules), and its list of gadgets; modelscan's and fickling's lists
#   Slaviero, "Sour Pickles", Black Hat USA 2011; Trail of Bits, "Never a dill moment", 2021
#   PyTorch: GHSA-53q9-r3pm-6pq6 (weights_only), torch/serialization.py, caffe2/serialize/inline_container.cc
#   Fifield, "A better zip bomb", WOOT 2019; Cox, "Zip files all the way down", 2010
#   Jana and Shmatikov, "Abusing file processing in malware detectors", S&P 2012 (two readers, one archive)
#   You et al., "My ZIP isn't your ZIP", USENIX Security 2025
#   Trail of Bits, "Safetensors security audit", 2023; numpy's CVE-2019-6446 (objects in npy)
import os
import struct
import zlib

from attack_files import (
    FLOATS, GOOD, LEGACY_HEAD, Record, archive, call, dict_of, end64_record, end_record, entry, gguf, gguf_text, glob, legacy, npy, number,
    numbers, pickled, records, safetensors, storage, tensor, text, torch_zip, tuple_of)

COMMAND = "echo attacked >" + os.environ.get("CANARY", "/tmp/gtrain-attacked")


class Opens(str):
    names = None  # the global that `gtrain ckpt verify` has to find in it


class Bounded(str):
    """Read or refused, by each command: what counts is that it ends, and takes no memory without bound."""


def opens_with(text, name):
    said = Opens(text)
    said.names = name
    return said


# ---- code in pickles: names are kept, nothing is called ----

def code(module_and_name, *args):
    return pickled(dict_of(("w", tensor()), ("x", call(module_and_name, *args))))


GADGETS = [
    "os.system", "posix.system", "nt.system", "os.popen", "subprocess.call", "subprocess.Popen", "builtins.eval", "builtins.exec",
    "builtins.compile", "builtins.getattr", "builtins.__import__", "builtins.apply", "pip.main",
    "pip._internal.main", "runpy.run_path", "runpy._run_code", "importlib.import_module", "ctypes.CDLL", "webbrowser.open",
    "operator.attrgetter", "operator.methodcaller", "functools.partial", "pickle.loads", "_pickle.loads", "marshal.loads",
    "torch.load", "torch.hub.load", "torch.storage._load_from_bytes", "torch.jit._script.unpackage_script_module",
    "torch._dynamo.guards.GuardBuilder.get", "torch.utils.bottleneck.__main__.run_autograd_prof", "torch.serialization.load",
    "numpy.testing._private.utils.runstring", "timeit.timeit", "bdb.Bdb.run", "cProfile.runctx", "trace.Trace.run", "code.interact",
    "doctest.debug_script", "ensurepip._run_pip", "pydoc.pipepager", "idlelib.run.Executive.runcode", "venv.create",
    "asyncio.unix_events._UnixSubprocessTransport._start", "lib2to3.pgen2.pgen.ParserGenerator.make_label", "logging.config.listen",
    "test.support.script_helper.assert_python_ok", "distutils.file_util.write_file", "shutil.rmtree", "socket.create_connection",
]


def gadgets():
    for name in GADGETS:
        yield name, torch_zip(code(name, text(COMMAND))), opens_with("opaque " + name, name)
    yield "__builtin__.eval", torch_zip(code("__builtin__.eval", text(COMMAND))), opens_with("opaque builtins.eval", "builtins.eval")  # Python 2's name


def ways_to_call():
    t = tensor()
    inner = pickled(call("os.system", text(COMMAND)))
    ways = {
        "INST": b"(" + text(COMMAND) + b"ios\nsystem\n",
        "OBJ": b"(" + glob("os.system") + text(COMMAND) + b"o",
        "NEWOBJ": glob("os.system") + tuple_of(text(COMMAND)) + b"\x81",
        "NEWOBJ_EX": glob("os.system") + tuple_of(text(COMMAND)) + b"}\x92",
        "STACK_GLOBAL": text("os") + text("system") + b"\x93" + tuple_of(text(COMMAND)) + b"R",
        "STACK_GLOBAL of memos": text("os") + b"q\1" + b"0" + text("system") + b"q\2" + b"0h\1h\2\x93" + tuple_of(text(COMMAND)) + b"R",
        "STACK_GLOBAL, memo overwritten": text("math") + b"q\1" + b"0" + text("os") + b"q\1" + b"0" + text("system") + b"q\2" +
                                          b"0h\1h\2\x93" + tuple_of(text(COMMAND)) + b"R",
        "STACK_GLOBAL, DUP": text("os") + b"2" + b"0" + text("system") + b"\x93" + tuple_of(text(COMMAND)) + b"R",
        "memoized class": glob("os.system") + b"q\1" + b"0h\1" + tuple_of(text(COMMAND)) + b"R",
    }
    for name, way in ways.items():
        yield name, torch_zip(pickled(dict_of(("w", t), ("x", way)))), opens_with("opaque os.system", "os.system")
    yield "popped again", torch_zip(pickled(call("os.system", text(COMMAND)), b"0", dict_of(("w", t)))), opens_with("tensor float32 [4]", "os.system")
    yield "in the memo alone", torch_zip(pickled(call("os.system", text(COMMAND)), b"q\1" + b"0", dict_of(("w", t)))), opens_with("tensor", "os.system")
    yield "__setstate__", torch_zip(pickled(dict_of(("x", call("torch.nn.Module") + dict_of(("__setstate__", glob("os.system"))) + b"b")))), \
        opens_with("opaque torch.nn.Module", "os.system")
    yield "nested pickle", torch_zip(code("pickle.loads", b"\x80\4C" + bytes([len(inner)]) + inner)), opens_with("opaque pickle.loads", "os.system")
    yield "nested torch file", torch_zip(code("torch.storage._load_from_bytes", b"B" + struct.pack("<I", len(GOOD)) + GOOD)), \
        opens_with("opaque torch.storage._load_from_bytes", "torch.storage._load_from_bytes")
    lines = "posix\nsystem\n(S'%s'\ntR0ccollections" % COMMAND
    yield "line breaks in a class", torch_zip(pickled(text("collections") + text("OrderedDict\nc" + lines + "\nOrderedDict") + b"\x93)R")), "control character"
    yield "line breaks in a module", torch_zip(pickled(text(lines) + text("OrderedDict") + b"\x93)R")), \
        "control character"
    yield "class without a name", torch_zip(pickled(glob("os."), b")R")), "is empty"
    for name, key in ("no storage", "0"), ("no storage, zero in its key", "0\0" + 100 * "N"):
        yield name, torch_zip(pickled(dict_of(("w", tensor()), ("x", call("a.B", text("storage"), glob("a.B"), text(key), text("cpu"), number(4)))))), \
            Opens("opaque a.B")
    yield "storage of an unknown class", torch_zip(pickled(dict_of(("w", tensor()), ("x", tuple_of(
        text("storage"), glob("os.system"), text("7"), text("cpu"), number(4)) + b"Q")))), opens_with("opaque os.system", "os.system")
    yield "argument of a tensor", torch_zip(pickled(tensor(of=call("os.system", text(COMMAND))))), opens_with("opaque torch._utils._rebuild_tensor_v2", "os.system")
    yield "after STOP", torch_zip(GOOD + inner), "follow the pickle"
    yield "before a broken opcode", torch_zip(pickled(call("os.system", text(COMMAND)), b"\xff")), "byte"
    yield "called result", torch_zip(pickled(call("builtins.getattr", glob("os.path"), text("x")), tuple_of(text(COMMAND)), b"R")), \
        opens_with("opaque (call)", "builtins.getattr")
    yield "extension", torch_zip(pickled(b"\x82\1", tuple_of(text(COMMAND)), b"R")), "registry"
    yield "rebuild from type", torch_zip(pickled(call("torch._tensor._rebuild_from_type_v2", glob("os.system"), glob("torch.Tensor"),
                                                      tuple_of(text(COMMAND)), b"}"))), opens_with("opaque torch._tensor._rebuild_from_type_v2", "os.system")


# ---- pickles that lie, or do not end ----

def nested(n, shut):
    return b"\x80\2" + b"(" * n + shut * n + b"."


def sharing(n):
    return b"\x80\2]q\0" + b"".join(b"0]q" + bytes([i]) + b"h" + bytes([i - 1]) + b"ah" + bytes([i - 1]) + b"a" for i in range(1, n)) + b"."


def repeated_dict(entries, times):
    """OrderedDict of one list of pairs, again and again: each call would copy it."""
    pairs = b"](" + b"".join(b"M" + struct.pack("<H", i) + b"N\x86" for i in range(entries)) + b"e"
    return pickled(glob("collections.OrderedDict"), b"q\0", b"0", pairs, b"\x85q\1", b"0](", b"h\0h\1R" * times, b"e")


def long_names(times):
    return pickled(text("m" * 500), b"q\0", b"0", text("n" * 500), b"q\1", b"0](", b"h\0h\1\x93" * times, b"e")


def repeated_call(function, args, times):
    return pickled(glob(function), b"q\0", b"0", args, b"q\1", b"0](", b"h\0h\1R" * times, b"e")


def repeated_keys(length, levels):
    """A dict of two keys that differ in their last byte alone, met 2^levels times."""
    pair = dict_of(("k" * length + "a", b"N"), ("k" * length + "b", b"N"))
    return b"\x80\2" + pair + b"q\0" + b"".join(
        b"0]q" + bytes([i]) + b"h" + bytes([i - 1]) + b"ah" + bytes([i - 1]) + b"a" for i in range(1, levels)) + b"."


def pickles():
    for cut in range(1, len(GOOD), 9):
        yield "cut at %d" % cut, torch_zip(GOOD[:cut]), "pickle"
    yield "empty", torch_zip(b""), "does not end"
    yield "memo 2^32-1 read", torch_zip(pickled(b"j\xff\xff\xff\xff")), "memo 4294967295"
    yield "memo 2^32-1 written", torch_zip(pickled(b"Nr\xff\xff\xff\xff")), "memo 4294967295"
    yield "memo 2^64", torch_zip(pickled(b"Np18446744073709551616\n")), "memo"
    yield "10^6 marks", torch_zip(nested(10**6, b"")), "pickle"
    yield "10^6 lists in one", torch_zip(b"\x80\2" + b"]" * 10**6 + b"a" * (10**6 - 1) + b"."), "nested deeper"
    yield "10^6 tuples in one", torch_zip(b"\x80\2)" + b"\x85" * 10**6 + b"."), "nested deeper"
    yield "10^6 marked tuples", torch_zip(nested(10**6, b"t")), "pickle"
    yield "list of itself", torch_zip(pickled(b"]q\0h\0a")), Opens("opaque (cycle)")
    yield "dict of itself", torch_zip(pickled(b"}q\0" + text("x") + b"h\0s")), Opens("opaque (cycle)")
    yield "billion laughs", torch_zip(sharing(60)), "more than"
    yield "10^9 bytes announced", torch_zip(pickled(b"X\0\0\0\x40a")), "announced"
    yield "2^63 bytes announced", torch_zip(pickled(b"\x8d" + struct.pack("<Q", 2**63) + b"a")), "announced"
    yield "2^64-1 bytes announced", torch_zip(pickled(b"\x8e" + b"\xff" * 8 + b"a")), "announced"
    yield "int of 2^31-1 bytes", torch_zip(pickled(b"\x8b\xff\xff\xff\x7f\1")), "announced"
    yield "int of 10^6 digits", torch_zip(pickled(b"L" + b"9" * 10**6 + b"L\n")), Opens("opaque builtins.int")
    yield "int of 10^6 bytes", torch_zip(pickled(b"\x8b" + struct.pack("<I", 10**6) + b"\x7f" * 10**6)), Opens("opaque builtins.int")
    yield "frame past the end", torch_zip(b"\x80\4\x95" + struct.pack("<Q", 2**40) + b"N."), "frame"
    yield "frame of 2^64-1", torch_zip(b"\x80\4\x95" + b"\xff" * 8 + b"N."), "frame"
    yield "frame within an opcode", torch_zip(b"\x80\4\x95" + struct.pack("<Q", 3) + text("abc") + b"."), "its frame ends"
    yield "frame in a frame", torch_zip(b"\x80\4\x95" + struct.pack("<Q", 11) + b"\x95" + struct.pack("<Q", 2) + b"N."), "frame inside"
    yield "frame longer than the pickle", torch_zip(b"\x80\4\x95" + struct.pack("<Q", 3) + b"N.."), "before its frame"
    yield "line without end", torch_zip(pickled(b"cos\nsystem")), "does not end"
    yield "name of 10^6 letters", torch_zip(pickled(glob("a." + "b" * 10**6))), "too long"
    yield "zero in a name", torch_zip(pickled(b"cos\0x\nsystem\n")), "zero"
    yield "text that is no UTF-8", torch_zip(pickled(text(b"\xff\xfe"))), "UTF-8"
    yield "key twice", torch_zip(pickled(dict_of(("w", tensor()), ("w", b"N")))), "'w' twice"
    yield "persistent text", torch_zip(pickled(b"Pstorage\n")), "byte"
    yield "persistent number", torch_zip(pickled(b"K\1Q")), "persistent id"
    yield "persistent tuple of nothing", torch_zip(pickled(b")Q")), "persistent id"
    yield "persistent id short", torch_zip(pickled(tuple_of(text("storage")), b"Q")), "a storage is not"
    yield "persistent class a text", torch_zip(pickled(tuple_of(text("storage"), text("torch.FloatStorage"), text("0"), text("cpu"),
                                                                number(4)), b"Q")), "a storage is not"
    yield "class of storage unknown", torch_zip(pickled(tensor(of=tuple_of(
        text("storage"), glob("os.system"), text("0"), text("cpu"), number(4)) + b"Q"))), \
        Opens("opaque torch._utils._rebuild_tensor_v2")
    yield "one storage, two types", torch_zip(pickled(b"](", tensor(), tensor(of=storage("DoubleStorage")), b"e")), "storage '0' is"
    yield "dicts of one list", torch_zip(repeated_dict(5000, 60000)), "bytes of memory"
    yield "classes of long names", torch_zip(long_names(300000)), "names of classes"
    yield "bytes of one text", torch_zip(repeated_call("_codecs.encode", text("x" * 10**5) + text("latin1") + b"\x86", 10**5)), "bytes of memory"
    yield "objects of one tuple", torch_zip(repeated_call("copyreg.__newobj__", tuple_of(glob("a.B"), b"N" * 10**5), 10**5)), "bytes of memory"
    yield "one dict of long keys", torch_zip(repeated_keys(4 * 10**5, 60)), "more than"


# ---- small files of much ----

def shared_levels(levels, leaf, level):
    """`leaf`, then levels that hold the one before twice."""
    return b"\x80\2" + leaf + b"q\0" + b"".join(
        b"0" + level(b"h" + bytes([i - 1])) + b"q" + bytes([i]) for i in range(1, levels)) + b"."


WRAPPERS = ["model", "state_dict", "model_state_dict", "net", "module", "network", "model_state", "weights", "params", "model_dict",
            "net_state_dict", "network_state_dict", "model_weights", "ema", "model_ema", "ema_model", "ema_state_dict"]


def state_dict(items, attributes):
    """An OrderedDict with attributes."""
    return call("collections.OrderedDict") + items[1:] + attributes + b"b"


def end_records():
    """A torch file, then end records that each claim the whole directory and all that follows it."""
    many = records() + [Record("archive/%d" % i, b"") for i in range(12500)]
    seen = []
    first = archive(many, lambda at, n, s, o: seen.append((n, s, o)) or end_record(n, s, o))
    n, s, o = seen[0]
    return first + b"".join(end_record(n, s + 22 * i, o) for i in range(1, 12500))


def lists_of(count):
    """Pairs that grow with each other: names, and lists that each name is looked for in."""
    names = ["n%d" % i for i in range(count)]
    of_one = dict_of(*((name, b"h\0") for name in names))
    one = tensor() + b"q\0" + b"0"
    hidden = call("builtins.set", b"](" + b"".join(text("x" + name) for name in names) + b"e")
    yield "names of buffers", torch_zip(pickled(one, call("torch.nn.Module") + dict_of(
        ("_parameters", b"}"), ("_buffers", of_one), ("_modules", b"}"), ("_non_persistent_buffers_set", hidden)) + b"b"))
    source = 'class M(Module):\n  __parameters__ = [%s]\n  __buffers__ = []\n' % "".join('"x%s", ' % name for name in names + [""]).replace('"x"', '"n0"')
    yield "attributes of a script", archive([
        Record("archive/data.pkl", pickled(one, glob("__torch__.M") + b")\x81" + of_one + b"b")), Record("archive/data/0", FLOATS),
        Record("archive/code/__torch__.py", source.encode()), Record("archive/constants.pkl", pickled(b")"))])
    metadata = dict_of(*(("x" + name, text("x")) for name in names))
    yield "ties and metadata", torch_zip(pickled(one, state_dict(of_one, dict_of(("__metadata__", metadata)))))
    paths = dict_of(*((path + name, b"}") for name in names for path in ("", "module.")))
    yield "paths of modules", torch_zip(pickled(one, state_dict(dict_of(("module.w", b"h\0")), dict_of(("_metadata", paths)))))


def much():
    for name, data in lists_of(25000):
        yield "25,000 " + name, data, Bounded()
    yield "12,500 end records of one directory", end_records(), Bounded()
    yield "wrappers of wrappers", torch_zip(shared_levels(
        6, b"}", lambda inner: dict_of(*((w, inner) for w in WRAPPERS)))), Bounded()
    yield "10^4 tensors of 2^20 times one element", torch_zip(pickled(dict_of(
        *(("%d" % i, tensor(size=(2**20 + i,), stride=(0,))) for i in range(10**4))))), Bounded()
    yield "metadata of 20 MB that is no text", safetensors('{"__metadata__":{"a":[' + "{}," * 7 * 10**6 + "{}]}}"), Bounded()
    digests = '{"version": 1, "crc32": {' + ",".join('"/%d":"00000000"' % i for i in range(10**6)) + "}}"
    yield "10^6 digests of one tensor", archive(records() + [Record("archive/.gtrain/digests", digests.encode())]), Bounded()
    two = lambda name: lambda inner: dict_of((name + "a", inner), (name + "b", inner))  # noqa: E731
    module = lambda inner: call("torch.nn.Module") + dict_of(  # noqa: E731
        ("_parameters", b"}"), ("_buffers", b"}"), ("_modules", dict_of(("a", inner), ("b", inner)))) + b"b"
    leaf = call("torch.nn.Module") + dict_of(("_parameters", dict_of(("w", tensor()))), ("_buffers", b"}"), ("_modules", b"}")) + b"b"
    names = [("%d" % i, b"h\0") for i in range(2 * 10**4)]
    yield "long name above 20,000 others", torch_zip(pickled(tensor(), b"q\0" + b"0", dict_of(("k" * 10**5, dict_of(*names))))), Bounded()
    yield "10^5 names of 100 bytes in modules", torch_zip(shared_levels(20, leaf, module)), Bounded()
    yield "2^19 times one state_dict", torch_zip(shared_levels(20, dict_of(("a.w", tensor()), ("b.w", tensor())), two("n"))), Bounded()
    yield "2^14 times a state_dict under long names", torch_zip(shared_levels(15, dict_of(("a.w", tensor())), two("x" * 10**4))), Bounded()
    yield "10^6 values", torch_zip(pickled(b"](" + b"N" * 10**6 + b"e")), Bounded()
    yield "3 10^5 empty dicts", torch_zip(pickled(b"](" + b"}" * 3 * 10**5 + b"e")), Bounded()
    yield "2^31 elements of one", torch_zip(pickled(dict_of(("w", tensor(size=(2**31,), stride=(0,)))))), Bounded()


# ---- tensors that lie ----

def tensors():
    def case(name, said, **parts):
        return name, torch_zip(pickled(dict_of(("w", tensor(**parts))))), said

    huge = 2**63 - 1
    yield case("one beyond its storage", "storage '0'", size=(5,))
    yield case("offset beyond its storage", "storage '0'", offset=1)
    yield case("stride beyond its storage", "storage '0'", size=(2, 2), stride=(3, 1))
    yield case("offset of 2^63-1", "overflow", offset=huge)
    yield case("offset negative", "byte", offset=-1)
    yield case("offset of 2^63", "byte", offset=2**63)
    yield case("offset of 2^64", "byte", offset=2**64)
    yield case("stride negative", "byte", stride=(-1,))
    yield case("size negative", "byte", size=(-4,))
    yield case("size of 2^63", "byte", size=(2**63,))
    yield case("sizes that overflow", "overflow", size=(2**32, 2**32), stride=(0, 0))
    yield case("sizes that overflow to 4", "overflow", size=(2**62 + 1, 4), stride=(0, 1))
    yield case("stride of 2^62", "overflow", size=(4, 4), stride=(2**62, 1))
    yield case("2^50 times one element", "repeats storage '0'", size=(2**50,), stride=(0,))
    yield case("100 dimensions", "byte", size=(1,) * 100, stride=(1,) * 100)
    yield case("10^5 dimensions", "byte", size=(1,) * 10**5, stride=(1,) * 10**5)
    yield case("sizes and strides of two lengths", "byte", size=(2, 2), stride=(1,))
    yield case("storage larger than its record", "storage '0'", of=storage(numel=5))
    yield case("storage of 2^61 doubles", "byte", of=storage("DoubleStorage", numel=2**61))
    yield case("storage of negative size", "byte", of=storage(numel=-1))
    yield case("storage that is not there", "data/7", of=storage(key="7"))
    yield case("storage outside", "data/../version", of=storage(key="../version"))
    yield case("storage of an absolute name", "'/etc/passwd'", of=storage(key="/etc/passwd"))
    yield case("storage of a long name", "storage '", of=storage(key="k" * 2000))


# ---- zip archives ----

def zip_headers():
    def lie(name, said, **fields):
        return name, torch_zip(**fields), said

    yield lie("CRC-32 wrong", "'archive/data/0' is damaged", crc=1)
    yield "CRC-32 of the pickle wrong", archive([Record("archive/data.pkl", GOOD, crc=1), records()[1]]), "'archive/data.pkl' is damaged"
    yield "CRC-32 none", archive([Record("archive/data.pkl", GOOD, crc=0), Record("archive/data/0", FLOATS, crc=0)]), Opens("tensor")
    yield lie("CRC-32 of the header another", "'archive/data/0' at byte 188 has another CRC-32", local={"crc": 1})
    yield lie("name of the header another", "'archive/data/0' at byte 188 has another name", local={"name": b"archive/data/1"})
    yield lie("name of the header longer", "'archive/data/0' at byte 188 has another name", local={"name": b"archive/data/0/x"})
    yield lie("sizes of the header others", "'archive/data/0' at byte 188 has another size", local={"size": 8, "packed": 8})
    yield lie("sizes of the directory others", "'archive/data/0'", central={"size": 2**31, "packed": 2**31})
    yield lie("sizes of the header zero", "'archive/data/0' at byte 188 has another size", local={"size": 0, "packed": 0})
    yield lie("method of the header another", "'archive/data/0' at byte 188 has another method", local={"method": 8})
    yield lie("method unknown", "method 99", local={"method": 99}, central={"method": 99})
    yield lie("flags of the header others", "'archive/data/0' at byte 188 has another flags", local={"flags": 1})
    yield lie("encrypted in the directory", "'archive/data/0' is encrypted", central={"flags": 1})
    yield lie("encrypted", "'archive/data/0' is encrypted", flags=1)
    yield lie("header outside", "'archive/data/0' has no header at byte 4294967294", header=2**32 - 2)
    yield lie("header in the pickle", "'archive/data/0' has no header at byte 60", header=60)
    yield lie("on another disk", "another disk", central={"disk": 1})


def zip_names():
    def named(name, said, *names):
        return name, archive(records() + [Record(n, b"x") for n in names]), said

    yield named("name twice", "two records 'archive/data/0'", "archive/data/0")
    yield named("name twice but for case", "when case is ignored", "ARCHIVE/data/0")
    yield named("pickle twice but for case", "when case is ignored", "archive/DATA.PKL")
    yield named("zero in a name", "control character", "archive/data/0\0.txt")
    yield named("line break in a name", "control character", "archive/x\ny")
    yield named("escape sequence in a name", "control character", "archive/\x1b[2J")
    yield named("backslash", "backslash", "archive\\data\\0")
    yield named("absolute", "step", "/etc/passwd")
    yield named("outside", "step", "archive/../../etc/passwd")
    yield named("dot", "step", "archive/./data/0")
    yield named("empty step", "step", "archive//data/0")
    yield named("drive", "drive", "C:/x")
    yield named("empty name", "step", "")
    yield named("long name", "too long", "archive/" + "x" * 5000)
    yield named("two roots", "data.pkl", "other/data.pkl")
    path = b"\1" + struct.pack("<I", zlib.crc32(b"archive/x")) + b"archive/y"
    yield "name in an extra field", archive(records() + [
        Record("archive/x", b"x", central={"extra": struct.pack("<HH", 0x7075, len(path)) + path})]), "another name in an extra field"


def zip_directory():
    good, rec = torch_zip(), records()
    yield "more records than there are", archive(rec, lambda at, n, s, o: end_record(n + 1, s, o)), "byte"
    yield "fewer records than there are", archive(rec, lambda at, n, s, o: end_record(n - 1, s, o)), "goes on at byte"
    yield "65535 records", archive(rec, lambda at, n, s, o: end_record(65535, s, o)), "65535 records"
    yield "count for this disk another", archive(rec, lambda at, n, s, o: end_record(n, s, o, here=1)), "other disks"
    yield "disk 1", archive(rec, lambda at, n, s, o: end_record(n, s, o, disk=1)), "other disks"
    yield "directory larger", archive(rec, lambda at, n, s, o: end_record(n, s + 1, o)), "byte"
    yield "directory earlier", archive(rec, lambda at, n, s, o: end_record(n, s, o - 1)), "byte"
    yield "directory at 2^32-1", archive(rec, lambda at, n, s, o: end_record(n, s, 2**32 - 1)), "byte 4294967295"
    yield "gap behind the directory", archive(rec, before_end=b"gap"), "byte"
    yield "bytes behind the end", archive(rec, tail=b"x"), "does not stand at the end"
    yield "zip behind the end", good + torch_zip(pickled(b"N")), "byte"
    yield "end record in the comment", archive(rec, comment=b"PK\5\6" + b"x" * 40), "two end records"
    yield "zip in the comment", archive(rec, comment=good), "byte"
    yield "no records", end_record(0, 0, 0), Opens("dict")
    yield "dead bytes between", archive(rec, gap=b"PK\3\4 dead"), Opens("tensor")
    hidden = Record("archive/data/0", b"other floats 16b")
    yield "directory in a record", archive([Record("archive/data.pkl", GOOD), Record("archive/data/0", b"x" * 400)],
                                           lambda at, n, s, o: end_record(n, s, o - 100)), "byte"
    yield "record in a record", archive([Record("archive/data.pkl", GOOD), Record("archive/data/0", FLOATS, header=0)]), \
        "another name than the directory"
    same = records()
    same.append(Record("archive/data/1", FLOATS, header=188))
    yield "two names on one record", archive(same), "another name"
    yield "overlapping records", overlapping(), "overlaps record"
    yield "entry behind the directory", archive(rec + [hidden], lambda at, n, s, o: end_record(2, s, o)), "goes on at byte"


def overlapping():
    """Fifield's quoted overlap: a record whose bytes begin with the header of the next."""
    inner = Record("archive/data/1", FLOATS)
    quoted = b"PK\3\4" + inner.common(inner.local) + inner.local["name"] + inner.packed
    outer = Record("archive/data/0", quoted)
    first = Record("archive/data.pkl", GOOD)
    inner.header = 30 + len("archive/data.pkl") + len(GOOD) + 30 + len("archive/data/0")
    return archive([first, outer, inner])


def zip64():
    def with64(name, said, end64, end=None):
        return name, archive(records(), end or (lambda at, n, s, o: end_record(0xffff, 2**32 - 1, 2**32 - 1)), end64), said

    yield with64("as it should be", Opens("tensor"), lambda at, n, s, o: end64_record(at, n, s, o))
    for value in (2**63, 2**64 - 1, 2**63 - 1):
        yield with64("offset %d" % value, "byte %d" % value, lambda at, n, s, o, v=value: end64_record(at, n, s, v))
        yield with64("size %d" % value, "%d bytes" % value, lambda at, n, s, o, v=value: end64_record(at, n, v, o))
        yield with64("count %d" % value, "%d records" % value, lambda at, n, s, o, v=value: end64_record(at, v, s, o))
        yield with64("locator %d" % value, "byte %d" % value, lambda at, n, s, o, v=value: end64_record(v, n, s, o))
    yield with64("locator elsewhere", "no zip64 end record at byte 0", lambda at, n, s, o: end64_record(0, n, s, o))
    yield with64("record longer", "contradict", lambda at, n, s, o: end64_record(at, n, s, o, length=2**63))
    yield with64("end records disagree", "contradict", lambda at, n, s, o: end64_record(at, n, s, o), lambda at, n, s, o: end_record(1, s, o))
    extra = struct.pack("<HHQQ", 1, 16, 2**63, 2**63)
    ones = {"size": 2**32 - 1, "packed": 2**32 - 1, "extra": extra}
    yield "record of 2^63", torch_zip(local=ones, central=ones), "'archive/data/0' of 9223372036854775808 bytes"
    yield "zip64 sizes missing", torch_zip(central={"size": 2**32 - 1, "packed": 2**32 - 1}), "'archive/data/0' are missing"
    yield "zip64 sizes twice", torch_zip(central={"extra": struct.pack("<HHQ", 1, 8, 16) * 2}), "there twice"
    yield "extra field too long", torch_zip(central={"extra": b"\1\0\xff\xff"}), "'archive/data/0'"


def bombs():
    zeros = bytes(200 << 20)
    yield "200 MiB of zeros", archive([Record("archive/data.pkl", zeros, 8)]), "200"
    yield "200 MiB in a storage", torch_zip(pickled(tensor(of=storage(numel=50 << 20))), zeros, method=8), "'archive/data/0'"
    one = bytes(20 << 20)
    many = [Record("archive/data/%d" % i, one, 8) for i in range(12)]
    every = pickled(b"](", *[tensor(of=storage(key=str(i), numel=5 << 20)) for i in range(12)], b"e")
    yield "12 times 20 MiB", archive([Record("archive/data.pkl", every)] + many), "'archive/data/"
    yield "ratio of a million", torch_zip(pickled(tensor()), FLOATS, method=8, central={"size": 2**31}), "'archive/data/0'"
    yield "inflates to less", archive([Record("archive/data.pkl", GOOD, 8, size=len(GOOD) + 1)]), "'archive/data.pkl'"
    yield "inflates to more", archive([Record("archive/data.pkl", GOOD, 8, size=len(GOOD) - 1)]), "'archive/data.pkl'"
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = stream.compress(GOOD) + stream.flush() + b"hidden"
    yield "bytes behind the deflated", archive([Record("archive/data.pkl", GOOD, 8, packed=packed)]), "'archive/data.pkl' does not inflate"
    yield "no deflate at all", archive([Record("archive/data.pkl", GOOD, 8, packed=b"\xff" * 40)]), "'archive/data.pkl' does not inflate"
    count = 20000
    yield "20,000 names on one record", archive([Record("archive/%d" % i, b"x", header=0 if i else None) for i in range(count)]), "another name"


# ---- legacy files ----

def legacy_files():
    yield "as it should be", legacy(), Opens("tensor")
    yield "magic another", legacy()[:4] + b"x" + legacy()[5:], "not one of torch.save"
    yield "system no dict", legacy(system=pickled(b"N")), "no dict"
    yield "keys no list", legacy(listed=pickled(b"N")), "no list"
    yield "key that is no text", legacy(listed=pickled(b"](K\1e")), "storage"
    yield "key unknown", legacy(keys=("7",)), "storage"
    yield "key missing", legacy(keys=(), storages=()), "storage '0'"
    yield "key twice", legacy(keys=("0", "0"), storages=((4, FLOATS), (4, bytes(16)))), "storage '0' twice"
    yield "count larger", legacy(storages=((5, FLOATS),)), "byte"
    yield "count smaller", legacy(storages=((3, FLOATS),)), "storage '0' needs"
    yield "count of 2^62", legacy(storages=((2**62, FLOATS),)), "byte"
    yield "count negative", legacy(storages=((-1, FLOATS),)), "byte"
    yield "storage cut", legacy(storages=((4, FLOATS[:9]),)), "byte"
    yield "count cut", legacy(storages=())[:-1] + b".\4\0", "byte"
    view = storage(tail=tuple_of(text("1"), number(2), number(3)))
    yield "view beyond", legacy(pickled(tensor(size=(3,), of=view))), "storage '0'"
    yield "view of 2^63-1", legacy(pickled(tensor(size=(1,), of=storage(tail=tuple_of(text("1"), number(2**63 - 1), number(1)))))), "storage '0'"
    yield "view negative", legacy(pickled(tensor(size=(1,), of=storage(tail=tuple_of(text("1"), number(-1), number(1)))))), "byte"
    yield "code in the system", legacy(system=pickled(call("os.system", text(COMMAND)))), "no dict"
    yield "code for the magic", b"\x80\2" + call("os.system", text(COMMAND)) + b".", "not one of torch.save"
    yield "code in the version", LEGACY_HEAD[:15] + pickled(call("os.system", text(COMMAND))), "version"
    yield "zip behind it", legacy() + torch_zip(), Opens("tensor")


# ---- safetensors and npy ----

def safetensors_files():
    data = bytes(16)
    one = "{" + entry() + "}"
    yield "as it should be", safetensors(one, data), Opens("tensor float32 [4]")
    for length in (2**63, 2**64 - 1, 2**63 - 1, 2**40, len(one) + 17):
        yield "header of %d" % length, safetensors(one, data, length), "header"
    yield "header of 0", safetensors("", FLOATS), "first bytes"
    yield "name twice", safetensors("{" + entry() + "," + entry() + "}", data), "'w'"
    yield "name twice, escaped", safetensors("{" + entry() + "," + entry("\\u0077") + "}", data), "'w'"
    yield "key of a tensor twice", safetensors('{"w":{"dtype":"F32","dtype":"F32","shape":[4],"data_offsets":[0,16]}}', data), "'w': JSON: duplicate object key"
    yield "overlapping", safetensors("{" + entry() + "," + entry("v", shape="[2]", offsets="[8,16]") + "}", data), "'v': its bytes 8 to 16 of the data overlap"
    yield "gap", safetensors("{" + entry() + "}", data + b"hidden"), "6 bytes at the end"
    yield "gap between", safetensors("{" + entry(shape="[1]", offsets="[0,4]") + "," + entry("v", shape="[1]", offsets="[12,16]") + "}", data), "'v': the bytes 4 to 12"
    yield "beyond the end", safetensors("{" + entry(shape="[8]", offsets="[0,32]") + "}", data), "16 of its 95 bytes are missing"
    yield "offsets backwards", safetensors("{" + entry(offsets="[16,0]") + "}", data), "'w'"
    yield "offsets negative", safetensors("{" + entry(offsets="[-16,0]") + "}", data), "'w': its data_offsets"
    yield "offsets of 2^64", safetensors("{" + entry(offsets="[0,18446744073709551616]") + "}", data), "byte"
    yield "size another", safetensors("{" + entry(shape="[3]") + "}", data), "'w'"
    yield "shape overflows", safetensors("{" + entry(shape="[4611686018427387904,4]", offsets="[0,0]") + "}"), "'w'"
    yield "shape overflows to 16", safetensors("{" + entry(shape="[4294967296,4294967297]", offsets="[0,16]") + "}", data), "'w'"
    yield "shape negative", safetensors("{" + entry(shape="[-4]") + "}", data), "'w': a size in its shape"
    yield "shape a fraction", safetensors("{" + entry(shape="[4.0]") + "}", data), "'w': a size in its shape"
    yield "shape of 1000", safetensors("{" + entry(shape="[" + "1," * 999 + "4]") + "}", data), "'w'"
    yield "dtype unknown", safetensors("{" + entry(dtype="float32") + "}", data), "'w'"
    yield "dtype missing", safetensors('{"w":{"shape":[4],"data_offsets":[0,16]}}', data), "'w'"
    yield "metadata no texts", safetensors('{"__metadata__":{"a":{"b":1}},' + entry() + "}", data), "__metadata__: the value of 'a'"
    yield "10^5 brackets", safetensors('{"w":' + "[" * 10**5 + "]" * 10**5 + "}", data), "byte"
    yield "10^5 braces", safetensors('{"w":' * 10**5 + "1" + "}" * 10**5, data), "byte"
    yield "not UTF-8", safetensors(b'{"\xff\xfe":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}', data), "byte"
    yield "half a surrogate", safetensors("{" + entry("\\ud800") + "}", data), "byte"
    yield "number of 10^5 digits", safetensors("{" + entry(shape="[" + "9" * 10**5 + "]") + "}", data), "byte"
    yield "cut in a text", safetensors('{"w', data), "byte"
    yield "bytes behind the JSON", safetensors(one + "{}", data), "byte"
    yield "comment", safetensors("/* */" + one, data), "byte"


def npy_files():
    good = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
    yield "as it should be", npy(good, FLOATS), Opens("tensor float32 [4]")
    yield "objects", npy(good.replace("<f4", "|O"), pickled(call("os.system", text(COMMAND)))), "object"
    yield "code for the header", npy("__import__('os').system('%s')" % COMMAND, FLOATS), "header"
    yield "code in the shape", npy(good.replace("(4,)", "(__import__('os').system('%s'),)" % COMMAND), FLOATS), "header"
    yield "shape of 2^63", npy(good.replace("(4,)", "(9223372036854775808,)"), FLOATS), "byte"
    yield "shape overflows", npy(good.replace("(4,)", "(4611686018427387905, 4)"), FLOATS), "overflow"
    yield "shape negative", npy(good.replace("(4,)", "(-4,)"), FLOATS), "byte"
    yield "shape beyond the end", npy(good.replace("(4,)", "(5,)"), FLOATS), "npy: 4 of its 20 bytes are missing"
    yield "shape of 10^4", npy(good.replace("(4,)", "(" + "1," * 10**4 + ")"), FLOATS), "npy: more than 32 dimensions"
    yield "10^4 brackets", npy(good.replace("(4,)", "(" * 10**4 + ")" * 10**4), FLOATS), "byte"
    yield "header beyond the end", npy(good, FLOATS, 60000), "header"
    yield "header of 2^32-1", npy(good, FLOATS, 2**32 - 1, 2), "header"
    yield "version 9", npy(good, FLOATS, version=9), "version"
    yield "structured", npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,), }", FLOATS), "npy: an array of structures"
    yield "key twice", npy(good.replace("'fortran_order': False", "'shape': (1,)"), FLOATS), "npy: the header has the key 'shape' twice"


def gguf_files():
    def one(sizes=(4,), kind=0, data=FLOATS, *offset, name="w", **more):
        return gguf([(name, sizes, kind, data, *offset)], **more)

    many = 1 << 40
    yield "as it should be", one(), Opens("tensor float32 [4]")
    yield "blocks", one((32,), 2, struct.pack("<e", 2) + bytes(16)), Opens("tensor float32 [32]")
    yield "version 1", one(version=1), "version 1 of GGUF in the header"
    yield "version 4", one(version=4), "version 4 of GGUF in the header"
    yield "big-endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "a big-endian GGUF by its header"
    yield "cut in the counts", one()[:17], "its header goes on behind byte 17"
    yield "2^63 tensors", one(counts=(1 << 63, 0)), "a header of 9223372036854775808 tensors"
    yield "2^64-1 entries", one(counts=(1, 2**64 - 1)), "18446744073709551615 entries of metadata"
    yield "more tensors than bytes", one(counts=(200000, 0)), "header goes on behind byte"
    yield "more entries than bytes", one(counts=(1, 60000)), "header goes on behind byte"
    yield "a name of 2^64-1", gguf([], counts=(1, 0), align=1) + struct.pack("<Q", 2**64 - 1) + bytes(64), "has 18446744073709551615 bytes"
    yield "a name beyond the end", gguf([], counts=(1, 0), align=1) + struct.pack("<Q", 60000) + bytes(64), "header goes on behind byte"
    yield "a name with a zero", one(name="a\0b"), "holds a zero or is not UTF-8"
    yield "a name of other bytes", one(name=b"\xff\xfe"), "holds a zero or is not UTF-8"
    yield "a name twice", gguf([("w", (4,), 0, FLOATS), ("w", (4,), 0, FLOATS)]), "tensor 'w' is there twice"
    yield "a key twice", one(metadata=[("k", 4, 1), ("k", 4, 1)]), "the metadata 'k' is there twice"
    yield "a type of metadata", one(metadata=[("k", struct.pack("<I", 13))]), "the metadata 'k' is of type 13"
    yield "an array of arrays", one(metadata=[("k", 9, (9, []))]), "the metadata 'k' is an array of arrays"
    yield "an array of a wrong type", one(metadata=[("k", struct.pack("<IIQ", 9, 99, 1))]), "the metadata 'k' is of type 99"
    yield "an array of 2^40 bytes", one(metadata=[("k", struct.pack("<IIQ", 9, 0, many))]), "header goes on behind byte"
    yield "an array of 2^61 numbers", one(metadata=[("k", struct.pack("<IIQ", 9, 10, 1 << 61))]), "header goes on behind byte"
    yield "an array of 2^40 strings", one(metadata=[("k", struct.pack("<IIQ", 9, 8, many))]), "header goes on behind byte"
    yield "a string of 2^40 in an array", one(metadata=[("k", struct.pack("<IIQQ", 9, 8, 1, many))]), "header goes on behind byte"
    yield "a text of 2^40", one(metadata=[("k", struct.pack("<IQ", 8, many))]), "has 1099511627776 bytes"
    for value in 0, 4, 48, 1 << 31:
        yield "alignment %d" % value, one(metadata=[("general.alignment", 4, value)]), "'general.alignment' must be a power of 2"
    yield "alignment as text", one(metadata=[("general.alignment", 10, 32)]), "'general.alignment' must be a power of 2"
    yield "5 dimensions", one((1, 1, 1, 1, 4)), "tensor 'w' has 5 dimensions"
    yield "2^32-1 dimensions", gguf([], counts=(1, 0), align=1) + gguf_text("w") + struct.pack("<I", 2**32 - 1) + bytes(64), "tensor 'w' has 4294967295 dimensions"
    yield "a size of 2^63", one((1 << 63,)), "the shape of tensor 'w' overflows"
    yield "sizes overflow", one((1 << 32, 1 << 32)), "the shape of tensor 'w' overflows"
    yield "beyond the end", one((9,)), "the file is cut: it ends after byte"
    yield "far beyond the end", one((1 << 50,)), "the file is cut: it ends after byte"
    yield "half a block", one((48,), 2, bytes(36)), "tensor 'w' has rows of 48 elements, but q4_0 has blocks of 32"
    yield "no dimension, blocks", one((), 2, bytes(32)), "tensor 'w' has rows of 1 elements"
    yield "a type that is not decoded", one((256,), 16, bytes(66)), "tensor 'w' is quantized as iq2_xxs"
    yield "a type that is none", one(kind=77), "tensor 'w' is of type 77 of GGUF"
    yield "a type of 2^32-1", one(kind=2**32 - 1), "tensor 'w' is of type 4294967295"
    yield "an offset that is odd", one((4,), 0, FLOATS, 4), "tensor 'w' is at byte 4 of the data"
    yield "an offset of 2^64-32", one((4,), 0, FLOATS, 2**64 - 32), "tensor 'w' is at byte 18446744073709551584"
    yield "two in one place", gguf([("v", (4,), 0, FLOATS), ("w", (4,), 0, FLOATS, 0)]), "tensor 'w' is at byte 0 of the data"
    yield "bytes behind the tensors", one(tail=bytes(64)), "64 bytes at the end of the file belong to no tensor"


GROUPS = {
    "gadget": gadgets, "call": ways_to_call, "pickle": pickles, "much": much, "tensor": tensors, "zip header": zip_headers, "zip name": zip_names,
    "zip directory": zip_directory, "zip64": zip64, "bomb": bombs, "legacy": legacy_files, "safetensors": safetensors_files,
    "npy": npy_files, "gguf": gguf_files,
}


def all_attacks():
    """(group, name, bytes, said) of them all."""
    for group, cases in GROUPS.items():
        for name, data, said in cases():
            yield group, name, data, said
