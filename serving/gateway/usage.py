"""Token counts, read from answers as bytes: an answer is passed on unchanged, and parsing all of it would cost more."""

import re
from collections.abc import Mapping

import orjson

# Inside a JSON string every quote is escaped, so these bytes stand nowhere but in the answer's own structure.
_USAGE = b'"usage"'
_PROMPT = re.compile(rb'"prompt_tokens":\s*(\d+)')
_COMPLETION = re.compile(rb'"completion_tokens":\s*(\d+)')
_NO_CHOICES = re.compile(rb'"choices":\s*\[\s*\]')
_ERROR = re.compile(rb'^data:\s*\{\s*"error"', re.MULTILINE)
_EVENT_END = re.compile(rb"\r?\n\r?\n")
# An event without an end in sight is nothing that this gateway knows; it is passed on as it comes.
_MAX_HELD = 2**20


def find_usage(body: bytes) -> tuple[int, int] | None:
    """Prompt and completion tokens of a plain answer, or of one event."""
    start = body.rfind(_USAGE)
    if start < 0:
        return None
    prompt = _PROMPT.search(body, start)
    if prompt is None:
        return None
    completion = _COMPLETION.search(body, start)
    return int(prompt[1]), int(completion[1]) if completion else 0


class EventFilter:
    """Watches a stream of server-sent events go by.

    Whole events are passed on at once and unchanged; the start of one that is still to come waits for its end. With
    `keep_usage` false the last chunk, which has token counts and no choices, is left out: the gateway asked for it,
    not the client.
    """

    def __init__(self, *, keep_usage: bool) -> None:
        self.headers: Mapping[str, str] = {}
        self.usage: tuple[int, int] | None = None
        self.done = False
        self.failed = False
        self._keep_usage = keep_usage
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """What of the stream up to the end of `chunk` is to be sent now."""
        if self._held:
            chunk = self._held + chunk
            self._held = b""
        if not chunk.endswith(b"\n\n"):
            end = max(chunk.rfind(b"\n\n") + 2, chunk.rfind(b"\n\r\n") + 3)
            end = end if end > 2 else 0
            if len(chunk) - end > _MAX_HELD:
                end = len(chunk)
            self._held = chunk[end:]
            chunk = chunk[:end]
        if _USAGE in chunk:
            chunk = self._without_usage(chunk)
        if b'"error"' in chunk and _ERROR.search(chunk):
            self.failed = True
        if b"data: [DONE]" in chunk:
            self.done = True
        return chunk

    def rest(self) -> bytes:
        """What waited for an end that never came."""
        held, self._held = self._held, b""
        return held

    def broken(self, message: str) -> bytes:
        """The event that ends a broken stream."""
        error = {"message": message, "type": "server_error", "param": None, "code": "stream_broken"}
        return b"data: " + orjson.dumps({"error": error}) + b"\n\n"

    def _without_usage(self, chunk: bytes) -> bytes:
        kept = []
        for event in split_events(chunk):
            usage = find_usage(event)
            self.usage = usage or self.usage
            if usage is None or self._keep_usage or not _NO_CHOICES.search(event):
                kept.append(event)
        return b"".join(kept)


def split_events(chunk: bytes) -> list[bytes]:
    """The events in `chunk`, each with its end."""
    events, start = [], 0
    for end in _EVENT_END.finditer(chunk):
        events.append(chunk[start : end.end()])
        start = end.end()
    return [*events, chunk[start:]] if start < len(chunk) else events
