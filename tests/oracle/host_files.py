#!/usr/bin/env python3
"""host_files.py - hosts that lack rank 0's files: its run directory, config and checkpoints are sent to them; data are not (TAP)."""
import fcntl
import filecmp
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from spaces import Hosts, no_spaces  # noqa: E402
from training import GTRAIN, make_data, train  # noqa: E402

ETC_HOSTS, EACH = "127.0.0.1 localhost\n10.99.0.1 hosta\n10.99.0.2 hostb\n", 2
COMMON = ["--model", "mlp:5,16,3", "--batch", "3", "--warmup", "0", "--lr-schedule", "constant", "--optimizer", "adamw", "--drop-last",
          "--seed", "3", "-q"]


def run(hosts, folder, *words, restart=0):
    """Two ranks on each host; host B has nothing in the folder `mine`. Return the statuses and the errors."""
    line = " ".join(f"'{word}'" for word in (GTRAIN, "train", *map(str, words)))
    ranks = []
    for rank in range(2 * EACH):
        names = {"RANK": str(rank), "WORLD_SIZE": str(2 * EACH), "LOCAL_RANK": str(rank % EACH), "LOCAL_WORLD_SIZE": str(EACH),
                 "MASTER_ADDR": "hosta", "MASTER_PORT": "29400", "GTRAIN_SECRET": "sesame", "TMPDIR": f"{folder}/tmp",
                 "TORCHELASTIC_RESTART_COUNT": str(restart)}
        hide = f"mount -t tmpfs none {folder}/mine && " if rank >= EACH else ""
        ranks.append(subprocess.Popen(hosts.inside(rank // EACH, f"{hide}cd {folder}/mine && exec {line}"), text=True, env={**os.environ, **names},
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
    said = [rank.communicate(timeout=200)[1] for rank in ranks]
    return [rank.returncode for rank in ranks], said


def check(folder, out, wanted, states, said):
    """A problem, or nothing: all ranks have succeeded, the model is the wanted one, and no copies are left."""
    if any(states):
        return f"{states}: {said}"
    if not filecmp.cmp(f"{out}/model.pth", f"{wanted}/model.pth", shallow=False):
        return "other bits than on one host"
    return f"left: {os.listdir(f'{folder}/tmp')}" if os.listdir(f"{folder}/tmp") else ""


def plant(folder, digit, age):
    """A folder of copies, as a killed run leaves one."""
    path = f"{folder}/tmp/gtrain-files-{digit * 16}"
    os.makedirs(f"{path}/5")
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def files(folder):
    why = no_spaces(folder)
    if why:
        yield f"files of rank 0 on two hosts # SKIP {why}", ""
        return
    for name in ("mine", "tmp", "one"):
        os.mkdir(f"{folder}/{name}")
    make_data(folder)
    data, out = ["--data", f"csv:{folder}/table.csv"], f"{folder}/mine/run"
    whole = train(folder, "one/whole", "mlp:5,16,3", "csv:{}/table.csv", 4, [], common=[*COMMON[4:], "--steps", "40"])
    with Hosts(folder) as hosts:
        for host in range(2):
            hosts.name(host, ETC_HOSTS)
        states, said = run(hosts, folder, *COMMON, *data, "--out", out, "--steps", 20)
        states, said = (states, said) if any(states) else run(hosts, folder, "--resume", "auto", "--out", out, "--steps", 40, "-q")
        yield "--resume auto, with the run directory on rank 0's host alone", check(folder, out, whole, states, said)
        other = f"{folder}/mine/other"
        plant(folder, "0", 3600)
        states, said = run(hosts, folder, "--config", f"{out}/config.json", "--resume", f"{out}/checkpoints/step-00000020.pth", "--out", other)
        yield "--config FILE and --resume FILE of rank 0's host, where a killed run has left copies", check(folder, other, whole, states, said)
        os.rename(f"{out}/checkpoints/step-00000020.pth", f"{folder}/mine/a..b.pth")
        kept = [plant(folder, "1", 0), plant(folder, "2", 3600)]
        lock = os.open(kept[1], os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        states, said = run(hosts, folder, "--resume", "./a..b.pth", "--config", "./run/config.json", "--out", f"{folder}/mine/dots")
        yield "copies of runs that are being read stay", "" if all(map(os.path.isdir, kept)) else f"{os.listdir(f'{folder}/tmp')}"
        os.close(lock)
        for path in kept:
            shutil.rmtree(path, ignore_errors=True)
        yield "--resume FILE and --config FILE by paths with dots", check(folder, f"{folder}/mine/dots", whole, states, said)
        part = train(folder, "mine/set", "mlp:5,16,3", "csv:{}/table.csv", 4, ["--save-sharded"], common=[*COMMON[4:], "--steps", "20"])
        states, said = run(hosts, folder, "--resume", f"{part}/checkpoints/step-00000020.dcp/", "--save-sharded=no", "--out", f"{folder}/mine/dcp",
                           "--steps", 40)
        yield "--resume FOLDER, a distributed checkpoint of rank 0's host", check(folder, f"{folder}/mine/dcp", whole, states, said)
        states, said = run(hosts, folder, "--resume", part, "--save-sharded=no", "--steps", 40)
        yield "--resume RUN with a distributed checkpoint", check(folder, part, whole, states, said)
        words = [*COMMON, *data, "--out", f"{folder}/mine/again", "--steps", 20]
        states, said = run(hosts, folder, *words)
        words[words.index("--steps") + 1] = 40
        states, said = (states, said) if any(states) else run(hosts, folder, *words, restart=1)
        yield "ranks that the launcher starts again", check(folder, f"{folder}/mine/again", whole, states, said)
        os.rename(f"{folder}/table.csv", f"{folder}/mine/table.csv")
        path = f"{folder}/mine/table.csv"
        states, said = run(hosts, folder, *COMMON, "--data", f"csv:{path}", "--out", f"{folder}/mine/none", "--steps", 20)
        good = all(states) and all(path in text and ("rank 2 on host hostb: " in text or "rank 3 on host hostb: " in text) for text in said)
        yield "a host without the data is named by every rank", "" if good else f"{states}: {said}"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces go
    sys.exit(tap.run((files,), GTRAIN, sys.argv[1:]))
