"""exported.py - networks of torch.export.save(): their training beside PyTorch's, their runs, and files that are refused.

The archives are made by common/exported.py, since Debian's PyTorch does not write them.
"""
import json
import math
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from training import gtrain, curve, apart, GTRAIN, TESTS  # noqa: E402: skips a python without torch
from beside import differences, dump, STEPS  # noqa: E402
import struct  # noqa: E402
import subprocess  # noqa: E402
import zipfile  # noqa: E402
import exported  # noqa: E402
from onnx_model import Model, apart_from_gtrain  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import tap  # noqa: E402


class Block(nn.Module):
    """A residual block that overwrites its activations."""

    def __init__(self, width):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += x
        return F.relu(y)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.layer1, self.pool, self.fc = nn.Conv2d(3, 8, 3, stride=2, padding=1), Block(8), nn.AdaptiveAvgPool2d(1), nn.Linear(8, 5)

    def forward(self, x):
        return self.fc(torch.flatten(self.pool(self.layer1(self.stem(x))), 1))


class Excited(nn.Module):
    """A depthwise convolution, squeeze and excitation, a U of two levels, a group norm."""

    def __init__(self):
        super().__init__()
        self.stem, self.deep = nn.Conv2d(3, 8, (3, 5), stride=(2, 1), padding=(1, 2)), nn.Conv2d(8, 16, 3, padding=2, dilation=2, groups=8)
        self.norm, self.squeeze, self.excite = nn.GroupNorm(4, 16), nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.pool, self.up, self.fc = nn.MaxPool2d(2), nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Linear(24, 5)

    def forward(self, x):
        x = F.silu(self.norm(self.deep(self.stem(x))))
        x = x * torch.sigmoid(self.excite(F.hardswish(self.squeeze(torch.mean(x, [2, 3], True)))))
        x = torch.cat([x, self.up(self.pool(x))], 1)
        return self.fc(torch.mean(x, [2, 3], False))


class Moved(nn.Module):
    """Elements are moved and computed with in many ways."""

    def __init__(self):
        super().__init__()
        # a name that is also one of gtrain's own values
        self.conv, self.pool, self.mean, self.scale = nn.Conv1d(1, 4, 3), nn.MaxPool1d(2), nn.AdaptiveAvgPool1d(3), nn.Parameter(torch.randn(4, 1))
        self.fc = nn.Linear(12, 3)

    def forward(self, x):
        x = self.conv(torch.unsqueeze(x, 1)) * self.scale + 0.5
        parts = torch.chunk(self.mean(self.pool(F.elu(x))), 2, 1)
        a, b = parts[0], parts[1]
        a = torch.roll(torch.flip(a, [2]), [1], [2]) - F.leaky_relu(b, 0.1) / 2
        b = torch.permute(F.pad(torch.transpose(b, 1, 2), [1, 1]), [0, 2, 1])
        c = torch.cat([F.softplus(a), torch.tanh(b) ** 2], 1)
        y = torch.addcmul(c, F.mish(c), torch.clamp(c, -0.5, 0.5)) + F.hardtanh(c, -1.0, 1.0) * F.hardsigmoid(c)
        y = torch.stack([torch.select(y, 1, i) for i in range(4)], 1)
        return self.fc(torch.reshape(y * torch.rsqrt(torch.sum(y * y, [1, 2], True) + 1.0), [-1, 12]))


class TalkingHeads(nn.Module):
    """Attention by products: its heads are mixed before the softmax and behind it."""

    def __init__(self):
        super().__init__()
        self.stem, self.qkv, self.proj, self.norm, self.fc = nn.Conv2d(3, 12, 4, stride=4), nn.Linear(12, 36), nn.Linear(12, 12), nn.LayerNorm(12), nn.Linear(9, 5)
        self.before, self.after = nn.Parameter(torch.randn(3, 3)), nn.Parameter(torch.randn(3, 3))
        self.query, self.offset, self.key = nn.Parameter(torch.randn(12) / 4), nn.Parameter(torch.randn(12, 12) / 4), nn.Parameter(torch.randn(12, 9) / 4)

    def heads(self, x):
        return torch.permute(torch.reshape(x, [-1, 16, 3, 4]), [0, 2, 1, 3])

    def forward(self, x):
        x = torch.transpose(torch.flatten(self.stem(x), 2), 1, 2)
        parts = torch.chunk(self.qkv(x), 3, 2)
        q, k, v = [self.heads(parts[i]) for i in range(3)]
        score = torch.matmul(q, torch.transpose(k, 2, 3)) / 2
        mixed = torch.softmax(torch.einsum("bhij, hg -> bgij", score, self.before), -1)
        y = torch.einsum("bhij,bhjd->bihd", torch.einsum("hg,bhij->bgij", self.after, mixed), v)
        x = self.norm(x + self.proj(torch.reshape(y, [-1, 16, 12])))
        pooled = torch.einsum("bn,bnc", torch.exp(torch.log_softmax(x @ self.query, 1)), x)
        likeness = torch.baddbmm(self.offset, torch.bmm(torch.transpose(x, 1, 2), x), torch.softmax(torch.einsum("bnc,bnd->bcd", x, x), 1), beta=0.5, alpha=0.1)
        return self.fc((pooled + torch.matmul(self.query, likeness)) @ self.key)


SIZES = {"h": 3, "i": 4, "j": 5, "d": 6, "g": 2, "p": 1}
EQUATIONS = [
    "bhij->bjh", "bhij->b", "bhij", "bhij,bhij->b", "bhij,bhij->bjhi", "bhij,hij->b", "bhij,bhdj->bhid", "bhij,bhjd->bdih", "bhij,hg->bgij",
    "hg,bhij->bgij", "bhij,jd->bhid", "bhij , ig -> bghj", "bhij,ihd->bjd", "bhij,hjd->bhid", "bhij,d->bdhij", "bhij,bpj->bhi", "bhij,bhpj->bhipj",
    "bhij,gd->bijd", "bhij,jh", "jih,bhij->bi", "bhij,gdij->gbhd", "bhij,bijd->hbd", "id,bhij->dbjh", "bijd,hd->bhij", "gb,bhij->gbj"]


