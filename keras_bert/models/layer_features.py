"""Hidden states as features without fine-tuning: the six strategies of the paper's table 7."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras import ops

from keras_bert.choices import LayerStrategy, check_choice

# How many layers above the embeddings a strategy looks at, and what it makes of them.
_LAST_FOUR = 4


def _last_four(states: Sequence[Any]) -> Sequence[Any]:
    return states[-_LAST_FOUR:]


# Takes L + 1 states [B, S, H], embeddings first: states[0] is no layer, states[-1] the last.
_STRATEGIES: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "embeddings": lambda states: states[0],  # [B, S, H]
    "second_to_last": lambda states: states[-2],
    "last": lambda states: states[-1],
    "sum_last_4": lambda states: sum(_last_four(states)),  # [B, S, H]
    "concat_last_4": lambda states: ops.concatenate(_last_four(states), axis=-1),  # [B, S, 4H]
    "sum_all": lambda states: sum(states[1:]),  # without the embeddings
}


def check_strategy(option: str, strategy: str, num_hidden_layers: int) -> None:
    """Checks that a model has the layers of a strategy.

    Args:
        option: what the user calls it, for the error.
        strategy: a `LayerStrategy`.
        num_hidden_layers: layers of the model, L.

    Raises:
        ValueError: there is no such strategy, or the model has too few layers for it.
    """
    check_choice(option, strategy, LayerStrategy)
    if strategy.endswith("last_4") and num_hidden_layers < _LAST_FOUR:
        raise ValueError(
            f"{strategy} takes {_LAST_FOUR} layers but the model has {num_hidden_layers}: choose "
            "last or sum_all"
        )


def combine(hidden_states: Sequence[Any], strategy: str) -> Any:
    """Returns the features of a strategy.

    Args:
        hidden_states: L+1 of [B, S, H], embeddings first, as `BertEncoder` returns them.
        strategy: a `LayerStrategy`.

    Returns:
        [B, S, H]; for "concat_last_4" [B, S, 4H].
    """
    return _STRATEGIES[strategy](hidden_states)
