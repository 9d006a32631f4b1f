"""exported.py - archives as torch.export.save() writes them, made without it: by torch.fx, for a few modules and functions.

Debian's PyTorch has no torch.export.save(). `save(module, example, path)` writes what PyTorch 2.15 would write for the module: the
same records, keys, names and nodes. Options make archives that are older, decomposed, of a fixed batch, or wrong.
"""
import io
import json
import operator
import os
import zipfile

import torch
import torch.fx
import torch.nn as nn
import torch.nn.functional as F

DTYPES = {torch.uint8: 1, torch.int32: 4, torch.int64: 5, torch.float16: 6, torch.float32: 7, torch.float64: 8, torch.bool: 12}
BATCH = "Symbol('s77', positive=True, integer=True)"


def _pair(value):
    return [value, value] if isinstance(value, int) else list(value)


def _linear(m):
    return "linear.default", {"weight": "weight", "bias": "bias"}, {}


def rms_norm(x, shape, weight=None, eps=None):
    """torch.nn.functional.rms_norm, which Debian's PyTorch lacks; eps is that of float32, in which networks are exported."""
    dims = tuple(range(-len(shape), 0))
    y = x * torch.rsqrt(torch.mean(x * x, dims, True) + (torch.finfo(torch.float32).eps if eps is None else eps))
    return y if weight is None else y * weight


def channel_shuffle(x, groups):
    """torch.channel_shuffle(), which has no gradient in Debian's PyTorch."""
    return torch.flatten(torch.transpose(torch.unflatten(x, 1, [groups, -1]), 1, 2), 1, 2)


torch.fx.wrap("rms_norm")
torch.fx.wrap("channel_shuffle")


def _padding(m):
    return m.padding if isinstance(m.padding, str) else list(m.padding)


def _conv1d(m):
    overload = "padding" if isinstance(m.padding, str) else "default"
    return f"conv1d.{overload}", {"weight": "weight", "bias": "bias"}, {"stride": list(m.stride), "padding": _padding(m), "dilation": list(m.dilation), "groups": m.groups}


def _conv2d(m):
    extra = {}
    if isinstance(m.padding, str):
        return "conv2d.padding", {"weight": "weight", "bias": "bias"}, {"stride": _pair(m.stride), "padding": m.padding, "dilation": _pair(m.dilation)}
    if _pair(m.stride) != [1, 1]:
        extra["stride"] = _pair(m.stride)
    if _pair(m.padding) != [0, 0] or _pair(m.dilation) != [1, 1] or m.groups > 1:
        extra["stride"] = _pair(m.stride)
        extra["padding"] = _pair(m.padding)
    if _pair(m.dilation) != [1, 1] or m.groups > 1:
        extra["dilation"] = _pair(m.dilation)
    if m.groups > 1:
        extra["groups"] = m.groups
    return "conv2d.default", {"weight": "weight", "bias": "bias"}, extra


def _batch_norm(m):
    names = {"weight": "weight", "bias": "bias", "running_mean": "running_mean", "running_var": "running_var"}
    training = m.training or m.running_mean is None
    return "batch_norm.default", names, {"training": training, "momentum": m.momentum, "eps": m.eps, "cudnn_enabled": True}


def _instance_norm(m):
    return "instance_norm.default", {"weight": "weight", "bias": "bias"}, {"use_input_stats": True, "momentum": m.momentum, "eps": m.eps, "cudnn_enabled": True}


def _upsample(m):
    kind, images = m.mode.replace("bilinear", "linear"), m.mode == "bilinear" or isinstance(m.scale_factor, tuple) or isinstance(m.size, tuple)
    factors = m.scale_factor if isinstance(m.scale_factor, (tuple, type(None))) else [m.scale_factor] * (1 + images)
    extra = {} if m.size is None else {"output_size": list(m.size) if images else [m.size]}
    if kind == "linear":
        extra["align_corners"] = bool(m.align_corners)
    if factors is not None:
        extra["scale_factors"] = [float(f) for f in factors]
    return f"upsample_{m.mode}{2 if images else 1}d.vec", {}, extra


