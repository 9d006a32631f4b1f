#!/usr/bin/env python3
"""mixup.py - --augment mixup beside PyTorch on the same mixtures, on ranks, in all modes, and resumed (TAP).

The weights are drawn here again, as lib/data/images/mixup.c does, from random numbers counted by seed, epoch, batch and rank. Images and
targets are mixed as torchvision's RandomMixup mixes them: with the batch rolled by one.
"""
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from training import GTRAIN, TESTS, apart, curve, distance, gtrain, np, torch, use_isa  # noqa: E402
from philox import philox  # noqa: E402
import models  # noqa: E402

F, SEED, SAMPLES, STREAM, BOUND = torch.nn.functional, 3, 43, 0x40000008, 1e-5
MEAN, STD = 0.4, 0.25
COMMON = ["--warmup", 0, "--lr-schedule", "constant", "--log-every", 1, "--seed", SEED, "-q", "--weight-decay", 0]
SGD = ["--optimizer", "sgd", "--momentum", 0.9]


# ---- weights ----

def log_gamma(shape, element, epoch):
    """The logarithm of a number from Gamma(shape), shape >= 1, by Marsaglia and Tsang; and a uniform number beside it."""
    d = shape - 1 / 3
    while True:
        counter = np.array([[element & 0xFFFFFFFF, element >> 32, STREAM, epoch]], dtype=np.uint64)
        u = [(float(w) + 0.5) * 2.0 ** -32 for w in philox(SEED, counter)[0]]
        x = math.sqrt(-2 * math.log(u[0])) * math.cos(u[1] * 2 * math.pi)
        v = (1 + x / math.sqrt(9 * d)) ** 3
        if v > 0 and math.log(u[2]) < x * x / 2 + d - d * v + d * math.log(v):
            return math.log(d * v), u[3]
        element += 1


def weight(alpha, number, epoch):
    (a, u), (b, v) = (log_gamma(alpha + (alpha < 1), number * 256 + k, epoch) for k in (0, 128))
    ratio = b - a + ((math.log(v) - math.log(u)) / alpha if alpha < 1 else 0)
    return np.float32(1 / (1 + math.exp(ratio)))


# ---- PyTorch's run ----

def make_images(folder, shape):
    rng = np.random.default_rng(5)
    patterns, y = rng.integers(0, 150, size=(10, *shape)), rng.integers(0, 10, SAMPLES)
    y[0] = 9
    x = (patterns[y] + rng.integers(0, 100, size=(SAMPLES, *shape))).astype(np.uint8)
    np.savez(f"{folder}/images.npz", x=x, y=y.astype(np.int32))
    return torch.from_numpy(x if x.ndim == 4 else x[..., None]), torch.from_numpy(y).long()


def batches(world, rank, batch, epoch, drop_last=0):
    line = f"{SAMPLES} {world} {rank} {batch} {drop_last} 1 1 {SEED} {epoch}\n"
    text = subprocess.run([os.path.join(TESTS, "sampler_dump")], input=line, check=True, capture_output=True, text=True).stdout
    return [[int(i) for i in row.split()] for row in text.splitlines()[1:-1]]


def mixture(x, y, alpha, number, epoch):
    """Images [B, C, H, W] and probabilities [B, 10]."""
    w = torch.tensor(weight(alpha, number, epoch))
    images = x.float() * w + x.float().roll(1, 0) * (1 - w)
    one = F.one_hot(y, 10).float()
    return ((images / 255 - MEAN) / STD).permute(0, 3, 1, 2), one * w + one.roll(1, 0) * (1 - w)


def start(folder, network):
    torch.manual_seed(1)
    net = network()
    for m in net.modules():
        if isinstance(m, torch.nn.Linear):
            torch.nn.Linear.reset_parameters(m)
    torch.save(net.state_dict(), f"{folder}/start.pth")
    return net


def reference(net, x, y, alpha, lr, world, batch, accumulate, epochs):
    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    losses = []
    for epoch in range(epochs):
        read = [batches(world, rank, batch, epoch) for rank in range(world)]
        for first in range(0, len(read[0]), accumulate):
            runs = range(first, min(first + accumulate, len(read[0])))
            count = sum(len(read[rank][i]) for rank in range(world) for i in runs)
            opt.zero_grad()
            total = 0
            for i in runs:
                for rank in range(world):
                    images, target = mixture(x[read[rank][i]], y[read[rank][i]], alpha, i * world + rank, epoch)
                    loss = F.cross_entropy(net(images), target, reduction="sum") / count
                    loss.backward()
                    total += float(loss)
            opt.step()
            losses.append({"loss": total})
    return losses


#         name, network, shape, alpha, learning rate, ranks, batch of each, accumulation, epochs
NETWORKS = [("lenet", models.LeNet, (28, 28), 0.2, 0.005, 1, 7, 1, 4),  # the last batch of an epoch has one image
            ("lenet", models.LeNet, (28, 28), 1, 0.005, 2, 5, 1, 4),
            ("lenet", models.LeNet, (28, 28), 3, 0.005, 2, 4, 2, 5),
            ("resnet20", models.ResNet, (32, 32, 3), 0.4, 2e-5, 1, 9, 1, 4)]


def args(folder, out, model, alpha, epochs, *more):
    return ["train", "--model", model, "--data", f"npz:{folder}/images.npz,mean={MEAN},std={STD}", "--augment", f"mixup:alpha={alpha}",
            "--epochs", epochs, "--out", f"{folder}/{out}", *COMMON, *more]


