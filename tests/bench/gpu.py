"""gpu.py - the speed of a GPU: products, copies, training steps, and the time and share of the peak of each op, as one table.

gpu.py [--only gemm,copy,train,ops] [--steps N] [--peers FILE.json] [--json FILE] [--tiny]

GTRAIN is the program. --peers: a file of rows {"name", "value", "unit"} that another program measured on the same GPU; a row
here that has the name of one there, up to its last word, is printed with the ratio of both. --tiny: sizes for a simulated GPU,
to see that the script runs.

Training is measured by its own loop's metrics: the median of the lines behind the first, random data, the loader included. An
op's time is the GPU's, the median of its profiled steps; its bytes and FLOPs are those of the plan (gtrain train --dry-run --json): so a
share of the bandwidth counts the bytes that have to move, not those that caches save. The last row has the sum of all ops, the time of a
profiled step, and the time of the work between plans, such as the optimizer. Profiled steps are not replayed, so they may take longer
than those that the rows of training have.
"""
import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
STEPS_PROFILED = 3
WORKERS = 8  # threads that make the random data
# Products of gpt2's layers for 16 x 1024 tokens, and a cube.
SHAPES = "8192x8192x8192,16384x2304x768,16384x3072x768,16384x768x3072,16384x50304x768"
# Name of the row, unit, model, batch, units in a sample.
RUNS = [
    ("gpt2-124M bf16 B16", "tokens/s", "gpt2", 16, 1024),
    ("gpt2-124M bf16 B64", "tokens/s", "gpt2", 64, 1024),
    ("char GPT 6x384 block 256 bf16 B64", "tokens/s", "gpt:layers=6,heads=6,width=384,block=256,dropout=0,vocab=128", 64, 256),
    ("resnet20 bf16 B1024", "images/s", "resnet20", 1024, 1),
    ("resnet50 bf16 channels-last B256", "images/s", "resnet50", 256, 1),
]
# The rows of RUNS whose ops are profiled, too.
PROFILED = ("gpt2-124M bf16 B16", "resnet50 bf16 channels-last B256")
# What --tiny measures: a simulated GPU's speed means nothing.
BRIEF = ["--rounds", "1", "--seconds", "0.001"]
TINY = [("gpt bf16 B2", "tokens/s", "gpt:layers=1,heads=2,width=32,block=16,dropout=0,vocab=65", 2, 16)]


def gtrain(*args, **more):
    done = subprocess.run([GTRAIN, *map(str, args)], capture_output=True, text=True, **more)
    if done.returncode:
        raise SystemExit(f"gpu.py: {' '.join(map(str, args))}: {done.stderr.strip() or done.returncode}")
    return done.stdout


class Table:
    def __init__(self, peers):
        self.rows, self.peers = [], peers

    def row(self, name, value, unit, **more):
        self.rows.append({"name": name, "value": value, "unit": unit, **more})
        beside = [f"{k}={v}" for k, v in more.items()]
        for peer in self.peers:
            if peer["unit"] == unit and peer["name"].rsplit(" ", 1)[0] == name:
                beside.append(f"{value / peer['value']:.2f} x {peer['name'].rsplit(' ', 1)[1]}")
        print(f"{name:48} {value:14,.1f} {unit:10} {'  '.join(beside)}", flush=True)


def gemm(table, tiny):
    shapes = "64x64x64" if tiny else SHAPES
    for r in json.loads(gtrain("bench", "gemm", "--device", "cuda:0", "--shapes", shapes, "--json", *(BRIEF if tiny else [])))["rows"]:
        if r["flops_per_s"]:
            share = f"{r['flops_per_s'] / r['peak_flops_per_s']:.0%}" if r["peak_flops_per_s"] else "unknown"
            table.row(f"{r['type']} product {r['m']}x{r['n']}x{r['k']}", r["flops_per_s"] / 1e12, "TFLOP/s", peak=share)


def copy(table, tiny):
    sizes = "64K..64K" if tiny else "256M..256M"
    for r in json.loads(gtrain("bench", "copy", "--device", "cuda:0", "--sizes", sizes, "--json", *(BRIEF if tiny else [])))["rows"]:
        table.row(f"copy {r['copy']}, {r['bytes'] >> 10} KiB", r["bytes_per_s"] / 1e9, "GB/s")


