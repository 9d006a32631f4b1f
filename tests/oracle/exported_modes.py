#!/usr/bin/env python3
"""exported_modes.py - networks of torch.export.save() on several ranks: one rank's curve and weights in every mode (TAP)."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from training import GTRAIN, apart, curve, distance, gtrain  # noqa: E402: skips a python without torch
import exported  # noqa: E402
import tap  # noqa: E402
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

BATCH, STEPS = 8, 6


class Layer(nn.Module):
    """A layer of a text's network, which reads tables that all layers share."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.drop, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 8)

    def forward(self, x, angles, seen):
        return (x + self.drop(self.down(F.silu(self.up(self.norm(x) * torch.cos(angles)))))) * seen


class Shared(nn.Module):
    """Angles that depend on nothing, and a mask that depends on the tokens, go to each layer. The head is the embedding."""

    def __init__(self):
        super().__init__()
        self.embed, self.layers, self.norm, self.head = nn.Embedding(13, 8), nn.ModuleList(Layer() for _ in range(4)), nn.LayerNorm(8), nn.Linear(8, 13)
        self.head.weight = self.embed.weight
        self.register_buffer("rates", 1 / 10 ** torch.arange(8.0))

    def forward(self, ids):
        angles = torch.unsqueeze(torch.cumsum(ids.new_ones([7]), 0), 1) * self.rates
        seen = torch.unsqueeze(torch.ne(ids, 3), 2).to(torch.float32)
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, angles, seen)
        return self.head(self.norm(x))


