#!/usr/bin/python3
"""
bpe.py - tokenizers of byte-pair encoding against the package `tokenizers` (TAP).

The package trains vocabularies of 1,000 and 32,000 tokens on real text in every style that gtrain reads; ids and the text that they
stand for are compared on Tiny Shakespeare, on the repository's own files, on texts that tokenizers stumble over, and on random
ones. TOKENIZERS_PYTHON names a python that has the package, where this one has not.
"""
import glob
import json
import os
import random
import struct
import subprocess
import sys
import unicodedata

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap

try:
    import tokenizers
except ImportError:
    other = os.environ.pop("TOKENIZERS_PYTHON", None)
    if other:
        os.execv(other, [other, *sys.argv])
    print("1..1\nok 1 - ids are the package's # SKIP tokenizers: no such package; TOKENIZERS_PYTHON names a python that has it")
    sys.exit(0)

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DUMP = os.path.join(os.environ.get("GTRAIN_TESTS", "build/tests"), "bpe_dump")
DATA = os.environ.get("GTRAIN_TEST_DATA", os.path.join(ROOT, "..", "shared", "data"))
SHAKESPEARE = os.path.join(DATA, "tinyshakespeare.txt")

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


# ---- texts ----

def read(path):
    with open(path, "rb") as f:
        return f.read()


def repository():
    """Sources and manuals of the repository in one text."""
    files = [f for folder in ("lib/*", "cmd", "man", ".") for f in sorted(glob.glob(os.path.join(ROOT, folder, "*.[ch1m]*")))]
    return b"\n".join(read(f) for f in files)


TORTURE = [
    "", " ", "  ", "\n", "\n\n", " \n \n", "a", " a", "a ", "  a  b   c    ", "\t\ttabs\t and\r\nlines\r\r\n\n", "don't I'll we'VE 'S 'sX ''s",
    "\U0001f600\U0001f468‍\U0001f469‍\U0001f467‍\U0001f466 \U0001f1e9\U0001f1ea\U0001f3f4\U000e0067\U000e0062", "漢字かなカナ한국어 中文。、「」",
    "é e\u0301 a\u0308\u0323 Z̶̢a̷l̵g̸o̶", "العربية עברית हिन्दी ไทย", "١٢٣ ४५६ ½ ² Ⅷ ㊿ 1234567 0x1F", "ﬁ ß ſ K Å İ ı 'ſ 'K",
    "\u00a0\u2003\u3000\u1680\u180e\u200b\u2028\u2029\u0085x\u0085 \x1c\x1d\x1e\x1f", "\x00\x01\x02\x7f\x80\x9f\xad", "\ufeffBOM\ufffd\ufffe\uffff",
    "\ud7ff\ue000\U0010ffff\U000e0001", "▁▁ ▁a ▁", "<0x41><0xE2> <0x", "<|endoftext|><|endoftext|> x<|endoftext|>", "a<unk>b</s> <s>c", "<s>",
    "<pad>  <pad>\n x", " <mask>  y <mask>", "x" * 5000, " " * 3000 + "x", "ab" * 2000, "\n" * 2000, "é" * 1500, "\U0001f600" * 900, ("a" * 47 + " ") * 5,
    "a" * 48, "a" * 49, "!?!?...---___==>>", "http://x.y/z?a=b&c=d#e", "CamelCaseXMLHttp iPhone2go", "<pad>xdog dogdo <pad>x x<pad>xx", "x̂ŷẑ", "ĠĊ Ġthe",
]
DAMAGED = [b"\xff", b"a\xc3", b"\xc3\xc3\xa9", b"\xe2\x82", b"\xe2\x82\xff\xac", b"\xf0\x9f\x98", b"\xf0\x9f\x98x\xf0\x9f", b"\xed\xa0\x80\xed\xbf\xbf",
           b"\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf", b"\xf4\x90\x80\x80\xf5\xff\xfe", b"ok\x80\x80\x80 \xbf", b"\xf1\x80\x80\x41\xe1\x80\x41\xe0\xa0 \xf4\x8f\xbf"]


def known(code):
    """Assigned where gtrain's Unicode (PCRE2's) and the package's are sure to agree; no surrogate."""
    return not 0xD800 <= code < 0xE000 and unicodedata.category(chr(code)) != "Cn"


