"""A conversation as one list, whoever tells it: a model request, or the events of a session in clew.

Only what was said counts. What clients add before the first prompt, or slip in as context of their own, is not theirs
to be compared; everything else is, so that a list is equal to another only if each thing is there, in order, once.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from clients.drivers import CLIENTS
from clients.wire import Item


class Told(NamedTuple):
    """One thing said. `kind` is user, assistant, call or result; `number` counts the calls, and joins the results."""

    kind: str
    text: str = ""
    name: str = ""
    arguments: Any = None
    number: int = 0


def in_request(items: Iterable[Item], prompts: Sequence[str]) -> list[Told]:
    """What a request tells the model, from the first of these prompts on."""
    told: list[Told] = []
    numbers: dict[str, int] = {}
    for item in items:
        if item.kind == "text" and item.role == "user":
            # Clients wrap a prompt in context and in quotes; the prompt itself must be whole.
            told += [Told("user", prompt) for prompt in prompts if prompt in item.text]
        elif not told:
            continue
        elif item.kind == "text" and item.role == "assistant":
            told.append(Told("assistant", item.text))
        elif item.kind == "call":
            numbers[item.call] = len(numbers) + 1
            told.append(Told("call", name=item.name, arguments=item.arguments, number=numbers[item.call]))
        elif item.kind == "result":
            told.append(Told("result", item.text, number=numbers.get(item.call, 0)))
    return results_in_order(told)


def in_events(events: Iterable[dict[str, Any]], prompts: Sequence[str]) -> list[Told]:
    """What the conversation of a session in clew holds; a user's text that is none of these prompts stays as it is."""
    told: list[Told] = []
    numbers: dict[str, int] = {}
    for event in events:
        match event["kind"]:
            case "message_added" if event["role"] == "assistant":
                if text := _message_text(event):
                    told.append(Told("assistant", text))
            case "message_added":
                text = _message_text(event)
                told.append(Told("user", next((prompt for prompt in prompts if prompt in text), text)))
            case "call_made":
                numbers[event["call"]] = len(numbers) + 1
                told.append(Told("call", "", event["tool"], event.get("input", {}), numbers[event["call"]]))
            case "call_returned":
                told.append(Told("result", _output_text(event), number=numbers.get(event["call"], 0)))
    return results_in_order(told)


def without_dialects(told: Iterable[Told]) -> list[Told]:
    """The same, with every client's shell tool called `shell`, and only the command among its arguments."""
    return [one if one.kind != "call" else _shell(one) for one in told]


def results_beside_calls(told: Iterable[Told]) -> list[Told]:
    """The same, with each result right behind its call: some clients keep the two as one, so parallel calls too."""
    beside: list[Told] = []
    for one in told:
        call = next((i for i, other in enumerate(beside) if one.kind == "result" and _is_call_of(other, one)), None)
        beside.insert(len(beside) if call is None else call + 1, one)
    return beside


def _is_call_of(call: Told, result: Told) -> bool:
    return call.kind == "call" and call.number == result.number


def _shell(call: Told) -> Told:
    for client in CLIENTS.values():
        if call.name == client.shell and client.command in call.arguments:
            return call._replace(name="shell", arguments={"command": call.arguments[client.command]})
    return call


def results_in_order(told: list[Told]) -> list[Told]:
    """The same, results that follow one another in the order of their calls: parallel calls may end in any order."""
    ordered: list[Told] = []
    for one in told:
        at = len(ordered)
        while one.kind == "result" and at and ordered[at - 1].kind == "result" and ordered[at - 1].number > one.number:
            at -= 1
        ordered.insert(at, one)
    return ordered


def _message_text(event: dict[str, Any]) -> str:
    if text := event.get("text"):
        return str(text)
    return "\n".join(part["text"] for part in event.get("parts", ()) if part["type"] == "text")


def _output_text(event: dict[str, Any]) -> str:
    match event.get("output"):
        case str() as text:
            return text
        case [{"text": str()}, *_] as blocks:
            return "\n".join(block["text"] for block in blocks)
        case other:
            return repr(other)
