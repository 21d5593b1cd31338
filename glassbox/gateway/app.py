"""The application: routes, who may use them, and what they answer."""

import json
from dataclasses import replace
from typing import Annotated

from fastapi import Depends, FastAPI, Header, Query, Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.params import Query as QueryParameter
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from glassbox.catalogue.errors import CatalogueUnavailable
from glassbox.catalogue.reading import CursorError, Filter, Order
from glassbox.catalogue.states import millionths
from glassbox.contract.judge_settings import CODE
from glassbox.gateway import bodies, forms, shapes
from glassbox.gateway.accepting import MAX_IDEMPOTENCY_KEY, Acceptor
from glassbox.gateway.batch import Streamed, outcomes
from glassbox.gateway.callbacks.asking import described
from glassbox.gateway.callers import Caller
from glassbox.gateway.cases import cases_router
from glassbox.gateway.events import Followers
from glassbox.gateway.evidence import Inspector, evidence_router
from glassbox.gateway.guard import EVENTS_PATH, Guard
from glassbox.gateway.limits import InFlightBytes
from glassbox.gateway.openapi import document, problems
from glassbox.gateway.otlp.door import TracesDoor
from glassbox.gateway.otlp.route import add_traces
from glassbox.gateway.pages import add_pages
from glassbox.gateway.parts import NDJSON, AsyncCatalogue, EvaluationId, Parts, Since, TenantQuery, Until, moment
from glassbox.gateway.problems import Problem, of_status, sentence
from glassbox.gateway.proofs import bundle
from glassbox.gateway.reviews import reviews_router
from glassbox.gateway.runs import runs_router
from glassbox.gateway.statistics import statistics_router
from streams.tracing import about


def no_unknown_parameter(request: Request) -> None:
    """A filter that is misspelt must not pass for none, nor one of two that are given. Raises `Problem`."""
    known = get_flat_params(request.scope["route"].dependant)
    for name in request.query_params:
        if name not in {each.alias for each in known if isinstance(each.field_info, QueryParameter)}:
            raise Problem("invalid_parameter", "no such parameter", field=name)
        if len(request.query_params.getlist(name)) > 1:
            raise Problem("invalid_parameter", "is given more than once", field=name)


