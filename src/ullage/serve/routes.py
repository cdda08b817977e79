"""The routes: /v1 with verbs, evaluations, jobs and uploads; what a cluster asks; and the page."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ullage import __version__
from ullage.serve.jobs import Job, JobBoard
from ullage.serve.live import LiveDesk
from ullage.serve.openapi import finished
from ullage.serve.page import docs_page, page_file
from ullage.serve.plan_guard import named_uploads
from ullage.serve.problems import MEDIA_TYPE, ProblemError, ServedProblem, internal
from ullage.serve.requests import QUICK_VERBS, REQUESTS, EvaluateRequest, VerbRequest, request_document
from ullage.serve.runner import Ending, Runner, ServedWork
from ullage.serve.settings import ServeSettings
from ullage.serve.tasks import PROBLEM, TEXT
from ullage.serve.tokens import Principal
from ullage.serve.uploads import Uploads
from ullage.serve.watch import ServeMetrics

_WATCH_S = 900.0
_MOST_WAIT_S = 60
_PROBLEMS = {
    status: {"description": title, "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    for status, title in {
        400: "The request cannot be understood",
        401: "A token is needed",
        403: "This may not be done",
        404: "Not found",
        405: "This cannot be done here",
        408: "The request did not arrive in time",
        409: "The plan does not hold",
        410: "The job was cancelled",
        413: "The request is too large",
        415: "The request is of another type",
        422: "The input is wrong, or asks for too much",
        429: "Too many requests; Retry-After says when to ask again",
        500: "A fault in ullage",
        503: "Not ready",
    }.items()
}
_JobId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", examples=["0123456789abcdef0123456789abcdef"])]
_Wait = Annotated[
    int, Query(ge=0, le=_MOST_WAIT_S, description="Seconds to wait for the answer before a job is named instead.")
]
_Limit = Annotated[int, Query(ge=1, le=100)]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What the routes work with, while the service runs."""

    settings: ServeSettings
    runner: Runner
    board: JobBoard
    desk: LiveDesk
    uploads: Uploads
    metrics: ServeMetrics


def make_app(parts: Callable[[], Parts], lifespan: Any) -> FastAPI:
    """The application; `parts` are there once it has started."""
    app = FastAPI(
        title="Ullage",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        responses=_PROBLEMS,  # type: ignore[arg-type]
    )
    _add_endings(app)
    _add_verbs(app, parts)
    _add_evaluate(app, parts)
    _add_jobs(app, parts)
    _add_uploads(app, parts)
    _add_health(app, parts)
    _add_page(app)
    return app


# ---- verbs ------------------------------------------------------------------------------------------------------


def _add_verbs(app: FastAPI, parts: Callable[[], Parts]) -> None:
    for verb, kind in REQUESTS.items():
        media = "text/plain" if verb == "init" else "application/json"
        schema = {"type": "string"} if verb == "init" else {"$ref": f"#/components/schemas/answer.{verb}"}
        app.add_api_route(
            f"/v1/{verb}",
            _verb_route(verb, kind, parts),
            methods=["POST"],
            operation_id=verb,
            tags=["verbs"],
            summary=f"ullage {verb}",
            response_class=Response,
            responses={
                200: {"description": "The answer, as --json prints it.", "content": {media: {"schema": schema}}},
                202: _job_response("The job, where the answer takes longer."),
            },
        )


def _verb_route(verb: str, kind: type[VerbRequest], parts: Callable[[], Parts]) -> Callable[..., Any]:
    async def route(request: Request, body: VerbRequest, wait: _Wait = 25) -> Response:
        found, who = parts(), principal_of(request)
        work = _work(verb, body, found, who, urgent=verb in QUICK_VERBS)
        job, is_shared = found.board.submit(work, who.name)
        note(request, verb=verb, job=job.id, key=job.key[:16])
        if is_shared:
            found.metrics.shared.inc()
        await found.board.wait(job, who.name, wait)
        if not job.has_ended:
            return JSONResponse(job.document(), status_code=202, headers={"location": f"/v1/jobs/{job.id}"})
        return _sent(_ending(job))

    route.__annotations__ |= {"body": kind, "request": Request, "wait": _Wait, "return": Response}
    return route


