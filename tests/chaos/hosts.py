#!/usr/bin/env python3
"""
hosts.py - hosts are lost at random while their ranks train; the job ends in time, names what is lost, goes on, and has the same bits.

hosts.py [MOMENTS [SEED]]: each moment trains anew on two hosts with two ranks each, which network namespaces stand in for, and loses
a rank or a host; `make check-chaos-hosts` takes 200. Meanwhile other programs connect to the port: garbage, slow bytes, silence.
"""
import filecmp
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "common"), os.path.join(HERE, "..", "oracle")]
from spaces import ADDRESSES, Hosts, no_spaces  # noqa: E402
from training import GTRAIN, make_data  # noqa: E402

EACH, STEPS, SAVED, PORT = 2, 300, 50, 29400
RANKS = 2 * EACH
PATIENCE = 2     # seconds, for --timeout; on a busy machine half the time of the undisturbed run
NOTICED = 20     # seconds until a host that does not answer is lost, whatever --timeout says
GRACE = 5        # seconds that the end may take beyond that
BUSY = 10        # seconds that the undisturbed run takes on a machine that is too busy for the promise, which then gets as much more
STRANGERS = 50   # connections of other programs for each moment
ALONE = 0.2      # seconds in which other programs find rank 0 alone
UNDISTURBED = "undisturbed"
HOSTS_OF = ("127.0.0.1 localhost\n10.99.0.1 hosta\n10.99.0.2 hostb\n",) * 2


def environment(host, local, restart, each):
    return {"RANK": str(each * host + local), "WORLD_SIZE": str(2 * each), "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(each),
            "MASTER_ADDR": "hosta", "MASTER_PORT": str(PORT), "TORCHELASTIC_RUN_ID": "17", "GTRAIN_SECRET": "sesame",
            "TORCHELASTIC_RESTART_COUNT": str(restart), "OMP_NUM_THREADS": "1"}


