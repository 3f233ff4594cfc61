import { memberText } from '@sluice/protocol/json/scan';
import type { Era } from '@sluice/protocol/mcp/constants';
import { type Declaration, lastSegment, segmentsOf } from './upstream-capabilities.ts';

/** Capabilities that several forwards can have together: each request of theirs names whom it is for. */
const SHARED: ReadonlySet<string> = new Set(['tools', 'resources', 'prompts', 'completions', 'logging']);
/** Members that hold capabilities of their own. */
const NESTED = ['extensions', 'experimental'] as const;

/**
 * The capabilities of a namespace, as JSON text (mcp 6). Tools, resources and prompts always, since an upstream may come
 * up later; completions, log messages and resource subscriptions when a forward of either era declares them, since they
 * cross (mcp 5). What only one forward can be asked for, tasks and extensions among it, is advertised when exactly one
 * declares it, in the client's era, and in that forward's own words.
 */
export function advertisedCapabilities(declarations: readonly Declaration[], era: Era): string {
  const own = declarations.filter((one) => one.era === era);
  const subscribe = declarations.some(
    ({ capabilities }) => memberText(capabilities.get('resources') ?? '', 'subscribe') === 'true',
  );
  const parts = [
    '"tools":{"listChanged":true}',
    `"resources":{${subscribe ? '"subscribe":true,' : ''}"listChanged":true}`,
    '"prompts":{"listChanged":true}',
  ];
  for (const name of ['completions', 'logging']) {
    if (declarations.some(({ capabilities }) => capabilities.has(name))) parts.push(`"${name}":{}`);
  }
  const sole = soleDeclarers(declarations);
  for (const declaration of own) {
    for (const [key, text] of declaration.capabilities) {
      if (SHARED.has(key) || NESTED.some((name) => name === key) || sole.get(key) !== declaration) continue;
      // Clients refuse a whole answer for one member that they know and that is of another type.
      if (key !== 'tasks' || text.startsWith('{')) parts.push(`${JSON.stringify(key)}:${text}`);
    }
  }
  for (const name of NESTED) {
    const merged = own.flatMap((declaration) =>
      [...declaration[name]]
        .filter(([key, text]) => text.startsWith('{') && sole.get(lastSegment(key)) === declaration)
        .map(([key, text]) => `${JSON.stringify(key)}:${text}`),
    );
    if (merged.length > 0) parts.push(`"${name}":{${merged.join(',')}}`);
  }
  return `{${parts.join(',')}}`;
}

/** Who declares what, by the method segment that requests would come with; undefined where several do. */
function soleDeclarers(declarations: readonly Declaration[]): Map<string, Declaration | undefined> {
  const sole = new Map<string, Declaration | undefined>();
  for (const declaration of declarations) {
    for (const segment of new Set([...declaration.capabilities.keys(), ...segmentsOf(declaration)])) {
      sole.set(segment, sole.has(segment) ? undefined : declaration);
    }
  }
  return sole;
}
