"""Sets of whole numbers, kept as closed intervals: "1-3,7" holds 1, 2, 3 and 7."""

Interval = tuple[int, int]
Intervals = list[Interval]


def parse(text: str) -> Intervals:
    """Read intervals from text such as ``1-3, 7``; order and overlaps do not matter.

    Raises:
        ValueError: A part is no number and no pair of numbers, or it runs backwards.
    """
    found = []
    for part in text.split(","):
        part = part.strip()
        if not part:
            continue
        first, dash, last = part.partition("-")
        low = int(first)
        high = int(last) if dash else low
        if high < low:
            raise ValueError(f"{part} runs backwards")
        found.append((low, high))
    return normalize(found)


def to_text(intervals: Intervals) -> str:
    """Write intervals as `parse` reads them."""
    parts = []
    for low, high in normalize(intervals):
        parts.append(str(low) if low == high else f"{low}-{high}")
    return ",".join(parts)


def normalize(intervals: Intervals) -> Intervals:
    """Sort intervals and join those that touch or overlap."""
    joined: Intervals = []
    for low, high in sorted(intervals):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def size(intervals: Intervals) -> int:
    """How many numbers there are."""
    return sum(high - low + 1 for low, high in normalize(intervals))


def contains(intervals: Intervals, number: int) -> bool:
    """Whether a number is among them."""
    return any(low <= number <= high for low, high in intervals)


def union(left: Intervals, right: Intervals) -> Intervals:
    """Numbers that are in either."""
    return normalize([*left, *right])


def intersection(left: Intervals, right: Intervals) -> Intervals:
    """Numbers that are in both."""
    left, right = normalize(left), normalize(right)
    found, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        low = max(left[i][0], right[j][0])
        high = min(left[i][1], right[j][1])
        if low <= high:
            found.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return found


def difference(left: Intervals, right: Intervals) -> Intervals:
    """Numbers that are in the first and not in the second."""
    rest = normalize(left)
    for low, high in normalize(right):
        pieces = []
        for start, end in rest:
            if end < low or start > high:
                pieces.append((start, end))
                continue
            if start < low:
                pieces.append((start, low - 1))
            if end > high:
                pieces.append((high + 1, end))
        rest = pieces
    return rest


def gaps(intervals: Intervals) -> Intervals:
    """The intervals between the smallest and the largest number that are not among them."""
    whole = normalize(intervals)
    return [(left[1] + 1, right[0] - 1) for left, right in zip(whole, whole[1:])]


def shift(intervals: Intervals, distance: int) -> Intervals:
    """All numbers, moved by a distance."""
    return [(low + distance, high + distance) for low, high in normalize(intervals)]


def nearest(intervals: Intervals, number: int) -> int:
    """The number among them that is nearest; of two the smaller.

    Raises:
        ValueError: There is none.
    """
    if not intervals:
        raise ValueError("no intervals")
    best = None
    for low, high in normalize(intervals):
        candidate = min(max(number, low), high)
        if best is None or abs(candidate - number) < abs(best - number):
            best = candidate
    assert best is not None
    return best


def chunks(intervals: Intervals, most: int) -> list[Intervals]:
    """Split into pieces of at most so many numbers, each as full as can be."""
    if most < 1:
        raise ValueError("most must be at least 1")
    pieces: list[Intervals] = []
    room = 0
    for low, high in normalize(intervals):
        while low <= high:
            if room == 0:
                pieces.append([])
                room = most
            end = min(high, low + room - 1)
            pieces[-1].append((low, end))
            room -= end - low + 1
            low = end + 1
    return pieces
