{{- /*
Copyright The entrypointer Authors
SPDX-License-Identifier: Apache-2.0
*/}}

{{- /* The text of a manifest, with the images of another repository if the values name one. */}}
{{- define "entrypointer.images" }}
{{- if .root.Values.image.repository }}
{{- .text | replace (printf "%s/" (index .root.Chart.Annotations "entrypointer.dev/images")) (printf "%s/" (trimSuffix "/" .root.Values.image.repository)) }}
{{- else }}
{{- .text }}
{{- end }}
{{- end }}

{{- /* Not empty for an object that the values leave out. */}}
{{- define "entrypointer.isLeftOut" }}
{{- $values := .root.Values }}
{{- if and (eq .object.kind "PodDisruptionBudget") (eq .object.metadata.name "injector") (not $values.injector.podDisruptionBudget.enabled) }}yes{{ end }}
{{- if and (eq .object.kind "PersistentVolumeClaim") (or $values.logs.bucket $values.logs.volume.existingClaim) }}yes{{ end }}
{{- end }}

{{- /* Changes an object as the values say, and prints nothing. */}}
{{- define "entrypointer.customize" }}
{{- $values := .root.Values }}
{{- $object := .object }}
{{- $name := $object.metadata.name }}
{{- /* A checkout has no version. */}}
{{- if ne .root.Chart.AppVersion "devel" }}
{{- $version := dict "app.kubernetes.io/version" .root.Chart.AppVersion }}
{{- $_ := set $object.metadata "labels" (merge (dict) ($object.metadata.labels | default dict) $version) }}
{{- if eq $object.kind "Deployment" }}
{{- $pods := $object.spec.template.metadata }}
{{- $_ := set $pods "labels" (merge (dict) $pods.labels $version) }}
{{- end }}
{{- end }}
{{- with $values.commonLabels }}
{{- $_ := set $object.metadata "labels" (merge (dict) ($object.metadata.labels | default dict) .) }}
{{- end }}
{{- with $values.commonAnnotations }}
{{- $_ := set $object.metadata "annotations" (merge (dict) ($object.metadata.annotations | default dict) .) }}
{{- end }}
{{- if eq $object.kind "Deployment" }}
{{- include "entrypointer.deployment" (dict "object" $object "values" (index $values $name) "root" .root) }}
{{- end }}
{{- if and (eq $object.kind "Deployment") (eq $name "injector") $values.webhook.certificateSecret }}
{{- $container := first $object.spec.template.spec.containers }}
{{- $_ := set $container "args" (concat $container.args (list "-certificate-secret" $values.webhook.certificateSecret)) }}
{{- end }}
{{- if and (eq $object.kind "Deployment") (eq $name "logs") }}
{{- include "entrypointer.storage" . }}
{{- if $values.logs.page.enabled }}
{{- include "entrypointer.page" . }}
{{- end }}
{{- end }}
{{- if and (eq $object.kind "ConfigMap") (eq $name "config-entrypointer") }}
{{- $_ := set $object "data" (merge (dict) $values.config $object.data) }}
{{- end }}
{{- if and (eq $object.kind "ConfigMap") (eq $name "config-logs") }}
{{- $_ := set $object "data" (merge (dict) $values.logs.config $object.data) }}
{{- end }}
{{- if and (eq $object.kind "ServiceAccount") (index $values $name) }}
{{- with (index $values $name).serviceAccountAnnotations }}
{{- $_ := set $object.metadata "annotations" (merge (dict) ($object.metadata.annotations | default dict) .) }}
{{- end }}
{{- end }}
{{- if and (eq $object.kind "PodDisruptionBudget") (eq $name "injector") }}
{{- with $values.injector.podDisruptionBudget.minAvailable }}
{{- $_ := set $object.spec "minAvailable" . }}
{{- end }}
{{- end }}
{{- if and (eq $object.kind "MutatingWebhookConfiguration") (eq $name "pods.entrypointer.dev") }}
{{- range $webhook := $object.webhooks }}
{{- if and $values.webhook.failurePolicy (eq $webhook.failurePolicy "Fail") }}
{{- $_ := set $webhook "failurePolicy" $values.webhook.failurePolicy }}
{{- end }}
{{- with $values.webhook.timeoutSeconds }}
{{- $_ := set $webhook "timeoutSeconds" . }}
{{- end }}
{{- with $values.webhook.namespaceSelector.matchExpressions }}
{{- $_ := set $webhook.namespaceSelector "matchExpressions" (concat $webhook.namespaceSelector.matchExpressions .) }}
{{- end }}
{{- end }}
{{- end }}
{{- /* A pod that no webhook is asked about mustn't wait for one. */}}
{{- if or (and (eq $object.kind "MutatingAdmissionPolicy") (eq $name "taskruns.entrypointer.dev")) (and (eq $object.kind "ValidatingAdmissionPolicy") (eq $name "undecided.entrypointer.dev")) }}
{{- with $values.webhook.namespaceSelector.matchExpressions }}
{{- $selector := $object.spec.matchConstraints.namespaceSelector }}
{{- $_ := set $selector "matchExpressions" (concat $selector.matchExpressions .) }}
{{- end }}
{{- end }}
{{- if and (eq $object.kind "NetworkPolicy") $values.networkPolicy.podRanges }}
{{- include "entrypointer.podRanges" . }}
{{- end }}
{{- if eq $object.kind "PersistentVolumeClaim" }}
{{- with $values.logs.volume.size }}
{{- $_ := set $object.spec.resources.requests "storage" . }}
{{- end }}
{{- with $values.logs.volume.storageClassName }}
{{- $_ := set $object.spec "storageClassName" . }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What the two Deployments have in common. */}}
{{- define "entrypointer.deployment" }}
{{- $spec := .object.spec.template.spec }}
{{- $container := first $spec.containers }}
{{- if not (kindIs "invalid" .values.replicas) }}
{{- $_ := set .object.spec "replicas" .values.replicas }}
{{- end }}
{{- range $field := list "priorityClassName" "affinity" "nodeSelector" "tolerations" "topologySpreadConstraints" }}
{{- with index $.values $field }}
{{- $_ := set $spec $field . }}
{{- end }}
{{- end }}
{{- with .root.Values.image.pullSecrets }}
{{- $_ := set $spec "imagePullSecrets" . }}
{{- end }}
{{- with .root.Values.image.pullPolicy }}
{{- $_ := set $container "imagePullPolicy" . }}
{{- end }}
{{- with .values.resources }}
{{- $_ := set $container "resources" . }}
{{- end }}
{{- with .values.extraArgs }}
{{- $_ := set $container "args" (concat $container.args .) }}
{{- end }}
{{- with .values.extraEnv }}
{{- $_ := set $container "env" (concat $container.env .) }}
{{- end }}
{{- $metadata := .object.spec.template.metadata }}
{{- with .values.podLabels }}
{{- $_ := set $metadata "labels" (merge (dict) $metadata.labels .) }}
{{- end }}
{{- with .values.podAnnotations }}
{{- $_ := set $metadata "annotations" (merge (dict) ($metadata.annotations | default dict) .) }}
{{- end }}
{{- end }}

