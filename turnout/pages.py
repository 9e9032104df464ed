"""Self-contained HTML pages with plots: nothing in them is fetched from anywhere, and all text in them is escaped."""

import io
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --paper: #fff; --quiet: #5b6675; --line: #d8dde4; --band: #f5f7f9;
  --good: #1a7f37; --bad: #b42318; --warn: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --ink: #e2e6ec; --paper: #14181e; --quiet: #97a2b1; --line: #343c47;
  --band: #1c222a; --good: #56c271; --bad: #ff8a7a; --warn: #e3b341; } }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", "Noto Sans CJK KR", "Malgun Gothic", sans-serif; }
h1 { margin: 0; font-size: 1.6rem; overflow-wrap: anywhere; }
h2 { margin: 2rem 0 .6rem; padding-bottom: .2rem; border-bottom: 1px solid var(--line); font-size: 1.15rem; }
p.subtitle, td.none { color: var(--quiet); }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top;
  overflow-wrap: anywhere; white-space: pre-wrap; }
th { color: var(--quiet); font-weight: 600; white-space: nowrap; }
td.number, th.number { text-align: right; white-space: nowrap; }
td:first-child { min-width: 9rem; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; } .warn { color: var(--warn); }
figure { margin: .5rem 0; } figure img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
"""

_PAGE = (
    """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{{ title }}</title><style>"""
    + _STYLE
    + """</style></head>
<body><header><h1>{{ title }}</h1>{% if subtitle %}<p class="subtitle">{{ subtitle }}</p>{% endif %}</header>
<main>{% for part in parts %}{{ part }}{% endfor %}</main></body></html>
"""
)

_SECTION = "<section><h2>{{ title }}</h2>{% for part in parts %}{{ part }}{% endfor %}</section>\n"

_TABLE = """{% if rows %}<div class="wide"><table><thead><tr>
{% for key in head %}<th{% if key in numeric %} class="number"{% endif %}>{{ key }}</th>{% endfor %}</tr></thead><tbody>
{% for row in rows %}<tr>{% for key in head %}{% set value = row.get(key) %}
{% if value is none %}<td class="none">–</td>
{% else %}<td{% if key in numeric %} class="number"{% endif %}>{{ value }}</td>{% endif %}
{% endfor %}</tr>{% endfor %}</tbody></table></div>
{% else %}<p class="subtitle">none</p>{% endif %}"""


def page(title: str, *parts: "Markup", subtitle: str = "") -> str:
    """A whole HTML document of `parts`, light or dark as its reader prefers; its policy forbids scripts and fetches."""
    return str(_render(_PAGE, title=title, subtitle=subtitle, parts=parts))


def section(title: str, *parts: "Markup | str") -> "Markup":
    """`parts` under a heading; a part that is a plain string is escaped."""
    return _render(_SECTION, title=title, parts=parts)


def text(words: str, kind: str = "subtitle") -> "Markup":
    """A paragraph of the class `kind`: subtitle, good, warn or bad."""
    return _render('<p class="{{ kind }}">{{ words }}</p>', words=words, kind=kind)


def mark(words: str, kind: str) -> "Markup":
    """`words` within a cell or line, coloured by `kind`: good, warn or bad."""
    return _render('<span class="{{ kind }}">{{ words }}</span>', words=words, kind=kind)


def table(rows: Sequence[Mapping[str, Any]]) -> "Markup":
    """A table whose columns are the keys of all `rows`; None is shown as a dash, a column of numbers to the right."""
    head = list(dict.fromkeys(key for row in rows for key in row))
    return _render(_TABLE, rows=rows, head=head, numeric={key for key in head if _is_numeric(rows, key)})


def figure(fig: "Figure", alt: str = "") -> "Markup":
    """`fig` as an image within the page; `alt` says in words what it shows."""
    return image(png(fig), alt)


def image(data: bytes, alt: str = "") -> "Markup":
    """The PNG file `data` as an image within the page."""
    address = f"data:image/png;base64,{b64encode(data).decode()}"
    return _render('<figure><img alt="{{ alt }}" src="{{ address }}"></figure>', alt=alt, address=address)


def png(fig: "Figure") -> bytes:
    """`fig` as the bytes of a PNG file, the same for the same figure."""
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


@contextmanager
def plot_style() -> Iterator[None]:
    """Draw in one plain style. Make figures with `matplotlib.figure.Figure`, which needs no display and no closing."""
    import matplotlib

    settings: Any = {
        "figure.figsize": (7.5, 3.2),
        "figure.dpi": 110,
        "figure.constrained_layout.use": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.3,
        "font.size": 9,
        "legend.frameon": False,
    }
    with matplotlib.rc_context(settings):
        yield


def _is_numeric(rows: Sequence[Mapping[str, Any]], key: str) -> bool:
    values = [row[key] for row in rows if row.get(key) is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _render(template: str, **values: Any) -> "Markup":
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    # Every value was escaped when it was put into the template.
    return Markup(environment.from_string(template).render(values))  # noqa: S704
