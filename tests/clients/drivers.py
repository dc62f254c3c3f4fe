"""How each real client is run without a person: its settings, its arguments, where its session lies.

A client runs in a `Place`: a home and a temporary folder of its own, with nothing of the caller's environment but the
search path. Every client is made to talk to the scripted model and to nobody else.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

KEY = "no-real-key-0123456789"  # Long: Copilot masks the key wherever it appears in its output.
MODEL = "scripted"
# A client that starts in a second takes a minute while the machine does much else.
TIMEOUT_S = 400


def clients_folder() -> Path:
    """Where tools/install_clients.sh puts the clients."""
    return Path(os.environ.get("CLEW_CLIENTS") or Path.home() / ".cache/clew/clients")


def node_folder() -> Path:
    """Where the node is that tools/install_clients.sh installs beside the clients."""
    return clients_folder() / "node/node_modules/node/bin"


class Place:
    """Where a client runs: `home` is its person's home, `cwd` the directory it works in."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.cwd = folder / "work"
        self.temporary = folder / "tmp"
        self.logs = folder / "logs"
        for path in (self.home, self.cwd, self.temporary, self.logs):
            path.mkdir(parents=True, exist_ok=True)


class Ran(NamedTuple):
    """What one run of a program gave."""

    argv: list[str]
    code: int
    out: str
    err: str
    seconds: float

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The JSON objects among the lines of standard output; banners and notices are no objects."""
        found = []
        for line in self.out.splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                found.append(value)
        return found

    def checked(self) -> "Ran":
        """Itself, if the program ended well."""
        assert self.code == 0, f"{self.argv} ended with {self.code}\n{self.out[-3000:]}\n{self.err[-3000:]}"
        return self


def run(argv: list[str], *, cwd: Path, env: dict[str, str], logs: Path, timeout_s: float = TIMEOUT_S) -> Ran:
    """Run a program to its end, and end with it, or when its time is up, everything that it started."""
    # Files, not pipes: a grandchild that outlives the program would keep a pipe open.
    out, err = logs / "stdout", logs / "stderr"
    began = time.monotonic()
    with out.open("wb") as stdout, err.open("wb") as stderr:
        program = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
        )
        try:
            code = program.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()
    seconds = time.monotonic() - began
    return Ran(argv, code, out.read_text(errors="replace"), err.read_text(errors="replace"), seconds)


class Client:
    """One real client. `runtime` is clew's name for it, `folder` and `binary` where it is installed.

    `shell` and `command` are the names of its shell tool and of that tool's argument; `also` are arguments that the
    tool insists on.
    """

    runtime: ClassVar[str]
    folder: ClassVar[str]
    binary: ClassVar[str]
    shell: ClassVar[str]
    command: ClassVar[str] = "command"
    also: ClassVar[dict[str, Any]] = {}
    id_key: ClassVar[str]
    # Whether its own resume tells the model each result of one of its own sessions twice.
    repeats_results: ClassVar[bool] = False

    @property
    def bin(self) -> Path:
        return clients_folder() / self.folder / "node_modules/.bin"

    @property
    def version(self) -> str:
        """The version that is installed."""
        folders = (self.bin / self.binary).resolve().parents
        manifest = next(folder / "package.json" for folder in folders if (folder / "package.json").exists())
        return str(json.loads(manifest.read_text())["version"])

    def settings(self, url: str) -> dict[str, str]:
        """Settings files, by their path below the home, with what is in them."""
        return {}

    def variables(self, url: str) -> dict[str, str]:
        return {}

    def fresh(self, prompt: str) -> list[str]:
        """The command line of a headless run that starts a session."""
        raise NotImplementedError

    def interactive_resume(self, native: str) -> list[str]:
        """The command line with which a person resumes a session."""
        raise NotImplementedError

    def headless(self, command: list[str], prompt: str) -> list[str]:
        """A person's resume command, made into a headless run of one prompt."""
        raise NotImplementedError

    def session_files(self, home: Path, native: str) -> list[Path]:
        """The files of a session, all of them, by name."""
        raise NotImplementedError

    def pass_time(self, place: Place, native: str) -> None:
        """Make a session look some minutes old, where that changes what the client does with it."""

    # What is the same for all.

    def call(self, command: str) -> tuple[str, dict[str, Any]]:
        """A call of its shell tool."""
        return self.shell, {self.command: command, **self.also}

    def environment(self, place: Place, url: str) -> dict[str, str]:
        return {
            # The newest clients want a newer node than most systems have.
            "PATH": os.pathsep.join([str(self.bin), str(node_folder()), os.environ["PATH"]]),
            "HOME": str(place.home),
            "TMPDIR": str(place.temporary),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "dumb",
            "NO_COLOR": "1",
            **self.variables(url),
        }

    def settle(self, place: Place, url: str) -> None:
        """Write its settings, so that it asks nobody anything and talks to this model."""
        for name, text in self.settings(url).items():
            path = place.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def start(self, place: Place, url: str, prompt: str) -> Ran:
        return self.run(place, url, self.fresh(prompt))

    def resume(self, place: Place, url: str, native: str, prompt: str) -> Ran:
        return self.run(place, url, self.headless(self.interactive_resume(native), prompt))

    def run(self, place: Place, url: str, argv: list[str], *, more: dict[str, str] | None = None) -> Ran:
        """Run it with these arguments, its settings in place."""
        assert (self.bin / self.binary).exists(), f"{self.runtime} is not in {self.bin}: run tools/install_clients.sh"
        self.settle(place, url)
        return run(argv, cwd=place.cwd, env={**self.environment(place, url), **(more or {})}, logs=place.logs)

    def native_id(self, ran: Ran) -> str:
        """The session's own id, as the client says it in its output."""
        return str(next(value[self.id_key] for value in ran.objects if self._says_id(value)))

    def _says_id(self, value: dict[str, Any]) -> bool:
        return isinstance(value.get(self.id_key), str)


