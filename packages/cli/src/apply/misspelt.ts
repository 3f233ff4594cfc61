import { toolAliases, toolMembers } from '@sluice/contract';
import { diffChars } from 'diff';

/** Members that say which tool of a forward is meant. */
const ORIGIN = ['forward', 'upstreamName'];
const OF_TOOLS = [...Object.keys(toolMembers.shape), ...Object.keys(toolAliases)];
/** Letters that may be too many or missing, a wrong one being both. */
const NEAR = 2;
/** Of a shorter one too little is left to be near to it. */
const SHORTEST = 3;

/**
 * The member of a tool that this one, which nobody knows, is most likely meant to be; undefined when it is known, or is
 * near to none. Case counts for nothing, nor do `-` and `_`.
 */
export function meantMember(member: string): string | undefined {
  const known = [...OF_TOOLS, ...ORIGIN];
  if (known.includes(member)) return undefined;
  const [nearest] = known
    .map((name) => ({ name, distance: distance(plain(member), plain(name)) }))
    .filter(({ name, distance }) => distance === 0 || (distance <= NEAR && name.length >= SHORTEST))
    .sort((a, b) => a.distance - b.distance);
  return nearest?.name;
}

function plain(member: string): string {
  return member.toLowerCase().replace(/[-_]/g, '');
}

function distance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > NEAR) return Number.POSITIVE_INFINITY;
  return diffChars(a, b)
    .filter(({ added, removed }) => added || removed)
    .reduce((sum, { value }) => sum + value.length, 0);
}
