#!/usr/bin/python3
"""
sign.py - signatures of models by ckpt sign and ckpt verify, beside the package model_signing (TAP).

Signatures that the package made once, by keys of this file, are checked everywhere. MODEL_SIGNING_PYTHON names a python that has the
package: then it signs new models, in every form, and checks gtrain's signatures.
"""
import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
PACKAGE = os.environ.get("MODEL_SIGNING_PYTHON")
FILES = {"config.json": b"{}\n", "model.bin": bytes(range(256)), "sub/vocab.txt": b"a\nb\n", "sub.x": b"c\n"}

# Keys for these tests alone: (private, public), as openssl writes them.
KEYS = {
    "P-256": ("EC ", """MHcCAQEEIOExPnYRHhCouvvpSlV+pcpsq7WY+G+W6pXBliSPXHwMoAoGCCqGSM49AwEHoUQDQgAEM3Gem3H20advlG59TT35Mhh6OJIsc5BVVUFUAqcVyUxX
        7EqMmkwimlQwxkYHUInYhm4iMGnL+nFnaCVtxaqC0A==""", """MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEM3Gem3H20advlG59TT35Mhh6OJIsc5BVVUFUAqcVyUxX7EqM
        mkwimlQwxkYHUInYhm4iMGnL+nFnaCVtxaqC0A=="""),
    "P-384": ("", """MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDA5PODtxwDcO7BUF2QCETfBklmNYbF46oSoF/ThDwVfnhHVTuJ4m3aw+sVBs3S0j6ahZANiAAS9
        nhOxV6BpGHgeVovkKGxfjbinbxXfSlFhoBhVrZAvetAhpPC8jfo16QWc180Fqxe7Ki7y2X/JvyatJ1ykr5DKA28cy4MUr7c1cO007Bupmq/9UN44v0EV74vFc0txFGw=""",
              """MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEvZ4TsVegaRh4HlaL5ChsX424p28V30pRYaAYVa2QL3rQIaTwvI36NekFnNfNBasXuyou8tl/yb8mrSdcpK+Qyg
        NvHMuDFK+3NXDtNOwbqZqv/VDeOL9BFe+LxXNLcRRs"""),
    "P-521": ("", """MIHuAgEAMBAGByqGSM49AgEGBSuBBAAjBIHWMIHTAgEBBEIA/xa7q/dRRCyZ4K5K1lSi2l91ZsWkBWpEZPVFg2yAXEsu/FWPfSOdLTE6yQQauE8nQb451OHY
        2TCDWD35V8bMzGehgYkDgYYABAGVeusz/Ny2F+whUiVQ22o+DInTaHdDq0oUaqezckxdEMObBelSU/a78uU4wF7Hm8CLHCMhW8z3hA4m1j1mK1HCNgDUX1x26759Ssk
        rUzRoKqZSBF02Ox6Bw8TFataOmkOexx+DfoWjG6QE1GiVJOrlbzh/2RhpDxg9qwG2IXBzpQxpuQ==""",
              """MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQBlXrrM/zcthfsIVIlUNtqPgyJ02h3Q6tKFGqns3JMXRDDmwXpUlP2u/LlOMBex5vAixwjIVvM94QOJtY9Zi
        tRwjYA1F9cduu+fUrJK1M0aCqmUgRdNjsegcPExWrWjppDnscfg36FoxukBNRolSTq5W84f9kYaQ8YPasBtiFwc6UMabk="""),
}