def _layer_norm(m):
    return "layer_norm.default", {"weight": "weight", "bias": "bias"}, {"normalized_shape": list(m.normalized_shape), "eps": m.eps}


# module: the function that it calls, the arguments that are its own tensors, and others
MODULES = {
    nn.Linear: _linear,
    nn.Conv2d: _conv2d,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.LayerNorm: _layer_norm,
    nn.GroupNorm: lambda m: ("group_norm.default", {"weight": "weight", "bias": "bias"}, {"num_groups": m.num_groups, "eps": m.eps}),
    nn.BatchNorm3d: _batch_norm,
    nn.InstanceNorm1d: _instance_norm,
    nn.InstanceNorm2d: _instance_norm,
    nn.Conv1d: _conv1d,
    nn.ConvTranspose1d: lambda m: ("conv_transpose1d.default", {"weight": "weight", "bias": "bias"}, {
        "stride": list(m.stride), "padding": list(m.padding), "output_padding": list(m.output_padding)}),
    nn.Upsample: _upsample,
    nn.AdaptiveMaxPool1d: lambda m: ("adaptive_max_pool1d.default", {}, {"output_size": [m.output_size]}),
    nn.AdaptiveMaxPool2d: lambda m: ("adaptive_max_pool2d.default", {}, {"output_size": _pair(m.output_size)}),
    nn.PixelShuffle: lambda m: ("pixel_shuffle.default", {}, {"upscale_factor": m.upscale_factor}),
    nn.PixelUnshuffle: lambda m: ("pixel_unshuffle.default", {}, {"downscale_factor": m.downscale_factor}),
    nn.PReLU: lambda m: ("prelu.default", {"weight": "weight"}, {}),
    nn.GLU: lambda m: ("glu.default", {}, {"dim": m.dim}),
    nn.SELU: lambda m: ("selu.default", {}, {}),
    nn.CELU: lambda m: ("celu.default", {}, {"alpha": m.alpha}),
    nn.LogSigmoid: lambda m: ("log_sigmoid.default", {}, {}),
    nn.Hardshrink: lambda m: ("hardshrink.default", {}, {"lambd": m.lambd}),
    nn.Softshrink: lambda m: ("softshrink.default", {}, {"lambd": m.lambd}),
    nn.Threshold: lambda m: ("threshold.default", {}, {"threshold": m.threshold, "value": m.value}),
    nn.Dropout2d: lambda m: ("feature_dropout.default", {}, {"p": m.p, "train": m.training}),
    nn.ConvTranspose2d: lambda m: ("conv_transpose2d.input", {"weight": "weight", "bias": "bias"}, {"stride": _pair(m.stride)}),
    nn.MaxPool1d: lambda m: ("max_pool1d.default", {}, {"kernel_size": [m.kernel_size], "stride": [m.stride]}),
    nn.AdaptiveAvgPool1d: lambda m: ("adaptive_avg_pool1d.default", {}, {"output_size": [m.output_size]}),
    nn.ReLU: lambda m: ("relu_.default" if m.inplace else "relu.default", {}, {}),
    nn.GELU: lambda m: ("gelu.default", {}, {} if m.approximate == "none" else {"approximate": m.approximate}),
    nn.Dropout: lambda m: ("dropout.default", {}, {"p": m.p, "train": m.training}),
    nn.MaxPool2d: lambda m: ("max_pool2d.default", {}, {"kernel_size": _pair(m.kernel_size), "stride": _pair(m.stride), "padding": _pair(m.padding)}),
    nn.AvgPool2d: lambda m: ("avg_pool2d.default", {}, {"kernel_size": _pair(m.kernel_size), "stride": _pair(m.stride)}),
    nn.AdaptiveAvgPool2d: lambda m: ("adaptive_avg_pool2d.default", {}, {"output_size": _pair(m.output_size)}),
    nn.Flatten: lambda m: ("flatten.using_ints", {}, {"start_dim": m.start_dim}),
    nn.Embedding: lambda m: ("embedding.default", {"weight": "weight"}, {} if m.padding_idx is None else {"padding_idx": m.padding_idx}),
    nn.Tanh: lambda m: ("tanh.default", {}, {}),
}
# the argument for the module's input, where it is not "input"
FIRST = {"relu.default": "self", "relu_.default": "self", "gelu.default": "self", "max_pool2d.default": "self", "avg_pool2d.default": "self",
         "adaptive_avg_pool2d.default": "self", "flatten.using_ints": "self", "embedding.default": "indices", "tanh.default": "self", "max_pool1d.default": "self", "adaptive_avg_pool1d.default": "self"}
