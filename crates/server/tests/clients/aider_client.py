"""aider against a server whose address is the argument: a question over the APIs of OpenAI and Ollama."""

import os
import subprocess
import sys
import tempfile

ADDRESS = sys.argv[1]
with tempfile.TemporaryDirectory() as home:
    environment = {
        "PATH": os.environ["PATH"], "HOME": home, "NO_PROXY": "*", "OPENAI_API_KEY": "none",
        "OPENAI_API_BASE": ADDRESS + "/v1", "OLLAMA_API_BASE": ADDRESS,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    for model in ["openai/built-in", "ollama_chat/built-in"]:
        outcome = subprocess.run(
            [sys.executable, "-m", "aider", "--model", model, "--no-git", "--yes-always",
             "--no-check-update", "--analytics-disable", "--no-show-model-warnings",
             "--no-show-release-notes", "--edit-format", "ask", "--no-auto-lint",
             "--message", "What is 2 plus 3?"],
            cwd=home, env=environment, capture_output=True, text=True, timeout=240,
            stdin=subprocess.DEVNULL,
        )
        text = outcome.stdout + outcome.stderr
        assert outcome.returncode == 0 and "Tokens:" in text and "litellm." not in text, text
print("all checks passed")
