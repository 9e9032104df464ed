"""GPUs by name: memory, generation, bandwidth; and those of this machine."""

from collections.abc import Sequence
from dataclasses import dataclass

from serving import nvidia
from turnout.errors import BadInput

GIB = 2**30
MOST_GIB = 10_000
COMMON = ("T4", "L4", "A10G", "A40", "A100-80GB", "H100", "H200", "B200")
"""Shown where no GPU is named and this machine has none."""


@dataclass(frozen=True)
class Gpu:
    """`memory_mib` as nvidia-smi shows it; `bandwidth` in GB/s, 0 where unknown; `capability` is CUDA's."""

    name: str
    memory_mib: int
    generation: str
    capability: str
    bandwidth: int

    @property
    def memory_bytes(self) -> int:
        return self.memory_mib * 2**20


# Memory: `memory.total` of nvidia-smi (rocm-smi). Generation and capability: NVIDIA's list of CUDA GPUs. Bandwidth: the
# vendor's data sheet of each product.
KNOWN = (
    Gpu("T4", 15360, "Turing", "7.5", 320),
    Gpu("V100-16GB", 16384, "Volta", "7.0", 900),
    Gpu("V100-32GB", 32768, "Volta", "7.0", 900),
    Gpu("A10", 23028, "Ampere", "8.6", 600),
    Gpu("A10G", 23028, "Ampere", "8.6", 600),
    Gpu("RTX-3090", 24576, "Ampere", "8.6", 936),
    Gpu("A40", 46068, "Ampere", "8.6", 696),
    Gpu("A100-40GB", 40960, "Ampere", "8.0", 1555),
    Gpu("A100-80GB", 81920, "Ampere", "8.0", 2039),
    Gpu("L4", 23034, "Ada", "8.9", 300),
    Gpu("L40S", 46068, "Ada", "8.9", 864),
    Gpu("RTX-4090", 24564, "Ada", "8.9", 1008),
    Gpu("RTX-6000-Ada", 49140, "Ada", "8.9", 960),
    Gpu("H100", 81559, "Hopper", "9.0", 3350),
    Gpu("H100-PCIe", 81559, "Hopper", "9.0", 2039),
    Gpu("H200", 143771, "Hopper", "9.0", 4800),
    Gpu("RTX-5090", 32607, "Blackwell", "12.0", 1792),
    Gpu("B200", 183359, "Blackwell", "10.0", 8000),
    Gpu("MI300X", 196592, "CDNA3", "gfx942", 5300),
)
GENERATIONS = {"7.0": "Volta", "7.5": "Turing", "8.0": "Ampere", "8.6": "Ampere", "8.7": "Ampere", "8.9": "Ada"}


def find_gpus(name: str) -> list[Gpu]:
    """The GPUs that `name` means: the one of that name, or all whose names begin with it (A100: both sizes).

    Raises:
        BadInput: there is none; the message lists those that are known.
    """
    wanted = _plain(name)
    exact = [gpu for gpu in KNOWN if _plain(gpu.name) == wanted]
    exact = exact or [gpu for gpu in KNOWN if _is_memory(wanted.removeprefix(_plain(gpu.name)), gpu)]
    found = exact or [gpu for gpu in KNOWN if wanted and _plain(gpu.name).startswith(wanted)]
    if not found:
        raise BadInput(
            f"--gpu {name!r:.60} is not known",
            f"Use one of {', '.join(gpu.name for gpu in KNOWN)}; or give --gpu-memory GIB.",
        )
    return found


def _is_memory(text: str, gpu: Gpu) -> bool:
    """Whether `text`, the rest of a name, is the GPU's memory in GB, as in `H100 80GB`."""
    return text.isdigit() and abs(int(text) * 1024 - gpu.memory_mib) < 0.1 * gpu.memory_mib


def chosen_gpus(names: Sequence[str], memory_gib: float | None = None) -> list[Gpu]:
    """Those that are named, and one of `memory_gib` GiB; if neither is given this machine's, else common ones.

    Raises:
        BadInput: a name that is not known, or memory out of bounds.
    """
    found = [gpu for name in names for gpu in find_gpus(name)]
    if memory_gib is not None:
        if not 0 < memory_gib <= MOST_GIB:
            raise BadInput(f"--gpu-memory {memory_gib} is not above 0 and at most {MOST_GIB}", "Give GiB, such as 24.")
        found.append(Gpu(f"{memory_gib:g} GiB", round(memory_gib * 1024), "unknown", "", 0))
    return list(dict.fromkeys(found)) or own_gpus() or [gpu for name in COMMON for gpu in find_gpus(name)]


def _plain(name: str) -> str:
    """`NVIDIA A100-SXM4-80GB` and `a100 80gb` are `a10080`."""
    letters = "".join(letter for letter in name.lower() if letter.isalnum())
    for part in ("nvidia", "amd", "geforce", "instinct", "tesla", "sxm2", "sxm4", "sxm5", "sxm", "gb", "hbm3e", "hbm3"):
        letters = letters.replace(part, "")
    return letters


def own_gpus() -> list[Gpu]:
    """This machine's, each kind once, as its driver describes them; empty without NVIDIA's driver."""
    rows = nvidia.query("gpu", ["name", "memory.total", "compute_cap"])
    return list(dict.fromkeys(_described(name, int(memory), cap) for name, memory, cap in rows if memory.isdecimal()))


def _described(name: str, memory_mib: int, capability: str) -> Gpu:
    bandwidth = next((gpu.bandwidth for gpu in KNOWN if _plain(gpu.name) == _plain(name)), 0)
    return Gpu(name, memory_mib, generation(capability), capability, bandwidth)


def generation(capability: str) -> str:
    """The architecture of an NVIDIA GPU by its compute capability."""
    major = capability.partition(".")[0]
    return GENERATIONS.get(capability) or {"9": "Hopper", "10": "Blackwell", "12": "Blackwell"}.get(major, "unknown")
