#!/usr/bin/env python3
"""tcp_hosts.py - ranks on two hosts, without MPI: each launcher's variables, names and addresses, a rank that is killed (TAP)."""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from spaces import ADDRESSES, NAMES, SIX, Hosts, no_spaces  # noqa: E402
from training import BATCH, COMMON, GTRAIN, apart, curve, make_data, train  # noqa: E402

MODEL, DATA, OPTIONS = "mlp:5,16,3", "csv:{}/table.csv", ["--optimizer", "adamw", "--lr", "0.005", "--clip", "0.5"]
PORT = 29400  # the hosts have no other programs
# As Debian writes it: each host's own name is an address of the loopback interface. The service has an address that no host can bind.
ETC_HOSTS = (f"127.0.0.1 localhost\n127.0.1.1 hosta\n{ADDRESSES[1]} hostb\n10.99.0.77 service\n",
             f"127.0.0.1 localhost\n127.0.1.1 hostb\n{ADDRESSES[0]} hosta service\n")


def torchrun(host, local, each):
    return {"RANK": str(each * host + local), "WORLD_SIZE": str(2 * each), "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(each),
            "MASTER_ADDR": "hosta", "MASTER_PORT": str(PORT), "TORCHELASTIC_RUN_ID": "17"}


def srun(host, local, each):
    """A batch script has exported torchrun's variables before."""
    return {"SLURM_PROCID": str(each * host + local), "SLURM_NTASKS": str(2 * each), "SLURM_LOCALID": str(local),
            "SLURM_STEP_NUM_TASKS": str(2 * each), "SLURM_STEP_TASKS_PER_NODE": f"{each}(x2)", "SLURM_NODEID": str(host),
            "SLURM_JOB_NODELIST": "host[a,b]", "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "WORLD_SIZE": str(2 * each), "RANK": "0"}


def tf_config(host, local, each):
    workers = [f"{address}:{PORT + i}" for address in ADDRESSES for i in range(each)]
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": each * host + local}})}


def pytorch_job(host, local, each):
    """Kubeflow's: nothing says how many ranks a host has, and the master knows itself by its own name."""
    return {"RANK": str(each * host + local), "WORLD_SIZE": str(2 * each), "MASTER_ADDR": "hosta", "MASTER_PORT": str(PORT)}


def service(host, local, each):
    return {**pytorch_job(host, local, each), "MASTER_ADDR": "service"}


def six(host, local, each):
    return {**torchrun(host, local, each), "MASTER_ADDR": f"[{SIX[0]}]", "GTRAIN_SECRET": "sesame"}


def start(hosts, words, launcher, each, program=GTRAIN, **more):
    """A process per rank, in the order of ranks."""
    ranks = []
    for host in range(2):
        for local in range(each):
            names = {**launcher(host, local, each), **more}
            line = " ".join(f"'{word}'" for word in (program, *words))
            ranks.append(subprocess.Popen(hosts.inside(host, f"exec {line}"), text=True, env={**os.environ, **names},
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    return ranks


def finish(ranks, timeout=60):
    """Standard output and error of each, after they have succeeded."""
    done = [rank.communicate(timeout=timeout) for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise RuntimeError("\n".join(f"rank {i}: status {rank.returncode}: {done[i][1]}" for i, rank in enumerate(ranks)))
    return done


def same_file(a, b):
    with open(a, "rb") as f, open(b, "rb") as g:
        return f.read() == g.read()


def words_of(folder, name, n, *more):
    return ["train", "--model", MODEL, "--data", DATA.format(folder), "--batch", BATCH // n, "--out", f"{folder}/{name}", *COMMON,
            *OPTIONS, *more]


#        launcher, ranks of a host, mode
RUNS = [(torchrun, 2, "ddp"), (srun, 2, "zero1"), (tf_config, 2, "zero3"), (pytorch_job, 1, "ddp"), (service, 1, "zero3"),
        (six, 1, "zero1")]


def across(folder):
    why = no_spaces(folder)
    if why:
        yield f"training on two hosts by TCP # SKIP {why}", ""
        return
    make_data(folder)
    one_host = {(n, mode): train(folder, mode, MODEL, DATA, n, [*OPTIONS, "--parallel", mode])
                for n, mode in sorted({(2 * each, mode) for _, each, mode in RUNS})}
    with Hosts(folder) as hosts:
        for host in range(2):
            hosts.name(host, ETC_HOSTS[host])
        for launcher, each, mode in RUNS:
            name = f"{launcher.__name__}-{each}"
            said = finish(start(hosts, words_of(folder, name, 2 * each, "--parallel", mode), launcher, each))
            here = one_host[2 * each, mode]
            far = apart(curve(f"{folder}/{name}"), curve(here))
            problem = f"losses apart by {far:.1e}" if far or len(curve(f"{folder}/{name}")) != 50 else ""
            if not same_file(f"{folder}/{name}/model.pth", f"{here}/model.pth"):
                problem = "other bits than on one host"
            warned = ["GTRAIN_SECRET is not set" in err for _, err in said]
            if warned != [launcher is not six, *[False] * (2 * each - 1)]:
                problem = f"warnings {warned}: {said[0][1]}"
            yield f"{launcher.__name__}: {mode} on 2 hosts x {each} ranks has the bits of one host", problem
        yield from sums(hosts)
        yield from gpus(folder, hosts)
        yield from refusals(folder, hosts)
        yield from losses(folder, hosts)


def sums(hosts):
    words = ["bench", "allreduce", "--sizes", "1K..256K", "--rounds", "1", "--json"]
    d = json.loads(finish(start(hosts, words, torchrun, 2, NCCL_SOCKET_IFNAME="^lo,docker", GLOO_SOCKET_IFNAME="cable"))[0][0])
    wrong = sum(row[place]["wrong"] for row in d["rows"] for place in ("out_of_place", "in_place"))
    good = (d["backend"], d["ranks"], wrong) == ("tcp", 4, 0)
    yield "bench allreduce on two hosts: TCP by itself, every sum is right", "" if good else f"{d['backend']}, {wrong} wrong"


def gpus(folder, hosts):
    """NCCL's id goes from host to host by TCP. Both hosts' simulated GPUs are the same two."""
    name, simulated = "simulated GPUs of two hosts train over NCCL", os.path.join(os.environ.get("GTRAIN_TESTS", ""), "cudasim/gtrain-sim")
    if not os.path.exists(simulated):
        yield name, tap.Skip("gtrain-sim: not built")
        return
    words = words_of(folder, "gpus", 2, "--device", "cuda:0", "--backend", "nccl", "--steps", 5)
    finish(start(hosts, words, torchrun, 1, simulated, NCCL_MULTI_RANK_GPU_ENABLE="1"))
    with open(f"{folder}/gpus/metrics.jsonl") as f:
        steps = [json.loads(line) for line in f]
    one = curve(train(folder, "cpu", MODEL, DATA, 2, [*OPTIONS, "--steps", "5"]))
    many = [step for step in steps if step["split"] == "train"]
    far = apart(many, one)
    yield name, "" if len(many) == 5 and far <= 1e-5 else f"{len(many)} steps, losses apart by {far:.1e}"


def refusals(folder, hosts):
    for name, more, environment, wanted in (
            ("a network interface that is not there", [], {"GTRAIN_IFNAME": "cabel"},
             "GTRAIN_IFNAME: no network interface 'cabel' has an address"),
            ("shm on two hosts", ["--backend", "shm"], {}, "2 ranks on several hosts (1 on this one): --backend shm is for those of one"),
            ("different secrets", ["--timeout", "4s"], {}, "rank 1 has a wrong secret")):
        ranks = start(hosts, words_of(folder, "refused", 2, *more), torchrun, 1, **environment)
        if name == "different secrets":
            for rank in ranks:
                rank.kill()
                rank.communicate()
            ranks = start(hosts, words_of(folder, "refused", 2, *more), lambda *args: {**torchrun(*args), "GTRAIN_SECRET": str(args[0])}, 1)
        said = [rank.communicate(timeout=60)[1] for rank in ranks]
        good = all(rank.returncode for rank in ranks) and wanted in " ".join(said)
        yield f"{name}: refused by name", "" if good else f"{[rank.returncode for rank in ranks]}: {said}"


def losses(folder, hosts):
    """The time-out is that of the default, so it is not by being late that a rank is missed."""
    words = words_of(folder, "killed", 4, "--steps", 10000000, "--log-every", 100, "--save-every", 0)
    ranks = start(hosts, words, torchrun, 2)
    metrics = f"{folder}/killed/metrics.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (os.path.exists(metrics) and os.path.getsize(metrics)):
        time.sleep(0.05)
    os.kill(ranks[3].pid, signal.SIGKILL)
    since = time.monotonic()
    said = [rank.communicate(timeout=60)[1] for rank in ranks]
    seconds = time.monotonic() - since
    named = any(f"rank 3 on host {NAMES[1]} died before " in text for text in said)
    good = named and seconds < 10 and all(rank.returncode for rank in ranks)
    yield "a rank that is killed ends all others soon, and is named with its host", "" if good else f"{seconds:.1f} s: {said}"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces go
    sys.exit(tap.run((across,), GTRAIN, sys.argv[1:]))
