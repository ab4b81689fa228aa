{{- define "karpenter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Names end up in labels: 63 characters at most, and those of roles have a suffix. */}}
{{- define "karpenter.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "karpenter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "karpenter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "karpenter.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "karpenter.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* metadata is all of an object but its name and namespace, with indentation 2. */}}
{{- define "karpenter.metadata" -}}
labels:
  {{- include "karpenter.labels" . | nindent 2 }}
{{- with .Values.additionalAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "karpenter.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "karpenter.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: with serviceAccount.create=false, name the service account that there is" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "karpenter.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "karpenter.secretName" -}}
{{- default (printf "%s-credentials" (include "karpenter.fullname" .)) .Values.cloudstack.credentials.existingSecret -}}
{{- end -}}

{{/* subject is the service account, as the subject of a binding. */}}
{{- define "karpenter.subjects" -}}
- kind: ServiceAccount
  name: {{ include "karpenter.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* validate refuses values that are wrong together, which the schema cannot say so clearly. */}}
{{- define "karpenter.validate" -}}
{{- $credentials := .Values.cloudstack.credentials -}}
{{- if and $credentials.existingSecret (or $credentials.apiKey $credentials.secretKey) -}}
{{- fail "cloudstack.credentials: set existingSecret, or apiKey and secretKey, not both" -}}
{{- end -}}
{{- if not $credentials.existingSecret -}}
{{- if not (and $credentials.apiKey $credentials.secretKey) -}}
{{- fail "cloudstack.credentials: set existingSecret to the name of a Secret with the keys api-url, api-key and secret-key, or set apiKey and secretKey" -}}
{{- end -}}
{{- if not .Values.cloudstack.apiURL -}}
{{- fail "cloudstack.apiURL: with cloudstack.credentials.apiKey, the address of the API is needed, such as https://cloudstack.example.com/client/api" -}}
{{- end -}}
{{- end -}}
{{- $bundle := .Values.cloudstack.caBundle -}}
{{- if and $bundle.configMap $bundle.secret -}}
{{- fail "cloudstack.caBundle: set configMap or secret, not both" -}}
{{- end -}}
{{- if and (or $bundle.configMap $bundle.secret) (not .Values.cloudstack.verifySSL) -}}
{{- fail "cloudstack.caBundle and cloudstack.verifySSL=false: no certificate is verified, so leave one of them out" -}}
{{- end -}}
{{- end -}}
