#!/usr/bin/env python3
"""
run.py - take away each answer of gtrain-pitfalls(7), and see that the test of that pitfall fails.

run.py [--build FOLDER] [--only TEXT] [--look]

edits.txt has a row for each pitfall: the edit that takes gtrain's answer away. In a copy of the tree, which is removed
afterwards, each row is applied alone, the programs that the test runs are built, and the test that the page names must fail. Before
that, all these tests must pass. A row is wrong, too, if its old lines are no longer in the file, or if the edited file does not
compile. --look checks rows and page alone, without building. --only takes the pitfalls whose heading, file or test has TEXT.
Exit status: 0 each test failed, 1 a row or a test is wrong, 2 wrong usage.
"""
import argparse
import ast
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE, ROWS = "man/gtrain-pitfalls.7", "tests/pitfalls/edits.txt"
ENDINGS = {"cli": "bats", "oracle": "py", "unit": "c"}
# Programs that tests run beside gtrain, and the words by which a test names them.
PROGRAMS = {"gtrain-far": "gtrain-far", "cudasim/gtrain-sim": "gtrain-sim"}
TIMEOUT_S = 600


class Wrong(Exception):
    """A line that says why a row proves nothing."""


class Pitfall:
    def __init__(self, heading, kind, name, title):
        self.heading, self.kind, self.name, self.title = heading, kind, name, title
        self.path = f"tests/{kind}/{name}.{ENDINGS[kind]}"
        self.edits = []  # (file, old lines, new lines)
        # Titles of the oracle's tests are parts of formatted texts: {n}, %s.
        parts = ["", *re.split(r"\{[^{}]*\}|%s", title), ""] if kind == "oracle" else [title]
        self.pattern = re.compile("(not )?ok [0-9]+ (- )?" + ".*".join(map(re.escape, parts)) + "$")

    @property
    def test(self):
        return f'{self.kind}/{self.name} "{self.title}"'


def read_page():
    page = open(f"{ROOT}/{PAGE}").read()
    found = re.findall(r'^\.Ss (.*)\n\.\\" test: (cli|oracle|unit)/(\w+) "(.+)"$', page, re.M)
    if len(found) != page.count("\n.Ss "):
        sys.exit(f"{PAGE} has a pitfall without a test")
    return {heading: Pitfall(heading, *test) for heading, *test in found}


def read_rows(pitfalls):
    """A row: the pitfall's heading, then files, each with the old lines (-) and the new ones (+)."""
    row = None
    for number, line in enumerate(open(f"{ROOT}/{ROWS}").read().split("\n"), 1):
        if line.startswith("#"):
            continue
        if not line:
            row = None
        elif row is None:
            row = pitfalls.get(line)
            if row is None or row.edits:
                sys.exit(f"{ROWS}:{number}: {PAGE} has no pitfall '{line}', or it has a row already")
        elif line[0] in "-+" and row.edits:
            if line[0] == "-" and row.edits[-1][2]:
                row.edits.append((row.edits[-1][0], [], []))
            row.edits[-1]["-+".index(line[0]) + 1].append(line[1:])
        else:
            row.edits.append((line, [], []))
    for pitfall in pitfalls.values():
        if not pitfall.edits:
            sys.exit(f"{ROWS} has no row for the pitfall '{pitfall.heading}'")


def edited(pitfall, root):
    """The files that the row changes, with their texts before and after."""
    before, after = {}, {}
    for file, *lines in pitfall.edits:
        path = f"{root}/{file}"
        if path not in before:
            before[path] = after[path] = open(path).read()
        old, new = ("".join(f"{line}\n" for line in some) for some in lines)
        text = "\n" + after[path]
        times = text.count("\n" + old) if old else 0
        if times != 1 or old == new:
            raise Wrong(f"{file}: the old lines are there {times} times")
        after[path] = text.replace("\n" + old, "\n" + new)[1:]
    return [(path, before[path], after[path]) for path in before]


