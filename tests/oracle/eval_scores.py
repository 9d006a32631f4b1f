#!/usr/bin/env python3
"""eval_scores.py - precision, recall, F1 score and area under the ROC curve of eval, beside their formulas (TAP)."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from training import GTRAIN, np, torch  # noqa: E402


def evaluate(folder, logits, classes, *more):
    """The network is the identity, so the inputs are the logits."""
    count = logits.shape[1]
    np.savez(f"{folder}/d.npz", x=logits.astype(np.float32), y=classes.astype(np.int32))
    torch.save({"0.weight": torch.eye(count), "0.bias": torch.zeros(count)}, f"{folder}/net.pth")
    return subprocess.run([GTRAIN, "eval", "--ckpt", f"{folder}/net.pth", "--model", f"mlp:{count},{count}", "--data", f"npz:{folder}/d.npz",
                           "--per-class", "--batch", "16", "-q", *more], capture_output=True, text=True, check=True).stdout


def scores(classes, predicted, count):
    """As scikit-learn's precision_recall_fscore_support(zero_division=0): for each class, and the means over classes that are met."""
    rows = []
    for k in range(count):
        right = int(((classes == k) & (predicted == k)).sum())
        n, named = int((classes == k).sum()), int((predicted == k).sum())
        precision, recall = right / named if named else 0, right / n if n else 0
        f1 = 2 * precision * recall / (precision + recall) if right else 0
        rows.append({"class": str(k), "n": n, "right": right, "predicted": named, "precision": precision, "recall": recall, "f1": f1})
    met = [row for row in rows if row["n"] or row["predicted"]]
    return rows, {key: sum(row[key] for row in met) / len(met) for key in ("precision", "recall", "f1")}


def differs(a, b):
    if isinstance(a, dict):
        return list(a) != list(b) or any(differs(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) != len(b) or any(map(differs, a, b))
    return a != b if isinstance(a, str) or a is None else b is None or abs(a - b) > 1e-9  # nine digits


def area(classes, margin):
    """All pairs of a sample of each class."""
    one, zero = margin[classes == 1], margin[classes == 0]
    return float(((one[:, None] > zero) + 0.5 * (one[:, None] == zero)).mean()) if len(one) and len(zero) else None


def many(folder):
    """Class 4 is never predicted, class 5 is predicted but has no samples, class 6 has one; class 3 is not met at all."""
    rng = np.random.default_rng(1)
    classes = rng.choice([0, 1, 2, 4], 200)
    logits = rng.normal(size=(200, 7)) + 1.5 * np.eye(7)[classes]
    logits[:, [3, 4, 6]] -= 99
    for more in ([], ["--nproc", "3", "--batch", "7"]):
        got = json.loads(evaluate(folder, np.vstack([logits, np.eye(7)[6] * 9]), np.append(classes, 6), "--json", *more))
        want = scores(np.append(classes, 6), np.append(logits.argmax(1), 6), 7)
        yield f"scores of 7 classes {more}", str((got, want)) if differs([got["classes"], got["macro"]], list(want)) else ""
        yield f"7 classes have no ROC curve {more}", "there is one" if "roc_auc" in got else ""


def text(folder):
    logits, classes = np.eye(3)[[0, 0, 1, 1, 1, 0]], np.array([0, 0, 1, 1, 2, 2])
    got = evaluate(folder, logits, classes).splitlines()[1:]
    want = ["class          samples  right  precision    recall       F1",
            "0                    2      2    66.67 %  100.00 %  80.00 %",
            "1                    2      2    66.67 %  100.00 %  80.00 %",
            "2                    2      0     0.00 %    0.00 %   0.00 %",
            "macro average        6      4    44.44 %   66.67 %  53.33 %"]
    yield "the table", "" if got == want else "\n".join(got)
    last = evaluate(folder, np.eye(2)[[0, 1, 1, 0]], np.array([0, 0, 1, 1])).splitlines()[-1]
    yield "the line of two classes", "" if last == "area under the ROC curve 0.500000" else last


def curve(folder):
    rng = np.random.default_rng(2)
    for ties in (False, True):
        classes = rng.integers(0, 2, 301)
        logits = np.stack([rng.normal(size=301), rng.normal(size=301) + classes], 1).astype(np.float32)
        if ties:
            logits = np.round(logits)
        want = area(classes, logits[:, 1].astype(float) - logits[:, 0])
        for more in ([], ["--nproc", "2", "--batch", "9"]):
            got = json.loads(evaluate(folder, logits, classes, "--json", *more))
            rows, macro = scores(classes, np.where(logits[:, 1] > logits[:, 0], 1, 0), 2)
            yield (f"area under the ROC curve, {'ties' if ties else 'no ties'} {more}",
                   "" if not differs([got["roc_auc"], got["classes"], got["macro"]], [want, rows, macro]) else str((got, want)))
    # Probabilities that round to 1 in float32 are still in order.
    logits, classes = np.array([[0, 40], [0, 41], [0, 42], [0, 43]]), np.array([0, 1, 0, 1])
    got = json.loads(evaluate(folder, logits, classes, "--json"))["roc_auc"]
    yield "saturated probabilities are no ties", "" if got == 0.75 else str(got)
    got = json.loads(evaluate(folder, np.ones((5, 2)), np.ones(5), "--json"))["roc_auc"]
    yield "one class alone has no curve", "" if got is None else str(got)


if __name__ == "__main__":
    sys.exit(tap.run([many, text, curve], GTRAIN, sys.argv[1:]))
