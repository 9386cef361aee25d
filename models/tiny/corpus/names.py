"""Names: from a list, or generated, so that a name must be copied and not memorized."""

from . import words
from .grammar import capital

ONSETS = """b br c ch cl cr d dr f fl fr g gl gr h j k kh kl kr l m n ng p ph pl pr qu r rh s sc sh sk sl sm
sn sp st str sv t th tr ts v vl w wh x y z zb zh""".split() + [""] * 8
NUCLEI = "a e i o u a e i o u y aa ae ai au ea ee ei eu ia ie io oa oe oo ou ua ue ui á é í ó ö ü å ø".split()
CODAS = """b c ck d f g h k l ll m n nn ng nd nt p r rd rn rt s ss st sh t th tt v w x z cz""".split() + [""] * 14
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def syllable(rng):
    return rng.choice(ONSETS) + rng.choice(NUCLEI) + rng.choice(CODAS)


def made_up(rng):
    """A name that is in no list."""
    style = rng.random()
    if style < 0.5:
        name = "".join(syllable(rng) for _ in range(rng.randint(1, 4)))
    elif style < 0.7:
        name = "".join(rng.choice(LETTERS) for _ in range(rng.randint(3, 10)))
    elif style < 0.85:
        first, second = (rng.choice(words.GIRLS + words.BOYS) for _ in range(2))
        name = first[: rng.randint(1, len(first))] + second[rng.randrange(len(second)) :].lower()
    else:
        name = rng.choice(words.COMMON)
    return capital(name)


def first(rng, made_up_share=0.5):
    if rng.random() < made_up_share:
        return made_up(rng)
    return rng.choice(words.GIRLS + words.BOYS)


def last(rng):
    return made_up(rng) if rng.random() < 0.3 else rng.choice(words.SURNAMES)
