import { z } from 'zod';
import { promptMembers, resourceMembers, suggestUriMember, toolMembers } from './entries.ts';

/** Members of the objects of MCP's schemas, in either era. */
const MCP_MEMBERS = ['name', 'title', 'description', 'icons', '_meta'];

/** Names of the members that entries of a kind can have, in REST and on MCP. */
const KNOWN: Readonly<Record<'tool' | 'resource' | 'prompt', ReadonlySet<string>>> = {
  tool: new Set([
    ...Object.keys(toolMembers.shape),
    ...MCP_MEMBERS,
    'inputSchema',
    'outputSchema',
    'annotations',
    'execution',
  ]),
  resource: new Set([
    ...Object.keys(resourceMembers.shape),
    ...MCP_MEMBERS,
    'uri',
    'uriTemplate',
    'size',
    'annotations',
  ]),
  prompt: new Set([...Object.keys(promptMembers.shape), ...MCP_MEMBERS]),
};

/** Members that the service adds to entries, and ignores in bodies. */
const READ_ONLY: ReadonlySet<string> = new Set(['forward', 'upstreamName', 'shadowed', 'upstream']);

/** Kind of an entry. */
type EntryKind = keyof typeof KNOWN;

/**
 * Returns the unknown ones among the members of a tool, resource or prompt: those that neither its schema nor MCP's has and that
 * do not begin with `x-`.
 */
export function unknownMembers(kind: EntryKind, members: Iterable<string>): string[] {
  return [...members].filter(
    (member) => !KNOWN[kind].has(member) && !READ_ONLY.has(member) && !member.startsWith('x-'),
  );
}

/** Returns the likeliest right name of an unknown member; undefined if none is similar. */
export function suggestMember(kind: EntryKind, member: string): string | undefined {
  return suggestUriMember(member) ?? closestName(member, KNOWN[kind]);
}

/** Maximum edit distance of a suggestion. */
const MAX_DISTANCE = 2;

function closestName(member: string, known: ReadonlySet<string>): string | undefined {
  const [closest] = [...known]
    // Shorter names are similar to many others.
    .filter((name) => name.length > MAX_DISTANCE && Math.abs(name.length - member.length) <= MAX_DISTANCE)
    .map((name) => ({ name, distance: editDistance(member.toLowerCase(), name.toLowerCase()) }))
    .filter(({ distance }) => distance <= MAX_DISTANCE)
    .sort((a, b) => a.distance - b.distance);
  return closest?.name;
}

/** Number of letters to insert, delete or replace. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + Number(a[i - 1] !== b[j - 1]);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

/** Warnings of a created or updated entry. */
export const entryWarnings = z.array(
  z.object({
    code: z.literal('UNKNOWN_MEMBER').describe('The member is stored and sent to MCP clients, but may be misspelled.'),
    member: z.string(),
    message: z.string(),
  }),
);

export type EntryWarning = z.infer<typeof entryWarnings>[number];
