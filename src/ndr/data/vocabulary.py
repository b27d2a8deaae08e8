"""Tokens and answers as numbers."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ndr.errors import Refusal
from ndr.tasks import Task
from ndr.tasks.malformed import unknown


@dataclass(frozen=True)
class Vocabulary:
    """The id of a token, and the class of an answer, is its place. Models add their own begin and end tokens."""

    tokens: tuple[str, ...]
    answers: tuple[str, ...]

    @staticmethod
    def of(task: Task) -> "Vocabulary":
        return Vocabulary(task.tokens, task.answers)

    @cached_property
    def token_ids(self) -> dict[str, int]:
        return {token: place for place, token in enumerate(self.tokens)}

    @cached_property
    def answer_ids(self) -> dict[str, int]:
        return {answer: place for place, answer in enumerate(self.answers)}

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        # Longest first, so that "[MAX" is not read as a shorter token.
        longest_first = sorted(self.tokens, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first)))

    def tokenize(self, text: str) -> list[str]:
        """The tokens of `text`, blanks between them or not; whether they make sense is the task's business."""
        found: list[str] = []
        position = 0
        while position < len(text):
            if text[position].isspace():
                position += 1
                continue
            match = self.pattern.match(text, position)
            if match is None:
                raise unknown(text[position:].split()[0], position)
            found.append(match[0])
            position = match.end()
        return found

    def encode(self, tokens: Iterable[str]) -> list[int]:
        try:
            return [self.token_ids[token] for token in tokens]
        except KeyError as error:
            raise Refusal(f'the vocabulary has no token "{error.args[0]}"') from error

    def decode(self, ids: Iterable[int]) -> list[str]:
        return [self.tokens[token] for token in ids]

    def encode_answer(self, answer: str) -> int:
        if answer not in self.answer_ids:
            raise Refusal(f'the vocabulary has no answer "{answer}"')
        return self.answer_ids[answer]

    def decode_answer(self, number: int) -> str:
        return self.answers[number]
