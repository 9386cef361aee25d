"""The template language of the corpus.

    {hero}  {hero.his}     a slot, or one of its forms
    [red|green|pale blue]  one of these, at random; they nest, and may be empty

A template is parsed once, into nested tuples, and expanded many times.
"""

import functools
import re

TOKEN = re.compile(r"\{(\w+)(?:\.(\w+))?\}|([\[\]|])|([^\[\]|{}]+)")


@functools.cache
def parse(template):
    """The template as a sequence of strings, slots (name, form) and lists of
    alternatives, each again a sequence."""
    alternatives, stack = [[]], []
    for match in TOKEN.finditer(template):
        name, form, mark, text = match.groups()
        if name:
            alternatives[-1].append((name, form or ""))
        elif text:
            alternatives[-1].append(text)
        elif mark == "[":
            stack.append(alternatives)
            alternatives = [[]]
        elif mark == "|":
            alternatives.append([])
        else:
            inner, alternatives = alternatives, stack.pop()
            alternatives[-1].append(inner)
    if stack or len(alternatives) != 1:
        raise ValueError(f"unbalanced brackets in {template!r}")
    return alternatives[0]


def _walk(parts, slots, rng, out):
    for part in parts:
        if isinstance(part, str):
            out.append(part)
        elif isinstance(part, tuple):
            out.append(slots[part[0]][part[1]])
        else:
            _walk(part[int(rng.random() * len(part))], slots, rng, out)


def expand(template, slots, rng):
    """The template's text, with its slots filled and its choices made."""
    out = []
    _walk(parse(template), slots, rng, out)
    return "".join(out)


def capital(text):
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def article(noun):
    """The noun behind its indefinite article."""
    vowel = noun[0] in "aeiou" and not noun.startswith(("uni", "use", "one"))
    return ("an " if vowel or noun.startswith("hour") else "a ") + noun


def thing(noun):
    """A slot for a countable thing: {x}, {x.a}, {x.A}, {x.the}, {x.The}, {x.head}."""
    a = article(noun)
    return {
        "": noun,
        "a": a,
        "A": capital(a),
        "the": "the " + noun,
        "The": "The " + noun,
        "head": noun.split()[-1],
    }


def plain(text):
    """A slot for a phrase that has only itself and a capital form."""
    return {"": text, "cap": capital(text)}


def listing(words, last="and"):
    """'a', 'a and b', 'a, b and c'."""
    words = list(words)
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
