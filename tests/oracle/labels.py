#!/usr/bin/env python3
"""labels.py - several labels per sample: binary cross-entropy beside PyTorch's, and the scores of eval beside their formulas (TAP)."""
import csv
import io
import json
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import exported  # noqa: E402
import small_files  # noqa: E402
import tap  # noqa: E402
from training import GTRAIN, apart, curve, distance, gtrain, np, torch  # noqa: E402
import mixup  # noqa: E402

F, SAMPLES, BOUND = torch.nn.functional, mixup.SAMPLES, 1e-5
SIZES, NAMES = [6, 16, 4], ["rain", "wind", "hot, dry", "fog"]
WEIGHTS = [0.5, 3, 1, 2.25]
COMMON = [*mixup.COMMON, *mixup.SGD, "--lr", 0.05]


def make_table(folder):
    """Labels that the features tell, in an array and in a CSV table; the last one never holds."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(SAMPLES, SIZES[0])).astype(np.float32)
    y = (x[:, :4] + 0.5 * rng.normal(size=(SAMPLES, 4)) > [0, 0.5, -0.5, 99]).astype(np.float32)
    np.savez(f"{folder}/table.npz", x=x, y=y.astype(bool))
    with open(f"{folder}/table.csv", "w", newline="") as f:
        csv.writer(f).writerows([["a", *NAMES, *"bcdef"]] + [[repr(float(v[0])), *map(int, t), *map(repr, map(float, v[1:]))] for v, t in zip(x, y)])
    return torch.from_numpy(x), torch.from_numpy(y)


def network():
    return torch.nn.Sequential(torch.nn.Linear(*SIZES[:2]), torch.nn.ReLU(), torch.nn.Linear(*SIZES[1:]))


def balanced(y):
    holds = y.sum(0)
    return torch.where(holds > 0, (len(y) - holds) / holds.clamp(min=1), torch.ones(()))


def reference(folder, x, y, weights, world, batch, accumulate, epochs):
    torch.manual_seed(1)
    net, losses = network(), []
    torch.save(net.state_dict(), f"{folder}/start.pth")
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(epochs):
        read = [mixup.batches(world, rank, batch, epoch) for rank in range(world)]
        for first in range(0, len(read[0]), accumulate):
            rows = [k for i in range(first, min(first + accumulate, len(read[0]))) for rank in range(world) for k in read[rank][i]]
            loss = F.binary_cross_entropy_with_logits(net(x[rows]), y[rows], pos_weight=weights)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append({"loss": float(loss)})
    return net, losses


def args(folder, out, epochs, weights, *more, data="npz:{}/table.npz,task=labels", model="mlp:" + ",".join(map(str, SIZES))):
    spec = ["--class-weights", weights if isinstance(weights, str) else ",".join(map(str, weights))] if weights else []
    return ["train", "--model", model, "--data", data.format(folder), "--epochs", epochs, "--init-from", f"{folder}/start.pth", "--out",
            f"{folder}/{out}", "--loss", "bce", *COMMON, *spec, *more]


def compare(label, out, net, want, bound=BOUND):
    got = curve(out)
    far, bad = apart(got, want), distance(torch.load(f"{out}/model.pth"), dict(net.state_dict()))
    problem = f"{len(got)} steps, not {len(want)}" if len(got) != len(want) else ""
    return label, problem or ("" if far <= bound else f"losses {far:.1e}, weights {bad:.1e}")


#        ranks, batch of each, micro-batches, options; ranks that read, batch of each of them
MODES = [(1, 8, 1, [], 1, 8), (2, 5, 2, [], 2, 5), (2, 4, 1, ["--parallel", "dp"], 1, 8), (2, 4, 1, ["--parallel", "mirrored"], 2, 4),
         (2, 4, 1, ["--parallel", "zero3"], 2, 4), (2, 8, 1, ["--tensor-parallel", 2], 1, 8), (2, 8, 1, ["--pipeline-parallel", 2], 1, 8)]


def beside(folder):
    x, y = make_table(folder)
    for weights, tensor in ((None, None), (WEIGHTS, torch.tensor(WEIGHTS)), ("balanced", balanced(y))):
        for ranks, batch, accumulate, more, readers, read in MODES if weights == WEIGHTS else MODES[:2]:
            net, want = reference(folder, x, y, tensor, readers, read, accumulate, 6)
            out = "-".join(map(str, [str(weights)[:3], ranks, accumulate, *more]))
            gtrain(*args(folder, out, 6, weights, "--nproc", ranks, "--batch", batch, "--accumulate", accumulate, *more))
            yield compare(f"weights {weights}, {ranks} ranks of {batch}, {accumulate} micro-batches {more}: PyTorch's curve", f"{folder}/{out}", net, want)


def sources(folder):
    """A CSV table, an exported network, a stack, and images with a row of labels each."""
    x, y = make_table(folder)
    net, want = reference(folder, x, y, None, 1, 8, 1, 4)
    gtrain(*args(folder, "csv", 4, None, "--batch", 8, data="csv:{}/table.csv,standardise=no,labels=rain/wind/hot\\, dry/fog"))
    yield compare("a CSV table", f"{folder}/csv", net, want)
    gtrain(*args(folder, "seq", 4, None, "--batch", 8, model="seq:Linear(6,16),ReLU,Linear(16,4)"))
    yield compare("a stack", f"{folder}/seq", net, want)
    exported.save(network(), torch.zeros(2, SIZES[0]), f"{folder}/net.pt2")
    gtrain(*args(folder, "pt2", 4, None, "--batch", 4, "--nproc", 2, model=f"{folder}/net.pt2"))
    yield compare("an exported network", f"{folder}/pt2", *reference(folder, x, y, None, 2, 4, 1, 4))
    for amp, bound in (("bf16", 3e-2), ("fp16", 3e-3)):
        gtrain(*args(folder, amp, 4, WEIGHTS, "--batch", 8, "--amp", amp))
        yield compare(f"--amp {amp}", f"{folder}/{amp}", *reference(folder, x, y, torch.tensor(WEIGHTS), 1, 8, 1, 4), bound)
    rng = np.random.default_rng(4)
    np.savez(f"{folder}/images.npz", x=rng.integers(0, 255, (30, 8, 8, 3)).astype(np.uint8), y=rng.integers(0, 2, (30, 5)))
    gtrain("train", "--model", "seq:Conv2d(3,8,3),ReLU,Flatten,Linear(288,5)", "--data", f"npz:{folder}/images.npz,task=labels", "--epochs", 40, "--batch", 10,
           "--lr", 0.01, "--out", f"{folder}/images", "-q")
    got = json.loads(subprocess.run([GTRAIN, "eval", "--ckpt", f"{folder}/images", "--data", f"npz:{folder}/images.npz", "--json", "-q"],
                                    capture_output=True, text=True, check=True).stdout)
    with open(f"{folder}/one.png", "wb") as f:
        f.write(small_files.png(random.Random(1), 8))
    told = subprocess.run([GTRAIN, "predict", "--ckpt", f"{folder}/images", f"{folder}/one.png", "--csv", "--top", "5"], capture_output=True, text=True, check=True).stdout
    yield "predict takes image files", "" if sorted(row["class"] for row in csv.DictReader(io.StringIO(told))) == list("01234") else told
    yield "images learn their labels by heart", "" if got["accuracy"] > 0.95 and got["n"] == 150 else str(got)


def reproducible(folder):
    x, y = make_table(folder)
    reference(folder, x, y, None, 1, 8, 1, 0)
    for k, (ranks, batch, micro) in enumerate([(1, 8, 1), (2, 4, 1), (4, 2, 1), (2, 2, 2)]):
        gtrain(*args(folder, f"r{k}", 4, "balanced", "--nproc", ranks, "--batch", batch, "--accumulate", micro, "--reproducible"))
        if k:
            yield f"--reproducible: {ranks} ranks, {micro} micro-batches have the bits of one", mixup.same(f"{folder}/r{k}", f"{folder}/r0")


def resumed(folder):
    x, y = make_table(folder)
    reference(folder, x, y, None, 1, 8, 1, 0)
    for name in ("whole", "half"):
        gtrain(*args(folder, name, 3, "balanced", "--batch", 8, "--save-every", 4))
    for name in sorted(os.listdir(f"{folder}/half/checkpoints"))[1:]:
        os.remove(f"{folder}/half/checkpoints/{name}")
    gtrain("train", "--resume", "auto", "--out", f"{folder}/half", "-q")
    far = distance(torch.load(f"{folder}/whole/model.pth"), torch.load(f"{folder}/half/model.pth"))
    yield "a resumed run has the bits of one that was not interrupted", "" if far == 0 else f"weights are apart by {far:.1e}"


# ---- eval and predict ----

def divided(a, b):
    return a / b if b else 0


def scores(y, predicted):
    """As scikit-learn's precision_recall_fscore_support(average=None, "macro" and "micro", zero_division=0)."""
    counts = [(int((a * b).sum()), int(a.sum()), int(b.sum())) for a, b in [*zip(y.T, predicted.T), (y, predicted)]]
    rows = [{"n": n, "right": right, "predicted": named, "precision": divided(right, named), "recall": divided(right, n), "f1": divided(2 * right, n + named)}
            for right, n, named in counts]
    keys = ("precision", "recall", "f1")
    return rows[:-1], {k: sum(row[k] for row in rows[:-1]) / len(rows[:-1]) for k in keys}, {k: rows[-1][k] for k in keys}


