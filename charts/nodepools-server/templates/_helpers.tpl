{{- define "nodepools.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Names end up in labels: 63 characters at most, and some have a suffix. */}}
{{- define "nodepools.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "nodepools.selectorLabels" -}}
app.kubernetes.io/name: {{ include "nodepools.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "nodepools.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "nodepools.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* metadata is all of an object but its name and namespace, with indentation 2. */}}
{{- define "nodepools.metadata" -}}
labels:
  {{- include "nodepools.labels" . | nindent 2 }}
{{- with .Values.additionalAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "nodepools.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "nodepools.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: with serviceAccount.create=false, name the service account that there is" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "nodepools.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "nodepools.claim" -}}
{{- default (include "nodepools.fullname" .) .Values.persistence.existingClaim -}}
{{- end -}}

{{/* working is how many processes work on objects. */}}
{{- define "nodepools.working" -}}
{{- if eq (int .Values.workers.concurrency) 0 -}}0
{{- else if gt (int .Values.workers.replicas) 0 -}}{{ int .Values.workers.replicas }}
{{- else -}}{{ int .Values.replicas }}
{{- end -}}
{{- end -}}

{{/* volume tells whether there is a volume for what must not be lost: SQLite, or the states of stacks of the one process that works. */}}
{{- define "nodepools.volume" -}}
{{- if or (not .Values.database.existingSecret) (and (not .Values.pulumi.backendURL) (gt (int (include "nodepools.working" .)) 0)) -}}true{{- end -}}
{{- end -}}

{{/* seconds is a duration such as 1h2m3s, in whole seconds, rounded up. */}}
{{- define "nodepools.seconds" -}}
{{- $total := 0.0 -}}
{{- range regexFindAll "[0-9]+(\\.[0-9]+)?(ms|s|m|h)" . -1 -}}
{{- $number := float64 (regexFind "^[0-9.]+" .) -}}
{{- $unit := index (dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0) (regexFind "[a-z]+$" .) -}}
{{- $total = addf $total (mulf $number $unit) -}}
{{- end -}}
{{- ceil $total | int -}}
{{- end -}}

{{/* validate refuses values that are wrong together, which the schema cannot say so clearly. */}}
{{- define "nodepools.validate" -}}
{{- $processes := add (int .Values.replicas) (int .Values.workers.replicas) -}}
{{- if not .Values.database.existingSecret -}}
{{- if gt $processes 1 -}}
{{- fail (printf "replicas and workers.replicas: SQLite is for one process, and these are %d; set database.existingSecret to a Secret with the address of a PostgreSQL database" $processes) -}}
{{- end -}}
{{- else if not .Values.sealing.existingSecret -}}
{{- fail "sealing.existingSecret: with PostgreSQL, name a Secret with the key that seals secrets in it (32 bytes in base64: openssl rand -base64 32)" -}}
{{- end -}}
{{- $working := int (include "nodepools.working" .) -}}
{{- if and (gt $working 1) (not .Values.pulumi.backendURL) -}}
{{- fail (printf "pulumi.backendURL: %d processes work, and need one place for the states of stacks, such as s3://bucket" $working) -}}
{{- end -}}
{{- if and (gt (int .Values.workers.replicas) 0) (eq (int .Values.workers.concurrency) 0) -}}
{{- fail "workers.replicas: with workers.concurrency=0 they would do nothing" -}}
{{- end -}}
{{- if and (hasPrefix "file:" .Values.pulumi.backendURL) (gt $working 1) -}}
{{- fail "pulumi.backendURL: several processes work, and a file is seen by one of them alone" -}}
{{- end -}}
{{- if and (gt $working 0) .Values.pulumi.backendURL (not (regexMatch "^https?:" .Values.pulumi.backendURL)) (not .Values.pulumi.secretsProvider) (not .Values.pulumi.existingSecret) -}}
{{- fail "pulumi.existingSecret: with pulumi.backendURL, name a Secret with PULUMI_CONFIG_PASSPHRASE, or set pulumi.secretsProvider: a passphrase that a pod makes up is lost with it, and the stacks' secrets too" -}}
{{- end -}}
{{- if and (eq .Values.cloud.kind "emulated") (gt $processes 1) -}}
{{- fail "cloud.kind: emulated clouds live in one process, and there are several" -}}
{{- end -}}
{{- if and (eq .Values.cloud.kind "real") (gt $working 0) (not .Values.cloud.existingSecret) (not .Values.env) -}}
{{- fail "cloud.existingSecret: name a Secret with CIVO_TOKEN or DIGITALOCEAN_TOKEN; or set workers.concurrency=0, or cloud.kind=emulated" -}}
{{- end -}}
{{- if and (not .Values.auth.config) (not .Values.auth.tokens.existingSecret) -}}
{{- fail "auth: say who may do what, in auth.config (see docs/nodepools.md) or with auth.tokens.existingSecret: the service does not serve a network without" -}}
{{- end -}}
{{- if and (dig "trustedPeers" "certificateNames" (list) .Values.auth.config) (not (or .Values.tls.clientCA.existingSecret .Values.tls.clientCA.configMap)) -}}
{{- fail "tls.clientCA: auth.config.trustedPeers.certificateNames needs the certificates that sign those of clients" -}}
{{- end -}}
{{- if and (or .Values.tls.clientCA.existingSecret .Values.tls.clientCA.configMap) (not .Values.tls.existingSecret) -}}
{{- fail "tls.existingSecret: tls.clientCA needs a certificate of the service" -}}
{{- end -}}
{{- if and .Values.tls.clientCA.existingSecret .Values.tls.clientCA.configMap -}}
{{- fail "tls.clientCA: set existingSecret or configMap, not both" -}}
{{- end -}}
{{- end -}}

{{- define "nodepools.probe" -}}
port: {{ ternary "https" "http" (ne .Values.tls.existingSecret "") }}
scheme: {{ ternary "HTTPS" "HTTP" (ne .Values.tls.existingSecret "") }}
{{- end -}}

{{/* auth is the file of --auth. */}}
{{- define "nodepools.auth" -}}
{{- $config := deepCopy .Values.auth.config -}}
{{- if .Values.auth.tokens.existingSecret -}}
{{- $config = set $config "tokensFile" "/etc/nodepools/tokens/tokens.yaml" -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}
