"""modes.py - small networks of networks.py in every mode of training beside one rank, and back in PyTorch (make check-zoo-modes).

Each network is exported once, with data of its own. A mode is a row of MODES: its runs must have the curve and the weights of a run of
one rank. Results are kept: a cell of the table is skipped while gtrain and the network's file are the same.
"""
import argparse
import hashlib
import json
import logging
import math
import os
import shutil
import subprocess
import sys
import warnings
from dataclasses import dataclass, field

os.environ["OMP_NUM_THREADS"] = "1"
try:
    import numpy as np
    import torch
    import torch.nn.functional as F
    import networks
    from zoo import digest, move_weights, read, save
except ImportError as e:
    sys.exit(f"check-zoo: {sys.executable} has no {e.name}; ZOO_PYTHON must name a python with torch >= 2.9, torchvision, timm and transformers")

BATCH, STEPS, SAMPLES = 8, 6, 48  # samples of a step, of all ranks; steps; samples of the data
MEAN, STD = 0.5, 0.25
CURVE, WEIGHTS = 1e-6, 1e-5  # largest distances of losses, and of weights
EVAL = 1e-5
# Runs of one rank from weights one rounding apart, if weights differ by more: Adam and Muon make a step of full size of a gradient that is
# all but 0, so that a rounding error which turns a ReLU on or off moves such a weight by a step. Twice their distances pass.
NEARBY = 2
# Sums in another order round other values to 16 bits: a distance like that of the rounding itself.
LOW = 3e-2


@dataclass
class Mode:
    name: str
    common: list = field(default_factory=list)  # options of the run of one rank, too
    own: list = field(default_factory=list)
    ranks: tuple = (2, 4)
    curve: float = CURVE  # 0: the same bits
    sharing: int = 1  # ranks that share the samples
    norms: bool = True  # batch norms keep their statistics
    shared: bool = False  # is for networks with layers that ranks can share
    simulated: bool = False  # is run on simulated GPUs, too


def parallel(kind, **options):
    return Mode(kind, own=["--parallel", kind], **options)


MODES = [
    Mode("again", ranks=(1,), curve=0),
    parallel("ddp", simulated=True), parallel("zero1"), parallel("zero2"), parallel("zero3", simulated=True), parallel("mirrored"), parallel("dp"),
    Mode("pipeline", own=["--pipeline-parallel", 2, "--chunks", 2], sharing=2, norms=False, simulated=True),
    Mode("one chunk", own=["--pipeline-parallel", 2, "--chunks", 1], sharing=2, simulated=True),
    Mode("tensor", own=["--tensor-parallel", 2], sharing=2, shared=True),
    Mode("bf16", ["--amp", "bf16"], curve=LOW, simulated=True),
    Mode("bf16 zero3", ["--amp", "bf16"], ["--parallel", "zero3"], (2,), curve=LOW),
    Mode("bf16 pipeline", ["--amp", "bf16"], ["--pipeline-parallel", 2, "--chunks", 1], (2,), curve=LOW, sharing=2),
    Mode("recompute", own=["--recompute"], ranks=(1,), curve=0, simulated=True),
    Mode("recompute zero3", own=["--recompute", "--parallel", "zero3"]),
    Mode("recompute pipeline", own=["--recompute", "--pipeline-parallel", 2, "--chunks", 1], ranks=(2,), sharing=2),
    Mode("accumulate", own=["--accumulate", 2], ranks=(1, 2), norms=False),
    Mode("ema", ["--ema", 0.9], ["--parallel", "zero1"], (2,)),
    Mode("muon", ["--optimizer", "muon", "--lr", 1e-5, "--adam-lr", 1e-5, "--eps", 1e-4], ["--parallel", "zero2"]),
    Mode("adamw", ["--optimizer", "adamw", "--lr", 1e-5, "--eps", 1e-4], ["--parallel", "zero3"], (2,)),
    Mode("frozen", ["--freeze", "FIRST"], ["--parallel", "zero1"], (2,)),
    Mode("frozen pipeline", ["--freeze", "FIRST"], ["--pipeline-parallel", 2, "--chunks", 1], (2,), sharing=2),
    Mode("reproducible", ["--reproducible"], curve=0, simulated=True),
    Mode("reproducible zero3", ["--reproducible"], ["--parallel", "zero3", "--recompute"], curve=0),
    Mode("reproducible pipeline", ["--reproducible"], ["--pipeline-parallel", 2], curve=0, sharing=2),
    Mode("reproducible accumulate", ["--reproducible"], ["--accumulate", 2], (2,), curve=0, norms=False),
]


