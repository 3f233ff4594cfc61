import { z } from 'zod';
import { commonErrors, type Operation, type QueryParameter, type SuccessResponse } from '../operations/operation.ts';
import { allOperations, operations } from '../operations/operations.ts';
import { type ErrorCode, errorCode, errorObject, pageInfo, validationDetails } from '../schemas/envelope.ts';
import { jsonObject } from '../schemas/json.ts';
import { ERROR_STATUS } from '../values.ts';
import { otherPaths, proxiedBesideNative, proxiedPathItems } from './other-paths.ts';
import { ComponentSchemas, type Schema } from './schemas.ts';
import { SECURITY_SCHEMES, security } from './security.ts';

/** Descriptions of the error responses. */
const ERROR_DESCRIPTIONS: Readonly<Record<ErrorCode, string>> = {
  BAD_REQUEST: 'Malformed request or invalid body; `details` lists the invalid members.',
  UNAUTHORIZED: 'The credential is not accepted, or missing where a right is required.',
  FORBIDDEN: 'The Host or Origin is not allowed, or the caller does not have the required right.',
  NOT_FOUND: 'Not found.',
  METHOD_NOT_ALLOWED: 'Method not allowed.',
  CONFLICT: 'Conflict with the current state, such as a duplicate or ambiguous name; `details` describes it.',
  PAYLOAD_TOO_LARGE: 'The request body exceeds 1 MiB, 4 MiB for an identity, or 16 MiB for a desired state.',
  UNPROCESSABLE: 'Well-formed body that violates a semantic rule; `details` may list the members.',
  INTERNAL: 'Internal error; nothing was changed. See the service log.',
  BAD_GATEWAY: 'The upstream or capability service is unreachable or sent an invalid response.',
  UNAVAILABLE: 'The service is starting or shutting down, or the client limit is reached.',
};

const TAGS: Readonly<Record<string, string>> = {
  namespaces: 'Isolated groups of entries, with one MCP endpoint each.',
  forwards: 'Upstream MCP servers.',
  tools: 'MCP tools.',
  resources: 'MCP resources and resource templates.',
  prompts: 'MCP prompts.',
  services: 'Capability services (gRPC).',
  evaluators: 'Policy for MCP requests: trigger, LLM prompt, WASM action.',
  identity: 'Who may call, and which roles they have.',
  state: 'Desired state of all of these.',
  'tool-calls': 'Events of tool calls.',
  tasks: 'Long tool calls.',
  inference: 'Recorded chat completions and the inference listener.',
  service: 'Health, statistics and metrics.',
  'sign-in': 'Who is signed in.',
  blocks: 'Principals, keys and forwards that are blocked.',
  'legacy backend': 'Paths that are proxied, with everything below them.',
};

/** Returns the OpenAPI 3.1 document of the management API as plain JSON. `version` is the version of the service. */
export function openApiDocument(version: string) {
  const schemas = new ComponentSchemas();
  const paths: Record<string, Record<string, object>> = {};
  for (const each of allOperations) {
    const path = paths[each.path] ?? {};
    paths[each.path] = path;
    path[each.method.toLowerCase()] = operationObject(each, schemas);
  }
  Object.assign(paths[operations.observability.statistics.path] ?? {}, proxiedBesideNative());
  const responses = errorResponses(schemas);
  return {
    openapi: '3.1.1',
    info: {
      title: 'Sluice management API',
      version,
      description:
        'Responses have the form `{"data": …, "error": null}`, with `warnings` or `page` for some operations, or `{"data": null, "error": {"code", "message", "details"?}}`. Unknown query parameters and unknown members of a body are ignored, with these exceptions: tools, resources and prompts store additional members, with a warning or only on request unless their names are those of MCP or begin with `x-`; provisions, the inference configuration, a desired state, blocks and the `llm` member of an evaluator reject them. Leading and trailing white space of names and addresses is trimmed. A body may be nested up to 256 levels deep, with at most 25,000 values and 5,000 members of one object; that of a desired state may have as many in each entry.\n\nHEAD is equivalent to GET; OPTIONS responds with 204. Unknown paths respond with `NotFound`, unsupported methods with `MethodNotAllowed`, request headers above 16 KiB with `RequestHeaderFieldsTooLarge`. Paths that are proxied to the legacy backend respond with `UNAVAILABLE` if none is configured.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths: { ...paths, ...otherPaths() },
    components: { schemas: schemas.all, responses, pathItems: proxiedPathItems(), securitySchemes: SECURITY_SCHEMES },
  };
}

function operationObject(operation: Operation, schemas: ComponentSchemas): object {
  const { id, tag, summary, description, path, right, query = {}, body } = operation;
  const parameters = [
    ...[...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
      ...pathParameter(operation.pathParameter, schemas),
      name,
    })),
    ...Object.entries(query).map(([name, parameter]) => queryParameter(name, parameter)),
  ];
  const responses: Record<string, object> = {};
  for (const [status, response] of Object.entries(operation.responses)) {
    responses[status] = responseObject(response, schemas);
  }
  for (const code of new Set([...commonErrors(operation), ...operation.errors])) {
    responses[ERROR_STATUS[code]] = { $ref: `#/components/responses/${responseName(code)}` };
  }
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    ...security(right),
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: { required: !body.optional, content: json(schemas.requestSchema(body.schema)) } }),
    responses,
  };
}

