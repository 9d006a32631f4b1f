"""torch_step.py - training and evaluation steps of gtrain's models in PyTorch, timed on request.

torch_step.py MODEL BATCH [--optimizer sgd|adamw] [--clip X] [--eval] [--threads N]
torch_step.py --probe   what this PyTorch is, as JSON

MODEL is gtrain's own spec. A first line of output says that it is ready. Each line of standard input holds seconds; each is answered by a line of JSON,
{"samples": .., "seconds": ..}, for at least so long and three steps. A step is forward, backward, clip and
update on data that is there already; with --eval a forward pass with loss and right answers.

The networks are those of gtrain: GPT-2 (Radford et al., 2019), ResNet for CIFAR (He et al., 2015, shortcut A),
LeNet-5 and a multilayer perceptron, written with the fastest operators of PyTorch 1.13 that compute the same.
"""
import argparse
import json
import math
import re
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Conv1D(nn.Module):
    """A linear layer with GPT-2's weight [in, out]; as fast as nn.Linear or a little faster."""

    def __init__(self, inside, outside, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(inside, outside))
        self.bias = nn.Parameter(torch.zeros(outside)) if bias else None

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        y = rows @ self.weight if self.bias is None else torch.addmm(self.bias, rows, self.weight)
        return y.view(*x.shape[:-1], -1)


class Attention(nn.Module):
    def __init__(self, width, heads, block, bias, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = Conv1D(width, 3 * width, bias)
        self.proj = Conv1D(width, width, bias)
        mask = torch.full((block, block), -math.inf).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        b, t, c = x.shape
        d = c // self.heads
        q, k, v = (y.view(b, t, self.heads, d).transpose(1, 2).reshape(b * self.heads, t, d)
                   for y in self.qkv(x).split(c, dim=2))
        # The scale and the mask go into the product.
        scores = torch.baddbmm(self.mask[:t, :t], q, k.transpose(1, 2), alpha=1 / math.sqrt(d))
        p = F.dropout(scores.softmax(-1), self.dropout, self.training)
        y = torch.bmm(p, v).view(b, self.heads, t, d).transpose(1, 2).reshape(b, t, c)
        return self.proj(y)


class Block(nn.Module):
    def __init__(self, width, heads, block, bias, dropout):
        super().__init__()
        self.norm1, self.norm2 = LayerNorm(width, bias), LayerNorm(width, bias)
        self.attention = Attention(width, heads, block, bias, dropout)
        self.fc = Conv1D(width, 4 * width, bias)
        self.proj = Conv1D(4 * width, width, bias)
        self.dropout = dropout

    def forward(self, x):
        x = x + F.dropout(self.attention(self.norm1(x)), self.dropout, self.training)
        y = self.proj(F.gelu(self.fc(self.norm2(x)), approximate="tanh"))
        return x + F.dropout(y, self.dropout, self.training)


class LayerNorm(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias)


class GPT(nn.Module):
    def __init__(self, layers=4, heads=4, width=128, block=64, vocab=65, dropout=0.0, bias="yes"):
        super().__init__()
        has_bias = bias == "yes"
        self.block, self.vocab, self.dropout = int(block), int(vocab), float(dropout)
        width = int(width)
        self.tokens = nn.Embedding(self.vocab, width)
        self.positions = nn.Parameter(torch.zeros(self.block, width))
        self.blocks = nn.Sequential(*(
            Block(width, int(heads), self.block, has_bias, self.dropout)
            for _ in range(int(layers))))
        self.norm = LayerNorm(width, has_bias)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, x):
        x = F.dropout(self.tokens(x) + self.positions, self.dropout, self.training)
        x = self.norm(self.blocks(x))
        return F.linear(x, self.tokens.weight).view(-1, self.vocab)

    def samples(self, batch):
        x = torch.randint(self.vocab, (batch, self.block + 1))
        return x[:, :-1].contiguous(), x[:, 1:].reshape(-1)