class ClaudeCode(Client):
    runtime = "claude-code"
    folder = "claude-code"
    binary = "claude"
    shell = "Bash"
    also: ClassVar = {"description": "scripted"}
    id_key = "session_id"

    def variables(self, url: str) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": KEY,
            "IS_SANDBOX": "1",  # Without it, root may not skip the permission prompts.
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
        }

    def fresh(self, prompt: str) -> list[str]:
        return self.headless([self.binary], prompt)

    def interactive_resume(self, native: str) -> list[str]:
        return [self.binary, "--resume", native]

    def headless(self, command: list[str], prompt: str) -> list[str]:
        output = ["--output-format", "stream-json", "--verbose"]
        return [*command, "-p", prompt, *output, "--permission-mode", "bypassPermissions"]

    def session_files(self, home: Path, native: str) -> list[Path]:
        return _sorted((home / ".claude/projects").glob(f"*/{native}.jsonl"))


class Codex(Client):
    runtime = "codex"
    folder = "codex"
    binary = "codex"
    shell = "exec_command"
    command = "cmd"
    id_key = "thread_id"

    def settings(self, url: str) -> dict[str, str]:
        config = f"""\
model = "{MODEL}"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "Scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0
"""
        return {".codex/config.toml": config}

    def variables(self, url: str) -> dict[str, str]:
        return {"SCRIPTED_KEY": KEY}

    # `exec resume` takes no --sandbox. The features look for a network that is not there, for seconds.
    OPTIONS: ClassVar = [
        *("--json", "--skip-git-repo-check", "-c", 'sandbox_mode="danger-full-access"'),
        *("--disable", "remote_plugin", "--disable", "plugins", "--disable", "apps"),
    ]

    def fresh(self, prompt: str) -> list[str]:
        return [self.binary, "exec", *self.OPTIONS, prompt]

    def interactive_resume(self, native: str) -> list[str]:
        return [self.binary, "resume", native]

    def headless(self, command: list[str], prompt: str) -> list[str]:
        return [command[0], "exec", *command[1:], *self.OPTIONS, prompt]

    def session_files(self, home: Path, native: str) -> list[Path]:
        return _sorted((home / ".codex/sessions").glob(f"**/rollout-*{native}.jsonl"))


