#!/usr/bin/env python3
"""images.py - decoding and resizing of images against Pillow, byte for byte (TAP)."""
import io
import os
import struct
import subprocess
import sys
import tempfile
import warnings
import zlib

warnings.filterwarnings("ignore", message="Corrupt EXIF data")  # Pillow's, of parts damaged on purpose
warnings.filterwarnings("ignore", message="Palette images with Transparency")
TESTS = os.environ.get("GTRAIN_TESTS", "build/tests")

try:
    import numpy as np
    from PIL import Image, ImageOps
except ImportError:
    print("1..1\nok 1 # SKIP python has no numpy or no Pillow")
    sys.exit(0)


def picture(height, width, seed):
    """Smooth colours with noise on top: every DCT coefficient and chroma sample counts."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / (3.0 + k) + y / (7.0 - k)) * 80 + 128 for k in range(3)]
    noise = rng.normal(0, 25, (height, width, 3))
    return Image.fromarray(np.clip(np.stack(waves, -1) + noise, 0, 255).astype(np.uint8))


def dump(folder, options, shape):
    out = subprocess.run([os.path.join(TESTS, "data_dump"), f"images:{folder}{options}"],
                         capture_output=True)
    if out.returncode:
        raise RuntimeError(out.stderr.decode())
    size = int(np.prod(shape))
    assert len(out.stdout) == len(FILES) * (size + 4), "data_dump gave another number of samples"
    return [np.frombuffer(out.stdout, np.uint8, size, at).reshape(shape)
            for at in range(0, len(out.stdout), size + 4)]


FILES = [
    ("a420.jpg", lambda i: i, dict(quality=75)),
    ("b444.jpg", lambda i: i, dict(quality=95, subsampling=0)),
    ("c422.jpg", lambda i: i, dict(quality=40, subsampling=1)),
    ("dprogressive.jpeg", lambda i: i, dict(quality=80, progressive=True)),
    ("egrey.jpg", lambda i: i.convert("L"), dict(quality=80)),
    ("fcmyk.jpg", lambda i: i.convert("CMYK"), dict(quality=80)),
    ("grgb.png", lambda i: i, {}),
    ("hgrey.PNG", lambda i: i.convert("L"), {}),
    ("ipalette.png", lambda i: i.quantize(200), {}),
    ("jfew.png", lambda i: i.quantize(3), dict(bits=2)),
    ("kalpha.png", lambda i: i.convert("RGBA"), {}),
    ("lgreyalpha.png", lambda i: i.convert("LA"), {}),
    ("mbits.png", lambda i: i.convert("1"), {}),
    ("nlossy.webp", lambda i: i, dict(quality=70)),
    ("olossless.webp", lambda i: i, dict(lossless=True)),
    ("palpha.webp", lambda i: i.convert("RGBA"), dict(quality=90)),
    ("qgrey.webp", lambda i: i.convert("L"), dict(quality=50)),
]


def write(folder, height, width):
    os.makedirs(os.path.join(folder, "class"))
    paths = []
    for number, (name, change, options) in enumerate(FILES):
        path = os.path.join(folder, "class", name)
        change(picture(height, width, number)).save(path, **options)
        paths.append(path)
    return paths


def check_decode(height, width, channels):
    with tempfile.TemporaryDirectory() as folder:
        paths = write(folder, height, width)
        got = dump(folder, f",channels={channels}", (height, width, channels))
        wrong = []
        for path, mine in zip(paths, got):
            theirs = np.asarray(Image.open(path).convert("RGB" if channels == 3 else "L"))
            difference = np.abs(mine.astype(int) - theirs.reshape(mine.shape).astype(int))
            if difference.max():
                wrong.append(f"{os.path.basename(path)}: off by up to {difference.max()}")
        return wrong


def resize(image, n):
    """torchvision's Resize(n) and CenterCrop(n) for a PIL image."""
    w, h = image.size
    size = (n, int(n * h / w)) if w <= h else (int(n * w / h), n)
    image = image.resize(size, Image.BILINEAR)
    top, left = int(round((size[1] - n) / 2.0)), int(round((size[0] - n) / 2.0))
    return np.asarray(image.crop((left, top, left + n, top + n)))


def reduced(image, n):
    """The same of a JPEG, which Pillow decodes at a part of its size: as large as the result or larger."""
    w, h = image.size
    size = (n, int(n * h / w)) if w <= h else (int(n * w / h), n)
    drafted = image.draft(None, size)
    image = image.convert("RGB")
    image = image.resize(size, Image.BILINEAR, box=drafted[1]) if drafted else image.resize(size, Image.BILINEAR)
    top, left = int(round((size[1] - n) / 2.0)), int(round((size[0] - n) / 2.0))
    return np.asarray(image.crop((left, top, left + n, top + n)))