def result_of(equation):
    terms, arrow, result = equation.replace(" ", "").partition("->")
    return result if arrow else "".join(sorted(c for c in terms if c.isalpha() and terms.count(c) == 1))


class Equations(nn.Module):
    """Equations of torch.einsum, with the samples as b. The squares of each result are a feature. The batch is 2 at export."""

    def __init__(self):
        super().__init__()
        self.tensors, self.fc = nn.ModuleDict(), nn.Linear(len(EQUATIONS), 3)
        for n, equation in enumerate(EQUATIONS):
            for i, term in enumerate(self.terms(equation)):
                size = [SIZES[c] for c in term if c != "b"]
                self.tensors[f"{n}_{i}"] = nn.Linear(6, math.prod(size)) if "b" in term else nn.ParameterList([nn.Parameter(torch.randn(size) / 2)])

    @staticmethod
    def terms(equation):
        return equation.replace(" ", "").split("->")[0].split(",")

    def tensor(self, x, n, i, term):
        module = self.tensors[f"{n}_{i}"]
        if "b" not in term:
            return module[0]
        y = torch.reshape(module(x), [-1] + [SIZES[c] for c in term if c != "b"])
        return y if term[0] == "b" else torch.transpose(y, 0, term.index("b"))

    def forward(self, x):
        features = []
        for n, equation in enumerate(EQUATIONS):
            y, result = torch.einsum(equation, *[self.tensor(x, n, i, t) for i, t in enumerate(self.terms(equation))]), result_of(equation)
            dims = [d for d, c in enumerate(result) if c != "b"]
            features.append(torch.mean(y * y, dims, False) if dims else y * y)
        return self.fc(torch.stack(features, 1))


class Tied(nn.Module):
    """Two names for the weight of the embedding and of the last layer."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(13, 8), nn.LayerNorm(8), nn.Linear(8, 13, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.norm(self.embed(ids)))


class Positions(nn.Module):
    """Tables of positions and a mask are computed from sizes; a table of the module's is read by indices."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.head, self.bias = nn.Embedding(13, 8), nn.LayerNorm(8), nn.Linear(8, 13), nn.Parameter(torch.randn(13, 2))
        self.register_buffer("index", 6 + torch.arange(7)[:, None] - torch.arange(7))
        self.register_buffer("rates", 1 / 10 ** torch.arange(4.0), persistent=False)

    def forward(self, ids):
        x = self.embed(ids)
        at = torch.cumsum(ids.new_ones([7]), 0) - 1
        angles = torch.unsqueeze(at, 1) * self.rates
        x = x + torch.reshape(torch.stack([torch.sin(angles), torch.cos(angles)], 2), [7, 8])
        seen = torch.ge(torch.unsqueeze(at, 1), torch.unsqueeze(at, 0))
        row = x.new_zeros([7, 7])
        torch.select(row, 0, 3).fill_(0.5)  # changes row, too
        weights = torch.where(seen, torch.sum(self.bias[self.index], [2], False) + row, torch.tril(row))
        weights = torch.masked_fill(weights, torch.lt(weights, -1), 0.25)
        x = torch.sum(torch.unsqueeze(weights, 2) * torch.unsqueeze(x, 1), [2], False)
        x = torch.cat([exported.rest(x, 2, 4), exported.rest(x, 2, 8), torch.chunk(x, 2, 2)[0]], 2)
        return self.head(self.norm(x)[:, at])


class Masked(nn.Module):
    """Attention with each kind of mask, and over other tokens."""

    def __init__(self):
        super().__init__()
        self.embed, self.qkv, self.head, self.bias = nn.Embedding(13, 8), nn.Linear(8, 24), nn.Linear(8, 13), nn.Parameter(torch.randn(2, 7, 7))

    def heads(self, x, n):
        parts = torch.chunk(self.qkv(x), 3, 2)
        return [torch.transpose(torch.reshape(parts[i], [-1, n, 2, 4]), 1, 2) for i in range(3)]

    def forward(self, ids):
        x = self.embed(ids)
        at = torch.cumsum(ids.new_ones([7]), 0)
        seen = torch.ge(torch.unsqueeze(at, 1), torch.unsqueeze(at, 0))
        near = torch.lt(torch.unsqueeze(at, 1) - torch.unsqueeze(at, 0), 3)
        for mask in (seen, seen & near, self.bias, None):
            q, k, v = self.heads(x, 7)
            x = x + torch.reshape(torch.transpose(exported.attention(q, k, v, mask), 1, 2), [-1, 7, 8])
        _, k, v = self.heads(torch.chunk(x, 2, 1)[0], 4)
        return self.head(torch.reshape(torch.transpose(exported.attention(q, k, v), 1, 2), [-1, 7, 8]))


class Counted(nn.Module):
    """Positions are counted without padding, in data that training brings; sums up to each feature."""

    def __init__(self):
        super().__init__()
        self.embed, self.places, self.kinds, self.head = nn.Embedding(13, 8, padding_idx=1), nn.Embedding(9, 8, padding_idx=1), nn.Embedding(2, 8), nn.Linear(8, 13)
        self.register_buffer("kind", torch.zeros(1, 7, dtype=torch.int64), persistent=False)

    def forward(self, ids):
        real = torch.ne(ids, 1).to(torch.int32)
        at = (torch.cumsum(real, 1) * real).to(torch.int64) + 1
        kind = torch.gather(exported.spread(self.kind, ids), 1, at - 1 - real)
        x = self.embed(ids) + self.places(at) + self.kinds(kind)
        return self.head(torch.cumsum(x, 2) + torch.cumsum(x, 1))


