"""The catalogue: every fault that is known to break operators, as data.

The tests of operator/tests/faults are generated from it, and the table in docs/reliability.md. A case runs in the rig
unless it says that another test has it (`elsewhere`), or why it cannot run (`absent`): a unit test holds that.
"""

from __future__ import annotations

from dataclasses import dataclass

CLASSES = {
    "A": "API server and network",
    "B": "Stale, missed and strange events",
    "C": "Crash, stall and the death of parts",
    "D": "Leadership",
    "E": "Concurrency and ownership",
    "F": "Deletion and garbage collection",
    "G": "Inputs",
    "H": "Roll-back and recovery",
    "I": "Caches and nodes",
    "J": "Admission, CRD and upgrades",
    "K": "Scale and soak",
    "L": "Security at run time",
}


@dataclass(frozen=True)
class Case:
    """One fault. Only one of `elsewhere` (a test, FILE::NAME below the repository) and `absent` (why) may be given."""

    id: str
    title: str
    injection: str
    assertion: str
    elsewhere: str = ""
    absent: str = ""

    @property
    def kind(self) -> str:
        """The letter of its class."""
        return self.id[0]


INTEGRATION = "operator/tests/integration/"
SCENARIO = "operator/tests/scenario/"
E2E = "e2e/"
KILLS = "operator/tests/faults/test_faults_kills.py::test_ended_at_every_write"
_NO_WEBHOOK = "the operator has no webhook: CEL rules in the CRD refuse what is wrong"
_NO_SECRETS = "the operator has no field that names a Secret but imagePullSecrets, and never reads one"
_ONE_VERSION = "the API has one version, v1alpha1: nothing is converted"
_NO_CGROUP = "needs a cgroup with a limit, which this rig has no right to make"
_NO_HOOK = "needs a hook in the operator that makes it fail: it has none, on purpose"
_NO_SIZE = "needs a machine that the caller has to himself; `make soak` and bench/ measure it"
_SAME = "the same process, and the end state and creations of an undisturbed run"

