"""Definitions of samplers in float64, written from their papers and docs/samplers' formulas.

Reads cases from stdin, a JSON object a line, and writes for each the probabilities that are left:
a JSON object from token to probability, {"left": {...}, "state": [...]}.  A case has "logits",
"history", "stages" (name and parameters each), "u" (the uniform value of XTC), "token" (the token
that was drawn, which samplers with a state learn from) and "state".
"""
import json
import math
import sys

import numpy as np


def softmax(logits):
    values = np.array(list(logits.values()), dtype=np.float64)
    weights = np.exp(values - values.max())
    return dict(zip(logits, weights / weights.sum()))


def order(logits):
    """Tokens from the likeliest on, ties by id."""
    return sorted(logits, key=lambda t: (-logits[t], t))


def keep(logits, tokens):
    tokens = set(tokens)
    return {t: l for t, l in logits.items() if t in tokens}


def entropy(p):
    return -sum(x * math.log(x) for x in p.values() if x > 0)


def penalties(logits, s, case):
    recent = case["history"][-s["window"]:] if s["window"] else []
    out = {}
    for t, l in logits.items():
        n = recent.count(t)
        if n:
            l = l / s["repetition"] if l > 0 else l * s["repetition"]
            l -= n * s["frequency"] + s["presence"]
        out[t] = l
    return out


def dry(logits, s, case):
    window = case["history"][-s["window"]:] if s["window"] else []
    if not window or s["multiplier"] == 0 or s["base"] < 1 or len(window) <= s["allowed"]:
        return logits
    # what lies behind the breaker that begins last; of those that begin there the longest
    tail = window
    for i in reversed(range(len(window))):
        ends = [i + len(b) for b in s["breakers"] if window[i:i + len(b)] == b]
        if ends:
            tail = window[max(ends):]
            break
    out = dict(logits)
    for t in logits:
        if [t] in s["breakers"]:
            continue
        longest = 0
        for j in range(1, len(window)):
            if window[j] != t:
                continue
            n = 0
            while n < min(j, len(tail)) and window[j - 1 - n] == tail[-1 - n]:
                n += 1
            longest = max(longest, n)
        if longest >= s["allowed"] and longest > 0:
            out[t] -= s["multiplier"] * s["base"] ** (longest - s["allowed"])
        elif s["allowed"] == 0 and t in window[1:]:
            out[t] -= s["multiplier"]
    return out


def top_n_sigma(logits, s, case):
    if s["n"] <= 0 or len(logits) <= 1:
        return logits
    values = np.array(list(logits.values()))
    return keep(logits, [t for t in logits if logits[t] >= values.max() - s["n"] * values.std()])


def top_k(logits, s, case):
    return keep(logits, order(logits)[:s["k"]]) if s["k"] > 0 else logits


def first_that_reach(tokens, p, enough, min_keep):
    total = 0.0
    for i, t in enumerate(tokens):
        total += p[t]
        if enough(total) and i + 1 >= min_keep:
            return tokens[:i + 1]
    return tokens


def typical(logits, s, case):
    if s["p"] >= 1:
        return logits
    p = softmax(logits)
    h = entropy(p)
    shift = {t: abs(-math.log(p[t]) - h) if p[t] > 0 else math.inf for t in order(logits)}
    by_shift = sorted(shift, key=shift.get)
    return keep(logits, first_that_reach(by_shift, p, lambda x: x > s["p"], s["min_keep"]))


def top_p(logits, s, case):
    if s["p"] >= 1:
        return logits
    tokens = first_that_reach(order(logits), softmax(logits), lambda x: x >= s["p"], s["min_keep"])
    return keep(logits, tokens)


def min_p(logits, s, case):
    if s["p"] <= 0:
        return logits
    least = max(logits.values()) + math.log(s["p"])
    count = sum(l >= least for l in logits.values())
    return keep(logits, order(logits)[:max(count, s["min_keep"], 1)])


def xtc(logits, s, case):
    if s["probability"] <= 0 or s["threshold"] > 0.5 or len(logits) < 2:
        return logits
    if case["u"] > s["probability"]:
        return logits
    p = softmax(logits)
    choices = [t for t in order(logits) if p[t] >= s["threshold"]]
    removed = choices[:-1]
    if len(logits) - len(removed) < max(s["min_keep"], 1):
        return logits
    return keep(logits, set(logits) - set(removed))


def temperature(logits, s, case):
    value = s["value"]
    if s["range"] > 0:
        if len(logits) <= 1:
            return logits
        low, high = max(0.0, value - s["range"]), value + s["range"]
        share = entropy(softmax(logits)) / math.log(len(logits))
        value = low + (high - low) * share ** s["exponent"]
    if value <= 1e-37:
        return keep(logits, order(logits)[:1])
    return {t: l / value for t, l in logits.items()}


def learn_surprise(logits, s, case):
    mu = case["state"][0]
    surprise = -math.log2(softmax(logits)[case["token"]]) if case["token"] in logits else math.nan
    case["state"][0] = mu - s["rate"] * (surprise - s["target"])


def mirostat(logits, s, case):
    ranked = order(logits)[:100]
    if len(ranked) > 1:
        t = np.array([math.log((i + 2) / (i + 1)) for i in range(len(ranked) - 1)])
        b = np.array([logits[x] - logits[y] for x, y in zip(ranked, ranked[1:])])
        s_hat = (t * b).sum() / (t * t).sum()
        eps = s_hat - 1
        with np.errstate(all="ignore"):
            base = eps * 2 ** case["state"][0] / (1 - np.float64(case["vocab"]) ** -eps)
            k = np.nan_to_num(base ** (1 / s_hat), nan=0.0, posinf=1e9, neginf=0.0)
        logits = keep(logits, order(logits)[:max(int(min(k, 1e9)), 1)])
    learn_surprise(logits, s, case)
    return logits


def mirostat2(logits, s, case):
    p = softmax(logits)
    kept = []
    for t in order(logits):
        if -math.log2(p[t]) > case["state"][0]:
            break
        kept.append(t)
    logits = keep(logits, kept or order(logits)[:1])
    learn_surprise(logits, s, case)
    return logits


def adaptive_p(logits, s, case):
    if s["target"] < 0:
        return logits
    p = softmax(logits)
    _, total, weight = case["state"]
    aim = min(max(2 * s["target"] - total / weight, 0), 1)
    if case["token"] in p:
        case["state"][1] = p[case["token"]] + s["decay"] * total
        case["state"][2] = 1 + s["decay"] * weight

    def logit(t):
        d = abs(p[t] - aim) / 0.3
        return 5 - 10 * d * d / (1 + d)
    return {t: logit(t) for t in logits}


for line in sys.stdin:
    case = json.loads(line)
    logits = dict(enumerate(case["logits"]))
    case["vocab"] = len(logits)
    for stage in case["stages"]:
        logits = globals()[stage["name"]](logits, stage, case)
    left = softmax(logits)
    print(json.dumps({"left": {str(t): left[t] for t in left}, "state": case["state"]}))