def check_resize(height, width, n, reduce="no"):
    with tempfile.TemporaryDirectory() as folder:
        paths = write(folder, height, width)
        wrong = []
        for path, mine in zip(paths, dump(folder, f",size={n},reduce={reduce}", (n, n, 3))):
            image = Image.open(path)
            theirs = reduced(image, n) if reduce == "yes" else resize(image.convert("RGB"), n)
            difference = np.abs(mine.astype(int) - theirs.astype(int))
            if difference.max():
                wrong.append(f"{os.path.basename(path)}: off by up to {difference.max()}")
        return wrong


FILTERS = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}


def cropped(image, n, size, interpolation):
    """Resized to (width, height) `size`, and the centre cropped as torchvision does it."""
    image = image.resize(size, FILTERS[interpolation])
    top, left = int(round((size[1] - n) / 2.0)), int(round((size[0] - n) / 2.0))
    return np.asarray(image.crop((left, top, left + n, top + n)))


def check_fit(height, width, n, settings, size, interpolation="bilinear"):
    """resize=, crop= and interpolation=: `size` is that of the picture after resizing."""
    with tempfile.TemporaryDirectory() as folder:
        paths = write(folder, height, width)
        wrong = []
        options = f",size={n},reduce=no,interpolation={interpolation}{settings}"
        for channels, mode in ((3, "RGB"), (1, "L")):
            for path, mine in zip(paths, dump(folder, f"{options},channels={channels}", (n, n, channels))):
                theirs = cropped(Image.open(path).convert(mode), n, size, interpolation).reshape(mine.shape)
                difference = np.abs(mine.astype(int) - theirs.astype(int))
                if difference.max():
                    wrong.append(f"{os.path.basename(path)}, {mode}: off by up to {difference.max()}")
        return wrong


def check_unfinished(height, width, n):
    """Progressive JPEGs whose last scans are missing: what these would have brought is estimated from neighbouring blocks."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "class"))
        paths = []
        for number, mode in enumerate(("RGB", "L", "CMYK")):
            f = io.BytesIO()
            picture(height, width, number).convert(mode).save(f, "JPEG", quality=80, progressive=True)
            scans = f.getvalue().split(b"\xff\xda")
            for left in range(2, len(scans)):
                paths.append(os.path.join(folder, "class", f"{number}-{left:02}.jpg"))
                with open(paths[-1], "wb") as out:
                    out.write(b"\xff\xda".join(scans[:left]) + b"\xff\xd9")
        out = subprocess.run([os.path.join(TESTS, "data_dump"), f"images:{folder},size={n},reduce=no"], capture_output=True)
        size, wrong = n * n * 3, []
        assert len(out.stdout) == len(paths) * (size + 4), out.stderr.decode()
        for number, path in enumerate(paths):
            mine = np.frombuffer(out.stdout, np.uint8, size, number * (size + 4)).reshape(n, n, 3)
            theirs = resize(Image.open(path).convert("RGB"), n)
            if not np.array_equal(mine, theirs):
                wrong.append(f"{os.path.basename(path)}: off by up to {np.abs(mine.astype(int) - theirs).max()}")
        return wrong


def exif(orientation, order="<", tag=0x112, kind=3, entries=1, offset=8):
    """A camera's Exif part: a directory with the tag in question behind another one."""
    rows = struct.pack(order + "HHI4s", 0x10F, 2, 4, b"abc\0") + struct.pack(order + "HHIHH", tag, kind, 1, orientation, 0)
    return b"Exif\0\0" + (b"II" if order == "<" else b"MM") + struct.pack(order + "HIH", 42, offset, entries + 1) + rows


