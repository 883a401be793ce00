{{/* The shards, as a JSON object: each entry of `sentinels` over what `sentinel` says for all, with what follows from it. */}}
{{- define "sentinel.shards" -}}
{{- $shards := dict -}}
{{- range $name, $entry := .Values.sentinels -}}
{{- if not (kindIs "invalid" $entry) -}}
{{- $shard := omit $.Values.sentinel "rbac" "serviceAccount" | deepCopy -}}
{{- range $key, $value := $entry -}}{{- $_ := set $shard $key $value -}}{{- end -}}
{{- $config := $shard.config | default dict -}}
{{- $_ := set $shard "configName" ($shard.configName | default $name) -}}
{{- $_ := set $shard "replicas" ($shard.replicas | default 1) -}}
{{- $type := $shard.resourceType | default $config.resourceType -}}
{{- if not $type -}}
{{- fail (printf "sentinels.%s: give config, or the resourceType of a SentinelConfig that is managed elsewhere" $name) -}}
{{- else if and $config (ne $type $config.resourceType) -}}
{{- fail (printf "sentinels.%s: resourceType (%s) is not that of config (%s); leave it out" $name $type $config.resourceType) -}}
{{- end -}}
{{- $_ := set $shard "resourceType" $type -}}
{{- if le (int $shard.terminationGracePeriodSeconds) (int $shard.shutdownTimeoutSeconds) -}}
{{- fail (printf "sentinels.%s: terminationGracePeriodSeconds (%v) must be more than shutdownTimeoutSeconds (%v)" $name $shard.terminationGracePeriodSeconds $shard.shutdownTimeoutSeconds) -}}
{{- end -}}
{{- with $shard.trustedCertificates -}}
{{- if eq (empty .configMapName) (empty .secretName) -}}
{{- fail (printf "sentinels.%s: trustedCertificates needs either configMapName or secretName" $name) -}}
{{- end -}}
{{- end -}}
{{- with $shard.apiToken -}}
{{- if eq (empty .secretName) (empty .audience) -}}
{{- fail (printf "sentinels.%s: apiToken needs either secretName or audience" $name) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $shards $name $shard -}}
{{- end -}}
{{- end -}}
{{- toJson $shards -}}
{{- end -}}

{{/* The Secrets that hold URLs of brokers, as a JSON list. */}}
{{- define "sentinel.brokerSecrets" -}}
{{- $names := list -}}
{{- range include "sentinel.shards" . | fromJson -}}
{{- $names = append $names (.brokerSecret | default "") -}}
{{- $broker := (.config | default dict).broker | default dict -}}
{{- $names = append $names (($broker.urlSecretRef | default dict).name | default "") -}}
{{- end -}}
{{- toJson ($names | compact | uniq | sortAlpha) -}}
{{- end -}}

{{/* The Leases of the shards with several replicas, as a JSON list. */}}
{{- define "sentinel.leases" -}}
{{- $names := list -}}
{{- range include "sentinel.shards" . | fromJson -}}
{{- if gt (int .replicas) 1 -}}{{- $names = append $names .configName -}}{{- end -}}
{{- end -}}
{{- toJson ($names | uniq | sortAlpha) -}}
{{- end -}}

{{/* What finds all Sentinels of the release. */}}
{{- define "sentinel.selector" -}}
app.kubernetes.io/name: hyperfleet-sentinel
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* What finds the pods of one shard. It takes (dict "root" $ "name" <name of the shard>). */}}
{{- define "sentinel.shardSelector" -}}
app: {{ .name | quote }}
{{ include "sentinel.selector" .root }}
{{- end -}}

{{- define "sentinel.labels" -}}
{{ include "sentinel.selector" . }}
app.kubernetes.io/component: operator
{{ include "lockstep.releaseLabels" . }}
{{- end -}}

{{/* The environment of a Sentinel: the variables of the chart, except those that the values replace, then those of the values. A
     server-side apply refuses a name that occurs twice. It takes (dict "root" $ "shard" <shard>). */}}
{{- define "sentinel.env" -}}
{{- $given := .shard.env | default list -}}
{{- $names := list -}}
{{- range $given -}}{{- $names = append $names .name -}}{{- end -}}
{{- $variables := list -}}
{{- range include "sentinel.chartEnv" . | fromYamlArray -}}
{{- if not (has .name $names) -}}{{- $variables = append $variables . -}}{{- end -}}
{{- end -}}
{{- toYaml (concat $variables $given) -}}
{{- end -}}

{{/* The variables that the chart sets. */}}
{{- define "sentinel.chartEnv" -}}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: LOCKSTEP_LOG_LEVEL
  value: {{ .root.Values.log.level | quote }}
- name: LOCKSTEP_LOG_FORMAT
  value: {{ .root.Values.log.format }}
- name: LOCKSTEP_SHUTDOWN_TIMEOUT
  value: {{ printf "%ds" (int .shard.shutdownTimeoutSeconds) }}
{{- if .shard.googleCredentialsSecret }}
- name: GOOGLE_APPLICATION_CREDENTIALS
  value: /var/secrets/google/key.json
{{- end }}
{{- if .shard.apiToken }}
- name: HYPERFLEET_API_TOKEN_FILE
  value: /var/secrets/hyperfleet/token
{{- end }}
{{- if .shard.trustedCertificates }}
- name: SSL_CERT_FILE
  value: /var/run/trusted-certificates/ca.crt
{{- end }}
{{- end -}}
