"""What a family of models puts around texts: special tokens by their role, and how rows are made.

    BERT, ALBERT,       [CLS] a [SEP]     [CLS] a [SEP] b [SEP]      segments 0 and 1
    DeBERTa
    ModernBERT          [CLS] a [SEP]     [CLS] a [SEP] b [SEP]      no segments: all 0
    Llama 3             <bos> a           <bos> a <bos> b            no segments: all 0
    RoBERTa, XLM-R,     <s> a </s>        <s> a </s> </s> b </s>     no segments: all 0
    MPNet

<bos> and <eos> stand for <|begin_of_text|> and <|end_of_text|>. A EuroBERT has rows of any of these
forms, or <bos> a <eos> <bos> b <eos>, as its file says. No TensorFlow here.
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
        separators: how many special tokens stand between two texts.
        has_segments: whether segment ids tell the second text from the first; else they are 0.
        ends: whether `sep` ends a row.
        begins_second: whether the last of the `separators` is `cls`; all others are `sep`.
    """

    separators: int = 1
    has_segments: bool = True
    ends: bool = True
    begins_second: bool = False

    @property
    def special_in_single(self) -> int:
        """How many special tokens a row of one text has."""
        return 1 + self.ends

    @property
    def special_in_pair(self) -> int:
        """How many special tokens a row of two texts has."""
        return 1 + self.separators + self.ends


BERT_TOKENS = SpecialTokens()
ALBERT_TOKENS = SpecialTokens(pad="<pad>", unk="<unk>")
ROBERTA_TOKENS = SpecialTokens("<pad>", "<unk>", "<s>", "</s>", "<mask>")
MODERNBERT_TOKENS = BERT_TOKENS
_BEGIN, _END = "<|begin_of_text|>", "<|end_of_text|>"
# Nothing is unknown to bytes.
EUROBERT_TOKENS = SpecialTokens(pad=_END, unk=_END, cls=_BEGIN, sep=_END, mask="<|mask|>")
MPNET_TOKENS = ROBERTA_TOKENS._replace(unk="[UNK]")

BERT_FRAMING = Framing()
MODERNBERT_FRAMING = Framing(has_segments=False)
ROBERTA_FRAMING = Framing(separators=2, has_segments=False)
LLAMA_FRAMING = Framing(has_segments=False, ends=False, begins_second=True)
ENDED_LLAMA_FRAMING = Framing(separators=2, has_segments=False, begins_second=True)


def between(framing: Framing, special: SpecialTokens) -> list[str]:
    """Returns the special tokens between two texts of a row."""
    last = special.cls if framing.begins_second else special.sep
    return [*[special.sep] * (framing.separators - 1), last]


def rows(framing: Framing, special: SpecialTokens) -> tuple[list[str], list[str]]:
    """Returns what a row of one text and a row of two is made of: special tokens, A and B."""
    end = [special.sep] if framing.ends else []
    return [special.cls, "A", *end], [special.cls, "A", *between(framing, special), "B", *end]
