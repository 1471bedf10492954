"""Shows what a pretrained model guesses for masked words.

    python tools/fill_mask.py --init_from=runs/mini/preset \
        --text='She was not [MASK] to be pleased .' --text='He took his [MASK] and left the room .'

Every [MASK] in a text gets the likeliest pieces with their probabilities.
"""

from collections.abc import Sequence

from absl import flags

from keras_bert import command_line

flags.DEFINE_string("init_from", None, "Model folder.")
flags.DEFINE_multi_string("text", None, "A text with [MASK] in it; may be given several times.")
flags.DEFINE_integer("top", 5, "How many guesses to show.", lower_bound=1)
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
flags.mark_flags_as_required(["init_from", "text"])


def main(_: Sequence[str]) -> None:
    """Reads the flags and prints the guesses."""
    from keras_bert import BertMaskedLM, BertTokenizer
    from keras_bert.tasks.fill_mask.guesses import fill_mask

    options = flags.FLAGS
    model = BertMaskedLM.from_preset(options.init_from, options.ignore_config_keys)
    tokenizer = BertTokenizer.from_preset(options.init_from, keep_special_tokens=True)
    for text in options.text:
        print(text)
        for guesses in fill_mask(model, tokenizer, text, options.top):
            print("    " + "  ".join(f"{g.piece} {100 * g.probability:.1f} %" for g in guesses))


if __name__ == "__main__":
    command_line.run(main)
