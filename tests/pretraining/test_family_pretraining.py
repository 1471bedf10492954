"""Families besides BERT are pretrained: a run that is stopped goes on to the same end."""

import dataclasses

import numpy as np
import pytest

from keras_bert import (
    AlbertConfig,
    AlbertEncoder,
    BertMaskedLM,
    DebertaV2Config,
    DebertaV2Encoder,
    EuroBertConfig,
    EuroBertEncoder,
    GteConfig,
    GteEncoder,
    JinaEmbeddingsV3Config,
    JinaEmbeddingsV3Encoder,
    MegatronBertConfig,
    MegatronBertEncoder,
    MobileBertConfig,
    MobileBertEncoder,
    ModernBertConfig,
    ModernBertEncoder,
    MPNetConfig,
    MPNetEncoder,
    NomicBertConfig,
    NomicBertEncoder,
    RobertaConfig,
    RobertaEncoder,
)
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.models import preset
from keras_bert.training.checkpointing import TrainingCheckpoint
from tests.markers import some_slow
from tests.pretraining.pretraining_runs import metrics_of, run_pretraining, tiny_config

_NUMBERS = dataclasses.asdict(tiny_config(num_hidden_layers=2, classifier_dropout=0.1))
FAMILIES = {
    "albert": (AlbertConfig(**_NUMBERS, embedding_size=12), AlbertEncoder),
    "roberta": (RobertaConfig(**(_NUMBERS | {"type_vocab_size": 1})), RobertaEncoder),
    "mpnet": (MPNetConfig(**(_NUMBERS | {"type_vocab_size": 0})), MPNetEncoder),
    "modernbert": (
        ModernBertConfig(
            **(_NUMBERS | {"type_vocab_size": 0, "position_initializer": "normal"}),
            attention_window=2,
            global_attention_every=2,
        ),
        ModernBertEncoder,
    ),
    "deberta": (
        DebertaV2Config(
            **(_NUMBERS | {"type_vocab_size": 0, "position_initializer": "normal"}),
            position_buckets=8,
        ),
        DebertaV2Encoder,
    ),
    "nomic_bert": (
        NomicBertConfig(**(_NUMBERS | {"position_initializer": "normal"})),
        NomicBertEncoder,
    ),
    "gte": (
        GteConfig(**(_NUMBERS | {"type_vocab_size": 0, "position_initializer": "normal"})),
        GteEncoder,
    ),
    "jina": (
        JinaEmbeddingsV3Config(
            **(_NUMBERS | {"type_vocab_size": 1, "position_initializer": "normal"})
        ),
        JinaEmbeddingsV3Encoder,
    ),
    "mobilebert": (
        MobileBertConfig(
            **(_NUMBERS | {"position_initializer": "sinusoids"}),
            embedding_size=12,
            intra_bottleneck_size=16,
            num_feedforward_networks=2,
            classifier_activation=False,
        ),
        MobileBertEncoder,
    ),
    "megatron": (MegatronBertConfig(**_NUMBERS), MegatronBertEncoder),
    "eurobert": (
        EuroBertConfig(
            **(_NUMBERS | {"type_vocab_size": 0, "position_initializer": "normal"}),
            num_key_value_heads=1,
        ),
        EuroBertEncoder,
    ),
}


@pytest.mark.parametrize("family", some_slow(FAMILIES, ("albert", "jina")))
def test_a_run_learns_resumes_and_goes_to_transformers(family, corpus, tmp_path, monkeypatch):
    config, encoder_class = FAMILIES[family]
    changes = {"eval_data_dir": str(corpus / "records"), "beta_2": 0.98, "masking": "ngram"}
    changes |= {
        "train_steps": 20,
        "checkpoint_steps": 10,
        "learning_rate": 5e-3,
        "steps_per_loop": 2,
    }
    changes |= {"accumulation_steps": 2, "remat": True}
    metrics = run_pretraining(corpus, tmp_path / "whole", config=config, **changes)
    losses = [line["loss"] for line in metrics_of(tmp_path / "whole", "train")]
    assert losses[-1] < losses[0]

    save = TrainingCheckpoint.save

    def stop_after_save(self):
        save(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingCheckpoint, "save", stop_after_save)
    with pytest.raises(KeyboardInterrupt):
        run_pretraining(corpus, tmp_path / "run", config=config, **changes)
    monkeypatch.undo()
    assert run_pretraining(corpus, tmp_path / "run", config=config, **changes) == metrics
    kept = [BertMaskedLM.from_preset(tmp_path / name / "preset") for name in ("whole", "run")]
    assert type(kept[0].encoder) is encoder_class
    for left, right in zip(*(model.weights for model in kept), strict=True):
        np.testing.assert_array_equal(left.numpy(), right.numpy(), err_msg=left.path)
    (tmp_path / "hf").mkdir()
    checkpoint = preset.as_checkpoint(kept[0])
    if family == "mpnet":  # whose padding id is in the code of transformers
        with pytest.raises(ValueError, match="pad_token_id is 0: transformers' MPNet has 1"):
            checkpoints.write(checkpoint, tmp_path / "hf", "hf")
        return
    checkpoints.write(checkpoint, tmp_path / "hf", "hf")
    again = checkpoints.read(tmp_path / "hf")
    assert again.config == config.replace(position_initializer="normal")
    # A masked language model keeps no pooler where that is a part of other heads there.
    lost = checkpoint.variables.keys() - again.variables.keys()
    assert all(path.startswith("pooler/") for path in lost)
    assert bool(lost) == (family in ("modernbert", "deberta", "eurobert"))
    for path, value in checkpoint.variables.items():
        if path in lost:
            continue
        np.testing.assert_array_equal(again.variables[path], value, err_msg=path)
