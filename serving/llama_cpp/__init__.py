"""The llama.cpp engine: llama.cpp's own servers, behind the part of vLLM's HTTP surface that Turnout uses."""
