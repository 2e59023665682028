{{- define "memcached-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 36 | trimSuffix "-" }}
{{- end }}

{{- /* Prefix of all names. 36 characters: a Service may have 63, and ours adds 27. */}}
{{- define "memcached-operator.fullname" -}}
{{- $name := include "memcached-operator.name" . }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $full .Values.fullnameOverride | trunc 36 | trimSuffix "-" }}
{{- end }}

{{- define "memcached-operator.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "memcached-operator.deploymentName" -}}
{{- printf "%s-controller-manager" (include "memcached-operator.fullname" .) }}
{{- end }}

{{- define "memcached-operator.serviceAccountName" -}}
{{- $made := ternary (include "memcached-operator.deploymentName" .) "default" .Values.serviceAccount.create }}
{{- default $made .Values.serviceAccount.name }}
{{- end }}

{{- /* Of the operator's pods alone, and never to change: a Deployment's selector is immutable. */}}
{{- define "memcached-operator.selectorLabels" -}}
app.kubernetes.io/name: memcached-operator
app.kubernetes.io/instance: {{ .Release.Name }}
control-plane: controller-manager
{{- end }}

{{- define "memcached-operator.labels" -}}
{{- $own := dict
  "helm.sh/chart" (printf "%s-%s" .Chart.Name (replace "+" "_" .Chart.Version) | trunc 63 | trimSuffix "-")
  "app.kubernetes.io/name" "memcached-operator"
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/part-of" "memcached-operator"
  "app.kubernetes.io/managed-by" .Release.Service }}
{{- merge $own .Values.commonLabels | toYaml }}
{{- end }}

{{- /* metadata of an object: (dict "root" $ "name" "..." ["namespace" "..."] ["labels" {}] ["annotations" {}]).
Common labels and annotations give way to those of the object. */}}
{{- define "memcached-operator.metadata" -}}
name: {{ .name }}
{{- with .namespace }}
namespace: {{ . }}
{{- end }}
labels:
  {{- include "memcached-operator.labels" .root | fromYaml | merge (deepCopy (default dict .labels)) | toYaml | nindent 2 }}
{{- with merge (deepCopy (default dict .annotations)) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "memcached-operator.image" -}}
{{- $image := .Values.image }}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository (default (printf "v%s" .Chart.AppVersion) $image.tag) }}
{{- end }}
{{- end }}

{{- define "memcached-operator.testNamespace" -}}
{{- default (include "memcached-operator.namespace" .) (coalesce .Values.tests.namespace (first .Values.watchNamespaces)) }}
{{- end }}

{{- /* What the schema cannot say. Rendered by the Deployment. */}}
{{- define "memcached-operator.validate" -}}
{{- if and (not .Values.leaderElection.enabled) (gt (int .Values.replicas) 1) }}
{{- fail "leaderElection.enabled: false needs replicas: 1, or every replica would write" }}
{{- end }}
{{- if and (not .Values.leaderElection.enabled) (ne (default "Recreate" .Values.updateStrategy.type) "Recreate") }}
{{- fail "leaderElection.enabled: false needs updateStrategy.type: Recreate, or two pods would write during an update" }}
{{- end }}
{{- if not .Values.metrics.enabled }}
{{- range $name := list "podMonitor" "serviceMonitor" "prometheusRule" }}
{{- if (index $.Values.metrics $name).enabled }}
{{- fail (printf "metrics.%s.enabled: true needs metrics.enabled: true" $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.service.enabled) }}
{{- fail "metrics.serviceMonitor.enabled: true needs metrics.service.enabled: true" }}
{{- end }}
{{- end }}
