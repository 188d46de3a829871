"""What the common_crawl suite promises of a file: broken records are counted, and texts are what their pages hold."""

from __future__ import annotations

import gzip
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SUITE = Path(__file__).parents[2] / "benchmarks" / "common_crawl"
sys.path.insert(0, str(SUITE))

import make_crawl  # noqa: E402
from crawl_pipeline import Tally, documents_of  # noqa: E402
from html_text import Page, decode, page_of  # noqa: E402
from http_response import parse_response  # noqa: E402
from make_crawl import BROKEN, member, record  # noqa: E402
from warc import Broken, NotWhole, Record, read_warc  # noqa: E402

WHOLE = [
    record("response", f"http://a/{number}", b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * number * 50) for number in range(6)
]


# --- records ---------------------------------------------------------------------------------------------------------


def write(path: Path, *members: bytes) -> Path:
    path.write_bytes(b"".join(members))
    return path


def read(path: Path, **limits: int) -> tuple[list[str], list[str]]:
    """The addresses of whole records, and what is wrong with the others."""
    found = list(read_warc(path, **limits))
    whole = [one.header["warc-target-uri"] for one in found if isinstance(one, Record)]
    return whole, [one.reason for one in found if isinstance(one, Broken)]


@pytest.mark.parametrize("broken", BROKEN)
def test_each_broken_record_counts_once_and_those_around_it_are_read(
    tmp_path: Path, broken: Callable[[], bytes]
) -> None:
    page = record("response", "http://a/", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>a text")
    file = write(tmp_path / "a.warc.gz", member(page), broken(), member(page), broken(), broken(), member(page))
    tally = Tally()
    assert [document["text"] for document in documents_of(file, tally)] == ["a text"] * 3
    assert (tally.broken, len(tally.reasons), tally.documents) == (3, 3, 3)


def test_a_file_that_breaks_off_has_one_broken_record_wherever_that_is(tmp_path: Path) -> None:
    content = b"".join(map(member, WHOLE[:3]))
    ends = [len(b"".join(map(member, WHOLE[:count]))) for count in range(4)]
    for length in range(len(content)):
        whole, broken = read(write(tmp_path / "a.warc.gz", content[:length]))
        assert len(whole) == sum(1 for end in ends[1:] if end <= length)
        assert len(broken) == (length not in ends)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_whatever_happened_to_a_file_the_other_records_are_read(tmp_path: Path, data: st.DataObject) -> None:
    """One member is replaced by bytes that may have come from anywhere."""
    members = list(map(member, WHOLE))
    hit = data.draw(st.integers(0, len(members) - 1))
    noise = st.one_of(
        st.binary(max_size=80), st.just(b"\x1f\x8b\x08" * 5), st.sampled_from(members).map(lambda m: m[:-9])
    )
    begin = data.draw(st.integers(0, len(members[hit])))
    members[hit] = members[hit][:begin] + data.draw(noise) + members[hit][begin + data.draw(st.integers(0, 30)) :]
    whole, _ = read(write(tmp_path / "a.warc.gz", *members))
    expected = [f"http://a/{number}" for number in range(len(members)) if number != hit]
    assert [uri for uri in whole if uri != f"http://a/{hit}"] == expected


def test_what_looks_like_the_beginning_of_a_record_within_a_broken_one_is_none(tmp_path: Path) -> None:
    damaged = member(WHOLE[5])
    middle = len(damaged) // 2
    damaged = damaged[:middle] + b"\xff" * 20 + b"\x1f\x8b\x08" * 9 + gzip.compress(b"not a record") + damaged[middle:]
    whole, broken = read(write(tmp_path / "a.warc.gz", member(WHOLE[1]), damaged, member(WHOLE[2])))
    assert whole == ["http://a/1", "http://a/2"]
    assert len(broken) == 1


def test_several_records_may_share_a_member_and_one_of_them_be_broken(tmp_path: Path) -> None:
    together = member(WHOLE[0] + WHOLE[1] + b"rubbish\r\n\r\n" + WHOLE[2])
    assert read(write(tmp_path / "a.warc.gz", together, member(WHOLE[3]))) == (
        ["http://a/0", "http://a/1", "http://a/3"],
        ["does not begin with WARC/"],
    )


def test_a_record_too_large_for_memory_is_broken_and_the_next_one_is_read(tmp_path: Path) -> None:
    bomb = member(record("response", "http://bomb/", bytes(50_000_000)))
    file = write(tmp_path / "a.warc.gz", member(WHOLE[1]), bomb, member(WHOLE[2]))
    whole, broken = read(file, most_bytes=1_000_000)
    assert whole == ["http://a/1", "http://a/2"]
    assert broken == ["larger than 1,000,000 bytes"]


def test_a_file_without_records_has_none(tmp_path: Path) -> None:
    assert read(write(tmp_path / "empty")) == ([], [])
    whole, broken = read(write(tmp_path / "other", b"<html>not found</html>" * 100))
    assert whole == []
    assert len(broken) == 1


def test_the_fields_of_a_header_may_go_on_in_the_next_line_and_end_as_unix_has_it(tmp_path: Path) -> None:
    text = b"WARC/1.1\nWARC-Type: response\nWARC-Target-URI: http://a/\n  b\nContent-Length: 3\n\nabc"
    (found,) = read_warc(write(tmp_path / "a.warc.gz", member(text)))
    assert isinstance(found, Record)
    assert (found.kind, found.header["warc-target-uri"], found.content) == ("response", "http://a/ b", b"abc")


def test_records_are_those_warcio_reads(tmp_path: Path) -> None:
    warcio = pytest.importorskip("warcio.archiveiterator")
    root = tmp_path / "crawl"
    make_crawl.write_file(root, 1, 40, 0)
    (file,) = root.rglob("*.warc.gz")
    first_broken = next(number for number, one in enumerate(read_warc(file)) if isinstance(one, Broken))
    with file.open("rb") as stream:
        theirs = warcio.ArchiveIterator(stream, no_record_parse=True)
        for ours, other in zip(list(read_warc(file))[:first_broken], theirs, strict=False):
            assert isinstance(ours, Record)
            assert ours.header["warc-record-id"] == other.rec_headers.get_header("WARC-Record-ID")
            assert ours.content == other.raw_stream.read()


# --- answers of servers ----------------------------------------------------------------------------------------------


def answer(header: str, body: bytes) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{header}\r\n".encode() + body


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


CHUNKS = b"3;name=value\r\nabc\r\n0A \r\n0123456789\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("header", "body", "expected"),
    [
        pytest.param("", b"abc", b"abc", id="plain"),
        pytest.param("Content-Encoding: gzip\r\n", gzip.compress(b"abc"), b"abc", id="gzip"),
        pytest.param("Content-Encoding: gzip\r\n", b"the crawler did it", b"the crawler did it", id="gzip, undone"),
        pytest.param("Content-Encoding: deflate\r\n", zlib.compress(b"abc"), b"abc", id="deflate"),
        pytest.param("Content-Encoding: deflate\r\n", raw_deflate(b"abc"), b"abc", id="raw deflate"),
        pytest.param("Transfer-Encoding: chunked\r\n", CHUNKS, b"abc0123456789", id="chunks"),
        pytest.param(
            "Transfer-Encoding: chunked\r\n", b"<p>the crawler did it", b"<p>the crawler did it", id="chunks, undone"
        ),
        pytest.param("Content-Encoding: gzip\r\n", gzip.compress(bytes(5_000)), bytes(1_000), id="gzip, cut off"),
    ],
)
def test_a_body_is_freed_of_what_it_was_sent_in(header: str, body: bytes, expected: bytes) -> None:
    assert parse_response(answer(header, body), most_bytes=1_000).body == expected


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        answer("Content-Encoding: br\r\n", b"x"),
        answer("Content-Encoding: deflate\r\n", b"\xff\xff\xff"),
        answer("Transfer-Encoding: chunked\r\n", CHUNKS[:25]),
        answer("Transfer-Encoding: chunked\r\n", b"3\r\nabcdefg"),
    ],
)
def test_an_answer_that_cannot_be_read_is_told(message: bytes) -> None:
    with pytest.raises(NotWhole):
        parse_response(message, most_bytes=1_000)


