import { isDotName } from '@sluice/contract';
import { isJsonObject, type JsonObject, type JsonValue, parseLossless } from '@sluice/protocol/json/parse';
import { type ApiResponse, Rejection } from './request.ts';

/** Type of a member. */
type Type =
  | (
      | 'name'
      | 'any name'
      | 'namespace'
      | 'text'
      | 'boolean'
      | 'filled'
      | 'object'
      | 'list'
      | 'labels'
      | 'address'
      | 'prefix'
    )
  | ('host:port' | 'port' | Choice);
interface Choice {
  readonly oneOf: readonly string[];
}

/** Declared members of a body. Other members are not checked. */
export interface Shape {
  readonly kind: string;
  readonly required: readonly string[];
  readonly members: Readonly<Record<string, Type>>;
  readonly aliases: Readonly<Record<string, string>>;
}

const COMMON = {
  namespace: 'namespace',
  labels: 'labels',
  enabled: 'boolean',
  configurationURI: 'text',
  id: 'text',
} as const;
const URIS = { configuration_uri: 'configurationURI', secrets_uri: 'secretsURI' };

/** Bodies of the API, for POST. */
export const SHAPES = {
  namespace: {
    kind: 'namespace',
    required: ['name'],
    members: { name: 'namespace', labels: 'labels' },
    aliases: { path: 'name' },
  },
  forward: {
    kind: 'forward',
    required: ['name', 'address'],
    members: { name: 'name', address: 'address', namespace: 'namespace', labels: 'labels', prefix: 'prefix' },
    aliases: {},
  },
  tool: {
    kind: 'tool',
    required: ['name', 'description', 'uri', 'toolType', 'input_schema'],
    members: {
      ...COMMON,
      ...{
        name: 'name',
        description: 'text',
        uri: 'filled',
        toolType: 'filled',
        input_schema: 'object',
        title: 'text',
      },
      ...{ annotations: 'object', icons: 'list', output_schema: 'object', secretsURI: 'text' },
    },
    aliases: { ...URIS, type: 'toolType', inputSchema: 'input_schema', outputSchema: 'output_schema' },
  },
  resource: {
    kind: 'resource',
    required: ['name', 'location', 'type'],
    members: {
      ...COMMON,
      ...{
        name: 'name',
        location: 'filled',
        type: 'filled',
        description: 'text',
        mimeType: 'text',
        secretsURI: 'text',
      },
    },
    aliases: { ...URIS, uri: 'location', mime_type: 'mimeType' },
  },
  prompt: {
    kind: 'prompt',
    required: ['name'],
    members: { ...COMMON, name: 'name', description: 'text', arguments: 'list', messages: 'list' },
    aliases: { configuration_uri: 'configurationURI' },
  },
  service: {
    kind: 'service',
    required: ['name', 'serviceType'],
    members: {
      ...{ name: 'name', address: 'host:port', host: 'filled', port: 'port', serviceSubType: 'text', id: 'text' },
      ...{ languageName: 'text', labels: 'labels' },
      serviceType: {
        oneOf: ['tool-invoker', 'resource-provider', 'multi-capability', 'code-execution-engine'],
      },
    },
    aliases: { serviceName: 'name', service_type: 'serviceType' },
  },
} as const satisfies Record<string, Shape>;

/** Body of a PUT: the name is optional, and may be one that only upstreams give. */
export function withoutName(shape: Shape): Shape {
  const { name } = shape.members;
  const members = { ...shape.members, ...(name === 'name' && { name: 'any name' as const }) };
  return { ...shape, members, required: shape.required.filter((member) => member !== 'name') };
}

/**
 * A body's members under canonical names. Throws {@link Rejection} 400: missing or invalid JSON, or members missing or mistyped,
 * which `details` names.
 */
export function readBody(text: string | undefined, shape: Shape): JsonObject {
  if (text === undefined || text === '') throw new Rejection(400, 'BAD_REQUEST', { message: 'request body required' });
  const value = parsed(text);
  if (!isJsonObject(value)) throw new Rejection(400, 'BAD_REQUEST', { message: `invalid ${shape.kind} JSON: ` });
  const body: JsonObject = {};
  for (const [member, content] of Object.entries(value)) {
    const canonical = shape.aliases[member];
    if (canonical === undefined) body[member] = content;
    else if (!(canonical in value)) body[canonical] = content;
  }
  const problems = [
    ...shape.required.filter((member) => !(member in body)),
    ...Object.entries(shape.members).flatMap(([member, type]) => faults(member, body[member], type)),
  ];
  if (problems.length > 0) throw invalid(problems);
  if (typeof body.name === 'string') body.name = body.name.trim();
  if (typeof body.namespace === 'string') body.namespace = body.namespace.trim();
  return body;
}

/** 400 that names these members. */
export function invalid(members: readonly string[]): Rejection {
  return new Rejection(400, 'BAD_REQUEST', { details: [...new Set(members)].sort() });
}

/** The members named in the details of a response, for comparison; other details unchanged. */
export function comparable(details: ApiResponse['details']): JsonValue | undefined {
  if (Array.isArray(details)) {
    return [...new Set(details.map((item) => (isJsonObject(item) ? String(item.path) : String(item))))].sort();
  }
  if (isJsonObject(details) && Array.isArray(details.uris)) return { ...details, uris: [...details.uris].sort() };
  return details;
}

function parsed(text: string): JsonValue | undefined {
  try {
    return parseLossless(text);
  } catch {
    return undefined;
  }
}

/** A name of a namespace. */
function isNamespace(text: string): boolean {
  return /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(text);
}

/** The invalid members: this one, or nested ones. */
function faults(member: string, value: JsonValue | undefined, type: Type): string[] {
  if (value === undefined) return [];
  if (type === 'labels' && isJsonObject(value)) {
    return Object.keys(value)
      .filter((label) => typeof value[label] !== 'string')
      .map((label) => `${member}.${label}`);
  }
  return matchesType(value, type) ? [] : [member];
}

function matchesType(value: JsonValue, type: Type): boolean {
  if (type === 'object' || type === 'labels') return isJsonObject(value);
  if (type === 'list') return Array.isArray(value);
  if (type === 'boolean') return typeof value === 'boolean';
  if (type === 'port') return typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 65_535;
  if (typeof value !== 'string') return false;
  if (typeof type === 'object') return type.oneOf.includes(value);
  const text = value.trim();
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the expression searches for control characters
  const control = /[\u0000-\u001f\u007f]/;
  switch (type) {
    case 'name':
      return !isDotName(text) && matchesType(value, 'any name');
    case 'any name':
      return text !== '' && [...text].length <= 256 && !control.test(text);
    case 'namespace':
      return isNamespace(text);
    case 'filled':
      return value !== '' && !control.test(value);
    case 'address':
      return /^https?:\/\/\S+$/.test(text);
    case 'host:port':
      return /^[^:/ ]+:\d{1,5}$/.test(text) && matchesType(Number(text.split(':')[1]), 'port');
    case 'prefix':
      return /^[A-Za-z0-9_.-]{1,32}$/.test(value);
    case 'text':
      return true;
  }
}
