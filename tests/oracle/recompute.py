#!/usr/bin/env python3
"""recompute.py - blocks computed again: the same bits in every mode, as much memory as is told, plans that fit into a limit (TAP)."""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from launchers import free_port  # noqa: E402
from outcome import limited  # noqa: E402
from program import use_isa  # noqa: E402

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
SANITIZED = bool(os.environ.get("SANITIZE", ""))
MIB = 1 << 20
TIMEOUT_S = 1800  # gpt2-medium on a machine that does other work, too
os.environ["OMP_NUM_THREADS"] = "1"

GPT = "--model gpt:layers=3,heads=2,width=32,block=16,dropout=0.1,vocab=20 --data random --batch 8 --clip 0.5"
VIT = "--model vit:image=16,layers=3,heads=2,width=32,dropout=0.1 --data random,samples=64 --batch 8"
RESNET = "--model resnet20 --data random,samples=64 --batch 8 --optimizer sgd"

#        blocks that the plan of rank 0 computes again, options
SAME = [
    (0, "--model mlp:8,16,3 --data random:8/3 --batch 8"),
    (2, "--model lenet --data random,samples=64 --batch 8"),
    (9, f"{RESNET} --accumulate 2 --threads 2"),
    (9, f"{RESNET} --val random,samples=20"),
    (3, f"{GPT} --accumulate 3 --threads 2 --amp fp16"),
    (2, "--model gpt2:layers=2,heads=2,width=64,block=32,vocab=512 --data random --batch 2"),
    *((3, f"{GPT} --nproc {ranks} --parallel {mode} --bucket-size 4K") for ranks, mode in
      ((2, "ddp"), (3, "zero1"), (4, "zero2"), (4, "zero3"), (2, "dp"), (2, "mirrored"))),
    (3, f"{GPT} --nproc 2 --parallel zero3 --accumulate 2"),
    (6, f"{VIT} --accumulate 2 --threads 2 --amp bf16"),
    (3, f"{VIT} --nproc 2 --tensor-parallel 2"),
    (3, "--model llama:layers=3,block=16,vocab=20 --data random --batch 8 --nproc 2 --parallel zero3"),
    (9, f"{RESNET} --nproc 3 --parallel dp"),
    (2, "--model lenet --data random,samples=6 --batch 1 --nproc 4 --parallel dp"),  # a short batch, of which 2 ranks have none
    (9, f"{RESNET} --nproc 4 --sync-bn"),
    (3, f"{GPT} --nproc 4 --tensor-parallel 2"),
    (6, f"{VIT.replace('dropout=0.1', 'dropout=0')} --nproc 2 --tensor-parallel 2 --sequence-parallel"),
    (2, f"{GPT} --nproc 2 --pipeline-parallel 2 --chunks 4 --amp bf16"),
    (3, f"{RESNET} --nproc 3 --pipeline-parallel 3 --chunks 4 --schedule gpipe"),
    (4, f"{RESNET} --nproc 4 --pipeline-parallel 2 --sync-bn"),
    (9, f"{RESNET} --reproducible --sync-bn"),
    (9, f"{RESNET} --nproc 2 --reproducible --accumulate 2"),
    (3, f"{GPT} --nproc 2 --reproducible --parallel zero2"),
    (2, f"{GPT} --nproc 2 --reproducible --pipeline-parallel 2"),
    (4, f"{RESNET} --nproc 4 --reproducible --pipeline-parallel 2 --sync-bn"),
]


def gtrain(options, limit=None):
    """Exit status, standard output and standard error."""
    limits = {"as": limit} if limit else {}
    done = subprocess.run(limited([GTRAIN, "train", *options.split()], **limits), capture_output=True, text=True, timeout=TIMEOUT_S)
    return done.returncode, done.stdout, done.stderr


def train(folder, options):
    """Losses, norms and metrics of three steps, and the digest of the weights; an error as text. And the line about memory."""
    shutil.rmtree(folder, ignore_errors=True)
    status, _, err = gtrain(f"{options} --steps 3 --warmup 0 --log-every 1 --save-every 0 --out {folder}")
    if status:
        return err, err
    with open(f"{folder}/metrics.jsonl") as f:
        rows = [{k: v for k, v in row.items() if not k.endswith("_s") and k not in ("data_wait", "wall_time", "memory_bytes", "late", "late_rank")} for row in map(json.loads, f)]
    with open(f"{folder}/model.pth", "rb") as f:
        return [rows, hashlib.sha256(f.read()).hexdigest()], err


def recomputed(err):
    """Blocks computed again, and all; from the line about memory."""
    found = re.search(r"^memory.*; recomputes (\d+) of (\d+) blocks$", err, re.M)
    return (int(found[1]), int(found[2])) if found else None


