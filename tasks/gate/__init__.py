"""The gate: what a candidate must show before it gets traffic."""

from tasks.gate.verdict import Rule, Verdict, judge

__all__ = ["Rule", "Verdict", "judge"]
