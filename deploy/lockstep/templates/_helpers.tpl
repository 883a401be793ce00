{{/* The beginning of all names. */}}
{{- define "lockstep.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
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

{{- define "lockstep.serviceAccount" -}}
{{- $account := (index .root.Values .name).serviceAccount -}}
{{- if $account.name -}}
{{- $account.name -}}
{{- else if $account.create -}}
{{- include "lockstep.name" . -}}
{{- else -}}
default
{{- end -}}
{{- end -}}

{{/* What every object of the release carries. */}}
{{- define "lockstep.releaseLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "lockstep.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
