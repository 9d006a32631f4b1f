#!/usr/bin/env python3
"""
curves.py - every kind of parallel training has the loss curve of one rank, model by model, mode by mode, rank by rank (TAP).

curves.py [FILTER]: with it only the lines that contain it; `make check-curves T=zero3`. 50 steps in float32 with the same batch
of 12 samples in all: losses at most 1e-6 apart, relatively. With --reproducible 1, 2 and 4 ranks of every mode have the bits of one
rank; of --tensor-parallel, those of as many ranks that share a layer.
"""
import collections
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import program  # noqa: E402
import tap  # noqa: E402
from training import BATCH, COMMON, GTRAIN, apart, curve, gtrain, make_data, train  # noqa: E402

WANTED = sys.argv[1] if len(sys.argv) > 1 else ""
STEPS, BOUND = 50, 1e-6
TABLE, TEXT, IMAGES = "csv:{}/table.csv", "text:{}/text.txt", "random:,samples=60"
ADAMW = ["--optimizer", "adamw", "--lr", "1e-3", "--clip", "0.5", "--bucket-size", "10K"]
#       what to train, data, options
MODELS = {
    "mlp": ("mlp:5,16,12,16,3", TABLE, ["--optimizer", "adamw", "--lr", "0.005", "--clip", "0.5", "--bucket-size", "1"]),
    "lenet": ("lenet", IMAGES, ["--optimizer", "sgd", "--lr", "0.01", "--clip", "0.2", "--bucket-size", "20K"]),
    # ResNets are chaotic (see oracle/ranks_bn.py): the rate is one at which 1e-6 means something, and that still trains.
    "resnet20": ("resnet20", IMAGES, ["--optimizer", "sgd", "--lr", "5e-6", "--weight-decay", "0"]),
    "gpt": ("gpt:layers=2,heads=4,width=32,block=16,dropout=0.1", TEXT, ADAMW),
    "vit": ("vit:image=8,patch=2,layers=2,heads=4,width=32,classes=10,dropout=0.1", "random:,samples=60", ADAMW),
    "llama": ("llama:layers=2,heads=4,kv_heads=4,width=32,block=16", TEXT, ADAMW),
    # Neither 5 heads nor 43 tokens divide: ranks have unequal parts.
    "gpt2": ("gpt2:layers=2,heads=5,width=40,block=16,vocab=43,dropout=0.1", TEXT, ADAMW),
}
ALL, LAYERED, LINEAR = ("mlp", "lenet", "resnet20", "gpt", "vit", "llama"), ("mlp", "lenet", "gpt", "vit", "llama"), ("mlp", "gpt", "gpt2", "llama")

# name      ranks    what runs
# options   sharing  ranks at a time that see the same samples: those of a pipeline, or of a layer
# micro     micro-batches in a step, each a --batch
# parts     what resnet20's batch is normalised in: so many parts, each with statistics of its own, of consecutive samples. One
#           rank with as many micro-batches is then what it must be; other models are always compared with one whole batch.
Mode = collections.namedtuple("Mode", "models name ranks options sharing micro parts")


def count(n, what):
    return f"{n} {what}" + ("" if n == 1 else "es" if what.endswith("ch") else "s")


def data_parallel():
    """Ranks that share a batch: --sync-bn makes its statistics those of all. Three ranks take two micro-batches of six samples."""
    for kind in program.words("parallel"):
        for n in (1, 2, 3, 4):
            micro = 2 if n == 3 else 3
            options = ["--parallel", kind]
            yield Mode(ALL, f"{kind}, {count(n, 'rank')}", n, options, 1, 1, 1)
            yield Mode(ALL, f"{kind}, {count(n, 'rank')}, {micro} micro-batches", n, options, 1, micro, micro)
    for n in (2, 3, 4):
        # Without --sync-bn dp's replicas normalise their parts of the batch, which follow each other in it. The parts of ddp,
        # mirrored and zero take turns in it: no run of one rank has batches that are normalised so.
        yield Mode(("resnet20",), f"dp, {n} ranks without --sync-bn", n, ["--parallel", "dp", "--sync-bn=no"], 1, 1, n)


