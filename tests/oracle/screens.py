#!/usr/bin/env python3
"""screens.py - the screens of a terminal of 60, 80 and 200 columns, as tmux shows them: losses stay, no ETA is cut (TAP).

A command runs on a pseudo-terminal, under a clock that runs a thousand times as fast (fake/fast_clock.c), so that short jobs
have progress lines. Then tmux shows all that it wrote, and all that it had written at some moments before.
"""
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
import terminal  # noqa: E402

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
FAST = os.path.join(os.path.abspath(os.environ.get("GTRAIN_TESTS", "build/tests")), "fake", "fast_clock.so")
WIDTHS, ROWS, MOMENTS = (60, 80, 200), 60, 4
DRAWN = b"\x1b[K"  # a drawing ends so
BAR = re.compile(r"^[a-z]+(, MiB)? \d+/\d+ .*ETA (\d+:)?\d+:\d\d$|^[a-z]+(, MiB)? \d+/\d+ .*ETA -:--$")
GPT = "gpt:layers=1,heads=2,width=16,block=16"


class Screen:
    """A tmux of so many columns, on a socket of its own."""

    def __init__(self, folder, columns):
        self.tmux = ["tmux", "-S", f"{folder}/tmux-{columns}", "-f", "/dev/null"]
        self.folder, self.count = folder, 0
        self.call("new-session", "-d", "-x", str(columns), "-y", str(ROWS), "sleep 1000")
        self.call("set-option", "-g", "remain-on-exit", "on")

    def call(self, *words):
        return subprocess.run([*self.tmux, *words], check=True, capture_output=True, text=True).stdout

    def show(self, written):
        """The lines on the screen once all of `written` is there: the title of the pane, which comes last, tells."""
        self.count += 1
        title = f"shown {self.count}"
        with open(f"{self.folder}/written", "wb") as f:
            f.write(written + b"\x1b]2;" + title.encode() + b"\x07")
        self.call("respawn-pane", "-k", f"stty -onlcr; cat '{self.folder}/written'; sleep 1000")
        deadline = time.monotonic() + 30
        while self.call("display-message", "-p", "#{pane_title}").strip() != title:
            if time.monotonic() > deadline:
                raise TimeoutError(title)
            time.sleep(0.01)
        return self.call("capture-pane", "-p").rstrip("\n").split("\n")

    def end(self):
        subprocess.run([*self.tmux, "kill-server"], check=False, capture_output=True)


