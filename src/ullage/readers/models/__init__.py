"""Hugging Face model configs in: any `config.json`, as a file or in a directory, becomes a `Model`.

files          opens the JSON and the quantisation file beside it
text           finds the language model in a multimodal config; families: what a class implies
layout         which mixer each layer has, in all spellings of the pattern
attention, recurrent, feed_forward     the parts of a layer
quantisation, modules                  how each part is stored
extras         dtype, context, embeddings, prediction layers, towers
unread         refuses keys that may matter and that nobody understood
assemble       puts it together
"""

from __future__ import annotations

from pathlib import Path

from ullage.documents import reading
from ullage.errors import InputError
from ullage.facts.model import Model
from ullage.readers.models.assemble import model_from_config
from ullage.readers.models.files import beside_path, config_path, read_object, source_of

_FIX = "Give config.json as it was published."
__all__ = ["model_from_config", "read_model"]


def read_model(path: Path) -> Model:
    """Read a model from its config.json, or from a directory that holds one."""
    config = config_path(path)
    beside = beside_path(config)
    with reading(str(config), fix=_FIX):
        content = read_object(config)
        extra = read_object(beside) if beside is not None else None
        try:
            return model_from_config(content, name=_name(config), source=source_of(config), beside=extra)
        except ValueError as error:
            # What a model cannot have, such as a block of no channels, whichever keys came to it.
            raise InputError(field=config.name, value=str(error), problem="describes no model", fix=_FIX) from None


def _name(config: Path) -> str:
    """The directory's name for a plain config.json, else the file's own."""
    if config.name == "config.json":
        return config.resolve().parent.name
    return config.name.removesuffix(".json").removesuffix("_config")