def write(texts, which):
    for path, *both in texts:
        with open(path, "w") as f:
            f.write(both[which])


def end_session(leader):
    """End the processes of a session: an edit may be that nothing ends them."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(pid)) == leader:
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass  # it has ended


class Copy:
    """A copy of the tree and of what is built, in which one row after the other is tried."""

    def __init__(self, folder, build):
        self.root, self.build, self.temporary = f"{folder}/tree", build, f"{folder}/tmp"
        shutil.copytree(ROOT, self.root, symlinks=True, ignore=lambda at, names: {
            n for n in names if at == ROOT and (n.startswith("build") or n in (".git", "shared"))})
        self.copy_build()
        os.makedirs(f"{folder}/bin")
        os.makedirs(self.temporary)
        with open(f"{folder}/bin/python3", "w") as f:
            f.write(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        os.chmod(f"{folder}/bin/python3", 0o755)
        programs = f"{self.root}/{build}"
        # As tests/run has it for `make check`.
        self.environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "TMPDIR": self.temporary,
                            "XDG_CACHE_HOME": f"{folder}/cache", "BUILD": build, "GTRAIN": f"{programs}/gtrain",
                            "GTRAIN_TESTS": f"{programs}/tests", "CMOCKA_MESSAGE_OUTPUT": "TAP", "THOROUGH": "", "USE_LIBUV": "0",
                            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1", "ONEDNN_MAX_CPU_ISA": "SSE41", "GTRAIN_TEST_ISA": "",
                            "GOMP_SPINCOUNT": "2000"}
        for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "GTRAIN_DEBUG"):
            self.environment.pop(name, None)

    def copy_build(self):
        """Test programs are left out: those that a row needs are linked anew. Times stay, so that make has nothing to do."""
        os.makedirs(f"{self.root}/{self.build}")
        subprocess.run(["tar", "-C", f"{ROOT}/{self.build}", "-cf", f"{self.root}.tar", "--exclude=./tests/test_*", "--exclude=./tests/bench_*",
                        "--exclude=./tests/cudasim/test_*", "--exclude=./address*", "--exclude=./pitfalls*", "--exclude=./zoo", "."],
                       check=True)
        subprocess.run(["tar", "-C", f"{self.root}/{self.build}", "-xf", f"{self.root}.tar"], check=True)
        os.remove(f"{self.root}.tar")

    def targets(self, pitfall):
        source = open(f"{ROOT}/{pitfall.path}").read()
        names = ["gtrain"]
        if pitfall.kind == "unit":
            names = [f"tests/{pitfall.name}"]
        if pitfall.kind == "cli":
            names += [f"tests/{name}" for name, word in PROGRAMS.items() if word in source]
        if pitfall.kind == "oracle":
            helpers = [f[:-2] for f in os.listdir(f"{ROOT}/tests/oracle") if f.endswith(".c")]
            names += [f"tests/{name}" for name in helpers if re.search(rf"\b{name}\b", source)]
        return [f"{self.build}/{name}" for name in names]

    def make(self, pitfalls):
        targets = sorted({target for pitfall in pitfalls for target in self.targets(pitfall)})
        command = ["make", "-C", self.root, f"-j{os.cpu_count()}", f"BUILD={self.build}", *targets]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Wrong("it is not built: " + " ".join(done.stderr.split("\n")[:3]))

    def command(self, pitfall):
        if pitfall.kind == "unit":
            return [f"{self.root}/{self.build}/tests/{pitfall.name}"]
        if pitfall.kind == "cli":
            return ["bats", "--tap", "--filter", f"^{re.escape(pitfall.title)}$", pitfall.path]
        return [sys.executable, pitfall.path, *part_of(pitfall)]

    def run_test(self, pitfall):
        """Whether the test passes: each case that has its title must, and a file that ends before it has failed, as in tests/run."""
        process = subprocess.Popen(self.command(pitfall), cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        try:
            said, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Wrong(f"the test takes longer than {TIMEOUT_S} s") from None
        finally:
            end_session(process.pid)
            process.wait()
        lines = said.split("\n")
        cases = [i for i, line in enumerate(lines) if pitfall.pattern.match(line)]
        if not cases and process.returncode and "SKIP" not in said:
            return False, lines[-6:]
        if not cases or any("# skip" in lines[i].lower() for i in cases):
            raise Wrong("the test does not run: " + " / ".join(lines[:6]))
        failed = [i for i in cases if lines[i].startswith("not ok")]
        return not failed, list(itertools.takewhile(is_comment, lines[failed[0] + 1:]))[:6] if failed else []


def is_comment(line):
    return line.startswith("#")


def part_of(pitfall):
    """The name of the part of an oracle's file that has the test, if the file takes names of parts."""
    source = open(f"{ROOT}/{pitfall.path}").read()
    if not re.search(r"tap\.run\(.*sys\.argv\[1:\]\)", source):
        return []
    line = source[:source.index(pitfall.title)].count("\n") + 1
    return [node.name for node in ast.parse(source).body
            if isinstance(node, ast.FunctionDef) and node.lineno <= line <= node.end_lineno]


