"""What the server checks before any request is looked at, and says with every answer."""

import ipaddress
import json
import socket
from collections.abc import Iterable
from typing import Any

from ndr.view.contract import MAX_BODY, MAX_HEADERS, Problem

# The page's own files and nothing else: no inline script, no other host, not inside another page.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """ASGI middleware: known host, same site, small body; headers on every answer."""

    def __init__(self, app: Any, hosts: Iterable[str] = ()) -> None:
        self.app = app
        self.hosts = {"localhost", socket.gethostname().lower(), *(host.lower() for host in hosts)}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            # Start and stop of the server; web sockets, which the app does not have and refuses.
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                raw = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *raw]}
            await send(message)

        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADERS:
            return await refuse(send_with_headers, 431, f"headers may have at most {MAX_HEADERS:,} bytes")
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if not self.is_known(headers.get("host", "")):
            return await refuse(send_with_headers, 421, "this host name is not served here; use the address printed")
        if scope["path"].startswith("/api/") and is_foreign(headers):
            return await refuse(send_with_headers, 403, "other sites may not ask here")
        body = await read_body(receive)
        if body is None:
            return await refuse(send_with_headers, 413, f"a request may have at most {MAX_BODY:,} bytes")
        delivered = False

        async def replay() -> Any:
            nonlocal delivered
            if delivered:
                return await receive()
            delivered = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, send_with_headers)

    def is_known(self, host: str) -> bool:
        """An address, or a name of this machine. A foreign name pointed at this machine is a rebinding attack."""
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        name = name.strip("[]").lower()
        if name in self.hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def is_foreign(headers: dict[str, str]) -> bool:
    """Whether a page of another site asks; browsers say so in one header or the other."""
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return True
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower()


async def read_body(receive: Any) -> bytes | None:
    """The whole body, or None as soon as it is too large."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body"):
            return bytes(body)


async def refuse(send: Any, status: int, reason: str) -> None:
    body = json.dumps(Problem(reason=reason, position=None).model_dump()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
