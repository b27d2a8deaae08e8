"""The refusal of a text that is not a sample."""

from ndr.errors import Refusal

# Untrusted text longer than this is refused before any work is done on it.
MAX_TOKENS = 100_000
MAX_CHARACTERS = 8 * MAX_TOKENS


class MalformedText(Refusal):
    """A text that does not follow the task. `position` counts characters from 0; `reason` is one phrase."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"{reason} at {position}")
        self.reason = reason
        self.position = position


def check_size(text: str) -> None:
    """Refuse empty and endless texts, before they are looked at."""
    if not text.strip(" "):
        raise MalformedText("empty input", 0)
    if len(text) > MAX_CHARACTERS:
        raise MalformedText(f"input longer than {MAX_TOKENS:,} tokens", MAX_CHARACTERS)


def words_of(text: str) -> list[tuple[str, int]]:
    """The words between blanks, each with the position of its first character."""
    check_size(text)
    found, start = [], 0
    for word in text.split(" "):
        if word:
            found.append((word, start))
        start += len(word) + 1
    return few_enough(found)


def few_enough(found: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The same tokens and positions, unless there are too many of them."""
    if len(found) > MAX_TOKENS:
        raise MalformedText(f"input longer than {MAX_TOKENS:,} tokens", found[MAX_TOKENS][1])
    return found


def unknown(symbol: str, position: int) -> MalformedText:
    """Name a symbol that the task does not have, shortened and printable."""
    shown = symbol if len(symbol) <= 20 else symbol[:20] + "…"
    return MalformedText(
        f'unknown symbol "{shown.encode("unicode_escape").decode() if not shown.isprintable() else shown}"',
        position,
    )
