#!/usr/bin/env python3
"""zero.py - ranks that divide optimizer state, gradients and weights: one rank's curve, whole checkpoints, memory (TAP)."""
import glob
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from training import BATCH, COMMON, GTRAIN, apart, curve, distance, gtrain, make_data, torch, train  # noqa: E402

ZERO = ("zero1", "zero2", "zero3")
RUNS = [
    ("mlp:5,16,3", "csv:{}/table.csv", ["--optimizer", "sgd", "--lr", "0.05"]),
    ("mlp:5,16,3", "csv:{}/table.csv", ["--optimizer", "adamw", "--lr", "0.005", "--clip", "0.5", "--bucket-size", "1"]),
    ("lenet", "random:,samples=60", ["--optimizer", "sgd", "--lr", "0.01", "--clip", "0.2", "--bucket-size", "20K"]),
    ("gpt:layers=2,heads=2,width=32,block=16", "text:{}/text.txt",
     ["--optimizer", "adamw", "--lr", "1e-3", "--clip", "1", "--bucket-size", "10K"]),
]
GPT = RUNS[3]


def curves(folder):
    make_data(folder)
    for i, (model, data, options) in enumerate(RUNS):
        one = curve(train(folder, f"m{i}", model, data, 1, options))
        for mode in ZERO:
            far = {}
            for n in tap.one_in(3, (2, 3, 4), i):
                many = curve(train(folder, f"m{i}-{mode}", model, data, n, [*options, "--parallel", mode]))
                far[n] = apart(many, one) if len(many) == len(one) == 50 else 1
                norms = apart(many, one, "grad_norm")  # of float32, and differences of larger numbers
                far[n] = far[n] if norms <= 1e-5 else max(far[n], norms)
            yield f"{mode} {model} {' '.join(options)}: {', '.join(map(str, far))} ranks have the curve of one", "" if max(far.values()) <= 1e-6 else f"{far}"


