#!/usr/bin/env python3
"""ssh_hosts.py - train --hosts: ranks that ssh starts on two hosts, which a script stands in for; Ctrl-C, restarts, words with quotes (TAP)."""
import filecmp
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from spaces import NAMES, Hosts, no_spaces  # noqa: E402
from training import GTRAIN, is_of, make_data, train  # noqa: E402

ETC_HOSTS = "127.0.0.1 localhost\n10.99.0.1 hosta\n10.99.0.2 hostb\n"
COMMON = ["--batch", "3", "--warmup", "0", "--lr-schedule", "constant", "--drop-last", "--seed", "3"]
os.environ["GTRAIN_IFNAME"] = "cable"  # the ranks get it
os.environ["NCCL_NO.NAME"] = "1"  # a shell cannot export it


def write_ssh(hosts, folder):
    """HOST COMMAND: as sshd does, by a shell, with the input and the output of the caller; the launcher itself is on no host."""
    path = f"{folder}/ssh"
    cases = "".join(f"{name}) space={space} ;;\n" for name, space in zip(NAMES, hosts.spaces))
    with open(path, "w") as f:
        f.write(f"""#!/bin/sh
[ "$1" = -4 ] || exit 1
shift
host=${{1#root@}}
shift
case $host in
{cases}*) echo "ssh: unknown host $host" >&2; exit 255 ;;
esac
exec env -i PATH="$PATH" HOME=/ ONEDNN_MAX_CPU_ISA="$ONEDNN_MAX_CPU_ISA" ip netns exec $space unshare -u sh -c "hostname $host; cd /; $*"
""")
    os.chmod(path, 0o755)
    return f"{path} -4"


def launch(ssh, folder, name, *words, **more):
    line = [GTRAIN, "train", "--model", "mlp:5,16,3", "--data", f"csv:{folder}/table.csv", *COMMON, "--out", f"{folder}/{name}",
            "--hosts", "hosta:2,root@hostb:2", "--ssh", ssh, *map(str, words)]
    return subprocess.Popen(line, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def left(run):
    return [pid for pid in filter(str.isdigit, os.listdir("/proc")) if is_of(pid, run)]


def none_left(run):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and left(run):
        time.sleep(0.05)
    return not left(run)


def wait_for_checkpoint(run):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (os.path.isdir(f"{run}/checkpoints") and os.listdir(f"{run}/checkpoints")):
        time.sleep(0.02)


def rank_process(run, rank):
    """The gtrain of a rank."""
    for pid in left(run):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f, open(f"/proc/{pid}/comm") as comm:
                if f"RANK={rank}".encode() in f.read().split(b"\0") and comm.read().strip() == "gtrain":
                    return int(pid)
        except OSError:
            pass
    raise RuntimeError(f"rank {rank} does not run")


def ssh_hosts(folder):
    why = no_spaces(folder)
    if why:
        yield f"ranks that ssh starts # SKIP {why}", ""
        return
    make_data(folder)
    whole = train(folder, "whole", "mlp:5,16,3", "csv:{}/table.csv", 4, [], common=[*COMMON[2:], "--steps", "40"])
    with Hosts(folder) as hosts:
        for host in range(2):
            hosts.name(host, ETC_HOSTS)
        ssh = write_ssh(hosts, folder)

        name = "it's a \"run\" $HOME"
        run = launch(ssh, folder, name, "--steps", 40, "--json")
        out, said = run.communicate(timeout=200)
        good = not run.returncode and '"step": 40' in out and filecmp.cmp(f"{folder}/{name}/model.pth", f"{whole}/model.pth", shallow=False)
        yield "--hosts trains on two hosts with the bits of one, and words keep their quotes", "" if good else f"{run.returncode}: {out}{said}"
        logs = sorted(os.listdir(f"{folder}/{name}/log"))
        yield "... and each rank has a log", "" if logs == [f"rank-{i}.log" for i in range(4)] else f"{logs}"

        run = launch(ssh, folder, "asked", "--steps", 10000000, "--save-every", 100)
        wait_for_checkpoint(f"{folder}/asked")
        run.send_signal(signal.SIGINT)
        said = run.communicate(timeout=120)[1]
        good = run.returncode == -signal.SIGINT and "go on with: gtrain train --resume auto" in said and none_left(f"{folder}/asked")
        yield "Ctrl-C ends all ranks after a step, which is saved", "" if good else f"{run.returncode}: {said}"

        run = launch(ssh, folder, "killed", "--steps", 10000000, "--save-every", 100)
        wait_for_checkpoint(f"{folder}/killed")
        run.kill()
        run.communicate()
        yield "a launcher that is killed leaves no rank", "" if none_left(f"{folder}/killed") else "ranks are left"

        run = launch(ssh, folder, "again", "--steps", 2000, "--save-every", 50, "--max-restarts", 1)
        wait_for_checkpoint(f"{folder}/again")
        os.kill(rank_process(f"{folder}/again", 3), signal.SIGKILL)
        said = run.communicate(timeout=200)[1]
        good = not run.returncode and "restart 1 of 1" in said and os.path.exists(f"{folder}/again/model.pth")
        yield "--max-restarts starts all ranks again when one is killed", "" if good else f"{run.returncode}: {said}"

        run = launch(ssh, folder, "nowhere", "--steps", 5, "--hosts", "hosta:1,hostc:1")
        said = run.communicate(timeout=120)[1]
        good = run.returncode and "rank 1 on host hostc exited with status 255" in said and "rank 1: ssh: unknown host hostc" in said
        yield "a host that ssh does not reach is named", "" if good else f"{run.returncode}: {said}"

    run = launch("/no/ssh", folder, "nossh")
    said = run.communicate(timeout=60)[1]
    yield "an ssh that is not there is named", "" if run.returncode == 1 and re.search("cannot start rank [0-3], '/no/ssh': No such", said) else said

    for value, wanted in (("a:0", "'a:0' has no number of ranks after the colon"), ("-oProxyCommand=x:1", "is not the name of a host"),
                          ("a:1,a:2", "'a' is there twice"), ("a:600,b:600", "1200 ranks, at most 1024")):
        run = launch("ssh -4", folder, "refused", f"--hosts={value}")
        said = run.communicate(timeout=60)[1]
        yield f"--hosts={value} is refused", "" if run.returncode == 2 and wanted in said else f"{run.returncode}: {said}"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces go
    sys.exit(tap.run((ssh_hosts,), GTRAIN, sys.argv[1:]))
