"""What an objective of pretraining says of itself; everything around it knows only names.

An objective is a model to train and one or more losses, each under a name:

    loss = sum over names of  scales[name] * sums[name].loss / counts[name]

`sums` come out of the forward pass, one set for every part of the batch: each replica has its rows
of the global batch and may cut them into micro-batches. `counts` are known before it and are those
of the *global* batch, so that the parts of the loss and of its gradient only have to be added up:
a batch gives the same update however it is spread.

    objective        names                        what is counted
    masked LM        masked_lm, next_sentence     predictions, examples
    causal LM        masked_lm, next_sentence     next pieces but special tokens, examples
    ELECTRA          masked_lm, replaced_token    predictions, real pieces; scales 1 and 50
    distillation     soft_target, masked_lm,      predictions, of the last four real pieces;
                     cosine, hidden_state,        the scales are options
                     attention, embedding

To add one: derive from `Objective` in a file of its own here, add its row to `registry.py` and its
name to `ObjectiveName` of keras_bert/choices.py. tests/pretraining/test_objective_seam.py has a
whole one in sixty lines.
"""

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from keras import ops

from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.config import BertConfig
from keras_bert.data.records.pipeline import Targets
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.training.losses import crossentropy_and_best_classes

Batch = Mapping[str, tf.Tensor]


class WeightedSums(NamedTuple):
    """Sums over one part of a batch (float32 scalars); add them over parts, then divide."""

    loss: Any
    correct: Any
    weight: Any


def classification_sums(logits: Any, labels: Any, weights: Any) -> WeightedSums:
    """Sums cross-entropy and right answers, each times its weight.

    Args:
        logits: scores [..., C]; computed with in float32.
        labels: the right classes, integers [...].
        weights: float [...]; 0 for what does not count.
    """
    logits = ops.cast(logits, "float32")  # [..., C]
    weights = ops.cast(weights, "float32")  # [...]
    losses, best = crossentropy_and_best_classes(logits, labels)  # [...] each
    # [...]: 1 where the best class is the right one
    hits = ops.cast(ops.equal(best, ops.cast(labels, "int32")), "float32")
    # [] each
    return WeightedSums(ops.sum(losses * weights), ops.sum(hits * weights), ops.sum(weights))


class Objective(abc.ABC):
    """What `pretrain` asks of an objective, in the order in which a run asks.

    It takes a registered one by its name, or any object of a derived class. `counts` and `sums` are
    traced into the training step, so shapes are static and there are no operations on the host.

    What is drawn at random in the forward pass (dropout, ELECTRA's replaced pieces) must come from
    `keras.random.SeedGenerator`s of the model's layers: the training step sets their state from the
    run's seed, the step, the replica and the micro-batch, so that a resumed run draws the same.
    Nothing sets it in an evaluation: where `training` is False, draw nothing, or by a fixed seed,
    else what is measured differs from one evaluation to the next.

    Attributes:
        name: the value of `--objective`; `run.json` keeps it, and a run goes on under no other. It
            keeps nothing else of an objective: one with other settings needs another name.
    """

    name: str

    @property
    def plateaus(self) -> Mapping[str, str]:
        """Held-out losses, each with the one of `baselines` that takes context to get below.

        Both are names of metrics: `baselines` must return the second one. The run tells when a loss
        is below its bound; by default there is none.
        """
        return {}

    @property
    def not_decayed(self) -> Sequence[str]:
        """Patterns of paths of trainable variables that no loss reaches.

        Weight decay alone would wear them down. Those of biases and norms need not be named, and a
        pattern may match nothing.
        """
        return ()

    @property
    @abc.abstractmethod
    def scales(self) -> Mapping[str, float]:
        """The names of the losses, each with its factor in the total: a dictionary will do."""

    def check(self, options: PretrainingOptions, data: PretrainingData) -> None:  # noqa: B027
        """Refuses what does not go with it; by default nothing.

        Args:
            options: settings of the run.
            data: the records; `sentence_task` and `max_predictions_per_seq` say what they hold.

        Raises:
            ValueError: an option would be without effect, or the records are of another kind.
        """

    def check_held_out(self, data: PretrainingData) -> None:  # noqa: B027
        """Refuses held-out records that it cannot be measured on; by default none.

        Raises:
            ValueError: the records are of another kind.
        """

    def model_config(self, config: BertConfig) -> BertConfig:
        """Returns the config to train under; by default the one that was asked for."""
        return config

    @abc.abstractmethod
    def targets(
        self, options: PretrainingOptions, tokenizer: Tokenizer, data: PretrainingData
    ) -> Targets:
        """Returns what the input pipeline does with unmasked records.

        Records that come masked are used as they are: `check` refuses them where that is wrong.

        Args:
            options: settings of the run.
            tokenizer: that of the records.
            data: the records, those to train on or the held-out ones: each has targets of its own,
                as the two may have different lengths.

        Raises:
            ValueError: a rate or a number of predictions is out of its range.
        """

    @abc.abstractmethod
    def create_model(
        self, config: BertConfig, arguments: Mapping[str, Any], source: Checkpoint | None = None
    ) -> Any:
        """Returns the model to train, with all its heads.

        Args:
            config: what `model_config` returned.
            arguments: those of an encoder: `seed` of all dropouts, `dtype` policy, `packed`.
            source: weights to start from; None for fresh ones.

        Returns:
            A Keras model. Its `encoder` is the one whose blocks `--remat` computes twice and whose
            dtype policy is the run's; its `config` is the encoder's.
        """

    @abc.abstractmethod
    def counts(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns what each loss is divided by, a float32 scalar a name, before the forward pass.

        Args:
            batch: this replica's rows; the step adds the counts over all replicas.
        """

    @abc.abstractmethod
    def sums(self, model: Any, batch: Batch, training: bool) -> dict[str, WeightedSums]:
        """Runs the model and sums each loss, not divided by anything.

        Args:
            model: what `create_model` returned.
            batch: some rows. Of held-out records it also has `example_weights` float32 [B], 0 for
                rows that only fill it up: they must not count.
            training: whether dropouts drop.
        """

    def metrics(self, sums: Mapping[str, WeightedSums]) -> dict[str, float]:
        """Returns the numbers that a person reads, from the sums of one or more steps.

        They are the keys of `metrics.jsonl`, of TensorBoard and of the report: the total `loss`,
        and by default `<name>_loss` and `<name>_accuracy`, which curves and progress bar show.
        """
        metrics = {"loss": 0.0}
        for name, scale in self.scales.items():
            # Nothing was predicted in a split without a maskable piece: 0 / 1 then.
            weight = max(float(sums[name].weight), 1.0)
            metrics[f"{name}_loss"] = float(sums[name].loss) / weight
            metrics[f"{name}_accuracy"] = float(sums[name].correct) / weight
            metrics["loss"] += scale * metrics[f"{name}_loss"]
        return metrics

    def baselines(self, batches: Iterable[Batch], vocab_size: int) -> dict[str, float]:
        """Returns the least that a model must reach on held-out batches; by default nothing."""
        return {}

    def flops(
        self,
        config: BertConfig,
        batch_size: int,
        max_seq_length: int,
        max_predictions_per_seq: int,
    ) -> int | None:
        """Returns the operations of a step by arithmetic, see `keras_bert.training.flops`.

        By default None: then no `model_flop_utilization` is shown.
        """
        return None

    def preset_model(self, model: Any) -> Any:
        """Returns what a preset keeps of the trained model; by default all of it.

        ELECTRA, for example, throws its generator away. A preset opens again only if its class has
        a row in `keras_bert.checkpoints.model_classes`.
        """
        return model
