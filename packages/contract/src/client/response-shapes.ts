// Generated from the OpenAPI document by `npm run generate`. Do not edit.

import type { ResponseShape } from './response-shape.ts';

/** By method, path and status. */
export const responseShapes: Readonly<Record<string, ResponseShape>> = {
  "GET /api/v1/namespaces 200": {
    "list": true,
    "type": "object",
    "members": {
      "name": "string",
      "labels": "object",
      "mcpUrl?": "string"
    }
  },
  "POST /api/v1/namespaces 200": {
    "type": "object",
    "members": {
      "name": "string",
      "labels": "object",
      "mcpUrl?": "string"
    }
  },
  "POST /api/v1/namespaces 201": {
    "type": "object",
    "members": {
      "name": "string",
      "labels": "object",
      "mcpUrl?": "string"
    }
  },
  "GET /api/v1/namespaces/{name} 200": {
    "type": "object",
    "members": {
      "name": "string",
      "labels": "object",
      "mcpUrl?": "string"
    }
  },
  "PUT /api/v1/namespaces/{name} 200": {
    "type": "object",
    "members": {
      "name": "string",
      "labels": "object",
      "mcpUrl?": "string"
    }
  },
  "DELETE /api/v1/namespaces/{name} 200": {
    "type": "object",
    "members": {
      "removed": "string",
      "disabled?": "array"
    }
  },
  "GET /api/v1/namespaces/{name}/view 200": {
    "list": true,
    "type": "object",
    "members": {
      "kind": "string",
      "name": "string",
      "key": "string",
      "offered": "boolean",
      "reason?": "string",
      "definition?": "object",
      "source": "object",
      "overrides": "array",
      "shadows?": "array",
      "shadowedBy?": "object"
    }
  },
  "GET /api/v1/forwards 200": {
    "list": true,
    "type": "object",
    "members": {
      "name": "string",
      "address": "string",
      "namespace": "string",
      "labels": "object",
      "prefix?": "string",
      "headers?": "object",
      "expose?": "object",
      "proxy?": "string",
      "compression?": "boolean",
      "available": "boolean",
      "statusMessage?": "string",
      "serverInfo?": "object",
      "tools_discovered": "number",
      "resources_discovered": "number",
      "prompts_discovered": "number"
    }
  },
  "POST /api/v1/forwards 201": {
    "type": "object",
    "members": {
      "name": "string",
      "address": "string",
      "namespace": "string",
      "labels": "object",
      "prefix?": "string",
      "headers?": "object",
      "expose?": "object",
      "proxy?": "string",
      "compression?": "boolean",
      "available": "boolean",
      "statusMessage?": "string",
      "serverInfo?": "object",
      "tools_discovered": "number",
      "resources_discovered": "number",
      "prompts_discovered": "number"
    }
  },
  "GET /api/v1/forwards/{name} 200": {
    "type": "object",
    "members": {
      "name": "string",
      "address": "string",
      "namespace": "string",
      "labels": "object",
      "prefix?": "string",
      "headers?": "object",
      "expose?": "object",
      "proxy?": "string",
      "compression?": "boolean",
      "available": "boolean",
      "statusMessage?": "string",
      "serverInfo?": "object",
      "tools_discovered": "number",
      "resources_discovered": "number",
      "prompts_discovered": "number"
    }
  },
  "PATCH /api/v1/forwards/{name} 200": {
    "type": "object",
    "members": {
      "name": "string",
      "address": "string",
      "namespace": "string",
      "labels": "object",
      "prefix?": "string",
      "headers?": "object",
      "expose?": "object",
      "proxy?": "string",
      "compression?": "boolean",
      "available": "boolean",
      "statusMessage?": "string",
      "serverInfo?": "object",
      "tools_discovered": "number",
      "resources_discovered": "number",
      "prompts_discovered": "number"
    }
  },
  "DELETE /api/v1/forwards/{name} 200": {
    "type": "object",
    "members": {
      "removed": "string"
    }
  },
  "POST /api/v1/forwards/{name}/refreshes 200": {
    "type": "object",
    "members": {
      "refreshed": "string",
      "tools_discovered": "number",
      "resources_discovered": "number",
      "prompts_discovered": "number"
    }
  },
  "POST /api/v1/forwards/test 200": {
    "type": "object",
    "members": {
      "address": "string",
      "ok": "boolean",
      "steps": "array"
    }
  },
  "GET /api/v1/forwards/{name}/history 200": {
    "list": true,
    "type": "object",
    "members": {
      "kind": "string",
      "timestamp": "string",
      "reason?": "string",
      "duration?": "number",
      "eras?": "array",
      "tools?": "number",
      "resources?": "number",
      "prompts?": "number",
      "notes?": "string"
    }
  },
  "GET /api/v1/tools 200": {
    "list": true,
    "type": "object",
    "members": {
      "name": "string",
      "description": "string",
      "uri": "string",
      "toolType": "string",
      "input_schema": "object",
      "secretsURI?": "string",
      "upstreamName?": "string",
      "namespace": "string",
      "labels": "object",
      "enabled": "boolean",
      "configurationURI?": "string",
      "id?": "string",
      "forward?": "string",
      "shadowed?": "boolean"
    }
  },
  "POST /api/v1/tools 201": {
    "type": "object",
    "members": {
      "name": "string",
      "description": "string",
      "uri": "string",
      "toolType": "string",
      "input_schema": "object",
      "secretsURI?": "string",
      "upstreamName?": "string",
      "namespace": "string",
      "labels": "object",
      "enabled": "boolean",
      "configurationURI?": "string",
      "id?": "string",
      "forward?": "string",
      "shadowed?": "boolean"
    }
  },
  "GET /api/v1/tools/{name} 200": {
    "type": "object",
    "members": {
      "name": "string",
      "description": "string",
      "uri": "string",
      "toolType": "string",
      "input_schema": "object",
      "secretsURI?": "string",
      "upstreamName?": "string",
      "namespace": "string",
      "labels": "object",
      "enabled": "boolean",
      "configurationURI?": "string",
      "id?": "string",
      "forward?": "string",
      "shadowed?": "boolean"
    }
  },
  "PUT /api/v1/tools/{name} 200": {
    "type": "object",
    "members": {
      "name": "string",
      "description": "string",
      "uri": "string",
      "toolType": "string",
      "input_schema": "object",
      "secretsURI?": "string",
      "upstreamName?": "string",
      "namespace": "string",
      "labels": "object",
      "enabled": "boolean",
      "configurationURI?": "string",
      "id?": "string",
      "forward?": "string",
      "shadowed?": "boolean"
    }
  },
  "DELETE /api/v1/tools/{name} 200": {
    "type": "object",
    "members": {
      "removed": "string"
    }
  },
  "POST /api/v1/tools/enabled 200": {
    "type": "object",
    "members": {
      "enabled": "boolean",
      "count": "number",
      "pending?": "array"
    }
  },
  "GET /api/v1/resources 200": {
    "list": true,
    "type": "object",
    "members": {
      "name": "string",
      "location": "string",
      "type": "string",
      "description": "string",
      "mimeType": "string",
      "params?": "array",
      "secretsURI?": "string",
      "namespace": "string",
      "labels": "object",
      "enabled": "boolean",
      "configurationURI?": "string",
      "id?": "string",
      "forward?": "string",
      "shadowed?": "boolean"
    }
  },
  "POST /api/v1/resources 201": {
    "type": "object",
    "members": {
      "name": "string",
      "location": "string",
      "type": "string",
      "description": "string",
      "mimeType": "string",
      "params?": "array",
      "secretsURI?": "string",
      "namespace": "string",
      "labels": "object",
      "enabled": "boolean",
      "configurationURI?": "string",
      "id?": "string",
      "forward?": "string",
      "shadowed?": "boolean"
    }
  },
  "GET /api/v1/resources/{name} 200": {
    "type": "object",
    "members": {
      "name": "string",
      "location": "string",
      "type": "string",
      "description": "string",
      "mimeType": "string",
      "params?": "array",
      "secretsURI?": "string",
      "namespace": "string",
      "labels": "object",
      "enabled": "boolean",
      "configurationURI?": "string",
      "id?": "string",
      "forward?": "string",
      "shadowed?": "boolean"
    }
  },
  "PUT /api/v1/resources/{name} 200": {
    "type": "object",
    "members": {
      "name": "string",
      "location": "string",
      "type": "string",
      "description": "string",
      "mimeType": "string",
      "params?": "array",
      "secretsURI?": "string",
      "namespace": "string",
      "labels": "object",
      "enabled": "boolean",
      "configurationURI?": "string",
      "id?": "string",
      "forward?": "string",
      "shadowed?": "boolean"
    }
  },
  "DELETE /api/v1/resources/{name} 200": {
    "type": "object",
    "members": {
      "removed": "string"
    }
  },
  "POST /api/v1/resources/enabled 200": {
    "type": "object",
    "members": {
      "enabled": "boolean",
      "count": "number",
      "pending?": "array"
    }
  },
  "GET /api/v1/prompts 200": {
    "list": true,
    "type": "object",
    "members": {
      "name": "string",
      "description": "string",
      "arguments": "array",
      "messages": "array",
      "upstreamName?": "string",
      "namespace": "string",
      "labels": "object",
      "enabled": "boolean",
      "configurationURI?": "string",
      "id?": "string",
      "forward?": "string",
      "shadowed?": "boolean"
    }
  },
  "POST /api/v1/prompts 201": {
    "type": "object",
    "members": {
      "name": "string",
      "description": "string",
      "arguments": "array",
      "messages": "array",
      "upstreamName?": "string",
      "namespace": "string",
      "labels": "object",
      "enabled": "boolean",
      "configurationURI?": "string",
      "id?": "string",
      "forward?": "string",
      "shadowed?": "boolean"
    }
  },
  "GET /api/v1/prompts/{name} 200": {
    "type": "object",
    "members": {
      "name": "string",
      "description": "string",
      "arguments": "array",
      "messages": "array",
      "upstreamName?": "string",
      "namespace": "string",
      "labels": "object",
      "enabled": "boolean",
      "configurationURI?": "string",
      "id?": "string",
      "forward?": "string",
      "shadowed?": "boolean"
    }
  },
  "PUT /api/v1/prompts/{name} 200": {
    "type": "object",
    "members": {
      "name": "string",
      "description": "string",
      "arguments": "array",
      "messages": "array",
      "upstreamName?": "string",
      "namespace": "string",
      "labels": "object",
      "enabled": "boolean",
      "configurationURI?": "string",
      "id?": "string",
      "forward?": "string",
      "shadowed?": "boolean"
    }
  },
  "DELETE /api/v1/prompts/{name} 200": {
    "type": "object",
    "members": {
      "removed": "string"
    }
  },
  "POST /api/v1/prompts/enabled 200": {
    "type": "object",
    "members": {
      "enabled": "boolean",
      "count": "number",
      "pending?": "array"
    }
  },
  "GET /api/v1/services 200": {
    "list": true,
    "type": "object",
    "members": {
      "name": "string",
      "host": "string",
      "port": "number",
      "address": "string",
      "serviceType": "string",
      "serviceSubType?": "string",
      "languageName?": "string",
      "labels": "object",
      "id?": "string",
      "health": "string"
    }
  },
  "POST /api/v1/services 200": {
    "type": "object",
    "members": {
      "name": "string",
      "host": "string",
      "port": "number",
      "address": "string",
      "serviceType": "string",
      "serviceSubType?": "string",
      "languageName?": "string",
      "labels": "object",
      "id?": "string",
      "health": "string"
    }
  },
  "POST /api/v1/services 201": {
    "type": "object",
    "members": {
      "name": "string",
      "host": "string",
      "port": "number",
      "address": "string",
      "serviceType": "string",
      "serviceSubType?": "string",
      "languageName?": "string",
      "labels": "object",
      "id?": "string",
      "health": "string"
    }
  },
  "GET /api/v1/services/{name} 200": {
    "type": "object",
    "members": {
      "name": "string",
      "host": "string",
      "port": "number",
      "address": "string",
      "serviceType": "string",
      "serviceSubType?": "string",
      "languageName?": "string",
      "labels": "object",
      "id?": "string",
      "health": "string",
      "entries?": "array"
    }
  },
  "DELETE /api/v1/services/{name} 200": {
    "type": "object",
    "members": {
      "removed": "string",
      "count": "number"
    }
  },
  "POST /api/v1/services/{name}/provisions 200": {
    "type": "object",
    "members": {
      "configurationUri": "string",
      "secretUri": "string",
      "properties": "object"
    }
  },
  "GET /api/v1/evaluators 200": {
    "list": true,
    "type": "object",
    "members": {
      "name": "string",
      "trigger": "object",
      "llm": "object",
      "processor": "object",
      "on_error": "string"
    }
  },
  "PUT /api/v1/evaluators 200": {
    "list": true,
    "type": "object",
    "members": {
      "name": "string",
      "trigger": "object",
      "llm": "object",
      "processor": "object",
      "on_error": "string"
    }
  },
  "POST /api/v1/evaluators/dry-run 200": {
    "type": "object",
    "members": {
      "verdict": "string",
      "rejected": "boolean",
      "matches": "boolean",
      "reason?": "string",
      "error?": "object",
      "tools?": "array",
      "metadata?": "object",
      "ignored_responses": "number",
      "prompt": "string",
      "llm?": "object",
      "action?": "object",
      "log": "array",
      "copies": "array"
    }
  },
  "GET /api/v1/evaluators/llm-connections 200": {
    "list": true,
    "type": "string"
  },
  "GET /api/v1/evaluators/namespaces 200": {
    "type": "object"
  },
  "PUT /api/v1/evaluators/namespaces/{namespace} 200": {
    "type": "object",
    "members": {
      "namespace": "string",
      "conversation_id": "string"
    }
  },
  "DELETE /api/v1/evaluators/namespaces/{namespace} 200": {
    "type": "object",
    "members": {
      "unbound": "string"
    }
  },
  "GET /api/v1/evaluators/revisions 200": {
    "list": true,
    "type": "object",
    "members": {
      "id": "number",
      "created_at": "string",
      "activated_at?": "string",
      "status": "string",
      "checksum": "string",
      "origin": "string",
      "actor?": "string",
      "failure_reason?": "string"
    }
  },
  "GET /api/v1/evaluators/revisions/active 200": {
    "type": "object",
    "members": {
      "id": "number",
      "created_at": "string",
      "activated_at?": "string",
      "status": "string",
      "checksum": "string",
      "origin": "string",
      "actor?": "string",
      "failure_reason?": "string",
      "evaluators": "array",
      "skipped": "array"
    }
  },
  "GET /api/v1/evaluators/revisions/{id} 200": {
    "type": "object",
    "members": {
      "id": "number",
      "created_at": "string",
      "activated_at?": "string",
      "status": "string",
      "checksum": "string",
      "origin": "string",
      "actor?": "string",
      "failure_reason?": "string",
      "evaluators": "array",
      "skipped": "array"
    }
  },
  "POST /api/v1/evaluators/revisions/{id}/activate 200": {
    "list": true,
    "type": "object",
    "members": {
      "name": "string",
      "trigger": "object",
      "llm": "object",
      "processor": "object",
      "on_error": "string"
    }
  },
  "GET /api/v1/identity 200": {
    "type": "object|null",
    "members": {
      "anonymous?": "string",
      "inference?": "boolean",
      "proxy?": "object",
      "tokens?": "array",
      "keys?": "array",
      "roles?": "object"
    }
  },
  "PUT /api/v1/identity 200": {
    "type": "object",
    "members": {
      "anonymous": "string",
      "inference": "boolean",
      "proxy?": "object",
      "tokens": "array",
      "keys": "array",
      "roles?": "object"
    }
  },
  "GET /api/v1/identity/status 200": {
    "type": "object",
    "members": {
      "revision": "number",
      "warnings": "array",
      "keys": "array"
    }
  },
  "GET /api/v1/identity/revisions 200": {
    "list": true,
    "type": "object",
    "members": {
      "id": "number",
      "created_at": "string",
      "activated_at?": "string",
      "status": "string",
      "checksum": "string",
      "origin": "string",
      "actor?": "string",
      "failure_reason?": "string"
    }
  },
  "GET /api/v1/identity/revisions/active 200": {
    "type": "object",
    "members": {
      "id": "number",
      "created_at": "string",
      "activated_at?": "string",
      "status": "string",
      "checksum": "string",
      "origin": "string",
      "actor?": "string",
      "failure_reason?": "string",
      "identity": "object"
    }
  },
  "GET /api/v1/identity/revisions/{id} 200": {
    "type": "object",
    "members": {
      "id": "number",
      "created_at": "string",
      "activated_at?": "string",
      "status": "string",
      "checksum": "string",
      "origin": "string",
      "actor?": "string",
      "failure_reason?": "string",
      "identity": "object"
    }
  },
  "POST /api/v1/identity/revisions/{id}/activate 200": {
    "type": "object",
    "members": {
      "anonymous": "string",
      "inference": "boolean",
      "proxy?": "object",
      "tokens": "array",
      "keys": "array",
      "roles?": "object"
    }
  },
  "PUT /api/v1/state 200": {
    "type": "object",
    "members": {
      "changes": "array"
    }
  },
  "GET /api/v1/tool-calls 200": {
    "list": true,
    "type": "object",
    "members": {
      "eventId": "string",
      "eventType": "string",
      "timestamp": "string",
      "transport": "string",
      "namespace": "string",
      "toolName": "string",
      "toolType": "string",
      "forward?": "string",
      "serviceId?": "string",
      "serviceAddress": "string",
      "conversationId?": "string",
      "requestId?": "string",
      "via?": "string",
      "user?": "string",
      "evaluations?": "array",
      "argumentNames?": "array",
      "argumentCount?": "number",
      "headers?": "object",
      "body?": "string",
      "outcome?": "string",
      "isError?": "boolean",
      "content?": "array",
      "contentTruncated?": "boolean",
      "duration?": "number",
      "task?": "object",
      "errorCategory?": "string",
      "errorMessage?": "string",
      "evaluator?": "string",
      "reason?": "string"
    }
  },
  "GET /api/v1/tasks 200": {
    "list": true,
    "type": "object",
    "members": {
      "id": "string",
      "namespace": "string",
      "tool": "string",
      "forward?": "string",
      "user?": "string",
      "kind": "string",
      "internal?": "boolean",
      "status": "string",
      "statusMessage?": "string",
      "states": "array",
      "createdAt": "string",
      "lastUpdatedAt": "string",
      "expiresAt": "string",
      "eventId?": "string"
    }
  },
  "GET /api/v1/tasks/{id} 200": {
    "type": "object",
    "members": {
      "id": "string",
      "namespace": "string",
      "tool": "string",
      "forward?": "string",
      "user?": "string",
      "kind": "string",
      "internal?": "boolean",
      "status": "string",
      "statusMessage?": "string",
      "states": "array",
      "createdAt": "string",
      "lastUpdatedAt": "string",
      "expiresAt": "string",
      "eventId?": "string"
    }
  },
  "POST /api/v1/tasks/{id}/cancel 200": {
    "type": "object",
    "members": {
      "id": "string",
      "namespace": "string",
      "tool": "string",
      "forward?": "string",
      "user?": "string",
      "kind": "string",
      "internal?": "boolean",
      "status": "string",
      "statusMessage?": "string",
      "states": "array",
      "createdAt": "string",
      "lastUpdatedAt": "string",
      "expiresAt": "string",
      "eventId?": "string"
    }
  },
  "GET /api/v1/logs 200": {
    "list": true,
    "type": "object",
    "members": {
      "ts": "string",
      "level": "string",
      "target": "string",
      "msg": "string",
      "truncated?": "boolean"
    }
  },
  "GET /api/v1/interactions 200": {
    "list": true,
    "type": "object",
    "members": {
      "epoch_ms": "number",
      "path": "string",
      "conversation_id?": "string",
      "completion_id?": "string",
      "model?": "string",
      "status_code": "number",
      "duration_ms": "number",
      "request_truncated?": "boolean",
      "response_truncated?": "boolean"
    }
  },
  "DELETE /api/v1/interactions 200": {
    "type": "object",
    "members": {
      "cleared": "boolean"
    }
  },
  "POST /api/v1/config/inference 200": {
    "type": "object",
    "members": {
      "upstream": "string",
      "capacity": "number"
    }
  },
  "GET /healthz 200": {
    "type": "object",
    "members": {
      "status": "string"
    }
  },
  "GET /health 200": {
    "type": "object",
    "members": {
      "status": "string"
    }
  },
  "GET /readyz 200": {
    "type": "object",
    "members": {
      "status": "string",
      "skipped_evaluators?": "array",
      "database?": "string"
    }
  },
  "GET /api/v1/management/statistics 200": {
    "type": "object",
    "members": {
      "toolsCount": "number",
      "resourcesCount": "number",
      "promptsCount": "number",
      "forwardsCount": "number",
      "dataStoresCount": "number"
    }
  },
  "GET /api/v1/metrics 200": {
    "type": "object",
    "members": {
      "filters": "object",
      "evaluators": "object",
      "pipeline": "object",
      "gauges": "object",
      "hosts?": "object"
    }
  },
  "GET /api/v1/replicas 200": {
    "list": true,
    "type": "object",
    "members": {
      "id": "string",
      "self": "boolean",
      "version": "string",
      "startedAt": "string",
      "live": "boolean",
      "lag": "number",
      "load": "number",
      "forwards": "number"
    }
  },
  "GET /api/v1/time-series 200": {
    "type": "object",
    "members": {
      "since": "string",
      "step": "number",
      "service": "object",
      "series": "array"
    }
  },
  "GET /api/v1/plugins 200": {
    "list": true,
    "type": "object",
    "members": {
      "id": "string",
      "name": "string",
      "version": "string",
      "entrypoint": "string",
      "styles?": "array",
      "requires?": "object",
      "permissions?": "array"
    }
  },
  "GET /openapi.json 200": {
    "raw": true,
    "type": "object"
  },
  "POST /api/v1/diagnostics 200": {
    "type": "object",
    "members": {
      "version": "string",
      "checks": "array"
    }
  },
  "GET /api/v1/session 200": {
    "type": "object",
    "members": {
      "principal": "object",
      "rights": "array",
      "rejected?": "string",
      "signIn?": "object",
      "offer": "object"
    }
  },
  "POST /api/v1/session/logout 200": {
    "type": "object",
    "members": {
      "signedOut": "boolean"
    }
  },
  "GET /api/v1/sessions 200": {
    "list": true,
    "type": "object",
    "members": {
      "id": "string",
      "principal": "object",
      "person?": "string",
      "current": "boolean",
      "signedInAt": "string",
      "refreshedAt": "string",
      "expiresAt": "string"
    }
  },
  "DELETE /api/v1/sessions/{id} 200": {
    "type": "object",
    "members": {
      "removed": "string"
    }
  },
  "GET /api/v1/blocks 200": {
    "list": true,
    "type": "object",
    "members": {
      "id": "string",
      "since": "string",
      "until?": "string",
      "reason?": "string",
      "by?": "string"
    }
  },
  "GET /api/v1/blocks/{id} 200": {
    "type": "object",
    "members": {
      "id": "string",
      "since": "string",
      "until?": "string",
      "reason?": "string",
      "by?": "string"
    }
  },
  "PUT /api/v1/blocks/{id} 200": {
    "type": "object",
    "members": {
      "id": "string",
      "since": "string",
      "until?": "string",
      "reason?": "string",
      "by?": "string"
    }
  },
  "DELETE /api/v1/blocks/{id} 200": {
    "type": "object",
    "members": {
      "removed": "string"
    }
  }
};