class Fault(Exception):
    """A run that failed, or results that differ."""


# ---- a network's files ----

def write_data(network, folder):
    """A text of TOKENS + 1 characters per sample and one, or images and classes."""
    rng = np.random.default_rng(5)
    if network.sample is None:
        # All characters of the vocabulary occur, so that there are as many tokens as scores.
        count = SAMPLES * networks.TOKENS + 1
        codes = np.concatenate([np.arange(networks.VOCABULARY), rng.integers(0, networks.VOCABULARY, count - networks.VOCABULARY)])
        with open(f"{folder}/text.txt", "w") as f:
            f.write("".join(chr(0x4e00 + c) for c in rng.permutation(codes)))
        return f"text:{folder}/text.txt"
    targets = np.arange(SAMPLES) % network.classes
    np.save(f"{folder}/x.npy", rng.integers(0, 256, (SAMPLES, *network.sample), dtype=np.uint8))
    np.save(f"{folder}/y.npy", rng.permutation(targets))
    return f"npy:{folder}/x.npy,target={folder}/y.npy,layout=chw,mean={MEAN},std={STD}"


def read_data(network, folder):
    """All samples in order, as PyTorch's modules take them, and their targets."""
    if network.sample is None:
        with open(f"{folder}/text.txt") as f:
            text = torch.tensor([ord(c) - 0x4e00 for c in f.read()])
        return text[:-1].view(SAMPLES, networks.TOKENS), text[1:].view(SAMPLES, networks.TOKENS)
    x, y = (torch.from_numpy(np.load(f"{folder}/{name}.npy")) for name in "xy")
    return (x.float() / 255 - MEAN) / STD, y.long()


def make(network):
    torch.manual_seed(7)
    return network.make().train()


def export(module, network, folder, name):
    x, _ = read_data(network, folder)
    exported = torch.export.export(module, (x[:2],), strict=False, dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(exported, f"{folder}/{name}.pt2")


def prepare(network, folder):
    """Export a network, unless that is done, and return facts about it."""
    facts, stamp = read(f"{folder}/facts.json"), repr([network.name, network.sample, SAMPLES, torch.__version__])
    if facts.get("stamp") == stamp:
        return facts
    os.makedirs(folder, exist_ok=True)
    module, data = make(network), write_data(network, folder)
    export(module, network, folder, "network")
    facts = {"stamp": stamp, "data": data, "first": next(iter(dict(module.named_parameters()))), "hash": digest(f"{folder}/network.pt2"),
             "batch_norm": any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in module.modules())}
    save(f"{folder}/facts.json", facts)
    return facts


# ---- runs ----

@dataclass
class Runs:
    """The runs of a network in its folder."""
    network: networks.Network
    folder: str
    facts: dict
    program: str
    device: list

    def gtrain(self, *args):
        done = subprocess.run([self.program, *map(str, args)], capture_output=True, text=True, timeout=300)
        if done.returncode:
            lines = [s for s in done.stderr.strip().splitlines() if "error:" in s] or [f"gtrain ended with status {done.returncode}"]
            raise Fault(lines[0].removeprefix("gtrain: error: "))
        return done.stdout

    def train(self, name, options, ranks=1, sharing=1, steps=STEPS, model="network"):
        """Train from the exported weights, and return the run's folder."""
        out = f"{self.folder}/runs/{name}"
        shutil.rmtree(out, ignore_errors=True)
        options = [self.facts["first"] if v == "FIRST" else v for v in options]
        batch = BATCH * sharing // ranks
        if "--accumulate" in options:
            batch //= 2
        base = [] if "--optimizer" in options else ["--optimizer", "sgd", "--lr", self.network.lr]
        sync = ["--sync-bn"] if self.facts["batch_norm"] else []
        self.gtrain("train", "--model", f"{self.folder}/{model}.pt2", "--data", self.facts["data"], "--batch", batch, "--nproc", ranks, "--steps", steps,
                    "--warmup", 0, "--lr-schedule", "constant", "--log-every", 1, "--seed", 3, "--workers", 0, "-q", "--out", out,
                    *base, *sync, *self.device, *options)
        return out

    def reference(self, options):
        """The run of one rank; it is kept while modes of this network are run."""
        name = "one" + hashlib.sha256(repr(options).encode()).hexdigest()[:8]
        out = f"{self.folder}/runs/{name}"
        return out if os.path.exists(f"{out}/model.pth") else self.train(name, options)

    def nearby(self, options):
        """For each tensor, the largest distance of runs of one rank from weights one rounding apart to the reference."""
        found, one = {}, weights(self.reference(options))
        for i in range(NEARBY):
            export(move_weights(make(self.network), i), self.network, self.folder, "nearby")
            far = tensors_apart(weights(self.train("nearby", options, model="nearby")), one)
            found = {k: max(x, found.get(k, 0)) for k, x in far.items()}
        return found


