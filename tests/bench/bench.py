"""bench.py - the speed of gtrain's training steps beside PyTorch's and the machine's own, in one run.

bench.py [--rounds N] [--threads N] [--only ROW] [--quick] [--check] [--blas DIR] [--json FILE]

Each round of a row measures gtrain, PyTorch and the machine one right after the other, so that what else the machine
does hits all of them; ratios are taken per round, and the table gives medians and how far the rounds lie apart. Warm-up
steps are left out on both sides. gtrain's figure is its own loop's with its loader; PyTorch's leaves loading out.

PyTorch is given its best setting: oneDNN's layouts, OpenBLAS told of this processor, malloc that keeps its memory.
With the reference BLAS, which is what a bare python3-torch computes with, its ratios are no comparison: they are marked,
and --check does not pass on them. --blas DIR lends it the libblas.so.3 in DIR, nothing installed.

Of PyTorch's vector codes (ATEN_CPU_CAPABILITY, unless set) the faster one counts, row by row.

GTRAIN is the program, GTRAIN_TESTS the folder of bench_machine. --check: exit status 1 if a floor is missed or could not
be judged.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Optional

GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
TESTS = os.environ.get("GTRAIN_TESTS", os.path.join(os.path.dirname(GTRAIN), "tests"))
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON_WITH_TORCH = "/usr/bin/python3"

# Multiply-adds of a ResNet-20's convolutions and its linear layer on one 32 x 32 image: 3 -> 16, then per stage
# 6 x (16 -> 16), 16 -> 32 and 5 x (32 -> 32), 32 -> 64 and 5 x (64 -> 64), all 3 x 3.
RESNET20_MACS = 9 * (3 * 16 * 1024 + 6 * 16 * 16 * 1024 + (16 * 32 + 5 * 32 * 32) * 256 +
                     (32 * 64 + 5 * 64 * 64) * 64) + 640


@dataclass
class Row:
    name: str
    model: str
    batch: int
    every: int  # steps from one line of metrics to the next; the first of them warm up
    optimizer: str = "adamw"
    clip: float = 0
    evaluate: bool = False
    unit: str = "images/s"
    per_sample: int = 1  # units in a sample
    macs: Optional[int] = None  # of a sample, forward; None: parameters per token
    floor_ratio: Optional[float] = None
    floor_share: Optional[float] = None
    quick: bool = True


def gpt(name, model, block, batch, every, **more):
    return Row(name, model, batch, every, unit="tokens/s", per_sample=block, **more)


ROWS = [
    gpt("nanogpt", "gpt:layers=4,heads=4,width=128,block=64,dropout=0,bias=no,vocab=65", 64, 12, 5,
        clip=1, floor_ratio=3),
    gpt("gpt2", "gpt2:block=64", 64, 4, 1, floor_share=0.55),
    gpt("char", "gpt:layers=6,heads=6,width=384,block=256,dropout=0,bias=no,vocab=65", 256, 8, 1,
        clip=1, quick=False),
    gpt("char-dropout", "gpt:layers=6,heads=6,width=384,block=256,dropout=0.2,bias=no,vocab=65", 256, 8,
        1, clip=1, quick=False),
    Row("resnet20", "resnet20", 128, 2, "sgd", macs=RESNET20_MACS, floor_ratio=1.0),
    Row("resnet20-eval", "resnet20", 128, 2, evaluate=True, macs=RESNET20_MACS, floor_ratio=1.2),
    Row("lenet", "lenet", 64, 20, macs=6 * 25 * 784 + 16 * 150 * 100 + 400 * 120 + 120 * 84 + 840,
        quick=False),
    Row("mlp", "mlp:784,256,10", 128, 50, unit="samples/s", macs=784 * 256 + 2560, quick=False),
]


class Failure(Exception):
    pass


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        raise Failure(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done


# gtrain ------------------------------------------------------------------------------------------


class Gtrain:
    """Measures samples per second of one row; makes files below `folder`."""

    def __init__(self, row, threads, folder):
        self.row, self.folder, self.rounds = row, folder, 0
        self.threads = ["--threads", str(threads)]
        self.checkpoint = None
        if row.evaluate:
            out = os.path.join(folder, "weights")
            run(self.train_command(out) + ["--steps", "1"])
            self.checkpoint = os.path.join(out, "model.pth")

    def data(self, batches):
        return ["--data", f"random:,samples={batches * self.row.batch}",
                "--batch", str(self.row.batch)]

    def train_command(self, out):
        row = self.row
        return [GTRAIN, "train", "--model", row.model, "--out", out, "--optimizer", row.optimizer,
                "--clip", str(row.clip), "--log-every", str(row.every), "--save-every", "0",
                "--quiet", *self.data(64), *self.threads]

    def parameters(self):
        plan = run(self.train_command(self.folder) + ["--dry-run", "--json"])
        return json.loads(plan.stdout)["parameters"]

    def measure(self, seconds):
        return self.evaluate(seconds) if self.row.evaluate else self.train(seconds)

    def train(self, seconds):
        """Its own lines of metrics, without the first, until they cover that time."""
        self.rounds += 1
        out = os.path.join(self.folder, f"run-{self.rounds}")
        command = self.train_command(out) + ["--steps", "1000000"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            while process.poll() is None:
                time.sleep(0.05)
                rates = [line["samples_per_s"] for line in self.metrics(out)][1:]
                times = [self.row.every * self.row.batch / rate for rate in rates]
                if len(times) * self.row.every >= 3 and sum(times) >= seconds:
                    return len(times) * self.row.every * self.row.batch / sum(times)
            raise Failure(f"{' '.join(command)}: {process.stderr.read().strip()}")
        finally:
            process.kill()  # before it writes checkpoints that nobody wants
            process.communicate()

    @staticmethod
    def metrics(out):
        try:
            with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def evaluate(self, seconds):
        """A long evaluation less a short one, so that what comes once does not count."""
        short = self.evaluation_seconds(4)
        batches = max(4, round(4 * seconds / short))
        return batches * self.row.batch / (self.evaluation_seconds(4 + batches) - short)

    def evaluation_seconds(self, batches):
        done = run([GTRAIN, "eval", "--model", self.row.model, "--ckpt", self.checkpoint,
                    *self.data(batches), *self.threads])
        return float(re.search(r"evaluated \d+ samples in ([\d.]+) s", done.stderr).group(1))


# PyTorch -----------------------------------------------------------------------------------------


def torch_environment(threads, blas, vectors=""):
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads),
           # OpenBLAS 0.3.21 does not know processors later than itself, and takes them for a Prescott.
           "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE") or best_coretype(),
           "MALLOC_TRIM_THRESHOLD_": "-1", "MALLOC_TOP_PAD_": str(64 << 20), "MALLOC_MMAP_MAX_": "0",
           "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}
    if vectors:
        env["ATEN_CPU_CAPABILITY"] = vectors
    if blas:
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, [blas, os.environ.get("LD_LIBRARY_PATH")]))
    return env


def has_instructions(name):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return name in file.read().split()


def best_coretype():
    return "SKYLAKEX" if has_instructions("avx512dq") else "HASWELL" if has_instructions("avx2") else ""


class Torch:
    """torch_step.py as a child that steps when asked to."""

    def __init__(self, row, threads, blas, vectors):
        command = [PYTHON_WITH_TORCH, os.path.join(HERE, "torch_step.py"), row.model,
                   str(row.batch), "--optimizer", row.optimizer, "--clip", str(row.clip),
                   "--threads", str(threads)]
        self.process = subprocess.Popen(
            command + ["--eval"] * row.evaluate, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=torch_environment(threads, blas, vectors))
        self.vectors = vectors or "as it comes"
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"torch_step.py ended with status {self.process.wait()}")
        return json.loads(line)

    def measure(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        answer = self.answer()
        return answer["samples"] / answer["seconds"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def open_torch(row, args):
    """With the faster of PyTorch's vector codes: it prefers AVX2, which is best for some networks only."""
    choices = [os.environ.get("ATEN_CPU_CAPABILITY", "")]
    if not choices[0] and has_instructions("avx512dq"):
        choices = ["avx2", "avx512"]
    best, best_rate = None, 0
    for vectors in choices:
        torch = Torch(row, args.threads, args.blas, vectors)
        rate = torch.measure(args.seconds / 2) if len(choices) > 1 else 1
        if rate > best_rate:
            torch, best, best_rate = best, torch, rate
        if torch:
            torch.close()
    return best


