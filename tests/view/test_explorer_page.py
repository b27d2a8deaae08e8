"""The explorer's page in a real browser, as a person uses it."""

import json
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import expect
from small_networks import LISTOPS

from ndr.cli import main

pytestmark = pytest.mark.browser
TEXT = "101 d a b"


@pytest.fixture(autouse=True)
def no_surprises(page):
    """No page of these tests may report an error, break its policy, or ask another host."""
    found = []
    page.on("pageerror", lambda error: found.append(str(error)))
    # A refused text and a server that is gone are told to the console by the browser itself.
    expected = ("status of 422", "net::ERR_FAILED")
    page.on(
        "console",
        lambda line: (
            found.append(line.text) if line.type == "error" and not any(e in line.text for e in expected) else 0
        ),
    )
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_default_timeout(20_000)
    yield
    assert found == []
    assert [url for url in asked if not url.startswith(("http://127.0.0.1:", "blob:", "file:", "data:"))] == []


@pytest.fixture
def visit(page, explorer):
    def go(view=""):
        page.goto(f"{explorer.address}{view}")
        page.wait_for_selector(".panel .score svg")
        return page

    return go


def ready(page, words):
    expect(page.locator("#said")).to_contain_text(words)


def test_first_view(visit, screenshots):
    """How soon it is there, benchmarks/bench_view.py measures."""
    page = visit()
    page.screenshot(path=screenshots / "first.png", full_page=True)
    assert page.input_value("#text") == TEXT


