"""ckpt.py - operations on a large checkpoint beside cp, cp --reflink and the PyTorch script that does the same.

Makes a checkpoint of 300 float32 tensors with a `module.` prefix (4 GiB; --size), runs `gtrain bench ckpt` on it, times
PyTorch's load, strip and save, and, where a file system that shares blocks can be mounted (root, mkfs.xfs), runs the same
there. --check fails where a floor does not hold. Everything is compared within one run: machines and disks differ. So
are like things: what is on the disk at the end with a copy that is, what is left to the system with `cp` and `torch.save`,
which leave it, too.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
TENSORS = 300

STRIP = """
import sys, torch
state = torch.load(sys.argv[1], map_location="cpu")
with open(sys.argv[2], "wb") as f:
    torch.save({k[7:] if k.startswith("module.") else k: v for k, v in state.items()}, f)
"""

MAKE = """
import sys, torch
n, each = int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(1)
row = torch.randn(each)
torch.save({f"module.layers.{i}.weight": row + i for i in range(n)}, sys.argv[1])
"""


def python(script, *args):
    subprocess.run([sys.executable, "-c", script, *map(str, args)], check=True)


def bench(path, rounds):
    print(f"# {path}", file=sys.stderr)
    done = subprocess.run([GTRAIN, "bench", "ckpt", path, "--rounds", str(rounds), "--json"],
                          check=True, stdout=subprocess.PIPE)
    return {row["operation"]: row for row in json.loads(done.stdout)["rows"]}


def torch_strip(path, folder):
    out = os.path.join(folder, "stripped.pth")
    os.sync()
    start = time.monotonic()
    python(STRIP, path, out)
    took = time.monotonic() - start
    os.unlink(out)
    return took


def seconds(command, out):
    """Time of a command that makes `out`, which is removed afterwards."""
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took = time.monotonic() - start
    subprocess.run(["rm", "-r", out], check=True)
    return took


def distributed(path, folder, rounds):
    """The fastest times to copy a distributed checkpoint, and to make one file of it; neither waits for the disk."""
    sharded, out = os.path.join(folder, "sharded"), os.path.join(folder, "out.safetensors")
    subprocess.run([GTRAIN, "ckpt", "convert", path, "--to", "dcp", "-o", sharded, "-q"], check=True)
    commands = ["cp", "-r", sharded, out], [GTRAIN, "ckpt", "convert", sharded, "-o", out, "--sync=no", "-q"]
    times = [[seconds(command, out) for command in commands] for _ in range(rounds)]
    shutil.rmtree(sharded)
    return [min(column) for column in zip(*times)]


class Xfs:
    """A file system in a file, mounted; None in `folder` where that is not to be had."""

    def __init__(self, where, size):
        self.image = os.path.join(where, "xfs.img")
        self.folder = os.path.join(where, "xfs")

        if not shutil.which("mkfs.xfs") or os.geteuid():
            self.folder = None
            return
        os.mkdir(self.folder)
        with open(self.image, "wb") as f:
            f.truncate(size * 7 // 2 + (1 << 30))
        subprocess.run(["mkfs.xfs", "-q", self.image], check=True)
        if subprocess.run(["mount", "-o", "loop", self.image, self.folder]).returncode:
            self.folder = None

    def close(self):
        if self.folder:
            subprocess.run(["umount", self.folder], check=True)


def show(rows, title):
    print(f"\n{title}")
    print(f"{'operation':30} {'median':>12} {'fastest':>12} {'GB/s':>8} {'x cp':>8} {'memory':>10}")
    for name, row in rows.items():
        if "failed" in row:
            print(f"{name:30} {row['failed']:>12}")
            continue
        memory = f"{row['peak_bytes'] / 2**20:.1f} MiB" if row["peak_bytes"] else ""
        print(f"{name:30} {row['time_s'] * 1e3:9.1f} ms {row['fastest_s'] * 1e3:9.1f} ms {row['bytes_per_s'] / 1e9:8.2f} "
              f"{row['ratio_to_cp']:8.2f} {memory:>10}")


def floors(ext, xfs, torch_s, copied_s, joined_s):
    """(what, value, bound, holds): rates of the fastest rounds, times of a few milliseconds by their medians"""
    def ratio(name, base, bound):
        value = ext[base]["fastest_s"] / ext[name]["fastest_s"]
        yield f"{name}: x {base}", f"{value:.2f}", f">= {bound}", value >= bound

    def at_most(rows, name, key, scale, unit, bound):
        value = rows[name][key] * scale
        yield f"{name}: {unit}", f"{value:.1f}", f"<= {bound}", value <= bound

    yield from ratio("verify", "read", 0.9)
    yield from ratio("strip-module", "cp, synced", 0.9)
    yield from ratio("remap", "cp, synced", 0.9)
    yield from ratio("strip-module, not synced", "cp", 0.9)
    yield from ratio("remap, not synced", "cp", 0.9)
    yield from ratio("convert to safetensors", "cp, synced", 0.8)
    yield from ratio("convert, not synced", "cp", 0.8)
    yield "distributed to safetensors, not synced: x cp", f"{copied_s / joined_s:.2f}", ">= 0.8", copied_s >= 0.8 * joined_s
    for name in ("add-module in place", "strip-module in place"):
        yield from at_most(ext, name, "time_s", 1e3, "ms", 20)
    yield from at_most(ext, "ls", "time_s", 1e3, "ms", 10)
    yield from at_most(ext, "ls", "peak_bytes", 2**-20, "MiB", 8)
    for name, row in ext.items():
        if row.get("peak_bytes") and not name.startswith("cp"):
            yield from at_most(ext, name, "peak_bytes", 2**-20, "MiB", 64)
    for name in ("strip-module, not synced", "strip-module in place"):
        value = torch_s / ext[name]["fastest_s"]
        yield f"{name}: x PyTorch's script", f"{value:.1f}", ">= 5", value >= 5
    if xfs:
        for name in ("strip-module", "remap"):
            value = (xfs[name]["time_s"] - xfs["cp --reflink"]["time_s"]) * 1e3
            yield f"{name} on XFS: ms over cp --reflink", f"{value:.1f}", "<= 20", value <= 20


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=float, default=4, metavar="GIB", help="of the checkpoint (4)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", help="folder to work in: room for four times the size (a temporary one)")
    parser.add_argument("--check", action="store_true", help="fail where a floor does not hold")
    args = parser.parse_args()
    size = int(args.size * 2**30)
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        path = os.path.join(folder, "model.pth")
        python(MAKE, path, TENSORS, size // TENSORS // 4)
        ext = bench(path, args.rounds)
        torch_s = min(torch_strip(path, folder) for _ in range(args.rounds))
        copied_s, joined_s = distributed(path, folder, args.rounds)
        xfs, rows = Xfs(folder, size), None
        try:
            if xfs.folder:
                shutil.copy(path, xfs.folder)
                os.unlink(path)
                rows = bench(os.path.join(xfs.folder, "model.pth"), args.rounds)
        finally:
            xfs.close()
    show(ext, f"{args.size:g} GiB, {TENSORS} tensors; {args.rounds} rounds")
    print(f"{'PyTorch: load, strip, save':30} {'':12} {torch_s * 1e3:9.1f} ms")
    print(f"{'distributed: cp':30} {'':12} {copied_s * 1e3:9.1f} ms")
    print(f"{'distributed to safetensors':30} {'':12} {joined_s * 1e3:9.1f} ms")
    if rows:
        show(rows, "the same on XFS")
    else:
        print("\nskipped: XFS (needs root and mkfs.xfs)")
    print(f"\n{'floor':45} {'value':>10}  bound")
    good = True
    for what, value, bound, holds in floors(ext, rows, torch_s, copied_s, joined_s):
        good &= holds
        print(f"{what:45} {value:>10}  {bound:8} {'held' if holds else 'MISSED'}")
    sys.exit(0 if good or not args.check else 1)


if __name__ == "__main__":
    main()
