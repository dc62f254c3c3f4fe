"""What a project keeps of what comes in: its secrets too, or marks in their place."""

from clew.model.events import Draft
from clew.service.registry import Context


def kept(context: Context, project: str, drafts: list[Draft]) -> list[Draft]:
    """The drafts as the project wants them kept: with their secrets, or masked."""
    if context.setting(project, "secrets") != "mask":
        return drafts
    from clew.service.redaction import mask_drafts

    return mask_drafts(context, drafts)


def kept_text(context: Context, project: str, text: str) -> str:
    """A text as the project wants it kept."""
    if not text or context.setting(project, "secrets") != "mask":
        return text
    from clew.service.redaction import masker_of

    return masker_of(context).mask(text.encode())[0].decode()