def is_old(code):
    """Assigned in Unicode 3.2, with today's category: the package has tables of several versions, which other characters tell apart."""
    return unicodedata.ucd_3_2_0.category(chr(code)) == unicodedata.category(chr(code)) != "Cn"


def random_texts(count, is_used):
    rng = random.Random(1)
    pieces = ["the", " ", "  ", "\n", "'s", "'LL", "1", "23", "é", "漢", "\U0001f600", "▁", "<s>", "<|endoftext|>", "<pad>", "\u0301", ".", "_", "\t", "ß", "<0x", "<mask>", "x<pad>x", "dog"]
    for _ in range(count):
        text = "".join(rng.choice(pieces) if rng.random() < 0.8 else chr(rng.choice((rng.randrange(0x20, 0x250), rng.randrange(0x250, 0x3100), rng.randrange(0x10000, 0x1f700))))
                       for _ in range(rng.randrange(40)))
        yield "".join(c for c in text if is_used(ord(c)))


def all_characters(is_used):
    """Each character between letters, spaces and digits."""
    codes = [c for c in range(0x110000) if known(c) and is_used(c)]
    for i in range(0, len(codes), 4096):
        yield "".join("a%s 1%s\n" % (chr(c), chr(c)) for c in codes[i:i + 4096])


def mixed():
    """5 MB of pieces of all texts, cut anywhere: code, prose, characters of every kind, and bytes that are no UTF-8. The package takes
    hours for a long text that is not split into words."""
    rng = random.Random(2)
    sources = [repository(), "".join(all_characters(is_old)).encode(), "".join(random_texts(3000, is_old)).encode(), b"text ".join(DAMAGED),
               "\n".join(text for text in TORTURE if len(text) < 500).encode("utf-8", "surrogatepass")]
    sources += [read(SHAKESPEARE)] if os.path.exists(SHAKESPEARE) else []
    pieces, size = [], 0
    while size < 5_000_000:
        source = rng.choice(sources)
        at = rng.randrange(len(source))
        pieces.append(source[at:at + rng.randrange(1, 3000)])
        size += len(pieces[-1])
    return pieces


def texts(everything=True, is_used=known):
    if os.environ.get("THOROUGH"):
        yield "5 MB of all of them", mixed()
    yield "torture", [t.encode("utf-8", "surrogatepass") for t in TORTURE]
    yield "not UTF-8", DAMAGED + [b"text ".join(DAMAGED)]
    yield "random", [t.encode() for t in random_texts(1500, is_used)]
    if not everything:
        return
    yield "all characters", [t.encode() for t in all_characters(is_used)]
    yield "repository", [repository()]
    if os.path.exists(SHAKESPEARE):
        yield "tinyshakespeare", [read(SHAKESPEARE)]


# ---- tokenizers ----

def byte_level(pre, **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t, {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "special_tokens": ["<|endoftext|>"]}


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior, invert), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def metaspace_decoder(strip):
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(parts + [decoders.Strip(" ", 1, 0)] * strip)


def characters(normalizer=None, pre=None, decoder=None, specials=(), **model):
    """llama 2: special tokens, then all bytes."""
    t = Tokenizer(models.BPE(unk_token="<unk>", **model))
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    t.decoder = decoder or metaspace_decoder(True)
    return t, {"special_tokens": ["<unk>", "<s>", "</s>", *specials], "limit_alphabet": 200}


BYTES = ["<0x%02X>" % b for b in range(256)]
LLAMA2 = dict(normalizer=normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), specials=BYTES, byte_fallback=True, fuse_unk=True)


def without_prefix_stripped(t):
    """Metaspace trains; llama 2's normalizer then does the same without cutting words."""
    t.pre_tokenizer = None


