"""`python -m serving.llama_cpp.convert SCRIPT ARGUMENT…`: one of llama.cpp's own converters, as a child process."""

import runpy
import sys
from pathlib import Path

from serving.llama_cpp.parent import end_with_parent


def main() -> None:
    end_with_parent()
    script = sys.argv[1]
    # Optional libraries that Transformers imports where they exist; a conversion needs none of them.
    for name in ("sklearn", "pandas", "scipy", "torchvision", "vllm"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
