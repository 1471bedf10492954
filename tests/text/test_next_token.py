"""Targets of the left-to-right objective, by hand."""

import tensorflow as tf

from keras_bert.text.next_token import NextTokenTargets
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary([*SPECIAL_TOKENS, "a", "b", "c"])
PAD, CLS, SEP = VOCABULARY.pad_id, VOCABULARY.cls_id, VOCABULARY.sep_id
A, B, C = (VOCABULARY.id_of(piece) for piece in "abc")


def test_every_position_predicts_the_piece_after_it():
    targets = NextTokenTargets(VOCABULARY, max_seq_length=6)
    ids = tf.constant([[CLS, A, B, SEP, C, SEP], [CLS, C, SEP, PAD, PAD, PAD]])
    mask = tf.constant([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
    for call in (targets, tf.function(targets)):
        result = call(ids, mask, tf.zeros((2, 3), tf.int64))
        assert result["input_ids"].numpy().tolist() == ids.numpy().tolist()
        assert result["masked_lm_positions"].numpy().tolist() == [[0, 1, 2, 3, 4]] * 2
        assert result["masked_lm_ids"].numpy().tolist() == [
            [A, B, SEP, C, SEP],
            [C, SEP, PAD, PAD, PAD],
        ]
        assert result["masked_lm_weights"].numpy().tolist() == [[1, 1, 0, 1, 0], [1, 0, 0, 0, 0]]
