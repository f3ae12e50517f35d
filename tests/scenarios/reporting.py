"""Says how the scenarios went: one line each, and a summary."""

from collections import Counter

from tests.scenarios.judging import Verdict


def line(name: str, verdict: Verdict) -> str:
    """One scenario's line."""
    if verdict.left_out:
        return f"{name} left out: {verdict.difference}"
    if not verdict.passed:
        return f"{name} failed: {verdict.difference}"
    passed = f"{name} passed ({verdict.met})" if verdict.met else f"{name} passed"
    return f"{passed}: {verdict.difference}" if verdict.difference else passed


def summary(verdicts: list[Verdict], unusable_files: int) -> str:
    """The last line."""
    passed = sum(verdict.passed for verdict in verdicts)
    left_out = sum(verdict.left_out for verdict in verdicts)
    text = f"{len(verdicts)} scenarios: {passed} passed, {len(verdicts) - passed - left_out} failed"
    text += f", {left_out} left out" if left_out else ""
    met = Counter(verdict.met for verdict in verdicts if verdict.met)
    if met:
        text += f"; with an alternative: {met['expect']} met expect, {met['alternative']} the alternative"
    return text + (f"; files that could not be used: {unusable_files}" if unusable_files else "")