# Signatures of FILES that model_signing 1.1.1 has made with these keys; the third value is the size of the parts of files.
KNOWN = {
    "P-256": ("P-256", "MEQCIFHFHPygn18lO4Nvd5fMfG9WZ/Bwgvqr4d+sKxzGBlNMAiB6TwRgb5uIE5VqygF+2jtF+bI6CsChsNBJijg+C+Pxzg==", 0),
    "P-384": ("P-384", "MGUCMG6aAbcf2njNx0e/WxWJae3g7DwmRFKB2tSklriP51hAzCNUVgU6raK3ISJf3jkFxQIxANf8hPHhJJW6GIe+Le7fLkvSwcdQQgkM1WaAn//2OmbBu6V6s3jP"
                       "A+arIrozeLwpCw==", 0),
    "P-521": ("P-521", "MIGIAkIBtk9Vw/ExhpfwmURdRTEc4TaJda6KNBeHN5gEQCE/KTAg83slG3FFxSq5DTOSPa3NznHbL5tK01jrT8KMEBmT+VQCQgG8uZIecPkU1k504dhmq+uRBl+O"
                       "aP5GDzuMZRy8OP25cP5M/sCYct1zW81BlYh12uI2ix+bm3IZz1q0sGy307n8gA==", 0),
    "parts of files": ("P-256", "MEUCICyLEMH7OJpEBO3VMIoEsJRyjP+mMvwSQKqQnMiy9F/sAiEAjr2FRVPQlpaVKmasdKHr/x5g3wNpe/k13bekQ3YYDmk=", 100),
}


def pem(label, text):
    text = "".join(text.split())
    return "\n".join([f"-----BEGIN {label}-----", *(text[i:i + 64] for i in range(0, len(text), 64)), f"-----END {label}-----", ""])


def make(folder, files=FILES, name="model"):
    """The model and all keys in a folder."""
    for file, data in files.items():
        path = f"{folder}/{name}/{file}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)
    for curve, (kind, private, public) in KEYS.items():
        put(f"{folder}/{curve}.pem", pem(f"{kind}PRIVATE KEY", private))
        put(f"{folder}/{curve}.pub", pem("PUBLIC KEY", public))


def put(path, text):
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())


def gtrain(folder, *args):
    done = subprocess.run([GTRAIN, "ckpt", *args], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1, 2), f"{args}: status {done.returncode}: {done.stderr}"
    return done


def sign(folder, *more, model="model", curve="P-256"):
    done = gtrain(folder, "sign", model, "--key", f"{curve}.pem", *more)
    assert not done.returncode, done.stderr


def check(folder, status, words, model="model", signature="model.sig", key="P-256.pub"):
    done = gtrain(folder, "verify", model, "--signature", signature, "--key", key)
    text = done.stdout + done.stderr
    assert done.returncode == status and words in text, f"status {done.returncode}, no {words!r} in:\n{text}"


def statement(part):
    """The text that the package signs, byte by byte."""
    resources, digests = [], b""
    algorithm = f"sha256-sharded-{part}" if part else "sha256"
    for name, data in FILES.items():
        for at in range(0, len(data), part or len(data)):
            end = min(at + part, len(data)) if part else len(data)
            digest = hashlib.sha256(data[at:end])
            digests += digest.digest()
            resources.append({"digest": digest.hexdigest(), "name": f"{name}:{at}:{end}" if part else name, "algorithm": algorithm})
    ignored = [".gitignore", ".git", ".github", ".gitattributes", "model/model.sig"]
    how = {"hash_type": "sha256", "allow_symlinks": False}
    how |= {"shard_size": float(part), "method": "shards", "ignore_paths": ignored} if part else {"ignore_paths": ignored, "method": "files"}
    subject = {"name": "model", "digest": {"sha256": hashlib.sha256(digests).hexdigest()}}
    return json.dumps({"_type": "https://in-toto.io/Statement/v1", "subject": [subject], "predicateType": "https://model_signing/signature/v1.0",
                       "predicate": {"resources": resources, "serialization": how}}, indent=2)


def bundle(text, sig, curve):
    hint = hashlib.sha256(pem("PUBLIC KEY", KEYS[curve][2]).encode()).hexdigest()
    return {"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"publicKey": {"hint": hint}, "tlogEntries": []},
            "dsseEnvelope": {"payload": base64.b64encode(text.encode()).decode(), "payloadType": "application/vnd.in-toto+json",
                             "signatures": [{"sig": sig, "keyid": ""}]}}


