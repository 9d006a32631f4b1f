"""mutate.py - damage to bytes that readers have to bear: any file, zip archives, pickles, JSON headers, gzip, PNG."""
import gzip
import json
import re
import struct
import zlib

EXTREME = [0, 1, 2, 3, 7, 127, 128, 255, 256, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, 1 << 63,
           (1 << 64) - 1, (1 << 64) - 8]
LENGTHS = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}


# ---- any file ----

def place(rng, data):
    """Of a byte; files, and records within them, may be empty by now."""
    return rng.randrange(len(data)) if data else 0


def flip(rng, data):
    for _ in range(rng.choice((1, 1, 2, 8)) if data else 0):
        data[place(rng, data)] ^= 1 << rng.randrange(8)


def cut(rng, data):
    del data[place(rng, data):]


def grow(rng, data):
    data += rng.randbytes(rng.choice((1, 7, 64, 4096)))


def remove(rng, data):
    at = place(rng, data)
    del data[at:at + rng.choice((1, 2, 4, 8, 64, 512))]


def insert(rng, data):
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8, 64)))


def copy_block(rng, data):
    size = rng.choice((1, 4, 16, 64, 512))
    source, at = place(rng, data), place(rng, data)
    data[at:at + size] = data[source:source + size]


def repeat_block(rng, data):
    at = place(rng, data)
    block = bytes(data[at:at + rng.choice((1, 4, 16, 64))])
    data[at:at] = block * rng.choice((1, 2, 16, 100))


def fill(rng, data):
    at, size = place(rng, data), rng.choice((1, 4, 16, 256))
    data[at:at + size] = bytes([rng.choice((0, 0xFF, 0x20, 0x41))]) * len(data[at:at + size])


def put_number(rng, data):
    size = rng.choice((1, 2, 4, 8))
    at = place(rng, data)
    value = struct.pack(LENGTHS[size], rng.choice(EXTREME) & ((1 << 8 * size) - 1))
    if rng.random() < 0.3:
        value = value[::-1]
    data[at:at + size] = value


ANY = [flip, flip, cut, grow, remove, insert, copy_block, repeat_block, fill, put_number, put_number]


def splice(rng, data, other):
    """The beginning of one file, the end of another."""
    return bytearray(data[:rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1):])


# ---- zip ----

