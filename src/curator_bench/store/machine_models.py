"""Reads the CPU model of each run on machines that share a name, or its host if the model is not recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import Connection, select

from curator_bench.store.backgrounds import Backgrounds
from curator_bench.store.tables import IS_HISTORY, RUNS
from curator_bench.values.machines import is_machine_name


def models_of_runs(connection: Connection) -> dict[int, str]:
    """Return the model by run id, of all runs on named machines that are of more than one model."""
    columns = RUNS.c.machine_id, RUNS.c.host, RUNS.c.circumstances
    named = [row for row in connection.execute(select(*columns).where(IS_HISTORY).distinct()) if _is_named(row[0])]
    backgrounds = Backgrounds(connection)
    models: dict[str, dict[tuple[str | None, str | None], str]] = defaultdict(dict)
    for machine, host, circumstances in named:
        if model := _cpu_model(backgrounds.of(None, circumstances).circumstances.get("machine")) or host:
            models[machine][host, circumstances] = model
    mixed = {machine: of for machine, of in models.items() if len(set(of.values())) > 1}
    runs = select(RUNS.c.id, *columns).where(RUNS.c.machine_id.in_(mixed), IS_HISTORY) if mixed else None
    found = connection.execute(runs) if runs is not None else ()
    return {run: mixed[machine][key] for run, machine, *rest in found if (key := (rest[0], rest[1])) in mixed[machine]}


def _is_named(machine: str | None) -> bool:
    return machine is not None and is_machine_name(machine)


def _cpu_model(machine: object) -> str | None:
    found = machine.get("cpu_model") if isinstance(machine, Mapping) else None
    return str(found) if found else None