@tap.cases(KNOWN)
def known_signatures(folder, name):
    make(folder)
    curve, sig, part = KNOWN[name]
    text = statement(part)
    put(f"{folder}/model.sig", json.dumps(bundle(text, sig, curve)))
    check(folder, 0, "all files are as they were signed", key=f"{curve}.pub")
    put(f"{folder}/key.der", base64.b64decode(KEYS[curve][2]))
    check(folder, 0, "all files are as they were signed", key="key.der")
    old = bundle(text, sig, curve)
    del old["verificationMaterial"]["publicKey"]["hint"]
    put(f"{folder}/model.sig", json.dumps(old))
    check(folder, 0, "all files are as they were signed", key=f"{curve}.pub")
    check(folder, 1, "another key has, or the signature was changed", key="P-384.pub" if curve == "P-256" else "P-256.pub")
    done = gtrain(folder, "verify", "model", "--key", f"{curve}.pub")
    assert done.returncode == 2 and "--signature" in done.stderr, done.stderr
    put(f"{folder}/model/model.bin", bytes(255) + b"x")
    check(folder, 1, "changed: 'model.bin", key=f"{curve}.pub")


def flip(folder):
    with open(f"{folder}/model/model.bin", "r+b") as f:
        f.seek(200)
        f.write(b"\x01")


def swap(folder):
    os.rename(f"{folder}/model/config.json", f"{folder}/t")
    os.rename(f"{folder}/model/sub.x", f"{folder}/model/config.json")
    os.rename(f"{folder}/t", f"{folder}/model/sub.x")


# What happens to a model after it was signed, and the lines about it.
CHANGES = {
    "nothing": (lambda f: None, ["all files are as they were signed"]),
    "a flipped byte": (flip, ["changed: 'model.bin' has other bytes"]),
    "a file moved": (lambda f: os.rename(f"{f}/model/sub/vocab.txt", f"{f}/model/words"), ["moved: 'sub/vocab.txt' was signed, and is now 'words'"]),
    "a file added": (lambda f: put(f"{f}/model/evil.py", "x"), ["added: 'evil.py'"]),
    "a file removed": (lambda f: os.remove(f"{f}/model/sub.x"), ["missing: 'sub.x'"]),
    "two files swapped": (swap, ["changed: 'config.json'", "changed: 'sub.x'"]),
    "a copy of a file": (lambda f: shutil.copy(f"{f}/model/sub.x", f"{f}/model/a"), ["added: 'a'"]),
    "git's files": (lambda f: (os.mkdir(f"{f}/model/.git"), put(f"{f}/model/.git/x", "x"), put(f"{f}/model/.gitignore", "")), ["all other files are as they were signed", "not signed: '.git' is there, and the signature leaves it out",
                     "not signed: '.gitignore'"]),
    "a folder in place of the signature": (lambda f: (os.rename(f"{f}/model/model.sig", f"{f}/s"), os.mkdir(f"{f}/model/model.sig"), put(f"{f}/model/model.sig/x", "x")),
                                           ["all other files are as they were signed", "not signed: 'model.sig'"]),
    "a file like git's": (lambda f: put(f"{f}/model/.gitx", "x"), ["added: '.gitx'"]),
    "a link in place of a file": (lambda f: (os.rename(f"{f}/model/sub.x", f"{f}/x"), os.symlink("../x", f"{f}/model/sub.x")), ["'model/sub.x' is a symbolic link"]),
    "the folder renamed": (lambda f: (os.rename(f"{f}/model", f"{f}/m"), os.symlink("m", f"{f}/model")), ["all files are as they were signed"]),
}


@tap.cases(CHANGES)
def changes(folder, name):
    make(folder)
    sign(folder, "-o", "model/model.sig")
    change, lines = CHANGES[name]
    change(folder)
    good = lines[0].startswith("all ")
    signature = "model/model.sig" if os.path.isfile(f"{folder}/model/model.sig") else "s"
    check(folder, 0 if good else 1, lines[-1], signature=signature)
    done = gtrain(folder, "verify", "model", "--signature", signature, "--key", "P-256.pub")
    assert all(line in done.stdout + done.stderr for line in lines) and (good or len(done.stdout.splitlines()) in (0, 1 + len(lines))), done.stdout
    if done.stdout:
        document = json.loads(gtrain(folder, "verify", "model", "--signature", signature, "--key", "P-256.pub", "--json").stdout)
        assert document["ok"] == good and len(document["differences"]) == (0 if good else len(lines)), document
        assert len(document["left_out"]) == sum(line.startswith("not signed") for line in lines), document


