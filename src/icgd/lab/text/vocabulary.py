"""Tokens: byte-pair encoding of both languages together, by Hugging Face's tokenizers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icgd.errors import InvalidParameter
from icgd.lab.text.pairs import Pair

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SEPARATOR, END, PADDING = 0, 1, 2
"""Tokens that are no text: between source and target, after the target, and where nothing is."""
N_SPECIAL = 3
N_BYTES = 256

Encoded = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Vocabulary:
    """Pieces of words, at least all bytes: any sentence can be written, and read back to the letter.

    Special tokens are not part of the tokenizer, so that no sentence can spell them.
    """

    tokenizer: Tokenizer

    @property
    def size(self) -> int:
        """Tokens, special ones included."""
        return self.tokenizer.get_vocab_size() + N_SPECIAL

    def encode(self, sentence: str) -> tuple[int, ...]:
        """The tokens of a sentence."""
        return tuple(i + N_SPECIAL for i in self.tokenizer.encode(sentence).ids)

    def decode(self, tokens: Iterable[int]) -> str:
        """The sentence of tokens; special ones are passed over."""
        ids = [i - N_SPECIAL for i in tokens if i >= N_SPECIAL]
        return str(self.tokenizer.decode(ids)).strip()

    def encode_pairs(self, pairs: Sequence[Pair], most_tokens: int) -> list[Encoded]:
        """Pairs with at most so many tokens on either side; longer ones are left out."""
        sources, targets = (self._encode_all([pair[side] for pair in pairs]) for side in (0, 1))
        encoded = zip(sources, targets, strict=True)
        return [pair for pair in encoded if max(map(len, pair)) <= most_tokens]

    def _encode_all(self, sentences: list[str]) -> Iterator[tuple[int, ...]]:
        """As one call, which is quicker than one for each."""
        for encoded in self.tokenizer.encode_batch_fast(sentences):
            yield tuple(i + N_SPECIAL for i in encoded.ids)


def learn_vocabulary(pairs: Sequence[Pair], size: int) -> Vocabulary:
    """Merge the most frequent neighbours until there are so many tokens, or nothing is left to merge."""
    try:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    except ImportError:
        raise InvalidParameter(
            "tokenizers", None, "be installed", remedy="pip install 'icgd[train]'."
        ) from None
    if size < N_BYTES + N_SPECIAL:
        raise InvalidParameter("size", size, f"be >= {N_BYTES + N_SPECIAL}, the bytes alone")
    tokenizer = Tokenizer(models.BPE())
    # A blank before the first word: it is the same word as inside a sentence.
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - N_SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((side for pair in pairs for side in pair), trainer)
    return Vocabulary(tokenizer)


def unigram_entropy(
    targets: Iterable[Sequence[int]], validated: Iterable[Sequence[int]], size: int
) -> float:
    """Nats per token of `validated` for who knows how often each token occurs in `targets`, and nothing else.

    Every sentence ends in END; every token counts once more than it occurs, so that none is impossible.

    >>> by_hand = -(math.log(2 / 9) + math.log(3 / 9)) / 2  # counts 2 (END), 1, 1, 0, 0, each plus 1
    >>> math.isclose(unigram_entropy([(3,), (4,)], [(3,)], 5), by_hand)
    True
    """
    counts = Counter(dict.fromkeys(range(size), 1))
    for tokens in targets:
        counts.update((*tokens, END))
    total = math.log(counts.total())
    seen = Counter(token for tokens in validated for token in (*tokens, END))
    return sum(n * (total - math.log(counts[token])) for token, n in seen.items()) / seen.total()
