"""Sentences that say of a text that it has a label, as zero-shot classification asks for them.

"This example is {}." and "sport"  -->  "This example is sport."

No TensorFlow here: tools make flags of the options that check a template.
"""

from typing import Any

from keras_bert.storage.text_lines import check_string

# That of Hugging Face's pipeline.
DEFAULT_TEMPLATE = "This example is {}."
_PLACE = "{}"


def check_template(template: Any) -> str:
    """Returns a template as a string that UTF-8 can write.

    Args:
        template: a sentence with one {}, where the label stands.

    Raises:
        ValueError: it is none, or has other braces.
    """
    template = check_string(template, "hypothesis_template")
    around = template.split(_PLACE)
    if len(around) != 2 or any(brace in text for text in around for brace in "{}"):
        raise ValueError(
            f"hypothesis_template is {template!r}: it must have one {_PLACE}, where the label "
            f"stands, and no other braces, as in {DEFAULT_TEMPLATE!r}"
        )
    return template


def around_label(template: str) -> tuple[str, str]:
    """Returns what stands before and behind the label in a template of `check_template`."""
    before, after = template.split(_PLACE)
    return before, after
