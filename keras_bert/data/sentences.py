"""Splits prose into sentences, by rules."""

import re

# Words after which a full stop does not end a sentence (before a capital letter).
_ABBREVIATIONS = frozenset(
    "mr mrs ms messrs mme mlle dr prof rev hon st ste capt col gen lt sgt maj adm gov sen rep esq"
    " jr sr no nos vol vols pp ch fig figs art sec ed eds al cf viz vs e.g i.e etc approx ca dept"
    " inc ltd co corp bros jan feb mar apr jun jul aug sept sep oct nov dec u.s u.k m mm".split()
)

# The end of a sentence: marks, then closing quotes and brackets; white space and something that
# can start a sentence follow. Marks of scripts without spaces end one by themselves.
_END = re.compile(
    r"""(?P<word>[^\s.!?]*)(?P<marks>[.!?…]+)(?P<closing>["'”’»)\]]*)\s+"""
    r"""(?=["'“‘«(\[¿¡—-]*[^\W_a-zà-öø-ÿ])"""
    r"""|(?P<wide>[。！？]+[」』”’）]*)\s*"""
)


def split_sentences(text: str) -> list[str]:
    """Returns the sentences of a paragraph, stripped, none of them empty.

    A full stop after an abbreviation ("Mr.") or an initial ("J.") ends no sentence; closing quotes
    and brackets stay with theirs. A line that is one sentence comes back as it is.
    """
    sentences, start = [], 0
    for match in _END.finditer(text):
        if match["wide"] or _ends_sentence(match):
            sentences.append(text[start : match.end()].strip())
            start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def _ends_sentence(match: re.Match[str]) -> bool:
    if match["marks"] != ".":
        return True
    word = match["word"].lstrip("\"'“‘«([—-").lower()
    is_initial = len(word) == 1 and word.isalpha() and word != "i"
    return not is_initial and word not in _ABBREVIATIONS
