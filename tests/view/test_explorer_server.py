import asyncio
import threading
import time

import numpy as np
import pytest
from fastapi.testclient import TestClient
from small_networks import LISTOPS, Explorer, make_router

from ndr.models import CopyGated, Geometric
from ndr.tasks import get_task
from ndr.view.contract import MAX_BODY, Busy
from ndr.view.line import Line
from ndr.view.packing import restore
from ndr.view.server import make_app
from ndr.view.studio import Exhibit, Studio, open_exhibits


@pytest.fixture(scope="module")
def client(folders):
    studio = Studio(open_exhibits([str(folders["router"]), str(folders["listops"]), str(folders["halting"])]))
    with TestClient(make_app(studio), base_url="http://127.0.0.1:8400") as client:
        yield client


def ask(client, path, **body):
    return client.post(f"/api/{path}", json=body)


def test_models_are_described_without_paths(client, folders):
    said = client.get("/api/models")
    models = said.json()["models"]
    assert [model["name"] for model in models] == ["router", "listops", "halting"]
    assert models[0]["gated"] and models[0]["heads"] == 3 and models[0]["steps"] == 5 and not models[0]["halting"]
    assert models[2]["halting"] and not models[2]["gated"]
    assert LISTOPS in models[1]["examples"]
    assert str(folders["router"].parent) not in said.text


def test_parse_gives_the_true_values(client):
    said = ask(client, "parse", model=1, text=LISTOPS).json()
    assert said["value"] == "4" and said["columns"][:3] == ["B", "[SM", "[MED"]
    assert said["tree"][0]["column"] == 1 and said["tree"][0]["value"] == "4"


def test_trace_is_the_models_own(client, listops_router):
    said = ask(client, "trace", model=1, text=LISTOPS, steps=7).json()
    trace = listops_router.trace(LISTOPS, steps=7)
    columns = len(trace.columns)
    assert said["steps"] == 7 and said["answer"] == trace.answer and said["readout"] == 0
    attention = restore(said["attention"], np.uint8, (7, 3, columns, columns))
    np.testing.assert_allclose(attention, trace.attention, atol=0.002)
    readouts = restore(said["readouts"], np.uint16, (8, columns, 10))
    np.testing.assert_allclose(readouts, trace.logits.softmax(-1), atol=1e-5)


@pytest.mark.parametrize(
    ("text", "position"),
    [("101 x", 4), ("", 0), ("d a", 0), ("101 d 101", 6), ("101 \x00", 4), ("101 \U0001f600 d", 4)],
)
def test_a_malformed_text_is_refused_with_its_position(client, text, position):
    for path in ("parse", "trace"):
        said = ask(client, path, model=0, text=text)
        assert said.status_code == 422 and said.json()["position"] == position and said.json()["reason"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"model": 9, "text": "101 d"}, 422, "there is no model 9"),
        ({"model": -1, "text": "101 d"}, 422, "model"),
        ({"model": "0", "text": "101 d"}, 422, "model"),
        ({"model": 0, "text": ["101"]}, 422, "text"),
        ({"model": 0, "text": "101 d", "steps": 0}, 422, "steps"),
        ({"model": 0, "text": "101 d", "steps": 201}, 422, "steps"),
        ({"model": 0, "text": "101 d", "steps": 2.0}, 422, "steps"),
        ({"model": 0, "text": "101 d", "run": "/etc/passwd"}, 422, "run"),
        ({"model": 0}, 422, "text"),
        ({"model": 0, "text": "a" * 4001}, 422, "text"),
        ({"model": 0, "text": "101" + " d" * 1900, "steps": 200}, 422, "too much to show"),
        ({"model": 0, "text": "a" * MAX_BODY}, 413, "at most"),
    ],
)
def test_bad_requests_are_refused_with_a_sentence(client, body, status, words):
    said = client.post("/api/trace", json=body)
    assert said.status_code == status and words in said.json()["reason"]


def test_what_is_not_json_is_refused(client):
    said = client.post("/api/trace", content=b"{", headers={"content-type": "application/json"})
    assert said.status_code == 400
    # A form of another site cannot ask in the name of the user: it cannot send this content type.
    said = client.post("/api/trace", content=b'{"model":0,"text":"101"}', headers={"content-type": "text/plain"})
    assert said.status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": 0, "text": "101 \\ud800"}',
        b'{"model": 0, "text": "101 d", "\\ud800": 1}',
        b'{"model": 1' + b"0" * 5000 + b', "text": "101 d"}',
        b"[" * 20_000,
        b"\xff\xfe",
        b"null",
        b'{"model": NaN, "text": "101 d"}',
    ],
)
def test_strange_bodies_are_refused_and_not_stumbled_over(client, body):
    for path in ("parse", "trace"):
        said = client.post(f"/api/{path}", content=body, headers={"content-type": "application/json"})
        assert said.status_code in (400, 422) and said.json()["reason"]


