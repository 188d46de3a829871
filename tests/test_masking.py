"""Which names announce a secret, and texts without its value, however it is written."""

from __future__ import annotations

import html
import json
import re
import shlex
import subprocess
from urllib.parse import quote, quote_plus, urlencode

import pytest

from curator_bench.masking import Mask, is_secret_name, is_secret_option, masked, secrets_in, without_secret_literals

SECRET_NAMES = """
    PGPASSWORD DB_PASSWORD DB_PASSWORDS MYSQL_PASSWD ROOT_PASSWDS MYSQL_PWD DB_PWD DBPASS DB_PASS SMTP_PASS passphrase
    AWS_CREDENTIAL GOOGLE_APPLICATION_CREDENTIALS PRIVATE_KEY SSH_KEY SSHKEY AWS_SECRET_ACCESS_KEY API_KEYS apiKey
    APIKEY api-key OPENAI_KEY WANDB_API_KEY DSN SENTRY_DSN PGDSN CONNECTION_STRING AZURE_STORAGE_CONNECTION_STRING
    DB_CONN_STR HTTP_AUTH NPM_CONFIG_AUTH HF_TOKEN HFTOKEN accessToken TOKEN_2 API_TOKENS CLIENT_SECRET DB_SECRETS
    SLACK_WEBHOOK_URL MY_WEBHOOKS Authorization
"""
PLAIN_NAMES = """
    GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL OLDPWD PWD MAX_TOKENS NUM_TOKENS TOKENS TOKENIZER TOKENIZERS_PARALLELISM MONKEY
    KEYBOARD KEYWORDS TURKEY GIT_ASKPASS SSH_ASKPASS SSH_AUTH_SOCK XAUTHORITY AUTHORS BYPASS COMPASS N_PASSES SECRETARY
    RAY_AUTH_MODE PATH HOME USER
"""
NASTY = [
    "it's",
    'say "planted"',
    "back\\slash\\n",
    "$HOME `id` $(id) ${X}; rm -rf *",
    "per%20cent%41+plus&amp=1?#frag/ment",
    "ünïcödé-€-\U0001f511-\u2028",
    "tab\tand\rreturn",
    "<script>alert('&')</script>",
    "{braces} {{two}} [brackets] *.*",
    '-----BEGIN KEY-----\nfirst line\'s "rest"\nab\nlast line\\end\n',
    " blanks around ",
    "'\"\\'\\\"",
]


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_a_name_tells_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", PLAIN_NAMES.split())
def test_a_name_that_only_looks_like_a_secret_is_none(name: str) -> None:
    assert not is_secret_name(name)


def test_options_tell_secrets_more_strictly_than_variables() -> None:
    secret = [
        "--api-key",
        "--password",
        "--db-passwords",
        "--token",
        "--hf-token",
        "--dsn",
        "--webhook-url",
        "--db-pwd",
    ]
    plain = ["--text-key", "--key", "--id_key", "--max-tokens", "--tokenizer", "--auth", "--pass", "--author"]
    assert [name for name in secret if not is_secret_option(name)] == []
    assert [name for name in plain if is_secret_option(name)] == []


def traced(text: str) -> str:
    """As a shell script with `set -x` prints it."""
    words = ["bash", "-c", 'set -x; : "$1"', "-", text]
    return subprocess.run(words, capture_output=True, text=True, check=True, env={"LC_ALL": "C.UTF-8"}).stderr