class BasicBlock(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.more = (outside - inside) // 2

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        if self.more:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.more, self.more))
        return F.relu(y.add_(x), inplace=True)


class ResNet(nn.Module):
    def __init__(self, depth):
        super().__init__()
        blocks, inside = [], 16
        for outside in 16, 32, 64:
            for _ in range((depth - 2) // 6):
                blocks.append(BasicBlock(inside, outside, outside // inside))
                inside = outside
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(64, 10)
        self.to(memory_format=torch.channels_last)

    def forward(self, x):
        x = self.blocks(F.relu(self.bn1(self.conv1(x)), inplace=True))
        return self.fc(x.mean((2, 3)))

    def samples(self, batch):
        x = torch.randn(batch, 3, 32, 32).contiguous(memory_format=torch.channels_last)
        return x, torch.randint(10, (batch,))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(inplace=True),
            nn.Linear(120, 84), nn.ReLU(inplace=True), nn.Linear(84, 10))
        self.to(memory_format=torch.channels_last)

    def forward(self, x):
        return self.net(x)

    def samples(self, batch):
        x = torch.randn(batch, 1, 28, 28).contiguous(memory_format=torch.channels_last)
        return x, torch.randint(10, (batch,))


class MLP(nn.Sequential):
    def __init__(self, sizes):
        layers = []
        for inside, outside in zip(sizes, sizes[1:]):
            layers += [nn.Linear(inside, outside), nn.ReLU(inplace=True)]
        super().__init__(*layers[:-1])
        self.sizes = sizes

    def samples(self, batch):
        return torch.randn(batch, self.sizes[0]), torch.randint(self.sizes[-1], (batch,))


def network(spec):
    name, _, rest = spec.partition(":")
    if name == "mlp":
        return MLP([int(n) for n in rest.split(",")])
    keys = dict(item.split("=") for item in rest.split(",") if item)
    if name == "gpt":
        return GPT(**keys)
    if name == "gpt2":
        return GPT(**{"layers": 12, "heads": 12, "width": 768, "block": 1024, "vocab": 50257, **keys})
    if name == "lenet":
        return LeNet()
    if name.startswith("resnet"):
        return ResNet(int(name[len("resnet"):]))
    sys.exit(f"torch_step.py: no network '{spec}'")


def training_step(net, batch, optimizer, clip):
    x, y = net.samples(batch)
    rule = {"sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=1e-4),
            "adamw": lambda p: torch.optim.AdamW(p, 1e-4, weight_decay=0.1)}[optimizer]
    parameters = list(net.parameters())
    opt = rule(parameters)

    def step():
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(parameters, clip)
        opt.step()
        return loss.item()
    return step


def evaluation_step(net, batch):
    x, y = net.samples(batch)
    net.eval()

    def step():
        with torch.inference_mode():
            logits = net(x)
            loss = F.cross_entropy(logits, y, reduction="sum").item()
            return loss, (logits.argmax(1) == y).sum().item()
    return step


def probe():
    """The version, and the file of the BLAS in use: None for the reference one."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        fast = re.search(r"(/\S*(openblas|blis|mkl_core|atlas)\S*)", maps.read())
    return {"torch": torch.__version__, "blas": fast.group(1) if fast else None}


def main():
    if sys.argv[1:] == ["--probe"]:
        print(json.dumps(probe()))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("batch", type=int)
    parser.add_argument("--optimizer", choices=["sgd", "adamw"], default="adamw")
    parser.add_argument("--clip", type=float, default=0)
    parser.add_argument("--eval", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    net = network(args.model)
    if args.eval:
        step = evaluation_step(net, args.batch)
    else:
        step = training_step(net, args.batch, args.optimizer, args.clip)
    print(json.dumps({"ready": args.model}), flush=True)
    for line in sys.stdin:
        step()  # threads and memory are awake from here on
        steps, began = 0, time.monotonic()
        while steps < 3 or time.monotonic() - began < float(line):
            step()
            steps += 1
        seconds = time.monotonic() - began
        print(json.dumps({"samples": steps * args.batch, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
