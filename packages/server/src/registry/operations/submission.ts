import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import type { Kind, Labels } from '../entries.ts';
import { mcpName, registryMembers } from '../json.ts';
import { type Namespace, parseNamespace } from '../names.ts';
import { RegistryError } from './error.ts';

/** A tool, resource or prompt as a request describes it: checked by the contract, under canonical names. */
export interface Submission {
  readonly name?: string | undefined;
  readonly namespace?: string | undefined;
  readonly labels?: Labels | undefined;
  /** Everything else; numbers keep their spelling. */
  readonly [member: string]: JsonValue | undefined;
}

/** A submission taken apart into what an entry keeps apart. Undefined: not given. */
export interface Submitted {
  readonly name: string | undefined;
  /** Resources only. */
  readonly location: string | undefined;
  readonly namespace: Namespace | undefined;
  readonly labels: Labels;
  /** The registry's own members. */
  readonly members: JsonObject;
  /** Members of the MCP object, in MCP's spelling; without what it is addressed by. */
  readonly definition: JsonObject;
}

/** Members that an entry keeps in a place of its own, or that only the service sets. */
const SEPARATE = ['name', 'namespace', 'labels', 'forward', 'upstreamName', 'shadowed'];
/** A resource is addressed by its location alone, whatever MCP calls it. */
const SEPARATE_IN_RESOURCES = [...SEPARATE, 'location', 'uri', 'uriTemplate'];

/** Takes a submission apart. Read-only members are ignored (decisions 2.5). RegistryError on a bad namespace name. */
export function takeApart(kind: Kind, submission: Submission): Submitted {
  const separate = new Set(kind === 'resource' ? SEPARATE_IN_RESOURCES : SEPARATE);
  const own = new Set(registryMembers(kind));
  const members: [string, JsonValue][] = [];
  const definition: [string, JsonValue][] = [];
  for (const [member, value] of Object.entries(submission)) {
    if (value === undefined || separate.has(member)) continue;
    if (own.has(member)) members.push([member, value]);
    else definition.push([mcpName(kind, member), value]);
  }
  return {
    name: submission.name,
    location: kind === 'resource' && typeof submission.location === 'string' ? submission.location : undefined,
    namespace: submission.namespace === undefined ? undefined : namespaceOf(submission.namespace),
    labels: submission.labels ?? {},
    members: Object.fromEntries(members),
    definition: Object.fromEntries(definition),
  };
}

/** The text as a namespace; RegistryError BAD_REQUEST when it cannot be one. */
export function namespaceOf(name: string): Namespace {
  const namespace = parseNamespace(name);
  if (!namespace) throw new RegistryError('BAD_REQUEST', `invalid namespace name: ${name}`);
  return namespace;
}