@pytest.mark.parametrize("secret", NASTY)
def test_a_secret_is_hidden_however_it_is_written(secret: str) -> None:
    mask = Mask(frozenset([secret]))
    ways = {
        "as it is": f"--token={secret}!",
        "in a command line": shlex.join(["run", f"--token={secret}", secret]),
        "traced by a shell": traced(secret),
        "in JSON": json.dumps({"token": f"x{secret}x"}),
        "in JSON as UTF-8": json.dumps({"token": secret}, ensure_ascii=False),
        "in a command line in JSON": json.dumps([shlex.join([secret])]),
        "in JSON in a command line": shlex.join([json.dumps({"token": secret})]),
        "in JSON in JSON": json.dumps(json.dumps(secret)),
        "by Python": repr(["it's", secret]) + repr(f"'{secret}\"") + ascii(secret),
        "as bytes": repr(secret.encode()),
        "in a URL": f"http://x/{quote(secret, safe='')}/{quote(secret)}",
        "in a query": urlencode({"q": secret}) + quote_plus(secret),
        "in a URL, other hex": re.sub("%..", lambda code: code[0].lower(), quote(secret)),
        "in HTML": html.escape(secret),
    }
    core = max((part for line in secret.splitlines() for part in _runs(line)), key=len, default="")
    for way, text in ways.items():
        hidden = mask.hide(text)
        assert "***" in hidden or not core, (way, text, hidden)
        assert len(core) < 4 or core not in hidden, (way, text, hidden)


def _runs(line: str) -> list[str]:
    return "".join(letter if letter.isalnum() and letter.isascii() else " " for letter in line).split()


def test_each_long_line_of_a_secret_is_hidden_wherever_it_stands() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nab\nkqhkiG9w0BAQEF=\n"
    mask = Mask(frozenset([key]))
    log = ["it says:", *(f"  | {line}" for line in key.splitlines()), "done"]
    assert [mask.hide(line) for line in log] == ["it says:", "  | ***", "  | ***", "  | ab", "  | ***", "done"]
    assert mask.hide_lines(["it says:", *key.splitlines(), "done"]) == ["it says:", "***", "done"]
    assert mask.hide(key.replace("\n", "\r\n")).splitlines() == ["***", "***", "ab", "***"]


def test_a_secret_that_colours_split_is_hidden_as_a_terminal_would_show_it() -> None:
    mask = Mask(frozenset(["abcdWXYZ99"]))
    split = "\x1b[1mtoken\x1b[0m abcd\x1b[0mWX\x1b[38;5;196mYZ99 \x1b]8;;x\x07link"
    assert mask.hide(split) == "token *** link"
    assert mask.hide_lines(["one", split]) == ["one", "token *** link"]
    assert mask.hide("\x1b[1mnothing\x1b[0m") == "\x1b[1mnothing\x1b[0m"


def test_short_values_and_words_that_any_text_has_are_no_secrets() -> None:
    mask = Mask(frozenset(["abc", "true", "None"]))
    assert mask.hide("abc is true, None is not") == "abc is true, None is not"


