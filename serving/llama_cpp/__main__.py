"""`python -m serving.llama_cpp`: one llama.cpp engine, until it is told to stop."""

import argparse
import asyncio
import json
import signal
import sys
from contextlib import suppress
from pathlib import Path

import aiohttp
import uvloop
from aiohttp import web

from serving.config import LlamaCppConfig
from serving.llama_cpp.engine import EngineSettings, LlamaCppEngine
from serving.llama_cpp.front import Front
from serving.vllm import KEEP_ALIVE_S, SHUTDOWN_S
from turnout.errors import TurnoutError
from turnout.references import Base, from_json


def main() -> None:
    arguments = _parser().parse_args()
    settings = EngineSettings(
        base=from_json(Base, json.loads(arguments.base)),
        config=LlamaCppConfig.model_validate_json(arguments.settings),
        context=arguments.max_model_len,
        max_lora_rank=arguments.max_lora_rank,
        max_loras=arguments.max_loras,
        gguf=arguments.gguf,
    )
    sys.exit(uvloop.run(serve(settings, arguments.host, arguments.port)))


async def serve(settings: EngineSettings, host: str, port: int) -> int:
    """Serve until SIGTERM or SIGINT, then finish what runs; returns the exit code."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    # llama.cpp's server holds a thread for each open connection, so none is kept open.
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        engine = LlamaCppEngine(settings, session, _log)
        # A client that goes away cancels its handler, which cancels its request to llama.cpp.
        runner = web.AppRunner(
            Front(engine).app(), handler_cancellation=True, keepalive_timeout=KEEP_ALIVE_S, access_log=None
        )
        await runner.setup()
        site = web.TCPSite(runner, host, port)
        await site.start()
        try:
            starting = asyncio.create_task(engine.start())
            told = asyncio.create_task(stopping.wait())
            await asyncio.wait({starting, told}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                _log(f"llama.cpp serves {settings.base.name} on {host}:{port}")
                await told
            starting.cancel()
            await site.stop()
            await engine.close(SHUTDOWN_S)
        except (TurnoutError, OSError) as error:
            _log(f"ERROR: {error}")
            return 1
        finally:
            await engine.close(0)
            with suppress(asyncio.CancelledError):
                await runner.cleanup()
    return 0


def _log(text: str) -> None:
    print(text, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m serving.llama_cpp", description=__doc__)
    parser.add_argument("--base", required=True, help="the base as JSON (turnout.references.Base)")
    parser.add_argument(
        "--settings", required=True, help="llama.cpp's settings as JSON (serving.config.LlamaCppConfig)"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--max-model-len", type=int, default=2048, help="tokens that a request and its answer may have")
    parser.add_argument("--max-lora-rank", type=int, default=512)
    parser.add_argument("--max-loras", type=int, default=4, help="adapters that may be loaded at a time")
    parser.add_argument("--gguf", type=Path, help="serve this file in place of the one that is made of the base")
    return parser


if __name__ == "__main__":
    main()
