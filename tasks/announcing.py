"""What a switch of traffic did, as plain values and in words."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from registry.names import called

if TYPE_CHECKING:
    from serving.releasing import Switch


def outcome(switch: "Switch", percent: float | None = None) -> dict[str, Any]:
    """The values that `--json` prints and the Prefect flows return.

    `from` is the champion before, or the canary or shadow that was ended; `percent` the share that one begins with.
    """
    return {
        "name": switch.name,
        "kind": switch.kind,
        "from": switch.before,
        "to": switch.to,
        "percent": percent,
        "changed": switch.changed,
        "seconds": round(switch.seconds, 4),
        "generation": switch.generation,
        "loaded_now": switch.loaded_now,
        "pending": list(switch.pending),
        "warnings": list(switch.warnings),
    }


def sentence(result: Mapping[str, Any]) -> str:
    """One line for people about an outcome."""
    name, to, before, event = result["name"], called(result["to"]), called(result["from"]), result["generation"]
    if not result["changed"]:
        return f"{name}: {to} is in place already (event {event})"
    share = f"{result['percent']:g} % of the requests to " if result["percent"] else "requests to "
    words = {
        "canary": f"{share}{to} as a canary beside {before}",
        "abort": f"{before} gets no more requests beside {to}",
        "shadow": f"copies of {share}{to} as the shadow of {before}",
    }
    what = words.get(result["kind"], f"{before} → {to}")
    loaded = ", loaded and probed first" if result["loaded_now"] else ""
    return f"{name}: {what} in {result['seconds']:.2f} s (event {event}){loaded}"


def notes(result: Mapping[str, Any]) -> list[str]:
    """What people must know beside the outcome: who has not switched yet, and the warnings."""
    pending = [f"{gateway} has not switched yet; it does so by itself" for gateway in result["pending"]]
    return [*pending, *result["warnings"]]


def page(result: Mapping[str, Any], approver: str = "") -> str:
    """The outcome as Markdown."""
    lines = [f"# {result['name']}: {result['kind']}", "", sentence(result), ""]
    lines += [f"- approved by {approver}"] if approver else []
    lines += [f"- {note}" for note in notes(result)]
    return "\n".join(lines).rstrip() + "\n"