def der(tag, *parts):
    body = b"".join(parts)
    return bytes([tag, len(body)]) + body


def spki(oid):
    return base64.b64encode(der(0x30, der(0x30, der(6, bytes.fromhex(oid))), der(3, b"\0abc"))).decode()


def edited(folder, change):
    with open(f"{folder}/model.sig", encoding="utf-8") as f:
        b = json.load(f)
    change(b)
    put(f"{folder}/model.sig", json.dumps(b))


def set_material(**material):
    return lambda b: b.update(verificationMaterial=material)


def set_payload(b):
    text = base64.b64decode(b["dsseEnvelope"]["payload"]).replace(b"sub.x", b"sub.y")
    b["dsseEnvelope"]["payload"] = base64.b64encode(text).decode()


def set_in(*path):
    def change(b):
        for key in path[:-2]:
            b = b[key]
        b[path[-2]] = path[-1]
    return change


# A signature that was edited, and the words of the error.
BUNDLES = {
    "a list of files that was changed": (set_payload, "the key has not signed this: the signature was changed"),
    "numbers that are too large": (set_in("dsseEnvelope", "signatures", 0, "sig", base64.b64encode(der(0x30, der(2, b"\x7f" * 60), der(2, b"\1"))).decode()),
                                   "the signature was changed"),
    "zeros": (set_in("dsseEnvelope", "signatures", 0, "sig", base64.b64encode(der(0x30, der(2, b"\0"), der(2, b"\0"))).decode()), "the signature was changed"),
    "no DER": (set_in("dsseEnvelope", "signatures", 0, "sig", "AAAA"), "the signature was changed"),
    "no base64": (set_in("dsseEnvelope", "payload", "*"), "damaged base64"),
    "another key's": (set_in("verificationMaterial", "publicKey", "hint", "ab" * 32), "signed by another key: by abababababab..., but --key is e8f5ae9d842f..."),
    "a keyless one": (set_material(certificate={"rawBytes": ""}, tlogEntries=[{}]), "keyless, by a certificate of Sigstore in a transparency log"),
    "a chain of certificates": (set_material(x509CertificateChain={"certificates": []}), "by a chain of certificates"),
    "another version": (set_in("mediaType", "application/vnd.dev.sigstore.bundle+json;version=0.1"), "version=0.1' is not supported"),
    "another payload": (set_in("dsseEnvelope", "payloadType", "text/plain"), "'text/plain' is not supported"),
    "two signatures": (set_in("dsseEnvelope", "signatures", [{"sig": ""}, {"sig": ""}]), "no envelope with one signature"),
    "no bundle": (lambda b: b.clear(), "is not a signature"),
}


@tap.cases(BUNDLES)
def bundles(folder, name):
    make(folder)
    sign(folder)
    change, words = BUNDLES[name]
    edited(folder, change)
    check(folder, 1, words)


# P-256: the prime, the order, and the base point; the secret number of KEYS.
PRIME = 2**256 - 2**224 + 2**192 + 2**96 - 1
ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551
BASE = (0x6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296, 0x4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5)
SECRET = int.from_bytes(base64.b64decode(KEYS["P-256"][1])[7:39], "big")


def add_points(p, q):
    if p is None or q is None:
        return p or q
    slope = (3 * p[0] * p[0] - 3) * pow(2 * p[1], -1, PRIME) if p == q else (q[1] - p[1]) * pow(q[0] - p[0], -1, PRIME)
    x = (slope * slope - p[0] - q[0]) % PRIME
    return x, (slope * (p[0] - x) - p[1]) % PRIME


