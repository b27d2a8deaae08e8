"""Connections that say nothing, or are too many, are ended."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn

from ndr.view import connection


async def app(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 1.0)
    monkeypatch.setattr(connection, "MOST_CONNECTIONS", 3)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=connection.Connection, ws="none", lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()
    server.should_exit = True
    thread.join()
    listener.close()


def heard(line: socket.socket) -> bytes:
    line.settimeout(20)
    try:
        return line.recv(1000)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("said", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc"])
def test_who_does_not_finish_a_request_is_cut_off(address: tuple[str, int], said: bytes):
    with socket.create_connection(address) as line:
        line.sendall(said)
        assert heard(line) == b""


def test_one_byte_at_a_time_is_too_slow(address: tuple[str, int]):
    with socket.create_connection(address) as line, pytest.raises(ConnectionError):
        for _ in range(100):
            line.sendall(b"G")
            time.sleep(0.1)


def test_too_many_connections_are_refused_and_others_go_on(address: tuple[str, int]):
    lines = [socket.create_connection(address) for _ in range(3)]
    with socket.create_connection(address) as fourth:
        assert heard(fourth) == b""
    lines[0].sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert b"200 OK" in heard(lines[0])
    for line in lines:
        line.close()
