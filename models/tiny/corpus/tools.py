"""Conversations with tools: which tool a question needs, its arguments, and its result.

A tool call is Hermes': `<tool_call>\\n{"name": …, "arguments": …}\\n</tool_call>`. Names of tools
and parameters vary, and half of the tools are made up, so that they are copied from the list in the
prompt and not memorized.
"""

import json

from . import arithmetic, names, words
from .grammar import capital

ANY_CITY = "city place town location".split()
COUNTS = "count number amount quantity".split()
PEOPLE = "name person who".split()
LANGUAGES = "French German Spanish Italian Latin Dutch Greek Polish".split()
ROOMS = "kitchen bedroom garden hall bathroom office garage".split()
UNITS = "celsius fahrenheit".split()
WEATHERS = "sunny cloudy rainy windy snowy foggy stormy clear".split()


def identifier(rng):
    """A made-up word that can be a part of a tool's name."""
    while True:
        word = names.made_up(rng).lower()
        if word.isascii() and word.isalnum():
            return word


def text(rng, options):
    return rng.choice(options), {"type": "string"}


class Tool:
    """A definition, a question that needs it, the arguments, and what comes of it."""

    def __init__(self, name, description, parameters, asked, arguments, result, answer):
        self.name, self.arguments = name, arguments
        self.asked, self.result, self.answer = asked, result, answer
        required = [key for key in parameters if key in arguments]
        self.definition = {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": parameters, "required": required},
        }

    def rename(self, name):
        self.name = self.definition["name"] = name

    def call(self):
        body = {"name": self.name, "arguments": self.arguments}
        return f"<tool_call>\n{json.dumps(body, ensure_ascii=False)}\n</tool_call>"


def a_city(rng):
    return names.made_up(rng) if rng.random() < 0.3 else rng.choice(words.CITIES)


def weather(rng):
    key, key_schema = text(rng, ANY_CITY)
    city, degrees, sky = a_city(rng), rng.randint(-9, 35), rng.choice(WEATHERS)
    name = rng.choice(["get_weather", "weather", "current_weather", "weather_in", "getWeather"])
    parameters, arguments = {key: key_schema}, {key: city}
    asked = rng.choice(
        ["What is the weather in {}?", "What is the weather like in {}?", "How is the weather in {} today?",
         "Tell me the weather in {}.", "Is it raining in {}?", "How warm is it in {}?", "weather in {}"]
    ).format(city)
    if rng.random() < 0.3:
        parameters["unit"] = {"type": "string", "enum": UNITS}
        if rng.random() < 0.5:
            arguments["unit"] = rng.choice(UNITS)
            asked = f"{asked[:-1]} in {arguments['unit']}{asked[-1]}" if asked[-1] in "?." else asked + f" in {arguments['unit']}"
    result = rng.choice(
        [f"{degrees} degrees, {sky}", f"{capital(sky)}, {degrees} degrees",
         json.dumps({"temperature": degrees, "sky": sky}), f"It is {sky} and {degrees} degrees in {city}."]
    )
    answer = f"It is {sky} in {city}, with {degrees} degrees."
    return Tool(name, rng.choice(["The weather of a city", "Get the current weather in a city.", "Tells the weather."]),
                parameters, asked, arguments, result, answer)


def clock(rng):
    key, schema = text(rng, ANY_CITY)
    city, hour, minute = a_city(rng), rng.randint(0, 23), rng.randint(0, 59)
    time = f"{hour}:{minute:02}"
    asked = rng.choice(["What time is it in {}?", "Tell me the time in {}.", "How late is it in {}?"]).format(city)
    return Tool(rng.choice(["get_time", "current_time", "time_in", "clock"]),
                rng.choice(["The time in a city", "Get the current time of a city."]),
                {key: schema}, asked, {key: city}, rng.choice([time, json.dumps({"time": time})]),
                f"It is {time} in {city}.")


