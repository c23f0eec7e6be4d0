"""Who may talk to the studio: this machine's browser, with the token, from the page itself.

A server on 127.0.0.1 is within reach of every page that the user has open, so that a token alone
is not enough: names that lead here, other origins and embedding are refused as well.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost")
COOKIE = "myxtts-studio"
SAFE_METHODS = ("GET", "HEAD")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data:; "
    "media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Cache-Control": "no-store",
}


class Guard:
    """Lets through what comes from the page, and gives whoever brings the token a cookie."""

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, or refuse it before anything is read."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        brings_token = self._brings_token(scope)
        problem = self._problem(scope, brings_token)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if brings_token and not problem:
                    cookie = f"{COOKIE}={self._token}; Path=/; HttpOnly; SameSite=Strict"
                    headers.append("Set-Cookie", cookie)
            await send(message)

        if problem:
            # What may still come is not waited for: a refused upload is not read.
            refusal = PlainTextResponse(problem, 403, headers={"Connection": "close"})
            await refusal(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)

    def _problem(self, scope: Scope, brings_token: bool) -> str:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if _hostname(host) not in HOSTS:
            return "only for this machine"
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return "only for the studio's own page"
        if origin is None and scope["method"] not in SAFE_METHODS:
            return "only for the studio's own page"
        site = headers.get("sec-fetch-site", "none")
        if site not in ("none", "same-origin"):
            navigates = headers.get("sec-fetch-mode") == "navigate"
            if not (navigates and brings_token and scope["path"] == "/"):
                return "only for the studio's own page"
        if not (brings_token or self._equal(_cookie(headers))):
            return "open the address that the terminal shows, with its token"
        return ""

    def _brings_token(self, scope: Scope) -> bool:
        given = QueryParams(scope["query_string"]).get("token", "")
        return scope["path"] == "/" and self._equal(given)

    def _equal(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors="replace"), self._token.encode())


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _cookie(headers: Headers) -> str:
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookies[COOKIE].value if COOKIE in cookies else ""