def sign_text(text, kind=b"application/vnd.in-toto+json"):
    """A signature of P-256 by the textbook, for statements that gtrain does not write; its secret factor is fixed."""
    digest = hashlib.sha256(b"DSSEv1 %d %s %d " % (len(kind), kind, len(text.encode())) + text.encode()).digest()
    factor, point, power = int.from_bytes(hashlib.sha256(digest).digest(), "big") % ORDER, None, BASE
    for bit in reversed(f"{factor:b}"):
        point = add_points(point, power) if bit == "1" else point
        power = add_points(power, power)
    r = point[0] % ORDER
    s = pow(factor, -1, ORDER) * (int.from_bytes(digest, "big") + r * SECRET) % ORDER
    return base64.b64encode(der(0x30, *(der(2, n.to_bytes(33, "big").lstrip(b"\0").rjust(32 + (n >> 255), b"\0")) for n in (r, s)))).decode()


def twice(d):
    resources = d["predicate"]["resources"]
    resources.append(resources[0])
    d["subject"][0]["digest"]["sha256"] = hashlib.sha256(b"".join(bytes.fromhex(r["digest"]) for r in resources)).hexdigest()


# A statement that was changed before it was signed, and the words of the error; "" if it is right.
STATEMENTS = {
    "unchanged": (lambda d: None, ""),
    "more members": (lambda d: d["predicate"].update(license="MIT"), ""),
    "another digest of the model": (set_in("subject", 0, "digest", "sha256", "ab" * 32), "the digest of the model is not that of the digests"),
    "a file twice": (twice, "names 'config.json' twice"),
    "no files": (set_in("predicate", "resources", []), "no valid 'resources'"),
    "a digest that is cut": (set_in("predicate", "resources", 0, "digest", "ab"), "no valid 'digest'"),
    "BLAKE2": (set_in("predicate", "serialization", "hash_type", "blake2b"), "the digest 'blake2b' is not supported"),
    "another method": (set_in("predicate", "serialization", "method", "tensors"), "the method 'tensors' is not supported"),
    "a path outside": (set_in("predicate", "serialization", "ignore_paths", ["../x"]), "'../x' is not a path relative to the model"),
    "two models": (lambda d: d["subject"].append({}), "no valid 'subject'"),
    "version 0.2": (set_in("predicateType", "https://model_signing/Digests/v0.1"), "the format of model-signing v0.2"),
    "another predicate": (set_in("predicateType", "https://slsa.dev/provenance/v1"), "'https://slsa.dev/provenance/v1' is not supported"),
    "another statement": (set_in("_type", "https://in-toto.io/Statement/v0.1"), "Statement/v0.1' is not supported"),
    "no JSON": (None, "the signed statement is no JSON"),
}


@tap.cases(STATEMENTS)
def statements(folder, name):
    make(folder)
    change, words = STATEMENTS[name]
    document = json.loads(statement(0))
    if change:
        change(document)
    text = json.dumps(document) if change else "{"
    put(f"{folder}/model.sig", json.dumps(bundle(text, sign_text(text), "P-256")))
    check(folder, 1 if words else 0, words or "all files are as they were signed")


# A key file in place of a private and of a public key, and the words of both errors; None: the other table has it.
WRONG_KEYS = {
    "empty": ("", "there is no private key in PEM", "there is no public key in PEM"),
    "private": (None, None, "this is a private key, and the public one checks signatures"),
    "encrypted": (pem("ENCRYPTED PRIVATE KEY", "AAAA"), "this is an encrypted key", "this is an encrypted key"),
    "encrypted, older": ("-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END EC PRIVATE KEY-----\n",
                         "this is an encrypted key", "this is an encrypted key"),
    "a certificate": (pem("CERTIFICATE", "AAAA"), "this is a certificate", "openssl x509 -in FILE -pubkey"),
    "RSA": (pem("PUBLIC KEY", spki("2a864886f70d010101")), "this is a public key", "the key is of RSA, not of the curve"),
    "Ed25519": (pem("PUBLIC KEY", spki("2b6570")), "this is a public key", "the key is of Ed25519"),
    "another curve": (pem("PUBLIC KEY", base64.b64encode(der(0x30, der(0x30, der(6, bytes.fromhex("2a8648ce3d0201")), der(6, bytes.fromhex("2b8104000a"))), der(3, b"\0"))).decode()),
                      "this is a public key", "the key is of another curve"),
    "damaged": (pem("PUBLIC KEY", KEYS["P-256"][2].replace("EM3Ge", "EM3Gf")), "this is a public key", "the key is damaged"),
    "cut": (pem("EC PRIVATE KEY", KEYS["P-256"][1][:40]), "the key is damaged", "this is a private key"),
}


