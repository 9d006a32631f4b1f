#!/usr/bin/env python3
"""reproducible.py - --reproducible: 1, 2, 4 and 8 ranks have the same bits, also one after the other (TAP)."""
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from training import GTRAIN, TEXT, apart, curve, gtrain, make_data, torch, use_isa  # noqa: E402

MLP, LENET, GPT = "mlp:5,16,3", "lenet", "gpt:layers=2,heads=2,width=32,block=16,dropout=0.2"
ADAMW = ["--optimizer", "adamw", "--lr", "2e-3", "--clip", "0.5"]
GPT4 = "gpt:layers=4,heads=4,width=16,block=16,dropout=0.2"
SGD = ["--optimizer", "sgd", "--lr", "0.05"]
#        model, data, global batch, steps, ranks, options: the last batches of an epoch are short, and padded
MODELS = [
    (MLP, "csv:{}/table.csv", 16, 20, (1, 2, 4, 8), ADAMW),
    (MLP, "csv:{}/table.csv", 12, 20, (1, 2, 4), [*ADAMW, "--parallel", "mirrored", "--drop-last"]),
    (LENET, "random:,samples=29", 16, 4, (1, 2, 4), ADAMW),
    (GPT, "text:{}/text.txt", 20, 11, (1, 2, 4), [*ADAMW, "--bucket-size", "4K"]),
    ("resnet20", "random:,samples=13", 8, 3, (1, 2, 4), ["--optimizer", "sgd", "--lr", "0.05", "--sync-bn"]),
    ("resnet20", "random:,samples=13", 8, 3, (1, 2), ["--optimizer", "sgd", "--lr", "0.05"]),
]
# The runs of a row have the bits of its first one. Data, global batch: as above; runs: ranks, how many of them see the same samples,
# options.
DATA = [(1, 1, []), *((n, 1, ["--parallel", kind]) for kind in ("dp", "zero1", "zero2", "zero3") for n in (1, 2, 4)),
        (4, 1, ["--parallel", "zero3", "--bucket-size", "2K"])]
# Each kind once: how ranks share a step does not depend on the model, but what they share does.
KINDS = [(1, 1, []), *((n, 1, ["--parallel", kind]) for n, kind in ((4, "dp"), (2, "zero1"), (4, "zero2"), (2, "zero3"))), DATA[-1]]
PIPES = [(1, 1, []), *((n, stages, ["--pipeline-parallel", stages, "--schedule", schedule])
                       for n, stages, schedule in ((2, 2, "gpipe"), (3, 3, "1f1b"), (4, 4, "gpipe"), (4, 2, "1f1b"), (8, 2, "gpipe")))]
AMP = [(1, 1, []), (2, 1, []), (4, 1, ["--parallel", "mirrored"]), (2, 1, ["--parallel", "dp"]), (4, 1, ["--parallel", "zero1"]),
       (2, 1, ["--parallel", "zero2"]), (4, 1, ["--parallel", "zero3"]), (2, 1, ["--accumulate", 2])]
TENSOR = [(n, 2, ["--tensor-parallel", 2, "--parallel", kind]) for n, kind in ((2, "ddp"), (4, "ddp"), (8, "mirrored"))]
ACCUMULATION = [(1, 1, []), *((n, stages, ["--accumulate", micro, *options]) for n, stages, micro, options in (
    (1, 1, 2, []), (1, 1, 8, []), (2, 1, 4, []), (4, 1, 2, ["--parallel", "mirrored"]), (2, 1, 2, ["--parallel", "zero2"]),
    (2, 1, 2, ["--parallel", "dp"]), (4, 2, 2, ["--pipeline-parallel", 2])))]
