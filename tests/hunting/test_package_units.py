"""What differs between two environments: packages that need each other are changed together, others one by one."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from curator_bench.hunting.package_units import Installed, changes_between, units_of


def packages(**named: str | tuple[str, ...]) -> dict[str, Installed]:
    """Packages by name: a version, or a version and requirements."""
    return {
        name: Installed(said) if isinstance(said, str) else Installed(said[0], said[1:]) for name, said in named.items()
    }


def units(before: Mapping[str, Installed], after: Mapping[str, Installed]) -> list[tuple[str, list[str]]]:
    """The units, each with the names of those it needs."""
    found = units_of(changes_between(before, after), before, after)
    assert all(max(unit.needs, default=-1) < number for number, unit in enumerate(found))
    return [(" ".join(sorted(one.names)), sorted(" ".join(found[n].names) for n in one.needs)) for one in found]


def test_packages_without_requirements_are_changed_one_by_one() -> None:
    before = packages(a="1", b="1", c="1", gone="1")
    after = packages(a="2", b="1", c="2", new="3")
    assert [str(one) for one in changes_between(before, after)] == [
        "a 1 → 2",
        "c 1 → 2",
        "gone removed (1)",
        "new added (3)",
    ]
    assert units(before, after) == [("a", []), ("c", []), ("gone", []), ("new", [])]


def test_a_new_version_needs_the_new_version_that_it_requires() -> None:
    before = packages(app=("1", "lib"), lib="1")
    after = packages(app=("2", "lib>=2"), lib="2")
    assert units(before, after) == [("lib", []), ("app", ["lib"])]


def test_an_old_version_that_refuses_the_new_one_of_another_is_changed_before_it() -> None:
    before = packages(app=("1", "lib<2"), lib="1")
    after = packages(app=("2", "lib"), lib="2")
    assert units(before, after) == [("app", []), ("lib", ["app"])]


def test_packages_that_need_each_other_are_one_unit() -> None:
    before = packages(app=("1", "lib==1"), lib="1", other="1")
    after = packages(app=("2", "lib==2"), lib="2", other="2")
    assert units(before, after) == [("other", []), ("app lib", [])]


def test_what_is_added_or_removed_moves_with_what_requires_it() -> None:
    before = packages(app=("1", "old"), old="1")
    after = packages(app=("2", "new"), new="1")
    assert units(before, after) == [("new", []), ("app", ["new"]), ("old", ["app", "new"])]


def test_requirements_of_other_machines_and_of_extras_that_are_not_there_bind_nothing() -> None:
    before = packages(app="1", lib="1", extra="1")
    requires = ("lib>=2; sys_platform == 'nowhere'", "lib>=2; extra == 'more'", "missing; extra == 'more'")
    assert units(before, packages(app=("2", *requires), lib="2", extra="1")) == [("app", []), ("lib", [])]


def test_requirements_of_an_extra_that_all_is_there_for_bind() -> None:
    before = packages(app="1", lib="1")
    assert units(before, packages(app=("2", "lib>=2; extra == 'more'"), lib="2")) == [("lib", []), ("app", ["lib"])]


def test_what_is_not_met_on_its_own_side_binds_nothing() -> None:
    before = packages(app="1", lib="1")
    after = packages(app=("2", "lib>=3", "a line that is no requirement"), lib="2")
    assert units(before, after) == [("app", []), ("lib", [])]


def test_every_mixed_environment_keeps_all_requirements() -> None:
    before = packages(a=("1", "b<2"), b=("1", "c==1"), c="1", d=("1", "a"), e="1")
    after = packages(a=("2", "b>=2"), b=("2", "c>=2"), c="2", d=("2", "a>=2", "e"), e="2")
    found = units_of(changes_between(before, after), before, after)
    for count in range(len(found) + 1):
        for some in itertools.combinations(range(len(found)), count):
            new = {name for number in some for name in found[number].names}
            if all(found[number].needs <= set(some) for number in some):
                mixed = {name: (after if name in new else before)[name] for name in before}
                assert units_of(changes_between(mixed, mixed), mixed, mixed) == []
                assert (mixed["a"].version == "2") is (mixed["b"].version == "2")
                assert mixed["b"].version == "1" or mixed["c"].version == "2"
                assert mixed["d"].version == "1" or mixed["a"].version == "2"
