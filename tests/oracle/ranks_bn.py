#!/usr/bin/env python3
"""ranks_bn.py - batch normalisation on several ranks: over all samples as one rank and PyTorch do it, or rank by rank (TAP)."""
import json
import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
import training  # noqa: E402
from training import BATCH, GTRAIN, ROWS, apart, curve, sampled, torch, use_isa  # noqa: E402
import models  # noqa: E402
import numpy as np  # noqa: E402

torch.set_num_threads(1)
SIDE = 16
# ResNets are chaotic (see models.py): the rate is one at which 1e-6 means something, and that still trains.
SLOW = ["--optimizer", "sgd", "--lr", "5e-6", "--weight-decay", "0"]
STEPS = 20  # four epochs


def make_data(folder):
    """Images of ten classes in MNIST's files: a pattern and noise. Their scale differs, so that statistics of parts do."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 10, ROWS)
    images = rng.integers(0, 160, (10, SIDE, SIDE))[labels] + rng.integers(0, 96, (ROWS, SIDE, SIDE))
    images = (images * rng.uniform(0.3, 1, (ROWS, 1, 1))).astype(np.uint8)
    with open(f"{folder}/train-images-idx3-ubyte", "wb") as f:
        f.write(struct.pack(">4I", 0x803, ROWS, SIDE, SIDE) + images.tobytes())
    with open(f"{folder}/train-labels-idx1-ubyte", "wb") as f:
        f.write(struct.pack(">2I", 0x801, ROWS) + labels.astype(np.uint8).tobytes())
    return torch.tensor(images).float(), torch.tensor(labels)


def network():
    net = models.ResNet()
    net.conv1 = torch.nn.Conv2d(1, 16, 3, 1, 1, bias=False)
    torch.manual_seed(4)
    for name, p in net.named_parameters():
        if p.dim() > 1:
            torch.nn.init.kaiming_normal_(p)
        else:
            torch.nn.init.constant_(p, float(name.endswith("weight")))
    return net


def train(folder, name, nproc, *options, data="random:,samples=60", batch=BATCH):
    return training.train(folder, name, "resnet20", data, nproc, [*SLOW, "--steps", STEPS, *options], batch)


def statistics_apart(a, b):
    """Of running means and variances, as a share of each tensor's largest; counters are equal."""
    far = 0
    for key, x in a.items():
        if "num_batches" in key and not torch.equal(x, b[key]):
            return float("inf")
        if "running" in key:
            far = max(far, float((x - b[key]).abs().max() / b[key].abs().max()))
    return far


def reference(state, images, labels, steps):
    """PyTorch in one process, on the whole batch."""
    net = network()
    net.load_state_dict(state)
    opt = torch.optim.SGD(net.parameters(), lr=5e-6, momentum=0.9)
    losses = []
    for step in steps:
        index = [i for rank in step for i in rank]
        x = ((images[index] / 255 - 0.1307) / 0.3081)[:, None]
        loss = torch.nn.functional.cross_entropy(net(x), labels[index])
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(float(loss.detach()))
    return losses, net.state_dict()


def synchronized(folder):
    runs = {n: train(folder, "sync", n, "--sync-bn") for n in (2, 3, 4)}
    longer = train(folder, "sync", 1, "--sync-bn", "--steps", 50, "--save-every", STEPS)  # fewer steps do not show that it learns
    one, state = curve(longer), torch.load(f"{longer}/checkpoints/step-{STEPS:08}.pth")["model"]
    losses = [row["loss"] for row in one]
    yield "one rank learns", "" if sum(losses[-5:]) < 0.98 * sum(losses[:5]) else f"{losses}"
    for n in (2, 3, 4):
        far = apart(curve(runs[n]), one)
        stats = statistics_apart(torch.load(f"{runs[n]}/model.pth"), state)
        good = len(curve(runs[n])) == STEPS and far <= 1e-6 and stats <= 1e-5
        yield f"{n} ranks with --sync-bn have the curve of one, {STEPS} steps", "" if good else f"apart by {far:.1e}, {stats:.1e}"

    plain = train(folder, "plain", 2)
    far, stats = apart(curve(plain), one), statistics_apart(torch.load(f"{plain}/model.pth"), state)
    yield "without it they do not", "" if far > 1e-3 and stats > 1e-3 else f"apart by {far:.1e}, {stats:.1e}"

    plain = torch.load(f"{train(folder, 'plain', 1)}/model.pth")
    same = all(torch.equal(v, plain[k]) for k, v in state.items())
    yield "one rank with --sync-bn is one without, to the bit", "" if same else "it is another"

    far = apart(curve(train(folder, "halves", 2, "--sync-bn", "--accumulate", "2", batch=6)),
                curve(train(folder, "halves", 1, "--accumulate", "2", batch=6)))
    yield "micro-batches have statistics of their own", "" if far <= 1e-6 else f"apart by {far:.1e}"


def own_statistics(folder):
    """Without --sync-bn: all evaluate with the running statistics of rank 0, which are saved, or each with its own."""
    val = "random:,samples=36"
    options = ["--val", val, "--eval-every", "8", "--steps", "16", "--check-replicas", "1", "--seed", "0"]  # the seed of eval
    shared = train(folder, "shared", 3, *options)
    own = train(folder, "own", 3, *options, "--broadcast-buffers=no")
    saved = [torch.load(f"{out}/model.pth") for out in (shared, own)]
    yield "either way those of rank 0 are saved", "" if all(torch.equal(v, saved[1][k]) for k, v in saved[0].items()) else "no"
    alone = json.loads(subprocess.run([GTRAIN, "eval", "--ckpt", f"{shared}/model.pth", "--model", "resnet20", "--data", val, "--json"],
                                      check=True, capture_output=True, text=True).stdout)["loss"]
    far = [abs(curve(out, "val")[-1]["loss"] - alone) / alone for out in (shared, own)]
    yield "3 ranks evaluate what is saved", "" if far[0] <= 1e-6 else f"apart by {far[0]:.1e}"
    yield "with --broadcast-buffers=no each evaluates its own", "" if far[1] >= 1e-4 else f"apart by {far[1]:.1e}"


def pytorch(folder):
    images, labels = make_data(folder)
    torch.save(network().state_dict(), f"{folder}/init.pth")
    out = train(folder, "ours", 2, "--sync-bn", "--init-from", f"{folder}/init.pth", data=f"mnist:{folder}")
    ours, stats = [row["loss"] for row in curve(out)], torch.load(f"{out}/model.pth")
    losses, theirs = reference(torch.load(f"{folder}/init.pth"), images, labels, sampled(2, BATCH // 2, STEPS * BATCH // ROWS))
    far, stats = max(abs(a - b) / b for a, b in zip(ours, losses)), statistics_apart(stats, theirs)
    good = len(ours) == len(losses) == STEPS and far <= 1e-5 and stats <= 1e-5
    yield f"2 ranks are PyTorch on the whole batch: {STEPS} losses, statistics", "" if good else f"apart by {far:.1e}, {stats:.1e}"


if __name__ == "__main__":
    use_isa("AVX2")
    sys.exit(tap.run((synchronized, own_statistics, pytorch), GTRAIN, sys.argv[1:]))
