"""onnx_made.py - write small models of ONNX, right and wrong ones: the encoding of protocol buffers by hand."""
import struct

FLOAT, INT64 = 1, 7


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out, n = out + bytes((n & 127 | 128,)), n >> 7
    return out + bytes((n,))


def field(number, value):
    """A field: an integer, a float, a text, or bytes (a message)."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, shape, numbers, kind=FLOAT, more=b"", raw=None):
    form = "<%d" % len(numbers) + {FLOAT: "f", INT64: "q"}[kind]
    data = struct.pack(form, *numbers) if raw is None else raw
    return b"".join(field(1, n) for n in shape) + field(2, kind) + field(8, name) + (field(9, data) if raw != b"" else b"") + more


def external(name, shape, location, offset=0, length=None):
    """A tensor whose elements are in another file."""
    pairs = {"location": location, "offset": str(offset), **({} if length is None else {"length": str(length)})}
    return tensor(name, shape, [], raw=b"", more=b"".join(field(13, field(1, k) + field(2, v)) for k, v in pairs.items()) + field(14, 1))


def attribute(name, value):
    if isinstance(value, list):
        return field(1, name) + b"".join(field(8, v) for v in value) + field(20, 7)
    number, kind = {int: (3, 2), float: (2, 1), str: (4, 3), bytes: (5, 4)}[type(value)]
    return field(1, name) + field(number, value) + field(20, kind)


def node(op, inputs, outputs, name="", domain="", **attributes):
    return b"".join([*(field(1, i) for i in inputs), *(field(2, o) for o in outputs), field(3, name or f"the {op}"), field(4, op),
                     *(field(5, attribute(k, v)) for k, v in attributes.items()), field(7, domain) if domain else b""])


def value(name, shape, kind=FLOAT):
    dims = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in shape)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, dims)))


def model(nodes, tensors=(), inputs=(("x", ["batch", 4], FLOAT),), outputs=(("y", ["batch", 3], FLOAT),), opset=20, more=b"", graph_more=b""):
    graph = b"".join([*(field(1, n) for n in nodes), field(2, "net"), *(field(5, t) for t in tensors), *(field(11, value(*v)) for v in inputs),
                      *(field(12, value(*v)) for v in outputs), graph_more])
    return field(1, 10) + field(2, "test") + field(8, field(1, "") + field(2, opset)) + more + field(7, graph)


LINEAR = [tensor("fc.weight", (3, 4), [0.01 * i for i in range(12)]), tensor("fc.bias", (3,), [0, 0.1, 0.2])]
GEMM = node("Gemm", ["x", "fc.weight", "fc.bias"], ["y"], transB=1)


def linear(**options):
    return model([GEMM], LINEAR, **options)
