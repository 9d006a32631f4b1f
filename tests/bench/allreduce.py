"""allreduce.py - gtrain's all-reduce beside Open MPI's and gloo's, on the processes of one machine, in one run.

For each number of processes: every size in place, float32, by each of them in turn, by gtrain's ring (`--backend ring`), and by a
bare loop over shared memory, which shows the rate of the memory; "reading" is the time in which that loop reads its share of all buffers and writes nothing, about the least
for any all-reduce. Peers that are not installed are left out, and said to be. --check fails where a floor does not hold: on 2
processes the bus bandwidth is 5 times Open MPI's and 8 times gloo's from 1 MiB on, on more 3 times both; 1 KiB takes less time
than Open MPI's.
"""
import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
HERE = os.path.dirname(os.path.abspath(__file__))

GLOO = """
import sys, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
def time_calls(x, calls):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(x)
    return (time.perf_counter() - start) / calls
for size in map(int, sys.argv[1:]):
    x = torch.zeros(size // 4)
    time_calls(x, 2)
    calls = torch.tensor([int(0.04 / time_calls(x, 2)) + 1])
    dist.broadcast(calls, 0)
    times = sorted(time_calls(x, int(calls)) for _ in range(5))
    if dist.get_rank() == 0:
        print(size, times[2], flush=True)
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ours(nproc, sizes, backend):
    text = subprocess.run([GTRAIN, "bench", "allreduce", "--nproc", str(nproc), "--backend", backend, "--json", "--sizes",
                           f"{sizes[0]}..{sizes[-1]}"], check=True, stdout=subprocess.PIPE).stdout
    return {row["size"]: row["in_place"]["time_s"] for row in json.loads(text)["rows"]}


def lines(text, column=1):
    return {int(words[0]): float(words[column]) for words in map(str.split, text.splitlines()) if words}


def gloo(nproc, sizes):
    if subprocess.run([sys.executable, "-c", "import torch.distributed as d; assert d.is_available()"],
                      stderr=subprocess.DEVNULL).returncode:
        return None
    env = dict(os.environ, WORLD_SIZE=str(nproc), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    ranks = [subprocess.Popen([sys.executable, "-c", GLOO, *map(str, sizes)], env=dict(env, RANK=str(rank)),
                              stdout=subprocess.PIPE, text=True) for rank in range(nproc)]
    texts = [rank.communicate()[0] for rank in ranks]
    return lines(texts[0])


def open_mpi(nproc, sizes):
    if not shutil.which("mpicc") or not shutil.which("mpirun"):
        return None
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "mpi_allreduce")
        subprocess.run(["mpicc", "-O3", "-o", program, os.path.join(HERE, "peers", "mpi_allreduce.c")], check=True)
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return lines(subprocess.run(["mpirun", *root, "--oversubscribe", "-np", str(nproc), program, *map(str, sizes)],
                                    check=True, stdout=subprocess.PIPE, text=True).stdout)


def bare(nproc, sizes):
    """of the whole loop, of its reading"""
    if not shutil.which("cc"):
        return None, None
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "bare_reduce")
        subprocess.run(["cc", "-O3", "-march=native", "-o", program, os.path.join(HERE, "peers", "bare_reduce.c")], check=True)
        text = subprocess.run([program, str(nproc), *map(str, sizes)], check=True, stdout=subprocess.PIPE, text=True).stdout
        return lines(text, 1), lines(text, 2)


def floors(nproc, times, peer, at_large):
    """(what, value, bound, holds)"""
    for size, time in times["gtrain"].items():
        if size >= 1 << 20:
            value = times[peer][size] / time
            yield f"{nproc} processes, {size >> 20} MiB: x {peer}", f"{value:.1f}", f">= {at_large}", value >= at_large
    if peer == "Open MPI":
        small = min(times["gtrain"])
        value = times[peer][small] / times["gtrain"][small]
        yield f"{nproc} processes, {small} bytes: x {peer}", f"{value:.2f}", "> 1", value > 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nproc", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--max", type=int, default=256, metavar="MIB", help="largest buffer (256)")
    parser.add_argument("--check", action="store_true", help="fail where a floor does not hold")
    args = parser.parse_args()
    sizes = [1 << k for k in range(10, 63) if 1 << k <= args.max << 20]
    good, bounds = True, []
    for nproc in args.nproc:
        times = {"gtrain": ours(nproc, sizes, "shm"), "ring": ours(nproc, sizes, "ring"), "Open MPI": open_mpi(nproc, sizes),
                 "gloo": gloo(nproc, sizes)}
        times["bare loop"], times["reading"] = bare(nproc, sizes)
        for peer in [name for name, found in times.items() if found is None]:
            print(f"skipped: {peer}: what it takes is not installed")
            del times[peer]
        print(f"\n{nproc} processes, float32, in place")
        print(f"{'size':>12}" + "".join(f" {name + ', us':>14} {'GB/s':>7}" for name in times))
        for size in sizes:
            rates = [(t[size] * 1e6, size / t[size] * 2 * (nproc - 1) / nproc / 1e9) for t in times.values()]
            print(f"{size:12}" + "".join(f" {us:14.1f} {rate:7.2f}" for us, rate in rates), flush=True)
        for peer, at_large in (("Open MPI", 5 if nproc == 2 else 3), ("gloo", 8 if nproc == 2 else 3)):
            if peer in times:
                bounds += floors(nproc, times, peer, at_large)
    print(f"\n{'floor':45} {'value':>10}  bound")
    for what, value, bound, holds in bounds:
        good &= holds
        print(f"{what:45} {value:>10}  {bound:8} {'held' if holds else 'MISSED'}")
    sys.exit(0 if good or not args.check else 1)


if __name__ == "__main__":
    main()
