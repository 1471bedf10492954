"""The job that makes records of a corpus: on all cores, resumed when killed, or on Apache Beam."""