CATALOGUE = (
    # --- A
    Case("A01", "API server gone", "kube-apiserver killed for a while", _SAME),
    Case("A02", "503 from everything", "proxy: 503", _SAME),
    Case("A03", "500 on lists and watches of one kind", "proxy: 500 for deployments", _SAME),
    Case("A04", "504 when a watch starts, 20 times", "proxy: 504", _SAME),
    Case("A05", "1 % random 500 under churn", "proxy: 500, at random", "no edit is lost"),
    Case("A06", "50 % random 409 on writes", "proxy: 409, at random", "no edit is lost, retries are paced"),
    Case(
        "A07", "requests that hang", "proxy: no answer to 1 % of requests", "others go on; the hanging one is retried"
    ),
    Case("A08", "429 with Retry-After", "proxy: 429, 2 s", "no try before it was told"),
    Case("A09", "429 with a date, with nonsense, with nothing", "proxy: three kinds of 429", _SAME),
    Case(
        "A10",
        "priority and fairness rejects us",
        "-",
        "-",
        absent="a priority level without shares, for our user alone, rejected nothing here; why is not "
        "known. A08 and A09 answer 429 in its stead",
    ),
    Case("A11", "watches cut each second", "proxy: reset after 1 s", "no edit is lost"),
    Case("A12", "all watches half-open", "proxy: lines are swallowed, bookmarks too", "noticed within 80 s"),
    Case("A13", "only the quiet watches die", "proxy: swallowed for services and pods", "noticed within 80 s"),
    Case("A14", "half a line, then the end", "proxy: each line of a watch truncated", _SAME),
    Case("A15", "200 with a page of HTML", "proxy: for reads and for writes", _SAME),
    Case("A16", "serving certificate and CA rotated", "proxy: another CA, on disk too", "the same process trusts it"),
    Case("A17", "401 for a while, the credentials unchanged", "proxy: 401", _SAME),
    Case(
        "A18",
        "token replaced, the old one revoked",
        "token file rewritten, 401 for the old",
        "both clients send the new",
    ),
    Case("A19", "rights removed for a while", "RBAC without the right to create Services", "a condition names it"),
    Case("A20", "CRD not there yet", "proxy: 404 from the start", "it waits, and is ready when the CRD is"),
    Case("A21", "2 s of latency on every request", "proxy: delay", "the Lease is kept, " + _SAME),
    Case("A22", "lists at 50 KB/s", "proxy: throttle", "it starts, and leads"),
    Case("A23", "name resolution fails", "-", "-", absent="clusters give operators an address, not a name"),
    Case("A24", "etcd stands still", "SIGSTOP for 10 s", _SAME),
    Case("A25", "etcd compacted beyond our version", "watches held back, then 410 Gone", "one relist a kind"),
    Case("A26", "two API servers restarted in turn", "-", "-", absent="the control plane here has one API server"),
    Case(
        "A27", "write committed, answer dropped", "proxy: reset after commit, for each write", "nothing is made twice"
    ),
    Case("A28", "create answered 504 after it was committed", "proxy: 504 after commit", "AlreadyExists is ours"),
    Case(
        "A29",
        "only budgets cannot be written",
        "proxy: 500 for poddisruptionbudgets",
        "the rest is made; a condition tells",
    ),
    Case(
        "A30", "one of many is refused for ever", "proxy: 422 by name", "the others converge, the one is not hammered"
    ),
    # --- B
    Case("B01", "410, as an event and as a status", "proxy: both", _SAME),
    Case("B02", "ERROR 500 and 403, and unknown types of events", "proxy: lines", _SAME),
    Case("B03", "resource deleted in a gap that ends with 410", "proxy: reset, then 410", "no ghost is written for"),
    Case("B04", "child deleted in a gap", "proxy: reset, then 410", "made again, once"),
    Case(
        "B05",
        "time travel: old lists after a restart",
        "proxy: recorded lists and watches that hang",
        "nothing is written for them",
    ),
    Case(
        "B06", "stale deletionTimestamp of a namesake", "proxy: an old object replayed", "the new one's children live"
    ),
    Case("B07", "size 1-3-1, the middle withheld", "proxy: event dropped", _SAME),
    Case("B08", "child replaced by a user, DELETED withheld", "proxy: event dropped", "settles, without a loop"),
    Case("B09", "events twice and out of order", "proxy: doubled, swapped", _SAME),
    Case("B10", "DELETED lost for ever", "proxy: event dropped", "healed by the resync"),
    Case("B11", "a thousand updates of one resource", "200 in a burst", "far fewer reconciles; the last one wins"),
    Case("B12", "silence", "nothing happens", "nothing is written, nothing listed"),
    Case("B13", "very large objects", "a Memcached with 250 KB of annotations", _SAME),
    Case("B14", "fields of a newer API in events", "proxy: unknown fields added", "ignored, and never written"),
    # --- C
    *(
        Case(
            f"C0{number}",
            f"killed at every write: {story}",
            "proxy: SIGKILL and SIGTERM, before and after commit",
            "O1, O2",
            elsewhere=KILLS,
        )
        for number, story in enumerate(
            (
                "create",
                "image change",
                "scale up",
                "scale down",
                "drift",
                "delete by each policy",
                "adoption",
                "adoption refused",
            ),
            1,
        )
    ),
    Case("C09", "SIGTERM in the middle of a reconcile", "proxy: at a write", "exit 0, the Lease released"),
    Case("C10", "killed again and again under churn", "SIGKILL, five times", "O1"),
    Case("C11", "out of memory at a cold start", "-", "-", absent=_NO_CGROUP),
    Case(
        "C12",
        "deleted and made again while the operator is down",
        "stop, delete, create, start",
        "children of the new one",
    ),
    Case("C13", "ten edits while the operator is down", "stop, edit, start", "one roll-out, of the last"),
    Case("C14", "children edited and deleted while it is down", "stop, edit, start", "repaired"),
    Case("C15", "operator and a cache pod die together", "kill both", "both are back"),
    Case(
        "C16",
        "unhandled exception for one resource",
        "-",
        "the others go on",
        elsewhere="operator/tests/unit/test_runtime_controller.py::test_failures_back_off_and_a_success_ends_that",
    ),
    Case("C17", "a task of the operator dies", "-", "-", absent=_NO_HOOK),
    Case(
        "C18",
        "the event loop is blocked",
        "SIGSTOP past the Lease",
        "fenced",
        elsewhere=INTEGRATION
        + "test_process_leadership.py::test_a_leader_that_was_stopped_past_its_lease_writes_nothing_and_exits_1",
    ),
    Case(
        "C19", "a thousand slow calls", "proxy: 2 s on every write, many resources", "the Lease is kept; all converge"
    ),
    Case(
        "C20",
        "read-only root, any uid",
        "-",
        "starts and works",
        elsewhere=E2E + "test_manifests.py::test_the_walk_through",
    ),
    Case(
        "C21",
        "the clock jumps",
        "another time of day",
        "the Lease is kept, or lost cleanly",
        absent="needs libfaketime; the elector reads no wall clock, and its tests run on virtual time",
    ),
    Case("C22", "the OTLP collector is a black hole", "an endpoint that never answers", _SAME),
    Case("C23", "nobody reads the log", "stdout is a full pipe", "it reconciles, or liveness tells"),
    Case("C24", "more objects than workers at a cold start", "60 resources, 2 workers", "all are looked at"),
    # --- D
    Case(
        "D01",
        "the leader is killed at a write",
        "proxy: SIGKILL at each of the first writes",
        "the standby ends the story, O2, O12",
    ),
    Case(
        "D02",
        "the leader stops and wakes",
        "SIGSTOP past the Lease, SIGCONT",
        "it writes nothing",
        elsewhere=INTEGRATION
        + "test_process_leadership.py::test_a_leader_that_was_stopped_past_its_lease_writes_nothing_and_exits_1",
    ),
    Case("D03", "renewals fail or hang", "proxy: 409, 500, hang on Leases", "no write past the deadline; one leader"),
    Case("D04", "Leases blocked, all else open", "proxy: reset on Leases", "no write past the deadline"),
    Case("D05", "Lease deleted, and edited by hand", "kubectl", "one leader"),
    Case(
        "D06",
        "clocks of replicas apart",
        "-",
        "-",
        absent="needs libfaketime; remote times are never compared (unit tests on virtual time)",
    ),
    Case("D07", "two that both believe to lead", "a second one without election", "the same end, nothing twice"),
    Case("D08", "the worker dies, the Lease lives", "-", "-", absent=_NO_HOOK),
    Case("D09", "the leader is deaf and renews", "proxy: its watches swallowed", "hears again within 80 s"),
    Case("D10", "hand-overs, one after the other", "SIGTERM to the leader, five times", "O1, O12"),
    Case("D11", "a ClusterKopfPeering appears", "the CRD and an object `default`", "ignored"),
    # --- E
    Case(
        "E01",
        "an owned field edited",
        "patch",
        "put back",
        elsewhere=INTEGRATION + "test_process_neighbours.py::test_drift_is_repaired_and_what_others_added_is_kept",
    ),
    Case(
        "E02",
        "foreign labels and fields on a child",
        "patch",
        "kept",
        elsewhere=INTEGRATION + "test_process_neighbours.py::test_drift_is_repaired_and_what_others_added_is_kept",
    ),
    Case(
        "E03",
        "an autoscaler sets replicas",
        "HorizontalPodAutoscaler",
        "not fought",
        elsewhere=INTEGRATION
        + "test_process_neighbours.py::test_an_autoscaler_of_the_deployment_is_named_and_not_fought",
    ),
    Case(
        "E04", "another manager forces our field again and again", "apply, 20 times", "each time one write back, paced"
    ),
    Case("E05", "kubectl rollout restart of the child", "annotation on the template", "completes, and is kept"),
    Case(
        "E06",
        "a webhook changes our children",
        "-",
        "not fought",
        elsewhere=SCENARIO + "test_controller_children.py::test_a_webhook_that_changes_our_children_is_not_fought",
    ),
    Case("E07", "quantities in other words", "1024Mi, 1000m", "nothing is written afterwards"),
    Case("E08", "every different write refused twice", "proxy: 403, twice for each", "O1"),
    Case(
        "E09",
        "two resources, one child name",
        "names at their limits",
        "never shared",
        elsewhere=INTEGRATION + "test_api_bad_inputs.py::test_what_kubectl_says",
    ),
    Case(
        "E10",
        "the name is taken",
        "a foreign Service",
        "not touched",
        elsewhere=INTEGRATION + "test_process_neighbours.py::test_a_strangers_object_is_left_alone_until_it_is_gone",
    ),
    Case("E11", "another client writes the status", "50 patches", "no write to the spec; ours wins"),
    Case(
        "E12",
        "idle",
        "40 resources, nothing happens",
        "0 writes",
        elsewhere=INTEGRATION + "test_process_writes.py::test_create_scale_restart_and_idle",
    ),
    Case("E13", "there and back within a second", "image A-B-A", "A, and nothing left of B"),
    Case(
        "E14",
        "paused, edited, resumed",
        "spec.paused",
        "no write while paused",
        elsewhere=INTEGRATION
        + "test_process_fields.py::test_paused_stops_writes_to_children_and_goes_on_where_it_stopped",
    ),
    # --- F
    Case(
        "F01",
        "deleted by each propagation",
        "kubectl delete --cascade",
        "as the policy says",
        elsewhere=INTEGRATION + "test_process_deletion.py::test_what_a_deletion_leaves",
    ),
    Case(
        "F02",
        "the namespace is deleted",
        "kubectl",
        "gone",
        elsewhere=INTEGRATION + "test_process_deletion.py::test_a_namespace_goes_with_its_drained_cache",
    ),
    Case("F03", "the operator's own namespace is deleted", "the Lease's namespace goes too", "no finalizer is stuck"),
    Case("F04", "the operator goes first, then resource, then CRD", "terminate, delete", "nothing is stuck"),
    Case(
        "F05",
        "the CRD is deleted with resources alive",
        "kubectl",
        "the operator lives, children go",
        elsewhere=INTEGRATION + "test_process_outages.py::test_the_crd_may_be_deleted_and_made_again",
    ),
    Case("F06", "deleted while writes fail", "proxy: 500 on writes", "cleaned after the heal"),
    Case("F07", "deleted and made again at once, again and again", "20 times", "children of the last uid only"),
    Case(
        "F08",
        "owner references stripped",
        "patch",
        "restored",
        elsewhere=SCENARIO + "test_controller_children.py::test_owner_references_are_restored",
    ),
    Case(
        "F09",
        "finalizers stripped, or foreign ones",
        "patch",
        "ours restored, foreign kept",
        elsewhere=SCENARIO + "test_controller_deletion.py::test_a_finalizer_that_was_stripped_is_put_back",
    ),
    Case("F10", "owners in another namespace", "scan", "none: an owner is of the child's own namespace"),
    Case("F11", "the user's Secrets", "a Secret beside the cache, deleted with it?", "never owned, never deleted"),
    Case("F12", "a child is no longer wanted, with a restart between", "size 2 to 1 and a kill", "the budget goes"),
    Case("F13", "many deleted at once", "60", "all gone, no orphan"),
    Case(
        "F14",
        "OwnerReferencesPermissionEnforcement",
        "plug-in on in every run here",
        "works",
        elsewhere=INTEGRATION
        + "test_process_permissions.py::test_without_the_right_to_finalizers_no_child_can_be_made",
    ),
    # --- G
    Case("G01", "size -1, 0, 1, 1000, 2^31", "apply", "refused or done"),
    Case("G02", "memory 0, -5, above the limit; items over half", "apply", "refused"),
    Case("G03", "threads 0, 65, a million; no connections", "apply", "refused"),
    Case("G04", "an image that does not exist", "apply", "old pods serve; the reason is told"),
    Case("G05", "requests above limits, no quantity, more than a node", "apply", "refused, or told"),
    Case("G06", "placement that cannot be met", "node selector of no node", "old pods serve; told"),
    Case("G07", "probes, security context, host fields", "apply", "there are no such fields"),
    Case("G08", "authentication Secrets", "-", "-", absent=_NO_SECRETS),
    Case("G09", "TLS Secrets", "-", "-", absent=_NO_SECRETS),
    Case("G10", "authentication with UDP", "-", "-", absent=_NO_SECRETS),
    Case("G11", "arguments of the user's own", "extraArgs", "there is no such field; UDP is off"),
    Case("G12", "labels and annotations that break selectors", "apply", "refused"),
    Case("G13", "ports", "port 0, 65536", "there is no such field"),
    Case("G14", "LoadBalancer without authentication", "serviceType", "there is no such field"),
    Case(
        "G15",
        "budgets that block each drain",
        "-",
        "one pod may always go",
        elsewhere=E2E + "test_manifests.py::test_a_drained_node_gives_up_one_pod_at_a_time",
    ),
    Case(
        "G16", "an immutable field of a child", "a Deployment with another selector", "left alone, or replaced; no loop"
    ),
    Case("G17", "names of 1 and 46 characters, digits, unicode", "apply", "valid children, or refused"),
    Case(
        "G18",
        "each optional field taken away",
        "schema",
        "the child is as before",
        elsewhere=INTEGRATION + "test_process_fields.py::test_each_optional_field_is_set_and_taken_away",
    ),
    Case(
        "G19",
        "each item of lists and maps",
        "schema",
        "O4, O5",
        elsewhere="operator/tests/faults/test_faults_states.py::test_chained_states",
    ),
    Case(
        "G20",
        "1,000 specs in a row, from the schema",
        "schema",
        "O4-O8, every property touched",
        elsewhere="operator/tests/faults/test_faults_states.py::test_chained_states",
    ),
    Case(
        "G21",
        "far too large",
        "10,000 labels, megabytes",
        "refused",
        elsewhere=INTEGRATION + "test_api_bad_inputs.py::test_what_is_far_too_large_is_refused",
    ),
    Case("G22", "wrong types, unknown fields, status by hand", "raw API", "refused, pruned, computed anew"),
    Case(
        "G23",
        "all of it without CEL",
        "-",
        "the reconciler refuses it too",
        elsewhere=INTEGRATION + "test_api_bad_inputs.py::test_the_operator_would_refuse_it_too",
    ),
    # --- H
    Case(
        "H01",
        "each bad state, then the one before",
        "apply",
        "recovers by itself",
        elsewhere="operator/tests/faults/test_faults_states.py::test_chained_states",
    ),
    Case("H02", "bad image, killed, rolled back", "apply, kill", "recovers"),
    Case("H03", "a second change while the first is stuck", "bad image, then a good one", "the second is done"),
    Case(
        "H04",
        "a quota blocks pods, then goes",
        "ResourceQuota",
        "recovers",
        elsewhere=INTEGRATION + "test_process_neighbours.py::test_a_quota_is_told_and_its_end_is_noticed",
    ),
    Case(
        "H05", "somebody's policy denies our children", "ValidatingAdmissionPolicy for a while", "paced, told, recovers"
    ),
    # --- I
    Case(
        "I01",
        "each kind of child deleted",
        "delete",
        "back",
        elsewhere=SCENARIO + "test_controller_children.py::test_a_child_that_was_deleted_is_made_again",
    ),
    Case(
        "I02",
        "each owned field changed",
        "patch",
        "put back",
        elsewhere=E2E + "test_manifests.py::test_every_owned_field_is_put_back",
    ),
    Case(
        "I03",
        "memcached killed, evicted, drained",
        "kind",
        "the budget holds",
        elsewhere=E2E + "test_manifests.py::test_a_drained_node_gives_up_one_pod_at_a_time",
    ),
    Case(
        "I04",
        "pods that are never ready",
        "simulated node",
        "told, no loop",
        elsewhere=SCENARIO + "test_controller_status.py::test_a_pods_own_words_are_in_the_status_within_thirty_seconds",
    ),
    Case(
        "I05",
        "rolling update under load",
        "kind",
        "clients are answered",
        elsewhere=E2E + "test_manifests.py::test_a_new_image_is_rolled_out_under_load",
    ),
    Case(
        "I06",
        "3-10-3 with consistent hashing",
        "kind",
        "-",
        absent="a property of the client's hashing; the operator only lists servers",
    ),
    Case("I07", "password rotated", "-", "-", absent=_NO_SECRETS),
    Case("I08", "TLS certificate rotated", "-", "-", absent=_NO_SECRETS),
    Case("I09", "exporter down", "-", "-", absent="there is no exporter sidecar"),
    Case(
        "I10", "memcached hangs", "-", "-", absent="there is no liveness probe, on purpose: a restart empties the cache"
    ),
    # --- J
    *(
        Case(f"J{number:02}", title, "-", "-", absent=_NO_WEBHOOK)
        for number, title in enumerate(
            (
                "webhook down",
                "webhook hangs",
                "webhook certificates rotated",
                "webhook certificate gone",
                "webhook installed first",
            ),
            1,
        )
    ),
    Case("J06", "conversion there and back", "-", "-", absent=_ONE_VERSION),
    Case("J07", "storage migration", "-", "-", absent=_ONE_VERSION),
    Case(
        "J08",
        "upgrade from the release before",
        "kind, Helm",
        "no pod restarts",
        elsewhere=E2E + "test_helm.py::test_upgrade_and_rollback_leave_the_caches_alone",
    ),
    Case(
        "J09",
        "a stored resource that is invalid by now",
        "-",
        "still reported and deletable",
        elsewhere=SCENARIO + "test_controller_deletion.py::test_paused_or_invalid_it_drains_all_the_same",
    ),
    Case("J10", "fuzzed AdmissionReviews", "-", "-", absent=_NO_WEBHOOK),
    # --- K
    Case("K01", "cold start with many", "restart with 200 resources", "nothing is written, no 429"),
    Case("K02", "many at once, then all images changed", "100 resources", "all converge"),
    Case(
        "K03",
        "churn for long",
        "`make soak`",
        "memory, files, threads flat",
        elsewhere="operator/tests/faults/test_faults_soak.py::test_soak",
    ),
    Case("K04", "15,000 foreign Secrets and ConfigMaps, 8,000 pods", "2,000 of them", "never listed; memory unchanged"),
    Case("K05", "many namespaces", "100 namespaces", "the number of watches is constant"),
    Case("K06", "one tenant edits without pause", "one resource, 20 edits a second", "others are served"),
    Case("K07", "API server back, many dirty", "60 dirty after an outage", "all converge"),
    Case("K08", "many broken resources", "60 refused ones", "events are few"),
    # --- L
    Case(
        "L01",
        "rights used are rights granted",
        "audit log",
        "both differences empty",
        elsewhere=INTEGRATION
        + "test_process_permissions.py::test_every_request_is_in_the_table_and_every_row_of_it_is_used",
    ),
    Case(
        "L02",
        "what our account may not do",
        "auth can-i",
        "no to all of it",
        elsewhere=INTEGRATION + "test_security_page.py::test_nothing_that_would_hand_over_the_cluster",
    ),
    Case(
        "L03",
        "rights in single namespaces",
        "Role only",
        "works there",
        elsewhere=E2E + "test_helm.py::test_watched_namespaces_are_all_that_is_touched",
    ),
    Case("L04", "a resource that points elsewhere", "other namespaces in fields", "no field can"),
    Case("L05", "reading a Secret by a Memcached", "apply", "no field leads there"),
    Case("L06", "privileges by a Memcached", "service account, hostPath", "no such field; the token is never mounted"),
    Case(
        "L07",
        "the operator's token is stolen",
        "privileged pods in its name",
        "refused",
        elsewhere=INTEGRATION + "test_config_admission_policy.py::test_it_is_refused",
    ),
    Case(
        "L08",
        "Pod Security restricted",
        "namespace label",
        "no warning",
        elsewhere=INTEGRATION + "test_resources_on_apiserver.py::test_pod_security_restricted_admits_the_pods",
    ),
    Case(
        "L09",
        "UDP",
        "each state of G20",
        "-U 0 in every Deployment",
        elsewhere="operator/tests/faults/test_faults_states.py::test_chained_states",
    ),
    Case("L10", "plaintext beside TLS", "-", "-", absent=_NO_SECRETS),
    Case(
        "L11",
        "network policies",
        "-",
        "-",
        absent="the cluster here enforces none; config/network-policy is judged as a file",
    ),
    Case("L12", "secrets in logs, events, status", "a canary in every run", "nowhere (O10)"),
    Case(
        "L13",
        "/metrics without a login",
        "-",
        "-",
        absent="metrics are plain HTTP behind a network policy, as the documentation says",
    ),
    Case("L14", "newlines and colours in fields", "annotations with control characters", "one JSON line a record"),
    Case("L15", "a tenant with many resources", "-", "-", absent=_NO_SIZE),
    Case(
        "L16",
        "the image",
        "scan",
        "no shell needed, no root",
        elsewhere="operator/tests/unit/test_image.py::test_the_user_is_a_number_and_not_root",
    ),
    Case("L17", "weak TLS", "-", "-", absent="the operator serves no TLS; as a client it takes 1.2 or newer"),
    Case("L18", "two builds", "-", "-", absent="a matter of releases: docs/releasing.md"),
)
"""In the order of their ids."""


def chosen(wanted: str, cases: tuple[Case, ...] = CATALOGUE) -> tuple[Case, ...]:
    """The cases of `A,C`, `A01,B` or the like; all of them for "". Raises ValueError for what names none."""
    words = [word.strip() for word in wanted.split(",") if word.strip()]
    for word in words:
        if not any(case.id.startswith(word) for case in cases):
            raise ValueError(f"there is no case {word!r}")
    return tuple(case for case in cases if not words or any(case.id.startswith(word) for word in words))