def run(columns, command, fast=True):
    """All that the command writes to a terminal, and its status."""
    if fast:
        command = ["env", f"LD_PRELOAD={FAST}", *command]
    pid, end, _ = terminal.start(ROWS, command, columns)
    written = b""
    while True:
        try:
            data = os.read(end, 65536)
        except OSError:
            break
        if not data:
            break
        written += data
    os.close(end)
    return written, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def moments(written):
    """The first and the last drawing of the output, and some between them."""
    ends = [m.end() for m in re.finditer(re.escape(DRAWN), written) if not written.endswith(b"\r" + DRAWN, 0, m.end())]
    if len(ends) > MOMENTS:
        ends = [ends[i * (len(ends) - 1) // (MOMENTS - 1)] for i in range(MOMENTS)]
    return [written[:end] for end in ends]


def progress_problem(lines, verb, columns):
    """The last line is a whole progress line, and no line above it is cut by the edge."""
    bar = lines[-1]
    if not BAR.match(bar) or not bar.startswith(verb):
        return f"no progress line at the bottom: {bar!r}"
    if len(bar) >= columns:
        return f"{len(bar)} columns of {columns}: {bar!r}"
    for line in lines[:-1]:
        if line.startswith(("step ", "sample ")) and "val loss" not in line and not BAR.match(line):
            return f"a line of steps without its end: {line!r}"
    return ""


def look(screen, columns, command, verb, last, fast=True):
    """Problem and last screen of a command whose progress line begins with `verb`, and whose last screen has `last`."""
    written, status = run(columns, command, fast)
    if status:
        return f"status {status}: {written.decode(errors='replace')}", []
    seen = 0
    for part in moments(written):
        lines = screen.show(part)
        if lines[-1].startswith(verb):
            seen += 1
            problem = progress_problem(lines, verb, columns)
            if problem:
                return problem, lines
    if not seen:
        return f"no progress line of {verb!r}: {written.decode(errors='replace')}", []
    lines = screen.show(written)
    text = "\n".join(lines)
    missing = [pattern for pattern in last if not re.search(pattern, text, re.M)]
    left = [line for line in lines if re.match(verb + r".*\[[=> ]+\]", line)]
    if missing or left:
        return f"missing {missing}, left {left}, in:\n{text}", lines
    return "", lines


def make_inputs(folder):
    with open(f"{folder}/text.txt", "w") as f:
        f.write("The quick brown fox jumps over the lazy dog, and runs away from it. " * 100)
    with open(f"{folder}/words.txt", "w") as f:
        f.write(" ".join(hex(i * i * 2654435761 % 2**32) for i in range(9000)))
    with open(f"{folder}/rows.csv", "w") as f:
        f.write("a,b,y\n" + "".join(f"{i % 7},{i % 5},{('one class', 'a second class', 'the third')[i % 3]}\n" for i in range(3000)))
    with open(f"{folder}/inputs.csv", "w") as f:
        f.write("a,b\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(3000)))
    header = b'{"w":{"dtype":"F32","shape":[16777216],"data_offsets":[0,67108864]}}'
    with open(f"{folder}/large.safetensors", "wb") as f:
        f.write(len(header).to_bytes(8, "little") + header)
        f.truncate(8 + len(header) + 67108864)
    subprocess.run([GTRAIN, "train", "--model", GPT, "--data", f"text:{folder}/text.txt", "--steps", "1", "--out", f"{folder}/gpt", "-q"],
                   check=True)
    subprocess.run([GTRAIN, "train", "--model", "mlp:2,8,3", "--data", f"csv:{folder}/rows.csv", "--steps", "1", "--out", f"{folder}/rows",
                    "-q"], check=True)


def train_command(folder, out, *more):
    return [GTRAIN, "train", "--model", GPT, "--data", f"text:{folder}/text.txt", "--val-split", "0.2", "--steps", "40", "--batch", "8",
            "--log-every", "10", "--eval-every", "20", "--out", out, *more]


# What the last screen of a run has.
TRAINED = [rf"^step {n}/40 .*loss \d+\.\d+.* ETA \d" for n in (10, 20, 30, 40)] + \
    [r"^step 40: val loss \d+\.\d+", r"^best: step \d+, val loss \d", r"^done: 40 steps in .*, loss \d+\.\d+, run dir", r"^next: gtrain generate --ckpt "]


def commands(folder, columns):
    """Name, command, beginning of the progress line, and patterns of the last screen."""
    yield "train", train_command(folder, f"{folder}/train-{columns}"), "step ", TRAINED
    yield "an evaluation during training", train_command(folder, f"{folder}/val-{columns}"), "sample ", TRAINED
    yield "eval", [GTRAIN, "eval", "--ckpt", f"{folder}/gpt", "--data", f"text:{folder}/text.txt", "--batch", "2"], "sample ", [r"^loss \d"]
    yield "eval --confusion", [GTRAIN, "eval", "--ckpt", f"{folder}/rows", "--data", f"csv:{folder}/rows.csv", "--confusion"], "sample ", \
        [r"^loss \d.*top-1 [\d.]+ % \(\d+ of 3000\)$", "predicted +a second class +one class +the third$"]
    yield "predict", [GTRAIN, "predict", "--ckpt", f"{folder}/rows", f"{folder}/inputs.csv", "--top", "1"], "sample ", [r"inputs.csv:3001"]
    yield "ckpt verify", [GTRAIN, "ckpt", "verify", f"{folder}/large.safetensors", "--threads", "1"], "reading, MiB ", ["nothing is wrong"]
    large = [f"{folder}/large.safetensors"] * 2
    yield "ckpt diff", [GTRAIN, "ckpt", "diff", *large, "--threads", "1"], "comparing, MiB ", ["the same: 1 tensor"]
    yield "ckpt ls", [GTRAIN, "ckpt", "ls", *large[:1], "--stats", "--threads", "1", "--color=never"], "reading, MiB ", ["16777216"]
    yield "ckpt merge", [GTRAIN, "ckpt", "merge", *large, "--average", "-o", f"{folder}/mean.pth"], "combining, MiB ", ["mean of 2"]
    yield "data tokenizer", [GTRAIN, "data", "tokenizer", f"{folder}/words.txt", "--vocab", "3000", "-o", f"{folder}/tokenizer.json"], \
        "merge ", [r"3000 tokens, 2743 merges"]
    yield "ckpt convert", [GTRAIN, "ckpt", "convert", f"{folder}/large.safetensors", "-o", f"{folder}/large.pth"], "writing, MiB ", \
        [r"1 tensor, 64"]


def screens(folder):
    make_inputs(folder)
    for columns in WIDTHS:
        screen = Screen(folder, columns)
        try:
            for name, command, verb, last in commands(folder, columns):
                problem, _ = look(screen, columns, command, verb, last)
                yield f"{columns} columns: {name}", problem
            # Ranks wait for each other by the clock, so theirs is the usual one.
            problem, _ = look(screen, columns, train_command(folder, f"{folder}/ranks-{columns}", "--nproc", "2"), "step ", TRAINED, False)
            yield f"{columns} columns: train on 2 ranks", problem
            lines = screen.show(run(columns, [GTRAIN, "data", "ls"])[0])
            wide = columns < 200 and any(len(line) > columns for line in lines)
            sets = len(subprocess.run([GTRAIN, "data", "ls"], stdout=subprocess.PIPE, check=True).stdout.splitlines()) - 1
            bad = len(lines) != sets + 2 - (columns == 200) or ("DATA" in lines[0]) != (columns == 200) or wide
            yield f"{columns} columns: data ls", "\n".join(lines) if bad else ""
        finally:
            screen.end()


def silence(folder):
    """Nothing is drawn with --quiet, and nothing into a pipe."""
    make_inputs(folder)
    for name, command, _, _ in commands(folder, 80):
        written, status = run(80, [*command, "--quiet"])
        yield f"{name}: --quiet", "" if status == 0 and b"\x1b" not in written and b"\r" not in written.replace(b"\r\n", b"") else repr(written)
        if name.endswith("training"):
            continue
        if "--out" in command:
            shutil.rmtree(command[command.index("--out") + 1])
        ran = subprocess.run(command, env={**os.environ, "LD_PRELOAD": FAST}, capture_output=True, check=False)
        written = ran.stdout + ran.stderr
        yield f"{name}: a pipe", "" if ran.returncode == 0 and b"\x1b" not in written and b"\r" not in written else repr(written)


def skipped(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


if __name__ == "__main__":
    if not shutil.which("tmux"):
        skipped("tmux: not installed")
    symbols = subprocess.run(["nm", GTRAIN], capture_output=True, text=True, check=False).stdout
    if re.search("__asan_init|__tsan_init", symbols):
        skipped("the sanitizers come before what is preloaded")
    sys.exit(tap.run((screens, silence), GTRAIN, sys.argv[1:]))