def calculator(rng):
    word, sign, apply = rng.choice(
        [("add", "+", lambda a, b: a + b), ("multiply", "*", lambda a, b: a * b), ("subtract", "-", lambda a, b: a - b)]
    )
    keys = rng.choice([("a", "b"), ("x", "y"), ("first", "second"), ("left", "right")])
    a, b = rng.randint(0, 999), rng.randint(arithmetic.LARGE, 999)
    said = {"+": "plus", "*": "times", "-": "minus"}[sign]
    asked = rng.choice(["What is {} {} {}?", "Calculate {} {} {}.", "How much is {} {} {}?", "{} {} {}"])
    asked = asked.format(a, rng.choice([sign, said]), b)
    schema = {"type": rng.choice(["integer", "number"])}
    return Tool(rng.choice([word, f"{word}_numbers", f"calc_{word}"]), f"{capital(word)} two numbers.",
                dict.fromkeys(keys, schema), asked, dict(zip(keys, (a, b))), str(apply(a, b)),
                f"{a} {sign} {b} = {apply(a, b)}.")


def message(rng):
    to, what = rng.choice(["to", "recipient", "name"]), rng.choice(["text", "message", "body"])
    name = names.first(rng)
    body = rng.choice(["I am late", "dinner is ready", "the train is full", "happy birthday", "come home",
                       "see you tomorrow", "the door is open", "thank you", f"I am in {a_city(rng)}"])
    asked = rng.choice(["Send {} the message: {}", "Write to {}: {}", "Tell {}: {}", "Send a message to {}: {}"])
    return Tool(rng.choice(["send_message", "send", "text_someone", "sendMail"]), "Send a message to a person.",
                {to: {"type": "string"}, what: {"type": "string"}}, asked.format(name, body),
                {to: name, what: body}, rng.choice(["sent", "ok", "done"]), f"I sent the message to {name}.")


def alarm(rng):
    hour, minute = rng.randint(0, 23), rng.choice([0, 5, 10, 15, 20, 30, 45, 50])
    asked = rng.choice(["Wake me at {}:{:02}.", "Set an alarm for {}:{:02}.", "Set the alarm to {}:{:02}."])
    return Tool(rng.choice(["set_alarm", "alarm", "wake_up"]), "Set an alarm.",
                {"hour": {"type": "integer"}, "minute": {"type": "integer"}}, asked.format(hour, minute),
                {"hour": hour, "minute": minute}, "ok", f"The alarm is set for {hour}:{minute:02}.")


def light(rng):
    room, on = rng.choice(ROOMS), rng.random() < 0.5
    word = "on" if on else "off"
    asked = rng.choice([f"Turn {word} the light in the {room}.", f"Switch the light in the {room} {word}.",
                        f"Light {word} in the {room}, please."])
    key = rng.choice(["on", "state", "enabled"])
    return Tool(rng.choice(["set_light", "switch_light", "light"]), "Switch the light of a room.",
                {"room": {"type": "string"}, key: {"type": "boolean"}}, asked, {"room": room, key: on},
                rng.choice(["ok", "done"]), f"The light in the {room} is {word}.")


def translation(rng):
    word, language = rng.choice(words.COMMON), rng.choice(LANGUAGES)
    foreign = names.made_up(rng).lower()
    asked = rng.choice([f'Translate "{word}" into {language}.', f'What is "{word}" in {language}?',
                        f'How do you say "{word}" in {language}?'])
    return Tool(rng.choice(["translate", "translation"]), "Translate a text into a language.",
                {"text": {"type": "string"}, "language": {"type": "string"}}, asked,
                {"text": word, "language": language}, foreign, f'"{capital(word)}" is "{foreign}" in {language}.')


def purchase(rng):
    item, count = rng.choice(words.OBJECTS), rng.randint(1, 20)
    key = rng.choice(COUNTS)
    asked = rng.choice([f"Order {count} {item}s." if count > 1 else f"Order one {item}.",
                        f"Buy {count} {item}s, please." if count > 1 else f"Buy 1 {item}, please."])
    return Tool(rng.choice(["order", "buy", "place_order"]), "Order things.",
                {"item": {"type": "string"}, key: {"type": "integer"}}, asked, {"item": item, key: count},
                rng.choice(["ordered", "ok"]), f"I ordered {count} {item}{'s' if count > 1 else ''}.")


