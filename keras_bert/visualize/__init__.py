"""Pictures of what a model does and how it learned."""
