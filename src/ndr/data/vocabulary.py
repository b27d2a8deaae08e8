"""Text to token ids and back."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ndr.errors import Refusal


@dataclass(frozen=True)
class Vocabulary:
    """Token id = position in `tokens`, class = position in `answers`. B and E belong to the networks."""

    tokens: tuple[str, ...]
    answers: tuple[str, ...]

    @cached_property
    def ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        # Longest first, so that "[MAX" is not read as a shorter token.
        longest_first = sorted(self.tokens, key=len, reverse=True)
        return re.compile(r"\s*(" + "|".join(map(re.escape, longest_first)) + r")\s*")

    def tokenize(self, text: str) -> list[str]:
        """The tokens of `text`, blanks between them or not; what they mean is the task's business."""
        found: list[str] = []
        position = 0
        while position < len(text):
            match = self.pattern.match(text, position)
            if match is None:
                rest = text[position:].lstrip()
                raise Refusal(f'unknown symbol "{rest[:1]}" at {len(text) - len(rest)}')
            found.append(match[1])
            position = match.end()
        return found

    def encode(self, tokens: Sequence[str]) -> list[int]:
        return [self.ids[token] for token in tokens]

    def decode(self, ids: Sequence[int]) -> list[str]:
        return [self.tokens[index] for index in ids]
