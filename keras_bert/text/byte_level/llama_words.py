r"""Where words begin by the regular expression of Llama 3's tokenizer, which EuroBERT has.

    (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
    \s*[\r\n]+|\s+(?!\S)|\s+

As with GPT-2's (`words.py`), that follows from a few neighbours of a character and from its run of
white space:

    it's  ok!\n\n(a) 12345     words "it" "'s" " " " ok" "!\n\n" "(a" ")" " " "123" "45"

- A run of letters begins one, but the character before it comes along where that begins a word
  itself: white space other than a line end, or a single sign with no space before it.
- Digits stand in threes from the left.
- A run of other signs begins one; a single space before it comes along, and so do line ends behind
  it.
- White space begins one behind anything else. It is divided behind its last line end, and its last
  character begins a word of its own where something follows that is on the same line.
- An apostrophe that begins a word takes s, t, m, d, re, ve or ll behind it along, in either case,
  and the long s; what follows begins a word.

Shapes: K characters of all texts, R runs of white space.
"""

import tensorflow as tf

from keras_bert.text.byte_level import character_classes as classes

_SPACE, _APOSTROPHE = ord(" "), ord("'")
_LINE_ENDS = (ord("\n"), ord("\r"))
# With what folds to the same letters.
_ONE_LETTER = tuple(map(ord, "sStTmMdD\u017f"))
_TWO_LETTERS = tuple(
    tuple(tuple(map(ord, letter + letter.upper())) for letter in pair)
    for pair in ("re", "ve", "ll")
)
_DIGITS = 3


def llama_word_starts(code_points: tf.Tensor, kinds: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
    """Tells at which characters words begin, bool [K].

    Args:
        code_points: int32 [K].
        kinds: int32 [K], their classes.
        begins: bool [K], where a word begins in any case, and nothing before it counts.
    """
    is_space, is_letter, is_digit, is_sign = (
        tf.equal(kinds, kind)
        for kind in (classes.SPACE, classes.LETTER, classes.DIGIT, classes.OTHER)
    )
    is_line_end = is_space & _is_any(code_points, _LINE_ENDS)
    place = tf.range(tf.size(kinds))
    # What stands before and behind, in the same text: [K].
    follows_letter, follows_space, follows_sign = (
        _before(kind) & ~begins for kind in (is_letter, is_space, is_sign)
    )
    ends = _after(begins, True)  # nothing follows in the same text

    # 1. White space. Of each run: where its first character stands that is no line end, and its
    # last line end.
    starts_run = is_space & ~follows_space
    run = tf.maximum(tf.cumsum(tf.cast(starts_run, tf.int32)) - 1, 0)  # [K]
    runs = tf.reduce_sum(tf.cast(starts_run, tf.int32)) + 1
    size = tf.size(kinds)
    first_inner = tf.math.unsorted_segment_min(
        tf.where(is_space & ~is_line_end, place, size), run, runs
    )  # [R]
    last_line_end = tf.math.unsorted_segment_max(tf.where(is_line_end, place, -1), run, runs)  # [R]
    behind_sign = tf.math.unsorted_segment_max(
        tf.cast(starts_run & follows_sign, tf.int32), run, runs
    )  # [R]
    # Line ends right behind other signs belong to them.
    absorbed = is_line_end & tf.equal(tf.gather(behind_sign, run), 1)
    absorbed &= place < tf.gather(first_inner, run)
    divided = is_space & ~is_line_end & tf.equal(place - 1, tf.gather(last_line_end, run))
    # The last of a run, and something follows.
    alone = is_space & ~is_line_end & ~_after(is_space, False) & ~ends
    space_starts = (starts_run | _before(absorbed) & follows_space) & ~absorbed | divided | alone

    # 2. Other signs: a space that begins a word takes them along.
    blank = _before(tf.equal(code_points, _SPACE)) & follows_space
    sign_starts = is_sign & ~follows_sign & ~blank
    # A single sign that begins a word, with a letter behind it.
    single = sign_starts & _after(is_letter, False) & ~ends

    # 3. Letters: what begins a word before them takes them along.
    joined = follows_space & ~_before(is_line_end) | _before(single) & follows_sign
    letter_starts = is_letter & ~follows_letter & ~joined

    # 4. Digits, in threes.
    starts_digits = is_digit & ~(_before(is_digit) & ~begins)
    digit_run = tf.maximum(tf.cumsum(tf.cast(starts_digits, tf.int32)) - 1, 0)
    first_digit = tf.concat([tf.boolean_mask(place, starts_digits), [0]], axis=0)
    digit_starts = is_digit & tf.equal((place - tf.gather(first_digit, digit_run)) % _DIGITS, 0)

    starts = begins | space_starts | sign_starts | letter_starts | digit_starts

    # 5. Contractions: an apostrophe that is such a single sign, and the letters behind it.
    quote = single & tf.equal(code_points, _APOSTROPHE)
    one = quote & _is_any(_after(code_points, 0), _ONE_LETTER)
    has_two = ~_after(ends, True)  # there are two characters behind, in the same text
    two = tf.zeros_like(quote)
    for first, second in _TWO_LETTERS:
        two |= (
            quote
            & has_two
            & _is_any(_after(code_points, 0), first)
            & _is_any(_after(_after(code_points, 0), 0), second)
        )
    return starts | _before(_before(one)) | _before(_before(_before(two)))


def _is_any(code_points: tf.Tensor, values: tuple[int, ...]) -> tf.Tensor:
    return tf.reduce_any(tf.equal(code_points[:, None], tf.constant(values)), axis=1)


def _before(values: tf.Tensor) -> tf.Tensor:
    """Returns what stands before each position, False before the first: bool [K] -> [K]."""
    return tf.concat([[False], values], axis=0)[: tf.size(values)]


def _after(values: tf.Tensor, default: int | bool) -> tf.Tensor:
    """Returns what stands behind each position: [K] -> [K]."""
    edge = tf.constant([default], values.dtype)
    return tf.concat([values, edge], axis=0)[1:][: tf.size(values)]
