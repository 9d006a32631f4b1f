"""spaces.py - two hosts that network namespaces stand in for."""
import os
import shutil
import signal
import subprocess

ADDRESSES = ("10.99.0.1", "10.99.0.2")
SIX = ("fd00:99::1", "fd00:99::2")
NAMES = ("hosta", "hostb")  # what gethostname() says there


class Hosts:
    """Two network namespaces with a cable between them; no way from there to anywhere else."""

    def __init__(self, folder):
        self.folder = folder
        self.spaces = [f"gtrain-test-{os.getpid()}-{name}" for name in NAMES]

    def __enter__(self):
        self.tidy()
        try:
            for space in self.spaces:
                self.ip("netns", "add", space)
            self.ip("-n", self.spaces[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", self.spaces[1])
            for space, address, six in zip(self.spaces, ADDRESSES, SIX):
                self.ip("-n", space, "addr", "add", f"{address}/24", "dev", "cable")
                self.ip("-n", space, "addr", "add", f"{six}/64", "dev", "cable", "nodad")
                for device in ("lo", "cable"):
                    self.ip("-n", space, "link", "set", device, "up")
            self.prepare()
        except BaseException:
            self.tidy()
            raise
        return self

    def prepare(self):
        """Once the hosts are there."""

    def __exit__(self, *_):
        self.tidy()

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    def pids(self, space):
        listed = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True)
        return [int(pid) for pid in listed.stdout.split()]

    def tidy(self):
        """Those of this process, and of others like it that are gone."""
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True)
        for space in [line.split()[0] for line in listed.stdout.splitlines() if line.startswith("gtrain-test-")]:
            owner = int(space.split("-")[2])
            if owner != os.getpid() and os.path.exists(f"/proc/{owner}"):
                continue
            for pid in self.pids(space):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "del", space], capture_output=True)
            shutil.rmtree(f"/etc/netns/{space}", ignore_errors=True)

    def inside(self, host, command):
        """A shell's command as words, on a host that has its own name."""
        return ["ip", "netns", "exec", self.spaces[host], "unshare", "-u", "sh", "-c", f"hostname {NAMES[host]}; {command}"]

    def name(self, host, lines):
        """The /etc/hosts that commands on a host see."""
        os.makedirs(f"/etc/netns/{self.spaces[host]}", exist_ok=True)
        with open(f"/etc/netns/{self.spaces[host]}/hosts", "w") as f:
            f.write(lines)


def no_spaces(folder):
    """Why there can be no namespaces, or nothing."""
    if os.geteuid():
        return "root: namespaces need it"
    for tool in ("ip", "unshare"):
        if not shutil.which(tool):
            return f"{tool}: not installed"
    try:
        with Hosts(folder):
            return ""
    except subprocess.CalledProcessError as e:
        return f"netns: {e.stderr.strip() or e}"
