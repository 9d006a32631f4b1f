"""executorch.py - ExecuTorch's example network for CIFAR-10 in gtrain beside PyTorch: the loss curve and the time of a step (make check-executorch).

The network, the optimizer, the batch, the loss and the normalization are those of the README in extension/training/examples/CIFAR of
ExecuTorch, which trains in PyTorch and in ExecuTorch: SGD with a learning rate of 0.001 and momentum 0.9, batches of 4, cross-entropy, an
epoch of 100 images of each class. Left out is what draws other random numbers in each program: the curves are those without the
dropout (p = 0) and without random crops and flips. Times are those with the dropout. gtrain's time has the reading of the data in it,
PyTorch's has not.

The images: cifar10-jpeg.tar.gz in the folder GTRAIN_TEST_DATA, or else random ones, whose brightness tells the class.
"""
import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

THREADS = int(os.environ.get("OMP_NUM_THREADS", min(2, os.cpu_count() or 1)))  # of PyTorch, and of all ranks together
os.environ["OMP_NUM_THREADS"] = str(THREADS)
try:
    import numpy as np
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from PIL import Image
except ImportError as e:
    sys.exit(f"check-executorch: {sys.executable} has no {e.name}; ZOO_PYTHON must name a python with torch >= 2.9")

BATCH, RATE, MOMENTUM, SEED = 4, 0.001, 0.9, 3
CLASSES, PER_CLASS, FILES = 10, 100, 5
IMAGES = CLASSES * PER_CLASS
STEPS, WINDOW = IMAGES // BATCH, 20  # of an epoch; in a row, of which the fastest count, as the machine may be busy
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
CURVE = 1e-5
RANKS = (1, 2, 4)


class Cifar(nn.Module):
    """Three convolutions, each with ReLU and max pooling, and two linear layers."""

    def __init__(self, p):
        super().__init__()
        widths = (3, 32, 64, 128)
        self.features = nn.Sequential(*(m for a, b in zip(widths, widths[1:])
                                        for m in (nn.Conv2d(a, b, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2, 2))))
        self.classifier = nn.Sequential(nn.Linear(128 * 4 * 4, 512), nn.ReLU(inplace=True), nn.Dropout(p), nn.Linear(512, CLASSES))

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


# ---- the data ----

def real_images(archive):
    """The first images of each class, in the order of their names."""
    found = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = member.name.removeprefix("./").split("/")
            if member.isfile() and parts[0] == "train" and len(found.setdefault(parts[1], {})) < PER_CLASS:
                found[parts[1]][parts[2]] = np.asarray(Image.open(io.BytesIO(tar.extractfile(member).read())).convert("RGB"))
    return np.stack([found[c][k] for c in sorted(found) for k in sorted(found[c])]).transpose(0, 3, 1, 2)


def random_images():
    rng = np.random.default_rng(5)
    light = np.repeat(np.arange(CLASSES), PER_CLASS) * 20
    return np.clip(light[:, None, None, None] + rng.integers(0, 64, (IMAGES, 3, 32, 32)), 0, 255).astype(np.uint8)


def write_data(folder):
    """Write the binary files of CIFAR-10, and return their images and classes, in their order, and the images' source."""
    archive = os.path.join(os.environ.get("GTRAIN_TEST_DATA", "../shared/data"), "cifar10-jpeg.tar.gz")
    real = os.path.exists(archive)
    x, y = real_images(archive) if real else random_images(), np.repeat(np.arange(CLASSES, dtype=np.uint8), PER_CLASS)
    order = np.random.default_rng(6).permutation(IMAGES)
    x, y = x[order], y[order]
    for i, (images, classes) in enumerate(zip(np.split(x, FILES), np.split(y, FILES))):
        rows = np.concatenate([classes[:, None], images.reshape(len(images), -1)], 1)
        rows.tofile(f"{folder}/data_batch_{i + 1}.bin")
    return x, y, "CIFAR-10" if real else "random"


def batches(x, y, tests):
    """The batches of an epoch of gtrain, normalized as it does."""
    done = subprocess.run([f"{tests}/sampler_dump"], input=f"{IMAGES} 1 0 {BATCH} 1 1 1 {SEED} 0\n", capture_output=True, text=True, check=True)
    rows = [[int(i) for i in line.split()] for line in done.stdout.splitlines()[1:1 + STEPS]]
    pixels = (torch.from_numpy(x).float() / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    return [(pixels[row], torch.from_numpy(y[row]).long()) for row in rows]


# ---- PyTorch ----

def fastest(clock):
    """Milliseconds of a step in the WINDOW steps that took the least time; clock[i]: seconds at the end of step i."""
    return min(1e3 * (b - a) / WINDOW for a, b in zip(clock, clock[WINDOW:]))


def train_torch(module, data, dtype=torch.float32):
    """Return the losses, and the time of a step in milliseconds."""
    module = module.to(dtype).train()
    optimizer, losses, clock = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM), [], []
    for x, target in data:
        x = x.to(dtype)
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        clock.append(time.perf_counter())
    return losses, fastest(clock)


