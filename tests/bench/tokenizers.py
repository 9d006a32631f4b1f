"""tokenizers.py - MB of text per second that gtrain tokenizes, on one core and on all.

tokenizers.py [--tokenizer DIR] [--text FILE] [--megabytes N] [--rounds N] [--check]

The text is repeated to N MB, so most words were met before, as in any large text. Without --tokenizer, vocabularies of its most
frequent words are made, in the styles of GPT-2, llama 3, llama 2, BERT and T5. --check fails where one core does less than 10 MB/s.
TOKENIZERS_PYTHON names a python that has the package `tokenizers`, which then encodes the lines of the text once, as one batch on
one core; the sides take turns.
"""
import argparse
import collections
import json
import math
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
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    split = {"type": "Split", "pattern": {"Regex": LLAMA3}, "behavior": "Isolated", "invert": False}
    of_bytes = model(text, letters()[32], letters())
    characters = sorted(set(text) - {" "}) + ["\u2581"]
    of_characters = model(text, "\u2581", ["<0x%02X>" % b for b in range(256)] + characters, byte_fallback=True)
    yield "GPT-2", {"pre_tokenizer": level, "model": of_bytes}
    yield "llama 3", {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, {**level, "use_regex": False}]}, "model": of_bytes}
    yield "llama 2", {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}, "model": of_characters}
    yield "BERT", word_pieces(text)
    yield "T5", unigram(text)


def words_of(text):
    """The most frequent words with their counts, and the letters."""
    return collections.Counter(re.findall("[A-Za-z]+", text)).most_common(WORDS), sorted({c for c in text if not c.isspace()})


def word_pieces(text):
    """BERT's: words, and letters with which others begin or go on."""
    words, letters_of_text = words_of(text.lower())
    tokens = ["[UNK]", *letters_of_text, *("##" + c for c in letters_of_text), *(word for word, _ in words if len(word) > 1)]
    return {"normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                      "vocab": {token: i for i, token in enumerate(tokens)}}}


def unigram(text):
    """T5's: words by their frequency, and letters."""
    words, letters_of_text = words_of(text)
    total = sum(count for _, count in words)
    vocab = [["<unk>", 0.0], ["\u2581", -3.0], *([c, -12.0] for c in letters_of_text), *(["\u2581" + word, math.log(count / total)] for word, count in words)]
    return {"pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
            "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": False}}


def measure(tokenizer, args, cores):
    times = max(1, round(args.megabytes * 1e6 / os.path.getsize(args.text)))
    done = subprocess.run([os.path.join(TESTS, "bench_tokenize"), tokenizer, args.text, str(times)], check=True, stdout=subprocess.PIPE,
                          preexec_fn=lambda: os.sched_setaffinity(0, cores))
    return json.loads(done.stdout)["mb_s"]


PEER = """import sys, time, tokenizers
t = tokenizers.Tokenizer.from_file(sys.argv[1])
with open(sys.argv[2], encoding="utf-8", errors="replace") as f:
    lines = f.read().splitlines(keepends=True)
begin = time.perf_counter()
t.encode_batch_fast(lines, add_special_tokens=False)
print(sum(len(line.encode()) for line in lines) / 1e6 / (time.perf_counter() - begin))"""


def measure_peer(tokenizer, args, cores):
    """The package's speed, or none."""
    python = os.environ.get("TOKENIZERS_PYTHON")
    if not python:
        return 0
    done = subprocess.run([python, "-c", PEER, tokenizer, args.text], check=True, stdout=subprocess.PIPE, env={**os.environ, "RAYON_NUM_THREADS": "1"},
                          preexec_fn=lambda: os.sched_setaffinity(0, cores))
    return float(done.stdout)


def compare(name, tokenizer, args):
    """Prints a row; the speed on one core."""
    every = os.sched_getaffinity(0)
    one_core = {min(every)}
    rounds = [(measure(tokenizer, args, one_core), measure_peer(tokenizer, args, one_core), measure(tokenizer, args, every)) for _ in range(args.rounds)]
    one, peer, many = (statistics.median(r[i] for r in rounds) for i in range(3))
    print("%-10s %8.1f MB/s on one core, %8.1f MB/s on %d%s" %
          (name, one, many, len(every), "; the package %.2f MB/s on one core, %.1f times less" % (peer, one / peer) if peer else ""))
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
