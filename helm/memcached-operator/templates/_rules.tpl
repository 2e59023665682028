{{- /* Made by `make generate manifests`. Do not edit: change the models or tables in operator/memcached_operator. */}}
{{- define "memcached-operator.rules.manager" -}}
- apiGroups:
  - cache.example.com
  resources:
  - memcacheds
  verbs:
  - get
  - list
  - watch
  - patch
- apiGroups:
  - cache.example.com
  resources:
  - memcacheds/status
  verbs:
  - patch
- apiGroups:
  - cache.example.com
  resources:
  - memcacheds/finalizers
  verbs:
  - update
- apiGroups:
  - apps
  resources:
  - deployments
  verbs:
  - get
  - list
  - watch
  - create
  - patch
  - delete
- apiGroups:
  - apps
  resources:
  - deployments/scale
  verbs:
  - patch
- apiGroups:
  - ''
  resources:
  - services
  verbs:
  - get
  - list
  - watch
  - create
  - patch
  - delete
- apiGroups:
  - policy
  resources:
  - poddisruptionbudgets
  verbs:
  - get
  - list
  - watch
  - create
  - patch
  - delete
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - namespaces
  verbs:
  - get
- apiGroups:
  - autoscaling
  resources:
  - horizontalpodautoscalers
  verbs:
  - list
- apiGroups:
  - events.k8s.io
  resources:
  - events
  verbs:
  - create
  - patch
{{- end }}

{{- define "memcached-operator.rules.leader-election" -}}
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  resourceNames:
  - {{ include "memcached-operator.fullname" . }}
  verbs:
  - get
  - watch
  - update
{{- end }}

{{- define "memcached-operator.rules.admin" -}}
- apiGroups:
  - cache.example.com
  resources:
  - memcacheds
  verbs:
  - get
  - list
  - watch
  - create
  - delete
  - deletecollection
  - patch
  - update
- apiGroups:
  - cache.example.com
  resources:
  - memcacheds/status
  verbs:
  - get
- apiGroups:
  - cache.example.com
  resources:
  - memcacheds/scale
  verbs:
  - get
  - patch
  - update
{{- end }}

{{- define "memcached-operator.aggregation.admin" -}}
rbac.authorization.k8s.io/aggregate-to-admin: 'true'
{{- end }}

{{- define "memcached-operator.rules.editor" -}}
- apiGroups:
  - cache.example.com
  resources:
  - memcacheds
  verbs:
  - get
  - list
  - watch
  - create
  - delete
  - deletecollection
  - patch
  - update
- apiGroups:
  - cache.example.com
  resources:
  - memcacheds/status
  verbs:
  - get
- apiGroups:
  - cache.example.com
  resources:
  - memcacheds/scale
  verbs:
  - get
  - patch
  - update
{{- end }}

{{- define "memcached-operator.aggregation.editor" -}}
rbac.authorization.k8s.io/aggregate-to-edit: 'true'
rbac.authorization.k8s.io/aggregate-to-admin: 'true'
{{- end }}

{{- define "memcached-operator.rules.viewer" -}}
- apiGroups:
  - cache.example.com
  resources:
  - memcacheds
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - cache.example.com
  resources:
  - memcacheds/status
  verbs:
  - get
- apiGroups:
  - cache.example.com
  resources:
  - memcacheds/scale
  verbs:
  - get
{{- end }}

{{- define "memcached-operator.aggregation.viewer" -}}
rbac.authorization.k8s.io/aggregate-to-view: 'true'
rbac.authorization.k8s.io/aggregate-to-edit: 'true'
rbac.authorization.k8s.io/aggregate-to-admin: 'true'
{{- end }}
