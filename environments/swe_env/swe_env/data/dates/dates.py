"""Days of the Gregorian calendar and lengths of time, without a clock and without time zones."""

import re

_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}
_PART = re.compile(r"(\d+)\s*([wdhms])")

Day = tuple[int, int, int]


def is_leap(year: int) -> bool:
    """Whether a year has 366 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_days(year: int, month: int) -> int:
    """How many days a month has.

    Raises:
        ValueError: There is no such month.
    """
    if not 1 <= month <= 12:
        raise ValueError(f"there is no month {month}")
    return 29 if month == 2 and is_leap(year) else _MONTH_DAYS[month - 1]


def parse_day(text: str) -> Day:
    """Read a day such as ``2024-02-29``.

    Raises:
        ValueError: It is no day.
    """
    parts = text.strip().split("-")
    if len(parts) != 3:
        raise ValueError(f"{text!r} is no day")
    year, month, day = (int(part) for part in parts)
    if year < 1 or not 1 <= day <= month_days(year, month):
        raise ValueError(f"{text!r} is no day")
    return (year, month, day)


def show_day(day: Day) -> str:
    """Write a day as `parse_day` reads it."""
    return f"{day[0]:04}-{day[1]:02}-{day[2]:02}"


def ordinal(day: Day) -> int:
    """The number of a day, counted from 1 for the first of January of the year 1."""
    before = day[0] - 1
    count = before * 365 + before // 4 - before // 100 + before // 400
    for month in range(1, day[1]):
        count += month_days(day[0], month)
    return count + day[2]


def from_ordinal(number: int) -> Day:
    """The day with a number.

    Raises:
        ValueError: The number is less than 1.
    """
    if number < 1:
        raise ValueError("days are counted from 1")
    year = max(1, number // 366)
    while ordinal((year + 1, 1, 1)) <= number:
        year += 1
    rest = number - ordinal((year, 1, 1)) + 1
    month = 1
    while rest > month_days(year, month):
        rest -= month_days(year, month)
        month += 1
    return (year, month, rest)


def add_days(text: str, count: int) -> str:
    """The day that is so many days later, or earlier."""
    return show_day(from_ordinal(ordinal(parse_day(text)) + count))


def add_months(text: str, count: int) -> str:
    """The same day of a later or earlier month, or that month's last day where it is shorter."""
    year, month, day = parse_day(text)
    months = year * 12 + month - 1 + count
    year, month = months // 12, months % 12 + 1
    return show_day((year, month, min(day, month_days(year, month))))


def days_between(first: str, last: str) -> int:
    """How many days the second day is later than the first."""
    return ordinal(parse_day(last)) - ordinal(parse_day(first))


def weekday(text: str) -> str:
    """The English name of a day's place in the week."""
    return _WEEKDAYS[(ordinal(parse_day(text)) - 1) % 7]


def day_of_year(text: str) -> int:
    """A day's number within its year, from 1."""
    year, month, day = parse_day(text)
    return sum(month_days(year, earlier) for earlier in range(1, month)) + day


def age(birth: str, today: str) -> int:
    """Full years; who was born on a 29 February has a birthday on 1 March in other years."""
    born, now = parse_day(birth), parse_day(today)
    years = now[0] - born[0]
    if (now[1], now[2]) < (born[1], born[2]):
        years -= 1
    return years


def workdays(first: str, last: str) -> int:
    """How many days from Monday to Friday there are from one day to another, both included."""
    start, end = ordinal(parse_day(first)), ordinal(parse_day(last))
    if end < start:
        return 0
    weeks, rest = divmod(end - start + 1, 7)
    count = weeks * 5
    for number in range(end - rest + 1, end + 1):
        if (number - 1) % 7 < 5:
            count += 1
    return count


def parse_length(text: str) -> int:
    """Seconds of a length such as ``1h30m`` or ``2d 4h``; a bare number is seconds.

    Raises:
        ValueError: It is no length.
    """
    text = text.strip().lower()
    if text.isdigit():
        return int(text)
    seconds, place = 0, 0
    while place < len(text):
        match = _PART.match(text, place)
        if match is None:
            raise ValueError(f"{text!r} is no length")
        seconds += int(match[1]) * _UNITS[match[2]]
        place = match.end()
        while place < len(text) and text[place] == " ":
            place += 1
    if not text:
        raise ValueError("an empty text is no length")
    return seconds


def show_length(seconds: int, parts: int = 2) -> str:
    """The largest units of a length, such as ``1h 30m``; what is smaller is left out."""
    if seconds < 0:
        return "-" + show_length(-seconds, parts)
    shown = []
    for unit, size in _UNITS.items():
        count, seconds = divmod(seconds, size)
        if count and len(shown) < parts:
            shown.append(f"{count}{unit}")
    return " ".join(shown) or "0s"


def clock(seconds: int) -> str:
    """A length as on a stopwatch: ``5:07`` or ``1:05:07``."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}"
