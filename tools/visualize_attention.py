r"""Writes a page that shows which words a model looks at in a text.

    python tools/visualize_attention.py --model_dir=runs/mini/preset --output=attention.html \
        --text='The doctor told the nurse that he was late .'
    python tools/visualize_attention.py --model_dir=runs/mini/preset --output=attention.html \
        --text='He took his hat .' --text_pair='He left the room .' --png=attention.png

The page is one file that any browser opens without a network. --png draws all heads; with --layer
and --head it draws one, to be read.
"""

from collections.abc import Sequence

from absl import flags

from keras_bert import command_line

flags.DEFINE_string("model_dir", None, "Model folder, of any format and with any head.")
flags.DEFINE_string("text", None, "The text.")
flags.DEFINE_string("text_pair", None, "The second text of a pair.")
flags.DEFINE_string("output", "attention.html", "HTML file to write.")
flags.DEFINE_string("png", None, "Picture to write as well: .png or .svg (extra viz).")
flags.DEFINE_integer("layer", None, "Layer of the picture, from 0; unset: all.", lower_bound=0)
flags.DEFINE_integer("head", None, "Head of the picture, from 0; unset: all.", lower_bound=0)
flags.DEFINE_bool("join_words", False, "Join pieces into words in the picture, too.")
flags.DEFINE_integer("start", 0, "First token that is shown, for long texts.", lower_bound=0)
flags.DEFINE_integer("max_tokens", 256, "Most tokens that are shown.", lower_bound=1)
flags.DEFINE_list("ignore_config_keys", [], "Unknown keys of the model's config to pass over.")
flags.mark_flags_as_required(["model_dir", "text"])


def main(_: Sequence[str]) -> None:
    """Reads the flags and writes the page and the picture."""
    from keras_bert import show_attention
    from keras_bert.visualize import html_page
    from keras_bert.visualize.figure import check_picture

    values = flags.FLAGS
    html_page.check_name(values.output, "; --png writes .png and .svg")
    command_line.check_companions("png", "layer", "head", "join_words")
    if values.png is not None:
        check_picture(values.png)
    view = show_attention(
        values.model_dir,
        values.text,
        values.text_pair,
        start=values.start,
        max_tokens=values.max_tokens,
        ignore_config_keys=values.ignore_config_keys,
    )
    if values.png is not None:
        view.save_heat_map(values.png, values.layer, values.head, values.join_words)
        print(f"picture: {values.png}")
    view.save(values.output)
    print(f"tokens {view.start + 1} to {view.end} of {len(view.tokens)}: {values.output}")
    if view.cut_pieces:
        print(f"{view.cut_pieces:,} more pieces did not fit the positions of the model")


if __name__ == "__main__":
    command_line.run(main)
