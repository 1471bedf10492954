"""A set of record files, checked when it is opened."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from keras_bert.data.records import manifest as manifest_module
from keras_bert.data.records.manifest import Manifest, is_shard_name
from keras_bert.data.records.parsing import check_ids, id_range, read_first_example
from keras_bert.features import INPUT_IDS, MASKED_LM_POSITIONS, SEGMENT_IDS
from keras_bert.storage.paths import file_size, find_files, fingerprint
from keras_bert.text.vocabulary import Vocabulary

_GOOGLES_TASK = "nsp"


class PretrainingData:
    """Records for pretraining: ours with a manifest, or Google's with fixed masks.

    Args:
        source: the folder that `create_pretraining_data` made; or files or globs of records of
            create_pretraining_data.py of google-research/bert.

    Attributes:
        folder: the folder of the records, where their vocabulary is.
        manifest: what the folder holds, or None for records without a manifest.
        paths: the files that hold records.
        num_examples: number of records.
        num_bytes: size of the files.
        max_seq_length: the longest sequence in pieces.
        sentence_task: "nsp", "sop" or "none".
        packed: whether sequences hold several documents, told apart by `pack_ids`.
        max_predictions_per_seq: of records that come masked; None for those that do not.
        segmented: whether the records say where words begin that a segmenter found.
        groups: the records of each language by name, of a `RecordGroups`; else empty.

    Raises:
        FileNotFoundError: there are no such records.
        ValueError: a file is half-written, damaged or of another format; names it.
    """

    groups: Mapping[str, "PretrainingData"] = {}
    # The lowest and the highest id of each file of masked records.
    _ids: Mapping[str, tuple[int, int]] = {}

    def __init__(self, source: str | os.PathLike | Sequence[str | os.PathLike]):
        if isinstance(source, str | os.PathLike) and Path(source).is_dir():
            self._open_folder(Path(source))
        else:
            self._open_files(record_files(source))
        if not self.num_examples:
            raise ValueError(f"the records in {self.folder} hold no example: make them again")
        self.num_bytes = sum(map(os.path.getsize, self.paths))

    def check_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Makes sure that the ids belong to a vocabulary.

        Of records without a manifest nobody knows which it was, only whether it has their ids.

        Raises:
            ValueError: the records were made with another one.
        """
        made = self._made
        if made and vocabulary.sha256 != made.vocabulary_sha256:
            raise ValueError(
                f"the records in {self.folder} were made with another vocabulary "
                f"({made.vocab_size} entries, sha256 {made.vocabulary_sha256[:12]}...) than this "
                f"one ({len(vocabulary)} entries, sha256 {vocabulary.sha256[:12]}...): make them "
                "again with the model's"
            )
        for path, (lowest, highest) in self._ids.items():
            if lowest < 0 or highest >= len(vocabulary):
                check_ids(path, len(vocabulary))

    def digest(self) -> str:
        """Returns what tells the records from others: a hash of sizes, beginnings and ends."""
        files = sorted(fingerprint(path, file_size(path)) for path in self.paths)
        return f"{self.num_examples}/{hashlib.sha256(' '.join(files).encode()).hexdigest()[:16]}"

    def _open_folder(self, folder: Path) -> None:
        manifest = Manifest.read(folder)
        self.folder = folder
        self.manifest: Manifest | None = manifest
        self._made: Manifest | None = manifest
        self.max_predictions_per_seq = manifest.max_predictions_per_seq
        self.packed = manifest.packed
        self.segmented = manifest.word_segmenter is not None
        self.num_examples = manifest.examples
        self.max_seq_length = manifest.max_seq_length
        self.sentence_task = manifest.sentence_task
        self.paths = [str(folder / shard.name) for shard in manifest.shards if shard.examples]
        for shard in manifest.shards:
            file = folder / shard.name
            if not file.is_file():
                raise FileNotFoundError(
                    f"{file} is missing, but {manifest_module.FILE_NAME} lists it: "
                    "make the records again"
                )
            if file.stat().st_size != shard.bytes:
                raise ValueError(
                    f"{file} has {file.stat().st_size} bytes, but {manifest_module.FILE_NAME} says "
                    f"{shard.bytes}: it is cut off or was changed; make the records again"
                )
        for path in self.paths:
            lengths = read_first_example(path)
            if lengths[INPUT_IDS] > self.max_seq_length:
                raise ValueError(
                    f"{path} holds a sequence of {lengths[INPUT_IDS]} pieces, but the manifest "
                    f"says {self.max_seq_length} at most: make the records again"
                )

    def _open_files(self, paths: list[str]) -> None:
        shapes: dict[str, tuple[int, int]] = {}  # length of sequences, number of predictions
        for path in paths:
            lengths = read_first_example(path)
            if not lengths:
                continue
            if MASKED_LM_POSITIONS not in lengths:
                raise ValueError(
                    f"the records in {path} are not masked and come with a "
                    f"{manifest_module.FILE_NAME}: give their folder, {Path(path).parent}"
                )
            if lengths[INPUT_IDS] != lengths[SEGMENT_IDS]:
                raise ValueError(
                    f"{path}: {INPUT_IDS} has {lengths[INPUT_IDS]} values and {SEGMENT_IDS} "
                    f"{lengths[SEGMENT_IDS]}: the records are damaged"
                )
            shapes[path] = shape = lengths[INPUT_IDS], lengths[MASKED_LM_POSITIONS]
            if shape != next(iter(shapes.values())):
                raise ValueError(
                    f"{path} holds sequences and predictions of lengths {shape}, but "
                    f"{next(iter(shapes))} of {next(iter(shapes.values()))}: give files of one kind"
                )
        self.folder = Path(paths[0]).parent
        self.manifest = None  # these may be some of its files
        self._made = _made(paths)
        self.paths = list(shapes)
        shape = next(iter(shapes.values()), (0, 0))
        found = {path: id_range(path, *shape) for path in self.paths}
        self.num_examples = sum(number for number, _, _ in found.values())
        self._ids = {path: (lowest, highest) for path, (_, lowest, highest) in found.items()}
        self.max_seq_length, self.max_predictions_per_seq = shape
        # That of google-research/bert, which has no manifest.
        self.sentence_task = self._made.sentence_task if self._made else _GOOGLES_TASK
        self.packed = False
        self.segmented = False