@tap.cases(WRONG_KEYS)
def wrong_keys(folder, name):
    make(folder)
    sign(folder)
    text, private, public = WRONG_KEYS[name]
    put(f"{folder}/key", pem("EC PRIVATE KEY", KEYS["P-256"][1]) if text is None else text)
    check(folder, 2 if "this is a private" in public else 1, public, key="key")
    if private:
        done = gtrain(folder, "sign", "model", "--key", "key", "-o", "new.sig")
        assert done.returncode and private in done.stderr and not os.path.exists(f"{folder}/new.sig"), done.stderr


@tap.cases(["links", "ignored paths", "one file", "outputs", "names", "no file"])
def models(folder, name):
    make(folder)
    if name == "links":
        put(f"{folder}/blob", "x")
        os.symlink("../blob", f"{folder}/model/linked")
        os.symlink("sub", f"{folder}/model/linked-folder")
        done = gtrain(folder, "sign", "model", "--key", "P-256.pem")
        assert done.returncode == 1 and "is a symbolic link" in done.stderr and "--symlinks" in done.stderr, done.stderr
        sign(folder, "--symlinks")
        check(folder, 0, "5 files")
        check(folder, 0, "not signed: 'linked-folder' is there")
        put(f"{folder}/blob", "y")
        check(folder, 1, "changed: 'linked'")
    elif name == "ignored paths":
        sign(folder, "--ignore", "./sub/", "--ignore", "sub.x")
        put(f"{folder}/model/sub/vocab.txt", "changed")
        os.remove(f"{folder}/model/sub.x")
        check(folder, 0, "2 files")
        for path in ("..", "/etc", "."):
            assert gtrain(folder, "sign", "model", "--key", "P-256.pem", "--ignore", path).returncode == 2, path
    elif name == "one file":
        sign(folder, model="model/model.bin")
        check(folder, 0, "1 file, 256 B", model="model/model.bin")
        shutil.copy(f"{folder}/model/model.bin", f"{folder}/renamed")
        check(folder, 0, "1 file, 256 B", model="renamed")
        flip(folder)
        check(folder, 1, "changed: '.'", model="model/model.bin")
    elif name == "outputs":
        for path in ("model/model.bin", "P-256.pem", "model"):
            done = gtrain(folder, "sign", "model", "--key", "P-256.pem", "-o", path)
            assert done.returncode and "hint" in done.stderr or path == "model", (path, done.stderr)
        assert open(f"{folder}/model/model.bin", "rb").read() == FILES["model.bin"]
        for _ in range(2):  # a signature is replaced
            sign(folder, "-o", "model/sub/new.sig")
        check(folder, 0, "all files", signature="model/sub/new.sig")
    elif name == "names":
        make(folder, {"ä b/'\n\"x\\": b"1", "a/b": b"2", "a.txt": b"3", "a0": b"4", "e": b""}, "odd")
        sign(folder, model="odd/.")
        check(folder, 0, "5 files, 4 B", model="odd/")
        text = base64.b64decode(json.load(open(f"{folder}/model.sig"))["dsseEnvelope"]["payload"])
        listed = [r["name"] for r in json.loads(text)["predicate"]["resources"]]
        assert listed == ["a/b", "a.txt", "a0", "e", "ä b/'\n\"x\\"] and json.loads(text)["subject"][0]["name"] == "odd", listed
        put(os.fsencode(folder) + b"/odd/\xff", "x")
        assert "is not UTF-8" in gtrain(folder, "sign", "odd", "--key", "P-256.pem").stderr
    else:
        os.makedirs(f"{folder}/empty/.git")
        assert "there is no file in 'empty'" in gtrain(folder, "sign", "empty", "--key", "P-256.pem").stderr
        os.mkfifo(f"{folder}/model/pipe")
        assert "'model/pipe' is neither a file nor a folder" in gtrain(folder, "sign", "model", "--key", "P-256.pem").stderr