def test_typing_checks_while_it_goes(visit, screenshots):
    page = visit()
    page.fill("#text", "101 d x b")
    problem = page.locator("#problem")
    expect(problem).to_contain_text('unknown symbol "x", at character 7')
    assert page.locator("#where").inner_text().splitlines()[1].index("▲") == 6
    expect(page.locator("#text")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#truth")).to_be_empty()
    expect(page.locator(".panel")).to_have_class("card panel stale")
    page.screenshot(path=screenshots / "problem.png", full_page=True)
    page.fill("#text", "101 d")
    expect(problem).to_be_hidden()
    expect(page.locator("#truth")).to_contain_text("2 tokens, tree 1 high; the true answer is")
    page.fill("#text", "")
    expect(problem).to_contain_text("empty input")
    page.select_option("#examples", "1")
    expect(problem).to_be_hidden()
    assert page.input_value("#text") == "110 a f b g d"


def test_the_page_shows_the_models_own_numbers(visit, router):
    page = visit("#text=110 a f b g d&step=3")
    trace = router.trace("110 a f b g d")
    found = page.evaluate(
        """() => { const t = panels[0].trace; return {
            map: Array.from(t.map(2, null)), one: Array.from(t.map(4, 1)), gate: Array.from(t.gate),
            chances: Array.from(t.chances), says: t.columns.map((_, c) => t.says(3, c).answer) } }"""
    )
    size = len(trace.columns)
    np.testing.assert_allclose(np.reshape(found["map"], (size, size)), trace.attention[2].amax(0), atol=0.002)
    np.testing.assert_allclose(np.reshape(found["one"], (size, size)), trace.attention[4, 1], atol=0.002)
    np.testing.assert_allclose(np.reshape(found["gate"], (5, size)), trace.openness, atol=1e-5)
    np.testing.assert_allclose(np.reshape(found["chances"], (6, size, 8)), trace.logits.softmax(-1), atol=1e-5)
    said = [trace.answers[one] for one in trace.logits[3].argmax(-1).tolist()]
    assert found["says"] == said
    # And that is what the page writes.
    page.click("details summary >> text=Numbers")
    cells = page.locator(".table tbody tr td:nth-child(4)")
    expect(cells).to_have_count(size)  # an opened table is filled a moment later
    assert [cell.split()[0] for cell in cells.all_inner_texts()] == said


def test_playing_goes_to_the_end_and_can_be_paused(visit, screenshots):
    page = visit("#text=101 d a b&step=0")
    ready(page, "Start: no step has been made")
    page.click("#play")
    expect(page.locator("#play")).to_have_text("❚❚ Pause")
    expect(page.locator("#step")).not_to_have_value("0")
    page.click("#play")
    held = page.input_value("#step")
    page.wait_for_timeout(900)
    assert page.input_value("#step") == held != "5"
    page.select_option("#pace", "280")
    page.click("#play")
    expect(page.locator("#step-name")).to_have_text("t = 4 (5 of 5)")
    expect(page.locator("#play")).to_have_text("▶ Play")
    page.screenshot(path=screenshots / "played.png", full_page=True)


def test_scrubbing_and_stepping(visit):
    page = visit("#text=101 d a b&step=0")
    page.locator("#step").fill("3")
    ready(page, "Step t = 2 (3 of 5)")
    expect(page.locator("#step")).to_have_attribute("aria-valuetext", "t = 2 (3 of 5)")
    page.click("#forth")
    page.click("#forth")
    page.click("#forth")
    ready(page, "t = 4 (5 of 5)")
    page.click("#back")
    ready(page, "t = 3 (4 of 5)")
    page.click("#to-start")
    ready(page, "Start")


def test_the_number_of_steps_changes_live(visit):
    page = visit("#text=101 d a b&step=2")
    page.fill("#steps", "9")
    expect(page.locator("#step-name")).to_have_text("t = 1 (2 of 9)")
    page.fill("#steps", "0")
    expect(page.locator("#problem")).to_contain_text("between 1 and 200")
    assert page.get_attribute("#steps", "aria-invalid") == "true" != page.get_attribute("#text", "aria-invalid")
    page.fill("#steps", "")
    expect(page.locator("#step-name")).to_have_text("t = 1 (2 of 5)")


def test_keys_alone_are_enough(visit):
    page = visit("#text=101 d a b&step=0")
    page.locator("body").press("ArrowRight")
    ready(page, "t = 0 (1 of 5)")
    page.keyboard.press("End")
    ready(page, "t = 4 (5 of 5)")
    page.keyboard.press("Home")
    page.keyboard.press(".")
    page.keyboard.press(".")
    expect(page.locator(".detail")).to_contain_text("101 (column 1) at the start")
    page.keyboard.press(",")
    expect(page.locator(".detail")).to_contain_text("B (column 0)")
    page.keyboard.press("Escape")
    expect(page.locator(".detail")).to_contain_text("Choose a column")
    page.keyboard.press("h")
    expect(page.locator("#head")).to_have_value("0")
    page.keyboard.press("m")
    expect(page.locator("#reads")).to_have_value("map")
    page.keyboard.press(" ")
    expect(page.locator("#play")).to_have_attribute("aria-label", "Pause")
    page.keyboard.press(" ")
    # Every control can be reached by Tab, in the order in which it stands on the page.
    page.locator("#text").focus()
    reached = []
    for _ in range(26):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
    for name in ("examples", "model", "steps", "head", "play", "step", "save-png", "copy-link"):
        assert name in reached
    # A letter typed into the text is a letter.
    page.locator("#text").focus()
    page.keyboard.press("End")
    page.keyboard.type(" h")
    assert page.input_value("#text").endswith("b h")


def test_everything_has_a_name_for_a_screen_reader(visit):
    page = visit("#reads=both")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, svg[role=img], [tabindex]')]
            .filter((one) => !(one.getAttribute('aria-label') || one.labels?.length || one.textContent.trim()))
            .map((one) => one.outerHTML)"""
    )
    assert nameless == []
    assert page.get_attribute("#said", "aria-live") == "polite"
    assert page.get_attribute("#problem", "role") == "alert"
    for name in ("Play", "One step on", "Number of steps; empty means the network's own"):
        assert page.get_by_label(name, exact=True).count() == 1


def test_choosing_with_the_pointer(visit):
    page = visit("#text=101 d a b&step=0")
    page.locator(".score svg").get_by_text("t=3", exact=True).wait_for()
    layout = page.evaluate("(() => { const s = panels[0].score; return { x: s.layout.x(2), y: s.y(4) + 8 } })()")
    page.locator(".score svg").click(position=layout)
    ready(page, "t = 3 (4 of 5)")
    expect(page.locator(".detail")).to_contain_text("d (column 2) at t = 3")


def test_comparing_two_networks(visit, screenshots):
    page = visit("#text=110 a f b g d&step=3")
    page.select_option("#other", "1")
    expect(page.locator(".panel")).to_have_count(2)
    expect(page.locator(".panel h2").nth(1)).to_have_text("transformer")
    expect(page.locator(".panel .about").nth(1)).to_contain_text("no gate")
    boxes = [panel.bounding_box() for panel in page.locator(".panel").all()]
    assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] < boxes[1]["x"]
    page.select_option("#reads", "both")
    page.screenshot(path=screenshots / "compare.png", full_page=True)
    page.select_option("#other", "2")
    expect(page.locator(".panel").nth(1)).to_contain_text("This network cannot read the text")
    page.select_option("#other", "")
    expect(page.locator(".panel")).to_have_count(1)


def test_a_link_brings_the_view_back(visit, page, context):
    first = visit()
    first.fill("#text", "011 b a")
    expect(first.locator("#truth")).to_contain_text("3 tokens")
    first.select_option("#other", "1")
    first.fill("#steps", "7")
    expect(first.locator("#step")).to_have_attribute("max", "7")
    first.locator("#step").fill("4")
    first.select_option("#head", "2")
    first.select_option("#reads", "both")
    first.select_option("#cells", "certainty")
    first.locator("body").press(".")
    address = first.url
    again = context.new_page()
    again.goto(address)
    again.wait_for_selector(".panel .score svg")
    ready(again, "t = 3 (4 of 7)")
    chosen = {"text": "011 b a", "other": "1", "steps": "7", "head": "2", "reads": "both", "cells": "certainty"}
    for name, value in chosen.items():
        expect(again.locator(f"#{name}")).to_have_value(value)
    expect(again.locator(".detail").first).to_contain_text("column 0")
    assert again.locator(".score").first.inner_html() == first.locator(".score").first.inner_html()


def test_a_link_of_nonsense_does_no_harm(visit):
    page = visit("#text=101 d&model=<b>&with=9&steps=-3&step=99999&head=77&reads=x&cells=__proto__&column=1e9")
    ready(page, "Start")
    page = visit("#text=101 d&step=150&head=77&column=99")
    ready(page, "t = 4 (5 of 5)")


def test_text_is_never_markup(page, explorer):
    page.goto(f"{explorer.address}#text={quote('<img src=x onerror=alert(1)>')}")
    expect(page.locator("#problem")).to_contain_text('unknown symbol "<img"')
    assert page.locator("img").count() == 0


def test_saving_pictures_and_the_trace(visit, tmp_path, router):
    page = visit("#text=101 d a b&step=2&reads=both")
    saved = {}
    for kind in ("png", "svg", "json"):
        with page.expect_download() as waiting:
            page.click(f"#save-{kind}")
        assert waiting.value.suggested_filename == f"ndr-t1.{kind}"
        saved[kind] = tmp_path / f"view.{kind}"
        waiting.value.save_as(saved[kind])
    assert saved["png"].read_bytes().startswith(b"\x89PNG") and saved["png"].stat().st_size > 10_000
    assert saved["svg"].read_text().startswith("<svg xmlns=") and "101 d a b" in saved["svg"].read_text()
    record = json.loads(saved["json"].read_text())["traces"][0]
    trace = router.trace(TEXT)
    np.testing.assert_allclose(record["attention"], trace.attention, atol=0.002)
    np.testing.assert_allclose(record["openness"], trace.openness, atol=1e-4)
    np.testing.assert_allclose(record["readouts"], trace.logits.softmax(-1), atol=1e-4)
    assert record["tree"][0]["value"] == record["truth"] and record["model"] == "router"


def test_a_phone_shows_everything_without_scrolling_sideways(visit, page, screenshots):
    page.set_viewport_size({"width": 360, "height": 740})
    visit(f"#text={quote(LISTOPS)}&model=listops&step=3&reads=both")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    # The wide drawing scrolls inside its panel.
    assert page.evaluate(
        "(() => { const s = document.querySelector('.score'); return s.scrollWidth > s.clientWidth })()"
    )
    for name in ("play", "text", "step", "save-png"):
        box = page.locator(f"#{name}").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 360
    page.screenshot(path=screenshots / "phone.png", full_page=True)


def test_dark_and_light(page, visit, screenshots):
    page.emulate_media(color_scheme="dark")
    visit(f"#text={quote(LISTOPS)}&model=listops&step=4&column=4&reads=both")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.screenshot(path=screenshots / "dark.png", full_page=True)
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.screenshot(path=screenshots / "light.png", full_page=True)


def test_a_chosen_theme_outlasts_the_system(page, visit):
    page.emulate_media(color_scheme="light")
    visit()
    page.click("#theme")
    page.emulate_media(color_scheme="dark")
    page.emulate_media(color_scheme="light")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_what_a_network_does_not_have_cannot_be_chosen(visit):
    page = visit("#text=101 d a b&cells=halting")
    assert page.locator("#cells option[value=halting]").is_disabled()
    assert page.input_value("#cells") == "gate"


def test_an_exported_file_needs_no_server(page, folders, tmp_path, screenshots, router):
    out = tmp_path / "view.html"
    texts = ["--text", TEXT, "--text", "110 a f b g d"]
    main(["explore", str(folders["router"]), str(folders["transformer"]), "--export", str(out), *texts])
    page.goto(out.as_uri())
    page.wait_for_selector(".panel .score svg")
    assert page.input_value("#text") == TEXT
    page.select_option("#examples", "1")
    expect(page.locator("#truth")).to_contain_text("6 tokens")
    page.select_option("#other", "1")
    expect(page.locator(".panel")).to_have_count(2)
    page.locator("body").press("End")
    ready(page, "t = 4 (5 of 5)")
    page.fill("#steps", "3")
    expect(page.locator("#step-name")).to_have_text("t = 2 (3 of 3)")
    answer = router.trace("110 a f b g d", steps=3).answer
    expect(page.locator(".panel .answer").first).to_contain_text(f"says {answer}")
    page.fill("#steps", "9")
    expect(page.locator("#problem")).to_contain_text("this file holds 5 steps")
    with page.expect_download() as waiting:
        page.click("#save-png")
    assert waiting.value.suggested_filename.endswith(".png")
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=screenshots / "exported.png", full_page=True)


def test_a_server_that_is_gone_is_said(visit):
    page = visit()
    page.route("**/api/**", lambda route: route.abort())
    page.fill("#text", "101 d")
    expect(page.locator("#problem")).to_contain_text("the server does not answer")