def network(p, weights=None):
    torch.manual_seed(7)
    module = Cifar(p)
    if weights:
        module.load_state_dict(weights)
    return module.train()


def export(module, example, path):
    torch.export.save(torch.export.export(module, (example,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)), path)


# ---- gtrain ----

def train_gtrain(program, folder, name, ranks):
    """Return the losses, the time of a step in milliseconds, and the weights."""
    out = f"{folder}/{name}-{ranks}"
    settings = f"mean={'/'.join(map(str, MEAN))},std={'/'.join(map(str, STD))}"
    subprocess.run([program, "train", "--model", f"{folder}/{name}.pt2", "--data", f"cifar10:{folder}/data,{settings}", "--optimizer", "sgd", "--lr", str(RATE),
                    "--momentum", str(MOMENTUM), "--weight-decay", "0", "--lr-schedule", "constant", "--warmup", "0", "--batch", str(BATCH // ranks),
                    "--nproc", str(ranks), "--threads", str(max(1, THREADS // ranks)), "--steps", str(STEPS), "--log-every", "1", "--seed", str(SEED),
                    "--out", out, "-q"], check=True)
    with open(f"{out}/metrics.jsonl") as f:
        rows = [row for row in map(json.loads, f) if row["split"] == "train"]
    return [row["loss"] for row in rows], fastest([row["time_s"] for row in rows]), torch.load(f"{out}/model.pth")


def apart(a, b):
    assert len(a) == len(b) == STEPS, (len(a), len(b))
    return max(abs(x - y) / abs(y) for x, y in zip(a, b))


def steps_within(a, b):
    """Return the number of steps before the losses are further apart than CURVE."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if not abs(x - y) <= CURVE * abs(y)), STEPS)


def main():
    parser = argparse.ArgumentParser(prog="check-executorch")
    parser.add_argument("--gtrain", required=True, help="the program")
    parser.add_argument("--tests", required=True, help="folder of sampler_dump")
    args = parser.parse_args()
    torch.set_num_threads(THREADS)
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/data")
        x, y, source = write_data(f"{folder}/data")
        data = batches(x, y, args.tests)
        export(network(0.0), data[0][0], f"{folder}/curve.pt2")
        export(network(0.5), data[0][0], f"{folder}/timed.pt2")
        (single, _), (double, _) = train_torch(network(0.0), data), train_torch(network(0.0), data, torch.float64)
        _, eager = train_torch(network(0.5), data)
        print(f"{STEPS} steps of {BATCH} {source} images; PyTorch {torch.__version__} eager, {THREADS} thread{'s' * (THREADS > 1)}")
        print(f"loss {double[0]:.4f}, {statistics.mean(double[-WINDOW:]):.4f} at the end")
        # A ReLU or a maximum of numbers that are all but equal goes the other way after one rounding: then PyTorch's own curves differ, too.
        own, good = apart(single, double), True
        bound = max(CURVE, 2 * own)
        print(f"{'':10}  {'curve':>8}  {'to float64':>10}  {f'within {CURVE}':>12}  {'ms':>6}  {'speed':>6}")
        print(f"{'PyTorch':10}  {'':8}  {own:10.1e}  {steps_within(single, double):6} steps  {eager:6.2f}  {1:6.2f}")
        for ranks in RANKS:
            losses, _, weights = train_gtrain(args.gtrain, folder, "curve", ranks)
            _, ms, _ = train_gtrain(args.gtrain, folder, "timed", ranks)
            network(0.5, weights)  # the result fits the module
            far = [apart(losses, single), apart(losses, double)]
            good &= min(far) <= bound
            print(f"{f'{ranks} ranks' if ranks > 1 else '1 rank':10}  {far[0]:8.1e}  {far[1]:10.1e}  {steps_within(losses, single):6} steps  {ms:6.2f}  {eager / ms:6.2f}", flush=True)
    print(f"{'passes' if good else 'curves differ'}: a curve must be within {bound:.1e} of one of PyTorch's, which are {own:.1e} apart")
    sys.exit(not good)


if __name__ == "__main__":
    main()