def record_files(source: str | os.PathLike | Sequence[str | os.PathLike]) -> list[str]:
    """Returns the files of records that paths and globs name; nothing of them is read.

    Raises:
        FileNotFoundError: there are none.
        ValueError: one of several names is that of a folder.
    """
    patterns = [source] if isinstance(source, str | os.PathLike) else source
    if any(map(os.path.isdir, patterns)):
        raise ValueError(
            f"{', '.join(map(str, patterns))} names a folder among other records: give one folder "
            "alone, or files of masked records; run_pretraining.py takes folders of several "
            "languages, or of several corpora, as NAME=FOLDER,NAME=FOLDER"
        )
    try:
        return find_files(patterns)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there are no records at {', '.join(map(str, patterns))}: give a folder that "
            "create_pretraining_data.py made"
        ) from None


def _made(paths: Sequence[str]) -> Manifest | None:
    """Returns the manifest that tells how files were made; None for files of others.

    Raises:
        ValueError: they were made in different ways, or a manifest is damaged.
    """
    found: dict[Path, Manifest] = {}
    manifests: dict[str, Manifest | None] = {}
    for path in map(Path, paths):
        # Beside files of others there may be a manifest.json of others.
        ours = is_shard_name(path.name) and (path.parent / manifest_module.FILE_NAME).is_file()
        if ours and path.parent not in found:
            found[path.parent] = Manifest.read(path.parent)
        named = ours and path.name in {shard.name for shard in found[path.parent].shards}
        manifests[str(path)] = found[path.parent] if named else None
    made = next(filter(None, manifests.values()), None)
    if made is None:
        return None
    for name, manifest in manifests.items():
        task = manifest.sentence_task if manifest else _GOOGLES_TASK
        digest = manifest.vocabulary_sha256 if manifest else made.vocabulary_sha256
        if (task, digest) != (made.sentence_task, made.vocabulary_sha256):
            raise ValueError(
                f"{name} has the sentence task {task} and a vocabulary of sha256 {digest[:12]}..., "
                f"and other files {made.sentence_task} and {made.vocabulary_sha256[:12]}...: give "
                "files of one kind"
            )
    return made
