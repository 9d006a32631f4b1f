#!/usr/bin/env python3
"""class_losses.py - class weights and label smoothing beside PyTorch's CrossEntropyLoss, on ranks and in all modes (TAP)."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import exported  # noqa: E402
import tap  # noqa: E402
from training import GTRAIN, apart, curve, distance, gtrain, np, torch  # noqa: E402
import mixup  # noqa: E402
import models  # noqa: E402

F, SAMPLES, BOUND = torch.nn.functional, mixup.SAMPLES, 1e-5
SIZES, CLASSES = [6, 16, 5], 5
WEIGHTS = [0.5, 3, 1, 0, 2.25]
COMMON = [*mixup.COMMON, *mixup.SGD, "--lr", 0.05]


# ---- data and PyTorch's run ----

def make_table(folder):
    """Few samples of class 1, none of class 3."""
    rng = np.random.default_rng(7)
    y = np.append(rng.choice([0, 0, 0, 2, 2, 4], SAMPLES - 2), [1, 4])
    x = (rng.normal(size=(SAMPLES, SIZES[0])) + 0.4 * y[:, None]).astype(np.float32)
    np.savez(f"{folder}/table.npz", x=x, y=y.astype(np.int32))
    return torch.from_numpy(x), torch.from_numpy(y).long()


def network():
    return torch.nn.Sequential(torch.nn.Linear(*SIZES[:2]), torch.nn.ReLU(), torch.nn.Linear(*SIZES[1:]))


def balanced(y):
    counts = torch.bincount(y, minlength=CLASSES)
    return torch.where(counts > 0, len(y) / (counts > 0).sum() / counts.clamp(min=1), 0.).float()


def reference(folder, x, y, weights, smoothing, world, batch, accumulate, epochs):
    """The mean of a step's loss is over the targets of all ranks and micro-batches, so they are one batch here."""
    torch.manual_seed(1)
    net = network()
    torch.save(net.state_dict(), f"{folder}/start.pth")
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for epoch in range(epochs):
        read = [mixup.batches(world, rank, batch, epoch) for rank in range(world)]
        for first in range(0, len(read[0]), accumulate):
            rows = [k for i in range(first, min(first + accumulate, len(read[0]))) for rank in range(world) for k in read[rank][i]]
            loss = F.cross_entropy(net(x[rows]), y[rows], weight=weights, label_smoothing=smoothing)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append({"loss": float(loss)})
    return net, losses


def args(folder, out, epochs, weights, smoothing, *more):
    loss = ["--loss", f"cross-entropy:label-smoothing={smoothing}"] if smoothing else []
    spec = ["--class-weights", weights if isinstance(weights, str) else ",".join(map(str, weights))] if weights else []
    return ["train", "--model", "mlp:" + ",".join(map(str, SIZES)), "--data", f"npz:{folder}/table.npz", "--epochs", epochs,
            "--init-from", f"{folder}/start.pth", "--out", f"{folder}/{out}", *COMMON, *loss, *spec, *more]


#       weights, smoothing, ranks, batch of each, accumulation, epochs
RUNS = [(WEIGHTS, 0, 1, 8, 1, 8), (WEIGHTS, 0, 2, 5, 2, 8), ("balanced", 0, 1, 8, 1, 8), ("balanced", 0, 2, 4, 1, 8),
        (None, 0.1, 1, 9, 1, 8), (None, 0.1, 2, 4, 2, 8), (WEIGHTS, 0.3, 1, 9, 1, 8), (WEIGHTS, 0.3, 2, 5, 2, 8)]


def beside(folder):
    x, y = make_table(folder)
    for k, (weights, smoothing, world, batch, accumulate, epochs) in enumerate(RUNS):
        tensor = balanced(y) if weights == "balanced" else torch.tensor(weights, dtype=torch.float32) if weights else None
        net, want = reference(folder, x, y, tensor, smoothing, world, batch, accumulate, epochs)
        gtrain(*args(folder, f"b{k}", epochs, weights, smoothing, "--batch", batch, "--nproc", world, "--accumulate", accumulate))
        got = curve(f"{folder}/b{k}")
        far, (bad, _) = apart(got, want), models.farthest(torch.load(f"{folder}/b{k}/model.pth"), net.state_dict())
        problem = f"{len(got)} steps, not {len(want)}" if len(got) != len(want) else ""
        yield (f"class weights {weights}, smoothing {smoothing}, {world} ranks of {batch}, {accumulate} micro-batches: PyTorch's curve",
               problem or ("" if far <= BOUND and bad <= 100 * BOUND else f"losses {far:.1e}, weights {bad:.1e}"))


# ---- modes ----

MODES = [(2, 4, ["--parallel", "dp"]), (2, 4, ["--parallel", "zero3"]), (2, 8, ["--tensor-parallel", 2]),
         (2, 8, ["--pipeline-parallel", 2, "--chunks", 2]), (1, 4, ["--accumulate", 2])]


