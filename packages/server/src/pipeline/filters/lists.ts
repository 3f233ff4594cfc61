import type { Forwards } from '../../forwards/forwards.ts';
import type { ClientProfiles } from '../../mcp/client-profile.ts';
import type { Kind } from '../../registry/entries.ts';
import type { Filter } from '../chain.ts';

/** What list filters work with. */
export interface ListParts {
  readonly forwards: Pick<Forwards, 'admit'>;
  readonly profiles: ClientProfiles;
}

/**
 * Answers list methods from memory: no upstream is asked (specification, "MCP request handling"). A client whose
 * capabilities nobody has declared before waits, within limits, until the forwards were asked with them.
 */
export function lists(methods: Readonly<Record<string, Kind>>, { forwards, profiles }: ListParts): Filter {
  // Not looked up in the record itself: methods come from outside, and every object has a `toString`.
  const kinds = new Map(Object.entries(methods));
  return ({ message, namespace, session, era, capabilities }) => {
    if (message?.kind !== 'request' || !namespace) return undefined;
    const kind = kinds.get(message.method);
    if (kind === undefined) return undefined;
    const { method } = message;
    const profile = session?.profile ?? profiles.of(era, capabilities);
    const admitted = forwards.admit(profile);
    if (!admitted) return { kind: 'result', ...namespace.shelves[kind].list(profile.view, method) };
    return admitted.then((current) => {
      const shelves = current.namespace(namespace.name)?.shelves ?? namespace.shelves;
      return { kind: 'result', ...shelves[kind].list(profile.view, method) };
    });
  };
}
