"""Arithmetic from text: read into tokens, turned into postfix order, worked out exactly."""

from fractions import Fraction

_LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "neg": 3, "^": 4}
_RIGHT = {"neg", "^"}
_FUNCTIONS = {"min": 2, "max": 2, "abs": 1, "gcd": 2, "floor": 1}

Token = str | Fraction


class CalcError(ValueError):
    """The text is no expression, or it has no value."""


def tokens(text: str) -> list[Token]:
    """Split an expression into numbers, names, operators and brackets.

    Raises:
        CalcError: A character has no meaning.
    """
    found: list[Token] = []
    place = 0
    while place < len(text):
        character = text[place]
        end = place + 1
        if character.isspace():
            place = end
            continue
        if character.isdigit():
            while end < len(text) and (text[end].isdigit() or text[end] == "."):
                end += 1
            found.append(_number(text[place:end]))
        elif character.isalpha():
            while end < len(text) and text[end].isalnum():
                end += 1
            found.append(text[place:end])
        elif character in "+-*/%^(),":
            found.append(character)
        else:
            raise CalcError(f"{character!r} has no meaning")
        place = end
    return found


def _number(text: str) -> Fraction:
    whole, dot, decimals = text.partition(".")
    if dot and (not decimals or "." in decimals):
        raise CalcError(f"{text} is no number")
    return Fraction(int(whole + decimals), 10 ** len(decimals))


def postfix(text: str) -> list[Token]:
    """Put an expression into postfix order, by the shunting-yard method.

    Raises:
        CalcError: Brackets or operators do not fit together.
    """
    output: list[Token] = []
    waiting: list[str] = []
    wants_value = True
    for token in tokens(text):
        if isinstance(token, Fraction):
            _expect(wants_value, token)
            output.append(token)
            wants_value = False
        elif token in _FUNCTIONS:
            _expect(wants_value, token)
            waiting.append(token)
        elif token == "(":
            _expect(wants_value, token)
            waiting.append(token)
        elif token.isalpha() or token.isalnum():
            _expect(wants_value, token)
            output.append(token)
            wants_value = False
        elif token in "),":
            _expect(not wants_value, token)
            _unwind(output, waiting)
            if token == ",":
                wants_value = True
                continue
            waiting.pop()
            if waiting and waiting[-1] in _FUNCTIONS:
                output.append(waiting.pop())
        else:
            if wants_value:
                _expect(token == "-", token)
                token = "neg"
            while waiting and _goes_first(waiting[-1], token):
                output.append(waiting.pop())
            waiting.append(token)
            wants_value = True
    _expect(not wants_value, "the end")
    while waiting:
        if waiting[-1] == "(":
            raise CalcError("a bracket is not closed")
        output.append(waiting.pop())
    return output


def _expect(is_right: bool, token: object) -> None:
    if not is_right:
        raise CalcError(f"{token} stands in a wrong place")


def _unwind(output: list[Token], waiting: list[str]) -> None:
    while waiting and waiting[-1] != "(":
        output.append(waiting.pop())
    if not waiting:
        raise CalcError("a bracket is not opened")


def _goes_first(waiting: str, token: str) -> bool:
    """Whether a waiting operator is worked out before the next one."""
    if waiting not in _LEVELS or token == "neg":
        return False
    if _LEVELS[waiting] == _LEVELS[token]:
        return token not in _RIGHT
    return _LEVELS[waiting] > _LEVELS[token]


def evaluate(text: str, names: dict[str, int] | None = None) -> Fraction:
    """The value of an expression.

    Raises:
        CalcError: It has none: a name is unknown, something is divided by zero.
    """
    stack: list[Fraction] = []
    for token in postfix(text):
        if isinstance(token, Fraction):
            stack.append(token)
        elif token in _FUNCTIONS:
            count = _FUNCTIONS[token]
            if len(stack) < count:
                raise CalcError(f"{token} takes {count}")
            arguments = stack[-count:]
            del stack[-count:]
            stack.append(_call(token, arguments))
        elif token == "neg":
            stack.append(-stack.pop())
        elif token in _LEVELS:
            right, left = stack.pop(), stack.pop()
            stack.append(_operate(token, left, right))
        else:
            if names is None or token not in names:
                raise CalcError(f"{token} is unknown")
            stack.append(Fraction(names[token]))
    if len(stack) != 1:
        raise CalcError("too many values")
    return stack[0]


def _operate(operator: str, left: Fraction, right: Fraction) -> Fraction:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "^":
        if right.denominator != 1 or abs(right) > 64:
            raise CalcError("powers are whole and at most 64")
        if left == 0 and right < 0:
            raise CalcError("zero has no such power")
        return Fraction(left ** int(right))
    if right == 0:
        raise CalcError("divided by zero")
    return left / right if operator == "/" else left % right


def _call(name: str, arguments: list[Fraction]) -> Fraction:
    if name == "abs":
        return abs(arguments[0])
    if name == "floor":
        return Fraction(arguments[0].numerator // arguments[0].denominator)
    left, right = arguments
    if name == "gcd":
        while right:
            left, right = right, left % right
        return abs(left)
    return min(left, right) if name == "min" else max(left, right)


def show(value: Fraction, places: int = 3) -> str:
    """A value as text: whole, or as a decimal that is cut and not rounded, without idle zeros."""
    sign = "-" if value < 0 else ""
    value = abs(value)
    whole, rest = divmod(value.numerator, value.denominator)
    decimals = ""
    for _ in range(places):
        digit, rest = divmod(rest * 10, value.denominator)
        decimals += str(digit)
    decimals = decimals.rstrip("0")
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"