def modes(folder):
    x, y = make_table(folder)
    for weights, smoothing in ((WEIGHTS, 0), (None, 0.2), (WEIGHTS, 0.2)):
        label = f"class weights {weights}, smoothing {smoothing}"
        reference(folder, x, y, None, 0, 1, 8, 1, 0)
        for k, (ranks, batch, more) in enumerate([(1, 8, []), *MODES]):
            out = f"m{bool(weights)}{smoothing}-{k}"
            gtrain(*args(folder, out, 6, weights, smoothing, "--nproc", ranks, "--batch", batch, "--drop-last", *more))
            if k:
                far = apart(curve(f"{folder}/{out}"), curve(f"{folder}/m{bool(weights)}{smoothing}-0"))
                yield f"{label}: {ranks} ranks {' '.join(map(str, more))} as one", "" if far <= BOUND else f"losses are apart by {far:.1e}"


def reproducible(folder):
    x, y = make_table(folder)
    reference(folder, x, y, None, 0, 1, 8, 1, 0)
    runs = [(1, 8, 1), (2, 4, 1), (4, 2, 1), (1, 2, 4), (2, 2, 2)]
    for k, (ranks, batch, micro) in enumerate(runs):
        gtrain(*args(folder, f"r{k}", 4, "balanced", 0.1, "--nproc", ranks, "--batch", batch, "--accumulate", micro, "--reproducible"))
        if k:
            yield f"--reproducible: {ranks} ranks, {micro} micro-batches have the bits of one", mixup.same(f"{folder}/r{k}", f"{folder}/r0")


def resumed(folder):
    """From the middle of an epoch of 6 steps."""
    x, y = make_table(folder)
    reference(folder, x, y, None, 0, 1, 8, 1, 0)
    more = ["--batch", 8, "--save-every", 4]
    gtrain(*args(folder, "whole", 3, "balanced", 0.1, *more))
    gtrain(*args(folder, "half", 3, "balanced", 0.1, *more))
    for name in sorted(os.listdir(f"{folder}/half/checkpoints"))[1:]:
        os.remove(f"{folder}/half/checkpoints/{name}")
    gtrain("train", "--resume", "auto", "--out", f"{folder}/half", "-q")
    far = distance(torch.load(f"{folder}/whole/model.pth"), torch.load(f"{folder}/half/model.pth"))
    yield "a resumed run has the bits of one that was not interrupted", "" if far == 0 else f"weights are apart by {far:.1e}"


# ---- with mixtures, in exported networks and in evaluations ----

def mixtures(folder):
    """PyTorch divides by the number of targets that are probabilities, whatever the class weights."""
    x, y = mixup.make_images(folder, (28, 28))
    net = mixup.start(folder, models.LeNet)
    weights = [0.5, 1, 2, 1, 0, 3, 1, 1, 1.5, 1]
    opt = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9)
    want = []
    for epoch in range(3):
        for i, rows in enumerate(mixup.batches(1, 0, 7, epoch)):
            images, target = mixup.mixture(x[rows], y[rows], 0.4, i, epoch)
            loss = F.cross_entropy(net(images), target, weight=torch.tensor(weights), label_smoothing=0.1)
            opt.zero_grad()
            loss.backward()
            opt.step()
            want.append({"loss": float(loss)})
    gtrain(*mixup.args(folder, "mixed", "lenet", 0.4, 3, "--init-from", f"{folder}/start.pth", "--lr", 0.005, *mixup.SGD, "--batch", 7,
                       "--class-weights", ",".join(map(str, weights)), "--loss", "cross-entropy:label-smoothing=0.1"))
    far = apart(curve(f"{folder}/mixed"), want)
    yield "mixup with class weights and label smoothing: PyTorch's curve", "" if far <= BOUND else f"losses are apart by {far:.1e}"


def exported_network(folder):
    x, y = make_table(folder)
    net, want = reference(folder, x, y, torch.tensor(WEIGHTS), 0.1, 2, 4, 1, 5)
    net.load_state_dict(torch.load(f"{folder}/start.pth"))
    exported.save(net, torch.zeros(2, SIZES[0]), f"{folder}/net.pt2")
    words = args(folder, "exported", 5, WEIGHTS, 0.1, "--batch", 4, "--nproc", 2)
    words[words.index("--model") + 1] = f"{folder}/net.pt2"
    gtrain(*words)
    far = apart(curve(f"{folder}/exported"), want)
    yield "a network of torch.export: PyTorch's curve", "" if far <= BOUND else f"losses are apart by {far:.1e}"


def evaluations(folder):
    """They measure cross-entropy itself."""
    x, y = make_table(folder)
    reference(folder, x, y, None, 0, 1, 8, 1, 0)
    gtrain(*args(folder, "run", 4, WEIGHTS, 0.2, "--batch", 8, "--val", f"npz:{folder}/table.npz"))
    net = network()
    net.load_state_dict(torch.load(f"{folder}/run/model.pth"))
    want, got = float(F.cross_entropy(net(x), y)), curve(f"{folder}/run", "val")[-1]["loss"]
    yield "evaluations are without class weights and smoothing", "" if abs(got / want - 1) <= BOUND else f"{got}, not {want}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(tap.run([beside, modes, reproducible, resumed, mixtures, exported_network, evaluations], GTRAIN, sys.argv[1:]))
