"""What a family of models puts around texts: special tokens by their role, and how rows are made.

    BERT, ALBERT,       [CLS] a [SEP]     [CLS] a [SEP] b [SEP]      segments 0 and 1
    DeBERTa
    ModernBERT          [CLS] a [SEP]     [CLS] a [SEP] b [SEP]      no segments: all 0
    RoBERTa, XLM-R,     <s> a </s>        <s> a </s> </s> b </s>     no segments: all 0
    MPNet

No TensorFlow here.
"""

from typing import NamedTuple


class SpecialTokens(NamedTuple):
    """Special tokens by their role, as the vocabulary spells them.

    Attributes:
        pad: fills rows up.
        unk: stands for what the vocabulary cannot say.
        cls: begins a row; [CLS] or <s>.
        sep: ends a text; [SEP] or </s>.
        mask: hides a piece.
    """

    pad: str = "[PAD]"
    unk: str = "[UNK]"
    cls: str = "[CLS]"
    sep: str = "[SEP]"
    mask: str = "[MASK]"


class Framing(NamedTuple):
    """How rows of one text or two are made.

    Attributes:
        separators: how many `sep` stand between two texts.
        has_segments: whether segment ids tell the second text from the first; else they are 0.
    """

    separators: int = 1
    has_segments: bool = True

    @property
    def special_in_single(self) -> int:
        """How many special tokens a row of one text has."""
        return 2

    @property
    def special_in_pair(self) -> int:
        """How many special tokens a row of two texts has."""
        return 2 + self.separators


BERT_TOKENS = SpecialTokens()
ALBERT_TOKENS = SpecialTokens(pad="<pad>", unk="<unk>")
ROBERTA_TOKENS = SpecialTokens("<pad>", "<unk>", "<s>", "</s>", "<mask>")
MODERNBERT_TOKENS = BERT_TOKENS
MPNET_TOKENS = ROBERTA_TOKENS._replace(unk="[UNK]")

BERT_FRAMING = Framing()
MODERNBERT_FRAMING = Framing(has_segments=False)
ROBERTA_FRAMING = Framing(separators=2, has_segments=False)


def rows(framing: Framing, special: SpecialTokens) -> tuple[list[str], list[str]]:
    """Returns what a row of one text and a row of two is made of: special tokens, A and B."""
    single = [special.cls, "A", special.sep]
    return single, [*single, *[special.sep] * (framing.separators - 1), "B", special.sep]