def _work(verb: str, body: VerbRequest, found: Parts, who: Principal, *, urgent: bool = False) -> ServedWork:
    """The work of a request; names of uploads that are not this principal's are left to be refused with their key."""
    given = request_document(body)
    for name in ("session", "decide") if verb == "evaluate" else ():
        given.pop(name, None)
    own = found.uploads.owned(named_uploads(given), who.name)
    for field in _uploads_in(body):
        if field not in own:
            raise ProblemError("not-found", f"{field} is not an upload of yours. Send it first (POST /v1/uploads).")
    # Not to own a file is part of the question: it must not be answered from memory.
    return ServedWork(verb=verb, request={**given, "uploads": sorted(own)}, uploads=own, is_urgent=urgent)


_PLAIN = ("plan", "old", "new", "before", "set")


def _uploads_in(body: VerbRequest) -> frozenset[str]:
    """The uploads that members name outright; those inside a plan are checked with the plan."""
    given = body.model_dump(mode="json", exclude=set(_PLAIN))
    found = named_uploads([each for each in given.values() if isinstance(each, str | list)])
    return frozenset(each for each in found if re.fullmatch(r"u[0-9a-f]{32}(\.[a-z0-9]{1,8}){0,2}", each))


def _add_evaluate(app: FastAPI, parts: Callable[[], Parts]) -> None:
    @app.post(
        "/v1/evaluate",
        operation_id="evaluate",
        tags=["live"],
        summary="A first look at a plan at once, and the decided plan as a job",
        response_class=Response,
        responses={
            200: {
                "description": "An estimate; `decided` is the job of the plan itself.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Estimate"}}},
            }
        },
    )
    async def evaluate(request: Request, body: EvaluateRequest) -> Response:
        found, who = parts(), principal_of(request)
        note(request, verb="evaluate")
        looked = _work("evaluate", body, found, who, urgent=True)
        # The study of the risk is the plan's own matter; two looks that differ in it alone are one.
        ending = await found.desk.evaluate(
            ServedWork(
                verb="evaluate",
                request={name: each for name, each in looked.request.items() if name not in ("quick", "what_if")},
                uploads=looked.uploads,
                is_urgent=True,
            )
        )
        if ending.kind == PROBLEM:
            return _sent(ending)
        job = None
        if body.decide:
            work = ServedWork(verb="plan", request={**looked.request, "keep": False}, uploads=looked.uploads)
            job = found.desk.decide(work, who.name, body.session)
        decided = b"null" if job is None else json.dumps(job.document()).encode()
        text = b'{"status": "estimate, being decided", "estimate": %s, "decided": %s}' % (ending.body.strip(), decided)
        return Response(text, media_type="application/json")


# ---- jobs and uploads -------------------------------------------------------------------------------------------


def _add_jobs(app: FastAPI, parts: Callable[[], Parts]) -> None:
    streams: dict[str, int] = {}

    @app.get(
        "/v1/jobs", operation_id="list_jobs", tags=["jobs"], summary="Your jobs, the newest first",
        response_class=Response, responses={200: _page_response("Job")},
    )  # fmt: skip
    async def list_jobs(
        request: Request, limit: _Limit = 20, after: Annotated[str | None, Query(pattern="^[0-9a-f]{32}$")] = None
    ) -> Response:
        jobs = parts().board.jobs_of(principal_of(request).name)
        return JSONResponse(_paged([each.document() for each in jobs], "id", limit, after))

    @app.get(
        "/v1/jobs/{job_id}", operation_id="get_job", tags=["jobs"], summary="How far a job is",
        response_class=Response, responses={200: _job_response("The job.")},
    )  # fmt: skip
    async def get_job(request: Request, job_id: _JobId) -> Response:
        return JSONResponse(parts().board.find(job_id, principal_of(request).name).document())

    @app.get(
        "/v1/jobs/{job_id}/result", operation_id="get_result", tags=["jobs"], summary="A job's answer",
        response_class=Response,
        responses={200: {"description": "As the verb answers it.", "content": {"application/json": {"schema": {}}}},
                   202: _job_response("It has not ended.")},
    )  # fmt: skip
    async def get_result(request: Request, job_id: _JobId, wait: _Wait = 0) -> Response:
        board, name = parts().board, principal_of(request).name
        job = board.find(job_id, name)
        await board.wait(job, name, wait)
        return _sent(_ending(job)) if job.has_ended else JSONResponse(job.document(), status_code=202)

    @app.get(
        "/v1/jobs/{job_id}/events", operation_id="watch_job", tags=["jobs"],
        summary="A job's progress as server-sent events",
        response_class=Response,
        responses={200: {"description": "An event at every change.",
                         "content": {"text/event-stream": {"schema": {"type": "string"}}}}},
    )  # fmt: skip
    async def watch_job(request: Request, job_id: _JobId) -> Response:
        name = principal_of(request).name
        job = parts().board.find(job_id, name)
        if streams.get(name, 0) >= parts().settings.limits.streams:
            raise ProblemError("too-many", "You watch as many jobs as you may at once.", retry_after_s=5)
        return StreamingResponse(_events(job, streams, name), media_type="text/event-stream")

    @app.delete(
        "/v1/jobs/{job_id}", operation_id="cancel_job", tags=["jobs"], summary="Let a job go", status_code=204,
        response_class=Response, responses={204: {"description": "It is cancelled, unless others wait for it."}},
    )  # fmt: skip
    async def cancel_job(request: Request, job_id: _JobId) -> Response:
        who = principal_of(request)
        job = parts().board.find(job_id, who.name)
        note(request, job=job.id)
        parts().board.let_go(job, who.name)
        return Response(status_code=204)


