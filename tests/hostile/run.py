#!/usr/bin/env python3
"""
run.py - campaigns against the program: damaged files, failing system calls, kills, races.

run.py [--time SECONDS] [--seed N] [--jobs N] [--only NAME] [--gtrain FILE] [--plain FILE] [--tests FOLDER] [--keep FOLDER]
       [--cases N] [--case CAMPAIGN:SEED]

The time is shared out among the campaigns by their weights. Each case draws all that is random from a seed of its own, so that
`--case` repeats it alone (a race or a kill may need several tries). The folder of a case that found something is kept in
build/hostile/found/. Exit status: 0 nothing found, 1 something found, 2 wrong usage.
"""
import argparse
import importlib
import os
import random
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import campaign

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NOT_CAMPAIGNS = {"run", "campaign", "mutate"}
SHOWN = 20  # findings of a campaign that are printed


def campaigns():
    """The CAMPAIGN of each module in this folder."""
    for file in sorted(os.listdir(HERE)):
        name = file[:-3]
        if file.endswith(".py") and name not in NOT_CAMPAIGNS:
            yield importlib.import_module(name).CAMPAIGN


def parse():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--time", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--case", default="")
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--plain", default=os.path.join(ROOT, "build/gtrain"))
    parser.add_argument("--gtrain", default="")
    parser.add_argument("--tests", default=os.path.join(ROOT, "build/tests"))
    parser.add_argument("--keep", default=os.path.join(ROOT, "build/hostile/found"))
    options = parser.parse_args()
    options.plain, options.tests = os.path.abspath(options.plain), os.path.abspath(options.tests)
    options.gtrain = os.path.abspath(options.gtrain or options.plain)
    return options


def report(one, seed, counts, findings, options):
    print(f"{one.name:12} seed {seed}: {counts['cases']} cases, {counts['commands']} commands, "
          f"{len(findings)} findings")
    for number, problem, command in findings[:SHOWN]:
        first, *more = problem.strip().splitlines() or [""]
        print(f"  {first}")
        for line in more[:3]:
            print(f"    {line}")
        print(f"    gtrain {command}")
        print(f"    again: python3 tests/hostile/run.py --gtrain {os.path.relpath(options.gtrain)} --case {one.name}:{number}")
        print(f"    files: {os.path.join(os.path.relpath(options.keep), f'{one.name}-{number}')}")
    if len(findings) > SHOWN:
        print(f"  and {len(findings) - SHOWN} more")
    sys.stdout.flush()


def repeat(chosen, context, options):
    """One case again, --cases times; verbose."""
    name, _, number = options.case.partition(":")
    one = next((c for c in chosen if c.name == name), None)
    if not one or not number.isdigit():
        sys.exit(f"run.py: --case takes CAMPAIGN:SEED, with one of {', '.join(c.name for c in chosen)}")
    one.prepare(context)
    found = 0
    for _ in range(max(options.cases, 1)):
        problems, commands = one.run_case(context, int(number))
        found += bool(problems)
        report(one, number, {"cases": 1, "commands": commands}, [(int(number), *p) for p in problems], options)
    return found


def runnable(chosen, context):
    """Those that can run on this machine; the others say why not."""
    for one in chosen:
        missing = one.missing(context)
        if missing:
            print(f"{one.name:12} skipped: {missing}")
        else:
            yield one


def main():
    options = parse()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    every = list(campaigns())
    chosen = [c for c in every if options.only in c.name]
    if not chosen:
        print(f"run.py: no campaign is named like '{options.only}'; there are {', '.join(c.name for c in every)}", file=sys.stderr)
        return 2
    folder = tempfile.mkdtemp(prefix="gtrain-hostile.")
    try:
        context = campaign.Context(options.gtrain, options.plain, options.tests, folder, options.keep)
        if options.case:
            return 1 if repeat(list(runnable(every, context)), context, options) else 0
        print(f"seed {seed}, {options.time:g} s, {'with' if context.sanitized else 'without'} sanitizers: {options.gtrain}")
        chosen = list(runnable(chosen, context))
        for one in chosen:
            one.prepare(context)
        whole, found = sum(c.share for c in chosen), 0
        start, done = time.monotonic(), 0
        for one in chosen:
            done += one.share
            left = start + options.time * done / whole - time.monotonic()
            counts, findings = one.run(context, max(left, 0.1), seed, options.jobs)
            report(one, seed, counts, findings, options)
            found += len(findings)
            if not counts["cases"]:
                print(f"  {one.name} had no time for a case")
        print(f"{found} findings in {time.monotonic() - start:.0f} s")
        return 1 if found else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
