"""Generator of the training corpus of Pelton's tiny model.

`document(rng, mix)` is one training document, including the model's special tokens, of a mix
of MIXES.
"""

from . import arithmetic, chats, facts, stories, thoughts, tools, varied

BEGIN, END = "<|begin|>", "<|end|>"
SYSTEM, USER, ASSISTANT, TOOL = "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"
SPECIAL_TOKENS = [BEGIN, END, SYSTEM, USER, ASSISTANT, TOOL]

# The format of conversation(), tool_chat() and thinking_chat() below as the model's chat template.
CHAT_TEMPLATE = """
{{- bos_token }}
{%- set system = messages[0].content if messages and messages[0].role == 'system' else '' %}
{%- if tools %}
    {{- '<|system|>' + (system + '\\n\\n' if system else '') + 'Tools:' }}
    {%- for tool in tools %}
        {{- '\\n' + ((tool.function or tool) | tojson) }}
    {%- endfor %}
    {{- '<|end|>' }}
{%- endif %}
{%- for message in messages %}
    {%- if not (tools and loop.first and message.role == 'system') %}
        {{- '<|' + message.role + '|>' + (message.content or '') }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n' if message.content or not loop.first }}
            {{- '<tool_call>\\n{"name": ' + (call.function.name | tojson) + ', "arguments": ' }}
            {{- (call.function.arguments | tojson) + '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>' + ('<think>\\n' if enable_thinking else '') }}
{%- endif %}
""".strip()

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


def tool_turns(rng, tool, thought):
    """A question that needs a tool, its call, the result and the answer."""
    result, answer = tools.outcome(rng, tool)
    call = tool.call()
    if thought:
        call = thoughts.thinking(tools.reason(rng, tool), call)
        if rng.random() < 0.5:
            answer = thoughts.thinking("I have the result.", answer)
    return f"{USER}{tool.asked}{END}{ASSISTANT}{call}{END}{TOOL}{result}{END}{ASSISTANT}{answer}{END}"


def tool_chat(rng):
    """One to three turns with a list of tools, most of which need one of them."""
    listed = tools.some_tools(rng, rng.choice([1, 1, 2, 2, 3, 4]))
    thought = rng.random() < 0.25
    asked = rng.sample(listed, min(len(listed), rng.choice([1, 1, 2])))
    turns = [tool_turns(rng, tool, False) for tool in asked[:-1]]
    turns.append(tool_turns(rng, asked[-1], thought))
    if rng.random() < 0.4:
        q, a = thoughts_or_answer(rng, False)
        turns.insert(rng.randrange(len(turns) + 1) if not thought else 0, f"{USER}{q}{END}{ASSISTANT}{a}{END}")
    system = rng.choice(SYSTEMS) + "\n\n" if rng.random() < 0.3 else ""
    return f"{BEGIN}{SYSTEM}{system}{tools.listed(listed)}{END}{''.join(turns)}"


def thoughts_or_answer(rng, thought):
    """A question of the rest of the corpus and its answer, with a thought if that is wanted."""
    if not thought:
        return chats.question(rng)[:2]
    asked, why, answer = thoughts.question(rng)
    return asked, thoughts.thinking(why, answer)


def thinking_chat(rng):
    """One to three turns, the last of which has a thought."""
    before = [chats.question(rng)[:2] for _ in range(rng.choice([0, 0, 1, 2]))]
    return conversation([*before, thoughts_or_answer(rng, True)])


def plain_facts(rng):
    return raw(facts.statements(rng))


def plain_sums(rng):
    return raw(arithmetic.column(rng))


def plain_varied(rng):
    return raw(varied.text(rng))


# The fraction of documents of each kind; a story has about three times the tokens of a chat.
KINDS = {
    story: 22,
    story_chat: 9,
    chat: 72,
    tool_chat: 24,
    thinking_chat: 14,
    plain_facts: 3,
    plain_sums: 4,
}
MIXES = {"tiny": KINDS, "varied": {**KINDS, plain_varied: 70}}


def document(rng, mix="tiny"):
    """One training document."""
    kinds = MIXES[mix]
    return rng.choices(list(kinds), list(kinds.values()))[0](rng)
