"""aider against a server whose address is the argument: an edit of a file over OpenAI's API, a question over Ollama's.

aider calls no tools: it reads edits in the text. A proxy demands the text of one by a grammar, for which Ollama's API
has no field.
"""

import os
import subprocess
import sys
import tempfile

from proxy import Proxy

ADDRESS = sys.argv[1]
AFTER = "printf pelton-was-here"
# the format of edits that aider names "whole": a path, and the file between fences
EDIT = rf'root ::= "word.sh\n```\n{AFTER}\n```\n"'


def change(path, body):
    if path != "/api/chat":
        body["grammar"] = EDIT


with tempfile.TemporaryDirectory() as home:
    proxy = Proxy(ADDRESS, change)
    file = os.path.join(home, "word.sh")
    environment = {
        "PATH": os.environ["PATH"], "HOME": home, "NO_PROXY": "*", "OPENAI_API_KEY": "none",
        "OPENAI_API_BASE": proxy.url + "/v1", "OLLAMA_API_BASE": proxy.url,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    for model, form in [("openai/built-in", "whole"), ("ollama_chat/built-in", "ask")]:
        with open(file, "w") as before:
            before.write("printf nothing\n")
        outcome = subprocess.run(
            [sys.executable, "-m", "aider", "--model", model, "--no-git", "--yes-always",
             "--no-check-update", "--analytics-disable", "--no-show-model-warnings",
             "--no-show-release-notes", "--edit-format", form, "--no-auto-lint",
             "--no-suggest-shell-commands", "--message", "What is 2 plus 3?", file],
            cwd=home, env=environment, capture_output=True, text=True, timeout=240,
            stdin=subprocess.DEVNULL,
        )
        text = outcome.stdout + outcome.stderr
        assert outcome.returncode == 0 and "Tokens:" in text and "litellm." not in text, text
        assert not proxy.wrong, proxy.wrong
        with open(file) as after:
            content = after.read().strip()
        assert content == (AFTER if form == "whole" else "printf nothing"), (content, text)
print("all checks passed")