def check_before(copy, pitfalls):
    """The tests pass as long as nothing is taken away."""
    copy.make(pitfalls)
    tests, bad = {p.test: p for p in pitfalls}, 0
    for test, pitfall in tests.items():
        try:
            good, said = copy.run_test(pitfall)
            why = "" if good else "it fails without an edit: " + " / ".join(said)
        except Wrong as wrong:
            why = str(wrong)
        if why:
            bad += 1
            print(f"not ok - {test}: {why}", flush=True)
    print(f"# without an edit, {len(tests) - bad} of {len(tests)} tests pass", flush=True)
    return bad


def check_row(copy, pitfall):
    texts = edited(pitfall, copy.root)
    write(texts, 1)
    try:
        copy.make([pitfall])
        good, said = copy.run_test(pitfall)
    finally:
        write(texts, 0)
    if good:
        raise Wrong("the test passes without gtrain's answer")
    return said


def check_rows(copy, pitfalls):
    bad = 0
    for number, pitfall in enumerate(pitfalls, 1):
        began = time.monotonic()
        try:
            said = check_row(copy, pitfall)
            print(f"ok {number} - {pitfall.heading}: {pitfall.test} fails ({time.monotonic() - began:.0f} s)")
            print("".join(f"{line[:200]}\n" for line in said), end="", flush=True)
        except Wrong as wrong:
            bad += 1
            print(f"not ok {number} - {pitfall.heading}: {pitfall.test}: {wrong}", flush=True)
    return bad


def look(pitfalls):
    bad = 0
    for pitfall in pitfalls:
        try:
            edited(pitfall, ROOT)
        except (Wrong, OSError) as wrong:
            bad += 1
            print(f"{ROWS}: {pitfall.heading}: {wrong}")
    return bad


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="")
    parser.add_argument("--look", action="store_true")
    o = parser.parse_args()
    pitfalls = read_page()
    read_rows(pitfalls)
    chosen = [p for p in pitfalls.values() if any(o.only in text for text in (p.heading, p.test, *(e[0] for e in p.edits)))]
    if not chosen:
        sys.exit(f"no pitfall is named like '{o.only}'")
    build = os.path.relpath(o.build, ROOT)
    if build.startswith(".."):
        sys.exit(f"the build folder must be in the tree: {o.build}")
    bad = look(chosen)
    if o.look or bad:
        return bad != 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the copy is removed then, too
    with tempfile.TemporaryDirectory(prefix="gtrain-pitfalls.") as folder:
        copy = Copy(folder, build)
        if check_before(copy, chosen):
            return 1
        bad = check_rows(copy, chosen)
    print(f"{len(chosen)} pitfalls, {len(chosen) - bad} tests fail without the answer, {bad} rows are wrong")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
