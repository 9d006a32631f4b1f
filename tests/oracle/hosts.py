#!/usr/bin/env python3
"""hosts.py - ranks on MPI: on one host, on two that network namespaces stand in for, and with the link between them cut (TAP)."""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from ranks import MODELS, alive  # noqa: E402
from spaces import ADDRESSES, NAMES, Hosts, no_spaces  # noqa: E402
from training import BATCH, COMMON, GTRAIN, apart, curve, make_data, train  # noqa: E402

os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # MPI leaks by itself
HERE = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
# What a lost host is noticed by: mpirun's own connections, checked every second.
KEEPALIVE = ["--mca", "oob_tcp_keepalive_time", "1", "--mca", "oob_tcp_keepalive_intvl", "1", "--mca", "oob_tcp_keepalive_probes", "3"]


def no_mpi():
    """Why there can be no ranks on MPI, or nothing."""
    if not shutil.which("mpirun"):
        return "mpirun: not installed"
    library = os.path.join(os.path.dirname(GTRAIN), "libgtrain-mpi.so")
    return "" if os.path.exists(library) else "mpi: gtrain was built without MPI"


def mpirun(folder, *words, status=0, timeout=120, **environment):
    """Standard output and error of a command under mpirun, whose own files are in `folder`."""
    done = subprocess.run(["mpirun", *map(str, words)], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, "TMPDIR": folder, **environment})
    if done.returncode != status:
        raise RuntimeError(f"status {done.returncode}: {done.stderr}")
    return done.stdout, done.stderr


def words_of(folder, name, index, nproc, *more):
    """A command line that trains MODELS[index] into a directory of that name."""
    model, data, options = MODELS[index]
    return [GTRAIN, "train", "--model", model, "--data", data.format(folder), "--batch", BATCH // nproc, "--out",
            f"{folder}/{name}", *COMMON, *options, *more]


def same_file(a, b):
    with open(a, "rb") as f, open(b, "rb") as g:
        return f.read() == g.read()


def judge(folder, name, one, one_host):
    """The problem of a run, or "": it must have the curve of one rank, and the bits of as many ranks on one host."""
    many = curve(f"{folder}/{name}")
    far = apart(many, curve(one)) if len(many) == 50 else 1
    if far > 1e-6:
        return f"{len(many)} steps, losses apart by {far:.1e}"
    return "" if same_file(f"{folder}/{name}/model.pth", f"{one_host}/model.pth") else "other bits than on one host"


def wrong_sums(text, size):
    d = json.loads(text)
    wrong = sum(row[place]["wrong"] for row in d["rows"] for place in ("out_of_place", "in_place"))
    return "" if (d["backend"], d["ranks"], wrong) == ("mpi", size, 0) else f"{d['backend']}, {d['ranks']} ranks, {wrong} wrong"


# ---- one host

def one_host(folder):
    if no_mpi():
        yield f"ranks on MPI # SKIP {no_mpi()}", ""
        return
    make_data(folder)
    for index in (1, 4):  # AdamW with clipping and a bucket for each tensor; gpt with dropout
        model, data, options = MODELS[index]
        one = train(folder, f"one{index}", model, data, 1, options)
        for n in (2, 3):
            one_host = train(folder, f"shm{index}", model, data, n, options)
            mpirun(folder, *HERE, "-n", n, *words_of(folder, f"mpi{index}-{n}", index, n, "--backend", "mpi"))
            yield f"{model}: {n} ranks on MPI have the curve of one and the bits of one host", judge(folder, f"mpi{index}-{n}", one, one_host)
    for n in (1, 2, 3):
        for dtype in ("fp32", "bf16"):
            out, _ = mpirun(folder, *HERE, "-n", n, GTRAIN, "bench", "allreduce", "--backend", "mpi", "--sizes", "1K..1M", "--rounds", 1,
                            "--dtype", dtype, "--json")
            yield f"bench allreduce on MPI, {n} ranks, {dtype}: every sum is right", wrong_sums(out, n)


