"""user.py - what a user of an nn.Module does, by the manual alone: export, train on two ranks, evaluate, load back (make check-zoo-user).

The networks have blocks of their own: squeeze and excitation and a residual branch before a GRU that reads the rows of a picture, and
GRUs over a sequence, which is a row of a table or of an array. Each step of TASKS is a command of gtrain-models(7), or Python from there.
"""
import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import warnings

os.environ["OMP_NUM_THREADS"] = "1"
try:
    import numpy as np
    import onnxruntime
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from PIL import Image
    from modes import set_evaluating
except ImportError as e:
    sys.exit(f"check-zoo: {sys.executable} has no {e.name}; ZOO_PYTHON must name a python with torch >= 2.9, onnxruntime and Pillow")

CLOSE = 1e-5  # of scores and losses
STEPS, WIDTH = 24, 3  # of a sequence
PICTURES = ["bars", "checks", "disk", "noise"]
KINDS = ["slow", "even", "fast"]


class Excite(nn.Module):
    """Squeeze and excitation: channels are scaled by a function of their means."""

    def __init__(self, width):
        super().__init__()
        self.squeeze, self.excite = nn.Linear(width, width // 4), nn.Linear(width // 4, width)

    def forward(self, x):
        scale = torch.sigmoid(self.excite(torch.relu(self.squeeze(x.mean((2, 3))))))
        return x * scale[:, :, None, None]


class Block(nn.Module):
    def __init__(self, wide, out, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(wide, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True),
                                  nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out), Excite(out))
        self.branch = nn.Identity() if stride == 1 else nn.Sequential(nn.Conv2d(wide, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return torch.relu(self.body(x) + self.branch(x))


class Reader(nn.Module):
    """Reads the rows of a picture with a GRU in both directions."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.blocks = nn.ModuleList([Block(16, 16, 1), Block(16, 32, 2), Block(32, 32, 2)])
        self.gru, self.drop, self.head = nn.GRU(32, 24, batch_first=True, bidirectional=True), nn.Dropout(0.1), nn.Linear(48, len(PICTURES))

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        _, last = self.gru(x.mean(3).permute(0, 2, 1))
        return self.head(self.drop(torch.cat([last[0], last[1]], 1)))


class Series(nn.Module):
    """STEPS steps of WIDTH numbers, in a row."""

    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 32)
        self.gru, self.head = nn.GRU(32, 32, num_layers=2, dropout=0.1, batch_first=True), nn.Linear(32, len(KINDS))

    def forward(self, x):
        x = self.up(self.norm(x.view(x.size(0), STEPS, WIDTH)))
        y, _ = self.gru(x)
        return self.head((x + y)[:, -1])


# ---- data ----

def draw_picture(rng, kind):
    y, x = np.mgrid[0:32, 0:32]
    p, cy, cx = rng.integers(3, 7), rng.integers(10, 22), rng.integers(10, 22)
    shape = [x // p % 2, (x // p + y // p) % 2, (x - cx) ** 2 + (y - cy) ** 2 < 14 * p, rng.random((32, 32))][kind]
    light = shape[..., None] * rng.random(3) + rng.random(3) / 2 + rng.normal(0, 0.1, (32, 32, 3))
    return Image.fromarray((255 * np.clip(light / 1.5, 0, 1)).astype(np.uint8))


def write_pictures(folder, rng):
    """FOLDER/train/CLASS/N.png and FOLDER/val/CLASS/N.png. Return those of val as a batch, and their classes."""
    for split, count in (("train", 60), ("val", 15)):
        for kind, name in enumerate(PICTURES):
            os.makedirs(f"{folder}/pictures/{split}/{name}")
            for i in range(count):
                draw_picture(rng, kind).save(f"{folder}/pictures/{split}/{name}/{i:02}.png")
    files = [f"{folder}/pictures/val/{name}/{i:02}.png" for name in PICTURES for i in range(15)]
    return torch.stack([torch.from_numpy(np.array(Image.open(f))).permute(2, 0, 1) / 255 for f in files]), torch.arange(60) // 15


def draw_series(rng, count):
    kinds = rng.integers(0, len(KINDS), count)
    x = np.sin(0.35 * (kinds + 1)[:, None, None] * np.arange(STEPS)[:, None] + 6 * rng.random((count, 1, WIDTH))) + rng.normal(0, 0.3, (count, STEPS, WIDTH))
    return x.astype(np.float32).reshape(count, -1), kinds


def write_arrays(folder, rng):
    x, y = draw_series(rng, 300)
    v, w = draw_series(rng, 60)
    np.savez(f"{folder}/series.npz", x_train=x, y_train=y, x_val=v, y_val=w)
    return torch.from_numpy(v), torch.from_numpy(w)


def write_tables(folder, rng):
    for name, count in (("train", 300), ("val", 60)):
        x, y = draw_series(rng, count)
        with open(f"{folder}/{name}.csv", "w") as f:
            f.write(",".join(f"t{i}" for i in range(x.shape[1])) + ",kind\n")
            f.writelines(",".join(map(repr, map(float, row))) + f",{KINDS[k]}\n" for row, k in zip(x, y))
    return torch.from_numpy(x), torch.tensor([sorted(KINDS).index(KINDS[k]) for k in y])


TASKS = {  # name: the module, its data, --data, --val, what predict takes
    "pictures": (Reader, write_pictures, "images:{}/pictures", "images:{}/pictures", "{}/pictures/val"),
    "arrays": (Series, write_arrays, "npz:{}/series.npz", "npz:{}/series.npz,split=val", None),
    "tables": (Series, write_tables, "csv:{}/train.csv,standardise=no", "csv:{}/val.csv", "{}/val.csv"),
}


# ---- the steps ----

def gtrain(program, *args):
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"{args[0]}: {done.stderr}")
    return done.stdout


def far(a, b):
    return float((a - b).abs().max())


def try_task(program, folder, name):
    """Go through the steps, and return what a reader wants to see of them."""
    make, write, data, val, inputs = TASKS[name]
    torch.manual_seed(0)
    x, y = write(folder, np.random.default_rng(1))
    exported = torch.export.export(make().train(), (torch.randn(2, *x.shape[1:]),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(exported, f"{folder}/net.pt2")
    run = f"{folder}/run"
    gtrain(program, "train", "--model", f"{folder}/net.pt2", "--data", data.format(folder), "--val", val.format(folder), "--nproc", 2, "--batch", 16,
           "--steps", 150, "--out", run, "-q")
    weights = f"{run}/best.pth"
    result = json.loads(gtrain(program, "eval", "--ckpt", weights, "--data", val.format(folder).replace("pictures", "pictures,split=val"), "--json", "-q"))
    net = make()
    net.load_state_dict(torch.load(f"{run}/model.pth"), strict=True)
    net.load_state_dict(torch.load(weights), strict=True)
    with torch.no_grad():
        scores = net.eval()(x)
        loss = float(F.cross_entropy(scores, y))
        assert abs(loss - result["loss"]) < CLOSE * max(1, loss), (loss, result)
        gtrain(program, "ckpt", "convert", weights, "-o", f"{folder}/trained.pt2", "-q")
        again = set_evaluating(torch.export.load(f"{folder}/trained.pt2").module())
        assert far(again(x), scores) < CLOSE, far(again(x), scores)
    gtrain(program, "ckpt", "convert", weights, "-o", f"{folder}/net.onnx", "-q")
    onnx, = onnxruntime.InferenceSession(f"{folder}/net.onnx").run(None, {"input": x.numpy()})
    assert far(torch.from_numpy(onnx), scores) < CLOSE, far(torch.from_numpy(onnx), scores)
    if inputs:
        lines = gtrain(program, "predict", "--ckpt", weights, inputs.format(folder), "--top", 1, "--csv", "-q").splitlines()[1:]
        classes = sorted(PICTURES if name == "pictures" else KINDS)
        mine = torch.tensor([classes.index(line.split(",")[2]) for line in lines])
        assert torch.equal(mine, scores.argmax(1)), (mine, scores.argmax(1))
    share = float((scores.argmax(1) == y).float().mean())
    assert share > 0.6, share
    return f"loss {loss:.4f}, right {100 * share:.0f} %"


def main():
    parser = argparse.ArgumentParser(prog="check-zoo-user")
    parser.add_argument("--gtrain", required=True, help="the program")
    args = parser.parse_args()
    for name in TASKS:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name:10}  {try_task(os.path.abspath(args.gtrain), folder, name)}", flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    main()
