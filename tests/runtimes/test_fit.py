"""What a session loses on its way into another program is said to be lost, and only what got there to be carried."""

import base64
from collections.abc import Callable

import msgspec
import pytest

from clew.model.events import (
    AnyBody,
    CallMade,
    CallReturned,
    Compacted,
    Event,
    ImagePart,
    MessageAdded,
    Removed,
    RuntimeAttached,
    TextPart,
    ThinkingPart,
    TurnEnded,
)
from clew.model.outline import Outline, outlined
from clew.runtimes import names, runtime
from clew.runtimes.adapters import atif
from clew.runtimes.contract import Runtime, Target, iso, micros, raw
from clew.runtimes.fit import Fidelity, Fitted, fit
from clew.runtimes.rehome import Rehoming
from clew.runtimes.rounds import Answer, Prompt, Results, output_text, rounds, text_of

WRITABLE = [name for name in names() if runtime(name).writer is not None]
Make = Callable[..., Outline]
FIRST, LAST = -(2**63), 2**63 - 1


def log(*bodies: AnyBody, said_at: int | None = None) -> list[Event]:
    return [Event("s", seq, seq, seq, said_at, "me", f"e{seq}", b"", body) for seq, body in enumerate(bodies, 1)]


@pytest.fixture(params=["in memory", "without texts"])
def outline(request: pytest.FixtureRequest) -> Make:
    """The outline of a small session, and that of one too large for memory."""

    def of(*bodies: AnyBody) -> Outline:
        events = {event.seq: event for event in log(*bodies)}
        if request.param == "in memory":
            return Outline.in_memory(events)
        return Outline(map(outlined, events.values()), events.__getitem__)

    return of


def _with_room(name: str, tokens: int) -> Runtime:
    found = runtime(name)
    assert found.writer is not None
    return msgspec.structs.replace(found, writer=msgspec.structs.replace(found.writer, context_tokens=tokens))


def asks(text: str) -> MessageAdded:
    return MessageAdded(role="user", text=text)


def answers(text: str) -> MessageAdded:
    return MessageAdded(role="assistant", text=text)


@pytest.fixture
def fidelity(outline: Make) -> Callable[..., Fidelity]:
    return lambda *bodies: fit(outline(*bodies), runtime("codex"), tools={}).fidelity


def dropped(found: Fidelity) -> dict[str, int]:
    return {change.what: change.count for change in found.dropped}


@pytest.mark.parametrize("ran_in", ["pi", "codex"])
def test_an_answer_that_failed_is_told_again_only_if_its_program_would(ran_in: str, outline: Make) -> None:
    about = {"message": "m1", "model": "m"}
    session = outline(
        RuntimeAttached(runtime=ran_in), asks("go"),
        MessageAdded(role="assistant", text="I edit.", **about), CallMade(call="a", tool="edit", **about),
        TurnEnded(stop_reason="error: overloaded"), CallReturned(call="a", output=raw("done")),
        asks("again"), MessageAdded(role="assistant", text="Done.", message="m2"),
        TurnEnded(stop_reason="aborted"),  # The next answer, which is empty.
    )  # fmt: skip
    of_one_record = dict(zip((3, 4, 5), ("r1", "r1/1", "r1/2"), strict=True))
    for at, event in enumerate(session.events):
        session.events[at] = msgspec.structs.replace(event, source=of_one_record.get(event.seq, event.source))
    fitted = fit(session, runtime("claude-code"), tools={}, unsent={ran_in: runtime(ran_in).unsent})
    told = [part.text for round in fitted.rounds if not isinstance(round, Results) for part in round.parts
            if isinstance(part, TextPart)]  # fmt: skip
    if ran_in == "pi":
        assert told == ["go", "again", "Done."]
        assert dropped(fitted.fidelity) == {"answers": 1, "calls": 1, "results": 1}
    else:
        assert told == ["go", "I edit.", "again", "Done."]
        assert dropped(fitted.fidelity) == {}


