"""What changed between two runs is everything that was recorded and differs; what was looked at is said."""

from __future__ import annotations

from dataclasses import replace

from curator_bench.causes import wording
from curator_bench.causes.what_changed import CommitRange, Difference, Facts, Kind, WhatChanged, flat, what_changed

OLD, NEW = "0123456789abcdef0000", "fedcba98765432100000"
KNOWN = Facts(
    commits={"": OLD, "ray": "2.59"},
    definition={"args.0": "--n 1"},
    sources={"work.py": "a = 1\nprint(a)\n"},
    content_hash="c1",
    parameters={"scale": "100"},
    packages={"numpy": "1.26.4", "ray": "2.59", "gone": "1"},
    configuration={"repeat": "1"},
    machine={"kernel": "6.1", "cpu_model": "A", "microcode": "0x1"},
    environment={"THREADS": "k:1", "OLD": "k:2"},
)


def test_each_kind_of_fact_is_told() -> None:
    after = replace(
        KNOWN,
        commits={"": NEW, "ray": "2.60"},
        definition={"args.0": "--n 1", "env.MORE": "x"},
        sources={"work.py": "a = 2\nprint(a)\n"},
        content_hash="c2",
        parameters={"scale": "1000"},
        packages={"numpy": "2.0.1", "ray": "2.60", "new": "3"},
        configuration={"repeat": "3"},
        machine={"kernel": "6.5", "cpu_model": "A"},
        environment={"THREADS": "k:3", "NEW": "k:4"},
    )
    text = wording.text(what_changed(KNOWN, after), lambda of, *_: None if of else ["fedcba9 Ann: make it slow"])
    assert text == [
        "commits 0123456789ab..fedcba987654",
        "  fedcba9 Ann: make it slow",
        "ray 2.59 → 2.60",
        "definition: env.MORE added (x)",
        "code:",
        "  --- work.py before",
        "  +++ work.py after",
        "  @@ -1,2 +1,2 @@",
        "  -a = 1",
        "  +a = 2",
        "   print(a)",
        "parameters: scale 100 → 1000",
        "packages: gone removed (1), new added (3), numpy 1.26.4 → 2.0.1",
        "configuration: repeat 1 → 3",
        "machine: kernel 6.1 → 6.5",
        "environment: NEW added, OLD removed, THREADS changed",
    ]


def test_where_nothing_differs_it_says_what_was_looked_at() -> None:
    assert wording.text(what_changed(KNOWN, KNOWN)) == [
        "nothing that was recorded changed: commits, definition, parameters, packages, configuration, machine,"
        " environment are the same"
    ]


def test_what_was_not_recorded_is_said() -> None:
    older = replace(KNOWN, packages=None, environment=None)
    assert wording.text(what_changed(older, KNOWN)) == [
        "nothing that was recorded changed: commits, definition, parameters, configuration, machine are the same",
        "not recorded, so not compared: packages, environment",
    ]


def test_a_comment_is_no_change_of_code() -> None:
    commented = replace(KNOWN, sources={"work.py": "# a comment\na = 1\nprint(a)\n"})
    assert what_changed(KNOWN, commented).is_nothing


def test_changes_without_a_commit_are_told() -> None:
    found = what_changed(KNOWN, replace(KNOWN, changed=frozenset({""})))
    assert found.commits == (CommitRange("", OLD, OLD, changed=True),)
    assert wording.text(found)[0] == "commits 0123456789ab with changes that are not committed"


def test_a_fact_of_the_machine_that_was_not_known_then_is_no_change() -> None:
    less = replace(KNOWN, machine={"kernel": "6.1"})
    assert what_changed(less, KNOWN).is_nothing


def test_hashes_of_different_keys_are_not_compared() -> None:
    elsewhere = replace(KNOWN, environment={"THREADS": "other:9", "OLD": "other:8"})
    assert what_changed(KNOWN, elsewhere).is_nothing


def test_markdown_is_safe_for_any_name_and_any_code() -> None:
    hostile = WhatChanged(
        differences=(Difference(Kind.PARAMETERS, "<img>", "a|b", "@everyone"),), code=("+```", "+\x1b[2J")
    )
    lines = wording.markdown(hostile)
    assert "  ````diff" in lines
    assert not {"<", "@", "\x1b"} & set("".join(lines))


def test_json_has_all_of_it() -> None:
    found = what_changed(KNOWN, replace(KNOWN, parameters={"scale": "7"}, environment=None))
    assert wording.document(found) == {
        "commits": [],
        "differences": [{"kind": "parameters", "name": "scale", "before": "100", "after": "7"}],
        "code": [],
        "same": ["commits", "definition", "packages", "configuration", "machine"],
        "not_recorded": ["environment"],
    }


def test_nested_facts_have_one_name_each() -> None:
    assert flat({"ray": {"num_cpus": 2, "resources": {"disk": 1}}, "args": ["--n", 1]}) == {
        "ray.num_cpus": "2",
        "ray.resources.disk": "1",
        "args": "--n 1",
    }
