"""generate.py - tokens per second of gtrain's generation beside PyTorch's with a key-value cache, in one run.

generate.py [--model SPEC] [--prompt N] [--tokens N] [--rounds N] [--threads N] [--types LIST] [--check] [--blas DIR]

Each round measures gtrain with weights in each type, PyTorch in each of its ways to multiply (torch_generate.py), and a bare loop that reads the weights,
one right after the other; ratios are taken per round, that to PyTorch with weights in float32. PyTorch's figure is its usual way's (addmm), in the faster layout of the
weights. Its products of a matrix and a vector (addmv), which no model's code calls, stand beside it: they, too, read at the speed
of memory. --check fails where the median ratio to the usual way is below 1.5.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import bench

FLOOR = 1.5


class Child:
    """A program that answers each line, a question, with a line of JSON."""

    def __init__(self, command, env):
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def measure(self, question=""):
        self.process.stdin.write(f"{question}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise bench.Failure(f"{' '.join(self.command)}: status {self.process.wait()}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def sizes(args):
    return [args.model, str(args.prompt), str(args.tokens)]


def torch_child(args, *options):
    command = [bench.PYTHON_WITH_TORCH, os.path.join(bench.HERE, "torch_generate.py"), *sizes(args)]
    return Child([*command, "--threads", str(args.threads), *options], bench.torch_environment(args.threads, args.blas))


def children(args, with_torch):
    env = {**os.environ, "OMP_NUM_THREADS": str(args.threads)}
    found = {f"gtrain, {dtype}": Child([os.path.join(bench.TESTS, "bench_generate"), *sizes(args), dtype], env) for dtype in args.types}
    if with_torch:
        found["torch, [in, out]"] = torch_child(args, "--weights", "io")
        found["torch, [out, in]"] = torch_child(args, "--weights", "oi")
        found["torch, vectors"] = torch_child(args, "--weights", "io", "--vectors")
    return found


def measure(args, with_torch):
    """A list of rounds, each a dict of answers by name."""
    rounds = []
    found = children(args, with_torch)
    try:
        for number in range(args.rounds):
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
            rounds.append({name: child.measure() for name, child in found.items()})
    finally:
        for child in found.values():
            child.close()
    return rounds


def spread(values, form):
    values = list(values)
    return "{0:{f}} ({1:{f}} - {2:{f}})".format(statistics.median(values), min(values), max(values), f=form)


def rate(answer):
    return answer["tokens_per_s"]


def ratio(answers):
    usual = [rate(answer) for name, answer in answers.items() if name.startswith("torch, [")]
    return rate(answers["gtrain, fp32"]) / max(usual) if usual and "gtrain, fp32" in answers else None


def report(rounds):
    for name in rounds[0]:
        print(f"{name:18}{spread((rate(r[name]) for r in rounds), '.2f')} tokens/s, "
              f"first after {spread((r[name]['prompt_s'] for r in rounds), '.3f')} s")
    for name in (name for name in rounds[0] if name.startswith("gtrain")):
        read = [r[name]["token_gb"] * rate(r[name]) for r in rounds]
        bare = [r[name]["read_gb_s"] for r in rounds]
        print(f"{name:18}{spread(read, '.1f')} GB/s of weights, {spread(bare, '.1f')} by a bare loop, "
              f"{spread((a / b for a, b in zip(read, bare)), '.2f')} of it")
    ratios = [ratio(r) for r in rounds]
    if None in ratios:
        return None
    print(f"gtrain / torch    {spread(ratios, '.2f')}, floor {FLOOR}")
    return statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(prog="generate.py", description="Tokens per second of gtrain and PyTorch.")
    parser.add_argument("--model", default="gpt2", help="gtrain's spec of a GPT (gpt2)")
    parser.add_argument("--prompt", type=int, default=16, help="tokens of the prompt (16)")
    parser.add_argument("--tokens", type=int, default=512, help="tokens to write (512)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (3)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each side (2)")
    parser.add_argument("--types", type=lambda text: text.split(","), default="fp32,bf16,fp16,q8_0,q4_0",
                        help="types in which gtrain keeps weights (fp32,bf16,fp16,q8_0,q4_0)")
    parser.add_argument("--check", action="store_true", help="fail where the floor does not hold")
    parser.add_argument("--blas", metavar="DIR", help="folder of the libblas.so.3 that torch is to use")
    args = parser.parse_args()
    peer = bench.find_torch(args.threads, args.blas)
    fair, text = bench.describe_torch(peer)
    print(f"{args.model}, {args.tokens} tokens behind {args.prompt}, {args.threads} threads; median (least - most)\n{text}")
    try:
        median = report(measure(args, peer is not None))
    except bench.Failure as failure:
        sys.exit(f"generate.py: {failure}")
    if args.check and not (fair and median and median >= FLOOR):
        sys.exit(1)


if __name__ == "__main__":
    main()