# Too long -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flatten", [False, True])
def test_turns_that_do_not_fit_are_dropped_and_the_brief_is_what_was_adapted(flatten: bool, outline: Make) -> None:
    turn = [asks("x" * 200_000), answers("yes"), CallMade(call="a", tool="t"), CallReturned(call="a", output=raw("ok"))]
    fitted = fit(outline(*turn * 6), runtime("codex"), tools={}, flatten=flatten, brief=lambda: "remember")
    [lost] = fitted.fidelity.dropped
    kept = fitted.fidelity.carried["prompts"]
    assert (lost.what, lost.count, kept > 0) == ("turns", 6 - kept, True)
    assert "longer than the context of Codex" in lost.why
    assert {change.what: change.count for change in fitted.fidelity.adapted}["brief"] == 1
    [first, second, *_] = fitted.rounds
    assert isinstance(first, Prompt)
    assert "remember" in text_of(first.parts)
    assert isinstance(second, Prompt)
    assert text_of(second.parts).startswith("xxx")
    # What is told as text is adapted; neither it nor the brief is a prompt that was carried.
    calls = {} if flatten else {"calls": kept, "results": kept}
    assert fitted.fidelity.carried == {"prompts": kept, "answers": kept, **calls}


def test_what_came_before_the_first_prompt_is_a_turn_like_the_others(outline: Make) -> None:
    found = fit(outline(answers("x" * 700_000), asks("go on")), runtime("codex"), tools={})
    assert dropped(found.fidelity) == {"turns": 1}


def test_one_turn_that_is_too_long_alone_is_carried_whole(outline: Make) -> None:
    found = fit(outline(asks("x" * 900_000)), runtime("codex"), tools={}, brief=lambda: "remember")
    assert [len(text_of(round.parts)) for round in found.rounds if isinstance(round, Prompt)] == [900_000]
    assert (found.fidelity.dropped, found.fidelity.adapted) == ([], [])


def long_turn(name: str, result: str) -> list[AnyBody]:
    return [
        asks(f"prompt {name}"),
        CallMade(call=name, tool="t"),
        CallReturned(call=name, output=raw(result)),
        answers(f"answer {name}"),
    ]


def results_by_call(fitted: Fitted) -> dict[str, str]:
    return {
        back.call: output_text(back) for round in fitted.rounds if isinstance(round, Results) for back in round.returns
    }


@pytest.mark.parametrize("position", [0, 2, 5])
def test_a_huge_result_is_shortened_before_a_turn_is_dropped(position: int, outline: Make) -> None:
    """1.1 MB in any turn, the last one too: every prompt, answer and call is carried, and the report counts one."""
    outputs = ["z" * 3000] * 6
    outputs[position] = "beginning " + "x" * 1_100_000 + " end"
    bodies = [body for number, output in enumerate(outputs) for body in long_turn(f"c{number}", output)]
    fitted = fit(outline(*bodies), runtime("codex"), tools={}, brief=lambda: "remember")
    assert dropped(fitted.fidelity) == {}
    assert {one.what: one.count for one in fitted.fidelity.adapted if one.what in ("results", "brief")} == {
        "results": 1
    }
    assert fitted.fidelity.carried == {"prompts": 6, "answers": 6, "calls": 6, "results": 6}
    shown = results_by_call(fitted)
    huge = shown.pop(f"c{position}")
    assert set(shown.values()) == {"z" * 3000}
    assert huge.startswith("beginning x")
    assert huge.endswith("x end")
    assert "1,000,01" in huge, "the note says how many characters are left out"
    assert len(huge) < 110_000