ZIP_FIELDS = {  # offset and size of the fields of each header, behind its signature
    b"PK\3\4": [(4, 2), (6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2)],
    b"PK\1\2": [(4, 2), (6, 2), (8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (32, 2), (34, 2), (42, 4)],
    b"PK\5\6": [(4, 2), (6, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)],
    b"PK\6\6": [(4, 8), (16, 4), (24, 8), (32, 8), (40, 8), (48, 8)],
    b"PK\6\7": [(4, 4), (8, 8), (16, 4)],
    b"PK\7\x08": [(4, 4), (8, 4), (12, 4)],
}


def lie_in_zip(rng, data):
    places = [(m.start(), m.group()) for m in re.finditer(b"PK(?:\3\4|\1\2|\5\6|\6\6|\6\7|\7\x08)", data)]
    if not places:
        return flip(rng, data)
    for _ in range(rng.choice((1, 1, 2))):
        at, kind = rng.choice(places)
        offset, size = rng.choice(ZIP_FIELDS[kind])
        field = data[at + offset:at + offset + size]
        if len(field) < size:
            continue
        value = struct.unpack(LENGTHS[size], field)[0]
        value = rng.choice([value + 1, value - 1, value * 2, len(data), len(data) - 1, *EXTREME]) & ((1 << 8 * size) - 1)
        data[at + offset:at + offset + size] = struct.pack(LENGTHS[size], value)
    return None


def change_record(rng, data):
    """Another record of the same length with the right CRC-32, so that its content gets as far as its reader."""
    places = [m.start() for m in re.finditer(b"PK\3\4", data)]
    if not places:
        return flip(rng, data)
    at = rng.choice(places)
    if at + 30 > len(data):
        return None
    flags, method, crc, size = *struct.unpack("<HH", data[at + 6:at + 10]), *struct.unpack("<II", data[at + 14:at + 22])
    name, extra = struct.unpack("<HH", data[at + 26:at + 30])
    start = at + 30 + name + extra
    if flags & 8 or not size:  # the sizes stand behind the record, and in the directory
        entry = data.find(b"PK\1\2" + bytes(0), start)
        while entry >= 0 and struct.unpack("<I", data[entry + 42:entry + 46] or b"\0\0\0\0")[0] != at:
            entry = data.find(b"PK\1\2", entry + 4)
        if entry < 0:
            return None
        crc, size = struct.unpack("<II", data[entry + 16:entry + 24])
    body = bytearray(data[start:start + size])
    if not body or len(body) != size or method:
        return None
    rng.choice((change_pickle, change_pickle, flip, put_number))(rng, body)
    body = (body + bytes(size))[:size]
    data[start:start + size] = body
    old, new = struct.pack("<I", crc), struct.pack("<I", zlib.crc32(bytes(body)))
    for m in [m.start() for m in re.finditer(re.escape(old), bytes(data))]:
        data[m:m + 4] = new
    return None


# ---- pickle, JSON, npy ----

OPCODES = b"().0123FGIJKLMNPQRSTUVX]abcdeghijlopqrstu}\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f" \
          b"\x90\x91\x92\x93\x94\x95\x96\x97\x98"


def change_pickle(rng, data):
    for _ in range(rng.choice((1, 1, 2, 4))):
        places = [i for i, byte in enumerate(data) if byte in OPCODES]
        if not places:
            return flip(rng, data)
        at = rng.choice(places)
        how = rng.random()
        if how < 0.4:
            data[at] = rng.choice(OPCODES)
        elif how < 0.7:  # the argument of an opcode: a length, an index, a number of a shape
            put = rng.choice(EXTREME)
            size = rng.choice((1, 1, 2, 4))
            data[at + 1:at + 1 + size] = struct.pack(LENGTHS[size], put & ((1 << 8 * size) - 1))
        elif how < 0.85:
            del data[at]
        else:
            data[at:at] = bytes([rng.choice(OPCODES)])
    return None


def change_json(rng, data):
    """A value of a JSON text, as a header of safetensors or a vocabulary has it."""
    places = [(m.start(), m.end()) for m in re.finditer(rb'-?\d+(?:\.\d+)?|"[^"\\]{0,40}"|\[|\]|\{|\}|,|:|true|false|null', bytes(data[:1 << 16]))]
    if not places:
        return flip(rng, data)
    start, end = rng.choice(places)
    data[start:end] = rng.choice([str(rng.choice(EXTREME)).encode(), b"-1", b"1e999", b"null", b"[]", b"{}", b'""', b'"\\u0000"', b'"a"', b"true",
                                  b"[" * 200, b'"\xff"', b"0.5", b"99999999999999999999999", b'"F32"', b'"I64"', b'"\\ud800"', b"",
                                  b'"' + b"x" * 5000 + b'"'])
    return None


def change_header(rng, data):
    """The header of a safetensors file, and its length put right."""
    if len(data) < 10:
        return flip(rng, data)
    length = struct.unpack("<Q", data[:8])[0]
    if length > len(data):
        return flip(rng, data)
    header, rest = bytearray(data[8:8 + length]), data[8 + length:]
    for _ in range(rng.choice((1, 1, 2))):
        if header:
            change_json(rng, header)
    data[:] = struct.pack("<Q", len(header)) + header + rest
    return None


def shapes_and_offsets(rng, data):
    """Extreme sizes and offsets in a valid header."""
    try:
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(bytes(data[8:8 + length]))
        names = [n for n in header if n != "__metadata__"]
        value = header[rng.choice(names)]
        key = rng.choice(("shape", "data_offsets"))
        numbers = list(value[key]) or [0]
        numbers[rng.randrange(len(numbers))] = rng.choice(EXTREME + [-1])
        value[key] = numbers + rng.choice(([], [], [1], [0] * 70))
        text = json.dumps(header).encode()
        data[:] = struct.pack("<Q", len(text)) + text + data[8 + length:]
    except (ValueError, KeyError, IndexError, TypeError, struct.error, AttributeError):
        change_header(rng, data)


def change_npy(rng, data):
    m = re.search(rb"\d+|'[<>|][a-z]\d'|\(|\)|,|True|False", bytes(data[10:200]))
    if not m:
        return flip(rng, data)
    new = rng.choice([str(rng.choice(EXTREME)).encode(), b"'<f8'", b"'>c16'", b"'|O'", b"-1", b"()", b"True", b""])
    start, end = 10 + m.start(), 10 + m.end()
    data[start:end] = new.ljust(end - start)[:max(end - start, len(new) if rng.random() < 0.3 else 0)]
    return None


# ---- data files ----

def change_inside_gzip(rng, data):
    try:
        inside = bytearray(gzip.decompress(bytes(data)))
    except (OSError, EOFError, zlib.error):
        return flip(rng, data)
    if inside:
        rng.choice(ANY)(rng, inside)
    data[:] = gzip.compress(bytes(inside), mtime=0)
    return None


def change_tar(rng, data):
    """A field of a header, its checksum put right: sizes, types, names."""
    blocks = [at for at in range(0, len(data) - 511, 512) if data[at + 257:at + 262] == b"ustar"]
    if not blocks:
        return flip(rng, data)
    at = rng.choice(blocks)
    field, size = rng.choice(((0, 100), (124, 12), (124, 12), (156, 1), (157, 100), (345, 155)))
    new = {1: rng.choice((b"0", b"1", b"2", b"3", b"5", b"6", b"L", b"x", b"g", b"S", b"\0", b"\xff")),
           12: rng.choice((b"77777777777\0", b"00000000000\0", b"-0000000001\0", b"\x80" + bytes(3) + b"\xff" * 8, b"\xff" * 12, b"garbage12345")),
           }.get(size, rng.choice((b"../../outside.png", b"/tmp/outside.png", b"images/a/0.png", b"x" * 155, b"", rng.randbytes(40))))
    data[at + field:at + field + size] = new[:size].ljust(size, b"\0")
    data[at + 148:at + 156] = b" " * 8
    data[at + 148:at + 156] = b"%06o\0 " % sum(data[at:at + 512])
    return None


def change_png(rng, data):
    """A chunk's length, kind or bytes, its CRC put right."""
    chunks, at = [], 8
    while at + 12 <= len(data):
        size = struct.unpack(">I", data[at:at + 4])[0]
        if at + 12 + size > len(data):
            break
        chunks.append((at, size))
        at += 12 + size
    if not chunks:
        return flip(rng, data)
    at, size = rng.choice(chunks)
    body = bytearray(data[at + 4:at + 8 + size])
    if rng.random() < 0.7 and size:
        body[4 + rng.randrange(size)] = rng.choice((0, 1, 2, 3, 4, 6, 8, 16, 127, 255, rng.randrange(256)))
    else:
        body[:4] = rng.choice((b"IHDR", b"IDAT", b"IEND", b"PLTE", b"tRNS", b"zTXt", b"iCCP", b"abcd"))
    data[at + 4:at + 12 + size] = bytes(body) + struct.pack(">I", zlib.crc32(bytes(body)))
    return None


def change_csv(rng, data):
    lines = bytes(data).split(b"\n")
    i = rng.randrange(len(lines))
    fields = lines[i].split(b",")
    fields[rng.randrange(len(fields))] = rng.choice((b"", b"nan", b"inf", b"-inf", b"1e400", b"1e-400", b"0x10", b'"', b'"a,b"', b"\0", b"\xff", b" 1 ",
                                                    b"1" * 5000, b"z", b"1,2", b'""""', b'"1\n2"', b"\r"))
    lines[i] = b",".join(fields)
    data[:] = rng.choice((b"\n", b"\n", b"\n", b"\r\n", b"\r")).join(lines)


def change_text(rng, data):
    at = place(rng, data)
    data[at:at] = rng.choice((b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", "\u00e9\u4e2d\U0001f600".encode(), b"\xef\xbb\xbf", b"\r\n", bytes(range(256))))


BY_ENDING = {
    ".pth": [lie_in_zip, lie_in_zip, change_record, change_record, change_record], ".npz": [lie_in_zip, lie_in_zip, change_record],
    ".legacy": [change_pickle, change_pickle], ".safetensors": [change_header, change_header, shapes_and_offsets], ".npy": [change_npy],
    ".json": [change_json, change_json, change_json], ".jsonl": [change_json], ".gz": [change_inside_gzip, change_inside_gzip],
    ".tar": [change_tar, change_tar], ".png": [change_png, change_png], ".csv": [change_csv, change_csv], ".txt": [change_text],
}


def mutate(rng, data, ending, others=()):
    """Damage a file's bytes once to four times."""
    data = bytearray(data)
    if others and rng.random() < 0.05:
        data = splice(rng, data, rng.choice(others))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if data:
            rng.choice(BY_ENDING.get(ending, []) * 2 + ANY)(rng, data)
    return bytes(data[:1 << 22])