def search(rng):
    query = rng.choice([f"the history of {a_city(rng)}", f"{rng.choice(words.PETS)} food", f"how to clean a {rng.choice(words.OBJECTS)}",
                        f"books about {rng.choice(words.HOBBIES)}", f"who is {names.first(rng)} {names.last(rng)}"])
    asked = rng.choice(["Search for {}.", "Look up {}.", "Find {} on the web.", "Search the web for {}."])
    count = rng.randint(0, 90)
    return Tool(rng.choice(["search", "web_search", "find", "lookup"]), "Search the web.",
                {"query": {"type": "string"}}, asked.format(query), {"query": query}, f"{count} results",
                f"I found {count} results for {query}.")


def made_up(rng):
    """A tool that tells a property of something, all with names that nobody knows."""
    property, key = identifier(rng), rng.choice(PEOPLE + ["thing", "id", "item", "key", "subject"])
    subject = rng.choice([names.made_up(rng), names.first(rng), rng.choice(words.OBJECTS)])
    value = rng.choice([str(rng.randint(0, 999)), names.made_up(rng).lower(), rng.choice(words.COMMON)])
    name = rng.choice(["get_{}", "{}", "find_{}", "{}_of", "fetch_{}", "read_{}"]).format(property)
    asked = rng.choice(["What is the {p} of {s}?", "Tell me the {p} of {s}.", "Get the {p} of {s}.", "Which {p} has {s}?"])
    return Tool(name, rng.choice([f"The {property} of a {key}", f"Get the {property}.", f"Tells the {property} of something."]),
                {key: {"type": "string"}}, asked.format(p=property, s=subject), {key: subject}, value,
                f"The {property} of {subject} is {value}.")


def command(rng):
    """A made-up tool of one or two numbers."""
    verb = identifier(rng)
    keys = rng.sample(["level", "speed", "size", "angle", "width", "height", "volume"], rng.randint(1, 2))
    values = [rng.randint(0, 200) for _ in keys]
    told = " and ".join(f"{key} {value}" for key, value in zip(keys, values))
    return Tool(f"set_{verb}" if rng.random() < 0.5 else verb, f"Set the {verb}.",
                dict.fromkeys(keys, {"type": "integer"}), f"Set the {verb} to {told}.", dict(zip(keys, values)),
                rng.choice(["ok", "done"]), f"The {verb} is set to {told}.")


KINDS = [weather, clock, calculator, message, alarm, light, translation, purchase, search, made_up, command]
WEIGHTS = [14, 8, 12, 7, 6, 6, 5, 6, 7, 24, 9]


def some_tools(rng, count):
    """Tools of different kinds, with different names."""
    found = {}
    while len(found) < count:
        tool = rng.choices(KINDS, WEIGHTS)[0](rng)
        if rng.random() < 0.25:
            tool.rename(rng.choice(["{}_{}", "{1}_{0}"]).format(tool.name, identifier(rng)))
        found.setdefault(tool.name, tool)
    return list(found.values())


def listed(tools):
    """The list of tools in the system message, as the chat template writes it."""
    return "Tools:" + "".join(f"\n{json.dumps(tool.definition, ensure_ascii=False)}" for tool in tools)


FAILURES = ["not found", "the service is busy", "timeout", "no such city", "access denied"]


def outcome(rng, tool):
    """What a tool gives, and the answer to the user."""
    kind = rng.random()
    if kind < 0.06:
        failure = rng.choice(FAILURES)
        return f"Error: {failure}", f"I am sorry, that did not work: {failure}."
    if kind < 0.1:
        return "The user declined the call.", "All right, I will not do that."
    return tool.result, tool.answer


def reason(rng, tool):
    """Thoughts before a call."""
    told = ", ".join(f"{key} is {json.dumps(value, ensure_ascii=False)}" for key, value in tool.arguments.items())
    return rng.choice([f"I need the tool {tool.name}: {told}.", f"The tool {tool.name} can do this. The {told}."])