def test_the_largest_results_are_shortened_first_and_the_older_of_two(outline: Make) -> None:
    sizes = [3_000, 90_000, 450_000, 90_000, 450_000, 90_000]
    bodies = [body for number, size in enumerate(sizes) for body in long_turn(f"c{number}", "x" * size)]
    fitted = fit(outline(*bodies), _with_room("codex", 250_000), tools={})
    lengths = [len(text) // 10_000 for text in results_by_call(fitted).values()]
    assert dropped(fitted.fidelity) == {}
    assert lengths == [0, 9, 10, 9, 45, 9]


def test_a_structured_result_is_shortened_and_its_pictures_stay(outline: Make) -> None:
    picture = ImagePart(blob="0" * 64, media_type="image/png")
    blocks = raw([{"type": "text", "text": "x" * 2_000_000}])
    fitted = fit(
        outline(asks("p"), CallMade(call="a", tool="t"), CallReturned(call="a", output=blocks, parts=(picture,))),
        runtime("claude-code"),
        tools={},
    )
    [results] = [round for round in fitted.rounds if isinstance(round, Results)]
    assert results.returns[0].parts == (picture,)
    assert 90_000 < len(output_text(results.returns[0])) < 110_000


def test_pictures_beside_a_result_stay_when_it_is_told_as_text(outline: Make) -> None:
    seen = (TextPart(text="shown:"), ImagePart(blob="b", media_type="image/png", name="shot.png"))
    backs = [CallReturned(call="a", output=raw("ok"), parts=seen), CallReturned(call="b", parts=seen)]
    calls = [CallMade(call="a", tool="t"), CallMade(call="b", tool="t")]
    found = fit(outline(asks("go"), *calls, *backs), runtime("codex"), tools={}, flatten=True)
    told = found.rounds[-1]
    assert isinstance(told, Prompt)
    texts = [one.text if isinstance(one, TextPart) else "picture" for one in told.parts]
    assert texts[0] == "[result of call a]\nok"
    assert [sum(word in text for text in texts) for word in ("shown:", "picture")] == [2, 2]


# Removed --------------------------------------------------------------------------------------------------------------


def test_what_was_removed_is_dropped_with_its_reason(fidelity: Callable[..., Fidelity]) -> None:
    pruned, erased = Removed(kind="message_added", how="pruned"), Removed(kind="erased", how="erased")
    found = fidelity(pruned, pruned, erased, Removed(kind="codex.event", how="pruned"), asks("and now?"))
    assert [(change.what, change.count, change.why) for change in found.dropped] == [
        ("events", 2, "removed by retention"),
        ("events", 1, "erased on request"),
    ]
    assert found.carried == {"prompts": 1}


def test_what_a_compaction_stands_for_may_be_removed(fidelity: Callable[..., Fidelity]) -> None:
    pruned = Removed(kind="message_added", how="pruned")
    found = fidelity(pruned, asks("old"), Compacted(summary="so far"), pruned, asks("new"))
    assert dropped(found) == {"events": 1}


# Closed ---------------------------------------------------------------------------------------------------------------


def test_the_note_that_closes_a_call_is_adapted_and_not_a_result_that_was_carried(
    fidelity: Callable[..., Fidelity],
) -> None:
    back = CallReturned(call="a", output=raw("ok"))
    found = fidelity(asks("go"), CallMade(call="a", tool="t"), back, CallMade(call="b", tool="t"))
    assert found.carried == {"prompts": 1, "calls": 2, "results": 1}
    assert {change.what: change.count for change in found.adapted}["calls without a result"] == 1
    assert "results" not in fidelity(asks("go"), CallMade(call="b", tool="t")).carried


def test_a_beginning_made_up_for_the_target_is_no_prompt_that_was_carried(fidelity: Callable[..., Fidelity]) -> None:
    assert fidelity(answers("hello"), MessageAdded(role="assistant", parts=(ThinkingPart(text="hm"),))).carried == {
        "answers": 1
    }


def test_a_result_that_the_program_itself_will_cut_is_named(outline: Make) -> None:
    turn = [asks("go"), CallMade(call="a", tool="t"), CallReturned(call="a", output=raw("x" * 20_000)), answers("ok")]
    for name, named in (("codex", True), ("claude-code", False)):
        found = fit(outline(*turn), runtime(name), tools={}).fidelity
        assert any("itself cuts results of more than 10,000" in change.why for change in found.adapted) is named
        assert (found.carried["results"], found.dropped) == (1, [])


# Thinking -------------------------------------------------------------------------------------------------------------

SIGNATURE = base64.b64encode(b"signed by the provider that made it").decode()
ENCRYPTED = "gAAAAA" + "b" * 80


def thought(
    signature: str, model: str, *, text: str = "hm", runtime: str = "claude-code", last: bool = False
) -> Outline:
    bodies: list[AnyBody] = [
        RuntimeAttached(runtime=runtime, native="n", cwd="/old"),
        asks("go"),
        MessageAdded(role="assistant", model=model, message="m", parts=(ThinkingPart(text=text, signature=signature),)),
    ]
    if not last:
        bodies.append(MessageAdded(role="assistant", model=model, message="m", text="went to /old"))
    return Outline.in_memory({event.seq: event for event in log(*bodies)})


def thoughts(fitted: Fitted) -> list[ThinkingPart]:
    answers = [round for round in fitted.rounds if isinstance(round, Answer)]
    return [part for answer in answers for part in answer.parts if isinstance(part, ThinkingPart)]


@pytest.mark.parametrize(
    ("name", "signature", "model"),
    [("claude-code", SIGNATURE, "claude-opus-5-5"), ("codex", ENCRYPTED, "gpt-5.2-codex")],
)
def test_a_thought_goes_back_to_the_program_and_provider_that_had_it(name: str, signature: str, model: str) -> None:
    text = "it is in /old"
    outline = thought(signature, model, text=text, runtime=name)
    fitted = fit(outline, runtime(name), tools={}, rehoming=Rehoming("/old", "/new"))
    # What is signed is not changed, not even a path.
    assert thoughts(fitted) == [ThinkingPart(text=text, signature=signature)]
    assert (fitted.fidelity.carried["thinking"], fitted.fidelity.dropped) == (1, [])
    writer = runtime(name).writer
    assert writer is not None
    native = writer.write(
        fitted.rounds, Target(id="0c3e0a52-7a3b-4e0e-9d55-3f1f2a6f8b10", cwd="/new", at=1, blob=lambda digest: b"")
    )
    assert signature.encode() in native.files[0].data
    assert (model.encode() in native.files[0].data) is (name == "claude-code")


@pytest.mark.parametrize(
    ("outline", "target_name", "why"),
    [
        (thought(SIGNATURE, "claude-opus-5-5"), "codex", "its signature only holds for the provider that made it"),
        (thought(SIGNATURE, "claude-opus-5-5", runtime="codex"), "claude-code", "its signature only holds for the"),
        (thought(SIGNATURE, "glm-5"), "claude-code", "it has no signature that its provider would accept"),
        (thought("", "claude-opus-5-5"), "claude-code", "it has no signature that its provider would accept"),
        (thought("not base64!", "claude-opus-5-5"), "claude-code", "it has no signature that its provider would"),
        (thought(SIGNATURE, "claude-opus-5-5", text=""), "claude-code", "it has no signature that its provider would"),
        (thought(SIGNATURE, "gpt-5", runtime="codex"), "codex", "it has no signature that its provider would accept"),
        (thought(ENCRYPTED, "llama", runtime="codex"), "codex", "it has no signature that its provider would accept"),
        (thought(SIGNATURE, "claude-opus-5-5", last=True), "claude-code", "nothing follows it, and a provider refuses"),
        (thought(SIGNATURE, "gemini-3", runtime="gemini-cli"), "gemini-cli", "does not take back what it wrote itself"),
    ],
)
def test_a_thought_that_would_be_refused_is_dropped_and_the_report_says_why(
    outline: Outline, target_name: str, why: str
) -> None:
    fitted = fit(outline, runtime(target_name), tools={})
    assert thoughts(fitted) == []
    [lost] = [change for change in fitted.fidelity.dropped if change.what == "thinking"]
    assert lost.count == 1
    assert why in lost.why


def test_a_thought_is_dropped_when_calls_are_written_as_text() -> None:
    fitted = fit(thought(SIGNATURE, "claude-opus-5-5"), runtime("claude-code"), tools={}, flatten=True)
    assert (thoughts(fitted), dropped(fitted.fidelity)) == ([], {"thinking": 1})


# Absurd clocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (FIRST, "0001-01-01T00:00:00.000Z"),
        (LAST, "9999-12-31T23:59:59.999Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_794_823_200_123_999, "2026-11-16T10:00:00.123Z"),
    ],
)
def test_every_time_can_be_told_and_read_again(at: int, said: str) -> None:
    assert iso(at) == said
    assert iso(micros(said) or 0) == said


@pytest.mark.parametrize("name", [*WRITABLE, "atif"])
@pytest.mark.parametrize("at", [FIRST, LAST])
def test_a_clock_that_went_mad_does_not_keep_a_session_in(name: str, at: int) -> None:
    bodies = [asks("go"), answers("yes"), CallMade(call="a", tool="t"), CallReturned(call="a", output=raw("ok"))]
    events = log(*bodies, said_at=at)
    if name == "atif":
        steps = atif.steps(rounds(events))
        assert b"yes" in b"".join(atif.document(steps, session="s", agent="", model="", title=""))
        return
    writer = runtime(name).writer
    assert writer is not None
    target = Target(id="0c3e0a52-7a3b-4e0e-9d55-3f1f2a6f8b10", cwd="/home/me/app", at=1, blob=lambda digest: b"")
    native = writer.write(
        fit(Outline.in_memory({event.seq: event for event in events}), runtime(name), tools={}).rounds, target
    )
    assert any(b"yes" in file.data for file in native.files)
