import type { Labels } from '@sluice/contract';
import { equal } from '@sluice/protocol/json/equal';
import type { JsonObject } from '@sluice/protocol/json/parse';
import type { DiscoveredTool } from './actual.ts';
import type { Overrides } from './desired.ts';
import { type Change, diffMembers } from './step.ts';

/** What a forward decides of its tools: where they are and how they are called unless somebody says otherwise. */
export interface ForwardDefaults {
  readonly namespace: string;
  readonly prefix: string;
}

/** The whole of a discovered tool that a PUT sets, `uri` and `toolType` being its forward's. */
export interface EffectiveTool {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Labels;
  readonly members: JsonObject;
}

/** Takes every change of an operator back. */
export const NO_OVERRIDES: Overrides = { name: undefined, namespace: undefined, labels: {}, members: {} };

/**
 * What a discovered tool will be once `wanted` is put on it: the members that are wanted, and for all others the
 * upstream's own (decisions 2.5).
 */
export function applyOverrides(wanted: Overrides, tool: DiscoveredTool, home: ForwardDefaults): EffectiveTool {
  const { upstream } = tool;
  const members = new Map(Object.entries(upstream));
  for (const [member, value] of Object.entries(wanted.members)) {
    const theirs = members.get(member);
    // The service takes a number for equal that lost its spelling on the way, and keeps the upstream's.
    if (value !== null && theirs !== undefined && equal(value, theirs)) continue;
    if (value !== null) members.set(member, value);
    else if (member === 'description') members.set(member, '');
    else members.delete(member);
  }
  for (const fixed of ['uri', 'toolType']) {
    const value = tool.members[fixed];
    if (value !== undefined) members.set(fixed, value);
  }
  const service = Object.entries(tool.labels).filter(([label]) => isServiceLabel(label));
  return {
    name: wanted.name ?? home.prefix + tool.upstreamName,
    namespace: wanted.namespace ?? home.namespace,
    labels: { ...wanted.labels, ...Object.fromEntries(service) },
    members: Object.fromEntries(members),
  };
}

/** What changes on a discovered tool when it becomes that. */
export function toolChanges({ name, namespace, labels, members }: DiscoveredTool, next: EffectiveTool): Change[] {
  return diffMembers({ name, namespace, labels, ...members }, flattenTool(next));
}

/** All of it as one map of members. */
export function flattenTool({ name, namespace, labels, members }: EffectiveTool): JsonObject {
  return { name, namespace, labels, ...members };
}

/** Labels that the service sets itself and that no PUT changes (decisions 2.6). */
export function isServiceLabel(label: string): boolean {
  return label.startsWith('service.') && label !== 'service.forward_headers';
}
