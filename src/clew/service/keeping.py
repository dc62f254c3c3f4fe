"""What a project keeps of what comes in: its secrets too, or marks in their place."""

from clew.model.events import Draft
from clew.service.registry import Context


def masks(context: Context, project: str) -> bool:
    """Whether a project keeps no secrets."""
    return context.setting(project, "secrets") == "mask"


def kept(context: Context, project: str, drafts: list[Draft]) -> list[Draft]:
    """The drafts as the project wants them kept: with their secrets, or masked."""
    if not masks(context, project):
        return drafts
    from clew.service.redaction import mask_drafts

    return mask_drafts(context, drafts)


def kept_bytes(context: Context, project: str, data: bytes) -> bytes:
    """A stretch of a native file as the project wants it kept; masked, it is as long as before."""
    if not data or not masks(context, project):
        return data
    from clew.service.redaction import masker_of

    return masker_of(context).blanked(data)


def kept_text(context: Context, project: str, text: str) -> str:
    """A text as the project wants it kept."""
    if not text or not masks(context, project):
        return text
    from clew.service.redaction import masker_of

    return masker_of(context).mask(text.encode())[0].decode()
