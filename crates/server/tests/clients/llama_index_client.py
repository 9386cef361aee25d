"""LlamaIndex's class for servers of OpenAI's API against a server whose address is the argument."""

import asyncio
import sys

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike


def model(**more):
    options = {"temperature": 0, "max_tokens": 16, "max_retries": 0, "is_chat_model": True}
    return OpenAILike(api_base=sys.argv[1] + "/v1", api_key="none", model="built-in", **(options | more))


QUESTION = "What is 2 plus 3?"
messages = [ChatMessage(role="system", content="Answer."), ChatMessage(role="user", content=QUESTION)]

# chats: whole, streamed, asynchronous, several at once
whole = model().chat(messages).message.content
assert whole
chunks = list(model().stream_chat(messages))
assert "".join(chunk.delta or "" for chunk in chunks) == whole == chunks[-1].message.content


async def several():
    return await asyncio.gather(*(model().achat(messages) for _ in range(3)))


assert [one.message.content for one in asyncio.run(several())] == [whole] * 3

# a prompt as a message, and as a text that goes on
assert "5" in model().complete(QUESTION).text
story = model(is_chat_model=False)
text = story.complete("Once upon a time").text
assert text and "".join(chunk.delta for chunk in story.stream_complete("Once upon a time")) == text
print("all checks passed")
