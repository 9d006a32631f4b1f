"""tap.py - what the oracle tests share: cases that report themselves, printed as TAP."""
import os
import tempfile


class Skip(str):
    """In place of a problem: why a case was skipped."""


THOROUGH = bool(os.environ.get("THOROUGH"))
parts = []  # those that cases() has made in the test that runs, for run(); not in tests that it imports


def one_in(k, rows, first=0):
    """Rows of a long table: every k-th, beginning with number `first` of them; all of them in `make check-thorough`."""
    return list(rows) if THOROUGH else list(rows)[first % k::k]


def cases(names):
    """
    Make a part of the test of a function check(folder, name): a case for each name, with a folder of its own. A case
    fails if the function raises an AssertionError or a RuntimeError.
    """
    def make_part(check):
        def part(parent):
            for i, name in enumerate(names):
                folder, label = f"{parent}/{i}", ": ".join(filter(None, [check.__name__, name]))
                os.mkdir(folder)
                try:
                    check(folder, name)
                    yield label, ""
                except (AssertionError, RuntimeError) as error:
                    yield label, str(error) or "assertion failed"
        part.__name__ = check.__name__
        if check.__module__ == "__main__":
            parts.append(part)
        return check
    return make_part


def run(parts, program, only=()):
    """
    Run each part (those named in `only`, or all) on a folder of its own, which is removed afterwards. A part yields
    (name, problem), the problem "" where there is none. Without `program`, skip. Returns the exit status.
    """
    if not os.path.exists(program):
        print("1..0 # SKIP no %s: run make tests" % program)
        return 0
    failed = count = 0
    for part in parts:
        if only and part.__name__ not in only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for name, problem in part(folder):
                count += 1
                if isinstance(problem, Skip):
                    print("ok %d - %s # SKIP %s" % (count, name, problem), flush=True)
                    continue
                failed += bool(problem)
                print("%s %d - %s" % ("not ok" if problem else "ok", count, name), flush=True)
                if problem:
                    print("# " + problem.strip().replace("\n", "\n# "))
    print("1..%d" % count)
    return 1 if failed else 0
