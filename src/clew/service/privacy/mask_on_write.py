"""Mask secrets before they are stored, in projects whose setting `secrets` is `mask`."""

from clew.model.events import Draft
from clew.service.kernel.context import Context


def masks_secrets(context: Context, project: str) -> bool:
    """Whether a project masks secrets before they are stored."""
    return context.setting(project, "secrets") == "mask"


def masked_if_required(context: Context, project: str, drafts: list[Draft]) -> list[Draft]:
    """The drafts, masked if the project requires it."""
    if not masks_secrets(context, project):
        return drafts
    from clew.service.privacy.masking import mask_drafts

    return mask_drafts(context, drafts)


def bytes_masked_if_required(
    context: Context, project: str, data: bytes, *, before: bytes = b"", after: bytes = b""
) -> bytes:
    """Bytes of a native file between others, masked if the project requires it; masking keeps the length."""
    if not data or not masks_secrets(context, project):
        return data
    from clew.service.privacy.masking import masker_of

    mask = masker_of(context)
    return mask.blanked(mask.blanked_at_ends(data, before, after) if before or after else data)


def text_masked_if_required(context: Context, project: str, text: str) -> str:
    """A text, masked if the project requires it."""
    if not text or not masks_secrets(context, project):
        return text
    from clew.service.privacy.masking import masker_of

    return masker_of(context).mask(text.encode())[0].decode()
