"""What the reconciler does besides loading and routing: canaries, aliases moved by hand, processes that died, and
proofs that an engine's upgrade made stale."""

from typing import TYPE_CHECKING

from registry.aliases import find_moved, write_view
from registry.releases import Release, append, default_actor, fold, read_log
from serving import canarying
from serving.gateway.launching import launch_workers
from serving.gateway.records import config_file, kept_config
from serving.proving import clear_leftovers
from serving.reconciling import Problems, Reconciler
from serving.refilling import refill, revive
from serving.reproving import Reprover
from turnout.errors import RegistryConflict, RegistryUnavailable, TurnoutError

if TYPE_CHECKING:
    from mlflow import MlflowClient


class Upkeep:
    """`moved` remembers, from one pass to the next, which alias was found where the log does not have it: a release
    that is just being written looks like that for a moment."""

    def __init__(self, reconciler: Reconciler) -> None:
        self._reconciler = reconciler
        self._moved: dict[str, tuple[int, int]] = {}
        self._reprover = Reprover(reconciler.home)

    def start_processes(self) -> list[str]:
        """Start engines and gateway workers that died or are missing; returns what there is to say about them."""
        home = self._reconciler.home
        clear_leftovers(home)
        problems = [*revive(home), *refill(home)]
        if not config_file(home).exists():
            return problems
        config = kept_config(home)
        if config is None:  # started with the defaults, workers would listen on a port that nobody chose
            return [*problems, f"{config_file(home)} cannot be read: turnout up writes it anew"]
        try:
            launch_workers(home, config)
        except TurnoutError as error:
            problems.append(error.message)
        return problems

    def tend_names(self) -> tuple[bool, Problems]:
        """Tend canaries, aliases and stale proofs; whether the log has something new, and what is wrong."""
        changed, problems = False, self._reprover.tend()
        for name, desired in self._reconciler.desired.items():
            try:
                client = self._reconciler.follower.client
                changed |= canarying.tend(self._reconciler.home, client, name, desired.release)
                problem, moved = self._tend_alias(client, name, desired.release)
            except RegistryUnavailable:
                break  # the pass says so
            changed |= moved
            if problem:
                problems[name] = (*problems.get(name, ()), problem)
        return changed, problems

    def _tend_alias(self, client: "MlflowClient", name: str, release: Release) -> tuple[str, bool]:
        """Why an alias moved by hand does not count, and whether one did."""
        found = find_moved(client, name, release)
        seen = self._moved.pop(name, None)
        if found is None:
            return "", False
        self._moved[name] = (found, release.generation)
        if seen != self._moved[name]:
            return "", False
        try:
            self._reconciler.prepare(name, found)
            reason = "the alias champion was moved in MLflow"
            append(
                client, name, kind="manual", champion=found, parent=release.head, reason=reason, actor=default_actor()
            )
        except RegistryConflict:
            return "", True
        except RegistryUnavailable:
            raise
        except TurnoutError as error:
            why = f"the alias champion was moved to v{found} by hand, and traffic stays on v{release.champion}"
            return f"{why}: {error.message}", False
        write_view(client, name, fold(read_log(client, name, after=release.head), release))
        return "", True
