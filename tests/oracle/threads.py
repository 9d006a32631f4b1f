#!/usr/bin/env python3
"""threads.py - ranks as threads, mirrored and dp: the curve and the weights of one rank, resuming, stopping, errors (TAP)."""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
import training  # noqa: E402
from training import BATCH, GTRAIN, TEXT, apart, curve, gtrain, make_data, torch, use_isa  # noqa: E402

COMMON = ["--steps", "50", "--warmup", "0", "--lr-schedule", "constant", "--log-every", "1", "--seed", "3", "-q", "--save-every", "0"]
GPT = "gpt:layers=2,heads=2,width=32,block=16"
#        model, data (samples do not divide into batches), options
MODELS = [
    ("mlp:5,16,3", "csv:{}/table.csv", ["--optimizer", "adamw", "--lr", "0.005", "--clip", "0.5", "--bucket-size", "1"]),
    ("lenet", "random:,samples={}", ["--optimizer", "sgd", "--lr", "0.01"]),
    (GPT, "text:{}/text.txt", ["--optimizer", "adamw", "--lr", "1e-3"]),
    (GPT + ",dropout=0.2", "text:{}/text.txt", ["--optimizer", "sgd", "--lr", "0.02"]),
]


def train(folder, name, model, data, options, nproc=1, parallel="ddp", batch=BATCH):
    return training.train(folder, f"{name}-{parallel}", model, data, nproc, [*options, "--parallel", parallel], batch, common=COMMON)


def weights_apart(a, b):
    a, b = torch.load(f"{a}/model.pth"), torch.load(f"{b}/model.pth")
    if list(a) != list(b):
        return float("inf")
    for k in [k for k in a if k.endswith("attn.c_attn.bias")]:
        # Softmax does not see a bias of the keys: its gradient is 0 but for rounding, which Adam makes as large as any other.
        width = len(a[k]) // 3
        a[k][width:2 * width] = b[k][width:2 * width] = 0
    return max(float((a[k] - v).abs().max()) for k, v in b.items())


def data_of(folder, spec, samples):
    """60 + 30 rows of a table, or characters of a text, for so many samples."""
    with open(f"{folder}/table.csv") as f:
        rows = (f.readlines() * 2)[:samples]
    part = f"{folder}/{samples}"
    os.makedirs(part, exist_ok=True)
    with open(f"{part}/table.csv", "w") as f:
        f.writelines(rows)
    with open(f"{part}/text.txt", "w") as f:
        f.write(TEXT[:samples * 16 + 1])
    return spec.format(samples if spec.startswith("random") else part)


def curves(folder):
    """A last batch of 6 of 12 for mirrored, which divides it evenly or repeats samples; for dp also of 1, 5 and 11."""
    make_data(folder)
    for i, (model, spec, options) in enumerate(MODELS):
        for parallel, nprocs, samples in (("mirrored", (1, 2, 3), 66), ("mirrored", (4,), 64), ("dp", (1, 2, 3, 4), 65),
                                          ("dp", (2, 3, 4), 61), ("dp", (4,), 71)):
            data = data_of(folder, spec, samples)
            one = train(folder, f"m{i}-{samples}", model, data, options)
            for n in nprocs:
                many = train(folder, f"m{i}-{samples}", model, data, options, n, parallel)
                far, weights = apart(curve(many), curve(one)), weights_apart(many, one)
                good = len(curve(many)) == 50 and far <= 1e-6 and weights <= 1e-5
                yield (f"{model}, {samples} samples: {n} ranks of {parallel} have the curve and the weights of one",
                       "" if good else f"{len(curve(many))} steps, losses apart by {far:.1e}, weights by {weights:.1e}")


