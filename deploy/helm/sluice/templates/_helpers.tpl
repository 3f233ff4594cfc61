{{- define "sluice.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that never change: those of selectors. */}}
{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* The restricted profile of the Pod Security Standards. */}}
{{- define "sluice.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "sluice.podSecurityContext" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* The Service that Ingress or HTTPRoute leads to, for (list $ "mcp") or (list $ "management"), and its port. */}}
{{- define "sluice.publicService" -}}
{{- $root := index . 0 -}}
{{- $listener := index . 1 -}}
{{- if eq $root.Values.login.mode "oauth2-proxy" -}}
{{ include "sluice.name" $root }}-login-{{ $listener }}
{{- else if eq $listener "mcp" -}}
{{ include "sluice.name" $root }}
{{- else -}}
{{ include "sluice.name" $root }}-management
{{- end -}}
{{- end -}}

{{- define "sluice.publicPort" -}}
{{- $root := index . 0 -}}
{{- $listener := index . 1 -}}
{{- if eq $root.Values.login.mode "oauth2-proxy" -}}
{{ eq $listener "mcp" | ternary 4180 4181 }}
{{- else -}}
{{ eq $listener "mcp" | ternary 8081 8080 }}
{{- end -}}
{{- end -}}

{{/* Settings of the service; those of the values win. */}}
{{- define "sluice.settings" -}}
{{- $settings := dict "SERVICE_PERSIST_BACKEND" (.Values.persistence.enabled | ternary "file" "none") -}}
{{- if .Values.database.existingSecret -}}
{{- $_ := set $settings "SERVICE_PERSIST_BACKEND" "postgres" -}}
{{- $_ := set $settings "SERVICE_PEER_LISTEN" (.Values.database.ipv6 | ternary "[::]:8090" "0.0.0.0:8090") -}}
{{- end -}}
{{- if .Values.database.passwordSecret -}}
{{- $_ := set $settings "SERVICE_POSTGRES_PASSWORD_FILE" "/etc/service/database/password" -}}
{{- end -}}
{{- if .Values.secrets.files -}}
{{- $_ := set $settings "SERVICE_SECRETS_PATH" "/etc/service/secrets" -}}
{{- end -}}
{{- with compact (list .Values.hosts.mcp .Values.hosts.management) -}}
{{- $hosts := . -}}
{{- range $service := list (include "sluice.name" $) (printf "%s-management" (include "sluice.name" $)) -}}
{{- $hosts = concat $hosts (list $service (printf "%s.%s" $service $.Release.Namespace) (printf "%s.%s.svc" $service $.Release.Namespace)) -}}
{{- end -}}
{{- $_ := set $settings "SERVICE_ALLOWED_HOSTS" (join "," $hosts) -}}
{{- end -}}
{{- if eq .Values.login.mode "oauth2-proxy" -}}
{{- $_ := set $settings "SERVICE_AUTH_ISSUER" .Values.login.issuerUrl -}}
{{- $_ := set $settings "SERVICE_AUTH_REGISTRATION" "forward" -}}
{{- $_ := set $settings "SERVICE_INFERENCE_ALLOW" "completions" -}}
{{- end -}}
{{- range $name, $value := .Values.settings -}}
{{- $_ := set $settings $name (toString $value) -}}
{{- end -}}
{{- toYaml $settings -}}
{{- end -}}

{{/* Rejects combinations of values that make no sense and that the schema cannot express. */}}
{{- define "sluice.validate" -}}
{{- $v := .Values -}}
{{- $isExposed := or $v.ingress.enabled $v.httpRoute.enabled -}}
{{- if and $v.ingress.enabled $v.httpRoute.enabled -}}
{{- fail "ingress.enabled and httpRoute.enabled: enable one of them" -}}
{{- end -}}
{{- if and $isExposed (eq $v.login.mode "none") -}}
{{- fail "login.mode: none would expose Sluice to everyone; set oauth2-proxy, or external if something else authenticates requests" -}}
{{- end -}}
{{- if and $isExposed (not (and $v.hosts.mcp $v.hosts.management)) -}}
{{- fail "hosts.mcp and hosts.management: set both, the public names for agents and for administrators" -}}
{{- end -}}
{{- if and $isExposed (eq $v.hosts.mcp $v.hosts.management) -}}
{{- fail "hosts.mcp and hosts.management: two names are needed, because the two logins use the same paths" -}}
{{- end -}}
{{- if and (eq $v.login.mode "oauth2-proxy") (not (and $v.hosts.mcp $v.hosts.management $v.login.issuerUrl $v.login.existingSecret)) -}}
{{- fail "login.mode: oauth2-proxy needs login.issuerUrl, login.existingSecret, hosts.mcp and hosts.management" -}}
{{- end -}}
{{- if and (gt (int $v.replicas) 1) (not $v.database.existingSecret) -}}
{{- fail "replicas: more than one needs database.existingSecret, because a registry folder has one writer" -}}
{{- end -}}
{{- if and $v.database.existingSecret (not $v.secrets.sessionKey) -}}
{{- fail "secrets.sessionKey: required with a database, the same for all replicas" -}}
{{- end -}}
{{- if and $v.database.passwordSecret (not $v.database.existingSecret) -}}
{{- fail "database.passwordSecret: has no effect without database.existingSecret" -}}
{{- end -}}
{{- if and $v.database.existingSecret $v.persistence.existingClaim -}}
{{- fail "persistence.existingClaim: has no effect with a database" -}}
{{- end -}}
{{- if and $v.persistence.existingClaim (not $v.persistence.enabled) -}}
{{- fail "persistence.existingClaim: has no effect with persistence.enabled=false" -}}
{{- end -}}
{{- if and $v.serviceMonitor.enabled $v.networkPolicy.enabled (not $v.networkPolicy.managementFrom) -}}
{{- fail "networkPolicy.managementFrom: name Prometheus, which serviceMonitor.enabled tells to read metrics" -}}
{{- end -}}
{{- $drain := dig "shutdown_timeout_secs" 30 $v.pipelineConfig | int -}}
{{- if lt (int $v.terminationGracePeriodSeconds) (add $drain 15 | int) -}}
{{- fail (printf "terminationGracePeriodSeconds: must be at least %d, 15 more than the drain (shutdown_timeout_secs)" (add $drain 15)) -}}
{{- end -}}
{{- end -}}
