import { z } from 'zod';
import { ERROR_STATUS, type ErrorCode, errorCode, errorObject, validationDetails } from '../envelope.ts';
import { jsonObject } from '../json.ts';
import { commonFailures, type Operation, type QueryParameter } from '../operations/operation.ts';
import { allOperations } from '../operations/operations.ts';
import { NamedSchemas, type Schema } from './schemas.ts';

/** What each failure means, for readers of the document (decisions 2.1, 7). */
const FAILURES: Readonly<Record<ErrorCode, string>> = {
  BAD_REQUEST: 'The request cannot be read, or its body breaks a rule: `details` names each member.',
  FORBIDDEN: 'The request names a Host or an Origin that is not accepted.',
  NOT_FOUND: 'Nothing has this name.',
  METHOD_NOT_ALLOWED: 'The path has other methods.',
  CONFLICT: 'The name is taken or means several, or what is there stands against it: `details` says what.',
  PAYLOAD_TOO_LARGE: 'The body is larger than 1 MiB.',
  UNPROCESSABLE: 'The body is well formed, but names what does not exist or breaks a rule: `details` may say where.',
  INTERNAL: 'The service failed and nothing has changed; its log says more.',
  BAD_GATEWAY: 'The other side could not be reached or gave no usable answer.',
  UNAVAILABLE: 'The service is starting or shutting down, or has as many clients of this as it takes.',
};

const TAGS: Readonly<Record<string, string>> = {
  namespaces: 'Each isolates what it holds and has an MCP endpoint of its own.',
  forwards: 'Upstream MCP servers, whose tools, resources and prompts are discovered.',
  tools: 'What agents can call.',
  resources: 'What agents can read; resource templates are among them.',
  prompts: 'What agents can ask to be prompted with.',
  services: 'Capability services, reached over gRPC.',
  evaluators: 'What judges requests: a trigger, a question to a model, and an action that decides.',
  'tool-calls': 'What is told of tool calls while they go on.',
  inference: 'What passes the inference listener, and where it goes.',
  service: 'What the service says of itself.',
};

/**
 * The OpenAPI 3.1 description of the management API (specification, "Endpoints"): plain JSON, made of the operations.
 * `version` is that of the service.
 */
export function openApiDocument(version: string) {
  const schemas = new NamedSchemas();
  const paths: Record<string, Record<string, object>> = {};
  for (const each of allOperations) {
    const path = paths[each.path] ?? {};
    paths[each.path] = path;
    path[each.method.toLowerCase()] = operationObject(each, schemas);
  }
  const responses = failureResponses(schemas);
  return {
    openapi: '3.1.1',
    info: {
      title: 'Sluice management API',
      version,
      description:
        'Every answer is `{"data": …, "error": null}`, in few cases with `warnings` beside these, or `{"data": null, "error": {"code", "message", "details"?}}`. Unknown members of a body and unknown query parameters are ignored, except that tools, resources and prompts keep further members as they are, and that a provision and the `llm` of an evaluator refuse them. Blanks around names and addresses are taken away before they are checked; a body may be nested 256 levels deep.\n\nHEAD is answered as GET, and OPTIONS with 204. A path that is not here is answered `NotFound`, a method that its path does not have `MethodNotAllowed` (but what `/api/v1/management/statistics` does not have is passed on to the legacy backend, and answered `UNAVAILABLE` where there is none), and what has a head of more than 16 KiB `RequestHeaderFieldsTooLarge`.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths,
    components: { schemas: schemas.all, responses },
  };
}

function operationObject(of: Operation, schemas: NamedSchemas): object {
  const { id, tag, summary, description, path, parameter, query = {}, body, answers, failures, method } = of;
  const parameters = [
    ...[...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({ ...pathParameter(parameter, schemas), name })),
    ...Object.entries(query).map(([name, parameter]) => queryParameter(name, parameter)),
  ];
  const responses: Record<string, object> = {};
  for (const [status, answer] of Object.entries(answers)) {
    const { description: what, data, warnings, location, etag, bare, events } = answer;
    const payload = schemas.answered(data);
    const headers = { ...(location && { Location: LOCATION }), ...(etag && { ETag: ETAG }) };
    responses[status] = {
      description: what,
      ...(Object.keys(headers).length > 0 && { headers }),
      content: events ? EVENT_STREAM : json(bare ? payload : envelope(payload, warnings && schemas.answered(warnings))),
    };
  }
  for (const code of new Set([...commonFailures(method), ...failures])) {
    responses[ERROR_STATUS[code]] = { $ref: `#/components/responses/${responseName(code)}` };
  }
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: { required: !body.optional, content: json(schemas.sent(body.schema)) } }),
    responses,
  };
}

