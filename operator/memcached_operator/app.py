"""The composition root: every part is made here and handed to those that need it. Owns start and stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import aiohttp
import uvloop

from memcached_operator import __version__
from memcached_operator.controller.census import by_condition, everyone, unobserved
from memcached_operator.controller.reconciler import MemcachedReconciler
from memcached_operator.controller.watches import MEMCACHED_WATCH, OWNED
from memcached_operator.errors import OperatorError
from memcached_operator.gvr import MEMCACHEDS
from memcached_operator.kube.client import KubeClient, open_session
from memcached_operator.kube.credentials import Credentials, load_credentials
from memcached_operator.runtime import Controller, Manager
from memcached_operator.runtime.election import LeaseConfig
from memcached_operator.runtime.events import Recorder
from memcached_operator.runtime.health import HttpServer
from memcached_operator.runtime.kopf_source import OpenSession
from memcached_operator.runtime.store import Stores
from memcached_operator.settings import LeaderElection, Settings, parse
from memcached_operator.telemetry.logs import configure_logging
from memcached_operator.telemetry.metrics import Metrics
from memcached_operator.telemetry.tracing import Tracer, start_tracing

log = logging.getLogger(__name__)

NAME = "memcached-operator"


@dataclass(frozen=True, slots=True)
class Context:
    """What a reconciler may need to do its work."""

    settings: Settings
    api: KubeClient
    recorder: Recorder
    metrics: Metrics


MakeControllers = Callable[[Context], Sequence[Controller]]


def memcached_controllers(context: Context) -> Sequence[Controller]:
    """The controllers of this operator. A new kind is one more line here."""

    def reconciler(stores: Stores) -> MemcachedReconciler:
        caches = stores[MEMCACHEDS]
        context.metrics.gauge("memcacheds", lambda: by_condition(everyone(caches)))
        context.metrics.gauge("memcacheds_unobserved", lambda: unobserved(everyone(caches)))
        return MemcachedReconciler(
            context.api, stores, context.recorder, context.metrics, default_image=context.settings.default_image
        )

    workers = context.settings.workers
    return [Controller("memcached", for_=MEMCACHED_WATCH, owns=OWNED, reconciler=reconciler, workers=workers)]


def run(settings: Settings, make_controllers: MakeControllers = memcached_controllers, *, name: str = NAME) -> int:
    """Runs controllers until the process is told to stop; returns its exit code.

    `name` is who they are to the API server: user agent, field manager, and reporting controller of events.
    """
    terminal = sys.stderr.isatty()
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not terminal)
    configure_logging(settings.log_level, json_lines=as_json, colour=settings.log_colour and terminal)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(_run(settings, make_controllers, name))
        except (OperatorError, OSError) as error:
            log.critical("exit 1: %s", error)
            return 1


def main(make_controllers: MakeControllers, *, name: str) -> int:
    """`run` with the settings of the command line and the environment: all that a controller's own program needs."""
    return run(parse(sys.argv[1:], os.environ), make_controllers, name=name)


async def _run(settings: Settings, make_controllers: MakeControllers, name: str) -> int:
    user_agent = f"{name}/{__version__}"
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    metrics = Metrics(__version__, push=settings.otlp_metrics)
    tracer = start_tracing(__version__, otlp=settings.otlp_traces)
    credentials = await load_credentials(settings.kubeconfig)
    identity = f"{settings.pod_name}_{uuid.uuid4().hex[:8]}"
    lease = _lease(settings.leader_election, identity)
    # The last write leaves at the deadline at the latest, and is not delivered any more when others may lead.
    undelivered = lease.duration - lease.renew_deadline if lease else None
    async with await open_session(credentials, user_agent=user_agent, undelivered_seconds=undelivered) as session:
        api = KubeClient(
            session,
            credentials.server,
            field_manager=name,
            on_request=lambda verb, resource, code: metrics.api_request(verb, resource, str(code) if code else "error"),
        )
        recorder = Recorder(api, metrics, controller=name, instance=settings.pod_name)
        manager = Manager(
            api,
            open_session=_kopf_session(credentials, f"{user_agent} kopf"),
            metrics=metrics,
            tracer=tracer,
            recorder=recorder,
            lease=lease,
            namespaces=settings.watch_namespaces,
            resync_seconds=settings.resync_seconds,
        )
        for controller in make_controllers(Context(settings, api, recorder, metrics)):
            manager.add(controller)
        server = HttpServer(live=[manager.alive], ready=[manager.ready], render_metrics=metrics.render)
        await server.start(settings.health_address, settings.metrics_address)
        log.info("%s %s works in %s", name, __version__, ", ".join(settings.watch_namespaces) or "all namespaces")
        try:
            code = await manager.run(stop)
        finally:
            await server.stop()
    await asyncio.to_thread(_shut_down_telemetry, metrics, tracer)
    if code == 0:
        log.info("stopped")
    return code


def _lease(election: LeaderElection | None, identity: str) -> LeaseConfig | None:
    if election is None:
        return None
    return LeaseConfig(
        namespace=election.namespace,
        name=election.name,
        identity=identity,
        duration=election.lease_seconds,
        renew_deadline=election.renew_deadline_seconds,
        # Half the deadline: one lost renewal is made up for, at 12 requests a minute and not 30.
        renew_every=election.renew_deadline_seconds / 2,
        retry_every=election.retry_seconds / 2,
    )


def _kopf_session(credentials: Credentials, user_agent: str) -> OpenSession:
    async def open_for_kopf() -> tuple[str, aiohttp.ClientSession]:
        return credentials.server, await open_session(credentials, user_agent=user_agent)

    return open_for_kopf


def _shut_down_telemetry(metrics: Metrics, tracer: Tracer) -> None:
    tracer.shutdown(2.0)
    metrics.shutdown(2.0)
