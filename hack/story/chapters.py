"""The steps of the story, in their order."""

from functools import partial

from story import deletion, leadership, opening, repair
from story.rig import Rig
from story.telling import Step


def chapters(rig: Rig) -> list[Step]:
    """Return the steps, bound to the rig that they are played on."""
    return [
        Step("Control plane", "real, on 127.0.0.1", partial(opening.control_plane, rig), vital=True),
        Step("Operator", "CRD, rights of its own, Lease", partial(opening.operator, rig), vital=True),
        Step("Create", "the sample becomes Ready", partial(opening.create, rig), vital=True),
        Step("Scale", "size 2 -> 3 by kubectl patch", partial(opening.scale, rig)),
        Step("Drift", "Deployment, replicas, image repaired", partial(repair.drift, rig)),
        Step("Refusal", "bad specs refused by the API server", partial(repair.refusal, rig)),
        Step("Bad image", "serves on, the status says why", partial(repair.broken_image, rig)),
        Step("Status", "conditions and events, by kubectl", partial(repair.told, rig)),
        Step("Restart", "kill -9, start again, zero writes", partial(leadership.restart, rig)),
        Step("Hand-over", "SIGTERM, the standby acts at once", partial(leadership.handover, rig)),
        Step("Delete", "children are garbage-collected", partial(deletion.delete, rig)),
        Step("Orphan", "children serve on, then are adopted", partial(deletion.orphan, rig)),
        Step("Drain", "clients leave first, pods stop later", partial(deletion.drain, rig)),
    ]