def find_torch(threads, blas):
    """What PyTorch is there: {"torch": version, "blas": file or None, ...}; None without one."""
    probe = [PYTHON_WITH_TORCH, os.path.join(HERE, "torch_step.py"), "--probe"]
    try:
        done = subprocess.run(probe, capture_output=True, text=True,
                              env=torch_environment(threads, blas))
    except OSError:
        return None
    return json.loads(done.stdout) if done.returncode == 0 else None


# The rounds --------------------------------------------------------------------------------------


def machine(threads, seconds):
    env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    return json.loads(run([os.path.join(TESTS, "bench_machine"), str(seconds)], env=env).stdout)


def measure_row(row, args, with_torch):
    """The rounds of a row: [{"gtrain", "torch", "ratio", "share", "sgemm_gflop_s", ...}]."""
    rounds = []
    with tempfile.TemporaryDirectory(prefix="gtrain-bench-") as folder:
        gtrain = Gtrain(row, args.threads, folder)
        flops = 2 * (row.macs or gtrain.parameters() * row.per_sample) * (1 if row.evaluate else 3)
        torch = open_torch(row, args) if with_torch else None
        try:
            for number in range(args.rounds):
                print(f"{row.name}: round {number + 1} of {args.rounds}", file=sys.stderr)
                rate = gtrain.measure(args.seconds)
                peer = torch.measure(args.seconds) if torch else None
                rates = machine(args.threads, args.seconds / 8)
                rounds.append({
                    "gtrain": rate * row.per_sample, "torch": peer and peer * row.per_sample,
                    "ratio": peer and rate / peer, "torch_vectors": torch and torch.vectors,
                    "share": flops * rate / (1e9 * rates["sgemm_gflop_s"]), **rates})
        finally:
            if torch:
                torch.close()
    return rounds


