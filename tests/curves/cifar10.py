#!/usr/bin/env python3
"""
cifar10.py - ResNet-20 learns as well from the JPEGs of CIFAR-10 as it does in PyTorch: a table, and TAP.

cifar10.py [--epochs N] [--seeds N] [--threads N] [--results FILE]; `make check-cifar10` (an hour or two on two cores). Each run's result
is kept in FILE, so an interrupted check goes on with the runs that are missing; another program, PyTorch, archive or version of this
check has results of its own. Each side decodes the same files, has its own random numbers for first weights, order and augmentation, and the same recipe: batches of 128, images padded by 4
pixels, cropped and mirrored at random, SGD with momentum 0.9 and weight decay 1e-4, a learning rate that rises to 0.1 over 100 steps
and falls along half a cosine. Compared is the mean over the seeds of the share of test images that are right after the last epoch:
gtrain's may be at most one point below PyTorch's.

The images: cifar10-jpeg.tar.gz in the folder GTRAIN_TEST_DATA (default ../shared/data), with a folder for each class below train and test.
"""
import argparse
import hashlib
import io
import json
import math
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
from models import ResNet  # noqa: E402

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
ARCHIVE = os.path.join(os.environ.get("GTRAIN_TEST_DATA", "../shared/data"), "cifar10-jpeg.tar.gz")
BATCH, RATE, MOMENTUM, DECAY, WARMUP, PAD, BOUND = 128, 0.1, 0.9, 1e-4, 100, 4, 1.0
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)


def read(archive):
    """(pixels [n, 3, 32, 32] of 0 to 1, classes [n]) of train and test; classes by their sorted names."""
    found = {"train": {}, "test": {}}
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile():
                split, name, _ = member.name.removeprefix("./").split("/")
                pixels = np.asarray(Image.open(io.BytesIO(tar.extractfile(member).read())).convert("RGB"))
                found[split].setdefault(name, []).append(pixels)
    sets = {}
    for split, classes in found.items():
        pixels = np.concatenate([np.stack(classes[name]) for name in sorted(classes)])
        numbers = np.concatenate([np.full(len(classes[name]), i) for i, name in enumerate(sorted(classes))])
        sets[split] = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(numbers)
    return sets


def normalized(pixels):
    return (pixels.float() / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def augmented(pixels, generator):
    """Each image is cropped from one with a border of black pixels, and every second one is mirrored."""
    padded, out = F.pad(pixels, (PAD,) * 4), torch.empty_like(pixels)
    places = torch.randint(0, 2 * PAD + 1, (len(pixels), 2), generator=generator)
    flips = torch.rand(len(pixels), generator=generator) < 0.5
    for i, (y, x) in enumerate(places.tolist()):
        crop = padded[i, :, y:y + 32, x:x + 32]
        out[i] = crop.flip(2) if flips[i] else crop
    return out


def right(net, pixels, classes):
    net.eval()
    with torch.no_grad():
        return 100 * sum(int((net(normalized(p)).argmax(1) == c).sum())
                         for p, c in zip(pixels.split(500), classes.split(500))) / len(classes)


def theirs(sets, seed, epochs):
    torch.manual_seed(seed)
    net, generator = ResNet(), torch.Generator().manual_seed(seed)
    net.linear = torch.nn.Linear(net.linear.in_features, net.linear.out_features)  # that of oracle/models.py has no initial values
    for module in net.modules():  # as gtrain's
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            torch.nn.init.kaiming_normal_(module.weight)
    optimizer = torch.optim.SGD(net.parameters(), RATE, MOMENTUM, weight_decay=DECAY)
    pixels, classes = sets["train"]
    steps, step = epochs * math.ceil(len(classes) / BATCH), 0
    for _ in range(epochs):
        net.train()
        for chosen in torch.randperm(len(classes), generator=generator).split(BATCH):
            step += 1
            past = (step - WARMUP) / (steps - WARMUP)
            rate = step / WARMUP if step <= WARMUP else (1 + math.cos(math.pi * past)) / 2
            optimizer.param_groups[0]["lr"] = RATE * rate
            loss = F.cross_entropy(net(normalized(augmented(pixels[chosen], generator))), classes[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return right(net, *sets["test"])


def ours(folder, seed, epochs, threads):
    out = os.path.join(folder, f"run-{seed}")
    data = f"images:{os.path.abspath(ARCHIVE)},mean={'/'.join(map(str, MEAN))},std={'/'.join(map(str, STD))}"
    options = {"--model": "resnet20", "--data": f"{data},split=train", "--out": out, "--epochs": epochs, "--batch": BATCH,
               "--augment": "crop,flip", "--optimizer": "sgd", "--lr": RATE, "--momentum": MOMENTUM, "--weight-decay": DECAY,
               "--warmup": WARMUP, "--lr-schedule": "cosine", "--min-lr": 0, "--seed": seed, "--threads": threads}
    subprocess.run([GTRAIN, "train", "-q", *(str(word) for pair in options.items() for word in pair)], check=True)
    report = subprocess.run([GTRAIN, "eval", "--ckpt", out, "--data", f"{data},split=test", "--threads", str(threads), "--json"],
                            check=True, capture_output=True, text=True).stdout
    return 100 * json.loads(report)["top1"]


class Results:
    """The results of runs that have ended, in a file (or, if `path` is empty, in memory alone)."""

    def __init__(self, path):
        self.path, self.found = path, {}
        if path and os.path.exists(path):
            with open(path) as f:
                self.found = json.load(f)

    def get(self, key, run):
        """The result of run(), which is called if none is known for this key; the line tells that one was."""
        if key in self.found:
            print(f"# kept in {self.path}: {key}")
        else:
            self.found[key] = run()
            if self.path:
                with open(self.path + ".new", "w") as f:
                    json.dump(self.found, f, indent=2)
                os.replace(self.path + ".new", self.path)
        return self.found[key]


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()[:16]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--epochs", type=int, default=5)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--threads", type=int, default=os.cpu_count())
    options.add_argument("--results", default="")
    options = options.parse_args()
    if not os.path.exists(ARCHIVE):
        print(f"1..0 # SKIP there is no {ARCHIVE}")
        return 0
    torch.set_num_threads(options.threads)
    sets, rows, results = read(ARCHIVE), [], Results(options.results)
    recipe = f"{options.epochs} epochs, check {digest(__file__)}, archive of {os.path.getsize(ARCHIVE)} bytes"
    us, them = f"gtrain {digest(GTRAIN)}", f"PyTorch {torch.__version__}"
    print("# seed   gtrain %   PyTorch %", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, options.seeds + 1):
            rows.append((results.get(f"{us}, seed {seed}, {recipe}", lambda: ours(folder, seed, options.epochs, options.threads)),
                         results.get(f"{them}, seed {seed}, {recipe}", lambda: theirs(sets, seed, options.epochs))))
            print(f"# {seed:4}   {rows[-1][0]:8.2f}   {rows[-1][1]:9.2f}", flush=True)
    mine, peers = (statistics.mean(column) for column in zip(*rows))
    print(f"# mean   {mine:8.2f}   {peers:9.2f}")
    good = mine >= peers - BOUND
    print(f"{'ok' if good else 'not ok'} 1 - ResNet-20, {options.epochs} epochs of CIFAR-10: {mine:.2f} %, PyTorch {peers:.2f} %\n1..1")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