# --- texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>one</p><p>two", "one\ntwo"),
        ("a <b>bold</b> w<i>or</i>d", "a bold word"),
        ("one<br>two<br/>three", "one\ntwo\nthree"),
        ("<table><tr><td>1<td>2</tr><tr><th>3</th></table>", "1 2\n3"),
        ("<p>&lt;b&gt; &amp; &#233;&eacute;&#x1F642; &unknown; &", "<b> & éé🙂 &unknown; &"),
        ("<script>if (a<b) x = '<p>no</p>'</script>yes", "yes"),
        ("<SCRIPT type='a>b'>no</SCRIPT >yes", "yes"),
        ("<style>no</style><noscript>no</noscript><template><p>no</template>yes", "yes"),
        ("<svg><title>no</title><text>no</text></svg>yes<svg/>yes<svg>no</svg>", "yesyes"),
        ("before<script>no", "before"),
        ("before<template>yes", "beforeyes"),
        ("<!-- no --><p>yes<!-- <p>no -- > --!>yes<!-->yes<!--->yes<!-- no", "yesyesyesyes"),
        ("<![endif]-->yes<!DOCTYPE a><?php no ?></ no>yes", "yesyes"),
        ("a < b <3 <> c", "a < b <3 <> c"),
        ('<a title="x > y" b=\'>\' c=">">yes</a>', "yes"),
        ("<p title=don't>yes</p><p>y'es", "yes\ny'es"),
        ("yes<a href='no", "yes"),
        ("<head><title>no</title><body>yes", "yes"),
        ("\u00a0 much \t\n space\u3000here ", "much space here"),
        ("&#" + "9" * 5_000 + "; yes", "&#" + "9" * 5_000 + "; yes"),
        ("", ""),
    ],
)
def test_the_text_is_what_a_reader_sees(page: str, text: str) -> None:
    assert page_of(page.encode()).text == text


