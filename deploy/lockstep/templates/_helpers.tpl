{{/* The beginning of all names. A release may have dots in its name and begin with a digit, and a Service may not. */}}
{{- define "lockstep.fullname" -}}
{{- if and (not .Values.fullnameOverride) (regexMatch "^[0-9]" .Release.Name) -}}
{{- fail (printf "the release name %q begins with a digit, and names of Services may not: choose another name, or set fullnameOverride" .Release.Name) -}}
{{- end -}}
{{- $release := .Release.Name | replace "." "-" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name $release -}}
{{- $release | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" $release .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The controllers that are switched on, as a JSON list. A new controller adds its name to this list, its block to
     values.yaml and its ClusterRole to templates/. */}}
{{- define "lockstep.controllers" -}}
{{- $enabled := list -}}
{{- range $name := list "namespaceclass" "bridge" "dpuservice" -}}
{{- if (index $.Values $name).enabled -}}{{- $enabled = append $enabled $name -}}{{- end -}}
{{- end -}}
{{- toJson $enabled -}}
{{- end -}}

{{/* The helpers below take (dict "root" $ "name" <controller>). */}}
{{- define "lockstep.name" -}}
{{- printf "%s-%s" (include "lockstep.fullname" .root) .name -}}
{{- end -}}

{{- define "lockstep.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{- define "lockstep.labels" -}}
{{ include "lockstep.selector" . }}
{{ include "lockstep.releaseLabels" .root }}
{{- end -}}

{{/* The account of a controller. The account `default` is no fallback: the roles would then be granted to all pods of the namespace that
     name no account. */}}
{{- define "lockstep.serviceAccount" -}}
{{- $account := (index .root.Values .name).serviceAccount -}}
{{- if $account.name -}}
{{- $account.name -}}
{{- else if $account.create -}}
{{- include "lockstep.name" . -}}
{{- else -}}
{{- fail (printf "%s.serviceAccount.name: required if %s.serviceAccount.create is false; name an existing ServiceAccount of the namespace %s, or set create to true" .name .name .root.Release.Namespace) -}}
{{- end -}}
{{- end -}}

{{/* The labels of every object of the release, except CRDs and extraObjects. */}}
{{- define "lockstep.releaseLabels" -}}
{{- $chart := dict "app.kubernetes.io/version" .Chart.AppVersion "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $chart "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") -}}
{{- $common := include "lockstep.otherLabels" (dict "labels" .Values.commonLabels "value" "commonLabels") -}}
{{- include "lockstep.merged" (list (toYaml $chart) $common) -}}
{{- end -}}

{{/* Labels or annotations, merged from a list of texts in YAML. The last one wins. Otherwise a key could occur twice, which kustomize
     and other readers of YAML refuse. */}}
{{- define "lockstep.merged" -}}
{{- $merged := dict -}}
{{- range . -}}
{{- range $key, $value := fromYaml . -}}{{- $_ := set $merged $key $value -}}{{- end -}}
{{- end -}}
{{- toYaml $merged -}}
{{- end -}}

{{/* Labels besides those by which pods are selected. It takes (dict "labels" <labels> "value" <name of the value>). */}}
{{- define "lockstep.otherLabels" -}}
{{- $selected := list "app" "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" -}}
{{- range $name, $_ := .labels -}}
{{- if has $name $selected -}}
{{- fail (printf "%s: the chart selects pods by the label %q, so set another one; not allowed are: %s" $.value $name (join ", " $selected)) -}}
{{- end -}}
{{- end -}}
{{- toYaml .labels -}}
{{- end -}}

{{/* global.imageRegistry replaces the registry of image.repository. As in Docker, the first component of a repository is a
     registry if it has a dot or a port, or is localhost. */}}
{{- define "lockstep.image" -}}
{{- $image := .Values.image -}}
{{- $repository := $image.repository -}}
{{- with (.Values.global).imageRegistry -}}
{{- $path := regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "" -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) $path -}}
{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository ($image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The pull secrets of all charts of a release, then those of this chart, as a JSON list. */}}
{{- define "lockstep.imagePullSecrets" -}}
{{- concat ((.Values.global).imagePullSecrets | default list) (.Values.imagePullSecrets | default list) | uniq | toJson -}}
{{- end -}}

{{/* Fields of a pod that are unset by default. It takes the values of a controller or of a Sentinel. */}}
{{- define "lockstep.podFields" -}}
{{- $fields := pick . "runtimeClassName" "dnsPolicy" "dnsConfig" "hostAliases" "initContainers" -}}
{{- range $name, $value := $fields -}}
{{- if $value }}
{{ toYaml (dict $name $value) }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Where the pods of a Deployment run. The default prefers separate nodes and zones. It takes
     (dict "values" <values of the controller or Sentinel> "selector" <labels of its pods>). Without a selector there is no default. */}}
{{- define "lockstep.spread" -}}
{{- if .values.affinity }}
affinity: {{- toYaml .values.affinity | nindent 2 }}
{{- else if .selector }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- .selector | nindent 14 }}
{{- end }}
{{- if .values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml .values.topologySpreadConstraints | nindent 2 }}
{{- else if .selector }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- .selector | nindent 8 }}
{{- end }}
{{- end -}}

{{/* The update strategy of a Deployment, in full. The API server sets the fields that are left out, for no field manager. A later
     server-side apply of `Recreate` would keep them, and be refused. The defaults are those of Kubernetes. */}}
{{- define "lockstep.strategy" -}}
{{- $given := . | default dict -}}
{{- $strategy := dict "type" ($given.type | default "RollingUpdate") -}}
{{- $rolling := $given.rollingUpdate | default dict | deepCopy -}}
{{- if eq $strategy.type "RollingUpdate" -}}
{{- range $field := list "maxSurge" "maxUnavailable" -}}
{{- if kindIs "invalid" (index $rolling $field) -}}{{- $_ := set $rolling $field "25%" -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- with $rolling -}}{{- $_ := set $strategy "rollingUpdate" . -}}{{- end -}}
{{- toYaml $strategy -}}
{{- end -}}

{{/* "true" if ServiceMonitors or PrometheusRules are to be rendered. It takes (dict "root" $ "kind" <kind>). */}}
{{- define "lockstep.rendersMonitoring" -}}
{{- $served := .root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind) -}}
{{- $mode := .root.Values.metrics.renderMode | default "skipIfMissing" -}}
{{- if or $served (eq $mode "alwaysRender") -}}
true
{{- else if eq $mode "failIfMissing" -}}
{{- fail (printf "metrics.renderMode: the cluster does not serve monitoring.coreos.com/v1 %s; install the CRDs of the Prometheus operator, or set skipIfMissing or alwaysRender" .kind) -}}
{{- end -}}
{{- end -}}
