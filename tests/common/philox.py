"""philox.py - Philox4x32-10 (Salmon et al., SC 2011): the random numbers that gtrain draws, for tests that draw them again."""
import numpy as np


def philox(key, counters):
    """counters: uint64 [n, 4] of 32-bit words; returns uint64 [n, 4]."""
    mask = np.uint64(0xFFFFFFFF)
    c = [counters[:, i].astype(np.uint64) for i in range(4)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & mask,
             (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, 1)