FIRST.update((f"{name}.default", "self") for name in (
    "adaptive_max_pool1d", "adaptive_max_pool2d", "pixel_shuffle", "pixel_unshuffle", "prelu", "glu", "selu", "celu",
    "log_sigmoid", "hardshrink", "softshrink", "threshold"))


@torch.fx.wrap
def attention(q, k, v, mask=None):
    """F.scaled_dot_product_attention of PyTorch 2."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1) @ v


@torch.fx.wrap
def rest(x, dim, start):
    """x[start:] along a dimension, which may be empty."""
    return x.narrow(dim, min(start, x.shape[dim]), max(0, x.shape[dim] - start))


@torch.fx.wrap
def spread(x, like):
    return x.expand_as(like)


@torch.fx.wrap
def grouped_mm(x, w, ends):
    """torch.nn.functional.grouped_mm, which Debian's PyTorch lacks."""
    limits = [0, *ends.tolist()]
    return torch.cat([x[a:b] @ m for a, b, m in zip(limits, limits[1:], w)])


@torch.fx.wrap
def arange_along(x, dim):
    """0, 1, ... for each element along a dimension; in the file, a range up to the size of the input."""
    return torch.arange(x.shape[dim])


# function or method: the function of aten, the names of its arguments
FUNCTIONS = {
    operator.add: ("add.Tensor", ["self", "other"]),
    operator.iadd: ("add_.Tensor", ["self", "other"]),
    torch.relu: ("relu.default", ["self"]),
    F.relu: ("relu.default", ["self"]),
    F.linear: ("linear.default", ["input", "weight", "bias"]),
    F.conv2d: ("conv2d.default", ["input", "weight", "bias", "stride", "padding"]),
    F.batch_norm: ("batch_norm.default", ["input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"]),
    channel_shuffle: ("channel_shuffle.default", ["self", "groups"]),
    rms_norm: ("rms_norm.default", ["input", "normalized_shape", "weight", "eps"]),
    operator.neg: ("neg.default", ["self"]),
    torch.flatten: ("flatten.using_ints", ["self", "start_dim"]),
    operator.mul: ("mul.Tensor", ["self", "other"]),
    operator.sub: ("sub.Tensor", ["self", "other"]),
    operator.truediv: ("div.Tensor", ["self", "other"]),
    operator.pow: ("pow.Tensor_Scalar", ["self", "exponent"]),
    torch.sigmoid: ("sigmoid.default", ["self"]),
    torch.tanh: ("tanh.default", ["self"]),
    torch.exp: ("exp.default", ["self"]),
    torch.rsqrt: ("rsqrt.default", ["self"]),
    torch.clamp: ("clamp.default", ["self", "min", "max"]),
    F.silu: ("silu.default", ["self"]),
    F.hardswish: ("hardswish.default", ["self"]),
    F.hardsigmoid: ("hardsigmoid.default", ["self"]),
    F.hardtanh: ("hardtanh.default", ["self", "min_val", "max_val"]),
    F.elu: ("elu.default", ["self"]),
    F.leaky_relu: ("leaky_relu.default", ["self", "negative_slope"]),
    F.softplus: ("softplus.default", ["self"]),
    F.mish: ("mish.default", ["self"]),
    torch.addcmul: ("addcmul.default", ["self", "tensor1", "tensor2"]),
    torch.mean: ("mean.dim", ["self", "dim", "keepdim"]),
    torch.sum: ("sum.dim_IntList", ["self", "dim", "keepdim"]),
    torch.permute: ("permute.default", ["self", "dims"]),
    torch.transpose: ("transpose.int", ["self", "dim0", "dim1"]),
    torch.reshape: ("reshape.default", ["self", "shape"]),
    torch.unsqueeze: ("unsqueeze.default", ["self", "dim"]),
    torch.select: ("select.int", ["self", "dim", "index"]),
    torch.cat: ("cat.default", ["tensors", "dim"]),
    torch.stack: ("stack.default", ["tensors", "dim"]),
    torch.chunk: ("chunk.default", ["self", "chunks", "dim"]),
    torch.flip: ("flip.default", ["self", "dims"]),
    torch.roll: ("roll.default", ["self", "shifts", "dims"]),
    F.pad: ("pad.default", ["self", "pad"]),
    attention: ("scaled_dot_product_attention.default", ["query", "key", "value", "attn_mask"]),
    spread: ("expand_as.default", ["self", "other"]),
    torch.ne: ("ne.Scalar", ["self", "other"]),
    torch.gather: ("gather.default", ["self", "dim", "index"]),
    "to": ("to.dtype", ["self", "dtype"]),
    rest: ("slice.Tensor", ["self", "dim", "start"]),
    operator.getitem: ("", []),
    operator.and_: ("__and__.Tensor", ["self", "other"]),
    torch.cumsum: ("cumsum.default", ["self", "dim"]),
    torch.ge: ("ge.Tensor", ["self", "other"]),
    torch.lt: ("lt.Scalar", ["self", "other"]),
    torch.sin: ("sin.default", ["self"]),
    torch.cos: ("cos.default", ["self"]),
    torch.where: ("where.self", ["condition", "self", "other"]),
    torch.masked_fill: ("masked_fill.Scalar", ["self", "mask", "value"]),
    torch.tril: ("tril.default", ["self"]),
    "new_ones": ("new_ones.default", ["self", "size"]),
    "new_zeros": ("new_zeros.default", ["self", "size"]),
    "new_empty": ("new_empty.default", ["self", "size"]),
    "fill_": ("fill_.Scalar", ["self", "value"]),
    "bernoulli_": ("bernoulli_.float", ["self", "p"]),
    "div_": ("div_.Tensor", ["self", "other"]),
    torch.softmax: ("softmax.int", ["self", "dim"]),
    torch.log_softmax: ("log_softmax.int", ["self", "dim"]),
    torch.matmul: ("matmul.default", ["self", "other"]),
    operator.matmul: ("matmul.default", ["self", "other"]),
    torch.bmm: ("bmm.default", ["self", "mat2"]),
    torch.baddbmm: ("baddbmm.default", ["self", "batch1", "batch2"]),
    torch.functional.einsum: ("einsum.default", ["equation", "tensors"]),
    F.cross_entropy: ("cross_entropy_loss.default", ["self", "target"]),
    F.nll_loss: ("nll_loss_nd.default", ["self", "target"]),
    F.mse_loss: ("mse_loss.default", ["self", "target"]),
    F.l1_loss: ("l1_loss.default", ["self", "target"]),
    F.smooth_l1_loss: ("smooth_l1_loss.default", ["self", "target"]),
    F.huber_loss: ("huber_loss.default", ["self", "target"]),
    F.kl_div: ("kl_div.default", ["self", "target"]),
    F.binary_cross_entropy: ("binary_cross_entropy.default", ["self", "target"]),
    F.binary_cross_entropy_with_logits: ("binary_cross_entropy_with_logits.default", ["self", "target"]),
    "relu_": ("relu_.default", ["self"]),
    "copy_": ("copy_.default", ["self", "src"]),
    torch.unflatten: ("unflatten.int", ["self", "dim", "sizes"]),
    "index_put_": ("index_put_.default", ["self", "indices", "values"]),
    torch.topk: ("topk.default", ["self", "k"]),
    torch.sort: ("sort.default", ["self"]),
    torch.argsort: ("argsort.default", ["self"]),
    torch.floor_divide: ("floor_divide.default", ["self", "other"]),
    torch.histc: ("histc.default", ["self", "bins", "min", "max"]),
    grouped_mm: ("transformers.grouped_mm_fallback.default", ["input", "weight", "offs"]),
    "contiguous": ("contiguous.default", ["self"]),
    "clone": ("clone.default", ["self"]),
}


REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def lower_loss(target, inputs):
    """The arguments that aten has in place of those of torch.nn.functional."""
    if "_loss" not in target and not target.startswith(("binary_cross_entropy", "kl_div")):
        return inputs
    inputs = {k: v for k, v in inputs.items() if k not in ("size_average", "reduce")}
    if "as_string" in inputs.get("reduction", {}):
        inputs["reduction"] = {"as_int": REDUCTIONS[inputs["reduction"]["as_string"]]}
    return inputs


class Exporter(torch.fx.Interpreter):
    """Runs the module's graph, and notes each call as a node of torch.export."""

    def __init__(self, module, batch):
        super().__init__(torch.fx.symbolic_trace(module))
        self.root, self.batch = module, batch
        self.nodes, self.values, self.names, self.taken = [], {}, {}, set()
        self.sizes = {}  # whole numbers that have names
        self.counters = {}  # of the batches of each batch norm: the node that has counted last
        self.modules = dict(module.named_modules())

    def size(self, n, first):
        return {"as_expr": {"expr_str": BATCH, "hint": {"as_int": n}}} if first and self.batch == "dynamic" else {"as_int": n}

    def describe(self, tensor, batched):
        return {"dtype": DTYPES[tensor.dtype], "sizes": [self.size(n, batched and i == 0) for i, n in enumerate(tensor.shape)],
                "requires_grad": bool(tensor.requires_grad), "device": {"type": "cpu", "index": None},
                "strides": [{"as_int": n} for n in tensor.stride()], "storage_offset": {"as_int": tensor.storage_offset()}, "layout": 7}

    def take_name(self, wish):
        name, n = wish, 0
        while name in self.taken:
            n += 1
            name = f"{wish}_{n}"
        self.taken.add(name)
        return name

    @staticmethod
    def argument(value):
        if isinstance(value, torch.fx.Node):
            raise TypeError(value)
        if value is None:
            return {"as_none": True}
        if isinstance(value, torch.dtype):
            return {"as_scalar_type": DTYPES[value]}
        if isinstance(value, str):
            return {"as_string": value}
        if isinstance(value, bool):
            return {"as_bool": value}
        if isinstance(value, int):
            return {"as_int": value}
        if isinstance(value, float):
            return {"as_float": value}
        return {"as_floats": list(value)} if value and isinstance(value[0], float) else {"as_ints": list(value)}

    def emit(self, target, inputs, result, path, wish):
        out = self.take_name(wish)
        kind = type(self.modules.get(path, self.root)).__name__
        self.nodes.append({
            "target": "torch.ops." + ("aten." if target.count(".") == 1 else "") + target,
            "inputs": [{"name": k, "arg": v, "kind": 1} for k, v in inputs.items()],
            "outputs": [{"as_tensor": {"name": out}}],
            "metadata": {"nn_module_stack": f"L__self__,,net.Net;L__self__{path},{path},net.{kind}",
                         "stack_trace": f'File "/home/me/net.py", line {len(self.nodes) + 1}, in forward\n    x = {path or target}(x)'},
            "is_hop_single_tensor_return": None, "name": out})
        self.values[out] = self.describe(result, True)
        return out

    def emit_list(self, target, inputs, results):
        first = self.emit(target, inputs, results[0], "", target.split(".")[0])
        names = [first] + [self.take_name(first) for _ in results[1:]]
        self.nodes[-1]["outputs"] = [{"as_tensors": [{"name": name} for name in names]}]
        return names

    def emit_pair(self, target, inputs, results):
        """A function with two outputs."""
        names = [self.emit(target, inputs, results[0], "", "getitem"), self.take_name("getitem")]
        self.nodes[-1]["outputs"] = [self.tensor(name) for name in names]
        self.values[names[1]] = self.describe(results[1], True)
        return names

    def tensor(self, name):
        return {"as_tensor": {"name": name}}

    def run_node(self, n):
        result = super().run_node(n)
        if n.op == "call_module":
            self.note_module(n, result)
        elif n.target is arange_along:
            self.names[n] = self.range(*n.args, result)
        elif n.op in ("call_function", "call_method"):
            target, names = FUNCTIONS[n.target]
            inputs = {}
            args = [n.args[0], n.args[1:]] if n.target is torch.functional.einsum else n.args
            if n.target is torch.where and not any(isinstance(v, torch.fx.Node) for v in args[1:]):
                target = "where.Scalar"
            for name, value in [*zip(names, args), *n.kwargs.items()]:
                if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.fx.Node):
                    inputs[name] = {"as_tensors": [{"name": self.names[v]} for v in value]}
                else:
                    inputs[name] = self.tensor(self.names[value]) if isinstance(value, torch.fx.Node) else self.argument(value)
            if n.target is operator.getitem and isinstance(n.args[1], (torch.fx.Node, tuple)):  # x[:, ids]
                indices = n.args[1] if isinstance(n.args[1], tuple) else (n.args[1],)
                listed = [self.tensor(self.names[i]) if isinstance(i, torch.fx.Node) else {"as_none": True} for i in indices]
                inputs = {"self": self.tensor(self.names[n.args[0]]), "indices": {"as_optional_tensors": listed}}
                self.names[n] = self.emit("index.Tensor", inputs, result, "", "index")
            elif n.target is operator.getitem:  # an element of a list, which has a name already
                self.names[n] = self.names[n.args[0]][n.args[1]]
            elif n.target in (torch.topk, torch.sort):
                self.names[n] = self.emit_pair(target, inputs, result)
            elif isinstance(result, (list, tuple)):
                self.names[n] = self.emit_list(target, inputs, result)
            else:
                if target.split("_loss")[0] in ("mse", "l1", "smooth_l1", "huber"):
                    self.broadcast(n, inputs)
                self.names[n] = self.emit(target, lower_loss(target, inputs), result, "", target.split(".")[0])
        elif n.op == "get_attr":
            self.names[n] = argument_name(self.root, n.target)
        elif n.op == "placeholder":
            self.names[n] = self.take_name(str(n.target))
        return result

    def range(self, x, dim, result):
        """Indices up to the size that an input has along a dimension."""
        name = f"sym_size_int_{dim}"
        self.sizes[name] = self.size(len(result), dim == 0)
        out = self.emit("arange.default", {"end": {"as_sym_int": {"as_name": name}}}, result, "", "arange")
        self.values[out]["sizes"] = [self.size(len(result), dim == 0)]
        return out

    def broadcast(self, n, inputs):
        """These losses broadcast their arguments first."""
        both = torch.broadcast_tensors(*(self.env[v] for v in n.args[:2]))
        names = [self.names[v] for v in n.args[:2]]
        names = self.emit_list("broadcast_tensors.default", {"tensors": {"as_tensors": [{"name": v} for v in names]}}, both)
        for value, name, argument in zip(both, names, ("self", "target")):
            self.values[name] = self.describe(value, True)
            inputs[argument] = self.tensor(name)

    def zeros(self, tensor, path):
        """A node for the initial states of a recurrent network, [layers, batch, features]."""
        sizes = [{"as_int": size} for size in tensor.shape]
        if self.batch == "dynamic":
            self.sizes["sym_size_int"] = {"as_expr": {"expr_str": BATCH, "hint": {"as_int": tensor.shape[1]}}}
            sizes[1] = {"as_name": "sym_size_int"}
        size = {"as_sym_ints": sizes} if self.batch == "dynamic" else {"as_ints": list(tensor.shape)}
        name = self.emit("zeros.default", {"size": size, "dtype": {"as_scalar_type": DTYPES[tensor.dtype]}}, tensor, path, "zeros")
        self.values[name]["sizes"] = [self.size(k, i == 1) for i, k in enumerate(tensor.shape)]
        return name

    def note_recurrent(self, n, module, result):
        """An LSTM or GRU: its node has an output for each tensor, and its initial states are zeros if the call has none."""
        y, lstm = result[0], isinstance(module, nn.LSTM)
        states = result[1] if lstm else [result[1]]
        given = list(n.args[1]) if lstm and len(n.args) > 1 else n.args[1:]
        hx = [self.names[v] for v in given] or [self.zeros(v, n.target) for v in states]
        params = [{"name": argument_name(self.root, f"{n.target}.{k}")} for k in module._flat_weights_names]
        inputs = {"input": self.tensor(self.names[n.args[0]]), "hx": {"as_tensors": [{"name": v} for v in hx]} if lstm else self.tensor(hx[0]),
                  "params": {"as_tensors": params}, "has_biases": {"as_bool": module.bias}, "num_layers": {"as_int": module.num_layers},
                  "dropout": {"as_float": float(module.dropout)}, "train": {"as_bool": module.training},
                  "bidirectional": {"as_bool": module.bidirectional}, "batch_first": {"as_bool": module.batch_first}}
        names = [self.emit("lstm.input" if lstm else "gru.input", inputs, y, n.target, "getitem")] + [self.take_name("getitem") for _ in states]
        self.nodes[-1]["outputs"] = [self.tensor(name) for name in names]
        self.names[n] = [names[0], names[1:] if lstm else names[1]]

    def note_module(self, n, result):
        module = self.modules[n.target]
        if isinstance(module, nn.RNNBase):
            self.note_recurrent(n, module, result)
            return
        target, own, extra = MODULES[type(module)](module)
        inputs = {}
        if getattr(module, "num_batches_tracked", None) is not None and module.training:
            counter = self.counters.get(n.target, argument_name(self.root, f"{n.target}.num_batches_tracked"))
            self.counters[n.target] = self.emit("add_.Tensor", {"self": self.tensor(counter), "other": {"as_int": 1}}, module.num_batches_tracked, n.target, "add_")
        for argument, attribute in own.items():
            if getattr(module, attribute) is not None:
                inputs[argument] = self.tensor(argument_name(self.root, f"{n.target}.{attribute}"))
        first = {FIRST.get(target, "input"): self.tensor(self.names[n.args[0]])}
        inputs = {**inputs, **first} if target.startswith("embedding") else {**first, **inputs}
        inputs.update({k: self.argument(v) for k, v in extra.items()})
        self.names[n] = self.emit(target, inputs, result, n.target, target.split(".")[0])