def losses(out):
    with open(f"{out}/metrics.jsonl") as f:
        return [row["loss"] for row in map(json.loads, f) if row["split"] == "train"]


def weights(out):
    """All that a run has learned, with running means."""
    files = [name for name in ("model.pth", "model_ema.pth") if os.path.exists(f"{out}/{name}")]
    return {f"{name} {k}": v for name in files for k, v in torch.load(f"{out}/{name}").items()}


def tensors_apart(a, b):
    """For each tensor, the largest distance of a and b, relative to the largest element."""
    if list(a) != list(b):
        raise Fault("other names of weights")
    far = {k: float((a[k].double() - v.double()).abs().max() / v.double().abs().max().clamp(min=1e-2)) for k, v in b.items() if v.numel()}
    return {k: math.inf if math.isnan(x) else x for k, x in far.items()}  # max() would pass over NaN


def compare(out, one, bound, nearby=dict):
    """Return the distance of two runs' curves; a fault if it, or that of the weights, is over its bound. nearby() returns the distances of
    weights that rounding alone explains."""
    a, b = losses(out), losses(one)
    if len(a) != STEPS or len(b) != STEPS:
        raise Fault(f"{len(a)} and {len(b)} steps")
    far = max(abs(x - y) / abs(y) for x, y in zip(a, b))
    if not far <= bound:
        raise Fault(f"losses differ by {far:.1e}: {a}, {b}")
    most = bound if bound in (0, LOW) else WEIGHTS
    over = {k: x for k, x in tensors_apart(weights(out), weights(one)).items() if x > most}
    rounding = nearby() if over and bound else {}
    faults = {k: x for k, x in over.items() if x > 2 * rounding.get(k, 0)}
    if faults:
        worst = max(faults, key=faults.get)
        raise Fault(f"{worst} differs by {faults[worst]:.1e}" + (f", one rounding makes {rounding[worst]:.1e}" if rounding else ""))
    if over:
        worst = max(over, key=over.get)
        return f"{far:.1e} ({worst}: {over[worst]:.1e}, one rounding makes {rounding[worst]:.1e})"
    return far


def run_mode(runs, mode, ranks):
    norms = runs.facts["batch_norm"]
    if norms and not mode.norms:
        return "undefined"
    one = runs.reference(mode.common)
    try:
        out = runs.train("many", [*mode.common, *mode.own], ranks, mode.sharing)
    except Fault as fault:
        if mode.shared and "tensor parallelism can shard" in str(fault):
            return "no layers to share"
        raise
    return compare(out, one, mode.curve, lambda: runs.nearby(mode.common))