STYLES = {
    "gpt2": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "gpt2 with a prefix": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "llama 3": lambda: byte_level(split(LLAMA3), ignore_merges=True),
    "gpt-4o": lambda: byte_level(split(O200K)),
    "gpt-4 inverted": lambda: byte_level(split(LLAMA3, "removed", True)),
    "digits": lambda: byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])),
    "three stages": lambda: byte_level(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"), pre_tokenizers.Split(Regex(r"[一-龥぀-ゟ゠-ヿ]+"), "isolated"),
                                                                pre_tokenizers.ByteLevel(add_prefix_space=True)])),
    "llama 2": lambda: characters(**LLAMA2),
    "metaspace first": lambda: characters(pre=pre_tokenizers.Metaspace(prepend_scheme="first"), decoder=decoders.Metaspace(prepend_scheme="first")),
    "metaspace always": lambda: characters(pre=pre_tokenizers.Metaspace(prepend_scheme="always"), specials=BYTES, byte_fallback=True),
    "metaspace never, unsplit": lambda: characters(pre=pre_tokenizers.Metaspace(prepend_scheme="never", split=False), decoder=metaspace_decoder(False), fuse_unk=True),
    "metaspace some bytes": lambda: characters(pre=pre_tokenizers.Metaspace(), specials=BYTES[0xC0:0xF0] + BYTES[0x80:0xB0], byte_fallback=True, ignore_merges=True),
    "no pre_tokenizer": lambda: characters(normalizer=normalizers.Replace(" ", "▁"), decoder=metaspace_decoder(False), specials=BYTES, byte_fallback=True),
}

# The forms of families that people have. GPT-NeoX, Qwen, Falcon, BLOOM, Gemma and BERT, and a few of each kind beside.
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
FALCON = [pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.Digits(individual_digits=False),
          pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]


def normalized(normalizer, style):
    t, options = style
    t.normalizer = normalizer
    return t, options


def bert(**options):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(**options)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(cleanup=options.get("lowercase", True))
    t.post_processor = processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0))
    return t, {"special_tokens": ["[CLS]", "[SEP]", "[UNK]"]}


def unigram(pre, normalizer=None, specials=(), **model):
    t = Tokenizer(models.Unigram())
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.Metaspace()
    return t, {"special_tokens": ["<unk>", *specials], "unk_token": "<unk>"}


def pieces(behavior, pattern="[aeiou ]", invert=False):
    return characters(pre=pre_tokenizers.Split(Regex(pattern), behavior, invert), decoder=decoders.Fuse())


STYLES.update({
    "gpt-neox": lambda: normalized(normalizers.NFC(), byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))),
    "qwen": lambda: normalized(normalizers.NFC(), byte_level(split(QWEN))),
    "bloom": lambda: byte_level(split(BLOOM)),
    "falcon": lambda: byte_level(pre_tokenizers.Sequence(FALCON)),
    "gemma": lambda: characters(normalizer=normalizers.Replace(" ", "▁"), pre=pre_tokenizers.Split(" ", "merged_with_previous"),
                                decoder=decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]),
                                specials=BYTES, byte_fallback=True, fuse_unk=True),
    "bert": lambda: bert(),
    "bert cased": lambda: bert(lowercase=False),
    "bert accents": lambda: bert(lowercase=False, strip_accents=True, handle_chinese_chars=False, clean_text=False),
    "unigram": lambda: unigram(pre_tokenizers.Metaspace(), normalizers.NFKC()),
    "unigram words": lambda: unigram(pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="first")])),
    "unigram unsplit": lambda: unigram(pre_tokenizers.Metaspace(split=False), normalizers.Sequence([normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()])),
    "nfd, lower case, accents": lambda: normalized(normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()]),
                                                   characters(pre=pre_tokenizers.Whitespace(), decoder=decoders.Fuse())),
    "nfkd, prepend": lambda: normalized(normalizers.Sequence([normalizers.NFKD(), normalizers.Prepend("x"), normalizers.Replace("e", "")]),
                                        byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))),
    "punctuation": lambda: characters(pre=pre_tokenizers.Sequence([pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.Digits()]), decoder=decoders.Fuse()),
    "merged with next": lambda: pieces("merged_with_next"),
    "merged with previous, inverted": lambda: pieces("merged_with_previous", "[a-z]", True),
    "merged with next, inverted": lambda: pieces("merged_with_next", "[a-z]", True),
    "contiguous": lambda: pieces("contiguous"),
    "contiguous, inverted": lambda: pieces("contiguous", "[a-z]", True),
})
LARGE = ("gpt2", "llama 2")  # with 32,000 tokens, too
EVERYTHING = ("gpt2", "llama 3", "llama 2", "qwen", "gemma", "bert", "unigram", "falcon")  # on all texts, others on the short ones