def running(command):
    """Processes whose command line has this text."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if words[0] == GTRAIN.encode() and command.encode() in words:
            found.append(int(path.split("/")[2]))
    return sorted(found)


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def endless(folder, name, *more):
    return list(map(str, words_of(folder, name, 0, 2, "--steps", 10000000, "--log-every", 100, "--save-every", 0, *more)))


def begin(folder, name, words):
    """A run that trains already, and where what it says is."""
    said = open(f"{folder}/{name}.err", "w+")
    run = subprocess.Popen(words, stdout=said, stderr=said, start_new_session=True, env={**os.environ, "TMPDIR": folder})
    metrics = f"{folder}/{name}/metrics.jsonl"
    wait_for(lambda: run.poll() is not None or (os.path.exists(metrics) and os.path.getsize(metrics) > 0))
    return run, said.name


def read(path):
    with open(path) as f:
        return f.read()


def end(run, folder, name):
    """Whatever is left of it."""
    for pid in [*running(f"{folder}/{name}"), run.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    run.wait()


def losses(folder):
    if no_mpi():
        yield f"ranks on MPI that are lost # SKIP {no_mpi()}", ""
        return
    make_data(folder)
    for name, number, wanted, patience in (("stopped", signal.SIGSTOP, "is late for", "2s"),
                                           ("killed", signal.SIGKILL, "exited on signal 9", "60s")):
        words = endless(folder, name, "--backend", "mpi", "--timeout", patience)
        run, said = begin(folder, name, ["mpirun", *HERE, "-n", "2", *words])
        pids = running(f"{folder}/{name}")
        problem = "" if len(pids) == 2 else f"processes {pids}: {read(said)}"
        try:
            if not problem:
                os.kill(pids[1], number)
                if not wait_for(lambda: run.poll() is not None):
                    problem = "it goes on"
                elif not run.returncode or wanted not in " ".join(read(said).split()):  # Open MPI 5 breaks lines
                    problem = f"status {run.returncode}: {read(said)}"
                elif not wait_for(lambda: not any(map(alive, pids)), 10):
                    problem = "ranks are left"
        finally:
            end(run, folder, name)
        yield f"a rank on MPI that is {name} ends the job, and is named", problem
    words = words_of(folder, "differ", 0, 2, "--backend", "mpi")
    words[words.index("--batch") + 1] = "$((6 + OMPI_COMM_WORLD_RANK))"
    _, said = mpirun(folder, *HERE, "-n", 2, "sh", "-c", " ".join(map(str, words)), status=2)
    yield "ranks on MPI that were told different things are refused by name", "" if "batch differs: '6' on rank 0, '7' on rank 1" in said else said


# ---- two hosts

class MpiHosts(Hosts):
    """Two hosts, the second of which mpirun reaches from the first."""

    def prepare(self):
        self.write_agent()

    def write_agent(self):
        """What mpirun calls in ssh's place: HOST COMMAND..."""
        path = f"{self.folder}/agent"
        with open(path, "w") as f:
            f.write(f"""#!/bin/sh
[ "$1" = {ADDRESSES[1]} ] || exit 1
shift
exec ip netns exec {self.spaces[1]} unshare -u sh -c "hostname {NAMES[1]}; $*"
""")
        os.chmod(path, 0o755)

    def mpirun(self, *words, each=1):
        hosts = ",".join(f"{address}:{each}" for address in ADDRESSES)
        line = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-n", 2 * each, "--host", hosts, "--mca", "plm_rsh_agent",
                f"{self.folder}/agent", "--mca", "btl_tcp_if_include", "cable", "--mca", "oob_tcp_if_include", "cable",
                *KEEPALIVE, *words]
        return self.inside(0, "exec " + " ".join(f"'{word}'" for word in line))


def no_hosts(folder):
    """Why there can be no namespaces with MPI, or nothing."""
    return no_mpi() or no_spaces(folder)


