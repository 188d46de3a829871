"""`${VARIABLE}` and `${VARIABLE:-default}`: what they become, and whom an undefined one hurts."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.errors import MatrixError
from curator_bench.matrix import command_of
from curator_bench.matrix.definition import definition_hash
from curator_bench.matrix.variables import Variables

if TYPE_CHECKING:
    from matrix.conftest import Folder


@pytest.mark.parametrize(
    ("text", "filled", "missing"),
    [
        ("${A}", "one", ()),
        ("x${A}y${A}z", "xoneyonez", ()),
        ("${A:-default}", "one", ()),
        ("${EMPTY}", "${EMPTY}", ("EMPTY",)),
        ("${EMPTY:-default}", "default", ()),
        ("${NONE:-}", "", ()),
        ("${NONE:-a b:c}", "a b:c", ()),
        ("${NONE:-${A}}", "one", ()),
        ("${NONE:-${OTHER:-last}}", "last", ()),
        ("${NONE:-${OTHER}}", "${OTHER}", ("OTHER",)),
        ("${NONE:-{datasets_path}/x}", "{datasets_path}/x", ()),
        ("${NONE:-$A and $}", "$A and $", ()),
        ("${NONE} ${OTHER} ${NONE}", "${NONE} ${OTHER} ${NONE}", ("NONE", "OTHER")),
        ("$${A}", "${A}", ()),
        ("$$${A}", "$${A}", ()),
        ("$A ${1} ${A-x} ${} ${A", "$A ${1} ${A-x} ${} ${A", ()),
        ("${BRACES}", "{name} ${A}", ()),
    ],
)
def test_what_a_text_becomes_and_what_it_misses(text: str, filled: str, missing: tuple[str, ...]) -> None:
    variables = Variables({"A": "one", "EMPTY": "", "BRACES": "{name} ${A}"})
    assert variables.fill(text) == (filled, missing)


def test_a_disabled_block_is_not_looked_at(folder: Folder) -> None:
    matrix = folder.load(
        """\
        sinks:
          - {name: mlflow, tracking_uri: "${MLFLOW}", enabled: false}
        data_setups: [{name: setup, enabled: false, args: "${SETUP} {nothing}"}]
        subjects: [{package: "${SUBJECT}", enabled: false}]
        entries:
          - {name: left_out, enabled: false, timout_s: "${OFF}", args: "'{unknown} ${OFF}", requirements: 7}
          - name: kept
            script: run.py
            requirements:
              - {metric: speed, enabled: false, mn_value: "${SPEED}"}
              - {metric: recall, min_value: 1, enabled: true}
            sink_data: [{name: slack, enabled: false, ping: "${USER_ID}"}]
        """,
        strict=True,
    )
    (kept,) = matrix.entries
    assert (kept.name, kept.problems, matrix.warnings) == ("kept", (), ())
    assert [requirement.metric for requirement in kept.requirements] == ["recall"]
    assert (kept.sink_data, matrix.files[0].sinks, matrix.files[0].data_setups) == ({}, (), ())


@pytest.mark.parametrize("switch", ["${ON:-false}", '"${ON:-false}"', "${OFF}", '"${OFF}"'])
def test_a_variable_can_be_the_switch(folder: Folder, switch: str) -> None:
    text = f"entries:\n  - {{name: a, script: b}}\n  - name: c\n    script: d\n    enabled: {switch}\n"
    assert [entry.name for entry in folder.load(text, variables={"OFF": "no"}).entries] == ["a"]


def test_a_sink_with_an_undefined_variable_is_off_with_a_warning(folder: Folder) -> None:
    matrix = folder.load(
        """\
        sinks:
          - {name: slack, channel_id: "${SLACK_CHANNEL_ID}", options: {deep: ["${DEEP}"]}}
          - {name: mlflow, tracking_uri: "${MLFLOW_TRACKING_URI:-http://localhost}"}
        entries: [{name: a, script: b}]
        """
    )
    slack, mlflow = matrix.files[0].sinks
    assert slack.problems == (
        "matrix.yaml:2: sinks[slack].channel_id: environment variable SLACK_CHANNEL_ID is not set",
        "matrix.yaml:2: sinks[slack].options.deep[0]: environment variable DEEP is not set",
    )
    assert matrix.warnings == (f"the sink slack is off: {slack.problems[0]}; {slack.problems[1]}",)
    assert (mlflow.problems, mlflow.settings) == ((), {"tracking_uri": "http://localhost"})
    assert matrix.entries[0].problems == ()


IN_AN_ENTRY = {
    "args": "args: --in ${X}",
    "in quotes in args": "args: \"--in '${X} and more'\"",
    "the default of another": "args: --in ${Y:-${X}}",
    "env": "env: {A: '${X}'}",
    "environment": "environment: {A: '${X}'}",
    "script": "script: ${X}/run.py",
    "python": "python: ${X}",
    "script_base_dir": "script_base_dir: ${X}",
    "timeout_s": "timeout_s: ${X}",
    "repeat": "repeat: ${X}",
    "delete_scratch": "delete_scratch: ${X}",
    "marks": "marks: ['${X}']",
    "all marks": "marks: ${X}",
    "a bound": "requirements: [{metric: speed, min_value: '${X}'}]",
    "all requirements": "requirements: ${X}",
    "a requirement": "requirements: ['${X}']",
    "ray": "ray: {num_cpus: '${X}'}",
    "all of ray": "ray: ${X}",
    "object_store_size": "object_store_size: ${X}",
    "gpu_mem_use_warning_threshold": "gpu_mem_use_warning_threshold: ${X}",
    "sink_data": "sink_data: [{name: slack, ping_on_failure: ['${X}']}]",
    "all sink_data": "sink_data: ${X}",
    "an item of sink_data": "sink_data: ['${X}']",
    "requires": "requires: [a, '${X}']",
    "requires_programs": "requires_programs: [a, '${X}']",
    "gpu_check": "gpu_check: ${X}",
    "enabled": "enabled: ${X}",
    "an axis": "matrix: {size: ['${X}']}",
    "beside an axis that needs a number": "matrix: {cpus: [1]}\n    ray: {num_cpus: '{cpus}', memory: '${X}'}",
}


@pytest.mark.parametrize("line", IN_AN_ENTRY.values(), ids=IN_AN_ENTRY.keys())
def test_an_entry_with_an_undefined_variable_has_a_problem_that_names_it_and_the_others_run(
    folder: Folder, line: str
) -> None:
    script = "" if line.startswith("script:") else "script: run.py"
    text = (
        f"entries:\n  - {{name: fine, script: run.py, args: '${{HOME_}}'}}\n  - name: hurt\n    {line}\n    {script}\n"
    )
    fine, hurt = folder.load(text, variables={"HOME_": "x"}).entries
    assert fine.problems == ()
    (problem,) = hurt.problems
    assert problem.startswith("matrix.yaml:")
    assert "entries[hurt]" in problem
    assert problem.endswith(": environment variable X is not set")


@pytest.mark.parametrize("line", IN_AN_ENTRY.values(), ids=IN_AN_ENTRY.keys())
def test_strict_makes_an_undefined_variable_a_mistake(folder: Folder, line: str) -> None:
    script = "" if line.startswith("script:") else "script: run.py"
    text = f"entries:\n  - name: hurt\n    {line}\n    {script}\n"
    (mistake,) = folder.mistakes(text, strict=True)
    assert mistake.endswith(": environment variable X is not set")


def test_an_entry_whose_very_name_is_undefined_is_a_mistake_only_where_it_cannot_be_a_name(folder: Folder) -> None:
    (entry,) = folder.load("entries: [{name: 'a-${X}', script: b}]").entries
    assert entry.problems == ("matrix.yaml:1: entries[a-${X}].name: environment variable X is not set",)
    assert folder.mistakes("entries: [{name: ' ${X}', script: b}]") == [
        "matrix.yaml:1: entries[ ${X}].name: environment variable X is not set"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "env: {A: '${X}'}",
        "marks: ['${X}']",
        "default_timeout_s: ${X}",
        "timeout_s: ${X}",
        "max_timeout_s: ${X}",
        "delete_scratch: ${X}",
        "object_store_size: ${X}",
        "gpu_mem_use_warning_threshold: ${X}",
        "script_base_dir: ${X}",
        "artifacts_dir: ${X}/big",
        "results_dir: ${X}",
        "paths: ${X}",
        "datasets: ['${X}']",
    ],
)
def test_what_every_entry_needs_hurts_every_entry(folder: Folder, line: str) -> None:
    matrix = folder.load(f"{line}\nentries: [{{name: a, script: b}}, {{name: c, script: d}}]\n")
    for entry in matrix.entries:
        (problem,) = entry.problems
        assert problem.startswith("matrix.yaml:1: ")
        assert problem.endswith("environment variable X is not set")
    assert matrix.files[0].results_dir is None


def test_ray_defaults_hurt_the_entries_that_take_them(folder: Folder) -> None:
    with_cluster, without = folder.load(
        "ray: {num_cpus: '${X}'}\nentries: [{name: a, script: b}, {name: c, script: d, ray: false}]\n"
    ).entries
    assert with_cluster.problems == ("matrix.yaml:1: entries[a].ray.num_cpus: environment variable X is not set",)
    assert (without.problems, without.ray) == ((), None)


def test_what_no_entry_needs_is_left_out_with_a_warning(folder: Folder) -> None:
    matrix = folder.load(
        """\
        run_reason: ${WHY}
        viewer_url: http://${HOST}/
        subjects: [ray, "${SUBJECT}"]
        gpu_stats_recorder: {interval_s: "${INTERVAL}"}
        cleanup_timeout_s: ${CLEANUP}
        entries: [{name: a, script: b}]
        """
    )
    (file,) = matrix.files
    assert (file.run_reason, file.viewer_url, file.subjects) == (None, None, ())
    assert (file.gpu_stats_interval_s, file.cleanup_timeout_s) == (1.0, None)
    assert matrix.entries[0].problems == ()
    assert matrix.warnings == (
        "matrix.yaml:1: run_reason: environment variable WHY is not set; it is left out",
        "matrix.yaml:2: viewer_url: environment variable HOST is not set; it is left out",
        "matrix.yaml:3: subjects[1]: environment variable SUBJECT is not set; it is left out",
        "matrix.yaml:4: gpu_stats_recorder.interval_s: environment variable INTERVAL is not set; it is left out",
        "matrix.yaml:5: cleanup_timeout_s: environment variable CLEANUP is not set; it is left out",
    )


def test_a_path_and_a_dataset_hurt_those_that_use_them(folder: Folder) -> None:
    matrix = folder.load(
        """\
        paths:
          - {name: datasets_path, host_path: "${DATASETS}"}
          - {name: models, host_path: ./models}
          - {name: wikipedia, host_path: "{datasets_path}/wiki"}
        datasets:
          - {name: cc, formats: [{type: jsonl, path: "{datasets_path}/cc"}, {type: parquet, path: ./cc}]}
          - {name: made, formats: [{type: jsonl, path: ./made}], generate: {script: make.py, args: "--key ${KEY}"}}
        data_setups: [{name: setup, script: prepare.py, args: "--to {datasets_path}"}]
        entries:
          - {name: path, script: a, args: "{datasets_path}/x"}
          - {name: path_of_path, script: a, args: "{wikipedia}"}
          - {name: dataset, script: a, args: "{dataset:cc,jsonl}"}
          - {name: generated, script: a, args: "{dataset:made,jsonl}"}
          - {name: other_path, script: a, args: "{models}/x"}
          - {name: other_format, script: a, args: "{dataset:cc,parquet}"}
        """
    )
    problem = "matrix.yaml:2: paths[datasets_path].host_path: environment variable DATASETS is not set"
    problems = {entry.name: entry.problems for entry in matrix.entries}
    assert problems.pop("other_path") == problems.pop("other_format") == ()
    assert problems.pop("generated") == (
        "matrix.yaml:7: datasets[made].generate.args: environment variable KEY is not set",
    )
    assert all(problem in told for (told,) in problems.values())
    assert problem in matrix.files[0].data_setups[0].problems[0]


def test_strict_tells_every_undefined_variable_of_the_file(folder: Folder) -> None:
    mistakes = folder.mistakes(
        """\
        run_reason: ${A}
        env: {X: "${B}"}
        paths: [{name: unused, host_path: "${C}"}]
        datasets: [{name: d, formats: [{type: t, path: "${D}"}], generate: {script: "${E}", args: "${F}"}}]
        data_setups: [{name: s, script: p, args: "${G}"}]
        sinks: [{name: slack, channel: "${H} ${I}"}]
        entries: [{name: e, script: s, args: "${J}", requirements: {m: {min_value: "${K}"}}}]
        """,
        strict=True,
    )
    assert [mistake.split(": environment ")[0] for mistake in mistakes] == [
        "matrix.yaml:1: run_reason",
        "matrix.yaml:2: env.X",
        "matrix.yaml:3: paths[unused].host_path",
        "matrix.yaml:4: datasets[d].formats[t].path",
        "matrix.yaml:4: datasets[d].generate.args",
        "matrix.yaml:4: datasets[d].generate.script",
        "matrix.yaml:5: data_setups[s].args",
        "matrix.yaml:6: sinks[slack].channel",
        "matrix.yaml:7: entries[e].args",
        "matrix.yaml:7: entries[e].requirements[m].min_value",
    ]
    assert mistakes[7].endswith("environment variables H, I are not set")


def test_strict_does_not_mind_an_escaped_one(folder: Folder) -> None:
    text = "run_reason: $${A}\nentries: [{name: a, script: b, args: '$${B}', env: {C: '$${D}'}}]\n"
    (entry,) = folder.load(text, strict=True).entries
    assert entry.file.run_reason == "${A}"
    command = command_of(entry, {"B": "x", "D": "y"})
    assert (command.args, command.env) == (("${B}",), {"C": "${D}"})


def test_variables_are_filled_in_where_a_key_only_looks_like_one_of_an_entry(folder: Folder) -> None:
    matrix = folder.load(
        """\
        slack: {args: "${X}", env: {A: "${X}"}}
        sinks: [{name: mine, args: "${X}", env: {A: "${X}"}}]
        entries:
          - name: a
            script: b
            matrix: {env: ["${X}"], args: {one: {args: "${X}", env: "${X}"}}}
            include: [{env: "${X}", more: "${X}"}]
            args: "{env} {args.args} {args.env} {more}"
            sink_data: [{name: mine, args: "${X}"}]
        """,
        variables={"X": "value"},
    )
    settings = {"args": "value", "env": {"A": "value"}}
    assert [sink.settings for sink in matrix.files[0].sinks] == [settings, settings]
    (entry,) = matrix.entries
    assert (entry.id, entry.sink_data) == ("a[value-one]", {"mine": {"args": "value"}})
    assert command_of(entry, {}).args == ("value", "value", "value", "value")


def test_numbers_and_switches_may_come_from_quoted_variables(folder: Folder) -> None:
    """Inside { } a variable has to be quoted, and is no text for that."""
    entry = folder.entry(
        """\
        entries:
          - name: a
            script: b
            timeout_s: "${T}"
            delete_scratch: "${NO}"
            object_store_size: "${FRACTION}"
            ray: {num_cpus: "${N}", memory: "${SIZE}", reuse: "${YES}", resources: {disk: "${N}"}}
            requirements: [{metric: m, exact_value: "${FRACTION}"}, {metric: n, min_value: "${N}"}]
            env: {N: "${N}", YES: "${YES}"}
            sink_data: [{name: slack, n: "${N}"}]
        """,
        variables={"T": "1e3", "NO": "no", "FRACTION": "0.30", "N": "8", "SIZE": "8GiB", "YES": "true"},
    )
    assert (entry.timeout_s, entry.delete_scratch) == (1000, False)
    assert entry.ray is not None
    assert (entry.ray.num_cpus, entry.ray.memory, entry.ray.reuse) == (8, 8 * 2**30, True)
    assert (entry.ray.object_store_size, entry.ray.resources) == (0.3, {"disk": 8})
    assert [(r.exact_value, r.min_value) for r in entry.requirements] == [(0.3, None), (None, 8)]
    assert entry.sink_data == {"slack": {"n": "8"}}
    assert command_of(entry, {"N": "8", "YES": "true"}).env == {"N": "8", "YES": "true"}


def test_a_value_that_came_from_a_variable_is_an_ordinary_one(folder: Folder) -> None:
    """Nothing of how it was read is left in what goes to workers and other machines."""
    matrix = folder.load(
        """\
        results_dir: ${X}
        marks: ["${X}"]
        paths: [{name: p, host_path: "${X}"}]
        sinks: [{name: "${X}", list: ["${X}"]}]
        entries:
          - name: ${X}
            script: ${X}
            matrix: {axis: ["${X}", "${N}"], named: {"b": {field: "${X}"}}}
            requires: ["${X}"]
            requirements: [{metric: "${X}", exact_value: "${X}"}]
            sink_data: [{name: "${X}", y: "${X}"}]
        """,
        variables={"X": "value", "N": "1"},
    )

    def check(part: Any) -> None:
        assert type(part).__module__ in (
            "builtins",
            "curator_bench.values.matrix",
            "curator_bench.masking",
            "types",
            "enum",
        ), type(part)
        if isinstance(part, dict):
            check([*part, *part.values()])
        elif isinstance(part, list | tuple | frozenset):
            for inner in part:
                check(inner)
        elif hasattr(type(part), "__dataclass_fields__"):
            check([getattr(part, name) for name in part.__dataclass_fields__])

    check(matrix)
    assert pickle.loads(pickle.dumps(matrix)) == matrix


TOKEN = "tok-" + "s3cr3t'\\" * 20


def test_a_secret_does_not_show_in_mistakes(folder: Folder) -> None:
    """Not where it is cut short, escaped or part of a name either."""
    text = """\
        results_dir: [a]
        sinks: [{name: ["${API_TOKEN}"]}, {name: slack, webhook_url: "hooks/literal-secret"}]
        entries:
          - name: a ${API_TOKEN}
            script: b
            timeout_s: ${API_TOKEN}
            repeat: "x ${API_TOKEN} y"
            marks: ["${API_TOKEN}"]
            requirements: [{metric: "${API_TOKEN}"}]
            matrix: {x: "${API_TOKEN}", y: ["${API_TOKEN}", "${API_TOKEN}"]}
            exclude: [{y: "z${API_TOKEN}"}, "${API_TOKEN}"]
            args: "{unknown} ${API_TOKEN} '"
            env: {PASSWORD: "${API_TOKEN}"}
    """
    with pytest.raises(MatrixError) as caught:
        folder.load(text, variables={"API_TOKEN": TOKEN})
    assert len(caught.value.mistakes) >= 9
    assert_hidden(str(caught.value))


def test_a_secret_does_not_show_where_two_files_differ(folder: Folder) -> None:
    sinks = 'sinks: [{{name: slack, {filler}url: "${{WEBHOOK}}", token: literal-secret-of-{file}}}]\n'
    for filler in ("", f"filler: {'x' * 200}, "):
        files = [sinks.format(filler=filler, file=file) + f"entries: [{{name: {file}, script: s}}]\n" for file in "ab"]
        (mistake,) = folder.mistakes(*files, variables={"WEBHOOK": TOKEN})
        assert mistake.startswith("matrix_2.yaml:1: sinks: found [{'name': 'slack', ")
        assert "expected what matrix.yaml:1 has" in mistake
        assert_hidden(mistake)


def test_a_secret_does_not_show_as_a_whole_file(folder: Folder) -> None:
    for text in ("${API_TOKEN}", "entries: ${API_TOKEN}", "a: {<<: '${API_TOKEN}'}"):
        for mistake in folder.mistakes(text, variables={"API_TOKEN": TOKEN}):
            assert_hidden(mistake)


def assert_hidden(text: str) -> None:
    assert "s3cr3t" not in text
    assert "literal-secret" not in text


def test_secrets_are_known_to_whoever_writes(folder: Folder) -> None:
    matrix = folder.load(
        """\
        sinks: [{name: slack, webhook_url: hooks/one, options: {api_key: two-two}}]
        entries:
          - name: a
            script: b
            args: --token ${API_TOKEN} --plain ${PLAIN}
            env: {HF_TOKEN: "${ANY}", DB_PASSWORD: four-four, TOKENIZER: plain-text, SECRET: "${UNSET}"}
        """,
        variables={"API_TOKEN": "three-three", "ANY": "five-five", "PLAIN": "in the open"},
    )
    assert matrix.mask.values == {"hooks/one", "two-two", "three-three", "four-four", "five-five"}
    secrets = command_of(matrix.entries[0], {"API_TOKEN": "three-three", "ANY": "five-five"}).secrets
    assert {"three-three", "four-four", "five-five"} <= secrets


def test_a_matrix_says_which_variables_are_secret(folder: Folder) -> None:
    """Wherever it says so: in the file, in an entry, in an overlay; what stands above it is masked, too."""
    text = """\
        run_reason: for ${CUSTOMER}
        entries:
          - {name: a, script: a.py, args: "${LICENCE} ${PLAIN}", secrets: [LICENCE]}
          - {name: b, script: b.py, env: {SERIAL: "{axis}-seven"}, matrix: {axis: [seven]}}
    """
    variables = {"LICENCE": "one's-one", "CUSTOMER": "two-two", "PLAIN": "in the open", "UNUSED": "nobody's"}
    matrix = folder.load(text, overlays=("secrets: [CUSTOMER, SERIAL, UNUSED]",), variables=variables)
    assert {"one's-one", "two-two", "nobody's"} <= matrix.mask.values
    assert [entry.secrets for entry in matrix.entries] == [
        ("CUSTOMER", "SERIAL", "UNUSED", "LICENCE"),
        ("CUSTOMER", "SERIAL", "UNUSED"),
    ]
    assert command_of(matrix.entries[1], {}).secrets == {"seven-seven"}
    plain = folder.load(text, variables=variables)
    assert plain.mask.values == {"one's-one"}
    assert definition_hash(plain.entries[1]) != definition_hash(matrix.entries[1])


def test_a_declared_secret_does_not_show_in_mistakes(folder: Folder) -> None:
    text = """\
        entries:
          - {name: "a ${LICENCE}", script: a.py, timeout_s: "${LICENCE}", args: "{unknown} ${LICENCE}"}
        secrets: [LICENCE]
    """
    told = folder.mistakes(text, variables={"LICENCE": TOKEN})
    assert len(told) == 2
    assert not [one for one in told if "s3cr" in one]


def test_no_secret_names_a_test_or_a_folder(folder: Folder) -> None:
    text = """\
        secrets: [SERIAL]
        entries:
          - {name: "a-${API_TOKEN}", script: a.py}
          - {name: b, script: b.py, matrix: {serial: ["${SERIAL}"]}}
          - {name: c, script: c.py, matrix: {kind: {one: {token: "${API_TOKEN}"}}}, args: "{kind.token}"}
          - {name: d, script: d.py, matrix: {db: ["mysql://joe:hunter2@h/d"]}}
    """
    told = folder.mistakes(text, variables={"API_TOKEN": "abcdefgh", "SERIAL": "12345678"})
    names = "a secret names a test, a mark or a folder; use it in args or env only"
    assert told == [
        f"matrix.yaml:3: entries[a-***]: {names}",
        f"matrix.yaml:4: entries[b]: {names}",
        f"matrix.yaml:6: entries[d]: {names}",
    ]


def test_a_secret_that_is_not_set_is_refused_as_a_name_as_well(folder: Folder) -> None:
    text = """entries:
          - {name: a, script: a.py, matrix: {token: ["${API_TOKEN}"]}, args: "{token}"}
          - {name: b, script: b.py, matrix: {region: ["${REGION}"]}, args: "{region}"}
    """
    told = folder.mistakes(text, variables={"REGION": "north"})
    assert told == ["matrix.yaml:2: entries[a]: a secret names a test, a mark or a folder; use it in args or env only"]


def test_the_password_in_a_url_is_a_secret(folder: Folder) -> None:
    entry = "entries: [{name: a, script: a.py, env: {DATABASE_URL: '${DATABASE_URL}'}}]"
    variables = {"DATABASE_URL": "postgresql://me:hunter%202@db/bench"}
    assert command_of(folder.load(entry).entries[0], variables).secrets == {"hunter 2"}
