"""One option means one thing: whichever verb takes it, it has the same type and the same words."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from typer.core import TyperOption

from ullage import verbs
from ullage.cli.app import _command
from ullage.cli.help import COMMANDS, VERBS

# What a plan is made from is changed by --set and --traffic alone.
RETIRED = ("--map", "--attribute", "--what-if", "--scale", "--log", "--metrics")


def options() -> dict[str, dict[str, tuple[Any, ...]]]:
    """Option -> verb -> what the option is there."""
    found: dict[str, dict[str, tuple[Any, ...]]] = {}
    for verb in VERBS:
        for each in _command(verb).params:
            if isinstance(each, TyperOption):
                said = (each.help, each.type_descriptor.annotation, each.multiple, each.is_flag, each.metavar, each.min)
                for name in each.opts:
                    found.setdefault(name, {})[verb] = said
    return found


OPTIONS = options()


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_an_option_has_one_meaning_in_all_verbs(name: str) -> None:
    meanings = {str(said): verb for verb, said in OPTIONS[name].items()}
    assert len(meanings) == 1, f"{name} differs between {', '.join(meanings.values())}: {list(meanings)}"


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_option_says_what_it_is_for(verb: str) -> None:
    silent = [each.name for each in _command(verb).params if isinstance(each, TyperOption) and not each.help]
    assert silent == []


@pytest.mark.parametrize("name", RETIRED)
def test_a_second_name_for_an_option_does_not_come_back(name: str) -> None:
    assert name not in OPTIONS


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_takes_a_plan_takes_what_if(verb: str) -> None:
    """`compare` takes two plans: what differs between them is its subject."""
    taken = inspect.signature(getattr(verbs, verb)).parameters
    takes_plan = verb != "compare" and any("PlanSource" in str(each.annotation) for each in taken.values())
    assert ("set" in taken) == ("traffic" in taken) == takes_plan
    assert (verb in OPTIONS["--set"]) == (verb in OPTIONS["--traffic"]) == takes_plan
