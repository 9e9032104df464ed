"""`python -m serving.llama_cpp.quantise SOURCE TARGET FORMAT THREADS`: llama.cpp's own quantiser, in a child."""

import sys

from serving.llama_cpp.parent import end_with_parent

FTYPES = {"Q4_0": 2, "Q8_0": 7, "Q4_K_M": 15, "Q5_K_M": 17}
"""llama.cpp's numbers of its formats (`llama_ftype`)."""


def main() -> None:
    end_with_parent()
    from cyllama.llama.llama_cpp import LlamaModelQuantizeParams, model_quantize

    source, target, kind, threads = sys.argv[1:]
    params = LlamaModelQuantizeParams()
    params.ftype, params.nthread = FTYPES[kind], int(threads)
    model_quantize(source, target, params)


if __name__ == "__main__":
    main()