def pipelines():
    """A chunk is a micro-batch of its own; one chunk is the whole batch."""
    for n in (2, 3, 4):
        for schedule, chunks in (("gpipe", 1), ("gpipe", 4), ("1f1b", 1), ("1f1b", 4), ("1f1b", 6)):
            options = ["--pipeline-parallel", n, "--schedule", schedule, "--chunks", chunks]
            yield Mode(ALL, f"pipeline of {n}, {schedule}, {count(chunks, 'chunk')}", n, options, n, 1, chunks)
        options = ["--pipeline-parallel", n, "--schedule", "1f1b", "--chunks", 2]
        yield Mode(ALL, f"pipeline of {n}, 1f1b, 2 chunks, 3 micro-batches", n, options, n, 3, 6)
    for schedule, chunks, micro in (("gpipe", 1, 1), ("gpipe", 3, 1), ("1f1b", 1, 1), ("1f1b", 3, 1), ("1f1b", 3, 2)):
        options = ["--pipeline-parallel", 2, "--schedule", schedule, "--chunks", chunks]
        name = f"pipeline of 2 x ddp of 2, {schedule}, {count(chunks, 'chunk')}" + (f", {micro} micro-batches" if micro > 1 else "")
        yield Mode(ALL, name, 4, options, 2, micro, chunks * micro)


def tensor_parallel():
    for kind in ("ddp", "mirrored"):
        for n, tensor in ((2, 2), (3, 3), (4, 4), (4, 2)):
            name = f"tensor of {tensor}" + (f" x {kind} of {n // tensor}" if n > tensor else f", ranks of {kind}")
            options = ["--tensor-parallel", tensor, "--parallel", kind]
            yield Mode(LINEAR, name, n, options, tensor, 1, 1)
            yield Mode(LINEAR, name + ", 2 micro-batches", n, options, tensor, 2, 2)
            yield Mode(LINEAR, name + ", sequences too", n, [*options, "--sequence-parallel"], tensor, 1, 1)


def grids():
    """Two axes beside that of samples, and zero1 to zero3 with each of them."""
    for stages, tensor, n, chunks in ((2, 2, 4, 3), (2, 2, 8, 3), (3, 2, 6, 1)):
        options = ["--pipeline-parallel", stages, "--tensor-parallel", tensor, "--chunks", chunks]
        name = f"pipeline of {stages} x tensor of {tensor}" + (f" x ddp of {n // 4}" if n == 8 else "")
        yield Mode(LINEAR, name, n, options, stages * tensor, 1, 1)
        yield Mode(LINEAR, name + ", 2 micro-batches", n, options, stages * tensor, 2, 2)
    for kind in ("zero1", "zero2", "zero3", "mirrored"):
        yield Mode(ALL, f"pipeline of 2 x {kind} of 2, 3 chunks", 4, ["--pipeline-parallel", 2, "--chunks", 3, "--parallel", kind], 2, 1, 3)
    for kind in ("zero1", "zero2", "zero3"):
        yield Mode(LINEAR, f"tensor of 2 x {kind} of 2", 4, ["--tensor-parallel", 2, "--parallel", kind], 2, 1, 1)


def rings():
    """Gradients, weights, shards and layers that go from neighbour to neighbour; a pipeline's ranks add up over rings of two."""
    ring = ["--backend", "ring"]
    for kind, n in (("ddp", 3), ("mirrored", 4), ("dp", 2), ("zero1", 3), ("zero2", 4), ("zero3", 2)):
        yield Mode(ALL, f"{kind} on a ring, {n} ranks", n, [*ring, "--parallel", kind], 1, 1, 1)
    yield Mode(ALL, "pipeline of 2 x ddp of 2 on rings", 4, [*ring, "--pipeline-parallel", 2, "--chunks", 2], 2, 1, 2)
    yield Mode(LINEAR, "tensor of 3 on a ring", 3, [*ring, "--tensor-parallel", 3], 3, 1, 1)


MODES = [*data_parallel(), *pipelines(), *tensor_parallel(), *grids(), *rings()]

