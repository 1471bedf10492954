"""Reading a corpus: files of any kind as a stream of documents."""