def argument_name(module, name):
    """The name of a tensor in the graph; of tied ones, that of the last: all nodes read it."""
    tensor = dict(named(module))[name]
    names = [k for k, v in named(module) if v is tensor]
    kind = "p_" if isinstance(tensor, nn.Parameter) else "b_"
    return kind + names[-1].replace(".", "_")


def named(module):
    """All parameters, then all buffers, tied ones by each of their names."""
    parameters = [(f"{path}.{k}".lstrip("."), v) for path, m in module.named_modules() for k, v in m._parameters.items() if v is not None]
    buffers = [(f"{path}.{k}".lstrip("."), v) for path, m in module.named_modules() for k, v in m._buffers.items() if v is not None]
    return parameters + buffers


def out_spec(returned):
    """The text that names what forward() returns."""
    leaf = {"type": None, "context": None, "children_spec": []}
    if not isinstance(returned, dict):
        return json.dumps([1, leaf])
    children = [{**leaf, "type": "builtins.tuple"} if value == () else leaf for value in returned.values()]
    return json.dumps([1, {"type": "builtins.dict", "context": json.dumps(list(returned)), "children_spec": children}])


def document(module, example, batch="dynamic"):
    """The JSON of the network, as a dict; example: a tensor, or several for forward(); batch: "dynamic" or "fixed"."""
    examples = example if isinstance(example, tuple) else (example,)
    state = {k: v.clone() for k, v in module.state_dict().items()}
    exporter = Exporter(module, batch)
    with torch.no_grad():
        result = exporter.run(*examples)
    module.load_state_dict(state)  # running it has counted a batch
    specs, inputs = [], []
    for name, value in named(module):
        kind = "parameter" if isinstance(value, nn.Parameter) else "buffer"
        argument = ("p_" if kind == "parameter" else "b_") + name.replace(".", "_")
        specs.append({kind: {"arg": {"name": argument}, f"{kind}_name": name, **({"persistent": name in state} if kind == "buffer" else {})}})
        exporter.values[argument] = exporter.describe(value, False)
        inputs.append({"as_tensor": {"name": argument}})
    taken = [exporter.names[n] for n in exporter.module.graph.nodes if n.op == "placeholder"]
    for x, tensor in zip(taken, examples):
        exporter.values[x] = exporter.describe(tensor, True)
        specs.append({"user_input": {"arg": {"as_tensor": {"name": x}}}})
        inputs.append({"as_tensor": {"name": x}})
    returned = next(n.args[0] for n in exporter.module.graph.nodes if n.op == "output")
    signature = {"out_spec": out_spec(returned)}
    returned = [v for v in returned.values() if v != ()] if isinstance(returned, dict) else returned if isinstance(returned, (tuple, list)) else [returned]
    outputs = [{"user_output": {"arg": {"as_tensor": {"name": exporter.names[n]}}}} for n in returned]
    del result
    return {"graph_module": {"module_call_graph": [{"fqn": "", "signature": signature}], "graph": {"inputs": inputs, "outputs": [list(o.values())[0]["arg"] for o in outputs], "nodes": exporter.nodes,
                                       "tensor_values": exporter.values, "sym_int_values": exporter.sizes, "sym_bool_values": {},
                                       "is_single_tensor_return": False},
                             "signature": {"input_specs": specs, "output_specs": outputs}},
            "opset_version": {"aten": 10}, "range_constraints": {}, "schema_version": {"major": 8, "minor": 20},
            "verifiers": ["TRAINING"], "torch_version": "2.15.0", "guards_code": []}


