"""OpenAI's API: completions, chat, models."""