def across(folder):
    why = no_hosts(folder)
    if why:
        yield f"training on two hosts # SKIP {why}", ""
        return
    make_data(folder)
    with MpiHosts(folder) as hosts:
        for index in (0, 3):
            model, data, options = MODELS[index]
            one = train(folder, f"one{index}", model, data, 1, options)
            for each in (1, 2):
                one_host = train(folder, f"shm{index}", model, data, 2 * each, options)
                name = f"hosts{index}-{each}"
                done = subprocess.run(hosts.mpirun(*words_of(folder, name, index, 2 * each), each=each), capture_output=True, text=True,
                                      timeout=120, env={**os.environ, "TMPDIR": folder})
                problem = judge(folder, name, one, one_host) if not done.returncode else f"status {done.returncode}: {done.stderr}"
                yield f"{model}: 2 hosts x {each} ranks have the curve of one and the bits of one host", problem
        done = subprocess.run(hosts.mpirun(GTRAIN, "bench", "allreduce", "--sizes", "1K..256K", "--rounds", "1", "--json"), timeout=120,
                              capture_output=True, text=True, env={**os.environ, "TMPDIR": folder})
        yield "bench allreduce on two hosts: MPI by itself, every sum is right", wrong_sums(done.stdout, 2)
        done = subprocess.run(hosts.mpirun(*words_of(folder, "shm", 0, 2, "--backend", "shm")), capture_output=True, text=True,
                              timeout=120, env={**os.environ, "TMPDIR": folder})
        good = done.returncode and "2 ranks on several hosts (1 on this one): --backend shm is for those of one host" in done.stderr
        yield "shm on two hosts is refused", "" if good else done.stderr


def cut(folder):
    """The time-out is 3 s; a busy machine gets more."""
    why = no_hosts(folder)
    if why:
        yield f"a link that is cut # SKIP {why}", ""
        return
    make_data(folder)
    with MpiHosts(folder) as hosts:
        run, said = begin(folder, "cut", hosts.mpirun(*endless(folder, "cut", "--timeout", "3s")))
        pids = running(f"{folder}/cut")
        try:
            hosts.ip("-n", hosts.spaces[1], "link", "set", "cable", "down")
            reported = wait_for(lambda: "which --timeout sets" in read(said) or run.poll() is not None, 20)
            text = read(said)
            good = len(pids) == 2 and reported and "rank 1 on host hostb is late for" in text and "which --timeout sets" in text
            yield "a link that is cut: the rank behind it is named, with its host and collective", "" if good else f"{pids}: {text}"
            good = wait_for(lambda: run.poll() is not None, 60) and run.returncode
            yield "... mpirun ends", "" if good else f"status {run.poll()}: {read(said)}"
            left = [] if wait_for(lambda: not any(map(alive, pids)), 30) else [pid for pid in pids if alive(pid)]
            yield "... and so do the ranks on both sides", f"ranks {left} are left" if left else ""
        finally:
            end(run, folder, "cut")


# ---- without MPI

def refused(folder):
    words = ["train", "--model", "mlp:5,16,3", "--data", "random", "--out", f"{folder}/a run"]
    line = f"gtrain train --model mlp:5,16,3 --data random --out '{folder}/a run'"
    done = subprocess.run([GTRAIN, *words, "--nproc", "2", "--backend", "mpi"], capture_output=True, text=True, timeout=60)
    good = done.returncode == 2 and f"mpirun -n 2 {line} --nproc 2 --backend mpi\n" in done.stderr
    yield "--backend mpi without mpirun is refused with the line to use instead", "" if good else f"status {done.returncode}: {done.stderr}"
    mpi = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}
    done = subprocess.run([GTRAIN, *words], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **mpi, "GTRAIN_MPI": "/nowhere/libgtrain-mpi.so"})
    good = done.returncode == 1 and "error: cannot open MPI: /nowhere" in done.stderr and "hint: install MPI" in done.stderr
    yield "without the library for MPI it says so", "" if good else f"status {done.returncode}: {done.stderr}"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces go
    sys.exit(tap.run((refused, one_host, losses, across, cut), GTRAIN, sys.argv[1:]))