def train(style, size, path):
    t, options = STYLES[style]()
    whole = t.pre_tokenizer is None
    if whole:  # words, or training takes hours
        t.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    unsplit = style == "unigram unsplit"
    if unsplit:
        t.pre_tokenizer = pre_tokenizers.Metaspace()
    corpus = [repository().decode("utf-8", "replace")] + ([read(SHAKESPEARE).decode()] if os.path.exists(SHAKESPEARE) else []) + TORTURE[6:12]
    lines = [line for text in corpus for line in text.splitlines(keepends=True)]
    kind = {models.WordPiece: trainers.WordPieceTrainer, models.Unigram: trainers.UnigramTrainer}.get(type(t.model), trainers.BpeTrainer)
    t.train_from_iterator(lines, kind(vocab_size=size, show_progress=False, **options))
    if unsplit:
        t.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True), AddedToken("<pad>", rstrip=True, special=True)])
    # Found in a second pass, between the others, as normalized. What Prepend puts before such a token, the package decodes, gtrain does not.
    if style not in ("llama 2", "no pre_tokenizer", "nfkd, prepend"):
        t.add_tokens([AddedToken("<pad>x", normalized=True), AddedToken("dog", normalized=True)])
    t.save(path)
    if whole:
        with open(path, encoding="utf-8") as f:
            file = json.load(f)
        file["pre_tokenizer"] = None
        with open(path, "w", encoding="utf-8") as f:
            json.dump(file, f)
    return Tokenizer.from_file(path)


# ---- comparisons ----

def ask(path, way, blocks, one_core=False):
    size = 4 if way == "decode" else 1
    data = b"".join(struct.pack("=I", len(b) // size) + b for b in blocks)
    before = (lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])) if one_core else None
    done = subprocess.run([DUMP, path, way], input=data, capture_output=True, preexec_fn=before)
    if done.returncode:
        raise RuntimeError(done.stderr.decode() or "status %d" % done.returncode)
    out, at = [], 0
    size = 5 - size
    while at < len(done.stdout):
        n = struct.unpack_from("=I", done.stdout, at)[0] * size
        out.append(done.stdout[at + 4:at + 4 + n])
        at += 4 + n
    return out


def pack(ids):
    return struct.pack("=%di" % len(ids), *ids)


