"""Tokens and answers as numbers."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ndr.errors import Refusal
from ndr.tasks import Task


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
