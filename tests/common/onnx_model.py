"""onnx_model.py - read a model of ONNX and compute it with PyTorch's functions: the operators that gtrain writes.

Debian has no onnxruntime, and its onnx computes nothing. Formulas and defaults are those of onnx.ai/onnx/operators for opset 20. Every shape is
the one that an operator makes, so that a model of a wrong shape fails.
"""
import os
import struct
import subprocess

import numpy as np
import torch
import torch.nn.functional as F

DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 5: np.int16, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}


# ---- the file ----

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """The fields of a message: lists of values by number."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = varint(data, at)
            value -= (value >> 63) << 64
        elif wire == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, "a message is cut off"
        else:
            assert wire == 5, wire
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        found.setdefault(key >> 3, []).append(value)
    return found


def text(found, number):
    return str(found[number][0], "utf-8") if number in found else ""


def tensor(data):
    t = fields(data)
    dtype, shape = DTYPES[t[2][0]], t.get(1, [])
    array = np.frombuffer(t[9][0], dtype).reshape(shape)
    return text(t, 8), torch.from_numpy(array.copy())


def attribute(data):
    a = fields(data)
    kind = a[20][0]
    return text(a, 1), {1: lambda: a[2][0], 2: lambda: a[3][0], 3: lambda: text(a, 4), 7: lambda: a.get(8, [])}[kind]()


class Node:
    def __init__(self, data):
        n = fields(data)
        self.inputs, self.outputs = ([str(x, "utf-8") for x in n.get(i, [])] for i in (1, 2))
        self.name, self.op, self.attributes = text(n, 3), text(n, 4), dict(attribute(a) for a in n.get(5, []))


def value_info(data):
    """The name, the type and the sizes of an input or output."""
    v = fields(data)
    t = fields(fields(v[2][0])[1][0])
    dims = [fields(d) for d in fields(t[2][0]).get(1, [])]
    return text(v, 1), t[1][0], [d[1][0] if 1 in d else text(d, 2) for d in dims]


class Model:
    def __init__(self, path):
        with open(path, "rb") as f:
            model = fields(memoryview(f.read()))
        graph = fields(model[7][0])
        self.ir, self.producer = model[1][0], text(model, 2)
        self.opset = {text(o, 1): o[2][0] for o in map(fields, model[8])}
        self.properties = {text(p, 1): text(p, 2) for p in map(fields, model.get(14, []))}
        self.initializers = dict(tensor(t) for t in graph.get(5, []))
        self.nodes = [Node(n) for n in graph.get(1, [])]
        self.inputs, self.outputs = ([value_info(v) for v in graph[i]] for i in (11, 12))
        assert len(self.initializers) == len(graph.get(5, [])), "a name is that of two initializers"

    def run(self, *inputs):
        """The output for the inputs, in their order. Each name is made once, and before it is read."""
        values = {"": None, **self.initializers, **{name: x for (name, *_), x in zip(self.inputs, inputs)}}
        for n in self.nodes:
            results = OPERATORS[n.op](*[values[i] for i in n.inputs], **n.attributes, outputs=len(n.outputs))
            for name, result in zip(n.outputs, results if isinstance(results, (tuple, list)) else [results]):
                assert name not in values, f"'{name}' is made twice"
                values[name] = result
        return values[self.outputs[0][0]]


# ---- the operators ----

OPERATORS = {}


def operator(name, plain=False):
    """Register a function of inputs and attributes; `plain`: it gets the inputs alone."""
    def register(f):
        OPERATORS[name] = (lambda *inputs, outputs, **attributes: f(*inputs)) if plain else (lambda *inputs, outputs, **attributes: f(*inputs, **attributes))
        return f
    return register


for name, function in {
        "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow, "MatMul": torch.matmul, "Max": torch.maximum,
        "Min": torch.minimum, "Relu": torch.relu, "Exp": torch.exp, "Log": torch.log, "Sqrt": torch.sqrt, "Reciprocal": torch.reciprocal,
        "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Erf": torch.erf, "Neg": torch.neg, "Abs": torch.abs, "Sign": torch.sign, "Floor": torch.floor,
        "Sin": torch.sin, "Cos": torch.cos, "Less": torch.lt, "LessOrEqual": torch.le, "Equal": torch.eq, "Not": torch.logical_not,
        "Where": torch.where, "HardSwish": F.hardswish, "Identity": torch.clone}.items():
    operator(name, plain=True)(function)


@operator("Gelu")
def gelu(x, approximate="none"):
    return F.gelu(x, approximate=approximate)


@operator("Clip", plain=True)
def clip(x, low=None, high=None):
    return x.clamp(-np.inf if low is None else float(low), np.inf if high is None else float(high))


@operator("HardSigmoid")
def hard_sigmoid(x, alpha, beta):
    return (alpha * x + beta).clamp(0, 1)


@operator("Gemm")
def gemm(a, b, c=None, transA=0, transB=0):
    y = (a.t() if transA else a) @ (b.t() if transB else b)
    return y if c is None else y + c


def begins_and_ends(x, pads):
    """The arguments of F.pad for the pads of the last two dimensions."""
    return [pads[1], pads[3], pads[0], pads[2]]


@operator("Conv")
def conv(x, w, b=None, kernel_shape=None, strides=(1, 1), dilations=(1, 1), pads=(0, 0, 0, 0), group=1):
    assert list(w.shape[2:]) == list(kernel_shape)
    return F.conv2d(F.pad(x, begins_and_ends(x, pads)), w, b, strides, 0, dilations, group)


@operator("ConvTranspose")
def conv_transpose(x, w, kernel_shape, strides, dilations, pads, group, output_padding):
    assert pads[:2] == pads[2:]
    return F.conv_transpose2d(x, w, None, strides, pads[:2], output_padding, group, dilations)


@operator("MaxPool")
def max_pool(x, kernel_shape, strides, pads, dilations):
    return F.max_pool2d(F.pad(x, begins_and_ends(x, pads), value=-np.inf), kernel_shape, strides, 0, dilations)


@operator("AveragePool")
def average_pool(x, kernel_shape, strides, pads, dilations, count_include_pad):
    assert dilations == [1, 1]
    counts = F.pad(torch.ones_like(x), begins_and_ends(x, pads), value=float(count_include_pad))
    return F.avg_pool2d(F.pad(x, begins_and_ends(x, pads)), kernel_shape, strides) / F.avg_pool2d(counts, kernel_shape, strides)


@operator("BatchNormalization")
def batch_norm(x, scale, bias, mean, var, epsilon):
    return F.batch_norm(x, mean, var, scale, bias, False, 0.0, epsilon)


@operator("LayerNormalization")
def layer_norm(x, scale, bias=None, axis=-1, epsilon=1e-5):
    assert axis == -1
    return F.layer_norm(x, x.shape[-1:], scale, bias, epsilon)


@operator("Softmax")
def softmax(x, axis):
    return F.softmax(x, axis)


@operator("LogSoftmax")
def log_softmax(x, axis):
    return F.log_softmax(x, axis)


@operator("ReduceSum")
def reduce_sum(x, axes, keepdims=1):
    return x.sum(axes.tolist(), keepdim=bool(keepdims))


@operator("ReduceMean")
def reduce_mean(x, axes, keepdims=1):
    return x.mean(axes.tolist(), keepdim=bool(keepdims))


@operator("ReduceMax")
def reduce_max(x, axes, keepdims=1):
    return x.amax(axes.tolist(), keepdim=bool(keepdims))


@operator("Reshape")
def reshape(x, shape):
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape.tolist())])


@operator("Transpose")
def transpose(x, perm):
    return x.permute(perm)


@operator("Expand")
def expand(x, shape):
    return x * torch.ones(shape.tolist(), dtype=x.dtype) if x.dtype != torch.bool else x.expand(torch.broadcast_shapes(x.shape, shape.tolist()))


@operator("Concat")
def concat(*parts, axis):
    return torch.cat(parts, axis)


@operator("Split")
def split(x, sizes, axis):
    return x.split(sizes.tolist(), axis)


@operator("Slice")
def slice_axes(x, starts, ends, axes=None, steps=None):
    axes = range(len(starts)) if axes is None else axes.tolist()
    for axis, start, end, step in zip(axes, starts.tolist(), ends.tolist(), [1] * len(starts) if steps is None else steps.tolist()):
        last = None if end <= -2**62 else end
        x = x.index_select(axis, torch.arange(x.shape[axis])[np.arange(x.shape[axis])[start:last:step].copy()])
    return x


@operator("Pad", plain=True)
def pad(x, pads):
    half = len(pads) // 2
    return F.pad(x, [int(n) for i in reversed(range(half)) for n in (pads[i], pads[half + i])])


@operator("Unsqueeze", plain=True)
def unsqueeze(x, axes):
    return x.unsqueeze(int(axes))


@operator("Squeeze", plain=True)
def squeeze(x, axes):
    assert x.shape[int(axes)] == 1
    return x.squeeze(int(axes))


@operator("Gather", plain=True)
def gather(x, indices):
    return x[indices]


@operator("Cast")
def cast(x, to):
    return x.to(torch.from_numpy(np.zeros(0, DTYPES[to])).dtype)


@operator("Shape")
def shape_of(x, start, end):
    return torch.tensor(x.shape[start:end])


@operator("Range", plain=True)
def range_of(start, end, step):
    return torch.arange(int(start), int(end), int(step))


@operator("Resize")
def resize(x, roi, scales, sizes=None, mode=None, coordinate_transformation_mode=None, nearest_mode=None, axes=None):
    assert axes == [2, 3] and nearest_mode == "floor"
    scales = None if scales is None else scales.tolist()
    sizes = [int(n * s) for n, s in zip(x.shape[2:], scales)] if sizes is None else sizes.tolist()
    for axis, (size, n) in enumerate(zip(sizes, x.shape[2:])):
        ratio = n / size if scales is None else 1 / scales[axis]
        at = {"asymmetric": lambda i: i * ratio, "half_pixel": lambda i: (i + 0.5) * ratio - 0.5,
              "align_corners": lambda i: i * (n - 1) / max(size - 1, 1)}[coordinate_transformation_mode](torch.arange(size, dtype=torch.float64))
        at = at.clamp(0, n - 1)
        low = at.floor().long()
        part = (at - low).to(x.dtype).reshape([-1] + [1] * (1 - axis)) if mode == "linear" else 0
        x = x.index_select(2 + axis, low) * (1 - part) + x.index_select(2 + axis, (low + 1).clamp(max=n - 1)) * part
    return x


def recurrent(x, w, r, b, h, c, hidden_size, direction, gates, step):
    """One direction over [T, B, I]; `step` makes the states of one step from the products with w and with r."""
    count, batch, _ = x.shape
    b = torch.zeros(1, 2 * gates * hidden_size) if b is None else b
    wb, rb = b[0].chunk(2)
    h, c = (torch.zeros(batch, hidden_size) if s is None else s[0] for s in (h, c))
    steps, y = range(count) if direction == "forward" else reversed(range(count)), [None] * count
    for t in steps:
        h, c = step((x[t] @ w[0].t() + wb).chunk(gates, 1), (h @ r[0].t() + rb).chunk(gates, 1), h, c)
        y[t] = h
    return torch.stack(y).unsqueeze(1), h.unsqueeze(0), c.unsqueeze(0)


@operator("LSTM")
def lstm(x, w, r, b=None, lens=None, h=None, c=None, hidden_size=0, direction="forward"):
    def step(a, d, h, c):
        i, o, f = (torch.sigmoid(p + q) for p, q in zip(a[:3], d[:3]))
        c = f * c + i * torch.tanh(a[3] + d[3])
        return o * torch.tanh(c), c
    return recurrent(x, w, r, b, h, c, hidden_size, direction, 4, step)


@operator("GRU")
def gru(x, w, r, b=None, lens=None, h=None, hidden_size=0, direction="forward", linear_before_reset=0):
    assert linear_before_reset == 1

    def step(a, d, h, c):
        z, reset = (torch.sigmoid(p + q) for p, q in zip(a[:2], d[:2]))
        return (1 - z) * torch.tanh(a[2] + reset * d[2]) + z * h, c
    return recurrent(x, w, r, b, h, None, hidden_size, direction, 3, step)[:2]


# ---- beside gtrain ----

def apart_from_gtrain(model, path, run, batch, block):
    """How far the model's output is from that of gtrain's evaluation (forward_dump), relative to the largest element. `path` is for its file."""
    program = os.path.join(os.environ.get("GTRAIN_TESTS", "build/tests"), "forward_dump")
    done = subprocess.run([program, path, run, str(batch), str(block)], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(done.stderr or f"forward_dump ended with status {done.returncode}")
    d = torch.load(path)
    x = d["input"].long() if d["input"].dtype == torch.int32 else d["input"]
    y = model.run(x)
    assert y.shape == d["output"].shape, (y.shape, d["output"].shape)
    return float((y - d["output"]).abs().max() / d["output"].abs().max().clamp(min=1e-6))
