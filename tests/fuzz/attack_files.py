# attack_files.py - for attacks.py: checkpoints taken apart, so that each part can lie.
import copy
import io
import struct
import zlib


# ---- pickles ----

def number(n):
    """An int of any size, as LONG1."""
    data = n.to_bytes((n.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return b"X" + struct.pack("<I", len(s)) + s


def tuple_of(*parts):
    return b"(" + b"".join(parts) + b"t"


def numbers(values):
    return tuple_of(*map(number, values))


def glob(name):
    module, _, name = name.rpartition(".")
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def call(name, *args):
    return glob(name) + tuple_of(*args) + b"R"


def dict_of(*pairs):
    return b"}(" + b"".join(text(k) + v for k, v in pairs) + b"u"


def storage(kind="FloatStorage", key="0", place="cpu", numel=4, tail=b""):
    return tuple_of(text("storage"), glob("torch." + kind), text(key), text(place), number(numel), tail) + b"Q"


def tensor(size=(4,), stride=(1,), offset=0, of=None, function="torch._utils._rebuild_tensor_v2"):
    return call(function, of or storage(), number(offset), numbers(size), numbers(stride), b"\x89",
                call("collections.OrderedDict"))


def pickled(*parts):
    return b"\x80\2" + b"".join(parts) + b"."


GOOD = pickled(dict_of(("w", tensor())))
FLOATS = struct.pack("<4f", 1, 2, 3, 4)


# ---- zip archives ----

class Record:
    """One record; `local` and `central` replace fields of the two headers: name, flags, method, crc, packed, size, extra."""

    def __init__(self, name, data, method=0, local=None, central=None, header=None, packed=None, **both):
        self.data = data
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
        self.packed = packed if packed is not None else \
            deflate.compress(data) + deflate.flush() if method == 8 else data
        fields = {"name": name.encode() if isinstance(name, str) else name, "flags": 0, "method": method,
                  "crc": zlib.crc32(data), "packed": len(self.packed), "size": len(data), "extra": b"", **both}
        self.local, self.central = {**fields, **(local or {})}, {**fields, **(central or {})}
        self.header = header

    def common(self, f):
        return struct.pack("<HHHHHIIIHH", 45, f["flags"], f["method"], 0, 33, f["crc"], f["packed"], f["size"],
                           len(f["name"]), len(f["extra"]))

    def put(self, out):
        if self.header is None:
            self.header = out.tell()
            out.write(b"PK\3\4" + self.common(self.local) + self.local["name"] + self.local["extra"] + self.packed)

    def entry(self):
        f = self.central
        return (b"PK\1\2\x2d\0" + self.common(f) + struct.pack("<HHHII", 0, f.get("disk", 0), 0, 0, self.header) +
                f["name"] + f["extra"])


def end_record(count, size, offset, comment=b"", disk=0, here=None):
    return b"PK\5\6" + struct.pack("<HHHHIIH", disk, disk, count if here is None else here, count, size, offset,
                                   len(comment)) + comment


def end64_record(at, count, size, offset, length=44):
    return (b"PK\6\6" + struct.pack("<QHHIIQQQQ", length, 45, 45, 0, 0, count, count, size, offset) +
            b"PK\6\7" + struct.pack("<IQI", 0, at, 1))


def archive(records, end=None, end64=None, gap=b"", before_end=b"", comment=b"", tail=b""):
    """`end`, `end64`: functions of (place, count, size, offset) that give the end records."""
    out = io.BytesIO()
    records = [copy.copy(r) for r in records]
    for r in records:
        r.put(out)
    out.write(gap)
    offset = out.tell()
    out.write(b"".join(r.entry() for r in records))
    args = (len(records), out.tell() - offset, offset)
    if end64:
        out.write(end64(out.tell(), *args))
    out.write(before_end)
    out.write(end(out.tell(), *args) if end else end_record(*args, comment))
    return out.getvalue() + tail


def records(pickle=GOOD, data=FLOATS, root="archive", **of_data):
    return [Record(root + "/data.pkl", pickle), Record(root + "/data/0", data, **of_data)]


def torch_zip(pickle=GOOD, data=FLOATS, **of_data):
    return archive(records(pickle, data, **of_data))


# ---- legacy files ----

LEGACY_HEAD = b"\x80\2\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\2M\xe9\3."


def legacy(pickle=GOOD, keys=("0",), storages=((4, FLOATS),), system=None, listed=None):
    system = system or pickled(dict_of(("little_endian", b"\x88")))
    listed = listed or pickled(b"](" + b"".join(map(text, keys)) + b"e")
    return LEGACY_HEAD + system + pickle + listed + b"".join(struct.pack("<q", n) + data for n, data in storages)


# ---- safetensors, npy ----

def safetensors(header, data=b"", length=None):
    header = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def entry(name="w", dtype="F32", shape="[4]", offsets="[0,16]"):
    return '"%s":{"dtype":"%s","shape":%s,"data_offsets":%s}' % (name, dtype, shape, offsets)


def npy(header, data=b"", length=None, version=1):
    header = header.encode() + b"\n"
    size = len(header) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", size) + header + data


# ---- GGUF ----

def gguf_text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(s)) + s


def gguf_value(kind, data):
    """An entry's type and value; kind 8: a text, 9: (kind, values)."""
    formats = "BbHhIif?  Qqd"
    if kind == 9:
        of, values = data
        return struct.pack("<IIQ", 9, of, len(values)) + b"".join(gguf_value(of, v)[4:] for v in values)
    return struct.pack("<I", kind) + (gguf_text(data) if kind == 8 else struct.pack("<" + formats[kind], data))


def gguf(tensors, metadata=(), version=3, counts=None, align=32, magic=b"GGUF", tail=b""):
    """(name, sizes with the fastest first, type, bytes) or with an offset behind them; (key, kind, value) or (key, bytes)."""
    head, data = b"", b""
    for entry in metadata:
        head += gguf_text(entry[0]) + (entry[1] if len(entry) == 2 else gguf_value(*entry[1:]))
    for name, sizes, kind, content, *offset in tensors:
        head += gguf_text(name) + struct.pack("<I%dQIQ" % len(sizes), len(sizes), *sizes, kind, *(offset or [len(data)]))
        data += content + bytes(-len(content) % align)
    head = magic + struct.pack("<IQQ", version, *(counts or (len(tensors), len(metadata)))) + head
    return head + bytes(-len(head) % align) + data + tail
