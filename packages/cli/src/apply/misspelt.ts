import { toolAliases, toolMembers } from '@sluice/contract';
import { nearest } from '../nearest.ts';

/** Members that say which tool of a forward is meant. */
const ORIGIN = ['forward', 'upstreamName'];
const OF_TOOLS = [...Object.keys(toolMembers.shape), ...Object.keys(toolAliases)];

/**
 * The member of a tool that this one, which nobody knows, is most likely meant to be; undefined when it is known, or is
 * near to none. Case counts for nothing, nor do `-` and `_`.
 */
export function meantMember(member: string): string | undefined {
  const known = [...OF_TOOLS, ...ORIGIN];
  return known.includes(member) ? undefined : nearest(member, known);
}
