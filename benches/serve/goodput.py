"""Figures of a run: quantiles of first tokens and of gaps, and requests within targets."""
import math


def quantile(values, q):
    """The nearest-rank quantile; None for no values."""
    values = sorted(values)
    return values[max(0, math.ceil(q * len(values)) - 1)] if values else None


def quantiles(values):
    """p50, p90, p99 and the greatest value."""
    return {"p50": quantile(values, 0.5), "p90": quantile(values, 0.9), "p99": quantile(values, 0.99),
            "max": max(values, default=None), "count": len(values)}


def is_good(outcome, ttft, tbt):
    """Whether an answer is whole, its first token came within `ttft` seconds and the mean token after it within `tbt`."""
    if outcome.status != "done" or outcome.first is None or outcome.first > ttft:
        return False
    return outcome.token_time is None or outcome.token_time <= tbt


def figures(outcomes, window, elapsed, ttft, tbt):
    """The figures of a run of `elapsed` seconds whose requests arrived within `window` seconds."""
    counts = {}
    for outcome in outcomes:
        counts[outcome.status] = counts.get(outcome.status, 0) + 1
    done = [outcome for outcome in outcomes if outcome.status == "done"]
    # an abandoned request is neither good nor bad, but its first token counts
    started = [outcome for outcome in outcomes if outcome.first is not None]
    good = sum(is_good(outcome, ttft, tbt) for outcome in done)
    waits = [outcome.first for outcome in started]
    # an answer that never began is a wait, at least as long as the run lasted after it was due
    waits += [math.inf for outcome in outcomes if outcome.first is None]
    cached = [(outcome.cached, outcome.prompt) for outcome in done if outcome.cached is not None]
    return {
        "requests": len(outcomes), "outcomes": counts, "window_seconds": window, "elapsed_seconds": elapsed,
        "requests_per_second": len(outcomes) / window,
        "good_requests": good, "good_per_second": good / window,
        "tokens_per_second": sum(outcome.tokens for outcome in outcomes) / elapsed,
        "first_token_seconds": finite(quantiles(waits)),
        "token_seconds": quantiles([o.token_time for o in done if o.token_time is not None]),
        "gap_seconds": quantiles([gap for outcome in started for gap in outcome.gaps]),
        "longest_gap_seconds": quantiles([max(o.gaps) for o in started if o.gaps]),
        "tokens_per_read": mean([count for o in started for _, count in o.events[1:]]),
        "late_send_seconds": quantiles([outcome.sent for outcome in outcomes]),
        "cached_fraction": sum(c for c, _ in cached) / sum(p for _, p in cached) if cached else None,
    }


def finite(values):
    """The same values with None for infinity, which JSON lacks."""
    return {key: None if value == math.inf else value for key, value in values.items()}


def mean(values):
    return sum(values) / len(values) if values else None
