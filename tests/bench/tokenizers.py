"""tokenizers.py - MB of text per second that gtrain tokenizes, on one core and on all.

tokenizers.py [--tokenizer DIR] [--text FILE] [--megabytes N] [--rounds N] [--check]

The text is repeated to N MB, so most words were met before, as in any large text. Without --tokenizer, vocabularies of its most
frequent words are made, in the styles of GPT-2, llama 3 and llama 2. --check fails where one core does less than 10 MB/s.
"""
import argparse
import collections
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.environ.get("GTRAIN_TESTS", "build/tests")
DATA = os.environ.get("GTRAIN_TEST_DATA", os.path.join(HERE, "..", "..", "..", "shared", "data"))
FLOOR = 10
WORDS = 20000
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def letters():
    """How GPT-2 writes the 256 bytes."""
    plain = [b for b in range(256) if 0x21 <= b <= 0x7e or (0xa1 <= b and b != 0xad)]
    others = [b for b in range(256) if b not in plain]
    return [chr(b) if b in plain else chr(256 + others.index(b)) for b in range(256)]


def model(text, space, symbols, **more):
    """The most frequent words, each by merges from its left to its right."""
    vocab, merges = {s: i for i, s in enumerate(symbols)}, []
    for word, _ in collections.Counter(re.findall(r" ?[A-Za-z]+", text)).most_common(WORDS):
        word = word.replace(" ", space)
        for i in range(2, len(word) + 1):
            if word[:i] not in vocab:
                vocab[word[:i]] = len(vocab)
                merges.append([word[:i - 1], word[i - 1]])
    return {"type": "BPE", "vocab": vocab, "merges": merges, **more}


def tokenizers(text):
    level = {"type": "ByteLevel", "add_prefix_space": False}
    split = {"type": "Split", "pattern": {"Regex": LLAMA3}, "behavior": "Isolated", "invert": False}
    of_bytes = model(text, letters()[32], letters())
    characters = sorted(set(text) - {" "}) + ["\u2581"]
    of_characters = model(text, "\u2581", ["<0x%02X>" % b for b in range(256)] + characters, byte_fallback=True)
    yield "GPT-2", {"pre_tokenizer": level, "model": of_bytes}
    yield "llama 3", {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, {**level, "use_regex": False}]}, "model": of_bytes}
    yield "llama 2", {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}, "model": of_characters}


def measure(tokenizer, args, cores):
    times = max(1, round(args.megabytes * 1e6 / os.path.getsize(args.text)))
    done = subprocess.run([os.path.join(TESTS, "bench_tokenize"), tokenizer, args.text, str(times)], check=True, stdout=subprocess.PIPE,
                          preexec_fn=lambda: os.sched_setaffinity(0, cores))
    return json.loads(done.stdout)["mb_s"]


def compare(name, tokenizer, args):
    """Prints a row; the speed on one core."""
    every = os.sched_getaffinity(0)
    rounds = [(measure(tokenizer, args, {min(every)}), measure(tokenizer, args, every)) for _ in range(args.rounds)]
    one, many = (statistics.median(r[i] for r in rounds) for i in (0, 1))
    print("%-10s %8.1f MB/s on one core, %8.1f MB/s on %d" % (name, one, many, len(every)))
    return one


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--tokenizer")
    parser.add_argument("--text", default=os.path.join(DATA, "tinyshakespeare.txt"))
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    speeds = []
    with open(args.text, encoding="utf-8", errors="replace") as f:
        made = tokenizers(f.read())
    with tempfile.TemporaryDirectory() as folder:
        if args.tokenizer:
            speeds.append(compare(args.tokenizer, args.tokenizer, args))
        for name, file in () if args.tokenizer else made:
            path = os.path.join(folder, "tokenizer.json")
            with open(path, "w", encoding="utf-8") as f:
                json.dump(file, f)
            speeds.append(compare(name, path, args))
    if args.check and min(speeds) < FLOOR:
        sys.exit("tokenizers.py: %.1f MB/s on one core, less than %d" % (min(speeds), FLOOR))


if __name__ == "__main__":
    main()