def make_app(parts: Parts) -> FastAPI:
    """The gateway's ASGI application."""
    gate, limits = parts.gatekeeper, parts.limits
    catalogue, held_bytes = AsyncCatalogue(parts.catalogue), InFlightBytes(limits.in_flight_bytes)
    acceptor = Acceptor(parts.rules, parts.send, catalogue.committed)
    followers = Followers(catalogue, limits, parts.stopping)
    is_open = gate.is_open  # as the document has it, which is made once
    secured = [] if is_open else [Depends(HTTPBearer(auto_error=False, scheme_name="bearer"))]
    everywhere = [*secured, Depends(no_unknown_parameter)]
    app = FastAPI(title="GlassBox gateway", docs_url=None, redoc_url=None, dependencies=everywhere)
    app.add_middleware(Guard, most=limits.in_flight_requests)
    _handle_errors(app)
    add_pages(app)
    submitter = Annotated[Caller, Depends(gate.needs("submit"))]
    reader = Annotated[Caller, Depends(gate.needs("read"))]

    async def accept(raw: bytes, caller: Caller, idempotency_key: str | None = None) -> shapes.Accepted:
        admitted = await acceptor.accept(raw, caller, idempotency_key)
        name, tenant = admitted.evaluation_id, admitted.tenant if caller.any_tenant else None
        return shapes.Accepted(evaluation_id=name, status_url=shapes.status_url(name, tenant))

    @app.post(
        "/v1/evaluations",
        status_code=202,
        response_model=shapes.Accepted,
        responses=problems("submit", "body", "broker"),
        callbacks=described() if parts.rules.callbacks.offered else None,
        openapi_extra={"x-body": "application/json"},
    )
    async def submit(
        request: Request,
        caller: submitter,
        idempotency_key: Annotated[
            str | None,
            Header(
                min_length=1,
                max_length=MAX_IDEMPOTENCY_KEY,
                pattern=forms.PRINTABLE,
                description="Names the evaluation where the request does not: sent again, it is the same evaluation.",
            ),
        ] = None,
    ) -> Response:
        """Accept one request. 202 means that the broker has it on all replicas in sync."""
        with held_bytes.held() as held:
            bodies.check_type(request, "application/json")
            raw = await bodies.whole(request, held, limits.body_s)
            accepted = await accept(raw, caller, idempotency_key)
        about(accepted.evaluation_id)
        return JSONResponse(accepted.model_dump(), 202, {"Location": accepted.status_url})

    @app.post(
        "/v1/evaluations:batch",
        response_class=Response,
        responses={200: {"content": {NDJSON: {}}}, **problems("submit", "batch")},
        openapi_extra={"x-body": NDJSON},
    )
    async def submit_batch(request: Request, caller: submitter) -> Response:
        """Accept requests line by line, and answer a line for each as it is acknowledged, in their order."""
        bodies.check_type(request, NDJSON)

        async def accept_line(raw: bytes) -> shapes.Accepted:
            gate.rates.take(caller.name, caller.rate)
            return await accept(raw, caller)

        return Streamed(outcomes(request, held_bytes, limits, accept_line), NDJSON)

    @app.get("/v1/evaluations", response_model=shapes.EvaluationPage, responses=problems("read", "list"))
    async def evaluations(
        caller: reader,
        tenant: TenantQuery = None,
        outcome: shapes.Outcome | None = None,
        provider: Annotated[str | None, Query(pattern=forms.WORD)] = None,
        model: Annotated[str | None, Query(pattern=forms.WORD)] = None,
        session: Annotated[
            str | None, Query(pattern=forms.SESSION, description=f"It {forms.SENTENCES[forms.SESSION]}.")
        ] = None,
        since: Since = None,
        until: Until = None,
        judge: Annotated[str | None, Query(pattern=CODE, description="See `below`.")] = None,
        below: Annotated[
            str | None,
            Query(
                pattern=forms.FIGURE,
                description="Only where the judge scored under this figure, the lowest score first.",
            ),
        ] = None,
        order: Annotated[
            Order, Query(description="By trust: those that have a trust score. Not with `judge`, whose order it is.")
        ] = "newest",
        cursor: Annotated[str | None, Query(max_length=512, pattern=forms.CURSOR)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> Response:
        """Evaluations, the newest request first, page by page; `since` and `until` are about the request."""
        if below is not None and judge is None:
            raise Problem("invalid_parameter", "goes with judge", field="below")
        if judge is not None and order != "newest":
            raise Problem("invalid_parameter", "a list by judge has its own order", field="order")
        span = moment("since", since), moment("until", until)
        wanted = Filter(outcome, provider, model, session, *span, judge, order=order)
        if below is not None:
            whole, _, places = below.partition(".")
            wanted = replace(wanted, below=millionths(f"{whole}.{places:0<6}"))
        whose = caller.reads(tenant)
        try:
            page = await catalogue.ask(lambda c: c.page(whose, wanted, cursor, limit))
        except CursorError as error:
            raise Problem("invalid_parameter", str(error), field="cursor") from None
        items = [shapes.of_summary(item) for item in page.items]
        return JSONResponse(shapes.EvaluationPage(items=items, next=page.cursor).model_dump())

    @app.get("/v1/evaluations/{evaluation_id}", response_model=shapes.Evaluation, responses=problems("read", "one"))
    async def evaluation(caller: reader, evaluation_id: EvaluationId, tenant: TenantQuery = None) -> Response:
        """What has become of one evaluation."""
        whose = caller.reads(tenant)
        found = await catalogue.ask(lambda c: c.detail(whose, evaluation_id))
        if found is not None:
            return JSONResponse(shapes.evaluation(whose, evaluation_id, found).model_dump())
        at = acceptor.accepted_at(whose, evaluation_id)
        if at is None:
            raise Problem("not_found", "you have no evaluation under this id")
        return JSONResponse(shapes.just_accepted(whose, evaluation_id, at).model_dump())

    @app.get(
        "/v1/evaluations/{evaluation_id}/proof",
        response_class=JSONResponse,
        responses={
            200: {"content": {"application/json": {"schema": {"type": "object"}}}},
            **problems("read", "one", "proof"),
        },
    )
    async def proof(caller: reader, evaluation_id: EvaluationId, tenant: TenantQuery = None) -> Response:
        """The proof bundle, which `glassbox verify` checks without us. It holds no text of the evaluation."""
        card = await catalogue.card(caller.reads(tenant), evaluation_id)
        policy = await catalogue.ask(lambda c: c.policy(json.loads(card["record"])["policy_digest"]))
        return Response(await bundle(card, policy, parts.prove), media_type="application/json")

    @app.get(
        "/v1/checkpoint",
        response_class=PlainTextResponse,
        responses=problems("read", "checkpoint"),
    )
    async def checkpoint(caller: reader) -> Response:
        """The newest signed checkpoint of the Merkle ledger that a receipt carried: a C2SP signed note, to keep and
        compare with later."""
        note = await catalogue.ask(lambda c: c.checkpoint())
        if note is None:
            raise Problem("not_found", "no receipt with a checkpoint has come yet")
        return PlainTextResponse(note)

    @app.get(
        EVENTS_PATH,
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}, **problems("read", "events")},
    )
    async def events(
        caller: reader,
        last_event_id: Annotated[int | None, Header(ge=0, lt=2**63)] = None,
        tenant: TenantQuery = None,
    ) -> Response:
        """Evaluations as they are committed, as server-sent events named `scorecard`. With `Last-Event-ID` those since
        that event; without, from now on. The stream ends now and then; clients of this protocol come back."""
        whose = caller.reads(tenant)
        seq = await followers.begin(last_event_id)
        return StreamingResponse(followers.stream(whose, seq), media_type="text/event-stream")

    inspector = Inspector(parts, catalogue)
    app.include_router(evidence_router(parts, inspector))
    app.include_router(reviews_router(parts, catalogue, inspector, held_bytes))
    app.include_router(cases_router(parts, inspector, held_bytes))
    app.include_router(runs_router(parts))
    app.include_router(statistics_router(parts, catalogue))
    app.state.traces = TracesDoor(acceptor, gate.rates, limits, held_bytes)
    add_traces(app, app.state.traces, gate)
    app.openapi = lambda: document(app, parts.rules, is_open)  # type: ignore[method-assign]
    return app


def _handle_errors(app: FastAPI) -> None:
    async def problem(_: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return error.response()

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        return Problem("invalid_parameter", sentence(first), field=str(first["loc"][-1])).response()

    async def by_framework(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return of_status(error.status_code, error.headers).response()

    async def no_catalogue(_: Request, _error: Exception) -> Response:
        return Problem("catalogue_unavailable", "try again; requests are accepted meanwhile").response()

    app.add_exception_handler(Problem, problem)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, by_framework)
    app.add_exception_handler(CatalogueUnavailable, no_catalogue)
