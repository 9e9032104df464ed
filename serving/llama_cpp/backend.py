"""One llama.cpp server in a child process: started, watched, restarted, ended."""

import asyncio
import json
import os
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp

from serving.llama_cpp.child import LISTENING, ChildSettings
from serving.llama_cpp.work import last_words
from serving.processes import own_path
from turnout.errors import EngineError, EngineNotReady

START_LIMIT_S = 300.0
_RESTART_PAUSE_S = (0.0, 1.0, 5.0, 30.0)
_SETTLED_S = 60.0
"""A server that ran for so long is started again at once, however often it was before."""
_LINES_KEPT = 50
_LINE_BYTES = 2**20


class Backend:
    """A served name's own server. `running` counts the requests that the front has for it, those that wait for it to be
    started again included."""

    def __init__(self, settings: ChildSettings, folder: str, log: Callable[[str], None]) -> None:
        self.settings = settings
        self.folder = folder
        self.running = 0
        self.url = ""
        self._slots: asyncio.Queue[int] = asyncio.Queue()
        for slot in range(settings.parallel):
            self._slots.put_nowait(slot)
        self._log = log
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._process: asyncio.subprocess.Process | None = None
        self._ready = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._keeper: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def healthy(self) -> bool:
        return self._ready.is_set()

    async def start(self, session: aiohttp.ClientSession) -> None:
        """Start the server, have it answer one token, and keep it running from then on.

        Raises:
            EngineNotReady: it ended, or did not answer in time; nothing of it is left.
        """
        try:
            await self._launch(session)
        except BaseException:
            await self._kill()
            raise
        self._keeper = asyncio.create_task(self._keep(session))

    async def close(self, patience_s: float) -> None:
        """Let it finish its requests for `patience_s` seconds, then end it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self.running:  # one more may have come when the last one ended
                    await self._idle.wait()
        self._ready.clear()
        if self._keeper:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        await self._kill()

    @asynccontextmanager
    async def request(self, limit_s: float) -> AsyncIterator[str]:
        """The server's address, for one request; a server that is being restarted is waited for.

        Raises:
            TimeoutError: it is not there within `limit_s` seconds.
        """
        # Counted before anything is waited for: a server whose name is unloaded meanwhile is not ended then.
        self.running += 1
        self._idle.clear()
        try:
            await asyncio.wait_for(self._ready.wait(), limit_s)
            yield self.url
        finally:
            self.running -= 1
            if not self.running:
                self._idle.set()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[int]:
        """One of the server's slots, for a chain of requests of which each starts from what the last one computed."""
        slot = await self._slots.get()
        try:
            yield slot
        finally:
            self._slots.put_nowait(slot)

    async def _launch(self, session: aiohttp.ClientSession) -> None:
        began = time.monotonic()
        self._lines.clear()
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "serving.llama_cpp.child", self.settings.to_json()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            # OpenMP threads that spin while they wait slow the servers of other names down.
            env={**os.environ, **own_path(), "GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", "10000")},
            limit=_LINE_BYTES,
        )
        try:
            async with asyncio.timeout(START_LIMIT_S):
                await self._read_address()
                await self._probe(session)
        except (TimeoutError, aiohttp.ClientError) as error:
            raise EngineNotReady(f"llama.cpp's server for {self.name} does not answer: {error!r}") from error
        self._ready.set()
        self._log(f"{self.name} is served by process {self._process.pid} after {time.monotonic() - began:.1f} s")

    async def _read_address(self) -> None:
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read(address))
        self._reader.add_done_callback(lambda _: address.done() or address.cancel())
        await asyncio.wait({address})
        if address.cancelled():
            code = await self._process.wait() if self._process else None
            raise EngineNotReady(
                f"llama.cpp's server for {self.name} ended (exit {code}): {last_words(self._lines)}",
                "The file, the adapter or the engine's limits must change.",
            )
        self.url = address.result()

    async def _read(self, address: "asyncio.Future[str]") -> None:
        """Pass on what the server prints, to its end."""
        process = self._process
        if process is None or process.stdout is None:
            return
        async for raw in process.stdout:
            line = raw.decode("utf-8", "replace").rstrip()
            if line.startswith(LISTENING) and not address.done():
                address.set_result(line.removeprefix(LISTENING))
                continue
            self._lines.append(line)
            self._log(line)

    async def _probe(self, session: aiohttp.ClientSession) -> None:
        answer = await self.post(session, "/completion", {"prompt": [0], "n_predict": 1, "temperature": 0})
        if "content" not in answer:
            raise EngineNotReady(f"llama.cpp's server for {self.name} answers its probe with {answer!r:.300}")

    async def post(self, session: aiohttp.ClientSession, path: str, body: Any) -> dict[str, Any]:
        """One of the server's own calls.

        Raises:
            EngineError: it refuses, with its reason.
            aiohttp.ClientError: it does not answer.
        """
        async with session.post(self.url + path, json=body) as response:
            answer: dict[str, Any] = json.loads(await response.read())
            if response.status != 200:
                raise EngineError(f"{path}: {answer.get('error', {}).get('message', answer)!s:.500}")
            return answer

    async def _keep(self, session: aiohttp.ClientSession) -> None:
        """Start the server again each time that it ends by itself."""
        failures, began = 0, time.monotonic()
        while True:
            if self._process:
                code = await self._process.wait()
                self._ready.clear()
                self._log(f"the server of {self.name} ended by itself (exit {code}): {last_words(self._lines)}")
                failures = 0 if time.monotonic() - began > _SETTLED_S else failures
            await asyncio.sleep(_RESTART_PAUSE_S[min(failures, len(_RESTART_PAUSE_S) - 1)])
            failures, began = failures + 1, time.monotonic()
            try:
                await self._launch(session)
            except (EngineError, OSError, ValueError) as error:
                self._log(f"it could not be started again: {error}")
                await self._kill()

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        await process.wait()
