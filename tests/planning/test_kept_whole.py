"""A plan that went to another process, or was kept, is the plan: no answer hangs on which object it was."""

from __future__ import annotations

import pickle

import pytest
import yaml

from support.planned import AS_OF, ONE_REPLICA
from ullage import verbs
from ullage.errors import Rejection
from ullage.planning.answer.answer import answer
from ullage.report.plan.json_document import plan_json


@pytest.mark.slow
def test_a_copy_of_a_plan_answers_as_the_plan_does() -> None:
    plan = verbs.plan(yaml.safe_load(ONE_REPLICA), as_of=AS_OF, quick=True)
    assert not isinstance(plan, Rejection)
    copy = pickle.loads(pickle.dumps(plan))
    assert copy == plan
    assert copy.assumptions == plan.assumptions
    assert copy.spec.scaling.stated == ()
    assert answer(copy) == answer(plan)
    assert plan_json(copy) == plan_json(plan)
