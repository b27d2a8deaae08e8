"""HTTP connections that cannot be held open by saying little, slowly or nothing."""

import asyncio
import time

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 128
# For a whole request to arrive, and for its answer to be made and read.
REQUEST_SECONDS = 10.0
ANSWER_SECONDS = 60.0


class Connection(H11Protocol):
    """Uvicorn's own, with a limit on how many there are and on how long each part of an exchange may take."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = time.monotonic()
        self.asking = True
        self.watch = self.loop.call_later(1.0, self.look)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.watch.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self.since = time.monotonic()
        super().on_response_complete()

    @property
    def is_asking(self) -> bool:
        """Whether the client has still to say something: the beginning or the rest of a request."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def look(self) -> None:
        """End the connection if the client, or the answer, takes too long."""
        now = time.monotonic()
        if self.is_asking != self.asking:
            self.asking, self.since = self.is_asking, now
        if now - self.since > (REQUEST_SECONDS if self.asking else ANSWER_SECONDS):
            # Not closed but cut: closing would wait for a client that does not read.
            self.transport.abort()
            return
        self.watch = self.loop.call_later(1.0, self.look)

    def shutdown(self) -> None:
        """When the server ends, a request that has not wholly arrived is not waited for."""
        if self.conn.their_state is h11.SEND_BODY and not self.cycle.response_started:
            self.transport.abort()
            return
        super().shutdown()