class Depth(nn.Module):
    """A block whose branch is left out for some samples, and whose batch was fixed at the export."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, x):
        x = torch.tanh(self.a(x))
        return self.c(x + self.b(x) * x.new_empty([2, 1]).bernoulli_(0.5).div_(0.5))


class Normed(nn.Module):
    """Norms with and without weights and running statistics, and a convolution of a standardized weight."""

    def __init__(self):
        super().__init__()
        self.stem, self.bare, self.prelu = nn.Conv2d(3, 8, (4, 3), padding="same", dilation=(1, 2)), nn.BatchNorm2d(8, affine=False), nn.PReLU(8)
        self.weight, self.instance, self.passing = nn.Parameter(torch.randn(8, 8, 3, 3)), nn.InstanceNorm2d(8, affine=True), nn.BatchNorm2d(8, track_running_stats=False)
        self.group, self.area, self.plain = nn.GroupNorm(2, 8), nn.LayerNorm([8, 16]), nn.LayerNorm(16, elementwise_affine=False)
        self.volume, self.single, self.scale = nn.BatchNorm3d(2), nn.InstanceNorm1d(8), nn.Parameter(torch.rand(16) + 0.5)
        self.pool, self.fc = nn.AvgPool2d(4), nn.Linear(128, 5)

    def forward(self, x):
        x = self.prelu(self.bare(self.stem(x)))
        weight = F.batch_norm(torch.reshape(self.weight, [1, 8, -1]), None, None, None, None, True, 0.0, 1e-6)
        x = self.instance(F.conv2d(x, torch.reshape(weight, [8, 8, 3, 3]), None, [1, 1], [1, 1]))
        x = F.silu(self.passing(x) + self.group(F.silu(x)))
        x = F.silu(self.volume(torch.reshape(x, [-1, 2, 4, 16, 16])))
        x = self.single(torch.reshape(self.pool(torch.reshape(x, [-1, 8, 16, 16])), [-1, 8, 16]))
        x = self.plain(self.area(x)) + exported.rms_norm(x, [16], self.scale, 1e-5)
        return self.fc(torch.reshape(exported.rms_norm(x, [8, 16]), [-1, 128]))


class Resized(nn.Module):
    """Images of many sizes."""

    def __init__(self):
        super().__init__()
        self.conv, self.shuffle, self.unshuffle = nn.Conv2d(3, 8, 3), nn.PixelShuffle(2), nn.PixelUnshuffle(2)
        self.twice, self.nearest = nn.Upsample(scale_factor=(2, 1.3)), nn.Upsample(size=(9, 5))
        self.bilinear, self.corners = nn.Upsample(scale_factor=1.7, mode="bilinear"), nn.Upsample(size=(6, 11), mode="bilinear", align_corners=True)
        self.most, self.mean, self.deep, self.fc = nn.AdaptiveMaxPool2d((5, 3)), nn.AdaptiveAvgPool2d((4, 3)), nn.Conv2d(8, 8, 1), nn.Linear(96 + 120, 5)

    def forward(self, x):
        x = exported.channel_shuffle(F.silu(self.conv(x)), 4)
        y = self.nearest(self.twice(self.unshuffle(self.shuffle(x))))
        x = self.mean(self.corners(self.bilinear(self.deep(x))))
        return self.fc(torch.cat([torch.flatten(x, 1), torch.flatten(self.most(y), 1)], 1))


class Gated(nn.Module):
    """Layers over a length, and activations."""

    def __init__(self):
        super().__init__()
        self.conv, self.back, self.glu = nn.Conv1d(1, 8, 4, padding="same"), nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1), nn.GLU(1)
        self.near, self.linear, self.most = nn.Upsample(scale_factor=0.7), nn.Upsample(size=27, mode="linear"), nn.AdaptiveMaxPool1d(7)
        self.acts = nn.ModuleList([nn.SELU(), nn.CELU(0.7), nn.LogSigmoid(), nn.Hardshrink(0.1), nn.Softshrink(0.2), nn.Threshold(0.1, -0.5), nn.PReLU()])
        self.fc = nn.Linear(42, 3)

    def forward(self, x):
        x = self.back(self.glu(self.conv(torch.unsqueeze(x, 1))))
        x = self.most(self.linear(self.near(x)))
        y = self.acts[0](x)
        for act in self.acts[1:]:
            y = y + act(x)
        return self.fc(torch.flatten(y, 1))


class Padded(nn.Module):
    """The row of the padding has no gradient of the embedding, and one of the last layer."""

    def __init__(self):
        super().__init__()
        self.embed, self.tied, self.head = nn.Embedding(13, 8, padding_idx=3), nn.Embedding(13, 8, padding_idx=5), nn.Linear(8, 13, bias=False)
        self.head.weight = self.tied.weight
        nn.init.normal_(self.embed.weight)

    def forward(self, ids):
        return self.head(torch.tanh(self.embed(ids) + self.tied(ids)))


class Recurrent(nn.Module):
    """An LSTM in both directions, and its last cells."""

    def __init__(self, p=0.0):
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(13, 8), nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True, dropout=p), nn.Linear(12, 13)
        self.more = nn.Linear(6, 13)

    def forward(self, ids):
        y = self.lstm(self.embed(ids))
        return self.head(torch.tanh(y[0])) + torch.unsqueeze(self.more(torch.select(y[1][1], 0, -1)), 1)


class Steps(nn.Module):
    """GRUs whose first dimension is time: without biases, and with computed initial states; and a layer of an LSTM with both."""

    def __init__(self):
        super().__init__()
        self.first, self.states, self.cells = nn.GRU(4, 6, bias=False), nn.Linear(16, 6), nn.Linear(16, 6)
        self.second, self.third, self.fc = nn.GRU(6, 6, 2), nn.LSTM(6, 6, 2), nn.Linear(12, 3)

    def forward(self, x):
        begin, cells = [torch.stack([f(x), torch.tanh(f(x))], 0) for f in (self.states, self.cells)]  # of two layers
        y = self.second(self.first(torch.permute(torch.reshape(x, [-1, 4, 4]), [1, 0, 2]))[0], begin)
        y = self.third(y[0], (y[1], cells))
        return self.fc(torch.cat([torch.select(y[0], 0, -1), torch.select(y[1][0], 0, 0) + torch.select(y[1][1], 0, 1)], 1))


class Projected(nn.Module):
    """An LSTM whose states are projected."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 6, proj_size=3, batch_first=True)

    def forward(self, x):
        return torch.select(self.lstm(torch.unsqueeze(x, 1))[0], 1, 0)


