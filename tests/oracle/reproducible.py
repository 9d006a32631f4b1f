#!/usr/bin/env python3
"""reproducible.py - --reproducible: 1, 2, 4 and 8 ranks have the same bits, also one after the other (TAP)."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from training import GTRAIN, apart, curve, gtrain, make_data, torch  # noqa: E402

MLP, LENET, GPT = "mlp:5,16,3", "lenet", "gpt:layers=2,heads=2,width=32,block=16,dropout=0.2"
ADAMW = ["--optimizer", "adamw", "--lr", "2e-3", "--clip", "0.5"]
#        model, data, global batch, steps, ranks, options: the last batches of an epoch are short, and padded
MODELS = [
    (MLP, "csv:{}/table.csv", 16, 40, (1, 2, 4, 8), ADAMW),
    (MLP, "csv:{}/table.csv", 12, 30, (1, 2, 4), [*ADAMW, "--parallel", "mirrored", "--drop-last"]),
    (LENET, "random:,samples=53", 16, 30, (1, 2, 4), ADAMW),
    (GPT, "text:{}/text.txt", 20, 30, (1, 2, 4), [*ADAMW, "--bucket-size", "4K"]),
    ("resnet20", "random:,samples=29", 8, 6, (1, 2, 4), ["--optimizer", "sgd", "--lr", "0.05", "--sync-bn"]),
    ("resnet20", "random:,samples=29", 8, 6, (1, 2), ["--optimizer", "sgd", "--lr", "0.05"]),
]
SAME = ["--log-every", "1", "--seed", "3", "-q", "--reproducible"]


def args(folder, model, data, batch, steps, nproc, options):
    return ["train", "--model", model, "--data", data.format(folder), "--nproc", nproc, "--batch", batch // nproc, "--steps", steps,
            *SAME, *options]


def losses(out):
    return [(row["step"], row["loss"], row["grad_norm"]) for row in curve(out)]


def differs(a, b):
    """What of two runs is not the same to the bit; their weights have moved."""
    if losses(a) != losses(b):
        return "losses: " + str([(x, y) for x, y in zip(losses(a), losses(b)) if x != y][:1])
    x, y = torch.load(f"{a}/model.pth"), torch.load(f"{b}/model.pth")
    if list(x) != list(y):
        return f"keys {list(y)}"
    return next((key for key in x if not torch.equal(x[key], y[key])), "")


def models(folder):
    make_data(folder)
    for i, (model, data, batch, steps, ranks, options) in enumerate(MODELS):
        for nproc in ranks:
            gtrain(*args(folder, model, data, batch, steps, nproc, options), "--out", f"{folder}/m{i}-{nproc}")
        for nproc in ranks[1:]:
            problem = differs(f"{folder}/m{i}-1", f"{folder}/m{i}-{nproc}")
            if len(curve(f"{folder}/m{i}-{nproc}")) != steps:
                problem = "steps are missing"
            yield f"{model} {' '.join(options)}: {nproc} ranks have the bits of one", problem


#      model, data, what to hold out or evaluate, global batch, options: neither ranks nor batches divide what is evaluated
VALS = [
    (MLP, "csv:{}/table.csv", ["--val-split", "0.4"], 16, (1, 2, 4, 8), ADAMW),
    (LENET, "random:,samples=32", ["--val", "random:,samples=87"], 16, (1, 2, 4, 8), ADAMW),
    (LENET, "random:,samples=32", ["--val", "random:,samples=3"], 16, (1, 2, 4), [*ADAMW, "--parallel", "mirrored"]),
    (GPT, "text:{}/text.txt", ["--val-split", "0.2"], 12, (1, 2, 4), ADAMW),
    ("resnet20", "random:,samples=29", ["--val", "random:,samples=30"], 8, (1, 2, 4, 8), ["--optimizer", "sgd", "--lr", "0.05", "--sync-bn"]),
]


def evaluated(out):
    return [{key: value for key, value in row.items() if key != "time_s"} for row in curve(out, "val")]


def evaluation(folder):
    """Every sample is counted once, and others measure what one rank does, to the last digit. The seed of eval is 0."""
    make_data(folder)
    for i, (model, data, val, batch, ranks, options) in enumerate(VALS):
        for nproc in ranks:
            gtrain(*args(folder, model, data, batch, 12, nproc, [*options, *val, "--eval-every", 3, "--seed", 0]), "--out", f"{folder}/v{i}-{nproc}")
        one = evaluated(f"{folder}/v{i}-1")
        if val[0] == "--val":
            said = subprocess.run([GTRAIN, "eval", "--model", model, "--ckpt", f"{folder}/v{i}-1/model.pth", "--data", val[1], "--json"],
                                  capture_output=True, text=True, check=True).stdout
            alone = json.loads(said)
            good = len(one) == 4 and all(row["n"] == alone["n"] for row in one) and apart(one[-1:], [alone]) <= 1e-6
            yield f"{model} {' '.join(val)}: one rank measures what eval does", "" if good else f"{one} {alone}"
        for nproc in ranks[1:]:
            many, best = evaluated(f"{folder}/v{i}-{nproc}"), [torch.load(f"{folder}/v{i}-{n}/best.pth") for n in (1, nproc)]
            problem = "" if all(torch.equal(v, best[1][k]) for k, v in best[0].items()) else "another best.pth"
            yield f"{model} {' '.join(val)}: {nproc} ranks measure what one does", problem if many == one else f"{many} {one}"


def the_plain_curve(folder):
    """Other sums, but of the same: dropout and samples too."""
    make_data(folder)
    model, data, batch, steps, _, options = MODELS[3]
    options = ["--optimizer", "sgd", "--lr", "0.02", "--drop-last"]
    asked = args(folder, model, data, batch, steps, 2, options)
    gtrain(*asked, "--out", f"{folder}/reproducible")
    asked.remove("--reproducible")
    gtrain(*asked, "--out", f"{folder}/plain")
    far = apart(curve(f"{folder}/reproducible"), curve(f"{folder}/plain"))
    yield "the curve is that without --reproducible", "" if far <= 1e-6 else f"apart by {far:.1e}"
    same = not differs(f"{folder}/reproducible", f"{folder}/plain")
    yield "and its bits are not, or this test could not fail", "the same" if same else ""


def resuming(folder):
    """In the middle of epochs of 5 steps, on other ranks each time."""
    make_data(folder)
    model, data, batch, _, _, options = MODELS[3]
    gtrain(*args(folder, model, data, batch, 30, 4, options), "--out", f"{folder}/whole")
    for steps, nproc in ((8, 4), (17, 2), (30, 1)):
        going = [*options, "--warmup", 3, "--lr-schedule", "constant"]
        gtrain(*args(folder, model, data, batch, steps, nproc, going), "--out", f"{folder}/parts", "--resume", "auto")
    gtrain(*args(folder, model, data, batch, 30, 4, going), "--out", f"{folder}/whole2")
    yield "4 ranks, then 2, then 1 have the bits of one run", differs(f"{folder}/whole2", f"{folder}/parts")
    asked = args(folder, model, data, batch, 40, 2, options)
    asked.remove("--reproducible")
    gtrain(*asked, "--out", f"{folder}/plain")
    said = gtrain(*args(folder, model, data, batch, 50, 2, options), "--out", f"{folder}/plain", "--resume", "auto", status=2)
    yield "a run that was not does not become reproducible", "" if "another --reproducible" in said else said


def refusals(folder):
    make_data(folder)
    for batch, nproc, options, what in (
            (12, 3, [], "takes 1, 2 or 4 ranks for a global batch of 12"),
            (10, 5, [], "takes 1 or 2 ranks for a global batch of 10"),
            (16, 2, ["--accumulate", 2], "not with --accumulate 2"),
            (16, 2, ["--parallel", "zero1"], "not with --parallel zero1"),
            (16, 2, ["--parallel", "dp"], "not with --parallel dp"),
            (16, 2, ["--compress", "bf16"], "not with --compress"),
            (16, 2, ["--tensor-parallel", 2], "not with --tensor-parallel"),
            (16, 2, ["--pipeline-parallel", 2], "not with --pipeline-parallel")):
        asked = args(folder, MLP, "csv:{}/table.csv", batch, 3, nproc, [*options, "--out", f"{folder}/x"])
        said = gtrain(*asked, status=2)
        good = what in said and "--reproducible" in said and not os.path.exists(f"{folder}/x/model.pth")
        yield f"--reproducible refuses {batch} samples on {nproc} ranks {' '.join(map(str, options))}", "" if good else said


if __name__ == "__main__":
    sys.exit(tap.run((models, evaluation, the_plain_curve, resuming, refusals), GTRAIN, sys.argv[1:]))
