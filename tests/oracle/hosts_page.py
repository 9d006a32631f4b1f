#!/usr/bin/env python3
"""hosts_page.py - the lines of gtrain-hosts(7), each with its launcher's variables, train on two hosts (TAP)."""
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from spaces import Hosts, no_spaces  # noqa: E402
from training import GTRAIN, make_data  # noqa: E402

os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # MPI leaks by itself
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ETC_HOSTS = "127.0.0.1 localhost\n10.99.0.1 a train-master-0\n10.99.0.2 b\n"
MORE = ["--batch", "3", "--steps", "5", "--drop-last", "-q"]


def option(words, name):
    return words[words.index(name) + 1]


def command_in(words):
    return words[words.index("gtrain") + 1:]


# ---- launchers: the line's words in, and out of them (host, variables) of each rank and gtrain's words

def torchrun(words):
    each, endpoint = int(option(words, "--nproc-per-node")), option(words, "--rdzv-endpoint").split(":")
    size = each * int(option(words, "--nnodes"))
    return [(rank // each, {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank % each, "LOCAL_WORLD_SIZE": each,
                            "MASTER_ADDR": endpoint[0], "MASTER_PORT": endpoint[1], "TORCHELASTIC_RUN_ID": option(words, "--rdzv-id"),
                            "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": option(words, "--max-restarts"),
                            "TORCHELASTIC_USE_AGENT_STORE": "True"}) for rank in range(size)]


def srun(words):
    each, nodes = int(option(words, "--ntasks-per-node")), int(option(words, "-N"))
    return [(rank // each, {"SLURM_PROCID": rank, "SLURM_NTASKS": each * nodes, "SLURM_LOCALID": rank % each, "SLURM_NODEID": rank // each,
                            "SLURM_STEP_NUM_TASKS": each * nodes, "SLURM_STEP_TASKS_PER_NODE": f"{each}(x{nodes})",
                            "SLURM_JOB_NODELIST": "a,b", "SLURM_STEP_NODELIST": "a,b", "SLURM_JOB_ID": 17, "SLURM_STEP_ID": 0})
            for rank in range(each * nodes)]


def tf_config(words):
    config = json.loads(words[0].split("=", 1)[1])
    ranks = []
    for i in range(len(config["cluster"]["worker"])):
        config["task"]["index"] = i
        ranks.append((i, {"TF_CONFIG": json.dumps(config)}))
    return ranks


def pytorch_job(replicas):
    return [(int(rank > 0), {"RANK": rank, "WORLD_SIZE": sum(replicas), "MASTER_ADDR": "train-master-0", "MASTER_PORT": 23456})
            for rank in range(sum(replicas))]


def by_ssh(hosts, folder):
    """A script in place of ssh, before others of that name."""
    os.mkdir(f"{folder}/bin")
    with open(f"{folder}/bin/ssh", "w") as f:
        f.write(f"""#!/bin/sh
while [ "$1" != a ] && [ "$1" != b ]; do shift; done
[ "$1" = a ] && space={hosts.spaces[0]} || space={hosts.spaces[1]}
host=$1
shift
exec ip netns exec $space unshare -u sh -c "hostname $host; $*"
""")
    os.chmod(f"{folder}/bin/ssh", 0o755)


def lines_of_page():
    """Names of launchers, each with the words of its line, and the manifest."""
    with open(f"{ROOT}/man/gtrain-hosts.7") as f:
        text = f.read()
    lines = {}
    for line in re.findall(r"^\.Dl \$ (.*)$", text, re.M):
        words = shlex.split(line)
        name = "--hosts" if "--hosts" in words else words[0].split("=")[0]
        lines[name] = words
    return lines, re.search(r"^\.Bd -literal -offset indent\n(apiVersion.*?)^\.Ed", text, re.M | re.S).group(1)


def start(hosts, folder, host, names, words):
    line = " ".join(map(shlex.quote, [GTRAIN, *words, *MORE]))
    env = {**os.environ, **{name: str(value) for name, value in names.items()}}
    return subprocess.Popen(hosts.inside(host, f"cd {folder}; exec {line}"), text=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def judge(folder, words, ranks):
    said = [rank.communicate(timeout=300)[1] for rank in ranks]
    good = not any(rank.returncode for rank in ranks) and os.path.exists(f"{folder}/{option(words, '--out')}/model.pth")
    return "" if good else f"{[rank.returncode for rank in ranks]}: {said}"


def page(folder):
    why = no_spaces(folder)
    if why:
        yield f"the lines of gtrain-hosts(7) # SKIP {why}", ""
        return
    make_data(folder)
    lines, manifest = lines_of_page()
    with Hosts(folder) as hosts:
        for host in range(2):
            hosts.name(host, ETC_HOSTS)
        for name, ranks_of in (("torchrun", torchrun), ("srun", srun), ("TF_CONFIG", tf_config)):
            words = command_in(lines[name])
            ranks = [start(hosts, folder, host, names, words) for host, names in ranks_of(lines[name])]
            yield f"the line for {name} trains", judge(folder, words, ranks)

        replicas = [int(n) for n in re.findall(r"replicas: (\d+)", manifest)]
        commands = {tuple(quoted or word for quoted, word in re.findall(r'"([^"]*)"|([^",\s]+)', line))
                    for line in re.findall(r"command: \[(.*)\]", manifest)}
        words = list(next(iter(commands)))[1:]
        ranks = [start(hosts, folder, host, names, words) for host, names in pytorch_job(replicas)]
        problem = judge(folder, words, ranks)
        yield "the manifest of a PyTorchJob trains", problem if len(commands) == 1 else f"commands differ: {commands}"

        by_ssh(hosts, folder)
        words = command_in(lines["--hosts"])
        ranks = [subprocess.Popen([GTRAIN, *words, *MORE], text=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"})]
        yield "the line for ssh trains", judge(folder, words, ranks)

        if not shutil.which("mpirun"):
            yield "the line for mpirun # SKIP mpirun: not installed", ""
            return
        words = [GTRAIN if word == "gtrain" else word for word in lines["mpirun"]]
        agent = ["--allow-run-as-root", "--mca", "plm_rsh_agent", f"{folder}/bin/ssh", "--mca", "btl_tcp_if_include", "cable", "--mca",
                 "oob_tcp_if_include", "cable"]
        line = " ".join(map(shlex.quote, [words[0], *agent, *words[1:], *MORE]))
        ranks = [subprocess.Popen(hosts.inside(0, f"hostname a; cd {folder}; exec {line}"), text=True, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": folder})]
        yield "the line for mpirun trains", judge(folder, command_in(lines["mpirun"]), ranks)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces go
    sys.exit(tap.run((page,), GTRAIN, sys.argv[1:]))
