"""regression.py - regression on a table beside PyTorch's: the same start, batches and optimizer give the same curve."""
import csv
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
except ImportError:
    print("1..0 # SKIP python has no torch or no numpy")
    sys.exit(0)

F = torch.nn.functional
GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
ROWS, STEPS, WORDS = 64, 100, ["green", "red"]
LOSSES = {"mse": F.mse_loss, "l1": F.l1_loss, "huber:delta=0.4": lambda y, t, **k: F.huber_loss(y, t, delta=0.4, **k),
          "huber": F.huber_loss, "smooth-l1:beta=0.3": lambda y, t, **k: F.smooth_l1_loss(y, t, beta=0.3, **k)}
os.environ["OMP_NUM_THREADS"] = "1"
torch.set_num_threads(1)


def gtrain(*args):
    done = subprocess.run([GTRAIN, *map(str, args)], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def make_table(path, seed):
    rng = np.random.default_rng(seed)
    with open(path, "w") as f:
        f.write("x,colour,y,price\n")
        for _ in range(ROWS):
            x, y, word = rng.normal(30, 9), rng.normal(), WORDS[rng.integers(2)]
            f.write(f"{x:.4f},{word},{y:.4f},{1e5 + 900 * x * (1 + 0.2 * y) + 4e3 * (word == 'red') + rng.normal(0, 100):.2f}\n")


def scaled(v, mean=None, std=None):
    mean, std = (v.mean(), v.std()) if mean is None else (mean, std)
    return ((v - mean) / std).astype(np.float32), mean, std


def read_table(path, standardise, scale=None):
    """Features and targets as gtrain has to make them, and the scale of each column of numbers."""
    with open(path) as f:
        rows = list(csv.DictReader(f))
    columns = [np.array([row[k] for row in rows], dtype=np.float64) for k in ("x", "y", "price")]
    known = scale or [(None, None)] * 3
    if standardise:
        columns, scale = map(list, zip(*[(c, (m, s)) for c, m, s in (scaled(c, *k) for c, k in zip(columns, known))]))
    words = [np.array([row["colour"] == w for row in rows], dtype=np.float32) for w in WORDS]
    x = np.stack([columns[0], *words, columns[1]], 1).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(columns[2].astype(np.float32)), scale or [(0, 1)] * 3


def prices(path):
    with open(path) as f:
        return [float(row["price"]) for row in csv.DictReader(f)]


def network(sizes):
    layers = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        layers += [torch.nn.ReLU()] * (i > 0) + [torch.nn.Linear(a, b)]
    return torch.nn.Sequential(*layers)


def curve(out):
    with open(f"{out}/metrics.jsonl") as f:
        return [row["loss"] for row in map(json.loads, f) if row["split"] == "train"]


def check(folder, name, sizes, kind, lr, loss_name, standardise, nproc, readers, more=()):
    """The whole table is one batch, so that the order of its rows does not matter."""
    torch.manual_seed(4)
    net = network(sizes)
    start, out = f"{folder}/start.pth", f"{folder}/{name}-{nproc}".replace(" ", "-")
    torch.save(net.state_dict(), start)
    data = f"csv:{folder}/t.csv" + ("" if standardise else ",standardise=no")
    gtrain("train", "--model", "mlp:" + ",".join(map(str, sizes)), "--data", data, "--init-from", start, "--optimizer", kind, "--lr", lr,
           "--weight-decay", 0, "--batch", ROWS // readers, "--nproc", nproc, "--steps", STEPS, "--warmup", 0, "--lr-schedule", "constant",
           "--log-every", 1, "--out", out, "-q", *(["--loss", loss_name] if loss_name else []), *more)
    x, y, scale = read_table(f"{folder}/t.csv", standardise)
    optimizer = {"sgd": lambda p: torch.optim.SGD(p, lr, momentum=0.9), "adam": lambda p: torch.optim.Adam(p, lr)}[kind](net.parameters())
    losses = []
    for _ in range(STEPS):
        loss = LOSSES[loss_name or "mse"](net(x)[:, 0], y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    ours = curve(out)
    far = max(abs(a - b) / abs(b) for a, b in zip(ours, losses))
    assert len(ours) == STEPS and far <= 1e-5, f"{len(ours)} steps, apart by {far:.1e}"
    assert losses[-1] < 0.5 * losses[0]
    return net, scale, out, loss_name or "mse"


def evaluated(folder, net, scale, out, loss_name):
    """eval's numbers are those of the weights on other rows, in the target's own units."""
    x, y, _ = read_table(f"{folder}/v.csv", True, scale)
    net.load_state_dict(torch.load(f"{out}/model.pth"))
    mean, std = scale[2]
    with torch.no_grad():
        predicted = net(x)[:, 0].double() * float(std) + float(mean)
    target = y.double() * float(std) + float(mean)
    error = predicted - target
    wanted = {"loss": float(LOSSES[loss_name](predicted / float(std), target / float(std))), "mse": float((error ** 2).mean()), "mae": float(error.abs().mean()),
              "r2": 1 - float((error ** 2).sum() / ((target - target.mean()) ** 2).sum())}
    for nproc in (1, 2):
        got = json.loads(gtrain("eval", "--ckpt", out, "--data", f"csv:{folder}/v.csv", "--json", "-q", "--batch", 24, "--nproc", nproc,
                                "--predictions", f"{folder}/p.csv"))
        for key, value in wanted.items():
            assert abs(got[key] / value - 1) < 1e-4, (key, got[key], value)
        assert list(got) == ["loss", "mse", "mae", "r2", "n"] and got["n"] == ROWS
        table = np.genfromtxt(f"{folder}/p.csv", delimiter=",", skip_header=1)
        assert np.array_equal(table[:, 1], prices(f"{folder}/v.csv")) and np.abs(table[:, 2] / predicted.numpy() - 1).max() < 1e-5


def main():
    with tempfile.TemporaryDirectory() as folder:
        make_table(f"{folder}/t.csv", 1)
        make_table(f"{folder}/v.csv", 2)
        linear, mlp = ("linear", [4, 1], "sgd", 0.05, None), ("mlp", [4, 16, 8, 1], "adam", 0.003, None)
        others = [(f"mlp {loss.split(':')[0]}", [4, 16, 8, 1], "sgd", 0.02, loss) for loss in LOSSES if loss != "huber"]
        # ranks, those of them that read samples of their own, options; the last one is evaluated
        modes = [(1, 1, ()), (2, 2, ()), (2, 2, ("--parallel", "dp")), (2, 2, ("--reproducible",)), (2, 2, ("--parallel", "zero2"))]
        shared = [(2, 1, ("--tensor-parallel", 2)), (2, 1, ("--pipeline-parallel", 2)),
                  (4, 2, ("--tensor-parallel", 2, "--parallel", "zero1"))]
        runs = [(model, True, *mode) for model, all_modes in ((linear, modes), (mlp, shared + modes)) for mode in all_modes]
        runs.insert(0, (("raw", [4, 1], "sgd", 1e-5, None), False, 1, 1, ()))
        runs += [(model, True, *mode) for model in others for mode in modes[:4]]
        print(f"1..{len(runs) + 1 + len(others)}")
        good, last = True, {}
        for number, ((name, *model), scaled_up, nproc, readers, more) in enumerate(runs, 1):
            label = f"{name}, {nproc} rank{'s' * (nproc > 1)}{''.join(f' {word}' for word in more)}"
            try:
                last[name] = check(folder, "-".join((name, *map(str, more))), *model, scaled_up, nproc, readers, more)
                print(f"ok {number} - {label}: PyTorch's curve", flush=True)
            except (AssertionError, RuntimeError) as e:
                good = False
                print(f"not ok {number} - {label}\n# {e}", flush=True)
        for number, name in enumerate(["mlp", *(model[0] for model in others)], len(runs) + 1):
            try:
                evaluated(folder, *last[name])
                print(f"ok {number} - eval, {name}: its loss, MSE, MAE, R2 and predictions of other rows")
            except (AssertionError, RuntimeError, KeyError) as e:
                good = False
                print(f"not ok {number} - eval, {name}\n# {e}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