def beside(folder):
    for i, (name, network, shape, alpha, lr, world, batch, accumulate, epochs) in enumerate(NETWORKS):
        x, y = make_images(folder, shape)
        net = start(folder, network)
        gtrain(*args(folder, f"b{i}", name, alpha, epochs, "--init-from", f"{folder}/start.pth", "--lr", lr, *SGD, "--batch", batch,
                     "--nproc", world, "--accumulate", accumulate))
        want = reference(net, x, y, alpha, lr, world, batch, accumulate, epochs)
        got = curve(f"{folder}/b{i}")
        far = apart(got, want)
        steps = f"{len(got)} steps, not {len(want)}" if len(got) != len(want) else ""
        weights, _ = models.farthest(torch.load(f"{folder}/b{i}/model.pth"), net.state_dict())
        yield (f"{name}, alpha {alpha}, {world} ranks of {batch}, {accumulate} micro-batches, {len(want)} steps beside PyTorch",
               steps or ("" if far <= BOUND and weights <= 100 * BOUND else f"losses {far:.1e}, weights {weights:.1e}"))


# ---- modes ----

# Runs of a row train on the same mixtures: ranks, batch of each, options; first the one that others are compared with.
MODES = [("lenet", (28, 28), [(2, 4, []), *((2, 4, ["--parallel", kind]) for kind in ("mirrored", "zero1", "zero2", "zero3"))]),
         ("lenet", (28, 28), [(1, 8, []), (2, 4, ["--parallel", "dp"]), (2, 8, ["--pipeline-parallel", 2, "--chunks", 2]),
                              (1, 8, ["--recompute", "all"]),
                              (1, 8, ["--workers", 0]), (1, 8, ["--prefetch", 7, "--workers", 3])]),
         ("mlp:784,24,16,10", (28, 28), [(1, 8, []), (2, 8, ["--tensor-parallel", 2])]),
         ("vit:image=28,patch=7,layers=1,heads=2,width=16,classes=10", (28, 28), [(1, 8, []), (2, 8, ["--tensor-parallel", 2])])]
LOW = [("bf16", 2e-2), ("fp16", 5e-3)]


def modes(folder):
    for i, (model, shape, runs) in enumerate(MODES):
        make_images(folder, shape)
        for k, (ranks, batch, options) in enumerate(runs):
            gtrain(*args(folder, f"m{i}-{k}", model, 0.3, 2, "--lr", 0.005, *SGD, "--nproc", ranks, "--batch", batch, *options))
            if k:
                far = apart(curve(f"{folder}/m{i}-{k}"), curve(f"{folder}/m{i}-0"))
                yield (f"{model}: {ranks} ranks {' '.join(map(str, options))} as {runs[0][0]} of them",
                       "" if far <= BOUND else f"losses are apart by {far:.1e}")
    for low, bound in LOW:
        make_images(folder, (28, 28))
        gtrain(*args(folder, low, "lenet", 0.3, 2, "--lr", 0.005, *SGD, "--batch", 8, "--amp", low))
        far = apart(curve(f"{folder}/{low}"), curve(f"{folder}/m1-0"))
        yield f"--amp {low} as float32", "" if 0 < far <= bound else f"losses are apart by {far:.1e}"


def same(a, b):
    if [row["loss"] for row in curve(a)] != [row["loss"] for row in curve(b)]:
        return "other losses"
    return "" if distance(torch.load(f"{a}/model.pth"), torch.load(f"{b}/model.pth")) == 0 else "other weights"


#       global batch of 8: ranks, micro-batches, options
BITS = [(1, 1, []), (2, 1, []), (4, 1, []), (2, 1, ["--parallel", "dp"]), (4, 1, ["--parallel", "zero3"]), (1, 4, []), (2, 2, [])]


def reproducible(folder):
    make_images(folder, (28, 28))
    for k, (ranks, micro, options) in enumerate(BITS):
        gtrain(*args(folder, f"r{k}", "lenet", 0.2, 2, "--lr", 0.005, *SGD, "--nproc", ranks, "--batch", 8 // ranks // micro,
                     "--accumulate", micro, "--reproducible", *options))
        if k:
            yield (f"--reproducible: {ranks} ranks, {micro} micro-batches {' '.join(options)} have the bits of one",
                   same(f"{folder}/r{k}", f"{folder}/r0"))


def resumed(folder):
    """From the middle of an epoch of 6 steps."""
    make_images(folder, (28, 28))
    for k, more in enumerate(([], ["--nproc", 2, "--parallel", "zero2"])):
        run = [*SGD, "--lr", 0.005, "--batch", 8, *more]
        gtrain(*args(folder, f"whole{k}", "lenet", 0.2, 3, *run))
        gtrain(*args(folder, f"half{k}", "lenet", 0.2, 3, *run, "--save-every", 4))
        last = sorted(os.listdir(f"{folder}/half{k}/checkpoints"))
        for name in last[1:]:
            os.remove(f"{folder}/half{k}/checkpoints/{name}")
        gtrain(*args(folder, f"half{k}", "lenet", 0.2, 3, *run, "--save-every", 4, "--resume", "auto"))
        whole, half = curve(f"{folder}/whole{k}"), curve(f"{folder}/half{k}")
        tail = {row["step"]: row["loss"] for row in half}
        problem = "" if [tail.get(row["step"]) for row in whole] == [row["loss"] for row in whole] else "other losses"
        yield (f"a resumed run has the bits of one that was not interrupted {' '.join(map(str, more))}",
               problem or ("" if distance(torch.load(f"{folder}/whole{k}/model.pth"), torch.load(f"{folder}/half{k}/model.pth")) == 0
                           else "other weights"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    use_isa()
    sys.exit(tap.run([beside, modes, reproducible, resumed], GTRAIN, sys.argv[1:]))