# What the package does in a process of its own: tasks in, the text of an error for each, or "", out.
BY_PACKAGE = """
import json, pathlib, sys
from model_signing import hashing, signing, verifying
for task in json.load(sys.stdin):
    try:
        how = hashing.Config().set_allow_symlinks(task["links"])
        if task["do"] == "verify":
            verifying.Config().use_elliptic_key_verifier(public_key=task["key"]).set_hashing_config(how).verify(pathlib.Path(task["model"]), pathlib.Path(task["signature"]))
        else:
            if task["part"]:
                how.use_shard_serialization(shard_size=task["part"])
            how.set_ignored_paths(paths=[pathlib.Path(task["model"]) / p for p in task["ignore"]], ignore_git_paths=task["git"])
            signing.Config().use_elliptic_key_signer(private_key=task["key"]).set_hashing_config(how).sign(pathlib.Path(task["model"]), pathlib.Path(task["signature"]))
        print(json.dumps(""))
    except Exception as error:
        print(json.dumps(repr(error)))
"""


def by_package(folder, tasks):
    done = subprocess.run([PACKAGE, "-c", BY_PACKAGE], cwd=folder, input=json.dumps(tasks), capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('"')]


def beside_package(folder):
    if not PACKAGE:
        yield "beside model_signing", tap.Skip("no such package; MODEL_SIGNING_PYTHON names a python that has it")
        return
    make(folder, FILES | {"a b/ä": b"x", "sub/deep/e": b"", ".gitignore": b"y", "logs/1": b"1"})
    put(f"{folder}/blob", "x")
    os.symlink("../../blob", f"{folder}/model/sub/linked")
    forms = [("model", curve, True, ignore, git, 0) for curve in KEYS for ignore in ([], ["logs", "sub.x"]) for git in (True, False)]
    forms += [("model/model.bin", "P-256", False, [], True, 0), ("model", "P-256", True, ["logs"], True, 3)]
    tasks = [{"do": "sign", "model": m, "key": f"{c}.pem", "signature": f"{i}.sig", "links": links, "ignore": ignore, "git": git, "part": part}
             for i, (m, c, links, ignore, git, part) in enumerate(forms)]
    yield "model_signing signs", "\n".join(filter(None, by_package(folder, tasks)))
    for i, (model, curve, *form) in enumerate(forms):
        done = gtrain(folder, "verify", model, "--signature", f"{i}.sig", "--key", f"{curve}.pub")
        yield f"gtrain checks model_signing's: {model} {curve} {form}", "" if not done.returncode else done.stdout + done.stderr
    tasks = []
    for i, (model, curve, links, ignore, *_) in enumerate(forms):
        sign(folder, "-o", f"g{i}.sig", *(["--symlinks"] if links else []), *(a for p in ignore for a in ("--ignore", p)), model=model, curve=curve)
        tasks.append({"do": "verify", "model": model, "key": f"{curve}.pub", "signature": f"g{i}.sig", "links": links})
    for task, problem in zip(tasks, by_package(folder, tasks)):
        yield f"model_signing checks gtrain's: {task['signature']}", problem
    put(f"{folder}/model/config.json", "[]")
    os.rename(f"{folder}/model/sub/vocab.txt", f"{folder}/model/sub/words")
    found = by_package(folder, tasks[:1])[0]
    yield "model_signing finds the same changes", "" if all(w in found for w in ("config.json", "sub/vocab.txt", "sub/words")) else found


if __name__ == "__main__":
    sys.exit(tap.run(tap.parts + [beside_package], GTRAIN, sys.argv[1:]))
