#!/usr/bin/python3
# export_kill.py - `gtrain ckpt convert --to hf` killed at its system calls: the folder is whole or not there.
import os
import re
import subprocess
import tempfile

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
KILL_AT = os.path.abspath(os.path.join(os.environ.get("GTRAIN_TESTS", "build/tests"), "kill_at"))
# The search for leaks does not work in a program that is traced already.
TRACED = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
MODEL = "gpt:layers=1,heads=2,width=16,block=8,vocab=11"
FILES = ["config.json", "generation_config.json", "model.safetensors"]
CKPT = "step-00000001.pth"
TEMPORARY = re.compile(r"hf\.tmp-[1-9]\d*-\d+")


def run(*words):
    done = subprocess.run([GTRAIN, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return done.stderr if done.returncode else ""


def export_killed(n, how):
    """The exit status of kill_at, and what lies in out/."""
    words = [GTRAIN, "ckpt", "convert", "run", "--to", "hf", "-o", "out/hf", "-q"]
    done = subprocess.run([KILL_AT, *how, CKPT, str(n), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=TRACED)
    return done.returncode, sorted(os.listdir("out"))


def clear():
    for folder, _, names in os.walk("out", topdown=False):
        for name in names:
            os.remove(os.path.join(folder, name))
        if folder != "out":
            os.rmdir(folder)


def check(how, step):
    """Returns what is wrong, and how many kills there were."""
    seen, n = set(), 1
    os.makedirs("out", exist_ok=True)
    while True:
        clear()
        status, names = export_killed(n, how)
        left = [name for name in names if TEMPORARY.fullmatch(name)]
        if status not in (0, 3) or set(names) - {"hf"} != set(left) or len(left) > (0 if how else 1):
            return "before call %d: status %d, %s" % (n, status, names), n
        if "hf" in names and sorted(os.listdir("out/hf")) != FILES:
            return "before call %d: the folder has %s" % (n, os.listdir("out/hf")), n
        seen.add("whole" if "hf" in names else "begun" if left else "nothing")
        if status == 3:
            break
        n += step
    if seen != ({"nothing", "whole"} if how else {"nothing", "begun", "whole"}):
        return "seen %s: the test has missed what it is for" % seen, n
    return "", n


def goes_with_the_next_one():
    """A folder that a kill left is removed by the next command, which succeeds."""
    n, names = 100, []
    clear()
    while not names or names == ["hf"]:
        clear()
        n += 10
        status, names = export_killed(n, [])
        if status == 3:
            return "no kill has left a folder", n
    problem = run("ckpt", "convert", "run", "--to", "hf", "-o", "out/hf", "-q")
    return problem or ("" if os.listdir("out") == ["hf"] else "left: %s" % os.listdir("out")), n


def main():
    cases = [
        ("SIGKILL leaves a whole folder, or one of a temporary name", lambda: check([], 3)),
        ("SIGTERM leaves a whole folder, or nothing", lambda: check(["-TERM"], 7)),
        ("a folder that was left goes with the next command", goes_with_the_next_one),
    ]
    print("1..%d" % len(cases))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        problem = run("train", "--model", MODEL, "--data", "random", "--batch", "2", "--steps", "1", "--out", "run", "-q")
        for i, (name, case) in enumerate(cases, 1):
            wrong, calls = (problem, 0) if problem else case()
            print("%s %d - %s (%d calls)" % ("not ok" if wrong else "ok", i, name, calls))
            if wrong:
                print("# " + wrong)
        os.chdir("/")


main()
