"""Fine-tuning: options, the loop around `model.fit`, search over seeds and settings."""