class OpenCode(Client):
    runtime = "opencode"
    folder = "opencode"
    binary = "opencode"
    shell = "bash"
    also: ClassVar = {"description": "scripted"}
    id_key = "sessionID"

    def settings(self, url: str) -> dict[str, str]:
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
            "models": {
                MODEL: {
                    "limit": {"context": 100000, "output": 4000},
                    "attachment": True,
                    "modalities": {"input": ["text", "image"], "output": ["text"]},
                }
            },
        }
        config = {
            "model": f"scripted/{MODEL}",
            "small_model": f"scripted/{MODEL}",
            "share": "disabled",
            "autoupdate": False,
            "provider": {"scripted": provider},
            "permission": {"edit": "allow", "bash": "allow"},
        }
        return {".config/opencode/opencode.json": json.dumps(config)}

    def variables(self, url: str) -> dict[str, str]:
        off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
        return {f"OPENCODE_DISABLE_{what}": "1" for what in off}

    def environment(self, place: Place, url: str) -> dict[str, str]:
        """With the ripgrep that Codex brings: OpenCode needs one for skills, and would download it."""
        environment = super().environment(place, url)
        folders = map(str, clients_folder().glob("codex/node_modules/@openai/*/vendor/*/codex-path"))
        return {**environment, "PATH": os.pathsep.join([environment["PATH"], *folders])}

    def fresh(self, prompt: str) -> list[str]:
        return self.headless([self.binary], prompt)

    def interactive_resume(self, native: str) -> list[str]:
        return [self.binary, "-s", native]

    def headless(self, command: list[str], prompt: str) -> list[str]:
        # A session that came from elsewhere names a model that is not configured here.
        return [command[0], "run", *command[1:], "-m", f"scripted/{MODEL}", "--format", "json", prompt]

    def session_files(self, home: Path, native: str) -> list[Path]:
        """Its sessions are rows of one database; what stands for a file is its own export."""
        return []

    def export(self, place: Place, url: str, native: str) -> Ran:
        return self.run(place, url, [self.binary, "export", native])


class GeminiCli(Client):
    runtime = "gemini-cli"
    folder = "gemini-cli"
    binary = "gemini"
    shell = "run_shell_command"
    id_key = "session_id"
    repeats_results = True

    def settings(self, url: str) -> dict[str, str]:
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            # Its retention deletes a session that was resumed a minute later.
            "general": {"enableAutoUpdate": False, "sessionRetention": {"enabled": False}},
            "privacy": {"usageStatisticsEnabled": False},
        }
        return {".gemini/settings.json": json.dumps(settings)}

    def variables(self, url: str) -> dict[str, str]:
        return {
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_TELEMETRY_ENABLED": "false",
            "GEMINI_CLI_NO_RELAUNCH": "true",  # It starts itself twice, only for a larger heap.
            "NO_BROWSER": "1",
        }

    def fresh(self, prompt: str) -> list[str]:
        return self.headless([self.binary], prompt)

    def interactive_resume(self, native: str) -> list[str]:
        return [self.binary, "--resume", native]

    def headless(self, command: list[str], prompt: str) -> list[str]:
        return [*command, "-m", "gemini-2.5-pro", "--approval-mode", "yolo", "-o", "stream-json", "-p", prompt]

    def session_files(self, home: Path, native: str) -> list[Path]:
        return _sorted((home / ".gemini/tmp").glob(f"*/chats/session-*-{native[:8]}.jsonl"))

    def pass_time(self, place: Place, native: str) -> None:
        """A resume in a later minute than the start leaves a second, nearly empty file; so that it is always there."""
        (path,) = self.session_files(place.home, native)
        path.rename(path.with_name(f"session-2026-01-01T00-00-{native[:8]}.jsonl"))