def near(a, b):
    return set(b) <= set(a) and all(abs(a[k] - b[k]) < 1e-6 for k in b)


def evaluated(folder):
    x, y = make_table(folder)
    reference(folder, x, y, None, 1, 8, 1, 0)
    table = f"csv:{folder}/table.csv"
    gtrain(*args(folder, "run", 5, None, "--batch", 8, "--val", table, data="csv:{}/table.csv,labels=rain/wind/hot\\, dry/fog,standardise=no"))
    net = network()
    net.load_state_dict(torch.load(f"{folder}/run/model.pth"))
    with torch.no_grad():
        logits = net(x)
    share = logits.sigmoid().numpy()
    rows, macro, micro = scores(y.numpy(), share > 0.5)
    want = {"loss": float(F.binary_cross_entropy_with_logits(logits, y)), "accuracy": float(((share > 0.5) == y.numpy()).mean()), **micro}
    last = curve(f"{folder}/run", "val")[-1]
    yield "metrics.jsonl has loss, accuracy and micro averages", "" if near(last, want) and last["n"] == SAMPLES * 4 else str((last, want))
    for more in ([], ["--nproc", "2"]):
        got = json.loads(subprocess.run([GTRAIN, "eval", "--ckpt", f"{folder}/run/model.pth", "--data", table, "--json", "--per-class", "-q", "--batch", "9", *more,
                                         "--predictions", f"{folder}/p.csv"], capture_output=True, text=True, check=True).stdout)
        good = near(got, want) and near(got["macro"], macro) and near(got["micro"], micro) and all(map(near, got["classes"], rows))
        yield f"scores of each label, macro and micro averages {more}", "" if good and [row["class"] for row in got["classes"]] == NAMES else str((got, want, rows))
        with open(f"{folder}/p.csv") as f:
            lines = list(csv.DictReader(f))
        bad = [line for line in lines if abs(float(line["probability"]) - share[int(line["sample"]), NAMES.index(line["label"])]) > 1e-5
               or float(line["target"]) != y[int(line["sample"]), NAMES.index(line["label"])]]
        yield f"--predictions has each label {more}", str(bad) if bad or len(lines) != SAMPLES * 4 else ""
    told = subprocess.run([GTRAIN, "predict", "--ckpt", f"{folder}/run/model.pth", f"{folder}/table.csv", "--csv", "--top", "4"], capture_output=True, text=True, check=True)
    lines = list(csv.DictReader(io.StringIO(told.stdout)))
    bad = [line for line in lines if abs(float(line["probability"]) - share[int(line["input"].split(":")[-1]) - 2, NAMES.index(line["class"])]) > 1e-5]
    yield "predict gives each label its own probability", str(bad) if bad or len(lines) != SAMPLES * 4 else ""
    gtrain(*args(folder, "arrays", 1, None, "--batch", 8))
    said = gtrain("eval", "--ckpt", f"{folder}/arrays", "--data", table, "-q", status=1)
    yield "labels of arrays have no names that a table could have", "" if "the labels of the training have no names" in said and "hint: labels=COLUMN/..." in said else said


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(tap.run([beside, sources, reproducible, resumed, evaluated], GTRAIN, sys.argv[1:]))
