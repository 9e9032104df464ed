"""The gate's rules on losses: against the base, and against the champion on the new and on its own rows."""

from pathlib import Path

from registry.manifest import GateRule as Rule
from tasks.config import GateConfig
from tasks.gate.intervals import Interval, interval_of_difference
from tasks.scored_rows import RowLoss, read_rows
from turnout.errors import ScoringFailed
from turnout.references import Loss, Scores

ON_THE_NEW_ROWS = "not_worse_than_champion"
ON_ITS_OWN_ROWS = "not_worse_on_champions_rows"


def loss_rules(config: GateConfig, scores: Scores, champion_base: str | None) -> list[Rule]:
    """All rules on losses; figures, limits and intervals are in nats a token.

    Raises:
        ScoringFailed: the file with each row's loss is gone.
    """
    rows = read_rows(Path(scores.rows_path))
    if rows is None:
        raise ScoringFailed(f"{scores.rows_path} does not hold each row's loss any more", "Run the same command again.")
    rules = [_better_than_base(config, scores, rows)]
    if scores.champion is None:
        return [*rules, _no_comparison(config, champion_base)]
    rules.append(
        _not_worse(config, ON_THE_NEW_ROWS, scores.candidate, scores.champion, _against_champion(config, rows))
    )
    rules.append(_not_worse_on_its_own_rows(config, scores, rows))
    if config.better_than_champion_by is not None:
        rules.append(_better_than_champion(config.better_than_champion_by, config, scores, scores.champion, rows))
    return rules


def _better_than_base(config: GateConfig, scores: Scores, rows: dict[str, list[RowLoss]]) -> Rule:
    gain, least = round(scores.base.nats - scores.candidate.nats, 6), config.better_than_base_by
    interval = interval_of_difference(rows["base"], rows["candidate"], config.confidence, config.resamples)
    text = f"eval loss {scores.candidate.nats:.4f} against the base's {scores.base.nats:.4f}"
    return _better("better_than_base", gain, least, text, interval, config)


def _better_than_champion(
    least: float, config: GateConfig, scores: Scores, champion: Loss, rows: dict[str, list[RowLoss]]
) -> Rule:
    gain = round(champion.nats - scores.candidate.nats, 6)
    interval = interval_of_difference(rows["champion"], rows["candidate"], config.confidence, config.resamples)
    text = f"eval loss {scores.candidate.nats:.4f} against the champion's {champion.nats:.4f}"
    return _better("better_than_champion", gain, least, text, interval, config)


def _better(name: str, gain: float, least: float, text: str, interval: Interval | None, config: GateConfig) -> Rule:
    """ "Better" means that the whole interval says so."""
    if interval is None:
        return Rule(name, False, gain, least, f"{text}, on too few rows for an interval: at least 2 are needed")
    passed = interval[0] > least
    text += f": {gain:.4f} lower, {_words(interval, config)}"
    if least or not passed:
        text += f"; all of the interval must be over {least:.4f}"
    return Rule(name, passed, gain, least, text, interval)


def _no_comparison(config: GateConfig, champion_base: str | None) -> Rule:
    limit = config.worse_than_champion_by
    if champion_base is None:
        return Rule(ON_THE_NEW_ROWS, True, None, limit, "there is no other champion")
    text = f"the champion's base is {champion_base}: losses of two bases cannot be compared"
    return Rule(ON_THE_NEW_ROWS, config.new_base, None, limit, f"{text} (gate.new_base allows it)")


def _not_worse_on_its_own_rows(config: GateConfig, scores: Scores, rows: dict[str, list[RowLoss]]) -> Rule:
    if scores.own_champion is None or scores.own_candidate is None:
        text = f"not compared on other rows of the champion's own: {scores.own_note}"
        return Rule(ON_ITS_OWN_ROWS, True, None, config.worse_than_champion_by, text)
    interval = _against_champion(config, rows, "own_")
    rule = _not_worse(config, ON_ITS_OWN_ROWS, scores.own_candidate, scores.own_champion, interval)
    left_out = f" ({scores.own_left_out} rows left out that it was trained on)" if scores.own_left_out else ""
    return Rule(**vars(rule) | {"text": f"on the champion's own validation rows: {rule.text}{left_out}"})


def _against_champion(config: GateConfig, rows: dict[str, list[RowLoss]], side: str = "") -> Interval | None:
    candidate, champion = rows[f"{side}candidate"], rows[f"{side}champion"]
    return interval_of_difference(candidate, champion, config.confidence, config.resamples)


def _not_worse(config: GateConfig, name: str, candidate: Loss, champion: Loss, interval: Interval | None) -> Rule:
    """The mean decides; the interval says whether there is a difference at all."""
    limit = config.worse_than_champion_by
    loss = round(candidate.nats - champion.nats, 6)
    text = f"eval loss {candidate.nats:.4f} against the champion's {champion.nats:.4f}"
    if interval is not None:
        state = "better" if interval[1] < 0 else "worse" if interval[0] > 0 else "no clear difference"
        text += f": {loss:+.4f}, {_words(interval, config)}, {state}"
    return Rule(name, loss <= limit, loss, limit, f"{text}; at most {limit:+.4f} is allowed", interval)


def _words(interval: Interval, config: GateConfig) -> str:
    return f"{config.confidence * 100:.4g} % interval {interval[0]:.4f} to {interval[1]:.4f}"