class Skip(nn.Module):
    """A U, whose wide values go past the layers at its bottom."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.pool, self.bottom = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1)
        self.deep, self.up, self.last = nn.Conv2d(8, 8, 3, padding=1), nn.Upsample(scale_factor=(2.0, 2.0)), nn.Conv2d(12, 4, 3, padding=1)
        self.mean, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(4, 5)

    def forward(self, x):
        a = F.relu(self.norm(self.first(x)))
        b = F.relu(self.deep(F.relu(self.bottom(self.pool(a)))))
        return self.fc(torch.flatten(self.mean(F.relu(self.last(torch.cat([a, self.up(b)], 1)))), 1))


class Grown(nn.Module):
    """Each layer reads the results of all layers before it."""

    def __init__(self):
        super().__init__()
        self.layers, self.fc = nn.ModuleList(nn.Linear(6 + 4 * i, 4) for i in range(4)), nn.Linear(22, 3)

    def forward(self, x):
        all_of = [x]
        for layer in self.layers:
            all_of.append(torch.tanh(layer(torch.cat(all_of, 1))))
        return self.fc(torch.cat(all_of, 1))


def flat():
    """Modules that contain nothing but a layer each."""
    layers = [nn.Linear(6, 32), nn.Tanh()]
    for _ in range(10):
        layers += [nn.Linear(32, 32), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(32, 3))


NETWORKS = {"shared": (Shared, None), "skip": (Skip, (2, 3, 16, 16)), "grown": (Grown, (2, 6)), "flat": (flat, (2, 6))}
# ranks, of which so many have the same samples, options
MODES = [
    (4, 1, ["--parallel", "ddp"]), (2, 1, ["--parallel", "zero1"]), (2, 1, ["--parallel", "zero3", "--recompute"]), (2, 1, ["--parallel", "mirrored"]),
    (2, 2, ["--pipeline-parallel", 2, "--chunks", 1]), (3, 3, ["--pipeline-parallel", 3, "--chunks", 1, "--recompute"]),
    (4, 2, ["--pipeline-parallel", 2, "--chunks", 1, "--parallel", "zero1"]), (4, 4, ["--pipeline-parallel", 4, "--chunks", 1]),
]
REPRODUCIBLE = [(2, 1, ["--parallel", "zero3"]), (2, 2, ["--pipeline-parallel", 2]), (4, 4, ["--pipeline-parallel", 4, "--schedule", "gpipe"])]


def save(folder, name):
    torch.manual_seed(0)
    module, shape = NETWORKS[name]
    exported.save(module().train(), torch.randint(0, 13, (2, 7)) if shape is None else torch.randn(*shape), f"{folder}/net.pt2")


def train(folder, name, ranks, sharing, options):
    out = f"{folder}/{name}"
    gtrain("train", "--model", f"{folder}/net.pt2", "--data", "random,samples=40", "--steps", STEPS, "--warmup", 0, "--log-every", 1, "--seed", 3,
           "--optimizer", "sgd", "--lr", 0.01, "--sync-bn", "--batch", BATCH * sharing // ranks, "--nproc", ranks, "--out", out, "-q", *options)
    return out


def weights(out):
    return torch.load(f"{out}/model.pth")


@tap.cases(NETWORKS)
def ranks(folder, name):
    """The curve and the weights are those of one rank, and the weights fit the module."""
    save(folder, name)
    one = train(folder, "one", 1, 1, [])
    NETWORKS[name][0]().load_state_dict(weights(one), strict=True)
    for i, (count, sharing, options) in enumerate(MODES):
        out = train(folder, i, count, sharing, options)
        far = apart(curve(out), curve(one)), distance(weights(out), weights(one))
        assert len(curve(out)) == STEPS and far[0] <= 1e-6 and far[1] <= 1e-4, (count, options, far)


@tap.cases(NETWORKS)
def bits(folder, name):
    """Reproducible runs and those that compute blocks again have the bits of one rank."""
    save(folder, name)
    one, again = (train(folder, k, 1, 1, o) for k, o in (("one", []), ("again", ["--recompute"])))
    assert distance(weights(again), weights(one)) == 0
    one = train(folder, "same", 1, 1, ["--reproducible"])
    for i, (count, sharing, options) in enumerate(REPRODUCIBLE):
        out = train(folder, i, count, sharing, ["--reproducible", *options])
        assert apart(curve(out), curve(one)) == 0 and distance(weights(out), weights(one)) == 0, options


@tap.cases(["shared", "flat"])
def tensor(folder, name):
    """Ranks share pairs of linear layers. A line names the matrices that each rank has."""
    save(folder, name)
    one, many = (train(folder, count, count, count, ["--tensor-parallel", count]) for count in (1, 2))
    far = apart(curve(many), curve(one)), distance(weights(many), weights(one))
    assert far[0] <= 1e-6 and far[1] <= 1e-4, far
    said = gtrain("train", "--model", f"{folder}/net.pt2", "--data", "random", "--steps", 1, "--nproc", 2, "--tensor-parallel", 2, "--dry-run", "-v")
    line = {"shared": "ranks share 8 of 9 matrices, and each has all of 'embed.weight'", "flat": "ranks share 12 of 12"}[name]
    assert (line in said) == (name == "shared"), said


@tap.cases([""])
def tensor_refused(folder, _):
    save(folder, "skip")
    said = gtrain("train", "--model", f"{folder}/net.pt2", "--data", "random", "--steps", 1, "--nproc", 2, "--tensor-parallel", 2, "--dry-run", status=1)
    assert "tensor parallelism can shard only 25 of" in said, said


def dry_run(folder, *options):
    args = ["--model", f"{folder}/net.pt2", "--data", "random,samples=40", "--steps", 1, "--dry-run", "--json", *options]
    done = subprocess.run([GTRAIN, "train", *map(str, args)], capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def stages(folder, count):
    return dry_run(folder, "--batch", BATCH, "--nproc", count, "--pipeline-parallel", count)["stages"]


@tap.cases([""])
def memory(folder, _):
    """Where modules are no blocks, equal shares of the work are."""
    save(folder, "flat")
    kept, again = (dry_run(folder, "--batch", 40, *options) for options in ([], ["--recompute"]))
    assert again["memory_bytes"]["arena"] < 0.6 * kept["memory_bytes"]["arena"] and again["recomputed_blocks"] > 1, (kept, again)


@tap.cases([""])
def cuts(folder, _):
    """Stages have about equal shares of the work, and send each other the activations alone."""
    save(folder, "shared")
    found = stages(folder, 4)
    assert all(0.15 < s["work"] < 0.4 for s in found), found
    activations = BATCH * 7 * 8 * 4
    # forward and back, and the gradient of the table, which the first and the last stage hold
    assert [s["communicated_bytes_per_step"] for s in found] == [activations + 13 * 8 * 4, 2 * activations, 2 * activations, activations + 13 * 8 * 4], found
    save(folder, "skip")
    found = stages(folder, 4)  # a U's wide value goes past two of them
    assert [s["first"] for s in found] == ["first.weight", "bottom.weight", "deep.weight", "last.weight"], found


sys.exit(tap.run(tap.parts, GTRAIN, sys.argv[1:]))
