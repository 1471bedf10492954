"""The layers of MobileBERT: words with their neighbours, blocks that are narrow inside."""