def train_args(model, batch, steps, *options):
    return ["train", "--device", "cuda:0", "--model", model, "--data", f"random:,samples={4 * batch}", "--batch", batch,
            "--workers", WORKERS, "--amp", "bf16", "--steps", steps, "--log-every", 5, "--save-every", 0, "-q", *options]


def train(table, tiny, steps):
    for name, unit, model, batch, units in TINY if tiny else RUNS:
        with tempfile.TemporaryDirectory() as folder:
            gtrain(*train_args(model, batch, steps, "--out", f"{folder}/run"))
            with open(f"{folder}/run/metrics.jsonl") as f:
                rows = [json.loads(line) for line in f]
        rates = [r["samples_per_s"] for r in rows if r["split"] == "train"][1:]
        rate = statistics.median(rates)
        plan = json.loads(gtrain(*train_args(model, batch, steps, "--dry-run", "--json")))
        table.row(name, rate * units, unit, ms=f"{1e3 * batch / rate:.2f}",
                  tflops=f"{plan['flops_per_step'] * rate / batch / 1e12:.1f}", gb=f"{plan['bytes_per_step'] * rate / batch / 1e9:.0f}/s")


def spans_by_op(path):
    """Seconds in a step, the median of those recorded: of each op by name, and of the step and its parts outside the plan."""
    with gzip.open(path) as f:
        events = json.load(f)["traceEvents"]
    steps = [(e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "step" and e["name"] == "step"]
    spent = {"kernel": {}, "step": {}}
    for e in events:
        if e.get("cat") in spent:
            # A kernel is in the step that its middle is in: where it ends, the next step may begin.
            step = max((i for i, (begin, _) in enumerate(steps) if begin <= e["ts"] + e["dur"] / 2), default=0)
            spent[e["cat"]].setdefault(e["name"], [0.0] * len(steps))[step] += e["dur"] / 1e6
    return tuple({name: statistics.median(seconds) for name, seconds in of.items()} for of in spent.values())


def ops(table, tiny):
    for name, _, model, batch, _ in TINY if tiny else [run for run in RUNS if run[0] in PROFILED]:
        ops_of(table, name, model, batch)


def ops_of(table, name, model, batch):
    profile = f"wait=2,warmup=2,active={STEPS_PROFILED}"
    with tempfile.TemporaryDirectory() as folder:
        gtrain(*train_args(model, batch, 8, "--out", f"{folder}/run", "--profile", profile))
        spent, parts = spans_by_op(f"{folder}/run/trace/rank-0.json.gz")
    plan = json.loads(gtrain(*train_args(model, batch, 8, "--dry-run", "--json")))
    for op in sorted(plan["ops"], key=lambda op: -spent.get(op["name"], 0)):
        seconds = spent.get(op["name"])
        if seconds:
            table.row(f"{name}: {op['name']}", seconds * 1e6, "us/step", launches=op["launches"],
                      tflops=f"{op['flops'] / seconds / 1e12:.1f}", gb=f"{op['bytes'] / seconds / 1e9:.0f}/s")
    table.row(f"{name}: all ops", sum(spent.values()) * 1e6, "us/step",
              **{part.replace(" ", "_"): f"{seconds * 1e6:,.1f}" for part, seconds in sorted(parts.items(), key=lambda p: -p[1])})


def describe():
    """The GPU, its driver, and the commit where that can be told."""
    probe = json.loads(gtrain("probe", "--json"))
    gpus = [gpu["name"] for gpu in probe["gpus"]] or ["no GPU that the driver tells of"]
    try:
        commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:  # no git here
        commit = ""
    return f"{gpus[0]}, driver {probe['cuda']['driver']}, commit {commit or 'unknown'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="gemm,copy,train,ops")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--peers")
    parser.add_argument("--json")
    parser.add_argument("--tiny", action="store_true")
    a = parser.parse_args()
    peers = []
    if a.peers:
        with open(a.peers) as f:
            peers = json.load(f)["rows"]
    where = describe()
    print(where)
    table = Table(peers)
    parts = {"gemm": lambda: gemm(table, a.tiny), "copy": lambda: copy(table, a.tiny),
             "train": lambda: train(table, a.tiny, a.steps), "ops": lambda: ops(table, a.tiny)}
    for part in a.only.split(","):
        parts[part]()
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"on": where, "rows": table.rows}, f, indent=1)


if __name__ == "__main__":
    sys.exit(main())