def check_turned(height, width, reduce="no"):
    """Orientations as Pillow's exif_transpose() has them; a damaged one, or none, leaves the picture as it lies."""
    kinds = [(i, exif(i, order)) for i in range(1, 9) for order in "<>"]
    kinds += [(1, exif(9)), (1, exif(6, kind=4)), (1, exif(6, tag=0x113)), (1, exif(6, entries=0)), (1, exif(6, offset=1 << 31)),
              (1, exif(6)[:-9]), (1, b"Exif\0\0XX" + exif(6)[8:]), (1, b"Exif\0\0"), (6, exif(6, entries=9))]
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "class"))
        for number, (_, part) in enumerate(kinds):
            picture(height, width, number).save(os.path.join(folder, "class", f"{number:02}.jpg"), quality=90, exif=part)
        with_names = [os.path.join(folder, "class", f"{number:02}.jpg") for number in range(len(kinds))]
        n, wrong = 24, []
        out = subprocess.run([os.path.join(TESTS, "data_dump"), f"images:{folder},size={n},reduce={reduce}"],
                             capture_output=True)
        size = n * n * 3
        for number, ((orientation, _), path) in enumerate(zip(kinds, with_names)):
            at = number * (size + 4)
            mine = np.frombuffer(out.stdout, np.uint8, size, at).reshape(n, n, 3)
            shown = Image.open(path)
            if reduce == "yes":
                shown.draft(None, (width * n // height, n))
            if number < 16:
                shown = ImageOps.exif_transpose(shown)
            elif orientation == 6:
                shown = shown.transpose(Image.ROTATE_270)
            theirs = resize(shown.convert("RGB"), n)
            if not np.array_equal(mine, theirs):
                wrong.append(f"{number}: orientation {orientation}")
        return wrong


# ---- every form of a PNG, and JPEGs of four colours ----

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
DEPTHS = {GREY: (1, 2, 4, 8, 16), RGB: (8, 16), PALETTE: (1, 2, 4, 8), GREY_ALPHA: (8, 16), RGBA: (8, 16)}
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
# Where each of Adam7's passes begins and how far apart its pixels are: x, y, dx, dy.
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def packed(values, depth):
    """Rows of samples as a PNG has them, with no filter."""
    if depth == 16:
        rows = values.astype(">u2").reshape(len(values), -1).view(np.uint8)
    elif depth == 8:
        rows = values.astype(np.uint8).reshape(len(values), -1)
    else:
        bits = (values.reshape(len(values), -1, 1) >> np.arange(depth - 1, -1, -1)) & 1
        rows = np.packbits(bits.reshape(len(values), -1).astype(np.uint8), axis=1)
    return b"".join(b"\0" + row.tobytes() for row in rows)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(values, color, depth, interlaced, transparent, colors):
    """A file with these samples [height, width, channels]."""
    height, width = values.shape[:2]
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced))
    if color == PALETTE:
        out += chunk(b"PLTE", colors.tobytes())
    if transparent:  # some entries of the palette, or one colour
        out += chunk(b"tRNS", bytes(range(0, 250, 60))[:len(colors)] if color == PALETTE
                     else b"".join(struct.pack(">H", int(v)) for v in values[0, 0]))
    parts = [values[y::dy, x::dx] for x, y, dx, dy in PASSES] if interlaced else [values]
    return out + chunk(b"IDAT", zlib.compress(b"".join(packed(p, depth) for p in parts if p.size))) + chunk(b"IEND", b"")


def png_files(height, width):
    """(name, bytes, samples): each kind of colour in each depth, interlaced or not, with transparent colours or none."""
    rng = np.random.default_rng(height * width)
    for color, depths in DEPTHS.items():
        for depth in depths:
            colors = rng.integers(0, 256, (1 << min(depth, 8), 3), dtype=np.uint8)
            values = rng.integers(0, 1 << depth, (height, width, CHANNELS[color]))
            for interlaced in (0, 1):
                for transparent in (0, 1) if color in (GREY, RGB, PALETTE) else (0,):
                    yield (f"{color}-{depth:02}-{interlaced}-{transparent}.png",
                           png(values, color, depth, interlaced, transparent, colors), values)