# What there is no curve of, since it is refused: model, ranks, options, what is said.
REFUSED = [
    ("resnet20", 2, ["--tensor-parallel", 2], "tensor parallelism can shard only 650 of"),
    ("gpt", 4, ["--tensor-parallel", 2, "--parallel", "dp"], "cannot be combined with --parallel dp"),
    ("gpt", 4, ["--pipeline-parallel", 2, "--parallel", "dp"], "cannot be combined with --parallel dp"),
    ("gpt", 3, ["--reproducible"], "takes 1, 2 or 4 ranks"),
    ("gpt", 2, ["--reproducible", "--accumulate", 8], "where a rank does a step in 4 parts"),
    ("gpt", 2, ["--reproducible", "--accumulate", 2, "--parallel", "zero3"], "--reproducible with --accumulate cannot be combined with --parallel zero3"),
    ("resnet20", 2, ["--reproducible", "--accumulate", 2, "--sync-bn"], "--reproducible with --accumulate cannot be combined with --sync-bn"),
    ("gpt", 2, ["--reproducible", "--pipeline-parallel", 2, "--chunks", 2], "--reproducible cannot be combined with --chunks"),
]


def wanted(*lines):
    return any(WANTED in line for line in lines)


def run(folder, name, model, ranks, options, sharing=1, micro=1):
    """A run's curve; whatever ended it otherwise is raised as an error."""
    spec, data, common = MODELS[model]
    sync = ["--sync-bn"] if model == "resnet20" and "--sync-bn=no" not in options else []
    options = [o for o in options if o != "--sync-bn=no"]
    out = train(folder, name, spec, data, ranks, [*common, *sync, "--accumulate", micro, "--save-every", 0, *options], BATCH // micro, sharing)
    rows = curve(out)
    if len(rows) != STEPS:
        raise RuntimeError(f"{len(rows)} steps")
    return rows


def first_and_last(rows):
    losses = [row["loss"] for row in rows]
    return sum(losses[:5]), sum(losses[-5:])


def curves(folder):
    make_data(folder)
    for model in MODELS:
        modes = [mode for mode in MODES if model in mode.models and wanted(f"{model}, {mode.name}: ")]
        ones = {}
        for i, mode in enumerate(modes):
            line = f"{model}, {mode.name}: {STEPS} steps, "
            parts = mode.parts if model == "resnet20" else 1
            try:
                if parts not in ones:
                    ones[parts] = run(folder, f"{model}-one-{parts}", model, 1, [], 1, parts)
                    first, last = first_and_last(ones[parts])
                    yield (f"{model}, one rank, {count(parts, 'micro-batch')}: the loss goes from {first / 5:.4f} to {last / 5:.4f}",
                           "" if last < 0.99 * first else "it learns nothing that others could differ in")
                many = run(folder, f"{model}-{i}", model, mode.ranks, mode.options, mode.sharing, mode.micro)
                far = apart(many, ones[parts])
                yield (f"{line}at most {far:.1e} from one rank" + (f" with {parts} micro-batches" if parts > 1 else ""),
                       "" if far <= BOUND else f"more than {BOUND:.0e}, norms {apart(many, ones[parts], 'grad_norm'):.1e}")
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                yield line + "it failed", str(error)


def bits(out):
    """Losses and norms, digit by digit, and all bytes of the weights."""
    gtrain("ckpt", "convert", f"{out}/model.pth", "-o", f"{out}/model.safetensors")
    with open(f"{out}/model.safetensors", "rb") as f:
        return [(row["loss"], row["grad_norm"]) for row in curve(out)], f.read()


# name      ranks    what runs, to the bit as the first one of the same name's beginning (what is before the comma)
# options   sharing  micro: as in a Mode
Bits = collections.namedtuple("Bits", "models name ranks options sharing micro", defaults=(1,))
BITS = [
    Bits(ALL, "one, 1 rank", 1, [], 1),
    *(Bits(LAYERED, f"one, {kind}, {count(n, 'rank')}, 2 micro-batches", n, ["--parallel", kind, "--accumulate", 2], 1, 2)
      for kind in ("ddp", "mirrored", "dp", "zero1", "zero2") for n in (1, 2)),
    *(Bits(ALL, f"one, {kind}, {count(n, 'rank')}", n, ["--parallel", kind], 1)
      for kind in ("ddp", "mirrored", "dp", "zero1", "zero2", "zero3") for n in (1, 2, 4) if (kind, n) != ("ddp", 1)),
    *(Bits(ALL, f"one, pipeline of {stages}, {schedule}, {n} ranks", n, ["--pipeline-parallel", stages, "--schedule", schedule], stages)
      for stages, n in ((2, 2), (3, 3), (4, 4), (2, 4)) for schedule in ("gpipe", "1f1b")),
    *(Bits(ALL, f"one, {kind} on a ring, {n} ranks", n, ["--parallel", kind, "--backend", "ring"], 1)
      for kind in ("ddp", "zero2") for n in (2, 4)),
    # A layer's sums are made in as many parts as it has: that, like the model, is part of what is computed.
    *(Bits(LINEAR, f"tensor of {tensor}, {kind}, {n} ranks", n, ["--parallel", kind, "--tensor-parallel", tensor], tensor)
      for tensor, ranks in ((2, (2, 4, 8)), (4, (4, 8))) for kind in ("ddp", "mirrored") for n in ranks),
    *(Bits(LINEAR, f"tensor of 2, pipeline of 2, {kind}, {n} ranks", n,
           ["--parallel", kind, "--tensor-parallel", 2, "--pipeline-parallel", 2], 4) for kind in ("ddp", "zero1") for n in (4, 8)),
    *(Bits(LINEAR, f"tensor of 2, {kind}, 4 ranks", 4, ["--parallel", kind, "--tensor-parallel", 2], 2) for kind in ("zero1", "zero2", "zero3")),
]
FIRSTS = {bits_of.name.split(",")[0]: bits_of.name for bits_of in reversed(BITS)}.values()


def reproducible_line(model, bits_of):
    return f"{model}, {bits_of.name}, --reproducible: "


def train_reproducibly(folder, model, run):
    spec, data, options = MODELS[model]
    if model == "resnet20":  # any rate will do
        options = ["--optimizer", "sgd", "--lr", "0.05", "--sync-bn"]
    out = train(folder, f"{model}-{run.name}".replace(" ", "-"), spec, data, run.ranks,
                [*options, *run.options, "--reproducible", "--save-every", 0], BATCH // run.micro, run.sharing)
    losses, weights = bits(out)
    first, last = first_and_last(curve(out))
    if len(losses) != STEPS or last > 0.99 * first:
        raise RuntimeError(f"{len(losses)} steps, and the loss goes from {first / 5} to {last / 5}")
    return losses, weights


def reproducible(folder):
    make_data(folder)
    for model in MODELS:
        firsts = {}
        for run in (bits_of for bits_of in BITS if model in bits_of.models):
            line, kind = reproducible_line(model, run), run.name.split(",")[0]
            others = [other for other in BITS if other.name.startswith(kind) and model in other.models]
            if not wanted(*(reproducible_line(model, other) for other in others[1:])):
                continue
            try:
                if kind not in firsts:
                    firsts[kind] = run.name, train_reproducibly(folder, model, run)
                    continue
                if not wanted(line):
                    continue
                losses, weights = train_reproducibly(folder, model, run)
                name, (first, first_weights) = firsts[kind]
                differ = sum(a != b for a, b in zip(losses, first))
                yield (f"{line}{STEPS} losses and {len(weights)} bytes of weights are those of {name}",
                       "" if not differ and weights == first_weights else
                       f"{differ} losses differ, weights {'too' if weights != first_weights else 'do not'}")
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                yield line + "it failed", str(error)


def refused_line(model, ranks, options, _):
    return f"{model}, {count(ranks, 'rank')}, {' '.join(map(str, options))}: refused"


def refusals(folder):
    make_data(folder)
    for row in REFUSED:
        model, ranks, options, text = row
        if wanted(refused_line(*row)):
            spec, data, _ = MODELS[model]
            try:
                said = gtrain("train", "--model", spec, "--data", data.format(folder), "--nproc", ranks, "--batch", BATCH // ranks, "--out",
                              f"{folder}/none", *COMMON, *options, status=2)
            except RuntimeError as error:
                said = str(error)
            yield refused_line(*row), "" if text in said and "hint: " in said else said


def main():
    sys.stdout.reconfigure(line_buffering=True)
    if not wanted(*(f"{model}, {mode.name}: " for mode in MODES for model in mode.models),
                  *(reproducible_line(model, bits_of) for bits_of in BITS for model in bits_of.models if bits_of.name not in FIRSTS),
                  *(refused_line(*row) for row in REFUSED)):
        print(f"curves.py: no line contains '{WANTED}'", file=sys.stderr)
        return 1
    return tap.run((curves, reproducible, refusals), GTRAIN)


if __name__ == "__main__":
    sys.exit(main())
