r"""Shows what a pretrained model guesses for masked words.

    python tools/fill_mask.py --init_from=runs/mini/preset \
        --text='She was not [MASK] to be pleased .' --text='He took his [MASK] and left the room .'

Every [MASK] in a text gets the likeliest pieces with their probabilities. With --every_word each
word of a text is masked in turn instead:

    python tools/fill_mask.py --init_from=runs/mini/preset --every_word --text='He left the room .'

A line for each piece shows how likely the model finds it, its rank, and what it would put there.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from keras_bert import command_line

if TYPE_CHECKING:
    from keras_bert.tasks.fill_mask.guesses import Guess

flags.DEFINE_string("init_from", None, "Model folder.")
flags.DEFINE_alias("model", "init_from")
flags.DEFINE_multi_string("text", None, "A text with [MASK] in it; may be given several times.")
flags.DEFINE_bool("every_word", False, "Mask each word of the texts in turn.")
flags.DEFINE_integer("top", 5, "How many guesses to show.", lower_bound=1)
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
flags.mark_flags_as_required(["init_from", "text"])


def main(_: Sequence[str]) -> None:
    """Reads the flags and prints the guesses."""
    from keras_bert import guess_every_word, load_tokenizer
    from keras_bert.models.masked_lm import load_masked_lm
    from keras_bert.tasks.fill_mask.guesses import fill_mask

    options = flags.FLAGS
    model = load_masked_lm(options.init_from, options.ignore_config_keys)
    tokenizer = load_tokenizer(options.init_from, keep_special_tokens=True)
    for text in options.text:
        print(text)
        if options.every_word:
            words = guess_every_word(model, tokenizer, text, options.top)
            if not words:
                raise ValueError(f"text is {text!r}, which holds no word: give one with words")
            for word in words:
                for piece in word.pieces:
                    own = f"{piece.piece:16} {_percent(piece.probability)}  rank {piece.rank:<6,}"
                    print(f"    {own}  {_row(piece.guesses)}")
        else:
            for guesses in fill_mask(model, tokenizer, text, options.top):
                print("    " + _row(guesses))


def _row(guesses: "Sequence[Guess]") -> str:
    return "  ".join(f"{guess.piece} {_percent(guess.probability).strip()}" for guess in guesses)


def _percent(probability: float) -> str:
    return f"{100 * probability:5.1f} %"


if __name__ == "__main__":
    command_line.run(main)