{{- /* Where the log service stores: the claim of the manifests, another claim, or a bucket. */}}
{{- define "entrypointer.storage" }}
{{- $values := .root.Values.logs }}
{{- $spec := .object.spec.template.spec }}
{{- $container := first $spec.containers }}
{{- if $values.bucket }}
{{- $_ := set $container "args" (concat (list "-bucket" $values.bucket) $values.extraArgs) }}
{{- $_ := unset $container "volumeMounts" }}
{{- $_ := unset $spec "volumes" }}
{{- $_ := unset $spec.securityContext "fsGroup" }}
{{- $_ := unset $spec.securityContext "fsGroupChangePolicy" }}
{{- $_ := set .object.spec "strategy" (dict "type" "RollingUpdate" "rollingUpdate" (dict "maxUnavailable" 0 "maxSurge" 1)) }}
{{- if kindIs "invalid" $values.replicas }}
{{- $_ := set .object.spec "replicas" 3 }}
{{- end }}
{{- if not $values.topologySpreadConstraints }}
{{- $_ := set $spec "topologySpreadConstraints" (list (dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway" "labelSelector" .object.spec.selector)) }}
{{- end }}
{{- with $values.bucketSecret }}
{{- $_ := set $container "envFrom" (list (dict "secretRef" (dict "name" .))) }}
{{- end }}
{{- else }}
{{- if $values.bucketSecret }}
{{- fail "logs.bucketSecret: set logs.bucket as well" }}
{{- end }}
{{- if gt (int ($values.replicas | default 1)) 1 }}
{{- fail "logs.replicas: several replicas need logs.bucket, because only one can use a volume" }}
{{- end }}
{{- with $values.volume.existingClaim }}
{{- $_ := set (first $spec.volumes).persistentVolumeClaim "claimName" . }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The page behind a proxy: examples/logs/with-page. */}}
{{- define "entrypointer.page" }}
{{- $disk := .root.Values.logs.page.disk }}
{{- $spec := .object.spec.template.spec }}
{{- $container := first $spec.containers }}
{{- $_ := set $container "args" (concat $container.args (list "-listen-page=:8445" (printf "-page-disk=%s" $disk))) }}
{{- $_ := set $container "ports" (append $container.ports (dict "name" "page" "containerPort" 8445)) }}
{{- $_ := set $container "volumeMounts" (append ($container.volumeMounts | default list) (dict "name" "page" "mountPath" "/tmp")) }}
{{- $_ := set $spec "volumes" (append ($spec.volumes | default list) (dict "name" "page" "emptyDir" (dict))) }}
{{- end }}

{{- /* The ranges of pods, which can't reach the webhooks. */}}
{{- define "entrypointer.podRanges" }}
{{- $ranges := .root.Values.networkPolicy.podRanges }}
{{- range $rule := .object.spec.ingress }}
{{- range $peer := $rule.from }}
{{- if $peer.ipBlock }}
{{- $except := list }}
{{- range $range := $ranges }}
{{- if eq (contains ":" $range) (contains ":" $peer.ipBlock.cidr) }}
{{- $except = append $except $range }}
{{- end }}
{{- end }}
{{- $_ := unset $peer.ipBlock "except" }}
{{- if $except }}
{{- $_ := set $peer.ipBlock "except" $except }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
