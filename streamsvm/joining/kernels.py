"""Compiled merge of a features log and a labels log: one pass over what is at hand of both, row after row.

The rule is that of `streamsvm.joining.joiner`. Rows and early labels stand in two rings, the oldest first; an index by
open addressing (linear probing, deletion by shifting back: Knuth, TAOCP 6.4, Algorithm R) finds them by key. Nothing
here allocates: where a ring, the index or an output is full the pass stops before the record that needs it, says what
is full, and goes on from there at the next call.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsvm.compiling import njit

EXHAUSTED: Final = 0
WAITS_FOR_FEATURES: Final = 1
WAITS_FOR_LABELS: Final = 2
OUTPUT_FULL: Final = 3
ROWS_FULL: Final = 4
EARLY_FULL: Final = 5
INDEX_FULL: Final = 6
"""Why a pass ended."""

FIRST_ROW: Final = 0
NEXT_ROW: Final = 1
FIRST_EARLY: Final = 2
NEXT_EARLY: Final = 3
MERGED_OFFSET: Final = 4
JOINED_SINCE: Final = 5
MERGED_EPOCH: Final = 6
LABELS_OFFSET: Final = 7
INDEXED: Final = 8
UNANSWERED: Final = 9
FEATURES_AT: Final = 10
LABELS_AT: Final = 11
STATE: Final = 12
"""Places of the state: numbers of the oldest and the next row, and early label; the newest features record merged (-1:
none), the points joined since, and its leader epoch; the offset after the newest labels record merged; entries of the
index; rows without a label; where in the chunks at hand the next row of each log stands."""

JOINED: Final = 0
ABSENT: Final = 1
JOINED_EARLY: Final = 2
DOUBLED_ROW: Final = 3
DOUBLED_LABEL: Final = 4
CHANGED_LABEL: Final = 5
UNMATCHED_LABEL: Final = 6
OUTCOMES: Final = 7
"""What became of a row or a label; `JOINED` counts those of `JOINED_EARLY`, too."""

DROP: Final = 0
NEGATIVE: Final = 1
DEAD_LETTER: Final = 2
"""What becomes of a row without a label."""


@njit(cache=True, nogil=True)
def find(index, row_key, early_key, key):  # type: ignore[no-untyped-def]
    """Return the slot of a key, or the empty slot where it belongs."""
    mask = np.uint64(len(index) - 1)
    slot = key & mask
    while index[slot] != 0:
        entry = index[slot]
        found = row_key[entry - 1] if entry > 0 else early_key[-entry - 1]
        if found == key:
            break
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(cache=True, nogil=True)
def remove(index, row_key, early_key, slot):  # type: ignore[no-untyped-def]
    """Empty a slot, and move back whatever would no longer be found."""
    mask = np.uint64(len(index) - 1)
    one = np.uint64(1)
    hole, at = slot, slot
    while True:
        at = (at + one) & mask
        entry = index[at]
        if entry == 0:
            break
        found = row_key[entry - 1] if entry > 0 else early_key[-entry - 1]
        home = found & mask
        # Movable where its home does not lie cyclically between the hole and its place.
        if ((at - home) & mask) >= ((at - hole) & mask):
            index[hole] = entry
            hole = at
    index[hole] = 0


@njit(cache=True, nogil=True)
def reindex(index, row_key, first_row, next_row, early_key, early_sign, first_early, next_early):  # type: ignore[no-untyped-def]
    """Fill an empty index with all rows, and with the early labels that no row took."""
    rows, early = np.int64(len(row_key)), np.int64(len(early_key))
    entries = 0
    for number in range(first_row, next_row):
        place = number % rows
        index[find(index, row_key, early_key, row_key[place])] = place + 1
        entries += 1
    for number in range(first_early, next_early):
        place = number % early
        if early_sign[place] != 0:
            index[find(index, row_key, early_key, early_key[place])] = -(place + 1)
            entries += 1
    return entries


@njit(cache=True, nogil=True)
def merge(  # type: ignore[no-untyped-def]
    state,
    horizon,
    early,
    absent,
    # features at hand: time is the running maximum
    f_offset,
    f_time,
    f_key,
    f_ok,
    f_X,
    f_weight,
    f_epoch,
    f_row,
    f_read,
    # labels at hand
    l_offset,
    l_row,
    l_time,
    l_key,
    l_sign,
    l_read,
    # rows within their horizon
    row_key,
    row_time,
    row_offset,
    row_row,
    row_sign,
    row_X,
    row_weight,
    # labels before their rows
    early_key,
    early_time,
    early_offset,
    early_row,
    early_sign,
    index,
    # outputs
    o_X,
    o_weight,
    o_sign,
    o_offset,
    o_row,
    o_time,
    o_epoch,
    o_labels,
    o_key,
    x_kind,
    x_offset,
    x_row,
    counts,
):
    """Merge as far as both logs are known; return why it ended, points put out, and letters put out.

    Parameters
    ----------
    state : ndarray of shape (STATE,), int64
        Changed in place, as are the rings, the index and `counts`.
    horizon, early : int
        Milliseconds.
    absent : int
        `DROP`, `NEGATIVE` or `DEAD_LETTER`.
    f_*, l_* : ndarray of shape (n,), (n, d) for `f_X`
        Chunks; `f_ok` is False, and `l_sign` is 0, where a row only tells the time.
    f_read, l_read : int
        The running maximum of time of all that was read of each log: what comes later is not before it.
    row_*, early_* : ndarray
        Rings. `row_sign` is 0 until the row is joined; `early_sign` is 0 once a row took it.
    index : ndarray of int32, its length a power of two
        0: empty; k + 1: place k among the rows; -(k + 1): among the early labels.
    o_*, x_* : ndarray
        What is joined, and what is to be told: kind, offset and row; of labels for labels' kinds.
    counts : ndarray of shape (OUTCOMES,), int64
    """
    n_features, n_labels = len(f_offset), len(l_offset)
    most, most_letters = len(o_sign), len(x_kind)
    most_rows, most_early = np.int64(len(row_key)), np.int64(len(early_key))
    features_at, labels_at = state[FEATURES_AT], state[LABELS_AT]
    out, letters = 0, 0
    why = EXHAUSTED
    while True:
        # The features first where times are equal.
        if features_at < n_features and labels_at < n_labels:
            takes_features = f_time[features_at] <= l_time[labels_at]
        elif features_at < n_features:
            if f_time[features_at] > l_read:
                why = WAITS_FOR_LABELS
                break
            takes_features = True
        elif labels_at < n_labels:
            if l_time[labels_at] >= f_read:
                why = WAITS_FOR_FEATURES
                break
            takes_features = False
        else:
            why = EXHAUSTED
            break
        now = f_time[features_at] if takes_features else l_time[labels_at]
        full = False
        while state[FIRST_ROW] < state[NEXT_ROW]:
            place = state[FIRST_ROW] % most_rows
            if row_time[place] + horizon >= now:
                break
            if row_sign[place] == 0:
                if out >= most or letters >= most_letters:
                    full = True
                    break
                counts[ABSENT] += 1
                state[UNANSWERED] -= 1
                if absent == NEGATIVE:
                    o_X[out] = row_X[place]
                    o_weight[out] = row_weight[place]
                    o_sign[out] = -1
                    o_offset[out] = state[MERGED_OFFSET]
                    o_row[out] = state[JOINED_SINCE]
                    o_time[out] = row_time[place]
                    o_epoch[out] = state[MERGED_EPOCH]
                    o_labels[out] = state[LABELS_OFFSET]
                    o_key[out] = np.int64(row_key[place])
                    state[JOINED_SINCE] += 1
                    out += 1
                elif absent == DEAD_LETTER:
                    x_kind[letters] = ABSENT
                    x_offset[letters] = row_offset[place]
                    x_row[letters] = row_row[place]
                    letters += 1
            remove(index, row_key, early_key, find(index, row_key, early_key, row_key[place]))
            state[INDEXED] -= 1
            state[FIRST_ROW] += 1
        while not full and state[FIRST_EARLY] < state[NEXT_EARLY]:
            place = state[FIRST_EARLY] % most_early
            if early_time[place] + early >= now:
                break
            if early_sign[place] != 0:
                if letters >= most_letters:
                    full = True
                    break
                counts[UNMATCHED_LABEL] += 1
                x_kind[letters] = UNMATCHED_LABEL
                x_offset[letters] = early_offset[place]
                x_row[letters] = early_row[place]
                letters += 1
                remove(index, row_key, early_key, find(index, row_key, early_key, early_key[place]))
                state[INDEXED] -= 1
            state[FIRST_EARLY] += 1
        # A point and a letter at most come of the record itself.
        if full or out >= most or letters >= most_letters:
            why = OUTPUT_FULL
            break
        if 10 * (state[INDEXED] + 1) > 7 * len(index):
            why = INDEX_FULL
            break
        if takes_features:
            at = features_at
            if f_ok[at]:
                if state[NEXT_ROW] - state[FIRST_ROW] >= most_rows:
                    why = ROWS_FULL
                    break
                slot = find(index, row_key, early_key, f_key[at])
                entry = index[slot]
            else:
                slot, entry = np.uint64(0), np.int32(1)
            if f_offset[at] != state[MERGED_OFFSET]:
                state[MERGED_OFFSET] = f_offset[at]
                state[MERGED_EPOCH] = f_epoch[at]
                state[JOINED_SINCE] = 0
            features_at += 1
            if not f_ok[at]:
                continue
            if entry > 0:
                counts[DOUBLED_ROW] += 1
                x_kind[letters] = DOUBLED_ROW
                x_offset[letters] = f_offset[at]
                x_row[letters] = f_row[at]
                letters += 1
                continue
            place = state[NEXT_ROW] % most_rows
            row_key[place] = f_key[at]
            row_time[place] = now
            row_offset[place] = f_offset[at]
            row_row[place] = f_row[at]
            row_X[place] = f_X[at]
            row_weight[place] = f_weight[at]
            sign = np.int8(0)
            if entry < 0:
                sign = early_sign[-entry - 1]
                early_sign[-entry - 1] = 0
                counts[JOINED_EARLY] += 1
            else:
                state[INDEXED] += 1
                state[UNANSWERED] += 1
            row_sign[place] = sign
            index[slot] = place + 1
            state[NEXT_ROW] += 1
            time = now
        else:
            at = labels_at
            slot = find(index, row_key, early_key, l_key[at])
            entry = index[slot]
            sign = l_sign[at]
            if sign != 0 and entry == 0 and state[NEXT_EARLY] - state[FIRST_EARLY] >= most_early:
                why = EARLY_FULL
                break
            labels_at += 1
            state[LABELS_OFFSET] = l_offset[at] + 1
            if sign == 0:
                continue
            if entry == 0:
                place = state[NEXT_EARLY] % most_early
                early_key[place] = l_key[at]
                early_time[place] = now
                early_offset[place] = l_offset[at]
                early_row[place] = l_row[at]
                early_sign[place] = sign
                index[slot] = -(place + 1)
                state[INDEXED] += 1
                state[NEXT_EARLY] += 1
                continue
            place = np.int64(entry - 1) if entry > 0 else np.int64(-entry - 1)
            found = row_sign[place] if entry > 0 else early_sign[place]
            if found == sign:
                counts[DOUBLED_LABEL] += 1
                continue
            if found != 0:
                counts[CHANGED_LABEL] += 1
                x_kind[letters] = CHANGED_LABEL
                x_offset[letters] = l_offset[at]
                x_row[letters] = l_row[at]
                letters += 1
                continue
            row_sign[place] = sign
            state[UNANSWERED] -= 1
            time = row_time[place]
        if sign != 0:
            counts[JOINED] += 1
            o_X[out] = row_X[place]
            o_weight[out] = row_weight[place]
            o_sign[out] = sign
            o_offset[out] = state[MERGED_OFFSET]
            o_row[out] = state[JOINED_SINCE]
            o_time[out] = time
            o_epoch[out] = state[MERGED_EPOCH]
            o_labels[out] = state[LABELS_OFFSET]
            o_key[out] = np.int64(row_key[place])
            state[JOINED_SINCE] += 1
            out += 1
    state[FEATURES_AT], state[LABELS_AT] = features_at, labels_at
    return why, out, letters