class Spread(nn.Module):
    """How far the elements of a channel are apart after a dropout: nothing if all of them are dropped, or none."""

    def __init__(self):
        super().__init__()
        self.drop, self.most, self.scale = nn.Dropout2d(0.5), nn.AdaptiveMaxPool2d(1), nn.Parameter(torch.full((1, 3, 1, 1), 100.0))

    def forward(self, x):
        x = self.drop(x * 0 + 1)
        return torch.flatten((self.most(x) + self.most(-x)) * self.scale, 1)


class Channels(Spread):
    def forward(self, x):
        return torch.flatten(self.most(self.drop(x * 0 + 1)) * self.scale, 1)
class Strided(nn.Module):
    """Weights with channels last, and two that are parts of one storage."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 5)
        self.conv.weight = nn.Parameter(self.conv.weight.detach().to(memory_format=torch.channels_last))
        parts = torch.randn(24)
        self.scale, self.shift = nn.Parameter(parts[1:9]), nn.Parameter(parts[12:20])

    def forward(self, x):
        x = torch.mean(self.norm(self.conv(x)), [2, 3], False)
        return self.fc(x * self.scale + self.shift)


class Twice(nn.Module):
    """Calls a block three times: its batch norm counts three batches."""

    def __init__(self):
        super().__init__()
        self.block, self.fc = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU()), nn.Linear(6, 3)

    def forward(self, x):
        return self.fc(self.block(x) + self.block(self.block(x)))


class Overwriting(nn.Module):
    """Writes to views of tensors, and then reads these tensors and other views of them."""

    def __init__(self):
        super().__init__()
        self.fc, self.scale, self.out = nn.Linear(6, 12), nn.Parameter(torch.randn(2)), nn.Linear(12, 3)

    def forward(self, x):
        y = torch.reshape(self.fc(x), [-1, 3, 4])
        across, column = torch.transpose(y, 1, 2), torch.select(y, 2, 1)
        column.copy_(torch.tanh(torch.select(across, 1, 2)))
        exported.rest(across, 2, 2).fill_(0.5)
        table = x.new_zeros([4])
        exported.rest(table, 0, 2).copy_(self.scale)
        torch.select(table, 0, 0).copy_(torch.sum(self.scale, [0], False))
        z = torch.reshape(y * table + torch.transpose(across, 1, 2), [-1, 12])
        return self.out(z.relu_() + z)


class Experts(nn.Module):
    """Each row goes to two of four experts, whose rows are sorted by the expert and multiplied in groups."""

    def __init__(self):
        super().__init__()
        self.fc, self.gate, self.out = nn.Linear(6, 8), nn.Linear(8, 4), nn.Linear(8, 3)
        self.up, self.down = nn.Parameter(torch.randn(4, 10, 8) / 3), nn.Parameter(torch.randn(4, 8, 5) / 3)

    def forward(self, x):
        x = self.fc(x)
        top = torch.topk(torch.softmax(self.gate(x), -1), 2)
        weights = torch.reshape(top[0] / torch.sum(top[0], [-1], True), [-1])
        order = torch.sort(torch.reshape(top[1], [-1]))
        expert, at = order[0], order[1]
        ends = torch.cumsum(torch.histc(expert.to(torch.float32), 4, 0, 3), 0, dtype=torch.int32)
        parts = torch.chunk(exported.grouped_mm(x[torch.floor_divide(at, 2)], torch.transpose(self.up, 1, 2), ends), 2, -1)
        y = exported.grouped_mm(F.silu(parts[0]) * parts[1], torch.transpose(self.down, 1, 2), ends)
        y = y * torch.unsqueeze(torch.gather(weights, 0, at), -1)
        y = torch.sum(torch.reshape(y[torch.argsort(at)], [-1, 2, 8]), [1], False)
        return self.out(torch.clamp(x, -1.0, 1.0).index_put_([torch.ne(y, 0)], x.new_zeros([])) + y)


class Late(nn.Module):
    """Overwrites a view whose places in its tensor gtrain does not know, and reads the tensor."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        y = self.fc(x)
        torch.unflatten(y, 1, [1, 3]).relu_()
        return y + 1


class Writes(nn.Module):
    """Changes a buffer of whole numbers, which gtrain would not save."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.register_buffer("calls", torch.ones(1, dtype=torch.int64))

    def forward(self, x):
        return self.fc(x) * (x.new_ones([1]) + self.calls)


class Probable(nn.Module):
    """Returns probabilities in place of scores."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return torch.softmax(self.fc(x), 1)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x), x


def table(p=0.0):
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(p), nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))


def images():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.GELU(approximate="tanh"),
                         nn.AvgPool2d(2), nn.Flatten(), nn.Linear(72, 4))


NETWORKS = {  # name: the module, the shape of a batch
    "table": (table, (2, 6)),
    "images": (images, (2, 3, 16, 16)),
    "residual": (Residual, (2, 3, 16, 16)),
    "bare": (lambda: nn.Linear(6, 3), (2, 6)),  # its parameters are called weight and bias
    "tied": (Tied, None),
    "excited": (Excited, (2, 3, 16, 16)),
    "moved": (Moved, (2, 16)),
    "positions": (Positions, None),
    "masked": (Masked, None),
    "counted": (Counted, None),
    "talking heads": (TalkingHeads, (2, 3, 16, 16)),
    "equations": (Equations, (2, 6)),
    "normed": (Normed, (2, 3, 16, 16)),
    "resized": (Resized, (2, 3, 16, 16)),
    "gated": (Gated, (2, 16)),
    "padded": (Padded, None),
    "strided": (Strided, (2, 3, 8, 8)),
    "recurrent": (Recurrent, None),
    "steps": (Steps, (2, 16)),
    "twice": (Twice, (2, 6)),
    "overwriting": (Overwriting, (2, 6)),
    "experts": (Experts, (2, 6)),
}


