import { toolAliases, toolMembers } from '@sluice/contract';
import { closestMatch } from '../nearest.ts';

/** Members that say which tool of a forward is meant. */
const ORIGIN_MEMBERS = ['forward', 'upstreamName'];
const TOOL_MEMBERS = [...Object.keys(toolMembers.shape), ...Object.keys(toolAliases)];

/**
 * The member of a tool that this one, which nobody knows, is most likely meant to be; undefined when it is known, or is
 * near to none. Case counts for nothing, nor do `-` and `_`.
 */
export function suggestMember(member: string): string | undefined {
  const known = [...TOOL_MEMBERS, ...ORIGIN_MEMBERS];
  return known.includes(member) ? undefined : closestMatch(member, known);
}
