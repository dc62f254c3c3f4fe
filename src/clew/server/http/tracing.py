"""OpenTelemetry spans, one for each request, if CLEW_TRACES is set.

OpenTelemetry's own variables, such as OTEL_EXPORTER_OTLP_ENDPOINT, say where they are sent. A span holds no more than a
line of the log.
"""

import time
from typing import TYPE_CHECKING

from clew.model.errors import InvalidInput
from clew.server.http.exchange import Exchange

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter


class Traces:
    """Records requests when they are over, each as a child of the span that its caller named."""

    def __init__(self, exporter: "SpanExporter | None" = None) -> None:
        try:
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

            if exporter is None:
                from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

                exporter = OTLPSpanExporter()
        except ModuleNotFoundError as error:
            raise InvalidInput(f"{error.name} is not installed; install clew[otel], or unset CLEW_TRACES") from None
        self._provider = TracerProvider(resource=Resource.create({"service.name": "clew"}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("clew.server")
        self._parent = TraceContextTextMapPropagator()

    def request(self, exchange: Exchange) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode

        parent = self._parent.extract({"traceparent": exchange.headers.get(b"traceparent", b"").decode("latin-1")})
        ended = time.time_ns()
        span = self._tracer.start_span(
            f"{exchange.method} {exchange.route or 'unknown'}",
            context=parent,
            kind=SpanKind.SERVER,
            start_time=ended - round(exchange.seconds * 1e9),
            attributes={
                "http.request.method": exchange.method,
                "http.route": exchange.route,
                "http.response.status_code": exchange.status,
                "clew.request": exchange.id,
            },
        )
        if exchange.status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended)

    def close(self) -> None:
        """Send the spans that are left."""
        self._provider.shutdown()