def difference(text, mine, theirs):
    a, b = [struct.unpack("=%di" % (len(x) // 4), x) for x in (mine, theirs)]
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return "%.60r: %d and %d ids, differ at %d: %s and %s" % (text, len(a), len(b), at, a[at:at + 5], b[at:at + 5])


def compare(tokenizer, path, blocks):
    strings = [b.decode("utf-8", "replace") for b in blocks]
    theirs = [pack(e.ids) for e in tokenizer.encode_batch(strings, add_special_tokens=False)]
    mine = ask(path, "encode", blocks)
    ties = isinstance(tokenizer.model, models.Unigram)  # the package reads scores with an error of the last bit, which decides between equal paths
    for text, a, b in zip(strings, mine, theirs):
        if a != b and not (ties and sorted(struct.unpack("=%di" % (len(a) // 4), a)) == sorted(struct.unpack("=%di" % (len(b) // 4), b))):
            return difference(text, a, b)
    if ask(path, "encode", blocks, one_core=True) != mine:
        return "other ids with one thread"
    back = ask(path, "decode", mine)
    for text, a, ids in zip(strings, back, theirs):
        wanted = tokenizer.decode(struct.unpack("=%di" % (len(ids) // 4), ids), skip_special_tokens=False)
        if wanted.count("\ufffd") > text.count("\ufffd"):
            continue  # tokens of bytes that are no character: the package damages the whole run of them
        if a.decode("utf-8", "replace") != wanted:
            return "%.60r decodes to %.60r, not %.60r" % (text, a.decode("utf-8", "replace"), wanted)
    return "" if len(mine) == len(blocks) else "answers are missing"


def styles(folder):
    for style in STYLES:
        for size in (1000, 32000)[:1 + (style in LARGE)]:
            path = os.path.join(folder, "tokenizer.json")
            tokenizer = train(style, size, path)
            for name, blocks in texts(style in EVERYTHING, known if tokenizer.normalizer is None else is_old):
                yield "%s, %d tokens: %s" % (style, tokenizer.get_vocab_size(), name), compare(tokenizer, path, blocks)


def gpt2_files(folder):
    """vocab.json and merges.txt, as GPT-2 has them."""
    path = os.path.join(folder, "tokenizer.json")
    t = train("gpt2", 1000, path)
    t.model.save(folder)
    os.remove(path)
    reference = Tokenizer(models.BPE.from_file(os.path.join(folder, "vocab.json"), os.path.join(folder, "merges.txt")))
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    reference.decoder = decoders.ByteLevel()
    reference.add_special_tokens(["<|endoftext|>"])
    for name, blocks in texts():
        yield "vocab.json and merges.txt: %s" % name, compare(reference, folder, blocks)


def sentencepiece_models(folder):
    """Models that the package sentencepiece trains; scores of equal paths differ in their rounding, so runs of spaces are left out."""
    try:
        import sentencepiece
    except ImportError:
        yield "models of SentencePiece # SKIP sentencepiece: no such package", ""
        return
    corpus, path = os.path.join(folder, "text"), os.path.join(folder, "sp.model")
    text = "\n".join(TORTURE[6:12]) + repository()[:400000].decode("utf-8", "replace")
    with open(corpus, "w", encoding="utf-8") as f:
        f.write(text)
    lines = [line for line in text.splitlines() + TORTURE + list(random_texts(500, is_old)) if "\0" not in line and "<" not in line and "   " not in line and line]
    lines = [line for line in lines if "\n" not in line]
    llama = {"byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "split_digits": True}
    for kind in ("bpe", "unigram"):
        for style, options in (("of llama", llama), ("with nmt_nfkc", {})):
            sentencepiece.SentencePieceTrainer.train(input=corpus, model_prefix=path[:-6], vocab_size=1500, model_type=kind, minloglevel=2, **options)
            theirs = [pack(ids) for ids in sentencepiece.SentencePieceProcessor(model_file=path).encode(lines)]
            mine = ask(path, "encode", [line.encode("utf-8", "surrogatepass") for line in lines])
            if kind == "unigram":  # paths of the same tokens are equally probable but for rounding
                mine, theirs = [[pack(sorted(struct.unpack("=%di" % (len(ids) // 4), ids))) for ids in side] for side in (mine, theirs)]
            yield "SentencePiece, %s %s" % (kind, style), next((difference(t, a, b) for t, a, b in zip(lines, mine, theirs) if a != b), "")


def training(folder):
    """Files that `gtrain data tokenizer` writes: prose, code, and words of few letters, in which tokens of the same text come about in several ways."""
    rng = random.Random(3)
    letters = "".join("".join(rng.choice("aab") for _ in range(rng.randrange(1, 30))) + rng.choice(" \n") for _ in range(20000))
    corpora = {"code": repository()[:1000000].decode("utf-8", "replace").encode(), "few letters": letters.encode(),
               "odd texts": "\n".join(list(random_texts(3000, is_old)) + TORTURE).encode("utf-8", "replace")}
    if os.path.exists(SHAKESPEARE):
        corpora["tinyshakespeare"] = read(SHAKESPEARE)
    for name, corpus in corpora.items():
        paths = [os.path.join(folder, name) for name in ("corpus", "mine.json", "theirs.json")]
        with open(paths[0], "wb") as f:
            f.write(corpus)
        t, options = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
        t.post_processor = None
        t.train(paths[:1], trainers.BpeTrainer(vocab_size=5000, show_progress=False, **options))
        t.save(paths[2])
        subprocess.run([os.environ.get("GTRAIN", "build/gtrain"), "data", "tokenizer", paths[0], "--vocab", "5000", "-o", paths[1]], check=True, stdout=subprocess.DEVNULL)
        yield "training: " + name, "" if read(paths[1]) == read(paths[2]) else "the files differ"


if __name__ == "__main__":
    sys.exit(tap.run([training, sentencepiece_models, gpt2_files, styles], DUMP, sys.argv[1:]))
