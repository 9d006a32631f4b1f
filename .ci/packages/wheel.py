#!/usr/bin/env python3
"""wheel.py - make a wheel of pip: the files that `make install` installed, and the libraries that the program needs."""
import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile

# The C library is the system's; the wheel's tag names the oldest that will do.
OF_THE_SYSTEM = re.compile(r"(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv)\.so)")

# Versions of the C library that are not named by a number.
NAMED = {"GLIBC_ABI_DT_RELR": (2, 36)}

SUMMARY = "trains neural networks on several processes, reads and edits checkpoints; one program in C"

MAIN = '''"""Run the program gtrain that this package installed: python -m gtrain."""
import os
import sys
import sysconfig


def find_program():
    """The program beside this package (pip install --target), or among the scripts of this Python or of its user."""
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin")
    folders = [beside, sysconfig.get_path("scripts"), sysconfig.get_path("scripts", "posix_user")]
    for folder in folders:
        file = os.path.join(folder, "gtrain")
        if os.access(file, os.X_OK):
            return file
    sys.exit("gtrain: the program is in none of " + ", ".join(folders))


def main():
    """Become the program."""
    file = find_program()
    os.execv(file, [file] + sys.argv[1:])


if __name__ == "__main__":
    main()
'''


def fail(text):
    sys.exit("make wheel: " + text)


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout


def find_opened(name):
    """The file of a library that the program opens when it runs."""
    for line in run("/sbin/ldconfig", "-p").splitlines():
        if line.split()[:1] == [name]:
            return line.split(" => ")[1]
    return fail(f"there is no library {name}")


def find_libraries(program, opened):
    """{name: file} of the libraries that the program needs, and those that it opens with the ones that they need."""
    found = {name: find_opened(name) for name in opened}
    for file in [program] + list(found.values()):
        for line in run("ldd", file).splitlines():
            name, _, path = line.strip().partition(" => ")
            if "not found" in path:
                fail(f"'{file}' needs {name}, which is not installed")
            if path and not OF_THE_SYSTEM.match(name):
                found.setdefault(name, path.split(" (")[0])
    return {name: os.path.realpath(path) for name, path in found.items()}


def find_c_library(files):
    """The newest version of the C library that one of the files asks for."""
    newest = (2, 17)
    for file in files:
        for name in re.findall(r"\b(GLIBC_[A-Z0-9._]+)", run("objdump", "-p", file)):
            number = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", name)
            if not number and name not in NAMED and name != "GLIBC_PRIVATE":
                fail(f"'{file}' needs {name}, an unknown version of the C library")
            version = NAMED.get(name) or (number and (int(number.group(1)), int(number.group(2)))) or newest
            newest = max(newest, version)
    return newest


def list_licenses(libraries):
    """(name, text) of gtrain's license, and of those of the libraries' Debian packages."""
    with open("LICENSE", "rb") as f:
        yield "LICENSE", f.read()
    packages = set()
    for path in libraries.values():
        owner = subprocess.run(["dpkg", "-S", path, "*" + os.path.basename(path)], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, universal_newlines=True, check=False).stdout
        packages.update(line.split(":")[0] for line in owner.splitlines()[:1])
    for package in sorted(packages):
        with open(f"/usr/share/doc/{package}/copyright", "rb") as f:
            yield package, f.read()


def list_files(installed, data):
    """(name in the wheel, bytes, mode) of the installed files, without the library for programs in C."""
    for folder, _, files in os.walk(installed):
        for file in files:
            path = os.path.join(folder, file)
            name = os.path.relpath(path, installed)
            with open(path, "rb") as f:
                content = f.read()
            if name == "bin/gtrain":
                yield f"{data}/scripts/gtrain", content, 0o755
            elif name.startswith(("share/", "lib/gtrain/")) and not name.startswith("share/man/man3/"):
                yield f"{data}/data/{name}", content, 0o644


def write_wheel(path, files, info, when):
    """Write the files, and RECORD with their sums. pip wants the folder `info` last."""
    record = ""
    with zipfile.ZipFile(path + ".part", "w", zipfile.ZIP_DEFLATED) as z:
        def add(name, content, mode):
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            z.writestr(entry, content)

        for name, content, mode in sorted(files, key=lambda f: (f[0].startswith(info), f[0])):
            add(name, content, mode)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(content)}\n"
        add(f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode(), 0o644)
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description="VERSION and SOURCE_DATE_EPOCH are in the environment")
    parser.add_argument("--installed", required=True, help="the folder that stands for the prefix")
    parser.add_argument("--open", action="append", default=[], help="a library that the program opens")
    parser.add_argument("folder", help="of the wheel")
    o = parser.parse_args()
    version, epoch = os.environ["VERSION"], int(os.environ["SOURCE_DATE_EPOCH"])
    info, data = f"gtrain-{version}.dist-info", f"gtrain-{version}.data"
    program = os.path.join(o.installed, "bin/gtrain")

    libraries = find_libraries(program, o.open)
    major, minor = find_c_library([program] + list(libraries.values()))
    tag = f"py3-none-manylinux_{major}_{minor}_{os.uname().machine}"
    files = list(list_files(o.installed, data))
    for name, path in libraries.items():
        with open(path, "rb") as f:
            files.append((f"{data}/data/libexec/gtrain/{name}", f.read(), 0o644))
    licenses = list(list_licenses(libraries))
    files += [(f"{info}/licenses/{name}", text, 0o644) for name, text in licenses]
    files += [("gtrain/__init__.py", b'"""gtrain is a program: python -m gtrain --help."""\n', 0o644),
              ("gtrain/__main__.py", MAIN.encode(), 0o644)]
    with open("README.md", encoding="utf-8") as f:
        readme = f.read()
    files.append((f"{info}/METADATA", (
        f"Metadata-Version: 2.4\nName: gtrain\nVersion: {version}\nSummary: {SUMMARY}\nLicense-Expression: MIT\n"
        + "".join(f"License-File: {name}\n" for name, _ in licenses)
        + "Requires-Python: >=3.6\nDescription-Content-Type: text/markdown\n\n" + readme).encode(), 0o644))
    files.append((f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: gtrain\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644))

    path = os.path.join(o.folder, f"gtrain-{version}-{tag}.whl")
    write_wheel(path, files, info, time.gmtime(max(epoch, 315532800))[:6])  # a zip archive begins in 1980
    print(f"{path}: {len(libraries)} libraries, C library {major}.{minor} or later, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