def accumulation(folder):
    make_data(folder)
    model, spec, options = MODELS[3]
    data = data_of(folder, spec, 65)
    one = train(folder, "one", model, data, options)
    for parallel, n in (("dp", 2), ("dp", 3)):
        many = train(folder, "many", model, data, [*options, "--accumulate", str(6 // n)], n, parallel, batch=2 * n)
        far = apart(curve(many), curve(one))
        yield f"{n} ranks of {parallel} x {6 // n} micro-batches are a batch of 12", "" if far <= 1e-6 else f"apart by {far:.1e}"


def evaluation(folder):
    """dp's running statistics are those of rank 0, on all ranks: so validation does not depend on who evaluates."""
    options = ["--val", "random:,samples=41", "--lr", "0.01", "--steps", "6", "--eval-every", "2"]
    one = train(folder, "e", "lenet", "random:,samples=60", options)
    for parallel in ("mirrored", "dp"):
        out = train(folder, "e", "lenet", "random:,samples=60", options, 3, parallel)
        rows, wanted = curve(out, "val"), curve(one, "val")
        good = [r["n"] for r in rows] == [41] * 3 and apart(rows, wanted) <= 1e-6
        yield f"{parallel}: validation on 3 ranks is that on one", "" if good else f"{rows} {wanted}"
        good = sorted(os.listdir(out)) == sorted(os.listdir(one)) and len(os.listdir(f"{out}/checkpoints")) == 1
        yield f"{parallel}: the files of one rank", "" if good else str(os.listdir(out))
    out = train(folder, "b", "resnet20", "random:,samples=30", ["--val", "random:,samples=20", *options[2:], "--seed", "0"], 3, "dp")
    said = subprocess.run([GTRAIN, "eval", "--model", "resnet20", "--ckpt", f"{out}/model.pth", "--data",
                           "random:,samples=20", "--json"], capture_output=True, text=True, check=True).stdout
    loss = json.loads(said)["loss"]
    far = abs(loss - curve(out, "val")[-1]["loss"]) / loss
    yield "dp: validation while training is eval's of what was saved, with batch norm", "" if far <= 1e-6 else f"apart by {far:.1e}"


def resuming(folder):
    make_data(folder)
    model, spec, options = MODELS[3]
    data = data_of(folder, spec, 65)
    one = train(folder, "one", model, data, options)
    args = ["train", "--model", model, "--data", data, "--out", f"{folder}/parts", *COMMON, *options, "--resume", "auto"]
    for steps, nproc in ((17, 4), (33, 3), (50, 1)):
        args[args.index("--steps") + 1] = steps
        gtrain(*args, "--parallel", "dp", "--nproc", nproc, "--batch", BATCH // nproc)
    far = apart(curve(f"{folder}/parts"), curve(one))
    yield "dp: 4 ranks, then 3, then 1 go through one curve", "" if far <= 1e-6 else f"apart by {far:.1e}"


def stopping(folder):
    for parallel in ("mirrored", "dp"):
        out = f"{folder}/{parallel}"
        args = ["train", "--model", "mlp:5,16,3", "--data", "random:5/3,samples=61", "--batch", "4", "--nproc", "3", "--parallel",
                parallel, "--out", out, "--save-every", "200", "--log-every", "1000"]
        run = subprocess.Popen([GTRAIN, *args, "--steps", "100000000"], stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not os.path.exists(f"{out}/checkpoints/step-00000200.pth"):
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        said = run.communicate(timeout=30)[1]
        at = int(max(os.listdir(f"{out}/checkpoints"))[5:13])
        good = run.returncode == -signal.SIGINT and f"stopped after step {at} " in said
        yield f"{parallel}: SIGINT finishes the step, saves and ends the process", "" if good else f"{run.returncode}: {said}"
        said = gtrain(*args, "--resume", "auto", "--steps", at + 50)
        good = os.path.exists(f"{out}/model.pth") and "resuming from" in said and said.count("resuming from") == 1
        yield f"{parallel}: and goes on", "" if good else said


def errors(folder):
    """A class that the model has no output for, in one sample: so on one rank of mirrored, and on rank 0 of dp."""
    with open(f"{folder}/bad.csv", "w") as f:
        f.writelines(f"{i},{i % 7},{7 if i == 40 else i % 3}\n" for i in range(48))
    for parallel in ("mirrored", "dp"):
        started = time.monotonic()
        said = gtrain("train", "--model", "mlp:2,8,3", "--data", f"csv:{folder}/bad.csv", "--batch", "4", "--nproc", "3", "--parallel",
                      parallel, "--out", f"{folder}/{parallel}", "--epochs", "3", "-q", status=2)
        good = said.count("error:") == 1 and time.monotonic() - started < 10
        yield f"{parallel}: data that do not fit the model are refused once", "" if good else said
    said = gtrain("train", "--model", "lenet", "--data", "random:,samples=61", "--batch", "4", "--nproc", "3", "--parallel", "dp",
                  "--lr", "1e30", "--out", f"{folder}/nan", "-q", status=1)
    good = said.count("error:") == 1 and "left" not in said and " at step " in said
    yield "dp: what has diverged says so once", "" if good else said


if __name__ == "__main__":
    use_isa("AVX2")
    sys.exit(tap.run((curves, accumulation, evaluation, resuming, stopping, errors), GTRAIN, sys.argv[1:]))