def resume(runs, ranks):
    """Three steps, then three more, are six."""
    options = ["--parallel", "zero1"] if ranks > 1 else []
    whole = runs.train("whole", options, ranks)
    half = runs.train("half", options, ranks, steps=STEPS // 2)
    runs.gtrain("train", "--resume", half, "--steps", STEPS, "-q")
    return compare(half, whole, 0 if ranks == 1 else CURVE)


# ---- back to PyTorch ----

def eval_torch(module, network, folder):
    x, target = read_data(network, folder)
    with torch.no_grad():
        scores = torch.cat([module(x[i:i + BATCH]) for i in range(0, SAMPLES, BATCH)])
    return F.cross_entropy(scores.flatten(0, -2).double(), target.flatten()).item()


def set_evaluating(module):
    """Switch an exported graph to evaluation: its nodes have the mode of the export as arguments."""
    for node in module.graph.nodes:
        names = [a.name for a in node.target._schema.arguments] if hasattr(node.target, "_schema") else []
        given = dict(zip(names, node.args))
        given.update(node.kwargs)
        changed = {k: False for k in ("train", "training") if k in names}
        changed.update({k: 0.0 for k in ("dropout_p",) if given.get(k)})
        if "bernoulli" in str(node.target):  # stochastic depth keeps each sample, and divides by the probability to keep it
            changed = {"p": 1.0}
        args = list(node.args)
        for k, v in changed.items():
            if names.index(k) < len(args):
                args[names.index(k)] = v
            elif k in given:
                node.kwargs = {**node.kwargs, k: v}
        node.args = tuple(args)
    module.recompile()
    return module


def round_trip(runs, _):
    """The weights fit the user's module with strict=True, and the archive has gtrain's loss."""
    network, folder = runs.network, runs.folder
    out = runs.reference([])
    mine = json.loads(runs.gtrain("eval", "--ckpt", out, "--data", runs.facts["data"], "--batch", BATCH, "--json", "-q"))["loss"]
    module = make(network)
    module.load_state_dict(torch.load(f"{out}/model.pth"), strict=True)
    runs.gtrain("ckpt", "convert", out, "-o", f"{folder}/trained.pt2", "-q")
    exported = torch.export.load(f"{folder}/trained.pt2").module()
    far = []
    for what, theirs in (("module", eval_torch(module.eval(), network, folder)), ("archive", eval_torch(set_evaluating(exported), network, folder))):
        far.append(abs(mine - theirs) / abs(theirs))
        if not far[-1] <= EVAL:
            raise Fault(f"the loss of the {what} is {theirs!r}, not {mine!r}")
    return max(far)


# ---- the table ----

def cells_of(simulated):
    """(name, ranks, function): columns of the table."""
    rows = [(m.name, n, lambda runs, n, m=m: run_mode(runs, m, n)) for m in MODES if m.simulated or not simulated for n in m.ranks[:1 if simulated else None]]
    return rows if simulated else rows + [("resume", 1, resume), ("resume", 2, resume), ("round trip", 1, round_trip)]


def check(runs, cells, path, program):
    """Fill in a network's row of results."""
    kept = read(path).get(runs.network.name, {})
    shutil.rmtree(f"{runs.folder}/runs", ignore_errors=True)
    row = {}
    for name, ranks, function in cells:
        cell, key = f"{name} {ranks}", f"{program} {runs.facts['hash']}"
        row[cell] = kept.get(cell, {})
        if row[cell].get("key") == key and row[cell].get("good"):
            continue
        try:
            row[cell] = {"key": key, "good": True, "result": function(runs, ranks)}
        except Fault as fault:
            row[cell] = {"key": key, "good": False, "result": str(fault)}
            print(f"{runs.network.name}: {cell}: {str(fault)[:400]}", flush=True)
        keep(path, runs.network.name, {cell: row[cell]})
    shutil.rmtree(f"{runs.folder}/runs", ignore_errors=True)
    return row


def text_of(cell):
    if not cell["good"]:
        return cell["result"]
    return cell["result"] if isinstance(cell["result"], str) else f"{cell['result']:.1e}" if cell["result"] else "same bits"


def write_table(path, results):
    names = list(results)
    with open(path, "w") as f:
        print("| mode | " + " | ".join(names) + " |", file=f)
        print("|" + " --- |" * (len(names) + 1), file=f)
        for cell in dict.fromkeys(c for name in names for c in results[name]):
            print(f"| {cell} | " + " | ".join(text_of(results[name][cell]) if cell in results[name] else "" for name in names) + " |", file=f)


def keep(path, name, row):
    """Add to a network's row of results, in the file and in the table beside it."""
    results = read(path)
    results[name] = {**results.get(name, {}), **row}
    save(path, results)
    write_table(path.replace(".json", ".md"), results)


def main():
    parser = argparse.ArgumentParser(prog="check-zoo")
    parser.add_argument("--gtrain", required=True, help="the program")
    parser.add_argument("--folder", required=True, help="where networks and results are kept")
    parser.add_argument("--only", help="a part of names of networks")
    parser.add_argument("--mode", help="a part of names of modes")
    parser.add_argument("--simulated", action="store_true", help="the program has simulated GPUs: train on those")
    args = parser.parse_args()
    rows = [n for n in (networks.TINY if args.simulated else networks.SMALL) if not args.only or args.only in n.name]
    cells = [c for c in cells_of(args.simulated) if not args.mode or args.mode in c[0]]
    if not rows or not cells:
        sys.exit(f"check-zoo: no network is called '{args.only}', or no mode '{args.mode}'")
    os.makedirs(args.folder, exist_ok=True)
    path = f"{args.folder}/{'simulated' if args.simulated else 'modes'}.json"
    program, good, count = digest(args.gtrain) + digest(__file__), 0, 0  # results of other modes are none of these
    for network in rows:
        folder = os.path.abspath(f"{args.folder}/{'simulated/' if args.simulated else ''}{network.name}")
        runs = Runs(network, folder, prepare(network, folder), os.path.abspath(args.gtrain), ["--device", "cuda"] if args.simulated else [])
        row = check(runs, cells, path, program)
        passed = sum(cell["good"] for cell in row.values())
        good, count = good + passed, count + len(row)
        print(f"{network.name}: {passed} of {len(row)} pass", flush=True)
    print(f"{good} of {count} pass")
    sys.exit(good < count)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    main()