def make(name, seed=0):
    torch.manual_seed(seed)
    module, shape = NETWORKS[name]
    return module().train(), torch.randint(0, 13, (2, 7)) if shape is None else torch.randn(*shape)


@tap.cases(NETWORKS)
def beside_pytorch(folder, name):
    """The loss curve and the weights are PyTorch's in float64, and the result fits the module again."""
    module, example = make(name)
    exported.save(module, example, f"{folder}/net.pt2")
    d = dump(folder, f"{folder}/net.pt2")
    losses, weights = differences(module.double(), d)
    assert losses < 1e-5 and weights < 1e-4, (losses, weights)
    module.load_state_dict(d["final"], strict=name not in ("tied", "padded"))


@tap.cases([""])
def channels_are_dropped_as_a_whole(folder, _):
    exported.save(Spread().train(), torch.randn(2, 3, 4, 4), f"{folder}/spread.pt2")
    exported.save(Channels().train(), torch.randn(2, 3, 4, 4), f"{folder}/channels.pt2")
    none, some = dump(folder, f"{folder}/spread.pt2", ("sgd", 0, 0, 0, 4, 3, 1)), dump(folder, f"{folder}/channels.pt2", ("sgd", 0, 0, 0, 4, 3, 1))
    assert all(abs(loss - math.log(3)) < 1e-6 for loss in none["losses"]), none["losses"]
    assert len(set(some["losses"])) > 1, some["losses"]


@tap.cases([""])
def dropout_between_layers(folder, _):
    """The dropout of a recurrent network is active, though it was exported in eval mode."""
    losses = []
    for p in (0.0, 0.5, 0.5):
        torch.manual_seed(0)
        exported.save(Recurrent(p).eval(), torch.randint(0, 13, (2, 7)), f"{folder}/net.pt2")
        losses.append(dump(folder, f"{folder}/net.pt2", ("sgd", 0.1, 0, 0, 4, 3, 1))["losses"])
    assert losses[1] != losses[0] and losses[1] == losses[2], losses


LAYERS = ["normed", "resized", "gated", "padded", "recurrent", "steps"]


@tap.cases(LAYERS)
def evaluated_and_in_bfloat16(folder, name):
    module, example = make(name)
    exported.save(module, example, f"{folder}/net.pt2")
    common = ["train", "--model", f"{folder}/net.pt2", "--data", "random", "--batch", 4, "--steps", 2, "--log-every", 1, "-q"]
    gtrain(*common, "--out", f"{folder}/wide")
    gtrain(*common, "--out", f"{folder}/low", "--amp", "bf16")
    gtrain("eval", "--ckpt", f"{folder}/low", "--data", "random")
    assert apart(curve(f"{folder}/low"), curve(f"{folder}/wide")) < 0.02


@tap.cases([""])
def exported_in_eval_mode(folder, _):
    """Batch norms and dropouts of a network that was exported by mistake in eval mode train all the same."""
    module, example = make("table")
    exported.save(module.eval(), example, f"{folder}/net.pt2")
    said = gtrain("train", "--model", f"{folder}/net.pt2", "--data", "random", "--steps", 1, "--out", f"{folder}/run")
    assert "exported in eval mode" in said, said
    losses, _ = differences(module.train(), dump(folder, f"{folder}/net.pt2"))
    assert losses < 1e-5, losses


@tap.cases([""])
def probabilities_are_warned_of(folder, _):
    for module in (Probable, lambda: nn.Sequential(nn.Linear(4, 3))):
        exported.save(module(), torch.randn(2, 4), f"{folder}/net.pt2")
        said = gtrain("train", "--model", f"{folder}/net.pt2", "--data", "random", "--steps", 1, "--out", f"{folder}/{module.__name__[-4:]}")
        assert ("returns probabilities (softmax.int)" in said) == (module is Probable), said


@tap.cases(["images", "recurrent"])
def batch_fixed_at_export(folder, name):
    module, example = make(name)
    exported.save(module, example, f"{folder}/net.pt2", batch="fixed")
    losses, _ = differences(module, dump(folder, f"{folder}/net.pt2"))
    assert losses < 1e-5, losses


@tap.cases([""])
def frozen_parameters(folder, _):
    module, example = make("table")
    module[0].weight.requires_grad_(False)
    exported.save(module, example, f"{folder}/net.pt2")
    d = dump(folder, f"{folder}/net.pt2")
    assert torch.equal(d["final"]["0.weight"], module[0].weight)
    losses, _ = differences(module, d)
    assert losses < 1e-5, losses


@tap.cases([""])
def ranks(folder, _):
    """Two ranks in several modes have one rank's curve."""
    common = ["--steps", "6", "--warmup", "0", "--log-every", "1", "--seed", "3", "--data", "random", "-q"]
    module, example = make("residual")
    exported.save(module, example, f"{folder}/net.pt2")
    one = f"{folder}/one"
    gtrain("train", "--model", f"{folder}/net.pt2", "--batch", 8, "--out", one, *common, "--nproc", 1)
    first = curve(one)[0]["loss"]
    for mode in ("ddp", "zero1", "zero3", "mirrored"):
        out = f"{folder}/{mode}"
        gtrain("train", "--model", f"{folder}/net.pt2", "--batch", 4, "--nproc", 2, "--parallel", mode, "--sync-bn", "--out", out, *common)
        assert apart(curve(out), curve(one)) < 1e-5, mode
    assert first > 0


