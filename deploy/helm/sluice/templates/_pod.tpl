{{/* The pod of the service, for its StatefulSet or Deployment. */}}
{{- define "sluice.pod" -}}
{{- $name := include "sluice.name" . -}}
{{- $hasFiles := or .Values.serviceConfig .Values.pipelineConfig -}}
metadata:
  labels:
    {{- include "sluice.labels" . | nindent 4 }}
    app.kubernetes.io/component: service
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A change of the configuration restarts the service.
    checksum/configuration: {{ include (print $.Template.BasePath "/configmap.yaml") . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ $name }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  securityContext:
    {{- include "sluice.podSecurityContext" . | nindent 4 }}
    # The user of the image.
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  containers:
    - name: sluice
      image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - serve
        {{- if .Values.serviceConfig }}
        - --service-config=/etc/service/files/service.yaml
        {{- end }}
        {{- if .Values.pipelineConfig }}
        - --pipeline-config=/etc/service/files/pipeline.yaml
        {{- end }}
      envFrom:
        - configMapRef:
            name: {{ $name }}-settings
        {{- range .Values.secrets.environment }}
        - secretRef:
            name: {{ . }}
        {{- end }}
      {{- if or .Values.secrets.sessionKey .Values.database.existingSecret }}
      env:
        {{- with .Values.secrets.sessionKey }}
        - name: SERVICE_SESSION_KEY
          valueFrom:
            secretKeyRef:
              name: {{ . }}
              key: SERVICE_SESSION_KEY
        {{- end }}
        {{- with .Values.database.existingSecret }}
        - name: SERVICE_POSTGRES_URL
          valueFrom:
            secretKeyRef:
              name: {{ . }}
              key: SERVICE_POSTGRES_URL
        - name: SERVICE_POSTGRES_LISTEN_URL
          valueFrom:
            secretKeyRef:
              name: {{ . }}
              key: SERVICE_POSTGRES_LISTEN_URL
              optional: true
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        - name: SERVICE_PEER_ADVERTISE
          value: {{ $.Values.database.ipv6 | ternary "[$(POD_IP)]:8090" "$(POD_IP):8090" | quote }}
        {{- end }}
      {{- end }}
      ports:
        - name: management
          containerPort: 8080
        - name: mcp
          containerPort: 8081
        - name: inference
          containerPort: 8083
        {{- if .Values.database.existingSecret }}
        - name: peer
          containerPort: 8090
        {{- end }}
      securityContext:
        {{- include "sluice.containerSecurityContext" . | nindent 8 }}
      # A large registry takes time to load. A replica that waits for its database is alive, and not restarted.
      startupProbe:
        httpGet:
          path: {{ empty .Values.database.existingSecret | ternary "/readyz" "/healthz" }}
          port: management
        periodSeconds: 2
        failureThreshold: 150
      livenessProbe:
        httpGet:
          path: /healthz
          port: management
        periodSeconds: 20
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet:
          path: /readyz
          port: management
        periodSeconds: 5
        timeoutSeconds: 3
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        {{- if not .Values.database.existingSecret }}
        - name: registry
          mountPath: /data/registry
        {{- end }}
        - name: tmp
          mountPath: /tmp
        {{- if $hasFiles }}
        - name: files
          mountPath: /etc/service/files
          readOnly: true
        {{- end }}
        {{- if .Values.secrets.files }}
        - name: secrets
          mountPath: /etc/service/secrets
          readOnly: true
        {{- end }}
        {{- if .Values.database.passwordSecret }}
        - name: database
          mountPath: /etc/service/database
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {}
    {{- if .Values.database.existingSecret }}
    {{- with .Values.database.passwordSecret }}
    - name: database
      secret:
        secretName: {{ . }}
    {{- end }}
    {{- else if not .Values.persistence.enabled }}
    - name: registry
      emptyDir: {}
    {{- else if .Values.persistence.existingClaim }}
    - name: registry
      persistentVolumeClaim:
        claimName: {{ .Values.persistence.existingClaim }}
    {{- end }}
    {{- if $hasFiles }}
    - name: files
      configMap:
        name: {{ $name }}-files
    {{- end }}
    {{- with .Values.secrets.files }}
    - name: secrets
      secret:
        secretName: {{ . }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if gt (int .Values.replicas) 1 }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "sluice.selector" . | nindent 10 }}
          app.kubernetes.io/component: service
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
{{- end -}}
