"""Controller machinery that knows nothing of memcached: watch, queue, reconcile, lead, record.

A controller is three things: what it is for, what it owns, and a `Reconciler`::

    manager = Manager(api, ...)
    watch = Watch(XCAS, decode_unstructured)
    manager.add(Controller("xca", for_=watch, reconciler=lambda stores: XcaReconciler(api, stores)))
    exit_code = await manager.run(stop)
"""

from memcached_operator.runtime.controller import Controller
from memcached_operator.runtime.events import Recorder
from memcached_operator.runtime.manager import Manager
from memcached_operator.runtime.ports import Api
from memcached_operator.runtime.result import Reconciler, Result, done, requeue_after
from memcached_operator.runtime.store import Key, Object, Store, Stores, Unstructured, Watch, decode_unstructured

__all__ = [
    "Api",
    "Controller",
    "Key",
    "Manager",
    "Object",
    "Reconciler",
    "Recorder",
    "Result",
    "Store",
    "Stores",
    "Unstructured",
    "Watch",
    "decode_unstructured",
    "done",
    "requeue_after",
]
