"""Exponentially smoothed shares of languages, and the names they are given by.

A language with n_i of N examples is drawn with

    p_i = n_i^alpha / (n_1^alpha + n_2^alpha + ...)

alpha 1 leaves the shares as they are, alpha 0 makes them equal. Multilingual BERT takes 0.7, XLM
(Lample and Conneau, arXiv:1901.07291) 0.5 for its vocabulary and 0.7 for its batches, XLM-R
(Conneau et al., arXiv:1911.02116, section 3.1) 0.3. No TensorFlow here.
"""

import re
from collections.abc import Mapping, Sequence

from keras_bert.counts import check_number

# NAME=PATH. A path whose first folder holds "=" is written ./a=b.
_NAMED = re.compile(r"([A-Za-z0-9][\w-]*)=(.+)", re.DOTALL)


def smoothed_rates(sizes: Mapping[str, int], alpha: float) -> dict[str, float]:
    """Returns the rate at which each language is drawn.

    Args:
        sizes: how much there is of each language: examples, or words; above 0.
        alpha: the exponent, from 0 (all alike) to 1 (as they are).

    Returns:
        Rates whose sum is 1, in the order of `sizes`.

    Raises:
        ValueError: `alpha` is not from 0 to 1, or a language has nothing.

    Example:
        >>> smoothed_rates({"en": 900, "is": 100}, 0.5)
        {'en': 0.75, 'is': 0.25}
    """
    check_alpha(alpha)
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"language {name} has no text: check its files or leave it out")
    powers = {name: size**alpha for name, size in sizes.items()}
    total = sum(powers.values())
    return {name: power / total for name, power in powers.items()}


def check_alpha(alpha: float) -> None:
    """Checks the range of an exponent.

    Raises:
        ValueError: `alpha` is not from 0 to 1.
    """
    if not 0 <= check_number("language_alpha", alpha) <= 1:  # nor is NaN
        raise ValueError(
            f"language_alpha is {alpha}: it must be from 0 (all languages alike) to 1 (by size)"
        )


def named_paths(paths: Sequence[str], option: str) -> dict[str, list[str]]:
    """Returns the paths of each language where they are given as NAME=PATH.

    Args:
        paths: paths or globs; all of them named, or none. A name may come several times.
        option: what gave them, for messages.

    Returns:
        Paths by name, the names in alphabetical order; empty where none is named.

    Raises:
        ValueError: some are named and some are not.
    """
    matches = [_NAMED.fullmatch(path.strip()) for path in paths]
    groups: dict[str, list[str]] = {}
    for path, match in zip(paths, matches, strict=True):
        if match:
            groups.setdefault(match[1], []).append(match[2])
        elif any(matches):
            raise ValueError(
                f"--{option} names some languages, but {path!r} has no name: write NAME=PATH for "
                "each, or for none"
            )
    return dict(sorted(groups.items()))


def check_alpha_unused(alpha: float, option: str) -> None:
    """Refuses an alpha where no languages are named.

    Raises:
        ValueError: it is not 1.
    """
    if alpha != 1.0:
        raise ValueError(
            f"language_alpha is {alpha}, but --{option} names no languages: write NAME=PATH for "
            f"each, as in --{option}=en=PATH,de=PATH"
        )
