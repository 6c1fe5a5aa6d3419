"""Which partition a producer sends a key to: Kafka's murmur2, or librdkafka's CRC-32.

Java clients, and librdkafka with ``partitioner=murmur2_random``, take the 32 bits of MurmurHash2 under Kafka's seed,
without the sign bit, modulo the number of partitions. librdkafka's own default, ``consistent_random``, takes the CRC-32
of the key. A key that is missing goes to any partition, so nothing can say where such a record lies.
"""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

Partitioner = Literal["murmur2", "crc32"]

SEED: Final = 0x9747B28C
"""Of `org.apache.kafka.common.utils.Utils.murmur2`."""


def partitions_of(
    text: NDArray[np.uint8], borders: NDArray[np.int64], partitions: int, partitioner: Partitioner = "murmur2"
) -> NDArray[np.int64]:
    """Return the partition of each of n keys.

    Parameters
    ----------
    text : ndarray of shape (b,), uint8
        The bytes of the keys, one after the other.
    borders : ndarray of shape (n + 1,), int64
        Where each key begins and ends in it.
    partitions : int
        Of the topic.
    partitioner : "murmur2" or "crc32"
    """
    if partitioner == "crc32":
        whole = text.tobytes()
        ends = borders.tolist()
        hashes = [zlib.crc32(whole[start:end]) for start, end in pairwise(ends)]
        return np.array(hashes, np.int64) % partitions
    found = np.empty(len(borders) - 1, np.int64)
    _murmur2(text, borders, np.uint32(SEED), found)
    return found % partitions


@njit(cache=True, nogil=True)
def _murmur2(text: NDArray[np.uint8], borders: NDArray[np.int64], seed: np.uint32, found: NDArray[np.int64]) -> None:
    """Write the hash of each key, without the sign bit, into `found`; all sums are modulo 2^32."""
    mask, m = np.uint64(0xFFFFFFFF), np.uint64(0x5BD1E995)
    for index in range(len(found)):
        start, end = borders[index], borders[index + 1]
        length = end - start
        h = (np.uint64(seed) ^ np.uint64(length)) & mask
        at = start
        while at + 4 <= end:
            k = (
                np.uint64(text[at])
                | np.uint64(text[at + 1]) << np.uint64(8)
                | np.uint64(text[at + 2]) << np.uint64(16)
                | np.uint64(text[at + 3]) << np.uint64(24)
            )
            k = (k * m) & mask
            k ^= k >> np.uint64(24)
            k = (k * m) & mask
            h = ((h * m) & mask) ^ k
            at += 4
        rest = end - at
        if rest >= 3:
            h ^= np.uint64(text[at + 2]) << np.uint64(16)
        if rest >= 2:
            h ^= np.uint64(text[at + 1]) << np.uint64(8)
        if rest >= 1:
            h ^= np.uint64(text[at])
            h = (h * m) & mask
        h ^= h >> np.uint64(13)
        h = (h * m) & mask
        h ^= h >> np.uint64(15)
        found[index] = np.int64(h & np.uint64(0x7FFFFFFF))
