r"""Writes a page that shows which words made an answer: integrated gradients.

    python tools/visualize_attributions.py --model_dir=runs/reviews --output=attributions.html \
        --text='Stale crackers, and the box was open.' --target=negative
    python tools/visualize_attributions.py --model_dir=runs/mini/preset --output=attributions.html \
        --text='The doctor told the [MASK] that he was late .'

Of models for questions --text is the question and --text_pair its context; of multiple choice the
context and a choice. The page is one file without scripts. predict.py --explain gives the same
numbers for all texts of a file.
"""

from collections.abc import Sequence

from absl import flags

from keras_bert import command_line

flags.DEFINE_string("model_dir", None, "Folder of a fine-tuned or pretrained model, any format.")
flags.DEFINE_string("text", None, "The text.")
flags.DEFINE_string("text_pair", None, "The second text of a pair.")
flags.DEFINE_string("target", None, "Label, answer or piece to explain; unset: the model's own.")
flags.DEFINE_string("position", None, "Of a tagger the word, of a masked LM which [MASK], from 0.")
flags.DEFINE_string("baseline", "[MASK]", "Piece that stands for every other in the baseline.")
flags.DEFINE_string("output", "attributions.html", "HTML file to write.")
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
flags.mark_flags_as_required(["model_dir", "text"])


def main(_: Sequence[str]) -> None:
    """Reads the flags and writes the page."""
    from keras_bert import show_attributions
    from keras_bert.visualize import html_page

    values = flags.FLAGS
    html_page.check_name(values.output)
    view = show_attributions(
        values.model_dir,
        values.text,
        values.text_pair,
        target=values.target,
        position=values.position,
        baseline=values.baseline,
        ignore_config_keys=values.ignore_config_keys,
    )
    view.save(values.output)
    print(
        f"{values.output}: {view.target}, {len(view.words)} words, the sum of the scores is "
        f"{100 * view.error:.1f} % off the difference"
    )


if __name__ == "__main__":
    command_line.run(main)