def test_the_title_is_the_first_one_and_no_part_of_the_text() -> None:
    page = b"<svg><title>x</title></svg><title>\n The &amp; <b> title</title><p>text</p><title>second</title>"
    assert page_of(page) == Page("The & <b> title", "text")


@given(st.one_of(st.binary(max_size=200), st.text("<>!-/='\"&#;a script", max_size=200).map(str.encode)))
def test_no_page_is_too_odd(page: bytes) -> None:
    assert "\n\n" not in page_of(page).text


@pytest.mark.parametrize(
    "piece", ["<a ", "<a b='", "<!--", "</", "<?", "<svg>", "<title>", "<a<a =", "&#", "<script>a"]
)
def test_no_page_takes_longer_than_its_length(piece: str) -> None:
    """A megabyte of each takes less than a second; what looks at everything again and again takes hours."""
    page = (piece * (1_000_000 // len(piece))).encode()
    thread = threading.Thread(target=page_of, args=(page,), daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("é天".encode(), "", "é天"),
        ("é".encode("cp1252"), "", "é"),
        ("“é”".encode("cp1252"), "text/html; charset=ISO-8859-1", "“é”"),
        ("天気".encode("shift_jis"), "text/html; charset='Shift_JIS'", "天気"),
        ('<meta charset="gb2312">镕'.encode("gbk"), "", '<meta charset="gb2312">镕'),
        ("<meta http-equiv=a content='text/html; charset=koi8-r'>ж".encode("koi8-r"), "", None),
        (b"\xef\xbb\xbf\xc3\xa9", "text/html; charset=latin-1", "é"),
        ("é".encode("utf-16-le").join((b"\xff\xfe", b"")), "", "é"),
        ("é".encode(), "text/html; charset=nonsense", "é"),
        ("é".encode(), "text/html; charset=hex", "é"),
        ("é".encode(), "text/html; charset=idna", "é"),
        (b"a\xff", "text/html; charset=utf-8", "a\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_characters_are_read_as_a_browser_would(body: bytes, content_type: str, text: str | None) -> None:
    assert decode(body, content_type) == (body.decode("koi8-r") if text is None else text)
