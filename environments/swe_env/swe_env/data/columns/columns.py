"""Text for fixed-width output: wrapped, justified, cut, indented, and set in tables."""


def wrap(text: str, width: int) -> list[str]:
    """Break text into lines of at most a width; longer words are broken too.

    Raises:
        ValueError: The width is less than 1.
    """
    if width < 1:
        raise ValueError("width must be at least 1")
    lines: list[str] = []
    line = ""
    for word in text.split():
        while len(word) > width:
            if line:
                lines.append(line)
                line = ""
            lines.append(word[:width])
            word = word[width:]
        if not word:
            continue
        if not line:
            line = word
        elif len(line) + 1 + len(word) <= width:
            line += " " + word
        else:
            lines.append(line)
            line = word
    if line:
        lines.append(line)
    return lines


def justify(line: str, width: int) -> str:
    """Spread the words of a line to a width; the first gaps take what cannot be shared evenly."""
    words = line.split()
    if len(words) < 2:
        return " ".join(words).ljust(width)
    room = width - sum(len(word) for word in words)
    gap_count = len(words) - 1
    if room < gap_count:
        return " ".join(words)
    share, rest = divmod(room, gap_count)
    made = words[0]
    for index, word in enumerate(words[1:]):
        made += " " * (share + (1 if index < rest else 0)) + word
    return made


def center(text: str, width: int, fill: str = " ") -> str:
    """Put text in the middle; an odd space too many stands on the right."""
    room = width - len(text)
    if room <= 0:
        return text
    left = room // 2
    return fill * left + text + fill * (room - left)


def shorten(text: str, width: int, mark: str = "...") -> str:
    """Cut the middle out of text that is too long; the first half is the longer one.

    Raises:
        ValueError: Not even the mark has room.
    """
    if len(text) <= width:
        return text
    room = width - len(mark)
    if room < 0:
        raise ValueError("the mark is wider than the width")
    tail = room // 2
    head = room - tail
    return text[:head] + mark + (text[-tail:] if tail else "")


def indent(text: str, prefix: str, *, first: bool = True) -> str:
    """Put a prefix before every line that is not blank."""
    made = []
    for index, line in enumerate(text.split("\n")):
        skips = not line.strip() or (index == 0 and not first)
        made.append(line if skips else prefix + line)
    return "\n".join(made)


def dedent(text: str) -> str:
    """Take away the indentation that all lines share, blank ones apart."""
    lines = text.split("\n")
    widths = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    common = min(widths) if widths else 0
    return "\n".join(line[common:] if line.strip() else "" for line in lines)


def expand_tabs(line: str, size: int = 8) -> str:
    """Replace tabs by spaces up to the next multiple of a size."""
    made = ""
    for character in line:
        if character == "\t":
            made += " " * (size - len(made) % size)
        else:
            made += character
    return made


def widths(rows: list[list[str]]) -> list[int]:
    """The width that each column needs; rows may be of different lengths."""
    count = max((len(row) for row in rows), default=0)
    found = [0] * count
    for row in rows:
        for index, cell in enumerate(row):
            found[index] = max(found[index], len(cell))
    return found


def table(rows: list[list[str]], align: str = "", gap: int = 2) -> str:
    """Set rows in columns; `align` has a letter l, r or c for each column, l where there is none."""
    needed = widths(rows)
    lines = []
    for row in rows:
        cells = []
        for index, width in enumerate(needed):
            cell = row[index] if index < len(row) else ""
            letter = align[index] if index < len(align) else "l"
            if letter == "r":
                cells.append(cell.rjust(width))
            elif letter == "c":
                cells.append(center(cell, width))
            else:
                cells.append(cell.ljust(width))
        lines.append((" " * gap).join(cells).rstrip())
    return "\n".join(lines)


def rule(needed: list[int], gap: int = 2, mark: str = "-") -> str:
    """A line below a table's heading."""
    return (" " * gap).join(mark * width for width in needed)


def bullets(items: list[str], width: int, mark: str = "- ") -> str:
    """A list of wrapped items, with further lines below the first one's text."""
    lines = []
    for item in items:
        wrapped = wrap(item, width - len(mark)) or [""]
        lines.append((mark + wrapped[0]).rstrip())
        lines.extend(" " * len(mark) + line for line in wrapped[1:])
    return "\n".join(lines)