def test_what_is_secret_in_urls_is_hidden_though_nobody_knows_it() -> None:
    hidden = {
        "postgresql://me:p/w@host/db": "postgresql://me:***@host/db",
        "postgresql://me:p@ss@host/db": "postgresql://me:***@host/db",
        "postgresql://me:it's\"@host": "postgresql://me:***@host",
        "https://user:p@ss/w@host": "https://user:***@host",
        "https://user:p@ss/w@host:8080/x?a=b@c": "https://user:***@host:8080/x?a=b@c",
        "https://user:p%40ss%2Fw@host/x": "https://user:***@host/x",
        "https://me@corp.com:p@ss@host/x": "https://me@corp.com:***@host/x",
        "redis://:p/w@host:6379/0": "redis://:***@host:6379/0",
        "postgresql+psycopg://me:p@h/db and mongodb+srv://me:q/r@h1,h2/x": (
            "postgresql+psycopg://me:***@h/db and mongodb+srv://me:***@h1,h2/x"
        ),
        r"https:\/\/me:p@ss@host\/x": r"https:\/\/me:***@host\/x",
        "?next=https%3A%2F%2Fme%3Apass%40host%2Fx&b=2": "?next=https%3A%2F%2Fme%3A***%40host%2Fx&b=2",
        "https://ghp_abcdefghijklmnop1234@github.com/x.git": "https://***@github.com/x.git",
        "https://ghp_abcdefghijklmnop1234:x-oauth-basic@github.com/x": "https://***:***@github.com/x",
        "https://sk_live_abcdefghijklmnop1234:@api.com/x": "https://***:@api.com/x",
        "http://x/?a=1&api%5Fkey=zzz&b=2": "http://x/?a=1&api%5Fkey=***&b=2",
        "s3://b/k?X-Amz-Signature=abc&sig=d": "s3://b/k?X-Amz-Signature=***&sig=***",
        "Server=h;Password=abc": "Server=h;Password=***",
        "Password=abc;Server=h": "Password=***",
        "host=h user=me password=p/w@x dbname=d": "host=h user=me password=*** dbname=d",
        "psql 'host=h password=abc'": "psql 'host=h password=***'",
        "host=h password='a b' dbname=d": "host=h password=*** dbname=d",
        "env DB_PASSWORD=abc HF_TOKEN=def run": "env DB_PASSWORD=*** HF_TOKEN=*** run",
    }
    plain = [
        "key=name",
        "token=None",
        "max_tokens=8 tokenizer=bpe",
        "http://h:8080/a@b",
        "ssh://git@github.com:x/y",
        "http://[::1]:80/x",
        "http://x/?monkey=1&max_tokens=8",
    ]
    assert {text: Mask().hide(text) for text in hidden} == hidden
    assert [Mask().hide(text) for text in plain] == plain


def test_the_path_of_a_secret_url_is_secret_as_well() -> None:
    mask = Mask(frozenset(["https://hooks.slack.com/services/T000/B000/XXXXXXXX"]))
    assert mask.hide("POST /services/T000/B000/XXXXXXXX failed") == "POST /*** failed"


def test_numbers_that_are_a_secret_are_hidden_in_results() -> None:
    shape = {"pin": 20240101, "docs": 1000, "nested": [{"20240101": 20240101.0}]}
    assert masked(shape, Mask(frozenset(["20240101", "1000"]))) == {
        "pin": "***",
        "docs": 1000,
        "nested": [{"***": 20240101.0}],
    }


def test_secrets_of_the_environment_are_known_but_for_short_ones_and_paths(tmp_path: object) -> None:
    variables = {
        "HF_TOKEN": "hf_12345678",
        "DB_PASSWORD": "1234",
        "SSH_KEY_FILE": str(tmp_path),
        "PLAIN": "in the open",
    }
    assert secrets_in({**variables, "ODD_TOKEN": "/\0/12345"}) == {"hf_12345678", "/\0/12345"}


def test_a_hostile_text_is_masked_in_no_time() -> None:
    mask = Mask(frozenset(NASTY))
    for text in ("://a:" * 20_000, "?a" * 50_000, "=" * 100_000, "://" * 50_000 + "@", "http://a:" + "b" * 100_000):
        mask.hide(text)


@pytest.mark.parametrize(
    "source",
    [
        'PASSWORD = "x1"',
        "{'password': 'x1'}",
        'record("api_key", "x1")',
        'token: str = """a\nx1"""',
        'db_passwd == r"x1"',
    ],
)
def test_texts_that_code_gives_to_names_of_secrets_are_hidden(source: str) -> None:
    assert "x1" not in without_secret_literals(source)
    assert "***" in without_secret_literals(source)


@pytest.mark.parametrize("source", ['key = "text"', 'tokenizer = "gpt2"', 'max_tokens="12"', 'token = os.environ["X"]'])
def test_other_texts_of_code_stay(source: str) -> None:
    assert without_secret_literals(source) == source


def test_hostile_code_is_masked_in_no_time() -> None:
    for source in ('"' * 100_000, "password" * 20_000, 'password="' * 20_000, 'password = "' + "\\" * 100_000):
        without_secret_literals(source)