@tap.cases([""])
def stochastic_depth(folder, _):
    """Draws are those of the samples, on any number of ranks; evaluation has none."""
    torch.manual_seed(0)
    exported.save(Depth(), torch.randn(2, 6), f"{folder}/net.pt2", batch="fixed")
    common = ["--model", f"{folder}/net.pt2", "--data", "random:6/3", "--steps", 6, "--log-every", 1, "--out"]
    gtrain("train", *common, f"{folder}/one", "--batch", 8, "-q")
    gtrain("train", *common, f"{folder}/two", "--batch", 4, "--nproc", 2, "-q")
    assert apart(curve(f"{folder}/two"), curve(f"{folder}/one")) < 1e-5
    gtrain("train", *common, f"{folder}/other", "--batch", 8, "--seed", 9, "-q")
    assert apart(curve(f"{folder}/other"), curve(f"{folder}/one")) > 1e-3
    losses = [json.loads(subprocess.run([GTRAIN, "eval", "--ckpt", f"{folder}/one", "--data", "random:6/3", "--batch", n, "--json"],
                                        capture_output=True, check=True).stdout)["loss"] for n in ("2", "8")]
    assert abs(losses[0] - losses[1]) < 1e-6, losses


@tap.cases([""])
def run_keeps_network(folder, _):
    """Eval, resume and a new run need neither --model nor the file that the run was started with."""
    module, example = make("images")
    exported.save(module, example, f"{folder}/net.pt2")
    run = f"{folder}/run"
    gtrain("train", "--model", f"{folder}/net.pt2", "--data", "random", "--steps", 4, "--save-every", 2, "--batch", 4, "--out", run, "-q")
    os.remove(f"{folder}/net.pt2")
    shutil.move(run, f"{folder}/moved")
    run = f"{folder}/moved"
    gtrain("eval", "--ckpt", run, "--data", "random")
    gtrain("eval", "--ckpt", f"{run}/checkpoints/step-00000002.pth", "--data", "random")
    gtrain("train", "--resume", run, "--steps", 6, "-q")
    assert curve(run)[-1]["step"] == 6
    gtrain("train", "--config", f"{run}/config.json", "--steps", 1, "--out", f"{folder}/again", "-q")
    said = gtrain("eval", "--ckpt", shutil.copy(f"{run}/model.pth", f"{folder}/lone.pth"), "--data", "random", status=2)
    assert "FILE.pt2" in said, said
    gtrain("eval", "--ckpt", f"{folder}/lone.pth", "--model", f"{run}/network.pt2", "--data", "random")
    gtrain("ckpt", "convert", run, "-o", f"{folder}/trained.pt2")
    losses = [json.loads(subprocess.run([GTRAIN, "eval", "--ckpt", path, "--data", "random", "--json"], capture_output=True, check=True).stdout)["loss"]
              for path in (f"{folder}/trained.pt2", f"{run}/model.pth")]
    assert losses[0] == losses[1], losses
    module.load_state_dict(torch.load(f"{run}/model.pth"), strict=True)
    other, example = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()), torch.randn(2, 3, 16, 16)
    exported.save(other, example, f"{folder}/other.pt2")
    said = gtrain("train", "--resume", run, "--model", f"{folder}/other.pt2", "--steps", 8, "-q", status=2)
    assert "another" in said, said


@tap.cases([""])
def tied_weights(folder, _):
    module, example = make("tied")
    path = f"{folder}/net.pt2"
    exported.save(module, example, path)
    gtrain("ckpt", "verify", path)
    gtrain("ckpt", "convert", path, "-o", f"{folder}/weights.pth")
    state = torch.load(f"{folder}/weights.pth")
    assert set(state) == set(module.state_dict()) and all(torch.equal(v, module.state_dict()[k]) for k, v in state.items())
    assert state["head.weight"].data_ptr() == state["embed.weight"].data_ptr()
    gtrain("train", "--model", path, "--data", "random", "--steps", 2, "--batch", 4, "--out", f"{folder}/run", "-q")
    trained = torch.load(f"{folder}/run/model.pth")
    module.load_state_dict(trained, strict=True)
    assert torch.equal(trained["head.weight"], trained["embed.weight"]) and not torch.equal(trained["head.weight"], state["head.weight"])


# ---- the way back ----

def trained(folder, name):
    """A run of the network, with a running mean of its weights."""
    module, example = make(name)
    exported.save(module, example, f"{folder}/net.pt2")
    gtrain("train", "--model", f"{folder}/net.pt2", "--data", "random", "--steps", 3, "--batch", 4, "--ema", 0.9, "--out", f"{folder}/run", "-q")
    return f"{folder}/run"


def records(path):
    """The records of an archive in the order of the file, and which of them do not begin at a multiple of 64 bytes."""
    with zipfile.ZipFile(path) as archive, open(path, "rb") as f:
        found, crooked = {}, []
        for info in archive.infolist():
            f.seek(info.header_offset + 26)
            name, extra = struct.unpack("<HH", f.read(4))
            found[info.filename] = archive.read(info)  # compared with its CRC-32
            if (info.header_offset + 30 + name + extra) % 64:
                crooked.append(info.filename)
        return found, crooked


@tap.cases(["images", "residual", "tied", "moved", "strided", "excited"])
def converted_back(folder, name):
    """The archive of a run has the run's weights, and all other records as they were."""
    run, path = trained(folder, name), f"{folder}/trained.pt2"
    before, _ = records(f"{folder}/net.pt2")
    for source, file in ((run, "model.pth"), (f"{run}/model_ema.pth", "model_ema.pth"), (f"{run}/checkpoints/step-00000003.pth", "model.pth")):
        gtrain("ckpt", "convert", source, "-o", path)
        gtrain("ckpt", "verify", path)
        after, crooked = records(path)
        weights, expected = exported.load(path), torch.load(f"{run}/{file}")
        assert list(before) == list(after) and not crooked, crooked
        changed = [k for k in before if before[k] != after[k]]
        assert changed and all("/data/weights/weight_" in k for k in changed), changed
        assert set(weights) == set(expected) and all(torch.equal(weights[k], v) for k, v in expected.items())
    gtrain("ckpt", "diff", path, f"{run}/model.pth", "--state-dict")
    losses = [subprocess.run([GTRAIN, "eval", "--ckpt", f"{run}/model.pth", "--data", "random", "--json", "-q", *options], capture_output=True, text=True, check=True).stdout
              for options in ([], ["--model", path])]
    assert json.loads(losses[0])["loss"] == json.loads(losses[1])["loss"]
    gtrain("train", "--model", path, "--data", "random", "--steps", 1, "--batch", 4, "--out", f"{folder}/again", "-q")


