"""Pages hold all that they show, escape what they are given, and draw the same figure twice alike."""

import base64
import re

from turnout import pages


def drawn():
    from matplotlib.figure import Figure

    with pages.plot_style():
        figure = Figure()
        figure.add_subplot().plot([1, 2, 3], [3, 1, 2])
    return figure


def test_a_page_is_whole_and_fetches_nothing():
    text = pages.page("incidents-v1", pages.section("Plot", pages.figure(drawn(), "loss")), subtitle="a run")
    assert text.startswith("<!doctype html>") and text.rstrip().endswith("</html>")
    assert not re.search(r"(src|href)=\"(?!data:)|https?://|@import|<script", text)
    assert "default-src 'none'" in text and "prefers-color-scheme: dark" in text


def test_whatever_it_is_given_is_escaped():
    hostile = "<script>alert('a')</script> & 한국어"
    body = pages.section(hostile, pages.table([{hostile: hostile}]), pages.text(hostile), hostile)
    text = pages.page(hostile, body, subtitle=hostile)
    assert "<script>" not in text
    assert text.count("&lt;script&gt;") == 8 and "한국어" in text


def test_a_table_has_the_columns_of_all_rows():
    text = pages.table([{"rule": "a", "figure": 0.5}, {"rule": "b", "limit": None}, {"rule": pages.mark("c", "bad")}])
    assert re.findall(r"<th[^>]*>(\w+)</th>", text) == ["rule", "figure", "limit"]
    assert '<th class="number">figure' in text and '<td class="number">0.5' in text
    assert text.count("–") == 5 and '<span class="bad">c</span>' in text


def test_an_empty_table_says_so():
    assert "none" in pages.table([]) and "<table" not in pages.table([])


def test_a_figure_is_a_png_that_does_not_change():
    first, second = pages.png(drawn()), pages.png(drawn())
    assert first == second and first.startswith(b"\x89PNG")
    data = re.search(r"base64,([^\"]+)", pages.figure(drawn(), "loss"))
    assert data and base64.b64decode(data[1]) == first