MODES = [
    (MLP, "csv:{}/table.csv", 16, 20, [*ADAMW, "--bucket-size", "1"], [*DATA, *((8, 1, ["--parallel", kind]) for kind in ("dp", "zero2"))]),
    (LENET, "random:,samples=37", 16, 4, [*SGD, "--threads", "2", "--drop-last"], [(1, 1, []), (2, 1, []), (2, 1, ["--parallel", "zero2"])]),
    (GPT, "text:{}/text.txt", 20, 10, [*ADAMW, "--bucket-size", "4K"], KINDS),
    (GPT, "text:{}/text.txt", 20, 8, ["--optimizer", "muon", "--clip", "0.5", "--bucket-size", "4K"],
     [(1, 1, []), (2, 1, []), *((n, 1, ["--parallel", kind]) for kind in ("zero1", "zero2", "zero3") for n in (2, 4))]),
    ("resnet20", "random:,samples=13", 8, 3, [*SGD, "--sync-bn", "--clip", "0.2"], KINDS),
    (GPT4, "text:{}/longer.txt", 16, 8, ADAMW, PIPES),
    (GPT4, "text:{}/longer.txt", 16, 4, [*ADAMW, "--amp", "bf16"], PIPES[:4]),
    ("resnet20", "random:,samples=13", 8, 3, [*SGD, "--sync-bn", "--clip", "0.2"], PIPES),
    (GPT, "text:{}/longer.txt", 16, 8, ADAMW, TENSOR),
    ("mlp:5,16,12,16,3", "csv:{}/table.csv", 16, 20, ADAMW, TENSOR),
    (GPT, "text:{}/longer.txt", 16, 8, ADAMW, ACCUMULATION),
    (GPT, "text:{}/longer.txt", 16, 8, [*ADAMW, "--amp", "bf16"], AMP),
    (LENET, "random:,samples=29", 16, 3, [*SGD, "--amp", "bf16"], AMP),
    ("resnet20", "random:,samples=13", 8, 3, [*SGD, "--sync-bn", "--amp", "bf16"], AMP[:-1]),
    ("resnet20", "random:,samples=13", 8, 3, SGD, [(1, 1, []), (1, 1, ["--accumulate", 4]), (2, 1, ["--accumulate", 2])]),
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
    for i, (model, data, batch, steps, ranks, options) in tap.one_in(2, enumerate(MODELS)):
        use_isa("DEFAULT" if "--amp" in options else "AVX2")
        for nproc in ranks:
            gtrain(*args(folder, model, data, batch, steps, nproc, options), "--out", f"{folder}/m{i}-{nproc}")
        for nproc in ranks[1:]:
            problem = differs(f"{folder}/m{i}-1", f"{folder}/m{i}-{nproc}")
            if len(curve(f"{folder}/m{i}-{nproc}")) != steps:
                problem = "steps are missing"
            yield f"{model} {' '.join(options)}: {nproc} ranks have the bits of one", problem


def named(model, common):
    return model + (" --amp bf16" if "--amp" in common else "")


def modes(folder):
    make_data(folder)
    Path(folder, "longer.txt").write_text(TEXT + TEXT[:4 * 16])  # 100 samples: the last batch of 16 is short
    for i, (model, data, batch, steps, common, runs) in enumerate(MODES):
        first = f"{folder}/d{i}-0"
        use_isa("DEFAULT" if "--amp" in common else "AVX2")
        for k, (nproc, sharing, options) in [(0, runs[0]), *tap.one_in(3, enumerate(runs[1:], 1), i)]:
            micro = options[options.index("--accumulate") + 1] if "--accumulate" in options else 1
            asked = args(folder, model, data, batch * sharing // micro, steps, nproc, [*common, *options])
            gtrain(*asked, "--save-every", 0, "--out", f"{folder}/d{i}-{k}")
            if k:
                problem = "" if len(curve(first)) == steps else "steps are missing"
                yield (f"{named(model, common)}: {nproc} ranks {' '.join(map(str, options))} have the bits of {runs[0][0]}",
                       problem or differs(first, f"{folder}/d{i}-{k}"))


#      model, data, what to hold out or evaluate, global batch, options, runs: neither ranks nor batches divide what is evaluated
RANKS = [(n, 1, []) for n in (1, 2, 4, 8)]
VALS = [
    (MLP, "csv:{}/table.csv", ["--val-split", "0.4"], 16, ADAMW,
     [*RANKS, *((2, 1, ["--parallel", kind]) for kind in ("dp", "zero1", "zero2", "zero3"))]),
    (LENET, "random:,samples=32", ["--val", "random:,samples=87"], 16, ADAMW,
     [*RANKS, (2, 1, ["--parallel", "dp"]), (4, 1, ["--parallel", "zero3"]), (4, 2, ["--pipeline-parallel", 2])]),
    (LENET, "random:,samples=32", ["--val", "random:,samples=3"], 16, ADAMW, [(n, 1, ["--parallel", "mirrored"]) for n in (1, 2, 4)]),
    (GPT, "text:{}/text.txt", ["--val-split", "0.2"], 12, ADAMW, [*RANKS[:3], (3, 3, ["--pipeline-parallel", 3])]),
    (GPT, "text:{}/text.txt", ["--val-split", "0.2"], 12, ADAMW, [(n, 2, ["--tensor-parallel", 2]) for n in (2, 4)]),
    (GPT, "text:{}/text.txt", ["--val-split", "0.2"], 12, [*ADAMW, "--amp", "bf16"], RANKS[:3]),
    ("resnet20", "random:,samples=29", ["--val", "random:,samples=14"], 8, [*SGD, "--sync-bn"], RANKS),
    ("resnet20", "random:,samples=29", ["--val", "random:,samples=14"], 8, [*SGD, "--sync-bn", "--amp", "bf16"], RANKS[:2]),
]


def evaluated(out):
    return [{key: value for key, value in row.items() if key not in ("time_s", "wall_time", "memory_bytes")} for row in curve(out, "val")]


def evaluation(folder):
    """Every sample is counted once, and any number of ranks measures the same as one, to the last digit. The seed of eval is 0."""
    make_data(folder)
    for i, (model, data, val, batch, common, runs) in tap.one_in(2, enumerate(VALS)):
        use_isa("DEFAULT" if "--amp" in common else "AVX2")
        outs = [f"{folder}/v{i}-{k}" for k in range(len(runs))]
        for (nproc, sharing, options), out in zip(runs, outs):
            asked = [*common, *options, *val, "--eval-every", 2, "--seed", 0]
            gtrain(*args(folder, model, data, batch * sharing, 4, nproc, asked), "--out", out)
        one = evaluated(outs[0])
        amp = ["--amp", "bf16"] if "--amp" in common else []
        if val[0] == "--val":
            said = subprocess.run([GTRAIN, "eval", "--model", model, "--ckpt", f"{outs[0]}/model.pth", "--data", val[1], "--json", *amp],
                                  capture_output=True, text=True, check=True).stdout
            alone = json.loads(said)
            good = len(one) == 2 and all(row["n"] == alone["n"] for row in one) and apart(one[-1:], [alone]) <= 1e-6
            yield f"{named(model, common)} {' '.join(val)}: one rank measures the same as eval", "" if good else f"{one} {alone}"
        for (nproc, _, options), out in zip(runs[1:], outs[1:]):
            many, best = evaluated(out), [torch.load(f"{path}/best.pth") for path in (outs[0], out)]
            problem = "" if all(torch.equal(v, best[1][k]) for k, v in best[0].items()) else "another best.pth"
            name = f"{named(model, common)} {' '.join(val)}: {nproc} ranks {' '.join(map(str, options))} measure the same as {runs[0][0]}"
            yield name, problem if many == one else f"{many} {one}"


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
    going = [*options, "--warmup", 3, "--lr-schedule", "constant"]
    gtrain(*args(folder, model, data, batch, 30, 4, going), "--out", f"{folder}/whole2")
    for name, parts in (
            ("4 ranks, then 2, then 1", ((8, 4, 1, []), (17, 2, 1, []), (30, 1, 1, []))),
            ("zero3, then two stages, then two micro-batches",
             ((8, 4, 1, ["--parallel", "zero3"]), (17, 2, 2, ["--parallel", "ddp", "--pipeline-parallel", 2]), (30, 1, 0.5, ["--pipeline-parallel", 1, "--accumulate", 2])))):
        out = f"{folder}/{name}".replace(" ", "-")
        for steps, nproc, share, more in parts:
            gtrain(*args(folder, model, data, int(batch * share), steps, nproc, [*going, *more]), "--out", out, "--resume", "auto")
        yield f"{name} have the bits of one run", differs(f"{folder}/whole2", out)
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
            (16, 2, ["--accumulate", 8], "where a rank does a step in 4 parts"),
            (16, 2, ["--accumulate", 100], "where a rank does a step in 4 parts"),
            (16, 2, ["--broadcast-buffers=no"], "--reproducible cannot be combined with --broadcast-buffers=no"),
            (16, 2, ["--accumulate", 2, "--parallel", "zero3"], "--reproducible with --accumulate cannot be combined with --parallel zero3"),
            (16, 2, ["--accumulate", 2, "--sync-bn"], "--reproducible with --accumulate cannot be combined with --sync-bn"),
            (16, 2, ["--compress", "bf16"], "--reproducible cannot be combined with --compress"),
            (12, 6, ["--tensor-parallel", 2], "3 ranks for each part of the model"),
            (16, 2, ["--pipeline-parallel", 2, "--chunks", 2], "--reproducible cannot be combined with --chunks")):
        asked = args(folder, MLP, "csv:{}/table.csv", batch, 3, nproc, [*options, "--out", f"{folder}/x"])
        said = gtrain(*asked, status=2)
        good = what in said and "--reproducible" in said and not os.path.exists(f"{folder}/x/model.pth")
        yield f"--reproducible refuses {batch} samples on {nproc} ranks {' '.join(map(str, options))}", "" if good else said


if __name__ == "__main__":
    sys.exit(tap.run((models, modes, evaluation, the_plain_curve, resuming, refusals), GTRAIN, sys.argv[1:]))