@tap.cases([""])
def not_written_as_onnx(folder, _):
    """ONNX has no products of groups of rows: the line names the op, and no file is written."""
    run = trained(folder, "experts")
    said = gtrain("ckpt", "convert", run, "-o", f"{folder}/net.onnx", "-q", status=1)
    assert "ONNX has no counterpart" in said and not os.path.exists(f"{folder}/net.onnx"), said


@tap.cases([name for name in NETWORKS if name != "experts"])
def written_as_onnx(folder, name):
    """The model of ONNX computes the same, for any batch, and its weights have the module's names."""
    run = trained(folder, name)
    said = gtrain("ckpt", "convert", run, "-o", f"{folder}/net.onnx")
    model = Model(f"{folder}/net.onnx")
    assert model.inputs[0][2][0] == "batch" and ("texts of 7 tokens alone" in said) == (NETWORKS[name][1] is None), said
    for batch in (2, 5):
        distance = apart_from_gtrain(model, f"{folder}/forward.pth", run, batch, 0)
        assert distance < 1e-5, distance
    state = torch.load(f"{run}/model.pth")
    weights = {k: v for k, v in state.items() if k in model.initializers}
    gtrain("ckpt", "convert", f"{folder}/net.pt2", "-o", f"{folder}/first.onnx")  # before the training
    first, before = Model(f"{folder}/first.onnx"), exported.load(f"{folder}/net.pt2")
    assert len(first.nodes) == len(model.nodes) and all(torch.equal(first.initializers[k], before[k]) for k in weights if k in before)
    assert len(weights) > 1 and all(torch.equal(model.initializers[k], v) for k, v in weights.items()), list(weights)


@tap.cases([""])
def mode_of_export(folder, _):
    """A line says that a network stays in the mode of training."""
    for mode in (True, False):
        module, example = make("table")
        exported.save(module.train(mode), example, f"{folder}/net.pt2")
        gtrain("train", "--model", f"{folder}/net.pt2", "--data", "random", "--steps", 1, "--batch", 4, "--out", f"{folder}/{mode}", "-q")
        said = gtrain("ckpt", "convert", f"{folder}/{mode}", "-o", f"{folder}/trained.pt2")
        assert ("train() mode" in said) == mode, said


@tap.cases([""])
def converted_between_types(folder, _):
    """Weights of another type are converted to that of the network."""
    run = trained(folder, "images")
    gtrain("ckpt", "convert", f"{run}/model.pth", "-o", f"{run}/half.safetensors", "--dtype", "bf16")
    gtrain("ckpt", "convert", f"{run}/half.safetensors", "-o", f"{folder}/half.pt2")
    weights, expected = exported.load(f"{folder}/half.pt2"), torch.load(f"{run}/model.pth")
    assert all(torch.equal(weights[k], v.bfloat16().float() if v.is_floating_point() else v) for k, v in expected.items())


def missing(state):
    del state["embed.weight"]


def unknown_name(state):
    state["more"] = torch.ones(1)


def reshaped(state):
    state["norm.bias"] = torch.ones(9)


def untied(state):
    state["head.weight"] = state["head.weight"] + 1


WEIGHTS = {  # what is wrong with the weights: how they are made, what the message says
    "missing weight": (missing, ["'embed.weight' is missing"]),
    "unknown weight": (unknown_name, ["'more' is not a weight"]),
    "other shape": (reshaped, ["'norm.bias'", "[9]", "[8]"]),
    "tied weights that differ": (untied, ["'embed.weight'", "'head.weight'"]),
}


@tap.cases(WEIGHTS)
def refused_to_convert(folder, name):
    """The message names the weight, and no file is written."""
    change, words = WEIGHTS[name]
    run = trained(folder, "tied")
    state = torch.load(f"{run}/model.pth")
    change(state)
    torch.save(state, f"{run}/changed.pth")
    said = gtrain("ckpt", "convert", f"{run}/changed.pth", "-o", f"{folder}/trained.pt2", "-q", status=1)
    assert all(w in said for w in ["changed.pth", *words]) and len(said.splitlines()) == 1, said
    assert sorted(os.listdir(folder)) == ["net.pt2", "run"], os.listdir(folder)


@tap.cases([""])
def nothing_to_convert(folder, _):
    """Without a network there is one line, with a hint."""
    run = trained(folder, "tied")
    shutil.copy(f"{run}/model.pth", f"{folder}/lone.pth")
    gtrain("train", "--model", "mlp:4,3", "--data", "random", "--steps", 1, "--batch", 4, "--out", f"{folder}/mlp", "-q")
    for source, options, word in ((f"{folder}/lone.pth", [], "network.pt2"), (f"{folder}/net.pt2", [], "network.pt2"), (f"{folder}/mlp", [], "weights of mlp"),
                                  (run, ["--dtype", "bf16"], "--dtype"), (run, ["--shard-size", "1K"], "--shard-size")):
        said = gtrain("ckpt", "convert", source, "-o", f"{folder}/x.pt2", "-q", *options, status=2)
        assert word in said and len(said.splitlines()) == 2, said
    for options in ([], ["--to", "onnx"]):
        said = gtrain("ckpt", "convert", run, "-o", f"{run}/network.pt2", "-q", *options, status=2)
        assert "written over" in said, said
    assert not os.path.exists(f"{folder}/x.pt2")
    said = gtrain("ckpt", "convert", run, "-o", f"{folder}/x.pth", "--to", "pt2")
    assert "its ending is that of torch-zip" in said, said
    said = gtrain("ckpt", "convert", run, "-o", f"{folder}/x.pt2", "--to", "pth")
    assert "its ending is that of torch-export" in said, said


