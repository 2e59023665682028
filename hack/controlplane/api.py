"""A small client for test drivers: JSON over one kept connection, far cheaper than a kubectl process a call."""

import http.client
import json
import select
import ssl
import threading
import urllib.parse
from types import TracebackType
from typing import Any, Self

from controlplane.credentials import Credentials

PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_ERROR = 400
_NOT_FOUND = 404


class ApiError(RuntimeError):
    """The API server refused a request: `code` is the HTTP status, `reason` and the text are its own words."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message


class Api:
    """One user's connection to one API server. Close it, or use it in `with`.

    `impersonate` names a user in whose name every request is made; the user of the credentials needs the right to it.
    Threads may share it: requests take turns. Where the server cannot be reached, OSError or
    http.client.HTTPException is raised.
    """

    def __init__(self, credentials: Credentials, timeout: float = 30, impersonate: str | None = None) -> None:
        parts = urllib.parse.urlsplit(credentials.server)
        context = ssl.create_default_context(cafile=str(credentials.authority))
        context.load_cert_chain(credentials.certificate, credentials.key)
        self._address = (parts.hostname or "", parts.port or 443)
        self._context = context
        self._timeout = timeout
        self._identity = {"Impersonate-User": impersonate} if impersonate else {}
        self._connection: http.client.HTTPSConnection | None = None
        self._lock = threading.Lock()

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """Send one request; return its status, whatever it is, and the decoded JSON (text where it is no JSON)."""
        headers = {"Content-Type": content_type, "Accept": "application/json", **self._identity}
        payload = None if body is None else json.dumps(body)
        with self._lock:
            connection = self._usable_connection()
            try:
                connection.request(method, path, payload, headers)
                response = connection.getresponse()
                content = response.read()
            except BaseException:
                # What is left on the wire belongs to this request: the next one must not read it.
                self._drop()
                raise
        is_json = response.headers.get_content_type() == "application/json"
        return response.status, json.loads(content) if is_json else content.decode(errors="replace")

    def get(self, path: str) -> Any:
        """Return what is at `path`. Raises ApiError."""
        return self._checked("GET", path)

    def find(self, path: str) -> Any | None:
        """Return what is at `path`, None when it is not found. Raises ApiError for any other refusal."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.code == _NOT_FOUND:
                return None
            raise

    def create(self, path: str, body: Any) -> Any:
        """POST `body` to a collection and return the created object. Raises ApiError."""
        return self._checked("POST", path, body)

    def replace(self, path: str, body: Any) -> Any:
        """PUT `body` and return the object as stored. Raises ApiError."""
        return self._checked("PUT", path, body)

    def patch(self, path: str, body: Any, kind: str = "merge") -> Any:
        """PATCH with a patch of kind merge, json, strategic or apply; return the object. Raises ApiError."""
        return self._checked("PATCH", path, body, PATCH_TYPES[kind])

    def delete(self, path: str, propagation: str | None = None) -> Any:
        """DELETE, with propagationPolicy Background, Foreground or Orphan if given; the answer is returned."""
        return self._checked("DELETE", path, {"propagationPolicy": propagation} if propagation else None)

    def close(self) -> None:
        """Close the connection; a later request opens a new one."""
        with self._lock:
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _checked(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        status, answer = self.request(method, path, body, content_type)
        if status < _ERROR:
            return answer
        if isinstance(answer, dict):
            raise ApiError(status, answer.get("reason", ""), answer.get("message", ""))
        raise ApiError(status, "", str(answer))

    def _usable_connection(self) -> http.client.HTTPSConnection:
        """Return the kept connection, or a new one when the server has closed it (it was restarted, say)."""
        if self._connection is not None and self._connection.sock is not None:
            # Between requests nothing is due, so a readable socket has the end of the stream.
            readable, _, _ = select.select([self._connection.sock], [], [], 0)
            if not readable:
                return self._connection
        self._drop()
        host, port = self._address
        self._connection = http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._context)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def object_path(api_version: str, plural: str, namespace: str | None = None, name: str | None = None) -> str:
    """Return the path of an object, or of a collection when there is no name, e.g. for ("apps/v1", "deployments")."""
    root = "/apis" if "/" in api_version else "/api"
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}/{api_version}{scope}/{plural}" + (f"/{name}" if name else "")