def accumulation(folder):
    make_data(folder)
    model, data, options = GPT
    one = curve(train(folder, "one", model, data, 1, options))
    for mode in ZERO:
        two = curve(train(folder, mode, model, data, 3, [*options, "--accumulate", "2", "--parallel", mode], batch=BATCH // 2))
        far = apart(two, one)
        yield f"{mode}: 3 ranks x 2 micro-batches x 2 samples are a batch of 12", "" if far <= 1e-6 else f"apart by {far:.1e}"


def uneven(folder):
    """96 samples, 3 ranks x 5 samples x 2 micro-batches, with dropout: the last step of an epoch has another shape."""
    make_data(folder)
    args = ["train", "--model", GPT[0] + ",dropout=0.1", "--data", GPT[1].format(folder), "--nproc", 3, "--batch", 5, "--accumulate", 2,
            "--epochs", 3, "--bucket-size", "10K", "--clip", "1", "--log-every", 1, "--seed", 3, "-q"]
    for mode in ("ddp", *ZERO):
        gtrain(*args, "--parallel", mode, "--out", f"{folder}/{mode}")
    ddp = curve(f"{folder}/ddp")
    for mode in ZERO:
        many = curve(f"{folder}/{mode}")
        far = apart(many, ddp) if len(many) == len(ddp) == 12 else len(many)
        yield f"{mode}: short last steps of an epoch are those of ddp", "" if far <= 1e-6 else f"apart by {far:.1e}"


def evaluation(folder):
    """87 and 3 samples on 2 and 4 ranks in batches of 5: ranks have unequal numbers of batches, or none."""
    make_data(folder)
    options = ["--optimizer", "sgd", "--lr", "0.01", "--eval-every", "10"]
    for samples in (87, 3):
        val = ["--val", f"random:,samples={samples}", *options]
        one = curve(train(folder, f"e{samples}", "lenet", "random:,samples=60", 1, val), "val")
        best = torch.load(f"{folder}/e{samples}-1/best.pth")
        for mode in ZERO:
            for n in tap.one_in(2, (2, 4), samples):
                out = train(folder, f"e{samples}-{mode}", "lenet", "random:,samples=60", n, [*val, "--parallel", mode])
                many, far = curve(out, "val"), distance(torch.load(f"{out}/best.pth"), best)
                good = [r["n"] for r in many] == [samples] * 5 and apart(many, one) <= 1e-6 and far <= 1e-4
                yield f"{mode}: validation of {samples} samples on {n} ranks is that on one", "" if good else f"{many} {one} {far}"


def checkpoints(folder):
    """A checkpoint of 4 ranks is that of ddp, and loads into PyTorch's optimizer; runs go on in other modes."""
    make_data(folder)
    model, data, options = GPT
    whole = curve(train(folder, "whole", model, data, 1, options))
    one = train(folder, "c", model, data, 1, [*options, "--steps", "5"])
    theirs = torch.load(glob.glob(f"{train(folder, 'd', model, data, 4, [*options, '--steps', '5'])}/checkpoints/*5.pth")[0])
    init_one = train(folder, "init-one", model, data, 1, [*options, "--init-from", f"{one}/model.pth"])
    for mode in ZERO:
        ours_dir = train(folder, f"c-{mode}", model, data, 4, [*options, "--steps", "5", "--parallel", mode])
        ours = torch.load(glob.glob(f"{ours_dir}/checkpoints/*5.pth")[0])
        far = max(distance(ours["model"], theirs["model"]), distance(ours["optimizer"], theirs["optimizer"]),
                  distance(torch.load(f"{ours_dir}/model.pth"), theirs["model"]))
        groups = [[torch.nn.Parameter(torch.zeros_like(ours["optimizer"]["state"][i]["exp_avg"])) for i in group["params"]]
                  for group in ours["optimizer"]["param_groups"]]
        adamw = torch.optim.AdamW([{"params": group} for group in groups])
        adamw.load_state_dict(ours["optimizer"])
        kept = sum(float(s["exp_avg_sq"].sum()) > 0 for s in adamw.state.values())
        yield (f"{mode}: a checkpoint of 4 ranks is that of ddp, and PyTorch's AdamW takes it",
               "" if far < 1e-6 and kept == len(theirs["optimizer"]["state"]) else f"apart by {far:.1e}, {kept} states")
        args = ["train", "--model", model, "--data", data.format(folder), "--out", f"{folder}/parts-{mode}", *COMMON, *options]
        for steps, nproc, parallel in ((17, 4, mode), (28, 2, "ddp"), (39, 3, mode), (44, 2, mode), (50, 1, "ddp")):
            args[args.index("--steps") + 1] = steps
            gtrain(*args, "--resume", "auto", "--nproc", nproc, "--batch", BATCH // nproc, "--parallel", parallel)
        far = apart(curve(f"{folder}/parts-{mode}"), whole)
        yield (f"{mode}: 4 ranks, 2 of ddp, 3, 2, and 1 go through one curve", "" if far <= 1e-6 else f"apart by {far:.1e}")
        init = train(folder, f"init-{mode}", model, data, 3, [*options, "--parallel", mode, "--init-from", f"{one}/model.pth"])
        far = apart(curve(init), curve(init_one))
        yield f"{mode}: 3 ranks begin from a file as one does", "" if far <= 1e-6 else f"apart by {far:.1e}"


def dry(folder, nproc, mode, *more):
    make_data(folder)
    model, data, _ = GPT
    text = subprocess.run([GTRAIN, "train", "--model", model, "--data", data.format(folder), "--nproc", str(nproc), "--parallel", mode,
                           "--batch", "3", "--bucket-size", "10K", "--dry-run", "--json", *more], check=True, capture_output=True, text=True)
    return json.loads(text.stdout)


def memory(folder):
    one = dry(folder, 1, "ddp")["memory_bytes"]
    for mode in ZERO:
        stage = int(mode[-1])
        for n in (2, 4):
            said = dry(folder, n, mode)
            for i, what in enumerate(("optimizer", "gradients", "parameters")):
                ratio = said["memory_bytes"][what] / one[what] * (n if i < stage else 1)
                yield f"{mode} on {n} ranks: {what} {'/ ' + str(n) if i < stage else 'whole'}", "" if 1 <= ratio < 1.02 else f"x {ratio}"
            ratio = said["communicated_bytes_per_step"] / dry(folder, n, "ddp")["communicated_bytes_per_step"]
            good = 1.3 < ratio < 1.5 if stage == 3 else 1 <= ratio < 1.02  # what the forward pass ends with stays
            if dry(folder, n, mode, "--val-split", "0.2")["communicated_bytes_per_step"] != said["communicated_bytes_per_step"]:
                good, ratio = False, "another number with evaluations"
            yield f"{mode} on {n} ranks sends {'up to 1.5 times ' if stage == 3 else ''}what ddp does", "" if good else f"x {ratio}"


if __name__ == "__main__":
    sys.exit(tap.run((curves, accumulation, uneven, evaluation, checkpoints, memory), GTRAIN, sys.argv[1:]))
