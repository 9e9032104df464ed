"""How `turnout capacity` answers people: tables, each with a line that says what it means."""

from typing import Any

from flows.output import err, out

GIB = 2**30


def show(result: dict[str, Any]) -> None:
    _show_model(result)
    if result["weights_bytes"]:
        _show_weights(result)
        _show_gpus(result)
    else:
        err.print("The weights' size is not known: nothing is said about GPUs.", style="yellow")
    if result["cost"]["hourly"] is not None or result["cost"]["api_per_1k_requests"] is not None:
        _show_cost(result["cost"])
    for note in result["notes"]:
        err.print(note)


def _show_model(result: dict[str, Any]) -> None:
    size = f", {result['parameters']:,} parameters" if result["parameters"] else ""
    out.print(f"{result['model']}: {result['architecture']}{size}", style="bold")
    request = size_of(result["kv_bytes_per_request"])
    out.print(
        f"KV cache ({result['kv_dtype']}): {result['kv_bytes_per_token']:,} bytes a token, "
        f"{request} a request of {result['context']:,} tokens"
    )
    if result["users"]:
        out.print(f"{result['users']} users of the whole context: {size_of(result['kv_bytes_for_users'])}")
    if result["lora_bytes"]:
        out.print(f"LoRA adapters: {size_of(result['lora_bytes'])}")


def _show_weights(result: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(title="Weights", title_justify="left")
    table.add_column("precision")
    table.add_column("size", justify="right")
    table.add_column("of bf16", justify="right")
    plain = result["weights_bytes"]["bf16"]
    for name, size in sorted(result["weights_bytes"].items(), key=lambda item: -item[1]):
        table.add_row(name, size_of(size), f"{size / plain:.0%}", style="bold" if name == result["precision"] else "")
    out.print(table)


def _show_gpus(result: dict[str, Any]) -> None:
    from rich.table import Table

    context, mean = f"{result['context']:,}", f"{result['mean_tokens']:,}"
    title = f"Users at a time, weights in {result['precision']}"
    table = Table(title=title, title_justify="left")
    for column in ("GPU", "memory", "KV cache", f"users of {context}", f"paged, of {mean}", "static", "static wastes"):
        table.add_column(column, justify="left" if column == "GPU" else "right")
    for row in result["gpus"]:
        name = row["gpu"] if row["count"] == 1 else f"{row['count']} × {row['gpu']}"
        figures = (row["memory_bytes"], row["kv_cache_bytes"])
        users = (row["max_concurrent"], row["paged"]["users"], row["static"]["users"])
        style = "" if row["enough"] else "red"
        waste = f"{row['static']['waste_share']:.1%}"
        table.add_row(name, *map(size_of, figures), *(f"{each:,}" for each in users), waste, style=style)
    out.print(table)
    out.print(f"paged: blocks are taken as tokens come, so users who need {mean} tokens share what is left.")
    out.print(f"static: {context} tokens are reserved for every user, and what a mean user leaves of them is wasted.")
    for row in result["gpus"]:
        if not row["enough"]:
            short = f", {size_of(row['short_bytes'])} short of one" if row["short_bytes"] else ""
            ways = " or ".join(row["ways_to_fit"]) or "a smaller model, or a shorter --context"
            more = f", or {row['replicas_for_users']} such engines" if row["replicas_for_users"] else ""
            out.print(f"{row['gpu']}: holds {row['max_concurrent']}{short}; try {ways}{more}", style="red")
        out.print(f"{row['gpu']} ({row['generation']}): {row['advice']['precision']}; {row['advice']['reason']}")


def _show_cost(cost: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(title="Cost", title_justify="left", show_header=False)
    names = {
        "hourly": "hardware, an hour",
        "requests_per_hour": "requests an hour",
        "tokens_per_second": "generated tokens a second",
        "per_1k_requests": "a thousand requests",
        "per_million_tokens": "a million generated tokens",
        "api_per_1k_requests": "a thousand requests by the API",
        "break_even_requests_per_hour": "requests an hour from which the hardware is cheaper",
        "cheaper": "cheaper at this throughput",
    }
    for key, name in names.items():
        if cost[key] is not None:
            measured = key in ("requests_per_hour", "tokens_per_second")
            table.add_row(
                name, cost[key] if key == "cheaper" else f"{cost[key]:,.1f}" if measured else f"{cost[key]:,}"
            )
    out.print(table)
    if cost["source"]:
        out.print(f"Throughput from {cost['source']}; the cost holds for that model and machine.")


def size_of(count: float) -> str:
    """Bytes for people, in GB or MB of powers of ten, with GiB beside GB as GPUs count."""
    if count < 1e9:
        return f"{count / 1e6:,.1f} MB"
    return f"{count / 1e9:,.1f} GB ({count / GIB:,.1f} GiB)"