def bits(folder):
    for blocks, options in tap.one_in(3, SAME):
        use_isa("DEFAULT" if "--amp" in options else "AVX2")
        kept, _ = train(f"{folder}/kept", options)
        again, err = train(f"{folder}/again", f"{options} --recompute")
        good = isinstance(kept, list) and kept == again and recomputed(err) == (blocks, blocks)
        yield f"{blocks} blocks computed again: {options}", "" if good else f"{recomputed(err)}: {kept} {again}"
    use_isa("AVX2")  # oneDNN's own memory for AVX-512 varies by 3 MB from run to run


def instructions(folder):
    """Two ops apply the statistics of a batch: their kernels agree to the bit in each instruction set."""
    for isa in ("base", "avx2", "avx512"):
        os.environ["GTRAIN_CPU_ISA"] = isa
        kept, err = train(f"{folder}/kept", f"{RESNET} --batch 3")
        if "this processor has no" in err or "no instruction set" in err:
            continue
        again, err = train(f"{folder}/again", f"{RESNET} --batch 3 --recompute")
        yield f"with {isa}", "" if isinstance(kept, list) and kept == again else f"{kept} {again} {err}"
    del os.environ["GTRAIN_CPU_ISA"]


# ---- memory

# Wide enough that the memory that plans count is most of a rank's.
LARGE = "--model gpt:layers=8,width=128,heads=2,block=128,vocab=256 --data random --batch 32"
TINY = "--model gpt:layers=1,width=128,heads=2,block=8,vocab=256 --data random --batch 1"


