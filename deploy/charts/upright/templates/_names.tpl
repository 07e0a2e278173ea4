{{/* Labels of all objects. */}}
{{- define "upright.labels" -}}
app.kubernetes.io/name: upright
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels that select the manager's pods. */}}
{{- define "upright.selectorLabels" -}}
app.kubernetes.io/name: upright
app.kubernetes.io/component: manager
{{- end }}

{{/* Metadata of an object: labels and annotations. */}}
{{- define "upright.metadata" -}}
labels:
  {{- include "upright.labels" . | nindent 2 }}
{{- with .Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Image of the manager. */}}
{{- define "upright.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The manager's ServiceAccount as a subject of a binding. */}}
{{- define "upright.subjects" -}}
- kind: ServiceAccount
  name: upright-manager
  namespace: {{ .Release.Namespace }}
{{- end }}
