#!/usr/bin/env python3
"""class_losses.py - class weights, label smoothing and ignored targets beside PyTorch's CrossEntropyLoss, on ranks and in all modes (TAP)."""
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
WEIGHTS, IGNORED = [0.5, 3, 1, 0, 2.25], -100
COMMON = [*mixup.COMMON, *mixup.SGD, "--lr", 0.05]


# ---- data and PyTorch's run ----

def make_table(folder):
    """Few samples of class 1, none of class 3."""
    rng = np.random.default_rng(7)
    y = np.append(rng.choice([0, 0, 0, 2, 2, 4], SAMPLES - 2), [1, 4])
    x = (rng.normal(size=(SAMPLES, SIZES[0])) + 0.4 * y[:, None]).astype(np.float32)
    np.savez(f"{folder}/table.npz", x=x, y=y.astype(np.int32))
    return torch.from_numpy(x), torch.from_numpy(y).long()


def ignore_some(folder, x, y):
    """Half of the targets become IGNORED, in an array and in a CSV table."""
    some = torch.where(torch.arange(SAMPLES) * 7 % 10 < 5, IGNORED, y)
    np.savez(f"{folder}/table.npz", x=x.numpy(), y=some.numpy())
    np.savetxt(f"{folder}/table.csv", np.hstack([x.numpy().astype(float), some.numpy()[:, None]]), delimiter=",", fmt=["%.9g"] * SIZES[0] + ["%d"])
    return some


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


def args(folder, out, epochs, weights, smoothing, *more, ignored=None):
    settings = [f"label-smoothing={smoothing}"] * bool(smoothing) + [f"ignore-index={ignored}"] * (ignored is not None)
    loss = ["--loss", "cross-entropy:" + ",".join(settings)] if settings else []
    spec = ["--class-weights", weights if isinstance(weights, str) else ",".join(map(str, weights))] if weights else []
    return ["train", "--model", "mlp:" + ",".join(map(str, SIZES)), "--data", f"npz:{folder}/table.npz", "--epochs", epochs,
            "--init-from", f"{folder}/start.pth", "--out", f"{folder}/{out}", *COMMON, *loss, *spec, *more]


def compare(label, out, net, want):
    got = curve(out)
    far, (bad, _) = apart(got, want), models.farthest(torch.load(f"{out}/model.pth"), net.state_dict())
    problem = f"{len(got)} steps, not {len(want)}" if len(got) != len(want) else ""
    return label, problem or ("" if far <= BOUND and bad <= 100 * BOUND else f"losses {far:.1e}, weights {bad:.1e}")


#       weights, smoothing, ranks, batch of each, accumulation, epochs
RUNS = [(WEIGHTS, 0, 1, 8, 1, 8), (WEIGHTS, 0, 2, 5, 2, 8), ("balanced", 0, 1, 8, 1, 8), ("balanced", 0, 2, 4, 1, 8),
        (None, 0.1, 1, 9, 1, 8), (None, 0.1, 2, 4, 2, 8), (WEIGHTS, 0.3, 1, 9, 1, 8), (WEIGHTS, 0.3, 2, 5, 2, 8)]


def beside(folder):
    x, y = make_table(folder)
    for k, (weights, smoothing, world, batch, accumulate, epochs) in enumerate(RUNS):
        tensor = balanced(y) if weights == "balanced" else torch.tensor(weights, dtype=torch.float32) if weights else None
        net, want = reference(folder, x, y, tensor, smoothing, world, batch, accumulate, epochs)
        gtrain(*args(folder, f"b{k}", epochs, weights, smoothing, "--batch", batch, "--nproc", world, "--accumulate", accumulate))
        yield compare(f"class weights {weights}, smoothing {smoothing}, {world} ranks of {batch}, {accumulate} micro-batches: PyTorch's curve",
                      f"{folder}/b{k}", net, want)


