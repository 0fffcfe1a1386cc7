"""Access control for rules from files: allowed hosts and keys, and files of the project.

A rules file may come from an untrusted source, so it cannot grant itself access. Permissions come
from outside: from command-line options or from the user's environment variables.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from wiesel.errors import ParameterError
from wiesel.lfs.chat import ChatClient, host_of, is_this_machine
from wiesel.lfs.function import build

__all__ = ["API_KEY", "Access", "inside", "project_folder"]

API_KEY = "WIESEL_API_KEY"
"""The environment variable with the key for rules in files, unless the user allows another."""
HOSTS, KEYS = "WIESEL_ALLOW_HOSTS", "WIESEL_ALLOW_KEYS"
_PROJECT_FILE = "wiesel.toml"


@dataclass(frozen=True)
class Access:
    """The hosts that prompts in rules files may call, and the variables they may read keys from.

    This machine is always allowed; unless it is listed, no key is sent to it.

    >>> Access(hosts=("api.openai.com",)).permits("https://api.openai.com/v1")
    True
    >>> Access().permits("https://api.openai.com/v1"), Access().permits("http://127.0.0.1:8000/v1")
    (False, True)
    """

    hosts: tuple[str, ...] = ()
    """`host` for all its ports, or `host:port`."""
    keys: tuple[str, ...] = ()
    """Allowed environment variables in addition to `WIESEL_API_KEY`."""

    @classmethod
    def of_user(cls, hosts: Iterable[str] = (), keys: Iterable[str] = ()) -> Self:
        """Return this access plus what `WIESEL_ALLOW_HOSTS` and `..._KEYS` allow."""
        return cls((*hosts, *_listed_in(HOSTS)), (*keys, *_listed_in(KEYS)))

    def permits(self, url: str) -> bool:
        """Return whether an address may be called."""
        return self.names(url) or is_this_machine(host_of(url)[0])

    def names(self, url: str) -> bool:
        """Return whether the user has named the host of an address."""
        host, port = host_of(url)
        allowed = {name.strip().lower() for name in self.hosts}
        return host in allowed or f"{host}:{port}" in allowed

    def client(self, options: Any, folder: Path) -> ChatClient:
        """Return the client that a rules file describes; an error names a missing permission."""
        if not isinstance(options, Mapping):
            raise ParameterError(
                'The client of a prompt is a table: client = { url = "http://127.0.0.1:8000/v1", '
                f'model = "llama-3" }}; got {options!r:.60}.'
            )
        given = {"api_key_variable": API_KEY, **options}
        if isinstance(given.get("cache"), str) and given["cache"]:
            given["cache"] = str(_cache_file(given["cache"], folder))
        client = build(ChatClient, given, "The client of a prompt")
        self._check_host(client)
        if client.api_key_variable not in ("", API_KEY, *self.keys):
            raise ParameterError(
                f"The client asks for the key in {client.api_key_variable!r}, which you have not "
                f"allowed. Put the key into {API_KEY}, or allow the variable: "
                f"--allow-key {client.api_key_variable}, or {KEYS}={client.api_key_variable} "
                "in your environment."
            )
        if not self.names(client.url):
            return build(ChatClient, {**given, "api_key_variable": ""}, "The client of a prompt")
        client.read_key()  # refuses to send it without encryption, before anything runs
        return client

    def _check_host(self, client: ChatClient) -> None:
        if not self.permits(client.url):
            host = host_of(client.url)[0]
            raise ParameterError(
                f"The client would send your rows to {host!r}, which you have not allowed. "
                f"If you trust it with them: --allow-host {host}, or {HOSTS}={host} in your "
                "environment."
            )


def project_folder(folder: Path) -> Path:
    """Return the project folder of a folder: the nearest one with wiesel.toml."""
    resolved = folder.resolve()
    found = [each for each in (resolved, *resolved.parents) if (each / _PROJECT_FILE).is_file()]
    return found[0] if found else resolved


def inside(name: Any, folder: Path, option: str) -> Path:
    """Return the path of a file named by a rule; refuse files outside the project."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise ParameterError(f"{option} is the name of a file; got {name!r:.60}.")
    home = project_folder(folder)
    file = (folder / name).resolve()
    if not file.is_relative_to(home):
        raise ParameterError(
            f"{option} = {name!r:.80} is outside {home}. A rules file may use files of its "
            "own project only: put the file there."
        )
    return file


def _cache_file(name: str, folder: Path) -> Path:
    file = inside(name, folder, "cache")
    if file.suffix != ".sqlite":
        raise ParameterError(f"cache is a file that ends in .sqlite; got {name!r:.80}.")
    return file


def _listed_in(variable: str) -> list[str]:
    names = [name.strip() for name in os.environ.get(variable, "").split(",")]
    return [name for name in names if name]