class CopilotCli(Client):
    runtime = "copilot-cli"
    folder = "copilot"
    binary = "copilot"
    shell = "bash"
    also: ClassVar = {"description": "scripted"}
    id_key = "sessionId"

    def variables(self, url: str) -> dict[str, str]:
        return {
            "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
            "COPILOT_PROVIDER_TYPE": "openai",
            "COPILOT_PROVIDER_API_KEY": KEY,
            "COPILOT_MODEL": MODEL,
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            # It unpacks its 240 MB of program once per cache, so all homes share one; several may do so at once.
            "XDG_CACHE_HOME": str(clients_folder() / self.folder / "cache"),
        }

    def fresh(self, prompt: str) -> list[str]:
        return self.headless([self.binary], prompt)

    def interactive_resume(self, native: str) -> list[str]:
        return [self.binary, f"--resume={native}"]

    def headless(self, command: list[str], prompt: str) -> list[str]:
        return [*command, "--allow-all-tools", "--disable-builtin-mcps", "--output-format", "json", "-p", prompt]

    def session_files(self, home: Path, native: str) -> list[Path]:
        return _sorted((home / ".copilot/session-state").glob(f"{native}/events.jsonl"))


class Pi(Client):
    runtime = "pi"
    folder = "pi"
    binary = "pi"
    shell = "bash"
    id_key = "id"

    def settings(self, url: str) -> dict[str, str]:
        provider = {
            "baseUrl": f"{url}/v1",
            "api": "openai-completions",
            "apiKey": KEY,
            "models": [{"id": MODEL, "contextWindow": 100000, "maxTokens": 4000, "input": ["text", "image"]}],
        }
        return {".pi/agent/models.json": json.dumps({"providers": {"scripted": provider}})}

    def variables(self, url: str) -> dict[str, str]:
        return {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}

    def fresh(self, prompt: str) -> list[str]:
        return self.headless([self.binary], prompt)

    def interactive_resume(self, native: str) -> list[str]:
        return [self.binary, "--session", native]

    def headless(self, command: list[str], prompt: str) -> list[str]:
        return [*command, "--provider", "scripted", "--model", MODEL, "--mode", "json", "-p", prompt]

    def session_files(self, home: Path, native: str) -> list[Path]:
        return _sorted((home / ".pi/agent/sessions").glob(f"*/*_{native}.jsonl"))

    def _says_id(self, value: dict[str, Any]) -> bool:
        return value.get("type") == "session"


class QwenCode(Client):
    runtime = "qwen-code"
    folder = "qwen-code"
    binary = "qwen"
    shell = "run_shell_command"
    also: ClassVar = {"is_background": False}
    id_key = "session_id"

    def settings(self, url: str) -> dict[str, str]:
        settings = {
            "security": {"auth": {"selectedType": "openai"}},
            "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
            "model": {"generationConfig": {"modalities": {"image": True}}},
            # After each turn it would ask the model what is worth remembering.
            "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
        }
        return {".qwen/settings.json": json.dumps(settings)}

    def variables(self, url: str) -> dict[str, str]:
        return {
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_MODEL": MODEL,
            "QWEN_CODE_NO_RELAUNCH": "true",
        }

    def fresh(self, prompt: str) -> list[str]:
        return self.headless([self.binary], prompt)

    def interactive_resume(self, native: str) -> list[str]:
        return [self.binary, "--resume", native]

    def headless(self, command: list[str], prompt: str) -> list[str]:
        return [*command, "--auth-type", "openai", "-y", "-o", "stream-json", "-p", prompt]

    def session_files(self, home: Path, native: str) -> list[Path]:
        return _sorted((home / ".qwen/projects").glob(f"*/chats/{native}.jsonl"))


CLIENTS: dict[str, Client] = {
    client.runtime: client
    for client in (ClaudeCode(), Codex(), OpenCode(), GeminiCli(), CopilotCli(), Pi(), QwenCode())
}


def _sorted(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths)