function responseObject(response: SuccessResponse, schemas: ComponentSchemas): object {
  const { description, location, etag, raw, eventStream, paged, ofAllReplicas, mediaType } = response;
  if (mediaType !== undefined) return { description, content: { [mediaType]: BINARY } };
  const data = schemas.responseSchema(response.data);
  const warnings = response.warnings && schemas.responseSchema(response.warnings);
  const pageSchema = paged && schemas.responseSchema(pageInfo);
  const headers = { ...(location && { Location: LOCATION }), ...(etag !== undefined && { ETag: etagHeader(etag) }) };
  return {
    description,
    ...(Object.keys(headers).length > 0 && { headers }),
    content: eventStream
      ? EVENT_STREAM
      : json(
          raw
            ? data
            : envelope(data, {
                ...(warnings && { warnings }),
                ...(pageSchema && { page: pageSchema }),
                ...(ofAllReplicas && { unanswered: UNANSWERED }),
              }),
        ),
  };
}

const NAME_PARAMETER = {
  in: 'path',
  required: true,
  description: 'Percent-encoded name (`/` as `%2F`).',
  schema: { type: 'string', minLength: 1 },
};

/** Returns the parameter object of a path parameter, without its name. */
function pathParameter(parameter: z.ZodType | undefined, schemas: ComponentSchemas): object {
  if (parameter === undefined) return NAME_PARAMETER;
  const { description, ...schema } = schemas.requestSchema(parameter);
  return { in: 'path', required: true, description, schema };
}

const LOCATION = { description: 'URL of the created object.', required: true, schema: { type: 'string' } };

function etagHeader(description: string): object {
  return { description, required: true, schema: { type: 'string' } };
}

const CHALLENGE = { description: 'The accepted scheme.', required: true, schema: { type: 'string' } };

const ALLOW = { description: 'Allowed methods.', required: true, schema: { type: 'string' } };

function queryParameter(name: string, { description, values }: QueryParameter): object {
  return { name, in: 'query', description, schema: { type: 'string', ...(values && { enum: values }) } };
}

function json(schema: Schema): object {
  return { 'application/json': { schema } };
}

/** Bytes have no schema in OpenAPI 3.1; generators of clients know this one of earlier versions. */
const BINARY = { schema: { type: 'string', format: 'binary' } };

/** OpenAPI 3.1 cannot describe the events of a stream; the operation's description does. */
const EVENT_STREAM = { 'text/event-stream': { schema: { type: 'string' } } };

const STALE = {
  const: true,
  description: 'The database that replicas share cannot be reached: this is the last known state. Otherwise missing.',
} as const;

const UNANSWERED = {
  type: 'array',
  items: { type: 'string' },
  description:
    'Ids of live replicas that did not answer in time: what they have in memory is missing. Otherwise missing.',
} as const;

function envelope(data: Schema, optional: Readonly<Record<string, Schema>>): Schema {
  const properties = { data, error: { type: 'null' }, ...optional, stale: STALE } as const;
  return { type: 'object', properties, required: ['data', 'error'] };
}

function errorResponses(schemas: ComponentSchemas): Record<string, object> {
  const used = new Set<ErrorCode>(['METHOD_NOT_ALLOWED']);
  for (const operation of allOperations) {
    for (const code of [...commonErrors(operation), ...operation.errors]) used.add(code);
  }
  const content = (code: ErrorCode) =>
    json(schemas.responseSchema(z.object({ data: z.null(), error: errorSchema(code) })));
  const responses: Record<string, object> = {};
  for (const code of errorCode.options) {
    if (!used.has(code)) continue;
    responses[responseName(code)] = {
      description: ERROR_DESCRIPTIONS[code],
      ...(code === 'METHOD_NOT_ALLOWED' && { headers: { Allow: ALLOW } }),
      ...(code === 'UNAUTHORIZED' && { headers: { 'WWW-Authenticate': CHALLENGE } }),
      content: content(code),
    };
  }
  // Sent before routing.
  const RequestHeaderFieldsTooLarge = {
    description: 'The request line and headers exceed 16 KiB.',
    content: content('PAYLOAD_TOO_LARGE'),
  };
  return { ...responses, RequestHeaderFieldsTooLarge };
}

/** Returns the schema of the error object of a code. */
function errorSchema(code: ErrorCode): z.ZodType {
  const error = errorObject.omit({ details: true }).extend({ code: z.literal(code) });
  if (code === 'BAD_REQUEST' || code === 'UNPROCESSABLE')
    return error.extend({ details: validationDetails.optional() });
  return code === 'CONFLICT' ? error.extend({ details: jsonObject.optional() }) : error;
}

/** Converts `NOT_FOUND` to `NotFound`. */
function responseName(code: ErrorCode): string {
  return code
    .toLowerCase()
    .split('_')
    .map((word) => `${word[0]?.toUpperCase()}${word.slice(1)}`)
    .join('');
}
