"""Generator of the training corpus of Pelton's tiny model.

`document(rng)` is one training document, including the model's special tokens.
"""

from . import arithmetic, chats, facts, stories

BEGIN, END = "<|begin|>", "<|end|>"
SYSTEM, USER, ASSISTANT = "<|system|>", "<|user|>", "<|assistant|>"
SPECIAL_TOKENS = [BEGIN, END, SYSTEM, USER, ASSISTANT]

# The format of conversation() below as the model's chat template.
CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

SYSTEMS = [
    "You are a helpful assistant.",
    "You are a friendly assistant.",
    "You are Pelton's tiny built-in model.",
    "You are a storyteller.",
    "You are a patient teacher.",
    "Be polite and answer in simple words.",
    "Help the user.",
]
BRIEF_SYSTEMS = [
    "Answer as briefly as you can.",
    "Answer with as few words as possible.",
    "Give only the answer.",
    "You are a helpful assistant. Answer briefly.",
]


def raw(text):
    return f"{BEGIN}{text}{END}"


def conversation(turns, system=None):
    """A document of (question, answer) turns."""
    head = f"{SYSTEM}{system}{END}" if system else ""
    body = "".join(f"{USER}{q}{END}{ASSISTANT}{a}{END}" for q, a in turns)
    return f"{BEGIN}{head}{body}"


def prompt(asked, system=None):
    """A conversation up to the model's answer."""
    head = f"{SYSTEM}{system}{END}" if system else ""
    return f"{BEGIN}{head}{USER}{asked}{END}{ASSISTANT}"


def chat(rng):
    """One to eight turns, some of them linked, sometimes with a system message."""
    system = rng.choice(SYSTEMS) if rng.random() < 0.2 else None
    if rng.random() < 0.12:
        turns = [chats.question(rng) for _ in range(rng.randint(1, 4))]
        return conversation([(q, brief) for q, _, brief in turns], rng.choice(BRIEF_SYSTEMS))
    turns = []
    if rng.random() < 0.15:
        turns.append(chats.small_talk(rng, chats.GREETINGS))
    if rng.random() < 0.02:
        turns.append(("What is my name?", "You have not told me your name yet."))
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 5])):
        if rng.random() < 0.25:
            turns += chats.linked(rng)
        else:
            turns.append(chats.question(rng)[:2])
    if rng.random() < 0.15:
        turns.append(chats.small_talk(rng, chats.FAREWELLS))
    return conversation(turns, system)


def story(rng):
    return raw(stories.story(rng))


def story_chat(rng):
    asked, told, _ = stories.requested_story(rng)
    system = rng.choice(SYSTEMS) if rng.random() < 0.2 else None
    return conversation([(asked, told)], system)


def plain_facts(rng):
    return raw(facts.statements(rng))


def plain_sums(rng):
    return raw(arithmetic.column(rng))


# The fraction of documents of each kind; a story has about three times the tokens of a chat.
KINDS = {story: 22, story_chat: 9, chat: 62, plain_facts: 3, plain_sums: 4}
_KINDS, _WEIGHTS = list(KINDS), list(KINDS.values())


def document(rng):
    """One training document."""
    return rng.choices(_KINDS, _WEIGHTS)[0](rng)
