"""Errors say field, value, problem and fix; unknown names are answered with the nearest."""

from __future__ import annotations

import pickle

from ullage.errors import ExitCode, InputError, InternalError, unknown_name


def test_an_input_error_reads_as_one_sentence_and_a_fix() -> None:
    error = InputError(
        field="slo.ttft_p95", value=0, problem="must be greater than 0", fix="Give a duration, for example 500ms."
    )
    assert str(error) == "slo.ttft_p95 = 0: must be greater than 0. Give a duration, for example 500ms."
    assert error.exit_code is ExitCode.WRONG_INPUT


def test_a_huge_value_is_cut_in_the_message() -> None:
    message = str(InputError(field="line", value="x" * 10_000_000, problem="is too long", fix="Cut it."))
    assert len(message) < 200
    assert "10000002 characters" in message


def test_the_nearest_names_come_first() -> None:
    error = unknown_name(field="device", name="H300-SXM", known=["h100-sxm", "h200-sxm", "l4"])
    assert str(error) == "device = 'H300-SXM': is not known. Did you mean h200-sxm or h100-sxm?"


def test_without_a_near_name_the_known_ones_are_listed() -> None:
    error = unknown_name(field="device", name="abacus", known=[f"device-{number:02}" for number in range(20)])
    assert "Known: device-00, device-01" in str(error)
    assert "(20 in total)" in str(error)


def test_an_internal_error_shows_both_sides() -> None:
    error = InternalError(law="lines sum to the device", left=80, right=81)
    assert str(error) == "lines sum to the device: 80 against 81"
    assert error.exit_code is ExitCode.INTERNAL


def test_an_input_error_is_the_same_after_a_journey_between_processes() -> None:
    error = InputError(field="rate", value=7, problem="is wrong", fix="Give another.")
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, InputError)
    assert (str(again), again.field, again.value) == (str(error), "rate", 7)
