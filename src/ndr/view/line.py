"""Where traces wait for their turn."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from ndr.view.contract import Busy

Answer = TypeVar("Answer")


class Line:
    """So many traces at once, so many more waiting, first come first served; who waits holds no thread."""

    def __init__(self, at_once: int = 2, waiting: int = 128, patience: float = 30.0) -> None:
        self.patience = patience
        self.places = at_once + waiting
        self.taken = 0
        self.running = asyncio.Semaphore(at_once)
        self.closed = False

    async def serve(self, work: Callable[[], Answer]) -> Answer:
        """Do the work when its turn comes; Busy if the line is full, too slow or closed."""
        if self.closed or self.taken >= self.places:
            raise Busy
        self.taken += 1
        try:
            try:
                await asyncio.wait_for(self.running.acquire(), self.patience)
            except TimeoutError:
                raise Busy from None
            try:
                if self.closed:
                    raise Busy
                return await run_in_threadpool(work)
            finally:
                self.running.release()
        finally:
            self.taken -= 1

    def close(self) -> None:
        """Send away who still waits; what runs is finished."""
        self.closed = True
        for _ in range(self.taken):
            self.running.release()
