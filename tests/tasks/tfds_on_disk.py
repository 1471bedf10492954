"""Small data sets in the format in which tensorflow_datasets keeps its own."""

import tensorflow as tf
import tensorflow_datasets as tfds


def write_data_set(folder, name, features, splits):
    """Writes splits of entries, in their order, where `tfds:name` is then found.

    `name` may be that of a data set with configurations, such as "glue/mnli".
    """
    features = tfds.features.FeaturesDict(features)
    version = folder / name / "1.0.0"
    version.mkdir(parents=True)
    prefix = name.partition("/")[0]
    infos = []
    for split, entries in splits.items():
        path = version / f"{prefix}-{split}.tfrecord-00000-of-00001"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for entry in entries:
                writer.write(features.serialize_example(entry))
        infos.append(tfds.core.SplitInfo(name=split, shard_lengths=[len(entries)], num_bytes=0))
    tfds.folder_dataset.write_metadata(
        data_dir=version,
        features=features,
        split_infos=infos,
        filename_template="{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
    )
    tfds.core.add_data_dir(folder)