def ignored_classes(folder):
    """The mean is over the other targets of all ranks and micro-batches."""
    x, y = make_table(folder)
    some = ignore_some(folder, x, y)
    # ranks, batch of each, micro-batches, options; ranks that read, batch of each of them
    modes = [(1, 8, 1, [], 1, 8), (2, 5, 2, [], 2, 5), (2, 4, 1, ["--parallel", "dp"], 1, 8), (2, 4, 1, ["--parallel", "zero3"], 2, 4),
             (2, 8, 1, ["--tensor-parallel", 2], 1, 8), (2, 8, 1, ["--pipeline-parallel", 2], 1, 8)]
    for weights, smoothing in ((None, 0), (WEIGHTS, 0.2)):
        for world, batch, accumulate, more, readers, read in modes:
            net, want = reference(folder, x, some, torch.tensor(WEIGHTS) if weights else None, smoothing, readers, read, accumulate, 5)
            out = "-".join(map(str, ["i", bool(weights), world, accumulate, *more]))
            gtrain(*args(folder, out, 5, weights, smoothing, "--nproc", world, "--batch", batch, "--accumulate", accumulate, *more, ignored=IGNORED))
            yield compare(f"ignored class, weights {weights}, smoothing {smoothing}, {world} ranks of {batch}, {accumulate} micro-batches {more}",
                          f"{folder}/{out}", net, want)
    net, want = reference(folder, x, some, None, 0, 1, 8, 1, 5)
    words = args(folder, "csv", 5, None, 0, "--batch", 8, "--val", f"csv:{folder}/table.csv,standardise=no", ignored=IGNORED)
    words[words.index("--data") + 1] = f"csv:{folder}/table.csv,standardise=no"
    gtrain(*words)
    yield compare("an ignored number in a CSV table", f"{folder}/csv", net, want)
    with torch.no_grad():
        right = float(F.cross_entropy(net(x), some))
    got = curve(f"{folder}/csv", "val")[-1]
    yield "evaluations leave it out", "" if abs(got["loss"] / right - 1) < 1e-4 else f"{got}, not {right}"
    np.savez(f"{folder}/none.npz", x=x.numpy(), y=np.full(SAMPLES, IGNORED))
    for more in ([], ["--per-class"], ["--json"]):
        said = gtrain("eval", "--ckpt", f"{folder}/csv", "--data", f"npz:{folder}/none.npz", "-q", *more, status=1)
        yield f"without other targets there is nothing to evaluate {more}", "" if "no sample of the data has a target" in said else said


def ignored_tokens(folder):
    """An epoch is one step, and has all pairs of neighbours once, whatever the shift of its windows. A table of bigrams is the model."""
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 5, 6 * 64 + 1)
    ids.astype(np.uint16).tofile(f"{folder}/ids.bin")
    pairs = torch.from_numpy(ids)
    for ignored in (2, 0):
        table = torch.nn.Parameter(torch.randn(5, 5, generator=torch.Generator().manual_seed(1)))
        torch.save({"0.weight": table.detach().clone()}, f"{folder}/start.pth")
        opt, want = torch.optim.SGD([table], lr=0.5, momentum=0.9), []
        for _ in range(6):
            loss = F.cross_entropy(table[pairs[:-1]], pairs[1:], ignore_index=ignored)
            opt.zero_grad()
            loss.backward()
            opt.step()
            want.append({"loss": float(loss)})
        for world, batch, accumulate, more in ((1, 6, 1, []), (2, 3, 1, []), (3, 1, 2, []), (1, 2, 3, []), (2, 3, 1, ["--parallel", "zero2"])):
            out = f"{folder}/t{ignored}-{world}-{accumulate}-{len(more)}"
            gtrain("train", "--model", "seq:Embedding(5,5)", "--data", f"tokens:{folder}/ids.bin,vocab=5", "--epochs", 6, "--init-from",
                   f"{folder}/start.pth", "--nproc", world, "--batch", batch, "--accumulate", accumulate, "--out", out, *COMMON, "--lr", 0.5,
                   "--loss", f"cross-entropy:ignore-index={ignored}", *more)
            far = apart(curve(out), want)
            yield f"token {ignored} is ignored, {world} ranks of {batch}, {accumulate} micro-batches {more}", "" if far <= BOUND else f"losses are apart by {far:.1e}"


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
        gtrain(*args(folder, f"r{k}", 4, "balanced", 0.1, "--nproc", ranks, "--batch", batch, "--accumulate", micro, "--reproducible", ignored=2))
        if k:
            yield f"--reproducible: {ranks} ranks, {micro} micro-batches have the bits of one", mixup.same(f"{folder}/r{k}", f"{folder}/r0")


def resumed(folder):
    """From the middle of an epoch of 6 steps."""
    x, y = make_table(folder)
    reference(folder, x, y, None, 0, 1, 8, 1, 0)
    more = ["--batch", 8, "--save-every", 4]
    for name in ("whole", "half"):
        gtrain(*args(folder, name, 3, "balanced", 0.1, *more, ignored=2))
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
    sys.exit(tap.run([beside, ignored_classes, ignored_tokens, modes, reproducible, resumed, mixtures, exported_network, evaluations], GTRAIN, sys.argv[1:]))