def check_pngs(height, width, channels):
    """Pillow's pixels, but for grey of 16 bits: there convert() clips to 255, and the upper byte is wanted, as for other colours."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "class"))
        files = sorted(png_files(height, width))
        for name, data, _ in files:
            with open(os.path.join(folder, "class", name), "wb") as f:
                f.write(data)
        out = subprocess.run([os.path.join(TESTS, "data_dump"), f"images:{folder},channels={channels}"], capture_output=True)
        size, wrong = height * width * channels, []
        assert len(out.stdout) == len(files) * (size + 4), out.stderr.decode()
        for number, (name, _, values) in enumerate(files):
            mine = np.frombuffer(out.stdout, np.uint8, size, number * (size + 4)).reshape(height, width, channels)
            if name.startswith("0-16"):
                theirs = np.repeat(values >> 8, channels, 2)
            else:
                theirs = np.asarray(Image.open(os.path.join(folder, "class", name)).convert("RGB" if channels == 3 else "L"))
            if not np.array_equal(mine, theirs.reshape(mine.shape)):
                wrong.append(f"{name}: off by up to {np.abs(mine.astype(int) - theirs.reshape(mine.shape)).max()}")
        return wrong


def adobe(data, transform):
    """A JPEG whose Adobe part says this of its colours; None takes the part out."""
    at = data.find(b"\xff\xee\0\x0eAdobe")
    return data[:at] + data[at + 16:] if transform is None else data[:at + 15] + bytes([transform]) + data[at + 16:]


def check_four_colours(height, width):
    """Pillow takes all of them for inverted, as Adobe writes them, whatever the file says."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "class"))
        kinds = [(transform, options) for transform in (0, 2, None) for options in ({}, {"progressive": True})]
        paths = [os.path.join(folder, "class", f"{number}.jpg") for number in range(len(kinds))]
        for number, (transform, options) in enumerate(kinds):
            picture(height, width, number).convert("CMYK").save(paths[number], quality=85, **options)
            with open(paths[number], "rb") as f:
                data = adobe(f.read(), transform)
            with open(paths[number], "wb") as f:
                f.write(data)
        wrong = []
        for channels, mode in ((3, "RGB"), (1, "L")):
            out = subprocess.run([os.path.join(TESTS, "data_dump"), f"images:{folder},channels={channels}"], capture_output=True)
            size = height * width * channels
            for number, path in enumerate(paths):
                mine = np.frombuffer(out.stdout, np.uint8, size, number * (size + 4)).reshape(height, width, channels)
                theirs = np.asarray(Image.open(path).convert(mode)).reshape(mine.shape)
                if not np.array_equal(mine, theirs):
                    wrong.append(f"{kinds[number]}, {mode}: off by up to {np.abs(mine.astype(int) - theirs).max()}")
        return wrong


CHECKS = [(f"{h} x {w} pixels decode to {c} channel(s) as Pillow has them",
           lambda h=h, w=w, c=c: check_decode(h, w, c))
          for h, w in ((32, 32), (37, 53), (1, 1), (200, 75)) for c in (3, 1)]
CHECKS += [(f"{h} x {w} pixels resize to {n} as Pillow and torchvision have it",
            lambda h=h, w=w, n=n: check_resize(h, w, n))
           for h, w, n in ((64, 64, 32), (37, 53, 32), (97, 41, 24), (20, 30, 45), (300, 211, 7),
                           (33, 32, 32))]
CHECKS += [(f"{h} x {w} pixels are reduced to {n} as Pillow's draft() and a box have it",
            lambda h=h, w=w, n=n: check_resize(h, w, n, "yes"))
           for h, w, n in ((64, 64, 32), (64, 64, 33), (97, 41, 20), (300, 211, 52), (300, 211, 27), (301, 213, 26))]

FITS = [(48, 64, 28, ",resize=32", (42, 32)), (64, 48, 28, ",resize=32", (32, 42)), (48, 64, 28, ",crop=0.875", (42, 32)),
        (97, 41, 21, ",crop=0.9", (23, 54)), (37, 53, 32, ",resize=squash", (32, 32)), (37, 53, 20, ",resize=25x40", (40, 25)),
        (37, 53, 20, ",resize=no", (53, 37)), (20, 30, 45, ",resize=squash", (45, 45)), (41, 37, 37, ",resize=no", (37, 41))]
CHECKS += [(f"{h} x {w} pixels to {n} with {i} and {s[1:]} as Pillow and torchvision have it",
            lambda h=h, w=w, n=n, s=s, size=size, i=i: check_fit(h, w, n, s, size, i)) for h, w, n, s, size in FITS for i in FILTERS]

CHECKS += [(f"PNG files of {h} x {w} pixels, of all colours and depths, decode to {c} channel(s)", lambda h=h, w=w, c=c: check_pngs(h, w, c))
           for h, w in ((13, 17), (1, 1), (3, 2)) for c in (3, 1)]
CHECKS += [(f"progressive JPEGs of {h} x {w} pixels without their last scans, made {n}", lambda h=h, w=w, n=n: check_unfinished(h, w, n))
           for h, w, n in ((40, 100, 40), (90, 33, 20))]
CHECKS += [(f"JPEG files of four colours, {h} x {w} pixels", lambda h=h, w=w: check_four_colours(h, w)) for h, w in ((32, 40), (9, 5))]
CHECKS += [(f"{h} x {w} pixels are turned by their Exif part", lambda h=h, w=w: check_turned(h, w)) for h, w in ((30, 47), (24, 24))]
CHECKS += [("48 x 72 pixels are reduced and turned", lambda: check_turned(48, 72, "yes"))]

print(f"1..{len(CHECKS)}")
failed = False
for number, (name, check) in enumerate(CHECKS, 1):
    wrong = check()
    failed |= bool(wrong)
    print(f"{'not ok' if wrong else 'ok'} {number} - {name}")
    for line in wrong:
        print("#", line)
sys.exit(failed)
