#!/usr/bin/env python3
"""images.py - decoding and resizing of images against Pillow, byte for byte (TAP)."""
import os
import subprocess
import sys
import tempfile

TESTS = os.environ.get("GTRAIN_TESTS", "build/tests")

try:
    import numpy as np
    from PIL import Image
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


def check_resize(height, width, n):
    with tempfile.TemporaryDirectory() as folder:
        paths = write(folder, height, width)
        wrong = []
        for path, mine in zip(paths, dump(folder, f",size={n}", (n, n, 3))):
            theirs = resize(Image.open(path).convert("RGB"), n)
            difference = np.abs(mine.astype(int) - theirs.astype(int))
            if difference.max():
                wrong.append(f"{os.path.basename(path)}: off by up to {difference.max()}")
        return wrong


CHECKS = [(f"{h} x {w} pixels decode to {c} channel(s) as Pillow has them",
           lambda h=h, w=w, c=c: check_decode(h, w, c))
          for h, w in ((32, 32), (37, 53), (1, 1), (200, 75)) for c in (3, 1)]
CHECKS += [(f"{h} x {w} pixels resize to {n} as Pillow and torchvision have it",
            lambda h=h, w=w, n=n: check_resize(h, w, n))
           for h, w, n in ((64, 64, 32), (37, 53, 32), (97, 41, 24), (20, 30, 45), (300, 211, 7),
                           (33, 32, 32))]

print(f"1..{len(CHECKS)}")
failed = False
for number, (name, check) in enumerate(CHECKS, 1):
    wrong = check()
    failed |= bool(wrong)
    print(f"{'not ok' if wrong else 'ok'} {number} - {name}")
    for line in wrong:
        print("#", line)
sys.exit(failed)