@tap.cases([""])
def text_is_written(folder, _):
    """A causal network writes texts, shorter and longer than its block, and predicts the next characters."""
    module, example = make("positions")
    exported.save(module, example, f"{folder}/net.pt2")
    letters = "abcdefghijkl\n"
    with open(f"{folder}/text.txt", "w") as f:
        f.write("".join(letters[i * i % 13] for i in range(600)) + letters)
    run = f"{folder}/run"
    gtrain("train", "--model", f"{folder}/net.pt2", "--data", f"text:{folder}/text.txt", "--steps", 20, "--batch", 8, "--out", run, "-q")
    module.load_state_dict(torch.load(f"{run}/model.pth"), strict=True)
    order = sorted(letters)
    text, module = "ab", module.eval()
    for _ in range(12):
        ids = torch.tensor([[order.index(c) for c in text[-7:]]])
        last = ids.shape[1] - 1
        text += order[int(module(F.pad(ids, (0, 7 - ids.shape[1])))[0, last].argmax())]
    done = subprocess.run([GTRAIN, "generate", "--ckpt", run, "--prompt", "ab", "--tokens", "12", "--temperature", "0"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(text), (done.stdout, text)
    with open(f"{folder}/lines.txt", "w") as f:
        f.write("ab\nabcd\n")
    done = subprocess.run([GTRAIN, "predict", "--ckpt", run, f"{folder}/lines.txt"], capture_output=True, text=True, check=True)
    best = order[int(module(torch.tensor([[order.index(c) for c in "abcdaaa"]]))[0, 3].argmax())]
    assert repr(best) in done.stdout.splitlines()[1].split("%")[0], (done.stdout, best)


@tap.cases([""])
def manual_lists_functions(folder, _):
    """The tables in gtrain-models(7) have the rows of the code."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    with open(f"{root}/man/gtrain-models.7") as page:
        manual = page.read()
    for file, emit, name in (("aten.c", "gt_aten", "functions"), ("fold.c", "gt_fold_", "constants")):
        with open(f"{root}/lib/model/import/{file}") as code:
            rows = re.findall(r'\{ "([\w.]+)", ' + emit, code.read())
        listed = re.search(f"begin {name}(.*)end {name}", manual, re.DOTALL).group(1)
        assert re.findall(r"^\.Li ([\w.]+)", listed, re.MULTILINE) == rows, name


# ---- what is refused ----

def node(document, target):
    return next(n for n in document["graph_module"]["graph"]["nodes"] if n["target"].startswith("torch.ops.aten." + target))


class Einsum(nn.Module):
    """The equation of as many tensors as it names."""

    def __init__(self, equation):
        super().__init__()
        self.fc, self.equation = nn.Linear(4, 9), equation

    def forward(self, x):
        x = torch.reshape(self.fc(x), [-1, 3, 3])
        return torch.einsum(self.equation, *[x] * (self.equation.count(",") + 1))


MODULES = {  # module, example, data, what the message says
    "letter twice in a tensor": (lambda: Einsum("bii->bi"), torch.randn(2, 4), "random:4/3", ["bii->bi", "twice in one tensor"]),
    "ellipsis": (lambda: Einsum("...i->..."), torch.randn(2, 4), "random:4/3", ["...i->...", "without a letter"]),
    "three tensors": (lambda: Einsum("bij,bjk,bkl->bil"), torch.randn(2, 4), "random:4/3", ["einsum.default", "more than two"]),
    "projected states": (Projected, torch.randn(2, 4), "random:4/3", ["lstm.input", "proj_size"]),
    "overwritten tensor": (Late, torch.randn(2, 4), "random:4/3", ["add.Tensor", "relu_.default has overwritten"]),
    "two results": (Two, torch.randn(2, 4), "random:4/3", ["several tensors"]),
    "other classes": (lambda: nn.Linear(4, 3), torch.randn(2, 4), "random:4/5", ["5 classes", "5 outputs"]),
    "rows in place of images": (images, torch.randn(2, 3, 16, 16), "random:4/3", ["[3, 16, 16]", "[4]", "an example of the shape [batch, 4]"]),
    "larger images": (images, torch.randn(2, 3, 16, 16), "npz:{}/large.npz", ["[3, 32, 32]", "size=16,channels=3"]),
    "float64": (lambda: nn.Linear(4, 3).double(), torch.randn(2, 4).double(), "random:4/3", ["float64", "module.float()"]),
}


BY_DATA = ("other classes", "rows in place of images", "larger images")  # wrong usage: they fit other data


@tap.cases(MODULES)
def refused_module(folder, name):
    module, example, data, words = MODULES[name]
    exported.save(nn.Sequential(module()) if name in ("other classes", "float64") else module(), example, f"{folder}/net.pt2")
    np.savez(f"{folder}/large.npz", x=np.zeros((8, 32, 32, 3), "uint8"), y=np.arange(8) % 4)
    said = gtrain("train", "--model", f"{folder}/net.pt2", "--data", data.format(folder), "--steps", 1, status=2 if name in BY_DATA else 1)
    assert all(w in said for w in words), said


def swap(d):
    """one += calls becomes calls += one."""
    node(d, "add")["target"] = "torch.ops.aten.add_.Tensor"
    inputs = node(d, "add")["inputs"]
    inputs[0]["arg"], inputs[1]["arg"] = inputs[1]["arg"], inputs[0]["arg"]


@tap.cases([""])
def overwritten_buffer(folder, _):
    exported.save(Writes(), torch.randn(2, 4), f"{folder}/net.pt2")
    gtrain("train", "--model", f"{folder}/net.pt2", "--data", "random:4/3", "--steps", 1, "--out", f"{folder}/run")
    exported.save(Writes(), torch.randn(2, 4), f"{folder}/net.pt2", change=swap)
    said = gtrain("train", "--model", f"{folder}/net.pt2", "--data", "random:4/3", "--steps", 1, status=1)
    assert "add_" in said and "overwrites a buffer" in said, said


sys.exit(tap.run(tap.parts, os.path.join(TESTS, "model_dump"), sys.argv[1:]))