def save(module, example, path, batch="dynamic", change=None, drop=()):
    """Write the archive. change(document) may make it wrong; `drop`: endings of records to leave out."""
    made = document(module, example, batch)
    if change:
        change(made)
    config, constants, records, seen = {}, {}, {}, {}
    for name, value in named(module):
        part, file = (config, "weights/weight") if name in module.state_dict() else (constants, "constants/tensor")
        storage = torch.tensor([], dtype=value.dtype).set_(value.detach().storage())
        key = seen.setdefault(storage.data_ptr() if value.numel() else name, f"{file}_{len(seen)}")
        records[f"data/{key}"] = storage.numpy().tobytes()
        part[name] = {"path_name": os.path.basename(key), "is_param": isinstance(value, nn.Parameter), "use_pickle": False,
                        "tensor_meta": Exporter.describe(_Fixed, value, False)}
    sample = io.BytesIO()
    torch.save((example if isinstance(example, tuple) else (example,), {}), sample)
    records = {**records, "data/weights/model_weights_config.json": json.dumps({"config": config}),
               "data/constants/model_constants_config.json": json.dumps({"config": constants}), "models/model.json": json.dumps(made),
               "data/sample_inputs/model.pt": sample.getvalue(), "archive_format": "pt2", "archive_version": "0", ".data/version": "6\n",
               "byteorder": "little", ".data/serialization_id": "0" * 40}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in records.items():
            if not name.endswith(tuple(drop)) or not drop:
                archive.writestr("net/" + name, data)


def load(path):
    """The weights in an archive, by their names."""
    with zipfile.ZipFile(path) as archive:
        root = archive.namelist()[0].split("/")[0]
        config = json.loads(archive.read(f"{root}/data/weights/model_weights_config.json"))["config"]
        weights = {}
        for name, row in config.items():
            meta = row["tensor_meta"]
            dtype = next(k for k, v in DTYPES.items() if v == meta["dtype"])
            storage = torch.frombuffer(bytearray(archive.read(f"{root}/data/weights/{row['path_name']}")), dtype=dtype)
            weights[name] = torch.as_strided(storage, [n["as_int"] for n in meta["sizes"]], [n["as_int"] for n in meta["strides"]],
                                             meta["storage_offset"]["as_int"])
        return weights


class _Fixed:
    """An exporter of weights, whose sizes are always numbers."""
    batch = "fixed"

    @staticmethod
    def size(n, first):
        return {"as_int": n}
