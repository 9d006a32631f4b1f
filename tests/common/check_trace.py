"""check_trace.py - check that a trace of --profile is one that viewers show as it is.

check_trace.py TRACE.json.gz...: slices of a row nest, every row has a name, times are whole nanoseconds, each arrow has both ends in
slices and goes forward, and both counters are there. Prints, for each trace, the names of its rows, the number of arrows, and the keys
that kernels have.
"""
import collections
import gzip
import json
import sys


def nanoseconds(microseconds):
    whole = round(microseconds * 1000)
    assert whole == microseconds * 1000 and whole >= 0, microseconds
    return whole


def check_nesting(row, slices):
    """Perfetto drops a slice that begins within another one and ends behind it."""
    open_ends = []
    for began, negative, name in sorted(slices):
        ended = began - negative
        while open_ends and open_ends[-1] <= began:
            open_ends.pop()
        assert not open_ends or ended <= open_ends[-1], (row, name, began, ended, open_ends)
        open_ends.append(ended)


def check_arrows(events, rows):
    ends = collections.defaultdict(dict)
    for e in events:
        if e["ph"] in "sf":
            assert e["ph"] not in ends[e["id"]], e
            ends[e["id"]][e["ph"]] = e
    for number, both in ends.items():
        assert set(both) == {"s", "f"}, (number, both)
        assert both["f"]["bp"] == "e" and both["s"]["ts"] <= both["f"]["ts"], both
        for e in both.values():
            at = nanoseconds(e["ts"])
            assert any(began <= at <= began - negative for began, negative, _ in rows[e["pid"], e["tid"]]), e
    return len(ends)


def check(path):
    with gzip.open(path) as f:
        events = json.load(f)["traceEvents"]
    rows, names, keys = collections.defaultdict(list), {}, set()
    for e in events:
        assert e["ph"] in "XMCsf", e
        if e["ph"] == "X":
            rows[e["pid"], e["tid"]].append((nanoseconds(e["ts"]), -nanoseconds(e["dur"]), e["name"]))
            if e["cat"] == "kernel":
                keys |= set(e["args"])
        if e["name"] == "thread_name":
            names[e["pid"], e["tid"]] = e["args"]["name"]
    assert rows and set(rows) == set(names), (sorted(rows), names)
    for row, slices in rows.items():
        check_nesting(names[row], slices)
    counters = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "C":
            counters[e["name"]].append(e["args"]["bytes"])
    assert set(counters) == {"memory", "temporaries"} and all(max(values) > 0 for values in counters.values()), counters
    print("; ".join((", ".join(names[row] for row in sorted(rows)), f"{check_arrows(events, rows)} arrows", " ".join(sorted(keys)))))


for trace in sys.argv[1:]:
    check(trace)
