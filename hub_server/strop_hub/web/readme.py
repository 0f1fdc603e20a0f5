"""A README as safe HTML: what people upload never becomes markup of the page's own.

Markdown is rendered by `readme_renderer`'s engine, then cleaned by an allow-list. Classes and
ids are ours alone, so that an uploaded text can neither look like a part of the page nor be
the target of its links.
"""

import html
import re
from functools import lru_cache

import nh3
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from readme_renderer import markdown
from readme_renderer.clean import ALLOWED_ATTRIBUTES, ALLOWED_TAGS

MAX_RENDERED_CHARS = 200_000
"""A longer README is shown as plain text."""
_MAX_HEADINGS = 400
_MAX_TAGS = 4000
_HEADING_LINE = re.compile(r"^ {0,3}(?:#|=+\s*$|-+\s*$)", re.M)
_DEEP_QUOTE = re.compile(r"^(?: {0,3}>){20}", re.M)
_MAX_CODE_CHARS = 20_000
# Highlighters are regular expressions over hostile text; these few are known to be linear.
_LANGUAGES = {"python": "python", "py": "python", "toml": "toml", "json": "json"}
_ID_PREFIX = "user-content-"
_CODE_END = "</code></pre>"
_CODE_START = re.compile(r'<pre><code class="language-([a-z]{1,10})">')
_EMPTY_ANCHOR = re.compile(r'<a href="#user-content-[^">]*" rel="[^">]*"></a>')
_HEADING = re.compile(r"(</?h)([1-6])(?=[ >])")
# Of the highlighter, of alerts and of footnotes.
_CLASSES = re.compile(
    r"[a-z][a-z0-9]{0,2}|admonition(-title)?|note|tip|important|warning|caution|footnotes"
)
_ATTRIBUTES = {tag: set(names) - {"class"} for tag, names in ALLOWED_ATTRIBUTES.items()} | {
    "span": {"class"},
    "div": {"align", "class"},
    "p": {"align", "class"},
    "section": {"class"},
    "aside": {"class"},
    "input": {"checked"},
    "a": {"href", "title"},
    "img": {"src", "width", "height", "alt", "align"},
}

_FIXED_ATTRIBUTES = {
    "img": {"loading": "lazy", "referrerpolicy": "no-referrer"},
    "input": {"type": "checkbox", "disabled": ""},
}


@lru_cache(maxsize=64)
def render_readme(text: str) -> str:
    """HTML of `text`, whose headings start one level below the page's own.

    Text that no person wrote to be read, long or nested without end, is shown as it is.
    """
    if not _is_cheap(text):
        return f"<pre>{html.escape(text)}</pre>"
    rendered = _highlight(markdown.variants["GFM"](_storable(text)))
    cleaned = nh3.clean(
        rendered,
        tags=ALLOWED_TAGS - {"nav"},
        attributes=_ATTRIBUTES,
        attribute_filter=_filter_attribute,
        link_rel="nofollow noopener noreferrer ugc",
        url_schemes={"http", "https", "mailto"},
        set_tag_attribute_values=_FIXED_ATTRIBUTES,
    )
    # The engine gives every heading a link without text, which a keyboard would stop at.
    cleaned = _EMPTY_ANCHOR.sub("", cleaned)
    return _HEADING.sub(lambda found: found[1] + str(min(6, int(found[2]) + 1)), cleaned)


def _storable(text: str) -> str:
    """The text without what the engine, or UTF-8, has no form for."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def _is_cheap(text: str) -> bool:
    """Whether rendering takes time in proportion to the length (the engine has its limits)."""
    return (
        len(text) <= MAX_RENDERED_CHARS
        and text.count("<") <= _MAX_TAGS
        and len(_HEADING_LINE.findall(text)) <= _MAX_HEADINGS
        and _DEEP_QUOTE.search(text) is None
    )


def _filter_attribute(tag: str, name: str, value: str) -> str | None:
    if name == "id":
        return value if value.startswith(_ID_PREFIX) else _ID_PREFIX + value
    if name == "class":
        kept = [word for word in value.split() if _CLASSES.fullmatch(word)]
        return " ".join(kept) or None
    if name == "href" and value.startswith("#"):
        return "#" + _ID_PREFIX + value[1:].removeprefix(_ID_PREFIX)
    if name == "src":
        return value if value.lower().startswith("https://") else None
    return value


def _highlight(rendered: str) -> str:
    """Colour fenced code; one pass, so that no text costs more than its length."""
    *blocks, rest = rendered.split(_CODE_END)
    return "".join(_highlight_last_block(block) for block in blocks) + rest


def _highlight_last_block(block: str) -> str:
    at = block.rfind("<pre><code class=")
    start = _CODE_START.match(block, at) if at >= 0 else None
    if start is None or start[1] not in _LANGUAGES or len(block) - at > _MAX_CODE_CHARS:
        return block + _CODE_END
    lexer = get_lexer_by_name(_LANGUAGES[start[1]])
    coloured = highlight(html.unescape(block[start.end() :]), lexer, HtmlFormatter(nowrap=True))
    return f"{block[:at]}<pre><code>{coloured}{_CODE_END}"