async def _events(job: Job, streams: dict[str, int], name: str) -> AsyncIterator[bytes]:
    streams[name] = streams.get(name, 0) + 1
    try:
        async for each in job.watch(_WATCH_S):
            if each is None:
                yield b": still there\n\n"
            else:
                kind = "end" if job.has_ended else "progress"
                yield f"event: {kind}\ndata: {json.dumps(each)}\n\n".encode()
    finally:
        streams[name] -= 1


def _add_uploads(app: FastAPI, parts: Callable[[], Parts]) -> None:
    @app.post(
        "/v1/uploads", operation_id="upload", tags=["uploads"], status_code=201,
        summary="Send a log, a load test, an engine's log, a manifest: plain, gzip or Parquet",
        response_class=Response,
        responses={201: {"description": "Stored.", "content": {"application/json": {
            "schema": {"$ref": "#/components/schemas/Upload"}}}}},
        openapi_extra={"requestBody": {"required": True, "content": {
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}},
    )  # fmt: skip
    async def upload(
        request: Request, name: Annotated[str, Query(max_length=200, description="What you call it.")] = ""
    ) -> Response:
        found, who = parts(), principal_of(request)
        stored = await found.uploads.store(request.stream(), title=name, owner=who.name)
        found.metrics.uploaded_bytes.inc(stored.size_bytes)
        note(request, upload=stored.name, bytes=stored.size_bytes)
        return JSONResponse(stored.document(), status_code=201)

    @app.get(
        "/v1/uploads", operation_id="list_uploads", tags=["uploads"], summary="Your uploads, the newest first",
        response_class=Response, responses={200: _page_response("Upload")},
    )  # fmt: skip
    async def list_uploads(
        request: Request,
        limit: _Limit = 20,
        after: Annotated[str | None, Query(pattern=r"^u[0-9a-f]{32}(\.[a-z0-9]{1,8}){0,2}$")] = None,
    ) -> Response:
        own = parts().uploads.of(principal_of(request).name)
        return JSONResponse(_paged([each.document() for each in own], "upload", limit, after))

    @app.delete(
        "/v1/uploads/{upload_name}", operation_id="delete_upload", tags=["uploads"], summary="Forget an upload",
        status_code=204, response_class=Response, responses={204: {"description": "It is gone."}},
    )  # fmt: skip
    async def delete_upload(
        request: Request,
        upload_name: Annotated[str, Path(pattern=r"^u[0-9a-f]{32}(\.[a-z0-9]{1,8}){0,2}$")],
    ) -> Response:
        parts().uploads.remove(upload_name, principal_of(request).name)
        note(request, upload=upload_name)
        return Response(status_code=204)


# ---- the rest ---------------------------------------------------------------------------------------------------


def _add_health(app: FastAPI, parts: Callable[[], Parts]) -> None:
    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        return Response("ok\n", media_type="text/plain")

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> Response:
        if not parts().runner.is_ready:
            raise ProblemError("not-ready", "The planner is warming up.", retry_after_s=2)
        return Response("ready\n", media_type="text/plain")

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(parts().metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1", include_in_schema=False)
    async def about(request: Request) -> Response:
        settings, who = parts().settings, principal_of(request)
        said = {
            "version": __version__,
            "who": who.name,
            "role": str(who.role),
            "verbs": list(REQUESTS),
            "keeps": settings.ledger is not None,
            "prometheus": settings.prometheus is not None,
            "upload_bytes": settings.limits.upload_bytes,
        }
        return JSONResponse(said)


def _add_page(app: FastAPI) -> None:
    described: dict[str, Any] = {}

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        if not described:
            described.update(finished(app.openapi(), tuple(each for each in REQUESTS if each != "init")))
        return JSONResponse(described)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(docs_page(app.openapi()), media_type="text/html; charset=utf-8")

    @app.get("/{place:path}", include_in_schema=False)
    async def page(place: str) -> Response:
        found = page_file(place)
        if found is None:
            raise ProblemError("not-found", "There is nothing here. /docs lists what there is.")
        body, media_type = found
        return Response(body, media_type=media_type, headers={"cache-control": "no-cache"})


def _add_endings(app: FastAPI) -> None:
    """Whatever goes wrong is told in one shape."""

    @app.exception_handler(ProblemError)
    async def problem(_request: Request, error: Exception) -> Response:
        assert isinstance(error, ProblemError)
        return _told(error.problem)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = ".".join(str(each) for each in first["loc"] if each not in ("body", "query", "path"))
        members = {"field": where, "key": where, "problem": first["msg"], "value": repr(first.get("input"))[:200],
                   "fix": "GET /openapi.json describes every request."}  # fmt: skip
        return _told(ServedProblem(name="wrong-input", detail=f"{where}: {first['msg']}", members=members))

    @app.exception_handler(HTTPException)
    async def other(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        cause = error.__cause__ or error.__context__
        if isinstance(cause, ProblemError):
            return _told(cause.problem)
        names = {404: "not-found", 405: "wrong-method", 415: "wrong-type"}
        return _told(ServedProblem(name=names.get(error.status_code, "not-understood"), detail=str(error.detail)))

    @app.exception_handler(ClientDisconnect)
    async def gone(_request: Request, _error: Exception) -> Response:
        return _told(ServedProblem(name="too-slow", detail="The client went away."))

    @app.exception_handler(Exception)
    async def fault(_request: Request, error: Exception) -> Response:
        return _told(internal(error))


def _told(problem: ServedProblem) -> Response:
    return Response(problem.body(), status_code=problem.status, media_type=MEDIA_TYPE, headers=problem.headers)


def _sent(ending: Ending) -> Response:
    if ending.kind == PROBLEM:
        return Response(ending.body, status_code=ending.status, media_type=MEDIA_TYPE)
    return Response(ending.body, media_type="text/plain; charset=utf-8" if ending.kind == TEXT else "application/json")


def _ending(job: Job) -> Ending:
    assert job.ending is not None
    return job.ending


def principal_of(request: Request) -> Principal:
    """Who asks; the gate has let nobody else through."""
    found = request.state.principal
    if found is None:
        raise ProblemError("no-token", "Send Authorization: Bearer, with a token that this service knows.")
    assert isinstance(found, Principal)
    return found


def note(request: Request, **said: Any) -> None:
    """What the audit line says of this request beside who and when."""
    request.scope.setdefault("state", {}).setdefault("audit", {}).update(said)


def _paged(rows: list[dict[str, Any]], name: str, limit: int, after: str | None) -> dict[str, Any]:
    """A page of rows after the one of this name, and the name to ask for the next page with."""
    places = [place for place, each in enumerate(rows) if each[name] == after]
    first = 0 if after is None else (places[0] + 1 if places else len(rows))
    shown = rows[first : first + limit]
    more = first + limit < len(rows)
    return {"items": shown, "next": shown[-1][name] if more and shown else None}


def _job_response(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Job"}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _page_response(kind: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "required": ["items", "next"],
        "properties": {
            "items": {"type": "array", "items": {"$ref": f"#/components/schemas/{kind}"}},
            "next": {"type": ["string", "null"]},
        },
    }
    return {"description": "A page.", "content": {"application/json": {"schema": schema}}}
