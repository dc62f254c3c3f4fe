"""What a project keeps of what comes in: its secrets too, or marks in their place."""

from clew.model.events import Draft
from clew.service.kernel.context import Context


def masks_secrets(context: Context, project: str) -> bool:
    """Whether a project masks secrets before they are stored."""
    return context.setting(project, "secrets") == "mask"


def masked_if_required(context: Context, project: str, drafts: list[Draft]) -> list[Draft]:
    """The drafts as the project wants them kept: with their secrets, or masked."""
    if not masks_secrets(context, project):
        return drafts
    from clew.service.privacy.masking import mask_drafts

    return mask_drafts(context, drafts)


def bytes_masked_if_required(context: Context, project: str, data: bytes) -> bytes:
    """A stretch of a native file as the project wants it kept; masked, it is as long as before."""
    if not data or not masks_secrets(context, project):
        return data
    from clew.service.privacy.masking import masker_of

    return masker_of(context).blanked(data)


def text_masked_if_required(context: Context, project: str, text: str) -> str:
    """A text as the project wants it kept."""
    if not text or not masks_secrets(context, project):
        return text
    from clew.service.privacy.masking import masker_of

    return masker_of(context).mask(text.encode())[0].decode()