def test_an_endless_body_is_cut_off(client):
    said = client.post("/api/parse", content=(b"x" * 1000 for _ in range(100)))
    assert said.status_code == 413


def test_every_answer_carries_the_security_headers(client):
    for said in (client.get("/"), client.get("/page/app.js"), client.get("/api/models"), client.get("/none")):
        policy = said.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert said.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in said.headers


def test_only_the_pages_own_files_are_served(client):
    for path in ("/page/../server.py", "/page/%2e%2e/server.py", "/page/", "/docs", "/page/nothing.js"):
        assert client.get(path).status_code == 404
    assert client.get("/page/app.js").headers["content-type"].startswith("text/javascript")


def test_the_page_names_no_other_host(client):
    for name in ("/", "/page/app.js", "/page/style.css", "/page/source.js"):
        text = client.get(name).text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text and "https://" not in text


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:8400", 200), ("127.0.0.1", 200), ("[::1]:8400", 200), ("evil.example", 421), ("evil.example:80", 421)],
)
def test_foreign_host_names_are_refused(client, host, status):
    assert client.get("/api/models", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9"},
    ],
)
def test_other_sites_may_not_ask(client, headers):
    for said in (client.get("/api/models", headers=headers), client.post("/api/parse", json={}, headers=headers)):
        assert said.status_code == 403 and said.json()["reason"]


def test_the_page_itself_may_ask(client):
    own = {"origin": "http://127.0.0.1:8400", "sec-fetch-site": "same-origin"}
    assert client.post("/api/parse", json={"model": 0, "text": "101 d"}, headers=own).status_code == 200


def test_only_so_many_traces_run_at_once(router):
    real, lock, now, most = router.trace, threading.Lock(), 0, 0

    def slowly(text, *, steps=None):
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.3)
        with lock:
            now -= 1
        return real(text, steps=steps)

    studio = Studio([Exhibit("one", router, get_task("ctl-forward"))])
    router.__dict__["trace"] = slowly
    try:
        with TestClient(make_app(studio, line=Line(2, 2)), base_url="http://localhost") as client:
            codes = []

            def one():
                codes.append(ask(client, "trace", model=0, text="101 d").status_code)

            threads = [threading.Thread(target=one) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert most <= 2 and codes.count(200) >= 2 and set(codes) <= {200, 503} and 503 in codes
            assert ask(client, "trace", model=0, text="101 d").status_code == 200
    finally:
        del router.__dict__["trace"]


def test_who_waits_too_long_or_at_the_end_is_sent_away():
    async def story():
        line = Line(at_once=1, waiting=3, patience=0.2)
        enough = threading.Event()
        running = asyncio.create_task(line.serve(lambda: enough.wait(60) and "done"))
        await asyncio.sleep(0.05)
        with pytest.raises(Busy):
            await line.serve(lambda: "never")
        waiting = asyncio.create_task(line.serve(lambda: "never"))
        await asyncio.sleep(0.05)
        line.close()
        with pytest.raises(Busy):
            await waiting
        enough.set()
        assert await running == "done" and line.taken == 0

    asyncio.run(story())


def test_a_network_of_the_papers_size_answers_in_time_and_size():
    """50 tokens, 20 steps, 16 heads: under 1 s and under 2 MB."""
    network = make_router("listops", width=512, steps=20, attention=Geometric(heads=16), update=CopyGated(hidden=1024))
    client = TestClient(make_app(Studio([Exhibit("big", network, get_task("listops"))])), base_url="http://localhost")
    text = "[MAX " + " ".join("1234567890" * 5)[:95] + " ]"
    assert len(text.split()) == 50
    ask(client, "trace", model=0, text=text)
    times = []
    for _ in range(3):
        began = time.process_time()
        said = ask(client, "trace", model=0, text=text)
        times.append(time.process_time() - began)
    assert said.status_code == 200 and said.json()["steps"] == 20 and len(said.content) < 2_000_000
    # Processor time: what a crowded machine makes of it is not this program's doing.
    assert min(times) < 1.0, times


def test_a_network_of_an_unknown_task_is_shown_without_a_tree(router):
    client = TestClient(make_app(Studio([Exhibit("own", router, None)])), base_url="http://localhost")
    said = ask(client, "parse", model=0, text="101 d").json()
    assert said["tree"] is None and said["value"] is None and said["columns"] == ["B", "101", "d", "E"]
    assert ask(client, "trace", model=0, text="101 d").status_code == 200
    assert ask(client, "trace", model=0, text="101 ?").status_code == 422
    assert ask(client, "trace", model=0, text=" ").status_code == 422


def test_sigterm_ends_it_cleanly(folders):
    import httpx

    running = Explorer(folders["router"])
    assert httpx.get(running.address).status_code == 200
    assert running.stop() == 0
    assert running.process.stdout.read() == ""
