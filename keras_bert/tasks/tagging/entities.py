"""Tags of words to entities and back, in the schemes BIO, IOB1 and BIOES.

BIO: B- begins each entity, I- goes on. IOB1 (the files of CoNLL-2003): I- begins one too, B- only
where another of the same type ends just before. BIOES: E- ends an entity, S- is one by itself.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, get_args

OUTSIDE = "O"
# Of a tag without a type, such as "B", as conlleval and seqeval name it.
_NO_TYPE = "_"
_ENTITY_TAG = re.compile(r"O|[BIES]-.+")

Scheme = Literal["BIO", "IOB1", "BIOES", "plain"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
_LETTERS = {"BIO": "OBI", "IOB1": "OBI", "BIOES": "OBIES"}


class Entity(NamedTuple):
    """Words that form one entity.

    Attributes:
        type: such as "PER".
        first: index of its first word.
        last: index of its last word.
    """

    type: str
    first: int
    last: int


def entities(tags: Sequence[str]) -> list[Entity]:
    """Returns the entities of a sentence in any of the schemes, sequences that break them too.

    They are those that conlleval and the default mode of seqeval count: a word goes on with the
    entity before it if its tag is I- or E-, the tag before is B- or I-, and both name one type; any
    other word that is not O begins an entity.

    Args:
        tags: one for each word.
    """
    found: list[Entity] = []
    before, type_before = OUTSIDE, _NO_TYPE
    for word, tag in enumerate(tags):
        letter, type_ = tag[:1], _type_of(tag)
        if letter in ("I", "E") and before in ("B", "I") and type_ == type_before:
            found[-1] = found[-1]._replace(last=word)
        elif letter != OUTSIDE:
            found.append(Entity(type_, word, word))
        before, type_before = letter, type_
    return found


def _type_of(tag: str) -> str:
    return tag[1:].removeprefix("-") or _NO_TYPE


def as_bio(tags: Sequence[str]) -> tuple[str, ...]:
    """Returns the same entities in BIO."""
    bio = [OUTSIDE] * len(tags)
    for entity in entities(tags):
        bio[entity.first] = f"B-{entity.type}"
        for word in range(entity.first + 1, entity.last + 1):
            bio[word] = f"I-{entity.type}"
    return tuple(bio)


def are_entity_tags(labels: Iterable[str]) -> bool:
    """Whether labels are those of entities: O, and B-, I-, E- or S- before a type."""
    return all(_ENTITY_TAG.fullmatch(label) for label in labels)


def belongs_to(tag: str, scheme: Scheme) -> bool:
    """Whether a scheme has such a tag; every label is a plain one."""
    if scheme == "plain":
        return bool(tag)
    return _ENTITY_TAG.fullmatch(tag) is not None and tag[0] in _LETTERS[scheme]


def detect_scheme(sentences: Iterable[Sequence[str]]) -> Scheme:
    """Returns the scheme of the tags of many sentences.

    Tags that are not all those of entities are plain ones; E- and S- occur in BIOES alone. A file
    is in IOB1 where entities begin with I-, and B- only ever parts two neighbours of one type.
    """
    sentences = list(sentences)
    labels = {tag for sentence in sentences for tag in sentence}
    if not are_entity_tags(labels):
        return "plain"
    if any(label[0] in "ES" for label in labels):
        return "BIOES"
    begun_by_i = False
    for tags in sentences:
        for before, tag in zip((OUTSIDE, *tags), tags, strict=False):
            same_type = before != OUTSIDE and _type_of(before) == _type_of(tag)
            if tag[0] == "B" and not same_type:
                return "BIO"
            begun_by_i |= tag[0] == "I" and not same_type
    return "IOB1" if begun_by_i else "BIO"