# A process begins with the memory of the one that started it, which counts: let that be a small one.
MEASURE = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak(folder, options):
    """The most memory that a run of one step had, in bytes, and its standard error."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [GTRAIN, "train", *f"{options} --steps 1 --save-every 0 --out {folder}".split()]
    done = subprocess.run([sys.executable, "-S", "-c", MEASURE, *command], capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return int(done.stdout) * 1024, done.stderr


def plan(options):
    status, out, err = gtrain(f"{options} --dry-run --json")
    if status:
        raise RuntimeError(err)
    return json.loads(out)


def text_of(bytes_):
    """As gtrain prints sizes."""
    units = ["B", "KiB", "MiB", "GiB"]
    i = 0
    while bytes_ >= (999.5 if i else 1024):
        bytes_, i = bytes_ / 1024, i + 1
    text = f"{bytes_:.{2 if bytes_ < 9.995 else 1 if bytes_ < 99.95 else 0}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {units[i]}"


def memory(folder):
    if SANITIZED:
        yield "memory # SKIP sanitizers take memory of their own", ""
        return
    before = peak(f"{folder}/tiny", TINY)[0] - plan(TINY)["memory_bytes"]["total"]
    for case, options in (
            ("adamw", LARGE),
            ("adamw, all blocks computed again", f"{LARGE} --recompute"),
            ("an evaluation in larger batches than the steps' chunks", f"{LARGE} --recompute --val random,samples=32"),
            ("a ResNet", "--model resnet20 --data random,samples=512 --batch 256"),
            ("a ResNet, all blocks computed again", "--model resnet20 --data random,samples=512 --batch 256 --recompute")):
        if "resnet" in options:
            tiny = "--model resnet20 --data random,samples=8 --batch 2"
            before = peak(f"{folder}/tiny", tiny)[0] - plan(tiny)["memory_bytes"]["total"]
        told = plan(options)
        total = told["memory_bytes"]["total"]
        had, err = peak(f"{folder}/large", options)
        ratio = (had - before) / total
        yield f"{case}: the plan is within 5 % of the peak", "" if 0.95 <= ratio <= 1.05 else f"{ratio}: {had - before} and {total}"
        sizes = told["memory_bytes"]
        line = (f"memory: {text_of(sizes['parameters'] + sizes['buffers'])} parameters, {text_of(sizes['gradients'])} gradients, "
                f"{text_of(sizes['optimizer'])} optimizer state, {text_of(sizes['arena'])} activations, "
                f"{text_of(sizes['batches'])} batches, {text_of(total)} total")
        if "--recompute" in options:
            line += f"; recomputes {told['recomputed_blocks']} of {told['blocks']} blocks"
        first = err.index("\nstep ")
        yield f"{case}: the run prints the plan's figures before its first step", "" if line in err[:first] else f"{line!r} not in {err!r}"


def stages(folder):
    """The dry run's figures for each stage are those that the stage's first rank logs."""
    options = "--model gpt:layers=4,width=32,heads=2,block=16,vocab=20 --data random --batch 8 --nproc 4 --pipeline-parallel 2 " \
              "--val random,samples=24"
    for more in ("", " --chunks 8", " --recompute --chunks 4", " --reproducible", " --compress bf16"):
        told = plan(options + more)["stages"]
        status, _, err = gtrain(f"{options}{more} --steps 1 --out {folder}/run{len(more)}")
        wrong = [err] if status else []
        for i, stage in enumerate(told):
            with open(f"{folder}/run{len(more)}/log/rank-{2 * i}.log") as f:
                log = f.read()
            line = f"memory of stage {i} per rank: "
            for part in (f"{text_of(stage['arena_bytes'])} activations", f"{text_of(stage['memory_bytes'])} total"):
                wrong += [] if any(said.startswith(line) and part in said for said in log.splitlines()) else [f"{part} not in {log!r}"]
        yield f"2 stages{more}: each takes as much memory as the dry run says", "\n".join(wrong)


# ---- as little as fits

WIDE = "--model gpt:layers=6,width=64,heads=2,block=64,vocab=64 --data random --batch 128 --optimizer sgd --momentum 0"


def some_fit(options):
    """A limit between the memory that a rank takes with all blocks computed again and with none, and memory that plans do not count:
    the program's file, which has 15 MB without CUDA's kernels and 90 MB with them, and 270 MiB of libraries and stacks."""
    none, all_ = (plan(f"{options} --recompute={word}")["memory_bytes"]["total"] for word in ("none", "all"))
    return (none + all_) // 2 + os.path.getsize(GTRAIN) + 270 * MIB


def fitting(folder):
    if SANITIZED:
        yield "limits # SKIP sanitizers reserve address space", ""
        return
    yield "no limit: nothing is computed again", "" if plan(f"{WIDE} --recompute=auto")["recomputed_blocks"] == 0 else "it is"
    found = []
    for mib in range(300, 700, 12):
        status, out, err = gtrain(f"{WIDE} --recompute auto --dry-run --json", mib * MIB)
        if status:
            found.append(err)
            break
        found.append(json.loads(out)["recomputed_blocks"])
    good = found == sorted(found, reverse=True, key=str) and set(found) == set(range(7))
    yield "the more memory, the fewer blocks, one by one", "" if good else f"{found}"
    limit = some_fit(WIDE)
    kept, _ = train(f"{folder}/kept", WIDE)
    status, _, err = gtrain(f"{WIDE} --steps 3 --warmup 0 --log-every 1 --save-every 0 --out {folder}/auto --recompute auto", limit)
    done = recomputed(err)
    with open(f"{folder}/auto/model.pth", "rb") as f:
        same = hashlib.sha256(f.read()).hexdigest() == kept[1]
    yield "a run in an address space that some blocks fit into", "" if not status and same and 0 < done[0] < 6 else f"{done} {same} {err}"


def ranks(folder):
    """Only rank 1 has a limit: both compute as many blocks again, so that their collectives meet."""
    if SANITIZED:
        yield "ranks with limits # SKIP sanitizers reserve address space", ""
        return
    for mode in ("ddp", "zero3", "ddp --tensor-parallel 2"):
        options = f"{WIDE} --parallel {mode}"
        limit = some_fit(f"{options} --nproc 2")
        env = dict(os.environ, WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        args = [GTRAIN, "train", *f"{options} --steps 2 --recompute=auto --timeout 30 --out {folder}/{mode.replace(' ', '')}".split()]
        both = [subprocess.Popen(limited(args, **({"as": limit} if i else {})), env=dict(env, RANK=str(i), LOCAL_RANK=str(i)),
                                 stderr=subprocess.PIPE, text=True) for i in range(2)]
        said = [rank.communicate(timeout=TIMEOUT_S)[1] for rank in both]
        done = recomputed(said[0])
        good = not any(rank.returncode for rank in both) and done and 0 < done[0] < done[1]
        yield f"{mode}: rank 0 computes the blocks again for which rank 1 has no memory", "" if good else f"{done}: {said}"


def medium(folder):
    """gpt2-medium in 4 GiB: a minute, for make check-models."""
    options = "--model gpt2-medium --data random,samples=4 --batch 1 --optimizer sgd --momentum 0 --steps 1 --save-every 0"
    status, _, err = gtrain(f"{options} --out {folder}/kept", 4096 * MIB)
    yield "gpt2-medium does not fit into 4 GiB", "" if status == 1 and "the run needs" in err and "--recompute" in err else err
    status, _, err = gtrain(f"{options} --recompute auto --out {folder}/auto", 4096 * MIB)
    done = recomputed(err)
    yield "with --recompute auto it trains", "" if not status and done and 0 < done[0] < 24 else f"{status} {done} {err}"


if __name__ == "__main__":
    PARTS = (medium,) if sys.argv[1:] == ["--large"] else (bits, instructions, memory, stages, fitting, ranks)
    sys.exit(tap.run(PARTS, GTRAIN, [] if PARTS == (medium,) else sys.argv[1:]))
