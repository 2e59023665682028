"""What the Helm chart shares with everything else: its metadata, the CRD, the rules of its roles, the admission policy.

The other templates are written by hand, and include what is defined here.
"""

from __future__ import annotations

import re
from typing import Any

from memcached_operator.api import names
from memcached_operator.codegen import rbac
from memcached_operator.codegen.yamltext import to_yaml
from memcached_operator.kube import permissions
from memcached_operator.settings import DEFAULT_IMAGE

Manifest = dict[str, Any]

_AGGREGATION = "rbac.authorization.k8s.io/aggregate-to-"
_USER_ROLES = ("admin", "editor", "viewer")


def metadata(base: Manifest, crd: Manifest, *, sample: Manifest) -> Manifest:
    """Chart.yaml, which tells of the operator what the ClusterServiceVersion `base` tells.

    `sample` is the smallest Memcached.
    """
    spec, annotations = base["spec"], base["metadata"]["annotations"]
    (icon,) = spec["icon"]
    url = spec["provider"]["url"]
    return {
        "apiVersion": "v2",
        "name": "memcached-operator",
        "description": annotations["description"],
        "type": "application",
        "version": spec["version"],
        "appVersion": spec["version"],
        # `-0`: vendors append a suffix of their own, which semver takes for a pre-release.
        "kubeVersion": f">={spec['minKubeVersion']}-0",
        "home": url,
        "icon": f"data:{icon['mediatype']};base64,{icon['base64data']}",
        "sources": [url],
        "keywords": spec["keywords"],
        "maintainers": spec["maintainers"],
        "annotations": {
            "artifacthub.io/category": "database",
            "artifacthub.io/license": "Apache-2.0",
            "artifacthub.io/operator": "true",
            "artifacthub.io/operatorCapabilities": annotations["capabilities"],
            "artifacthub.io/images": to_yaml(
                [
                    {"name": "memcached-operator", "image": annotations["containerImage"]},
                    {"name": "memcached", "image": DEFAULT_IMAGE},
                ]
            ),
            "artifacthub.io/crds": to_yaml([_described(crd)]),
            "artifacthub.io/crdsExamples": to_yaml([sample]),
        },
    }


def _described(crd: Manifest) -> Manifest:
    (version,) = crd["spec"]["versions"]
    return {
        "kind": names.KIND,
        "version": version["name"],
        "name": crd["metadata"]["name"],
        "displayName": names.KIND,
        "description": version["schema"]["openAPIV3Schema"]["description"],
    }


def crd_template(crd: Manifest) -> str:
    """The CRD, with the chart's labels, the annotations of `crds.annotations`, and the policy of `crds.keep`."""
    head = {key: crd[key] for key in ("apiVersion", "kind")}
    return f"""\
{{{{- if .Values.crds.enabled }}}}
{to_yaml(head)}metadata:
  {{{{- $keep := ternary (dict "helm.sh/resource-policy" "keep") dict .Values.crds.keep }}}}
  {{{{- include "memcached-operator.metadata" (dict
    "root" .
    "name" "{crd["metadata"]["name"]}"
    "annotations" (merge $keep .Values.crds.annotations)) | nindent 2 }}}}
{_literal(to_yaml({"spec": crd["spec"]}))}{{{{- end }}}}
"""


def admission_policy_template(policy: Manifest) -> str:
    """The ValidatingAdmissionPolicy of config/admission-policy, for the account of the release, and its binding."""
    account = (
        'system:serviceaccount:{{ include "memcached-operator.namespace" . }}'
        ':{{ include "memcached-operator.serviceAccountName" . }}'
    )
    text, replaced = re.subn(
        r"system:serviceaccount:[-a-z]+:[-a-z]+", account, _literal(to_yaml({"spec": policy["spec"]}))
    )
    if replaced != 1:
        raise ValueError(f"the policy names {replaced} service accounts, not one")
    return f"""\
{{{{- if .Values.admissionPolicy.enabled }}}}
{{{{- $name := printf "%s-workloads" (include "memcached-operator.fullname" .) }}}}
{to_yaml({"apiVersion": policy["apiVersion"], "kind": policy["kind"]})}metadata:
  {{{{- include "memcached-operator.metadata" (dict "root" . "name" $name) | nindent 2 }}}}
{text}---
{to_yaml({"apiVersion": policy["apiVersion"], "kind": f"{policy['kind']}Binding"})}metadata:
  {{{{- include "memcached-operator.metadata" (dict "root" . "name" $name) | nindent 2 }}}}
spec:
  policyName: {{{{ $name }}}}
  validationActions:
    {{{{- toYaml .Values.admissionPolicy.validationActions | nindent 4 }}}}
{{{{- end }}}}
"""


def rules_template() -> str:
    """Named templates: rules and aggregation labels of every role."""
    manifests = rbac.manifests()
    parts = {
        "rules.manager": manifests["role"]["rules"],
        "rules.leader-election": manifests["leader_election_role"]["rules"],
    }
    for word in _USER_ROLES:
        role = manifests[f"memcached_{word}_role"]
        labels = role["metadata"]["labels"]
        parts[f"rules.{word}"] = role["rules"]
        parts[f"aggregation.{word}"] = {key: labels[key] for key in labels if key.startswith(_AGGREGATION)}
    text = "\n".join(_define(name, part) for name, part in parts.items())
    # Two releases in one namespace, each for namespaces of its own, must not wait for each other's Lease.
    return text.replace(f"- {permissions.LEASE}\n", '- {{ include "memcached-operator.fullname" . }}\n')


def _define(name: str, part: object) -> str:
    return f'{{{{- define "memcached-operator.{name}" -}}}}\n{_literal(to_yaml(part))}{{{{- end }}}}\n'


def _literal(text: str) -> str:
    """Text that a template engine gives out unchanged."""
    return text.replace("{{", '{{ "{{" }}')


def templates(crd: Manifest, policy: Manifest, *, notice: str) -> dict[str, str]:
    """File name -> text, for the chart's folder `templates`."""
    texts = {
        "_rules.tpl": rules_template(),
        "admission-policy.yaml": admission_policy_template(policy),
        "crd.yaml": crd_template(crd),
    }
    return {name: _commented(notice, text) for name, text in texts.items()}


def _commented(notice: str, text: str) -> str:
    """A template with a comment that is not rendered: alone, it would be a manifest of nothing."""
    return f"{{{{- /* {notice} */}}}}\n{text}"
