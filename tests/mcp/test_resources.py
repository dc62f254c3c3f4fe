"""Sessions as addresses, and the prompts that a person picks."""

import json
import re
from typing import Any

import pytest

from clew.mcp.prompts import prompt
from clew.mcp.resources import PAGE, TEMPLATES
from clew.model.errors import NotFound
from clew.service import Context, call

Agent = Any  # What the fixture of that name gives.

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def read(agent: Agent, uri: str) -> str:
    [content] = agent.do(lambda client: client.read_resource(uri)).contents
    assert str(content.uri) == uri
    return str(content.text)


def refused(agent: Agent, ask: Any) -> str:
    from mcp.shared.exceptions import MCPError

    with pytest.raises(MCPError) as error:
        agent.do(ask)
    return str(error.value.data["error"])


def opened(context: Context, title: str, **arguments: Any) -> str:
    return str(call(context, "open", {"title": title, **arguments}).id)


def test_every_session_is_listed_once_over_all_pages(agent: Agent, context: Context) -> None:
    ids = {opened(context, f"Session {n}") for n in range(PAGE + 5)}
    first = agent.do(lambda client: client.list_resources())
    second = agent.do(lambda client: client.list_resources(cursor=first.next_cursor))
    uris = [str(one.uri) for one in (*first.resources, *second.resources)]
    assert sorted(uris) == sorted(f"clew://session/{id}" for id in ids)
    assert second.next_cursor is None


def test_a_session_can_be_read_at_each_of_its_addresses(agent: Agent, context: Context) -> None:
    id = opened(context, "Fix the lock")
    call(context, "remember", {"session": id, "text": "it locks"})
    call(context, "append", {"session": id, "drafts": [{"kind": "message_added", "role": "user", "text": "why?"}]})
    standing = json.loads(read(agent, f"clew://session/{id}"))
    assert (standing["session"]["session_id"], standing["session"]["head"], standing["facts"]) == (id, 3, 1)
    assert "Fact: it locks" in read(agent, f"clew://session/{id}/brief")
    scratch = {"kind": "scratch_set", "name": "next", "value": [1, "\u202e"]}
    call(context, "append", {"session": id, "drafts": [scratch]})
    text = read(agent, f"clew://session/{id}/scratch")
    assert json.loads(text)["scratch"] == {"next": [1, "\u202e"]}
    assert text.isascii(), "no mark of direction is in the text itself"
    part = read(agent, f"clew://session/{id}/events/2-3")
    assert re.findall(r"^#(\d+)", part, re.MULTILINE) == ["2", "3"]
    assert len(agent.do(lambda client: client.list_resource_templates()).resource_templates) == len(TEMPLATES)


def test_an_object_is_read_as_text_and_described_if_it_is_none(agent: Agent, context: Context) -> None:
    id = opened(context, "With files")
    text = b"the report " * 20_000

    def put(name: str, data: bytes) -> str:
        return str(call(context, "object_put", {"session": id, "source": [data], "name": name}).digest)

    short = read(agent, f"clew://session/{id}/objects/{put('short.txt', b'all of it')}")
    assert "all of it" in short
    assert "cut here" not in short
    long = read(agent, f"clew://session/{id}/objects/{put('long.txt', text)[:12]}")
    assert 100_000 < len(long) < 101_000
    assert "cut here" in long
    image = read(agent, f"clew://session/{id}/objects/{put('shot.png', bytes(range(256)) * 8)}")
    assert "2,048 bytes, image/png. It is no text" in image
    assert refused(agent, lambda client: client.read_resource(f"clew://session/{id}/objects/{'0' * 64}")) == "not_found"


def test_events_that_are_too_many_end_with_the_address_that_goes_on(agent: Agent, context: Context) -> None:
    id = opened(context, "Long")
    drafts = [{"kind": "message_added", "role": "user", "text": f"{n} " + "x" * 1900} for n in range(80)]
    call(context, "append", {"session": id, "drafts": drafts})
    text, seqs = read(agent, f"clew://session/{id}/events/1-81"), []
    while True:
        seqs += [int(seq) for seq in re.findall(r"^#(\d+) ", text, re.MULTILINE)]
        following = re.search(r"goes on at (\S+)$", text)
        if following is None:
            break
        text = read(agent, following[1])
    assert seqs == list(range(1, 82))


@pytest.mark.parametrize(
    "uri",
    [
        "clew://session/zzzzzzzz", "clew://session/zzzzzzzz/brief", "clew://session/../../etc/passwd",
        "clew://session/", "clew://session/ab/events/9-1x", "file:///etc/passwd", "clew://other/abc", "x" * 5000,
        "clew://session/ab%00", "clew://session/zzzzzzzz/events/1-" + "9" * 15,
    ],
)  # fmt: skip
def test_an_address_where_nothing_is_is_refused(agent: Agent, uri: str) -> None:
    assert refused(agent, lambda client: client.read_resource(uri)) == "not_found"


def test_a_prompt_goes_on_with_the_newest_session_of_a_project_or_the_one_that_is_named(
    agent: Agent, context: Context
) -> None:
    older, newer = opened(context, "Older", project="shop"), opened(context, "Newer", project="shop")
    opened(context, "Elsewhere", project="other")

    def said(**given: str) -> str:
        got = agent.do(lambda client: client.get_prompt("continue-where-we-left-off", given))
        return str(got.messages[0].content.text)

    assert f"session_id {newer}" in said(project="shop")
    assert f"session_id {older}" in said(session_id=older[:10])
    assert "Session: Older" in said(session_id=older)


def test_without_a_name_the_session_of_this_folder_is_continued(context: Context) -> None:
    here = opened(context, "Here")
    draft = {"kind": "runtime_attached", "runtime": "codex", "cwd": "/work/shop"}
    call(context, "append", {"session": here, "drafts": [draft]})
    newer = opened(context, "Newer")
    assert here in prompt(context, "continue-where-we-left-off", {}, folder="/work/shop")
    assert newer in prompt(context, "continue-where-we-left-off", {}, folder="/work/other")


def test_where_nothing_is_to_be_continued_it_is_said_what_to_do(context: Context) -> None:
    with pytest.raises(NotFound, match="open_session"):
        prompt(context, "continue-where-we-left-off", {})


def test_prompts_refuse_what_they_do_not_know(agent: Agent) -> None:
    for name, given in (("nope", {}), ("hand-over", {}), ("hand-over", {"session_id": "x", "poem": "y"})):
        ask = lambda client, name=name, given=given: client.get_prompt(name, given)  # noqa: E731
        assert refused(agent, ask) == "invalid_input"
    assert refused(agent, lambda client: client.get_prompt("hand-over", {"session_id": "zzzzz"})) == "not_found"
