#!/usr/bin/python3
"""
made_runs.py - run directories as gtrain writes them, and some that nobody should trust.

made_runs.py DIR [key=value...]: make a run directory. Keys:
  steps=N        lines of training, an evaluation every tenth (default 100)
  total=N        --steps of its config.json (default: steps)
  epochs=N       --epochs in place of --steps; all lines are of the first
  lr=X           --lr, and the speed at which the loss falls (default 0.01)
  tokens=yes     a language model
  state=WORD     a status.json with this state, reason=TEXT, host=TEXT
  about=JSON     the object `about` of config.json
  model=TEXT data=TEXT
  wall=yes       lines have wall_time, memory_bytes and mfu
"""
import json
import math
import os
import sys


def line(step, loss, more):
    return {"split": "train", "step": step, "epoch": 0, "loss": loss, "lr": 0.001, "grad_norm": 1 + math.sin(step), "samples_per_s": 1000,
            **more, "data_wait": 0.01, "time_s": step / 10}


def metrics(steps, lr, tokens, wall):
    for step in range(1, steps + 1):
        loss = 4 * math.exp(-lr * step) + 0.1 * math.sin(7 * step)
        more = {"tokens_per_s": 32000} if tokens else {}
        if wall:
            more |= {"memory_bytes": 2 << 30, "wall_time": 1.7e9 + step, "mfu": 0.4}
        yield line(step, loss, more)
        if step % 10 == 0:
            top1 = 1 - math.exp(-lr * step)
            yield {"split": "val", "step": step, "loss": 4 * math.exp(-lr * step) + 0.05, "top1": top1, "top5": min(1, top1 + 0.2),
                   "perplexity": math.exp(loss), "n": 100, "time_s": step / 10}


def make(folder, steps="100", total=None, lr="0.01", tokens="", state="", reason=None, host=None, about="{}", model="mlp", data="mnist:x", wall="", epochs=None):
    os.makedirs(os.path.join(folder, "checkpoints"))
    config = {"model": model, "data": data, "val-split": 0.1, "steps": int(total or steps), "lr": float(lr), "betas": [0.9, 0.999],
              "clip": None, "out": folder, "about": {"version": "0.1.0", **json.loads(about)}}
    if epochs:
        config |= {"epochs": int(epochs), "steps": None}
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    with open(os.path.join(folder, "metrics.jsonl"), "w") as f:
        for row in metrics(int(steps), float(lr), tokens, wall):
            f.write(json.dumps(row, separators=(",", ":")) + "\n")
    if state:
        status = {"state": state, "reason": reason, "host": host, "pid": 4711, "started": 1.7e9 + 3.25, "ended": 1.7e9 + 13.5, "exit_status": 1}
        with open(os.path.join(folder, "status.json"), "w") as f:
            json.dump({key: value for key, value in status.items() if value is not None}, f)


if __name__ == "__main__":
    make(sys.argv[1], **dict(word.split("=", 1) for word in sys.argv[2:]))