# The table ---------------------------------------------------------------------------------------


def spread(rounds, key):
    """[median, least, most], or None where there is nothing."""
    values = [r[key] for r in rounds if r[key] is not None]
    return [statistics.median(values), min(values), max(values)] if values else None


def summarize(row, rounds):
    return {"row": row.name, "unit": row.unit, "model": row.model, "batch": row.batch,
            **{key: spread(rounds, key) for key in ("gtrain", "torch", "ratio", "share")},
            "floor": {"ratio": row.floor_ratio, "share": row.floor_share}, "rounds": rounds}


def verdict(result, fair):
    """The floor and whether it holds: (text, True, False, or None where it cannot be judged)."""
    ratio, share = result["floor"]["ratio"], result["floor"]["share"]
    if share is not None:
        return f">= {share:.2f} of sgemm", result["share"][0] >= share
    if ratio is not None:
        return f">= {ratio:.1f} x", result["ratio"][0] >= ratio if fair and result["ratio"] else None
    return "", True


def three(values, form):
    return "-" if values is None else "{0:{f}} ({1:{f}} - {2:{f}})".format(*values, f=form)


def median_of(values):
    return "-" if values is None else f"{values[0]:,.0f}"


def print_table(results, fair):
    said = {True: "held", False: "MISSED", None: "not judged"}
    lines = [["row", "unit", "gtrain", "torch", "ratio", "share of sgemm", "floor", ""]]
    for r in results:
        floor, holds = verdict(r, fair)
        lines.append([r["row"], r["unit"], median_of(r["gtrain"]), median_of(r["torch"]),
                      three(r["ratio"], ".2f") + ("" if fair or not r["ratio"] else " !"),
                      three(r["share"], ".2f"), floor, said[holds] if floor else ""])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.rjust(w) if i in (2, 3) else cell.ljust(w)
                        for i, (cell, w) in enumerate(zip(line, widths))).rstrip())
    rounds = [round_ for r in results for round_ in r["rounds"]]
    print("machine: " + ", ".join(
        f"{name} {three(spread(rounds, key), '.0f')} {unit}" for name, key, unit in (
            ("sgemm", "sgemm_gflop_s", "GFLOP/s"), ("copy", "copy_gb_s", "GB/s"),
            ("triad", "triad_gb_s", "GB/s"))))


def describe_torch(peer):
    if not peer:
        return False, "torch: not there, so there is nothing to compare with"
    text = f"torch {peer['torch']}, BLAS {peer['blas'] or 'the reference one'}"
    if not peer["blas"]:
        text += ("\ntorch computes with the reference BLAS: its ratios, marked !, are no comparison"
                 " (libopenblas0-openmp is a better one; see --blas)")
    return bool(peer["blas"]), text


def parse():
    parser = argparse.ArgumentParser(
        prog="bench.py", description="Step time of gtrain beside PyTorch's and the machine's rates.")
    parser.add_argument("--rounds", type=int, help="rounds of each row (5; --quick: 3)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each side (2)")
    parser.add_argument("--only", action="append", choices=[r.name for r in ROWS], metavar="ROW",
                        help="this row alone; may be repeated: " + ", ".join(r.name for r in ROWS))
    parser.add_argument("--quick", action="store_true", help="rows that have a floor, less time")
    parser.add_argument("--seconds", type=float, help="of each measurement (3; --quick: 1.5)")
    parser.add_argument("--check", action="store_true", help="fail where a floor does not hold")
    parser.add_argument("--blas", metavar="DIR", help="folder of the libblas.so.3 that torch is to use")
    parser.add_argument("--json", metavar="FILE", help="write every round there")
    args = parser.parse_args()
    args.rounds = args.rounds or (3 if args.quick else 5)
    args.seconds = args.seconds or (1.5 if args.quick else 3)
    return args


def main():
    args = parse()
    peer = find_torch(args.threads, args.blas)
    fair, text = describe_torch(peer)
    print(f"{args.threads} threads, {args.rounds} rounds; median (least - most)\n{text}", flush=True)
    rows = [r for r in ROWS if (r.name in args.only if args.only else r.quick or not args.quick)]
    try:
        results = [summarize(r, measure_row(r, args, peer is not None)) for r in rows]
    except Failure as failure:
        sys.exit(f"bench.py: {failure}")
    print_table(results, fair)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"threads": args.threads, "torch": peer, "rows": results}, file, indent=1)
    if args.check and not all(verdict(r, fair)[1] for r in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
