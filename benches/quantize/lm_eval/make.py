"""Write facts.jsonl: questions about sentences of `benches/effort/text.txt`, with four choices each.

    python benches/quantize/lm_eval/make.py      # from the repository's root
"""

import json
import pathlib
import random
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
FORMS = [r"(The opposite of \w+ is) (\w+)\.", r"([A-Z]\w+ is the capital of) (\w+)\.", r"([A-Z]\w+ is in) (\w+)\."]

text = (ROOT / "benches/effort/text.txt").read_text()
rng = random.Random("facts 2026")
lines = []
for form in FORMS:
    found = sorted(set(re.findall(form, text)))
    answers = sorted({answer for _, answer in found})
    for question, answer in found:
        right = {a for q, a in found if q == question}
        wrong = [a for a in answers if a not in right]
        if len(right) > 1 or len(wrong) < 3:
            continue
        choices = [answer, *rng.sample(wrong, 3)]
        rng.shuffle(choices)
        lines.append({"question": question, "choices": [f" {c}" for c in choices], "label": choices.index(answer)})
(pathlib.Path(__file__).parent / "facts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