def start(hosts, folder, name, restart=0, timeout=60, each=EACH):
    words = [GTRAIN, "train", "--model", "mlp:5,256,64,3", "--data", f"csv:{folder}/table.csv", "--batch", "3",
             "--global-batch", "12", "--steps", str(STEPS),
             "--save-every", str(SAVED), "--warmup", "0", "--drop-last", "--seed", "3", "--timeout", f"{timeout:g}s", "--out",
             f"{folder}/{name}", "--log-every", "100"]
    line = " ".join(f"'{word}'" for word in words)
    ranks = []
    for rank in range(2 * each):
        variables = environment(rank // each, rank % each, restart, each)
        ranks.append(subprocess.Popen(hosts.inside(rank // each, f"exec {line}"), text=True, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, env={**os.environ, **variables}))
        time.sleep(0 if rank else ALONE)
    return ranks


def signal_ranks(ranks, lost, number):
    for rank in lost:
        if ranks[rank].poll() is None:
            os.kill(ranks[rank].pid, number)


# ---- what is lost: the ranks that each side may name

class Killed:
    def __init__(self, rng, patience):
        self.patience = patience
        self.lost = rng.choice([[0], [1], [2], [3], [0, 1], [2, 3]])

    def act(self, hosts, ranks):
        signal_ranks(ranks, self.lost, signal.SIGKILL)

    def seconds(self):
        return GRACE

    def heal(self, hosts, ranks):
        pass

    def named(self, rank):
        return self.lost

    def __str__(self):
        return f"{type(self).__name__.lower()}: rank {' and '.join(map(str, self.lost))}"


class Stopped(Killed):
    def act(self, hosts, ranks):
        signal_ranks(ranks, self.lost, signal.SIGSTOP)

    def seconds(self):
        return self.patience + GRACE

    def heal(self, hosts, ranks):
        signal_ranks(ranks, self.lost, signal.SIGKILL)


class Cut(Killed):
    """The link of a host goes down."""

    def __init__(self, rng, patience):
        self.patience = patience
        self.lost, self.host = [], rng.randrange(2)

    def act(self, hosts, ranks):
        hosts.ip("-n", hosts.spaces[self.host], "link", "set", "cable", "down")

    def seconds(self):
        return min(self.patience, NOTICED) + GRACE

    def heal(self, hosts, ranks):
        hosts.ip("-n", hosts.spaces[self.host], "link", "set", "cable", "up")

    def named(self, rank):
        return [2, 3] if rank < EACH else [0, 1]

    def __str__(self):
        return f"{type(self).__name__.lower()}: host {self.host}"


class Dropped(Cut):
    """Packets from a host to the other do not arrive."""

    def act(self, hosts, ranks):
        hosts.ip("-n", hosts.spaces[self.host], "route", "add", "blackhole", ADDRESSES[1 - self.host])

    def heal(self, hosts, ranks):
        hosts.ip("-n", hosts.spaces[self.host], "route", "del", "blackhole", ADDRESSES[1 - self.host])


ACTS = (Killed, Stopped, Cut, Dropped)


# ---- other programs

class Strangers(threading.Thread):
    """They run in the namespace of host B, and connect to the port of rank 0."""

    def __init__(self, hosts, seed):
        super().__init__(daemon=True)
        self.process = subprocess.Popen(hosts.inside(1, f"exec {sys.executable} {__file__} --strangers {seed}"), stdout=subprocess.PIPE, text=True)
        self.count = 0

    def run(self):
        for line in self.process.stdout:
            self.count = int(line)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.join()


def be_strangers(seed):
    """Connections that say nothing, too little, too slowly, or garbage; half are closed by a reset. Prints their number."""
    rng, open_ones, count = random.Random(seed), [], 0
    while True:
        s = socket.socket()
        s.settimeout(0.5)
        try:
            s.connect((ADDRESSES[0], PORT))
            s.sendall(rng.randbytes(rng.choice([0, 1, 56, 5000])))
            count += 1
            open_ones.append(s)
        except OSError:
            s.close()
        for slow in rng.sample(open_ones, min(3, len(open_ones))):
            try:
                slow.send(b"\0")
            except OSError:
                pass
        if len(open_ones) > 80:
            gone = open_ones.pop(0)
            if rng.random() < 0.5:
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            gone.close()
        print(count, flush=True)
        time.sleep(0.001)


# ---- a moment

def ranks_in(text):
    """The numbers of ranks in an error: "rank 3", "ranks 2, 3", "ranks 1-3"."""
    found = set()
    for words in re.findall(r"\branks? ((?:\d+(?:-\d+)?(?:, | and )?)+)", text):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", words):
            found.update(range(int(first), int(last or first) + 1))
    return found


def errors_of(said):
    return [line for line in said.splitlines() if "error: " in line]


def check_end(act, ranks, since, more):
    """Problems of a job from which something was lost; whether it was too late for that."""
    texts, problems, names = [], [], []
    deadline = since + act.seconds() + more
    for rank, process in enumerate(ranks):
        if isinstance(act, Stopped) and rank in act.lost:
            texts.append("")
            continue
        try:
            texts.append(process.communicate(timeout=max(0.1, deadline - time.monotonic()))[1])
        except subprocess.TimeoutExpired:
            problems.append(f"rank {rank} goes on {time.monotonic() - since:.1f} s later")
            process.kill()
            texts.append(process.communicate()[1])
    survivors = [r for r in range(RANKS) if r not in act.lost]
    if all(ranks[r].returncode == 0 for r in survivors):
        return problems, True
    for r in survivors:
        if ranks[r].returncode == 0:
            problems.append(f"rank {r} ended as if all were well: {texts[r]}")
        for line in errors_of(texts[r]):
            if ranks_in(line) & set(act.named(r)):
                names.append(r)
    if not names:
        problems.append("the lost one is not named: " + " | ".join(texts[r].strip() for r in survivors))
    if isinstance(act, Cut) and names and not problems and {r // EACH for r in names} != {0, 1}:
        problems.append("one side does not name the other: " + " | ".join(t.strip() for t in texts))
    return problems, False


def finish(hosts, folder, name, restart, problems):
    ranks = start(hosts, folder, name, restart)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and any(rank.poll() is None for rank in ranks):
        time.sleep(0.05)
    signal_ranks(ranks, range(RANKS), signal.SIGKILL)
    texts = [rank.communicate()[1] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        problems.append(f"it does not go on: {texts}")
    elif not filecmp.cmp(f"{folder}/{name}/model.pth", f"{folder}/{UNDISTURBED}/model.pth", shallow=False):
        problems.append("the model is another")


def one_moment(rng, act, hosts, folder, name, longest):
    """Return what was done and the problems; None in place of them if the job was over before."""
    ranks = start(hosts, folder, name, timeout=act.patience)
    at = rng.uniform(0.05, longest)
    time.sleep(at)
    since = time.monotonic()
    act.act(hosts, ranks)
    try:
        problems, late = check_end(act, ranks, since, longest if longest > BUSY else 0)
    finally:
        act.heal(hosts, ranks)
        signal_ranks(ranks, range(RANKS), signal.SIGKILL)
        for rank in ranks:
            rank.wait()
    if not late:
        finish(hosts, folder, name, 1, problems)
    return f"{act}, after {at:.2f} s", None if late and not problems else problems


def moments(hosts, folder, rng, count, acts=None):
    """Yield what was done and the problems of `count` moments; `acts` are those to take in turn."""
    done = 0
    for host in range(2):
        hosts.name(host, HOSTS_OF[host])
    since = time.monotonic()
    for rank in (ranks := start(hosts, folder, UNDISTURBED)):
        rank.wait(timeout=300)
    if any(rank.returncode for rank in ranks):
        raise RuntimeError([rank.communicate()[1] for rank in ranks])
    longest = time.monotonic() - since
    patience = PATIENCE if longest < BUSY else longest / 2
    while done < count:
        act = acts[done % len(acts)] if acts else rng.choice(ACTS)
        what, problems = one_moment(rng, act(rng, patience), hosts, folder, f"moment-{done}", longest)
        if problems is None:
            subprocess.run(["rm", "-r", f"{folder}/moment-{done}"], check=True)
            continue  # the job was over: this proves nothing
        done += 1
        yield what, problems


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    failed = number = 0
    with tempfile.TemporaryDirectory() as folder:
        why = no_spaces(folder)
        if why:
            print(f"1..0 # SKIP {why}")
            return 0
        print(f"# seed {seed}\n1..{count}")
        make_data(folder)
        with Hosts(folder) as hosts:
            strangers = Strangers(hosts, seed)
            strangers.start()
            for what, problems in moments(hosts, folder, random.Random(seed), count):
                number += 1
                failed += bool(problems)
                print(f"{'not ok' if problems else 'ok'} {number} - {what}")
                for problem in problems:
                    print("# " + problem.strip().replace("\n", "\n# "))
                sys.stdout.flush()
            strangers.end()
        print(f"# {strangers.count} connections of other programs")
        if strangers.count < STRANGERS * count:
            print("Bail out! too few connections")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--strangers"]:
        be_strangers(int(sys.argv[2]))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces go
    sys.exit(main())
