"""Pelton on Ray Serve: replicas of `pelton serve` behind one address, with streaming, autoscaling and routing by
prefixes.

usage: serve run pelton_ray:app model=MODEL [program=pelton] [min_replicas=1] [max_replicas=4] ...
       (the fields of `Settings`; serve_args='--context 8192 --parallel 16' goes to each `pelton serve`)
needs: PyPI ray[serve] 2.60, Linux

Each replica is an actor of Ray with a `pelton serve` of its own, so all of its APIs work. An ingress passes
requests on through a handle, whose router sends prompts to the replica that has seen their beginnings. A request
of whose answer nothing was sent goes to another replica if the first one dies.
"""
import asyncio
import ctypes
import json
import os
import shlex
import signal
import socket
import subprocess
from dataclasses import dataclass, field

import aiohttp
from pydantic import BaseModel
from ray import serve
from ray.exceptions import RayError
from ray.serve.config import AutoscalingConfig, RequestRouterConfig
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse

# Ray's router by prefixes. `ray.serve.llm`, which exports it, cannot be imported without vLLM or SGLang.
BY_PREFIX = ("ray.llm._internal.serve.routing_policies.prefix_aware.prefix_aware_router."
             "PrefixCacheAffinityRouter")
# Headers that belong to one connection.
OF_CONNECTION = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
ATTEMPTS = 4


class Settings(BaseModel):
    """The arguments of `serve run`."""

    model: str = "built-in"
    program: str = "pelton"
    serve_args: str = ""
    min_replicas: int = 1
    max_replicas: int = 4
    # requests of a replica at the same time: those that run, and as many that wait
    parallel: int = 8
    # of the requests of a replica, from which on there are more replicas
    target_ongoing_requests: float = 6
    upscale_delay_s: float = 10
    downscale_delay_s: float = 300
    look_back_period_s: float = 10
    num_cpus: float = 1
    num_gpus: float = 0
    by_prefix: bool = True


@dataclass
class Call:
    """A request on its way to a replica. Ray's router reads `prompt`."""

    method: str
    path: str
    body: bytes
    headers: dict = field(default_factory=dict)
    prompt: str = "-"


class ReplicaGone(Exception):
    """The server of a replica does not answer."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def end_with_parent():
    """A `pelton serve` does not outlive its replica, whatever ends that."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Replica:
    """A `pelton serve` and its only client. A server that ends is started again."""

    async def __init__(self, settings: Settings):
        self.port = free_port()
        self.command = [settings.program, "serve", settings.model, "--port", str(self.port),
                        "--parallel", str(settings.parallel), *shlex.split(settings.serve_args)]
        self.process, self.starts = None, asyncio.Lock()
        self.session = aiohttp.ClientSession(
            f"http://127.0.0.1:{self.port}", timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
        await self.check_health()

    async def check_health(self):
        """Returns when the server answers: at once if it runs, and after it was started and has loaded its model if
        not. Ray replaces a replica for which this fails."""
        async with self.starts:
            if self.process is not None and self.process.poll() is None:
                return
            self.process = subprocess.Popen(self.command, preexec_fn=end_with_parent)
            while True:
                if self.process.poll() is not None:
                    raise ReplicaGone(f"pelton serve has ended with {self.process.returncode}")
                try:
                    async with self.session.get("/health") as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.1)

    async def answer(self, call: Call):
        """The status and the headers of an answer, then its bytes as they come."""
        for attempt in range(2):
            begun = False
            try:
                async with self.session.request(call.method, call.path, data=call.body,
                                                headers=call.headers) as answer:
                    if answer.status == 503 and not attempt:
                        # a server that was started again loads its model
                        await self.check_health()
                        continue
                    headers = {name: value for name, value in answer.headers.items()
                               if name.lower() not in OF_CONNECTION}
                    begun = True
                    yield answer.status, headers | {"x-pelton-pids": f"{os.getpid()} {self.process.pid}"}
                    async for chunk in answer.content.iter_any():
                        yield chunk
                    return
            except aiohttp.ClientError as error:
                if begun or attempt:
                    raise ReplicaGone(str(error)) from error
                await self.check_health()

    def __del__(self):
        """Ray has sent all requests that were running to their ends."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()


def prompt_of(body):
    """The text by which a request is routed."""
    try:
        fields = json.loads(body)
        prompt = fields.get("messages", fields.get("prompt", fields.get("input")))
        return prompt if isinstance(prompt, str) else json.dumps(prompt)
    except (ValueError, AttributeError):
        return "-"


def is_answer(chunk):
    """Whether something of an answer is in it, and not only a comment of a stream."""
    return not chunk.startswith(b":") or b"\ndata:" in chunk


class Ingress:
    """Receives requests over HTTP."""

    def __init__(self, replicas: DeploymentHandle):
        self.replicas = replicas.options(stream=True)

    async def __call__(self, request: Request):
        body = await request.body()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in OF_CONNECTION}
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        call = Call(request.method, path, body, headers, prompt_of(body) or "-")
        for attempt in range(ATTEMPTS):
            try:
                (status, headers), first, rest = await self.begin(call)
                return StreamingResponse(chunks(first, rest), status_code=status, headers=headers)
            except (RayError, ReplicaGone, StopAsyncIteration) as error:
                reason = f"{type(error).__name__}: {error}"
                # the router learns of a dead replica within this time
                await asyncio.sleep(0.2 * (attempt + 1))
        message = f"{ATTEMPTS} replicas have not answered; the last: {reason.splitlines()[0]}"
        return JSONResponse({"error": {"message": message, "type": "server_error"}}, 503, {"retry-after": "5"})

    async def begin(self, call):
        """The head of an answer, its first bytes, and the iterator of the others: from now on the answer belongs to
        one replica."""
        rest = self.replicas.answer.remote(call).__aiter__()
        head = await rest.__anext__()
        first = []
        try:
            while not first or not is_answer(first[-1]):
                first.append(await rest.__anext__())
        except StopAsyncIteration:
            # an answer without a body
            pass
        return head, first, rest


async def chunks(first, rest):
    for chunk in first:
        yield chunk
    async for chunk in rest:
        yield chunk


def app(settings: Settings):
    """The application, for `serve run` and for a RayService of Kubernetes."""
    # a replica with this many requests more than another gets no more for the sake of prefixes
    router = RequestRouterConfig(request_router_class=BY_PREFIX,
                                 request_router_kwargs={"imbalanced_threshold": max(1, settings.parallel // 4)})
    scaling = AutoscalingConfig(
        min_replicas=settings.min_replicas, max_replicas=settings.max_replicas,
        target_ongoing_requests=settings.target_ongoing_requests, upscale_delay_s=settings.upscale_delay_s,
        downscale_delay_s=settings.downscale_delay_s, look_back_period_s=settings.look_back_period_s,
        metrics_interval_s=min(1.0, settings.look_back_period_s))
    replica = serve.deployment(
        Replica, name="pelton", autoscaling_config=scaling, max_ongoing_requests=2 * settings.parallel,
        health_check_period_s=1, health_check_timeout_s=600, graceful_shutdown_timeout_s=60,
        ray_actor_options={"num_cpus": settings.num_cpus, "num_gpus": settings.num_gpus},
        **({"request_router_config": router} if settings.by_prefix else {}))
    ingress = serve.deployment(
        Ingress, name="ingress", num_replicas=1, max_ongoing_requests=1000, ray_actor_options={"num_cpus": 0})
    return ingress.bind(replica.bind(settings))