const nameParameter = {
  in: 'path',
  required: true,
  description: 'The name, percent-encoded: a slash in it is `%2F`.',
  schema: { type: 'string', minLength: 1 },
};

/** The parameter of a path, without the name that stands for it there. */
function pathParameter(parameter: z.ZodType | undefined, schemas: NamedSchemas): object {
  if (parameter === undefined) return nameParameter;
  const { description, ...schema } = schemas.sent(parameter);
  return { in: 'path', required: true, description, schema };
}

const LOCATION = { description: 'Where it can be read.', required: true, schema: { type: 'string' } };

const ETAG = {
  description: 'The number of the active revision, in quotes; `"0"` when there is none.',
  required: true,
  schema: { type: 'string' },
};

const ALLOW = { description: 'The methods that the path has.', required: true, schema: { type: 'string' } };

function queryParameter(name: string, { description, values }: QueryParameter): object {
  return { name, in: 'query', description, schema: { type: 'string', ...(values && { enum: values }) } };
}

function json(schema: Schema): object {
  return { 'application/json': { schema } };
}

/** OpenAPI 3.1 has no words for what is in a stream's events; the operation's description says it. */
const EVENT_STREAM = { 'text/event-stream': { schema: { type: 'string' } } };

function envelope(data: Schema, warnings?: Schema): Schema {
  const properties = { data, error: { type: 'null' }, ...(warnings && { warnings }) } as const;
  return { type: 'object', properties, required: ['data', 'error'] };
}

function failureResponses(schemas: NamedSchemas): Record<string, object> {
  const used = new Set<ErrorCode>(['METHOD_NOT_ALLOWED']);
  for (const { method, failures } of allOperations) {
    for (const code of [...commonFailures(method), ...failures]) used.add(code);
  }
  const content = (code: ErrorCode) => json(schemas.answered(z.object({ data: z.null(), error: errorOf(code) })));
  const responses: Record<string, object> = {};
  for (const code of errorCode.options) {
    if (!used.has(code)) continue;
    responses[responseName(code)] = {
      description: FAILURES[code],
      ...(code === 'METHOD_NOT_ALLOWED' && { headers: { Allow: ALLOW } }),
      content: content(code),
    };
  }
  // Answered before there is an operation: it has no code of its own.
  const RequestHeaderFieldsTooLarge = {
    description: 'Path, query and headers have more than 16 KiB.',
    content: content('BAD_REQUEST'),
  };
  return { ...responses, RequestHeaderFieldsTooLarge };
}

/** The error object of one code: only some have details, each of its own form. */
function errorOf(code: ErrorCode): z.ZodType {
  const error = errorObject.omit({ details: true }).extend({ code: z.literal(code) });
  if (code === 'BAD_REQUEST' || code === 'UNPROCESSABLE')
    return error.extend({ details: validationDetails.optional() });
  return code === 'CONFLICT' ? error.extend({ details: jsonObject.optional() }) : error;
}

/** `NOT_FOUND` as `NotFound`. */
function responseName(code: ErrorCode): string {
  return code
    .toLowerCase()
    .split('_')
    .map((word) => `${word[0]?.toUpperCase()}${word.slice(1)}`)
    .join('');
}
